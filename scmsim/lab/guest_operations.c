/* Run the operations of a job: each is a few system calls between marks, by which the plugin knows what to count.
 *
 * Everything else, such as opening a file that the trace already has open, happens outside the marks.  Names are made from
 * numbers: the names of a trace never reach the guest.
 */
#define _GNU_SOURCE
#include "guest.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define DEPTH 64
#define NAME 32
#define LETTERS 20 /* first letters of names, from f on */

struct name { /* name of a file: "f<owner>", after a rename or for a link "g<owner>", "h<owner>" ..., in directory `parent` */
    int32_t parent, owner, number;
};
struct state { /* state of a file while the job runs */
    struct name name, *links;
    int link_count, last_number, made;
    int *fds, fd_count;
    int64_t *at; /* position of each descriptor */
};

static struct state *states;
long first_file, end_file;

void mark(long number)
{
    mark_inline(number);
}

static inline __attribute__((always_inline)) long marked(int several, long region, long number, long a, long b, long c, long d,
                                                         long e, long f)
{
    register long r10 asm("r10") = d, r8 asm("r8") = e, r9 asm("r9") = f;
    long result;
    mark_inline(region);
    asm volatile("syscall" : "=a"(result) : "0"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                 : "rcx", "r11", "memory");
    if (several)
        asm volatile("pause"); /* QEMU runs the other CPUs now: work that the call left to them counts for it */
    mark_inline(0);
    return result;
}

/* Make one counted system call. */
__attribute__((noinline)) long counted(long region, long number, long a, long b, long c, long d, long e, long f)
{
    return cpus() > 1 ? marked(1, region, number, a, b, c, d, e, f) : marked(0, region, number, a, b, c, d, e, f);
}

/* Append the path of a name, its directories first; `path` has room for DEPTH names. */
static int append(char *path, const struct name *name, int depth)
{
    int n = 0;
    if (name->parent >= 0 && name->parent < (int64_t)job->files && depth < DEPTH - 1)
        n = append(path, &states[name->parent].name, depth + 1);
    else
        n = sprintf(path, ROOT);
    n += sprintf(path + n, "/%c%06d", 'f' + name->number % LETTERS, name->owner - (int)first_file);
    return n + (name->number < LETTERS ? 0 : sprintf(path + n, ".%d", name->number / LETTERS));
}

static const char *path_of(const struct name *name)
{
    static char paths[2][(DEPTH + 1) * NAME]; /* rename and link need two at a time */
    static int turn;
    turn = !turn;
    append(paths[turn], name, 0);
    return paths[turn];
}

static struct name next_name(long file)
{
    struct state *state = &states[file];
    return (struct name){state->name.parent, file, ++state->last_number};
}

static void add_descriptor(struct state *state, int fd)
{
    state->fds = realloc(state->fds, (state->fd_count + 1) * sizeof *state->fds);
    state->at = realloc(state->at, (state->fd_count + 1) * sizeof *state->at);
    check(state->fds && state->at, "memory", "for descriptors");
    state->fds[state->fd_count] = fd;
    state->at[state->fd_count++] = 0;
}

int descriptor(long file)
{
    struct state *state = &states[file];
    if (!state->fd_count) {
        int fd = open(path_of(&state->name), files[file].directory ? O_RDONLY | O_DIRECTORY : O_RDWR);
        if (fd < 0)
            return -1;
        add_descriptor(state, fd);
    }
    return state->fds[state->fd_count - 1];
}

/* Return the result of a write, and count the bytes that it did not write; a write of nothing has failed. */
static long written(const struct operation *o, long done)
{
    out.short_writes += done > 0 && done < o->length;
    if (o->region)
        out.unwritten += o->length - (done > 0 ? done : 0);
    return done || !o->length ? done : -ENOSPC;
}

static long transfer(const struct operation *o)
{
    struct state *state = &states[o->file];
    int fd = descriptor(o->file);
    char *memory = buffer + (o->buffer + o->length <= (int64_t)job->buffer_bytes ? o->buffer : 0);
    int64_t offset = o->offset < 0 ? 0 : o->offset, *at;
    struct iovec vector = {memory, o->length};
    long done;

    if (fd < 0)
        return -EBADF;
    at = &state->at[state->fd_count - 1];
    if (o->op == WRITE && o->flag & SYNCHRONOUS)
        return written(o, counted(o->region, SYS_pwritev2, fd, (long)&vector, 1, offset, 0, o->flag & DATA_ONLY ? RWF_DSYNC : RWF_SYNC));
    if (*at != offset)
        *at = lseek(fd, offset, SEEK_SET);
    done = counted(o->region, o->op == READ ? SYS_read : SYS_write, fd, (long)memory, o->length, 0, 0, 0);
    if (done > 0)
        *at += done;
    return o->op == WRITE ? written(o, done) : done;
}

