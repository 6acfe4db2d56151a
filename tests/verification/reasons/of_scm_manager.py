"""Experiments on the rows of the SCM manager paper."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from scmsim.core.records import SETUP
from scmsim.reproduce import scm_manager
from scmsim.workload import memory_objects, postmark
from tests.verification.reasons.lines import Figures, Line, instructions

SIZES = (512, 1024, 4096)
TIMES = 10
OPEN = {"fat-scm": 26_400, "ext2-scm": 6_400}  # cycles of an open, as in their tables
HOPS = 28  # from a chain's first object to each of the eight of 4096 bytes: 0 + 1 + ... + 7


def table_of(fs: str) -> str:
    """The cost table of a system."""
    return "fat-scm" if fs.startswith("fat") else fs


def micro(
    fs: str,
    op: str,
    size: int = 512,
    others: int = 0,
    at: int = 0,
    params: dict[str, str] | None = None,
    **counts: float,
) -> float:
    """Microseconds of an operation of Table 3 in a directory with `others` files, a transfer at offset `at`."""
    calls = [("create", 0, 0), ("close", 0, 0), ("open", 0, 0), ("write", 0, at + size), ("close", 0, 0)]
    calls += [("open", 0, 0), ("read", at, size), ("close", 0, 0)]
    rows = [("create", i, 0, 0, 0, SETUP) for i in range(1, others + 2)]
    for i in range(others + 2, others + 2 + TIMES):
        rows += [(name, i, offset, length, 0 if name == "create" else -1, 0) for name, offset, length in calls]
        rows.insert(-2, ("read", i, 0, 512, -1, SETUP))  # the walk of the one that counts begins at the first object
        rows.append(("unlink", i, 0, 0, 0, SETUP))
    cold = {} if fs == "scm-manager" else {"mount": "sync", "page_cache": "cold"}
    with instructions(table_of(fs), **counts):
        run = scm_manager.run(fs, scm_manager._rows(rows, others + 2 + TIMES), "", **{**cold, **(params or {})})
    times = 2 * TIMES if op == "open" else TIMES
    return scm_manager.nanoseconds(run, op, times) / times / 1000


def each(fs: str, op: str, **how: Any) -> Figures:
    """The three sizes of Table 3."""
    return tuple(micro(fs, op, size, **how) for size in SIZES)


def of_calls() -> Iterator[Line]:
    """SCMM-9 and SCMM-11 to -16."""
    for fs, there in (("fat-scm", "200"), ("ext2-scm", "332")):
        yield Line(
            f"SCMM-9, {fs}",
            "400 other files in the directory",
            (micro(fs, "create"),),
            (micro(fs, "create", others=400),),
            there,
        )
        yield Line(
            f"SCMM-9, {fs}",
            "a create costs an open",
            (micro(fs, "create"),),
            (micro(fs, "create", create=OPEN[fs]),),
            there,
        )
    writes = "SCMM-11 to -13, "
    there = "346, 541, 1,717"
    yield Line(
        writes + "fat-scm",
        "50 us more a sector (`request` + 20,000)",
        each("fat-scm", "write"),
        each("fat-scm", "write", request=20_654),
        there,
    )
    there = "55,739, 135,024, 305,947"
    for change, how in (
        ("`fat-nand.replacements=2`", {"params": {"replacements": "2"}}),
        (
            "the longest times of the data sheet (program 500 us, erase 3 ms)",
            {"nand_program": 2e5, "nand_erase": 1.2e6},
        ),
    ):
        yield Line(writes + "fat-nand", change, each("fat-nand", "write"), each("fat-nand", "write", **how), there)
    before, there = each("scm-manager", "write"), "51, 105, 732"
    hop = (micro("scm-manager", "read", 512, at=3584) - micro("scm-manager", "read", 512)) / 7
    walked = tuple(time + hops * hop for time, hops in zip(before, (0, 1, HOPS), strict=True))
    yield Line(
        writes + "scm-manager", f"a walk from the first object to each ({hop:.2f} us an object)", before, walked, there
    )
    yield Line(
        writes + "scm-manager",
        "50.8 us more an allocation (`take_unit` + 20,330)",
        before,
        each("scm-manager", "write", take_unit=24_550),
        there,
    )
    yield Line(
        "SCMM-9, scm-manager",
        "the same",
        (micro("scm-manager", "create"),),
        (micro("scm-manager", "create", take_unit=24_550),),
        "66",
    )
    before, there = each("fat-nand", "read"), "21,198, 26,275, 43,995"
    for change, cost in (("a page of the array takes 450 us, not 15", 180_000), ("a page takes 3.26 ms", 1_300_000)):
        yield Line("SCMM-14 to -16, fat-nand", change, before, each("fat-nand", "read", nand_read=cost), there)


def calls_of_mail(fs: str, mount: str, **counts: float) -> float:
    """Seconds of the calls of Table 4's Postmark."""
    with instructions(table_of(fs), **counts):
        run = scm_manager.run(fs, postmark.Workload(), **({} if fs == "scm-manager" else {"mount": mount}))
    return scm_manager.nanoseconds(run, None, run.calls) / 1e9


