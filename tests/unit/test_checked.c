/* SPDX-License-Identifier: Apache-2.0 */
/* Code with bounds checks, and programs that were broken behind the verifier's back: a loop that
 * runs once too often, a container that lies where the arena ends. What the evaluator notices of a
 * nest the run must end with, in words, and what is whole must run. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/calls.h"
#include "compiler/driver.h"

enum { PORTS = 4, LOOPS = 64 };

/* Rows and tails, strides, padding, local arrays, indices from data, packed elements, products by
 * an instruction, sizes that data define. */
static const char *const texts[] = {
    "flow rows (N in 1..4096) {\n"
    "  in x : f32[N,21]\n  out y : f32[N,21]\n"
    "  map m [i:N, j:21] { 2.0 * x[i,j] -> y[i,j] }\n"
    "}\n",
    "flow softmax {\n"
    "  in x : f32[9,37]\n  tmp m : f32[9]\n  tmp s : f32[9]\n  out y : f32[9,37]\n"
    "  map a [i:9, j:37] { x[i,j] -> m[i] max:f32 }\n"
    "  map b [i:9, j:37] { exp(x[i,j] - m[i]) -> s[i] sum:f32 }\n"
    "  map c [i:9, j:37] { exp(x[i,j] - m[i]) / s[i] -> y[i,j] }\n"
    "}\n",
    "flow gemm (N in 1..4096) {\n"
    "  in x : f32[N,50]\n  in w : f32[50,40]\n  out y : f32[N,40]\n"
    "  map m [i:N, j:40, k:50] { x[i,k] * w[k,j] -> y[i,j] sum:f32 }\n"
    "}\n",
    "flow conv {\n"
    "  in x : f32[1,3,19,19]\n  in w : f32[8,3,3,3]\n  out y : f32[1,8,10,10]\n"
    "  map m [o:8, h:10, v:10, c:3, r:3, s:3] {\n"
    "    a <- x[0, c, 2*h + r - 1, 2*v + s - 1] else 0.0\n"
    "    a * w[o,c,r,s] -> y[0,o,h,v] sum:f32\n"
    "  }\n"
    "}\n",
    "flow gather {\n"
    "  in x : f64[30,7]\n  in at : i64[12] in 0..29\n  out y : f64[12,7]\n"
    "  map m [i:12, j:7] { r <- at[i]\n x[r,j] -> y[i,j] }\n"
    "}\n",
    "flow codes {\n"
    "  in x : u8[16,40]\n  in w : i8[40,24]\n  out y : i32[16,24]\n"
    "  map m [i:16, j:24, k:40] { i32(x[i,k]) * i32(w[k,j]) -> y[i,j] sum:i32 }\n"
    "}\n",
    "flow nibbles {\n"
    "  in x : u4[33]\n  out y : u4[33]\n"
    "  map m [i:33] { x[32 - i] -> y[i] }\n"
    "}\n",
};

typedef struct Bench {
    Ctx *ctx;
    Arena *arena;
    Options options;
    const char *text;
    Program *program; /* to be broken */
    VEC(Stmt *) loop;
    Tensor in[PORTS], out[PORTS];
    char message[512], error[512];
} Bench;

static void see(void *user, const Diag *diag) {
    Bench *b = user;
    snprintf(b->message, sizeof b->message, "%s", diag->message);
}

static void find_loops(Bench *b, Stmts *stmts) {
    for (int i = 0; i < stmts->n; i++) {
        Stmt *s = stmts->at[i];
        if (s->kind == STMT_FOR && (s->mark == LOOP_SEQ || s->mark == LOOP_PARALLEL))
            vec_push(b->arena, &b->loop, s);
        find_loops(b, &s->body);
    }
}

static bool size_of(void *user, Dim sym, int64_t *value) {
    (void)user, (void)sym;
    *value = 13;
    return true;
}

static void make_ports(Bench *b, const Flow *f) {
    for (int c = 0, nin = 0, nout = 0; c < f->cont.n; c++) {
        const Cont *k = &f->cont.at[c];
        if (k->kind != CONT_IN && k->kind != CONT_OUT) continue;
        Tensor *t = k->kind == CONT_IN ? &b->in[nin++] : &b->out[nout++];
        *t = (Tensor){.type = k->type, .rank = k->rank};
        for (int d = 0; d < k->rank; d++) dim_eval(k->shape[d], size_of, NULL, &t->dim[d]);
        t->data = arena_alloc(b->arena, (size_t)dtype_bytes(t->type, tensor_count(t)));
        if (k->kind == CONT_IN) cont_random(k, t, 7);
    }
}

/* `skip`: a pass that is left out, or NULL. */
static Driver build(Bench *b, const char *text, const char *skip) {
    Source source = {.path = "checked.ir", .bytes = text, .n = strlen(text)};
    Driver d = driver_new(b->arena, &b->options, source, NULL, NULL);
    d.stage = source_parse(b->arena, text);
    PassEnv env = {.machine = &d.machine, .ops = d.ops};
    PassOptions options = {.verify_each = true, .skip = &skip, .nskip = skip != NULL};
    d.stage = passes_run(b->ctx, d.stage, &env, &options);
    d.build = "{}";
    b->program = (Program *)d.stage.program;
    b->loop.n = 0;
    for (int i = 0; i < b->program->nest.n; i++) find_loops(b, &b->program->nest.at[i]->body);
    make_ports(b, b->program->flow);
    return d;
}

