/* SPDX-License-Identifier: Apache-2.0 */
/* From a source to a program, to text, to a library or to this process. */
#include "compiler/driver.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- stages ---------------------------------------------------------------------------------------------------- */

typedef struct Watch {
    Ctx *ctx;
    const Options *options;
} Watch;

static void print_stage(Ctx *ctx, const Stage *stage) {
    Arena *arena = arena_new(ctx);
    Text text = {.arena = arena};
    if (stage->graph) graph_print(&text, stage->graph);
    if (stage->flow) flow_print(&text, stage->flow);
    for (int i = 0; stage->program && i < stage->program->nest.n; i++) nest_print(&text, stage->program->nest.at[i]);
    fputs(text_str(&text), stdout);
    arena_free(arena);
}

static void watch_pass(void *user, const Pass *pass, const Stage *stage, double seconds) {
    const Watch *w = user;
    if (!pass) return;
    if (w->options->time_passes) fprintf(stderr, "%-10s %8.2f ms\n", pass->name, seconds * 1e3);
    const char *after = w->options->print_after;
    if (after && (!strcmp(after, "all") || !strcmp(after, pass->name))) {
        printf("# after %s\n", pass->name);
        print_stage(w->ctx, stage);
    }
}

static bool ends_with(const char *s, const char *end) {
    size_t n = s ? strlen(s) : 0, m = strlen(end);
    return n >= m && !strcmp(s + n - m, end);
}

static void free_text(void *text) { free(text); }

static const char *read_text(Arena *arena, const char *path) {
    Ctx *ctx = arena_ctx(arena);
    FILE *f = fopen(path, "rb");
    size_t n = 0, cap = 1 << 16;
    char *text = f ? malloc(cap) : NULL;
    if (!f) fail(ctx, E_FILE, "cannot read \"%s\": %s", path, strerror(errno));
    for (size_t r; text && (r = fread(text + n, 1, cap - n - 1, f)) > 0;)
        if ((n += r) + 1 == cap) text = realloc(text, cap *= 2);
    fclose(f);
    if (!text) fail(ctx, E_MEMORY, "no memory to read \"%s\"", path);
    text[n] = '\0';
    arena_defer(arena, free_text, text);
    return text;
}

Stage driver_read_ir(Arena *arena, const char *path) {
    IrFile *file = ir_file_parse(arena, onnx_ops(), read_text(arena, path));
    ir_file_verify(file);
    if (file->graph.n + file->flow.n == 0)
        fail(arena_ctx(arena), E_SYNTAX, "\"%s\" holds no graph and no flow", path);
    if (file->graph.n) return (Stage){.graph = file->graph.at[file->graph.n - 1]};
    if (file->nest.n) return (Stage){.program = ir_file_program(arena, file)};
    return (Stage){.flow = file->flow.at[file->flow.n - 1]};
}

Stage driver_stage(Arena *arena, const Options *o, const Source *source, Machine *machine) {
    Ctx *ctx = arena_ctx(arena);
    ImportOptions import = {.dim = o->dim.at, .ndim = o->dim.n};
    Stage start = {0};
    target_c_machine(ctx, machine, o->cpu);
    if (ends_with(source->path, ".ir"))
        start = driver_read_ir(arena, source->path);
    else if (source->path)
        start.graph = onnx_import_file(arena, source->path, &import);
    else
        start.graph = onnx_import_memory(arena, source->bytes, source->n, source->folder, &import);
    PassEnv env = {machine, onnx_ops(), o->math};
    Watch watch = {ctx, o};
    PassOptions options = {.stop_after = o->stop_after, .skip = o->skip.at, .nskip = o->skip.n,
                           .verify_each = o->verify_each, .watch = watch_pass, .user = &watch};
    return passes_run(ctx, start, &env, &options);
}

/* ---- text -------------------------------------------------------------------------------------------------------- */

static const char *build_json(Arena *arena, const Options *o, const Machine *machine) {
    static const char *const math[] = {"strict", "default", "fast"};
    return arena_printf(arena, "{\"weir\": \"%s\", \"target\": \"c\", \"cpu\": \"%s\", \"math\": \"%s\", \"tools\": \"%s\"}",
                        WEIR_VERSION, machine->name, math[o->math], WEIR_TOOLS_ID);
}

void driver_emit(Arena *arena, const Options *o, const Stage *stage, const Machine *machine, const char *weights_file,
                 bool jit, Weights *weights, Units *units) {
    const Program *program = stage->program;
    if (!program) fail(arena_ctx(arena), E_OPTION, "the passes stop before there is a program; leave --stop-after out");
    *weights = weights_plan(arena, program->flow);
    EmitOptions emit = {.units = program->nest.n > 8 ? o->jobs : 1, .weight_offset = weights->offset,
                        .weight_bytes = weights->bytes, .weights_file = weights_file,
                        .build = build_json(arena, o, machine), .jit = jit};
    emit.weights_check = hash_bytes(1, emit.build, strlen(emit.build)) ^ (uint64_t)weights->bytes;
    target_c_emit(arena, program, machine, &emit, units);
}

