"""Find the slab cache of each page of the kernel's memory at the end of a run, in the file that backs the guest's memory.

The module also finds where the page's objects begin: a slab has objects of one size, one after another from its first page.

Source: Linux 6.1, mm/slab.h: every `struct kmem_cache` is in the list `slab_caches`, and its name is before its list head; a
page of a slab has its cache in its `struct page`, at an offset that differs between versions and is found here.  A tail page
refers to its head page (bit 0 of its second 64-bit field).  Merged caches have the name of the first cache.  The size of an
object with padding is the field before the size without padding; it is found by the caches of kmalloc, whose names state the size.
Intel SDM volume 3, 4.5: page tables of 4 levels.
"""

import collections
import pathlib
import re
from typing import NamedTuple

import numpy as np

from scmsim.lab import qemu
from scmsim.lab.counts import symbol_address
from scmsim.lab.pagetable import LARGE, PRESENT, SHIFTS, TEXT_MAP

_VMEMMAP, _STRUCT_PAGE = 0xFFFFEA0000000000, 64
_FRAME = 0x000FFFFFFFFFF000
_WORDS = 8  # 64-bit fields of a struct page
_MOST_CACHES = 4096
_BEHIND = 512  # maximum bytes of a kmem_cache before its list head
_FIELDS = 64  # the first bytes of a kmem_cache, which contain the size of its objects
_KMALLOC = re.compile(r"kmalloc-(\d+)(k?)")


class Page(NamedTuple):
    """A page of a slab: its cache, the bytes from one object to the next (0: unknown), and the page's offset in the slab."""

    cache: str
    size: int
    start: int


NO_PAGE = Page("", 0, 0)


class Memory:
    """The guest's memory, read by kernel address."""

    def __init__(self, ram: pathlib.Path, top: int) -> None:
        self._bytes = np.memmap(ram, np.uint8, "r")
        self._top = top

    def read(self, address: int, length: int) -> bytes | None:
        """Return `length` bytes at an address, all within one page; None if the page is not mapped."""
        at = self._translated(address)
        return None if at is None else self._physical(at, length)

    def words(self, address: int, count: int) -> tuple[int, ...] | None:
        """Return `count` 64-bit words; None if not all of them are mapped."""
        found = self.read(address, 8 * count)
        return None if found is None or len(found) < 8 * count else tuple(np.frombuffer(found, "<u8").tolist())

    def text(self, address: int) -> str | None:
        """Return a short C string of printable ASCII; None if there is none."""
        found = self.read(address, min(64, 4096 - address % 4096))
        head = (found or b"").partition(b"\0")[0]
        return head.decode() if head and head.isascii() and head.decode().isprintable() else None

    def _physical(self, at: int, length: int) -> bytes:
        offset = qemu.file_offset(at)
        return self._bytes[offset : offset + length].tobytes() if offset >= 0 else b""

    def _translated(self, address: int) -> int | None:
        table = self._top
        for shift in SHIFTS:
            raw = self._physical(table + 8 * (address >> shift & 511), 8)
            entry = int.from_bytes(raw, "little")
            if len(raw) < 8 or not entry & PRESENT:
                return None
            if shift == SHIFTS[-1] or (shift != SHIFTS[0] and entry & LARGE):
                return (entry & _FRAME) >> shift << shift | address & (1 << shift) - 1
            table = entry & _FRAME
        return None


def caches(ram: pathlib.Path, symbols: bytes, pages: np.ndarray) -> dict[int, Page]:
    """Return the slab caches of pages of the direct map, by address of the page; pages that are in no slab are left out."""
    top, heads = symbol_address(symbols, "init_top_pgt"), symbol_address(symbols, "slab_caches")
    if top is None or heads is None:
        return {}
    memory = Memory(ram, top - TEXT_MAP)
    known = _listed(memory, heads)
    heads_of = {int(page): found for page in pages if (found := _head(memory, int(page))) is not None}
    place = _place([words for _, words in heads_of.values()], list(known))
    if place is None:
        return {}
    word, offset = place
    named = {node - offset: name for node, name in known.items()}
    sizes = _sizes(memory, named)
    return {
        page: Page(named[words[word]], sizes[words[word]], page - head)
        for page, (head, words) in heads_of.items()
        if words[word] in named
    }


def _sizes(memory: Memory, named: dict[int, str]) -> dict[int, int]:
    """Return the bytes from one object of each cache to the next, 0 for all if the field is not found."""
    fields = {at: np.frombuffer((memory.read(at, _FIELDS) or b"")[:_FIELDS], "<u4") for at in named}
    votes = np.zeros(_FIELDS // 4, np.int64)
    for at, name in named.items():
        if (match := _KMALLOC.fullmatch(name)) and len(fields[at]) == len(votes):
            votes += fields[at] == int(match[1]) * (1024 if match[2] else 1)
    field = int(np.argmax(votes))
    return {at: int(found[field]) if votes[field] and len(found) > field else 0 for at, found in fields.items()}


def _listed(memory: Memory, heads: int) -> dict[int, str]:
    """Return the name of each kmem_cache by the address of its list head."""
    found: dict[int, str] = {}
    following = memory.words(heads, 1)
    while following and following[0] != heads and following[0] not in found and len(found) < _MOST_CACHES:
        node = following[0]
        name = memory.words(node - 8, 1)
        found[node] = (memory.text(name[0]) if name else None) or "(unnamed)"
        following = memory.words(node, 1)
    return found


def _head(memory: Memory, page: int) -> tuple[int, tuple[int, ...]] | None:
    """Return (page, its struct page), or the head page and its struct page if the page is a tail page; None if not mapped."""
    words = memory.words(_struct(page), _WORDS)
    if not words or not words[1] & 1:
        return (page, words) if words else None
    head = memory.words(words[1] - 1, _WORDS)
    return (page - (_struct(page) - (words[1] - 1)) // _STRUCT_PAGE * 4096, head) if head else None


def _struct(page: int) -> int:
    """Return the address of the struct page of a page of the direct map."""
    return _VMEMMAP + (page - qemu.DIRECT_MAP) // 4096 * _STRUCT_PAGE


def _place(structs: list[tuple[int, ...]], nodes: list[int]) -> tuple[int, int] | None:
    """Return the most common pair (field of a struct page that refers to a cache, offset of the cache's list head), or None."""
    ordered = np.sort(np.array(nodes, np.uint64))
    votes: collections.Counter[tuple[int, int]] = collections.Counter()
    for words in structs:
        for word, value in enumerate(words):
            at = int(np.searchsorted(ordered, np.uint64(value)))
            if value and at < len(ordered) and int(ordered[at]) - value < _BEHIND:
                votes[word, int(ordered[at]) - value] += 1
    return votes.most_common(1)[0][0] if votes else None
