"""Define the report of a check of a real kernel."""

from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass
class Failure:
    """A crash after which a file violates the guarantee, with the fewest lost lines that show it."""

    operation: int
    call: str
    before: str  # the event before which power fails
    lost: list[dict[str, Any]]  # see _walk.lost
    file: str
    kind: str
    wrong: str
    states: int = 1  # failing states of this operation


@dataclass
class Report:
    """Counts of a check, and its findings; `seconds` is the time of the guests that tried the states."""

    fs: str
    kernel: str
    claim: str
    promised: bool
    operations: int = 0
    entries: int = 0  # number of entries of the recording: stores, write-backs, fences
    crash_points: int = 0
    states: int = 0
    possible_states: int = 0  # number of possible states; 10**18 means 10**18 or more
    sampled_points: int = 0
    failing_states: int = 0
    failing_operations: int = 0
    not_followed: list[str] = field(default_factory=list)  # files whose states are not tracked
    seconds: float = 0.0
    recording_seconds: float = 0.0
    failures: list[Failure] = field(default_factory=list)
    model_both: int | None = None  # number of states of files that kernel and model share; None: not compared
    model_differences: list[dict[str, Any]] = field(default_factory=list)  # by operation and file

    def to_dict(self) -> dict[str, Any]:
        """Return the report as values that can be written as JSON."""
        return asdict(self)
