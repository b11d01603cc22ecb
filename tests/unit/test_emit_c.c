/* SPDX-License-Identifier: Apache-2.0 */
/* Emitted C against the evaluator, bit for bit: every primitive on every type, as lanes with a
 * masked tail and as scalars, and hand-written nests of the shapes that kernels have. All nests
 * become one unit, which both compilers translate for each level of the instruction set that this
 * processor runs. */
#include <criterion/criterion.h>
#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "compiler/embedded.h"
#include "compiler/targets/c/c_nest.h"
#include "compiler/targets/c/target.h"
#include "runtime/weir_rt.h"

enum { CASES = 4096, BUFS = 8, COUNT = 77 };

typedef struct Task {
    int64_t lo, hi;
    char *scratch;
    int32_t bad;
} Task;

typedef struct Case {
    const char *text;
    const Nest *nest;
    CKernel *kernel;
    Tensor in[BUFS], out[BUFS]; /* out: what the evaluator left */
    bool bad;
} Case;

typedef struct Suite {
    Ctx *ctx;
    Arena *arena;
    Case at[CASES];
    int n;
    const char *cpu;
    Machine machine;
    char message[512];
} Suite;

static void see(void *user, const Diag *diag) {
    Suite *s = user;
    snprintf(s->message, sizeof s->message, "%s", diag->message);
}

static bool value_of(void *user, Dim sym, int64_t *value) {
    (void)user;
    *value = strcmp(dim_sym_name(sym), "N") == 0   ? COUNT
             : strcmp(dim_sym_name(sym), "K") == 0 ? 9
                                                   : 5;
    return true;
}

/* ---- data ------------------------------------------------------------------------------------ */

static uint32_t next_random(uint32_t *seed) {
    *seed = *seed * 1664525u + 1013904223u;
    return *seed >> 8;
}

/* Values that hurt: zeros of both signs, extremes, NaN, halves, and ordinary ones. */
static Bits sample(DType t, uint32_t *seed) {
    static const double floats[] = {
        0.0,          -0.0,   1,       -1,     0.5,          -0.5,
        1.5,          2.5,    -2.5,    3e38,   -3e38,        1e-40,
        300,          -300,   65504,   65520,  2147483648.0, -2147483648.0,
        4294967296.0, 9.3e18, -9.3e18, 1.9e19, 127.5,        255.5,
        448,          500,    6,       7,      1e-8,         0.017,
        3.0009};
    uint32_t r = next_random(seed);
    if (t == BOOL) return r & 1;
    if (dtype_is_float(t)) {
        if (r % 16 == 0) return bits_of_double(t, NAN);
        if (r % 16 == 1) return bits_of_double(t, INFINITY);
        if (r % 16 == 2) return bits_of_double(t, -INFINITY);
        if (r % 4 == 3) return bits_of_double(t, ((double)next_random(seed) / (1 << 23) - 1) * 8);
        return bits_of_double(t, floats[next_random(seed) % (sizeof floats / sizeof *floats)]);
    }
    int bits = dtype_bits(t);
    Bits all = bits == 64 ? ~(Bits)0 : ((Bits)1 << bits) - 1;
    switch (r % 8) {
    case 0: return 0;
    case 1: return all;
    case 2: return (Bits)1 << (bits - 1);
    case 3: return all >> 1;
    case 4: return (Bits)(next_random(seed) % 70) & all;
    default:
        return ((Bits)next_random(seed) << 40 ^ (Bits)next_random(seed) << 20 ^ next_random(seed)) &
               all;
    }
}

