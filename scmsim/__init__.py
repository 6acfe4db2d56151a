"""scmsim: simulate what storage-class-memory file systems do to the TLB, to write traffic and to space.

Importing the package imports no heavy module; `scmsim.replay` and the classes in `_LAZY` load on first use.
"""

__version__ = "0.3.0"

_LAZY = {"replay": "pipeline", "Result": "result", "open_trace": "trace"}


def __getattr__(name: str) -> object:
    if name in _LAZY:
        import importlib

        return getattr(importlib.import_module(f"scmsim.{_LAZY[name]}"), name)
    raise AttributeError(f"module 'scmsim' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_LAZY])
