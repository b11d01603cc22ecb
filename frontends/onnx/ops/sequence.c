/* SPDX-License-Identifier: Apache-2.0 */
/* Sequences and optionals: SequenceConstruct, -Empty, -Insert, -Erase, -At, -Length, -Map,
 * ConcatFromSequence, SplitToSequence, Optional, OptionalHasElement, OptionalGetElement. */
#include "control.h"
#include "object.h"
#include "view.h"

static const Type *sequence_operand(const Infer *in, int i) {
    const Value *v = infer_in(in, i);
    if (!v) fail(in->ctx, E_MODEL, "operand %d is missing: the operator needs it", i);
    if (v->type.kind != TYPE_SEQUENCE)
        fail(in->ctx, E_TYPE, "operand %d, \"%s\" of type %s, is no sequence", i, v->name,
             type_str(in->ctx, &v->type));
    return &v->type;
}

static Type joined(Infer *in, const Type *a, const Type *b) {
    Type t;
    if (!object_join(in, a, b, &t))
        fail(in->ctx, E_TYPE, "elements of types %s and %s do not stand in one sequence",
             type_str(in->ctx, a), type_str(in->ctx, b));
    return t;
}

static void set_sequence(Infer *in, int result, const Type *elem) {
    Type t = object_of(in, TYPE_SEQUENCE, elem);
    infer_set_type(in, result, &t);
}

static const Type *declared(const Infer *in, int i) {
    return in->declared ? &in->declared[i] : NULL;
}

static int append(Lower *lo, int sequence, int item, int at, int to) {
    if (to < 0) to = object_tmp(lo, "sequence");
    int in[] = {sequence, object_box(lo, item), at};
    lower_call(lo, "seq_insert", in, 3, &to, 1, NULL, 0, NULL, 0);
    return to;
}

static int empty(Lower *lo, int to) {
    if (to < 0) to = object_tmp(lo, "empty");
    lower_call(lo, "seq_empty", NULL, 0, &to, 1, NULL, 0, NULL, 0);
    return to;
}

/* ---- making ---------------------------------------------------------------------------------- */

static void construct_infer(Infer *in) {
    Type elem = {0};
    for (int i = 0; i < in->node->in.n; i++)
        if (infer_in(in, i)) elem = joined(in, &elem, &infer_in(in, i)->type);
    set_sequence(in, 0, &elem);
}

static void construct_lower(Lower *lo) {
    int n = lo->node->in.n, to = lower_out(lo, 0);
    if (to < 0) return;
    int s = empty(lo, n ? -1 : to);
    for (int i = 0; i < n; i++) s = append(lo, s, lower_in(lo, i), -1, i == n - 1 ? to : -1);
}

/* The elements of an empty sequence are of any type. */
static void empty_infer(Infer *in) {
    set_sequence(in, 0, &(Type){0});
}

static void empty_lower(Lower *lo) {
    if (lower_out(lo, 0) >= 0) empty(lo, lower_out(lo, 0));
}

static void insert_infer(Infer *in) {
    const Type *s = sequence_operand(in, 0);
    const Value *item = infer_in(in, 1);
    if (!item) fail(in->ctx, E_MODEL, "operand 1 is missing: it is the element");
    Type elem = joined(in, s->elem, &item->type);
    set_sequence(in, 0, &elem);
}

static void insert_lower(Lower *lo) {
    if (lower_out(lo, 0) >= 0)
        append(lo, lower_in(lo, 0), lower_in(lo, 1), lower_in(lo, 2), lower_out(lo, 0));
}

static void erase_infer(Infer *in) {
    set_sequence(in, 0, sequence_operand(in, 0)->elem);
}

static void erase_lower(Lower *lo) {
    int from[] = {lower_in(lo, 0), lower_in(lo, 1)}, to = lower_out(lo, 0);
    if (to >= 0) lower_call(lo, "seq_erase", from, 2, &to, 1, NULL, 0, NULL, 0);
}

