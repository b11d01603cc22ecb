/* SPDX-License-Identifier: Apache-2.0 */
/* GridSample, AffineGrid: reading a tensor between its elements.
 *
 * A coordinate becomes taps along its dim: an index, which is a symbol of a value, and a weight.
 * What lies outside reads 0, or the index was clamped or reflected into the tensor before. */
#include "sample.h"
#include "view.h"

#include <string.h>

/* ---- taps ------------------------------------------------------------------------------------ */

static void tap_add(Map *m, Taps *taps, int index, int weight) {
    taps->index[taps->n] = body_symbol(&m->body, EXPR(m, "i64($0)", index), "at");
    taps->weight[taps->n++] = weight;
}

Taps taps_linear(Lower *lo, Map *m, int x, Dim extent) {
    DType t = m->body.val.at[x].type;
    Taps taps = {0};
    x = EXPR(m, "min(max($0, -2), $1)", x, nn_size(m, dim_addc(lo->ctx, extent, 1), t));
    int low = EXPR(m, "floor($0)", x), part = EXPR(m, "$0 - $1", x, low);
    tap_add(m, &taps, low, EXPR(m, "1 - $0", part));
    taps.index[taps.n] = dim_addc(lo->ctx, taps.index[0], 1);
    taps.weight[taps.n++] = part;
    return taps;
}

typedef struct Reader {
    Lower *lo;
    Map *m;
    int cont, nprefix, n;
    const Taps *taps;
    Dim at[RANK_MAX];
    DType t;
} Reader;

/* Sum over the taps of dims k.., given those before. */
static int read_from(Reader *r, int k) {
    int sum = -1;
    if (k == r->n) return nn_read_else(r->lo, r->m, r->cont, r->at, 0, r->t);
    for (int i = 0; i < r->taps[k].n; i++) {
        r->at[r->nprefix + k] = r->taps[k].index[i];
        int part = EXPR(r->m, "$0 * $1", read_from(r, k + 1), r->taps[k].weight[i]);
        sum = sum < 0 ? part : EXPR(r->m, "$0 + $1", sum, part);
    }
    return sum;
}

int taps_read(Lower *lo, Map *m, int cont, const Dim *prefix, int nprefix, const Taps *taps, int n,
              DType t) {
    Reader r = {.lo = lo, .m = m, .cont = cont, .nprefix = nprefix, .n = n, .taps = taps, .t = t};
    memcpy(r.at, prefix, sizeof(Dim) * (size_t)nprefix);
    return read_from(&r, 0);
}

/* ---- GridSample ------------------------------------------------------------------------------ */

typedef enum { SAMPLE_NEAREST, SAMPLE_LINEAR, SAMPLE_CUBIC } SampleMode;
typedef enum { PAD_ZEROS, PAD_BORDER, PAD_REFLECTION } PadMode;
typedef struct Grid {
    SampleMode mode;
    PadMode pad;
    bool corners;
} Grid;

static Grid grid_of(Ctx *ctx, const Node *node) {
    const char *mode = attr_string(ctx, node, "mode", "linear"),
               *pad = attr_string(ctx, node, "padding_mode", "zeros");
    Grid g = {.corners = attr_int(ctx, node, "align_corners", 0) != 0};
    if (!strcmp(mode, "nearest"))
        g.mode = SAMPLE_NEAREST;
    else if (!strcmp(mode, "linear") || !strcmp(mode, "bilinear"))
        g.mode = SAMPLE_LINEAR;
    else if (!strcmp(mode, "cubic") || !strcmp(mode, "bicubic"))
        g.mode = SAMPLE_CUBIC;
    else
        fail(ctx, E_ATTRIBUTE, "attribute \"mode\" is \"%s\": use nearest, linear or cubic", mode);
    if (!strcmp(pad, "zeros"))
        g.pad = PAD_ZEROS;
    else if (!strcmp(pad, "border"))
        g.pad = PAD_BORDER;
    else if (!strcmp(pad, "reflection"))
        g.pad = PAD_REFLECTION;
    else
        fail(ctx, E_ATTRIBUTE,
             "attribute \"padding_mode\" is \"%s\": use zeros, border or reflection", pad);
    return g;
}

static void grid_sample_infer(Infer *in) {
    const Type *x = nn_ranked(in, 0, 3, 2 + 3), *grid = nn_ranked(in, 1, 3, 2 + 3);
    int n = x->rank - 2;
    Dim out[RANK_MAX] = {x->shape[0], x->shape[1]};
    if (grid_of(in->ctx, in->node).mode != SAMPLE_NEAREST && x->dtype == STRING)
        fail(in->ctx, E_UNSUPPORTED, "elements of type %s cannot be interpolated: use mode nearest",
             dtype_name(x->dtype));
    if (grid->rank != x->rank) nn_misfit(in, 0, 1, "tensor and grid must have one rank");
    nn_agree(in, x->shape[0], grid->shape[0], 0, 1, "tensor and grid must have one batch (dim 0)");
    for (int k = 2; k < x->rank; k++)
        if (dim_is(x->shape[k], 0)) nn_misfit(in, 0, 1, "a tensor to sample must not be empty");
    nn_agree(in, grid->shape[n + 1], dim_const(in->ctx, n), 1, 0,
             "the grid's last dim must have one element for each spatial dim of the tensor");
    for (int i = 0; i < n; i++) out[2 + i] = grid->shape[1 + i];
    infer_set(in, 0, x->dtype, out, x->rank);
}

