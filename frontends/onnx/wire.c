/* SPDX-License-Identifier: Apache-2.0 */
/* The walk over the wire format. Nothing is believed: lengths are compared with what is left, depth
 * and the number of messages are bounded, so time and memory stay proportional to the bytes.
 *
 * The length of a nested message is known only after it was written: it stands in five bytes, as
 * the format allows, and is filled in then. */
#include "wire.h"

#include <string.h>

typedef struct Walk {
    Arena *arena;
    Ctx *ctx;
    const uint8_t *base; /* of the whole model: messages name offsets */
    const WireField *field;
    int64_t messages;
    VEC(uint8_t) out;
} Walk;

typedef struct Cursor {
    Walk *walk;
    const uint8_t *at, *end;
    const char *name;
} Cursor;

/* A field of the schema, or one of the WireFields. */
typedef struct Known {
    ProtobufCType type;
    bool repeated, place;
    const ProtobufCMessageDescriptor *message;
} Known;

_Noreturn static void broken(const Cursor *c, const char *what) {
    fail(c->walk->ctx, E_MODEL,
         "not a valid ONNX file: %s in %s at byte %zu: the file is damaged or of another format",
         what, c->name, (size_t)(c->at - c->walk->base));
}

/* ---- reading -------------------------------------------------------------------------------- */

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

static Span take(Cursor *c, uint64_t n) {
    if (n > (uint64_t)(c->end - c->at)) broken(c, "a field is longer than what is left");
    Span s = {c->at, (size_t)n};
    c->at += n;
    return s;
}

static Span delimited(Cursor *c) {
    return take(c, varint(c));
}

static Span content(Cursor *c, int wire_type) {
    const uint8_t *start = c->at;
    switch (wire_type) {
    case PROTOBUF_C_WIRE_TYPE_VARINT: varint(c); return (Span){start, (size_t)(c->at - start)};
    case PROTOBUF_C_WIRE_TYPE_64BIT: return take(c, 8);
    case PROTOBUF_C_WIRE_TYPE_LENGTH_PREFIXED: return delimited(c);
    case PROTOBUF_C_WIRE_TYPE_32BIT: return take(c, 4);
    default: broken(c, "an unknown wire type");
    }
}

static int wire_type_of(ProtobufCType type) {
    switch (type) {
    case PROTOBUF_C_TYPE_FLOAT:
    case PROTOBUF_C_TYPE_FIXED32:
    case PROTOBUF_C_TYPE_SFIXED32: return PROTOBUF_C_WIRE_TYPE_32BIT;
    case PROTOBUF_C_TYPE_DOUBLE:
    case PROTOBUF_C_TYPE_FIXED64:
    case PROTOBUF_C_TYPE_SFIXED64: return PROTOBUF_C_WIRE_TYPE_64BIT;
    case PROTOBUF_C_TYPE_STRING:
    case PROTOBUF_C_TYPE_BYTES:
    case PROTOBUF_C_TYPE_MESSAGE: return PROTOBUF_C_WIRE_TYPE_LENGTH_PREFIXED;
    default: return PROTOBUF_C_WIRE_TYPE_VARINT;
    }
}

/* A list in one piece: whole numbers of its kind. */
static void check_packed(Cursor *c, Span s, int wire_type) {
    size_t width = wire_type == PROTOBUF_C_WIRE_TYPE_32BIT   ? 4
                   : wire_type == PROTOBUF_C_WIRE_TYPE_64BIT ? 8
                                                             : 1;
    if (s.n % width) broken(c, "a list of numbers has a broken length");
    if (wire_type != PROTOBUF_C_WIRE_TYPE_VARINT) return;
    Cursor in = {c->walk, s.at, s.at + s.n, c->name};
    while (in.at < in.end) varint(&in);
}

static void check_field(Cursor *c, const Known *known, int wire_type, Span s) {
    int own = wire_type_of(known->type);
    if (wire_type != own) {
        if (!known->repeated || wire_type != PROTOBUF_C_WIRE_TYPE_LENGTH_PREFIXED)
            broken(c, "a field has the wrong wire type");
        check_packed(c, s, own);
    }
    if (known->type == PROTOBUF_C_TYPE_STRING && s.n && memchr(s.at, 0, s.n))
        broken(c, "a NUL character stands in a name");
}

/* ---- writing -------------------------------------------------------------------------------- */

static void put(Walk *w, const void *at, size_t n) {
    size_t need = (size_t)w->out.n + n;
    if (need > INT32_MAX - 16)
        fail(w->ctx, E_LIMIT, "the model has more than 2 GB beside its weights: it is too large");
    if ((int)need > w->out.cap)
        w->out.at = vec_grow(w->arena, w->out.at, &w->out.cap, (int)need, 1);
    if (n) memcpy(w->out.at + w->out.n, at, n);
    w->out.n = (int)need;
}

