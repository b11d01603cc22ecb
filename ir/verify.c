/* SPDX-License-Identifier: Apache-2.0 */
/* Bodies and symbols, as verifiers see them: see verify.h. */
#include "verify.h"

_Noreturn void complain(Verify *v, const void *guilty, const void * or, const char *fmt, ...) {
    va_list args;
    va_start(args, fmt);
    const char *message = arena_vprintf(v->arena, fmt, args);
    va_end(args);
    if (v->blame) {
        v->blame(v, guilty);
        fail(v->ctx, E_RECIPE, "%s", message);
    }
    const void *marks[] = {guilty, or, v->whole};
    for (int i = 0; i < 3; i++) {
        Text out = {.arena = v->arena};
        Printer p = {.out = &out, .guilty = marks[i], .message = message};
        v->print(&p, v->whole);
        if (p.said || i == 2)
            fail(v->ctx, E_VERIFY, "%s \"%s\": %s\n%s", v->what, v->name, message, text_str(&out));
    }
    BUG("no line of the %s was printed", v->what);
}

/* ---- symbols ----------------------------------------------------------------------------- */

bool verify_known(const Verify *v, Dim sym) {
    for (int i = v->range.n - 1; i >= 0; i--)
        if (v->range.at[i].sym == sym) return true;
    return false;
}

typedef struct Unknown {
    const Verify *v;
    Dim sym;
} Unknown;

static void note_unknown(void *user, Dim sym) {
    Unknown *unknown = user;
    if (!verify_known(unknown->v, sym)) unknown->sym = sym;
}

void verify_dim(Verify *v, Dim d, const void *guilty, const void * or, const char *what) {
    Unknown unknown = {v, NULL};
    if (!d) complain(v, guilty, or, "%s is missing", what);
    dim_symbols(d, note_unknown, &unknown);
    if (unknown.sym)
        complain(v, guilty, or, "symbol \"%s\" of %s is not known here", dim_sym_name(unknown.sym),
                 what);
}

void verify_dims(Verify *v, const Dim *d, int n, const void *guilty, const void * or,
                 const char *what) {
    for (int i = 0; i < n; i++) verify_dim(v, d[i], guilty, or, what);
}

/* ---- ranges of values -------------------------------------------------------------------- */

/* What is known of integer Vals: bounds over the symbols in sight, NULL where nothing is. */
typedef struct Ranges {
    Verify *v;
    const Body *body;
    DimRange *at; /* by Val; sym unused */
    VerifyRangeFn *cont;
} Ranges;

static Dim both(Ctx *ctx, Dim a, Dim b, Dim (*f)(Ctx *, Dim, Dim)) {
    return a && b ? f(ctx, a, b) : NULL;
}

/* min and max need one side only for the bound on their own side. */
static Dim either(Ctx *ctx, Dim a, Dim b, Dim (*f)(Ctx *, Dim, Dim)) {
    return a && b ? f(ctx, a, b) : a ? a : b;
}

static DimRange range_prim(const Ranges *r, const Val *val) {
    Ctx *ctx = r->v->ctx;
    DimRange none = {0}, a = r->at[val->arg[0]];
    int arity = prim_row(val->prim)->arity;
    DimRange b = arity > 1 ? r->at[val->arg[1]] : none, c = arity > 2 ? r->at[val->arg[2]] : none;
    int64_t divisor;
    switch (val->prim) {
    case P_ADD:
        return (DimRange){NULL, both(ctx, a.lo, b.lo, dim_add), both(ctx, a.hi, b.hi, dim_add)};
    case P_SUB:
        return (DimRange){NULL, both(ctx, a.lo, b.hi, dim_sub), both(ctx, a.hi, b.lo, dim_sub)};
    case P_MIN:
        return (DimRange){NULL, both(ctx, a.lo, b.lo, dim_min), either(ctx, a.hi, b.hi, dim_min)};
    case P_MAX:
        return (DimRange){NULL, either(ctx, a.lo, b.lo, dim_max), both(ctx, a.hi, b.hi, dim_max)};
    case P_SELECT:
        return (DimRange){NULL, both(ctx, b.lo, c.lo, dim_min), both(ctx, b.hi, c.hi, dim_max)};
    case P_MOD:
        if (!b.lo || b.lo != b.hi || !dim_is_const(b.lo, &divisor) || divisor <= 0) return none;
        return (DimRange){NULL, dim_const(ctx, 0), dim_const(ctx, divisor - 1)};
    case P_CVT: return dtype_is_int(val->type) ? a : none;
    default: return none;
    }
}

