"""Run the real `perf stat` with software events in random combinations of its options, and check what is read from its output.

`python -m tests.perf.real_perf --cases 1000 --seed 1` runs many cases and prints the outcome.  Half of them record once
and report the same counts in each form of output, in several locales: the sums must be equal within what a form prints.
The others print one form with intervals, summaries, repeats, control groups and tasks: every line must be read, every
event be there, and the intervals add up to perf's own summary.
"""

import argparse
import collections
import functools
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence

from scmsim.core.errors import UsageError
from scmsim.perf.merge import merge
from scmsim.perf.parse import read_stat
from scmsim.perf.reading import Reading, Stat

EVENTS = (
    "page-faults", "context-switches", "cpu-migrations", "minor-faults", "task-clock", "cpu-clock:u", "dummy", "duration_time",
    "user_time", "cycles", "dTLB-load-misses", "alignment-faults", "emulation-faults",
)  # fmt: skip
FORMS = ([], ["-x", ","], ["-x", ";"], ["-x", "\\t"], ["-x", "|"], ["-x", "@"], ["-x", "::"], ["-j"])
PLACES = ([], ["-A"], ["--per-core"], ["--per-die"], ["--per-socket"], ["--per-node"])
LOCALES = ("de_DE", "fr_FR", "en_IN", "de_CH", "es_MX", "ps_AF", "cmn_TW", "unm_US")
PROGRAM = (sys.executable, "-S", "-c", "b = bytearray(1 << 23)")


@functools.cache
def locales() -> tuple[str, ...]:
    """Locales of this machine that write numbers in different ways."""
    done = subprocess.run(["locale", "-a"], capture_output=True, text=True, stdin=subprocess.DEVNULL)
    return ("C", *(name for name in done.stdout.split() if name.startswith(LOCALES)))


def options(draw: random.Random) -> list[str]:
    """Return a random combination of options of perf stat."""
    found: list[str] = []
    wide = draw.random() < 0.6
    if wide:
        found += ["-a", *draw.choice([*PLACES, ["--per-thread"]])]
    if draw.random() < 0.4:
        found += ["-I", str(draw.choice((10, 20, 1000)))]
        found += draw.choice(([], ["--summary"], ["--summary", "--no-csv-summary"]))
    elif not wide and draw.random() < 0.4:
        found += ["-r", str(draw.randint(2, 3)), *draw.choice(([], ["--table"]))]
    found += draw.choice(([], [], ["--no-big-num"], ["--no-merge"], ["--all-user"], ["--no-scale"]))
    if wide and "--per-thread" not in found and draw.random() < 0.2:
        found += ["--for-each-cgroup", "/"]
    return found


def perf(arguments: Sequence[str], environment: dict[str, str]) -> str | None:
    """Return what perf stat printed; None where it refused its arguments."""
    argv = ["perf", "stat", *arguments]
    done = subprocess.run(
        argv, capture_output=True, env={**os.environ, **environment}, stdin=subprocess.DEVNULL, timeout=20
    )
    return None if done.returncode else (done.stderr + done.stdout).decode("utf-8", "replace")


def printed(draw: random.Random) -> tuple[str, list[str]]:
    """Run one form once; return the command and what is wrong with the reading."""
    chosen, events = draw.sample(EVENTS, draw.randint(1, 5)), options(draw)
    arguments = [*draw.choice(FORMS), *events, "-e", ",".join(chosen)]
    text = perf([*arguments, "--", *PROGRAM], {"LC_ALL": "C"})
    return " ".join(arguments), ["refused"] if text is None else mistakes(chosen, text)


