"""`scmsim perf setup` and `teardown` against a pretended machine: what they do, refuse, and undo however they end."""

import json
import os
import shlex
import signal
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner

from scmsim import cli
from scmsim.core.errors import EnvironmentProblem, UsageError
from scmsim.perf import setup
from scmsim.perf.machine import Done, Machine
from scmsim.perf.setup import Request
from scmsim.perf.undo import MARKER, Journal, Step, _undo_format, setting
from tests.perf.machine_helper import ALL_CAPABILITIES, NO_CAPABILITIES, machine

FREE = {
    "/proc/self/status": ALL_CAPABILITIES,
    "/proc/self/mounts": "/dev/vda / ext4 rw 0 0",
    "/proc/self/mountinfo": "23 1 254:0 / / rw - ext4 /dev/vda rw",
    "/proc/sys/kernel/nmi_watchdog": "1",
    "/proc/sys/kernel/perf_event_paranoid": "2",
    "/sys/devices/system/cpu/intel_pstate/no_turbo": "0",
    "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor": "powersave",
    "/sys/class/block/pmem0/dev": "259:0",
    "/sys/class/block/pmem0/device/namespace": "namespace0.0",
    "/sys/class/block/pmem0/size": "67108864",
    "/dev/pmem0": "random contents of DRAM after a boot",
}
TOOLS = ("mkfs.ext4", "mkfs.xfs", "modprobe", "blkid", "wipefs", "ndctl")
SETTINGS = [path for path in FREE if path.startswith(("/proc/sys", "/sys/devices"))]


@pytest.fixture(autouse=True)
def no_waiting_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda file: None)


