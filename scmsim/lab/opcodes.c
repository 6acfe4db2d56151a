/* Classify instructions by their bytes.  Source: Intel SDM volume 2, appendix A (opcode maps). */
#include "opcodes.h"

#include <string.h>

/* Return how an instruction, without its prefixes, uses the stack. */
static int stack_kinds(const uint8_t *code, size_t n)
{
    int field = n > 1 ? code[1] >> 3 & 7 : 0;
    if ((code[0] & 0xf8) == 0x50 || code[0] == 0x68 || code[0] == 0x6a || code[0] == 0x9c || (code[0] == 0xff && field == 6))
        return PUSHES;
    if (code[0] == 0xe8 || (code[0] == 0xff && field == 2))
        return PUSHES | CALLS;
    if ((code[0] & 0xf8) == 0x58 || code[0] == 0x9d || code[0] == 0xc2 || code[0] == 0xc3 || code[0] == 0xc9 ||
        (code[0] == 0x8f && field == 0))
        return POPS;
    return 0;
}

int classify(const uint8_t *code, size_t n)
{
    int rep = 0, wide = 0, kinds = 0, vex = 0;
    size_t i = 0;

    for (; i < n; i++) {
        if (code[i] == 0xf2 || code[i] == 0xf3)
            rep = 1;
        else if (code[i] == 0x66)
            wide = 1;
        else if (code[i] == 0xf0)
            kinds |= LOCKED;
        else if ((code[i] & 0xf0) != 0x40 && code[i] != 0x2e && code[i] != 0x36 && code[i] != 0x3e && code[i] != 0x26 &&
                 code[i] != 0x64 && code[i] != 0x65)
            break;
    }
    if (i >= n)
        return kinds;
    kinds |= stack_kinds(code + i, n - i);
    if (rep && ((code[i] >= 0xa4 && code[i] <= 0xa7) || (code[i] >= 0xaa && code[i] <= 0xaf) || (code[i] & 0xfc) == 0x6c))
        return kinds | REP;
    if (code[i] == 0xc6 && i + 6 < n && code[i + 1] == 0x87) {
        uint32_t displacement;
        memcpy(&displacement, code + i + 2, 4);
        return displacement == MARK ? MARKS : kinds;
    }
    if (code[i] == 0xc5 && i + 2 < n)
        i += 1, vex = 1; /* the opcode follows the second byte of the prefix */
    else if (code[i] == 0xc4 && i + 3 < n && (code[i + 1] & 31) == 1)
        i += 2, vex = 1;
    if ((!vex && code[i] != 0x0f) || i + 2 >= n + (size_t)vex)
        return kinds;
    i++;
    if (code[i] == 0xe7 || code[i] == 0x2b || (!vex && code[i] == 0xc3))
        return kinds | NON_TEMPORAL;
    if (code[i] == 0xae && !vex && i + 1 < n) {
        int field = code[i + 1] >> 3 & 7, memory = code[i + 1] < 0xc0;
        if (memory && (field == 7 || (field == 6 && wide)))
            return kinds | FLUSH; /* clflush, clflushopt, clwb */
        if (!memory && field == 7)
            return kinds | FENCE | STORE_FENCE;
        if (!memory && !rep && !wide && (field == 5 || field == 6))
            return kinds | FENCE; /* lfence, mfence */
    }
    return kinds;
}
