/* SPDX-License-Identifier: Apache-2.0 */
/* RNN, GRU, LSTM.
 *
 * The products with the inputs of all steps are one map before the loop. A step is a map for the
 * product with the last state and one for the gates, which writes the next state and the output. A
 * state is an array over steps, [T+1,N,H]; `place` keeps as many entries as are read.
 *
 * The reverse direction counts steps from the end. With sequence_lens each sequence of the batch
 * ends at its own length: later steps keep the state, outputs beyond it are 0, and the reverse
 * direction starts at the sequence's own last element.
 *
 * DynamicQuantizeLSTM is an LSTM here (contrib_quant.c) with the attribute `quantize_state`: each
 * step rounds the state that its product takes to codes of 8 bits, each sequence by its own range.
 */
#include "recurrent.h"

#include <string.h>

/* ---- attributes ------------------------------------------------------------------------------ */

typedef struct Activation {
    const char *name, *text; /* %s are alpha and beta */
    int params;
    float alpha, beta;
} Activation;

static const Activation activations[] = {
    {"Sigmoid", "sigmoid($0)", 0, 0, 0},
    {"Tanh", "tanh($0)", 0, 0, 0},
    {"Relu", "max($0, 0)", 0, 0, 0},
    {"Softsign", "$0 / (1 + abs($0))", 0, 0, 0},
    {"Softplus", "softplus($0)", 0, 0, 0},
    {"LeakyRelu", "select($0 >= 0, $0, %s * $0)", 1, 0.01f, 0},
    {"ThresholdedRelu", "select($0 > %s, $0, 0)", 1, 1, 0},
    {"Elu", "select($0 >= 0, $0, %s * expm1($0))", 1, 1, 0},
    {"Affine", "%s * $0 + %s", 2, 1, 0},
    {"ScaledTanh", "%s * tanh(%s * $0)", 2, 1, 1},
    {"HardSigmoid", "min(max(%s * $0 + %s, 0), 1)", 2, 0.2f, 0.5f},
};

static const Activation *activation_find(Ctx *ctx, const char *name) {
    int n = sizeof activations / sizeof *activations;
    for (int i = 0; i < n; i++)
        if (!strcasecmp(activations[i].name, name)) return &activations[i];
    fail(ctx, E_ATTRIBUTE,
         "attribute \"activations\" names \"%s\": use Sigmoid, Tanh, Relu, Softsign, Softplus, "
         "LeakyRelu, ThresholdedRelu, Elu, Affine, ScaledTanh or HardSigmoid",
         name);
}

static const Attr *list_attr(Ctx *ctx, const Node *node, const char *name, AttrKind kind) {
    const Attr *a = node_attr(node, name);
    if (a && a->kind != kind)
        fail(ctx, E_ATTRIBUTE, "attribute \"%s\" is not a list as it must be", name);
    return a;
}

/* Parameters are listed for those activations that take them, in order. */
static const char *activation_text(Lower *lo, const char *name, int *alphas, int *betas) {
    const Activation *a = activation_find(lo->ctx, name);
    const Attr *alpha = list_attr(lo->ctx, lo->node, "activation_alpha", ATTR_FLOATS);
    const Attr *beta = list_attr(lo->ctx, lo->node, "activation_beta", ATTR_FLOATS);
    float first = a->alpha, second = a->beta;
    if (a->params > 0 && alpha && *alphas < alpha->n) first = alpha->floats[(*alphas)++];
    if (a->params > 1 && beta && *betas < beta->n) second = beta->floats[(*betas)++];
    const char *x = nn_lit(lo, first), *y = nn_lit(lo, second), *text = a->text;
    if (a->params == 0) return text;
    const char *hole = strstr(text, "%s"), *next = strstr(hole + 2, "%s");
    const char *done = internf(lo->ctx, "%.*s%s", (int)(hole - text), text, x);
    if (!next) return internf(lo->ctx, "%s%s", done, hole + 2);
    return internf(lo->ctx, "%s%.*s%s%s", done, (int)(next - hole - 2), hole + 2, y, next + 2);
}

