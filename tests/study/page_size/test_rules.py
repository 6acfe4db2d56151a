"""The class of each 2 MiB beside a page-by-page reference, and the faults beside those that the models have."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scmsim.core import records as r
from scmsim.study.page_size import from_model, rules
from tests.fs import drive

FAN, PAGE = rules.FAN, rules.PAGE


def reference(place: list[int], length: int, offset: int, end: int) -> list[str]:
    """Class of each 2 MiB from where every page lies (0: nowhere, odd: without content)."""
    found = []
    for region in range(offset // rules.HUGE, -(-end // rules.HUGE)):
        pages = range(region * FAN, (region + 1) * FAN)
        if pages[0] * PAGE < offset or pages[-1] * PAGE >= end:
            found.append("edge")
            continue
        words = [place[page] for page in pages]
        run = all(word - words[0] == k * PAGE for k, word in enumerate(words))
        if not any(words):
            found.append("empty")
        elif not all(words):
            found.append("hole")
        elif not run:
            found.append("fragmented")
        elif words[0] & 1:
            found.append("unwritten")
        else:
            found.append("misaligned" if words[0] % rules.HUGE else "huge")
    return found


@st.composite
def files(draw: st.DrawFn) -> tuple[list[int], int]:
    """Where the pages of a file lie, and its length."""
    place: list[int] = []
    for _ in range(draw(st.integers(1, 6))):
        pages = draw(st.sampled_from([1, 100, 412, 511, 512, 513, 1024, 1500]))
        kind = draw(st.sampled_from(["hole", "follows", "aligned", "anywhere"]))
        page = len(place)
        start = {
            "hole": 0,
            "follows": (place[-1] >> 12) + 1 if place and place[-1] else 7,
            "aligned": 1 << 20 | page % FAN,
            "anywhere": draw(st.integers(1, 1 << 18)),
        }[kind]
        empty = kind != "hole" and draw(st.booleans())
        place += [(start + k << 12 | empty) if start else 0 for k in range(pages)]
    return place, len(place) * PAGE - draw(st.sampled_from([0, 1, PAGE - 1]))


@given(
    files(), st.sampled_from([0, PAGE, 100 * PAGE, rules.HUGE]), st.sampled_from([None, PAGE, rules.HUGE, 700 * PAGE])
)
def test_classes_are_those_of_every_page(file: tuple[list[int], int], offset: int, mapped: int | None) -> None:
    place, length = file
    offset = min(offset, (length - 1) // PAGE * PAGE)
    end = length if mapped is None else min(length, offset + mapped)
    found = rules.classes(rules.extents_of_pages(np.array(place)), length, offset, mapped)
    assert [rules.CLASSES[k] for k in found] == reference(place, length, offset, end)
    cached = [rules.CLASSES[k] for k in rules.cached_classes(offset, end)]
    assert cached == ["edge" if name == "edge" else "huge" for name in reference(place, length, offset, end)]
    pages = rules.pages_of(found, end, offset)
    assert pages.sum() == -(-end // PAGE) - offset // PAGE and (0 < pages).all() and (pages <= FAN).all()


def operations(draw: st.DrawFn) -> list[tuple]:
    """A file made by writes, fallocates and truncates."""
    rows: list[tuple] = [("create", 1, 0, 0, 0)]
    for _ in range(draw(st.integers(1, 8))):
        what = draw(st.sampled_from(["write", "write", "fallocate", "truncate"]))
        at, size = draw(st.integers(0, 1600)) * PAGE, draw(st.sampled_from([1, 5, 512, 600, 1024])) * PAGE
        rows.append((what, 1, at, size) if what != "truncate" else (what, 1, at + 77, 0))
    return [*rows, ("write", 1, draw(st.integers(0, 3000)) * PAGE, 100), ("fsync", 1)]


@pytest.mark.slow
@pytest.mark.parametrize("fs", ["ext4-dax", "pmfs-2m", "tmpfs"])
@settings(max_examples=8)
@given(st.data())
def test_faults_are_those_of_the_model(fs: str, data: st.DataObject) -> None:
    rows = operations(data.draw)
    params = {"ext4-dax": {"data_alignment": "2MiB"}, "tmpfs": {"huge": "always"}}.get(fs, {})
    side = drive.files(0, -1, dirs=[0])
    found = from_model.page_sizes(drive.source(side, drive.ops(*rows)), fs, params)
    assert not isinstance(found, str)
    (one,) = found
    want = rules.faults(one.found, int(rules.pages_of(one.found, one.length).sum()), one.around, one.whole_blocks)
    for touch, expected in (("load", want.loads + one.filling), ("store", want.stores)):
        model = drive.Model(fs, side, 1 << 14, **params)
        model.feed(drive.ops(*rows))
        span = (1, 0, one.length)
        events = model.feed(drive.ops(("mmap", *span, -1, r.WRITABLE_SHARED), (touch, *span)))
        assert int(((events.code == r.MAP) & (events.space == r.USER)).sum()) == expected, (touch, rows)


@pytest.mark.parametrize(
    ("piece", "classes", "loads"), [(2 << 20, "huge huge edge", 3), (1 << 20, "small folios small folios edge", 65)]
)
def test_the_page_cache_maps_at_once_what_was_written_at_once(piece: int, classes: str, loads: int) -> None:
    """4 MiB and one page, in pieces of 2 MiB and of 1 MiB: with large folios the former can be mapped by 2 MiB."""
    rows = [
        ("create", 1, 0, 0, 0),
        *(("write", 1, at, piece) for at in range(0, 4 << 20, piece)),
        ("write", 1, 4 << 20, 100),
    ]
    side = drive.files(0, -1, dirs=[0])
    found = from_model.page_sizes(drive.source(side, drive.ops(*rows)), "ext4", {"folios": "always"})
    assert not isinstance(found, str)
    assert " ".join(rules.CLASSES[k] for k in found[0].found) == classes
    want = rules.faults(found[0].found, int(rules.pages_of(found[0].found, found[0].length).sum()), found[0].around)
    model = drive.Model("ext4", side, 1 << 14, folios="always")
    model.feed(drive.ops(*rows))
    span = (1, 0, found[0].length)
    events = model.feed(drive.ops(("mmap", *span, -1, r.WRITABLE_SHARED), ("load", *span)))
    assert int(((events.code == r.MAP) & (events.space == r.USER)).sum()) == want.loads == loads
