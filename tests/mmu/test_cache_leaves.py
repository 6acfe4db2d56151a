"""Data caches of the x86 presets, beside CPUID leaf 4 (Intel) or 8000001DH (AMD) of the part that each `source` names.

Intel SDM volume 2, CPUID, leaf 4; AMD APM volume 3, appendix E.4.15: type and level in EAX, ways, partitions and line in EBX, sets
in ECX, inclusive in bit 1 of EDX.
"""

import csv
from pathlib import Path

import pytest

from scmsim.core import registry
from scmsim.core.units import parse_bytes
from scmsim.mmu import presets

REGISTERS = Path(__file__).parent.parent / "data" / "cpuid" / "registers.csv"
LEAVES = ("00000004", "8000001D")
INSTRUCTIONS = 2  # type of a cache for instructions alone
# The part of the dump differs from the preset's: (preset, level): why
OTHER_PART = {
    ("core2-q8200", 2): "the dump is of a Q9300, with 3 MiB of 12 ways",
    ("e5-2640v4", 3): "the dump is of a part with 20 MiB; 25 MB by Intel ARK",
}

NO_PART = {"tps", "i7-8700k-thesis"}  # made for papers' figures


def leaves() -> dict[str, list[tuple[int, int, int, bool]]]:
    """Return (level, bytes, ways, inclusive) of the caches for data of each preset's part."""
    found: dict[str, list[tuple[int, int, int, bool]]] = {}
    with open(REGISTERS, encoding="ascii") as text:
        for row in csv.DictReader(text):
            eax, ebx, ecx, edx = (int(row[name], 16) for name in ("eax", "ebx", "ecx", "edx"))
            if row["leaf"] not in LEAVES or eax & 31 in (0, INSTRUCTIONS):
                continue
            ways, partitions, line, sets = (ebx >> 22) + 1, (ebx >> 12 & 0x3FF) + 1, (ebx & 0xFFF) + 1, ecx + 1
            found.setdefault(row["preset"], []).append(
                (eax >> 5 & 7, ways * partitions * line * sets, ways, bool(edx >> 1 & 1))
            )
    return found


@pytest.mark.parametrize(("preset", "level"), [(name, k) for name, rows in leaves().items() for k in range(len(rows))])
def test_a_cache_is_that_of_the_dump(preset: str, level: int) -> None:
    number, size, ways, is_inclusive = leaves()[preset][level]
    table = presets.read(preset)["cache"][number - 1]
    if (preset, number) in OTHER_PART:
        assert (parse_bytes(table["size"]), table["ways"]) != (size, ways)
        return
    assert (parse_bytes(table["size"]), table["ways"]) == (size, ways)
    if number > 1:
        assert (table["fill"] == "inclusive") == is_inclusive, table["source"]


def test_every_x86_preset_with_caches_has_a_dump() -> None:
    with_caches = {name for name in registry.names("machine") if "cache" in presets.read(name)}
    assert with_caches == set(leaves()) | NO_PART
