"""The LSM store and YCSB's requests: known values, and a store whose look-ups are checked record by record."""

import numpy as np
import pytest

from scmsim.core.records import APPENDS, CREATE, FSYNC, OPS, READ, SETUP, UNLINK, WRITE, joined
from scmsim.workload import _lsm, _ycsb, db_bench, lsm

SMALL = {"records": 4000, "operations": 4000, "write_buffer": 1 << 18, "target": 1 << 18, "level_base": 1 << 19}


def rows(work):
    return joined(list(work.batches()))


def test_keys_are_hashed_as_in_ycsb():
    # "user6284781860667377211" and "user8517097267634966620" are the first keys of every YCSB load
    assert _ycsb.fnv(np.array([0, 1])).tolist() == [6284781860667377211, 8517097267634966620]
    assert (_ycsb.fnv(np.arange(10_000)) >= 0).all()


def all_requests(workload, records=1000, operations=60_000, distribution=""):
    parts = list(_ycsb.requests(workload, records, operations, 5, distribution, block=7001))
    return _ycsb.Requests(*(np.concatenate(column) for column in zip(*parts, strict=True)))


@pytest.mark.parametrize("workload", _ycsb.MIXES)
def test_mixes_and_keys(workload):
    shares, _ = _ycsb.MIXES[workload]
    made = all_requests(workload)
    found = np.bincount(made.kind, minlength=5) / len(made.kind)
    assert np.abs(found - shares).max() < 0.01 and sum(shares) == 1
    newest = 999 + np.cumsum(made.kind == _ycsb.INSERT)
    assert (made.key >= 0).all() and (made.key <= newest).all()
    assert (made.key[made.kind == _ycsb.INSERT] == newest[made.kind == _ycsb.INSERT]).all()
    scans = made.scan[made.kind == _ycsb.SCAN]
    assert (made.scan[made.kind != _ycsb.SCAN] == 0).all()
    if len(scans):
        assert (scans.min(), scans.max()) == (1, 100)


def test_zipfian_ranks_follow_their_law():
    """Rank 0 and 1 have exact shares, 1/zeta and 2^-theta/zeta; the rest follows Gray's approximation."""
    items = 1000
    zeta = float((np.arange(1, items + 1) ** -0.99).sum())
    ranks = _ycsb.zipfian(np.random.default_rng(1).random(400_000), items, zeta)
    share = np.bincount(ranks, minlength=items) / len(ranks)
    assert abs(share[0] - 1 / zeta) < 0.002 and abs(share[1] - 2**-0.99 / zeta) < 0.002
    expected = (np.arange(11, 101) ** -0.99).sum() / zeta
    assert abs(share[10:100].sum() - expected) < 0.02 and ranks.max() < items


def test_latest_prefers_the_newest_and_grows_its_zeta_sum():
    made = all_requests("d", 1000, 40_000)
    newest = 999 + np.cumsum(made.kind == _ycsb.INSERT)
    age = (newest - made.key)[made.kind == _ycsb.READ]
    assert 0.1 < (age == 0).mean() < 0.16 and np.median(age) < 100
    latest = _ycsb.Latest(10)
    latest.draw(np.array([0.5, 0.5]), np.array([15, 20]))
    assert latest.zeta == pytest.approx((np.arange(1, 21) ** -0.99).sum())


def test_uniform_covers_the_records():
    made = all_requests("c", 100, 20_000, "uniform")
    assert np.bincount(made.key, minlength=100).min() > 120


