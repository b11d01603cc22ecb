/* SPDX-License-Identifier: Apache-2.0 */
/* The library's interface: text to a library and to this process, options, side files, failures. */
#include <criterion/criterion.h>
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "compiler/driver.h"
#include "compiler/weir.h"

static const char model_text[] = "flow axpy (N in 1..4096) {\n"
                                 "  in  x : f32[N,8]\n"
                                 "  in  b : f32[8]\n"
                                 "  out y : f32[N,8]\n"
                                 "  map m [i:N, j:8] {\n"
                                 "    a <- x[i,j]\n"
                                 "    c <- b[j]\n"
                                 "    2.0 * a + c -> y[i,j]\n"
                                 "  }\n"
                                 "}\n";

typedef struct Bench {
    char folder[64], said[4096], printed[1 << 16];
    const char *id;
    int steps;
    weir_context *c;
} Bench;

static void see(void *user, const weir_diagnostic *d) {
    Bench *b = user;
    if (d->severity == 3) {
        b->steps++;
    } else if (d->severity == 2) {
        size_t n = strlen(b->printed);
        snprintf(b->printed + n, sizeof b->printed - n, "%s", d->text);
    } else {
        snprintf(b->said, sizeof b->said, "%s", d->text);
    }
}

static const char *path_in(const Bench *b, const char *name) {
    static char path[8][256];
    static int next;
    char *p = path[next++ % 8];
    snprintf(p, 256, "%s/%s", b->folder, name);
    return p;
}

static void write_file(const char *path, const char *text) {
    FILE *f = fopen(path, "w");
    cr_assert(f && fputs(text, f) >= 0 && fclose(f) == 0);
}

static Bench *bench_new(void) {
    Bench *b = calloc(1, sizeof *b);
    strcpy(b->folder, "/tmp/weir-test-XXXXXX");
    cr_assert(mkdtemp(b->folder));
    setenv("XDG_CACHE_HOME", path_in(b, "cache"), 1);
    b->c = weir_context_new(see, b);
    write_file(path_in(b, "axpy.ir"), model_text);
    return b;
}

static void bench_free(Bench *b) {
    char command[256];
    weir_context_free(b->c);
    snprintf(command, sizeof command, "rm -rf %s", b->folder);
    cr_assert(system(command) == 0);
    free(b);
}

static void run_axpy(const weir_model *m) {
    float x[3 * 8], bias[8], y[3 * 8];
    for (int i = 0; i < 24; i++) x[i] = (float)i;
    for (int j = 0; j < 8; j++) bias[j] = (float)j * 0.5f;
    weir_tensor in[2] = {{.data = x, .dtype = WEIR_F32, .rank = 2, .dims = {3, 8}},
                         {.data = bias, .dtype = WEIR_F32, .rank = 1, .dims = {8}}};
    weir_tensor out[1] = {{.data = y, .capacity = 24}};
    weir_instance *instance;
    char error[256] = "";
    cr_assert(weir_create(m, NULL, &instance, error) == WEIR_OK, "%s", error);
    cr_assert(weir_run(m, instance, in, out) == WEIR_OK, "%s", m->error(instance));
    for (int i = 0; i < 24; i++) cr_assert(y[i] == 2 * x[i] + bias[i % 8]);
    cr_assert(out[0].rank == 2 && out[0].dims[0] == 3 && out[0].dims[1] == 8);
    weir_destroy(m, instance);
}

/* ---- the three ways -------------------------------------------------------------------------- */

Test(weir, compile_open_run) {
    Bench *b = bench_new();
    cr_assert(weir_compile_file(b->c, path_in(b, "axpy.ir"), path_in(b, "axpy.so")) == 0, "%s",
              b->said);
    weir_loaded *l = weir_open(b->c, path_in(b, "axpy.so"));
    cr_assert(l, "%s", b->said);
    run_axpy(weir_loaded_model(l));
    const char *build = weir_loaded_model(l)->build;
    cr_assert(strstr(build, "\"model_blake3\": \"") && !strstr(build, b->folder));
    weir_unload(l);
    cr_assert(b->steps >= 5);
    bench_free(b);
}

Test(weir, load_outlives_its_context) {
    Bench *b = bench_new();
    weir_context *c = weir_context_new(see, b);
    weir_loaded *l = weir_load_file(c, path_in(b, "axpy.ir"));
    cr_assert(l, "%s", b->said);
    weir_context_free(c);
    run_axpy(weir_loaded_model(l));
    weir_unload(l);
    bench_free(b);
}

