"""fio 3.33: reads a job file or a command line and makes the job's calls, exactly for one job.

Jobs that run at the same time take turns here, one call each.  With an asynchronous engine the order of submission is the
same and the buffers rotate.  Not modelled: time, trim, zoned devices, and options that `_fio_options` refuses.
Source: fio 3.33, backend.c, filesetup.c, io_u.c; compared with the program.
"""

import posixpath
from collections.abc import Iterator

import numpy as np

from scmsim.core.errors import UsageError
from scmsim.core.records import (
    CLOSE,
    CREATE,
    DIRECTORY,
    FALLOCATE,
    FSYNC,
    KEEP_SIZE,
    MKDIR,
    SETUP,
    TRUNCATE,
    UNLINK,
    WRITE,
    Files,
)
from scmsim.workload import _stream
from scmsim.workload._fio_calls import Calls
from scmsim.workload._fio_file import parse_words, read
from scmsim.workload._fio_job import FOLDERS, Job, Ranges, finish
from scmsim.workload._fio_layout import plan
from scmsim.workload._fio_state import State
from scmsim.workload._steps import Stream, calls, check_times, run
from scmsim.workload.kernels.fio_job import fill

SUMMARY = "fio 3: reads a .fio job file or a command line and makes its calls, random numbers and random maps included"
PARAMS = {
    "job": ("", "file", "job file (.fio); without it, the options below"),
    "options": (
        "rw=randwrite bs=4k size=16m",
        "text",
        "options of a single job, separated by blanks, or fio's command line",
    ),
    "set": ("", "text", "options that replace those of every job of the file, such as 'size=1g time_based=0'"),
    "interval": ("1us", "time", "trace time between two calls"),
}
COMMAND = "options"  # the parameter that takes a command line: scmsim synth fio -o OUT.parquet -- --name=a --rw=read

_BLOCK = 1 << 14  # rows per call of the compiled loop


class Workload(Stream):
    """Stream of fio's operations (a records.Source); for the parameters see PARAMS. The interval is in nanoseconds.

    Raises UsageError for a file that cannot be read, or options that are not modelled (all are named, each with file
    and line).
    """

    @_stream.declared(PARAMS)
    def __init__(self, p: _stream.Params) -> None:
        if p.job and p.options != PARAMS["options"][0]:
            raise UsageError("give a job file or options, not both; --set 'OPTION=VALUE' changes options of the file")
        if p.set and not p.job:
            raise UsageError("set replaces options of a job file; write all options of a job into options")
        self.jobs, notes = read(p.job, p.set) if p.job else parse_words(p.options)
        self._lay_out()
        check_times(sum(_most_calls(each, of) for each, of in zip(self.jobs, self.ranges, strict=True)), p.interval)
        self.header["workload"]["options"] = "" if p.job else p.options
        self.header |= {"jobs": [_told(each) for each in self.jobs], "notes": notes}

    def _lay_out(self) -> None:
        """Set up what exists before the jobs run: object ids, sizes and the calls that create it, in order of the jobs."""
        all_paths = [[posixpath.normpath(path) for path in job.paths()] for job in self.jobs]
        folders = dict.fromkeys(["", *(path.rpartition("/")[0] for paths in all_paths for path in paths)])
        names = ["/fio", *(folder for folder in folders if folder)]
        numbers = {folder: names.index(folder) if folder else 0 for folder in folders}
        objects: dict[str, int] = {}
        sizes: dict[str, int] = {}
        self.layout: list[np.ndarray] = []
        are_folders = list(range(len(folders)))
        self.ranges: list[Ranges] = []
        for job, paths in zip(self.jobs, all_paths, strict=True):
            ranges = plan(job, [sizes.get(path, 0) for path in paths])
            self.ranges.append(ranges)
            for path, end, is_made in zip(paths, ranges.end, ranges.made, strict=True):
                folder = numbers[path.rpartition("/")[0]]
                if is_made and path in objects:  # too short: fio replaces the file
                    self.layout.append(calls(1, op=UNLINK, file=objects[path], flag=SETUP, parent=folder))
                if is_made or path not in objects:
                    objects[path] = len(names)
                    names.append(path)
                if job.engine in FOLDERS:
                    are_folders.append(objects[path])
                    if job.engine != "dircreate":
                        made = calls(1, op=MKDIR, file=objects[path], parent=folder, flag=SETUP | DIRECTORY)
                        self.layout.append(made)
                if is_made:
                    sizes[path] = _size_made(job, end)
                    self.layout += _created(job, objects[path], folder, end)
        self.ids = [np.array([objects[path] for path in paths], np.int64) for paths in all_paths]
        self.parents = [np.array([numbers[path.rpartition("/")[0]] for path in paths]) for paths in all_paths]
        is_dir = np.isin(np.arange(len(names)), are_folders)
        self.files = Files(names, np.where(np.arange(len(names)) < len(folders), 0, -1), is_dir)

    def steps(self) -> Iterator[np.ndarray]:
        """Yield the operations as STEPs: the lay-out (SETUP), then the jobs; jobs between two stonewalls run together."""
        yield from self.layout
        walls = [i for i, job in enumerate(self.jobs) if i and job.stonewall] + [len(self.jobs)]
        first = 0
        for wall in walls:
            here = range(first, wall)
            titles = [self.jobs[i].title for i in here]
            waits = [{n for n, title in enumerate(titles) if title == self.jobs[i].wait_for} for i in here]
            yield from _together([self._job(i) for i in here], waits, [max(1, self.jobs[i].flow) for i in here])
            first = wall

    def _job(self, number: int) -> Iterator[np.ndarray]:
        """Yield the calls of one job."""
        job, ranges = self.jobs[number], self.ranges[number]
        state = State(job, ranges)
        made = Calls(job, self.ids[number], self.parents[number], ranges.span)
        out, before, loops, is_first = np.zeros((_BLOCK, 4), np.int64), -1, job.loops, True
        while loops > 0 or _goes_on(job, state, before, ranges.total):
            before, loops = int(state.job[0]["bytes"]), loops - 1
            if not is_first:
                state.next_pass()
            is_first, ended = False, False
            while not ended:
                count, ended = fill(state.job, state.files, state.maps, out)
                yield made.of(out[:count])
            is_open = state.files["is_open"] == 1
            if not state.job[0]["synced"]:
                yield made.end_of_pass(is_open)
            if made.history is not None:
                yield made.closes(is_open, last=False)
                is_open = np.zeros(len(is_open), bool)
                for steps, is_open in made.verifying():  # noqa: B007
                    yield steps
            yield made.closes(is_open, last=not (loops > 0 or _goes_on(job, state, before, ranges.total)))


