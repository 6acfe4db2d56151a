"""Parser of fio's job files: sections of options, checked, with fio's defaults (3.33).

An option that changes what a job does and is not modelled is an error that names the option; one without effect is accepted.
"""

import pathlib
import re
from collections.abc import Callable
from dataclasses import dataclass, field

from scmsim.core.errors import UsageError, unknown

MAX_BYTES = 1 << 20  # bytes of a job file
MAX_JOBS = 4096
MAX_FILES = 1 << 20

_ALIASES = {
    "readwrite": "rw", "blocksize": "bs", "blocksize_range": "bsrange", "io_limit": "io_size", "mem": "iomem",
    "iodepth_batch_submit": "iodepth_batch", "wait_for_previous": "stonewall",
}  # fmt: skip
# Options that change neither which calls a job makes nor their order.
_WITHOUT_EFFECT = frozenset(
    """
    buffer_compress_chunk buffer_compress_percentage buffer_pattern buffered bwavgtime clat_percentiles clocksource
    continue_on_error cpumask cpus_allowed cpus_allowed_policy create_serialize dedupe_percentage description direct
    disable_bw_measurement disable_clat disable_lat disable_slat error_dump fadvise_hint
    gtod_cpu gtod_reduce group_reporting hugepage-size ignore_error invalidate iodepth_batch iodepth_batch_complete
    iodepth_batch_complete_max iodepth_batch_complete_min iodepth_low iomem iopsavgtime lat_percentiles lockmem log_avg_msec
    log_compression log_hist_msec log_offset log_unix_epoch new_group nice norandommap_warn numa_cpu_nodes numa_mem_policy
    percentile_list per_job_logs prio prioclass refill_buffers scramble_buffers slat_percentiles softrandommap stats
    thread unified_rw_reporting uid gid write_bw_log write_hist_log write_iolog write_iops_log
    write_lat_log write_hint zero_buffers
    """.split()
)  # fmt: skip
_ENGINES = ("psync", "sync", "pvsync", "pvsync2", "vsync", "libaio", "io_uring", "posixaio")
_ASYNCHRONOUS = ("libaio", "io_uring", "posixaio")
_DIRECTIONS = {
    "read": (1, 0, 0), "write": (0, 1, 0), "rw": (1, 1, 0), "readwrite": (1, 1, 0),
    "randread": (1, 0, 1), "randwrite": (0, 1, 1), "randrw": (1, 1, 1),
}  # fmt: skip
_SUFFIXES = {"": 1, **{letter: 1024**power for power, letter in enumerate("kmgtp", 1)}}
# fio's default kb_base swaps them
_SUFFIXES.update({f"{letter}i": 1000**power for power, letter in enumerate("kmgtp", 1)})


@dataclass
class Job:
    """One job (of numjobs equal ones) with its options as numbers; sizes in bytes."""

    name: str
    number: int = 1  # fio's thread number, from 1 over all jobs
    clone: int = 0
    stonewall: bool = False
    reads: int = 1
    writes: int = 0
    random: int = 0
    least: tuple[int, int] = (4096, 4096)
    most: tuple[int, int] = (4096, 4096)
    size: int = 0
    io_size: int = 0
    offset: int = 0
    offset_increment: int = 0
    nrfiles: int = 1
    names: list[str] = field(default_factory=list)
    directory: str = ""
    service: str = "roundrobin"
    service_count: int = 1
    rwmixread: int = 50
    norandommap: bool = False
    generator: str = "tausworthe"
    distribution: tuple[str, float, float] = ("random", 0.0, -1.0)
    randseed: int | None = None
    allrandrepeat: bool = False
    fsync: int = 0
    fdatasync: int = 0
    end_fsync: bool = False
    create_fsync: bool = True
    sync: bool = False
    overwrite: bool = False
    fallocate: str = "native"
    loops: int = 1
    number_ios: int = 0
    engine: str = "psync"
    iodepth: int = 1
    unlink: bool = False

    def paths(self) -> list[str]:
        """Return the files of the job, named as fio names them."""
        names = self.names or [f"{self.name}.{self.clone}.{i}" for i in range(self.nrfiles)]
        return [f"{self.directory}/{name}" if self.directory else name for name in names]