static void evaluate(void *user) {
    Bench *b = user;
    Tensor out[PORTS];
    memcpy(out, b->out, sizeof out);
    program_eval(b->arena, b->program, b->in, out);
}

static weir_tensor host_tensor(const Tensor *t) {
    weir_tensor h = {.data = t->data, .dtype = dtype_onnx(t->type), .rank = t->rank};
    for (int k = 0; k < t->rank; k++) h.dims[k] = t->dim[k];
    h.capacity = tensor_count(t);
    return h;
}

/* Two threads; the run's status, b->error what it says. */
static weir_status run_compiled(Bench *b, Driver *d) {
    Loaded loaded = driver_load(d);
    const weir_model *m = loaded.model;
    weir_tensor in[PORTS], out[PORTS];
    weir_instance *instance = NULL;
    for (int i = 0; i < m->ninputs; i++) in[i] = host_tensor(&b->in[i]);
    for (int i = 0; i < m->noutputs; i++) out[i] = host_tensor(&b->out[i]);
    weir_pool *pool = m->pool_new(2);
    cr_assert(m->create(pool, &instance, b->error) == WEIR_OK, "%s", b->error);
    weir_status status = m->run(instance, in, out);
    snprintf(b->error, sizeof b->error, "%s", status ? m->error(instance) : "");
    m->destroy(instance);
    m->pool_free(pool);
    loaded_free(&loaded);
    return status;
}

static Bench *bench_new(void) {
    Bench *b = calloc(1, sizeof *b);
    char folder[] = "/tmp/weir-test-XXXXXX";
    cr_assert(mkdtemp(folder));
    setenv("XDG_CACHE_HOME", folder, 1);
    b->ctx = ctx_new(see, b);
    b->ctx->runtime = &calls_runtime;
    b->arena = arena_new(b->ctx);
    options_default(&b->options);
    options_set(b->ctx, &b->options, "cache", "no");
    options_set(b->ctx, &b->options, "checked", NULL);
    return b;
}

static void bench_free(Bench *b) {
    ctx_free(b->ctx);
    free(b);
}

/* ---- tests ----------------------------------------------------------------------------------- */

/* Loop n of the text runs once more; false: there is none. `noticed` counts. */
static bool break_loop(const char *cpu, const char *text, int n, int *noticed) {
    Bench *b = bench_new();
    options_set(b->ctx, &b->options, "cpu", cpu);
    Driver d = build(b, text, NULL);
    bool there = n < b->loop.n;
    if (there) b->loop.at[n]->extent = dim_addc(b->ctx, b->loop.at[n]->extent, 1);
    bool whole = ctx_try(b->ctx, evaluate, b);
    cr_assert(there || whole, "%s", b->message);
    weir_status status = run_compiled(b, &d);
    bool told = status == WEIR_E_INDEX && strstr(b->error, "an access is out of bounds in \"") &&
                strstr(b->error, " at ") && strstr(b->error, " of ");
    cr_assert(status == WEIR_OK || told, "%s", b->error);
    cr_assert(!whole || status == WEIR_OK, "%s, %s loop %d: %s", text, cpu, n, b->error);
    *noticed += told;
    bench_free(b);
    return there;
}

static void break_loops(const char *cpu) {
    for (size_t t = 0; t < sizeof texts / sizeof *texts; t++) {
        int noticed = 0;
        for (int n = 0; break_loop(cpu, texts[t], n, &noticed);) n++;
        cr_expect(noticed, "%s: no break of a loop is noticed in\n%s", cpu, texts[t]);
    }
}

Test(checked, loops_that_run_too_far, .timeout = 300) {
    break_loops("native");
}

Test(checked, loops_for_short_vectors, .timeout = 300) {
    break_loops("x86-64-v2");
}

/* A container that ends behind the arena. */
Test(checked, containers_outside_the_arena) {
    Bench *b = bench_new();
    Driver d = build(b,
                     "flow two (N in 1..4096) {\n"
                     "  in x : f32[N,21]\n  tmp t : f32[N,21]\n  out y : f32[N,21]\n"
                     "  map a [i:N, j:21] { 2.0 * x[i,j] -> t[i,j] }\n"
                     "  map b [i:N, j:21] { exp(t[i,j]) -> y[i,j] }\n"
                     "}\n",
                     "fuse");
    Flow *f = (Flow *)b->program->flow;
    cr_assert(run_compiled(b, &d) == WEIR_OK, "%s", b->error);
    d.units.n = 0;
    for (int c = 0; c < f->cont.n; c++)
        if (f->cont.at[c].place == PLACE_ARENA)
            f->cont.at[c].offset = dim_addc(b->ctx, f->cont.at[c].offset, 4096);
    cr_assert(run_compiled(b, &d) == WEIR_E_INDEX);
    cr_assert(strstr(b->error, "has no room for \"t\""), "%s", b->error);
    bench_free(b);
}
