/* SPDX-License-Identifier: Apache-2.0 */
/* Evaluating a flow: items in order, over dense tensors.
 *
 * What a map means stands in flow_eval_map.c; here are the containers and what runs around maps:
 * loops with carried containers, conditions, calls. A symbol that a loop defines holds, inside it,
 * the iterations begun so far, so that containers indexed by the iteration grow as they are
 * written. */
#include "flow_eval.h"

#include <string.h>

/* ---- symbols -------------------------------------------------------------------------------- */

void eval_bind(Eval *e, Dim sym, int64_t value) {
    intptr_t at = (intptr_t)table_get(e->bound, sym);
    if (at > 0) {
        e->binding.at[at - 1].value = value;
        return;
    }
    vec_push(e->arena, &e->binding, (Binding){sym, value});
    table_put(e->bound, sym, (void *)(intptr_t)e->binding.n);
}

void eval_unbind(Eval *e, Dim sym) {
    table_put(e->bound, sym, NULL);
}

bool eval_symbol(void *eval, Dim sym, int64_t *value) {
    Eval *e = eval;
    intptr_t at = (intptr_t)table_get(e->bound, sym);
    if (at <= 0) return false;
    *value = e->binding.at[at - 1].value;
    return true;
}

int64_t eval_dim(Eval *e, Dim d) {
    int64_t value;
    if (!dim_eval(d, eval_symbol, e, &value))
        fail(e->ctx, E_VERIFY, "size \"%s\" uses a symbol that has no value here: define it before",
             dim_str(e->ctx, d));
    return value;
}

/* ---- inputs --------------------------------------------------------------------------------- */

typedef struct Unknown {
    Eval *e;
    Dim sym;
    int n;
} Unknown;

static void count_unknown(void *user, Dim sym) {
    Unknown *u = user;
    int64_t value;
    if (eval_symbol(u->e, sym, &value)) return;
    u->sym = sym;
    u->n++;
}

/* Solves a*N + b = given for the one symbol N that has no value yet. */
static bool solve(Eval *e, Dim d, int64_t given) {
    Unknown u = {.e = e};
    int64_t a, b;
    Dim coef, rest;
    dim_symbols(d, count_unknown, &u);
    if (u.n != 1 || !dim_affine(e->ctx, d, &u.sym, 1, &coef, &rest)) return false;
    if (!dim_eval(coef, eval_symbol, e, &a) || !dim_eval(rest, eval_symbol, e, &b)) return false;
    if (a == 0 || (given - b) % a != 0) return false;
    eval_bind(e, u.sym, (given - b) / a);
    return true;
}

static void check_type(Eval *e, const Cont *c, const Tensor *t) {
    if (t->type != c->type)
        fail(e->ctx, E_INPUT, "input \"%s\" is %s but the model takes %s", c->name,
             dtype_name(t->type), dtype_name(c->type));
    if (t->rank != c->rank)
        fail(e->ctx, E_INPUT, "input \"%s\" has rank %d but the model takes rank %d", c->name,
             t->rank, c->rank);
}

static void check_dims(Eval *e, const Cont *c, const Tensor *t) {
    for (int k = 0; k < c->rank; k++) {
        int64_t want;
        if (!dim_eval(c->shape[k], eval_symbol, e, &want))
            fail(e->ctx, E_INPUT, "input \"%s\": dim %d is %lld, which does not determine \"%s\"",
                 c->name, k, (long long)t->dim[k], dim_str(e->ctx, c->shape[k]));
        if (want != t->dim[k])
            fail(e->ctx, E_INPUT, "input \"%s\": dim %d is %lld but must be %lld (\"%s\")", c->name,
                 k, (long long)t->dim[k], (long long)want, dim_str(e->ctx, c->shape[k]));
    }
}

static void check_range(Eval *e, const Symbol *s) {
    int64_t v;
    if (!eval_symbol(e, s->sym, &v)) return;
    if (v < s->lo || v > s->hi)
        fail(e->ctx, E_INPUT, "\"%s\" is %lld but must be at least %lld and at most %lld",
             dim_sym_name(s->sym), (long long)v, (long long)s->lo, (long long)s->hi);
}

