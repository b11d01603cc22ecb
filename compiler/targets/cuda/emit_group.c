/* SPDX-License-Identifier: Apache-2.0 */
/* What several warps do as one: steps on matrices of shared memory, behind their threads' backs.
 *
 * A `use` block is one instruction. Its loops are, outside in, over the reduced dim (q), eights of
 * columns (n), halves of a warp's rows (h) and a pair of columns (l); around it the loops over
 * threads are over warps, rows (g) and pairs of columns (t). An operand is told by where its first
 * element lies, which way its rows run, and how far apart its panels are; rows of a may be a
 * fragment.
 *
 * A compiler does not know that registers belong to steps until these are waited for: it is told
 * that they change there (`settle`), so that nothing that uses them moves to the other side. */
#include "cuda.h"

#include <string.h>

/* That the step has. */
static int columns_of(const CudaUse *x) {
    int64_t eights = 0;
    dim_is_const(x->n->extent, &eights);
    return (int)eights * x->how->row.columns;
}

/* `1, 8192` : does it run across the reduction, and bytes between panels; then its array, and how
 * many parts of 16 bytes in it begins. */
static const char *matrix(CNest *c, const CudaUse *x, const Access *a, const char **way) {
    Ctx *ctx = c->ctx;
    const Buf *b = &c->nest->buf.at[a->cont];
    Dim flat = access_flat(c, a), zero = dim_const(ctx, 0), coef, rest;
    int64_t rows = 0;
    DimSubst first[] = {{x->n->var, zero},   {x->h->var, zero},   {x->l->var, zero},
                        {c->inner[0], zero}, {c->inner[1], zero}, {c->inner[2], zero}};
    flat = dim_subst(ctx, flat, first, 6);
    DimEnv env = names_env(&c->names);
    flat = dim_simplify(ctx, flat, &env);
    bool affine = dim_affine(ctx, flat, &x->q->var, 1, &coef, &rest);
    if (!affine || !b->swizzled || !dim_is_const(b->box[b->rank - 2], &rows))
        BUG("an operand of \"%s\" lies in no rows", x->how->row.name);
    *way = str(c, "%d, %d", !dim_is(coef, 1), (int)rows * SWIZZLED_ROW);
    Dim part = dim_const(ctx, SWIZZLED_PART * 8 / dtype_bits(b->type));
    if (!dim_is(dim_mod(ctx, rest, part), 0))
        BUG("an operand of \"%s\" begins within a part", x->how->row.name);
    Dim place = dim_simplify(ctx, dim_div(ctx, rest, part), &env);
    return str(c, "%s, %s", c->buf[a->cont].name, emit_dim_str(&c->names, place));
}

/* The registers in the order of the instruction: eights of columns, halves, lanes. */
static void put_registers(CNest *c, const CudaUse *x, Text *to) {
    Dim zero = dim_const(c->ctx, 0);
    int element;
    for (int64_t i = 0; i < columns_of(x) / 2; i++) {
        int inner = c->names.at.n;
        names_const(&c->names, x->n->var, i / 4, zero, dim_addc(c->ctx, x->n->extent, -1));
        names_const(&c->names, x->h->var, i / 2 % 2, zero, dim_const(c->ctx, 1));
        names_const(&c->names, x->l->var, i % 2, zero, dim_const(c->ctx, 1));
        text_printf(to, "%s, ", reg_name(c, x->c, &element));
        names_pop(&c->names, inner);
    }
}

void cuda_group(CNest *c, const CudaUse *x) {
    int mark = c->names.at.n, columns = columns_of(x);
    Text to = {.arena = c->arena};
    const char *way_a, *way_b;
    cuda_use_loops(c, x);
    const char *b = matrix(c, x, x->b, &way_b);
    put_registers(c, x, &to);
    if (c->nest->buf.at[x->a->cont].kind == BUF_FRAGMENT) {
        put_line(c, "%s_rows_%d<%s>(%s%s + %lld, %s);", x->how->multiply, columns, way_b,
                 text_str(&to), c->buf[x->a->cont].name, (long long)cuda_fragment_word(c, x->a), b);
    } else {
        const char *a = matrix(c, x, x->a, &way_a);
        put_line(c, "%s_%d<%s, %s>(%s%s, %s);", x->how->multiply, columns, way_a, way_b,
                 text_str(&to), a, b);
    }
    names_pop(&c->names, mark);
}

/* ---- registers --------------------------------------------------------------------------------
 */

static const Stmt *first_use(const Stmt *s) {
    for (; s && s->kind != STMT_USE; s = s->body.n ? s->body.at[0] : NULL) {
    }
    return s;
}

/* Of a `steps` block: all it adds to, and the fragment that it reads. Registers that were computed
 * since the last steps are those of steps that read fragments, and of coarse ones. */
