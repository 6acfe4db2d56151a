"""What a full device leaves of writes: a real kernel in the lab beside the models.

    python -m tests.verification.short_writes [FS ...]

Small file systems are filled by writes of one size, which begin where the last whole one would have ended.  What is compared is how
many bytes were written, how many writes were done in part, and how many found no room.  Free blocks at the start are the kernel's:
those that writes of 4 KiB fill; the models get a device with as many.
"""

import dataclasses
import sys

import numpy as np

from scmsim.core.records import CREATE, FALLOCATE, KEEP_SIZE, OP, WRITE, Files
from scmsim.fs.engine.model import Model
from scmsim.lab import kernel, machine, outcome, plan, qemu, systems
from scmsim.pipeline import model_params
from scmsim.result import SHORT

MIB = 1 << 20
SIZES = (4096, 5000, 700_000, 5_000_000, 12 * MIB)
TABLE = Files(["/d", "/a", "/b"], np.array([0, -1, -1]), np.array([True, False, False]))
# Bytes of the file system that mkfs or mount gets, or of a fallocate that leaves little of a large one; options; model and its.
SYSTEMS = {
    "tmpfs": (0, {"options": "size=32m"}, "tmpfs", {}),
    "ext4-dax": (0, "32M", "ext4-dax", {"journal": 4 * MIB}),
    "ext4": (0, "32M", "ext4", {"journal": 4 * MIB}),
    "ext2-dax": (0, "32M", "ext2-dax", {"kernel": "6.1"}),
    "ext2": (0, "32M", "ext2", {}),
    "xfs-dax": (200 * MIB, ["-d", "size=300m"], "xfs-dax", {"log": 4 * MIB}),
}


class Trace:
    """A source of operations (op, file, offset, length, flag)."""

    header = {"tool": "short_writes"}
    files = TABLE

    def __init__(self, *rows: tuple) -> None:
        self.rows, self.array = len(rows), np.zeros(len(rows), OP).view(np.recarray)
        for row, (op, file, offset, length, *flag) in zip(self.array, rows, strict=True):
            row.op, row.file, row.offset, row.length, row.file2, row.flag = op, file, offset, length, -1, sum(flag)

    def batches(self, chunk: int = 1 << 14):  # noqa: ANN201
        """All of it."""
        yield self.array


def trace(size: int, room: int, taken: int) -> Trace:
    """Fill `room` bytes by writes of `size`, and try three times more; `taken` bytes are allocated before."""
    rows = [(CREATE, 1, 0, 0), (CREATE, 2, 0, 0)]
    rows += [(FALLOCATE, 2, 0, taken, KEEP_SIZE)] if taken else []
    return Trace(*rows, *[(WRITE, 1, k * size, size) for k in range(room // size + 4)])


def of_kernel(setting: machine.Setting, name: str, size: int, room: int) -> tuple[int, int, int]:
    """(bytes written, writes done in part, writes refused) on the kernel."""
    taken, change, _, _ = SYSTEMS[name]
    system = systems.load()[name]
    if isinstance(change, dict):
        system = dataclasses.replace(system, **change)
    elif isinstance(change, str):
        system = dataclasses.replace(system, mkfs=[*system.mkfs, change])
    else:
        system = dataclasses.replace(system, mkfs=[*system.mkfs[:-1], *change, system.mkfs[-1]])
    made = plan.from_trace(trace(size, room, taken))
    (run,) = outcome.Outcome(name, made, machine.run(setting, system, made)).runs(1, 1)
    return run.payload["written"], run.errors.get(SHORT, 0), run.errors.get("ENOSPC", 0)


def of_model(name: str, size: int, room: int) -> tuple[int, int, int]:
    """The same of the model, on a device that writes of the least size fill with `room` bytes."""
    _, _, fs, given = SYSTEMS[name]

    def filled(capacity: int, size: int) -> tuple[int, int, int]:
        model = Model(fs, model_params("fs", fs, {**given, "capacity": capacity}), TABLE)
        rows = trace(size, room, 0).array
        for _ in model.events(rows):
            pass
        status = model.status[0]
        return int(rows.length.sum() - status["failed_bytes"]), int(status["short"]), int(status["failed"])

    capacity = room + 16 * MIB
    while (written := filled(capacity, SIZES[0])[0]) < room:  # what the metadata takes follows the capacity
        capacity += room - written
    while filled(capacity - 4096, room)[0] >= room:
        capacity -= 4096
    return filled(capacity, size)


def main(names: list[str]) -> None:
    """Print a table."""
    setting = machine.Setting(qemu.find(), kernel.find(), timeout_s=600)
    print(f"{'':10}{'write':>12}   kernel: {'written':>12} short refused   model: {'written':>12} short refused")
    for name in names or SYSTEMS:
        room = of_kernel(setting, name, SIZES[0], 64 * MIB)[0]
        for size in SIZES:
            real, made = of_kernel(setting, name, size, room), of_model(name, size, room)
            told = "".join(f"{written:28,}{short:6}{refused:8}" for written, short, refused in (real, made))
            print(f"{name:10}{size:12,}{told}{'' if real == made else '   differs'}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
