/* SPDX-License-Identifier: Apache-2.0 */
/* Pass `algorithm`: convolutions by 3x3 windows in tiles.
 *
 * A convolution with a 3x3 window and step 1 is done tile by tile as Winograd does it (Lavin and
 * Gray, 2015): m x m results come from (m+2) x (m+2) inputs by transforming the inputs and the
 * weights, multiplying them element for element (summed over channels, a product of matrices for
 * each of the (m+2)^2 elements), and transforming back: 2.25 times fewer products for m = 2, 4
 * times for m = 4. Five maps take the place of one:
 *
 *     U[a,b,c,o]     <- weights; the constant part computes it
 *     V[a,b,n,p,q,c] <- input tiles, straight-line code
 *     M[a,b,n,p,q,o] <- sum over c of V * U
 *     Y[e,f,n,p,q,o] <- M, straight-line code
 *     y[n,o,h,w]     <- Y[h%m, w%m, n, h/m, w/m, o], a view for the epilogue to read
 *
 * A spread window, whose taps lie d elements apart, is d convolutions by neighbours along a dim,
 * one for each residue of its rows: V, M and Y have the residue as a dim of its own, and a result
 * is y[.., h, ..] <- Y[h/d%m, .., h%d, h/(d*m), ..].
 *
 * It is Toom and Cook's product of polynomials at the points 0, +-x (one or two pairs) and
 * infinity. For m = 4 the points 5/8 and 3/2 are exact, as are all coefficients of the run-time
 * transforms, and keep half the error of the usual 1 and 2 (algorithm_cost.c has the figures).
 *
 * Maps are recognized by their accesses (ir/contract.c): any sum of products whose one operand
 * slides along two dims of the result by a window of three does. */
#include "passes/algorithm.h"

enum { TAPS = WINDOW_TAPS, PAIRS = TILE_MOST / 2, TILE = TILE_MOST + TAPS - 1 };

/* ---- transforms ----------------------------------------------------------------------------- */

/* The points: 0, +-x[0], .. , infinity, for m = 2 * pairs results. */
typedef struct Points {
    int pairs;
    double x[PAIRS];
    bool rounds_twice; /* as Machine.rounds_twice */
} Points;

static Points points_for(int m) {
    return m == 2 ? (Points){1, {1}, false} : (Points){2, {0.625, 1.5}, false};
}

/* Coefficients of the product over pairs other than `without` of (t - x^2), t^0 first. */
static int squares(const Points *p, int without, double *coef) {
    int n = 1;
    coef[0] = 1;
    for (int i = 0; i < p->pairs; i++) {
        if (i == without) continue;
        coef[n] = 0;
        for (int k = n; k > 0; k--) coef[k] = coef[k - 1] - p->x[i] * p->x[i] * coef[k];
        coef[0] *= -p->x[i] * p->x[i];
        n++;
    }
    return n;
}

static int scaled_sum(Body *b, const Points *p, int scale, int value, int sum) {
    if (!p->rounds_twice) return body_prim3(b, P_FMA, scale, value, sum);
    return body_prim2(b, P_ADD, sum, body_prim2(b, P_MUL, scale, value));
}

/* Sum of coef[i] * in[i * step]. */
static int combination(Body *b, const Points *p, const double *coef, const int *in, int step,
                       int n) {
    int sum = -1;
    for (int i = n - 1; i >= 0; i--) {
        int value = in[i * step], c = coef[i] == 1 ? -1 : body_const(b, F32, coef[i]);
        if (sum < 0)
            sum = c < 0 ? value : body_prim2(b, P_MUL, c, value);
        else
            sum = c < 0 ? body_prim2(b, P_ADD, sum, value) : scaled_sum(b, p, c, value, sum);
    }
    return sum;
}

