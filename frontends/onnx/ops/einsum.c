/* SPDX-License-Identifier: Apache-2.0 */
/* Einsum: any equation, as products of two operands at a time, left to right.
 *
 * A label is a letter or one of the dims that `...` stands for, counted from the right. Each step
 * is one map over the labels of both operands; those that neither the result nor a later operand
 * names are summed. A label twice in one operand reads its diagonal. */
#include "nn.h"

#include <string.h>

enum { LETTERS = 52, LABELS = LETTERS + RANK_MAX, OPERANDS = 16 };

typedef struct Term {
    int n;
    int label[RANK_MAX];
    int ellipsis; /* where `...` stands, or -1 */
} Term;

typedef struct Equation {
    int n;
    Term in[OPERANDS], out;
    bool has_out;
    Dim extent[LABELS];
    int dots; /* most dims that `...` stands for */
} Equation;

static _Noreturn void bad_equation(Ctx *ctx, const char *text, const char *why) {
    fail(ctx, E_ATTRIBUTE, "attribute \"equation\" is \"%s\": %s", text, why);
}

static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/* Reads one term from *at on; leaves *at behind it. */
static Term read_term(Ctx *ctx, const char *text, const char **at) {
    Term t = {.ellipsis = -1};
    for (; **at && **at != ',' && **at != '-'; (*at)++) {
        const char *letter = strchr(letters, **at);
        if (**at == ' ') continue;
        if (!strncmp(*at, "...", 3)) {
            if (t.ellipsis >= 0) bad_equation(ctx, text, "a term has \"...\" twice: drop one");
            t.ellipsis = t.n;
            *at += 2;
            continue;
        }
        if (!letter) bad_equation(ctx, text, "terms hold letters, \"...\" and spaces only");
        if (t.n == RANK_MAX) bad_equation(ctx, text, "a term has more than 16 labels");
        t.label[t.n++] = (int)(letter - letters);
    }
    return t;
}

static Equation read_equation(Ctx *ctx, const Node *node) {
    Equation e = {0};
    const char *text = attr_string(ctx, node, "equation", NULL), *at = text;
    if (!text) fail(ctx, E_ATTRIBUTE, "attribute \"equation\" is missing: the operator needs it");
    for (;; at++) {
        if (e.n == OPERANDS) bad_equation(ctx, text, "the most is 16 operands");
        e.in[e.n++] = read_term(ctx, text, &at);
        if (*at != ',') break;
    }
    e.has_out = at[0] == '-' && at[1] == '>';
    if (*at && !e.has_out) bad_equation(ctx, text, "\"->\" separates operands and result");
    if (e.has_out) at += 2, e.out = read_term(ctx, text, &at);
    if (*at) bad_equation(ctx, text, "it goes on behind its result: one result is possible");
    if (e.n != node->in.n) bad_equation(ctx, text, "its terms are not as many as the operands");
    return e;
}

/* Puts the labels of `dots` dims where `...` stands. */
static void expand_dots(Ctx *ctx, Term *t, int dots) {
    if (t->ellipsis < 0 || dots == 0) return;
    if (t->n + dots > RANK_MAX) fail(ctx, E_LIMIT, "a term has more than %d dims", RANK_MAX);
    memmove(t->label + t->ellipsis + dots, t->label + t->ellipsis,
            sizeof(int) * (size_t)(t->n - t->ellipsis));
    for (int i = 0; i < dots; i++) t->label[t->ellipsis + i] = LETTERS + dots - 1 - i;
    t->n += dots;
}

/* Without "->": `...`, then the labels that stand once, in the alphabet's order. */
static void implicit_out(Equation *e) {
    int count[LETTERS] = {0};
    for (int k = 0; k < e->n; k++)
        for (int i = 0; i < e->in[k].n; i++)
            if (e->in[k].label[i] < LETTERS) count[e->in[k].label[i]]++;
    e->out.ellipsis = 0;
    for (int i = 0; i < LETTERS && e->out.n < RANK_MAX; i++)
        if (count[i] == 1) e->out.label[e->out.n++] = i;
}

/* Binds labels to extents. shape(user, k) is operand k's. */
static Equation equation_of(Ctx *ctx, const Node *node, const Shape *shape) {
    Equation e = read_equation(ctx, node);
    const char *text = attr_string(ctx, node, "equation", "");
    for (int k = 0; k < e.n; k++) {
        int dots = shape[k].rank - e.in[k].n;
        if (dots < 0 || (dots > 0 && e.in[k].ellipsis < 0))
            fail(ctx, E_SHAPE,
                 "operand %d has rank %d, but its term in \"%s\" names %d dims: make them equal", k,
                 shape[k].rank, text, e.in[k].n);
        expand_dots(ctx, &e.in[k], dots);
        if (dots > e.dots) e.dots = dots;
    }
    if (!e.has_out) implicit_out(&e);
    expand_dots(ctx, &e.out, e.dots);
    for (int k = 0; k < e.n; k++) {
        for (int i = 0; i < e.in[k].n; i++) {
            Dim d = shape[k].at[i], *to = &e.extent[e.in[k].label[i]];
            bool both = *to && dim_is_const(*to, NULL) && dim_is_const(d, NULL);
            if (both && *to != d && !dim_is(*to, 1) && !dim_is(d, 1))
                fail(ctx, E_SHAPE,
                     "dim %d of operand %d is %s, but its label stands for %s elsewhere in \"%s\": "
                     "make them equal",
                     i, k, dim_str(ctx, d), dim_str(ctx, *to), text);
            if (!*to || dim_is(*to, 1) || (dim_is_const(d, NULL) && !dim_is(d, 1))) *to = d;
        }
    }
    for (int i = 0; i < e.out.n; i++)
        if (!e.extent[e.out.label[i]])
            bad_equation(ctx, text, "its result names a label of no operand");
    return e;
}

