"""Handle calls on paths: open, create, remove, rename, stat, directories.  See `conversion.py` for the rules."""

import functools
import operator
from re import Match

from scmsim.core.records import CREATE, DIRECTORY, LINK, MKDIR, OPEN, RENAME, RMDIR, STAT, TRUNCATE, UNLINK
from scmsim.trace.kernels import file_rules
from scmsim.trace.syscalls.importer import (
    BOOKKEEPING,
    CREATES,
    NO_MODEL,
    NOT_A_FILE,
    OUTSIDE,
    SYMLINK,
    UNKNOWN_FD,
    Importer,
    split_raw,
)
from scmsim.trace.syscalls.names import above_of, is_special
from scmsim.trace.syscalls.state import Description, Node, Task
from scmsim.trace.syscalls.text import (
    COMMA,
    DIR,
    FD,
    LENGTH,
    MODE,
    NUMBER,
    PATH,
    REST,
    RESULT,
    RESULT_FD,
    STRUCT,
    WORD,
    number,
    unescape,
)

_OPEN_FLAGS = (
    ("O_CREAT", file_rules.CREAT), ("O_EXCL", file_rules.EXCL), ("O_TRUNC", file_rules.TRUNC),
    ("O_APPEND", file_rules.APPEND), ("O_SYNC", file_rules.SYNC), ("O_DSYNC", file_rules.SYNC),
    ("O_CLOEXEC", file_rules.CLOEXEC), ("O_DIRECTORY", file_rules.DIR),
)  # fmt: skip


def _open(imp: Importer, task: Task, where: tuple, flags: str, result: tuple) -> str | None:
    """Handle an open that returned a descriptor; `where` is the directory descriptor, its -y text and the quoted path."""
    fd, raw = result
    asked = imp.path(task, *where)
    same = imp.by_link(task, asked)
    path = _led_to(imp, raw, asked) if raw is not None else imp.names.follow(asked)
    link_itself = "O_PATH" in flags and "O_NOFOLLOW" in flags and asked in imp.names.links
    if link_itself or (same is None and is_special(path)) or (raw is not None and not path.startswith("/")):
        task.table.put(fd, Description(None, raw, path=path if path.startswith("/") else ""), "O_CLOEXEC" in flags)
        return NOT_A_FILE
    if raw is not None:
        imp.doubt = 0
    if raw is not None and same is None and "O_TMPFILE" not in flags:
        imp.names.learn(asked, path)
    node, how = (same.node, OPEN) if same is not None else _find_or_make(imp, asked, path, flags)
    if node is not None:
        node.doubt |= imp.doubt
    found = Description(node, raw)
    found.append, found.path_only = "O_APPEND" in flags, "O_PATH" in flags
    found.synchronous = bool(open_flags(flags) & file_rules.SYNC)
    task.table.put(fd, found, "O_CLOEXEC" in flags)
    if node is None:
        return NOT_A_FILE
    return BOOKKEEPING if found.path_only else _emit_open(imp, task, node, how, flags)


def _led_to(imp: Importer, raw: str, asked: str) -> str:
    return split_raw(raw)[0] if asked.endswith(" (deleted)") else imp.shown(raw)[0]


def _find_or_make(imp: Importer, asked: str, path: str, flags: str) -> tuple[Node, int]:
    """Return the inode that an open leads to, and CREATE if the open makes it, or OPEN if it existed."""
    names = imp.names
    if "O_TMPFILE" in flags:
        return names.nameless(path if path != asked else f"{path}/#unnamed"), CREATE
    seen = max(names.seen(path), file_rules.ABSENT if asked in names.table else file_rules.UNSEEN)
    above = names.at(above_of(path))  # a directory that the trace made has only the trace's entries
    how = file_rules.opened(open_flags(flags), seen, above is not None and above.first < 0)
    if how == file_rules.OPENED:
        return names.node(path, is_dir="O_DIRECTORY" in flags), OPEN
    imp.report.creates[CREATES[how]] += 1
    node = names.make(path)
    if how == file_rules.ASSUMED:
        node.row, node.exact = imp.next_row(), False
    return node, CREATE


@functools.lru_cache(1 << 10)
def open_flags(text: str) -> int:
    """Return the flags of an open, given by their names, as flags of `file_rules`."""
    return functools.reduce(operator.or_, (flag for word, flag in _OPEN_FLAGS if word in text), 0)