/* x reflected into lo..hi, as often as needed: a triangle wave. */
static int reflect(Map *m, int x, int low, int high) {
    int range = EXPR(m, "$0 - $1", high, low);
    int u = EXPR(m, "($0 - $1) % (2 * $2)", x, low, range);
    return EXPR(m, "select($2 <= 0, $1, $1 + min($0, 2 * $2 - $0))", u, low, range);
}

/* The ends between which coordinates reflect. */
static int reflect_in(Map *m, const Grid *g, int x, int size) {
    DType t = m->body.val.at[x].type;
    int low = body_const(&m->body, t, g->corners ? 0 : -0.5);
    return reflect(m, x, low, EXPR(m, g->corners ? "$0 - 1" : "$0 - 0.5", size));
}

/* An index as a whole number, brought into the tensor as the padding says. */
static int pad_index(Map *m, const Grid *g, int index, int size) {
    if (g->pad == PAD_ZEROS) return EXPR(m, "min(max($0, -1), $1)", index, size);
    if (g->pad == PAD_REFLECTION) index = EXPR(m, "trunc($0)", reflect_in(m, g, index, size));
    return EXPR(m, "min(max($0, 0), $1 - 1)", index, size);
}

/* Weights of the four neighbours at distance x past the second one, with A = -0.75. */
static void cubic_taps(Map *m, const Grid *g, int x, int low, int size, Taps *taps) {
    static const char *const weight[] = {"y = $0 + 1; ((-0.75 * y + 3.75) * y - 6) * y + 3",
                                         "(1.25 * $0 - 2.25) * $0 * $0 + 1",
                                         "y = 1 - $0; (1.25 * y - 2.25) * y * y + 1",
                                         "y = 2 - $0; ((-0.75 * y + 3.75) * y - 6) * y + 3"};
    static const char *const index[] = {"$0 - 1", "$0", "$0 + 1", "$0 + 2"};
    for (int i = 0; i < 4; i++)
        tap_add(m, taps, pad_index(m, g, EXPR(m, index[i], low), size), EXPR(m, weight[i], x));
}

/* Taps for a normalized coordinate (-1 .. 1 across the tensor). At a border the coordinate moves to
 * the outermost element; of cubic ones each tap does, for itself. */
static Taps grid_taps(Map *m, const Grid *g, int x, Dim extent) {
    DType t = m->body.val.at[x].type;
    int size = nn_size(m, extent, t);
    Taps taps = {0};
    x = EXPR(m, g->corners ? "($0 + 1) * 0.5 * ($1 - 1)" : "(($0 + 1) * $1 - 1) * 0.5", x, size);
    if (g->mode == SAMPLE_NEAREST) x = EXPR(m, "rint($0)", x);
    if (g->pad == PAD_BORDER && g->mode != SAMPLE_CUBIC)
        x = EXPR(m, "min(max($0, 0), $1 - 1)", x, size);
    if (g->pad == PAD_REFLECTION) x = reflect_in(m, g, x, size);
    if (g->mode == SAMPLE_NEAREST) {
        tap_add(m, &taps, pad_index(m, g, x, size), body_const(&m->body, t, 1));
        return taps;
    }
    int low = EXPR(m, "floor($0)", x), part = EXPR(m, "$0 - $1", x, low);
    if (g->mode == SAMPLE_CUBIC) {
        cubic_taps(m, g, part, low, size, &taps);
        return taps;
    }
    tap_add(m, &taps, pad_index(m, g, low, size), EXPR(m, "1 - $0", part));
    tap_add(m, &taps, pad_index(m, g, EXPR(m, "$0 + 1", low), size), part);
    return taps;
}

static void sample(Lower *lo, Grid g, int x, int y) {
    int grid = lower_in(lo, 1);
    Shape s = nn_shape(lo, x);
    int n = s.rank - 2;
    DType own = nn_cont(lo, x)->type, t = dtype_is_float(own) ? dtype_compute(own) : F64;
    Dim at[RANK_MAX], from[RANK_MAX];
    Taps taps[SPATIAL_MAX];
    Map *m = nn_map_over(lo, NULL, n == 2 ? "nchw" : "ncdhw", y, at);
    from[0] = at[0];
    for (int i = 0; i < n; i++) from[1 + i] = at[2 + i];
    for (int i = 0; i < n; i++) {
        from[n + 1] = dim_const(lo->ctx, n - 1 - i);
        taps[i] = grid_taps(m, &g, nn_read_as(lo, m, grid, from, t), s.at[2 + i]);
    }
    if (g.mode == SAMPLE_NEAREST) {
        for (int i = 0; i < n; i++) from[2 + i] = taps[i].index[0];
        from[1] = at[1];
        nn_write(lo, m, y, at, nn_read_else(lo, m, x, from, 0, own));
    } else {
        nn_write(lo, m, y, at, taps_read(lo, m, x, at, 2, taps, n, t));
    }
}

