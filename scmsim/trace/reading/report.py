"""What an importer did with every line of its input; nothing is dropped without a count."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from scmsim.core.errors import UsageError
from scmsim.core.text import percent

KEPT_BAD_LINES = 20
MOST_WITHOUT_ROW = 1_000_000  # lines before the first row that are blank, titles or not understood
ALLOWED = 0.01  # share of the lines that need not be understood; a lost event is always a loss


def missed(header: Mapping[str, Any]) -> str:
    """What a trace lost on its way, in words; empty where that is nothing, or too little to matter."""
    counts, events = header.get("counts", {}), header.get("lost_events")
    lines, bad = counts.get("lines"), counts.get("bad")
    report = Report(lines=_count(lines), bad=_count(bad), lost_events=_count(events))
    return "; ".join(report.losses()) if report.is_incomplete() else ""


def _count(value: Any) -> int:
    return value if isinstance(value, int) else 0  # a file may hold anything


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
    lost_events: int = 0  # that the recorder said it lost
    unpaired: int = 0  # calls that only one of two recorders saw
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

    def expect_rows(self, path: str) -> None:
        """Raise UsageError if very many lines were not understood, or were blank, and none made a row."""
        empty = self.bad + self.left_out["blank line"] + self.left_out["title"] + self.left_out["comment"]
        if not self.calls and empty > MOST_WITHOUT_ROW:
            first = f"; line {self.bad_lines[0][0]}: {self.bad_lines[0][1]}" if self.bad_lines else ""
            raise UsageError(
                f"the first {self.lines:,} lines of {path!r} make no row{first}; name the right format with --format"
            )

    def is_incomplete(self, allowed: float | None = None) -> bool:
        """Whether more was lost than `allowed`, a share of all; by default any event, or more than ALLOWED of the lines."""
        missed = self.bad + self.unpaired
        if allowed is None:
            return self.lost_events > 0 or missed > ALLOWED * self.lines
        return missed + self.lost_events > allowed * (self.lines + self.lost_events)

    def losses(self) -> list[str]:
        """What was lost or not understood, a phrase each; empty if nothing was."""
        share = 100 * self.bad / max(self.lines, 1)
        counts = (
            (self.lost_events, "{:,} events lost by the recorder"),
            (self.bad, f"{{:,}} of {self.lines:,} lines not understood ({percent(share)})"),
            (self.unpaired, "{:,} calls seen by only one of two recorders"),
        )
        return [text.format(count) for count, text in counts if count]

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
        rest = {name: getattr(self, name) for name in ("lost_events", "blind_spots", "notes", "duration_ns")}
        return {**self.counts(), "bad_lines": bad_lines, **rest}
