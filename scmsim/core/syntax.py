"""Run Python's parser in one thread at a time, because CPython 3.11 counts nested nodes of all threads together."""

import ast
import threading

_one = threading.Lock()


def parsed(text: str | bytes, name: str = "<text>") -> ast.Module:
    """Return the syntax tree of a module's text; raises the same errors as `ast.parse`."""
    with _one:
        return ast.parse(text, name)
