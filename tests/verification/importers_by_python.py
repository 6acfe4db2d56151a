"""Rows of each importer on the samples, for every Python on this machine: the regular expressions of some are defective.

python -m tests.verification.importers_by_python        # prints a table
"""

import contextlib
import glob
import hashlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import sysconfig
import tempfile

ROOT = pathlib.Path(__file__).parents[2]
SAMPLES = ("tests/data/formats", "tests/data/strace")
OPTIONS = {
    "table.csv": {"columns": "time=ts,op=type,offset=off,length=len,file=name,thread=cpu"},
    "drmemtrace.txt": {"calls": str(ROOT / "tests/data/formats/drmemtrace.strace")},
}
Found = dict[str, dict[str, object]]


def measure() -> Found:
    """What this Python makes of each sample: format, rows, lines not understood, a digest of rows, files and notes."""
    from scmsim.core import registry
    from scmsim.trace import TraceWriter, open_trace
    from scmsim.trace.formats import find

    out: Found = {}
    with tempfile.TemporaryDirectory() as folder:
        for path in sorted(path for place in SAMPLES for path in (ROOT / place).iterdir() if path.is_file()):
            options = OPTIONS.get(path.name, {})
            name, importer = ("csv", registry.load("format", "csv")) if "columns" in options else find(path)
            trace = pathlib.Path(folder) / "t.parquet"
            with TraceWriter(trace, {}) as writer:
                report = importer.convert(path, writer, **options)
            digest, read = hashlib.sha256(), open_trace(trace)
            for batch in read.batches():
                digest.update(batch.tobytes())
            told = (read.files.path, read.files.first_size.tolist(), read.files.is_dir.tolist(), report.as_dict())
            digest.update(json.dumps(told).encode())
            out[path.name] = {"format": name, "rows": report.rows, "bad": report.bad, "digest": digest.hexdigest()}
    for path in sorted((ROOT / "traces").glob("*.parquet")):
        stored = open_trace(path)
        digest = hashlib.sha256(b"".join(batch.tobytes() for batch in stored.batches()))
        bad = stored.header["bad_lines"]["count"]
        out[path.name] = {"format": "(stored)", "rows": stored.rows, "bad": bad, "digest": digest.hexdigest()}
    return out


def interpreters() -> list[str]:
    """Every Python 3.11 or newer: this one, Debian's, those on PATH, those of pyenv."""
    pyenv = sorted(glob.glob(os.path.expanduser("~/.pyenv/versions/3.*/bin/python")))
    on_path = [found for minor in range(11, 20) if (found := shutil.which(f"python3.{minor}"))]
    out: dict[str, str] = {}
    for path in (sys.executable, "/usr/bin/python3", *on_path, *pyenv):
        with contextlib.suppress(OSError):
            code = "import sys; print(sys.version.split()[0], sys.version_info >= (3, 11))"
            told = subprocess.run([path, "-c", code], capture_output=True, text=True, check=False).stdout.split()
            if told[1:] == ["True"]:
                out.setdefault(told[0], path)
    return list(out.values())


def measured(python: str) -> tuple[str, Found | str]:
    """Version of an interpreter, and what it makes of the samples, or why it cannot: this one's packages are lent to it."""
    version = subprocess.run([python, "-V"], capture_output=True, text=True, check=True).stdout.split()[1]
    path = os.pathsep.join((str(ROOT), sysconfig.get_path("purelib")))
    env = {**os.environ, "PYTHONPATH": path, "NUMBA_DISABLE_JIT": "1"}
    usable = subprocess.run([python, "-c", "import numpy, pyarrow, numba"], env=env, capture_output=True, check=False)
    if usable.returncode:
        return version, "NumPy, pyarrow or numba cannot be loaded"
    argv = [python, __file__, "--measure"]
    return version, json.loads(subprocess.run(argv, env=env, capture_output=True, text=True, check=True).stdout)


def main() -> None:
    """Print the table."""
    told = [measured(python) for python in interpreters()]
    columns = {version: found for version, found in told if not isinstance(found, str)}
    print(f"| sample | format | {' | '.join(f'rows, {version}' for version in columns)} |")
    print("|" + "---|" * (2 + len(columns)))
    for name, one in next(iter(columns.values())).items():
        cells = (f"{found[name]['rows']:,} ({found[name]['bad']} bad)" for found in columns.values())
        print(f"| `{name}` | {one['format']} | {' | '.join(cells)} |")
    for version, found in told:
        if isinstance(found, str):
            print(f"\nnot tried: {version}: {found}")


if __name__ == "__main__":
    if sys.argv[1:] == ["--measure"]:
        print(json.dumps(measure()))
    else:
        main()
