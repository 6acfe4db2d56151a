/* Report where files and free space are, for the host: by FIEMAP and GETFSMAP, by the trees of PMFS and WineFS (guest_trees.c), or
 * by the pages of a mapping. */
#define _GNU_SOURCE
#include "guest.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fiemap.h>
#include <linux/fs.h>
#include <linux/fsmap.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/vfs.h>
#include <unistd.h>

#define PAGE 4096L
#define AT_ONCE 4096             /* extents, or pages, of one request */
#define FRAME ((1UL << 55) - 1)  /* bits of a pagemap entry that hold the frame; bit 63: present */
#define BY_PAGES 0x80000000u     /* flag of an extent that was found by its pages; FIEMAP has no such flag */
#define XFS 0x58465342           /* its magic number (statfs) */
#define IN_ALL 0x40000000u       /* flag of free space that has no place: all of it, from statfs */
#define PMFS 0xEFFC              /* the same of PMFS and of WineFS */
#define FREE UINT32_MAX          /* `file` of an extent of free space */

uint64_t extent_count;
struct extent *extents;
static uint64_t room;

static void add(uint32_t file, uint32_t flags, uint64_t logical, uint64_t physical, uint64_t length, int64_t tag)
{
    if (extent_count == room) {
        room = 2 * room + AT_ONCE;
        extents = realloc(extents, room * sizeof *extents);
        check(extents != NULL, "memory", "for extents");
    }
    extents[extent_count++] = (struct extent){file, flags, logical, physical, length, tag};
}

/* Report a run of a file, joined with the run before it where it follows that one. */
void add_joined(uint32_t file, uint32_t flags, uint64_t logical, uint64_t physical, uint64_t length, int64_t tag)
{
    struct extent *e = extent_count ? &extents[extent_count - 1] : NULL;
    if (e && e->file == file && e->buffer == tag && e->flags == flags && e->logical + e->length == logical
        && e->physical + e->length == physical)
        e->length += length;
    else
        add(file, flags, logical, physical, length, tag);
}

/* Report the extents of an open file as FIEMAP has them. */
static long by_fiemap(int fd, uint32_t file, int64_t tag)
{
    static struct {
        struct fiemap map;
        struct fiemap_extent extents[AT_ONCE];
    } found;
    uint64_t start = 0;
    uint32_t last = 0;
    do {
        memset(&found, 0, sizeof found.map);
        found.map.fm_start = start;
        found.map.fm_length = FIEMAP_MAX_OFFSET - start;
        found.map.fm_flags = FIEMAP_FLAG_SYNC;
        found.map.fm_extent_count = AT_ONCE;
        if (ioctl(fd, FS_IOC_FIEMAP, &found))
            return -errno;
        for (uint32_t i = 0; i < found.map.fm_mapped_extents; i++) {
            const struct fiemap_extent *e = &found.extents[i];
            add(file, e->fe_flags, e->fe_logical, e->fe_physical, e->fe_length, tag);
            start = e->fe_logical + e->fe_length;
            last = e->fe_flags & FIEMAP_EXTENT_LAST;
        }
    } while (found.map.fm_mapped_extents && !last);
    return 0;
}

/* Report the pages of a mapping of the bytes [start, end), joined where they follow one another. */
static long by_pages(int fd, int pagemap, uint32_t file, int64_t tag, int64_t start, int64_t end)
{
    static uint64_t entries[AT_ONCE];
    int64_t first = start & -PAGE, bytes = ((end + PAGE - 1) & -PAGE) - first;
    char *at = mmap(NULL, bytes, PROT_READ, MAP_SHARED | MAP_POPULATE, fd, first);
    if (at == MAP_FAILED)
        return -errno;
    for (int64_t done = 0; done < bytes; done += AT_ONCE * PAGE) {
        int64_t pages = bytes - done < AT_ONCE * PAGE ? (bytes - done) / PAGE : AT_ONCE;
        check(pread(pagemap, entries, pages * 8, ((uint64_t)at + done) / PAGE * 8) == pages * 8, "read", "the page map");
        for (int64_t i = 0; i < pages; i++)
            if (entries[i] >> 63)
                add_joined(file, BY_PAGES, first + done + i * PAGE, (entries[i] & FRAME) * PAGE, PAGE, tag);
    }
    munmap(at, bytes);
    return 0;
}

