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
    assert row.split() == ["paging", "directmap-1g", "virtual-superpages"]


def test_a_machine_without_1_gib_pages_runs_2_mib_ones_and_says_so():
    found, given = run("nova-cow", "core2-q8200"), run("nova-cow", "core2-q8200", paging="directmap-2m")
    assert found.paging == "directmap-2m" and found.counters == given.counters and not given.warnings
    assert found.warnings == ["core2-q8200 has no pages of 1GiB: directmap-2m ran in place of directmap-1g"]
    large = {"directmap-1g": {"user_page": "2MiB"}}  # of the policy that was asked for
    assert run("nova-cow", "core2-q8200", params=large).params["user_page"] == 2 << 20


def test_pages_larger_than_the_machines_are_said():
    found = run("nova-cow", "core2-q8200", paging="ioremap").warnings
    assert found == ["core2-q8200 has no pages of 1GiB: persistent memory is on pages of 2MiB"]


@pytest.mark.parametrize("fs", ["scmfs", "simfs"])
def test_a_file_system_that_maps_by_itself_says_that_paging_has_no_effect(fs):
    alone, given = run(fs), run(fs, paging="base-4k")
    assert alone.paging == given.paging == "own" and alone.counters == given.counters and not alone.warnings
    assert given.warnings == [f"{fs} maps persistent memory itself: paging 'base-4k' has no effect"]


def test_own_is_for_those_that_map_by_themselves():
    with pytest.raises(UsageError, match="nova-cow does not map persistent memory itself, so paging 'own' is none"):
        run("nova-cow", paging="own")


def test_what_lies_in_dram_is_on_the_kernels_pages():
    assert run("tmpfs", paging="base-4k").warnings == ["tmpfs lies in DRAM, which base-4k maps with pages of 2MiB"]
    assert not run("tmpfs").warnings and not run("tmpfs", paging="directmap-2m").warnings


def test_addresses_are_those_of_the_replay():
    """A miss-ratio curve of vsm is one of vsm on its own page table."""
    found = [part.tolist() for part in touches(Workload(**WORK), "vsm")]
    assert found == [part.tolist() for part in touches(Workload(**WORK), "vsm", paging="virtual-superpages")]
    assert found != [part.tolist() for part in touches(Workload(**WORK), "vsm", paging="directmap-1g")]


def test_parameters_of_a_policy_that_does_not_run_are_refused():
    with pytest.raises(UsageError, match="no model in this replay named 'directmap-1g'; .*choose from scmfs, own|own"):
        run("scmfs", params={"directmap-1g": {"user_page": "2MiB"}})
    assert run("scmfs", params={"own": {"user_page": "2MiB"}}).params["user_page"] == 2 << 20
