/* SPDX-License-Identifier: Apache-2.0 */
/* A program as translation units. Kernels are printed first, each distinct text once; then they are
 * dealt into units of about equal length, and unit 0 gets the program around them. */
#include "c_program.h"

#include "compiler/embedded.h"

#include <ctype.h>
#include <string.h>

/* ---- names ----------------------------------------------------------------------------------- */

bool is_lesser(const CProgram *p) {
    return p->options->cpu && !p->options->nlesser;
}

const char *c_version(Arena *arena, const char *cpu) {
    char *id = arena_printf(arena, "%s", cpu);
    for (char *c = id; *c; c++)
        if (!isalnum((unsigned char)*c)) *c = '_';
    return id;
}

/* Names that the linker sees differ between the programs of a library. */
const char *kernel_word(const CProgram *p) {
    if (p->options->part) return "prepare_kernel";
    if (!is_lesser(p)) return "kernel";
    return arena_printf(p->arena, "%s_kernel", c_version(p->arena, p->options->cpu));
}

/* ---- kernels --------------------------------------------------------------------------------- */

static int add_function(CProgram *p, Table *by_text, const CKernel *k, const CPhase *phase,
                        const char *from) {
    const char *text = internf(p->ctx, "%d %s", phase->threads, phase->text);
    int known = (int)(intptr_t)table_get(by_text, text) - 1;
    if (known >= 0) {
        p->function.at[known].uses++;
        return known;
    }
    vec_push(p->arena, &p->function,
             ((CFunction){.text = phase->text,
                          .from = from,
                          .uses = 1,
                          .threads = phase->threads,
                          .shared = k->shared,
                          .resident = phase->resident}));
    table_put(by_text, text, (void *)(intptr_t)p->function.n);
    return p->function.n - 1;
}

/* A kernel without a text: one launch. */
static CKernel *kernel_apart(const CProgram *p) {
    CKernel *k = NEW(p->arena, CKernel);
    *k = (CKernel){.arena = p->arena, .scratch = dim_const(p->ctx, 0)};
    vec_push(p->arena, &k->phase, ((CPhase){.tasks = dim_const(p->ctx, 1)}));
    return k;
}

static void emit_kernels(CProgram *p, const Machine *m) {
    int n = p->flow->kernel.n;
    bool (*apart)(const Kernel *) = p->host->apart;
    Table *by_text = table_new(p->arena);
    p->kernel = NEW_ARRAY(p->arena, CKernel *, n);
    p->phase = NEW_ARRAY(p->arena, int *, n);
    for (int k = 0; k < n; k++) {
        const Nest *nest = p->program->nest.at[k];
        bool ours = !apart || !apart(p->flow->kernel.at[k]);
        CKernel *ck = p->kernel[k] =
            ours ? emit_nest(p->arena, nest, p->flow, m, p->host->form) : kernel_apart(p);
        p->phase[k] = NEW_ARRAY(p->arena, int, ck->phase.n);
        if (!ours) continue;
        for (int i = 0; i < ck->phase.n; i++)
            p->phase[k][i] = add_function(p, by_text, ck, &ck->phase.at[i], kernel_from(p, k));
    }
}

static void index_maps(CProgram *p) {
    p->first_kernel = NEW_ARRAY(p->arena, int, p->flow->map.n);
    for (int i = 0; i < p->flow->map.n; i++) p->first_kernel[i] = -1;
    for (int k = p->flow->kernel.n - 1; k >= 0; k--) {
        const Kernel *kernel = p->flow->kernel.at[k];
        p->first_kernel[kernel->map.at[kernel->map.n - 1]] = k;
    }
}

static void index_ports(CProgram *p) {
    int in = 0, out = 0;
    p->cont_index = NEW_ARRAY(p->arena, int64_t, p->flow->cont.n);
    for (int i = 0; i < p->flow->cont.n; i++) {
        ContKind kind = p->flow->cont.at[i].kind;
        p->cont_index[i] = kind == CONT_IN ? in++ : kind == CONT_OUT ? out++ : -1;
    }
}

