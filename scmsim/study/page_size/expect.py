"""Check whether a file gets the page size that a user expects, in each range that could have it."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from scmsim.core.units import format_bytes
from scmsim.study.page_size.from_process import LARGE, NOTHING, SMALL
from scmsim.study.page_size.rules import CLASSES, EDGE, EMPTY, HUGE, MEANING, PAGE, UNWRITTEN, WHOLE

GIANT = 1 << 30
SIZES = {format_bytes(size): size for size in (PAGE, HUGE, GIANT)}
_AT_ONCE = tuple(CLASSES[k] for k in (WHOLE, UNWRITTEN, EMPTY))
_FOR_SMALL = "advise the mapping against large pages (MADV_NOHUGEPAGE); on tmpfs mount with huge=never"
_NO_GIANT = (
    "Linux maps a file by 2 MiB at most; expect 2MiB, or map a device-DAX device, which can have entries of 1 GiB"
)
_UNTOUCHED = "the process has mapped none of them now; run the command after the process has touched the file"


class Verdict(NamedTuple):
    """Outcome of a check: how many ranges of the file could have the page size, how many have it, and what to do."""

    page: str
    of: int
    have: int
    holds: bool
    text: str


def of_classes(page: str, regions: Mapping[str, int], giants: int, remedies: Sequence[str] = ()) -> Verdict:
    """Return the verdict on mappings, given the number of their 2 MiB ranges of each class (`rules.CLASSES`).

    `page` is a key of SIZES, and `giants` the number of whole aligned 1 GiB ranges in the mappings.  A remedy is "class: command",
    or a command alone for any class; the first one that applies is shown.
    """
    if page == "1GiB":
        return _verdict(page, giants, 0, _NO_GIANT)
    total = sum(regions.values())
    if page == "4KiB":
        return _verdict(page, total, total - sum(regions.get(name, 0) for name in _AT_ONCE), _FOR_SMALL)
    rest = {name: n for name, n in regions.items() if name not in (CLASSES[WHOLE], CLASSES[EDGE]) and n}
    of, have = total - regions.get(CLASSES[EDGE], 0), regions.get(CLASSES[WHOLE], 0)
    most = max(rest, key=lambda name: rest[name], default="")
    fixes = [text for text in remedies if text.partition(": ")[0] == most or text.partition(": ")[0] not in CLASSES]
    what = (
        (fixes[0] if fixes and fixes[0].startswith(f"{most}: ") else f"{most}: {[*fixes, MEANING[most]][0]}")
        if most
        else ""
    )
    return _verdict(page, of, have, what)


def of_process(page: str, found: np.ndarray, now: np.ndarray, giants: int, remedies: Sequence[str] = ()) -> Verdict:
    """Return the verdict on a process: `now` is the state of each 2 MiB range (`from_process.NOW`), `found` its class.

    Ranges that the process has not touched are left out; if it has touched none, the expectation does not hold.
    """
    if page == "1GiB":
        return of_classes(page, {}, giants)
    touched = now != NOTHING
    if page == "4KiB":
        of, have, what = touched, touched & (now == SMALL), _FOR_SMALL
    else:
        of = touched & (found != EDGE)
        inside = [text for text in remedies if not text.startswith(f"{CLASSES[EDGE]}: ")]
        have, what = of & (now == LARGE), [*inside, "the reasons are above"][0]
    if not touched.any():
        return Verdict(page, 0, 0, False, f"expected {page}: {_UNTOUCHED}")
    return _verdict(page, int(of.sum()), int(have.sum()), what)


def giants_in(length: int, offset: int = 0) -> int:
    """Return the number of whole aligned 1 GiB ranges of a file between byte `offset` and its end at `length`."""
    return max(length // GIANT - -(-offset // GIANT), 0)


def _verdict(page: str, of: int, have: int, what: str) -> Verdict:
    unit = "1 GiB" if page == "1GiB" else "2 MiB"
    how = {"4KiB": "by 4 KiB alone", "2MiB": "at once", "1GiB": "at once"}[page]
    if not of:
        text = f"no whole {unit} can be mapped {how}, so there is nothing to check"
    elif have == of:
        text = f"all {of:,} x {unit} are mapped {how}"
    else:
        text = f"{have:,} of {of:,} x {unit} are mapped {how}; {what}"
    return Verdict(page, of, have, have == of, f"expected {page}: {text}")
