/* What a streaming copy hides of the instructions that feed it: the evidence for the sum in scmsim/result/time.py.

   Run: cc -O2 -mavx2 -o /tmp/overlap tests/verification/overlap.c && /tmp/overlap
   A page of 4 KiB is copied with `code` further instructions behind it; memory is 512 MiB, a user buffer 64 KiB.  Columns: ns a page,
   ns of the code alone.  If the copy hides the code, the first does not grow with the second. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#define BYTES (512UL << 20)
#define PAGE 4096UL

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return t.tv_sec * 1e9 + t.tv_nsec;
}

static inline uint64_t code(uint64_t x, int count) { /* `count` instructions, each waits for the one before */
    for (int i = 0; i < count / 10; i++)
        __asm__ volatile("add $3,%0\n xor $5,%0\n add $7,%0\n xor $9,%0\n add $3,%0\n xor $5,%0\n add $7,%0\n xor $9,%0" : "+r"(x));
    return x;
}

static void eight(char *to, const char *from) { /* 8 bytes a store, as Linux' __copy_user_nocache */
    for (unsigned long i = 0; i < PAGE; i += 8)
        __asm__ volatile("movnti %1,%0" : "=m"(*(uint64_t *)(to + i)) : "r"(*(const uint64_t *)(from + i)));
}

static void thirty_two(char *to, const char *from) { /* a quarter of the instructions */
    for (unsigned long i = 0; i < PAGE; i += 32)
        __asm__ volatile("vmovdqu (%0),%%ymm0\n vmovntdq %%ymm0,(%1)" ::"r"(from + i), "r"(to + i) : "memory", "xmm0");
}

static void rep(char *to, const char *from) { /* as copy_to_user on a CPU with fast strings */
    unsigned long n = PAGE;
    __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(n)::"memory");
}

int main(void) {
    static const char *names[] = {"to memory, 8 bytes a store", "to memory, 32 bytes a store", "within memory, 8 bytes a store",
                                  "from memory, rep-string"};
    char *memory[2], *user = aligned_alloc(PAGE, 16 * PAGE);
    uint64_t x = 1;
    for (int i = 0; i < 2; i++) {
        memory[i] = mmap(0, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        madvise(memory[i], BYTES, MADV_HUGEPAGE);
        memset(memory[i], 1, BYTES);
    }
    memset(user, 1, 16 * PAGE);
    for (int kind = 0; kind < 4; kind++)
        for (int count = 0; count <= 1600; count = count ? 2 * count : 200) {
            double start = now(), whole, alone;
            for (unsigned long at = 0; at < BYTES; at += PAGE) {
                char *here = memory[0] + at, *buffer = user + at % (16 * PAGE);
                if (kind == 0) eight(here, buffer);
                else if (kind == 1) thirty_two(here, buffer);
                else if (kind == 2) eight(here, memory[1] + at);
                else rep(buffer, here);
                x = code(x, count);
            }
            __asm__ volatile("sfence");
            whole = now() - start;
            start = now();
            for (unsigned long at = 0; at < BYTES; at += PAGE) x = code(x, count);
            alone = now() - start;
            printf("%-32s %5.0f %5.0f\n", names[kind], whole * PAGE / BYTES, alone * PAGE / BYTES);
        }
    return x == 42;
}
