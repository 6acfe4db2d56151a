"""Independent reference of `scmsim.footprint`: dictionaries, lists and sets, one operation at a time."""

import math
from collections.abc import Container
from typing import Any, NamedTuple

from scmsim.core.records import OPS, REMAPPED, SETUP, SYNCHRONOUS


class Entry(NamedTuple):
    """A measured call; `touches` is a list of (page, is a store), where a page is (address, order) or the name of a cache."""

    kind: int
    sites: frozenset[int]
    amount: int
    touches: list[tuple[Any, bool]]
    opening: int | None


class Described(NamedTuple):
    """What is known of an operation."""

    kind: str
    grows: bool
    held: bool
    freed: int
    inode: int | None
    file: int
    opening: int | None
    first: bool
    piled: bool  # 256 inodes or more have changes that no sync made durable
    long: bool = False  # a call that reads a directory returns 14 names or more


NO_CALLS = {OPS.index(name) for name in ("load", "store", "flush", "fence")}
MAKES_OPEN_FILE = (0, 1)  # create, open: numbers in records.OPS
USES_OPEN_FILE = {"open", "create", "close", "read", "write", "fsync", "truncate", "fallocate", "mmap", "munmap"}
USES_OPEN_FILE |= {"msync", "load", "store"}
CHANGES = {"create", "unlink", "rename", "link", "mkdir", "rmdir", "truncate", "write", "fallocate"}


class Inodes:
    """Lengths, inode numbers, names and users of files."""

    def __init__(self, first_sizes: list[int]) -> None:
        there = [file for file, size in enumerate(first_sizes) if size >= 0]
        self.lengths = {file: first_sizes[file] for file in there}
        self.numbers = {file: number for number, file in enumerate(there)}
        self.freed: list[int] = []
        self.used = len(there)
        self.more_names: dict[int, int] = {}
        self.users: dict[tuple[str, int], int] = {}
        self.openings: dict[int, int] = {}
        self.opened = 0
        self.grown: set[int] = set()  # files that became longer while they were open
        self.read: set[int] = set()  # files that were not changed since a read
        self.unsynced: set[int] = set()  # inodes with changes that no sync made durable

    def describe(self, op: str, file: int, offset: int, length: int, file2: int, flags: Container[int]) -> Described:
        """The next operation."""
        piled = len(self.unsynced) >= 256
        found = self._described(op, file, offset, length, file2)
        found = found._replace(long=op == "readdir" and file >= 0 and length >= 14 * 32)
        if op == "mmap" and REMAPPED not in flags:
            self._count("mapping", file, 1)
        if op in ("fsync", "sync", "msync") or (op == "write" and SYNCHRONOUS in flags):
            self.unsynced.clear()
        elif op in CHANGES and found.inode is not None and SETUP not in flags:
            self.unsynced.add(found.inode)
        return found._replace(piled=piled)

    def _described(self, op: str, file: int, offset: int, length: int, file2: int) -> Described:
        if file < 0:
            return Described(op, False, False, 0, None, -1, None, False, False)
        if op in ("open", "create"):
            self.openings[file], self.opened = self.opened, self.opened + 1
        if file not in self.numbers:
            if self.freed:
                self.numbers[file] = self.freed.pop()
            else:
                self.numbers[file], self.used = self.used, self.used + 1
        number, before, freed, grows, held = self.numbers[file], self.lengths.get(file, 0), 0, False, False
        first = op == "read" and file not in self.read
        if op == "read":
            self.read.add(file)
        elif op in ("write", "fallocate", "truncate"):
            self.read.discard(file)
        if op in ("write", "fallocate"):
            grows = offset + length > before
            self.lengths[file] = max(before, offset + length)
            self.grown |= {file} if grows else set()
        elif op == "truncate":
            freed, self.lengths[file] = max(before - offset, 0), offset
        elif op in ("unlink", "rmdir"):
            freed = self._unnamed(file)
        elif op == "rename" and file2 not in (-1, file):
            freed = self._unnamed(file2)
        elif op == "link":
            self.more_names[file] = self.more_names.get(file, 0) + 1
        elif op in ("open", "create"):
            self._count("descriptor", file, 1)
        elif op == "close":
            self._count("descriptor", file, -1)
            held, grows = self.users.get(("mapping", file), 0) > 0, file in self.grown
            if not self.users["descriptor", file]:
                self.grown.discard(file)
        elif op == "munmap":
            self._count("mapping", file, -1)
            held = self.users.get(("descriptor", file), 0) > 0
        opening = self.openings.get(file) if op in USES_OPEN_FILE else None
        return Described(op, grows, held, freed, number, file, opening, first, False)

    def _count(self, what: str, file: int, more: int) -> None:
        self.users[what, file] = max(0, self.users.get((what, file), 0) + more)

    def _unnamed(self, file: int) -> int:
        if self.more_names.get(file):
            self.more_names[file] -= 1
            return 0
        if file in self.numbers:
            self.freed.append(self.numbers.pop(file))
        self.read.discard(file)
        return self.lengths.pop(file, 0)


