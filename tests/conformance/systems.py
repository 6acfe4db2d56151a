"""List the models under test with their traits; make traces for them, replay and measure them."""

import numpy as np

import scmsim
from scmsim.core import records, registry
from tests.conftest import NO_JIT
from tests.fs import drive


def page(fs):
    """Return the bytes of a model's data page."""
    return getattr(registry.load("fs", fs), "PAGE_BYTES", 4096)


# Plain Python takes minutes for the lines of a page of 1 GiB.
SYSTEMS = [fs for fs in registry.names("fs") if not (NO_JIT and page(fs) > 2 << 20)]
# File systems none of whose mechanisms stores anything persistent keep their data in DRAM.
IN_DRAM = {fs for fs in SYSTEMS if set(registry.load("fs", fs).SITES.values()) == {"none"}}
# File systems whose files end before 2**63 bytes.
LIMITED = {fs for fs in SYSTEMS if hasattr(registry.load("fs", fs), "LARGEST_FILE")}
# File systems whose writes are done whole or not at all.
WHOLE = {
    "ctfs",
    "device-dax",
    "famfs",
    "hugetlbfs",
    "nova-cow",
    "nova-fast16",
    "nova-inplace",
    "scm-manager",
    "scmfs",
    "scmfs-lp",
    "simfs",
}
# Mechanisms that store the time of each look, without writing it back.
STAMPS = {"ctfs": {"inode"}}
# Request the blocks of a whole write at once: a request that does not fit is halved until it does, and the truncation after a short
# write drops what was preallocated (Linux 6.1 ext4_mb_new_blocks, ext4_handle_inode_extension).
HALVING = {"ext2-dax", "ext4-dax", "ext4-dax-linux4", "splitfs"}
FILES = 6  # 0 is a directory, 4 existed before with 100,000 bytes, 5 with 4096
SIZES = (0, -1, -1, -1, 100_000, 4096)
COUNT = 60 if NO_JIT else 1500  # operations of a trace


def side():
    """Return the files of a trace: 0 to 5 (FILES)."""
    return drive.files(*SIZES, dirs=[0])


def mixed(seed, count, holes=False):
    """Return a trace of `count` operations of every kind on few files; without `holes`, no file has any."""
    random, rows, sizes = np.random.default_rng(seed), [], list(SIZES)
    kinds = (
        ["append"] * 5
        + ["over"] * 3
        + ["read"] * 3
        + ["fsync", "truncate", "unlink", "rename", "stat", "close", "open"]
    )
    kinds += ["fallocate", "link"] if holes else []
    while len(rows) < count:
        kind, file = str(random.choice(kinds)), int(random.integers(1, FILES))
        length = int(random.choice([1, 100, 512, 1024, 4096, 5000, 65_536, 300_000]))
        if sizes[file] < 0:
            rows.append(("create", file, 0, 0, 0))
            sizes[file] = 0
        if kind == "append":
            rows.append(("write", file, sizes[file], length))
            sizes[file] += length
        elif kind == "over":
            rows.append(("write", file, int(random.integers(0, sizes[file] + 1)), length))
            sizes[file] = max(sizes[file], rows[-1][2] + length)
        elif kind == "read":
            rows.append(("read", file, int(random.integers(0, sizes[file] + 5000)), length))
        elif kind == "truncate":
            sizes[file] = int(random.integers(0, sizes[file] + 1))
            rows.append(("truncate", file, sizes[file]))
        elif kind == "unlink":
            rows.append(("unlink", file, 0, 0, 0))
            sizes[file] = -1
        elif kind == "rename":
            other = int(random.choice([other for other in range(1, FILES) if other != file]))
            rows.append(("rename", file, 0, 0, other))
            sizes[other] = -1
        elif kind == "fallocate":
            rows.append(("fallocate", file, int(random.integers(0, 400_000)), length))
        else:
            rows.append((kind, file, 0, 0, 0 if kind == "link" else -1))
    batch = drive.ops(*rows[:count])
    batch.thread = random.integers(0, 4, count)
    batch.time_ns = np.cumsum(random.choice([1_000, 1_000_000, 700_000_000], count, p=[0.6, 0.35, 0.05]))
    return batch


def held(fs, length, closed=False):
    """Return the bytes that a file without holes takes; some models reclaim the rest of a closed file's last page."""
    unit = getattr(registry.load("fs", fs), "TAIL_BYTES", page(fs)) if closed else page(fs)
    return -(-length // unit) * unit


def full(fs, size):
    """Return (capacity, bytes between two writes) that fill a device: `size`, 4096; with pages of 1 GiB four of them."""
    return (4 << 30, 1 << 30) if page(fs) > size // 8 else (size, 4096)


def replay(fs, batch, files=None, params=None, **more):
    """Replay a trace on a model whose files can grow; return the run."""
    params = {fs: {**drive.GROWING.get(fs, {}), **(params or {}).get(fs, {})}}
    return scmsim.replay(drive.source(files or side(), batch), fs, params=params, **more).runs[0]


def loaded(fs, events, sites):
    """Return the bytes loaded from where the model keeps its data, with what belongs to it."""
    if fs not in IN_DRAM:
        return sum(drive.persistent(events, sites)["loaded"].values())
    copied = (events["code"] == records.LOAD) & (events["space"] == records.KERNEL)
    return int(events["length"][copied & (events["site"] == sites.index("copy"))].sum())


def figures(run):
    """Return every figure of a run that must not depend on how it was computed."""
    return run.counters, run.sites, run.stored_bytes, run.space, run.errors, run.operations, run.calls, run.payload
