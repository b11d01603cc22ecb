/* SPDX-License-Identifier: Apache-2.0 */
/* From bytes to messages: the walk, then protobuf-c into an arena, then every string interned, by
 * the descriptors. What newer schemas add to Debian's is read from the unknown fields. */
#include "proto.h"

#include <string.h>

enum {
    NODE_OVERLOAD = 8,
    FUNCTION_ATTRIBUTE = 11,
    FUNCTION_VALUE_INFO = 12,
    FUNCTION_OVERLOAD = 13
};

static const WireField special[] = {
    {&onnx__tensor_proto__descriptor, ONNX_FLOAT_DATA, WIRE_PLACE, 0, NULL},
    {&onnx__tensor_proto__descriptor, ONNX_RAW_DATA, WIRE_PLACE, 0, NULL},
    {&onnx__tensor_proto__descriptor, ONNX_DOUBLE_DATA, WIRE_PLACE, 0, NULL},
    {&onnx__node_proto__descriptor, NODE_OVERLOAD, WIRE_NEWER, PROTOBUF_C_TYPE_STRING, NULL},
    {&onnx__function_proto__descriptor, FUNCTION_ATTRIBUTE, WIRE_NEWER, PROTOBUF_C_TYPE_MESSAGE,
     &onnx__attribute_proto__descriptor},
    {&onnx__function_proto__descriptor, FUNCTION_VALUE_INFO, WIRE_NEWER, PROTOBUF_C_TYPE_MESSAGE,
     &onnx__value_info_proto__descriptor},
    {&onnx__function_proto__descriptor, FUNCTION_OVERLOAD, WIRE_NEWER, PROTOBUF_C_TYPE_STRING,
     NULL},
    {0},
};

/* ---- strings -------------------------------------------------------------------------------- */

static void intern_message(Ctx *ctx, ProtobufCMessage *m);

static void intern_field(Ctx *ctx, ProtobufCMessage *m, const ProtobufCFieldDescriptor *f) {
    char *base = (char *)m, *at = base + f->offset;
    bool repeated = f->label == PROTOBUF_C_LABEL_REPEATED;
    if (f->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) {
        int which;
        memcpy(&which, base + f->quantifier_offset, sizeof which);
        if (which != (int)f->id) return;
    }
    size_t n = 1;
    if (repeated) {
        memcpy(&n, base + f->quantifier_offset, sizeof n);
        memcpy(&at, at, sizeof at);
    }
    for (size_t i = 0; i < n; i++) {
        if (f->type == PROTOBUF_C_TYPE_MESSAGE) {
            ProtobufCMessage *inner = ((ProtobufCMessage **)at)[i];
            if (inner) intern_message(ctx, inner);
        } else {
            const char **s = &((const char **)at)[i];
            if (*s) *s = intern(ctx, *s);
        }
    }
}

static void intern_message(Ctx *ctx, ProtobufCMessage *m) {
    const ProtobufCMessageDescriptor *d = m->descriptor;
    for (unsigned i = 0; i < d->n_fields; i++)
        if (d->fields[i].type == PROTOBUF_C_TYPE_MESSAGE ||
            d->fields[i].type == PROTOBUF_C_TYPE_STRING)
            intern_field(ctx, m, &d->fields[i]);
}

/* ---- messages ------------------------------------------------------------------------------- */

static void *take_memory(void *arena, size_t n) {
    return arena_alloc(arena, n);
}

static void leave_memory(void *arena, void *at) {
    (void)arena, (void)at;
}

static void *unpack(Arena *arena, const ProtobufCMessageDescriptor *d, Span slim) {
    ProtobufCAllocator allocator = {take_memory, leave_memory, arena};
    ProtobufCMessage *m = protobuf_c_message_unpack(d, &allocator, slim.n, slim.at);
    if (!m)
        fail(
            arena_ctx(arena), E_MODEL,
            "not a valid ONNX file: %s cannot be decoded: the file is damaged or of another format",
            d->short_name);
    intern_message(arena_ctx(arena), m);
    return m;
}

