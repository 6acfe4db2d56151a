"""List the known deviations of NOVA from what its calls promise after a crash."""

from scmsim.core import records
from scmsim.fs.recovery.expected import SIZE
from scmsim.fs.recovery.model import Known, has_ragged_ends

KNOWN = (
    Known(
        records.WRITE, "data copy",
        "its copy stores a write's unaligned ends (less than 8 bytes) through the cache, and nothing writes them back (fs/nova)",
        has_ragged_ends,
    ),
    Known(records.RENAME, "", "it removes the old name in place before it commits the new name (LeBlanc et al., arXiv:2204.06066)"),
    Known(
        records.WRITE, "",
        "its recovery takes the size of the last write entry, even if an overwrite has since changed an earlier entry (rebuild.c)",
        kind=SIZE,
    ),
    Known(records.FALLOCATE, "entry update", "over blocks that exist it returns without a fence after the new size (file.c)"),
    Known(
        records.FALLOCATE, "",
        "over blocks that exist it keeps the entry's transaction, so that an older truncate counts after a crash (file.c)",
        kind=SIZE,
    ),
)  # fmt: skip
