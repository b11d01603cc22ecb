/* SPDX-License-Identifier: Apache-2.0 */
/* Primitives, bodies, expressions, and the column engine against prim_apply. */
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "ir/body_expr.h"
#include "ir/body_loops.h"

static Ctx *ctx;
static Arena *arena;

static void setup(void) {
    ctx = ctx_new(NULL, NULL);
    arena = arena_new(ctx);
}

static void teardown(void) {
    ctx_free(ctx);
}

TestSuite(body, .init = setup, .fini = teardown);

static uint64_t next_random(uint64_t *state) {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

static bool is_nan(DType t, Bits b) {
    return dtype_is_float(t) && isnan(bits_to_double(t, b));
}

static bool same(DType t, Bits a, Bits b) {
    return a == b || (is_nan(t, a) && is_nan(t, b));
}

static bool is_scalar(DType t) {
    return dtype_class(t) != CLASS_COMPLEX && dtype_class(t) != CLASS_OBJECT;
}

static bool takes(Prim p, DType t) {
    const PrimRow *row = prim_row(p);
    if (!is_scalar(t) || row->typing == TYPE_CONVERT || row->typing == TYPE_BITCAST) return false;
    if (row->typing == TYPE_FLOAT) return dtype_is_float(t);
    if (row->typing == TYPE_LOGIC) return !dtype_is_float(t);
    return true;
}

/* Patterns of type t: edges first, then random ones, half of them near zero. */
static Bits pattern(DType t, int i, uint64_t *state) {
    int width = dtype_bits(t);
    Bits all = width >= 64 ? ~(Bits)0 : ((Bits)1 << width) - 1;
    if (t == BOOL) return next_random(state) & 1;
    static const double edges[] = {0,   -0.0, 1,   -1,   2,    0.5,   -0.5,     1.5,       2.5,
                                   3,   -7,   126, 127,  128,  -128,  -129,     255,       256,
                                   1e5, -1e5, 4e9, -4e9, 1e19, -1e19, INFINITY, -INFINITY, NAN};
    enum { EDGES = sizeof edges / sizeof *edges };
    if (i < EDGES) return bits_of_double(t, edges[i]);
    if (i < EDGES + 4) return ((Bits)1 << (width - 1)) + (Bits)i % 3 - 1;
    Bits r = next_random(state);
    if (i % 2) return r & all;
    return bits_of_double(t, (double)(int64_t)r * 0x1p-57);
}

static size_t element_bytes(DType t) {
    return dtype_bits(t) < 8 ? 1 : (size_t)dtype_bits(t) / 8;
}

typedef struct Columns {
    Bits at[3][COLUMN_MAX];
} Columns;

static void fill_params(void *user, int val, Column out, int n) {
    Columns *columns = user;
    size_t size = element_bytes(out.type);
    for (int i = 0; i < n; i++)
        memcpy((char *)out.at + size * (size_t)i, &columns->at[val][i], size);
}

static Bits column_get(Column column, int i) {
    Bits bits = 0;
    size_t size = element_bytes(column.type);
    memcpy(&bits, (char *)column.at + size * (size_t)i, size);
    return bits;
}

/* ---- primitives --------------------------------------------------------------------------------
 */

static Bits apply(Prim p, DType t, Bits x, Bits y) {
    return prim_apply(p, prim_row(p)->typing == TYPE_COMPARE ? BOOL : t, t, (Bits[]){x, y, 0});
}

static int64_t apply_i32(Prim p, int32_t x, int32_t y) {
    return (int32_t)apply(p, I32, (uint32_t)x, (uint32_t)y);
}

Test(body, integers_are_total) {
    cr_assert_eq(apply_i32(P_DIV, 7, 0), 0);
    cr_assert_eq(apply_i32(P_DIV, INT32_MIN, -1), INT32_MIN);
    cr_assert_eq(apply_i32(P_DIV, -7, 2), -3);
    cr_assert_eq(apply_i32(P_REM, -7, 2), -1);
    cr_assert_eq(apply_i32(P_MOD, -7, 2), 1);
    cr_assert_eq(apply_i32(P_MOD, 7, -2), -1);
    cr_assert_eq(apply_i32(P_MOD, 7, 0), 0);
    cr_assert_eq(apply_i32(P_REM, INT32_MIN, -1), 0);
    cr_assert_eq(apply_i32(P_SHL, 1, 32), 0);
    cr_assert_eq(apply_i32(P_SHR, -8, 1), -4);
    cr_assert_eq(apply_i32(P_SHR, -8, 40), -1);
    cr_assert_eq(apply_i32(P_SHL, 1, -1), 0, "a negative count is a great one");
    cr_assert_eq(apply_i32(P_ABS, INT32_MIN, 0), INT32_MIN);
    cr_assert_eq(apply(P_ADD, I8, 0x7f, 1), 0x80);
    cr_assert_eq(apply(P_MUL, U4, 5, 5), 9);
    cr_assert_eq(apply(P_SHR, I4, 0x8, 1), 0xc);
    cr_assert_eq(apply(P_LT, I4, 0xf, 0), 1);
    cr_assert_eq(apply(P_LT, U4, 0xf, 0), 0);
    cr_assert_eq(apply(P_NOT, BOOL, 1, 0), 0);
    cr_assert_eq(apply(P_NOT, U2, 1, 0), 2);
}

static double apply_f32(Prim p, double x, double y) {
    return bits_to_double(F32, apply(p, F32, bits_of_double(F32, x), bits_of_double(F32, y)));
}

Test(body, floats_are_total) {
    cr_assert(isnan(apply_f32(P_MAX, NAN, 1)) && isnan(apply_f32(P_MIN, 1, NAN)));
    cr_assert(!signbit(apply_f32(P_MAX, -0.0, 0.0)) && !signbit(apply_f32(P_MAX, 0.0, -0.0)));
    cr_assert(signbit(apply_f32(P_MIN, -0.0, 0.0)) && signbit(apply_f32(P_MIN, 0.0, -0.0)));
    cr_assert_eq(apply_f32(P_MOD, -7, 2), 1);
    cr_assert_eq(apply_f32(P_MOD, 7, -2), -1);
    cr_assert_eq(apply_f32(P_REM, -7, 2), -1);
    cr_assert(isnan(apply_f32(P_MOD, 1, 0)));
    cr_assert_eq(apply_f32(P_RINT, 2.5, 0), 2);
    cr_assert_eq(apply_f32(P_NE, NAN, NAN), bits_to_double(F32, 1));
    Bits f[3] = {bits_of_double(F32, 0x1.000002p0), bits_of_double(F32, 0x1.000002p0),
                 bits_of_double(F32, -0x1.000004p0)};
    cr_assert_eq(bits_to_double(F32, prim_apply(P_FMA, F32, F32, f)), 0x1p-46);
    cr_assert_eq(
        bits_to_double(F16, apply(P_MUL, F16, bits_of_double(F16, 300), bits_of_double(F16, 300))),
        INFINITY);
}

/* Both builds of every loop agree with prim_apply on every type. */
static void check_loop(LoopFn *loop, Prim p, DType t, DType result, DType select) {
    enum { N = 400 };
    static uint64_t in[3][N], out[N];
    static Bits bits[3][N];
    if (!loop) return;
    uint64_t state = 0x9e3779b97f4a7c15u;
    int arity = prim_row(p)->arity;
    for (int k = 0; k < arity; k++)
        for (int i = 0; i < N; i++) {
            DType type = k == 0 && select ? select : t;
            size_t size = element_bytes(type);
            bits[k][i] = pattern(type, k ? (int)(next_random(&state) % N) : i, &state);
            memcpy((char *)in[k] + size * (size_t)i, &bits[k][i], size);
        }
    loop(out, in[0], in[1], in[2], N);
    for (int i = 0; i < N; i++) {
        Bits arg[3] = {bits[0][i], bits[1][i], bits[2][i]};
        Bits want = prim_apply(p, result, t, arg);
        Bits got = column_get((Column){result, out}, i);
        cr_assert(same(result, want, got), "%s %s -> %s of %lx %lx %lx: %lx, not %lx",
                  prim_row(p)->name, dtype_name(t), dtype_name(result), arg[0], arg[1], arg[2], got,
                  want);
    }
}

static void check_loops(LoopFn *find(Prim, DType, DType)) {
    for (int t = 1; t < DT_COUNT; t++) {
        for (int p = 1; p < PRIM_COUNT; p++) {
            Typing typing = prim_row((Prim)p)->typing;
            if (!takes((Prim)p, (DType)t) || prim_row((Prim)p)->defined) continue;
            DType result = typing == TYPE_COMPARE ? BOOL : (DType)t;
            check_loop(find((Prim)p, result, (DType)t), (Prim)p, (DType)t, result,
                       typing == TYPE_SELECT ? BOOL : DT_NONE);
        }
        for (int to = 1; to < DT_COUNT; to++) {
            if (!is_scalar((DType)t) || !is_scalar((DType)to)) continue;
            check_loop(find(P_CVT, (DType)to, (DType)t), P_CVT, (DType)t, (DType)to, DT_NONE);
        }
    }
}

Test(body, loops_are_prim_apply) {
    check_loops(loop_find);
    for (int t = F64; t <= F32; t++)
        for (int p = P_ADD; p <= P_SELECT; p++)
            if (takes((Prim)p, (DType)t)) cr_assert(loop_find((Prim)p, F32, (DType)t));
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        check_loops(loop_find_x86v3);
#endif
}

/* The engine, small floats expanded to f32 and all, gives prim_apply's bits. */
static void check_engine(Prim p, DType t, DType to) {
    static Columns columns;
    const PrimRow *row = prim_row(p);
    Body b = {.arena = arena};
    int args[3];
    uint64_t state = 88172645463325252u;
    for (int k = 0; k < row->arity; k++) {
        DType type = k == 0 && row->typing == TYPE_SELECT ? BOOL : t;
        args[k] = body_param(&b, k, type);
        for (int i = 0; i < COLUMN_MAX; i++)
            columns.at[k][i] = pattern(type, k ? (int)(next_random(&state) % 999) : i, &state);
    }
    int r = to ? body_prim_as(&b, p, to, args[0]) : body_prim(&b, p, args);
    DType result = b.val.at[r].type;
    BodyCode *code = body_compile(arena, &b);
    BodyFrame *frame = body_frame(arena, code);
    body_run(code, frame, COLUMN_MAX, fill_params, &columns);
    Column out = body_column(code, frame, r);
    for (int i = 0; i < COLUMN_MAX; i++) {
        Bits arg[3] = {columns.at[0][i], columns.at[1][i], columns.at[2][i]};
        Bits want = to == t ? arg[0] : prim_apply(p, result, t, arg);
        cr_assert(same(result, want, column_get(out, i)), "%s %s %s of %lx %lx %lx: %lx, not %lx",
                  row->name, dtype_name(t), dtype_name(result), arg[0], arg[1], arg[2],
                  column_get(out, i), want);
    }
}

Test(body, engine_is_prim_apply) {
    for (int t = 1; t < DT_COUNT; t++) {
        if (!is_scalar((DType)t)) continue;
        for (int p = 1; p < PRIM_COUNT; p++)
            if (takes((Prim)p, (DType)t) && !prim_row((Prim)p)->defined)
                check_engine((Prim)p, (DType)t, DT_NONE);
        for (int to = 1; to < DT_COUNT; to++) {
            if (!is_scalar((DType)to)) continue;
            check_engine(P_CVT, (DType)t, (DType)to);
            check_engine(P_CVTINF, (DType)t, (DType)to);
            if (dtype_bits((DType)t) == dtype_bits((DType)to) && t != BOOL && to != BOOL)
                check_engine(P_BITCAST, (DType)t, (DType)to);
        }
    }
}

/* ---- building ------------------------------------------------------------------------------- */

Test(body, equal_values_are_shared_and_constants_fold) {
    Body b = {.arena = arena};
    int x = body_param(&b, 0, F32), two = body_const(&b, F32, 2);
    int y = body_prim2(&b, P_MUL, x, two);
    cr_assert_eq(y, body_prim2(&b, P_MUL, x, body_const(&b, F32, 2)));
    cr_assert_neq(y, body_prim2(&b, P_MUL, two, x));
    cr_assert_eq(body_prim2(&b, P_MUL, two, two), body_const(&b, F32, 4));
    cr_assert_eq(body_prim2(&b, P_MUL, x, body_const(&b, F32, 1)), x);
    cr_assert_eq(body_prim2(&b, P_SUB, x, body_const(&b, F32, 0)), x);
    cr_assert_neq(body_prim2(&b, P_ADD, x, body_const(&b, F32, 0)), x, "-0 + 0 is +0");
    cr_assert_eq(body_prim2(&b, P_ADD, x, body_const(&b, F32, -0.0)), x);
    cr_assert_eq(body_prim2(&b, P_ADD, body_const(&b, F32, -0.0), x), x);
    cr_assert_neq(body_prim2(&b, P_ADD, body_const(&b, F32, 0), x), x);
    cr_assert_eq(body_cvt(&b, F32, x), x);
    cr_assert(body_const_bits(&b, body_prim1(&b, P_EXP, two), NULL));
    Dim i = dim_sym(ctx, "i");
    Access at = {3, 1, &i};
    int r = body_read(&b, at, F32);
    cr_assert_eq(r, body_read(&b, at, F32));
    cr_assert_neq(r, body_read_else(&b, at, F32, two));
    cr_assert_eq(body_index(&b, dim_addc(ctx, i, 1)), body_index(&b, dim_addc(ctx, i, 1)));
    cr_assert_eq(b.val.at[body_index(&b, dim_const(ctx, 5))].kind, VAL_CONST);
    int c = body_prim2(&b, P_LT, x, two);
    cr_assert_eq(body_prim3(&b, P_SELECT, c, x, x), x);
    cr_assert_eq(body_prim3(&b, P_SELECT, body_bits(&b, BOOL, 0), x, two), two);
}

Test(body, many_values_stay_shared) {
    Body b = {.arena = arena};
    int x = body_param(&b, 0, I64), first[500];
    for (int i = 0; i < 500; i++) first[i] = body_prim2(&b, P_MUL, x, body_const(&b, I64, i + 2));
    int n = b.val.n;
    for (int i = 499; i >= 0; i--)
        cr_assert_eq(first[i], body_prim2(&b, P_MUL, x, body_const(&b, I64, i + 2)));
    cr_assert_eq(b.val.n, n);
}

static int swap_read(void *user, Body *b, const Val *read) {
    const Dim *want = user;
    cr_assert_eq(read->read.at[0], *want);
    return read->read.cont == 7 ? body_const(b, F32, 42) : -1;
}

Test(body, inlining_substitutes_and_keeps_symbols) {
    Body from = {.arena = arena}, b = {.arena = arena};
    Dim i = dim_sym(ctx, "i"), j = dim_sym(ctx, "j"), j1 = dim_addc(ctx, j, 1);
    int id = body_read(&from, (Access){1, 1, &i}, I64);
    Dim row = body_symbol(&from, id, "r");
    int a = body_read(&from, (Access){2, 1, &row}, F32);
    int c = body_read(&from, (Access){7, 1, &i}, F32);
    int sum = body_prim2(&from, P_ADD, a, c);
    int other = body_read(&b, (Access){9, 1, &j}, I64);
    cr_assert_str_eq(dim_sym_name(body_symbol(&b, other, "r")), "r");
    int map[16];
    body_inline(&b, &from, &(DimSubst){i, j1}, 1, NULL, NULL, NULL, map);
    const Val *v = &b.val.at[map[sum]];
    cr_assert_eq(v->prim, P_ADD);
    const Val *read = &b.val.at[v->arg[0]], *index = &b.val.at[map[id]];
    cr_assert_eq(index->read.at[0], j1);
    cr_assert(index->sym && index->sym != row, "the name r is taken");
    cr_assert_eq(read->read.at[0], index->sym);
    Body only = {.arena = arena}, again = {.arena = arena};
    body_read(&only, (Access){7, 1, &i}, F32);
    body_inline(&again, &only, &(DimSubst){i, j1}, 1, NULL, swap_read, &j1, map);
    cr_assert(body_const_bits(&again, map[0], NULL));
}

Test(body, pruning_keeps_what_symbols_need) {
    Body b = {.arena = arena};
    Dim i = dim_sym(ctx, "i");
    body_read(&b, (Access){5, 1, &i}, F32);
    int id = body_read(&b, (Access){1, 1, &i}, I64);
    Dim row = dim_addc(ctx, body_symbol(&b, id, "r"), 2);
    int a = body_read_else(&b, (Access){2, 1, &row}, F32, body_const(&b, F32, 3));
    body_prim1(&b, P_SQRT, a);
    int roots[2] = {a, a};
    body_prune(&b, roots, 2);
    cr_assert_eq(b.val.n, 3);
    cr_assert_eq(b.val.at[0].read.cont, 1);
    cr_assert_eq(b.val.at[roots[1]].read.cont, 2);
    cr_assert_eq(b.val.at[roots[0]].arg[0], 1);
    cr_assert_eq(body_const(&b, F32, 3), 1, "sharing goes on after pruning");
}

Test(body, expansion_leaves_no_function_and_no_small_arithmetic) {
    Body b = {.arena = arena}, wide = {.arena = arena};
    int x = body_param(&b, 0, F16), y = body_prim2(&b, P_ADD, body_prim1(&b, P_TANH, x), x);
    body_prim2(&b, P_LT, y, x);
    int map[8];
    body_expand(&wide, &b, NULL, map);
    for (int i = 0; i < wide.val.n; i++) {
        const Val *v = &wide.val.at[i];
        if (v->kind != VAL_PRIM) continue;
        cr_assert_not(prim_row(v->prim)->defined);
        DType operand = wide.val.at[v->arg[0]].type;
        cr_assert((v->type != F16 && operand != F16) || v->prim == P_CVT);
    }
    cr_assert_eq(wide.val.at[map[y]].type, F16);
}

/* ---- expressions ---------------------------------------------------------------------------- */

static double value(const char *text, DType literal) {
    Body b = {.arena = arena};
    Bits bits;
    int r = body_expr(&b, text, NULL, 0, NULL, 0, literal);
    cr_assert(body_const_bits(&b, r, &bits), "%s", text);
    return bits_to_double(b.val.at[r].type, bits);
}

Test(body, expressions_have_precedence_of_c) {
    cr_assert_eq(value("2 + 3 * 4 - 10 / 5", I64), 12);
    cr_assert_eq(value("2 - 3 - 4", I64), -5);
    cr_assert_eq(value("-2 * -(3 + 4)", F32), 14);
    cr_assert_eq(value("1 | 6 & 4 ^ 1", I64), 5);
    cr_assert_eq(value("1 << 2 + 1", I64), 8);
    cr_assert_eq(value("7 % 4 == 3 & 1 < 2", BOOL), 1);
    cr_assert_eq(value("-7 % 4", I64), 1);
    cr_assert_eq(value("fma(2, 3, 4)", F64), 10);
    cr_assert_eq(value("select(1 < 2, 0x1.8p1, 5)", F32), 3);
    cr_assert_eq(value("t = 3; u = t * t; u + t", I32), 12);
    cr_assert_eq(value("bitcast:i32(f32(1))", F32), 0x3f800000);
    cr_assert_eq(value("i64(f32(0.1) * 100)", F32), 10);
    cr_assert_eq(value("cvtinf:f8e5m2(1e9)", F32), INFINITY);
    cr_assert_eq(value("f8e5m2(1e9)", F32), value("f8e5m2(f32(1e9))", F32));
    cr_assert_eq(value("1e-3", F64), 1e-3);
    cr_assert_eq(value("0.1", F32), 0.1f);
    cr_assert(isnan(value("nan", F32)) && value("-inf", F16) == -INFINITY);
    cr_assert_eq(value("lowest", I8), -128);
    cr_assert_eq(value("highest", U8), 255);
    cr_assert_eq(value("lowest", F32), -INFINITY);
    cr_assert_eq(value("lowest", F8E4M3FN), -448);
    cr_assert_eq(value("not(false)", BOOL), 1);
}

Test(body, literals_take_the_other_type) {
    Body b = {.arena = arena};
    Dim i = dim_sym(ctx, "i");
    int args[2] = {body_param(&b, 0, F64), body_param(&b, 1, I8)};
    int r = body_expr(&b, "$0 * (1 + 2) > 0.5", args, 2, &i, 1, F32);
    cr_assert_eq(b.val.at[r].type, BOOL);
    r = body_expr(&b, "select($1 == 3, $1, -1)", args, 2, &i, 1, F32);
    cr_assert_eq(b.val.at[r].type, I8);
    r = body_expr(&b, "f32(#0) + 1", args, 2, &i, 1, F64);
    cr_assert_eq(b.val.at[r].type, F32);
    cr_assert_eq(b.val.at[body_expr(&b, "1", args, 2, &i, 1, F64)].type, F64);
}

/* Errors of a user's text come through the scan's own `error`. */
static _Noreturn void user_error(ExprScan *scan, const char *message) {
    fail(arena_ctx(scan->body->arena), E_SYNTAX, "%s", message);
}

static void read_bad(void *text) {
    Body b = {.arena = arena};
    ExprScan scan;
    expr_scan_text(&scan, &b, text);
    scan.error = user_error;
    expr_bind(&scan, "x", body_param(&b, 0, F32));
    expr_bind(&scan, "i", body_param(&b, 1, I64));
    Expr *result[2];
    int n = expr_block(&scan, F32, result, 2);
    for (int k = 0; k < n; k++) expr_build(&scan, result[k], expr_type(result[k]) ? DT_NONE : I8);
    if (scan.tok.kind != EXPR_END) scan.error(&scan, "more text");
}

Test(body, bad_expressions_are_refused) {
    static const char *const bad[] = {
        "x + i",     "x & x",           "sqrt(i)",        "y",      "x +",        "(x",  "max(x)",
        "300",       "select(x, x, x)", "bitcast:i64(x)", "1 2",    "string(x)",  "x i", "0x",
        "(x, x, x)", "not(x)",          "cvtinf(x)",      "exp(1)", "f32:i32(x)", "1.5",
    };
    for (size_t k = 0; k < sizeof bad / sizeof *bad; k++)
        cr_assert_not(ctx_try(ctx, read_bad, (void *)bad[k]), "%s", bad[k]);
    cr_assert(ctx_try(ctx, read_bad, (void *)"t = x * 2 (t, i)"));
    static char deep[200001];
    memset(deep, '(', 200000);
    cr_assert_not(ctx_try(ctx, read_bad, deep));
    memset(deep, '-', 200000);
    cr_assert_not(ctx_try(ctx, read_bad, deep));
    for (int k = 0; k < 100000; k++) memcpy(deep + 2 * k, "x+", 2);
    deep[199999] = 0;
    cr_assert_not(ctx_try(ctx, read_bad, deep));
}

/* ---- columns in use ------------------------------------------------------------------------- */

/* A value asked for after the run is still in its column, and short columns are right too. */
Test(body, callers_values_keep_their_columns) {
    static Columns columns;
    Body b = {.arena = arena};
    int x = body_param(&b, 0, F32),
        prims[7] = {P_EXP, P_TANH, P_ERF, P_SIN, P_SIGMOID, P_LOG, P_EXP};
    int v[8] = {x};
    for (int k = 0; k < 7; k++) v[k + 1] = body_prim1(&b, (Prim)prims[k], v[k]);
    for (int i = 0; i < COLUMN_MAX; i++) columns.at[0][i] = bits_of_double(F32, i * 0.01 - 2);
    BodyCode *code = body_compile(arena, &b);
    BodyFrame *frame = body_frame(arena, code);
    for (int n = 1; n <= COLUMN_MAX; n = n * 3 + 1) {
        body_run(code, frame, n, fill_params, &columns);
        for (int k = 0; k < 7; k++) {
            Body one = {.arena = arena};
            body_prim1(&one, (Prim)prims[k], body_const(&one, F32, 0));
            Body step = {.arena = arena};
            Bits in = column_get(body_column(code, frame, v[k]), n - 1), out;
            int r = body_prim1(&step, (Prim)prims[k], body_bits(&step, F32, in));
            cr_assert(body_const_bits(&step, r, &out));
            cr_assert(same(F32, out, column_get(body_column(code, frame, v[k + 1]), n - 1)));
        }
    }
}
