/* SPDX-License-Identifier: Apache-2.0 */
/* Reading ONNX: what is in a model, and every way of being wrong. Run it under a sanitizer too. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "frontends/onnx/onnx.h"
#include "onnx_build.h"
#include "passes/pass.h"

enum { FLOAT = 1, INT64 = 7 };

typedef struct Job {
    Ctx *ctx;
    Blob bytes;
    const char *folder, *path, *stop;
    const ImportOptions *options;
    Code code;
    char message[1024];
    Graph *graph;
    const Graph *inferred;
    const Flow *flow;
} Job;

static void see(void *user, const Diag *diag) {
    Job *job = user;
    job->code = diag->code;
    snprintf(job->message, sizeof job->message, "%s", diag->message);
}

static void import(void *arg) {
    Job *job = arg;
    Arena *arena = arena_new(job->ctx);
    job->graph = job->path ? onnx_import_file(arena, job->path, job->options)
                           : onnx_import_memory(arena, job->bytes.at, job->bytes.n, job->folder,
                                                job->options);
    if (!job->stop) return;
    PassEnv env = {.ops = onnx_ops()};
    PassOptions options = {.stop_after = job->stop};
    Stage stage = passes_run(job->ctx, (Stage){.graph = job->graph}, &env, &options);
    job->inferred = stage.graph;
    job->flow = stage.flow;
}

static bool read_model(Job *job) {
    job->ctx = ctx_new(see, job);
    return ctx_try(job->ctx, import, job);
}

static void done(Job *job) {
    ctx_free(job->ctx);
    free(job->bytes.at);
}

static void expect_error(Blob m, Code code, const char *part) {
    Job job = {.bytes = m, .stop = "lower"};
    bool ok = read_model(&job);
    cr_expect(!ok, "read a model that must fail with \"%s\"", part);
    cr_expect(ok || job.code == code, "%s: %s", code_id(job.code), job.message);
    cr_expect(ok || strstr(job.message, part), "\"%s\" lacks \"%s\"", job.message, part);
    done(&job);
}

/* ---- models --------------------------------------------------------------------------------- */

static Blob add_graph(void) {
    Blob g = {0};
    float w[3] = {1, 2, 3};
    put_message(&g, 1, node("Add", "x w", "y"));
    put_text(&g, 2, "adds");
    put_message(&g, 5, tensor_raw("w", FLOAT, 3, w, sizeof w));
    put_message(&g, 11, value_info("x", FLOAT, "N,3"));
    put_message(&g, 12, value_info("y", FLOAT, "N,3"));
    return g;
}

/* Shape, Gather, Concat, Reshape: [N,3,4] becomes [N,12] without run-time work. */
static Blob dynamic_reshape(void) {
    Blob g = {0};
    int64_t zero = 0, rest = -1;
    put_message(&g, 5, tensor_raw("zero", INT64, 1, &zero, 8));
    put_message(&g, 5, tensor_raw("rest", INT64, 1, &rest, 8));
    put_message(&g, 1, node("Shape", "x", "s"));
    put_message(&g, 1, node("Gather", "s zero", "n"));
    Blob concat = node("Concat", "n rest", "t");
    attr_i(&concat, "axis", 0);
    put_message(&g, 1, concat);
    put_message(&g, 1, node("Reshape", "x t", "y"));
    put_message(&g, 11, value_info("x", FLOAT, "N,3,4"));
    put_message(&g, 12, value_info("y", FLOAT, "a,b"));
    return model(8, 17, g);
}

