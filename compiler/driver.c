/* SPDX-License-Identifier: Apache-2.0 */
/* From a source to a program, to C text, to a library or to this process. */
#include "driver.h"

#include "compiler/targets/cuda/target.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "ir/stop.h"

static void tell(const Driver *d, Telling kind, const char *text) {
    if (d->tell) d->tell(d->user, kind, text);
    stop_check(d->ctx);
}

static void tell_time(const Driver *d, const char *what, double seconds) {
    char line[96];
    if (!d->options->time_passes) return;
    snprintf(line, sizeof line, "%-12s %9.2f ms\n", what, seconds * 1e3);
    tell(d, TELL_TIME, line);
}

static int jobs(const Driver *d) {
    return d->options->jobs > 0 ? d->options->jobs : weir_cpus();
}

/* GPUs that code is made for. */
static const char *const every_gpu[] = {"sm_80", "sm_90a", "sm_100"};

static const char *const *gpu_names(const Driver *d) {
    return d->options->gpus.n ? d->options->gpus.at : every_gpu;
}

static int gpu_count(const Driver *d) {
    return d->options->gpus.n ? d->options->gpus.n : (int)(sizeof every_gpu / sizeof *every_gpu);
}

/* Has every GPU that code is made for the engine that copies boxes? */
static bool has_engine(const Driver *d) {
    bool engine = d->options->target == TARGET_CUDA;
    for (int i = 0; i < gpu_count(d); i++) engine &= !strcmp(gpu_names(d)[i], "sm_90a");
    return engine;
}

Driver driver_new(Arena *arena, const Options *options, Source source, TellFn *fn, void *user) {
    Driver d = {.arena = arena,
                .ctx = arena_ctx(arena),
                .options = options,
                .source = source,
                .converted = {.arena = arena},
                .tell = fn,
                .user = user};
    bool cuda = options->target == TARGET_CUDA;
    target_c_machine(d.ctx, &d.host, cuda ? "x86-64-v3" : options->cpu);
    machine_allow(&d.host, options->math);
    d.machine = d.host;
    if (cuda && options->checked)
        fail(d.ctx, E_OPTION, "option \"checked\" is for the target c; leave it out");
    const char *gpu_only = options->gpus.n                   ? "gpu"
                           : options->gpu_libraries.n        ? "gpu-libraries"
                           : options->engine == ENGINE_NEVER ? "gpu-copies"
                                                             : NULL;
    if (!cuda && gpu_only)
        fail(d.ctx, E_OPTION, "option \"%s\" needs the target cuda; leave it out", gpu_only);
    if (options->engine == ENGINE_ALWAYS && !has_engine(&d))
        fail(d.ctx, E_OPTION,
             "option \"gpu-copies\" takes \"engine\" where code is for sm_90a alone; add "
             "--target=cuda --gpu=sm_90a");
    if (cuda && options->cpus.n && strcmp(options->cpu, d.host.name))
        fail(d.ctx, E_OPTION,
             "what a library for GPUs does on the CPU is made for %s; leave option \"cpu\" out",
             d.host.name);
    for (int i = 0; !cuda && i < options->cpus.n - 1; i++) {
        Version version = {.cpu = options->cpus.at[i]};
        target_c_machine(d.ctx, &version.machine, version.cpu);
        machine_allow(&version.machine, options->math);
        vec_push(arena, &d.lesser, version);
    }
    if (cuda) target_cuda_machine(d.ctx, &d.machine, options->gpu, gpu_names(&d), gpu_count(&d));
    for (int i = 0; i < options->gpu_libraries.n; i++)
        target_cuda_allow(d.ctx, &d.machine, options->gpu_libraries.at[i]);
    d.ops = onnx_ops_with(arena, options->operators.at, options->operators.n);
    return d;
}

/* ---- passes ---------------------------------------------------------------------------------- */

static void print_stage(const Driver *d, const char *pass, const Stage *stage) {
    Arena *arena = arena_new(d->ctx);
    tell(d, TELL_TEXT, arena_printf(arena, "# after %s\n%s\n", pass, stage_text(arena, stage)));
    arena_free(arena);
}

