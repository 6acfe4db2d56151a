"""Text of memory accesses: each form gives the accesses that were written, and text that is none of them is refused."""

import gzip
import io
import json

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from scmsim import cli
from scmsim.core.errors import UsageError
from scmsim.core.records import FETCH, LOAD, STORE
from scmsim.mmu import text_accesses

accesses = st.lists(
    st.tuples(st.sampled_from([LOAD, STORE, FETCH]), st.integers(1 << 20, 10**19 - 1)), min_size=1, max_size=50
)
VIEW = {LOAD: "read ", STORE: "write", FETCH: "ifetch"}
# form -> (line of an access, kinds that it has, lines that are no accesses)
FORMS = {
    "pinatrace": (lambda code, at: f"0x7f4c3a0a1e34: {'RW'[code]} {at:#x}", (LOAD, STORE), "#eof"),
    "din": (lambda code, at: f"{ {LOAD: 0, STORE: 1, FETCH: 2}[code] } {at:x}", (LOAD, STORE, FETCH), "4 7fff0000"),
    "xdin": (lambda code, at: f"{ {LOAD: 'r', STORE: 'w', FETCH: 'i'}[code] } 0x{at:x} 8", (LOAD, STORE, FETCH), ""),
    "gem5": (lambda code, at: f"{'rw'[code]},{at},64,0,1000", (LOAD, STORE), "u,4096,64,0,1000"),
    "perf": (lambda code, at: f"   cpu/mem-{('load', 'store')[code]}s/P:  {at:16x}", (LOAD, STORE), ""),
    "hex": (lambda code, at: f"0x{at:x}", (LOAD,), "# from a tool of ours"),
    "view": (
        lambda code, at: f"   {at % 99}   1:   1234 {VIEW[code]}       8 byte(s) @ {at:#018x} by PC 0x00007f8b8c3e5043",
        (LOAD, STORE, FETCH),
        "           1           1:     1234 <marker: version 3>",
    ),
}


def read(text: str) -> list[tuple[int, int]]:
    batches = list(text_accesses.read(io.BytesIO(text.encode()), "t.txt"))
    return [
        (int(code), int(at))
        for codes, addresses in batches
        for code, at in zip(codes, addresses.view(np.uint64), strict=True)
    ]


@pytest.mark.parametrize("form", FORMS)
@given(rows=accesses, end=st.sampled_from(["\n", "\r\n"]))
def test_each_form_gives_the_accesses_that_were_written(form, rows, end):
    line, kinds, beside = FORMS[form]
    rows = [(code if code in kinds else kinds[0], at) for code, at in rows]
    text = end.join([line(LOAD, 0xABCDE), beside, *(line(code, at) for code, at in rows)]) + end
    assert read(text) == [(LOAD, 0xABCDE), *rows]


def test_a_sample_of_perf_without_an_address_is_left_out():
    assert read("   7f00aa\n   0\n   7f00bb\n") == [(LOAD, 0x7F00AA), (LOAD, 0x7F00BB)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("hello\n", "'t.txt' begins with 'hello', no memory access in text; known: pinatrace,"),
        ("0xab\n" * 50 + "oh no\n", "1 of 51 lines are not of hexadecimal addresses, the first is line 51"),
        ("1234\n5678\n", "no address has a letter, so they may be decimal"),
        ("", None),
    ],
)
def test_text_of_no_form_is_refused(text, message):
    if message is None:
        assert read(text) == []
        return
    with pytest.raises(UsageError) as told:
        read(text)
    assert message in str(told.value) and len(str(told.value)) <= 300


def test_one_line_in_a_hundred_may_be_damaged():
    assert len(read("0xab\n" * 150 + "oh no\n")) == 150


def test_mmu_counts_a_compressed_text(tmp_path):
    text = "".join(f"0x401000: R {page << 12:#x}\n" for page in range(1, 1001)) + "#eof\n"
    (tmp_path / "pinatrace.out.gz").write_bytes(gzip.compress(text.encode()))
    done = CliRunner().invoke(cli.main, ["mmu", str(tmp_path / "pinatrace.out.gz"), "--l1", "64x4", "--json"])
    (counts,) = json.loads(done.stdout)["results"]
    assert (counts["accesses"], counts["l1_misses"]) == (1000, 1000)
    (tmp_path / "none.txt").write_text("")
    done = CliRunner().invoke(cli.main, ["mmu", str(tmp_path / "none.txt"), "--l1", "64x4"])
    assert done.exit_code == 2 and "holds no access" in done.stderr