Test(weir, same_bytes_in_other_folders) {
    Bench *b = bench_new();
    char command[600];
    mkdir(path_in(b, "x"), 0700);
    write_file(path_in(b, "x/renamed.ir"), model_text);
    cr_assert(weir_option(b->c, "cache", "off") == 0 && weir_option(b->c, "j", "1") == 0);
    cr_assert(weir_compile_file(b->c, path_in(b, "axpy.ir"), path_in(b, "one.so")) == 0);
    cr_assert(weir_option(b->c, "j", "2") == 0);
    cr_assert(weir_compile_file(b->c, path_in(b, "x/renamed.ir"), path_in(b, "x/two.so")) == 0);
    snprintf(command, sizeof command, "cmp %s %s", path_in(b, "one.so"), path_in(b, "x/two.so"));
    cr_assert(system(command) == 0);
    bench_free(b);
}

Test(weir, c_folder_builds_without_us) {
    Bench *b = bench_new();
    char command[600];
    cr_assert(weir_option(b->c, "emit", "c") == 0 &&
              weir_option(b->c, "emit-dir", path_in(b, "c")) == 0);
    cr_assert(weir_compile_file(b->c, path_in(b, "axpy.ir"), NULL) == 0, "%s", b->said);
    for (int i = 0; i < 2; i++) {
        snprintf(
            command, sizeof command,
            "cd %s && %s -O1 *.c -lm -o run 2> log && test \"$(./run 5)\" = 'y: 5 8' && "
            "echo '#include \"axpy.h\"' > h.cc && clang-19 -x c++ -fsyntax-only h.cc && rm h.cc",
            path_in(b, "c"), i ? "clang-19" : "gcc");
        cr_assert(system(command) == 0);
    }
    bench_free(b);
}

/* ---- weights --------------------------------------------------------------------------------- */

/* Protobuf: a field with bytes, or with a number. */
typedef struct Wire {
    unsigned char at[1 << 18];
    size_t n;
} Wire;

static void put_varint(Wire *w, unsigned long v) {
    for (; v > 127; v >>= 7) w->at[w->n++] = (unsigned char)(v | 128);
    w->at[w->n++] = (unsigned char)v;
}

static void put_bytes(Wire *w, unsigned field, const void *at, size_t n) {
    put_varint(w, field << 3 | 2);
    put_varint(w, n);
    memcpy(w->at + w->n, at, n);
    w->n += n;
}

static void put_text(Wire *w, unsigned field, const char *text) {
    put_bytes(w, field, text, strlen(text));
}

static void put_number(Wire *w, unsigned field, unsigned long v) {
    put_varint(w, field << 3);
    put_varint(w, v);
}

static void put_wire(Wire *w, unsigned field, const Wire *part) {
    put_bytes(w, field, part->at, part->n);
}

enum { ROWS = 300, COLUMNS = 100 };

static void put_port(Wire *graph, unsigned field, const char *name) {
    static Wire info, type, tensor, shape, dim;
    shape.n = tensor.n = type.n = info.n = 0;
    for (int k = 0; k < 2; k++) {
        dim.n = 0;
        put_number(&dim, 1, k ? COLUMNS : ROWS);
        put_wire(&shape, 1, &dim);
    }
    put_number(&tensor, 1, 1);
    put_wire(&tensor, 2, &shape);
    put_wire(&type, 1, &tensor);
    put_text(&info, 1, name);
    put_wire(&info, 2, &type);
    put_wire(graph, field, &info);
}

/* y = x + w; element i of w is i * factor. */
static void make_model(Wire *model, float factor) {
    static Wire graph, node, weight, opset;
    static float data[ROWS * COLUMNS];
    model->n = graph.n = node.n = weight.n = opset.n = 0;
    for (int i = 0; i < ROWS * COLUMNS; i++) data[i] = (float)i * factor;
    put_text(&node, 1, "x");
    put_text(&node, 1, "w");
    put_text(&node, 2, "y");
    put_text(&node, 4, "Add");
    put_number(&weight, 1, ROWS);
    put_number(&weight, 1, COLUMNS);
    put_number(&weight, 2, 1);
    put_text(&weight, 8, "w");
    put_bytes(&weight, 9, data, sizeof data);
    put_wire(&graph, 1, &node);
    put_text(&graph, 2, "adder");
    put_wire(&graph, 5, &weight);
    put_port(&graph, 11, "x");
    put_port(&graph, 12, "y");
    put_number(&opset, 2, 17);
    put_number(model, 1, 8);
    put_wire(model, 7, &graph);
    put_wire(model, 8, &opset);
}

