r"""Import text of perf script with sampled data addresses, joined with the mappings.

    perf mem record --data-page-size -o DATA -- CMD                          # a sample of the loads and stores
    perf record -e exceptions:page_fault_user -c 1 -d -o DATA -- CMD         # or faults: the first touch of each page
    perf script -i DATA --ns --show-mmap-events --show-task-events -F comm,pid,tid,time,event,addr,data_src,data_page_size

(for the tracepoint, the field `trace` instead of the last three).  The mappings are the text's records PERF_RECORD_MMAP2.  Perf
writes no record for munmap, so a mapping ends where a later one replaces it.  With `calls`, the mappings are those of a strace
of the same run, which sees munmap and msync.  Perf must then use `perf record -k CLOCK_MONOTONIC`, and `shift` is the number of
seconds to add to perf's times to get times since 1970:

    python3 -c 'import time; print(f"{time.time() - time.monotonic():.6f}")'

Each sample is one access out of many.  Its row has one byte, the only byte that the access certainly touched.
Source: tools/perf/builtin-script.c, util/event.c, util/mem-events.c of Linux 6.1, and perf's own output of page faults.
"""

import os
import re

from scmsim.core.errors import UsageError
from scmsim.trace.formats.addresses._accesses import BOTH, LOADS, STORES
from scmsim.trace.formats.addresses._joined import USER_END, Timed
from scmsim.trace.reading.importing import Import, importer
from scmsim.trace.reading.lines import BadLine
from scmsim.trace.reading.report import Report
from scmsim.trace.syscalls import importer as why
from scmsim.trace.syscalls.as_strace import ORIGIN, quoted_bytes
from scmsim.trace.syscalls.names import is_special

SUMMARY = "text of perf script with addresses of data: perf mem record, or page faults, with the mappings"
PARAMS = {
    "calls": ("", "file", "text of the strace -f -y -ttt of the same run; none: the mappings are in the text"),
    "shift": ("0", "text", "with calls: seconds to add to perf's clock to get the time since 1970"),
}

RECORD = "record of perf that maps nothing"
KERNEL = "address of the kernel"
FETCH = "fault of an instruction fetch"
CHAIN = "line of a call chain"
OTHER = "another event"
NEITHER = "sample that is neither a load nor a store"
PROTECTED = "mapping that exists already (mprotect)"
_TOOL = "text of perf script with addresses of data"
_SECOND = 10**9
_MOST_SHIFT = 4 * 10**9  # limit of `shift`, s
_SNIFF = re.compile(
    rb"\|OP [A-Z]|(?:page|minor|major)-faults[:\w]*:\s+[0-9a-f]{5,16}\b|exceptions:page_fault_user:|PERF_RECORD_MMAP2 \d"
)
_LINE = re.compile(
    r"(?>\s*)(?:.{1,32}?\s)??(?>(?:(\d{1,10})/)?)(\d{1,10})(?>\s+)(?>(?:\[\d+\]\s+)?)(\d{1,9})\.(\d{6}(?:\d{3})?):(?>\s+)(.*)"
)
_MMAP = re.compile(
    r"MMAP2? (\d{1,10})/(\d{1,10}): \[(0x[0-9a-f]{1,16}|0)\((0x[0-9a-f]{1,16}|0)\) @ (0x[0-9a-f]{1,16}|0)[^\]]{0,80}\]: "
    r"([rwxsp-]{1,4}) (.*)"
)
_FORK = re.compile(r"FORK\((\d{1,10}):(\d{1,10})\):\((\d{1,10}):(\d{1,10})\)")
_EXEC = re.compile(r"COMM exec: .*:(\d{1,10})/(\d{1,10})$")
_LOST = re.compile(r"LOST(?:_SAMPLES)?\s+lost (\d{1,15})")
_EVENT = re.compile(r"(?>(?:\d{1,19}\s+)?)(\S{1,400}):(?:(?>\s+)(.*))?$")
_FAULT = re.compile(r"address=(?:0x)?([0-9a-f]{1,16}) .*error_code=(?:0x)?([0-9a-f]{1,4})")
_SAMPLE = re.compile(r"([0-9a-f]{1,16})(?:\s(.*))?$")
_OP = re.compile(r"\|OP ([^|]{1,60})\|")
_PAGE = re.compile(r"\s(\d{1,4}[KMG])$")
_CALL_CHAIN = re.compile(r"\s+[0-9a-f]{4,16}(?:\s|$)")
_STORED, _FETCHED = 2, 16  # bits of a fault's error code on x86 (arch/x86/include/asm/trap_pf.h)


