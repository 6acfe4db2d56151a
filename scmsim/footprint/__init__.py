"""Footprints: which pages of the kernel's own memory a call touches, as a real kernel did.

A file-system model says where its data and metadata lie.  What else the kernel's code touches (its stack, per-CPU data, slab
objects, the image's and the modules' data, struct page) comes from here: the first touches of measured calls, in their order.
An operation of a replay gets the touches of the measured call that is most like it: of the same kind, with the mechanisms
(sites) that differ least, and of those with the nearest number of instructions.

Units: addresses in bytes, x86-64 with 4-level page tables.  Source: address streams of Debian's kernels in the lab; each file
names the kernel, the trace and the command that made it (`scmsim lab footprints`).
"""

import json
import os
import pathlib
from dataclasses import dataclass
from typing import Any

import numpy as np

from scmsim.core.atomic import whole
from scmsim.core.errors import UsageError, unknown
from scmsim.core.records import OPS
from scmsim.footprint.interleave import ENTRY, STATE, TOUCH

_DATA = pathlib.Path(__file__).parent / "data"
GENERAL = "tmpfs"  # the general layers (system call, VFS, slab) with the least below them: for models without a table of their own
DEFAULT = "6.1"  # kernel
FORMAT = 1


@dataclass
class Footprints:
    """What `interleave.interleave` needs of one kernel's footprints.

    Attributes
    ----------
    state : recarray of STATE
    entries : array of ENTRY
        Measured calls, by kind.
    touches : array of TOUCH
    measured_on : str
        Kernel and file system that were measured.
    own : bool
        Whether that is the file system that was asked for, or the general layers stand for it.
    """

    state: np.recarray
    entries: np.ndarray
    touches: np.ndarray
    measured_on: str
    own: bool


def kernels() -> list[str]:
    """Versions of the kernel that footprints were measured on."""
    return sorted(path.name for path in _DATA.iterdir() if path.is_dir())


def check(kernel: str) -> None:
    """Raise UsageError for a kernel that was not measured; a folder of `scmsim lab footprints` may stand for one."""
    if kernel not in kernels() and not os.path.isdir(kernel):
        raise unknown("kernel with footprints", kernel, kernels())


def path_of(kernel: str, fs: str) -> pathlib.Path:
    """Where the footprints of a file system are; it need not exist."""
    return (_DATA / kernel if kernel in kernels() else pathlib.Path(kernel)) / f"{fs}.npz"


def load(kernel: str, fs: str, sites: list[str]) -> Footprints:
    """Footprints for a model whose mechanisms are `sites`.

    Raises
    ------
    UsageError
        For a kernel that was not measured.
    """
    check(kernel)
    own = path_of(kernel, fs).exists()
    return read(path_of(kernel, fs if own else GENERAL), sites, own)


def read(path: pathlib.Path, sites: list[str], own: bool = True) -> Footprints:
    """Footprints of a file; raises UsageError for one that is damaged or something else."""
    try:
        with np.load(path, allow_pickle=False) as file:
            header: dict[str, Any] = json.loads(str(file["header"]))
            entries, touches = file["entries"].astype(ENTRY), file["touches"].astype(TOUCH)
        if header["format"] != FORMAT or not len(entries):
            raise ValueError("of another version, or empty")
    except (OSError, ValueError, KeyError) as error:
        raise UsageError(
            f"{str(path)!r} has no footprints ({str(error)[:80]}); make it with scmsim lab footprints"
        ) from None
    entries["sites"] = _translated(entries["sites"], header["sites"], sites)
    entries = entries[np.argsort(entries["kind"], kind="stable")]
    state = np.zeros(1, STATE).view(np.recarray)
    state.shared[0] = sum(1 << bit for bit, name in enumerate(sites) if name in header["sites"])
    first = np.searchsorted(entries["kind"], np.arange(len(OPS) + 1))
    for kind in range(len(OPS)):
        some = first[kind] < first[kind + 1]
        state.entries[0, kind] = (first[kind], first[kind + 1]) if some else (0, len(entries))
    return Footprints(state, entries, touches, f"{header['fs']} on Linux {header['kernel']}", own)


def _translated(masks: np.ndarray, theirs: list[str], ours: list[str]) -> np.ndarray:
    """Sets of mechanisms, a bit each, from the order of a file to that of a model; those that the model lacks are left out."""
    out = np.zeros_like(masks)
    for bit, name in enumerate(theirs):
        if name in ours:
            out |= (masks >> bit & 1) << ours.index(name)
    return out


def write(path: pathlib.Path, entries: np.ndarray, touches: np.ndarray, header: dict[str, Any]) -> None:
    """Write footprints; `header` names the file system (`fs`), the `kernel` and the `sites` that the bits of entries stand for."""
    text = json.dumps({"format": FORMAT, **header}, sort_keys=True)
    with whole(path) as draft, open(draft, "wb") as file:
        np.savez_compressed(file, header=np.array(text), entries=entries, touches=touches)
