"""Model WineFS's free space again, with objects and sets: per CPU a sorted list of extents and a red-black tree of holes.

Source: as the kernels', WineFS fs/winefs/balloc.c; the tree as in Cormen et al., chapter 13 (Linux lib/rbtree.c has its shape).
"""

EXTENT = 512


class Node:
    def __init__(self, low=0, high=0):
        self.low, self.high, self.red = low, high, True
        self.child, self.up = [None, None], None

    def side(self):
        return int(self.up.child[1] is self)


class Tree:
    """Ranges in the order in which searches meet them: 0 is the left side, 1 the right."""

    root = None

    def nodes(self):
        """Return the nodes from first to last."""

        def below(node):
            return [*below(node.child[0]), node, *below(node.child[1])] if node else []

        return below(self.root)

    def hang(self, node, up, side):
        """Make `node` (or None) the child of `up` on a side, or the root."""
        if up:
            up.child[side] = node
        else:
            self.root = node
        if node:
            node.up = up

    def turn(self, node, side):
        """Rotate `node` down to a side."""
        risen, up = node.child[1 - side], node.up
        at = node.side() if up else 0
        self.hang(risen.child[side], node, 1 - side)
        self.hang(risen, up, at)
        self.hang(node, risen, side)

    def add(self, node, key):
        up, at = None, self.root
        while at:
            up, at = at, at.child[int(key >= at.low)]
        self.hang(node, up, int(up is not None and key >= up.low))
        while node.up and node.up.red:
            up = node.up
            top, side = up.up, up.side()
            aunt = top.child[1 - side]
            if aunt and aunt.red:
                up.red = aunt.red = False
                top.red, node = True, top
                continue
            if node.side() != side:
                self.turn(up, side)
                up = node
            up.red, top.red = False, True
            self.turn(top, 1 - side)
            break
        self.root.red = False

    def remove(self, node):
        if all(node.child):
            heir = node.child[1]
            while heir.child[0]:
                heir = heir.child[0]
            red, rest = heir.red, heir.child[1]
            if heir.up is node:
                up, side = heir, 1
            else:
                up, side = heir.up, 0
                self.hang(rest, up, 0)
                self.hang(node.child[1], heir, 1)
            self.hang(heir, node.up, node.side() if node.up else 0)
            self.hang(node.child[0], heir, 0)
            heir.red = node.red
        else:
            red, rest = node.red, node.child[0] or node.child[1]
            up, side = node.up, node.side() if node.up else 0
            self.hang(rest, up, side)
        if not red:
            self.blacken(rest, up, side)

    def blacken(self, node, up, side):
        """Make good for a black node that is missing above `node`, the child of `up` on a side."""
        while up and not (node and node.red):
            sister = up.child[1 - side]
            if sister.red:
                sister.red, up.red = False, True
                self.turn(up, side)
                sister = up.child[1 - side]
            near, far = sister.child[side], sister.child[1 - side]
            if not (near and near.red) and not (far and far.red):
                sister.red = True
                node, up = up, up.up
                side = node.side() if up else 0
                continue
            if not (far and far.red):
                near.red, sister.red = False, True
                self.turn(sister, 1 - side)
                sister, far = near, sister
            sister.red, up.red, far.red = up.red, False, False
            self.turn(up, side)
            return
        if node:
            node.red = False

    def beside(self, low, high):
        """Return (node before, node after) a free range, as a search finds them."""
        at, last = self.root, None
        while at:
            last, at = at, at.child[int(low > at.high)]
        if not last:
            return None, None
        order = self.nodes()
        k = order.index(last)
        if last.high < low:
            return last, order[k + 1] if k + 1 < len(order) else None
        return order[k - 1] if k else None, last


