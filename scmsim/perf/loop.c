/* The thesis' microbenchmark (Program 1) as one measured region: write, rewrite, read or reread a file in units, or fwrite.
 *
 * Usage: loop PATH OPERATION FILE_BYTES UNIT_BYTES PASSES WARM_UP DROP_CACHES CPU CTL ACK
 *        loop check                      prints "ok": programs can run from here
 * PATH must not exist.  One pass moves FILE_BYTES / UNIT_BYTES units (the remainder is dropped); CPU -1: not pinned;
 * CTL and ACK are the two fifos of `perf stat --control`, or "-".  Counting is on during the loops only: filling, warming,
 * truncating between two write passes and dropping caches are not counted.  Prints {"elapsed_ns", "calls", "bytes"}.
 * loop.py does the same for machines without a compiler.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#define MAX 1024

int array[MAX * MAX * 4]; /* 16 MiB, never touched before, as in Program 1 */

static int fd, ctl = -1, ack = -1, stdio, reading;
static FILE *stream;
static unsigned long unit, units;

static void check(int good, const char *what)
{
    if (good)
        return;
    fprintf(stderr, "loop: %s: errno %d\n", what, errno ? errno : EIO);
    exit(1);
}

static void control(const char *command)
{
    char answer[5]; /* "ack\n" and a zero byte */
    if (ctl < 0)
        return;
    check(write(ctl, command, strlen(command)) > 0, "perf's control fifo");
    errno = EPIPE;
    check(read(ack, answer, sizeof answer) > 0, "perf's acknowledgement");
}

static void once(void) /* one pass over the file */
{
    register unsigned long i;

    if (stdio) {
        for (i = 0; i < units; i++)
            check(fwrite(array, 1, unit, stream) == unit, "fwrite");
        check(fflush(stream) == 0, "fflush");
        return;
    }
    lseek(fd, 0, SEEK_SET);
    errno = 0;
    if (reading)
        for (i = 0; i < units; i++)
            check(read(fd, array, unit) == (ssize_t)unit, "read");
    else
        for (i = 0; i < units; i++)
            check(write(fd, array, unit) == (ssize_t)unit, "write");
}

static void empty(void) /* the next pass appends to an empty file again */
{
    check(ftruncate(fd, 0) == 0, "ftruncate");
    if (stdio)
        rewind(stream);
}

static void fill(void)
{
    int was = reading;
    reading = 0;
    once();
    reading = was;
    check(fsync(fd) == 0 || errno == EINVAL, "fsync");
}

static void drop_caches(void)
{
    int drop;
    sync();
    drop = open("/proc/sys/vm/drop_caches", O_WRONLY);
    check(drop >= 0 && write(drop, "3\n", 2) == 2, "/proc/sys/vm/drop_caches");
    close(drop);
}

static void pin(int cpu)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    check(sched_setaffinity(0, sizeof set, &set) == 0, "sched_setaffinity");
}

static unsigned long long now(void)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return at.tv_sec * 1000000000ULL + at.tv_nsec;
}

int main(int argc, char **argv)
{
    unsigned long long elapsed = 0, start;
    unsigned long pass, passes, warm_up;
    int appends;

    if (argc == 2 && !strcmp(argv[1], "check"))
        return puts("ok") < 0;
    if (argc != 11)
        return 2;
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* without perf the run measures nothing */
    if (strcmp(argv[9], "-")) {
        check((ctl = open(argv[9], O_WRONLY | O_CLOEXEC)) >= 0, argv[9]);
        check((ack = open(argv[10], O_RDONLY | O_CLOEXEC)) >= 0, argv[10]);
    }
    if (atoi(argv[8]) >= 0)
        pin(atoi(argv[8]));
    unit = strtoul(argv[4], NULL, 10);
    units = strtoul(argv[3], NULL, 10) / unit;
    passes = strtoul(argv[5], NULL, 10);
    warm_up = strtoul(argv[6], NULL, 10);
    stdio = !strcmp(argv[2], "fwrite");
    reading = !strcmp(argv[2], "read") || !strcmp(argv[2], "reread");
    appends = stdio || !strcmp(argv[2], "write");
    if (unit > sizeof array || !unit || !units)
        return 2;

    check((fd = open(argv[1], O_CREAT | O_EXCL | O_RDWR | O_NOFOLLOW, 0600)) >= 0, argv[1]);
    if (stdio)
        check((stream = fdopen(fd, "w")) != NULL, "fdopen");
    if (!appends)
        fill();
    if (!strcmp(argv[2], "reread"))
        once();
    for (pass = 0; pass < warm_up; pass++) {
        once();
        if (appends)
            empty();
    }
    if (atoi(argv[7]))
        drop_caches();
    for (pass = 0; pass < passes; pass++) {
        if (pass == 0 || appends)
            control("enable\n");
        start = now();
        once();
        elapsed += now() - start;
        if (pass + 1 == passes || appends)
            control("disable\n");
        if (appends && pass + 1 < passes)
            empty();
    }
    printf("{\"elapsed_ns\": %llu, \"calls\": %lu, \"bytes\": %lu}\n", elapsed, passes * units, passes * units * unit);
    return 0;
}