static void watch_pass(void *user, const Pass *pass, const Stage *stage, double seconds) {
    const Driver *d = user;
    const char *after = d->options->print_after;
    if (d->watch) d->watch(d->watcher, pass, stage, seconds);
    if (!pass) return;
    tell_time(d, pass->name, seconds);
    if (after && (strcmp(after, "all") == 0 || strcmp(after, pass->name) == 0))
        print_stage(d, pass->name, stage);
}

static void put_names(Text *out, const char *key, const char *const *name, int n) {
    if (!n) return;
    text_printf(out, ", \"%s\": [", key);
    for (int i = 0; i < n; i++) {
        if (i) text_put(out, ", ");
        text_json(out, name[i]);
    }
    text_put(out, "]");
}

/* As options take them. */
static const char *with_commas(const Driver *d, const char *const *name, int n) {
    Text out = {.arena = d->arena};
    for (int i = 0; i < n; i++) text_printf(&out, "%s%s", i ? "," : "", name[i]);
    return text_str(&out);
}

/* As --cpu takes them; a processor that was asked what it has by the name of its level. */
static const char *cpu_names(const Driver *d) {
    Text out = {.arena = d->arena};
    if (!d->lesser.n) return d->host.name;
    for (int i = 0; i < d->lesser.n; i++) text_printf(&out, "%s,", d->lesser.at[i].cpu);
    text_put(&out, d->options->cpu);
    return text_str(&out);
}

static void put_hashes(Text *out, const char *key, const Span *file, int n) {
    const char **hash = NEW_ARRAY(out->arena, const char *, n + 1);
    for (int i = 0; i < n; i++) hash[i] = source_hash(out->arena, file[i].at, file[i].n);
    put_names(out, key, hash, n);
}

/* Files that the options name: a recipe's text, hashes of the others. */
static void put_files(Text *out, const Driver *d) {
    const Options *o = d->options;
    Span *file = NEW_ARRAY(d->arena, Span, o->operators.n + o->plugin.n + o->link.n + 1);
    if (o->recipe) {
        text_put(out, ", \"recipe\": ");
        text_json(out, source_text(d->arena, o->recipe));
    }
    for (int i = 0; i < o->plugin.n; i++) file[i] = source_bytes(d->arena, o->plugin.at[i].path);
    put_hashes(out, "pass-plugin", file, o->plugin.n);
    for (int i = 0; i < o->operators.n; i++)
        file[i] = (Span){(void *)(uintptr_t)o->operators.at[i], strlen(o->operators.at[i])};
    put_hashes(out, "operators", file, o->operators.n);
    for (int i = 0; i < o->link.n; i++) file[i] = source_bytes(d->arena, o->link.at[i]);
    put_hashes(out, "link", file, o->link.n);
}

