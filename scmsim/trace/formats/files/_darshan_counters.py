"""Read Darshan's counters of a file: those of POSIX, STDIO and MPI-IO (include/darshan-*-log-format.h of Darshan 3).

A file used through MPI-IO usually has a POSIX record too, with the calls that reached the file system.  So the MPI-IO record
counts only if the file has no POSIX record.  Calls of the C library (STDIO) are not in POSIX.  A counter of -1 was not monitored.
"""

from collections import Counter
from collections.abc import Mapping

from scmsim.trace.formats.files._dxt import Segments
from scmsim.trace.formats.files._rough import ROUGH, FileCounters, Moved, Span, add_rows
from scmsim.trace.formats.files._rough_offsets import Order
from scmsim.trace.formats.files._rough_sizes import LARGEST, Total, class_of
from scmsim.trace.reading.builder import TraceBuilder

MODULES = {"POSIX": "POSIX_", "STDIO": "STDIO_", "MPI-IO": "MPIIO_"}  # prefix of each module's counters
NOTES = (
    "rough trace: numbers of calls and of bytes are Darshan's; sizes follow its histogram and common sizes, offsets its "
    "numbers of sequential and consecutive calls; the order of calls, the bytes that a call touches and its time are assumptions",
    "a file that was opened to be created, and of which nothing was read before it was written, counts as created",
)
Values = Mapping[str, float]  # counters by their names without the prefix
_CLASSES = ("0_100", "100_1K", "1K_10K", "10K_100K", "100K_1M", "1M_4M", "4M_10M", "10M_100M", "100M_1G", "1G_PLUS")
_KINDS_OF_MPI = ("INDEP", "COLL", "SPLIT", "NB")
_STREAMS = ("<STDIN>", "<STDOUT>", "<STDERR>")
_LONGEST_S = 1e9  # a larger value is not a time stamp
_NO_ROW = {  # counters of calls that make no row -> the call's name in the report
    "SEEKS": "seek",
    "MMAPS": "mmap",
    "RENAME_SOURCES": "rename",
    "FLUSHES": "fflush",
    "FILENOS": "fileno",
    "FDOPENS": "fdopen",
    "DUPS": "dup",
}
_BLIND = ("mmap", "rename")  # of these: calls that change a file system, so the trace lists them as blind spots


class Records:
    """Collector of a log's records; `finish` makes their rows.

    Parameters
    ----------
    builder : TraceBuilder
    stdio_buffer : int
        Buffer size of the C library, bytes: the calls that fill a buffer become one system call; 0: each call is a row.
    """

    def __init__(self, builder: TraceBuilder, stdio_buffer: int) -> None:
        self.builder, self.stdio_buffer = builder, stdio_buffer
        self.segments = Segments(builder, with_empty=True)
        self.without_row: Counter[str] = Counter()
        self._mpi: list[tuple[str, str, int, Values]] = []
        self._posix: set[str] = set()
        self._found: list[tuple[FileCounters, int]] = []

    def add(self, module: str, ident: str, path: str, rank: int, values: Values) -> None:
        """Add one record; `ident` identifies the file in the log, `rank` is -1 for all ranks together."""
        if module == "MPI-IO":
            self._mpi.append((ident, path, rank, values))
            return
        if module == "POSIX":
            self._posix.add(ident)
        if path in _STREAMS:
            self.without_row[f"record of {path.strip('<>').lower()}"] += 1
            return
        for name, call in _NO_ROW.items():
            if count := _count(values, name):
                self.without_row[call] += count
                if call in _BLIND:
                    self.builder.report.blind[call] += count
        self._take(_counted(module, path, rank, values, self.stdio_buffer))

    def _take(self, counters: FileCounters) -> None:
        report = self.builder.report
        if problem := counters.problem():
            report.lines += 1
            self.builder.bad(f"impossible counters of {counters.path!r}: {problem}", report.lines)
            return
        self.segments.expect(counters.calls)
        counters.thread = self.builder.thread(counters.thread)
        self._found.append((counters, self.builder.file(counters.path)))

    def finish(self) -> None:
        """Make the rows, sort them by time and pass them to the builder."""
        for ident, path, rank, values in self._mpi:
            if ident in self._posix:
                self.without_row["record of MPI-IO (POSIX has its calls)"] += 1
            else:
                self._take(_counted("MPI-IO", path, rank, values, 0))
        created = self._created()
        for counters, file in self._found:
            add_rows(self.segments, counters, file, creates=(file, id(counters)) in created)
        self.segments.finish()
        report = self.builder.report
        report.rough = ROUGH
        for what, count in self.without_row.items():
            report.lines += count
            report.left_out[what if what.startswith("record") else f"{what}: no offset, or no model"] += count

    def _created(self) -> set[tuple[int, int]]:
        """Return the records whose first open creates a file, and give those files no size before the trace."""
        by_file: dict[int, list[FileCounters]] = {}
        for counters, file in self._found:
            if file >= 0:
                by_file.setdefault(file, []).append(counters)
        out = set()
        for file, records in by_file.items():
            touching = [one for one in records if one.reads.total.bytes or one.writes.total.bytes]
            if touching and all(one.creates() for one in touching):
                first = min((one for one in records if one.opens), key=lambda one: one.opened.first)
                out.add((file, id(first)))
                self.builder.first[file] = -1
        return out


