"""Experiments on the rows of the VSM paper."""

from collections.abc import Iterator
from statistics import mean
from typing import Any

import numpy as np

from scmsim.core.records import LOAD, READ, WRITE, Files
from scmsim.fs.engine.model import Model
from scmsim.pipeline import model_params, replay
from scmsim.reproduce import vsm
from scmsim.result import Run
from tests.verification.reasons.lines import Figures, Line, instructions

KI, MI = 1 << 10, 1 << 20
BANDWIDTHS = ("load_bandwidth", "store_bandwidth")
SWAPS = ("invalidations", "fences")
COPY_AS_PUBLISHED = 7.9  # GB/s: 2 MiB in 98 times 2.7 us (Figure 1)
THROUGH_CACHE = 2 / 3  # a line that is copied through the cache passes memory three times: its place is loaded too
# A core's ten fill buffers of 64 bytes, over the 58 cycles of its L3 (mmu/machines/e5-2640v4.toml) in place of memory.
L3_GB_S = 10 * 64 / (58 / 2.4)
SAME = -1  # the file was written in order, by requests of the size that is read


def vsm_run(fs: str, source: Any, gb_s: float = vsm.CORE_GB_S, **params: str | int) -> Run:
    """As `scmsim.reproduce.vsm.run`, with another bandwidth; other CPUs need not forget, as the paper's figures leave it out."""
    machine = {**vsm.machine(), "time": {**vsm.machine()["time"], "copy_gb_s": gb_s, "load_gb_s": gb_s}}
    given = {**vsm.PARAMS[fs], **({"shootdown": vsm.LOCAL} if fs == "vsm" else {}), **params}
    paging = vsm.PAGING.get(fs, "directmap-1g")
    return replay(source, fs, machine, paging=paging, medium=vsm.MEDIUM, params={fs: given}).runs[0]


def took(run: Run, shares: dict[str, float]) -> float:
    """Nanoseconds of a run, of some terms of the estimate a share."""
    return sum(ns * shares.get(term, 1) for term, ns in run.time_ns.items())


