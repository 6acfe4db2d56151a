/* A plugin for QEMU's TCG that follows what a guest stores to persistent memory.
 *
 * Recording (record=FILE): every store to the device with its data, every write-back, every fence that orders one of them, in
 * program order, with the address of the instruction and the node of the tree of calls (calls.c); and what the device held when
 * it began (base=FILE).  The guest's marks BEGIN and END enclose one operation.
 *
 * Crashing (base=FILE states=FILE): at each mark NEXT the device gets the base's content back, and then the next state of the
 * file.
 *
 * QEMU reports to a plugin neither the line of a write-back nor the data of a store.  So the plugin turns a write-back in the
 * guest's code into a load of one byte from the same address (TEST of the same operand, with the same length; both change no
 * register, and the kernel's inline assembly lets the flags change), and reads data from the file that backs the guest's memory.
 * The change takes effect when the code is translated again, at ARM: so every write-back must have run once before, or UNSEEN is
 * recorded.
 *
 * Arguments: pmlo=ADDRESS pmhi=ADDRESS ram=FILE ramlo=OFFSET (of the device in it), and record=FILE calls=FILE base=FILE most=BYTES, or
 * base=FILE states=FILE progress=FILE first=NUMBER.  With several CPUs, an entry has the CPU that made it: a fence orders what its
 * own CPU wrote back.
 */
#define _GNU_SOURCE
#include "tcg.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum mark { NEXT = 0xffb, END, BEGIN }; /* see guest.h */
enum entry { STORED = 1, NT_STORED, WRITTEN_BACK, FENCED, LOCKED_FENCE, BEGUN, ENDED, UNSEEN, FULL };

#define LINE 64u
#define PAGE 4096u
#define RUN 4096u /* most bytes of a run of stores */
#define NEAR 512  /* most bytes between instructions of one loop of non-temporal stores */
#define TURNED 256

struct insn {
    uint64_t address;
    int kinds;
};
struct entry_head { /* see scmsim/lab/persistence.py; a store's bytes follow, padded to 8 */
    uint64_t at, code;
    uint32_t node;
    uint16_t length;
    uint8_t kind, cpu;
};
struct piece { /* piece of the file of states; its bytes follow, padded to 8 */
    uint64_t at;
    uint32_t length, kind; /* ARRIVED: in every state from here on; STATE: the next state begins; LEFT: only in this state */
};
enum piece_kind { ARRIVED, STATE, LEFT };

static uint64_t most = 1ull << 30, first, written, turned[TURNED];
static unsigned turned_count;
static const char *ram_path, *calls_path, *record_path, *base_path, *states_path, *progress_path;
static FILE *record, *states, *progress;
static uint8_t *device, *base;
static bool recording, unfenced[CPUS], unlocked[CPUS]; /* write-back since the CPU's last fence; since its last fence or locked store */
static struct entry_head run;
static uint8_t run_bytes[RUN];
static uint64_t *dirty, dirty_count, state;
static uint8_t *is_dirty;

static void put(const void *bytes, size_t n)
{
    static const uint8_t zeroes[8];
    if ((n && fwrite(bytes, n, 1, record) != 1) || (n % 8 && fwrite(zeroes, 8 - n % 8, 1, record) != 1))
        fail("the stores cannot be written: is the disk full?");
    written += (n + 7) / 8 * 8;
}

static void end_run(void)
{
    if (!run.kind)
        return;
    put(&run, sizeof run);
    if (run.kind == STORED || run.kind == NT_STORED)
        put(run_bytes, run.length);
    run.kind = 0;
    if (written > most && recording) {
        struct entry_head full = {.kind = FULL};
        put(&full, sizeof full);
        recording = false;
    }
}

static void begin_run(unsigned cpu, int kind, uint64_t at, uint64_t code)
{
    end_run();
    if (recording)
        run = (struct entry_head){.kind = kind, .cpu = cpu, .at = at, .code = code, .node = calls_now(cpu)};
}

static void note_store(unsigned cpu, const struct insn *insn, uint64_t at, unsigned bytes)
{
    int kind = insn->kinds & NON_TEMPORAL ? NT_STORED : STORED;
    uint64_t apart = insn->address - run.code + NEAR;
    bool same = kind == NT_STORED ? apart < 2 * NEAR : insn->address == run.code;
    if (run.kind != kind || run.cpu != cpu || !same || at != run.at + run.length || run.length + bytes > RUN)
        begin_run(cpu, kind, at, insn->address);
    if (!recording)
        return;
    memcpy(run_bytes + run.length, device + at, bytes);
    run.length += bytes;
    if (kind == NT_STORED)
        unfenced[cpu] = unlocked[cpu] = true;
}

static void note_write_back(unsigned cpu, const struct insn *insn, uint64_t at)
{
    at = at / LINE * LINE;
    if (run.kind != WRITTEN_BACK || run.cpu != cpu || insn->address != run.code || at != run.at + (uint64_t)LINE * run.length || run.length == UINT16_MAX)
        begin_run(cpu, WRITTEN_BACK, at, insn->address);
    run.length++;
    unfenced[cpu] = unlocked[cpu] = true;
}

