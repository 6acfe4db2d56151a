/* The guest's part in a crash check: labelled writes, and a look at what the file system reads from a state of its device.
 *
 * Every 8 bytes that operation k writes to a file hold (k + 2) << 32 | page of the file; 1 << 32 | page is from before the first
 * operation.  So the data read after a crash identifies the operation that wrote it, and the page.
 */
#define _GNU_SOURCE
#include "guest.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#define WARM ROOT "/.warm"
#define TRIED ".tried"  /* name of the file that is made in each directory */
#define LONGEST 8192    /* bytes of a path */
#define PART (1 << 16) /* bytes read at a time */
#define MOST_RUNS 65536

struct seen { /* result of a state, see scmsim/lab/persistence.py */
    uint64_t mounted; /* 0, or the error number of mount() */
    uint64_t bytes;   /* of the whole result */
};
struct seen_file {
    uint64_t inode; /* 0: no such file */
    int64_t length; /* below 0: error number of open() or read() */
    uint32_t directory, runs;
    uint32_t links, listed; /* listed: whether the listing of its directory has the name */
    int32_t error; /* error number of lstat(), or of the listing of a directory */
    int32_t use;   /* error number of its removal, or of making a file in a directory */
};
struct seen_run { /* run of equal 8-byte words of a file */
    uint64_t word, count;
};

int labelled;
long state_count;
static struct given *results;
static uint64_t result_count;
static char **paths, *type, *options;
static long path_count;

void label(char *memory, int64_t offset, int64_t length, int64_t version)
{
    for (int64_t i = 0; i < length;) {
        uint64_t word = (uint64_t)version << 32 | (uint32_t)((offset + i) / 4096);
        int64_t in = (offset + i) % 8, n = 8 - in < length - i ? 8 - in : length - i;
        memcpy(memory + i, (char *)&word + in, n);
        i += n;
    }
}

/* Run write-backs that the kernel may make later than the rehearsal did: of ragged and whole writes, zeroing, and the journal. */
void warm_up(void)
{
    int fd = open(WARM, O_CREAT | O_RDWR, 0600);
    check(fd >= 0 && !ftruncate(fd, 3 << 20), "create", WARM);
    for (int64_t at = 0; at < 1 << 20; at += 4096)
        check(pwrite(fd, buffer, 4096, at) == 4096, "write", WARM);
    check(pwrite(fd, buffer, 5, 3) == 5 && pwrite(fd, buffer, 100, 4090) == 100 && !fsync(fd), "write", WARM);
    (void)fallocate(fd, 0, 1 << 20, 1 << 20);
    (void)fallocate(fd, 3, 8192, 8192);
    check(!ftruncate(fd, 5000) && !fdatasync(fd) && !close(fd), "cut", WARM);
    check(!rename(WARM, WARM "er") && !unlink(WARM "er") && !syncfs(root), "unlink", WARM);
}

/* Run every operation, then make the file system again: the plugin follows write-backs only of code that ran before. */
void rehearse(void)
{
    struct output before = out;
    labelled = 0;        /* no marks; the set-up of make_again() switches labels on again */
    warm_up();           /* as before the recording, so that logs and journals wrap at the same operations */
    run_operations();
    out = before;
    close_descriptors();
    make_again();
    make_first_files();
}

static uint64_t inode_of(const char *path)
{
    struct stat about;
    return lstat(path, &about) ? 0 : about.st_ino;
}

static struct given *next_result(void)
{
    results = realloc(results, (result_count + 1) * sizeof *results);
    check(results != NULL, "memory", "for the results");
    memset(&results[result_count], 0, sizeof *results);
    return &results[result_count++];
}

void keep_first_names(void)
{
    for (long file = 0; file < (long)job->files; file++) {
        struct given *given = next_result();
        const char *path = name_of(file, 0, given);
        given->inode = files[file].first_size < 0 ? 0 : inode_of(path);
    }
}

void keep_result(const struct operation *o, long result)
{
    struct given *given = next_result();
    given->result = result;
    if (result >= 0 && (o->op == CREATE || o->op == MKDIR || o->op == LINK || o->op == RENAME))
        given->inode = inode_of(name_of(o->file, o->op == LINK, given));
}

/* Write the results: one for each file, then one for each operation. */
void write_results(int fd, uint64_t at)
{
    uint64_t bytes = result_count * sizeof *results;
    check((uint64_t)pwrite(fd, results, bytes, at) == bytes, "write", "the results");
}

static char *copied(const char *text)
{
    char *copy = strdup(text);
    check(copy != NULL, "memory", "for the job");
    return copy;
}

/* Run a command: "label"; "states" COUNT TYPE OPTIONS; "look" PATH... */
int crash_command(char **words)
{
    if (!strcmp(words[0], "label"))
        labelled = 1;
    else if (!strcmp(words[0], "states")) {
        state_count = atol(words[1]);
        type = copied(words[2]);
        options = copied(words[3]);
    } else if (!strcmp(words[0], "look"))
        for (char **word = words + 1; *word; word++) {
            paths = realloc(paths, (path_count + 1) * sizeof *paths);
            check(paths != NULL, "memory", "for paths");
            paths[path_count++] = copied(*word);
        }
    else
        return 0;
    return 1;
}

