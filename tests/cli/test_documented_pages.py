"""The pages of docs/: the reference is that of the code, links lead somewhere, and examples do what the pages say."""

import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from scmsim import cli, config
from scmsim.config import schema

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
OF_SITE = ("_build", "jupyter_execute", "notebooks")  # what a build of the site leaves in docs/
WRITTEN = [page for page in sorted(DOCS.rglob("*.md")) if page.relative_to(DOCS).parts[0] not in OF_SITE]
PAGES = [ROOT / "README.md", *WRITTEN, ROOT / "traces" / "README.md"]
PRIVATE = (
    "to the bit", "no others beat", "costs 2x", "Nothing flows back", "a late call", "dearer", "Of the draw", "no file of accesses",
    "no news", "was begun", "whole or not at all", "goes on after", "leans on", "five documents", "pip install 'scmsim",
)  # fmt: skip


def load(name: str, path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)  # type: ignore[arg-type]
    sys.modules[name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)  # type: ignore[union-attr]
    return module


def blocks(page: str, language: str) -> list[str]:
    text = (DOCS / page).read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def test_the_reference_is_what_the_code_gives_now(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SCMSIM_PLUGINS", raising=False)
    code = "import json, reference; print(json.dumps(reference.pages()))"
    # a process of its own, because click keeps the help of a command as it was first made
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], cwd=DOCS, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    kept = {path.stem: path.read_text(encoding="utf-8").split() for path in (DOCS / "reference").glob("*.md")}
    made = {name: text.split() for name, text in json.loads(done.stdout).items()}
    old = sorted(name for name in kept.keys() | made.keys() if kept.get(name) != made.get(name))
    assert not old, f"out of date: {', '.join(old)}; run: python docs/reference.py"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: f"{page.parent.name}-{page.stem}")
def test_links_lead_to_files_of_the_repository(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s#]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
        if not target.startswith(("http:", "https:", "mailto:")):
            assert (page.parent / target).exists(), f"{page.name}: no file {target!r}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: f"{page.parent.name}-{page.stem}")
def test_pages_and_help_texts_use_the_terms_of_the_field(page: Path) -> None:
    text = " ".join(page.read_text(encoding="utf-8").split())
    assert not [phrase for phrase in PRIVATE if phrase in text]


def test_what_the_gate_runs_differently_is_still_in_the_documents() -> None:
    run = load("documents_run", ROOT / "tests" / "documents" / "run.py")
    found = [c.text for name in run.DOCUMENTS for c in run.commands(name, (ROOT / name).read_text(encoding="utf-8"))]
    assert len(found) > 40
    for rule in run.RULES:
        assert any(re.fullmatch(rule.pattern, text) for text in found), (
            f"no command matches {rule.pattern!r}; drop the rule"
        )


def test_every_page_is_in_the_index() -> None:
    linked = set(re.findall(r"\]\((\w[\w/-]*\.md)\)", (DOCS / "index.md").read_text(encoding="utf-8")))
    pages = {str(page.relative_to(DOCS)) for page in WRITTEN}
    written = {page for page in pages if not page.startswith("reference/")} - {"index.md"}
    assert written == {page for page in linked if not page.startswith("reference/")}


def test_the_experiment_page_has_every_key() -> None:
    text = (DOCS / "guide/experiments.md").read_text(encoding="utf-8")
    shown = set(re.findall(r"^\| `\[?(\w+)(?:\.NAME)?\]?` \|", text, re.MULTILINE))
    assert shown == schema.keys(ROOT).keys()


def test_the_experiments_of_the_page_load_and_its_mistakes_are_those(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mail.parquet").touch()
    *right, wrong = blocks("guide/experiments.md", "toml")
    for text in right:
        Path("experiment.toml").write_text(text)
        experiment = config.load(Path("experiment.toml"))
    assert len(right) == 2 and len(list(experiment.combinations())) == 2
    Path("experiment.toml").write_text(wrong)
    done = CliRunner().invoke(cli.main, ["check", "experiment.toml"])
    assert (done.exit_code, done.output) == (2, blocks("guide/experiments.md", "text")[0])
    assert CliRunner().invoke(cli.main, ["replay", "experiment.toml"]).exit_code == 2


def test_the_experiment_of_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("experiment.toml").write_text(blocks("guide/experiments.md", "toml")[1])
    done = CliRunner().invoke(cli.main, ["replay", "experiment.toml"])
    assert done.exit_code == 0, done.output
    assert Path("appends.json").exists()


def test_the_python_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    for block in blocks("guide/python.md", "python"):
        exec(compile(block, "docs/guide/python.md", "exec"), names)
    assert "did you mean 'ext4'?" in capsys.readouterr().out


def test_the_figures_of_the_tutorial_are_those_of_the_models() -> None:
    import scmsim

    text = " ".join((DOCS / "guide/tutorial.md").read_text(encoding="utf-8").split())
    runs = [
        scmsim.replay(ROOT / "traces/sqlite-load.parquet", fs="pmfs-2m", params={"pmfs-2m": {"data_path": path}}).runs[
            0
        ]
        for path in ("in-place", "cow")
    ]
    stored = [run.stored_bytes["data"] / 1e6 for run in runs]
    amplification = [run.metrics["write_amplification"] for run in runs]
    assert f"{stored[0]:.1f} MB. The rest of the write amplification of {amplification[0]:.1f}" in text
    assert f"it is {stored[1]:,.0f} MB and the write amplification {amplification[1]:.1f}" in text


@pytest.mark.slow
def test_the_readme_shows_what_the_demo_prints() -> None:
    import scmsim
    from scmsim.cli import demo

    result = scmsim.replay(ROOT / "traces" / demo.STORED, fs=demo.FILE_SYSTEMS, machine=demo.MACHINE)
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    shown = readme.partition("## What it prints")[2].partition("The TLB rows")[0]
    assert result.table().split() == shown.partition("\n\n")[2].split()


@pytest.mark.slow
def test_the_answers_in_the_readme_are_those_of_the_models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    readme = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    random = ["synth", "pattern", "--op", "overwrite", "--order", "random", "--file-size", "1GiB", "--calls", "20000"]
    commands = {
        "pmfs-2m has 95.9 times the stored bytes of nova-cow: zeroing 198,628 a call against 308.":
            ["replay", "traces/varmail.parquet", "--fs", "ext4-dax,nova-cow,pmfs-2m"],
        "nova-inplace on base-4k takes 19,959 page walks, nova-inplace on linux 38":
            ["replay", "random.parquet", "--fs", "nova-inplace", "--paging", "linux,base-4k", "--rows", "dTLB*,walk*,time*"],
        "byte 72 holds bytes never written": ["crash", "traces/git.parquet", "--fs", "nova-cow", "--ops", "26-26"],
    }  # fmt: skip
    runner = CliRunner()
    monkeypatch.chdir(tmp_path)
    Path("traces").symlink_to(ROOT / "traces")
    assert runner.invoke(cli.main, [*random, "-o", "random.parquet"]).exit_code == 0
    for answer, command in commands.items():
        given = command[:-1] + [f"'{command[-1]}'"] if "*" in command[-1] else command
        assert f"scmsim {' '.join(given)}" in readme and answer in readme
        assert answer in runner.invoke(cli.main, command).output
