/* SPDX-License-Identifier: Apache-2.0 */
/* The evaluator as an engine. A model is taken as far as --stop-after says (`lower` unless said,
 * for other targets than C to its nests) and the flow or the nests found there are evaluated; a
 * text that holds a flow or nests is evaluated as it is. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/driver.h"
#include "tools/weir/engine.h"

typedef struct Evaluation {
    Ctx *ctx;
    Arena *arena;
    Stage stage;
    const Flow *flow;
    int threads;
} Evaluation;

/* ---- opening -------------------------------------------------------------------------------- */

typedef struct Opening {
    Evaluation *ev;
    Engine *engine;
    const Options *options;
    const char *path;
} Opening;

static weir_port *ports(Evaluation *ev, ContKind kind, int *n) {
    weir_port *list = NEW_ARRAY(ev->arena, weir_port, ev->flow->cont.n);
    *n = 0;
    for (int i = 0; i < ev->flow->cont.n; i++) {
        const Cont *c = &ev->flow->cont.at[i];
        if (c->kind != kind) continue;
        const char **dims = NEW_ARRAY(ev->arena, const char *, c->rank);
        for (int k = 0; k < c->rank; k++)
            dims[k] = dim_sym_name(c->shape[k]) ? dim_sym_name(c->shape[k])
                                                : dim_str(ev->ctx, c->shape[k]);
        list[(*n)++] = (weir_port){c->name, dtype_onnx(c->type), c->rank, dims, c->object};
    }
    return list;
}

static void open_model(void *arg) {
    Opening *o = arg;
    Evaluation *ev = o->ev;
    ev->ctx->where.file = o->path;
    ev->arena = arena_new(ev->ctx);
    Options options = *o->options;
    bool text = path_ends(o->path, ".ir");
    if (text) ev->stage = source_read_ir(ev->arena, o->path);
    if (!text || options.stop_after || ev->stage.graph) {
        if (!options.stop_after && options.target == TARGET_C) options.stop_after = "lower";
        Driver driver = driver_new(ev->arena, &options, (Source){.path = o->path}, NULL, NULL);
        driver_passes(&driver);
        ev->stage = driver.stage;
    }
    if (ev->stage.graph)
        fail(ev->ctx, E_OPTION,
             "the passes stop at a graph, which has no evaluator of its own; stop after \"lower\" "
             "or later");
    ev->flow = ev->stage.flow ? ev->stage.flow : ev->stage.program->flow;
    o->engine->share = agree_share(o->options, ev->flow);
    o->engine->inputs = ports(ev, CONT_IN, &o->engine->ninputs);
    o->engine->outputs = ports(ev, CONT_OUT, &o->engine->noutputs);
}

bool eval_open(Engine *e, const char *path, int threads) {
    Evaluation *ev = host_alloc(1, sizeof *ev);
    Opening o = {.ev = ev, .engine = e, .options = context_options(e->context), .path = path};
    ev->ctx = context_fork(e->context);
    ev->threads = threads > 0 ? threads : 2;
    e->eval = ev;
    return ev->ctx && ctx_try(ev->ctx, open_model, &o);
}

void eval_close(Engine *e) {
    Evaluation *ev = e->eval;
    if (ev->ctx) ctx_free(ev->ctx);
    free(ev);
    e->eval = NULL;
}

/* ---- running -------------------------------------------------------------------------------- */

typedef struct Running {
    Evaluation *ev;
    Engine *engine;
    const HostTensor *in;
    HostTensor *out;
    Arena *arena;
    uint64_t moves; /* the state of random moves; 0: nothing moves */
} Running;

static Tensor from_host(const weir_tensor *t) {
    Tensor tensor = {.type = dtype_from_host(t->dtype), .rank = t->rank, .data = t->data};
    for (int k = 0; k < t->rank; k++) tensor.dim[k] = t->dims[k];
    return tensor;
}

