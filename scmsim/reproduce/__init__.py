"""What the four papers state, beside what the models say of the same: one file a paper (SCMFS: with the slides of its talk).

A document's file has TITLE, SOURCES (its names in published.csv) and ANSWERS: id of a published row -> function of `quick` (bool)
that gives an `Answer`; and REASONS: id -> why a row is not met.  No row is left out.
"""

from scmsim.reproduce.rows import KINDS, VERDICTS, Answer, Row, reproduce, summary

__all__ = ["KINDS", "VERDICTS", "Answer", "Row", "reproduce", "summary"]
