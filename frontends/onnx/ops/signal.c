/* SPDX-License-Identifier: Apache-2.0 */
/* DFT, STFT, windows, MelWeightMatrix.
 *
 * A transform is a contraction with a table of factors that depends on sizes only, so it becomes
 * part of the constants: y[k,o] = sum over n,c of x[n,c] * T[o,c,k,n], with c and o the real and
 * imaginary part. Angles are reduced by integer arithmetic before they become floats. */
#include "fft.h"
#include "view.h"

#include <string.h>

/* ---- operands -------------------------------------------------------------------------------- */

/* An operand of one number: NULL when it is absent, or only run time tells it. */
static Dim known_number(const Infer *in, int operand) {
    const Dim *at;
    int n;
    if (nn_absent(in->node, operand) || !infer_known(in, operand, &at, &n) || n != 1) return NULL;
    return at[0];
}

/* An operand of one element as an i64 of the map. */
static int read_number(Lower *lo, Map *m, int operand) {
    Dim zero[RANK_MAX];
    for (int i = 0; i < RANK_MAX; i++) zero[i] = dim_const(lo->ctx, 0);
    return nn_read_as(lo, m, lower_in(lo, operand), zero, I64);
}

/* A size of the flow: an operand that the run gives. */
static Dim late_size(Lower *lo, int operand) {
    Dim most = dim_const(lo->ctx, INT32_MAX), size = nn_fresh(lo, "length", most);
    nn_define(lo, size, lower_in(lo, operand), 0, most);
    return size;
}

/* ---- tables ---------------------------------------------------------------------------------- */

/* T[o,c,k,n] */
static int transform_table(Lower *lo, const Transform *f) {
    Dim shape[] = {dim_const(lo->ctx, f->parts_out), f->parts_in, f->bins_out, f->bins_in}, at[4];
    int to = lower_tmp(lo, "table", f->t, shape, 4);
    Map *m = lower_map(lo, "table");
    nn_dims(lo, m, "ockn", shape, 4, at);
    int k = body_index(&m->body, at[2]), n = body_index(&m->body, at[3]),
        size = body_index(&m->body, f->n);
    int turn = body_cvt(&m->body, F64, EXPR(m, "($0 * $1) % $2", k, n, size));
    int length = body_cvt(&m->body, F64, size);
    int angle = EXPR(m, "0x1.921fb54442d18p+2 * $0 / $1", turn, length);
    int c = EXPR(m, "cos($0)", angle), s = EXPR(m, f->inverse ? "sin($0)" : "-sin($0)", angle);
    int o = body_index(&m->body, at[0]), i = body_index(&m->body, at[1]);
    int val = EXPR(m, "select($0 == $1, $2, select($0 == 0, -$3, $3))", o, i, c, s);
    if (f->inverse) val = EXPR(m, "$0 / $1", val, length);
    if (f->half_in) val = EXPR(m, "select(($1 == 0) | (2 * $1 == $2), $0, 2 * $0)", val, n, size);
    if (f->window >= 0) val = EXPR(m, "$0 * $1", val, nn_read_as(lo, m, f->window, &at[3], F64));
    nn_write(lo, m, to, at, val);
    return to;
}

/* The last dim of operand 0 holds the parts of a number: 1 (real) or 2 (complex). */
static void check_parts(const Infer *in, Dim parts) {
    int64_t n = 1;
    dim_is_const(parts, &n);
    if (n < 1 || n > 2) nn_misfit(in, 0, 0, "its last dim must be 1 (real) or 2 (complex)");
    Dim one = dim_const(in->ctx, 1), two = dim_const(in->ctx, 2);
    infer_require(in, parts, dim_max(in->ctx, one, dim_min(in->ctx, parts, two)), false);
}

/* ---- DFT ------------------------------------------------------------------------------------- */

