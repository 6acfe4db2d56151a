"""Virtual superpages and multi-grained copy-on-write (VSM)."""

TITLE = "Virtual superpages and multi-grained copy-on-write (VSM)"
SOURCES = ("vsm",)
ANSWERS: dict = {}
