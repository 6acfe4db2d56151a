"""Make a score card of data caches: simulate each machine's caches on a folder's lines, and replay the same trace."""

import functools
import json
import os
import pathlib
import re
from collections.abc import Mapping, Sequence
from typing import Any

from scmsim import footprint
from scmsim.core.errors import UsageError
from scmsim.core.resumable import write
from scmsim.lab import lines
from scmsim.pipeline.arguments import Progress, machine_table, open_source
from scmsim.result import provenance
from scmsim.study.caches import card
from scmsim.study.caches.replay import replayed
from scmsim.study.tlb.judge import guest_time


def with_lines(release: str) -> str | None:
    """Return the name of the kernel footprints with lines for a release (for 6.12.117: 6.12); None if there are none."""
    series = re.match(r"\d+\.\d+", release)
    name = f"{series[0]}{footprint.WITH_LINES}" if series else ""
    return name if name in footprint.kernels() else None


def judge(
    trace: str,
    folder: str | os.PathLike[str],
    fs: Sequence[str],
    machines: Sequence[str],
    *,
    params: Mapping[str, Mapping[str, str | int]] | None = None,
    footprints: str | None = None,
    progress: Progress,
) -> dict[str, Any]:
    """Compare the lines in a folder of the lab with replays; write caches.json, and return its content."""
    source, inputs = open_source(trace)
    place, cells = pathlib.Path(folder), []
    kept = None
    for name in fs:
        kept = lines.Kept(place / f"{name}-1{lines.SUFFIX}")
        caches = {machine: lines.check(machine, machine_table(machine)) for machine in machines}
        real = lines.counted(kept, caches, functools.partial(progress, f"{name} of the real kernel"))
        call_ns = guest_time(place, name)
        for machine in machines:
            buffer = int(kept.header["buffer"])
            rows, warnings = replayed(source, name, machine, params or {}, buffer, footprints, progress, call_ns)
            cell = {
                "fs": name, "machine": machine, "calls": kept.header["calls"], "lines": kept.rows,
                "levels": len(machine_table(machine)["cache"]), "warnings": warnings, "real": real[machine], "replay": rows,
            }  # fmt: skip
            cells.append(card.judged(cell))
    if kept is None:
        raise UsageError("no file system given; name one or more, e.g. ext4-dax,tmpfs")
    made = {
        "format": card.FORMAT,
        "manifest": provenance.build(inputs, trace=source.header),
        "trace": str(trace),
        "kernel": kept.header["kernel"],
        "cells": cells,
    }
    write(place / card.FILE, json.dumps(made))
    return made
