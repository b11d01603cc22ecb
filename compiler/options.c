/* SPDX-License-Identifier: Apache-2.0 */
/* Options by name: one row each. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "driver.h"

void options_add_operators(Ctx *ctx, Options *o, const char *text) {
    onnx_ops_with(ctx_arena(ctx), &text, 1);
    vec_push(ctx_arena(ctx), &o->operators, arena_printf(ctx_arena(ctx), "%s", text));
}

void options_default(Options *o) {
    *o = (Options){.cpu = "native", .gpu = "sm_90a", .math = MATH_DEFAULT, .convert = F32};
}

/* What a row's function gets. */
typedef struct Setting {
    Ctx *ctx;
    Options *o;
    const char *name, *value;
} Setting;

static _Noreturn void bad(const Setting *s, const char *want) {
    fail(s->ctx, E_OPTION, "option \"%s\" does not take \"%s\"; give %s", s->name, s->value, want);
}

/* Index of the value among the words, which `want` lists for people. */
static int one_of(const Setting *s, const char *const *words, int n, const char *want) {
    for (int i = 0; i < n; i++)
        if (strcmp(s->value, words[i]) == 0) return i;
    bad(s, want);
}

static bool truth(const Setting *s) {
    static const char *const words[] = {"0", "1", "no", "yes", "off", "on", "false", "true"};
    return one_of(s, words, 8, "yes or no") & 1;
}

static bool number(const char *text, const char *end, int64_t *out) {
    char *stop;
    if (*text < '0' || *text > '9') return false;
    *out = strtoll(text, &stop, 10);
    return stop == end && *out < INT64_MAX;
}

/* ---- rows ------------------------------------------------------------------------------------ */

static void set_target(const Setting *s) {
    static const char *const words[] = {"c", "cuda"};
    s->o->target = (Target)one_of(s, words, 2, "c or cuda");
}

/* The next of names with commas between; NULL behind the last. An empty text is one empty name, as
 * is what stands behind a comma at the end. */
static const char *next_name(const Setting *s, const char **at) {
    if (!*at) return NULL;
    size_t n = strcspn(*at, ",");
    const char *name = intern_n(s->ctx, *at, n);
    *at = (*at)[n] ? *at + n + 1 : NULL;
    return name;
}

/* From the least to the best, for which is planned first. */
static void set_cpu(const Setting *s) {
    int vector_bytes = 0;
    const char *system = NULL;
    s->o->cpus.n = 0;
    for (const char *at = s->value, *name; (name = next_name(s, &at));) {
        Machine machine;
        target_c_machine(s->ctx, &machine, name);
        const char *why = NULL;
        if (machine.vector_bytes < vector_bytes)
            why = "has less than the one before it: last the best";
        if (s->o->cpus.n && target_c_triple(&machine) != system) why = "is of another kind";
        for (int i = 0; i < s->o->cpus.n; i++)
            if (s->o->cpus.at[i] == name) why = "is given twice";
        if (why) fail(s->ctx, E_OPTION, "CPU \"%s\" %s", name, why);
        system = target_c_triple(&machine);
        vector_bytes = machine.vector_bytes;
        vec_push(ctx_arena(s->ctx), &s->o->cpus, name);
    }
    s->o->cpu = s->o->cpus.at[s->o->cpus.n - 1];
}

/* The first is planned for. */
static void set_gpu(const Setting *s) {
    s->o->gpus.n = 0;
    for (const char *at = s->value, *name; (name = next_name(s, &at));) {
        Machine machine;
        target_cuda_machine(s->ctx, &machine, name, &name, 1);
        vec_push(ctx_arena(s->ctx), &s->o->gpus, name);
    }
    s->o->gpu = s->o->gpus.at[0];
}

static void set_gpu_libraries(const Setting *s) {
    s->o->gpu_libraries.n = 0;
    for (const char *at = s->value, *name; (name = next_name(s, &at));) {
        Machine machine = {0};
        target_cuda_allow(s->ctx, &machine, name);
        vec_push(ctx_arena(s->ctx), &s->o->gpu_libraries, name);
    }
}

static void set_gpu_copies(const Setting *s) {
    static const char *const words[] = {"auto", "threads", "engine"};
    s->o->engine = (CopyEngine)one_of(s, words, 3, "auto, threads or engine");
}

static void set_math(const Setting *s) {
    static const char *const words[] = {"strict", "default", "fast"};
    s->o->math = (MathMode)one_of(s, words, 3, "strict, default or fast");
}

static void set_convert(const Setting *s) {
    static const char *const words[] = {"no", "f16", "bf16"};
    static const DType types[] = {F32, F16, BF16};
    s->o->convert = types[one_of(s, words, 3, "f16, bf16 or no")];
}

