"""Diagnosis of a failed run from the guest's console and the emulator's messages."""

import os
import re

from scmsim.core.text import printable

_FAILED = re.compile(r"scmsim: failed: (\w+) (.*): errno (\d+)")
_TAIL = 3  # lines that an error quotes
# The kernel's reports of a fault (arch/x86/mm/fault.c, kernel/traps.c, lib/bug.c), and its report of the faulting
# instruction, such as "RIP: 0010:name+0x12/0x340 [module]".
_REPORT = re.compile(r"BUG: |kernel BUG at |general protection fault|divide error|invalid opcode|Oops: ")
_PLACE = re.compile(r"RIP: [0-9a-f]{4}:(?:([\w.]+)\+0x[0-9a-f]+/0x[0-9a-f]+(?: \[\w+\])?|(?:0x)?[0-9a-f]+)")
_WHAT_TO_DO = {
    "module": "the module does not fit the kernel; is --modules the folder of this kernel?",
    "find": "choose a kernel that has it, or give its modules with --modules",
    "dax": "choose a kernel with CONFIG_FS_DAX, or measure without DAX",
    "mount": "does the kernel have this file system?",
    "run": "mkfs refused; see its message",
}


def finished(text: str) -> bool:
    """Return whether the guest ran its job to the end."""
    return "\nscmsim: finished" in text.replace("\r", "")


def diagnose(text: str, messages: str, status: int | None) -> str:
    """Return one line on why a run failed: `text` is the guest's console, `messages` the emulator's standard error.

    `status` is the emulator's exit status, None if the emulator was stopped at its time limit.
    """
    lines = [line.strip() for line in re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", text).replace("\r", "").splitlines()]
    lines = [line for line in lines if line]
    panic = next((line for line in lines if "Kernel panic" in line), None)
    if panic:
        return f"the guest's kernel panicked: {_cut(_said(panic))}{_fault(lines) or '; ' + _tail(lines)}"
    failed = next((match for match in map(_FAILED.fullmatch, lines) if match), None)
    if failed:
        error = os.strerror(int(failed[3])).lower()
        advice = _WHAT_TO_DO.get(failed[1], "see the last lines of its console")
        before = [line for line in lines if not line.startswith("scmsim:")]
        return f"the guest failed at {failed[1]} {_cut(failed[2])} ({error}); {advice}; {_tail(before)}"
    plugin = next((line for line in messages.splitlines() if "plugin" in line.lower()), None)
    if plugin:
        return f"the emulator refused or lost the plugin: {_cut(plugin.strip())}"
    if status is None:
        return f"the guest exceeded its time limit (--timeout); {_tail(lines)}"
    last = _cut(messages.strip().splitlines()[-1]) if messages.strip() else "it said nothing"
    if status < 0 and not messages.strip():
        last = f"signal {-status}; is the disk or /dev/shm full?"
    return f"the emulator ended with status {status}: {last}; {_tail(lines)}"


def _fault(lines: list[str]) -> str:
    """Return the kernel's first fault report before its panic, and the faulting instruction; "" without a report."""
    at = next((number for number, line in enumerate(lines) if _REPORT.search(line)), None)
    # from the report on, because an earlier warning names a place of its own
    places = (match for line in lines[at or 0 :] if (match := _PLACE.search(line)))
    place = next(places, None)
    found = f"; {_cut(_said(lines[at]))}" if at is not None else ""
    if place:
        found += f"; in {place[1] or 'unknown code'} ({_cut(place[0])})"
    return found


def _said(line: str) -> str:
    """Return a line of the kernel without its timestamp."""
    return re.sub(r"^\[[^]]*\] ", "", line)


def _tail(lines: list[str]) -> str:
    if not lines:
        return "the console is empty"
    return "the console ends: " + " | ".join(_cut(line) for line in lines[-_TAIL:])


def _cut(line: str) -> str:
    return printable(line[:160])
