/* SPDX-License-Identifier: Apache-2.0 */
/* Pass `algorithm`: convolutions by small windows in tiles.
 *
 * A convolution in steps of 1 by a window of r x r taps is done tile by tile as Winograd does it
 * (Lavin and Gray, 2015): m x m results come from t x t inputs, t = m+r-1, by transforming the
 * inputs and the weights, multiplying them element for element (summed over channels, a product of
 * matrices for each of the t*t elements), and transforming back: for r = 3 2.25 times fewer
 * products with m = 2, 4 times with m = 4. Five maps take the place of one:
 *
 *     U[a,b,c,o]     <- weights; the constant part computes it
 *     V[a,b,n,p,q,c] <- input tiles, straight-line code
 *     M[a,b,n,p,q,o] <- sum over c of V * U
 *     Y[e,f,n,p,q,o] <- M, straight-line code
 *     y[n,o,h,w]     <- Y[h%m, w%m, n, h/m, w/m, o], a view for the epilogue to read
 *
 * Tiles along one dim alone have one such index for two, and m results of t elements: half of the
 * products for r = 3 and m = 4, two thirds for r = 2 and m = 3.
 *
 * A spread window, whose taps lie d elements apart, is d convolutions by neighbours along a dim,
 * one for each residue of its rows: V, M and Y have the residue as a dim of its own, and a result
 * is y[.., h, ..] <- Y[h/d%m, .., h/(d*m), h%d, ..].
 *
 * It is Toom and Cook's product of polynomials at t points: 0, +-x (one to three pairs) and
 * infinity. For t = 6 the points 5/8 and 3/2 are exact, as are all coefficients of the run-time
 * transforms, and keep half the error of the usual 1 and 2 (algorithm_cost.c has the figures).
 *
 * Maps are recognized by their accesses (ir/contract.c): any sum of products whose one operand
 * slides along dims of the result by such a window does. */
#include <string.h>

#include "passes/algorithm.h"

enum { PAIRS = POINTS_MOST / 2 - 1 };

/* ---- transforms ----------------------------------------------------------------------------- */

/* The points: 0, +-x[0], .. , infinity. */
typedef struct Points {
    int pairs;
    double x[PAIRS];
    bool rounds_twice; /* as Machine.rounds_twice */
} Points;