static void run_adder(const weir_model *m, float factor) {
    static float x[ROWS * COLUMNS], y[ROWS * COLUMNS];
    weir_tensor in[1] = {{.data = x, .dtype = WEIR_F32, .rank = 2, .dims = {ROWS, COLUMNS}}};
    weir_tensor out[1] = {{.data = y, .capacity = ROWS * COLUMNS}};
    weir_instance *instance;
    char error[256] = "";
    for (int i = 0; i < ROWS * COLUMNS; i++) x[i] = 1;
    cr_assert(weir_create(m, NULL, &instance, error) == WEIR_OK, "%s", error);
    cr_assert(weir_run(m, instance, in, out) == WEIR_OK);
    for (int i = 0; i < ROWS * COLUMNS; i++) cr_assert(y[i] == 1 + (float)i * factor);
    weir_destroy(m, instance);
}

static weir_loaded *compile_adder(Bench *b, float factor, const char *name) {
    static Wire model;
    make_model(&model, factor);
    cr_assert(weir_compile_memory(b->c, model.at, model.n, NULL, path_in(b, name)) == 0, "%s",
              b->said);
    weir_loaded *l = weir_open(b->c, path_in(b, name));
    cr_assert(l, "%s", b->said);
    return l;
}

Test(weir, profile_of_a_run) {
    Bench *b = bench_new();
    cr_assert(weir_option(b->c, "profile", "yes") == 0);
    weir_loaded *l = compile_adder(b, 2, "p.so");
    const weir_model *m = weir_loaded_model(l);
    static float x[ROWS * COLUMNS], y[ROWS * COLUMNS];
    weir_tensor in[1] = {{.data = x, .dtype = WEIR_F32, .rank = 2, .dims = {ROWS, COLUMNS}}};
    weir_tensor out[1] = {{.data = y, .capacity = ROWS * COLUMNS}};
    weir_pool *pool = m->pool_new(2);
    weir_instance *instance;
    weir_profile w;
    cr_assert(m->profile && weir_create(m, pool, &instance, NULL) == WEIR_OK);
    for (int round = 0; round < 2; round++) {
        cr_assert(weir_run(m, instance, in, out) == WEIR_OK);
        cr_assert(m->profile(instance, &w) == WEIR_OK);
        cr_assert(w.threads == 2 && w.nkernels >= 1 && w.nspans[0] >= 1);
        for (int64_t k = 0; k < w.nspans[0]; k++) {
            const weir_span *span = &w.span[0][k];
            cr_expect(span->begin >= (k ? w.span[0][k - 1].end : 0) && span->end >= span->begin);
            cr_expect(span->kernel < w.nkernels && (span->kernel < 0 || w.kernel[span->kernel]));
        }
        cr_expect_lt(w.nspans[0], 20);
    }
    weir_destroy(m, instance);
    m->pool_free(pool);
    weir_unload(l);
    bench_free(b);
}

Test(weir, weights_inside) {
    Bench *b = bench_new();
    weir_loaded *l = compile_adder(b, 2, "w.so");
    cr_assert_eq(weir_loaded_model(l)->weight_bytes, (ROWS * COLUMNS * 4 + 63) / 64 * 64);
    run_adder(weir_loaded_model(l), 2);
    weir_unload(l);
    bench_free(b);
}

Test(weir, weights_of_a_model_in_process) {
    Bench *b = bench_new();
    static Wire model;
    make_model(&model, 3);
    weir_loaded *l = weir_load_memory(b->c, model.at, model.n, NULL);
    cr_assert(l, "%s", b->said);
    memset(model.at, 0, model.n);
    run_adder(weir_loaded_model(l), 3);
    weir_unload(l);
    bench_free(b);
}

static void create_fails(const weir_model *m, const char *said) {
    weir_instance *instance;
    char error[256] = "";
    cr_assert_eq(weir_create(m, NULL, &instance, error), WEIR_E_WEIGHTS);
    cr_assert(strstr(error, said), "%s", error);
}