static void set_weights(const Setting *s) {
    static const char *const words[] = {"embed", "file"};
    s->o->weights_file = one_of(s, words, 2, "embed or file") == 1;
}

static void set_packing(const Setting *s) {
    static const char *const words[] = {"build", "create", "swap"};
    s->o->packing = (Packing)one_of(s, words, 3, "build, create or swap");
}

static void set_dim(const Setting *s) {
    const char *value = s->value, *eq = strrchr(value, '='), *end = value + strlen(value);
    const char *dots = eq ? strstr(eq, "..") : NULL;
    DimOverride d = {.hi = INT64_MAX};
    bool fine = eq && eq > value && number(eq + 1, dots ? dots : end, &d.lo);
    if (fine && !dots) d.hi = d.lo;
    if (fine && dots && dots[2]) fine = number(dots + 2, end, &d.hi);
    if (!fine || d.hi < d.lo) bad(s, "NAME=SIZE or NAME=LOW..HIGH");
    d.name = intern_n(s->ctx, value, (size_t)(eq - value));
    for (int i = 0; i < s->o->dim.n; i++) {
        if (s->o->dim.at[i].name != d.name) continue;
        s->o->dim.at[i] = d;
        return;
    }
    vec_push(ctx_arena(s->ctx), &s->o->dim, d);
}

static void set_feed(const Setting *s) {
    vec_push(ctx_arena(s->ctx), &s->o->feed, intern(s->ctx, s->value));
}

static void set_name(const Setting *s) {
    if (!*s->value) bad(s, "a name");
    s->o->name = intern(s->ctx, s->value);
}

static void set_emit(const Setting *s) {
    static const char *const words[] = {"library", "c", "header", "cu"};
    s->o->emit = (EmitKind)one_of(s, words, 4, "c, header or cu");
}

static void set_emit_dir(const Setting *s) {
    s->o->emit_dir = intern(s->ctx, s->value);
}

static const Pass *a_pass(const Setting *s) {
    int n;
    const Pass *pass = pass_list(&n);
    Text names = {.arena = ctx_arena(s->ctx)};
    for (int i = 0; i < n; i++) {
        if (strcmp(pass[i].name, s->value) == 0) return &pass[i];
        text_printf(&names, "%s%s", i ? ", " : "", pass[i].name);
    }
    bad(s, arena_printf(names.arena, "a pass: %s", text_str(&names)));
}

static void set_print_after(const Setting *s) {
    s->o->print_after = strcmp(s->value, "all") == 0 ? "all" : a_pass(s)->name;
}

static void set_stop_after(const Setting *s) {
    s->o->stop_after = a_pass(s)->name;
}

static void set_skip(const Setting *s) {
    const Pass *pass = a_pass(s);
    if (!pass->optional)
        fail(s->ctx, E_OPTION, "pass \"%s\" cannot be skipped: the ones behind it need it",
             pass->name);
    vec_push(ctx_arena(s->ctx), &s->o->skip, pass->name);
}

static void set_recipe(const Setting *s) {
    s->o->recipe = intern(s->ctx, s->value);
}

static void set_save_recipe(const Setting *s) {
    s->o->save_recipe = intern(s->ctx, s->value);
}

static void set_plugin(const Setting *s) {
    options_add_plugin(s->ctx, s->o, s->value);
}

static void set_jobs(const Setting *s) {
    int64_t n;
    if (!number(s->value, s->value + strlen(s->value), &n) || n > 1024)
        bad(s, "a number of threads up to 1024");
    s->o->jobs = (int)n;
}

static void set_verify(const Setting *s) {
    s->o->verify_each = truth(s);
}

static void set_time(const Setting *s) {
    s->o->time_passes = truth(s);
}

static void set_profile(const Setting *s) {
    s->o->profile = truth(s);
}

static void set_checked(const Setting *s) {
    s->o->checked = truth(s);
}

static void set_operators(const Setting *s) {
    Arena *arena = ctx_arena(s->ctx);
    FILE *file = fopen(s->value, "r");
    if (!file) fail(s->ctx, E_FILE, "cannot read \"%s\": %s", s->value, strerror(errno));
    Text text = {.arena = arena};
    char part[4096];
    for (size_t n; (n = fread(part, 1, sizeof part, file)) > 0;) text_put_n(&text, part, n);
    bool bad_read = ferror(file) != 0;
    fclose(file);
    if (bad_read) fail(s->ctx, E_FILE, "cannot read \"%s\"", s->value);
    options_add_operators(s->ctx, s->o, text_str(&text));
}

static void set_link(const Setting *s) {
    vec_push(ctx_arena(s->ctx), &s->o->link, intern(s->ctx, s->value));
}

