"""Check the points of a sweep: the parameters that can be axes, keys, random points, and mistakes."""

import pytest

from scmsim.core import registry
from scmsim.core.toml import ConfigError
from scmsim.sweep import config as configs
from scmsim.sweep import point
from tests.sweep.small_sweep import SMALL, invoke, table, write


def test_kernel_and_what_else_runs_are_axes(tmp_path):
    (tmp_path / "meminfo").write_text("DirectMap4k: 100 kB\nDirectMap2M: 2048 kB\nDirectMap1G: 0 kB\n")
    text = """
    [fixed]
    fs = "tmpfs"
    meminfo = "meminfo"
    workload = { kind = "microbench", op = "append", unit = "4KiB", total = "64KiB" }
    [axes]
    footprints = ["6.1", "6.12"]
    system = ["alone", "busy"]
    """
    path = write(tmp_path, text)
    assert invoke(path, "-o", tmp_path / "out").exit_code == 0
    found = table(tmp_path / "out").to_pydict()
    assert sorted(zip(found["footprints"], found["system"], strict=True))[0] == ("6.1", "alone")
    assert len(set(found["dtlb_l1_misses"])) > 1, found
    refused = invoke(write(tmp_path, text.replace('"6.12"', '"6.2"'), "sweep-u.toml"), "-o", tmp_path / "none")
    assert refused.exit_code == 2 and "'6.2'" in refused.output, refused.output


def test_text_and_number_of_a_size_are_the_same_point(tmp_path):
    texts = (
        'trace = "t.toml"\npolicy = "tps"\n"set.tps.capacity" = "1GiB"',
        'trace = "t.toml"\npolicy = "tps"\nset.tps.capacity = 1073741824',
    )
    write(tmp_path, "", "t.toml")
    sweeps = [configs.load(write(tmp_path, f'mode = "list"\n[[point]]\n{text}')) for text in texts]
    assert len({point.key_of(sweep.points[0]) for sweep in sweeps}) == 1


def test_the_key_follows_the_content_of_the_trace(tmp_path):
    trace = write(tmp_path, "a", "t.parquet")
    settings = {"policy": "tps", "trace": str(trace)}
    before = point.key_of(settings)
    trace.write_text("b")
    assert point.key_of(settings) != before


def test_the_key_follows_the_footprints(tmp_path, monkeypatch):
    settings = {"policy": "tps", "footprints": str(tmp_path)}
    keys = set()
    for name, text in (("a", "1"), ("a", "2"), ("b", "2"), ("a", "1")):
        for file in tmp_path.glob("*.npz"):
            file.unlink()
        write(tmp_path, text, f"{name}.npz")
        keys.add(point.key_of(settings))
    assert len(keys) == 3


def test_the_key_follows_the_models(tmp_path, monkeypatch):
    settings = {"policy": "tps", "workload.kind": "microbench"}
    keys = set()
    monkeypatch.setenv("SCMSIM_PLUGINS", str(tmp_path))
    (tmp_path / "fs").mkdir()
    for text in ("A = 1", "A = 2", "A = 1"):
        write(tmp_path, text, "fs/mine.py")
        registry.sources.cache_clear()
        keys.add(point.key_of(settings))
    registry.sources.cache_clear()
    assert len(keys) == 2


def test_random_points_are_drawn_by_their_seed(tmp_path):
    text = 'mode = "random"\npoints = 7\nseed = SEED\n' + SMALL
    drawn = [configs.load(write(tmp_path, text.replace("SEED", str(seed)))).points for seed in (3, 3, 4)]
    assert drawn[0] == drawn[1] != drawn[2] and len(drawn[0]) <= 7


@pytest.mark.slow
def test_the_table_names_the_paging_that_ran(tmp_path):
    text = """
[fixed]
paging = "base-4k"
[fixed.workload]
kind = "microbench"
total = "16KiB"
[axes]
fs = ["pmfs-4k", "scmfs"]
"""
    assert invoke(write(tmp_path, text), "-o", tmp_path / "out").exit_code == 0
    found = table(tmp_path / "out")
    assert dict(zip(found["fs"].to_pylist(), found["paging"].to_pylist(), strict=True)) == {
        "pmfs-4k": "base-4k",
        "scmfs": "own",
    }


@pytest.mark.slow
def test_the_shape_of_a_tlb_is_a_parameter(tmp_path):
    text = """
[fixed]
fs = "pmfs-4k"
paging = "base-4k"
[fixed.workload]
kind = "microbench"
op = "rewrite"
total = "4MiB"
passes = 3
[axes]
"machine.stlb.entries" = [192, 3072]
"""
    assert invoke(write(tmp_path, text), "-o", tmp_path / "out").exit_code == 0
    found = table(tmp_path / "out")
    small, large = found["dtlb_walks"].to_pylist()
    assert small > 3000 > 10 * large
    assert found["machine"].to_pylist() == ["i7-8700k stlb.entries=192", "i7-8700k stlb.entries=3072"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[axes]\nfs = ['nova-cwo']", "2: axes.fs: no file system named 'nova-cwo'; did you mean 'nova-cow'"),
        ("[axes]\nfs = []", "2: axes.fs: must be a list of values"),
        ("[axes]\nset.nova-cow.size = ['1GiB']", "axes.set.nova-cow.size: no parameter of 'nova-cow' named 'size'"),
        ("[fixed]\ntrace = 'none.parquet'", "2: fixed.trace: no file 'none.parquet' in the folder of the sweep"),
        ("[axes]\nfs = ['ext4']\n", "a point needs trace (a stored trace) or workload.kind"),
        ("mode = 'gird'", "1: mode: no mode named 'gird'; did you mean 'grid'"),
        ("[axes]\nx.y.z.w = [1]", "no parameter named 'x.y.z.w'"),
        (
            "[axes]\n'workload.unit' = {from = 1, to = 9}",
            "2: axes.workload.unit: not a valid range: give from, to and either times",
        ),
        (
            "[axes]\n'workload.unit' = {from = 1, times = 2}",
            "2: axes.workload.unit: the range has no 'to'; give from, to and either times or step",
        ),
        (
            "[axes]\n'workload.unit' = {from = 1, to = 9, times = '2'}",
            "times is '2'; give a whole number of at least 2",
        ),
        (
            "[axes]\n'workload.unit' = {from = 1, to = 9, times = 2.5}",
            "times is 2.5; give a whole number of at least 2",
        ),
        ("[axes]\nfs = ['ext4']\nfs = ['ext4']", "not TOML"),
        ("mode = 'list'\n[axes]\nfs = ['ext4']", 'mode = "list" takes [[point]] tables'),
    ],
)
def test_every_mistake_has_its_line(tmp_path, text, said):
    with pytest.raises(ConfigError) as caught:
        configs.load(write(tmp_path, text))
    assert said in str(caught.value)
