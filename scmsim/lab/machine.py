"""Run the guest once: prepare its memory, RAM disk and job, run the emulator, and read the counts."""

import contextlib
import ctypes
import os
import pathlib
import shutil
import signal
import struct
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from scmsim.core.errors import EnvironmentProblem, ScmsimError
from scmsim.lab import cache, calls, console, counts, faults, initramfs, kernel, pagetable, qemu, touches
from scmsim.lab.kernel import Kernel
from scmsim.lab.measured import Measured
from scmsim.lab.plan import OUTPUT_ROOM, Plan
from scmsim.lab.systems import System

PREFIX = "scmsim-lab-"
_OUTPUT = struct.Struct("<8s12Q")  # struct output of guest.h
OUTPUT_HEAD = 4096  # bytes reserved for the header of the guest's output; symbols or results follow
_SHARED_MEMORY = pathlib.Path("/dev/shm")
_NEEDED = 3 << 30  # maximum bytes that a guest touches: the device and the guest's memory
_ALIGNED = 128 << 20  # alignment of a persistent-memory region: a section of the memory map
_MAX_TEXT = 1 << 22


@dataclass(frozen=True)
class Window:
    """Which accesses a stream keeps: the first `length` of every `every` accesses; with `calls`, also where calls begin."""

    length: int
    every: int
    calls: bool = False


@dataclass(frozen=True)
class Setting:
    """Settings that all runs of a job share."""

    qemu: qemu.Qemu
    kernel: Kernel
    timeout_s: float = 1800.0
    erms: bool = True
    cpus: int = 1
    window: Window | None = None
    touches: int | None = None  # page runs after which a page's touch is recorded again; None records no touches
    lines: bool = False  # whether to record the cache lines that may miss in a first-level cache
    # name of the machine whose TLB misses are counted by call stack, from the whole stream
    machine: str | None = None
    boots: bool = False  # whether each repeat of a guest is another boot (qemu.arguments)
    boot: int = 1
    words: tuple[str, ...] = ()  # additional words of the kernel's command line
    stop: threading.Event = field(default_factory=threading.Event)

    def version(self) -> str:
        """Return the kernel's version, and the number of CPUs if there are several: "6.1.0 on 8 CPUs"."""
        return self.kernel.version() + (f" on {self.cpus} CPUs" if self.cpus > 1 else "")


class Failed(EnvironmentProblem):
    """Error of a guest that did not do its job; the message ends with the last lines of its console.

    `status` is the emulator's: 0 if the guest itself ended early, None if it was stopped.
    """

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status


class Interrupted(ScmsimError):
    """Error of a run that a signal or another guest's failure stopped."""

    exit_code = 130


def run(setting: Setting, system: System, plan: Plan) -> Measured:
    """Run a plan on a fresh file system.

    Raises EnvironmentProblem if the emulator cannot run, or the guest fails; the message quotes the console.
    Raises Interrupted if `setting.stop` was set.
    """
    setup, image = prepared(setting.kernel, system)
    job = plan.packed(setup)
    with scratch() as folder:
        seconds = boot(folder, setting, system.name, job, image, _counting(setting, plan, folder))
        if not (folder / "counts").exists():
            raise Failed(f"{system.name}: {console.diagnose('', _text(folder / 'messages'), 0)}")
        return _collect(folder, output_at(job), setting, seconds)


