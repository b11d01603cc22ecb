/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels that a recipe asks for: is what they join legal?
 *
 * A kernel runs where its last map stands. The others move down to it, so nobody in between may
 * read what they make; and who reads it inside does so on boxes that its indices give. What is
 * worth joining is not asked; whether tiles compute all that is needed, schedule_check.c asks. */
#include <string.h>

#include "passes/fuse.h"

typedef struct Asked {
    Fusing *f;
    const Recipe *recipe;
    const RecipeKernel *kernel;
    int map[KERNEL_MAPS], n;
} Asked;

static const char *map_name(const Asked *a, int map) {
    return a->f->flow->map.at[map]->name;
}

static const char *cont_name(const Asked *a, int cont) {
    return a->f->flow->cont.at[cont].name;
}

#define REFUSE(a, ...) recipe_refuse((a)->recipe, (a)->kernel->line, __VA_ARGS__)

static int find_map(const Flow *flow, const char *name) {
    for (int m = 0; m < flow->map.n; m++)
        if (!strcmp(flow->map.at[m]->name, name)) return m;
    return -1;
}

static bool holds(const Asked *a, int map) {
    for (int i = 0; i < a->n; i++)
        if (a->map[i] == map) return true;
    return false;
}

/* The maps by name: there, not in another kernel, of one list of the program, in its order. */
static void find_maps(Asked *a) {
    Fusing *f = a->f;
    if (a->kernel->map.n > KERNEL_MAPS)
        REFUSE(a, "a kernel has at most %d maps, not %d", KERNEL_MAPS, a->kernel->map.n);
    for (int i = 0; i < a->kernel->map.n; i++) {
        const char *name = a->kernel->map.at[i];
        int m = find_map(f->flow, name);
        if (m < 0)
            REFUSE(a, "there is no map \"%s\" after pass \"fuse\" moved maps into others", name);
        if (holds(a, m)) REFUSE(a, "map \"%s\" stands twice", name);
        if (f->group[m].complete || f->group[m].gone)
            REFUSE(a, "map \"%s\" is in a kernel before this", name);
        if (i && f->home[m] != f->home[a->map[0]])
            REFUSE(a, "\"%s\" and \"%s\" stand in different loops or branches",
                   map_name(a, a->map[0]), name);
        if (i && f->position[m] < f->position[a->map[i - 1]])
            REFUSE(a, "\"%s\" runs before \"%s\": list the maps in the program's order", name,
                   map_name(a, a->map[i - 1]));
        a->map[a->n++] = m;
    }
}

static bool is_strip_kernel(const Asked *a) {
    StripMaps m;
    if (!strip_maps(a->f->flow, a->f->writer, a->f->readers, a->map[a->n - 1], &m)) return false;
    int left_out = m.n - a->n;
    return left_out >= 0 && left_out <= m.apart &&
           !memcmp(m.map + left_out, a->map, (size_t)a->n * sizeof *m.map);
}

/* What map r reads of cont, which map p makes, is a box that its indices give. */
static void check_box(const Asked *a, int p, int r, int cont) {
    const Map *m = a->f->flow->map.at[r];
    for (int v = 0; v < m->body.val.n; v++) {
        const Val *val = &m->body.val.at[v];
        if (val->kind != VAL_READ || val->read.cont != cont) continue;
        if (val->has_else && !continues_rows(a->f->flow->map.at[p], m, &val->read))
            REFUSE(a, "\"%s\" reads \"%s\" beyond its box, where \"%s\" makes nothing", m->name,
                   cont_name(a, cont), map_name(a, p));
        if (access_by_value(m, &val->read))
            REFUSE(a,
                   "\"%s\" reads \"%s\" at indices that depend on data, so \"%s\" must be done "
                   "before",
                   m->name, cont_name(a, cont), map_name(a, p));
    }
}

/* A map before the last: what it makes. */
static void check_producer(const Asked *a, int i) {
    const Map *m = a->f->flow->map.at[a->map[i]];
    if (!is_strip_kernel(a) && (m->write.n != 1 || !plain_writes(m)))
        REFUSE(a, "\"%s\" writes at more than plain indices: it can only be a kernel's last map",
               m->name);
    for (int w = 0; w < m->write.n; w++)
        for (int k = 0; k < m->write.at[w].n; k++)
            for (int q = i + 1; q < a->n; q++)
                check_box(a, a->map[i], a->map[q], m->write.at[w].to[k].cont);
}

static void check_dims(const Asked *a, int i) {
    const Map *m = a->f->flow->map.at[a->map[i]];
    for (int d = 0; d < m->dim.n; d++)
        if (m->dim.at[d].seq)
            REFUSE(a, "dim \"%s\" of \"%s\" runs in order: such a map is a kernel of its own",
                   dim_sym_name(m->dim.at[d].sym), m->name);
}

static void join_maps(const Asked *a) {
    Fusing *f = a->f;
    Group *into = &f->group[a->map[a->n - 1]];
    for (int i = a->n - 2; i >= 0; i--) {
        int cont, reader = sinking_past(f, &f->group[a->map[i]], into, &cont);
        if (reader != -2)
            REFUSE(a, "%s%s%s reads \"%s\" of \"%s\" before \"%s\" runs",
                   reader < 0 ? "a call or loop" : "\"", reader < 0 ? "" : map_name(a, reader),
                   reader < 0 ? "" : "\"", cont_name(a, cont), map_name(a, a->map[i]),
                   map_name(a, a->map[a->n - 1]));
        groups_join(f, &f->group[a->map[i]], into);
    }
    into->complete = true;
}

void groups_by_recipe(Fusing *f) {
    const Recipe *r = f->env->recipe;
    for (int i = 0; r && i < r->kernel.n; i++) {
        Asked a = {.f = f, .recipe = r, .kernel = &r->kernel.at[i]};
        find_maps(&a);
        for (int p = 0; p < a.n - 1; p++) check_producer(&a, p);
        for (int p = 0; a.n > 1 && p < a.n; p++) check_dims(&a, p);
        join_maps(&a);
    }
}
