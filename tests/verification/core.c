/* What one core of a machine does: its clock, a system call, loads by the size of what they touch, pages by their number.

   Run: core CPUS; prints CSV: what, size, ns.

   clock   ns of a cycle: a third of a product that waits for the one before it (three cycles on Intel since 2008 and on AMD since Zen)
   busy    the same, while CPUS - 1 processes on other CPUs do the same
   call    ns of getppid()
   line    ns of a dependent load of a random line, of `size` bytes on pages of 2 MiB
   4k, 2m  ns of a dependent load of one line in each of `size` pages of 4 KiB, or in the same places on pages of 2 MiB
   stream  ns of a line of 64 bytes in loads one after the other, of 256 MiB
 */
#define _GNU_SOURCE
#include <cpuid.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { LINE = 64, PAGE = 4096 };
static const size_t MOST = (size_t)1 << 30;
static const double LEAST = 0.05; /* seconds of a measurement */

static double now(void)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return (double)at.tv_sec + (double)at.tv_nsec / 1e9;
}

static void pin(int cpu)
{
    cpu_set_t cpus;
    CPU_ZERO(&cpus);
    CPU_SET(cpu, &cpus);
    sched_setaffinity(0, sizeof cpus, &cpus);
}

static void multiply(unsigned long times) /* a core may fold additions of constants; a product always takes three cycles */
{
    unsigned long product = 3;
    for (unsigned long k = 0; k < times; k++)
        __asm__ volatile("imul %0, %0\n\timul %0, %0\n\timul %0, %0\n\timul %0, %0" : "+r"(product));
}

static double cycle_ns(void)
{
    unsigned long times = 20000000;
    double from = now();
    multiply(times);
    return (now() - from) * 1e9 / (double)times / 12;
}

/* ns of a load in a random cycle over `count` places; the k-th place is in page k * step of `memory`, or at line k. */
static double chase(char *memory, size_t count, int pages)
{
    uint32_t *order = malloc(count * sizeof *order);
    uint64_t random = 88172645463325252ul;
    for (size_t k = 0; k < count; k++)
        order[k] = (uint32_t)k;
    for (size_t k = count - 1; k > 0; k--) { /* Sattolo: one cycle */
        random ^= random << 13, random ^= random >> 7, random ^= random << 17;
        size_t other = random % k;
        uint32_t kept = order[k];
        order[k] = order[other], order[other] = kept;
    }
#define PLACE(k) (pages ? (size_t)order[k] * PAGE + (order[k] * 2654435761u >> 26) * LINE : (size_t)order[k] * LINE)
    for (size_t k = 0; k < count; k++)
        *(size_t *)(memory + PLACE(k)) = PLACE((k + 1) % count);
    free(order);
    size_t at = 0, loads = 0;
    for (size_t k = 0; k < count; k++) /* once around: everything is where it can stay */
        at = *(size_t *)(memory + at);
    double from = now(), took;
    at = *(size_t *)(memory + at);
    do {
        for (int k = 0; k < 100000; k++)
            at = *(volatile size_t *)(memory + at);
        loads += 100000;
    } while ((took = now() - from) < LEAST);
    if (at == 1)
        puts("");
    return took * 1e9 / (double)loads;
}

static char *region(int huge)
{
    char *memory = mmap(NULL, MOST + (2 << 20), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    memory = (char *)(((uintptr_t)memory + (2 << 20) - 1) & ~(uintptr_t)((2 << 20) - 1));
    madvise(memory, MOST, huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
    return memory;
}

static double stream(char *memory)
{
    size_t lines = ((size_t)256 << 20) / LINE;
    for (size_t k = 0; k < lines * LINE; k += PAGE)
        memory[k] = 1;
    double from = now();
    for (size_t k = 0; k < lines; k++) {
        const unsigned long *line = (const unsigned long *)(memory + k * LINE);
        __asm__ volatile("" : : "r"(line[0] ^ line[1] ^ line[2] ^ line[3] ^ line[4] ^ line[5] ^ line[6] ^ line[7]));
    }
    return (now() - from) * 1e9 / (double)lines;
}

static void identify(void)
{
    static const unsigned leaves[] = {0, 1, 2, 4, 0x15, 0x16, 0x18, 0x80000000, 0x80000006, 0x80000008};
    for (size_t k = 0; k < sizeof leaves / sizeof *leaves; k++)
        for (unsigned sub = 0; sub < (leaves[k] == 4 || leaves[k] == 0x18 ? 10u : 1u); sub++) {
            unsigned a = 0, b = 0, c = 0, d = 0;
            __cpuid_count(leaves[k], sub, a, b, c, d);
            fprintf(stderr, "%08x %02x: %08x %08x %08x %08x\n", leaves[k], sub, a, b, c, d);
        }
}

int main(int count, char **given)
{
    int cpus = count == 2 ? atoi(given[1]) : 1;
    pid_t others[256];
    identify();
    pin(0);
    puts("what,size,ns");
    cycle_ns();
    printf("clock,,%.4f\n", cycle_ns());
    for (int cpu = 1; cpu < cpus && cpu < 256; cpu++)
        if (!(others[cpu] = fork())) {
            pin(cpu);
            for (;;)
                multiply(1000000);
        }
    cycle_ns();
    printf("busy,,%.4f\n", cycle_ns());
    for (int cpu = 1; cpu < cpus && cpu < 256; cpu++)
        kill(others[cpu], SIGKILL), waitpid(others[cpu], NULL, 0);
    double from = now();
    for (int k = 0; k < 1000000; k++)
        syscall(SYS_getppid);
    printf("call,,%.2f\n", (now() - from) * 1e3);
    char *large = region(1), *small = region(0);
    printf("stream,,%.3f\n", stream(large));
    for (size_t size = 16 << 10; size <= MOST; size += size & (size - 1) ? size / 3 : size / 2) /* 16, 24, 32, 48, ... KiB */
        printf("line,%zu,%.3f\n", size, chase(large, size / LINE, 0)), fflush(stdout);
    for (size_t pages = 16; pages <= 131072; pages += pages / 4) {
        printf("4k,%zu,%.3f\n", pages, chase(small, pages, 1));
        printf("2m,%zu,%.3f\n", pages, chase(large, pages, 1)), fflush(stdout);
    }
    return 0;
}