/* What people take for a model: none of these begins as one can. */
static void refuse_others(Ctx *ctx, Span bytes) {
    static const struct {
        const char *begin, *what;
    } other[] = {
        {"version https://git-lfs", "a pointer of Git LFS: \"git lfs pull\" fetches the model"},
        {"<", "a page of the web: fetch the model itself"},
        {"PK\3\4", "an archive, as torch.save writes them: export the model (torch.onnx.export)"}};
    for (size_t i = 0; i < sizeof other / sizeof *other; i++) {
        size_t n = strlen(other[i].begin);
        if (bytes.n >= n && !memcmp(bytes.at, other[i].begin, n))
            fail(ctx, E_MODEL, "this is no ONNX file but %s", other[i].what);
    }
}

OnnxModel *onnx_decode(Arena *arena, Span bytes) {
    Ctx *ctx = arena_ctx(arena);
    if (!bytes.n) fail(ctx, E_MODEL, "the model is empty: export it again");
    refuse_others(ctx, bytes);
    Arena *scratch = arena_new(ctx);
    Span slim = wire_slim(scratch, bytes, &onnx__model_proto__descriptor, special);
    OnnxModel *model = unpack(arena, &onnx__model_proto__descriptor, slim);
    arena_free(scratch);
    if (!model->graph)
        fail(ctx, E_MODEL, "the file holds no ONNX graph: it is of another format or was cut off");
    return model;
}

static const char *newer_string(Ctx *ctx, const ProtobufCMessage *m, uint32_t number) {
    unsigned next = 0;
    const char *last = intern(ctx, "");
    for (Span s; (s = wire_newer(m, number, &next)).at;)
        if (s.n) last = intern_n(ctx, (const char *)s.at, s.n);
    return last;
}

const char *onnx_overload(Ctx *ctx, const OnnxNode *node) {
    return newer_string(ctx, &node->base, NODE_OVERLOAD);
}

static OnnxFunction function(Arena *arena, const OnnxFunctionBody *body) {
    OnnxFunction f = {.body = body,
                      .overload = newer_string(arena_ctx(arena), &body->base, FUNCTION_OVERLOAD)};
    unsigned next = 0;
    for (Span s; (s = wire_newer(&body->base, FUNCTION_ATTRIBUTE, &next)).at;)
        vec_push(arena, &f.attribute_default, unpack(arena, &onnx__attribute_proto__descriptor, s));
    next = 0;
    for (Span s; (s = wire_newer(&body->base, FUNCTION_VALUE_INFO, &next)).at;)
        vec_push(arena, &f.value_info, unpack(arena, &onnx__value_info_proto__descriptor, s));
    return f;
}

OnnxFunctions onnx_functions(Arena *arena, const OnnxModel *model) {
    OnnxFunctions all = {0};
    for (size_t i = 0; i < model->n_functions; i++)
        vec_push(arena, &all, function(arena, model->functions[i]));
    return all;
}

/* ---- data of weights ------------------------------------------------------------------------ */

/* A writer may cut a list in pieces; then they are joined. Of a bytes field the last one counts. */
Span onnx_data(Arena *arena, const OnnxTensor *t, OnnxData field) {
    Span last = {0};
    size_t total = 0, pieces = 0;
    unsigned next = 0;
    for (Span s; (s = wire_place(&t->base, field, &next)).at; pieces++) last = s, total += s.n;
    if (pieces < 2 || field == ONNX_RAW_DATA) return last;
    uint8_t *joined = arena_alloc(arena, total), *to = joined;
    next = 0;
    for (Span s; (s = wire_place(&t->base, field, &next)).at; to += s.n)
        if (s.n) memcpy(to, s.at, s.n);
    return (Span){joined, total};
}
