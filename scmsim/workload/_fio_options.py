"""fio's options: how each is read into a Job, which change no call, and which cannot be modelled, with the reason."""

import re
from collections.abc import Callable

from scmsim.core.errors import UsageError, unknown
from scmsim.workload._fio_job import ENGINES, Job, Split

MAX_JOBS = 4096
MAX_FILES = 1 << 20
_MAX_PARTS = 64  # parts of bssplit and of zoned (fio: BSSPLIT_MAX)

ALIASES = {
    "readwrite": "rw", "blocksize": "bs", "blocksize_range": "bsrange", "io_limit": "io_size", "iomem": "mem",
    "iodepth_batch_submit": "iodepth_batch", "iodepth_batch_complete": "iodepth_batch_complete_min",
    "wait_for_previous": "stonewall", "fileoffset": "offset", "blockalign": "ba", "blocksize_unaligned": "bs_unaligned",
    "nr_files": "nrfiles", "timeout": "runtime", "mem_align": "iomem_align", "ratemin": "rate_min", "ratecycle": "rate_cycle",
    "disable_bw": "disable_bw_measurement", "ss": "steadystate", "ss_dur": "steadystate_duration",
    "ss_ramp": "steadystate_ramp_time", "fill_fs": "fill_device", "threads": "thread",
}  # fmt: skip
# Options that change neither which calls a job makes nor their order.
WITHOUT_EFFECT = frozenset(
    """
    allow_file_create allow_mounted_write atomic buffer_compress_chunk buffer_compress_percentage buffer_pattern buffered bwavgtime
    clat_percentiles clocksource cmdprio cmdprio_bssplit cmdprio_class cmdprio_percentage continue_on_error cpumask
    cpus_allowed cpus_allowed_policy create_serialize dedupe_global dedupe_mode dedupe_percentage dedupe_working_set_percentage
    description direct disable_bw_measurement disable_clat disable_lat disable_slat disk_util error_dump fadvise_hint fixedbufs
    force_async gtod_cpu gtod_reduce group_reporting hipri hipri_percentage hugepage-size ignore_error invalidate io_submit_mode
    iodepth_batch iodepth_batch_complete_max iodepth_batch_complete_min iodepth_low iomem_align iopsavgtime lat_percentiles
    lockmem log_alternate_epoch log_alternate_epoch_clock_id log_avg_msec log_compression log_compression_cpus log_entries
    log_hist_coarseness log_hist_msec log_max_value log_offset log_prio log_store_compressed log_unix_epoch mem new_group nice
    nonvectored norandommap_warn nowait numa_cpu_nodes numa_mem_policy per_job_logs percentile_list prio prioclass
    refill_buffers registerfiles scramble_buffers serialize_overlap significant_figures slat_percentiles softrandommap
    sqthread_poll sqthread_poll_cpu stat_type stats thp thread uncached unified_rw_reporting unit_base uid gid userspace_reap
    verify_async verify_async_cpus verify_dump verify_fatal verify_interval verify_offset verify_pattern verify_state_save
    verify_write_sequence verifysort verifysort_nr write_bw_log write_hist_log write_hint write_iolog write_iops_log
    write_lat_log zero_buffers
    """.split()
)  # fmt: skip
# Options of the clock: they set when a call is made or when the job stops early; the calls before that stay the same.
PACING = frozenset(
    """
    latency_percentile latency_run latency_target latency_window max_latency rate_cycle rate_ignore_thinktime rate_process
    runtime startdelay steadystate steadystate_check_interval steadystate_duration steadystate_ramp_time thinktime
    thinktime_blocks thinktime_blocks_type thinktime_iotime thinktime_spin flow_id flow_sleep flow_watermark
    """.split()
)
_REFUSED = {
    "exitall": "exitall ends all jobs when the first one ends, which only the clock decides; take it out",
    "exit_what": "exit_what goes with exitall, which only the clock decides; take it out",
    "verify_backlog": "verify_backlog mixes reads into the writes, which is not modelled; take verify_backlog out",
    "read_iolog": "read_iolog replays a log; convert the log itself: scmsim trace convert LOG OUT.parquet",
    "include": "include is not followed; put the lines of that file in its place",
    "kb_base": "kb_base changes the meaning of k; take kb_base out and write the sizes for kb_base=1024",
}
# PACING and the options of the clock whose values are checked
PACED = PACING | {"rate", "rate_iops", "rate_min", "rate_iops_min", "flow"}
_DIRECTIONS = {
    "read": (1, 0, 0), "write": (0, 1, 0), "rw": (1, 1, 0), "readwrite": (1, 1, 0),
    "randread": (1, 0, 1), "randwrite": (0, 1, 1), "randrw": (1, 1, 1), "trim": (1, 0, 0), "randtrim": (1, 0, 1),
}  # fmt: skip
_TRIMS = ("trim", "randtrim")
_SYNCS = ("0", "1", "none", "sync", "dsync")
_SUFFIXES = {"": 1, **{letter: 1024**power for power, letter in enumerate("kmgtp", 1)}}
# fio's default, kb_base=1024, swaps the units: k is 1024, ki is 1000
_SUFFIXES.update({f"{letter}i": 1000**power for power, letter in enumerate("kmgtp", 1)})
_TIME = re.compile(r"\d{1,12}(d|h|m|s|ms|us|)")


