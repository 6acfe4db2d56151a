"""Print counts as `perf stat` does, written from its source and sharing nothing with the parser.

`printf("%'18.0f %-*s %-25s", ...)` and its relatives in util/stat-display.c; a group of digits as glibc's LC_NUMERIC has it.
"""

import csv
from dataclasses import dataclass, replace
from pathlib import Path

DATA = Path(__file__).parent.parent / "data" / "perf"


@dataclass(frozen=True)
class Locale:
    point: str = "."
    separator: str = ""
    grouping: tuple[int, ...] = ()

    def number(self, value: float, decimals: int, big: bool = False) -> str:
        whole, _, fraction = f"{value:.{decimals}f}".partition(".")
        if big and self.separator:
            whole = self.separator.join(self._groups(whole))
        return whole + (self.point + fraction if fraction else "")

    def _groups(self, digits: str) -> list[str]:
        groups, sizes = [], list(self.grouping)
        while digits:
            size = sizes.pop(0) if len(sizes) > 1 else sizes[0]
            groups.insert(0, digits[-size:])
            digits = digits[:-size]
        return groups


def _character(text: str) -> str:
    return chr(int(text[2:], 16)) if text.startswith("U+") else text


def _locales() -> dict[str, Locale]:
    found = {}
    with (DATA / "numeric_locales.csv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            sizes = tuple(int(size) for size in row["grouping"].split(";") if size)
            found[row["first"]] = Locale(_character(row["decimal_point"]), _character(row["thousands_sep"]), sizes)
    three = (3,)
    older = {
        "blank": Locale(",", " ", three),
        "no-break space": Locale(",", "\u00a0", three),
        "apostrophe": Locale(".", "'", three),
    }
    return {**found, **older}  # of glibc before 2.28


LOCALES = _locales()
AGGREGATIONS = {  # of perf stat: the places of two CPUs, and how many CPUs each has (None: not printed)
    "": [("", None)],
    "-A": [("CPU0", None), ("CPU1", None)],
    "--per-core": [("S0-D0-C0", 2), ("S0-D0-C1", 2)],
    "--per-die": [("S0-D0", 4), ("S0-D1", 4)],
    "--per-cache": [("S0-D0-L3-ID0", 4), ("S0-D0-L3-ID8", 4)],
    "--per-cluster": [("S0-D0-CLS0", 4)],
    "--per-socket": [("S0", 4), ("S1", 4)],
    "--per-node": [("N0", 8)],
    "--per-thread": [
        ("Web Content-20229", None),
        ("io(2) #1-7", None),
        ("12 monkeys-8", None),
        ("kworker/0:1-ev-9", None),
    ],
}
KEYS = {
    "-A": "cpu", "--per-core": "core", "--per-die": "die", "--per-cache": "cache", "--per-cluster": "cluster",
    "--per-socket": "socket", "--per-node": "node", "--per-thread": "thread",
}  # fmt: skip


@dataclass(frozen=True)
class Count:
    event: str
    value: float | str  # or "<not counted>"
    unit: str = ""
    percent: float = 100.0
    place: tuple[str, int | None] = ("", None)
    interval: str = ""
    spread: float | None = None
    cgroup: str | None = None
    total: bool = False  # a row of --summary

    def at(self, **what: object) -> "Count":
        return replace(self, **what)  # type: ignore[arg-type]


def value_text(count: Count, locale: Locale, big: bool) -> str:
    if isinstance(count.value, str):
        return count.value
    decimals = 0 if float(count.value).is_integer() and count.unit != "msec" else 2
    return locale.number(count.value, decimals, big)


def as_text(
    counts: list[Count], locale: Locale, title: str = "'system wide'", width: int = 25, big: bool = True
) -> str:
    """Print plain rows; with intervals a header first, and the title before the summary."""
    unit_width = max(len(count.unit) for count in counts)
    lines = ["#           time             counts unit events"] if counts[0].interval else []
    titled = False
    for count in counts:
        if not count.interval and not titled:
            lines += ["", f" Performance counter stats for {title}:", ""]
            titled = True
        place, cpus = count.place
        head = f"{count.interval:>16} " if count.interval else ""
        if place.startswith("CPU"):
            head += f"{place:<10} "
        elif cpus is not None:
            head += f"{place:<14} {cpus:>4} "
        elif place:
            name, _, number = place.rpartition("-")
            head += f"{name:>16}-{number:<8} "
        line = f"{head}{value_text(count, locale, big):>18} {count.unit:<{unit_width}} {count.event:<{width}}"
        line += f" {count.cgroup:<24}" if count.cgroup is not None else ""
        if count.unit == "msec":
            line += f" #  {locale.number(0.017, 3)} CPUs utilized          "
        line += f"  ( +-{locale.number(count.spread, 2):>6}% )" if count.spread is not None else ""
        line += f"  ({locale.number(count.percent, 2)}%)" if count.percent < 100 else ""
        lines.append(line)
    time = f"       {locale.number(0.055986572, 9)} seconds time elapsed\n\n       {locale.number(0.002683, 9)} seconds user"
    return "\n".join([*lines, "", time, ""])


def as_csv(counts: list[Count], locale: Locale, separator: str) -> str:
    lines = []
    for count in counts:
        place, cpus = count.place
        fields = [f"{'summary':>16}"] if count.total else [f"{count.interval:>16}"] if count.interval else []
        fields += [place, *([str(cpus)] if cpus is not None else [])] if place else []
        fields += [value_text(count, locale, big=False), count.unit, count.event]
        fields += [count.cgroup] if count.cgroup is not None else []
        fields += [f"{locale.number(count.spread, 2)}%"] if count.spread is not None else []
        fields += ["0" if isinstance(count.value, str) else "685063", locale.number(count.percent, 2), "", ""]
        lines.append(separator.join(fields))
        if count.event == "instructions":  # a second metric continues on a line of empty fields
            lines.append(separator.join([*[""] * 6, locale.number(0.52, 2), "stalled cycles per insn"]))
    return "\n".join(lines) + "\n"


def as_json(counts: list[Count], locale: Locale, aggregation: str) -> str:
    lines = []
    for count in counts:
        place, cpus = count.place
        parts = [f'"interval" : {count.interval}'] if count.interval else []
        parts += [f'"{KEYS[aggregation]}" : "{place.removeprefix("CPU")}"'] if place else []
        parts += [f'"aggregate-number" : {cpus}'] if cpus is not None else []
        value = count.value if isinstance(count.value, str) else locale.number(count.value, 6)
        parts += [f'"counter-value" : "{value}"', f'"unit" : "{count.unit}"', f'"event" : "{count.event}"']
        parts += [f'"cgroup" : "{count.cgroup}"'] if count.cgroup is not None else []
        parts += [f'"variance" : {locale.number(count.spread, 2)}'] if count.spread is not None else []
        parts += ['"event-runtime" : 5', f'"pcnt-running" : {locale.number(count.percent, 2)}']
        parts += [f'"metric-value" : {locale.number(0.5, 6)}', '"metric-unit" : "x"']
        lines.append("{" + ", ".join(parts) + "}")
    return "\n".join(lines) + "\n"