void cuda_settle(CNest *c, const Stmt *steps, bool before) {
    const Stmt *use = first_use(steps);
    if (!use) return;
    CudaUse x = cuda_use_of(use);
    const Buf *b = &c->nest->buf.at[x.c->cont], *a = &c->nest->buf.at[x.a->cont];
    int64_t all = 1, words, extent[RANK_MAX];
    if (before && a->kind != BUF_FRAGMENT && !x.how->row.coarse) return;
    for (int k = 0; k < b->rank; k++) all *= dim_is_const(b->box[k], &extent[k]) ? extent[k] : 0;
    Text out = {.arena = c->arena};
    for (int64_t i = 0; i < all; i++) {
        int64_t below = all, rest = i;
        Dim at[RANK_MAX];
        int element;
        for (int k = 0; k < b->rank; k++) {
            below /= extent[k];
            at[k] = dim_const(c->ctx, rest / below);
            rest %= below;
        }
        const Access one = {x.c->cont, b->rank, at};
        text_printf(&out, "%s%s", i ? ", " : "", reg_name(c, &one, &element));
    }
    if (a->kind == BUF_FRAGMENT && dim_is_const(dim_product(c->ctx, a->box, a->rank), &words))
        for (int64_t i = 0; i < words / (2 * c->threads); i++)
            text_printf(&out, ", %s[%lld]", c->buf[x.a->cont].name, (long long)i);
    put_line(c, "settle(%s);", text_str(&out));
}

/* ---- helpers --------------------------------------------------------------------------------- */

static void put_list(Text *out, const char *before, int from, int n, const char *behind) {
    for (int i = 0; i < n; i++)
        text_printf(out, "%s%s%d%s", i ? ", " : "", before, from + i, behind);
}

/* What follows the operands: that c is added to, of floats that no factor is negated, and how
 * operands lie where that is free. Operand `at` is the first that says so. */
static void put_modes(Text *out, const CudaStep *how, bool rows, int at) {
    text_put(out, how->row.c == I32 ? ", 1" : ", 1, 1, 1");
    if (how->row.along) return;
    text_printf(out, ", %%%d", at);
    if (!rows) text_printf(out, ", %%%d", at + 1);
}

static void put_operands(Text *out, const CudaStep *how, bool rows) {
    text_put(out, "\n        : ");
    if (rows)
        put_list(out, "\"r\"(a[", 0, 4, "])");
    else
        text_put(out, "\"l\"(matrix_at<LEAD_A>(a, i))");
    text_put(out, ", \"l\"(matrix_at<LEAD_B>(b, j))");
    if (!rows && !how->row.along) text_put(out, ", \"n\"(ACROSS_A)");
    if (!how->row.along) text_put(out, ", \"n\"(ACROSS_B)");
}

/* c += a b of 64 rows and as many columns; `rows`: those of a are in registers. */
static void put_helper(Text *out, const CudaStep *how, int columns, bool rows) {
    const char *name = rows ? "_rows" : "", *way = rows ? "" : "int ACROSS_A, int LEAD_A, ";
    const char *sum = dtype_name(how->row.c);
    int n = columns / 2, behind = n + (rows ? 4 : 1);
    text_printf(out, "//: %s%s_%d\ntemplate <%sint ACROSS_B, int LEAD_B>\nFN void %s%s_%d(",
                how->multiply, name, columns, way, how->multiply, name, columns);
    put_list(out, how->row.c == I32 ? "i32 &c" : "f32 &c", 0, n, "");
    text_printf(out,
                ", const %s, const void *b, i32 j) {\n#ifdef __CUDA_ARCH_FEAT_SM90_ALL\n    asm "
                "volatile(\"wgmma.mma_async.sync.aligned.m64n%dk%d.%s {",
                rows ? "u32 *a" : "void *a, i32 i", columns, how->row.depth, how->types);
    put_list(out, "%", 0, n, "");
    text_put(out, rows ? "}, {" : "}, ");
    put_list(out, "%", n, behind - n, "");
    text_printf(out, "%s, %%%d", rows ? "}" : "", behind);
    put_modes(out, how, rows, behind + 1);
    text_put(out, ";\"\n        : ");
    put_list(out, how->row.c == I32 ? "\"+r\"(c" : "\"+f\"(c", 0, n, ")");
    put_operands(out, how, rows);
    text_printf(out, ");\n#else\n    %s *const c[] = {", sum);
    put_list(out, "&c", 0, n, "");
    text_printf(out,
                "};\n    by_warps%s<%s, %s, %sACROSS_B, LEAD_B, %d>(c, %s, (const char *)b + 16 * "
                "j);\n#endif\n}\n",
                name, sum, target_cuda_alone(how)->multiply, rows ? "" : "ACROSS_A, LEAD_A, ",
                columns, rows ? "a" : "(const char *)a + 16 * i");
}

/* Steps whose operands may lie across have helpers for rows in registers, too: attention's. */
const char *cuda_group_helpers(Arena *arena) {
    static const int columns[] = {64, 128, 192, 256};
    Text out = {.arena = arena};
    const CudaStep *how;
    text_put(&out, "Steps of several warps.\n\n");
    for (int s = 0; (how = target_cuda_step_at(s)); s++)
        for (size_t i = 0; how->row.warps > 1 && i < sizeof columns / sizeof *columns; i++) {
            put_helper(&out, how, columns[i], false);
            if (!how->row.along) put_helper(&out, how, columns[i], true);
        }
    return text_str(&out);
}
