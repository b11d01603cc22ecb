/* SPDX-License-Identifier: Apache-2.0 */
/* If, and what Loop and Scan share.
 *
 * A condition that is known at compile time leaves one branch, lowered in place. Else both branches
 * write the same containers; sizes that differ are symbols, which the branch that runs defines. */
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
int64_t control_known(Ctx *ctx, const Graph *graph, const Node *node, int i) {
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

const Value *control_bound(const Lower *lo, int i) {
    int v = i < lo->node->out.n ? lo->node->out.at[i] : -1;
    return v < 0 ? NULL : &lo->graph->value.at[v];
}

/* ---- If -------------------------------------------------------------------------------------- */

/* Of sequences and optionals; a model that declares a value where there may be none promises it. */
Type control_joined(Infer *in, int i, const Type *a, const Type *b) {
    const Type *said = in->declared && i < in->node->out.n ? &in->declared[i] : NULL;
    Type both;
    if (!object_join(in, a, b, &both))
        fail(in->ctx, E_TYPE, "result %d is %s in one case and %s in the other", i,
             type_str(in->ctx, a), type_str(in->ctx, b));
    if (both.kind == TYPE_OPTIONAL && said && said->kind == both.elem->kind) return *both.elem;
    return both;
}

/* One element is as good as one of any rank where what follows broadcasts it; but the model's
 * caller sees the rank of a result. */
static bool rank_is_free(const Graph *g, const Node *node, int i, const Type *t) {
    for (int k = 0; k < t->rank; k++)
        if (!dim_is(t->shape[k], 1)) return false;
    for (int k = 0; graph_root(g) == g && k < g->output.n; k++)
        if (g->output.at[k] == node->out.at[i]) return false;
    return true;
}

enum { ANY_SIZE = INT32_MAX };

/* At most what a size is, in sizes of the model; ANY_SIZE when that cannot be told. */
static Dim known_bound(const Infer *in, Dim size) {
    const Graph *root = graph_root(in->graph);
    DimRange *range = NEW_ARRAY(in->arena, DimRange, root->symbol.n + 1);
    DimEnv env = {.at = range};
    for (int i = 0; i < root->symbol.n; i++)
        if (root->symbol.at[i].upper)
            range[env.n++] =
                (DimRange){root->symbol.at[i].sym, dim_const(in->ctx, 0), root->symbol.at[i].upper};
    Dim most = dim_upper(in->ctx, size, &env);
    int64_t last;
    bool any = !most || (dim_is_const(most, &last) && last > ANY_SIZE);
    return any ? dim_const(in->ctx, ANY_SIZE) : most;
}

static Dim joined_bound(const Infer *in, Dim a, Dim b) {
    Dim x = known_bound(in, a), y = known_bound(in, b);
    return dim_is(x, ANY_SIZE) ? x : dim_is(y, ANY_SIZE) ? y : dim_max(in->ctx, x, y);
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
                       : infer_fresh(in, "extent", joined_bound(in, a->shape[k], b->shape[k]));
    return shape;
}

/* Ends this inference: it begins anew when what is asked for is done. */
static void ask(Infer *in, int choice, int value, const char *why) {
    if (in->split) {
        int *result = NEW(in->arena, int);
        *result = value;
        *in->split = (RankSplit){true, in->node->serial, choice, result, 1, NULL};
    }
    fail(in->ctx, E_UNSUPPORTED, "%s", why);
}

void control_rewrite(const Infer *in, const Node *node, GraphRewrite *rewrite, const char *why) {
    if (in->split)
        *in->split = (RankSplit){.asked = true, .serial = node->serial, .rewrite = rewrite};
    fail(in->ctx, E_UNSUPPORTED, "%s", why);
}

static bool is_output(const Graph *g, int value) {
    for (int k = 0; k < g->output.n; k++)
        if (g->output.at[k] == value) return true;
    return false;
}

/* Is the graph a branch of such a node as this? */
static bool in_branch(const Infer *in) {
    const Graph *around = in->graph->outer;
    for (int i = 0; around && i < around->node.n; i++)
        for (int k = 0; k < around->node.at[i].attr.n; k++)
            if (around->node.at[i].attr.at[k].graph == in->graph)
                return around->node.at[i].row->infer == in->node->row->infer;
    return false;
}

/* The branches give values of different rank. Where the first iteration of a loop takes one of them
 * and the others the other, it is peeled off. Who reads them goes into both branches. An output is
 * of the rank that the model declares, and the other branch an error at run time; that of a branch
 * is left to the node around. */
static const Type *ranked_result(Infer *in, int i, const Type *a, const Type *b) {
    const Type *said = in->declared ? &in->declared[i] : NULL; /* its rank is enough */
    const char *why = internf(in->ctx,
                              "result %d is %s in one branch and %s in the other: give it "
                              "one rank, or the model's output a shape",
                              i, type_str(in->ctx, a), type_str(in->ctx, b));
    int split = in->node->split, value = in->node->out.at[i];
    const Node *loop = in->split ? loop_to_peel(in, in->node->in.at[0]) : NULL;
    if (loop) control_rewrite(in, loop, loop_peel, why);
    if (split == SPLIT_FIRST || split == SPLIT_SECOND) {
        const Type *pick = split == SPLIT_FIRST ? a : b, *drop = split == SPLIT_FIRST ? b : a;
        warn(in->ctx, E_UNSUPPORTED,
             "result %d is %s in one branch and %s in the other, which ends a run with an error: "
             "what follows takes rank %d only",
             i, type_str(in->ctx, pick), type_str(in->ctx, drop), pick->rank);
        return pick;
    }
    bool last = is_output(in->graph, value) && !in_branch(in);
    if (said && (said->kind != TYPE_TENSOR || said->rank < 0)) said = NULL;
    if (last && said && (said->rank == a->rank || said->rank == b->rank))
        ask(in, said->rank == a->rank ? SPLIT_FIRST : SPLIT_SECOND, value, why);
    if (last) fail(in->ctx, E_UNSUPPORTED, "%s", why);
    if (split != SPLIT_OPEN) ask(in, 0, value, why);
    Type *open = arena_copy(in->arena, a, sizeof *a);
    open->rank = -1, open->shape = NULL;
    return open;
}

static void if_result(Infer *in, int i, const Value *a, const Value *b) {
    const Type *s = &a->type, *t = &b->type;
    if (!infer_out(in, i)) return;
    if (object_is(s) || object_is(t)) {
        Type both = control_joined(in, i, s, t);
        infer_set_type(in, i, &both);
        return;
    }
    control_tensor(in, a);
    control_tensor(in, b);
    if (s->dtype != t->dtype)
        fail(in->ctx, E_TYPE, "result %d is %s in one branch and %s in the other: cast one", i,
             dtype_name(s->dtype), dtype_name(t->dtype));
    bool differ = s->rank != t->rank || s->rank < 0;
    if (differ && s->rank >= 0 && t->rank >= 0 && rank_is_free(in->graph, in->node, i, s) &&
        rank_is_free(in->graph, in->node, i, t))
        s = t = s->rank > t->rank ? s : t;
    else if (differ)
        s = t = ranked_result(in, i, s, t);
    if (s->rank < 0)
        infer_set_type(in, i, s);
    else
        infer_set(in, i, s->dtype, if_shape(in, s, t, infer_declared(in, i)), s->rank);
}

typedef struct Tried {
    const Infer *in;
    Graph *graph;
} Tried;

static void infer_tried(void *arg) {
    const Tried *t = arg;
    infer_graph(t->in, t->graph);
}

static bool branch_fits(const Infer *in, Graph *g) {
    Tried t = {in, g};
    return ctx_try(in->ctx, infer_tried, &t);
}

/* Where readers moved into the branches, what follows may fit one of them only. */
static void infer_branches(Infer *in, Graph *yes, Graph *no) {
    if (!in->split || in->node->split <= 0) {
        infer_graph(in, yes);
        infer_graph(in, no);
        return;
    }
    bool first = branch_fits(in, yes), second = in->split->asked || branch_fits(in, no);
    const char *why = "what follows does not fit the branches";
    if (in->split->asked || !(first || second)) fail(in->ctx, E_UNSUPPORTED, "%s", why);
    if (!second) ask(in, SPLIT_FIRST, -1, why);
    if (!first) ask(in, SPLIT_SECOND, -1, why);
}

/* One element; sizes of the model are asked for when it runs, those that data decide by the branch
 * itself. */
static void need_condition(Infer *in) {
    const Value *v = infer_in(in, 0);
    bool one = v->type.kind == TYPE_TENSOR;
    for (int k = 0; one && k < v->type.rank; k++) {
        one = dim_is(v->type.shape[k], 1) || !dim_is_const(v->type.shape[k], NULL);
        if (one) infer_require(in, v->type.shape[k], dim_const(in->ctx, 1), false);
    }
    if (!one) nn_need_one(in->ctx, v, RANK_MAX);
}

static void if_infer(Infer *in) {
    Graph *yes = control_body(in->ctx, in->node, "then_branch"),
          *no = control_body(in->ctx, in->node, "else_branch");
    need_condition(in);
    int64_t cond = control_known(in->ctx, in->graph, in->node, 0);
    control_count(in->ctx, "results", yes->output.n, in->node->out.n);
    control_count(in->ctx, "results", no->output.n, in->node->out.n);
    if (cond < 0)
        infer_branches(in, yes, no);
    else
        infer_graph(in, cond ? yes : no);
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
        if (y >= 0 && rank_is_free(lo->graph, lo->node, i, &control_result(g, i)->type) &&
            nn_cont(lo, y)->rank > control_result(g, i)->type.rank)
            continue;
        if (y >= 0 && nn_cont(lo, y)->rank != control_result(g, i)->type.rank) return false;
    }
    return true;
}

