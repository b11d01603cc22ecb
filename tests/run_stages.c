/* SPDX-License-Identifier: Apache-2.0 */
/* What the passes make of a model or of kernels, stage by stage:
 *
 *   run_stages [--text|--gpu|--cpu NAME] [--checked] [--skip-each] [--every|--compile|-j N] PATH...
 *
 * For each flow of each text (or the graph of a model), on random data and for three sizes of its
 * symbols, the stages after each pass are verified and evaluated (those of equal texts once): an
 * `exact` pass between flows or between nests gives the same bits, all others agree within
 * rounding. --skip-each does that once more, sizes by turns, without each optional pass that
 * changes the text, and for shorter vectors. The program is compiled into this process and must
 * give the bits that the evaluator gives for its nests, on one thread and on several that take
 * turns (team.h), in memory that holds nothing useful; --compile N does so for one kernel of N (0:
 * none). A text with nests written by hand also has these compiled, and its flow taken through the
 * passes with and without the kernels that it brings.
 * --text evaluates nothing: every stage must verify and print as the text that it parses from.
 * --gpu does it for a machine of blocks of threads: flows without the kernels they bring. --every N
 * takes one kernel of N, -j N: in N processes. --checked compiles with bounds checks. --cpu NAME
 * takes that processor in place of this one.
 * A text may say what a pass makes of it, for x86-64-v4 (`# cpu: NAME`: for that; `# math: fast`:
 * for sapphirerapids, with that; `# math: strict`, `# convert: f16`: with that): `# after PASS:
 * TEXT` demands TEXT behind the pass, `# never after PASS: TEXT` forbids it, `# FLOW after PASS:
 * TEXT` is about one flow or graph; and `# within: X` that results are off by so much of the
 * largest. With --gpu they begin `# on gpu`, `# traffic:` limits what kernels waste, `# gpu: NAME`
 * says which it is, and passes follow `# recipe:` lines of their flow; so with `# cpu:`, too. */
#include <dirent.h>
#include <malloc.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "compiler/calls.h"
#include "compiler/driver.h"
#include "tests/known.h"
#include "tests/results.h"
#include "tests/starts.h"
#include "tests/traffic.h"
#include "tests/team.h"

enum { PORTS = 256, PASSES = 64 };

typedef struct Settings {
    bool text, skip_each, gpu, checked;
    int every, compile, jobs;
    const char *cpu; /* or NULL: this one */
} Settings;

typedef struct Run {
    const Settings *settings;
    Ctx *ctx;
    const char *path;
    Options options; /* the compiler's */
    Machine machine;
    const char *skip; /* the pass left out, or NULL */
    int64_t size;     /* of symbols */
    int number;       /* of the flow */
    int turn, turns;  /* sizes share what is tried by turns; flows of one size do */
    Stage start;
    bool compile, round_trip;
    const char *name;   /* of the flow or graph */
    double within;      /* Results.within, or 0 */
    const char *limits; /* the text with its `# traffic:` line, or NULL */
    const char *expect; /* the source's text, or NULL; then nothing is evaluated */
    const char *cpu;    /* that it is about, or NULL */
    const char *recipe; /* that its passes follow, or NULL */
    /* made on the way */
    Arena *arena;
    int nout;
    Tensor *in;
    const Tensor *want, *last; /* want: of the first flow; last: of the stage before */
    KnownList known;           /* of the source */
    bool last_is_flow, rounds;
    const char *text;  /* of the stage before, when texts are compared */
    bool idle[PASSES]; /* passes that changed no text: a run without one is the whole run */
    char message[2048];
} Run;

static void note(void *user, const Diag *diag) {
    Run *r = user;
    const char *line = strstr(diag->message, "# <--");
    if (r->message[0]) return;
    while (line && line > diag->message && line[-1] != '\n') line--;
    snprintf(r->message, sizeof r->message, "%s: %.*s%s%.*s", diag->id,
             (int)strcspn(diag->message, "\n"), diag->message, line ? "\n  " : "",
             line ? (int)strcspn(line, "\n") : 0, line ? line : "");
}

