"""Which paging runs: the file system's own unless one is given, and what a machine cannot do is said."""

import pytest

import scmsim
from scmsim.core import registry
from scmsim.core.errors import UsageError
from scmsim.paging import _choice as choice
from scmsim.pipeline import touches
from scmsim.workload.microbench import Workload

WORK = {"op": "append", "unit": 4096, "total": 1 << 20}


def run(fs, machine="i7-8700k", **more):
    return scmsim.replay(Workload(**WORK), fs, machine, **more).runs[0]


def walks(found):
    return {name: count for name, count in found.counters.items() if "walk" in name}


def test_every_file_system_wants_a_policy_that_there_is():
    wanted = {fs: choice.wanted(fs) for fs in registry.names("fs")}
    assert set(wanted.values()) <= set(registry.names("paging"))
    special = {fs: policy for fs, policy in wanted.items() if policy != choice.DEFAULT}
    assert special == {
        "vsm": "virtual-superpages", "vsm-1g": "virtual-superpages",
        "scmfs": "own", "scmfs-lp": "own", "simfs": "own", "ctfs": "own",
    }  # fmt: skip


def test_vsm_runs_on_the_page_table_that_it_rewrites():
    found, given = run("vsm"), run("vsm", paging="virtual-superpages")
    assert found.paging == "virtual-superpages" and found.counters == given.counters
    assert walks(found) != walks(run("vsm", paging="directmap-1g"))


def test_a_table_names_the_paging_of_each_column():
    text = scmsim.replay(Workload(**WORK), "nova-cow,vsm").table()
    row = next(line for line in text.splitlines() if line.startswith("paging"))
    assert row.split() == ["paging", "linux", "virtual-superpages"]


def test_a_machine_without_1_gib_pages_runs_2_mib_ones_and_says_so():
    found = run("nova-cow", "core2-q8200", paging="directmap-1g")
    given = run("nova-cow", "core2-q8200", paging="directmap-2m")
    assert found.paging == "directmap-2m" and found.counters == given.counters and not given.warnings
    assert found.warnings == ["core2-q8200 has no pages of 1GiB: directmap-2m ran in place of directmap-1g"]
    large = {"directmap-1g": {"user_page": "2MiB"}}  # of the policy that was asked for
    assert run("nova-cow", "core2-q8200", paging="directmap-1g", params=large).params["user_page"] == 2 << 20


def test_linux_takes_the_largest_pages_of_the_machine():
    found, given = run("nova-cow", "core2-q8200"), run("nova-cow", "core2-q8200", paging="directmap-2m")
    assert found.paging == "linux" and found.counters == given.counters
    assert found.warnings == ["core2-q8200 has no pages of 1GiB: persistent memory is on pages of 2MiB"]
    assert run("nova-cow").counters == run("nova-cow", paging="directmap-1g").counters


def test_pages_larger_than_the_machines_are_said():
    found = run("nova-cow", "core2-q8200", paging="ioremap").warnings
    assert found == ["core2-q8200 has no pages of 1GiB: persistent memory is on pages of 2MiB"]


@pytest.mark.parametrize(
    ("fs", "asked", "ran", "largest", "in_dram", "said"),
    [
        ("nova-cow", None, "linux", "1GiB", False, ""),  # pages just as large as the machine's
        ("nova-cow", None, "linux", "512MiB", False, "m has no pages of 1GiB: persistent memory is on pages of 512MiB"),
        ("tmpfs", None, "linux", "4KiB", True, ""),
        ("tmpfs", "linux", "linux", "4KiB", True, ""),
        ("tmpfs", "base-4k", "base-4k", "1GiB", True, "tmpfs lies in DRAM, which every paging maps alike"),
        (
            "nova-cow",
            "directmap-1g",
            "directmap-2m",
            "2MiB",
            False,
            "m has no pages of 1GiB: directmap-2m ran in place",
        ),
        ("scmfs", None, "own", "4KiB", False, ""),
        (
            "scmfs",
            "base-4k",
            "own",
            "4KiB",
            False,
            "scmfs maps persistent memory itself: paging 'base-4k' has no effect",
        ),
    ],
)
def test_what_is_told_of_a_policy(fs, asked, ran, largest, in_dram, said):
    state = registry.load("paging", ran).start({})
    told = choice.remarks(fs, asked, ran, ("m", largest), state, in_dram)
    assert len(told) == bool(said) and "".join(told).startswith(said)


