"""Memory technologies: one TOML file each, one model (`model.py`) for all."""

from typing import Any

from scmsim.core import registry, toml
from scmsim.core.schema import flag, number, size, table, text, whole

_TIME = number(0, 1e12)
_RULE = table(
    {
        "summary": text,
        "source": text,
        "granule": whole(1, 1 << 20),  # bytes that the medium writes at once
        "buffer": size(0, 1 << 40),  # bytes of the device's write buffer
        "cached": flag,  # 0: the CPU has no cache for it, so the bandwidth holds the latency of every access
        **dict.fromkeys(("load_ns", "stream_ns", "store_ns", "fence_ns"), _TIME),
        **dict.fromkeys(("read_gb_s", "write_gb_s"), number(1e-9, 1e12)),
    },
    {"buffer": 'give the size of the write buffer, "0B" if there is none', "granule": "", "source": ""},
)


def read(name: str) -> dict[str, Any]:
    """A medium's checked table, sizes in bytes; a time that it lacks is left out of estimates.

    Raises
    ------
    UsageError
        For an unknown name, or with every mistake in the file.
    """
    found: dict[str, Any] = toml.load(registry.path("medium", name), _RULE)
    return found
