"""Postmark 1.53 (as Debian ships it): its random numbers, its transactions and the sizes of its calls, exactly.

A pool of small files is created, then each transaction reads or appends to one file and creates or deletes another, then all are
deleted.  Source: J. Katcher, "PostMark: a new file system benchmark", NetApp TR3022 (1997); behaviour of postmark-1.53.c as seen
with strace.  Not modelled: several locations, time.
"""

import pathlib
from collections.abc import Iterator

import numpy as np

from scmsim.core.errors import UsageError
from scmsim.core.records import APPENDS, CLOSE, CREATE, DIRECTORY, MKDIR, OPEN, READ, RMDIR, STAT, UNLINK, WRITE, Files
from scmsim.workload import _foreign, _stream
from scmsim.workload._contents import contents
from scmsim.workload._stdio import BUFFER, sizes
from scmsim.workload._steps import Stream, calls, check_times, pieces

SUMMARY = "Postmark 1.53: create, append, read and delete small files, with the operations of the original"
PARAMS = {
    "config": (
        "",
        "file",
        "Postmark's configuration file (set number 1000, ..., run); its settings replace the defaults",
    ),
    "files": ("500", "files", "files created at first (set number)"),
    "transactions": ("500", "transactions", "transactions (set transactions)"),
    "size_low": ("500", "bytes", "minimum size of a new file (set size)"),
    "size_high": ("10000", "bytes", "new files are smaller than this, and only smaller files are appended to"),
    "read": ("512", "bytes", "block of a read (set read)"),
    "write": ("512", "bytes", "block of a write (set write)"),
    "buffering": ("true", "bool", "use the C library's streams (set buffering)"),
    "bias_read": ("5", "off|0|1|2|3|4|5|6|7|8|9|10", "reads among 10 reads and appends (set bias read)"),
    "bias_create": ("5", "off|0|1|2|3|4|5|6|7|8|9|10", "creations among 10 creations and deletions (set bias create)"),
    "subdirectories": ("0", "directories", "directories that the files are spread over (set subdirectories)"),
    "seed": ("42", "seed", "seed of the random numbers (set seed)"),
    "interval": ("1us", "time", "trace time between two calls"),
}

_CREATE, _READ, _APPEND, _DELETE = range(4)
_OPENING = np.array([CREATE, OPEN, OPEN, UNLINK])
_BATCH = 1 << 14  # actions per array of STEPs
_DRAWS = 1 << 15
_LIMIT = 1 << 31  # limit of C's int
_COUNTS = ("files", "transactions", "subdirectories", "size_high", "read", "write")


class Draws:
    """Postmark's random numbers: MT19937 in its first (1999) form, whose seeding differs from later versions.

    A call with x returns next % x; for x <= 0 it draws nothing and returns 0.
    """

    def __init__(self, seed: int) -> None:
        key, word = np.empty(624, np.uint32), seed & 0xFFFFFFFF
        for i in range(624):
            high = word & 0xFFFF0000
            word = (69069 * word + 1) & 0xFFFFFFFF
            key[i] = high | word >> 16
            word = (69069 * word + 1) & 0xFFFFFFFF
        self._bits = np.random.MT19937(0)
        self._bits.state = {"bit_generator": "MT19937", "state": {"key": key, "pos": 624}}
        self._random = np.random.RandomState(self._bits)
        self._next: Iterator[int] = iter(())

    def skip(self, count: int) -> None:
        """Draw `count` numbers before the first call and discard them."""
        self._bits.random_raw(count, output=False)

    def __call__(self, limit: int) -> int:
        if limit <= 0:
            return 0
        for word in self._next:
            return word % limit
        self._next = iter(self._random.randint(0, 1 << 32, _DRAWS, np.uint32).tolist())
        return next(self._next) % limit


