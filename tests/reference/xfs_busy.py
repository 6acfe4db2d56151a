"""Busy extents of an XFS allocation group in a red-black tree like the kernel's: slow, with a stack of the way down.

Source: Linux 6.1 fs/xfs/xfs_extent_busy.c, lib/rbtree.c.
"""


class Node:
    """An extent [start, end) in the tree."""

    def __init__(self, start, end):
        self.start, self.end, self.left, self.right, self.red = start, end, None, None, True


class Busy:
    """The tree of a group."""

    def __init__(self):
        self.root = None

    def insert(self, start, end):
        """Add an extent."""
        way, at = [], self.root
        while at:
            way.append(at)
            at = at.left if start < at.start else at.right
        new = Node(start, end)
        if not way:
            self.root = new
        elif start < way[-1].start:
            way[-1].left = new
        else:
            way[-1].right = new
        way.append(new)
        while len(way) > 2 and way[-2].red:
            node, parent, grand = way[-1], way[-2], way[-3]
            is_left = parent is grand.left
            uncle = grand.right if is_left else grand.left
            if uncle and uncle.red:
                parent.red = uncle.red = False
                grand.red = True
                del way[-2:]
                continue
            top = self.turned(node, parent, grand, is_left)
            top.red, grand.red = False, True
            if len(way) == 3:
                self.root = top
            elif way[-4].left is grand:
                way[-4].left = top
            else:
                way[-4].right = top
            break
        self.root.red = False

    @staticmethod
    def turned(node, parent, grand, is_left):
        """Rotate the upper three nodes; return the one that is on top now."""
        if is_left and node is parent.right:
            parent.right, node.left, grand.left, node.right = node.left, parent, node.right, grand
            return node
        if not is_left and node is parent.left:
            parent.left, node.right, grand.right, node.left = node.right, parent, node.left, grand
            return node
        if is_left:
            grand.left, parent.right = parent.right, grand
        else:
            grand.right, parent.left = parent.left, grand
        return parent

    def trim(self, bno, length, minlen, maxlen):
        """Return what xfs_extent_busy_trim leaves of a free run, as (start, length)."""
        fbno, fend, at = bno, bno + length, self.root
        while at and fend - fbno >= minlen:
            if fend <= at.start:
                at = at.left
            elif fbno >= at.end:
                at = at.right
            elif at.start <= fbno:
                if fend <= at.end:
                    return bno, 0
                fbno = at.end
            elif at.end >= fend or at.start - fbno >= maxlen:
                fend = at.start
            elif fend - at.end >= maxlen * 4:
                fbno = at.end
            elif at.start - fbno >= minlen:
                fend = at.start
            else:
                return bno, 0
        return fbno, fend - fbno

    def extents(self):
        """Return all extents in order."""

        def below(node):
            return [*below(node.left), (node.start, node.end), *below(node.right)] if node else []

        return below(self.root)