/* Buffers called "index..." hold indices; "normal..." no subnormal numbers. */
static void fill(Suite *s, Case *c, int k, uint32_t seed) {
    const Buf *b = &c->nest->buf.at[k];
    int64_t n = 1;
    Tensor *t = &c->in[k];
    *t = (Tensor){.type = b->type, .rank = b->rank};
    for (int d = 0; d < b->rank; d++) {
        dim_eval(b->box[d], value_of, NULL, &t->dim[d]);
        n *= t->dim[d];
    }
    bool index = strncmp(b->name, "index", 5) == 0, normal = strncmp(b->name, "normal", 6) == 0;
    t->data = arena_alloc(s->arena, (size_t)dtype_bytes(b->type, n) + 64);
    for (int64_t i = 0; i < n; i++) {
        Bits v = index ? next_random(&seed) % 5 : sample(b->type, &seed);
        if (normal && fpclassify((float)bits_to_double(b->type, v)) == FP_SUBNORMAL) v = 0;
        mem_set(b->type, t->data, i, v);
    }
    c->out[k] = *t;
    c->out[k].data = arena_copy(s->arena, t->data, (size_t)dtype_bytes(b->type, n) + 64);
}

static int64_t bytes_of(const Tensor *t) {
    int64_t n = 1;
    for (int d = 0; d < t->rank; d++) n *= t->dim[d];
    return dtype_bytes(t->type, n);
}

/* ---- cases ----------------------------------------------------------------------------------- */

static Suite *suite;
static const char *current;

static void add_parsed(void *at) {
    Case *c = at;
    const char *end;
    c->nest = nest_parse(suite->arena, c->text, &end);
    for (int k = 0; k < c->nest->buf.n; k++)
        if (c->nest->buf.at[k].kind == BUF_MEMORY) fill(suite, c, k, (uint32_t)(suite->n * 31 + k));
    nest_eval(c->nest, c->out, value_of, NULL);
    c->kernel = emit_nest(suite->arena, c->nest, NULL, &suite->machine, &c_form);
}

static void add(const char *text) {
    Case *c = &suite->at[suite->n];
    *c = (Case){.text = text};
    bool ok = ctx_try(suite->ctx, add_parsed, c);
    cr_assert(ok, "%s\n%s", suite->message, text);
    suite->n++;
}

#define P(...) arena_printf(suite->arena, __VA_ARGS__)

/* y = e(a, b, c), in lanes and as scalars. */
static void add_map(const char *r, const char *ta, const char *tb, const char *tc, const char *e) {
    const char *head =
        P("nest k on cpu (N in 1..) {\n mem a : %s[N]\n mem b : %s[N]\n mem c : %s[N]\n"
          " mem y : %s[N] written\n",
          ta, tb, tc, r);
    add(P("%s parallel p : (N+15)/16 { for l : 16 vector if N - 16*p - l > 0 {\n body {\n"
          "  x <- a[16*p+l]\n  u <- b[16*p+l]\n  v <- c[16*p+l]\n  r = %s\n  r -> y[16*p+l]\n } } "
          "} }\n",
          head, e));
    add(P("%s parallel p : N { body {\n  x <- a[p]\n  u <- b[p]\n  v <- c[p]\n  r = %s\n  r -> "
          "y[p]\n } } }\n",
          head, e));
}

static const char *const all_types[] = {
    "f64", "f32", "f16", "bf16", "f8e4m3fn", "f8e4m3fnuz", "f8e5m2", "f8e5m2fnuz", "i64", "i32",
    "i16", "i8",  "i4",  "u64",  "u32",      "u16",        "u8",     "u4",         "bool"};
enum { TYPES = sizeof all_types / sizeof *all_types };

