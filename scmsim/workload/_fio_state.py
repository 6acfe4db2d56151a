"""Build the state of an fio job's compiled loop: seeds, maps and distributions.

Source: fio 3.33, init.c (setup_random_seeds, td_fill_rand_seeds), filesetup.c (setup_files, __init_rand_distribution,
init_random_map), lib/lfsr.c (taps: R. W. Ward and T. C. A. Molteno's table), hash.h (jhash of B. Jenkins).
"""

import numpy as np

from scmsim.core.records import NEVER
from scmsim.workload._fio_job import ASYNCHRONOUS, Job, Ranges
from scmsim.workload.kernels import fio_job
from scmsim.workload.kernels.fio_random import LEVELS, PARETO, WORD, ZIPF

_SEED = 0xB1899BED  # seed of the random states that repeat from run to run
_RANDSEED = 0x89  # default of the option randseed
_MULTIPLIER = 0x9E370001
_LONG = (1 << 64) - 1
# indices in fio's list of seeds
_OFFSETS = {
    "read size": 0, "write size": 1, "trim size": 2, "mix": 4, "file": 5, "block": 6, "file size": 7, "sequential": 10, "zone": 16,
}  # fmt: skip
_ZETA_TERMS = 10_000_000  # most terms that fio sums
_TAPS = (
    "3 2|4 3|5 3|6 5|7 6|8 6 5 4|9 5|10 7|11 9|12 6 4 1|13 4 3 1|14 5 3 1|15 14|16 15 13 4|17 14|18 11|19 6 2 1|20 17|21 19|22 21|"
    "23 18|24 23 22 17|25 22|26 6 2 1|27 5 2 1|28 25|29 27|30 6 4 1|31 28|32 31 29 1|33 20|34 27 2 1|35 33|36 25|37 5 4 3 2 1|"
    "38 6 5 1|39 35|40 38 21 19"
)


