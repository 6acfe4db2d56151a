"""vdbench's parameter files: entries (fsd, fwd, sd, wd, rd), checked, with vdbench's defaults and abbreviations.

Source: vdbench 5.04.06 (Vdb_scan, FsdEntry, FwdEntry, SD_entry, WD_entry, RD_entry).
"""

import fnmatch
import pathlib
import re
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from scmsim.core.errors import UsageError, unknown
from scmsim.workload._contents import contents
from scmsim.workload._mistakes import Mistakes

OPERATIONS = ("read", "write", "create", "delete", "getattr", "access", "open", "close")
_SUFFIXES = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_MOST = 1 << 50
SPREAD, NAMES, SILENT = "spread", "names", "silent"
# entry -> key -> (unit, default); a unit a|b allows these words, each with its abbreviations.
KEYS: dict[str, dict[str, tuple[str, Any]]] = {
    "fsd": {
        "anchor": ("text", ""), "depth": ("number", 1), "width": ("number", 1), "files": ("number", 10),
        "sizes": (SPREAD, ((4096, 100.0),)), "distribution": ("bottom|all", "bottom"), "openflags": (NAMES, ()),
        "shared": (SILENT, ""),
    },
    "fwd": {
        "fsd": (NAMES, ("*",)), "operation": ("|".join(OPERATIONS), "read"), "xfersizes": (SPREAD, ((4096, 100.0),)),
        "fileio": (NAMES, ("sequential",)), "fileselect": (NAMES, ("sequential",)), "threads": ("number", 1),
        "rdpct": ("number", -1), "readpct": ("number", -1), "stopafter": ("number", 0), "skew": ("number", 0),
        "openflags": (NAMES, ()), "host": (SILENT, ""), "hd": (SILENT, ""),
    },
    "sd": {
        "lun": ("text", ""), "size": ("number", 0), "offset": ("number", 0), "threads": ("number", 8), "range": (NAMES, ()),
        "openflags": (NAMES, ()), "host": (SILENT, ""), "hd": (SILENT, ""), "align": (SILENT, ""), "hitarea": (SILENT, ""),
    },
    "wd": {
        "sd": (NAMES, ("*",)), "xfersizes": (SPREAD, ((4096, 100.0),)), "rdpct": ("number", 100), "readpct": ("number", 100),
        "seekpct": ("text", "100"), "skew": ("number", 0), "range": (NAMES, ()), "openflags": (NAMES, ()),
        "threads": ("number", 0), "iorate": (SILENT, ""), "priority": (SILENT, ""), "host": (SILENT, ""), "hd": (SILENT, ""),
    },
    "rd": {
        "fwd": (NAMES, ("*",)), "wd": (NAMES, ("*",)), "sd": (NAMES, ()), "format": (NAMES, ("no",)), "maxdata": ("number", 0),
        "operations": (NAMES, ()), "foroperations": (NAMES, ()), "forxfersizes": (NAMES, ()), "forthreads": (NAMES, ()),
        "forrdpct": (NAMES, ()), "xfersizes": (NAMES, ()), "threads": (NAMES, ()), "rdpct": (NAMES, ()),
        "elapsed": (SILENT, ""), "interval": (SILENT, ""), "warmup": (SILENT, ""), "pause": (SILENT, ""), "fwdrate": (SILENT, ""),
        "iorate": (SILENT, ""), "openflags": (NAMES, ()),
    },
}  # fmt: skip
_LOOPS = {"operations": "operation", "xfersizes": "xfersizes", "threads": "threads", "rdpct": "rdpct"}
_REFUSED = {
    "skew": "only that of fwd and wd is", "totalsize": "it changes the number of files", "count": "write the entries one by one",
    "workingsetsize": "it limits the files in use", "wss": "it limits the files in use", "rhpct": "it needs a hit area",
    "whpct": "it needs a hit area", "stride": "only seekpct is", "streams": "only seekpct is", "curve": "it needs measured rates",
    "replay": "convert the trace instead: scmsim trace convert", "target": "it is for copy and move", "journal": "for validation",
    "hotband": "only seekpct is", "forseekpct": "write one wd for each", "maxdataread": "use maxdata",
    "maxdatawritten": "use maxdata",
}  # fmt: skip
_GENERAL = """
    abort_failed_skew auxreport compratio compression compressionratio compressionseed create_anchors data_errors debug
    dedupratio dedupunit dedupsets endcmd end_cmd heartbeat_error histogram messagescan misc monitor pattern port report
    report_run_totals showlba startcmd start_cmd timeout validate
""".split()  # parameters of the whole file; they change no call


@dataclass(frozen=True)
class Entry:
    """One entry: its kind, name, place in the file and values by full key."""

    kind: str
    name: str
    at: str
    values: dict[str, Any]

    def __getitem__(self, key: str) -> Any:
        return self.values.get(key, KEYS[self.kind][key][1])

    def has(self, flag: str) -> bool:
        """Return whether openflags has a flag."""
        return flag in self["openflags"]


