/* SPDX-License-Identifier: Apache-2.0 */
/* TensorProto, SequenceProto, MapProto and OptionalProto files written. A message is built from the
 * inside out: what is nested stands in a buffer of its own before its length is written. */
#include <stdlib.h>
#include <string.h>

#include "tools/weir/pb.h"

/* Field numbers, the same in SequenceProto and OptionalProto; of MapProto and TensorProto. */
enum { VALUE_TYPE = 2, VALUE_TENSOR = 3, VALUE_SEQUENCE = 5, VALUE_MAP = 6 };
enum { KIND_TENSOR = 1, KIND_SEQUENCE = 3, KIND_MAP = 4 };
enum { MAP_KEY_TYPE = 2, MAP_KEYS = 3, MAP_STRING_KEYS = 4, MAP_VALUES = 5 };
enum { TENSOR_DIMS = 1, TENSOR_TYPE = 2, TENSOR_STRINGS = 6, TENSOR_NAME = 8, TENSOR_RAW = 9 };

typedef struct Bytes {
    uint8_t *at;
    size_t n, room;
} Bytes;

static void put(Bytes *b, const void *from, size_t n) {
    if (b->n + n > b->room) {
        b->room = 2 * b->room + n + 64;
        b->at = host_more(b->at, b->room, 1);
    }
    if (n) memcpy(b->at + b->n, from, n);
    b->n += n;
}

static void put_varint(Bytes *b, uint64_t v) {
    for (; v > 127; v >>= 7) put(b, &(uint8_t){(uint8_t)(v | 128)}, 1);
    put(b, &(uint8_t){(uint8_t)v}, 1);
}

static void put_number(Bytes *b, int field, int64_t v) {
    put_varint(b, (uint64_t)field << 3);
    put_varint(b, (uint64_t)v);
}

static void put_bytes(Bytes *b, int field, const void *at, size_t n) {
    put_varint(b, (uint64_t)field << 3 | 2);
    put_varint(b, n);
    put(b, at, n);
}

static void put_inner(Bytes *b, int field, Bytes *inner) {
    put_bytes(b, field, inner->at, inner->n);
    free(inner->at);
}

static void put_raw(Bytes *b, const weir_tensor *t) {
    DType type = dtype_from_host(t->dtype);
    Bytes raw = {.n = (size_t)dtype_raw_bytes(type, host_count(t))};
    raw.at = host_alloc(raw.n, 1);
    dtype_pack(type, t->data, host_count(t), raw.at);
    put_inner(b, TENSOR_RAW, &raw);
}

static Bytes tensor_bytes(const weir_tensor *t, const char *name) {
    Bytes b = {0};
    for (int i = 0; i < t->rank; i++) put_number(&b, TENSOR_DIMS, t->dims[i]);
    put_number(&b, TENSOR_TYPE, t->dtype);
    for (int64_t i = 0; t->dtype == WEIR_STRING && i < host_count(t); i++) {
        const weir_string *s = (const weir_string *)t->data + i;
        put_bytes(&b, TENSOR_STRINGS, s->at, (size_t)s->bytes);
    }
    if (name) put_bytes(&b, TENSOR_NAME, name, strlen(name));
    if (t->dtype != WEIR_STRING) put_raw(&b, t);
    return b;
}

static Bytes value_bytes(const weir_value *v);

/* A value as an item of a sequence, or as what an optional holds. */
static void put_value(Bytes *b, const weir_value *v) {
    Bytes inner = v->kind == WEIR_VALUE_TENSOR ? tensor_bytes(&v->tensor, NULL) : value_bytes(v);
    put_inner(b,
              v->kind == WEIR_VALUE_TENSOR ? VALUE_TENSOR
              : v->kind == WEIR_VALUE_MAP  ? VALUE_MAP
                                           : VALUE_SEQUENCE,
              &inner);
}

static int64_t kind_number(const weir_value *v) {
    return v->kind == WEIR_VALUE_NONE     ? 0
           : v->kind == WEIR_VALUE_TENSOR ? KIND_TENSOR
           : v->kind == WEIR_VALUE_MAP    ? KIND_MAP
                                          : KIND_SEQUENCE;
}

/* Values of a map that are one tensor are written as scalars. */
static Bytes scalars_bytes(const weir_tensor *t) {
    Bytes b = {0};
    int64_t unit =
        t->dtype == WEIR_STRING ? (int64_t)sizeof(weir_string) : dtype_bits_of(t->dtype) / 8;
    put_number(&b, VALUE_TYPE, KIND_TENSOR);
    for (int64_t i = 0; i < host_count(t); i++) {
        weir_tensor one = {.dtype = t->dtype, .data = (char *)t->data + i * unit};
        put_value(&b, &(weir_value){.kind = WEIR_VALUE_TENSOR, .tensor = one});
    }
    return b;
}

static Bytes map_bytes(const weir_value *v) {
    Bytes b = {0};
    const weir_tensor *keys = &v->items[0].tensor;
    const weir_value *values = &v->items[1];
    put_number(&b, MAP_KEY_TYPE, keys->dtype);
    for (int64_t i = 0; i < host_count(keys); i++) {
        const weir_string *s = (const weir_string *)keys->data + i;
        if (keys->dtype == WEIR_STRING)
            put_bytes(&b, MAP_STRING_KEYS, s->at, (size_t)s->bytes);
        else
            put_number(&b, MAP_KEYS, (int64_t)host_get(keys, i));
    }
    Bytes inner =
        values->kind == WEIR_VALUE_TENSOR ? scalars_bytes(&values->tensor) : value_bytes(values);
    put_inner(&b, MAP_VALUES, &inner);
    return b;
}

static Bytes value_bytes(const weir_value *v) {
    Bytes b = {0};
    if (v->kind == WEIR_VALUE_MAP) return map_bytes(v);
    put_number(&b, VALUE_TYPE, v->count ? kind_number(v->items) : KIND_TENSOR);
    for (int64_t i = 0; i < v->count; i++) put_value(&b, &v->items[i]);
    return b;
}

static Bytes optional_bytes(const weir_value *v) {
    Bytes b = {0};
    put_number(&b, VALUE_TYPE, kind_number(v));
    if (v->kind != WEIR_VALUE_NONE) put_value(&b, v);
    return b;
}

bool pb_write(const HostTensor *h, const char *path, char *error) {
    bool object = h->t.dtype == WEIR_OBJECT,
         optional = object && h->object && !strncmp(h->object, "optional", 8);
    Bytes b = optional ? optional_bytes(h->t.data)
              : object ? value_bytes(h->t.data)
                       : tensor_bytes(&h->t, h->name);
    bool ok = write_whole(path, b.at, b.n, error);
    free(b.at);
    return ok;
}