/* One row of an input tile: rows for x and -x share their even and odd parts. */
static void transform_input(Body *b, const Points *p, const int *in, int *out) {
    double coef[PAIRS + 1];
    int n = squares(p, -1, coef);
    out[0] = combination(b, p, coef, in, 2, n);
    out[2 * p->pairs + 1] = combination(b, p, coef, in + 1, 2, n);
    for (int i = 0; i < p->pairs; i++) {
        n = squares(p, i, coef);
        int even = combination(b, p, coef, in + 2, 2, n),
            odd = combination(b, p, coef, in + 1, 2, n);
        for (int sign = 0; sign < 2; sign++) {
            double x = sign ? -p->x[i] : p->x[i];
            int pair[2] = {odd, even};
            out[2 * i + 1 + sign] = combination(b, p, (double[]){x, 1}, pair, 1, 2);
        }
    }
}

/* Powers of the points: results for even powers take sums of a pair, for odd ones differences. */
static void transform_output(Body *b, const Points *p, const int *in, int *out) {
    int half[2][PAIRS + 1], last = 2 * p->pairs;
    for (int i = 0; i < p->pairs; i++) {
        half[0][i] = body_prim2(b, P_ADD, in[2 * i + 1], in[2 * i + 2]);
        half[1][i] = body_prim2(b, P_SUB, in[2 * i + 1], in[2 * i + 2]);
    }
    double power[PAIRS + 1];
    for (int i = 0; i <= p->pairs; i++) power[i] = 1;
    for (int e = 0; e < last; e++) {
        int n = p->pairs, *parts = half[e % 2];
        parts[n] = e == 0 ? in[0] : in[last + 1];
        out[e] = combination(b, p, power, parts, 1, e == 0 || e == last - 1 ? n + 1 : n);
        for (int i = 0; i < p->pairs; i++) power[i] *= p->x[i];
    }
}

/* Of weights: row a holds the powers of point a over the product of its distances from the others.
 */
static void weight_matrix(const Points *p, double (*g)[TAPS]) {
    double coef[PAIRS + 1];
    int last = 2 * p->pairs + 1;
    for (int r = 0; r < TAPS; r++) g[0][r] = g[last][r] = 0;
    squares(p, -1, coef);
    g[0][0] = 1 / coef[0];
    g[last][TAPS - 1] = 1;
    for (int i = 0; i < p->pairs; i++)
        for (int sign = 0; sign < 2; sign++) {
            double x = sign ? -p->x[i] : p->x[i], others = 2 * x * x;
            for (int l = 0; l < p->pairs; l++)
                if (l != i) others *= x * x - p->x[l] * p->x[l];
            for (int r = 0; r < TAPS; r++)
                g[2 * i + 1 + sign][r] = (r == 0 ? 1 : r == 1 ? x : x * x) / others;
        }
}

typedef void TransformFn(Body *b, const Points *p, const int *in, int *out);

/* Both dims of a square of `from` values a side, in place; `to` a side are left. */
static void transform_square(Body *b, const Points *p, TransformFn *transform, int from, int to,
                             int (*value)[TILE]) {
    int in[TILE], out[TILE];
    for (int j = 0; j < from; j++) {
        for (int i = 0; i < from; i++) in[i] = value[i][j];
        transform(b, p, in, out);
        for (int i = 0; i < to; i++) value[i][j] = out[i];
    }
    for (int i = 0; i < to; i++) {
        transform(b, p, value[i], out);
        for (int j = 0; j < to; j++) value[i][j] = out[j];
    }
}

/* ---- the maps ------------------------------------------------------------------------------- */

typedef struct Rewrite {
    Making as;
    const Map *conv;
    const Window *win;
    Points points;
    int m, t;
    Dim tiles[2];
} Rewrite;

static Dim number(const Rewrite *w, int64_t v) {
    return dim_const(w->as.flow->ctx, v);
}

/* What is summed: taps of other windows, then channels, which lanes run along. */
static void summed_dims(Rewrite *w) {
    making_dims(&w->as, ROLE_WINDOW);
    making_dims(&w->as, ROLE_K);
}

