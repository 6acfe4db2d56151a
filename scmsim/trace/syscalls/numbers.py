"""Numbers of the system calls that matter for files, by architecture: perf prints numbers, strace prints names.

Source: the kernel's own headers, asm/unistd_64.h (x86-64) and asm-generic/unistd.h (64-bit Arm).
"""

from scmsim.core.errors import EnvironmentProblem

_X86_64 = """
    read=0 write=1 open=2 close=3 stat=4 fstat=5 lstat=6 lseek=8 mmap=9 munmap=11 pread64=17 pwrite64=18 readv=19
    writev=20 access=21 pipe=22 mremap=25 msync=26 dup=32 dup2=33 sendfile=40 socket=41 accept=43 socketpair=53
    clone=56 fork=57 vfork=58 execve=59 exit=60 fcntl=72 flock=73 fsync=74 fdatasync=75 truncate=76 ftruncate=77
    getdents=78 getcwd=79 chdir=80 fchdir=81 rename=82 mkdir=83 rmdir=84 creat=85 link=86 unlink=87 symlink=88
    readlink=89 chmod=90 fchmod=91 chown=92 fchown=93 lchown=94 utime=132 mknod=133 statfs=137 fstatfs=138 sync=162
    setxattr=188 lsetxattr=189 fsetxattr=190 getxattr=191 lgetxattr=192 fgetxattr=193 listxattr=194 llistxattr=195
    flistxattr=196 removexattr=197 lremovexattr=198 fremovexattr=199 epoll_create=213 getdents64=217 exit_group=231
    utimes=235 mq_open=240 inotify_init=253 openat=257 mkdirat=258 mknodat=259 fchownat=260 futimesat=261
    newfstatat=262 unlinkat=263 renameat=264 linkat=265 symlinkat=266 readlinkat=267 fchmodat=268 faccessat=269
    unshare=272 splice=275 sync_file_range=277 utimensat=280 signalfd=282 timerfd_create=283 eventfd=284
    fallocate=285 accept4=288 signalfd4=289 eventfd2=290 epoll_create1=291 dup3=292 pipe2=293 inotify_init1=294
    preadv=295 pwritev=296 perf_event_open=298 fanotify_init=300 syncfs=306 renameat2=316 memfd_create=319 bpf=321
    execveat=322 userfaultfd=323 copy_file_range=326 preadv2=327 pwritev2=328 statx=332 io_uring_setup=425
    io_uring_enter=426 io_uring_register=427 open_tree=428 fsopen=430 fsmount=432 pidfd_open=434 clone3=435
    close_range=436 openat2=437 pidfd_getfd=438 faccessat2=439 landlock_create_ruleset=444 memfd_secret=447
"""
_AARCH64 = """
    setxattr=5 lsetxattr=6 fsetxattr=7 getxattr=8 lgetxattr=9 fgetxattr=10 listxattr=11 llistxattr=12 flistxattr=13
    removexattr=14 lremovexattr=15 fremovexattr=16 getcwd=17 eventfd2=19 epoll_create1=20 dup=23 dup3=24 fcntl=25
    inotify_init1=26 flock=32 mknodat=33 mkdirat=34 unlinkat=35 symlinkat=36 linkat=37 renameat=38 statfs=43
    fstatfs=44 truncate=45 ftruncate=46 fallocate=47 faccessat=48 chdir=49 fchdir=50 fchmod=52 fchmodat=53
    fchownat=54 fchown=55 openat=56 close=57 pipe2=59 getdents64=61 lseek=62 read=63 write=64 readv=65 writev=66
    pread64=67 pwrite64=68 preadv=69 pwritev=70 sendfile=71 signalfd4=74 splice=76 readlinkat=78 newfstatat=79
    fstat=80 sync=81 fsync=82 fdatasync=83 sync_file_range=84 timerfd_create=85 utimensat=88 exit=93 exit_group=94
    unshare=97 mq_open=180 socket=198 socketpair=199 accept=202 munmap=215 mremap=216 clone=220 execve=221 mmap=222
    msync=227 perf_event_open=241 accept4=242 fanotify_init=262 syncfs=267 renameat2=276 memfd_create=279 bpf=280
    execveat=281 userfaultfd=282 copy_file_range=285 preadv2=286 pwritev2=287 statx=291 io_uring_setup=425
    io_uring_enter=426 io_uring_register=427 open_tree=428 fsopen=430 fsmount=432 pidfd_open=434 clone3=435
    close_range=436 openat2=437 pidfd_getfd=438 faccessat2=439 landlock_create_ruleset=444 memfd_secret=447
"""


def _table(text: str) -> dict[int, str]:
    return {int(number): name for name, number in (entry.split("=") for entry in text.split())}


_NAMES = {"x86_64": _X86_64, "aarch64": _AARCH64}


def names(machine: str) -> dict[int, str]:
    """Number -> name of the calls on a machine; raises EnvironmentProblem for one without a table."""
    if machine not in _NAMES:
        known = ", ".join(_NAMES)
        raise EnvironmentProblem(f"no table of system calls for {machine!r}, only for {known}; use strace")
    return _table(_NAMES[machine])
