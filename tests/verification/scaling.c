/* Calls per second of N processes at once, each on a CPU of its own, on the file system of a folder.

   Run: scaling FOLDER CASE PLACE PROCESSES SECONDS; prints "CALLS SECONDS".

   PLACE is "private" (each process has a file and a directory of its own) or "shared" (all have one file and one directory; the
   mappings of case mmap are then those of threads of one process).  A turn of a case is one call, except where its comment says
   otherwise.  The processes meet at a barrier, so the time has no start in it.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { BLOCK = 4096, BLOCKS = 256, MOST = 256 };

struct task;

struct common {
    atomic_int ready, go, stop, failed;
    struct { _Alignas(128) unsigned long calls; } of[MOST];
};

struct worker {
    struct common *common;
    const struct task *task;
    int number, shared, descriptor;
    unsigned long turn;
    char name[32], other[32], file[32], buffer[BLOCK];
};

static void fail(struct common *common, const char *what)
{
    if (!atomic_exchange(&common->failed, 1))
        fprintf(stderr, "%s: %s\n", what, strerror(errno));
    _exit(1);
}

/* Each returns the calls that it made, 0 if one failed. */
static int overwrite(struct worker *its) /* of blocks that no other process writes */
{
    off_t at = (off_t)(its->number % 16 * 16 + its->turn % 16) * BLOCK;
    return pwrite(its->descriptor, its->buffer, BLOCK, at) == BLOCK;
}

static int read_block(struct worker *its)
{
    return pread(its->descriptor, its->buffer, BLOCK, (off_t)(its->turn % BLOCKS) * BLOCK) == BLOCK;
}

static int append(struct worker *its) /* 256 appends, then a truncate to nothing: 257 calls */
{
    for (int block = 0; block < BLOCKS; block++)
        if (pwrite(its->descriptor, its->buffer, BLOCK, (off_t)block * BLOCK) != BLOCK)
            return 0;
    return ftruncate(its->descriptor, 0) ? 0 : BLOCKS + 1;
}

static int create(struct worker *its) /* open, close, unlink: 3 calls */
{
    int made = open(its->name, O_CREAT | O_EXCL | O_RDWR, 0600);
    return made < 0 || close(made) || unlink(its->name) ? 0 : 3;
}

static int rename_back(struct worker *its) /* there and back: 2 calls */
{
    return rename(its->name, its->other) || rename(its->other, its->name) ? 0 : 2;
}

static int overwrite_sync(struct worker *its) /* pwrite, fsync: 2 calls */
{
    return overwrite(its) && !fsync(its->descriptor) ? 2 : 0;
}

static int look(struct worker *its) /* fstatat of the file, by its name */
{
    struct stat found;
    return !fstatat(AT_FDCWD, its->file, &found, 0);
}

static int open_close(struct worker *its) /* open of the file, close: 2 calls */
{
    int opened = open(its->file, O_RDWR);
    return opened < 0 || close(opened) ? 0 : 2;
}

static int make_directory(struct worker *its) /* mkdir, rmdir: 2 calls */
{
    return mkdir(its->name, 0700) || rmdir(its->name) ? 0 : 2;
}

static int mixed(struct worker *its) /* a short-lived file: open, four appends, a read of each block, close, unlink: 11 calls */
{
    int made = open(its->name, O_CREAT | O_EXCL | O_RDWR, 0600);
    if (made < 0)
        return 0;
    for (int block = 0; block < 4; block++)
        if (pwrite(made, its->buffer, BLOCK, (off_t)block * BLOCK) != BLOCK)
            return 0;
    for (int block = 0; block < 4; block++)
        if (pread(made, its->buffer, BLOCK, (off_t)block * BLOCK) != BLOCK)
            return 0;
    return close(made) || unlink(its->name) ? 0 : 11;
}

static int map(struct worker *its) /* mmap of 64 KiB, a load from each page, munmap: 2 calls */
{
    enum { LENGTH = 16 * BLOCK };
    volatile char *mapped = mmap(NULL, LENGTH, PROT_READ, MAP_SHARED, its->descriptor, 0);
    if (mapped == MAP_FAILED)
        return 0;
    for (int at = 0; at < LENGTH; at += BLOCK)
        (void)mapped[at];
    return munmap((void *)mapped, LENGTH) ? 0 : 2;
}