/* Residues of spread windows, then tiles; in maps over these the result's dims stand for the first
 * rows and columns. */
static void tile_dims(Rewrite *w) {
    static const char *const residue_name[] = {"i", "j"}, *const tile_name[] = {"p", "q"};
    Ctx *ctx = w->as.flow->ctx;
    Dim residue[2], tile[2];
    for (int i = 0; i < 2; i++) {
        Dim apart = number(w, w->win->apart[i]);
        residue[i] = number(w, 0);
        if (w->win->apart[i] == 1) continue;
        residue[i] = map_dim(w->as.flow, w->as.map, residue_name[i], apart);
        making_index(&w->as, residue[i], apart);
    }
    for (int i = 0; i < 2; i++) {
        tile[i] = map_dim(w->as.flow, w->as.map, tile_name[i], w->tiles[i]);
        Dim first = dim_add(ctx, dim_mulc(ctx, tile[i], w->win->apart[i] * w->m), residue[i]);
        w->as.subst[w->as.nsubst++] = (DimSubst){w->conv->dim.at[w->win->slide[i]].sym, first};
        making_index(&w->as, tile[i], w->tiles[i]);
    }
}

/* Where an element (i, j) of a tile stands: these two indices, then those collected. */
static Access element(const Rewrite *w, int cont, int i, int j) {
    Dim *at = NEW_ARRAY(w->as.flow->arena, Dim, w->as.rank);
    for (int k = 0; k < w->as.rank; k++) at[k] = w->as.at[k];
    at[0] = number(w, i), at[1] = number(w, j);
    return (Access){cont, w->as.rank, at};
}

/* The first two indices of what holds tiles of `side` squared. */
static void element_indices(Rewrite *w, int side) {
    making_index(&w->as, number(w, 0), number(w, side));
    making_index(&w->as, number(w, 0), number(w, side));
}

static void add_factors(Rewrite *w, int *cont) {
    double g[TILE][TAPS];
    float *gg = NEW_ARRAY(w->as.flow->arena, float, TILE *TILE *TAPS *TAPS);
    weight_matrix(&w->points, g);
    int n = 0;
    for (int a = 0; a < w->t; a++)
        for (int b = 0; b < w->t; b++)
            for (int r = 0; r < TAPS; r++)
                for (int s = 0; s < TAPS; s++) gg[n++] = (float)(g[a][r] * g[b][s]);
    Dim shape[] = {number(w, w->t), number(w, w->t), number(w, TAPS), number(w, TAPS)};
    *cont = flow_cont(w->as.flow, internf(w->as.flow->ctx, "%s.G", w->conv->name), CONT_LITERAL,
                      F32, shape, 4);
    w->as.flow->cont.at[*cont].data = gg;
    w->as.flow->cont.at[*cont].data_bytes = (int64_t)n * (int64_t)sizeof *gg;
}

/* U: a sum over the window, that the evaluator keeps in f64 and rounds once. */
static int weights_map(Rewrite *w) {
    int factors;
    add_factors(w, &factors);
    making_map(&w->as, "u");
    Dim a = map_dim(w->as.flow, w->as.map, "a", number(w, w->t));
    Dim b = map_dim(w->as.flow, w->as.map, "b", number(w, w->t));
    making_index(&w->as, a, number(w, w->t)), making_index(&w->as, b, number(w, w->t));
    making_dims(&w->as, ROLE_BATCH);
    summed_dims(w);
    making_dims(&w->as, ROLE_N);
    int cont = making_cont(&w->as, "U"), rank = w->as.rank;
    Dim factor[] = {a, b, NULL, NULL};
    for (int i = 0; i < 2; i++)
        making_dim(&w->as, w->win->window[i]), factor[2 + i] = w->as.at[w->as.rank - 1];
    const Val *read = &w->conv->body.val.at[w->win->weights];
    Dim at[RANK_MAX];
    making_at(&w->as, &read->read, 0, at);
    Body *body = &w->as.map->body;
    int weight = body_cvt(body, F32, map_read(w->as.flow, w->as.map, read->read.cont, at));
    int product = body_prim2(body, P_MUL, map_read(w->as.flow, w->as.map, factors, factor), weight);
    w->as.rank = rank;
    map_write(w->as.flow, w->as.map, cont, w->as.at, product,
              combine_get(w->as.flow->ctx, "sum", F32));
    return cont;
}