static Points points_for(int points) {
    static const Points by_pairs[PAIRS] = {
        {1, {1}, false}, {2, {0.625, 1.5}, false}, {3, {0.5, 1, 1.625}, false}};
    return by_pairs[points / 2 - 2];
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
static void transform_input(Body *b, const Points *p, int results, const int *in, int *out) {
    (void)results;
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
static void transform_output(Body *b, const Points *p, int results, const int *in, int *out) {
    int half[2][PAIRS + 1];
    for (int i = 0; i < p->pairs; i++) {
        half[0][i] = body_prim2(b, P_ADD, in[2 * i + 1], in[2 * i + 2]);
        half[1][i] = body_prim2(b, P_SUB, in[2 * i + 1], in[2 * i + 2]);
    }
    double power[PAIRS + 1];
    for (int i = 0; i <= p->pairs; i++) power[i] = 1;
    for (int e = 0; e < results; e++) {
        int n = p->pairs, *parts = half[e % 2];
        parts[n] = e == 0 ? in[0] : in[2 * p->pairs + 1];
        out[e] = combination(b, p, power, parts, 1, e == 0 || e == results - 1 ? n + 1 : n);
        for (int i = 0; i < p->pairs; i++) power[i] *= p->x[i];
    }
}

/* Of weights: row a holds the powers of point a over the product of its distances from the others.
 */
static void weight_matrix(const Points *p, int64_t taps, double (*g)[TAPS_MOST]) {
    double coef[PAIRS + 1];
    int last = 2 * p->pairs + 1;
    for (int r = 0; r < taps; r++) g[0][r] = g[last][r] = 0;
    squares(p, -1, coef);
    g[0][0] = 1 / coef[0];
    g[last][taps - 1] = 1;
    for (int i = 0; i < p->pairs; i++)
        for (int sign = 0; sign < 2; sign++) {
            double x = sign ? -p->x[i] : p->x[i], others = 2 * x * x, power = 1;
            for (int l = 0; l < p->pairs; l++)
                if (l != i) others *= x * x - p->x[l] * p->x[l];
            for (int r = 0; r < taps; r++, power *= x) g[2 * i + 1 + sign][r] = power / others;
        }
}

typedef void TransformFn(Body *b, const Points *p, int results, const int *in, int *out);

/* Elements of a tile, by row and column; of tiles along one dim there is one row. */
typedef int Tile[POINTS_MOST][POINTS_MOST];

/* ---- the maps ------------------------------------------------------------------------------- */

typedef struct Rewrite {
    Making as;
    const Map *conv;
    const Window *win;
    Points points;
    int m[2], t[2]; /* results and elements of a tile along each dim: 1 where none lie */
    Dim tiles[2];
} Rewrite;

/* Along both dims of a tile, in place: `from` values become `to`. */
static void transform_tile(Rewrite *w, TransformFn *transform, const int *from, const int *to,
                           Tile value) {
    Body *b = &w->as.map->body;
    int in[POINTS_MOST], out[POINTS_MOST];
    for (int j = 0; j < from[1] && !w->win->first; j++) {
        for (int i = 0; i < from[0]; i++) in[i] = value[i][j];
        transform(b, &w->points, to[0], in, out);
        for (int i = 0; i < to[0]; i++) value[i][j] = out[i];
    }
    for (int i = 0; i < to[0]; i++) {
        transform(b, &w->points, to[1], value[i], out);
        for (int j = 0; j < to[1]; j++) value[i][j] = out[j];
    }
}

static Dim number(const Rewrite *w, int64_t v) {
    return dim_const(w->as.flow->ctx, v);
}

/* What is summed: taps of other windows, then channels, which lanes run along. */
static void summed_dims(Rewrite *w) {
    making_dims(&w->as, ROLE_WINDOW);
    making_dims(&w->as, ROLE_K);
}

/* Tiles along each dim and, of spread windows, residues behind them, so that neighbours lie side by
 * side; in maps over these the result's dims stand for the first rows and columns. */
static void tile_dims(Rewrite *w) {
    static const char *const residue_name[] = {"i", "j"}, *const tile_name[] = {"p", "q"};
    Flow *flow = w->as.flow;
    for (int i = w->win->first; i < 2; i++) {
        int64_t apart = w->win->apart[i];
        Dim tile = map_dim(flow, w->as.map, tile_name[i], w->tiles[i]);
        Dim first = dim_mulc(flow->ctx, tile, apart * w->m[i]);
        making_index(&w->as, tile, w->tiles[i]);
        if (apart > 1) {
            Dim residue = map_dim(flow, w->as.map, residue_name[i], number(w, apart));
            making_index(&w->as, residue, number(w, apart));
            first = dim_add(flow->ctx, first, residue);
        }
        w->as.subst[w->as.nsubst++] = (DimSubst){w->conv->dim.at[w->win->slide[i]].sym, first};
    }
}

/* Where an element (i, j) of a tile stands: its indices, then those collected. */
static Access element(const Rewrite *w, int cont, int i, int j) {
    Dim *at = NEW_ARRAY(w->as.flow->arena, Dim, w->as.rank);
    for (int k = 0; k < w->as.rank; k++) at[k] = w->as.at[k];
    at[0] = number(w, i), at[1 - w->win->first] = number(w, j);
    return (Access){cont, w->as.rank, at};
}

/* The first indices of what holds tiles of so many elements. */
static void element_indices(Rewrite *w, const int *extent) {
    for (int i = w->win->first; i < 2; i++)
        making_index(&w->as, number(w, 0), number(w, extent[i]));
}

/* Dims of a map that count elements, as its first indices. */
static void element_dims(Rewrite *w) {
    static const char *const names[] = {"a", "b"};
    for (int i = w->win->first; i < 2; i++) {
        Dim extent = number(w, w->t[i]);
        making_index(&w->as, map_dim(w->as.flow, w->as.map, names[i], extent), extent);
    }
}

/* The transform of the weights, elements by taps. */
static void add_factors(Rewrite *w, int *cont) {
    const int64_t *taps = w->win->taps;
    double g[2][POINTS_MOST][TAPS_MOST] = {{{1}}};
    for (int i = w->win->first; i < 2; i++) weight_matrix(&w->points, taps[i], g[i]);
    float *gg = NEW_ARRAY(w->as.flow->arena, float, w->t[0] * w->t[1] * (int)(taps[0] * taps[1]));
    int n = 0, rank = 0;
    for (int a = 0; a < w->t[0]; a++)
        for (int b = 0; b < w->t[1]; b++)
            for (int r = 0; r < taps[0]; r++)
                for (int s = 0; s < taps[1]; s++) gg[n++] = (float)(g[0][a][r] * g[1][b][s]);
    Dim shape[4];
    for (int i = w->win->first; i < 2; i++) shape[rank++] = number(w, w->t[i]);
    for (int i = w->win->first; i < 2; i++) shape[rank++] = number(w, taps[i]);
    *cont = flow_cont(w->as.flow, internf(w->as.flow->ctx, "%s.G", w->conv->name), CONT_LITERAL,
                      F32, shape, rank);
    w->as.flow->cont.at[*cont].data = gg;
    w->as.flow->cont.at[*cont].data_bytes = (int64_t)n * (int64_t)sizeof *gg;
}

/* U: a sum over the window, that the evaluator keeps in f64 and rounds once. */
static int weights_map(Rewrite *w) {
    int factors;
    add_factors(w, &factors);
    making_map(&w->as, "u");
    element_dims(w);
    Dim factor[4];
    int n = w->as.rank;
    memcpy(factor, w->as.at, (size_t)n * sizeof *factor);
    making_dims(&w->as, ROLE_BATCH);
    summed_dims(w);
    making_dims(&w->as, ROLE_N);
    int cont = making_cont(&w->as, "U"), rank = w->as.rank;
    for (int i = w->win->first; i < 2; i++)
        making_dim(&w->as, w->win->window[i]), factor[n++] = w->as.at[w->as.rank - 1];
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
    const MapDim *dim = w->conv->dim.at;
    DimSubst *tap = w->as.subst + w->as.nsubst;
    int n = 0;
    if (!w->win->first) tap[n++] = (DimSubst){dim[w->win->window[0]].sym, number(w, i)};
    tap[n++] = (DimSubst){dim[w->win->window[1]].sym, number(w, j)};
    making_at(&w->as, &read->read, n, at);
    int zero = body_const(&w->as.map->body, read->type, 0);
    return body_cvt(&w->as.map->body, F32,
                    map_read_else(w->as.flow, w->as.map, read->read.cont, at, zero));
}

/* Writes all elements of a tile. */
static void write_tile(Rewrite *w, int cont, const int *extent, Tile value) {
    for (int i = 0; i < extent[0]; i++)
        for (int j = 0; j < extent[1]; j++) {
            Access to = element(w, cont, i, j);
            map_write(w->as.flow, w->as.map, cont, to.at, value[i][j], NULL);
        }
}

/* Begins a map over all tiles and what is summed, or the channels out; its container holds, for
 * each, so many elements. */
static int begin_tiles(Rewrite *w, const char *map, const char *cont, const int *extent,
                       bool summed) {
    making_map(&w->as, map);
    element_indices(w, extent);
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
    Tile value;
    int cont = begin_tiles(w, "v", "V", w->t, true);
    for (int i = 0; i < w->t[0]; i++)
        for (int j = 0; j < w->t[1]; j++) value[i][j] = read_input(w, i, j);
    transform_tile(w, transform_input, w->t, w->t, value);
    write_tile(w, cont, w->t, value);
    return cont;
}

/* M: a product of matrices for every element of a tile. */
static int product_map(Rewrite *w, int v, int u) {
    Dim at_u[RANK_MAX], at_v[RANK_MAX], k[RANK_MAX];
    making_map(&w->as, "m");
    element_dims(w);
    int elements = w->as.rank;
    making_dims(&w->as, ROLE_M);
    tile_dims(w);
    int images = w->as.rank;
    making_dims(&w->as, ROLE_BATCH);
    int groups = w->as.rank;
    making_dims(&w->as, ROLE_N);
    int cont = making_cont(&w->as, "M"), rank = w->as.rank, nv = 0, nu = 0;
    summed_dims(w);
    int nk = w->as.rank - rank;
    for (int i = 0; i < nk; i++) k[i] = w->as.at[rank + i];
    for (int i = 0; i < groups; i++) at_v[nv++] = w->as.at[i];
    for (int i = 0; i < elements; i++) at_u[nu++] = w->as.at[i];
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
    Tile value;
    int cont = begin_tiles(w, "z", "Y", w->m, false);
    for (int i = 0; i < w->t[0]; i++)
        for (int j = 0; j < w->t[1]; j++)
            value[i][j] = body_read(&w->as.map->body, element(w, products, i, j), F32);
    transform_tile(w, transform_output, w->t, w->m, value);
    write_tile(w, cont, w->m, value);
    return cont;
}

/* The results where the convolution wrote them. */
static void result_map(Rewrite *w, int tiles) {
    Ctx *ctx = w->as.flow->ctx;
    const Window *win = w->win;
    making_map(&w->as, "y");
    Dim at[RANK_MAX];
    making_dims(&w->as, ROLE_M);
    int images = w->as.rank, n = 2 - win->first;
    for (int i = win->first; i < 2; i++) making_dim(&w->as, win->slide[i]);
    int rows = w->as.rank;
    making_dims(&w->as, ROLE_BATCH);
    making_dims(&w->as, ROLE_N);
    for (int k = 0; k < images; k++) at[n++] = w->as.at[k];
    const Dim *row = w->as.at + images - win->first;
    for (int i = win->first; i < 2; i++) {
        Dim apart = number(w, win->apart[i]), m = number(w, w->m[i]);
        Dim own = dim_div(ctx, row[i], apart);
        at[i - win->first] = dim_mod(ctx, own, m);
        at[n++] = dim_div(ctx, own, m);
        if (win->apart[i] > 1) at[n++] = dim_mod(ctx, row[i], apart);
    }
    for (int k = rows; k < w->as.rank; k++) at[n++] = w->as.at[k];
    making_result(&w->as, map_read(w->as.flow, w->as.map, tiles, at));
}

static void rewrite(Flow *flow, const PassEnv *env, const Map *conv, const Window *win, int points,
                    Items *into) {
    Rewrite w = {.as = {.flow = flow, .into = into, .of = conv, .role = win->role},
                 .conv = conv,
                 .win = win,
                 .points = points_for(points),
                 .m = {1, 1},
                 .t = {1, 1}};
    w.points.rounds_twice = env->machine->rounds_twice;
    for (int i = win->first; i < 2; i++) {
        w.t[i] = points, w.m[i] = points + 1 - (int)win->taps[i];
        w.tiles[i] = dim_ceildiv(flow->ctx, conv->dim.at[win->slide[i]].extent,
                                 number(&w, win->apart[i] * w.m[i]));
    }
    int u = weights_map(&w);
    int v = input_map(&w);
    result_map(&w, output_map(&w, product_map(&w, v, u)));
}

/* As a recipe says, or as it costs least. */
static int decide_points(const PassEnv *env, const Flow *flow, const Map *conv, const Window *win) {
    static const char *const words[] = {"direct", "points4", "points6", "points8", NULL};
    int points = choose_points(env, flow, conv, win), chosen = points ? points / 2 - 1 : 0;
    chosen = recipe_decide(env, "algorithm", conv->name, words, chosen);
    points = chosen ? 2 * chosen + 2 : 0;
    if (points && !may_tile(flow, conv, win, points))
        recipe_refuse(
            env->recipe, recipe_find(env, "algorithm", conv->name)->line,
            "\"%s\" cannot have tiles of %d points: their results would be less than two, "
            "their errors too large, or its weights too many to be transformed when "
            "compiling",
            conv->name, points);
    return points;
}

bool rewrite_in_tiles(Flow *flow, const PassEnv *env, const bool *weights, const Map *conv,
                      Items *into) {
    Window win;
    int points = window_of(flow, weights, conv, &win) ? decide_points(env, flow, conv, &win) : 0;
    if (points) rewrite(flow, env, conv, &win, points, into);
    return points > 0;
}
