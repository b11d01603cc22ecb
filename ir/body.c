/* SPDX-License-Identifier: Apache-2.0 */
/* Building, copying and pruning bodies.
 *
 * Every builder goes through `val_add`: it returns the number of an equal Val when there is one
 * (all Vals are pure: a body's stores come after its reads), found through a hash table that is
 * only a hint. Entries are compared in full, so a stale table can cost sharing, never correctness.
 */
#include "body.h"
#include "body_expr.h"

#include <math.h>
#include <string.h>

/* ---- sharing --------------------------------------------------------------------------------- */

bool access_equal(const Access *a, const Access *b) {
    return a->cont == b->cont && a->rank == b->rank && dims_equal(a->at, b->at, a->rank);
}

static int val_nargs(const Val *v) {
    switch (v->kind) {
    case VAL_READ: return v->has_else ? 1 : 0;
    case VAL_PRIM: return prim_row(v->prim)->arity;
    default: return 0;
    }
}

static bool val_equal(const Val *a, const Val *b) {
    if (a->kind != b->kind || a->type != b->type || a->prim != b->prim) return false;
    if (a->bits != b->bits || a->index != b->index || a->has_else != b->has_else) return false;
    if (a->kind == VAL_PARAM && a->arg[0] != b->arg[0]) return false;
    for (int i = 0; i < val_nargs(a); i++)
        if (a->arg[i] != b->arg[i]) return false;
    return access_equal(&a->read, &b->read);
}

static uint64_t val_hash(const Val *v) {
    uint64_t h =
        (uint64_t)v->kind * 31 + (uint64_t)v->type * 7 + (uint64_t)v->prim * 1021 + v->bits;
    int n = v->kind == VAL_PARAM ? 1 : val_nargs(v);
    for (int i = 0; i < n; i++) h = (h ^ (uint64_t)v->arg[i]) * 0x9e3779b97f4a7c15u;
    if (v->index) h ^= v->index->hash;
    for (int i = 0; i < v->read.rank; i++) h = (h ^ v->read.at[i]->hash) * 0x9e3779b97f4a7c15u;
    h = (h ^ (uint64_t)v->read.cont) * 0x9e3779b97f4a7c15u;
    return h ^ h >> 29;
}

static void share_put(Body *b, int val) {
    uint64_t slot = val_hash(&b->val.at[val]) & (uint64_t)(b->nshare - 1);
    while (b->share[slot]) slot = (slot + 1) & (uint64_t)(b->nshare - 1);
    b->share[slot] = val + 1;
}

static void share_sync(Body *b) {
    if (b->nshared > b->val.n) b->nshare = b->nshared = 0;
    if (b->nshare < 2 * (b->val.n + 1)) {
        int size = 16;
        while (size < 4 * (b->val.n + 1)) size *= 2;
        b->share = NEW_ARRAY(b->arena, int, size);
        b->nshare = size;
        b->nshared = 0;
    }
    while (b->nshared < b->val.n) share_put(b, b->nshared++);
}

static int val_add(Body *b, Val v) {
    share_sync(b);
    uint64_t slot = val_hash(&v) & (uint64_t)(b->nshare - 1);
    for (; b->share[slot]; slot = (slot + 1) & (uint64_t)(b->nshare - 1)) {
        int old = b->share[slot] - 1;
        if (old < b->val.n && val_equal(&b->val.at[old], &v)) return old;
    }
    if (v.read.rank) {
        v.read.at = arena_copy(b->arena, v.read.at, (size_t)v.read.rank * sizeof(Dim));
    }
    vec_push(b->arena, &b->val, v);
    return b->val.n - 1;
}

/* ---- leaves ------------------------------------------------------------------------------------
 */

int body_bits(Body *b, DType t, Bits bits) {
    return val_add(b, (Val){.kind = VAL_CONST, .type = t, .bits = bits});
}

int body_const(Body *b, DType t, double v) {
    return body_bits(b, t, bits_of_double(t, v));
}

