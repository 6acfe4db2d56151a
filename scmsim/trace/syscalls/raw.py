"""Decode the numbers that `strace -X raw` prints where other straces print names of flags.

The values are those of x86-64 (include/uapi/asm-generic, linux/fcntl.h, linux/sched.h).  They are assumed for every architecture:
O_DIRECTORY, O_NOFOLLOW and O_TMPFILE differ on Arm and PowerPC, more of them on MIPS, SPARC, Alpha and PA-RISC.
"""

import functools
import re
from collections.abc import Callable

from scmsim.trace.syscalls import from_numbers as known
from scmsim.trace.syscalls.text import VALUE, arguments_end

_AT = ((0x100, "AT_SYMLINK_NOFOLLOW"), (0x200, "AT_REMOVEDIR"), (0x400, "AT_SYMLINK_FOLLOW"), (0x1000, "AT_EMPTY_PATH"))
_RENAME = ((1, "RENAME_NOREPLACE"), (2, "RENAME_EXCHANGE"), (4, "RENAME_WHITEOUT"))
_CLONE = (
    (0x100, "CLONE_VM"), (0x200, "CLONE_FS"), (0x400, "CLONE_FILES"), (0x4000, "CLONE_VFORK"), (0x10000, "CLONE_THREAD"),
    (0x20000, "CLONE_NEWNS"),
)  # fmt: skip
_KINDS = {
    0o04: "S_IFDIR",
    0o10: "S_IFREG",
    0o12: "S_IFLNK",
    0o02: "S_IFCHR",
    0o06: "S_IFBLK",
    0o01: "S_IFIFO",
    0o14: "S_IFSOCK",
}
_IOCTLS = {0x40049409: "FICLONE", 0x4020940D: "FICLONERANGE", 0xC0189436: "FIDEDUPERANGE"}
_REQUESTS = {0: "PREAD", 1: "PWRITE", 2: "FSYNC", 3: "FDSYNC", 7: "PREADV", 8: "PWRITEV"}

Decoder = Callable[[int], str]


def _bits(names: tuple[tuple[int, str], ...]) -> Decoder:
    return functools.partial(known.flags, names=names)


def _directory(value: int) -> str:
    return "AT_FDCWD" if value == -100 else str(value)


def _mapping(value: int) -> str:
    shared = value & 3 in (1, 3)
    return ("MAP_SHARED|" if shared else "") + known.flags(value & ~(3 if shared else 1), known.MAPPING)


def _name_or_number(names: dict[int, str]) -> Decoder:
    return lambda value: names.get(value, f"UNKNOWN_{value}")


_O, _DIR, _A = known.open_flags, _directory, _bits(_AT)
_WHENCE, _CLOEXEC = _name_or_number(known.SEEK), _bits(((0o2000000, "O_CLOEXEC"),))
# call -> index of an argument -> decoder of its number
_ARGUMENTS: dict[str, dict[int, Decoder]] = {
    "open": {1: _O}, "openat": {0: _DIR, 2: _O}, "openat2": {0: _DIR}, "lseek": {2: _WHENCE}, "_llseek": {4: _WHENCE},
    **dict.fromkeys(("mmap", "mmap2"), {2: _bits(known.PROTECTION), 3: _mapping}), "msync": {2: _bits(known.SYNCS)},
    "fallocate": {1: _bits(known.SPACE)}, **dict.fromkeys(("fcntl", "fcntl64"), {1: _name_or_number(known.FCNTL)}),
    "dup3": {2: _O}, "mkdirat": {0: _DIR}, "unlinkat": {0: _DIR, 2: _A}, "renameat": {0: _DIR, 2: _DIR},
    "renameat2": {0: _DIR, 2: _DIR, 4: _bits(_RENAME)}, "linkat": {0: _DIR, 2: _DIR, 4: _A}, "symlinkat": {1: _DIR},
    **dict.fromkeys(("newfstatat", "fstatat64"), {0: _DIR, 3: _A}), "statx": {0: _DIR, 2: _A},
    **dict.fromkeys(("faccessat", "faccessat2"), {0: _DIR, 3: _A}), "execveat": {0: _DIR, 4: _A}, "move_mount": {0: _DIR, 2: _DIR},
    **dict.fromkeys(("preadv2", "pwritev2"), {4: _bits(known.TRANSFER)}), "close_range": {2: _bits(known.CLOSE_RANGE)},
    "unshare": {0: _bits(_CLONE)}, "ioctl": {1: _name_or_number(_IOCTLS)}, "accept4": {3: _CLOEXEC}, "signalfd4": {3: _CLOEXEC},
    **dict.fromkeys(("pipe2", "socket", "socketpair", "eventfd2", "timerfd_create", "fanotify_init"), {1: _CLOEXEC}),
    **dict.fromkeys(("epoll_create1", "inotify_init1"), {0: _CLOEXEC}),
    "memfd_create": {1: _bits(((1, "MFD_CLOEXEC"),))},
}  # fmt: skip
# calls whose patterns also match numbers: decoded before the match; other calls only after their pattern has failed
FIRST = frozenset(
    "dup3 faccessat faccessat2 ioctl accept4 signalfd4 pipe2 socket socketpair eventfd2 timerfd_create fanotify_init "
    "epoll_create1 inotify_init1 memfd_create".split()
)
_NUMBER = re.compile(rf"({VALUE})(?:\|\d+)*(?=<|$)").match


