"""Random histories of `synth churn` on a real kernel beside the models: the extents of every file, and free space.

Run: python -m tests.verification.churn_layouts [--fs ext4-dax,xfs-dax] [--seeds 201:301] [--kernel 6.1] -o FOLDER
     python -m tests.verification.churn_layouts --fs nova-cow --kernel IMAGE:MODULES -o FOLDER

The device, the options of mkfs and the history's size depend on a seed's last digit (`CONFIGURATIONS`).  The comparison is that of
`scmsim lab layout`, but up to five histories share a guest, each on a file system of its own, because most of a guest's time is its
start.  FOLDER keeps what the kernel did, so that the models can be compared again without it.

A file system that its mount makes (NOVA, PMFS, WineFS) always has the lab's whole device, 2 GiB.
"""

import argparse
import dataclasses
import pathlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from scmsim.cli.lab._guests import setting_with
from scmsim.core import registry
from scmsim.core.atomic import whole
from scmsim.core.records import WRITE
from scmsim.fs.engine.extents import FREE
from scmsim.lab import faults, kernel, layout, machine, qemu, systems
from scmsim.lab.job import Job
from scmsim.lab.measured import Measured
from scmsim.lab.plan import LAYOUT, OPERATION, REMAKE, Plan, Region, from_trace
from scmsim.lab.systems import System
from scmsim.pipeline import place
from scmsim.study.layout import judge
from scmsim.study.tlb.judge import taken_from
from scmsim.workload.churn import PAGE, Workload

_EACH = 5  # histories of a guest
_MIB = 1 << 20
_NS = {  # guest's ns per call and per written byte, fitted to `lab layout` of the seeds 101 to 113
    "ext4": (17500, 0.763),
    "xfs": (17300, 0.756),
    "ext2": (22700, 1.82),
}  # other file systems have no clock that places blocks
# With the page cache, dirty pages are stored only where a history or the file system asks for it (Linux 5.8 and later).
_NO_WRITE_BACK = tuple(
    f"sysctl.vm.{name}={value}"
    for name, value in {"dirty_ratio": 99, "dirty_background_ratio": 98, "dirty_writeback_centisecs": 0}.items()
)
_OF_MOUNT = ("nova", "pmfs", "winefs")  # models of file systems that have no mkfs
_SMALLEST_XFS = 320  # MiB; mkfs.xfs refuses less than 300


class Configuration(NamedTuple):
    """Conditions of a history: a name, arguments of `synth churn`, the device's MiB, groups of XFS, MiB of ext4's journal."""

    name: str
    churn: dict[str, int] = {}
    mib: int = 2048
    groups: int = 0
    journal: int = 0


_DEFAULT = Configuration("default")
CONFIGURATIONS = {  # last digit of the seed; the others have the default
    0: Configuration("mkfs options", {}, 2048, 8, 16),
    5: Configuration("80 % full", {"fill": 80, "unit": 16 * _MIB}),
    6: Configuration("3,000 calls, 120 files", {"operations": 3000, "files": 120, "dirs": 12}),
    7: Configuration("256 MiB", {"device": 256 * _MIB}, 256),
    8: Configuration("512 MiB, 60 % full", {"device": 512 * _MIB, "fill": 60}, 512),
    9: Configuration("1 GiB, 40 % full", {"device": 1024 * _MIB, "fill": 40}, 1024),
}


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--fs", default="ext4-dax,xfs-dax,ext2-dax")
    parser.add_argument("--seeds", default="201:301", help="FIRST:END[:STEP]")
    parser.add_argument("--kernel", default="6.1", help="a kernel, as `scmsim lab run --kernel` takes it")
    parser.add_argument("--judge-only", action="store_true", help="run no guest; leave out histories that were not run")
    parser.add_argument("-o", "--output", type=pathlib.Path, required=True)
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    seeds = range(*map(int, options.seeds.split(":")))
    for fs in options.fs.split(","):
        if not options.judge_only:
            _measure(fs, seeds, options)
        cells = [
            (seed, _judge(fs, seed, options))
            for seed in seeds
            if _stored(options.output, fs, seed, version(options.kernel)).exists()
        ]
        for seed, cell in cells:
            if not whole_history(cell):
                print(f"{fs} {seed} ({configuration(seed).name}): {_told(cell)}", flush=True)
        _table(fs, cells)


def version(named: str) -> str:
    """Return the version of a kernel: that of its modules' folder for IMAGE:MODULES, else its name."""
    return pathlib.Path(named.partition(":")[2]).name or named


def configuration(seed: int) -> Configuration:
    """Return the conditions of a seed's history."""
    return CONFIGURATIONS.get(seed % 10, _DEFAULT)


def history(fs: str, seed: int) -> Any:
    """Return a seed's history; ext2 has neither fallocate nor holes, and PMFS gives a reserved file larger data blocks."""
    return Workload(**configuration(seed).churn, reserve=int(not fs.startswith(("ext2", "pmfs"))), seed=seed)