int body_index(Body *b, Dim index) {
    int64_t value;
    if (dim_is_const(index, &value)) return body_bits(b, I64, (Bits)value);
    return val_add(b, (Val){.kind = VAL_INDEX, .type = I64, .index = index});
}

int val_args(const Val *val) {
    if (val->kind == VAL_READ) return val->has_else;
    return val->kind == VAL_PRIM ? prim_row(val->prim)->arity : 0;
}

int body_copy_val(Body *b, const Val *val, const int *map) {
    Val copy = *val;
    for (int k = 0; k < val_args(val); k++) copy.arg[k] = map[val->arg[k]];
    vec_push(b->arena, &b->val, copy);
    return b->val.n - 1;
}

int body_unconverted(const Body *b, int val) {
    while (b->val.at[val].kind == VAL_PRIM && b->val.at[val].prim == P_CVT)
        val = b->val.at[val].arg[0];
    return val;
}

int body_unrounded(const Body *b, int val) {
    const Val *wide = &b->val.at[val];
    if (wide->kind != VAL_PRIM || wide->prim != P_CVT || wide->type != F32) return val;
    const Val *half = &b->val.at[wide->arg[0]];
    bool rounded = half->kind == VAL_PRIM && half->prim == P_CVT && dtype_is_float(half->type) &&
                   dtype_bits(half->type) == 16;
    return rounded && b->val.at[half->arg[0]].type == F32 ? half->arg[0] : val;
}

void body_unround(Body *b) {
    for (int v = 0; v < b->val.n; v++) {
        Val *val = &b->val.at[v];
        for (int i = 0; i < val_args(val); i++) val->arg[i] = body_unrounded(b, val->arg[i]);
    }
}

int body_byte(const Body *b, Dim index) {
    for (int v = 0; v < b->val.n; v++) {
        const Val *val = &b->val.at[v];
        if (!val->sym || val->sym != index) continue;
        bool widened = val->kind == VAL_PRIM && val->prim == P_CVT;
        return widened && b->val.at[val->arg[0]].type == U8 ? val->arg[0] : -1;
    }
    return -1;
}

int body_read(Body *b, Access read, DType type) {
    return val_add(b, (Val){.kind = VAL_READ, .type = type, .read = read});
}

static void check_arg(const Body *b, int x) {
    if (x < 0 || x >= b->val.n) BUG("operand %d of a body with %d values", x, b->val.n);
}

int body_read_else(Body *b, Access read, DType type, int otherwise) {
    check_arg(b, otherwise);
    ASSERT(b->val.at[otherwise].type == type);
    return val_add(
        b,
        (Val){.kind = VAL_READ, .type = type, .read = read, .has_else = true, .arg = {otherwise}});
}

int body_param(Body *b, int k, DType type) {
    return val_add(b, (Val){.kind = VAL_PARAM, .type = type, .arg = {k}});
}

bool body_const_bits(const Body *b, int val, Bits *bits) {
    const Val *v = &b->val.at[val];
    if (v->kind != VAL_CONST) return false;
    if (bits) *bits = v->bits;
    return true;
}

bool body_reciprocal(const Body *b, int val, float *by) {
    static const float LEAST = 0x1p-30f, MOST = 0x1p30f;
    const Val *v = &b->val.at[val];
    if (v->kind != VAL_CONST || v->type != F32) return false;
    float c = (float)bits_to_double(F32, v->bits);
    *by = 1.0F / c;
    return fabsf(c) >= LEAST && fabsf(c) <= MOST;
}

bool body_uses(const Body *b, Dim sym) {
    bool uses = false;
    for (int v = 0; v < b->val.n; v++) {
        const Val *val = &b->val.at[v];
        uses |= val->kind == VAL_INDEX && dim_uses(val->index, sym);
        for (int k = 0; val->kind == VAL_READ && k < val->read.rank; k++)
            uses |= dim_uses(val->read.at[k], sym);
    }
    return uses;
}

/* ---- primitives ----------------------------------------------------------------------------- */

