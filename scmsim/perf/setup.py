"""Set up a mounted file system on persistent memory: the steps from a bare machine, and checks that they destroy no data.

Sizes and addresses in bytes. Sources: Linux Documentation/admin-guide/kernel-parameters.txt (memmap=), filesystems/dax.rst
and filesystems/ext4 (dax); ndctl-create-namespace(1); README of NVSL/linux-nova; docs.pmem.io (I/O alignment).
"""

import re
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from scmsim.core.errors import EnvironmentProblem, UsageError, unknown
from scmsim.core.units import format_bytes
from scmsim.perf.machine import CAP_SYS_ADMIN, Machine
from scmsim.perf.mounts import HUGE, mounts, regions
from scmsim.perf.undo import Journal, Step, carry_out, roll_back, setting

FILE_SYSTEMS = ("ext4-dax", "ext4", "xfs-dax", "nova-cow", "nova-inplace")
_TOOLS = {"ext4": ("mkfs.ext4", "e2fsprogs"), "xfs": ("mkfs.xfs", "xfsprogs"), "nova": ("modprobe", "kmod")}
_GIB = 1 << 30
# s_magic, the second 32-bit field of NOVA's super block, little endian: 0x4E4F5641 of NVSL, 0x9C6E6F2B of a fork
_NOVA_MAGICS = (b"AVON", b"\x2b\x6f\x6e\x9c")


class Request(NamedTuple):
    """Request for a file system on persistent memory.

    `size` and `start` describe the region that `memmap=` reserves in DRAM; None means half of the largest range, at its end.
    """

    fs: str = "ext4-dax"
    device: str = "/dev/pmem0"
    folder: str = "/mnt/scmsim"
    size: int | None = None
    start: int | None = None
    namespace: str | None = None  # namespace to reformat with ndctl; everything on it is lost
    quiet: bool = True  # fix the clock, stop the watchdog, open the counters


def boot_parameter(machine: Machine, size: int | None, start: int | None) -> str:
    """Return `memmap=size!start` for a region in RAM that starts and ends at multiples of 2 MiB.

    Raises UsageError if /proc/iomem is readable and shows that the region does not fit (the form is size!start, not start!end).
    """
    for name, value in (("size", size), ("start", start)):
        if (value or 0) % HUGE or (name, value) == ("size", 0):
            raise UsageError(f"the {name} must be a positive multiple of 2 MiB, not {value}; write it like 16GiB")
    ram = _ram(machine)
    if not ram:
        return f"memmap={_memparse(size) if size else 'SIZE'}!{'START' if start is None else _memparse(start)}"
    first, end = max(ram, key=lambda span: span[1] - span[0])
    size = size or (end - first) // 2 // _GIB * _GIB or (end - first) // 2 // HUGE * HUGE
    where = (end - size) // HUGE * HUGE if start is None else start
    if not any(low <= where and where + size <= high for low, high in ram):
        asked = _memparse(size) if start is None else f"{_memparse(size)}!{_memparse(start)}"
        largest = f"{format_bytes(first)} to {format_bytes(end // HUGE * HUGE)}"
        raise UsageError(
            f"memmap={asked} does not lie in RAM, whose largest range is {largest}; change --size or --start"
        )
    return f"memmap={_memparse(size)}!{_memparse(where)}"


def _ram(machine: Machine) -> list[tuple[int, int]]:
    """Return the ranges of System RAM as (first, end); empty if they are hidden (anyone but root reads zeros)."""
    found = re.findall(r"^([0-9a-f]+)-([0-9a-f]+) : System RAM$", machine.text("/proc/iomem") or "", re.MULTILINE)
    spans = [(int(first, 16), int(last, 16) + 1) for first, last in found]
    return [span for span in spans if span[1] > 1]


def _memparse(value: int) -> str:
    """Return bytes as text with the largest suffix that the kernel reads and that divides the number."""
    for suffix, shift in (("G", 30), ("M", 20)):
        if value % (1 << shift) == 0:
            return f"{value >> shift}{suffix}"
    return str(value)


