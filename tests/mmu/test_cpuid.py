"""Check what CPUID says of the CPUs of the presets: decoded here and by another program, leaf by leaf."""

import csv
from collections import defaultdict
from pathlib import Path

import pytest

from scmsim.core.units import format_bytes
from scmsim.mmu import cpuid, host, presets
from tests.mmu.cpuid_dumps import DATA, FILES, REGISTERS

DOCS = Path(__file__).parents[2] / "docs/models/machines.md"

# Arrays of CPUID and of the preset where they differ: (sides, level, pages) -> (entries, ways) in CPUID, in the preset.
# Why: docs/models/machines.md, "CPUID beside the presets".
FETCH, ALL = ("fetch",), ("load", "store", "fetch")
HALF = {(FETCH, 1, "4KiB"): ((64, 8), (128, 8))}
SKYLAKE = HALF | {(ALL, 2, "4KiB 2MiB"): ((1536, 6), (1536, 12))}
GUIDE = {(FETCH, 2, "4KiB 2MiB"): ((1024, 8), (512, 8))}
DIFFERENT = {
    "core2-q8200": {
        (("load", "store"), 1, "4KiB"): ((16, 4), None), (("load", "store"), 1, "2MiB"): ((16, 4), None),
        (("load", "store"), 2, "4KiB"): ((256, 4), None), (("load", "store"), 2, "2MiB"): ((32, 4), None),
        (("load",), 1, "4KiB"): (None, (16, 4)), (("load",), 1, "2MiB"): (None, (16, 4)),
        (("load",), 2, "4KiB"): (None, (256, 4)), (("load",), 2, "2MiB"): (None, (32, 4)),
        (("store",), 1, "4KiB"): (None, (256, 4)), (("store",), 1, "2MiB"): (None, (32, 4)),
    },
    "e5-2640v4": HALF, "i7-8700k": SKYLAKE, "skylake-sp": SKYLAKE,
    "ice-lake-sp": {
        (FETCH, 1, "4KiB 2MiB"): ((8, 8), None), (FETCH, 1, "4KiB"): (None, (128, 8)), (FETCH, 1, "2MiB"): (None, (16, 8)),
    },
    "sapphire-rapids": {(("load",), 1, "4KiB"): ((64, 4), (96, 6))},
    "emerald-rapids": {(("load",), 1, "4KiB"): ((64, 4), (96, 6))},
    "zen1": GUIDE, "zen2": GUIDE,
}  # fmt: skip


def _tlbs(tables: list) -> dict:
    found = {}
    for entry in tables:
        for level, key in ((1, "first_level_for"), (2, "second_level_for")):
            if key in entry:
                found[tuple(entry[key]), level, " ".join(entry["pages"])] = (entry["entries"], entry["ways"])
    return found


@pytest.mark.parametrize("name", sorted(REGISTERS))
def test_a_preset_is_what_cpuid_says_but_for_what_is_explained(name: str) -> None:
    told = _tlbs(host.tlbs(cpuid.arrays(REGISTERS[name]), is_amd=name.startswith("zen")))
    preset = _tlbs(presets.read(name)["tlb"])
    different = {at: (told.get(at), preset.get(at)) for at in told | preset if told.get(at) != preset.get(at)}
    assert different == DIFFERENT.get(name, {})


def test_every_preset_of_an_x86_part_is_looked_at_and_each_difference_is_in_the_document() -> None:
    others = {"cortex-a75", "neoverse-n1", "neoverse-v2", "xscale", "tps", "i7-8700k-thesis"}
    from scmsim import mmu

    assert set(mmu.names()) - others == set(REGISTERS)
    told = DOCS.read_text(encoding="utf-8").partition("## CPUID beside the presets")[2].partition("\n## ")[0]
    table = [[cell.strip() for cell in line.split("|")[1:4]] for line in told.splitlines() if line.startswith("| ")]
    rows = {name.strip(): differs for names, _, differs in table[1:] for name in names.split(",")}
    assert set(rows) == set(REGISTERS)
    assert {name for name, differs in rows.items() if differs != "nothing"} == set(DIFFERENT)