class State:
    """State of one job: record arrays `job` (one JOB) and `files` (FILE), and bit maps of the files' finished blocks (`maps`)."""

    def __init__(self, job: Job, ranges: Ranges) -> None:
        self.source = job
        self.job = np.zeros(1, fio_job.JOB)
        self.files = np.zeros(job.nrfiles, fio_job.FILE)
        j = self.job[0]
        for name in ("reads", "writes", "random", "least", "most", "align", "fsync", "fdatasync", "service_count"):
            j[name] = getattr(job, name)
        for name in ("sequence", "seq_add", "percent_random", "zone_size", "zone_range", "zone_skip", "unaligned"):
            j[name] = getattr(job, name)
        j["until_fresh"], j["repeats"] = 1, job.sequencer == "identical"
        j["mix"], j["current"], j["ios_limit"] = job.rwmixread, -1, job.number_ios * job.loops
        j["service"] = ("roundrobin", "sequential", "random").index(job.service)
        j["bytes_limit"] = (job.io_size or ranges.total) * job.loops
        # fio counts the bytes of a pass only where the engine queues them
        j["pass_limit"] = NEVER
        if job.engine in (*ASYNCHRONOUS, "vsync"):
            j["pass_limit"] = max(ranges.total, job.io_size if job.writes and job.random and job.norandommap else 0)
        self._choose_places(j)
        for what, split in enumerate(job.bssplit):
            j["parts"][what] = len(split)
            for i, part in enumerate(split):
                j["splits"][what, i] = part
        self.seeds = seeds(job)
        self.reseed()
        words = 0
        self.files["start"], self.files["origin"] = ranges.start, ranges.again
        for f, path, span, end in zip(self.files, job.paths(), ranges.span, ranges.end, strict=True):
            f["span"], f["end"] = span, end
            f["last"] = -1
            reach = min(span, end)
            if job.random:
                words += self._map(f, (job.zone_range or reach) // min(job.least), words)
                self._skew(f, path, -(-reach // min(job.least)))
        self.maps = np.zeros(words, np.uint32)

    def _choose_places(self, j: np.void) -> None:
        """Set how the job draws random offsets."""
        job = self.source
        j["how"] = fio_job.UNMAPPED if job.norandommap else fio_job.MAPPED
        if job.generator == "lfsr":
            j["how"] = fio_job.BY_LFSR
        if job.distribution[0] == "zoned":
            j["zoned"] = 1
            for what, zones in enumerate(job.zones):
                accesses = before = 0
                for share, width in zones:
                    j["zones"][what, accesses : accesses + share] = before, before + width
                    accesses, before = accesses + share, before + width
                j["zoned_ways"][what] = len(zones) > 0
        elif job.distribution[0] != "random":
            j["how"] = fio_job.SKEWED

    def reseed(self) -> None:
        """Reset the random states to their values at the beginning of a pass."""
        j = self.job[0]
        places = {fio_job.BLOCKS: "block", fio_job.MIX: "mix", fio_job.WHICH_FILE: "file", fio_job.ZONE: "zone"}
        places |= {fio_job.READ_SIZE: "read size", fio_job.READ_SIZE + 1: "write size"}
        places |= {fio_job.IN_ORDER: "sequential", fio_job.IN_ORDER + 1: "sequential"}
        if self.source.trims:
            places[fio_job.READ_SIZE] = "trim size"
        if self.source.verify:  # reads that verify must draw the sizes that the writes drew
            places[fio_job.READ_SIZE + 1] = "read size"
        for place, name in places.items():
            j["seeds"][place] = seeded(self.seeds[name])

    def next_pass(self) -> None:
        """Reset the state that fio forgets between two passes (loops, or io_size beyond size)."""
        j = self.job[0]
        j["synced"] = j["direction_until"] = j["finished"] = j["pass_bytes"] = j["zone_bytes"] = 0
        self.files["is_open"] = self.files["is_done"] = 0
        self.files["start"] = self.files["origin"]
        if self.source.repeats:
            self.reseed()

    def _map(self, f: np.void, blocks: int, words: int) -> int:
        """Set the layout of a file's map, which starts at word `words`, or its LFSR; return the map's number of 32-bit words."""
        f["blocks"], f["words"] = blocks, words
        if self.job[0]["how"] == fio_job.BY_LFSR:
            taps = next(taps for taps in _lfsr_taps() if 1 << taps[0] > blocks)
            f["lfsr"]["greatest"], f["lfsr"]["top"] = blocks - 1, 1 << (taps[0] - 1)
            f["lfsr"]["taps"] = sum(1 << (tap - 1) for tap in taps)
            f["lfsr_seed"] = self.seeds["block"] & ((1 << taps[0]) - 1)
        if self.job[0]["how"] != fio_job.MAPPED:
            return 0
        total, level = 0, blocks
        for i in range(LEVELS):
            f["levels"][i] = total
            if i == 0 or level > 1:
                level = -(-level // 32)
                total += level
        f["levels"][LEVELS] = total
        return total

    def _skew(self, f: np.void, path: str, ranges: int) -> None:
        kind, number, center = self.source.distribution
        if kind in ("random", "zoned"):
            return
        d = f["skew"]
        d["kind"], d["ranges"] = {"zipf": ZIPF, "pareto": PARETO}[kind], ranges
        seed = jhash(path.encode()) * self.source.number if self.source.repeats else self.seeds["block"]
        d["seeds"] = seeded(seed & WORD)
        first = fio_job.drawn(d["seeds"])
        d["shift"] = first if center < 0 else int(ranges * center)
        if kind == "zipf":
            d["theta"], d["zetan"] = number, fio_job.zeta(min(ranges, _ZETA_TERMS), number)
        else:
            d["power"] = float(np.log(number) / np.log(1.0 - number))


def seeds(job: Job) -> dict[str, int]:
    """Return the seeds of a job's random states (64 bits)."""
    seed, chain = _RANDSEED if job.randseed is None else job.randseed & _LONG, []
    for _ in range(4):
        seed = seed * _MULTIPLIER & _LONG
    for offset in range(max(_OFFSETS.values()) + 1):
        chain.append(seed * job.number + offset & _LONG)
        seed = seed * _MULTIPLIER & _LONG
    if job.allrandrepeat:
        chain = [_SEED * job.number + offset for offset in range(len(chain))]
    if job.random and job.blocks_by_number:
        chain[_OFFSETS["block"]] = _SEED * job.number
    return {name: chain[offset] for name, offset in _OFFSETS.items()}


def drawn(words: list[int]) -> int:
    """Draw the next number of the generator with the state `words`, and advance the state in place."""
    state = np.array(words, np.int64)
    number = int(fio_job.drawn(state))
    words[:] = state.tolist()
    return number


def seeded(seed: int) -> list[int]:
    """Return the three words of the Tausworthe generator after seeding."""
    words, before = [], (2 ^ 31) + (2 ^ 17) + (2 ^ 7)  # fio means 2 to the power 31, but `^` is an exclusive or in C
    for least in (1, 7, 15):
        word = (before * 69069 & WORD) ^ (seed & WORD)
        before = word + least if word < least else word
        words.append(before)
    state = np.array(words, np.int64)
    for _ in range(6):
        fio_job.drawn(state)
    return state.tolist()


def jhash(key: bytes) -> int:
    """Return Bob Jenkins' hash of a name as fio computes it (from single bytes where the original uses words)."""
    a = b = c = 0x61C88647 + len(key) & WORD
    while len(key) > 12:
        a, b, c = _mixed(a + key[0] & WORD, b + key[4] & WORD, c + key[8] & WORD)
        key = key[12:]
    rest = key.ljust(12, b"\0")
    words = [int.from_bytes(rest[i : i + 4], "little") for i in (0, 4, 8)]
    a, b, c = a + words[0] & WORD, b + words[1] & WORD, c + words[2] & WORD
    return _final(a, b, c) if key else c


def _mixed(a: int, b: int, c: int) -> tuple[int, int, int]:
    for shift in (4, 6, 8, 16, 19, 4):
        a, b, c = b, c + b & WORD, (a - c & WORD) ^ _rotated(c, shift)
    return a, b, c


def _final(a: int, b: int, c: int) -> int:
    for shift in (14, 11, 25, 16, 4, 14, 24):
        a, b, c = b, (c ^ b) - _rotated(b, shift) & WORD, a
    return b


def _rotated(word: int, shift: int) -> int:
    return (word << shift | word >> (32 - shift)) & WORD


def _lfsr_taps() -> list[list[int]]:
    return [[int(tap) for tap in taps.split()] for taps in _TAPS.split("|")]
