"""Pretend a machine with a DAX device, for the tests of `scmsim perf setup` and `teardown`."""

import shlex
from collections.abc import Callable, Sequence
from pathlib import Path

from scmsim.perf.machine import Done, Machine
from tests.perf.machine_helper import ALL_CAPABILITIES, machine

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


class Pretended:
    """The set-up commands of a pretended machine: they make folders, mount, and remember the file system's UUID."""

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
    """Return a pretended machine, with some of its files changed, and its commands."""
    made = machine(root, {**FREE, **(changes or {})})
    commands = Pretended(root)
    made.run, made.which = commands, lambda name: name if name in tools else None
    made.dax = lambda folder: commands.dax
    return made, commands


def settings(here: Machine) -> dict[str, str | None]:
    """Return the machine's settings that a set-up changes."""
    return {path: here.text(path) for path in SETTINGS}


def untouched(here: Machine, commands: Pretended) -> bool:
    """Return whether nothing is left of a set-up: settings, mounts, file system, folder."""
    mounted = here.text("/proc/self/mounts")
    as_before = settings(here) == {path: FREE[path] for path in SETTINGS}
    return (
        as_before
        and mounted == FREE["/proc/self/mounts"]
        and not commands.uuid
        and not here.path("/mnt/scmsim").exists()
    )
