/* CPUs of the guest, and one thread for each that has operations.
 *
 * Operations run in the order of the trace, one at a time; a thread that waits for its turn runs in user mode, so that its CPU
 * holds translations of the program's memory, as the CPU of a busy program does.
 */
#define _GNU_SOURCE
#include "guest.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define MOST 256 /* values of operation.cpu */

static uint64_t turn; /* number of the next operation */
static void (*run_one)(uint64_t);

int cpus(void)
{
    static int count;
    return count ? count : (count = sysconf(_SC_NPROCESSORS_ONLN));
}

static void pin(long cpu)
{
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    check(!sched_setaffinity(0, sizeof one, &one), "pin", "a thread to its CPU");
}

/* Start the other CPUs.
 *
 * A kernel that starts a CPU waits for it without a pause, and QEMU 7.2 with -icount then gives the other CPUs no turn.  So the
 * kernel starts with one CPU (maxcpus=1), and the others are started while a process of this CPU pauses all the time.
 */
void start_cpus(void)
{
    char line[4096] = "", path[64];
    int fd = open("/proc/cmdline", O_RDONLY), more;
    pid_t pausing;
    more = read(fd, line, sizeof line - 1) > 0 && strstr(line, "maxcpus=1");
    close(fd);
    if (!more)
        return;
    mkdir("/sys", 0755);
    mount("none", "/sys", "sysfs", 0, "");
    pin(0);
    pausing = fork();
    while (!pausing) {
        __builtin_ia32_pause();
        sched_yield();
    }
    for (long cpu = 1; cpu < sysconf(_SC_NPROCESSORS_CONF); cpu++) {
        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%ld/online", cpu);
        fd = open(path, O_WRONLY);
        check(fd >= 0 && write(fd, "1", 1) == 1, "start", path);
        close(fd);
    }
    kill(pausing, SIGKILL);
    waitpid(pausing, NULL, 0);
}

static void *run_those_of(void *cpu)
{
    const struct operation *all = (const struct operation *)(files + job->files);
    uint64_t now;
    while ((now = __atomic_load_n(&turn, __ATOMIC_ACQUIRE)) < job->operations)
        if (all[now].cpu == (long)cpu) {
            run_one(now);
            __atomic_store_n(&turn, now + 1, __ATOMIC_RELEASE);
        } else
            __builtin_ia32_pause(); /* QEMU runs the next CPU */
    return NULL;
}

static void *pinned(void *cpu)
{
    pin((long)cpu);
    return run_those_of(cpu);
}

void in_turn(void (*run)(uint64_t))
{
    const struct operation *all = (const struct operation *)(files + job->files);
    char used[MOST] = {0};
    pthread_t threads[MOST];
    run_one = run;
    turn = 0;
    for (uint64_t i = 0; i < job->operations; i++)
        used[all[i].cpu] = 1;
    for (long cpu = 1; cpu < MOST; cpu++)
        check(!used[cpu] || !pthread_create(&threads[cpu], NULL, pinned, (void *)cpu), "start", "a thread");
    run_those_of(NULL);
    for (long cpu = 1; cpu < MOST; cpu++)
        if (used[cpu])
            pthread_join(threads[cpu], NULL);
}
