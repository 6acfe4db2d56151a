"""Recovery model of XFS with DAX: a checkpoint logs all metadata changes since the last one; data is written in place.

New blocks are zeroed before they are written.
Units: bytes, pages of 4096 bytes.
Source: Linux fs/xfs/{xfs_log.c,xfs_log_cil.c,xfs_log_recover.c} (records have CRCs, the replay ends at the first record
whose CRC fails).

A checkpoint holds the sizes, names and block maps of its time.  It is written with a flush of the device before and
after it (REQ_PREFLUSH, REQ_FUA); the model's template counts both flushes after it, so this module moves the first one
back to its place.
"""

from collections.abc import Sequence

from scmsim.core.records import FENCE, NTSTORE
from scmsim.fs.ext4.crash_dax import Guarantee
from scmsim.fs.ext4.crash_dax import RecoveryModel as Ext4
from scmsim.fs.recovery.image import Image, Mark
from scmsim.fs.recovery.observe import Event
from scmsim.fs.xfs.templates import BARRIER_FENCES

SUMMARY = "xfs-dax: metadata by the log, in checkpoints of many calls; data in place"
MODELS = ("xfs-dax",)

GUARANTEE = Guarantee(
    "metadata is that of a checkpoint; data is written in place and may be torn; durable when fsync returns",
    False,
    False,
)


class RecoveryModel(Ext4):
    """Recovery model with ext4-dax's snapshots, one for each checkpoint."""

    guarantee = GUARANTEE

    def physical(self, events: Sequence[Event]) -> Sequence[Event]:
        """Return the events with a flush of the device inserted before each checkpoint."""
        out: list[Event] = []
        for i, event in enumerate(events):
            if writes_log(event) and not (i and writes_log(events[i - 1])):
                out.append(Event(FENCE, "log", 0, BARRIER_FENCES, 0))
            out.append(event)
        return out

    def _one(
        self, i: int, event: Event, events: Sequence[Event], spans: dict[int, tuple[int, int]], version: int
    ) -> list:
        if not writes_log(event):
            return super()._one(i, event, events, spans, version)
        if i and writes_log(events[i - 1]):  # a checkpoint that reaches the log's end continues at its start
            self.logged[-1] += event.length
        else:
            self._begin(event)
        return [Mark(event.addr, event.length, ("log", len(self.commits) - 1))]

    def committed(self, image: Image, number: int) -> bool:
        """Return whether all records of a checkpoint pass their CRC."""
        return image.marked(("log", number)) >= self.logged[number]


def writes_log(event: Event) -> bool:
    """Return whether an event is a store of log records."""
    return event.code == NTSTORE and event.site == "log"