/* Tensors here are dense and share nothing. */
static void bind_memory(Eval *e, Dim sym) {
    int64_t v;
    int dim;
    if (eval_symbol(e, sym, &v)) return;
    if (flow_shared(e->flow, sym) >= 0 || flow_spare(e->flow, sym, &dim) >= 0) eval_bind(e, sym, 0);
}

static void *eval_objects(Eval *e) {
    if (!e->objects && e->ctx->runtime) e->objects = e->ctx->runtime->objects(e->arena, e->flow);
    return e->objects;
}

static void take_objects(Eval *e, int cont) {
    const Cont *c = &e->flow->cont.at[cont];
    if (dtype_class(c->type) != CLASS_OBJECT) return;
    if (!eval_objects(e))
        fail(e->ctx, E_UNSUPPORTED, "\"%s\" cannot be evaluated without the runtime", c->name);
    const char *wrong = e->ctx->runtime->take(e->arena, e->objects, &e->cont[cont]);
    if (wrong) fail(e->ctx, E_INPUT, "input \"%s\": %s", c->name, wrong);
}

void eval_give(Eval *e, int cont, Tensor *t) {
    const Cont *c = &e->flow->cont.at[cont];
    if (dtype_class(c->type) != CLASS_OBJECT || !eval_objects(e)) return;
    const char *wrong = e->ctx->runtime->give(e->arena, e->objects, t);
    if (wrong) fail(e->ctx, E_RUN, "output \"%s\": %s", c->name, wrong);
}

static void bind_inputs(Eval *e, const Tensor *in) {
    const Flow *f = e->flow;
    bool again = true;
    for (int c = 0, i = 0; c < f->cont.n; c++) {
        if (f->cont.at[c].kind != CONT_IN) continue;
        check_type(e, &f->cont.at[c], &in[i]);
        e->cont[c] = in[i++];
        if (!e->cont[c].data) e->cont[c].data = arena_alloc(e->arena, 16);
        take_objects(e, c);
    }
    while (again) {
        again = false;
        for (int c = 0; c < f->cont.n; c++)
            for (int k = 0; f->cont.at[c].kind == CONT_IN && k < f->cont.at[c].rank; k++)
                again = solve(e, f->cont.at[c].shape[k], e->cont[c].dim[k]) || again;
    }
    for (int c = 0; c < f->cont.n; c++)
        if (f->cont.at[c].kind == CONT_IN) check_dims(e, &f->cont.at[c], &e->cont[c]);
    for (int s = 0; s < f->symbol.n; s++) bind_memory(e, f->symbol.at[s].sym);
    for (int s = 0; s < f->symbol.n; s++) check_range(e, &f->symbol.at[s]);
}

/* ---- containers ----------------------------------------------------------------------------- */

void eval_shape(Eval *e, int cont, int64_t *dim) {
    const Cont *c = &e->flow->cont.at[cont];
    bool laid = e->storage && c->layout;
    int rank = laid ? c->layout->rank : c->rank;
    for (int k = 0; k < rank; k++) {
        dim[k] = eval_dim(e, laid ? c->layout->box[k] : c->shape[k]);
        if (dim[k] < 0)
            fail(e->ctx, E_INPUT, "\"%s\": dim %d, %s, would be %lld: the inputs are too small",
                 c->name, k, dim_str(e->ctx, laid ? c->layout->box[k] : c->shape[k]),
                 (long long)dim[k]);
    }
}

/* Elements that nobody writes show: floats are NaN, other bytes 0xa5. Bools stay valid. */
static void poison(DType t, char *data, int64_t from, int64_t to) {
    if (t == BOOL) return;
    if (t != F32 && t != F64) {
        memset(data + from, 0xa5, (size_t)(to - from));
        return;
    }
    memset(data + from, 0xff, (size_t)(to - from));
}

