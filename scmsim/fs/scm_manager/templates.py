"""Define the mechanisms of the SCM manager, of FAT and ext2 on the SCM driver, and of FAT on NAND as templates.

The models' compiled kernels emit the same template numbers for all of them, with different contents: the SCM manager works on
the medium itself (`direct`), FAT and ext2 on a page cache in SDRAM from which blocks go to the device, word by word or
through an NFTL (`cached`).
Sources: SCM manager paper, section 4 (objects, chains, conversion); Linux 2.6.24 fs/fat, fs/ext2, fs/buffer.c, drivers/mtd.

The board copies word by word without a cache (section 5.1: the times of load and store grow with words), so data moves
in runs of 4-byte instructions, and stores to the medium are non-temporal.
"""

from scmsim.core.records import FENCE, KERNEL, LOAD, NTSTORE, PM, STORE, USER
from scmsim.fs.engine.events import TemplateBuilder

# Mechanism -> purpose of the bytes that it stores.
SITES = {
    "syscall": "none",
    "data copy": "data",
    "page cache": "none",
    "write-back": "data",
    "metadata write-back": "metadata",
    "read-in": "none",
    "zeroing": "zeroing",
    "allocation": "metadata",
    "chain walk": "none",
    "inode": "metadata",
    "directory": "metadata",
    "directory scan": "none",
    "namespace": "none",
    "memory object": "data",
    "conversion": "metadata",
    "nftl": "none",
    "nftl fold": "data",
    "fsync": "none",
}

COSTS = (
    "call", "open", "create", "close", "unlink", "rename", "stat", "truncate", "sync", "name", "unit", "load_word", "store_word",
    "request", "read_in", "take_unit", "free_unit", "hop", "malloc", "free", "convert", "nand_read", "nand_program", "nand_erase",
)  # fmt: skip


# Registers.
(
    ZERO, AT, BYTES, WORDS, UNITS, USER_AT, META, CHAIN, CHAIN_BYTES, COUNT, HOP_AT, HOP_BYTES, HOPS, DIR_AT, DIR_BYTES, NAME_AT,
    NAME_BYTES, FOLDED, ERASED, FOLD_AT, FOLD_BYTES, REQUESTS,
) = range(22)  # fmt: skip

# Templates.
(
    WRITE, READ, COPY_IN, COPY_OUT, CLEAR, OUT_DATA, OUT_META, READ_IN, TAKE, GIVE, HOP, INODE_LOAD, INODE_STORE, INODE_NEW, DIRENT,
    SCAN, CREATE, OPEN, CLOSE, UNLINK, RENAME, STAT, TRUNCATE, FSYNC, OTHER, LISTED, FOLD, MALLOC, FREE, OBJECT_LOAD, OBJECT_STORE,
    MOVE, TO_FILE, TO_MM,
) = range(34)  # fmt: skip
MAP = OTHER

WORD = 4  # bytes of a word, and of a chain's entry
OBJECT = 64  # bytes of a metadata object of the SCM manager
SECTOR, PAGES = 512, 32  # NAND: bytes of a page, pages of an erase unit
_STEPS = TemplateBuilder(SITES, COSTS)
_work = _STEPS.work


def _step(
    code: int, site: str, base: int, at: int = 0, length: int = 0, by: int = 0, space: int = PM
) -> tuple[int, ...]:
    """Return the step of one event on (`length` + the value of register `by`) bytes.

    The bytes start at address (the value of register `base`) + `at`; loads and stores access them word by word.
    """
    width = WORD if code in (LOAD, STORE, NTSTORE) else 0
    return _STEPS.run(code, site, base, at, length, by, space=space, width=width)


def calls() -> dict[int, list]:
    """Return the templates of the calls that are the same for all models."""
    plain = {
        CREATE: "create", OPEN: "open", CLOSE: "close", UNLINK: "unlink", RENAME: "rename", STAT: "stat", TRUNCATE: "truncate",
        FSYNC: "sync",
    }  # fmt: skip
    calls = {template: [_work("call", 1), _work(cost, 1)] for template, cost in plain.items()}
    calls[FSYNC].append(_step(FENCE, "fsync", ZERO, 0, 1))
    listed = [_work("call", 1), _work("name", 0, COUNT)]
    return {**calls, WRITE: [_work("call", 1)], READ: [_work("call", 1)], OTHER: [_work("call", 1)], LISTED: listed}


