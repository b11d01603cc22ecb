/* SPDX-License-Identifier: Apache-2.0 */
/* Packing against the definition: element by element through the layout's map. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/pack.h"

typedef struct Case {
    const char *layout; /* maps of _0 _1 _2 .., then box */
    DType type;
    int rank;
    int64_t shape[4];
    int nmap;
    const char *map[6];
    int64_t box[6];
    bool fill;
    int parts; /* that storage can be cut into */
} Case;

static const Case cases[] = {
    {"blocked", F32, 2, {37, 50}, 3, {"_0/16", "_1", "_0%16"}, {3, 50, 16}, false, 3},
    {"blocked both",
     F32,
     2,
     {64, 48},
     4,
     {"_1/16", "_0/8", "_0%8", "_1%16"},
     {3, 8, 8, 16},
     false,
     3},
    {"transposed", F32, 2, {33, 71}, 2, {"_1", "_0"}, {71, 33}, false, 71},
    {"conv weights",
     F32,
     4,
     {40, 7, 3, 3},
     5,
     {"_0/16", "_1", "_2", "_3", "_0%16"},
     {3, 7, 3, 3, 16},
     false,
     3},
    {"halo",
     F32,
     4,
     {2, 20, 5, 6},
     5,
     {"_0", "_1/16", "_2+1", "_3+1", "_1%16"},
     {2, 2, 7, 8, 16},
     true,
     2},
    {"padded rows", F64, 2, {5, 7}, 2, {"_0", "_1"}, {5, 8}, true, 5},
    {"bytes", U8, 3, {6, 9, 11}, 4, {"_2/4", "_0", "_1", "_2%4"}, {3, 6, 9, 4}, true, 3},
    {"halves", F16, 2, {16, 18}, 3, {"_1/8", "_0", "_1%8"}, {3, 16, 8}, false, 3},
    {"nibbles", I4, 2, {9, 10}, 3, {"_1/4", "_0", "_1%4"}, {3, 9, 4}, true, 1},
    {"wide", C128, 2, {3, 4}, 2, {"_1", "_0"}, {4, 3}, false, 4},
    {"joined dims", F32, 2, {6, 10}, 2, {"(6*_1+_0)/4", "(6*_1+_0)%4"}, {15, 4}, false, 10},
    {"scalar", F32, 0, {0}, 1, {"0"}, {4}, true, 1},
    {"empty", F32, 2, {0, 5}, 2, {"_1", "_0"}, {5, 3}, true, 1},
    {"one dim", I64, 1, {30}, 2, {"_0%5", "_0/5"}, {5, 6}, false, 1},
};
enum { NCASES = sizeof cases / sizeof *cases };

static void on_diag(void *user, const Diag *d) {
    (void)user;
    fprintf(stderr, "%s: %s\n", d->id, d->message);
}

/* "_0/16" and the like: terms over + * / % and parentheses. */
static Dim parse_sum(Ctx *ctx, const char **at);

static Dim parse_atom(Ctx *ctx, const char **at) {
    if (**at == '(') {
        ++*at;
        Dim d = parse_sum(ctx, at);
        ++*at;
        return d;
    }
    if (**at == '_') {
        int k = (int)strtol(*at + 1, (char **)(uintptr_t)at, 10);
        return flow_layout_sym(ctx, k);
    }
    return dim_const(ctx, strtol(*at, (char **)(uintptr_t)at, 10));
}

static Dim parse_product(Ctx *ctx, const char **at) {
    Dim d = parse_atom(ctx, at);
    while (**at == '*' || **at == '/' || **at == '%') {
        char op = *(*at)++;
        Dim b = parse_atom(ctx, at);
        d = op == '*' ? dim_mul(ctx, d, b) : op == '/' ? dim_div(ctx, d, b) : dim_mod(ctx, d, b);
    }
    return d;
}

static Dim parse_sum(Ctx *ctx, const char **at) {
    Dim d = parse_product(ctx, at);
    while (**at == '+') {
        ++*at;
        d = dim_add(ctx, d, parse_product(ctx, at));
    }
    return d;
}

