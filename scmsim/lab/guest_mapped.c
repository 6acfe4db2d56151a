/* Run the operations of mapped files, and report their faults: how many, which size of entry they set, and signals.
 *
 * Marks enclose a touch like a system call; its faults count for it.
 */
#define _GNU_SOURCE
#include "guest.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PAGE 4096L
#define LARGE_PAGE (2L << 20)
#define PLACE (1UL << 45) /* fixed addresses of a trace are moved to here on, where the guest has nothing */

struct mapping {
    struct mapping *older; /* next older mapping of the file */
    int64_t first, bytes;  /* range in the file */
    char *at;
    uint64_t *large; /* entries of 2 MiB as last seen, one for each 2 MiB of addresses; 0: none */
};

extern const char __executable_start, etext; /* from the linker */
static struct mapping **newest;               /* newest mapping of each file */
static struct fault_count *outcomes, *outcome; /* by region; the one of the current operation */
static uint64_t region_count;
static int walks; /* whether our page table is readable */
static sigjmp_buf after_signal;
static volatile int signalled;

/* Add the faults of this process so far to the region's counts (sign 1), or subtract them (sign -1). */
static void add_faults(int sign)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    outcome->faults += sign * (usage.ru_minflt + usage.ru_majflt);
    outcome->major += sign * usage.ru_majflt;
}

static long call(long region, long number, long a, long b, long c, long d, long e, long f)
{
    long r;
    add_faults(-1);
    r = counted(region, number, a, b, c, d, e, f);
    add_faults(1);
    return r;
}

static void on_signal(int number)
{
    mark_inline(0);
    signalled = number;
    siglongjmp(after_signal, 1);
}

static int64_t large_count(const struct mapping *m)
{
    return ((uint64_t)m->at + m->bytes - 1) / LARGE_PAGE - (uint64_t)m->at / LARGE_PAGE + 1;
}

/* Read a mapping's entries of 2 MiB; return how many are new. */
static int64_t look(struct mapping *m)
{
    uint64_t address = (uint64_t)m->at & -LARGE_PAGE;
    int64_t found = 0;
    for (int64_t k = 0; walks && k < large_count(m); k++, address += LARGE_PAGE) {
        uint64_t now = large_entry(address, k == 0);
        found += now && now != m->large[k];
        m->large[k] = now;
    }
    return found;
}

void look_at_mappings(long file)
{
    for (struct mapping *m = file >= 0 && file < (int64_t)job->files ? newest[file] : NULL; m; m = m->older)
        look(m);
}

static struct mapping *new_mapping(long file, int64_t first, int64_t bytes, char *at)
{
    struct mapping *m = malloc(sizeof *m);
    check(m != NULL, "memory", "for mappings");
    *m = (struct mapping){newest[file], first, bytes, at, NULL};
    m->large = calloc(large_count(m), sizeof *m->large);
    check(m->large != NULL, "memory", "for mappings");
    return newest[file] = m;
}

static struct mapping *mapping_of(long file, int64_t offset)
{
    struct mapping *m = newest[file];
    while (m && !(m->first <= offset && offset < m->first + m->bytes))
        m = m->older;
    return m;
}

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Remove the bytes [low, high) of its file from a mapping; the bytes after them become the newest mapping. */
static void forget(long file, struct mapping *m, int64_t low, int64_t high)
{
    int64_t end = m->first + m->bytes;
    struct mapping **link = &newest[file];
    while (*link != m)
        link = &(*link)->older;
    m->bytes = low - m->first;
    if (!m->bytes)
        *link = m->older;
    if (high < end)
        look(new_mapping(file, high, end - high, m->at + (high - m->first)));
    if (m->bytes)
        return;
    free(m->large);
    free(m);
}

static void forget_addresses(char *at, int64_t bytes)
{
    for (long file = 0; file < (long)job->files; file++)
        for (struct mapping *m = newest[file], *older; m; m = older) {
            int64_t low = at > m->at ? at - m->at : 0, high = smaller(at + bytes - m->at, m->bytes);
            older = m->older;
            if (low < high)
                forget(file, m, m->first + low, m->first + high);
        }
}

static long add(const struct operation *o, int64_t first, int64_t bytes)
{
    int protection = PROT_READ | (o->flag & (SHARED_WRITABLE | COPIED) ? PROT_WRITE : 0), how, fd = descriptor(o->file);
    uint64_t at = o->buffer ? ((uint64_t)o->buffer & (PLACE * 2 - 1) & -PAGE) | PLACE : 0;
    long r;
    how = o->flag & COPIED ? MAP_PRIVATE : o->flag & SYNCED ? MAP_SHARED_VALIDATE | MAP_SYNC : MAP_SHARED;
    how |= (o->flag & POPULATED ? MAP_POPULATE : 0) | (at ? MAP_FIXED : 0);
    if (fd < 0)
        return -EBADF;
    if (at)
        forget_addresses((char *)at, bytes);
    r = call(o->region, SYS_mmap, at, bytes, protection, how, fd, first);
    if (r < 0 && r > -PAGE)
        return r;
    new_mapping(o->file, first, bytes, (char *)r);
    return 0;
}

static void touch_words(const struct operation *o, volatile uint64_t *word, const volatile uint64_t *end)
{
    if (o->op == ULOAD)
        for (; word < end; word++)
            (void)*word;
    else if (o->flag & PAST_CACHES)
        for (; word < end; word++)
            asm volatile("movnti %1, %0" : "=m"(*word) : "r"((uint64_t)word));
    else
        for (; word < end; word++)
            *word = (uint64_t)word;
}

