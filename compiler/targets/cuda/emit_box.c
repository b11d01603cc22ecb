/* SPDX-License-Identifier: Apache-2.0 */
/* Boxes of tensors, copied to swizzled arrays by the GPU's engine for it.
 *
 * A `use` of COPY_BOX says what each thread copies. Where the engine copies it (`--gpu-copies`) one
 * thread asks for all of it instead: the origin of the box is where the indices are when all that
 * runs inside a slot of the array (loops of the block, threads) is at its first. The engine knows
 * the buffer by a description that the host makes (weir_device_box), and gives zeros for what is
 * outside of it; it rounds to TF32, too. A group of copies is a stage, whose barrier counts the
 * bytes that have come; threads wait for it where they wait for the group. */
#include "cuda.h"

#include <string.h>

enum { SLOT, PANEL, ROW, PLACE, ARRAY_DIMS };

/* A box in the making: where it begins in the buffer, the innermost dim first, and in the array. */
typedef struct Copied {
    CBox box;
    Dim origin[BOX_DIMS];
    Access to; /* its slot */
    int64_t panels;
} Copied;

typedef struct Inside {
    DimSubst to[RANK_MAX * 2];
    int n;
    Dim zero;
} Inside;

static void note_inside(void *user, Dim sym) {
    Inside *in = user;
    for (int i = 0; i < in->n; i++)
        if (in->to[i].sym == sym) return;
    if (in->n == RANK_MAX * 2) BUG("a place in an array uses too many loops");
    in->to[in->n++] = (DimSubst){sym, in->zero};
}

static bool uses_inside(const Inside *in, Dim d) {
    for (int i = 0; i < in->n; i++)
        if (dim_uses(d, in->to[i].sym)) return true;
    return false;
}

static const Stmt *body_of(const Stmt *s) {
    while (s && s->kind != STMT_BODY) s = s->body.n == 1 ? s->body.at[0] : NULL;
    return s;
}

static bool add_dim(Copied *x, Dim size, Dim origin) {
    if (x->box.rank == BOX_DIMS) return false;
    x->box.size[x->box.rank] = size;
    x->origin[x->box.rank++] = origin;
    return true;
}

/* Of the leading indices up to `last`, which rows run down, one number. */
static bool add_rows(CNest *c, Copied *x, const Access *a, int last) {
    const Buf *b = &c->nest->buf.at[a->cont];
    Dim row = a->at[0], size = b->box[0];
    for (int k = 1; k <= last; k++) {
        row = dim_add(c->ctx, dim_mul(c->ctx, row, b->box[k]), a->at[k]);
        size = dim_mul(c->ctx, size, b->box[k]);
    }
    x->box.outer = x->box.rank;
    return add_dim(x, size, row);
}

static bool find_dims(CNest *c, const Inside *in, const Access *a, Copied *x) {
    const Buf *b = &c->nest->buf.at[a->cont];
    int first = -1, last = -1, rank = buf_rank(b);
    for (int k = 0; k < rank - 1; k++) {
        if (!uses_inside(in, a->at[k])) continue;
        first = first < 0 ? k : first;
        last = k;
    }
    if (first < 0 || !uses_inside(in, a->at[rank - 1])) return false;
    for (int k = rank - 1; k >= 0; k--) {
        if (k == last && first < last) return add_rows(c, x, a, last);
        if (k == last) x->box.outer = x->box.rank;
        if (!add_dim(x, b->box[k], a->at[k])) return false;
    }
    return true;
}

/* What a `use` copies; false: nothing that the engine takes. */
static bool box_of(CNest *c, const Stmt *s, Copied *x) {
    const Stmt *body = strcmp(s->use, COPY_BOX) ? NULL : body_of(s);
    if (!body || body->store.n != 1) return false;
    const Val *read = &body->code.val.at[body->store.at[0].val];
    bool rounds = read->kind == VAL_PRIM && read->prim == P_TF32;
    if (rounds) read = &body->code.val.at[read->arg[0]];
    const Access *to = &body->store.at[0].to;
    const Buf *array = &c->nest->buf.at[to->cont];
    int64_t rows;
    Inside in = {.zero = dim_const(c->ctx, 0)};
    *x = (Copied){.box = {.buf = read->read.cont, .rounds = rounds}};
    if (read->kind != VAL_READ || !array->swizzled || to->rank != ARRAY_DIMS ||
        !dim_is_const(array->box[PANEL], &x->panels) || !dim_is_const(array->box[ROW], &rows))
        return false;
    for (int k = PANEL; k < ARRAY_DIMS; k++) dim_symbols(to->at[k], note_inside, &in);
    if (!find_dims(c, &in, &read->read, x)) return false;
    for (int k = 0; k < x->box.rank; k++)
        x->origin[k] = dim_subst(c->ctx, x->origin[k], in.to, in.n);
    Dim at[ARRAY_DIMS] = {to->at[SLOT], in.zero, in.zero, in.zero};
    x->to = (Access){to->cont, ARRAY_DIMS, arena_copy(c->arena, at, sizeof at)};
    x->box.rows = (int)rows;
    return true;
}

/* Boxes of one shape of one buffer have one description. */
static int number_of(CNest *c, const CBox *box) {
    for (int i = 0; i < c->box.n; i++) {
        const CBox *b = &c->box.at[i];
        bool same = b->buf == box->buf && b->rank == box->rank && b->outer == box->outer &&
                    b->rows == box->rows && b->rounds == box->rounds;
        for (int k = 0; same && k < box->rank; k++) same = b->size[k] == box->size[k];
        if (same) return i;
    }
    vec_push(c->arena, &c->box, *box);
    return c->box.n - 1;
}

