"""Runs every command of the documents below as written, in a fresh clone: one line a command, exit code 1 if one fails.

    python tests/documents/run.py FOLDER [--python /usr/bin/python3]

FOLDER must be empty or missing; it gets the clone, its environment (made by --python) and a cache of its own.  The commands
run in order and share a shell's state: the working folder and the variables.  A command that two documents have is run
once.  What is not run as written, or may leave with another code than 0, stands in RULES with the reason.
"""

import argparse
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

ROOT = pathlib.Path(__file__).parents[2]
DOCUMENTS = ("docs/guide/tutorial.md", "README.md", "docs/guide/llm.md")  # the tutorial makes the clone
# first word of a block of commands; the other blocks show output
COMMANDS = ("git", "make", "source", "scmsim", "strace", "pip")
LIMIT = 900  # seconds a command


@dataclass(frozen=True)
class Rule:
    """What differs for the commands that `pattern` matches whole."""

    pattern: str
    reason: str
    instead: str | None = None
    codes: tuple[int, ...] = (0,)
    needs: str | None = None  # a program without which the command is skipped


RULES = (
    Rule(r"git clone <repository> .*", "the repository is this checkout", f"git clone -q {ROOT} scmsim && cd scmsim"),
    Rule(r"make test", "the gate runs the whole suite in a step of its own", "make --dry-run test"),
    Rule(r"scmsim crash traces/git.parquet .*", "1: a guarantee is broken", codes=(1,)),
    Rule(r"scmsim sweep sweep-thesis .*", "6 minutes", "scmsim sweep sweep-thesis --dry-run -o thesis"),
    Rule(r"pip install .* sphinx .*", "a warning fails", "pip install -q -e '.[docs]' && python -m sphinx -q -W docs docs/_build"),
    Rule(r"scmsim perf check", "3 where perf is missing or not permitted", codes=(0, 3)),
    Rule(
        r"scmsim perf run perf-smoke -o measured",
        "no events of a PMU on most virtual machines: made-up ones, which compare as measured ones do",
        "scmsim perf run perf-smoke --backend fake -o measured",
        needs="perf",
    ),
    Rule(r"scmsim compare simulated measured .*", "1 where a figure is out of its tolerance", codes=(0, 1), needs="perf"),
    Rule(r"scmsim sweep measured/simulate.toml .*", "perf run makes the file", needs="perf"),
    Rule(r"scmsim capture .*|strace .*", "traces with strace", needs="strace"),
    Rule(r"scmsim lab setup --apply|scmsim lab run .*|scmsim compare sim.json lab .*", "installed by apt as root", needs="apt-get"),
)  # fmt: skip

PROGRAM = """#!/bin/sh
# stands for the reader's own program: creates, writes, syncs, reads, renames and deletes files below $1
mkdir -p "$1"
for i in 1 2 3 4 5 6 7 8; do
  dd if=/dev/zero of="$1/$i" bs=5000 count=4 conv=fsync 2>/dev/null
  dd if=/dev/zero of="$1/$i" bs=1000 seek=3 count=2 conv=notrunc 2>/dev/null
  cat "$1/$i" >>"$1/all"
  mv "$1/$i" "$1/new-$i"
done
rm "$1/new-1"
"""


@dataclass(frozen=True)
class Command:
    document: str
    line: int
    text: str


def commands(document: str, text: str) -> Iterator[Command]:
    """The commands of the indented blocks, and each block of Python as one command."""
    python: list[str] | None = None
    block = ""  # first word of the block
    for number, line in enumerate(text.splitlines(), 1):
        if python is not None:
            if line.startswith("```"):
                yield Command(document, number, "python - <<'END'\n" + "\n".join(python) + "\nEND")
                python = None
            else:
                python.append(line)
        elif line.startswith("```python"):
            python = []
        elif not line.startswith("    "):
            block = ""
        else:
            block = block or line.split()[0]
            if block in COMMANDS:
                yield Command(document, number, re.sub(r"\s+# .*", "", line).strip())


