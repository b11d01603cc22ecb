/* SPDX-License-Identifier: Apache-2.0 */
/* Launches side by side.
 *
 * Kernels that need nothing of each other are launched as one, each with arguments of its own. A
 * kernel is taken along by an earlier launch when no kernel from that one on needs to be done
 * before it, nor it before them (emit_depend.c).
 *
 * Kernels of one text and as many blocks get a row of blocks each, whatever they do: the
 * projections in front of an attention, each of which gives some cores a block, then fill all of
 * them. Their function has arguments for the most that are taken along at once. Other kernels get
 * a range of the blocks each, if what they do takes less than launching them: where all of them
 * are brief, and the blocks of some have few threads more than they need. */
#include "cuda.h"

#include "runtime/device.h"

enum {
    LOOK_BACK = 16,
    WORDS_MOST = 64,      /* arguments of a launch */
    HELD_MOST = 16 << 10, /* bytes of shared arrays: every block has those of all sides */
    WARP = 32,
    WALL = -1
};

int cuda_words(const CKernel *ck) {
    return ck->buf.n + ck->symbol.n + CUDA_OWN_WORDS;
}

static int root_of(const CProgram *p, int kernel) {
    return kernel_root(p->flow->kernel.at[kernel]);
}

/* The next kernel of the same root, for other ranges of sizes; or -1. */
static int next_range(const CProgram *p, int kernel) {
    for (int k = kernel + 1; k < p->flow->kernel.n; k++)
        if (root_of(p, k) == root_of(p, kernel)) return k;
    return -1;
}

/* Kernels in the order in which the program meets their roots. Calls, loops and branches are walls.
 */
static int in_order(const CProgram *p, int *order) {
    int n = 0;
    for (int i = 0; i < p->flow->body.n; i++) {
        const Item *it = &p->flow->body.at[i];
        if (it->kind != ITEM_MAP) order[n++] = WALL;
        for (int k = it->kind == ITEM_MAP ? p->first_kernel[it->map] : -1; k >= 0;
             k = next_range(p, k))
            order[n++] = k;
    }
    return n;
}

/* ---- which may be sides ---------------------------------------------------------------------- */

/* Kernels beside each other: of a launch, and one that it might take along. */
typedef struct Sides {
    int n, at[CUDA_SIDES + 1];
} Sides;

static Sides sides_of(const CProgram *p, int launch, int kernel) {
    Sides s = {0};
    for (int k = launch; k >= 0; k = p->beside[k]) s.at[s.n++] = k;
    if (kernel >= 0) s.at[s.n++] = kernel;
    return s;
}

static bool may_join(const CProgram *p, int kernel) {
    const CKernel *ck = p->kernel[kernel];
    return ck->phase.n == 1 && dim_is(ck->scratch, 0) && !cuda_apart(p->flow->kernel.at[kernel]) &&
           !unless_shared(p, root_of(p, kernel));
}

static bool same_guards(const Kernel *a, const Kernel *b) {
    bool same = a->when.n == b->when.n;
    for (int i = 0; same && i < a->when.n; i++) same = a->when.at[i] == b->when.at[i];
    return same;
}

/* Do both run for the same range? Kernels before them in their chains have guards that fail. */
static bool same_ranges(const CProgram *p, int a, int b) {
    int i = p->first_kernel[root_of(p, a)], k = p->first_kernel[root_of(p, b)];
    for (; i >= 0 && k >= 0; i = next_range(p, i), k = next_range(p, k)) {
        if (!same_guards(p->flow->kernel.at[i], p->flow->kernel.at[k])) return false;
        if (i == a || k == b) return i == a && k == b;
    }
    return false;
}

/* ---- rows ------------------------------------------------------------------------------------ */

static bool same_launch(const CProgram *p, int a, int b) {
    return p->phase[a][0] == p->phase[b][0] &&
           p->kernel[a]->phase.at[0].tasks == p->kernel[b]->phase.at[0].tasks;
}

static bool may_be_rows(const CProgram *p, const Sides *s) {
    for (int i = 1; i < s->n; i++)
        if (!same_launch(p, s->at[0], s->at[i])) return false;
    return s->n * p->kernel[s->at[0]]->phase.at[0].nbox <= WEIR_BOXES;
}

/* ---- ranges ---------------------------------------------------------------------------------- */

/* Is a block a task, of memory that the launch need not provide? */
static bool has_range(const CProgram *p, int kernel) {
    const CKernel *ck = p->kernel[kernel];
    const CPhase *phase = &ck->phase.at[0];
    bool blocks = phase->blocks || (phase->threads == 1 && dim_is(phase->tasks, 1));
    return blocks && !ck->shared && !phase->nbox &&
           dim_le(p->ctx, dim_const(p->ctx, 0), phase->tasks, &p->env);
}

static int threads_of(const CProgram *p, const Sides *s) {
    int most = 1;
    for (int i = 0; i < s->n; i++) {
        int threads = p->kernel[s->at[i]]->phase.at[0].threads;
        if (threads > most) most = threads;
    }
    return most;
}

/* Are the blocks that have warps too many no more than cores? */
static bool few_surplus(const CProgram *p, const Sides *s) {
    int warps = (threads_of(p, s) + WARP - 1) / WARP;
    int64_t blocks = 0, n;
    for (int i = 0; i < s->n; i++) {
        const CPhase *phase = &p->kernel[s->at[i]]->phase.at[0];
        if ((phase->threads + WARP - 1) / WARP == warps) continue;
        if (!dim_is_const(phase->tasks, &n)) return false;
        blocks += n;
    }
    return blocks <= p->machine->cores;
}