static const Flow *start_flow(const Stage *s) {
    return s->flow ? s->flow : s->program ? s->program->flow : NULL;
}

/* ---- data -------------------------------------------------------------------------------- */

static bool size_of(void *user, Dim sym, int64_t *value) {
    const Run *r = user;
    const Flow *f = start_flow(&r->start);
    *value = r->size;
    for (int i = 0; f && i < f->symbol.n; i++) {
        const Symbol *s = &f->symbol.at[i];
        if (s->sym != sym) continue;
        if (*value < s->lo) *value = s->lo;
        if (*value > s->hi) *value = s->hi;
    }
    return true;
}

static void make_inputs(Run *r, const Flow *flow) {
    r->in = NEW_ARRAY(r->arena, Tensor, flow->cont.n);
    r->nout = 0;
    for (int c = 0, n = 0; c < flow->cont.n; c++) {
        const Cont *cont = &flow->cont.at[c];
        r->nout += cont->kind == CONT_OUT;
        if (cont->kind != CONT_IN) continue;
        Tensor *t = &r->in[n++];
        *t = (Tensor){.type = cont->type, .rank = cont->rank};
        for (int k = 0; k < cont->rank; k++)
            if (!dim_eval(cont->shape[k], size_of, r, &t->dim[k]))
                fail(r->ctx, E_VERIFY, "no size for input \"%s\"", cont->name);
        t->data = arena_alloc(r->arena, (size_t)dtype_bytes(t->type, tensor_count(t)) + 64);
        cont_random(cont, t, (uint64_t)n);
    }
}

static const Tensor *eval_stage(Run *r, Known *known, const Stage *stage) {
    return known_outputs(known, r->known.arena, stage, r->in, r->nout);
}

/* ---- comparing --------------------------------------------------------------------------- */

static void compare(Run *r, const Tensor *got, const Tensor *want, bool exact, const char *after) {
    Results results = {r->ctx, r->nout, got, want, after, r->within};
    results_agree(&results, exact, r->rounds);
}

/* Does the flow round to whole numbers somewhere? Then a sum's last bit may decide an element. */
static bool rounds(const Flow *f) {
    for (int m = 0; m < f->map.n; m++)
        for (int v = 0; v < f->map.at[m]->body.val.n; v++) {
            const Val *val = &f->map.at[m]->body.val.at[v];
            if (val->kind == VAL_PRIM && val->prim == P_RINT) return true;
        }
    return false;
}

/* Printed, parsed and printed it is the same text; did a pass make anything of the one before? */
static void same_text(Run *r, Known *known, const Stage *stage, const Pass *pass,
                      const char *after) {
    int npass;
    if (pass) r->idle[pass - pass_list(&npass)] = r->text == known->text;
    r->text = known->text;
    known_print(known, r->ctx, stage, after);
}

/* The last level's passes leave their own result as it is. */
static void same_again(Run *r, const Stage *end, const PassEnv *env) {
    Arena *arena = arena_new(r->ctx);
    const char *text = stage_text(arena, end);
    Stage again = passes_run(r->ctx, source_parse(arena, text), env, NULL);
    texts_equal(r->ctx, "the program taken through its passes twice", text,
                stage_text(arena, &again));
    arena_free(arena);
}

/* ---- what a text expects ----------------------------------------------------------------- */

static void expect_line(Run *r, const char *at, const char *text, bool wanted) {
    char want[256];
    snprintf(want, sizeof want, "%.*s", (int)strcspn(at, "\n"), at);
    if ((strstr(text, want) != NULL) == wanted) return;
    fail(r->ctx, E_VERIFY, "\"%s\" stands %s in\n%.1500s", want, wanted ? "not" : "still", text);
}

