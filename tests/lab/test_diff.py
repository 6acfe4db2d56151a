"""Two kernels compared: differences, what appeared and went, limits; kernels by name, and Debian's packages."""

import json
import os
import pathlib
import shutil
import subprocess
import xml.etree.ElementTree as xml

import numpy as np
import pytest
from click.testing import CliRunner

from scmsim.cli import main
from scmsim.core.errors import EnvironmentProblem, UsageError
from scmsim.lab import cache, call_counts, calls, counts, debian, diff, diff_table, kernel, outcome, plan
from scmsim.lab.measured import Measured

NAMES = (
    "entry_SYSCALL_64_after_hwframe",
    "do_syscall_64",
    "vfs_write",
    "old_helper.isra.0",
    "new_helper",
    "kjournald2",
    "rcu_gp_kthread",
)
AT = {name: 0xFFFFFFFF81000000 + 256 * k for k, name in enumerate(NAMES)}
KALLSYMS = "".join(f"{at:016x} t {name}\n" for name, at in AT.items()).encode()
STACKS = (0xFFFFC90000010000, 0xFFFFC90000110000, 0xFFFFC90000210000)
UNITS, TOTAL = (1024, 4096), 16384


def guest(folder, repeat=1, version="6.1", walks=None, **instructions):
    """Counts of a guest as `lab run` keeps them: instructions of each function in the region of the first pass.

    `walks`: of each of these functions, on i7-8700k; every walk is a first-level miss, and there is one more.
    """
    nodes = [(STACKS[0], calls.NO_PARENT, 0), (AT["do_syscall_64"], 0, 0)]
    nodes += [
        (STACKS[1], calls.NO_PARENT, 0),
        (AT["kjournald2"], 2, 0),
        (STACKS[2], calls.NO_PARENT, 0),
        (AT["rcu_gp_kthread"], 4, 0),
    ]
    rows = np.zeros(len(instructions), counts.ROW)
    for row, (name, count) in zip(rows, instructions.items(), strict=True):
        where = {"kjournald2": 3, "rcu_gp_kthread": 5}.get(name, 1)
        row["address"], row["node"], row["region"], row["instructions"] = AT[name.replace("__", ".")], where, 1, count
        row["store_fences"] = count // 100
    made = Measured(rows, KALLSYMS, {}, 1.0, np.array(nodes, calls.NODE))
    folder.mkdir(exist_ok=True)
    found = outcome.Outcome("ext4", plan.microbench(UNITS, TOTAL), made)
    misses = {"l1_misses": np.array(walks or [], np.uint64) + 1, "walks": np.array(walks or [], np.uint64)}
    machine = {"machine": "i7-8700k", "misses": misses} if walks else {}
    call_counts.keep(folder / f"ext4-{repeat}{call_counts.SUFFIX}", found, version, **machine)
    return folder


@pytest.fixture
def two(tmp_path):
    a = guest(tmp_path / "a", vfs_write=1600, old_helper__isra__0=320, kjournald2=500, rcu_gp_kthread=900)
    b = guest(tmp_path / "b", version="6.12", vfs_write=1760, new_helper=640, kjournald2=500, rcu_gp_kthread=9000)
    return a, b


def compared(two):
    return diff.compare(*(diff.measured(folder, "ext4") for folder in two))


def test_differences_by_function_and_what_appeared_and_went(two):
    found = compared(two)
    assert [(row["op"], row["unit"], row["instructions"]) for row in found["operations"]] == [
        ("append", 1024, [2420, 2900])
    ]
    rows = {row["name"]: (row["instructions"], row["only"]) for row in found["function"]}
    assert rows == {
        "new_helper": ([0, 640], "b"), "old_helper": ([320, 0], "a"), "vfs_write": ([1600, 1760], ""),
        "kjournald2": ([500, 500], ""),
    }  # fmt: skip
    assert [row["name"] for row in found["function"]] == [
        "new_helper",
        "old_helper",
        "vfs_write",
        "kjournald2",
    ]  # largest first
    assert {row["name"]: row["instructions"] for row in found["task"]} == {"": [1920, 2400], "kjournald2": [500, 500]}
    shown = diff_table.text([found], "function", 3)
    assert "6.1 -> 6.12, one run each" in shown and "+19.8 %" in shown and "kjournald2" not in shown
    (line,) = [line for line in shown.splitlines() if line.startswith("new_helper")]
    assert line.split()[1:] == ["0.0", "40.0", "+40.0", "new", "append", "1024"]


