"""Run notebooks from start to end and keep their outputs in the .ipynb beside each .py.

    python tools/notebooks.py notebooks/01_first_replay.py ...

Needs the extra `notebook`.  Cells keep their ids; times and stderr are dropped, so that outputs differ only if results do.
"""

import json
import pathlib
import sys
from typing import Any

import jupytext
import nbclient

LIMIT = 900  # seconds per cell: the first replay of a model compiles it


def run(path: pathlib.Path) -> None:
    """Run a notebook and write it with its outputs."""
    book, stored = jupytext.read(path), path.with_suffix(".ipynb")
    where = {"metadata": {"path": str(path.parent)}}
    nbclient.NotebookClient(book, kernel_name="python3", timeout=LIMIT, record_timing=False, resources=where).execute()
    for cell in book.cells:
        if cell["cell_type"] == "code":
            cell["outputs"] = joined(cell["outputs"])
    old = json.loads(stored.read_text(encoding="utf-8")) if stored.exists() else {"cells": [], "metadata": {}}
    book.metadata.update(old["metadata"])
    for cell, before in zip(book.cells, old["cells"], strict=False):
        cell["id"] = before["id"]
    jupytext.write(book, stored)


def joined(outputs: list[Any]) -> list[Any]:
    """Return the outputs without stderr, with consecutive texts on stdout joined."""
    found: list[Any] = []
    for output in outputs:
        if output["output_type"] != "stream":
            found.append(output)
        elif output["name"] == "stdout":
            if found and found[-1]["output_type"] == "stream":
                found[-1]["text"] += output["text"]
            else:
                found.append(output)
    return found


if __name__ == "__main__":
    for name in sys.argv[1:]:
        print(name, flush=True)
        run(pathlib.Path(name))