static DType prim_result(const Body *b, Prim p, const int *args) {
    const PrimRow *row = prim_row(p);
    for (int i = 0; i < row->arity; i++) check_arg(b, args[i]);
    int first = row->typing == TYPE_SELECT ? 1 : 0;
    DType t = b->val.at[args[first]].type;
    TypeClass class = dtype_class(t);
    bool ok = prim_takes(p, t);
    for (int i = first; i < row->arity; i++) ok = ok && b->val.at[args[i]].type == t;
    if (row->typing == TYPE_FLOAT) ok = ok && class == CLASS_FLOAT;
    if (row->typing == TYPE_LOGIC) ok = ok && class != CLASS_FLOAT;
    if (row->typing == TYPE_SELECT) ok = ok && b->val.at[args[0]].type == BOOL;
    if (row->typing == TYPE_CONVERT || row->typing == TYPE_BITCAST) ok = false;
    if (!ok) BUG("operands of \"%s\" (%s...) do not fit", row->name, dtype_name(t));
    return row->typing == TYPE_COMPARE ? BOOL : t;
}

static const Forms full;
static int expand_func(Body *b, Prim p, const Forms *forms, const int *args);

/* Operands that are all constants give a constant, by the primitive's own meaning. */
static bool fold_constants(Body *b, Prim p, DType type, const int *args, int *out) {
    const PrimRow *row = prim_row(p);
    Bits bits[3];
    for (int i = 0; i < row->arity; i++)
        if (!body_const_bits(b, args[i], &bits[i])) return false;
    if (row->defined) {
        Body scratch = {.arena = b->arena};
        int sargs[3];
        for (int i = 0; i < row->arity; i++) sargs[i] = body_bits(&scratch, type, bits[i]);
        int r = expand_func(&scratch, p, &full, sargs);
        if (!body_const_bits(&scratch, r, bits)) return false;
        *out = body_bits(b, type, bits[0]);
        return true;
    }
    DType operand = b->val.at[args[row->arity - 1]].type;
    *out = body_bits(b, type, prim_apply(p, type, operand, bits));
    return true;
}

static bool is_const(const Body *b, int val, double v) {
    const Val *at = &b->val.at[val];
    return at->kind == VAL_CONST && at->bits == bits_of_double(at->type, v);
}

/* x*1, x/1, x-0, x+(-0), select with a known condition or equal values: x, bit for bit. */
static bool fold_identity(const Body *b, Prim p, DType type, const int *a, int *out) {
    bool is_float = dtype_is_float(type);
    *out = a[0];
    switch (p) {
    case P_MUL:
        if (is_const(b, a[0], 1)) *out = a[1];
        return is_const(b, a[0], 1) || is_const(b, a[1], 1);
    case P_DIV: return is_const(b, a[1], 1);
    case P_SUB: return is_const(b, a[1], 0);
    case P_ADD:
        if (is_const(b, a[0], is_float ? -0.0 : 0)) *out = a[1];
        return is_const(b, a[0], is_float ? -0.0 : 0) || is_const(b, a[1], is_float ? -0.0 : 0);
    case P_MIN:
    case P_MAX:
    case P_AND:
    case P_OR: return a[0] == a[1];
    case P_SELECT: {
        Bits c = 1;
        if (a[1] != a[2] && !body_const_bits(b, a[0], &c)) return false;
        *out = c ? a[1] : a[2];
        return true;
    }
    default: return false;
    }
}

static int prim_add(Body *b, Prim p, DType type, const int *args) {
    int out;
    if (fold_constants(b, p, type, args, &out)) return out;
    if (type != BOOL && fold_identity(b, p, type, args, &out)) return out;
    Val v = {.kind = VAL_PRIM, .type = type, .prim = p};
    for (int i = 0; i < prim_row(p)->arity; i++) v.arg[i] = args[i];
    return val_add(b, v);
}

int body_prim(Body *b, Prim p, const int *args) {
    return prim_add(b, p, prim_result(b, p, args), args);
}

int body_prim1(Body *b, Prim p, int x) {
    ASSERT(prim_row(p)->arity == 1);
    return body_prim(b, p, &x);
}

int body_prim2(Body *b, Prim p, int x, int y) {
    ASSERT(prim_row(p)->arity == 2);
    return body_prim(b, p, (int[]){x, y});
}

