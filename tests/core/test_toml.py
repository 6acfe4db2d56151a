"""TOML that no reader is to fail on, in every command that takes a file of it: one line, exit code 2."""

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from scmsim import cli
from scmsim.core import toml
from scmsim.core.toml import ConfigError

DEEP = {
    "unclosed": "a = 1\nb = " + "[" * 20_000,
    "lists": "a = 1\nb = " + "[" * 40 + "]" * 40,
    "keys": "a = 1\nb" + ".b" * 40 + " = 1",
}
COMMANDS = (
    "check",
    "replay",
    "replay quickstart --machine",
    "replay quickstart --costs",
    "sweep -o out",
    "perf run -o out",
    "lab run -o out",
    "lab run smoke -o out --systems",
)


def run(*args: str) -> Result:
    return CliRunner().invoke(cli.main, list(args))


@pytest.mark.parametrize("text", DEEP.values(), ids=DEEP)
@pytest.mark.parametrize("command", COMMANDS)
def test_deep_toml_is_one_line(command: str, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "deep.toml").write_text(text)
    result = run(*command.split(), "deep.toml")
    assert result.exit_code == 2 and result.output.endswith("deep.toml:2: nested more than 32 deep; flatten it\n")
    assert result.output.count("\n") == 1 and [file.name for file in tmp_path.iterdir()] == ["deep.toml"]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"a = " + b"9" * 5000, ":1: not TOML: exceeds the limit "),
        (b"a = 1\nb = \xff", ":2: not UTF-8 text; save the file as UTF-8"),
        (b"a = 1\nb = ", ":2: not TOML: invalid value"),
        (b"a = 1\na = 2\n", ":2: not TOML: cannot overwrite a value"),
    ],
)
def test_what_is_no_toml_is_told_with_its_line(content: bytes, said: str, tmp_path: Path) -> None:
    file = tmp_path / "x.toml"
    file.write_bytes(content)
    with pytest.raises(ConfigError) as raised:
        toml.read(file)
    assert str(raised.value).startswith(f"{file}{said}") and "\n" not in str(raised.value)
