#include "tcg.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

QEMU_PLUGIN_EXPORT int qemu_plugin_version = QEMU_API_VERSION;

bool armed;
uint64_t pm_low, pm_high, ram_low;
static qemu_plugin_id_t own_id;
static qemu_plugin_tb_cb translated;
static void (*ended)(qemu_plugin_id_t, void *);

void fail(const char *what)
{
    fprintf(stderr, "scmsim-plugin: %s\n", what);
    fflush(stderr);
    _Exit(70);
}

void *xcalloc(uint64_t count, uint64_t bytes)
{
    void *found = calloc(count, bytes);
    if (!found)
        fail("out of memory");
    return found;
}

void parse(int argc, char **argv, const struct argument *known, size_t count)
{
    for (int i = 0; i < argc; i++)
        for (const struct argument *one = known; one < known + count; one++) {
            size_t n = strlen(one->name);
            if (strncmp(argv[i], one->name, n) || argv[i][n] != '=')
                continue;
            if (one->number)
                *one->number = strtoull(argv[i] + n + 1, NULL, 0);
            else
                *one->text = strdup(argv[i] + n + 1);
        }
}

static void register_all(qemu_plugin_id_t id)
{
    qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
    qemu_plugin_register_atexit_cb(id, ended, NULL);
}

void register_plugin(qemu_plugin_id_t id, qemu_plugin_tb_cb on_translation, void (*on_exit)(qemu_plugin_id_t, void *))
{
    own_id = id;
    translated = on_translation;
    ended = on_exit;
    register_all(id);
}

bool arms(uint64_t mark)
{
    if (mark != ARM || armed)
        return false;
    armed = true;
    qemu_plugin_reset(own_id, register_all); /* only once: after a second reset QEMU 7.2 uses freed callbacks of loads and stores */
    return true;
}

size_t bytes_of(const struct qemu_plugin_insn *insn, uint8_t *code)
{
    size_t n = qemu_plugin_insn_size(insn);
    n = n > CODE - 1 ? CODE - 1 : n;
#if QEMU_API_VERSION >= 3
    return qemu_plugin_insn_data(insn, code, n);
#else
    memcpy(code, qemu_plugin_insn_data(insn), n);
    return n;
#endif
}