static bool is_result(const Eval *e, int cont) {
    return e->flow->cont.at[cont].kind == CONT_OUT;
}

/* Temporaries have an arena each, so that they can go before the end. */
static void *allocate(Eval *e, int cont, int64_t bytes) {
    Arena *arena = is_result(e, cont) ? e->arena : arena_new(e->ctx);
    void *data = arena_alloc(arena, (size_t)bytes + 64);
    Arena *before = e->own[cont];
    if (before) {
        memcpy(data, e->cont[cont].data, (size_t)(e->room[cont] < bytes ? e->room[cont] : bytes));
        arena_free(before);
    } else if (e->cont[cont].data) {
        memcpy(data, e->cont[cont].data, (size_t)(e->room[cont] < bytes ? e->room[cont] : bytes));
    }
    e->own[cont] = is_result(e, cont) ? NULL : arena;
    e->room[cont] = bytes;
    return data;
}

static void *placed(Eval *e, int cont) {
    const Cont *c = &e->flow->cont.at[cont];
    if (!e->storage) return NULL;
    for (int i = 0; i < e->flow->alias.n; i++) {
        const Alias *alias = &e->flow->alias.at[i];
        if (alias->cont != cont || alias->when) continue;
        char *of = eval_make(e, alias->of)->data;
        return of + dtype_bytes(c->type, eval_dim(e, alias->offset));
    }
    return c->place == PLACE_ARENA && e->memory ? e->memory + eval_dim(e, c->offset) : NULL;
}

Tensor *eval_make(Eval *e, int cont) {
    const Cont *c = &e->flow->cont.at[cont];
    Tensor *t = &e->cont[cont];
    int64_t dim[RANK_MAX], count = 1;
    bool same = t->data != NULL, tail = t->data != NULL;
    if (c->kind == CONT_IN || c->kind == CONT_PARAM || c->kind == CONT_LITERAL) return t;
    int rank = e->storage && c->layout ? c->layout->rank : c->rank;
    eval_shape(e, cont, dim);
    for (int k = 0; k < rank; k++) {
        if (dim[k] < 0)
            fail(e->ctx, E_RUN, "container \"%s\" would have %lld elements in dim %d", c->name,
                 (long long)dim[k], k);
        same = same && dim[k] == t->dim[k];
        tail = tail && (k == 0 || dim[k] == t->dim[k]);
        if (__builtin_mul_overflow(count, dim[k], &count))
            fail(e->ctx, E_DIM, "container \"%s\" has too many elements", c->name);
    }
    if (same) return t;
    int64_t bytes = dtype_bytes(c->type, count);
    int64_t kept = tail ? dtype_bytes(c->type, tensor_count(t)) : 0;
    void *place = placed(e, cont);
    if (place)
        t->data = place;
    else if (!t->data || bytes > e->room[cont])
        t->data = allocate(e, cont, t->data ? bytes * 2 : bytes);
    if (bytes > kept && !place) poison(c->type, t->data, kept, bytes);
    t->type = c->type;
    t->rank = rank;
    memcpy(t->dim, dim, sizeof dim);
    return t;
}

static bool is_empty(Eval *e, const Cont *c) {
    for (int k = 0; k < c->rank; k++)
        if (!eval_dim(e, c->shape[k])) return true;
    return false;
}

/* Nobody need write what has no elements. */
const Tensor *eval_tensor(Eval *e, int cont) {
    const Cont *c = &e->flow->cont.at[cont];
    if (!e->cont[cont].data && is_empty(e, c)) eval_make(e, cont);
    if (!e->cont[cont].data)
        fail(e->ctx, E_VERIFY, "container \"%s\" is read before it is written", c->name);
    return &e->cont[cont];
}

/* A weight may be a view of a mapped file, at any byte: elements are read where they are aligned.
 */
