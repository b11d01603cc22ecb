/* SPDX-License-Identifier: Apache-2.0 */
/* Looking for the first divergence. Every stage after `lower` can be evaluated, so a pass at fault
 * shows by itself: the first after which a result is no longer that of the lowered flow. Containers
 * keep their names through the passes; the first whose elements differ is the value to look at.
 * Faults of emission show only in compiled code, whose inside nobody sees: there a value is made an
 * output of its own. */
#include "tools/weir/bisect.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/weir/session.h"

typedef struct Bisect {
    const HostTensor *inputs;
    int ninputs, threads;
    Session *s;
    Tensor *in;
    Table *values;           /* interned name -> Tensor of the reference */
    VEC(const char *) order; /* names as the reference wrote them */
    const char *first;       /* the first value that differs in the stage at hand */
    bool output_differs; /* without, what differs is of no use to anybody: memory that nobody reads
                          */
    double share;        /* agree_share */
    Agreement worst;
    int rc;
} Bisect;

static weir_tensor host_view(const Tensor *t) {
    weir_tensor h = {.data = t->data, .dtype = dtype_onnx(t->type), .rank = t->rank};
    for (int k = 0; k < t->rank; k++) h.dims[k] = t->dim[k];
    return h;
}

static Tensor from_host(const weir_tensor *h) {
    Tensor t = {.type = dtype_from_host(h->dtype), .rank = h->rank, .data = h->data};
    for (int k = 0; k < h->rank; k++) t.dim[k] = h->dims[k];
    return t;
}

/* ---- the reference -------------------------------------------------------------------------- */

static void keep_value(void *user, const Cont *cont, const Tensor *t) {
    Bisect *b = user;
    Tensor *copy = table_get(b->values, cont->name);
    if (!copy) {
        copy = NEW(b->s->arena, Tensor);
        vec_push(b->s->arena, &b->order, cont->name);
        table_put(b->values, cont->name, copy);
    }
    *copy = *t;
    copy->data = arena_copy(b->s->arena, t->data, (size_t)dtype_bytes(t->type, tensor_count(t)));
}

/* Elements that a pass found nobody needs are not written: the evaluator leaves a NaN of all ones
 * there. */
static void take_unwritten(Tensor *t, const Tensor *want) {
    int64_t n = tensor_count(want);
    for (int64_t i = 0; i < n; i++) {
        Bits ones = dtype_bits(t->type) == 64 ? ~(Bits)0 : ((Bits)1 << dtype_bits(t->type)) - 1;
        if (mem_get(t->type, t->data, i) == ones)
            mem_set(t->type, t->data, i, mem_get(t->type, want->data, i));
    }
}

static void compare_value(void *user, const Cont *cont, const Tensor *t) {
    Bisect *b = user;
    const Tensor *want = table_get(b->values, cont->name);
    bool output = cont->kind == CONT_OUT;
    if ((b->first && !output) || !want || want->type != t->type) return;
    weir_tensor g = host_view(t), w = host_view(want);
    Agreement a = host_agree(&g, &w);
    if (a.comparable && !a.equal && dtype_is_float(t->type)) {
        Tensor mine = *t;
        mine.data = arena_copy(b->s->arena, t->data, (size_t)dtype_bytes(t->type, tensor_count(t)));
        take_unwritten(&mine, want);
        g = host_view(&mine);
        a = host_agree(&g, &w);
    }
    if (!a.comparable || agreement_holds(&a, g.dtype, b->share)) return;
    b->output_differs = b->output_differs || output;
    if (b->first) return;
    b->first = cont->name;
    b->worst = a;
}

static void eval_stage(Bisect *b, EvalWatchFn *watch) {
    const Stage *stage = &b->s->driver.stage;
    Tensor *out = NEW_ARRAY(b->s->arena, Tensor, stage_flow(stage)->cont.n);
    Arena *arena = arena_new(b->s->ctx);
    if (stage->program)
        program_eval_watched(arena, stage->program, b->in, out, watch, b);
    else
        flow_eval_watched(arena, stage->flow, b->in, out, b->threads, watch, b);
    arena_free(arena);
}

static void say_value(const Bisect *b, const char *what) {
    printf(
        "%s: value \"%s\" is the first to differ: element %lld is %.9g, not %.9g (relative %.2e)\n",
        what, b->first, (long long)b->worst.at, b->worst.got, b->worst.want, b->worst.relative);
}

/* ---- passes --------------------------------------------------------------------------------- */

/* True when some pass is at fault. */
static bool bisect_passes(Bisect *b) {
    int n;
    const Pass *pass = pass_list(&n);
    for (int i = 0; i < n; i++) {
        if (pass_result(&pass[i]) == LEVEL_GRAPH || pass[i].lower) continue;
        session_passes(b->s, pass[i].name);
        b->first = NULL;
        b->output_differs = false;
        eval_stage(b, compare_value);
        printf("after %-12s %s\n", pass[i].name, b->output_differs ? "differs" : "ok");
        if (!b->output_differs) continue;
        say_value(b, internf(b->s->ctx, "pass \"%s\"", pass[i].name));
        return true;
    }
    return false;
}