def boot_steps(machine: Machine, request: Request) -> list[str]:
    """Return the manual steps that create a region of persistent memory, as lines of text; none if the device exists."""
    if _block(machine, request.device):
        return []
    parameter = boot_parameter(machine, request.size, request.start)
    return [
        f"# there is no {request.device}: cut one out of DRAM (or install an NVDIMM) and boot again",
        "# needs CONFIG_X86_PMEM_LEGACY; choose a range on the node of the CPUs that will run the benchmark",
        f'# in /etc/default/grub: GRUB_CMDLINE_LINUX="... {parameter}"',
        "update-grub    # Fedora: grub2-mkconfig -o /boot/grub2/grub.cfg",
        "reboot",
    ]


def plan(machine: Machine, request: Request) -> list[Step]:
    """Return the steps to a mounted file system; changes nothing. Raises UsageError for an invalid request."""
    if request.fs not in FILE_SYSTEMS:
        raise unknown("file system to set up", request.fs, FILE_SYSTEMS)
    if not re.fullmatch(r"/dev/pmem\d+(\.\d+)?(p\d+)?", request.device):
        raise UsageError(f"device {request.device!r} is not persistent memory; name one like /dev/pmem0")
    if request.namespace and not re.fullmatch(r"namespace\d+\.\d+", request.namespace):
        raise UsageError(f"namespace {request.namespace!r} is not like 'namespace0.0'; see 'ndctl list --namespaces'")
    if request.namespace and "p" in request.device.removeprefix("/dev/p"):
        raise UsageError(f"{request.device!r} is a partition and would go with the namespace; name the whole device")
    if not (Path(request.folder).is_absolute() and request.folder.isprintable()):
        raise UsageError(f"folder {request.folder!r} is not an absolute, printable path; write it like /mnt/scmsim")
    steps = _quieten(machine) if request.quiet else []
    if request.namespace:
        why = "2 MiB alignment and struct pages; everything on the namespace is lost"
        words = f"ndctl create-namespace --force --reconfig {request.namespace} --mode fsdax --map mem --align 2M"
        steps.append(Step(why, tuple(words.split())))
    point = f"{request.folder.rstrip('/')}/{request.fs}"
    make = Step("mount point", ("mkdir", "--parents", point), undo=("folder", point))
    return [*steps, *_format(request), make, _mount(request, point)]


def _quieten(machine: Machine) -> list[Step]:
    base = "/sys/devices/system/cpu"
    wanted = [
        ("/proc/sys/kernel/nmi_watchdog", "0", "the watchdog holds a counter"),
        ("/proc/sys/kernel/perf_event_paranoid", "-1", "count in the kernel, and tracepoints"),
        ("/proc/sys/kernel/kptr_restrict", "0", "names of the kernel's functions in profiles"),
        (f"{base}/intel_pstate/no_turbo", "1", "a steady clock"),
        (f"{base}/cpufreq/boost", "0", "a steady clock"),
        *(
            (f"{base}/{cpu}/cpufreq/scaling_governor", "performance", "a steady clock")
            for cpu in machine.names(base)
            if re.fullmatch(r"cpu\d+", cpu)
        ),
    ]
    return [step for each in wanted if (step := setting(machine, *each))]


def _format(request: Request) -> list[Step]:
    """Return the steps that make a new file system whose extents can start at multiples of 2 MiB.

    These are 512 blocks of 4 KiB, the block size that DAX requires.
    """
    mark = str(uuid.uuid4())
    undo = ("format", request.device, mark)
    if request.fs.startswith("nova"):
        return [Step("the driver, which writes in place or not", ("modprobe", "nova", _nova_mode(request)))]
    options: tuple[str, ...]
    if request.fs == "xfs-dax":
        options = ("-q", "-m", f"reflink=0,uuid={mark}", "-d", "su=2m,sw=1")
        return [Step("blocks that 2 MiB mappings can cover", ("mkfs.xfs", *options, request.device), undo=undo)]
    options = ("-q", "-b", "4096", "-E", "stride=512,stripe_width=512", "-U", mark)
    return [Step("blocks that 2 MiB mappings can cover", ("mkfs.ext4", *options, request.device), undo=undo)]


