/* SPDX-License-Identifier: Apache-2.0 */
/* What a warp does as one: steps on matrices.
 *
 * A `use` block is a step whose operands lie in shared memory. Its loops are, outside in, over the
 * reduced dim (q), halves of the rows (h) and a pair of columns (l); around it the innermost loops
 * over threads are over rows (g) and pairs of columns (t). Operands are loaded as matrices of 8
 * rows of 16 bytes: each lane gives the address of one row. Which row is found by giving q, h, g, t
 * and l in the block's own index the values that they have at that row's first element. Elements of
 * another size than 16 bits that lie across the reduction are loaded one by one, to the places in a
 * thread's words at which such a load would leave them. */
#include "cuda.h"

#include <string.h>

enum { SIDE = 8, ROW_BYTES = 16 };

static const Access *operand(const CudaStep *how, const Body *b, int val) {
    const Val *v = &b->val.at[body_unconverted(b, val)];
    if (v->kind == VAL_PRIM && v->prim == how->row.round) v = &b->val.at[v->arg[0]];
    return v->kind == VAL_READ ? &v->read : NULL;
}

static const Stmt *only(const Stmt *s) {
    return s && s->body.n == 1 ? s->body.at[0] : NULL;
}

CudaUse cuda_use_of(const Stmt *s) {
    CudaUse x = {.how = target_cuda_step(s->use), .q = only(s)};
    const Stmt *inner = only(x.q);
    if (x.how && x.how->row.warps > 1) x.n = inner, inner = only(inner);
    x.h = inner;
    x.l = only(x.h);
    const Stmt *body = only(x.l);
    if (!x.how || !body || body->kind != STMT_BODY || body->store.n != 1)
        BUG("a block for \"%s\" holds something else", s->use);
    const Val *v = &body->code.val.at[body->store.at[0].val];
    x.c = &body->store.at[0].to;
    x.a = operand(x.how, &body->code, v->arg[0]);
    x.b = operand(x.how, &body->code, v->arg[1]);
    if (!x.a || !x.b) BUG("a block for \"%s\" multiplies no reads", s->use);
    return x;
}

void cuda_use_loops(CNest *c, const CudaUse *x) {
    const Stmt *const loop[] = {x->q, x->n, x->h, x->l};
    for (size_t i = 0; i < sizeof loop / sizeof *loop; i++)
        if (loop[i])
            names_var(&c->names, loop[i]->var, "?", dim_const(c->ctx, 0),
                      dim_addc(c->ctx, loop[i]->extent, -1));
}

/* The registers of an equal load of `n` matrices in reach; or NULL. */
static const char *loaded(const CNest *c, const Access *a, Dim flat, int n) {
    for (int i = c->loaded.n - 1; i >= c->loaded_from; i--) {
        const Loaded *l = &c->loaded.at[i];
        if (l->buf == a->cont && l->flat == flat && l->epoch == c->epoch[1] && l->lanes == -n)
            return l->val.text;
    }
    return NULL;
}

static void note_loaded(CNest *c, const Access *a, Dim flat, int n, const char *text) {
    CVal v = {.type = U32, .vector = true, .text = text};
    vec_push(c->arena, &c->loaded, (Loaded){a->cont, -n, c->epoch[1], c->scope, flat, NULL, v});
}

static void put_rounded(CNest *c, const CudaUse *x, const char *words, int n) {
    Prim by = x->how->row.round;
    for (int i = 0; by && i < n; i++)
        put_line(c, "%s[%d] = %s_word(%s[%d]);", words, i, prim_row(by)->name, words, i);
}

/* Elements of a row of a matrix. */
static int row_elements(const CNest *c, const Access *a) {
    return 8 * ROW_BYTES / dtype_bits(c->nest->buf.at[a->cont].type);
}

/* The registers that a load of `n` matrices fills. */
static const char *fragment(CNest *c, const CudaUse *x, const Access *a, Dim flat, int n,
                            const char *helper) {
    const char *known = loaded(c, a, flat, n), *words = known ? known : str(c, "x%d", c->fresh++);
    if (known) return known;
    put_line(c, "u32 %s[%d];", words, n);
    put_line(c, "%s(%s, %s + %s);", helper, words, c->buf[a->cont].name,
             emit_dim_str(&c->names, flat));
    put_rounded(c, x, words, n);
    note_loaded(c, a, flat, n, words);
    return words;
}

/* Does the dim step through neighbours in memory? */
static bool runs_along(CNest *c, Dim flat, Dim var) {
    Dim coef, rest;
    return dim_affine(c->ctx, flat, &var, 1, &coef, &rest) && dim_is(coef, 1);
}

