"""Write the verdicts of `compare`, `reproduce` and `lab diff` as JUnit XML, which CI servers show.

Suites, cases, `failure` and `skipped` follow the schema that Jenkins' JUnit plug-in reads.  A row without a verdict is skipped.
"""

import os
import re
import xml.etree.ElementTree as xml
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from scmsim.core import atomic
from scmsim.lab import diff

if TYPE_CHECKING:
    from scmsim.compare import Comparison
    from scmsim.reproduce import Row

_NO_XML = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


class Case(NamedTuple):
    """One verdict: `failed` or `skipped` has the reason; both are empty for a passed case."""

    suite: str
    name: str
    failed: str = ""
    skipped: str = ""


def write(path: "str | os.PathLike[str]", name: str, cases: Iterable[Case]) -> None:
    """Write the cases, grouped by suite, in the order of each suite's first case."""
    suites: dict[str, list[Case]] = {}
    for case in cases:
        suites.setdefault(case.suite, []).append(case)
    root = xml.Element("testsuites", name=name)
    for suite, members in suites.items():
        group = xml.SubElement(root, "testsuite", {"name": _clean(suite), **_sums(members)})
        for case in members:
            one = xml.SubElement(group, "testcase", classname=_clean(suite), name=_clean(case.name))
            if case.failed:
                xml.SubElement(one, "failure", message=_clean(case.failed)).text = _clean(case.failed)
            elif case.skipped:
                xml.SubElement(one, "skipped", message=_clean(case.skipped))
    xml.indent(root)
    with atomic.whole(path) as draft:
        draft.write_bytes(xml.tostring(root, encoding="utf-8", xml_declaration=True) + b"\n")


def _sums(cases: Sequence[Case]) -> dict[str, str]:
    failures, skipped = sum(bool(case.failed) for case in cases), sum(bool(case.skipped) for case in cases)
    return {"tests": str(len(cases)), "failures": str(failures), "errors": "0", "skipped": str(skipped)}


def _clean(text: str) -> str:
    return _NO_XML.sub("\ufffd", text)


def of_comparison(found: "Comparison") -> Iterable[Case]:
    """Yield a case per cell, in a suite per quantity; a comparison without any verdict yields one failed case."""
    for row in found.rows:
        key = " ".join(str(part) for part in row.key if part not in (None, ""))
        text = f"{found.sides[0]} {row.simulated:.6g}, {found.sides[1]} {row.measured:.6g}"
        text += "" if row.ratio is None else f", ratio {row.ratio:.4g}"
        if row.tolerance_percent is not None:
            text += f", tolerance {row.tolerance_percent:g} % ({row.tolerance_basis})"
        elif row.tolerance_ratios:
            least, most = row.tolerance_ratios
            text += f", tolerance {least:.3f} to {most:.3f} ({row.tolerance_basis})"
        if row.verdict == "out":
            yield Case(row.quantity, key, failed=text)
        elif row.verdict == "ok":
            yield Case(row.quantity, key)
        else:
            why = "within two standard errors: " if row.verdict == "noisy" else "no tolerance: "
            yield Case(row.quantity, key, skipped=why + text)
    if found.verdict not in ("ok", "out"):
        yield Case("compare", "verdict", failed=found.verdict)


def of_lab_diff(found: Iterable[dict[str, Any]], limit: float | None) -> Iterable[Case]:
    """Yield a case per operation and counter, in a suite per file system; a rise of more than `limit` (0.05: 5 %) fails."""
    for each in found:
        beyond = {} if limit is None else {(row, name): text for row, name, text in diff.beyond(each, limit)}
        for number, row in enumerate(each["operations"]):
            for name in diff.COMPARED:
                a, b = row[name]
                failed, why = beyond.get((number, name), ""), f"no limit: {b - a:+,} of {a:,} ({diff.percent(a, b)})"
                skipped = why if limit is None else ""
                yield Case(str(each["fs"]), f"{diff.label(row)} {name}", failed, skipped)


def of_reproduction(rows: Iterable["Row"]) -> Iterable[Case]:
    """Yield a case per published row, in a suite per document; only exact rows that are not met fail."""
    for row in rows:
        published, answer = row.published, row.answer
        name = f"{published.id} {published.system} {published.metric}".strip()
        text = (
            f"published {published.value} {published.unit}, simulated {answer.simulated}, {answer.kind}: {answer.note}"
        )
        if row.verdict == "met":
            yield Case(row.document, name)
        elif row.verdict is None:
            yield Case(row.document, name, skipped=text)
        elif answer.kind == "exact":
            yield Case(row.document, name, failed=text)
        else:
            yield Case(row.document, name, skipped=f"{row.verdict}, and not exact: {text}")
