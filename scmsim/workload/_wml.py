"""Parser of Filebench's workload language (.f files), as far as it determines which calls are made."""

import pathlib
import re
from dataclasses import dataclass, field
from typing import NamedTuple

from scmsim.core.errors import UsageError, unknown
from scmsim.workload._contents import contents
from scmsim.workload._fileset import Gamma, RandVar

MAX_ENTRIES = 1 << 20  # files of all file sets (ipc.h)
MAX_THREADS = 1 << 14
_MOST = 1 << 50

Value = int | str | bool | Gamma | RandVar

FLOWOPS = (
    "createfile", "openfile", "closefile", "deletefile", "statfile", "fsync", "fsyncset", "readwholefile", "writewholefile",
    "appendfile", "appendfilerand", "read", "write", "aiowrite", "aiowait", "semblock", "sempost", "hog", "delay", "eventlimit",
    "bwlimit", "iopslimit", "opslimit", "makedir", "removedir", "listdir", "finishoncount", "finishonbytes", "print",
)  # fmt: skip
_FLOWOP_ATTRIBUTES = (
    "name", "filesetname", "filename", "fd", "srcfd", "iosize", "iters", "random", "opennext", "dsync", "directio", "workingset",
    "value", "highwater", "target", "blocking", "noreadahead", "indexed",
)  # fmt: skip
_FILESET_ATTRIBUTES = (
    "name", "path", "size", "filesize", "entries", "dirwidth", "dirgamma", "prealloc", "reuse", "readonly", "writeonly", "paralloc",
    "trusttree", "cached", "leafdirs",
)  # fmt: skip
_PROCESS_ATTRIBUTES = ("name", "instances", "nice")
_PACING = (
    "eventgen",
    "hog",
    "delay",
    "eventlimit",
    "bwlimit",
    "iopslimit",
    "opslimit",
)  # statements and flowops that only control time
_MODES = ("alldone", "firstdone", "timeout", "nousestats")
_RANDVAR_ATTRIBUTES = ("type", "min", "max", "mean", "gamma", "round", "randtable", "randsrc", "seed")
_THREAD_ATTRIBUTES = ("name", "memsize", "instances", "useism", "ioprio")
# Statements that change no call: the parser skips them to the line's end.
_LINES = (
    "echo", "run", "psrun", "create", "eventgen", "enable", "debug", "version", "sleep", "system", "stats", "quit", "warmup",
    "usage", "log", "nousestats", "vars", "shutdown",
)  # fmt: skip
_SUFFIXES = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
_TOKEN = re.compile(r'"[^"\n]*"|\$?[\w./:*-]+|[{}(),=;]|\S')


class Token(NamedTuple):
    text: str
    line: int


def _shown(value: Value) -> str:
    return "a random variable" if isinstance(value, (Gamma, RandVar)) else repr(str(value)[:40])


@dataclass
class FileSet:
    """A file set: `define fileset`, or `define file`, which is one file without a tree."""

    name: str = ""
    path: str = "/tmp"
    size: int | Gamma | RandVar = 1024
    entries: int = 0
    dirwidth: int = 0
    dirgamma: int = 1500
    prealloc: int = 0
    leafdirs: int = 0
    single: bool = False


@dataclass
class Flowop:
    """One step of a thread, with its attributes (values resolved)."""

    kind: str
    line: int
    given: dict[str, Value]

    def number(self, name: str, default: int = 0) -> int:
        value = self.given.get(name, default)
        if not isinstance(value, int):
            raise UsageError(f"line {self.line}: {name} must be a number here, not {_shown(value)}")
        return int(value)

    def variable(self, name: str) -> RandVar | None:
        """Return an attribute's random variable, None if its value is not a random variable."""
        value = self.given.get(name)
        return value if isinstance(value, RandVar) else None


@dataclass
class Thread:
    """A kind of thread: its flowops, its memory, and the number of such threads in all instances of its process."""

    name: str
    count: int
    memsize: int
    processes: int = 1
    flowops: list[Flowop] = field(default_factory=list)


