"""Define a job (file systems, the plan that they run, repeats) and read its file."""

import functools
import pathlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from scmsim.core import toml
from scmsim.core.errors import UsageError, unknown
from scmsim.core.schema import flag, one_of, quoted, several, size, table, whole
from scmsim.core.units import parse_time
from scmsim.lab import plan
from scmsim.lab.plan import PASSES, Plan

_JOBS = pathlib.Path(__file__).parent / "jobs"
_MAX_UNIT, _MAX_TOTAL = 1 << 26, 1 << 30
_MAX_NAMES = 100_000
_MAX_CPUS = 64  # CPUS of calls.h


@dataclass(frozen=True)
class Job:
    """A job with checked fields, sizes in bytes; `plan.microbench` explains `units`, `total`, `passes` and `names`."""

    fs: tuple[str, ...]
    trace: str = ""
    units: tuple[int, ...] = ()  # empty if a trace is run
    total: int = 16 << 20
    passes: tuple[str, ...] = PASSES
    names: int = 0
    repeats: int = 1
    timeout_s: float = 1800.0
    erms: bool = True  # whether the guest's CPU reports a fast rep movsb
    cpus: int = 1  # number of the guest's CPUs; thread k of a trace runs on CPU k modulo this number
    layout: bool = False  # whether each guest reports where a trace's files and free space are at the end
    summary: str = ""

    def plan(self) -> Plan:
        """Return the plan that each guest runs."""
        if self.trace:
            from scmsim.trace import open_trace

            return plan.from_trace(open_trace(self.trace), self.cpus, self.layout, whole_paths=not self.layout)
        return plan.microbench(self.units, self.total, self.passes, self.names)


def names() -> list[str]:
    """Return the names of the bundled jobs."""
    return sorted(path.stem for path in _JOBS.glob("*.toml"))


def load(text: str, given: Mapping[str, Any]) -> Job:
    """Return a job from a .toml file, a bundled job by its name (see `names`), or a stored trace.

    `given` has the fields from the command line, which override the file's; a field that was not given is None.
    Raises UsageError if the file cannot be read, or has mistakes (the message lists them all).
    """
    values = {key: value for key, value in given.items() if value is not None}
    path = pathlib.Path(text)
    if text in names() and not path.is_file():
        path = _JOBS / f"{text}.toml"
    if path.suffix != ".toml":
        if not path.exists() and not path.suffix and len(path.parts) == 1:
            raise unknown("job", text, names())
        return Job(**{"fs": ("ext4-dax",), **values, "trace": text})
    return Job(**{**toml.load(path, functools.partial(_read, path.parent)), **values})


def _read(folder: pathlib.Path, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of the Job in a file; the path of a trace is relative to the job file's folder."""
    found = _JOB(given)
    values = {**found.pop("microbench", {}), **found.pop("run", {}), **found}
    if "timeout" in values:
        values["timeout_s"] = values.pop("timeout")
    if values.get("trace"):
        values["trace"] = str(folder / values["trace"])
    if bool(values.get("trace")) == bool(values.get("units")):
        raise UsageError("give either trace, or units in [microbench]")
    return values


def systems_of(value: Any) -> tuple[str, ...]:
    """Return the names of file systems in a list or in "ext4-dax,tmpfs"."""
    return _SYSTEMS(value.split(",") if isinstance(value, str) else value)


def units_of(value: Any) -> tuple[int, ...]:
    """Return the bytes per call in a list or in "1KiB,4KiB"."""
    return _UNITS(value.split(",") if isinstance(value, str) else value)


def _name(value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise UsageError(f"must be the name of a file system, not {quoted(value)}")
    return value.strip()


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value.isprintable():
        raise UsageError(f"must be text, not {quoted(value)}")
    return value


_SYSTEMS = several(_name, 'must be a list of file systems like ["ext4-dax", "tmpfs"]')
_UNITS = several(size(1, _MAX_UNIT), 'must be a list of sizes like ["1KiB", "64KiB"]')
_JOB = table(
    {
        "summary": _text,
        "fs": systems_of,
        "trace": _text,
        "microbench": table(
            {
                "units": units_of,
                "total": size(1, _MAX_TOTAL),
                "passes": several(one_of("pass", PASSES)),
                "names": whole(0, _MAX_NAMES),
            }
        ),
        "run": table(
            {
                "repeats": whole(1, 1000),
                "timeout": lambda value: parse_time(value) / 1e9,
                "erms": flag,
                "cpus": whole(1, _MAX_CPUS),
            }
        ),
    },
    {"fs": f'give a list like ["ext4-dax"], see {_JOBS.name}/transfers.toml'},
)
