"""The first sentences of a report: which system needs least and most of what, and where it comes from."""

from typing import NamedTuple

from scmsim.core.text import printable
from scmsim.result import Result, Run
from scmsim.result.names import axes, labels, title
from scmsim.result.tables.figures import number
from scmsim.result.tables.summary import Figure, extremes, traffic_of_sites

_MANY = 8  # runs; of more, the shape of the result is said instead


class _Topic(NamedTuple):
    what: str
    value: Figure


_TOPICS = (
    _Topic("loads and stores a call", lambda run: _per_call(run, run.metrics.get("tlb_traffic"))),
    _Topic("page walks for data a call", lambda run: _per_call(run, run.metrics.get("dtlb_walks"))),
    _Topic("bytes stored for each byte written", lambda run: run.metrics.get("write_amplification")),
    _Topic("ns on a CPU a call", lambda run: _per_call(run, run.counters.get("task_clock"))),
)


def summary(result: Result) -> list[str]:
    """Sentences about a result, the most important first."""
    runs = result.runs
    if len(runs) > _MANY:
        varying = ", ".join(f"{len(set(values) - {None})} of {title(axis)}" for axis, values in axes(runs).items())
        return [f"{len(runs):,} runs: {varying}." if varying else f"{len(runs):,} runs."]
    return [line for topic in _TOPICS if (line := _sentence(runs, topic))]


def _sentence(runs: list[Run], topic: _Topic) -> str:
    known = [run for run in runs if topic.value(run)]
    found = extremes(known, topic.value)
    if found is None:
        return ""
    if found.high < 1.005 * found.low:
        return f"{topic.what[:1].upper()}{topic.what[1:]}: {number(found.high)}{' everywhere' * (len(known) > 1)}."
    names = {id(run): name for run, name in zip(runs, labels(runs), strict=True)}
    times = f"{found.high / found.low:,.3g} times as many"
    why = _main_site(found.most) if topic is _TOPICS[0] else ""
    most, least = names[id(found.most)], names[id(found.least)]
    return f"{most} needs most {topic.what}, {number(found.high)}{why}: {times} as {least} with {number(found.low)}."


def _per_call(run: Run, total: float | None) -> float | None:
    return total / run.calls if total is not None and run.calls else None


def _main_site(run: Run) -> str:
    """The mechanism behind most of the traffic, if it is half of it or more."""
    traffic = traffic_of_sites(run)
    if not traffic:
        return ""
    site = max(traffic, key=lambda name: traffic[name])
    share = traffic[site] / max(1, sum(traffic.values()))
    return f" ({share:.0%} of them in {printable(site)})" if share >= 0.5 else ""
