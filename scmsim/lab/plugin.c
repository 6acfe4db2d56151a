/* A plugin for QEMU's TCG that counts what a guest does inside marked regions, by basic block.
 *
 * A region begins and ends with the guest's store `movb $0, MARK(%rdi)`: %rdi is the region's number, 0 ends it.  Counted are
 * executions of every block in every region, its accesses, and the bytes moved to and from persistent memory, which is told
 * by its address.  A block is a translated run of instructions without a jump; how many instructions load, store, are fences
 * and so on is a property of the block, so one callback a block suffices.  One vCPU.
 *
 * Arguments: out=FILE regions=N pmlo=ADDRESS pmhi=ADDRESS ramlo=OFFSET ramhi=OFFSET (where a user's mapping of persistent memory
 * lies in the guest's RAM) [stream=FILE every=N length=N]: of every N accesses in regions the first `length` as runs on a page, and
 * where each region begins.  [touches=FILE within=N]: the first touch of each page in every N runs of a region, loads and stores apart,
 * with the address of the block that made it.
 *
 * QEMU 7.2 counts wrongly for callbacks that ask for loads or stores alone: ask for both, test is_store.
 */
#include "qemu_plugin_api.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MARK 0x5C3D0000u /* displacement of the marking store, and the address of the page that takes it */
#define ARM 0xffe                /* the number that switches counting on, before the first region */
#define PAGE_BITS 12
#define PAGE_MASK ((1ull << 36) - 1) /* of a page number: 48-bit addresses */
#define RUN_COUNT 27                 /* bits of a run's length in the stream */

QEMU_PLUGIN_EXPORT int qemu_plugin_version = QEMU_API_VERSION;

enum kind { REP = 1, NON_TEMPORAL = 2, FLUSH = 4, STORE_FENCE = 8, FENCE = 16, LOCKED = 32, MARKS = 64 };

struct cell { /* what a block did in a region */
    uint64_t executed, again, loads, stores, rep_loads, rep_stores, pm_loaded, pm_stored, nt_stored;
};

struct insn {
    struct block *block;
    uint64_t loads, stores; /* accesses in all its executions, in regions or not */
    int kinds;
};

struct block {
    uint64_t address, digest, executed;
    uint64_t repeats; /* address of a rep-string that ends the block, or 0 */
    uint32_t count, starts_with_rep;
    struct insn *insns;
    struct cell **cells; /* by region, made when needed */
    struct block *next;
};

struct row { /* of the output, see scmsim/lab/counts.py */
    uint64_t address, region, executed, instructions, load_instructions, store_instructions, rep, non_temporal, flushes,
        store_fences, fences, locked;
    struct cell cell;
};

#define BUCKETS (1u << 18)
static struct block *buckets[BUCKETS];
static uint64_t regions = 64, region, repeating, pm_low, pm_high = 0, ram_low, ram_high;
static const char *out_path;
static qemu_plugin_id_t own_id;
static bool armed; /* until then only marks are looked for, so that the boot takes half the time */
static FILE *stream;
static uint64_t every = 1, window = 1, seen, run, run_length;

struct touch { /* see scmsim/lab/touches.py */
    uint64_t address, code, kind; /* kind: region << 1 | store; of a mark: all ones, 0, region */
};
#define TOUCHED (1u << 16)
static FILE *touches;
static uint64_t within = 1000, runs, last_page, epoch; /* an epoch: a region, or `within` runs of it */
static struct { uint64_t key, epoch; } touched[TOUCHED];

static void fail(const char *what)
{
    fprintf(stderr, "scmsim-plugin: %s\n", what);
    fflush(stderr);
    _Exit(70);
}

static void *room(size_t count, size_t bytes)
{
    void *found = calloc(count, bytes);
    if (!found)
        fail("out of memory");
    return found;
}

static int classify(const uint8_t *code, size_t n)
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

