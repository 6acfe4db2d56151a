"""Measure the benefit of 2 MiB pages for a trace's mapped files by replays on a model without and with large pages.

All figures are counters of the two replays for each file; none is estimated from page sizes. Units: faults, walks and
instructions of the whole replay.
"""

import pathlib
from collections.abc import Mapping
from typing import Any, NamedTuple

from scmsim.core import registry
from scmsim.core.records import Source
from scmsim.pipeline import open_source, replay
from scmsim.pipeline.arguments import Progress
from scmsim.study.page_size.from_model import not_modelled

# parameter values that let a model map 2 MiB at once
LARGE_PAGES = {"data_alignment": "2MiB", "huge": "always", "folios": "always"}
COUNTERS = {
    "faults_4k": "page_faults_pte",
    "faults_2m": "page_faults_pmd",
    "faults_1g": "page_faults_pud",
    "mapped_2m_bytes": "mapped_bytes_2m",
    "walks": "dtlb_user_misses_walk_completed",
    "instructions": "instructions",
}


class FileWorth(NamedTuple):
    """Counts (see COUNTERS) of a mapped file over the whole trace, on the unchanged model and with large pages."""

    path: str
    before: dict[str, int]
    after: dict[str, int]

    @property
    def saved(self) -> int:
        """Return the number of faults and walks that large pages save."""
        return _events(self.before) - _events(self.after)

    @property
    def gains(self) -> bool:
        """Return whether large pages map more of the file by 2 MiB and save faults and walks."""
        return self.saved > 0 and self.after["mapped_2m_bytes"] > self.before["mapped_2m_bytes"]


class Worth(NamedTuple):
    """Benefit for a trace on one model; `setting` is the parameter that allows large pages, "" if the model has none."""

    fs: str
    setting: str
    before: dict[str, int]
    after: dict[str, int]
    files: list[FileWorth]  # files with page faults, the largest saving first


def setting_of(fs: str, given: Mapping[str, Any]) -> str:
    """Return the parameter that lets a model map 2 MiB at once, as KEY=VALUE; "" if the model has none or `given` sets it."""
    known = registry.literals("fs", fs)["PARAMS"]
    return next((f"{key}={value}" for key, value in LARGE_PAGES.items() if key in known and key not in given), "")


def worth(
    trace: "str | pathlib.Path | Source", fs: str, machine: str | dict[str, Any] = "i7-8700k",
    params: Mapping[str, Any] | None = None, progress: Progress | None = None,
) -> Worth | str:  # fmt: skip
    """Replay a trace that maps files with and without large pages; return a text if the model has no mappings.

    If `params` include the parameter that allows large pages, there is only one replay.
    Raises UsageError as `scmsim.replay` does.
    """
    if why := not_modelled(fs):
        return why
    source, _ = open_source(trace)
    key, _, value = (setting := setting_of(fs, params or {})).partition("=")
    runs = [
        replay(source, fs, machine, params={fs: {**(params or {}), **more}}, by="file", progress=progress).runs[0]
        for more in ({}, {key: value})[: 2 if key else 1]
    ]
    first, last = runs[0], runs[-1]
    names = dict.fromkeys([*first.groups, *last.groups])
    both = (FileWorth(name, *(_counts(run.groups.get(name, {})) for run in (first, last))) for name in names)
    files = sorted((one for one in both if _faults(one.before) or _faults(one.after)), key=lambda one: -one.saved)
    return Worth(fs, setting, _counts(first.counters), _counts(last.counters), files)


def _counts(counters: Mapping[str, int]) -> dict[str, int]:
    return {name: int(counters.get(counter, 0)) for name, counter in COUNTERS.items()}


def _faults(counts: Mapping[str, int]) -> int:
    return counts["faults_4k"] + counts["faults_2m"] + counts["faults_1g"]


def _events(counts: Mapping[str, int]) -> int:
    return _faults(counts) + counts["walks"]
