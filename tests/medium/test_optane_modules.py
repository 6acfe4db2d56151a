"""The queues of interleaved modules: the network against mean-value analysis, the simulation at its limits."""

import itertools

import pytest

from scmsim.result.queues import Station, solve
from tests.verification.optane_modules import Kind, mixed_gb_s, read_gb_s, store_gb_s


def mean_values(readers, writers, modules):
    """Reiser and Lavenberg's recursion for two kinds of customers, over all smaller populations: GB/s."""
    present = {(0, 0): 0.0}  # at one module
    for here in itertools.product(range(readers.lines + 1), range(writers.lines + 1)):
        found, rates = 0.0, 0.0
        for kind, count, fewer in (
            (readers, here[0], (here[0] - 1, here[1])),
            (writers, here[1], (here[0], here[1] - 1)),
        ):
            if count:
                stay = kind.service * (1 + present[fewer])
                rate = count / (kind.delay + stay)
                found += rate * stay / modules
                rates += rate
        present[here] = found
    return 64 * rates


@pytest.mark.parametrize("lines", [(1, 0), (0, 3), (4, 5), (12, 7)])
@pytest.mark.parametrize("delay", [0.0, 90.0])
def test_the_network_equals_mean_value_analysis(lines, delay):
    readers, writers = Kind(lines[0], 300.0, 38.8), Kind(lines[1], delay, 111.3)
    assert mixed_gb_s(readers, writers, 6) == pytest.approx(mean_values(readers, writers, 6))


def test_readers_alone_are_the_network_of_one_kind():
    stations = [Station(str(number), 38.8 / 6) for number in range(6)]
    alone = mixed_gb_s(Kind(40, 266.0, 38.8), Kind(0, 0.0, 111.3), 6)
    assert alone == pytest.approx(64 * solve(40, 266.0, stations).calls_per_ns)


def test_one_thread_reads_and_stores_at_its_own_rate():
    assert read_gb_s(1, 1 << 20, 2.88, 488, 6.6, 6, 256) == pytest.approx(2.88, rel=0.01)
    assert store_gb_s(1, 1 << 20, 4.0, 20.0, 16 << 10, 6, 256) == pytest.approx(4.0, rel=0.01)


@pytest.mark.parametrize("size", [64, 256, 4096])
def test_many_threads_keep_one_module_busy(size):
    """Part of a granule takes the time of the whole."""
    part = min(1, size / 256)
    assert read_gb_s(64, size, 2.88, 488, 6.6, 1, 256) == pytest.approx(6.6 * part, rel=0.01)
    assert store_gb_s(64, size, 4.0, 2.3, 16 << 10, 1, 256) == pytest.approx(2.3 * part, rel=0.01)


def test_a_larger_write_buffer_keeps_more_modules_busy():
    """Four threads keep at most four modules busy if nothing is buffered."""
    speeds = [store_gb_s(4, 4096, 4.0, 2.1, buffer, 6, 256) for buffer in (256, 4096, 16 << 10, 64 << 10)]
    assert speeds == sorted(speeds)
    assert speeds[0] < 4 * 2.1 < speeds[2] < speeds[3] < 6 * 2.1
