/* SPDX-License-Identifier: Apache-2.0 */
/* Attributes of nodes, references to the attributes of functions, Constant nodes. */
#include "import.h"

#include <string.h>

/* ---- references ----------------------------------------------------------------------------- */

static const OnnxAttribute *find(const OnnxAttribute *at, int n, const char *name) {
    for (int i = 0; i < n; i++)
        if (at[i].name && !strcmp(at[i].name, name)) return &at[i];
    return NULL;
}

const OnnxAttribute *import_reference(const OnnxAttribute *a, Scope **scope) {
    while (a && text_or(a->ref, NULL)) {
        const Frame *frame = (*scope)->frame;
        if (!frame) return NULL;
        const char *name = a->ref;
        a = find(frame->call->attribute.at, frame->call->attribute.n, name);
        if (a) {
            *scope = frame->caller;
            continue;
        }
        return find(frame->function->attribute_default.at, frame->function->attribute_default.n,
                    name);
    }
    return a;
}

/* ---- attributes ----------------------------------------------------------------------------- */

/* Files before IR version 2 say the type by the field that is there. */
static int64_t attribute_type(const OnnxAttribute *a) {
    static const int by_field[][2] = {
        {ATTRIBUTE_F, 1},       {ATTRIBUTE_I, 2},      {ATTRIBUTE_S, 3},    {ATTRIBUTE_T, 4},
        {ATTRIBUTE_G, 5},       {ATTRIBUTE_FLOATS, 6}, {ATTRIBUTE_INTS, 7}, {ATTRIBUTE_STRINGS, 8},
        {ATTRIBUTE_SPARSE, 11}, {ATTRIBUTE_TP, 13}};
    if (a->type) return a->type;
    for (size_t i = 0; i < sizeof by_field / sizeof *by_field; i++)
        if (HAS(a, by_field[i][0])) return by_field[i][1];
    return 0;
}

static void attribute_strings(Import *im, const OnnxAttribute *a, Attr *to) {
    const char **at = NEW_ARRAY(im->arena, const char *, a->strings.n);
    int64_t *bytes = NEW_ARRAY(im->arena, int64_t, a->strings.n);
    for (int i = 0; i < a->strings.n; i++) {
        at[i] = (const char *)a->strings.at[i].at;
        bytes[i] = (int64_t)a->strings.at[i].n;
    }
    to->strings = at;
    to->string_bytes = bytes;
    to->n = a->strings.n;
}

static Attr attribute(Import *im, Scope *scope, const OnnxAttribute *a, const char *name) {
    Attr to = {.name = intern(im->ctx, name)};
    int64_t type = attribute_type(a);
    bool empty = (type == 4 && !a->t) || (type == 5 && !a->g) || (type == 11 && !a->sparse) ||
                 (type == 13 && !a->tp);
    if (empty)
        fail(im->ctx, E_ATTRIBUTE, "attribute \"%s\" has no value: export the model again", name);
    switch (type) {
    case 1: to.kind = ATTR_FLOAT, to.f = a->f; break;
    case 2: to.kind = ATTR_INT, to.i = a->i; break;
    case 3:
        to.kind = ATTR_STRING, to.n = (int)a->s.n;
        to.s = arena_printf(im->arena, "%.*s", (int)a->s.n, a->s.n ? (const char *)a->s.at : "");
        break;
    case 4:
        to.kind = ATTR_TENSOR, to.tensor = import_tensor(im, a->t, text_or(a->t->name, to.name));
        break;
    case 5: to.kind = ATTR_GRAPH, to.graph = import_graph(im, a->g, scope); break;
    case 6: to.kind = ATTR_FLOATS, to.floats = a->floats.at, to.n = a->floats.n; break;
    case 7: to.kind = ATTR_INTS, to.ints = a->ints.at, to.n = a->ints.n; break;
    case 8: to.kind = ATTR_STRINGS, attribute_strings(im, a, &to); break;
    case 11: to.kind = ATTR_TENSOR, to.tensor = import_sparse(im, a->sparse, to.name); break;
    case 13: to.kind = ATTR_TYPE, to.type = import_type(im, a->tp, NULL); break;
    default:
        fail(im->ctx, E_UNSUPPORTED, "attribute \"%s\" is of kind %lld, which no operator uses",
             name, (long long)type);
    }
    return to;
}

void import_attributes(Import *im, Scope *scope, const OnnxNode *from, Node *to) {
    for (int i = 0; i < from->attribute.n; i++) {
        Scope *in = scope;
        const OnnxAttribute *own = &from->attribute.at[i], *a = import_reference(own, &in);
        const char *name = text_or(own->name, NULL);
        if (!name) fail(im->ctx, E_MODEL, "an attribute has no name: export the model again");
        if (node_attr(to, name)) fail(im->ctx, E_MODEL, "attribute \"%s\" is given twice", name);
        if (a) vec_push(im->arena, &to->attr, attribute(im, in, a, name));
    }
}

/* ---- Constant ------------------------------------------------------------------------------- */

static Value constant_of(Import *im, const char *name, DType t, const void *data, int rank,
                         int64_t n) {
    Dim *shape = NEW_ARRAY(im->arena, Dim, 1);
    shape[0] = dim_const(im->ctx, n);
    Value v = {.name = name, .kind = VALUE_PARAM, .type = {TYPE_TENSOR, t, rank, shape, NULL}};
    v.data_bytes = dtype_bytes(t, n);
    v.data = n ? data : "";
    return v;
}

static Value constant_strings(Import *im, const char *name, const Span *s, int rank, int64_t n) {
    Value v = constant_of(im, name, STRING, NULL, rank, n);
    const char **at = NEW_ARRAY(im->arena, const char *, n);
    int64_t *bytes = NEW_ARRAY(im->arena, int64_t, n);
    for (int64_t i = 0; i < n; i++) {
        at[i] = (const char *)s[i].at;
        bytes[i] = (int64_t)s[i].n;
    }
    v.data = NULL, v.data_bytes = 0;
    v.strings = at;
    v.string_bytes = bytes;
    return v;
}

Value import_constant(Import *im, Scope *scope, const OnnxNode *node, const char *name) {
    if (node->attribute.n != 1)
        fail(im->ctx, E_ATTRIBUTE, "a Constant has %d attributes: it must have one value",
             node->attribute.n);
    const OnnxAttribute *a = import_reference(&node->attribute.at[0], &scope);
    if (!a)
        fail(im->ctx, E_ATTRIBUTE,
             "a Constant takes its value from an attribute that the call lacks");
    switch (attribute_type(a)) {
    case 1: return constant_of(im, name, F32, &a->f, 0, 1);
    case 2: return constant_of(im, name, I64, &a->i, 0, 1);
    case 3: return constant_strings(im, name, &a->s, 0, 1);
    case 4:
        if (a->t) return import_tensor(im, a->t, name);
        break;
    case 6: return constant_of(im, name, F32, a->floats.at, 1, a->floats.n);
    case 7: return constant_of(im, name, I64, a->ints.at, 1, a->ints.n);
    case 8: return constant_strings(im, name, a->strings.at, 1, a->strings.n);
    case 11:
        if (a->sparse) return import_sparse(im, a->sparse, name);
        break;
    }
    fail(im->ctx, E_ATTRIBUTE, "a Constant has no value in its attribute \"%s\"",
         text_or(a->name, ""));
}
