"""Find what can be measured on this machine, and for each obstacle to other measurements the command that removes it.

Sources: Linux Documentation/admin-guide/sysctl/kernel.rst (perf_event_paranoid, nmi_watchdog), admin-guide/pm,
filesystems/dax.rst; levels 3 and 4 of perf_event_paranoid are patches of Debian and Ubuntu.
"""

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from scmsim.core.errors import EnvironmentProblem
from scmsim.perf.machine import CAP_SYS_ADMIN, Machine
from scmsim.perf.mounts import Mount, Region, mounts, regions

# Effect of a finding on a measurement.
FINE, NOISE, LIMIT, INFO = "ok", "noise", "obstacle", "info"


class Finding(NamedTuple):
    """Finding about one aspect of the machine.

    `effect` is "ok", "info", "noise" (measured values scatter or shift) or "obstacle" (something cannot be measured).  `fix` is
    the command that changes the finding, "" if no command does.
    """

    name: str
    value: str
    effect: str = INFO
    remark: str = ""
    fix: str = ""


@dataclasses.dataclass(frozen=True)
class Report:
    """Findings, mounts and regions of persistent memory, and the measurements that they allow."""

    findings: list[Finding]
    mounts: list[Mount]
    regions: list[Region]
    tables: dict[str, str]  # name of the event table of each PMU
    # "yes", or "no: ..." with the reason, for `hardware_counters`, `kernel_side`, `software_counters`, `tracepoints`,
    # `profile`, `drop_caches`, `dax` and `nova`
    possible: dict[str, str]
    backend: str | None  # the back end that measures most here: "perf", "software", or None

    @property
    def obstacles(self) -> list[Finding]:
        """Return the findings that are obstacles or cause noise, obstacles first."""
        return sorted((f for f in self.findings if f.effect in (NOISE, LIMIT)), key=lambda f: f.effect == NOISE)

    def as_dict(self) -> dict[str, Any]:
        kept = ("findings", "mounts", "regions")
        rows = {name: [row._asdict() for row in getattr(self, name)] for name in kept}
        return {"possible": self.possible, "backend": self.backend, "event_tables": self.tables, **rows}


def examine(machine: Machine | None = None) -> Report:
    """Examine everything that limits measurements on this machine; change nothing."""
    machine = machine or Machine()
    findings = [finding for looker in _LOOKERS for finding in looker(machine)]
    mounted, pmem = mounts(machine), regions(machine)
    findings += [*_mount_findings(mounted), *_region_findings(pmem)]
    possible = _possible(machine, mounted)
    backend = next(
        (
            name
            for name, needed in (("perf", "hardware_counters"), ("software", "software_counters"))
            if possible[needed] == "yes"
        ),
        None,
    )
    return Report(findings, mounted, pmem, machine.tables(), possible, backend)


def require_pmu(machine: Machine) -> None:
    """Raise EnvironmentProblem unless the hardware counters can be used."""
    answer = _hardware(machine)
    if answer != "yes":
        raise EnvironmentProblem(
            f"hardware counters cannot be used: {answer.removeprefix('no: ')}; see 'scmsim perf check'"
        )


def _possible(machine: Machine, mounted: list[Mount]) -> dict[str, str]:
    paranoia, perf = machine.paranoia(), machine.perf_version()
    no_perf = "" if perf else "no: perf is missing"
    too_strict = f"no: kernel.perf_event_paranoid is {paranoia}"
    direct = [mount.point for mount in mounted if mount.dax]
    tracefs = machine.names("/sys/kernel/tracing/events/syscalls")
    drop = machine.has_capability(CAP_SYS_ADMIN) and machine.path("/proc/sys/vm/drop_caches").exists()
    return {
        "hardware_counters": _hardware(machine),
        "kernel_side": no_perf or ("yes" if paranoia < 2 else too_strict),
        "software_counters": no_perf or ("yes" if paranoia < 3 else too_strict),
        "tracepoints": no_perf
        or ("no: /sys/kernel/tracing cannot be read" if not tracefs else "yes" if paranoia < 0 else too_strict),
        "profile": no_perf or ("yes" if paranoia < 2 else too_strict),
        "drop_caches": "yes" if drop else "no: only root may drop the page cache",
        "dax": "yes" if direct else "no: no file system here is mounted with direct access",
        "nova": "yes" if _has_nova(machine) else "no: this kernel has no NOVA",
    }


def _hardware(machine: Machine) -> str:
    if machine.perf_version() is None:
        return "no: perf is missing"
    if not machine.pmus():
        where = "this virtual machine has no PMU" if machine.is_virtual() else "the kernel shows no PMU"
        return f"no: {where} (/sys/bus/event_source/devices)"
    if not machine.tables():
        return "no: there is no event table for this CPU (scmsim list events)"
    return "yes" if machine.paranoia() < 3 else f"no: kernel.perf_event_paranoid is {machine.paranoia()}"


