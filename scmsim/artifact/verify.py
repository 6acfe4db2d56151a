"""Verify an artifact: its files, the versions of software, and each claim after a second run."""

import os
import pathlib
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from scmsim.artifact import claims, contents, pack, rerun
from scmsim.artifact.claims import Claim, Figures
from scmsim.core import registry
from scmsim.core.errors import UsageError
from scmsim.result import Result, provenance, read
from scmsim.sweep import config, store
from scmsim.sweep.point import key_of

_TABLES = (".toml", ".csv", ".npz")  # suffixes of sources that are not code


@dataclass
class Verification:
    """Findings on an artifact: changed files, versions that differ, and claims (empty if nothing was run)."""

    changes: contents.Changes
    versions: dict[str, tuple[str, str]]  # name -> (packed version, version here), where these differ
    sources: list[str]  # scmsim's own files that differ; tables come first
    claims: list[Claim] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def verdict(self) -> str:
        """Return "changed" if a file is, "files only" if nothing was run, "out" if a claim is, else "reproduced"."""
        if self.changes.lines:
            return "changed"
        if not self.claims:
            return "files only"
        return "out" if self.counts["out"] else "reproduced"

    @property
    def counts(self) -> dict[str, int]:
        """Return the number of claims by verdict."""
        found = Counter(claim.verdict for claim in self.claims)
        return {verdict: found[verdict] for verdict in claims.VERDICTS}

    def as_dict(self) -> dict[str, Any]:
        """Return the verification as values that can be written as JSON."""
        return {
            "verdict": self.verdict, "counts": self.counts, **self.changes._asdict(), "versions": self.versions,
            "sources": self.sources, "notes": self.notes, "claims": [claim._asdict() for claim in self.claims],
        }  # fmt: skip


def verify(folder: str | os.PathLike[str], run: bool = True, quiet: bool = False) -> Verification:
    """Verify an artifact; without `run`, check only its files and versions.  An artifact with a changed file is not run.

    Raises UsageError or EnvironmentProblem for a folder that is not an artifact, or if its command leaves no result.
    """
    folder = pathlib.Path(folder)
    index = contents.read_index(folder)
    found = Verification(contents.changes(folder, index), _versions(index["made"]), [])
    if found.changes.lines:
        return found
    found.sources = _sources(claims.load(folder / pack.SOURCES))
    if run:
        with tempfile.TemporaryDirectory(prefix="scmsim-artifact-") as place:
            out = rerun.run(folder, index["kind"], index["command"], pathlib.Path(place), quiet)
            try:
                found.claims = list(_claims(folder, index, out, found.notes))
            except (KeyError, TypeError, AttributeError, ValueError) as error:
                raise UsageError(f"the expected figures cannot be read ({error!r}); get the artifact again") from None
    return found


def _versions(made: Mapping[str, Any]) -> dict[str, tuple[str, str]]:
    """Return the versions that differ between the artifact and this installation."""
    here = provenance.build()
    packages = made.get("packages")
    pairs = {name: (made.get(name), here[name]) for name in ("scmsim", "python", "cpu")}
    pairs |= {name: ((packages or {}).get(name), version) for name, version in here["packages"].items()}
    return {name: (str(one), str(other)) for name, (one, other) in pairs.items() if one != other}


def _sources(packed: Mapping[str, Any]) -> list[str]:
    """Return the names of scmsim's files that differ from the packed digests, tables of costs first."""
    here = {name: pack.short(file) for name, file in registry.source_files()}
    differing = [name for name in {**packed, **here} if packed.get(name) != here.get(name)]
    return sorted(differing, key=lambda name: (not name.endswith(_TABLES), name))


def _claims(folder: pathlib.Path, index: Mapping[str, Any], out: pathlib.Path, notes: list[str]) -> Iterable[Claim]:
    """Return the claims of an artifact after a second run, whose result is at `out`."""
    expected = folder / index["result"]
    if index["kind"] == "reproduce":
        return claims.of_rows(_list(claims.load(expected)), _list(claims.load(out)), index["claims"])
    if index["kind"] == "replay":
        packed, other = read(expected), read(out)
        notes += _parameters(packed, other)
        return claims.compared(claims.of_result(packed), claims.of_result(other), index["claims"])
    rows = [(one["point"], one["row"]) for one in claims.load(expected)]
    return claims.compared(claims.of_points(rows), _points(folder, out, rows, notes), index["claims"])


def _list(found: Any) -> list[Any]:
    rows = found.get("rows") if isinstance(found, dict) else None
    if not isinstance(rows, list):
        raise UsageError("a result of the artifact's reproduction has no list 'rows'; get the artifact again")
    return rows


def _points(folder: pathlib.Path, out: pathlib.Path, rows: list[tuple[str, Any]], notes: list[str]) -> list[Figures]:
    """Return the figures of the points of the second run, in the order of the artifact; none for a point that failed."""
    place, found = store.Folder(out, store.SWEEP), []
    done = place.finished()
    for settings, (words, _) in zip(config.load(folder / "sweep.toml").points, rows, strict=True):
        key = key_of(settings)
        row = place.load(key, lambda piece: dict(piece["row"])) if key in done else {}
        found += claims.of_points([(words, row)])
        if not row:
            notes.append(f"{words}: could not be run")
    return found


def _parameters(packed: Result, found: Result) -> list[str]:
    """Return a note for each parameter whose value differs, because another version of scmsim has another default."""
    notes: dict[str, None] = {}
    for mine, other in zip(packed.runs, found.runs, strict=False):
        for name, value in mine.params.items():
            if other.params.get(name) != value:
                notes[f"{mine.fs}: parameter {name} was {value!r}, is {other.params.get(name)!r}"] = None
    return list(notes)
