"""What an importer did with every line of its input; nothing is dropped without a count."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

KEPT_BAD_LINES = 20


@dataclass
class Report:
    """Account of one conversion.  Every line read is in exactly one of `calls`, `left_out` and `bad`.

    `failed` and `other` say more about reasons of `left_out`: names of the calls that failed, and of those that are no
    file operation or have no model.  `rows` = `calls` + `extra_rows`: an open that truncates, or a copy, is two rows.
    """

    lines: int = 0
    calls: int = 0
    rows: int = 0
    extra_rows: int = 0
    files: int = 0
    bad: int = 0
    bad_lines: list[tuple[int, str]] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)
    failed: Counter[str] = field(default_factory=Counter)
    other: Counter[str] = field(default_factory=Counter)
    unknown_offsets: int = 0
    creates: Counter[str] = field(default_factory=Counter)
    blind_spots: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    duration_ns: int = 0

    def add_bad(self, line: int, reason: str) -> None:
        """Count a line that could not be understood; the first ones are kept with their number."""
        self.bad += 1
        if len(self.bad_lines) < KEPT_BAD_LINES:
            self.bad_lines.append((line, reason))

    def check(self) -> None:
        """Raise RuntimeError (an error of the importer, not of the user) unless every line and row is accounted for."""
        accounted = self.calls + sum(self.left_out.values()) + self.bad
        if accounted != self.lines:
            raise RuntimeError(f"{self.lines} lines were read but {accounted} are accounted for")
        if self.calls + self.extra_rows != self.rows:
            raise RuntimeError(f"{self.calls} calls and {self.extra_rows} extra rows are not {self.rows} rows")

    def counts(self) -> dict[str, Any]:
        """The numbers for the header of a trace."""
        names = ("lines", "calls", "rows", "extra_rows", "files", "bad", "left_out", "failed", "other", "creates")
        return {name: getattr(self, name) for name in (*names, "unknown_offsets")}

    def provenance(self) -> dict[str, Any]:
        """What the header of a trace says about its making."""
        bad_lines = [{"line": line, "reason": reason} for line, reason in self.bad_lines]
        return {
            "blind_spots": self.blind_spots,
            "notes": self.notes,
            "bad_lines": {"count": self.bad, "first": bad_lines},
            "counts": self.counts(),
        }

    def as_dict(self) -> dict[str, Any]:
        """Everything, JSON-able."""
        bad_lines = [{"line": line, "reason": reason} for line, reason in self.bad_lines]
        rest = {name: getattr(self, name) for name in ("blind_spots", "notes", "duration_ns")}
        return {**self.counts(), "bad_lines": bad_lines, **rest}
