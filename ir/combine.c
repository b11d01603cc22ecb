/* SPDX-License-Identifier: Apache-2.0 */
/* Combines: the rows of combine.def made for a type, and definitions read from text.
 *
 * Both go through combine_parse; a row is a definition in which T is the element type. Made rows
 * are kept in the context, so that the same name and type is the same pointer. */
#include "body_expr.h"
#include "context.h"

#include <string.h>

typedef enum { ANY, LOGIC, FLOAT } Types;

static const struct {
    const char *name;
    Types types;
    const char *text;
} rows[] = {
#define COMBINE(name, types, text) {name, types, text},
#include "combine.def"
#undef COMBINE
};
enum { ROWS = sizeof rows / sizeof rows[0] };

struct CombineTable {
    const Combine *made[ROWS][DT_COUNT];
};

static bool takes(Types types, DType t) {
    TypeClass class = dtype_class(t);
    if (class == CLASS_COMPLEX || class == CLASS_OBJECT) return false;
    return types == ANY || (types == FLOAT) == (class == CLASS_FLOAT);
}

const Combine *combine_get(Ctx *ctx, const char *name, DType t) {
    if (!ctx->priv->combines) ctx->priv->combines = NEW(ctx_arena(ctx), struct CombineTable);
    for (int i = 0; i < ROWS; i++) {
        if (strcmp(rows[i].name, name) != 0) continue;
        if (t == DT_NONE || !takes(rows[i].types, t)) return NULL;
        const Combine **made = &ctx->priv->combines->made[i][t];
        if (!*made) {
            ExprScan scan;
            Body scratch = {.arena = ctx_arena(ctx)};
            expr_scan_text(&scan, &scratch, internf(ctx, "%s %s", name, rows[i].text));
            scan.type_t = t;
            *made = combine_parse(ctx_arena(ctx), &scan);
        }
        return *made;
    }
    return NULL;
}

bool combine_any_order(const Combine *c) {
    return c->nstate == 1 && !c->finish.val.n && c->associative && c->commutative;
}

bool combine_rounds_nothing(const Combine *c) {
    bool order = c->simple == P_MIN || c->simple == P_MAX || c->simple == P_AND ||
                 c->simple == P_OR || c->simple == P_XOR;
    return combine_any_order(c) && (order || (!dtype_is_float(c->type[0]) && c->simple == P_ADD));
}

/* ---- text ----------------------------------------------------------------------------------- */

typedef struct Reader {
    ExprScan *scan;
    Combine *c;
    const char *state[COMBINE_STATES]; /* names in the header */
} Reader;

/* An identity is any expression that folds to a constant. */
static Bits read_identity(ExprScan *scan, DType t) {
    Bits bits;
    if (!body_const_bits(scan->body, expr_build(scan, expr_read(scan), t), &bits))
        scan->error(scan, "an identity is a constant");
    return bits;
}

static void read_states(Reader *r) {
    ExprScan *scan = r->scan;
    Combine *c = r->c;
    expr_expect(scan, "(");
    do {
        if (c->nstate == COMBINE_STATES) scan->error(scan, "too many states");
        r->state[c->nstate] = expr_expect_name(scan);
        expr_expect(scan, ":");
        DType t = c->type[c->nstate] = expr_expect_type(scan);
        TypeClass class = dtype_class(t);
        if (class == CLASS_COMPLEX || class == CLASS_OBJECT) scan->error(scan, "not a scalar type");
        expr_expect(scan, "=");
        c->identity[c->nstate++] = read_identity(scan, t);
    } while (expr_accept(scan, ","));
    expr_expect(scan, ")");
}

static void read_flags(Reader *r) {
    ExprScan *scan = r->scan;
    while (scan->tok.kind == EXPR_NAME) {
        const char *flag = expr_expect_name(scan);
        if (strcmp(flag, "associative") == 0)
            r->c->associative = true;
        else if (strcmp(flag, "commutative") == 0)
            r->c->commutative = true;
        else if (strcmp(flag, "idempotent") == 0)
            r->c->idempotent = true;
        else
            scan->error(scan, "associative, commutative, idempotent or \"{\" expected");
    }
}

