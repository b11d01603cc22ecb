/* SPDX-License-Identifier: Apache-2.0 */
/* Scatter: a copy of the data with elements or rows replaced, or combined with, at places that the
 * indices give. Meaning: ir/call.def. Updates run in order, so equal indices have a defined result.
 */
#include "runtime/calls.h"
#include "runtime/keys.h"
#include "runtime/objects.h"

#include <stdbool.h>
#include <string.h>

enum { NONE, ADD, MUL, MAX, MIN };

/* ---- one element ---------------------------------------------------------------------------- */

static float half_to_float(uint16_t h) {
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, e = h >> 10 & 31, m = h & 1023, u;
    if (e == 31) {
        u = sign | 0x7f800000 | m << 13;
    } else if (e) {
        u = sign | (e + 112) << 23 | m << 13;
    } else {
        float f = (float)m * 0x1p-24f;
        return sign ? -f : f;
    }
    float f;
    memcpy(&f, &u, 4);
    return f;
}

static uint16_t float_to_half(float f) {
    uint32_t u;
    memcpy(&u, &f, 4);
    uint16_t sign = (uint16_t)(u >> 16 & 0x8000);
    u &= 0x7fffffff;
    if (u > 0x7f800000) return sign | 0x7e00;
    if (u >= 0x477ff000) return sign | 0x7c00;
    if (u < 0x38800000) {
        float g, scale = 0x1p23f * 0x1p-24f;
        memcpy(&g, &u, 4);
        g += scale;
        memcpy(&u, &g, 4);
        return (uint16_t)(sign | (u - 0x3f000000));
    }
    u += 0xfff + (u >> 13 & 1);
    return (uint16_t)(sign | ((u - 0x38000000) >> 13));
}

static float brain_to_float(uint16_t h) {
    uint32_t u = (uint32_t)h << 16;
    float f;
    memcpy(&f, &u, 4);
    return f;
}

static uint16_t float_to_brain(float f) {
    uint32_t u;
    memcpy(&u, &f, 4);
    if ((u & 0x7fffffff) > 0x7f800000) return (uint16_t)(u >> 16 | 0x40);
    return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}

/* Combines n elements with n others, in a loop for each way. */
#define EACH(op, add, mul, max, min)                                                               \
    switch (op) {                                                                                  \
    case ADD:                                                                                      \
        for (int64_t i = 0; i < n; i++) add;                                                       \
        break;                                                                                     \
    case MUL:                                                                                      \
        for (int64_t i = 0; i < n; i++) mul;                                                       \
        break;                                                                                     \
    case MAX:                                                                                      \
        for (int64_t i = 0; i < n; i++) max;                                                       \
        break;                                                                                     \
    default:                                                                                       \
        for (int64_t i = 0; i < n; i++) min;                                                       \
    }
/* NaN where either is. */
#define GREATER(a, b) (((a) > (b)) | ((a) != (a)) ? (a) : (b))
#define LESS(a, b) (((a) < (b)) | ((a) != (a)) ? (a) : (b))

#define REAL(name, T)                                                                              \
    static void name(weir_call *c, int op, void *to, const void *from, int64_t n) {                \
        (void)c;                                                                                   \
        T *restrict a = to;                                                                        \
        const T *restrict b = from;                                                                \
        EACH(op, a[i] += b[i], a[i] *= b[i], a[i] = GREATER(a[i], b[i]), a[i] = LESS(a[i], b[i]))  \
    }
#define WHOLE(name, T, U)                                                                          \
    static void name(weir_call *c, int op, void *to, const void *from, int64_t n) {                \
        (void)c;                                                                                   \
        T *restrict a = to;                                                                        \
        const T *restrict b = from;                                                                \
        EACH(op, a[i] = (T)((U)a[i] + (U)b[i]), a[i] = (T)((U)a[i] * (U)b[i]),                     \
             a[i] = a[i] > b[i] ? a[i] : b[i], a[i] = a[i] < b[i] ? a[i] : b[i])                   \
    }