def _count(values: Values, name: str) -> int:
    return max(int(values.get(name, 0)), 0)


def _ns(values: Values, *names: str) -> int:
    """Return the first of the named time stamps that was recorded, in ns; 0 if none was recorded."""
    for name in names:
        if 0 < (seconds := values.get(f"F_{name}_TIMESTAMP", 0)) < _LONGEST_S:
            return round(seconds * 1e9)
    return 0


def _counted(module: str, path: str, rank: int, values: Values, buffer: int) -> FileCounters:
    known = [(_count(values, f"ACCESS{k}_ACCESS"), _count(values, f"ACCESS{k}_COUNT")) for k in (1, 2, 3, 4)]
    opened = Span(_ns(values, "OPEN_START", "OPEN"), _ns(values, "OPEN_END"))
    last = max(_ns(values, f"{what}_END") for what in ("OPEN", "READ", "WRITE", "CLOSE"))
    one = FileCounters(
        path,
        rank,
        _moved(module, values, "READ", "READ", opened),
        _moved(module, values, "WRITE", "WRITTEN", opened),
        known,
        opens=_count(values, "OPENS") - _count(values, "FILENOS") - _count(values, "DUPS") - _count(values, "FDOPENS"),
        closes=_ns(values, "CLOSE_END", "CLOSE") > 0,
        stats=_count(values, "STATS"),
        syncs=_count(values, "FSYNCS") + _count(values, "SYNCS"),
        data_syncs=_count(values, "FDSYNCS"),
        may_create=_count(values, "MODE") > 0 and module == "POSIX",
        opened=opened,
        closed=Span(_ns(values, "CLOSE_START"), last),
    )
    if module == "MPI-IO":
        one.opens = _count(values, "INDEP_OPENS") + _count(values, "COLL_OPENS")
    one.opens = max(one.opens, 0)
    if buffer and module == "STDIO":
        _buffered(one, buffer)
    return one


def _moved(module: str, values: Values, name: str, past: str, opened: Span) -> Moved:
    """Return the reads (`name` and `past` READ) or the writes (WRITE, WRITTEN) of a record, as its counters' names have them."""
    if module == "MPI-IO":
        count = sum(_count(values, f"{kind}_{name}S") for kind in _KINDS_OF_MPI)
        classes = tuple(_count(values, f"SIZE_{name}_AGG_{each}") for each in _CLASSES)
    else:
        count = _count(values, f"{name}S")
        classes = tuple(_count(values, f"SIZE_{name}_{each}") for each in _CLASSES) if module == "POSIX" else ()
    start = max(_ns(values, f"{name}_START"), opened.first)
    moved = Moved(Total(count, _count(values, f"BYTES_{past}"), classes), span=Span(start, _ns(values, f"{name}_END")))
    if f"SEQ_{name}S" in values:
        moved.order = Order(_count(values, f"SEQ_{name}S"), _count(values, f"CONSEC_{name}S"))
    if count and (last := values.get(f"MAX_BYTE_{past}", -1)) >= 0:
        moved.order = moved.order._replace(end=int(last) + 1)
    return moved


def _buffered(one: FileCounters, buffer: int) -> None:
    """Replace calls of the C library by its system calls: one per full buffer and one for the rest."""
    for moved in (one.reads, one.writes):
        full, rest = divmod(moved.total.bytes, buffer)
        known = [(buffer, full), (rest, int(rest > 0))]
        classes = tuple(sum(count for size, count in known if class_of(size) == k) for k in range(len(LARGEST)))
        if sum(classes) <= moved.total.calls:  # a larger sum: some calls exceed the buffer and bypass it
            moved.total = Total(sum(classes), moved.total.bytes, classes)
            one.known += known