@dataclass
class Workload:
    """Contents of a .f file."""

    filesets: list[FileSet] = field(default_factory=list)
    threads: list[Thread] = field(default_factory=list)
    one_ends_all: bool = True  # the run ends with its first thread (set mode quit)
    pacing: dict[str, None] = field(default_factory=dict)  # statements about the clock


def read(path: str | pathlib.Path, changed: dict[str, str]) -> Workload:
    """Return the workload of a file; raises UsageError (one line, with file and line number)."""
    path = pathlib.Path(path)
    return Parser(contents(path, "a Filebench .f file"), path.name, changed).workload()


class Parser:
    """Recursive-descent parser of one file; `changed` are variables that replace the file's own values."""

    def __init__(self, text: str, where: str, changed: dict[str, str]) -> None:
        self.where, self.at, self.result = where, 0, Workload()
        self.tokens = [
            Token(match, number)
            for number, line in enumerate(text.splitlines(), 1)
            for match in _TOKEN.findall(re.sub(r"#.*", "", line))
        ]
        self.variables: dict[str, Value] = {"dir": "/tmp"}
        self.changed = changed
        self.used: set[str] = set()

    def workload(self) -> Workload:
        """Parse everything, then check the limits that concern the whole file."""
        while self.at < len(self.tokens):
            self._statement()
        for name in self.changed.keys() - self.used:
            raise unknown("variable that the file sets", name, sorted(self.variables.keys() - {"dir"}) or ["(none)"])
        if not self.result.threads:
            raise UsageError(
                f"{self.where}: no thread is defined; a .f file needs 'define process ... {{ thread ... }}'"
            )
        if sum(thread.count for thread in self.result.threads) > MAX_THREADS:
            raise UsageError(f"{self.where}: more than {MAX_THREADS} threads; set fewer")
        if sum(fileset.entries + fileset.leafdirs for fileset in self.result.filesets) > MAX_ENTRIES:
            raise UsageError(f"{self.where}: more than {MAX_ENTRIES:,} files; Filebench has the same limit")
        return self.result

    def _fail(self, text: str, token: Token | None = None) -> UsageError:
        last = self.tokens[min(self.at, len(self.tokens) - 1)].line if self.tokens else 1
        return UsageError(f"{self.where}:{token.line if token else last}: {text}")

    def _take(self, expected: str = "") -> Token:
        if self.at >= len(self.tokens):
            raise self._fail(f"the file ends where {expected or 'more'!r} is expected; check that the file is complete")
        token = self.tokens[self.at]
        if expected and token.text != expected:
            raise self._fail(f"{token.text[:40]!r} is where {expected!r} should be; see the Filebench language", token)
        self.at += 1
        return token

    def _peek(self) -> str:
        return self.tokens[self.at].text if self.at < len(self.tokens) else ""

    def _statement(self) -> None:
        token = self._take()
        if token.text == "set":
            self._set(token)
        elif token.text == "define":
            self._define()
        elif token.text in _LINES:
            if token.text in _PACING:
                self.result.pacing[token.text] = None
            self._skip_line(token)
        elif token.text != ";":
            raise self._fail(f"{unknown('statement here', token.text[:40], ('set', 'define', *_LINES))}", token)

    def _skip_line(self, token: Token) -> None:
        while self.at < len(self.tokens) and self.tokens[self.at].line == token.line:
            self.at += 1

    def _set(self, token: Token) -> None:
        name = self._take().text
        if name == "mode":
            while self.at < len(self.tokens) and self.tokens[self.at].line == token.line:
                word = self._take()
                if word.text not in ("quit", *_MODES):
                    raise self._fail(f"{unknown('mode', word.text[:40], _MODES)}", word)
                if word.text in _MODES[:3]:
                    self.result.one_ends_all = word.text != "alldone"
            return
        if not name.startswith("$"):
            raise self._fail(f"{name[:40]!r} is not a variable; write it like set $nfiles=1000", token)
        self._take("=")
        value = self._value()
        if name[1:] in self.changed:
            self.used.add(name[1:])
            value = self._scalar(Token(self.changed[name[1:]], token.line))
        self.variables[name[1:]] = value

    def _value(self) -> Value:
        token = self._take()
        if token.text == "cvar":
            return self._cvar(token)
        if token.text == "randvar":
            self._take("(")
            made = self._randvar(token)
            self._take(")")
            return made
        return self._scalar(token)

    def _scalar(self, token: Token) -> Value:
        text = token.text
        if text.startswith("$"):
            if text[1:] not in self.variables:
                raise self._fail(f"variable {text} is used before it is set; set it first", token)
            return self.variables[text[1:]]
        if match := re.fullmatch(r"(\d{1,18})([kmg]?)", text):
            value = int(match[1]) * _SUFFIXES[match[2]]
            if value >= _MOST:
                raise self._fail(f"{text} is too large; numbers go to 2^50", token)
            return value
        if text in ("true", "false"):
            return text == "true"
        return text.strip('"')

    def _cvar(self, token: Token) -> Gamma:
        """Parse cvar(type=cvar-gamma,parameters=mean:M;gamma:G,min=..,max=..,round=..)."""
        self._take("(")
        given: dict[str, str] = {}
        while self._peek() != ")":
            key = self._take().text
            self._take("=")
            words = [self._take().text]
            while self._peek() not in (",", ")", ""):
                words.append(self._take().text)
            given[key] = "".join(words).strip('"')
            if self._peek() == ",":
                self._take()
        self._take(")")
        if given.get("type") != "cvar-gamma":
            raise self._fail(f"custom variable {given.get('type')!r} is not modelled; only cvar-gamma is", token)
        parts = dict(part.partition(":")[::2] for part in given.get("parameters", "").split(";"))
        try:
            mean, gamma = float(parts.get("mean", 0)), float(parts.get("gamma", 0))
            least, most, step = (int(given.get(name, "0")) for name in ("min", "max", "round"))
        except ValueError:
            mean = gamma = 0.0
            least = most = step = 0
        if not (0 < mean < _MOST and 0 < gamma < 1000):
            raise self._fail("cvar-gamma needs parameters=mean:M;gamma:G with positive numbers", token)
        return Gamma(mean, gamma, least, most, step)

    def _randvar(self, token: Token) -> RandVar:
        """Parse the attributes of a random variable: type=gamma,mean=16k,gamma=1500 or type=tabular,randtable={{50,1k,2k}, ...}."""
        given: dict[str, Value] = {}
        table: list[tuple[int, int, int]] = []
        while self._peek() in _RANDVAR_ATTRIBUTES:
            key = self._take().text
            self._take("=")
            if key == "randtable":
                self._take("{")
                while not table or self._peek() == ",":
                    if table:
                        self._take(",")
                    table.append(self._row())
                self._take("}")
            else:
                given[key] = self._scalar(self._take())
            if self._peek() != ",":
                break
            self._take()
        if self._peek() not in (")", "") and self.at < len(self.tokens) and self.tokens[self.at - 1].text == ",":
            named = self._peek()[:40]
            raise self._fail(f"{unknown('attribute of a random variable', named, _RANDVAR_ATTRIBUTES)}")
        kind = str(given.get("type", "tabular" if table else "gamma"))
        if (kind == "tabular") != bool(table):
            raise self._fail(
                f"type={kind} with{'' if table else 'out'} a randtable; a randtable is for type=tabular", token
            )
        if kind not in ("gamma", "uniform", "tabular"):
            raise self._fail(f"{unknown('type of a random variable', kind, ('gamma', 'uniform', 'tabular'))}", token)
        numbers = {name: self._whole(given.get(name, 0), name, token) for name in ("mean", "min", "round", "seed")}
        shape = self._whole(given.get("gamma", 1500), "gamma", token) / 1000
        if not 0 < shape < 1000 or sum(share for share, _, _ in table) not in (0, 100):
            raise self._fail("gamma must be above 0, and the shares of a randtable add up to 100", token)
        least, step, urandom = numbers["min"], numbers["round"], given.get("randsrc") == "urandom"
        return RandVar(kind, float(numbers["mean"]), shape, least, step, tuple(table), numbers["seed"], urandom)

    def _row(self) -> tuple[int, int, int]:
        token = self._take("{")
        numbers = []
        for end in (",", ",", "}"):
            numbers.append(self._whole(self._scalar(self._take()), "a randtable", token))
            self._take(end)
        return numbers[0], numbers[1], numbers[2]

    def _attributes(self, allowed: tuple[str, ...], what: str) -> dict[str, Value]:
        found: dict[str, Value] = {}
        while self._peek() not in ("{", "}", "") and self.tokens[self.at].text not in (
            "flowop",
            "thread",
            "define",
            "set",
        ):
            token = self._take()
            if token.text not in allowed:
                raise self._fail(f"{unknown(f'modelled attribute of a {what}', token.text[:40], allowed)}", token)
            found[token.text] = True
            if self._peek() == "=":
                self._take()
                found[token.text] = self._value()
            if self._peek() != ",":
                break
            self._take()
        return found

    def _define(self) -> None:
        token = self._take()
        if token.text in ("fileset", "file"):
            self._fileset(token)
        elif token.text == "process":
            self._process()
        elif token.text == "randvar":  # syntax of Filebench before 1.5
            self._take("name")
            self._take("=")
            name = self._take().text
            self._take(",")
            self.variables[name.removeprefix("$")] = self._randvar(token)
        else:
            raise self._fail(f"{unknown('kind of definition', token.text[:40], ('fileset', 'file', 'process'))}", token)

    def _fileset(self, token: Token) -> None:
        given = self._attributes(_FILESET_ATTRIBUTES, "fileset")
        made = FileSet(single=token.text == "file")
        for name in ("entries", "dirwidth", "dirgamma", "leafdirs"):
            setattr(made, name, self._whole(given.get(name, getattr(made, name)), name, token))
        made.name, made.path = str(given.get("name", "")), str(given.get("path", "/tmp"))
        size = given.get("size", given.get("filesize", 1024))
        made.size = size if isinstance(size, (Gamma, RandVar)) else self._whole(size, "size", token)
        prealloc = given.get("prealloc", 0)
        made.prealloc = 100 * prealloc if isinstance(prealloc, bool) else self._whole(prealloc, "prealloc", token)
        made.entries = 1 if made.single else made.entries
        if made.entries + made.leafdirs < 1:
            raise self._fail(f"fileset {made.name!r} needs entries or leafdirs of at least 1", token)
        if made.prealloc == 100 and made.entries and made.leafdirs and not made.single:
            text = "prealloc with both files and leafdirs fails, in Filebench too: the files and leafdirs have the same names"
            raise self._fail(f"{text}; make two filesets", token)
        if made.prealloc > 100 or not made.name:
            raise self._fail("a fileset needs a name, and prealloc is at most 100 per cent", token)
        self.result.filesets.append(made)

    def _whole(self, value: Value, name: str, token: Token) -> int:
        if not isinstance(value, int) or not 0 <= value < _MOST:
            raise self._fail(f"{name} must be a number here, not {_shown(value)}", token)
        return int(value)

    def _process(self) -> None:
        token = self.tokens[self.at - 1]
        given = self._attributes(_PROCESS_ATTRIBUTES, "process")
        instances = self._whole(given.get("instances", 1), "instances", token)
        self._take("{")
        while self._peek() != "}":
            self._thread(self._take("thread"), instances)
        self._take("}")

    def _thread(self, token: Token, processes: int) -> None:
        given = self._attributes(_THREAD_ATTRIBUTES, "thread")
        count = processes * self._whole(given.get("instances", 1), "instances", token)
        memory = self._whole(given.get("memsize", 0), "memsize", token)
        made = Thread(str(given.get("name", "")), count, memory, processes)
        self._take("{")
        while self._peek() != "}":
            self._take("flowop")
            kind = self._take()
            if kind.text not in FLOWOPS:
                raise self._fail(f"{unknown('modelled flowop', kind.text[:40], FLOWOPS)}", kind)
            if kind.text in _PACING:
                self.result.pacing[kind.text] = None
            made.flowops.append(Flowop(kind.text, kind.line, self._attributes(_FLOWOP_ATTRIBUTES, "flowop")))
        self._take("}")
        if made.flowops:
            self.result.threads.append(made)
