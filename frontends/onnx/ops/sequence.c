/* SPDX-License-Identifier: Apache-2.0 */
/* Sequences and optionals: SequenceConstruct, -Empty, -Insert, -Erase, -At, -Length, -Map,
 * ConcatFromSequence, SplitToSequence, Optional, OptionalHasElement, OptionalGetElement.
 *
 * A sequence whose making is known when compiling is a list of parts: values, or slices of one.
 * Then reading an element, the length and joining all need no sequence, and the calls that made it
 * are dropped when nothing else takes it. */
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

/* With `item`, of type t, at the end or before `at`. */
static int append(Lower *lo, int sequence, int item, const Type *t, int at, int to) {
    if (to < 0) to = object_tmp(lo, "sequence");
    int in[] = {sequence, object_box(lo, item, t->dtype), at};
    lower_call(lo, "seq_insert", in, 3, &to, 1, NULL, 0, NULL, 0);
    return to;
}

static int empty(Lower *lo, int to) {
    if (to < 0) to = object_tmp(lo, "empty");
    lower_call(lo, "seq_empty", NULL, 0, &to, 1, NULL, 0, NULL, 0);
    return to;
}

/* ---- parts ----------------------------------------------------------------------------------- */

/* A value of the graph; or size elements of it along axis from `from` on, the axis kept or not. */
typedef struct Part {
    int value, axis; /* axis -1: all of it */
    bool drop;
    Dim from, size;
} Part;
typedef VEC(Part) Parts;

static bool parts_of(Infer *in, int value, Parts *parts);

static void construct_infer(Infer *in);
static void empty_infer(Infer *in);
static void insert_infer(Infer *in);
static void erase_infer(Infer *in);
static void split_infer(Infer *in);

/* A position among n, `last` when operand i is absent; false when it is not known, or wrong. */
static bool known_position(const Infer *in, int i, int n, int last, int *at) {
    const Dim *d;
    int64_t k = last;
    int count;
    if (infer_in(in, i)) {
        if (!infer_known(in, i, &d, &count) || count != 1 || !dim_is_const(d[0], &k)) return false;
        if (k < 0) k += n;
    }
    *at = (int)k;
    return k >= 0 && k <= last;
}

/* Slices of a tensor whose sizes are known. */
static bool split_parts(Infer *in, Parts *parts) {
    const Type *x = &infer_tensor(in, 0)->type;
    const Dim *split = NULL;
    int axis = (int)attr_axis(in->ctx, in->node, "axis", 0, x->rank), n = 0;
    int64_t extent, each = 1;
    bool given = infer_in(in, 1) != NULL, list = given && infer_in(in, 1)->type.rank == 1;
    if (!dim_is_const(x->shape[axis], &extent) || (given && !infer_known(in, 1, &split, &n)))
        return false;
    if (given && !list && (!dim_is_const(split[0], &each) || each < 1)) return false;
    int64_t count = list ? n : (extent + each - 1) / each, at = 0;
    if (count > KNOWN_MAX) return false;
    for (int64_t i = 0; i < count; i++) {
        int64_t size = each < extent - at ? each : extent - at;
        if (list && (!dim_is_const(split[i], &size) || size < 0 || size > extent - at))
            return false;
        vec_push(in->arena, parts,
                 (Part){in->node->in.at[0], axis,
                        !given && !attr_int(in->ctx, in->node, "keepdims", 1),
                        dim_const(in->ctx, at), dim_const(in->ctx, size)});
        at += size;
    }
    return at == extent;
}

