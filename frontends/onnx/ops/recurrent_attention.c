/* SPDX-License-Identifier: Apache-2.0 */
/* AttnLSTM of com.microsoft: an LSTM whose inputs have, behind them, what the step before attended
 * to in a memory [N,S,D] (D. Bahdanau et al., 2014).
 *
 * keys = memory MW are one map before the loop. After a step of the LSTM, score[n,s] = V tanh(keys
 * + h QW), its softmax over the memory's own length weighs the memory, and that, or its product and
 * the state's with AW, is what the next step gets. */
#include "recurrent.h"

#include <math.h>

enum { A_QUERY = 8, A_KEY, A_SCORE, A_MEMORY, A_LENS, A_OUT };

/* ---- type rule ------------------------------------------------------------------------------- */

static void attention_infer(Infer *in) {
    const char *rule = "the shape must follow from the directions, the hidden size and the memory";
    for (int i = A_QUERY; i <= A_MEMORY; i++)
        nn_ranked(in, i, i == A_SCORE ? 2 : 3, i == A_SCORE ? 2 : 3);
    const Type *r = nn_ranked(in, 2, 3, 3), *key = nn_ranked(in, A_KEY, 3, 3),
               *memory = nn_ranked(in, A_MEMORY, 3, 3);
    Dim dirs = r->shape[0], hidden = r->shape[2], size = key->shape[2], depth = memory->shape[2],
        batch = nn_ranked(in, 0, 3, 3)->shape[1], out = depth;
    if (infer_in(in, A_OUT)) out = nn_ranked(in, A_OUT, 3, 3)->shape[2];
    const struct {
        int operand, rank;
        Dim shape[3];
    } all[] = {{A_QUERY, 3, {dirs, hidden, size}},
               {A_KEY, 3, {dirs, depth, size}},
               {A_SCORE, 2, {dirs, size}},
               {A_MEMORY, 3, {batch, memory->shape[1], depth}},
               {A_LENS, 1, {batch}},
               {A_OUT, 3, {dirs, dim_add(in->ctx, depth, hidden), out}}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        if (!infer_in(in, all[i].operand)) continue;
        const Type *t = nn_ranked(in, all[i].operand, all[i].rank, all[i].rank);
        for (int k = 0; k < t->rank; k++)
            nn_agree(in, t->shape[k], all[i].shape[k], A_MEMORY, all[i].operand, rule);
    }
    rnn_infer(in, 4, out);
}

/* ---- lowering -------------------------------------------------------------------------------- */

typedef struct Sum {
    Map *m;
    Dim at[4]; /* of the result */
} Sum;

/* A temporary with a map over it. */
static int sum_open(Lower *lo, Sum *s, const Cell *c, const char *name, const char *dims, int rank,
                    const Dim *shape) {
    int to = lower_tmp(lo, name, c->rnn->t, shape, rank);
    s->m = lower_map(lo, name);
    nn_dims(lo, s->m, dims, shape, rank, s->at);
    return to;
}

static int product(Lower *lo, Map *m, int a, const Dim *at, int b, const Dim *from) {
    return EXPR(m, "$0 * $1", nn_read(lo, m, a, at), nn_read(lo, m, b, from));
}

static void attention_open(Lower *lo, Cell *c) {
    Sum s;
    int memory = lower_in(lo, A_MEMORY), key = lower_in(lo, A_KEY);
    Shape m = nn_shape(lo, memory), w = nn_shape(lo, key);
    Dim shape[] = {m.at[0], m.at[1], w.at[2]}, dir = dim_const(lo->ctx, c->dir);
    c->keys = sum_open(lo, &s, c, "keys", "nsq", 3, shape);
    Dim k = nn_dim(lo, s.m, "k", m.at[2]);
    int val = product(lo, s.m, memory, (Dim[]){s.at[0], s.at[1], k}, key, (Dim[]){dir, k, s.at[2]});
    nn_reduce(lo, s.m, c->keys, s.at, val, "sum");
    Dim width = lower_in(lo, A_OUT) < 0 ? m.at[2] : nn_shape(lo, lower_in(lo, A_OUT)).at[2];
    c->attended = rnn_state(lo, c, "attended", width, -1);
}

/* The product of what was attended to with the last columns of the inputs' weights: [N,4,H]. */
static int attended_product(Lower *lo, const Cell *c) {
    Sum s;
    const Rnn *r = c->rnn;
    Dim shape[] = {r->N, dim_const(lo->ctx, r->gates), r->H};
    int to = sum_open(lo, &s, c, "ga", "ngj", 3, shape);
    Dim k = nn_dim(lo, s.m, "k", nn_shape(lo, c->attended).at[2]),
        u = dim_add(lo->ctx, dim_mul(lo->ctx, r->H, s.at[1]), s.at[2]);
    Dim w[] = {dim_const(lo->ctx, c->dir), u, dim_add(lo->ctx, r->I, k)};
    int val = product(lo, s.m, c->attended, (Dim[]){c->t, s.at[0], k}, r->in[W_W], w);
    nn_reduce(lo, s.m, to, s.at, val, "sum");
    return to;
}

/* The new state times operand i, [N,columns]. */
static int state_times(Lower *lo, const Cell *c, const char *name, int i) {
    Sum s;
    const Rnn *r = c->rnn;
    int w = lower_in(lo, i);
    Dim shape[] = {r->N, nn_shape(lo, w).at[2]}, next = dim_addc(lo->ctx, c->t, 1);
    int to = sum_open(lo, &s, c, name, "nq", 2, shape);
    Dim k = nn_dim(lo, s.m, "k", r->H), dir = dim_const(lo->ctx, c->dir);
    int val = product(lo, s.m, c->h, (Dim[]){next, s.at[0], k}, w, (Dim[]){dir, k, s.at[1]});
    nn_reduce(lo, s.m, to, s.at, val, "sum");
    return to;
}