static const struct task {
    const char *name;
    int (*turn)(struct worker *);
    int makes, threads; /* whether each worker needs a file at its name; whether those that share are threads */
} TASKS[] = {
    {"read", read_block, 0, 0}, {"overwrite", overwrite, 0, 0},  {"append", append, 0, 0},
    {"stat", look, 0, 0},       {"open", open_close, 0, 0},      {"create", create, 0, 0},
    {"mkdir", make_directory, 0, 0}, {"rename", rename_back, 1, 0}, {"mixed", mixed, 0, 0},
    {"fsync", overwrite_sync, 0, 0}, {"mmap", map, 0, 1},
};

static void prepare(struct worker *its)
{
    char place[16];
    snprintf(place, sizeof place, "d%d", its->shared ? 0 : its->number);
    if (mkdir(place, 0700) && errno != EEXIST)
        fail(its->common, place);
    snprintf(its->name, sizeof its->name, "%s/n%d", place, its->number);
    snprintf(its->other, sizeof its->other, "%s/o%d", place, its->number);
    snprintf(its->file, sizeof its->file, "%s/file", place);
    its->descriptor = open(its->file, O_CREAT | O_RDWR, 0600);
    memset(its->buffer, 1, BLOCK);
    for (int block = 0; block < BLOCKS; block++)
        if (pwrite(its->descriptor, its->buffer, BLOCK, (off_t)block * BLOCK) != BLOCK)
            fail(its->common, its->file);
    if (its->task->makes && close(open(its->name, O_CREAT | O_RDWR, 0600)))
        fail(its->common, its->name);
}

static void *work(void *given)
{
    struct worker *its = given;
    struct common *common = its->common;
    unsigned long made = 0;
    cpu_set_t cpus;
    CPU_ZERO(&cpus);
    CPU_SET(its->number % (int)sysconf(_SC_NPROCESSORS_ONLN), &cpus);
    sched_setaffinity(0, sizeof cpus, &cpus);
    prepare(its);
    atomic_fetch_add(&common->ready, 1);
    while (!atomic_load(&common->go))
        ;
    while (!atomic_load_explicit(&common->stop, memory_order_relaxed)) {
        int calls = its->task->turn(its);
        if (!calls)
            fail(common, its->task->name);
        made += (unsigned long)calls;
        *(volatile unsigned long *)&common->of[its->number].calls = made;
        its->turn++;
    }
    return NULL;
}

static void start(struct worker *its)
{
    pthread_t thread;
    if (its->task->threads && its->shared) {
        if (pthread_create(&thread, NULL, work, its))
            fail(its->common, "pthread_create");
    } else if (!fork()) {
        work(its);
        _exit(0);
    }
}

int main(int count, char **given)
{
    const struct task *task = NULL;
    for (size_t k = 0; count == 6 && k < sizeof TASKS / sizeof *TASKS; k++)
        if (!strcmp(TASKS[k].name, given[2]))
            task = &TASKS[k];
    int processes = task ? atoi(given[4]) : 0;
    if (processes < 1 || processes > MOST || chdir(given[1]))
        return fprintf(stderr, "usage: scaling FOLDER CASE private|shared PROCESSES SECONDS\n"), 2;
    struct common *common = mmap(NULL, sizeof *common, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    static struct worker workers[MOST];
    for (int number = 0; number < processes; number++) {
        workers[number] = (struct worker){.common = common, .task = task, .number = number, .shared = !strcmp(given[3], "shared")};
        start(&workers[number]);
    }
    while (atomic_load(&common->ready) < processes && !atomic_load(&common->failed))
        usleep(1000);
    struct timespec from, to;
    clock_gettime(CLOCK_MONOTONIC, &from);
    atomic_store(&common->go, 1);
    usleep((useconds_t)(atof(given[5]) * 1e6));
    unsigned long calls = 0;
    for (int number = 0; number < processes; number++)
        calls += *(volatile unsigned long *)&common->of[number].calls;
    clock_gettime(CLOCK_MONOTONIC, &to);
    atomic_store(&common->stop, 1);
    while (wait(NULL) > 0)
        ;
    if (atomic_load(&common->failed))
        return 1;
    printf("%lu %.6f\n", calls, (double)(to.tv_sec - from.tv_sec) + (double)(to.tv_nsec - from.tv_nsec) / 1e9);
    return 0;
}
