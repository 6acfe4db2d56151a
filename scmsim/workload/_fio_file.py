"""Parser of fio's job files and command lines: sections of options, checked, with fio's defaults (3.33).

An option that changes what a job does and is not modelled is an error that names the option; all mistakes of a file are
reported at once, each with its line.  Options that change no call are accepted and noted.
"""

import copy
import pathlib
import re
from typing import NamedTuple

from scmsim.core.errors import UsageError
from scmsim.workload._contents import contents
from scmsim.workload._fio_job import Job, finish
from scmsim.workload._fio_options import ALIASES, MAX_FILES, MAX_JOBS, PACED, WITHOUT_EFFECT, count, set_option
from scmsim.workload._flags import split
from scmsim.workload._mistakes import Mistakes

# Options of fio itself, not of a job.
_TO_FIO = frozenset(
    """
    append-terse eta eta-newline minimal output output-format readonly status-interval terse-version thread-stats version
    warnings-fatal alloc-size aux-path bandwidth-log max-jobs
    """.split()
)
_WITHOUT_VALUE = frozenset(
    """
    append-terse bandwidth-log create_fsync end_fsync exitall group_reporting gtod_reduce minimal new_group norandommap
    overwrite readonly stonewall thread time_based unlink version warnings-fatal
    """.split()
)


class Given(NamedTuple):
    """Value of an option, and where it is given (file and line)."""

    value: str
    at: str


Options = dict[str, Given]


class Jobs(NamedTuple):
    """All jobs, and notes on accepted options that a trace does not show."""

    jobs: list[Job]
    notes: list[str]


def read(path: str, changed: str = "") -> Jobs:
    """Return the jobs of a job file; `changed` are options, separated by blanks, that replace options of every job.

    Raises UsageError for options that cannot be modelled: one line for each mistake, with file and line number.
    """
    return parse(contents(path, "a fio job file"), pathlib.Path(path).name, changed)


def parse(text: str, where: str = "job", changed: str = "") -> Jobs:
    """Return the jobs in the text of a job file."""
    mistakes, options = Mistakes(where), []
    for word in changed.split():
        name, _, value = word.partition("=")
        if f"${{{name}}}" in text:  # an environment variable of the file
            text = text.replace(f"${{{name}}}", value)
        else:
            options.append(word)
    return _made(_sections(text, where, mistakes), mistakes, " ".join(options))


def parse_words(text: str, where: str = "options") -> Jobs:
    """Return the jobs of a command line such as "--name=a --rw=read --size=1m", or of the options of one job, "rw=read size=1m"."""
    words = split(text, where)
    mistakes = Mistakes(where)
    if not any(word.startswith("-") for word in words):
        options: Options = {}
        for word in words:
            _put(options, word, where)
        return _made([("job", options)], mistakes, "")
    return _made(_command_line(words, where, mistakes), mistakes, "")


def _put(options: Options, line: str, at: str) -> None:
    key, _, value = line.partition("=")
    options[ALIASES.get(key.strip(), key.strip())] = Given(value.strip(), at)


def _sections(text: str, where: str, mistakes: Mistakes) -> list[tuple[str, Options]]:
    """Return the sections of a job file with their options, including the options of [global]."""
    common: Options = {}
    section: Options | None = None
    sections: list[tuple[str, Options]] = []
    for number, line in enumerate(text.splitlines(), 1):
        # fio cuts a line at its first ; and then at its first #, wherever they are
        line, at = line.split(";")[0].split("#")[0].strip(), f"{where}:{number}"
        if not line:
            continue
        if match := re.fullmatch(r"\[(.+)\]", line):
            section = common if match[1].startswith("global") else dict(common)
            if section is not common:
                sections.append((match[1], section))
        elif line.startswith("include "):
            mistakes.add(f"{at}: include is not followed; replace the include line by the lines of the included file")
        elif section is None:
            mistakes.add(
                f"{at}: {line[:40]!r} comes before the first [section]; begin the file with [global] or [NAME]"
            )
            break
        else:
            _put(section, line, at)
    return sections


