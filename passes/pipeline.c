/* SPDX-License-Identifier: Apache-2.0 */
/* The one loop: skip, time, verify, watch, stop; an arena for each pass's result. */
#include "recipe.h"

#include <string.h>
#include <time.h>

#define FN_graph(f) Graph *f(Arena *arena, const Graph *g, const PassEnv *env);
#define FN_lower(f) Flow *f(Arena *arena, const Graph *g, const PassEnv *env);
#define FN_flow(f) Flow *f(Arena *arena, const Flow *flow, const PassEnv *env);
#define FN_nests(f) Program *f(Arena *arena, const Flow *flow, const PassEnv *env);
#define FN_nest(f) Program *f(Arena *arena, const Program *p, const PassEnv *env);
#define PASS(function, name, level, field, effect, optional, what) FN_##field(function)
#include "passes.def"
#undef PASS

static const Pass passes[] = {
#define PASS(function, name_, level_, field, effect_, optional_, what_)                            \
    {.name = name_,                                                                                \
     .level = level_,                                                                              \
     .effect = effect_,                                                                            \
     .optional = optional_,                                                                        \
     .what = what_,                                                                                \
     .field = function},
#include "passes.def"
#undef PASS
};

const Pass *pass_list(int *count) {
    *count = (int)(sizeof passes / sizeof *passes);
    return passes;
}

bool pass_keeps_bits(const Pass *pass, const Machine *machine, MathMode math) {
    bool shorter = pass->nest && machine->native[P_EXP2] && math != MATH_STRICT;
    return pass->effect == PASS_EXACT && !shorter;
}

static Level stage_level(const Stage *s) {
    return s->graph ? LEVEL_GRAPH : s->flow ? LEVEL_FLOW : LEVEL_NEST;
}

void stage_verify(const Stage *s) {
    if (s->graph) graph_verify(s->graph);
    if (s->flow) flow_verify(s->flow);
    for (int i = 0; s->program && i < s->program->nest.n; i++) nest_verify(s->program->nest.at[i]);
}

static bool is_after(const Pass *pass, Flow *(*fn)(Arena *, const Flow *, const PassEnv *)) {
    for (const Pass *p = passes; p < pass; p++)
        if (p->flow == fn) return true;
    return false;
}

/* What follows `prepare` is done to the constant part too, for the baseline. */
static void run_on_part(const Pass *pass, Arena *arena, const Stage *in, const PassEnv *env,
                        Stage *out) {
    const Flow *part = in->flow ? in->flow->prepare : NULL;
    PassEnv base = *env;
    base.machine = env->baseline;
    base.recipe = NULL;
    base.notes = NULL;
    if (part && pass->flow) ((Flow *)out->flow)->prepare = pass->flow(arena, part, &base);
    if (part && pass->nests) ((Program *)out->program)->prepare = pass->nests(arena, part, &base);
    const Program *program = in->program ? in->program->prepare : NULL;
    if (program) ((Program *)out->program)->prepare = pass->nest(arena, program, &base);
}

static Stage run_pass(const Pass *pass, Arena *arena, const Stage *in, const PassEnv *env) {
    Stage out = {0};
    if (pass->graph) out.graph = pass->graph(arena, in->graph, env);
    if (pass->lower) out.flow = pass->lower(arena, in->graph, env);
    if (pass->flow) out.flow = pass->flow(arena, in->flow, env);
    if (pass->nests) out.program = pass->nests(arena, in->flow, env);
    if (pass->nest) out.program = pass->nest(arena, in->program, env);
    return out;
}

/* ---- options -------------------------------------------------------------------------------- */

static const Pass *find_pass(Ctx *ctx, const char *name) {
    int n;
    const Pass *list = pass_list(&n);
    Text names = {ctx_arena(ctx), NULL, 0, 0};
    for (int i = 0; i < n; i++) {
        if (!strcmp(list[i].name, name)) return &list[i];
        text_printf(&names, "%s%s", i ? ", " : "", list[i].name);
    }
    fail(ctx, E_OPTION, "there is no pass \"%s\": the passes are %s", name, text_str(&names));
}

