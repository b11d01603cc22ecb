/* SPDX-License-Identifier: Apache-2.0 */
/* Pass `algorithm`: products of matrices by quarters, seven products for eight (Strassen, Gaussian
 * Elimination is not Optimal, Numerische Mathematik 13, 1969).
 *
 * A product's rows, terms and columns are cut in two, each along one dim of the map. Of the
 * quarters of both operands seven sums and differences each are made, multiplied, and the products
 * added up to the quarters of the result. Six maps take the place of one:
 *
 *     U[j/J,t,k,j] <- weights, straight-line code; the constant part computes it
 *     R[m]         <- sum over k of x - x: NaN where a row has an infinity or a NaN, else 0
 *     V[t,i,k]     <- the other operand, 0 where it is not finite, straight-line code
 *     P[t,i,j]     <- sum over k of V * U
 *     Z[a,b,i,j]   <- P, straight-line code
 *     y[m,n]       <- Z + R, for the epilogue to read
 *
 * Rows share sums with their neighbours, so what is not finite is kept out of these: such a row's
 * results are NaN, and no other's.
 *
 * Parts go by turns in blocks: a row is i*2+a, so that neighbours are made together; a term
 * k+a*K/2, for lanes to run along; a column (j/J*2+b)*J+j%J, where J fills panels and a kernel
 * holds some of them (schedule_quarters.c). One row more than there are counts as zeros.
 *
 * Where the run counts the rows, their number chooses (ITEM_IF). For few, four of the sums take the
 * weights' place, as w11, w21 - w11, w22 and w12 - w22 make these up; they lie apart from the other
 * three, which T holds, and Q their products (weights of halves stay beside the sums, as they are):
 *
 *     U[j/J,b,a*K/2+k,j], P[b,a,i,j]; T[j/J,t,k,j], Q[t,i,j]
 *     X[b,m,k]     <- x1 + x2, x2; x1 + x2, x1: straight-line code over halves of the terms
 *     F[m,j/J,b,j] <- sum over k of X * U, for the epilogue to read
 *
 * Winograd's form of it has three additions fewer, but is off by 2.7 times what a plain sum is off
 * by, this one by 2.0 (relative L2 error of products of 256 to 3072 terms, against f64). */
#include "passes/algorithm_quarters.h"
#include "passes/schedule.h"

enum { PRODUCTS = QUARTER_PRODUCTS, QUARTERS = 4 };

typedef signed char Sign;
/* The sums by the operands' quarters 11, 12, 21, 22, and the result's quarters by the products; and
 * by halves of the terms what few rows multiply the first four sums of weights by. */
static const Sign left[PRODUCTS][QUARTERS] = {{0, 0, 1, 1}, {0, 0, 0, 1}, {1, 1, 0, 0},
                                              {1, 0, 0, 0}, {1, 0, 0, 1}, {-1, 0, 1, 0},
                                              {0, 1, 0, -1}};
static const Sign right[PRODUCTS][QUARTERS] = {{1, 0, 0, 0},  {-1, 0, 1, 0}, {0, 0, 0, 1},
                                               {0, 1, 0, -1}, {1, 0, 0, 1},  {1, 1, 0, 0},
                                               {0, 0, 1, 1}};
static const Sign result[QUARTERS][PRODUCTS] = {
    {0, 1, -1, 0, 1, 0, 1}, {0, 0, 1, 1, 0, 0, 0}, {1, 1, 0, 0, 0, 0, 0}, {-1, 0, 0, 1, 1, 1, 0}};
static const Sign halves[QUARTERS][2] = {{1, 1}, {0, 1}, {1, 1}, {1, 0}};

static const DimRole role_of[CUTS] = {ROLE_M, ROLE_K, ROLE_N};

/* ---- the maps ----------------------------------------------------------------------------------
 */

static Dim number(const Quarters *w, int64_t v) {
    return dim_const(w->as.flow->ctx, v);
}

static Dim half_dim(Quarters *w, const char *name, Dim extent) {
    if (dim_is(extent, 1)) return number(w, 0);
    Dim d = map_dim(w->as.flow, w->as.map, name, extent);
    making_index(&w->as, d, extent);
    return d;
}

