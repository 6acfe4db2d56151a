"""Represent the content of persistent memory for a crash check: metadata by name, data pages by the operation that wrote them.

Content is tracked by label: each 8-byte word of a data page carries the version (number of the operation that wrote it)
and the page of the file that it was written to.  ZERO means cleared, GARBAGE never written.
Units: bytes, pages of 4096 bytes, words of 8 bytes.
"""

from collections.abc import Hashable, Iterator
from typing import Any, NamedTuple

import numpy as np

LINE, PAGE, WORD = 64, 4096, 8
PIECE = 512  # pages in a piece; a piece that is cleared as a whole is recorded as one entry
WORDS = PAGE // WORD
ZERO, GARBAGE, ABSENT = 0, -1, -2  # ABSENT: after the end of the file

Label = int | np.ndarray  # content of a page: one label for the whole page, or one label per word
VERSION_SHIFT = 32


def label_of(version: int, offset: int) -> int:
    """Return the label of the bytes that an operation wrote at `offset` of a file, up to the end of that page."""
    return version << VERSION_SHIFT | offset // PAGE


class Word(NamedTuple):
    """Store that persists atomically: it sets the word `key` to `value`."""

    addr: int
    key: Hashable
    value: Any


class Mark(NamedTuple):
    """Store of a part of the record `key`; the record is complete when `Image.marked` counts all its bytes."""

    addr: int
    length: int
    key: Hashable


class Bulk(NamedTuple):
    """Store of data, with the label of its first page.

    The label increases by 1 per page unless it is ZERO.  An array of labels occurs only for data inside one page.
    """

    addr: int
    length: int
    label: Label


class Copy(NamedTuple):
    """Data copied from another place of the device; becomes Bulk when the store is executed."""

    addr: int
    length: int
    source: int


Write = Word | Mark | Bulk


class Image:
    """Content of the device; where an image with a `base` was not written, it has the content of the base."""

    def __init__(self, base: "Image | None" = None) -> None:
        self.words: dict[Hashable, Any] = {}
        self.marks: dict[Hashable, int] = {}
        self.pages: dict[int, Label] = {}
        self.zeroed: set[int] = set()  # pieces that are zeroes, except for the pages in `pages`
        self.held: set[int] = set()  # pieces with a page in `pages`
        self.base = base

    def word(self, key: Hashable, default: Any = None) -> Any:
        """Return the value of a word, or `default` if it was never stored."""
        if key in self.words:
            value = self.words[key]
            return default if value is None else value  # None: rolled back to never stored
        return self.base.word(key, default) if self.base else default

    def marked(self, key: Hashable) -> int:
        """Return how many bytes of a record are stored."""
        if key in self.marks:
            return self.marks[key]
        return self.base.marked(key) if self.base else 0

    def page(self, number: int) -> Label:
        """Return the label of a page of the device."""
        if number in self.pages:
            return self.pages[number]
        if number // PIECE in self.zeroed:
            return ZERO
        return self.base.page(number) if self.base else GARBAGE

    def apply(self, write: Write, low: int, high: int) -> None:
        """Store the part of a write within the bytes [low, high)."""
        if isinstance(write, Word):
            self.words[write.key] = write.value
            return
        low, high = max(low, write.addr), min(high, write.addr + write.length)
        if isinstance(write, Mark):
            self.marks[write.key] = self.marked(write.key) + high - low
            return
        whole = range(-(-low // (PIECE * PAGE)), high // (PIECE * PAGE))
        if whole and isinstance(write.label, int) and write.label == ZERO:
            self._clear(whole)
            self.apply(write, low, whole.start * PIECE * PAGE)
            low = whole.stop * PIECE * PAGE
        for number, first, stop in words_of(low, high):
            label = write.label
            if not isinstance(label, np.ndarray):
                label += (number - write.addr // PAGE) * (label > ZERO)
            else:
                label = label[first - write.addr % PAGE // WORD : stop - write.addr % PAGE // WORD]
            self._put(number, first, stop, label)

    def _clear(self, pieces: range) -> None:
        for piece in self.held.intersection(pieces):
            for number in range(piece * PIECE, (piece + 1) * PIECE):
                self.pages.pop(number, None)
        self.held.difference_update(pieces)
        self.zeroed.update(pieces)

    def _put(self, number: int, first: int, stop: int, label: Label) -> None:
        self.held.add(number // PIECE)
        if stop - first == WORDS:
            self.pages[number] = label
            return
        old = self.page(number)
        new = old.copy() if isinstance(old, np.ndarray) else np.full(WORDS, old, np.int64)
        new[first:stop] = label
        self.pages[number] = int(new[0]) if (new == new[0]).all() else new


def words_of(low: int, high: int) -> Iterator[tuple[int, int, int]]:
    """Yield (page, first word, end of its words) of each page that the bytes [low, high) touch."""
    for number in range(low // PAGE, (high - 1) // PAGE + 1):
        start = number * PAGE
        yield number, max(low - start, 0) // WORD, (min(high - start, PAGE) + WORD - 1) // WORD


def resolve(copy: Copy, image: Image) -> list[Bulk]:
    """Return the pieces of a copy with the labels that its source has in `image`; no piece crosses a page on either side."""
    pieces: list[Bulk] = []
    at, end = copy.addr, copy.addr + copy.length
    while at < end:
        source = copy.source + at - copy.addr
        length = min(end - at, PAGE - at % PAGE, PAGE - source % PAGE)
        label = image.page(source // PAGE)
        if isinstance(label, np.ndarray):
            # A piece that begins or ends inside a word gets that word's label.
            first = source % PAGE // WORD
            count = (at % PAGE % WORD + length + WORD - 1) // WORD
            label = label[first : first + count]
            if len(label) < count:
                label = np.append(label, label[-1:])
            label = int(label[0]) if (label == label[0]).all() else label
        last = pieces[-1] if pieces else None
        if (
            last
            and isinstance(last.label, int)
            and isinstance(label, int)
            and at % PAGE == 0
            and label == (last.label + (at // PAGE - last.addr // PAGE) * (last.label > ZERO))
        ):
            pieces[-1] = last._replace(length=last.length + length)
        else:
            pieces.append(Bulk(at, length, label))
        at += length
    return pieces


def cleared(addr: int, length: int) -> list[Bulk]:
    """Return the stores that clear [addr, addr + length); a word that keeps its first bytes keeps its label."""
    first = -(-addr // WORD) * WORD
    return [Bulk(first, addr + length - first, ZERO)] if first < addr + length else []


def in_words(addr: int, length: int, key: Hashable) -> list[Mark]:
    """Return the store of a record as marks of 8 bytes, so that each of its cache lines may persist in part."""
    marks, at = [], addr
    while at < addr + length:
        step = min(WORD - at % WORD, addr + length - at)
        marks.append(Mark(at, step, key))
        at += step
    return marks
