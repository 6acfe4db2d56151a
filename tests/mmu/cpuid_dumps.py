"""Read the CPUID registers of one CPU per x86 preset from dumps."""

import csv
from collections import defaultdict
from pathlib import Path

DATA = Path(__file__).parents[1] / "data" / "cpuid"
Registers = dict[tuple[int, int], tuple[int, int, int, int]]


def _read() -> tuple[dict[str, Registers], dict[str, str]]:
    """Return the registers of each preset's CPU, by leaf and subleaf, and the name of its dump."""
    registers: dict[str, Registers] = defaultdict(dict)
    files = {}
    with open(DATA / "registers.csv", encoding="ascii") as text:
        for row in csv.DictReader(text):
            eax, ebx, ecx, edx = (int(row[name], 16) for name in ("eax", "ebx", "ecx", "edx"))
            registers[row["preset"]][int(row["leaf"], 16), int(row["subleaf"])] = eax, ebx, ecx, edx
            files[row["preset"]] = row["file"]
    return dict(registers), files


REGISTERS, FILES = _read()