/* The axis; -1 when only run time tells it. */
static int dft_axis(const Infer *in, int rank) {
    Ctx *ctx = in->ctx;
    const Node *node = in->node;
    int64_t axis = attr_int(ctx, node, "axis", node->version < 20 ? 1 : -2);
    const Dim *at;
    int n;
    if (node->version >= 20 && !nn_absent(node, 2)) {
        if (!infer_known(in, 2, &at, &n) || n != 1 || !dim_is_const(at[0], &axis)) return -1;
    }
    if (axis < -rank || axis >= rank || axis == rank - 1 || axis == -1)
        fail(ctx, E_ATTRIBUTE,
             "axis is %lld: it must be one of the dims of the signal, not the last (its parts)",
             (long long)axis);
    return (int)(axis < 0 ? axis + rank : axis);
}

/* Only the run tells the transform's length. */
static bool dft_late_length(const Infer *in) {
    return !nn_absent(in->node, 1) && !known_number(in, 1);
}

/* `length` is what the run tells of it. */
static Transform dft_of(const Infer *in, const Shape *x, int axis, Dim length, DType t) {
    Ctx *ctx = in->ctx;
    Transform f = {.inverse = attr_int(ctx, in->node, "inverse", 0) != 0, .window = -1, .t = t};
    bool onesided = attr_int(ctx, in->node, "onesided", 0) != 0;
    f.half_in = onesided && f.inverse;
    f.half_out = onesided && !f.inverse;
    f.n = x->at[axis];
    if (f.half_in) f.n = dim_mulc(ctx, dim_addc(ctx, f.n, -1), 2);
    if (!nn_absent(in->node, 1)) f.n = dft_late_length(in) ? length : known_number(in, 1);
    Dim half = dim_addc(ctx, dim_div(ctx, f.n, dim_const(ctx, 2)), 1);
    f.bins_in = f.half_in ? half : f.n;
    f.bins_out = f.half_out ? half : f.n;
    f.parts_in = x->at[x->rank - 1];
    f.parts_out = f.half_in ? 1 : 2;
    return f;
}

/* The extent along the axis is NULL when only the run tells it. */
static Shape dft_result(const Infer *in, const Shape *x, int axis) {
    Transform f = dft_of(in, x, axis, x->at[axis], F32);
    Shape s = *x;
    s.at[axis] = dft_late_length(in) ? NULL : f.bins_out;
    s.at[s.rank - 1] = dim_const(in->ctx, f.parts_out);
    return s;
}

/* Axes that may give the result its shape, when run time tells which it is; how many. */
static int dft_axes(const Infer *in, const Shape *x, const Type *result, int *axes) {
    int n = 0;
    for (int axis = 0; axis < x->rank - 1; axis++) {
        Shape s = dft_result(in, x, axis);
        bool may = !result || result->rank == x->rank;
        for (int i = 0; result && may && i < s.rank; i++)
            may = !s.at[i] || s.at[i] == result->shape[i] || !dim_is_const(s.at[i], NULL) ||
                  !dim_is_const(result->shape[i], NULL);
        if (may) axes[n++] = axis;
    }
    if (!n)
        fail(in->ctx, E_SHAPE, "no axis of \"%s\" gives a result as it is declared",
             infer_in(in, 0)->name);
    return n;
}

/* Of an axis and a length that the run tells: any of the axes may have it. */
static void dft_infer_both(Infer *in, const Shape *x, const int *axes, int n) {
    Shape s = dft_result(in, x, axes[0]);
    for (int k = 0; k < n; k++) s.at[axes[k]] = NULL;
    onnx_set_unknown(in, 2, infer_in(in, 0)->type.dtype, s.at, s.rank, onnx_any_size);
}

/* Extents that are the same along each axis; of others, which the run tells, the most. */
static void dft_infer_late(Infer *in, const Shape *x) {
    Dim shape[RANK_MAX], upper[RANK_MAX] = {NULL};
    int axes[RANK_MAX], n = dft_axes(in, x, infer_declared(in, 0), axes);
    if (dft_late_length(in)) {
        dft_infer_both(in, x, axes, n);
        return;
    }
    for (int k = 0; k < n; k++) {
        Shape s = dft_result(in, x, axes[k]);
        for (int i = 0; i < s.rank; i++) {
            if (k && shape[i] && shape[i] != s.at[i]) upper[i] = shape[i], shape[i] = NULL;
            if (upper[i]) upper[i] = dim_max(in->ctx, upper[i], s.at[i]);
            if (!k) shape[i] = s.at[i];
        }
    }
    onnx_set_unknown(in, 2, infer_in(in, 0)->type.dtype, shape, x->rank, upper);
}