class Range:
    """A CPU's part of the device."""

    def __init__(self, first, stop):
        self.first, self.stop, self.count = first, stop, max(stop - first, 0)
        self.tree, self.head, self.extents = Tree(), None, []
        up, last = -(-first // EXTENT) * EXTENT, (stop - 1) // EXTENT * EXTENT
        for low, end in ((first, min(up, stop)), (max(last, up), stop)):
            if low < end:
                self.tree.add(node := Node(low, end - 1), low)
                self.head = self.head or node
        self.extents = list(range(up, last, EXTENT))

    def holes(self):
        return self.count - EXTENT * len(self.extents)

    def usable(self):
        return self.head is not None or bool(self.extents)

    def extent(self):
        return self.extents.pop(0)

    def after(self, node):
        order = self.tree.nodes()
        return next(iter(order[order.index(node) + 1 :]), None)

    def take(self, want):
        if want == EXTENT and self.extents:
            self.count -= EXTENT
            return self.extent(), EXTENT
        if self.head is None:
            low = self.extent()
            self.head = Node(low, low + EXTENT - 1)
            self.tree.add(self.head, low)
        node = self.head
        start, got = node.low, min(want, node.high - node.low + 1)
        if start + got > node.high:
            self.head = self.after(node)
            self.tree.remove(node)
        else:
            node.low += got
        self.count -= got
        return start, got

    def give(self, start, count):
        self.count += count
        if start % EXTENT == 0 and count == EXTENT:
            self.extents = sorted([*self.extents, start])
            return
        before, after = self.tree.beside(start, start + count - 1)
        if before and before.high + 1 == start:
            before.high = start + count - 1
            if after and after.low == start + count:
                before.high = after.high
                self.head = before if self.head is after else self.head
                self.tree.remove(after)
            self.cut(before)
        elif after and after.low == start + count:
            after.low = start
            self.cut(after)
        else:
            self.tree.add(node := Node(start, start + count - 1), start)
            self.head = self.head if before else node

    def cut(self, node):
        """Take whole extents out of a hole; what is after them enters the tree as its first node."""
        whole = range(-(-node.low // EXTENT) * EXTENT, (node.high + 1) // EXTENT * EXTENT, EXTENT)
        if not whole:
            return
        first, stop, end = whole[0], whole[-1] + EXTENT, node.high
        if node.low < first:
            node.high = first - 1
            if stop <= end:
                self.tree.add(Node(stop, end), 0)
        elif stop <= end:
            node.low = stop
        else:
            self.head = self.after(node) if self.head is node else self.head
            self.tree.remove(node)
        self.extents = sorted([*self.extents, *whole])


class Holes:
    """The free blocks of the device; `cpu` is the current CPU."""

    def __init__(self, first, count, cpus):
        self.cpus, self.range, self.cpu, self.lost = cpus, count // cpus, 0, 0
        self.ranges = [Range(max(first, k * self.range), (k + 1) * self.range) for k in range(cpus)]

    @property
    def free(self):
        return range(sum(part.count for part in self.ranges))

    def of(self, cpu):
        """Return (blocks in holes, first blocks of extents) of a CPU."""
        return self.ranges[cpu].holes(), self.ranges[cpu].extents

    def pick(self, want):
        mine = self.ranges[self.cpu]
        if mine.count >= want and mine.usable():
            return mine
        holes = [part for part in self.ranges if want != EXTENT and part.holes() >= max(want, 1)]
        if holes:
            return max(holes, key=Range.holes)
        return max(self.ranges, key=lambda part: part.count)

    def take_run(self, want):
        part = self.pick(want)
        if not part.usable() or not part.count:
            part = next(part for part in self.ranges if part.extents or part.tree.root)
            part.head = part.head or part.tree.nodes()[0]
        return part.take(want)

    def take(self, unit=1):
        return self.take_run(1)[0]

    def give(self, start, count=1):
        part, at = self.ranges[start // self.range], start
        while at < start + count:
            if at + count > part.stop:
                self.lost += start + count - at
                return
            some = min(EXTENT, start + count - at)
            part.give(at, some)
            at += some

    def blocks(self):
        """Return the free blocks as a set."""
        found = set()
        for part in self.ranges:
            for node in part.tree.nodes():
                found |= set(range(node.low, node.high + 1))
            for start in part.extents:
                found |= set(range(start, start + EXTENT))
        return found
