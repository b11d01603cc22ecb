/* SPDX-License-Identifier: Apache-2.0 */
/* Decoding of the protobuf wire format. Nothing is believed: lengths are compared with what is
 * left, depth and the number of messages are bounded, so time and memory stay proportional to the
 * bytes. */
#include "wire.h"

#include <string.h>

typedef struct Reader {
    Arena *arena;
    Ctx *ctx;
    const uint8_t *base; /* of the whole model: messages name offsets */
    int64_t messages;
} Reader;

typedef struct Cursor {
    Reader *reader;
    const uint8_t *at, *end;
    const char *name;
} Cursor;

_Noreturn static void broken(const Cursor *c, const char *what) {
    fail(c->reader->ctx, E_MODEL,
         "not a valid ONNX file: %s in %s at byte %zu: the file is damaged or of another format",
         what, c->name, (size_t)(c->at - c->reader->base));
}

static uint64_t varint(Cursor *c) {
    uint64_t v = 0;
    for (int shift = 0; shift < 70; shift += 7) {
        if (c->at == c->end) broken(c, "a number is cut off");
        uint8_t b = *c->at++;
        if (shift < 64) v |= (uint64_t)(b & 127) << shift;
        if (b < 128) return v;
    }
    broken(c, "a number has too many bytes");
}

static Span take(Cursor *c, size_t n) {
    if (n > (size_t)(c->end - c->at)) broken(c, "a field is longer than what is left");
    Span s = {c->at, n};
    c->at += n;
    return s;
}

static Span delimited(Cursor *c) {
    uint64_t n = varint(c);
    if (n > (uint64_t)(c->end - c->at)) broken(c, "a field is longer than what is left");
    return take(c, (size_t)n);
}

enum {
    TYPE_VARINT = 0,
    TYPE_64 = 1,
    TYPE_DELIMITED = 2,
    TYPE_GROUP = 3,
    TYPE_GROUP_END = 4,
    TYPE_32 = 5
};

static void skip(Cursor *c, int type) {
    switch (type) {
    case TYPE_VARINT: varint(c); return;
    case TYPE_64: take(c, 8); return;
    case TYPE_DELIMITED: delimited(c); return;
    case TYPE_32: take(c, 4); return;
    default: broken(c, "an unknown wire type");
    }
}

/* ---- fields --------------------------------------------------------------------------------- */

typedef VEC(int64_t) IntVec;
typedef VEC(float) FloatVec;
typedef VEC(const char *) StringVec;
typedef VEC(Span) SpanVec;

static const char *string(Cursor *c, Span s) {
    if (s.n && memchr(s.at, 0, s.n)) broken(c, "a NUL character stands in a name");
    return s.n ? intern_n(c->reader->ctx, (const char *)s.at, s.n) : intern(c->reader->ctx, "");
}

static void ints(Cursor *c, int type, IntVec *to) {
    if (type == TYPE_VARINT) {
        vec_push(c->reader->arena, to, (int64_t)varint(c));
        return;
    }
    Span s = delimited(c);
    Cursor in = {c->reader, s.at, s.at + s.n, c->name};
    while (in.at < in.end) vec_push(c->reader->arena, to, (int64_t)varint(&in));
}

static void floats(Cursor *c, int type, FloatVec *to) {
    Span s = type == TYPE_32 ? take(c, 4) : delimited(c);
    if (s.n % 4) broken(c, "a list of floats has a broken length");
    for (size_t i = 0; i < s.n; i += 4) {
        float f;
        memcpy(&f, s.at + i, 4);
        vec_push(c->reader->arena, to, f);
    }
}

/* A writer may cut a packed list in pieces or not pack it at all: then the pieces are joined. */
static void packed(Cursor *c, int type, Packed *to) {
    Span s = type == TYPE_32 ? take(c, 4) : type == TYPE_64 ? take(c, 8) : delimited(c);
    if (!to->n) {
        *to = (Packed){s.at, s.n, 0};
        return;
    }
    if (to->n + s.n > to->cap) {
        size_t cap = 2 * (to->n + s.n);
        uint8_t *joined = arena_alloc(c->reader->arena, cap);
        memcpy(joined, to->at, to->n);
        *to = (Packed){joined, to->n, cap};
    }
    memcpy((uint8_t *)to->at + to->n, s.at, s.n);
    to->n += s.n;
}

