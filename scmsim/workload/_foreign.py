"""Readers of other benchmarks' configurations: Postmark's commands, IOzone's command line, YCSB's properties.

Each reader returns parameters of the workload; an unknown or unmodelled setting is an error with name and line.
"""

import inspect
import re
from collections.abc import Callable
from typing import Any

from scmsim.core.errors import UsageError, unknown
from scmsim.workload._flags import split

_SUFFIXES = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}

Params = dict[str, int | str]


def _number(text: str, at: str, least: int = 0) -> int:
    if not re.fullmatch(r"-?[0-9]{1,18}", text) or int(text) < least:
        raise UsageError(f"{at}: {text[:40]!r} is not a number from {least}")
    return int(text)


_POSTMARK = {
    "number": "files", "transactions": "transactions", "read": "read", "write": "write", "subdirectories": "subdirectories",
    "seed": "seed",
}  # fmt: skip
_POSTMARK_SETS = (*_POSTMARK, "size", "buffering", "bias", "location", "report")


def postmark(text: str, where: str) -> Params:
    """Return the parameters that Postmark's commands set before their `run`."""
    given: Params = {}
    runs = locations = 0
    for number, line in enumerate(text.splitlines(), 1):
        words, at = line.split(), f"{where}:{number}"
        if not words or words[0] in ("show", "help", "version"):
            continue
        if words[0] == "quit":
            break
        if words[0] == "run":
            runs += 1
            continue
        if words[0] != "set" or len(words) < 2:
            raise UsageError(f"{at}: Postmark's command {words[0][:40]!r} is not modelled; use set, run or quit")
        if runs:
            raise UsageError(
                f"{at}: a 'set' after 'run' begins a second run, which is not modelled; use one file per run"
            )
        locations += words[1] == "location"
        _set(given, words[1], words[2:], at)
    if runs != 1 or locations > 1:
        raise UsageError(
            f"{where}: {runs} 'run' and {locations} 'set location' commands; keep one 'run' and at most one 'set location'"
        )
    return given


def _set(given: Params, name: str, values: list[str], at: str) -> None:
    """Apply one `set` command of Postmark."""
    if name not in _POSTMARK_SETS:
        raise UsageError(f"{at}: {unknown('modelled setting of Postmark', name, _POSTMARK_SETS)}")
    if len(values) != (2 if name in ("size", "bias") else 1):
        raise UsageError(f"{at}: set {name} needs {2 if name in ('size', 'bias') else 1} value(s)")
    if name in _POSTMARK:
        given[_POSTMARK[name]] = _number(values[0], at)
    elif name == "size":
        given["size_low"], given["size_high"] = _number(values[0], at, 1), _number(values[1], at, 1)
    elif name == "buffering":
        if values[0] not in ("true", "false"):
            raise UsageError(f"{at}: {values[0][:40]!r} is not true or false")
        given["buffering"] = int(values[0] == "true")
    elif name == "bias":
        if values[0] not in ("read", "create") or not -1 <= _number(values[1], at, -1) <= 10:
            raise UsageError(f"{at}: set bias takes read or create, and a number from -1 to 10")
        given[f"bias_{values[0]}"] = "off" if values[1] == "-1" else values[1]


_IOZONE_SIZES = {"n": "min_file", "g": "max_file", "y": "min_record", "q": "max_record"}
_IOZONE_SILENT = {"R": 0, "O": 0, "b": 1, "f": 1}  # flags without effect on the calls, and the number of their values


def iozone(text: str) -> Params:
    """Return the parameters of IOzone's command line in automatic mode, such as "-a -n 64k -g 4m -i 0 -i 1"."""
    words = split(text, "iozone")
    words = words[1:] if words[:1] and words[0].rpartition("/")[2] == "iozone" else words
    given: Params = {}
    tests: list[str] = []
    rest, automatic = iter(words), False
    for word in rest:
        flag, value = word[1:2], word[2:]
        if not word.startswith("-") or flag not in ("a", "z", "i", "s", "r", *_IOZONE_SIZES, *_IOZONE_SILENT):
            known = ["-a", "-z", "-i", "-s", "-r", *(f"-{each}" for each in (*_IOZONE_SIZES, *_IOZONE_SILENT))]
            raise UsageError(f"iozone: {unknown('modelled flag', word[:20], known)}")
        if flag in ("a", "z", "R", "O"):
            automatic = automatic or flag == "a" or "a" in value
            if value.strip("azRO"):
                raise UsageError(
                    f"iozone: {word[:20]!r} joins several flags in one word, which is not modelled; write each flag separately"
                )
            given |= {"crossover": 0} if "z" in word else {}
            continue
        value = value or next(rest, "")
        if flag == "i":
            tests.append(str(_number(value, "iozone: -i")))
        elif flag in ("s", "r"):
            names = ("min_file", "max_file") if flag == "s" else ("min_record", "max_record")
            given |= dict.fromkeys(names, _iozone_size(value, flag))
        elif flag in _IOZONE_SIZES:
            given[_IOZONE_SIZES[flag]] = _iozone_size(value, flag)
            given |= {"crossover": 0} if flag in "yq" else {}
    if not automatic:
        raise UsageError("iozone: without -a IOzone is not modelled; add -a")
    return {**given, "tests": ",".join(tests)} if tests else given


