"""The first sentences of a report: which run needs least and most of what, and where it comes from."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from scmsim.core.text import printable
from scmsim.result import Result, Run
from scmsim.result.names import axes, labels, said, title
from scmsim.result.tables.figures import FEW, number
from scmsim.result.tables.summary import Figure, extremes, traffic_of_sites

_MANY = 8  # runs; of more, what varies is said, and between what the figures lie
_NAMED = 5  # values of a parameter that are named; of more, the first and the last


class _Topic(NamedTuple):
    """A figure in words; `total` is what it counts in the whole run, where it is that a call."""

    what: str
    value: Figure
    total: Figure = lambda run: None


def _a_call(what: str, total: Figure) -> _Topic:
    def value(run: Run) -> float | None:
        found = total(run)
        return found / run.calls if found is not None and run.calls else None

    return _Topic(f"{what} a call", value, total)


_TOPICS = (
    _a_call("loads and stores", lambda run: run.metrics.get("tlb_traffic")),
    _a_call("page walks for data", lambda run: run.metrics.get("dtlb_walks")),
    _Topic("bytes stored for each byte written", lambda run: run.metrics.get("write_amplification")),
    _a_call("ns on a CPU", lambda run: run.counters.get("task_clock")),
)


def summary(result: Result) -> list[str]:
    """Sentences about a result, the most important first."""
    runs = result.runs
    if len(runs) <= _MANY:
        return [line for topic in _TOPICS if (line := _sentence(runs, topic))]
    varying = ", ".join(f"{title(axis)} ({_values(axis, values)})" for axis, values in axes(runs).items())
    ranges = [line for topic in _TOPICS if (line := _range(runs, topic))]
    return [*ranges, f"{len(runs):,} runs over {varying}." if varying else f"{len(runs):,} runs."]


def _values(axis: str, values: Sequence[Any]) -> str:
    """The values of a parameter, or how many there are between which."""
    found = list(dict.fromkeys(value for value in values if value is not None))
    if len(found) <= _NAMED:
        return ", ".join(said(axis, value) for value in found)
    return f"{len(found)}, {said(axis, found[0])} to {said(axis, found[-1])}"


def _range(runs: Sequence[Run], topic: _Topic) -> str:
    found = extremes([run for run in runs if topic.value(run)], topic.value)
    if found is None:
        return ""
    names = {id(run): name for run, name in zip(runs, labels(runs), strict=True)}
    least, most = names[id(found.least)], names[id(found.most)]
    what = f"{topic.what[:1].upper()}{topic.what[1:]}"
    return f"{what}: {number(found.low)} ({least}) to {number(found.high)} ({most})."


def _sentence(runs: Sequence[Run], topic: _Topic) -> str:
    """The run with most against the one with least; few of something are counted in all, not a call."""
    counted = [(total, run.calls) for run in runs if (total := topic.total(run))]
    if counted and all(total < FEW and 10 * total < calls for total, calls in counted):
        what, value = f"{topic.what.removesuffix(' a call')} in all", topic.total
    else:
        what, value = topic.what, topic.value
    known = [run for run in runs if value(run)]
    found = extremes(known, value)
    if found is None:
        return ""
    if found.high < 1.005 * found.low:
        return f"{what[:1].upper()}{what[1:]}: {number(found.high)}{' everywhere' * (len(known) > 1)}."
    names = {id(run): name for run, name in zip(runs, labels(runs), strict=True)}
    times = f"{found.high / found.low:,.3g} times as many"
    why = _main_site(found.most) if topic is _TOPICS[0] else ""
    most, least = names[id(found.most)], names[id(found.least)]
    return f"{most} needs most {what}, {number(found.high)}{why}: {times} as {least} with {number(found.low)}."


def _main_site(run: Run) -> str:
    """The mechanism behind most of the traffic, if it is half of it or more."""
    traffic = traffic_of_sites(run)
    if not traffic:
        return ""
    site = max(traffic, key=lambda name: traffic[name])
    share = traffic[site] / max(1, sum(traffic.values()))
    return f" ({share:.0%} of them in {printable(site)})" if share >= 0.5 else ""
