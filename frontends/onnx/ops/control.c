/* SPDX-License-Identifier: Apache-2.0 */
/* If, Loop.
 *
 * A condition that is known at compile time leaves one branch, lowered in place. Else both branches
 * write the same containers. Loops carry their values in containers: `cur` holds what the body
 * reads, `next` is what it computed. Results that collect one slice per iteration are containers
 * over the loop's variable; when the number of iterations depends on data their first dim is a
 * symbol that the loop defines. Carried shapes must not change. */
#include "control.h"
#include "object.h"

Graph *control_body(Ctx *ctx, const Node *node, const char *name) {
    const Attr *a = node_attr(node, name);
    if (!a || a->kind != ATTR_GRAPH)
        fail(ctx, E_ATTRIBUTE, "attribute \"%s\" must be a graph", name);
    return a->graph;
}

const Value *control_result(const Graph *g, int i) {
    return &g->value.at[g->output.at[i]];
}

Value *control_input(Graph *g, int i) {
    return &g->value.at[g->input.at[i]];
}

void control_count(Ctx *ctx, const char *what, int have, int need) {
    if (have != need) fail(ctx, E_MODEL, "the body has %d %s: it needs %d", have, what, need);
}

/* An integer or bool operand, if all is known about it; -1 else. */
static int64_t known_scalar(Ctx *ctx, const Graph *graph, const Node *node, int i) {
    Graph *g = (Graph *)graph;
    Infer in = {.ctx = ctx, .arena = g->arena, .graph = g, .node = (Node *)node};
    const Dim *at;
    int n;
    int64_t v;
    return infer_known(&in, i, &at, &n) && n == 1 && dim_is_const(at[0], &v) ? v : -1;
}

void control_tensor(const Infer *in, const Value *v) {
    if (v->type.kind != TYPE_TENSOR)
        fail(in->ctx, E_UNSUPPORTED,
             "\"%s\" is not a tensor: sequences and optionals cannot be stacked or scanned",
             v->name);
}

/* The value of result i of lo->node lies in `from`: the container itself where none was made
 * before. */
void control_bind(Lower *lo, int i, int from) {
    if (i >= lo->node->out.n || lo->node->out.at[i] < 0) return;
    int v = lo->node->out.at[i];
    if (lo->cont[v] < 0)
        lo->cont[v] = from;
    else if (lo->cont[v] != from)
        lower_copy(lo, "result", from, lo->cont[v]);
}

static const Value *lower_result(const Lower *lo, int i) {
    int v = i < lo->node->out.n ? lo->node->out.at[i] : -1;
    return v < 0 ? NULL : &lo->graph->value.at[v];
}

/* ---- If -------------------------------------------------------------------------------------- */

/* Which branch gives the results' types when their ranks differ: the one that the model's own
 * declaration has, else `then`. The other is compiled to an error at run time: whatever follows is
 * typed for one rank only. (Exporters write a squeeze of a dim that may be 1 like this.) */
static const Value *ranked_result(Infer *in, int i, const Value *a, const Value *b,
                                  const Type *said) {
    const Value *pick = said && said->rank == b->type.rank ? b : a, *drop = pick == a ? b : a;
    warn(in->ctx, E_UNSUPPORTED,
         "result %d is %s in one branch and %s in the other: the branch of rank %d becomes an "
         "error at "
         "run time, for the values behind it are compiled for rank %d",
         i, type_str(in->ctx, &a->type), type_str(in->ctx, &b->type), drop->type.rank,
         pick->type.rank);
    return pick;
}

/* Of sequences and optionals; a model that declares a value where there may be none promises it. */
static Type control_joined(Infer *in, int i, const Type *a, const Type *b) {
    const Type *said = in->declared && i < in->node->out.n ? &in->declared[i] : NULL;
    Type both;
    if (!object_join(in, a, b, &both))
        fail(in->ctx, E_TYPE, "result %d is %s in one case and %s in the other", i,
             type_str(in->ctx, a), type_str(in->ctx, b));
    if (both.kind == TYPE_OPTIONAL && said && said->kind == both.elem->kind) return *both.elem;
    return both;
}

/* One element: as good as one of any rank, for whatever follows broadcasts it. */
static bool is_single(const Type *t) {
    for (int i = 0; i < t->rank; i++)
        if (!dim_is(t->shape[i], 1)) return false;
    return true;
}