static void add_prims(void) {
    for (int i = 0; i < TYPES; i++) {
        const char *t = all_types[i];
        DType type = dtype_parse(t);
        for (Prim p = 1; p < PRIM_COUNT; p++) {
            const PrimRow *row = prim_row(p);
            if (row->defined || row->typing == TYPE_CONVERT || row->typing == TYPE_BITCAST)
                continue;
            bool small = dtype_is_float(type) && dtype_bits(type) < 32, whole = dtype_is_int(type);
            if (small && row->typing != TYPE_SELECT) continue;
            if (row->typing == TYPE_FLOAT && !dtype_is_float(type)) continue;
            if (row->typing == TYPE_LOGIC && dtype_is_float(type)) continue;
            if (type == BOOL && (row->typing == TYPE_SAME || p == P_SHL || p == P_SHR)) continue;
            if (p == P_SELECT)
                add_map(t, "bool", t, t, "select(x, u, v)");
            else if (row->arity == 1)
                add_map(t, t, t, t, P("%s(x)", row->name));
            else if (row->arity == 3)
                add_map(t, t, t, t, P("%s(x, u, v)", row->name));
            else
                add_map(row->typing == TYPE_COMPARE ? "bool" : t, t, t, t,
                        row->spelling ? P("x %s u", row->spelling) : P("%s(x, u)", row->name));
            if (whole && (p == P_DIV || p == P_REM || p == P_MOD || p == P_SHL || p == P_SHR))
                add_map(t, t, t, t,
                        row->spelling ? P("x %s 3", row->spelling) : P("%s(x, 3)", row->name));
        }
    }
    static const char *const bounds[] = {"0", "-0.0", "6", "inf"};
    for (int i = 0; i < 4; i++) {
        add_map("f32", "f32", "f32", "f32", P("max(x, %s)", bounds[i]));
        add_map("f32", "f32", "f32", "f32", P("min(x, %s)", bounds[i]));
    }
}

static void add_conversions(void) {
    for (int i = 0; i < TYPES; i++)
        for (int j = 0; j < TYPES; j++) {
            if (i == j) continue;
            add_map(all_types[j], all_types[i], "f32", "f32", P("%s(x)", all_types[j]));
            bool f8 = strncmp(all_types[j], "f8", 2) == 0;
            if (f8 && dtype_is_float(dtype_parse(all_types[i])))
                add_map(all_types[j], all_types[i], "f32", "f32", P("cvtinf:%s(x)", all_types[j]));
            int bits = dtype_bits(dtype_parse(all_types[i]));
            if (bits == dtype_bits(dtype_parse(all_types[j])) && bits >= 8 && i != TYPES - 1 &&
                j != TYPES - 1)
                add_map(all_types[j], all_types[i], "f32", "f32", P("bitcast:%s(x)", all_types[j]));
        }
}

