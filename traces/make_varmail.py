"""A mail server after the loop of Filebench's varmail, on 8 threads; Filebench itself is not packaged.

Run as `python3 make_varmail.py DIRECTORY`.  Each round of a thread: delete a mail; create one, append to it, fsync; open
one, read it whole, append an answer, fsync; open one, read it whole.  An append has 0 to 16 KiB, evenly.  Each thread has
its own 40 mails and its own seed, so that every thread does the same at every run; only how they mix differs.
"""

import os
import random
import sys
import threading

THREADS = 8
MAILS = 40  # of a thread, three quarters of them there at the start
ROUNDS = 50
IO = 1 << 20  # one read asks for that much
MOST = 16 << 10  # bytes of an append


def whole(name: str, flags: int) -> int:
    """Open a mail and read it to its end; returns the descriptor."""
    file = os.open(name, flags)
    os.lseek(file, 0, os.SEEK_SET)
    while os.read(file, IO):
        pass
    return file


def append(file: int, amount: int) -> None:
    """Add to the end of a mail, durably."""
    os.lseek(file, 0, os.SEEK_END)
    if amount:
        os.write(file, bytes(amount))
    os.fsync(file)


def serve(folder: str, thread: int) -> None:
    """Run the rounds of one thread."""
    draw = random.Random(thread)
    names = [f"{folder}/{thread}-{mail:08d}" for mail in range(1, MAILS + 1)]
    present = names[: MAILS * 3 // 4]
    for name in present:
        file = os.open(name, os.O_RDWR | os.O_CREAT, 0o644)
        os.write(file, bytes(draw.randrange(1, 2 * MOST)))
        os.close(file)
    absent = names[MAILS * 3 // 4 :]
    for _ in range(ROUNDS):
        gone = present.pop(draw.randrange(len(present)))
        os.unlink(gone)
        absent.append(gone)
        new = absent.pop(0)
        file = os.open(new, os.O_RDWR | os.O_CREAT, 0o666)
        append(file, draw.randrange(MOST))
        os.close(file)
        present.append(new)
        file = whole(draw.choice(present), os.O_RDWR)
        append(file, draw.randrange(MOST))
        os.close(file)
        os.close(whole(draw.choice(present), os.O_RDONLY))


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit("usage: make_varmail.py DIRECTORY (made if missing)")
    os.makedirs(sys.argv[1], exist_ok=True)
    threads = [threading.Thread(target=serve, args=(sys.argv[1], number)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    main()