/* Lines for the whole text, and those that name the flow. */
static void expect_lines(Run *r, const Stage *stage, const char *pass) {
    Arena *arena = arena_new(r->ctx);
    const char *text = stage_text(arena, stage);
    for (int kind = 0; kind < 4; kind++) {
        bool wanted = kind & 1, named = kind & 2;
        const char *head = arena_printf(
            arena, "\n# %s%s%s%s%s: ", r->settings->gpu ? "on gpu " : "", named ? r->name : "",
            named ? " " : "", wanted ? "after " : "never after ", pass);
        for (const char *p = r->expect; (p = strstr(p, head)); p += strlen(head))
            expect_line(r, p + strlen(head), text, wanted);
    }
    arena_free(arena);
}

/* What the kernels of a program waste, where the text limits that. */
static void check_traffic(Run *r, const Stage *stage) {
    if (!r->limits || !stage->program) return;
    Arena *arena = arena_new(r->ctx);
    NestTraffic *traffic = NEW_ARRAY(arena, NestTraffic, stage->program->nest.n);
    Tensor *out = NEW_ARRAY(arena, Tensor, r->nout + 1);
    program_eval_counted(arena, stage->program, r->in, out, traffic);
    const char *excess = traffic_excess(arena, stage->program, traffic, r->limits);
    if (excess) fail(r->ctx, E_VERIFY, "%s", excess);
    arena_free(arena);
}

/* ---- one run of the passes --------------------------------------------------------------- */

static void watch(void *user, const Pass *pass, const Stage *stage, double seconds) {
    Run *r = user;
    const char *after = pass ? pass->name : "the source";
    (void)seconds;
    Known *known = known_stage(&r->known, stage);
    known_verify(known, stage);
    if (r->expect && pass) expect_lines(r, stage, pass->name);
    if (r->expect) return;
    if (r->round_trip) same_text(r, known, stage, pass, after);
    if (r->settings->text || stage->graph) return;
    bool first = !r->in, is_flow = stage->flow != NULL;
    if (first) {
        make_inputs(r, start_flow(stage));
        r->rounds = rounds(start_flow(stage));
        Stage start = {.flow = start_flow(stage)};
        r->want = eval_stage(r, known_stage(&r->known, &start), &start);
    }
    const Tensor *got = eval_stage(r, known, stage);
    if (pass && !r->skip && !strcmp(pass->name, "vectorize")) check_traffic(r, stage);
    bool exact =
        !first && is_flow == r->last_is_flow && pass_keeps_bits(pass, &r->machine, r->options.math);
    compare(r, got, exact ? r->last : r->want, exact, after);
    r->last = got;
    r->last_is_flow = is_flow;
}

static weir_tensor host_tensor(const Tensor *t, void *data) {
    weir_tensor h = {.data = data, .dtype = dtype_onnx(t->type), .rank = t->rank};
    for (int k = 0; k < t->rank; k++) h.dims[k] = t->dim[k];
    h.capacity = tensor_count(t);
    return h;
}

/* One run of a model that this process has: the bits of `last`. `team`: its threads, or NULL.
 */
static void run_compiled(Run *r, const weir_model *m, Team *team, const char *how) {
    weir_tensor in[PORTS], out[PORTS];
    Tensor *got = NEW_ARRAY(r->arena, Tensor, r->nout + 1);
    weir_instance *instance = NULL;
    for (int i = 0; i < m->ninputs; i++) in[i] = host_tensor(&r->in[i], r->in[i].data);
    for (int i = 0; i < m->noutputs; i++) {
        got[i] = r->last[i];
        size_t bytes = (size_t)dtype_bytes(got[i].type, tensor_count(&got[i])) + 64;
        got[i].data = arena_alloc(r->arena, bytes);
        memset(got[i].data, 0xa5, bytes);
        out[i] = host_tensor(&got[i], got[i].data);
    }
    bool created = m->create(team ? team_pool(team) : NULL, &instance, NULL) == WEIR_OK;
    weir_status status = created ? m->run(instance, in, out) : WEIR_E_MEMORY;
    char error[256];
    snprintf(error, sizeof error, "%s", instance ? m->error(instance) : "no instance");
    if (instance) m->destroy(instance);
    if (status != WEIR_OK) fail(r->ctx, E_VERIFY, "%s: status %d: %s", how, status, error);
    if (team && !team_met(team)) fail(r->ctx, E_VERIFY, "%s: threads miss each other", how);
    compare(r, got, r->last, true, how);
}

