"""Map PMFS's files: page-table entries of 4 KiB if data blocks are 4 KiB, else of 2 MiB.

Source: PMFS fs/pmfs/xip.c and its port to DAX kernels, which handles faults in fs/dax.c. Simplification: data blocks of
1 GiB get entries of 2 MiB, not of 1 GiB.
"""

from collections.abc import Mapping
from typing import Any

from scmsim.fs.engine import table
from scmsim.fs.mapping.families import mapped_files
from scmsim.fs.mapping.words import LEAVES_LARGE
from scmsim.fs.pmfs import state
from scmsim.jit import subroutine


@subroutine
def place(s, arena, f, page):
    """Return the device offset of file page `page`; 0 for a hole."""
    block = table.get(arena, f + state.BLOCKS, page << 12 >> s.shift)
    return (block << 12) + (page << 12 & (1 << s.shift) - 1) if block else 0


def mapped_as(model: Any, files: int, large: bool, blocks: bool) -> Any:
    """Return the object that handles the mapped files of PMFS or WineFS.

    `large`: page-table entries of 2 MiB are possible. `blocks`: the data blocks have at least 2 MiB.
    """
    own = {"place": place, "MAY_BE_LARGE": large, "WHOLE_BLOCKS": blocks}
    name = f"pmfs_mapped_{'large' if large else 'small'}{'_blocks' if blocks else ''}"
    return mapped_files(model, files, name, state.FILE_WORDS, own, {LEAVES_LARGE: 1})


def mapped(model: Any, params: Mapping[str, Any], files: int) -> Any:
    """Return the object that handles a model's mapped files."""
    large = bool(model.state.record[0].shift > 12)
    return mapped_as(model, files, large, large)