static Cont make_cont(Arena *arena, const Case *c) {
    Ctx *ctx = arena_ctx(arena);
    Dim *shape = NEW_ARRAY(arena, Dim, c->rank);
    Dim *map = NEW_ARRAY(arena, Dim, c->nmap), *box = NEW_ARRAY(arena, Dim, c->nmap);
    int64_t count = 1;
    for (int k = 0; k < c->rank; k++) {
        shape[k] = dim_const(ctx, c->shape[k]);
        count *= c->shape[k];
    }
    for (int k = 0; k < c->nmap; k++) {
        const char *at = c->map[k];
        map[k] = parse_sum(ctx, &at);
        box[k] = dim_const(ctx, c->box[k]);
    }
    Layout *layout = NEW(arena, Layout);
    *layout = (Layout){.rank = c->nmap, .map = map, .box = box, .has_fill = c->fill};
    if (c->fill) layout->fill = bits_of_int(c->type, 3);
    int64_t bytes = dtype_bytes(c->type, count);
    unsigned char *data =
        (unsigned char *)arena_alloc(arena, (size_t)bytes + 2) + 1; /* views are not aligned */
    for (int64_t i = 0; i < bytes; i++) data[i] = (unsigned char)(rand() >> 5);
    return (Cont){.name = "w",
                  .kind = CONT_PARAM,
                  .type = c->type,
                  .rank = c->rank,
                  .shape = shape,
                  .layout = layout,
                  .data = data,
                  .data_bytes = bytes};
}

typedef struct At {
    Ctx *ctx;
    const int64_t *index;
    int rank;
} At;

static bool index_value(void *user, Dim sym, int64_t *value) {
    const At *at = user;
    for (int k = 0; k < at->rank; k++) {
        if (flow_layout_sym(at->ctx, k) != sym) continue;
        *value = at->index[k];
        return true;
    }
    return false;
}

static int64_t address(Ctx *ctx, const Cont *c, const int64_t *index) {
    int64_t at = 0;
    for (int k = 0; k < c->layout->rank; k++) {
        int64_t part, box;
        At user = {ctx, index, c->rank};
        cr_assert(dim_eval(c->layout->map[k], index_value, &user, &part));
        cr_assert(dim_is_const(c->layout->box[k], &box));
        cr_assert(part >= 0 && part < box);
        at = at * box + part;
    }
    return at;
}

/* Compares elements as bytes or bits. */
static void same_element(const Case *c, const void *a, int64_t i, const void *b, int64_t j) {
    int size = dtype_bits(c->type) / 8;
    if (size)
        cr_assert(memcmp((const char *)a + i * size, (const char *)b + j * size, (size_t)size) == 0,
                  "%s", c->layout);
    else
        cr_assert(mem_get(c->type, a, i) == mem_get(c->type, b, j), "%s", c->layout);
}

/* Parts of any size make the whole; returns how many there are. */
static int check_parts(Arena *arena, const Pack *p, const unsigned char *packed, int64_t most) {
    int64_t at = 0, done = 0, end = pack_bytes(p);
    int n = 0;
    unsigned char *parts = arena_alloc(arena, (size_t)end + 1);
    for (; done < end; n++) {
        Pack part = pack_part(p, &at, most);
        cr_assert(done + pack_bytes(&part) <= end);
        pack_run(&part, parts + done);
        done += pack_bytes(&part);
    }
    cr_assert(memcmp(parts, packed, (size_t)end) == 0, "in parts of %lld bytes", (long long)most);
    return n;
}