static void bind_constant(Eval *e, int cont) {
    const Cont *c = &e->flow->cont.at[cont];
    Tensor *t = &e->cont[cont];
    *t = (Tensor){.type = c->type, .rank = c->rank};
    for (int k = 0; k < c->rank; k++) t->dim[k] = eval_dim(e, c->shape[k]);
    int64_t bytes = dtype_bytes(c->type, tensor_count(t));
    const void *data = c->data ? c->data : c->unseen;
    if (data && c->data_bytes < bytes)
        fail(e->ctx, E_VERIFY, "\"%s\" needs %lld bytes of data but has %lld", c->name,
             (long long)bytes, (long long)c->data_bytes);
    t->data = (void *)(uintptr_t)data;
    if ((uintptr_t)t->data % 16 != 0) {
        t->data = memcpy(arena_alloc(e->arena, (size_t)bytes + 64), data, (size_t)bytes);
    } else if (!t->data) {
        t->data = arena_alloc(e->arena, (size_t)bytes + 64);
        cont_random(c, t, 1);
    }
}

/* Parameters that the constant part makes. */
static void eval_prepare(Eval *e) {
    const Flow *flow = e->flow, *part = flow->prepare;
    int n = 0;
    for (int i = 0; i < part->cont.n; i++) n += part->cont.at[i].kind == CONT_OUT;
    Tensor *made = NEW_ARRAY(e->arena, Tensor, n + 1);
    flow_eval(e->arena, part, NULL, made, e->threads);
    for (int i = 0, k = 0; i < part->cont.n; i++) {
        if (part->cont.at[i].kind != CONT_OUT) continue;
        for (int c = 0; c < flow->cont.n; c++)
            if (flow->cont.at[c].name == part->cont.at[i].name) e->cont[c] = made[k];
        k++;
    }
}

Eval *eval_new(Arena *arena, const Flow *flow, const Tensor *in, int threads, bool storage) {
    Eval *e = NEW(arena, Eval);
    *e = (Eval){.ctx = arena_ctx(arena), .arena = arena, .flow = flow, .threads = threads};
    e->storage = storage;
    e->cont = NEW_ARRAY(arena, Tensor, flow->cont.n);
    e->own = NEW_ARRAY(arena, Arena *, flow->cont.n);
    e->room = NEW_ARRAY(arena, int64_t, flow->cont.n);
    e->bound = table_new(arena);
    bind_inputs(e, in);
    if (flow->prepare) eval_prepare(e);
    if (!storage) eval_check_asked(e);
    for (int c = 0; c < flow->cont.n; c++) {
        ContKind kind = flow->cont.at[c].kind;
        if ((kind == CONT_PARAM || kind == CONT_LITERAL) && !e->cont[c].data) bind_constant(e, c);
    }
    int64_t room;
    if (storage && dim_eval(flow->arena_bytes, eval_symbol, e, &room))
        e->memory = memset(arena_alloc(arena, (size_t)room + 64), 0xff, (size_t)room + 64);
    return e;
}

bool eval_true(Eval *e, int cont) {
    const Tensor *t = eval_tensor(e, cont);
    if (t->type != BOOL || tensor_count(t) < 1)
        fail(e->ctx, E_VERIFY, "condition \"%s\" is not a bool", e->flow->cont.at[cont].name);
    return *(const uint8_t *)t->data != 0;
}

/* ---- loops ---------------------------------------------------------------------------------- */

/* The tensor itself, not its container's declared dims: what a loop carries may change its shape.
 */
static Tensor copy_out(Arena *arena, const Tensor *t) {
    Tensor copy = *t;
    if (t->data) {
        int64_t bytes = dtype_bytes(t->type, tensor_count(t));
        copy.data = arena_alloc(arena, (size_t)bytes + 64);
        memcpy(copy.data, t->data, (size_t)bytes);
    }
    return copy;
}

static void put(Eval *e, int cont, const Tensor *from) {
    Tensor *t = &e->cont[cont];
    int64_t bytes = dtype_bytes(from->type, tensor_count(from));
    if (e->storage && e->flow->cont.at[cont].place == PLACE_ARENA)
        eval_make(e, cont);
    else if (!t->data || bytes > e->room[cont])
        t->data = allocate(e, cont, bytes);
    void *data = t->data;
    if (from->data) memcpy(data, from->data, (size_t)bytes);
    *t = *from;
    t->data = data;
}

