/* SPDX-License-Identifier: Apache-2.0 */
/* Recipes as text, and what passes ask of them:
 *
 *     only cpu "x86-64-v4"                  # refused elsewhere; also `only weir "0.1.0"`
 *     skip online                           # a pass is left out
 *     algorithm "conv1" tiles4              # PASS NAME CHOICE
 *     layout "conv1_out" blocked
 *     fuse "relu1" inline
 *     kernel k0 = mm relu on cpu {          # these maps share a kernel that runs by these lines
 *       tile i:96 j:48
 *     }
 *     kernel k1 = add                       # without braces: its lines are chosen
 *
 * Names are those of maps and containers, which come from the model's nodes and stay when it is
 * imported again. */
#include "passes/recipe.h"

#include <string.h>

#include "ir/flow_text.h"

void recipe_refuse(const Recipe *recipe, int line, const char *fmt, ...) {
    va_list args;
    va_start(args, fmt);
    const char *why = arena_vprintf(ctx_arena(recipe->ctx), fmt, args);
    va_end(args);
    recipe->ctx->where = (Where){.file = recipe->file, .line = line};
    fail(recipe->ctx, E_RECIPE, "%s", why);
}

/* ---- parsing --------------------------------------------------------------------------------- */

static const Pass *pass_named(const char *name) {
    int n;
    const Pass *list = pass_list(&n);
    for (int i = 0; i < n; i++)
        if (!strcmp(list[i].name, name)) return &list[i];
    return NULL;
}

/* The maps of a kernel stand on its line. */
static void scan_kernel_text(Recipe *r, Lex *lex) {
    Arena *arena = lex->arena;
    RecipeKernel k = {.line = lex->t.line};
    lex_name(lex, "a kernel's name");
    lex_expect(lex, "=");
    while (lex->t.line == k.line && lex_name_next(lex) && !lex_is(lex, "on"))
        vec_push(arena, &k.map, lex_name(lex, "a map"));
    if (!k.map.n) lex_fail(lex, "expected the maps of the kernel");
    if (lex->t.line == k.line && lex_take(lex, "on")) lex_name(lex, "where it runs");
    k.has_lines = lex->t.line == k.line && lex_is(lex, "{");
    k.lines = *lex;
    if (k.has_lines) {
        while (!lex_is(lex, "}") && lex->t.kind != TOK_END) lex_next(lex);
        lex_expect(lex, "}");
    }
    vec_push(arena, &r->kernel, k);
}

static void scan_only(Recipe *r, Lex *lex) {
    if (lex_take(lex, "cpu"))
        r->cpu = lex_name(lex, "a CPU");
    else if (lex_take(lex, "weir"))
        r->version = lex_name(lex, "a version, quoted");
    else
        lex_fail(lex, "expected \"cpu\" or \"weir\"");
}

static void scan_skip(Recipe *r, Lex *lex) {
    int line = lex->t.line;
    const char *name = lex_name(lex, "a pass");
    const Pass *pass = pass_named(name);
    if (!pass) recipe_refuse(r, line, "there is no pass \"%s\"", name);
    if (!pass->optional)
        recipe_refuse(r, line, "pass \"%s\" cannot be skipped: the ones after it need it", name);
    vec_push(lex->arena, &r->skip, (Skip){pass->name, line});
}

static void scan_decision(Recipe *r, Lex *lex) {
    Decision d = {.line = lex->t.line};
    d.pass = lex_name(lex, "a pass, \"kernel\", \"skip\" or \"only\"");
    if (!pass_named(d.pass))
        recipe_refuse(r, d.line, "\"%s\" is no pass, nor \"kernel\", \"skip\" or \"only\"", d.pass);
    d.name = lex_name(lex, "the name of a map or container");
    if (lex->t.line != d.line)
        recipe_refuse(r, d.line, "\"%s %s\" lacks its choice, on the same line", d.pass, d.name);
    d.choice = lex_name(lex, "a choice");
    for (int i = 0; i < r->decision.n; i++)
        if (r->decision.at[i].pass == d.pass && r->decision.at[i].name == d.name)
            recipe_refuse(r, d.line, "\"%s %s\" stands on line %d already", d.pass, d.name,
                          r->decision.at[i].line);
    vec_push(lex->arena, &r->decision, d);
}

Recipe *recipe_parse(Arena *arena, const char *file, const char *text) {
    Ctx *ctx = arena_ctx(arena);
    Where where = ctx->where;
    Recipe *r = NEW(arena, Recipe);
    *r = (Recipe){.ctx = ctx, .file = intern(ctx, file)};
    ctx->where = (Where){.file = r->file};
    Lex lex;
    lex_init(&lex, arena, text);
    while (lex.t.kind != TOK_END) {
        if (lex_take(&lex, "kernel"))
            scan_kernel_text(r, &lex);
        else if (lex_take(&lex, "skip"))
            scan_skip(r, &lex);
        else if (lex_take(&lex, "only"))
            scan_only(r, &lex);
        else
            scan_decision(r, &lex);
    }
    ctx->where = where;
    return r;
}

/* ---- decisions ------------------------------------------------------------------------------- */

