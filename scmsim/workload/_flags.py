"""Command lines of other programs: `--flag=value`, `--flag value`, and letters such as `-n 5`, `-n5` and `-FC`.

A flag that changes the calls and is not modelled is an error that names the flag; all mistakes are reported at once.  Flags
that change no call are accepted, and returned for a note.
"""

import re
import shlex
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from scmsim.core.errors import UsageError, unknown
from scmsim.workload._mistakes import Mistakes

_SUFFIXES = {suffix: 1 << 10 * power for power, suffix in enumerate(("", "k", "m", "g", "t"))}
_YES, _NO = ("", "1", "true", "t", "yes", "y"), ("0", "false", "f", "no", "n")
SWITCH, OFF = "switch", "off"  # units of flags that need no value; OFF: only false is modelled
_TAKES = {
    SWITCH: "nothing, 1 or 0",
    OFF: "0",
    "number": "a number",
    "size": "a number such as 64k",
    "share": "a number such as 0.5",
    "text": "a value",
}

Value = int | float | str


class Flags(NamedTuple):
    """Flags of a program: name to unit (switch, off, number, size, share, text, or the allowed words as a|b).

    `letters`: one dash begins letters, as with getopt; otherwise it begins a name, as with gflags, which also has --noNAME.
    """

    program: str
    known: Mapping[str, str]
    silent: Mapping[str, str]  # flags that change no call, with their units
    refused: Mapping[str, str]  # advice for a flag, or for a value that its unit does not allow
    letters: bool = False


class Line(NamedTuple):
    """A command line: words before the program, values by flag, the flags that change no call, and the mistakes so far."""

    before: list[str]
    given: dict[str, Value]
    silent: list[str]
    mistakes: Mistakes


def split(text: str, where: str) -> list[str]:
    """Return the words of a command line."""
    try:
        return shlex.split(text)
    except ValueError as error:
        raise UsageError(f"{where}: {str(error).lower()}; close the quotes") from None


def read(text: str, flags: Flags) -> Line:
    """Parse a command line, with or without the program's name; the caller must check `mistakes`."""
    words = split(text, flags.program)
    names = [number for number, word in enumerate(words) if word.rpartition("/")[2] == flags.program]
    start = names[0] + 1 if names else 0
    line = Line(words[: start - 1] if names else [], {}, [], Mistakes(flags.program))
    for flag, value in _options(iter(words[start:]), flags):
        shown = f"--{flag}" if len(flag) > 1 or not flags.letters else f"-{flag}"
        unit = flags.known.get(flag) or flags.silent.get(flag)
        try:
            if unit is None and flag not in flags.refused:
                raise UsageError(f"{flags.program}: {unknown('modelled flag', flag[:40], flags.known)}")
            read = _value(value or "", unit) if unit else None
            if read is None and flag in flags.refused:
                shown += f"={value[:40]}" if value else ""
                raise UsageError(f"{flags.program}: {shown} is not modelled; {flags.refused[flag]}")
            if read is None:
                takes = _TAKES.get(unit or "") or str(unit).replace("|", " or ")
                raise UsageError(f"{flags.program}: {shown} takes {takes}, not {(value or '')[:40]!r}")
            if flag in flags.known:
                line.given[flag] = read
            elif flag not in line.silent:
                line.silent.append(flag)
        except UsageError as error:
            line.mistakes.add(error)
    return line


def _options(words: Iterator[str], flags: Flags) -> Iterator[tuple[str, str | None]]:
    """Yield (flag, value or None) of each option of a command line."""
    units = {**flags.silent, **flags.known}
    for word in words:
        name, equals, value = word.lstrip("-").partition("=")
        if flags.letters and word.startswith("-") and not word.startswith("--"):
            while len(name) > 1 and units.get(name[0]) == SWITCH and not equals:
                yield name[0], None
                name = name[1:]
            if len(name) > 1:
                name, equals, value = name[0], "=", name[1:] + equals + value
        elif not word.startswith("-"):
            yield word, None
            continue
        elif name not in units and units.get(name.removeprefix("no")) in (SWITCH, OFF):  # gflags: --nosync
            name, equals, value = name.removeprefix("no"), "=", "0"
        if equals:
            yield name, value
        else:
            yield name, None if units.get(name, SWITCH) in (SWITCH, OFF) else next(words, "")


def _value(text: str, unit: str) -> Value | None:
    """Return the value of a flag, or None if its unit does not allow that value."""
    if unit in (SWITCH, OFF) and text.lower() in (*_YES, *_NO):
        is_on = text.lower() in _YES
        return None if is_on and unit == OFF else int(is_on)
    if unit == "number" and re.fullmatch(r"-?[0-9]{1,18}", text):
        return int(text)
    if unit == "size" and (match := re.fullmatch(r"([0-9]{1,12})([kmgt]?)b?", text.lower())):
        return int(match[1]) * _SUFFIXES[match[2]]
    if unit == "share" and re.fullmatch(r"-?[0-9]{1,9}(\.[0-9]{0,12})?", text):
        return float(text)
    is_allowed = bool(text) if unit == "text" else unit not in _TAKES and text in unit.split("|")
    return text if is_allowed else None
