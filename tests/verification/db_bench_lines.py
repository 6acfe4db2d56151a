"""db_bench's command lines beside the real program under strace: calls and bytes by kind of file.

    python -m tests.verification.db_bench_lines                      the lines below
    python -m tests.verification.db_bench_lines --benchmarks=fillseq,readseq --num=20000

Random numbers and the time of background work differ, so totals are compared, not single calls.
"""

import collections
import pathlib
import subprocess
import sys
import tempfile

import numpy as np

from scmsim.core.records import OPS
from scmsim.trace.formats.tracers import strace
from scmsim.trace.store import TraceWriter, open_trace
from scmsim.workload import db_bench

SIZES = "--write_buffer_size=1048576 --target_file_size_base=1048576 --max_bytes_for_level_base=4194304"
LINES = [
    f"--benchmarks=fillseq,readseq --num=50000 --value_size=400 {SIZES}",
    f"--benchmarks=fillrandom,readrandom --num=50000 --value_size=400 --reads=5000 {SIZES}",
    f"--benchmarks=fillrandom,readrandom --num=50000 --value_size=400 --reads=5000 --bloom_bits=10 {SIZES}",
    f"--benchmarks=filluniquerandom,overwrite --num=50000 --value_size=100 {SIZES}",
    f"--benchmarks=fillseq,updaterandom --num=20000 --reads=5000 --value_size=400 {SIZES}",
    f"--benchmarks=fillseq,readrandomwriterandom --num=20000 --reads=5000 --value_size=400 --readwritepercent=70 {SIZES}",
    f"--benchmarks=fillseq,seekrandom --num=20000 --reads=2000 --seek_nexts=50 --value_size=400 {SIZES}",
    "--benchmarks=fillsync --num=100000 --writes=500 --value_size=100",
    f"--benchmarks=fillrandom --num=20000 --disable_wal=1 --value_size=400 {SIZES}",
    f"--benchmarks=fillrandom --num=20000 --key_size=32 --value_size=1000 {SIZES}",
]
# in the real program: no cache, no compression, one background job, and writes that wait for it
CALM = """
    --compression_type=none --cache_size=0 --max_background_jobs=1 --level0_slowdown_writes_trigger=5 --level0_stop_writes_trigger=6
    --max_write_buffer_number=2 --soft_pending_compaction_bytes_limit=1 --hard_pending_compaction_bytes_limit=1 --seed=1
    --level_compaction_dynamic_level_bytes=0 --verify_checksum=0
""".split()
KINDS = {".log": "log", ".sst": "tables"}


def counted(batches: np.ndarray, paths: list[str]) -> dict[str, int]:
    """Return calls and bytes by kind of file."""
    found: collections.Counter[str] = collections.Counter()
    for r in batches:
        path = paths[r["file"]] if r["file"] >= 0 else ""
        kind, op = KINDS.get(pathlib.PurePath(path).suffix, "manifest" if "MANIFEST" in path else ""), OPS[r["op"]]
        if not kind or op not in ("write", "read", "create", "unlink", "fsync"):
            continue
        found[f"{kind}, {op}"] += 1
        if op in ("write", "read"):
            found[f"{kind}, {op} bytes"] += int(r["length"])
    return found


def real(line: list[str]) -> dict[str, int]:
    with tempfile.TemporaryDirectory(dir=".") as folder:
        top = pathlib.Path(folder)
        traced = ["strace", "-f", "-y", "-s", "0", "-e", "trace=%file,%desc", "-o", f"{top}/t.strace"]
        subprocess.run([*traced, "db_bench", *line, *CALM, f"--db={top}/db"], check=True, capture_output=True)
        with TraceWriter(f"{top}/t.parquet", {}) as writer:
            strace.convert(f"{top}/t.strace", writer)
        stored = open_trace(f"{top}/t.parquet")
        return counted(np.concatenate(list(stored.batches())), stored.files.path)


def main(lines: list[str]) -> None:
    for line in lines:
        work = db_bench.Workload(command=line)
        ours, theirs = counted(np.concatenate(list(work.batches())), work.files.path), real(line.split())
        print(line)
        for name in sorted(ours | theirs):
            a, b = ours.get(name, 0), theirs.get(name, 0)
            print(f"  {name:24}{b:>14,}{a:>14,}{100 * (a / b - 1) if b else 0:>+9.2f} %", flush=True)


if __name__ == "__main__":
    main([" ".join(sys.argv[1:])] if sys.argv[1:] else LINES)