/* All at once: one's next may be another's cur. */
static void carry(Eval *e, const Item *loop, bool first) {
    Arena *scratch = arena_new(e->ctx);
    Tensor *copy = NEW_ARRAY(scratch, Tensor, loop->carry.n);
    for (int i = 0; i < loop->carry.n; i++) {
        const Carry *c = &loop->carry.at[i];
        copy[i] = copy_out(scratch, eval_tensor(e, first ? c->init : c->next));
    }
    for (int i = 0; i < loop->carry.n; i++) put(e, loop->carry.at[i].cur, &copy[i]);
    arena_free(scratch);
}

/* Containers whose shape is the number of iterations exist even when there were none. */
static void make_written(Eval *e, const Items *items) {
    const Flow *f = e->flow;
    for (int i = 0; i < items->n; i++) {
        const Item *item = &items->at[i];
        if (item->kind == ITEM_MAP) {
            const Map *m = f->map.at[item->map];
            for (int w = 0; w < m->write.n; w++)
                for (int k = 0; k < m->write.at[w].n; k++) {
                    const Cont *c = &f->cont.at[m->write.at[w].to[k].cont];
                    int64_t v;
                    bool known = true;
                    for (int d = 0; d < c->rank; d++)
                        known = known && dim_eval(c->shape[d], eval_symbol, e, &v);
                    if (known) eval_make(e, m->write.at[w].to[k].cont);
                }
        }
        make_written(e, &item->body);
        make_written(e, &item->other);
    }
}

static void run_loop(Eval *e, const Item *loop, EvalMapFn *map, void *user) {
    int64_t trip = loop->trip ? eval_dim(e, loop->trip) : INT64_MAX, t = 0;
    carry(e, loop, true);
    for (; t < trip; t++) {
        if (loop->cond >= 0 && !eval_true(e, loop->cond)) break;
        if (loop->var) eval_bind(e, loop->var, t);
        if (loop->done) eval_bind(e, loop->done, t + 1);
        eval_items(e, &loop->body, map, user);
        carry(e, loop, false);
    }
    if (loop->done) eval_bind(e, loop->done, t);
    if (loop->var) eval_unbind(e, loop->var);
    if (loop->done || t == 0) make_written(e, &loop->body);
}

/* ---- calls ---------------------------------------------------------------------------------- */

/* While it runs, a symbol it defines is its upper bound, so that results have room. */
static void bind_upper(Eval *e, const Call *call) {
    for (int i = 0; i < call->ndefine; i++) {
        const Symbol *s = NULL;
        for (int k = 0; k < e->flow->symbol.n; k++)
            if (e->flow->symbol.at[k].sym == call->define[i]) s = &e->flow->symbol.at[k];
        if (!s || (!s->upper && s->hi == INT64_MAX))
            fail(e->ctx, E_VERIFY,
                 "symbol \"%s\", defined by \"%s\", has no upper bound: declare it `upto`",
                 dim_sym_name(call->define[i]), call->name);
        eval_bind(e, s->sym, s->upper ? eval_dim(e, s->upper) : s->hi);
    }
}

