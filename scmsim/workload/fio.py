"""fio 3.33 with a synchronous engine: reads a job file and makes the job's calls, exactly for one job.

Jobs that run at the same time take turns here, one call each.  With an asynchronous engine the order of submission is the
same and the buffers rotate.  Not modelled: time (runtime, rate, thinktime), verify, trim, zones, and what `_fio_file`
refuses.
Source: fio 3.33, backend.c, filesetup.c, io_u.c; compared with the program.
"""

from collections.abc import Iterator

import numpy as np

from scmsim.core.errors import UsageError
from scmsim.core.records import (
    CLOSE,
    CREATE,
    DATA_ONLY,
    FALLOCATE,
    FSYNC,
    KEEP_SIZE,
    OPEN,
    READ,
    SETUP,
    SYNCHRONOUS,
    TRUNCATE,
    UNLINK,
    WRITE,
    Files,
)
from scmsim.workload._fio_file import Job, parse, read
from scmsim.workload._fio_state import State, spans, start
from scmsim.workload._steps import Stream, calls, check_times, run
from scmsim.workload.kernels.fio_job import fill

SUMMARY = "fio 3: reads a .fio job file and makes its calls, random numbers and random maps included"
PARAMS = {
    "job": ("", "file", "job file (.fio); without one, a single job with the options below"),
    "options": ("rw=randwrite bs=4k size=16m", "text", "options of a single job, separated by blanks"),
    "interval": ("1us", "time", "trace time between two calls"),
}

_BLOCK = 1 << 14  # rows of one fill
_PAGE = 4096


class Workload(Stream):
    """Stream of fio's operations (a records.Source).

    Parameters
    ----------
    job : str
        Path of a job file, or "" for one job named `job`.
    options : str
        Its options, as in a job file, separated by blanks.
    interval : int
        Nanoseconds between two calls.

    Raises
    ------
    UsageError
        For a file that cannot be read, or an option that is not modelled (named, with file and line).
    """

    def __init__(self, job: str = "", options: str = "rw=randwrite bs=4k size=16m", interval: int = 1000) -> None:
        if job and options != PARAMS["options"][0]:
            raise UsageError("give a job file or options, not both; put the options into the file")
        self.jobs = read(job) if job else parse("[job]\n" + "\n".join(options.split()), "options")
        self.interval = interval
        check_times(sum(_most_calls(each) for each in self.jobs), interval)
        self._lay_out()
        self.header = {
            "tool": "scmsim synth fio",
            "workload": {"kind": "fio", "job": job, "options": "" if job else options, "interval": interval},
            "jobs": [_told(each) for each in self.jobs],
        }

    def _lay_out(self) -> None:
        """Set up what exists before the jobs run: object ids, sizes and the calls that create it, in order of the jobs."""
        folders = dict.fromkeys(["", *(path.rpartition("/")[0] for job in self.jobs for path in job.paths())])
        names = ["/fio", *(folder for folder in folders if folder)]
        numbers = {folder: number for number, folder in enumerate(folders)}
        objects: dict[str, int] = {}
        sizes: dict[str, int] = {}
        self.layout: list[np.ndarray] = []
        self.ends: list[list[int]] = []
        for job in self.jobs:
            for path, end in zip(job.paths(), _ends(job), strict=True):
                folder = numbers[path.rpartition("/")[0]]
                if sizes.get(path, -1) < end:
                    if path in objects:  # too short: fio replaces the file
                        self.layout.append(calls(1, op=UNLINK, file=objects[path], flag=SETUP, parent=folder))
                    objects[path], sizes[path] = len(names), _size_made(job, end)
                    names.append(path)
                    self.layout += _created(job, objects[path], folder, end)
            self.ends.append([max(end, sizes[path]) for path, end in zip(job.paths(), _ends(job), strict=True)])
        self.ids = [np.array([objects[path] for path in job.paths()], np.int64) for job in self.jobs]
        self.parents = [np.array([numbers[path.rpartition("/")[0]] for path in job.paths()]) for job in self.jobs]
        is_dir = np.arange(len(names)) < len(folders)
        self.files = Files(names, np.where(is_dir, 0, -1), is_dir)

    def steps(self) -> Iterator[np.ndarray]:
        """Yield the operations as STEPs: the lay-out (SETUP), then the jobs; jobs between two stonewalls run together."""
        yield from self.layout
        numbers = list(range(len(self.jobs)))
        walls = [i for i in numbers if i and self.jobs[i].stonewall] + [len(self.jobs)]
        first = 0
        for wall in walls:
            yield from _together([self._job(i) for i in numbers[first:wall]])
            first = wall

    def _job(self, number: int) -> Iterator[np.ndarray]:
        """Yield the calls of one job."""
        job, ids = self.jobs[number], self.ids[number]
        state = State(job, self.ends[number])
        done, out = 0, np.zeros((_BLOCK, 4), np.int64)
        before, loops = -1, job.loops
        while loops > 0 or _goes_on(job, state, before):
            before, loops = int(state.job[0]["bytes"]), loops - 1
            if done:
                state.next_pass()
            ended = False
            while not ended:
                count, ended = fill(state.job, state.files, state.maps, out)
                steps = _told_as_steps(job, ids, out[:count])
                _place_buffers(steps, job, done)
                done += int(np.isin(steps["op"], (READ, WRITE)).sum())
                yield steps
            ending = job.unlink and not loops and not _goes_on(job, state, before)
            steps = _end_of_pass(job, ids, state, ending)
            steps["parent"][steps["op"] == UNLINK] = self.parents[number][: int(ending) * len(ids)]
            yield steps


