"""A kind is a folder, a plug-in is one file: what every file must say about itself."""

import gc
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from scmsim.core import registry
from scmsim.core.errors import UnknownName, UsageError
from scmsim.core.units import parse_param

PLUGINS = [(kind, name) for kind in registry.KINDS for name in registry.names(kind)]
MODULES = [(kind, name) for kind, name in PLUGINS if registry.KINDS[kind][1] == ".py"]


@pytest.mark.parametrize(("kind", "name"), PLUGINS)
def test_every_plugin_has_a_summary_of_one_line(kind: str, name: str) -> None:
    summary = registry.literals(kind, name).get("SUMMARY", "")
    assert summary and "\n" not in summary and not summary.endswith(".")


@pytest.mark.parametrize(("kind", "name"), MODULES)
def test_every_parameter_has_a_default_of_its_unit_and_a_meaning(kind: str, name: str) -> None:
    for parameter, (default, unit, meaning) in registry.literals(kind, name).get("PARAMS", {}).items():
        assert parameter.isidentifier() and meaning
        assert str(parse_param(default, unit))[:1] != "-"


@pytest.mark.parametrize(("kind", "name"), MODULES)
def test_every_module_defines_what_its_kind_requires(kind: str, name: str) -> None:
    module = registry.load(kind, name)
    if registry.path(kind, name).suffix == ".toml":  # a row of a family
        assert all(hasattr(module, attribute) for attribute in registry.KINDS[kind][2])
        return
    assert set(re.findall(r"[^-]+", name)) <= set(re.findall(r"[^._]+", module.__name__))


def test_sources_follow_tables_and_footprints(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_ROOT", tmp_path)
    found = set()
    for name in ("a.py", "a.toml", "footprint/data/5.10/tmpfs.npz", "notes.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        for content in ("1", "2"):
            (tmp_path / name).write_text(content)
            found.add(registry.sources.__wrapped__())
    assert len(found) == 6  # the last name counts for nothing


def test_a_module_that_lacks_something_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    folder, suffix, required = registry.KINDS["workload"]
    monkeypatch.setitem(registry.KINDS, "workload", (folder, suffix, (*required, "nonsense")))
    with pytest.raises(UsageError, match="a workload plug-in must define nonsense"):
        registry.load("workload", "microbench")


def test_unknown_names_say_the_nearest() -> None:
    with pytest.raises(UnknownName, match="no kind named 'fz'; .*choose from fs, "):
        registry.names("fz")
    with pytest.raises(UnknownName, match="no file system named 'nova-cwo'; did you mean 'nova-cow'"):
        registry.path("fs", "nova-cwo")


def test_files_beginning_with_an_underscore_are_no_plugins() -> None:
    assert not [name for _, name in PLUGINS if name.startswith(("-", "_"))]


def test_listing_imports_no_plugin() -> None:
    code = (
        "import sys; from scmsim.core import registry\n"
        "for kind in registry.KINDS:\n"
        "    for name in registry.names(kind): registry.literals(kind, name)\n"
        "print([m for m in sys.modules if m.startswith('scmsim.') and not m.startswith('scmsim.core')])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_several_threads_read_literals_at_once() -> None:
    """CPython 3.11 counts the nested nodes of all threads together; a garbage collection within ast.parse lets others run."""

    def others_run(phase: str, info: dict[str, int]) -> None:
        for _ in range(200):
            pass

    files = [registry.path(kind, name) for kind in ("workload", "format") for name in registry.names(kind)]
    interval = sys.getswitchinterval()
    gc.callbacks.append(others_run)
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(3) as pool:
            found = list(pool.map(registry._assigned, files * 3))
    finally:
        sys.setswitchinterval(interval)
        gc.callbacks.remove(others_run)
    assert found == [registry._assigned(file) for file in files] * 3