static int if_cast(Lower *lo, int from, const Type *to) {
    bool tensors = to->kind == TYPE_TENSOR && nn_cont(lo, from)->type != OBJECT;
    return tensors ? from : object_cast(lo, from, to);
}

/* Sizes of a result that only the branch which runs tells: those of what it made, of `shape`; one
 * that ends the run makes nothing. */
static void if_extents(Lower *lo, const Dim *shape, int rank, int to, bool made) {
    const Cont y = *nn_cont(lo, to);
    Dim last = dim_const(lo->ctx, INT32_MAX);
    for (int k = 0; k < y.rank && rank == y.rank; k++) {
        if (y.shape[k] == shape[k] || !nn_data_size(lo, y.shape[k])) continue;
        int extent = lower_tmp(lo, "extent", I64, NULL, 0);
        Map *m = lower_map(lo, "extent");
        Dim size = made ? shape[k] : dim_const(lo->ctx, 0);
        nn_write(lo, m, extent, NULL, body_index(&m->body, size));
        nn_define(lo, y.shape[k], extent, 0, last);
    }
}

/* Instead of a branch that was not compiled: whoever comes here gets an error. What the other one
 * tells of sizes is told here too. */
static void refuse_branch(Lower *lo, const Graph *other) {
    int *out = NEW_ARRAY(lo->arena, int, other->output.n), n = 0;
    for (int i = 0; i < other->output.n; i++) {
        int y = lower_out(lo, i);
        const Type *t = &control_result(other, i)->type;
        if (y < 0) continue;
        out[n++] = y;
        if (t->kind == TYPE_TENSOR) if_extents(lo, t->shape, t->rank, y, false);
    }
    lower_call(lo, "refuse", NULL, 0, out, n, (const int64_t[]){OTHER_RANK}, 1, NULL, 0);
}

