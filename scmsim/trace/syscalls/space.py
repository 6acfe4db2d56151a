"""Handle calls that change a file's length or blocks without moving bytes of the program: fallocate, and clone ioctls.

Rules
-----
- fallocate without KEEP_SIZE makes the file at least as long as the end of its range; it shows nothing about the length before.
- COLLAPSE_RANGE and INSERT_RANGE change the file's length by that of the range.  The row is a TRUNCATE to the new length, if it is
  known; the move of extents is a blind spot.
- FICLONE and FICLONERANGE make the file at least as long as the end of the clone: a TRUNCATE, if the file grows.  The sharing of
  blocks is a blind spot.  The clone of a file of unknown length has an unknown length.
"""

import re
from re import Match

from scmsim.core.records import FALLOCATE, KEEP_SIZE, PUNCH_HOLE, TRUNCATE
from scmsim.trace.kernels import file_rules
from scmsim.trace.syscalls.importer import NO_MODEL, NOT_A_FILE, NOT_A_FILE_OPERATION, UNKNOWN_FD, Importer
from scmsim.trace.syscalls.state import Node, Task
from scmsim.trace.syscalls.text import COMMA, FD, NUMBER, REST, RESULT, WORD, number

_CLONE = re.compile(rf"(?:BTRFS_IOC_CLONE or )?FICLONE, *{FD}$").match
_CLONE_RANGE = re.compile(
    r"(?:BTRFS_IOC_CLONE_RANGE or )?FICLONERANGE, *"
    rf"\{{src_fd={FD}, src_offset={NUMBER}, src_length={NUMBER}, dest_offset={NUMBER}\}}$"
).match
# other ioctls that change lengths or blocks (linux/fs.h, xfs/xfs_fs.h, linux/falloc.h, linux/btrfs.h, ext4.h)
_BLIND = re.compile(
    r"\w*(?:FICLONE|FIDEDUPERANGE|IOC_CLONE|ALLOCSP|FREESP|RESVSP|IOC_ZERO_RANGE|SWAPEXT|EXCHANGE_RANGE|MOVE_EXT|SWAP_BOOT)\w*"
).search


def allocate(imp: Importer, task: Task, node: Node, mode: tuple[str, ...], offset: int, length: int) -> str | None:
    """Handle an fallocate; `mode` has the flags' names without FALLOC_FL_."""
    shifts = [word for word in ("COLLAPSE_RANGE", "INSERT_RANGE") if word in mode]
    if shifts:
        imp.report.blind[f"fallocate {shifts[0]}"] += 1
        file_rules.shift(node, length if shifts[0][0] == "I" else -length)
        return imp.emit(task, TRUNCATE, node, node.length, 0, 0) if node.exact else NO_MODEL
    flag = (KEEP_SIZE if "KEEP_SIZE" in mode else 0) | (PUNCH_HOLE if "PUNCH_HOLE" in mode else 0)
    if not flag & KEEP_SIZE:
        file_rules.extend(node, offset + length)
    return imp.emit(task, FALLOCATE, node, offset, length, flag)


def fallocate(imp: Importer, task: Task, m: Match[str]) -> str | None:
    fd, raw, mode, offset, length, _ = m.groups()
    found = imp.describe(task, fd, raw)
    if found is None or found.node is None:
        return UNKNOWN_FD if found is None else NOT_A_FILE
    words = tuple(word.strip().removeprefix("FALLOC_FL_") for word in mode.split("|"))
    return allocate(imp, task, found.node, words, number(offset), number(length))


def clone(
    imp: Importer, task: Task, target: Node, source: Node | None, start: int = 0, length: int = 0, to: int = 0
) -> str | None:
    """Share a range of one file with another (a length of 0: up to the end of the source)."""
    if length == 0:
        length = max(source.length - start, 0) if source is not None else 0
        target.exact = target.exact and source is not None and source.exact
    if to + length <= target.length:
        return NO_MODEL
    file_rules.extend(target, to + length)
    return imp.emit(task, TRUNCATE, target, target.length, 0, 0)


def ioctl(imp: Importer, task: Task, m: Match[str]) -> str | None:
    fd, raw, rest = m[1], m[2], m[3]
    blind = _BLIND(rest)
    if blind is None:
        return NOT_A_FILE_OPERATION
    found = imp.describe(task, fd, raw)
    if found is None or found.node is None:
        return UNKNOWN_FD if found is None else NOT_A_FILE
    imp.report.blind[f"ioctl {rest.partition(',')[0].rpartition(' ')[2]}"] += 1
    if "FIDEDUPERANGE" in rest:  # only equal blocks are shared: no length and no byte changes
        return NO_MODEL
    cloned = _CLONE(rest) or _CLONE_RANGE(rest)
    if cloned is None:
        found.node.exact = False
        return NO_MODEL
    source = imp.describe(task, cloned[1], cloned[2])
    part = [number(text) for text in cloned.groups()[2:]]
    return clone(imp, task, found.node, source.node if source is not None else None, *part)


CALLS = {
    "fallocate": (FD + COMMA + WORD + COMMA + NUMBER + COMMA + NUMBER + RESULT, fallocate),
    "ioctl": (FD + COMMA + f"({REST})" + RESULT, ioctl),
}