enum { LENGTH_BYTES = 5 };

static void set_length(uint8_t *at, uint32_t n) {
    for (int i = 0; i < LENGTH_BYTES; i++, n >>= 7)
        at[i] = (uint8_t)((n & 127) | (i + 1 < LENGTH_BYTES ? 128 : 0));
}

static void put_key(Walk *w, uint64_t number) {
    uint8_t key[10];
    int n = 0;
    for (uint64_t v = number << 3 | PROTOBUF_C_WIRE_TYPE_LENGTH_PREFIXED; n == 0 || v; v >>= 7)
        key[n++] = (uint8_t)((v & 127) | (v > 127 ? 128 : 0));
    put(w, key, (size_t)n);
}

/* A length whose value is not known yet; returns where it stands. */
static int open_length(Walk *w) {
    static const uint8_t none[LENGTH_BYTES];
    put(w, none, LENGTH_BYTES);
    return w->out.n;
}

static void close_length(Walk *w, int from) {
    set_length(w->out.at + from - LENGTH_BYTES, (uint32_t)(w->out.n - from));
}

/* The numbers of places are those of the field, far above any that the schema has. */
static uint32_t place_number(uint32_t number) {
    return number + (1u << 20);
}

static void put_place(Walk *w, uint64_t number, Span s) {
    put_key(w, place_number((uint32_t)number));
    int from = open_length(w);
    put(w, &s, sizeof s);
    close_length(w, from);
}

/* ---- the walk ------------------------------------------------------------------------------- */

static bool find(const Walk *w, const ProtobufCMessageDescriptor *d, uint64_t number,
                 Known *known) {
    for (const WireField *f = w->field; f->of; f++)
        if (f->of == d && f->number == number && f->kind == WIRE_NEWER) {
            *known = (Known){f->type, true, false, f->message};
            return true;
        }
    const ProtobufCFieldDescriptor *f =
        number > UINT32_MAX ? NULL : protobuf_c_message_descriptor_get_field(d, (unsigned)number);
    if (!f) return false;
    *known = (Known){f->type, f->label == PROTOBUF_C_LABEL_REPEATED, false, f->descriptor};
    for (const WireField *p = w->field; p->of; p++)
        if (p->of == d && p->number == number) known->place = true;
    return true;
}

static void message(Walk *w, Span s, const ProtobufCMessageDescriptor *d, int depth) {
    Cursor c = {w, s.at, s.at + s.n, d->short_name};
    if (depth > WIRE_DEPTH)
        fail(w->ctx, E_LIMIT, "messages nest deeper than %d: the file is damaged", WIRE_DEPTH);
    if (++w->messages > WIRE_MESSAGES_MAX)
        fail(w->ctx, E_LIMIT, "more than %d messages: the model is too large", WIRE_MESSAGES_MAX);
    while (c.at < c.end) {
        const uint8_t *start = c.at;
        uint64_t key = varint(&c), number = key >> 3;
        int wire_type = (int)(key & 7);
        if (!number) broken(&c, "field number 0");
        Known known;
        Span in = content(&c, wire_type);
        if (!find(w, d, number, &known)) continue;
        check_field(&c, &known, wire_type, in);
        if (known.place) {
            put_place(w, number, in);
        } else if (known.type == PROTOBUF_C_TYPE_MESSAGE) {
            put_key(w, number);
            int from = open_length(w);
            message(w, in, known.message, depth + 1);
            close_length(w, from);
        } else {
            put(w, start, (size_t)(c.at - start));
        }
    }
}

Span wire_slim(Arena *arena, Span bytes, const ProtobufCMessageDescriptor *d,
               const WireField *field) {
    Walk w = {.arena = arena, .ctx = arena_ctx(arena), .base = bytes.at, .field = field};
    message(&w, bytes, d, 0);
    return (Span){w.out.at, (size_t)w.out.n};
}

/* ---- afterwards ----------------------------------------------------------------------------- */

/* protobuf-c keeps the length in front of the content. */
Span wire_newer(const ProtobufCMessage *m, uint32_t number, unsigned *next) {
    while (*next < m->n_unknown_fields) {
        const ProtobufCMessageUnknownField *u = &m->unknown_fields[(*next)++];
        if (u->tag != number) continue;
        size_t at = 0;
        while (u->data[at] & 128) at++;
        return (Span){u->data + at + 1, u->len - at - 1};
    }
    return (Span){0};
}

Span wire_place(const ProtobufCMessage *m, uint32_t number, unsigned *next) {
    Span place = {0}, kept = wire_newer(m, place_number(number), next);
    if (kept.at) memcpy(&place, kept.at, sizeof place);
    return place;
}
