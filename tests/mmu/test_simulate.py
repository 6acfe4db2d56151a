"""Check the MMU's functions for programs: `simulate`, `simulate_frame` and `names`."""

import json
import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest

from scmsim import mmu
from scmsim.core.errors import UsageError
from scmsim.mmu import presets, simulate


def test_simulate_takes_kernel_addresses_of_any_integer_type():
    signed = np.array([-(1 << 46), -(1 << 46) + 4096], np.int64)
    assert simulate(signed) == simulate(signed.view(np.uint64))
    assert simulate(signed)["dtlb_user_lookups"] == 0
    assert set(simulate([]).values()) == {0}


def test_simulate_says_what_is_wrong():
    with pytest.raises(UsageError, match="'3KiB' is not the size of a page; use a power of two from 4KiB to 1GiB"):
        simulate([0], page="3KiB")
    with pytest.raises(UsageError, match="did you mean 'i7-8700k'"):
        simulate([0], machine="i7-8700")
    with pytest.raises(UsageError, match="must be integers, not float64"):
        simulate([0.5])


@pytest.mark.parametrize("addresses", [None, 5, [1 << 64], [True], ["0"]])
def test_simulate_wants_integers(addresses):
    with pytest.raises(UsageError, match="integers"):
        simulate(addresses)


def test_simulate_takes_numbers_of_both_halves_and_iterables_of_numbers():
    both = [0, (1 << 64) - 4096]
    assert simulate(both) == simulate([0, -4096]) == simulate(iter(both))
    assert simulate(iter(both))["dtlb_user_lookups"] == 1


def test_a_machine_table_is_checked_as_a_file_is():
    table = presets.read("zen4")
    table["tlb"][0]["ways"] = 5
    with pytest.raises(UsageError, match=r"machine table: tlb.0.ways: 5 does not divide entries = 72"):
        simulate([0], table)
    with pytest.raises(UsageError, match="machine table: tlb: is missing"):
        simulate([0], {})
    file = pathlib.Path(presets.__file__).with_name("machines") / "zen4.toml"
    assert simulate([0], file) == simulate([0], "zen4")


def test_a_frame_has_a_row_for_each_machine_and_page_size():
    sweep = np.arange(0, 1 << 23, 4096)
    frame = mmu.simulate_frame(iter([sweep, sweep]), ["i7-8700k", presets.read("zen4")], ["4KiB", "2MiB"])
    assert frame["page"].tolist() == ["4KiB", "2MiB"] * 2 and frame["machine"][0] == "i7-8700k"
    for row, (machine, page) in enumerate((m, p) for m in ("i7-8700k", "zen4") for p in ("4KiB", "2MiB")):
        assert frame.iloc[row, 2:].to_dict() == simulate(np.tile(sweep, 2), machine, page)


@pytest.mark.parametrize("access", ["load", "store", "fetch"])
def test_simulate_counts_the_access_asked_for(access):
    side = {"load": "dtlb_load", "store": "dtlb_store", "fetch": "itlb"}[access]
    counters = simulate([0, 64, 4096, 1 << 30], access=access)
    assert counters[f"{side}_lookups"] == 4 and counters[f"{side}_misses_walk_completed"] == 3


def test_without_compiled_kernels_the_counts_are_the_same():
    code = (
        "import json, numpy as np; from scmsim.mmu import simulate\n"
        "a = np.random.default_rng(3).zipf(1.3, 300) % 3000 * 4096 - (1 << 46)\n"
        "print(json.dumps([simulate(a, m, p) for m in ('i7-8700k', 'core2-q8200') for p in ('4KiB', '2MiB')]))"
    )
    outputs = [
        json.loads(subprocess.check_output([sys.executable, "-c", code], env={**os.environ, "NUMBA_DISABLE_JIT": off}))
        for off in ("0", "1")
    ]
    assert outputs[0] == outputs[1]


def test_listing_machines_imports_nothing_heavy():
    heavy = "[name for name in ('numba', 'numpy', 'pandas') if name in sys.modules]"
    code = f"import sys; from scmsim import mmu; mmu.names(); print({heavy})"
    assert subprocess.check_output([sys.executable, "-c", code]).strip() == b"[]"
