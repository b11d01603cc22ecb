/* SPDX-License-Identifier: Apache-2.0 */
/* Operators of the user's own, as text of flows named "domain.Operator".
 *
 * The flow's inputs and outputs are the operands and results: their declarations are the type rule,
 * its maps the lowering. Its symbols stand for any sizes; each must be the whole of some operand's
 * dim. Several flows of one name are alternatives, for other types or ranks: the first that fits is
 * taken. `${name}` in the text is the node's attribute, a number; `${name:0.5}` says the default.
 *
 *     flow com.acme.Swish (N in 0..) {
 *       in x : f32[N]
 *       out y : f32[N]
 *       map y [i:N] { x[i] * sigmoid(x[i] * ${beta:1.0}) -> y[i] }
 *     } */
#include "nn.h"

#include <ctype.h>
#include <string.h>

/* ---- text ------------------------------------------------------------------------------------ */

/* The next flow at or behind `at`: where its word stands; NULL: none. */
static const char *next_flow(const char *at) {
    for (; (at = strstr(at, "flow ")); at++) {
        const char *line = at;
        while (line[-1] == ' ' || line[-1] == '\t') line--;
        if (line[-1] == '\n') return at;
    }
    return NULL;
}

static const char *flow_title(Ctx *ctx, const char *flow) {
    const char *name = flow + 5 + strspn(flow + 5, " \t");
    return intern_n(ctx, name, strcspn(name, " \t({"));
}

static const char *full_name(Ctx *ctx, const OpRow *row) {
    return internf(ctx, "%s.%s", row->domain, row->name);
}

/* The number that stands for `${word}`. */
static void put_attribute(Ctx *ctx, const Node *node, Text *out, const char *word, size_t n) {
    const char *colon = memchr(word, ':', n);
    const char *name = intern_n(ctx, word, colon ? (size_t)(colon - word) : n);
    const Attr *a = node_attr(node, name);
    if (a && a->kind == ATTR_INT)
        text_printf(out, "%lld", (long long)a->i);
    else if (a && a->kind == ATTR_FLOAT)
        text_printf(out, "%a", (double)a->f);
    else if (a)
        fail(ctx, E_ATTRIBUTE, "attribute \"%s\" must be a number: the operator's text uses it",
             name);
    else if (colon)
        text_put_n(out, colon + 1, n - (size_t)(colon + 1 - word));
    else
        fail(ctx, E_ATTRIBUTE, "attribute \"%s\" is missing: the operator's text has no default",
             name);
}

/* One flow of the text, with attributes put in. */
static const char *with_attributes(Ctx *ctx, Arena *arena, const Node *node, const char *at) {
    const char *end = next_flow(at + 1);
    Text out = {.arena = arena};
    size_t left = end ? (size_t)(end - at) : strlen(at);
    while (left) {
        const char *hole = memmem(at, left, "${", 2), *close = NULL;
        if (hole) close = memchr(hole, '}', left - (size_t)(hole - at));
        text_put_n(&out, at, close ? (size_t)(hole - at) : left);
        if (!close) break;
        put_attribute(ctx, node, &out, hole + 2, (size_t)(close - hole - 2));
        left -= (size_t)(close + 1 - at);
        at = close + 1;
    }
    return text_str(&out);
}

/* ---- signatures ------------------------------------------------------------------------------ */

typedef struct Match {
    const Flow *flow;
    VEC(DimSubst) subst;
} Match;

static bool bind_dim(Arena *arena, Match *m, Dim said, Dim given) {
    if (!dim_sym_name(said)) return true; /* looked at when all symbols are known */
    for (int i = 0; i < m->subst.n; i++)
        if (m->subst.at[i].sym == said) return m->subst.at[i].to == given;
    vec_push(arena, &m->subst, (DimSubst){said, given});
    return true;
}

static Dim given_dim(Ctx *ctx, const Match *m, Dim said) {
    return dim_subst(ctx, said, m->subst.at, m->subst.n);
}

/* Do the operands, as many as its inputs, have the types that the flow declares? */
static bool fits(Ctx *ctx, Arena *arena, const Flow *flow, const Type *const *type, Match *m) {
    int k = 0;
    *m = (Match){.flow = flow};
    for (int pass = 0; pass < 2; pass++, k = 0)
        for (int i = 0; i < flow->cont.n; i++) {
            const Cont *c = &flow->cont.at[i];
            if (c->kind != CONT_IN) continue;
            if (type[k]->dtype != c->type || type[k]->rank != c->rank) return false;
            for (int d = 0; d < c->rank; d++) {
                Dim given = type[k]->shape[d];
                if (pass == 0 && !bind_dim(arena, m, c->shape[d], given)) return false;
                if (pass == 1 && given_dim(ctx, m, c->shape[d]) != given) return false;
            }
            k++;
        }
    return true;
}

static int count_inputs(const Flow *flow) {
    int n = 0;
    for (int i = 0; i < flow->cont.n; i++) n += flow->cont.at[i].kind == CONT_IN;
    return n;
}

static void check_flow(Ctx *ctx, const Flow *flow, const Match *m) {
    for (int i = 0; i < flow->symbol.n; i++) {
        bool bound = false;
        for (int k = 0; k < m->subst.n; k++) bound |= m->subst.at[k].sym == flow->symbol.at[i].sym;
        if (!bound)
            fail(ctx, E_OPTION,
                 "symbol \"%s\" of operator \"%s\" is no dim of an operand: results may not have "
                 "sizes of their own",
                 dim_sym_name(flow->symbol.at[i].sym), flow->name);
    }
}

