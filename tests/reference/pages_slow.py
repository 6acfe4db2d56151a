"""Page-size policies, slow and obvious: a file is a list of pages, free space one byte a frame."""

FRAME = 4096
GIANT = 18


class Device:
    """`rules` as a policy's file gives them; `frames` in the device."""

    def __init__(self, frames, *, order=0, super_order=None, threshold=1 << 60, boundary=None, sizing=0, pieces=0, **_):
        self.frames, self.order, self.super_order, self.threshold = frames, order, super_order, threshold
        self.boundary, self.sizing, self.pieces = boundary or frames, sizing, pieces
        self.separate = boundary is not None
        self.free = bytearray(b"\1" * frames)
        self.files = {}  # file -> [length, kept frames, names, on superpages, pages as (frame, order), spilled]
        self.counts = dict.fromkeys(
            ("failed", "refused", "missing", "although_free", "migrations", "migrated", "spilled"), 0
        )

    def zone(self, number):
        return range(0, self.boundary) if number == 0 else range(self.boundary, self.frames)

    def take(self, zone, order):
        step, first, last = 1 << order, self.zone(zone).start, self.zone(zone).stop
        for start in [self.free.find(1, first, last)] if order == 0 else range(-(-first // step) * step, last, step):
            if start >= 0 and start + step <= last and all(self.free[start : start + step]):
                self.free[start : start + step] = bytes(step)
                return start
        return None

    def take_small(self, file):
        start = self.take(0, 0)
        if start is None and self.separate:
            start = self.take(1, 0)
            self.counts["spilled"] += start is not None and not file[5]
            file[5] |= start is not None
        return start

    def give(self, start, order):
        self.free[start : start + (1 << order)] = b"\1" * (1 << order)

    def available(self, zone):
        return sum(self.free[self.zone(zone).start : self.zone(zone).stop])

    @staticmethod
    def held(file):
        return sum(1 << order for _, order in file[4])

    def drop(self, file, keep):
        """Free what lies behind `keep` frames; a page that would be cut stays, or is broken where pages are in pieces."""
        held = self.held(file)
        while file[4] and held > keep:
            start, order = file[4][-1]
            if held - (1 << order) >= keep:
                file[4].pop()
                held -= 1 << order
                self.give(start, order)
            elif self.pieces:
                file[4][-1:] = [(start + i, 0) for i in range(1 << order)]
            else:
                return

    def page_wanted(self, file, held, want):
        """log2 of the next page, as large as the rules allow."""
        missing = want - held
        if self.sizing == 0:
            return self.super_order if file[3] else self.order
        fits = [o for o in range(GIANT + 1) if held % (1 << o) == 0]
        exact = max(o for o in fits if 1 << o <= missing)
        if self.sizing == 1:
            return exact
        return next((o for o in fits if o >= exact and 1 << o >= max(missing, held)), fits[-1])

    def extend(self, file, want, mixed=True):
        zone = 1 if file[3] and self.separate else 0
        held = self.held(file)
        while held < want:
            order = self.page_wanted(file, held, want)
            start = None
            begins = held % (1 << order) == 0
            if order and begins:
                start = self.take(zone, order)
                if start is None:
                    self.counts["missing"] += 1
                    self.counts["although_free"] += self.available(zone) >= 1 << order
                    if self.pieces:
                        for _ in range(1 << order):
                            start = self.take(zone, 0)
                            if start is None:
                                return False
                            file[4].append((start, 0))
                        held += 1 << order
                        continue
                    while self.sizing and start is None and order:
                        order -= 1
                        start = self.take(zone, order)
                    if start is None and not (mixed and file[3]):
                        return False
            if start is None:
                order = 0
                start = self.take_small(file)
                if start is None:
                    return False
            file[4].append((start, order))
            held += 1 << order
        return True

    def migrate(self, file, want):
        moved = [*file[:3], True, [], file[5]]
        if not self.extend(moved, want, mixed=False):
            self.drop(moved, 0)
            return False
        self.counts["migrations"] += bool(file[4])
        self.counts["migrated"] += self.held(file)
        self.drop(file, 0)
        file[3:5] = moved[3:5]
        return True

    def grow(self, file, want):
        held = self.held(file)
        if want - held > sum(self.free):
            return False
        above = self.super_order is not None and want > self.threshold and not file[3]
        if above and self.migrate(file, want):
            return True
        if self.extend(file, want):
            return True
        self.drop(file, held)
        return False

    def resize(self, number, length, kept):
        file = self.files[number]
        want = max(-(-length // FRAME), kept)
        missing = want - self.held(file)
        if missing > 0 and not self.grow(file, want):
            self.counts["failed"] += 1
            self.counts["refused"] += missing <= sum(self.free)
            return
        if missing < 0:
            unit = 1 << self.order
            self.drop(file, -(-want // unit) * unit if self.pieces else want)
        file[0], file[1] = length, kept

    def remove(self, number):
        self.drop(self.files[number], 0)
        del self.files[number]

    def op(self, name, number, offset=0, length=0, other=-1, keep=False):
        if name == "rename" and other in self.files and other != number:
            self.remove(other)
        if name == "create":
            if number in self.files:
                self.files[number][2] = 1
                self.resize(number, 0, 0)
            else:
                self.files[number] = [0, 0, 1, False, [], False]
        grows = name == "truncate" or (name == "write" and length) or (name == "fallocate" and not keep)
        made = grows and number not in self.files  # by a write to a file that the trace did not see made
        if made:
            self.files[number] = [0, 0, 1, False, [], False]
        file = self.files.get(number)
        if file is None:
            return
        failed = self.counts["failed"]
        self.change(file, name, number, offset, length, keep)
        if made and self.counts["failed"] > failed:
            del self.files[number]

    def change(self, file, name, number, offset, length, keep):
        if name == "write" and length:
            self.resize(number, max(file[0], offset + length), file[1])
        elif name == "truncate":
            self.resize(number, offset, 0)
        elif name == "fallocate" and keep:
            self.resize(number, file[0], max(file[1], -(-(offset + length) // FRAME)))
        elif name == "fallocate":
            self.resize(number, max(file[0], offset + length), file[1])
        elif name == "link":
            file[2] += 1
        elif name == "unlink":
            file[2] -= 1
            if file[2] <= 0:
                self.remove(number)
        elif name == "close" and self.pieces:
            self.drop(file, max(-(-file[0] // FRAME), file[1]))
