"""Define the two record types and their integer codes: OP (trace -> fs) and EVENT (fs -> paging -> mmu, medium).

Addresses, offsets and lengths are in bytes, times in nanoseconds.  A record field never has the name of a NumPy attribute
(`size`, `data`, `flags`, ...): NumPy would return its own attribute in plain Python but not in compiled code.

A column whose meaning depends on `op` or `code` has an alias (a field at the same offset) for each further meaning.  Use the alias
to read and write that meaning.  Code that handles whole records (files, tuples, digests) uses only the columns: `OP_COLUMNS`,
`EVENT_COLUMNS`.  Concatenate records with `joined`.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

OPS = (
    "create", "open", "read", "write", "fsync", "truncate", "fallocate", "unlink", "rename", "link", "mkdir", "rmdir",
    "stat", "readdir", "mmap", "munmap", "msync", "load", "store", "close", "sync", "malloc", "free", "mm_to_file",
    "file_to_mm", "madvise", "flush", "fence",
)  # fmt: skip
(
    CREATE, OPEN, READ, WRITE, FSYNC, TRUNCATE, FALLOCATE, UNLINK, RENAME, LINK, MKDIR, RMDIR,
    STAT, READDIR, MMAP, MUNMAP, MSYNC, ULOAD, USTORE, CLOSE, SYNC, MALLOC, FREE, MM_TO_FILE,
    FILE_TO_MM, MADVISE, UFLUSH, UFENCE,
) = range(len(OPS))  # fmt: skip

# OP.flag bits
OFFSET_UNKNOWN = 1  # the trace does not record the offset; the position used is an assumption
SETUP = 2  # builds the initial state of the file system: changes the model's state but is not counted
CONTINUES = 4  # belongs to the previous call of the same thread (write + fsync measured as one call)
APPENDS = 8  # O_APPEND resolved by the kernel: offset is the end of file at that moment
SYNCHRONOUS = 16  # the descriptor has O_SYNC or O_DSYNC: a write is followed by its own fsync
DATA_ONLY = 32  # fdatasync instead of fsync
DIRECTORY = 64  # the object is a directory
KEEP_SIZE = 128  # fallocate with FALLOC_FL_KEEP_SIZE
PUNCH_HOLE = 256  # fallocate with FALLOC_FL_PUNCH_HOLE
WRITABLE_SHARED = 512  # mmap with PROT_WRITE and MAP_SHARED: stores through it are invisible to a system-call trace
PRIVATE = 1024  # mmap with PROT_WRITE and MAP_PRIVATE: a store copies the page
MAP_SYNC = 2048  # mmap with MAP_SYNC: the metadata that leads to a page is durable before the page can be stored to
POPULATE = 4096  # mmap with MAP_POPULATE
NON_TEMPORAL = 8192  # a store past the caches
OWN_PROCESS = 16384  # the thread of an mmap is a separate process: no other thread sees the mapping
# mmap is mremap: the file's newest mapping from this offset on now has this length and keeps its pages
REMAPPED = 32768
FLAGS = (
    "offset_unknown", "setup", "continues", "appends", "synchronous", "data_only", "directory", "keep_size", "punch_hole",
    "writable_shared", "private", "map_sync", "populate", "non_temporal", "own_process", "remapped",
)  # fmt: skip


def _with_aliases(columns: Sequence[tuple[str, str]], aliases: Mapping[str, str]) -> np.dtype:
    """Return a record type of packed columns in which each alias is another name for the bytes of a column."""
    packed = np.dtype(list(columns))
    fields: Mapping[str, Any] = packed.fields or {}
    named = {name: fields[aliases.get(name, name)] for name in (*fields, *aliases)}
    formats, offsets = [field[0] for field in named.values()], [field[1] for field in named.values()]
    layout = np.dtype({"names": list(named), "formats": formats, "offsets": offsets, "itemsize": packed.itemsize})
    return np.dtype((np.record, layout))


_OP = (
    ("time_ns", "i8"),  # since the start of the trace
    ("offset", "i8"),  # bytes; -1 if the operation has no offset
    ("length", "i8"),  # bytes transferred or requested
    ("file", "i8"),  # dense object id (inode): row in the trace's table of files
    ("file2", "i8"),  # another object id, or -1: see `parent` and `replaced`
    ("thread", "i8"),  # dense thread id
    ("flag", "i8"),
    ("buffer", "i8"),  # the program's buffer of a transfer: byte offset from the start of its thread's memory
    ("op", "i8"),
)
# Another name of a column, for the operations that store something else in it.
OP_ALIASES = {
    "new_size": "offset",  # truncate: the file's new size, bytes
    "entry_bytes": "length",  # readdir: bytes of the names returned; 0 at the end of the directory
    "parent": "file2",  # create, unlink, link, mkdir, rmdir, mm_to_file, file_to_mm: object id of the directory, or -1
    "replaced": "file2",  # rename: object id of the file that the renamed file replaces, or -1
    "advice": "buffer",  # madvise: a MADV_ constant of Linux
    "map_address": "buffer",  # mmap: the requested address, bytes; 0 = any
}
OP_COLUMNS = tuple(name for name, _ in _OP)  # what a trace stores, and what a whole record consists of
OP = _with_aliases(_OP, OP_ALIASES)

ENTRY_BYTES = 32  # bytes that readdir returns for a name of 5 to 12 characters (linux_dirent64: 19 + name, 8-aligned)
DOTS_BYTES = 48  # bytes that readdir returns for "." and ".." together

NEVER = 1 << 62  # ns: later than any time of a trace

# EVENT.code.  LOAD, STORE and NTSTORE are runs over [addr, addr + length); FLUSH writes back the cache lines of its run; FENCE
# orders; WORK carries retired instructions without a data structure.
EVENTS = ("LOAD", "STORE", "NTSTORE", "FETCH", "FLUSH", "FENCE", "MAP", "UNMAP", "REMAP", "INVALIDATE", "WORK")
LOAD, STORE, NTSTORE, FETCH, FLUSH, FENCE, MAP, UNMAP, REMAP, INVALIDATE, WORK = range(len(EVENTS))

# EVENT.space: what EVENT.addr is relative to; the paging policy turns (space, addr) into (vaddr, order).
SPACES = ("pm", "kernel", "user", "text", "stack")
PM, KERNEL, USER, TEXT, STACK = range(len(SPACES))

MILLI = 1000  # replays keep WORK amounts and the counters of retired instructions in thousandths

_EVENT = (
    ("code", "u1"),
    ("site", "u1"),  # index into the model's SITES: the mechanism that caused the event
    ("space", "u1"),
    # log2 of the page size, and the flags below; filled in by paging, or with vaddr by a file system that maps
    ("order", "u1"),
    ("op", "i4"),  # row of the causing operation in the current OP batch
    ("width", "i8"),  # see the aliases: its meaning depends on `code`
    ("addr", "i8"),  # bytes
    ("length", "i8"),  # bytes
    ("vaddr", "i8"),  # filled in by paging
)
# Another name of a column, for the events that store something else in it.
EVENT_ALIASES = {
    # LOAD, STORE, NTSTORE, FETCH: bytes moved per instruction; 0 = a WORK event counts the instructions, or one rep-string
    "bytes_per_access": "width",
    # LOAD, STORE, NTSTORE, FLUSH: below 0, the run is strided; minus the bytes in each 4 KiB page that it touches
    "negated_page_bytes": "width",
    "flush_count": "width",  # FLUSH: write-backs of each line; 0 = one
    "fence_count": "length",  # FENCE: number of fences
    "instructions": "addr",  # WORK: retired instructions, thousandths
    "loads": "length",  # WORK: retired loads, thousandths
    "stores": "width",  # WORK: retired stores, thousandths
    "cpu_count": "width",  # UNMAP, REMAP, INVALIDATE: CPUs that invalidate the range; 0 = as Linux would, -1 = a later event does
    "address_space": "width",  # INVALIDATE of length 0: 1 + number of the address space to switch to
    "fault_flags": "width",  # MAP in USER: flags of the fault (scmsim.fs.mapping.words)
    "entry_order": "width",  # MAP in PM: log2 of the bytes that each page-table entry maps
}
EVENT_COLUMNS = tuple(name for name, _ in _EVENT)
EVENT = _with_aliases(_EVENT, EVENT_ALIASES)

# A slice of the table of touches (footprint -> mmu): the chunks in `[first, end)`, which precede an event of a buffer, and the
# objects and the metadata block that the chunks touch.  Slices are in the order of their events; most events have no slice.
SLICE = np.dtype(
    (np.record, [("event", "i4"), ("first", "i4"), ("end", "i4"), ("objects", "i4", (2,)), ("block", "i8")])
)

# EVENT.order: log2 of the page size in the low bits, and the flags of the page-table entry above them.
ORDER = 31
CONTIGUOUS = 32  # the entry's group maps contiguous physical memory with equal rights (Arm's contiguous bit)
SCM_TABLE = 64  # the entry's page table is in storage-class memory

# Purpose of stored bytes; a model's SITES maps each site to one of these kinds.
KINDS = ("data", "metadata", "log", "zeroing", "none")
BULK = ("data", "zeroing")  # kinds of bytes that are moved in bulk


def joined(pieces: Sequence[np.ndarray]) -> np.ndarray:
    """Return the concatenation of arrays of one record type.

    np.concatenate would return a packed type, in which an alias has bytes of its own.  The copy goes through raw bytes, which
    NumPy copies several times as fast as records: it copies records field by field.
    """
    kind = pieces[0].dtype
    if other := next((piece.dtype for piece in pieces if piece.dtype != kind), None):
        raise TypeError(f"all arrays must have the same dtype, not {kind} and {other}")
    whole = np.dtype((np.void, kind.itemsize))
    return np.concatenate([piece.view(whole) for piece in pieces]).view(kind)


def pack(code: int, site: int, space: int, width: int = 0) -> int:
    """Pack the constant part of an event into one integer (see `scmsim.fs.engine.events.emit_run`)."""
    return code | site << 8 | space << 16 | width << 24


@dataclass
class Files:
    """Table of a trace's files: row i describes object id i.

    `first_size` is the size in bytes before the first operation (-1: did not exist).  `path` is the first name seen.
    """

    path: list[str]
    first_size: np.ndarray  # int64
    is_dir: np.ndarray  # bool

    def __len__(self) -> int:
        return len(self.path)


class Source(Protocol):
    """Source of operations that the pipeline replays: a stored trace or a workload generator.

    `header` is the provenance (a dict that can be written as JSON); `rows` is the number of OP records, including SETUP rows;
    `batches` may be called several times and yields record arrays of OP with at most `chunk` rows, in trace order.
    """

    header: dict[str, Any]
    files: Files
    rows: int

    def batches(self, chunk: int = 1 << 14) -> Iterator[np.recarray]: ...
