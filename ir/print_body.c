/* SPDX-License-Identifier: Apache-2.0 */
/* Bodies as text. The choice of lines depends on the Vals alone, and names are kept from the Vals,
 * so printing what was parsed from printed text gives the same text. */
#include <string.h>

#include "lex.h"
#include "print.h"

enum { DEPTH_MAX = 8 }; /* nesting beyond this gets lines */

/* ---- which Vals are lines ---------------------------------------------------------------- */

typedef struct Plan {
    BodyText *t;
    Table *taken; /* names that a line may not use, by interned pointer */
    int *uses;
    int *depth;
    int fresh;
} Plan;

static void take_symbol(void *user, Dim sym) {
    Plan *plan = user;
    table_put(plan->taken, dim_sym_name(sym), plan);
}

static const Dim *val_dims(const Val *val, int *n) {
    *n = val->kind == VAL_READ ? val->read.rank : val->kind == VAL_INDEX;
    return val->kind == VAL_READ ? val->read.at : &val->index;
}

static bool is_line(const Plan *plan, int i) {
    const Val *val = &plan->t->body->val.at[i];
    if (val->sym) return true;
    if (val->kind == VAL_CONST || val->kind == VAL_INDEX || val->kind == VAL_PARAM) return false;
    if (plan->uses[i] != 1 || plan->depth[i] > DEPTH_MAX) return true;
    return plan->t->reads && (val->kind == VAL_READ || val->name);
}

static const char *line_name(Plan *plan, const Val *val) {
    Ctx *ctx = arena_ctx(plan->t->arena);
    if (val->sym) return dim_sym_name(val->sym);
    const char *name = val->name ? intern(ctx, val->name) : internf(ctx, "t%d", plan->fresh++);
    for (int n = 1; table_get(plan->taken, name); n++)
        name = val->name ? internf(ctx, "%s_%d", val->name, n) : internf(ctx, "t%d", plan->fresh++);
    return name;
}

void body_text_plan(BodyText *t, const int *roots, int nroots, const Dim *taken, int ntaken) {
    const ValVec *vals = &t->body->val;
    Plan plan = {.t = t, .taken = table_new(t->arena)};
    plan.uses = NEW_ARRAY(t->arena, int, vals->n);
    plan.depth = NEW_ARRAY(t->arena, int, vals->n);
    t->name = NEW_ARRAY(t->arena, const char *, vals->n);
    for (int i = 0; i < ntaken; i++) take_symbol(&plan, taken[i]);
    for (int i = 0; i < t->nparam; i++) table_put(plan.taken, t->param[i], &plan);
    for (int i = 0; i < nroots; i++) plan.uses[roots[i]]++;
    for (int i = 0; i < vals->n; i++) {
        const Val *val = &vals->at[i];
        int ndims;
        const Dim *dims = val_dims(val, &ndims);
        for (int k = 0; k < val_args(val); k++) plan.uses[val->arg[k]]++;
        for (int k = 0; k < ndims; k++) dim_symbols(dims[k], take_symbol, &plan);
        if (val->sym) take_symbol(&plan, val->sym);
    }
    for (int i = 0; i < vals->n; i++) {
        const Val *val = &vals->at[i];
        for (int k = 0; k < val_args(val); k++)
            if (!t->name[val->arg[k]] && plan.depth[val->arg[k]] >= plan.depth[i])
                plan.depth[i] = plan.depth[val->arg[k]] + 1;
        if (!is_line(&plan, i)) continue;
        t->name[i] = line_name(&plan, val);
        table_put(plan.taken, t->name[i], &plan);
    }
}

/* ---- expressions ------------------------------------------------------------------------- */

enum {
    PREC_ANY,
    PREC_OR,
    PREC_XOR,
    PREC_AND,
    PREC_EQ,
    PREC_LT,
    PREC_SHIFT,
    PREC_ADD,
    PREC_MUL,
    PREC_UNARY
};

static int infix_prec(const char *s) {
    switch (s[0]) {
    case '|': return PREC_OR;
    case '^': return PREC_XOR;
    case '&': return PREC_AND;
    case '=':
    case '!': return PREC_EQ;
    case '<':
    case '>': return s[1] == s[0] ? PREC_SHIFT : PREC_LT;
    case '+':
    case '-': return PREC_ADD;
    default: return PREC_MUL;
    }
}

static void print_value(BodyText *t, int v, DType want, int prec);

static bool is_literal(const BodyText *t, int v) {
    return !t->name[v] && t->body->val.at[v].kind == VAL_CONST;
}