def _command_line(words: list[str], where: str, mistakes: Mistakes) -> list[tuple[str, Options]]:
    """Return the jobs of a command line: each --name starts a job, options before the first --name are for all jobs."""
    common: Options = {}
    section, sections = common, list[tuple[str, Options]]()
    rest = iter(words[1:] if words[0].rpartition("/")[2] == "fio" else words)
    for word in rest:
        if not word.startswith("-"):
            text = f"{where}: {word[:40]!r} has no dashes; begin each option with --, or give a job file alone"
            mistakes.add(text)
            continue
        key, equals, value = word.lstrip("-").partition("=")
        key = ALIASES.get(key, key)
        if not equals and key not in _WITHOUT_VALUE:
            value = next(rest, "")
        if key in _TO_FIO:
            continue
        if key == "name":
            section = common if value.startswith("global") else dict(common)
            if section is not common:
                sections.append((value, section))
        else:
            section[key] = Given(value, f"{where}: --{key}")
    return sections


def _made(sections: list[tuple[str, Options]], mistakes: Mistakes, changed: str) -> Jobs:
    """Return the jobs of all sections; raise UsageError with all mistakes."""
    replaced: Options = {}
    for word in changed.split():
        if "=" not in word:
            mistakes.add(f"set: {word[:40]!r} has no value; write it like size=1g")
        _put(replaced, word, "set")
    jobs: list[Job] = []
    for name, options in sections:
        if len(jobs) <= MAX_JOBS:
            jobs += _jobs(name, {**options, **replaced}, len(jobs), mistakes)
    if len(jobs) > MAX_JOBS:
        mistakes.add(f"{mistakes.where}: more than {MAX_JOBS} jobs; split the file")
    if sum(len(job.names) or job.nrfiles for job in jobs) > MAX_FILES:
        mistakes.add(f"{mistakes.where}: more than {MAX_FILES:,} files in all jobs; lower nrfiles or numjobs")
    if not sections and not mistakes.texts:
        text = "the file defines no job; add a section [NAME] with options such as rw=randread"
        mistakes.add(f"{mistakes.where}: {text}")
    _check_groups(jobs, mistakes)
    mistakes.check()
    return Jobs(jobs, _notes(sections, jobs, replaced))


def _jobs(name: str, options: Options, before: int, mistakes: Mistakes) -> list[Job]:
    """Return the clones of one section, in fio's order: the section itself, then its clones from the last to the first."""
    job, number = Job(name), 1
    for key, (value, at) in options.items():
        try:
            if key == "numjobs":
                number = max(1, count(value, at, MAX_JOBS))
            set_option(job, key, value, at)
        except UsageError as error:
            mistakes.add(error)
    try:
        finish(job)
    except UsageError as error:
        mistakes.add(error)
    made = []
    for i in range(number):
        clone = copy.copy(job)
        clone.number, clone.clone = before + i + 1, (number - i) % number
        clone.stonewall = job.stonewall and not i
        made.append(clone)
    return made


def _check_groups(jobs: list[Job], mistakes: Mistakes) -> None:
    """Check that each wait_for names an earlier job."""
    for i, job in enumerate(jobs):
        if job.wait_for and job.wait_for not in [other.title for other in jobs[:i] if other.name != job.name]:
            mistakes.add(f"job {job.name!r}: wait_for={job.wait_for!r} names no job before it")


def _notes(sections: list[tuple[str, Options]], jobs: list[Job], replaced: Options) -> list[str]:
    """Return notes on accepted options that the trace does not show, one line each."""
    given = dict.fromkeys(key for _, options in sections for key in options if key not in replaced)
    notes = []
    if paced := [key for key in given if key in PACED]:
        notes.append(f"a job ends with its size, since a trace has no clock; without effect: {', '.join(paced)}")
    if silent := [key for key in given if key in WITHOUT_EFFECT]:
        notes.append(f"options that change no call: {', '.join(silent)}")
    if devices := dict.fromkeys(name for job in jobs for name in job.names if name.startswith("/dev/")):
        notes.append(f"a device is a file of the job's size here: {', '.join(list(devices)[:4])}")
    if not all(job.randrepeat for job in jobs):
        notes.append("randrepeat=0 draws other numbers in each run of fio; the trace has those of one fixed seed")
    if len(jobs) > 1:
        notes.append("jobs that run at once take turns here, one call each")
    return notes
