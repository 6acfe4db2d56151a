"""Reproduce the results of four papers with the models, with one module per paper (SCMFS: with the slides of its talk).

A document's module has TITLE, SOURCES (its names in published.csv), ANSWERS (id of a published row -> function of `quick`, a bool,
that returns an `Answer`) and REASONS (id -> why a row is not met).  No row is left out.  PARTS are groups of ids of slow rows that
share replays; each group runs in its own process.  SYSTEMS and POLICIES are the models that the module runs, to compile ahead.
"""

from scmsim.reproduce.rows import KINDS, VERDICTS, Answer, Row, compile_ahead, reproduce, summary

__all__ = ["KINDS", "VERDICTS", "Answer", "Row", "compile_ahead", "reproduce", "summary"]
