/* A plugin for QEMU's TCG that counts what a guest does inside marked regions, by basic block.
 *
 * A region begins and ends with the guest's store `movb $0, MARK(%rdi)`: %rdi is the region's number, 0 ends it.  The plugin
 * counts the executions of every block in every region, its accesses, and the bytes moved to and from persistent memory, which is
 * recognised by its address.  A block is a translated run of instructions without a jump; how many instructions load, store, are
 * fences and so on is a property of the block, so one callback per block suffices.  With several CPUs, one at a time has a
 * region: separate rows count what the others do meanwhile, and no stream has their accesses, which go through other TLBs and
 * L1Ds.  QEMU runs all CPUs on one thread, so nothing here needs a lock.
 *
 * Arguments: out=FILE regions=N pmlo=ADDRESS pmhi=ADDRESS ramlo=OFFSET (of persistent memory in the guest's RAM)
 * [stream=FILE every=N length=N]: of every N accesses in regions, the first `length` as runs on a page, and where each region
 * begins.
 * [cells=FILE]: the number of the row (32 bits) of each record of the stream.
 * [lines=FILE]: the accesses in regions by line of 64 bytes, see note_line().
 * [touches=FILE within=N]: the first touch of each line in every N runs on pages of a region, loads and stores separately, with the
 * address of the block that made it.
 *
 * QEMU 7.2 counts wrongly for callbacks that request loads or stores alone: request both, test is_store.
 */
#include "tcg.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PAGE_BITS 12
#define PAGE_MASK ((1ull << 36) - 1) /* bits of a page number: 48-bit addresses */
#define RUN_COUNT 27                 /* bits of a run's length in the stream */

struct counts { /* what a block did */
    uint64_t executed, rep_iterations, loads, stores, rep_loads, rep_stores, pm_loaded, pm_stored, nt_stored;
};

struct cell { /* counts of a block in a region, reached through a node of the tree of calls */
    struct counts counts;
    uint64_t key; /* (0 or 1 + CPU, if it is not the region's) << 48 | region << 32 | node */
    uint32_t number;
    struct cell *next;
};

struct insn {
    struct block *block;
    uint64_t loads, stores; /* accesses in all its executions, inside and outside of regions */
    int kinds;
};

struct block {
    uint64_t address, digest, executed;
    uint64_t repeats; /* address of a rep-string that ends the block, or 0 */
    uint32_t count, starts_with_rep;
    struct insn *insns;
    struct cell *cell, *cells; /* the current one, and all */
    struct block *next;
};

struct row { /* row of the output, see scmsim/lab/counts.py */
    uint64_t address, key, executed, instructions, load_instructions, store_instructions, rep, non_temporal, flushes,
        store_fences, fences, locked;
    struct counts counts;
    uint64_t number;
};

#define BUCKETS (1u << 18)
static struct block *buckets[BUCKETS];
static uint64_t regions = 64, region, repeating[CPUS];
static unsigned region_cpu;
static const char *out_path, *calls_path;
static FILE *stream, *stream_cells;
static uint32_t cells, run_cell; /* number of cells; the cell that began the run */
static uint64_t sample_period = 1, sample_length = 1, seen, run, run_length;

#define LINE_BITS 6
#define LINE_KIND 2 /* bits of a line's kind in the file */
#define SETS 64     /* the L1D of every CPU has a multiple of this number of sets */
enum line_kind { LOADED, STORED, NT_STORED }; /* codes of scmsim/core/records.py */
static FILE *lines;
static uint64_t newest[SETS];

struct touch { /* see scmsim/lab/touches.py */
    uint64_t address, code, kind; /* kind: epoch << 32 | region << 1 | store; a mark has all ones, 0, region */
};
#define TOUCHED_BITS 17
#define TOUCHED (1u << TOUCHED_BITS) /* twice the lines of 1,000 pages */
static FILE *touches;
static uint64_t within = 1000, runs, last_page, epoch; /* an epoch: a region, or `within` runs of it */
static struct { uint64_t key, epoch; } touched[TOUCHED];

static struct cell *cell_of(struct block *block, uint64_t key)
{
    struct cell *cell = block->cells, **from = &block->cells;
    for (; cell && cell->key != key; cell = cell->next)
        from = &cell->next;
    if (cell)
        *from = cell->next; /* move it to the front: the next search is likely to be for it */
    else {
        cell = xcalloc(1, sizeof *cell);
        cell->key = key;
        cell->number = ++cells;
    }
    cell->next = block->cells;
    return block->cells = cell;
}