/* Element (i, j) of an input tile, 0 outside of the image. */
static int read_input(Rewrite *w, int i, int j) {
    const Val *read = &w->conv->body.val.at[w->win->input];
    Dim at[RANK_MAX];
    w->as.subst[w->as.nsubst] = (DimSubst){w->conv->dim.at[w->win->window[0]].sym, number(w, i)};
    w->as.subst[w->as.nsubst + 1] =
        (DimSubst){w->conv->dim.at[w->win->window[1]].sym, number(w, j)};
    making_at(&w->as, &read->read, 2, at);
    int zero = body_const(&w->as.map->body, read->type, 0);
    return body_cvt(&w->as.map->body, F32,
                    map_read_else(w->as.flow, w->as.map, read->read.cont, at, zero));
}

/* Writes a square of values, one container element each. */
static void write_square(Rewrite *w, int cont, int side, int (*value)[TILE]) {
    for (int i = 0; i < side; i++)
        for (int j = 0; j < side; j++) {
            Access to = element(w, cont, i, j);
            map_write(w->as.flow, w->as.map, cont, to.at, value[i][j], NULL);
        }
}

/* Begins a map over all tiles and what is summed, or the channels out; its container holds, for
 * each, a square of elements. */
static int begin_squares(Rewrite *w, const char *map, const char *cont, int side, bool summed) {
    making_map(&w->as, map);
    element_indices(w, side);
    making_dims(&w->as, ROLE_M);
    tile_dims(w);
    making_dims(&w->as, ROLE_BATCH);
    if (summed)
        summed_dims(w);
    else
        making_dims(&w->as, ROLE_N);
    return making_cont(&w->as, cont);
}

static int input_map(Rewrite *w) {
    int value[TILE][TILE], cont = begin_squares(w, "v", "V", w->t, true);
    for (int i = 0; i < w->t; i++)
        for (int j = 0; j < w->t; j++) value[i][j] = read_input(w, i, j);
    transform_square(&w->as.map->body, &w->points, transform_input, w->t, w->t, value);
    write_square(w, cont, w->t, value);
    return cont;
}

/* M: a product of matrices for every element of a tile. */
static int product_map(Rewrite *w, int v, int u) {
    Dim at_u[RANK_MAX], at_v[RANK_MAX], k[RANK_MAX];
    making_map(&w->as, "m");
    Dim a = map_dim(w->as.flow, w->as.map, "a", number(w, w->t));
    Dim b = map_dim(w->as.flow, w->as.map, "b", number(w, w->t));
    making_index(&w->as, a, number(w, w->t)), making_index(&w->as, b, number(w, w->t));
    making_dims(&w->as, ROLE_M);
    tile_dims(w);
    int images = w->as.rank;
    making_dims(&w->as, ROLE_BATCH);
    int groups = w->as.rank;
    making_dims(&w->as, ROLE_N);
    int cont = making_cont(&w->as, "M"), rank = w->as.rank, nv = 0, nu = 2;
    summed_dims(w);
    int nk = w->as.rank - rank;
    for (int i = 0; i < nk; i++) k[i] = w->as.at[rank + i];
    for (int i = 0; i < groups; i++) at_v[nv++] = w->as.at[i];
    at_u[0] = a, at_u[1] = b;
    for (int i = images; i < groups; i++) at_u[nu++] = w->as.at[i];
    for (int i = 0; i < nk; i++) at_v[nv++] = at_u[nu++] = k[i];
    for (int i = groups; i < rank; i++) at_u[nu++] = w->as.at[i];
    int product = body_prim2(&w->as.map->body, P_MUL, map_read(w->as.flow, w->as.map, v, at_v),
                             map_read(w->as.flow, w->as.map, u, at_u));
    map_write(w->as.flow, w->as.map, cont, w->as.at, product,
              combine_get(w->as.flow->ctx, "sum", F32));
    return cont;
}