/* ---- units ----------------------------------------------------------------------------------- */

const char *c_comment(Arena *arena, const char *text) {
    char *s = arena_printf(arena, "%s", text);
    for (char *c = s; *c; c++)
        if ((*c == '*' && c[1] == '/') || *c == '\n' || *c == '\\') *c = ' ';
    return s;
}

static void put_kernel(CProgram *p, Text *out, int k, const Machine *m) {
    const CFunction *f = &p->function.at[k];
    text_printf(out, "/* %s%s */\n", c_comment(p->arena, f->from),
                f->uses > 1 ? ", and equal ones" : "");
    if (m->vector_bytes == 64) text_put(out, "VECTOR_WIDTH(512) ");
    text_printf(out, "KERNEL void %s%d%s", kernel_word(p), k, f->text);
}

/* The declaration: the text up to its body. */
static void put_prototype(CProgram *p, Text *out, int k) {
    const char *text = p->function.at[k].text, *end = strstr(text, " {\n");
    text_printf(out, "KERNEL void %s%d%.*s;\n", kernel_word(p), k, (int)(end - text), text);
}

/* The header's text without its includes. */
static void put_header(Text *out, const char *name) {
    for (const char *line = embedded_text(name); *line;) {
        const char *end = strchr(line, '\n');
        size_t n = end ? (size_t)(end + 1 - line) : strlen(line);
        if (strncmp(line, "#include", 8) != 0) text_put_n(out, line, n);
        line += n;
    }
}

/* Functions of the user's own; one that is called twice is declared twice. */
static void put_extern(Text *out, const Items *items) {
    for (int i = 0; i < items->n; i++) {
        const Item *item = &items->at[i];
        put_extern(out, &item->body);
        put_extern(out, &item->other);
        if (item->kind != ITEM_CALL || !call_is_extern(item->call->row)) continue;
        const char *name = item->call->row->function;
        text_printf(out, "void %s(weir_call *c);\ni64 %s_scratch(const weir_call *c);\n", name,
                    name);
    }
}

void put_runtime(CProgram *p, Text *out) {
    text_put(
        out,
        "typedef __SIZE_TYPE__ size_t;\ntypedef i8 int8_t;\ntypedef i16 int16_t;\ntypedef i32 "
        "int32_t;\n"
        "typedef i64 int64_t;\ntypedef u8 uint8_t;\ntypedef u16 uint16_t;\ntypedef u32 uint32_t;\n"
        "typedef u64 uint64_t;\n#define NULL ((void *)0)\n#define UINT64_C(x) x##ull\n");
    put_header(out, "runtime/weir_model.h");
    put_header(out, "runtime/call.h");
    put_header(out, "runtime/weir_pool.h");
    put_header(out, "runtime/weir_rt.h");
    int rows;
    const CallRow *row = call_rows(&rows);
    for (int i = 0; i < rows; i++)
        text_printf(out, "void %s(weir_call *c);\ni64 %s_scratch(const weir_call *c);\n",
                    row[i].function, row[i].function);
    put_extern(out, &p->flow->body);
    if (p->host->device) {
        put_header(out, "runtime/device.h");
        return;
    }
    text_put(out, "static void copy(char *to, const char *from, i64 bytes, int t, int n) "
                  "__attribute__((unused));\n"
                  "static void copy(char *to, const char *from, i64 bytes, int t, int n) {\n"
                  " const i64 lo = bytes * t / n, hi = bytes * (t + 1) / n;\n"
                  " if (to != from) __builtin_memcpy(to + lo, from + lo, (u64)(hi - lo));\n}\n");
    for (int k = 0; k < p->function.n; k++) put_prototype(p, out, k);
}

