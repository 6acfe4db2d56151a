"""Any sound rows survive the store in any pieces, and no damage to the file becomes a traceback."""

import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from scmsim.core.errors import UsageError
from scmsim.core.records import OP, OPS, Files, joined
from scmsim.trace import TraceWriter, open_trace
from scmsim.trace import store as store_module
from scmsim.trace.rules import FILE_END
from scmsim.trace.summary import all_problems

FILES = 7
FIELDS = {
    "time_ns": st.integers(0, 1 << 62),
    "offset": st.integers(0, 1 << 43),
    "length": st.integers(0, 1 << 43),
    "file": st.integers(0, FILES - 1),
    "file2": st.integers(-1, FILES - 1),
    "thread": st.integers(0, 1 << 30),
    "flag": st.integers(0, 1023),
    "buffer": st.integers(0, (1 << 36) - 1),
    "op": st.integers(0, len(OPS) - 1),
}


@st.composite
def op_arrays(draw) -> np.ndarray:
    out = np.empty(draw(st.integers(0, 60)), OP)
    for name, values in FIELDS.items():
        out[name] = draw(arrays("i8", len(out), elements=values))
    return out


@st.composite
def file_tables(draw) -> Files:
    text = st.text(st.characters(codec="utf-8"), max_size=20)
    path = draw(st.lists(text, min_size=FILES, max_size=FILES))
    sizes = draw(arrays("i8", FILES, elements=st.integers(-1, FILE_END - 1)))
    return Files(path, sizes, draw(arrays(bool, FILES)))


@given(st.lists(op_arrays(), max_size=4), file_tables(), st.integers(1, 70), st.integers(1, 50), st.booleans())
@settings(max_examples=60)
def test_round_trip_in_any_pieces(
    batches: list[np.ndarray], files: Files, chunk: int, group: int, ordered: bool
) -> None:
    expected = joined([*batches, np.empty(0, OP)])
    if ordered:
        expected["time_ns"].sort()
        batches = [expected[: len(expected) // 3], expected[len(expected) // 3 :]]
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(store_module, "ROWS_PER_GROUP", group)
        with TraceWriter(Path(folder) / "t.parquet", {"x": 1}) as writer:
            for batch in batches:
                writer.append(batch)
            writer.close(files)
        trace = open_trace(Path(folder) / "t.parquet")
        in_order = bool((np.diff(expected["time_ns"]) >= 0).all())
        assert (all_problems(trace) == []) == in_order
        if not in_order:
            with pytest.raises(UsageError, match="is before that of the row above"):
                list(trace.batches(chunk))
            return
        pieces = list(trace.batches(chunk))
        assert all(0 < len(piece) <= chunk for piece in pieces)
        assert np.array_equal(joined([*pieces, np.empty(0, OP)]), expected)
        assert trace.rows == len(expected)
        assert trace.files.path == files.path
        assert np.array_equal(trace.files.first_size, files.first_size)
        assert np.array_equal(trace.files.is_dir, files.is_dir)


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("trace") / "t.parquet"
    rows = np.zeros(3000, OP)
    rows["offset"] = np.random.default_rng(3).integers(0, 1 << 40, len(rows))
    rows["file2"] = -1
    with TraceWriter(path, {"tool": "test"}) as writer:
        writer.append(rows)
        writer.close(Files([f"/{i}" for i in range(50)], np.zeros(50, "i8"), np.zeros(50, bool)))
    return path.read_bytes()


def read_all(data: bytes) -> int:
    """Rows read, or -1 if the file was refused with one line."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "t.parquet"
        path.write_bytes(data)
        try:
            trace = open_trace(path)
            all_problems(trace)
            return sum(map(len, trace.batches()))
        except UsageError as error:
            assert "\n" not in str(error)
            return -1


def test_a_cut_file_is_refused_wherever_it_is_cut(sound: bytes) -> None:
    assert read_all(sound) == 3000
    for cut in [*range(40), *range(40, len(sound), 97), *range(len(sound) - 40, len(sound))]:
        assert read_all(sound[:cut]) == -1, cut


@given(st.data())
@settings(max_examples=150)
def test_changed_bytes_never_become_a_traceback(sound: bytes, data) -> None:
    # only in the pages: Arrow trusts the footer, which it writes without a checksum
    footer = int.from_bytes(sound[-8:-4], "little") + 8
    at = data.draw(st.integers(4, len(sound) - footer - 1))
    changed = bytearray(sound)
    changed[at] ^= data.draw(st.integers(1, 255))
    read_all(bytes(changed))
