/* SPDX-License-Identifier: Apache-2.0 */
/* Launches side by side.
 *
 * Kernels of one text that need nothing of each other are launched as one: a row of blocks for
 * each, with arguments of its own. The projections in front of an attention, each of which gives
 * some cores a block, then fill all of them. A kernel is taken along by an earlier launch when no
 * kernel from that one on writes what it touches or reads what it writes, in the same container or
 * in the same memory (emit_sync.c). Its function has arguments for the most that are taken along at
 * once, of which each block picks its row's; so it does of descriptions of tensors, behind those.
 */
#include "cuda.h"

#include "runtime/device.h"

#include <string.h>

enum { LOOK_BACK = 16, SIDES_MOST = 8, WORDS_MOST = 64 };

/* Kernels in the order in which the program meets their roots. */
static int in_order(const CProgram *p, int *order) {
    int n = 0;
    for (int i = 0; i < p->flow->body.n; i++)
        for (int k = p->first_kernel[p->flow->body.at[i].map]; k >= 0 && k < p->flow->kernel.n;
             k++) {
            const Kernel *kernel = p->flow->kernel.at[k];
            if (kernel_root(kernel) == p->flow->body.at[i].map) order[n++] = k;
        }
    return n;
}

static bool may_join(const CProgram *p, int kernel) {
    const CKernel *ck = p->kernel[kernel];
    return ck->phase.n == 1 && dim_is(ck->scratch, 0) && !cuda_apart(p->flow->kernel.at[kernel]);
}

int cuda_words(const CKernel *ck) {
    return ck->buf.n + ck->symbol.n + CUDA_OWN_WORDS;
}

/* Do both run for the same range? */
static bool same_guards(const Kernel *a, const Kernel *b) {
    bool same = a->when.n == b->when.n;
    for (int i = 0; same && i < a->when.n; i++) same = a->when.at[i] == b->when.at[i];
    return same;
}

static bool same_launch(const CProgram *p, int a, int b) {
    return may_join(p, a) && same_guards(p->flow->kernel.at[a], p->flow->kernel.at[b]) &&
           p->phase[a][0] == p->phase[b][0] &&
           p->kernel[a]->phase.at[0].tasks == p->kernel[b]->phase.at[0].tasks;
}

static int count_sides(const CProgram *p, int kernel) {
    int n = 1;
    while ((kernel = p->beside[kernel]) >= 0) n++;
    return n;
}

/* Is there room for one more beside a kernel whose launch is its own? */
static bool has_room(const CProgram *p, int kernel) {
    int n = count_sides(p, kernel) + 1;
    return p->with[kernel] == kernel && n <= SIDES_MOST &&
           n * cuda_words(p->kernel[kernel]) <= WORDS_MOST &&
           n * p->kernel[kernel]->phase.at[0].nbox <= WEIR_BOXES;
}

static void take_along(CProgram *p, int first, int kernel) {
    CFunction *f = &p->function.at[p->phase[kernel][0]];
    int last = first, n;
    while (p->beside[last] >= 0) last = p->beside[last];
    p->beside[last] = kernel;
    p->with[kernel] = first;
    n = count_sides(p, first);
    if (n - 1 > f->sides) f->sides = n - 1;
    f->words = cuda_words(p->kernel[kernel]);
    f->boxes = p->kernel[kernel]->phase.at[0].nbox;
}

/* Looks back as far as nothing stands between; of the kernels for other ranges one alone runs. */
static void join_one(CProgram *p, const int *order, int at) {
    ContUses uses = kernel_uses(p, order[at], false);
    int root = kernel_root(p->flow->kernel.at[order[at]]);
    p->pending.n = 0;
    for (int i = at - 1; i >= 0 && i >= at - LOOK_BACK; i--) {
        ContUses before = kernel_uses(p, order[i], false);
        if (kernel_root(p->flow->kernel.at[order[i]]) == root) continue;
        remember_uses(p, &before);
        if (needs_barrier(p, &uses)) break;
        if (!same_launch(p, order[i], order[at]) || !has_room(p, order[i])) continue;
        take_along(p, order[i], order[at]);
        break;
    }
    p->pending.n = 0;
}

void cuda_join_launches(CProgram *p) {
    int n = p->flow->kernel.n, *order = NEW_ARRAY(p->arena, int, n + 1);
    p->beside = NEW_ARRAY(p->arena, int, n + 1);
    p->with = NEW_ARRAY(p->arena, int, n + 1);
    for (int k = 0; k < n; k++) p->beside[k] = -1, p->with[k] = k;
    if (p->options->profile) return;
    for (int i = 0; i < p->flow->body.n; i++)
        if (p->flow->body.at[i].kind != ITEM_MAP) return;
    int met = in_order(p, order);
    for (int i = 1; i < met; i++)
        if (may_join(p, order[i])) join_one(p, order, i);
}

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

/* Of `each` arguments a row, number i of the row at hand. */
static void pick(const CFunction *f, const char *name, int each, int i, Text *out) {
    for (int side = 0; side < f->sides; side++)
        text_printf(out, "blockIdx.y == %d ? %s%d : ", side, name, side * each + i);
    text_printf(out, "%s%d", name, f->sides * each + i);
}

const char *cuda_sides(const CProgram *p, int function) {
    const CFunction *f = &p->function.at[function];
    Text out = {.arena = p->arena};
    for (int i = 0; i < (f->sides + 1) * f->words; i++)
        text_printf(&out, "%su64 x%d", i ? ", " : "(", i);
    for (int i = 0; i < (f->sides + 1) * f->boxes; i++) text_printf(&out, ", BOXED m%d", i);
    text_printf(&out, ") {\n body%d(", function);
    for (int i = 0; i < f->words; i++) {
        text_printf(&out, "%sword_of(", i ? ", " : "");
        pick(f, "x", f->words, i, &out);
        text_put(&out, ")");
    }
    for (int i = 0; i < f->boxes; i++) {
        text_put(&out, ", ");
        pick(f, "m", f->boxes, i, &out);
    }
    text_put(&out, ");\n}\n");
    return text_str(&out);
}

/* Descriptions stay where the launch has put them. */
void cuda_body(const CProgram *p, int function, Text *out) {
    static const char GIVEN[] = "BOXED ";
    const char *text = p->function.at[function].text, *at;
    text_printf(out, "FN void body%d", function);
    for (; (at = strstr(text, GIVEN)); text = at + strlen(GIVEN))
        text_printf(out, "%.*sconst tensor_map &", (int)(at - text), text);
    text_put(out, text);
}
