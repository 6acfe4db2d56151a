"""Does `scmsim lab crash` find a write-back that a module's code lacks?  The pmem driver of the lab's kernel is built twice.

    python -m tests.verification.faulty_module FOLDER [--fs ext4-dax] [--states 300]

Headers and source of exactly the lab's kernel come from Debian's packages, which apt downloads into FOLDER (150 MB; nothing is
installed, FOLDER is used again).  The module is built as it is, and with memcpy() in the place of memcpy_flushcache() in
write_pmem(), which every block write passes.  Exit code 0: the first has no finding and the second has one; 1: not so; 77: it
cannot be tried here, and why.
"""

import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys

from scmsim.core.errors import ScmsimError
from scmsim.lab import kernel

MODULE, SOURCE = "nd_pmem", "drivers/nvdimm"
RIGHT, WRONG = "memcpy_flushcache(pmem_addr, mem + off, chunk)", "memcpy(pmem_addr, mem + off, chunk)"
TRACE = pathlib.Path(__file__).parent / "data/crash/append.csv"
SKIPPED = 77


class Skip(Exception):
    """Why it cannot be tried here."""


def run(*command: object, cwd: pathlib.Path) -> None:
    """Run a command; Skip with its last line if it fails."""
    words = [str(word) for word in command]
    if not shutil.which(words[0]):
        raise Skip(f"no program {words[0]!r}")
    done = subprocess.run(words, cwd=cwd, capture_output=True, text=True)
    if done.returncode:
        said = (done.stderr.strip() or done.stdout.strip() or "it says nothing").splitlines()[-1]
        raise Skip(f"{' '.join(words[:2])} failed: {said}")


def unpacked(folder: pathlib.Path, found: kernel.Kernel) -> tuple[pathlib.Path, pathlib.Path]:
    """Headers of a kernel and its driver's source, below a folder."""
    version = re.search(rb"#\d+ [^\0]*Debian (\S+) \(", pathlib.Path(found.image).read_bytes())
    parts = re.fullmatch(r"((\d+\.\d+)[\w.+]*-\d+)(-\w+)+", found.release)
    if not version or not parts:
        raise Skip(f"{found.image!r} is not a kernel of a Debian package")
    root, base, series = folder / "root", parts[1], parts[2]
    headers = f"linux-headers-{found.release}"
    for name in (headers, f"linux-headers-{base}-common", f"linux-kbuild-{series}", f"linux-source-{series}"):
        if not list(folder.glob(f"{name}_*.deb")):
            run("apt-get", "download", f"{name}={version[1].decode()}", cwd=folder)
        run("dpkg", "-x", next(folder.glob(f"{name}_*.deb")), root, cwd=folder)
    tree, place = f"linux-source-{series}", root / "usr/src"
    run("tar", "-xf", place / f"{tree}.tar.xz", "-C", root, f"{tree}/{SOURCE}", cwd=folder)
    makefile = place / headers / "Makefile"
    makefile.write_text(makefile.read_text().replace(" /usr/src", f" {place}"))
    return place / headers, root / tree / SOURCE


def built(folder: pathlib.Path, headers: pathlib.Path, source: pathlib.Path, line: str) -> pathlib.Path:
    """The module with a line in the place of RIGHT."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(source, folder)
    text = (source / "pmem.c").read_text()
    if text.count(RIGHT) != 1:
        raise Skip(f"pmem.c of this kernel has no {RIGHT!r}")
    (folder / "pmem.c").write_text(text.replace(RIGHT, line))
    (folder / "Makefile").write_text(f"obj-m := {MODULE}.o\n{MODULE}-y := pmem.o\n")
    run("make", "-C", headers, f"M={folder}", "modules", "CC=gcc", cwd=folder)
    return folder / f"{MODULE}.ko"


def linked(modules: str, folder: pathlib.Path, module: pathlib.Path) -> pathlib.Path:
    """The kernel's modules, linked into a folder, with one of them replaced."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(modules, folder, copy_function=os.symlink)
    for old in folder.rglob(f"{MODULE}.ko*"):
        old.unlink()
        shutil.copy(module, old.with_name(module.name))
    return folder


def main() -> int:
    """See the top of this file."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--fs", default="ext4-dax")
    parser.add_argument("--states", default="300")
    given = parser.parse_args()
    folder = given.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    trace, codes = folder / "append.parquet", []
    scmsim = (sys.executable, "-m", "scmsim")
    try:
        found = kernel.find()
        headers, source = unpacked(folder, found)
        run(*scmsim, "trace", "convert", TRACE, trace, cwd=pathlib.Path.cwd())
        for name, line in (("right", RIGHT), ("wrong", WRONG)):
            module = built(folder / name, headers, source, line)
            modules = linked(found.modules, folder / f"modules-{name}", module)
            print(f"\n{MODULE} with {line}", flush=True)
            check = (
                "--fs",
                given.fs,
                "--states",
                given.states,
                "--kernel-image",
                found.image,
                "--modules",
                str(modules),
            )
            codes.append(subprocess.run([*scmsim, "lab", "crash", str(trace), *check]).returncode)
    except (Skip, ScmsimError) as why:
        print(f"skipped: {why}", file=sys.stderr)
        return SKIPPED
    return int(codes != [0, 1])


if __name__ == "__main__":
    sys.exit(main())