/* The first flow of the row's name whose inputs fit. */
static Match find_match(Ctx *ctx, Arena *arena, const Node *node, const Type *const *type, int n) {
    const char *name = full_name(ctx, node->row), *end;
    Text seen = {.arena = arena};
    Match m;
    for (const char *at = next_flow(node->row->expr); at; at = next_flow(at + 1)) {
        if (flow_title(ctx, at) != name) continue;
        Flow *flow = flow_parse(arena, with_attributes(ctx, arena, node, at), &end);
        if (count_inputs(flow) == n && fits(ctx, arena, flow, type, &m)) {
            flow_verify(flow);
            check_flow(ctx, flow, &m);
            return m;
        }
        text_printf(&seen, "%s%d operands", text_str(&seen)[0] ? " or " : "", count_inputs(flow));
    }
    text_put(&seen, "; given are");
    for (int i = 0; i < n; i++) text_printf(&seen, " %s", type_str(ctx, type[i]));
    fail(ctx, E_TYPE, "no flow of operator \"%s\" takes these operands: it has flows of %s", name,
         text_str(&seen));
}

/* ---- what rows call -------------------------------------------------------------------------- */

static void custom_infer(Infer *in) {
    int n = in->node->in.n, result = 0;
    const Type **type = NEW_ARRAY(in->arena, const Type *, n + 1);
    for (int i = 0; i < n; i++) type[i] = &infer_tensor(in, i)->type;
    Match m = find_match(in->ctx, in->arena, in->node, type, n);
    for (int i = 0; i < m.flow->cont.n; i++) {
        const Cont *c = &m.flow->cont.at[i];
        Dim shape[RANK_MAX];
        if (c->kind != CONT_OUT) continue;
        for (int k = 0; k < c->rank; k++) shape[k] = given_dim(in->ctx, &m, c->shape[k]);
        infer_set(in, result++, c->type, shape, c->rank);
    }
}

static void custom_lower(Lower *lo) {
    int n = lo->node->in.n, operand = 0, result = 0;
    const Type **type = NEW_ARRAY(lo->arena, const Type *, n + 1);
    for (int i = 0; i < n; i++) type[i] = &lower_value(lo, i)->type;
    Match m = find_match(lo->ctx, lo->arena, lo->node, type, n);
    int *cont = NEW_ARRAY(lo->arena, int, m.flow->cont.n);
    for (int i = 0; i < m.flow->cont.n; i++) {
        const Cont *c = &m.flow->cont.at[i];
        cont[i] = -1;
        if (c->kind == CONT_IN) cont[i] = lower_in(lo, operand++);
        if (c->kind != CONT_OUT) continue;
        cont[i] = lower_out(lo, result++);
        if (cont[i] >= 0) continue;
        Dim shape[RANK_MAX]; /* nobody wants it */
        for (int k = 0; k < c->rank; k++) shape[k] = given_dim(lo->ctx, &m, c->shape[k]);
        cont[i] = lower_tmp(lo, c->name, c->type, shape, c->rank);
    }
    flow_inline(lo->flow, lo->into, m.flow, lo->node->name, cont, m.subst.at, m.subst.n);
}

/* ---- the table ------------------------------------------------------------------------------- */

typedef VEC(OpRow) Rows;

static void add_rows(Arena *arena, Rows *rows, const char *text) {
    Ctx *ctx = arena_ctx(arena);
    int before = rows->n;
    text = arena_printf(arena, "\n%s", text);
    for (const char *at = next_flow(text + 1); at; at = next_flow(at + 1)) {
        const char *name = flow_title(ctx, at), *dot = strrchr(name, '.');
        if (!dot || dot == name || !dot[1])
            fail(ctx, E_OPTION, "operator \"%s\" has no domain: name its flow \"domain.Operator\"",
                 name);
        const char *domain = intern_n(ctx, name, (size_t)(dot - name));
        bool known = false;
        for (int i = before; i < rows->n; i++)
            known |= rows->at[i].domain == domain && !strcmp(rows->at[i].name, dot + 1);
        if (known) continue;
        /* what calls functions of the user's own is not evaluated at compile time */
        unsigned flags = strstr(text, "extern.") ? OP_SIDE : 0;
        OpRow row = {domain, intern(ctx, dot + 1), 1, 0, custom_infer, custom_lower, text, NULL,
                     flags};
        vec_push(arena, rows, row);
    }
    if (rows->n == before)
        fail(ctx, E_OPTION,
             "the text of operators holds no flow: write \"flow domain.Operator ...\"");
}

const OpTable *onnx_ops_with(Arena *arena, const char *const *text, int n) {
    const OpTable *standard = onnx_ops();
    Rows rows = {0};
    if (!n) return standard;
    for (int i = 0; i < n; i++) add_rows(arena, &rows, text[i]);
    vec_push(arena, &rows, (OpRow){0});
    const OpRow **family = NEW_ARRAY(arena, const OpRow *, standard->n + 1);
    family[0] = rows.at;
    memcpy(family + 1, standard->family, sizeof *family * (size_t)standard->n);
    OpTable *table = NEW(arena, OpTable);
    *table = (OpTable){family, standard->n + 1, standard->check};
    return table;
}
