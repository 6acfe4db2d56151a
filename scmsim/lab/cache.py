"""Manage the lab's cache folder of programs and kernels, and compile the lab's programs."""

import hashlib
import os
import pathlib
import shutil
import subprocess
import tempfile
from collections.abc import Sequence

from scmsim.core import private
from scmsim.core.errors import EnvironmentProblem

HERE = pathlib.Path(__file__).parent
_COMPILERS = ("cc", "gcc", "clang")


def folder() -> pathlib.Path:
    """Return the lab's folder in the user's cache, made if missing; raises EnvironmentProblem if it cannot be written."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    path = pathlib.Path(base) / "scmsim" / "lab"
    try:
        private.make(path)
    except OSError as error:
        raise EnvironmentProblem(
            f"cannot make {str(path)!r}: {(error.strerror or str(error)).lower()}; set XDG_CACHE_HOME to a folder"
        ) from None
    if fault := private.fault(path):
        raise EnvironmentProblem(
            f"the lab runs no program from {str(path)!r}: {fault}; set XDG_CACHE_HOME to a folder of yours"
        )
    return path


def compiler() -> str | None:
    """Return the path of a C compiler, None if none is found."""
    return next((path for path in map(shutil.which, _COMPILERS) if path), None)


def digest(*parts: bytes | str) -> str:
    """Return twelve hexadecimal digits that identify a build from these parts."""
    found = hashlib.sha256()
    for part in parts:
        found.update(part.encode() if isinstance(part, str) else part)
        found.update(b"\0")
    return found.hexdigest()[:12]


def plugin(api: int, name: str = "plugin") -> pathlib.Path:
    """Return the path of the plugin `name` for version `api` of QEMU's plugin API, compiled at first use.

    The plugin "persistence" records the stores to persistent memory.
    """
    sources = [f"{name}.c", "tcg.c", "calls.c", "opcodes.c"]
    return _compiled(f"{name}-v{api}", sources, ["-fPIC", "-shared", f"-DQEMU_API_VERSION={api}"], ".so")


def guest() -> pathlib.Path:
    """Return the path of the guest's program, compiled at first use."""
    parts = ("operations", "layout", "trees", "mapped", "pagetable", "crash", "threads")
    return _compiled("guest", ["guest.c", *(f"guest_{part}.c" for part in parts)], ["-static"], "")


def _compiled(name: str, sources: Sequence[str], options: Sequence[str], suffix: str) -> pathlib.Path:
    texts = [path.read_bytes() for path in sorted(HERE.glob("*.[ch]"))]
    path = folder() / f"{name}-{digest(*texts, *options)}{suffix}"
    if path.exists():
        return path
    program = compiler()
    if program is None:
        raise EnvironmentProblem(f"no C compiler ({', '.join(_COMPILERS)}); run: apt-get install gcc libc6-dev")
    with tempfile.TemporaryDirectory(dir=path.parent) as scratch:
        made = os.path.join(scratch, "made")
        files = [str(HERE / source) for source in sources]
        command = [program, "-O2", *options, "-o", made, *files]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300)
        if done.returncode:
            said = next((line for line in done.stderr.splitlines() if "error" in line), done.stderr.strip()[:200])
            raise EnvironmentProblem(f"{program} could not build the lab's {sources[0]}: {said}; is libc6-dev there?")
        os.replace(made, path)
    return path
