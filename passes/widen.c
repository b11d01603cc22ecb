/* SPDX-License-Identifier: Apache-2.0 */
/* Pass `widen`: on a processor what maps compute in halves stays in f32 between them.
 *
 * Operators of halves compute in f32 and round what they give. A temporary of halves (f16, bf16)
 * that some map computes becomes one of f32, and so does what only moves its elements: results are
 * nearer to what the model means, and no conversion stands between a product and what follows it.
 * Halves stay where they save memory or are asked for: inputs, outputs, states and weights, what
 * follows from weights alone, what calls and regions hold, and what a map does nothing to but
 * convert it to halves. A GPU multiplies halves; strict mathematics rounds them. */
#include "passes/compose.h"

typedef struct Widen {
    Editing e;
    bool *constant; /* by container: follows from weights alone */
    bool *wide;     /* by container */
} Widen;

static bool is_half(DType t) {
    return t == F16 || t == BF16;
}

static bool is_fixed(const Widen *w, int cont) {
    ContKind kind = w->e.flow->cont.at[cont].kind;
    return kind == CONT_PARAM || kind == CONT_LITERAL || w->constant[cont];
}

/* Does it read nothing but weights? */
static bool reads_fixed(const Widen *w, const Map *m) {
    for (int v = 0; v < m->body.val.n; v++)
        if (m->body.val.at[v].kind == VAL_READ && !is_fixed(w, m->body.val.at[v].read.cont))
            return false;
    return true;
}

static bool all_writers_fixed(const Widen *w, int cont) {
    const IntVec *writers = &w->e.uses.writers[cont];
    for (int i = 0; i < writers->n; i++)
        if (!reads_fixed(w, w->e.flow->map.at[writers->at[i]])) return false;
    return writers->n && !w->e.uses.held[cont] && w->e.flow->cont.at[cont].kind == CONT_TMP;
}

static bool mark_constant(Widen *w, int cont) {
    if (w->constant[cont] || !all_writers_fixed(w, cont)) return false;
    return w->constant[cont] = true;
}

/* What a map writes to a container: what it computes, an element of another container as it is
 * (`moved`), or what stays rounded. */
typedef enum { COMPUTES, MOVES, ROUNDS } Gives;

static Gives gives(const Map *m, const Write *wr, int *moved) {
    const Val *v = &m->body.val.at[wr->val[0]];
    if (wr->combine) return wr->n == 1 && wr->combine->t == F32 ? COMPUTES : ROUNDS;
    if (v->kind == VAL_READ) {
        *moved = v->read.cont;
        return MOVES;
    }
    return m->body.val.at[body_unconverted(&m->body, wr->val[0])].kind == VAL_READ ? ROUNDS
                                                                                   : COMPUTES;
}

static bool writes_to(const Write *wr, int cont) {
    for (int k = 0; k < wr->n; k++)
        if (wr->to[k].cont == cont) return true;
    return false;
}

/* May it be f32: is some of it computed, not of weights alone, or moved from what is wide, and none
 * to be rounded? */
static bool widens(const Widen *w, int cont) {
    const Cont *x = &w->e.flow->cont.at[cont];
    const IntVec *writers = &w->e.uses.writers[cont];
    if (!is_half(x->type) || x->kind != CONT_TMP || w->e.uses.held[cont] || w->constant[cont])
        return false;
    bool computed = false;
    for (int i = 0; i < writers->n; i++) {
        const Map *m = w->e.flow->map.at[writers->at[i]];
        for (int k = 0; k < m->write.n; k++) {
            if (!writes_to(&m->write.at[k], cont)) continue;
            int from = cont;
            Gives what = gives(m, &m->write.at[k], &from);
            if (what == ROUNDS) return false;
            computed |= (what == COMPUTES && !reads_fixed(w, m)) || w->wide[from];
        }
    }
    return computed;
}

static bool mark_wide(Widen *w, int cont) {
    if (w->wide[cont] || !widens(w, cont)) return false;
    return w->wide[cont] = true;
}

/* Marks until nothing changes; containers stand nearly in the order they are written in. */
static void mark_all(Widen *w, bool mark(Widen *, int)) {
    for (bool more = true; more;) {
        more = false;
        for (int c = 0; c < w->e.flow->cont.n; c++) more |= mark(w, c);
    }
}

/* A BodyReadFn: the half that readers expect, of the f32 that is there now. */
static int read_wide(void *user, Body *b, const Val *read) {
    const Widen *w = user;
    if (!w->wide[read->read.cont]) return -1;
    int v = read->has_else ? body_read_else(b, read->read, F32, body_cvt(b, F32, read->arg[0]))
                           : body_read(b, read->read, F32);
    return body_cvt(b, read->type, v);
}

static void widen_map(Widen *w, Map *m) {
    map_rewrite(&w->e, m, NULL, 0, read_wide, w);
    body_unround(&m->body);
    for (int i = 0; i < m->write.n; i++) {
        Write *wr = &m->write.at[i];
        bool store = w->wide[wr->to[0].cont] && !wr->combine;
        int *val = arena_copy(w->e.arena, wr->val, (size_t)wr->nstate * sizeof *val);
        for (int k = 0; k < wr->nstate; k++)
            val[k] = body_unrounded(&m->body, store ? body_cvt(&m->body, F32, val[k]) : val[k]);
        wr->val = val;
    }
    map_rewrite(&w->e, m, NULL, 0, NULL, NULL);
}

/* Does a map read or write what is wide? */
static bool meets_wide(const Widen *w, const Map *m) {
    for (int v = 0; v < m->body.val.n; v++)
        if (m->body.val.at[v].kind == VAL_READ && w->wide[m->body.val.at[v].read.cont]) return true;
    for (int i = 0; i < m->write.n; i++)
        if (w->wide[m->write.at[i].to[0].cont]) return true;
    return false;
}

Flow *pass_widen(Arena *arena, const Flow *flow, const PassEnv *env);
Flow *pass_widen(Arena *arena, const Flow *flow, const PassEnv *env) {
    Widen w = {.e = {.arena = arena, .flow = flow_clone(arena, flow)}};
    Flow *made = w.e.flow;
    if (env->machine->block_threads || env->math == MATH_STRICT) return made;
    uses_count(&w.e);
    w.constant = NEW_ARRAY(arena, bool, made->cont.n + 1);
    w.wide = NEW_ARRAY(arena, bool, made->cont.n + 1);
    mark_all(&w, mark_constant);
    mark_all(&w, mark_wide);
    for (int c = 0; c < made->cont.n; c++)
        if (w.wide[c]) made->cont.at[c].type = F32;
    for (int i = 0; i < made->map.n; i++)
        if (meets_wide(&w, made->map.at[i])) widen_map(&w, made->map.at[i]);
    flow_compact(made);
    return made;
}
