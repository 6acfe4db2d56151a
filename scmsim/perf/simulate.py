"""Write a sweep that runs the cells of a matrix on the models (`simulate.toml` in the folder of the measured result)."""

import json
from collections.abc import Mapping
from typing import Any

from scmsim.core import registry
from scmsim.core.counters import SCHEMA
from scmsim.perf import dax_check, hardware
from scmsim.perf.backend import Backend
from scmsim.perf.machine import Machine
from scmsim.perf.matrix import Matrix

NAME = "simulate.toml"
# operations of the workload `thesis`; fwrite goes through a library that has no model
_SIMULATED = ("write", "rewrite", "read", "reread")
_MODELS = {"ext4": "ext4", "ext2": "ext2", "tmpfs": "tmpfs", "NOVA": "nova-cow"}
_DAX = {"ext4": "ext4-dax", "ext2": "ext2-dax", "xfs": "xfs-dax"}


def models(matrix: Matrix, backend: Backend) -> dict[str, str]:
    """Return label -> model for each target that has a model: the model with the label's name, or of the mounted file system."""
    mounted: Mapping[str, Mapping[str, Any]] = dax_check.described(matrix, Machine()) if backend.runs_programs else {}
    found = {}
    for target in matrix.targets:
        mount = mounted.get(target.label, {})
        by_mount = (_DAX if mount.get("dax") else _MODELS).get(str(mount.get("type")))
        name = target.label if target.label in registry.names("fs") else by_mount
        if name:
            found[target.label] = name
    return found


def is_comparable(backend: Backend) -> bool:
    """Return whether the back end counts any field that a model predicts."""
    return any(name in SCHEMA for name in hardware.events_of(backend.passes))


def sweep(matrix: Matrix, names: Mapping[str, str]) -> str:
    """Return the text of the sweep's file, with a point for each cell; "" if no cell can be simulated."""
    points = [
        {
            "fs": names[cell.fs],
            "workload.kind": "thesis",
            "workload.op": cell.operation,
            "workload.size_from": cell.file_bytes,
            "workload.unit_from": cell.unit_bytes,
            "workload.total": max(matrix.total, cell.pass_calls * cell.length),
        }
        for cell in matrix.points()
        if cell.operation in _SIMULATED and cell.fs in names
    ]
    if not points:
        return ""
    head = (
        'summary = "the measured cells on the models"\nmode = "list"\n\n'
        '[fixed]\n# machine = "zen4"  # your CPU: scmsim list machine; paging: how its kernel maps it (scmsim list paging)\n'
    )
    tables = ("\n".join(f'"{key}" = {json.dumps(value)}' for key, value in point.items()) for point in points)
    return head + "".join(f"\n[[point]]\n{table}\n" for table in tables)
