/* Build the tree of calls of a guest's kernel.
 *
 * A node is a path of call sites from the outermost call on a stack inwards; its number identifies the calls, and the task or
 * interrupt, in which a block runs.  Stacks are distinguished by their addresses: Linux aligns a task's stack to its size, 16 KiB
 * on x86-64, and interrupts have separate stacks.  A frame is dead as soon as anything is pushed or popped at or above its return
 * address, so that tail calls, switches between tasks, and returns that never happen need no rules.  Frames from before counting
 * began are unknown.
 */
#include "calls.h"

#include <stdio.h>
#include <stdlib.h>

#define STACK_BITS 14
#define NEAR 4096 /* a stack pointer moves less than this at a time, unless it moves to another stack */
#define STACKS 4096
#define NO_PARENT UINT32_MAX

struct node { /* node of the output, see scmsim/lab/calls.py */
    uint64_t site; /* address of the calling block; for a root, of its stack */
    uint32_t parent, unused;
};
struct frame {
    uint64_t at;
    uint32_t node;
};
struct stack {
    uint64_t at, window; /* address of its last use; its address >> STACK_BITS */
    uint32_t root, depth, most;
    struct frame *frames;
};

static struct node *nodes;
static uint32_t *places; /* hash table: number of a node, from 1 */
static uint32_t count, capacity;
static struct stack stacks[STACKS], *current_stack[CPUS];

static uint64_t place_of(uint64_t site, uint32_t parent)
{
    uint64_t at = (site ^ (uint64_t)parent << 40 ^ parent) * 0x9e3779b97f4a7c15ull;
    return at >> 20;
}

static void grow(void)
{
    uint32_t i;
    capacity = capacity ? 2 * capacity : 1u << 16;
    nodes = realloc(nodes, capacity * sizeof *nodes);
    free(places);
    places = xcalloc(2 * (uint64_t)capacity, sizeof *places);
    for (i = 0; nodes && i < count; i++) {
        uint64_t at = place_of(nodes[i].site, nodes[i].parent);
        while (places[at % (2 * capacity)])
            at++;
        places[at % (2 * capacity)] = i + 1;
    }
    if (!nodes)
        exit(70);
}

static uint32_t node_of(uint64_t site, uint32_t parent)
{
    uint64_t at = place_of(site, parent);
    uint32_t k;
    for (; capacity && (k = places[at % (2 * capacity)]); at++)
        if (nodes[k - 1].site == site && nodes[k - 1].parent == parent)
            return k - 1;
    if (count == capacity) {
        grow();
        return node_of(site, parent);
    }
    nodes[count] = (struct node){.site = site, .parent = parent};
    places[at % (2 * capacity)] = ++count;
    return count - 1;
}

static struct stack *stack_of(uint64_t address)
{
    uint64_t window = address >> STACK_BITS, at = window * 0x9e3779b97f4a7c15ull >> 52, tried;
    for (tried = 0; tried < STACKS; tried++, at = (at + 1) % STACKS) {
        if (stacks[at].window == window)
            return &stacks[at];
        if (!stacks[at].window) {
            stacks[at] = (struct stack){.window = window, .root = node_of(window << STACK_BITS, NO_PARENT)};
            return &stacks[at];
        }
    }
    fprintf(stderr, "scmsim-plugin: more than %d kernel stacks\n", STACKS);
    _Exit(70);
}

void calls_stack(unsigned cpu, uint64_t at)
{
    struct stack *stack = current_stack[cpu];
    if (!stack || at - stack->at + NEAR >= 2 * NEAR)
        stack = current_stack[cpu] = stack_of(at);
    stack->at = at;
    while (stack->depth && stack->frames[stack->depth - 1].at <= at)
        stack->depth--;
}

uint32_t calls_now(unsigned cpu)
{
    struct stack *stack = current_stack[cpu];
    return !stack ? 0 : stack->depth ? stack->frames[stack->depth - 1].node : stack->root;
}

void calls_enter(unsigned cpu, uint64_t at, uint64_t site)
{
    uint32_t node;
    calls_stack(cpu, at);
    node = node_of(site, calls_now(cpu));
    struct stack *stack = current_stack[cpu];
    if (stack->depth == stack->most) {
        stack->most = stack->most ? 2 * stack->most : 64;
        stack->frames = realloc(stack->frames, stack->most * sizeof *stack->frames);
        if (!stack->frames)
            exit(70);
    }
    stack->frames[stack->depth++] = (struct frame){at, node};
}

int calls_write(const char *path)
{
    FILE *out = fopen(path, "wb");
    int bad = !out || fwrite(nodes, sizeof *nodes, count, out) != count;
    return bad | (out && fclose(out));
}
