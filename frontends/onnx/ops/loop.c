/* SPDX-License-Identifier: Apache-2.0 */
/* Loop.
 *
 * Loops carry their values in containers: `cur` holds what the body reads, `next` is what it
 * computed. Results that collect one slice per iteration are containers over the loop's variable;
 * when the number of iterations depends on data their first dim is a symbol that the loop defines.
 * A tensor whose shape changes is carried as an object, which each iteration opens: its sizes are
 * symbols then. One that no iteration reads may even change its rank: what follows is typed for
 * what an iteration leaves, and a run without iterations ends with an error there. Other changes of
 * rank end after some iterations, which are peeled off, or all are. */
#include "control.h"
#include "object.h"

/* Body inputs: iteration, condition, carried; body results: condition, carried, slices. */
static int loop_carried(const Node *node) {
    return node->in.n > 2 ? node->in.n - 2 : 0;
}

/* Is the body's condition known to hold? */
static bool goes_on(const Infer *in, const Graph *g) {
    const Dim *at;
    int n;
    int64_t x;
    return value_known(in, g, control_result(g, 0), &at, &n) && n == 1 && dim_is_const(at[0], &x) &&
           x;
}

/* The iteration is a known value, the loop's variable: so shapes and indices that depend on it are
 * expressions. It is a symbol of the model while the body is inferred, of the body's graph from
 * then on. */
static Dim iteration_open(Infer *in, Dim trip) {
    return infer_fresh(in, "t", trip ? dim_addc(in->ctx, trip, -1) : NULL);
}

static void iteration_close(const Infer *in, Graph *body, Dim t) {
    Graph *root = (Graph *)graph_root(in->graph);
    int k = 0;
    body->symbol.n = 0;
    for (int i = 0; i < root->symbol.n; i++)
        if (root->symbol.at[i].sym != t)
            root->symbol.at[k++] = root->symbol.at[i];
        else
            vec_push(body->arena, &body->symbol, root->symbol.at[i]);
    root->symbol.n = k;
}

static bool data_decide(const Infer *in, Dim d) {
    const Graph *root = graph_root(in->graph);
    for (int i = 0; i < root->symbol.n; i++)
        if (root->symbol.at[i].upper && dim_uses(d, root->symbol.at[i].sym)) return true;
    return false;
}

/* Does a size leave an iteration, whose number is t, as another one than it enters it? Symbols from
 * `first` on are the body's. Sizes of the model that may be equal must be: the run looks. Those
 * that data decide may differ. */
static bool size_changes(const Infer *in, Dim enters, Dim leaves, Dim t, int first) {
    DimEnv env = graph_env(in->arena, graph_root(in->graph));
    Dim more = dim_sub(in->ctx, leaves, enters);
    if (enters == leaves) return false;
    if (dim_uses(leaves, t) || (dim_sym_name(enters) && dim_uses(leaves, enters))) return true;
    if (object_inner(in, leaves, first)) return true;
    if (data_decide(in, enters) || data_decide(in, leaves)) return true;
    return dim_ge0(in->ctx, dim_addc(in->ctx, more, -1), &env) ||
           dim_ge0(in->ctx, dim_addc(in->ctx, dim_mulc(in->ctx, more, -1), -1), &env);
}

/* Sizes of a carried tensor that change become symbols; true when there is a new one. */
static bool widen_shape(Infer *in, Type *carried, const Type *after, Dim t, int first) {
    bool wider = false;
    Dim *shape = NEW_ARRAY(in->arena, Dim, RANK_MAX);
    for (int k = 0; k < carried->rank && carried->rank == after->rank; k++) {
        bool open = object_inner(in, carried->shape[k], first);
        shape[k] = carried->shape[k];
        if (open || !size_changes(in, carried->shape[k], after->shape[k], t, first)) continue;
        shape[k] = infer_fresh(in, "carried", dim_const(in->ctx, INT32_MAX));
        wider = true;
    }
    if (wider) carried->shape = shape;
    return wider;
}

static bool is_one(const Type *t) {
    bool one = t->kind == TYPE_TENSOR;
    for (int k = 0; k < t->rank; k++) one = one && dim_is(t->shape[k], 1);
    return one;
}

/* A single element that changes its rank: carried with the larger one. */
static bool one_of_ranks(const Type *a, const Type *b) {
    return a->dtype == b->dtype && a->rank != b->rank && is_one(a) && is_one(b);
}