def recorded(draw: random.Random, folder: str) -> tuple[str, list[str]]:
    """Record once and report in each form; return the command and what is wrong with the readings."""
    data = os.path.join(folder, "stat.data")
    chosen = draw.sample(EVENTS, draw.randint(1, 5))
    wide = draw.random() < 0.7
    arguments = ["-a", "-A"] if wide else []
    arguments += ["-I", "10"] if draw.random() < 0.4 else []
    arguments += ["-e", ",".join(chosen)]
    if perf([*arguments, "record", "-o", data, "--", *PROGRAM], {"LC_ALL": "C"}) is None:
        return " ".join(arguments), ["refused"]
    first: dict[str, Reading] = {}
    wrong: list[str] = []
    for form in (["-j"], [], ["-x", ","], draw.choice(FORMS[2:7])):
        places = draw.choice(PLACES) if wide else []
        name = draw.choice(locales())
        text = perf([*form, "report", *places, "-i", data], {"LC_ALL": name}) or ""
        where = f"{' '.join((*form, *places))} in {name}: "
        found = mistakes(chosen, text)
        wrong += [where + line for line in found]
        if not found:
            readings = merge(read_stat(text)).readings
            rows = collections.Counter(one.event for one in read_stat(text).readings)
            first = first or readings
            wrong += [where + line for line in differences(first, readings, rows)]
    return " ".join(arguments), wrong


def differences(first: dict[str, Reading], other: dict[str, Reading], rows: dict[str, int]) -> list[str]:
    """Compare the sums of two forms; a row is printed to 0.01 ms at least, a count as it is."""
    wrong = [] if first.keys() == other.keys() else [f"events {sorted(first)} and {sorted(other)}"]
    for event in first.keys() & other.keys():
        one, two = first[event].value, other[event].value
        step = 0.0051 * rows[event] + 0.001 if other[event].unit == "msec" else 0.001
        if (one is None) != (two is None) or one is not None and two is not None and abs(one - two) > step:
            wrong.append(f"{event} is {one} in -j and {two}")
    return wrong


def mistakes(events: Sequence[str], text: str) -> list[str]:
    """Return what is wrong with the reading of one output."""
    known = "|".join(events)
    named = [
        line
        for line in text.splitlines()
        if re.search(rf"(?<![\w-])(?:{known})(?![\w-])", line) and "stats for" not in line
    ]
    try:
        stat = read_stat(text)
        found = merge(stat)
    except UsageError as error:
        return [str(error)] if named else []  # --per-thread prints nothing where no task counted anything
    wrong = [f"not understood: {line}" for line in stat.not_understood]
    lost = {event for event in events if any(event in line for line in named)} - found.readings.keys()
    wrong += [f"lost: {sorted(lost)}"] if lost else []
    rows = len(stat.readings) + len(stat.totals)
    wrong += [] if len(named) == rows else [f"{len(named)} lines with an event, {rows} rows"]
    return wrong + totals_wrong(stat, found.readings)


def totals_wrong(stat: Stat, readings: dict[str, Reading]) -> list[str]:
    """Compare sums of intervals with perf's summary, within what the form prints of each row."""
    totals: dict[str, float] = collections.defaultdict(float)
    for one in stat.totals:
        totals[one.event] += one.value or 0
    rows = collections.Counter(one.event for one in stat.readings)
    wrong = []
    for event, total in totals.items():
        found = readings[event].value
        step = 0.0051 if readings[event].unit == "msec" else 0
        if found is not None and abs(found - total) > step * (rows[event] + 4) + 1e-6:
            wrong.append(f"{event}: {found} in intervals, {total} in the summary")
    return wrong


def outcome(cases: int, seed: int) -> tuple[collections.Counter[str], list[str]]:
    """Run so many cases; return how many were right, wrong and refused by perf, and a line for each mistake."""
    draw = random.Random(seed)
    counts: collections.Counter[str] = collections.Counter()
    lines = []
    with tempfile.TemporaryDirectory() as folder:
        for number in range(cases):
            command, wrong = recorded(draw, folder) if number % 2 else printed(draw)
            counts["refused by perf" if wrong == ["refused"] else "wrong" if wrong else "right"] += 1
            lines += [f"case {number}: perf stat {command}: {line}" for line in wrong if line != "refused"]
    return counts, lines


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    if not shutil.which("perf"):
        print("perf is not installed", file=sys.stderr)
        return 3
    counts, lines = outcome(given.cases, given.seed)
    print("\n".join(lines))
    print(f"seed {given.seed}: {dict(counts)}")
    return 1 if counts["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main())
