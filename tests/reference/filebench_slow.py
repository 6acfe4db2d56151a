"""Filebench's flowops written the slow and obvious way: a reference implementation of scmsim/workload/kernels/filebench_run.py.

Each function takes (world, thread, parameters) and returns whether the thread may go on; False means that it waits (no file to be
had, or a semaphore) and tries again at its next turn.
"""

from collections.abc import Callable

import numpy as np

from scmsim.core.records import APPENDS, CLOSE, CREATE, FSYNC, OPEN, READ, STAT, SYNCHRONOUS, UNLINK, WRITE
from scmsim.workload._wml import Flowop

MAX_DESCRIPTORS = 128  # a thread's descriptors (threadflow.h); opennext goes round them
_DRAWS = 1 << 14


class Files:
    """State of one file set: which files exist, their present sizes and open descriptors, and the two rotors."""

    def __init__(self, first_id: int, folders: list[int], sizes: list[int]) -> None:
        self.first_id, self.folders, self.drawn = first_id, folders, sizes
        self.exists = bytearray(len(sizes))
        self.size, self.opened = [0] * len(sizes), [0] * len(sizes)
        self.old_rotor: dict[int, int] = {}  # one for each thread that uses opennext, and 0 for all others
        self.new_rotor = 0

    def pick_old(self, rotor: int = 0) -> int:
        """The next existing file, or -1."""
        found = self.exists.find(1, self.old_rotor.get(rotor, 0))
        found = self.exists.find(1) if found < 0 else found
        self.old_rotor[rotor] = found + 1
        return found

    def pick_new(self) -> int:
        """The next file that does not exist, or -1."""
        found = self.exists.find(0, self.new_rotor)
        found = self.exists.find(0) if found < 0 else found
        self.new_rotor = found + 1
        return found


class Running:
    """One thread: its flowops, open descriptors (file set, file), positions, and its semaphores."""

    def __init__(self, number: int, memory: int) -> None:
        self.number, self.memory = number, memory
        self.open: dict[int, tuple[Files, int]] = {}
        self.last: dict[int, tuple[Files, int]] = {}  # what a descriptor referred to last, closed or not
        self.position: dict[int, int] = {}
        self.rotor = MAX_DESCRIPTORS
        self.at = 0
        self.program: list[tuple[Callable[..., bool], Step]] = []


class Step:
    """A flowop with its attributes as numbers."""

    def __init__(self, flowop: Flowop, files: Files | None, private: int) -> None:
        number = flowop.number
        self.files, self.private = files, private
        self.fd, self.source, self.turns = number("fd"), number("srcfd"), max(1, number("iters", 1))
        self.unit, self.set_size = number("iosize"), number("workingset")
        self.random, self.rotates, self.value = number("random"), number("opennext"), number("value", 1)
        self.flag = SYNCHRONOUS if number("dsync") else 0
        self.name, self.target = str(flowop.given.get("name", "")), str(flowop.given.get("target", ""))
        self.posted = 0
        self.targets: list[Step] = []


class World:
    """The rows made so far (flat, see _steps.FIELDS), and the random numbers of offsets and sizes."""

    def __init__(self, seed: int) -> None:
        self.rows: list[int] = []
        self.failed = False  # a flowop failed, and Filebench ends the run
        self._random = np.random.default_rng(seed)
        self._draws: list[float] = []

    def upto(self, most: int) -> int:
        """A whole number from 0 to `most`, `most` itself almost never."""
        if not self._draws:
            self._draws = self._random.random(_DRAWS).tolist()[::-1]
        return int(self._draws.pop() * most)

    def call(self, op: int, file: int, thread: int, folder: int = -1, flag: int = 0) -> None:
        """One call without a transfer."""
        self.rows += (op, file, folder, thread, flag, -1, 0, 0, 0, 0, 0)

    def move(
        self, op: int, file: int, thread: int, flag: int, offset: int, length: int, unit: int, buffer: int
    ) -> None:
        """A transfer in pieces of `unit` bytes, all from or to the same buffer."""
        self.rows += (op, file, -1, thread, flag, offset, length, unit, unit, buffer, 0)

    def buffer(self, thread: Running, step: Step, length: int) -> int:
        """Where in the thread's memory: a random multiple of the transfer's size in its memsize, or the flowop's own buffer."""
        if not thread.memory or not length:
            return step.private
        return self.upto(max(thread.memory - length, 0)) // length * length


def _descriptor(thread: Running, step: Step) -> int:
    if step.fd or not step.rotates:
        return step.fd
    thread.rotor = thread.rotor - 1 if thread.rotor else MAX_DESCRIPTORS - 1
    return thread.rotor


def _opened(world: World, thread: Running, step: Step) -> int:
    """The step's descriptor, opened if it was not; -1 where there is no file to open."""
    fd = _descriptor(thread, step)
    if fd not in thread.open and not _open(world, thread, step, fd):
        return -1
    return fd