def read(path: str) -> list[Job]:
    """Return the jobs of a job file.

    Raises UsageError (one line, with file and line number) for what cannot be modelled.
    """
    try:
        with open(path, "rb") as file:
            content = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise UsageError(f"cannot read {path!r}: {(error.strerror or str(error)).lower()}") from None
    if len(content) > MAX_BYTES:
        raise UsageError(f"{path!r} is longer than {MAX_BYTES >> 20} MiB; is it a fio job file?")
    return parse(content.decode(errors="replace"), pathlib.Path(path).name)


def parse(text: str, where: str = "job") -> list[Job]:
    """Return the jobs in the text of a job file."""
    common: dict[str, tuple[str, str]] = {}
    jobs: list[Job] = []
    section: dict[str, tuple[str, str]] | None = None
    sections: list[tuple[str, dict[str, tuple[str, str]]]] = []
    for number, line in enumerate(text.splitlines(), 1):
        line, at = line.strip(), f"{where}:{number}"
        if not line or line[0] in ";#":
            continue
        if match := re.fullmatch(r"\[(.+)\]", line):
            section = common if match[1] == "global" else dict(common)
            if section is not common:
                sections.append((match[1], section))
        elif section is None:
            raise UsageError(f"{at}: {line[:40]!r} stands before the first [section]; begin with [global] or [NAME]")
        else:
            key, _, value = line.partition("=")
            section[_ALIASES.get(key.strip(), key.strip())] = (value.strip(), at)
    for name, options in sections:
        jobs += _jobs(name, options, len(jobs))
        if len(jobs) > MAX_JOBS:
            raise UsageError(f"{where}: more than {MAX_JOBS} jobs; split the file")
        if sum(len(job.names) or job.nrfiles for job in jobs) > MAX_FILES:
            raise UsageError(f"{where}: more than {MAX_FILES:,} files in all jobs; lower nrfiles or numjobs")
    if not jobs:
        raise UsageError(f"{where}: there is no job in it; write a section [NAME] with options such as rw=randread")
    return jobs


def _jobs(name: str, options: dict[str, tuple[str, str]], before: int) -> list[Job]:
    """Return the clones of one section."""
    made: list[Job] = []
    count = 1
    for key, (value, at) in options.items():
        if key == "numjobs":
            count = _count(value, at, MAX_JOBS)
    for clone in range(count):
        job = Job(name, number=before + clone + 1, clone=clone)
        for key, (value, at) in options.items():
            _set(job, key, value, at)
        job.stonewall = job.stonewall and not clone
        _finish(job)
        made.append(job)
    return made


def _set(job: Job, key: str, value: str, at: str) -> None:
    """Set one option of the job."""
    if "$" in value:
        raise UsageError(f"{at}: variables as in {key}={value} are not replaced here; write the value itself")
    if key in _SETTERS:
        _SETTERS[key](job, value, at)
    elif key not in _WITHOUT_EFFECT and key != "numjobs":
        raise _unsupported(key, at)


def _unsupported(key: str, at: str) -> UsageError:
    if key in ("runtime", "time_based", "timeout", "ramp_time", "startdelay", "thinktime"):
        return UsageError(f"{at}: {key} needs a clock, which a trace has not; use io_size, number_ios or loops instead")
    near = unknown("fio option here", key, [*_SETTERS, "numjobs"])
    return UsageError(f"{at}: option {key!r} is not modelled; take it out ({str(near).partition('; ')[2][:200]})")