class Parameters(NamedTuple):
    """A parameter file: entries by kind, and the accepted keys that change no call."""

    entries: dict[str, list[Entry]]
    silent: list[str]

    def named(self, kind: str, patterns: tuple[str, ...]) -> list[Entry]:
        """Return the entries of a kind whose names match any of the patterns."""
        found = [each for each in self.entries[kind] if any(fnmatch.fnmatchcase(each.name, one) for one in patterns)]
        return self.entries[kind] if set(patterns) & {"default", "all"} and not found else found


def read(path: str, changed: dict[str, str]) -> Parameters:
    """Return the entries of a parameter file; `changed` are values of its $variables.

    Raises UsageError with all mistakes, each with file and line.
    """
    text, where = contents(path, "a vdbench parameter file"), pathlib.Path(path).name
    return parse(text, where, changed)


def parse(text: str, where: str, changed: dict[str, str]) -> Parameters:
    """Return the entries in the text of a parameter file."""
    mistakes, silent = Mistakes(where), list[str]()
    made = Parameters({kind: [] for kind in KEYS}, silent)
    defaults: dict[str, dict[str, Any]] = {kind: {} for kind in KEYS}
    current: Entry | None = None
    formats: dict[str, Any] = {}
    for key, values, at in _words(text, where, changed, mistakes):
        if key in KEYS and not (current and key in KEYS[current.kind] and KEYS[current.kind][key][0] == NAMES):
            current = Entry(key, values[0], at, {})
            if values[0] == "default":
                current = replace(current, values=defaults[key])
            elif values[0] == "format" and key == "fwd":
                current = replace(current, values=formats)
            else:
                current = replace(current, values=dict(defaults[key]))
                made.entries[key].append(current)
            continue
        if key in ("hd", "host") and (current is None or current.kind not in ("fwd", "sd", "wd")):
            current = None  # a host: all keys up to the next entry describe the host
            silent.append(key)
            continue
        try:
            _set(current, key, values, at, silent)
        except UsageError as error:
            mistakes.add(error)
    _check(made, where, mistakes)
    mistakes.check()
    made.entries["fwd"].append(
        Entry("fwd", "format", where, {"threads": 8, "xfersizes": ((128 << 10, 100.0),), **formats})
    )
    return made


def _words(text: str, where: str, changed: dict[str, str], mistakes: Mistakes) -> list[tuple[str, list[str], str]]:
    """Return (key, values, place) of each key=value; commas separate values, text after a line's first blank is ignored."""
    found, used = [], set[str]()
    for number, line in enumerate(text.splitlines(), 1):
        at = f"{where}:{number}"
        if not line.strip() or line.lstrip()[0] in "*#/":
            continue
        if line.strip().lower() == "eof":
            break
        for name in re.findall(r"\$(\w+)", line):
            used.add(name)
            if name not in changed:
                mistakes.add(f"{at}: variable ${name} has no value; give it with --set {name}=VALUE")
            line = line.replace(f"${name}", changed.get(name, "1"))
        line = re.sub(r"\s*([(),=])\s*", r"\1", line.strip()) if "(" in line else line.strip()
        for word in re.findall(r"[^,(]+(?:\([^)]*\))?", line.split()[0]):
            key, equals, value = word.partition("=")
            values = [part for part in re.split(r"[(),]", value) if part]
            if not equals or not values:
                mistakes.add(f"{at}: {word[:40]!r} is not key=value")
            else:
                found.append((key.lower(), values, at))
    for name in changed.keys() - used:
        mistakes.add(f"{where}: it has no variable ${name[:40]}; --set replaces variables only")
    return found


def _set(current: Entry | None, key: str, values: list[str], at: str, silent: list[str]) -> None:
    """Set one key of the current entry, which may be abbreviated."""
    if current is None or key in _GENERAL:
        if not any(name.startswith(key) for name in (*_GENERAL, "formatxfersize")):
            raise UsageError(f"{at}: {unknown('modelled parameter', key[:40], (*KEYS, *_GENERAL))}")
        silent.append(key)
        return
    if refused := next((name for name in _REFUSED if name == key and key not in KEYS[current.kind]), None):
        raise UsageError(f"{at}: {refused} of {current.kind} is not modelled: {_REFUSED[refused]}; take it out")
    full = next((name for name in KEYS[current.kind] if name.startswith(key) and len(key) > 1), None)
    if full is None:
        raise UsageError(f"{at}: {unknown(f'modelled parameter of {current.kind}', key[:40], KEYS[current.kind])}")
    unit = KEYS[current.kind][full][0]
    if unit == SILENT:
        silent.extend([full] * (full not in silent))
    else:
        current.values[{"readpct": "rdpct"}.get(full, full)] = _value(full, values, unit, at)


