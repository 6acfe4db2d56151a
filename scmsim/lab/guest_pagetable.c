/* Read the program's own page table in the kernel's memory through /proc/kcore: neither smaps nor pagemap reports the size of
 * DAX pages.
 */
#define _GNU_SOURCE
#include "guest.h"

#include <elf.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PAGE 4096L
#define FAN 512
#define DIRECT_MAP 0xffff888000000000UL /* with 4-level tables and nokaslr */
#define FRAME 0x000ffffffffff000UL
enum { PRESENT = 1, IS_LARGE = 1 << 7, ACCESSED_DIRTY = 3 << 5 };
enum { SEGMENTS = 64, WORDS_OF_MM = 64 }; /* of kcore; 8-byte words of struct mm_struct that are searched for its table */

static struct {
    uint64_t address, offset, bytes;
} segments[SEGMENTS];
static int kcore = -1, segment_count;
static uint64_t top_table; /* physical address; 0: not found */

static int read_kernel(uint64_t address, void *to, size_t bytes)
{
    for (int i = 0; i < segment_count; i++)
        if (address >= segments[i].address && address + bytes <= segments[i].address + segments[i].bytes)
            return pread(kcore, to, bytes, segments[i].offset + (address - segments[i].address)) == (ssize_t)bytes;
    return 0;
}

static void open_kcore(void)
{
    Elf64_Ehdr head;
    Elf64_Phdr part;
    kcore = open("/proc/kcore", O_RDONLY | O_CLOEXEC);
    if (kcore < 0 || pread(kcore, &head, sizeof head, 0) != sizeof head)
        return;
    for (int i = 0; i < head.e_phnum && segment_count < SEGMENTS; i++)
        if (pread(kcore, &part, sizeof part, head.e_phoff + i * sizeof part) == sizeof part && part.p_type == PT_LOAD) {
            segments[segment_count].address = part.p_vaddr;
            segments[segment_count].offset = part.p_offset;
            segments[segment_count++].bytes = part.p_memsz;
        }
}

static uint64_t symbol(const char *text, const char *name)
{
    char wanted[64];
    const char *at;
    snprintf(wanted, sizeof wanted, " %s\n", name);
    at = strstr(text, wanted);
    return at ? strtoul(at - 18, NULL, 16) : 0; /* "ffffffff82000000 D name" */
}

static char *all_symbols(void)
{
    size_t room = 1 << 20, n = 0;
    char *text = malloc(room);
    int fd = open("/proc/kallsyms", O_RDONLY | O_CLOEXEC);
    ssize_t got;
    while (text && fd >= 0 && (got = read(fd, text + n, room - n - 1)) > 0)
        if ((n += got) + 4096 > room)
            text = realloc(text, room *= 2);
    if (fd >= 0)
        close(fd);
    if (text)
        text[n] = 0;
    return text;
}

static uint64_t entry(uint64_t table, uint64_t address, int shift)
{
    uint64_t found = 0;
    read_kernel(DIRECT_MAP + (table & FRAME) + (address >> shift & (FAN - 1)) * 8, &found, 8);
    return found & PRESENT ? found : 0;
}

/* Return the table of entries of 2 MiB for an address, in a top-level table; 0: none. */
static uint64_t middle_table(uint64_t top, uint64_t address)
{
    uint64_t upper = entry(top, address, 39), found = upper ? entry(upper, address, 30) : 0;
    return found & IS_LARGE ? 0 : found;
}

/* Return the frame of our page at MARK, from pagemap. */
static uint64_t frame_of_mark(void)
{
    uint64_t found = 0;
    int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
    if (fd < 0 || pread(fd, &found, 8, MARK / PAGE * 8) != 8)
        found = 0;
    if (fd >= 0)
        close(fd);
    return (found & ((1UL << 55) - 1)) * PAGE;
}

/* Find our top-level table: among the pages that our struct mm_struct points to, the one through which MARK has its frame. */
int find_page_table(void)
{
    uint64_t per_cpu, offset, mm, words[WORDS_OF_MM], frame = frame_of_mark();
    char *text = all_symbols();
    open_kcore();
    if (!text || !frame || !read_kernel(symbol(text, "__per_cpu_offset"), &per_cpu, 8))
        return 0;
    offset = symbol(text, "cpu_tlbstate"); /* its first member is the mm that runs */
    free(text);
    if (!offset || !read_kernel(per_cpu + offset, &mm, 8) || !read_kernel(mm, words, sizeof words))
        return 0;
    for (int i = 0; i < WORDS_OF_MM && !top_table; i++) {
        uint64_t middle, last, here = words[i] - DIRECT_MAP;
        if (words[i] % PAGE || words[i] < DIRECT_MAP || here > FRAME)
            continue;
        middle = middle_table(here, MARK);
        last = middle ? entry(middle, MARK, 21) : 0;
        if (last && !(last & IS_LARGE) && (entry(last, MARK, 12) & FRAME) == frame)
            top_table = here;
    }
    return top_table != 0;
}

/* Return the entry of 2 MiB that maps an address, without accessed and dirty bits; 0 if none.  `anew`: read the table again. */
uint64_t large_entry(uint64_t address, int anew)
{
    static uint64_t table[FAN], have = UINT64_MAX;
    uint64_t found;
    if (anew || address >> 30 != have) {
        uint64_t middle = middle_table(top_table, address);
        have = address >> 30;
        if (!middle || !read_kernel(DIRECT_MAP + (middle & FRAME), table, sizeof table))
            memset(table, 0, sizeof table);
    }
    found = table[address >> 21 & (FAN - 1)];
    return (found & (PRESENT | IS_LARGE)) == (PRESENT | IS_LARGE) ? found & ~(uint64_t)ACCESSED_DIRTY : 0;
}
