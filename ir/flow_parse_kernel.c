/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels from text: `[MAP ...] word args`. A dim `d` belongs to the root, `m.d` to map m. */
#include "flow_parse.h"

#include <string.h>

typedef struct KernelScan {
    FlowScan *flow;
    Lex *lex;
    Kernel *kernel;
    int root, said; /* positions: the last map; the map named by the last `at` */
} KernelScan;

/* The position in the kernel of the map with this name; -1: none. */
static int map_position(const KernelScan *k, const char *name, size_t n) {
    for (int i = 0; i < k->kernel->map.n; i++) {
        const char *map = k->flow->flow->map.at[k->kernel->map.at[i]]->name;
        if (strlen(map) == n && !strncmp(map, name, n)) return i;
    }
    return -1;
}

/* `d` or `m.d`. All dims of a line belong to one map. */
static const char *scan_dim_name(KernelScan *k, Line *line) {
    const char *name = lex_name(k->lex, "a dim");
    const char *dot = strrchr(name, '.');
    int map = dot ? map_position(k, name, (size_t)(dot - name)) : -1;
    const char *dim = map < 0 ? name : intern(k->lex->ctx, dot + 1);
    if (line->kind == LINE_AT) return name;
    if (map < 0) map = k->root;
    if (line->narg && map != line->map) lex_fail(k->lex, "the dims of one line belong to one map");
    line->map = map;
    return dim;
}

static void push_arg(KernelScan *k, Line *line, LineArg *args, const char *dim) {
    if (line->narg == RANK_MAX * 2) lex_fail(k->lex, "too many dims on one line");
    args[line->narg++].dim = dim;
}

static bool word_next(const KernelScan *k) {
    for (int i = 0; line_words[i]; i++)
        if (lex_is(k->lex, line_words[i])) return true;
    return false;
}

/* Does the next name stand on the line of `line`, and is it a dim of its map that is not there yet?
 */
static bool dim_next(const KernelScan *k, const Line *line, const LineArg *args) {
    const Map *m = k->flow->flow->map.at[k->kernel->map.at[line->map]];
    bool is = false;
    for (int d = 0; d < m->dim.n; d++) is |= lex_is(k->lex, dim_sym_name(m->dim.at[d].sym));
    for (int i = 0; i < line->narg; i++) is &= !lex_is(k->lex, args[i].dim);
    return is && k->lex->t.line == line->source;
}

/* A map's name in front of a word: another line begins. */
static bool line_next(const KernelScan *k, const Line *line, const LineArg *args) {
    if (!lex_name_next(k->lex) || word_next(k)) return true;
    if (map_position(k, k->lex->t.text, strlen(k->lex->t.text)) < 0) return false;
    if (dim_next(k, line, args)) return false;
    KernelScan ahead = *k;
    Lex lex = *k->lex;
    ahead.lex = &lex;
    while (lex_name_next(&lex) && !word_next(&ahead)) lex_next(&lex);
    return lex_is(&lex, "at") || lex_is(&lex, "keep") || lex_is(&lex, "use") ||
           lex_is(&lex, "prefetch") || lex_is(&lex, "stage");
}

/* `i:96 j:48 mm.k` */
static void scan_args(KernelScan *k, Line *line, LineArg *args) {
    while (!line_next(k, line, args)) {
        push_arg(k, line, args, scan_dim_name(k, line));
        if (lex_take(k->lex, ":")) args[line->narg - 1].size = lex_int(k->lex, "a size");
    }
}

/* `(i, j)`; with `at` also `(i:96, j)` */
static void scan_list(KernelScan *k, Line *line, LineArg *args) {
    lex_expect(k->lex, "(");
    while (!lex_take(k->lex, ")")) {
        if (line->narg) lex_expect(k->lex, ",");
        push_arg(k, line, args, scan_dim_name(k, line));
        if (line->kind == LINE_AT && lex_take(k->lex, ":"))
            args[line->narg - 1].size = lex_int(k->lex, "a size");
    }
}

static int scan_ahead(KernelScan *k) {
    enum { MOST = 7 };
    int64_t ahead = lex_int(k->lex, "a number of blocks");
    if (ahead < 1 || ahead > MOST) lex_fail(k->lex, "blocks beyond 1..%d, before this", MOST);
    return (int)ahead;
}

