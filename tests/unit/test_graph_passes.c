/* SPDX-License-Identifier: Apache-2.0 */
/* infer, fold, simplify, lower and the pass loop, on small models with symbolic dims. */
#include <criterion/criterion.h>
#include <stdio.h>

#include "frontends/onnx/onnx.h"
#include "onnx_build.h"
#include "passes/pass.h"

enum { FLOAT = 1, INT64 = 7 };

typedef struct Run {
    Ctx *ctx;
    Arena *arena;
    Blob bytes;
    PassOptions options;
    Stage stage;
    Code code;
    char message[512];
    int watched;
} Run;

static void see(void *user, const Diag *diag) {
    Run *run = user;
    run->code = diag->code;
    snprintf(run->message, sizeof run->message, "%s", diag->message);
}

static void compile(void *arg) {
    Run *run = arg;
    PassEnv env = {.ops = onnx_ops()};
    run->arena = arena_new(run->ctx);
    Graph *g = onnx_import_memory(run->arena, run->bytes.at, run->bytes.n, NULL, NULL);
    run->stage = passes_run(run->ctx, (Stage){.graph = g}, &env, &run->options);
}

static bool start(Run *run, Blob graph, const char *stop) {
    run->ctx = ctx_new(see, run);
    run->bytes = model(8, 17, graph);
    run->options.stop_after = stop;
    return ctx_try(run->ctx, compile, run);
}

static void finish(Run *run) {
    ctx_free(run->ctx);
    free(run->bytes.at);
}

static const char *output_type(Run *run, int i) {
    const Graph *g = run->stage.graph;
    return type_str(run->ctx, &g->value.at[g->output.at[i]].type);
}

static Blob graph(const char *x, const char *rank) {
    Blob g = {0};
    put_message(&g, 11, value_info("x", FLOAT, x));
    put_message(&g, 12, value_info("y", FLOAT, rank));
    return g;
}

static void ints(Blob *g, const char *name, int64_t n, const int64_t *v) {
    put_message(g, 5, tensor_raw(name, INT64, n, v, 8 * (size_t)n));
}

/* ---- infer ---------------------------------------------------------------------------------- */

static void expect_shape(const char *x, const char *op, const int64_t *shape, int n,
                         const char *type) {
    Run run = {0};
    Blob g = graph(x, "a,b,c,d");
    ints(&g, "s", n, shape);
    put_message(&g, 1, node(op, "x s", "y"));
    bool ok = start(&run, g, "infer");
    cr_expect(ok, "%s of %s: %s", op, x, run.message);
    if (ok) cr_expect_str_eq(output_type(&run, 0), type);
    finish(&run);
}

Test(graph_passes, shapes_stay_symbolic) {
    expect_shape("N,S,768", "Reshape", (int64_t[]){0, -1, 12, 64}, 4, "f32[N,S,12,64]");
    expect_shape("N,S,12,64", "Reshape", (int64_t[]){0, 0, -1}, 3, "f32[N,S,768]");
    expect_shape("N,S,768", "Reshape", (int64_t[]){-1, 768}, 2, "f32[N*S,768]");
    expect_shape("N,6", "Reshape", (int64_t[]){-1, 2, 3}, 3, "f32[N,2,3]");
    expect_shape("N,1", "Expand", (int64_t[]){4, 1, 7}, 3, "f32[4,N,7]");
    expect_shape("N,4", "Tile", (int64_t[]){2, 3}, 2, "f32[2*N,12]");
    expect_shape("N,4", "Unsqueeze", (int64_t[]){0, -1}, 2, "f32[1,N,4,1]");
}

/* y = x + z */
static void expect_sum(const char *x, const char *z, const char *type) {
    Run run = {0};
    Blob g = graph(x, "a");
    put_message(&g, 11, value_info("z", FLOAT, z));
    put_message(&g, 1, node("Add", "x z", "y"));
    bool ok = start(&run, g, "infer");
    cr_expect(ok == (type != NULL), "%s + %s: %s", x, z, run.message);
    if (ok && type) cr_expect_str_eq(output_type(&run, 0), type);
    if (!ok) cr_expect_eq(run.code, E_SHAPE);
    finish(&run);
}

