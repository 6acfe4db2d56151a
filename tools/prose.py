"""Check the project's prose for words that it does not use, and name the usual word.

    python tools/prose.py [PATH ...] [--since REV] [--count]

Checked are docstrings, comments and the texts of raised errors in Python, comments and texts of several words in TOML, and Markdown
without code.  `--since` checks the subjects of the commits after a revision as well: at most 72 characters, imperative.  Without
paths: scmsim, tools, docs, README.md and CHANGELOG.md.  The exit code is 1 if there are findings, 2 for a wrong path or revision.
The check is a help for the writer: a sentence without a finding can still read badly.
"""

import argparse
import ast
import io
import pathlib
import re
import subprocess
import sys
import tokenize
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple

ROOT = pathlib.Path(__file__).parents[1]
DEFAULT = ("scmsim", "tools", "docs", "README.md", "CHANGELOG.md")
LONGEST = 72  # characters of a commit's subject

_THING = (
    r"(?:bits?|columns?|counters?|CPUID|data|entr(?:y|ies)|events?|fields?|files?|flags?|headers?|histor(?:y|ies)|kernels?|lines?|"
    r"literals?|logs?|manifests?|models?|outputs?|pages?|parameters?|presets?|profiles?|records?|results?|rows?|tables?|traces?|"
    r"values?)"
)
_END = r"(?=\s*(?:[.,;:)]|$))"  # of a clause
_PLACE = r"(?:above|at|behind|below|beside|between|first|for|in|last|next|on|there)"
# (pattern, usual word); a blank in a pattern matches any white space
_RULES = (
    (r"\bbehind\b(?! (?:the scenes|a pointer|pointers))", "after, end"),
    (r"\banew\b", "again"),
    (r"\bmend(?:s|ed|ing)?\b", "fix, fixed"),
    (r"\b(?:is|are|was|were) told\b(?! apart)", "receives, is recorded"),
    (rf"\b{_THING} (?:tells?|says?)\b(?! apart)", "reports, states, has the field"),
    (r"(?<!there\s)(?<!\bif\s)\b(?:is|are|was|were) no (?!longer|more|less|fewer|better|worse|larger|smaller|such)[a-z]+",
     "is not a"),
    (r"\b(?:array|inode|page|row|slot)'s words?\b", "field, flag, slot"),
    (rf"\bstands? {_PLACE}\b(?! the way)", "is, is stored, represents"),
    (r"\bas (?:it|they) stands?\b", "unchanged, current"),
    (r"\blies? (?:at|behind|beside|there)\b", "is at, starts at"),
    (r"\basks? for room\b", "reserves"),
    (r"\bmade of\b", "built from, consists of"),
    (r"\b(?:comes?|came) of\b", "results from"),
    (r"\bso (?:many|much|few) (?!that\b|of\b|as\b)(?:[a-z0-9]+ ){1,4}or more\b", "at least N"),
    (r"\b(?:by|in|of|with|to) so (?:many|few) [a-z]+s\b(?! that)", "N, this many"),
    (r"\ball (?:that|what) (?:is|are|was|were)\b", "everything, every"),
    (rf"\bas (?:it|they) (?:is|are|was|were){_END}", "unchanged"),
    (rf"\b(?:becomes?|gets?|is|are|was|were) so{_END}", "the condition, written out"),
    (r"\bthe package's own\b", "bundled"),
    (r"\bjudge[sd]? (?:by|cases?|from|it|on|that|them)\b", "test, tested on, test cases"),
    (r"\bheld out\b", "held-out (adjective), unseen"),
    (r"\bhad not seen\b", "unseen"),
)  # fmt: skip
RULES = tuple((re.compile(pattern.replace(" ", r"\s+"), re.I), usual) for pattern, usual in _RULES)

# file -> {words that are right there: reason}
ALLOWED: dict[str, dict[str, str]] = {
    "README.md": {"are no whole": "output of `scmsim crash`, quoted"},
    "docs/guide/report.md": {"judged by": "the title of a section of the report"},
}