/* The program in this process: alone, and by threads of which one is far ahead of the others up
 * to each barrier. */
static void check_compiled(Run *r, const Stage *stage) {
    Driver d = driver_new(r->arena, &r->options, (Source){.path = "kernel.ir"}, NULL, NULL);
    d.stage = *stage;
    Loaded loaded = driver_load(&d);
    for (int first = 0; first < 2; first++) {
        Team *team = team_new(first);
        run_compiled(r, loaded.model, team,
                     first ? "the first thread last" : "the last thread last");
        team_free(team);
    }
    run_compiled(r, loaded.model, NULL, "compiled");
    loaded_free(&loaded);
}

static void run_passes(void *user) {
    Run *r = user;
    r->arena = arena_new(r->ctx);
    r->in = NULL;
    r->text = NULL;
    Machine baseline = r->machine;
    if (r->settings->gpu) target_c_machine(r->ctx, &baseline, "x86-64-v3");
    PassEnv env = {.machine = &r->machine, .ops = onnx_ops(), .baseline = &baseline};
    env.math = r->options.math, env.convert = r->options.convert;
    if (r->recipe) env.recipe = recipe_parse(r->arena, r->path, r->recipe);
    PassOptions options = {.watch = watch, .user = r, .skip = &r->skip, .nskip = r->skip != NULL};
    Stage end = passes_run(r->ctx, r->start, &env, &options);
    if (end.program) same_again(r, &end, &env);
    if (r->compile && end.program) check_compiled(r, &end);
    arena_free(r->arena);
}

/* ---- all runs of one source -------------------------------------------------------------- */

static bool attempt(Run *r, const char *name) {
    r->message[0] = '\0';
    r->name = name;
    if (ctx_try(r->ctx, run_passes, r)) return true;
    printf("FAIL %s %s, size %lld, %s%s for %s: %s\n", r->path, name, (long long)r->size,
           r->skip ? "without " : "whole", r->skip ? r->skip : "", r->machine.name, r->message);
    return false;
}

/* Of a graph: with a bound, as types may ask for more of others; *most: that. */
static bool has_symbols(const Stage *s, int64_t *most) {
    const Symbol *one = s->graph && s->graph->symbol.n == 1 ? s->graph->symbol.at : NULL;
    if (one) *most = one->hi;
    if (s->graph) return one && one->hi != INT64_MAX;
    return start_flow(s) && start_flow(s)->symbol.n > 0;
}

/* Whole; then as the text expects it, on the machine that it means. */
static bool whole(Run *r, const char *name, bool compile) {
    Machine native = r->machine;
    const char *expect = r->expect;
    r->expect = NULL;
    r->compile = compile;
    r->round_trip = true;
    bool ok = attempt(r, name);
    r->compile = r->round_trip = false;
    if (!expect) return ok;
    r->expect = expect;
    const char *cpu = r->options.math == MATH_FAST ? "sapphirerapids" : "x86-64-v4";
    if (r->cpu) cpu = r->cpu;
    if (!r->settings->gpu) target_c_machine(r->ctx, &r->machine, cpu);
    ok &= attempt(r, name);
    r->machine = native;
    return ok;
}