Test(graph_passes, broadcasting) {
    expect_sum("N,4", "4", "f32[N,4]");
    expect_sum("N,1", "1,M", "f32[N,M]");
    expect_sum("3,4", "2,4", NULL);
    expect_sum("N,4", "5,4", "f32[5,4]");
    expect_sum("N", "N,1", "f32[N,N]");
    expect_sum("N,N + 1", "1,N + 1", "f32[N,N + 1]");
}

/* A table of 6 rows cut to N and added to x[N,4]: N cannot be more than 6. */
Test(graph_passes, tables_bound_dims) {
    Run run = {0};
    Blob g = graph("N,4", "a,b");
    float table[24] = {0};
    int64_t zero = 0;
    Blob t = {0};
    put_int(&t, 1, 6);
    put_int(&t, 1, 4);
    put_int(&t, 2, FLOAT);
    put_text(&t, 8, "table");
    put_bytes(&t, 9, table, sizeof table);
    put_message(&g, 5, t);
    ints(&g, "zero", 1, &zero);
    put_message(&g, 1, node("Shape", "x", "s"));
    put_message(&g, 1, node("Gather", "s zero", "n"));
    put_message(&g, 1, node("Slice", "table zero n zero", "part"));
    put_message(&g, 1, node("Add", "x part", "y"));
    cr_assert(start(&run, g, "infer"), "%s", run.message);
    cr_expect_str_eq(output_type(&run, 0), "f32[N,4]");
    cr_expect_eq(run.stage.graph->symbol.at[0].hi, 6);
    finish(&run);
}

/* ---- fold and simplify ---------------------------------------------------------------------- */

Test(graph_passes, constants_fold) {
    Run run = {0};
    Blob g = graph("3", "3");
    float w[3] = {1, 2, 3};
    put_message(&g, 5, tensor_raw("w", FLOAT, 3, w, sizeof w));
    put_message(&g, 1, node("Mul", "w w", "ww"));
    put_message(&g, 1, node("Add", "x ww", "y"));
    cr_assert(start(&run, g, "simplify"), "%s", run.message);
    const Graph *out = run.stage.graph;
    cr_assert_eq(out->node.n, 1);
    const Value *v = &out->value.at[out->node.at[0].in.at[1]];
    cr_assert_eq(v->kind, VALUE_PARAM);
    cr_expect_float_eq(((const float *)v->data)[2], 9, 0);
    finish(&run);
}

/* Views of constants are constants: what is known of an operator must not keep it. */
Test(graph_passes, views_fold) {
    Run run = {0};
    Blob g = graph("2,3", "3,2");
    float w[6] = {1, 2, 3, 4, 5, 6};
    int64_t shape[2] = {2, 3};
    put_message(&g, 5, tensor_raw("w", FLOAT, 6, w, sizeof w));
    put_message(&g, 5, tensor_raw("s", 7, 2, shape, sizeof shape));
    put_message(&g, 1, node("Reshape", "w s", "v"));
    put_message(&g, 1, node("Transpose", "v", "t"));
    put_message(&g, 1, node("Transpose", "x", "u"));
    put_message(&g, 1, node("Add", "u t", "y"));
    cr_assert(start(&run, g, "simplify"), "%s", run.message);
    const Graph *out = run.stage.graph;
    cr_assert_eq(out->node.n, 2);
    const Value *v = &out->value.at[out->node.at[1].in.at[1]];
    cr_assert_eq(v->kind, VALUE_PARAM);
    cr_expect_float_eq(((const float *)v->data)[1], 4, 0);
    finish(&run);
}

Test(graph_passes, equal_and_dead_nodes_go) {
    Run run = {0};
    Blob g = graph("N", "N");
    put_message(&g, 1, node("Exp", "x", "a"));
    put_message(&g, 1, node("Exp", "x", "b"));
    put_message(&g, 1, node("Tanh", "x", "nobody"));
    put_message(&g, 1, node("Add", "a b", "y"));
    cr_assert(start(&run, g, "simplify"), "%s", run.message);
    const Graph *out = run.stage.graph;
    cr_expect_eq(out->node.n, 2);
    const Node *add = &out->node.at[out->node.n - 1];
    cr_expect_eq(add->in.at[0], add->in.at[1]);
    finish(&run);
}

