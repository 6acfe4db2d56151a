"""Families of file systems: what a row says, what stands above it, and every mistake with its line."""

import pathlib

import pytest

from scmsim.core import family, registry, signature, toml
from scmsim.core.errors import UsageError

GOOD = """source = "a paper"
parameters = ["capacity", "mode"]
page_bytes = 4096

[parameter]
mode = ["plain", "plain|fancy", "how"]

[variant]
table = "costs"

[model.one]
summary = "the first"
by.mode = { plain = { shift = 9 }, fancy = { shift = 10 } }

[model.two-b]
summary = "the second"
page_bytes = 512
parameters = ["mode"]
parameter.mode = ["fancy", "plain|fancy", "how else"]
variant = { shift = 12 }
"""


def write(folder: pathlib.Path, text: str = GOOD) -> pathlib.Path:
    file = folder / "models.toml"
    file.write_text(text)
    return file


def test_a_row_has_what_stands_above_it_unless_it_says_otherwise(tmp_path: pathlib.Path) -> None:
    file = write(tmp_path)
    one, two = (family.literals(file, name) for name in ("one", "two-b"))
    capacity = ("64GiB", "bytes", "size of the persistent-memory device")  # of fs/parameters.toml
    assert one["PARAMS"] == {"capacity": capacity, "mode": ("plain", "plain|fancy", "how")}
    assert (one["PAGE_BYTES"], two["PAGE_BYTES"], two["SOURCE"]) == (4096, 512, "a paper")
    assert two["PARAMS"] == {"mode": ("fancy", "plain|fancy", "how else")}


@pytest.mark.parametrize(
    ("name", "mode", "given"),
    [
        ("one", "plain", {"table": "costs", "shift": 9}),
        ("one", "fancy", {"table": "costs", "shift": 10}),
        ("two-b", "plain", {"table": "costs", "shift": 12}),
    ],
)
def test_start_is_given_the_variant_of_the_row_and_of_its_parameters(
    tmp_path: pathlib.Path, name: str, mode: str, given: dict[str, object]
) -> None:
    class Code:
        emit = space = SITES = None

        @staticmethod
        def start(params: object, files: object, **variant: object) -> object:
            return variant

    assert family.bind(write(tmp_path), name, lambda module: Code).start({"mode": mode}, None) == given


def test_names_are_read_from_the_headers_and_are_those_of_the_table() -> None:
    files = {registry.path("fs", name) for name in registry.names("fs")}
    assert len(files) > 10
    for file in files:
        assert family.names(file) == list(toml.read(file)[1]["model"])


def test_a_parameter_is_declared_once() -> None:
    """Neither by two rows of a file in the same words, nor as fs/parameters.toml has it."""
    shared = toml.read(family.SHARED)[1]
    for file in {registry.path("fs", name) for name in registry.names("fs")}:
        found = toml.read(file)[1]
        tables = [found.get("parameter", {}), *(row.get("parameter", {}) for row in found["model"].values())]
        declared = [(name, *declaration) for table in tables for name, declaration in table.items()]
        assert len(declared) == len(set(declared)), file
        assert not {name for name, *declaration in declared if shared.get(name) == declaration}, file


BAD = """sauce = "a paper"
parameters = ["capacity", "modus"]

[parameter]
mode = ["plain", "fancy"]
depth = ["deep", "int", "how deep"]

[code]
emit = "emit"
start = 3

[model.One]
page_bytes = "4KiB"
summary = "two\\nlines"

[model.two]
parameters = ["depth", "mode"]
by.width = { a = { shift = 9 } }
variant = { shift = [1] }
"""


def test_every_mistake_is_told_at_once_with_its_line(tmp_path: pathlib.Path) -> None:
    with pytest.raises(toml.ConfigError) as caught:
        family.literals(write(tmp_path, BAD), "two")
    told = [line.split(":", 1)[1].partition(" choose from")[0] for line in str(caught.value).splitlines()]
    # the keys to choose from make the line so long that a long path shortens its middle
    assert told[0].startswith("1: sauce: no k") and told[0].endswith("'source'?")
    place = 'must be "file.name" in this folder or a full path such as "scmsim.fs.nova.operations.emit"'
    assert told[1:] == [
        "2: parameters.1: no parameter named 'modus'; did you mean 'mode'?",
        '5: parameter.mode: must be ["default", "unit", "meaning"]',
        "6: parameter.depth: 'deep' is not a whole number",
        f"9: code.emit: {place}, not 'emit'",
        f"10: code.start: {place}, not 3",
        "12: model.One: must be lower-case words joined by dashes",
        "12: model.One.source: is missing; say where it is described",
        "13: model.One.page_bytes: must be a whole number from 1 to 1099511627776, not '4KiB'",
        "14: model.One.summary: must be one line that does not end with a full stop",
        "16: model.two.source: is missing; say where it is described",
        "16: model.two.summary: is missing; say in one line what it is",
        "18: model.two.by.width: no parameter of this row named 'width'; did you mean 'depth'?",
        "19: model.two.variant.shift: must be a whole number, a word, true or false",
    ]


STATE = """def start(
    params: dict, files: Files, *, table: str, shift: int, dax: bool = False
) -> State:
    '''Return a state.'''
"""