def _pmu(machine: Machine) -> Iterator[Finding]:
    found = machine.pmus()
    if found:
        yield Finding("PMU", " ".join(found), FINE)
        return
    if machine.is_virtual():
        fix = "on the host: qemu -cpu host,pmu=on (libvirt: <cpu mode='host-passthrough'/> and <pmu state='on'/>)"
    else:
        fix = "boot a kernel with CONFIG_PERF_EVENTS and leave the counters on in the firmware"
    yield Finding(
        "PMU", "none", LIMIT, "page faults, context switches and system calls can be counted, TLB events cannot", fix
    )


def _micro_architecture(machine: Machine) -> Iterator[Finding]:
    from scmsim.perf import events

    detected = events.detect_pmus(machine.text("/proc/cpuinfo") or "")
    if not detected:
        yield Finding(
            "micro-architecture", "unknown", LIMIT if machine.pmus() else INFO, "no event table knows this CPU"
        )
        return
    doubt = "as this virtual machine says" if machine.is_virtual() else ""
    yield Finding("micro-architecture", " + ".join(detected.values()), FINE, doubt)
    for pmu, name in machine.tables().items():
        table = events.table(name)
        gaps = events.metrics_absent(table)
        counted = f"{len(events.study_fields(table))} counters of the study, {9 - len(gaps)} of the 9 metrics"
        yield Finding(f"events of {pmu}", counted, INFO, "; ".join(f"{metric}: {why}" for metric, why in gaps.items()))


def _perf(machine: Machine) -> Iterator[Finding]:
    version = machine.perf_version()
    if version is None:
        fix = f"apt-get install linux-perf (Ubuntu: linux-tools-{machine.kernel()}; Fedora, Arch: perf)"
        yield Finding("perf", "missing", LIMIT, "nothing can be counted without it", fix)
    else:
        yield Finding("perf", version, FINE)


def _permission(machine: Machine) -> Iterator[Finding]:
    level, holds = machine.number("/proc/sys/kernel/perf_event_paranoid"), machine.paranoia()
    said = "unreadable" if level is None else str(level)
    effects = {
        2: "events in the kernel are not counted, which are most of a file system's",
        3: "perf may not count anything for you",
    }
    fix = "sysctl kernel.perf_event_paranoid=-1 (or run as root, or: setcap cap_perfmon+ep $(command -v perf))"
    if holds >= 2:
        yield Finding("kernel.perf_event_paranoid", said, LIMIT, effects[min(holds, 3)], fix)
    else:
        yield Finding(
            "kernel.perf_event_paranoid", said, FINE, "your capabilities outrank it" if (level or 0) > holds else ""
        )
    hidden = machine.number("/proc/sys/kernel/kptr_restrict") or 0
    if hidden > machine.has_capability(CAP_SYS_ADMIN):
        fix = "sysctl kernel.kptr_restrict=0"
        yield Finding("kernel.kptr_restrict", str(hidden), LIMIT, "a profile cannot name the kernel's functions", fix)


def _switch(name: str, value: int | None, effect: str, remark: str, fix: str) -> Finding:
    """Return the finding on a switch that should be off; `value` is None if the machine has no such switch."""
    if value:
        return Finding(name, "on", effect, remark, fix)
    return Finding(name, "n/a" if value is None else "off", FINE)


def _watchdog(machine: Machine) -> Iterator[Finding]:
    value, effect = machine.number("/proc/sys/kernel/nmi_watchdog"), LIMIT if machine.pmus() else INFO
    yield _switch("NMI watchdog", value, effect, "it holds one counter", "sysctl kernel.nmi_watchdog=0")


def _clock(machine: Machine) -> Iterator[Finding]:
    base = "/sys/devices/system/cpu"
    smt, fix = machine.number(f"{base}/smt/active"), f"echo off > {base}/smt/control"
    yield _switch("SMT", smt, NOISE, "a sibling shares the TLB and the counters", fix)
    said = (machine.text(f"{base}/{cpu}/cpufreq/scaling_governor") for cpu in machine.names(base))
    governors = {governor for governor in said if governor}
    if governors - {"performance"}:
        fix = "cpupower frequency-set --governor performance"
        yield Finding("governor", " ".join(sorted(governors)), NOISE, "the clock changes with the load", fix)
    else:
        yield Finding("governor", "performance" if governors else "n/a", FINE)
    turbo, fix = machine.number(f"{base}/cpufreq/boost"), f"echo 0 > {base}/cpufreq/boost"
    if (no_turbo := machine.number(f"{base}/intel_pstate/no_turbo")) is not None:
        turbo, fix = int(no_turbo == 0), f"echo 1 > {base}/intel_pstate/no_turbo"
    yield _switch("turbo", turbo, NOISE, "the clock changes with temperature; counts do not", fix)