static const char *const nests[] = {
    /* register tile with rest in rows and lanes */
    "nest gemm on cpu (N in 1..) {\n mem x : f32[N,9]\n mem w : f32[9,40]\n mem y : f32[N,40] "
    "written\n parallel p : (N+3)/4 { parallel q : 2 {\n  reg h : f32[4,3,16] = 0\n  for k : 9 { "
    "for m : 4 unroll { if N - 4*p - m > 0 {\n   for n : 3 unroll { for l : 16 vector if 40 - 16*n "
    "- l > 0 {\n    h[m,n,l] = fma(x[4*p+m,k], w[k,16*n+l], h[m,n,l]) } } } } }\n  for m : 4 "
    "unroll { if N - 4*p - m >= 1 { for n : 3 unroll { for l : 16 vector if 40 - 16*n - l > 0 {\n  "
    " y[4*p+m,16*n+l] = max(h[m,n,l], 0) } } } } } } }\n",
    /* sum and maximum of rows, folded */
    "nest rows on cpu (N in 1..) {\n mem x : f32[7,N]\n mem s : f32[7] written\n mem m : f32[7] "
    "written\n parallel i : 7 {\n  reg a : f32[16] = 0\n  reg b : f32[16] = -inf\n  reg c : "
    "f32[]\n  reg d : f32[]\n  for j : (N+15)/16 { for l : 16 vector if N - 16*j - l > 0 {\n   "
    "a[l] = a[l] + x[i,16*j+l]\n   b[l] = max(b[l], x[i,16*j+l]) } }\n  fold sum:f32 16 a[0] -> "
    "c[]\n  fold max:f32 16 b[0] -> d[]\n  s[i] = c[]\n  m[i] = d[] } }\n",
    /* strided and scattered */
    "nest move on cpu (N in 1..) {\n mem x : f32[16,N]\n mem y : f32[N,16] written\n mem z : "
    "f32[16,N] written\n"
    " parallel i : N { for l : 16 vector { y[i,l] = x[l,i] } for l : 16 vector { z[l,i] = y[i,l] * "
    "2 } } }\n",
    /* sums in tiles: rows of two dims, in line with one vector, apart with two */
    "nest tiles on cpu {\n mem x : u8[3,7,128]\n mem w : i8[32,16,4]\n mem y : i32[3,7,16] "
    "written\n parallel p : 1 {\n tile s : i32[3,7,1,16]\n use tiles { for h : 3 { for i : 7 { for "
    "l : 16 vector { s[h,i,0,l] = 0 } } }\n for k : 2 { use "
    "tdpbusd {\n for g : 16 { for h : 3 { for i : 7 { use vpdpbusd512 { for q : 4 unroll { for l "
    ": 16 vector {\n s[h,i,0,l] = fma(i32(x[h,i,64*k+4*g+q]), i32(w[16*k+g,l,q]), s[h,i,0,l]) } "
    "} } } } } } } }\n for h : 3 { for i : 7 { for l : 16 vector { y[h,i,l] = s[h,i,0,l] } } } } "
    "}\n",
    "nest halves on cpu {\n mem x : u16[2,7,32]\n mem w : u16[16,32,2]\n mem y : f32[2,5,32] "
    "written\n mem a : bf16[2,7,32] written\n mem b : bf16[16,32,2] written\n parallel p : 1 {\n "
    "for h : 2 { for i : 7 { for k : 32 { a[h,i,k] = bf16(x[h,i,k] & 15) } } }\n for g : 16 { "
    "for j : 32 { for q : 2 { b[g,j,q] = bf16(w[g,j,q] & 15) } } }\n tile s : f32[2,5,2,16]\n "
    "use tiles { for h : 2 { for i : 5 { for j : 2 { for l : 16 vector { s[h,i,j,l] = 0 } } } }\n "
    "use tdpbf16ps { for g : 16 {\n for h : 2 { for i : 5 { for j : 2 { use "
    "vdpbf16ps512 { for q : 2 unroll { for l : 16 vector {\n s[h,i,j,l] = "
    "fma(f32(a[h,i+1,2*g-q+1]), f32(b[g,16*j+l,-q+1]), s[h,i,j,l]) } } } } } } } } }\n for h : 2 "
    "{ for i : 5 { for j : 2 { for l : 16 vector { y[h,i,16*j+l] = s[h,i,j,l] } } } } } }\n",
    /* rows whose number is not known: in tiles, and one by one */
    "nest some on cpu (N in 1..) {\n mem x : u8[N,64]\n mem w : i8[16,16,4]\n mem y : i32[N,16] "
    "written\n mem z : i32[N,16] written\n parallel p : 1 { if N%32 >= 1 {\n tile s : "
    "i32[31,1,16]\n tile t : i32[31,16] = 3\n use tiles { for i : N%32 { for l : 16 vector { "
    "s[i,0,l] = 0 } } use tdpbusd { for g : 16 { for i : N%32 { use vpdpbusd512 { for q : 4 unroll "
    "{ for l : 16 vector {\n s[i,0,l] = fma(i32(x[i,4*g+q]), i32(w[g,l,q]), s[i,0,l]) } } } } } } "
    "}\n for i : N%32 { use vpdpbusd512 { for q : 4 unroll { for l : 16 vector {\n t[i,l] = "
    "fma(i32(x[i,q]), i32(w[1,l,q]), t[i,l]) } } }\n for l : 16 vector { y[i,l] = s[i,0,l] z[i,l] "
    "= t[i,l] } } } } }\n",
    /* a guard that is no prefix; min of guards */
    "nest guards on cpu (N in 1..) {\n mem x : f32[N]\n mem y : f32[N] written\n mem z : f32[N] "
    "written\n parallel p : (N+15)/16 {\n  for l : 16 vector if 16*p + l - 5 >= 0, N - 16*p - l > "
    "0 {\n   y[16*p+l] = x[16*p+l-5] + 1 }\n  for l : 16 vector if min(N - 16*p - l - 1, 40 - 16*p "
    "- l) >= 0 { z[16*p+l] = x[16*p+l] } } }\n",
    /* indices from data, for lanes and alone */
    "nest gather on cpu (N in 1..) {\n mem index : i64[N]\n mem emb : f32[5,N]\n mem y : f32[N,N] "
    "written\n"
    " mem z : f32[N] written\n parallel i : N {\n  for j : (N+15)/16 { for l : 16 vector if N - "
    "16*j - l > 0 {\n"
    "   body {\n    r <- index[i]\n    v <- emb[r,16*j+l]\n    v -> y[i,16*j+l]\n   } } } }\n"
    " parallel j : (N+15)/16 { for l : 16 vector if N - 16*j - l > 0 { body {\n"
    "    r <- index[16*j+l]\n    v <- emb[r,16*j+l]\n    v -> z[16*j+l]\n } } } }\n",
    /* tile and scratch arrays, a loop between */
    "nest store on cpu (N in 1..) {\n mem x : f32[N]\n mem y : f32[N] written\n parallel p : N {\n"
    "  tile t : f32[20] = 1\n  scratch s : f32[N,3]\n  for i : 20 { t[i] = t[i] + x[p] }\n"
    "  for i : N { s[i,1] = x[i] * t[3] }\n  for i : 4 unroll { t[i] = t[i+1] + s[p,1] }\n  y[p] = "
    "t[2] } }\n",
    /* data in lanes of another type, indices as values */
    "nest iota on cpu (N in 1..) {\n mem x : i32[N]\n mem y : f32[N] written\n mem z : bool[N] "
    "written\n parallel p : (N+15)/16 { for l : 16 vector if N - 16*p - l > 0 { body {\n  i = "
    "16*p+l\n  v <- x[16*p+l]\n  w = select(i % 3 == 1, f32(v), f32(i))\n  w -> y[16*p+l]\n  b = w "
    "< 40 & v > 3\n  b -> z[16*p+l]\n } } } }\n",
    /* a register array that a loop indexes */
    "nest demoted on cpu (N in 1..) {\n mem x : f32[N]\n mem y : f32[N] written\n parallel p : N "
    "{\n"
    "  reg r : f32[6] = 0\n  for k : 5 { r[k+1] = r[k] + x[p] }\n  y[p] = r[5] } }\n",
    /* i4 packed, two a task */
    "nest packed on cpu (N in 1..) {\n mem x : i4[2*N]\n mem y : i4[2*N] written\n parallel p : N "
    "{\n"
    "  for i : 2 unroll { y[2*p+i] = x[2*p+1-i] + 1 } } }\n",
    /* 8 lanes of f64; 32 of u8 */
    "nest wide on cpu (N in 1..) {\n mem x : f64[N]\n mem y : f64[N] written\n mem b : u8[N]\n mem "
    "c : u8[N] written\n"
    " parallel p : (N+7)/8 { for l : 8 vector if N - 8*p - l > 0 { y[8*p+l] = sqrt(abs(x[8*p+l])) "
    "} }\n"
    " parallel p : (N+31)/32 { for l : 32 vector if N - 32*p - l > 0 { c[32*p+l] = max(b[32*p+l], "
    "7) } } }\n",
    /* tuple state: greatest and where */
    "nest argmax on cpu (N in 1..) {\n mem x : f32[3,N]\n mem v : f32[3] written\n mem w : i64[3] "
    "written\n"
    " parallel i : 3 {\n  reg a : f32[16] = -inf\n  reg b : i64[16] = 9223372036854775807\n  reg c "
    ": f32[]\n  reg d : i64[]\n"
    "  for j : (N+15)/16 { for l : 16 vector if N - 16*j - l > 0 { body {\n   y <- x[i,16*j+l]\n   "
    "k = 16*j+l\n"
    "   g <- a[l]\n   h <- b[l]\n   t = y > g\n   select(t, y, g) -> a[l]\n   select(t, k, h) -> "
    "b[l]\n  } } }\n"
    "  fold argmax_first:f32 16 (a[0], b[0]) -> (c[], d[])\n  v[i] = c[]\n  w[i] = d[] } }\n",
};