static void dft_infer(Infer *in) {
    const Type *x = nn_ranked(in, 0, 2, RANK_MAX);
    Shape s = shape_of(x);
    nn_need_one(in->ctx, infer_in(in, 1), 1);
    nn_need_one(in->ctx, infer_in(in, 2), 1);
    check_parts(in, s.at[s.rank - 1]);
    int axis = dft_axis(in, s.rank);
    if (axis < 0) {
        dft_infer_late(in, &s);
        return;
    }
    s = dft_result(in, &s, axis);
    if (s.at[axis])
        infer_set(in, 0, x->dtype, s.at, s.rank);
    else
        onnx_set_unknown(in, 1, x->dtype, s.at, s.rank, onnx_any_size);
}

/* `length` is what the run tells of it. */
static void dft_along(Lower *lo, int axis, Dim length) {
    int x = lower_in(lo, 0), y = lower_out(lo, 0);
    Shape s = nn_shape(lo, x);
    DType t = dtype_compute(nn_cont(lo, x)->type);
    Infer in = onnx_reader(lo);
    Transform f = dft_of(&in, &s, axis, length, t);
    if (dft_late_length(&in)) f.bins_out = nn_shape(lo, y).at[axis];
    if (fft_stages(lo, &f, x, y, axis)) return;
    int table = transform_table(lo, &f);
    Dim at[RANK_MAX], from[RANK_MAX];
    Map *m = nn_map_over(lo, NULL, "", y, at);
    memcpy(from, at, sizeof from);
    Dim n = from[axis] = nn_dim(lo, m, "n", f.bins_in);
    Dim c = from[s.rank - 1] = nn_dim(lo, m, "c", f.parts_in);
    int v = s.at[axis] == f.bins_in ? nn_read_as(lo, m, x, from, t)
                                    : nn_read_else(lo, m, x, from, 0, t);
    int w = nn_read(lo, m, table, (Dim[]){at[s.rank - 1], c, at[axis], n});
    nn_reduce(lo, m, y, at, EXPR(m, "$0 * $1", v, w), "sum");
}

/* Along the axis that run time tells, one of n; the run ends when it is none of them. */
static void dft_choose(Lower *lo, const int *axes, int n, int rank, Dim length) {
    if (!n) {
        lower_call(lo, "refuse", NULL, 0, (int[]){lower_out(lo, 0)}, 1, (const int64_t[]){NO_AXIS},
                   1, NULL, 0);
        return;
    }
    int is = lower_tmp(lo, "is", BOOL, NULL, 0);
    Map *m = lower_map(lo, "is");
    Dim zero[RANK_MAX] = {dim_const(lo->ctx, 0)};
    const char *same = internf(lo->ctx, "($0 == %d) | ($0 == %d)", axes[0], axes[0] - rank);
    nn_write(lo, m, is, NULL, EXPR(m, same, nn_read_as(lo, m, lower_in(lo, 2), zero, I64)));
    Items *into = lo->into;
    int item = into->n;
    vec_push(lo->arena, into, (Item){.kind = ITEM_IF, .cond = is, .from = lo->node->name});
    lo->into = &into->at[item].body;
    dft_along(lo, axes[0], length);
    lo->into = &into->at[item].other;
    dft_choose(lo, axes + 1, n - 1, rank, length);
    lo->into = into;
}

/* Extent `axis` of the result: of a length or along an axis that the run tells. */
static int dft_size(Lower *lo, Map *m, int axis) {
    Infer in = onnx_reader(lo);
    Shape x = nn_shape(lo, lower_in(lo, 0)), s = dft_result(&in, &x, axis);
    Transform f = dft_of(&in, &x, axis, x.at[axis], F32);
    int size;
    if (dft_late_length(&in))
        size = EXPR(
            m, f.half_out ? "select($0 > 0, $0 / 2 + 1, highest)" : "select($0 > 0, $0, highest)",
            read_number(lo, m, 1));
    else
        size = body_index(&m->body, s.at[axis]);
    if (dft_axis(&in, x.rank) >= 0) return size;
    int along = read_number(lo, m, 2);
    const char *is =
        internf(lo->ctx, "select(($0 == %d) | ($0 == %d), $1, $2)", axis, axis - x.rank);
    return EXPR(m, is, along, size, body_index(&m->body, x.at[axis]));
}

