"""Find the guest's kernel: from a Debian package, an installed kernel, or any bzImage with its modules."""

import dataclasses
import io
import json
import lzma
import os
import pathlib
import re
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from scmsim.core.atomic import whole
from scmsim.core.errors import EnvironmentProblem, UsageError
from scmsim.lab import cache, debian

# In the order in which they are loaded: the bus, its block translation (nd_pmem needs it), the block device, and the driver
# that finds memmap= regions.
PM_MODULES = ("libnvdimm", "nd_btt", "nd_pmem", "nd_e820")
NEEDED = {
    "CONFIG_X86_PMEM_LEGACY": "memory declared persistent (memmap=)",
    "CONFIG_BLK_DEV_PMEM": "a block device on persistent memory",
}
_OPTIONS = {
    "tmpfs": ("CONFIG_TMPFS",),
    "ramfs": (),
    "ext2": ("CONFIG_EXT2_FS", "CONFIG_EXT4_USE_FOR_EXT2"),
    "pmfs": ("CONFIG_PMFS",),
    "winefs": ("CONFIG_WINEFS",),
}
WANTED = {  # configuration option -> what is missing without it; counts do not need these options
    "CONFIG_PROC_PAGE_MONITOR": "page size of the program's buffer",
    "CONFIG_TRANSPARENT_HUGEPAGE": "large pages of the program's buffer",
    "CONFIG_KALLSYMS_ALL": "page sizes of the kernel (--stream, lab tlb, lab touches)",
}
CHOSEN = "kernel.json"  # file in the lab's folder with the choice of `scmsim lab setup`
_DEPENDS = re.compile(rb"\0depends=([^\0]*)\0")
_MAGIC = b"HdrS"  # magic of a bzImage, at byte 514: Linux, Documentation/x86/boot.rst


@dataclass(frozen=True)
class Kernel:
    """A kernel that can be started."""

    image: str  # a bzImage
    modules: str = ""  # folder of its modules, or "" if everything needed is built in
    release: str = ""  # release, such as "6.1.0-56-cloud-amd64"; "" if unknown
    config: str = ""  # path of its configuration file, or ""

    def version(self) -> str:
        """Return the release, or the image's file name."""
        return self.release or pathlib.Path(self.image).name

    def settings(self) -> dict[str, str]:
        """Return {"CONFIG_FS_DAX": "y", ...}; empty without a configuration file."""
        if not self.config:
            return {}
        lines = pathlib.Path(self.config).read_text(encoding="utf-8", errors="replace").splitlines()
        return dict(line.split("=", 1) for line in lines if line.startswith("CONFIG_") and "=" in line)

    def check(self, dax: bool = True) -> None:
        """Raise EnvironmentProblem if the configuration shows that the lab cannot use the kernel (with `dax`: for DAX)."""
        settings = self.settings()
        needed = {**NEEDED, **({"CONFIG_FS_DAX": "DAX"} if dax else {})}
        for name, what in needed.items() if settings else ():
            if settings.get(name, "n") not in "ym":
                raise EnvironmentProblem(
                    f"the kernel {self.version()} was built without {name} ({what}); choose another: "
                    "scmsim lab setup --kernel FILE.deb"
                )


def chosen() -> Kernel | None:
    """Return the kernel that `scmsim lab setup` chose; None if there is none or its image is gone."""
    try:
        table = json.loads((cache.folder() / CHOSEN).read_text(encoding="utf-8"))
        kernel = Kernel(**table)
    except (OSError, ValueError, TypeError):
        return None
    return kernel if os.path.exists(kernel.image) else None


def choose(kernel: Kernel) -> None:
    """Store a kernel as the choice for later runs."""
    with whole(cache.folder() / CHOSEN) as draft:
        draft.write_text(json.dumps(dataclasses.asdict(kernel), indent=2), encoding="utf-8")


def find(package: str | None = None, image: str | None = None, modules: str | None = None) -> Kernel:
    """Return the kernel to use: a package, an image, the chosen one, or an installed one.

    Raises EnvironmentProblem if no kernel is found; UsageError if a given file is not a kernel or a package.
    """
    if package:
        return named(package)
    if image:
        return from_image(image, modules)
    kernel = chosen() or installed()
    if kernel is None:
        raise EnvironmentProblem("the lab has no kernel yet; run: scmsim lab setup --apply (or --kernel FILE.deb)")
    return kernel


