"""NOVA's free lists over sorted ranges, and the blocks that formatting takes: the obvious reference implementation.

Shares no code with scmsim.  Source: NOVA (port to Linux 5.13) fs/nova/balloc.c, journal.c, inode.c, super.c; FAST'16 NOVA
balloc.c.  Unit: blocks of 4096 bytes.
"""

from tests.reference.first_fit_slow import Ranges

DEAD_ZONE_BLOCKS, HUGE = 256, 512


class Lists:
    """One sorted list of free ranges per CPU."""

    def __init__(self, parts, *, fast16=False):
        self.fast16, self.cpu = fast16, 0
        self.lists = [Ranges(start, stop) for start, stop in parts]
        self.stops = [stop for _, stop in parts]

    @property
    def free(self):
        return sum(part.free for part in self.lists)

    def _lacks(self, cpu, want, log):
        """not_enough_blocks."""
        ranges = self.lists[cpu].ranges
        if self.lists[cpu].free < want or not ranges:
            return True
        return log and not self.fast16 and (ranges[-1][1] - 1) - ranges[0][0] < DEAD_ZONE_BLOCKS

    def _superpages(self, part, want):
        """nova_alloc_superpage: the first range with an aligned 2 MiB after a margin of at least one block."""
        for k, (low, stop) in enumerate(part.ranges):
            margin = HUGE - low % HUGE
            whole = (stop - low - margin) // HUGE * HUGE
            if whole >= HUGE:
                got, at = min(want, whole), low + margin
                part.ranges[k : k + 1] = [r for r in ([low, at], [at + got, stop]) if r[0] < r[1]]
                return at, got
        return -1, 0

    def take(self, want, log=False):
        """(first block, length) of what a request of `want` blocks gets; (-1, 0) if it fails (nova_new_blocks)."""
        cpu = self.cpu
        if self._lacks(cpu, want, log):
            frees = [part.free for part in self.lists]
            cpu = frees.index(max(frees))
            if log and self._lacks(cpu, want, log):
                return -1, 0
        if not log and not self.fast16 and want % HUGE == 0:
            start, got = self._superpages(self.lists[cpu], want)
            if got:
                return start, got
        return self.lists[cpu].take(want)

    def give(self, start, count):
        next(part for part, stop in zip(self.lists, self.stops, strict=True) if start < stop).give(start, count)


def parts_of(blocks, cpus):
    """The blocks of each CPU that are neither head, tail, data checksums nor parity (nova_init_free_list)."""
    checksum_blocks = (((blocks * 4096) >> 9) * 4) >> 12
    parity_blocks = blocks // 9 + (blocks % 9 > 0)
    parts = []
    for index in range(cpus):
        start, end = blocks // cpus * index, blocks // cpus * (index + 1) - 1
        if index == 0:
            start += 64
        if index == cpus - 1:
            end -= 2
        checksums = checksum_blocks // cpus + (checksum_blocks % cpus > 0)
        start, end = start + checksums, end - checksums
        start += parity_blocks // cpus + (parity_blocks % cpus > 0)
        parts.append([start, end + 1])
    return parts


def formatted(blocks, cpus, inodes, directories=0, *, fast16=False):
    """(lists, journal pages, inode tables, log pages of the root and then of the directories made first) of a new device.

    nova_init and then nova_mkdir, on CPU 0, allocate from the lists' low ends.
    """
    parts = [[3, blocks]] if fast16 else parts_of(blocks, cpus)
    journals = [parts[0][0] + cpu for cpu in range(cpus)]
    parts[0][0] += cpus
    tables = [start for start, _ in parts]
    of_cpu = inodes // cpus + (inodes % cpus > 0)
    for part in parts:
        part[0] += -(-of_cpu // 16384) * HUGE
    logs = [parts[0][0] + page for page in range(1 + directories)]  # the root directory's log comes first
    parts[0][0] += len(logs)
    for part in parts:
        part[1] = max(part[1], part[0] + 1)
    return Lists(parts, fast16=fast16), journals, tables, logs
