"""The closed network against mean-value analysis, against every state counted, and by its bounds."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scmsim.result.queues import Station, solve
from tests.reference.queues_slow import balance, every_state, mean_value_analysis

demands = st.lists(st.floats(0.1, 100), min_size=1, max_size=4)


@given(st.integers(1, 24), st.floats(0, 500), demands)
def test_it_is_mean_value_analysis(threads, delay, given):
    rate, queues = mean_value_analysis(threads, delay, given)
    found = solve(threads, delay, [Station(str(i), demand) for i, demand in enumerate(given)])
    assert found.calls_per_ns == pytest.approx(rate)
    assert list(found.present.values()) == pytest.approx(queues)
    assert [found.busy[str(i)] for i in range(len(given))] == pytest.approx([rate * demand for demand in given])


@given(
    st.integers(1, 4),
    st.floats(0, 50),
    st.lists(st.tuples(st.floats(0.1, 50), st.floats(0.2, 2)), min_size=1, max_size=3),
)
def test_it_is_the_sum_over_all_states(threads, delay, given):
    stations = [Station(str(i), demand, lambda n, by=by: n**by) for i, (demand, by) in enumerate(given)]
    rate, present = every_state(threads, delay, stations)
    found = solve(threads, delay, stations)
    assert found.calls_per_ns == pytest.approx(rate) and list(found.present.values()) == pytest.approx(present)


@given(st.integers(1, 4), st.floats(1, 50), st.lists(st.floats(1, 50), min_size=1, max_size=3))
def test_it_balances_the_markov_chain(threads, delay, given):
    """The product form is not assumed there; waiting is what a call stays at a station beyond its own time."""
    rate, present = balance(threads, delay, given)
    found = solve(threads, delay, [Station(str(i), demand) for i, demand in enumerate(given)])
    assert found.calls_per_ns == pytest.approx(rate, rel=1e-6)
    assert list(found.present.values()) == pytest.approx(present, rel=1e-6)
    assert sum(found.waiting.values()) == pytest.approx(found.call_ns - delay - sum(given), abs=1e-6 * found.call_ns)


@given(st.integers(1, 64), st.floats(0, 500), demands)
def test_bounds(threads, delay, given):
    """No more than the slowest station serves, nor than that many times one thread; one thread waits for nobody."""
    stations = [Station(str(i), demand) for i, demand in enumerate(given)]
    found, one = solve(threads, delay, stations), solve(1, delay, stations)
    assert one.call_ns == pytest.approx(delay + sum(given))
    assert found.calls_per_ns <= min(1 / max(given), threads * one.calls_per_ns) * (1 + 1e-9)
    assert found.calls_per_ns >= one.calls_per_ns * (1 - 1e-9)


def test_many_threads_do_not_overflow():
    found = solve(512, 1e6, [Station("medium", 2000.0), Station("lock", 3.0)])
    assert found.calls_per_ns == pytest.approx(1 / 2000, rel=0.05)


@pytest.mark.parametrize(("threads", "delay"), [(0, 5.0), (1, 0.0)])
def test_a_network_needs_threads_and_time(threads, delay):
    with pytest.raises(ValueError, match="needs a thread and a call that takes time"):
        solve(threads, delay, [])