def _nova_mode(request: Request) -> str:
    return f"inplace_data_updates={int(request.fs == 'nova-inplace')}"


def _mount(request: Request, point: str) -> Step:
    kind, _, dax = request.fs.partition("-")
    options: tuple[str, ...] = ("-t", kind, "-o", "dax=always" if dax else "dax=never")
    why = "direct access" if dax else "page cache"
    if kind == "nova":
        options, why = ("-t", "NOVA", "-o", "init"), "NOVA formats the device when it is mounted with init"
    return Step(why, ("mount", *options, request.device, point), undo=("mount", request.device, point))


def check_safe(machine: Machine, request: Request) -> None:
    """Raise EnvironmentProblem unless the device exists, is not mounted or otherwise in use, and holds no file system."""
    if not machine.has_capability(CAP_SYS_ADMIN):
        raise EnvironmentProblem("setting up a file system needs root; see the steps with 'scmsim perf setup --show'")
    block = _block(machine, request.device)
    if not block:
        raise EnvironmentProblem(f"there is no {request.device}; 'scmsim perf setup --show' says how to get one")
    for tool, package in (_TOOLS[request.fs.partition("-")[0]], ("blkid", "util-linux"), ("wipefs", "util-linux")):
        if machine.which(tool) is None:
            raise EnvironmentProblem(f"{tool!r} is missing; install {package}")
    if request.namespace and machine.which("ndctl") is None:
        raise EnvironmentProblem("'ndctl' is missing; install ndctl")
    mode = machine.text("/sys/module/nova/parameters/inplace_data_updates")
    if request.fs.startswith("nova") and mode not in (None, _nova_mode(request)[-1]):
        raise EnvironmentProblem(f"nova is loaded with inplace_data_updates={mode}; unload it with 'rmmod nova'")
    if request.namespace and request.namespace not in _namespaces(machine, block):
        raise EnvironmentProblem(
            f"{request.namespace} is not the namespace of {request.device}; see 'ndctl list --namespaces'"
        )
    use = _in_use(machine, request.device) or _content(machine, request.device)
    if use:
        raise EnvironmentProblem(f"{request.device} {use}; nothing was changed")


def _block(machine: Machine, device: str) -> str:
    """Return the device's folder in /sys/class/block, "" if the device does not exist."""
    folder = f"/sys/class/block/{device.removeprefix('/dev/')}"
    return folder if machine.path(folder).is_dir() else ""


def _namespaces(machine: Machine, block: str) -> set[str]:
    """Return the possible names of a block device's namespace: its parent, or the namespace that a pfn or dax parent names."""
    parent = machine.path(f"{block}/device")
    return {parent.resolve().name, machine.text(f"{block}/device/namespace") or ""}


def _in_use(machine: Machine, device: str) -> str:
    """Return the use of a device or its partitions as text, "" if unused.

    Devices are also compared by number, because a link can hide a name.
    """
    name = device.removeprefix("/dev/")
    family = [
        each
        for each in machine.names("/sys/class/block")
        if each == name or re.fullmatch(rf"{re.escape(name)}p\d+", each)
    ]
    numbers = {machine.text(f"/sys/class/block/{each}/dev") for each in family} - {None}
    for line in (machine.text("/proc/self/mountinfo") or "").splitlines():
        fields = line.split(" ")
        source = fields[fields.index("-") + 2] if "-" in fields[:-2] else ""
        if len(fields) > 4 and (fields[2] in numbers or source.removeprefix("/dev/") in family):
            return f"is mounted on {fields[4]}; unmount it first"
    for each in family:
        holders = machine.names(f"/sys/class/block/{each}/holders")
        if holders:
            return f"is used by {holders[0]}"
        if re.search(rf"^/dev/{re.escape(each)}\s", machine.text("/proc/swaps") or "", re.MULTILINE):
            return "is swap"
    if len(family) > 1:
        return f"has partitions ({family[1]}); name one of them"
    return ""