static Blob with_function(void) {
    Blob f = {0}, o = {0}, g = {0};
    Blob leaky = node("LeakyRelu", "a", "b");
    attr_ref(&leaky, "alpha", "slope", 1);
    put_text(&f, 1, "Twice");
    put_text(&f, 4, "a");
    put_text(&f, 5, "c");
    put_text(&f, 6, "slope");
    put_message(&f, 7, leaky);
    put_message(&f, 7, node("Add", "b b", "c"));
    put_int(&o, 2, 17);
    put_message(&f, 9, o);
    put_text(&f, 10, "own");
    for (int i = 0; i < 2; i++) {
        Blob call = node("Twice", i ? "h" : "x", i ? "y" : "h"), a = {0};
        float slope = i ? 0.5f : 0.25f;
        put_text(&call, 7, "own");
        put_text(&a, 1, "slope");
        put_varint(&a, 2 << 3 | 5);
        put(&a, &slope, 4);
        put_int(&a, 20, 1);
        put_message(&call, 5, a);
        put_message(&g, 1, call);
    }
    put_message(&g, 11, value_info("x", FLOAT, "4"));
    put_message(&g, 12, value_info("y", FLOAT, "4"));
    Blob m = model(8, 17, g), own = {0};
    put_text(&own, 1, "own");
    put_int(&own, 2, 1);
    put_message(&m, 8, own);
    put_message(&m, 25, f);
    return m;
}

static Blob branch(const char *op, const char *out) {
    Blob g = {0};
    put_message(&g, 1, node(op, "x", out));
    put_message(&g, 12, value_info(out, FLOAT, "4"));
    return g;
}

static Blob with_branches(void) {
    Blob g = {0}, n = node("If", "c", "y");
    attr_g(&n, "then_branch", branch("Relu", "y"));
    attr_g(&n, "else_branch", branch("Neg", "z"));
    put_message(&g, 1, n);
    put_message(&g, 11, value_info("x", FLOAT, "4"));
    put_message(&g, 11, value_info("c", 9, ""));
    put_message(&g, 12, value_info("y", FLOAT, "4"));
    return model(8, 17, g);
}

/* ---- what is read --------------------------------------------------------------------------- */

Test(onnx_import, weights_are_views) {
    Job job = {.bytes = model(8, 17, add_graph())};
    cr_assert(read_model(&job), "%s", job.message);
    const Graph *g = job.graph;
    cr_expect_eq(g->input.n, 1);
    cr_expect_eq(g->node.n, 1);
    cr_expect_eq(g->symbol.n, 1);
    for (int i = 0; i < g->value.n; i++) {
        const Value *v = &g->value.at[i];
        if (v->kind != VALUE_PARAM) continue;
        const unsigned char *at = v->data;
        cr_expect(at >= job.bytes.at && at + 12 <= job.bytes.at + job.bytes.n,
                  "the weight was copied");
        cr_expect_eq(v->data_bytes, 12);
    }
    done(&job);
}

/* A writer may cut a list of floats in pieces, or write each for itself. */
Test(onnx_import, data_in_pieces) {
    static const float want[] = {1, 2, 3, 4, 5};
    Blob g = {0}, t = {0};
    put_int(&t, 1, 5);
    put_bytes(&t, 4, want, 8);
    put_int(&t, 2, FLOAT);
    put_varint(&t, 4 << 3 | 5);
    put(&t, want + 2, 4);
    put_bytes(&t, 4, want + 3, 8);
    put_text(&t, 8, "w");
    put_message(&g, 5, t);
    put_message(&g, 1, node("Relu", "w", "y"));
    put_message(&g, 12, value_info("y", FLOAT, "5"));
    Job job = {.bytes = model(8, 17, g)};
    cr_assert(read_model(&job), "%s", job.message);
    const Value *w = &job.graph->value.at[job.graph->node.at[0].in.at[0]];
    cr_assert_eq(w->data_bytes, (int64_t)sizeof want);
    cr_expect_arr_eq(w->data, want, sizeof want);
    done(&job);
}

static Blob overload(const char *name, const char *op, float alpha) {
    Blob f = {0}, opset = {0}, a = {0}, n = node(op, "p", "q");
    put_text(&f, 1, "F");
    put_text(&f, 4, "p");
    put_text(&f, 5, "q");
    if (alpha != 0) attr_ref(&n, "alpha", "alpha", 1);
    put_message(&f, 7, n);
    put_int(&opset, 2, 17);
    put_message(&f, 9, opset);
    put_text(&f, 10, "own");
    put_text(&a, 1, "alpha");
    put_varint(&a, 2 << 3 | 5);
    put(&a, &alpha, 4);
    put_int(&a, 20, 1);
    put_message(&f, 11, a);
    put_text(&f, 13, name);
    return f;
}

