"""Check the machine that is detected from CPUID: of each dump, of registers made here, and of this computer."""

import os
import platform
from pathlib import Path

import pytest
from click.testing import CliRunner

from scmsim import cli
from scmsim.core.errors import EnvironmentProblem
from scmsim.mmu import cpuid, host, presets
from tests.mmu.cpuid_dumps import REGISTERS

ON_X86 = platform.system() == "Linux" and platform.machine() == "x86_64"


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


def test_numbers_of_a_detected_machine() -> None:
    """Estimates in ns at 2 GHz; an eighth of a cache's lines hold entries of page tables, of a shared one a core's part."""
    caches = {(4, 0): (1 | 1 << 5 | 1 << 14, 11 << 22 | 63, 63, 0), (4, 1): (3 | 2 << 5 | 1 << 14, 15 << 22 | 63, 2047, 0),
              (4, 2): (3 | 3 << 5 | 31 << 14, 11 << 22 | 63, 40959, 0), (4, 3): (3 | 4 << 5, 63, 1, 0)}  # fmt: skip
    leaf_18 = {
        (0x18, 0): (2, 0, 0, 0),
        (0x18, 1): (0, 4 << 16 | 1, 16, 1 | 1 << 5),
        (0x18, 2): (0, 8 << 16 | 1, 8, 2 | 1 << 5),
    }
    seen = host.Seen(caches | leaf_18 | {(0, 0): (9, 1, 2, 3)}, cpus=8, ghz=2.0, ghz_source="measured: a test says it")
    table = host.table(seen)
    memory = [(entry["name"], entry["entries"], entry["ways"], entry["cycles"]) for entry in table["walk_memory"]]
    # 48 KiB, 2 MiB, and 30 MiB of 16 cores of which 8 are there: the most that a machine has room for, in sets of 12 ways
    assert memory == [("l1d", 96, 12, 5), ("l2", 4096, 16, 15), ("l3", 7680, 12, 60)]
    numbers = {
        part: {key: value for key, value in table[part].items() if key != "source"}
        for part in ("walk", "invalidate", "time")
    }
    assert numbers == {
        "walk": {"levels": 4, "largest_page": "2MiB", "memory_cycles": 180, "scm_cycles": 610, "walkers": 2},
        "invalidate": {"cores": 8, "ceiling": 33, "invlpg_cycles": 200, "flush_cycles": 500, "shootdown_cycles": 4280,
                       "shootdown_cpu_cycles": 75, "pcid": 0},
        "time": {"ghz": 2.0, "cpi": 1.0, "stlb_hit_cycles": 7, "walk_hidden": 0.0, "copy_gb_s": 7.1, "lines_in_flight": 16,
                 "syscall_ns": 60},
    }  # fmt: skip
    assert [(entry["entry"], entry["entries"], entry["ways"]) for entry in table["walk_cache"]] == [
        ("pde", 32, 8),
        ("pdpte", 4, 4),
        ("pml4e", 4, 4),
    ]
    told = host.table(
        host.Seen(
            seen.registers | {(0x80000008, 0): (0, 8, 0, 7)},
            frozenset(("pcid", "pdpe1gb")),
            8,
            2.0,
            "measured",
            5,
            (6, 15),
        )
    )
    assert told["invalidate"] | {"source": 0} == numbers["invalidate"] | {
        "pcid": 1, "ceiling": 5, "broadcast_pages": 8, "broadcast_from": 4, "broadcast_cycles": 200, "sync_cycles": 1180,
        "source": 0,
    }  # fmt: skip
    assert told["walk"]["largest_page"] == "1GiB" and len(seen.unseen) == 2
    slow = host.Seen(seen.registers)
    assert host.table(slow)["time"]["ghz"] == 3.0 and len(slow.unseen) == 3


def test_arrays_that_share_a_page_size_are_one() -> None:
    def told(
        *arrays: tuple[tuple[str, ...], int, int], kind: str = "data", is_amd: bool = False, level: int = 1
    ) -> list[tuple]:
        found = [cpuid.Array("18", level, kind, *array) for array in arrays]
        return [
            (e["name"], e["pages"], e["entries"], e["ways"], e.get("coalesce")) for e in host.tlbs(found, is_amd=is_amd)
        ]

    assert told((("4K",), 64, 4), (("2M/4M",), 32, 4)) == [
        ("l1-data-4kib", ["4KiB"], 64, 4, None),
        ("l1-data-2mib", ["2MiB"], 32, 4, None),
    ]
    assert told((("4K", "2M"), 64, 4), (("2M", "1G"), 16, 4)) == [
        ("l1-data-4kib", ["4KiB"], 64, 4, None), ("l1-data-2mib", ["2MiB"], 80, 4, None), ("l1-data-1gib", ["1GiB"], 16, 4,
        None),
    ]  # fmt: skip
    assert told((("4K",), 64, 4), (("4K",), 32, 2)) == [("l1-data-4kib", ["4KiB"], 96, 6, None)]  # 16 sets each
    assert told((("4K",), 64, 4), (("4K",), 64, 4)) == [("l1-data-4kib", ["4KiB"], 128, 4, None)]
    amd = told((("4K",), 64, 64), (("2M/4M",), 64, 64), (("1G",), 16, 16), is_amd=True)
    assert amd == [("l1-data-4kib-2mib", ["4KiB", "2MiB"], 64, 64, 4), ("l1-data-1gib", ["1GiB"], 16, 16, None)]
    for entries, ways in ((2048, 16), (3072, 24), (4096, 16)):
        assert told((("4K",), entries, 8), (("2M/4M",), entries, 4), is_amd=True, level=2)[0][2:] == (entries, ways, 8)
    assert told((("4K",), 512, 8), (("2M/4M",), 512, 4), kind="instruction", is_amd=True, level=2) == [
        ("l2-instruction-4kib-2mib", ["4KiB", "2MiB"], 512, 8, None),
    ]  # fmt: skip


def test_cores_are_pairs_of_package_and_core() -> None:
    threads = [(0, 0), (0, 1), (0, 0), (0, 1), (1, 0), (1, 1)]
    lines = "".join(f"processor\t: 9\nphysical id\t: {a}\nsiblings\t: 4\ncore id\t\t: {b}\n\n" for a, b in threads)
    assert host._cores(lines) == 4


def test_a_cpu_that_tells_nothing_is_an_error_of_the_environment() -> None:
    silent = {at: value for at, value in REGISTERS["i7-8700k"].items() if at[0] not in (2, 0x18)}
    with pytest.raises(EnvironmentProblem, match="reports no TLBs"):
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
        assert "reports no TLBs" in done.stderr
        pytest.skip("CPUID of this machine reports no TLBs")
    assert done.exit_code == 0 and "not seen: " in done.stdout
    assert presets.read(str(tmp_path / "m.toml")) == presets.read("host")
    bad = CliRunner().invoke(cli.main, ["machine", "detect", "--cpu", "99999"])
    assert bad.exit_code == 3 and "no CPU 99999 here" in bad.stderr


def test_the_caches_of_a_detected_machine_are_those_of_its_preset() -> None:
    """But for how a last level is filled, which CPUID does not say of Intel's."""
    for name in ("i7-8700k", "zen1", "zen4-epyc", "lion-cove"):
        table, preset = host.table(host.Seen(REGISTERS[name], cpus=8, ghz=3.7)), presets.read(name)
        shapes = [
            [(e["name"], e["size"], e["ways"], e.get("fill", "non-inclusive")) for e in machine["cache"]]
            for machine in (table, preset)
        ]
        assert shapes[0] == shapes[1] and table["flush"] == preset["flush"]