def boot(
    folder: pathlib.Path,
    setting: Setting,
    name: str,
    job: bytes,
    image: bytes,
    plugin: Sequence[str],
    room: int = OUTPUT_ROOM,
    watch: Callable[[], None] = lambda: None,
) -> float:
    """Run a guest to its end, with its memory in the file `ram` of a folder; return the seconds that it took.

    `plugin` is the plugin's path and its arguments, `room` the number of bytes that the mailbox has after the job.  `watch` is
    called ten times per second; an exception from it ends the guest.
    """
    mailbox = -(-(len(job) + room) // _ALIGNED) * _ALIGNED
    if mailbox > qemu.MAILBOX_MOST:
        raise EnvironmentProblem(
            f"the job has {len(job) >> 20} MiB; the guest has room for less than 1 GiB, cut the trace"
        )
    _write_job(folder / "ram", job, qemu.file_offset(qemu.MAILBOX_AT))
    initrd, text, messages = folder / "initrd", folder / "console", folder / "messages"
    initrd.write_bytes(image)
    argv = qemu.arguments(
        setting.qemu, image=setting.kernel.image, initrd=str(initrd), ram=str(folder / "ram"), console=str(text),
        plugin=plugin, mailbox=mailbox, erms=setting.erms, cpus=setting.cpus, boot=setting.boot, words=setting.words,
    )  # fmt: skip
    started = time.monotonic()
    status = _emulate(argv, messages, setting, watch)
    said = _text(text)
    if not console.finished(said) or status:
        if setting.stop.is_set():
            raise Interrupted("interrupted")
        said = "" if console.finished(said) else said
        why = console.diagnose(said, _text(messages), status)
        raise Failed(f"{name} on {setting.kernel.version()}: {why}", status)
    return time.monotonic() - started


def prepared(chosen: Kernel, system: System, fresh: bool = True) -> tuple[list[list[str]], bytes]:
    """Return (set-up commands of the guest, its initial RAM disk).

    Only with `fresh` do the commands make and mount a file system.
    """
    first = kernel.module_files(chosen, kernel.PM_MODULES)
    later = {k: v for k, v in kernel.module_files(chosen, system.modules).items() if k not in first}
    files = {"/init": initramfs.read(cache.guest())}
    places = {name: f"/modules.d/{name}.ko" for name in (*first, *later)}
    files |= {places[name]: content for name, content in {**first, **later}.items()}
    files["/modules"] = "".join(f"{places[name]}\n" for name in first).encode()
    setup = [["module", places[name], ""] for name in later]
    if not fresh:
        return setup, initramfs.archive(files)
    if system.mkfs:
        path = initramfs.tool(system.mkfs[0])
        files |= {place: initramfs.read(file) for place, file in initramfs.with_libraries(path).items()}
        setup.append(["run", path, *system.mkfs[1:]])
    setup.append(["mount", system.source, system.type, system.mount_options(fresh)])
    if system.dax:
        setup.append(["dax"])
    return setup, initramfs.archive(files)


def plugin_words(plugin: pathlib.Path, **given: object) -> list[str]:
    """Return a plugin's path and arguments: `given`, and the device's place in memory and in the file that backs memory."""
    low, ram = qemu.DIRECT_MAP + qemu.PM_AT, qemu.file_offset(qemu.PM_AT)
    device = [f"pmlo={low:#x}", f"pmhi={low + qemu.PM_BYTES:#x}", f"ramlo={ram:#x}"]
    return [str(plugin), *device, *(f"{name}={value}" for name, value in given.items())]


def _counting(setting: Setting, plan: Plan, folder: pathlib.Path) -> list[str]:
    given: dict[str, object] = {"out": folder / "counts", "calls": folder / "calls", "regions": len(plan.regions)}
    if setting.window:
        given |= {"stream": folder / "stream", "every": setting.window.every, "length": setting.window.length}
    if setting.lines:
        given["lines"] = folder / "lines"
    if setting.machine:
        given["cells"] = folder / "cells"
    if setting.touches:
        given |= {"touches": folder / "touches", "within": setting.touches}
    return plugin_words(cache.plugin(setting.qemu.api), **given)


@contextlib.contextmanager
def scratch() -> Iterator[pathlib.Path]:
    """Yield a folder for one run, in shared memory if there is space, so that the guest's memory need not be on a disk."""
    place = _SHARED_MEMORY if _free(_SHARED_MEMORY) > 2 * _NEEDED else pathlib.Path(tempfile.gettempdir())
    if _free(place) < _NEEDED:
        raise EnvironmentProblem(f"{str(place)!r} has less than {_NEEDED >> 30} GiB free for the guest; set TMPDIR")
    folder = pathlib.Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-", dir=place))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _free(path: pathlib.Path) -> int:
    try:
        about = os.statvfs(path)
    except OSError:
        return 0
    return about.f_bavail * about.f_frsize if os.access(path, os.W_OK) else 0


def _write_job(ram: pathlib.Path, job: bytes, at: int) -> None:
    try:
        with ram.open("wb") as file:
            file.truncate(qemu.RAM_BYTES)
            file.seek(at)
            file.write(job)
    except OSError as error:
        raise EnvironmentProblem(f"cannot write {str(ram)!r}: {(error.strerror or str(error)).lower()}") from None


def _emulate(
    argv: Sequence[str], messages: pathlib.Path, setting: Setting, watch: Callable[[], None] = lambda: None
) -> int | None:
    """Run the emulator to its end and return its exit status; None if it was stopped at its time limit."""
    deadline = time.monotonic() + setting.timeout_s
    with messages.open("wb") as said:
        process = subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=said, stderr=said, start_new_session=True, preexec_fn=_die_with_us
        )
        try:
            while process.poll() is None:
                if time.monotonic() > deadline or setting.stop.wait(0.1):
                    return None
                watch()
            return process.returncode
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()