def direct() -> dict[int, list]:
    """Return the templates of a system that stores everything in SCM and changes it there."""
    return {
        COPY_IN: [
            _step(LOAD, "data copy", USER_AT, 0, 0, BYTES, USER),
            _step(NTSTORE, "data copy", AT, 0, 0, BYTES),
            _work("load_word", 0, WORDS),
            _work("unit", 0, UNITS),
        ],
        COPY_OUT: [
            _step(LOAD, "data copy", AT, 0, 0, BYTES),
            _step(STORE, "data copy", USER_AT, 0, 0, BYTES, USER),
            _work("store_word", 0, WORDS),
            _work("unit", 0, UNITS),
        ],
        CLEAR: [_step(NTSTORE, "zeroing", AT, 0, 0, BYTES)],
        OUT_DATA: [],
        OUT_META: [],
        READ_IN: [],
        TAKE: [_step(NTSTORE, "allocation", CHAIN, 0, 0, CHAIN_BYTES), _work("take_unit", 0, COUNT)],
        GIVE: [_step(NTSTORE, "allocation", CHAIN, 0, 0, CHAIN_BYTES), _work("free_unit", 0, COUNT)],
        HOP: [_step(LOAD, "chain walk", HOP_AT, 0, 0, HOP_BYTES), _work("hop", 0, HOPS)],
        INODE_LOAD: [_step(LOAD, "inode", META, 0, 16)],
        INODE_STORE: [_step(NTSTORE, "inode", META, 0, 16)],
        INODE_NEW: [_step(NTSTORE, "inode", META, 0, OBJECT), _work("malloc", 1)],
        DIRENT: [_step(NTSTORE, "directory", DIR_AT, 0, 0, DIR_BYTES)],
        SCAN: [
            _step(LOAD, "directory scan", NAME_AT, 0, 0, NAME_BYTES),
            _work("name", 0, COUNT),
        ],
        FOLD: [],
    }


def cached(inode: int, nand: bool) -> dict[int, list]:
    """Return the templates with a page cache in SDRAM; each request moves blocks between the cache and the device.

    A changed inode has `inode` bytes.  If `nand`, the device is NAND flash instead of SCM.
    """

    def out(site: str) -> list:
        programs = [_work("nand_program", 0, UNITS)] if nand else []
        return [
            _step(LOAD, site, AT, 0, 0, BYTES, KERNEL),
            _step(NTSTORE, site, AT, 0, 0, BYTES),
            _work("load_word", 0, WORDS),
            _work("request", 0, REQUESTS),
            *programs,
        ]

    return {
        COPY_IN: [
            _step(LOAD, "page cache", USER_AT, 0, 0, BYTES, USER),
            _step(STORE, "page cache", AT, 0, 0, BYTES, KERNEL),
            _work("load_word", 0, WORDS),
            _work("store_word", 0, WORDS),
            _work("unit", 0, UNITS),
        ],
        COPY_OUT: [
            _step(LOAD, "page cache", AT, 0, 0, BYTES, KERNEL),
            _step(STORE, "page cache", USER_AT, 0, 0, BYTES, USER),
            _work("load_word", 0, WORDS),
            _work("store_word", 0, WORDS),
            _work("unit", 0, UNITS),
        ],
        CLEAR: [_step(STORE, "zeroing", AT, 0, 0, BYTES, KERNEL), _work("store_word", 0, WORDS)],
        OUT_DATA: out("write-back"),
        OUT_META: out("metadata write-back"),
        READ_IN: [
            _step(LOAD, "read-in", AT, 0, 0, BYTES),
            _step(STORE, "read-in", AT, 0, 0, BYTES, KERNEL),
            _work("store_word", 0, WORDS),
            _work("read_in", 0, REQUESTS),
            *([_work("nand_read", 0, UNITS)] if nand else []),
        ],
        TAKE: [_step(STORE, "allocation", CHAIN, 0, 0, CHAIN_BYTES, KERNEL), _work("take_unit", 0, COUNT)],
        GIVE: [_step(STORE, "allocation", CHAIN, 0, 0, CHAIN_BYTES, KERNEL), _work("free_unit", 0, COUNT)],
        HOP: [_step(LOAD, "chain walk", HOP_AT, 0, 0, HOP_BYTES, KERNEL), _work("hop", 0, HOPS)],
        INODE_LOAD: [],
        INODE_STORE: [_step(STORE, "inode", META, 0, inode, 0, KERNEL)],
        INODE_NEW: [],
        DIRENT: [_step(STORE, "directory", DIR_AT, 0, 0, DIR_BYTES, KERNEL)],
        SCAN: [_step(LOAD, "directory scan", NAME_AT, 0, 0, NAME_BYTES, KERNEL), _work("name", 0, COUNT)],
        FOLD: [
            _step(LOAD, "nftl fold", FOLD_AT, 0, 0, FOLD_BYTES),
            _step(NTSTORE, "nftl fold", FOLD_AT, 0, 0, FOLD_BYTES),
            _work("nand_read", 0, FOLDED),
            _work("nand_program", 0, FOLDED),
            _work("nand_erase", 0, ERASED),
        ],
    }


def objects() -> dict[int, list]:
    """Return the templates of the SCM manager's memory objects: a program's loads and stores, and conversions."""
    return {
        MALLOC: [_work("malloc", 1)],
        FREE: [_work("free", 1)],
        OBJECT_LOAD: [_step(LOAD, "memory object", AT, 0, 0, BYTES)],
        OBJECT_STORE: [_step(NTSTORE, "memory object", AT, 0, 0, BYTES)],
        MOVE: [_step(LOAD, "conversion", HOP_AT, 0, 0, BYTES), _step(NTSTORE, "conversion", AT, 0, 0, BYTES)],
        TO_FILE: [
            _work("call", 1),
            _work("convert", 1),
            _step(NTSTORE, "conversion", CHAIN, 0, 0, CHAIN_BYTES),
        ],
        TO_MM: [_work("call", 1), _work("convert", 1)],
    }