/* All dims of a role, of the cut one its blocks. */
static void outer_dims(Quarters *w, int which) {
    const Cut *cut = &w->cut[which];
    for (int d = 0; d < w->as.of->dim.n; d++) {
        if (w->as.role[d] != role_of[which]) continue;
        const char *name = dim_sym_name(w->as.of->dim.at[d].sym);
        if (d == cut->dim) w->outer[which] = half_dim(w, name, cut->blocks);
        if (d != cut->dim) making_dim(&w->as, d);
    }
}

/* What is in a block. */
static void inner_dim(Quarters *w, int which) {
    const Cut *cut = &w->cut[which];
    const char *name = dim_sym_name(w->as.of->dim.at[cut->dim].sym);
    w->inner[which] = half_dim(w, name, number(w, cut->block));
}

static void half_dims(Quarters *w, int which) {
    outer_dims(w, which);
    inner_dim(w, which);
}

/* The index of the cut dim in its part. */
static DimSubst part_of(const Quarters *w, int which, int part) {
    Ctx *ctx = w->as.flow->ctx;
    Dim block = dim_addc(ctx, dim_mulc(ctx, w->outer[which], 2), part);
    Dim at = dim_add(ctx, dim_mulc(ctx, block, w->cut[which].block), w->inner[which]);
    return (DimSubst){w->as.of->dim.at[w->cut[which].dim].sym, at};
}

static int signed_sum(Body *b, const Sign *sign, const int *value, int n) {
    int sum = -1;
    for (int wanted = 1; wanted >= -1; wanted -= 2)
        for (int i = 0; i < n; i++)
            if (sign[i] == wanted)
                sum = sum < 0 ? value[i] : body_prim2(b, wanted > 0 ? P_ADD : P_SUB, sum, value[i]);
    return sum;
}

/* The operand, by `more` substitutions behind those of the dims; `ends`: 0 where it is outside. */
static int read_operand(Quarters *w, int operand, int more, bool ends) {
    Flow *flow = w->as.flow;
    Map *map = w->as.map;
    const Val *read = &w->as.of->body.val.at[operand];
    Dim at[RANK_MAX];
    making_at(&w->as, &read->read, more, at);
    int zero = ends ? body_const(&map->body, read->type, 0) : -1;
    int x = ends ? map_read_else(flow, map, read->read.cont, at, zero)
                 : map_read(flow, map, read->read.cont, at);
    return body_cvt(&map->body, F32, x);
}

/* The same in a part of rows or columns and of terms; rows may end before their last part does. */
static int read_part(Quarters *w, int operand, bool last) {
    Dim odd = dim_mod(w->as.flow->ctx, w->cut[ROWS].extent, number(w, 2));
    return read_operand(w, operand, 2, last && !dim_is(odd, 0));
}

/* x - x is 0 but for infinities and NaNs. */
static int finite_or_zero(Body *b, int x) {
    int zero = body_const(b, F32, 0), none = body_prim2(b, P_SUB, x, x);
    return body_prim3(b, P_SELECT, body_prim2(b, P_EQ, none, zero), x, zero);
}

/* R: what rows that are not finite add to their results. */
static int rows_map(Quarters *w) {
    Flow *flow = w->as.flow;
    making_map(&w->as, "r");
    making_dims(&w->as, ROLE_BATCH);
    making_dims(&w->as, ROLE_M);
    int to = making_cont(&w->as, "R"), rank = w->as.rank;
    making_dims(&w->as, ROLE_K);
    Body *body = &w->as.map->body;
    int x = read_operand(w, w->roles.a, 0, false);
    w->as.rank = rank;
    map_write(flow, w->as.map, to, w->as.at, body_prim2(body, P_SUB, x, x),
              combine_get(flow->ctx, "sum", F32));
    return making_once(&w->as, to);
}

/* The quarters of an operand, which two cuts make. */
static void read_quarters(Quarters *w, int operand, int first, int second, int *value) {
    for (int q = 0; q < QUARTERS; q++) {
        w->as.subst[w->as.nsubst] = part_of(w, first, q / 2);
        w->as.subst[w->as.nsubst + 1] = part_of(w, second, q % 2);
        value[q] = read_part(w, operand, first == ROWS && q / 2);
    }
}