/* What made this artifact: no path and no time, so that equal inputs give equal bytes. */
static const char *build_json(Driver *d, const char *hash) {
    static const char *const math[] = {"strict", "default", "fast"};
    static const char *const packing[] = {"build", "create", "swap"};
    const Options *o = d->options;
    Text out = {.arena = d->arena};
    bool cuda = o->target == TARGET_CUDA;
    text_printf(&out, "{\"weir\": \"%s\", \"model_blake3\": \"%s\", \"target\": \"%s\"",
                WEIR_VERSION, hash, cuda ? "cuda" : "c");
    if (cuda) text_printf(&out, ", \"gpu\": \"%s\"", with_commas(d, gpu_names(d), gpu_count(d)));
    if (o->gpu_libraries.n)
        text_printf(&out, ", \"gpu-libraries\": \"%s\"",
                    with_commas(d, o->gpu_libraries.at, o->gpu_libraries.n));
    text_put(&out, ", \"cpu\": ");
    text_json(&out, cpu_names(d));
    text_put(&out, ", \"flags\": \"");
    for (const char *const *f = target_c_flags(d->arena, &d->host); *f; f++)
        text_printf(&out, "%s ", *f);
    text_printf(&out, "\", \"math\": \"%s\", \"packing\": \"%s\"", math[o->math],
                packing[o->packing]);
    if (o->convert != F32) text_printf(&out, ", \"convert\": \"%s\"", dtype_name(o->convert));
    if (o->weights_file) text_put(&out, ", \"weights\": \"file\"");
    if (o->profile) text_put(&out, ", \"profile\": \"yes\"");
    if (o->checked) text_put(&out, ", \"checked\": \"yes\"");
    if (o->engine)
        text_printf(&out, ", \"gpu-copies\": \"%s\"",
                    o->engine == ENGINE_ALWAYS ? "engine" : "threads");
    if (o->dim.n) text_put(&out, ", \"dims\": {");
    for (int i = 0; i < o->dim.n; i++) {
        if (i) text_put(&out, ", ");
        text_json(&out, o->dim.at[i].name);
        text_printf(&out, ": [%lld, %lld]", (long long)o->dim.at[i].lo, (long long)o->dim.at[i].hi);
    }
    if (o->dim.n) text_put(&out, "}");
    if (o->name) {
        text_put(&out, ", \"name\": ");
        text_json(&out, o->name);
    }
    put_names(&out, "feed", o->feed.at, o->feed.n);
    put_names(&out, "skip", d->skip.at, d->skip.n);
    put_files(&out, d);
    text_printf(&out, ", \"llvm\": \"%s\"}", tool_llvm_version(d->arena));
    return text_str(&out);
}

/* Passes up to this one decide how weights are stored, which all versions read. */
static const char last_shared[] = "prepare";

static bool stops_before(const char *pass, const char *stop_after) {
    int n;
    const Pass *list = pass_list(&n);
    for (const Pass *p = list; p < list + n; p++) {
        if (stop_after && !strcmp(p->name, stop_after)) return true;
        if (!strcmp(p->name, pass)) return false;
    }
    return false;
}

/* The best version's machine decides for all, but for what one of the others lacks altogether. */
static Machine shared_machine(const Driver *d) {
    Machine m = d->machine;
    for (int i = 0; i < d->lesser.n; i++) m.rounds_twice |= d->lesser.at[i].machine.rounds_twice;
    return m;
}

/* Runs the passes once for what versions share, then for each. Recipes and what is watched speak of
 * the best version. */
static void run_versions(Driver *d, Stage first, const PassEnv *env, const PassOptions *options) {
    Machine machine = shared_machine(d);
    PassEnv shared = *env;
    PassOptions begin = *options, go_on = *options;
    bool together = !d->lesser.n || stops_before(last_shared, options->stop_after);
    shared.machine = &machine;
    if (!together) begin.stop_after = last_shared;
    d->stage = passes_run(d->ctx, first, &shared, &begin);
    if (together) return;
    first = d->stage;
    go_on.after = last_shared;
    d->stage = passes_run(d->ctx, first, env, &go_on);
    go_on.watch = NULL;
    for (int i = 0; i < d->lesser.n && !options->stop_after; i++) {
        PassEnv own = *env;
        own.machine = &d->lesser.at[i].machine;
        own.recipe = NULL;
        own.notes = NULL;
        d->lesser.at[i].stage = passes_run(d->ctx, first, &own, &go_on);
    }
}

static void begin_pass(void *user, const Pass *pass) {
    Driver *d = user;
    tell(d, TELL_STEP, internf(d->ctx, "pass %s", pass->name));
}

PassEnv driver_env(Driver *d) {
    Machine *baseline = NEW(d->arena, Machine);
    target_c_machine(d->ctx, baseline, "x86-64-v3");
    return (PassEnv){.machine = &d->machine,
                     .ops = d->ops,
                     .math = d->options->math,
                     .packing = d->options->packing,
                     .convert = d->options->convert,
                     .converted = &d->converted,
                     .baseline = baseline};
}

