"""One pass over a trace: record each file's greatest length, its overwritten bytes, and its touched pages in order."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from scmsim.core.errors import UsageError
from scmsim.core.records import Files, Source
from scmsim.core.units import format_bytes
from scmsim.study.advise import kernels as k

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
FAR = 1 << 61  # a threshold that no file passes
THRESHOLDS = (0, 4 * KIB, 16 * KIB, 64 * KIB, 128 * KIB, 256 * KIB, 512 * KIB, MIB, 2 * MIB, 4 * MIB, 8 * MIB, 16 * MIB, 64 * MIB,
              256 * MIB, GIB, 4 * GIB, FAR)  # fmt: skip
GRAINS = tuple(range(12, 31))  # log2 of the bytes of a page that copy-on-write copies
_CHUNK = 1 << 16
_MOST_FILES = 1 << 21
MOST_TOUCHES = 4_000_000  # touched pages of 4 KiB; traces with more are sampled in stretches


@dataclass
class Profile:
    """Properties of a trace that `search` needs."""

    files: Files
    # array (files, columns of `kernels`): each file's greatest length, and its overwritten and copied bytes
    rows: np.ndarray
    sums: np.ndarray  # see `kernels`
    # array (files,): file lengths, bytes, at a moment when the live bytes are within 5 % of their maximum
    snapshot: np.ndarray
    runs: np.ndarray  # array (n, 3): file, first and last 4 KiB page of each read and write
    share: float = 1.0  # share of the trace's touches that are in `runs`, at most 1

    @property
    def written(self) -> int:
        """Return the bytes that the program wrote."""
        return int(self.sums[k.WRITTEN])


def profile(source: Source, progress: Callable[[str, int, int], None] | None = None) -> Profile:
    """Return the profile of a trace; raises UsageError if it has more than 2 million files, or no file with data."""
    if len(source.files) > _MOST_FILES:
        raise UsageError(
            f"{len(source.files):,} files are too many for advise (at most {_MOST_FILES:,}); cut the trace"
        )
    rows = np.zeros((len(source.files), k.MOVED + len(THRESHOLDS)), np.int64)
    there = np.maximum(np.asarray(source.files.first_size), 0)
    there[np.asarray(source.files.is_dir)] = 0
    for column in (k.SIZE, k.PEAK, k.HIGH):
        rows[:, column] = there
    sums = np.zeros(k.GRAINS + len(GRAINS), np.int64)
    sums[k.LIVE] = sums[k.MOST] = there.sum()
    snapshot, limits = there.copy(), np.array([*THRESHOLDS, -1, *GRAINS], np.int64)
    parts, done = [], 0
    room = np.zeros((_CHUNK, 3), np.int64)
    for batch in source.batches(_CHUNK):
        sums[k.RUNS] = 0
        k.profile(batch.view(np.ndarray), rows, sums, limits, room, snapshot)
        parts.append(room[: sums[k.RUNS]].copy())
        done += len(batch)
        if progress:
            progress("reading", done, source.rows)
    if not rows[:, k.PEAK].any():
        raise UsageError("no file of this trace has any data; advise needs reads, writes or files from before it")
    runs = np.concatenate(parts)
    touches = int((runs[:, 2] - runs[:, 1] + 1).sum())
    share = 1.0
    if touches > MOST_TOUCHES:
        runs = _stretches(runs, touches)
        share = int((runs[:, 2] - runs[:, 1] + 1).sum()) / touches
    return Profile(source.files, rows, sums, snapshot, runs, share)


def _stretches(runs: np.ndarray, touches: int) -> np.ndarray:
    """Return 16 evenly spread stretches that together touch about MOST_TOUCHES pages."""
    seen = np.cumsum(runs[:, 2] - runs[:, 1] + 1)
    starts = np.arange(16) * (touches // 16)
    bounds = [np.searchsorted(seen, (start, start + MOST_TOUCHES // 16)) for start in starts]
    return np.concatenate([runs[low : max(high, low + 1)] for low, high in bounds])


def size_text(size: int) -> str:
    """Return a threshold as text."""
    return "never" if size >= FAR else format_bytes(size) if size else "0"
