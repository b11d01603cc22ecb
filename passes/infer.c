/* SPDX-License-Identifier: Apache-2.0 */
/* Pass `infer`: types, symbolic shapes and known values of all results, from the rows' type rules.
 *
 * Small constant results are evaluated on the way, because the shapes after them may depend on
 * them. Symbols that data defines are made anew each time, so the rules may run again: they do when
 * they found a bound of a dim. */
#include "graph_passes.h"

enum { SMALL = 8 * KNOWN_MAX };

static void fold_small(Infer *in) {
    fold_node(in, SMALL);
}

static void drop_data_symbols(Graph *g) {
    int n = 0;
    for (int i = 0; i < g->symbol.n; i++)
        if (!g->symbol.at[i].upper) g->symbol.at[n++] = g->symbol.at[i];
    g->symbol.n = n;
}

/* Inference may find that a dim cannot be larger than something; then shapes become simpler. What
 * it finds of the least that a dim may be decides signs, and so which sizes are known at all. */
static int bounded(const Graph *g) {
    int n = 0;
    for (int i = 0; i < g->symbol.n; i++)
        n += !g->symbol.at[i].upper && g->symbol.at[i].hi != INT64_MAX;
    return n;
}

/* ---- what the model declares ----------------------------------------------------------------- */

/* The model's outputs are of the type that it declares. Rank and sizes are hints, here as in the
 * declarations of other values: exporters leave stale ones. A shape without a single size says
 * nothing. */
static void check_output(const Graph *declared, const Graph *found, int i) {
    Ctx *ctx = found->ctx;
    const Value *want = &declared->value.at[declared->output.at[i]];
    const Value *have = &found->value.at[found->output.at[i]];
    const Type *a = &want->type, *b = &have->type;
    if (a->kind != TYPE_TENSOR || b->kind != TYPE_TENSOR) return;
    bool stale = false;
    for (int k = 0; k < a->rank && b->rank >= 0; k++)
        stale = stale || (dim_is_const(a->shape[k], NULL) &&
                          (a->rank != b->rank ||
                           (a->shape[k] != b->shape[k] && dim_is_const(b->shape[k], NULL))));
    if (a->dtype != b->dtype)
        fail(ctx, E_MODEL,
             "output \"%s\" is declared as %s, but its node gives %s: export the model again, or "
             "correct the declaration",
             have->name, type_str(ctx, a), type_str(ctx, b));
    if (stale)
        warn(ctx, E_MODEL, "output \"%s\" is declared as %s, but its node gives %s, which counts",
             have->name, type_str(ctx, a), type_str(ctx, b));
}

/* ---- sizes that must be equal --------------------------------------------------------------- */

static const Symbol *find_symbol(const Graph *g, Dim sym) {
    for (int i = 0; i < g->symbol.n; i++)
        if (g->symbol.at[i].sym == sym && !g->symbol.at[i].upper) return &g->symbol.at[i];
    return NULL;
}

/* The symbol that the equation gives by the others: the last one that the model has. NULL: none. */
static Dim solve(const Graph *g, const Require *r, Dim *value) {
    Dim zero = dim_sub(g->ctx, r->a, r->b), coef, rest;
    for (int i = g->symbol.n - 1; i >= 0; i--) {
        Dim sym = g->symbol.at[i].sym;
        if (!find_symbol(g, sym) || !dim_uses(zero, sym)) continue;
        if (!dim_affine(g->ctx, zero, &sym, 1, &coef, &rest) || dim_uses(rest, sym)) continue;
        if (!dim_is_const(coef, NULL) || !dim_divides(g->ctx, rest, coef, value)) continue;
        *value = dim_mulc(g->ctx, *value, -1);
        return sym;
    }
    return NULL;
}

