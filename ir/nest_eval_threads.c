/* SPDX-License-Identifier: Apache-2.0 */
/* Evaluating a nest of blocks and threads.
 *
 * Blocks run one after the other. The threads of a block run in lockstep: each statement runs once,
 * for all threads that are active, as columns of the engine that runs vector loops. A guard or an
 * extent that differs between threads makes some of them inactive. So a barrier has nothing to
 * order, but who did not reach it, and what would have been a race without it, is an error. */
#include "nest_eval.h"

#include <string.h>

static void run_all(NestCode *c, const NestStmt *s, int n);

/* ---- which threads ----------------------------------------------------------------------------
 */

/* From here on columns are `count` threads from `first` on, one each. */
static void take_threads(NestCode *c, int first, int count) {
    NestThreads *t = c->threads;
    t->first = first;
    t->lanes = 1;
    for (int i = 0; i < t->nvar; i++) c->column[t->var[i]] = t->value[i] + first;
    c->lanes = count;
    c->mask = t->active ? t->active + first : NULL;
}

static void take_all(NestCode *c) {
    take_threads(c, 0, c->threads->n);
}

static bool any(const uint8_t *mask, int n) {
    return memchr(mask, 1, (size_t)n) != NULL;
}

/* Runs the statements for the threads of `mask`. */
static void run_some(NestCode *c, const NestStmt *s, const uint8_t *mask) {
    NestThreads *t = c->threads;
    const uint8_t *before = t->active;
    if (!any(mask, t->n)) return;
    t->active = memchr(mask, 0, (size_t)t->n) ? mask : NULL;
    take_all(c);
    run_all(c, s->body, s->nbody);
    t->active = before;
    take_all(c);
}

static void column_of(const NestCode *c, const DimCode *code, int64_t *out) {
    DimColumns in = {c->slot, c->column};
    dim_code_column(code, &in, c->lanes, out);
}

static void start_mask(const NestCode *c, uint8_t *mask) {
    if (c->mask)
        memcpy(mask, c->mask, (size_t)c->lanes);
    else
        memset(mask, 1, (size_t)c->lanes);
}

/* Leaves in `mask` the columns whose guards hold. */
static void cut_mask(const NestCode *c, const NestStmt *s, uint8_t *mask) {
    int64_t value[COLUMN_MAX];
    for (int g = 0; g < s->nguard; g++) {
        column_of(c, s->guard[g], value);
        for (int l = 0; l < c->lanes; l++) mask[l] &= value[l] >= 0;
    }
}

/* ---- statements -------------------------------------------------------------------------------
 */

static void run_if(NestCode *c, const NestStmt *s) {
    uint8_t mask[COLUMN_MAX];
    if (s->uniform) {
        for (int g = 0; g < s->nguard; g++)
            if (dim_code_value(s->guard[g], c->slot) < 0) return;
        run_all(c, s->body, s->nbody);
        return;
    }
    start_mask(c, mask);
    cut_mask(c, s, mask);
    run_some(c, s, mask);
}

/* Loops run while any thread has iterations left. */
static void run_loop(NestCode *c, const NestStmt *s) {
    uint8_t mask[COLUMN_MAX];
    int64_t extent[COLUMN_MAX], most = 0;
    if (s->uniform) {
        most = dim_code_value(s->extent, c->slot);
        for (int64_t i = 0; i < most; i++) {
            c->slot[s->var] = i;
            run_all(c, s->body, s->nbody);
        }
        return;
    }
    column_of(c, s->extent, extent);
    for (int l = 0; l < c->lanes; l++) most = extent[l] > most ? extent[l] : most;
    for (int64_t i = 0; i < most; i++) {
        start_mask(c, mask);
        for (int l = 0; l < c->lanes; l++) mask[l] &= i < extent[l];
        c->slot[s->var] = i;
        run_some(c, s, mask);
    }
}