static void dft_lower(Lower *lo) {
    Shape s = nn_shape(lo, lower_in(lo, 0));
    Infer in = onnx_reader(lo);
    int axis = dft_axis(&in, s.rank), axes[RANK_MAX];
    if (lower_out(lo, 0) < 0) return;
    onnx_define_axes(lo, dft_size);
    Dim length = dft_late_length(&in) ? late_size(lo, 1) : NULL;
    if (axis >= 0) {
        dft_along(lo, axis, length);
        return;
    }
    int n = dft_axes(&in, &s, &lo->graph->value.at[lo->node->out.at[0]].type, axes);
    dft_choose(lo, axes, n, s.rank, length);
}

/* ---- STFT ------------------------------------------------------------------------------------ */

typedef struct Frames {
    Transform f;
    int64_t step; /* 0: only run time tells */
    Dim count;
} Frames;

/* Operands: signal, frame_step, window, frame_length. The window's extent is the length, too;
 * `length` is what run time tells. Counts that depend on run time are those of the result. */
static Frames frames_of(const Infer *in, const Shape *x, Dim length, DType t) {
    Ctx *ctx = in->ctx;
    Frames s = {.f = {.window = -1, .t = t}};
    Dim step = known_number(in, 1), given = known_number(in, 3);
    if (step && (!dim_is_const(step, &s.step) || s.step < 1))
        fail(ctx, E_ATTRIBUTE, "frame_step must be one number, at least 1");
    if (nn_absent(in->node, 2) && nn_absent(in->node, 3))
        fail(ctx, E_MODEL,
             "neither window nor frame_length is given: one of them must say how long a frame is");
    s.f.n = given ? given : infer_in(in, 2) ? nn_ranked(in, 2, 1, 1)->shape[0] : length;
    s.f.parts_in = x->rank > 2 ? x->at[2] : dim_const(ctx, 1), s.f.parts_out = 2;
    if (!s.f.n) return s;
    s.f.bins_in = s.f.bins_out = s.f.n;
    if (attr_int(ctx, in->node, "onesided", 1))
        s.f.bins_out = dim_addc(ctx, dim_div(ctx, s.f.n, dim_const(ctx, 2)), 1);
    Dim room = dim_sub(ctx, x->at[1], s.f.n);
    if (step) s.count = dim_addc(ctx, dim_div(ctx, room, dim_const(ctx, s.step)), 1);
    return s;
}

static void stft_infer(Infer *in) {
    const Type *x = nn_ranked(in, 0, 2, 3);
    nn_need_one(in->ctx, infer_in(in, 1), 1);
    nn_need_one(in->ctx, infer_in(in, 3), 1);
    Shape s = shape_of(x);
    Frames f = frames_of(in, &s, NULL, x->dtype);
    if (s.rank > 2) check_parts(in, s.at[2]);
    Dim out[] = {s.at[0], f.count, f.f.bins_out, dim_const(in->ctx, 2)};
    Dim most[] = {NULL, dim_addc(in->ctx, s.at[1], 1), dim_addc(in->ctx, s.at[1], 1), NULL};
    if (f.count && f.f.bins_out)
        infer_set(in, 0, x->dtype, out, 4);
    else
        onnx_set_unknown(in, f.count ? 3 : 1, x->dtype, out, 4, most);
}