static void note(unsigned cpu, int kind, uint64_t code)
{
    if (!recording)
        return;
    begin_run(cpu, kind, 0, code);
    end_run();
}

static void on_fence(unsigned cpu, void *data)
{
    const struct insn *insn = data;
    if (unfenced[cpu])
        note(cpu, FENCED, insn->address);
    unfenced[cpu] = unlocked[cpu] = false;
}

static void on_unseen(unsigned cpu, void *data)
{
    const struct insn *insn = data;
    note(cpu, UNSEEN, insn->address);
}

/* Copy the device's bytes at `from` in one file to `to` or the file `out`; holes of the file stay holes. */
static void copy_data(int fd, uint64_t from, uint8_t *to, int out)
{
    off_t at = from, end = from + (pm_high - pm_low), next;
    bool good = fd >= 0;
    while (good && (at = lseek(fd, at, SEEK_DATA)) >= 0 && at < end) {
        next = lseek(fd, at, SEEK_HOLE);
        next = next < 0 || next > end ? end : next;
        for (ssize_t n; good && at < next; at += n) {
            n = to ? pread(fd, to + (at - from), next - at, at) : pwrite(out, device + (at - from), next - at, at - from);
            good = n > 0;
        }
    }
    if (!good)
        fail("the device's first content cannot be copied: is the disk full?");
}

static void keep_base(void)
{
    int ram = open(ram_path, O_RDONLY), out = open(base_path, O_CREAT | O_TRUNC | O_WRONLY, 0600);
    if (out < 0 || ftruncate(out, pm_high - pm_low))
        fail("the device's first content cannot be written: is the disk full?");
    copy_data(ram, ram_low, NULL, out);
    close(ram);
    if (close(out))
        fail("the device's first content cannot be written: is the disk full?");
}

static void restore_base(void)
{
    int fd = open(base_path, O_RDONLY);
    copy_data(fd, 0, device, -1);
    close(fd);
}

static void note_dirty(uint64_t at, uint32_t length)
{
    for (uint64_t page = at / PAGE; page <= (at + length - 1) / PAGE; page++)
        if (!is_dirty[page]) {
            is_dirty[page] = 1;
            dirty[dirty_count++] = page;
        }
}

static void put_into(uint64_t at, const uint8_t *bytes, uint32_t length, bool for_good)
{
    if (!length || at + length > pm_high - pm_low)
        fail("a state lies outside of the device");
    memcpy(device + at, bytes, length);
    if (for_good)
        memcpy(base + at, bytes, length);
    else
        note_dirty(at, length);
}

static bool next_piece(struct piece *piece, uint8_t *bytes)
{
    size_t words = 0;
    if (fread(piece, sizeof *piece, 1, states) != 1)
        return false;
    words = (piece->length + 7) / 8;
    if (piece->length > RUN || (words && fread(bytes, 8, words, states) != words))
        fail("the states are cut short");
    return true;
}

static void next_state(void)
{
    static uint8_t bytes[RUN + 8];
    static struct piece piece;
    static bool ahead; /* whether `piece` has been read but not used */
    bool found = false;
    for (uint64_t i = 0; i < dirty_count; i++) {
        memcpy(device + dirty[i] * PAGE, base + dirty[i] * PAGE, PAGE);
        is_dirty[dirty[i]] = 0;
    }
    dirty_count = 0;
    for (; ahead || next_piece(&piece, bytes); ahead = false) {
        if (found && piece.kind != LEFT) {
            ahead = true;
            break;
        }
        if (piece.kind == STATE)
            found = state++ >= first;
        else if (piece.kind == ARRIVED || found)
            put_into(piece.at, bytes, piece.length, piece.kind == ARRIVED);
    }
    if (!found)
        fail("there are fewer states than the guest asks for");
    rewind(progress);
    if (fwrite(&state, sizeof state, 1, progress) != 1 || fflush(progress))
        fail("the progress cannot be written: is the disk full?");
}

static void on_mark(unsigned cpu, uint64_t number)
{
    if (arms(number)) {
        if ((recording = record != NULL))
            keep_base();
        else
            restore_base();
    } else if (number == BEGIN)
        note(cpu, BEGUN, 0);
    else if (number == END)
        note(cpu, ENDED, 0);
    else if (number == NEXT && states)
        next_state();
}

static void on_access(unsigned cpu, qemu_plugin_meminfo_t info, uint64_t address, void *data)
{
    const struct insn *insn = data;
    bool store = qemu_plugin_mem_is_store(info);
    uint64_t at;

    if (insn->kinds & MARKS) {
        on_mark(cpu, address - MARK);
        return;
    }
    if (record)
        follow(cpu, insn->kinds, store, address, insn->address);
    if ((!store && !(insn->kinds & FLUSH)) || (record && !recording))
        return;
    at = place_of(info, address);
    if (at != UINT64_MAX) {
        unsigned bytes = 1u << qemu_plugin_mem_size_shift(info);
        if (states)
            note_dirty(at, bytes);
        else if (store)
            note_store(cpu, insn, at, bytes);
        else
            note_write_back(cpu, insn, at);
    }
    if (store && insn->kinds & LOCKED) {
        if (unlocked[cpu] && record)
            note(cpu, LOCKED_FENCE, insn->address);
        unlocked[cpu] = false;
    }
}