# First words of subjects that are not imperative, besides words that end in -ed, -ing or -s.
_NOMINAL = frozenset(
    "a all an and are both by each every for from how in is it its more most new no not nothing now of on one only other that the "
    "their there they those to two what when where which who why with without".split()
)
# Verbs (imperative) with such an ending.
_VERBS = frozenset(
    "access address bias bring bypass canvas compress cross discuss embed exceed express feed focus guess miss need pass possess "
    "press proceed process read seed shed speed spring string stress succeed suppress toss".split()
)

# A text or a comment of TOML.
_TOML = re.compile(r'''""".*?"""|"(?:\\.|[^"\\\n])*"|'[^'\n]*'|#[^\n]*''', re.S)
_PROSE_WORDS = 4  # a text of fewer words is a name, a value or a label


class Text(NamedTuple):
    """A piece of prose and the line of the file at which it starts."""

    line: int
    text: str


class Finding(NamedTuple):
    """Words of a file, or of a commit, and the usual word."""

    where: str
    line: int
    words: str
    usual: str

    def __str__(self) -> str:
        place = f"{self.where}:{self.line}" if self.line else self.where
        return f"{place}: {self.words!r}: {self.usual}"


def of_python(source: str) -> Iterator[Text]:
    """Yield the docstrings, texts of raised errors and blocks of comments of a Python file."""
    lines = source.splitlines()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Raise) and node.exc is not None:
            for part in ast.walk(node.exc):
                if isinstance(part, ast.Constant) and isinstance(part.value, str):
                    yield Text(part.lineno, part.value.replace("\n", " "))
        body = getattr(node, "body", None)
        for one in body if isinstance(body, list) else ():
            # A string as a statement: a docstring, or the description of an attribute.
            if isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant) and isinstance(one.value.value, str):
                yield Text(one.lineno, "\n".join(lines[one.lineno - 1 : one.end_lineno]))
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    comments = (token for token in tokens if token.type == tokenize.COMMENT)
    yield from _joined((token.start[0], token.string, token.line.lstrip().startswith("#")) for token in comments)


def of_toml(source: str) -> Iterator[Text]:
    """Yield the comments and the texts of several words of a TOML file."""
    comments = []
    for match in _TOML.finditer(source):
        line = source.count("\n", 0, match.start()) + 1
        if match[0].startswith("#"):
            comments.append(
                (line, match[0], not source[source.rfind("\n", 0, match.start()) + 1 : match.start()].strip())
            )
        elif len(match[0].split()) >= _PROSE_WORDS:
            yield Text(line, match[0])
    yield from _joined(comments)


def _joined(comments: Iterable[tuple[int, str, bool]]) -> Iterator[Text]:
    """Yield comments (line, text, whether it is alone on its line); successive lines with nothing but a comment are one text."""
    block: list[str] = []
    first = last = 0
    for row, comment, alone in comments:
        if block and not (alone and row == last + 1):
            yield Text(first, "\n".join(block))
            block = []
        first = first if block else row
        block.append(comment.lstrip("#").strip())
        last = row if alone else 0
    if block:
        yield Text(first, "\n".join(block))


def of_markdown(source: str) -> Iterator[Text]:
    """Yield a Markdown file as one text, with code blocks, comments and targets of links blanked."""
    fenced, kept = False, []
    for line in source.splitlines():
        fence = line.lstrip().startswith(("```", "~~~"))
        kept.append("" if fenced or fence or re.match(r" {4,}(?![-*] |\d+\. )", line) else line)
        fenced ^= fence
    text = re.sub(r"<!--.*?-->", _blanked, "\n".join(kept), flags=re.S)
    yield Text(1, re.sub(r"(?<=\])\([^)\s]*\)", _blanked, text))


_READERS = {".py": of_python, ".toml": of_toml, ".md": of_markdown}


def _blanked(match: "re.Match[str]") -> str:
    """Return only the line breaks of a match, so that line numbers do not change."""
    return "\n" * match[0].count("\n")


