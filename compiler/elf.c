/* SPDX-License-Identifier: Apache-2.0 */
/* Weights as a last segment of a linked library.
 *
 * The linker never sees them. Its library starts with a PT_PHDR entry, which a shared library does
 * not need; without it the table has room for one more PT_LOAD, which goes behind the others (they
 * must ascend) and maps the weights read-only, page by page as they are touched. The section table,
 * which stands at the end, moves behind the weights and gets an entry for them, so that tools that
 * rewrite libraries by their sections (strip) keep them. Everything else stays where it was. The
 * library finds its weights by one distance, which is written into its blob: no relocation reaches
 * there, and no 32-bit limit holds. Large weights are laid so that their pages may be huge ones. */
#include "weights.h"

#include <elf.h>
#include <string.h>

#include "runtime/weir_rt.h"

enum { PAGE = 4096, ARM_PAGE = 1 << 16, HUGE_PAGE = 2 << 20, HUGE_FROM = 8 << 20 };
static const char section_name[] = ".weir.weights";

typedef struct Elf {
    Ctx *ctx;
    char *at; /* a copy that we may write */
    size_t n;
    Elf64_Ehdr *head;
    Elf64_Phdr *segment;
    Elf64_Shdr *section;
} Elf;

static uint64_t round_up(uint64_t v, uint64_t to) {
    return (v + to - 1) / to * to;
}

static void check(const Elf *elf, bool fine, const char *what) {
    if (!fine)
        fail(elf->ctx, E_INTERNAL, "the linked library %s; report this fault with the model", what);
}

static Elf elf_open(Arena *arena, const void *library, size_t n) {
    Elf elf = {.ctx = arena_ctx(arena), .n = n, .at = arena_copy(arena, library, n)};
    elf.head = (Elf64_Ehdr *)elf.at;
    check(&elf, n > sizeof *elf.head && memcmp(elf.at, ELFMAG, SELFMAG) == 0, "is no ELF file");
    check(&elf,
          elf.head->e_shnum && elf.head->e_shoff + elf.head->e_shnum * sizeof *elf.section == n,
          "does not end with its section table");
    check(&elf, elf.head->e_phoff + elf.head->e_phnum * sizeof *elf.segment <= n, "is cut short");
    elf.segment = (Elf64_Phdr *)(elf.at + elf.head->e_phoff);
    elf.section = (Elf64_Shdr *)(elf.at + elf.head->e_shoff);
    return elf;
}

/* The blob's offset in the file; it lies in data, aligned to 8. */
static uint64_t find_blob(const Elf *elf) {
    uint64_t magic[2] = {WEIR_BLOB_MAGIC0, WEIR_BLOB_MAGIC1}, found = 0;
    for (size_t i = 0; i + sizeof(struct weir_blob) <= elf->n; i += 8) {
        if (memcmp(elf->at + i, magic, sizeof magic) != 0) continue;
        check(elf, !found, "has two places for weights");
        found = i;
    }
    check(elf, found, "has no place for weights");
    return found;
}

static uint64_t address_of(const Elf *elf, uint64_t offset) {
    for (int i = 0; i < elf->head->e_phnum; i++) {
        const Elf64_Phdr *s = &elf->segment[i];
        if (s->p_type == PT_LOAD && offset >= s->p_offset && offset < s->p_offset + s->p_filesz)
            return offset - s->p_offset + s->p_vaddr;
    }
    check(elf, false, "does not load its blob");
    return 0;
}

static uint64_t end_address(const Elf *elf) {
    uint64_t end = 0;
    for (int i = 0; i < elf->head->e_phnum; i++) {
        const Elf64_Phdr *s = &elf->segment[i];
        if (s->p_type == PT_LOAD && s->p_vaddr + s->p_memsz > end) end = s->p_vaddr + s->p_memsz;
    }
    return end;
}

/* Takes PT_PHDR out, moves the rest up to the last PT_LOAD, and puts `load` behind it. */
static void add_segment(const Elf *elf, Elf64_Phdr load) {
    int n = elf->head->e_phnum, last = 0;
    check(elf, n > 0 && elf->segment[0].p_type == PT_PHDR, "has no PT_PHDR to give up");
    for (int i = 0; i < n; i++)
        if (elf->segment[i].p_type == PT_LOAD) last = i;
    memmove(&elf->segment[0], &elf->segment[1], sizeof load * (size_t)last);
    elf->segment[last] = load;
}

/* The names, now with ours, and the section table. */
static void add_section(Arena *arena, const Elf *elf, const Elf64_Phdr *load, ElfPlan *plan) {
    int n = elf->head->e_shnum, names = elf->head->e_shstrndx;
    check(elf, names < n, "has no section names");
    const Elf64_Shdr *old = &elf->section[names];
    check(elf, old->sh_offset + old->sh_size <= elf->n, "is cut short");
    size_t bytes = round_up(old->sh_size + sizeof section_name, 8);
    plan->tail_bytes = bytes + sizeof *elf->section * (size_t)(n + 1);
    char *tail = arena_alloc(arena, plan->tail_bytes);
    memcpy(tail, elf->at + old->sh_offset, old->sh_size);
    memcpy(tail + old->sh_size, section_name, sizeof section_name);
    Elf64_Shdr *table = (Elf64_Shdr *)(tail + bytes);
    memcpy(table, elf->section, sizeof *table * (size_t)n);
    table[n] = (Elf64_Shdr){.sh_name = (Elf64_Word)old->sh_size,
                            .sh_type = SHT_PROGBITS,
                            .sh_flags = SHF_ALLOC,
                            .sh_addr = load->p_vaddr,
                            .sh_offset = load->p_offset,
                            .sh_size = load->p_filesz,
                            .sh_addralign = 64};
    table[names].sh_offset = (Elf64_Off)plan->tail_start;
    table[names].sh_size += sizeof section_name;
    elf->head->e_shoff = (Elf64_Off)plan->tail_start + bytes;
    elf->head->e_shnum++;
    plan->tail = tail;
}

ElfPlan elf_plan(Arena *arena, const void *library, size_t n, int64_t weight_bytes, bool embed) {
    Elf elf = elf_open(arena, library, n);
    ElfPlan plan = {.head = elf.at, .head_bytes = n};
    uint64_t offset = find_blob(&elf);
    struct weir_blob *blob = (struct weir_blob *)(elf.at + offset);
    blob->bytes = (uint64_t)weight_bytes;
    if (!weight_bytes || !embed) return plan;
    uint64_t page = elf.head->e_machine == EM_AARCH64 ? ARM_PAGE : PAGE,
             align = weight_bytes >= HUGE_FROM ? HUGE_PAGE : page;
    plan.head_bytes = elf.head->e_shoff;
    plan.start = (int64_t)round_up(plan.head_bytes, PAGE);
    plan.tail_start = plan.start + (int64_t)round_up((uint64_t)weight_bytes, 8);
    uint64_t address = round_up(end_address(&elf), align) + (uint64_t)plan.start % align;
    Elf64_Phdr load = {.p_type = PT_LOAD,
                       .p_flags = PF_R,
                       .p_offset = (Elf64_Off)plan.start,
                       .p_vaddr = address,
                       .p_paddr = address,
                       .p_filesz = (Elf64_Xword)weight_bytes,
                       .p_memsz = (Elf64_Xword)weight_bytes,
                       .p_align = align};
    blob->delta = (int64_t)(address - address_of(&elf, offset));
    add_section(arena, &elf, &load, &plan);
    add_segment(&elf, load);
    return plan;
}
