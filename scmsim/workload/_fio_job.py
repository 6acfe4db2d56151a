"""One fio job with its options as numbers, and the rules between options (fio 3.33, init.c: fixup_options)."""

from dataclasses import dataclass, field

from scmsim.core.errors import UsageError

ASYNCHRONOUS = ("libaio", "io_uring", "posixaio")
TRANSFERS = (
    "psync",
    "sync",
    "pvsync",
    "pvsync2",
    "vsync",
    *ASYNCHRONOUS,
)  # engines that read and write with system calls
FOLDERS = ("dircreate", "dirstat", "dirdelete")  # fio 3.37 and later
BY_OPENING = ("filecreate", "filestat", "filedelete", *FOLDERS)  # engines whose work is done by opening a file
ENGINES = (*TRANSFERS, "mmap", "ftruncate", "falloc", *BY_OPENING)

Split = tuple[tuple[int, int], ...]  # (bytes or per cent, per cent) of each part


@dataclass
class Job:
    """One job (of numjobs equal jobs) with its options as numbers; sizes in bytes, shares in per cent."""

    name: str
    number: int = 1  # fio's thread number, from 1 over all jobs
    clone: int = 0
    title: str = ""  # the option `name`, to which wait_for refers
    stonewall: bool = False
    wait_for: str = ""
    reads: int = 1
    writes: int = 0
    random: int = 0
    trims: str = ""  # file and line of rw=trim if it is set; the job's reads are then trims
    bs: tuple[int, int] = (4096, 4096)
    bsrange: tuple[tuple[int, int] | None, ...] = (None, None)  # of reads and of writes
    bssplit: tuple[Split, Split] = ((), ())
    unaligned: bool = False
    align: tuple[int, int] = (0, 0)
    size: int = 0
    size_percent: int = 0
    io_size: int = 0
    io_size_percent: int = 0
    file_size: tuple[int, int] = (0, 0)
    offset: int = 0
    offset_percent: int = 0
    offset_align: int = 0
    offset_increment: int = 0
    increment_percent: int = 0
    sequence: int = 1  # N of rw=randread:N
    seq_add: int = 0  # bytes of rw=read:-8k
    sequencer: str = "sequential"
    percent_random: tuple[int, int] = (100, 100)
    nrfiles: int = 1
    openfiles: int = 0
    names: list[str] = field(default_factory=list)
    name_format: str = ""
    directory: list[str] = field(default_factory=list)
    service: str = "roundrobin"
    service_count: int = 1
    rwmixread: int = 50
    norandommap: bool = False
    generator: str = "tausworthe"
    distribution: tuple[str, float, float] = ("random", 0.0, -1.0)
    zones: tuple[Split, Split] = ((), ())  # zones of random_distribution=zoned, for reads and for writes
    zonemode: str = ""
    zone_size: int = 0
    zone_range: int = 0
    zone_skip: int = 0
    randseed: int | None = None
    randrepeat: bool = True
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
    depth_given: int = 1  # iodepth as given; `iodepth` is 1 for engines without a queue
    unlink: bool = False
    create_on_open: bool = False
    fill_device: bool = False
    direct: bool = False
    verify: bool = False
    do_verify: bool = True
    time_based: str = ""  # file and line of the option if it is set
    rate: str = ""
    flow: int = 0

    @property
    def least(self) -> tuple[int, int]:
        """Return the smallest block size of reads and of writes, in bytes."""
        return self._bounds(0), self._bounds(1)

    @property
    def most(self) -> tuple[int, int]:
        """Return the largest block size of reads and of writes, in bytes."""
        return self._bounds(0, largest=True), self._bounds(1, largest=True)

    def _bounds(self, what: int, largest: bool = False) -> int:
        if self.bssplit[what]:
            sizes = [size for size, _ in self.bssplit[what]]
            return max(sizes) if largest else min(sizes)
        limits = self.bsrange[what]
        return limits[largest] if limits else self.bs[what]

    @property
    def repeats(self) -> bool:
        """Return whether each pass draws the same numbers."""
        return self.randrepeat and self.randseed is None

    @property
    def blocks_by_number(self) -> bool:
        """Return whether the offsets depend on the job's number only, and not on its other seeds.

        fio seeds a section's first job before randseed switches randrepeat off, and its clones after that.
        """
        return self.randrepeat and (self.randseed is None or not self.clone)

    def paths(self) -> list[str]:
        """Return the files of the job, named as fio names them."""
        names = self.names or [self._made_name(i) for i in range(self.nrfiles)]
        folder = self.directory[self.clone % len(self.directory)] if self.directory else ""
        return [f"{folder}/{name}" if folder else name for name in names]

    def _made_name(self, i: int) -> str:
        if not self.name_format:
            return f"{self.name}.{self.clone}.{i}"
        text = self.name_format
        for keyword, value in (("$jobname", self.name), ("$jobnum", self.clone), ("$filenum", i)):
            text = text.replace(keyword, str(value))
        return text


@dataclass
class Ranges:
    """For each file of a job: first byte, bytes of the range, size of the file, and whether the job makes the file.

    `again` is the first byte in later passes, when fio applies a percentage to the size that the file then has.
    """

    start: list[int]
    again: list[int]
    span: list[int]
    end: list[int]
    made: list[bool]
    total: int  # bytes of one pass