static void scan_line_args(KernelScan *k, Line *line) {
    LineArg args[RANK_MAX * 2] = {{0}};
    switch (line->kind) {
    case LINE_AT:
    case LINE_MERGE: scan_list(k, line, args); break;
    case LINE_KEEP: {
        line->cont = scan_cont(k->flow);
        int storage = parse_word(k->lex, storage_words);
        if (storage < 0) lex_fail(k->lex, "expected reg, tile, shared, scratch or arena");
        line->storage = (Storage)storage;
        break;
    }
    case LINE_STAGE:
        line->cont = scan_cont(k->flow);
        if (lex_take(k->lex, "ahead")) line->ahead = scan_ahead(k);
        break;
    case LINE_PREFETCH:
        line->cont = scan_cont(k->flow);
        scan_args(k, line, args);
        break;
    case LINE_USE: line->name = lex_name(k->lex, "an instruction"); break;
    case LINE_SERIAL: line->name = lex_name(k->lex, "why one thread runs it"); break;
    case LINE_ALTERNATE: break;
    case LINE_LIBRARY: line->name = lex_name(k->lex, "a library"); break;
    default: scan_args(k, line, args);
    }
    line->arg = arena_copy(k->flow->arena, args, (size_t)line->narg * sizeof *args);
}

/* One word with its arguments; named maps each get a line of their own. */
static void scan_line(KernelScan *k) {
    VEC(int) map = {0};
    int source = k->lex->t.line;
    while (lex_name_next(k->lex) && !word_next(k)) {
        Lex before = *k->lex;
        const char *name = lex_name(k->lex, "a map");
        int position = map_position(k, name, strlen(name));
        if (position < 0) {
            *k->lex = before;
            lex_fail(k->lex, "neither a word nor a map of this kernel");
        }
        vec_push(k->flow->arena, &map, position);
    }
    int kind = parse_word(k->lex, line_words);
    if (kind < 0) lex_fail(k->lex, "expected a word such as `tile`");
    Line line = {.kind = (LineKind)kind, .map = k->root, .cont = -1, .source = source};
    if (line.kind == LINE_KEEP) line.map = k->said;
    if (line.kind == LINE_AT && !map.n) lex_fail(k->lex, "name the map before `at`");
    if (map.n && kind != LINE_AT && kind != LINE_KEEP && kind != LINE_PREFETCH &&
        kind != LINE_USE && kind != LINE_STAGE)
        lex_fail(k->lex, "write the map before each dim, as in `mm.k`");
    scan_line_args(k, &line);
    for (int i = 0; i < map.n || i == 0; i++) {
        if (map.n) line.map = map.at[i];
        if (line.kind == LINE_AT) k->said = line.map;
        vec_push(k->flow->arena, &k->kernel->line, line);
    }
}

static void scan_maps(KernelScan *k) {
    while (lex_name_next(k->lex) && !lex_is(k->lex, "on") && !lex_is(k->lex, "when")) {
        int map = (int)(intptr_t)table_get(k->flow->maps, k->lex->t.text) - 1;
        if (map < 0) lex_fail(k->lex, "no map of that name stands before");
        lex_next(k->lex);
        vec_push(k->flow->arena, &k->kernel->map, map);
    }
    if (!k->kernel->map.n) lex_fail(k->lex, "expected the maps of the kernel");
}

/* `{ lines }` */
static void scan_lines(KernelScan *k) {
    k->root = k->said = k->kernel->map.n - 1;
    lex_expect(k->lex, "{");
    while (!lex_take(k->lex, "}")) scan_line(k);
}

void flow_parse_lines(Flow *flow, Kernel *kernel, const Lex *at) {
    Lex lex = *at;
    FlowScan s = {.lex = &lex, .flow = flow, .arena = flow->arena, .conts = table_new(lex.arena)};
    for (int i = 0; i < flow->cont.n; i++)
        table_put(s.conts, intern(flow->ctx, flow->cont.at[i].name), (void *)(intptr_t)(i + 1));
    kernel->line.n = 0;
    scan_lines(&(KernelScan){.flow = &s, .lex = &lex, .kernel = kernel});
}

void scan_kernel(FlowScan *s) {
    Kernel *kernel = NEW(s->arena, Kernel);
    KernelScan k = {.flow = s, .lex = s->lex, .kernel = kernel};
    kernel->name = lex_name(s->lex, "a kernel's name");
    lex_expect(s->lex, "=");
    scan_maps(&k);
    if (lex_take(s->lex, "on")) kernel->on = lex_name(s->lex, "where it runs");
    Dims when = {0};
    if (lex_take(s->lex, "when")) parse_guards(s->lex, scan_sym, s, &when);
    for (int i = 0; i < when.n; i++) vec_push(s->arena, &kernel->when, when.at[i]);
    scan_lines(&k);
    vec_push(s->arena, &s->flow->kernel, kernel);
}
