"""Read the plugin's output, and sum its rows to counters by region and by kernel function."""

import pathlib
import re
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from scmsim.core.errors import EnvironmentProblem

_CELL = (
    "executed_again",
    "loads",
    "stores",
    "rep_loads",
    "rep_stores",
    "pm_loaded_bytes",
    "pm_stored_bytes",
    "nt_stored_bytes",
)
ROW = np.dtype(
    [
        ("address", "<u8"), ("node", "<u4"), ("region", "<u2"),  # node of the tree of calls, see calls.py
        ("elsewhere", "<u2"),  # 1 + the number of the CPU if it is not the CPU of the region's calls, else 0
        *((name, "<u8") for name in (
            "executed", "instructions", "load_instructions", "store_instructions", "rep", "non_temporal", "flushes", "store_fences",
            "fence_instructions", "locked", "executed_too", *_CELL, "number",
        )),
    ]
)  # fmt: skip  # struct row of plugin.c

# Counters of a result <- columns of a row.  The counters from `fence_instructions` on exist only in the lab.
COUNTERS = {
    "instructions": "instructions",
    "mem_inst_retired_all_loads": "load_instructions",
    "mem_inst_retired_all_stores": "store_instructions",
    "pm_loaded_bytes": "pm_loaded_bytes",
    "pm_stored_bytes": "pm_stored_bytes",
    "nt_stored_bytes": "nt_stored_bytes",
    "flushes": "flushes",
    "fences": "store_fences",
    "fence_instructions": "fence_instructions",
    "locked_instructions": "locked",
    "non_temporal_stores": "non_temporal",
    "rep_instructions": "rep",
    "rep_loads": "rep_loads",
    "rep_stores": "rep_stores",
    "load_accesses": "loads",
    "store_accesses": "stores",
}
USER, UNKNOWN = "(user)", "(kernel, unknown)"
Label = TypeVar("Label", bound=Hashable)
_SYMBOL = re.compile(rb"^([0-9a-f]{16}) [tTwW] ([^\s]+)(?:\t\[([^\]]+)\])?$", re.MULTILINE)


@dataclass
class Symbols:
    """Functions by address, ascending."""

    addresses: np.ndarray
    names: list[str]

    def at(self, addresses: np.ndarray) -> np.ndarray:
        """Return the index of the function of each address; -1 if the address is below the first function."""
        return np.searchsorted(self.addresses, addresses, side="right") - 1

    def address(self, name: str) -> int | None:
        """Return the address of a symbol; None if the symbol was not kept."""
        return int(self.addresses[self.names.index(name)]) if name in self.names else None


def symbols(text: bytes) -> Symbols:
    """Return the functions in /proc/kallsyms, including modules'; of several names of an address, the last is kept."""
    found = {int(address, 16): name.decode("ascii", "replace") for address, name, _ in _SYMBOL.findall(text)}
    addresses = np.array(sorted(found), np.uint64)
    return Symbols(addresses, [found[int(address)] for address in addresses])


def symbol_address(text: bytes, name: str) -> int | None:
    """Return the address of a symbol in /proc/kallsyms, which may be of data; None if there is no such symbol."""
    match = re.search(rb"^([0-9a-f]{16}) \S " + re.escape(name.encode()) + rb"$", text, re.MULTILINE)
    return int(match[1], 16) if match else None


def told(text: bytes) -> str:
    """Return which symbols /proc/kallsyms has: "nothing", "functions", or "all" (CONFIG_KALLSYMS_ALL)."""
    if not _SYMBOL.search(text):
        return "nothing"
    return "functions" if symbol_address(text, "init_top_pgt") is None else "all"


def read(path: pathlib.Path) -> np.ndarray:
    """Return the rows that the plugin wrote; raises EnvironmentProblem for a file that is cut short."""
    size = path.stat().st_size
    if size % ROW.itemsize:
        raise EnvironmentProblem(f"the plugin's counts are cut short ({size} bytes); is the disk full?")
    return np.fromfile(path, ROW)


def sums(
    rows: np.ndarray, labels: Iterable[Label], more: Mapping[str, np.ndarray] | None = None
) -> dict[Label, dict[str, int]]:
    """Return the rows' counters summed by label, in order of the labels' first occurrence; `more` has further counts per row."""
    number: dict[Label, int] = {}
    group = np.fromiter((number.setdefault(label, len(number)) for label in labels), np.int64, len(rows))
    found: list[dict[str, int]] = [{} for _ in number]
    columns = {name: rows[column] for name, column in COUNTERS.items()} | dict(more or {})
    for name, column in columns.items():
        out = np.zeros(len(number), np.uint64)
        np.add.at(out, group, column)
        for counters, value in zip(found, out.tolist(), strict=True):
            counters[name] = value
    return dict(zip(number, found, strict=True))


def functions_at(addresses: np.ndarray, functions: Symbols) -> list[str]:
    """Return the function name of each address; user code and code without a symbol have names in parentheses."""
    names = [USER, UNKNOWN, *functions.names]
    index = np.where(addresses >> np.uint64(63), functions.at(addresses) + 2, 0)
    return [names[k] for k in index.tolist()]


def total(parts: Sequence[Mapping[str, int]]) -> dict[str, int]:
    """Return the sum of each counter over the parts."""
    found: Counter[str] = Counter()
    for part in parts:
        found.update(part)
    return dict(found)
