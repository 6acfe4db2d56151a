"""An artifact is verified by running it again: equal figures, named differences, and nothing written outside."""

import json
import pathlib
import shutil

import pytest
from click.testing import CliRunner

import scmsim
from scmsim import artifact, cli
from scmsim.artifact import claims, contents, recipe, rerun
from scmsim.artifact.claims import Figures
from scmsim.core import registry
from scmsim.core.errors import UsageError
from scmsim.sweep import config
from scmsim.workload import microbench

ROOT = pathlib.Path(__file__).parents[2]


def run(*words: object) -> tuple[int, str]:
    done = CliRunner().invoke(cli.main, [*map(str, words)])
    return done.exit_code, done.output


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A replay of a small stored trace with a parameter and a machine of the user's."""
    folder = tmp_path_factory.mktemp("run")
    trace = folder / "trace.parquet"
    assert run("synth", "microbench", "--total", "32KiB", "--unit", "4KiB", "-o", trace)[0] == 0
    shutil.copy(registry.path("machine", "i7-8700k"), folder / "mine.toml")
    words = ["--machine", folder / "mine.toml", "--set", "nova-cow.capacity=1GiB", "--footprints", "none", "--by", "op"]
    assert run("replay", trace, "--fs", "nova-cow", *words, "-o", folder / "r.json")[0] == 0
    return folder / "r.json"


@pytest.fixture
def packed(result: pathlib.Path, tmp_path: pathlib.Path) -> pathlib.Path:
    return artifact.make(result, tmp_path / "packed")


def index_of(folder: pathlib.Path) -> dict:
    return json.loads((folder / contents.INDEX).read_text())


def rewritten(folder: pathlib.Path, **changes: object) -> None:
    """Write the index again, as somebody does who changes an artifact on purpose."""
    index = {key: value for key, value in index_of(folder).items() if key not in ("files", "digest", "format")}
    (folder / contents.INDEX).unlink()
    contents.write_index(folder, {**index, **changes})


def test_an_artifact_contains_everything_that_its_command_reads(packed: pathlib.Path) -> None:
    names = {path.relative_to(packed).as_posix() for path in packed.rglob("*") if path.is_file()}
    inputs = {"experiment.toml", "inputs/trace.parquet", "inputs/mine.toml", "sources.json", "README.md"}
    assert names == {*inputs, "artifact.json", "expected/result.json", "expected/table.txt"}
    assert not [path for path in packed.parent.iterdir() if path.name.startswith(".")]


def test_a_second_run_gives_the_same_figures_and_writes_nothing_into_the_folder(packed: pathlib.Path) -> None:
    before = {path: path.read_bytes() for path in packed.rglob("*") if path.is_file()}
    found = artifact.verify(packed, quiet=True)
    assert found.verdict == "reproduced" and not found.versions and not found.sources and not found.notes
    assert found.counts["equal"] == len(found.claims) > 500
    assert {path: path.read_bytes() for path in packed.rglob("*") if path.is_file()} == before


def test_an_artifact_names_no_folder_of_the_machine_that_made_it(packed: pathlib.Path, result: pathlib.Path) -> None:
    for path in packed.rglob("*.*"):
        if path.is_file() and path.suffix != ".parquet" and path.name not in ("result.json", "table.txt"):
            assert str(result.parent) not in path.read_text()
    manifest = json.loads((packed / "expected/result.json").read_text())["manifest"]
    assert not {"host", "argv", "inputs", "replays", "costs"} & manifest.keys()