static struct cell *cell_of(struct block *block)
{
    if (!block->cells)
        block->cells = room(regions + 1, sizeof *block->cells);
    if (!block->cells[region])
        block->cells[region] = room(1, sizeof **block->cells);
    return block->cells[region];
}

static void on_block(unsigned cpu, void *data)
{
    struct block *block = data;
    struct cell *cell;
    (void)cpu;
    block->executed++;
    if (!region)
        return;
    cell = cell_of(block);
    cell->executed++;
    cell->again += block->starts_with_rep && repeating == block->address;
    repeating = block->repeats;
}

static void end_run(void)
{
    uint64_t packed = run | (run_length - 1);
    if (run_length && fwrite(&packed, sizeof packed, 1, stream) != 1)
        fail("the stream of addresses cannot be written: is the disk full?");
    run_length = 0;
}

static void note(uint64_t address, bool store)
{
    uint64_t page = (address >> PAGE_BITS & PAGE_MASK) << (RUN_COUNT + 1) | (uint64_t)store << RUN_COUNT;
    if (seen++ % every >= window) {
        end_run();
        return;
    }
    if (run_length && (page != run || run_length >> RUN_COUNT))
        end_run();
    run = page;
    run_length++;
}

static void write_touch(uint64_t address, uint64_t code, uint64_t kind)
{
    struct touch touch = {address, code, kind};
    if (fwrite(&touch, sizeof touch, 1, touches) != 1)
        fail("the touches cannot be written: is the disk full?");
}

static void note_touch(uint64_t address, bool store, uint64_t code)
{
    uint64_t key = address >> PAGE_BITS << 1 | store, at;
    if (key != last_page && runs++ % within == 0)
        epoch++;
    last_page = key;
    for (at = key * 0x9e3779b97f4a7c15ull >> 48; touched[at].epoch == epoch; at = (at + 1) % TOUCHED)
        if (touched[at].key == key)
            return;
    touched[at].key = key;
    touched[at].epoch = epoch;
    write_touch(address, code, region << 1 | store);
}

static bool persistent(qemu_plugin_meminfo_t info, uint64_t address)
{
    struct qemu_plugin_hwaddr *at;
    uint64_t offset;
    if (address >> 63)
        return address >= pm_low && address < pm_high;
    if (!ram_high)
        return false;
    at = qemu_plugin_get_hwaddr(info, address);
    if (!at || qemu_plugin_hwaddr_is_io(at))
        return false;
    offset = qemu_plugin_hwaddr_phys_addr(at);
    return offset >= ram_low && offset < ram_high;
}

static void note_mark(uint64_t number)
{
    uint64_t packed = PAGE_MASK << (RUN_COUNT + 1) | number; /* the last page is never mapped: Linux' error pointers lie there */
    end_run();
    if (fwrite(&packed, sizeof packed, 1, stream) != 1)
        fail("the stream of addresses cannot be written: is the disk full?");
}

static void register_all(qemu_plugin_id_t);

static void on_mark(uint64_t number)
{
    repeating = region = 0;
    if (stream && armed && number && number <= regions)
        note_mark(number);
    if (touches && armed && number && number <= regions) {
        write_touch(UINT64_MAX, 0, number);
        runs = last_page = 0;
    }
    if (number == ARM && !armed) {
        armed = true;
        /* Everything is translated anew.  Not a second time: QEMU 7.2 goes on with freed callbacks of loads and stores. */
        qemu_plugin_reset(own_id, register_all);
    } else if (number <= regions)
        region = number;
}