def _value(text: str) -> int:
    """Return the value of a C number: hexadecimal, octal after a leading 0, or decimal."""
    digits = text.removeprefix("-")
    base = 16 if digits[:2] == "0x" else 8 if digits[:1] == "0" and set(digits) <= set("01234567") else 10
    return int(text, base)


def decode(name: str, text: str, start: int) -> str:
    """Return a call's line with flags as names instead of numbers; the arguments begin at `start`."""
    what = _ARGUMENTS.get(name)
    end = arguments_end(text, start)
    if what is None or not end:
        return text
    out = [argument.strip() for argument in end[0]]
    for place, decoder in what.items():
        if place < len(out):
            m = _NUMBER(out[place])
            if m is not None:
                out[place] = decoder(_value(m[1])) + out[place][m.end() :]
    if name.startswith("fcntl") and len(out) > 2 and out[1] in ("F_SETFL", "F_SETFD") and (m := _NUMBER(out[2])):
        out[2] = known.open_flags(_value(m[1])) if out[1] == "F_SETFL" else "FD_CLOEXEC" if _value(m[1]) & 1 else "0"
    if name == "statx" and len(out) == 5 and not out[2]:
        out[2] = "0"  # strace prints nothing for a value of 0 here
    return text[:start] + ", ".join(out) + text[end[1] :]


_IN_STRUCTURES: tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], str]], ...] = (
    (re.compile(r"(clone3?\(.*?\bflags=)(0x[0-9a-f]+)"), lambda m: m[1] + known.flags(int(m[2], 0), _CLONE)),
    (re.compile(r"(openat2\(.*?\{flags=)(0x[0-9a-f]+|0)\b"), lambda m: m[1] + known.open_flags(int(m[2], 0))),
    (re.compile(r"(\bstx?_mode=)(0[0-7]+)\b"), lambda m: m[1] + f"{_KINDS.get(int(m[2], 8) >> 12, 'S_IFREG')}|{m[2]}"),
    (re.compile(r"(cmsg_level=)0x1, cmsg_type=0x1\b"), lambda m: m[1] + "SOL_SOCKET, cmsg_type=SCM_RIGHTS"),
    (
        re.compile(r"(aio_lio_opcode=)(0x[0-9a-f]+|\d+)\b"),
        lambda m: m[1] + "IOCB_CMD_" + _REQUESTS.get(_value(m[2]), "NOOP"),
    ),
)


def decode_structures(text: str) -> str:
    """Return a text without strings, with the flags in structures as names instead of numbers."""
    for pattern, names in _IN_STRUCTURES:
        text = pattern.sub(names, text)
    return text