def _goes_on(job: Job, state: State, before: int, total: int) -> bool:
    """Return whether io_size requires another pass (keep_running)."""
    j = state.job[0]
    if job.number_ios and int(j["issued"].sum()) >= job.number_ios * job.loops:
        return False
    done = int(j["bytes"])
    if not job.io_size and (job.verify or state.files["is_done"].all()):
        return False
    left = (job.io_size or total) - done
    return done != before and left >= max(job.most)


def _together(jobs: list[Iterator[np.ndarray]], waits: list[set[int]], flows: list[int]) -> Iterator[np.ndarray]:
    """Yield the calls of jobs that run at once: in turn, `flows` calls of each.

    A job starts when the jobs in its set of `waits` have ended.
    """
    if len(jobs) == 1:
        yield from jobs[0]
        return
    waiting = [np.zeros(0, calls(0).dtype) for _ in jobs]
    left, ended = set(range(len(jobs))), set[int]()
    while left:
        alive = [i for i in sorted(left) if not waits[i] & left - {i}]
        for i in alive:
            while len(waiting[i]) < flows[i] and i not in ended:
                more = next(jobs[i], None)
                if more is None:
                    ended.add(i)
                else:
                    waiting[i] = np.concatenate((waiting[i], more))
        turns = max(1, min(len(waiting[i]) // flows[i] for i in alive))
        parts = {i: waiting[i][: turns * flows[i]] for i in alive}
        if all(len(part) == turns * flows[i] for i, part in parts.items()):
            yield np.concatenate([part.reshape(turns, -1) for part in parts.values()], axis=1).reshape(-1)
        else:
            yield np.concatenate(list(parts.values()))
        for i in alive:
            waiting[i] = waiting[i][turns * flows[i] :]
            if i in ended and not len(waiting[i]):
                left.remove(i)


def _written(job: Job) -> bool:
    """Return whether the lay-out writes the file, as reads and overwrites need it."""
    return bool((job.reads and not job.trims) or job.overwrite or job.engine == "mmap")


def _size_made(job: Job, end: int) -> int:
    """Return the size of a file after its lay-out."""
    return end if _written(job) or job.fallocate in ("native", "posix", "1", "truncate") else 0


def _created(job: Job, file: int, folder: int, end: int) -> list[np.ndarray]:
    """Return the calls that make a file of `end` bytes before the job runs."""
    steps = [calls(1, op=CREATE, file=file, parent=folder)]
    if job.fallocate not in ("none", "0", "truncate"):
        keep = KEEP_SIZE if job.fallocate == "keep" else 0
        steps.append(calls(1, op=FALLOCATE, file=file, offset=0, length=end, flag=keep))
    truncates = (job.fallocate == "truncate") + (_written(job) and not job.fill_device)
    steps += [calls(1, op=TRUNCATE, file=file, offset=end)] * truncates
    if _written(job):
        steps.append(run(WRITE, file, end, job.most[1]))
        steps += [calls(1, op=FSYNC, file=file)] * job.create_fsync
    steps.append(calls(1, op=CLOSE, file=file))
    for step in steps:
        step["flag"] |= SETUP
    return steps


def _most_calls(job: Job, ranges: Ranges) -> int:
    passes = (job.io_size or ranges.total) * job.loops // min(job.least)
    return 3 * (passes + sum(ranges.end) // job.most[1] + 8 * job.nrfiles)


def _told(job: Job) -> dict[str, object]:
    """Return the description of a job for the header: its name and the options that differ from fio's defaults."""
    default = Job(job.name)
    finish(default)
    return {key: value for key, value in vars(job).items() if key == "name" or value != getattr(default, key)}
