"""Aged devices (`synth ageing`) on a real kernel beside a model: extents, free space by length of its runs, mappable 2 MiB.

Run: python -m tests.verification.aged_layouts [--fs ext4-dax] [--seeds 1:11] [--capacity 2048] [--turnover 4] -o FOLDER

The device has 2 GiB.  FOLDER keeps what the kernel did, so that the model can be compared again without it (--judge-only).
`--commit SECONDS` changes the commit interval on both sides: in the seconds of a long one no timer commits, so the blocks do not
depend on the guest's clock.
"""

import argparse
import dataclasses
import pathlib
from typing import Any

import numpy as np

from scmsim.alloc import contiguity
from scmsim.cli.lab._guests import setting_with
from scmsim.core import registry
from scmsim.core.atomic import whole
from scmsim.fs.engine.extents import FREE
from scmsim.lab import kernel, layout, systems
from scmsim.lab.job import Job
from scmsim.lab.measured import Measured
from scmsim.lab.plan import from_trace
from scmsim.study.layout import judge
from scmsim.study.tlb.judge import taken_from
from scmsim.workload.ageing import Workload
from tests.verification import churn_layouts as churn

_DEFAULT = 301  # a seed of `churn_layouts` with its default device
_FIGURES = ("extents", "free_extents", "mappable_2m")


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--fs", default="ext4-dax")
    parser.add_argument("--seeds", default="1:11", help="FIRST:END[:STEP]")
    parser.add_argument("--capacity", type=int, default=2048, help="capacity of the workload, MiB")
    parser.add_argument("--turnover", type=int, default=4)
    parser.add_argument("--commit", type=int, help="commit interval of ext4, seconds")
    parser.add_argument("--kernel", default="6.1")
    parser.add_argument("--judge-only", action="store_true", help="run no guest; leave out histories that were not run")
    parser.add_argument("-o", "--output", type=pathlib.Path, required=True)
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    real: dict[int, int] = {}
    model: dict[int, int] = {}
    print("| seed | " + " | ".join(f"{name}: kernel / model, equal" for name in _FIGURES) + " |\n" + "|---" * 4 + "|")
    for seed in range(*map(int, options.seeds.split(":"))):
        source = Workload(capacity=options.capacity << 20, turnover=options.turnover, seed=seed)
        path = options.output / f"{options.fs}-{options.capacity}-{options.turnover}-{seed}.npz"
        if not path.exists():
            if options.judge_only:
                continue
            _measure(source, path, options)
        found, mine = np.load(path)["extents"], _model(source, options)
        cell = judge.compared(found, mine, source.files)
        print(
            f"| {seed} | "
            + " | ".join(f"{cell['real'][n]} / {cell['model'][n]}, {cell['equal'][n]}" for n in _FIGURES)
            + " |",
            flush=True,
        )
        for extents, sums in ((found, real), (mine, model)):
            for length, count in contiguity.histogram(extents["length"][extents["file"] == FREE], 1).items():
                sums[length] = sums.get(length, 0) + count
    print("\n| free runs of at least | kernel | model |\n|---|---:|---:|")
    for length in sorted(real | model):
        print(f"| {length >> 10} KiB | {real.get(length, 0)} | {model.get(length, 0)} |")


def _measure(source: Any, path: pathlib.Path, options: argparse.Namespace) -> None:
    """Run a history in a guest that counts nothing, and store the extents that it has at the end."""
    system = churn.on_device(systems.load(None)[options.fs], _DEFAULT)
    if options.commit:
        system = dataclasses.replace(system, options=f"{system.options},commit={options.commit}".lstrip(","))
    setting = setting_with(kernel.find(options.kernel, None, None), Job((options.fs,), "", layout=True), system.dax)
    every = churn.run(setting, system, from_trace(source, layout=True))
    measured = Measured(np.zeros(0), b"", {}, 0.0, extents=every)
    with whole(path) as draft, draft.open("wb") as file:
        np.savez(file, extents=layout.extents(measured, system))


def _model(source: Any, options: argparse.Namespace) -> np.ndarray:
    """Return the extents of the model after the same history, with the guest's clock."""
    known = registry.literals("fs", options.fs)["PARAMS"]
    given = judge.by_the_guests_clock(source, {"instructions": churn.took(options.fs, source)}, known)
    given |= churn.parameters(options.fs, _DEFAULT)
    if options.commit:
        given["commit_interval"] = f"{options.commit}s"
    params = taken_from(f"{options.kernel}.0", [options.fs], {options.fs: given}, None).params[options.fs]
    found = judge.of_model(source, options.fs, params)[0]
    if isinstance(found, str):
        raise SystemExit(f"{options.fs}: {found}")
    return found


if __name__ == "__main__":
    main()
