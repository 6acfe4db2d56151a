"""Check what `scmsim perf setup` does on a pretended machine, and what it refuses."""

import json
import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from scmsim import cli
from scmsim.core.errors import EnvironmentProblem, UsageError
from scmsim.perf import setup
from scmsim.perf.machine import Done, Machine
from scmsim.perf.setup import Request
from scmsim.perf.undo import Step, _undo_format, setting
from tests.perf.machine_helper import NO_CAPABILITIES
from tests.perf.pretended_machine import SETTINGS, TOOLS, pretended, settings, untouched

pytestmark = pytest.mark.usefixtures("no_waiting_for_the_disk")


@pytest.mark.parametrize("fs", setup.FILE_SYSTEMS)
def test_set_up_and_torn_down_again(tmp_path: Path, fs: str) -> None:
    here, commands = pretended(tmp_path)
    point = setup.apply(here, Request(fs=fs))
    assert point == f"/mnt/scmsim/{fs}" and point in here.text("/proc/self/mounts")
    assert set(settings(here).values()) == {"0", "-1", "1", "performance"}
    assert setup.teardown(here, "/mnt/scmsim") >= 6
    assert untouched(here, commands)


def test_what_is_run_for_ext4_dax(tmp_path: Path) -> None:
    here, commands = pretended(tmp_path)
    setup.apply(here, Request(namespace="namespace0.0"))
    mkfs = f"mkfs.ext4 -q -b 4096 -E stride=512,stripe_width=512 -U {commands.uuid} /dev/pmem0"
    assert commands.ran == [
        "blkid --probe --output export /dev/pmem0",
        "ndctl create-namespace --force --reconfig namespace0.0 --mode fsdax --map mem --align 2M",
        mkfs,
        "mkdir --parents /mnt/scmsim/ext4-dax",
        "mount -t ext4 -o dax=always /dev/pmem0 /mnt/scmsim/ext4-dax",
    ]


def test_planning_and_showing_change_nothing(tmp_path: Path) -> None:
    here, commands = pretended(tmp_path)
    steps = setup.plan(here, Request(fs="nova-inplace"))
    assert [step.text for step in steps[:2]] == [
        "echo 0 > /proc/sys/kernel/nmi_watchdog",
        "echo -1 > /proc/sys/kernel/perf_event_paranoid",
    ]
    assert "modprobe nova inplace_data_updates=1" in [step.text for step in steps]
    assert commands.ran == [] and untouched(here, commands)
    assert not [step for step in setup.plan(here, Request(quiet=False)) if step.path]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"/proc/self/status": NO_CAPABILITIES}, "setting up a file system needs root"),
        (
            {"/proc/self/mountinfo": "23 1 259:0 / /data rw - ext4 /dev/root rw"},
            "is mounted on /data; unmount it first",
        ),
        ({"/proc/self/mountinfo": "23 1 0:30 /x /data rw shared:1 - btrfs /dev/pmem0 rw"}, "is mounted on /data"),
        ({"/sys/class/block/pmem0p1/dev": "259:1"}, r"has partitions \(pmem0p1\); name one of them"),
        (
            {
                "/sys/class/block/pmem0p1/dev": "259:1",
                "/proc/self/mountinfo": "23 1 259:1 / /data rw - xfs /dev/pmem0p1 rw",
            },
            "is mounted on /data",
        ),
        ({"/sys/class/block/pmem0/holders/dm-0/dev": "253:0"}, "is used by dm-0"),
        ({"/proc/swaps": "Filename\n/dev/pmem0 partition 1 0 -2"}, "is swap"),
        ({"/dev/pmem0": "xxxxAVON"}, "holds NOVA; if it can go, run: dd if=/dev/zero of=/dev/pmem0"),
        ({"/dev/pmem0": None}, "could not be read"),
    ],
)
def test_a_device_that_is_not_free_is_refused(tmp_path: Path, changes: dict, message: str) -> None:
    here, commands = pretended(tmp_path, changes)
    with pytest.raises(EnvironmentProblem, match=message):
        setup.apply(here, Request())
    assert not [line for line in commands.ran if not line.startswith("blkid")] and untouched(here, commands)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (Done(0, "DEVNAME=/dev/pmem0\nUUID=1\nTYPE=xfs\n"), "holds xfs; if it can go, run: wipefs --all /dev/pmem0"),
        (Done(0, "PTTYPE=gpt\n"), "holds gpt"),
        (Done(0, ""), "holds something"),
        (Done(8, ""), r"could not be examined by blkid \(8\)"),
        (Done(127, "no blkid"), r"could not be examined by blkid \(no blkid\)"),
        (
            Done(2, "blkid: error: /dev/pmem0: Operation not permitted\n"),
            r"could not be examined by blkid \(blkid: error",
        ),
    ],
)
def test_a_device_that_holds_something_is_refused(tmp_path: Path, answer: Done, message: str) -> None:
    here, commands = pretended(tmp_path)
    commands.before["blkid"] = lambda: answer
    with pytest.raises(EnvironmentProblem, match=message):
        setup.apply(here, Request())
    assert len(commands.ran) == 1 and untouched(here, commands)


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        (Request(fs="ext5"), "no file system to set up named 'ext5'; did you mean 'ext4'"),
        (Request(device="/dev/sda"), "device '/dev/sda' is not persistent memory; name one like /dev/pmem0"),
        (Request(device="/dev/pmem0; rm -rf /"), "is not persistent memory"),
        (Request(device="/dev/pmem0/../sda"), "is not persistent memory"),
        (Request(namespace="x"), "namespace 'x' is not like 'namespace0.0'"),
        (Request(namespace="namespace0.0", device="/dev/pmem0p1"), "is a partition and would go with the namespace"),
        (Request(folder="mnt"), "folder 'mnt' is not an absolute, printable path"),
        (Request(folder="/mnt/a\nb"), "is not an absolute, printable path"),
    ],
)
def test_requests_that_make_no_sense(tmp_path: Path, request_: Request, message: str) -> None:
    here, commands = pretended(tmp_path)
    with pytest.raises(UsageError, match=message):
        setup.apply(here, request_)
    assert untouched(here, commands)


