/* Report where the files of PMFS and WineFS are, from the trees of blocks on the device.
 *
 * Neither has FIEMAP, and PMFS cannot map a file: its fault takes the success of vmf_insert_mixed for an error (BUG_ON in
 * __pmfs_xip_file_fault of fs/pmfs/xip.c).  Both keep everything on the device, so it is read there, past the page cache.
 * Sources: fs/pmfs/pmfs_def.h and pmfs.h (pmfs_get_inode); fs/winefs/winefs_def.h and inode.h (winefs_get_inode).
 */
#define _GNU_SOURCE
#include "guest.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define BLOCK 4096UL
#define FAN_OUT 512UL     /* pointers of a node */
#define INODE_BYTES 128UL
#define TABLES 4          /* block of WineFS with the heads of the CPUs' inode tables, a cache line each */
#define TABLE_BYTES (2UL << 20)
#define MOST_LEVELS 3     /* of a tree */
static const int shifts[] = {12, 21, 30}; /* log2 of the bytes of a data block, by i_blk_type */

struct inode { /* the first bytes of struct pmfs_inode and of struct winefs_inode */
    uint16_t unused;
    uint8_t height, block_type;
    uint32_t flags;
    uint64_t root;
};

static int fd_of_device = -1;

static void read_block(void *to, uint64_t at)
{
    static char block[BLOCK] __attribute__((aligned(BLOCK)));
    check(pread(fd_of_device, block, BLOCK, at & -BLOCK) == (ssize_t)BLOCK, "read", device);
    memcpy(to, block, BLOCK);
}

static uint64_t word(uint64_t at)
{
    uint64_t block[BLOCK / 8];
    read_block(block, at);
    return block[at % BLOCK / 8];
}

static struct inode inode_at(uint64_t at)
{
    char block[BLOCK];
    struct inode found;
    read_block(block, at);
    memcpy(&found, block + at % BLOCK, sizeof found);
    return found;
}

/* Return the device's byte with the inode of a number.  Superblocks differ after s_size: PMFS has a name of 16 bytes and then two
 * offsets, WineFS two more sizes before its name, which is empty. */
static uint64_t place_of(uint64_t number)
{
    uint64_t journal = word(32), table = word(40), at, skipped;
    if (journal) { /* PMFS: the number is the inode's offset in a file, the inode table */
        struct inode list = inode_at(table);
        int shift = shifts[list.block_type];
        at = list.root;
        for (int level = list.height; level > 0; level--)
            at = word(at + (number >> shift >> 9 * (level - 1)) % FAN_OUT * 8);
        return at + number % (1UL << shift);
    }
    at = word(TABLES * BLOCK + number % cpus() * 64);
    number /= cpus();
    for (skipped = number * INODE_BYTES / TABLE_BYTES; skipped; skipped--)
        at = word(at + TABLE_BYTES - 8);
    return at + number * INODE_BYTES % TABLE_BYTES;
}

/* Report the data blocks below a node, of which the first would be data block `first`. */
static void walk(uint32_t file, int64_t tag, uint64_t at, int height, uint64_t first, int shift)
{
    static uint64_t nodes[MOST_LEVELS][FAN_OUT];
    if (!at)
        return;
    if (!height) {
        add_joined(file, 0, first << shift, at, 1UL << shift, tag);
        return;
    }
    read_block(nodes[height - 1], at);
    for (uint64_t i = 0; i < FAN_OUT; i++)
        walk(file, tag, nodes[height - 1][i], height - 1, first + (i << 9 * (height - 1)), shift);
}

long by_tree(int fd, uint32_t file, int64_t tag)
{
    struct stat about;
    struct inode inode;
    if (fd_of_device < 0)
        fd_of_device = open(device, O_RDONLY | O_DIRECT);
    if (fd_of_device < 0 || fstat(fd, &about))
        return -errno;
    inode = inode_at(place_of(about.st_ino));
    if (inode.height > MOST_LEVELS || inode.block_type >= sizeof shifts / sizeof *shifts)
        return -EIO;
    walk(file, tag, inode.root, inode.height, 0, shifts[inode.block_type]);
    return 0;
}