def test_only_what_the_second_takes_more_is_beyond_a_limit(two):
    found = compared(two)
    assert diff.exceeded(found, 0.2) == []
    assert diff.exceeded(found, 0.05) == [
        "ext4 append 1024: instructions +480 of 2,420 (+19.8 %)",
        "ext4 append 1024: fences +4 of 24 (+16.7 %)",
    ]
    assert diff.exceeded(compared(two[::-1]), 0) == []


def with_misses(tmp_path):
    """Two folders: 1000 instructions each, but other walks; those of an unrelated thread count for no call."""
    a = guest(tmp_path / "c", walks=[32, 48, 7], vfs_write=600, kjournald2=400, rcu_gp_kthread=900)
    b = guest(tmp_path / "d", version="6.12", walks=[16, 160, 900], vfs_write=600, kjournald2=400, rcu_gp_kthread=900)
    return a, b


def test_misses_are_compared_where_both_were_counted(tmp_path):
    found = compared(with_misses(tmp_path))
    (operation,) = found["operations"]
    assert found["machine"] == "i7-8700k" and operation["walks"] == [80, 176] and operation["L1 misses"] == [82, 178]
    assert {row["name"]: row["walks"] for row in found["task"]} == {"": [32, 16], "kjournald2": [48, 160]}
    assert diff.exceeded(found, 0) == []  # misses have no limit
    shown = diff_table.text([found], "function", 3, of="walks").splitlines()
    assert shown[0].endswith("one run each, TLB of i7-8700k") and shown[2].split()[-2:] == ["L1", "misses"]
    assert shown[3].split()[:7] == ["append", "1024", "16", "5.0", "11.0", "+6.0", "+120.0"]
    rows = [line.split() for line in shown if line.startswith(("vfs_write", "kjournald2"))]
    assert rows == [
        ["kjournald2", "3.0", "10.0", "+7.0", "append", "1024"],
        ["vfs_write", "2.0", "1.0", "-1.0", "append", "1024"],
    ]


def test_misses_of_one_kernel_alone_or_of_another_machine_are_refused(two, tmp_path):
    a, _ = with_misses(tmp_path)
    with pytest.raises(UsageError, match=r"different TLB misses \(those of i7-8700k and none\)"):
        compared((a, two[1]))
    with pytest.raises(UsageError, match=r"has no misses of 'zen2'; .* lab run --machine zen2"):
        diff.measured(a, "ext4", "zen2")


def test_repeats_that_differ_are_told(two):
    guest(two[0], 2, vfs_write=1607, old_helper__isra__0=320, kjournald2=500)
    found = compared(two)
    assert found["spread"] == 7 and "one run each" in diff_table.text([found], "function", 0)


def test_stacks_for_a_flame_graph(two):
    lines = diff.folded(*(diff.measured(folder, "ext4")[0] for folder in two)).splitlines()
    assert "append;1024;do_syscall_64;new_helper 0 640" in lines
    assert "append;1024;(deferred_kjournald2);kjournald2;kjournald2 500 500" in lines
    assert not any("rcu_gp_kthread" in line for line in lines)


def test_the_command_compares_folders_and_leaves_with_1_beyond_a_limit(two, tmp_path):
    words = ["lab", "diff", *map(str, two), "smoke", "--fs", "ext4", "-o", str(tmp_path / "out")]
    assert CliRunner().invoke(main, words).exit_code == 0
    done = CliRunner().invoke(main, [*words, "--limit", "5%", "--json"])
    assert done.exit_code == 1 and json.loads(done.stdout)[0]["b"] == "6.12"
    assert "beyond the limit: ext4 append 1024: instructions +480 of 2,420 (+19.8 %)" in done.stderr
    assert sorted(os.listdir(tmp_path / "out")) == ["diff.json", "ext4.folded"]


def test_the_command_writes_verdicts_for_ci(two, tmp_path):
    words = [
        "lab",
        "diff",
        *map(str, two),
        "smoke",
        "--fs",
        "ext4",
        "-o",
        str(tmp_path / "out"),
        "--junit",
        str(tmp_path / "v.xml"),
    ]
    for limit, failed, skipped in (
        ("5%", {"append 1024 instructions", "append 1024 fences"}, 0),
        ("99%", set(), 0),
        (None, set(), 6),
    ):
        CliRunner().invoke(main, [*words, *(["--limit", limit] if limit else [])], catch_exceptions=False)
        suite = xml.parse(tmp_path / "v.xml").getroot()[0]
        assert (suite.get("name"), suite.get("tests"), suite.get("skipped")) == ("ext4", "6", str(skipped))
        assert {case.get("name") for case in suite if case.find("failure") is not None} == failed


