"""The forms of a trace: the options of strace that people give, older texts made of newer ones, and other tracers.

A form is how the program is traced, and how the text is changed before scmsim reads it.
"""

import glob
import os
import random
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.programs.program import Place

_CALLS = "%file,%desc,%process,io_submit,prlimit64,close_range"


@dataclass(frozen=True)
class Form:
    """One form; `options` are those of strace."""

    name: str
    options: tuple[str, ...] = ()
    to_stderr: bool = False
    per_process: bool = False  # -ff
    change: Callable[[str], str] | None = None
    tracer: str = "strace"
    named: bool = True  # whether the trace has paths

    def command(self, place: Place) -> list[str]:
        """Return the tracer's command, to which the program's is added."""
        if self.tracer == "perf":
            events = [word for event in self.options for word in ("-e", event)]
            return ["perf", "record", "-q", "-o", place.out + ".perf", "-m", "4M", *events, "--"]
        if self.tracer == "capture":
            return [
                sys.executable,
                "-m",
                "scmsim",
                "capture",
                *self.options,
                *(("--under", place.folder) if self.named else ()),  # no name, nothing under a folder
                "-o",
                place.out + ".parquet",
                "--",
            ]
        return ["strace", *(() if self.to_stderr else ("-o", place.out)), *self.options]

    def popen(self, place: Place) -> dict[str, Any]:
        """Return what the tracer's process needs besides; remove what a run that got stuck has left."""
        for part in glob.glob(place.out + ".[0-9]*"):
            os.unlink(part)
        quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL}
        return quiet | {"stderr": open(place.out if self.to_stderr else os.devnull, "wb")}

    def text(self, place: Place) -> str:
        """Return the path of the finished text."""
        if self.tracer == "perf":
            with open(place.out, "wb") as out:
                fields = "comm,pid,tid,time,event,trace"
                command = ["perf", "script", "-i", place.out + ".perf", "--ns", "--show-lost-events", "-F", fields]
                subprocess.run(command, stdout=out, stderr=subprocess.DEVNULL, check=True)
        if self.per_process:
            with open(place.out, "wb") as out:
                subprocess.run(["strace-log-merge", place.out], stdout=out, check=True)
            for part in glob.glob(place.out + ".*"):
                os.unlink(part)
        if self.change is not None:
            with open(place.out, encoding="latin-1") as file:
                text = self.change(file.read())
            with open(place.out, "w", encoding="latin-1") as file:
                file.write(text)
        return place.out

    def why_not(self) -> str:
        """Return why this form cannot be had on this machine; empty if it can."""
        needed = {"strace": "strace", "perf": "perf", "capture": "strace"}[self.tracer]
        if "bpf" in self.options and shutil.which("bpftrace") is None:
            return "no bpftrace"
        if self.per_process and shutil.which("strace-log-merge") is None:
            return "no strace-log-merge"
        if shutil.which(needed) is None:
            return f"no {needed}"
        if self.tracer == "perf" or "hybrid" in self.options:
            tried = subprocess.run(
                ["perf", "record", "-q", "-o", os.devnull, "-e", "raw_syscalls:sys_enter", "true"], capture_output=True
            )
            return "" if tried.returncode == 0 else "perf may not record raw_syscalls"
        return ""


def _deleted_within(text: str) -> str:
    """Put "(deleted)" where strace before 5.19 put it."""
    return re.sub(r"<([^<>\n]*)>\(deleted\)", r"<\1 (deleted)>", text)


def _attached(line: re.Match[str]) -> str:
    pid, start, name, rest, child = line.groups()
    return f"{pid}{start}{name}(strace: Process {child} attached\n{pid}{start}<... {name} resumed>{rest} = {child}"


def _old_messages(text: str) -> str:
    """Put the messages of strace 4.x inside the calls that make a task, as they come on stderr."""
    pattern = re.compile(r"^((?:\[pid +\d+\] )?)(.*?)\b(clone|fork|vfork)\((.*\)) += (\d+)$", re.MULTILINE)

    def split(m: re.Match[str]) -> str:
        head, stamp, name, rest, child = m.groups()
        own = head or "[pid     1] "
        return f"{head}{stamp}{name}(Process {child} attached\n{own if head else ''}{rest} = {child}"

    text = re.sub(r"^(?:\[pid +\d+\] )?strace: Process \d+ attached\n", "", text, flags=re.MULTILINE)
    return pattern.sub(split, text)


