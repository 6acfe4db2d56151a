"""The cache of keys and values against a slow reference: hits, misses, evictions, bytes, and which block each slot holds."""

import json
import pathlib

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

import scmsim
from scmsim.cli import main
from scmsim.core.errors import UnknownName, UsageError
from scmsim.core.records import CREATE, NON_TEMPORAL, READ, ULOAD, UNLINK, USTORE, WRITE, joined
from scmsim.trace.rules import problems, time_problems
from scmsim.workload import _kvcache, kvcache
from tests.reference.kvcache_slow import steps, texts

SAMPLE = pathlib.Path(__file__).parents[1] / "data/workloads/mooncake/conversation.jsonl"
GET, PUT = (ULOAD, READ), (USTORE, WRITE)
BLOCK = {"model": "1", "element": 1}  # a token is a byte


def rows(work):
    batch = joined(list(work.batches()))
    assert len(batch) == work.rows and not list(problems(batch, len(work.files))) and not list(time_problems(batch, 0))
    return batch


def agrees(work, expected):
    """Compare the rows of a workload with the reference's steps, and each get with what its slot was given last."""
    batch = rows(work)
    wanted = [step for step in expected if step.kind != "evict"]
    held = {}
    moved = batch[np.isin(batch["op"], GET + PUT)]
    assert len(moved) == len(wanted) and (moved["length"] == work.unit).all()
    for row, step in zip(moved, wanted, strict=True):
        slot = (int(row["file"]), int(row["offset"]))
        assert slot[1] % work.unit == 0 and (work.by != "files" or slot[1] == 0)
        if row["op"] in PUT:
            assert step.kind == "put"
            held[slot] = step.text
        else:
            assert step.kind == "get" and held[slot] == step.text
    count = {kind: sum(step.kind == kind for step in expected) for kind in ("get", "put", "evict")}
    assert (work.found, work.stored, work.evicted) == (count["get"], count["put"], count["evict"])
    assert moved["length"][np.isin(moved["op"], PUT)].sum() == count["put"] * work.unit
    assert len(held) == count["put"] - count["evict"] <= work.slots
    if work.by == "files":
        assert (batch["op"] == CREATE).sum() == count["put"] and (batch["op"] == UNLINK).sum() == count["evict"]


@st.composite
def traces(draw):
    """Draw lines of a trace with blocks of 4 tokens: each request repeats some blocks of an earlier one and adds its own."""
    requests, fresh = [], 0
    for _ in range(draw(st.integers(1, 12))):
        earlier = draw(st.sampled_from([[], *requests]))
        kept = earlier[: draw(st.integers(0, len(earlier)))]
        added = draw(st.integers(0, 5))
        requests.append([*kept, *range(fresh, fresh + added)])
        fresh += added
    requests.append([*range(fresh, fresh + 2)])  # at least one request says how long a block is
    last = [draw(st.integers(1, 4)) for _ in requests]
    return [
        json.dumps({"timestamp": 0, "input_length": 4 * len(r) - 4 + n if r else 0, "output_length": 1, "hash_ids": r})
        for r, n in zip(requests, last, strict=True)
    ]


@given(traces(), st.sampled_from([1, 2, 4, 8, 16]), st.integers(1, 12), st.sampled_from(["map", "calls", "files"]))
def test_any_trace_is_served_as_the_slow_cache_serves_it(tmp_path_factory, lines, tokens, slots, by):
    path = tmp_path_factory.mktemp("kv") / "t.jsonl"
    path.write_text("\n".join(lines))
    work = kvcache.Workload(file=str(path), tokens=tokens, capacity=slots * tokens, by=by, **BLOCK)
    agrees(work, steps(texts(lines, 4, tokens), slots))


@pytest.mark.parametrize("tokens", [256, 512, 1024])
@pytest.mark.parametrize("by", ["map", "files"])
def test_mooncake_s_trace_is_served_as_the_slow_cache_serves_it(tokens, by):
    lines = SAMPLE.read_text().splitlines()
    for slots in (40, 1500):
        work = kvcache.Workload(file=str(SAMPLE), tokens=tokens, capacity=slots * tokens, by=by, **BLOCK)
        agrees(work, steps(texts(lines, 512, tokens), slots))
    assert work.found and work.evicted