/* Overloads and defaults of attributes are newer than Debian's schema. */
Test(onnx_import, fields_of_newer_schemas) {
    Blob g = {0}, first = node("F", "x", "h"), second = node("F", "h", "y");
    put_text(&first, 7, "own");
    put_text(&first, 8, "leaky");
    put_text(&second, 7, "own");
    put_message(&g, 1, first);
    put_message(&g, 1, second);
    put_message(&g, 11, value_info("x", FLOAT, "4"));
    put_message(&g, 12, value_info("y", FLOAT, "4"));
    Blob m = model(10, 17, g), own = {0};
    put_text(&own, 1, "own");
    put_int(&own, 2, 1);
    put_message(&m, 8, own);
    put_message(&m, 25, overload("", "Neg", 0));
    put_message(&m, 25, overload("leaky", "LeakyRelu", 0.75f));
    Job job = {.bytes = m, .stop = "lower"};
    cr_assert(read_model(&job), "%s", job.message);
    cr_assert_eq(job.graph->node.n, 2);
    cr_expect_float_eq(attr_float(job.ctx, &job.graph->node.at[0], "alpha", 0), 0.75f, 0);
    cr_expect_str_eq(job.graph->node.at[1].row->name, "Neg");
    done(&job);
}

Test(onnx_import, shape_arithmetic_becomes_symbols) {
    Job job = {.bytes = dynamic_reshape(), .stop = "infer"};
    cr_assert(read_model(&job), "%s", job.message);
    const Value *y = &job.inferred->value.at[job.inferred->output.at[0]];
    cr_expect_str_eq(type_str(job.ctx, &y->type), "f32[N,12]");
    done(&job);
}

Test(onnx_import, overrides_fix_dims) {
    DimOverride n = {"N", 5, 5};
    ImportOptions options = {.dim = &n, .ndim = 1};
    Job job = {.bytes = dynamic_reshape(), .stop = "infer", .options = &options};
    cr_assert(read_model(&job), "%s", job.message);
    const Value *y = &job.inferred->value.at[job.inferred->output.at[0]];
    cr_expect_str_eq(type_str(job.ctx, &y->type), "f32[5,12]");
    done(&job);
    n.name = "M";
    Job wrong = {.bytes = dynamic_reshape(), .options = &options};
    cr_expect(!read_model(&wrong));
    cr_expect_eq(wrong.code, E_OPTION);
    done(&wrong);
}

Test(onnx_import, functions_are_inlined) {
    Job job = {.bytes = with_function(), .stop = "lower"};
    cr_assert(read_model(&job), "%s", job.message);
    const Graph *g = job.graph;
    cr_assert_eq(g->node.n, 4);
    cr_expect_float_eq(attr_float(job.ctx, &g->node.at[0], "alpha", 0), 0.25f, 0);
    cr_expect_float_eq(attr_float(job.ctx, &g->node.at[2], "alpha", 0), 0.5f, 0);
    cr_expect_eq(g->node.at[2].in.at[0], g->node.at[1].out.at[0]);
    done(&job);
}

Test(onnx_import, branches_capture) {
    Job job = {.bytes = with_branches(), .stop = "lower"};
    cr_assert(read_model(&job), "%s", job.message);
    const Graph *sub = node_attr(&job.graph->node.at[0], "then_branch")->graph;
    cr_expect_eq(sub->value.at[0].kind, VALUE_OUTER);
    cr_expect_eq(sub->value.at[0].outer, job.graph->input.at[0]);
    done(&job);
}

