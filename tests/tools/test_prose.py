"""The prose check: which texts it reads, which words it finds and where, and its exit codes."""

import pathlib
import subprocess

import pytest

from tools import prose


def words(text: str) -> list[str]:
    """Return the words that the rules find in a text."""
    return [found.words for found in prose.findings(prose.Text(1, text), "x.py")]


def lines(source: str) -> dict[int, str]:
    """Return the words found in a Python file, by line."""
    return {found.line: found.words for text in prose.of_python(source) for found in prose.findings(text, "x.py")}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("The bytes behind the last page.", "behind"),
        ("The table is made anew.", "anew"),
        ("What mends it.", "mends"),
        ("A writer is told the size.", "is told"),
        ("The header says how many.", "header says"),
        ("A row that is no event.", "is no event"),
        ("A page's word.", "page's word"),
        ("What stands for a file.", "stands for"),
        ("The table as it stands now.", "as it stands"),
        ("The page lies at the end.", "lies at"),
        ("A call asks for room.", "asks for room"),
        ("A set is made of rows.", "made of"),
        ("An error comes of it.", "comes of"),
        ("So many inodes or more were changed.", "So many inodes or more"),
        ("In pieces of so many bytes.", "of so many bytes"),
        ("All that is known of it.", "All that is"),
        ("The file stays as it was.", "as it was"),
        ("Make it dirty; whether it is so.", "is so"),
        ("The package's own traces.", "The package's own"),
        ("The model is judged on 50 cases.", "judged on"),
        ("50 cases were held out.", "held out"),
        ("Cases that it had not seen.", "had not seen"),
    ],
)
def test_words_of_the_table_are_found(text: str, found: str) -> None:
    assert words(text) == [found]


@pytest.mark.parametrize(
    "text",
    [
        "There is no page; the file is no longer open.",
        "The names tell files apart.",
        "A held-out case stands out.",
        "So many files that the table grows.",
        "The entry becomes part of the page as it is read.",
        "Amend the commit; it is so large that it fails.",
        "The paper says that a write is a copy.",
    ],
)
def test_usual_words_are_not(text: str) -> None:
    assert words(text) == []


def test_inline_code_is_not_prose() -> None:
    assert words("Return the calls in `[first, behind)`, see `mend`.") == []


def test_a_sentence_may_wrap() -> None:
    text = prose.Text(10, "Note that so many\n    inodes or more were changed,\n    not that they were made anew.")
    assert [(found.line, found.words) for found in prose.findings(text, "x.py")] == [
        (12, "anew"),
        (10, "so many inodes or more"),
    ]


SOURCE = '''"""Make it

anew."""
NAME = "made anew"  # a string is not prose, but this is made of words


class Record:
    """A record."""

    field: int
    """Its file lies at the end."""


def run(name):
    # The last page, and what is
    # behind it.
    if not name:
        raise ValueError(f"{name} is no name; give another")
    return "behind"
'''


def test_python_texts_are_docstrings_comments_and_errors() -> None:
    assert lines(SOURCE) == {3: "anew", 4: "made of", 11: "lies at", 16: "behind", 18: "is no name"}


def test_markdown_without_code() -> None:
    source = "Made anew.\n\n    scmsim behind\n\n```\nbehind\n```\n[a link](behind.md) `behind`\n- an item\n    - behind it\n"
    found = [found for text in prose.of_markdown(source) for found in prose.findings(text, "x.md")]
    assert sorted((one.line, one.words) for one in found) == [(1, "anew"), (10, "behind")]


TABLE = '''# The last page, and what is
# behind it.
summary = "a table made of rows, # no comment"
name = "made of"  # too short; this one is made anew
notes = ["one of a few words", "a page that lies at the end"]
long = """Some words on more than one line,
and the file stays as it was."""
'''


def test_toml_texts_are_comments_and_texts_of_several_words() -> None:
    found = [found for text in prose.of_toml(TABLE) for found in prose.findings(text, "x.toml")]
    assert [(one.line, one.words) for one in sorted(found, key=lambda one: one.line)] == [
        (2, "behind"),
        (3, "made of"),
        (4, "anew"),
        (5, "lies at"),
        (7, "as it was"),
    ]


@pytest.mark.parametrize(
    "subject",
    [
        "Fix the size of a page",
        "lab run: report short writes as short writes",
        "Process rows; pass them on",
        "Bring back the table",
        "Address two findings",
    ],
)
def test_imperative_subjects(subject: str) -> None:
    assert list(prose.of_subject("1234567", subject)) == []


@pytest.mark.parametrize(
    "subject",
    [
        "What an mmap costs",
        "docs: those that had lived",
        "Fixed the size of a page",
        "Adds a table",
        "tests: a name that is taken",
        "`scmsim lab run`: a short write is one",
    ],
)
def test_other_subjects(subject: str) -> None:
    (found,) = prose.of_subject("1234567", subject)
    assert "imperative" in found.usual and found.where == "commit 1234567"


def test_a_long_subject() -> None:
    (found,) = prose.of_subject("1234567", "Fix " + "a" * 69)
    assert found.usual == "at most 72 characters, not 73"


def test_commits_since_a_revision(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run([*git, "init", "-q"], check=True)
    for subject in ("What was there before", "Fix a page", "Make a table anew"):
        subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", subject], check=True)
    monkeypatch.setattr(prose, "ROOT", tmp_path)
    assert [found.words for found in prose.of_commits("HEAD~2")] == ["anew"]
    with pytest.raises(SystemExit) as error:
        prose.of_commits("no-such-revision")
    assert error.value.code == 2


def test_exit_codes_and_output(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    good, bad = tmp_path / "good.md", tmp_path / "bad.md"
    good.write_text("All is well.\n")
    bad.write_text("The page\nlies at 0.\n")
    assert prose.main([str(good)]) == 0
    assert prose.main([str(tmp_path)]) == 1
    assert capsys.readouterr().out == f"{bad}:2: 'lies at': is at, starts at\n"
    assert prose.main([str(bad), "--count"]) == 1
    assert capsys.readouterr().out.split()[0] == "1"
    assert prose.main([str(tmp_path / "none.md")]) == 2
    assert "none.md" in capsys.readouterr().err


def test_allowed_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prose, "ALLOWED", {"x.py": {"behind": "a proxy is in front"}})
    assert words("Behind a proxy, made anew.") == ["anew"]


def test_allowed_words_have_a_reason_and_a_file() -> None:
    for where, allowed in prose.ALLOWED.items():
        assert (prose.ROOT / where).exists() and all(allowed.values())