void put_unit(CProgram *p, const Helpers *helpers, const char *name, const char *body, Units *out) {
    Text text = {.arena = p->arena};
    if (p->host->form->checked) text_put(&text, "#define CHECKED 1\n");
    text_put(&text, embedded_text("compiler/targets/c/prelude.h"));
    helpers_emit(helpers, &text, body);
    text_put(&text, body);
    vec_push(p->arena, out, ((Unit){name, text_str(&text), p->options->flags}));
}

/* "model.c", "kernels1.c"; of the other programs of a library "prepare.c", "x86_64_v3_1.c". */
static const char *unit_name(const CProgram *p, int i) {
    if (is_lesser(p))
        return arena_printf(p->arena, "%s_%d.c", c_version(p->arena, p->options->cpu), i);
    const char *first = p->options->part ? "prepare" : "model";
    if (i == 0) return arena_printf(p->arena, "%s.c", first);
    return arena_printf(p->arena, "%s%d.c", p->options->part ? "prepare" : "kernels", i);
}

static int shortest(const size_t *bytes, int n) {
    int best = 0;
    for (int i = 1; i < n; i++)
        if (bytes[i] < bytes[best]) best = i;
    return best;
}

/* Each kernel goes into the unit that is shortest so far, unit 0 taken without its tables: they say
 * how the model was made, which tells nothing of where kernels belong. */
static void deal_kernels(CProgram *p, Text *units, int n, size_t first, const Machine *m) {
    size_t *bytes = NEW_ARRAY(p->arena, size_t, n);
    bytes[0] = first;
    for (int k = 0; k < p->function.n; k++) {
        int i = shortest(bytes, n);
        size_t before = units[i].n;
        put_kernel(p, &units[i], k, m);
        bytes[i] += units[i].n - before;
    }
}

/* A compiler's start costs as much as a thousand lines: so no unit is shorter than about that. */
static int count_units(const CProgram *p) {
    enum { UNIT_BYTES = 44 << 10 };
    size_t bytes = 0;
    for (int k = 0; k < p->function.n; k++) bytes += strlen(p->function.at[k].text);
    int most = (int)(bytes / UNIT_BYTES) + 1;
    return p->options->units < 1 ? 1 : p->options->units < most ? p->options->units : most;
}

CProgram program_open(Arena *arena, const Program *program, const Machine *m, const EmitOptions *o,
                      const CHost *host) {
    CProgram p = {.host = host,
                  .arena = arena,
                  .ctx = arena_ctx(arena),
                  .flow = program->flow,
                  .env = flow_env(arena, program->flow),
                  .program = program,
                  .machine = m,
                  .options = o};
    p.out.arena = arena;
    index_maps(&p);
    index_ports(&p);
    prepare_symbols(&p);
    emit_kernels(&p, m);
    return p;
}

const CHost c_host = {.form = &c_form}, c_host_checked = {.form = &c_form_checked};

const Helpers *target_c_helpers(Arena *arena) {
    const char *texts[] = {embedded_text("compiler/targets/c/scalar.in"),
                           embedded_text("compiler/targets/c/vector.in"),
                           embedded_text("compiler/targets/c/dot.in")};
    return helpers_read(arena, texts, 3);
}

void target_c_emit(Arena *arena, const Program *program, const Machine *m, const EmitOptions *o,
                   Units *out) {
    CProgram p = program_open(arena, program, m, o, o->checked ? &c_host_checked : &c_host);
    int n = count_units(&p);
    Text *units = NEW_ARRAY(arena, Text, n);
    for (int i = 0; i < n; i++) units[i].arena = arena;
    put_runtime(&p, &units[0]);
    emit_literals(&p);
    emit_run(&p);
    size_t bytes = p.out.n;
    emit_tables(&p);
    text_put(&units[0], text_str(&p.out));
    deal_kernels(&p, units, n, bytes, m);
    const Helpers *helpers = target_c_helpers(arena);
    for (int i = 0; i < n; i++)
        if (i == 0 || units[i].n) put_unit(&p, helpers, unit_name(&p, i), text_str(&units[i]), out);
}