Test(weir, weights_beside) {
    Bench *b = bench_new();
    struct stat st;
    cr_assert(weir_option(b->c, "weights", "file") == 0);
    weir_loaded *l = compile_adder(b, 2, "w.so"), *other = compile_adder(b, 4, "o.so");
    cr_assert(stat(path_in(b, "w.so"), &st) == 0 && st.st_size < ROWS * COLUMNS * 4);
    run_adder(weir_loaded_model(l), 2);
    run_adder(weir_loaded_model(other), 4);
    cr_assert(rename(path_in(b, "o.so.weights"), path_in(b, "w.so.weights")) == 0);
    create_fails(weir_loaded_model(l), "does not belong to this library");
    create_fails(weir_loaded_model(other), "cannot be opened");
    cr_assert(truncate(path_in(b, "w.so.weights"), 1000) == 0);
    create_fails(weir_loaded_model(l), "does not belong to this library");
    weir_unload(l);
    weir_unload(other);
    bench_free(b);
}

Test(weir, truncated_models_are_refused) {
    Bench *b = bench_new();
    static Wire model;
    make_model(&model, 2);
    for (size_t n = 0; n < model.n; n += model.n / 50) {
        cr_assert_eq(weir_compile_memory(b->c, model.at, n, NULL, path_in(b, "t.so")), 1,
                     "%zu bytes", n);
        cr_assert(access(path_in(b, "t.so"), F_OK) != 0);
    }
    bench_free(b);
}

/* ---- what is told ---------------------------------------------------------------------------- */

Test(weir, print_after_reads_back) {
    Bench *b = bench_new();
    weir_option(b->c, "print-after", "vectorize");
    weir_option(b->c, "time-passes", NULL);
    cr_assert(weir_compile_file(b->c, path_in(b, "axpy.ir"), path_in(b, "a.so")) == 0, "%s",
              b->said);
    char *text = strstr(b->printed, "# after vectorize"), *end = strstr(text, "\nemit ");
    cr_assert(text && end && strstr(b->printed, "codegen"));
    *end = 0;
    write_file(path_in(b, "nests.ir"), text);
    weir_context *c = weir_context_new(see, b);
    weir_loaded *l = weir_load_file(c, path_in(b, "nests.ir"));
    cr_assert(l, "%s", b->said);
    run_axpy(weir_loaded_model(l));
    weir_unload(l);
    weir_context_free(c);
    bench_free(b);
}

Test(weir, stop_after_writes_nothing) {
    Bench *b = bench_new();
    weir_option(b->c, "stop-after", "fuse");
    cr_assert(weir_compile_file(b->c, path_in(b, "axpy.ir"), path_in(b, "a.so")) == 0);
    cr_assert(access(path_in(b, "a.so"), F_OK) != 0);
    cr_assert_not(weir_load_file(b->c, path_in(b, "axpy.ir")));
    cr_assert(strstr(b->said, "stop-after"));
    bench_free(b);
}

/* ---- options --------------------------------------------------------------------------------- */

static void refused(Bench *b, const char *name, const char *value, const char *said) {
    b->said[0] = 0;
    cr_assert(weir_option(b->c, name, value) == 1, "%s=%s", name, value);
    cr_assert(strstr(b->said, said), "\"%s\" does not say \"%s\"", b->said, said);
}

Test(weir, options) {
    Bench *b = bench_new();
    static const char *const good[][2] = {
        {"target", "c"},
        {"cpu", "x86-64-v3"},
        {"dim", "batch=1..8"},
        {"dim", "n=4"},
        {"dim", "a=b=2.."},
        {"math", "strict"},
        {"weights", "file"},
        {"packing", "build"},
        {"emit", "header"},
        {"emit-dir", "/tmp"},
        {"print-after", "all"},
        {"stop-after", "fuse"},
        {"skip", "fuse"},
        {"verify-each", NULL},
        {"j", "4"},
        {"time-passes", "no"},
        {"cache", "off"},
        {"feed", "w"},
        {"gpu", "sm_80"},
        {"gpu-libraries", "cublaslt"},
        {"gpu-libraries", "cudnn,cublaslt"},
        {"gpu-copies", "threads"},
    };
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        cr_assert(weir_option(b->c, good[i][0], good[i][1]) == 0, "%s: %s", good[i][0], b->said);
    refused(b, "maths", "strict", "did you mean \"math\"?");
    refused(b, "time_passes", NULL, "did you mean \"time-passes\"?");
    refused(b, "xyzzy", NULL, "there are target, cpu, gpu, gpu-libraries, gpu-copies, dim");
    refused(b, "math", "exact", "give strict, default or fast");
    refused(b, "math", NULL, "needs a value");
    refused(b, "cpu", "z80", "z80");
    refused(b, "gpu", "sm_1", "give sm_80, sm_90a or sm_100");
    refused(b, "gpu-libraries", "cublas", "unknown library \"cublas\"; give cublaslt or cudnn");
    refused(b, "gpu-copies", "warps", "threads or engine");
    refused(b, "dim", "batch", "NAME=SIZE");
    refused(b, "dim", "batch=8..1", "NAME=SIZE");
    refused(b, "dim", "batch=99999999999999999999", "NAME=SIZE");
    refused(b, "skip", "nests", "cannot be skipped");
    refused(b, "skip", "fusion", "give a pass: infer, fold");
    refused(b, "j", "-1", "a number of threads");
    bench_free(b);
}