def _emit_open(imp: Importer, task: Task, node: Node, how: int, flags: str) -> str | None:
    if how == CREATE:
        parent = imp.number(imp.names.parent(node.path)) if node.inside else -1
        reason = imp.emit(task, CREATE, node, -1, 0, 0, parent)
        if reason is not None:
            node.row = -1
        return reason
    reason = imp.emit(task, OPEN, node, -1, 0, DIRECTORY if node.is_dir else 0)
    if "O_TRUNC" in flags:
        file_rules.set_length(node, 0)
        reason = imp.also(task, reason, TRUNCATE, node, 0, 0, 0)
    return reason


def open_(imp: Importer, task: Task, m: Match[str]) -> str | None:
    quoted, flags, fd, raw = m.groups()
    return _open(imp, task, ("AT_FDCWD", None, quoted), flags, (fd, raw))


def openat(imp: Importer, task: Task, m: Match[str]) -> str | None:
    base, base_raw, quoted, flags, fd, raw = m.groups()
    return _open(imp, task, (base, base_raw, quoted), flags, (fd, raw))


def creat(imp: Importer, task: Task, m: Match[str]) -> str | None:
    quoted, fd, raw = m.groups()
    return _open(imp, task, ("AT_FDCWD", None, quoted), "O_WRONLY|O_CREAT|O_TRUNC", (fd, raw))


def _stat(imp: Importer, task: Task, node: Node, struct: str, what: Description | None = None) -> str | None:
    """Handle a stat of an inode; keep the kind and length that it shows even if the row is left out."""
    mode, length = MODE(struct), LENGTH(struct)
    kind = mode[1] if mode else "S_IFREG"
    if kind == "S_IFLNK":
        return SYMLINK
    if kind == "S_IFDIR":
        node.is_dir = True
    elif kind != "S_IFREG":
        if what is not None:
            what.node = None
        return NOT_A_FILE
    elif length:
        imp.measured(node, int(length[1]))
    return imp.emit(task, STAT, node, -1, 0, DIRECTORY if node.is_dir else 0)


def _stat_path(imp: Importer, task: Task, path: str, struct: str, follow: bool) -> str | None:
    same = imp.by_link(task, path)
    if same is not None and same.node is not None and follow:
        return _stat(imp, task, same.node, struct, same)
    if is_special(path):
        return NOT_A_FILE
    if not follow and (path in imp.names.links or "S_IFLNK" in struct):
        imp.names.links.setdefault(path, path)
        return SYMLINK
    return _stat(imp, task, imp.names.node(imp.names.follow(path)), struct)


def stat(imp: Importer, task: Task, m: Match[str]) -> str | None:
    return _stat_path(imp, task, imp.path(task, "AT_FDCWD", None, m[1]), m[2], follow=True)


def lstat(imp: Importer, task: Task, m: Match[str]) -> str | None:
    return _stat_path(imp, task, imp.path(task, "AT_FDCWD", None, m[1]), m[2], follow=False)


def fstat(imp: Importer, task: Task, m: Match[str]) -> str | None:
    return _stat_fd(imp, task, m[1], m[2], m[3])


def _stat_fd(imp: Importer, task: Task, fd: str, raw: str | None, struct: str) -> str | None:
    found = imp.describe(task, fd, raw)
    if found is None and (kind := MODE(struct)) and kind[1] not in ("S_IFREG", "S_IFDIR"):
        found = Description(None)  # a pipe, socket or device, whichever call opened it
        task.table.put(fd, found, fd in task.table.at_exec)
    if found is None:
        return UNKNOWN_FD
    return NOT_A_FILE if found.node is None else _stat(imp, task, found.node, struct, found)


def newfstatat(imp: Importer, task: Task, m: Match[str]) -> str | None:
    base, raw, quoted, struct, flags, _ = m.groups()
    return _stat_at(imp, task, (base, raw, quoted), struct, flags)


def statx(imp: Importer, task: Task, m: Match[str]) -> str | None:
    base, raw, quoted, flags, struct, _ = m.groups()
    return _stat_at(imp, task, (base, raw, quoted), struct, flags)


def _stat_at(imp: Importer, task: Task, where: tuple, struct: str, flags: str) -> str | None:
    if not where[2] and where[0] != "AT_FDCWD":
        return _stat_fd(imp, task, where[0], where[1], struct)
    return _stat_path(imp, task, imp.path(task, *where), struct, "AT_SYMLINK_NOFOLLOW" not in flags)


def access(imp: Importer, task: Task, m: Match[str]) -> str | None:
    return _stat_path(imp, task, imp.path(task, "AT_FDCWD", None, m[1]), "", follow=True)


def faccessat(imp: Importer, task: Task, m: Match[str]) -> str | None:
    base, raw, quoted, flags, _ = m.groups()
    return _stat_at(imp, task, (base, raw, quoted), "", flags)


