/* SPDX-License-Identifier: Apache-2.0 */
/* Sequences, optionals and maps are scalars of type `object`: handles that maps copy and calls open
 * (runtime/objects.h). A tensor goes in by `box` and comes out by `unbox`, into a container whose
 * type must say what is expected; dims that it does not say are read off first. */
#include "object.h"

bool object_is(const Type *t) {
    return t->kind == TYPE_SEQUENCE || t->kind == TYPE_OPTIONAL || t->kind == TYPE_MAP;
}

/* ---- types ----------------------------------------------------------------------------------- */

bool object_same(const Type *a, const Type *b) {
    if (a->kind != b->kind || a->dtype != b->dtype) return false;
    if (object_is(a)) return object_same(a->elem, b->elem);
    bool same = a->rank == b->rank;
    for (int i = 0; same && i < a->rank; i++) same = a->shape[i] == b->shape[i];
    return same;
}

Type object_of(Infer *in, TypeKind kind, const Type *elem) {
    return (Type){.kind = kind, .elem = arena_copy(in->arena, elem, sizeof *elem)};
}

static bool join_tensors(Infer *in, const Type *a, const Type *b, Type *to) {
    if (a->kind != TYPE_TENSOR || b->kind != TYPE_TENSOR || a->dtype != b->dtype) return false;
    *to = (Type){TYPE_TENSOR, a->dtype, -1, NULL, NULL};
    if (a->rank != b->rank || a->rank < 0) return true;
    Dim *shape = NEW_ARRAY(in->arena, Dim, a->rank);
    for (int i = 0; i < a->rank; i++)
        shape[i] = a->shape[i] == b->shape[i] ? a->shape[i] : graph_unknown_dim(in->ctx);
    to->rank = a->rank;
    to->shape = shape;
    return true;
}

bool object_join(Infer *in, const Type *a, const Type *b, Type *to) {
    Type elem;
    if (a->kind == TYPE_UNKNOWN || b->kind == TYPE_UNKNOWN)
        return *to = a->kind == TYPE_UNKNOWN ? *b : *a, true;
    if (a->kind == TYPE_OPTIONAL || b->kind == TYPE_OPTIONAL) {
        const Type *x = a->kind == TYPE_OPTIONAL ? a->elem : a;
        const Type *y = b->kind == TYPE_OPTIONAL ? b->elem : b;
        return object_join(in, x, y, &elem) && (*to = object_of(in, TYPE_OPTIONAL, &elem), true);
    }
    if (!object_is(a)) return join_tensors(in, a, b, to);
    if (a->kind != b->kind || a->dtype != b->dtype || !object_join(in, a->elem, b->elem, &elem))
        return false;
    *to = object_of(in, a->kind, &elem);
    to->dtype = a->dtype;
    return true;
}

Type object_opened(Infer *in, const Type *t, const Type *declared, const char *what) {
    if (t->kind != TYPE_TENSOR && t->kind != TYPE_UNKNOWN) return *t;
    if (declared && declared->kind == TYPE_TENSOR && declared->rank >= 0 &&
        (t->kind == TYPE_UNKNOWN || t->rank < 0))
        t = declared;
    if (t->kind == TYPE_UNKNOWN || t->rank < 0)
        fail(in->ctx, E_UNSUPPORTED,
             "the rank of the elements of \"%s\" is not known at compile time: declare the type of "
             "the result in the model",
             what);
    Type to = *t;
    Dim *shape = NEW_ARRAY(in->arena, Dim, t->rank);
    for (int i = 0; i < t->rank; i++)
        shape[i] = t->shape[i] != graph_unknown_dim(in->ctx)
                       ? t->shape[i]
                       : infer_fresh(in, "item", dim_const(in->ctx, INT32_MAX));
    to.shape = shape;
    return to;
}