/* ---- fragments --------------------------------------------------------------------------------
 */

static int64_t const_box(const Buf *b, int k) {
    int64_t n;
    if (!dim_is_const(b->box[k], &n)) BUG("fragment \"%s\" of unknown size", b->name);
    return n;
}

void cuda_fragment(CNest *c, const Stmt *s) {
    const Buf *b = &c->nest->buf.at[s->buf];
    int64_t words = const_box(b, 0) * const_box(b, 1) / (2 * c->threads);
    put_line(c, "u32 %s[%lld]%s;", c->buf[s->buf].name, (long long)words,
             s->has_init ? " = {0}" : "");
}

typedef struct First {
    CNest *c;
    DimSubst to[RANK_MAX * 2];
    int n;
} First;

static void note_first(void *user, Dim sym) {
    First *f = user;
    if (f->n == RANK_MAX * 2) BUG("an index of a fragment uses too many loops");
    f->to[f->n++] = (DimSubst){sym, dim_const(f->c->ctx, 0)};
}

/* Loops over threads, and inside of a step, are at their first. */
int64_t cuda_fragment_word(CNest *c, const Access *a) {
    const Buf *b = &c->nest->buf.at[a->cont];
    int64_t at[2], columns = const_box(b, 1) / (2 * SIDE);
    for (int k = 0; k < 2; k++) {
        Dim d = names_subst(&c->names, a->at[k]);
        First f = {.c = c};
        dim_symbols(d, note_first, &f);
        if (!dim_is_const(dim_subst(c->ctx, d, f.to, f.n), &at[k]))
            BUG("fragment \"%s\" indexed by a variable", b->name);
    }
    int64_t tile = at[0] / (2 * SIDE) * columns + at[1] / (2 * SIDE);
    return 4 * tile + at[1] / SIDE % 2 * 2 + at[0] / SIDE % 2;
}

/* ---- operands ---------------------------------------------------------------------------------
 */

/* Element by element: `n` matrices of 8 rows, of which word w of a lane is lane / 4 of matrix w,
 * and its elements stand behind each other in the reduction. Of a (n is 4) halves of rows come
 * first. */
static const char *load_across(CNest *c, const CudaUse *x, const Access *a, Dim lane, int n) {
    Ctx *ctx = c->ctx;
    Dim all = access_flat(c, a), zero = dim_const(ctx, 0), first = NULL;
    Dim side = dim_div(ctx, lane, dim_const(ctx, SIDE / 2));
    const int row = row_elements(c, a), each = row / 4, halves = n / 2;
    Text out = {.arena = c->arena};
    for (int i = 0; i < n * each; i++) {
        int word = i / each;
        Dim q = dim_addc(ctx, dim_mulc(ctx, dim_mod(ctx, lane, dim_const(ctx, 4)), each),
                         word / halves * row + i % each);
        Dim half = dim_const(ctx, word % halves);
        DimSubst to[] = {{x->q->var, q},
                         {x->h->var, half},
                         {c->inner[1], side},
                         {c->inner[2], zero},
                         {x->l->var, side}};
        Dim flat = dim_subst(ctx, all, to, 5);
        if (!i) first = flat;
        text_printf(&out, "%s%s[%s]", i ? ", " : "", c->buf[a->cont].name,
                    emit_dim_str(&c->names, flat));
    }
    const char *known = loaded(c, a, first, n), *words = known ? known : str(c, "x%d", c->fresh++);
    if (known) return known;
    put_line(c, "u32 %s[%d];", words, n);
    put_line(c, "words_of(%s, %s);", words, text_str(&out));
    put_rounded(c, x, words, n);
    note_loaded(c, a, first, n, words);
    return words;
}

/* Rows of a: 8h + g; matrices in the order (h, half of q). */
static const char *load_a(CNest *c, const CudaUse *x, Dim lane) {
    Ctx *ctx = c->ctx;
    if (c->nest->buf.at[x->a->cont].kind == BUF_FRAGMENT)
        return str(c, "%s + %lld", c->buf[x->a->cont].name, (long long)cuda_fragment_word(c, x->a));
    Dim flat = access_flat(c, x->a), side = dim_const(ctx, SIDE), zero = dim_const(ctx, 0);
    Dim row = dim_mod(ctx, lane, side);
    Dim second = dim_mod(ctx, dim_div(ctx, lane, side), dim_const(ctx, 2));
    Dim late = dim_div(ctx, lane, dim_const(ctx, 2 * SIDE));
    bool along = runs_along(c, flat, x->q->var);
    if (!along && !*x->how->across_a) return load_across(c, x, x->a, lane, 4);
    late = dim_mulc(ctx, late, row_elements(c, x->a));
    DimSubst to[] = {{x->q->var, along ? late : dim_add(ctx, late, row)},
                     {x->h->var, second},
                     {c->inner[1], along ? row : zero}};
    flat = dim_subst(ctx, flat, to, 3);
    return fragment(c, x, x->a, flat, 4, along ? x->how->along_a : x->how->across_a);
}