/* ---- reading --------------------------------------------------------------------------------- */

static void at_infer(Infer *in) {
    const Type *s = sequence_operand(in, 0);
    Type t = object_opened(in, s->elem, declared(in, 0), infer_in(in, 0)->name);
    infer_set_type(in, 0, &t);
}

static int item_at(Lower *lo, int sequence, int at) {
    int in[] = {sequence, at}, item = object_tmp(lo, "item");
    lower_call(lo, "seq_at", in, 2, &item, 1, NULL, 0, NULL, 0);
    return item;
}

static void at_lower(Lower *lo) {
    if (lower_out(lo, 0) < 0) return;
    int item = item_at(lo, lower_in(lo, 0), lower_in(lo, 1));
    object_unbox(lo, item, lower_out(lo, 0));
}

static void length_infer(Infer *in) {
    sequence_operand(in, 0);
    infer_set(in, 0, I64, NULL, 0);
}

static void length_lower(Lower *lo) {
    int from = lower_in(lo, 0), to = lower_out(lo, 0);
    if (to >= 0) lower_call(lo, "seq_length", &from, 1, &to, 1, NULL, 0, NULL, 0);
}

/* ---- ConcatFromSequence ---------------------------------------------------------------------- */

static void concat_infer(Infer *in) {
    const Type *s = sequence_operand(in, 0);
    int more = attr_int(in->ctx, in->node, "new_axis", 0) != 0;
    Type open = *s->elem, t;
    const Type *said = declared(in, 0);
    if ((open.kind == TYPE_UNKNOWN || open.rank < 0) && said && said->kind == TYPE_TENSOR &&
        said->rank >= 0) {
        t = *said;
    } else {
        Dim shape[RANK_MAX + 1], unknown = graph_unknown_dim(in->ctx);
        if (open.kind != TYPE_TENSOR || open.rank < 0)
            object_opened(in, s->elem, NULL, infer_in(in, 0)->name);
        int rank = open.rank + more, axis = (int)attr_axis(in->ctx, in->node, "axis", 0, rank);
        if (rank > RANK_MAX) fail(in->ctx, E_LIMIT, "rank %d: the most is %d", rank, RANK_MAX);
        for (int i = 0; i < rank; i++)
            shape[i] = i == axis ? unknown : open.shape[i - (more && i > axis)];
        t = (Type){TYPE_TENSOR, open.dtype, rank,
                   arena_copy(in->arena, shape, sizeof *shape * (size_t)rank), NULL};
    }
    t = object_opened(in, &t, NULL, infer_in(in, 0)->name);
    infer_set_type(in, 0, &t);
}

static void concat_lower(Lower *lo) {
    int from = lower_in(lo, 0), to = lower_out(lo, 0);
    if (to < 0) return;
    Shape s = nn_shape(lo, to);
    int64_t attr[] = {attr_axis(lo->ctx, lo->node, "axis", 0, s.rank), nn_int(lo, "new_axis", 0)};
    Dim rank = dim_const(lo->ctx, s.rank);
    int dims = lower_tmp(lo, "dims", I64, &rank, 1);
    lower_call(lo, "seq_concat_dims", &from, 1, &dims, 1, attr, 2, NULL, 0);
    object_define(lo, dims, to);
    lower_call(lo, "seq_concat", &from, 1, &to, 1, attr, 2, NULL, 0);
}

/* ---- SplitToSequence ------------------------------------------------------------------------- */

static void split_infer(Infer *in) {
    const Type *x = nn_ranked(in, 0, 1, RANK_MAX);
    const Value *split = infer_in(in, 1);
    int axis = (int)attr_axis(in->ctx, in->node, "axis", 0, x->rank);
    bool keep = split || attr_int(in->ctx, in->node, "keepdims", 1);
    Shape s = shape_of(x);
    s.at[axis] = split ? graph_unknown_dim(in->ctx) : dim_const(in->ctx, 1);
    if (!keep) s.rank--;
    for (int i = axis; !keep && i < s.rank; i++) s.at[i] = s.at[i + 1];
    Type elem = {TYPE_TENSOR, x->dtype, s.rank,
                 arena_copy(in->arena, s.at, sizeof *s.at * (size_t)s.rank), NULL};
    set_sequence(in, 0, &elem);
}

