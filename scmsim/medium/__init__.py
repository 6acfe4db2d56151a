"""Memory technologies: one TOML file each, and one model (`model.py`) for all of them."""

from typing import Any

from scmsim.core import curves, registry, toml
from scmsim.core.errors import UsageError
from scmsim.core.schema import Broken, flag, listed, located, number, size, table, text, then, whole

_TIME = number(0, 1e12)


def _crowd(rows: list[list[float]]) -> list[list[float]]:
    """Check rows of [threads, speed of reads, speed of writes], ascending in threads, from [1, 1, 1] on."""
    threads = [row[0] for row in rows if len(row) == 3 and min(row) > 0]
    if len(threads) != len(rows) or threads != sorted(set(threads)) or rows[:1] != [[1, 1, 1]]:
        raise UsageError(
            "must be rows of [threads, speed of reads, speed of writes], threads ascending, the first [1, 1, 1]"
        )
    return rows


_RULE = table(
    {
        "summary": text,
        "source": text,
        "units": whole(1, 1024),  # number of channels, modules or links that the bandwidths cover together
        "unit": text,  # name of one channel, module or link
        "curves": text,  # file of loaded latencies, in the folder of the medium's file (see `core.curves`)
        "crowd": then(listed(listed(number(0, 1e6))), _crowd),  # speed by number of threads, relative to one thread
        "granule": whole(1, 1 << 20),  # unit of writes at the medium, bytes
        "buffer": size(0, 1 << 40),  # size of the device's write buffer, bytes
        "cached": flag,  # false: the CPU does not cache the medium; the bandwidth includes every access's latency
        **dict.fromkeys(("load_ns", "stream_ns", "store_ns", "fence_ns", "write_miss_ns", "write_miss_line_ns"), _TIME),
        **dict.fromkeys(("read_gb_s", "write_gb_s"), number(1e-9, 1e12)),
    },
    {"buffer": 'give the size of the write buffer, "0B" if there is none', "granule": "", "source": ""},
)


def read(name: str | dict[str, Any]) -> dict[str, Any]:
    """Return a medium's checked table, with sizes in bytes and curves as `Curves`.

    `name` is a name of `registry.names("medium")`, or a table from this function, even with changed numbers. The table may
    lack times; estimates of time then leave those times out.

    Raises
    ------
    UsageError
        If the name is unknown, the file or table has mistakes (the error lists all of them), or curves cannot be read.
    """
    if isinstance(name, dict):
        return _checked(name)
    path = registry.path("medium", name)
    found: dict[str, Any] = toml.load(path, _RULE)
    if "curves" in found:
        found["curves"] = curves.read(path.parent / found["curves"])
    return found


def _checked(given: dict[str, Any]) -> dict[str, Any]:
    """Check a table that `read` returned again, and return it; its curves are already loaded."""
    loaded = {key: value for key, value in given.items() if key == "curves" and isinstance(value, curves.Curves)}
    try:
        return {**_RULE({key: value for key, value in given.items() if key not in loaded}), **loaded}
    except Broken as broken:
        raise UsageError("\n".join(f"medium table: {located(at, rule)}" for at, rule in broken.mistakes)) from None
