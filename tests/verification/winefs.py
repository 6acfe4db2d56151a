"""WineFS beside its kernel: the tables of docs/models/winefs.md.

    python -m tests.verification.winefs

Prints Markdown: errors in % in the cells that the costs were fitted to and in the others, and in whole workloads, to which
nothing was fitted.  The targets of instructions include those of the journal's cleaner, a thread that the lab counts apart.
"""

import csv
import pathlib
import statistics

import scmsim
from scmsim.result.run import TRAFFIC
from scmsim.trace import open_trace
from tests.verification import cells

SYSTEMS = ("winefs", "winefs-relaxed")
TRACES = pathlib.Path(__file__).parents[2] / "traces"
LIMIT = 10  # % of instructions, and of loads + stores


def error(real: float, model: float) -> float:
    """Error in %; 0 where both are nearly nothing."""
    return 0.0 if abs(real) < 0.5 and abs(model) < 0.5 else 100 * (model / real - 1)


def of_cell(row: dict) -> tuple[float, ...]:
    """Errors of stored bytes, write-backs, instructions, loads + stores in a cell."""
    found = cells.totals(row["fs"], cells.workload(row))
    pairs = (
        (row["pmstB_call"], found["pmst"]),
        (row["flush_call"], found["flush"]),
        (row["ins_call"], found["ins"]),
        (row["ld_norep_call"] + row["st_norep_call"], found["ld"] + found["st"]),
    )
    return tuple(error(*pair) for pair in pairs)


def of_call(row: dict, calls: int, counters: dict) -> tuple[float, ...]:
    """Errors of one kind of call in a workload, or of all."""
    counts = [counters.get(name, 0) / calls for name in ("pm_stored_bytes", "flushes", "instructions")]
    real = [float(row[name]) for name in ("pmstB_call", "flush_call", "ins_call", "ld_norep_call", "st_norep_call")]
    counts.append(sum(counters[name] for name in TRAFFIC) / calls)
    return tuple(error(*pair) for pair in zip([*real[:3], real[3] + real[4]], counts, strict=True))


def main() -> None:
    """Print the tables."""
    rows = cells.measured(*SYSTEMS)
    for name, held_out in (("fitted", False), ("not fitted", True)):
        errors = [of_cell(row) for row in rows if cells.held_out(row) == held_out]
        columns = [[abs(one) for one in column] for column in zip(*errors, strict=True)]
        figures = " | ".join(f"{statistics.median(column):.1f}, {max(column):.1f}" for column in columns)
        inside = sum(max(abs(one[2]), abs(one[3])) <= LIMIT for one in errors)
        print(f"| {name} | {len(errors)} | {figures} | {inside} |")
    with open(cells.DATA / "measured_winefs_513_workloads.csv", newline="") as file:
        measured = list(csv.DictReader(file))
    inside = kinds = 0
    for workload, fs in dict.fromkeys((row["workload"], row["fs"]) for row in measured):
        trace = open_trace(TRACES / f"{workload}.parquet")
        run = scmsim.replay(trace, fs, params={fs: {"cpus": 8}}, by="op").runs[0]
        for row in (row for row in measured if (row["workload"], row["fs"]) == (workload, fs)):
            op = row["op"]
            calls, counters = (run.calls, run.counters) if op == "all" else (run.group_operations[op], run.groups[op])
            errors = of_call(row, calls, counters)
            if op == "all":
                print(f"| {workload} | {fs} | " + " | ".join(f"{one:+.1f}" for one in errors) + " |")
            else:
                inside, kinds = inside + (abs(errors[2]) <= LIMIT), kinds + 1
    print(f"\nKinds of call of these workloads within {LIMIT} % of the instructions: {inside} of {kinds}")


if __name__ == "__main__":
    main()
