"""Find the guest's page sizes by an offline walk of the kernel's page table in the file that backs the guest's memory.

Source: Intel SDM volume 3, 4.5 (4-level paging: bits 12 to 51 are the address, bit 7 marks a large page); Linux,
Documentation/x86/x86_64/mm.rst (`init_top_pgt` is the kernel's table, kernel text is mapped at 0xffffffff80000000).
"""

import os
import pathlib
from collections.abc import Mapping

import numpy as np

from scmsim.core.errors import EnvironmentProblem
from scmsim.lab import qemu
from scmsim.lab.counts import symbol_address
from scmsim.lab.plan import UNKNOWN

TEXT_MAP = 0xFFFFFFFF80000000
_ADDRESS = 0x000FFFFFFFFFF000
PRESENT, LARGE = 1, 1 << 7
SHIFTS = (39, 30, 21, 12)
_MOST_TABLES = 1 << 18  # limit of tables in a walk; a guest with some GiB of memory has some thousands
_KERNEL_HALF = 256  # index of the first of the top table's 512 entries that maps kernel addresses

Range = tuple[int, int, int]  # first address, address after the last, log2 of the page size


def ranges(ram: pathlib.Path, symbols: bytes, about: Mapping[str, int]) -> list[Range]:
    """Return the kernel's mapped ranges from its page table, and the program's buffer if the guest reported it.

    Addresses outside the ranges have pages of 4 KiB.

    Raises EnvironmentProblem if the kernel has no init_top_pgt.
    """
    top = symbol_address(symbols, "init_top_pgt")
    if top is None:
        raise EnvironmentProblem("the guest's kernel has no symbol init_top_pgt (CONFIG_KALLSYMS_ALL); no page sizes")
    found = walk(ram, top - TEXT_MAP)
    if about["huge_bytes"] and about["huge_bytes"] != UNKNOWN:
        found.append((about["buffer"], about["buffer"] + about["buffer_bytes"], 21))
    return sorted(found)


def walk(ram: str | os.PathLike[str], physical: int) -> list[Range]:
    """Return the mapped ranges of the kernel half below the top-level table at a physical address.

    Adjacent ranges with the same page size are merged.

    Raises EnvironmentProblem if there are more tables than a guest can have, so that the address is not of a page table.
    """
    memory = np.memmap(ram, np.uint8, "r")
    out: list[Range] = []

    seen = [0]

    def table(at: int) -> np.ndarray:
        seen[0] += 1
        if seen[0] > _MOST_TABLES:
            raise EnvironmentProblem(f"no page table at {physical:#x} of the guest's memory; is it this kernel's?")
        offset = qemu.file_offset(at)
        if at < 0 or offset + 4096 > len(memory):
            return np.zeros(512, "<u8")  # a table outside of the guest's memory cannot be followed
        return np.frombuffer(memory[offset : offset + 4096].tobytes(), "<u8")

    def add(first: int, order: int) -> None:
        if out and out[-1][1] == first and out[-1][2] == order:
            out[-1] = (out[-1][0], first + (1 << order), order)
        else:
            out.append((first, first + (1 << order), order))

    def level(at: int, depth: int, base: int) -> None:
        entries, shift = table(at), SHIFTS[depth]
        for index in np.flatnonzero(entries & np.uint64(PRESENT)):
            if depth == 0 and index < _KERNEL_HALF:
                continue
            entry = int(entries[index])
            address = base + (int(index) << shift)
            address |= 0xFFFF << 48 if depth == 0 else 0
            if depth == 3 or (depth and entry & LARGE):
                add(address, shift)
            else:
                level(entry & _ADDRESS, depth + 1, address)

    level(physical, 0, 0)
    return out


def orders(addresses: np.ndarray, found: list[Range]) -> np.ndarray:
    """Return log2 of the page size of each address (uint64)."""
    out = np.full(len(addresses), 12, np.uint8)
    if not found:
        return out
    firsts = np.array([first for first, _, _ in found], np.uint64)
    lasts = np.array([min(end, (1 << 64) - 1) for _, end, _ in found], np.uint64)
    sizes = np.array([order for _, _, order in found], np.uint8)
    at = np.searchsorted(firsts, addresses, side="right").astype(np.int64) - 1
    inside = (at >= 0) & (addresses < lasts[np.maximum(at, 0)])
    out[inside] = sizes[at[inside]]
    return out