@pytest.mark.parametrize(
    ("old", "new", "line", "problem"),
    [
        ("parameter.mode = [\"fancy", "parameter.mod = [\"fancy", 19,
         "model.two-b.parameter.mod: no parameter of this row named 'mod'; did you mean 'mode'?"),
        ("[parameter]\n", "[parameter]\nmodes = [\"1\", \"units\", \"x\"]\n", 6,
         "parameter.modes: no row has it in its parameters; no parameter named 'modes'; did you mean 'mode'?"),
        ("variant = { shift", "variant = { shifts", 20,
         "model.two-b.variant.shifts: no argument of start() named 'shifts'; did you mean 'shift'?"),
        ("variant = { shift = 12 }", "", 0, "model.two-b.variant.shift: is missing; start() needs it"),
        ("plain = { shift", "plain = { shifft", 13,
         "model.one.by.mode.plain.shifft: no argument of start() named 'shifft'; did you mean 'shift'?"),
        ("plain = { shift = 9 }", "plain = { dax = true }", 0, "model.one.variant.shift: is missing; start() needs it"),
        ("table = \"costs\"", "tabel = \"costs\"", 9,
         "variant.tabel: no argument of start() named 'tabel'; did you mean 'table'?"),
        ("shift = 12", "shift = \"12\"", 20, "model.two-b.variant.shift: must be a whole number, not '12'"),
        ("shift = 12", "shift = true", 20, "model.two-b.variant.shift: must be a whole number, not true"),
        ("shift = 12", "shift = 12, dax = 1", 20, "model.two-b.variant.dax: must be true or false, not 1"),
        ("table = \"costs\"", "table = 3", 9, "variant.table: must be text in quotes, not 3"),
    ],
)  # fmt: skip
def test_a_key_that_no_code_takes_is_a_mistake_of_the_table(
    tmp_path: pathlib.Path, old: str, new: str, line: int, problem: str
) -> None:
    (tmp_path / "state.py").write_text(STATE)
    family.check(write(tmp_path))  # as it is, it has none
    assert GOOD.count(old) == 1
    with pytest.raises(toml.ConfigError) as caught:
        family.check(write(tmp_path, GOOD.replace(old, new)))
    assert f"{line or ''}" in str(caught.value) and problem in str(caught.value)
    assert not line or f":{line}: {problem}" in str(caught.value)


@pytest.mark.parametrize(
    "code", ["def start(params, files, **variant):\n    pass\n", "from other import start\n", "def start(\n", "\0"]
)
def test_code_whose_arguments_are_unknown_takes_any(tmp_path: pathlib.Path, code: str) -> None:
    (tmp_path / "state.py").write_text(code)
    family.check(write(tmp_path))


def test_every_bundled_start_is_found() -> None:
    """Else the keys of its variants would not be checked."""
    for name in registry.names("fs"):
        file = registry.path("fs", name)
        if file.name == family.TABLE:
            assert signature.arguments(file, family._rows(file)[name]["code"]["start"]) is not None, name


def test_code_that_needs_a_parameter_which_its_row_does_not_name(tmp_path: pathlib.Path) -> None:
    class Code:
        emit = space = SITES = None

        @staticmethod
        def start(params: dict[str, object], files: object, **variant: object) -> object:
            return params["journal"]

    started = family.bind(write(tmp_path), "one", lambda module: Code).start
    with pytest.raises(
        UsageError, match="the model's code needs the parameter 'journal'; add it to 'parameters' of the model's row"
    ):
        started({"mode": "plain"}, None)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('locks = ["inod"]\n', "no lock named 'inod'"),
        ('locks = ["mmapp"]\n', "no lock named 'mmapp'; did you mean 'mmap'?"),
        ('lock.inode = { of = "file", calls = ["write"], source = "a.c" }\n', "lock.inode: no row has it in its locks"),
        ('locks = ["i"]\nlock.i = { of = "filo", calls = ["write"], source = "a.c" }\n',
         "lock.i.of: no scope of a lock named 'filo'; did you mean 'file'?"),
        ('locks = ["i"]\nlock.i = { of = "file", calls = ["wirte"], source = "a.c" }\n',
         "lock.i.calls.0: no"),
        ('locks = ["i"]\nlock.i = { of = "file", calls = ["write"] }\n', "lock.i.source: is missing; say where it is taken"),
        ('locks = ["i"]\nlock.i = { of = "file", calls = ["write"], source = "a.c", sites = ["j"], held_ns = 9 }\n',
         "lock.i: has both held_ns and sites"),
        ('locks = ["i"]\nlock.i = { of = "file", calls = ["write"], source = "a.c", share = 0.5 }\n',
         "lock.i: has a share but no sites; name the sites"),
        ('locks = ["i"]\nlock.i = { of = "file", calls = ["write"], source = "a.c", sites = ["j"], share = { read = 0.5 } }\n',
         "lock.i: share must have a number for each of its calls, and for no other"),
        ('locks = ["i"]\nlock.i = { of = "file", calls = ["write"], source = "a.c", sites = ["j"], share = 1.5 }\n',
         "lock.i.share: "),
    ],
)  # fmt: skip
def test_locks_are_checked(tmp_path: pathlib.Path, text: str, problem: str) -> None:
    with pytest.raises(toml.ConfigError) as caught:
        family.check(write(tmp_path, text + GOOD))
    assert problem in str(caught.value)


def test_a_row_has_the_locks_that_it_names(tmp_path: pathlib.Path) -> None:
    text = GOOD.replace("page_bytes = 512", "page_bytes = 512\nlocks = []")
    lock = 'locks = ["mmap", "i"]\nlock.i = { of = "file", calls = ["write"], source = "a.c" }\n'
    file = write(tmp_path, lock + text)
    assert family.literals(file, "two-b")["LOCKS"] == {}  # none, which is not the same as not declared
    assert [*family.literals(file, "one")["LOCKS"]] == ["mmap", "i"]
    assert "LOCKS" not in registry.literals("fs", "vsm")


def test_a_value_of_a_choice_without_a_table(tmp_path: pathlib.Path) -> None:
    text = GOOD.replace(", fancy = { shift = 10 }", "")
    with pytest.raises(UsageError, match=":13: model.one.by.mode: must have a table for each of plain, fancy"):
        family.literals(write(tmp_path, text), "one")
