/* Guest of layout_cases.py: makes file systems on /dev/pmem0, runs histories of calls on them, prints where the blocks are.
   A line of /job is `mkfs NAME MOUNT-OPTIONS COMMAND...` or a line of a history (tests/reference/ext4_layout/history.py). */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fiemap.h>
#include <linux/fs.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

enum { DESCRIPTORS = 4096, WORDS = 64, EXTENTS = 200, LONGEST_CALL = 256 << 20 };
static char *buffer, *word[WORDS];
static int descriptors[DESCRIPTORS], mounted = -1; /* descriptor of the root */
static FILE *out;

static void stop(const char *why)
{
    fprintf(out, "%s %d\n", why, errno);
    fflush(out);
    tcdrain(fileno(out));
    reboot(RB_POWER_OFF);
}

static void load(const char *path)
{
    int fd = open(path, O_RDONLY);
    if (fd < 0 || (syscall(SYS_finit_module, fd, "", 0) && errno != EEXIST))
        stop(path);
    close(fd);
}

/* Write dirty pages back only when a history says so. */
static void never_write_back(void)
{
    static const char *const setting[][2] = {{"dirty_writeback_centisecs", "1000000"}, {"dirty_ratio", "99"}, {"dirty_background_ratio", "98"}};
    char path[100];
    for (int i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "/proc/sys/vm/%s", setting[i][0]);
        FILE *file = fopen(path, "w");
        if (!file || fputs(setting[i][1], file) < 0 || fclose(file))
            stop(path);
    }
}

static const char *place(int i)
{
    static char path[2][4096];
    snprintf(path[i & 1], sizeof path[0], "/mnt%s", word[i]);
    return path[i & 1];
}

static int *descriptor(void) { return &descriptors[atoi(word[1]) % DESCRIPTORS]; }

static void show(const char *path)
{
    static struct {
        struct fiemap map;
        struct fiemap_extent extents[EXTENTS];
    } found;
    struct stat about;
    int fd = open(path, O_RDONLY), last = 0;
    if (fd < 0 || fstat(fd, &about))
        return;
    fprintf(out, "show %s %lu %ld", word[1], about.st_ino, about.st_size);
    for (unsigned long long from = 0; !last;) {
        memset(&found.map, 0, sizeof found.map);
        found.map.fm_start = from;
        found.map.fm_length = FIEMAP_MAX_OFFSET - from;
        found.map.fm_extent_count = EXTENTS;
        if (ioctl(fd, FS_IOC_FIEMAP, &found) || !found.map.fm_mapped_extents)
            break;
        for (unsigned i = 0; i < found.map.fm_mapped_extents; i++) {
            struct fiemap_extent *e = &found.extents[i];
            fprintf(out, " %llu,%llu,%llu,%d", e->fe_logical >> 12, e->fe_physical >> 12, e->fe_length >> 12,
                    !!(e->fe_flags & FIEMAP_EXTENT_UNWRITTEN));
            from = e->fe_logical + e->fe_length;
            last = !!(e->fe_flags & FIEMAP_EXTENT_LAST);
        }
    }
    fprintf(out, "\n");
    close(fd);
}

/* Let the journal's threads finish before we go on: a commit wakes those who wait for it before it frees blocks. */
static void prefer_journal(void)
{
    struct sched_param lowest_of_real_time = {1};
    char path[300], name[64];
    DIR *processes = opendir("/proc");
    for (struct dirent *e; processes && (e = readdir(processes));) {
        snprintf(path, sizeof path, "/proc/%s/comm", e->d_name);
        FILE *file = atoi(e->d_name) ? fopen(path, "r") : NULL;
        if (file && fgets(name, sizeof name, file) && !strncmp(name, "jbd2/", 5) &&
            sched_setscheduler(atoi(e->d_name), SCHED_FIFO, &lowest_of_real_time))
            stop("the journal's priority");
        if (file)
            fclose(file);
    }
    closedir(processes);
}

static void make(void)
{
    int status;
    for (int i = 0; i < DESCRIPTORS; i++)
        if (descriptors[i] >= 0)
            close(descriptors[i]), descriptors[i] = -1;
    if (mounted >= 0 && (close(mounted) || umount("/mnt")))
        stop("umount");
    pid_t child = fork();
    if (!child)
        execv(word[3], word + 3), _exit(127);
    if (waitpid(child, &status, 0) != child || status || mount("/dev/pmem0", "/mnt", "ext4", 0, word[2]))
        stop("mount");
    mounted = open("/mnt", O_RDONLY);
    prefer_journal();
    fprintf(out, "history %s\n", word[1]);
}

static int is(const char *name) { return !strcmp(word[0], name); }

static long run(void)
{
    long a = word[1] && word[2] ? atol(word[2]) : 0, b = word[1] && word[2] && word[3] ? atol(word[3]) : 0, r = 0;
    if (is("mkfs"))
        make();
    else if (is("show"))
        show(place(1));
    else if (is("create") || is("open"))
        r = *descriptor() = open(place(2), O_RDWR | (is("create") ? O_CREAT : 0), 0644);
    else if (is("close"))
        r = close(*descriptor()), *descriptor() = -1;
    else if (is("write"))
        r = pwrite(*descriptor(), buffer, b, a) == b ? 0 : -1;
    else if (is("read"))
        r = pread(*descriptor(), buffer, b, a);
    else if (is("truncate"))
        r = ftruncate(*descriptor(), a);
    else if (is("fallocate"))
        r = fallocate(*descriptor(), atoi(word[4]) ? FALLOC_FL_KEEP_SIZE : 0, a, b);
    else if (is("punch"))
        r = fallocate(*descriptor(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, a, b);
    else if (is("unlink"))
        r = unlink(place(1));
    else if (is("mkdir"))
        r = mkdir(place(1), 0755);
    else if (is("rename"))
        r = rename(place(1), place(2));
    else if (is("fsync"))
        r = fsync(*descriptor());
    else if (is("sync"))
        r = syncfs(mounted);
    return r;
}

int main(void)
{
    static char line[65536];
    mkdir("/dev", 0755), mkdir("/mnt", 0755), mkdir("/proc", 0755);
    mount("none", "/proc", "proc", 0, "");
    mount("none", "/dev", "devtmpfs", 0, "");
    out = fopen("/dev/ttyS1", "w");
    FILE *modules = fopen("/modules", "r"), *job = fopen("/job", "r");
    while (fgets(line, sizeof line, modules))
        line[strcspn(line, "\n")] = 0, load(line);
    never_write_back();
    for (int i = 0; i < 200 && access("/dev/pmem0", F_OK); i++)
        usleep(50000);
    memset(descriptors, -1, sizeof descriptors);
    buffer = mmap(NULL, LONGEST_CALL, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (long number = 1; fgets(line, sizeof line, job); number++) {
        int count = 0;
        for (char *at = strtok(line, " \n"); at && count < WORDS - 1; at = strtok(NULL, " \n"))
            word[count++] = at;
        word[count] = NULL;
        if (run() < 0)
            fprintf(out, "short %ld %s %d\n", number, word[0], errno);
    }
    stop("done");
}