def set_option(job: Job, key: str, value: str, at: str) -> None:
    """Set one option of the job; raise UsageError for an option that is not modelled."""
    if key in SETTERS:
        if "$" in value and key != "filename_format":
            example = re.search(r"\$\{(\w+)\}", value)
            said = f"set {example[1]}=VALUE" if example else "write the value itself"
            raise UsageError(f"{at}: the variable in {key}={value} has no value here; {said}")
        SETTERS[key](job, value, at)
    elif key in PACING:
        if key in ("runtime", "startdelay", "thinktime") and not all(map(_TIME.fullmatch, re.split("[,-]", value))):
            raise UsageError(f"{at}: {key}={value} is not a time; write it like 60, 90s or 5m")
    elif key not in WITHOUT_EFFECT and key != "numjobs":
        raise UsageError(f"{at}: {_REFUSED[key]}") if key in _REFUSED else _unsupported(key, at)


def _unsupported(key: str, at: str) -> UsageError:
    near = str(unknown("fio option here", key, [*SETTERS, "numjobs", *PACING])).partition("; ")[2]
    hint = near.partition("? ")[0] + "?" if near.startswith("did you mean") else "see the list in the guide"
    return UsageError(f"{at}: option {key!r} is not modelled; take it out ({hint})")


def size(text: str, at: str, percent: bool = False) -> int:
    """Parse 4096, 4k, 4kb or 64m to bytes; k is 1024, and Ki is 1000, as in fio without kb_base."""
    match = re.fullmatch(r"(\d{1,18}|0x[0-9a-f]{1,15})([kmgtp]i?|)b?", text.lower())
    value = int(match[1], 0 if match[1].startswith("0x") else 10) * _SUFFIXES[match[2]] if match else -1
    if not 0 <= value < 1 << 60:
        form = "4096, 4k, 64m, 1g or 50%" if percent else "4096, 4k, 64m or 1g (a percentage is not allowed here)"
        raise UsageError(f"{at}: {text!r} is not a size; write it like {form}")
    return value


def count(text: str, at: str, most: int = 1 << 60) -> int:
    """Return the whole number in a text; raise UsageError unless it is from 0 to `most`."""
    if not re.fullmatch(r"[0-9]{1,19}", text) or not 0 <= int(text) <= most:
        raise UsageError(f"{at}: {text!r} is not a number from 0 to {most}")
    return int(text)


def _bool(text: str, at: str) -> bool:
    if text not in ("", "0", "1"):
        raise UsageError(f"{at}: {text!r} is not 0 or 1")
    return text != "0"


def _word(text: str, at: str, allowed: tuple[str, ...]) -> str:
    if text not in allowed:
        raise UsageError(f"{at}: {unknown('modelled choice', text, allowed)}")
    return text


