/* SPDX-License-Identifier: Apache-2.0 */
/* SequenceProto, MapProto and OptionalProto files. These messages nest each other and hold tensors,
 * so a file is read into a tree, and the tree into one block. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/weir/pb.h"

enum { DEPTH = 16 };
enum { MESSAGE_SEQUENCE, MESSAGE_OPTIONAL, MESSAGE_MAP };

/* What field 3, 5, 6, 7 of a sequence or an optional hold; sparse tensors (4) are not read. */
typedef struct Field {
    int number;
    uint64_t value;    /* of a varint */
    const uint8_t *at; /* of bytes */
    size_t n;
} Field;

typedef struct Reader {
    const uint8_t *at, *end;
    char *error; /* 256 bytes */
    bool bad;
} Reader;

static bool failed(Reader *r, const char *what) {
    if (!r->bad) snprintf(r->error, 256, "%s", what);
    r->bad = true;
    return false;
}

static uint64_t varint(Reader *r) {
    uint64_t v = 0;
    for (int shift = 0; shift < 64; shift += 7) {
        if (r->at == r->end) break;
        uint8_t byte = *r->at++;
        v |= (uint64_t)(byte & 127) << shift;
        if (byte < 128) return v;
    }
    failed(r, "the file is cut off in a number");
    return 0;
}

static bool next_field(Reader *r, Field *f) {
    if (r->bad || r->at == r->end) return false;
    uint64_t key = varint(r), n = 0;
    *f = (Field){.number = (int)(key >> 3 & 0xffff)};
    switch (key & 7) {
    case 0: f->value = varint(r); return !r->bad;
    case 1: n = 8; break;
    case 2: n = varint(r); break;
    case 5: n = 4; break;
    default: return failed(r, "the file is no ONNX value");
    }
    if (r->bad || n > (uint64_t)(r->end - r->at)) return failed(r, "the file is cut off");
    f->at = r->at;
    f->n = (size_t)n;
    r->at += n;
    return true;
}

/* ---- reading --------------------------------------------------------------------------------- */

static void value_free(weir_value *v) {
    for (int64_t i = 0; i < v->count; i++) value_free((weir_value *)(uintptr_t)&v->items[i]);
    free((void *)(uintptr_t)v->items);
    free(v->tensor.data);
    *v = (weir_value){0};
}

static weir_value read_message(Reader *r, int message, int depth);

static weir_value read_inner(Reader *r, const Field *f, int message, int depth) {
    Reader inner = {.at = f->at, .end = f->at + f->n, .error = r->error, .bad = r->bad};
    weir_value v = {0};
    if (message >= 0) {
        v = read_message(&inner, message, depth + 1);
    } else {
        HostTensor h = {0};
        v.kind = WEIR_VALUE_TENSOR;
        inner.bad = inner.bad || !pb_tensor(&h, f->at, f->n, r->error);
        v.tensor = h.t;
        free(h.name);
    }
    r->bad = inner.bad;
    return v;
}

static void push(weir_value *list, const weir_value *item) {
    size_t n = (size_t)list->count;
    weir_value *at = (weir_value *)(uintptr_t)list->items;
    if ((n & (n - 1)) == 0) at = host_more(at, n ? 2 * n : 1, sizeof *at);
    at[n] = *item;
    list->items = at;
    list->count++;
}

/* Keys of a map: integers one by one or packed, or strings. */
typedef struct Keys {
    int64_t *number, n;
    weir_string *text;
} Keys;

static void add_key(Keys *k, int64_t number, const Field *text) {
    size_t n = (size_t)k->n++;
    if ((n & (n - 1)) == 0) {
        k->number = host_more(k->number, n ? 2 * n : 1, sizeof *k->number);
        k->text = host_more(k->text, n ? 2 * n : 1, sizeof *k->text);
    }
    k->number[n] = number;
    k->text[n] = text ? (weir_string){(const char *)text->at, (int64_t)text->n} : (weir_string){0};
}

static weir_value key_tensor(Keys *k, int64_t type) {
    weir_value v = {.kind = WEIR_VALUE_TENSOR};
    v.tensor = (weir_tensor){.dtype = (int32_t)type, .rank = 1, .dims = {k->n}};
    if (type == WEIR_STRING) {
        v.tensor.data = k->text; /* the bytes stand in the file */
        free(k->number);
        return v;
    }
    DType t = dtype_from_onnx((int)type);
    v.tensor.data = host_alloc((size_t)k->n, 8);
    for (int64_t i = 0; i < k->n; i++) mem_set(t, v.tensor.data, i, bits_of_int(t, k->number[i]));
    free(k->number);
    free(k->text);
    return v;
}

