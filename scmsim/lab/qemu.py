"""Find the installed QEMU, and build the command line that starts a guest."""

import functools
import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass

from scmsim.core.errors import EnvironmentProblem

PROGRAM = "qemu-system-x86_64"
INSTALL = "apt-get install --no-install-recommends qemu-system-x86"
# Physical memory: 2 GiB of RAM; then, from 4 GiB on, the device under test, more RAM, and the mailbox between guest and host.
RAM_BYTES, LOW_BYTES, HIGH = 6 << 30, 2 << 30, 4 << 30
PM_AT, PM_BYTES, MAILBOX_AT = 4 << 30, 2 << 30, 7 << 30
MAILBOX_MOST = RAM_BYTES - LOW_BYTES + HIGH - MAILBOX_AT
# page_offset_base with 4-level tables and nokaslr: Linux, Documentation/x86/x86_64/mm.rst
DIRECT_MAP = 0xFFFF888000000000
_MIB = 1 << 20


@dataclass(frozen=True)
class Qemu:
    """An emulator that can load the plugin."""

    path: str
    version: tuple[int, int, int]

    @property
    def api(self) -> int:
        """Return the version of the plugin API that the emulator supports (source: QEMU's NEWS of 4.2, 9.0, 9.1, 9.2)."""
        steps = {(9, 2): 4, (9, 1): 3, (9, 0): 2, (4, 2): 1}
        return next(api for since, api in steps.items() if self.version[:2] >= since)


@functools.cache
def find(program: str = PROGRAM) -> Qemu:
    """Return the emulator; raises EnvironmentProblem if it is missing, too old, or has no plugins."""
    path = shutil.which(program)
    if path is None:
        raise EnvironmentProblem(f"no program {program!r}; run: {INSTALL}")
    said = _output([path, "--version"])
    match = re.search(r"version (\d+)\.(\d+)(?:\.(\d+))?", said)
    if not match:
        raise EnvironmentProblem(f"the version of {path!r} cannot be read; check that it is QEMU")
    version = (int(match[1]), int(match[2]), int(match[3] or 0))
    if version < (4, 2, 0):
        raise EnvironmentProblem(f"QEMU {match[1]}.{match[2]} has no plugins; 7.2 or newer is needed, run: {INSTALL}")
    if "-plugin" not in _output([path, "--help"]):
        raise EnvironmentProblem(f"{path!r} was built without plugins; Debian's and Ubuntu's have them, run: {INSTALL}")
    return Qemu(path, version)


def file_offset(physical: int) -> int:
    """Return the offset of a physical address in the file that backs the guest's memory."""
    return physical if physical < LOW_BYTES else LOW_BYTES + physical - HIGH


def arguments(
    qemu: Qemu,
    *,
    image: str,
    initrd: str,
    ram: str,
    console: str,
    plugin: Sequence[str],
    mailbox: int,
    erms: bool,
    cpus: int = 1,
    boot: int = 1,
    words: Sequence[str] = (),
) -> list[str]:
    """Return the command line that starts a guest.

    `image`, `initrd`, `ram` and `console` are the paths of the kernel, the RAM disk, the file that backs the memory, and the
    console's output.  `plugin` is the plugin's path and its arguments (empty: no plugin), `mailbox` the bytes of the mailbox.
    `erms`: the CPU reports a fast rep movsb, as Intel's CPUs do since Ivy Bridge.  One thread runs the `cpus` CPUs in turn, so
    that their order repeats.  `boot` is the seed of the guest's random numbers; from 2 on its free memory is in random order
    too, so that the addresses of kernel objects change from boot to boot, as on a real machine.  `words` are added to the
    kernel's command line.
    """
    memory = f"memmap={PM_BYTES // _MIB}M!{PM_AT // _MIB}M memmap={mailbox // _MIB}M!{MAILBOX_AT // _MIB}M"
    started = " maxcpus=1" if cpus > 1 else ""  # the guest's program starts the other CPUs: see guest_threads.c
    shuffled = " page_alloc.shuffle=1" if boot > 1 else ""
    kernel = f"console=ttyS0 quiet nokaslr {memory} tsc=reliable init_on_alloc=0 panic=-1{started}{shuffled}"
    kernel = " ".join([kernel, *words])
    return [
        qemu.path, "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot", "-smp", str(cpus),
        "-m", f"{RAM_BYTES // _MIB}M", "-machine", "q35,memory-backend=ram",
        "-object", f"memory-backend-file,id=ram,size={RAM_BYTES},share=on,mem-path={_escaped(ram)}",
        "-cpu", f"max,la57=off,erms={'on' if erms else 'off'}", "-accel", "tcg,tb-size=512,thread=single",
        "-icount", "shift=0,sleep=off", "-rtc", "base=2024-01-01,clock=vm", "-seed", str(boot),
        "-chardev", f"file,id=console,path={_escaped(console)}", "-serial", "chardev:console",
        "-kernel", image, "-initrd", initrd, "-append", kernel,
        *(["-plugin", ",".join(_escaped(word) for word in plugin)] if plugin else []),
    ]  # fmt: skip


def _escaped(text: str) -> str:
    """Double the commas of an option: QEMU splits options at commas, and reads a doubled comma as one."""
    return text.replace(",", ",,")


def _output(command: Sequence[str]) -> str:
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=60).stdout
    except (OSError, subprocess.TimeoutExpired) as error:
        raise EnvironmentProblem(f"{command[0]!r} cannot be run: {str(error).lower()}") from None
