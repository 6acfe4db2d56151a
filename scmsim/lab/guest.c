/* The guest's only program, started as its init: loads modules, makes and mounts a file system, runs a job, reports.
 *
 * The job is in a second persistent-memory device, which the host fills and reads.  Lines that begin with "scmsim: " on the
 * console are for the host.
 */
#define _GNU_SOURCE
#include "guest.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/klog.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define LARGE_PAGE (2L << 20)
#define WORDS 64
#define STEP_US 100000 /* of guest time, which costs no real time while the guest is idle */
#define QUIET 5        /* steps without work after which the kernel counts as idle */
#define PATIENCE 300   /* most steps to wait */

struct header *job;
struct file *files;
struct output out = {.magic = "SCMOUT1\n"};
char *buffer;
int root;
char device[32] = "/dev/pmem0", mailbox[32];

static void stop(void)
{
    sync();
    reboot(RB_POWER_OFF);
    pause();
}

void say(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    printf("\nscmsim: ");
    vprintf(format, arguments);
    printf("\n");
    fflush(stdout);
    va_end(arguments);
}

void check(int good, const char *what, const char *which)
{
    static char log[1 << 18];
    int error = errno, n;
    if (good)
        return;
    n = klogctl(3, log, sizeof log - 1);
    log[n > 0 ? n : 0] = 0;
    printf("%s\n", n > 1500 ? log + n - 1500 : log);
    say("failed: %s %s: errno %d", what, which, error);
    stop();
}

static void load_module(const char *path, const char *parameters)
{
    int fd = open(path, O_RDONLY);
    check(fd >= 0 && (syscall(SYS_finit_module, fd, parameters, 0) == 0 || errno == EEXIST), "module", path);
    close(fd);
}

static void load_first_modules(void)
{
    static char line[256];
    FILE *list = fopen("/modules", "r");
    while (list && fgets(line, sizeof line, list)) {
        line[strcspn(line, "\n")] = 0;
        load_module(line, "");
    }
    if (list)
        fclose(list);
}

static int holds_job(const char *path)
{
    char magic[8] = "";
    int fd = open(path, O_RDONLY | O_CLOEXEC), n = fd < 0 ? -1 : (int)read(fd, magic, 8);
    if (fd >= 0)
        close(fd);
    return n == 8 && !memcmp(magic, "SCMJOB1\n", 8);
}

/* Return which part of the kernel is missing if there is no device: the region, its driver, or its block device. */
static const char *missing(void)
{
    mkdir("/sys", 0755);
    mount("none", "/sys", "sysfs", 0, "");
    if (access("/sys/bus/platform/devices/e820_pmem", F_OK))
        return "persistent memory: the kernel takes no memmap= for it (CONFIG_X86_PMEM_LEGACY)";
    if (access("/sys/bus/nd/devices/region0", F_OK))
        return "persistent memory: nothing drives it (CONFIG_LIBNVDIMM, modules libnvdimm and nd_e820)";
    return "persistent memory: it has no block device (CONFIG_BLK_DEV_PMEM and CONFIG_BTT, modules nd_pmem and nd_btt)";
}

/* Find the job's device and the one under test: the driver finds its devices in the background, in no certain order. */
static void find_devices(void)
{
    for (int patience = 0; patience < 500 && !*mailbox; patience++) {
        if (!access("/dev/pmem0", R_OK) && !access("/dev/pmem1", R_OK))
            for (int i = 0; i < 2; i++) {
                char path[32];
                snprintf(path, sizeof path, "/dev/pmem%d", i);
                if (holds_job(path)) {
                    strcpy(mailbox, path);
                    snprintf(device, sizeof device, "/dev/pmem%d", 1 - i);
                }
            }
        usleep(10000);
    }
    const char *why = *mailbox ? "" : missing();
    errno = ENODEV;
    check(*mailbox, "find", why);
}

static void read_job(void)
{
    struct header head;
    uint64_t bytes, at = 0;
    int fd = open(mailbox, O_RDONLY);
    check(fd >= 0 && pread(fd, &head, sizeof head, 0) == sizeof head, "read", mailbox);
    bytes = head.output;
    job = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    check(job != MAP_FAILED, "memory", "for the job");
    while (at < bytes) {
        ssize_t n = pread(fd, (char *)job + at, bytes - at, at);
        check(n > 0, "read", mailbox);
        at += n;
    }
    close(fd);
    files = (struct file *)((char *)(job + 1) + job->setup_bytes);
}