static void split_lower(Lower *lo) {
    int from[] = {lower_in(lo, 0), lower_in(lo, 1)}, to = lower_out(lo, 0);
    if (to < 0) return;
    int axis = (int)attr_axis(lo->ctx, lo->node, "axis", 0, nn_cont(lo, from[0])->rank);
    int64_t attr[] = {axis, from[1] >= 0 || nn_int(lo, "keepdims", 1)};
    lower_call(lo, "seq_split", from, 2, &to, 1, attr, 2, NULL, 0);
}

/* ---- SequenceMap ----------------------------------------------------------------------------- */

static void map_infer(Infer *in) {
    Graph *g = control_body(in->ctx, in->node, "body");
    control_count(in->ctx, "inputs", g->input.n, in->node->in.n);
    control_count(in->ctx, "results", g->output.n, in->node->out.n);
    sequence_operand(in, 0);
    int first = graph_root(in->graph)->symbol.n;
    for (int i = 0; i < g->input.n; i++) {
        const Value *v = infer_in(in, i);
        if (!v) fail(in->ctx, E_MODEL, "operand %d is missing: the operator needs it", i);
        Type t = v->type;
        if (t.kind == TYPE_SEQUENCE)
            t = object_opened(in, t.elem, &control_input(g, i)->type, v->name);
        control_set_type(g, i, &t);
    }
    infer_graph(in, g);
    for (int i = 0; i < g->output.n; i++) {
        Type elem = object_closed(in, &control_result(g, i)->type, first);
        set_sequence(in, i, &elem);
    }
}

/* The body's inputs in one iteration. */
static void map_operands(Lower *lo, Graph *g, Dim t, int *conts) {
    int at = lower_tmp(lo, "i", I64, NULL, 0);
    Map *m = lower_map(lo, "i");
    nn_write(lo, m, at, NULL, body_index(&m->body, t));
    for (int i = 0; i < g->input.n; i++) {
        const Type *seq = &lower_value(lo, i)->type, *t = &control_input(g, i)->type;
        conts[i] = lower_in(lo, i);
        if (seq->kind != TYPE_SEQUENCE) continue;
        int item = item_at(lo, conts[i], at);
        conts[i] = item;
        if (object_is(t)) continue;
        conts[i] = lower_tmp(lo, "part", t->dtype, t->shape, t->rank);
        object_unbox(lo, item, conts[i]);
    }
}

static void map_lower(Lower *lo) {
    Graph *g = control_body(lo->ctx, lo->node, "body");
    int *in = NEW_ARRAY(lo->arena, int, g->input.n), *out = NEW_ARRAY(lo->arena, int, g->output.n);
    int from = lower_in(lo, 0), length = lower_tmp(lo, "length", I64, NULL, 0);
    lower_call(lo, "seq_length", &from, 1, &length, 1, NULL, 0, NULL, 0);
    Dim most = dim_const(lo->ctx, INT32_MAX), n = nn_fresh(lo, "items", most);
    nn_define(lo, n, length, 0, most);
    Items *into = lo->into;
    for (int i = 0; i < g->output.n; i++) out[i] = empty(lo, -1);
    Item *loop = nn_loop(lo, NULL, n);
    for (int i = 0; i < g->output.n; i++) {
        int cur = object_tmp(lo, "cur");
        vec_push(lo->arena, &loop->carry, (Carry){cur, out[i], -1});
    }
    lo->into = &loop->body;
    map_operands(lo, g, loop->var, in);
    lower_graph(lo, g, lo->into, in, out);
    for (int i = 0; i < g->output.n; i++)
        loop->carry.at[i].next = append(lo, loop->carry.at[i].cur, out[i], -1, -1);
    lo->into = into;
    for (int i = 0; i < g->output.n; i++) control_bind(lo, i, loop->carry.at[i].cur);
}