int body_prim3(Body *b, Prim p, int x, int y, int z) {
    ASSERT(prim_row(p)->arity == 3);
    return body_prim(b, p, (int[]){x, y, z});
}

/* As an integer x + 0 is x: there is one zero only. */
static int without_zero(const Body *b, int x) {
    const Val *v = &b->val.at[x];
    bool adds = v->kind == VAL_PRIM && v->prim == P_ADD && dtype_is_float(v->type);
    return adds && is_const(b, v->arg[1], 0) ? v->arg[0] : x;
}

int body_prim_as(Body *b, Prim p, DType to, int x) {
    check_arg(b, x);
    DType from = b->val.at[x].type;
    bool integer = dtype_class(to) == CLASS_INT || dtype_class(to) == CLASS_UINT;
    if (p == P_CVT && integer) x = without_zero(b, x);
    if (p == P_BITCAST) ASSERT(dtype_bits(from) == dtype_bits(to));
    ASSERT(p == P_CVT || p == P_CVTINF || p == P_BITCAST);
    if (from == to) return x;
    return prim_add(b, p, to, &x);
}

int body_cvt(Body *b, DType to, int x) {
    return body_prim_as(b, P_CVT, to, x);
}

/* ---- values as indices ---------------------------------------------------------------------- */

typedef struct SymbolUse {
    Dim sym;
    bool used;
} SymbolUse;

static void note_symbol(void *user, Dim sym) {
    SymbolUse *use = user;
    use->used = use->used || use->sym == sym;
}

static bool symbol_taken(const Body *b, Dim sym) {
    SymbolUse use = {sym, false};
    for (int i = 0; i < b->val.n && !use.used; i++) {
        const Val *v = &b->val.at[i];
        use.used = v->sym == sym || (v->name && v->name == dim_sym_name(sym));
        if (v->index) dim_symbols(v->index, note_symbol, &use);
        for (int k = 0; k < v->read.rank; k++) dim_symbols(v->read.at[k], note_symbol, &use);
    }
    return use.used;
}

Dim body_symbol(Body *b, int val, const char *name) {
    check_arg(b, val);
    Ctx *ctx = arena_ctx(b->arena);
    if (b->val.at[val].sym) return b->val.at[val].sym;
    if (!dtype_is_int(b->val.at[val].type)) BUG("only integer values index");
    if (b->val.at[val].name) name = b->val.at[val].name;
    const char *fresh = intern(ctx, name);
    for (int i = 1; b->val.at[val].name != fresh && symbol_taken(b, dim_sym(ctx, fresh)); i++)
        fresh = internf(ctx, "%s.%d", name, i);
    b->val.at[val].name = fresh;
    return b->val.at[val].sym = dim_sym(ctx, fresh);
}

/* ---- copying -------------------------------------------------------------------------------- */

typedef struct Inline {
    Body *b;
    const Body *from;
    VEC(DimSubst) subst; /* the caller's, then a pair for every copied symbol */
    const int *params;
    BodyReadFn *read;
    void *user;
    bool expand;
    const Forms *forms;
    int *map;
} Inline;

static int inline_read(Inline *in, const Val *v) {
    Ctx *ctx = arena_ctx(in->b->arena);
    Dim *at = NEW_ARRAY(in->b->arena, Dim, v->read.rank);
    for (int k = 0; k < v->read.rank; k++)
        at[k] = dim_subst(ctx, v->read.at[k], in->subst.at, in->subst.n);
    Val copy = *v;
    copy.read.at = at;
    copy.sym = NULL;
    if (v->has_else) copy.arg[0] = in->map[v->arg[0]];
    int out = in->read ? in->read(in->user, in->b, &copy) : -1;
    if (out >= 0) return out;
    copy.name = NULL;
    return val_add(in->b, copy);
}

static int inline_prim(Inline *in, const Val *v);

