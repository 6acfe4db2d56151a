"""Compute the sizes of the transfers that glibc's buffered streams make.

A stream has a buffer of `st_blksize` bytes (4096 on the file systems modelled here, or the size given to setvbuf).  A call
that wants at least a bufferful bypasses the buffer in whole multiples of it; the rest goes through the buffer.  Reading and
writing cut a file in the same places.
Source: glibc 2.36, libio/fileops.c (_IO_new_file_xsputn, _IO_file_xsgetn); checked with strace.
"""

BUFFER = 4096


def sizes(length: int, block: int, size: int = BUFFER) -> list[int]:
    """Return the sizes of the system calls that move `length` bytes in library calls of `block` bytes (the last one shorter)."""
    if block <= size:
        return [size] * (length // size) + ([length % size] if length % size else [])
    found, done, buffered = [], 0, 0
    while done < length:
        want = min(block, length - done)
        done += want
        take = min(want, buffered)
        buffered, want = buffered - take, want - take
        if direct := want - want % size:
            found.append(direct)
        if rest := want % size:
            found.append(min(size, length - (done - rest)))
            buffered = found[-1] - rest
    return found
