/* SPDX-License-Identifier: Apache-2.0 */
/* A program for the GPU: its kernels as one .cu text; on the host the walk that launches them, and
 * the tables. The walk is the C target's, on one thread, with device memory behind its addresses.
 */
#include "cuda.h"

#include "compiler/embedded.h"

#include <string.h>

/* ---- launches -------------------------------------------------------------------------------- */

/* A kernel's arguments are all 8 bytes: buffers, symbols, the number of tasks, then where it says
 * that an index was out of range, and under which number, with what cuda_following says above;
 * then its scratch. How many there are. */
static int put_words(CProgram *p, int kernel, const char *tasks, int following, Text *args) {
    const CKernel *ck = p->kernel[kernel];
    const Nest *nest = p->program->nest.at[kernel];
    for (int i = 0; i < ck->buf.n; i++)
        text_printf(args, "(u64)(%s), ", address(p, nest->buf.at[ck->buf.at[i]].cont));
    for (int i = 0; i < ck->symbol.n; i++)
        text_printf(args, "(u64)%s, ", dim_text(p, ck->symbol.at[i]));
    text_printf(args, "(u64)%s, (u64)f->fault, %lld, ", tasks,
                (long long)following << 32 | (kernel + 1));
    if (dim_is(ck->scratch, 0)) return cuda_words(ck);
    text_put(args, "(u64)f->thread, ");
    return cuda_words(ck) + 1;
}

/* Blocks of a launch, and of a kernel whose own it is, tasks. */
static void put_blocks(CProgram *p, int kernel, const CPhase *phase, bool ranges) {
    Dim tasks = phase->tasks;
    for (int with = p->beside[kernel]; ranges && with >= 0; with = p->beside[with])
        tasks = dim_add(p->ctx, tasks, p->kernel[with]->phase.at[0].tasks);
    const char *n = dim_text(p, tasks);
    if (ranges)
        program_line(p, "{ const i64 blocks = %s;", n);
    else if (phase->blocks)
        program_line(p, "{ const i64 tasks = %s, blocks = tasks;", n);
    else
        program_line(p, "{ const i64 tasks = %s, blocks = imin((tasks + %d) / %d, %d);", n,
                     phase->threads - 1, phase->threads,
                     dim_is(p->kernel[kernel]->scratch, 0) ? CUDA_TASK_BLOCKS
                                                           : CUDA_SCRATCH_BLOCKS);
}

/* The words of a kernel and of what it takes along, and zeros for more that others do; the rows. */
static int put_arguments(CProgram *p, int kernel, int k, const CFunction *f, int *rows) {
    Text args = {.arena = p->arena};
    int words = 0, following = cuda_following(p, kernel, k);
    *rows = f->part ? 1 : 0;
    for (int with = kernel; with >= 0; with = p->beside[with]) {
        Dim tasks = p->kernel[with]->phase.at[0].tasks;
        const char *n = f->part ? arena_printf(p->arena, "(%s)", dim_text(p, tasks)) : "tasks";
        words += put_words(p, with, n, following, &args);
        *rows += !f->part;
    }
    for (; words < f->words && f->sides; words++) text_put(&args, "0, ");
    program_line(p, "  const u64 x[] = {%s};", text_str(&args));
    return words;
}

/* What others take along is launched with them. */
static void launch(CProgram *p, int kernel, int k) {
    const CPhase *phase = &p->kernel[kernel]->phase.at[k];
    const CFunction *f = &p->function.at[p->phase[kernel][k]];
    int rows;
    if (cuda_apart(p->flow->kernel.at[kernel])) {
        cuda_library_call(p, kernel);
        return;
    }
    if (p->with[kernel] != kernel) return;
    put_blocks(p, kernel, phase, f->part);
    int words = put_arguments(p, kernel, k, f, &rows);
    open_span(p);
    if (phase->nbox) {
        program_line(p, "  const weir_device_box box[] = {%s};", cuda_boxes_of(p, kernel, k));
        program_line(p, "  weir_device_launch_boxes(f, %d, blocks, %d, x, %d, box, %d);", f->number,
                     rows, words, (f->sides + 1) * phase->nbox);
    } else {
        program_line(p, "  weir_device_launch(f, %d, blocks, %d, x, %d);", f->number, rows, words);
    }
    if (p->options->profile) program_line(p, "  weir_device_settle(f);");
    close_span(p, kernel);
    program_line(p, "}");
}

/* ---- tables ---------------------------------------------------------------------------------- */

/* Do neither the host nor data have a part in what is launched? */
static bool is_fixed(const Flow *flow, const Items *items) {
    for (int i = 0; i < items->n; i++) {
        const Item *it = &items->at[i];
        bool call = it->kind == ITEM_CALL && !it->call->ndefine && target_cuda_call(flow, it->call);
        bool loop = it->kind == ITEM_LOOP && it->trip && it->cond < 0 && !it->done &&
                    is_fixed(flow, &it->body);
        bool choice = it->when && is_fixed(flow, &it->body) && is_fixed(flow, &it->other);
        if (it->kind != ITEM_MAP && !call && !loop && !choice) return false;
    }
    return true;
}