/* Scores [N,S], -inf behind the memory's length. */
static int scores(Lower *lo, const Cell *c) {
    Sum s, t;
    int query = state_times(lo, c, "query", A_QUERY), v = lower_in(lo, A_SCORE),
        lens = lower_in(lo, A_LENS);
    Shape keys = nn_shape(lo, c->keys);
    int all = sum_open(lo, &s, c, "energy", "ns", 2, keys.at);
    Dim q = nn_dim(lo, s.m, "q", keys.at[2]), dir = dim_const(lo->ctx, c->dir);
    int key = nn_read(lo, s.m, c->keys, (Dim[]){s.at[0], s.at[1], q}),
        own = nn_read(lo, s.m, query, (Dim[]){s.at[0], q}),
        by = nn_read(lo, s.m, v, (Dim[]){dir, q});
    nn_reduce(lo, s.m, all, s.at, EXPR(s.m, "tanh($0 + $1) * $2", key, own, by), "sum");
    if (lens < 0) return all;
    int to = sum_open(lo, &t, c, "seen", "ns", 2, keys.at);
    int len = nn_read_as(lo, t.m, lens, t.at, I64), place = body_index(&t.m->body, t.at[1]);
    int val = nn_read(lo, t.m, all, t.at);
    nn_write(lo, t.m, to, t.at, EXPR(t.m, "select($0 < $1, $2, -inf)", place, len, val));
    return to;
}

/* Of the rows of x [N,S]: their maxima, or sums of exp(x - maxima): [N]. */
static int row_fold(Lower *lo, const Cell *c, int x, int most) {
    Sum s;
    Shape shape = nn_shape(lo, x);
    int to = sum_open(lo, &s, c, most < 0 ? "most" : "total", "n", 1, shape.at);
    Dim at[] = {s.at[0], nn_dim(lo, s.m, "s", shape.at[1])};
    int val = nn_read(lo, s.m, x, at);
    if (most >= 0) val = EXPR(s.m, "exp($0 - $1)", val, nn_read(lo, s.m, most, s.at));
    nn_reduce(lo, s.m, to, s.at, val, most < 0 ? "max" : "sum");
    return to;
}

/* The memory [N,D], weighed by the softmax of scores. Behind its length it is not looked at. */
static int context(Lower *lo, const Cell *c, int score) {
    Sum s;
    int memory = lower_in(lo, A_MEMORY), most = row_fold(lo, c, score, -1),
        total = row_fold(lo, c, score, most);
    Shape m = nn_shape(lo, memory);
    int to = sum_open(lo, &s, c, "context", "nd", 2, (Dim[]){m.at[0], m.at[2]});
    Dim place = nn_dim(lo, s.m, "s", m.at[1]), at[] = {s.at[0], place};
    int x = nn_read(lo, s.m, score, at), top = nn_read(lo, s.m, most, s.at),
        sum = nn_read(lo, s.m, total, s.at),
        val = nn_read(lo, s.m, memory, (Dim[]){s.at[0], place, s.at[1]});
    val = EXPR(s.m, "select($0 == -inf, 0, exp($0 - $1) / $2 * $3)", x, top, sum, val);
    nn_reduce(lo, s.m, to, s.at, val, "sum");
    return to;
}

/* Operand AW has the state's rows, then the context's. */
static int mixed(Lower *lo, const Cell *c, int from) {
    Sum s;
    int w = lower_in(lo, A_OUT), own = state_times(lo, c, "own", A_OUT);
    Dim shape[] = {c->rnn->N, nn_shape(lo, w).at[2]}, dir = dim_const(lo->ctx, c->dir);
    int to = sum_open(lo, &s, c, "far", "na", 2, shape);
    Dim k = nn_dim(lo, s.m, "k", nn_shape(lo, from).at[1]);
    Dim row[] = {dir, dim_add(lo->ctx, c->rnn->H, k), s.at[1]};
    int val = product(lo, s.m, from, (Dim[]){s.at[0], k}, w, row);
    nn_reduce(lo, s.m, to, s.at, val, "sum");
    int sum = lower_tmp(lo, "mixed", c->rnn->t, shape, 2);
    lower_pointwise(lo, "mixed", "$0 + $1", (int[]){own, to}, 2, sum);
    return sum;
}

static void attention_step(Lower *lo, Cell *c) {
    Dim at[3] = {dim_addc(lo->ctx, c->t, 1)};
    c->more = attended_product(lo, c);
    lstm_step(lo, c);
    int val = context(lo, c, scores(lo, c));
    if (lower_in(lo, A_OUT) >= 0) val = mixed(lo, c, val);
    Map *m = nn_map_over(lo, "attended", "na", val, at + 1);
    nn_write(lo, m, c->attended, at, nn_read(lo, m, val, at + 1));
}

static void attention_lower(Lower *lo) {
    rnn_lower(lo, rnn_open(lo, 4, 3, lstm_usual), true, attention_open, attention_step);
}

const OpRow onnx_recurrent_attention_rows[] = {
    {"com.microsoft", "AttnLSTM", 1, 0, attention_infer, attention_lower, NULL, "f32 f64", 0},
    {0},
};