def test_log_records_and_blocks_are_those_traced():
    """db_bench with 400-byte values and 16-byte keys: 439 bytes a put, a median block of 3809 bytes."""
    records = _lsm.log_records(16, 400, 2000)
    assert np.median(records) == 439 and records.max() <= 439 + 7 + 6
    position = 0
    for length in records.tolist():  # no header lies across the end of a 32 KiB block
        position += length
    assert position == sum(records) and abs(position - 2000 * 439 - 7 * (position // 32768)) < 7 * (
        position // 32768 + 1
    )
    form = _lsm.shape(16, 400, 4096)
    assert form.per_block == 9 and abs(form.block - 3809) <= 20


def test_load_is_setup_and_every_put_is_one_write():
    work = lsm.Workload("a", **SMALL)
    batch = rows(work)
    logs = np.isin(batch["file"], lsm.LOGS) & (batch["op"] == WRITE)
    setup = (batch["flag"] & SETUP) != 0
    assert (logs & setup).sum() == 4000 and (batch["flag"][logs] & APPENDS != 0).all()
    updates = (np.concatenate([b.kind for b in _ycsb.requests("a", 4000, 4000, 1)]) == _ycsb.UPDATE).sum()
    assert (logs & ~setup).sum() == updates


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_fill_moves_the_bytes_that_rocksdb_moves(seed):
    """db_bench 7.8.3 fillrandom, 100,000 records of 23 + 1140 bytes, buffers and tables of 4 MiB, level 1 of 16 MiB, one
    background job, under strace, seeds 1 to 4: log 118,624,976 bytes, tables 368,374,570 to 380,107,229 bytes written in 93 or
    94 files and 283,856,440 to 297,394,426 bytes read.  The random keys differ, so the shape of the levels does a little."""
    batch = rows(lsm.Workload("fill", write_buffer=4 << 20, target=4 << 20, level_base=16 << 20, seed=seed))
    log = np.isin(batch["file"], lsm.LOGS)
    tables = batch["file"] >= lsm.TABLES

    def moved(which, op):
        return int(batch["length"][which & (batch["op"] == op)].sum())

    assert moved(log, WRITE) == pytest.approx(118_624_976, rel=1e-5)
    assert abs(np.count_nonzero(log & (batch["op"] == UNLINK)) - 30) <= 1
    assert moved(tables, WRITE) == pytest.approx(373_601_105, rel=0.04)
    assert moved(tables, READ) == pytest.approx(289_867_759, rel=0.05)
    assert np.count_nonzero(tables & (batch["op"] == CREATE)) == pytest.approx(94, rel=0.04)


# writes of the first log of db_bench 7.8.3 (strace, fillseq): bytes of key, value and write buffer
ARENAS = [
    (16, 100, 1 << 20, 7010), (16, 400, 1 << 20, 2261), (16, 1000, 1 << 20, 971), (16, 100, 4 << 20, 28023),
    (32, 1000, 1 << 20, 955), (23, 1140, 4 << 20, 3419), (16, 50, 1 << 20, 10478), (16, 4000, 4 << 20, 1001),
]  # fmt: skip


@pytest.mark.parametrize(("key", "value", "buffer", "records"), ARENAS)
def test_a_memtable_holds_as_many_records_as_rocksdbs(key, value, buffer, records):
    assert _lsm.memtable_records(key, value, buffer) == pytest.approx(records, rel=0.003)


def test_tables_that_do_not_overlap_move_without_a_copy():
    """db_bench fillseq: no table is read or removed."""
    work = db_bench.Workload(command="--benchmarks=fillseq --num=20000 --write_buffer_size=65536")
    batch = rows(work)
    tables = batch["file"] >= lsm.TABLES
    assert np.count_nonzero(tables & (batch["op"] == CREATE)) > 30
    assert not (tables & (batch["op"] == UNLINK)).any()


def test_sync_makes_each_put_durable():
    batch = rows(lsm.Workload("fill", sync=1, **SMALL))
    logs = batch[np.isin(batch["file"], lsm.LOGS) & np.isin(batch["op"], (WRITE, FSYNC))]
    assert logs["op"].tolist() == [WRITE, FSYNC] * 4000


def follow(work):
    """Replay a workload's state beside its rows: yields the store after each piece."""
    store = lsm.Store(work)
    for block in _ycsb.requests("a", 4000, 4000, 1):
        for piece in store.requests(block, np.random.default_rng(0)):
            yield store, piece


def test_levels_stay_sorted_and_within_their_sizes():
    work = lsm.Workload("a", **SMALL)
    most = 0
    for store, _ in follow(work):
        for number, level in enumerate(store.levels.levels[1:], 1):
            ends = [(int(table.keys[0]), int(table.keys[-1])) for table in level]
            assert all(low[1] < high[0] for low, high in zip(ends, ends[1:], strict=False))
            assert store.levels.due() or sum(table.size for table in level) <= store.levels.limit(number)
        assert store.levels.due() or len(store.levels.levels[0]) < 4
        used = [table.file for level in store.levels.levels for table in level]
        assert len(set(used)) == len(used) and not set(used) & set(store.free)
        most = max(most, len(used))
    assert most > 5 and len(store.levels.levels) > 2


def test_a_compaction_reads_each_input_once_and_writes_each_output_once():
    for store, piece in follow(lsm.Workload("a", **SMALL)):
        reads = piece[(piece["op"] == READ) & (piece["thread"] == 1)]
        gone = piece["file"][(piece["op"] == UNLINK) & (piece["file"] >= lsm.TABLES)]
        for file in gone:
            mine = reads[reads["file"] == file]
            assert (mine["offset"][1:] == (mine["offset"] + mine["length"])[:-1]).all() and mine["offset"][0] == 0
        for table in (t for level in store.levels.levels for t in level):
            writes = piece[(piece["op"] == WRITE) & (piece["file"] == table.file)]
            if len(writes):
                assert writes["length"].sum() == table.size
                assert (writes["length"][:-1] % table.shape.block == 0).all() and writes["length"].max() <= 1 << 20
                assert len(piece[(piece["op"] == CREATE) & (piece["file"] == table.file)]) == 1


def test_each_look_up_ends_in_the_newest_table_with_its_key():
    """Against a plain dictionary: key -> file of the newest table that has it (or the memtable)."""
    work = lsm.Workload("a", **SMALL)
    store = lsm.Store(work)
    for _ in store.puts(_ycsb.fnv(np.arange(4000))):
        pass
    keys = _ycsb.fnv(np.array([5, 17, 3999, 1234, 2048, 77]))
    for key in keys.tolist():
        nothing = np.array([0])
        piece = next(
            store.requests(
                _ycsb.Requests(np.array([_ycsb.READ]), np.array([key]), nothing), np.random.default_rng(0), True
            )
        )
        if key in store.memtable:
            assert not len(piece)
            continue
        holders = [t for level in store.levels.levels for t in level if key in t.keys]
        assert piece["file"][-1] == holders[0].file
        number = np.searchsorted(holders[0].keys, key) // work.shape.per_block
        assert (piece["offset"][-1], piece["length"][-1]) == tuple(int(x) for x in holders[0].block(np.int64(number)))
        others = [t for level in store.levels.levels for t in level if t.keys[0] <= key <= t.keys[-1]]
        assert set(piece["file"].tolist()) <= {t.file for t in others}


def test_a_bloom_filter_spares_reads_but_finds_all():
    none, ten = (rows(lsm.Workload("c", bloom=bits, **SMALL)) for bits in (0, 10))
    reads = [batch[(batch["op"] == READ) & ((batch["flag"] & SETUP) == 0)] for batch in (none, ten)]
    assert len(reads[1]) < len(reads[0]) and 0 < len(reads[1]) <= 4000 * 1.1


def test_scans_read_the_blocks_of_their_records():
    work = lsm.Workload("e", **SMALL)
    batch = rows(work)
    reads = batch[(batch["op"] == READ) & ((batch["flag"] & SETUP) == 0) & (batch["thread"] == 0)]
    scans = np.concatenate([block.scan for block in _ycsb.requests("e", 4000, 4000, 1)])
    blocks = scans.sum() / work.shape.per_block
    assert blocks * 0.9 < len(reads) < blocks + 10 * np.count_nonzero(scans)
    assert {OPS[op] for op in np.unique(batch["op"])} >= {"rename", "fallocate", "unlink"}
