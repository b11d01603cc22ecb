/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of the C target's table of instructions: what each says that it means, and which processors
 * have which. test_emit_c.c compiles their helpers. */
#include <criterion/criterion.h>
#include <string.h>

#include "compiler/targets/c/c_nest.h"
#include "compiler/targets/c/target.h"
#include "tests/unit/meaning.h"

static void set_number(DType t, void *data, int64_t i, double v) {
    mem_set(t, data, i, bits_of_double(t, v));
}

/* Some number that the type holds: one of 8 bits, or of fewer. */
static int number(DType t, int v) {
    return t == U8 ? v & 255 : t == U4 ? v & 15 : (int8_t)v;
}

/* A row's meaning is the sum over the group that its numbers tell; whole numbers are exact in all
 * types. */
static void check_meaning(Ctx *ctx, const Instruction *r) {
    uint32_t a[64] = {0}, b[1024] = {0}, c[64] = {0}, want[64] = {0};
    int lanes = r->each ? r->lanes : 1;
    for (int i = 0; i < lanes * r->group; i++) set_number(r->a, a, i, number(r->a, i * 77 + 200));
    for (int i = 0; i < r->lanes * r->group; i++)
        set_number(r->b, b, i, number(r->b, i * 41 - 128));
    for (int l = 0; l < r->lanes; l++) {
        int sum = 1 - l;
        set_number(r->c, c, l, sum);
        for (int q = 0; q < r->group; q++)
            sum += number(r->a, (r->each ? q * lanes + l : q) * 77 + 200) *
                   number(r->b, (l * r->group + q) * 41 - 128);
        set_number(r->c, want, l, sum);
    }
    Tensor t[3] = {{.type = r->a, .rank = 1 + r->each, .dim = {r->group, lanes}, .data = a},
                   {.type = r->b, .rank = 2, .dim = {r->lanes, r->group}, .data = b},
                   {.type = r->c, .rank = 1, .dim = {r->lanes}, .data = c}};
    run_meaning(ctx, r->meaning, t);
    cr_expect(memcmp(c, want, (size_t)r->lanes * 4) == 0, "%s means something else", r->name);
}

static const char *first_use(Ctx *ctx, const char *cpu) {
    Machine m;
    target_c_machine(ctx, &m, cpu);
    for (int i = 0; i < m.nuse; i++)
        cr_expect_eq(m.use[i]->lanes * 4, m.vector_bytes, "%s on %s", m.use[i]->name, cpu);
    return m.nuse ? m.use[0]->name : "";
}

static bool uses(Ctx *ctx, const char *cpu, const char *name) {
    Machine m;
    target_c_machine(ctx, &m, cpu);
    for (int i = 0; i < m.nuse; i++)
        if (strcmp(m.use[i]->name, name) == 0) return true;
    return false;
}

static int matrices(Ctx *ctx, const char *cpu) {
    Machine m;
    target_c_machine(ctx, &m, cpu);
    return m.nmatrix;
}

static void check_all(void *at) {
    Ctx *ctx = at;
    int n;
    const CInstruction *rows = target_c_instructions(&n);
    for (int i = 0; i < n; i++) check_meaning(ctx, &rows[i].row);
    cr_expect_str_eq(first_use(ctx, "cascadelake"), "vpdpbusd512");
    cr_expect_str_eq(first_use(ctx, "alderlake"), "vpdpbusd256");
    cr_expect(uses(ctx, "sapphirerapids", "vdpbf16ps512") &&
              !uses(ctx, "cascadelake", "vdpbf16ps512"));
    cr_expect(matrices(ctx, "sapphirerapids") == 2 && matrices(ctx, "cascadelake") == 0);
    cr_expect_str_eq(first_use(ctx, "skylake-avx512"), "vpmaddwd512");
    cr_expect_str_eq(first_use(ctx, "haswell"), "vpmaddwd256");
    cr_expect_str_eq(first_use(ctx, "x86-64-v2"), "vpmaddwd128");
}

Test(instructions, rows) {
    Ctx *ctx = ctx_new(see, NULL);
    cr_assert(ctx_try(ctx, check_all, ctx));
    ctx_free(ctx);
}