/* Of a result whose frames the run tells: how many, when the signal has room for one, or bins. */
static int stft_size(Lower *lo, Map *m, int axis) {
    int window = lower_in(lo, 2), n, signal;
    n = window < 0 || nn_absent(lo->node, 2) ? read_number(lo, m, 3)
                                             : body_index(&m->body, nn_shape(lo, window).at[0]);
    if (!nn_absent(lo->node, 3)) n = read_number(lo, m, 3);
    if (axis == 2) return nn_int(lo, "onesided", 1) ? EXPR(m, "$0 / 2 + 1", n) : n;
    signal = body_index(&m->body, nn_shape(lo, lower_in(lo, 0)).at[1]);
    return EXPR(m, "select(($0 > 0) & ($1 > 0) & ($1 <= $2), ($2 - $1) / $0 + 1, highest)",
                read_number(lo, m, 1), n, signal);
}

static void stft_lower(Lower *lo) {
    int x = lower_in(lo, 0), y = lower_out(lo, 0);
    Shape s = nn_shape(lo, x);
    Infer in = onnx_reader(lo);
    DType t = dtype_compute(nn_cont(lo, x)->type);
    Dim zero[RANK_MAX] = {dim_const(lo->ctx, 0)}, length = NULL;
    if (lower_in(lo, 2) < 0 && !known_number(&in, 3)) length = late_size(lo, 3);
    onnx_define_axes(lo, stft_size);
    Frames f = frames_of(&in, &s, length, t);
    f.f.window = lower_in(lo, 2);
    f.f.bins_out = nn_shape(lo, y).at[2];
    int table = transform_table(lo, &f.f);
    Dim at[RANK_MAX];
    Map *m = nn_map_over(lo, NULL, "bfko", y, at);
    Dim n = nn_dim(lo, m, "n", f.f.bins_in), c = nn_dim(lo, m, "c", f.f.parts_in);
    Dim place = dim_add(lo->ctx, dim_mulc(lo->ctx, at[1], f.step), n);
    if (!f.step) {
        int step = nn_read_as(lo, m, lower_in(lo, 1), zero, I64);
        int frame = body_index(&m->body, at[1]), k = body_index(&m->body, n);
        int end = body_index(&m->body, dim_addc(lo->ctx, s.at[1], -1));
        place = body_symbol(&m->body, EXPR(m, "max(min($0 * $1 + $2, $3), 0)", frame, step, k, end),
                            "place");
    }
    Dim from[] = {at[0], place, c};
    int v = body_cvt(&m->body, t, onnx_read(lo, m, x, from, length != NULL));
    int w = nn_read(lo, m, table, (Dim[]){at[3], c, at[2], n});
    nn_reduce(lo, m, y, at, EXPR(m, "$0 * $1", v, w), "sum");
}

/* ---- windows --------------------------------------------------------------------------------- */

static DType attr_type(Ctx *ctx, const Node *node) {
    DType t = dtype_from_onnx((int)attr_int(ctx, node, "output_datatype", 1));
    if (!t || t == STRING)
        fail(ctx, E_ATTRIBUTE, "attribute \"output_datatype\" is no number type: use 1 (float)");
    return t;
}

static void window_infer(Infer *in) {
    DType t = attr_type(in->ctx, in->node);
    Dim n = known_number(in, 0);
    nn_need_one(in->ctx, infer_in(in, 0), 1);
    if (n)
        infer_set(in, 0, t, &n, 1);
    else
        onnx_set_unknown(in, 0, t, &n, 1, onnx_any_size);
}

static int window_size(Lower *lo, Map *m, int axis) {
    (void)axis;
    return read_number(lo, m, 0);
}

/* The row's expression over $0 = 2 pi i / N, with N = size for periodic windows, else size - 1. */
static void window_lower(Lower *lo) {
    int y = lower_out(lo, 0);
    onnx_define_axes(lo, window_size);
    Dim at[RANK_MAX], n = nn_shape(lo, y).at[0];
    Map *m = nn_map_over(lo, NULL, "i", y, at);
    if (!nn_int(lo, "periodic", 1))
        n = dim_max(lo->ctx, dim_addc(lo->ctx, n, -1), dim_const(lo->ctx, 1));
    int angle =
        EXPR(m, "0x1.921fb54442d18p+2 * $0 / $1", nn_size(m, at[0], F64), nn_size(m, n, F64));
    nn_write(lo, m, y, at, EXPR(m, lo->node->row->expr, angle));
}

/* ---- MelWeightMatrix ------------------------------------------------------------------------- */

