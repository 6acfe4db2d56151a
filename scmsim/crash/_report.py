"""Define the report of a crash check, and its plan: bounds and seed."""

from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass
class Failure:
    """A crash after which a file violates the guarantee, with the fewest lost lines that show it.

    `event` is the index of the operation's event before which power fails (a fence, or the end).  `lost` has, for each lost line,
    the address in hexadecimal and the mechanism of the first lost store.
    """

    operation: int
    call: str
    event: int
    before: str
    lost: list[str]
    file: str
    wrong: str
    states: int = 1  # failing states of this operation
    kind: str = ""  # as in Report.found
    blame: str = ""  # whether the file system or the model is to blame, if known; "" if nothing is promised


@dataclass
class Report:
    """Counts of a crash check, and its findings."""

    fs: str
    claim: str
    operations: int = 0  # number of checked operations
    crash_points: int = 0
    states: int = 0  # number of checked states
    possible_states: int = 0  # number of possible states; 10**18 means 10**18 or more
    sampled_points: int = 0  # number of crash points of which only a sample of states was checked
    promised: bool = True  # False: findings are not failures, and `failures` has an example of each kind
    failing_states: int = 0
    found: dict[str, int] = field(default_factory=dict)  # kind of violation -> states
    failing_operations: int = 0
    not_checked: int = 0  # operations that were not checked because a file of theirs had failed before
    unknown_pages: int = 0  # pages not compared, over all states
    unknown_why: str = ""  # why these pages are not compared
    unknown_files: dict[str, int] = field(default_factory=dict)  # file -> its number of unknown pages
    failures: list[Failure] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """Return the report as values that can be written as JSON."""
        return asdict(self)


MOST_FAILURES = 20


@dataclass
class Plan:
    """Bounds of a check: operations [first, stop) of the trace, lines and samples of a crash point, and the seed."""

    first: int = 0
    stop: int = 1 << 62
    lines: int = 8
    samples: int = 128
    seed: int = 0
    failures: int = MOST_FAILURES  # failing operations after which checking stops