/* Whole; and by turns for shorter vectors, and without each pass that may be left out. */
static bool all_passes(Run *r, const char *name, bool compile) {
    static const char *const shorter[] = {"x86-64-v2", "x86-64-v3"};
    Machine native = r->machine;
    int n;
    const Pass *pass = pass_list(&n);
    bool ok = whole(r, name, compile);
    r->expect = NULL;
    if (!ok || !r->settings->skip_each) return ok;
    r->round_trip = r->settings->text;
    for (int i = 0; i < 2 && !r->settings->gpu; i++) {
        if (i % r->turns != r->turn) continue;
        target_c_machine(r->ctx, &r->machine, shorter[i]);
        ok &= attempt(r, name);
        r->machine = native;
    }
    for (int i = 0; i < n; i++) {
        bool tried = pass[i].optional && !r->idle[i] && i % r->turns == r->turn;
        if (!tried || (!r->start.graph && pass[i].level == LEVEL_GRAPH)) continue;
        r->skip = pass[i].name;
        ok &= attempt(r, name);
    }
    r->skip = NULL;
    return ok;
}

/* Has every container at least this extent in every dim, with this size of the symbols? */
static bool fits(Run *r, const Flow *flow, int64_t least) {
    int64_t n = 0;
    for (int c = 0; flow && c < flow->cont.n; c++)
        for (int k = 0; k < flow->cont.at[c].rank; k++)
            if (!dim_eval(flow->cont.at[c].shape[k], size_of, r, &n) || n < least) return false;
    return true;
}

/* The sizes of its symbols to take; how many there are. */
static int sizes_of(Run *r, const Flow *flow, int64_t *size) {
    static const int64_t sizes[] = {9, 1, 0};
    int64_t most = INT64_MAX;
    int tried = has_symbols(&r->start, &most) && !r->settings->text ? 3 : 1, n = 0;
    for (int s = 0; s < tried; s++) {
        r->size = sizes[s] < most ? sizes[s] : most;
        while (r->size > 1 && r->size < 1000 && !fits(r, flow, 1)) r->size = r->size * 3 / 2;
        if (r->size >= 1000) r->size = sizes[s];
        if (fits(r, flow, 0) && (r->size || !fits(r, flow, 1))) size[n++] = r->size;
    }
    return n;
}

static bool run_source(Run *r, Arena *arena, Stage start, const char *name, bool compile) {
    const Flow *flow = start_flow(&start);
    bool ok = true;
    if (r->settings->gpu && flow) {
        start = (Stage){.flow = flow_bare(arena, flow)};
        flow = start.flow;
    }
    int64_t size[3];
    r->start = start;
    int n = sizes_of(r, flow, size);
    r->known = (KnownList){.arena = arena};
    r->turns = n > 1 ? n : 2;
    for (int s = 0; s < n; s++) {
        r->start = start;
        r->turn = (r->number + s) % r->turns;
        r->size = size[s];
        known_forget_outputs(&r->known);
        if (start.program) {
            ok &= whole(r, name, compile);
            r->start = (Stage){.flow = flow};
        }
        ok &= all_passes(r, name, compile);
        if (!flow || !flow->kernel.n) continue;
        r->start = (Stage){.flow = flow_bare(arena, flow)};
        ok &= all_passes(r, name, compile);
    }
    return ok;
}

/* ---- files ------------------------------------------------------------------------------- */

typedef struct Counter {
    int seen, ran, bad;
    int part; /* this process's */
} Counter;

static bool mine(const Settings *s, Counter *c) {
    int k = c->seen++;
    return k % s->every == 0 && k / s->every % s->jobs == c->part;
}

typedef struct File {
    Run *run;
    Counter *counter;
} File;

/* In a process of its own: a fault of ours ends it. */
static void run_one(File *f, Arena *arena, Stage stage, const char *name) {
    const Settings *s = f->run->settings;
    if (!mine(s, f->counter)) return;
    f->run->number = f->counter->seen;
    bool compile = s->compile && f->counter->ran % s->compile == 0;
    f->counter->ran++;
    int status = -1;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        bool ok = run_source(f->run, arena, stage, name, compile);
        fflush(stdout);
        _exit(!ok);
    }
    if (child < 0 || waitpid(child, &status, 0) < 0 || !WIFEXITED(status) ||
        WEXITSTATUS(status) > 1)
        printf("FAIL %s %s: ended early\n", f->run->path, name);
    f->counter->bad += status != 0;
}

