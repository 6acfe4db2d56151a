"""What a check looks at and what it found."""

from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass
class Failure:
    """A crash after which a file is not as guaranteed, with the fewest lost lines that show it.

    `event` is the number of the operation's persistence event before which the power goes (its fence, or the end), `lost` the
    lines that are lost: address in hexadecimal, mechanism of the first store that is lost there.
    """

    operation: int
    call: str
    event: int
    before: str
    lost: list[str]
    file: str
    wrong: str
    states: int = 1  # of this operation that fail
    kind: str = ""  # as in Report.found
    blame: str = ""  # the file system or the model, as far as is known; "" where nothing is promised


@dataclass
class Report:
    """What was looked at and what was found."""

    fs: str
    claim: str
    operations: int = 0  # checked
    crash_points: int = 0
    states: int = 0  # looked at
    possible_states: int = 0  # 10**18: as many or more
    sampled_points: int = 0  # crash points of which only a sample was looked at
    promised: bool = True  # False: what is found is no failure, `failures` has an example of each kind
    failing_states: int = 0
    found: dict[str, int] = field(default_factory=dict)  # kind of what is wrong -> states
    failing_operations: int = 0
    not_checked: int = 0  # operations on files that had failed before
    unknown_pages: int = 0  # not compared, over all states
    unknown_why: str = ""  # what such pages are
    unknown_files: dict[str, int] = field(default_factory=dict)  # file -> its part of them
    failures: list[Failure] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """As JSON-able values."""
        return asdict(self)


MOST_FAILURES = 20


@dataclass
class Plan:
    """How much to look at: operations [first, stop) of the trace, bounds of a crash point, and the draw."""

    first: int = 0
    stop: int = 1 << 62
    lines: int = 8
    samples: int = 128
    seed: int = 0
    failures: int = MOST_FAILURES  # failing operations after which no more are looked at
