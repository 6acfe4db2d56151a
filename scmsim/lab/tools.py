"""Find the lab's prerequisites on this machine, and the one command that installs the missing ones."""

import os
import shutil
import subprocess
from collections.abc import Sequence
from typing import NamedTuple

from scmsim.core.errors import EnvironmentProblem
from scmsim.lab import cache, initramfs, kernel, qemu, systems

_KERNELS = ("linux-image-cloud-amd64", "linux-image-amd64")  # Debian's; each depends on the newest image


class Finding(NamedTuple):
    """One prerequisite: what was found, and the package or command that supplies it if it is missing ("" otherwise)."""

    name: str
    value: str
    package: str = ""


def examine() -> list[Finding]:
    """Return the state of each of the lab's prerequisites; changes nothing outside the lab's folder."""
    kept = [Finding("kept kernel", f"{each.version()}: {suits(each)}") for each in kernel.kept()]
    return [_qemu(), _compiler(), _tool("mke2fs"), _tool("mkfs.xfs"), _kernel(), *kept, _place()]


def _qemu() -> Finding:
    try:
        found = qemu.find()
    except EnvironmentProblem as error:
        return Finding("emulator", str(error), "qemu-system-x86")
    return Finding("emulator", f"{found.path}, QEMU {'.'.join(map(str, found.version))}, plugin API {found.api}")


def _compiler() -> Finding:
    found = cache.compiler()
    return Finding("compiler", found) if found else Finding("compiler", "no C compiler", "gcc libc6-dev")


def _tool(name: str) -> Finding:
    try:
        return Finding(name, initramfs.tool(name))
    except EnvironmentProblem as error:
        return Finding(name, str(error), initramfs.PACKAGES[name])


def _kernel() -> Finding:
    try:
        found = kernel.find()
        found.check()
    except EnvironmentProblem as error:
        return Finding("kernel", str(error), "scmsim lab setup --apply")
    return Finding("kernel", f"{found.version()} ({found.image})")


def _place() -> Finding:
    return Finding("folder", str(cache.folder()))


def suits(found: kernel.Kernel) -> str:
    """Return one line: the file systems that a kernel can run, and the features that it lacks."""
    rows = systems.load().values()
    fit = [row.name for row in rows if not kernel.lacks(found, row.type, row.dax)]
    settings = found.settings()
    if not settings:
        return "no configuration file that lists its features"
    gaps = [f"without {name}: {what}" for name, what in kernel.WANTED.items() if settings.get(name, "n") == "n"]
    return "; ".join([", ".join(fit), *gaps])


def command(found: Sequence[Finding]) -> str:
    """Return the command that installs the missing packages; "" if nothing is missing."""
    packages = [
        word for finding in found for word in finding.package.split() if not finding.package.startswith("scmsim")
    ]
    return f"apt-get install --no-install-recommends {' '.join(dict.fromkeys(packages))}" if packages else ""


def install() -> None:
    """Install the missing packages with apt; raises EnvironmentProblem if apt fails."""
    missing = command(examine())
    if missing:
        _apt([*missing.split(), "--yes"], None)


def download_kernel() -> str:
    """Download the newest Debian kernel package with apt into the lab's folder, without installing it; return its path.

    Raises EnvironmentProblem if apt is missing, has no kernel package, or cannot download it.
    """
    if not shutil.which("apt-get"):
        raise EnvironmentProblem("no apt-get here; get a Debian kernel package and give it with --kernel FILE.deb")
    for meta in _KERNELS:
        said = _output(["apt-cache", "depends", meta])
        name = next((line.split()[-1] for line in said.splitlines() if "Depends: linux-image-" in line), None)
        if name:
            break
    else:
        raise EnvironmentProblem(f"apt knows no {_KERNELS[0]}; run apt-get update, or give --kernel FILE.deb")
    folder = cache.folder()
    before = set(folder.glob("linux-image-*.deb"))
    _apt(["apt-get", "download", name], str(folder))
    made = sorted(set(folder.glob(f"{name}_*.deb")) - before) or sorted(folder.glob(f"{name}_*.deb"))
    if not made:
        raise EnvironmentProblem(f"apt downloaded no {name}; give a package with --kernel FILE.deb")
    return str(made[-1])


def _apt(words: Sequence[str], folder: str | None) -> None:
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    try:
        done = subprocess.run(words, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=2, timeout=1800)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise EnvironmentProblem(f"{' '.join(words)!r} failed: {str(error).lower()}") from None
    if done.returncode:
        raise EnvironmentProblem(f"{' '.join(words)!r} failed, see its message above; run it as root")


def _output(words: Sequence[str]) -> str:
    try:
        return subprocess.run(
            words, capture_output=True, text=True, timeout=120, env={**os.environ, "LC_ALL": "C"}
        ).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ""