def truncate(imp: Importer, task: Task, m: Match[str]) -> str | None:
    path = imp.names.follow(imp.path(task, "AT_FDCWD", None, m[1]))
    if is_special(path):
        return NOT_A_FILE
    node, length = imp.names.node(path), number(m[2])
    file_rules.set_length(node, length)
    return imp.emit(task, TRUNCATE, node, length, 0, 0)


def _remove(imp: Importer, task: Task, path: str, op: int) -> str | None:
    if imp.names.links.pop(path, None) is not None:
        return SYMLINK
    if is_special(path):
        return NOT_A_FILE
    node = imp.names.remove(path)
    if op == RMDIR:
        node.is_dir = True
    parent = imp.number(imp.names.parent(path)) if node.inside else -1
    return imp.emit(task, op, node, -1, 0, DIRECTORY if op == RMDIR else 0, parent)


def unlink(imp: Importer, task: Task, m: Match[str]) -> str | None:
    return _remove(imp, task, imp.path(task, "AT_FDCWD", None, m[1]), UNLINK)


def rmdir(imp: Importer, task: Task, m: Match[str]) -> str | None:
    return _remove(imp, task, imp.path(task, "AT_FDCWD", None, m[1]), RMDIR)


def unlinkat(imp: Importer, task: Task, m: Match[str]) -> str | None:
    base, raw, quoted, flags, _ = m.groups()
    return _remove(imp, task, imp.path(task, base, raw, quoted), RMDIR if "AT_REMOVEDIR" in flags else UNLINK)


def _mkdir(imp: Importer, task: Task, path: str) -> str | None:
    if is_special(path):
        return NOT_A_FILE
    node = imp.names.make(path, is_dir=True)
    parent = imp.number(imp.names.parent(path)) if node.inside else -1
    return imp.emit(task, MKDIR, node, -1, 0, DIRECTORY, parent)


def mkdir(imp: Importer, task: Task, m: Match[str]) -> str | None:
    return _mkdir(imp, task, imp.path(task, "AT_FDCWD", None, m[1]))


def mkdirat(imp: Importer, task: Task, m: Match[str]) -> str | None:
    return _mkdir(imp, task, imp.path(task, m[1], m[2], m[3]))


def rename(imp: Importer, task: Task, m: Match[str]) -> str | None:
    cwd = ("AT_FDCWD", None)
    return _rename(imp, task, imp.path(task, *cwd, m[1]), imp.path(task, *cwd, m[2]), "")


def renameat(imp: Importer, task: Task, m: Match[str]) -> str | None:
    old, new = imp.path(task, m[1], m[2], m[3]), imp.path(task, m[4], m[5], m[6])
    return _rename(imp, task, old, new, m[7])


def _rename(imp: Importer, task: Task, old: str, new: str, flags: str) -> str | None:
    names = imp.names
    if old in names.links:
        names.links[new] = names.links.pop(old)
        return SYMLINK
    replaced = None
    if "RENAME_EXCHANGE" in flags:
        node = names.exchange(old, new)
    else:
        names.links.pop(new, None)
        node, replaced = names.move(old, new)
    was_inside, node.inside = node.inside, names.inside(new)
    flag = DIRECTORY if node.is_dir else 0
    if node.inside:
        if node.ident < 0 and not was_inside:  # moved in from outside: a file that existed before
            node.first = 0 if node.is_dir else node.length
        file2 = imp.number(replaced) if replaced is not None and replaced.inside else -1
        return imp.emit(task, RENAME, node, -1, 0, flag, file2)
    if not was_inside:
        return OUTSIDE
    node.inside = True  # moved out: the traced directory loses the file
    reason = imp.emit(task, UNLINK, node, -1, 0, flag, imp.number(names.parent(old)))
    node.inside = False
    return reason


def link(imp: Importer, task: Task, m: Match[str]) -> str | None:
    cwd = ("AT_FDCWD", None)
    return _link(imp, task, imp.path(task, *cwd, m[1]), imp.path(task, *cwd, m[2]), None)


def linkat(imp: Importer, task: Task, m: Match[str]) -> str | None:
    base, raw, quoted, new_base, new_raw, new_quoted, flags, _ = m.groups()
    old, new = imp.path(task, base, raw, quoted), imp.path(task, new_base, new_raw, new_quoted)
    by_fd = "AT_EMPTY_PATH" in flags and not quoted
    same = imp.describe(task, base, raw) if by_fd else imp.by_link(task, old)
    return _link(imp, task, old, new, same.node if same is not None else None)