def sniff(head: bytes, path: str | os.PathLike[str]) -> bool:
    """Return whether the first lines hold samples with an address, or mappings."""
    return b"\0" not in head and b"syscalls:sys_" not in head and _SNIFF.search(head) is not None


@importer
def convert(job: Import, calls: str = "", shift: str = "0") -> Report:
    """Convert the text and close the writer (see `scmsim.trace.formats`, and PARAMS)."""
    ns = _shift(shift) if calls else ORIGIN * _SECOND
    work = _Samples(job, calls, ns)
    work.read()
    work.tell_early()
    spots = ["samples: not every access is in the trace; a row has one byte, the only byte that was certainly touched"]
    if not calls:
        spots.append("perf records no munmap and no msync: a mapping ends where a later mapping replaces it")
    return work.finish(spots)


def _shift(text: str) -> int:
    """Parse a number of seconds and return it in ns; raise UsageError if the text is not a number."""
    m = re.fullmatch(r"(-?)(\d{1,10})(?:\.(\d{1,9}))?", text)
    if m is None or int(m[2]) > _MOST_SHIFT:
        raise UsageError(f"a shift of {text!r} is not a number of seconds like 1700000000.123456")
    ns = int(m[2]) * _SECOND + int(f"{m[3] or '':0<9}")
    return -ns if m[1] else ns