/* Weights are real: parts of complex numbers do not meet. */
static void grid_sample_lower(Lower *lo) {
    int x = lower_in(lo, 0), y = lower_out(lo, 0), from[2], to[2];
    Grid g = grid_of(lo->ctx, lo->node);
    if (g.mode == SAMPLE_NEAREST || dtype_class(lower_value(lo, 0)->type.dtype) != CLASS_COMPLEX) {
        sample(lo, g, x, y);
        return;
    }
    nn_parts(lo, x, from);
    nn_parts_for(lo, y, to);
    for (int i = 0; i < 2; i++) sample(lo, g, from[i], to[i]);
    nn_parts_to(lo, to, y);
}

/* ---- AffineGrid ------------------------------------------------------------------------------ */

/* Only N, which theta tells too, and the spatial extents matter. */
static void affine_grid_infer(Infer *in) {
    const Type *theta = nn_ranked(in, 0, 3, 3), *said = infer_declared(in, 0);
    const Dim *size = NULL;
    Dim out[RANK_MAX] = {theta->shape[0]};
    int n = onnx_vector_length(in, 1), count;
    if (n < 0 && said) n = said->rank;
    if (n != 4 && n != 5)
        nn_misfit(in, 1, 1, "it must have 4 or 5 elements: N, C and the spatial extents");
    onnx_need_length(in, 1, n);
    bool known = infer_known(in, 1, &size, &count);
    const char *rule = "theta must be [N, d, d + 1] for d spatial dims";
    nn_agree(in, theta->shape[1], dim_const(in->ctx, n - 2), 0, 1, rule);
    nn_agree(in, theta->shape[2], dim_const(in->ctx, n - 1), 0, 1, rule);
    if (known) out[0] = nn_agree(in, size[0], theta->shape[0], 1, 0, rule);
    for (int i = 2; known && i < n; i++) out[i - 1] = size[i];
    out[n - 1] = dim_const(in->ctx, n - 2);
    if (known)
        infer_set(in, 0, theta->dtype, out, n);
    else
        onnx_set_unknown(in, 1, theta->dtype, out, n, onnx_any_size);
}

/* A size for another batch than theta's is none at all. */
static int affine_grid_size(Lower *lo, Map *m, int axis) {
    Dim first = dim_const(lo->ctx, 0), place = dim_const(lo->ctx, axis + 1);
    int batch = body_index(&m->body, nn_shape(lo, lower_in(lo, 0)).at[0]);
    return EXPR(m, "select($0 == $1, $2, highest)", nn_read(lo, m, lower_in(lo, 1), &first), batch,
                nn_read(lo, m, lower_in(lo, 1), &place));
}

/* out[n, .., k] = theta[n, k, :] * (coordinates, last spatial dim first; 1) */
static void affine_grid_lower(Lower *lo) {
    int theta = lower_in(lo, 0), y = lower_out(lo, 0);
    onnx_define_axes(lo, affine_grid_size);
    Shape s = nn_shape(lo, y);
    DType t = dtype_compute(nn_cont(lo, theta)->type);
    bool corners = nn_int(lo, "align_corners", 0) != 0;
    int n = s.rank - 2;
    Dim at[RANK_MAX];
    Map *m = nn_map_over(lo, NULL, n == 2 ? "nhwk" : "ndhwk", y, at);
    int sum = nn_read_as(lo, m, theta, (Dim[]){at[0], at[n + 1], dim_const(lo->ctx, n)}, t);
    for (int k = 0; k < n; k++) {
        int i = n - k,
            factor = nn_read_as(lo, m, theta, (Dim[]){at[0], at[n + 1], dim_const(lo->ctx, k)}, t);
        int place = nn_size(m, at[i], t), size = nn_size(m, s.at[i], t);
        const char *text =
            corners ? "select($1 == 1, 0, 2 * $0 / ($1 - 1) - 1)" : "(2 * $0 + 1) / $1 - 1";
        sum = EXPR(m, "$0 + $1 * $2", sum, factor, EXPR(m, text, place, size));
    }
    nn_write(lo, m, y, at, sum);
}

const OpRow onnx_sample_rows[] = {
    {"", "GridSample", 16, 0, grid_sample_infer, grid_sample_lower, NULL,
     T_NUMS " bool complex string", 0},
    {"", "AffineGrid", 20, 0, affine_grid_infer, affine_grid_lower, NULL, T_FLOATS, 0},
    {0},
};