def named(text: str) -> Kernel:
    """Return the kernel that a text names: FILE.deb, IMAGE[:MODULES], or the version or series ("6.12") of a kept kernel.

    A series names its newest kept kernel.  Raises UsageError if there is no such kernel, or a file is not a kernel or package.
    """
    image, _, modules = text.partition(":")
    if text.endswith(".deb"):
        return from_package(text)
    if pathlib.Path(image).is_file():
        return from_image(image, modules or None)
    known = kept()
    found = [each for each in known if debian.matches(text, each.release)]
    if not found:
        have = ", ".join(each.release for each in known) or "none"
        raise UsageError(
            f"no kernel {text!r}; the lab has: {have}; give FILE.deb, IMAGE[:MODULES], or run: "
            "scmsim lab setup --release VERSION --apply"
        )
    return max(found, key=lambda each: debian.order(each.release))


def kept() -> list[Kernel]:
    """Return the kernels of packages in the lab's folder, oldest version first."""
    found = [each for path in cache.folder().glob("kernel-*") if (each := _unpacked(path))]
    return sorted(found, key=lambda each: debian.order(each.release))


def lacks(kernel: Kernel, type: str, dax: bool) -> str:
    """Return the configuration option that a kernel lacks for a type of file system; "" if none or if it is unknown."""
    settings = kernel.settings()
    options = _OPTIONS.get(type, (f"CONFIG_{type.upper()}_FS",)) if settings else ()
    if options and not any(settings.get(name, "n") in "ym" for name in options):
        return options[0]
    return "CONFIG_FS_DAX" if dax and settings and settings.get("CONFIG_FS_DAX", "n") not in "ym" else ""


def fingerprint(kernel: Kernel, modules: Iterable[str]) -> str:
    """Return a digest of a kernel, its modules for persistent memory, and the named modules."""
    return cache.digest(
        pathlib.Path(kernel.image).read_bytes(), *module_files(kernel, (*PM_MODULES, *modules)).values()
    )


def from_image(image: str, modules: str | None = None) -> Kernel:
    """Return a bzImage as a kernel; `modules` is the folder of its modules (from `make modules_install`) if it needs any."""
    path = pathlib.Path(image)
    try:
        with path.open("rb") as file:
            head = file.read(1024)
    except OSError as error:
        raise UsageError(f"cannot read {image!r}: {(error.strerror or str(error)).lower()}") from None
    if head[514:518] != _MAGIC:
        raise UsageError(f"{image!r} is not a bzImage; give arch/x86/boot/bzImage of a built kernel")
    if modules and not pathlib.Path(modules).is_dir():
        raise UsageError(
            f"no folder {modules!r}; give the folder that holds the kernel's modules (lib/modules/RELEASE)"
        )
    release = pathlib.Path(modules).name if modules else ""
    return Kernel(str(path.absolute()), str(pathlib.Path(modules).absolute()) if modules else "", release)


def installed() -> Kernel | None:
    """Return the newest readable kernel in /boot that passes `Kernel.check`."""
    for image in sorted(pathlib.Path("/boot").glob("vmlinuz-*"), reverse=True):
        release = image.name.removeprefix("vmlinuz-")
        modules, config = pathlib.Path("/lib/modules") / release, pathlib.Path(f"/boot/config-{release}")
        if os.access(image, os.R_OK) and modules.is_dir() and config.exists():
            kernel = Kernel(str(image), str(modules), release, str(config))
            try:
                kernel.check()
            except EnvironmentProblem:
                continue
            return kernel
    return None