/* What was asked of the symbol's size is asked of what stands for it: a bound, or a size. */
static void keep_range(Graph *g, const Symbol *s, Dim value, const Require *r) {
    int64_t size;
    if (dim_is_const(value, &size) && (size < s->lo || size > s->hi))
        fail(g->ctx, E_SHAPE,
             "dim \"%s\" must be %lld, which node \"%s\" needs: it is given as %lld..%lld",
             dim_sym_name(s->sym), (long long)size, r->from, (long long)s->lo, (long long)s->hi);
    for (int i = 0; i < g->symbol.n; i++) {
        Symbol *other = &g->symbol.at[i];
        if (other->sym != value) continue;
        if (other->lo < s->lo) other->lo = s->lo;
        if (other->hi > s->hi) other->hi = s->hi;
        if (other->lo > other->hi)
            fail(g->ctx, E_SHAPE,
                 "dims \"%s\" and \"%s\" must be equal, which node \"%s\" needs: their ranges are "
                 "apart",
                 dim_sym_name(s->sym), dim_sym_name(value), r->from);
    }
}

/* Makes one of two sizes that must be equal, as long as a symbol can be given by others. */
static bool unify(Graph *g) {
    for (int i = 0; i < g->require.n; i++) {
        const Require r = g->require.at[i];
        Dim to, sym = r.broadcast ? NULL : solve(g, &r, &to);
        if (!sym) continue;
        keep_range(g, find_symbol(g, sym), to, &r);
        graph_subst(g, sym, to);
        return true;
    }
    return false;
}

static bool only_symbols(Dim d) {
    bool only = true;
    for (int i = 0; i < d->nterms; i++)
        for (int k = 0; k < d->term[i].natoms; k++) only &= d->term[i].atom[k]->kind == ATOM_SYM;
    return only;
}

static bool no_symbols(const DimTerm *t) {
    bool none = t->natoms > 0;
    for (int k = 0; k < t->natoms; k++) none &= t->atom[k]->kind != ATOM_SYM;
    return none;
}

/* What no symbol solves may give a term in words of symbols: the quotient that a reshape leaves for
 * its last dim, where a product wants as many as its weights have, or what two sizes broadcast to.
 * Checked before anything runs, it holds in all that does. Returns the term without its factor. */
static Dim solve_term(const Graph *g, const Require *r, Dim *value) {
    Dim zero = dim_sub(g->ctx, r->a, r->b);
    for (int i = 0; i < zero->nterms; i++) {
        DimTerm t = zero->term[i];
        Dim rest = dim_sub(g->ctx, zero, dim_of_term(g->ctx, &t));
        if (!no_symbols(&t) || !only_symbols(rest)) continue;
        if (!dim_divides(g->ctx, rest, dim_const(g->ctx, -t.coef), value)) continue;
        t.coef = 1;
        return dim_of_term(g->ctx, &t);
    }
    return NULL;
}

/* Behind inference, which would find these sizes again. */
static void settle(Graph *g) {
    for (int i = 0; i < g->require.n; i++) {
        Dim to, term = g->require.at[i].broadcast ? NULL : solve_term(g, &g->require.at[i], &to);
        if (term) graph_subst(g, term, to);
    }
}

/* ---- the least that a size may be ------------------------------------------------------------ */

enum { TRIED = 1 << 16 };

typedef struct OneSymbol {
    Dim sym; /* NULL: none yet */
    bool other;
    int64_t value;
} OneSymbol;

typedef bool HoldsFn(const void *what, OneSymbol *one);

static void see_symbol(void *user, Dim sym) {
    OneSymbol *one = user;
    one->other |= one->sym && one->sym != sym;
    one->sym = sym;
}

static bool value_of_one(void *user, Dim sym, int64_t *value) {
    (void)sym;
    *value = ((const OneSymbol *)user)->value;
    return true;
}

static bool size_holds(const void *size, OneSymbol *one) {
    int64_t v;
    return dim_eval(size, value_of_one, one, &v) && v >= 0;
}

static bool require_holds(const void *require, OneSymbol *one) {
    const Require *r = require;
    int64_t a, b;
    if (!dim_eval(r->a, value_of_one, one, &a) || !dim_eval(r->b, value_of_one, one, &b))
        return false;
    return a == b || (r->broadcast && (a == 1 || b == 1));
}

