"""Model the calls of the SCM manager, FAT and ext2 on top of reference.py: data, names, memory objects."""

from tests.fs.scm_manager.reference import EXT2, FAT, MANAGER, Scm
from tests.reference.buddy_slow import SMALLEST


class Calls(Scm):
    """The file system with its calls; `do` performs one operation, given like the rows of tests.fs.drive.ops."""

    silent = False

    def do(self, op, number, offset=0, length=0, file2=-1, flag=0):
        self.reset()
        f, parent = self.files[number], self.files[file2] if 0 <= file2 and op != "rename" else self.files[-1]
        if not parent.is_dir and op != "rename":
            parent = self.files[-1]
        objects = ("malloc", "free", "load", "store", "mm_to_file", "file_to_mm")
        if op in objects and self.kind != MANAGER:
            return
        if op in ("malloc", "free", "load", "store", "mm_to_file"):
            getattr(self, "store_object" if op == "store" else op)(f, offset, length, parent)
            return
        if f.memory and not f.exists:
            return
        if not f.exists and not (op == "create" and number not in self.before):
            self.adopt(f, parent)
        if op == "file_to_mm":
            self.file_to_mm(f, file2, parent)
        elif op in ("create", "unlink", "rename"):
            getattr(self, op)(
                f, self.files[file2] if op == "rename" and file2 >= 0 and file2 != number else parent, file2
            )
        elif op in ("write", "read", "fallocate"):
            if length > 0 or op == "read":
                getattr(self, op)(f, offset, length)
        elif op == "truncate":
            self.truncate(f, offset)
        elif op == "close":
            self.closes += 1
            f.opens = max(f.opens - 1, 0)
        elif op == "open":
            f.opens += 1
        elif op == "fsync":
            self.fences["fsync"] += 1
        self.finish(op, f, self.files[file2] if file2 >= 0 else None)

    def finish(self, op, f, replaced):
        parent, gone = f.parent, {"rename": replaced, "unlink": f, "close": f}.get(op)
        if gone is not None and gone.exists and gone.links <= 0 and (self.closes == 0 or gone.opens <= 0):
            self.shorten(gone, 0)
            if gone.inode is not None:
                self.space.give(gone.inode, 64)
            gone.clear()
        changes = ("create", "write", "truncate", "fallocate", "unlink", "rename")
        if self.kind != MANAGER and (op == "fsync" or (self.sync and op in changes)):
            self.synchronize(f, parent)

    def adopt(self, f, parent):
        size = self.before.pop(f.number, 0)
        self.silent, sync, self.sync = True, self.sync, False
        f.exists, f.links = True, 1
        self.new_inode(f)
        if f is not parent:
            self.add_name(f, parent)
        self.extend(f, 0, -(-size // self.unit))
        f.length = size
        f.cached -= set(range(-(-size // self.unit)))
        f.leaf_cached.clear()
        f.leaf_dirty.clear()
        for at in f.units.values() if self.nftl else ():
            self.nftl.write(at // 512)
        self.silent, self.sync = False, sync

    # Data.

    def lengthen(self, f, first, end):
        """Allocate units up to `end` bytes: with ext2 from `first` on, otherwise all units after the file's end."""
        if f.short and end > f.short:
            old, f.units[0] = f.units[0], self.take()
            self.stored["conversion"] += f.length
            self.loaded["conversion"] += f.length
            self.space.give(old, f.short)
            f.short = 0
        self.extend(f, first // self.unit if self.kind == EXT2 else f.end, -(-end // self.unit))

    def zero(self, f, low, high):
        if high > low and self.kind == MANAGER:
            self.store("zeroing", high - low)
        if high > low:
            for i in range(low // self.unit, (high - 1) // self.unit + 1):
                self.mark(f, i)

    def write(self, f, offset, length):
        end = offset + length
        if self.kind == MANAGER:
            self.loaded["inode"] += 16
        self.walk(f, offset // self.unit)
        self.lengthen(f, offset, end)
        if self.kind != EXT2:
            self.zero(f, f.length, offset)
        if offset % self.unit and offset // self.unit * self.unit < f.length:
            self.fetch(f, offset // self.unit)
        if end % self.unit and end < f.length:
            self.fetch(f, end // self.unit)
        if self.kind == MANAGER:
            self.store("data copy", length)
        for i in range(offset // self.unit, (end - 1) // self.unit + 1):
            self.mark(f, i)
        f.cursor = (end - 1) // self.unit
        f.length = max(f.length, end)
        self.touch_inode(f)

    def read(self, f, offset, length):
        end = min(offset + length, f.length)
        if self.kind == MANAGER:
            self.loaded["inode"] += 16
        if offset < f.length and length > 0:
            self.walk(f, offset // self.unit)
        if end <= offset:
            return
        if self.kind == MANAGER:
            self.loaded["data copy"] += end - offset
        for i in range(offset // self.unit, (end - 1) // self.unit + 1):
            self.fetch(f, i)
        f.cursor = (end - 1) // self.unit

    def shorten(self, f, stop):
        """Free the units from `stop` on."""
        for i in sorted(i for i in f.units if i >= stop):
            self.store("allocation", 4 if self.kind == MANAGER else 0)
            if self.kind != MANAGER:
                self.mark_table(self.entry_unit(f.units[i]))
            self.give(f, i)
        if self.kind == EXT2:
            leaves = -(-max(stop - 12, 0) // 256)
            for i in [i for i in f.leaves if i >= leaves]:
                self.free.add((f.leaves.pop(i) - self.origin) // self.unit)
                f.leaf_cached.discard(i)
                f.leaf_dirty.discard(i)
            for i in [i for i in f.uppers if i > -(-max(leaves - 1, 0) // 256)]:
                self.free.add((f.uppers.pop(i) - self.origin) // self.unit)
        f.end, f.cursor = min(f.end, stop), 0

    def truncate(self, f, size):
        if size > f.length and self.kind != EXT2:
            self.lengthen(f, f.length, size)
            self.zero(f, f.length, size)
        elif size < f.length:
            tail = min(f.length, -(-size // self.unit) * self.unit)
            if size % self.unit and size // self.unit in f.units:
                self.zero(f, size, tail)
            self.shorten(f, -(-size // self.unit))
        f.length = size
        self.touch_inode(f)

    def fallocate(self, f, offset, length):
        self.lengthen(f, offset, offset + length)
        self.zero(f, max(f.length, offset) if self.kind == EXT2 else f.length, offset + length)
        f.length = max(f.length, offset + length)
        self.touch_inode(f)

    # Names.

    def entries(self, f):
        if self.kind == FAT:
            return 1 if len(f.name) <= 12 else 1 + -(-len(f.name) // 13)
        return -(-(8 + len(f.name)) // 16) if self.kind == EXT2 else 1

    def scan(self, directory, count):
        if self.kind == MANAGER and directory.units and not self.silent:
            self.loaded["directory scan"] += 8 * count

    def add_name(self, f, directory):
        needs = self.entries(f)
        slot = next(k for k in range(10**6) if all(k + j not in directory.slots for j in range(needs)))
        self.extend(directory, directory.end, -(-(slot + needs) * self.entry // self.unit))
        directory.slots.update({slot + j: f.number for j in range(needs)})
        directory.top = max(directory.top, slot + needs)
        f.parent, f.slot = directory, slot
        self.write_entry(directory, slot, needs)

    def write_entry(self, directory, slot, needs):
        if self.kind == MANAGER:
            self.store("directory", 8)
        for j in range(slot, slot + needs):
            self.mark(directory, j * self.entry // self.unit)

    def remove_name(self, f, directory):
        if f.slot is None:
            return
        needs = self.entries(f)
        self.scan(directory, f.slot + needs)
        for j in range(needs):
            del directory.slots[f.slot + j]
        self.write_entry(directory, f.slot, needs)
        f.slot = None

    def new_inode(self, f):
        if self.kind == MANAGER:
            f.inode = self.space.take(64)
            self.store("inode", 64)

    def create(self, f, parent, _):
        if f.exists:
            f.opens += 1
            return
        self.scan(parent, parent.top)
        f.exists, f.links, f.opens = True, 1, 1
        self.new_inode(f)
        self.add_name(f, parent)
        self.extend(f, 0, self.first)
        self.touch_inode(f)

    def lose_link(self, f):
        f.links -= 1
        if self.kind != FAT:
            self.touch_inode(f)

    def unlink(self, f, parent, _):
        self.remove_name(f, f.parent)
        self.lose_link(f)

    def rename(self, f, replaced, file2):
        directory = f.parent
        self.scan(directory, directory.top)
        if 0 <= file2 != f.number and replaced.exists:
            self.remove_name(replaced, replaced.parent)
            self.lose_link(replaced)
        elif 0 <= file2 != f.number:
            self.before.pop(file2, None)
        self.remove_name(f, directory)
        self.add_name(f, directory)
        self.touch_inode(f)

    # Memory objects.

    def malloc(self, f, _, length, parent):
        if f.exists or f.memory:
            return
        size = SMALLEST
        while size < length:
            size *= 2
        at = self.space.take(size)
        f.clear()
        f.units = {i: at + 512 * i for i in range(max(size // 512, 1))}
        f.end, f.short = len(f.units), size if size < 512 else 0
        f.length, f.memory = max(length, 1), True
        self.before.pop(f.number, None)

    def free(self, f, *_):
        if f.memory and not f.exists:
            for i in list(f.units):
                self.give(f, i)
            f.clear()
        f.memory = False

    def load(self, f, offset, length, _):
        if f.memory:
            self.loaded["memory object"] += max(min(offset + length, f.length) - offset, 0)

    def store_object(self, f, offset, length, _):
        if f.memory:
            self.stored["memory object"] += max(min(offset + length, f.length) - offset, 0)

    def mm_to_file(self, f, offset, length, parent):
        if not f.memory or f.exists:
            return
        self.stored["conversion"] += 4 * -(-f.length // 512)
        f.exists, f.memory, f.links, f.opens = True, False, 1, 1
        self.new_inode(f)
        self.add_name(f, parent)

    def file_to_mm(self, f, file2, parent):
        self.loaded["inode"] += 16
        f.memory = True
        if file2 >= 0:
            self.remove_name(f, f.parent)
            self.space.give(f.inode, 64)
            f.inode, f.links, f.opens, f.exists = None, 0, 0, False