static bool is_skipped(const Pass *pass, const PassOptions *o) {
    for (int i = 0; i < o->nskip; i++)
        if (!strcmp(o->skip[i], pass->name)) return true;
    return false;
}

static void check_options(Ctx *ctx, const PassOptions *o) {
    for (int i = 0; i < o->nskip; i++)
        if (!find_pass(ctx, o->skip[i])->optional)
            fail(ctx, E_OPTION, "pass \"%s\" cannot be skipped: the ones after it need it",
                 o->skip[i]);
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* A flow that comes with kernels (a text) has its schedule: what follows goes on from there. */
static int first_pass(const Pass *list, int n, const Stage *start) {
    for (int i = 0; i < n && start->flow && start->flow->kernel.n; i++)
        if (!strcmp(list[i].name, "schedule")) return i + 1;
    return 0;
}

static void rewrite(const Pass *pass, Arena *arena, const PassOptions *o, Stage *stage) {
    if (o->rewrite && stage->flow) stage->flow = o->rewrite(o->user, arena, pass, stage->flow);
}

void machine_allow(Machine *m, MathMode math) {
    int n = 0;
    for (int i = 0; i < m->nuse; i++)
        if (math == MATH_FAST || !m->use[i]->backward) m->use[n++] = m->use[i];
    m->nuse = n;
    n = 0;
    for (int i = 0; i < m->nstep; i++) {
        if (math != MATH_FAST && (m->step[i]->round || m->step[i]->coarse)) continue;
        m->step_flops[n] = m->step_flops[i];
        m->step[n++] = m->step[i];
    }
    m->nstep = n;
}

/* Graph and flow passes copy all they keep. Programs share what does not change. */
Stage passes_run(Ctx *ctx, Stage start, const PassEnv *given, const PassOptions *options) {
    Machine machine = {0};
    PassEnv allowed = *given, *env = &allowed;
    if (given->machine) machine = *given->machine, allowed.machine = &machine;
    machine_allow(&machine, env->math);
    static const PassOptions none = {0};
    const PassOptions *o = options ? options : &none;
    Arena *owned = NULL;
    Stage stage = start;
    int n;
    const Pass *list = pass_list(&n);
    check_options(ctx, o);
    const Pass *last = o->stop_after ? find_pass(ctx, o->stop_after) : &list[n - 1];
    const Pass *first = &list[first_pass(list, n, &start)];
    if (first > list && env->recipe && env->recipe->kernel.n)
        recipe_refuse(env->recipe, env->recipe->kernel.at[0].line,
                      "the model is a text that has its kernels already: edit these");
    if (o->verify_each) stage_verify(&stage);
    const Pass *ran = o->after ? find_pass(ctx, o->after) : NULL;
    if (ran && first <= ran) first = ran + 1;
    if (o->watch && !ran) o->watch(o->user, NULL, &stage, 0);
    for (const Pass *pass = first; pass <= last; pass++) {
        double began = now();
        if (pass->level < stage_level(&stage) || is_skipped(pass, o)) {
            if (!owned) owned = arena_new(ctx);
            rewrite(pass, owned, o, &stage);
            continue;
        }
        Arena *arena = arena_new(ctx);
        if (o->begin) o->begin(o->user, pass);
        Stage before = stage;
        stage = run_pass(pass, arena, &before, env);
        recipe_all_asked(env, pass->name, before.flow);
        if (pass->nests) recipe_verify_nests(env, stage.program);
        if (is_after(pass, pass_prepare)) run_on_part(pass, arena, &before, env, &stage);
        rewrite(pass, arena, o, &stage);
        if (owned && pass->level != LEVEL_NEST) arena_free(owned);
        owned = arena;
        if (o->verify_each) stage_verify(&stage);
        if (o->watch) o->watch(o->user, pass, &stage, now() - began);
    }
    return stage;
}
