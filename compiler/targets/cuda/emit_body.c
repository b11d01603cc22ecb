/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels of several sides. Each block finds out which side it is of, by its row or by the range
 * that its number lies in, and takes that side's body, with that side's arguments; sides that have
 * one body share it. A body is a kernel's text as a function, to which the number of its block and
 * how many there are come as arguments. Surplus threads of a block wait with the others for the
 * launch ahead, and leave: barriers count threads that are there. */
#include "cuda.h"

#include <string.h>

const char *cuda_boxes_of(CProgram *p, int kernel, int phase) {
    const CFunction *f = &p->function.at[p->phase[kernel][phase]];
    Text out = {.arena = p->arena};
    int with = kernel;
    for (int side = 0; side <= f->sides; side++) {
        text_printf(&out, "%s%s", side ? ", " : "",
                    cuda_boxes(p, with, &p->kernel[with]->phase.at[phase]));
        if (p->beside[with] >= 0) with = p->beside[with];
    }
    return text_str(&out);
}

/* Sides from .. to-1 have one function, each as many arguments, the first of them behind `first`
 * words. */
typedef struct Run {
    int from, to, function, each, first;
} Run;

static Run run_from(const CProgram *p, int function, int from, int first) {
    const CFunction *f = &p->function.at[function];
    if (!f->part) return (Run){0, f->sides + 1, function, f->words / (f->sides + 1), 0};
    Run run = {from, from, f->part[from], p->function.at[f->part[from]].words, first};
    const CFunction *body = &p->function.at[run.function];
    run.each = body->words / (body->sides + 1);
    while (run.to <= f->sides && f->part[run.to] == run.function) run.to++;
    return run;
}

/* Of `each` arguments a side, number i of the side at hand. */
static void pick(const Run *run, const char *name, int each, int i, Text *out) {
    int last = run->to - run->from - 1;
    for (int k = 0; k < last; k++)
        text_printf(out, "side == %d ? %s%d : ", run->from + k, name, run->first + k * each + i);
    text_printf(out, "%s%d", name, run->first + last * each + i);
}

/* Each side has as many blocks as tasks. */
static void put_call(const CFunction *f, const Run *run, Text *out) {
    int boxes = f->boxes / (f->sides + 1);
    text_printf(out, "body%d({block}, {", run->function);
    if (f->part) {
        text_put(out, "(u32)(");
        pick(run, "x", run->each, run->each - CUDA_OWN_WORDS, out);
        text_put(out, ")");
    } else {
        text_put(out, "gridDim.x");
    }
    text_put(out, "}");
    for (int i = 0; i < run->each; i++) {
        text_put(out, ", word_of(");
        pick(run, "x", run->each, i, out);
        text_put(out, ")");
    }
    for (int i = 0; i < boxes; i++) {
        text_put(out, ", ");
        pick(run, "m", boxes, i, out);
    }
    text_put(out, ");\n");
}

/* Where the last side's blocks end need not be said. */
static void put_ranges(const CProgram *p, int function, Text *out) {
    const CFunction *f = &p->function.at[function];
    text_put(out, " u32 block = blockIdx.x;\n const i32 side = side_of(block");
    for (int side = 0, words = 0; side < f->sides; side++) {
        Run run = run_from(p, function, side, 0);
        words += run.each;
        text_printf(out, ", x%d", words - CUDA_OWN_WORDS);
    }
    text_put(out, ");\n");
}

const char *cuda_sides(const CProgram *p, int function) {
    const CFunction *f = &p->function.at[function];
    Text out = {.arena = p->arena};
    for (int i = 0; i < f->words; i++) text_printf(&out, "%su64 x%d", i ? ", " : "(", i);
    for (int i = 0; i < f->boxes; i++) text_printf(&out, ", BOXED m%d", i);
    text_put(&out, ") {\n");
    if (f->part)
        put_ranges(p, function, &out);
    else
        text_put(&out, " const u32 block = blockIdx.x;\n const i32 side = (i32)blockIdx.y;\n");
    for (int side = 0, words = 0; side <= f->sides;) {
        Run run = run_from(p, function, side, words);
        bool last = run.to > f->sides;
        int threads = p->function.at[run.function].threads;
        if (!last) text_printf(&out, " if (side < %d) {\n", run.to);
        const char *space = last ? " " : "  ";
        if (threads < f->threads) {
            text_printf(&out, "%sif (surplus(%d, (i64)(", space, threads);
            pick(&run, "x", run.each, run.each - 1, &out);
            text_put(&out, "))) return;\n");
        }
        text_put(&out, space);
        put_call(f, &run, &out);
        if (!last) text_put(&out, "  return;\n }\n");
        words += (run.to - run.from) * run.each;
        side = run.to;
    }
    text_put(&out, "}\n");
    return text_str(&out);
}

/* Descriptions stay where the launch has put them. */
void cuda_body(const CProgram *p, int function, Text *out) {
    static const char GIVEN[] = "BOXED ";
    const char *text = p->function.at[function].text + 1, *at;
    text_printf(out, "FN void body%d(const block_index blockIdx, const block_index gridDim, ",
                function);
    for (; (at = strstr(text, GIVEN)); text = at + strlen(GIVEN))
        text_printf(out, "%.*sconst tensor_map &", (int)(at - text), text);
    text_put(out, text);
}
