/* SPDX-License-Identifier: Apache-2.0 */
/* Counts of movement and operations, and classes of maps, on flows in text. */
#include <criterion/criterion.h>
#include <string.h>

#include "ir/move.h"

static Flow *parse(Ctx *ctx, const char *text) {
    const char *end;
    return flow_parse(ctx_arena(ctx), text, &end);
}

static const char mlp[] = "flow mlp (N in 1..) {\n"
                          "  in x : f32[N,256]\n  param w : f32[256,128]\n  param b : f32[128]\n"
                          "  tmp h : f32[N,128]\n  out y : f32[N,128]\n"
                          "  map mm [i:N, j:128, k:256] { x[i,k] * w[k,j] -> h[i,j] sum:f32 }\n"
                          "  map relu [i:N, j:128] { max(h[i,j] + b[j], 0) -> y[i,j] }\n"
                          "}\n";

static const char *bytes(Ctx *ctx, const Flow *f, int n, const int *maps) {
    return dim_str(ctx, move_compulsory(ctx_arena(ctx), f, maps, n, NULL).bytes);
}

Test(move, temporaries_of_a_set_are_free) {
    Ctx *ctx = ctx_new(NULL, NULL);
    Flow *f = parse(ctx, mlp);
    Dim n = dim_sym(ctx, "N");
    Dim x = dim_mulc(ctx, n, 1024), h = dim_mulc(ctx, n, 512);
    Dim mm = dim_addc(ctx, dim_add(ctx, x, h), 256 * 128 * 4);
    cr_assert_str_eq(bytes(ctx, f, 1, (int[]){0}), dim_str(ctx, mm));
    cr_assert_str_eq(bytes(ctx, f, 2, (int[]){0, 1}), dim_str(ctx, dim_addc(ctx, mm, 512)));
    cr_assert_str_eq(dim_str(ctx, move_flops(ctx_arena(ctx), f, f->map.at[0])),
                     dim_str(ctx, dim_mulc(ctx, n, 2 * 128 * 256)));
    ctx_free(ctx);
}

Test(move, windows_count_once) {
    Ctx *ctx = ctx_new(NULL, NULL);
    Flow *f = parse(
        ctx, "flow c {\n  in x : f32[8,30,30]\n  param w : f32[16,8,3,3]\n  out y : f32[16,14,14]\n"
             "  map conv [o:16, i:14, j:14, c:8, r:3, s:3] {\n"
             "    (x[c,2*i+r,2*j+s] else 0) * w[o,c,r,s] -> y[o,i,j] sum:f32\n  }\n}\n");
    Bytes b = move_compulsory(ctx_arena(ctx), f, (int[]){0}, 1, NULL);
    int64_t n;
    cr_assert(dim_is_const(b.bytes, &n));
    cr_assert_eq(n, 4 * (8 * 29 * 29 + 16 * 8 * 9 + 16 * 14 * 14), "%lld", (long long)n);
    cr_assert(!b.over);
    Contraction c = map_contraction(f, f->map.at[0]);
    cr_assert(c.is);
    DimRole want[] = {ROLE_N, ROLE_M, ROLE_M, ROLE_K, ROLE_WINDOW, ROLE_WINDOW};
    for (int d = 0; d < 6; d++) cr_assert_eq(c.role[d], want[d], "dim %d: %d", d, c.role[d]);
    ctx_free(ctx);
}

Test(move, gathers_are_bounded) {
    Ctx *ctx = ctx_new(NULL, NULL);
    Flow *f =
        parse(ctx, "flow g {\n  in ids : i64[4]\n  param e : f32[1000,8]\n  out y : f32[4,8]\n"
                   "  map g [i:4, d:8] { r <- ids[i]\n e[r,d] -> y[i,d] }\n}\n");
    Bytes b = move_compulsory(ctx_arena(ctx), f, (int[]){0}, 1, NULL);
    cr_assert(dim_is(b.bytes, 4 * 8 + 4 * 32 + 4 * 32), "%s", dim_str(ctx, b.bytes));
    cr_assert(b.over);
    ctx_free(ctx);
}

/* Attention scores: batch, rows of q, rows of k, and what is summed; a zero point does not hide it.
 */
Test(contract, batched_and_quantized) {
    Ctx *ctx = ctx_new(NULL, NULL);
    Flow *f =
        parse(ctx, "flow a {\n  in q : u8[4,10,64]\n  in z : u8[4]\n  param k : i8[4,20,64]\n"
                   "  out s : i32[4,10,20]\n  out p : f32[10]\n  in x : f32[10,20]\n"
                   "  map qk [h:4, i:10, j:20, d:64] {\n"
                   "    (i32(q[h,i,d]) - i32(z[h])) * i32(k[h,j,d]) -> s[h,i,j] sum:i32\n  }\n"
                   "  map norm [i:10, j:20] { x[i,j] * x[i,j] -> p[i] sum:f32 }\n}\n");
    Contraction c = map_contraction(f, f->map.at[0]);
    cr_assert(c.is);
    cr_assert_eq(f->map.at[0]->body.val.at[c.b].read.cont, 2);
    DimRole want[] = {ROLE_BATCH, ROLE_M, ROLE_N, ROLE_K};
    for (int d = 0; d < 4; d++) cr_assert_eq(c.role[d], want[d]);
    ctx_free(ctx);
}
