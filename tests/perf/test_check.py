"""`scmsim perf check` on machines that are written into a folder, and on this one."""

import gzip
import json
import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from scmsim import cli
from scmsim.core.errors import EnvironmentProblem
from scmsim.perf import check
from scmsim.perf.machine import Machine, dax_attribute, run_tool
from scmsim.perf.mounts import mounts, queue_dax, regions
from tests.perf.machine_helper import ALL_CAPABILITIES, READY, SKYLAKE, Perf, machine

VIRTUAL = SKYLAKE.replace("fpu", "fpu hypervisor")
NO_PMU = {"/sys/bus/event_source/devices/cpu/type": None, "/sys/bus/event_source/devices/software/type": "1"}


def finding(report: check.Report, name: str) -> check.Finding:
    (found,) = (each for each in report.findings if each.name == name)
    return found


def test_a_machine_that_is_ready_has_nothing_to_do(tmp_path: Path) -> None:
    report = check.examine(machine(tmp_path))
    assert report.obstacles == [] and report.backend == "perf" and report.tables == {"cpu": "skylake"}
    assert {name for name, answer in report.possible.items() if answer != "yes"} == {"drop_caches"}
    assert finding(report, "events of cpu").value == "19 counters of the study, 9 of the 9 metrics"


def test_without_a_pmu_the_software_counters_remain(tmp_path: Path) -> None:
    report = check.examine(machine(tmp_path, {**NO_PMU, "/proc/cpuinfo": VIRTUAL}))
    assert report.backend == "software" and report.tables == {}
    assert report.possible["hardware_counters"].startswith("no: this virtual machine has no PMU")
    assert report.possible["software_counters"] == report.possible["tracepoints"] == "yes"
    pmu = finding(report, "PMU")
    assert pmu.effect == "obstacle" and "pmu=on" in pmu.fix
    assert finding(report, "micro-architecture").remark == "as this virtual machine says"
    assert finding(check.examine(machine(tmp_path / "metal", NO_PMU)), "PMU").fix.startswith("boot a kernel")


@pytest.mark.parametrize(
    ("changes", "name", "effect", "fix"),
    [
        ({"/proc/sys/kernel/nmi_watchdog": "1"}, "NMI watchdog", "obstacle", "sysctl kernel.nmi_watchdog=0"),
        ({"/sys/devices/system/cpu/smt/active": "1"}, "SMT", "noise", "echo off > /sys/devices/system/cpu/smt/control"),
        (
            {"/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor": "powersave"},
            "governor",
            "noise",
            "cpupower frequency-set --governor performance",
        ),
        (
            {"/sys/devices/system/cpu/intel_pstate/no_turbo": "0"},
            "turbo",
            "noise",
            "echo 1 > /sys/devices/system/cpu/intel_pstate/no_turbo",
        ),
        (
            {"/sys/devices/system/cpu/intel_pstate/no_turbo": None, "/sys/devices/system/cpu/cpufreq/boost": "1"},
            "turbo",
            "noise",
            "echo 0 > /sys/devices/system/cpu/cpufreq/boost",
        ),
        ({"/proc/sys/kernel/randomize_va_space": "2"}, "address randomisation", "noise", "setarch -R COMMAND"),
        ({"/proc/swaps": "Filename\n/dev/vda2 partition 1 0 -2"}, "swap", "noise", "swapoff --all"),
        ({"/sys/devices/system/node/node1/cpulist": "6-11"}, "NUMA", "noise", "numactl --cpunodebind=N"),
        ({"/proc/sys/kernel/kptr_restrict": "1"}, "kernel.kptr_restrict", "obstacle", "sysctl kernel.kptr_restrict=0"),
        ({"/sys/kernel/tracing/events/syscalls/enable": None}, "tracepoints", "obstacle", "mount -t tracefs"),
        ({"/proc/filesystems": "\text4"}, "NOVA", "obstacle", "build and boot the kernel of https://github.com/NVSL/"),
        (
            {"/boot/config-5.1.0-nova": "CONFIG_X86=y\nCONFIG_FS_DAX=y"},
            "CONFIG_X86_PMEM_LEGACY",
            "obstacle",
            "rebuild the kernel with CONFIG_X86_PMEM_LEGACY=y",
        ),
        (
            {"/sys/class/block/pmem0/device/resource": "0x240010000"},
            "PMEM /dev/pmem0",
            "obstacle",
            "ndctl create-namespace",
        ),
        (
            {path: None for path in READY if "pmem0" in path},
            "PMEM",
            "obstacle",
            "scmsim perf setup --show",
        ),
    ],
)
def test_each_obstacle_has_the_command_that_removes_it(
    tmp_path: Path, changes, name: str, effect: str, fix: str
) -> None:
    found = finding(check.examine(machine(tmp_path, changes)), name)
    assert found.effect == effect and found.fix.startswith(fix)


