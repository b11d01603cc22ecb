/* SPDX-License-Identifier: Apache-2.0 */
/* Handles from what callers give, and one block of memory from handles. */
#include "runtime/objects.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/instance.h"

enum { DEPTH = 32 };

/* ---- taking ---------------------------------------------------------------------------------- */

typedef struct Take {
    weir_objects *o;
    const char *reason;
} Take;

static weir_status bad(Take *t, const char *reason) {
    t->reason = reason;
    return WEIR_E_ARGUMENT;
}

static weir_status take_strings(Take *t, const weir_string *from, int64_t n, int64_t *handle) {
    for (int64_t i = 0; i < n; i++) {
        if (from[i].bytes < 0 || (from[i].bytes && !from[i].at))
            return bad(t, "a string has no bytes, or fewer than none");
        handle[i] = weir_text(t->o, from[i].at, from[i].bytes);
        if (handle[i] < 0) return WEIR_E_MEMORY;
    }
    return WEIR_OK;
}

static weir_status take_tensor(Take *t, const weir_tensor *from, int64_t *handle) {
    weir_tensor tensor = *from;
    if (!weir_dtype_known(from->dtype) || from->dtype == WEIR_OBJECT)
        return bad(t, "an item has an unknown element type");
    if (from->rank < 0 || from->rank > WEIR_RANK_MAX) return bad(t, "an item has a wrong rank");
    for (int d = 0; d < from->rank; d++)
        if (from->dims[d] < 0) return bad(t, "an item has a negative dim");
    int64_t n = weir_tensor_count(from);
    if (weir_bytes(from->dtype, n) == INT64_MAX) return bad(t, "an item is too large");
    if (!from->data && n) return bad(t, "an item has no data");
    if (!weir_is_dense(from)) return bad(t, "an item has strides; copy it to a dense tensor");
    tensor.strides = NULL;
    if (from->dtype != WEIR_STRING) return *handle = weir_object_view(t->o, &tensor), WEIR_OK;
    tensor.data = n < INT64_MAX / 8 ? weir_objects_alloc(t->o, 8 * n) : NULL;
    if (!tensor.data) return WEIR_E_MEMORY;
    weir_status s = take_strings(t, from->data, n, tensor.data);
    if (s == WEIR_OK) *handle = weir_object_view(t->o, &tensor);
    return s;
}

static weir_status take_value(Take *t, const weir_value *v, int depth, int64_t *handle) {
    if (!v || depth > DEPTH) return bad(t, "a value is missing, or nested too deeply");
    if (v->kind == WEIR_VALUE_NONE) return *handle = 0, WEIR_OK;
    if (v->kind == WEIR_VALUE_TENSOR) return take_tensor(t, &v->tensor, handle);
    if (v->kind != WEIR_VALUE_SEQUENCE && v->kind != WEIR_VALUE_MAP)
        return bad(t, "a value is of no known kind");
    if (v->count < 0 || (v->count && !v->items) || (v->kind == WEIR_VALUE_MAP && v->count != 2))
        return bad(t, "a value has a wrong number of items");
    int64_t *item = v->count < INT64_MAX / 8 ? weir_objects_alloc(t->o, 8 * v->count) : NULL;
    if (!item) return WEIR_E_MEMORY;
    for (int64_t i = 0; i < v->count; i++) {
        weir_status s = take_value(t, &v->items[i], depth + 1, &item[i]);
        if (s == WEIR_OK && item[i] <= 0)
            s = item[i] ? WEIR_E_MEMORY : bad(t, "an item is an empty optional");
        if (s) return s;
    }
    *handle = v->kind == WEIR_VALUE_MAP ? weir_object_map(t->o, item[0], item[1])
                                        : weir_object_sequence(t->o, item, v->count);
    return WEIR_OK;
}