def _iozone_size(text: str, flag: str) -> int:
    match = re.fullmatch(r"([0-9]{1,12})([kmg]?)", text.lower())
    if not match or not int(match[1]):
        raise UsageError(f"iozone: -{flag} {text[:20]!r} is not a size; write it like 64k or 4m")
    return int(match[1]) * _SUFFIXES[match[2] or "k"]  # without a suffix: KiB


_SHARES = ("readproportion", "updateproportion", "insertproportion", "scanproportion", "readmodifywriteproportion")
_YCSB_SILENT = re.compile(
    r"(measurement|hdrhistogram|histogram|exporter|timeseries|status|basicdb|rocksdb|jdbc|redis|mongodb|cassandra)\w*(\..*)?"
    r"|db|table|dotransactions|target|maxexecutiontime|threadcount|readallfields|writeallfields|exportfile|label|core_workload.*"
)
_YCSB_ONLY = {
    "workload": ("com.yahoo.ycsb.workloads.CoreWorkload", "site.ycsb.workloads.CoreWorkload", "core"),
    "insertorder": ("hashed",),
    "fieldlengthdistribution": ("constant",),
    "scanlengthdistribution": ("uniform",),
    "minscanlength": ("1",),
    "insertstart": ("0",),
    "dataintegrity": ("false",),
}
_YCSB_NUMBERS = {
    "recordcount": 0,
    "operationcount": 0,
    "fieldcount": 10,
    "fieldlength": 100,
    "maxscanlength": 1000,
}
_YCSB_KEYS = (*_YCSB_NUMBERS, *_SHARES, "requestdistribution", *_YCSB_ONLY)


def ycsb(text: str, where: str) -> tuple[dict[str, int], list[float], str, list[str]]:
    """Return numeric properties, the shares of the five operations, the distribution, and the keys without effect."""
    numbers, shares = dict(_YCSB_NUMBERS), dict(zip(_SHARES, (0.95, 0.05, 0.0, 0.0, 0.0), strict=True))
    distribution, silent = "uniform", []
    for number, line in enumerate(text.splitlines(), 1):
        line, at = line.strip(), f"{where}:{number}"
        if not line or line[0] in "#!":
            continue
        key, value = (re.split(r"\s*[=:]\s*|\s+", line, maxsplit=1) + [""])[:2]
        if key in numbers:
            numbers[key] = _number(value, at, 1)
        elif key in shares:
            shares[key] = _share(value, at)
        elif key == "requestdistribution":
            if value not in ("uniform", "zipfian", "latest"):
                raise UsageError(f"{at}: {unknown('modelled distribution', value, ('uniform', 'zipfian', 'latest'))}")
            distribution = value
        elif key in _YCSB_ONLY:
            if value not in _YCSB_ONLY[key]:
                raise UsageError(f"{at}: {key}={value[:60]} is not modelled; only {_YCSB_ONLY[key][0]} is")
        elif _YCSB_SILENT.fullmatch(key):
            silent.append(key)
        else:
            raise UsageError(f"{at}: {unknown('modelled property of YCSB', key[:40], _YCSB_KEYS)}")
    for key in ("recordcount", "operationcount"):
        if not numbers[key]:
            raise UsageError(f"{where}: {key} is not given; add it, such as {key}=1000")
    total = sum(shares.values())
    if total <= 0:
        raise UsageError(f"{where}: all proportions are 0; set readproportion or another one")
    return numbers, [shares[name] / total for name in _SHARES], distribution, silent


def _share(text: str, at: str) -> float:
    if not re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,12})?|\.[0-9]{1,12}", text):
        raise UsageError(f"{at}: {text[:40]!r} is not a proportion; write it like 0.5")
    return float(text)


def merge(given: Any, read: Params, init: Callable[..., None]) -> None:
    """Set the parameters that a file gives; raise UsageError for a parameter that the user also gives directly."""
    for name in read:
        if getattr(given, name) != inspect.signature(init).parameters[name].default:
            raise UsageError(
                f"{name.replace('_', '-')} is given both in the configuration and as a parameter; take one out"
            )
    vars(given).update(read)