/* Make one getdents64 of a directory: the first, or, for an operation without bytes, the one that finds no further name. */
static long list(const struct operation *o)
{
    static char entries[32768];
    int fd = open(path_of(&states[o->file].name), O_RDONLY | O_DIRECTORY), before = 0;
    long n = fd < 0 ? -errno : 0;
    if (fd >= 0 && o->length == 0) {
        while (syscall(SYS_getdents64, fd, entries, sizeof entries) > 0)
            before++;
        lseek(fd, 0, SEEK_SET);
        while (before-- > 0)
            syscall(SYS_getdents64, fd, entries, sizeof entries);
    }
    if (fd >= 0)
        n = counted(o->region, SYS_getdents64, fd, (long)entries, sizeof entries, 0, 0, 0);
    if (fd >= 0)
        close(fd);
    return n;
}

static long rename_it(const struct operation *o)
{
    struct state *state = &states[o->file];
    int replaces = o->file2 >= 0 && o->file2 < (int64_t)job->files;
    struct name to = replaces ? states[o->file2].name : next_name(o->file);
    long r = counted(o->region, SYS_rename, (long)path_of(&state->name), (long)path_of(&to), 0, 0, 0, 0);
    if (!r) {
        if (replaces)
            states[o->file2].name = next_name(o->file2); /* in case it is made again */
        state->name = to;
    }
    return r;
}

static long link_it(const struct operation *o)
{
    struct state *state = &states[o->file];
    struct name other = next_name(o->file);
    long r = counted(o->region, SYS_link, (long)path_of(&state->name), (long)path_of(&other), 0, 0, 0, 0);
    if (!r) {
        state->links = realloc(state->links, (state->link_count + 1) * sizeof *state->links);
        check(state->links != NULL, "memory", "for names");
        state->links[state->link_count++] = other;
    }
    return r;
}

static long unlink_it(const struct operation *o) /* remove the newest of its names */
{
    struct state *state = &states[o->file];
    const struct name *name = state->link_count ? &state->links[state->link_count - 1] : &state->name;
    long r = counted(o->region, SYS_unlink, (long)path_of(name), 0, 0, 0, 0, 0);
    state->link_count -= !r && state->link_count;
    return r;
}

static long open_it(const struct operation *o)
{
    int old = files[o->file].directory ? O_RDONLY | O_DIRECTORY : O_RDWR, flags = o->op == CREATE ? O_CREAT | O_RDWR : old;
    long r = counted(o->region, SYS_openat, -100 /* AT_FDCWD */, (long)path_of(&states[o->file].name), flags, 0644, 0, 0);
    if (r >= 0)
        add_descriptor(&states[o->file], r);
    return r;
}

static long close_it(const struct operation *o)
{
    struct state *state = &states[o->file];
    if (!state->fd_count)
        return 0; /* opened before the trace began */
    return counted(o->region, SYS_close, state->fds[--state->fd_count], 0, 0, 0, 0, 0);
}

static long with_descriptor(const struct operation *o)
{
    int fd = descriptor(o->file), mode;
    if (fd < 0)
        return -EBADF;
    if (o->op == FSYNC)
        return counted(o->region, o->flag & DATA_ONLY ? SYS_fdatasync : SYS_fsync, fd, 0, 0, 0, 0, 0);
    if (o->op == TRUNCATE)
        return counted(o->region, SYS_ftruncate, fd, o->offset, 0, 0, 0, 0);
    mode = (o->flag & (KEEP_SIZE | PUNCH_HOLE) ? 1 : 0) | (o->flag & PUNCH_HOLE ? 2 : 0);
    return counted(o->region, SYS_fallocate, fd, mode, o->offset, o->length, 0, 0);
}

static void take_files(long first, long end);

void close_descriptors(void)
{
    for (long file = first_file; file < end_file; file++)
        while (states[file].fd_count)
            close(states[file].fds[--states[file].fd_count]);
}

static long remake(const struct operation *o)
{
    close_descriptors();
    make_again();
    take_files(o->file, o->file + (long)o->file2);
    wait_until_idle();
    return 0;
}