#define SMALL(name, load, store)                                                                   \
    static void name(weir_call *c, int op, void *to, const void *from, int64_t n) {                \
        (void)c;                                                                                   \
        uint16_t *restrict a = to;                                                                 \
        const uint16_t *restrict b = from;                                                         \
        EACH(op, a[i] = store(load(a[i]) + load(b[i])), a[i] = store(load(a[i]) * load(b[i])),     \
             a[i] = store(GREATER(load(a[i]), load(b[i]))),                                        \
             a[i] = store(LESS(load(a[i]), load(b[i]))))                                           \
    }

REAL(combine_f32, float)
REAL(combine_f64, double)
SMALL(combine_f16, half_to_float, float_to_half)
SMALL(combine_bf16, brain_to_float, float_to_brain)
WHOLE(combine_i8, int8_t, uint32_t)
WHOLE(combine_i16, int16_t, uint32_t)
WHOLE(combine_i32, int32_t, uint32_t)
WHOLE(combine_i64, int64_t, uint64_t)
WHOLE(combine_u8, uint8_t, uint32_t)
WHOLE(combine_u16, uint16_t, uint32_t)
WHOLE(combine_u32, uint32_t, uint32_t)
WHOLE(combine_u64, uint64_t, uint64_t)

/* The greater of two complex numbers has the greater real part, or the same and the greater
 * imaginary one. */
#define COMPLEX(name, T)                                                                           \
    static void name(weir_call *c, int op, void *to, const void *from, int64_t n) {                \
        (void)c;                                                                                   \
        T *a = to;                                                                                 \
        const T *b = from;                                                                         \
        for (; n > 0; n--, a += 2, b += 2) {                                                       \
            T x = a[0], y = a[1], u = b[0], v = b[1];                                              \
            bool above = x == u ? y >= v : x > u, below = x == u ? y <= v : x < u;                 \
            bool none = x != x || y != y, other = u != u || v != v;                                \
            bool stays = none || (!other && (op == MAX ? above : below));                          \
            a[0] = op == ADD ? x + u : op == MUL ? x * u - y * v : stays ? x : u;                  \
            a[1] = op == ADD ? y + v : op == MUL ? x * v + y * u : stays ? y : v;                  \
        }                                                                                          \
    }
COMPLEX(combine_c64, float)
COMPLEX(combine_c128, double)

/* Truth values stay 0 and 1: their sum is "or", their product "and". */
static void combine_bool(weir_call *c, int op, void *to, const void *from, int64_t n) {
    combine_u8(c, op == ADD ? MAX : op == MUL ? MIN : op, to, from, n);
}

/* The sum of texts is one behind the other; texts have no product. */
static void combine_text(weir_call *c, int op, void *to, const void *from, int64_t n) {
    int64_t *a = to;
    const int64_t *b = from;
    for (int64_t i = 0; i < n; i++) {
        int order = weir_text_order(weir_text_of(c->objects, a[i]), weir_text_of(c->objects, b[i]));
        if (op == ADD)
            a[i] = weir_text_joined(c->objects, a[i], b[i]);
        else if (op == MAX ? order < 0 : order > 0)
            a[i] = b[i];
        if (a[i] < 0) fails(c, WEIR_E_MEMORY, "there is no memory for strings");
    }
}

typedef void combine_fn(weir_call *c, int op, void *to, const void *from, int64_t n);

static combine_fn *combine_of(int32_t dtype) {
    switch (dtype) {
    case WEIR_F32: return combine_f32;
    case WEIR_F64: return combine_f64;
    case WEIR_F16: return combine_f16;
    case WEIR_BF16: return combine_bf16;
    case WEIR_I8: return combine_i8;
    case WEIR_I16: return combine_i16;
    case WEIR_I32: return combine_i32;
    case WEIR_I64: return combine_i64;
    case WEIR_U8: return combine_u8;
    case WEIR_BOOL: return combine_bool;
    case WEIR_U16: return combine_u16;
    case WEIR_U32: return combine_u32;
    case WEIR_U64: return combine_u64;
    case WEIR_C64: return combine_c64;
    case WEIR_C128: return combine_c128;
    case WEIR_STRING: return combine_text;
    default: return NULL;
    }
}