_libc = ctypes.CDLL(None)


def _die_with_us() -> None:
    """Make the emulator die with this process, however the process ends; runs in the child (PR_SET_PDEATHSIG is 1)."""
    _libc.prctl(1, signal.SIGKILL)


def output_at(job: bytes) -> int:
    """Return the offset of a job's output in the file that backs the guest's memory."""
    return qemu.file_offset(qemu.MAILBOX_AT) + int(struct.unpack_from("<Q", job, 40)[0])


def report(folder: pathlib.Path, at: int, more: int = 0) -> tuple[bytes, list[int], bytes]:
    """Return (symbols, numbers in the report's header, `more` bytes after the symbols) of a guest that ended normally.

    `at` is the report's offset in the file that backs the guest's memory.
    """
    with (folder / "ram").open("rb") as file:
        file.seek(at)
        magic, symbols, *values = _OUTPUT.unpack(file.read(_OUTPUT.size))
        if magic != b"SCMOUT1\n" or symbols > OUTPUT_ROOM:
            raise Failed("the guest left no report in its mailbox; run it again")
        file.seek(at + OUTPUT_HEAD)
        return file.read(symbols), values, file.read(more)


def _collect(folder: pathlib.Path, at: int, setting: Setting, seconds: float) -> Measured:
    """Return counts, symbols and the guest's report, from the files that the run left."""
    text, values, raw = report(folder, at, faults.MOST)
    # huge_bytes: bytes of the program's buffer that large pages map, UNKNOWN if the kernel does not report it
    names = (
        "buffer", "buffer_bytes", "huge_bytes", "done", "failed", "first_failed", "first_errno", "no_space", "short_writes",
        "unwritten", "busy",
    )  # fmt: skip
    about = dict(zip(names, values, strict=True))
    found = Measured(counts.read(folder / "counts"), text, about, seconds, calls.read(folder / "calls"))
    found.faults, found.extents, found.sizes_told = faults.read(raw)
    if setting.window or setting.touches:
        found.ranges = _ranges(folder / "ram", text, about, setting)
    if setting.window:
        found.stream = _mapped(folder / "stream", "<u8")
    if setting.lines:
        found.lines = _mapped(folder / "lines", "<u8")
    if setting.machine:
        found.cells = _mapped(folder / "cells", "<u4")
    if setting.touches:
        found.touches = touches.read(folder / "touches")
        found.caches = touches.caches(folder / "ram", text, found.touches)
    return found


def _mapped(path: pathlib.Path, kind: str) -> np.ndarray:
    """Return the plugin's output as a memory map, which stays readable after the folder is removed."""
    return np.memmap(path, kind, "r") if path.stat().st_size else np.zeros(0, kind)


def _ranges(ram: pathlib.Path, symbols: bytes, about: dict[str, int], setting: Setting) -> list[tuple[int, int, int]]:
    """Return address ranges with page sizes; empty if they cannot be read (no symbol init_top_pgt) and are not needed."""
    try:
        return pagetable.ranges(ram, symbols, about)
    except EnvironmentProblem:
        if setting.touches or (setting.window and setting.window.calls):
            raise
        return []


def _text(path: pathlib.Path) -> str:
    """Return the end of a text file with arbitrary content."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - _MAX_TEXT))
            return file.read().decode("utf-8", "replace")
    except OSError:
        return ""