def finish(job: Job) -> None:
    """Apply the rules between options; raise UsageError for combinations that cannot be modelled."""
    if job.time_based:
        raise UsageError(
            f"{job.time_based}: time_based starts the job again until its runtime is over, and a trace has no clock; "
            "add time_based=0, with which the job ends after one pass, or loops=N"
        )
    if job.rate and job.reads and job.writes:
        raise UsageError(
            f"{job.rate} of a mixed job is not modelled, since fio then chooses read or write by time; take the option out"
        )
    if job.names:
        job.nrfiles = len(job.names)
    job.title = job.title or job.name
    if job.fill_device:
        job.fallocate = "none"
    job.depth_given = job.iodepth
    if job.engine not in ASYNCHRONOUS:
        job.iodepth = 1
    _finish_blocks(job)
    _finish_zones(job)
    _finish_engine(job)
    if job.openfiles == 1 and job.service == "roundrobin":
        job.service = "sequential"  # a second file is opened when the first one is done
    elif 0 < job.openfiles < job.nrfiles:
        raise _wrong(job, "openfiles between 1 and the number of files is not modelled; take openfiles out")


def _finish_blocks(job: Job) -> None:
    job.align = tuple(  # type: ignore[assignment]
        align if align and job.random else least for align, least in zip(job.align, job.least, strict=True)
    )
    if job.align != job.least or job.distribution[0] != "random":
        job.norandommap = True
    if job.unaligned and job.random and not job.norandommap:
        raise _wrong(job, "bs_unaligned with a random map is not modelled; add norandommap=1")
    if job.generator == "lfsr" and (job.least != job.most or job.least[0] != job.least[1]):
        raise _wrong(job, "random_generator=lfsr needs one block size; drop bsrange and bssplit")
    if job.norandommap and job.generator == "lfsr" and job.distribution[0] == "zoned":
        raise _wrong(job, "zoned with random_generator=lfsr is not modelled; take random_generator out")
    if any(job.bssplit) and any(job.bsrange):
        raise _wrong(job, "bssplit and bsrange exclude each other; take one of them out")
    if any(share == 0 for split in job.bssplit for _, share in split):
        raise _wrong(job, "the shares of bssplit leave 0 per cent for a block size; make all shares add up to 100")
    if 0 < job.size < min(job.least):
        raise _wrong(job, f"size {job.size} is smaller than a block; give a larger size, or a smaller bs")


def _finish_zones(job: Job) -> None:
    if job.zonemode != "strided" and job.zone_size:
        raise _wrong(job, "zonesize needs zonemode=strided; add zonemode=strided")
    if job.zonemode == "strided" and not job.zone_size:
        raise _wrong(job, "zonemode=strided needs a zonesize, such as zonesize=1m")
    if job.zonemode != "strided" or job.openfiles > 1:
        job.zone_size = job.zone_range = job.zone_skip = 0
    elif not job.zone_range:
        job.zone_range = job.zone_size
    if job.zone_size and job.random and not job.norandommap and job.least != job.most:
        raise _wrong(job, "zones with a random map and several block sizes are not modelled; add norandommap=1")
    if job.zone_size and (job.distribution[0] not in ("random", "zoned") or job.zone_range < max(job.most)):
        raise _wrong(
            job, "zones smaller than a block, or with a skewed distribution, are not modelled; change zonesize"
        )


def _finish_engine(job: Job) -> None:
    if job.create_on_open and job.engine not in ("filecreate", "dircreate"):
        raise _wrong(job, "create_on_open=1 is modelled for the engines filecreate and dircreate only; take it out")
    if job.trims and job.engine != "falloc":
        text = "discards blocks, which a trace does not hold, except with the engine falloc; use reads or writes"
        raise UsageError(f"{job.trims}: rw=trim {text}")
    if job.trims and (job.least[0] != job.least[1] or job.most[0] != job.most[1] or job.verify):
        raise _wrong(job, "rw=trim with a separate block size, or with verify, is not modelled; give one block size")
    if job.fill_device and not job.size and not job.file_size[0]:
        raise _wrong(job, "fill_device writes until the file system is full, whose size is not known; add size=")
    if job.engine == "vsync" and job.depth_given > 1:
        raise _wrong(job, "vsync with a queue leaves a file open at its end, which is not modelled; use iodepth=1")
    if job.engine in ("io_uring", "posixaio") and job.iodepth > 1 and (job.fsync or job.fdatasync):
        raise _wrong(job, f"how many syncs {job.engine} queues depends on the clock; use iodepth=1 or ioengine=libaio")
    if job.engine == "ftruncate" and job.reads:
        raise _wrong(job, "the engine ftruncate fails for reads; use rw=write or rw=randwrite")
    if job.engine not in (*TRANSFERS, "mmap") and (job.verify or job.fsync or job.fdatasync or job.end_fsync):
        raise _wrong(job, f"verify and syncs with the engine {job.engine} are not modelled; take them out")
    if job.engine in ("mmap", "filedelete", *FOLDERS) and (
        job.loops > 1 or job.io_size or job.offset or job.verify or job.zone_size
    ):
        text = "with loops, io_size, offset, verify or zones is not modelled; take these out"
        raise _wrong(job, f"the engine {job.engine} {text}")
    if job.engine == "mmap" and min(job.least) % 4096 and (job.direct or job.fsync or job.fdatasync):
        raise _wrong(job, "the engine mmap with direct, fsync or fdatasync needs blocks of whole pages, such as bs=4k")
    if job.engine in ("filedelete", *FOLDERS) and job.unlink:
        raise _wrong(job, f"unlink=1 with the engine {job.engine} is not modelled; use unlink=0")
    if job.verify and job.writes and (job.io_size or job.number_ios or (job.loops > 1 and job.reads)):
        raise _wrong(
            job, "verify with io_size or number_ios, or of a mixed job with loops, is not modelled; take it out"
        )


def _wrong(job: Job, text: str) -> UsageError:
    return UsageError(f"job {job.name!r}: {text}")
