"""What a rough trace is worth: programs recorded by strace and by Darshan, and both traces replayed.

    python -m tests.verification.darshan_rough PREFIX [FS ...]

PREFIX is where Darshan 3 was installed (configure --prefix=PREFIX --without-mpi in its sources, make install).  Each program
runs once under strace and once with PREFIX/lib/libdarshan.so preloaded.  Printed are the calls and bytes of both traces, and
replays of both: the number of the trace of every call, that of the rough trace, and their ratio.  The programs are deterministic.
"""

import os
import pathlib
import subprocess
import sys
import tempfile

import scmsim
from scmsim.core.records import CLOSE, CREATE, OPEN, OPS, READ, STAT, WRITE
from scmsim.trace import TraceWriter, open_trace
from scmsim.trace.formats import find
from scmsim.trace.formats.files import darshan_parser

FIO = "fio --name=j --directory=. --thread --ioengine=psync --disable_lat=1 --size=16m --fallocate=none"
SQL = "create table t(a integer primary key, b text); " + "".join(
    f"insert into t values({k * 7919 % 1009}, '{'x' * (k % 300)}'); " for k in range(300)
)
LINES = """#include <stdio.h>
int main(void) {
    FILE *f = fopen("log", "w");
    for (int k = 0; k < 20000; k++) fprintf(f, "line %d of the log\\n", k);
    return fclose(f);
}
"""
PROGRAMS = {
    "fio, writes in order, 64 KiB": f"{FIO} --rw=write --bs=64k",
    "fio, random writes, 4 KiB, fsync after 32": f"{FIO} --rw=randwrite --bs=4k --fsync=32",
    "fio, random reads, 4 KiB": f"{FIO} --rw=randread --bs=4k",
    "fio, random reads and writes, 512 B to 16 KiB": f"{FIO} --rw=randrw --bs=512-16k --bs_unaligned",
    "dd, 1,000 x 10,000 B": "dd if=/dev/zero of=./f bs=10000 count=1000 conv=fsync",
    "sqlite3, 300 transactions": f'sqlite3 ./db "{SQL}"',
    "C library, 20,000 lines": "./lines",
}
COUNTERS = ("dtlb_load_misses_walk_completed", "dtlb_store_misses_walk_completed", "media_bytes_64", "media_bytes_4096")
DATA = (READ, WRITE)


def main() -> None:
    """Print the tables."""
    prefix, systems = pathlib.Path(sys.argv[1]), sys.argv[2:] or ["nova-cow", "ext4-dax"]
    for name, program in PROGRAMS.items():
        with tempfile.TemporaryDirectory(prefix="rough") as folder:
            exact, rough = recorded(program, prefix, pathlib.Path(folder))
            print(f"\n{name}\n  calls of every call / rough: {calls(exact)} / {calls(rough)}")
            for fs in systems:
                one, other = (scmsim.replay(path, fs).runs[0] for path in (exact, rough))
                stored, times = (
                    [sum(values.values()) for values in both]
                    for both in ((one.stored_bytes, other.stored_bytes), (one.time_ns, other.time_ns))
                )
                pairs = [(f, one.counters.get(f, 0), other.counters.get(f, 0)) for f in COUNTERS]
                pairs += [("stored bytes", *stored), ("estimated ns", *times)]
                print(
                    f"  {fs:10}"
                    + ", ".join(f"{what} {a:,.0f} -> {b:,.0f} ({b / max(a, 1):.2f})" for what, a, b in pairs)
                )


def calls(path: pathlib.Path) -> str:
    """Rows by operation, and bytes."""
    trace, counts, moved = (
        open_trace(path),
        dict.fromkeys((OPEN, CREATE, *DATA, STAT, CLOSE), 0),
        dict.fromkeys(DATA, 0),
    )
    for batch in trace.batches():
        for op in counts:
            counts[op] += int((batch["op"] == op).sum())
        for op in DATA:
            moved[op] += int(batch["length"][batch["op"] == op].sum())
    return ", ".join(
        [f"{OPS[op]} {n:,}" for op, n in counts.items()] + [f"{OPS[op]} bytes {n:,}" for op, n in moved.items()]
    )


def recorded(program: str, prefix: pathlib.Path, folder: pathlib.Path) -> tuple[pathlib.Path, pathlib.Path]:
    """The traces of both recorders."""
    out = []
    for kind in ("strace", "darshan"):
        work = folder / kind / "work"
        work.mkdir(parents=True)
        text = folder / kind / "text"
        if program == "./lines":
            subprocess.run(["cc", "-x", "c", "-", "-o", "lines"], input=LINES, text=True, cwd=work, check=True)
        if kind == "strace":
            command = f"strace -f -ttt -T -y -s 0 -o {text} {program}"
            subprocess.run(
                command, shell=True, cwd=work, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            )
            importer, options = find(text)[1], {}
        else:
            environment = {
                **os.environ, "DARSHAN_ENABLE_NONMPI": "1", "DARSHAN_LOGFILE": str(folder / "log"),
                "LD_PRELOAD": str(prefix / "lib/libdarshan.so"),
            }  # fmt: skip
            subprocess.run(f"exec {program}", shell=True, executable="/bin/sh", cwd=work, check=True, env=environment,
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # fmt: skip
            with text.open("w") as file:
                subprocess.run([prefix / "bin/darshan-parser", folder / "log"], check=True, stdout=file)
            importer, options = darshan_parser, {"stdio_buffer": 4096}
        out.append(folder / f"{kind}.parquet")
        with TraceWriter(out[-1], {}) as writer:
            importer.convert(text, writer, under=str(work), **options)
    return out[0], out[1]


if __name__ == "__main__":
    main()