static void check_case(Arena *arena, const Case *c) {
    Ctx *ctx = arena_ctx(arena);
    Cont cont = make_cont(arena, c);
    Pack p = pack_plan(arena, ctx, &cont);
    size_t bytes = (size_t)pack_bytes(&p);
    unsigned char *packed = arena_alloc(arena, bytes + 16),
                  *used = arena_alloc(arena, (size_t)p.storage + 1);
    memset(packed, 0x5a, bytes + 16);
    pack_run(&p, packed);
    for (int i = 0; i < 16; i++)
        cr_assert(packed[bytes + (size_t)i] == 0x5a, "%s: past the end", c->layout);
    cr_assert_eq(check_parts(arena, &p, packed, 1), c->parts, "%s", c->layout);
    for (int64_t most = 2; most < 2 * (int64_t)bytes; most *= 3)
        check_parts(arena, &p, packed, most);
    int64_t index[4] = {0}, n = 0;
    for (bool more = p.count > 0; more; n++) {
        int64_t to = address(ctx, &cont, index);
        cr_assert(!used[to]);
        used[to] = 1;
        same_element(c, packed, to, cont.data, n);
        int k = c->rank - 1;
        for (; k >= 0 && ++index[k] == c->shape[k]; k--) index[k] = 0;
        more = k >= 0;
    }
    cr_assert(n == p.count);
    if (dtype_bits(c->type) > 64) return;
    Bits fill = c->fill ? cont.layout->fill : 0;
    for (int64_t i = 0; i < p.storage; i++)
        if (!used[i]) cr_assert(mem_get(c->type, packed, i) == fill, "%s: hole", c->layout);
}

static void check_all(void *arg) {
    for (int i = 0; i < NCASES; i++) check_case(arena_new(arg), &cases[i]);
}

Test(pack, layouts) {
    Ctx *ctx = ctx_new(on_diag, NULL);
    cr_assert(ctx_try(ctx, check_all, ctx));
    ctx_free(ctx);
}

/* Marks behind the storage, where neighbours add up to more than a byte holds, by their places. */
static void check_marks(void *arg) {
    Arena *arena = arena_new(arg);
    static int8_t data[5 * 24];
    Dim sym[2] = {flow_layout_sym(arg, 0), flow_layout_sym(arg, 1)}, two = dim_const(arg, 2);
    Dim shape[2] = {dim_const(arg, 24), dim_const(arg, 5)};
    Dim map[3] = {dim_div(arg, sym[0], two), sym[1], dim_mod(arg, sym[0], two)};
    Dim box[3] = {dim_const(arg, 12), dim_const(arg, 5), two};
    Layout layout = {.rank = 3, .map = map, .box = box, .has_fill = true, .marks = true};
    Cont cont = {.name = "w",
                 .kind = CONT_PARAM,
                 .type = I8,
                 .rank = 2,
                 .shape = shape,
                 .layout = &layout,
                 .data = data};
    data[5 * 4 + 3] = 127, data[5 * 5 + 3] = 0;     /* at 26: 127 */
    data[5 * 6 + 4] = 127, data[5 * 7 + 4] = 1;     /* at 38: 128 */
    data[5 * 8 + 4] = -128, data[5 * 9 + 4] = 127;  /* at 48: -1 */
    data[5 * 14 + 0] = -128, data[5 * 15 + 0] = -1; /* at 70: -129 */
    data[5 * 22 + 0] = -128;                        /* at 110: -128 */
    Pack p = pack_plan(arena, arg, &cont);
    uint8_t packed[5 * 24 + 6];
    memset(packed, 0x5a, sizeof packed);
    cr_assert(p.marks == 4 && pack_bytes(&p) == 5 * 24);
    pack_run(&p, packed);
    const uint8_t want[6] = {0, 1, 1, 0, 0x5a, 0x5a};
    cr_expect(memcmp(packed + 5 * 24, want, sizeof want) == 0);
    int64_t at = 0;
    cr_expect(pack_part(&p, &at, 60).marks == 0);
}

Test(pack, marks) {
    Ctx *ctx = ctx_new(on_diag, NULL);
    cr_assert(ctx_try(ctx, check_marks, ctx));
    ctx_free(ctx);
}

static void plan_symbolic(void *arg) {
    Arena *arena = arena_new(arg);
    Cont cont = make_cont(arena, &cases[0]);
    Dim shape[2] = {dim_sym(arg, "N"), cont.shape[1]};
    cont.shape = shape;
    pack_plan(arena, arg, &cont);
}

Test(pack, symbolic_size_is_refused) {
    Ctx *ctx = ctx_new(NULL, NULL);
    cr_assert_not(ctx_try(ctx, plan_symbolic, ctx));
    cr_assert_eq(ctx->last_error, E_UNSUPPORTED);
    ctx_free(ctx);
}
