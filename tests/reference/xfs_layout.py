"""Place blocks as XFS does: slow, in plain Python, after the source, with a list of free runs per allocation group.

Source: Linux 6.1 fs/xfs/libxfs/{xfs_alloc.c,xfs_bmap.c,xfs_ialloc.c}, fs/xfs/xfs_extent_busy.c; names are those of the source.
Blocks are numbered through all groups.  Left out, as in scmsim/alloc/xfs_groups.py: trees of several blocks (from 506 free runs
of a group on), and blocks held back for the growth of trees.
"""

from tests.reference.xfs_busy import Busy

NULL = None


def mkfs(blocks, groups, log):
    """Return the ranges (start, count) that mkfs.xfs uses with sectors of 4096 bytes."""
    size = -(-blocks // groups)
    used = []
    for group in range(groups):
        extra = log if group == groups // 2 else 0  # an internal log follows the headers and roots of the middle group
        used.append((group * size, 4 + 4 + extra + 4))  # headers, roots of four trees, log, free list
    return [*used, (root_chunk(used), 8)]


def root_chunk(used):
    """Return the first block of the chunk with the root inode: after the first group's free list, at a multiple of 8."""
    return -(-used[0][1] // 8) * 8


class Groups:
    """The free space of all groups."""

    def __init__(self, blocks, groups, used):
        self.blocks, self.count, self.size, self.used = blocks, groups, -(-blocks // groups), used
        taken = {block for start, count in used for block in range(start, start + count)}
        self.free = [block not in taken for block in range(blocks)]
        self.forced = False  # a search found only busy blocks: the log is to be forced
        self.reserved = 0  # free blocks that are promised to cached pages
        self.checkpoint()

    # Trees

    def end(self, group):
        """Return the block after a group."""
        return min((group + 1) * self.size, self.blocks)

    def records(self, group):
        """Return the free runs (start, length) of a group by block number."""
        found = []
        for block in range(group * self.size, self.end(group)):
            if not self.free[block]:
                continue
            if found and found[-1][0] + found[-1][1] == block:
                found[-1] = (found[-1][0], found[-1][1] + 1)
            else:
                found.append((block, 1))
        return found

    def by_length(self, group):
        """Return the free runs of a group in the order of the tree by length."""
        return sorted(self.records(group), key=lambda record: (record[1], record[0]))

    def longest(self, group):
        """Return the length of the longest free run of a group."""
        return max((length for _, length in self.records(group)), default=0)

    def trim(self, bno, length, minlen, maxlen):
        """Return the part of a free run that is not busy."""
        return self.busy[bno // self.size].trim(bno, length, minlen, maxlen)

    # xfs_alloc.c

    def compute_aligned(self, first, bno, length, minlen, maxlen, alignment):
        """Return the aligned part of a free run that is not busy (xfs_alloc_compute_aligned)."""
        bno, length = self.trim(bno, length, minlen, maxlen)
        if alignment > 1 and length >= minlen:
            aligned = first + -(-(bno - first) // alignment) * alignment
            return aligned, max(length - (aligned - bno), 0)
        return bno, length

    @staticmethod
    def compute_diff(wantbno, wantlen, alignment, userdata, freebno, freelen):
        """Return (start, distance) of the best place in a free run (xfs_alloc_compute_diff); numbers count from the group."""

        def roundup(value):
            return -(-value // alignment) * alignment

        freeend, wantend = freebno + freelen, wantbno + wantlen
        new1 = new2 = NULL
        if freebno >= wantbno or (userdata and freeend < wantend):
            new1 = roundup(freebno)
            new1 = NULL if new1 >= freeend else new1
        elif freeend >= wantend and alignment > 1:
            new1 = roundup(wantbno)
            new2 = new1 - alignment
            newlen1 = newlen2 = 0
            if new1 >= freeend:
                new1 = NULL
            else:
                newlen1 = min(wantlen, freeend - new1)
            if new2 < freebno:
                new2 = NULL
            else:
                newlen2 = min(wantlen, freeend - new2)
            if new1 is not NULL and new2 is not NULL:
                if newlen1 < newlen2 or (newlen1 == newlen2 and abs(new1 - wantbno) > abs(new2 - wantbno)):
                    new1 = new2
            elif new2 is not NULL:
                new1 = new2
        elif freeend >= wantend:
            new1 = wantbno
        elif alignment > 1:
            new1 = roundup(freeend - wantlen)
            if new1 > freeend - wantlen and new1 - alignment >= freebno:
                new1 -= alignment
            elif new1 >= freeend:
                new1 = NULL
        else:
            new1 = freeend - wantlen
        return (NULL, 0) if new1 is NULL else (new1, abs(new1 - wantbno))

    def near(self, group, goal, minlen, maxlen, alignment, userdata):
        """Allocate near a block in its group (xfs_alloc_ag_vextent_near, its first algorithm); return (start, length)."""
        records, first = self.by_length(group), group * self.size
        if not any(length >= maxlen for _, length in records) or alignment > 1:
            walk = [record for record in records if record[1] >= minlen]
        else:
            walk = [record for record in records if record[1] >= maxlen]
        while True:
            best, best_len, best_diff, was_busy = NULL, 0, 1 << 40, False
            for bno, length in walk:
                bnoa, lena = self.compute_aligned(first, bno, length, minlen, maxlen, alignment)
                was_busy |= self.trim(bno, length, minlen, maxlen) != (bno, length)
                if lena < minlen or min(lena, maxlen) < best_len:
                    continue
                got = min(lena, maxlen)
                new, diff = self.compute_diff(goal - first, got, alignment, userdata, bnoa - first, lena)
                # a place at a run's end is too short if the alignment leaves less; the kernel asserts that it is not
                if new is NULL or diff > best_diff or new + first + got > bnoa + lena:
                    continue
                best, best_len, best_diff = new + first, got, diff
            if best is not NULL or not was_busy:
                return best, best_len
            self.force()

    def size_search(self, group, minlen, maxlen):
        """Allocate anywhere in a group (xfs_alloc_ag_vextent_size); return (start, length)."""
        records = self.by_length(group)
        for bno, length in records:
            if length >= maxlen:
                rbno, rlen = self.trim(bno, length, minlen, maxlen)
                if rlen >= maxlen:
                    return rbno, maxlen
        if not any(length >= maxlen for _, length in records):
            best = (NULL, 0)
            for bno, length in reversed(records):
                rbno, rlen = self.trim(bno, length, minlen, maxlen)
                if length >= best[1] and rlen > best[1]:
                    best = (rbno, rlen)
            if best[1] >= minlen:
                return best
        self.force()
        return self.size_search(group, minlen, maxlen)

    # xfs_bmap.c

    def btalloc(self, goal, want, userdata):
        """Allocate up to `want` blocks near `goal` (xfs_bmap_btalloc without a first block); return their list."""
        if True not in self.free:
            return []
        maxlen, start = min(want, self.size), goal // self.size
        blen = 0
        for i in range(self.count):
            if blen >= maxlen:
                break
            blen = max(blen, self.longest((start + i) % self.count))
        minlen = min(blen, maxlen)
        for i in range(self.count):
            group = (start + i) % self.count
            if self.longest(group) < minlen:
                continue
            if i == 0:
                bno, length = self.near(group, goal, minlen, maxlen, 1, userdata)
            else:
                bno, length = self.size_search(group, minlen, maxlen)
            return self.claim(bno, length)
        raise AssertionError

    def chunk(self, goal, count, after):
        """Allocate the blocks of an inode chunk (xfs_ialloc_ag_alloc): at `after` if free, else near `goal`; or return []."""
        group = goal // self.size
        if after is not NULL and after // self.size == group:
            for bno, length in self.records(group):
                if bno <= after < bno + length:
                    tbno, tlen = self.trim(bno, length, count, count)
                    if tbno <= after and tbno + tlen >= after + count:
                        return self.claim(after, count)
        if self.longest(group) < count:
            return []
        bno, length = self.near(group, goal, count, count, count, False)
        return [] if bno is NULL else self.claim(bno, length)

    def claim(self, bno, length):
        """Allocate blocks."""
        found = list(range(bno, bno + length))
        assert all(self.free[block] for block in found)
        for block in found:
            self.free[block] = False
        return found

    def give(self, start, count=1):
        """Free an extent, which is busy until the next checkpoint."""
        for block in range(start, start + count):
            assert not self.free[block]
            self.free[block] = True
        self.busy[start // self.size].insert(start, start + count)

    def checkpoint(self):
        """Make busy blocks available."""
        self.busy = [Busy() for _ in range(self.count)]

    def force(self):
        """Make busy blocks available at once (xfs_extent_busy_flush)."""
        self.forced |= any(tree.root for tree in self.busy)
        self.checkpoint()


class Inodes:
    """Inode numbers: chunks of 64 inodes in their groups (xfs_ialloc.c).  A number is 64 times the chunk's plus its place in it."""

    def __init__(self, groups):
        self.groups, self.chunks, self.free = groups, [root_chunk(groups.used)], [set(range(3, 64))]
        self.rotor, self.newest, self.is_new = 0, {0: 0}, False

    def block(self, inode):
        """Return the block that an inode is in."""
        return self.chunks[inode // 64] + inode % 64 // 8

    def group(self, chunk):
        """Return the group of a chunk."""
        return self.chunks[chunk] // self.groups.size

    def number_in_group(self, chunk):
        """Return how many chunks the chunk's group had before it."""
        return sum(self.group(other) == self.group(chunk) for other in range(chunk))

    def take(self, parent, is_dir):
        """Return a free inode for a child of the inode `parent` (xfs_dialloc); None if there is none."""
        self.is_new = False
        count = self.groups.count
        if is_dir:
            start, self.rotor = self.rotor, (self.rotor + 1) % count
        else:
            start = self.group(parent // 64)
        for i in range(count):
            group = (start + i) % count
            mine = [chunk for chunk in range(len(self.chunks)) if self.group(chunk) == group and self.free[chunk]]
            if not mine:
                newest = self.newest.get(group)
                root = group * self.groups.size + 6
                after = None if newest is None else self.chunks[newest] + 8
                found = sum(self.groups.free) - self.groups.reserved >= 8 and self.groups.chunk(root, 8, after)
                if not found:
                    continue
                self.is_new = True
                self.newest[group] = len(self.chunks)
                mine = [len(self.chunks)]
                self.chunks.append(found[0])
                self.free.append(set(range(64)))
            chunk = self.choose(mine, group, parent)
            place = min(self.free[chunk])
            self.free[chunk].remove(place)
            return 64 * chunk + place
        return None

    def choose(self, mine, group, parent):
        """Return which of the chunks with free inodes serves (xfs_dialloc_ag_finobt_near, xfs_dialloc_ag_finobt_newino)."""
        at = {8 * self.chunks[chunk]: chunk for chunk in mine}
        if self.group(parent // 64) != group:
            newest = self.newest.get(group)
            return newest if newest in mine else at[min(at)]
        pagino = 8 * self.chunks[parent // 64] + parent % 64
        left = max((start for start in at if start <= pagino), default=None)
        right = min((start for start in at if start >= pagino), default=None)
        if left is not None and (right is None or pagino < left + 64):
            return at[left]
        if left is None:
            return at[right]
        return at[right] if pagino - left + 63 > right - pagino else at[left]

    def give(self, inode):
        """Free an inode."""
        self.free[inode // 64].add(inode % 64)
