"""Random histories on a model beside the reference of ext4's layout: the extents of every file, and inode numbers.

Run: python -m tests.verification.layout_models [--fs ext4-dax] [--kinds mixed,full] [--seeds 201:241] [--kernel 6.12]
    [--real FOLDER]

The histories are those of layout_cases.py.  With --real, what a real kernel did there (the FOLDER of layout_cases.py) takes the
reference's place.  Extents that continue one another are joined on both sides.
"""

import argparse
import json
import pathlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from scmsim.core import records as r
from scmsim.fs.engine.model import Model
from scmsim.fs.linux import state as e
from scmsim.pipeline import model_params
from tests.reference.ext4_layout.history import Replay, options_of
from tests.verification import layout_histories
from tests.verification.layout_histories import History

_KINDS = "mixed,full,gaps,names,sparse"  # a model has no options of mke2fs
Run = tuple[int, int, int, int]  # logical, physical, length in blocks, unwritten


class Rows:
    """The calls of a history as operations of a trace: each file that is created has a row of its own."""

    def __init__(self, history: History) -> None:
        self.paths: list[str] = []
        self.is_dir: list[bool] = []
        self.at: dict[str, int] = {}  # path -> row
        self.descriptors: dict[int, int] = {}
        self.calls: list[tuple[int, int, int, int, int, int]] = []  # op, file, offset, length, file2, flag
        for line in history.lines:
            word, *rest = line.split()
            getattr(self, f"_{word}")(*rest)

    def files(self) -> r.Files:
        """Return the side table: no file exists before the history."""
        return r.Files(self.paths, np.full(len(self.paths), -1, np.int64), np.array(self.is_dir, bool))

    def operations(self) -> np.recarray:
        """Return the operations, a microsecond apart."""
        found = np.zeros(len(self.calls), r.OP).view(np.recarray)
        for i, (op, file, offset, length, file2, flag) in enumerate(self.calls):
            found[[*r.OP_COLUMNS]][i] = (1000 * i, offset, length, file, file2, 0, flag, 0, op)
        return found

    def _add(self, op: int, file: int, offset: int = 0, length: int = 0, file2: int = -1, flag: int = 0) -> None:
        self.calls.append((op, file, offset, length, file2, flag))

    def _new(self, path: str, is_dir: bool) -> int:
        self.at[path] = len(self.paths)
        self.paths.append(path)
        self.is_dir.append(is_dir)
        return self.at[path]

    def _parent(self, path: str) -> int:
        return self.at.get(path.rpartition("/")[0], -1)

    def _create(self, descriptor: str, path: str) -> None:
        self.descriptors[int(descriptor)] = self._new(path, False)
        self._add(r.CREATE, self.at[path], file2=self._parent(path))

    def _mkdir(self, path: str) -> None:
        self._add(r.MKDIR, self._new(path, True), file2=self._parent(path))

    def _open(self, descriptor: str, path: str) -> None:
        self.descriptors[int(descriptor)] = self.at[path]
        self._add(r.OPEN, self.at[path])

    def _close(self, descriptor: str) -> None:
        self._add(r.CLOSE, self.descriptors.pop(int(descriptor)))

    def _write(self, descriptor: str, offset: str, length: str) -> None:
        self._add(r.WRITE, self.descriptors[int(descriptor)], int(offset), int(length))

    def _read(self, descriptor: str, offset: str, length: str) -> None:
        self._add(r.READ, self.descriptors[int(descriptor)], int(offset), int(length))

    def _truncate(self, descriptor: str, size: str) -> None:
        self._add(r.TRUNCATE, self.descriptors[int(descriptor)], int(size))

    def _fallocate(self, descriptor: str, offset: str, length: str, keep: str) -> None:
        flag = r.KEEP_SIZE if keep == "1" else 0
        self._add(r.FALLOCATE, self.descriptors[int(descriptor)], int(offset), int(length), flag=flag)

    def _punch(self, descriptor: str, offset: str, length: str) -> None:
        flag = r.PUNCH_HOLE | r.KEEP_SIZE
        self._add(r.FALLOCATE, self.descriptors[int(descriptor)], int(offset), int(length), flag=flag)

    def _fsync(self, descriptor: str) -> None:
        self._add(r.FSYNC, self.descriptors[int(descriptor)])

    def _sync(self) -> None:
        self._add(r.SYNC, -1)

    def _unlink(self, path: str) -> None:
        self._add(r.UNLINK, self.at.pop(path), file2=self._parent(path))

    def _rename(self, path: str, new: str) -> None:
        file = self.at.pop(path)
        self._add(r.RENAME, file, file2=self.at.get(new, -1))
        self.at[new] = file