static const char *base_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static void write_text(Ctx *ctx, const char *dir, const char *name, const char *text) {
    const char *path = arena_printf(ctx_arena(ctx), "%s/%s", dir, name);
    FILE *f = fopen(path, "w");
    bool ok = f && fputs(text, f) >= 0;
    if (f && fclose(f)) ok = false;
    if (!ok) fail(ctx, E_FILE, "cannot write \"%s\": %s", path, strerror(errno));
}

static void emit_sources(Arena *arena, const Options *o, const Stage *stage, const Machine *machine) {
    Ctx *ctx = arena_ctx(arena);
    Weights weights;
    Units units = {0};
    if (!o->emit_dir) fail(ctx, E_OPTION, "\"--emit %s\" needs --emit-dir FOLDER", o->emit);
    if (mkdir(o->emit_dir, 0777) && errno != EEXIST)
        fail(ctx, E_FILE, "cannot make folder \"%s\": %s", o->emit_dir, strerror(errno));
    driver_emit(arena, o, stage, machine, "model.weights", false, &weights, &units);
    for (int i = 0; i < units.n; i++) write_text(ctx, o->emit_dir, units.at[i].name, units.at[i].text);
    weights_to_file(ctx, stage->program->flow, &weights, 0, arena_printf(arena, "%s/model.weights", o->emit_dir));
}

/* ---- library -------------------------------------------------------------------------------------------------------- */

/* Room for the weights' segment: see weights.c. */
static const Unit note_unit = {"note.c",
    "__attribute__((section(\".note.weir\"), used, aligned(4)))\n"
    "static const struct { unsigned n, d, t; char name[8]; unsigned v; } note = {5, 4, 1, \"Weir\", 1};\n"};

static void remove_file(void *path) { unlink(path); }

void driver_compile(Arena *arena, const Options *o, const Source *source, const char *output) {
    Ctx *ctx = arena_ctx(arena);
    Machine machine = {0};
    Stage stage = driver_stage(arena, o, source, &machine);
    if (o->emit) {
        emit_sources(arena, o, &stage, &machine);
        return;
    }
    if (o->stop_after && !stage.program) return;
    const char *side = o->weights_file ? arena_printf(arena, "%s.weights", base_name(output)) : NULL;
    Weights weights;
    Units units = {0};
    driver_emit(arena, o, &stage, &machine, side, false, &weights, &units);
    vec_push(arena, &units, note_unit);
    ToolchainOptions tools = {.flags = target_c_flags(arena, &machine), .jobs = o->jobs, .cache = o->cache};
    Object *objects = toolchain_compile(arena, &units, &tools);
    char *temporary = arena_printf(arena, "%s.%ld.tmp", output, (long)getpid());
    arena_defer(arena, remove_file, temporary);
    toolchain_link(arena, objects, units.n, temporary);
    if (side) {
        char *file = arena_printf(arena, "%s.weights", output), *part = arena_printf(arena, "%s.%ld.tmp", file, (long)getpid());
        arena_defer(arena, remove_file, part);
        const char *build = build_json(arena, o, &machine);
        weights_to_file(ctx, stage.program->flow, &weights, hash_bytes(1, build, strlen(build)) ^ (uint64_t)weights.bytes, part);
        if (rename(part, file)) fail(ctx, E_FILE, "cannot write \"%s\": %s", file, strerror(errno));
    } else {
        weights_append(ctx, stage.program->flow, &weights, temporary);
    }
    if (rename(temporary, output)) fail(ctx, E_FILE, "cannot write \"%s\": %s", output, strerror(errno));
}

/* ---- this process ------------------------------------------------------------------------------------------------------ */

static void unmap(void *at) { munmap(((Object *)at)->at, ((Object *)at)->n); }

weir_model_fn *driver_load(Arena *arena, const Options *o, const Source *source) {
    Ctx *ctx = arena_ctx(arena);
    Machine machine = {0};
    Stage stage = driver_stage(arena, o, source, &machine);
    Weights weights;
    Units units = {0};
    driver_emit(arena, o, &stage, &machine, NULL, true, &weights, &units);
    ToolchainOptions tools = {.flags = target_c_flags(arena, &machine), .jobs = o->jobs, .cache = o->cache};
    Object *objects = toolchain_compile(arena, &units, &tools);
    Jit jit = toolchain_jit(arena, objects, units.n);
    if (!weights.bytes) return jit.descriptor;
    Object *memory = NEW(arena, Object);
    memory->n = (size_t)weights.bytes;
    memory->at = mmap(NULL, memory->n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory->at == MAP_FAILED) fail(ctx, E_MEMORY, "no memory for %lld bytes of weights", (long long)weights.bytes);
    arena_defer(arena, unmap, memory);
    weights_to_memory(stage.program->flow, &weights, memory->at);
    jit.blob->delta = (int64_t)((char *)memory->at - (char *)jit.blob);
    return jit.descriptor;
}