void driver_passes(Driver *d) {
    const Options *o = d->options;
    const char *hash;
    double start = tool_seconds();
    tell(d, TELL_STEP, "read the model");
    Stage first = source_read(d->arena, &d->source, o, d->ops, &hash);
    tell_time(d, "read", tool_seconds() - start);
    Recipe *recipe = driver_read_recipe(d);
    RecipeNotes notes = {{.arena = d->arena}};
    d->build = build_json(d, hash);
    PassEnv env = driver_env(d);
    env.recipe = recipe;
    env.notes = o->save_recipe || d->watch ? &notes : NULL;
    if (o->packing == PACK_SWAP && first.graph) hidden_take((Graph *)first.graph);
    PassOptions options = {.stop_after = o->stop_after,
                           .skip = d->skip.at,
                           .nskip = d->skip.n,
                           .verify_each = o->verify_each,
                           .watch = watch_pass,
                           .begin = begin_pass,
                           .rewrite = o->plugin.n ? plugins_run : NULL,
                           .user = d};
    run_versions(d, first, &env, &options);
    plugins_all_ran(d);
    if (env.notes) d->recipe = driver_recipe_text(d, &notes);
    if (o->save_recipe) output_file(d->arena, o->save_recipe, d->recipe, strlen(d->recipe));
}

/* ---- text ------------------------------------------------------------------------------------ */

static bool is_made(const Flow *flow, const Cont *c) {
    for (int i = 0; flow->prepare && i < flow->prepare->cont.n; i++)
        if (flow->prepare->cont.at[i].kind == CONT_OUT && flow->prepare->cont.at[i].name == c->name)
            return true;
    return false;
}

/* A text carries no large weights: they get the values that the evaluator gives them. */
static void give_weights(Driver *d, const Flow *flow) {
    for (int i = 0; i < flow->cont.n; i++) {
        Cont *c = &flow->cont.at[i];
        if (c->kind != CONT_PARAM || c->data || is_made(flow, c)) continue;
        Tensor t = {.type = c->type, .rank = c->rank};
        for (int k = 0; k < c->rank; k++)
            if (!dim_is_const(c->shape[k], &t.dim[k])) return;
        c->data_bytes = dtype_bytes(c->type, tensor_count(&t));
        t.data = arena_alloc(d->arena, (size_t)c->data_bytes);
        cont_random(c, &t, 1);
        c->data = t.data;
    }
}

/* Not by the machine's cores: equal inputs give equal bytes anywhere. */
enum { UNITS_MOST = 16 };

/* Plans d->weights; returns the constant part as a program of its own, or NULL. */
static Program *plan_weights(Driver *d) {
    const Program **all = NEW_ARRAY(d->arena, const Program *, d->lesser.n + 1);
    all[0] = d->stage.program;
    for (int i = 0; i < d->lesser.n; i++) all[i + 1] = d->lesser.at[i].stage.program;
    for (int i = 0; i <= d->lesser.n && source_is_text(&d->source); i++) {
        give_weights(d, all[i]->flow);
        if (all[i]->prepare) give_weights(d, all[i]->prepare->flow);
    }
    Program *part = weights_part(d->arena, all[0]);
    bool literals = d->options->target == TARGET_CUDA;
    d->weights = weights_plan(d->arena, all, d->lesser.n + 1, part, literals);
    return part;
}

/* The constant part, once for all versions: it runs on every CPU that one of them runs on. */
static void emit_part(Driver *d, const Program *part, const bool *swapped, EmitOptions *emit) {
    EmitOptions first = {.units = UNITS_MOST, .part = true, .checked = d->options->checked};
    emit->constant = part->flow;
    emit->made_at = d->weights.made_at;
    emit->made_bytes = d->weights.made_bytes;
    emit->raw = d->weights.raw;
    emit->weight_input = hidden_inputs(d->arena, part->flow, swapped, &emit->nweights);
    Machine least = d->host;
    if (d->lesser.n) target_c_machine(d->ctx, &least, d->lesser.at[0].machine.name);
    first.flags = target_c_flags(d->arena, &least);
    target_c_emit(d->arena, part, &least, &first, &d->units);
}

