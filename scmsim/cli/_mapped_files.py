"""Report the benefit of 2 MiB pages for each mapped file, by file system; a part of `scmsim advise`."""

from collections.abc import Iterator
from typing import Any

from scmsim.core.text import shortened

_ROWS = (("faults of 4 KiB", "faults_4k"), ("faults of 2 MiB", "faults_2m"), ("faults of 1 GiB", "faults_1g"),
         ("page walks of the program", "walks"), ("instructions, calls included", "instructions"),
         ("bytes that faults mapped by 2 MiB", "mapped_2m_bytes"))  # fmt: skip
_WIDTH = 60


def worths(source: Any, names: list[str], machine: str) -> dict[str, Any]:
    """Return each file system's `Worth`, or the reason why it has none; empty if no mapped file is touched."""
    from scmsim.cli._progress import Progress
    from scmsim.study.page_size.benefit import worth
    from scmsim.study.page_size.from_model import touched_files

    if not touched_files(source).any():
        return {}
    with Progress() as progress:
        return {name: worth(source, name, machine, progress=progress) for name in names}


def table(found: dict[str, Any]) -> dict[str, Any]:
    """Return the result of `worths` as a JSON-able dict; empty if `found` is empty."""

    def one(worth: Any) -> dict[str, Any]:
        if isinstance(worth, str):
            return {"not_modelled": worth}
        files = [
            {"file": each.path, "before": each.before, "after": each.after, "gains": each.gains} for each in worth.files
        ]
        return {"setting": worth.setting, "before": worth.before, "after": worth.after, "files": files}

    return {"mapped_files": {name: one(worth) for name, worth in found.items()}} if found else {}


def lines(found: dict[str, Any], machine: str, top: int) -> Iterator[str]:
    """Yield the result of `worths` as lines of text."""
    if found:
        yield f"\nmapped files on {machine}, as replayed:"
    for fs, worth in found.items():
        if isinstance(worth, str):
            yield f"\n{fs}: {worth}"
            continue
        yield ""
        yield f"{fs:<{_WIDTH}}{'unchanged':>24}{worth.setting or 'no other layout':>24}"
        for label, name in _ROWS:
            if worth.before[name] or worth.after[name]:
                after = f"{worth.after[name]:,}" if worth.setting else ""
                yield f"  {label:<{_WIDTH - 2}}{worth.before[name]:>24,}{after:>24}"
        yield from _files(worth, top)


def _files(worth: Any, top: int) -> Iterator[str]:
    """Yield lines on the files that gain from large pages, the largest gain first."""
    if not worth.files:
        yield "  no mapped file is touched"
    for one in worth.files[:top] if worth.setting else ():
        said = f"huge pages save {one.saved:,} faults and walks" if one.gains else "huge pages save nothing"
        yield f"  {shortened(one.path, _WIDTH - 4):<{_WIDTH - 2}}{said:>48}"
    if worth.setting and len(worth.files) > top:
        rest = worth.files[top:]
        yield f"  and {len(rest):,} files more (--top), of which {sum(one.gains for one in rest):,} gain"