bool object_inner(const Infer *in, Dim d, int first) {
    const Graph *root = graph_root(in->graph);
    for (int i = first; i < root->symbol.n; i++)
        if (dim_uses(d, root->symbol.at[i].sym)) return true;
    return false;
}

Type object_closed(Infer *in, const Type *t, int first) {
    Type to = *t;
    if (object_is(t)) {
        Type elem = object_closed(in, t->elem, first);
        to.elem = arena_copy(in->arena, &elem, sizeof elem);
        return to;
    }
    Dim *shape = t->rank > 0 ? NEW_ARRAY(in->arena, Dim, t->rank) : NULL;
    for (int i = 0; i < t->rank; i++) {
        bool inner = object_inner(in, t->shape[i], first);
        shape[i] = inner ? graph_unknown_dim(in->ctx) : t->shape[i];
    }
    to.shape = shape;
    return to;
}

/* ---- containers ------------------------------------------------------------------------------ */

int object_tmp(Lower *lo, const char *name) {
    return lower_tmp(lo, name, OBJECT, NULL, 0);
}

int object_box(Lower *lo, int cont, DType t) {
    if (nn_cont(lo, cont)->type == OBJECT) return cont;
    int to = object_tmp(lo, "box"), from = nn_pairs(lo, cont, t);
    lower_call(lo, "box", &from, 1, &to, 1, NULL, 0, NULL, 0);
    return to;
}

/* The tensor behind a handle, of the shape of `to`. */
static void unbox(Lower *lo, int object, int to, DType t) {
    int out = nn_pairs_for(lo, to, t);
    lower_call(lo, "unbox", &object, 1, &out, 1, NULL, 0, NULL, 0);
    nn_pairs_to(lo, out, to);
}

static bool is_defined(const Items *items, Dim d) {
    for (int i = 0; i < items->n; i++) {
        const Call *call = items->at[i].call;
        for (int k = 0; call && k < call->ndefine; k++)
            if (call->define[k] == d) return true;
        if (is_defined(&items->at[i].body, d) || is_defined(&items->at[i].other, d)) return true;
    }
    return false;
}

/* A symbol that data defines, and nothing has yet. */
static bool is_open(const Lower *lo, Dim d) {
    return nn_data_size(lo, d) && !is_defined(&lo->flow->body, d);
}

void object_define(Lower *lo, int dims, int to) {
    Shape s = nn_shape(lo, to);
    for (int i = 0; i < s.rank; i++)
        if (is_open(lo, s.at[i])) nn_define(lo, s.at[i], dims, i, dim_const(lo->ctx, INT32_MAX));
}

void object_unbox(Lower *lo, int object, int to, DType t) {
    if (nn_cont(lo, to)->type == OBJECT) {
        lower_copy(lo, NULL, object, to);
        return;
    }
    Shape s = nn_shape(lo, to);
    bool open = false;
    for (int i = 0; i < s.rank; i++) open = open || is_open(lo, s.at[i]);
    if (open) {
        Dim rank = dim_const(lo->ctx, s.rank);
        int dims = lower_tmp(lo, "dims", I64, &rank, 1);
        lower_call(lo, "box_dims", &object, 1, &dims, 1, NULL, 0, NULL, 0);
        object_define(lo, dims, to);
    }
    unbox(lo, object, to, t);
}

/* The type of the elements of the tensors in it. */
static DType item_dtype(const Type *t) {
    while (object_is(t)) t = t->elem;
    return t->dtype;
}

int object_cast(Lower *lo, int cont, const Type *to) {
    if (object_is(to)) return object_box(lo, cont, item_dtype(to));
    Shape s = nn_shape(lo, cont);
    bool same = s.rank == to->rank;
    for (int i = 0; same && i < s.rank; i++) same = s.at[i] == to->shape[i];
    if (same) return cont;
    int box = object_box(lo, cont, to->dtype),
        out = lower_tmp(lo, "as", to->dtype, to->shape, to->rank);
    unbox(lo, box, out, to->dtype);
    return out;
}
