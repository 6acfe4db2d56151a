"""Figures that every family's space report has, and the columns of its files."""

import numpy as np


def space_report(
    sizes: np.ndarray, mapped: np.ndarray, unit: int, *, capacity: int, allocated: int, metadata: int, **others: int
) -> dict[str, int]:
    """Return the space report in bytes of files with these lengths and mapped pages of `unit` bytes; holes are not live.

    Parameters
    ----------
    capacity, allocated, metadata : int
        Bytes of the device, of data blocks and of metadata.
    **others : int
        The family's additional figures; one with a common name replaces the common figure.
    """
    return {
        "capacity_bytes": int(capacity),
        "live_bytes": int(np.minimum(sizes, mapped * unit).sum()),
        "file_bytes": int(sizes.sum()),
        "allocated_bytes": int(allocated),
        "metadata_bytes": int(metadata),
        "waste_bytes": int((-sizes[mapped > 0] % unit).sum()),
        "files": len(sizes),
        **{name: int(value) for name, value in others.items()},
    }


def space_columns(file: np.ndarray, size: np.ndarray, mapped: np.ndarray, unit: int) -> dict[str, np.ndarray]:
    """Return a model's `by_file` columns from its files' ids, lengths in bytes and mapped pages of `unit` bytes."""
    waste = np.where(mapped > 0, -size % unit, 0)
    return {"file": file, "file_bytes": size, "allocated_bytes": mapped * unit, "waste_bytes": waste}
