"""Capture calls, loads and stores of mapped files of one process with Valgrind's lackey; no root needed, very slow."""

import contextlib
import os
import re
import shutil
import stat
import subprocess
import time
from typing import Any

from scmsim.core.errors import EnvironmentProblem, UsageError
from scmsim.trace.capture import Captured, _initial_descriptors
from scmsim.trace.capture import _run as common

SUMMARY = (
    "Valgrind's lackey: loads and stores of mapped files, and calls, of one process; no root; 1.5 us per instruction"
)
CALIBRATES = False  # its cost grows with instructions, not with calls

_TOOL = ("--tool=lackey", "--trace-mem=yes", "--trace-syscalls=yes", "--trace-sched=yes")
_ALONE = ("-q", "--child-silent-after-fork=yes", "--trace-children=no")


@common.recorder
def capture(job: common.Job) -> Captured:
    """Run a command under Valgrind and store its calls, loads and stores.

    With `keep_raw`, Valgrind's text is kept, without instruction fetches.
    """
    from scmsim.trace.formats.addresses import lackey as text

    if job.options.pid is not None:
        raise UsageError("Valgrind cannot attach to a process; give a command, or use --backend perf --mmap")
    with job.prepared() as (_, raw):
        with common.signals_held() as before:
            valgrind, version = probe()
            sieve = Sieve(_initial_descriptors.descriptors(os.getpid(), inherited_only=True))
            start = time.monotonic_ns()
            with common.collected(raw, kept=job.is_kept, sieve=sieve) as pipe:
                argv = [valgrind, *_TOOL, *_ALONE, f"--log-file={pipe}", "--", *job.command]
                status, pid = common.run(argv, before, os.kill)
        header: dict[str, Any] = {"tool": "valgrind lackey", "tool_version": version, "options": [*_TOOL, *_ALONE]}
        header |= {**job.facts(status, start), "instructions": sieve.fetches}
        header["program"] = os.path.realpath(shutil.which(job.command[0]) or job.command[0])
        header["notes"] = [_cost(header)]
        with common.disk_watched(raw, kept=job.is_kept), open(raw, "ab") as file:
            file.write(sieve.sizes(pid))
        return job.store(status, raw, header, convert=text.convert, tool="Valgrind")


def probe() -> tuple[str, str]:
    """Return the path and version of Valgrind; raise EnvironmentProblem if it cannot trace here."""
    valgrind = shutil.which("valgrind")
    if valgrind is None:
        raise EnvironmentProblem("valgrind is not installed; install it, on Debian with 'apt install valgrind'")
    version = subprocess.run([valgrind, "--version"], capture_output=True, text=True, check=False).stdout
    test = [valgrind, *_TOOL, *_ALONE, f"--log-file={os.devnull}", "--", shutil.which("true") or "/bin/true"]
    result = subprocess.run(test, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    common.stop_if_asked()
    if result.returncode:
        said = (result.stderr.strip().splitlines() or [f"exit status {result.returncode}"])[0]
        raise EnvironmentProblem(f"valgrind does not work here ({said}); update it, or use --backend perf --mmap")
    return valgrind, version.strip().removeprefix("valgrind-")


def _cost(header: dict[str, Any]) -> str:
    seconds, count = header["wall_ns"] / 1e9, header["instructions"]
    return (
        f"under Valgrind the command took {seconds:.1f} s for {count:,} instructions; a processor runs some 10^9 of them a "
        "second; the times in the trace are line numbers of the recording"
    )


class Sieve:
    """A filter of Valgrind's text that drops instruction fetches, which are about three in four lines.

    Parameters
    ----------
    seeds : list of bytes
        Calls that describe the descriptors open at the start, inserted before the first call of the text.
    """

    def __init__(self, seeds: list[bytes]) -> None:
        self.fetches = 0
        self._seeds = seeds
        self._opened: set[bytes] = set()
        self._rest = b""

    def __call__(self, block: bytes) -> bytes:
        """Return the lines to keep of the next block, which may end within a line; an empty block ends the text."""
        block, dot, self._rest = (self._rest + block).rpartition(b"\n") if block else (self._rest, b"", b"")
        block, fetches = _FETCH.subn(b"", block + dot)
        self.fetches += fetches
        if b"SYSCALL[" in block:
            self._opened.update(_OPENED.findall(block))
            if self._seeds:
                block = _FIRST.sub(self._seeded, block, count=1)
        return block

    def _seeded(self, m: re.Match[bytes]) -> bytes:
        seeds, self._seeds = self._seeds, []
        return b"".join(b"%s %s\n" % (m[1], seed) for seed in seeds) + m[0]

    def sizes(self, pid: int) -> bytes:
        """Return lines of text that state the current lengths of the opened files: calls of `file_size`, see `syscalls.memory`."""
        out = []
        for name in sorted(self._opened):
            with contextlib.suppress(OSError, ValueError):
                about = os.stat(name)
                if stat.S_ISREG(about.st_mode):
                    out.append(
                        b'%d file_size("%s", %d) = 0\n' % (pid, _initial_descriptors.quoted(name), about.st_size)
                    )
        return b"".join(out)


_FETCH = re.compile(rb"^I  .*\n", re.MULTILINE)
_OPENED = re.compile(rb"^SYSCALL\[.* sys_open(?:at)? \( (?:\d+, )?0x[0-9a-f]+\((.*)\), ", re.MULTILINE)
_FIRST = re.compile(rb"^SYSCALL\[(\d+),", re.MULTILINE)
