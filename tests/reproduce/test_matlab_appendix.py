"""Where the MATLAB appendix of the thesis computes something else than its Table 7: 48 of 108 assignments."""

import random

import pytest

from scmsim.perf.events import THESIS
from scmsim.result.metrics import TABLE7, table7

OPERATIONS = ("write", "rewrite", "read", "reread")
FILE_SYSTEMS = ("EXT4", "EXT4DAX", "NOVA")
Columns = dict[str, list[float]]  # operation -> counts by the event's number in Table 6, [0] unused


def appendix(metric: str, op: str, data: Columns) -> float:
    """The right-hand side that Appendix A assigns to a metric and operation; the three file systems have the same."""
    e, w = data[op], data["write"]
    return {
        "walk_cycles_percent_data": (e[13] + e[15]) * 100 / e[1],
        "walks_per_1000_instructions_data": (w[12] + w[14]) / w[11] * 1000,
        "cycles_per_walk_data": (e[13] + e[15]) / ((w[12] if op == "reread" else e[12]) + e[14]),
        "walk_cycles_percent_instruction": e[17] * 100 / e[1],
        "walks_per_1000_instructions_instruction": e[16] * 1000 / e[11],
        "cycles_per_walk_instruction": e[16] * 1000 / e[17],
        "l1_misses": e[2],
        "l2_misses": e[3] + e[4] + e[5] + e[6],
        "llc_misses": e[6],
    }[metric]


def random_columns(seed: int) -> Columns:
    draw = random.Random(seed)
    return {op: [0, *(draw.randrange(10**6, 10**9) for _ in THESIS)] for op in OPERATIONS}


@pytest.mark.parametrize("seed", range(5))
def test_48_of_108_assignments_differ_from_table_7(seed: int) -> None:
    differing = set()
    for n, file_system in enumerate(FILE_SYSTEMS):
        data = random_columns(10 * seed + n)
        for op in OPERATIONS:
            right = table7(dict(zip(THESIS, data[op][1:], strict=True))).values
            for metric in TABLE7:
                if appendix(metric, op, data) != pytest.approx(right[metric], rel=1e-12):
                    differing.add((metric, op, file_system))
    expected = {
        *(
            ("walks_per_1000_instructions_data", op) for op in OPERATIONS[1:]
        ),  # the counts of `write` for every operation
        ("cycles_per_walk_data", "reread"),  # event 12 of `write` in the divisor
        *(("cycles_per_walk_instruction", op) for op in OPERATIONS),  # upside down, times 1000
        *(("l2_misses", op) for op in OPERATIONS),  # a hit whose snoop missed in place of LLC misses
        *(("llc_misses", op) for op in OPERATIONS),  # the same
    }
    assert differing == {(metric, op, file_system) for metric, op in expected for file_system in FILE_SYSTEMS}
    assert len(differing) == 48 and len(TABLE7) * len(OPERATIONS) * len(FILE_SYSTEMS) == 108