static void read_activations(Lower *lo, Rnn *r, const char *const *usual) {
    const Attr *names = list_attr(lo->ctx, lo->node, "activations", ATTR_STRINGS);
    int n = r->kept * r->dirs, alphas = 0, betas = 0;
    if (names && names->n != n)
        fail(lo->ctx, E_ATTRIBUTE,
             "attribute \"activations\" has %d names: it needs %d, for each direction %d", names->n,
             n, r->kept);
    for (int i = 0; i < n; i++) {
        const char *name = usual[i % r->kept];
        if (names) name = intern_n(lo->ctx, names->strings[i], (size_t)names->string_bytes[i]);
        r->act[i] = activation_text(lo, name, &alphas, &betas);
    }
}

static int direction_count(Ctx *ctx, const Node *node) {
    const char *name = attr_string(ctx, node, "direction", "forward");
    if (!strcmp(name, "bidirectional")) return 2;
    if (strcmp(name, "forward") != 0 && strcmp(name, "reverse") != 0)
        fail(ctx, E_ATTRIBUTE,
             "attribute \"direction\" is \"%s\": use forward, reverse or bidirectional", name);
    return 1;
}

/* ---- type rule ------------------------------------------------------------------------------- */

/* Bias, lengths, initial states and peepholes, where they are given. */
static void check_state(const Infer *in, int gates, Dim dirs, Dim batch, Dim hidden,
                        bool batch_first) {
    Ctx *ctx = in->ctx;
    const char *rule = "the shape must follow from the directions, the batch and the hidden size";
    Dim bias[] = {dirs, dim_mulc(ctx, hidden, 2 * gates)},
        peephole[] = {dirs, dim_mulc(ctx, hidden, 3)};
    Dim state[] = {batch_first ? batch : dirs, batch_first ? dirs : batch, hidden};
    const struct {
        int operand, rank;
        const Dim *shape;
    } all[] = {
        {W_B, 2, bias}, {W_LENS, 1, &batch}, {W_H, 3, state}, {W_C, 3, state}, {W_P, 2, peephole}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        if (!infer_in(in, all[i].operand)) continue;
        const Type *t = nn_ranked(in, all[i].operand, all[i].rank, all[i].rank);
        for (int k = 0; k < t->rank; k++)
            nn_agree(in, t->shape[k], all[i].shape[k], 0, all[i].operand, rule);
    }
}

void rnn_infer(Infer *in, int gates, Dim more) {
    const Type *x = nn_ranked(in, 0, 3, 3), *w = nn_ranked(in, 1, 3, 3),
               *r = nn_ranked(in, 2, 3, 3);
    Ctx *ctx = in->ctx;
    bool batch_first = attr_int(ctx, in->node, "layout", 0) != 0;
    Dim dirs = dim_const(ctx, direction_count(ctx, in->node)), hidden = r->shape[2];
    Dim steps = x->shape[batch_first ? 1 : 0], batch = x->shape[batch_first ? 0 : 1];
    int64_t told = attr_int(ctx, in->node, "hidden_size", 0), columns;
    if (node_attr(in->node, "hidden_size") &&
        (told < 1 || (dim_is_const(hidden, &columns) && columns != told)))
        fail(ctx, E_ATTRIBUTE,
             "attribute \"hidden_size\" is %lld: it must be the last extent of \"%s\", %s",
             (long long)told, infer_in(in, 2)->name, dim_str(ctx, hidden));
    infer_same(in, 0, 1);
    infer_same(in, 0, 2);
    nn_agree(in, w->shape[0], dirs, 1, 1, "its dim 0 must be the number of directions");
    nn_agree(in, r->shape[0], dirs, 2, 2, "its dim 0 must be the number of directions");
    nn_agree(in, dim_add(ctx, x->shape[2], more), w->shape[2], 0, 1,
             "both must have the same last extent, the input size");
    nn_agree(in, r->shape[1], dim_mulc(ctx, hidden, gates), 2, 2,
             "its dim 1 must be its last extent, the hidden size, for each gate");
    nn_agree(in, w->shape[1], r->shape[1], 1, 2,
             "both must have the same dim 1, the hidden size for each gate");
    check_state(in, gates, dirs, batch, hidden, batch_first);
    Dim y[] = {steps, dirs, batch, hidden}, last[] = {dirs, batch, hidden};
    if (batch_first) {
        y[0] = batch, y[1] = steps, y[2] = dirs;
        last[0] = batch, last[1] = dirs;
    }
    infer_set(in, 0, x->dtype, y, 4);
    infer_set(in, 1, x->dtype, last, 3);
    infer_set(in, 2, x->dtype, last, 3);
}