class Player:
    """Goes through the measured calls, of which `alike` are looked at for each operation; `chunk` touches come together at most."""

    def __init__(
        self,
        book: list[Entry],
        known: set[int],
        inodes: dict[str, list[Any]],
        alike: int,
        chunk: int,
        program: set[int],
        nearest: bool = False,
    ) -> None:
        self.chunk, self.program, self.by_distance = chunk, program, nearest
        self.book, self.known, self.inodes, self.alike, self.last = book, known, inodes, alike, -1
        self.opened: dict[int, int] = {}

    def nearest(self, kind: int, sites: set[int], amount: int) -> Entry:
        """Of the calls around or nearest to the amount, in the first group that differs least: the one measured next."""
        of_kind = [entry for entry in self.book if entry.kind == kind] or self.book
        groups = sorted({(entry.kind, sum(1 << site for site in entry.sites)): entry for entry in of_kind}.items())
        chosen = min(groups, key=lambda group: len(group[1].sites ^ sites))[0]
        group = [e for e in of_kind if (e.kind, sum(1 << site for site in e.sites)) == chosen]
        group.sort(key=lambda entry: entry.amount)
        among = min(self.alike, len(group))
        first = sum(entry.amount < amount for entry in group) - among // 2
        first = max(0, min(first, len(group) - among))
        if self.by_distance:
            first = sum(low.amount + high.amount < 2 * amount for low, high in zip(group, group[among:], strict=False))
            distances = [abs(entry.amount - amount) for entry in group]
            assert sorted(distances)[:among] == sorted(distances[first : first + among])
        numbers = [next(n for n, each in enumerate(self.book) if each is e) for e in group[first : first + among]]
        self.last = min(numbers, key=lambda number: (number - self.last - 1) % len(self.book))
        return self.book[self.last]

    def page(self, page: Any, operation: Described) -> Any:
        """Where a touch goes."""
        if not isinstance(page, str):
            return page
        number = self.opened.get(operation.file, 0) if page == "open files" else operation.inode or 0
        return self.inodes[page][min(number, len(self.inodes[page]) - 1)]

    def interleaved(self, operations: list[Described], kinds: list[int], events: list[dict[str, Any]]) -> list[Any]:
        """Events of one buffer, with touches as tuples (operation, site, address, order, is a store)."""
        out: list[Any] = []
        at = 0
        while at < len(events):
            row = events[at]["op"]
            mine = []
            while at < len(events) and events[at]["op"] == row:
                mine.append(events[at])
                at += 1
            operation = operations[row]
            amount = operation.freed + sum(64 + event["length"] for event in mine if event["code"] != "WORK")
            sites = {event["site"] for event in mine} & self.known | ({62} if operation.grows else set())
            sites |= {61} if operation.held else set()
            sites |= {60} if operation.first else set()
            sites |= {59} if operation.piled else set()
            sites |= {58} if operation.long else set()
            measured = any(entry.kind == kinds[row] for entry in self.book)
            if (kinds[row] in NO_CALLS and not measured) or {event["site"] for event in mine} <= self.program:
                out += [self.moved(event) for event in mine]
                continue
            entry = self.nearest(kinds[row], sites, amount)
            if kinds[row] in MAKES_OPEN_FILE and operation.file >= 0 and entry.opening is not None:
                self.opened[operation.file] = entry.opening
            chunks = -(-len(entry.touches) // self.chunk)
            cuts = [len(entry.touches) * k // chunks for k in range(chunks + 1)] if chunks else [0]
            for number, event in enumerate(mine):
                low, high = (math.ceil(chunks * n / len(mine)) for n in (number, number + 1))
                for page, store in entry.touches[cuts[low] : cuts[high]]:
                    out.append((row, event["site"], *self.page(page, operation), store))
                out.append(self.moved(event))
        return out

    @staticmethod
    def moved(event: dict[str, Any]) -> dict[str, Any]:
        """A model's event, its kernel objects a large page further on for each area."""
        moved = event["addr"] // 2**40 * 2**21 if event["space"] == "kernel" else 0
        return {**event, "vaddr": event["vaddr"] + moved}