/* A file before IR version 4 lists weights as inputs; a fed one stays an input. */
Test(onnx_import, initializers_that_are_inputs) {
    Blob g = add_graph();
    put_message(&g, 11, value_info("w", FLOAT, "3"));
    Blob m = model(3, 7, g), again = {0};
    put(&again, m.at, m.n);
    Job job = {.bytes = m};
    cr_assert(read_model(&job), "%s", job.message);
    cr_expect_eq(job.graph->input.n, 1);
    done(&job);
    const char *feed = "w";
    ImportOptions options = {.feed = &feed, .nfeed = 1};
    Job fed = {.bytes = again, .options = &options};
    cr_assert(read_model(&fed), "%s", fed.message);
    cr_expect_eq(fed.graph->input.n, 2);
    cr_expect(fed.graph->value.at[fed.graph->input.at[1]].is_default);
    done(&fed);
}

Test(onnx_import, nodes_are_sorted) {
    Blob g = {0};
    put_message(&g, 1, node("Relu", "h", "y"));
    put_message(&g, 1, node("Neg", "x", "h"));
    put_message(&g, 11, value_info("x", FLOAT, "4"));
    put_message(&g, 12, value_info("y", FLOAT, "4"));
    Job job = {.bytes = model(8, 17, g), .stop = "lower"};
    cr_assert(read_model(&job), "%s", job.message);
    cr_expect_str_eq(job.graph->node.at[0].row->name, "Neg");
    done(&job);
}

/* ---- what is refused ------------------------------------------------------------------------ */

static Blob graph_of(Blob n) {
    Blob g = {0};
    put_message(&g, 1, n);
    put_message(&g, 11, value_info("x", FLOAT, "4"));
    put_message(&g, 12, value_info("y", FLOAT, "4"));
    return g;
}

Test(onnx_import, errors_say_what) {
    expect_error((Blob){0}, E_MODEL, "empty");
    Blob text = {0};
    put(&text, "not a model at all", 18);
    expect_error(text, E_MODEL, "not a valid ONNX file");
    expect_error(model(8, 17, (Blob){0}), E_MODEL, "no outputs");
    expect_error(model(99, 17, graph_of(node("Relu", "x", "y"))), E_UNSUPPORTED, "IR version 99");
    expect_error(model(8, 999, graph_of(node("Relu", "x", "y"))), E_UNSUPPORTED, "opset 999");
    expect_error(model(8, 17, graph_of(node("Reluu", "x", "y"))), E_UNSUPPORTED, "\"Reluu\"");
    expect_error(model(8, 5, graph_of(node("Gelu", "x", "y"))), E_UNSUPPORTED,
                 "not supported at opset 5");
    expect_error(model(8, 17, graph_of(node("Relu", "q", "y"))), E_MODEL, "\"q\" is not defined");
    expect_error(model(8, 17, graph_of(node("Neg", "z", "x"))), E_MODEL, "\"z\" is not defined");
    expect_error(model(8, 17, graph_of(node("Relu", "y", "y"))), E_MODEL, "cycle");
    expect_error(model(8, 17, graph_of(node("Where", "x", "y"))), E_MODEL, "takes 3");
    expect_error(model(8, 17, graph_of(node("Not", "x", "y"))), E_TYPE, "takes bool");
}

/* A node of com.microsoft, in a model that imports its opset 1. */
static Blob contributed(Blob n) {
    Blob opset = {0};
    put_text(&n, 7, "com.microsoft");
    Blob m = model(8, 17, graph_of(n));
    put_text(&opset, 1, "com.microsoft");
    put_int(&opset, 2, 1);
    put_message(&m, 8, opset);
    return m;
}

Test(onnx_import, contributed_operators_without_import) {
    Blob n = node("QuickGelu", "x", "y");
    put_text(&n, 7, "com.microsoft");
    Job job = {.bytes = model(8, 17, graph_of(n)), .stop = "lower"};
    cr_assert(read_model(&job), "%s", job.message);
    done(&job);
}