static void einsum_infer(Infer *in) {
    Shape shape[OPERANDS];
    Dim out[RANK_MAX];
    int n = in->node->in.n < OPERANDS ? in->node->in.n : OPERANDS;
    for (int i = 0; i < n; i++) {
        shape[i] = shape_of(nn_ranked(in, i, 0, RANK_MAX));
        infer_same(in, 0, i);
    }
    Equation e = equation_of(in->ctx, in->node, shape);
    for (int i = 0; i < e.out.n; i++) out[i] = e.extent[e.out.label[i]];
    infer_set(in, 0, infer_tensor(in, 0)->type.dtype, out, e.out.n);
}

static bool term_has(const Term *t, int label) {
    for (int i = 0; i < t->n; i++)
        if (t->label[i] == label) return true;
    return false;
}

static int term_read(Lower *lo, Map *m, int cont, const Term *t, const Dim *sym, DType type) {
    Dim at[RANK_MAX];
    for (int i = 0; i < t->n; i++) at[i] = sym[t->label[i]];
    return nn_read_broadcast(lo, m, cont, at, t->n, type);
}

/* to[t] = sum of a[ta] * b[tb] over the labels that t lacks; b < 0: of a alone. */
static void contract(Lower *lo, const Equation *e, const char *name, int a, const Term *ta, int b,
                     const Term *tb, int to, const Term *t) {
    Map *m = lower_map(lo, name);
    Dim sym[LABELS] = {NULL}, at[RANK_MAX];
    const Term *terms[] = {t, ta, tb};
    DType type = dtype_compute(nn_cont(lo, a)->type);
    for (int k = 0; k < (b < 0 ? 2 : 3); k++) {
        for (int i = 0; i < terms[k]->n; i++) {
            int label = terms[k]->label[i];
            char letter[2] = {label < LETTERS ? letters[label] : 0, 0};
            if (sym[label]) continue;
            sym[label] = nn_dim(lo, m, letter[0] ? letter : "b", e->extent[label]);
        }
    }
    bool sums = false;
    for (int i = 0; i < ta->n; i++) sums = sums || !term_has(t, ta->label[i]);
    for (int i = 0; b >= 0 && i < tb->n; i++) sums = sums || !term_has(t, tb->label[i]);
    int val = term_read(lo, m, a, ta, sym, type);
    if (b >= 0) val = EXPR(m, "$0 * $1", val, term_read(lo, m, b, tb, sym, type));
    for (int i = 0; i < t->n; i++) at[i] = sym[t->label[i]];
    if (sums)
        nn_reduce(lo, m, to, at, val, "sum");
    else
        nn_write(lo, m, to, at, val);
}

/* Labels of the product of `have` and operand k that the result or a later operand needs. */
static Term needed(const Equation *e, const Term *have, int k) {
    Term t = {.ellipsis = -1};
    const Term *from[] = {have, &e->in[k]};
    for (int s = 0; s < 2; s++) {
        for (int i = 0; i < from[s]->n; i++) {
            int label = from[s]->label[i];
            bool need = term_has(&e->out, label);
            for (int later = k + 1; later < e->n; later++)
                need = need || term_has(&e->in[later], label);
            if (need && !term_has(&t, label) && t.n < RANK_MAX) t.label[t.n++] = label;
        }
    }
    return t;
}

static void einsum_lower(Lower *lo) {
    Shape shape[OPERANDS];
    int n = lo->node->in.n, have = lower_in(lo, 0), y = lower_out(lo, 0);
    for (int i = 0; i < n; i++) shape[i] = nn_shape(lo, lower_in(lo, i));
    Equation e = equation_of(lo->ctx, lo->node, shape);
    Term term = e.in[0];
    if (n == 1) contract(lo, &e, NULL, have, &term, -1, NULL, y, &e.out);
    for (int k = 1; k < n; k++) {
        bool last = k == n - 1;
        Term next = last ? e.out : needed(&e, &term, k);
        Dim dims[RANK_MAX];
        for (int i = 0; i < next.n; i++) dims[i] = e.extent[next.label[i]];
        int to = last ? y : nn_tmp(lo, "part", nn_cont(lo, have)->type, dims, next.n);
        contract(lo, &e, last ? NULL : "part", have, &term, lower_in(lo, k), &e.in[k], to, &next);
        have = to, term = next;
    }
}

const OpRow onnx_einsum_rows[] = {
    {"", "Einsum", 12, 0, einsum_infer, einsum_lower, NULL, T_NUMS, 0},
    {0},
};