@pytest.mark.parametrize(
    ("level", "capabilities", "hardware", "kernel_side", "tracepoints"),
    [
        ("-1", False, True, True, True),
        ("0", False, True, True, False),
        ("1", False, True, True, False),
        ("2", False, True, False, False),
        ("3", False, False, False, False),
        ("4", False, False, False, False),
        ("4", True, True, True, True),
    ],
)
def test_what_each_level_of_perf_event_paranoid_allows(
    tmp_path: Path, level: str, capabilities: bool, hardware: bool, kernel_side: bool, tracepoints: bool
) -> None:
    changes = {"/proc/sys/kernel/perf_event_paranoid": level}
    if capabilities:
        changes["/proc/self/status"] = ALL_CAPABILITIES
    report = check.examine(machine(tmp_path, changes))
    allowed = [report.possible[name] == "yes" for name in ("hardware_counters", "kernel_side", "tracepoints")]
    assert allowed == [hardware, kernel_side, tracepoints]
    obstacle = finding(report, "kernel.perf_event_paranoid").effect == "obstacle"
    assert obstacle == (not kernel_side) and report.backend == ("perf" if hardware else None)


@pytest.mark.parametrize("tools", [(), ("perf",)])
def test_a_missing_or_broken_perf(tmp_path: Path, tools: tuple[str, ...]) -> None:
    report = check.examine(machine(tmp_path, tools=tools, perf=Perf("WARNING: perf not found for kernel 5.1\n", 2)))
    assert report.backend is None and report.possible["software_counters"] == "no: perf is missing"
    assert finding(report, "perf").fix.startswith("apt-get install linux-perf (Ubuntu: linux-tools-5.1.0-nova;")


def test_a_cpu_that_no_table_knows(tmp_path: Path) -> None:
    report = check.examine(machine(tmp_path, {"/proc/cpuinfo": SKYLAKE.replace("158", "1")}))
    assert report.possible["hardware_counters"] == "no: there is no event table for this CPU (scmsim list events)"
    assert finding(report, "micro-architecture").value == "unknown" and report.backend == "software"


def test_hybrid_and_arm_pmus(tmp_path: Path) -> None:
    devices = "/sys/bus/event_source/devices"
    hybrid = {f"{devices}/cpu/type": None, f"{devices}/cpu_core/type": "4", f"{devices}/cpu_atom/type": "10"}
    alder_lake = machine(tmp_path / "hybrid", {**hybrid, "/proc/cpuinfo": SKYLAKE.replace("158", "151")})
    assert alder_lake.tables() == {"cpu_core": "golden-cove", "cpu_atom": "gracemont"}
    arm = {f"{devices}/cpu/type": None, f"{devices}/armv8_pmuv3_7/type": "8", f"{devices}/arm_spe_0/type": "9"}
    altra = machine(tmp_path / "arm", {**arm, "/proc/cpuinfo": "CPU implementer\t: 0x41\nCPU part\t: 0xd0c\n"})
    assert altra.pmus() == ["armv8_pmuv3_7"] and altra.tables() == {"armv8_pmuv3_7": "neoverse-n1"}
    gaps = finding(check.examine(altra), "events of armv8_pmuv3_7")
    assert "3 of the 9 metrics" in gaps.value and "walks are counted but not their cycles" in gaps.remark


