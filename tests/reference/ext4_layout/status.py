"""The extent status tree: what the kernel remembers of a file's blocks, holes included.

It decides how far a lookup reaches, and so how long the requests for blocks are.  Linux 6.1, fs/ext4/extents_status.c.
"""

from dataclasses import dataclass

PROMISED = "unwritten, promised"  # a fallocate gave blocks to dirty pages that were promised some


@dataclass
class Status:
    """The state of a run of a file's blocks: "written", "unwritten", PROMISED, or "hole" and "delayed" (physical 0)."""

    logical: int
    length: int
    physical: int
    state: str

    @property
    def end(self) -> int:
        """Return the logical block after the run."""
        return self.logical + self.length

    def from_block(self, logical: int) -> "Status":
        """Return the part from a block on."""
        skipped = logical - self.logical
        physical = 0 if self.state in ("hole", "delayed") else self.physical + skipped
        return Status(logical, self.length - skipped, physical, self.state)


class StatusTree:
    """The known runs of a file, in order, none overlapping."""

    def __init__(self) -> None:
        self.runs: list[Status] = []

    def lookup(self, logical: int) -> Status | None:
        """Return the run that contains a block, from the block on."""
        for run in self.runs:
            if run.logical <= logical < run.end:
                return run.from_block(logical)
        return None

    def waits(self, logical: int, length: int) -> bool:
        """Return whether a block of a range belongs to a dirty page and was promised (ext4_es_is_delayed)."""
        end = logical + length
        return any(run.state in ("delayed", PROMISED) and run.logical < end and run.end > logical for run in self.runs)

    def insert(self, logical: int, length: int, physical: int, state: str) -> None:
        """State a run, whatever was known of it."""
        if not length:
            return
        self.remove(logical, length)
        at = next((i for i, run in enumerate(self.runs) if run.logical > logical), len(self.runs))
        self.runs.insert(at, Status(logical, length, physical, state))
        for i in (at, at - 1):
            if 0 <= i < len(self.runs) - 1 and _mergeable(self.runs[i], self.runs[i + 1]):
                self.runs[i].length += self.runs.pop(i + 1).length

    def cache(self, logical: int, length: int, physical: int, state: str) -> None:
        """State a run unless something of it is known."""
        if not any(run.logical < logical + length and run.end > logical for run in self.runs):
            self.insert(logical, length, physical, state)

    def remove(self, logical: int, length: int) -> None:
        """Forget a run."""
        end, kept = logical + length, []
        for run in self.runs:
            if run.end <= logical or run.logical >= end:
                kept.append(run)
                continue
            if run.logical < logical:
                kept.append(Status(run.logical, logical - run.logical, run.physical, run.state))
            if run.end > end:
                kept.append(run.from_block(end))
        self.runs = kept


def _mergeable(first: Status, second: Status) -> bool:
    if first.state != second.state or first.end != second.logical:
        return False
    return first.state in ("hole", "delayed") or first.physical + first.length == second.physical
