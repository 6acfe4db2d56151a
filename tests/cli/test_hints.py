"""Hints in error lines and help name commands and options that exist, and packages that can be installed."""

import ast
import re
import tomllib
from pathlib import Path

import click
import pytest

import scmsim
from scmsim import cli
from scmsim.core import extras

PACKAGE = Path(scmsim.__file__).parent
# Options of perf, strace, valgrind, ndctl and other programs, and of Python's and click's own.
OTHERS = set(
    "--align --all --all-kernel --all-user --cap-add --child-silent-after-fork --control --cpunodebind "
    "--directory --filter --force --fsys-tarfile --governor --help --log-file --map --match-tag --membind "
    "--metric-only --namespaces --no-install-recommends --ns --output --parents --percore-show-thread "
    "--probe --reconfig --seccomp-bpf --show-lost-events --show-mmap-events --sparse --stats --tool "
    "--topdown --trace-children --trace-mem --trace-sched --trace-syscalls --yes "
    # darshan-parser, db_bench, mdtest and what starts it
    "--benchmarks --compression --duration --file --np --ntasks --num --perf --random-seed --reads --use --writes ".split()
)
SENTENCES = {"scmsim reads", "scmsim to read"}


def commands(command: click.Command, path: str = "") -> dict[str, set[str]]:
    """Each command line's beginning, and its options."""
    found = {path: {option for part in command.params for option in (*part.opts, *part.secondary_opts)}}
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            child = command.get_command(context, name)
            assert child is not None
            found |= commands(child, f"{path} {name}".strip())
    return found


def texts() -> list[tuple[Path, str]]:
    """Every text of the package that is not a docstring."""
    found = []
    for path in PACKAGE.rglob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        docs = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs:
                found.append((path, node.value))
    return found


def test_every_option_and_command_in_a_hint_exists() -> None:
    known = commands(cli.main)
    options = set().union(*known.values()) | OTHERS
    wrong = []
    for path, text in texts():
        wrong += [
            (path.name, option) for option in re.findall(r"(?<![\w-])--[a-z][a-z-]+", text) if option not in options
        ]
        for words in re.findall(r"scmsim ([a-z-]+(?: [a-z-]+)?)", text):
            if f"scmsim {words}" not in SENTENCES and not {words, words.split()[0]} & known.keys():
                wrong.append((path.name, words))
    assert wrong == []


def test_what_an_extra_needs_is_named_without_a_checkout(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert extras.install("report") == "in the checkout with: pip install -e '.[report]'"
    monkeypatch.setattr(extras, "_ROOT", tmp_path)
    declared = tomllib.loads((PACKAGE.parent / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    for extra in ("report", "cluster", "darshan"):
        names = [re.match(r"[\w-]+", requirement)[0] for requirement in declared[extra]]  # type: ignore[index]
        assert extras.install(extra) in (f"with: pip install {' '.join(names)}", f"with: pip install 'scmsim[{extra}]'")


def test_no_hint_speaks_of_a_checkout_but_by_the_extra() -> None:
    assert {path.name for path, text in texts() if "pip install -e" in text} == {"extras.py"}
