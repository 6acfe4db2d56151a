"""Rough traces of Darshan logs: sums over their rows beside sums over the counters, which PyDarshan reads.

    python -m tests.verification.darshan_logs FOLDER ...          # with the package darshan

Each log in the folders is converted with `rows=counters`.  Calls and bytes must be equal in each log; a line names a log where they
are not, or that is refused.
"""

import sys
import tempfile
import warnings
from collections import Counter
from pathlib import Path

import darshan
import numpy as np

from scmsim.core.errors import UsageError
from scmsim.core.records import CREATE, FSYNC, OPEN, READ, STAT, WRITE
from scmsim.trace import TraceWriter, open_trace
from scmsim.trace.formats.files import darshan as importer

STREAMS = ("<STDIN>", "<STDOUT>", "<STDERR>")
KINDS_OF_MPI = ("INDEP", "COLL", "SPLIT", "NB")


def told(path: Path) -> Counter[str]:
    """The sums of the counters that make rows."""
    log, out, posix = darshan.DarshanReport(str(path), read_all=False), Counter(), set()
    for module, prefix in (("POSIX", "POSIX_"), ("STDIO", "STDIO_"), ("MPI-IO", "MPIIO_")):
        if module not in log.modules:
            continue
        log.mod_read_all_records(module)
        for record in log.records[module].to_df()["counters"].to_dict("records"):
            number = int(record["id"])
            posix |= {number} if module == "POSIX" else set()
            if log.name_records.get(record["id"]) in STREAMS or (module == "MPI-IO" and number in posix):
                continue
            get = lambda name: max(int(record.get(prefix + name, 0)), 0)  # noqa: B023, E731
            opens = get("OPENS") - get("FILENOS") - get("DUPS") - get("FDOPENS")
            out["opens"] += max(opens, 0) + get("INDEP_OPENS") + get("COLL_OPENS")
            for name, past in (("READS", "BYTES_READ"), ("WRITES", "BYTES_WRITTEN")):
                out[name] += get(name) + sum(get(f"{kind}_{name}") for kind in KINDS_OF_MPI)
                out[past] += get(past)
            out["stats"] += get("STATS")
            out["syncs"] += get("FSYNCS") + get("FDSYNCS") + get("SYNCS")
    return out


def rows(path: Path, out: Path) -> Counter[str]:
    """The same sums of the rows."""
    with TraceWriter(out, {}) as writer:
        importer.convert(path, writer, rows="counters")
    sums: Counter[str] = Counter()
    names = {OPEN: "opens", CREATE: "opens", READ: "READS", WRITE: "WRITES", STAT: "stats", FSYNC: "syncs"}
    for batch in open_trace(out).batches():
        for op, count in zip(*np.unique(batch["op"], return_counts=True), strict=True):
            sums[names.get(int(op), "closes")] += int(count)
        for op, past in ((READ, "BYTES_READ"), (WRITE, "BYTES_WRITTEN")):
            sums[past] += int(batch["length"][batch["op"] == op].sum())
    return sums


def main() -> None:
    """Compare all logs."""
    warnings.simplefilter("ignore")  # PyDarshan's
    seen: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        for path in sorted(log for given in sys.argv[1:] for log in Path(given).rglob("*.darshan")):
            try:
                found = rows(path, Path(folder) / "t.parquet")
            except UsageError as error:
                print(f"{path.name}: refused: {str(error).partition(': ')[2]}")
                seen["refused"] += 1
                continue
            seen["rows"] += sum(found[name] for name in ("opens", "READS", "WRITES", "stats", "syncs", "closes"))
            wanted = told(path)
            equal = all(found[name] == wanted[name] for name in wanted)
            seen["equal" if equal else "different"] += 1
            if not equal:
                print(f"{path.name}: rows {dict(found)}, counters {dict(wanted)}")
    print(", ".join(f"{name} {count:,}" for name, count in seen.items()))
    sys.exit(seen["different"] > 0)


if __name__ == "__main__":
    main()