/* At most what a size is, in sizes of the model; more than any when that cannot be told. */
static Dim known_bound(const Infer *in, Dim size) {
    const Graph *root = graph_root(in->graph);
    DimRange *range = NEW_ARRAY(in->arena, DimRange, root->symbol.n + 1);
    DimEnv env = {.at = range};
    for (int i = 0; i < root->symbol.n; i++)
        if (root->symbol.at[i].upper)
            range[env.n++] =
                (DimRange){root->symbol.at[i].sym, dim_const(in->ctx, 0), root->symbol.at[i].upper};
    Dim most = dim_upper(in->ctx, size, &env);
    return most ? most : dim_const(in->ctx, INT32_MAX);
}

/* Dims of both branches; where they differ, what the model declares, or else what the branch that
 * runs has. */
static const Dim *if_shape(Infer *in, const Type *a, const Type *b, const Type *said) {
    Dim *shape = NEW_ARRAY(in->arena, Dim, a->rank);
    bool same = true;
    for (int k = 0; k < a->rank; k++) same = same && a->shape[k] == b->shape[k];
    if (!same && said && said->rank == a->rank) return said->shape;
    for (int k = 0; k < a->rank; k++)
        shape[k] = a->shape[k] == b->shape[k]
                       ? a->shape[k]
                       : infer_fresh(in, "extent",
                                     dim_max(in->ctx, known_bound(in, a->shape[k]),
                                             known_bound(in, b->shape[k])));
    return shape;
}

static void if_result(Infer *in, int i, const Value *a, const Value *b) {
    const Type *said = infer_declared(in, i);
    if (object_is(&a->type) || object_is(&b->type)) {
        Type both = control_joined(in, i, &a->type, &b->type);
        infer_set_type(in, i, &both);
        return;
    }
    control_tensor(in, a);
    control_tensor(in, b);
    if (a->type.dtype != b->type.dtype)
        fail(in->ctx, E_TYPE, "result %d is %s in one branch and %s in the other: cast one", i,
             dtype_name(a->type.dtype), dtype_name(b->type.dtype));
    if (a->type.rank != b->type.rank && is_single(&a->type) && is_single(&b->type))
        a = b = a->type.rank > b->type.rank ? a : b;
    if (a->type.rank != b->type.rank) a = b = ranked_result(in, i, a, b, said);
    infer_set(in, i, a->type.dtype, if_shape(in, &a->type, &b->type, said), a->type.rank);
}

static void if_infer(Infer *in) {
    Graph *yes = control_body(in->ctx, in->node, "then_branch"),
          *no = control_body(in->ctx, in->node, "else_branch");
    nn_need_one(in->ctx, infer_in(in, 0), RANK_MAX);
    int64_t cond = known_scalar(in->ctx, in->graph, in->node, 0);
    control_count(in->ctx, "results", yes->output.n, in->node->out.n);
    control_count(in->ctx, "results", no->output.n, in->node->out.n);
    if (cond != 0) infer_graph(in, yes);
    if (cond <= 0) infer_graph(in, no);
    for (int i = 0; i < in->node->out.n; i++) {
        const Value *a = control_result(cond == 0 ? no : yes, i),
                    *b = control_result(cond > 0 ? yes : no, i);
        if_result(in, i, a, b);
        const Dim *known;
        int n = (int)type_count(&a->type);
        if (cond >= 0 && !value_known(in, cond ? yes : no, a, &known, &n)) known = a->partly;
        if (cond >= 0 && known) infer_set_known(in, i, known, n);
    }
}

static bool fits_results(Lower *lo, const Graph *g) {
    for (int i = 0; i < g->output.n; i++) {
        int y = lower_out(lo, i);
        if (y >= 0 && nn_cont(lo, y)->type == OBJECT) continue;
        if (y >= 0 && is_single(&control_result(g, i)->type) &&
            nn_cont(lo, y)->rank > control_result(g, i)->type.rank)
            continue;
        if (y >= 0 && nn_cont(lo, y)->rank != control_result(g, i)->type.rank) return false;
    }
    return true;
}

/* Instead of a branch that was not compiled: whoever comes here gets an error. */
static void refuse_branch(Lower *lo, int results) {
    int *out = NEW_ARRAY(lo->arena, int, results), n = 0;
    for (int i = 0; i < results; i++)
        if (lower_out(lo, i) >= 0) out[n++] = lower_out(lo, i);
    lower_call(lo, "refuse", NULL, 0, out, n, NULL, 0, NULL, 0);
}