static bool may_be_ranges(const CProgram *p, const Sides *s) {
    double seconds = 0;
    int held = 0;
    for (int i = 0; i < s->n; i++) {
        if (!has_range(p, s->at[i])) return false;
        held += p->kernel[s->at[i]]->phase.at[0].held;
        seconds += cuda_seconds(p, s->at[i]);
    }
    return held <= HELD_MOST && cuda_brief(seconds) && few_surplus(p, s);
}

/* ---- joining --------------------------------------------------------------------------------- */

/* Is `first` a launch of its own that has room for one more beside it? */
static bool may_take(const CProgram *p, int first, int kernel) {
    if (p->with[first] != first || !may_join(p, first) || !same_ranges(p, first, kernel))
        return false;
    Sides s = sides_of(p, first, kernel);
    int words = 0;
    for (int i = 0; i < s.n; i++) words += cuda_words(p->kernel[s.at[i]]);
    return s.n <= CUDA_SIDES && words <= WORDS_MOST && (may_be_rows(p, &s) || may_be_ranges(p, &s));
}

/* Those of one function stay next to each other. */
static void take_along(CProgram *p, int first, int kernel) {
    int behind = -1, last = first;
    for (int k = first; k >= 0; k = p->beside[k]) {
        if (p->phase[k][0] == p->phase[kernel][0]) behind = k;
        last = k;
    }
    if (behind < 0) behind = last;
    p->beside[kernel] = p->beside[behind];
    p->beside[behind] = kernel;
    p->with[kernel] = first;
}

/* Looks back as far as nothing stands between; of the kernels for other ranges one alone runs. */
static void join_one(CProgram *p, const int *order, int at) {
    for (int i = at - 1; i >= 0 && i >= at - LOOK_BACK && order[i] != WALL; i--) {
        if (root_of(p, order[i]) == root_of(p, order[at])) continue;
        if (cuda_depend(p, order[i], order[at])) break;
        if (!may_take(p, order[i], order[at])) continue;
        take_along(p, order[i], order[at]);
        break;
    }
}

/* ---- functions ------------------------------------------------------------------------------- */

static void make_rows(CProgram *p, const Sides *s) {
    CFunction *f = &p->function.at[p->phase[s->at[0]][0]];
    if (s->n - 1 > f->sides) f->sides = s->n - 1;
    f->words = (f->sides + 1) * cuda_words(p->kernel[s->at[0]]);
    f->boxes = (f->sides + 1) * p->kernel[s->at[0]]->phase.at[0].nbox;
}

static int function_of(const CProgram *p, const int *part, int n) {
    for (int i = 0; i < p->function.n; i++) {
        const CFunction *f = &p->function.at[i];
        bool same = f->part && f->sides == n - 1;
        for (int k = 0; same && k < n; k++) same = f->part[k] == part[k];
        if (same) return i;
    }
    return -1;
}

/* A core has room for as many blocks as the one asks for whose blocks take most. */
static void make_ranges(CProgram *p, const Sides *s) {
    Text from = {.arena = p->arena};
    int *part = NEW_ARRAY(p->arena, int, s->n);
    CFunction all = {.part = part, .sides = s->n - 1, .threads = threads_of(p, s)};
    for (int i = 0; i < s->n; i++) {
        CFunction *f = &p->function.at[part[i] = p->phase[s->at[i]][0]];
        int words = cuda_words(p->kernel[s->at[i]]);
        if (!f->sides) f->words = words;
        f->body = true;
        all.words += words;
        if (!i || f->resident < all.resident) all.resident = f->resident;
        text_printf(&from, "%s%s", i ? "; " : "", kernel_from(p, s->at[i]));
    }
    int known = function_of(p, part, s->n);
    if (known < 0) {
        known = p->function.n;
        all.from = text_str(&from);
        vec_push(p->arena, &p->function, all);
    }
    p->function.at[known].uses++;
    p->phase[s->at[0]][0] = known;
}

/* Functions that are launched have numbers in the image. */
static void number_functions(CProgram *p) {
    int n = 0;
    for (int i = 0; i < p->function.n; i++) {
        CFunction *f = &p->function.at[i];
        f->number = -1;
        f->body |= f->sides && !f->part;
    }
    for (int k = 0; k < p->flow->kernel.n; k++)
        for (int i = 0; i < p->kernel[k]->phase.n && p->with[k] == k; i++)
            if (!cuda_apart(p->flow->kernel.at[k])) p->function.at[p->phase[k][i]].number = 0;
    for (int i = 0; i < p->function.n; i++)
        if (p->function.at[i].number == 0) p->function.at[i].number = n++;
}

int cuda_launched(const CProgram *p) {
    int n = 0;
    for (int i = 0; i < p->function.n; i++) n += p->function.at[i].number >= 0;
    return n;
}

void cuda_join_launches(CProgram *p) {
    int n = p->flow->kernel.n, *order = NEW_ARRAY(p->arena, int, n + p->flow->body.n + 1);
    p->beside = NEW_ARRAY(p->arena, int, n + 1);
    p->with = NEW_ARRAY(p->arena, int, n + 1);
    for (int k = 0; k < n; k++) p->beside[k] = -1, p->with[k] = k;
    int met = p->options->profile ? 0 : in_order(p, order);
    for (int i = 1; i < met; i++)
        if (order[i] != WALL && may_join(p, order[i])) join_one(p, order, i);
    for (int rows = 1; rows >= 0; rows--)
        for (int k = 0; k < n; k++) {
            Sides s = sides_of(p, k, -1);
            if (p->with[k] != k || s.n == 1 || may_be_rows(p, &s) != rows) continue;
            rows ? make_rows(p, &s) : make_ranges(p, &s);
        }
    number_functions(p);
}
