"""Insert touches of the program, interrupts and other processes between the events of calls, before the MMU.

Before each call, the program touches pages of its own.  With two page tables (KPTI), each call begins and ends with a change of
tables: with another PCID if CPU and kernel use PCIDs, else with a flush of everything, because with KPTI the kernel's pages are
not global (Linux Documentation/x86/pti.rst).  Timer interrupts come at regular numbers of instructions.  Each touches the pages of
a measured interrupt of the footprints' kernel or, if none was measured, of an interrupt in Debian's 6.1 (tick.csv).  Another
process, with its own address space and pages, runs after each time slice.

All measured calls are of one thread and use its kernel stack; with `thread_stacks`, thread n uses a stack n * STACK_BYTES higher.

Time is measured by the calls' instructions (GHz / CPI of them per ns).  Touches are not instructions.  Touches of the program and
of interrupts are counted in the row of the next event; touches of the other process are not counted.

Not modelled: kernel pages that another process has touched under its own PCID (KPTI), and touches of the scheduler.
"""

import csv
import pathlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from scmsim.core.records import INVALIDATE, KERNEL, LOAD, MILLI, NTSTORE, STORE, USER, WORK
from scmsim.jit import kernel, subroutine

STATE = np.dtype(
    (
        np.record,
        [
            ("op", "i8"),  # row of the current operation; -1 if none
            ("at", "i8"),  # next event
            ("emitted", "i8"),  # events in `out`
            ("sliced", "i8"),  # index of the next slice of touches
            ("slices", "i8"),  # slices in `out`
            ("most", "i8"),  # maximum number of events inserted before an event, without those of an interrupt
            ("trash", "i8"),  # row of the counters for events that do not count
            ("started", "i8"),  # 1 once `between_calls` has run
            ("since_tick", "i8"),  # thousandths of instructions since the last interrupt
            ("since_switch", "i8"),
            ("tick", "i8"),  # thousandths of instructions between two interrupts; 0: no interrupts
            ("slice", "i8"),
            ("program_pages", "i8"),
            ("other_pages", "i8"),
            ("kpti", "i8"),
            ("pcid", "i8"),
        ],
    )
)
TOUCH = np.dtype((np.record, [("vaddr", "i8"), ("order", "u1"), ("stores", "u1")]))
# Linux 6.1 Documentation/x86/x86_64/mm.rst; a stack of 16 KiB is aligned to its size and follows a guard page (kernel/fork.c).
VMALLOC, VMALLOC_END, STACK_BYTES = 0xFFFF_C900_0000_0000 - (1 << 64), 0xFFFF_E900_0000_0000 - (1 << 64), 32 << 10
PROGRAM, OTHER = 3 << 45, 7 << 44  # first pages of the program and of the other process, above all threads' buffers
_SMALL = 12  # log2 of the bytes of a page
_EVERYTHING = 1 << 40  # bytes of kernel addresses, which are too many to be invalidated page by page
PROCESS, IN_KERNEL, ANOTHER = range(1, 4)  # numbers of address spaces in INVALIDATE events


def start(system: Mapping[str, Any], time: Mapping[str, float], pcid: bool, trash: int) -> np.recarray:
    """Return the state for a system on a machine; `time` is the machine's [time] table (GHz, CPI)."""
    state = np.zeros(1, STATE).view(np.recarray)
    second = MILLI * 1e9 * time.get("ghz", 1.0) / time.get("cpi", 1.0)  # thousandths of instructions
    state.tick = round(second / system["hz"]) if system["hz"] else 0
    state.slice = round(second * system["slice_us"] / 1e6)
    for name in ("program_pages", "other_pages", "kpti"):
        state[name] = system[name]
    state.pcid, state.trash, state.op = pcid, trash, -1
    state.most = 5 + system["program_pages"] + system["other_pages"]
    return state


def own_stacks(events: np.ndarray, threads: np.ndarray) -> None:
    """Move events on the measured kernel stack to the stack of the operation's thread, in place."""
    at = np.flatnonzero((events["space"] == KERNEL) & (events["vaddr"] >= VMALLOC) & (events["vaddr"] < VMALLOC_END))
    events["vaddr"][at] += STACK_BYTES * threads[events["op"][at]]


