"""Compares the rows that scmsim makes of a trace with the truth: equal, said so, or silently wrong."""

import difflib
import json
import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from scmsim.core.records import (
    DIRECTORY,
    FALLOCATE,
    KEEP_SIZE,
    MMAP,
    OFFSET_UNKNOWN,
    OPS,
    PUNCH_HOLE,
    READ,
    TRUNCATE,
    WRITE,
)
from scmsim.trace import formats
from scmsim.trace.store import TraceWriter, open_trace
from tests.programs.agent import SHARED_BYTES
from tests.programs.program import Ran
from tests.programs.truth import Event

COMPARED = frozenset(
    "create open read write truncate fallocate fsync unlink rename link mkdir rmdir close mmap".split()
)
NAMELESS = frozenset({"read", "write", "fallocate", "fsync", "mmap"})  # what a format without names has
_WITH_OFFSET = NAMELESS | {"truncate"}
_RINGS = ("io_uring", "io_submit")  # calls whose requests a trace may not show
_COPIES = ("sendfile", "copy_file_range", "splice")  # calls whose offsets may be in memory
Item = tuple[str, str, int, int]


@dataclass
class Verdict:
    """What came out of one trace."""

    said: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)  # differences of a conversion that ended with exit code 4

    @property
    def word(self) -> str:
        return "silent wrong" if self.wrong else "exit code 4" if self.lost else "said so" if self.said else "equal"

    @property
    def kind(self) -> str:
        """What is wrong, without numbers: failures of one kind have one cause, mostly."""
        return self.wrong[0].split(":")[0] if self.wrong else f"lost, {self.lost[0].split(':')[0]}" if self.lost else ""


def judge(ran: Ran, text: str, out: str, named: bool = True, format_name: str | None = None) -> Verdict:
    """Convert a trace and compare it."""
    name, importer = formats.find(text, format_name)
    with TraceWriter(out, {}) as writer:
        report = importer.convert(text, writer, under=ran.folder if named else None)
    return compare(ran, out, report.is_incomplete(), named)


def compare(ran: Ran, stored: str, incomplete: bool, named: bool = True) -> Verdict:
    """Compare a stored trace with the truth; `incomplete`: the conversion ended with exit code 4."""
    trace, verdict, truth = open_trace(Path(stored)), Verdict(), ran.truth
    rows = [row for batch in trace.batches() for row in batch]
    said = json.dumps(
        {key: value for key, value in trace.header.items() if key not in ("program",)}, ensure_ascii=False
    )
    ops = COMPARED if named else NAMELESS
    kept = [row for row in rows if OPS[row["op"]] in ops and row["file"] >= 0 and not _is_noise(row)]
    table = [os.path.relpath(path, ran.folder) if path.startswith("/") else path for path in trace.files.path]
    events = [event for event in truth.events if event[0] in ops]
    if not named:  # nothing tells whether transfers of no bytes are those of a directory
        events = [event for event in events if event[3] or event[0] not in ("read", "write")]
        kept = [row for row in kept if row["length"] or row["op"] not in (READ, WRITE)]
    labels = _labels([int(row["file"]) for row in kept], table, named)
    paths = [os.path.relpath(file.path, ran.folder) for file in truth.files]
    of_truth = _labels([event[1] for event in events], paths, named)
    mine: list[Item] = [(op, of_truth[file], *_place(op, offset, length)) for op, file, offset, length in events]
    theirs: list[Item] = [
        (OPS[r["op"]], labels[int(r["file"])], *_place(OPS[r["op"]], int(r["offset"]), int(r["length"]))) for r in kept
    ]
    folders = {of_truth[n] for n, file in enumerate(truth.files) if file.is_dir and n in of_truth}
    sound = [
        i for i, item in enumerate(theirs) if not (item[0] in ("read", "write") and item[1] in folders and not item[3])
    ]
    theirs, kept = [theirs[i] for i in sound], [kept[i] for i in sound]
    unknown = [bool(row["flag"] & OFFSET_UNKNOWN) for row in kept]
    assumed = sum(count for how, count in trace.header["counts"]["creates"].items() if how != "certainly new")
    spots = json.dumps(trace.header["blind_spots"], ensure_ascii=False)

    def excused(label: str) -> bool:
        path = os.path.join(ran.folder, label.rpartition("#")[0])
        named_there = repr(path) in spots or ("taint" in said and path in said)
        odd = any(file.odd for number, file in enumerate(truth.files) if of_truth.get(number) == label)
        return (
            odd
            or named_there
            or "strace -z" in spots
            or any(word in spots and _by(word, ran, label, of_truth) for word in _RINGS)
            or ("offsets in memory" in spots and any(_by(word, ran, label, of_truth) for word in _COPIES))
        )

    def shifted(label: str) -> bool:
        return "_RANGE" in spots and _by("fallocate", ran, label, of_truth)

    for line, label in _differences(mine, theirs, unknown, assumed, verdict):
        without_row = line.startswith("truncate is missing") and shifted(label)
        (verdict.said if without_row or excused(label) else verdict.wrong).append(line)
    if not named:
        if mine == theirs:
            verdict.wrong += _objects(events, [int(row["file"]) for row in kept])
        return _lost(verdict, incomplete)
    _sizes(ran, trace, rows, (of_truth, labels), verdict, lambda label: excused(label) or shifted(label))
    return _lost(verdict, incomplete)


def _lost(verdict: Verdict, incomplete: bool) -> Verdict:
    """Move what is wrong to what exit code 4 says: a longer text with the same lines that are not understood would end with 0."""
    if incomplete:
        verdict.lost, verdict.wrong = verdict.wrong, []
    return verdict