/* V: sums of quarters of rows. */
static int rows_sums_map(Quarters *w) {
    Flow *flow = w->as.flow;
    int value[QUARTERS];
    making_map(&w->as, "v");
    making_index(&w->as, number(w, 0), number(w, PRODUCTS));
    making_dims(&w->as, ROLE_BATCH);
    half_dims(w, ROWS);
    half_dims(w, TERMS);
    Body *body = &w->as.map->body;
    read_quarters(w, w->roles.a, ROWS, TERMS, value);
    for (int q = 0; q < QUARTERS; q++) value[q] = finite_or_zero(body, value[q]);
    int to = making_cont(&w->as, "V");
    for (int t = 0; t < PRODUCTS; t++) {
        w->as.at[0] = number(w, t);
        map_write(flow, w->as.map, to, w->as.at, signed_sum(body, left[t], value, QUARTERS), NULL);
    }
    return to;
}

/* Some of the sums: counted by one index, `parts` of them by the terms besides. */
typedef struct Some {
    int first, n, parts;
    const char *sums, *weights, *map, *products;
} Some;

/* All of them lie together or, where few rows read the first four, these. */
static const Some all = {0, PRODUCTS, 1, "u", "U", "p", "P"};
static const Some four = {0, QUARTERS, 2, "u", "U", "p", "P"};
static const Some three = {QUARTERS, PRODUCTS - QUARTERS, 1, "t", "T", "q", "Q"};

/* The index of part `part` of the terms, `terms` counting its own. */
static Dim part_terms(const Quarters *w, Dim part, Dim terms) {
    Dim half = number(w, w->cut[TERMS].block);
    return dim_add(w->as.flow->ctx, dim_mul(w->as.flow->ctx, part, half), terms);
}

/* U, T: sums of quarters of weights once for all products that read them, as these read them: block
 * of columns by block, in that sum by sum, columns behind the terms. */
static int weights_map(Quarters *w, const Some *some) {
    Flow *flow = w->as.flow;
    int value[QUARTERS];
    making_map(&w->as, some->sums);
    making_dims(&w->as, ROLE_BATCH);
    outer_dims(w, COLUMNS);
    int sums = w->as.rank;
    making_index(&w->as, number(w, 0), number(w, some->n / some->parts));
    half_dims(w, TERMS);
    int last = w->as.rank - 1;
    Dim terms = w->as.at[last];
    w->as.shape[last] = dim_mulc(flow->ctx, w->as.shape[last], some->parts);
    inner_dim(w, COLUMNS);
    read_quarters(w, w->roles.b, TERMS, COLUMNS, value);
    int to = making_cont(&w->as, some->weights);
    for (int i = 0; i < some->n; i++) {
        w->as.at[sums] = number(w, i / some->parts);
        w->as.at[last] = part_terms(w, number(w, i % some->parts), terms);
        int sum = signed_sum(&w->as.map->body, right[some->first + i], value, QUARTERS);
        map_write(flow, w->as.map, to, w->as.at, sum, NULL);
    }
    return making_once(&w->as, to);
}

/* Appends indices from..to of those collected. */
static int copy_indices(const Quarters *w, Dim *at, int n, int from, int to) {
    for (int k = from; k < to; k++) at[n++] = w->as.at[k];
    return n;
}

