"""The SCM driver and manager."""

TITLE = "The SCM driver and manager"
SOURCES = ("scm-manager",)
ANSWERS: dict = {}
