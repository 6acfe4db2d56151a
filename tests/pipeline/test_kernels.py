"""One kernel for all columns of a replay."""

import pytest

import scmsim
from scmsim import footprint
from scmsim.core.errors import UsageError
from scmsim.pipeline import kernels
from scmsim.result import FOOTPRINTS
from scmsim.workload.microbench import Workload


def test_models_say_which_kernels_they_have_costs_of() -> None:
    linux = ("ext4", "ext4-dax", "xfs-dax", "tmpfs", "ext2-dax")
    assert all(kernels.costs_of(fs) == ["5.13", "6.1", "6.12", "6.18", "7.3"] for fs in linux)
    assert kernels.costs_of("nova-cow") == ["5.13"] and kernels.costs_of("ramfs") == ["6.1"]
    assert kernels.costs_of("scmfs") == []
    known = kernels.kernels()
    assert set(footprint.kernels()) - {"5.13-lines", "6.1-lines"} | {"5.13", "6.1"} <= set(known)
    assert known.index("5.13") < known.index("6.1")
    assert "6.1-lines" not in known  # a second recording of 6.1, for --footprints alone


def test_a_kernel_of_ones_own_may_have_any_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "costs_of", lambda fs: ["6.2-mine"])
    monkeypatch.setattr(footprint, "kernels", lambda: ["6.1", "6.12"])
    assert kernels.kernels() == ["6.1", "6.2-mine", "6.12"]


def test_a_kernel_chooses_costs_and_footprints() -> None:
    chosen = kernels.choose("6.1", ["tmpfs", "pmfs-4k", "scmfs"], {}, None)
    assert chosen.params == {"tmpfs": {"kernel": "6.1"}} and chosen.footprints == "6.1"
    general = "no footprints of {} were measured; those of tmpfs stand for its general layers"
    assert chosen.remarks["tmpfs"] == [] and chosen.remarks["scmfs"] == [general.format("scmfs")]
    footprints, told = chosen.remarks["pmfs-4k"]
    assert (
        footprints == "no footprints of pmfs-4k on Linux 6.1 were measured; those of 5.13 stand for them"
        and told == "no costs of pmfs-4k on Linux 6.1 were measured, but on 5.13: these are charged"
    )


@pytest.mark.parametrize(
    ("kernel", "nearest"),
    [("3.2", "5.10"), ("4.20", "5.10"), ("5.15", "5.10"), ("5.16", "6.1"), ("6.2-mine", "6.1"), ("7.0", "6.18"), ("mine", "5.10")],
)  # fmt: skip
def test_a_kernel_without_footprints_takes_those_of_the_nearest_series_and_says_so(kernel: str, nearest: str) -> None:
    chosen = kernels.choose(kernel, ["pmfs-4k"], {}, None)
    assert chosen.params == {} and chosen.footprints == nearest
    told = f"no footprints of Linux {kernel} were measured; those of {nearest} stand for them (--footprints)"
    assert told in chosen.remarks["pmfs-4k"]


def test_the_nearest_kernel_s_footprints_stand_for_those_that_nobody_measured() -> None:
    assert kernels.choose(None, ["nova-cow"], {}, None) == kernels.Chosen({}, "5.10", {})
    chosen = kernels.choose("5.13", ["ext4-dax", "ext2-ramdisk"], {}, None)
    assert chosen.params["ext4-dax"] == {"kernel": "5.13"} and chosen.footprints == "5.13"
    told = "no footprints of ext2-ramdisk on Linux 5.13 were measured; those of ext2 on 5.10 stand for them"
    assert chosen.remarks["ext4-dax"] == [] and told in chosen.remarks["ext2-ramdisk"]
    given = kernels.choose("5.13", ["ext4-dax"], {}, "6.1")
    assert given.footprints == "6.1" and given.remarks == {"ext4-dax": []}


@pytest.mark.parametrize("kernel", [None, "5.13", "6.1"])
def test_footprints_can_be_switched_off(kernel: str | None) -> None:
    chosen = kernels.choose(kernel, ["tmpfs"], {}, "none")
    assert chosen.footprints is None and not any(chosen.remarks.values())


def test_what_is_given_stays() -> None:
    given = {"tmpfs": {"kernel": "5.13"}}
    assert kernels.choose("6.1", ["tmpfs"], given, None).params == given
    assert kernels.choose(None, ["tmpfs"], given, "6.1") == kernels.Chosen(given, "6.1", {})


@pytest.mark.parametrize("kernel", ["4.1", "6.10", ""])
def test_an_unknown_kernel_is_one_line(kernel: str) -> None:
    with pytest.raises(UsageError, match="no kernel with costs or footprints named"):
        scmsim.replay(Workload("append", 4096, 8192), ["tmpfs"], kernel=kernel)


def test_a_replay_takes_the_kernel_and_says_what_it_lacks() -> None:
    result = scmsim.replay(Workload("append", 4096, 8192), ["tmpfs", "nova-cow"], kernel="6.1")
    tmpfs, nova = result.runs
    assert tmpfs.params["kernel"] == "6.1" and tmpfs.params[FOOTPRINTS].startswith("tmpfs on Linux 6.1")
    assert any("no costs of nova-cow on Linux 6.1" in told for told in nova.warnings)
    assert not any("no costs" in told for told in tmpfs.warnings)