/* ---- instructions ---------------------------------------------------------------------------- */

/* Two rows that share groups, of codes of which none, some or most have neighbours whose sum is
 * beyond 8 bits, on all lanes and on the first half. */
static void add_pairs(const Instruction *r) {
    for (int bits = 5; r->pairs && bits < 8; bits++)
        for (int half = 0; half < 2; half++)
            add(P(
                "nest pairs on cpu (N in 1..) {\n mem a : u8[N,2,%d]\n mem b : i8[N,%d,%d]\n"
                " mem c : i32[N,2,%d] written\n parallel p : N {\n  reg r : i32[2,%d] = 7\n"
                "  tile s : i8[%d,%d]\n  for l : %d { for q : %d { s[l,q] = b[p,l,q] / %d } }\n"
                "  use %s { for i : 2 unroll { use %s { for q : %d unroll { for l : %d vector %s {"
                " r[i,l] = fma(i32(a[p,i,q]), i32(s[l,q]), r[i,l]) } } } } }\n"
                "  for i : 2 unroll { for l : %d vector { c[p,i,l] = r[i,l] } } } }\n",
                r->group, r->lanes, r->group, r->lanes, r->lanes, r->lanes, r->group, r->lanes,
                r->group, 1 << (7 - bits), r->pairs, r->name, r->group, r->lanes,
                half ? P("if %d >= l", r->lanes / 2 - 1) : "", r->lanes));
}

