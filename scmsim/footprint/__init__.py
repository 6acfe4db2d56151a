"""Footprints: which pages of the kernel's own memory a call touches, as measured on a real kernel.

A file-system model emits accesses to its data and metadata.  This package adds what else the kernel's code touches (its stack,
per-CPU data, slab objects, data of the image and the modules, struct page): the first touches of measured calls, in their order.
An operation of a replay gets the touches of a similar measured call: of the same kind, with the most similar set of mechanisms
(sites), and with about as many bytes moved.  The inode and open file (`struct file`) touched are the operation's own.

Units: addresses in bytes, x86-64 with 4-level page tables.  Source: address streams of Debian's kernels in the lab; each file
names the kernel, the trace and the command that made it (`scmsim lab footprints`).
"""

import json
import logging
import os
import pathlib
import re
import zipfile
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from scmsim.core import registry
from scmsim.core.atomic import whole
from scmsim.core.errors import UsageError, unknown
from scmsim.core.file_cache import per_file
from scmsim.core.records import OPS
from scmsim.footprint.describe import OP_FEATURES
from scmsim.footprint.interleave import CALL, GROUP, PAGE, STATE

_LOG = logging.getLogger("scmsim")
_DATA = pathlib.Path(__file__).parent / "data"
GENERAL = "tmpfs"  # adds little to the general layers (system call, VFS, slab): used for models that were not measured
_NO_CALLS = ("load", "store", "flush", "fence")  # on mapped files: their faults resemble no other kind of call
_OF_PROGRAMS = ("user library", "user copy", "operation log", "staging", "mapped access")  # mechanisms in user space
SMALL = "5.13"  # measured with a small configuration, without ext2 and ext4: represents no other version
WITH_LINES = "-lines"  # suffix of a second recording of a kernel, with lines for data caches
NONE_AT_ALL = "none"  # given instead of a kernel: no footprints
FORMAT = 3
_MINORS = 20  # releases per major version of Linux: the last ones were 3.19, 4.20, 5.19 and 6.19
ALIKE = 32  # candidates per operation: measured calls of about the same amount, one of which is chosen
CHUNK = 1024  # most touches between two events
MEASURED = np.dtype(  # a measured call in a footprint file
    (np.record, [("kind", "i8"), ("sites", "i8"), ("amount", "i8"), ("count", "i8"), ("opening", "i8")])
)
LINES = np.dtype(  # lines of one page of 4 KiB that a touch represents
    (
        np.record,
        [
            ("vaddr", "i8"),  # address of the page; 0 if `cache` is not 0; for NEW_PAGE its number in the call
            ("lines", "u8"),  # a bit for each line: of the page, or of an object from its most touched line on
            ("store", "u1"),
            ("cache", "u1"),  # as in PAGE, or a kind of object beyond PAGE's, or interleave.NEW_PAGE
        ],
    )
)
_OF_LINES: dict[str, Any] = {"blocks": LINES, "lines": np.uint32, "interrupt_lines": np.uint32}


class FootprintTable(NamedTuple):
    """Measured calls and their touches; see `interleave.interleave`."""

    groups: np.ndarray  # array of GROUP: groups of calls of one kind and one set of mechanisms, ordered by kind
    calls: np.ndarray  # array of CALL: by group, in ascending order of amount
    numbers: np.ndarray  # array of int64: for each element of `calls`, its position in the order of measurement
    places: np.ndarray  # array of int64: the index in `calls` of each position
    touches: np.ndarray  # array of uint16
    bounds: np.ndarray  # array of int64: the first touch of each chunk, then the number of all touches
    pages: np.ndarray  # array of PAGE
    inodes: np.ndarray  # array of int64: indices of pages, by slab cache and by number of the object
    interrupt: np.ndarray  # array of uint16: touches of a timer interrupt; empty if none was measured
    blocks: np.ndarray = np.zeros(0, LINES)  # distinct lines of touches; empty if they were not recorded
    lines: np.ndarray = np.zeros(0, np.uint32)  # index in `blocks` of each element of `touches`
    interrupt_lines: np.ndarray = np.zeros(0, np.uint32)  # the same for `interrupt`


NO_FOOTPRINTS = FootprintTable(
    np.zeros(0, GROUP),
    np.zeros(0, CALL),
    np.zeros(0, np.int64),
    np.zeros(0, np.int64),
    np.zeros(0, np.uint16),
    np.zeros(1, np.int64),
    np.zeros(0, PAGE),
    np.zeros((0, 1), np.int64),
    np.zeros(0, np.uint16),
)