static int output_map(Rewrite *w, int products) {
    int value[TILE][TILE], cont = begin_squares(w, "z", "Y", w->m, false);
    for (int i = 0; i < w->t; i++)
        for (int j = 0; j < w->t; j++)
            value[i][j] = body_read(&w->as.map->body, element(w, products, i, j), F32);
    transform_square(&w->as.map->body, &w->points, transform_output, w->t, w->m, value);
    write_square(w, cont, w->m, value);
    return cont;
}

/* The results where the convolution wrote them. */
static void result_map(Rewrite *w, int tiles) {
    Ctx *ctx = w->as.flow->ctx;
    making_map(&w->as, "y");
    Dim at[RANK_MAX], m = number(w, w->m);
    making_dims(&w->as, ROLE_M);
    int images = w->as.rank, n = 2;
    for (int i = 0; i < 2; i++) making_dim(&w->as, w->win->slide[i]);
    making_dims(&w->as, ROLE_BATCH);
    making_dims(&w->as, ROLE_N);
    for (int k = 0; k < images; k++) at[n++] = w->as.at[k];
    for (int i = 0; i < 2; i++)
        if (w->win->apart[i] > 1)
            at[n++] = dim_mod(ctx, w->as.at[images + i], number(w, w->win->apart[i]));
    for (int i = 0; i < 2; i++) {
        Dim row = dim_div(ctx, w->as.at[images + i], number(w, w->win->apart[i]));
        at[i] = dim_mod(ctx, row, m);
        at[n++] = dim_div(ctx, row, m);
    }
    for (int k = images + 2; k < w->as.rank; k++) at[n++] = w->as.at[k];
    making_result(&w->as, map_read(w->as.flow, w->as.map, tiles, at));
}

static void rewrite(Flow *flow, const PassEnv *env, const Map *conv, const Window *win, int m,
                    Items *into) {
    Rewrite w = {.as = {.flow = flow, .into = into, .of = conv, .role = win->role},
                 .conv = conv,
                 .win = win,
                 .m = m,
                 .t = m + TAPS - 1};
    w.points = points_for(m);
    w.points.rounds_twice = env->machine->rounds_twice;
    for (int i = 0; i < 2; i++)
        w.tiles[i] = dim_ceildiv(flow->ctx, conv->dim.at[win->slide[i]].extent,
                                 number(&w, win->apart[i] * m));
    int u = weights_map(&w);
    int v = input_map(&w);
    result_map(&w, output_map(&w, product_map(&w, v, u)));
}

/* As a recipe says, or as it costs least. */
static int decide_tile_size(const PassEnv *env, const Flow *flow, const Map *conv,
                            const Window *win) {
    static const char *const words[] = {"direct", "tiles2", "tiles4", NULL};
    int chosen = choose_tile_size(env, flow, conv, win) / 2;
    int m = 2 * recipe_decide(env, "algorithm", conv->name, words, chosen);
    if (m && !may_tile(flow, conv, win, m))
        recipe_refuse(env->recipe, recipe_find(env, "algorithm", conv->name)->line,
                      "the weights of \"%s\" are too many to be transformed when compiling",
                      conv->name);
    return m ? m : 1;
}

bool rewrite_in_tiles(Flow *flow, const PassEnv *env, const bool *weights, const Map *conv,
                      Items *into) {
    Window win;
    int m = window_of(flow, weights, conv, &win) ? decide_tile_size(env, flow, conv, &win) : 1;
    if (m > 1) rewrite(flow, env, conv, &win, m, into);
    return m > 1;
}