def test_an_empty_machine_is_no_crash(tmp_path: Path) -> None:
    report = check.examine(Machine(tmp_path, which=lambda name: None, dax=lambda folder: None))
    assert report.backend is None and report.mounts == [] and report.obstacles


@pytest.mark.parametrize(
    ("line", "statx", "queue", "dax", "remark"),
    [
        ("/dev/pmem0 /mnt/dax ext4 rw,dax=always 0 0", True, "1", True, "direct access"),
        ("/dev/pmem0 /mnt/dax ext4 rw,dax 0 0", True, "1", True, "direct access"),
        ("/dev/pmem0 /mnt/dax xfs rw,dax=inode 0 0", True, "1", True, "direct access"),
        (
            "/dev/pmem0 /mnt/dax ext4 rw 0 0",
            False,
            "1",
            False,
            "page cache in front of persistent memory: mount with dax",
        ),
        ("/dev/pmem0 /mnt/dax ext4 rw,dax=always 0 0", False, "1", None, "mounted with dax, but files"),
        ("/dev/pmem0 /mnt/dax ext4 rw,dax=always 0 0", True, "0", None, "statx reports DAX, but queue/dax is 0"),
        ("/dev/pmem0 /mnt/dax ext4 rw,dax=always 0 0", None, "1", None, "a file there could not be examined"),
        ("/dev/pmem0 /mnt/dax ext4 rw,dax=never 0 0", None, "1", False, "page cache"),
        ("/dev/pmem0 /mnt/dax ext4 rw 0 0", False, "0", False, "page cache"),
        ("/dev/pmem0 /mnt/dax NOVA rw 0 0", None, "1", True, "NOVA always reaches the medium directly"),
        ("tmpfs /mnt/dax tmpfs rw 0 0", None, "1", False, "in memory"),
        ("/dev/pmem0 /mnt/dax btrfs rw 0 0", None, "1", False, "page cache"),
    ],
)
def test_dax_by_three_witnesses(tmp_path: Path, line: str, statx, queue: str, dax, remark: str) -> None:
    changes = {"/proc/self/mounts": line, "/sys/class/block/pmem0/queue/dax": queue}
    (mount,) = mounts(machine(tmp_path, changes, dax={"/mnt/dax": statx}))
    assert mount.dax is dax and mount.remark.startswith(remark)


def test_a_disagreement_is_an_obstacle(tmp_path: Path) -> None:
    report = check.examine(machine(tmp_path, dax={"/mnt/dax": False}))
    (found,) = report.obstacles
    assert found.fix == "umount /mnt/dax && mount -o dax=always /dev/pmem0 /mnt/dax, then look at dmesg"
    assert report.possible["dax"].startswith("no: ")


def test_mount_points_with_spaces_and_hostile_lines(tmp_path: Path) -> None:
    lines = "/dev/vda /mnt/a\\040b ext4 rw 0 0\nproc /proc proc rw 0 0\nshort line\n\n/dev/../etc /x ext4 rw 0 0"
    found = mounts(machine(tmp_path, {"/proc/self/mounts": lines}, dax={}))
    assert [mount.point for mount in found] == ["/mnt/a b", "/x"]
    assert found[1].queue is None


def test_a_partition_asks_its_disk(tmp_path: Path) -> None:
    here = machine(
        tmp_path, {"/sys/class/block/pmem0/pmem0p1/partition": "1", "/sys/class/block/pmem0/pmem0p1/start": "2048"}
    )
    os.symlink("pmem0/pmem0p1", here.path("/sys/class/block/pmem0p1"))
    assert queue_dax(here, "/dev/pmem0p1") is True
    disk, partition = regions(here)
    assert disk.huge is True and disk.numa_node == 0
    assert partition.huge is False and partition.remark == "the partition starts at 1048576, not at a multiple of 2 MiB"