/* The type that a literal operand is read in: that of the first operand of the group which is none.
 */
static DType group_type(const BodyText *t, const Val *val, int first, int arity) {
    for (int k = first; k < arity; k++)
        if (!is_literal(t, val->arg[k])) return t->body->val.at[val->arg[k]].type;
    return DT_NONE;
}

static void print_call(BodyText *t, const Val *val, const PrimRow *row) {
    Text *out = t->p->out;
    if (val->prim == P_CVT)
        text_put(out, dtype_name(val->type));
    else if (row->typing == TYPE_CONVERT || row->typing == TYPE_BITCAST)
        text_printf(out, "%s:%s", row->name, dtype_name(val->type));
    else
        text_put(out, row->name);
    int first = row->typing == TYPE_SELECT;
    DType group = group_type(t, val, first, row->arity);
    text_put(out, "(");
    for (int k = 0; k < row->arity; k++) {
        if (k) text_put(out, ", ");
        print_value(t, val->arg[k], k < first ? BOOL : group, PREC_ANY);
    }
    text_put(out, ")");
}

static void print_prim(BodyText *t, const Val *val, int prec) {
    const PrimRow *row = prim_row(val->prim);
    Text *out = t->p->out;
    bool prefix = val->prim == P_NEG;
    if (!row->spelling && !prefix) {
        print_call(t, val, row);
        return;
    }
    int own = prefix ? PREC_UNARY : infix_prec(row->spelling);
    if (own < prec) text_put(out, "(");
    if (prefix) {
        text_put(out, "-");
        print_value(t, val->arg[0], DT_NONE, own);
    } else {
        DType group = group_type(t, val, 0, 2);
        print_value(t, val->arg[0], group, own);
        text_printf(out, " %s ", row->spelling);
        print_value(t, val->arg[1], group, own + 1);
    }
    if (own < prec) text_put(out, ")");
}

/* Bare when it is a symbol from around: the bare name of a value is the value itself. */
static void print_index(const BodyText *t, Dim index) {
    Text *out = t->p->out;
    const char *name = dim_sym_name(index);
    for (int i = 0; name && i < t->body->val.n; i++)
        if (t->body->val.at[i].sym == index) name = NULL;
    if (!name) text_put(out, "index(");
    dim_print(out, index);
    if (!name) text_put(out, ")");
}

static void print_const(Text *out, const Val *val, DType want) {
    if (want != val->type) text_printf(out, "%s(", dtype_name(val->type));
    bits_print(out, val->type, val->bits);
    if (want != val->type) text_put(out, ")");
}

/* An `else` value needs parentheses around its read wherever more may follow. */
static void print_read(BodyText *t, const Val *val, int prec) {
    bool paren = val->has_else && prec > PREC_ANY;
    if (paren) text_put(t->p->out, "(");
    body_text_access(t, &val->read);
    if (val->has_else) {
        text_put(t->p->out, " else ");
        print_value(t, val->arg[0], val->type, PREC_UNARY);
    }
    if (paren) text_put(t->p->out, ")");
}

/* The Val itself, whether it has a line or not. */
static void print_operation(BodyText *t, int v, DType want, int prec) {
    const Val *val = &t->body->val.at[v];
    print_see(t->p, val);
    switch (val->kind) {
    case VAL_CONST: print_const(t->p->out, val, want); break;
    case VAL_INDEX: print_index(t, val->index); break;
    case VAL_READ: print_read(t, val, prec); break;
    case VAL_PRIM: print_prim(t, val, prec); break;
    case VAL_PARAM: text_put(t->p->out, t->param[val->arg[0]]); break;
    }
}

static void print_value(BodyText *t, int v, DType want, int prec) {
    if (t->name[v])
        text_name(t->p->out, t->name[v]);
    else
        print_operation(t, v, want, prec);
}

void body_text_value(BodyText *t, int val, DType want) {
    print_value(t, val, want, PREC_ANY);
}

void body_text_access(BodyText *t, const Access *access) {
    text_name(t->p->out, t->cont(t->user, access->cont));
    text_put(t->p->out, "[");
    print_dims(t->p->out, access->at, access->rank);
    text_put(t->p->out, "]");
}

void body_text_lines(BodyText *t) {
    for (int i = 0; i < t->body->val.n; i++) {
        if (!t->name[i]) continue;
        print_line(t->p);
        text_name(t->p->out, t->name[i]);
        text_put(t->p->out, t->body->val.at[i].kind == VAL_READ ? " <- " : " = ");
        print_operation(t, i, DT_NONE, PREC_ANY);
        print_end(t->p);
    }
}
