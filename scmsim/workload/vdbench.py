"""vdbench's parameter files: directories and files (fsd, fwd), or large files in place of devices (sd, wd).

Source: vdbench 5.04.06 (FileAnchor, Directory, FwgThread, Op*, ActiveFile, WG_entry), checked with strace of a build.  vdbench
seeds most of its random numbers by the clock: there the trace uses random numbers from `seed`.
"""

from collections.abc import Iterator
from dataclasses import replace
from itertools import product

import numpy as np

from scmsim.core.errors import UsageError, unknown
from scmsim.workload import _stream
from scmsim.workload._vdbench import Entry, Parameters, loops, read
from scmsim.workload._vdbench_devices import Devices
from scmsim.workload._vdbench_files import Run, Tree

SUMMARY = "vdbench: reads a parameter file (fsd, fwd, rd; or sd, wd, rd) and runs its operations"
PARAMS = {
    "file": ("", "file", "parameter file"),
    "operations": (
        "0",
        "operations",
        "operations of all threads in each run; 0: each run must end by itself or by maxdata",
    ),
    "set": ("", "text", "values of the file's $variables, such as 'dir=/mnt files=100'"),
    "seed": ("1", "seed", "seed of vdbench's random choices"),
    "interval": ("1us", "time", "trace time between two calls"),
}
_FORMATS = ("yes", "no", "only", "restart", "directories", "once", "clean", "complete")


class Workload(_stream.Stream):
    """Stream of vdbench's operations (a records.Source); see PARAMS.

    Raises UsageError for a file that cannot be read, or a parameter that is not modelled; all mistakes are named.
    """

    @_stream.declared(PARAMS)
    def __init__(self, p: _stream.Params) -> None:
        if not p.file:
            raise UsageError("give a parameter file, such as vdbench's examples/filesys/random_read")
        p.at_least(0, "operations", "seed")
        self.parameters = read(p.file, dict(word.partition("=")[::2] for word in p.set.split()))
        self.operations, self.seed = p.operations, p.seed
        self.runs = [one for each in self.parameters.entries["rd"] for one in _expanded(self.parameters, each)]
        self.of_files = bool(self.parameters.entries["fsd"])
        for run, _, workloads in self.runs:
            _check_end(run, workloads, p.operations)
        self.files = (Tree(self.parameters, self.runs, p.seed) if self.of_files else Devices(self.parameters)).table()
        self.header["notes"] = [
            "vdbench draws by the clock: random choices here are those of the seed, and threads take turns"
        ]
        if silent := list(dict.fromkeys(self.parameters.silent)):
            self.header["notes"].append(f"parameters that change no call: {', '.join(silent)}")

    def pieces(self) -> Iterator[np.ndarray]:
        """Return the rows of the runs in order."""
        return _stream.in_pieces(self._of_files() if self.of_files else self._of_devices())

    def _of_files(self) -> Iterator[tuple[int, ...]]:
        tree = Tree(self.parameters, self.runs, self.seed)
        random = np.random.default_rng([self.seed, 1])
        for run, formats, workloads in self.runs:
            if formats:
                yield from tree.formatted(run, self.parameters.entries["fwd"][-1], workloads)
            if not _formats_only(run):
                yield from Run(tree, run, workloads, self.operations, random).rows()

    def _of_devices(self) -> Iterator[tuple[int, ...]]:
        devices, random = Devices(self.parameters), np.random.default_rng([self.seed, 1])
        for run, _, workloads in self.runs:
            yield from devices.rows(run, workloads, self.operations, random)


def _expanded(parameters: Parameters, run: Entry) -> Iterator[tuple[Entry, bool, list[Entry]]]:
    """Yield (run, whether it formats, its workloads) for each combination of the values it loops over."""
    kind = "fwd" if parameters.entries["fsd"] else "wd"
    workloads = [each for each in parameters.named(kind, run[kind]) if each.name != "format"]
    looped = loops(run)
    _check_format(run)
    formats = not any("no".startswith(word) for word in run["format"])
    for number, values in enumerate(product(*looped.values())):
        changed = dict(zip(looped, values, strict=True))
        once = formats and (number == 0 or "once" not in run["format"])
        yield run, once, [replace(each, values={**each.values, **changed}) for each in workloads]


def _check_format(run: Entry) -> None:
    """Raise UsageError for an unknown word of `format`."""
    for word in run["format"]:
        if not any(known.startswith(word) for known in _FORMATS):
            raise UsageError(f"{run.at}: {unknown('modelled word of format', word[:40], _FORMATS)}")


def _formats_only(run: Entry) -> bool:
    return "only" in run["format"] or "clean" in run["format"]


def _check_end(run: Entry, workloads: list[Entry], operations: int) -> None:
    """Raise UsageError for a run that only the clock would end."""
    if operations or run["maxdata"] or _formats_only(run):
        return
    for each in workloads:
        if each.kind == "wd" and each["seekpct"] != "eof":
            raise UsageError(
                f"{run.at}: {_ADD.format(run.name[:40])}, maxdata= to the run, or seekpct=eof to the workload"
            )
        if each.kind == "fwd" and each["operation"] not in ("create", "delete") and "once" not in each["fileselect"]:
            raise UsageError(
                f"{run.at}: {_ADD.format(run.name[:40])}, maxdata= to the run, or fileselect=once to the workload"
            )


_ADD = "run {!r} ends by time, and a trace has no clock; add --operations 100000"
