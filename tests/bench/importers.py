"""Lines per second of the importers, beside a loop that only splits each line: for `run.py`, or on its own."""

import pathlib
import sys
import tempfile
import time
from collections.abc import Callable, Iterator

Line = tuple[str, str]


def strace_data(lines: int) -> Iterator[str]:
    """Random writes to one file, as `strace -f -ttt -T -y -s 0` writes them."""
    yield '100 1700000000.000000 openat(AT_FDCWD</>, "/data/f", O_RDWR|O_CREAT, 0644) = 3</data/f> <0.000009>\n'
    for i in range(lines - 1):
        when = 1_700_000_000 + i * 2e-5
        yield f'100 {when:.6f} pwrite64(3</data/f>, ""..., 4096, {i * 7919 % 65536 * 4096}) = 4096 <0.000009>\n'


def strace_paths(lines: int) -> Iterator[str]:
    """An open, a write, a read and a close of one file after the other."""
    for i in range(lines // 4):
        yield from strace_group(f"/data/f{i % 1000}", 1_700_000_000 + i * 1e-4)


def strace_group(name: str, when: float) -> Iterator[str]:
    """An open, a write, a read and a close."""
    yield f'100 {when:.6f} openat(AT_FDCWD</>, "{name}", O_RDWR|O_CREAT, 0644) = 3<{name}> <0.000009>\n'
    yield f'100 {when + 1e-5:.6f} write(3<{name}>, ""..., 4096) = 4096 <0.000009>\n'
    yield f'100 {when + 2e-5:.6f} pread64(3<{name}>, ""..., 4096, 0) = 4096 <0.000009>\n'
    yield f"100 {when + 3e-5:.6f} close(3<{name}>) = 0 <0.000009>\n"


def _perf(calls: Iterator[tuple[int, str, int]]) -> Iterator[str]:
    for i, (number, words, result) in enumerate(calls):
        yield f" 100/100   {2400 + i * 2e-6:.9f}: raw_syscalls:sys_enter: NR {number} ({words}, 0, 0)\n"
        yield f" 100/100   {2400 + i * 2e-6 + 1e-6:.9f}:  raw_syscalls:sys_exit: NR {number} = {result}\n"


_OPEN = (257, "ffffff9c, 5603ec53a080, 242, 1a4", 3)


def perf_data(lines: int) -> Iterator[str]:
    """Random writes to one file, as perf script shows raw_syscalls."""
    writes = ((18, f"3, 5603ec53a080, 1000, {i * 7919 % 65536 * 4096:x}", 4096) for i in range(lines // 2 - 1))
    yield from _perf(call for calls in ([_OPEN], writes) for call in calls)


def perf_paths(lines: int) -> Iterator[str]:
    """An open, a write, a read and a close, again and again."""
    some = (_OPEN, (1, "3, 5603ec53a080, 1000, 0", 4096), (17, "3, 5603ec53a080, 1000, 0", 4096), (3, "3, 0, 0, 0", 0))
    yield from _perf(some[i % 4] for i in range(lines // 2))


def msr(lines: int) -> Iterator[str]:
    """A block trace of MSR Cambridge."""
    for i in range(lines):
        yield f"{128166372003061629 + 9000 * i},hm,0,{('Read', 'Write')[i & 1]},{i * 7919 % 1000003 * 4096},4096,26\n"


def fio_iolog(lines: int) -> Iterator[str]:
    """An I/O log of fio, version 3."""
    yield "fio version 3 iolog\n1 /data/f add\n2 /data/f open\n"
    for i in range(lines - 3):
        yield f"{i + 3} /data/f {('read', 'write')[i & 1]} {i * 7919 % 65536 * 4096} 4096\n"


def strace_new_paths(lines: int) -> Iterator[str]:
    """The same of a new file each time."""
    for i in range(lines // 4):
        yield from strace_group(f"/data/d{i % 97}/f{i}", 1_700_000_000 + i * 1e-4)


def lackey(lines: int) -> Iterator[str]:
    """Fetches, accesses to other memory and to a mapped file, and a write() every 1,000 lines, as Valgrind writes them."""
    yield "SYSCALL[7,1](257) sys_openat ( 4294967196, 0x1fff00096f(/data/f), 66, 420 )[sync] --> Success(0x4) \n"
    yield "SYSCALL[7,1](9) sys_mmap ( 0x0, 67108864, 3, 1, 4, 0 ) --> [pre-success] Success(0x4a2b000) \n"
    for i in range(2, lines):
        if i % 1000 == 0:
            yield f"SYSCALL[7,1](18) sys_pwrite64 ( 4, 0x10a004, 100, {i} )[sync] --> Success(0x64) \n"
        elif i % 6 < 3:
            yield f"I  {0x401A0 + i % 9999 * 4:08x},{3 + i % 4}\n"
        else:
            where = 0x1FFE000000 + i % 4096 * 8 if i % 6 == 3 else 0x4A2B000 + i // 60 * 7919 % 8192 * 8192 + i % 60 * 8
            yield f" {'LLS'[i % 3]} {where:08x},8\n"


CASES: tuple[tuple[str, str, Callable[[int], Iterator[str]]], ...] = (
    ("strace", "strace, data calls", strace_data), ("strace", "strace, open write read close", strace_paths),
    ("strace", "strace, the same of a new file each time", strace_new_paths),
    ("perf-script", "perf script, data calls", perf_data),
    ("perf-script", "perf script, open write read close", perf_paths),
    ("lackey", "lackey, a call in 1,000 lines", lackey), ("msr", "MSR Cambridge CSV", msr), ("fio-iolog", "fio iolog", fio_iolog),
)  # fmt: skip


def rates(lines: int) -> Iterator[Line]:
    """CPU seconds of each importer, kernels loaded, the trace written; and of `line.split()` on the same lines."""
    from scmsim.core import registry
    from scmsim.trace.store import TraceWriter

    with tempfile.TemporaryDirectory() as folder:
        path, out = pathlib.Path(folder) / "in", pathlib.Path(folder) / "out.parquet"

        def convert(name: str) -> None:
            with TraceWriter(out, {}) as writer:
                registry.load("format", name).convert(path, writer)

        for name, what, make in CASES:
            path.write_text("".join(make(min(lines, 40_000))))
            convert(name)  # compiles kernels, or loads them
            path.write_text("".join(make(lines)))
            start = time.process_time()
            with open(path, encoding="utf-8") as file:
                for line in file:
                    line.split()
            split = time.process_time() - start
            start = time.process_time()
            convert(name)
            took = time.process_time() - start
            yield f"import: {what}", f"{lines / took:>14,.0f} lines/s ({lines / split:,.0f} by split() alone)"


def stored(rows: int) -> Iterator[Line]:
    """CPU seconds of reading a stored trace, every row checked."""
    from scmsim.trace import TraceWriter, open_trace
    from scmsim.workload import thesis

    source = thesis.Workload(op="rewrite", total=4096 * rows)
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "t.parquet"
        with TraceWriter(path, {}) as writer:
            for batch in source.batches():
                writer.append(batch)
            writer.close(source.files)
        start = time.process_time()
        count = sum(len(batch) for batch in open_trace(path).batches())
        yield "read a stored trace", f"{count / (time.process_time() - start):>14,.0f} operations/s"


if __name__ == "__main__":
    sys.path.insert(0, str(pathlib.Path(__file__).parents[2]))
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 400_000
    for row in (*stored(20 * count), *rates(count)):
        print(f"{row[0]:<62}{row[1]}", flush=True)