static const char *text_of_file(Arena *arena, const char *path) {
    FILE *file = fopen(path, "rb");
    Text text = {.arena = arena};
    char part[1 << 14];
    if (!file) fail(arena_ctx(arena), E_FILE, "cannot read \"%s\"", path);
    for (size_t n; (n = fread(part, 1, sizeof part, file)) > 0;) text_put_n(&text, part, n);
    fclose(file);
    return text_str(&text);
}

/* Lines of a recipe in front of a flow's text, up to the blank line before it; NULL: none. */
static const char *recipe_of(Arena *arena, const char *text, const char *flow) {
    static const char mark[] = "# recipe: ";
    const size_t n = sizeof mark - 1;
    const char *at = strstr(text, arena_printf(arena, "\nflow %s ", flow)), *line = at;
    Text out = {.arena = arena};
    while (line && line > text && strncmp(line - 1, "\n\n", 2)) line--;
    for (; line && (line = strstr(line, mark)) && line < at; line += strcspn(line, "\n"))
        text_printf(&out, "%.*s\n", (int)(strcspn(line, "\n") - n), line + n);
    return *text_str(&out) ? text_str(&out) : NULL;
}

static void run_file(void *user) {
    File *f = user;
    Run *r = f->run;
    Arena *arena = arena_new(r->ctx);
    Source source = {.path = r->path};
    const char *hash;
    if (!source_is_text(&source)) {
        run_one(f, arena, source_read(arena, &source, &r->options, onnx_ops(), &hash), "graph");
        return;
    }
    const char *text = text_of_file(arena, r->path);
    if (strstr(text, "# fails: ")) return;
    IrFile *file = ir_file_parse(arena, onnx_ops(), text);
    Program *program = ir_file_program(arena, file);
    if (strstr(text, "# math: fast\n")) r->options.math = MATH_FAST;
    if (strstr(text, "# math: strict\n")) r->options.math = MATH_STRICT;
    if (strstr(text, "# convert: f16\n")) r->options.convert = F16;
    const char *gpu = strstr(text, "# gpu: "), *cpu = strstr(text, "# cpu: ");
    if (strstr(text, "# within: ")) r->within = atof(strstr(text, "# within: ") + 10);
    if (cpu) r->cpu = intern_n(r->ctx, cpu + 7, strcspn(cpu + 7, "\n"));
    if (gpu) r->options.gpu = intern_n(r->ctx, gpu + 7, strcspn(gpu + 7, "\n"));
    if (r->settings->gpu)
        target_cuda_machine(r->ctx, &r->machine, r->options.gpu, &r->options.gpu, 1);
    r->expect = strstr(text, "after ") ? arena_printf(arena, "\n%s", text) : NULL;
    r->limits = r->settings->gpu ? text : NULL;
    for (int i = 0; i < file->graph.n; i++)
        run_one(f, arena, (Stage){.graph = file->graph.at[i]}, file->graph.at[i]->name);
    for (int i = 0; i < file->flow.n; i++) {
        Stage stage = {.flow = flow_with_weights(arena, file->flow.at[i])};
        bool meant = r->settings->gpu != (cpu != NULL);
        r->recipe = meant ? recipe_of(arena, text, file->flow.at[i]->name) : NULL;
        if (program && program->flow == file->flow.at[i]) {
            program->flow = stage.flow;
            stage = (Stage){.program = program};
        }
        run_one(f, arena, stage, file->flow.at[i]->name);
    }
}

