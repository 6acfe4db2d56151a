"""State of ext2: that of ext4, with pointer blocks in place of extents and no journal.

Units: bytes, blocks of 4096 bytes.  Changed metadata waits in a list, and a write-back stores each block in place once.
Source: Linux fs/ext2/ext2.h; mke2fs (e2fsprogs) for the layout: groups of 32768 blocks, inodes of 256 bytes.
"""

import numpy as np

from scmsim.core.errors import UsageError
from scmsim.core.records import Files
from scmsim.core.units import format_bytes
from scmsim.fs.engine import costs
from scmsim.fs.engine.events import State, load_templates
from scmsim.fs.ext2.templates import SITES, all_templates, costs_of
from scmsim.fs.linux import device
from scmsim.fs.linux import state as e
from scmsim.fs.linux.mke2fs import layout as lay_out
from scmsim.fs.linux.templates import BLOCK

LARGEST_FILE = 2_196_873_666_560  # bytes (ext2_max_size: 2**32 sectors less pointer blocks)
MOST_DIRTY = 1 << 15  # maximum number of dirty metadata blocks
STATE = np.dtype(
    (
        np.record,
        [
            *e.ON_DEVICE.descr,
            # ring of freed inodes that cannot be used again yet
            ("recent", "i8"),
            ("recent_room", "i8"),
            ("recent_first", "i8"),
            ("recent_count", "i8"),
            # set if ext4's driver remembers the hole of a look-up: Linux 6.12.118 does, 6.1 and 6.18.15 do not
            ("remembers_holes", "i8"),
            # set if each fsync under ext4's driver flushes the device: from Linux 6.12.118 on (counted in the lab)
            ("always_flushes", "i8"),
        ],
    )
)


def start(
    params: dict[str, int],
    files: Files,
    *,
    table: str,
    dax: bool,
    by_ext4: bool = False,
    ram_disk: bool = False,
    in_order: bool = False,
    remembers_holes: bool = False,
    clears_end: bool = False,
    always_flushes: bool = False,
) -> State:
    """Return the state of an empty ext2 of `params["capacity"]` bytes with a row for each of the trace's `files`.

    `table` names the costs; `by_ext4`: the driver of ext4 serves the layout, as in kernels without CONFIG_EXT2_FS.
    `in_order`: groups are searched as in Linux 6.12.118 (see `alloc.mballoc.FIELDS`); `remembers_holes` and
    `always_flushes`: see `STATE`; `clears_end`: see `linux.state.STATE`.
    """
    e.check_capacity(params["capacity"])
    blocks = params["capacity"] // BLOCK
    layout = lay_out(blocks, 0, is_ext2=True)
    fixed = layout.fields["fixed_blocks"]
    if fixed + len(e.known_folders(files)) + 8 > blocks:
        raise UsageError(
            f"metadata of {format_bytes(fixed * BLOCK)} does not leave room for files on a device of "
            f"{format_bytes(params['capacity'])}; give a larger capacity"
        )
    names = costs_of(dax, by_ext4)
    cost = costs.load(table, names, list(SITES))
    if not params["tick"]:
        cost[names.index("timer_tick"), :3] = 0
    own = {"commit_interval": params["dirty_expire"]} | {
        name: params[name] for name in ("dirty_expire", "timestamp_tick")
    }
    waiting = len(files) + 1 + layout.fields["group_inodes"] if by_ext4 else 0
    own |= {"txn_limit": MOST_DIRTY, "recent_room": waiting, "in_order": in_order, "remembers_holes": remembers_holes}
    own |= {"clears_end": clears_end, "always_flushes": always_flushes}
    # one operation may change each of the device's pointer blocks
    lists = {"txn": device.most_joined(blocks, MOST_DIRTY + (blocks >> 10))}
    lists["recent"] = 2 * waiting
    state = device.build(STATE, files, layout, dax, own, lists, cost, alignment=params.get("data_alignment", BLOCK))
    load_templates(state, all_templates(names, dax, ram_disk, bool(params.get("copy_fence", 0))))
    return state


def space(state: State) -> dict[str, int]:
    """Return the space report in bytes (see linux.state.space); without a journal, pointer blocks count as metadata."""
    report = e.space(state)
    del report["journal_bytes"], report["commits"]
    return report