static void simple_infer(Infer *in) {
    rnn_infer(in, 1, dim_const(in->ctx, 0));
}
static void gru_infer(Infer *in) {
    rnn_infer(in, 3, dim_const(in->ctx, 0));
}
static void lstm_infer(Infer *in) {
    rnn_infer(in, 4, dim_const(in->ctx, 0));
}

/* ---- parts ----------------------------------------------------------------------------------- */

Rnn rnn_open(Lower *lo, int gates, int kept, const char *const *usual) {
    Rnn r = {.gates = gates, .kept = kept, .dirs = direction_count(lo->ctx, lo->node)};
    for (int i = 0; i < 8; i++) r.in[i] = lower_in(lo, i);
    r.batch_first = nn_int(lo, "layout", 0) != 0;
    r.codes = nn_int(lo, "quantize_state", 0) != 0;
    Shape x = nn_shape(lo, r.in[W_X]);
    r.T = x.at[r.batch_first ? 1 : 0], r.N = x.at[r.batch_first ? 0 : 1], r.I = x.at[2];
    r.H = nn_shape(lo, r.in[W_R]).at[2];
    r.t = dtype_compute(nn_cont(lo, r.in[W_X])->type);
    read_activations(lo, &r, usual);
    return r;
}

/* The product of all inputs with the direction's weights: gx[t,n,u]. */
static void input_product(Lower *lo, Cell *c) {
    const Rnn *r = c->rnn;
    Dim shape[] = {r->T, r->N, dim_mulc(lo->ctx, r->H, r->gates)}, at[3],
        dir = dim_const(lo->ctx, c->dir);
    c->gx = lower_tmp(lo, "gx", r->t, shape, 3);
    Map *m = lower_map(lo, "gx");
    nn_dims(lo, m, "snu", shape, 3, at);
    Dim k = nn_dim(lo, m, "k", r->I);
    Dim x[] = {r->batch_first ? at[1] : at[0], r->batch_first ? at[0] : at[1], k},
        w[] = {dir, at[2], k};
    int a = nn_read(lo, m, r->in[W_X], x), b = nn_read(lo, m, r->in[W_W], w);
    nn_reduce(lo, m, c->gx, at, EXPR(m, "$0 * $1", a, b), "sum");
}

int rnn_state(Lower *lo, const Cell *c, const char *name, Dim width, int init) {
    const Rnn *r = c->rnn;
    Dim shape[] = {dim_addc(lo->ctx, r->T, 1), r->N, width}, at[3] = {dim_const(lo->ctx, 0)};
    int s = lower_tmp(lo, name, r->t, shape, 3);
    lo->flow->cont.at[s].kind = CONT_STATE;
    Map *m = lower_map(lo, internf(lo->ctx, "%s0", name));
    nn_dims(lo, m, "nj", shape + 1, 2, at + 1);
    Dim dir = dim_const(lo->ctx, c->dir);
    Dim from[] = {r->batch_first ? at[1] : dir, r->batch_first ? dir : at[1], at[2]};
    int none = body_const(&m->body, r->t, 0);
    nn_write(lo, m, s, at, init < 0 ? none : nn_read(lo, m, init, from));
    return s;
}

/* The state [N,H] of this step, rounded to codes. */
static int state_codes(Lower *lo, const Cell *c) {
    Dim shape[] = {c->rnn->N, c->rnn->H}, at[3] = {c->t};
    int last = lower_tmp(lo, "last", c->rnn->t, shape, 2);
    Map *m = lower_map(lo, "last");
    nn_dims(lo, m, "nj", shape, 2, at + 1);
    nn_write(lo, m, last, at + 1, nn_read(lo, m, c->h, at));
    return nn_row_codes(lo, last);
}

/* gh[n,g,j] = sum over k of from[n,k] * R[dir, gate first + g of j, k] for `gates` gates: a dim of
 * its own, so that one tile has the same units of all gates. */
