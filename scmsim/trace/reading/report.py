"""Count every line of an importer's input by its outcome; no line is dropped without a count."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from scmsim.core.errors import UsageError
from scmsim.core.text import percent

KEPT_BAD_LINES = 20
MOST_WITHOUT_ROW = 1_000_000  # limit of lines before the first row that are blank, titles or not understood
ALLOWED = 0.01  # share of rows, and of bytes, that may be lost or uncertain; no event may be lost


def missed(header: Mapping[str, Any]) -> str:
    """Return a text about the events and rows that a trace lost; "" if it lost none, or too few to matter."""
    counts = header.get("counts", {})
    report = _of(counts)
    report.lost_events, report.unpaired = _count(header.get("lost_events")), _count(header.get("unpaired_calls"))
    if "lost_rows" not in counts:  # older traces did not count lost rows: estimate from the lines
        report.lost_rows, report.rows = report.bad, max(report.lines - report.bad, 0)
    return "; ".join(report.losses()) if report.is_incomplete() else ""


def rough(header: Mapping[str, Any]) -> str:
    """Return why the single rows of a trace are assumptions; empty if they were recorded."""
    return str(header.get("rough") or "")


def uncertain(header: Mapping[str, Any]) -> list[str]:
    """Return a phrase for each consequence of lines that were not understood, from the header of a trace."""
    return _of(header.get("counts", {})).consequences()


def _of(counts: Mapping[str, Any]) -> "Report":
    """Return the report with the counts of a header."""
    report = Report()
    for name in ("lines", "rows", "bad", *_LOSSES):
        setattr(report, name, _count(counts.get(name)))
    return report


def _count(value: Any) -> int:
    return value if isinstance(value, int) else 0  # the header comes from a file, so any type is possible


_LOSSES = ("lost_rows", "uncertain_rows", "bytes", "lost_bytes", "uncertain_bytes")


@dataclass
class Report:
    """The counts of one conversion.  Every line read is in exactly one of `calls`, `left_out` and `bad`.

    `failed` and `other` detail two reasons of `left_out`: names of the calls that failed, and of calls that are not
    file operations or have no model.  `rows` = `calls` + `extra_rows`: an open that truncates, or a copy, is two rows.
    `blind` counts calls that move data or change a length without a row.

    `lost_rows` and `lost_bytes` count calls without a row, because their line, or a line that they depend on, was not
    understood.  `uncertain_rows` and `uncertain_bytes` count rows whose file, position or length may be wrong for that
    reason.  `bytes` counts the bytes that all rows read and write.
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
    blind: Counter[str] = field(default_factory=Counter)
    lost_events: int = 0  # events that the recorder reported as lost
    unpaired: int = 0  # calls that only one of two recorders saw
    lost_rows: int = 0
    lost_bytes: int = 0
    uncertain_rows: int = 0
    uncertain_bytes: int = 0
    bytes: int = 0
    unknown_offsets: int = 0
    creates: Counter[str] = field(default_factory=Counter)
    blind_spots: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    duration_ns: int = 0
    rough: str = ""  # why single rows are assumptions

    def add_bad(self, line: int, reason: str, rows: int = 1) -> None:
        """Count a line that was not understood, and the rows that it might have made; keep the first such lines."""
        self.bad += 1
        self.lost_rows += rows
        if len(self.bad_lines) < KEPT_BAD_LINES:
            self.bad_lines.append((line, reason))

    def expect_rows(self, path: str) -> None:
        """Raise UsageError if no line made a row and more than MOST_WITHOUT_ROW are blank, titles or not understood."""
        empty = self.bad + self.left_out["blank line"] + self.left_out["title"] + self.left_out["comment"]
        if not self.calls and empty > MOST_WITHOUT_ROW:
            first = f"; line {self.bad_lines[0][0]}: {self.bad_lines[0][1]}" if self.bad_lines else ""
            raise UsageError(
                f"the first {self.lines:,} lines of {path!r} make no row{first}; name the right format with --format"
            )

    def share_lost(self) -> float:
        """Return the share of rows, or of bytes if larger, that are lost or uncertain."""
        lost = self.lost_rows + self.unpaired + self.lost_events
        return max(
            (lost + self.uncertain_rows) / max(self.rows + lost, 1),
            (self.lost_bytes + self.uncertain_bytes) / max(self.bytes + self.lost_bytes, 1),
        )

    def is_incomplete(self, allowed: float | None = None) -> bool:
        """Return whether the lost share is above `allowed`; by default whether any event or more than ALLOWED is lost."""
        if allowed is None and self.lost_events:
            return True
        return self.share_lost() > (ALLOWED if allowed is None else allowed)

    def losses(self) -> list[str]:
        """Return a phrase for each kind of loss: lost, uncertain or not understood; empty without losses."""
        counts = (
            (self.lost_events, "{:,} events lost by the recorder"),
            (self.bad, f"{{:,}} of {self.lines:,} lines not understood ({_percent(self.bad, self.lines)})"),
            (self.unpaired, "{:,} calls seen by only one of two recorders"),
        )
        return [text.format(count) for count, text in counts if count] + self.consequences()

    def consequences(self) -> list[str]:
        """Return a phrase for each consequence of lines that were not understood."""
        counts = (
            (self.lost_rows if self.lost_rows > self.bad else 0, "{:,} calls without their row"),
            (
                self.lost_bytes,
                f"at least {{:,}} bytes lost ({_percent(self.lost_bytes, self.bytes + self.lost_bytes)})",
            ),
            (self.uncertain_rows, f"{{:,}} rows uncertain ({_percent(self.uncertain_rows, self.rows)})"),
            (self.uncertain_bytes, f"{{:,}} bytes uncertain ({_percent(self.uncertain_bytes, self.bytes)})"),
        )
        return [text.format(count) for count, text in counts if count]

    def check(self) -> None:
        """Raise RuntimeError (an importer's bug, not the user's error) unless every line and row is accounted for."""
        accounted = self.calls + sum(self.left_out.values()) + self.bad
        if accounted != self.lines:
            raise RuntimeError(f"{self.lines} lines were read but {accounted} are accounted for")
        if self.calls + self.extra_rows != self.rows:
            raise RuntimeError(f"{self.calls} calls and {self.extra_rows} extra rows are not {self.rows} rows")

    def counts(self) -> dict[str, Any]:
        """Return the numbers for the header of a trace."""
        names = ("lines", "calls", "rows", "extra_rows", "files", "bad", "left_out", "failed", "other", "creates")
        return {name: getattr(self, name) for name in (*names, "blind", *_LOSSES, "unknown_offsets")}

    def provenance(self) -> dict[str, Any]:
        """Return the header entries of a trace about its conversion."""
        bad_lines = [{"line": line, "reason": reason} for line, reason in self.bad_lines]
        return {
            "blind_spots": self.blind_spots,
            "notes": self.notes,
            "bad_lines": {"count": self.bad, "first": bad_lines},
            "counts": self.counts(),
            **({"rough": self.rough} if self.rough else {}),
        }

    def as_dict(self) -> dict[str, Any]:
        """Return the whole report as a JSON-able dict."""
        bad_lines = [{"line": line, "reason": reason} for line, reason in self.bad_lines]
        rest = {name: getattr(self, name) for name in ("lost_events", "blind_spots", "notes", "duration_ns", "rough")}
        return {**self.counts(), "bad_lines": bad_lines, **rest}


def _percent(part: int, whole: int) -> str:
    return percent(part / max(whole, 1))
