"""What large pages are worth to mapped files: counts of replays, the files that gain, and what `advise` and `space` say of them."""

import json
import pathlib

import numpy as np
from click.testing import CliRunner

import scmsim
from scmsim import cli
from scmsim.study import space
from scmsim.study.advise import kernels as k
from scmsim.study.advise.profile import profile
from scmsim.study.page_size.benefit import COUNTERS, setting_of, worth
from scmsim.workload import lmdb, mapped
from tests.fs import drive

MIB = 1 << 20
SHIPPED = pathlib.Path(__file__).parents[3] / "traces" / "mapped" / "lmdb-get.parquet"


def run(*words):
    return CliRunner().invoke(cli.main, list(map(str, words)))


def two_files():
    """One of 8 MiB and one of 64 KiB, mapped and loaded in every page."""
    rows = [("mmap", f, 0, size) for f, size in enumerate((8 * MIB, 64 << 10))]
    rows += [("load", f, at, 8) for f, size in enumerate((8 * MIB, 64 << 10)) for at in range(0, size, 4096)]
    return drive.source(drive.files(8 * MIB, 64 << 10), drive.ops(*rows))


def test_the_figures_are_those_of_replays_with_and_without():
    found = worth(lmdb.Workload(entries=5000, count=300), "ext4-dax")
    for given, counts in (({}, found.before), ({"data_alignment": "2MiB"}, found.after)):
        one = scmsim.replay(lmdb.Workload(entries=5000, count=300), "ext4-dax", params={"ext4-dax": given}).runs[0]
        assert counts == {name: one.counters[counter] for name, counter in COUNTERS.items()}
    assert found.setting == "data_alignment=2MiB" and found.after["faults_2m"] > 0 == found.before["faults_2m"]
    assert found.after["walks"] < found.before["walks"]
    assert [one.path for one in found.files] == ["/lmdb/data.mdb"] and found.files[0].gains


def test_a_captured_database_has_the_faults_of_the_documented_example():
    found, lock = worth(SHIPPED, "ext4-dax").files
    assert (lock.before["faults_4k"], lock.after["faults_4k"], lock.gains) == (1, 1, False)
    assert (found.before["faults_4k"], found.after["faults_4k"], found.after["faults_2m"]) == (967, 23, 13)


def test_only_files_with_whole_2_mib_gain():
    found = worth(two_files(), "ext4-dax")
    large, small = found.files
    assert large.gains and (large.before["faults_4k"], large.after["faults_2m"]) == (2048, 4)
    assert not small.gains and small.before["faults_4k"] == small.after["faults_4k"] == 16


def test_models_without_a_parameter_are_replayed_once_and_those_without_mappings_say_why():
    assert setting_of("nova-cow", {}) == "" and setting_of("tmpfs", {"huge": "never"}) == ""
    found = worth(two_files(), "nova-cow")
    assert found.setting == "" and found.before == found.after and not any(one.gains for one in found.files)
    assert isinstance(worth(two_files(), "simfs"), str)


def test_touches_of_mapped_files_are_touches_of_the_advice():
    found = profile(two_files())
    assert found.rows[:, k.TOUCHED].tolist() == [2048, 16] and len(found.runs) == 2064
    behind = drive.ops(("mmap", 0, 0, 8192), ("store", 0, 4000, 200), ("store", 0, 8000, 500), ("load", 0, 9000, 8))
    stored = profile(drive.source(drive.files(8192), behind))
    assert stored.written == 200 + 192 and stored.sums[k.OVER] == 0, "in place, and only what lies in the file"


def test_space_of_mapped_files():
    before = space.of_fs(two_files(), "ext4-dax").total
    after = space.of_fs(two_files(), "ext4-dax", {"data_alignment": "2MiB"})
    assert before["mapped_files"] == 2 and before["mapped_file_bytes"] == 8 * MIB + (64 << 10)
    assert (before["mappable_2m_bytes"], after.total["mappable_2m_bytes"]) == (0, 8 * MIB)
    assert (before["mapping_table_bytes"], after.total["mapping_table_bytes"]) == (4096 * (5 + 2), 4096 * (1 + 2))
    assert after.files["mappable_2m_bytes"][np.argsort(after.files["file"])].tolist() == [8 * MIB, 0]
    policies = {name: space.of_policy(two_files(), name) for name in ("pages-4k", "pages-2m")}
    assert [one.total["mappable_2m_bytes"] for one in policies.values()] == [0, 8 * MIB + (64 << 10)]
    assert policies["pages-2m"].files["mappable_2m_bytes"].tolist() == [8 * MIB, 64 << 10]
    untouched = drive.source(drive.files(8 * MIB), drive.ops(("mmap", 0, 0, 8 * MIB), ("munmap", 0, 0, 8 * MIB)))
    assert "mapped_files" not in space.of_fs(untouched, "ext4-dax").total
    assert "mapped_files" not in space.of_fs(drive.source(drive.files(-1), drive.ops(("create", 0))), "ext4-dax").total


def test_the_commands(tmp_path):
    trace = tmp_path / "t.parquet"
    assert run("synth", "mapped", "--file-size", "8MiB", "--touches", "3000", "-o", trace).exit_code == 0
    shown = run("advise", trace, "--fs", "ext4-dax,simfs")
    assert shown.exit_code == 0, shown.output
    assert "data_alignment=2MiB" in shown.stdout and "faults and walks" in shown.stdout and "simfs: " in shown.stdout
    told = json.loads(run("advise", trace, "--fs", "ext4-dax", "--json").stdout)["mapped_files"]["ext4-dax"]
    again = worth(mapped.Workload(file_size=8 * MIB, touches=3000), "ext4-dax")
    assert (told["before"], told["after"]) == (again.before, again.after) and told["files"][0]["gains"]
    both = json.loads(run("space", trace, "--fs", "ext4-dax", "--json", "--by-file").stdout)
    assert [one["name"] for one in both] == ["ext4-dax", "ext4-dax data_alignment=2MiB"]
    assert [one["by_file"][0]["mappable_2m_bytes"] for one in both] == [0, 8 * MIB]
    assert "by 2 MiB" in run("space", trace, "--fs", "ext4-dax", "--by-file").stdout
    given = json.loads(
        run("space", trace, "--fs", "ext4-dax", "--set", "ext4-dax.data_alignment=2MiB", "--json").stdout
    )
    assert len(given) == 1