static void emit_lesser(Driver *d, const EmitOptions *best) {
    for (int i = 0; i < d->lesser.n; i++) {
        const Version *version = &d->lesser.at[i];
        EmitOptions emit = *best;
        emit.nlesser = 0;
        emit.cpu = version->cpu;
        emit.flags = target_c_flags(d->arena, &version->machine);
        emit.weight_offset = d->weights.places[i + 1].stored;
        emit.made = d->weights.places[i + 1].made;
        target_c_emit(d->arena, version->stage.program, &version->machine, &emit, &d->units);
    }
}

void driver_emit(Driver *d, const char *weights_file, bool jit) {
    const Program *program = d->stage.program;
    if (!program)
        fail(d->ctx, E_OPTION,
             "the passes stop at \"%s\", before there is a program; leave \"stop-after\" out",
             d->options->stop_after);
    double start = tool_seconds();
    tell(d, TELL_STEP, "emit C");
    bool *swapped = hidden_give(d, program);
    Program *part = plan_weights(d);
    EmitOptions emit = {.units = UNITS_MOST,
                        .weight_offset = d->weights.places[0].stored,
                        .made = d->weights.places[0].made,
                        .cpu = d->lesser.n ? d->options->cpu : NULL,
                        .lesser = d->options->cpus.at,
                        .nlesser = d->lesser.n,
                        .weight_bytes = d->weights.bytes,
                        .weights_file = weights_file,
                        .build = d->build,
                        .flags = target_c_flags(d->arena, &d->host),
                        .jit = jit,
                        .profile = d->options->profile,
                        .checked = d->options->checked,
                        .engine = has_engine(d) ? d->options->engine : ENGINE_NEVER};
    if (weights_file) emit.weights_check = d->weights_check = weights_hash(&d->weights);
    if (part) emit_part(d, part, swapped, &emit);
    if (d->options->target == TARGET_CUDA)
        d->device = target_cuda_emit(d->arena, program, &d->machine, &emit, &d->units);
    else
        target_c_emit(d->arena, program, &d->machine, &emit, &d->units);
    emit_lesser(d, &emit);
    tell_time(d, "emit", tool_seconds() - start);
}

void driver_make_image(Driver *d) {
    double start = tool_seconds();
    if (!d->device) return;
    tell(d, TELL_STEP, "compile the kernels");
    Span code =
        toolchain_nvcc(d->arena, d->device, gpu_names(d), gpu_count(d), d->options->no_cache);
    Unit image = target_cuda_image(d->arena, code.at, code.n);
    image.flags = target_c_flags(d->arena, &d->host);
    vec_push(d->arena, &d->units, image);
    tell_time(d, "nvcc", tool_seconds() - start);
}

static Objects make_objects(Driver *d) {
    driver_make_image(d);
    Objects objects = {0};
    ToolTimes times;
    ToolOptions tools = {.jobs = jobs(d), .no_cache = d->options->no_cache};
    tell(d, TELL_STEP,
         arena_printf(d->arena, "compile %d unit%s", d->units.n, d->units.n == 1 ? "" : "s"));
    double start = tool_seconds();
    toolchain_compile(d->arena, &d->units, &tools, &objects, &times);
    tell_time(d, "compile", tool_seconds() - start);
    tell_time(d, "  clang", times.clang);
    tell_time(d, "  passes", times.passes);
    tell_time(d, "  codegen", times.codegen);
    for (int i = 0; i < d->options->link.n; i++)
        vec_push(d->arena, &objects, source_object(d->arena, d->options->link.at[i]));
    return objects;
}

/* ---- library --------------------------------------------------------------------------------- */

void driver_write_weights(Driver *d, const char *path) {
    Output *side = output_open(d->arena, path);
    WeightSink sink = {.fd = side->fd, .path = path, .jobs = jobs(d)};
    uint64_t trailer[2] = {d->weights_check, (uint64_t)d->weights.bytes};
    weights_put(d->ctx, &d->weights, &sink);
    output_write(d->ctx, side, trailer, sizeof trailer, d->weights.bytes);
    output_finish(d->ctx, side);
}

