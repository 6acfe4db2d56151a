"""Sphinx: python -m sphinx docs docs/_build (extra `docs`); the pages of docs/reference are made from the code at each build."""

import pathlib
import sys

HERE = pathlib.Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

import reference  # noqa: E402

import scmsim  # noqa: E402

project = "scmsim"
author = "scmsim authors"
version = release = scmsim.__version__
extensions = ["myst_nb"]
exclude_patterns = ["_build", "notebooks/*.py"]
nb_execution_mode = "off"  # the notebooks are kept with their outputs, which the gate makes again
myst_heading_anchors = 3
suppress_warnings = ["mystnb.unknown_mime_type"]
html_theme = "furo"
html_title = f"scmsim {version}"
language = "en"


def setup(app: object) -> None:
    """Write the generated pages before Sphinx looks for sources."""
    reference.write(HERE / "reference")
    reference.link_notebooks(HERE / "notebooks", HERE.parent / "notebooks")