def _value(key: str, values: list[str], unit: str, at: str) -> Any:
    if unit == NAMES:
        return tuple(values)
    if unit == SPREAD:
        return spread(values, f"{at}: {key}")
    if len(values) > 1 and key != "seekpct":
        raise UsageError(f"{at}: {key} takes exactly one value, not {len(values)}")
    if unit == "number":
        return number(values[0], f"{at}: {key}")
    if unit == "text":
        return values[0]
    allowed = [word for word in unit.split("|") if word.startswith(values[0].lower())]
    if not allowed:
        raise UsageError(f"{at}: {unknown(f'modelled {key}', values[0][:40], unit.split('|'))}")
    return allowed[0]


def number(text: str, at: str) -> int:
    """Parse a number with an optional suffix, such as 4k or 10g."""
    match = re.fullmatch(r"([0-9]{1,12})(?:\.0*)?([kmgt]?)b?", text.lower())
    if not match or int(match[1]) * _SUFFIXES[match[2]] > _MOST:
        raise UsageError(f"{at}={text[:20]!r} is not a number up to 2^50; write it like 8, 4k or 10g")
    return int(match[1]) * _SUFFIXES[match[2]]


def drawn(sizes: tuple[tuple[int, float], ...], random: np.random.Generator) -> int:
    """Return one of the sizes, drawn by their shares."""
    each, shares = zip(*sizes, strict=True)
    return int(each[0] if len(each) == 1 else random.choice(each, p=np.array(shares) / 100))


class Turns:
    """Scheduler of workloads that take turns in proportion to their shares, which may have any sum."""

    def __init__(self, shares: list[float]) -> None:
        self.shares, self.credit = shares, [0.0] * len(shares)

    def next(self, alive: list[int]) -> int:
        """Return the index of the workload, out of those in `alive`, that has the next turn."""
        total = sum(self.shares[i] for i in alive)
        for i in alive:
            self.credit[i] += self.shares[i] / total
        chosen = max(alive, key=lambda i: self.credit[i])
        self.credit[chosen] -= 1
        return chosen


def spread(values: list[str] | tuple[str, ...], at: str) -> tuple[tuple[int, float], ...]:
    """Parse 4k or (4k,60,8k,40) to pairs (size in bytes, share in percent)."""
    sizes = [number(text, at) for text in values[::2]]
    shares = [float(number(text, at)) for text in values[1::2]] or [100.0]
    if len(sizes) != len(shares) or sum(shares) != 100 or min(sizes) < 0:
        raise UsageError(
            f"{at}={','.join(values)[:60]!r}: write each size with its percentage after it, as in (4k,60,8k,40); the "
            "percentages must add up to 100"
        )
    return tuple(zip(sizes, shares, strict=True))


def loops(run: Entry) -> dict[str, list[Any]]:
    """Return the values over which a run loops (forthreads=(1,8), ...), by key of the workload."""
    found: dict[str, list[Any]] = {}
    for name, key in _LOOPS.items():
        if given := run[f"for{name}"] or run[name]:
            at = f"{run.at}: {name}"
            if key == "operation":
                wrong = [word for word in given if word not in OPERATIONS]
                if wrong:
                    raise UsageError(f"{at}: {unknown('modelled operation', wrong[0][:40], OPERATIONS)}")
                found[key] = list(given)
            else:
                numbers = [number(text, at) for text in given]
                found[key] = [((each, 100.0),) for each in numbers] if key == "xfersizes" else numbers
    return found


def _check(made: Parameters, where: str, mistakes: Mistakes) -> None:
    """Add a mistake for each missing or contradictory entry."""
    entries = made.entries
    if not entries["rd"]:
        mistakes.add(
            f"{where}: the file defines no run; add a run such as rd=run1,fwd=fwd1,fwdrate=max,format=yes,elapsed=10"
        )
    if bool(entries["fsd"]) == bool(entries["sd"]):
        mistakes.add(f"{where}: give either files (fsd and fwd) or devices (sd and wd)")
    for kind, key in (("fsd", "anchor"), ("sd", "lun")):
        for each in entries[kind]:
            if not each[key]:
                mistakes.add(f"{each.at}: {kind}={each.name[:40]} has no {key}; add it")
    for each in entries["sd"]:
        if each["lun"] and not each["size"]:
            mistakes.add(f"{each.at}: sd={each.name[:40]} has no size; add it, such as size=1g")
    for kind in ("fwd", "wd"):
        for each in entries[kind]:
            if not each["threads"] and kind == "fwd" or each["threads"] > 1 << 12:
                mistakes.add(f"{each.at}: threads must be from 1 to 4,096")
            if min(size for size, _ in each["xfersizes"]) < 1:
                mistakes.add(f"{each.at}: an xfersize must be at least 1 byte")
            target = "fsd" if kind == "fwd" else "sd"
            if entries[target] and not made.named(target, each[target]):
                mistakes.add(f"{each.at}: no {target} is named {', '.join(each[target])[:60]!r}; define it")
    kind = "fwd" if entries["fsd"] else "wd"
    for run in entries["rd"]:
        if not made.named(kind, run[kind]):
            mistakes.add(f"{run.at}: no {kind} is named {', '.join(run[kind])[:60]!r}; define it")
