"""A Linux machine written into a folder, for the tests of the perf harness."""

from collections.abc import Sequence
from pathlib import Path

from scmsim.perf.machine import Done, Machine

SKYLAKE = "processor\t: 0\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 158\nflags\t\t: fpu sse2\n\n"
NO_CAPABILITIES, ALL_CAPABILITIES = "CapEff:\t0000000000000000", "CapEff:\t000001ffffffffff"

READY = {
    "/sys/bus/event_source/devices/cpu/type": "4",
    "/proc/cpuinfo": SKYLAKE,
    "/proc/self/status": NO_CAPABILITIES,
    "/proc/sys/kernel/perf_event_paranoid": "-1",
    "/proc/sys/kernel/kptr_restrict": "0",
    "/proc/sys/kernel/nmi_watchdog": "0",
    "/proc/sys/kernel/randomize_va_space": "0",
    "/proc/sys/kernel/osrelease": "5.1.0-nova",
    "/proc/sys/vm/drop_caches": "",
    "/sys/devices/system/cpu/smt/active": "0",
    "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor": "performance",
    "/sys/devices/system/cpu/intel_pstate/no_turbo": "1",
    "/sys/devices/system/node/node0/cpulist": "0-5",
    "/sys/kernel/mm/transparent_hugepage/enabled": "always [madvise] never",
    "/sys/kernel/tracing/events/syscalls/enable": "0",
    "/proc/filesystems": "nodev\ttmpfs\n\text4\nnodev\tNOVA",
    "/proc/swaps": "Filename\tType\tSize\tUsed\tPriority",
    "/boot/config-5.1.0-nova": "CONFIG_X86=y\nCONFIG_FS_DAX=y\nCONFIG_X86_PMEM_LEGACY=y\nCONFIG_BLK_DEV_PMEM=m",
    "/proc/self/mounts": "/dev/pmem0 /mnt/dax ext4 rw,relatime,dax=always 0 0",
    "/sys/class/block/pmem0/queue/dax": "1",
    "/sys/class/block/pmem0/device/resource": "0x240000000",
    "/sys/class/block/pmem0/device/align": "2097152",
    "/sys/class/block/pmem0/device/numa_node": "0",
}


class Perf:
    """`perf` as a recorded answer; what was run is kept."""

    def __init__(self, output: str = "perf version 6.1.187\n", status: int = 0) -> None:
        self.done = Done(status, output)
        self.ran: list[list[str]] = []

    def __call__(self, argv: Sequence[str]) -> Done:
        self.ran.append(list(argv))
        return self.done


def machine(
    root: Path,
    changes: dict[str, str | None] | None = None,
    *,
    tools: Sequence[str] = ("perf",),
    perf: Perf | None = None,
    dax: dict[str, bool | None] | None = None,
) -> Machine:
    """A machine that is ready to measure, with some of its files changed (None: not there)."""
    for path, text in {**READY, **(changes or {})}.items():
        if text is not None:
            file = root / path.lstrip("/")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text + "\n")
    answers = {"/mnt/dax": True} if dax is None else dax
    return Machine(
        root,
        run=perf or Perf(),
        which=lambda name: f"/usr/bin/{name}" if name in tools else None,
        dax=lambda folder: answers.get(f"/{Path(folder).relative_to(root)}"),
    )