static bool was_turned(uint64_t address)
{
    for (unsigned i = 0; i < turned_count; i++)
        if (turned[i] == address)
            return true;
    return false;
}

/* Turn [prefixes] 0F AE /6 or /7 into [3E] [prefixes] 84 /r: TEST m8, r8. */
static void turn(const struct qemu_plugin_insn *insn, const uint8_t *code, size_t n)
{
    uint8_t *there = qemu_plugin_insn_haddr(insn), made[CODE] = {0x3e};
    uint64_t address = qemu_plugin_insn_vaddr(insn);
    size_t i = 0;
    while (i + 1 < n && !(code[i] == 0x0f && code[i + 1] == 0xae))
        i++;
    if (!there || i + 2 >= n || turned_count == TURNED || address % PAGE + n > PAGE)
        return;
    memcpy(made + 1, code, i);
    made[i + 1] = 0x84;
    memcpy(made + i + 2, code + i + 2, n - i - 2);
    memcpy(there, made, n);
    turned[turned_count++] = address;
}

static bool is_fence(const uint8_t *code, size_t n, int kinds)
{
    return kinds & STORE_FENCE || (kinds & FENCE && code[n - 1] >= 0xf0); /* mfence, not lfence */
}

static void on_translation(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
    size_t n = qemu_plugin_tb_n_insns(tb), i;
    (void)id;
    for (i = 0; i < n; i++) {
        struct qemu_plugin_insn *at = qemu_plugin_tb_get_insn(tb, i);
        uint8_t code[CODE];
        size_t length = bytes_of(at, code);
        int kinds = classify(code, length);
        struct insn *insn;
        bool unseen = kinds & FLUSH && !was_turned(qemu_plugin_insn_vaddr(at));
        if (unseen && record)
            turn(at, code, length);
        if (!armed && !(kinds & MARKS))
            continue;
        insn = xcalloc(1, sizeof *insn);
        *insn = (struct insn){qemu_plugin_insn_vaddr(at), kinds | (was_turned(qemu_plugin_insn_vaddr(at)) ? FLUSH : 0)};
        if (record && is_fence(code, length, kinds))
            qemu_plugin_register_vcpu_insn_exec_cb(at, on_fence, QEMU_PLUGIN_CB_NO_REGS, insn);
        if (record && unseen)
            qemu_plugin_register_vcpu_insn_exec_cb(at, on_unseen, QEMU_PLUGIN_CB_NO_REGS, insn);
        qemu_plugin_register_vcpu_mem_cb(at, on_access, QEMU_PLUGIN_CB_NO_REGS, QEMU_PLUGIN_MEM_RW, insn);
    }
}

static void on_exit_(qemu_plugin_id_t id, void *data)
{
    (void)id, (void)data;
    if (!record)
        return;
    recording = false;
    end_run();
    if (fclose(record) | calls_write(calls_path))
        fail("the stores cannot be written: is the disk full?");
}

static void *mapped(const char *path, uint64_t at, uint64_t bytes, int sharing)
{
    int fd = open(path, sharing == MAP_SHARED ? O_RDWR : O_RDONLY);
    void *found = fd < 0 ? MAP_FAILED : mmap(NULL, bytes, PROT_READ | PROT_WRITE, sharing | MAP_NORESERVE, fd, at);
    if (fd >= 0)
        close(fd);
    return found;
}

static bool understood(int argc, char **argv)
{
    const struct argument known[] = {
        {"pmlo", &pm_low, 0},            {"pmhi", &pm_high, 0},          {"ramlo", &ram_low, 0},
        {"most", &most, 0},              {"first", &first, 0},           {"ram", 0, &ram_path},
        {"record", 0, &record_path},     {"base", 0, &base_path},        {"states", 0, &states_path},
        {"progress", 0, &progress_path}, {"calls", 0, &calls_path}};
    parse(argc, argv, known, sizeof known / sizeof *known);
    return ram_path && base_path && pm_high > pm_low && (record_path ? calls_path && !states_path : states_path && progress_path);
}

QEMU_PLUGIN_EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *info, int argc, char **argv)
{
    uint64_t bytes;
    (void)info;
    if (!understood(argc, argv))
        return -1;
    bytes = pm_high - pm_low;
    device = mapped(ram_path, ram_low, bytes, MAP_SHARED);
    if (device == MAP_FAILED || (record_path && !(record = fopen(record_path, "wb"))))
        return -1;
    if (states_path) {
        base = mapped(base_path, 0, bytes, MAP_PRIVATE);
        dirty = xcalloc(bytes / PAGE, sizeof *dirty);
        is_dirty = xcalloc(bytes / PAGE, 1);
        if (base == MAP_FAILED || !(states = fopen(states_path, "rb")) || !(progress = fopen(progress_path, "wb")))
            return -1;
    }
    register_plugin(id, on_translation, on_exit_);
    return 0;
}