@pytest.mark.parametrize("fs", ["scmfs", "simfs"])
def test_a_file_system_that_maps_by_itself_says_that_paging_has_no_effect(fs):
    alone, given = run(fs), run(fs, paging="base-4k")
    assert alone.paging == given.paging == "own" and alone.counters == given.counters and not alone.warnings
    assert given.warnings == [f"{fs} maps persistent memory itself: paging 'base-4k' has no effect"]


def test_own_is_for_those_that_map_by_themselves():
    with pytest.raises(
        UsageError, match="nova-cow does not map persistent memory itself, so it cannot use paging 'own'"
    ):
        run("nova-cow", paging="own")


def test_what_lies_in_dram_is_mapped_alike_by_every_policy():
    alone, given = run("tmpfs"), run("tmpfs", paging="base-4k")
    assert given.counters == alone.counters and not alone.warnings
    said = "tmpfs lies in DRAM, which every paging maps alike (--meminfo): base-4k has no effect"
    assert given.warnings == [said] and not run("tmpfs", paging="linux").warnings


def test_meminfo_says_how_dram_is_mapped(tmp_path):
    file = tmp_path / "meminfo"
    file.write_text(
        "MemTotal:  9 kB\nDirectMap4k:           4 kB\nDirectMap2M:           0 kB\nDirectMap1G:     4194304 kB\n"
    )
    found = run("tmpfs", meminfo=file)
    assert {name: found.params[name] for name in ("direct_4k", "direct_2m", "direct_1g")} == {
        "direct_4k": 4096, "direct_2m": 0, "direct_1g": 4 << 30,
    }  # fmt: skip
    large = "dtlb_store_misses_walk_completed_1g"
    assert found.counters[large] and not run("tmpfs").counters[large]
    kept = run("tmpfs", meminfo=file, params={"linux": {"direct_1g": 0, "direct_2m": "1GiB"}})
    assert kept.counters == run("tmpfs").counters


@pytest.mark.parametrize(
    "text", ["", "MemTotal: 12 kB\n", "DirectMap4k: 0 kB\n", "DirectMap4k: many kB\n", "DirectMap4M: 12 kB\n"]
)
def test_a_file_that_is_no_meminfo_is_refused(tmp_path, text):
    file = tmp_path / "other"
    file.write_text(text)
    with pytest.raises(UsageError, match="has no lines DirectMap4k, DirectMap2M, DirectMap1G; give /proc/meminfo"):
        run("tmpfs", meminfo=file)
    with pytest.raises(UsageError, match="cannot read .*; give a copy of /proc/meminfo"):
        run("tmpfs", meminfo=tmp_path / "none")


def test_addresses_are_those_of_the_replay():
    """A miss-ratio curve of vsm is one of vsm on its own page table."""
    found = [part.tolist() for part in touches(Workload(**WORK), "vsm")]
    assert found == [part.tolist() for part in touches(Workload(**WORK), "vsm", paging="virtual-superpages")]
    assert found != [part.tolist() for part in touches(Workload(**WORK), "vsm", paging="directmap-1g")]


def test_parameters_of_a_policy_that_does_not_run_are_refused():
    with pytest.raises(UsageError, match="no model in this replay named 'directmap-1g'; .*choose from scmfs, own|own"):
        run("scmfs", params={"directmap-1g": {"user_page": "2MiB"}})
    assert run("scmfs", params={"own": {"user_page": "2MiB"}}).params["user_page"] == 2 << 20