def test_the_command_shows_the_largest_differences_of_a_counter(tmp_path):
    words = ["lab", "diff", *map(str, with_misses(tmp_path)), "smoke", "--fs", "ext4", "-o", str(tmp_path / "out")]
    done = CliRunner().invoke(main, [*words, "--machine", "i7-8700k", "--of", "walks", "--by", "task"])
    assert done.exit_code == 0 and "task, walks per call" in done.stdout
    folded = (tmp_path / "out/ext4.folded").read_text().splitlines()
    assert "append;1024;(deferred_kjournald2);kjournald2;kjournald2 48 160" in folded


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (["--of", "walks"], "--of walks needs a TLB; give one with --machine"),
        (["--machine", "i7-8700k"], "has no misses of 'i7-8700k'"),
        (["--fs", "xfs"], "has no xfs-1.calls.parquet"),
        (["--limit", "much"], "is not a share; write it like 5%"),
        (["--chart", "a.gif"], "a chart is one of"),
    ],
)
def test_mistakes_are_one_line_and_skip_a_commit_in_a_bisection(two, tmp_path, change, said):
    words = ["lab", "diff", *map(str, two), "smoke", "--fs", "ext4", "-o", str(tmp_path / "out"), *change]
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 2 and said in done.stderr and len(done.stderr.splitlines()) == 1
    if "--fs" in change:
        assert CliRunner().invoke(main, [*words, "--bisect"]).exit_code == 125


def test_other_jobs_and_damaged_counts_are_refused(two):
    other = two[1] / f"ext4-1{call_counts.SUFFIX}"
    made = outcome.Outcome("ext4", plan.microbench([512], 1024), Measured(np.zeros(0, counts.ROW), b"", {}, 1.0))
    call_counts.keep(other, made, "6.12")
    with pytest.raises(UsageError, match="did not run the same job"):
        compared(two)
    other.write_bytes(b"PAR1 nothing")
    with pytest.raises(UsageError, match="has no counts by call"):
        compared(two)


def test_a_full_disk_is_one_line_and_leaves_no_counts(tmp_path, monkeypatch):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pyarrow.parquet.write_table", full)
    with pytest.raises(EnvironmentProblem, match="no space left"):
        guest(tmp_path / "a", vfs_write=1)
    assert not list((tmp_path / "a").iterdir())


def keep_kernels(folder, *releases):
    for release in releases:
        place = folder / f"scmsim/lab/kernel-linux-image-{release}"
        (place / "boot").mkdir(parents=True)
        (place / f"boot/vmlinuz-{release}").write_bytes(b"")
        (place / f"boot/config-{release}").write_text("CONFIG_EXT4_FS=y\nCONFIG_XFS_FS=m\n# CONFIG_FS_DAX is not set\n")