def _measured_tick() -> np.ndarray:
    """Return the first touch of each page in the timer interrupt of median length, out of nine in an SQLite load on tmpfs."""
    with pathlib.Path(__file__).with_name("tick.csv").open(encoding="utf-8") as file:
        rows = [(int(row["page"], 16) - (1 << 64), row["order"], row["store"]) for row in csv.DictReader(file)]
    return np.array(rows, TOUCH)


TICK = _measured_tick()


@kernel
def surround(state, tick, out, taken):
    """Copy events to `out`, with other touches inserted before them; return False if `out` is full and the call must be repeated.

    `out` and `taken` are tuples of events, their rows of the counters, and the slices of touches before some events.
    """
    s = state[0]
    s.emitted, s.slices = 0, 0
    events, rows, slices = taken
    while s.at < len(events):
        event, row = events[s.at], rows[s.at]
        if s.emitted + s.most + len(tick) >= len(out[0]):
            return False
        if row != s.trash:
            if event.op != s.op:
                between_calls(s, out, event, row)
            s.op = event.op
            if s.tick > 0 and s.since_tick >= s.tick:
                s.since_tick -= s.tick
                for t in range(len(tick)):
                    code = STORE if tick[t].stores else LOAD
                    touch(s, out, event, row, (code, tick[t].vaddr, tick[t].order))
            if s.slice > 0 and s.since_switch >= s.slice:
                s.since_switch = 0
                another_process(s, out, event)
            done = instructions(event)
            s.since_tick += done
            s.since_switch += done
        out[0][s.emitted], out[1][s.emitted] = event, row
        if s.sliced < len(slices) and slices[s.sliced].event == s.at:
            out[2][s.slices] = slices[s.sliced]
            out[2][s.slices].event = s.emitted
            s.slices += 1
            s.sliced += 1
        s.emitted += 1
        s.at += 1
    return True


@subroutine
def instructions(event):
    """Return the instructions of an event, in thousandths."""
    if event.code == WORK:
        return event.instructions
    if (event.code == LOAD or event.code == STORE or event.code == NTSTORE) and event.bytes_per_access > 0:
        return MILLI * (event.length // event.bytes_per_access)
    return 0


@subroutine
def between_calls(s, out, event, row):
    """Emit the events between two calls: return to user space, the program's touches, entry into the kernel."""
    if s.started == 0:
        s.started = 1
        change(s, out, event, row, PROCESS)
    elif s.kpti:
        change(s, out, event, row, PROCESS)
    for page in range(s.program_pages):
        touch(s, out, event, row, (LOAD, PROGRAM + (page << _SMALL), _SMALL))
    if s.kpti:
        change(s, out, event, row, IN_KERNEL)


@subroutine
def another_process(s, out, event):
    """Emit the touches of another process in a time slice, which occupy the TLB but are not counted."""
    change(s, out, event, s.trash, ANOTHER)
    for page in range(s.other_pages):
        touch(s, out, event, s.trash, (LOAD, OTHER + (page << _SMALL), _SMALL))
    change(s, out, event, s.trash, IN_KERNEL if s.kpti else PROCESS)


@subroutine
def change(s, out, event, row, space):
    """Emit a change of address space, which also flushes the kernel's pages with KPTI if there are no PCIDs."""
    touch(s, out, event, row, (INVALIDATE, 0, _SMALL))
    e = out[0][s.emitted - 1]
    e.length, e.address_space = 0, space
    if s.kpti and s.pcid == 0:
        e.vaddr, e.length, e.cpu_count = -_EVERYTHING, _EVERYTHING, 1


@subroutine
def touch(s, out, event, row, what):
    """Emit an event of one byte, `what` = (code, address, log2 of the page), counted in `row`."""
    e = out[0][s.emitted]
    e.code, e.vaddr, e.order = what
    e.addr, e.length, e.bytes_per_access = e.vaddr, 1, 0
    e.space = KERNEL if e.vaddr < 0 else USER
    e.site, e.op = event.site, event.op
    out[1][s.emitted] = row
    s.emitted += 1