static void to_host(Ctx *ctx, const Tensor *t, const char *name, HostTensor *h) {
    h->name = host_text(name);
    h->t = (weir_tensor){.dtype = dtype_onnx(t->type), .rank = t->rank};
    for (int k = 0; k < t->rank; k++) h->t.dims[k] = t->dim[k];
    size_t bytes = (size_t)host_bytes(&h->t);
    if (host_is_object(h->t.dtype)) {
        if (!host_flatten(h, t->data)) fail(ctx, E_MEMORY, "no memory for output \"%s\"", name);
        return;
    }
    h->t.data = host_alloc(bytes, 1);
    memcpy(h->t.data, t->data, bytes);
}

/* A copy of n floats that are moved; what has no such floats is itself. */
static void *moved(Running *r, DType t, const void *data, int64_t n) {
    if (!data || !dtype_is_float(t) || dtype_bits(t) < 32) return (void *)(uintptr_t)data;
    size_t bytes = (size_t)dtype_bytes(t, n);
    void *to = memcpy(arena_alloc(r->arena, bytes + 64), data, bytes);
    for (int64_t i = 0; i < n; i++) {
        Bits b = mem_get(t, to, i);
        double v = bits_to_double(t, b);
        r->moves = r->moves * 6364136223846793005u + 1442695040888963407u;
        Bits other = b + (Bits)(r->moves >> 33) % (2 * MOVE_UNITS + 1) - MOVE_UNITS;
        double d = bits_to_double(t, other) - v;
        if (v != 0 && isfinite(d) && fabs(d) < fabs(v)) mem_set(t, to, i, other);
    }
    return to;
}

static const Flow *moved_weights(Running *r, const Flow *flow) {
    Flow *f = flow_clone(r->arena, flow);
    for (int i = 0; i < f->cont.n; i++) {
        Cont *c = &f->cont.at[i];
        if (c->kind != CONT_PARAM) continue;
        int64_t n = dtype_is_float(c->type) ? c->data_bytes * 8 / dtype_bits(c->type) : 0;
        c->data = moved(r, c->type, c->data, n);
        c->unseen = moved(r, c->type, c->unseen, n);
    }
    if (f->prepare) f->prepare = moved_weights(r, f->prepare);
    return f;
}

static void run_model(void *arg) {
    Running *r = arg;
    Evaluation *ev = r->ev;
    Engine *e = r->engine;
    Tensor *in = NEW_ARRAY(r->arena, Tensor, e->ninputs),
           *out = NEW_ARRAY(r->arena, Tensor, e->noutputs);
    const Flow *flow = r->moves ? moved_weights(r, ev->flow) : ev->flow;
    for (int i = 0; i < e->ninputs; i++) {
        in[i] = from_host(&r->in[i].t);
        if (r->moves) in[i].data = moved(r, in[i].type, in[i].data, tensor_count(&in[i]));
    }
    if (ev->stage.program) {
        Program program = *ev->stage.program;
        program.flow = flow;
        program_eval(r->arena, &program, in, out);
    } else {
        flow_eval(r->arena, flow, in, out, ev->threads);
    }
    for (int i = 0; i < e->noutputs; i++) to_host(ev->ctx, &out[i], e->outputs[i].name, &r->out[i]);
}

bool eval_run_moved(Engine *e, const HostTensor *inputs, HostTensor *outputs, uint64_t seed) {
    Evaluation *ev = e->eval;
    Running r = {ev, e, inputs, outputs, arena_new(ev->ctx), seed};
    memset(outputs, 0, (size_t)e->noutputs * sizeof *outputs);
    bool ok = ctx_try(ev->ctx, run_model, &r);
    if (!ok) tensors_free(outputs, e->noutputs);
    arena_free(r.arena);
    return ok;
}

bool eval_run(Engine *e, const HostTensor *inputs, HostTensor *outputs) {
    return eval_run_moved(e, inputs, outputs, 0);
}