/* Attributes tell nodes apart; so does being an output. */
Test(graph_passes, different_nodes_stay) {
    Run run = {0};
    Blob g = graph("N", "N"), a = node("Softmax", "x", "a"), b = node("Softmax", "x", "b");
    attr_i(&a, "axis", 0);
    attr_i(&b, "axis", -1);
    put_message(&g, 1, a);
    put_message(&g, 1, b);
    put_message(&g, 1, node("Exp", "x", "y"));
    put_message(&g, 1, node("Exp", "x", "z"));
    put_message(&g, 1, node("Add", "a b", "s"));
    put_message(&g, 12, value_info("z", FLOAT, "N"));
    put_message(&g, 12, value_info("s", FLOAT, "N"));
    cr_assert(start(&run, g, "simplify"), "%s", run.message);
    cr_expect_eq(run.stage.graph->node.n, 5);
    finish(&run);
}

/* ---- lower ---------------------------------------------------------------------------------- */

typedef struct Evaluation {
    Run *run;
    Tensor in, out;
} Evaluation;

static void evaluate(void *arg) {
    Evaluation *e = arg;
    flow_eval(e->run->arena, e->run->stage.flow, &e->in, &e->out, 1);
}

/* x holds 0, 1, 2 ...; want: y's elements. */
static void expect_values(Blob g, const int64_t *dims, int rank, const int64_t *want, int64_t n) {
    Run run = {0};
    bool ok = start(&run, g, "lower");
    cr_expect(ok, "%s", run.message);
    if (!ok) {
        finish(&run);
        return;
    }
    Evaluation e = {.run = &run, .in = {.type = F32, .rank = rank}};
    for (int i = 0; i < rank; i++) e.in.dim[i] = dims[i];
    float *x = NEW_ARRAY(run.arena, float, tensor_count(&e.in));
    for (int64_t i = 0; i < tensor_count(&e.in); i++) x[i] = (float)i;
    e.in.data = x;
    ok = ctx_try(run.ctx, evaluate, &e);
    cr_expect(ok, "%s", run.message);
    if (ok) {
        cr_expect_eq(tensor_count(&e.out), n);
        for (int64_t i = 0; i < n && i < tensor_count(&e.out); i++)
            cr_expect_float_eq(((float *)e.out.data)[i], (double)want[i], 0, "element %lld",
                               (long long)i);
    }
    finish(&run);
}

Test(graph_passes, reshapes_keep_row_major_order) {
    static const struct {
        const char *x;
        int64_t shape[4];
        int n;
    } cases[] = {{"N,S,4", {-1, 4}, 2},      {"N,S,4", {-1}, 1},       {"N,S,4", {0, -1}, 2},
                 {"N,S,4", {0, 0, 2, 2}, 4}, {"N,S,4", {4, -1}, 2},    {"2,3,4", {8, 3}, 2},
                 {"2,S,4", {-1, 2, 6}, 3},   {"N,3,4", {2, 6, -1}, 3}, {"N,3,4", {0, 12, 1}, 3}};
    int64_t want[24];
    for (int i = 0; i < 24; i++) want[i] = i;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Blob g = graph(cases[i].x, "a,b");
        ints(&g, "s", cases[i].n, cases[i].shape);
        put_message(&g, 1, node("Reshape", "x s", "y"));
        expect_values(g, (int64_t[]){2, 3, 4}, 3, want, 24);
    }
}

Test(graph_passes, negative_steps_and_symbolic_bounds) {
    Blob g = graph("N", "M");
    int64_t start_at = -1, end = INT64_MIN, axis = 0, step = -2;
    ints(&g, "a", 1, &start_at);
    ints(&g, "b", 1, &end);
    ints(&g, "c", 1, &axis);
    ints(&g, "d", 1, &step);
    put_message(&g, 1, node("Slice", "x a b c d", "y"));
    expect_values(g, (int64_t[]){7}, 1, (int64_t[]){6, 4, 2, 0}, 4);
    g = graph("N", "M");
    int64_t from = 1, to = -1;
    ints(&g, "a", 1, &from);
    ints(&g, "b", 1, &to);
    put_message(&g, 1, node("Slice", "x a b", "y"));
    expect_values(g, (int64_t[]){5}, 1, (int64_t[]){1, 2, 3}, 3);
    g = graph("N", "M");
    ints(&g, "a", 1, &from);
    ints(&g, "b", 1, &to);
    put_message(&g, 1, node("Slice", "x a b", "y"));
    expect_values(g, (int64_t[]){1}, 1, NULL, 0);
}