static void execute(char **words)
{
    int status;
    pid_t child = fork();
    if (!child) {
        execv(words[0], words);
        _exit(127);
    }
    check(child > 0 && waitpid(child, &status, 0) == child, "start", words[0]);
    errno = WIFEXITED(status) ? 0 : EINTR;
    if (!WIFEXITED(status) || WEXITSTATUS(status)) {
        say("exit status %d", WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
        check(0, "run", words[0]);
    }
}

static void check_dax(void)
{
    struct statx about = {0};
    int fd = open(ROOT "/.dax", O_CREAT | O_RDWR, 0600);
    check(fd >= 0, "create", ROOT "/.dax");
    check(!statx(fd, "", AT_EMPTY_PATH, STATX_BASIC_STATS, &about), "statx", ROOT "/.dax");
    close(fd);
    unlink(ROOT "/.dax");
    errno = EOPNOTSUPP;
    check(about.stx_attributes & 0x200000, "dax", "the file system was mounted, but without DAX");
}

/* Run the job's set-up; `again` is true if the modules are loaded. */
static void set_up(int again)
{
    char *at = (char *)(job + 1), *end = at + job->setup_bytes;
    while (at < end && *at) {
        char *words[WORDS] = {0};
        int count = atoi(at), i;
        at += strlen(at) + 1;
        for (i = 0; i < count && i < WORDS - 1; i++) {
            words[i] = strcmp(at, "DEVICE") ? at : device;
            at += strlen(at) + 1;
        }
        if (!strcmp(words[0], "module")) {
            if (!again)
                load_module(words[1], words[2]);
        } else if (!strcmp(words[0], "run"))
            execute(words + 1);
        else if (!strcmp(words[0], "mount"))
            check(!mount(words[1], ROOT, words[2], 0, words[3]), "mount", words[2]);
        else if (!strcmp(words[0], "dax"))
            check_dax();
        else
            crash_command(words);
    }
    root = open(ROOT, O_RDONLY | O_DIRECTORY);
}

/* Allocate the user's memory, aligned so that the kernel may use large pages, and touch it, so that the kernel does so now. */
static void make_buffer(void)
{
    uint64_t bytes = (job->buffer_bytes + LARGE_PAGE - 1) / LARGE_PAGE * LARGE_PAGE;
    char line[256], *all = mmap(NULL, bytes + LARGE_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    unsigned long start = 0, end = 0, kib;
    FILE *maps;
    check(all != MAP_FAILED, "memory", "for the buffer");
    buffer = (char *)(((unsigned long)all + LARGE_PAGE - 1) / LARGE_PAGE * LARGE_PAGE);
    memset(buffer, 0x5a, bytes);
    out.buffer = (uint64_t)buffer;
    out.buffer_bytes = bytes;
    if (!(maps = fopen("/proc/self/smaps", "r"))) { /* CONFIG_PROC_PAGE_MONITOR */
        out.huge_bytes = UNKNOWN;
        return;
    }
    while (fgets(line, sizeof line, maps)) {
        unsigned long first, last;
        if (sscanf(line, "%lx-%lx ", &first, &last) == 2)
            start = first, end = last;
        if (start <= out.buffer && out.buffer < end && sscanf(line, "AnonHugePages: %lu", &kib) == 1)
            out.huge_bytes = (uint64_t)kib << 10;
    }
    fclose(maps);
}

static void report(void)
{
    static char part[1 << 16];
    int fd = open(mailbox, O_RDWR), symbols = open("/proc/kallsyms", O_RDONLY);
    ssize_t n;
    check(fd >= 0, "open", mailbox);
    for (uint64_t at = job->output + 4096; symbols >= 0 && (n = read(symbols, part, sizeof part)) > 0; at += n) {
        check(pwrite(fd, part, n, at) == n, "write", mailbox);
        out.symbols += n;
    }
    (labelled ? write_results : write_faults)(fd, job->output + 4096 + out.symbols);
    check(pwrite(fd, &out, sizeof out, job->output) == sizeof out && !fsync(fd), "write", mailbox);
}

/* Return the time that the CPUs were busy, in 1/100 s; -1 if unknown. */
static long busy_time(void)
{
    unsigned long user = 0, nice = 0, system = 0, idle, wait, irq = 0, softirq = 0;
    FILE *stat = fopen("/proc/stat", "r");
    int n = stat ? fscanf(stat, "cpu %lu %lu %lu %lu %lu %lu %lu", &user, &nice, &system, &idle, &wait, &irq, &softirq) : 0;
    if (stat)
        fclose(stat);
    return n == 7 ? (long)(user + nice + system + irq + softirq) : -1;
}

/* Wait until the kernel is idle: its work after the start, such as its tests of ciphers, is not part of the job. */
void wait_until_idle(void)
{
    int quiet = 0, patience = PATIENCE;
    while (quiet < QUIET && patience--) {
        long before = busy_time();
        usleep(STEP_US);
        quiet = busy_time() <= before ? quiet + 1 : 0;
    }
    out.busy = quiet < QUIET;
}

/* Make the file system again; no file may be open. */
void make_again(void)
{
    close(root);
    check(!umount(ROOT), "unmount", ROOT);
    set_up(1);
}

int main(void)
{
    struct rlimit many = {1 << 20, 1 << 20};
    mkdir("/dev", 0755);
    mkdir("/proc", 0755);
    mkdir(ROOT, 0755);
    mount("none", "/dev", "devtmpfs", 0, "");
    mount("none", "/proc", "proc", 0, "");
    setrlimit(RLIMIT_NOFILE, &many);
    check(mmap((void *)MARK, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != MAP_FAILED,
          "memory", "for the mark");
    *(volatile char *)MARK = 0;
    start_cpus();
    load_first_modules();
    find_devices();
    read_job();
    set_up(0);
    make_buffer();
    if (state_count)
        try_states();
    else {
        make_first_files();
        if (labelled) {
            rehearse();
            keep_first_names();
            warm_up();
        }
        wait_until_idle();
        mark(COUNT);
        run_operations();
        report();
    }
    say("finished");
    stop();
}
