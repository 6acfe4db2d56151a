"""One pass of an fio job with sets and lists, random map or none: the reference implementation of workload/kernels/fio_job.py.

Source: fio 3.33, io_u.c (get_next_file, get_rw_ddir, get_next_offset, get_next_buflen) and backend.c (do_io).
"""


def taus88(words):
    """L'Ecuyer's generator with Python's integers, from its recurrences."""
    while True:
        for i, (k, q, s, keep) in enumerate(((13, 19, 12, ~1), (2, 25, 4, ~7), (3, 11, 17, ~15))):
            z = words[i]
            mixed = ((z << k & 0xFFFFFFFF) ^ z) >> q
            words[i] = ((z & keep & 0xFFFFFFFF) << s & 0xFFFFFFFF) ^ mixed
        yield words[0] ^ words[1] ^ words[2]


class Job:
    """`job` as scmsim.workload._fio_file reads it, `words` the seeded states by name, `files` (first byte, span, end) of each."""

    def __init__(self, job, words, files):
        self.job, self.files = job, files
        self.numbers = {name: taus88(list(state)) for name, state in words.items()}
        self.open, self.done = [False] * len(files), [False] * len(files)
        self.position = [{"read": first, "write": first} for first, _, _ in files]
        self.used: list[set[int]] = [set() for _ in files]
        self.count, self.bytes, self.synced = {"read": 0, "write": 0}, 0, False
        self.current, self.served, self.following = None, 0, 0
        self.way, self.until = "read", 0

    def below(self, name, n):
        """A number from 0 to n - 1."""
        return int(n * (next(self.numbers[name]) / 2**32))

    def rows(self):
        """(what, file, offset, length) until the pass ends."""
        job, limit = self.job, self.job.io_size or self.job.size
        while self.bytes < limit and not (job.number_ios and sum(self.count.values()) >= job.number_ios):
            if all(self.done):
                return
            number = self.file()
            if not self.open[number]:
                self.open[number], self.used[number] = True, set()
                self.position[number] = dict.fromkeys(("read", "write"), self.files[number][0])
                yield "open", number, -1, 0
            yield self.turn(number)

    def file(self):
        """The current one for as many turns as it is served, then the next."""
        if self.current is not None and self.open[self.current]:
            if self.job.service == "sequential" or self.served < self.job.service_count:
                self.served += 1
                return self.current
        while True:
            if self.job.service == "random":
                number = self.below("file", len(self.files))
            else:
                number = self.following
                self.following = (number + 1) % len(self.files)
            if not self.done[number]:
                self.current, self.served = number, 1
                return number

    def turn(self, number):
        way = self.direction()
        if way in ("fsync", "fdatasync"):
            self.synced = True
            return way, number, -1, 0
        offset = self.offset(number, way)
        length = self.length(number, way, offset) if offset is not None else 0
        if length == 0 or offset + length > self.files[number][2]:
            self.open[number], self.done[number] = False, True
            return "close", number, -1, 0
        if self.job.random and not self.job.norandommap:
            least, first = self.job.least[way == "write"], (offset - self.files[number][0])
            blocks = range(first // least, first // least + -(-length // least))
            free = next(
                (k for k, b in enumerate(blocks) if b in self.used[number] or b >= self.blocks(number)), len(blocks)
            )
            self.used[number] |= set(blocks[:free])
            length = min(length, free * least)
        self.position[number][way] = offset + length
        self.count[way] += 1
        self.bytes += length
        self.synced = False
        return way, number, offset, length

    def direction(self):
        job, written = self.job, self.count["write"]
        if job.writes and written and not self.synced:
            for name, every in (("fsync", job.fsync), ("fdatasync", job.fdatasync)):
                if every and written % every == 0:
                    return name
        if not (job.reads and job.writes):
            return "read" if job.reads else "write"
        if self.count[self.way] >= self.until:
            drawn = "read" if 1 + self.below("mix", 100) <= job.rwmixread else "write"
            if drawn != self.way:
                other = job.rwmixread if self.way == "write" else 100 - job.rwmixread
                self.until = self.count[self.way] * other // 100
            self.way = drawn
        return self.way

    def blocks(self, number):
        """How many the map of a file has."""
        first, span, end = self.files[number]
        return min(span, end) // min(self.job.least)

    def offset(self, number, way):
        first, span, end = self.files[number]
        if not self.job.random:
            at = self.position[number][way]
            return at if at < end and at - first < span else None
        least = self.job.least[way == "write"]
        if min(span, end) < least:
            return None
        block = self.below("block", min(span, end) // least)
        if not self.job.norandommap:
            there = self.blocks(number)
            tries = [*range(block, there), *range(block)]
            block = next((b for b in tries if b not in self.used[number]), None)
            if block is None:
                return None
        return block * least + first if block * least < span and block * least + first < end else None

    def length(self, number, way, offset):
        first, span, _ = self.files[number]
        least, most = self.job.least[way == "write"], self.job.most[way == "write"]
        if least == most:
            return least
        room = first + span - offset
        if room < least:
            return 0
        while True:
            length = least + self.below(f"{way} size", most)
            length = min(length - length % least, most)
            if length <= room:
                return length
