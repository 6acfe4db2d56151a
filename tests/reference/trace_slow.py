"""Row-by-row reference implementations of the trace tools, on plain dictionaries and sets."""

from scmsim.core.records import (
    CREATE,
    FALLOCATE,
    FREE,
    KEEP_SIZE,
    MALLOC,
    MKDIR,
    OPS,
    PUNCH_HOLE,
    READ,
    RENAME,
    RMDIR,
    SETUP,
    TRUNCATE,
    ULOAD,
    UNLINK,
    USTORE,
    WRITE,
)

PAGE = 4096


class Sizes:
    """Sizes by object id; -1: does not exist."""

    def __init__(self, first_size):
        self.now = dict(enumerate(int(size) for size in first_size))

    def step(self, row):
        """Size of the row's file before it; then take the row into account."""
        op, file, offset, length, flag = (int(row[c]) for c in ("op", "file", "offset", "length", "flag"))
        before = self.now.get(file, 0)
        if file >= 0:
            if (op == WRITE and length) or (op == FALLOCATE and not flag & (KEEP_SIZE | PUNCH_HOLE)):
                self.now[file] = max(before, offset + length)
            elif op == TRUNCATE:
                self.now[file] = offset
            elif op in (CREATE, MKDIR):
                self.now[file] = 0
            elif op == MALLOC:
                self.now[file] = length
            elif op in (UNLINK, RMDIR, FREE):
                self.now[file] = -1
        if op == RENAME and row["file2"] >= 0 and row["file2"] != file:
            self.now[int(row["file2"])] = -1
        return before


def stats(rows, first_size, setup=False):
    """The numbers of scmsim.trace.stats that can be told apart from its printing."""
    sizes = Sizes(first_size)
    last_end, last_file = {}, {}
    touched, written, memory = set(), set(), set()
    ops = {}
    follow = {READ: 0, WRITE: 0}
    sequential = {READ: 0, WRITE: 0}
    overwritten = appends = shared = 0
    for row in rows:
        before = sizes.step(row)
        op, file, offset, length, thread, buffer = (
            int(row[c]) for c in ("op", "file", "offset", "length", "thread", "buffer")
        )
        if row["flag"] & SETUP and not setup:
            continue
        calls, moved = ops.get(OPS[op], (0, 0))
        ops[OPS[op]] = (calls + 1, moved + length)
        span = range(offset // PAGE, (offset + length - 1) // PAGE + 1) if length and offset >= 0 else ()
        if op in (READ, WRITE, ULOAD, USTORE) and file >= 0:
            touched |= {(file, page) for page in span}
        if op in (READ, WRITE):
            if (op, file) in last_end:
                follow[op] += 1
                sequential[op] += last_end[op, file] == offset
            last_end[op, file] = offset + length
            shared += last_file.get((thread, buffer), file) != file
            last_file[thread, buffer] = file
            if length:
                memory |= {(thread, page) for page in range(buffer // PAGE, (buffer + length - 1) // PAGE + 1)}
        if op == WRITE:
            written |= {(file, page) for page in span}
            size = max(before, 0)
            overwritten += min(max(size - offset, 0), length)
            appends += offset == size and length > 0
    share = {op: sequential[op] / follow[op] if follow[op] else None for op in follow}
    return {
        "ops": {name: {"calls": calls, "bytes": moved} for name, (calls, moved) in ops.items()},
        "sequential": (share[READ], share[WRITE]),
        "working_set": (len(touched) * PAGE, len(written) * PAGE),
        "buffers": len(memory) * PAGE,
        "overwritten_bytes": overwritten,
        "appends": appends,
        "shared": shared,
    }