static size_t width_of(int32_t dtype) {
    switch (dtype) {
    case WEIR_F64:
    case WEIR_I64:
    case WEIR_U64:
    case WEIR_STRING:
    case WEIR_C64: return 8;
    case WEIR_F32:
    case WEIR_I32:
    case WEIR_U32: return 4;
    case WEIR_F16:
    case WEIR_BF16:
    case WEIR_I16:
    case WEIR_U16: return 2;
    case WEIR_C128: return 16;
    default: return 1;
    }
}

/* ---- both kinds ----------------------------------------------------------------------------- */

static int64_t index_at(const weir_tensor *t, int64_t i, int64_t extent) {
    int64_t v =
        t->dtype == WEIR_I32 ? ((const int32_t *)t->data)[i] : ((const int64_t *)t->data)[i];
    if (v < 0) v += extent;
    return v < 0 || v >= extent ? -1 : v;
}

static void out_of_range(weir_call *c) {
    fails(c, WEIR_E_INDEX, "an index of a scatter is out of range");
}

/* What a call writes to, of which this part makes rows lo..hi. */
typedef struct Target {
    char *data; /* NULL: elements of this type cannot be combined */
    int op;
    combine_fn *combine;
    size_t width; /* bytes of an element */
    int64_t lo, hi;
} Target;

/* Copies the rows of this part, or clears them. Texts are joined where one thread makes them all.
 */
static Target start(weir_call *c, int op, int64_t rows, int64_t row) {
    const weir_tensor *data = &c->out[0];
    weir_share part = data->dtype == WEIR_STRING ? (weir_share){0, c->part ? 0 : rows}
                                                 : weir_share_of(c, rows, row);
    Target t = {data->data, op, combine_of(data->dtype), width_of(data->dtype), part.lo, part.hi};
    size_t from = (size_t)(t.lo * row) * t.width, bytes = (size_t)((t.hi - t.lo) * row) * t.width;
    if (op != NONE && !t.combine) {
        fails(c, WEIR_E_ARGUMENT, "a scatter cannot combine elements of this type");
        t.data = NULL;
    } else if (c->in[0].data) {
        memcpy(t.data + from, (const char *)c->in[0].data + from, bytes);
    } else {
        memset(t.data + from, 0, bytes);
    }
    return t;
}

static void put(weir_call *c, const Target *t, int64_t to, const char *from, int64_t n) {
    char *at = t->data + (size_t)to * t->width;
    if (t->op != NONE)
        t->combine(c, t->op, at, from, n);
    else if (t->width == 4 && n == 1)
        memcpy(at, from, 4);
    else if (t->width == 8 && n == 1)
        memcpy(at, from, 8);
    else
        memcpy(at, from, (size_t)n * t->width);
}

/* What a row of updates writes to: elements from `base` on that lie `step` apart along the axis, of
 * which this part makes those of indices lo..hi. */
typedef struct Place {
    int64_t base, step, lo, hi;
    bool inside;
} Place;

static Place place_of(const weir_call *c, const Target *t, const int64_t *at) {
    const weir_tensor *data = &c->out[0];
    int32_t axis = (int32_t)c->attr[0];
    Place p = {.step = 1, .hi = data->dims[axis], .inside = true};
    for (int32_t k = 0; k < data->rank; k++) {
        p.base = p.base * data->dims[k] + (k == axis ? 0 : at[k]);
        p.inside &= k == axis || at[k] < data->dims[k];
        if (k > axis) p.step *= data->dims[k];
    }
    if (axis == 0) p.lo = t->lo, p.hi = t->hi;
    return p;
}

/* A row of n updates that replace elements of 4 or 8 bytes, by indices of 64 bits: to[index * step
 * + j * along] = from[j]. False: an index is out of range. */
static bool replace_row(const Target *t, Place p, const char *from, const int64_t *index, int64_t n,
                        int64_t extent, int64_t along) {
#define REPLACE(T)                                                                                 \
    for (int64_t j = 0; j < n; j++) {                                                              \
        int64_t v = index[j] < 0 ? index[j] + extent : index[j];                                   \
        if ((uint64_t)v >= (uint64_t)extent) return false;                                         \
        if (v >= p.lo && v < p.hi)                                                                 \
            ((T *)t->data)[p.base + v * p.step + j * along] = ((const T *)from)[j];                \
    }
    if (t->width == 4)
        REPLACE(uint32_t)
    else
        REPLACE(uint64_t)
#undef REPLACE
    return true;
}