static void message(Cursor *c, Span s, const Message *m, void *to, int depth);

static void *push_struct(Cursor *c, void *vec, size_t size) {
    VEC(char) *v = vec;
    if (v->n == v->cap) v->at = vec_grow(c->reader->arena, v->at, &v->cap, v->n + 1, size);
    void *at = v->at + (size_t)v->n++ * size;
    memset(at, 0, size);
    return at;
}

static void field(Cursor *c, int type, const WireField *f, void *at, int depth) {
    Arena *arena = c->reader->arena;
    switch (f->kind) {
    case WIRE_INT: *(int64_t *)at = (int64_t)varint(c); return;
    case WIRE_FLOAT: memcpy(at, take(c, 4).at, 4); return;
    case WIRE_STRING: *(const char **)at = string(c, delimited(c)); return;
    case WIRE_BYTES: *(Span *)at = delimited(c); return;
    case WIRE_MESSAGE: {
        void *to = *(void **)at;
        if (!to) *(void **)at = to = arena_alloc(arena, f->message->size);
        message(c, delimited(c), f->message, to, depth + 1);
        return;
    }
    case WIRE_INTS: ints(c, type, at); return;
    case WIRE_FLOATS: floats(c, type, at); return;
    case WIRE_STRINGS: vec_push(arena, (StringVec *)at, string(c, delimited(c))); return;
    case WIRE_BYTESES: vec_push(arena, (SpanVec *)at, delimited(c)); return;
    case WIRE_MESSAGES:
        message(c, delimited(c), f->message, push_struct(c, at, f->message->size), depth + 1);
        return;
    case WIRE_PACKED: packed(c, type, at); return;
    }
}

static bool type_fits(WireKind kind, int type) {
    switch (kind) {
    case WIRE_INT: return type == TYPE_VARINT;
    case WIRE_FLOAT: return type == TYPE_32;
    case WIRE_INTS: return type == TYPE_VARINT || type == TYPE_DELIMITED;
    case WIRE_FLOATS: return type == TYPE_32 || type == TYPE_DELIMITED;
    case WIRE_PACKED: return type == TYPE_32 || type == TYPE_64 || type == TYPE_DELIMITED;
    default: return type == TYPE_DELIMITED;
    }
}

static const WireField *find(const Message *m, uint64_t number) {
    for (const WireField *f = m->field; f->number; f++)
        if ((uint64_t)f->number == number) return f;
    return NULL;
}

static void message(Cursor *outer, Span s, const Message *m, void *to, int depth) {
    Cursor c = {outer->reader, s.at, s.at + s.n, m->name};
    if (depth > WIRE_DEPTH)
        fail(c.reader->ctx, E_LIMIT, "messages nest deeper than %d: the file is damaged",
             WIRE_DEPTH);
    if (++c.reader->messages > WIRE_MESSAGES_MAX)
        fail(c.reader->ctx, E_LIMIT, "more than %d messages: the model is too large",
             WIRE_MESSAGES_MAX);
    while (c.at < c.end) {
        uint64_t key = varint(&c), number = key >> 3;
        int type = (int)(key & 7);
        if (!number) broken(&c, "field number 0");
        const WireField *f = find(m, number);
        if (!f) {
            skip(&c, type);
            continue;
        }
        if (!type_fits(f->kind, type)) broken(&c, "a field has the wrong wire type");
        if (number < 64) *(uint64_t *)to |= (uint64_t)1 << number;
        field(&c, type, f, (char *)to + f->offset, depth);
    }
}

void wire_decode(Arena *arena, Span bytes, const Message *m, void *to) {
    Reader reader = {arena, arena_ctx(arena), bytes.at, 0};
    Cursor c = {&reader, bytes.at, bytes.at + bytes.n, m->name};
    message(&c, bytes, m, to, 0);
}