def _open(world: World, thread: Running, step: Step, fd: int) -> bool:
    files = step.files or (thread.last[fd][0] if fd in thread.last else None)
    if files is None:
        return True
    file = files.pick_old(thread.number + 1 if step.rotates else 0)
    if file < 0:
        return False
    files.opened[file] += 1
    thread.open[fd] = thread.last[fd] = files, file
    thread.position[fd] = 0
    world.call(OPEN, files.first_id + file, thread.number)
    return True


def openfile(world: World, thread: Running, step: Step) -> bool:
    fd = _descriptor(thread, step)
    world.failed = fd in thread.open
    return world.failed or _open(world, thread, step, fd)


def createfile(world: World, thread: Running, step: Step) -> bool:
    fd, files = _descriptor(thread, step), step.files
    world.failed = fd in thread.open
    if world.failed or files is None:
        return True
    file = files.pick_new()
    if file < 0:
        return False
    files.exists[file], files.size[file], files.opened[file] = 1, 0, 1
    thread.open[fd] = thread.last[fd] = files, file
    thread.position[fd] = 0
    folder = files.folders[file]
    world.call(STAT, folder, thread.number)
    world.call(CREATE, files.first_id + file, thread.number, folder)
    return True


def closefile(world: World, thread: Running, step: Step) -> bool:
    fd = _descriptor(thread, step)
    if fd in thread.open:
        files, file = thread.open.pop(fd)
        files.opened[file] -= 1
        world.call(CLOSE, files.first_id + file, thread.number)
    return True


def deletefile(world: World, thread: Running, step: Step) -> bool:
    """A file that another descriptor has open is left alone, and the flowop counts as done."""
    files, file, mine = step.files, -1, 0
    if step.fd and step.fd in thread.last:
        (files, file), mine = thread.last.pop(step.fd), int(step.fd in thread.open)
    if files is None:
        return True
    file = files.pick_old() if file < 0 else file
    if file < 0:
        return False
    if files.opened[file] > mine or not files.exists[file]:
        return True
    files.exists[file] = 0
    world.call(UNLINK, files.first_id + file, thread.number, files.folders[file])
    return True


def statfile(world: World, thread: Running, step: Step) -> bool:
    if step.fd and step.fd in thread.open:
        files, file = thread.open[step.fd]
    elif step.files is None:
        return True
    else:
        files, file = step.files, step.files.pick_old()
        if file < 0:
            return False
    world.call(STAT, files.first_id + file, thread.number)
    return True


def fsync(world: World, thread: Running, step: Step) -> bool:
    fd = _descriptor(thread, step)
    if fd in thread.open:
        files, file = thread.open[fd]
        world.call(FSYNC, files.first_id + file, thread.number)
    return True


def fsyncset(world: World, thread: Running, step: Step) -> bool:
    for _, (files, file) in sorted(thread.open.items(), key=lambda item: item[0]):
        if files is step.files:
            world.call(FSYNC, files.first_id + file, thread.number)
    return True


def readwholefile(world: World, thread: Running, step: Step) -> bool:
    """Reads until a read gives nothing; a size of 0 reads the file at once."""
    fd = _opened(world, thread, step)
    if fd not in thread.open:
        return fd >= 0
    files, file = thread.open[fd]
    size, unit = files.size[file], step.unit or step.set_size or files.drawn[file] or 1
    buffer, id = world.buffer(thread, step, unit), files.first_id + file
    if size:
        world.move(READ, id, thread.number, 0, 0, size, unit, buffer)
    world.move(READ, id, thread.number, 0, size, 0, 0, buffer)
    thread.position[fd] = size
    return True


