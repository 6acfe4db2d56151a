"""Superpages in SCMFS (2013)."""

TITLE = "Superpages in SCMFS (2013)"
SOURCES = ("scmfs-superpage-2013",)
ANSWERS: dict = {}