@pytest.mark.parametrize(
    "name", ["inputs/trace.parquet", "experiment.toml", "expected/result.json", "README.md", "sources.json"]
)
def test_a_flipped_byte_is_named_and_nothing_is_run(packed: pathlib.Path, name: str, monkeypatch) -> None:
    monkeypatch.setattr(rerun, "run", None)
    content = bytearray((packed / name).read_bytes())
    content[len(content) // 2] ^= 1
    (packed / name).write_bytes(content)
    code, text = run("artifact", "verify", packed)
    assert code == 1 and f"changed: {name}" in text and "nothing was run" in text


def test_a_changed_digit_of_the_index_is_named(packed: pathlib.Path) -> None:
    text = (packed / contents.INDEX).read_text()
    (packed / contents.INDEX).write_text(
        text.replace('"fences": [\n   "exact",\n   0.0', '"fences": [\n   "exact",\n   9.0')
    )
    assert (packed / contents.INDEX).read_text() != text
    assert artifact.verify(packed).changes.changed == [contents.INDEX]


def test_a_missing_file_is_named(packed: pathlib.Path) -> None:
    (packed / "inputs/trace.parquet").unlink()
    code, text = run("artifact", "verify", packed)
    assert code == 1 and "missing: inputs/trace.parquet" in text


def test_a_link_in_place_of_a_file_or_folder_is_a_change(packed: pathlib.Path, tmp_path: pathlib.Path) -> None:
    (packed / "inputs").rename(tmp_path / "elsewhere")
    (packed / "inputs").symlink_to(tmp_path / "elsewhere")
    assert artifact.verify(packed).changes.changed == ["inputs/mine.toml", "inputs/trace.parquet"]


def test_an_additional_file_is_mentioned_only(packed: pathlib.Path) -> None:
    (packed / "notes.txt").write_text("mine")
    code, text = run("artifact", "verify", packed, "--files")
    assert code == 0 and "not part of the artifact: notes.txt" in text and "files only" in text


def test_another_version_is_named_and_its_claims_are_checked(packed: pathlib.Path) -> None:
    sources = json.loads((packed / "sources.json").read_text())
    sources |= {"fs/nova/models.toml": "0", "jit/cache.py": "0"}
    (packed / "sources.json").write_text(json.dumps(sources))
    rewritten(packed, made={**index_of(packed)["made"], "scmsim": "0.0.1", "python": "3.9.0"})
    code, text = run("artifact", "verify", packed)
    assert code == 0 and f"scmsim {scmsim.__version__} here, 0.0.1 in the artifact" in text
    assert "2 of scmsim's files differ:\n  fs/nova/models.toml\n  jit/cache.py" in text
    assert "reproduced: " in text and "with other sources of scmsim (2 files differ)" in text


def test_a_claim_that_is_not_met_is_named(packed: pathlib.Path) -> None:
    expected = packed / "expected/result.json"
    table = json.loads(expected.read_text())
    table["results"][0]["counters"]["fences"] += 1
    table["results"][0]["counters"]["instructions"] *= 1.05
    table["results"][0]["counters"]["instructions"] = int(table["results"][0]["counters"]["instructions"])
    expected.write_text(json.dumps(table))
    rewritten(packed)
    code, text = run("artifact", "verify", packed)
    assert code == 1 and "not reproduced" in text and "1 within, 1 out" in text
    fences = table["results"][0]["counters"]["fences"]
    assert f": fences {fences - 1}, expected {fences}" in text


@pytest.mark.parametrize(
    "change, reason",
    [
        ({"command": {"file": "../experiment.toml", "costs": []}}, "not one that scmsim artifact make writes"),
        (
            {"command": {"file": "experiment.toml", "costs": ["/etc/passwd"]}},
            "not one that scmsim artifact make writes",
        ),
        ({"command": {"file": "-o", "costs": []}}, "not one that scmsim artifact make writes"),
        ({"kind": "perf"}, "is not the index of an artifact"),
        ({"result": "../../r.json"}, "is not the index of an artifact"),
        ({"claims": {"fences": 5}}, "is not the index of an artifact"),
    ],
)
def test_an_artifact_from_a_stranger_runs_no_other_command(packed: pathlib.Path, change: dict, reason: str) -> None:
    rewritten(packed, **change)
    with pytest.raises(UsageError, match=reason):
        artifact.verify(packed)


def test_an_experiment_that_would_write_is_refused(packed: pathlib.Path) -> None:
    file = packed / "experiment.toml"
    file.write_text('out = "x.json"\n' + file.read_text())
    rewritten(packed)
    with pytest.raises(UsageError, match="names a file to write"):
        artifact.verify(packed)


def test_python_looks_for_no_module_in_an_artifact(packed: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (packed / "click.py").write_text("raise SystemExit('code of the artifact ran')")
    monkeypatch.chdir(packed)
    assert artifact.verify(".", quiet=True).verdict == "reproduced"


@pytest.mark.parametrize("format_, reason", [(99, "has format 99, this scmsim reads 1"), ("x", "is not the index")])
def test_another_format_of_the_index_is_refused(packed: pathlib.Path, format_: object, reason: str) -> None:
    (packed / contents.INDEX).write_text(json.dumps({**index_of(packed), "format": format_}))
    with pytest.raises(UsageError, match=reason):
        artifact.verify(packed)


@pytest.mark.parametrize("content", ["{", "[]", "null", "[" * 100_000, "\ud800".encode("utf-16", "surrogatepass")])
def test_a_damaged_index_is_an_error_of_one_line(packed: pathlib.Path, content: str | bytes) -> None:
    (packed / contents.INDEX).write_bytes(content if isinstance(content, bytes) else content.encode())
    code, text = run("artifact", "verify", packed)
    assert code == 2 and text.count("\n") == 1 and "artifact.json" in text


def test_a_folder_that_is_not_empty_is_refused(result: pathlib.Path, tmp_path: pathlib.Path) -> None:
    (tmp_path / "kept.txt").write_text("mine")
    code, text = run("artifact", "make", result, "-o", tmp_path)
    assert code == 2 and "is not empty" in text and [path.name for path in tmp_path.iterdir()] == ["kept.txt"]


def test_an_empty_folder_is_filled(result: pathlib.Path, tmp_path: pathlib.Path) -> None:
    (tmp_path / "a").mkdir()
    assert run("artifact", "make", result, "-o", tmp_path / "a")[0] == 0
    assert artifact.verify(tmp_path / "a", run=False).verdict == "files only"


@pytest.mark.parametrize("target", ["nowhere/a", "r.json"])
def test_what_cannot_be_made_leaves_nothing(result: pathlib.Path, tmp_path: pathlib.Path, target: str) -> None:
    shutil.copy(result, tmp_path / "r.json")
    code, _ = run("artifact", "make", tmp_path / "r.json", "-o", tmp_path / target)
    assert code == 2 and [path.name for path in tmp_path.iterdir()] == ["r.json"]


def test_an_input_that_has_changed_is_refused_and_leaves_nothing(result: pathlib.Path, tmp_path: pathlib.Path) -> None:
    shutil.copytree(result.parent, tmp_path / "run")
    table = json.loads((tmp_path / "run/r.json").read_text().replace(str(result.parent), str(tmp_path / "run")))
    (tmp_path / "run/r.json").write_text(json.dumps(table))
    with (tmp_path / "run/trace.parquet").open("ab") as file:
        file.write(b"x")
    code, text = run("artifact", "make", tmp_path / "run/r.json", "-o", tmp_path / "a")
    assert code == 2 and "has changed since the result was computed" in text
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


@pytest.mark.parametrize(
    "change, reason",
    [
        ({"sources": "0"}, "was computed by other sources"),
        ({"replays": None}, "cannot be run again from its manifest"),
        ({"replays": [{"machine": {}, "paging": None, "medium": "nvdimm"}]}, "machine was a table of Python"),
    ],
)
def test_a_result_that_cannot_be_run_again_is_refused(
    result: pathlib.Path, tmp_path: pathlib.Path, change, reason
) -> None:
    table = json.loads(result.read_text())
    table["manifest"] |= change
    (tmp_path / "r.json").write_text(json.dumps(table))
    with pytest.raises(UsageError, match=reason):
        artifact.make(tmp_path / "r.json", tmp_path / "a")


@pytest.mark.slow
def test_a_sweep_is_packed_with_its_points(tmp_path: pathlib.Path) -> None:
    from scmsim.sweep import run as sweeps

    workload = 'workload.kind = "microbench"\nworkload.total = "16KiB"\nfootprints = "none"\n'
    (tmp_path / "s.toml").write_text(
        f'[fixed]\n{workload}[axes]\nfs = ["nova-cow"]\nworkload.unit = ["4KiB", "8KiB"]\n'
    )
    sweeps.run(config.load(tmp_path / "s.toml"), tmp_path / "out")
    folder = artifact.make(tmp_path / "out", tmp_path / "a")
    assert config.load(folder / "sweep.toml").points == config.load(tmp_path / "s.toml").points
    found = artifact.verify(folder, quiet=True)
    assert found.verdict == "reproduced" and found.counts["equal"] == len(found.claims)
    assert {claim.about for claim in found.claims} == {"workload.unit=4KiB", "workload.unit=8KiB"}


@pytest.mark.slow
def test_published_rows_are_packed_with_their_verdicts(tmp_path: pathlib.Path) -> None:
    """Rows of three bases are claims; SCMM-19, which --quick leaves out, is not."""
    rows = ("VSM-1", "SCMM-1", "SCMM-13", "SCMM-19")
    assert run("reproduce", "--quick", *rows, "-o", tmp_path / "r.json")[0] == 0
    folder = artifact.make(tmp_path / "r.json", tmp_path / "a")
    assert "each number may differ by 25 %" in (folder / "README.md").read_text()
    found = artifact.verify(folder, quiet=True)
    assert found.verdict == "reproduced" and found.counts["equal"] == 3
    bases = {claim.about: (claim.basis, claim.percent) for claim in found.claims}
    assert bases == {
        "VSM-1 write_amplification": ("exact", 0),
        "SCMM-1 time": ("shown", None),
        "SCMM-13 time": ("tolerance", 25),
    }


def row(simulated: object, verdict: str | None = "met", kind: str = "derived") -> dict:
    return {"id": "A-1", "metric": "time", "document": "vsm", "kind": kind, "simulated": simulated, "verdict": verdict}


@pytest.mark.parametrize(
    "packed, found, basis, verdict",
    [
        (row(2.0), row(2.0), "tolerance", "equal"),
        (row(2.0), row(2.4), "tolerance", "within"),
        (row(2.0), row(2.6), "tolerance", "out"),
        (row(2.0), row(2.1, "near"), "tolerance", "out"),
        (row([2.0, 4.0]), row([2.0, 4.1]), "tolerance", "within"),
        (row([2.0, 4.0]), row([2.0]), "tolerance", "out"),
        (row("90 % then 50 %"), row("91 % then 50 %"), "tolerance", "within"),
        (row("90 % then 50 %"), row("90 % then 95 %", "contradicted"), "tolerance", "out"),
        (row(2.0), row(None, None), "tolerance", "out"),
        (row(2.0), None, "tolerance", "out"),
        (row(512, kind="exact"), row(513, kind="exact"), "exact", "out"),
        (row("a; b", kind="exact"), row("a; b", kind="exact"), "exact", "equal"),
        (row("a; b", kind="exact"), row("a; c", kind="exact"), "exact", "out"),
        (row(2.0, None, "calibrated"), row(2.1, None, "calibrated"), "shown", "differs"),
        (row(2.0, None, "calibrated"), None, "shown", "differs"),
    ],
)
def test_a_row_keeps_its_verdict_and_its_figures(packed: dict, found: dict | None, basis: str, verdict: str) -> None:
    [claim] = claims.of_rows([packed], [found] if found else [], claims.of_reproduction())
    assert (claim.basis, claim.verdict) == (basis, verdict)


def test_a_row_that_was_not_run_is_not_a_claim() -> None:
    assert list(claims.of_rows([row(None, None)], [row(1.0)], claims.of_reproduction())) == []


def test_a_workload_replayed_from_python_can_be_packed(tmp_path: pathlib.Path) -> None:
    work = microbench.Workload("append", total=16384)
    scmsim.replay(work, "nova-cow", footprints="none").write(tmp_path / "r.json")
    assert 'kind = "microbench"' in (artifact.make(tmp_path / "r.json", tmp_path / "a") / "experiment.toml").read_text()


@pytest.mark.parametrize(
    "packed, found, verdict",
    [
        (100, 100, "equal"),
        (100, 109, "within"),
        (100, 111, "out"),
        (100, None, "out"),
        (0, 0.001, "within"),
        (0, 1, "out"),
    ],
)
def test_a_tolerance_is_a_share_of_the_packed_figure(packed: float, found: float | None, verdict: str) -> None:
    judged = {"instructions": ["tolerance", 10.0]}
    values = {} if found is None else {"instructions": found}
    one = claims.compared([Figures("a", {"instructions": packed}, 1)], [Figures("a", values, 1)], judged)
    assert [claim.verdict for claim in one] == [verdict]


def test_structure_is_exact_and_times_have_no_tolerance() -> None:
    assert {claims.basis(name)[0] for name in ("fences", "space_free_bytes", "media_bytes_256", "calls")} == {"exact"}
    assert claims.basis("instructions") == ("tolerance", 10) and claims.basis("dtlb_kernel_walks") == ("tolerance", 50)
    assert claims.basis("estimated_ns_per_call") == claims.basis("time_ns_walks") == ("shown", None)


@pytest.mark.parametrize("value", ['a"b\\c', "\x00\x7f\n", "ä€𝄞", 2**62, True, ["a", "b"], 1.5, "\u2028"])
def test_a_value_in_toml_reads_back(value: object) -> None:
    import tomllib

    assert tomllib.loads(recipe.toml({"a": value, "b.c": value})) == {"a": value, "b.c": value}


def test_the_digest_of_the_sources_is_the_same_in_a_wheel(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [name for name, _ in registry.source_files()]
    assert "fs/nova/models.toml" in names and not [name for name in names if name.startswith(("_configs", "traces/"))]
    (tmp_path / "_configs").mkdir()
    (tmp_path / "_configs" / "a.toml").write_text("")
    (tmp_path / "a.py").write_text("")
    monkeypatch.setattr(registry, "_roots", lambda: [tmp_path])
    monkeypatch.setattr(registry, "_ROOT", tmp_path)
    assert [name for name, _ in registry.source_files()] == ["a.py"]
