/* SPDX-License-Identifier: Apache-2.0 */
/* Options by name: one row each. */
#include <stdlib.h>
#include <string.h>

#include "compiler/driver.h"

void options_default(Options *o) {
    *o = (Options){.cpu = "native", .math = MATH_DEFAULT, .cache = true, .jobs = 2};
}

static void bad(Ctx *ctx, const char *name, const char *value, const char *want) {
    fail(ctx, E_OPTION, "option \"%s\" does not take \"%s\"; give %s", name, value, want);
}

static void set_cpu(Ctx *ctx, Options *o, const char *name, const char *value) {
    (void)name;
    o->cpu = intern(ctx, value);
}

static void set_target(Ctx *ctx, Options *o, const char *name, const char *value) {
    (void)o;
    if (strcmp(value, "c")) bad(ctx, name, value, "c");
}

static void set_math(Ctx *ctx, Options *o, const char *name, const char *value) {
    static const char *const modes[] = {"strict", "default", "fast"};
    for (int i = 0; i < 3; i++)
        if (!strcmp(value, modes[i])) {
            o->math = (MathMode)i;
            return;
        }
    bad(ctx, name, value, "strict, default or fast");
}

static void set_weights(Ctx *ctx, Options *o, const char *name, const char *value) {
    if (strcmp(value, "embed") && strcmp(value, "file")) bad(ctx, name, value, "embed or file");
    o->weights_file = value[0] == 'f';
}

static void set_packing(Ctx *ctx, Options *o, const char *name, const char *value) {
    (void)o;
    if (strcmp(value, "build")) bad(ctx, name, value, "build (create and swap are not implemented yet)");
}

static bool number(const char *text, const char *end, int64_t *out) {
    char *stop;
    *out = strtoll(text, &stop, 10);
    return stop == end && stop != text && *out >= 0;
}

static void set_dim(Ctx *ctx, Options *o, const char *name, const char *value) {
    const char *eq = strchr(value, '='), *dots = eq ? strstr(eq, "..") : NULL, *end = value + strlen(value);
    DimOverride d = {.hi = INT64_MAX};
    bool ok = eq && eq > value && number(eq + 1, dots ? dots : end, &d.lo);
    if (ok && !dots) d.hi = d.lo;
    if (ok && dots && dots[2]) ok = number(dots + 2, end, &d.hi);
    if (!ok || d.hi < d.lo) bad(ctx, name, value, "NAME=V or NAME=LO..HI");
    d.name = intern_n(ctx, value, (size_t)(eq - value));
    vec_push(ctx_arena(ctx), &o->dim, d);
}

static void set_emit(Ctx *ctx, Options *o, const char *name, const char *value) {
    if (strcmp(value, "c") && strcmp(value, "header")) bad(ctx, name, value, "c or header");
    o->emit = intern(ctx, value);
}

static void set_emit_dir(Ctx *ctx, Options *o, const char *name, const char *value) {
    (void)name;
    o->emit_dir = intern(ctx, value);
}

static bool is_pass(const char *value) {
    int n;
    const Pass *pass = pass_list(&n);
    for (int i = 0; i < n; i++)
        if (!strcmp(pass[i].name, value)) return true;
    return false;
}

static const char *a_pass(Ctx *ctx, const char *name, const char *value) {
    if (!is_pass(value)) bad(ctx, name, value, "the name of a pass (see passes/passes.def)");
    return intern(ctx, value);
}

static void set_print_after(Ctx *ctx, Options *o, const char *name, const char *value) {
    o->print_after = strcmp(value, "all") ? a_pass(ctx, name, value) : "all";
}

static void set_stop_after(Ctx *ctx, Options *o, const char *name, const char *value) {
    o->stop_after = a_pass(ctx, name, value);
}

static void set_skip(Ctx *ctx, Options *o, const char *name, const char *value) {
    vec_push(ctx_arena(ctx), &o->skip, a_pass(ctx, name, value));
}

static void set_jobs(Ctx *ctx, Options *o, const char *name, const char *value) {
    int64_t n;
    if (!number(value, value + strlen(value), &n) || n < 1 || n > 1024) bad(ctx, name, value, "a number from 1 to 1024");
    o->jobs = (int)n;
}

static bool truth(Ctx *ctx, const char *name, const char *value) {
    if (strcmp(value, "0") && strcmp(value, "1")) bad(ctx, name, value, "0 or 1");
    return value[0] == '1';
}

static void set_verify(Ctx *ctx, Options *o, const char *name, const char *value) {
    o->verify_each = truth(ctx, name, value);
}

static void set_time(Ctx *ctx, Options *o, const char *name, const char *value) {
    o->time_passes = truth(ctx, name, value);
}

static void set_cache(Ctx *ctx, Options *o, const char *name, const char *value) {
    o->cache = truth(ctx, name, value);
}

static const struct {
    const char *name;
    void (*set)(Ctx *ctx, Options *o, const char *name, const char *value);
} rows[] = {
    {"target", set_target}, {"cpu", set_cpu}, {"math", set_math}, {"weights", set_weights}, {"packing", set_packing},
    {"dim", set_dim}, {"emit", set_emit}, {"emit-dir", set_emit_dir}, {"print-after", set_print_after},
    {"stop-after", set_stop_after}, {"skip", set_skip}, {"j", set_jobs}, {"verify-each", set_verify},
    {"time-passes", set_time}, {"cache", set_cache},
};

void options_set(Ctx *ctx, Options *o, const char *name, const char *value) {
    Text known = {.arena = ctx_arena(ctx)};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (!strcmp(rows[i].name, name)) {
            rows[i].set(ctx, o, name, value);
            return;
        }
        text_printf(&known, "%s%s", i ? ", " : "", rows[i].name);
    }
    fail(ctx, E_OPTION, "there is no option \"%s\"; there are %s", name, text_str(&known));
}