/* Report where each part of an open file without holes is, by mapping it: for file systems without FIEMAP. */
static long by_mapping(int fd, uint32_t file, int64_t tag)
{
    int pagemap = open("/proc/self/pagemap", O_RDONLY);
    int64_t size = lseek(fd, 0, SEEK_END), start = 0, end;
    long r = pagemap < 0 ? -errno : 0;
    while (!r && start < size && (start = lseek(fd, start, SEEK_DATA)) >= 0 && start < size) {
        end = lseek(fd, start, SEEK_HOLE);
        end = end < 0 ? size : end;
        r = by_pages(fd, pagemap, file, tag, start, end);
        start = end;
    }
    if (pagemap >= 0)
        close(pagemap);
    return r;
}

static long of_descriptor(int fd, uint32_t file, int64_t tag)
{
    struct statfs about;
    long r = by_fiemap(fd, file, tag);
    if (r != -EOPNOTSUPP && r != -ENOTTY)
        return r;
    return !fstatfs(fd, &about) && about.f_type == PMFS ? by_tree(fd, file, tag) : by_mapping(fd, file, tag);
}

/* Report the free space, or only its size where the file system has no GETFSMAP (all but ext4's driver and XFS). */
static void free_space(int64_t tag)
{
    static struct {
        struct fsmap_head head;
        struct fsmap records[AT_ONCE];
    } found;
    struct statfs about;
    int known = 0;
    memset(&found.head, 0, sizeof found.head);
    found.head.fmh_count = AT_ONCE;
    found.head.fmh_keys[1] = (struct fsmap){UINT32_MAX, UINT32_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX, 0, {0}};
    while (!ioctl(root, FS_IOC_GETFSMAP, &found)) {
        known = 1;
        if (!found.head.fmh_entries)
            return;
        const struct fsmap *last = &found.records[found.head.fmh_entries - 1];
        for (const struct fsmap *f = found.records; f <= last; f++)
            if (f->fmr_flags & FMR_OF_SPECIAL_OWNER && f->fmr_owner == FMR_OWN_FREE)
                add(FREE, 0, 0, f->fmr_physical, f->fmr_length, tag);
        if (last->fmr_flags & FMR_OF_LAST)
            return;
        found.head.fmh_keys[0] = *last;
    }
    if (!known && !fstatfs(root, &about))
        add(FREE, IN_ALL, 0, 0, (uint64_t)about.f_bfree * about.f_bsize, tag);
}

/* Report every file that exists, and then the free space; files that the trace removed have no name. */
static long everything(int64_t tag)
{
    struct given given;
    long r = syncfs(root) ? -errno : 0;
    for (long file = first_file; !r && file < end_file; file++) {
        int fd = files[file].directory ? -1 : open(name_of(file, 0, &given), O_RDONLY);
        if (fd < 0)
            continue;
        r = of_descriptor(fd, file, tag);
        close(fd);
    }
    free_space(tag);
    return r;
}

/* In a job that reports its layout at its end, wait until XFS has freed the blocks and the inode of a file that lost its last
 * name: from Linux 5.14 on a work queue does so a clock tick later, so without this wait a history would not repeat. */
void wait_for_removal(const struct operation *o)
{
    const struct operation *last = (const struct operation *)(files + job->files) + job->operations - 1;
    struct statfs about;
    if (last->op != LAYOUT || (o->op != UNLINK && o->op != RENAME && o->op != CLOSE))
        return;
    if (!fstatfs(root, &about) && about.f_type == XFS)
        usleep(20000);
}

long tell_layout(const struct operation *o)
{
    int fd;
    if (o->file < 0)
        return everything(o->buffer);
    fd = o->file < (int64_t)job->files ? descriptor(o->file) : -1;
    return fd < 0 ? -EBADF : of_descriptor(fd, o->file, o->buffer);
}