def of_model(fs: str, history: History, upto: int = -1, kernel: str = "6.1") -> dict[str, Any]:
    """Return (inode, bytes, runs) of each path after a history, or after its first lines, on a model of a kernel."""
    if upto >= 0:
        history = History(history.mib, history.lines[:upto])
    rows = Rows(history)
    model = Model(fs, model_params("fs", fs, {"capacity": f"{history.mib}MiB", "kernel": kernel}), rows.files())
    model.state.record.closes = 1  # the histories close files
    for _ in model.events(rows.operations()):
        pass
    record, arena = model.state.record[0], model.state.arena
    found: dict[str, Any] = {}
    for path, row in [("/", len(rows.paths)), *rows.at.items()]:
        f = int(arena[record.rows + row * e.ROW_WORDS])
        if f:
            words = arena[arena[f + e.PAGES] :][: arena[f + e.PAGE_COUNT]]
            found[path] = (int(arena[f + e.INODE]), int(arena[f + e.SIZE]), list(_runs(words)))
    return found


def _runs(words: np.ndarray) -> Iterator[Run]:
    pages = np.flatnonzero(words >> e.BLOCK_SHIFT)
    blocks, states = words[pages] >> e.BLOCK_SHIFT, (words[pages] & e.IS_UNWRITTEN > 0).astype(int)
    if not len(pages):
        return
    breaks = np.flatnonzero((np.diff(pages) != 1) | (np.diff(blocks) != 1) | (np.diff(states) != 0)) + 1
    for first, end in zip([0, *breaks.tolist()], [*breaks.tolist(), len(pages)], strict=True):
        yield int(pages[first]), int(blocks[first]), end - first, int(states[first])


def joined(extents: Sequence[Sequence[int]]) -> list[Run]:
    """Return extents with those that continue one another joined."""
    found: list[Run] = []
    for logical, physical, length, unwritten in extents:
        if found:
            at, block, count, state = found[-1]
            if (at + count, block + count, state) == (logical, physical, unwritten):
                found[-1] = (at, block, count + length, state)
                continue
        found.append((logical, physical, length, unwritten))
    return found


def of_reference(history: History, upto: int = -1, kernel: str = "6.1") -> dict[str, Any]:
    """Return the same of the reference."""
    major, minor = map(int, kernel.split("."))
    replay = Replay(options_of(history.words, history.mib), release=(major, minor))
    replay.run(history.lines[:upto] if upto >= 0 else history.lines)
    return {path: replay.show(path) for path in replay.files}


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--fs", default="ext4-dax")
    parser.add_argument("--kinds", default=_KINDS)
    parser.add_argument("--seeds", default="201:241", help="FIRST:END[:STEP]")
    parser.add_argument("--kernel", default="6.1", help="whose rules the model and the reference follow")
    parser.add_argument("--real", type=pathlib.Path, help="the folder of layout_cases.py")
    options = parser.parse_args()
    print(
        "| kind | histories | all files equal | directories too | files | equal | inodes equal |\n|---|---|---|---|---|---|---|"
    )
    for kind in options.kinds.split(","):
        told = [_judge(options, kind, seed) for seed in range(*map(int, options.seeds.split(":")))]
        sums = np.sum(told, axis=0).tolist()
        print(f"| {kind} | {len(told)} | " + " | ".join(map(str, sums)) + " |", flush=True)


def _judge(options: argparse.Namespace, kind: str, seed: int) -> tuple[int, ...]:
    """Return whether the extents of all files are equal, those of directories too; files, how many are equal, equal inodes."""
    history = layout_histories.make(kind, seed)
    if options.real:
        expected = json.loads((options.real / f"{kind}-{seed}.json").read_text())
    else:
        expected = of_reference(history, kernel=options.kernel)
    found = of_model(options.fs, history, kernel=options.kernel)
    folders = {line.split()[1] for line in history.lines if line.startswith("mkdir")} | {"/"}
    wrong, inodes = [], 0
    for path in history.paths:
        want, have = expected.get(path), found.get(path)
        same = (want is None) == (have is None)
        if want and have:
            inodes += want[0] == have[0]
            same = joined(want[2]) == joined(have[2])
        if not same:
            wrong.append(path)
    files = [path for path in history.paths if path not in folders]
    bad = [path for path in wrong if path not in folders]
    if wrong:
        print(
            f"{kind} {seed}: {len(bad)} of {len(files)} files differ, {len(wrong) - len(bad)} directories: {' '.join(wrong[:4])}"
        )
    return int(not bad), int(not wrong), len(files), len(files) - len(bad), inodes


if __name__ == "__main__":
    main()