def test_a_missing_device_or_tool(tmp_path: Path) -> None:
    here, _ = pretended(tmp_path)
    with pytest.raises(EnvironmentProblem, match="there is no /dev/pmem1; 'scmsim perf setup --show' says how"):
        setup.apply(here, Request(device="/dev/pmem1"))
    for fs, tool, package in (
        ("xfs-dax", "mkfs.xfs", "xfsprogs"),
        ("ext4", "blkid", "util-linux"),
        ("ext4", "ndctl", "ndctl"),
    ):
        here, commands = pretended(tmp_path / tool, tools=[t for t in TOOLS if t != tool])
        with pytest.raises(EnvironmentProblem, match=f"{tool!r} is missing; install {package}"):
            setup.apply(here, Request(fs=fs, namespace="namespace0.0"))
        assert commands.ran == []


def test_a_namespace_behind_another_device_is_refused(tmp_path: Path) -> None:
    here, commands = pretended(tmp_path)
    with pytest.raises(EnvironmentProblem, match="namespace1.0 is not the namespace of /dev/pmem0; see 'ndctl list"):
        setup.apply(here, Request(namespace="namespace1.0"))
    assert untouched(here, commands)
    here.path("/sys/class/block/pmem0/device/namespace").unlink()
    os.rename(here.path("/sys/class/block/pmem0/device"), here.path("/sys/namespace1.0"))
    os.symlink(here.path("/sys/namespace1.0"), here.path("/sys/class/block/pmem0/device"))
    setup.apply(here, Request(namespace="namespace1.0"))


def test_nova_that_is_loaded_in_the_other_mode_is_refused(tmp_path: Path) -> None:
    here, commands = pretended(tmp_path, {"/sys/module/nova/parameters/inplace_data_updates": "1"})
    with pytest.raises(
        EnvironmentProblem, match="nova is loaded with inplace_data_updates=1; unload it with 'rmmod nova'"
    ):
        setup.apply(here, Request(fs="nova-cow"))
    assert untouched(here, commands)
    setup.apply(here, Request(fs="nova-inplace"))


def test_a_setting_that_cannot_be_written(tmp_path: Path) -> None:
    here, commands = pretended(tmp_path)
    real, path = here.write, SETTINGS[1]

    def write(where: str, value: str) -> None:
        if where == path:
            raise PermissionError(13, "Permission denied", where)
        real(where, value)

    here.write = write
    with pytest.raises(
        EnvironmentProblem, match="'echo -1 > /proc/sys/kernel/perf_event_paranoid' failed: permission denied"
    ):
        setup.apply(here, Request())
    assert untouched(here, commands)


def test_settings_that_are_right_or_absent_need_no_step(tmp_path: Path) -> None:
    here, _ = pretended(tmp_path)
    assert setting(here, "/proc/sys/kernel/nmi_watchdog", "1", "why") is None
    assert setting(here, "/proc/sys/kernel/absent", "1", "why") is None
    assert setting(here, "/proc/sys/kernel/nmi_watchdog", "0", "why") == Step(
        "why", path="/proc/sys/kernel/nmi_watchdog", value="0", undo=("write", "/proc/sys/kernel/nmi_watchdog", "1")
    )


def test_the_real_tools_on_an_image(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """mkfs.ext4, blkid and wipefs as they are called on a device, here on a file."""
    monkeypatch.setenv("PATH", f"{os.environ['PATH']}:/usr/sbin:/sbin")
    here, image = Machine(), tmp_path / "image"
    if not all(here.which(tool) for tool in ("mkfs.ext4", "blkid", "wipefs")):
        pytest.skip("no mkfs.ext4, blkid or wipefs here")
    with open(image, "wb") as file:
        file.truncate(64 << 20)
    assert setup._content(here, str(image)) == ""
    (make,) = setup._format(Request(device=str(image)))
    assert here.run(make.argv) == Done(0, "")
    assert setup._content(here, str(image)).startswith("holds ext4; ")
    assert _undo_format(here, str(image), "another-uuid") == []
    (wipe,) = _undo_format(here, *make.undo[1:])
    assert here.run(wipe.argv).status == 0 and setup._content(here, str(image)) == ""
    with open(image, "r+b") as file:
        file.write(b"\0\0\0\0AVON")
    assert setup._content(here, str(image)).startswith("holds NOVA; ")


def test_the_command_shows_by_default_and_does_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "pm"
    said = CliRunner().invoke(cli.main, ["perf", "setup", "--folder", str(folder), "--device", "/dev/pmem77"])
    assert said.exit_code == 0 and "mkfs.ext4" in said.stdout and "memmap=" in said.stdout and not folder.exists()
    shown = json.loads(CliRunner().invoke(cli.main, ["perf", "setup", "--folder", str(folder), "--json"]).stdout)
    assert shown["mount_point"] == f"{folder}/ext4-dax" and shown["steps"][-1]["command"].startswith("mount -t ext4")
    said = CliRunner().invoke(
        cli.main, ["perf", "setup", "--apply", "--folder", str(folder), "--device", "/dev/pmem77"]
    )
    assert said.exit_code == 3 and said.stderr.count("\n") == 1 and not folder.exists()
    said = CliRunner().invoke(cli.main, ["perf", "teardown", "--folder", str(tmp_path)])
    assert said.exit_code == 2 and said.stderr.count("\n") == 1