def on_device(system: System, seed: int, is_old: bool = False) -> System:
    """Return a file system of the lab with the device and the options of a seed.

    ext4 reads the bitmaps of all groups at a random time in the first five seconds after a mount, which changes the groups that it
    searches.  In the guests here it does not, so that a history repeats; an old kernel (5.10) has no such thread.
    """
    its, options = configuration(seed), system.options
    words = list(system.mkfs)
    if system.type == "xfs":
        groups = [f"agcount={its.groups}"] if its.groups else []
        words[-1:] = ["-d", ",".join([f"size={_mib(system.type, its)}m", *groups]), "DEVICE"]
    elif system.type in ("ext2", "ext4"):
        journal = ["-J", f"size={its.journal}"] if its.journal and system.type == "ext4" else []
        words[-1:] = [*journal, "DEVICE", str(its.mib << 8)]
        if not is_old:
            options = ",".join(filter(None, (system.options, "no_prefetch_block_bitmaps")))
    return dataclasses.replace(system, mkfs=tuple(words), options=options)


def parameters(fs: str, seed: int) -> dict[str, str]:
    """Return the parameters of a model for the device and the options of a seed."""
    its = configuration(seed)
    if fs.startswith(_OF_MOUNT):
        cpus = {"cpus": "8", "journal": "4MiB"} if fs.startswith("winefs") else {}
        return {"capacity": f"{qemu.PM_BYTES >> 20}MiB", **cpus}
    found = {"capacity": f"{_mib(fs[:3], its)}MiB"}
    if its.groups and fs.startswith("xfs"):
        found["allocation_groups"] = str(its.groups)
    if its.journal and fs.startswith("ext4"):
        found["journal"] = f"{its.journal}MiB"
    return found


def joined(plans: Sequence[Plan]) -> Plan:
    """Return a plan that runs several, each on a file system of its own; the k-th one's extents have the tag k.

    The numbers of a plan's files and regions begin after those of the plans before it.
    """
    files, operations, first = [], [], 0
    regions: list[Region] = []
    for k, plan in enumerate(plans):
        its, calls = plan.files.copy(), plan.operations.copy()
        its["parent"][its["parent"] >= 0] += first
        for name in ("file", "file2"):
            calls[name][calls[name] >= 0] += first
        calls["region"][calls["region"] > 0] += len(regions)
        calls["buffer"][calls["op"] == LAYOUT] = k
        if k:
            remake = np.zeros(1, OPERATION)
            remake["op"], remake["file"], remake["file2"] = REMAKE, first, len(its)
            operations.append(remake)
        files.append(its)
        operations.append(calls)
        regions += plan.regions
        first += len(its)
    return Plan(np.concatenate(files), np.concatenate(operations), regions)


def whole_history(cell: dict[str, Any]) -> bool:
    """Return whether every extent and every free extent of a comparison, or the number of free bytes, is equal."""
    free = cell.get("free_bytes", (0, 0))
    return free[0] == free[1] and all(
        cell["equal"][name] == cell["real"][name] == cell["model"][name] for name in ("extents", "free_extents")
    )


def _mib(kind: str, its: Configuration) -> int:
    return max(its.mib, _SMALLEST_XFS) if kind == "xfs" else its.mib


def _stored(folder: pathlib.Path, fs: str, seed: int, version: str) -> pathlib.Path:
    return folder / f"{fs}-{version}-{seed}.npz"


def _measure(fs: str, seeds: range, options: argparse.Namespace) -> None:
    """Run the histories that the folder lacks; those with equal mkfs share guests."""
    system = systems.load(None)[fs]
    found = kernel.find(options.kernel, None, None)
    setting = setting_with(found, Job((fs,), "", cpus=system.cpus, layout=True), system.dax)
    if not system.dax and not fs.startswith(_OF_MOUNT):
        setting = dataclasses.replace(setting, words=_NO_WRITE_BACK)
    parts: dict[System, list[int]] = {}
    for seed in seeds:
        if not _stored(options.output, fs, seed, version(options.kernel)).exists():
            parts.setdefault(on_device(system, seed, options.kernel == "5.10"), []).append(seed)
    longest = max(map(len, parts.values()), default=0)
    for at in range(0, longest, _EACH):  # in turn, so that a stopped run has some of each
        for its, missing in parts.items():
            part = missing[at : at + _EACH]
            if part:
                _run_part(fs, part, setting, its, options)


def _run_part(fs: str, part: list[int], setting: machine.Setting, system: System, options: argparse.Namespace) -> None:
    """Run histories in one guest, or each in its own if the kernel dies, which WineFS's driver does in some of them."""
    plans = [from_trace(history(fs, seed), system.cpus, layout=True) for seed in part]
    try:
        _keep(fs, part, plans, run(setting, system, joined(plans)), system, options)
    except machine.Failed as error:
        if len(part) == 1:
            print(f"{fs} {part[0]}: {error}", flush=True)
            return
        for seed in part:
            _run_part(fs, [seed], setting, system, options)


