"""Pack a result into an artifact: inputs, the file to run, expected figures, versions, digests and a README."""

import contextlib
import json
import os
import pathlib
import shutil
from collections.abc import Iterator, Mapping
from typing import Any

from scmsim.artifact import claims, contents, readme, recipe, rerun
from scmsim.core import registry, user_plugins
from scmsim.core.atomic import draft_of, protect, unwritten, writable_folder
from scmsim.core.errors import UsageError
from scmsim.result import Result, provenance, read
from scmsim.result.provenance import digest
from scmsim.result.rows import as_csv
from scmsim.sweep import store, table
from scmsim.sweep.point import in_words, key_of, varying

EXPECTED = "expected"
SOURCES = "sources.json"
_PRIVATE = (
    "host",
    "argv",
    "inputs",
    "replays",
    "costs",
)  # entries of a manifest with names and paths of the machine that computed it


def make(result: str | os.PathLike[str], folder: str | os.PathLike[str]) -> pathlib.Path:
    """Pack a result into a new folder; return the folder.

    Parameters
    ----------
    result : path
        A result of `scmsim replay` (.json, .parquet), the folder of a sweep, or what `scmsim reproduce -o` wrote.
    folder : path
        A folder that does not exist or is empty.  It appears only when it is complete.

    Raises
    ------
    UsageError
        For a result that cannot be run again here: a measurement, a result of other sources, or one whose inputs have changed.
    """
    if os.environ.get(user_plugins.FOLDER):
        raise UsageError(
            f"an artifact does not contain plug-ins; unset {user_plugins.FOLDER} and run the command again"
        )
    result = pathlib.Path(result)
    with _whole(pathlib.Path(folder)) as draft:
        (draft / EXPECTED).mkdir()
        if table.is_sweep(result):
            index = _sweep(result, draft)
        else:
            rows = _reproduction(result)
            index = _replay(read(result), draft) if rows is None else _rows(rows, draft)
        _json(draft / SOURCES, {name: short(file) for name, file in registry.source_files()})
        index["made"] = {key: value for key, value in provenance.build().items() if key not in _PRIVATE}
        (draft / "README.md").write_text(readme.text(index), encoding="utf-8")
        contents.write_index(draft, index)
    return pathlib.Path(folder)


@contextlib.contextmanager
def _whole(folder: pathlib.Path) -> Iterator[pathlib.Path]:
    """Yield a draft folder beside `folder`, which takes its place at the end, or is removed if the block fails."""
    writable_folder(folder)
    if folder.exists() and any(folder.iterdir()):
        raise UsageError(f"{str(folder)!r} is not empty; give the name of a new folder")
    target = pathlib.Path(os.path.abspath(folder))
    draft = draft_of(target)
    try:
        draft.mkdir()
        yield draft
        os.rename(draft, target)  # replaces an empty folder, and fails if another process has filled it
    except OSError as error:
        raise unwritten(folder, error) from None
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _replay(result: Result, draft: pathlib.Path) -> dict[str, Any]:
    manifest = result.manifest
    replays = manifest.get("replays")
    if not isinstance(replays, list) or not replays or any(run.events for run in result.runs):
        raise UsageError(
            "this result cannot be run again from its manifest: it is a measurement, or was computed by an older scmsim; replay "
            "the trace with this version, with -o R.json"
        )
    _same_sources(manifest)
    inputs = recipe.Inputs(draft, manifest.get("inputs", {}))
    experiment = recipe.experiment(replays, inputs)
    (draft / recipe.EXPERIMENT).write_text(experiment, encoding="utf-8")
    costs = [inputs.take(path, recipe.COSTS) for path in manifest.get("costs", {})]
    protect(*inputs.copies)
    figures = claims.of_result(result)
    public = {key: value for key, value in manifest.items() if key not in _PRIVATE}
    expected = Result(public, result.runs)
    (draft / EXPECTED / "result.json").write_text(expected.to_json() + "\n", encoding="utf-8")
    (draft / EXPECTED / "table.txt").write_text(expected.table() + "\n", encoding="utf-8")
    command = {"file": recipe.EXPERIMENT, "costs": costs}
    return _index("replay", f"{EXPECTED}/result.json", command, _judged(figures))


