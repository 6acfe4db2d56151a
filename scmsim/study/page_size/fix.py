"""Commands that make a file's 2 MiB ranges mappable by one entry each, for every reason why they are not."""

import shlex

import numpy as np

from scmsim.study.page_size import rules
from scmsim.study.page_size.from_file import Place

_MKFS = {
    "ext4": "mkfs.ext4 -E stride=512,stripe_width=512, or write the file in pieces of 2 MiB or more",
    "xfs": "xfs_io -c 'extsize 2m' on the folder before the file is made, on mkfs.xfs -d su=2m,sw=1",
}
_FRAGMENTS = {"ext4": "e4defrag {}", "xfs": "xfs_fsr {}"}


def advice(found: np.ndarray, place: Place, path: str, start: int | None, offset: int) -> list[str]:
    """Return "reason: remedy" for each reason in `found`, the reason with the most 2 MiB ranges first."""
    name = shlex.quote(path)
    by_reason = {
        rules.NEVER: _never(place),
        rules.UNWRITTEN: f"write the blocks once, as with: dd if=/dev/zero of={name} bs=2M conv=notrunc "
        "iflag=count_bytes count=FILE_SIZE (overwrites the file)",
        rules.EMPTY: f"fallocate -l FILE_SIZE {name}, then write the blocks once",
        rules.HOLE: f"fallocate -l FILE_SIZE {name}, then write the blocks once",
        rules.MISALIGNED: _aligned(place, start),
        rules.FRAGMENTED: _FRAGMENTS.get(place.fs, "copy the file to a fresh one: cp --sparse=never {} {}.new").format(
            name, name
        ),
        rules.EDGE: "map from a multiple of 2 MiB"
        if offset % rules.HUGE
        else f"truncate -s %2M {name} (makes the file longer, to a multiple of 2 MiB)",
    }
    counts = np.bincount(found, minlength=len(rules.CLASSES))
    order = [int(k) for k in np.argsort(-counts, kind="stable") if counts[k] and k in by_reason]
    return [f"{rules.CLASSES[k]}: {by_reason[k]}" for k in order]


def _aligned(place: Place, start: int | None) -> str:
    if start and start % rules.HUGE:
        return f"the partition begins at byte {start:,}: make it begin at a multiple of 2 MiB"
    return _MKFS.get(place.fs, "copy the file: cp FILE FILE.new, and look again")


def _never(place: Place) -> str:
    if place.fs == "tmpfs":
        advised = " or madvise(MADV_HUGEPAGE) the mapping" if place.options.get("huge") == "advise" else ""
        return f"mount -o remount,huge=always (or within_size) its mount point{advised}"
    if place.fs in ("ext4", "xfs", "ext2"):
        return "the page cache maps 4 KiB: mount with -o dax (ext2, ext4) or -o dax=always on a device of persistent memory"
    return f"{place.fs} maps 4 KiB"