static void on_access(unsigned cpu, qemu_plugin_meminfo_t info, uint64_t address, void *data)
{
    struct insn *insn = data;
    bool store = qemu_plugin_mem_is_store(info);
    struct cell *cell;
    uint64_t bytes;
    (void)cpu;

    if (insn->kinds & MARKS) {
        on_mark(address - MARK);
        return;
    }
    insn->loads += !store;
    insn->stores += store;
    if (!region)
        return;
    cell = cell_of(insn->block);
    bytes = 1ull << qemu_plugin_mem_size_shift(info);
    *(insn->kinds & REP ? (store ? &cell->rep_stores : &cell->rep_loads) : (store ? &cell->stores : &cell->loads)) += 1;
    if (persistent(info, address)) {
        *(store ? &cell->pm_stored : &cell->pm_loaded) += bytes;
        cell->nt_stored += store && insn->kinds & NON_TEMPORAL ? bytes : 0;
    }
    if (stream)
        note(address, store);
    if (touches)
        note_touch(address, store, insn->block->address);
}

static size_t bytes_of(const struct qemu_plugin_insn *insn, uint8_t *code)
{
    size_t n = qemu_plugin_insn_size(insn);
    n = n > 15 ? 15 : n;
#if QEMU_API_VERSION >= 3
    return qemu_plugin_insn_data(insn, code, n);
#else
    memcpy(code, qemu_plugin_insn_data(insn), n);
    return n;
#endif
}

/* The block of the instructions [from, to) of a translation; the same one when QEMU translates the same code again. */
static struct block *block_of(struct qemu_plugin_tb *tb, size_t from, size_t to)
{
    uint64_t address = qemu_plugin_insn_vaddr(qemu_plugin_tb_get_insn(tb, from)), digest = 14695981039346656037ull;
    struct block *block, **bucket;
    uint8_t code[16];
    size_t i, k, n;

    for (i = from; i < to; i++)
        for (k = 0, n = bytes_of(qemu_plugin_tb_get_insn(tb, i), code); k < n; k++)
            digest = (digest ^ code[k]) * 1099511628211ull; /* FNV-1a */
    bucket = &buckets[(address ^ address >> 18 ^ digest) % BUCKETS];
    for (block = *bucket; block; block = block->next)
        if (block->address == address && block->digest == digest && block->count == to - from)
            return block;
    block = room(1, sizeof *block);
    *block = (struct block){.address = address, .digest = digest, .count = to - from, .next = *bucket};
    block->insns = room(to - from, sizeof *block->insns);
    *bucket = block;
    for (i = from; i < to; i++) {
        n = bytes_of(qemu_plugin_tb_get_insn(tb, i), code);
        block->insns[i - from] = (struct insn){.block = block, .kinds = classify(code, n)};
    }
    block->starts_with_rep = block->insns[0].kinds & REP;
    if (block->insns[to - from - 1].kinds & REP)
        block->repeats = qemu_plugin_insn_vaddr(qemu_plugin_tb_get_insn(tb, to - 1));
    return block;
}

static bool marks(struct qemu_plugin_tb *tb, size_t i)
{
    uint8_t code[16];
    size_t n = bytes_of(qemu_plugin_tb_get_insn(tb, i), code);
    return classify(code, n) & MARKS;
}

static void on_translation(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
    size_t n = qemu_plugin_tb_n_insns(tb), from = 0, to, i;
    (void)id;
    while (from < n) { /* a mark ends its block: the next one belongs to the next region */
        struct block *block;
        for (to = from + 1; to < n && !marks(tb, to - 1); to++)
            ;
        if (!armed && !marks(tb, to - 1)) {
            from = to;
            continue;
        }
        block = block_of(tb, from, to);
        if (armed)
            qemu_plugin_register_vcpu_insn_exec_cb(qemu_plugin_tb_get_insn(tb, from), on_block, QEMU_PLUGIN_CB_NO_REGS, block);
        for (i = from; i < to; i++)
            if (armed || block->insns[i - from].kinds & MARKS)
                qemu_plugin_register_vcpu_mem_cb(qemu_plugin_tb_get_insn(tb, i), on_access, QEMU_PLUGIN_CB_NO_REGS,
                                                 QEMU_PLUGIN_MEM_RW, &block->insns[i - from]);
        from = to;
    }
}

