"""Write the first sentences of a report: the runs with the smallest and largest figures, and the causes."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from scmsim.core.text import percent, printable, times
from scmsim.report import effects
from scmsim.result import Result, Run
from scmsim.result.names import axes, labels, said, title
from scmsim.result.tables.figures import FEW, number
from scmsim.result.tables.summary import Figure, extremes, traffic_of_sites

_MANY = 8  # if there are more runs, the sentences name the varying parameters and the ranges of figures
_NAMED = 5  # maximum number of named values of a parameter; of more values, only the first and the last are named


_IN_ALL = " in all"


class _Topic(NamedTuple):
    """A figure of a run and the words for it in the summary; for a figure per call, `total` returns the whole run's count."""

    what: str
    value: Figure
    total: Figure = lambda run: None


def _a_call(what: str, total: Figure) -> _Topic:
    def value(run: Run) -> float | None:
        found = total(run)
        return found / run.calls if found is not None and run.calls else None

    return _Topic(f"{what} per call", value, total)


_TOPICS = (
    _a_call("loads and stores", lambda run: run.metrics.get("tlb_traffic")),
    _a_call("page walks for data", lambda run: run.metrics.get("dtlb_walks")),
    _Topic("bytes stored for each byte written", lambda run: run.metrics.get("write_amplification")),
    _a_call("ns on a CPU", lambda run: run.counters.get("task_clock")),
)


def summary(result: Result) -> list[str]:
    """Return sentences on a result, the most important first."""
    runs = result.runs
    changed = effects.sentences(runs)
    if len(runs) <= _MANY and not changed:
        return [line for topic in _TOPICS if (line := _sentence(runs, topic))]
    varying = ", ".join(f"{title(axis)} ({_values(axis, values)})" for axis, values in axes(runs).items())
    answer = changed or [line for topic in _TOPICS if (line := _range(runs, topic))]
    return [*answer, f"{len(runs):,} runs over {varying}." if varying else f"{len(runs):,} runs."]


def _values(axis: str, values: Sequence[Any]) -> str:
    """Return the values of a parameter as text, or their number with the first and the last value if they are many."""
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
    """Return a sentence that compares the runs with the largest and the smallest figure; few events are given in total."""
    known = [run for run in runs if topic.value(run)]
    found = extremes(known, topic.value)
    if found is None:
        return ""
    what, least, most = topic.what, _figure(found.least, topic), _figure(found.most, topic)
    if all(_few(run, topic) for run in known):
        what, least, most = (
            f"{what.removesuffix(' per call')} in all",
            least.removesuffix(_IN_ALL),
            most.removesuffix(_IN_ALL),
        )
    if found.high < 1.005 * found.low:
        return f"{what[:1].upper()}{what[1:]}: {most}{' everywhere' * (len(known) > 1)}."
    names = {id(run): name for run, name in zip(runs, labels(runs), strict=True)}
    why = _main_site(found.most) if topic is _TOPICS[0] else ""
    ratio = times(found.high / found.low)
    return f"{names[id(found.most)]} needs the most {what}, {most}{why}: {ratio} as many as {names[id(found.least)]} with {least}."


def _few(run: Run, topic: _Topic) -> bool:
    """Return whether a run has too few events for a meaningful rate."""
    total = topic.total(run)
    return total is not None and total < FEW and 10 * total < run.calls


def _figure(run: Run, topic: _Topic) -> str:
    return f"{number(topic.total(run))}{_IN_ALL}" if _few(run, topic) else number(topic.value(run))


def _main_site(run: Run) -> str:
    """Return the mechanism that causes at least half of the traffic, as text; empty if there is none."""
    traffic = traffic_of_sites(run)
    if not traffic:
        return ""
    site = max(traffic, key=lambda name: traffic[name])
    share = traffic[site] / max(1, sum(traffic.values()))
    return f" ({percent(share)} of them in {printable(site)})" if share >= 0.5 else ""