def _pair(text: str, at: str, default: int = 4096, least: int = 1) -> tuple[int, int]:
    """Return the sizes of reads and of writes: "4k" or "4k,8k"; a third size (trim) is ignored."""
    parts = text.split(",")
    reads = size(parts[0], at) if parts[0] else default
    writes = size(parts[1], at) if len(parts) > 1 and parts[1] else (default if len(parts) > 1 else reads)
    if min(reads, writes) < least:
        raise UsageError(f"{at}: a block of 0 bytes is impossible; write it like bs=4k")
    return reads, writes


def _set_rw(job: Job, value: str, at: str) -> None:
    word, colon, after = value.partition(":")
    if word in ("trimwrite", "randtrimwrite"):
        raise UsageError(f"{at}: rw={word} discards blocks, which a trace does not hold; use reads or writes")
    job.trims = at if word in _TRIMS else ""
    job.reads, job.writes, job.random = _DIRECTIONS[_word(word, at, tuple(_DIRECTIONS))]
    job.sequence, job.seq_add = 1, 0
    if colon and job.random:
        job.sequence = count(after, at, 1 << 30)
        if not job.sequence:
            raise UsageError(f"{at}: rw={value} repeats its first offset for ever; write a number of at least 1")
    elif colon:
        job.seq_add = size(after.removeprefix("-"), at) * (-1 if after.startswith("-") else 1)


def _set_bsrange(job: Job, value: str, at: str) -> None:
    ranges = [part.split("-") for part in value.split(",")][:2]
    if any(len(part) != 2 for part in ranges):
        raise UsageError(f"{at}: bsrange={value} is not LOW-HIGH; write it like 1k-4k")
    low_high = [(min(pair), max(pair)) for pair in ((size(low, at), size(high, at)) for low, high in ranges)]
    if min(low for low, _ in low_high) < 1:
        raise UsageError(f"{at}: a block of 0 bytes is impossible; write it like bsrange=1k-4k")
    job.bsrange = low_high[0], low_high[-1]


def _parts(text: str, at: str) -> list[tuple[str, int | None]]:
    """Return (value, share in per cent) for each part of A/30:B/70; a share that is left out is None."""
    parts = [part.partition("/") for part in text.split(":") if part]
    if not 0 < len(parts) <= _MAX_PARTS:
        raise UsageError(f"{at}: {text[:40]!r} is not a list of 1 to {_MAX_PARTS} parts such as 4k/60:64k/40")
    return [(value, min(count(share, at), 100) or None if share else None) for value, _, share in parts]


def _set_bssplit(job: Job, value: str, at: str) -> None:
    job.bssplit = tuple(_bssplit(part, at) if part else () for part in _both(value))  # type: ignore[assignment]


def _both(value: str) -> tuple[str, str]:
    """Return the parts of a value for reads and for writes; a single part is for both."""
    parts = value.split(",")
    return parts[0], parts[1] if len(parts) > 1 else parts[0]


def _bssplit(text: str, at: str) -> Split:
    parts = _parts(text, at)
    given = sum(share for _, share in parts if share is not None)
    missing = sum(share is None for _, share in parts)
    if given > 100:
        raise UsageError(f"{at}: the shares of bssplit add up to {given} per cent; let them add up to 100")
    rest = 100 if len(parts) == 1 and missing else (100 - given) // max(missing, 1)
    found = [(size(value, at), rest if share is None else share) for value, share in parts]
    if min(found)[0] < 1:
        raise UsageError(f"{at}: a block of 0 bytes is impossible; write it like bssplit=4k/60:64k/40")
    # glibc's qsort is a merge sort for so few parts: it keeps the order of equal shares
    return tuple(sorted(found, key=lambda part: part[1]))


def _set_distribution(job: Job, value: str, at: str) -> None:
    kind, _, rest = value.partition(":")
    _word(kind, at, ("random", "zipf", "pareto", "zoned"))
    if kind == "zoned":
        job.zones = tuple(_zones(part, at) if part else () for part in _both(rest))  # type: ignore[assignment]
        job.distribution = (kind, 0.0, -1.0)
        return
    try:
        given = [float(number) for number in rest.split(":") if rest]
    except ValueError:
        given = [-1.0] * 3
    default = {"random": 0.0, "zipf": 1.1, "pareto": 0.2}[kind]
    given += [default, -1.0][len(given) :]
    good = kind == "random" or (kind == "zipf" and 0 < given[0] < 100 and given[0] != 1) or 0 < given[0] < 1
    if len(given) != 2 or not good or not (given[1] == -1 or 0 <= given[1] <= 1):
        raise UsageError(f"{at}: {value!r} is not a distribution; write zipf:1.2, zipf:1.2:0.5 (centre) or pareto:0.3")
    job.distribution = (kind, given[0], given[1])