/* What kernels and calls come from, by the number that a launch passes. */
static void put_launches(CProgram *p) {
    text_put(&p->out, "static const char *const device_launches[] = {\n 0,\n");
    for (int k = 0; k < p->flow->kernel.n; k++)
        text_printf(&p->out, " %s,\n", c_string(p->arena, kernel_from(p, k)));
    for (int i = 0; i < p->ncall; i++) {
        const char *from = p->call[i]->from;
        text_printf(&p->out, " %s,\n",
                    c_string(p->arena, from ? from_words(p->ctx, from) : p->call[i]->name));
    }
    text_put(&p->out, "};\n");
}

static void tables(CProgram *p) {
    Text tools = {.arena = p->arena};
    text_put(&p->out, "static const weir_device_kernel device_kernels[] = {\n");
    for (int k = 0; k < p->function.n; k++) {
        const CFunction *f = &p->function.at[k];
        if (f->number < 0) continue;
        text_printf(&p->out, " {\"kernel%d\", %s, %d, %d},\n", f->number,
                    c_string(p->arena, f->from), f->threads, f->shared);
    }
    cuda_tool_rows(p, &p->out, &tools);
    text_put(&p->out, " {0}\n};\n");
    put_launches(p);
    cuda_library_rows(p, &p->out);
    text_printf(&p->out,
                "static const i32 device_tools[] = {%s};\nstatic weir_status create_on(i32 device, "
                "const weir_pool *pool, weir_instance "
                "**out, char *error);\nextern const unsigned char weir_image_code[];\n"
                "extern const u64 weir_image_bytes;\n"
                "static weir_device_home device_home;\n"
                "static const weir_image image = {.nkernels = %d, .kernel = device_kernels, "
                ".nlaunches = %d, .launch = device_launches, .tool = device_tools,\n"
                "%s"
                " .code = weir_image_code, .bytes = &weir_image_bytes, .fixed = %d, .home = "
                "&device_home};\n",
                text_str(&tools), cuda_launched(p) + cuda_tool_count(p),
                p->flow->kernel.n + 1 + p->ncall, cuda_library_members(p),
                is_fixed(p->flow, &p->flow->body) && !p->options->profile);
}

/* ---- texts ----------------------------------------------------------------------------------- */

static const char *device_text(CProgram *p) {
    Text body = {.arena = p->arena}, text = {.arena = p->arena};
    for (int k = 0; k < p->function.n; k++) {
        const CFunction *f = &p->function.at[k];
        const char *room = f->resident ? arena_printf(p->arena, ", %d", f->resident) : "";
        text_printf(&body, "/* %s%s */\n", c_comment(p->arena, f->from),
                    f->uses > 1 ? ", and equal ones" : "");
        if (f->body) cuda_body(p, k, &body);
        if (f->number < 0) continue;
        text_printf(&body, "KERNEL(%d%s) kernel%d%s\n", f->threads, room, f->number,
                    f->sides ? cuda_sides(p, k) : f->text);
    }
    const char *texts[] = {embedded_text("compiler/targets/c/scalar.in"),
                           embedded_text("compiler/targets/cuda/cuda.in"),
                           cuda_group_helpers(p->arena),
                           embedded_text("compiler/targets/cuda/order.in"),
                           embedded_text("compiler/targets/cuda/scatter.in"),
                           embedded_text("compiler/targets/cuda/calls.in")};
    Text named = {.arena = p->arena};
    text_put(&named, text_str(&body));
    cuda_tool_names(p, &named);
    text_put(&text, embedded_text("compiler/targets/cuda/prelude.h"));
    helpers_emit(helpers_read(p->arena, texts, sizeof texts / sizeof *texts), &text,
                 text_str(&named));
    text_put(&text, text_str(&body));
    return text_str(&text);
}

const char *target_cuda_emit(Arena *arena, const Program *program, const Machine *m,
                             const EmitOptions *o, Units *out) {
    CForm form = cuda_form;
    form.engine = o->engine;
    CHost host = {.form = &form,
                  .device = true,
                  .launch = launch,
                  .tables = tables,
                  .apart = cuda_apart,
                  .call = target_cuda_call};
    CProgram p = program_open(arena, program, m, o, &host);
    Text unit = {.arena = arena};
    cuda_join_launches(&p);
    cuda_link_launches(&p);
    put_runtime(&p, &unit);
    emit_run(&p);
    emit_tables(&p);
    text_put(&unit, text_str(&p.out));
    const char *texts[] = {embedded_text("compiler/targets/c/scalar.in")};
    put_unit(&p, helpers_read(arena, texts, 1), "model.c", text_str(&unit), out);
    return device_text(&p);
}

/* Bytes as a string, which a compiler reads faster than a list of numbers. */
Unit target_cuda_image(Arena *arena, const void *code, size_t n) {
    const unsigned char *at = code;
    Text text = {.arena = arena};
    text_put(&text, "const __attribute__((visibility(\"hidden\"), aligned(64))) unsigned char "
                    "weir_image_code[] =\n");
    for (size_t i = 0; i < n; i++) {
        if (i % 32 == 0) text_put(&text, i ? "\"\n\"" : "\"");
        text_printf(&text, "\\%03o", at[i]);
    }
    text_printf(&text,
                "\";\nconst __attribute__((visibility(\"hidden\"))) unsigned long weir_image_bytes "
                "= %llu;\n",
                (unsigned long long)n);
    return (Unit){.name = "image.c", .text = text_str(&text)};
}