_Y = ("-f", "-ttt", "-y", "-s", "0")
FORMS = [
    Form("best", ("-f", "-ttt", "-T", "-y", "-s", "0")),
    Form("plain", ("-f",)),
    Form("-y", ("-f", "-y")),
    Form("-yy", ("-f", "-yy", "-ttt")),
    Form("-t", ("-f", "-t", "-y")),
    Form("-tt", ("-f", "-tt")),
    Form("-r", ("-f", "-r", "-y")),
    Form("-r -t", ("-f", "-r", "-t")),
    Form("-T", ("-f", "-T")),
    Form("-X raw", (*_Y, "-X", "raw")),
    Form("-X verbose", (*_Y, "-X", "verbose")),
    Form("-X raw, no -y", ("-f", "-X", "raw")),
    Form("-n", (*_Y, "-n")),
    Form("-i", (*_Y, "-i")),
    Form("-k", (*_Y, "-k")),
    Form("-v", ("-f", "-v", "-tt")),
    Form("-s 32", ("-f", "-s", "32", "-ttt")),
    Form("-x", ("-f", "-x", "-y")),
    Form("-xx", ("-f", "-xx", "-y")),
    Form("-xx, no -y", ("-f", "-xx")),
    Form("-e trace=", ("-f", "-ttt", "-y", "-e", f"trace={_CALLS}")),
    Form("--decode-pids=comm", ("-f", "-y", "--decode-pids=comm")),
    Form("--decode-pids=pidns", ("-f", "-ttt", "--decode-pids=pidns")),
    Form("-Y", ("-f", "-Y", "-ttt")),
    Form("--timestamps=unix,us", ("-f", "-y", "--timestamps=unix,us")),
    Form("--timestamps=unix,ns", ("-f", "-y", "--timestamps=unix,ns")),
    Form("--timestamps=unix,s", ("-f", "-y", "--timestamps=unix,s")),
    Form("-z", ("-f", "-y", "-z")),
    Form("-a 80", ("-f", "-a", "80", "-y")),
    Form("-C", ("-f", "-C", "-y")),
    Form("stderr", ("-f",), to_stderr=True),
    Form("stderr -y", ("-f", "-y", "-ttt"), to_stderr=True),
    Form("-ff, merged", ("-ff", "-ttt", "-y"), per_process=True),
    Form("-ff, merged, no -y", ("-ff", "-ttt"), per_process=True),
    Form("--seccomp-bpf", ("-f", "--seccomp-bpf", "-y", "-ttt", "-e", f"trace={_CALLS}")),
    Form("before 5.19", ("-f", "-y"), change=_deleted_within),
    Form("4.x stderr", ("-f", "-y"), to_stderr=True, change=lambda text: _old_messages(_deleted_within(text))),
    Form("4.x stderr, no -y", ("-f",), to_stderr=True, change=_old_messages),
    Form("perf raw", ("raw_syscalls:*",), tracer="perf", named=False),
    Form("perf named", ("syscalls:*",), tracer="perf", named=False),
    Form("capture strace", ("--backend", "strace"), tracer="capture"),
    Form("capture hybrid", ("--backend", "hybrid"), tracer="capture"),
    Form("capture bpf", ("--backend", "bpf"), tracer="capture"),
    Form("capture perf", ("--backend", "perf"), tracer="capture", named=False),
]
BY_NAME = {form.name: form for form in FORMS}
SLOW = ("perf named", "-k", *(form.name for form in FORMS if form.tracer == "capture"))  # for those who name them
# forms that are known to be read right; too few of SLOW have run to say so of them, and a file that is opened twice is two
# objects where perf records no names, which the trace says but the comparison does not excuse
SURE_FORMS = tuple(name for name in BY_NAME if name not in (*SLOW, "perf raw"))
_OPTIONS: tuple[tuple[tuple[str, ...], ...], ...] = (
    ((), ("-y",), ("-yy",)),
    ((), ("-r",), ("-t",), ("-tt",), ("-ttt",)),
    ((), ("-T",)),
    ((), ("-X", "raw"), ("-X", "verbose")),
    ((), ("-n",)),
    ((), ("-i",)),
    ((), ("-v",)),
    ((), ("-s", "0"), ("-s", "32")),
    ((), ("-x",), ("-xx",)),
    ((), ("-z",)),
)


def mixed(seed: str) -> Form:
    """Draw options of strace that are given together."""
    draw = random.Random(seed)
    options = [word for group in _OPTIONS for word in (draw.choice(group) if draw.random() < 0.5 else group[0])]
    return Form("mixed: " + " ".join(["-f", *options]), ("-f", *options), to_stderr=draw.random() < 0.3)