static void if_branch(Lower *lo, const Graph *g, const Graph *other, Items *into) {
    int *out = NEW_ARRAY(lo->arena, int, g->output.n + 1);
    Items *before = lo->into;
    lo->into = into;
    if (!fits_results(lo, g)) {
        refuse_branch(lo, other);
        lo->into = before;
        return;
    }
    lower_graph(lo, g, into, NULL, out);
    for (int i = 0; i < g->output.n; i++) {
        int y = lower_out(lo, i);
        if (y < 0) continue;
        int from = if_cast(lo, out[i], &control_bound(lo, i)->type);
        Shape s = nn_shape(lo, from);
        if_extents(lo, s.at, s.rank, y, true);
        lower_copy(lo, "result", from, y);
    }
    lo->into = before;
}

static Item *push_if(Lower *lo, int cond) {
    Item branch = {.kind = ITEM_IF, .cond = cond, .from = lo->node->name};
    vec_push(lo->arena, lo->into, branch);
    return &lo->into->at[lo->into->n - 1];
}

/* The condition's element; where data decide how many it has, none or several end the run. */
static int condition(Lower *lo) {
    int from = lower_in(lo, 0), to, one;
    const Cont c = *nn_cont(lo, from);
    bool sure = true;
    for (int k = 0; k < c.rank; k++) sure = sure && dim_is(c.shape[k], 1);
    if (sure) return nn_scalar(lo, "cond", from, BOOL, 0);
    to = lower_tmp(lo, "cond", BOOL, NULL, 0), one = lower_tmp(lo, "one", BOOL, NULL, 0);
    Map *m = lower_map(lo, "one");
    int val = body_const(&m->body, BOOL, 1);
    for (int k = 0; k < c.rank; k++)
        val = EXPR(m, "$0 & ($1 == 1)", val, body_index(&m->body, c.shape[k]));
    nn_write(lo, m, one, NULL, val);
    Items *before = lo->into;
    Item *item = push_if(lo, one);
    Dim at[RANK_MAX];
    for (int k = 0; k < RANK_MAX; k++) at[k] = dim_const(lo->ctx, 0);
    lo->into = &item->body;
    m = lower_map(lo, "cond");
    nn_write(lo, m, to, NULL, nn_read_else(lo, m, from, at, 0, BOOL));
    lo->into = &item->other;
    lower_call(lo, "refuse", NULL, 0, &to, 1, (const int64_t[]){NOT_ONE}, 1, NULL, 0);
    lo->into = before;
    return to;
}

