"""What the four papers state, beside what the models say of the same: one file a paper (SCMFS: with the slides of its talk).

A document's file has TITLE, SOURCES (its names in published.csv) and ANSWERS: id of a published row -> function of `quick` (bool)
that gives an `Answer`; and REASONS: id -> why a row is not met.  No row is left out.  PARTS are ids of rows that share replays and
take long: a process each.  SYSTEMS and POLICIES are the models that it runs, to compile them ahead.
"""

from scmsim.reproduce.rows import KINDS, VERDICTS, Answer, Row, compile_ahead, reproduce, summary

__all__ = ["KINDS", "VERDICTS", "Answer", "Row", "compile_ahead", "reproduce", "summary"]