static int if_cast(Lower *lo, int from, const Type *to) {
    bool tensors = to->kind == TYPE_TENSOR && nn_cont(lo, from)->type != OBJECT;
    return tensors ? from : object_cast(lo, from, to);
}

static bool is_data_size(const Lower *lo, Dim size) {
    for (int i = 0; i < lo->flow->symbol.n; i++)
        if (lo->flow->symbol.at[i].sym == size) return lo->flow->symbol.at[i].upper != NULL;
    return false;
}

/* Sizes of a result that only the branch which runs tells: those of what it made. */
static void if_extents(Lower *lo, int from, int to) {
    const Cont a = *nn_cont(lo, from), y = *nn_cont(lo, to);
    Dim last = dim_const(lo->ctx, INT32_MAX);
    for (int k = 0; k < y.rank && a.rank == y.rank; k++) {
        if (y.shape[k] == a.shape[k] || !is_data_size(lo, y.shape[k])) continue;
        int extent = lower_tmp(lo, "extent", I64, NULL, 0);
        Map *m = lower_map(lo, "extent");
        nn_write(lo, m, extent, NULL, body_index(&m->body, a.shape[k]));
        nn_define(lo, y.shape[k], extent, 0, last);
    }
}

static void if_branch(Lower *lo, const Graph *g, Items *into) {
    int *out = NEW_ARRAY(lo->arena, int, g->output.n + 1);
    Items *before = lo->into;
    lo->into = into;
    if (!fits_results(lo, g)) {
        refuse_branch(lo, g->output.n);
        lo->into = before;
        return;
    }
    lower_graph(lo, g, into, NULL, out);
    for (int i = 0; i < g->output.n; i++) {
        int y = lower_out(lo, i);
        if (y < 0) continue;
        int from = if_cast(lo, out[i], &lower_result(lo, i)->type);
        if_extents(lo, from, y);
        lower_copy(lo, "result", from, y);
    }
    lo->into = before;
}

static void if_lower(Lower *lo) {
    Graph *yes = control_body(lo->ctx, lo->node, "then_branch"),
          *no = control_body(lo->ctx, lo->node, "else_branch");
    int64_t known = known_scalar(lo->ctx, lo->graph, lo->node, 0);
    if (known >= 0) {
        const Graph *g = known ? yes : no;
        int *out = NEW_ARRAY(lo->arena, int, g->output.n + 1);
        lower_graph(lo, g, lo->into, NULL, out);
        for (int i = 0; i < g->output.n; i++)
            if (lower_result(lo, i))
                control_bind(lo, i, object_cast(lo, out[i], &lower_result(lo, i)->type));
        return;
    }
    int cond = nn_scalar(lo, "cond", lower_in(lo, 0), BOOL, 0);
    for (int i = 0; i < lo->node->out.n; i++) lower_out(lo, i);
    Item branch = {.kind = ITEM_IF, .cond = cond, .from = lo->node->name};
    vec_push(lo->arena, lo->into, branch);
    Item *item = &lo->into->at[lo->into->n - 1];
    if_branch(lo, yes, &item->body);
    if_branch(lo, no, &item->other);
}

/* ---- what Loop and Scan share ---------------------------------------------------------------- */

void control_set_type(Graph *g, int input, const Type *t) {
    Value *v = control_input(g, input);
    v->type = *t;
    v->known = NULL;
}

/* Result k of the body must have the type that the body's input has; sizes of the model that may be
 * equal must be when it runs. */
void control_carried(const Infer *in, const Value *before, const Value *after) {
    control_tensor(in, before);
    control_tensor(in, after);
    bool same = before->type.rank == after->type.rank && before->type.dtype == after->type.dtype;
    for (int i = 0; same && i < before->type.rank; i++) {
        Dim enters = before->type.shape[i], leaves = after->type.shape[i];
        bool differ = enters != leaves && dim_is_const(dim_sub(in->ctx, enters, leaves), NULL);
        same = !differ && infer_require(in, enters, leaves, false);
    }
    if (!same)
        fail(in->ctx, E_UNSUPPORTED,
             "\"%s\" enters an iteration as %s and leaves it as %s: a carried value must keep "
             "its shape",
             before->name, type_str(in->ctx, &before->type), type_str(in->ctx, &after->type));
}

