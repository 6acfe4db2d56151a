/* Kinds of x86-64 instructions that the lab counts: see opcodes.c. */
#ifndef OPCODES_H
#define OPCODES_H
#include <stddef.h>
#include <stdint.h>

#define MARK 0x5C3D0000u /* displacement of the marking store, and the address of the page that takes it */

enum kind { REP = 1, NON_TEMPORAL = 2, FLUSH = 4, STORE_FENCE = 8, FENCE = 16, LOCKED = 32, MARKS = 64, PUSHES = 128, POPS = 256,
            CALLS = 512 };

int classify(const uint8_t *code, size_t n); /* return the kinds of the instruction with these bytes */
#endif