def _link(imp: Importer, task: Task, old: str, new: str, node: Node | None) -> str | None:
    if old in imp.names.links:
        imp.names.links[new] = imp.names.links[old]
        return SYMLINK
    node = imp.names.table[new] = node or imp.names.node(old)
    parent = imp.number(imp.names.parent(new)) if node.inside else -1
    return imp.emit(task, LINK, node, -1, 0, 0, parent)


def symlink(imp: Importer, task: Task, m: Match[str]) -> str | None:
    return _symlink(imp, imp.path(task, "AT_FDCWD", None, m[2]), unescape(m[1]))


def symlinkat(imp: Importer, task: Task, m: Match[str]) -> str | None:
    return _symlink(imp, imp.path(task, m[2], m[3], m[4]), unescape(m[1]))


def _symlink(imp: Importer, path: str, target: str) -> str | None:
    imp.names.links[path] = imp.names.join(path.rpartition("/")[0], target)
    return SYMLINK


def chdir(imp: Importer, task: Task, m: Match[str]) -> str | None:
    task.place.move(imp.path(task, "AT_FDCWD", None, m[1]))
    return BOOKKEEPING


def fchdir(imp: Importer, task: Task, m: Match[str]) -> str | None:
    task.place.move(imp.base(task, m[1], m[2]))
    task.place.doubt |= imp.doubt
    return BOOKKEEPING


def getcwd(imp: Importer, task: Task, m: Match[str]) -> str | None:
    task.place.move(unescape(m[1]))
    return BOOKKEEPING


def no_model(imp: Importer, task: Task, m: Match[str]) -> str | None:
    return NO_MODEL


_MODE = r"(?:, *+[0-7]+)?"
AT = DIR + COMMA + PATH

# name -> (pattern of the arguments and the result, handler)
CALLS = {
    "open": (PATH + COMMA + WORD + _MODE + RESULT_FD, open_),
    "openat": (AT + COMMA + WORD + _MODE + RESULT_FD, openat),
    "openat2": (AT + COMMA + r"\{flags=([^,}]+)" + REST + RESULT_FD, openat),
    "creat": (PATH + COMMA + r"[0-7]+" + RESULT_FD, creat),
    "stat": (PATH + COMMA + STRUCT + RESULT, stat),
    "lstat": (PATH + COMMA + STRUCT + RESULT, lstat),
    "fstat": (FD + COMMA + STRUCT + RESULT, fstat),
    "newfstatat": (AT + COMMA + STRUCT + COMMA + WORD + RESULT, newfstatat),
    "statx": (AT + COMMA + WORD + COMMA + r"[^,]+" + COMMA + STRUCT + RESULT, statx),
    "access": (PATH + COMMA + REST + RESULT, access),
    "faccessat": (AT + COMMA + f"({REST})" + RESULT, faccessat),
    "truncate": (PATH + COMMA + NUMBER + RESULT, truncate),
    "unlink": (PATH + RESULT, unlink),
    "rmdir": (PATH + RESULT, rmdir),
    "unlinkat": (AT + COMMA + WORD + RESULT, unlinkat),
    "mkdir": (PATH + COMMA + REST + RESULT, mkdir),
    "mkdirat": (AT + COMMA + REST + RESULT, mkdirat),
    "rename": (PATH + COMMA + PATH + RESULT, rename),
    "renameat": (AT + COMMA + AT + "()" + RESULT, renameat),
    "renameat2": (AT + COMMA + AT + COMMA + WORD + RESULT, renameat),
    "link": (PATH + COMMA + PATH + RESULT, link),
    "linkat": (AT + COMMA + AT + COMMA + WORD + RESULT, linkat),
    "symlink": (PATH + COMMA + PATH + RESULT, symlink),
    "symlinkat": (PATH + COMMA + AT + RESULT, symlinkat),
    "chdir": (PATH + RESULT, chdir),
    "fchdir": (FD + RESULT, fchdir),
    "getcwd": (PATH + COMMA + REST + RESULT, getcwd),
}
_SAME = {
    "stat": "stat64", "lstat": "lstat64", "fstat": "fstat64", "newfstatat": "fstatat64", "faccessat": "faccessat2",
    "truncate": "truncate64",
}  # fmt: skip
_NO_MODEL = (
    "chmod fchmod fchmodat fchmodat2 chown fchown lchown fchownat utime utimes futimesat utimensat "
    "setxattr lsetxattr fsetxattr getxattr lgetxattr fgetxattr listxattr llistxattr flistxattr "
    "removexattr lremovexattr fremovexattr mknod mknodat readlink readlinkat statfs fstatfs flock"
)
CALLS |= {alias: CALLS[name] for name, aliases in _SAME.items() for alias in aliases.split()}
CALLS |= {name: (REST + RESULT, no_model) for name in _NO_MODEL.split()}