static void run_path(const Settings *settings, const char *path, Counter *counter) {
    Run run = {.settings = settings, .path = path};
    File file = {&run, counter};
    options_default(&run.options);
    run.options.checked = settings->checked;
    run.options.jobs = 1;
    if (settings->cpu) run.options.cpu = settings->cpu;
    run.ctx = ctx_new(note, &run);
    run.ctx->runtime = &calls_runtime;
    if (!settings->gpu) target_c_machine(run.ctx, &run.machine, run.options.cpu);
    if (!ctx_try(run.ctx, run_file, &file)) {
        printf("FAIL %s: %s\n", path, run.message);
        counter->ran++;
        counter->bad++;
    }
    ctx_free(run.ctx);
}

static int ends_in_ir(const struct dirent *entry) {
    size_t n = strlen(entry->d_name);
    return n > 3 && !strcmp(entry->d_name + n - 3, ".ir");
}

static void run_operand(const Settings *settings, const char *path, Counter *counter) {
    struct dirent **entry;
    int n = scandir(path, &entry, ends_in_ir, alphasort);
    if (n < 0) run_path(settings, path, counter);
    for (int i = 0; i < n; i++) {
        char file[4096];
        snprintf(file, sizeof file, "%s/%s", path, entry[i]->d_name);
        run_path(settings, file, counter);
        free(entry[i]);
    }
    if (n >= 0) free(entry);
}

/* Works in `jobs` processes; each tells through its pipe what it counted. */
static int run_parts(const Settings *settings, char **path, int n) {
    int ran = 0, bad = 0;
    int(*tell)[2] = calloc((size_t)settings->jobs, sizeof *tell);
    for (int part = 0; part < settings->jobs; part++) {
        fflush(stdout);
        if (pipe(tell[part])) return 1;
        if (fork()) continue;
        Counter c = {.part = part};
        for (int i = 0; i < n; i++) run_operand(settings, path[i], &c);
        fflush(stdout);
        _exit(write(tell[part][1], &c, sizeof c) != (ssize_t)sizeof c);
    }
    for (int part = 0; part < settings->jobs; part++) {
        Counter c = {0};
        close(tell[part][1]);
        if (read(tell[part][0], &c, sizeof c) != (ssize_t)sizeof c) {
            printf("FAIL process %d ended early\n", part);
            c.bad = 1;
        }
        ran += c.ran;
        bad += c.bad;
    }
    while (wait(NULL) > 0) continue;
    free(tell);
    printf("%d passed, %d failed, 0 skipped\n", ran - bad, bad);
    return bad || !ran;
}

int main(int argc, char **argv) {
    Settings s = {.every = 1, .compile = 1, .jobs = 1};
    int a = 1;
    for (; a < argc && argv[a][0] == '-'; a++) {
        const char *value = argv[a + 1];
        int *number = !strcmp(argv[a], "--every")     ? &s.every
                      : !strcmp(argv[a], "--compile") ? &s.compile
                      : !strcmp(argv[a], "-j")        ? &s.jobs
                                                      : NULL;
        bool *on = !strcmp(argv[a], "--text")        ? &s.text
                   : !strcmp(argv[a], "--gpu")       ? &s.gpu
                   : !strcmp(argv[a], "--checked")   ? &s.checked
                   : !strcmp(argv[a], "--skip-each") ? &s.skip_each
                                                     : NULL;
        const char **text = !strcmp(argv[a], "--cpu") ? &s.cpu : NULL;
        if (!number && !on && !text) fprintf(stderr, "run_stages does not know \"%s\"\n", argv[a]);
        if (!on && (!value || (!number && !text))) return 2;
        if (on) *on = true;
        if (number) *number = atoi(value);
        if (text) *text = value;
        if (!on) a++;
    }
    if (s.text || s.gpu) s.compile = 0;
    mallopt(M_PERTURB, 0x5a);
    if (a == argc || s.every < 1 || s.compile < 0 || s.jobs < 1) return 2;
    return run_parts(&s, argv + a, argc - a);
}
