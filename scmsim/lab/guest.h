/* What the parts of the guest's program share: the job's format (see scmsim/lab/plan.py) and the output of a job. */
#ifndef GUEST_H
#define GUEST_H
#include <stdint.h>

#define MARK 0x5C3D0000L /* displacement of the marking store, see plugin.c */
#define COUNT 0xffe      /* mark that switches counting on */
enum { NEXT = 0xffb, END, BEGIN }; /* marks for persistence.c: the next state; around an operation */
#define ROOT "/mnt"      /* where the file system is mounted */

enum op { CREATE, OPEN, READ, WRITE, FSYNC, TRUNCATE, FALLOCATE, UNLINK, RENAME, LINK, MKDIR, RMDIR, STAT, READDIR, MMAP,
          MUNMAP, MSYNC, ULOAD, USTORE, CLOSE, SYNC, MADVISE = 25, UFLUSH, UFENCE, /* records.OPS */
          REMAKE = 254,  /* make the file system again, with `file2` of the job's files, from number `file` on */
          LAYOUT = 255 }; /* report where a file is, or (file < 0) all files and free space; each extent carries `buffer` */
enum flag { SYNCHRONOUS = 16, DATA_ONLY = 32, KEEP_SIZE = 128, PUNCH_HOLE = 256, SHARED_WRITABLE = 512, COPIED = 1024,
            SYNCED = 2048, POPULATED = 4096, PAST_CACHES = 8192 }; /* records.py */

struct header {
    char magic[8];
    uint64_t setup_bytes, files, operations, buffer_bytes, output;
};
struct file {
    int32_t parent; /* -1: the mount point */
    uint32_t directory;
    int64_t first_size; /* -1: does not exist at first */
};
struct operation {
    uint8_t op, cpu; /* cpu: which CPU it runs on */
    uint16_t region;
    int32_t file, file2;
    uint32_t flag;
    int64_t offset, length, buffer;
};
#define UNKNOWN UINT64_MAX /* huge_bytes if the kernel does not report it */
struct output {
    char magic[8];
    uint64_t symbols, buffer, buffer_bytes, huge_bytes, done, failed, first_failed, first_errno, no_space, short_writes, unwritten, busy;
};

extern struct header *job;
extern struct file *files;
extern struct output out;
extern char *buffer;
extern int root; /* descriptor of ROOT */
extern char device[], mailbox[];
extern int labelled; /* every 8 bytes written identify their operation and page: see guest_crash.c */

struct fault_count { /* faults of a region, see scmsim/lab/faults.py */
    uint64_t faults, large, major, bus, segv;
};
struct extent {
    uint32_t file, flags; /* file: UINT32_MAX is free space; flags: of FIEMAP */
    uint64_t logical, physical, length;
    int64_t buffer; /* of the requesting operation */
};

static inline void mark_inline(long region)
{
    asm volatile("movb $0, 0x5C3D0000(%0)" : : "D"(region) : "memory");
}

void say(const char *format, ...);                             /* print a line for the host */
void check(int good, const char *what, const char *which);     /* unless `good`, stop the guest with the kernel's last messages */
void make_first_files(void);                                   /* make the files that exist before the first operation */
void make_again(void);                                         /* make the file system again */
void close_descriptors(void);                                  /* of every file of the file system that is mounted */
void wait_until_idle(void);
extern long first_file, end_file; /* files of the file system that is mounted; their names count from 0 */
void run_operations(void);
void in_turn(void (*run)(uint64_t number)); /* run every operation, in order, on its CPU: see guest_threads.c */
int cpus(void);                             /* return the number of the guest's CPUs */
void start_cpus(void);
void mark(long number);
long counted(long region, long number, long a, long b, long c, long d, long e, long f); /* make one counted system call */
int descriptor(long file);                                     /* return a file's descriptor, opened if need be; < 0: failed */

long tell_layout(const struct operation *o);                   /* see guest_layout.c */
void wait_for_removal(const struct operation *o);             /* see guest_layout.c */
void add_joined(uint32_t file, uint32_t flags, uint64_t logical, uint64_t physical, uint64_t length, int64_t tag); /* the same */
long by_tree(int fd, uint32_t file, int64_t tag);              /* see guest_trees.c */
extern uint64_t extent_count;
extern struct extent *extents;

void make_ready_for_mappings(void);
long run_mapped(const struct operation *o);
void look_at_mappings(long file);                              /* read the 2 MiB entries of a file's mappings, after a call on it */
void write_faults(int fd, uint64_t at);
int find_page_table(void);                                     /* find our page table; 0: the kernel hides it */
uint64_t large_entry(uint64_t address, int anew);

struct given { /* the name that an operation gave, see scmsim/lab/persistence.py */
    int64_t result;
    uint64_t inode;
    int32_t parent, owner, number, unused;
};
const char *name_of(long file, int newest_link, struct given *given); /* return the path of a file's name */

void label(char *memory, int64_t offset, int64_t length, int64_t version);
void rehearse(void);                                           /* run every operation, and make the file system again */
void warm_up(void);                                            /* run write-backs of other code than the operations' */
void keep_first_names(void);
void keep_result(const struct operation *o, long result);
void write_results(int fd, uint64_t at);
int crash_command(char **words);                               /* run a set-up command; return whether it is one of guest_crash.c's */
void try_states(void);
extern long state_count;
#endif