weir_status weir_objects_take(weir_objects *o, int32_t dtype, const void *from, int64_t n,
                              int64_t *handle, const char **reason) {
    Take t = {.o = o, .reason = "there is no memory"};
    weir_status s = WEIR_OK;
    if (dtype == WEIR_STRING) s = take_strings(&t, from, n, handle);
    for (int64_t i = 0; dtype == WEIR_OBJECT && s == WEIR_OK && i < n; i++) {
        s = take_value(&t, (const weir_value *)from + i, 0, &handle[i]);
        if (s == WEIR_OK && handle[i] < 0) s = WEIR_E_MEMORY;
    }
    *reason = t.reason;
    return s;
}

/* ---- giving ---------------------------------------------------------------------------------- */

/* The block under construction; without `at` its bytes are counted only. */
typedef struct Block {
    const weir_objects *o;
    char *at;
    int64_t n;
} Block;

static void *put(Block *b, const void *from, int64_t bytes) {
    char *at = b->at ? b->at + b->n : NULL;
    if (at && bytes && from) memcpy(at, from, (size_t)bytes);
    if (bytes > INT64_MAX / 4 || b->n > INT64_MAX / 4)
        b->n = INT64_MAX / 2;
    else
        b->n += (bytes + 15) / 16 * 16;
    return at;
}

static int64_t times(int64_t n, size_t size) {
    int64_t bytes;
    return __builtin_mul_overflow(n, (int64_t)size, &bytes) ? INT64_MAX : bytes;
}

static weir_string *put_strings(Block *b, const int64_t *handle, int64_t n) {
    weir_string *to = put(b, NULL, times(n, sizeof *to));
    int64_t used = 0;
    char *text = b->at ? b->at + b->n : NULL;
    for (int64_t i = 0; i < n; i++) {
        weir_string s = weir_text_of(b->o, handle[i]);
        if (text && s.bytes) memcpy(text + used, s.at, (size_t)s.bytes);
        if (to) to[i] = (weir_string){text + used, s.bytes};
        if (__builtin_add_overflow(used, s.bytes, &used)) used = INT64_MAX / 4;
    }
    put(b, NULL, used);
    return to;
}

static weir_value put_value(Block *b, int64_t handle, int depth) {
    const weir_object *object = weir_object_of(b->o, handle);
    weir_value v = {.kind = WEIR_VALUE_NONE};
    if (!object || depth > DEPTH) return v;
    v.kind = object->kind;
    if (object->kind == WEIR_VALUE_TENSOR) {
        v.tensor = object->tensor;
        int64_t n = weir_tensor_count(&v.tensor);
        v.tensor.data = v.tensor.dtype == WEIR_STRING
                            ? put_strings(b, v.tensor.data, n)
                            : put(b, v.tensor.data, weir_bytes(v.tensor.dtype, n));
        return v;
    }
    v.count = object->count;
    weir_value *items = put(b, NULL, times(v.count, sizeof *items));
    v.items = items;
    for (int64_t i = 0; i < v.count; i++) {
        weir_value item = put_value(b, object->items->at[i], depth + 1);
        if (items) items[i] = item;
    }
    return v;
}

static void put_all(Block *b, int32_t dtype, const int64_t *handle, int64_t n) {
    if (dtype == WEIR_STRING) {
        put_strings(b, handle, n);
        return;
    }
    weir_value *to = put(b, NULL, times(n, sizeof *to));
    for (int64_t i = 0; i < n; i++) {
        weir_value v = put_value(b, handle[i], 0);
        if (to) to[i] = v;
    }
}

weir_status weir_objects_give(const weir_objects *o, int32_t dtype, const int64_t *handle,
                              int64_t n, const weir_allocator *allocator, void **to) {
    Block b = {.o = o};
    put_all(&b, dtype, handle, n);
    if (b.n >= INT64_MAX / 4) return WEIR_E_MEMORY;
    size_t bytes = (size_t)b.n + 16;
    b.at = allocator ? allocator->alloc(allocator->context, bytes) : malloc(bytes);
    if (!b.at) return WEIR_E_MEMORY;
    b.n = 0;
    put_all(&b, dtype, handle, n);
    *to = b.at;
    return WEIR_OK;
}