def ratio(
    fs: str, than: str, op: int, order: str, sizes: tuple[int, ...] = vsm.SIZES, *, unit: int | None = None,
    gb_s: float = vsm.CORE_GB_S, mine: dict[str, float] | None = None, theirs: dict[str, float] | None = None, **params: str | int,
) -> Figures:  # fmt: skip
    """Throughput of `fs` over another's (with `params`), the mean over sizes; `mine` and `theirs`: shares of terms."""
    found = []
    for size in sizes:
        source = vsm.Requests(op, order, size, 500, vsm.GIB // 4, size if unit == SAME else unit)
        ours, other = (
            took(vsm_run(fs, source, gb_s), mine or {}),
            took(vsm_run(than, source, gb_s, **params), theirs or {}),
        )
        found.append(other / ours)
    return (mean(found),)


def of_copies() -> Iterator[Line]:
    """VSM-7, -9 and -11: the bandwidth of a copy."""
    for row, fs, order, there in (
        ("VSM-7", "pmfs-4k", "seq", "98"),
        ("VSM-9", "vsm", "seq", "94"),
        ("VSM-11", "vsm", "random", "225"),
    ):
        before = ratio(fs, "pmfs-2m", WRITE, order, (KI,))
        for change, gb_s in (
            (f"a core copies {COPY_AS_PUBLISHED} GB/s, not 5.6", 2 * COPY_AS_PUBLISHED),
            ("a copied line passes memory three times, not twice", THROUGH_CACHE * vsm.CORE_GB_S),
        ):
            yield Line(row, change, before, ratio(fs, "pmfs-2m", WRITE, order, (KI,), gb_s=gb_s), there)
        if order == "seq":
            share = dict.fromkeys(BANDWIDTHS, vsm.CORE_GB_S / L3_GB_S)
            after = ratio(fs, "pmfs-2m", WRITE, order, (KI,), mine=share, theirs=share)
            yield Line(row, f"what is copied lies in L3, {L3_GB_S:.1f} GB/s each way", before, after, there)


def of_writes() -> Iterator[Line]:
    """VSM-13 to -16: what a swap takes besides the index; NOVA's frees, and the file that it writes over."""
    rows = (
        ("VSM-13", "pmfs-4k", "seq", "1.36"), ("VSM-14", "pmfs-4k", "random", "1.36"),
        ("VSM-15", "nova-fast16", "seq", "1.09"), ("VSM-16", "nova-fast16", "random", "1.22"),
    )  # fmt: skip
    for row, than, order, there in rows:
        before = ratio("vsm", than, WRITE, order)
        after = ratio("vsm", than, WRITE, order, mine=dict.fromkeys(SWAPS, 0.0))
        yield Line(row, "VSM without INVLPG and fences", before, after, there)
        after = ratio("vsm", than, WRITE, order, vsm.SIZES[:-1])
        yield Line(row, "requests up to 1 MiB, not 2", before, after, there)
        if than == "nova-fast16":
            with instructions("nova-5.13", free_old_block=747.6):
                after = ratio("vsm", than, WRITE, order)
            yield Line(row, "NOVA frees as its later release", before, after, there)
    after = ratio("vsm", "nova-fast16", WRITE, "random", unit=SAME)
    yield Line("VSM-16", "the file was written in order before", before, after, "1.22")


def of_reads() -> Iterator[Line]:
    """VSM-17 to -20: how the file was written; the reads of VSM-23."""
    before, after = (ratio("vsm", "pmfs-2m", READ, "random", lookup=lookup) for lookup in ("block", "page"))
    yield Line("VSM-23, random reads", "PMFS-2MB looks up each page, as its source does", before, after, "below 1")
    for row, than, order, there in (
        ("VSM-17", "pmfs-4k", "seq", "1.13"),
        ("VSM-18", "pmfs-4k", "random", "1.15"),
        ("VSM-19", "nova-fast16", "seq", "1.14"),
        ("VSM-20", "nova-fast16", "random", "1.11"),
    ):
        before = ratio("vsm", than, READ, order)
        after = ratio("vsm", than, READ, order, unit=SAME)
        yield Line(row, "the file was written by requests of the same size", before, after, there)


def pieces(model: Model, file_bytes: int) -> int:
    """Pieces that a file of a model is copied in when it is read."""
    calls = vsm._calls(READ, np.arange(0, file_bytes, 2 * MI), 2 * MI)
    site = model.sites.index("data copy")
    return sum(int(((events["code"] == LOAD) & (events["site"] == site)).sum()) for events in model.events(calls))


def of_state() -> Iterator[Line]:
    """What Figures 5a and 5b, 1 KiB to 2 MiB in turn, leave of a file of 64 MiB: its pieces, of 16,384 pages."""
    file_bytes, draw = 64 * MI, np.random.default_rng(1)
    files = Files(["/d", "/d/file"], np.array([0, file_bytes], np.int64), np.array([True, False]))
    for fs in ("nova-fast16", "pmfs-4k"):
        model = Model(fs, model_params("fs", fs, {**vsm.PARAMS[fs], "capacity": vsm.GIB}), files)
        found = [float(pieces(model, file_bytes))]
        for shuffled in (False, True):
            for size in vsm.SIZES:
                at = np.arange(0, file_bytes, size)
                for _ in model.events(vsm._calls(WRITE, draw.permutation(at) if shuffled else at, size)):
                    pass
            found.append(float(pieces(model, file_bytes)))
        yield Line(f"VSM-14, -16, {fs}", "pieces of the file after 5a, and after 5b", tuple(found[:2]), (found[2],), "")


def of_mail() -> Iterator[Line]:
    """VSM-21, -22: what else an elapsed time has in it, and how many transactions; Postmark of VSM-23."""
    own, source = vsm.own_work(60, 60), vsm.mail_source(60, 60)
    ours, original, dax = (
        own + took(vsm_run(fs, source, capacity=4 * vsm.GIB, **params), {})
        for fs, params in (("vsm", {}), ("pmfs-2m", {}), ("pmfs-2m", {"version": "dax"}))
    )
    change = "PMFS-2MB as ported to DAX kernels, which clears the rest of a new block"
    yield Line("VSM-23, Postmark (inverse)", change, (ours / original,), (ours / dax,), "above 1")
    for row, than, there in (("VSM-21", "pmfs-4k", "0.67"), ("VSM-22", "nova-fast16", "0.82")):
        ours, other = (float(vsm.mail(fs, False)[0]) for fs in ("vsm", than))
        before = (ours / other,)
        yield Line(row, "without the work of Postmark itself", before, ((ours - own) / (other - own),), there)
        ours, other = (float(vsm.mail(fs, False, 2)[0]) for fs in ("vsm", than))
        yield Line(row, "500 transactions, its default, for 10 to 30 thousand files", before, (ours / other,), there)


EXPERIMENTS = (of_copies, of_writes, of_reads, of_state, of_mail)