static bool changed_parts(Infer *in, Parts *parts) {
    bool insert = in->node->row->infer == insert_infer;
    int at, n;
    if (!parts_of(in, in->node->in.at[0], parts)) return false;
    n = parts->n;
    if (!known_position(in, insert ? 2 : 1, n, insert ? n : n - 1, &at)) return false;
    if (insert) vec_push(in->arena, parts, (Part){in->node->in.at[1], -1, false, NULL, NULL});
    Part item = parts->at[parts->n - 1];
    for (int i = n; insert && i > at; i--) parts->at[i] = parts->at[i - 1];
    if (insert) parts->at[at] = item;
    for (int i = at; !insert && i < n - 1; i++) parts->at[i] = parts->at[i + 1];
    if (!insert) parts->n--;
    return true;
}

/* The parts of a sequence that this graph makes. */
static bool parts_of(Infer *in, int value, Parts *parts) {
    const Value *v = &in->graph->value.at[value];
    if (v->kind != VALUE_NODE) return false;
    Infer maker = *in;
    maker.node = &in->graph->node.at[v->node];
    void (*rule)(Infer *) = maker.node->row->infer;
    if (rule == split_infer) return split_parts(&maker, parts);
    if (rule == insert_infer || rule == erase_infer) return changed_parts(&maker, parts);
    for (int i = 0; rule == construct_infer && i < maker.node->in.n; i++)
        vec_push(in->arena, parts, (Part){maker.node->in.at[i], -1, false, NULL, NULL});
    return rule == construct_infer || rule == empty_infer;
}

static Type part_type(Infer *in, const Part *p) {
    Type t = in->graph->value.at[p->value].type;
    if (p->axis < 0) return t;
    Dim *shape = NEW_ARRAY(in->arena, Dim, t.rank);
    int n = 0;
    for (int i = 0; i < t.rank; i++)
        if (i != p->axis || !p->drop) shape[n++] = i == p->axis ? p->size : t.shape[i];
    t.rank = n;
    t.shape = shape;
    return t;
}

/* The element at `at` of a part. */
static int part_read(Lower *lo, Map *m, const Part *p, const Dim *at) {
    int cont = lower_cont(lo, p->value);
    Dim from[RANK_MAX];
    for (int i = 0, k = 0; i < nn_cont(lo, cont)->rank; i++) {
        from[i] = i == p->axis && p->drop ? dim_const(lo->ctx, 0) : at[k++];
        if (i == p->axis) from[i] = dim_add(lo->ctx, from[i], p->from);
    }
    return map_read(lo->flow, m, cont, from);
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
    for (int i = 0; i < n; i++)
        s = append(lo, s, lower_in(lo, i), &lower_value(lo, i)->type, -1, i == n - 1 ? to : -1);
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
        append(lo, lower_in(lo, 0), lower_in(lo, 1), &lower_value(lo, 1)->type, lower_in(lo, 2),
               lower_out(lo, 0));
}

static void erase_infer(Infer *in) {
    set_sequence(in, 0, sequence_operand(in, 0)->elem);
}

static void erase_lower(Lower *lo) {
    int from[] = {lower_in(lo, 0), lower_in(lo, 1)}, to = lower_out(lo, 0);
    if (to >= 0) lower_call(lo, "seq_erase", from, 2, &to, 1, NULL, 0, NULL, 0);
}

/* ---- reading --------------------------------------------------------------------------------- */

/* The part that SequenceAt takes. */
static bool part_at(Infer *in, Part *part) {
    Parts parts = {0};
    int at;
    if (!parts_of(in, in->node->in.at[0], &parts)) return false;
    if (!known_position(in, 1, parts.n, parts.n - 1, &at)) return false;
    *part = parts.at[at];
    return true;
}

static void at_infer(Infer *in) {
    const Type *s = sequence_operand(in, 0);
    Part part;
    bool known = part_at(in, &part);
    Type t = known ? part_type(in, &part)
                   : object_opened(in, s->elem, declared(in, 0), infer_in(in, 0)->name);
    infer_set_type(in, 0, &t);
    const Value *v = known ? &in->graph->value.at[part.value] : NULL;
    if (v && part.axis < 0 && v->known) infer_set_known(in, 0, v->known, (int)type_count(&t));
}