def test_kept_kernels_are_found_by_their_series(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    keep_kernels(tmp_path, "6.1.0-9-cloud-amd64", "6.1.0-56-cloud-amd64", "6.12.95+deb12-cloud-amd64")
    assert kernel.named("6.1").release == "6.1.0-56-cloud-amd64"
    assert kernel.named("6.1.0-9-cloud-amd64").release == "6.1.0-9-cloud-amd64"
    assert kernel.named("6.12").release == "6.12.95+deb12-cloud-amd64"
    with pytest.raises(
        UsageError, match=r"no kernel '6'; the lab has|no kernel '5.10'; the lab has: 6.1.0-9.*lab setup --release"
    ):
        kernel.named("5.10")
    found = kernel.named("6.12")
    assert [kernel.lacks(found, *each) for each in (("ext4", False), ("xfs", True), ("nova", False), ("ramfs", False))] == [
        "", "CONFIG_FS_DAX", "CONFIG_NOVA_FS", ""
    ]  # fmt: skip


def test_a_package_without_a_kernel_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(kernel, "_unpack", lambda paths, target: (target / "usr/share/doc").mkdir(parents=True))
    package = tmp_path / "linux-doc.deb"
    package.write_bytes(b"")
    with pytest.raises(UsageError, match="give a linux-image package"):
        kernel.from_package(str(package))
    assert not list(cache.folder().glob("kernel-*"))


def test_other_modules_are_another_kernel(tmp_path):
    (tmp_path / "m").mkdir()
    image, module = tmp_path / "bzImage", tmp_path / "m/planted.ko"
    image.write_bytes(b"kernel")
    prints = set()
    for content in (b"\x7fELF\0depends=\0", b"\x7fELF\0depends=\0loop"):
        module.write_bytes(content)
        prints.add(kernel.fingerprint(kernel.Kernel(str(image), str(tmp_path / "m")), ["planted"]))
    assert len(prints) == 2


def test_a_kernel_in_several_packages(tmp_path, monkeypatch):
    if shutil.which("dpkg-deb") is None:
        pytest.skip("no dpkg-deb")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    release = "7.3.4+deb13-cloud-amd64"
    for name, file in (
        ("image", "doc/a"),
        ("base", f"lib/modules/{release}/config"),
        ("binary", f"lib/modules/{release}/vmlinuz"),
    ):
        root = tmp_path / name
        (root / "usr" / file).parent.mkdir(parents=True)
        (root / "usr" / file).write_text("CONFIG_EXT4_FS=y\n")
        (root / "DEBIAN").mkdir()
        (root / "DEBIAN/control").write_text(
            f"Package: {name}\nVersion: 1\nArchitecture: amd64\nMaintainer: a\nDescription: a\n"
        )
        subprocess.run(["dpkg-deb", "--build", str(root)], check=True, capture_output=True)
    parts = [str(tmp_path / f"{name}.deb") for name in ("image", "base", "binary")]
    with pytest.raises(UsageError, match="has no vmlinuz"):
        kernel.from_package(parts[0])
    found = kernel.from_package(*parts)
    assert found.release == release and found.modules.endswith(f"/usr/lib/modules/{release}")
    assert found.settings() == {"CONFIG_EXT4_FS": "y"} and kernel.named("7.3") == found
    known = [f"linux-{name}-{release}" for name in ("image", "base", "modules")]
    assert debian._with_parts(known[0], known) == known


def test_the_newest_package_of_a_series():
    names = [
        "linux-image-6.1.0-9-cloud-amd64", "linux-image-6.1.0-56-cloud-amd64", "linux-image-6.1.0-57-cloud-amd64-unsigned",
        "linux-image-6.1.0-58-amd64", "linux-image-6.12.95+deb12-cloud-amd64", "linux-image-6.12.107+deb13-cloud-amd64",
        "linux-image-cloud-amd64", "linux-image-6.1-cloud-amd64", "linux-image-6.12-cloud-amd64",
    ]  # fmt: skip
    assert debian.newest(names, "6.1") == "linux-image-6.1.0-56-cloud-amd64"
    assert debian.newest(names, "6.12") == "linux-image-6.12.107+deb13-cloud-amd64"
    with pytest.raises(EnvironmentProblem, match=r"no kernel '6.2', but 6.1, 6.12;"):
        debian.newest(names, "6.2")


@pytest.mark.parametrize("word", ["", "six", "6.1;rm", "6.1 6.12", "-o", "6." + "1" * 90])
def test_what_is_no_version_is_refused(word):
    with pytest.raises(UsageError, match="is not a kernel version"):
        debian.releases(word)


def apt(folder, text):
    for name in ("apt-get", "apt-cache"):
        (folder / name).write_text(f"#!/bin/sh\n{text}\n")
        (folder / name).chmod(0o755)


def instead_of_apt(folder, monkeypatch, script):
    apt(folder, script)
    keys = folder / "keys"
    keys.write_bytes(b"")
    monkeypatch.setattr(debian, "KEYS", str(keys))
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder))
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")


@pytest.mark.parametrize(("wanted", "old"), [(["5.10"], True), (["6.1", "6.12"], False), (["6.12", "4.19"], True)])
def test_suites_without_support_are_read_for_old_kernels_only(tmp_path, monkeypatch, wanted, old):
    instead_of_apt(tmp_path, monkeypatch, "exit 0")
    with pytest.raises(EnvironmentProblem, match="no kernel"):
        debian.download(wanted)
    lines = (cache.folder() / "apt" / "sources.list").read_text(encoding="utf-8").splitlines()
    assert all(f"signed-by={debian.KEYS}]" in line for line in lines)
    assert {line.split()[4] for line in lines} == {suite for _, suite in (*debian.SUITES, *old * debian.OLD_SUITES)}


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("echo 'E: cannot reach' >&2; exit 100", "E: cannot reach"),
        ("echo 'W: Failed to fetch' >&2; exit 0", "W: Failed to fetch"),
        (
            '[ "$5" = pkgnames ] && echo linux-image-6.1.0-56-cloud-amd64; exit 0',
            "no kernel '6.12', but 6.1",
        ),
    ],
)
def test_apt_that_fails_is_one_line(tmp_path, monkeypatch, script, said):
    instead_of_apt(tmp_path, monkeypatch, script)
    with pytest.raises(EnvironmentProblem) as caught:
        debian.download(["6.12"])
    assert said in str(caught.value) and "\n" not in str(caught.value)
    assert not list(pathlib.Path(cache.folder()).glob("*.deb"))
