"""Large folios of ext4's page cache, beside the rule in plain words: which pages of a write() share one."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from scmsim.fs.linux import state as e
from tests.fs import drive

MOST = 1 << 21
pages = st.sampled_from([0, 1, 2, 3, 5, 8, 15, 16, 17, 100, 256, 511, 512, 600, 1024])
lengths = st.sampled_from([1, 100, 4096, 5000, 8192, 12288, 16384, 65536, 70_000, 1 << 20, (1 << 21) + 1, 3 << 20])
writes = st.tuples(pages, st.sampled_from([0, 0, 1, 100, 4095]), lengths)
rows = st.lists(st.one_of(writes, writes, st.tuples(pages)), max_size=8)


def parts(first, stop):
    """Folios of falling size that the pages [first, stop) are split into."""
    while first < stop:
        size = 1 << (stop - first).bit_length() - 1
        yield range(first, first + size)
        first += size


class Cache:
    """Folios of one file: page -> the range of pages of its folio."""

    def __init__(self):
        self.of = {}

    def write(self, at, end):
        while at < end:
            page = at >> 12
            if page in self.of:
                at = self.of[page].stop << 12
                continue
            left = min(end, (at // MOST + 1) * MOST) - at
            sizes = [1 << order for order in range(10) if order == 0 or 4096 << order <= left]
            size = max(n for n in sizes if page % n == 0 and not any(p in self.of for p in range(page, page + n)))
            self.of |= dict.fromkeys(range(page, page + size), range(page, page + size))
            at = page + size << 12

    def truncate(self, stop):
        for folio in {f for f in self.of.values() if f.stop > stop}:
            for page in folio:
                self.of.pop(page)
            self.of |= {page: part for part in parts(folio.start, stop) for page in part}


def told(model):
    """The same of the model, by its words: pages that entered together, in frames that lie one after the other and aligned."""
    kernels = model.mapped.attached()
    record, arena = model.record, model.state.arena
    at = int(arena[record.rows + e.ROW_WORDS])
    words = arena[int(arena[at + e.PAGES]) :][: int(arena[at + e.PAGE_COUNT])]
    sizes = np.zeros(len(words), np.int64)
    kernels.folios(model.state.record, arena, 1, sizes)
    found, first = {}, 0
    for page, word in enumerate(int(word) for word in words):
        if not word & e.IS_CACHED:
            continue
        first = first if word & e.IS_TAIL else page
        assert (word >> e.FRAME_SHIFT) - (int(words[first]) >> e.FRAME_SHIFT) & e.FRAME_MASK == page - first
        found.setdefault(first, []).append(page)
    folios = {}
    for first, held in found.items():
        for part in parts(first, first + len(held)):
            frame = int(words[part.start]) >> e.FRAME_SHIFT & e.FRAME_MASK
            assert frame % len(part) == part.start % len(part) == 0
            assert set(sizes[part.start : part.stop]) == {len(part)}
            folios |= dict.fromkeys(part, part)
    return folios


@given(rows)
def test_a_write_allocates_the_largest_folios_that_fit(rows):
    model, cache = drive.Model("ext4", drive.files(0, -1, dirs=[0]), folios="always"), Cache()
    model.feed(drive.ops(("create", 1, 0, 0, 0)))
    for row in rows:
        if len(row) == 1:
            model.feed(drive.ops(("truncate", 1, row[0] << 12)))
            cache.truncate(row[0])
        else:
            page, inside, length = row
            at = (page << 12) + inside
            model.feed(drive.ops(("write", 1, at, length)))
            cache.write(at, at + length)
        assert told(model) == cache.of, row


def test_without_them_each_page_stands_alone():
    model = drive.Model("ext4", drive.files(0, -1, dirs=[0]))
    model.feed(drive.ops(("create", 1, 0, 0, 0), ("write", 1, 0, 1 << 21)))
    assert all(len(folio) == 1 for folio in told(model).values())
