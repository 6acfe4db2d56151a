"""Read what this machine reports about itself: files of /proc and /sys, and the output of a few tools.

All files are read below one root, and tools and statx are replaceable, so that a test can describe a machine by a folder.
"""

import contextlib
import ctypes
import errno
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

_FILE_LIMIT = 1 << 20  # bytes; every file read here is smaller
_TOOL_LIMIT_S = 300  # enough to make a file system of hundreds of GiB

# Linux include/uapi/linux/capability.h
CAP_SYS_ADMIN = 21
CAP_PERFMON = 38


class Done(NamedTuple):
    """Exit status and output of a tool."""

    status: int
    output: str  # stdout and stderr


def run_tool(argv: Sequence[str]) -> Done:
    """Run a tool to its end in the C locale; status 127 if it is missing or takes longer than 5 minutes."""
    try:
        done = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            env={**os.environ, "LC_ALL": "C"},
            timeout=_TOOL_LIMIT_S,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return Done(127, str(error))
    return Done(done.returncode, done.stdout)


def dax_attribute(folder: str) -> bool | None:
    """Return whether a new file in a folder is accessed without the page cache; None if unknown.

    statx(2): bit STATX_ATTR_DAX (0x200000) of `stx_attributes`, valid if it is set in `stx_attributes_mask` (offsets 8 and 56
    of struct statx). The test file has no name, and it no longer exists when this function returns.
    """
    dax, empty_path, length = 0x200000, 0x1000, 256
    try:
        file = _nameless_file(folder)
    except OSError:
        return None
    try:
        buffer = ctypes.create_string_buffer(length)
        statx = getattr(ctypes.CDLL(None), "statx", None)
        if statx is None or statx(file, b"", empty_path, 0, buffer):
            return None
        attributes = int.from_bytes(buffer.raw[8:16], "little")
        known = int.from_bytes(buffer.raw[56:64], "little")
        return bool(attributes & dax) if known & dax else None
    finally:
        os.close(file)


def _nameless_file(folder: str) -> int:
    try:
        return os.open(folder, os.O_TMPFILE | os.O_RDWR, 0o600)
    except OSError as error:
        if error.errno not in (errno.EOPNOTSUPP, errno.EISDIR):
            raise
    file, path = tempfile.mkstemp(dir=folder, prefix=".scmsim-")
    os.unlink(path)
    return file


class Machine:
    """A Linux machine whose files are read below `root`, a folder that replaces `/`.

    `run` runs an argv list to its end, `which` finds a tool, and `dax` returns whether a new file in a folder uses direct access.
    """

    def __init__(
        self,
        root: str | os.PathLike[str] = "/",
        run: Callable[[Sequence[str]], Done] = run_tool,
        which: Callable[[str], str | None] = shutil.which,
        dax: Callable[[str], bool | None] = dax_attribute,
    ) -> None:
        self.root = Path(root)
        self.run = run
        self.which = which
        self.dax = dax

    def path(self, path: str) -> Path:
        return self.root / path.lstrip("/")

    def text(self, path: str) -> str | None:
        """Return the content of a small file without surrounding white space; None if it cannot be read."""
        try:
            with open(self.path(path), "rb") as file:
                return file.read(_FILE_LIMIT).decode(errors="replace").strip()
        except OSError:
            return None

    def write(self, path: str, value: str) -> None:
        """Write a value to an existing file of /proc or /sys; raises OSError."""
        file = os.open(self.path(path), os.O_WRONLY | os.O_TRUNC)
        try:
            os.write(file, f"{value}\n".encode())
        finally:
            os.close(file)

    def number(self, path: str) -> int | None:
        """Return a file's whole number, decimal or 0x...; None if it holds none."""
        with contextlib.suppress(ValueError):
            return int(self.text(path) or "", 0)
        return None

    def names(self, path: str) -> list[str]:
        """Return the names in a folder, sorted; empty if it cannot be read."""
        try:
            return sorted(os.listdir(self.path(path)))
        except OSError:
            return []

    def pmus(self) -> list[str]:
        """Return the hardware PMUs of cores: "cpu", or "cpu_core" and "cpu_atom", or Arm's names; empty in most VMs."""
        names = self.names("/sys/bus/event_source/devices")
        return [name for name in names if re.fullmatch(r"cpu(_core|_atom)?|armv8_\w+|armv9_\w+", name)]

    def tables(self) -> dict[str, str]:
        """Return the name of the event table of each PMU that is present."""
        from scmsim.perf import events

        detected, present = events.detect_pmus(self.text("/proc/cpuinfo") or ""), self.pmus()
        found = {pmu: name for pmu, name in detected.items() if pmu in present}
        if not found and len(detected) == 1 and present:  # Arm's PMU has another name in each kernel
            found = {present[0]: next(iter(detected.values()))}
        return found

    def is_virtual(self) -> bool:
        return bool(re.search(r"^flags\s*:.*\bhypervisor\b", self.text("/proc/cpuinfo") or "", re.MULTILINE))

    def kernel(self) -> str:
        """Return the release of the kernel, "" if unknown."""
        return self.text("/proc/sys/kernel/osrelease") or ""

    def perf_version(self) -> str | None:
        """Return perf's version such as "6.1.187"; None if perf is missing or does not start."""
        if self.which("perf") is None:
            return None
        done = self.run(["perf", "--version"])
        match = re.search(r"perf version (\S+)", done.output)
        return match[1] if match and done.status == 0 else None

    def has_capability(self, *numbers: int) -> bool:
        """Return whether this process has one of these capabilities in effect."""
        match = re.search(r"^CapEff:\s*([0-9a-f]+)", self.text("/proc/self/status") or "", re.MULTILINE)
        return any(int(match[1], 16) >> number & 1 for number in numbers) if match else False

    def paranoia(self) -> int:
        """Return the level of kernel.perf_event_paranoid that applies to this process; -1 if it may count everything."""
        if self.has_capability(CAP_PERFMON, CAP_SYS_ADMIN):
            return -1
        level = self.number("/proc/sys/kernel/perf_event_paranoid")
        return 2 if level is None else level

    def config(self) -> dict[str, str]:
        """Return the options of the kernel's build, as {"CONFIG_FS_DAX": "y"}; empty if they cannot be read."""
        import gzip

        text = self.text(f"/boot/config-{self.kernel()}")
        if text is None:
            try:
                with gzip.open(self.path("/proc/config.gz"), "rt", errors="replace") as file:
                    text = file.read(_FILE_LIMIT)
            except (OSError, EOFError):
                return {}
        return dict(re.findall(r"^(CONFIG_\w+)=(\S+)$", text, re.MULTILINE))