def _zones(text: str, at: str) -> Split:
    """Return (share of the accesses, share of the file) of each zone, in per cent; zones without a share divide the rest."""
    parts = [(count(accesses, at, 100), width) for accesses, width in _parts(text, at)]
    accesses, widths = sum(share for share, _ in parts), sum(width or 0 for _, width in parts)
    missing = sum(width is None for _, width in parts)
    found = tuple((share, (100 - widths) // missing if width is None else width) for share, width in parts)
    if accesses != 100 or sum(width for _, width in found) != 100 or any(not width for _, width in found):
        raise UsageError(f"{at}: the shares of zoned must add up to 100, as in zoned:60/10:40/90")
    return found


def _set_service(job: Job, value: str, at: str) -> None:
    kind, _, number = value.partition(":")
    _word(kind, at, ("roundrobin", "sequential", "random"))
    job.service, job.service_count = kind, max(1, count(number, at)) if number else 1


def _names(value: str) -> list[str]:
    return [part.replace("\\:", ":") for part in re.split(r"(?<!\\):", value) if part]


def _set_filename(job: Job, value: str, at: str) -> None:
    job.names = _names(value)
    if not job.names or len(job.names) > MAX_FILES:
        raise UsageError(f"{at}: filename={value[:40]} names no file")
    for name in job.names:
        if name == "-" or re.fullmatch(r"/dev/(null|zero|full|stdin|stdout|u?random)", name):
            raise UsageError(f"{at}: {name} is not a regular file; name a file in a file system")


def _set_rate(name: str) -> Callable[[Job, str, str], None]:
    def setter(job: Job, value: str, at: str) -> None:
        job.rate = f"{at}: {name}" if any(size(part, at) for part in value.split(",") if part) else ""

    return setter


def _set_percent_random(job: Job, value: str, at: str) -> None:
    shares = [count(part, at, 100) for part in value.split(",")[:2]]
    job.percent_random = shares[0], shares[-1]


def _set_file_size(job: Job, value: str, at: str) -> None:
    low, dash, high = value.partition("-")
    sizes = sorted((size(low, at), size(high if dash else low, at)))
    job.file_size = sizes[0], sizes[1]


def _set_verify(job: Job, value: str, at: str) -> None:
    word = value.partition(":")[0] or "1"
    if not re.fullmatch(r"[a-z0-9_-]{1,20}", word):
        raise UsageError(f"{at}: verify={value[:40]} is not a method; write it like verify=crc32c")
    job.verify = word not in ("0", "none")


def _set_zonemode(job: Job, value: str, at: str) -> None:
    if value == "zbd":
        raise UsageError(f"{at}: zonemode=zbd needs a zoned device and is not modelled; take it out")
    job.zonemode = _word(value, at, ("none", "strided"))


def _only(name: str, *allowed: str) -> Callable[[Job, str, str], None]:
    """Return the setter of an option whose only modelled values are `allowed`, which change no call."""

    def setter(job: Job, value: str, at: str) -> None:
        if value not in allowed:
            raise UsageError(f"{at}: {name}={value} is not modelled; take it out")

    return setter


def _only_without(name: str, why: str) -> Callable[[Job, str, str], None]:
    """Return the setter of an option that must be 0, for the reason `why`."""

    def setter(job: Job, value: str, at: str) -> None:
        if value.strip("0smh"):
            raise UsageError(f"{at}: {name} {why}; add {name}=0")

    return setter


def _as(name: str, read: Callable[[str, str], object]) -> Callable[[Job, str, str], None]:
    """Return the setter of an option that is one field of a job."""
    return lambda job, value, at: setattr(job, name, read(value, at))


def _share(name: str, share: str, most: int = 100) -> Callable[[Job, str, str], None]:
    """Return the setter of an option that is a size or a percentage."""

    def setter(job: Job, value: str, at: str) -> None:
        percent = count(value[:-1], at, most) if value.endswith("%") else 0
        setattr(job, share, percent)
        setattr(job, name, 0 if value.endswith("%") else size(value, at, percent=True))

    return setter


def _at_least_one(most: int) -> Callable[[str, str], int]:
    return lambda value, at: max(1, count(value, at, most))


def _one_of(*allowed: str) -> Callable[[str, str], str]:
    return lambda value, at: _word(value, at, allowed)


SETTERS: dict[str, Callable[[Job, str, str], None]] = {
    "rw": _set_rw,
    "bs": _as("bs", _pair),
    "bsrange": _set_bsrange,
    "bssplit": _set_bssplit,
    "ba": _as("align", lambda value, at: _pair(value, at, 0, 0)),
    "random_distribution": _set_distribution,
    "file_service_type": _set_service,
    "filename": _set_filename,
    "sync": _as("sync", lambda value, at: _word(value or "1", at, _SYNCS) not in ("0", "none")),
    "rwmixwrite": _as("rwmixread", lambda value, at: 100 - count(value, at, 100)),
    "stonewall": _as("stonewall", _bool),
    "time_based": _as("time_based", lambda value, at: at if _bool(value, at) else ""),
    "percentage_random": _set_percent_random,
    "filesize": _set_file_size,
    "verify": _set_verify,
    "zonemode": _set_zonemode,
    "size": _share("size", "size_percent"),
    "io_size": _share("io_size", "io_size_percent"),
    "offset": _share("offset", "offset_percent"),
    "offset_increment": _share("offset_increment", "increment_percent"),
    **{name: _set_rate(name) for name in ("rate", "rate_iops", "rate_min", "rate_iops_min")},
    **{name: _only(name, "0") for name in ("file_append", "pre_read", "create_only", "fsync_on_close", "unlink_each_loop")},
    **{name: _only(name, "0") for name in ("bs_is_seq_rand", "write_barrier", "verify_only", "experimental_verify")},
    **{name: _only(name, "0") for name in ("exitall_on_error", "trim_percentage", "sprandom", "opendir")},
    "create_on_open": _as("create_on_open", _bool),
    "ramp_time": _only_without(
        "ramp_time", "leaves the transfers of a job's first seconds out, and a generated trace has no clock"
    ),
    "fill_device": _as("fill_device", _bool),
    "direct": _as("direct", _bool),
    "buffered": _as("direct", lambda value, at: not _bool(value, at)),
    "zonesize": _as("zone_size", size),
    "zonerange": _as("zone_range", size),
    "zoneskip": _as("zone_skip", size),
    "offset_align": _as("offset_align", size),
    **{name: _as(name, count) for name in ("fsync", "fdatasync", "number_ios", "randseed")},
    **{
        name: _as(name, _bool)
        for name in (
            "norandommap", "allrandrepeat", "randrepeat", "end_fsync", "create_fsync", "overwrite", "unlink", "do_verify",
        )
    },
    "bs_unaligned": _as("unaligned", _bool),
    "rwmixread": _as("rwmixread", lambda value, at: count(value, at, 100)),
    "rw_sequencer": _as("sequencer", _one_of("sequential", "identical")),
    "nrfiles": _as("nrfiles", _at_least_one(MAX_FILES)),
    "openfiles": _as("openfiles", lambda value, at: count(value, at, MAX_FILES)),
    "loops": _as("loops", _at_least_one(1 << 30)),
    "iodepth": _as("iodepth", _at_least_one(1 << 16)),
    "flow": _as("flow", lambda value, at: count(value.removeprefix("-"), at, 1 << 20)),
    "directory": _as("directory", lambda value, at: [part.rstrip("/") or "/" for part in _names(value)]),
    "filename_format": _as("name_format", lambda value, at: value),
    "name": _as("title", lambda value, at: value),
    "wait_for": _as("wait_for", lambda value, at: value),
    "ioengine": _as("engine", _one_of(*ENGINES)),
    "random_generator": _as("generator", _one_of("tausworthe", "lfsr")),
    "fallocate": _as("fallocate", _one_of("native", "none", "posix", "keep", "truncate", "0", "1")),
}  # fmt: skip