static void on_block(unsigned cpu, void *data)
{
    struct block *block = data;
    uint64_t elsewhere = cpu == region_cpu ? 0 : cpu + 1;
    uint64_t key = elsewhere << 48 | region << 32 | (block->address >> 63 ? calls_now(cpu) : 0);
    block->executed++;
    if (!region)
        return;
    if (!block->cell || block->cell->key != key)
        block->cell = cell_of(block, key);
    block->cell->counts.executed++;
    block->cell->counts.rep_iterations += block->starts_with_rep && repeating[cpu] == block->address;
    repeating[cpu] = block->repeats;
}

static void put(FILE *out, const void *record, size_t bytes)
{
    if (fwrite(record, bytes, 1, out) != 1)
        fail("what the accesses touched cannot be written: is the disk full?");
}

static void put_run(uint64_t packed, uint32_t cell)
{
    put(stream, &packed, sizeof packed);
    if (stream_cells)
        put(stream_cells, &cell, sizeof cell);
}

static void end_run(void)
{
    if (run_length)
        put_run(run | (run_length - 1), run_cell);
    run_length = 0;
}

static void note(uint64_t address, bool store, uint32_t cell)
{
    uint64_t page = (address >> PAGE_BITS & PAGE_MASK) << (RUN_COUNT + 1) | (uint64_t)store << RUN_COUNT;
    if (seen++ % sample_period >= sample_length) {
        end_run();
        return;
    }
    if (run_length && (page != run || run_length >> RUN_COUNT))
        end_run();
    if (!run_length++) {
        run = page;
        run_cell = cell;
    }
}

/* Note an access to a line, unless the last access to a line of the same set was to this line and no weaker: such an access hits
 * any L1D with LRU and a multiple of SETS sets, and changes nothing in it. */
static void note_line(uint64_t address, enum line_kind kind)
{
    uint64_t line = address >> LINE_BITS, packed = line << LINE_KIND | kind, *last = &newest[line % SETS];
    if (*last == packed || (kind == LOADED && *last == (packed | STORED)))
        return;
    *last = packed;
    put(lines, &packed, sizeof packed);
}

static void write_touch(uint64_t address, uint64_t code, uint64_t kind)
{
    struct touch touch = {address, code, kind};
    put(touches, &touch, sizeof touch);
}

static void note_touch(uint64_t address, bool store, uint64_t code)
{
    uint64_t page = address >> PAGE_BITS << 1 | store, key = address >> LINE_BITS << 1 | store, at;
    if (page != last_page && runs++ % within == 0)
        epoch++;
    last_page = page;
    for (at = key * 0x9e3779b97f4a7c15ull >> (64 - TOUCHED_BITS); touched[at].epoch == epoch; at = (at + 1) % TOUCHED)
        if (touched[at].key == key)
            return;
    touched[at].key = key;
    touched[at].epoch = epoch;
    write_touch(address, code, epoch << 32 | region << 1 | store);
}

static void note_mark(uint64_t number)
{
    uint64_t packed = PAGE_MASK << (RUN_COUNT + 1) | number; /* the last page is never mapped: Linux keeps it for error pointers */
    end_run();
    put_run(packed, 0);
}

static void on_mark(unsigned cpu, uint64_t number)
{
    repeating[cpu] = region = 0;
    if (stream && armed && number && number <= regions)
        note_mark(number);
    if (touches && armed && number && number <= regions) {
        write_touch(UINT64_MAX, 0, number);
        runs = last_page = 0;
    }
    if (arms(number) || number > regions)
        return;
    region = number;
    region_cpu = cpu;
}

static void on_access(unsigned cpu, qemu_plugin_meminfo_t info, uint64_t address, void *data)
{
    struct insn *insn = data;
    bool store = qemu_plugin_mem_is_store(info);
    struct counts *cell;
    uint64_t bytes;

    if (insn->kinds & MARKS) {
        on_mark(cpu, address - MARK);
        return;
    }
    follow(cpu, insn->kinds, store, address, insn->block->address);
    insn->loads += !store;
    insn->stores += store;
    if (!region || !insn->block->cell)
        return;
    cell = &insn->block->cell->counts;
    bytes = 1ull << qemu_plugin_mem_size_shift(info);
    *(insn->kinds & REP ? (store ? &cell->rep_stores : &cell->rep_loads) : (store ? &cell->stores : &cell->loads)) += 1;
    if (place_of(info, address) != UINT64_MAX) {
        *(store ? &cell->pm_stored : &cell->pm_loaded) += bytes;
        cell->nt_stored += store && insn->kinds & NON_TEMPORAL ? bytes : 0;
    }
    if (cpu != region_cpu)
        return;
    if (stream)
        note(address, store, insn->block->cell->number);
    if (lines) {
        enum line_kind kind = !store ? LOADED : insn->kinds & NON_TEMPORAL ? NT_STORED : STORED;
        note_line(address, kind);
        if ((address + bytes - 1) >> LINE_BITS != address >> LINE_BITS)
            note_line(address + bytes - 1, kind);
    }
    if (touches)
        note_touch(address, store, insn->block->address);
}