static void run_call(Eval *e, const Call *call) {
    Arena *scratch = arena_new(e->ctx);
    Tensor *in = NEW_ARRAY(scratch, Tensor, call->nin),
           *out = NEW_ARRAY(scratch, Tensor, call->nout);
    int64_t *define = NEW_ARRAY(scratch, int64_t, call->ndefine);
    bind_upper(e, call);
    for (int i = 0; i < call->nin; i++)
        if (call->in[i] >= 0) in[i] = *eval_tensor(e, call->in[i]);
    for (int i = 0; i < call->nout; i++)
        if (call->out[i] >= 0) out[i] = *eval_make(e, call->out[i]);
    CallArgs args = {.row = call->row,
                     .arena = scratch,
                     .objects = eval_objects(e),
                     .nin = call->nin,
                     .nout = call->nout,
                     .nattr = call->nattr,
                     .ndefine = call->ndefine,
                     .in = in,
                     .out = out,
                     .attr = call->attr,
                     .define = define};
    if (!e->ctx->runtime)
        fail(e->ctx, E_UNSUPPORTED, "call \"%s\" cannot be evaluated without the runtime",
             call->name);
    if (!e->ctx->runtime->call(&args))
        fail(e->ctx, E_RUN, "call \"%s\" (%s): %s", call->name, call->row->name,
             args.reason ? args.reason : "failed");
    for (int i = 0; i < call->ndefine; i++) {
        if (define[i] > eval_dim(e, call->define[i]))
            fail(e->ctx, E_RUN, "the data make a size of %s that its operands do not allow",
                 call->from ? from_words(e->ctx, call->from) : call->name);
        eval_bind(e, call->define[i], define[i]);
    }
    for (int i = 0; i < call->nout; i++) {
        if (call->out[i] < 0) continue;
        Tensor *t = &e->cont[call->out[i]];
        eval_shape(e, call->out[i], t->dim);
    }
    arena_free(scratch);
}

/* ---- items ---------------------------------------------------------------------------------- */

static bool chooses_body(Eval *e, const Item *item) {
    return item->when ? eval_dim(e, item->when) >= 0 : eval_true(e, item->cond);
}

void eval_items(Eval *e, const Items *items, EvalMapFn *map, void *user) {
    for (int i = 0; i < items->n; i++) {
        const Item *item = &items->at[i];
        switch (item->kind) {
        case ITEM_MAP:
            if (map)
                map(user, e, item->map);
            else
                eval_map(e, e->flow->map.at[item->map]);
            break;
        case ITEM_CALL: run_call(e, item->call); break;
        case ITEM_LOOP: run_loop(e, item, map, user); break;
        case ITEM_IF:
            eval_items(e, chooses_body(e, item) ? &item->body : &item->other, map, user);
            break;
        }
    }
}

/* Numbers of the last item, among the flow's own, that speaks of each container. */
static void note_last(const Flow *f, const Item *item, int number, int *last) {
    for (int i = 0; i < item->carry.n; i++) {
        const Carry *c = &item->carry.at[i];
        last[c->cur] = last[c->init] = last[c->next] = number;
    }
    if (item->cond >= 0 && item->kind != ITEM_MAP) last[item->cond] = number;
    if (item->kind == ITEM_CALL) {
        for (int i = 0; i < item->call->nin; i++)
            if (item->call->in[i] >= 0) last[item->call->in[i]] = number;
        for (int i = 0; i < item->call->nout; i++)
            if (item->call->out[i] >= 0) last[item->call->out[i]] = number;
    }
    if (item->kind == ITEM_MAP) {
        const Map *m = f->map.at[item->map];
        for (int v = 0; v < m->body.val.n; v++)
            if (m->body.val.at[v].kind == VAL_READ) last[m->body.val.at[v].read.cont] = number;
        for (int w = 0; w < m->write.n; w++)
            for (int k = 0; k < m->write.at[w].n; k++) last[m->write.at[w].to[k].cont] = number;
    }
    for (int i = 0; i < item->body.n; i++) note_last(f, &item->body.at[i], number, last);
    for (int i = 0; i < item->other.n; i++) note_last(f, &item->other.at[i], number, last);
}

static void drop_dead(Eval *e, const int *last, int number) {
    for (int c = 0; c < e->flow->cont.n; c++) {
        if (last[c] != number || !e->own[c]) continue;
        arena_free(e->own[c]);
        e->own[c] = NULL;
        e->cont[c].data = NULL;
    }
}

static Tensor result(Eval *e, int cont) {
    Tensor t = *eval_tensor(e, cont);
    if (e->own[cont]) {
        Tensor copy = copy_out(e->arena, &t);
        arena_free(e->own[cont]);
        t = copy;
    }
    eval_give(e, cont, &t);
    return t;
}