Test(onnx_import, contributed_operators_say_what_they_lack) {
    Blob gelu = node("Gelu", "x", "y"), rfft = node("Rfft", "x", "y");
    attr_i(&gelu, "approximate", 1);
    expect_error(contributed(gelu), E_ATTRIBUTE, "\"approximate\" is not one of the operator's");
    attr_i(&rfft, "signal_ndim", 2);
    expect_error(contributed(rfft), E_UNSUPPORTED, "\"signal_ndim\" is 2: only 1 is supported");
    expect_error(contributed(node("Gelu", "x x", "y")), E_MODEL, "2 operands");
    expect_error(contributed(node("BiasGelu", "x -", "y")), E_MODEL, "takes 2");
    expect_error(contributed(node("MultiHeadAttention", "x", "y")), E_ATTRIBUTE, "num_heads");
    Blob heads = node("Attention", "x x - - - - x", "y");
    attr_i(&heads, "num_heads", 2);
    expect_error(contributed(heads), E_UNSUPPORTED, "\"past_sequence_length\", is not supported");
    expect_error(contributed(node("SkipSimplifiedLayerNormalization", "x x x", "y mean")),
                 E_UNSUPPORTED, "result 1, \"mean\"");
}

Test(onnx_import, cycles_and_duplicates) {
    Blob g = {0};
    put_message(&g, 1, node("Relu", "b", "a"));
    put_message(&g, 1, node("Relu", "a", "b"));
    put_message(&g, 12, value_info("b", FLOAT, "4"));
    expect_error(model(8, 17, g), E_MODEL, "cycle");
    Blob two = graph_of(node("Relu", "x", "y"));
    put_message(&two, 1, node("Neg", "x", "y"));
    expect_error(model(8, 17, two), E_MODEL, "result of two nodes");
}

Test(onnx_import, absurd_tensors) {
    float one = 1;
    Blob g = add_graph(), t = {0};
    put_int(&t, 1, INT64_MAX / 2);
    put_int(&t, 1, 16);
    put_int(&t, 2, FLOAT);
    put_text(&t, 8, "v");
    put_message(&g, 5, t);
    expect_error(model(8, 17, g), E_LIMIT, "elements");
    g = add_graph();
    put_message(&g, 5, tensor_raw("v", FLOAT, 7, &one, 4));
    expect_error(model(8, 17, g), E_MODEL, "its shape and type need 28");
    g = add_graph();
    put_message(&g, 5, tensor_raw("v", 77, 1, &one, 4));
    expect_error(model(8, 17, g), E_UNSUPPORTED, "data type 77");
    g = add_graph();
    put_message(&g, 5, tensor_raw("w", FLOAT, 1, &one, 4));
    expect_error(model(8, 17, g), E_MODEL, "defined twice");
}

Test(onnx_import, functions_that_never_end) {
    Blob f = {0}, o = {0}, g = graph_of(node("Loop1", "x", "y")), call = node("Loop1", "a", "b");
    put_text(&f, 1, "Loop1");
    put_text(&f, 4, "a");
    put_text(&f, 5, "b");
    put_message(&f, 7, call);
    put_int(&o, 2, 17);
    put_message(&f, 9, o);
    Blob m = model(8, 17, g);
    put_message(&m, 25, f);
    expect_error(m, E_LIMIT, "call each other");
}

Test(onnx_import, deep_nesting) {
    Blob graph = branch("Relu", "y");
    for (int i = 0; i < 100; i++) {
        Blob n = node("If", "c", "y"), outer = {0};
        attr_g(&n, "then_branch", graph);
        put_message(&outer, 1, n);
        graph = outer;
    }
    expect_error(model(8, 17, graph), E_LIMIT, "deeper");
}

/* ---- external data -------------------------------------------------------------------------- */

static Blob external(const char *location, const char *offset, const char *length) {
    Blob g = {0}, t = {0};
    const char *pairs[3][2] = {{"location", location}, {"offset", offset}, {"length", length}};
    put_int(&t, 1, 3);
    put_int(&t, 2, FLOAT);
    put_text(&t, 8, "w");
    put_int(&t, 14, 1);
    for (int i = 0; i < 3; i++) {
        Blob e = {0};
        if (!pairs[i][1]) continue;
        put_text(&e, 1, pairs[i][0]);
        put_text(&e, 2, pairs[i][1]);
        put_message(&t, 13, e);
    }
    put_message(&g, 1, node("Add", "x w", "y"));
    put_message(&g, 5, t);
    put_message(&g, 11, value_info("x", FLOAT, "3"));
    put_message(&g, 12, value_info("y", FLOAT, "3"));
    return model(8, 17, g);
}