def _is_noise(row: Any) -> bool:
    """Whether a row is the agent's own mmap, or a transfer of no bytes by a directory's descriptor."""
    no_bytes = row["op"] in (READ, WRITE) and row["flag"] & DIRECTORY and not row["length"]
    return bool(no_bytes or (row["op"] == MMAP and row["length"] == SHARED_BYTES))


def _by(name: str, ran: Ran, label: str, labels: dict[int, str]) -> bool:
    """Return whether a file is one that calls of a name touched."""
    calls = {i for i, line in enumerate(ran.script) if line[1] == name}
    events = zip(ran.truth.events, ran.truth.by_call, strict=True)
    return any(line in calls and labels.get(event[1]) == label for event, line in events)


def _place(op: str, offset: int, length: int) -> tuple[int, int]:
    return (max(offset, 0), length) if op in _WITH_OFFSET else (0, 0)


def _objects(events: Sequence[Event], objects: Sequence[int]) -> list[str]:
    """Return the objects of a trace without names, of which each open makes one, that are more than one file."""
    found: dict[int, int] = {}
    pairs = zip(events, objects, strict=True)
    return [f"file of {event[0]}: {event}" for event, number in pairs if found.setdefault(number, event[1]) != event[1]]


def _labels(order: Sequence[int], paths: Sequence[str], named: bool) -> dict[int, str]:
    """Name each object by its first path, and a number where another object had it before."""
    if not named:
        return dict.fromkeys(order, "")
    out: dict[int, str] = {}
    count: Counter[str] = Counter()
    for number in order:
        if number not in out:
            path = paths[number]
            if "/#" in path or path.startswith("#"):
                path = "tmpfile"
            out[number] = f"{path}#{count[path]}"
            count[path] += 1
    return out


def _key(item: Item, assumed: int) -> Item:
    """Return what aligns an item: an open and a create are the same where the trace says that it assumed some."""
    return ("create", *item[1:]) if assumed and item[0] == "open" else item


def _differences(
    mine: list[Item], theirs: list[Item], unknown: list[bool], assumed: int, verdict: Verdict
) -> list[tuple[str, str]]:
    """Return what differs, with the file; what a row itself says is not sure goes to the verdict."""
    out = []
    emptied: set[str] = set()  # files that the trace takes as new, where a truncate must follow
    keys = [[_key(item, assumed) for item in items] for items in (mine, theirs)]
    matcher = difflib.SequenceMatcher(None, *keys, autojunk=False)
    for tag, a, b, x, y in matcher.get_opcodes():
        if tag == "equal":
            for item, other in zip(mine[a:b], theirs[x:y], strict=True):
                if item != other:
                    verdict.said.append(f"{item} came as {other}")
                    emptied |= {item[1]} if item[0] == "open" else set()
            continue
        left, right = mine[a:b], list(zip(theirs[x:y], unknown[x:y], strict=True))
        for item in list(left):
            match = next(
                (pair for pair in right if pair[0][:2] == item[:2] and pair[0][3] == item[3] and pair[1]), None
            )
            if match is None and assumed:
                match = next(
                    (p for p in right if p[0][1:] == item[1:] and {p[0][0], item[0]} == {"open", "create"}), None
                )
            if match is None and item[0] == "truncate" and item[1] in emptied:
                verdict.said.append(f"{item}: the file is taken as new")
                emptied.discard(item[1])
                left.remove(item)
            if match is not None:
                verdict.said.append(f"{item} came as {match[0]}")
                emptied |= {item[1]} if item[0] == "open" else set()
                left.remove(item)
                right.remove(match)
        for item in list(left):
            match = next((pair for pair in right if pair[0][0] == item[0]), None)
            if match is not None:
                what = "file" if match[0][1] != item[1] else "offset" if match[0][2] != item[2] else "length"
                out.append((f"{what} of {item[0]}: {item} came as {match[0]}", item[1]))
                left.remove(item)
                right.remove(match)
        out += [(f"{item[0]} is missing: {item}", item[1]) for item in left]
        out += [(f"{pair[0][0]} that was not: {pair[0]}", pair[0][1]) for pair in right]
    return out


def _sizes(
    ran: Ran,
    trace: Any,
    rows: Sequence[Any],
    labels: tuple[dict[int, str], dict[int, str]],
    verdict: Verdict,
    excused: Any,
) -> None:
    """Compare first and final sizes of the files that both sides know."""
    sizes: dict[int, int] = {}
    for row in rows:
        number, op = int(row["file"]), row["op"]
        if number < 0:
            continue
        size = sizes.setdefault(number, max(int(trace.files.first_size[number]), 0))
        if op == TRUNCATE:
            sizes[number] = int(row["offset"])
        elif (op == WRITE and row["length"]) or (op == FALLOCATE and not row["flag"] & (KEEP_SIZE | PUNCH_HOLE)):
            sizes[number] = max(size, int(row["offset"] + row["length"]))
    truth_of = {label: ran.truth.files[number] for number, label in labels[0].items()}
    doubtful = {int(row["file"]) for row in rows if row["flag"] & OFFSET_UNKNOWN}
    for number, label in labels[1].items():
        file, first = truth_of.get(label), int(trace.files.first_size[number])
        if file is None or file.is_dir or file.odd:
            continue
        wrong = []
        if file.known and first != file.first:
            wrong.append(f"first size: {label} has {file.first}, came as {first}")
        elif not file.known and file.first >= 0 and first > file.first:
            wrong.append(f"first size too large: {label} has {file.first}, came as {first}")
        if file.final >= 0 and (file.known or file.first < 0) and sizes.get(number) != file.final:
            wrong.append(f"final size: {label} has {file.final}, came as {sizes.get(number)}")
        (verdict.said if excused(label) or number in doubtful else verdict.wrong).extend(wrong)
    if len(verdict.said) > 20:
        del verdict.said[20:]