/* ---- failures -------------------------------------------------------------------------------- */

static int count_files(const char *folder) {
    DIR *dir = opendir(folder);
    int n = 0;
    for (struct dirent *d; dir && (d = readdir(dir));) n++;
    closedir(dir);
    return n - 2;
}

static void compile_fails(Bench *b, const char *model, const char *output, int code,
                          const char *said) {
    b->said[0] = 0;
    cr_assert_eq(weir_compile_file(b->c, model, output), code);
    cr_assert(strstr(b->said, said), "\"%s\" does not say \"%s\"", b->said, said);
}

Test(weir, failures_leave_nothing) {
    Bench *b = bench_new();
    int files = count_files(b->folder);
    compile_fails(b, path_in(b, "none.onnx"), path_in(b, "a.so"), 1, "No such file");
    compile_fails(b, path_in(b, "none.ir"), path_in(b, "a.so"), 1, "cannot read");
    compile_fails(b, b->folder, path_in(b, "a.so"), 1, "");
    compile_fails(b, path_in(b, "axpy.ir"), path_in(b, "no/a.so"), 1, "cannot write");
    compile_fails(b, path_in(b, "axpy.ir"), b->folder, 1, "no regular file");
    compile_fails(b, path_in(b, "axpy.ir"), NULL, 1, "no name");
    write_file(path_in(b, "axpy.ir"), "flow broken {");
    compile_fails(b, path_in(b, "axpy.ir"), path_in(b, "a.so"), 1, "W003");
    write_file(path_in(b, "axpy.ir"), "");
    compile_fails(b, path_in(b, "axpy.ir"), path_in(b, "a.so"), 1, "no graph and no flow");
    cr_assert_eq(count_files(b->folder), files);
    bench_free(b);
}

Test(weir, toolchain_failure_is_ours) {
    Bench *b = bench_new();
    setenv("WEIR_CLANG", "/nowhere/clang", 1);
    int files = count_files(b->folder);
    compile_fails(b, path_in(b, "axpy.ir"), path_in(b, "a.so"), 3, "W030");
    cr_assert(count_files(b->folder) <= files + 1); /* the cache's folder may be there */
    cr_assert(access(path_in(b, "a.so"), F_OK) != 0);
    bench_free(b);
}

Test(weir, file_size_limit) {
    Bench *b = bench_new();
    struct rlimit small = {4096, RLIM_INFINITY}, normal;
    weir_option(b->c, "cache", "off");
    cr_assert(weir_compile_file(b->c, path_in(b, "axpy.ir"), path_in(b, "a.so")) == 0);
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &normal);
    setrlimit(RLIMIT_FSIZE, &small);
    int rc = weir_compile_file(b->c, path_in(b, "axpy.ir"), path_in(b, "b.so"));
    setrlimit(RLIMIT_FSIZE, &normal);
    cr_assert(rc != 0);
    cr_assert(access(path_in(b, "b.so"), F_OK) != 0);
    bench_free(b);
}

Test(weir, open_refuses_what_is_no_model) {
    Bench *b = bench_new();
    cr_assert_not(weir_open(b->c, path_in(b, "none.so")));
    cr_assert(strstr(b->said, "W031"));
    cr_assert_not(weir_open(b->c, path_in(b, "axpy.ir")));
    cr_assert(strstr(b->said, "weir compile"));
    cr_assert_not(weir_open(b->c, "/lib/x86_64-linux-gnu/libm.so.6"));
    cr_assert(strstr(b->said, "does not export \"weir_model_descriptor\""));
    bench_free(b);
}