def _memory(machine: Machine) -> Iterator[Finding]:
    huge = machine.text("/sys/kernel/mm/transparent_hugepage/enabled")
    yield Finding("transparent huge pages", huge or "n/a", INFO, "decides the page size of the program's buffer")
    random, remark = machine.number("/proc/sys/kernel/randomize_va_space"), "page alignment of buffers varies by run"
    yield _switch("address randomisation", random, NOISE, remark, "setarch -R COMMAND")
    swaps = (machine.text("/proc/swaps") or "").splitlines()[1:]
    if swaps:
        yield Finding("swap", f"{len(swaps)} in use", NOISE, "", "swapoff --all")
    nodes = [name for name in machine.names("/sys/devices/system/node") if name.removeprefix("node").isdigit()]
    if len(nodes) > 1:
        fix = "numactl --cpunodebind=N --membind=N COMMAND, with N the node of the PMEM region"
        yield Finding("NUMA", f"{len(nodes)} nodes", NOISE, "a remote region is slower and walks reach further", fix)
    else:
        yield Finding("NUMA", f"{max(len(nodes), 1)} node", FINE)


def _tracing(machine: Machine) -> Iterator[Finding]:
    if machine.names("/sys/kernel/tracing/events/syscalls"):
        yield Finding("tracepoints", "readable", FINE)
    else:
        fix = "mount -t tracefs -o mode=755 tracefs /sys/kernel/tracing (mounted already: -o remount,mode=755)"
        yield Finding("tracepoints", "not readable", LIMIT, "system calls cannot be counted", fix)
    limit = machine.number("/proc/sys/kernel/perf_cpu_time_max_percent")
    if limit is not None:
        yield Finding("kernel.perf_cpu_time_max_percent", str(limit), INFO, "sampling is throttled beyond it")


def _has_nova(machine: Machine) -> bool:
    known = (machine.text("/proc/filesystems") or "").split()
    modules = machine.text(f"/lib/modules/{machine.kernel()}/modules.dep") or ""
    return "NOVA" in known or "/nova.ko" in modules


def _kernel(machine: Machine) -> Iterator[Finding]:
    yield Finding("kernel", machine.kernel() or "unknown", INFO)
    if _has_nova(machine):
        yield Finding("NOVA", "available", FINE)
    else:
        fix = "build and boot the kernel of https://github.com/NVSL/linux-nova with CONFIG_NOVA_FS=m"
        yield Finding("NOVA", "not in this kernel", LIMIT, "it cannot be measured here", fix)
    config = machine.config()
    if not config:
        return
    for option, purpose in (
        ("CONFIG_FS_DAX", "direct access of file systems"),
        ("CONFIG_X86_PMEM_LEGACY", "a PMEM region out of DRAM (memmap=)"),
        ("CONFIG_BLK_DEV_PMEM", "block devices on PMEM"),
    ):
        if option not in config and not ("X86" in option and "CONFIG_X86" not in config):
            yield Finding(option, "not set", LIMIT, f"needed for {purpose}", f"rebuild the kernel with {option}=y")


_LOOKERS: tuple[Callable[[Machine], Iterator[Finding]], ...] = (
    _pmu,
    _micro_architecture,
    _perf,
    _permission,
    _watchdog,
    _clock,
    _memory,
    _tracing,
    _kernel,
)


def _mount_findings(mounted: list[Mount]) -> Iterator[Finding]:
    for mount in mounted:
        if mount.dax is None:
            fix = f"umount {mount.point} && mount -o dax=always {mount.device} {mount.point}, then look at dmesg"
            yield Finding(f"mount {mount.point}", mount.type, LIMIT, mount.remark, fix)


def _region_findings(pmem: list[Region]) -> Iterator[Finding]:
    if not pmem:
        yield Finding("PMEM", "no region", LIMIT, "DAX needs one", "scmsim perf setup --show")
    for region in pmem:
        if region.huge is False:
            fix = "ndctl create-namespace --force --reconfig NAMESPACE --mode fsdax --align 2M (all data there is lost)"
            yield Finding(f"PMEM {region.device}", "not aligned to 2 MiB", LIMIT, region.remark, fix)
        else:
            yield Finding(f"PMEM {region.device}", "present", FINE if region.huge else INFO, region.remark)