def from_package(package: str, *others: str) -> Kernel:
    """Unpack a Debian package, and the packages `others` of the same kernel, into the lab's folder; return the kernel.

    Nothing is installed.
    """
    path = pathlib.Path(package)
    if not path.is_file():
        raise UsageError(f"no file {package!r}; get one with: apt-get download linux-image-RELEASE")
    target = cache.folder() / f"kernel-{re.sub(r'[^A-Za-z0-9._+-]', '_', path.stem)[:80]}"
    if not target.is_dir():
        _unpack([path, *map(pathlib.Path, others)], target)
    found = _unpacked(target)
    if found is None:
        shutil.rmtree(target, ignore_errors=True)
        raise UsageError(
            f"{package!r} has no vmlinuz; give a linux-image package, or run scmsim lab setup --release VERSION"
        )
    return found


def _unpacked(target: pathlib.Path) -> Kernel | None:
    """Return the kernel of the package that was unpacked in `target`; None if it has no image."""
    image = next(iter(sorted([*target.glob("boot/vmlinuz-*"), *target.glob("usr/lib/modules/*/vmlinuz")])), None)
    if image is None:
        return None
    release = image.name.removeprefix("vmlinuz-") if image.name != "vmlinuz" else image.parent.name
    folders = [target / "lib/modules" / release, target / "usr/lib/modules" / release]
    modules = next((str(path) for path in folders if path.is_dir()), "")
    configs = [target / f"boot/config-{release}", image.parent / "config"]
    return Kernel(str(image), modules, release, next((str(path) for path in configs if path.exists()), ""))


def _unpack(packages: Sequence[pathlib.Path], target: pathlib.Path) -> None:
    """Unpack images, configuration and modules from packages into the target folder, all or nothing."""
    if not shutil.which("dpkg-deb"):
        raise EnvironmentProblem(
            "no program 'dpkg-deb' to open a Debian package; unpack the package and give --kernel-image and --modules"
        )
    scratch = pathlib.Path(tempfile.mkdtemp(dir=target.parent))
    try:
        for path in packages:
            _extract(path, scratch)
        os.replace(scratch, target)
    except OSError as error:
        names = ", ".join(repr(str(path)) for path in packages)
        raise EnvironmentProblem(f"cannot unpack {names}: {(error.strerror or str(error)).lower()}") from None
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _extract(path: pathlib.Path, scratch: pathlib.Path) -> None:
    made = subprocess.run(["dpkg-deb", "--fsys-tarfile", str(path)], capture_output=True, timeout=300)
    if made.returncode:
        raise UsageError(f"{str(path)!r} is not a Debian package: {made.stderr.decode(errors='replace').strip()[:200]}")
    with tarfile.open(fileobj=io.BytesIO(made.stdout)) as files:
        for file in files:  # extracted one by one: extractall() has a safe filter only since Python 3.11.4
            wanted = file.isfile() and re.search(r"/(boot|modules)/", file.name)
            content = files.extractfile(file) if wanted else None
            if content is not None:
                place = scratch / os.path.normpath(f"/{file.name}").lstrip("/")
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_bytes(content.read())


def module_files(kernel: Kernel, wanted: Iterable[str]) -> dict[str, bytes]:
    """Return the content of modules by name, each after its dependencies; omit modules that are built in or unknown.

    Raises EnvironmentProblem if a module cannot be decompressed on this machine.
    """
    if not kernel.modules:
        return {}
    known = {
        _name(path.name.split(".ko", 1)[0]): path
        for path in pathlib.Path(kernel.modules).rglob("*.ko*")
        if re.search(r"\.ko(\.\w+)?$", path.name)
    }
    found: dict[str, bytes] = {}

    def add(name: str) -> None:
        if name in found or name not in known:
            return
        content = _content(known[name])
        match = _DEPENDS.search(content)
        for other in match[1].decode("ascii", "replace").split(",") if match else ():
            add(_name(other))
        found[name] = content

    for name in wanted:
        add(_name(name))
    return found


def _name(name: str) -> str:
    return name.replace("-", "_")


def _content(path: pathlib.Path) -> bytes:
    content = path.read_bytes()
    if path.suffix == ".xz":
        return lzma.decompress(content)
    if path.suffix == ".zst":
        program = shutil.which("zstd")
        if program is None:
            raise EnvironmentProblem(f"{path.name} is compressed with zstd; run: apt-get install zstd")
        return subprocess.run([program, "-dcq"], input=content, capture_output=True, check=True, timeout=60).stdout
    return content
