"""Measurements of one run of a plan in a guest."""

from dataclasses import dataclass, field

import numpy as np

from scmsim.lab.calls import NODE
from scmsim.lab.faults import EXTENT, FAULTS
from scmsim.lab.slab import Page


@dataclass
class Measured:
    """Results of one run: rows of the plugin, the guest's symbols, and the outcome of its operations."""

    rows: np.ndarray
    symbols: bytes
    about: dict[str, int]
    seconds: float
    nodes: np.ndarray = field(default_factory=lambda: np.zeros(0, NODE))  # nodes of the tree of calls
    stream: np.ndarray | None = None
    lines: np.ndarray | None = None  # records of lines (scmsim.lab.lines)
    cells: np.ndarray | None = None  # for each record of the stream: the number of its row, 0 for none
    ranges: list[tuple[int, int, int]] = field(default_factory=list)
    touches: np.ndarray | None = None
    caches: dict[int, Page] = field(default_factory=dict)  # slab cache of each touched page
    faults: np.ndarray = field(default_factory=lambda: np.zeros(0, FAULTS))  # of mapped files, by number of the region
    extents: np.ndarray = field(default_factory=lambda: np.zeros(0, EXTENT))  # of the files that the plan asks for
    sizes_told: bool = False  # whether the kernel's page table could be read