static void set_max_time(const Setting *s) {
    char *end;
    double seconds = strtod(s->value, &end);
    if (end == s->value || *end || !(seconds > 0 && seconds < 1e9)) bad(s, "a number of seconds");
    s->o->max_time = seconds;
}

static void set_max_memory(const Setting *s) {
    static const char units[] = "KMGT";
    const char *end = s->value + strlen(s->value), *unit = NULL;
    if (end > s->value) unit = strchr(units, end[-1]);
    int64_t n;
    int shift = unit ? 10 * (int)(unit - units + 1) : 0;
    if (!number(s->value, unit ? end - 1 : end, &n) || n < 1 || n > INT64_MAX >> shift)
        bad(s, "a number of bytes, or one with K, M, G or T (of 1024)");
    s->o->max_memory = (size_t)n << shift;
}

static void set_external_data(const Setting *s) {
    static const char *const words[] = {"folder", "anywhere"};
    s->o->data_anywhere = one_of(s, words, 2, "folder or anywhere") == 1;
}

static void set_cache(const Setting *s) {
    s->o->no_cache = !truth(s);
}

/* ---- the table ------------------------------------------------------------------------------- */

static const struct Row {
    const char *name;
    void (*set)(const Setting *s);
    bool is_switch; /* no value means yes */
} rows[] = {
    {"target", set_target, false},
    {"cpu", set_cpu, false},
    {"gpu", set_gpu, false},
    {"gpu-libraries", set_gpu_libraries, false},
    {"gpu-copies", set_gpu_copies, false},
    {"dim", set_dim, false},
    {"feed", set_feed, false},
    {"math", set_math, false},
    {"convert", set_convert, false},
    {"weights", set_weights, false},
    {"packing", set_packing, false},
    {"name", set_name, false},
    {"emit", set_emit, false},
    {"emit-dir", set_emit_dir, false},
    {"print-after", set_print_after, false},
    {"stop-after", set_stop_after, false},
    {"skip", set_skip, false},
    {"recipe", set_recipe, false},
    {"save-recipe", set_save_recipe, false},
    {"pass-plugin", set_plugin, false},
    {"verify-each", set_verify, true},
    {"time-passes", set_time, true},
    {"cache", set_cache, true},
    {"profile", set_profile, true},
    {"checked", set_checked, true},
    {"operators", set_operators, false},
    {"link", set_link, false},
    {"external-data", set_external_data, false},
    {"max-time", set_max_time, false},
    {"max-memory", set_max_memory, false},
    {"j", set_jobs, false},
};
enum { NROWS = sizeof rows / sizeof *rows };

/* How many letters must change, be added or dropped to make b of a. */
static int distance(const char *a, const char *b) {
    enum { MOST = 32 };
    int n = (int)strlen(b), row[MOST + 1];
    if (n > MOST) return MOST;
    for (int j = 0; j <= n; j++) row[j] = j;
    for (int i = 1; a[i - 1]; i++) {
        int corner = row[0];
        row[0] = i;
        for (int j = 1; j <= n; j++) {
            int change = corner + (a[i - 1] != b[j - 1]),
                least = row[j] < row[j - 1] ? row[j] : row[j - 1];
            corner = row[j];
            row[j] = change < least + 1 ? change : least + 1;
        }
    }
    return row[n];
}

static _Noreturn void unknown(Ctx *ctx, const char *name) {
    Text all = {.arena = ctx_arena(ctx)};
    int nearest = 0, least = INT32_MAX;
    for (int i = 0; i < NROWS; i++) {
        int d = distance(name, rows[i].name);
        if (d < least) {
            least = d;
            nearest = i;
        }
        text_printf(&all, "%s%s", i ? ", " : "", rows[i].name);
    }
    if (least <= 2 || (size_t)least * 2 < strlen(name))
        fail(ctx, E_OPTION, "there is no option \"%s\"; did you mean \"%s\"?", name,
             rows[nearest].name);
    fail(ctx, E_OPTION, "there is no option \"%s\"; there are %s", name, text_str(&all));
}

int options_kind(const char *name) {
    for (int i = 0; i < NROWS; i++)
        if (strcmp(rows[i].name, name) == 0) return rows[i].is_switch ? 2 : 1;
    return 0;
}

void options_set(Ctx *ctx, Options *o, const char *name, const char *value) {
    for (int i = 0; i < NROWS; i++) {
        if (strcmp(rows[i].name, name) != 0) continue;
        if (!value && !rows[i].is_switch) fail(ctx, E_OPTION, "option \"%s\" needs a value", name);
        rows[i].set(&(Setting){ctx, o, name, value ? value : "yes"});
        return;
    }
    unknown(ctx, name);
}