def of_own_work() -> Iterator[Line]:
    """SCMM-19, -20: what synchronous writes add, and what FAT and ext2 add to the SCM manager, hold no work of the program."""
    manager = calls_of_mail("scm-manager", "")
    dear = calls_of_mail("scm-manager", "", name=600)
    for fs, added, over in (("fat-scm", "8 - 5", "5 - 2"), ("ext2-scm", "4 - 3", "3 - 2")):
        here = calls_of_mail(fs, "async")
        more = calls_of_mail(fs, "sync") - here
        slower = calls_of_mail(fs, "sync", request=20_654) - here
        yield Line(f"SCMM-19 less -20, {fs}", "50 us more a sector", (more,), (slower,), added)
        named = calls_of_mail(fs, "async", name=600) - dear
        row = f"SCMM-20, {fs} less scm-manager"
        yield Line(row, "a name compared takes ten times as long", (here - manager,), (named,), over)
        lacking = calls_of_mail(fs, "async", take_unit=80_400)
        change = "0.2 ms more a unit allocated, which SCMM-11 lacks"
        yield Line(row, change, (here - manager,), (lacking - manager,), over)
    for fs, there in (("fat-scm", "3.664, 0.531"), ("ext2-scm", "2.814, 0.509"), ("fat-nand", "103.2, 35.7")):
        apps = ("distillery", "cp")
        before = tuple(calls_of_program(fs, app) - calls_of_program("scm-manager", app) for app in apps)
        warm = tuple(
            calls_of_program(fs, app, page_cache="warm") - calls_of_program("scm-manager", app) for app in apps
        )
        yield Line(f"SCMM-21, -24, {fs} less scm-manager", "`page_cache=warm`", before, warm, there)


def calls_of_program(fs: str, app: str, **params: str) -> float:
    """Milliseconds of the calls of a program of Table 5 for 512 bytes."""
    kind = "objects" if fs == "scm-manager" else "files"
    source = memory_objects.Workload(app=app, interface=kind, repeats=TIMES)
    cold = {} if fs == "scm-manager" else {"mount": "sync", "page_cache": "cold"}
    run = scm_manager.run(fs, source, **{**cold, **params})
    touched = [scm_manager.OPS.index(op) for op in scm_manager.OBJECT_OPS]
    calls = run.calls - sum(int(np.isin(batch.op, touched).sum()) for batch in source.batches())
    pieces = sum(-(-size // memory_objects.PIECE) for size in memory_objects.FILES)
    return scm_manager.nanoseconds(run, None, calls) / TIMES / 1e6 / pieces


EXPERIMENTS = (of_calls, of_own_work)