/* ---- ending early ---------------------------------------------------------------------------- */

typedef struct Canceller {
    Bench *b;
    weir_context *c;
    int at; /* which step */
} Canceller;

static void cancel_at(void *user, const weir_diagnostic *d) {
    Canceller *x = user;
    see(x->b, d);
    if (d->severity == 3 && x->b->steps == x->at) weir_cancel(x->c);
}

/* At every step: nothing is left, and the context works again. */
Test(weir, cancel_leaves_nothing) {
    Bench *b = bench_new();
    Canceller x = {.b = b};
    char so[256];
    snprintf(so, sizeof so, "%s", path_in(b, "axpy.so"));
    x.c = weir_context_new(cancel_at, &x);
    for (int done = 0; !done; weir_option(x.c, "cache", "no")) {
        x.at++;
        b->steps = 0;
        int code = weir_compile_file(x.c, path_in(b, "axpy.ir"), so);
        done = b->steps < x.at;
        cr_assert(code == (done ? 0 : 4), "step %d: %d", x.at, code);
        cr_assert((access(so, F_OK) == 0) == done, "step %d", x.at);
        if (!done) cr_assert(strstr(b->said, "W033"), "%s", b->said);
    }
    cr_assert(x.at > 10);
    x.at = 0;
    weir_cancel(x.c);
    cr_assert_null(weir_load_file(x.c, path_in(b, "axpy.ir")));
    weir_loaded *l = weir_load_file(x.c, path_in(b, "axpy.ir"));
    cr_assert(l, "%s", b->said);
    weir_unload(l);
    weir_context_free(x.c);
    bench_free(b);
}

Test(weir, limits_end_with_a_message) {
    Bench *b = bench_new();
    const char *text = path_in(b, "axpy.ir"), *so = path_in(b, "axpy.so");
    const char *tight[][2] = {
        {"max-memory", "4K"}, {"max-memory", "64K"}, {"max-time", "1e-6"}, {"max-time", "0.001"}};
    for (size_t i = 0; i < sizeof tight / sizeof *tight; i++) {
        weir_context *c = weir_context_new(see, b);
        cr_assert(weir_option(c, tight[i][0], tight[i][1]) == 0);
        cr_assert(weir_compile_file(c, text, so) == 1, "%s %s", tight[i][0], tight[i][1]);
        cr_assert(strstr(b->said, "W011") && strstr(b->said, tight[i][0]), "%s", b->said);
        cr_assert(access(so, F_OK) != 0);
        weir_context_free(c);
    }
    cr_assert(weir_option(b->c, "max-memory", "1G") == 0 &&
              weir_option(b->c, "max-time", "50") == 0);
    cr_assert(weir_compile_file(b->c, text, so) == 0, "%s", b->said);
    const char *bad[][2] = {{"max-memory", "1X"}, {"max-memory", "0"}, {"max-time", "-1"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        cr_assert(weir_option(b->c, bad[i][0], bad[i][1]) == 1, "%s", bad[i][1]);
    bench_free(b);
}

static void wait_for_all(int signal) {
    (void)signal;
    while (waitpid(-1, NULL, WNOHANG) > 0) continue;
}

/* A host that ignores SIGCHLD, or waits for whatever ends, would lose the status of our children.
 */
Test(weir, host_takes_all_children) {
    void (*const handler[])(int) = {SIG_IGN, wait_for_all};
    for (int i = 0; i < 2; i++) {
        Bench *b = bench_new();
        signal(SIGCHLD, handler[i]);
        weir_option(b->c, "cache", "no");
        cr_assert(weir_compile_file(b->c, path_in(b, "axpy.ir"), path_in(b, "axpy.so")) == 0, "%s",
                  b->said);
        setenv("WEIR_CLANG", "/bin/false", 1);
        cr_assert(weir_compile_file(b->c, path_in(b, "axpy.ir"), path_in(b, "axpy.so")) == 3);
        setenv("WEIR_CLANG", "/nowhere/clang", 1);
        cr_assert(weir_compile_file(b->c, path_in(b, "axpy.ir"), path_in(b, "axpy.so")) == 3);
        cr_assert(strstr(b->said, "cannot run \"/nowhere/clang\": No such file"), "%s", b->said);
        unsetenv("WEIR_CLANG");
        signal(SIGCHLD, SIG_DFL);
        bench_free(b);
    }
}
