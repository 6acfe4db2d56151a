"""Numbers of the x86-64 system calls that programs are made of, and the constants of their arguments."""

NUMBERS = {
    "read": 0, "write": 1, "open": 2, "close": 3, "stat": 4, "fstat": 5, "lseek": 8, "mmap": 9, "munmap": 11, "pread64": 17,
    "pwrite64": 18, "readv": 19, "writev": 20, "pipe": 22, "msync": 26, "dup": 32, "dup2": 33, "sendfile": 40, "sendmsg": 46,
    "recvmsg": 47, "socketpair": 53, "clone": 56, "fork": 57, "vfork": 58, "execve": 59, "exit": 60, "wait4": 61, "fcntl": 72,
    "fsync": 74, "fdatasync": 75, "truncate": 76, "ftruncate": 77, "chdir": 80, "fchdir": 81, "rename": 82, "mkdir": 83,
    "rmdir": 84, "creat": 85, "link": 86, "unlink": 87, "symlink": 88, "io_setup": 206, "io_submit": 209, "exit_group": 231,
    "openat": 257, "mkdirat": 258, "newfstatat": 262, "unlinkat": 263, "linkat": 265, "splice": 275, "tee": 276,
    "sync_file_range": 277, "fallocate": 285, "dup3": 292, "pipe2": 293, "preadv": 295, "pwritev": 296, "prlimit64": 302,
    "renameat2": 316, "copy_file_range": 326, "preadv2": 327, "pwritev2": 328, "close_range": 436, "ioctl": 16,
}  # fmt: skip

AT_FDCWD = -100
O_WRONLY, O_RDWR = 1, 2
O_CREAT, O_EXCL, O_TRUNC, O_APPEND = 0o100, 0o200, 0o1000, 0o2000
O_NONBLOCK, O_DIRECTORY, O_CLOEXEC, O_PATH, O_TMPFILE = 0o4000, 0o200000, 0o2000000, 0o10000000, 0o20200000
O_SYNC = 0o4010000
F_DUPFD, F_SETFD, F_SETFL, F_DUPFD_CLOEXEC = 0, 2, 4, 1030
SEEK_SET, SEEK_CUR, SEEK_END, SEEK_DATA, SEEK_HOLE = range(5)
KEEP_SIZE, PUNCH_HOLE, COLLAPSE_RANGE, ZERO_RANGE, INSERT_RANGE = 1, 2, 8, 16, 32
RENAME_NOREPLACE, RENAME_EXCHANGE = 1, 2
AT_REMOVEDIR = 0x200
FICLONE = 0x40049409