static int state_product(Lower *lo, const Cell *c, const char *name, int from, int first,
                         int gates) {
    const Rnn *r = c->rnn;
    Dim shape[] = {r->N, dim_const(lo->ctx, gates), r->H}, at[3];
    int to = lower_tmp(lo, name, r->t, shape, 3);
    Map *m = lower_map(lo, name);
    nn_dims(lo, m, "ngj", shape, 3, at);
    Dim k = nn_dim(lo, m, "k", r->H), gate = dim_addc(lo->ctx, at[1], first),
        u = dim_add(lo->ctx, dim_mul(lo->ctx, r->H, gate), at[2]);
    Dim w[] = {dim_const(lo->ctx, c->dir), u, k}, state[] = {c->t, at[0], k};
    int a = nn_read(lo, m, from, from == c->h ? state : state + 1),
        b = nn_read(lo, m, r->in[W_R], w);
    nn_reduce(lo, m, to, at, EXPR(m, "$0 * $1", a, b), "sum");
    return to;
}

/* A map over n and j; knows which element of the sequence this step takes. */
static void gates_open(Lower *lo, Cell *c, const char *name) {
    Ctx *ctx = lo->ctx;
    const Rnn *r = c->rnn;
    int lens = r->in[W_LENS];
    c->m = lower_map(lo, name);
    c->n = nn_dim(lo, c->m, "n", r->N);
    c->j = nn_dim(lo, c->m, "j", r->H);
    c->at = -1;
    c->from = c->reverse ? dim_sub(ctx, dim_addc(ctx, r->T, -1), c->t) : c->t;
    if (lens < 0) return;
    int len = nn_read_as(lo, c->m, lens, &c->n, I64), t = body_index(&c->m->body, c->t);
    c->at = EXPR(c->m, "$0 < $1", t, len);
    if (c->reverse)
        c->from = body_symbol(&c->m->body, EXPR(c->m, "max($0 - 1 - $1, 0)", len, t), "at");
}

static Dim gate_index(Lower *lo, const Cell *c, int gate) {
    return dim_add(lo->ctx, dim_mulc(lo->ctx, c->rnn->H, gate), c->j);
}

/* Bias of gate `gate` of all 2 * gates (inputs' first). */
static int add_bias(Lower *lo, const Cell *c, int gate, int val) {
    Dim at[] = {dim_const(lo->ctx, c->dir), gate_index(lo, c, gate)};
    int b = c->rnn->in[W_B];
    return b < 0 ? val : EXPR(c->m, "$0 + $1", val, nn_read(lo, c->m, b, at));
}

static int input_part(Lower *lo, const Cell *c, int gate) {
    Dim at[] = {c->from, c->n, gate_index(lo, c, gate)};
    return add_bias(lo, c, gate, nn_read(lo, c->m, c->gx, at));
}

/* From container gh, whose gate 0 is gate `first` of the operator. */
static int state_part(Lower *lo, const Cell *c, int gh, int first, int gate) {
    Dim at[] = {c->n, dim_const(lo->ctx, gate - first), c->j};
    int val = nn_read(lo, c->m, gh, at);
    if (c->more >= 0) val = EXPR(c->m, "$0 + $1", val, nn_read(lo, c->m, c->more, at));
    return add_bias(lo, c, c->rnn->gates + gate, val);
}

static int clip(Lower *lo, const Cell *c, int val) {
    const Attr *a = node_attr(lo->node, "clip");
    float bound = nn_float(lo, "clip", 0);
    const char *b = nn_lit(lo, bound);
    if (!a || bound <= 0) return val;
    return EXPR(c->m, internf(lo->ctx, "min(max($0, -%s), %s)", b, b), val);
}

static int activate(const Cell *c, int which, int val) {
    return EXPR(c->m, c->rnn->act[c->dir * c->rnn->kept + which], val);
}

static int state_read(Lower *lo, const Cell *c, int state) {
    return nn_read(lo, c->m, state, (Dim[]){c->t, c->n, c->j});
}

/* Writes the next entry of a state: beyond the sequence's end it stays. Returns what was written.
 */
static int state_write(Lower *lo, const Cell *c, int state, int val) {
    Dim at[] = {dim_addc(lo->ctx, c->t, 1), c->n, c->j};
    if (c->at >= 0) val = EXPR(c->m, "select($0, $1, $2)", c->at, val, state_read(lo, c, state));
    nn_write(lo, c->m, state, at, val);
    return val;
}

/* Result Y at element `from` of the sequence. */
static void result_write(Lower *lo, const Cell *c, Map *m, Dim from, Dim n, Dim j, int val) {
    Dim dir = dim_const(lo->ctx, c->dir), at[] = {from, dir, n, j}, first[] = {n, from, dir, j};
    nn_write(lo, m, lower_out(lo, 0), c->rnn->batch_first ? first : at, val);
}