static long run(const struct operation *o)
{
    struct stat about;
    const char *path;
    if (o->op == SYNC)
        return counted(o->region, SYS_syncfs, root, 0, 0, 0, 0, 0);
    if (o->op == UFENCE)
        return run_mapped(o);
    if (o->op == LAYOUT)
        return tell_layout(o);
    if (o->op == REMAKE)
        return remake(o);
    if (o->file < 0 || o->file >= (int64_t)job->files)
        return -EINVAL;
    path = path_of(&states[o->file].name);
    switch (o->op) {
    case CREATE:
    case OPEN:
        return open_it(o);
    case READ:
    case WRITE:
        return transfer(o);
    case FSYNC:
    case TRUNCATE:
    case FALLOCATE:
        return with_descriptor(o);
    case UNLINK:
        return unlink_it(o);
    case RENAME:
        return rename_it(o);
    case LINK:
        return link_it(o);
    case MKDIR:
        return counted(o->region, SYS_mkdir, (long)path, 0755, 0, 0, 0, 0);
    case RMDIR:
        return counted(o->region, SYS_rmdir, (long)path, 0, 0, 0, 0, 0);
    case STAT:
        return counted(o->region, SYS_stat, (long)path, (long)&about, 0, 0, 0, 0);
    case READDIR:
        return list(o);
    case CLOSE:
        return close_it(o);
    default:
        return run_mapped(o);
    }
}

static long run_labelled(const struct operation *o, int64_t number)
{
    long r;
    if (o->op == WRITE)
        label(buffer + (o->buffer + o->length <= (int64_t)job->buffer_bytes ? o->buffer : 0), o->offset, o->length, number + 2);
    mark(BEGIN);
    r = run(o);
    mark(END);
    keep_result(o, r);
    return r;
}

const char *name_of(long file, int newest_link, struct given *given)
{
    const struct state *state = &states[file];
    const struct name *name = newest_link && state->link_count ? &state->links[state->link_count - 1] : &state->name;
    given->parent = name->parent;
    given->owner = name->owner;
    given->number = name->number;
    return path_of(name);
}

static void run_one(uint64_t number)
{
    const struct operation *o = (const struct operation *)(files + job->files) + number;
    long r = labelled ? run_labelled(o, number) : run(o);
    wait_for_removal(o);
    if (o->op != ULOAD && o->op != USTORE && o->op != UFLUSH)
        look_at_mappings(o->file);
    out.done++;
    if (r >= 0)
        return;
    out.no_space += r == -ENOSPC;
    if (!out.failed++) {
        out.first_failed = number;
        out.first_errno = -r;
    }
}

void run_operations(void)
{
    in_turn(run_one);
}

static void make_first(long file)
{
    int64_t left = files[file].first_size;
    const char *path;
    int fd;
    if (left < 0 || states[file].made)
        return;
    states[file].made = 1;
    if (files[file].parent >= 0)
        make_first(files[file].parent);
    path = path_of(&states[file].name);
    if (files[file].directory) {
        check(!mkdir(path, 0755), "mkdir", path);
        return;
    }
    fd = open(path, O_CREAT | O_EXCL | O_RDWR, 0644);
    check(fd >= 0, "create", path);
    while (left > 0) {
        int64_t part = left < (int64_t)job->buffer_bytes ? left : (int64_t)job->buffer_bytes;
        long n;
        if (labelled)
            label(buffer, files[file].first_size - left, part, 1);
        n = write(fd, buffer, part);
        check(n > 0, "fill", path);
        left -= n;
    }
    close(fd);
}

/* Make the files of [first, end) that exist at first; these numbers are the files of the mounted file system from now on. */
static void take_files(long first, long end)
{
    first_file = first;
    end_file = end;
    for (long file = first; file < end; file++)
        make_first(file);
    check(!syncfs(root), "sync", ROOT);
}

/* Return the end of the first file system's files: the first file of the next file system, or the number of all files. */
static long end_of_first(void)
{
    const struct operation *o = (const struct operation *)(files + job->files);
    for (uint64_t i = 0; i < job->operations; i++)
        if (o[i].op == REMAKE)
            return o[i].file;
    return job->files;
}

void make_first_files(void)
{
    make_ready_for_mappings();
    states = calloc(job->files + 1, sizeof *states);
    check(states != NULL, "memory", "for the files");
    for (long file = 0; file < (long)job->files; file++)
        states[file].name = (struct name){files[file].parent, file, 0};
    take_files(0, end_of_first());
}
