"""Fields of records at a quarter of NumPy's time, where kernels run as plain Python: nearly all of it went there.

`numpy.record` looks every attribute up in Python.  Here a field that was read once is a property of the class.
"""

import operator
from typing import Any

import numpy as np

HIDDEN = frozenset(dir(np.record)) | frozenset(dir(np.recarray))  # names that no field can have


def field(self: np.record, name: str) -> Any:
    """A field that is read for the first time, or one that has fields itself."""
    if name not in (self.dtype.names or ()):
        raise AttributeError(name)
    value = self[name]
    if value.dtype.names:
        return value.view((np.record, value.dtype))
    setattr(np.record, name, property(operator.itemgetter(name)))
    return value


def put(self: np.record, name: str, value: Any) -> None:
    """Set a field."""
    self[name] = value


def install() -> None:
    """For the rest of this process."""
    np.record.__getattribute__ = np.void.__getattribute__  # type: ignore[method-assign]
    np.record.__getitem__ = np.void.__getitem__  # type: ignore[assignment,method-assign]
    np.record.__getattr__ = field  # type: ignore[attr-defined]
    np.record.__setattr__ = put  # type: ignore[assignment,method-assign]