/* Each row of the table on all lanes and on the first half, whatever the level: without the
 * instruction the helper's plain form runs. */
static void add_instructions(void) {
    int n;
    const CInstruction *rows = target_c_instructions(&n);
    for (int i = 0; i < n; i++) {
        const Instruction *r = &rows[i].row;
        int w = r->lanes, g = r->group;
        const char *q = r->backward ? P("%d - q", g - 1) : "q", *t = dtype_name(r->c);
        const char *of = r->each ? "q,l" : q, *lanes = r->each ? P(",%d", w) : "";
        const char *block = "  use %s { for q : %d unroll { for l : %d vector %s { r[l] = "
                            "fma(%s(normal_a[p,%s]), %s(normal_b[p,l,%s]), r[l]) } } }\n";
        const char *all = P(block, r->name, g, w, "", t, of, t, q);
        const char *half = P(block, r->name, g, w, P("if %d >= l", w / 2 - 1), t, of, t, q);
        add(P("nest use on cpu (N in 1..) {\n mem normal_a : %s[N,%d%s]\n mem normal_b : "
              "%s[N,%d,%d]\n mem c : "
              "%s[N,%d] written\n parallel p : N {\n  reg r : %s[%d] = %s\n%s%s"
              "  for l : %d vector { c[p,l] = r[l] } } }\n",
              dtype_name(r->a), g, lanes, dtype_name(r->b), w, g, t, w, t, w,
              dtype_is_float(r->c) ? "7.0" : "7", all, half, w));
        add_pairs(r);
    }
}

/* ---- compiling ------------------------------------------------------------------------------- */

static const char *unit_text(void) {
    Text body = {.arena = suite->arena}, out = {.arena = suite->arena};
    for (int i = 0; i < suite->n; i++) {
        const CKernel *k = suite->at[i].kernel;
        text_printf(&body,
                    "__attribute__((visibility(\"default\"))) void case%d(void **p, const i64 *s, "
                    "Task *task);\n",
                    i);
        for (int f = 0; f < k->phase.n; f++)
            text_printf(&body, "static void k%d_%d%s", i, f, k->phase.at[f].text);
        text_printf(&body,
                    "void case%d(void **p, const i64 *s, Task *task) {\n (void)p, (void)s;\n", i);
        for (int f = 0; f < k->phase.n; f++) {
            int64_t tasks = 1;
            dim_eval(k->phase.at[f].tasks, value_of, NULL, &tasks);
            text_printf(&body, " task->lo = 0; task->hi = %lld; k%d_%d(", (long long)tasks, i, f);
            for (int b = 0; b < k->buf.n; b++) text_printf(&body, "p[%d], ", k->buf.at[b]);
            for (int b = 0; b < k->symbol.n; b++) text_printf(&body, "s[%d], ", b);
            text_put(&body, "task);\n");
        }
        text_put(&body, "}\n");
    }
    text_put(&out, embedded_text("compiler/targets/c/prelude.h"));
    helpers_emit(target_c_helpers(suite->arena), &out, text_str(&body));
    text_put(&out, text_str(&body));
    return text_str(&out);
}