static int inline_val(Inline *in, const Val *v) {
    Ctx *ctx = arena_ctx(in->b->arena);
    switch (v->kind) {
    case VAL_CONST: return body_bits(in->b, v->type, v->bits);
    case VAL_INDEX: return body_index(in->b, dim_subst(ctx, v->index, in->subst.at, in->subst.n));
    case VAL_READ: return inline_read(in, v);
    case VAL_PARAM:
        return in->params ? in->params[v->arg[0]] : body_param(in->b, v->arg[0], v->type);
    case VAL_PRIM: return inline_prim(in, v);
    }
    BUG("value of kind %d", v->kind);
}

/* A symbol's range is not known here, so a copied index value keeps its meaning by a new symbol in
 * the target body, put into every later index. */
static void inline_symbol(Inline *in, const Val *v, int out) {
    Dim sym = body_symbol(in->b, out, v->name ? v->name : dim_sym_name(v->sym));
    if (sym != v->sym) vec_push(in->b->arena, &in->subst, (DimSubst){v->sym, sym});
}

static void inline_all(Inline *in) {
    for (int i = 0; i < in->from->val.n; i++) {
        const Val *v = &in->from->val.at[i];
        int out = in->map[i] = inline_val(in, v);
        if (v->sym) inline_symbol(in, v, out);
        if (v->name && !in->b->val.at[out].name) in->b->val.at[out].name = v->name;
    }
}

void body_inline(Body *b, const Body *from, const DimSubst *subst, int nsubst, const int *params,
                 BodyReadFn *read, void *user, int *map) {
    ASSERT(b != from);
    Inline in = {.b = b, .from = from, .params = params, .read = read, .user = user, .map = map};
    for (int i = 0; i < nsubst; i++) vec_push(b->arena, &in.subst, subst[i]);
    inline_all(&in);
}

/* ---- functions ------------------------------------------------------------------------------ */

static FunctionForm form_of(const Forms *forms) {
    if (!forms->brief) return FORM_FULL;
    return forms->native[P_EXP2] ? FORM_BY_EXP2 : FORM_BRIEF;
}

/* The definition's body on these operands; functions inside it are expanded in turn. */
static int expand_func(Body *b, Prim p, const Forms *forms, const int *args) {
    DType t = b->val.at[args[0]].type;
    const char *params, *text = prim_definition(p, t, form_of(forms), &params);
    Body def = {.arena = b->arena};
    int arity = prim_row(p)->arity, operand[3];
    if (!text) {
        DType compute = dtype_compute(t);
        if (compute == t) BUG("\"%s\" has no definition for %s", prim_row(p)->name, dtype_name(t));
        for (int i = 0; i < arity; i++) operand[i] = body_cvt(b, compute, args[i]);
        return body_cvt(b, t, expand_func(b, p, forms, operand));
    }
    for (int i = 0; i < arity; i++) operand[i] = body_param(&def, i, t);
    int result = expr_define(&def, text, params, operand);
    int *map = NEW_ARRAY(b->arena, int, def.val.n);
    Inline in = {.b = b, .from = &def, .params = args, .expand = true, .forms = forms, .map = map};
    inline_all(&in);
    return map[result];
}

static bool small_float(DType t) {
    return dtype_is_float(t) && dtype_bits(t) < 32;
}

static int expand_small(Body *b, Prim p, DType t, const Forms *forms, const int *args) {
    int wide[3];
    for (int i = 0; i < prim_row(p)->arity; i++) wide[i] = body_cvt(b, F32, args[i]);
    if (prim_row(p)->typing == TYPE_COMPARE) return body_prim(b, p, wide);
    int r = prim_row(p)->defined ? expand_func(b, p, forms, wide) : body_prim(b, p, wide);
    return body_cvt(b, t, r);
}

/* x / c: the product with the reciprocal, corrected by what it leaves of x, is the quotient as it
 * is rounded (Markstein), without the branch that a division takes for numbers far out; such ones,
 * of 2^-70 and less or 2^126 and more, may be an ulp off. `near`: the product alone, which is off
 * by 1.5 ulp at most. -1: the divisor is no such constant. */