@dataclass
class Footprints:
    """The footprints of one kernel for one model."""

    state: np.recarray  # recarray of STATE
    book: FootprintTable
    measured_on: str  # kernel and file system that were measured
    often: np.ndarray  # array of int64: number of touches of each page
    general: bool = False  # whether the footprints come from GENERAL, and so lack the model's own kernel objects


def kernels() -> list[str]:
    """Return the versions of the kernel on which footprints were measured."""
    return sorted(path.name for path in _DATA.iterdir() if path.is_dir())


def standing_for(kernel: str) -> str:
    """Return the measured kernel that is nearest to a version of Linux ("5.15", "6.8.0-mine")."""
    at = _releases(kernel)
    known = [measured for measured in kernels() if not measured.endswith(WITH_LINES)]
    near = [measured for measured in known if measured != SMALL or _releases(measured) == at]
    return min(near, key=lambda measured: abs(_releases(measured) - at))


def _releases(kernel: str) -> int:
    """Return how many releases preceded a version of Linux; 0 for a name without a number."""
    major, minor, *_ = (*map(int, re.findall(r"\d+", kernel)), 0, 0)
    return major * _MINORS + minor


def check(kernel: str) -> None:
    """Raise UsageError unless `kernel` was measured, is a folder of `scmsim lab footprints`, or is "none"."""
    if kernel not in (*kernels(), NONE_AT_ALL) and not os.path.isdir(kernel):
        raise unknown("kernel with footprints", kernel, [*kernels(), NONE_AT_ALL])


def path_of(kernel: str, fs: str) -> pathlib.Path:
    """Return the path of a file system's footprints, which need not exist."""
    return (_DATA / kernel if kernel in kernels() else pathlib.Path(kernel)) / f"{fs}.npz"


def has_own(kernel: str, fs: str) -> bool:
    """Return whether a file system was measured on a kernel."""
    return path_of(kernel, fs).exists()


def source_of(kernel: str, fs: str) -> str | None:
    """Return the file system whose footprints a model uses: its own, or else the first measured one along FOOTPRINTS.

    None if no such file system was measured; then GENERAL represents the model's general layers.
    """
    tried: list[str] = []
    while not has_own(kernel, fs):
        tried.append(fs)
        fs = registry.literals("fs", fs).get("FOOTPRINTS", fs)
        if fs in tried:
            return None
    return fs


def stand_in(kernel: str, fs: str) -> tuple[str, str | None]:
    """Return the kernel and the file system whose footprints a model uses.

    Use footprints of `kernel`, or else of the nearest older kernel on which the file system was measured, such as NOVA
    on 5.13 for 6.1.  (kernel, None): no such kernel measured it, so GENERAL represents the model's general layers.
    """
    known, lines = kernels(), kernel.endswith(WITH_LINES)
    usable = [one for one in known if kernel in known and (lines or not one.endswith(WITH_LINES))]
    older = sorted(
        (_releases(one), one.endswith(WITH_LINES), one) for one in usable if _releases(one) < _releases(kernel)
    )
    for one in (kernel, *(one for *_, one in reversed(older))):
        if source := source_of(one, fs):
            return one, source
    return kernel, None


def load(kernel: str, fs: str, sites: list[str]) -> Footprints:
    """Return the footprints for a model whose mechanisms are `sites`.

    Raises UsageError for a kernel that was not measured.
    """
    check(kernel)
    measured, source = stand_in(kernel, fs)
    _LOG.debug("footprints of %s: those of %s on Linux %s", fs, source or GENERAL, measured)
    found = read(path_of(measured, source or GENERAL), sites)
    found.general = source is None
    return found