static uint64_t hash_text(uint64_t h, const char *text) {
    for (; *text; text++) h = (h ^ (unsigned char)*text) * 0x100000001b3;
    return h;
}

/* Where the library of this text, command and compiler is kept from run to run, or NULL: in
 * $XDG_CACHE_HOME/weir-tests, which tools/check sets. Compiling is nearly all of this test's time.
 */
static const char *kept_library(const char *cc, const char *command, const char *text) {
    const char *home = getenv("XDG_CACHE_HOME");
    if (!home || !*home) return NULL;
    char version[256] = "";
    FILE *said = popen(P("%s --version", cc), "r");
    if (!said || !fgets(version, sizeof version, said)) version[0] = '\0';
    if (said) pclose(said);
    uint64_t h = hash_text(hash_text(hash_text(0xcbf29ce484222325, version), command), text);
    const char *folder = P("%s/weir-tests", home);
    mkdir(home, 0777);
    mkdir(folder, 0777);
    return version[0] ? P("%s/emit_c-%016llx.so", folder, (unsigned long long)h) : NULL;
}

static void *compile(const char *cc, const char *folder) {
    const char *file = P("%s/all.c", folder), *so = P("%s/all.so", folder), *text = unit_text();
    Text flags = {.arena = suite->arena};
    text_printf(&flags, "%s -O1 -w -fPIC -shared", cc);
    for (const char *const *flag = target_c_flags(suite->arena, &suite->machine); *flag; flag++)
        text_printf(&flags, " %s", *flag);
    const char *kept = kept_library(cc, text_str(&flags), text);
    void *handle = kept ? dlopen(kept, RTLD_NOW) : NULL;
    if (handle) return handle;
    FILE *f = fopen(file, "w");
    cr_assert(f);
    fputs(text, f);
    fclose(f);
    const char *command = P("%s -o %s %s -lm", text_str(&flags), so, file);
    cr_assert(system(command) == 0, "%s", command);
    handle = dlopen(so, RTLD_NOW);
    cr_assert(handle, "%s", dlerror());
    if (kept && system(P("cp %s %s.$$ && mv %s.$$ %s", so, kept, kept, kept)) != 0) unlink(kept);
    unlink(file);
    unlink(so);
    return handle;
}

static bool same(const Tensor *a, const void *got) {
    int64_t n = 1;
    for (int d = 0; d < a->rank; d++) n *= a->dim[d];
    if (!memcmp(a->data, got, (size_t)bytes_of(a))) return true;
    for (int64_t i = 0; i < n; i++) {
        Bits x = mem_get(a->type, a->data, i), y = mem_get(a->type, got, i);
        bool nan = dtype_is_float(a->type) && isnan(bits_to_double(a->type, x)) &&
                   isnan(bits_to_double(a->type, y));
        if (x == y || nan) continue;
        fprintf(stderr, "%s: %s element %lld of %s is %llx, expected %llx, in\n%s", suite->cpu,
                current, (long long)i, dtype_name(a->type), (unsigned long long)y,
                (unsigned long long)x, "");
        return false;
    }
    return true;
}

typedef void CaseFn(void **p, const int64_t *s, Task *task);