def _finish(job: Job) -> None:
    """Apply the rules between options."""
    if job.size < min(job.least):
        raise UsageError(f"job {job.name!r}: size {job.size} is smaller than a block; give size=, such as size=64m")
    if (
        job.offset + job.clone * job.offset_increment + job.size >= 1 << 61
        or max(job.io_size, job.size) * job.loops >= 1 << 61
    ):
        raise UsageError(f"job {job.name!r}: its offsets or bytes go beyond 2 EiB; make it smaller")
    if job.names:
        job.nrfiles = len(job.names)
    if job.engine not in _ASYNCHRONOUS:
        job.iodepth = 1
    if job.distribution[0] != "random":
        job.norandommap = True
    if job.generator == "lfsr" and job.least != job.most:
        raise UsageError(f"job {job.name!r}: random_generator=lfsr needs one block size; drop bsrange")
    if job.random and job.size // min(job.least) > 0xFFFFFFFF:
        raise UsageError(
            f"job {job.name!r}: more than 2^32 blocks need random_generator=tausworthe64, which is not modelled"
        )


def size(text: str, at: str) -> int:
    """Return the bytes in 4096, 4k, 4kb, 64m: k is 1024, and Ki is 1000, as in fio without kb_base."""
    match = re.fullmatch(r"(\d{1,18}|0x[0-9a-f]{1,15})([kmgtp]i?|)b?", text.lower())
    value = int(match[1], 0 if match[1].startswith("0x") else 10) * _SUFFIXES[match[2]] if match else -1
    if not 0 <= value < 1 << 60:
        raise UsageError(f"{at}: {text!r} is not a size; write it like 4096, 4k, 64m or 1g (no per cent)")
    return value


def _count(text: str, at: str, most: int = 1 << 60) -> int:
    if not re.fullmatch(r"\d{1,19}", text) or not 0 <= int(text) <= most:
        raise UsageError(f"{at}: {text!r} is not a number from 0 to {most}")
    return int(text)


def _bool(text: str, at: str) -> bool:
    if text not in ("", "0", "1"):
        raise UsageError(f"{at}: {text!r} is not 0 or 1")
    return text != "0"


def _word(text: str, at: str, allowed: tuple[str, ...]) -> str:
    if text not in allowed:
        raise UsageError(f"{at}: {unknown('choice that is modelled', text, allowed)}")
    return text


def _pair(text: str, at: str) -> tuple[int, int]:
    """Return the sizes of reads and of writes: "4k" or "4k,8k"; a third size (trim) is ignored."""
    parts = text.split(",")
    reads = size(parts[0], at) if parts[0] else 4096
    writes = size(parts[1], at) if len(parts) > 1 and parts[1] else (4096 if len(parts) > 1 else reads)
    if min(reads, writes) < 1:
        raise UsageError(f"{at}: a block of 0 bytes is impossible; write it like bs=4k")
    return reads, writes


def _set_rw(job: Job, value: str, at: str) -> None:
    word, colon, _ = value.partition(":")
    if colon:
        raise UsageError(f"{at}: rw={value} (a modifier after the colon) is not modelled; use rw={word}")
    job.reads, job.writes, job.random = _DIRECTIONS[_word(word, at, tuple(_DIRECTIONS))]


def _set_bs(job: Job, value: str, at: str) -> None:
    job.least = job.most = _pair(value, at)


def _set_bsrange(job: Job, value: str, at: str) -> None:
    ranges = [part.split("-") for part in value.split(",")][:2]
    if any(len(part) != 2 for part in ranges):
        raise UsageError(f"{at}: bsrange={value} is not LOW-HIGH; write it like 1k-4k")
    sizes = [sorted((size(low, at), size(high, at))) for low, high in ranges]
    sizes = sizes if len(sizes) == 2 else 2 * sizes
    if min(sizes[0][0], sizes[1][0]) < 1:
        raise UsageError(f"{at}: a block of 0 bytes is impossible; write it like bsrange=1k-4k")
    job.least, job.most = (sizes[0][0], sizes[1][0]), (sizes[0][1], sizes[1][1])