/* An output that is an input, one that is a weight, and one node's result given twice. */
Test(graph_passes, outputs_of_all_kinds) {
    Run run = {0};
    Blob g = {0};
    float w = 5;
    put_message(&g, 11, value_info("x", FLOAT, "1"));
    put_message(&g, 5, tensor_raw("w", FLOAT, 1, &w, 4));
    put_message(&g, 1, node("Neg", "x", "y"));
    put_message(&g, 12, value_info("x", FLOAT, "1"));
    put_message(&g, 12, value_info("w", FLOAT, "1"));
    put_message(&g, 12, value_info("y", FLOAT, "1"));
    put_message(&g, 12, value_info("y", FLOAT, "1"));
    cr_assert(start(&run, g, "lower"), "%s", run.message);
    float x = 3;
    Tensor in = {.type = F32, .rank = 1, .dim = {1}, .data = &x}, out[4];
    flow_eval(run.arena, run.stage.flow, &in, out, 1);
    static const float want[4] = {3, 5, -3, -3};
    for (int i = 0; i < 4; i++) cr_expect_float_eq(*(float *)out[i].data, want[i], 0);
    finish(&run);
}

/* ---- the loop ------------------------------------------------------------------------------- */

static void expect_option(PassOptions options, const char *part) {
    Run run = {.options = options};
    Blob g = graph("N", "N");
    put_message(&g, 1, node("Exp", "x", "y"));
    cr_expect(!start(&run, g, options.stop_after));
    cr_expect_eq(run.code, E_OPTION);
    cr_expect(strstr(run.message, part), "%s", run.message);
    finish(&run);
}

static void count(void *user, const Pass *pass, const Stage *stage, double seconds) {
    (void)pass, (void)stage, (void)seconds;
    ++*(int *)user;
}

Test(graph_passes, options_are_checked) {
    const char *nothing = "nothing", *lower = "lower";
    expect_option((PassOptions){.stop_after = "nothing"}, "there is no pass \"nothing\"");
    expect_option((PassOptions){.skip = &nothing, .nskip = 1}, "there is no pass \"nothing\"");
    expect_option((PassOptions){.skip = &lower, .nskip = 1}, "cannot be skipped");
}

Test(graph_passes, the_loop_watches_skips_and_stops) {
    const char *skip[] = {"fold", "simplify"};
    int seen = 0;
    Run run = {
        .options = {.skip = skip, .nskip = 2, .watch = count, .user = &seen, .verify_each = true}};
    Blob g = graph("N", "N");
    put_message(&g, 1, node("Exp", "x", "a"));
    put_message(&g, 1, node("Exp", "x", "y"));
    cr_assert(start(&run, g, "simplify"), "%s", run.message);
    cr_expect_eq(seen, 2);
    cr_expect_eq(run.stage.graph->node.n, 2);
    finish(&run);
}

/* ---- sequences ------------------------------------------------------------------------------- */

static int calls_in(const Items *items) {
    int n = 0;
    for (int i = 0; i < items->n; i++)
        n += (items->at[i].kind == ITEM_CALL) + calls_in(&items->at[i].body) +
             calls_in(&items->at[i].other);
    return n;
}

/* A sequence that is known when compiling leaves no call behind; one that is not does. */
static void expect_calls(const char *at, bool expected) {
    Run run = {0};
    Blob g = {0};
    const int64_t second[] = {1};
    put_message(&g, 11, value_info("x", FLOAT, "N,3"));
    put_message(&g, 11, value_info("i", INT64, "1"));
    put_message(&g, 12, value_info("y", FLOAT, "N,3"));
    ints(&g, "second", 1, second);
    put_message(&g, 1, node("Relu", "x", "a"));
    put_message(&g, 1, node("SequenceConstruct", "x a", "s"));
    put_message(&g, 1, node("SequenceInsert", "s x", "t"));
    put_message(&g, 1, node("SequenceAt", at, "y"));
    bool ok = start(&run, g, "clean");
    cr_assert(ok, "%s", run.message);
    cr_expect_eq(calls_in(&run.stage.flow->body) > 0, expected);
    finish(&run);
}

Test(graph_passes, known_sequences_dissolve) {
    expect_calls("t second", false);
    expect_calls("t i", true);
}