void cuda_box(CNest *c, const Stmt *s) {
    Copied x;
    if (!c->stages || !box_of(c, s, &x)) {
        emit_stmts(c, &s->body);
        return;
    }
    DimEnv env = names_env(&c->names);
    const Buf *array = &c->nest->buf.at[x.to.cont];
    int map = number_of(c, &x.box), row = SWIZZLED_ROW / (dtype_bits(array->type) / 8);
    for (int64_t i = 0; i < x.panels; i++) {
        Text at = {.arena = c->arena};
        for (int k = 0; k < x.box.rank; k++) {
            Dim d = dim_addc(c->ctx, x.origin[k], k ? 0 : i * row);
            d = dim_simplify(c->ctx, names_subst(&c->names, d), &env);
            text_printf(&at, ", %s", emit_dim_str(&c->names, d));
        }
        Dim to = dim_addc(c->ctx, access_flat(c, &x.to), i * row * x.box.rows);
        put_line(c, "copy_box(copies, m%d, %s + %s, %d%s);", map, c->buf[x.to.cont].name,
                 emit_dim_str(&c->names, to), x.box.rows * SWIZZLED_ROW, text_str(&at));
    }
}

/* ---- stages ---------------------------------------------------------------------------------- */

typedef struct Found {
    double bytes; /* of boxes, copied by all blocks in all */
    bool rounds;  /* some of them */
    int left;     /* the most groups that something leaves under way */
} Found;

/* Do threads copy, themselves, what is waited for or what steps read? */
static bool copies(const CNest *c, const Stmt *s) {
    bool any = s->async;
    for (int i = 0; i < s->store.n; i++) any |= c->nest->buf.at[s->store.at[i].to.cont].swizzled;
    return any;
}

/* `times`: how often the statements run; loops that are not known, so often. */
enum { UNKNOWN = 16 };
static void find_in(CNest *c, const Stmts *stmts, double times, Found *found) {
    for (int i = 0; i < stmts->n; i++) {
        const Stmt *s = stmts->at[i];
        Copied x;
        if (s->kind == STMT_USE && box_of(c, s, &x)) {
            found->bytes += times * (double)(x.panels * x.box.rows * SWIZZLED_ROW);
            found->rounds |= x.box.rounds;
            continue;
        }
        c->apart |= s->kind == STMT_BODY && copies(c, s);
        if (s->kind == STMT_WAIT && !s->steps && s->left > found->left) found->left = s->left;
        bool repeats = s->kind == STMT_FOR && s->mark != LOOP_THREAD;
        int64_t count = 1;
        if (repeats && !dim_is_const(s->extent, &count)) count = UNKNOWN;
        find_in(c, &s->body, times * (double)count, found);
    }
}

/* Descriptions and barriers take a kernel about 0.6 us more than copies by threads do; boxes come
 * by a tenth sooner. Measured on sm_90a: products that copy 50 MB lost a tenth, of 100 MB they
 * gained one (tests/results/gpu-2026-11-26.md). What is rounded goes through threads' registers
 * otherwise. */
static bool engine_gains(const CNest *c, const Found *found) {
    static const double LEAST = 80e6;
    bool any = c->form->engine == ENGINE_ALWAYS || found->rounds;
    return any ? found->bytes > 0 : found->bytes >= LEAST;
}

/* Two groups are asked for beyond those that a wait leaves: one before it, and one before all
 * threads have passed the next. */
void cuda_find_boxes(CNest *c, const Stmts *stmts) {
    Found found = {0};
    c->stages = 0;
    c->apart = false;
    c->box.n = 0;
    if (c->form->engine == ENGINE_NEVER) return;
    find_in(c, stmts, 1, &found);
    if (!engine_gains(c, &found)) return;
    for (c->stages = 1; c->stages < found.left + 3;) c->stages *= 2;
}

void cuda_open_stages(CNest *c) {
    if (!c->stages) return;
    put_line(c, "stages<%d> copies = stages_open<%d>(shared + %d);", c->stages, c->stages,
             c->shared);
    c->shared += c->stages * (int)sizeof(uint64_t);
}

/* ---- descriptions ---------------------------------------------------------------------------- */

void cuda_box_parameters(CNest *c) {
    for (int i = 0; i < c->box.n; i++) text_printf(&c->out, ", BOXED m%d", i);
}

const char *cuda_boxes(CProgram *p, int kernel, const CPhase *phase) {
    const Nest *nest = p->program->nest.at[kernel];
    Text out = {.arena = p->arena};
    for (int i = 0; i < phase->nbox; i++) {
        const CBox *box = &phase->box[i];
        const Buf *b = &nest->buf.at[box->buf];
        int bytes = dtype_bits(b->type) / 8;
        text_printf(&out, "%s{%s, %d, %d, %d, %d, %d, {", i ? ", " : "", address(p, b->cont), bytes,
                    box->rounds, SWIZZLED_ROW / bytes, box->outer, box->rows);
        for (int k = 0; k < box->rank; k++)
            text_printf(&out, "%s%s", k ? ", " : "", dim_text(p, box->size[k]));
        text_printf(&out, "}, %d}", box->rank);
    }
    return text_str(&out);
}
