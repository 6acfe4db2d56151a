"""What the four papers state, beside what the models say of the same: one file a paper (SCMFS: with the slides of its talk).

A document's file has TITLE, SOURCES (its names in published.csv) and ANSWERS: id of a published row -> function of `quick` (bool)
that gives an `Answer`.  A row without an answer is shown as not reproduced, never left out.
"""

from scmsim.reproduce.rows import KINDS, Answer, Row, reproduce

__all__ = ["KINDS", "Answer", "Row", "reproduce"]