def read(path: pathlib.Path, sites: list[str]) -> Footprints:
    """Read a footprint file; raise UsageError for a damaged file or a file of another format."""
    try:
        file = _arrays(path)
        header: dict[str, Any] = json.loads(str(file["header"]))
        measured, touches = file["calls"].astype(MEASURED), file["touches"]
        pages, inodes = file["pages"].astype(PAGE), file["inodes"].astype(np.int64)
        interrupt = file["interrupt"].astype(np.uint16) if "interrupt" in file else NO_FOOTPRINTS.interrupt
        lines = [file[name].astype(kind, copy=False) for name, kind in _OF_LINES.items() if "blocks" in file]
        if header["format"] != FORMAT or not len(measured):
            raise ValueError("of another version, or empty")
        if lines and (len(lines[1]) != len(touches) or lines[1].max(initial=0) >= max(1, len(lines[0]))):
            raise ValueError("its cache lines do not match its touches")
    except (OSError, ValueError, KeyError, zipfile.BadZipFile) as error:
        raise UsageError(
            f"{str(path)!r} has no footprints ({str(error)[:80]}); make it with scmsim lab footprints"
        ) from None
    measured["sites"] = _translated(measured["sites"], header["sites"], sites)
    state = np.zeros(1, STATE).view(np.recarray)
    state.shared[0] = sum(1 << bit for bit, name in enumerate(sites) if name in header["sites"])
    state.entering[0] = sum(1 << bit for bit, name in enumerate(sites) if name not in _OF_PROGRAMS)
    state.alike[0], state.calls[0], state.last[0] = ALIKE, len(measured), -1
    state.nearest[0] = bool(lines)  # the published figures of footprints without lines are those of the older rule
    first, bounds = _chunks(measured["count"])
    groups, calls = _ordered(state, measured, first)
    numbers = np.ascontiguousarray(calls["number"])
    book = FootprintTable(
        groups, calls, numbers, np.argsort(numbers), touches, bounds, pages, inodes, interrupt, *lines
    )
    return Footprints(state, book, f"{header['fs']} on Linux {header['kernel']}", file["often"])


@per_file(4)  # decompression takes 10 to 50 ms, and the arrays of a file 5 to 15 MB
def _arrays(path: pathlib.Path) -> dict[str, np.ndarray]:
    """Return the arrays of a footprint file, and `often`."""
    with np.load(path, allow_pickle=False) as file:
        found = {name: file[name] for name in file.files}
    found["touches"] = found["touches"].astype(np.uint16)
    return found | {"often": np.bincount(found["touches"] >> 1, minlength=len(found["pages"]))}


def _translated(masks: np.ndarray, theirs: list[str], ours: list[str]) -> np.ndarray:
    """Translate bit sets of mechanisms from a file's order to a model's; drop mechanisms that the model lacks."""
    out = masks & OP_FEATURES
    for bit, name in enumerate(theirs):
        if name in ours:
            out |= (masks >> bit & 1) << ours.index(name)
    return out


def _chunks(counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return (first chunk of each call, first touch of each chunk), each with the total number appended."""
    chunks = -(-counts // CHUNK)
    first = np.append(0, np.cumsum(chunks))
    within = np.arange(first[-1]) - np.repeat(first[:-1], chunks)
    before = np.repeat(np.cumsum(counts) - counts, chunks)
    bounds = before + within * np.repeat(counts, chunks) // np.repeat(chunks, chunks)
    return first, np.append(bounds, counts.sum())


def _ordered(state: np.recarray, measured: np.ndarray, first_chunk: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return (groups, calls by group and amount); set in `state` which groups each kind has.

    A kind of call that was not measured gets all groups, or none if it is one of _NO_CALLS.
    """
    order = np.lexsort((measured["amount"], measured["sites"], measured["kind"]))
    calls = np.zeros(len(order), CALL)
    calls["amount"], calls["number"], calls["opening"] = measured["amount"][order], order, measured["opening"][order]
    calls["first"], calls["end"] = first_chunk[order], first_chunk[order + 1]
    _, first = np.unique(measured[order][["kind", "sites"]], return_index=True)
    groups = np.zeros(len(first), GROUP)
    groups["sites"], groups["first"], groups["end"] = (
        measured["sites"][order][first],
        first,
        [*first[1:], len(order)],
    )
    bounds = np.searchsorted(measured["kind"][order][first], np.arange(len(OPS) + 1))
    for kind in range(len(OPS)):
        some = bounds[kind] < bounds[kind + 1]
        if some or OPS[kind] not in _NO_CALLS:
            state.groups[0, kind] = (bounds[kind], bounds[kind + 1]) if some else (0, len(groups))
    return groups, calls


def write(path: pathlib.Path, header: dict[str, Any], **arrays: np.ndarray) -> None:
    """Write footprints: `calls` (MEASURED) and the other arrays of FootprintTable; those of lines only if recorded.

    `header` has the file system (`fs`), the `kernel` and the `sites`, in the order of the bits in `calls`.
    """
    text = json.dumps({"format": FORMAT, **header}, sort_keys=True)
    with (
        whole(path) as draft,
        zipfile.ZipFile(draft, "w", zipfile.ZIP_LZMA) as archive,
    ):  # LZMA: half the size of NumPy's compressed format
        for name, array in {"header": np.array(text), **arrays}.items():
            with archive.open(f"{name}.npy", "w") as member:
                np.lib.format.write_array(member, array, allow_pickle=False)
