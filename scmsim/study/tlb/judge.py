"""Make a score card: simulate each machine's MMU on the streams of a folder, and replay the same trace."""

import json
import os
import pathlib
import re
from collections.abc import Mapping, Sequence
from typing import Any

from scmsim import result
from scmsim.core import registry
from scmsim.core.errors import UsageError
from scmsim.core.resumable import write
from scmsim.lab import tlb
from scmsim.lab.plan import UNKNOWN
from scmsim.lab.stream import SUFFIX, Kept
from scmsim.mmu import presets
from scmsim.pipeline import kernels
from scmsim.pipeline.arguments import Params, Progress, machine_table, open_source
from scmsim.result import provenance
from scmsim.study.tlb import card
from scmsim.study.tlb.replay import replayed

_GUESTS = "result.json"  # result of the lab's guests
_COUNTED = "counted"  # folder with the counts of the streams


def taken_from(release: str, fs: Sequence[str], params: Params, footprints: str | None) -> kernels.Chosen:
    """Return the kernel settings of replays for a release; for 6.12.117-cloud-amd64 they are those of --kernel 6.12."""
    series = re.match(r"\d+\.\d+", release)
    return kernels.choose(series[0] if series else None, fs, params, footprints)


def judge(
    trace: str,
    folder: str | os.PathLike[str],
    fs: Sequence[str],
    machines: Sequence[str],
    *,
    paging: str | None = None,
    params: Mapping[str, Mapping[str, str | int]] | None = None,
    footprints: Sequence[str | None] = (None,),
    boots: int = 1,
    progress: Progress,
) -> dict[str, Any]:
    """Compare the streams in a folder of the lab with replays; write tlb.json, and return its content.

    The counts of a stream on a machine are stored, and counted again only if scmsim has changed; replays always run again. A
    file system has one stream for each of the `boots` boots, and one replay for each entry of `footprints`.
    """
    source, inputs = open_source(trace)
    cells = []
    kept = None
    for name in fs:
        streams = [Kept(pathlib.Path(folder) / f"{name}-{boot}{SUFFIX}") for boot in range(1, boots + 1)]
        real, *more = [
            _counted(stream, pathlib.Path(folder), f"{name}-{boot}", machines, progress)
            for boot, stream in enumerate(streams, 1)
        ]
        kept = streams[0]
        buffer = kept.buffer() if kept.header["huge_bytes"] not in (0, UNKNOWN) else 0
        call_ns = guest_time(pathlib.Path(folder), name)
        for machine in machines:
            found, *others = [
                replayed(source, name, machine, paging, params or {}, buffer, kernel, progress, call_ns)
                for kernel in footprints
            ]
            cell = {
                "fs": name, "machine": machine, "paging": found.paging, "calls": kept.header["calls"],
                "addressed_percent": found.addressed, "warnings": found.warnings, "real": real[machine], "replay": found.rows,
                **({"more_replays": [each.rows for each in others]} if others else {}),
                **({"more_boots": [each[machine] for each in more]} if more else {}),
            }  # fmt: skip
            cells.append(card.judged(cell))
    if kept is None:
        raise UsageError("no file system given; name one or more, e.g. ext4-dax,tmpfs")
    made = {
        "format": card.FORMAT,
        "manifest": provenance.build(inputs, trace=source.header),
        "trace": str(trace),
        "kernel": kept.header["kernel"],
        "direct_map": {
            region: {str(1 << order): n for order, n in sizes.items()} for region, sizes in kept.mapped().items()
        },
        "cells": cells,
    }
    write(pathlib.Path(folder) / card.FILE, json.dumps(made))
    return made


def guest_time(folder: pathlib.Path, fs: str) -> int | None:
    """Return the mean time of an operation by the guest's clock, ns; None if the folder has no counts of the guest.

    An instruction takes 1 ns (lab.qemu: -icount).
    """
    path = folder / _GUESTS
    runs = [run for run in result.read(path).runs if run.fs == fs] if path.exists() else []
    return round(runs[0].counters["instructions"] / runs[0].operations) if runs else None


def _counted(
    kept: Kept, folder: pathlib.Path, guest: str, machines: Sequence[str], progress: Progress
) -> dict[str, list[tlb.Row]]:
    """Return the rows of counts of a stream by machine; read those that the folder has, and count the rest."""
    (folder / _COUNTED).mkdir(exist_ok=True)
    paths = {name: folder / _COUNTED / f"{guest}-{pathlib.Path(name).stem}.json" for name in machines}
    tables = {name: {"sources": registry.sources(), "machine": machine_table(name)} for name in machines}
    found = {name: rows for name in machines if (rows := _stored(paths[name], tables[name])) is not None}
    missing = {name: presets.machine(name) for name in machines if name not in found}
    if missing:
        made = tlb.counted(kept, missing, lambda done, total: progress(f"{guest} of the real kernel", done, total))
        for name, rows in made.items():
            write(paths[name], json.dumps({**tables[name], "rows": rows}))
        found |= made
    return found


def _stored(path: pathlib.Path, table: Mapping[str, Any]) -> list[tlb.Row] | None:
    try:
        record = json.loads(path.read_bytes())
        same = all(record[key] == json.loads(json.dumps(value)) for key, value in table.items())
        return list(record["rows"]) if same else None
    except (OSError, ValueError, KeyError, TypeError):
        return None