/* What the least value of its only symbol makes wrong raises that symbol's lower bound. */
static bool raise_bound(Graph *g, OneSymbol one, HoldsFn *holds, const void *what) {
    const Symbol *s = one.sym && !one.other ? find_symbol(g, one.sym) : NULL;
    if (!s) return false;
    int64_t last = s->hi - s->lo > TRIED ? s->lo + TRIED : s->hi;
    for (one.value = s->lo; one.value <= last && !holds(what, &one);) one.value++;
    if (one.value == s->lo || one.value > last) return false;
    g->symbol.at[s - g->symbol.at].lo = one.value;
    return true;
}

/* A size that would be negative (an image smaller than the window over it), or one of two that must
 * be equal. */
static bool raise_bounds(Graph *g) {
    bool raised = false;
    for (int i = 0; i < g->value.n; i++) {
        const Value *v = &g->value.at[i];
        if (v->kind != VALUE_NODE || v->type.kind != TYPE_TENSOR) continue;
        for (int k = 0; k < v->type.rank; k++) {
            OneSymbol one = {NULL};
            dim_symbols(v->type.shape[k], see_symbol, &one);
            raised |= raise_bound(g, one, size_holds, v->type.shape[k]);
        }
    }
    for (int i = 0; i < g->require.n; i++) {
        OneSymbol one = {NULL};
        dim_symbols(g->require.at[i].a, see_symbol, &one);
        dim_symbols(g->require.at[i].b, see_symbol, &one);
        raised |= raise_bound(g, one, require_holds, &g->require.at[i]);
    }
    return raised;
}

static Graph *infer_all(Arena *arena, const Graph *g, const PassEnv *env, RankSplit *split) {
    Graph *out = graph_clone(arena, g);
    Infer in = {.ctx = g->ctx, .arena = arena, .graph = out, .ops = env->ops, .done = fold_small};
    in.split = split;
    for (int before = -1; before != bounded(out) || unify(out) || raise_bounds(out);) {
        before = bounded(out);
        drop_data_symbols(out);
        out->require.n = out->joined.n = 0;
        infer_nodes(&in);
    }
    settle(out);
    for (int i = 0; i < g->output.n; i++)
        if (g->value.at[g->output.at[i]].kind == VALUE_NODE) check_output(g, out, i);
    return out;
}

/* ---- branches of two ranks ------------------------------------------------------------------- */

enum { ATTEMPTS = 512, DOUBLED = 10, GROWTH = 8, SMALL_GRAPH = 1 << 12 };

typedef struct Attempt {
    Arena *arena;
    const Graph *g;
    const PassEnv *env;
    bool quiet;
    RankSplit split;
    Graph *out;
    DiagFn *diag; /* the context's own, and what it is given */
    void *user;
} Attempt;

static void hear_attempt(void *user, const Diag *diag) {
    const Attempt *a = user;
    if (diag->severity != DIAG_WARNING) return;
    if (a->quiet)
        warn_later(a->g->ctx);
    else
        a->diag(a->user, diag);
}

static void run_attempt(void *arg) {
    Attempt *a = arg;
    a->out = infer_all(a->arena, a->g, a->env, &a->split);
}

static bool attempt(Attempt *a) {
    Ctx *ctx = a->g->ctx;
    a->diag = ctx->diag, a->user = ctx->user;
    if (a->diag) ctx->diag = hear_attempt, ctx->user = a;
    bool done = ctx_try(ctx, run_attempt, a);
    ctx->diag = a->diag, ctx->user = a->user;
    return done;
}

/* Numbers all nodes from 1 on; how many there are. */
static int number_nodes(Graph *g, int from) {
    for (int i = 0; i < g->node.n; i++) {
        g->node.at[i].serial = ++from;
        for (int k = 0; k < g->node.at[i].attr.n; k++)
            if (g->node.at[i].attr.at[k].graph)
                from = number_nodes(g->node.at[i].attr.at[k].graph, from);
    }
    return from;
}

