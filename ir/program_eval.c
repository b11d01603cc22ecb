/* SPDX-License-Identifier: Apache-2.0 */
/* Evaluating a whole program by its nests, memory as it will be: containers as their layouts say,
 * in one arena at the offsets that `place` gave, so that a container that is overwritten too early
 * shows. */
#include "flow_eval.h"
#include "nest_eval.h"

typedef struct Run {
    const Program *program;
    Arena *arena;
    NestCode **code; /* by kernel; NULL: not compiled yet */
    Tensor *buf;     /* room for any nest's buffers */
    EvalWatchFn *watch;
    void *user;
    NestTraffic *traffic; /* by kernel, or NULL */
} Run;

/* ---- layouts -------------------------------------------------------------------------------- */

typedef struct Logical {
    Eval *e;
    const Cont *cont;
} Logical;

static bool logical_slot(void *user, Dim sym, int *slot, int64_t *value) {
    const Logical *l = user;
    for (int k = 0; k < l->cont->rank; k++) {
        *slot = k;
        if (flow_layout_sym(l->e->ctx, k) == sym) return true;
    }
    *slot = -1;
    return eval_symbol(l->e, sym, value);
}

/* The tensor in its container's storage, from or to its dense form. */
static Tensor lay(Eval *e, const Cont *c, const Tensor *dense, const Tensor *stored) {
    const Layout *l = c->layout;
    Logical logical = {e, c};
    const DimCode *code[RANK_MAX];
    int64_t at[RANK_MAX] = {0};
    Tensor store = {.type = c->type, .rank = l->rank}, flat = {.type = c->type, .rank = c->rank};
    for (int k = 0; k < l->rank; k++) {
        store.dim[k] = eval_dim(e, l->box[k]);
        code[k] = dim_compile(e->arena, l->map[k], logical_slot, &logical, NULL);
        if (!code[k]) fail(e->ctx, E_VERIFY, "layout of \"%s\" uses an unknown symbol", c->name);
    }
    for (int k = 0; k < c->rank; k++) flat.dim[k] = eval_dim(e, c->shape[k]);
    Tensor *to = dense ? &store : &flat;
    int64_t room = tensor_count(to), n = tensor_count(&flat);
    to->data = arena_alloc(e->arena, (size_t)dtype_bytes(c->type, room) + 64);
    for (int64_t i = 0; dense && l->has_fill && l->fill && i < room; i++)
        mem_set(c->type, to->data, i, l->fill);
    for (int64_t i = 0; i < n; i++) {
        int64_t address = 0;
        for (int k = 0; k < l->rank; k++)
            address = address * store.dim[k] + dim_code_value(code[k], at);
        if (dense)
            mem_set(c->type, to->data, address, mem_get(c->type, dense->data, i));
        else
            mem_set(c->type, to->data, i, mem_get(c->type, stored->data, address));
        for (int k = c->rank - 1; k >= 0 && ++at[k] == flat.dim[k]; k--) at[k] = 0;
    }
    return *to;
}

/* ---- kernels -------------------------------------------------------------------------------- */

static bool guards_hold(Eval *e, const Kernel *k) {
    for (int i = 0; i < k->when.n; i++)
        if (eval_dim(e, k->when.at[i]) < 0) return false;
    return true;
}

static void show_written(Run *r, Eval *e, const Nest *nest) {
    for (int b = 0; b < nest->buf.n; b++) {
        if (nest->buf.at[b].kind != BUF_MEMORY || !nest->buf.at[b].written) continue;
        int c = nest->buf.at[b].cont;
        const Cont *cont = &r->program->flow->cont.at[c];
        Tensor dense = cont->layout ? lay(e, cont, NULL, &e->cont[c]) : e->cont[c];
        r->watch(r->user, cont, &dense);
    }
}

static void run_kernel(Run *r, Eval *e, int kernel) {
    const Nest *nest = r->program->nest.at[kernel];
    if (!r->code[kernel]) r->code[kernel] = nest_compile(r->arena, nest);
    for (int b = 0; b < nest->buf.n; b++) {
        const Buf *buf = &nest->buf.at[b];
        if (buf->kind != BUF_MEMORY) continue;
        r->buf[b] = buf->written ? *eval_make(e, buf->cont) : *eval_tensor(e, buf->cont);
    }
    r->code[kernel]->traffic = r->traffic ? &r->traffic[kernel] : NULL;
    nest_run(r->code[kernel], r->buf, eval_symbol, e);
    if (r->watch) show_written(r, e, nest);
}

/* A kernel runs where its last map stands: its first variant whose guard holds. */
static void run_map(void *user, Eval *e, int map) {
    Run *r = user;
    const Flow *f = r->program->flow;
    bool inside = false;
    e->ctx->where.node = from_words(e->ctx, f->map.at[map]->from);
    for (int k = 0; k < f->kernel.n; k++) {
        const Kernel *kernel = f->kernel.at[k];
        for (int i = 0; i < kernel->map.n; i++) inside = inside || kernel->map.at[i] == map;
        if (kernel->map.at[kernel->map.n - 1] != map || !guards_hold(e, kernel)) continue;
        run_kernel(r, e, k);
        return;
    }
    if (!inside)
        fail(e->ctx, E_VERIFY, "map \"%s\" is in no kernel that runs", f->map.at[map]->name);
}

static void run_program(Run run, const Tensor *in, Tensor *out) {
    const Program *program = run.program;
    Arena *arena = run.arena;
    const Flow *f = program->flow;
    Ctx *ctx = arena_ctx(arena);
    Where where = ctx->where;
    Eval *e = eval_new(arena, f, in, 1, true);
    int most = 0;
    for (int k = 0; k < program->nest.n; k++)
        if (program->nest.at[k]->buf.n > most) most = program->nest.at[k]->buf.n;
    run.code = NEW_ARRAY(arena, NestCode *, program->nest.n);
    run.buf = NEW_ARRAY(arena, Tensor, most);
    for (int c = 0; c < f->cont.n; c++) {
        const Cont *cont = &f->cont.at[c];
        bool given =
            cont->kind == CONT_IN || cont->kind == CONT_PARAM || cont->kind == CONT_LITERAL;
        if (given && cont->layout) e->cont[c] = lay(e, cont, &e->cont[c], NULL);
    }
    eval_items(e, &f->body, run_map, &run);
    for (int c = 0, i = 0; c < f->cont.n; c++) {
        const Cont *cont = &f->cont.at[c];
        if (cont->kind != CONT_OUT) continue;
        const Tensor *t = eval_tensor(e, c);
        out[i] = cont->layout ? lay(e, cont, NULL, t) : *t;
        eval_give(e, c, &out[i++]);
    }
    ctx->where = where;
}

void program_eval(Arena *arena, const Program *program, const Tensor *in, Tensor *out) {
    run_program((Run){.program = program, .arena = arena}, in, out);
}

void program_eval_watched(Arena *arena, const Program *program, const Tensor *in, Tensor *out,
                          EvalWatchFn *watch, void *user) {
    Run run = {.program = program, .arena = arena, .watch = watch, .user = user};
    run_program(run, in, out);
}

void program_eval_counted(Arena *arena, const Program *program, const Tensor *in, Tensor *out,
                          NestTraffic *traffic) {
    run_program((Run){.program = program, .arena = arena, .traffic = traffic}, in, out);
}