/* Columns of b: 2t + l; matrices in the order of the halves of q. Lanes beyond 15 give the same
 * addresses. */
static Dim place_b(CNest *c, const CudaUse *x, Dim lane, bool *along) {
    Ctx *ctx = c->ctx;
    Dim flat = access_flat(c, x->b), side = dim_const(ctx, SIDE), zero = dim_const(ctx, 0);
    Dim row = dim_mod(ctx, lane, side), both = dim_mod(ctx, lane, dim_const(ctx, 2 * SIDE));
    *along = runs_along(c, flat, x->q->var);
    Dim late = dim_mulc(ctx, dim_div(ctx, both, side), row_elements(c, x->b));
    DimSubst to[] = {
        {x->q->var, *along ? late : both}, {x->l->var, *along ? row : zero}, {c->inner[2], zero}};
    return dim_subst(ctx, flat, to, 3);
}

/* The same in the next iteration of the innermost unrolled loop that it depends on; NULL: there is
 * none, or the present one is not the first of two. */
static Dim next_b(CNest *c, const CudaUse *x, Dim lane, Dim here) {
    for (int i = c->names.at.n - 1; i >= 0; i--) {
        Name *name = &c->names.at.at[i];
        int64_t value, last;
        bool along;
        if (name->text || !dim_is_const(name->to, &value)) continue;
        name->to = dim_const(c->ctx, value + 1);
        Dim next = place_b(c, x, lane, &along);
        name->to = dim_const(c->ctx, value);
        if (next == here) continue;
        bool more = dim_is_const(c->names.range.at[i].hi, &last) && value < last;
        return more && value % 2 == 0 ? next : NULL;
    }
    return NULL;
}

/* Of two columns of steps at once, where both are done. */
static const char *load_b(CNest *c, const CudaUse *x, Dim lane) {
    Ctx *ctx = c->ctx;
    bool along;
    Dim flat = place_b(c, x, lane, &along), next = next_b(c, x, lane, flat);
    if (!along && !*x->how->across_b) return load_across(c, x, x->b, lane, 2);
    const char *known = loaded(c, x->b, flat, 2);
    if (known || !next)
        return known ? known
                     : fragment(c, x, x->b, flat, 2, along ? x->how->along_b : x->how->across_b);
    Dim second = dim_div(ctx, lane, dim_const(ctx, 2 * SIDE));
    Dim both = dim_add(ctx, flat, dim_mul(ctx, second, dim_sub(ctx, next, flat)));
    const char *four = fragment(c, x, x->b, both, 4, along ? x->how->along_a : x->how->across_a);
    note_loaded(c, x->b, flat, 2, four);
    note_loaded(c, x->b, next, 2, str(c, "%s + 2", four));
    return four;
}

void cuda_use(CNest *c, const Stmt *s) {
    if (strcmp(s->use, COPY_BOX) == 0) {
        cuda_box(c, s);
        return;
    }
    CudaUse x = cuda_use_of(s);
    if (x.n) {
        cuda_group(c, &x);
        return;
    }
    int mark = c->names.at.n, element;
    Dim lane = dim_sym(c->ctx, "%lane"), zero = dim_const(c->ctx, 0);
    names_var(&c->names, lane, "(i32)(threadIdx.x % 32)", zero, dim_const(c->ctx, 31));
    cuda_use_loops(c, &x);
    const char *a = load_a(c, &x, lane), *b = load_b(c, &x, lane);
    Text to = {.arena = c->arena};
    for (int i = 0; i < 4; i++) {
        int inner = c->names.at.n;
        names_const(&c->names, x.h->var, i / 2, zero, dim_const(c->ctx, 1));
        names_const(&c->names, x.l->var, i % 2, zero, dim_const(c->ctx, 1));
        text_printf(&to, "%s, ", reg_name(c, x.c, &element));
        names_pop(&c->names, inner);
    }
    put_line(c, "%s(%s%s, %s);", x.how->multiply, text_str(&to), a, b);
    names_pop(&c->names, mark);
}
