/* SPDX-License-Identifier: Apache-2.0 */
/* Between tensors and objects: boxes, sequences. Meaning: ir/call.def. An operand `o` is a
 * handle (runtime/objects.h). */
#include "runtime/calls.h"
#include "runtime/instance.h"
#include "runtime/keys.h"
#include "runtime/objects.h"

#include <string.h>

NO_SCRATCH(box)
NO_SCRATCH(box_dims)
NO_SCRATCH(unbox)
NO_SCRATCH(seq_empty)
NO_SCRATCH(seq_insert)
NO_SCRATCH(seq_erase)
NO_SCRATCH(seq_at)
NO_SCRATCH(seq_length)
NO_SCRATCH(seq_split)
NO_SCRATCH(seq_concat_dims)
NO_SCRATCH(seq_concat)

static void result(weir_call *c, int64_t handle) {
    *(int64_t *)c->out[0].data = handle;
    if (handle < 0) fails(c, WEIR_E_MEMORY, "there is no memory for a sequence");
}

static const weir_object *operand(weir_call *c, int i, int32_t kind) {
    const weir_object *o = weir_object_of(c->objects, *(int64_t *)c->in[i].data);
    if (o && o->kind == kind) return o;
    fails(c, WEIR_E_ARGUMENT,
          !o                          ? "an optional without a value is used"
          : kind == WEIR_VALUE_TENSOR ? "a value is used as a tensor that is none"
                                      : "a value is used as a sequence that is none");
    return NULL;
}

static int64_t integer(const weir_tensor *t) {
    return t->dtype == WEIR_I32 ? *(int32_t *)t->data : *(int64_t *)t->data;
}

/* Operand i as a position among n; absent: the last. */
static int position(weir_call *c, int i, int64_t n, int64_t last, int64_t *at) {
    *at = last;
    if (c->in[i].data) {
        *at = integer(&c->in[i]);
        if (*at < 0) *at += n;
    }
    if (*at >= 0 && *at <= last) return 1;
    fails(c, WEIR_E_INDEX, "a position is outside the sequence");
    return 0;
}

/* ---- tensors --------------------------------------------------------------------------------- */

void weir_call_box(weir_call *c) {
    result(c, weir_object_tensor(c->objects, &c->in[0]));
}

void weir_call_box_dims(weir_call *c) {
    const weir_object *o = operand(c, 0, WEIR_VALUE_TENSOR);
    int64_t rank = c->out[0].dims[0];
    if (!o) return;
    if (o->tensor.rank != rank) {
        fails(c, WEIR_E_ARGUMENT, "an item has another rank than the model declares");
        return;
    }
    memcpy(c->out[0].data, o->tensor.dims, sizeof(int64_t) * (size_t)rank);
}

void weir_call_unbox(weir_call *c) {
    const weir_object *o = operand(c, 0, WEIR_VALUE_TENSOR);
    weir_tensor *to = &c->out[0];
    if (!o) return;
    int same = o->tensor.dtype == to->dtype && o->tensor.rank == to->rank;
    for (int d = 0; same && d < to->rank; d++) same = o->tensor.dims[d] == to->dims[d];
    if (!same)
        fails(c, WEIR_E_ARGUMENT, "an item has another type or shape than the model declares");
    else if (weir_tensor_count(to))
        memcpy(to->data, o->tensor.data, (size_t)weir_bytes(to->dtype, weir_tensor_count(to)));
}

/* ---- sequences ------------------------------------------------------------------------------- */

void weir_call_seq_empty(weir_call *c) {
    result(c, weir_object_sequence(c->objects, NULL, 0));
}

void weir_call_seq_insert(weir_call *c) {
    const weir_object *s = operand(c, 0, WEIR_VALUE_SEQUENCE);
    int64_t at;
    if (!s || !position(c, 2, s->count, s->count, &at)) return;
    result(c, weir_object_insert(c->objects, *(int64_t *)c->in[0].data, at,
                                 *(int64_t *)c->in[1].data));
}

void weir_call_seq_erase(weir_call *c) {
    const weir_object *s = operand(c, 0, WEIR_VALUE_SEQUENCE);
    int64_t at;
    if (!s || !position(c, 1, s->count, s->count - 1, &at)) return;
    int64_t count = s->count, *item = weir_objects_alloc(c->objects, 8 * count);
    if (!item) return result(c, -1);
    memcpy(item, s->items->at, 8 * (size_t)at);
    memcpy(item + at, s->items->at + at + 1, 8 * (size_t)(count - 1 - at));
    result(c, weir_object_sequence(c->objects, item, count - 1));
}

void weir_call_seq_at(weir_call *c) {
    const weir_object *s = operand(c, 0, WEIR_VALUE_SEQUENCE);
    int64_t at;
    if (s && position(c, 1, s->count, s->count - 1, &at)) result(c, s->items->at[at]);
}

void weir_call_seq_length(weir_call *c) {
    const weir_object *s = operand(c, 0, WEIR_VALUE_SEQUENCE);
    if (s) *(int64_t *)c->out[0].data = s->count;
}

/* ---- splitting ------------------------------------------------------------------------------- */

/* Blocks of a tensor along an axis: `outer` rows of `extent` slices of `bytes` each. Elements below
 * a byte move one by one. */
