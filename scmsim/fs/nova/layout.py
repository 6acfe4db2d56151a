"""Lay out NOVA's device: the reserved blocks, each CPU's free list, and what formatting allocates from the lists.

Unit: blocks of 4096 bytes.  Source: NOVA (port to Linux 5.13) fs/nova/balloc.c (nova_init_free_list), super.c (nova_init),
journal.c (nova_lite_journal_hard_init), inode.c (nova_alloc_inode_table); FAST'16 NOVA balloc.c (nova_init_blockmap), nova.h.
"""

from typing import NamedTuple

from scmsim.alloc.cpu_lists import HUGE
from scmsim.core.errors import UsageError
from scmsim.core.units import format_bytes
from scmsim.fs.nova.templates import BLOCK

INODE_BYTES = 128
STRIPE, CHECKSUM = 512, 4  # bytes of a data stripe (NOVA_STRIPE_SIZE) and of its checksum
HEAD, TAIL = 64, 2  # blocks reserved at the device's start and end (HEAD_RESERVED_BLOCKS, TAIL_RESERVED_BLOCKS)
FAST16_HEAD = 3
POINTERS, FAST16_POINTERS = 48, 1  # block that holds each CPU's pair of journal pointers, 64 bytes per CPU


class Layout(NamedTuple):
    """Block numbers of the structures on a newly formatted device."""

    lists: list[tuple[int, int]]  # free blocks [start, stop) of each CPU
    list_blocks: int  # blocks per CPU: device blocks / CPUs
    pointers: int  # block of the journal pointers
    journal: int  # journal page of CPU 0; the journal pages of the other CPUs follow it
    tables: list[int]  # inode table of each CPU
    logs: int  # log page of the root directory; log pages of directories from before the trace follow


def lists_of(blocks: int, cpus: int) -> list[tuple[int, int]]:
    """Return the free blocks [start, stop) of each CPU's list, without the areas for data checksums and parity.

    NOVA reserves these areas with or without the mount options that use them.  It computes an address for the
    parity's replica but reserves no blocks there.
    """
    stripes = BLOCK // STRIPE  # stripes per block; each block has one parity stripe
    checksums = -(-(blocks * stripes * CHECKSUM // BLOCK) // cpus)
    parity = -(-blocks // ((stripes + 1) * cpus))
    share, lists = blocks // cpus, []
    for cpu in range(cpus):
        start, stop = share * cpu + HEAD * (cpu == 0), share * (cpu + 1) - TAIL * (cpu == cpus - 1)
        lists.append((start + checksums + parity, stop - checksums))
    return lists


def layout(blocks: int, cpus: int, inodes: int, directories: int = 0, *, fast16: bool) -> Layout:
    """Return the layout of a device with inode tables for `inodes` inodes and `directories` directories besides the root.

    Simplification: an inode table of more than 2 MiB is contiguous; NOVA allocates each further 2 MiB when it needs them.
    """
    lists = [(FAST16_HEAD, blocks)] if fast16 else lists_of(blocks, cpus)
    journal, tables, logs = lists[0][0], [], 0
    table_blocks = -(-inodes * INODE_BYTES // (HUGE * BLOCK * cpus)) * HUGE
    for cpu, (start, stop) in enumerate(lists):
        first = start + cpus * (cpu == 0)  # all journal pages come from the list of the CPU that formats
        tables.append(first)
        first += table_blocks
        if cpu == 0:  # each new directory has a log page (nova_append_dir_init_entries)
            logs = first
            first += 1 + directories
        if cpus > 1 and first >= stop:
            raise UsageError(
                f"capacity {format_bytes(blocks * BLOCK)} is too small for {cpus} CPUs and {inodes} inodes, "
                "as each CPU's part must hold its inode table; give a larger capacity or fewer CPUs"
            )
        lists[cpu] = first, max(stop, first + 1)
    return Layout(lists, blocks // cpus, FAST16_POINTERS if fast16 else POINTERS, journal, tables, logs)