static int item_at(Lower *lo, int sequence, int at) {
    int in[] = {sequence, at}, item = object_tmp(lo, "item");
    lower_call(lo, "seq_at", in, 2, &item, 1, NULL, 0, NULL, 0);
    return item;
}

static void at_lower(Lower *lo) {
    Infer in = onnx_reader(lo);
    Part part;
    int to = lower_out(lo, 0);
    if (to < 0) return;
    if (part_at(&in, &part) && nn_cont(lo, to)->type != OBJECT) {
        Dim at[RANK_MAX];
        Map *m = nn_map_over(lo, NULL, "", to, at);
        map_write(lo->flow, m, to, at, part_read(lo, m, &part, at), NULL);
        return;
    }
    int item = item_at(lo, lower_in(lo, 0), lower_in(lo, 1));
    object_unbox(lo, item, lower_out(lo, 0), control_bound(lo, 0)->type.dtype);
}

static void length_infer(Infer *in) {
    Parts parts = {0};
    sequence_operand(in, 0);
    infer_set(in, 0, I64, NULL, 0);
    if (!parts_of(in, in->node->in.at[0], &parts)) return;
    Dim n = dim_const(in->ctx, parts.n);
    infer_set_known(in, 0, &n, 1);
}

static void length_lower(Lower *lo) {
    int from = lower_in(lo, 0), to = lower_out(lo, 0);
    if (to >= 0) lower_call(lo, "seq_length", &from, 1, &to, 1, NULL, 0, NULL, 0);
}

/* ---- ConcatFromSequence ---------------------------------------------------------------------- */

/* Of known parts: their extents along the axis add up. */
static bool concat_parts(Infer *in, Parts *parts, Shape *s) {
    int more = attr_int(in->ctx, in->node, "new_axis", 0) != 0;
    if (!parts_of(in, in->node->in.at[0], parts) || !parts->n) return false;
    Type first = part_type(in, &parts->at[0]);
    if (first.kind != TYPE_TENSOR || first.rank < 0 || first.rank + more > RANK_MAX) return false;
    int axis = (int)attr_axis(in->ctx, in->node, "axis", 0, first.rank + more);
    Dim sum = dim_const(in->ctx, more ? parts->n : 0);
    for (int k = 0; k < parts->n; k++) {
        Type t = part_type(in, &parts->at[k]);
        bool same = t.kind == TYPE_TENSOR && t.rank == first.rank && t.dtype == first.dtype;
        for (int i = 0; same && i < t.rank; i++)
            same = (i == axis && !more) || t.shape[i] == first.shape[i];
        if (!same) return false;
        if (!more) sum = dim_add(in->ctx, sum, t.shape[axis]);
    }
    s->rank = first.rank + more;
    for (int i = 0; i < s->rank; i++)
        s->at[i] = i == axis ? sum : first.shape[i - (more && i > axis)];
    return true;
}

static void concat_known(Lower *lo, Infer *in, const Parts *parts, int to) {
    Shape s = nn_shape(lo, to);
    bool more = nn_int(lo, "new_axis", 0) != 0;
    int axis = (int)attr_axis(lo->ctx, lo->node, "axis", 0, s.rank);
    Dim offset = dim_const(lo->ctx, 0);
    for (int k = 0; k < parts->n; k++) {
        Type t = part_type(in, &parts->at[k]);
        Dim at[RANK_MAX], out[RANK_MAX];
        Map *m = lower_map(lo, internf(lo->ctx, "part%d", k));
        lower_dims(lo, m, t.shape, t.rank, at);
        for (int i = 0; i < s.rank; i++)
            out[i] = more && i == axis ? offset : at[i - (more && i > axis)];
        if (!more) out[axis] = dim_add(lo->ctx, at[axis], offset);
        map_write(lo->flow, m, to, out, part_read(lo, m, &parts->at[k], at), NULL);
        offset = more ? dim_addc(lo->ctx, offset, 1) : dim_add(lo->ctx, offset, t.shape[axis]);
    }
}

