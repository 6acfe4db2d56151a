"""Samples of every format, ways to damage them, and what an importer must do with the result."""

import argparse
import random
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from scmsim.core import registry
from scmsim.core.errors import ScmsimError
from scmsim.trace import open_trace
from scmsim.trace.formats import sniff_file
from scmsim.trace.reading.lines import LONGEST
from scmsim.trace.store import TraceWriter
from scmsim.trace.summary import all_problems

DATA = Path(__file__).parents[1] / "data"
TABLE = "time=ts,op=type,offset=off,length=len,file=name,thread=cpu"
# format -> samples, options
SAMPLES: dict[str, tuple[list[str], dict[str, Any]]] = {
    "strace": (["strace/tricky.strace", "strace/sqlite_wal.strace", "strace/varmail_head.strace"], {}),
    "fio-iolog": (["formats/fio_iolog_v2.log", "formats/fio_iolog_v3.log"], {}),
    "blkparse": (["formats/blkparse.txt", "formats/blk_classic.txt"], {}),
    "darshan-dxt": (["formats/darshan_dxt_sample.txt"], {}),
    "darshan-parser": (["formats/darshan_parser.txt"], {}),
    "oracle-general": (["formats/oracle_general.bin"], {}),
    "perf-script": (["formats/perf_raw.txt", "formats/perf_named.txt"], {}),
    "msr": (["formats/msr.csv"], {}),
    "tencent": (["formats/tencent.csv"], {}),
    "spc": (["formats/spc.csv"], {}),
    "fiu-file": (["formats/fiu_file.txt"], {}),
    "fiu-block": (["formats/fiu_block.txt"], {}),
    "alibaba": (["formats/alibaba.csv"], {}),
    "dftracer": (["formats/dftracer.pfw"], {}),
    "dio": (["formats/dio.json"], {}),
    "bpftrace": (["formats/bpftrace.txt"], {}),
    "lackey": (["formats/lackey.txt"], {}),
    "perf-mem": (["formats/perf_mem.txt", "formats/perf_faults.txt"], {}),
    "drmemtrace": (["formats/drmemtrace.txt"], {"calls": str(DATA / "formats/drmemtrace.strace")}),
    "lcs": (["formats/lcs_v3.bin"], {}),
    "lttng": (["formats/lttng.txt"], {}),
    "nfsd": (["formats/nfsd.txt"], {}),
    "thesios": (["formats/thesios.csv"], {}),
    "trace-cmd": (["formats/trace_cmd.txt"], {}),
    "twitter-cache": (["formats/twitter_cache.csv"], {}),
    "vscsi": (["formats/vscsi1.bin", "formats/vscsi2.bin"], {}),
    "ops-csv": (["formats/ops.csv"], {}),
    "ops-jsonl": (["formats/ops.jsonl"], {}),
    "csv": (["formats/table.csv"], {"columns": TABLE, "unit": 512}),
}
NUMBERS = [b"0", b"-1", b"9" * 18, b"9" * 19, b"9" * 40, b"18446744073709551615", b"9223372036854775808", b"0x", b"1e99",
           b"4611686018427387904", b"1152921504606846976", b"nan", b"00000000000000000000001", b"1.5",
           b"-9223372036854775809"]  # fmt: skip
PIECES = [b"", b" ", b",", b"\n", b"\r", b"\t", b"(", b")", b"<", b">", b'"', b"\\", b"=", b":", b"/", b"\xff", b"\xc3",
          b"\xe2\x80\xa8", b"\xef\xbb\xbf", b"{", b"}", b"[", b"%s", b"../..", b"\x1b[31m"]  # fmt: skip
SLOW_S = 20


# (name, its samples, what judges damaged data: it returns how the data ended)
Cases = list[tuple[str, list[bytes], Callable[[bytes], str]]]