static bool widen_rank(Type *carried, const Type *after) {
    if (!one_of_ranks(carried, after) || carried->rank > after->rank) return false;
    carried->rank = after->rank;
    carried->shape = after->shape;
    return true;
}

/* The trip count as a size; NULL when there is none or only data tells it. */
static Dim loop_trip(Ctx *ctx, const Graph *graph, const Node *node) {
    Graph *g = (Graph *)graph;
    Infer in = {.ctx = ctx, .arena = g->arena, .graph = g, .node = (Node *)node};
    const Dim *at;
    int n;
    if (nn_absent(node, 0) || !infer_known(&in, 0, &at, &n) || n != 1) return NULL;
    DimEnv env = graph_env(g->arena, g);
    return dim_simplify(ctx, dim_max(ctx, at[0], dim_const(ctx, 0)), &env);
}

static bool graph_reads(const Graph *g, int value) {
    bool reads = false;
    for (int i = 0; i < g->output.n; i++) reads = reads || g->output.at[i] == value;
    for (int i = 0; i < g->node.n; i++) {
        const Node *node = &g->node.at[i];
        for (int k = 0; k < node->in.n; k++) reads = reads || node->in.at[k] == value;
        for (int k = 0; k < node->attr.n; k++) {
            const Graph *sub = node->attr.at[k].graph;
            for (int v = 0; sub && v < sub->value.n; v++)
                reads = reads ||
                        (sub->value.at[v].kind == VALUE_OUTER && sub->value.at[v].outer == value);
        }
    }
    return reads;
}

/* Does carried tensor i only leave iterations, with another rank than the operand has? */
static bool loop_replaces(const Graph *g, int i) {
    const Type *enters = &g->value.at[g->input.at[2 + i]].type,
               *leaves = &control_result(g, 1 + i)->type;
    return enters->kind == TYPE_TENSOR && leaves->kind == TYPE_TENSOR &&
           enters->dtype == leaves->dtype && enters->rank != leaves->rank &&
           !graph_reads(g, g->input.at[2 + i]);
}

/* Iterations that are peeled off to find the rank that a carried value keeps. */
enum { PEELS = 4 };

/* Tensor i leaves an iteration with another rank than it entered it with. */
static void keep_rank(Infer *in, const Graph *g, int i, const Type *enters) {
    const Value *after = control_result(g, 1 + i);
    const Type *leaves = &after->type;
    Dim trip = loop_trip(in->ctx, in->graph, in->node);
    bool bounded = trip && dim_is_const(trip, NULL);
    if (leaves->kind != TYPE_TENSOR || leaves->dtype != enters->dtype ||
        leaves->rank == enters->rank || one_of_ranks(enters, leaves) || loop_replaces(g, i))
        return;
    const char *why = internf(
        in->ctx,
        "\"%s\" enters an iteration as %s and leaves it as %s: the rank of a carried value "
        "must stay the same after %d iterations at most, or the number of iterations be known at "
        "compile time",
        control_input((Graph *)g, 2 + i)->name, type_str(in->ctx, enters),
        type_str(in->ctx, leaves), PEELS);
    if (in->node->peeled < (bounded ? RANK_MAX : PEELS))
        control_rewrite(in, in->node, loop_peel, why);
    fail(in->ctx, E_UNSUPPORTED, "%s", why);
}

/* Sequences and optionals may enter an iteration as what they leave it as, tensors with other
 * sizes; true when that made a type wider. */
static bool loop_widen(Infer *in, const Graph *g, Dim t, int first, Type *carried) {
    bool wider = false;
    for (int i = 0; i < loop_carried(in->node); i++) {
        const Type *leaves = &control_result(g, 1 + i)->type;
        Type after = object_closed(in, leaves, first), both;
        if (!object_is(&carried[i]) && !object_is(&after)) {
            keep_rank(in, g, i, &carried[i]);
            wider = widen_shape(in, &carried[i], leaves, t, first) ||
                    widen_rank(&carried[i], leaves) || wider;
            continue;
        }
        if (!object_join(in, &carried[i], &after, &both))
            fail(in->ctx, E_TYPE, "\"%s\" enters an iteration as %s and leaves it as %s",
                 control_result(g, 1 + i)->name, type_str(in->ctx, &carried[i]),
                 type_str(in->ctx, &after));
        wider = wider || !object_same(&both, &carried[i]);
        carried[i] = both;
    }
    return wider;
}