static void copy_part(const weir_tensor *from, weir_tensor *to, int axis, int64_t at, int64_t into,
                      const weir_tensor *part) {
    int64_t outer = 1, inner = 1;
    int64_t have = from->dims[axis], room = to->dims[axis], n = part->dims[axis];
    for (int d = 0; d < axis; d++) outer *= from->dims[d];
    for (int d = axis + 1; d < from->rank; d++) inner *= from->dims[d];
    int64_t byte = weir_bytes(from->dtype, 8) / 8; /* 0 below a byte */
    for (int64_t o = 0; o < outer; o++) {
        int64_t a = (o * have + at) * inner, b = (o * room + into) * inner;
        if (byte && n > 0 && inner > 0)
            memcpy((char *)to->data + b * byte, (char *)from->data + a * byte,
                   (size_t)(n * inner * byte));
        for (int64_t i = 0; !byte && i < n * inner; i++)
            weir_move(from->dtype, to->data, b + i, from->data, a + i);
    }
}

static int64_t part_size(const weir_call *c, int64_t i, int64_t left) {
    const weir_tensor *split = &c->in[1];
    if (!split->data) return 1;
    if (split->rank == 0) return integer(split) < left ? integer(split) : left;
    weir_tensor one = *split;
    one.data = (char *)split->data + i * (split->dtype == WEIR_I32 ? 4 : 8);
    return integer(&one);
}

static int64_t part_make(weir_call *c, int64_t at, int64_t n) {
    const weir_tensor *x = &c->in[0];
    int axis = (int)c->attr[0];
    weir_tensor part = *x;
    part.dims[axis] = n;
    part.data = weir_objects_alloc(c->objects, weir_bytes(part.dtype, weir_tensor_count(&part)));
    if (!part.data) return -1;
    copy_part(x, &part, axis, at, 0, &part);
    if (!c->attr[1]) {
        part.rank--;
        for (int d = axis; d < part.rank; d++) part.dims[d] = part.dims[d + 1];
    }
    return weir_object_view(c->objects, &part);
}

void weir_call_seq_split(weir_call *c) {
    const weir_tensor *x = &c->in[0], *split = &c->in[1];
    int64_t extent = x->dims[c->attr[0]], at = 0, count = 0;
    int64_t most = split->data && split->rank ? split->dims[0] : extent;
    int64_t *item = most < INT64_MAX / 8 ? weir_objects_alloc(c->objects, 8 * most) : NULL;
    if (!item) return result(c, -1);
    for (; count < most && (at < extent || (split->data && split->rank)); count++) {
        int64_t n = part_size(c, count, extent - at);
        if (n < 0 || n > extent - at || (n == 0 && !(split->data && split->rank)))
            return fails(c, WEIR_E_ARGUMENT, "the parts of a split do not add up to the axis");
        item[count] = part_make(c, at, n);
        if (item[count] < 0) return result(c, -1);
        at += n;
    }
    if (at != extent)
        return fails(c, WEIR_E_ARGUMENT, "the parts of a split do not add up to the axis");
    result(c, weir_object_sequence(c->objects, item, count));
}

/* ---- joining --------------------------------------------------------------------------------- */

/* Item i with the new axis, if there is one; NULL after a failure. */
static const weir_tensor *joined(weir_call *c, const weir_object *s, int64_t i, weir_tensor *t) {
    const weir_object *o = weir_object_of(c->objects, s->items->at[i]);
    int axis = (int)c->attr[0];
    if (!o || o->kind != WEIR_VALUE_TENSOR || o->tensor.rank + (c->attr[1] != 0) > WEIR_RANK_MAX ||
        axis >= o->tensor.rank + (c->attr[1] != 0)) {
        fails(c, WEIR_E_ARGUMENT, "an item of a sequence does not fit its neighbours");
        return NULL;
    }
    *t = o->tensor;
    if (!c->attr[1]) return t;
    for (int d = t->rank++; d > axis; d--) t->dims[d] = t->dims[d - 1];
    t->dims[axis] = 1;
    return t;
}

/* Dims of the whole: all items alike but for the axis. */
static int joined_dims(weir_call *c, const weir_object *s, weir_tensor *all) {
    weir_tensor t;
    int axis = (int)c->attr[0];
    if (s->count == 0) return fails(c, WEIR_E_ARGUMENT, "an empty sequence is concatenated"), 0;
    for (int64_t i = 0; i < s->count; i++) {
        if (!joined(c, s, i, i ? &t : all)) return 0;
        int same = i == 0 || (t.rank == all->rank && t.dtype == all->dtype);
        for (int d = 0; same && i && d < t.rank; d++) same = d == axis || t.dims[d] == all->dims[d];
        if (same && i)
            same = !__builtin_add_overflow(all->dims[axis], t.dims[axis], &all->dims[axis]);
        if (!same)
            return fails(c, WEIR_E_ARGUMENT, "an item of a sequence does not fit its neighbours"),
                   0;
    }
    return 1;
}

void weir_call_seq_concat_dims(weir_call *c) {
    const weir_object *s = operand(c, 0, WEIR_VALUE_SEQUENCE);
    weir_tensor all;
    if (!s || !joined_dims(c, s, &all)) return;
    if (all.rank != c->out[0].dims[0])
        return fails(c, WEIR_E_ARGUMENT, "an item has another rank than the model declares");
    memcpy(c->out[0].data, all.dims, sizeof(int64_t) * (size_t)all.rank);
}

void weir_call_seq_concat(weir_call *c) {
    const weir_object *s = operand(c, 0, WEIR_VALUE_SEQUENCE);
    weir_tensor all, t, *to = &c->out[0];
    if (!s || !joined_dims(c, s, &all)) return;
    int same = all.rank == to->rank && all.dtype == to->dtype;
    for (int d = 0; same && d < to->rank; d++) same = all.dims[d] == to->dims[d];
    if (!same)
        return fails(c, WEIR_E_ARGUMENT,
                     "an item has another type or shape than the model declares");
    for (int64_t i = 0, at = 0; i < s->count; i++) {
        joined(c, s, i, &t);
        copy_part(&t, to, (int)c->attr[0], 0, at, &t);
        at += t.dims[c->attr[0]];
    }
}