class Pretended:
    """Runs the set-up commands on a pretended machine: makes folders, mounts, remembers the file system's UUID."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.ran: list[str] = []
        self.uuid = ""
        self.dax: bool | None = True
        self.before: dict[str, Callable[[], Done | None]] = {}

    def __call__(self, argv: Sequence[str]) -> Done:
        assert not isinstance(argv, str) and all(isinstance(word, str) for word in argv)
        tool = argv[0]
        self.ran.append(shlex.join(argv))
        answer = self.before[tool]() if tool in self.before else None
        return answer or getattr(self, tool.replace(".", "_"), self.nothing)(list(argv))

    def nothing(self, argv: list[str]) -> Done:
        return Done(0, "")

    def here(self, path: str) -> Path:
        return self.root / path.lstrip("/")

    def blkid(self, argv: list[str]) -> Done:
        if "--match-tag" in argv:
            return Done(0, f"{self.uuid}\n") if self.uuid else Done(2, "")
        return Done(0, "TYPE=ext4") if self.uuid else Done(2, "")

    def mkfs_ext4(self, argv: list[str]) -> Done:
        self.uuid = argv[argv.index("-U") + 1]
        return Done(0, "")

    def mkfs_xfs(self, argv: list[str]) -> Done:
        self.uuid = next(word for word in argv if "uuid=" in word).partition("uuid=")[2]
        return Done(0, "")

    def wipefs(self, argv: list[str]) -> Done:
        self.uuid = ""
        return Done(0, "")

    def mkdir(self, argv: list[str]) -> Done:
        self.here(argv[-1]).mkdir(parents=True)
        return Done(0, "")

    def rmdir(self, argv: list[str]) -> Done:
        self.here(argv[-1]).rmdir()
        return Done(0, "")

    def mount(self, argv: list[str]) -> Done:
        kind, options, device, point = argv[2], argv[4], *argv[5:]
        with open(self.here("/proc/self/mounts"), "a") as file:
            file.write(f"{device} {point} {kind} rw,{options} 0 0\n")
        return Done(0, "")

    def umount(self, argv: list[str]) -> Done:
        file = self.here("/proc/self/mounts")
        lines = file.read_text().splitlines()
        file.write_text("\n".join(line for line in lines if f" {argv[1]} " not in line) + "\n")
        return Done(0, "")


def pretended(
    root: Path, changes: dict[str, str | None] | None = None, tools: Sequence[str] = TOOLS
) -> tuple[Machine, Pretended]:
    made = machine(root, {**FREE, **(changes or {})})
    commands = Pretended(root)
    made.run, made.which = commands, lambda name: name if name in tools else None
    made.dax = lambda folder: commands.dax
    return made, commands


def settings(here: Machine) -> dict[str, str | None]:
    return {path: here.text(path) for path in SETTINGS}


def untouched(here: Machine, commands: Pretended) -> bool:
    """Nothing is left of a set-up: settings, mounts, file system, folder."""
    mounted = here.text("/proc/self/mounts")
    as_before = settings(here) == {path: FREE[path] for path in SETTINGS}
    return (
        as_before
        and mounted == FREE["/proc/self/mounts"]
        and not commands.uuid
        and not here.path("/mnt/scmsim").exists()
    )


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


def test_only_an_empty_folder_or_one_that_it_made(tmp_path: Path) -> None:
    here, commands = pretended(tmp_path)
    mine = here.path("/mnt/scmsim")
    mine.mkdir(parents=True)
    (mine / "thesis.tex").write_text("years of work")
    with pytest.raises(UsageError, match="holds files and was not made by 'scmsim perf setup'; name an empty one"):
        setup.apply(here, Request())
    with pytest.raises(UsageError, match="was not made by 'scmsim perf setup'|holds files"):
        setup.teardown(here, "/mnt/scmsim")
    (mine / "thesis.tex").unlink()
    with pytest.raises(UsageError, match="was not made by 'scmsim perf setup'; nothing to undo"):
        setup.teardown(here, "/mnt/scmsim")
    setup.apply(here, Request())
    with pytest.raises(UsageError, match="is set up already; run 'scmsim perf teardown /mnt/scmsim' first"):
        setup.apply(here, Request())
    setup.teardown(here, "/mnt/scmsim")
    assert list(mine.iterdir()) == []  # it was there before, so it stays
    setup.apply(here, Request())
    os.symlink(mine, tmp_path / "link")
    with pytest.raises(UsageError, match="is not a folder"):
        Journal(str(tmp_path / "link"))
    assert commands.uuid


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        '{"schema": 1, "undo": []}',
        '{"schema": 2, "made_folder": true, "undo": []}',
        '{"schema": 1, "made_folder": true, "undo": [[]]}',
        '{"schema": 1, "made_folder": true, "undo": [["write", 3]]}',
        '{"schema": 1, "made_folder": true, "undo": [["rm", "/"]]}',
        '{"schema": 1, "made_folder": true, "undo": [["write", "/proc/sys/vm/swappiness"]]}',
        '{"schema": 1, "made_folder": true, "undo": [["write", "/etc/passwd", "x"]]}',
        '{"schema": 1, "made_folder": true, "undo": [["write", "/sys/../etc/passwd", "x"]]}',
        '{"schema": 1, "made_folder": true, "undo": [["format", "/dev/sda1", "00000000-0000-0000-0000-000000000000"]]}',
        '{"schema": 1, "made_folder": true, "undo": [{"write": 1}]}',
        "[" * 100000,
    ],
)
def test_a_damaged_marker_is_not_obeyed(tmp_path: Path, text: str) -> None:
    (tmp_path / MARKER).write_text(text)
    with pytest.raises(
        UsageError, match="is damaged, belongs to another user or is from another version; undo its steps by hand"
    ):
        Journal(str(tmp_path))


def test_a_marker_of_someone_else_is_not_obeyed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / MARKER).write_text('{"schema": 1, "made_folder": true, "undo": []}')
    assert Journal(str(tmp_path)).entries == []
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    with pytest.raises(UsageError, match="belongs to another user"):
        Journal(str(tmp_path))


@pytest.mark.parametrize("tool", ["mkfs.ext4", "mkdir", "mount"])
def test_a_step_that_fails_undoes_the_ones_before(tmp_path: Path, tool: str) -> None:
    here, commands = pretended(tmp_path)
    commands.before[tool] = lambda: Done(1, "first line\nno space left on device\n")
    with pytest.raises(EnvironmentProblem, match=r"^'.*' failed \(1\): no space left on device$"):
        setup.apply(here, Request())
    assert untouched(here, commands)


@pytest.mark.parametrize("tool", ["mkfs.ext4", "mkdir", "mount"])
@pytest.mark.parametrize(("number", "error"), [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, SystemExit)])
def test_ctrl_c_and_sigterm_undo_what_was_done(tmp_path: Path, tool: str, number: int, error: type) -> None:
    here, commands = pretended(tmp_path)
    commands.before[tool] = lambda: os.kill(os.getpid(), number)
    old = signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where the suite runs under nohup
    before = signal.getsignal(signal.SIGTERM)
    try:
        with pytest.raises(error):
            setup.apply(here, Request())
        assert untouched(here, commands) and signal.getsignal(signal.SIGTERM) is before
    finally:
        signal.signal(signal.SIGINT, old)


def test_a_signal_that_is_ignored_stays_ignored(tmp_path: Path) -> None:
    here, commands = pretended(tmp_path)
    commands.before["mount"] = lambda: os.kill(os.getpid(), signal.SIGHUP)
    old = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        setup.apply(here, Request())
        assert not untouched(here, commands) and signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, old)


def test_signals_wait_while_it_undoes(tmp_path: Path) -> None:
    here, commands = pretended(tmp_path)
    commands.before["mount"] = lambda: Done(32, "wrong fs type")
    commands.before["rmdir"] = lambda: os.kill(os.getpid(), signal.SIGTERM)
    with pytest.raises(EnvironmentProblem, match="wrong fs type"):
        setup.apply(here, Request())
    assert untouched(here, commands)


@pytest.mark.parametrize("tool", ["mkfs.ext4", "mkdir", "mount"])
def test_a_killed_set_up_is_undone_by_teardown(tmp_path: Path, tool: str) -> None:
    """Death before or after each command: the journal was on disk first."""
    for when in ("before", "after"):
        here, commands = pretended(tmp_path / when)
        steps = setup.plan(here, Request())
        journal = Journal(str(here.path("/mnt/scmsim")))
        for step in steps:  # the loop of carry_out, left by kill -9: nothing catches it
            journal.add(step.undo)
            last = bool(step.argv) and step.argv[0] == tool
            if not (last and when == "before"):
                commands(step.argv) if step.argv else here.write(step.path, step.value)
            if last:
                break
        setup.teardown(here, "/mnt/scmsim")
        assert untouched(here, commands), when


def test_a_teardown_that_fails_half_way_can_be_repeated(tmp_path: Path) -> None:
    here, commands = pretended(tmp_path)
    setup.apply(here, Request())
    commands.before["umount"] = lambda: Done(32, "umount: target is busy.")
    with pytest.raises(
        EnvironmentProblem, match="target is busy.; the remaining steps are recorded, run 'scmsim perf teardown' again"
    ):
        setup.teardown(here, "/mnt/scmsim")
    assert commands.uuid and settings(here)["/proc/sys/kernel/nmi_watchdog"] == "0"
    del commands.before["umount"]
    setup.teardown(here, "/mnt/scmsim")
    assert untouched(here, commands)


def test_a_file_system_that_someone_else_made_since_is_left_alone(tmp_path: Path) -> None:
    here, commands = pretended(tmp_path)
    setup.apply(here, Request())
    commands.uuid = "11111111-2222-3333-4444-555555555555"
    setup.teardown(here, "/mnt/scmsim")
    assert commands.uuid.startswith("11111111") and not [line for line in commands.ran if line.startswith("wipefs")]


@pytest.mark.parametrize(
    ("dax", "message"), [(False, "is not DAX .mounted with dax, but"), (None, "is not DAX .a file there")]
)
def test_a_mount_that_fell_back_to_the_page_cache_is_undone(tmp_path: Path, dax: bool | None, message: str) -> None:
    here, commands = pretended(tmp_path)
    commands.dax = dax
    with pytest.raises(EnvironmentProblem, match=message):
        setup.apply(here, Request())
    assert untouched(here, commands)
    commands.dax = False
    assert setup.apply(here, Request(fs="ext4")) == "/mnt/scmsim/ext4"


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


THESIS_RAM = {
    "/proc/iomem": "00001000-0009ffff : System RAM\n100000000-103fffffff : System RAM\n  104000000-1 : Kernel"
}


@pytest.mark.parametrize(
    ("size", "start", "parameter"),
    [
        (32 << 30, None, "memmap=32G!33G"),
        (None, None, "memmap=30G!35G"),
        (32 << 30, 8 << 30, "memmap=32G!8G"),
        (2 << 20, 6 << 30, "memmap=2M!6G"),
    ],
)
def test_the_boot_parameter(tmp_path: Path, size: int | None, start: int | None, parameter: str) -> None:
    """RAM of 64 GiB whose largest range is 4 GiB to 65 GiB."""
    here, _ = pretended(tmp_path, THESIS_RAM)
    assert setup.boot_parameter(here, size, start) == parameter


@pytest.mark.parametrize(
    ("size", "start", "message"),
    [
        (
            32 << 30,
            52 << 30,
            "memmap=32G!52G does not lie in RAM, whose largest range is 4GiB to 65GiB",
        ),  # the thesis' own
        (80 << 30, None, "memmap=80G does not lie in RAM"),
        (32 << 30, 0, "memmap=32G!0G does not lie in RAM"),
        (1 << 20, None, "must be a positive multiple of 2 MiB"),
        (0, None, "must be a positive multiple of 2 MiB"),
        (1 << 30, 4097, "must be a positive multiple of 2 MiB"),
    ],
)
def test_a_region_that_does_not_fit_is_refused(tmp_path: Path, size: int, start: int | None, message: str) -> None:
    here, _ = pretended(tmp_path, THESIS_RAM)
    with pytest.raises(UsageError, match=message):
        setup.boot_parameter(here, size, start)


def test_boot_steps_only_where_there_is_no_device(tmp_path: Path) -> None:
    hidden = {"/proc/iomem": "00000000-00000000 : System RAM"}
    here, _ = pretended(tmp_path, hidden)
    assert setup.boot_steps(here, Request()) == []
    lines = setup.boot_steps(here, Request(device="/dev/pmem1"))
    assert any("memmap=SIZE!START" in line for line in lines) and lines[-1] == "reboot"
    assert "memmap=4G!START" in "\n".join(setup.boot_steps(here, Request(device="/dev/pmem1", size=4 << 30)))


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