/* P, Q: products. */
static int product_map(Quarters *w, const Some *some, int v, int u) {
    Flow *flow = w->as.flow;
    Ctx *ctx = flow->ctx;
    Dim at[RANK_MAX];
    making_map(&w->as, some->map);
    Dim t = map_dim(flow, w->as.map, "t", number(w, some->n / some->parts));
    making_index(&w->as, t, number(w, some->n / some->parts));
    Dim part = half_dim(w, "part", number(w, some->parts));
    int sums = w->as.rank;
    making_dims(&w->as, ROLE_BATCH);
    int batch = w->as.rank;
    half_dims(w, ROWS);
    int rows = w->as.rank;
    outer_dims(w, COLUMNS);
    int blocks = w->as.rank;
    inner_dim(w, COLUMNS);
    int columns = w->as.rank, to = making_cont(&w->as, some->products);
    half_dims(w, TERMS);
    int terms = w->as.rank, n = 0;
    at[n++] = dim_addc(ctx, dim_add(ctx, dim_mulc(ctx, t, some->parts), part), some->first);
    n = copy_indices(w, at, n, sums, rows);
    copy_indices(w, at, n, columns, terms);
    int a = map_read(flow, w->as.map, v, at);
    n = copy_indices(w, at, 0, sums, batch);
    n = copy_indices(w, at, n, rows, blocks);
    at[n++] = t;
    n = copy_indices(w, at, n, columns, terms);
    at[n - 1] = part_terms(w, part, at[n - 1]);
    copy_indices(w, at, n, blocks, columns);
    int b = map_read(flow, w->as.map, u, at);
    map_write(flow, w->as.map, to, w->as.at, body_prim2(&w->as.map->body, P_MUL, a, b),
              combine_get(flow->ctx, "sum", F32));
    return to;
}

/* Z: the quarters of the result, of these products. */
static int quarters_map(Quarters *w, const Some *const *some, const int *products, int n) {
    Flow *flow = w->as.flow;
    int value[PRODUCTS];
    making_map(&w->as, "z");
    for (int i = 0; i < 2; i++) making_index(&w->as, number(w, 0), number(w, 2));
    making_dims(&w->as, ROLE_BATCH);
    half_dims(w, ROWS);
    half_dims(w, COLUMNS);
    for (int i = 0; i < n; i++)
        for (int t = 0; t < some[i]->n; t++) {
            bool parts = some[i]->parts > 1; /* by two indices; else by the second of these alone */
            w->as.at[0] = number(w, t / 2), w->as.at[1] = number(w, parts ? t % 2 : t);
            value[some[i]->first + t] = map_read(flow, w->as.map, products[i], w->as.at + !parts);
        }
    int to = making_cont(&w->as, "Z");
    for (int q = 0; q < QUARTERS; q++) {
        w->as.at[0] = number(w, q / 2), w->as.at[1] = number(w, q % 2);
        int sum = signed_sum(&w->as.map->body, result[q], value, PRODUCTS);
        map_write(flow, w->as.map, to, w->as.at, sum, NULL);
    }
    return to;
}

/* Where index `at` of a cut dim lies: its part, its block, and its place in that. */
static int split_index(const Quarters *w, int which, Dim at, Dim *part, Dim *where) {
    Ctx *ctx = w->as.flow->ctx;
    const Cut *cut = &w->cut[which];
    Dim block = dim_div(ctx, at, number(w, cut->block));
    int n = 0;
    *part = dim_mod(ctx, block, number(w, 2));
    if (!dim_is(cut->blocks, 1)) where[n++] = dim_div(ctx, block, number(w, 2));
    if (cut->block > 1) where[n++] = dim_mod(ctx, at, number(w, cut->block));
    return n;
}

/* The results where the product wrote them. */
static void result_map(Quarters *w, int quarters, int rows) {
    static const int order[] = {ROWS, COLUMNS};
    Flow *flow = w->as.flow;
    Dim at[RANK_MAX], row[RANK_MAX];
    making_map(&w->as, "y");
    making_dims(&w->as, ROLE_BATCH);
    int n = 2;
    for (int k = 0; k < w->as.rank; k++) at[n++] = w->as.at[k];
    for (int i = 0; i < 2; i++) {
        const Cut *cut = &w->cut[order[i]];
        Dim where[2];
        int parts = 0;
        for (int d = 0; d < w->as.of->dim.n; d++) {
            if (w->as.role[d] != role_of[order[i]]) continue;
            making_dim(&w->as, d);
            Dim mine = w->as.at[w->as.rank - 1];
            if (d != cut->dim) at[n++] = mine;
            if (d == cut->dim) parts = split_index(w, order[i], mine, &at[i], where);
            if (d == cut->dim && !dim_is(cut->blocks, 1)) at[n++] = where[0];
        }
        if (cut->block > 1) at[n++] = where[parts - 1];
        for (int k = 0; !i && k < w->as.rank; k++) row[k] = w->as.at[k];
    }
    int value = map_read(flow, w->as.map, quarters, at),
        row_value = map_read(flow, w->as.map, rows, row);
    making_result(&w->as, body_prim2(&w->as.map->body, P_ADD, value, row_value));
}