/* Whether an instruction makes such accesses.  QEMU 7.2 ascribes the stores of an interrupt's delivery to whatever instruction
 * ran last, so a few do not count. */
static bool accesses(const struct block *block, uint64_t found)
{
    return 2 * found >= block->executed && found;
}

static struct row row_of(const struct block *block, uint64_t number)
{
    struct row row = {.address = block->address, .region = number, .cell = *block->cells[number]};
    uint64_t times = row.executed = row.cell.executed, i;
    for (i = 0; i < block->count; i++) {
        const struct insn *insn = &block->insns[i];
        int kinds = insn->kinds;
        if (kinds & MARKS)
            continue;
        row.instructions += times;
        row.rep += kinds & REP ? times : 0;
        row.load_instructions += accesses(block, insn->loads) && !(kinds & REP) ? times : 0;
        row.store_instructions += accesses(block, insn->stores) && !(kinds & REP) ? times : 0;
        row.non_temporal += kinds & NON_TEMPORAL ? times : 0;
        row.flushes += kinds & FLUSH ? times : 0;
        row.store_fences += kinds & STORE_FENCE ? times : 0;
        row.fences += kinds & FENCE ? times : 0;
        row.locked += kinds & LOCKED ? times : 0;
    }
    row.instructions -= row.cell.again; /* a rep-string counts once */
    row.rep -= row.cell.again;
    return row;
}

static void on_exit_(qemu_plugin_id_t id, void *data)
{
    FILE *out = fopen(out_path, "wb");
    uint64_t number, i;
    (void)id, (void)data;

    if (!out)
        fail("the counts cannot be written");
    for (i = 0; i < BUCKETS; i++)
        for (struct block *block = buckets[i]; block; block = block->next)
            for (number = 1; block->cells && number <= regions; number++)
                if (block->cells[number]) {
                    struct row row = row_of(block, number);
                    fwrite(&row, sizeof row, 1, out);
                }
    if (ferror(out) | fclose(out))
        fail("the counts cannot be written: is the disk full?");
    if (stream) {
        end_run();
        if (fclose(stream))
            fail("the stream of addresses cannot be written: is the disk full?");
    }
    if (touches && fclose(touches))
        fail("the touches cannot be written: is the disk full?");
}

static void register_all(qemu_plugin_id_t id)
{
    qemu_plugin_register_vcpu_tb_trans_cb(id, on_translation);
    qemu_plugin_register_atexit_cb(id, on_exit_, NULL);
}

static const char *value_of(const char *argument, const char *name)
{
    size_t n = strlen(name);
    return !strncmp(argument, name, n) && argument[n] == '=' ? argument + n + 1 : NULL;
}

QEMU_PLUGIN_EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *info, int argc, char **argv)
{
    struct {
        const char *name;
        uint64_t *to;
    } numbers[] = {{"regions", &regions}, {"pmlo", &pm_low},    {"pmhi", &pm_high}, {"ramlo", &ram_low},
                   {"ramhi", &ram_high},  {"every", &every},    {"length", &window},  {"within", &within}};
    const char *stream_path = NULL, *touches_path = NULL, *value;
    (void)info;

    for (int i = 0; i < argc; i++) {
        for (size_t k = 0; k < sizeof numbers / sizeof *numbers; k++)
            if ((value = value_of(argv[i], numbers[k].name)))
                *numbers[k].to = strtoull(value, NULL, 0);
        if ((value = value_of(argv[i], "out")))
            out_path = strdup(value);
        if ((value = value_of(argv[i], "stream")))
            stream_path = strdup(value);
        if ((value = value_of(argv[i], "touches")))
            touches_path = strdup(value);
    }
    if (!out_path || !every || regions >= ARM || !within || (stream_path && !(stream = fopen(stream_path, "wb"))) ||
        (touches_path && !(touches = fopen(touches_path, "wb"))))
        return -1;
    own_id = id;
    register_all(id);
    return 0;
}
