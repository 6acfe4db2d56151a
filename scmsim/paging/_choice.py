"""Choose a replay's paging policy: the requested or default policy, or a substitute if the machine lacks its page size."""

from typing import Any

from scmsim.core import registry
from scmsim.core.errors import UsageError
from scmsim.core.units import format_bytes, parse_bytes

DEFAULT = "linux"
OWN = "own"  # policy of a file system that maps persistent memory itself


def wanted(fs: str) -> str:
    """Return a file system's default policy: the literal PAGING of its file, else Linux's."""
    return str(registry.literals("fs", fs).get("PAGING", DEFAULT))


def choose(fs: str, asked: str | None, largest_page: str | int) -> tuple[str, str]:
    """Return (policy whose parameters apply, policy that runs) for the requested policy `asked`, None for the default.

    `largest_page` is the machine's largest page size.  Raises UsageError for an unknown policy, and for `own` if the file system
    does not map persistent memory itself.
    """
    own = wanted(fs)
    policy = own if asked is None else asked
    registry.path("paging", policy)
    if policy == OWN and own != OWN:
        raise UsageError(
            f"{fs} does not map persistent memory itself, so it cannot use paging {OWN!r}; "
            "choose another paging ('scmsim list paging')"
        )
    if own == OWN:
        return policy, OWN
    smaller = registry.literals("paging", policy).get("SMALLER")  # (policy to run instead, minimum largest page)
    if smaller and parse_bytes(largest_page) < parse_bytes(smaller[1]):
        return policy, smaller[0]
    return policy, policy


def remarks(
    fs: str, asked: str | None, ran: str, machine: tuple[str, str | int], state: Any, in_dram: bool
) -> list[str]:
    """Return remarks on where the policy that ran differs from the request; `machine` is (name, largest page)."""
    from scmsim.core.records import ORDER, PM  # imported here: lists of plug-ins call `wanted` without NumPy

    pm = 1 << (int(state["order"][0][PM]) & ORDER)
    name, largest = machine[0], parse_bytes(machine[1])
    policy = asked or wanted(fs)
    if ran == OWN:
        return [] if policy == OWN else [f"{fs} maps persistent memory itself: paging {policy!r} has no effect"]
    found = []
    if policy != ran:
        missing = registry.literals("paging", policy)["SMALLER"][1]
        found.append(f"{name} has no pages of {missing}: {ran} ran in place of {policy}")
    if in_dram and asked and asked != DEFAULT:
        found.append(f"{fs} lies in DRAM, which every paging maps alike (--meminfo): {ran} has no effect")
    if not in_dram and pm > largest:
        found.append(
            f"{name} has no pages of {format_bytes(pm)}: persistent memory is on pages of {format_bytes(largest)}"
        )
    return found