static void show_written(Eval *e, const Item *item, EvalWatchFn *watch, void *user) {
    const Flow *f = e->flow;
    for (int i = 0; item->kind == ITEM_CALL && i < item->call->nout; i++) {
        int c = item->call->out[i];
        if (c >= 0 && e->cont[c].data) watch(user, &f->cont.at[c], &e->cont[c]);
    }
    const Map *m = item->kind == ITEM_MAP ? f->map.at[item->map] : NULL;
    for (int w = 0; m && w < m->write.n; w++)
        for (int k = 0; k < m->write.at[w].n; k++) {
            int c = m->write.at[w].to[k].cont;
            if (e->cont[c].data) watch(user, &f->cont.at[c], &e->cont[c]);
        }
    for (int i = 0; i < item->body.n; i++) show_written(e, &item->body.at[i], watch, user);
    for (int i = 0; i < item->other.n; i++) show_written(e, &item->other.at[i], watch, user);
}

void flow_eval(Arena *arena, const Flow *flow, const Tensor *in, Tensor *out, int threads) {
    flow_eval_watched(arena, flow, in, out, threads, NULL, NULL);
}

void flow_eval_watched(Arena *arena, const Flow *flow, const Tensor *in, Tensor *out, int threads,
                       EvalWatchFn *watch, void *user) {
    Ctx *ctx = arena_ctx(arena);
    Where where = ctx->where;
    Eval *e = eval_new(arena, flow, in, threads < 1 ? 1 : threads, false);
    int *last = NEW_ARRAY(arena, int, flow->cont.n);
    for (int i = 0; i < flow->body.n; i++) note_last(flow, &flow->body.at[i], i, last);
    for (int i = 0; i < flow->body.n; i++) {
        Items one = {.at = &flow->body.at[i], .n = 1};
        eval_items(e, &one, NULL, NULL);
        if (watch) show_written(e, &flow->body.at[i], watch, user);
        drop_dead(e, last, i);
    }
    for (int c = 0, i = 0; c < flow->cont.n; c++)
        if (flow->cont.at[c].kind == CONT_OUT) out[i++] = result(e, c);
    ctx->where = where;
}

/* ---- values for containers that have none --------------------------------------------------- */

static uint64_t mix(uint64_t x) {
    x ^= x >> 30, x *= 0xbf58476d1ce4e5b9u;
    x ^= x >> 27, x *= 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

static Bits random_bits(const Cont *c, uint64_t r) {
    if (c->has_range) {
        uint64_t span = (uint64_t)c->hi - (uint64_t)c->lo + 1;
        return bits_of_int(c->type, (int64_t)((uint64_t)c->lo + (span ? r % span : r)));
    }
    if (dtype_is_float(c->type))
        return bits_of_double(c->type, (double)(int64_t)(r >> 11) * 0x1p-52 - 1.0);
    if (c->type == BOOL) return r & 1;
    if (dtype_bits(c->type) <= 8) return bits_of_int(c->type, (int64_t)(r & 255));
    return bits_of_int(c->type, (int64_t)(r % 10));
}

void cont_random(const Cont *cont, Tensor *t, uint64_t seed) {
    uint64_t state = hash_bytes(seed, cont->name, strlen(cont->name));
    int64_t n = tensor_count(t);
    if (dtype_class(t->type) == CLASS_OBJECT) return;
    if (dtype_class(t->type) == CLASS_COMPLEX) {
        DType part = t->type == C64 ? F32 : F64;
        for (int64_t i = 0; i < 2 * n; i++) {
            double v =
                (double)(int64_t)(mix(state + (uint64_t)i * 0x9e3779b97f4a7c15u) >> 11) * 0x1p-52 -
                1;
            mem_set(part, t->data, i, bits_of_double(part, v));
        }
        return;
    }
    for (int64_t i = 0; i < n; i++)
        mem_set(t->type, t->data, i,
                random_bits(cont, mix(state + (uint64_t)i * 0x9e3779b97f4a7c15u)));
}