/* Operands: number of mel bins, length of the transform, sample rate, lower and upper edge in
 * hertz. */
static void mel_infer(Infer *in) {
    DType t = attr_type(in->ctx, in->node);
    Dim length = known_number(in, 1), out[] = {NULL, known_number(in, 0)};
    for (int i = 0; i < 5; i++) nn_need_one(in->ctx, infer_in(in, i), 1);
    if (length) out[0] = dim_addc(in->ctx, dim_div(in->ctx, length, dim_const(in->ctx, 2)), 1);
    if (out[0] && out[1])
        infer_set(in, 0, t, out, 2);
    else
        onnx_set_unknown(in, out[0] ? 0 : 1, t, out, 2, onnx_any_size);
}

static int mel_size(Lower *lo, Map *m, int axis) {
    int n = read_number(lo, m, axis ? 0 : 1);
    return axis ? n : EXPR(m, "$0 / 2 + 1", n);
}

/* Bin of the spectrogram where mel band `band` (a value) starts. */
static int mel_bin(Map *m, const int *scalar, int band, int bands) {
    int low = EXPR(m, "2595 * log(1 + $0 / 700) / 0x1.26bb1bbb55516p+1", scalar[3]);
    int high = EXPR(m, "2595 * log(1 + $0 / 700) / 0x1.26bb1bbb55516p+1", scalar[4]);
    int mel = EXPR(m, "$2 * (($1 - $0) / ($3 + 2)) + $0", low, high, band, bands);
    int hertz = EXPR(m, "700 * (exp($0 / 2595 * 0x1.26bb1bbb55516p+1) - 1)", mel);
    return EXPR(m, "floor(($0 + 1) * $1 / $2)", scalar[1], hertz, scalar[2]);
}

/* Triangles between neighbouring bands' bins. */
static void mel_lower(Lower *lo) {
    int y = lower_out(lo, 0), scalar[5], bin[3];
    Dim at[RANK_MAX];
    onnx_define_axes(lo, mel_size);
    Map *m = nn_map_over(lo, NULL, "jb", y, at);
    Dim none[RANK_MAX] = {dim_const(lo->ctx, 0)};
    for (int i = 0; i < 5; i++) scalar[i] = nn_read_as(lo, m, lower_in(lo, i), none, F64);
    for (int i = 0; i < 3; i++)
        bin[i] = mel_bin(m, scalar, nn_size(m, dim_addc(lo->ctx, at[1], i), F64), scalar[0]);
    int j = nn_size(m, at[0], F64);
    int rise = EXPR(m, "select($1 == $2, select($0 == $2, 1, 0 * $0), ($0 - $1) / ($2 - $1))", j,
                    bin[0], bin[1]);
    int fall = EXPR(m, "($2 - $0) / ($2 - $1)", j, bin[1], bin[2]);
    int in_rise = EXPR(m, "($0 >= $1) & ($0 <= $2)", j, bin[0], bin[1]);
    int in_fall = EXPR(m, "($0 >= $1) & ($0 < $2)", j, bin[1], bin[2]);
    nn_write(lo, m, y, at,
             EXPR(m, "select($0, $1, select($2, $3, 0))", in_fall, fall, in_rise, rise));
}

const OpRow onnx_signal_rows[] = {
    {"", "DFT", 17, 0, dft_infer, dft_lower, NULL, T_FLOATS, 0},
    {"", "STFT", 17, 0, stft_infer, stft_lower, NULL, T_FLOATS, 0},
    {"", "HannWindow", 17, 0, window_infer, window_lower, "0.5 - 0.5 * cos($0)", "i32 i64", 0},
    {"", "HammingWindow", 17, 0, window_infer, window_lower,
     "0x1.1642c8590b216p-1 - 0x1.d37a6f4de9bd3p-2 * cos($0)", "i32 i64", 0},
    {"", "BlackmanWindow", 17, 0, window_infer, window_lower,
     "0.42 - 0.5 * cos($0) + 0.08 * cos(2 * $0)", "i32 i64", 0},
    {"", "MelWeightMatrix", 17, 0, mel_infer, mel_lower, NULL, "i32 i64", 0},
    {0},
};