def test_another_decoder_says_the_same_of_the_same_dumps() -> None:
    """`tlb.csv` has no arrays for fetches of AMD's but 4K, nor the factor 32; a hybrid part has the arrays of all its cores."""
    other = defaultdict(set)
    with open(DATA / "tlb.csv", encoding="ascii") as text:
        for row in csv.DictReader(text):
            if row["ways"] != "disabled":
                entries = int(row["entries"])
                ways = entries if row["ways"] == "full" else int(row["ways"])
                other[row["file"]].add((row["leaf"], int(row["level"]), row["type"], row["pages"], entries, ways))
    checked = 0
    for name, registers in REGISTERS.items():
        mine = {(a.leaf, a.level, a.kind, "/".join(a.pages), a.entries, a.ways) for a in cpuid.arrays(registers)}
        if name.startswith("zen"):
            by = 32 if name.startswith("zen5") else 1
            mine = {
                (*a[:4], a[4] // (by if a[1] == 2 else 1), a[5])
                for a in mine
                if a[2] == "data" or a[3:] == ("4K", 64, 64)
            }
        if FILES[name] in other:
            assert mine <= other[FILES[name]], name
            checked += 1
            if name not in ("lion-cove", "skymont", "crestmont", "panther-lake"):
                assert mine == other[FILES[name]], name
    assert checked == 15  # leaf 2 is not in that table


def test_caches_and_names() -> None:
    caches = cpuid.caches(REGISTERS["granite-rapids"])
    assert [(cache.level, cache.size >> 10, cache.ways) for cache in caches] == [
        (1, 48, 12),
        (2, 2048, 16),
        (3, 147456, 16),
    ]
    assert cpuid.text(REGISTERS["granite-rapids"]) == "Intel(R) Xeon(R) 658X"
    assert [cache.size >> 10 for cache in cpuid.caches(REGISTERS["zen5-epyc"])] == [48, 1024, 32768]


def test_fields_of_a_cache() -> None:
    """Leaf 4: kind, level and sharers - 1 in EAX, ways, partitions and bytes of a line in EBX, sets in ECX, each less 1."""

    def cache(
        kind: int, level: int, sharers: int, ways: int, parts: int, line: int, sets: int
    ) -> tuple[int, int, int, int]:
        return kind | level << 5 | 7 << 8 | sharers - 1 << 14, ways - 1 << 22 | parts - 1 << 12 | line - 1, sets - 1, 5

    rows = [
        (*cache(3, 3, 64, 11, 2, 64, 32)[:3], 7),
        cache(1, 1, 2, 12, 1, 128, 64),
        cache(2, 1, 2, 8, 1, 64, 64),
        cache(3, 2, 4096, 1024, 1024, 4096, 3),
    ]
    expected = [
        (1, 12 * 128 * 64, 12, 2, False),
        (2, 1024 * 1024 * 4096 * 3, 1024, 4096, False),
        (3, 11 * 2 * 64 * 32, 11, 64, True),
    ]
    registers = {(4, at): row for at, row in zip((0, 2, 3, 7), rows, strict=True)}
    assert cpuid.caches(registers) == expected
    moved = {(0x8000001D, sub): row for (_, sub), row in registers.items()}
    assert cpuid.caches(moved | {(4, 0): cache(1, 1, 1, 1, 1, 1, 1)}) == expected
    silent = moved | {(0x8000001D, 0): (0, 0, 0, 0), (4, 0): cache(1, 1, 1, 2, 3, 4, 5)}
    assert cpuid.caches(silent) == [(1, 2 * 3 * 4 * 5, 2, 1, False)]
    assert cpuid.caches({}) == [] and cpuid.arrays({}) == [] and cpuid.broadcast_pages({}) == 0


def test_fields_of_leaf_18() -> None:
    """The number of the last subleaf in EAX; ways and sizes in EBX, sets in ECX, kind and level in EDX."""
    registers = {
        (0x18, 0): (4, 0, 0, 0), (0x18, 1): (9, 6 << 16 | 0b0111, 16, 1 | 1 << 5 | 1 << 8),
        (0x18, 2): (0, 3 << 16 | 0b1101, 5, 4 | 2 << 5),
        (0x18, 3): (0, 8 << 16 | 0b0010, 1, 3), (0x18, 4): (0, 2 << 16 | 0b0010, 7, 5 | 7 << 5),
        (0x18, 5): (0, 8 << 16 | 1, 1, 1 | 1 << 5),
    }  # fmt: skip
    assert cpuid.arrays(registers) == [
        ("18", 1, "data", ("4K", "2M/4M"), 96, 6), ("18", 2, "load", ("4K", "4M", "1G"), 15, 3),
        ("18", 7, "store", ("2M",), 14, 2),
    ]  # fmt: skip


def test_descriptors_of_leaf_2() -> None:
    """A byte each; the lowest one of EAX is none, and a register with the highest bit set has none."""
    found = cpuid.arrays(
        {(2, 0): (0x03_05_55_03, 0x80_00_00_03, 0x00_00_00_57, 0xB1_00_00_00 & 0x7FFFFFFF | 0x5A << 16)}
    )
    assert [(array.kind, array.pages, array.entries) for array in found] == [
        ("data", ("2M/4M",), 32), ("data", ("4K",), 16), ("data", ("4K",), 64), ("instruction", ("2M/4M",), 7),
        ("data", ("4M",), 32),
    ]  # fmt: skip


def test_fields_of_amd() -> None:
    registers = {(0x80000005, 0): (0x08_20_FF_10, 0x02_40_01_08, 0, 0),
    (0x80000006, 0): (0x5_200_F_100, 0x8_003_0_005, 0, 0),
                 (0x80000019, 0): (0xF_040_1_002, 0x4_010_2_008, 0, 0),
                 (1, 0): (0xF << 8 | 0x0A << 20, 0, 0, 0)}  # fmt: skip
    large = ("2M/4M",)
    expected = [
        ("80000005", 1, "data", large, 0x20, 8), ("80000005", 1, "instruction", large, 16, 16),
        ("80000005", 1, "data", ("4K",), 64, 2),
        ("80000005", 1, "instruction", ("4K",), 8, 1), ("80000006", 2, "data", large, 0x200, 6),
        ("80000006", 2, "instruction", large, 0x100, 0x100), ("80000006", 2, "data", ("4K",), 3, 16),
        ("80000019", 1, "data", ("1G",), 64, 64), ("80000019", 1, "instruction", ("1G",), 2, 1),
        ("80000019", 2, "data", ("1G",), 16, 4), ("80000019", 2, "instruction", ("1G",), 8, 2),
    ]  # fmt: skip
    assert cpuid.arrays(registers) == sorted(expected)
    newer = registers | {(1, 0): (0xF << 8 | 0x0B << 20, 0, 0, 0)}
    by_32 = [(*a[:4], a[4] * 32, a[5] * 32 if a[5] == a[4] else a[5]) if a[1] == 2 else a for a in expected]
    assert cpuid.arrays(newer) == sorted(by_32) == cpuid.arrays(registers | {(0x80000021, 0): (1 << 14, 0, 0, 0)})
    assert cpuid.arrays(registers | {(0x80000021, 0): (1 << 13, 1 << 14, 0, 0)}) == sorted(expected)


def test_instruction_and_names_by_their_bits() -> None:
    assert [cpuid.broadcast_pages({(0x80000008, 0): (1, ebx, 2, 7 << 16 | 6)}) for ebx in (0, 8, 4, 16, 24)] == [
        0,
        7,
        0,
        0,
        7,
    ]
    words = [int.from_bytes(b"Genu", "little"), int.from_bytes(b"ntel", "little"), int.from_bytes(b"ineI", "little")]
    assert cpuid.text({(0, 0): (9, *words)}) == "GenuineIntel"
    brand = {
        (0x80000002 + k, 0): tuple(
            int.from_bytes(b" A%d " % (4 * k + i), "little") if 4 * k + i < 9 else 0 for i in range(4)
        )
        for k in range(3)
    }
    assert cpuid.text(brand | {(0, 0): (9, *words)}) == "A0 A1 A2 A3 A4 A5 A6 A7 A8"


@pytest.mark.parametrize(
    ("leaf", "there"),
    [
        (0, True),
        (21, True),
        (22, True),
        (23, False),
        (0x80000000, True),
        (0x80000005, True),
        (0x8000001F, True),
        (0x80000020, False),
    ],
)
def test_the_highest_leaf_of_each_half_says_which_there_are(leaf, there):
    highest = {0: (22, 0, 0, 0), 0x80000000: (0x8000001F, 0, 0, 0)}
    assert host._has(lambda asked, sub: highest[asked], leaf) == there


# Where a preset's data caches are not those of CPUID, and why: its source says it.
OTHER_CACHES = {
    "core2-q8200": {2: ("3MiB", 12, "2MiB", 8)},  # the dump is of a Q9300
    "e5-2640v4": {3: ("20MiB", 20, "25MiB", 20)},  # the dump's part has fewer cores
}


@pytest.mark.parametrize("name", sorted(REGISTERS))
def test_the_caches_of_a_preset_are_what_cpuid_says_but_for_what_is_explained(name: str) -> None:
    preset, different = presets.read(name), {}
    seen = {cache.level: cache for cache in cpuid.caches(REGISTERS[name])}
    assert len(seen) == len(preset["cache"]) and preset["flush"] == cpuid.flush_instruction(REGISTERS[name])
    for level, entry in enumerate(preset["cache"], 1):
        told = (format_bytes(seen[level].size), seen[level].ways)
        if told != (entry["size"], entry["ways"]):
            different[level] = (*told, entry["size"], entry["ways"])
        if level > 1:
            assert (entry["fill"] == "inclusive") == seen[level].is_inclusive
    assert different == OTHER_CACHES.get(name, {})


def test_the_instruction_of_a_flush_is_the_best_that_there_is() -> None:
    told = {bits: cpuid.flush_instruction({(7, 0): (0, bits, 0, 0)}) for bits in (0, 1 << 23, 1 << 24, 3 << 23)}
    assert told == {0: "clflush", 1 << 23: "clflushopt", 1 << 24: "clwb", 3 << 23: "clwb"}
