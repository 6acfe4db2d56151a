/* Calls that a guest's kernel is in, derived from its stack: see calls.c. */
#ifndef CALLS_H
#define CALLS_H
#include <stdint.h>

#define CPUS 64

void *xcalloc(uint64_t count, uint64_t bytes); /* return zeroed memory, or end the emulator */

uint32_t calls_now(unsigned cpu);                                     /* return the node of a virtual CPU's kernel stack */
void calls_stack(unsigned cpu, uint64_t at);                          /* note a push or pop at this address */
void calls_enter(unsigned cpu, uint64_t at, uint64_t site);           /* note a return address pushed by the block `site` */
int calls_write(const char *path);                                    /* write every node, in the order of their numbers */
#endif
