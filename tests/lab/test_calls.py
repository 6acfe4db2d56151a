"""The tree of calls: what the plugin makes of pushes and returns, and for whom the host says that the kernel ran."""

import ctypes
import subprocess

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scmsim.lab import cache, calls, counts

TASK, IRQ, ENTRY = 0xFFFFC90000010000, 0xFFFFC90000400000, 0xFFFFFE0000001000
NAMES = (
    "entry_SYSCALL_64_after_hwframe", "do_syscall_64", "vfs_write", "ext4_sync_file", "kjournald2", "jbd2_commit", "worker_thread",
    "process_one_work", "xfs_inodegc_worker", "vmstat_update", "memcpy", "sysvec_apic_timer_interrupt", "rcu_do_batch", "kthread",
    "__schedule", "sysvec_call_function", "flush_tlb_func",
)  # fmt: skip
AT = {name: 0xFFFFFFFF81000000 + 256 * k for k, name in enumerate(NAMES)}
SYMBOLS = counts.Symbols(np.array(list(AT.values()), np.uint64), list(NAMES))


def made(*paths):
    """Calls of one row of `100 + its number` instructions a path: (stack, outermost function, ..., function)."""
    nodes, rows = [], np.zeros(len(paths), counts.ROW)
    number = {}

    def node(site, parent):
        if (site, parent) not in number:
            number[site, parent] = len(nodes)
            nodes.append((site, parent, 0))
        return number[site, parent]

    for k, (stack, *functions) in enumerate(paths):
        at = node(stack, calls.NO_PARENT)
        for function in functions[:-1]:
            at = node(AT[function] + 16, at)
        rows[k]["address"], rows[k]["node"], rows[k]["instructions"] = AT[functions[-1]], at, 100 + k
    return calls.Calls(rows, np.array(nodes, calls.NODE), SYMBOLS, "ext4-dax")


SYSCALL = NAMES[:2]


def test_for_whom_the_kernel_ran():
    journal, worker = TASK + (1 << 20), TASK + (2 << 20)
    work = ("worker_thread", "process_one_work")
    found = made(
        (TASK, *SYSCALL, "vfs_write"),
        (TASK, *SYSCALL, "vfs_write", "sysvec_apic_timer_interrupt", "memcpy"),
        (TASK, *SYSCALL, "vfs_write", "sysvec_apic_timer_interrupt"),
        (ENTRY, NAMES[0]),
        (journal, "kthread", "kjournald2", "jbd2_commit", "memcpy"),
        (journal, "__schedule"),
        (worker, *work, "xfs_inodegc_worker", "memcpy"),
        (worker, *work, "vmstat_update", "memcpy"),
        (worker, *work),
        (IRQ, "sysvec_apic_timer_interrupt", "rcu_do_batch", "memcpy"),
        (IRQ, "sysvec_apic_timer_interrupt", "memcpy"),
    )
    own, irq = (calls.OWN, ""), (calls.OTHER, calls.INTERRUPTS)
    assert found.task == [
        own, irq, irq, own, (calls.DEFERRED, "kjournald2"), (calls.DEFERRED, "kjournald2"),
        (calls.DEFERRED, "xfs_inodegc_worker"), (calls.OTHER, "vmstat_update"), (calls.DEFERRED, "process_one_work"),
        (calls.DEFERRED, "rcu_do_batch"), irq,
    ]  # fmt: skip
    assert found.stacks()[6] == "worker_thread;process_one_work;xfs_inodegc_worker;memcpy"


def test_what_other_cpus_do_is_told_apart():
    """In user mode they wait for their turn, and their system calls are no part of this one; what is deferred still is."""
    journal = TASK + (1 << 20)
    one = made(
        (TASK, *SYSCALL, "vfs_write"),
        (TASK, *SYSCALL, "vfs_write", "memcpy"),
        (IRQ, "sysvec_call_function", "flush_tlb_func"),
        (journal, "kthread", "kjournald2", "jbd2_commit"),
        (TASK, "memcpy"),
    )
    rows = one.rows.copy()
    rows["elsewhere"] = 0, 2, 2, 2, 2
    rows["address"][4] = 0x401000
    found = calls.Calls(rows, one._nodes, SYMBOLS, "ext4-dax")
    assert found.task == [
        (calls.OWN, ""), (calls.OTHER, calls.OTHER_CPUS), (calls.OTHER, calls.SENT), (calls.DEFERRED, "kjournald2"),
    ]  # fmt: skip
    assert found.entered.all()