static int run_case(void *so, int i, char *scratch) {
    const Case *c = &suite->at[i];
    CaseFn *fn = (CaseFn *)dlsym(so, P("case%d", i));
    cr_assert(fn);
    void *p[BUFS] = {0};
    int64_t s[4] = {0};
    for (int k = 0; k < c->nest->buf.n && k < BUFS; k++)
        if (c->in[k].data)
            p[k] = arena_copy(suite->arena, c->in[k].data, (size_t)bytes_of(&c->in[k]) + 64);
    for (int k = 0; k < c->kernel->symbol.n; k++) value_of(NULL, c->kernel->symbol.at[k], &s[k]);
    Task task = {.scratch = scratch};
    fn(p, s, &task);
    int wrong = 0;
    for (int k = 0; k < c->nest->buf.n && k < BUFS; k++)
        if (c->in[k].data && !same(&c->out[k], p[k])) wrong++;
    if (wrong) fprintf(stderr, "%s\n", c->text);
    return wrong || task.bad;
}

static void suite_start(const char *cpu) {
    suite = calloc(1, sizeof *suite);
    suite->ctx = ctx_new(see, suite);
    suite->arena = arena_new(suite->ctx);
    suite->cpu = cpu;
    target_c_machine(suite->ctx, &suite->machine, cpu);
}

static void suite_end(void) {
    ctx_free(suite->ctx);
    free(suite);
}

/* The unit as each compiler translates it; run: against the evaluator. */
static void run_unit(const char *const *cc, bool run) {
    char folder[] = "/tmp/weir_emit_XXXXXX";
    cr_assert(mkdtemp(folder));
    char *scratch = aligned_alloc(64, 1 << 20);
    for (; *cc; cc++) {
        current = *cc;
        void *so = compile(*cc, folder);
        int wrong = 0;
        for (int i = 0; run && i < suite->n && wrong < 20; i++) wrong += run_case(so, i, scratch);
        cr_expect(wrong == 0, "%s for %s: %d of %d nests differ from the evaluator", *cc,
                  suite->cpu, wrong, suite->n);
        dlclose(so);
    }
    rmdir(folder);
    free(scratch);
}

static void run_level(const char *cpu, const char *const *cc, bool all) {
    suite_start(cpu);
    for (size_t i = 0; all && i < sizeof nests / sizeof *nests; i++) add(nests[i]);
    add_instructions();
    if (all) add_prims();
    if (all) add_conversions();
    run_unit(cc, true);
    suite_end();
}

static bool runs(const char *cpu) {
    Ctx *ctx = ctx_new(NULL, NULL);
    Machine native, wanted;
    target_c_machine(ctx, &native, "native");
    target_c_machine(ctx, &wanted, cpu);
    ctx_free(ctx);
    return native.vector_bytes >= wanted.vector_bytes;
}

static const char *const compilers[] = {"clang-19", "gcc", NULL};

Test(emit_c, level2, .timeout = 300) {
    run_level("x86-64-v2", (const char *const[]){"clang-19", NULL}, true);
}

Test(emit_c, level3, .timeout = 300) {
    if (runs("x86-64-v3")) run_level("x86-64-v3", compilers, true);
}

Test(emit_c, level4, .timeout = 300) {
    if (runs("x86-64-v4")) run_level("x86-64-v4", compilers, true);
}

Test(emit_c, native_instructions, .timeout = 300) {
    run_level("native", compilers, false);
}

/* Where this processor has no tiles their text is compiled, by levels above run as what it means.
 * The system lets those use tiles who ask, as a library does that asks what the processor has. */
Test(emit_c, matrix_tiles, .timeout = 300) {
    Machine native;
    for (int row = 0; row < 64; row++) (void)weir_cpu_missing((uint64_t)1 << row);
    suite_start("sapphirerapids");
    target_c_machine(suite->ctx, &native, "native");
    for (size_t i = 0; i < sizeof nests / sizeof *nests; i++)
        if (strstr(nests[i], "use tiles")) add(nests[i]);
    cr_assert(suite->n > 0 && suite->machine.nmatrix == 2);
    run_unit(compilers, native.nmatrix == suite->machine.nmatrix);
    suite_end();
}