Decision *recipe_find(const PassEnv *env, const char *pass, const char *name) {
    Recipe *r = env->recipe;
    for (int i = 0; r && i < r->decision.n; i++) {
        Decision *d = &r->decision.at[i];
        if (strcmp(d->name, name) || strcmp(d->pass, pass)) continue;
        d->asked = true;
        return d;
    }
    return NULL;
}

static void note_line(Text *out, const char *pass, const char *name, const char *choice) {
    text_printf(out, "%s ", pass);
    text_name(out, name);
    text_printf(out, " %s\n", choice);
}

void recipe_note(const PassEnv *env, const char *pass, const char *name, const char *choice) {
    if (env->notes) note_line(&env->notes->text, pass, name, choice);
}

int recipe_decide(const PassEnv *env, const char *pass, const char *name, const char *const *words,
                  int chosen) {
    const Decision *d = recipe_find(env, pass, name);
    if (d) {
        Text all = {.arena = ctx_arena(env->recipe->ctx)};
        for (chosen = 0; words[chosen] && strcmp(words[chosen], d->choice); chosen++)
            text_printf(&all, "%s%s", chosen ? ", " : "", words[chosen]);
        if (!words[chosen])
            recipe_refuse(env->recipe, d->line, "pass \"%s\" cannot choose \"%s\"; it chooses %s",
                          pass, d->choice, text_str(&all));
    }
    recipe_note(env, pass, name, words[chosen]);
    return chosen;
}

static bool named(const Flow *flow, const char *name) {
    for (int i = 0; flow && i < flow->map.n; i++)
        if (!strcmp(flow->map.at[i]->name, name)) return true;
    for (int i = 0; flow && i < flow->cont.n; i++)
        if (!strcmp(flow->cont.at[i].name, name)) return true;
    return false;
}

void recipe_all_asked(const PassEnv *env, const char *pass, const Flow *flow) {
    Recipe *r = env->recipe;
    for (int i = 0; r && i < r->decision.n; i++) {
        const Decision *d = &r->decision.at[i];
        if (d->asked || strcmp(d->pass, pass)) continue;
        if (!named(flow, d->name))
            recipe_refuse(r, d->line, "pass \"%s\" sees no map or container \"%s\"", pass, d->name);
        recipe_refuse(r, d->line, "pass \"%s\" has nothing to choose for \"%s\"", pass, d->name);
    }
    if (strcmp(pass, "schedule")) return;
    for (int i = 0; r && i < r->kernel.n; i++) {
        const RecipeKernel *k = &r->kernel.at[i];
        for (int m = 0; !k->used && m < k->map.n; m++)
            if (!named(flow, k->map.at[m]))
                recipe_refuse(r, k->line, "there is no map \"%s\"", k->map.at[m]);
        if (!k->used) recipe_refuse(r, k->line, "no kernel has just these maps");
    }
}

/* ---- kernels --------------------------------------------------------------------------------- */

/* Of a kernel for ranges its maps alone: lines are chosen for each range. */
void recipe_note_kernels(const PassEnv *env, const Flow *flow) {
    if (!env->notes) return;
    Printer p = {.out = &env->notes->text};
    for (int k = 0; k < flow->kernel.n; k++) {
        const Kernel *kernel = flow->kernel.at[k];
        if (kernel->when.n) continue;
        if (k && flow->kernel.at[k - 1]->name == kernel->name) {
            print_kernel_maps(p.out, flow, kernel);
            text_put(p.out, "\n");
        } else {
            print_kernel(&p, flow, kernel);
        }
    }
}

RecipeKernel *recipe_kernel(const PassEnv *env, const Flow *flow, const Kernel *kernel) {
    Recipe *r = env->recipe;
    for (int i = 0; r && i < r->kernel.n; i++) {
        RecipeKernel *k = &r->kernel.at[i];
        bool same = k->map.n == kernel->map.n;
        for (int m = 0; same && m < k->map.n; m++)
            same = !strcmp(k->map.at[m], flow->map.at[kernel->map.at[m]]->name);
        if (!same) continue;
        if (k->used) recipe_refuse(r, k->line, "the same maps are a kernel before this");
        k->used = true;
        return k;
    }
    return NULL;
}

void recipe_lines(const PassEnv *env, Flow *flow, Kernel *kernel, RecipeKernel *from) {
    Ctx *ctx = flow->ctx;
    Where where = ctx->where;
    ctx->where = (Where){.file = env->recipe->file, .line = from->line};
    flow_parse_lines(flow, kernel, &from->lines);
    kernel->source = from->line;
    flow_verify_lines(flow, kernel);
    ctx->where = where;
}

void recipe_verify_nests(const PassEnv *env, const Program *program) {
    for (int k = 0; env->recipe && k < program->nest.n; k++) {
        int line = program->flow->kernel.at[k]->source;
        if (!line) continue;
        Ctx *ctx = env->recipe->ctx;
        Where where = ctx->where;
        ctx->where = (Where){.file = env->recipe->file, .line = line};
        nest_verify(program->nest.at[k]);
        ctx->where = where;
    }
}