/* A vector loop of each thread: columns are the lanes of as many threads as fit. */
static void run_lanes(NestCode *c, const NestStmt *s) {
    NestThreads *t = c->threads;
    int64_t lanes = dim_code_value(s->extent, c->slot), lane[COLUMN_MAX];
    uint8_t mask[COLUMN_MAX];
    if (lanes < 1 || lanes > COLUMN_MAX)
        fail(c->ctx, E_VERIFY, "nest \"%s\" has a vector loop of %lld lanes", c->nest->name,
             (long long)lanes);
    int at_once = COLUMN_MAX / (int)lanes;
    for (int first = 0; first < t->n; first += at_once) {
        int count = t->n - first < at_once ? t->n - first : at_once;
        c->lanes = count * (int)lanes;
        for (int l = 0; l < c->lanes; l++) {
            int thread = first + l / (int)lanes;
            lane[l] = l % lanes;
            mask[l] = !t->active || t->active[thread];
            for (int i = 0; i < t->nvar; i++) t->column[i][l] = t->value[i][thread];
        }
        for (int i = 0; i < t->nvar; i++) c->column[t->var[i]] = t->column[i];
        c->slot[s->var] = 0;
        c->column[s->var] = lane;
        t->first = first;
        t->lanes = (int)lanes;
        cut_mask(c, s, mask);
        c->mask = mask;
        for (int i = 0; i < s->nbody && any(mask, c->lanes); i++)
            if (s->body[i].stmt->kind == STMT_BODY) nest_run_body(c, &s->body[i]);
    }
    c->column[s->var] = NULL;
    take_all(c);
}

/* A row of lanes is each thread's own. */
static void fold_row(NestCode *c, const NestStmt *s) {
    for (int thread = 0; thread < c->threads->n; thread++) {
        if (c->threads->active && !c->threads->active[thread]) continue;
        take_threads(c, thread, 1);
        nest_run_fold(c, s);
    }
    take_all(c);
}

static void run_while(NestCode *c, const NestStmt *s) {
    uint8_t mask[COLUMN_MAX], *before = NULL, kept[COLUMN_MAX];
    if (c->mask) before = memcpy(kept, c->mask, (size_t)c->lanes);
    for (;;) {
        nest_read_true(c, s, mask);
        for (int l = 0; before && l < c->lanes; l++) mask[l] &= before[l];
        if (!any(mask, c->lanes)) return;
        run_some(c, s, mask);
    }
}

/* Runs the oldest `steps` until no more than `left` are under way. Their operands lie where no warp
 * waits for a bank, so nothing is counted. */
static void run_steps(NestCode *c, int left) {
    NestThreads *t = c->threads;
    NestTraffic *traffic = c->traffic;
    int64_t *now = c->slot;
    c->traffic = NULL;
    for (; t->ran < t->steps.n - left; t->ran++) {
        const NestSteps *s = &t->steps.at[t->ran];
        c->slot = s->slot;
        run_all(c, s->stmt->body, s->stmt->nbody);
    }
    c->slot = now;
    c->traffic = traffic;
}

static void start_steps(NestCode *c, const NestStmt *s) {
    int64_t *slot = arena_copy(c->arena, c->slot, sizeof *c->slot * (size_t)c->nslot);
    vec_push(c->arena, &c->threads->steps, ((NestSteps){s, slot}));
}

/* A barrier, and the words about copies, which the threads of a block say together. */
static void run_together(NestCode *c, const NestStmt *stmt) {
    NestThreads *t = c->threads;
    const Stmt *s = stmt->stmt;
    if (t->active)
        fail(c->ctx, E_VERIFY,
             "not all threads of a block reach a `%s` of nest \"%s\": it stands where only some "
             "of them are",
             nest_stmt_str(c->arena, c->nest, s), c->nest->name);
    if (s->kind == STMT_SYNC) t->stretch++;
    if (s->kind == STMT_COMMIT) t->group++;
    if (s->kind == STMT_STEPS) start_steps(c, stmt);
    if (s->kind == STMT_WAIT && s->steps) run_steps(c, s->left);
    while (s->kind == STMT_WAIT && !s->steps && t->waited < t->group - 1 - s->left) {
        vec_push(c->arena, &t->done, t->stretch);
        t->waited++;
    }
}

/* A step of warps. When counting, its loops over q and h run matrix by matrix, of which there are
 * two along the reduction. */