/* In the loop: Y of this step, where its place does not depend on data. */
static void output_step(Lower *lo, const Cell *c, int val) {
    if (lower_out(lo, 0) < 0 || (c->at >= 0 && c->reverse)) return;
    if (c->at >= 0) val = EXPR(c->m, "select($0, $1, 0)", c->at, val);
    result_write(lo, c, c->m, c->from, c->n, c->j, val);
}

/* After the loop: Y of the reverse direction with lengths; element s was step len-1-s. */
static void output_gather(Lower *lo, const Cell *c) {
    const Rnn *r = c->rnn;
    if (lower_out(lo, 0) < 0 || c->at < 0 || !c->reverse) return;
    Map *m = lower_map(lo, "turn");
    Dim shape[] = {r->T, r->N, r->H}, at[3];
    nn_dims(lo, m, "snj", shape, 3, at);
    int len = nn_read_as(lo, m, r->in[W_LENS], &at[1], I64), s = body_index(&m->body, at[0]);
    Dim step = body_symbol(&m->body, EXPR(m, "max($0 - $1, 0)", len, s), "at");
    int val = nn_read(lo, m, c->h, (Dim[]){step, at[1], at[2]});
    result_write(lo, c, m, at[0], at[1], at[2], EXPR(m, "select($0 < $1, $2, 0)", s, len, val));
}

/* Results Y_h, Y_c: the last entry of a state. */
static void output_last(Lower *lo, const Cell *c, const char *name, int state, int result) {
    const Rnn *r = c->rnn;
    int y = lower_out(lo, result);
    if (y < 0) return;
    Map *m = lower_map(lo, name);
    Dim n = nn_dim(lo, m, "n", r->N), j = nn_dim(lo, m, "j", r->H),
        dir = dim_const(lo->ctx, c->dir);
    Dim at[] = {dir, n, j}, first[] = {n, dir, j};
    nn_write(lo, m, y, r->batch_first ? first : at, nn_read(lo, m, state, (Dim[]){r->T, n, j}));
}

/* ---- the three cells ------------------------------------------------------------------------- */

void rnn_lower(Lower *lo, Rnn r, bool has_cell, CellFn *open, CellFn *step) {
    const char *direction = attr_string(lo->ctx, lo->node, "direction", "forward");
    for (int d = 0; d < r.dirs; d++) {
        Cell c = {.rnn = &r, .dir = d, .c = -1, .more = -1};
        c.reverse = d == 1 || !strcmp(direction, "reverse");
        input_product(lo, &c);
        c.h = rnn_state(lo, &c, "h", r.H, r.in[W_H]);
        if (has_cell) c.c = rnn_state(lo, &c, "c", r.H, r.in[W_C]);
        if (open) open(lo, &c);
        Items *into = lo->into;
        Item *loop = nn_loop(lo, NULL, r.T);
        c.t = loop->var;
        lo->into = &loop->body;
        step(lo, &c);
        lo->into = into;
        output_gather(lo, &c);
        output_last(lo, &c, "last", c.h, 1);
        if (has_cell) output_last(lo, &c, "last_c", c.c, 2);
    }
}

static void simple_step(Lower *lo, Cell *c) {
    int gh = state_product(lo, c, "gh", c->h, 0, 1);
    gates_open(lo, c, "step");
    int a = EXPR(c->m, "$0 + $1", input_part(lo, c, 0), state_part(lo, c, gh, 0, 0));
    output_step(lo, c, state_write(lo, c, c->h, activate(c, 0, clip(lo, c, a))));
}

/* Gates z, r, h. */
static int gru_gate(Lower *lo, Cell *c, int gh, int gate) {
    int a = EXPR(c->m, "$0 + $1", input_part(lo, c, gate), state_part(lo, c, gh, 0, gate));
    return activate(c, 0, clip(lo, c, a));
}

static void gru_finish(Lower *lo, Cell *c, int z, int candidate) {
    int h = activate(c, 1, clip(lo, c, candidate)), old = state_read(lo, c, c->h);
    int val = EXPR(c->m, "(1 - $0) * $1 + $0 * $2", z, h, old);
    output_step(lo, c, state_write(lo, c, c->h, val));
}