/* Return the block of the instructions [from, to) of a translation; the same block if QEMU translates the same code again. */
static struct block *block_of(struct qemu_plugin_tb *tb, size_t from, size_t to)
{
    uint64_t address = qemu_plugin_insn_vaddr(qemu_plugin_tb_get_insn(tb, from)), digest = 14695981039346656037ull;
    struct block *block, **bucket;
    uint8_t code[CODE];
    size_t i, k, n;

    for (i = from; i < to; i++)
        for (k = 0, n = bytes_of(qemu_plugin_tb_get_insn(tb, i), code); k < n; k++)
            digest = (digest ^ code[k]) * 1099511628211ull; /* FNV-1a */
    bucket = &buckets[(address ^ address >> 18 ^ digest) % BUCKETS];
    for (block = *bucket; block; block = block->next)
        if (block->address == address && block->digest == digest && block->count == to - from)
            return block;
    block = xcalloc(1, sizeof *block);
    *block = (struct block){.address = address, .digest = digest, .count = to - from, .next = *bucket};
    block->insns = xcalloc(to - from, sizeof *block->insns);
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
    uint8_t code[CODE];
    size_t n = bytes_of(qemu_plugin_tb_get_insn(tb, i), code);
    return classify(code, n) & MARKS;
}

static void on_translation(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
    size_t n = qemu_plugin_tb_n_insns(tb), from = 0, to, i;
    (void)id;
    while (from < n) { /* a mark ends its block: the next block belongs to the next region */
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

/* Return whether an instruction itself makes the `found` accesses, at least one in two executions: QEMU 7.2 ascribes the stores of
 * an interrupt's delivery to the instruction that ran last. */
static bool accesses(const struct block *block, uint64_t found)
{
    return 2 * found >= block->executed && found;
}

static struct row row_of(const struct block *block, const struct cell *cell)
{
    struct row row = {.address = block->address, .key = cell->key, .counts = cell->counts, .number = cell->number};
    uint64_t times = row.executed = row.counts.executed, i;
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
    row.instructions -= row.counts.rep_iterations; /* a rep-string counts once */
    row.rep -= row.counts.rep_iterations;
    return row;
}

static void on_exit_(qemu_plugin_id_t id, void *data)
{
    FILE *out = fopen(out_path, "wb");
    uint64_t i;
    (void)id, (void)data;

    if (!out)
        fail("the counts cannot be written");
    for (i = 0; i < BUCKETS; i++)
        for (struct block *block = buckets[i]; block; block = block->next)
            for (const struct cell *cell = block->cells; cell; cell = cell->next) {
                struct row row = row_of(block, cell);
                fwrite(&row, sizeof row, 1, out);
            }
    if (ferror(out) | fclose(out) | calls_write(calls_path))
        fail("the counts cannot be written: is the disk full?");
    if (stream)
        end_run();
    if ((stream && fclose(stream)) | (stream_cells && fclose(stream_cells)) | (lines && fclose(lines)) |
        (touches && fclose(touches)))
        fail("what the accesses touched cannot be written: is the disk full?");
}

QEMU_PLUGIN_EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *info, int argc, char **argv)
{
    const char *stream_path = NULL, *cells_path = NULL, *lines_path = NULL, *touches_path = NULL;
    const struct argument known[] = {
        {"regions", &regions, 0},        {"pmlo", &pm_low, 0},           {"pmhi", &pm_high, 0},
        {"ramlo", &ram_low, 0},          {"every", &sample_period, 0},   {"length", &sample_length, 0},
        {"within", &within, 0},          {"out", 0, &out_path},          {"calls", 0, &calls_path},
        {"stream", 0, &stream_path},     {"cells", 0, &cells_path},      {"touches", 0, &touches_path},
        {"lines", 0, &lines_path}};
    (void)info;

    parse(argc, argv, known, sizeof known / sizeof *known);
    if (!out_path || !calls_path || !sample_period || regions >= ARM || !within || (stream_path && !(stream = fopen(stream_path, "wb"))) ||
        (cells_path && !(stream_cells = fopen(cells_path, "wb"))) || (lines_path && !(lines = fopen(lines_path, "wb"))) ||
        (touches_path && !(touches = fopen(touches_path, "wb"))))
        return -1;
    register_plugin(id, on_translation, on_exit_);
    return 0;
}