@pytest.mark.parametrize(
    ("changes", "huge", "remark"),
    [
        ({"/sys/class/block/pmem0/device/align": "4096"}, False, "the namespace is aligned to 4096 bytes"),
        ({"/sys/class/block/pmem0/device/align": None}, True, "2 MiB mappings are possible"),
        (
            {"/sys/class/block/pmem0/device/align": None, "/sys/class/block/pmem0/device/resource": None},
            None,
            "its start can be read by root only",
        ),
    ],
)
def test_alignment_of_a_region(tmp_path: Path, changes, huge, remark: str) -> None:
    (region,) = regions(machine(tmp_path, changes))
    assert (region.huge, region.remark) == (huge, remark)


def test_the_kernels_options_from_proc(tmp_path: Path) -> None:
    here = machine(tmp_path, {"/boot/config-5.1.0-nova": None})
    assert here.config() == {}
    here.path("/proc/config.gz").write_bytes(gzip.compress(b"CONFIG_FS_DAX=y\n# CONFIG_NVDIMM_PFN is not set\n"))
    assert here.config() == {"CONFIG_FS_DAX": "y"}
    here.path("/proc/config.gz").write_bytes(b"not gzip")
    assert here.config() == {}


def test_files_that_hold_nonsense(tmp_path: Path) -> None:
    here = machine(tmp_path, {"/proc/sys/kernel/perf_event_paranoid": "many", "/proc/self/status": "CapEff: none"})
    assert here.paranoia() == 2 and here.number("/proc/cpuinfo") is None
    here.path("/proc/sys/kernel/nmi_watchdog").write_bytes(b"\xff\xfe")
    check.examine(here)


def test_tools_that_fail_are_an_answer() -> None:
    assert run_tool(["/no/such/tool"]).status == 127
    assert run_tool(["sh", "-c", "echo $LC_ALL; echo bad >&2; exit 3"]) == (3, "C\nbad\n")


def test_statx_on_this_machine(tmp_path: Path) -> None:
    """No file system of a test machine is DAX; a folder that takes no files cannot be asked, and nothing stays behind."""
    assert dax_attribute(str(tmp_path)) in (False, None)
    assert dax_attribute(str(tmp_path / "absent")) is None
    assert list(tmp_path.iterdir()) == []


def test_json_and_text_say_the_same(tmp_path: Path) -> None:
    machine(tmp_path, NO_PMU)
    said = CliRunner().invoke(cli.main, ["perf", "check", "--root", str(tmp_path), "--json"])
    report = json.loads(said.stdout)
    assert said.exit_code == 0 and set(report) >= {
        "possible",
        "backend",
        "event_tables",
        "findings",
        "mounts",
        "regions",
    }
    assert {f["name"] for f in report["findings"]} >= {
        "PMU",
        "SMT",
        "turbo",
        "NUMA",
        "NOVA",
        "kernel.perf_event_paranoid",
    }
    text = CliRunner().invoke(cli.main, ["perf", "check", "--root", str(tmp_path)]).stdout
    assert all(f["name"] in text and (not f["fix"] or f["fix"] in text) for f in report["findings"])


def test_this_machine_is_described() -> None:
    said = CliRunner().invoke(cli.main, ["perf", "check", "--json"])
    assert said.exit_code == 0 and json.loads(said.stdout)["findings"]


def test_require_pmu_is_one_line_and_exit_code_3(tmp_path: Path) -> None:
    machine(tmp_path, NO_PMU)
    said = CliRunner().invoke(cli.main, ["perf", "check", "--require-pmu", "--root", str(tmp_path)])
    assert said.exit_code == 3 and said.stdout == "" and said.stderr.count("\n") == 1
    assert said.stderr.startswith("scmsim: error: hardware counters cannot be used: ")
    check.require_pmu(machine(tmp_path / "ready"))
    with pytest.raises(EnvironmentProblem, match="kernel.perf_event_paranoid is 4"):
        check.require_pmu(machine(tmp_path / "strict", {"/proc/sys/kernel/perf_event_paranoid": "4"}))
