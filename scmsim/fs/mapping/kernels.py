"""The kernels of mapped files, to which a family binds its hooks."""

from scmsim.fs.mapping.calls import change
from scmsim.fs.mapping.layout import folios, places, rules, size
from scmsim.fs.mapping.spans import is_synced
from scmsim.fs.mapping.touch import touch

__all__ = ["change", "folios", "is_synced", "places", "rules", "size", "touch"]