/* ---- few of the rows that the run counts -------------------------------------------------------
 */

/* X: rows that stand for those of each half of the columns. */
static int halves_map(Quarters *w) {
    Flow *flow = w->as.flow;
    int value[2];
    making_map(&w->as, "x");
    making_index(&w->as, number(w, 0), number(w, 2));
    making_dims(&w->as, ROLE_BATCH);
    making_dims(&w->as, ROLE_M);
    half_dims(w, TERMS);
    int last = w->as.rank - 1;
    Dim terms = w->as.at[last];
    w->as.shape[last] = dim_mulc(flow->ctx, w->as.shape[last], 2);
    for (int h = 0; h < 2; h++) {
        w->as.subst[w->as.nsubst] = part_of(w, TERMS, h);
        value[h] = read_operand(w, w->roles.a, 1, false);
    }
    int to = making_cont(&w->as, "X");
    for (int t = 0; t < QUARTERS; t++) {
        int sum = signed_sum(&w->as.map->body, halves[t], value, 2);
        w->as.at[0] = number(w, t / 2), w->as.at[last] = part_terms(w, number(w, t % 2), terms);
        map_write(flow, w->as.map, to, w->as.at, sum, NULL);
    }
    return to;
}

/* What the index of the cut columns is in F: its block, its half, its place in the block. */
static void split_columns(Quarters *w, Dim half, ByRows *by, Dim *at) {
    const Cut *cut = &w->cut[COLUMNS];
    by->column = cut->dim;
    by->n = 0;
    if (!dim_is(cut->blocks, 1)) at[by->n] = w->outer[COLUMNS], by->split[by->n++] = cut->blocks;
    at[by->n] = half, by->split[by->n++] = number(w, 2);
    if (cut->block > 1) at[by->n] = w->inner[COLUMNS], by->split[by->n++] = number(w, cut->block);
}

/* F's indices, those of the results with these for the cut columns; makes the container. */
static void few_results(Quarters *w, const Dim *column, ByRows *by, Dim *at) {
    const Access *to = &w->as.of->write.at[0].to[0];
    const char *name = internf(w->as.flow->ctx, "%s.F", w->as.of->name);
    Dim shape[RANK_MAX];
    int n = 0;
    for (int k = 0; k < to->rank; k++) {
        int d = access_dim(w->as.of, to, k);
        for (int i = 0; d == by->column && i < by->n; i++)
            at[n] = column[i], shape[n++] = by->split[i];
        if (d == by->column) continue;
        at[n] = dim_subst(w->as.flow->ctx, to->at[k], w->as.subst, w->as.nsubst);
        shape[n++] = w->as.flow->cont.at[to->cont].shape[k];
    }
    by->few = flow_cont(w->as.flow, name, CONT_TMP, F32, shape, n);
}

/* F: their products. */
static void few_map(Quarters *w, int x, int u, ByRows *by) {
    Flow *flow = w->as.flow;
    Dim at[RANK_MAX], to[RANK_MAX], column[COLUMN_DIMS];
    making_map(&w->as, "f");
    making_dims(&w->as, ROLE_BATCH);
    int batch = w->as.rank;
    making_dims(&w->as, ROLE_M);
    int rows = w->as.rank;
    outer_dims(w, COLUMNS);
    int blocks = w->as.rank;
    Dim half = map_dim(flow, w->as.map, "half", number(w, 2));
    inner_dim(w, COLUMNS);
    int columns = w->as.rank;
    split_columns(w, half, by, column);
    few_results(w, column, by, to);
    outer_dims(w, TERMS);
    making_dim(&w->as, w->cut[TERMS].dim);
    int terms = w->as.rank, n = 0;
    at[n++] = half;
    n = copy_indices(w, at, n, 0, rows);
    copy_indices(w, at, n, columns, terms);
    int a = map_read(flow, w->as.map, x, at);
    n = copy_indices(w, at, 0, 0, batch);
    n = copy_indices(w, at, n, rows, blocks);
    at[n++] = half;
    n = copy_indices(w, at, n, columns, terms);
    copy_indices(w, at, n, blocks, columns);
    int b = map_read(flow, w->as.map, u, at);
    map_write(flow, w->as.map, by->few, to, body_prim2(&w->as.map->body, P_MUL, a, b),
              combine_get(flow->ctx, "sum", F32));
}

