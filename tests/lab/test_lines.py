"""Lines of a real kernel: which accesses the plugin may leave out, touches by page, and the counts of a kept stream."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scmsim.core.errors import UsageError
from scmsim.lab import lines, touches
from tests.cache.machines import cache, counted, events
from tests.reference.lines_slow import joined, left

KINDS = ("load", "store", "nt")
STREAMS = st.lists(
    st.tuples(st.sampled_from(KINDS), st.sampled_from([0, 1, 2, 64, 65, 128, 192, 256, 320])), max_size=80
)


def misses(stream: list[tuple[str, int]], tables: list[dict]) -> dict[str, int]:
    found = counted(tables, events([(kind, 64 * line, 64) for kind, line in stream]))
    hits = {f"{side}_{name}" for side in ("load", "store") for name in ("lines", "l1_hit")} | {"nt_lines"}
    both = {side: found.get(f"{side}_lines", 0) - found.get(f"{side}_l1_hit", 0) for side in ("load", "store")}
    return {**both, **{name: count for name, count in found.items() if name not in hits}}


@settings(deadline=None, max_examples=200)
@given(STREAMS, st.sampled_from([64, 128]), st.sampled_from([1, 2, 3]))
def test_what_the_plugin_leaves_out_changes_no_miss(stream: list[tuple[str, int]], sets: int, ways: int) -> None:
    tables = [cache(sets, ways), cache(64, 3)]
    assert misses(left(stream), tables) == misses(stream, tables)


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 200), st.booleans(), st.integers(1, 2)), max_size=60))
def test_touches_of_lines_are_joined_by_page(found: list[tuple[int, bool, int]]) -> None:
    """Records of (line, whether a store, stretch), without repeats as the plugin writes them."""
    found = sorted(dict.fromkeys(found), key=lambda touch: touch[2])
    made = np.zeros(len(found), [("address", "<u8"), ("code", "<u8"), ("kind", "<u8")])
    for row, (line, store, stretch) in zip(made, found, strict=True):
        row["address"], row["code"], row["kind"] = 64 * line, 1000 + line, stretch << 32 | 1 << 1 | store
    pages = touches.by_page(made)
    assert [(int(one["address"]) // 4096, int(one["kind"]), int(one["lines"]), int(one["code"])) for one in pages] == [
        (page, 2 | store, mask, 1000 + first) for page, store, mask, first in joined(found)
    ]


def test_marks_of_calls_stay_in_order() -> None:
    mark = (1 << 64) - 1
    made = np.array([(mark, 0, 1), (64, 5, 3 << 32 | 2), (mark, 0, 1), (64, 5, 4 << 32 | 2)], "u8,u8,u8")
    made.dtype.names = ("address", "code", "kind")
    assert touches.by_page(made)["address"].tolist() == [mark, 64, mark, 64]


def stored(path, packed: list[int]) -> None:
    header = {"format": lines.FORMAT, "fs": "tmpfs", "kernel": "6.1", "calls": 2, "image_end": 0xFFFFFFFF83000000}
    schema = pa.schema([("line", pa.uint64())], metadata={"scmsim": json.dumps(header)})
    pq.write_table(pa.table([pa.array(packed, pa.uint64())], schema=schema), path)


def test_a_kept_stream_is_counted_by_region(tmp_path) -> None:
    direct, program = 0xFFFF888000001000 >> 6, 0x7F0000001000 >> 6
    stored(tmp_path / "a", [direct << 2, program << 2 | 1, direct << 2 | 1, (direct + 1) << 2])
    kept = lines.Kept(tmp_path / "a")
    machine = lines.check("mine", {"cache": [cache(64, 2), cache(128, 2)]})
    done: list[tuple[int, int]] = []
    rows = lines.counted(kept, {"mine": machine}, lambda *at: done.append(at))["mine"]
    assert [tuple(row.values()) for row in rows] == [("direct map", 2, 2, 2), ("program", 1, 1, 1)]
    assert done == [(4, 4)]


def test_other_files_and_other_first_levels_are_refused(tmp_path) -> None:
    (tmp_path / "b").write_text("nothing")
    with pytest.raises(UsageError, match="no lines of the lab"):
        lines.Kept(tmp_path / "b")
    with pytest.raises(UsageError, match=r"has 96 sets; the lab's recording is exact only for a multiple of 64 sets"):
        lines.check("odd", {"cache": [cache(96, 2)]})
