"""Store, import and capture traces.

The store is a Parquet file; each module in `formats/` is an importer, each public module in `capture/` a back end.
"""

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
