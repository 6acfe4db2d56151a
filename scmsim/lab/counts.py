"""The plugin's output -> counters by region and by kernel function."""

import pathlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

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
        (name, "<u8")
        for name in (
            "address", "region", "executed", "instructions", "load_instructions", "store_instructions", "rep",
            "non_temporal", "flushes", "store_fences", "fence_instructions", "locked", "executed_too", *_CELL,
        )
    ]
)  # fmt: skip  # struct row of plugin.c

# Counters of a result <- columns of a row.  Those below the line are the lab's own.
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
_SYMBOL = re.compile(rb"^([0-9a-f]{16}) [tTwW] ([^\s]+)(?:\t\[([^\]]+)\])?$", re.MULTILINE)


@dataclass
class Symbols:
    """Functions by address, ascending."""

    addresses: np.ndarray
    names: list[str]

    def at(self, addresses: np.ndarray) -> np.ndarray:
        """Index of the function of each address; -1: below the first."""
        return np.searchsorted(self.addresses, addresses, side="right") - 1

    def address(self, name: str) -> int | None:
        """Address of a function or a data symbol that was kept."""
        return int(self.addresses[self.names.index(name)]) if name in self.names else None


def symbols(text: bytes) -> Symbols:
    """Functions of /proc/kallsyms, modules included; of several names of an address the last one stands."""
    found = {int(address, 16): name.decode("ascii", "replace") for address, name, _ in _SYMBOL.findall(text)}
    addresses = np.array(sorted(found), np.uint64)
    return Symbols(addresses, [found[int(address)] for address in addresses])


def symbol_address(text: bytes, name: str) -> int | None:
    """Address of any symbol of /proc/kallsyms, data included."""
    match = re.search(rb"^([0-9a-f]{16}) \S " + re.escape(name.encode()) + rb"$", text, re.MULTILINE)
    return int(match[1], 16) if match else None


def read(path: pathlib.Path) -> np.ndarray:
    """Rows that the plugin wrote; raises EnvironmentProblem for a file that is cut short."""
    size = path.stat().st_size
    if size % ROW.itemsize:
        raise EnvironmentProblem(f"the plugin's counts are cut short ({size} bytes); is the disk full?")
    return np.fromfile(path, ROW)


def by_region(rows: np.ndarray, regions: int) -> list[dict[str, int]]:
    """Counters of regions 1 to `regions`."""
    sums = {name: _sums(rows, column, rows["region"], regions + 1) for name, column in COUNTERS.items()}
    return [{name: int(values[k]) for name, values in sums.items()} for k in range(1, regions + 1)]


def by_function(rows: np.ndarray, functions: Symbols) -> dict[int, dict[str, dict[str, int]]]:
    """Counters by region and function; user code and code without a symbol have names in parentheses."""
    names = [USER, UNKNOWN, *functions.names]
    index = np.where(rows["address"] >> np.uint64(63), functions.at(rows["address"]) + 2, 0)
    index = np.where(index == 1, 1, index)
    found: dict[int, dict[str, dict[str, int]]] = {}
    for region in np.unique(rows["region"]):
        here = rows["region"] == region
        used, place = np.unique(index[here], return_inverse=True)
        sums = {name: _sums(rows[here], column, place, len(used)) for name, column in COUNTERS.items()}
        found[int(region)] = {
            names[k]: {name: int(values[i]) for name, values in sums.items() if values[i]} for i, k in enumerate(used)
        }
    return found


def total(parts: Sequence[Mapping[str, int]]) -> dict[str, int]:
    """Sum of counters."""
    found: dict[str, int] = {}
    for part in parts:
        for name, value in part.items():
            found[name] = found.get(name, 0) + value
    return found


def _sums(rows: np.ndarray, column: str, group: np.ndarray, groups: int) -> np.ndarray:
    out = np.zeros(groups, np.uint64)
    np.add.at(out, group.astype(np.int64), rows[column])
    return out
