"""Write a system call that perf recorded (numbers only) as the line that strace would have written.

Capture thus needs only one importer, and `--keep-raw` keeps text that `scmsim trace convert` reads.  What perf cannot
see (strings, structures, arrays) is left out; the calls that need it are in `NEEDS_MEMORY`.
"""

import errno
from collections.abc import Callable, Sequence

from scmsim.trace.syscalls import table

_TOP = 1 << 63
_ERRORS = 4096  # a result in -4095 .. -1 is an errno

# calls whose meaning is in memory that perf does not read: paths, struct stat, clone3's flags, offsets passed by pointer, requests
NEEDS_MEMORY = (
    table.with_any("name", "place", "process")
    | frozenset(
        "open openat openat2 creat stat lstat fstat newfstatat statx access faccessat faccessat2 truncate sendfile "
        "copy_file_range splice io_submit".split()
    )
) - {"open_by_handle_at", "fsmount", "open_tree", "open_tree_attr"}

PROTECTION = ((1, "PROT_READ"), (2, "PROT_WRITE"), (4, "PROT_EXEC"))
MAPPING = (
    (2, "MAP_PRIVATE"), (0x10, "MAP_FIXED"), (0x20, "MAP_ANONYMOUS"), (0x8000, "MAP_POPULATE"), (0x80000, "MAP_SYNC"),
)  # fmt: skip
SYNCS = ((1, "MS_ASYNC"), (2, "MS_INVALIDATE"), (4, "MS_SYNC"))
SPACE = (
    (1, "FALLOC_FL_KEEP_SIZE"), (2, "FALLOC_FL_PUNCH_HOLE"), (8, "FALLOC_FL_COLLAPSE_RANGE"),
    (16, "FALLOC_FL_ZERO_RANGE"), (32, "FALLOC_FL_INSERT_RANGE"), (64, "FALLOC_FL_UNSHARE_RANGE"),
)  # fmt: skip
TRANSFER = ((1, "RWF_HIPRI"), (2, "RWF_DSYNC"), (4, "RWF_SYNC"), (8, "RWF_NOWAIT"), (16, "RWF_APPEND"))
_OPEN = (
    (1, "O_WRONLY"), (2, "O_RDWR"), (0o100, "O_CREAT"), (0o200, "O_EXCL"), (0o1000, "O_TRUNC"), (0o2000, "O_APPEND"),
    (0o10000, "O_DSYNC"), (0o4000000, "O_SYNC"), (0o200000, "O_DIRECTORY"), (0o400000, "O_NOFOLLOW"), (0o2000000, "O_CLOEXEC"),
    (0o10000000, "O_PATH"), (0o20000000, "O_TMPFILE"),
)  # fmt: skip
_CLOEXEC = 0o2000000
_FICLONE, _CLONE_RANGE, _DEDUPE = 0x40049409, 0x4020940D, 0xC0189436  # linux/fs.h
CLOSE_RANGE = ((2, "CLOSE_RANGE_UNSHARE"), (4, "CLOSE_RANGE_CLOEXEC"))
SEEK = {0: "SEEK_SET", 1: "SEEK_CUR", 2: "SEEK_END", 3: "SEEK_DATA", 4: "SEEK_HOLE"}
FCNTL = {0: "F_DUPFD", 1: "F_GETFD", 2: "F_SETFD", 3: "F_GETFL", 4: "F_SETFL", 1030: "F_DUPFD_CLOEXEC"}

Args = Sequence[int]


def signed(value: int) -> int:
    """Return a register as a signed 64-bit number."""
    return value - 2 * _TOP if value & _TOP else value


def fd(value: int) -> int:
    """Return a register as a descriptor: its lower 32 bits, signed."""
    value &= 0xFFFFFFFF
    return value - (1 << 32) if value & (1 << 31) else value


def flags(value: int, names: tuple[tuple[int, str], ...]) -> str:
    """Return the names of the bits, joined as strace joins them."""
    return "|".join(name for bit, name in names if value & bit) or "0"


def open_flags(value: int) -> str:
    """Return the flags of an open as strace writes them, without the flags that no importer uses."""
    access = "" if value & 3 else "O_RDONLY|"
    return access + flags(value, _OPEN) if value & ~3 or value & 3 else "O_RDONLY"


def _fcntl(a: Args) -> str:
    command = FCNTL.get(a[1] & 0xFFFFFFFF, "F_OTHER")
    if command == "F_SETFL":
        return f"{fd(a[0])}, F_SETFL, {open_flags(a[2])}"
    if command == "F_SETFD":
        return f"{fd(a[0])}, F_SETFD, {'FD_CLOEXEC' if a[2] & 1 else '0'}"
    return f"{fd(a[0])}, {command}, {a[2]}" if command.startswith("F_DUP") else f"{fd(a[0])}, {command}"


