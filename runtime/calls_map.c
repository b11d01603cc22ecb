/* SPDX-License-Identifier: Apache-2.0 */
/* Maps made of tensors, and read. Meaning: ir/call.def. Keys are numbers of 64 bits or handles of
 * strings, of which equal ones have equal handles; values a tensor, or a sequence of scalars. */
#include "runtime/calls.h"
#include "runtime/instance.h"
#include "runtime/keys.h"
#include "runtime/objects.h"

#include <string.h>

NO_SCRATCH(map_make)
NO_SCRATCH(map_get)
NO_SCRATCH(map_length)
NO_SCRATCH(map_values)
NO_SCRATCH(zip_map)

void weir_call_map_make(weir_call *c) {
    const int64_t *keys = c->in[0].data, *values = c->in[1].data;
    int64_t made = weir_object_map(c->objects, *keys, *values);
    *(int64_t *)c->out[0].data = made;
    if (made < 0) fails(c, WEIR_E_MEMORY, "there is no memory for a map");
}

void weir_call_zip_map(weir_call *c) {
    const weir_tensor *x = &c->in[0];
    int64_t n = c->in[1].dims[0], rows = x->rank > 1 ? x->dims[0] : 1,
            step = weir_bytes(x->dtype, 1);
    int64_t *item = rows < INT64_MAX / 8 ? weir_objects_alloc(c->objects, 8 * rows) : NULL;
    int64_t keys = item ? weir_object_tensor(c->objects, &c->in[1]) : -1, made = keys;
    weir_tensor row = {.dtype = x->dtype, .rank = 1, .dims = {n}};
    for (int64_t r = 0; r < rows && made >= 0; r++) {
        row.data = (char *)x->data + r * n * step;
        int64_t values = weir_object_tensor(c->objects, &row);
        made = item[r] = values < 0 ? values : weir_object_map(c->objects, keys, values);
    }
    if (made >= 0) made = weir_object_sequence(c->objects, item, rows);
    *(int64_t *)c->out[0].data = made;
    if (made < 0) fails(c, WEIR_E_MEMORY, "there is no memory for the maps of a tensor");
}

/* ---- reading --------------------------------------------------------------------------------- */

typedef struct Entries {
    const weir_object *values; /* a tensor or a sequence */
    const int64_t *key;
    int64_t n, *order; /* ascending by key */
} Entries;

static int key_less(void *user, int64_t a, int64_t b) {
    const int64_t *key = user;
    return key[a] < key[b];
}

/* The map behind operand 0, its keys of type `dtype`. */
static int entries(weir_call *c, int32_t dtype, Entries *e) {
    const weir_object *map = weir_object_of(c->objects, *(int64_t *)c->in[0].data);
    if (!map || map->kind != WEIR_VALUE_MAP)
        return fails(c, WEIR_E_ARGUMENT, "a value is used as a map that is none"), 0;
    const weir_object *keys = weir_object_of(c->objects, map->items->at[0]);
    e->values = weir_object_of(c->objects, map->items->at[1]);
    if (!keys || keys->kind != WEIR_VALUE_TENSOR || keys->tensor.rank != 1 ||
        keys->tensor.dtype != dtype)
        return fails(c, WEIR_E_ARGUMENT, "the keys of a map are of another type than declared"), 0;
    e->n = keys->tensor.dims[0];
    e->key = keys->tensor.data;
    const weir_object *v = e->values;
    int fits =
        v && (v->kind == WEIR_VALUE_TENSOR ? v->tensor.rank == 1 && v->tensor.dims[0] == e->n
                                           : v->kind == WEIR_VALUE_SEQUENCE && v->count == e->n);
    if (!fits) return fails(c, WEIR_E_ARGUMENT, "a map has not a value for each key"), 0;
    e->order = e->n < INT64_MAX / 16 ? weir_objects_alloc(c->objects, 16 * e->n) : NULL;
    if (!e->order) return fails(c, WEIR_E_MEMORY, "there is no memory for the keys of a map"), 0;
    for (int64_t i = 0; i < e->n; i++) e->order[i] = i;
    weir_sort(e->order, e->order + e->n, e->n, key_less, (void *)(uintptr_t)e->key);
    return 1;
}

static int64_t entry_of(const Entries *e, int64_t key) {
    int64_t lo = 0, hi = e->n;
    while (lo < hi) {
        int64_t mid = lo + (hi - lo) / 2;
        if (e->key[e->order[mid]] < key)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < e->n && e->key[e->order[lo]] == key ? e->order[lo] : -1;
}

/* Value i of the map to place k of the result. */
static void value_to(weir_call *c, const Entries *e, int64_t i, int64_t k) {
    const weir_object *v = e->values;
    weir_tensor *to = &c->out[0];
    if (v->kind == WEIR_VALUE_SEQUENCE) {
        v = weir_object_of(c->objects, v->items->at[i]);
        i = 0;
    }
    if (!v || v->kind != WEIR_VALUE_TENSOR || v->tensor.dtype != to->dtype ||
        weir_tensor_count(&v->tensor) <= i)
        fails(c, WEIR_E_ARGUMENT, "a value of a map is of another type than declared");
    else
        weir_move(to->dtype, to->data, k, v->tensor.data, i);
}

void weir_call_map_get(weir_call *c) {
    const weir_tensor *keys = &c->in[1];
    Entries e;
    if (!entries(c, keys->dtype, &e)) return;
    for (int64_t k = 0; k < keys->dims[0] && !c->status; k++) {
        int64_t i = entry_of(&e, ((const int64_t *)keys->data)[k]);
        if (i < 0)
            weir_move(c->out[0].dtype, c->out[0].data, k, c->in[2].data, 0);
        else
            value_to(c, &e, i, k);
    }
}

void weir_call_map_length(weir_call *c) {
    Entries e;
    if (entries(c, WEIR_I64, &e)) *(int64_t *)c->out[0].data = e.n;
}

void weir_call_map_values(weir_call *c) {
    Entries e;
    if (!entries(c, WEIR_I64, &e)) return;
    if (e.n != c->out[0].dims[0])
        return fails(c, WEIR_E_ARGUMENT, "a map has another number of entries than declared");
    for (int64_t k = 0; k < e.n && !c->status; k++) value_to(c, &e, e.order[k], k);
}
