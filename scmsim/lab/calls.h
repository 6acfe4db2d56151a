/* Which calls a guest's kernel is in, told by its stack: see calls.c. */
#ifndef CALLS_H
#define CALLS_H
#include <stdint.h>

#define CPUS 64

void *room(uint64_t count, uint64_t bytes); /* zeroed memory, or the end */

uint32_t calls_now(unsigned cpu);                                     /* the node that a virtual CPU's kernel stack is at */
void calls_stack(unsigned cpu, uint64_t at);                          /* an instruction pushed or popped at this address */
void calls_enter(unsigned cpu, uint64_t at, uint64_t site);           /* a call in the block `site` pushed its return address */
int calls_write(const char *path);                                    /* every node, in the order of their numbers */
#endif
