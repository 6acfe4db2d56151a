"""Check the lab's tables of systems and jobs, its command line, and the error lines for mistakes in them."""

import pytest
from click.testing import CliRunner

from scmsim.core.errors import UsageError
from scmsim.lab import job, runner, systems


def test_shipped_systems_and_jobs_are_sound():
    table = systems.load()
    assert {"ext4-dax", "xfs-dax", "tmpfs", "nova-cow", "pmfs-4k"} <= set(table)
    for name in job.names():
        loaded = job.load(name, {})
        assert set(loaded.fs) <= set(table) and loaded.plan().regions


def test_own_systems_replace_ours(tmp_path):
    path = tmp_path / "own.toml"
    path.write_text('[ext4]\ntype = "ext4"\noptions = "noatime"\n')
    assert systems.load(path)["ext4"].options == "noatime"
    with pytest.raises(UsageError, match="did you mean 'ext4-dax'"):
        systems.get(systems.load(), "ext4-dex")


def test_a_file_system_may_need_several_cpus():
    assert systems.get(systems.load(), "winefs", 8).cpus == 8
    with pytest.raises(UsageError, match="'winefs' needs a guest with 8 CPUs, not 1; run it with --cpus 8"):
        systems.get(systems.load(), "winefs")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[x]\ntype = 1", "2: x.type: must be text"),
        ('[x]\nmkfs = ["a"]', "1: x.type: is missing; give the file system's name"),
        ('[x]\ntype = "a"\nmkfss = []', "did you mean 'mkfs'"),
        ('[x]\ntype = "a\\u0000b"', "x.type: must be text"),
        ("x = 1", "must be a table"),
        ('[x]\ntype = "a"\ncpus = 0', "x.cpus: must be a whole number from 1 to 64"),
        ("[x", "not TOML"),
    ],
)
def test_mistakes_in_a_table_of_systems(tmp_path, text, said):
    path = tmp_path / "own.toml"
    path.write_text(text)
    with pytest.raises(UsageError, match=said):
        systems.load(path)


def test_every_mistake_of_a_job_is_told_at_once(tmp_path):
    path = tmp_path / "job.toml"
    path.write_text('fs = []\nfoo = 1\n[microbench]\nunits = ["4XB"]\npasses = ["apend"]\n[run]\nrepeats = 0\n')
    with pytest.raises(UsageError) as caught:
        job.load(str(path), {})
    lines = str(caught.value).splitlines()
    keys = ("fs:", "foo:", "microbench.units.0:", "microbench.passes.0:", "run.repeats:")
    assert len(lines) == 5 and all(any(key in line for line in lines) for key in keys)


def test_job_of_a_trace_and_of_a_file(tmp_path):
    path = tmp_path / "job.toml"
    path.write_text('fs = ["tmpfs"]\ntrace = "t.parquet"\n[run]\nrepeats = 2\ntimeout = "90s"\nerms = false\n')
    loaded = job.load(str(path), {"fs": ("ext4",)})
    assert (loaded.fs, loaded.repeats, loaded.timeout_s, loaded.erms) == (("ext4",), 2, 90.0, False)
    assert loaded.trace == str(tmp_path / "t.parquet")
    assert job.load("x/t.parquet", {}).trace == "x/t.parquet"
    with pytest.raises(UsageError, match="did you mean 'smoke'"):
        job.load("smok", {})
    assert [guest.key for guest in runner.guests(loaded)] == ["ext4-1", "ext4-2"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["run", "smoke", "--fs", "ext4-dex"], "did you mean 'ext4-dax'"),
        (["run", "smoke", "--fs", "ext4,ext4"], "twice"),
        (["run", "smoke", "--units", "4XB"], "not a number of bytes"),
        (["run", "nothing"], "no job named 'nothing'"),
        (["setup", "--kernel", "a", "--kernel-image", "b"], "exclude each other"),
        (["setup", "--modules", "a"], "--modules needs --kernel-image"),
    ],
)
def test_mistakes_on_the_command_line_are_one_line(tmp_path, words, said):
    from scmsim.cli import main

    words = [*words, "-o", str(tmp_path / "out")] if words[0] == "run" else words
    done = CliRunner().invoke(main, ["lab", *words], standalone_mode=False)
    assert isinstance(done.exception, UsageError) and said in str(done.exception)
    assert "\n" not in str(done.exception) and not (tmp_path / "out").exists()


@pytest.mark.parametrize("text", ["x", "5/2", "0/7", "1/", "9" * 50])
def test_windows_that_make_no_sense(text):
    from scmsim.cli.lab.run import _window

    with pytest.raises(UsageError, match="--stream"):
        _window(text)
