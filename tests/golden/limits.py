"""The least and the largest value of each parameter with which a model starts on a small device, as stored in limits.txt.

A line is: file system, parameter, least, largest; "-": no such limit below 1 TiB.  `python -m tests.golden.make` writes it.
"""

import pathlib
from collections.abc import Sequence

from scmsim.core import registry
from scmsim.core.errors import UsageError
from scmsim.fs.engine import model
from scmsim.pipeline import model_params
from tests.golden import events, options

PATH = pathlib.Path(__file__).with_suffix(".txt")
UNLIMITED, FAR = "-", 1 << 40


def numbers_of(fs: str) -> list[str]:
    """Parameters of a model that are numbers; those of time have no limit."""
    units = {name: unit for name, (_, unit, *_) in registry.load("fs", fs).PARAMS.items()}
    return [name for name, unit in units.items() if "|" not in unit and unit not in ("bool", "time")]


def starts(fs: str, name: str, value: int) -> bool:
    """Whether a model starts with a parameter's value."""
    try:
        model.Model(fs, model_params("fs", fs, {"capacity": options.SMALL[fs], name: value}), events.FEW)
    except UsageError:
        return False
    return True


def edge(fs: str, name: str, good: int, bad: int) -> str:
    """The value with which a model still starts, between one with which it does and one with which it does not."""
    if starts(fs, name, bad):
        return UNLIMITED
    while abs(good - bad) > 1:
        middle = (good + bad) // 2
        good, bad = (middle, bad) if starts(fs, name, middle) else (good, middle)
    return str(good)


def write(names: Sequence[str]) -> None:
    """Write the limits of these file systems, or of all, and keep the others'."""
    lines = [line for line in PATH.read_text(encoding="utf-8").splitlines() if names and line.split()[0] not in names]
    for fs in names or registry.names("fs"):
        for name in numbers_of(fs) if fs in options.LARGER else ():
            known = model_params("fs", fs, {"capacity": options.SMALL[fs]})[name]
            good = next(value for value in (known, 1 << 16, 1 << 20, 1) if starts(fs, name, value))
            most = UNLIMITED if name == "capacity" else edge(fs, name, good, FAR)
            lines.append(f"{fs} {name} {edge(fs, name, good, -1)} {most}")
    PATH.write_text("".join(f"{line}\n" for line in sorted(lines)), encoding="utf-8")
