/* Runs the system calls that it is told by shared memory, one at a time; the tracer under test sees only the calls.
 *
 * agent SHARED SLOT: maps the file SHARED at a fixed address and serves the orders of a slot. A new task serves a slot of its own.
 * Nothing of this file's own shows in a trace but the open, mmap and close of SHARED, futex, gettid and what a start needs.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SHARED_AT 0x10000000000L
#define SHARED_BYTES (1 << 20)
#define STACKS_AT (SHARED_BYTES / 2) /* of tasks that share their memory with another */
#define STACK_BYTES (1 << 14)

enum { CALL, FORK, VFORK, THREAD, RING };

struct slot {
	uint32_t go, done;
	int64_t kind, number, argument[6], result, tid, child;
	char unused[256 - 8 - 11 * 8];
};

static struct slot *const slots = (struct slot *)SHARED_AT;

static inline long call(long n, long a, long b, long c, long d, long e, long f)
{
	long result;
	register long r10 __asm__("r10") = d, r8 __asm__("r8") = e, r9 __asm__("r9") = f;
	__asm__ volatile("syscall" : "=a"(result) : "a"(n), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9) : "rcx", "r11", "memory");
	return result;
}

static void serve(int number) __attribute__((noreturn));

static int child(void *number)
{
	serve((int)(intptr_t)number);
}

/* One entry to a ring of one entry that lives for this order: no state is kept from one order to the next. */
static long ring(int64_t *a)
{
	uint32_t p[30] = {0}; /* struct io_uring_params */
	long fd = call(SYS_io_uring_setup, 2, (long)p, 0, 0, 0, 0), entered;
	if (fd < 0)
		return fd;
	char *rings = (char *)call(SYS_mmap, 0, 4096, 3, MAP_SHARED | MAP_POPULATE, fd, 0);
	char *entries = (char *)call(SYS_mmap, 0, 4096, 3, MAP_SHARED | MAP_POPULATE, fd, 0x10000000);
	uint32_t *sq_tail = (uint32_t *)(rings + p[11]), *array = (uint32_t *)(rings + p[16]);
	char *completion = rings + p[25];
	int64_t *entry = (int64_t *)entries;
	entry[0] = (a[0] & 0xff) | a[1] << 32; /* opcode, descriptor */
	entry[1] = a[2];                       /* offset */
	entry[2] = a[3];                       /* address */
	entry[3] = a[4] & 0xffffffff;          /* length */
	array[0] = 0;
	__atomic_store_n(sq_tail, 1, __ATOMIC_RELEASE);
	entered = call(SYS_io_uring_enter, fd, 1, 1, 1, 0, 0);
	if (entered == 1)
		entered = *(int32_t *)(completion + 8);
	call(SYS_munmap, (long)rings, 4096, 0, 0, 0, 0);
	call(SYS_munmap, (long)entries, 4096, 0, 0, 0, 0);
	call(SYS_close, fd, 0, 0, 0, 0, 0);
	return entered;
}

static long obey(struct slot *s)
{
	int64_t *a = s->argument;
	long result;
	switch (s->kind) {
	case FORK: /* clone without CLONE_VM */
	case VFORK:
		result = call(s->number, a[0], a[1], a[2], a[3], a[4], a[5]);
		if (result == 0)
			serve(s->child);
		return result;
	case THREAD:
		return clone(child, (char *)SHARED_AT + STACKS_AT + (s->child + 1) * STACK_BYTES, a[0], (void *)s->child);
	case RING:
		return ring(a);
	}
	return call(s->number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

static void serve(int number)
{
	struct slot *s = &slots[number];
	uint32_t seen = s->go;
	s->tid = call(SYS_gettid, 0, 0, 0, 0, 0, 0);
	for (;;) {
		__atomic_store_n(&s->done, seen, __ATOMIC_RELEASE);
		call(SYS_futex, (long)&s->done, 1, 1, 0, 0, 0);
		while (__atomic_load_n(&s->go, __ATOMIC_ACQUIRE) == seen)
			call(SYS_futex, (long)&s->go, 0, seen, 0, 0, 0);
		seen = s->go;
		s->result = obey(s);
	}
}

int main(int count, char **arguments)
{
	int fd;
	signal(SIGXFSZ, SIG_IGN);
	signal(SIGPIPE, SIG_IGN);
	if (count != 3 || (fd = open(arguments[1], O_RDWR)) < 0)
		return 2;
	if (mmap((void *)SHARED_AT, SHARED_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) != (void *)SHARED_AT)
		return 2;
	close(fd);
	serve(atoi(arguments[2]));
}