def _goes_on(job: Job, state: State, before: int) -> bool:
    """Return whether io_size requires another pass (keep_running)."""
    j = state.job[0]
    if job.number_ios and int(j["issued"].sum()) >= job.number_ios * job.loops:
        return False
    done = int(j["bytes"])
    return bool(job.io_size) and done != before and job.io_size - done >= max(job.most)


def _told_as_steps(job: Job, ids: np.ndarray, rows: np.ndarray) -> np.ndarray:
    what = rows[:, 0]
    steps = calls(len(rows), op=np.array([READ, WRITE, FSYNC, FSYNC, OPEN, CLOSE])[what], file=ids[rows[:, 1]])
    moves = what < 2
    steps["offset"] = np.where(moves, rows[:, 2], -1)
    steps["length"] = rows[:, 3]
    steps["flag"] = np.where(what == 3, DATA_ONLY, 0) | np.where((what == 1) & job.sync, SYNCHRONOUS, 0)
    steps["thread"] = job.number - 1
    return steps


def _place_buffers(steps: np.ndarray, job: Job, done: int) -> None:
    """Set the buffers: fio has one page-aligned buffer for each unit of its queue, one after another."""
    moves = np.flatnonzero((steps["op"] == READ) | (steps["op"] == WRITE))
    room = -(-max(job.most) // _PAGE) * _PAGE
    steps["buffer"][moves] = (np.arange(done, done + len(moves)) % job.iodepth) * room


def _end_of_pass(job: Job, ids: np.ndarray, state: State, unlink: bool) -> np.ndarray:
    """Return the calls of end_fsync and the closes of files that are still open; `unlink` removes each file before its close."""
    ops: list[tuple[int, int]] = []
    for file, f in zip(ids.tolist(), state.files, strict=True):
        if job.writes and job.end_fsync:
            ops += [(FSYNC, file)] if f["is_open"] else [(OPEN, file), (FSYNC, file), (CLOSE, file)]
    for file, f in zip(ids.tolist(), state.files, strict=True):
        ops += [(UNLINK, file)] * unlink + [(CLOSE, file)] * int(f["is_open"])
    made = np.array(ops, np.int64).reshape(-1, 2)
    return calls(len(ops), op=made[:, 0], file=made[:, 1], thread=job.number - 1)


def _together(jobs: list[Iterator[np.ndarray]]) -> Iterator[np.ndarray]:
    """Yield the calls of jobs that run at once: they take turns, one call each."""
    if len(jobs) == 1:
        yield from jobs[0]
        return
    waiting = [np.zeros(0, calls(0).dtype) for _ in jobs]
    alive = list(range(len(jobs)))
    while alive:
        for i in list(alive):
            while not len(waiting[i]) and i in alive:
                more = next(jobs[i], None)
                if more is None:
                    alive.remove(i)
                else:
                    waiting[i] = more
        if alive:
            turn = min(len(waiting[i]) for i in alive)
            yield np.stack([waiting[i][:turn] for i in alive], axis=1).reshape(-1)
            for i in alive:
                waiting[i] = waiting[i][turn:]


def _written(job: Job) -> bool:
    """Return whether the lay-out writes the file, as reads and overwrites need it."""
    return bool(job.reads or job.overwrite)


def _size_made(job: Job, end: int) -> int:
    """Return the size of a file after its lay-out."""
    return end if _written(job) or job.fallocate in ("native", "posix", "1", "truncate") else 0


def _ends(job: Job) -> list[int]:
    return [start(job) + span for span in spans(job)]


def _created(job: Job, file: int, folder: int, end: int) -> list[np.ndarray]:
    """Return the calls that make a file of `end` bytes before the job runs."""
    steps = [calls(1, op=CREATE, file=file, parent=folder)]
    if job.fallocate not in ("none", "0", "truncate"):
        keep = KEEP_SIZE if job.fallocate == "keep" else 0
        steps.append(calls(1, op=FALLOCATE, file=file, offset=0, length=end, flag=keep))
    if job.fallocate == "truncate" or _written(job):
        steps += [calls(1, op=TRUNCATE, file=file, offset=end)] * (1 + (job.fallocate == "truncate" and _written(job)))
    if _written(job):
        steps.append(run(WRITE, file, end, job.most[1]))
        steps += [calls(1, op=FSYNC, file=file)] * job.create_fsync
    steps.append(calls(1, op=CLOSE, file=file))
    for step in steps:
        step["flag"] |= SETUP
    return steps


def _most_calls(job: Job) -> int:
    return 2 * ((job.io_size or job.size) * job.loops // min(job.least) + job.size // job.most[1] + 8 * job.nrfiles)


def _told(job: Job) -> dict[str, object]:
    """Return a job for the header: its name and what differs from fio's defaults."""
    default = Job(job.name)
    return {key: value for key, value in vars(job).items() if key == "name" or value != getattr(default, key)}