/* ---- optionals ------------------------------------------------------------------------------- */

static void optional_infer(Infer *in) {
    const Value *v = infer_in(in, 0);
    const Attr *type = node_attr(in->node, "type");
    if (!v && (!type || type->kind != ATTR_TYPE))
        fail(in->ctx, E_ATTRIBUTE, "attribute \"type\" is missing: there is no operand to tell it");
    Type t = object_of(in, TYPE_OPTIONAL, v ? &v->type : &type->type);
    infer_set_type(in, 0, &t);
}

static void optional_lower(Lower *lo) {
    int to = lower_out(lo, 0);
    if (to < 0) return;
    if (lower_value(lo, 0)) {
        control_bind(lo, 0, object_box(lo, lower_in(lo, 0)));
        return;
    }
    Map *m = lower_map(lo, NULL);
    map_write(lo->flow, m, to, NULL, body_const(&m->body, OBJECT, 0), NULL);
}

static void has_infer(Infer *in) {
    const Value *v = infer_in(in, 0);
    infer_set(in, 0, BOOL, NULL, 0);
    if (v && v->type.kind == TYPE_OPTIONAL) return;
    Dim known = dim_const(in->ctx, v != NULL);
    infer_set_known(in, 0, &known, 1);
}

static void has_lower(Lower *lo) {
    int from = lower_in(lo, 0), to = lower_out(lo, 0);
    if (to < 0) return;
    Map *m = lower_map(lo, NULL);
    int none = body_const(&m->body, OBJECT, 0), v = map_read(lo->flow, m, from, NULL);
    map_write(lo->flow, m, to, NULL, body_prim(&m->body, P_NE, (int[]){v, none}), NULL);
}

static void get_infer(Infer *in) {
    const Value *v = infer_in(in, 0);
    if (!v) fail(in->ctx, E_MODEL, "operand 0 is missing: the operator needs it");
    Type t = v->type;
    if (t.kind == TYPE_OPTIONAL) t = object_opened(in, t.elem, declared(in, 0), v->name);
    infer_set_type(in, 0, &t);
}

static void get_lower(Lower *lo) {
    const Type *t = &lower_value(lo, 0)->type;
    if (lower_out(lo, 0) < 0) return;
    if (t->kind == TYPE_OPTIONAL)
        object_unbox(lo, lower_in(lo, 0), lower_out(lo, 0));
    else
        lower_copy(lo, NULL, lower_in(lo, 0), lower_out(lo, 0));
}

const OpRow onnx_sequence_rows[] = {
    {"", "SequenceConstruct", 11, 0, construct_infer, construct_lower, NULL, NULL, 0},
    {"", "SequenceEmpty", 11, 0, empty_infer, empty_lower, NULL, NULL, 0},
    {"", "SequenceInsert", 11, 0, insert_infer, insert_lower, NULL, NULL, 0},
    {"", "SequenceErase", 11, 0, erase_infer, erase_lower, NULL, NULL, 0},
    {"", "SequenceAt", 11, 0, at_infer, at_lower, NULL, NULL, 0},
    {"", "SequenceLength", 11, 0, length_infer, length_lower, NULL, NULL, 0},
    {"", "SequenceMap", 17, 0, map_infer, map_lower, NULL, NULL, 0},
    {"", "ConcatFromSequence", 11, 0, concat_infer, concat_lower, NULL, NULL, 0},
    {"", "SplitToSequence", 11, 0, split_infer, split_lower, NULL, T_ALL, 0},
    {"", "Optional", 15, 0, optional_infer, optional_lower, NULL, NULL, 0},
    {"", "OptionalHasElement", 15, 0, has_infer, has_lower, NULL, NULL, 0},
    {"", "OptionalGetElement", 15, 0, get_infer, get_lower, NULL, NULL, 0},
    {0},
};