def test_the_innermost_function_that_a_map_names_decides():
    by = {
        "vfs_write": [("", "syscall")],
        "memcpy": [("jbd2_commit", "journal commit")],
        "ext4_sync_file": [("", "fsync")],
    }
    found = made(
        (TASK, *SYSCALL, "vfs_write", "memcpy"),
        (TASK, *SYSCALL, "ext4_sync_file", "jbd2_commit", "memcpy"),
        (TASK, *SYSCALL, "ext4_sync_file", "jbd2_commit"),
        (TASK, *SYSCALL, "memcpy"),
    )
    assert found.sites(by) == ["syscall", "journal commit", "fsync", calls.ELSEWHERE]


def test_without_a_tree_everything_is_the_calls_own():
    rows = np.zeros(2, counts.ROW)
    rows["address"] = AT["vfs_write"], 0x401000
    found = calls.Calls(rows, np.zeros(0, calls.NODE), SYMBOLS)
    assert found.task == [(calls.OWN, "")] * 2 and found.stacks() == ["vfs_write", counts.USER]


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    """calls.c as a library; its state lives as long as the library, so a path ends at the root of its stack."""
    program = cache.compiler()
    if not program:
        pytest.skip("no C compiler")
    folder = tmp_path_factory.mktemp("calls")
    room = folder / "room.c"
    room.write_text(
        "#include <stdint.h>\n#include <stdlib.h>\nvoid *xcalloc(uint64_t n, uint64_t b) { return calloc(n, b); }\n"
    )
    made = folder / "calls.so"
    command = [
        program,
        "-O1",
        "-fPIC",
        "-shared",
        f"-I{cache.HERE}",
        "-o",
        str(made),
        str(room),
        str(cache.HERE / "calls.c"),
    ]
    subprocess.run(command, check=True)
    found = ctypes.CDLL(str(made))
    for name in ("calls_stack", "calls_enter"):
        getattr(found, name).argtypes = [ctypes.c_uint, ctypes.c_uint64, ctypes.c_uint64][
            : 2 if name == "calls_stack" else 3
        ]
    found.calls_now.restype = ctypes.c_uint32
    return found, folder / "nodes"


STEPS = st.lists(
    st.tuples(st.sampled_from(["call", "return", "push", "pop", "switch"]), st.integers(0, 5)), min_size=1, max_size=200
)


@settings(max_examples=60, deadline=None)
@given(STEPS)
def test_frames_follow_calls_returns_and_switches(library, steps):
    """Reference: stacks as lists of words, a return address or None each."""
    code, out = library
    tops = [TASK + (k << 20) + (15 << 10) for k in range(6)]
    stacks = [[] for _ in tops]
    for top in tops:
        code.calls_stack(0, top)  # whatever an earlier example left there is dead
    at = len(tops) - 1
    ends = []
    for step, number in steps:
        words, below = stacks[at], tops[at] - 8 * len(stacks[at])
        if step == "switch":
            at = number
            code.calls_stack(0, tops[at] - 8 * len(stacks[at]) - 8)  # the registers that a switch restores
        elif step in ("call", "push") and len(words) < 400:
            words.append(0x1000 + number if step == "call" else None)
            code.calls_enter(0, below - 8, 0x1000 + number) if step == "call" else code.calls_stack(0, below - 8)
        elif step in ("return", "pop") and words:
            words.pop()
            code.calls_stack(0, below)
        sites = [word for word in stacks[at] if word is not None]
        ends.append((code.calls_now(0), sites))
    assert code.calls_write(str(out).encode()) == 0
    nodes = np.fromfile(out, calls.NODE)
    for node, sites in ends:
        found = []
        while nodes[node]["parent"] != calls.NO_PARENT:
            found.append(int(nodes[node]["site"]))
            node = int(nodes[node]["parent"])
        assert found[::-1] == sites