/* One slice per iteration, stacked along `axis`. */
void control_stacked(Infer *in, int result, const Type *slice, Dim trip, int axis) {
    Dim shape[RANK_MAX + 1];
    if (slice->rank + 1 > RANK_MAX)
        fail(in->ctx, E_LIMIT, "result %d has more than %d dims", result, RANK_MAX);
    for (int i = 0; i <= slice->rank; i++)
        shape[i] = i < axis ? slice->shape[i] : i == axis ? trip : slice->shape[i - 1];
    infer_set(in, result, slice->dtype, shape, slice->rank + 1);
}

static void stack_slice(Lower *lo, int slice, int to, int axis, Dim t) {
    Dim at[RANK_MAX], out[RANK_MAX];
    Map *m = nn_map_over(lo, "slice", "", slice, at);
    int rank = nn_cont(lo, slice)->rank;
    for (int i = 0; i <= rank; i++) out[i] = i < axis ? at[i] : i == axis ? t : at[i - 1];
    map_write(lo->flow, m, to, out, nn_read_as(lo, m, slice, at, nn_cont(lo, slice)->type), NULL);
}

/* A container that an iteration reads and the next one finds changed. */
int control_carry(Lower *lo, Item *loop, int init, const Value *like) {
    const Type *t = &like->type;
    int cur =
        object_is(t) ? object_tmp(lo, "cur") : lower_tmp(lo, "cur", t->dtype, t->shape, t->rank);
    vec_push(lo->arena, &loop->carry, (Carry){cur, init, -1});
    return cur;
}

/* ---- Loop ------------------------------------------------------------------------------------ */

/* Body inputs: iteration, condition, carried; body results: condition, carried, slices. */
static int loop_carried(const Node *node) {
    return node->in.n > 2 ? node->in.n - 2 : 0;
}