static void if_lower(Lower *lo) {
    Graph *yes = control_body(lo->ctx, lo->node, "then_branch"),
          *no = control_body(lo->ctx, lo->node, "else_branch");
    int64_t known = control_known(lo->ctx, lo->graph, lo->node, 0);
    if (known >= 0) {
        const Graph *g = known ? yes : no;
        int *out = NEW_ARRAY(lo->arena, int, g->output.n + 1);
        lower_graph(lo, g, lo->into, NULL, out);
        for (int i = 0; i < g->output.n; i++)
            if (control_bound(lo, i))
                control_bind(lo, i, object_cast(lo, out[i], &control_bound(lo, i)->type));
        return;
    }
    int cond = condition(lo);
    for (int i = 0; i < lo->node->out.n; i++) lower_out(lo, i);
    Item *item = push_if(lo, cond);
    if_branch(lo, yes, no, &item->body);
    if_branch(lo, no, yes, &item->other);
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

void control_stack(Lower *lo, int slice, int to, int axis, Dim t) {
    Dim at[RANK_MAX], out[RANK_MAX];
    Map *m = nn_map_over(lo, "slice", "", slice, at);
    int rank = nn_cont(lo, slice)->rank;
    for (int i = 0; i <= rank; i++) out[i] = i < axis ? at[i] : i == axis ? t : at[i - 1];
    map_write(lo->flow, m, to, out, nn_read_as(lo, m, slice, at, nn_cont(lo, slice)->type), NULL);
}

/* A container that an iteration reads and the next one finds changed. */
int control_carry(Lower *lo, Item *loop, int init, const Value *like) {
    const Type *t = &like->type;
    int cur = nn_cont(lo, init)->type == OBJECT ? object_tmp(lo, "cur")
                                                : lower_tmp(lo, "cur", t->dtype, t->shape, t->rank);
    vec_push(lo->arena, &loop->carry, (Carry){cur, init, -1});
    return cur;
}

const OpRow onnx_control_rows[] = {
    {"", "If", 1, 0, if_infer, if_lower, NULL, "bool", 0},
    {0},
};