/* The reset gate scales the product with the state: everything is known after one product. */
static void gru_after_step(Lower *lo, Cell *c) {
    int gh = state_product(lo, c, "gh", c->h, 0, 3);
    gates_open(lo, c, "step");
    int z = gru_gate(lo, c, gh, 0), r = gru_gate(lo, c, gh, 1);
    int h = EXPR(c->m, "$0 + $1 * $2", input_part(lo, c, 2), r, state_part(lo, c, gh, 0, 2));
    gru_finish(lo, c, z, h);
}

/* The reset gate scales the state before its product: two products a step. Both gates are taken
 * where the first one ends. */
static void gru_before_step(Lower *lo, Cell *c) {
    const Rnn *r = c->rnn;
    Dim shape[] = {r->N, r->H};
    int gh = state_product(lo, c, "gh", c->h, 0, 2);
    int reset = lower_tmp(lo, "reset", r->t, shape, 2), z = lower_tmp(lo, "z", r->t, shape, 2);
    gates_open(lo, c, "reset");
    Dim first[] = {c->n, c->j};
    int scaled = EXPR(c->m, "$0 * $1", gru_gate(lo, c, gh, 1), state_read(lo, c, c->h));
    nn_write(lo, c->m, reset, first, scaled);
    nn_write(lo, c->m, z, first, gru_gate(lo, c, gh, 0));
    int gc = state_product(lo, c, "gc", reset, 2, 1);
    gates_open(lo, c, "step");
    int h = EXPR(c->m, "$0 + $1", input_part(lo, c, 2), state_part(lo, c, gc, 2, 2));
    gru_finish(lo, c, nn_read(lo, c->m, z, (Dim[]){c->n, c->j}), h);
}

/* Gates i, o, f, c; peepholes i, o, f. */
static int lstm_gate(Lower *lo, Cell *c, int gate, int peephole, int cell) {
    int a = EXPR(c->m, "$0 + $1", input_part(lo, c, gate), state_part(lo, c, c->gh, 0, gate));
    if (peephole >= 0 && c->rnn->in[W_P] >= 0) {
        Dim at[] = {dim_const(lo->ctx, c->dir), gate_index(lo, c, peephole)};
        a = EXPR(c->m, "$0 + $1 * $2", a, nn_read(lo, c->m, c->rnn->in[W_P], at), cell);
    }
    return activate(c, gate == 3 ? 1 : 0, clip(lo, c, a));
}

void lstm_step(Lower *lo, Cell *c) {
    int from = c->rnn->codes ? state_codes(lo, c) : c->h;
    c->gh = state_product(lo, c, "gh", from, 0, 4);
    gates_open(lo, c, "step");
    int old = state_read(lo, c, c->c);
    int i = lstm_gate(lo, c, 0, 0, old), z = lstm_gate(lo, c, 3, -1, -1);
    int f = nn_int(lo, "input_forget", 0) ? EXPR(c->m, "1 - $0", i) : lstm_gate(lo, c, 2, 2, old);
    int cell = EXPR(c->m, "$0 * $1 + $2 * $3", f, old, i, z);
    int o = lstm_gate(lo, c, 1, 1, cell);
    int h = EXPR(c->m, "$0 * $1", o, activate(c, 2, cell));
    state_write(lo, c, c->c, cell);
    output_step(lo, c, state_write(lo, c, c->h, h));
}

static void simple_lower(Lower *lo) {
    static const char *const usual[] = {"Tanh"};
    rnn_lower(lo, rnn_open(lo, 1, 1, usual), false, NULL, simple_step);
}

static void gru_lower(Lower *lo) {
    static const char *const usual[] = {"Sigmoid", "Tanh"};
    bool after = nn_int(lo, "linear_before_reset", 0) != 0;
    rnn_lower(lo, rnn_open(lo, 3, 2, usual), false, NULL, after ? gru_after_step : gru_before_step);
}

const char *const lstm_usual[] = {"Sigmoid", "Tanh", "Tanh"};

static void lstm_lower(Lower *lo) {
    rnn_lower(lo, rnn_open(lo, 4, 3, lstm_usual), true, NULL, lstm_step);
}

const OpRow onnx_recurrent_rows[] = {
    {"", "RNN", 1, 0, simple_infer, simple_lower, NULL, T_FLOATS, 0},
    {"", "GRU", 1, 0, gru_infer, gru_lower, NULL, T_FLOATS, 0},
    {"", "LSTM", 1, 0, lstm_infer, lstm_lower, NULL, T_FLOATS, 0},
    {0},
};