class Workload(Stream):
    """Stream of Postmark's operations (a records.Source); see PARAMS: sizes in bytes, interval in nanoseconds.

    Raises UsageError for values that Postmark refuses or does not survive.
    """

    @_stream.declared(PARAMS)
    def __init__(self, p: _stream.Params) -> None:
        if p.config:
            text = contents(p.config, "a Postmark configuration")
            _foreign.merge(p, _foreign.postmark(text, pathlib.Path(p.config).name), Workload.__init__)
            self.header = _stream.header("postmark", p)
        if min(p.files, p.size_low, p.size_high, p.read, p.write) < 1 or p.size_low > p.size_high:
            raise UsageError("files, sizes and blocks must be at least 1, and size_low at most size_high")
        given = {name: getattr(p, name) for name in _COUNTS}
        if max(given.values()) >= _LIMIT or min(given.values()) < 0:
            wrong = max(given, key=lambda name: (given[name] < 0, given[name]))
            raise UsageError(f"{wrong} = {given[wrong]}: Postmark counts in C's int; give 0 to 2^31 - 1")
        self.count, self.transactions, self.low, self.high = p.files, p.transactions, p.size_low, p.size_high
        self.blocks = {_READ: p.read, _CREATE: p.write, _APPEND: p.write}
        self.buffered, self.seed = bool(p.buffering), p.seed
        self.bias = [-1 if bias == "off" else int(bias) for bias in (p.bias_read, p.bias_create)]
        self.reading = (
            BUFFER + 2 * p.size_high
        )  # memory: the stream's buffer, the text (twice size_high), the read block
        self.directories = p.subdirectories if p.subdirectories > 1 else 0
        self._count()

    def _count(self) -> None:
        """Go through the actions once: the side table needs every file that will ever be created."""
        where, rows = [np.zeros(0, np.int64)], 2 * self.directories
        for actions in self._actions():
            where.append(actions[actions[:, 0] == _CREATE, 4])
            rows += int(pieces(self._calls(actions)).sum())
        self.rows = rows
        check_times(rows, self.interval)
        parents, top = np.concatenate(where).tolist(), "/postmark"
        names = [top, *[f"{top}/s{i}" for i in range(self.directories)]]
        paths = names + [f"{names[parent]}/{i}" for i, parent in enumerate(parents, 1)]
        first_size = np.full(len(paths), -1, np.int64)
        first_size[0] = 0
        self.files = Files(paths, first_size, np.arange(len(paths)) < len(names))

    def steps(self) -> Iterator[np.ndarray]:
        """Yield the operations as STEPs."""
        folders = np.arange(1, self.directories + 1)
        yield calls(len(folders), op=MKDIR, file=folders, parent=0, flag=DIRECTORY)
        for actions in self._actions():
            yield self._calls(actions)
        yield calls(len(folders), op=RMDIR, file=folders, parent=0, flag=DIRECTORY)

    def _actions(self) -> Iterator[np.ndarray]:
        """Yield rows of (what, file, size before, bytes, directory)."""
        rows: list[int] = []
        for action in self._run():
            rows += action
            if len(rows) >= 5 * _BATCH:
                yield np.array(rows, np.int64).reshape(-1, 5)
                rows = []
        yield np.array(rows, np.int64).reshape(-1, 5)

    def _run(self) -> Iterator[tuple[int, int, int, int, int]]:
        """Yield the benchmark's actions, drawn with a table of twice as many slots as files."""
        draw, pool = Draws(self.seed), _Pool(2 * self.count, 1 + self.directories)
        draw.skip(2 * self.high)  # Postmark first draws the text that it writes to all files
        for _ in range(self.count):
            yield from self._create(pool, draw)
        for _ in range(self.transactions):
            if not pool.live:
                return
            if self.bias[0] >= 0:
                reads, slot = draw(10) < self.bias[0], pool.pick(draw)
                if reads:
                    yield _READ, pool.file[slot], 0, pool.size[slot], 0
                elif (size := pool.size[slot]) < self.high:
                    more = draw(self.high - size) + 1
                    pool.size[slot] += more
                    yield _APPEND, pool.file[slot], size, more, 0
            if self.bias[1] >= 0:
                if draw(10) < self.bias[1]:
                    yield from self._create(pool, draw)
                else:
                    slot = pool.pick(draw)
                    yield _DELETE, pool.file[slot], 0, 0, pool.folder[slot]
                    pool.drop(slot)
        for slot in range(2 * self.count):
            if pool.used[slot]:
                yield _DELETE, pool.file[slot], 0, 0, pool.folder[slot]

    def _create(self, pool: "_Pool", draw: Draws) -> Iterator[tuple[int, int, int, int, int]]:
        slot = pool.free()
        if slot < 0:
            return
        folder = 1 + draw(self.directories) if self.directories else 0
        size = self.low + draw(self.high - self.low)
        file = pool.put(slot, size, folder)
        yield _CREATE, file, 0, size, folder

    def _calls(self, actions: np.ndarray) -> np.ndarray:
        """Return open, transfer and close, or unlink, for each action in turn.

        glibc queries the block size of a new stream, hence the STAT.
        """
        what, file, _, _, folder = actions.T
        index = np.arange(len(actions))
        opened = calls(len(actions), op=_OPENING[what], file=file)
        opened["parent"] = np.where((what == _CREATE) | (what == _DELETE), folder, -1)
        kept = index[what != _DELETE]
        at, moved = self._transfers(actions[kept])
        asked = kept[actions[kept, 3] > 0] if self.buffered else kept[:0]
        steps = [
            opened,
            calls(len(asked), op=STAT, file=file[asked]),
            moved,
            calls(len(kept), op=CLOSE, file=file[kept]),
        ]
        order = np.concatenate((4 * index, 4 * asked + 1, 4 * kept[at] + 2, 4 * kept + 3))
        return np.concatenate(steps)[np.argsort(order, kind="stable")]

    def _transfers(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return (number of the action, STEP) of each transfer."""
        what, file, before, length, _ = actions.T
        reads = what == _READ
        block = np.where(reads, self.blocks[_READ], self.blocks[_CREATE])
        moved = calls(len(what), op=np.where(reads, READ, WRITE), file=file, flag=np.where(what == _APPEND, APPENDS, 0))
        moved["offset"], moved["length"] = before, length
        at = np.arange(len(what))
        if self.buffered and max(self.blocks.values()) >= BUFFER:
            return self._beside_the_buffer(moved, block)
        if self.buffered:
            moved["unit"] = moved["stride"] = BUFFER
            return at, moved
        rest = moved.copy()  # whole blocks, then the remainder, which may be empty
        moved["unit"] = moved["stride"] = block
        moved["buffer"] = np.where(reads, self.reading, BUFFER)
        moved["buffer_stride"] = np.where(reads, 0, block)
        moved["length"] -= length % block
        rest["length"] = length % block
        rest["offset"] += moved["length"]
        rest["buffer"] = moved["buffer"] + np.where(reads, 0, moved["length"])
        whole = moved["length"] > 0
        return np.concatenate((at[whole], at)), np.concatenate((moved[whole], rest))

    def _beside_the_buffer(self, moved: np.ndarray, block: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return one STEP per system call: library calls with blocks of BUFFER bytes or more bypass the stream's buffer."""
        cuts = [np.array(sizes(*pair), np.int64) for pair in zip(moved["length"].tolist(), block.tolist(), strict=True)]
        at = np.repeat(np.arange(len(cuts)), [len(cut) for cut in cuts])
        done = np.concatenate([np.zeros(0, np.int64), *[np.cumsum(cut) - cut for cut in cuts]])
        steps = moved[at]
        steps["offset"] += done
        steps["length"] = np.concatenate([np.zeros(0, np.int64), *cuts])
        past = (steps["length"] >= BUFFER) & (block[at] >= BUFFER)
        where = np.where(steps["op"] == READ, self.reading + done % block[at], BUFFER + done)
        steps["buffer"] = np.where(past, where, 0)
        return at, steps


class _Pool:
    """Postmark's table: `size`, `file` and `folder` of each slot, and which slots are used."""

    def __init__(self, slots: int, first_file: int) -> None:
        self.slots, self.next_file, self.next_slot, self.live = slots, first_file, 0, 0
        self.used = bytearray(slots)
        self.size, self.file, self.folder = [0] * slots, [0] * slots, [0] * slots

    def free(self) -> int:
        """Return the next slot if it is empty, else the first hole, else -1."""
        if self.next_slot < self.slots and not self.used[self.next_slot]:
            return self.next_slot
        return self.used.find(0)

    def put(self, slot: int, size: int, folder: int) -> int:
        """Occupy a slot with a new file and return the file's id."""
        self.size[slot], self.file[slot], self.folder[slot] = size, self.next_file, folder
        self.used[slot] = 1
        self.live, self.next_slot, self.next_file = self.live + 1, slot + 1, self.next_file + 1
        return self.file[slot]

    def pick(self, draw: Draws) -> int:
        """Draw slots until one is used; return this slot."""
        slot = draw(self.slots)
        while not self.used[slot]:
            slot = draw(self.slots)
        return slot

    def drop(self, slot: int) -> None:
        """Empty a slot."""
        self.used[slot] = 0
        self.live -= 1