class _Samples(Timed):
    """The conversion of one text, line by line."""

    def __init__(self, job: Import, calls: str, shift: int) -> None:
        how = "print it with --show-mmap-events, or name a strace of the same run with --set calls=FILE"
        super().__init__(job, "perf-mem", _TOOL, how, calls)
        self.shift, self.in_text = shift, not calls
        self.early: list[tuple[str, str]] = []  # (thread, call) before the first time

    def take(self, line: str) -> None:
        """Process one line; raise BadLine if it is not understood."""
        found = _LINE.fullmatch(line)
        if found is None:
            self._odd(line)
        elif found[5].startswith("PERF_RECORD_"):
            self._moment(found)
            self._record(found[5][len("PERF_RECORD_") :])
        else:
            self._sample(found)

    def _odd(self, line: str) -> None:
        if not line.strip():
            self.work.leave_out(why.BLANK)
        elif line.startswith("#"):
            self.work.leave_out("title")
        elif _CALL_CHAIN.match(line):
            self.work.leave_out(CHAIN)
        else:
            raise BadLine("this is not a line of perf script with a thread and a time")

    def _moment(self, found: re.Match[str]) -> None:
        ns = int(found[3]) * _SECOND + int(f"{found[4]:0<9}")
        if ns:  # a record without a time describes the state before the recording
            self.until(max(ns + self.shift, 0))
            self.tell_early()

    def _record(self, text: str) -> None:
        if m := _LOST.match(text):
            self.work.report.lost_events += int(m[1])
            self.work.leave_out("lost events")
        elif not self.in_text:
            self.work.leave_out(RECORD)
        elif m := _MMAP.fullmatch(text):
            self._mapping(m)
        elif m := _FORK.fullmatch(text):
            pid, tid, parent, by = m.groups()
            self.task(by, parent)
            shares = "CLONE_VM|CLONE_FS|CLONE_FILES" if pid == parent else "SIGCHLD"
            self._told(by, f"clone(child_stack=NULL, flags={shares}) = {tid}")
        elif m := _EXEC.fullmatch(text):
            self.task(m[2], m[1])
            self._told(m[2], 'execve("", [], 0x0) = 0')
        else:
            self.work.leave_out(RECORD)

    def _mapping(self, m: re.Match[str]) -> None:
        pid, tid = m[1], m[2]
        start, length, offset = (int(text, 16) for text in m.group(3, 4, 5))
        if length <= 0 or start + length > USER_END:
            self.work.leave_out(KERNEL)
            return
        task, path = self.task(tid, pid), m[7].removesuffix(" (deleted)")
        if not path.startswith("/") or path.startswith("//") or is_special(path) or offset + length >= 1 << 60:
            self._told(tid, f"mmap(NULL, {length}, PROT_NONE, MAP_PRIVATE|MAP_ANONYMOUS, -1, 0) = {start:#x}")
            return
        self.flush()
        there = list(task.maps.within(start, start + length))
        same = all(one.path == path and at - low == offset - start for low, _, one, at in there)
        if there and same and sum(high - low for low, high, _, _ in there) == length:
            self.work.leave_out(PROTECTED)
            return
        protection = "|".join(word for letter, word in (("r", "PROT_READ"), ("w", "PROT_WRITE")) if letter in m[6])
        kind = "MAP_PRIVATE" if m[6].endswith("p") else "MAP_SHARED"
        name = quoted_bytes(path.encode("latin-1"))[1:-1].replace("<", r"\074").replace(">", r"\076")
        gone = "(deleted)" if path != m[7] else ""
        self._told(
            tid, f"mmap(NULL, {length}, {protection or 'PROT_NONE'}, {kind}, 3<{name}>{gone}, {offset}) = {start:#x}"
        )

    def _told(self, thread: str, call: str) -> None:
        """Process a call at the current time, or keep the call until the text has a time."""
        ns = self.moment
        if ns:
            self.line(f"{thread} {ns // _SECOND}.{ns % _SECOND:09} {call}")
        else:
            self.early.append((thread, call))

    def tell_early(self) -> None:
        """Process the calls from before the first time of the text."""
        early, self.early = self.early, []
        self.moment = self.moment or ORIGIN * _SECOND
        for thread, call in early:
            self._told(thread, call)

    def _sample(self, found: re.Match[str]) -> None:
        event = _EVENT.fullmatch(found[5])
        if event is None:
            raise BadLine("a sample without the name of its event; print it with -F event")
        name, text = event[1], event[2] or ""
        if name == "exceptions:page_fault_user":
            kind, address, page = _of_fault(text)
        else:
            kind, address, page = _of_sample(name, text)
        if isinstance(kind, str):
            self.work.leave_out(kind)
            return
        self._moment(found)
        if address >= USER_END:
            self.work.leave_out(KERNEL)
            return
        self.access(self.task(found[2], found[1]), kind, address, 1, page)


def _of_fault(text: str) -> tuple[int | str, int, str]:
    """Return kind (or the reason to leave it out), address and page size of a page_fault_user event."""
    m = _FAULT.match(text)
    if m is None:
        raise BadLine("a page fault without its address; print it with -F trace")
    code = int(m[2], 16)
    if code & _FETCHED:
        return FETCH, 0, ""
    return STORES if code & _STORED else LOADS, int(m[1], 16), ""


def _of_sample(name: str, text: str) -> tuple[int | str, int, str]:
    """Return kind (or the reason to leave it out), address and page size of a sample: load, store or page fault."""
    op = _OP.search(text)
    kind: int | str = OTHER
    if op:
        loads, stores = "LOAD" in op[1], "STORE" in op[1]
        kind = BOTH if loads and stores else LOADS if loads else STORES if stores else NEITHER
    elif "fault" in name or "load" in name:
        kind = LOADS
    elif "store" in name:
        kind = STORES
    if isinstance(kind, str):
        return kind, 0, ""
    m = _SAMPLE.match(text)
    if m is None or (m[2] or "").lstrip().startswith("|OP"):
        raise BadLine("a sample without an address; print it with -F addr")
    page = _PAGE.search(text)
    return kind, int(m[1], 16), page[1] if page else ""