def writewholefile(world: World, thread: Running, step: Step) -> bool:
    """As many bytes as were drawn for the file; beyond one iosize rounded up to a multiple of it (sic)."""
    fd = _opened(world, thread, step)
    if fd not in thread.open:
        return fd >= 0
    files, file = thread.open[fd]
    drawn = thread.last.get(step.source, (files, file))
    total = drawn[0].drawn[drawn[1]]
    unit = step.unit or step.set_size or total
    total = total if total <= unit else -(-total // unit) * unit
    if total:
        _written(world, thread, step, fd, thread.position[fd], total, unit, world.buffer(thread, step, unit), 0)
    return True


def _written(
    world: World, thread: Running, step: Step, fd: int, offset: int, length: int, unit: int, buffer: int, flag: int
) -> None:
    files, file = thread.open[fd]
    world.move(WRITE, files.first_id + file, thread.number, step.flag | flag, offset, length, unit, buffer)
    thread.position[fd] = offset + length
    files.size[file] = max(files.size[file], offset + length)


def appendfile(world: World, thread: Running, step: Step) -> bool:
    return _append(world, thread, step, step.unit)


def appendfilerand(world: World, thread: Running, step: Step) -> bool:
    """From 0 to iosize - 1 bytes; nothing at all is done for 0."""
    return _append(world, thread, step, world.upto(max(step.unit - 1, 0)))


def _append(world: World, thread: Running, step: Step, length: int) -> bool:
    if not length:
        return True
    fd = _opened(world, thread, step)
    if fd not in thread.open:
        return fd >= 0
    files, file = thread.open[fd]
    buffer = world.buffer(thread, step, length)
    _written(world, thread, step, fd, files.size[file], length, length, buffer, APPENDS)
    return True


def read(world: World, thread: Running, step: Step) -> bool:
    fd = _opened(world, thread, step)
    if fd not in thread.open:
        return fd >= 0
    files, file = thread.open[fd]
    world.failed = bool(step.random) and (step.set_size or files.drawn[file]) < step.unit
    if world.failed:
        return True
    buffer, size = world.buffer(thread, step, step.unit), files.size[file]
    if step.random:
        offset = world.upto(max((step.set_size or files.drawn[file]) - step.unit, 0)) // step.unit * step.unit
        length = max(0, min(step.unit, size - offset))
    else:
        offset = thread.position[fd]
        length = max(0, min(step.unit, size - offset))
        thread.position[fd] = offset + length if length else 0
    world.move(READ, files.first_id + file, thread.number, 0, offset, length, 0, buffer)
    return True


def write(world: World, thread: Running, step: Step) -> bool:
    fd = _opened(world, thread, step)
    if fd not in thread.open:
        return fd >= 0
    files, file = thread.open[fd]
    world.failed = bool(step.random) and (step.set_size or files.drawn[file]) < step.unit
    if world.failed:
        return True
    buffer, position = world.buffer(thread, step, step.unit), thread.position[fd]
    offset = position
    if step.random:
        offset = world.upto(max((step.set_size or files.drawn[file]) - step.unit, 0)) // step.unit * step.unit
    _written(world, thread, step, fd, offset, step.unit, 0, buffer, 0)
    if step.random:
        thread.position[fd] = position
    return True


def semblock(world: World, thread: Running, step: Step) -> bool:
    if step.posted < step.value:
        return False
    step.posted -= step.value
    return True


def sempost(world: World, thread: Running, step: Step) -> bool:
    for target in step.targets:
        target.posted += step.value
    return True


def nothing(world: World, thread: Running, step: Step) -> bool:
    """Takes time, asks nothing of the file system."""
    return True


KINDS: dict[str, Callable[[World, Running, Step], bool]] = {
    "createfile": createfile, "openfile": openfile, "closefile": closefile, "deletefile": deletefile, "statfile": statfile,
    "fsync": fsync, "fsyncset": fsyncset, "readwholefile": readwholefile, "writewholefile": writewholefile,
    "appendfile": appendfile, "appendfilerand": appendfilerand, "read": read, "write": write, "aiowrite": write,
    "semblock": semblock, "sempost": sempost, "aiowait": nothing, "hog": nothing, "delay": nothing, "eventlimit": nothing,
    "bwlimit": nothing, "iopslimit": nothing, "opslimit": nothing,
}  # fmt: skip


def play(source) -> list[tuple[int, ...]]:
    """The STEPs of a Filebench workload after its files were made (a scmsim.workload.filebench.Workload)."""
    world, made = World(source.seed), {}
    tables = source._tables()
    for _ in source._made_files_of_all(tables):
        pass
    for number, tree in enumerate(source.trees):
        first = int(tables.sets["first"][number])
        files = Files(source.first_ids[number], tables.files["folder"].tolist()[first:], tree.sizes)
        for file in range(len(tree.sizes)):
            files.exists[file] = int(tables.files["exists"][first + file])
            files.size[file] = int(tables.files["length"][first + file])
        made[source.workload.filesets[number].name] = files
    threads = _threads(source.workload, made)
    left = source.flowops
    while left > 0:
        before = left
        for thread in threads:
            act, step = thread.program[thread.at]
            if act(world, thread, step):
                thread.at = (thread.at + 1) % len(thread.program)
                left = 0 if world.failed else left - 1
            elif source.starved == "stop" and step.files is not None:
                left = 0
            if left <= 0:
                break
        if left == before:
            break
    rows = iter(world.rows)
    return list(zip(*[rows] * 11, strict=True))


def _threads(workload, named: dict[str, Files]) -> list[Running]:
    threads: list[Running] = []
    for kind in workload.threads:
        for _ in range(kind.count):
            thread, private = Running(len(threads), kind.memsize), 0
            for flowop in kind.flowops:
                name = flowop.given.get("filesetname", flowop.given.get("filename"))
                step = Step(flowop, named.get(str(name)), private)
                private += -(-step.unit // 4096) * 4096
                thread.program += [(KINDS[flowop.kind], step)] * step.turns
            threads.append(thread)
    steps = [step for thread in threads for step in dict.fromkeys(step for _, step in thread.program)]
    for step in steps:
        step.targets = [other for other in steps if step.target and other.name == step.target]
    return threads