/* The iteration's number, the condition: a scalar, or a vector of one where the body says so. */
static void set_single(const Infer *in, Graph *g, int input, DType t) {
    const Type *said = &control_input(g, input)->type;
    Dim *one = NEW_ARRAY(in->arena, Dim, 1);
    one[0] = dim_const(in->ctx, 1);
    int rank = said->kind == TYPE_TENSOR && said->rank == 1;
    control_set_type(g, input,
                     &(Type){.kind = TYPE_TENSOR, .dtype = t, .rank = rank, .shape = one});
}

/* Infers the body; true when its condition holds in every iteration, given that it holds at first.
 */
static bool loop_body_infer(Infer *in, Graph *g, Dim t, Type *carried) {
    bool starts = nn_absent(in->node, 1) || control_known(in->ctx, in->graph, in->node, 1) == 1;
    Dim *one = NEW_ARRAY(in->arena, Dim, 2);
    one[0] = dim_const(in->ctx, 1);
    one[1] = t;
    int first = graph_root(in->graph)->symbol.n;
    for (int attempt = 0; attempt < 8; attempt++) {
        set_single(in, g, 0, I64);
        control_input(g, 0)->known = &one[1];
        set_single(in, g, 1, BOOL);
        for (int i = 0; i < loop_carried(in->node); i++) control_set_type(g, 2 + i, &carried[i]);
        if (starts) control_input(g, 1)->known = one;
        infer_graph(in, g);
        bool wider = loop_widen(in, g, t, first, carried);
        if (!wider && (!starts || goes_on(in, g))) return starts;
        if (!wider) starts = false;
    }
    fail(in->ctx, E_UNSUPPORTED, "the types of carried values grow with each iteration");
}

static bool shapes_use(const Graph *g, Dim d) {
    bool uses = false;
    for (int i = 0; i < g->value.n; i++) {
        const Type *t = &g->value.at[i].type;
        for (int k = 0; t->kind == TYPE_TENSOR && k < t->rank; k++)
            uses = uses || dim_uses(t->shape[k], d);
    }
    for (int i = 0; i < g->node.n; i++)
        for (int k = 0; k < g->node.at[i].attr.n; k++)
            if (g->node.at[i].attr.at[k].kind == ATTR_GRAPH)
                uses = uses || shapes_use(g->node.at[i].attr.at[k].graph, d);
    return uses;
}

/* The body with the iteration as known value: the loop's variable. Where sizes depend on it, it is
 * a symbol that each iteration defines instead, so that memory follows. */
static Dim loop_body(Infer *in, Graph *g, Dim trip, Type *carried, bool *always) {
    int n = loop_carried(in->node);
    for (int i = 0; i < n; i++) carried[i] = infer_in(in, 2 + i)->type;
    Dim t = iteration_open(in, trip);
    *always = loop_body_infer(in, g, t, carried);
    iteration_close(in, g, t);
    if (!shapes_use(g, t)) return t;
    g->symbol.n = 0;
    for (int i = 0; i < n; i++) carried[i] = infer_in(in, 2 + i)->type;
    t = infer_fresh(in, "t", dim_const(in->ctx, INT32_MAX));
    *always = loop_body_infer(in, g, t, carried);
    return t;
}

/* What a stacked result holds of one iteration: where that seems to depend on the iteration, as the
 * model declares it. */
static Type loop_slice(Infer *in, int i, const Type *slice, Dim t) {
    const Type *said = infer_declared(in, i);
    Type part = *slice;
    bool varies = false;
    for (int k = 0; k < slice->rank; k++) varies = varies || dim_uses(slice->shape[k], t);
    if (varies && said && said->rank == slice->rank + 1) part.shape = said->shape + 1;
    return part;
}

/* Does size k of a carried tensor change? The body's input has a symbol instead of the operand's.
 */
static bool loop_varies(const Graph *g, int i, const Dim *shape, int k) {
    return g->value.at[g->input.at[2 + i]].type.shape[k] != shape[k];
}