/* One tuple of operand names, parameters `first` on. */
static void read_params(Reader *r, int first) {
    ExprScan *scan = r->scan;
    expr_expect(scan, "(");
    for (int i = 0; i < r->c->nstate; i++) {
        if (i > 0) expr_expect(scan, ",");
        const char *name = expr_expect_name(scan);
        expr_bind(scan, name, body_param(scan->body, first + i, r->c->type[i]));
    }
    expr_expect(scan, ")");
}

/* `{ statements (result, ...) }`: one value per state, of its type when `typed`. */
static void read_block(Reader *r, bool typed, int *result) {
    ExprScan *scan = r->scan;
    Combine *c = r->c;
    Expr *value[COMBINE_STATES];
    expr_expect(scan, "{");
    int n = expr_block(scan, c->t ? c->t : c->type[0], value, c->nstate);
    if (n != c->nstate && typed) scan->error(scan, "one value for each state expected");
    for (int i = 0; i < c->nstate; i++) result[i] = -1;
    for (int i = 0; i < n; i++) {
        DType want = typed || !expr_type(value[i]) ? c->type[i] : DT_NONE;
        result[i] = expr_build(scan, value[i], want);
    }
    expr_accept(scan, ";");
    expr_expect(scan, "}");
    body_prune(scan->body, result, n);
}

static void read_merge(Reader *r) {
    if (r->scan->tok.kind != EXPR_NAME || strcmp(expr_expect_name(r->scan), "merge") != 0)
        r->scan->error(r->scan, "\"merge\" expected");
    r->scan->body = &r->c->merge;
    r->scan->name.n = 0;
    read_params(r, 0);
    read_params(r, r->c->nstate);
    read_block(r, true, r->c->merged);
}

static void read_finish(Reader *r) {
    ExprScan *scan = r->scan;
    if (strcmp(expr_expect_name(scan), "finish") != 0) scan->error(scan, "\"finish\" expected");
    scan->body = &r->c->finish;
    scan->name.n = 0;
    if (scan->tok.kind == EXPR_PUNCT && scan->tok.text[0] == '(') {
        read_params(r, 0);
    } else {
        for (int i = 0; i < r->c->nstate; i++)
            expr_bind(scan, r->state[i], body_param(scan->body, i, r->c->type[i]));
    }
    read_block(r, false, r->c->finished);
}

/* The primitive of one state that merge applies to (left, right) and nothing else. */
static Prim simple_merge(const Combine *c) {
    const Val *v = &c->merge.val.at[c->merged[0]];
    if (c->nstate != 1 || v->kind != VAL_PRIM || prim_row(v->prim)->arity != 2) return PRIM_NONE;
    for (int i = 0; i < 2; i++) {
        const Val *arg = &c->merge.val.at[v->arg[i]];
        if (arg->kind != VAL_PARAM || arg->arg[0] != i) return PRIM_NONE;
    }
    return v->prim;
}

const Combine *combine_parse(Arena *arena, ExprScan *scan) {
    Combine *c = NEW(arena, Combine);
    Reader r = {.scan = scan, .c = c};
    ExprScan outer = *scan;
    Body constants = {.arena = arena};
    c->merge.arena = c->finish.arena = arena;
    c->name = expr_expect_name(scan);
    c->t = scan->type_t;
    scan->body = &constants;
    scan->resolve = NULL;
    scan->name.at = NULL;
    scan->name.n = scan->name.cap = 0;
    read_states(&r);
    read_flags(&r);
    expr_expect(scan, "{");
    read_merge(&r);
    if (scan->tok.kind == EXPR_NAME) read_finish(&r);
    scan->body = outer.body;
    scan->resolve = outer.resolve;
    scan->name = outer.name;
    expr_expect(scan, "}");
    c->simple = simple_merge(c);
    return c;
}
