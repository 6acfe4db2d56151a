"""Initial state of ext4: mke2fs's layout, its journal and its limits.

Units: bytes, blocks of 4096 bytes, ns.
"""

import numpy as np

from scmsim.alloc.mballoc import MOST_FREED_RUNS
from scmsim.core.errors import UsageError
from scmsim.core.records import NEVER, Files
from scmsim.core.units import format_bytes
from scmsim.fs.engine import costs
from scmsim.fs.engine.events import State, load_templates
from scmsim.fs.ext4.templates import COSTS, FOLIO_COSTS, SITES, all_templates
from scmsim.fs.linux import device
from scmsim.fs.linux import state as e
from scmsim.fs.linux.mke2fs import default_journal
from scmsim.fs.linux.mke2fs import layout as lay_out
from scmsim.fs.linux.templates import BLOCK

LARGEST_FILE = (1 << 44) - 4096  # bytes (ext4_max_size)
# blocks kept back: 1/KEPT_SHARE of all, at most MOST_KEPT (ext4_calculate_resv_clusters)
KEPT_SHARE, MOST_KEPT = 50, 4096
MIN_JOURNAL = 1024  # blocks (JBD2_MIN_JOURNAL_BLOCKS)
# See pipeline/periods.py; each operation sets `now` before it is read, and only `quiet_until` reads `stamped_at`.
STATISTICS = ("now", "stamped_at", "closes", "commits", "ignored")

STATE = np.dtype(
    (
        np.record,
        [
            *e.ON_DEVICE.descr,
            ("blocks_joined", "i8"),  # metadata blocks that the current operation added to the running transaction
            ("checkpoint_list", "i8"),  # list of blocks to write in place; entries whose bit is cleared are stale
            ("checkpoint_length", "i8"),
            ("log_head", "i8"),  # next log block, and number of log blocks in use
            ("log_used", "i8"),
            ("remembers", "i8"),  # whether look-ups are remembered, see `known`
            ("folder_barriers", "i8"),  # whether an fsync treats a directory as a file, as before Linux 5.10
        ],
    )
)


def start(
    params: dict[str, int],
    files: Files,
    *,
    table: str,
    dax: bool,
    folder_barriers: bool = False,
    in_order: bool = False,
    by_folio: bool = False,
    stops_at_end: bool = False,
    clears_end: bool = False,
    frees_last_page: bool = False,
    maps_by_folio: bool = False,
) -> State:
    """Return the state of an empty ext4 of `params["capacity"]` bytes with a row for each of the trace's `files`.

    `table` names the costs.  `folder_barriers`: an fsync treats a directory as a file.  `in_order`: groups are searched
    and holes punched as in Linux 6.12.118 (see `alloc.mballoc.FIELDS`, `linux.state.STATE`).  `by_folio`: the page cache has
    large folios by default, and the table has their costs; `stops_at_end`, `clears_end`, `frees_last_page` and
    `maps_by_folio`: see `linux.state.STATE`.
    """
    e.check_capacity(params["capacity"])
    blocks = params["capacity"] // BLOCK
    journal = params["journal"] // BLOCK or default_journal(blocks)
    layout = lay_out(blocks, journal)
    fixed = layout.fields["fixed_blocks"]
    if journal < MIN_JOURNAL or fixed + len(e.known_folders(files)) + 8 > blocks:
        raise UsageError(
            f"a journal of {format_bytes(journal * BLOCK)} on a device of {format_bytes(params['capacity'])} is not possible: "
            f"the journal takes at least {format_bytes(MIN_JOURNAL * BLOCK)}, and other metadata "
            f"{format_bytes((fixed - journal) * BLOCK)}; give a larger capacity or another journal"
        )
    cost = costs.load(table, FOLIO_COSTS if by_folio else COSTS, list(SITES))
    if not params["tick"]:
        cost[COSTS.index("timer_tick"), :3] = 0
    own = {name: params[name] for name in ("commit_interval", "dirty_expire", "timestamp_tick")}
    own |= {"folio_order": e.largest_folio(params, by_folio), "stops_at_end": stops_at_end, "clears_end": clears_end}
    own |= {"kept_blocks": min(layout.blocks // KEPT_SHARE, MOST_KEPT), "relatime": 1, "txn_limit": journal // 4}
    own |= {"folder_barriers": folder_barriers, "remembers": 1, "in_order": in_order, "exact_holes": in_order}
    own |= {"frees_last_page": frees_last_page, "maps_by_folio": maps_by_folio}
    lists = {"checkpoint_list": 2 * device.most_joined(blocks, 2 * own["txn_limit"]), "freed_runs": 2 * MOST_FREED_RUNS}
    state = device.build(STATE, files, layout, dax, own, lists, cost, alignment=params.get("data_alignment", BLOCK))
    load_templates(state, all_templates(dax, bool(params.get("copy_fence", 0)), str(params.get("copy", "")), by_folio))
    return state


def quiet_until(state: State, since: int) -> int:
    """Return the trace time, ns, at which a timer next changes the state: write-back, a commit or a new time stamp.

    Time stamps count only if an operation has set one since `since`.
    """
    record = state.record[0]
    commit = int(record.txn_since + record.commit_interval) if record.txn_length else NEVER
    step = int(record.timestamp_tick)
    stamp = (int(record.now) // step + 1) * step if step and record.stamped_at >= since else NEVER
    return min(int(record.next_tick), commit, stamp)