/* The sizes of carried tensor i that do not change are those that the body gives. */
static void loop_kept(const Infer *in, Graph *g, int i) {
    const Type *operand = &infer_in(in, 2 + i)->type;
    Value before = *control_input(g, 2 + i), after = *control_result(g, 1 + i);
    Dim shape[RANK_MAX];
    for (int k = 0; k < after.type.rank; k++)
        shape[k] = k < operand->rank && operand->rank == before.type.rank &&
                           loop_varies(g, i, operand->shape, k)
                       ? before.type.shape[k]
                       : after.type.shape[k];
    after.type.shape = shape;
    control_carried(in, &before, &after);
}

/* A loop without iterations gives what it is given, and slices of nothing. Its body knows no
 * iteration's number. */
static void loop_infer_none(Infer *in, Graph *g) {
    int n = loop_carried(in->node), first = graph_root(in->graph)->symbol.n;
    Dim zero = dim_const(in->ctx, 0);
    for (int i = 0; i < n; i++) infer_set_type(in, i, &infer_in(in, 2 + i)->type);
    set_single(in, g, 0, I64);
    if (in->node->out.n == n) return;
    set_single(in, g, 1, BOOL);
    for (int i = 0; i < n; i++) control_set_type(g, 2 + i, &infer_in(in, 2 + i)->type);
    infer_graph(in, g);
    for (int i = n; i < in->node->out.n; i++) {
        Type slice = control_result(g, 1 + i)->type;
        Dim shape[RANK_MAX];
        control_tensor(in, control_result(g, 1 + i));
        for (int k = 0; k < slice.rank; k++)
            shape[k] = object_inner(in, slice.shape[k], first) ? zero : slice.shape[k];
        slice.shape = shape;
        control_stacked(in, i, &slice, zero, 0);
    }
}

static void loop_infer(Infer *in) {
    Graph *g = control_body(in->ctx, in->node, "body");
    int n = loop_carried(in->node), slices = in->node->out.n - n;
    control_count(in->ctx, "inputs", g->input.n, 2 + n);
    control_count(in->ctx, "results", g->output.n, 1 + in->node->out.n);
    Type *carried = NEW_ARRAY(in->arena, Type, n + 1);
    for (int i = 0; i < n; i++)
        if (!infer_in(in, 2 + i)) fail(in->ctx, E_MODEL, "operand %d is missing", 2 + i);
    for (int i = 0; i < 2; i++) nn_need_one(in->ctx, infer_in(in, i), RANK_MAX);
    bool always;
    int first = graph_root(in->graph)->symbol.n;
    Dim trip = loop_trip(in->ctx, in->graph, in->node), count = trip;
    if (trip && dim_is(trip, 0)) {
        loop_infer_none(in, g);
        return;
    }
    Dim t = loop_body(in, g, trip, carried, &always);
    nn_need_one(in->ctx, control_result(g, 0), RANK_MAX);
    if (control_result(g, 0)->type.dtype == STRING)
        fail(in->ctx, E_TYPE, "the condition that the body gives is text: it must be bool");
    if ((!always || !trip) && slices > 0)
        count = infer_fresh(in, "iterations", trip ? trip : dim_const(in->ctx, INT32_MAX));
    for (int i = 0; i < n; i++) {
        const Type *said = infer_declared(in, i);
        if (object_is(&carried[i]))
            carried[i] = control_joined(in, i, &carried[i], &carried[i]);
        else if (loop_replaces(g, i))
            carried[i] = control_result(g, 1 + i)->type;
        else if (!one_of_ranks(&carried[i], &control_result(g, 1 + i)->type) &&
                 (!said || !object_same(said, &carried[i])))
            loop_kept(in, g, i);
        Type closed = object_closed(in, &carried[i], first);
        carried[i] = object_opened(in, &closed, said, control_result(g, 1 + i)->name);
        infer_set_type(in, i, &carried[i]);
    }
    for (int i = n; i < in->node->out.n; i++) {
        control_tensor(in, control_result(g, 1 + i));
        Type slice = loop_slice(in, i, &control_result(g, 1 + i)->type, t);
        control_stacked(in, i, &slice, count, 0);
    }
}

typedef struct Looping {
    Item *item;
    Graph *body;
    int carried;
    bool always; /* the condition never ends it */
    Dim trip;
    Dim defines;   /* the iteration as a symbol that sizes use, or NULL */
    int count;     /* container of a trip count that only data tells, or -1 */
    int *in, *out; /* containers of the body's inputs and results */
    int *cur;      /* carried containers: the body's inputs, or objects that hold them */
} Looping;