static void run_use(NestCode *c, const NestStmt *s) {
    const NestStmt *q = s->body, *h = q->body;
    bool step = s->nbody == 1 && q->stmt->kind == STMT_FOR && q->nbody == 1 &&
                h->stmt->kind == STMT_FOR && h->stmt->mark != LOOP_VECTOR;
    if (!c->traffic || !step) {
        run_all(c, s->body, s->nbody);
        return;
    }
    int64_t depth = dim_code_value(q->extent, c->slot), rows = dim_code_value(h->extent, c->slot);
    int64_t half = (depth + 1) / 2;
    for (int64_t first = 0; first < depth; first += half)
        for (int64_t i = 0; i < rows; i++) {
            nest_matrix_begin(c);
            c->slot[h->var] = i;
            for (int64_t k = first; k < depth && k < first + half; k++) {
                c->slot[q->var] = k;
                run_all(c, h->body, h->nbody);
            }
            nest_matrix_end(c);
        }
}

static void run_one(NestCode *c, const NestStmt *s) {
    switch (s->stmt->kind) {
    case STMT_FOR:
        if (s->stmt->mark == LOOP_VECTOR)
            run_lanes(c, s);
        else
            run_loop(c, s);
        break;
    case STMT_IF: run_if(c, s); break;
    case STMT_DECL: nest_declare(c, s, c->threads->n); break;
    case STMT_BODY: nest_run_body(c, s); break;
    case STMT_FOLD:
        if (s->stmt->threads)
            nest_fold_threads(c, s);
        else
            fold_row(c, s);
        break;
    case STMT_TURN: nest_turn_threads(c, s); break;
    case STMT_WHILE: run_while(c, s); break;
    case STMT_USE: run_use(c, s); break;
    case STMT_COMMIT:
    case STMT_WAIT:
    case STMT_STEPS:
    case STMT_SYNC: run_together(c, s); break;
    case STMT_PREFETCH: nest_run_prefetch(c, s); break;
    }
}

static void run_all(NestCode *c, const NestStmt *s, int n) {
    for (int i = 0; i < n; i++) run_one(c, &s[i]);
}

/* ---- blocks -----------------------------------------------------------------------------------
 */

static void run_threads(NestCode *c, const NestStmt *s) {
    while (s->nbody == 1 && s->body->stmt->kind == STMT_FOR && s->body->stmt->mark == LOOP_THREAD)
        s = s->body;
    c->threads->block++;
    c->threads->stretch++;
    c->threads->group = 1;
    c->threads->waited = c->threads->done.n = 0;
    c->threads->steps.n = c->threads->ran = 0;
    take_all(c);
    run_all(c, s->body, s->nbody);
    if (c->threads->ran < c->threads->steps.n)
        fail(c->ctx, E_VERIFY, "`steps` of nest \"%s\" are still under way where its threads end",
             c->nest->name);
}

static void run_block(NestCode *c, const NestStmt *s, int n) {
    for (int i = 0; i < n; i++) {
        const NestStmt *at = &s[i];
        if (at->stmt->kind == STMT_DECL) {
            nest_declare(c, at, 1);
            nest_touch_begin(c);
        } else if (at->stmt->mark == LOOP_THREAD) {
            run_threads(c, at);
        } else {
            int64_t extent = dim_code_value(at->extent, c->slot);
            for (int64_t b = 0; b < extent; b++) {
                c->slot[at->var] = b;
                run_block(c, at->body, at->nbody);
            }
        }
    }
}

/* The numbers of the threads' loops, by thread: the last loop runs fastest. */
static void number_threads(NestCode *c) {
    NestThreads *t = c->threads;
    int64_t below = 1;
    for (int i = t->nvar - 1; i >= 0; i--) {
        t->value[i] = NEW_ARRAY(c->arena, int64_t, t->n);
        t->column[i] = NEW_ARRAY(c->arena, int64_t, COLUMN_MAX);
        for (int k = 0; k < t->n; k++) t->value[i][k] = k / below % t->extent[i];
        below *= t->extent[i];
    }
    t->touch = arena_array(c->arena, (size_t)c->nest->buf.n + 1, sizeof *t->touch);
    t->touched = arena_array(c->arena, (size_t)c->nest->buf.n + 1, sizeof *t->touched);
}

void nest_run_blocks(NestCode *c) {
    NestThreads *t = c->threads;
    if (!t->value[0]) number_threads(c);
    for (int i = 0; i < t->nvar; i++) c->slot[t->var[i]] = 0;
    t->active = NULL;
    t->first_block = t->block + 1;
    nest_touch_begin(c);
    run_block(c, c->body, c->nbody);
    for (int i = 0; i < t->nvar; i++) c->column[t->var[i]] = NULL;
    c->lanes = 1;
    c->mask = NULL;
}
