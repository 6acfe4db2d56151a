"""Configure Sphinx: python -m sphinx docs docs/_build (extra `docs`)."""

import pathlib
import re
import shutil
import sys

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

import scmsim  # noqa: E402

project = "scmsim"
author = "scmsim authors"
version = release = scmsim.__version__
extensions = ["myst_nb"]
exclude_patterns = ["_build", "jupyter_execute", "notebooks/*.py"]
nb_execution_mode = "off"  # the repository has the notebooks with their outputs, which the gate renews
myst_heading_anchors = 3
suppress_warnings = ["mystnb.unknown_mime_type"]
html_theme = "furo"
html_title = f"scmsim {version}"
language = "en"


def copy_notebooks() -> None:
    """Copy the notebooks into the Sphinx folder, because Sphinx reads only files below it."""
    folder = HERE / "notebooks"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for file in sorted((HERE.parent / "notebooks").glob("*.ipynb")):
        shutil.copyfile(file, folder / file.name)


def on_source_read(app: object, page: str, text: list[str]) -> None:
    """Convert the repository's links to links of the site, and the lists of index.md to the site's menu."""
    up = "../" * page.count("/")
    text[0] = re.sub(r"\]\((?:\.\./)+notebooks/(\w+)\.ipynb\)", rf"]({up}notebooks/\1.ipynb)", text[0])
    if page == "index":
        text[0] += "".join(map(_menu, re.split(r"^## ", text[0], flags=re.MULTILINE)[1:]))
    if page == "reference/README":
        text[0] += _menu(f"Reference\n{text[0]}")


def _menu(section: str) -> str:
    """Return a hidden table of contents of a section: every page that the section links to, in that order."""
    title = section.partition("\n")[0]
    linked = dict.fromkeys(re.findall(r"\]\(([\w/-]+)\.(?:md|ipynb)\)", section))
    return "\n".join(["\n```{toctree}", f":caption: {title}", ":hidden:", *linked, "```\n"])


def setup(app) -> None:  # noqa: ANN001
    copy_notebooks()
    app.connect("source-read", on_source_read)