static bool known_true(const Value *v) {
    int64_t x;
    return v->known && dim_is_const(v->known[0], &x) && x;
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

/* Sequences and optionals may enter an iteration as what they leave it as; true when that made a
 * type wider. */
static bool loop_widen(Infer *in, const Graph *g, int first, Type *carried) {
    bool wider = false;
    for (int i = 0; i < loop_carried(in->node); i++) {
        Type after = object_closed(in, &control_result(g, 1 + i)->type, first), both;
        if (!object_is(&carried[i]) && !object_is(&after)) continue;
        if (!object_join(in, &carried[i], &after, &both))
            fail(in->ctx, E_TYPE, "\"%s\" enters an iteration as %s and leaves it as %s",
                 control_result(g, 1 + i)->name, type_str(in->ctx, &carried[i]),
                 type_str(in->ctx, &after));
        wider = wider || !object_same(&both, &carried[i]);
        carried[i] = both;
    }
    return wider;
}

/* Infers the body; true when its condition holds in every iteration, given that it holds at first.
 */
static bool loop_body_infer(Infer *in, Graph *g, Dim t, Type *carried) {
    static const Type index = {.kind = TYPE_TENSOR, .dtype = I64},
                      flag = {.kind = TYPE_TENSOR, .dtype = BOOL};
    bool starts = nn_absent(in->node, 1) || known_scalar(in->ctx, in->graph, in->node, 1) == 1;
    Dim *one = NEW_ARRAY(in->arena, Dim, 2);
    one[0] = dim_const(in->ctx, 1);
    one[1] = t;
    int first = graph_root(in->graph)->symbol.n;
    for (int attempt = 0; attempt < 8; attempt++) {
        control_set_type(g, 0, &index);
        control_input(g, 0)->known = &one[1];
        control_set_type(g, 1, &flag);
        for (int i = 0; i < loop_carried(in->node); i++) control_set_type(g, 2 + i, &carried[i]);
        if (starts) control_input(g, 1)->known = one;
        infer_graph(in, g);
        bool wider = loop_widen(in, g, first, carried);
        if (!wider && (!starts || known_true(control_result(g, 0)))) return starts;
        if (!wider) starts = false;
    }
    fail(in->ctx, E_UNSUPPORTED, "the types of carried values grow with each iteration");
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
    Dim trip = loop_trip(in->ctx, in->graph, in->node), count = trip;
    Dim t = loop_body(in, g, trip, carried, &always);
    nn_need_one(in->ctx, control_result(g, 0), RANK_MAX);
    if (control_result(g, 0)->type.dtype == STRING)
        fail(in->ctx, E_TYPE, "the condition that the body gives is text: it must be bool");
    if ((!always || !trip) && slices > 0) count = infer_fresh(in, "iterations", trip);
    for (int i = 0; i < n; i++) {
        const Type *said = infer_declared(in, i);
        if (object_is(&carried[i]))
            carried[i] = control_joined(in, i, &carried[i], &carried[i]);
        else if (!said || !object_same(said, &carried[i]))
            control_carried(in, control_input(g, 2 + i), control_result(g, 1 + i));
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
} Looping;

static Looping loop_open(Lower *lo) {
    Looping l = {.body = control_body(lo->ctx, lo->node, "body"),
                 .carried = loop_carried(lo->node),
                 .count = -1};
    l.trip = loop_trip(lo->ctx, lo->graph, lo->node);
    l.always = control_input(l.body, 1)->known != NULL;
    l.in = NEW_ARRAY(lo->arena, int, l.body->input.n);
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

static void loop_lower_body(Lower *lo, Looping *l) {
    int index = lower_tmp(lo, "i", I64, NULL, 0);
    Map *m = lower_map(lo, "i");
    nn_write(lo, m, index, NULL, body_index(&m->body, l->item->var));
    if (l->defines) nn_define(lo, l->defines, index, 0, dim_const(lo->ctx, INT32_MAX));
    l->in[0] = index;
    lower_graph(lo, l->body, lo->into, l->in, l->out);
    int n = l->carried, first = l->always ? 0 : 1;
    if (!l->always) l->item->carry.at[0].next = loop_next(lo, l);
    for (int i = 0; i < n; i++)
        l->item->carry.at[first + i].next =
            object_cast(lo, l->out[1 + i], &control_input(l->body, 2 + i)->type);
    for (int i = n; i < lo->node->out.n; i++) {
        if (lower_out(lo, i) < 0) continue;
        Type slice = lower_result(lo, i)->type;
        slice.shape++, slice.rank--;
        stack_slice(lo, object_cast(lo, l->out[1 + i], &slice), lower_out(lo, i), 0, l->item->var);
    }
}

/* The symbol that stands for the number of iterations: dim 0 of a stacked result. */
static Dim loop_done(Lower *lo, const Looping *l) {
    for (int i = l->carried; i < lo->node->out.n; i++)
        if (lower_out(lo, i) >= 0) return nn_shape(lo, lower_out(lo, i)).at[0];
    return NULL;
}

static void loop_lower(Lower *lo) {
    Looping l = loop_open(lo);
    int first = l.always ? -1 : loop_first(lo, &l);
    int *init = NEW_ARRAY(lo->arena, int, l.carried + 1);
    for (int i = 0; i < l.carried; i++)
        init[i] = object_cast(lo, lower_in(lo, 2 + i), &control_input(l.body, 2 + i)->type);
    Dim done = l.always && l.trip ? NULL : loop_done(lo, &l);
    Items *into = lo->into;
    Dim t = control_input(l.body, 0)->known[0];
    for (int i = 0; i < lo->flow->symbol.n; i++)
        if (lo->flow->symbol.at[i].sym == t) l.defines = t;
    l.item = nn_loop(lo, l.defines ? NULL : t, l.trip);
    l.item->done = done;
    if (!l.always) l.item->cond = control_carry(lo, l.item, first, control_input(l.body, 1));
    l.in[1] = l.always ? lower_scalar(lo, "true", BOOL, 1) : l.item->cond;
    for (int i = 0; i < l.carried; i++)
        l.in[2 + i] = control_carry(lo, l.item, init[i], control_input(l.body, 2 + i));
    lo->into = &l.item->body;
    loop_lower_body(lo, &l);
    lo->into = into;
    for (int i = 0; i < l.carried; i++) control_bind(lo, i, l.in[2 + i]);
}

const OpRow onnx_control_rows[] = {
    {"", "If", 1, 0, if_infer, if_lower, NULL, "bool", 0},
    {"", "Loop", 1, 0, loop_infer, loop_lower, NULL, NULL, 0},
    {0},
};