/* A row of n updates in order. */
static bool update_row(weir_call *c, const Target *t, Place p, int64_t i, int64_t n) {
    const weir_tensor *data = &c->out[0], *indices = &c->in[1];
    int64_t extent = data->dims[c->attr[0]], along = c->attr[0] != data->rank - 1;
    const char *from = (const char *)c->in[2].data + (size_t)i * t->width;
    if (t->op == NONE && indices->dtype == WEIR_I64 && (t->width == 4 || t->width == 8))
        return replace_row(t, p, from, (const int64_t *)indices->data + i, n, extent, along);
    for (int64_t j = 0; j < n; j++) {
        int64_t index = index_at(indices, i + j, extent);
        if (index < 0) return false;
        if (index >= p.lo && index < p.hi)
            put(c, t, p.base + index * p.step + j * along, from + (size_t)j * t->width, 1);
    }
    return true;
}

/* Parts take rows of the first dim, and all updates where these tell which. */
static void scatter_rows(weir_call *c) {
    const weir_tensor *data = &c->out[0], *indices = &c->in[1];
    int32_t axis = (int32_t)c->attr[0], last = data->rank - 1;
    int64_t rows = data->dims[0], count = weir_tensor_count(data);
    Target t = start(c, (int)c->attr[1], rows, rows ? count / rows : 0);
    int64_t n = weir_tensor_count(indices), row = indices->dims[last], at[WEIR_RANK_MAX] = {0};
    for (int64_t i = 0; t.data && i < n; i += row) {
        Place p = place_of(c, &t, at);
        p.inside &= axis == last || row <= data->dims[last];
        bool mine = axis == 0 || (at[0] >= t.lo && at[0] < t.hi);
        if (!p.inside || (mine && !update_row(c, &t, p, i, row))) {
            out_of_range(c);
            return;
        }
        for (int32_t k = last; k-- > 0 && ++at[k] == indices->dims[k];) at[k] = 0;
    }
}

static weir_tensor as_row(const weir_tensor *t) {
    weir_tensor row = *t;
    row.rank = 1;
    row.dims[0] = t->dtype ? weir_tensor_count(t) : 0;
    return row;
}

/* attr: axis, reduction. Operands: data, indices, updates (shaped like the indices). */
void weir_call_scatter_elements(weir_call *c) {
    if (c->attr[0] >= 0) {
        scatter_rows(c);
        return;
    }
    weir_tensor in[3], out = as_row(&c->out[0]);
    for (int i = 0; i < 3; i++) in[i] = as_row(&c->in[i]);
    weir_call flat = *c;
    flat.in = in, flat.out = &out, flat.attr = (int64_t[]){0, c->attr[1]};
    scatter_rows(&flat);
    c->status = flat.status, c->reason = flat.reason;
}

/* attr: reduction. The last dim of the indices holds places in the first dims of the data. */
void weir_call_scatter_nd(weir_call *c) {
    const weir_tensor *data = &c->in[0], *indices = &c->in[1], *updates = &c->in[2];
    int32_t depth = (int32_t)indices->dims[indices->rank - 1];
    int64_t rows = 1, row = 1, n = depth ? weir_tensor_count(indices) / depth : 0;
    for (int32_t k = 0; k < data->rank; k++) *(k < depth ? &rows : &row) *= data->dims[k];
    Target t = start(c, (int)c->attr[0], rows, row);
    for (int64_t i = 0; t.data && i < n; i++) {
        int64_t place = 0;
        for (int32_t k = 0; k < depth; k++) {
            int64_t index = index_at(indices, i * depth + k, data->dims[k]);
            if (index < 0) {
                out_of_range(c);
                return;
            }
            place = place * data->dims[k] + index;
        }
        if (place >= t.lo && place < t.hi)
            put(c, &t, place * row, (const char *)updates->data + (size_t)(i * row) * t.width, row);
    }
}

NO_SCRATCH(scatter_elements)
NO_SCRATCH(scatter_nd)