def _content(machine: Machine, device: str) -> str:
    """Return text on the device's content; "" if blkid finds no signature and NOVA's magic number is not there."""
    probed = machine.run(["blkid", "--probe", "--output", "export", device])
    if probed.status == 0:
        kind = re.search(r"^(?:PT)?TYPE=(\S+)", probed.output, re.MULTILINE)
        remedy = f"if it can go, run: wipefs --all {device}"
        return f"holds {kind[1] if kind else 'something'}; {remedy}"
    if probed.status != 2 or probed.output.strip():  # 2: nothing found or, with a message, not opened
        return f"could not be examined by blkid ({probed.output.strip() or probed.status}), so it may hold data"
    try:
        with open(machine.path(device), "rb") as file:
            head = file.read(8)
    except OSError as error:
        return f"could not be read ({(error.strerror or str(error)).lower()}), so it may hold data"
    if head[4:] in _NOVA_MAGICS:
        return f"holds NOVA; if it can go, run: dd if=/dev/zero of={device} bs=4096 count=1"
    return ""


def apply(machine: Machine, request: Request, told: Callable[[str], None] = lambda text: None) -> str:
    """Carry out the whole plan, or nothing, and return the mount point.

    Raises UsageError for a folder that `perf setup` did not make, EnvironmentProblem for a device that is in use, a step that
    failed, or a DAX mount whose files are not DAX.  An error, Ctrl-C or SIGTERM undoes every step.
    """
    steps = plan(machine, request)
    journal = Journal(str(machine.path(request.folder)))
    if journal.entries:
        raise UsageError(
            f"folder {request.folder!r} is set up already; run 'scmsim perf teardown {request.folder}' first"
        )
    check_safe(machine, request)
    point = steps[-1].argv[-1]
    carry_out(steps, journal, machine, told, lambda: _check_mounted(machine, request, point))
    return point


def _check_mounted(machine: Machine, request: Request, point: str) -> None:
    mounted = next((mount for mount in mounts(machine) if mount.point == point), None)
    if mounted is None:
        raise EnvironmentProblem(f"{request.device} was mounted on {point} but is not there; see dmesg")
    if request.fs != "ext4" and mounted.dax is not True:
        raise EnvironmentProblem(f"{point} is not DAX ({mounted.remark}); see dmesg and 'scmsim perf check'")


def remarks(machine: Machine, request: Request) -> list[str]:
    """Return remarks on the alignment of the device, emulation by DRAM, and changes that teardown does not undo."""
    found = [f"{region.device}: {region.remark}" for region in regions(machine) if region.device == request.device]
    if request.fs.startswith("nova"):
        found.append("NOVA needs its own kernel (github.com/NVSL/linux-nova); teardown leaves its format on the device")
    found.append("DRAM behind memmap= is cached like DRAM: TLB counts carry over to an NVDIMM, times do not")
    return found


def teardown(machine: Machine, folder: str, told: Callable[[str], None] = lambda text: None) -> int:
    """Undo the steps that `apply` recorded in a folder, even after a crash; return the number of undone entries.

    Raises UsageError for a folder that was not set up, EnvironmentProblem for a failed step (the rest stays recorded).
    """
    journal = Journal(str(machine.path(folder)))
    if not journal.file.exists():
        raise UsageError(f"folder {folder!r} was not made by 'scmsim perf setup'; nothing to undo")
    count = len(journal.entries)
    roll_back(journal, machine, told)
    return count
