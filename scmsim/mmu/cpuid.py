"""TLBs and caches that an x86 CPU reports through CPUID: registers -> arrays.

Intel: leaf 18H, or the descriptors of leaf 2 (Intel SDM volume 2A, CPUID, "Encoding of CPUID Leaf 2 Descriptors"); caches in
leaf 4.
AMD: leaves 80000005H, 80000006H, 80000019H, with the second level in units of 32 entries if bit 14 of 80000021H EAX is set
(and from family 1AH on, where a hypervisor may hide that bit); caches in 8000001DH (AMD64 Architecture Programmer's Manual
volume 3, appendix E).
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

Registers = Mapping[tuple[int, int], tuple[int, int, int, int]]  # (leaf, subleaf) -> EAX, EBX, ECX, EDX

DATA, INSTRUCTION, UNIFIED, LOAD, STORE = "data", "instruction", "unified", "load", "store"
_TYPES = {1: DATA, 2: INSTRUCTION, 3: UNIFIED, 4: LOAD, 5: STORE}
_LARGE = "2M/4M"
_X32, _X32_BIT, _ZEN5 = 32, 14, 0x1A
_FULL = 0xF
# ways by the code of 80000006H and 80000019H; code F is fully associative, code 9 refers to another leaf
_AMD_WAYS = {1: 1, 2: 2, 3: 3, 4: 4, 5: 6, 6: 8, 8: 16, 0xA: 32, 0xB: 48, 0xC: 64, 0xD: 96, 0xE: 128}


class Array(NamedTuple):
    """TLB array, or the part of one that CPUID reports for some page sizes; if fully associative, `ways` = `entries`."""

    leaf: str
    level: int
    kind: str
    pages: tuple[str, ...]
    entries: int
    ways: int


class Cache(NamedTuple):
    """Data cache, size in bytes; `sharers` is the number of logical CPUs that may share it.

    `is_inclusive`: the cache holds every line that the levels nearer to the core hold.
    """

    level: int
    size: int
    ways: int
    sharers: int
    is_inclusive: bool


# Descriptor -> arrays (level, kind, pages, entries, ways), for cores since Core 2.
_FOUR_KB, _HUGE = ("4K",), (_LARGE,)
_DESCRIPTORS: dict[int, tuple[tuple[int, str, tuple[str, ...], int, int], ...]] = {
    0x03: ((1, DATA, _FOUR_KB, 64, 4),),
    0x05: ((2, DATA, ("4M",), 32, 4),),
    0x55: ((1, INSTRUCTION, _HUGE, 7, 7),),
    0x56: ((1, DATA, ("4M",), 16, 4),),
    0x57: ((1, DATA, _FOUR_KB, 16, 4),),
    0x5A: ((1, DATA, _HUGE, 32, 4),),
    0x63: ((1, DATA, _HUGE, 32, 4), (1, DATA, ("1G",), 4, 4)),
    0x76: ((1, INSTRUCTION, _HUGE, 8, 8),),
    0xB0: ((1, INSTRUCTION, _FOUR_KB, 128, 4),),
    0xB1: ((1, INSTRUCTION, _HUGE, 8, 4),),
    0xB2: ((1, INSTRUCTION, _FOUR_KB, 64, 4),),
    0xB4: ((2, DATA, _FOUR_KB, 256, 4),),
    0xB5: ((1, INSTRUCTION, _FOUR_KB, 64, 8),),
    0xB6: ((1, INSTRUCTION, _FOUR_KB, 128, 8),),
    0xC1: ((2, UNIFIED, ("4K", "2M"), 1024, 8),),
    0xC3: ((2, UNIFIED, ("4K", "2M"), 1536, 6), (2, UNIFIED, ("1G",), 16, 4)),
    0xCA: ((2, UNIFIED, _FOUR_KB, 512, 4),),
}


def arrays(registers: Registers) -> list[Array]:
    """Return the TLB arrays that the registers report; empty if the CPU, or its hypervisor, reports none."""
    found = [*_intel_18(registers)] or [*_intel_2(registers)] or [*_amd(registers)]
    return sorted(found)


def _intel_18(registers: Registers) -> Iterator[Array]:
    for sub in range(registers.get((0x18, 0), (0,))[0] + 1 if (0x18, 0) in registers else 0):
        _, ebx, sets, edx = registers.get((0x18, sub), (0, 0, 0, 0))
        kind, level, ways = _TYPES.get(edx & 31), edx >> 5 & 7, ebx >> 16
        if kind is None or not level:
            continue
        sizes = tuple(name for bit, name in enumerate(("4K", "2M", "4M", "1G")) if ebx >> bit & 1)
        yield Array("18", level, kind, _joined(sizes), ways * sets, ways)


def _joined(sizes: tuple[str, ...]) -> tuple[str, ...]:
    """Return the sizes with 2M and 4M merged: a core has pages of 2 MiB or of 4 MiB, never both at a time."""
    return tuple(
        _LARGE if size == "2M" and "4M" in sizes else size for size in sizes if size != "4M" or "2M" not in sizes
    )


def _intel_2(registers: Registers) -> Iterator[Array]:
    for number, register in enumerate(registers.get((2, 0), ())):
        for shift in range(0 if number else 8, 32, 8):  # the lowest byte of EAX is not a descriptor
            if not register >> 31:
                for row in _DESCRIPTORS.get(register >> shift & 0xFF, ()):
                    yield Array("2", *row)


def _amd(registers: Registers) -> Iterator[Array]:
    by_32 = has(registers, 0x80000021, 0, _X32_BIT) or _family(registers) >= _ZEN5
    for leaf, place, half, level, kind, size in _AMD:
        word = registers.get((leaf, 0), (0, 0, 0, 0))[place] >> half
        if leaf == 0x80000005:
            entries, ways = word & 0xFF, word >> 8 & 0xFF
            is_full = ways == 0xFF
        else:
            entries, code = (word & 0xFFF), word >> 12 & 0xF
            entries, is_full, ways = (
                entries * (_X32 if by_32 and level == 2 else 1),
                code == _FULL,
                _AMD_WAYS.get(code, 0),
            )
        if entries and (ways or is_full):
            yield Array(f"{leaf:X}", level, kind, (size,), entries, entries if is_full else ways)


def _family(registers: Registers) -> int:
    eax = registers.get((1, 0), (0,))[0]
    return (eax >> 8 & 15) + (eax >> 20 & 255)


# leaf, register, shift, level, kind, pages
_AMD = (
    (0x80000005, 0, 0, 1, INSTRUCTION, _LARGE), (0x80000005, 0, 16, 1, DATA, _LARGE),
    (0x80000005, 1, 0, 1, INSTRUCTION, "4K"), (0x80000005, 1, 16, 1, DATA, "4K"),
    (0x80000006, 0, 0, 2, INSTRUCTION, _LARGE), (0x80000006, 0, 16, 2, DATA, _LARGE),
    (0x80000006, 1, 0, 2, INSTRUCTION, "4K"), (0x80000006, 1, 16, 2, DATA, "4K"),
    (0x80000019, 0, 0, 1, INSTRUCTION, "1G"), (0x80000019, 0, 16, 1, DATA, "1G"),
    (0x80000019, 1, 0, 2, INSTRUCTION, "1G"), (0x80000019, 1, 16, 2, DATA, "1G"),
)  # fmt: skip


def caches(registers: Registers) -> list[Cache]:
    """Return the caches that hold data, nearest first."""
    leaf = 0x8000001D if (0x8000001D, 0) in registers and registers[0x8000001D, 0][0] & 31 else 4
    found = []
    for sub in range(8):
        eax, ebx, ecx, edx = registers.get((leaf, sub), (0, 0, 0, 0))
        if eax & 31 in (1, 3):
            ways, line = (ebx >> 22) + 1, (ebx & 0xFFF) + 1
            size = ways * ((ebx >> 12 & 0x3FF) + 1) * line * (ecx + 1)
            found.append(Cache(eax >> 5 & 7, size, ways, (eax >> 14 & 0xFFF) + 1, bool(edx & 2)))
    return sorted(found)


def flush_instruction(registers: Registers) -> str:
    """Return the best instruction that the CPU has to write a line back, as Linux chooses it."""
    for name, bit in (("clwb", 24), ("clflushopt", 23)):
        if has(registers, 7, 1, bit):
            return name
    return "clflush"


def broadcast_pages(registers: Registers) -> int:
    """Return how many pages one INVLPGB invalidates on all CPUs; 0 if the CPU has no INVLPGB."""
    _, ebx, _, edx = registers.get((0x80000008, 0), (0, 0, 0, 0))
    return (edx & 0xFFFF) + 1 if ebx >> 3 & 1 else 0


def text(registers: Registers) -> str:
    """Return the CPU's brand string, or else the vendor's name."""
    words = [word for leaf in (0x80000002, 0x80000003, 0x80000004) for word in registers.get((leaf, 0), ())]
    brand = b"".join(word.to_bytes(4, "little") for word in words).split(b"\0")[0]
    if not brand.strip():
        _, ebx, ecx, edx = registers.get((0, 0), (0, 0, 0, 0))
        brand = b"".join(word.to_bytes(4, "little") for word in (ebx, edx, ecx))
    return " ".join(brand.decode("ascii", "replace").split())


def has(registers: Registers, leaf: int, place: int, bit: int) -> bool:
    """Return whether a bit of a register (0 to 3: EAX to EDX) is set."""
    return bool(registers.get((leaf, 0), (0, 0, 0, 0))[place] >> bit & 1)