drawn = st.tuples(
    st.integers(1, 60), st.sampled_from([16, 256, 1000]), st.integers(1, 20_000), st.integers(0, 95), st.integers(1, 50),
    st.integers(0, 2**32),
)  # fmt: skip


@given(drawn, st.integers(1, 300), st.sampled_from(["map", "calls", "files"]))
@settings(max_examples=40)
def test_drawn_requests_are_served_as_the_slow_cache_serves_them(asked, slots, by):
    requests, tokens, prompt, again, gap, seed = asked
    work = kvcache.Workload(
        requests=requests, tokens=tokens, prompt=prompt, again=again, gap=gap, seed=seed, capacity=slots * tokens, by=by,
        **BLOCK,
    )  # fmt: skip
    asked = list(_kvcache.conversations(requests, tokens, prompt, again, gap, seed))
    assert len(asked) == requests and work.asked == sum(map(len, asked))
    if len(list(filter(None, asked))) and work.asked < 4000:
        agrees(work, steps(asked, slots))


@given(drawn)
def test_equal_blocks_have_equal_text_before_them(asked):
    """A block's number stands for everything up to its end: it has one place, and one block before it."""
    before = {}
    for blocks in _kvcache.conversations(*asked):
        assert len(set(blocks)) == len(blocks)
        for place, block in enumerate(blocks):
            assert before.setdefault(block, (place, blocks[place - 1] if place else None)) == (
                place, blocks[place - 1] if place else None,
            )  # fmt: skip


def test_conversations_that_never_go_on_share_their_first_tokens_only():
    for blocks in _kvcache.conversations(500, 128, 5900, 0, 480, 1):
        assert blocks[:4] == [0, 1, 2, 3][: len(blocks)] and (len(blocks) < 5 or blocks[4] > 3)


def test_drawn_requests_reuse_blocks_as_the_second_half_of_mooncake_s_trace_does():
    """The hit ratios are measured (docs/validation/workloads.md): of requests that nothing was fitted to."""
    for slots, measured in ((3_000, 0.070), (10_000, 0.221), (30_000, 0.329)):
        work = kvcache.Workload(requests=6016, gap=480, tokens=512, capacity=slots * 512, **BLOCK)
        assert abs(work.found / work.asked - measured) < 0.025


@pytest.mark.parametrize(
    ("model", "element", "kib"),
    [("llama-3.1-8b", 2, 128), ("llama-3.1-70b", 2, 320), ("qwen2.5-7b", 2, 56), ("2x80x8x128", 1, 160)],
)
def test_bytes_of_a_token_follow_from_the_model(model, element, kib):
    assert kvcache.Workload(model=model, element=element, tokens=16, requests=1).unit == 16 * kib << 10
    assert _kvcache.elements("deepseek-v3") == 61 * 576


def test_large_blocks_are_stored_past_the_caches_and_small_ones_are_not():
    for tokens, past in ((4, False), (6, True)):  # 512 and 768 KiB
        batch = rows(kvcache.Workload(tokens=tokens, requests=3))
        stores = batch[batch["op"] == USTORE]
        assert len(stores) and (((stores["flag"] & NON_TEMPORAL) != 0) == past).all()
        assert not (batch["flag"][batch["op"] == ULOAD] & NON_TEMPORAL).any()


@pytest.mark.parametrize("by", ["map", "calls", "files"])
def test_a_replay_moves_the_bytes_of_the_blocks(by):
    work = kvcache.Workload(requests=20, gap=2, prompt=600, model="2x1x1x64", tokens=16, capacity=1 << 18, by=by)
    run = scmsim.replay(work, "ext4-dax").runs[0]
    assert run.payload["written"] == work.stored * work.unit and run.payload["read"] == work.found * work.unit
    assert work.found > 50 and work.evicted > 50


def test_a_mapped_cache_faults_once_for_each_page_of_its_slots():
    work = kvcache.Workload(requests=20, gap=2, prompt=600, model="2x1x1x64", tokens=16, capacity=1 << 18)
    assert work.unit == 4096 and work.used == work.slots == 64
    assert scmsim.replay(work, "ext4-dax").runs[0].counters["page_faults_pte"] == 64