static void write_file(const char *path, const void *from, size_t n) {
    FILE *f = fopen(path, "wb");
    cr_assert(f);
    cr_assert_eq(fwrite(from, 1, n, f), n);
    fclose(f);
}

static void expect_external(const char *folder, Blob m, const char *part) {
    Job job = {.bytes = m, .folder = folder};
    cr_expect(!read_model(&job), "used external data that must be refused: %s", part);
    cr_expect_eq(job.code, E_EXTERNAL);
    cr_expect(strstr(job.message, part), "\"%s\" lacks \"%s\"", job.message, part);
    done(&job);
}

Test(onnx_import, external_data) {
    char top[] = "/tmp/weir_external_XXXXXX", folder[64], path[128], link[128];
    float w[4] = {0, 1, 2, 3};
    cr_assert(mkdtemp(top));
    snprintf(folder, sizeof folder, "%s/model", top);
    cr_assert_eq(mkdir(folder, 0700), 0);
    snprintf(path, sizeof path, "%s/w.bin", folder);
    write_file(path, w, sizeof w);
    snprintf(path, sizeof path, "%s/secret", top);
    write_file(path, w, sizeof w);
    snprintf(link, sizeof link, "%s/link", folder);
    cr_assert_eq(symlink("../secret", link), 0);
    Job job = {.bytes = external("w.bin", "4", "12"), .folder = folder};
    cr_assert(read_model(&job), "%s", job.message);
    for (int i = 0; i < job.graph->value.n; i++)
        if (job.graph->value.at[i].kind == VALUE_PARAM)
            cr_expect_float_eq(((const float *)job.graph->value.at[i].data)[2], 3, 0);
    done(&job);
    expect_external(folder, external("none.bin", NULL, NULL), "cannot be read");
    expect_external(folder, external("../secret", NULL, NULL), "outside the model's folder");
    expect_external(folder, external("a/../../secret", NULL, NULL), "outside the model's folder");
    expect_external(folder, external("/etc/passwd", NULL, NULL), "outside the model's folder");
    expect_external(folder, external("link", NULL, NULL), "through a link");
    expect_external(folder, external(".", NULL, NULL), "");
    expect_external(folder, external("w.bin", "8", NULL), "cut off");
    expect_external(folder, external("w.bin", "99999999999999999999", NULL), "number of bytes");
    expect_external(folder, external("w.bin", "-4", NULL), "number of bytes");
    expect_external(folder, external("w.bin", "0", "11"), "11 bytes long");
    expect_external(folder, external(NULL, NULL, NULL), "no location");
    expect_external(NULL, external("w.bin", NULL, NULL), "from memory");
    char command[128];
    snprintf(command, sizeof command, "rm -r %s", top);
    cr_assert_eq(system(command), 0);
}

/* ---- damage --------------------------------------------------------------------------------- */

/* Whatever happens to the bytes, the reader returns. A small model may still mean something. */
static void survive(const unsigned char *at, size_t n) {
    Job job = {.stop = "lower"};
    put(&job.bytes, at, n);
    read_model(&job);
    done(&job);
}

static void damage(Blob m) {
    uint32_t seed = 12345;
    for (size_t n = 0; n < m.n; n++) survive(m.at, n);
    for (int i = 0; i < 600; i++) {
        Blob b = {0};
        put(&b, m.at, m.n);
        for (int k = 0; k < 1 + i % 4; k++) {
            seed = seed * 1664525 + 1013904223;
            b.at[(seed >> 8) % b.n] =
                (unsigned char)(i % 3 ? seed >> 24
                                      : b.at[(seed >> 8) % b.n] ^ 1u << (seed >> 28 & 7));
        }
        survive(b.at, b.n);
        free(b.at);
    }
    free(m.at);
}

Test(onnx_import, damaged_bytes, .timeout = 60) {
    damage(model(8, 17, add_graph()));
    damage(dynamic_reshape());
    damage(with_function());
    damage(with_branches());
}
