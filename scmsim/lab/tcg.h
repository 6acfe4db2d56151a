/* What the plugins share: their arguments, an instruction's bytes, the device's place, and the switching on of counting. */
#ifndef TCG_H
#define TCG_H
#include "calls.h"
#include "opcodes.h"
#include "qemu_plugin_api.h"

#define ARM 0xffe /* mark that switches counting on: only marks are searched for before it, which halves the boot time */
#define CODE 16   /* bytes that hold any instruction */

struct argument { /* NAME=VALUE; sets `number` or `text`, whichever is not NULL */
    const char *name;
    uint64_t *number;
    const char **text;
};

extern bool armed;
extern uint64_t pm_low, pm_high, ram_low; /* the device under test: the kernel's addresses, and its offset in the guest's RAM */

void fail(const char *what); /* print why, and end the emulator */
void parse(int argc, char **argv, const struct argument *known, size_t count);
void register_plugin(qemu_plugin_id_t, qemu_plugin_tb_cb on_translation, void (*on_exit)(qemu_plugin_id_t, void *));
bool arms(uint64_t mark); /* return whether this mark is the first ARM; if so, all code is translated again */
size_t bytes_of(const struct qemu_plugin_insn *, uint8_t *code);

/* Return the place of an access in the device, or UINT64_MAX; a user's mapping is recognised by its place in the guest's RAM. */
static inline uint64_t place_of(qemu_plugin_meminfo_t info, uint64_t address)
{
    struct qemu_plugin_hwaddr *at;
    uint64_t offset;
    if (address >> 63)
        return address >= pm_low && address < pm_high ? address - pm_low : UINT64_MAX;
    at = qemu_plugin_get_hwaddr(info, address);
    if (!at || qemu_plugin_hwaddr_is_io(at))
        return UINT64_MAX;
    offset = qemu_plugin_hwaddr_phys_addr(at) - ram_low;
    return offset < pm_high - pm_low ? offset : UINT64_MAX;
}

/* Follow the kernel's stacks: an access of an instruction of these kinds, in the block or instruction `site`. */
static inline void follow(unsigned cpu, int kinds, bool store, uint64_t address, uint64_t site)
{
    if (!(kinds & (store ? PUSHES : POPS)) || !(address >> 63))
        return;
    if (kinds & CALLS)
        calls_enter(cpu, address, site);
    else
        calls_stack(cpu, address);
}
#endif
