/* SPDX-License-Identifier: Apache-2.0 */
/* Attributes of nodes, references to the attributes of functions, Constant nodes. */
#include "import.h"

#include <string.h>

/* ---- references ----------------------------------------------------------------------------- */

static const OnnxAttribute *find(const OnnxAttribute *const *at, size_t n, const char *name) {
    for (size_t i = 0; i < n; i++)
        if (at[i]->name && !strcmp(at[i]->name, name)) return at[i];
    return NULL;
}

const OnnxAttribute *import_reference(Ctx *ctx, const OnnxAttribute *a, Scope **scope) {
    while (a && text_or(a->ref_attr_name, NULL)) {
        const Frame *frame = (*scope)->frame;
        const char *name = a->ref_attr_name;
        if (!frame)
            fail(ctx, E_ATTRIBUTE,
                 "attribute \"%s\" refers to \"%s\" of a function's call, but stands in no "
                 "function: export the model again",
                 text_or(a->name, ""), name);
        a = find((const OnnxAttribute *const *)frame->call->attribute, frame->call->n_attribute,
                 name);
        if (a) {
            *scope = frame->caller;
            continue;
        }
        return find(frame->function->attribute_default.at,
                    (size_t)frame->function->attribute_default.n, name);
    }
    return a;
}

/* ---- attributes ----------------------------------------------------------------------------- */

/* Files before IR version 2 say the type by the field that is there. */
static OnnxAttributeType attribute_type(const OnnxAttribute *a) {
    if (a->type) return a->type;
    if (a->has_f) return ONNX_ATTRIBUTE(FLOAT);
    if (a->has_i) return ONNX_ATTRIBUTE(INT);
    if (a->has_s) return ONNX_ATTRIBUTE(STRING);
    if (a->t) return ONNX_ATTRIBUTE(TENSOR);
    if (a->g) return ONNX_ATTRIBUTE(GRAPH);
    if (a->n_floats) return ONNX_ATTRIBUTE(FLOATS);
    if (a->n_ints) return ONNX_ATTRIBUTE(INTS);
    if (a->n_strings) return ONNX_ATTRIBUTE(STRINGS);
    if (a->sparse_tensor) return ONNX_ATTRIBUTE(SPARSE_TENSOR);
    return a->tp ? ONNX_ATTRIBUTE(TYPE_PROTO) : ONNX_ATTRIBUTE(UNDEFINED);
}

static bool lacks_value(const OnnxAttribute *a) {
    switch (attribute_type(a)) {
    case ONNX_ATTRIBUTE(TENSOR): return !a->t;
    case ONNX_ATTRIBUTE(GRAPH): return !a->g;
    case ONNX_ATTRIBUTE(SPARSE_TENSOR): return !a->sparse_tensor;
    case ONNX_ATTRIBUTE(TYPE_PROTO): return !a->tp;
    default: return false;
    }
}

static Attr attribute(Import *im, Scope *scope, const OnnxAttribute *a, const char *name) {
    Attr to = {.name = intern(im->ctx, name)};
    if (lacks_value(a))
        fail(im->ctx, E_ATTRIBUTE, "attribute \"%s\" has no value: export the model again", name);
    switch (attribute_type(a)) {
    case ONNX_ATTRIBUTE(FLOAT): to.kind = ATTR_FLOAT, to.f = a->f; break;
    case ONNX_ATTRIBUTE(INT): to.kind = ATTR_INT, to.i = a->i; break;
    case ONNX_ATTRIBUTE(STRING):
        to.kind = ATTR_STRING, to.n = (int)a->s.len;
        to.s = arena_printf(im->arena, "%.*s", to.n, a->s.len ? (const char *)a->s.data : "");
        break;
    case ONNX_ATTRIBUTE(TENSOR):
        to.kind = ATTR_TENSOR, to.tensor = import_tensor(im, a->t, text_or(a->t->name, to.name));
        break;
    case ONNX_ATTRIBUTE(GRAPH):
        to.kind = ATTR_GRAPH, to.graph = import_graph(im, a->g, scope);
        break;
    case ONNX_ATTRIBUTE(FLOATS):
        to.kind = ATTR_FLOATS, to.floats = a->floats, to.n = (int)a->n_floats;
        break;
    case ONNX_ATTRIBUTE(INTS): to.kind = ATTR_INTS, to.ints = a->ints, to.n = (int)a->n_ints; break;
    case ONNX_ATTRIBUTE(STRINGS):
        to.kind = ATTR_STRINGS, to.n = (int)a->n_strings;
        import_strings(im, a->strings, a->n_strings, &to.strings, &to.string_bytes);
        break;
    case ONNX_ATTRIBUTE(SPARSE_TENSOR):
        to.kind = ATTR_TENSOR, to.tensor = import_sparse(im, a->sparse_tensor, to.name);
        break;
    case ONNX_ATTRIBUTE(TYPE_PROTO):
        to.kind = ATTR_TYPE, to.type = import_type(im, a->tp, NULL);
        break;
    default:
        fail(im->ctx, E_UNSUPPORTED, "attribute \"%s\" is of kind %d, which no operator uses", name,
             (int)attribute_type(a));
    }
    return to;
}

void import_attributes(Import *im, Scope *scope, const OnnxNode *from, Node *to) {
    for (size_t i = 0; i < from->n_attribute; i++) {
        Scope *in = scope;
        const OnnxAttribute *own = from->attribute[i], *a = import_reference(im->ctx, own, &in);
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

static Value constant_strings(Import *im, const char *name, const ProtobufCBinaryData *s, int rank,
                              size_t n) {
    Value v = constant_of(im, name, STRING, NULL, rank, (int64_t)n);
    v.data = NULL, v.data_bytes = 0;
    import_strings(im, s, n, &v.strings, &v.string_bytes);
    return v;
}

Value import_constant(Import *im, Scope *scope, const OnnxNode *node, const char *name) {
    if (node->n_attribute != 1)
        fail(im->ctx, E_ATTRIBUTE, "a Constant has %zu attributes: it must have one value",
             node->n_attribute);
    const OnnxAttribute *a = import_reference(im->ctx, node->attribute[0], &scope);
    if (!a)
        fail(im->ctx, E_ATTRIBUTE,
             "a Constant takes its value from an attribute that the call lacks");
    switch (lacks_value(a) ? ONNX_ATTRIBUTE(UNDEFINED) : attribute_type(a)) {
    case ONNX_ATTRIBUTE(FLOAT): return constant_of(im, name, F32, &a->f, 0, 1);
    case ONNX_ATTRIBUTE(INT): return constant_of(im, name, I64, &a->i, 0, 1);
    case ONNX_ATTRIBUTE(STRING): return constant_strings(im, name, &a->s, 0, 1);
    case ONNX_ATTRIBUTE(TENSOR): return import_tensor(im, a->t, name);
    case ONNX_ATTRIBUTE(FLOATS):
        return constant_of(im, name, F32, a->floats, 1, (int64_t)a->n_floats);
    case ONNX_ATTRIBUTE(INTS): return constant_of(im, name, I64, a->ints, 1, (int64_t)a->n_ints);
    case ONNX_ATTRIBUTE(STRINGS): return constant_strings(im, name, a->strings, 1, a->n_strings);
    case ONNX_ATTRIBUTE(SPARSE_TENSOR): return import_sparse(im, a->sparse_tensor, name);
    default: break;
    }
    fail(im->ctx, E_ATTRIBUTE, "a Constant has no value in its attribute \"%s\"",
         text_or(a->name, ""));
}