static void concat_infer(Infer *in) {
    const Type *s = sequence_operand(in, 0);
    Parts parts = {0};
    Shape known;
    if (concat_parts(in, &parts, &known)) {
        infer_set(in, 0, part_type(in, &parts.at[0]).dtype, known.at, known.rank);
        return;
    }
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
    Infer in = onnx_reader(lo);
    Parts parts = {0};
    Shape s;
    int from = lower_in(lo, 0), to = lower_out(lo, 0);
    if (to < 0) return;
    if (concat_parts(&in, &parts, &s)) {
        concat_known(lo, &in, &parts, to);
        return;
    }
    s = nn_shape(lo, to);
    int64_t attr[] = {attr_axis(lo->ctx, lo->node, "axis", 0, s.rank), nn_int(lo, "new_axis", 0)};
    Dim rank = dim_const(lo->ctx, s.rank);
    int dims = lower_tmp(lo, "dims", I64, &rank, 1);
    lower_call(lo, "seq_concat_dims", &from, 1, &dims, 1, attr, 2, NULL, 0);
    object_define(lo, dims, to);
    int out = nn_pairs_for(lo, to, control_bound(lo, 0)->type.dtype);
    lower_call(lo, "seq_concat", &from, 1, &out, 1, attr, 2, NULL, 0);
    nn_pairs_to(lo, out, to);
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
    int to = lower_out(lo, 0);
    if (to < 0) return;
    int from[] = {nn_pairs(lo, lower_in(lo, 0), lower_value(lo, 0)->type.dtype), lower_in(lo, 1)};
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
        object_unbox(lo, item, conts[i], t->dtype);
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
        loop->carry.at[i].next =
            append(lo, loop->carry.at[i].cur, out[i], &control_result(g, i)->type, -1, -1);
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
        control_bind(lo, 0, object_box(lo, lower_in(lo, 0), lower_value(lo, 0)->type.dtype));
        return;
    }
    Map *m = lower_map(lo, NULL);
    map_write(lo->flow, m, to, NULL, body_const(&m->body, OBJECT, 0), NULL);
}

/* The operand of the Optional that made operand 0, -1 when it has none; false when that is not
 * known here. */
static bool optional_made(const Infer *in, int *value) {
    const Value *v = infer_in(in, 0);
    if (!v || v->kind != VALUE_NODE) return false;
    const Node *maker = &in->graph->node.at[v->node];
    *value = maker->in.n ? maker->in.at[0] : -1;
    return maker->row->infer == optional_infer;
}

static void has_infer(Infer *in) {
    const Value *v = infer_in(in, 0);
    infer_set(in, 0, BOOL, NULL, 0);
    int made = 0;
    if (v && v->type.kind == TYPE_OPTIONAL && !optional_made(in, &made)) return;
    Dim known = dim_const(in->ctx, v && made >= 0);
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
    int made = -1;
    if (t.kind == TYPE_OPTIONAL && optional_made(in, &made) && made >= 0)
        t = in->graph->value.at[made].type;
    else if (t.kind == TYPE_OPTIONAL)
        t = object_opened(in, t.elem, declared(in, 0), v->name);
    infer_set_type(in, 0, &t);
}

static void get_lower(Lower *lo) {
    const Type *t = &lower_value(lo, 0)->type;
    Infer in = onnx_reader(lo);
    int made = -1;
    if (lower_out(lo, 0) < 0) return;
    if (t->kind == TYPE_OPTIONAL && optional_made(&in, &made) && made >= 0)
        lower_copy(lo, NULL, lower_cont(lo, made), lower_out(lo, 0));
    else if (t->kind == TYPE_OPTIONAL)
        object_unbox(lo, lower_in(lo, 0), lower_out(lo, 0), control_bound(lo, 0)->type.dtype);
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