static Looping loop_open(Lower *lo) {
    Looping l = {.body = control_body(lo->ctx, lo->node, "body"),
                 .carried = loop_carried(lo->node),
                 .count = -1};
    l.trip = loop_trip(lo->ctx, lo->graph, lo->node);
    l.always = control_input(l.body, 1)->known != NULL;
    l.in = NEW_ARRAY(lo->arena, int, l.body->input.n);
    l.cur = NEW_ARRAY(lo->arena, int, l.carried + 1);
    l.out = NEW_ARRAY(lo->arena, int, l.body->output.n);
    if (!l.trip && !nn_absent(lo->node, 0)) {
        l.count = nn_scalar(lo, "count", lower_in(lo, 0), I64, 0);
        l.always = false;
    }
    return l;
}

/* The condition before the first iteration: the operand's, and that there is one to run. */
static int loop_first(Lower *lo, const Looping *l) {
    int cond = nn_scalar(lo, "starts", lower_in(lo, 1), BOOL, 1),
        first = lower_tmp(lo, "first", BOOL, NULL, 0);
    if (l->count < 0) return cond;
    lower_pointwise(lo, "first", "$0 & ($1 > 0)", (int[]){cond, l->count}, 2, first);
    return first;
}

/* In the body: whether another iteration follows. */
static int loop_next(Lower *lo, const Looping *l) {
    int cond = nn_scalar(lo, "goes_on", l->out[0], BOOL, 1);
    if (l->count < 0) return cond;
    int next = lower_tmp(lo, "next", BOOL, NULL, 0);
    Map *m = lower_map(lo, "next");
    int t = body_index(&m->body, dim_addc(lo->ctx, l->item->var, 1));
    int val =
        EXPR(m, "$0 & ($1 < $2)", nn_read(lo, m, cond, NULL), t, nn_read(lo, m, l->count, NULL));
    nn_write(lo, m, next, NULL, val);
    return next;
}

/* A tensor as one of type t, which may have the same element in a larger rank. */
static int loop_cast(Lower *lo, int from, const Type *t) {
    if (object_is(t) || nn_cont(lo, from)->rank >= t->rank) return object_cast(lo, from, t);
    int to = lower_tmp(lo, "as", t->dtype, t->shape, t->rank);
    lower_pointwise(lo, "as", "$0", &from, 1, to);
    return to;
}

/* What carries operand i of the body: an object when its sizes change. */
static int loop_init(Lower *lo, const Looping *l, int i) {
    int from = lower_in(lo, 2 + i);
    const Type *t = &control_input(l->body, 2 + i)->type;
    Shape s = nn_shape(lo, from);
    bool varies = loop_replaces(l->body, i);
    for (int k = 0; t->kind == TYPE_TENSOR && k < s.rank && s.rank == t->rank; k++)
        varies = varies || (loop_varies(l->body, i, s.at, k) && nn_data_size(lo, t->shape[k]));
    return varies ? object_box(lo, from, t->dtype) : loop_cast(lo, from, t);
}

/* A carried container as the value that the body, or who comes after the loop, sees. */
static int loop_opened(Lower *lo, int cur, const Type *t) {
    if (object_is(t) || nn_cont(lo, cur)->type != OBJECT) return cur;
    int to = lower_tmp(lo, "open", t->dtype, t->shape, t->rank);
    object_unbox(lo, cur, to, t->dtype);
    return to;
}

static void loop_lower_body(Lower *lo, Looping *l) {
    int index = lower_tmp(lo, "i", I64, NULL, 0);
    Map *m = lower_map(lo, "i");
    nn_write(lo, m, index, NULL, body_index(&m->body, l->item->var));
    if (l->defines) nn_define(lo, l->defines, index, 0, dim_const(lo->ctx, INT32_MAX));
    l->in[0] = loop_cast(lo, index, &control_input(l->body, 0)->type);
    int cond = l->always ? lower_scalar(lo, "true", BOOL, 1) : l->item->cond;
    l->in[1] = loop_cast(lo, cond, &control_input(l->body, 1)->type);
    for (int i = 0; i < l->carried; i++)
        l->in[2 + i] = loop_replaces(l->body, i)
                           ? l->cur[i]
                           : loop_opened(lo, l->cur[i], &control_input(l->body, 2 + i)->type);
    lower_graph(lo, l->body, lo->into, l->in, l->out);
    int n = l->carried, first = l->always ? 0 : 1;
    if (!l->always) l->item->carry.at[0].next = loop_next(lo, l);
    for (int i = 0; i < n; i++)
        l->item->carry.at[first + i].next =
            nn_cont(lo, l->cur[i])->type == OBJECT
                ? object_box(lo, l->out[1 + i], control_result(l->body, 1 + i)->type.dtype)
                : loop_cast(lo, l->out[1 + i], &control_input(l->body, 2 + i)->type);
    for (int i = n; i < lo->node->out.n; i++) {
        if (lower_out(lo, i) < 0) continue;
        Type slice = control_bound(lo, i)->type;
        slice.shape++, slice.rank--;
        control_stack(lo, object_cast(lo, l->out[1 + i], &slice), lower_out(lo, i), 0,
                      l->item->var);
    }
}

