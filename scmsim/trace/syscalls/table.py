"""Read the table of Linux system calls (`calls.csv`): what each call can do to files, and its number on four architectures.

Numbers: linux-libc-dev 6.1 (asm/unistd_64.h, asm/unistd_32.h, asm-generic/unistd.h), for later calls the kernel's syscall.tbl up to
Linux 6.18.  Effects of the calls: the manual pages of section 2.
"""

import csv
import functools
import pathlib
import re
from typing import NamedTuple

_FILE = pathlib.Path(__file__).with_name("calls.csv")

# effect of a call -> its meaning for a trace
DOES = {
    "row": "makes a row of the trace",
    "descriptor": "opens, closes or duplicates descriptors",
    "position": "moves the position of a descriptor",
    "length": "can change the length of a file",
    "name": "changes what names mean",
    "place": "changes the working directory or the root",
    "process": "makes a process, or changes what it shares",
    "mapping": "changes what is mapped",
    "blind": "moves data or changes a length without a row: a blind spot",
    "attribute": "works on files, but has no model",
    "none": "does nothing to files",
}
ARCHITECTURES = ("x86_64", "i386", "arm64", "riscv64")
UNKNOWN = frozenset(DOES) - {"row", "none", "attribute"}  # assumed effects of a call that the table lacks
# strace's form of a call that has no name in its table
_BY_NUMBER = re.compile(r"syscall_(0x[0-9a-f]{1,4}|\d{1,4})").fullmatch


class Call(NamedTuple):
    """A row of the table; a number is -1 where the architecture lacks the call."""

    name: str
    does: frozenset[str]
    numbers: dict[str, int]


@functools.cache
def calls() -> dict[str, Call]:
    """Return the table by name."""
    with open(_FILE, encoding="ascii", newline="") as file:
        return {
            row["name"]: Call(
                row["name"],
                frozenset(row["does"].split("+")),
                {arch: int(row[arch]) if row[arch] else -1 for arch in ARCHITECTURES},
            )
            for row in csv.DictReader(file)
        }


@functools.cache
def by_number(arch: str) -> dict[int, str]:
    """Return the names of an architecture's calls by number."""
    return {call.numbers[arch]: name for name, call in calls().items() if call.numbers[arch] >= 0}


def known_as(name: str) -> str:
    """Return the table's name of a call that an old strace writes as `syscall_0x14e`, on x86-64 below 424."""
    m = _BY_NUMBER(name)
    return by_number("x86_64").get(int(m[1], 0), name) if m else name


def does(name: str) -> frozenset[str] | None:
    """Return the effects of a call (keys of DOES), or None if the table lacks the call."""
    call = calls().get(known_as(name))
    return call.does if call is not None else None


def with_any(*what: str) -> frozenset[str]:
    """Return the names of the calls that have any of the effects `what` (keys of DOES)."""
    return frozenset(name for name, call in calls().items() if call.does & {*what})
