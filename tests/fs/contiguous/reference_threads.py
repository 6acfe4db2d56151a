"""Model the files of the slow SCMFS, and the work of its background threads between operations."""

PAGE, PIECE = 4096, 512


class File:
    def __init__(self, number, name, is_dir=False):
        self.number, self.name, self.is_dir = number, name, is_dir
        self.queued = False
        self.clear()

    def clear(self):
        self.exists, self.links, self.opens, self.size, self.records = False, 0, 0, 0, 0
        self.pages, self.tables, self.supers, self.spare = {}, {}, [], range(0)
        self.reach = 0  # end of mapped pages at the last truncation, though a hole may precede it
        self.parent, self.place, self.range, self.written = None, 0, 0, -(1 << 62)

    def block(self, page):
        if page < PIECE * len(self.supers):
            return self.supers[page // PIECE] + page % PIECE
        return self.pages.get(page)

    def end(self):
        """Return the page after the last one that is mapped, or that was until the last truncation."""
        return max([self.reach, PIECE * len(self.supers), *(page + 1 for page in self.pages)])

    def mapped(self):
        return PIECE * len(self.supers) + len(self.pages) - len(self.spare)

    def record(self):
        return -(-(16 + len(self.name)) // 8) * 8


class Threads:
    """The background threads: migration to superpages, one file at a time, and the collector of unused pages."""

    def enqueue(self, f):
        normal = f.mapped() - PIECE * len(f.supers)
        if self.threshold is None or f.queued or f.mapped() <= self.threshold or (f.supers and normal < PIECE):
            return
        f.queued = True
        self.queue.append(f)

    def background(self, op, f, other):
        if self.moving:
            touched = other if op == "rename" else f
            blocks = op in ("write", "truncate", "fallocate", "unlink", "close", "rename") and touched is self.moving
            if self.now < self.moved_at and blocks and op == "write":
                self.waited += 1
            if self.now >= self.moved_at or blocks:
                self.settle()
        if not self.moving and self.queue:
            g = self.queue.popleft()
            g.queued = False
            if g.exists and (g.opens <= 0 or self.now - g.written >= self.quiet):
                self.migrate(g)
                if self.moving:
                    self.background(op, f, other)
                    return
            elif g.exists:
                self.enqueue(g)
        if self.unused() > self.tidy_above and self.now - self.tidied >= self.tidy_every:
            self.tidy()

    def migrate(self, f):
        held = page = PIECE * len(f.supers)
        while page in f.pages and page not in f.spare:
            page += 1
        wanted = page // PIECE + (self.whole and page % PIECE > 0 and page * PAGE >= f.size)
        count = wanted - len(f.supers)
        if count <= 0 or count > len(self.super_free):
            return
        self.filling = [self.super_free.pop() for _ in range(count)]
        top = min(page, wanted * PIECE)
        for counts in (self.loaded, self.stored):
            counts["migration"] += (top - held) * PAGE
        self.moving, self.moved_at = f, self.now + (top - held) * PAGE * 10**9 // self.rate

    def settle(self):
        f, first = self.moving, PIECE * len(self.moving.supers)
        stop = first + PIECE * len(self.filling)
        if f.spare and f.spare.start < stop:
            self.drop_spare(f)
        for page in [page for page in f.pages if page < stop]:
            self.free.add(f.pages.pop(page))
        for piece in [piece for piece in f.tables if piece * PIECE < stop]:
            self.free.add(f.tables.pop(piece))
        self.ordered("page table", 0, 8 * len(self.filling))
        self.ordered("inode", 32, 16)
        self.unmapped += stop - first
        f.supers += self.filling
        self.filling, self.moving = [], None
        self.migrations += 1

    def tidy(self):
        while self.nulls and self.unused() > self.tidy_above:
            self.drop_spare(self.nulls.pop())
        for f in self.files:
            if f.spare and f.written <= self.tidied and self.unused() > self.tidy_above:
                self.drop_spare(f)
        self.tidied = self.now