static int expand_quotient(Body *b, const int *args, bool near) {
    float by;
    if (!body_reciprocal(b, args[1], &by)) return -1;
    int of[] = {args[0], args[1], body_const(b, F32, by)};
    if (near) return body_prim2(b, P_MUL, of[0], of[2]);
    return body_expr(b,
                     "q = $0 * $2; p = fma(fma(-q, $1, $0), $2, q); "
                     "select(q == 0, q, select(abs(q) < 0x1p126, p, q))",
                     of, 3, NULL, 0, F32);
}

/* Do values become whole numbers? Then quotients beside a half count. */
static bool makes_whole(const Body *b) {
    for (int i = 0; i < b->val.n; i++) {
        const Val *v = &b->val.at[i];
        if (v->kind != VAL_PRIM) continue;
        Prim p = v->prim;
        if (p == P_RINT || p == P_FLOOR || p == P_CEIL || p == P_TRUNC ||
            (p == P_CVT && !dtype_is_float(v->type)))
            return true;
    }
    return false;
}

/* A quotient of f32 without a branch, or -1. */
static int expand_division(Inline *in, const int *args) {
    if (!in->forms->quotients) return -1;
    bool near = in->forms->native[P_RATIO] && !makes_whole(in->from);
    int quotient = expand_quotient(in->b, args, near);
    return quotient < 0 && near ? body_prim(in->b, P_RATIO, args) : quotient;
}

static int inline_prim(Inline *in, const Val *v) {
    int args[3];
    const PrimRow *row = prim_row(v->prim);
    for (int i = 0; i < row->arity; i++) args[i] = in->map[v->arg[i]];
    if (row->typing == TYPE_CONVERT || row->typing == TYPE_BITCAST)
        return body_prim_as(in->b, v->prim, v->type, args[0]);
    DType operand = in->b->val.at[args[row->arity - 1]].type;
    if (in->expand && row->typing != TYPE_SELECT && small_float(operand))
        return expand_small(in->b, v->prim, v->type, in->forms, args);
    if (in->expand && operand == F32 && v->prim == P_DIV) {
        int shorter = expand_division(in, args);
        if (shorter >= 0) return shorter;
    }
    bool native = in->expand && in->forms->native[v->prim] && operand == F32;
    if (in->expand && row->defined && !native) return expand_func(in->b, v->prim, in->forms, args);
    return body_prim(in->b, v->prim, args);
}

void body_expand(Body *b, const Body *from, const Forms *forms, int *map) {
    ASSERT(b != from);
    Inline in = {.b = b, .from = from, .expand = true, .forms = forms ? forms : &full, .map = map};
    inline_all(&in);
}

/* ---- pruning -------------------------------------------------------------------------------- */

typedef struct Live {
    const Body *b;
    bool *live;
} Live;

static void mark_symbol(void *user, Dim sym) {
    Live *l = user;
    for (int i = 0; i < l->b->val.n; i++)
        if (l->b->val.at[i].sym == sym) l->live[i] = true;
}

void body_prune(Body *b, int *roots, int nroots) {
    Live l = {b, NEW_ARRAY(b->arena, bool, b->val.n)};
    int *number = NEW_ARRAY(b->arena, int, b->val.n);
    for (int i = 0; i < nroots; i++) l.live[roots[i]] = true;
    for (int i = b->val.n - 1; i >= 0; i--) {
        const Val *v = &b->val.at[i];
        if (!l.live[i]) continue;
        for (int k = 0; k < val_nargs(v); k++) l.live[v->arg[k]] = true;
        if (v->index) dim_symbols(v->index, mark_symbol, &l);
        for (int k = 0; k < v->read.rank; k++) dim_symbols(v->read.at[k], mark_symbol, &l);
    }
    int n = 0;
    for (int i = 0; i < b->val.n; i++) {
        if (!l.live[i]) continue;
        Val v = b->val.at[i];
        for (int k = 0; k < val_nargs(&v); k++) v.arg[k] = number[v.arg[k]];
        number[i] = n;
        b->val.at[n++] = v;
    }
    b->val.n = n;
    b->share = NULL;
    b->nshare = b->nshared = 0;
    for (int i = 0; i < nroots; i++) roots[i] = number[roots[i]];
}