def _sweep(folder: pathlib.Path, draft: pathlib.Path) -> dict[str, Any]:
    table.read(folder)  # raises UsageError for a sweep without a table, or a damaged one
    import pyarrow.parquet

    place = store.Folder(folder, store.SWEEP)
    keys = pyarrow.parquet.read_table(folder / store.RESULTS, columns=["point"])["point"].to_pylist()
    pieces = [place.load(key, lambda piece: (dict(piece["point"]), dict(piece["row"]))) for key in keys]
    settings = [point for point, _ in pieces]
    for key, point in zip(keys, settings, strict=True):
        if key_of(point) != key:
            raise UsageError(f"{str(folder)!r} was computed by other sources or from other inputs; run the sweep again")
    inputs = recipe.Inputs(draft, {})
    (draft / recipe.SWEEP).write_text(recipe.sweep(settings, inputs), encoding="utf-8")
    protect(*inputs.copies)
    differing = varying(settings)
    points = [(in_words(point, differing), row) for point, row in pieces]
    _json(draft / EXPECTED / "points.json", [{"point": words, "row": row} for words, row in points])
    (draft / EXPECTED / "table.csv").write_text(
        as_csv([{"point": words, **row} for words, row in points]), encoding="utf-8"
    )
    figures = claims.of_points(points)
    return _index("sweep", f"{EXPECTED}/points.json", {"file": recipe.SWEEP}, _judged(figures))


def _reproduction(path: pathlib.Path) -> dict[str, Any] | None:
    """Return what `scmsim reproduce` wrote into a JSON file; None if the file is something else."""
    try:
        found = json.loads(path.read_bytes()) if path.suffix == ".json" else None
    except (OSError, ValueError, RecursionError):
        return None
    if not isinstance(found, dict) or not isinstance(found.get("rows"), list) or "summary" not in found:
        return None
    if not isinstance(found.get("manifest"), dict):
        raise UsageError(f"{str(path)!r} has no manifest, like results of an older scmsim; run reproduce -o again")
    return found


def _rows(found: Mapping[str, Any], draft: pathlib.Path) -> dict[str, Any]:
    manifest = found["manifest"]
    _same_sources(manifest)
    public = {key: value for key, value in manifest.items() if key not in _PRIVATE}
    _json(draft / EXPECTED / "rows.json", {**found, "manifest": public})
    (draft / EXPECTED / "table.csv").write_text(as_csv(found["rows"]), encoding="utf-8")
    command = {"wanted": list(manifest["reproduce"]["wanted"]), "quick": bool(manifest["reproduce"]["quick"])}
    return _index("reproduce", f"{EXPECTED}/rows.json", command, claims.of_reproduction())


def _index(kind: str, result: str, command: dict[str, Any], judged: dict[str, Any]) -> dict[str, Any]:
    rerun.arguments(kind, command)  # raises UsageError for a command that verify would refuse
    return {"kind": kind, "result": result, "command": command, "claims": judged}


def _judged(figures: list[claims.Figures]) -> dict[str, Any]:
    """Return [basis, tolerance in percent] of every quantity that has a verdict."""
    names = dict.fromkeys(name for one in figures for name in one.values)
    known = {name: claims.basis(name) for name in names}
    return {name: list(found) for name, found in known.items() if found[0] != claims.SHOWN}


def _same_sources(manifest: Mapping[str, Any]) -> None:
    """Raise UsageError if scmsim's sources have changed since the result, because the old ones' digests cannot be packed."""
    if manifest.get("sources") != registry.sources():
        raise UsageError(
            f"this result was computed by other sources (scmsim {manifest.get('scmsim')}, {manifest.get('sources')}) than the "
            f"installed ones ({registry.sources()}); run its command again"
        )


def short(file: pathlib.Path) -> str:
    """Return the first 16 digits of the SHA-256 of a file."""
    return str(digest(file)["sha256"])[:16]


def _json(path: pathlib.Path, content: Any) -> None:
    path.write_text(json.dumps(content, indent=1, allow_nan=False) + "\n", encoding="utf-8")