/* The symbol that stands for the number of iterations: dim 0 of a stacked result. */
static Dim loop_done(Lower *lo, const Looping *l) {
    for (int i = l->carried; i < lo->node->out.n; i++)
        if (lower_out(lo, i) >= 0) return nn_shape(lo, lower_out(lo, i)).at[0];
    return NULL;
}

static void loop_lower_none(Lower *lo) {
    int n = loop_carried(lo->node);
    for (int i = 0; i < lo->node->out.n; i++) {
        if (!control_bound(lo, i)) continue;
        if (i < n)
            control_bind(lo, i, lower_in(lo, 2 + i));
        else
            nn_fill(lo, "none", lower_out(lo, i), 0);
    }
}

static void loop_lower(Lower *lo) {
    if (!control_input(control_body(lo->ctx, lo->node, "body"), 0)->known) {
        loop_lower_none(lo);
        return;
    }
    Looping l = loop_open(lo);
    int first = l.always ? -1 : loop_first(lo, &l);
    int *init = NEW_ARRAY(lo->arena, int, l.carried + 1);
    for (int i = 0; i < l.carried; i++) init[i] = loop_init(lo, &l, i);
    Dim done = l.always && l.trip ? NULL : loop_done(lo, &l);
    Items *into = lo->into;
    Dim t = control_input(l.body, 0)->known[0];
    for (int i = 0; i < lo->flow->symbol.n; i++)
        if (lo->flow->symbol.at[i].sym == t) l.defines = t;
    l.item = nn_loop(lo, l.defines ? NULL : t, l.trip);
    l.item->done = done;
    if (!l.always) l.item->cond = control_carry(lo, l.item, first, control_input(l.body, 1));
    for (int i = 0; i < l.carried; i++)
        l.cur[i] = control_carry(lo, l.item, init[i], control_input(l.body, 2 + i));
    lo->into = &l.item->body;
    loop_lower_body(lo, &l);
    lo->into = into;
    for (int i = 0; i < l.carried; i++)
        if (control_bound(lo, i))
            control_bind(lo, i, loop_opened(lo, l.cur[i], &control_bound(lo, i)->type));
}

/* Does value v of the body g come from the iteration's number? */
static bool counts(const Graph *g, int v) {
    bool *set = NEW_ARRAY(g->arena, bool, g->value.n + 1);
    set[g->input.at[0]] = true;
    for (int i = 0; i < g->node.n; i++) {
        const Node *node = &g->node.at[i];
        bool any = false;
        for (int k = 0; k < node->in.n; k++)
            any = any || (node->in.at[k] >= 0 && set[node->in.at[k]]);
        for (int k = 0; any && k < node->out.n; k++)
            if (node->out.at[k] >= 0) set[node->out.at[k]] = true;
    }
    return set[v];
}

const Node *loop_to_peel(const Infer *in, int value) {
    const Graph *around = in->graph->outer;
    for (int i = 0; around && i < around->node.n; i++) {
        const Node *node = &around->node.at[i];
        const Attr *body = node->row->infer == loop_infer ? node_attr(node, "body") : NULL;
        if (body && body->kind == ATTR_GRAPH && body->graph == in->graph)
            return node->peeled || !counts(in->graph, value) ? NULL : node;
    }
    return NULL;
}

const OpRow onnx_loop_rows[] = {
    {"", "Loop", 1, 0, loop_infer, loop_lower, NULL, NULL, 0},
    {0},
};
