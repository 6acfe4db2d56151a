"""What CPUID says of the parts behind the presets: decoded here and by another program, as machine tables, beside the presets."""

import csv
import os
import platform
from collections import defaultdict
from pathlib import Path

import pytest
from click.testing import CliRunner

from scmsim import cli
from scmsim.core.errors import EnvironmentProblem
from scmsim.mmu import cpuid, host, presets

DATA = Path(__file__).parents[1] / "data" / "cpuid"
DOCS = Path(__file__).parents[2] / "docs" / "machines.md"
ON_X86 = platform.system() == "Linux" and platform.machine() == "x86_64"

# Arrays of CPUID and of the preset where they differ: (sides, level, pages) -> (entries, ways) in CPUID, in the preset.
# Why: docs/machines.md, "CPUID beside the presets".
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
    "zen1": GUIDE, "zen2": GUIDE,
}  # fmt: skip
Registers = dict[tuple[int, int], tuple[int, int, int, int]]


def _read() -> tuple[dict[str, Registers], dict[str, str]]:
    registers: dict[str, Registers] = defaultdict(dict)
    files = {}
    with open(DATA / "registers.csv", encoding="ascii") as text:
        for row in csv.DictReader(text):
            eax, ebx, ecx, edx = (int(row[name], 16) for name in ("eax", "ebx", "ecx", "edx"))
            registers[row["preset"]][int(row["leaf"], 16), int(row["subleaf"])] = eax, ebx, ecx, edx
            files[row["preset"]] = row["file"]
    return dict(registers), files


REGISTERS, FILES = _read()


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
    assert checked == 14  # leaf 2 is not in that table


def test_caches_and_names() -> None:
    caches = cpuid.caches(REGISTERS["granite-rapids"])
    assert [(cache.level, cache.size >> 10, cache.ways) for cache in caches] == [
        (1, 48, 12),
        (2, 2048, 16),
        (3, 147456, 16),
    ]
    assert cpuid.text(REGISTERS["granite-rapids"]) == "Intel(R) Xeon(R) 658X"
    assert [cache.size >> 10 for cache in cpuid.caches(REGISTERS["zen5-epyc"])] == [48, 1024, 32768]


@pytest.mark.parametrize("name", sorted(REGISTERS))
def test_each_part_gives_a_machine_that_runs(name: str, tmp_path: Path) -> None:
    flags = frozenset(("la57", "pdpe1gb", "pcid", "hypervisor"))
    seen = host.Seen(REGISTERS[name], flags, cpus=8, ghz=2.5, ghz_source="measured: a test says it")
    table = host.table(seen)
    (tmp_path / "m.toml").write_text(host.toml(table, seen.unseen), encoding="utf-8")
    read = presets.read(str(tmp_path / "m.toml"))
    assert read == table and read["walk"]["levels"] == 5 and read["time"]["ghz"] == 2.5
    assert any("virtual one" in what for what in seen.unseen)
    assert (tmp_path / "m.toml").read_text(encoding="utf-8").startswith("# Not seen: ")
    presets.machine(read)


def test_broadcast_invalidations_are_those_that_cpuid_tells_of() -> None:
    """INVLPGB: server parts of Zen 4 and 5, and no desktop part; a machine that is detected has it where its Linux uses it."""
    told = {name: cpuid.broadcast_pages(registers) for name, registers in REGISTERS.items()}
    assert {name: pages for name, pages in told.items() if pages} == {"zen4-epyc": 8, "zen5-epyc": 8}
    for name, pages in told.items():
        assert presets.read(name)["invalidate"].get("broadcast_pages", 0) == pages
        for linux, used in (((6, 14), 0), ((6, 15), pages)):
            seen = host.Seen(REGISTERS[name], cpus=8, ghz=2.5, ghz_source="measured: a test says it", linux=linux)
            assert host.table(seen)["invalidate"].get("broadcast_pages", 0) == used


def test_zen_5_counts_in_units_of_32_even_where_a_hypervisor_hides_it() -> None:
    masked = {at: value for at, value in REGISTERS["zen5-epyc"].items() if at[0] not in (0x80000021, 0x80000019)}
    assert {a.entries for a in cpuid.arrays(masked) if a.level == 2} == {4096, 2048}


@pytest.mark.parametrize("name", ["i7-8700k", "zen4-epyc"])
def test_an_estimate_is_that_of_the_preset_that_it_names(name: str) -> None:
    """And of the machine whose documents it names: INVLPGB is used from four CPUs on (Linux, consider_global_asid)."""
    table = host.table(host.Seen(REGISTERS[name], cpus=8, ghz=3.7, ghz_source="measured: a test", linux=(6, 15)))
    checked = 0
    for part in ("walk", "invalidate", "time"):
        for key, source in table[part]["source"].items():
            if "as the preset sapphire-rapids has" in source and key != "syscall_ns":  # which follows the clock
                assert table[part][key] == presets.read("sapphire-rapids")[part][key], key
                checked += 1
    costs, preset = table["invalidate"], presets.read("sapphire-rapids")
    for key in ("invlpg_cycles", "shootdown_cycles", "shootdown_cpu_cycles"):
        assert costs[key] / 3.7 == pytest.approx(preset["invalidate"][key] / preset["time"]["ghz"], rel=0.01), key
    assert checked == 2 and table["invalidate"].get("broadcast_from", 4) == 4
    assert table["invalidate"]["cores"] == 8 and table["invalidate"]["ceiling"] == 33
    assert host.table(host.Seen(REGISTERS[name], ceiling=77))["invalidate"]["ceiling"] == 77


def test_cores_are_pairs_of_package_and_core() -> None:
    threads = [(0, 0), (0, 1), (0, 0), (0, 1), (1, 0), (1, 1)]
    lines = "".join(f"processor\t: 9\nphysical id\t: {a}\nsiblings\t: 4\ncore id\t\t: {b}\n\n" for a, b in threads)
    assert host._cores(lines) == 4


def test_a_cpu_that_tells_nothing_is_an_error_of_the_environment() -> None:
    silent = {at: value for at, value in REGISTERS["i7-8700k"].items() if at[0] not in (2, 0x18)}
    with pytest.raises(EnvironmentProblem, match="tells nothing of its TLBs"):
        host.table(host.Seen(silent, ghz=1.0))


@pytest.mark.skipif(not ON_X86, reason="this machine is no x86 with Linux")
def test_this_machine(tmp_path: Path) -> None:
    before = os.sched_getaffinity(0)
    seen = host.look()
    assert os.sched_getaffinity(0) == before and seen.registers[0, 0][0] >= 1 and seen.ghz > 0
    vendor = cpuid.text({(0, 0): seen.registers[0, 0]})
    told = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    assert f": {vendor}\n" in told and f": {cpuid.text(seen.registers)}\n" in " ".join(told.split(" ")).replace(
        "  ", " "
    )
    done = CliRunner().invoke(cli.main, ["machine", "detect", "-o", str(tmp_path / "m.toml")])
    if done.exit_code == 3:
        assert "tells nothing of its TLBs" in done.stderr
        pytest.skip("CPUID of this machine tells nothing of its TLBs")
    assert done.exit_code == 0 and "not seen: " in done.stdout
    assert presets.read(str(tmp_path / "m.toml")) == presets.read("host")
    bad = CliRunner().invoke(cli.main, ["machine", "detect", "--cpu", "99999"])
    assert bad.exit_code == 3 and "no CPU 99999 here" in bad.stderr