def _ioctl(a: Args) -> str:
    command = a[1] & 0xFFFFFFFF
    if command == _FICLONE:
        return f"{fd(a[0])}, FICLONE, {fd(a[2])}"
    name = {_CLONE_RANGE: "FICLONERANGE", _DEDUPE: "FIDEDUPERANGE"}.get(command, f"{command:#x}")
    return f"{fd(a[0])}, {name}, {a[2]:#x}"


def _mmap(a: Args) -> str:
    shared = a[3] & 1  # MAP_SHARED is 1, MAP_SHARED_VALIDATE is 3
    kind = ("MAP_SHARED|" if shared else "") + flags(a[3] & ~(3 if shared else 1), MAPPING)
    return f"{a[0]:#x}, {a[1]}, {flags(a[2], PROTECTION)}, {kind.removesuffix('|0')}, {fd(a[4])}, {a[5]:#x}"


def _vector(a: Args) -> str:
    return f"{fd(a[0])}, {a[1]:#x}, {a[2]}"


def _vector_at(a: Args) -> str:
    return f"{_vector(a)}, {signed(a[3])}"


def _range(a: Args) -> str:
    return f"{fd(a[0])}, {a[1]}, {a[2]}"


_ARGS: dict[str, Callable[[Args], str]] = {
    "read": lambda a: f'{fd(a[0])}, "", {a[2]}',
    "write": lambda a: f'{fd(a[0])}, "", {a[2]}',
    "pread64": lambda a: f'{fd(a[0])}, "", {a[2]}, {a[3]}',
    "pwrite64": lambda a: f'{fd(a[0])}, "", {a[2]}, {a[3]}',
    "readv": _vector,
    "writev": _vector,
    "preadv": _vector_at,
    "pwritev": _vector_at,
    "preadv2": lambda a: f"{_vector_at(a)}, {flags(a[5], TRANSFER)}",
    "pwritev2": lambda a: f"{_vector_at(a)}, {flags(a[5], TRANSFER)}",
    "lseek": lambda a: f"{fd(a[0])}, {signed(a[1])}, {SEEK.get(a[2], 'SEEK_OTHER')}",
    "fsync": lambda a: f"{fd(a[0])}",
    "fdatasync": lambda a: f"{fd(a[0])}",
    "syncfs": lambda a: f"{fd(a[0])}",
    "sync": lambda a: "",
    "sync_file_range": lambda a: f"{_range(a)}, {flags(a[3], ())}",
    "ftruncate": lambda a: f"{fd(a[0])}, {a[1]}",
    "fallocate": lambda a: f"{fd(a[0])}, {flags(a[1], SPACE)}, {a[2]}, {a[3]}",
    "getdents64": lambda a: f"{fd(a[0])}, {a[1]:#x}, {a[2]}",
    "getdents": lambda a: f"{fd(a[0])}, {a[1]:#x}, {a[2]}",
    "close": lambda a: f"{fd(a[0])}",
    "close_range": lambda a: f"{a[0] & 0xFFFFFFFF}, {a[1] & 0xFFFFFFFF}, {flags(a[2], CLOSE_RANGE)}",
    "ioctl": _ioctl,
    "dup": lambda a: f"{fd(a[0])}",
    "dup2": lambda a: f"{fd(a[0])}, {fd(a[1])}",
    "dup3": lambda a: f"{fd(a[0])}, {fd(a[1])}, {'O_CLOEXEC' if a[2] & _CLOEXEC else '0'}",
    "fcntl": _fcntl,
    "mmap": _mmap,
    "munmap": lambda a: f"{a[0]:#x}, {a[1]}",
    "msync": lambda a: f"{a[0]:#x}, {a[1]}, {flags(a[2], SYNCS)}",
    "mremap": lambda a: f"{a[0]:#x}, {a[1]}, {a[2]}, {a[3]}",
}


def arguments(name: str, args: Args) -> str:
    """Return a call's arguments as strace prints them between the parentheses."""
    known = _ARGS.get(name)
    return known(args) if known is not None else ", ".join(f"{value:#x}" for value in args)


def result(name: str, value: int, args: Args) -> str:
    """Return a call's result as strace prints it after the equals sign."""
    if -_ERRORS < value < 0:
        return f"-1 {errno.errorcode.get(-value, 'E' + str(-value))}" if -value < 512 else "? ERESTARTSYS"
    if name in ("mmap", "mremap"):
        return f"{value:#x}"
    if name == "fcntl" and FCNTL.get(args[1] & 0xFFFFFFFF) == "F_GETFL":
        return f"{value:#x} (flags {open_flags(value)})"
    return str(value)