/* F: the products with weights of halves as they are, of which few rows read half the bytes. */
static void halves_given(Quarters *w, ByRows *by) {
    Flow *flow = w->as.flow;
    Dim to[RANK_MAX];
    making_map(&w->as, "f");
    making_dims(&w->as, ROLE_BATCH);
    making_dims(&w->as, ROLE_M);
    making_dims(&w->as, ROLE_N);
    by->column = w->cut[COLUMNS].dim;
    by->n = 1, by->split[0] = w->cut[COLUMNS].extent;
    Dim column = w->as.of->dim.at[by->column].sym;
    column = dim_subst(flow->ctx, column, w->as.subst, w->as.nsubst);
    few_results(w, &column, by, to);
    making_dims(&w->as, ROLE_K);
    int a = read_operand(w, w->roles.a, 0, false), b = read_operand(w, w->roles.b, 0, false);
    map_write(flow, w->as.map, by->few, to, body_prim2(&w->as.map->body, P_MUL, a, b),
              combine_get(flow->ctx, "sum", F32));
}

/* ---- the choice --------------------------------------------------------------------------------
 */

/* The form for so many rows that they share sums: with those of weights, and R. */
static void many_maps(Quarters *w, const Some *const *some, const int *weights, int n, int r) {
    int v = rows_sums_map(w), products[2];
    for (int i = 0; i < n; i++) products[i] = product_map(w, some[i], v, weights[i]);
    result_map(w, quarters_map(w, some, products, n), r);
}

/* Bytes that the sums take beside, or instead of, what they are made of. */
static double growth(const Quarters *w, bool stays) {
    const Val *read = &w->as.of->body.val.at[w->roles.b];
    double floats = read_bytes(w->as.flow, w->as.of, &read->read);
    return floats * (PRODUCTS / (double)QUARTERS - (stays ? 0 : dtype_bits(read->type) / 32.0));
}

bool rewrite_in_quarters(Flow *flow, const PassEnv *env, Weights *weights, const Map *map,
                         Items *into, ByRows *by) {
    static const char *const words[] = {"direct", "quarters", NULL};
    static const Some *const together[] = {&all}, *const apart[] = {&four, &three};
    Quarters w = {.as = {.flow = flow, .into = into, .of = map, .role = w.roles.role}};
    if (env->machine->block_threads || !quarters_of(flow, env, weights->is, map, &w)) return false;
    double rows = contraction_usual(flow, map, &w.roles, ROLE_M);
    bool open = quarters_open(&w), halves = dtype_bits(map->body.val.at[w.roles.b].type) < 32;
    int64_t least = open ? quarters_least_rows(flow, env, map, &w) : 0;
    int chosen = open ? least > 0 : quarters_worth(flow, env, map, &w, rows);
    double grows = growth(&w, halves && open);
    chosen = chosen && grows <= weights->left;
    if (!recipe_decide(env, "algorithm", map->name, words, chosen)) return false;
    weights->left -= grows;
    if (open && !least) least = QUARTERS_LEAST; /* as a recipe wants it */
    bool choice = open && !always_many(flow, w.cut[ROWS].extent, least);
    const Some *const *some = choice && !halves ? apart : together;
    int sums[2], n = choice && !halves ? 2 : 1;
    for (int i = 0; i < n; i++) sums[i] = weights_map(&w, some[i]);
    int r = rows_map(&w);
    if (!choice) {
        many_maps(&w, some, sums, n, r);
        return true;
    }
    by->item = choice_of_rows(flow, w.cut[ROWS].extent, least, map->from);
    w.as.into = &by->item.body;
    many_maps(&w, some, sums, n, r);
    w.as.into = &by->item.other;
    if (halves)
        halves_given(&w, by);
    else
        few_map(&w, halves_map(&w), sums[0], by);
    return true;
}