/* Scalars of one type as one tensor of rank 1, which is how maps hold their values; else nothing
 * changes. */
static void join_scalars(weir_value *list) {
    const weir_value *v = list->items;
    if (list->count < 1) return;
    int32_t type = v->tensor.dtype;
    for (int64_t i = 0; i < list->count; i++)
        if (v[i].kind != WEIR_VALUE_TENSOR || !v[i].tensor.data || v[i].tensor.dtype != type ||
            host_count(&v[i].tensor) != 1 || dtype_bits_of(type) < 8)
            return;
    size_t unit = type == WEIR_STRING ? sizeof(weir_string) : (size_t)dtype_bits_of(type) / 8;
    HostTensor all = {.t = {.dtype = type, .rank = 1, .dims = {list->count}}};
    char *data = host_alloc((size_t)list->count, unit);
    bool flat = true;
    for (int64_t i = 0; i < list->count; i++)
        memcpy(data + unit * (size_t)i, v[i].tensor.data, unit);
    all.t.data = data;
    if (type == WEIR_STRING) {
        flat = host_flatten(&all, data);
        free(data);
    }
    if (!flat) return;
    value_free(list);
    *list = (weir_value){.kind = WEIR_VALUE_TENSOR, .tensor = all.t};
}

static weir_value read_map(Reader *r, int depth) {
    weir_value v = {.kind = WEIR_VALUE_MAP}, values = {.kind = WEIR_VALUE_SEQUENCE};
    Keys keys = {0};
    int64_t type = WEIR_I64;
    for (Field f; next_field(r, &f);) {
        if (f.number == 2) type = (int64_t)f.value;
        if (f.number == 3 && !f.at) add_key(&keys, (int64_t)f.value, NULL);
        if (f.number == 3 && f.at) {
            Reader packed = {.at = f.at, .end = f.at + f.n, .error = r->error};
            while (packed.at < packed.end && !packed.bad)
                add_key(&keys, (int64_t)varint(&packed), NULL);
        }
        if (f.number == 4) add_key(&keys, 0, &f);
        if (f.number == 5) values = read_inner(r, &f, MESSAGE_SEQUENCE, depth);
    }
    bool integers = type == (int32_t)type && dtype_is_int(dtype_from_onnx((int)type));
    if (type != WEIR_STRING && !integers) {
        failed(r, "keys of maps are integers or strings");
        type = WEIR_I64;
    }
    weir_value k = key_tensor(&keys, type);
    join_scalars(&values);
    push(&v, &k);
    push(&v, &values);
    return v;
}

static weir_value read_message(Reader *r, int message, int depth) {
    static const int of_field[] = {
        [3] = -1, [5] = MESSAGE_SEQUENCE, [6] = MESSAGE_MAP, [7] = MESSAGE_OPTIONAL};
    weir_value v = {.kind = message == MESSAGE_SEQUENCE ? WEIR_VALUE_SEQUENCE : WEIR_VALUE_NONE};
    if (depth > DEPTH) return failed(r, "values nest too deeply"), v;
    if (message == MESSAGE_MAP) return read_map(r, depth);
    for (Field f; next_field(r, &f);) {
        if (f.number == 4) failed(r, "sparse tensors in values are not read");
        if (f.number < 3 || f.number > 7 || f.number == 4 || r->bad) continue;
        weir_value item = read_inner(r, &f, of_field[f.number], depth);
        if (message == MESSAGE_SEQUENCE) {
            push(&v, &item);
        } else {
            value_free(&v);
            v = item;
        }
    }
    return v;
}

bool pb_value(HostTensor *h, const uint8_t *at, size_t n, const char *type, char *error) {
    Reader r = {.at = at, .end = at + n, .error = error};
    bool optional = strncmp(type, "optional", 8) == 0, map = strncmp(type, "map", 3) == 0;
    weir_value v = read_message(&r,
                                optional ? MESSAGE_OPTIONAL
                                : map    ? MESSAGE_MAP
                                         : MESSAGE_SEQUENCE,
                                0);
    h->t = (weir_tensor){.dtype = WEIR_OBJECT};
    if (!r.bad && !host_flatten(h, &v)) failed(&r, "the value is damaged");
    value_free(&v);
    return !r.bad;
}