def _set_distribution(job: Job, value: str, at: str) -> None:
    kind, *numbers = value.split(":")
    _word(kind, at, ("random", "zipf", "pareto"))
    try:
        given = [float(number) for number in numbers]
    except ValueError:
        given = [-1.0] * 3
    default = {"random": 0.0, "zipf": 1.1, "pareto": 0.2}[kind]
    given += [default, -1.0][len(given) :]
    good = kind == "random" or (kind == "zipf" and 0 < given[0] < 100 and given[0] != 1) or 0 < given[0] < 1
    if len(given) != 2 or not good or not (given[1] == -1 or 0 <= given[1] <= 1):
        raise UsageError(f"{at}: {value!r} is not a distribution; write zipf:1.2, zipf:1.2:0.5 (centre) or pareto:0.3")
    job.distribution = (kind, given[0], given[1])


def _set_service(job: Job, value: str, at: str) -> None:
    kind, _, count = value.partition(":")
    _word(kind, at, ("roundrobin", "sequential", "random"))
    job.service, job.service_count = kind, max(1, _count(count, at)) if count else 1


def _set_randrepeat(job: Job, value: str, at: str) -> None:
    if not _bool(value, at):
        raise UsageError(f"{at}: randrepeat=0 draws from the system and cannot be repeated; leave it out")


def _set_filename(job: Job, value: str, at: str) -> None:
    job.names = [part for part in value.split(":") if part]
    if not job.names or len(job.names) > MAX_FILES:
        raise UsageError(f"{at}: filename={value[:40]} names no file")


def _set_sync(job: Job, value: str, at: str) -> None:
    job.sync = _word(value or "1", at, ("0", "1", "none", "sync", "dsync")) not in ("0", "none")


def _set_rwmixwrite(job: Job, value: str, at: str) -> None:
    job.rwmixread = 100 - _count(value, at, 100)


def _set_stonewall(job: Job, value: str, at: str) -> None:
    job.stonewall = True


def _as(name: str, read: Callable[[str, str], object]) -> Callable[[Job, str, str], None]:
    """Return the setter of an option that is one field of a job."""
    return lambda job, value, at: setattr(job, name, read(value, at))


def _at_least_one(most: int) -> Callable[[str, str], int]:
    return lambda value, at: max(1, _count(value, at, most))


def _one_of(*allowed: str) -> Callable[[str, str], str]:
    return lambda value, at: _word(value, at, allowed)


_SETTERS: dict[str, Callable[[Job, str, str], None]] = {
    "rw": _set_rw,
    "bs": _set_bs,
    "bsrange": _set_bsrange,
    "random_distribution": _set_distribution,
    "file_service_type": _set_service,
    "randrepeat": _set_randrepeat,
    "filename": _set_filename,
    "sync": _set_sync,
    "rwmixwrite": _set_rwmixwrite,
    "stonewall": _set_stonewall,
    **{name: _as(name, size) for name in ("size", "io_size", "offset", "offset_increment")},
    **{name: _as(name, _count) for name in ("fsync", "fdatasync", "number_ios", "randseed")},
    **{
        name: _as(name, _bool)
        for name in ("norandommap", "allrandrepeat", "end_fsync", "create_fsync", "overwrite", "unlink")
    },
    "rwmixread": _as("rwmixread", lambda value, at: _count(value, at, 100)),
    "nrfiles": _as("nrfiles", _at_least_one(MAX_FILES)),
    "loops": _as("loops", _at_least_one(1 << 30)),
    "iodepth": _as("iodepth", _at_least_one(1 << 16)),
    "directory": _as("directory", lambda value, at: value.rstrip("/")),
    "name": _as("name", lambda value, at: value),
    "ioengine": _as("engine", _one_of(*_ENGINES)),
    "random_generator": _as("generator", _one_of("tausworthe", "lfsr")),
    "fallocate": _as("fallocate", _one_of("native", "none", "posix", "keep", "truncate", "0", "1")),
}