class Shell:
    """Runs commands one after the other; each finds the folder and the variables that the one before left."""

    def __init__(self, folder: pathlib.Path, python: str) -> None:
        self.folder, self.cwd = folder, folder
        self.env = {**os.environ, "PYTHON": python, "XDG_CACHE_HOME": str(folder / "cache")}
        for name in ("PYTHONPATH", "VIRTUAL_ENV"):
            self.env.pop(name, None)

    def run(self, text: str) -> tuple[int, str]:
        """(Exit code, what was printed); 124 after LIMIT seconds."""
        state, log = self.folder / "state", self.folder / "log"
        state.unlink(missing_ok=True)
        keep = f"import json, os; json.dump([os.getcwd(), dict(os.environ)], open({str(state)!r}, 'w'))"
        script = f'set -o pipefail\n{text}\ncode=$?\n"$PYTHON" -c "{keep}"\nexit $code\n'
        with log.open("w+b") as out:
            process = subprocess.Popen(
                ["bash", "-c", script],
                cwd=self.cwd,
                env=self.env,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            try:
                code = process.wait(LIMIT)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                code = 124
        if state.exists():
            cwd, self.env = json.loads(state.read_text())
            self.cwd = pathlib.Path(cwd)
        return code, log.read_text(errors="replace")


def set_up(clone: pathlib.Path) -> None:
    """The files that the documents take for granted: the reader's program, and addresses of another tool."""
    program = clone / "my-program"
    program.write_text(PROGRAM)
    program.chmod(0o755)
    addresses = (4096 * (i * i % 5000) for i in range(20000))
    (clone / "addresses.u64").write_bytes(b"".join(a.to_bytes(8, "little") for a in addresses))


def missing(rule: Rule | None) -> str | None:
    """Why a command cannot run here; None if it can."""
    if rule is None or rule.needs is None:
        return None
    if shutil.which(rule.needs) is None:
        return f"no program {rule.needs!r}"
    return "not root" if rule.needs == "apt-get" and os.geteuid() else None


def check(shell: Shell, command: Command) -> str | None:
    """Run one command and say how it went; its text if it failed."""
    rule = next((rule for rule in RULES if re.fullmatch(rule.pattern, command.text)), None)
    shown = command.text.replace("\n", "; ")
    why_not = missing(rule)
    if why_not:
        print(f"skipped           {shown}  [{why_not}: {rule.reason}]", flush=True)
        return None
    start = time.monotonic()
    code, output = shell.run(rule.instead if rule and rule.instead else command.text)
    allowed = rule.codes if rule else (0,)
    verdict = "ok" if code in allowed else "FAILED"
    said = f"  [run as: {rule.instead}: {rule.reason}]" if rule and rule.instead else ""
    print(f"{verdict:7} {code:3} {time.monotonic() - start:4.0f} s  {shown}{said}", flush=True)
    if code in allowed:
        return None
    print(f"  {command.document}:{command.line}, {code} is not in {allowed}; the last lines:")
    print("".join(f"  | {line}\n" for line in output.splitlines()[-15:]), flush=True)
    return command.text


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--python", default="/usr/bin/python3")
    asked: Any = parser.parse_args()
    folder = asked.folder.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        parser.error(f"{str(folder)!r} is not empty")
    shell, failed, seen = Shell(folder, asked.python), [], set()
    for document in DOCUMENTS:
        print(f"{document}, with {asked.python}")
        for command in commands(document, (ROOT / document).read_text(encoding="utf-8")):
            if command.text in seen:
                continue
            seen.add(command.text)
            failed.append(check(shell, command))
            clone = folder / "scmsim"
            if clone.is_dir() and not (clone / "my-program").exists():
                set_up(clone)
    failed = [text for text in failed if text]
    print(f"{len(seen)} commands, {len(failed)} failed")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