static char *dump;
static uint64_t dumped, dump_room, *places; /* places: of each path in `dump` */

static void *add(uint64_t bytes)
{
    if (dumped + bytes > dump_room) {
        dump_room = 2 * (dumped + bytes);
        dump = realloc(dump, dump_room);
        check(dump != NULL, "memory", "for what was found");
    }
    dumped += bytes;
    return dump + dumped - bytes;
}

/* Add a file's content as runs of equal words; the last word is padded with zeroes. */
static void look_into(const char *path, uint64_t place)
{
    static char part[PART + 8];
    struct seen_file *file = (struct seen_file *)(dump + place);
    struct seen_run now = {0};
    ssize_t n = -1;
    int fd = open(path, O_RDONLY | O_NOFOLLOW);
    while (fd >= 0 && (n = read(fd, part, PART)) > 0) {
        memset(part + n, 0, 8);
        for (ssize_t i = 0; i < n; i += 8) {
            uint64_t word;
            memcpy(&word, part + i, 8);
            if (now.count && now.word == word) {
                now.count++;
                continue;
            }
            if (now.count) {
                memcpy(add(sizeof now), &now, sizeof now);
                file = (struct seen_file *)(dump + place);
                if (++file->runs == MOST_RUNS)
                    break;
            }
            now = (struct seen_run){word, 1};
        }
    }
    if (n < 0)
        file->length = -errno;
    else if (now.count) {
        memcpy(add(sizeof now), &now, sizeof now);
        file = (struct seen_file *)(dump + place);
        file->runs++;
    }
    if (fd >= 0)
        close(fd);
}

static void look(const char *path)
{
    struct stat about;
    uint64_t place = dumped;
    struct seen_file *file = add(sizeof *file);
    memset(file, 0, sizeof *file);
    if (lstat(path, &about)) {
        file->error = errno;
        return;
    }
    *file = (struct seen_file){about.st_ino, about.st_size, S_ISDIR(about.st_mode), 0, about.st_nlink, 0, 0, 0};
    if (S_ISREG(about.st_mode))
        look_into(path, place);
}

static struct seen_file *seen_at(long path)
{
    return (struct seen_file *)(dump + places[path]);
}

/* Mark the paths that a directory lists; keep the error of an entry that no path of the trace leads to. */
static void list(long directory)
{
    char path[LONGEST];
    struct stat about;
    DIR *stream = opendir(paths[directory]);
    while (stream && (errno = 0, 1)) {
        struct dirent *entry = readdir(stream);
        long k = 0;
        if (!entry)
            break;
        if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, ".."))
            continue;
        snprintf(path, sizeof path, "%s/%s", paths[directory], entry->d_name);
        while (k < path_count && strcmp(paths[k], path))
            k++;
        if (k < path_count)
            seen_at(k)->listed = 1;
        else if (lstat(path, &about))
            seen_at(directory)->error = errno;
    }
    if (errno)
        seen_at(directory)->error = errno;
    if (stream)
        closedir(stream);
}

/* Make a file in a directory, and remove it. */
static int make_in(const char *directory)
{
    char path[LONGEST];
    int fd, failed;
    snprintf(path, sizeof path, "%s/" TRIED, directory);
    fd = open(path, O_CREAT | O_EXCL | O_RDWR, 0600);
    if (fd < 0)
        return errno;
    failed = write(fd, path, strlen(path)) < 0 ? errno : 0;
    close(fd);
    return unlink(path) && !failed ? errno : failed;
}

/* Use the file system: a broken state may show only now.  The names go away, those in a directory before the directory. */
static void use(void)
{
    for (long k = 0; k < path_count; k++)
        if (seen_at(k)->directory)
            seen_at(k)->use = make_in(paths[k]);
    for (long k = path_count - 2; k >= 0; k--) { /* the last path is the root */
        struct seen_file *file = seen_at(k);
        if (file->inode && (file->directory ? rmdir(paths[k]) : unlink(paths[k])) && !file->use)
            file->use = errno;
    }
}

void try_states(void)
{
    int fd = open(mailbox, O_RDWR);
    uint64_t at = job->output + 4096;
    check(fd >= 0, "open", mailbox);
    paths = realloc(paths, (path_count + 1) * sizeof *paths);
    places = malloc((path_count + 1) * sizeof *places);
    check(paths && places, "memory", "for paths");
    paths[path_count++] = copied(ROOT);
    mark(COUNT);
    for (long i = 0; i < state_count; i++) {
        struct seen seen = {0};
        dumped = 0;
        add(sizeof seen);
        mark(NEXT);
        if (mount(device, ROOT, type, 0, options))
            seen.mounted = errno;
        else {
            for (long k = 0; k < path_count; k++) {
                places[k] = dumped;
                look(paths[k]);
            }
            for (long k = 0; k < path_count; k++)
                if (seen_at(k)->directory)
                    list(k);
            use();
            check(!umount2(ROOT, 0), "umount", device);
        }
        seen.bytes = dumped;
        memcpy(dump, &seen, sizeof seen);
        check((uint64_t)pwrite(fd, dump, dumped, at) == dumped && !fdatasync(fd), "write", "what was found");
        at += dumped;
    }
}