def fuzz(description: str, cases: Cases, hows: Sequence[str], edits: Sequence[int]) -> int:
    """Damage the samples of each case in turn until the time is over; keep what fails; return the exit code."""
    parser = argparse.ArgumentParser(description=description.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    seen: Counter[tuple[str, str]] = Counter()
    end, number, failed = time.monotonic() + options.seconds, 0, 0
    while time.monotonic() < end and failed <= 10:
        for name, samples, run in cases:
            number += 1
            draw = random.Random(f"{options.seed}:{number}")
            data = mutated(draw.choice(samples), draw, draw.choice(edits))
            try:
                seen[name, run(data)] += 1
            except Exception:
                seen[name, "FAILED"] += 1
                failed += 1
                kept = Path(f"fuzz-{name}-{options.seed}-{number}.bin")
                kept.write_bytes(data)
                print(f"{name}: input kept as {kept}\n{traceback.format_exc()}", file=sys.stderr)
    for name in sorted({name for name, _ in seen}):
        print(f"{name:16}" + "".join(f"{seen[name, how]:>8} {how}" for how in (*hows, "FAILED")))
    return 1 if failed else 0


def mutated(data: bytes, draw: random.Random, edits: int) -> bytes:
    """Sample data with some damage: cut, swapped, repeated and joined lines, odd numbers, odd bytes."""
    for _ in range(edits):
        data = draw.choice((_cut, _swap, _repeat, _number, _number, _piece, _piece, _flip, _long))(data, draw)
    return data


def _at(data: bytes, draw: random.Random) -> int:
    return draw.randrange(len(data) + 1)


def _cut(data: bytes, draw: random.Random) -> bytes:
    return data[: _at(data, draw)] if draw.random() < 0.5 else data[_at(data, draw) :]


def _swap(data: bytes, draw: random.Random) -> bytes:
    lines = data.split(b"\n")
    i, j = draw.randrange(len(lines)), draw.randrange(len(lines))
    lines[i], lines[j] = lines[j], lines[i]
    return b"\n".join(lines)


def _repeat(data: bytes, draw: random.Random) -> bytes:
    lines = data.split(b"\n")
    i = draw.randrange(len(lines))
    lines[i:i] = [lines[draw.randrange(len(lines))]] * draw.choice((1, 2, 50))
    return b"\n".join(lines)


def _number(data: bytes, draw: random.Random) -> bytes:
    at = _at(data, draw)
    start = next((i for i in range(at, len(data)) if data[i : i + 1].isdigit()), None)
    if start is None:
        return data
    end = next((i for i in range(start, len(data)) if not data[i : i + 1].isdigit()), len(data))
    return data[:start] + draw.choice(NUMBERS) + data[end:]


def _piece(data: bytes, draw: random.Random) -> bytes:
    at = _at(data, draw)
    return data[:at] + draw.choice(PIECES) + data[at + draw.randrange(8) :]


def _flip(data: bytes, draw: random.Random) -> bytes:
    out = bytearray(data)
    for _ in range(min(3, len(out))):
        out[draw.randrange(len(out))] = draw.randrange(256)
    return bytes(out)


def _long(data: bytes, draw: random.Random) -> bytes:
    at = _at(data, draw)
    count = draw.choice((100, 5000, 5000, 5000, 5000, 5000, 5000, LONGEST + 7))
    return data[:at] + draw.choice((b"a", b"9", b" ", b"\\", b'"', b"(", b"<", b"{")) * count + data[at:]


def judge(name: str, data: bytes, options: dict[str, Any]) -> str:
    """Convert data; "rows" or "refused", AssertionError for anything that an importer must not do."""
    importer = registry.load("format", name)
    with tempfile.TemporaryDirectory() as folder:
        source, out = Path(folder) / "in", Path(folder) / "out.parquet"
        source.write_bytes(data)
        start = time.process_time()
        try:
            with TraceWriter(out, {}) as writer:
                report = importer.convert(source, writer, **options)
        except ScmsimError as error:
            assert "\n" not in str(error) and len(str(error)) < 2000, (
                f"an error that is not a line: {str(error)[:300]!r}"
            )
            assert not out.exists() and not list(Path(folder).glob(".*")), "a refused input left something behind"
            return "refused"
        finally:
            sniff_file(source)
            took = time.process_time() - start
            assert took < SLOW_S, f"{took:.0f} s of CPU for {len(data)} bytes"
        trace = open_trace(out)
        assert all_problems(trace) == [], all_problems(trace)[:3]
        assert trace.rows == report.rows == report.calls + report.extra_rows
        assert report.lines == report.calls + sum(report.left_out.values()) + report.bad
        if name not in ("oracle-general", "lcs", "vscsi", "strace"):
            text = data.removesuffix(b"\n")
            assert report.lines >= text.count(b"\n") + 1 - 2 * data.count(b"\r"), "lines are missing from the account"
    return "rows"