def findings(text: Text, where: str) -> Iterator[Finding]:
    """Yield the words of a text that a rule names; inline code is not prose."""
    prose = re.sub(r"`[^`]*`", lambda match: "x" + _blanked(match), text.text)
    for pattern, usual in RULES:
        for match in pattern.finditer(prose):
            words = " ".join(match[0].split())
            if words.lower() not in ALLOWED.get(where, {}):
                yield Finding(where, text.line + prose.count("\n", 0, match.start()), words, usual)


def of_file(path: pathlib.Path, where: str) -> list[Finding]:
    """Return the findings of a Python, TOML or Markdown file, by line."""
    texts = _READERS.get(path.suffix, of_markdown)(path.read_text(encoding="utf-8"))
    return sorted((found for text in texts for found in findings(text, where)), key=lambda found: found.line)


def files(paths: Iterable[pathlib.Path]) -> Iterator[pathlib.Path]:
    """Yield the Python, TOML and Markdown files of files and folders."""
    for path in paths:
        if path.is_dir():
            yield from sorted(one for one in path.rglob("*") if one.suffix in _READERS)
        else:
            yield path


def of_subject(commit: str, subject: str) -> Iterator[Finding]:
    """Yield what is wrong with a commit's subject; a prefix such as "lab run: " may precede the verb."""
    if len(subject) > LONGEST:
        yield Finding(f"commit {commit}", 0, subject, f"at most {LONGEST} characters, not {len(subject)}")
    sentence = re.sub(r"^[\w./, -]{1,30}: ", "", subject)
    first = re.split(r"[^\w'-]", sentence, maxsplit=1)[0].lower()
    ends = re.search(r"(?:ed|ing|[^su]s)$", first) and first not in _VERBS
    if not first.isalpha() or first in _NOMINAL or ends:
        yield Finding(f"commit {commit}", 0, subject, "an imperative verb first, such as Fix or Report")


def of_commits(since: str) -> list[Finding]:
    """Return the findings in the subjects of the commits after a revision, merges excepted."""
    command = ["git", "-C", str(ROOT), "log", "--no-merges", "--format=%h %s", f"{since}..HEAD", "--"]
    log = subprocess.run(command, capture_output=True, text=True, check=False)
    if log.returncode:
        raise SystemExit(_wrong(log.stderr.strip().splitlines()[0]))
    found = []
    for line in log.stdout.splitlines():
        commit, _, subject = line.partition(" ")
        found += [*of_subject(commit, subject), *findings(Text(0, subject), f"commit {commit}")]
    return found


def folder(where: str) -> str:
    """Return the folder by which findings are counted: scmsim/fs, docs, commits."""
    parts = where.split("/")
    return "commits" if where.startswith("commit ") else "/".join(parts[: min(2, max(1, len(parts) - 1))])


def _wrong(message: str) -> int:
    print(f"prose.py: error: {message}", file=sys.stderr)
    return 2


def main(arguments: list[str] | None = None) -> int:
    """Print the findings, or their number by folder; return 1 if there are any."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("paths", nargs="*", type=pathlib.Path, help="files and folders")
    parser.add_argument("--since", metavar="REV", help="check the subjects of the commits after this revision, too")
    parser.add_argument("--count", action="store_true", help="print only the number of findings by folder")
    given = parser.parse_args(arguments)
    paths = given.paths or ([] if given.since else [ROOT / name for name in DEFAULT])
    if missing := [path for path in paths if not path.exists()]:
        return _wrong(f"no file or folder {str(missing[0])!r}; give paths of Python, TOML or Markdown files")
    found = []
    for path in map(pathlib.Path.resolve, files(paths)):
        found += of_file(path, path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else str(path))
    found += of_commits(given.since) if given.since else []
    if given.count:
        for name, count in sorted(Counter(folder(one.where) for one in found).items()):
            print(f"{count:6,} {name}")
    else:
        for one in found:
            print(one)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
