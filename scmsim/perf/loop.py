"""Python version of loop.c for machines without a compiler, with the same arguments, counted region and output.

User-mode counts include the interpreter's instructions; the kernel's work for each call is the same.
"""

import ctypes
import errno
import json
import os
import sys
import time
from collections.abc import Callable

ARRAY_BYTES = 16 << 20
PR_SET_PDEATHSIG, SIGKILL = 1, 9


def main(argv: list[str]) -> int:
    if argv == ["check"]:
        print("ok")
        return 0
    path, operation, file_bytes, unit_text, passes_text, warm_up, drop, cpu, ctl, ack = argv
    unit, passes = int(unit_text), int(passes_text)
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, SIGKILL)
    control = _control(ctl, ack)
    if int(cpu) >= 0:
        os.sched_setaffinity(0, {int(cpu)})
    units = int(file_bytes) // unit
    fd = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_NOFOLLOW, 0o600)
    array = memoryview(bytearray(ARRAY_BYTES))[:unit]
    once = _stdio(fd, array, units) if operation == "fwrite" else _passes(fd, array, units, operation)
    appends = operation in ("write", "fwrite")
    if not appends:
        _passes(fd, array, units, "write")()
        os.fsync(fd)
    for _ in range((operation == "reread") + int(warm_up)):
        once()
        if appends:
            os.ftruncate(fd, 0)
    if int(drop):
        os.sync()
        with open("/proc/sys/vm/drop_caches", "w") as caches:
            caches.write("3\n")
    elapsed = 0
    for i in range(passes):
        if i == 0 or appends:
            control(b"enable\n")
        start = time.monotonic_ns()
        once()
        elapsed += time.monotonic_ns() - start
        if i + 1 == passes or appends:
            control(b"disable\n")
        if appends and i + 1 < passes:
            os.ftruncate(fd, 0)
    print(json.dumps({"elapsed_ns": elapsed, "calls": passes * units, "bytes": passes * units * unit}))
    return 0


def _control(ctl: str, ack: str) -> Callable[[bytes], None]:
    if ctl == "-":
        return lambda command: None
    to_perf, from_perf = os.open(ctl, os.O_WRONLY), os.open(ack, os.O_RDONLY)

    def control(command: bytes) -> None:
        os.write(to_perf, command)
        if not os.read(from_perf, 5):
            raise OSError(errno.EPIPE, os.strerror(errno.EPIPE))

    return control


def _passes(fd: int, array: memoryview, units: int, operation: str) -> Callable[[], None]:
    """Return a function that does one pass of write or read calls from the file's start."""
    reading = operation in ("read", "reread")

    def once() -> None:
        os.lseek(fd, 0, os.SEEK_SET)
        for _ in range(units):
            if (os.readv(fd, [array]) if reading else os.write(fd, array)) != len(array):
                raise OSError(errno.EIO, "a call moved less than a unit")

    return once


def _stdio(fd: int, array: memoryview, units: int) -> Callable[[], None]:
    """Return a function that does one pass of the C library's fwrite from the file's start, and flushes."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.fdopen.restype = ctypes.c_void_p
    libc.fwrite.restype = ctypes.c_size_t
    libc.fwrite.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t, ctypes.c_void_p)
    libc.fflush.argtypes = libc.rewind.argtypes = (ctypes.c_void_p,)
    stream = libc.fdopen(fd, b"w")
    buffer = (ctypes.c_char * len(array)).from_buffer(array)

    def once() -> None:
        libc.rewind(stream)
        for _ in range(units):
            if libc.fwrite(buffer, 1, len(array), stream) != len(array):
                raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        if libc.fflush(stream):
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))

    return once


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except OSError as error:
        print(f"loop: {error.filename or sys.argv[2]}: errno {error.errno or errno.EIO}", file=sys.stderr)
        sys.exit(1)
