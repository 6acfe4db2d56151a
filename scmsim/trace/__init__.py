"""Traces: the Parquet store, importers (one a file, in `formats/`) and capture back ends (one a file in `capture/`)."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from scmsim.trace.store import StoredTrace, TraceWriter, open_trace

__all__ = ["StoredTrace", "TraceWriter", "open_trace"]


def __getattr__(name: str) -> Any:
    # lazy: a capture must not load NumPy, which starts threads, before it has blocked signals
    if name in __all__:
        from scmsim.trace import store

        return getattr(store, name)
    raise AttributeError(f"module 'scmsim.trace' has no attribute {name!r}")