static void write_library(Driver *d, Span library, Output *out, bool embed) {
    ElfPlan plan = elf_plan(d->arena, library.at, library.n, d->weights.bytes, embed);
    output_write(d->ctx, out, plan.head, plan.head_bytes, 0);
    if (!plan.tail) return;
    WeightSink sink = {.fd = out->fd, .start = plan.start, .path = out->path, .jobs = jobs(d)};
    weights_put(d->ctx, &d->weights, &sink);
    output_write(d->ctx, out, plan.tail, plan.tail_bytes, plan.tail_start);
}

static const char *base_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

void driver_compile(Driver *d, const char *output) {
    const Options *o = d->options;
    if (o->emit != EMIT_LIBRARY && !o->emit_dir)
        fail(d->ctx, E_OPTION, "option \"emit\" needs \"emit-dir\", the folder to write to");
    if (o->emit == EMIT_LIBRARY && !output)
        fail(d->ctx, E_OPTION, "the library to write has no name; give one");
    Output *out = o->emit == EMIT_LIBRARY ? output_open(d->arena, output) : NULL;
    driver_passes(d);
    if (d->converted.n) tell(d, TELL_CONVERT, text_str(&d->converted));
    if (o->stop_after && !d->stage.program) return;
    if (!out) {
        driver_emit_folder(d);
        return;
    }
    const char *side =
        o->weights_file ? arena_printf(d->arena, "%s.weights", base_name(output)) : NULL;
    driver_emit(d, side, false);
    Objects objects = make_objects(d);
    double start = tool_seconds();
    tell(d, TELL_STEP, "link");
    Span library = toolchain_link(d->arena, &objects, target_c_triple(&d->host));
    tell_time(d, "link", tool_seconds() - start);
    start = tool_seconds();
    tell(d, TELL_STEP, "write the library");
    write_library(d, library, out, !side);
    if (side && d->weights.bytes)
        driver_write_weights(d, arena_printf(d->arena, "%s.weights", output));
    output_finish(d->ctx, out);
    tell_time(d, "write", tool_seconds() - start);
}

/* ---- this process ---------------------------------------------------------------------------- */

static void free_loaded(void *loaded) {
    loaded_free(loaded);
}

static void put_weights(Driver *d, Loaded *loaded) {
    loaded->weight_bytes = (size_t)d->weights.bytes;
    void *at = mmap(NULL, loaded->weight_bytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED)
        fail(d->ctx, E_MEMORY, "no memory for %lld bytes of weights: %s",
             (long long)d->weights.bytes, strerror(errno));
    loaded->weights = at;
    madvise(at, loaded->weight_bytes, MADV_HUGEPAGE);
    WeightSink sink = {.to = at, .fd = -1, .path = "memory", .jobs = jobs(d)};
    weights_put(d->ctx, &d->weights, &sink);
    mprotect(at, loaded->weight_bytes, PROT_READ);
}

Loaded driver_load(Driver *d) {
    Loaded *loaded = NEW(d->arena, Loaded);
    arena_defer(d->arena, free_loaded, loaded);
    if (target_c_triple(&d->host))
        fail(d->ctx, E_OPTION, "code for \"%s\" does not run here; compile a library for it",
             d->options->cpu);
    if (!d->stage.program) driver_passes(d);
    driver_emit(d, NULL, true);
    Objects objects = make_objects(d);
    tell(d, TELL_STEP, "load");
    loaded->jit = jit_new(d->ctx, &objects);
    if (d->weights.bytes) {
        put_weights(d, loaded);
        struct weir_blob *blob = jit_blob(loaded->jit);
        blob->delta = (int64_t)((intptr_t)loaded->weights - (intptr_t)blob);
    }
    loaded->model = jit_model(loaded->jit)();
    Loaded result = *loaded;
    *loaded = (Loaded){0};
    return result;
}

void loaded_free(Loaded *l) {
    jit_free(l->jit);
    if (l->weights) munmap(l->weights, l->weight_bytes);
    *l = (Loaded){0};
}