static void touch_bytes(const struct operation *o, volatile char *byte, const volatile char *end)
{
    if (o->op == ULOAD)
        for (; byte < end; byte++)
            (void)*byte;
    else
        for (; byte < end; byte++)
            *byte = 1;
}

static void touch(const struct operation *o, char *at, int64_t bytes)
{
    char *end = at + bytes, *first = (char *)(((uint64_t)at + 7) & -8UL), *last = (char *)((uint64_t)end & -8UL);
    add_faults(-1);
    mark_inline(o->region);
    if (o->op == UFLUSH)
        for (char *line = (char *)((uint64_t)at & -64UL); line < end; line += 64)
            asm volatile("clwb %0" : "+m"(*line));
    else if (first >= last)
        touch_bytes(o, at, end);
    else {
        touch_bytes(o, at, first);
        touch_words(o, (uint64_t *)first, (uint64_t *)last);
        touch_bytes(o, last, end);
    }
    mark_inline(0);
    add_faults(1);
}

/* Return where the newest mapping of an offset ends, or a newer mapping begins. */
static int64_t end_of(long file, const struct mapping *m, int64_t offset)
{
    int64_t end = m ? m->first + m->bytes : INT64_MAX;
    for (const struct mapping *newer = newest[file]; newer != m; newer = newer->older)
        if (newer->first > offset)
            end = smaller(end, newer->first);
    return end;
}

/* Perform an operation through the newest mapping of each part of its bytes. */
static long through(const struct operation *o, int64_t offset, int64_t end)
{
    long r = 0, missing = 0;
    int touches = o->op == ULOAD || o->op == USTORE || o->op == UFLUSH;
    while (offset < end && r >= 0) {
        struct mapping *m = mapping_of(o->file, offset);
        int64_t stop = smaller(end, end_of(o->file, m, offset));
        char *at = m ? m->at + (offset - m->first) : NULL;
        if (!m && touches) {
            signalled = SIGSEGV;
            return 0;
        }
        if (!m)
            missing = o->op == MUNMAP ? 0 : -ENOMEM;
        else if (touches)
            touch(o, at, stop - offset);
        else if (o->op == MSYNC)
            r = call(o->region, SYS_msync, (long)at, stop - offset, MS_SYNC, 0, 0, 0);
        else if (o->op == MADVISE)
            r = call(o->region, SYS_madvise, (long)at, stop - offset, o->buffer, 0, 0, 0);
        else if (!(r = call(o->region, SYS_munmap, (long)at, stop - offset, 0, 0, 0, 0)))
            forget(o->file, m, offset, stop);
        offset = stop;
    }
    return r ? r : missing;
}

/* Take a signal once, deep in the stack, so that its own faults are not counted for a trace. */
static __attribute__((noinline)) void try_signal(void)
{
    char deep[1 << 17];
    memset(deep, 0, sizeof deep);
    asm volatile("" : : "r"(deep) : "memory");
    if (!sigsetjmp(after_signal, 0))
        *(volatile char *)PAGE = 0;
}

static long perform(const struct operation *o)
{
    int64_t first = o->offset & -PAGE, end = (o->offset + o->length + PAGE - 1) & -PAGE;
    if (o->op == UFENCE) {
        mark_inline(o->region);
        asm volatile("sfence" ::: "memory");
        mark_inline(0);
        return 0;
    }
    if (o->op == MMAP)
        return add(o, first, end - first);
    if (o->op == ULOAD || o->op == USTORE || o->op == UFLUSH)
        return through(o, o->offset, o->offset + (o->length > 0 ? o->length : 1));
    return through(o, first, end);
}

long run_mapped(const struct operation *o)
{
    volatile long r = 0;
    uint64_t before;
    outcome = &outcomes[o->region];
    before = outcome->faults;
    signalled = 0;
    if (!sigsetjmp(after_signal, 0))
        r = perform(o);
    else
        add_faults(1);
    outcome->bus += signalled == SIGBUS;
    outcome->segv += signalled == SIGSEGV;
    if (outcome->faults != before || o->op == MMAP)
        for (struct mapping *m = newest[o->file]; m; m = m->older)
            outcome->large += look(m);
    return r;
}

void make_ready_for_mappings(void)
{
    const struct operation *o = (const struct operation *)(files + job->files);
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_NODEFER};
    for (uint64_t i = 0; i < job->operations; i++)
        region_count = o[i].region >= region_count ? o[i].region + 1u : region_count;
    newest = calloc(job->files + 1, sizeof *newest);
    outcomes = calloc(region_count + 1, sizeof *outcomes);
    check(newest && outcomes, "memory", "for mappings");
    memset(outcomes, 0, (region_count + 1) * sizeof *outcomes); /* touched now, so that it faults outside of the trace's counts */
    sigaction(SIGBUS, &action, NULL);
    sigaction(SIGSEGV, &action, NULL);
    outcome = outcomes;
    add_faults(1);
    for (const volatile char *code = &__executable_start; code < &etext; code += PAGE)
        (void)*code;
    try_signal();
    memset(outcomes, 0, sizeof *outcomes);
    walks = find_page_table();
}

void write_faults(int fd, uint64_t at)
{
    uint64_t head[4] = {walks, region_count, extent_count, 0};
    uint64_t bytes = region_count * sizeof *outcomes, more = extent_count * sizeof *extents;
    check(pwrite(fd, head, sizeof head, at) == sizeof head, "write", mailbox);
    check(pwrite(fd, outcomes, bytes, at + sizeof head) == (ssize_t)bytes, "write", mailbox);
    check(!more || pwrite(fd, extents, more, at + sizeof head + bytes) == (ssize_t)more, "write", mailbox);
}