/* ---- emitted code --------------------------------------------------------------------------- */

static int cont_named(const Flow *f, const char *name) {
    for (int c = 0; c < f->cont.n; c++)
        if (f->cont.at[c].name == name) return c;
    return -1;
}

/* The lowered flow with a copy of one value as a further, last output. */
static Flow *with_output(Bisect *b, const Flow *from, const char *name) {
    Flow *f = flow_clone(b->s->arena, from);
    Cont cont = f->cont.at[cont_named(f, name)];
    Dim at[RANK_MAX];
    int out = flow_cont(f, "bisected", CONT_OUT, cont.type, cont.shape, cont.rank);
    Map *map = flow_map(f, &f->body, "bisected.copy", cont.from);
    for (int k = 0; k < cont.rank; k++)
        at[k] = map_dim(f, map, internf(b->s->ctx, "i%d", k), cont.shape[k]);
    map_write(f, map, out, at, map_read(f, map, cont_named(f, name), at), NULL);
    return f;
}

/* Compiles the flow, runs it, and compares its last output with the reference's value. */
static bool code_differs(Bisect *b, const Flow *flow, const char *name) {
    Driver d = b->s->driver;
    PassEnv env = driver_env(&d);
    d.stage = passes_run(b->s->ctx, (Stage){.flow = flow}, &env, NULL);
    d.units = (Units){0};
    Loaded loaded = driver_load(&d);
    const weir_model *m = loaded.model;
    const Tensor *want = table_get(b->values, name);
    weir_tensor *in = NEW_ARRAY(b->s->arena, weir_tensor, m->ninputs + 1);
    weir_tensor *out = NEW_ARRAY(b->s->arena, weir_tensor, m->noutputs + 1), w = host_view(want);
    weir_instance *instance = NULL;
    for (int i = 0; i < m->ninputs; i++) in[i] = b->inputs[i].t;
    bool ran =
        m->create(NULL, &instance, NULL) == WEIR_OK && m->shapes(instance, in, out) == WEIR_OK;
    for (int i = 0; ran && i < m->noutputs; i++) {
        out[i].capacity = host_count(&out[i]);
        out[i].data = arena_alloc(b->s->arena, (size_t)host_bytes(&out[i]) + 64);
    }
    ran = ran && m->run(instance, in, out) == WEIR_OK;
    if (instance) m->destroy(instance);
    b->worst = ran ? host_agree(&out[m->noutputs - 1], &w) : (Agreement){0};
    loaded_free(&loaded);
    return !ran || !agreement_holds(&b->worst, w.dtype, b->share);
}

/* What is right stays so and what follows a wrong value is wrong: so halves find the first. */
static void bisect_code(Bisect *b) {
    session_passes(b->s, "lower");
    const Flow *flow = b->s->driver.stage.flow;
    int good = -1, wrong = b->order.n - 1;
    while (wrong - good > 1) {
        int middle = good + (wrong - good) / 2;
        bool differs =
            code_differs(b, with_output(b, flow, b->order.at[middle]), b->order.at[middle]);
        printf("compiled \"%s\" %s\n", b->order.at[middle], differs ? "differs" : "ok");
        *(differs ? &wrong : &good) = middle;
    }
    b->first = b->order.at[wrong];
    if (code_differs(b, with_output(b, flow, b->first), b->first))
        say_value(b, "emitted code");
    else
        printf("emitted code: every value is right when it is an output; it differs only as the "
               "model is fused\n");
}

static bool outputs_differ(Bisect *b) {
    const char *first = NULL;
    const Flow *flow = stage_flow(&b->s->driver.stage);
    for (int c = 0; c < flow->cont.n; c++)
        if (flow->cont.at[c].kind == CONT_OUT) first = flow->cont.at[c].name;
    return first && code_differs(b, with_output(b, flow, first), first);
}

static void run(Session *s) {
    Bisect *b = s->user;
    b->s = s;
    b->in = NEW_ARRAY(s->arena, Tensor, b->ninputs);
    for (int i = 0; i < b->ninputs; i++) b->in[i] = from_host(&b->inputs[i].t);
    b->values = table_new(s->arena);
    session_passes(s, "lower");
    b->share = agree_share(&s->options, stage_flow(&s->driver.stage));
    eval_stage(b, keep_value);
    b->rc = EXIT_OURS;
    if (bisect_passes(b)) return;
    session_passes(s, "lower");
    if (outputs_differ(b))
        bisect_code(b);
    else
        b->rc = EXIT_DONE;
    if (b->rc == EXIT_DONE) printf("nothing diverges\n");
}

int bisect(weir_context *c, const char *path, const HostTensor *inputs, int ninputs, int threads) {
    Bisect b = {.inputs = inputs, .ninputs = ninputs, .threads = threads < 1 ? 1 : threads};
    int rc = session_try(c, path, run, &b);
    return rc == EXIT_DONE ? b.rc : rc;
}