static DimRange range_val(const Ranges *r, const Val *val) {
    Ctx *ctx = r->v->ctx;
    DimRange none = {0};
    if (!dtype_is_int(val->type)) return none;
    const DimRange *known;
    Dim d;
    switch (val->kind) {
    case VAL_CONST:
        d = dim_const(ctx, bits_to_int(val->type, val->bits));
        return (DimRange){NULL, d, d};
    case VAL_INDEX: return (DimRange){NULL, val->index, val->index};
    case VAL_READ:
        known = val->has_else ? NULL : r->cont(r->v, val->read.cont);
        return known ? *known : none;
    case VAL_PRIM: return range_prim(r, val);
    case VAL_PARAM: return none;
    }
    return none;
}

/* ---- bodies ------------------------------------------------------------------------------ */

static bool scalar(Prim p, DType t) {
    return t > DT_NONE && t < DT_COUNT && prim_takes(p, t);
}

static void verify_prim(Verify *v, const Body *body, const Val *val, const void *stmt) {
    const PrimRow *row = prim_row(val->prim);
    int first = row->typing == TYPE_SELECT;
    DType t = body->val.at[val->arg[first]].type;
    bool ok = scalar(val->prim, t) && scalar(val->prim, val->type);
    for (int i = first; i < row->arity; i++) ok = ok && body->val.at[val->arg[i]].type == t;
    switch (row->typing) {
    case TYPE_SAME: ok = ok && val->type == t; break;
    case TYPE_FLOAT: ok = ok && val->type == t && dtype_is_float(t); break;
    case TYPE_LOGIC: ok = ok && val->type == t && !dtype_is_float(t); break;
    case TYPE_COMPARE: ok = ok && val->type == BOOL; break;
    case TYPE_SELECT: ok = ok && val->type == t && body->val.at[val->arg[0]].type == BOOL; break;
    case TYPE_CONVERT: break;
    case TYPE_BITCAST: ok = ok && dtype_bits(t) == dtype_bits(val->type); break;
    }
    if (!ok) complain(v, val, stmt, "operand types of \"%s\" do not fit", row->name);
}

void verify_val(Verify *v, const Body *body, int val, const void *guilty) {
    if (val < 0 || val >= body->val.n)
        complain(v, guilty, v->whole, "value %d of a body with %d values", val, body->val.n);
}

static void verify_args(Verify *v, const Body *body, int i, const void *stmt) {
    const Val *val = &body->val.at[i];
    bool prim = val->kind == VAL_PRIM;
    if (prim && (val->prim <= PRIM_NONE || val->prim >= PRIM_COUNT))
        complain(v, val, stmt, "primitive number %d is not in prim.def", val->prim);
    int n = val_args(val);
    for (int k = 0; k < n; k++)
        if (val->arg[k] < 0 || val->arg[k] >= i)
            complain(v, val, stmt, "value %d uses value %d, which is not earlier", i, val->arg[k]);
    if (val->kind == VAL_READ && n && body->val.at[val->arg[0]].type != val->type)
        complain(v, val, stmt, "the value after `else` is not of the read's type");
    if (val->kind == VAL_PARAM) complain(v, val, stmt, "parameters stand in combines only");
    if (val->kind == VAL_INDEX && val->type != I64) complain(v, val, stmt, "an index value is i64");
}

void verify_body(Verify *v, const Body *body, const void *stmt, VerifyReadFn *read,
                 VerifyRangeFn *range) {
    Ranges r = {v, body, NEW_ARRAY(v->arena, DimRange, body->val.n), range};
    for (int i = 0; i < body->val.n; i++) {
        const Val *val = &body->val.at[i];
        verify_args(v, body, i, stmt);
        if (val->kind == VAL_PRIM) verify_prim(v, body, val, stmt);
        if (val->kind == VAL_INDEX) verify_dim(v, val->index, val, stmt, "an index value");
        if (val->kind == VAL_READ) read(v, val);
        r.at[i] = range_val(&r, val);
        if (!val->sym) continue;
        if (verify_known(v, val->sym))
            complain(v, val, stmt, "index \"%s\" has the name of another symbol",
                     dim_sym_name(val->sym));
        if (!dtype_is_int(val->type)) complain(v, val, stmt, "only integer values index");
        vec_push(v->arena, &v->range, (DimRange){val->sym, r.at[i].lo, r.at[i].hi});
    }
}