def test_the_figures_are_printed(tmp_path):
    done = CliRunner().invoke(main, ["synth", "kvcache", str(SAMPLE), "-o", str(tmp_path / "k.parquet")])
    work = kvcache.Workload(file=str(SAMPLE))
    assert done.exit_code == 0 and f"200 requests with {work.asked:,} blocks of 33,554,432 bytes" in done.output
    assert f"{work.found:,} found" in done.output and f"{work.evicted:,} evicted from 512 slots" in done.output


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ("", "has no requests"),
        ("{", "t.jsonl:1: '{' is not a JSON object"),
        ("[1]", "t.jsonl:1: a request is a JSON object"),
        ("1" * 5000, "t.jsonl:1: "),
        ('{"input_length": 5}', "t.jsonl:1: the request has no 'hash_ids'"),
        ('\n{"input_length": 1.5, "hash_ids": []}', "t.jsonl:2: input_length is 1.5; it must be a whole number"),
        ('{"input_length": 5, "hash_ids": [true]}', "it must be a list of whole numbers"),
        ('{"input_length": 5, "hash_ids": [1, 2, 3, 4]}', "4 hash_ids for 5 tokens; no power of two"),
        (
            '{"input_length": 7, "hash_ids": [1, 2]}\n{"input_length": 9, "hash_ids": [1]}',
            "t.jsonl:2: 1 hash_ids for 9 tokens; blocks of 4 tokens make 3",
        ),
        ('{"input_length": 7, "hash_ids": [1, 2]}', "tokens = 3; t.jsonl has blocks of 4 tokens"),
    ],
)
def test_a_line_that_is_not_a_request_is_refused(tmp_path, lines, said):
    path = tmp_path / "t.jsonl"
    path.write_text(lines)
    tokens = "3" if said.startswith("tokens = 3") else "4"
    done = CliRunner().invoke(
        main, ["synth", "kvcache", str(path), "--tokens", tokens, "-o", str(tmp_path / "k.parquet")]
    )
    assert done.exit_code == 2 and said in done.output and len(done.output.splitlines()) <= 4
    assert not (tmp_path / "k.parquet").exists()


def test_what_cannot_be_is_refused(tmp_path):
    with pytest.raises(UnknownName, match=r"did you mean 'llama-3.1-8b'.*or give factors.*2x32x8x128"):
        kvcache.Workload(model="llama-3.1-8")
    with pytest.raises(UsageError, match="has 0 elements per token"):
        kvcache.Workload(model="2x0")
    with pytest.raises(UsageError, match="does not hold a block of 33,554,432 bytes"):
        kvcache.Workload(capacity=1 << 20)
    with pytest.raises(UsageError, match="again = 96; it must be 0 to 95"):
        kvcache.Workload(again=96)
    with pytest.raises(UsageError, match="cannot read"):
        kvcache.Workload(file=str(tmp_path / "none.jsonl"))
    (tmp_path / "b.jsonl").write_bytes(b"\xff\xfe\n")
    with pytest.raises(UsageError, match="not UTF-8"):
        kvcache.Workload(file=str(tmp_path / "b.jsonl"))


def walks(fs, **settings):
    """Return the walks of the program, and faults by size, of a small mapped cache: 4 slots of 2 MiB."""
    work = kvcache.Workload(requests=8, gap=1, prompt=40, tokens=16, capacity=8 << 20)
    assert work.unit == 2 << 20 and work.found
    counted = scmsim.replay(work, fs, params={fs: {"capacity": "1GiB", **settings}}).runs[0].counters
    return counted["dtlb_user_misses_walk_completed"], counted["page_faults_pte"], counted["page_faults_pmd"]


def test_four_systems_with_pages_of_2_mib_have_the_same_walks_and_faults():
    found = {walks("tmpfs", huge="always"), walks("hugetlbfs"), walks("device-dax"), walks("famfs")}
    assert len(found) == 1 and found.pop()[1:] == (0, 4)


@pytest.mark.slow
def test_systems_with_pages_of_4_kib_have_the_same_walks_and_more_of_them():
    """Equal but for entries that the kernel's own look-ups displace between two touches of a page."""
    one, other, large = walks("device-dax", align="4KiB"), walks("nova-cow"), walks("device-dax")
    assert one[1:] == other[1:] == (2048, 0)
    assert one[0] == pytest.approx(other[0], rel=1e-3) and one[0] > 100 * large[0]