def run(setting: machine.Setting, system: System, plan: Plan) -> np.ndarray:
    """Run a guest that counts nothing; return the extents that it reported.

    Without the counting plugin the emulator is several times as fast, and the guest's clock is the same.
    """
    setup, image = machine.prepared(setting.kernel, system)
    job = plan.packed(setup)
    with machine.scratch() as folder:
        machine.boot(folder, setting, system.name, job, image, [])
        _, values, raw = machine.report(folder, machine.output_at(job), faults.MOST)
    if values[4]:
        print(f"{system.name}: {values[4]} calls failed in a guest")
    return faults.read(raw)[1]


def _keep(fs: str, part: list[int], plans: list[Plan], every: np.ndarray, system: System, options: Any) -> None:
    """Store the extents of each history."""
    first = 0
    for k, (seed, its) in enumerate(zip(part, plans, strict=True)):
        mine = every[every["tag"] == k].copy()
        mine["file"][mine["file"] != layout._FREE] -= first
        measured = Measured(np.zeros(0), b"", {}, 0.0, extents=mine)
        with whole(_stored(options.output, fs, seed, version(options.kernel))) as draft, draft.open("wb") as file:
            free = layout.free_bytes(measured)
            clock = took(fs, history(fs, seed))
            np.savez(file, extents=layout.extents(measured, system), took=clock, free=-1 if free is None else free)
        first += len(its.files)


def took(fs: str, source: Any) -> int:
    """Return about how many ns, one per instruction, a guest needs for a history."""
    rows = np.concatenate([batch.view(np.ndarray) for batch in source.batches()])
    per_call, per_byte = _NS.get(fs.partition("-")[0], (0, 0))
    return int(per_call * len(rows) + per_byte * rows["length"][rows["op"] == WRITE].sum())


def of_model(fs: str, seed: int, took: int, version: str = "6.1") -> np.ndarray:
    """Return the extents of a seed's history on a model of a kernel's version; the guest took `took` ns for it."""
    return _extents(fs, model_after(fs, seed, took, version))


def model_after(fs: str, seed: int, took: int, version: str) -> Any:
    """Return the model after a seed's history."""
    source, known = history(fs, seed), registry.literals("fs", fs)["PARAMS"]
    given = judge.by_the_guests_clock(source, {"instructions": took}, known) | parameters(fs, seed)
    _, model = place(judge.Synced(source), fs, taken_from(f"{version}.0", [fs], {fs: given}, None).params[fs], None)
    return model


def _extents(fs: str, model: Any) -> np.ndarray:
    found = model.extents()
    assert found is not None, fs
    if fs.startswith("nova"):
        found = _mapped(found, model.module.by_file(model.state))
    elif fs.startswith(_OF_MOUNT):  # whose kernel does not report the places of free space
        found = found[found["file"] != FREE]
    return layout.in_order(found)


def _mapped(found: np.ndarray, by_file: dict[str, np.ndarray]) -> np.ndarray:
    """Return what a mapping of each file shows: no free space, and no pages after the file's end."""
    pages = np.zeros(found["file"].max(initial=0) + 1, np.int64)
    own = by_file["file"] < len(pages)
    pages[by_file["file"][own]] = -(-by_file["file_bytes"][own] // PAGE) * PAGE
    found = found[found["file"] != FREE]
    found["length"] = np.minimum(found["length"], pages[found["file"]] - found["logical"])
    return found[found["length"] > 0]


def _judge(fs: str, seed: int, options: argparse.Namespace) -> dict[str, Any]:
    stored = np.load(_stored(options.output, fs, seed, version(options.kernel)))
    model = model_after(fs, seed, int(stored["took"]), version(options.kernel))
    cell = judge.compared(stored["extents"], _extents(fs, model), history(fs, seed).files)
    if fs.startswith("nova") and stored.get("free", -1) >= 0:
        cell["free_bytes"] = int(stored["free"]), model.space()["free_bytes"]
    return cell


def _told(cell: dict[str, Any]) -> str:
    names = {"extents": "extents", "mappable_2m": "mappable", "free_extents": "free"}
    parts = [
        f"{cell['equal'][name]} of {cell['real'][name]} {label} ({cell['model'][name]} in the model)"
        for name, label in names.items()
    ]
    if "free_bytes" in cell:
        real, model = cell["free_bytes"]
        parts[-1] = f"{real >> 12} free blocks ({model >> 12} in the model)"
    return ", ".join(parts)


def _table(fs: str, cells: list[tuple[int, dict[str, Any]]]) -> None:
    """Print the sums, by configuration and in all."""
    print(
        "| file system | histories of | histories | equal | mappable 2 MiB equal | extents | equal |\n|---|---|---|---|---|---|---|"
    )
    names = dict.fromkeys(configuration(seed).name for seed, _ in cells)
    for name in [*names, "all"]:
        some = [cell for seed, cell in cells if name in ("all", configuration(seed).name)]
        mapped = sum(
            cell["equal"]["mappable_2m"] == cell["real"]["mappable_2m"] == cell["model"]["mappable_2m"] for cell in some
        )
        counts = [
            len(some),
            sum(map(whole_history, some)),
            mapped,
            sum(cell["real"]["extents"] for cell in some),
            sum(cell["equal"]["extents"] for cell in some),
        ]
        print(f"| {fs} | {name} | " + " | ".join(map(str, counts)) + " |", flush=True)


if __name__ == "__main__":
    main()