/* The node of that number, or the one that was split under that name; its graph. */
static Graph *find_node(Graph *g, int serial, int split, int *at) {
    Graph *found = NULL;
    for (int i = 0; i < g->node.n && !found; i++) {
        const Node *node = &g->node.at[i];
        *at = i;
        if (node->serial == serial || (split > 0 && node->split == split)) return g;
        for (int k = 0; k < node->attr.n && !found; k++)
            if (node->attr.at[k].graph)
                found = find_node(node->attr.at[k].graph, serial, split, at);
    }
    return found;
}

typedef struct Before {
    Graph *graph; /* as it was before readers of the node's results moved */
    int times;    /* that they did */
} Before;

typedef struct Splits {
    Arena *arena;
    Graph *graph;
    const OpTable *ops;
    VEC(Before) before; /* of the node whose `split` is 1, 2 .. */
} Splits;

/* What is read where it is made now has a rank there. */
static void close_results(Graph *g) {
    for (int i = 0; i < g->node.n; i++)
        if (g->node.at[i].split == SPLIT_OPEN) g->node.at[i].split = 0;
}

static void move_readers(Splits *s, const RankSplit *asked, Graph *g, int at) {
    int *split = &g->node.at[at].split;
    if (*split <= 0) {
        *split = s->before.n + 1;
        vec_push(s->arena, &s->before, (Before){graph_clone(s->arena, s->graph), 0});
    }
    Node node = g->node.at[at];
    int half = s->before.at[node.split - 1].times++ / 2;
    if (!graph_sink(g, at, asked->result, asked->n, 1 << (half < DOUBLED ? half : DOUBLED)))
        g->node.at[at].split = SPLIT_OPEN;
    else
        for (int i = 0; i < node.attr.n; i++)
            if (node.attr.at[i].graph) close_results(node.attr.at[i].graph);
}

static void do_asked(Splits *s, const RankSplit *asked) {
    int at, split;
    Graph *g = find_node(s->graph, asked->serial, 0, &at);
    if (asked->rewrite) {
        asked->rewrite(g, at, s->ops);
        return;
    }
    if (!asked->choice) {
        move_readers(s, asked, g, at);
        return;
    }
    split = g->node.at[at].split;
    if (split > 0) {
        s->graph = graph_clone(s->arena, s->before.at[split - 1].graph);
        g = find_node(s->graph, 0, split, &at);
    }
    g->node.at[at].split = asked->choice;
}

/* What follows branches of two ranks moves into them, until the ranks meet. Where that fits one of
 * them only, the rest is for that one. A loop that changes a rank is rewritten by its operator. */
static Graph *infer_split(Arena *arena, const Graph *g, const PassEnv *env) {
    Arena *own = arena_new(g->ctx);
    Splits s = {.arena = own, .graph = graph_clone(own, g), .ops = env->ops};
    bool asked = true;
    int most = number_nodes(s.graph, 0) * GROWTH + SMALL_GRAPH;
    for (int i = 0; i < ATTEMPTS && asked && number_nodes(s.graph, 0) <= most; i++) {
        Attempt a = {.arena = arena_new(g->ctx), .g = s.graph, .env = env, .quiet = true};
        attempt(&a);
        asked = a.split.asked;
        if (asked) do_asked(&s, &a.split);
        arena_free(a.arena);
    }
    Graph *out = infer_all(arena, s.graph, env, NULL);
    arena_free(own);
    return out;
}

Graph *pass_infer(Arena *arena, const Graph *g, const PassEnv *env);
Graph *pass_infer(Arena *arena, const Graph *g, const PassEnv *env) {
    Attempt a = {.arena = arena, .g = g, .env = env};
    if (attempt(&a)) return a.out;
    return a.split.asked ? infer_split(arena, g, env) : infer_all(arena, g, env, NULL);
}
