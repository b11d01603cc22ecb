/* SPDX-License-Identifier: Apache-2.0 */
/* Are the lines that a recipe gives a kernel legal? That the things they name are there was asked
 * before (flow_verify_lines). Here: do all tiles together compute each element that is needed, once
 * where it lies in memory, whole before it is read, and on a machine that has what they ask for? */
#include <string.h>

#include "passes/compose.h"
#include "passes/schedule.h"

enum { UNROLLED_MOST = 16384, TILE_ELEMENTS = 1 << 24 };

typedef struct Checking {
    Scheduling *s;
    const Flow *flow; /* as `merge` lines see it */
    const Kernel *kernel;
    const Map *root;
    Alignment al;
    const int *writer;   /* by container, as flow_writers */
    int depth[MAP_DIMS]; /* by position: inside how many of the root's loops; KERNEL_MAPS fit */
    int loop[MAP_DIMS * 4], nloop; /* dims of the root's tile loops, outermost first */
    int64_t size[MAP_DIMS * 4];
} Checking;

#define REFUSE(c, line, ...) recipe_refuse((c)->s->env->recipe, (line)->source, __VA_ARGS__)

static const Map *map_at(const Checking *c, int p) {
    return c->flow->map.at[c->kernel->map.at[p]];
}

static int dim_of(const Map *m, const char *name) {
    for (int d = 0; d < m->dim.n; d++)
        if (!strcmp(dim_sym_name(m->dim.at[d].sym), name)) return d;
    return -1;
}

/* Has the map at p a line of this kind for dim d? */
static bool says(const Checking *c, LineKind kind, int p, int d) {
    for (int i = 0; i < c->kernel->line.n; i++) {
        const Line *line = &c->kernel->line.at[i];
        for (int k = 0; k < line->narg && line->kind == kind && line->map == p; k++)
            if (dim_of(map_at(c, p), line->arg[k].dim) == d) return true;
    }
    return false;
}

/* ---- single lines ---------------------------------------------------------------------------- */

static void check_tile(const Checking *c, const Line *line) {
    const Map *m = map_at(c, line->map);
    for (int i = 0; i < line->narg; i++) {
        int d = dim_of(m, line->arg[i].dim);
        if (map_reduces(m, d))
            REFUSE(c, line,
                   "\"%s\" sums over \"%s\": a tile of it would hold a part of each sum; say "
                   "\"reduce\"",
                   m->name, line->arg[i].dim);
        if (m->dim.at[d].seq)
            REFUSE(c, line, "dim \"%s\" of \"%s\" runs in order and has no tiles", line->arg[i].dim,
                   m->name);
        if (line->arg[i].size > INT32_MAX)
            REFUSE(c, line, "a tile of %lld", (long long)line->arg[i].size);
    }
}

static void check_reduce(const Checking *c, const Line *line) {
    const Map *m = map_at(c, line->map);
    bool whole[MAP_DIMS] = {false};
    for (int i = 0; i < line->narg; i++) {
        int d = dim_of(m, line->arg[i].dim);
        if (!map_reduces(m, d))
            REFUSE(c, line, "\"%s\" does not reduce over \"%s\"", m->name, line->arg[i].dim);
        if (whole[d])
            REFUSE(c, line, "the loop over all of \"%s\" stands before this", line->arg[i].dim);
        whole[d] = !line->arg[i].size;
    }
    for (int i = 0; i < line->narg; i++)
        if (!whole[dim_of(m, line->arg[i].dim)])
            REFUSE(
                c, line,
                "\"%s\" is cut into blocks, but no loop runs inside them: repeat it without a size",
                line->arg[i].dim);
}

/* May a map run in so many lanes? Threads of a GPU take what an instruction fetches, of any type.
 */
static bool may_have_lanes(const Checking *c, const Map *map, int dim, int64_t lanes) {
    const Machine *m = c->s->env->machine;
    if (m->block_threads)
        return lanes > 1 && lanes <= m->vector_bytes && (lanes & (lanes - 1)) == 0;
    if (lanes == lanes_of(c->s)) return true;
    Scheduling merged = *c->s;
    merged.flow = (Flow *)c->flow;
    return c->kernel->map.n == 1 && !map_is_reduction(map) &&
           lanes == wide_lanes(&merged, map, dim);
}

static void check_vector(const Checking *c, const Line *line) {
    const Map *m = map_at(c, line->map);
    int d = line->narg == 1 ? dim_of(m, line->arg[0].dim) : -1, lanes = lanes_of(c->s);
    if (d < 0) REFUSE(c, line, "one dim runs in lanes");
    if (m->dim.at[d].seq)
        REFUSE(c, line, "dim \"%s\" runs in order, not in lanes", line->arg[0].dim);
    if (!folds(m, d))
        REFUSE(c, line, "the lanes of \"%s\" cannot be folded by a combine that the text defines",
               line->arg[0].dim);
    if (!may_have_lanes(c, m, d, line->arg[0].size))
        REFUSE(c, line, "%lld lanes, but those of this machine's vectors are %d",
               (long long)line->arg[0].size, lanes);
    for (const Line *l = c->kernel->line.at; l < line; l++)
        if (l->kind == LINE_VECTOR && l->map == line->map)
            REFUSE(c, line, "another dim of \"%s\" runs in lanes already", m->name);
}

static void check_keep(const Checking *c, const Line *line) {
    int cont = line->cont, by = kernel_writer(c->flow, c->kernel, cont);
    const char *name = c->flow->cont.at[cont].name;
    if (by < 0) REFUSE(c, line, "no map of the kernel makes \"%s\"", name);
    if (line->storage == KEEP_ARENA) return;
    if (c->writer[cont] < 0)
        REFUSE(c, line, "\"%s\" is written by several maps, so it needs memory", name);
    if (by == c->kernel->map.n - 1 || read_outside(c->s, c->kernel, cont))
        REFUSE(c, line, "\"%s\" is read outside of the kernel, so it needs memory", name);
    if (line->storage == KEEP_SHARED && !c->s->env->machine->block_threads)
        REFUSE(c, line, "this machine has no memory that a block of threads shares");
}

/* Rows of a block further on: of what no map of the kernel makes. The dims of map p that blocks go
 * along are in `block`. */
static void check_ahead(const Checking *c, const Line *line) {
    const Map *m = map_at(c, line->map);
    const char *name = c->flow->cont.at[line->cont].name;
    int last = c->kernel->map.n - 1, lane = -1, d = -1;
    int by = kernel_writer(c->flow, c->kernel, line->cont);
    bool block[MAP_DIMS] = {false};
    if (line->narg == 1 && line->arg[0].size > 0 && line->arg[0].size <= INT32_MAX)
        d = dim_of(m, line->arg[0].dim);
    if (d < 0) REFUSE(c, line, "say how many blocks ahead, along one dim of \"%s\"", m->name);
    for (int r = 0; r < c->root->dim.n; r++)
        if (c->al.at[line->map][r] >= 0 && says(c, LINE_BLOCK, last, r))
            block[c->al.at[line->map][r]] = true;
    for (const Line *l = c->kernel->line.at; l < c->kernel->line.at + c->kernel->line.n; l++)
        if (l->kind == LINE_THREAD && l->map == line->map && l->narg == 1 && l->arg[0].size)
            lane = dim_of(m, l->arg[0].dim);
    if (!block[d]) REFUSE(c, line, "no blocks go along dim \"%s\"", line->arg[0].dim);
    if (lane < 0) REFUSE(c, line, "threads do not share a dim of \"%s\"", m->name);
    if (by >= 0) REFUSE(c, line, "\"%s\" of the kernel makes \"%s\"", map_at(c, by)->name, name);
    if (!access_row(c->flow, m, line->cont, lane, block))
        REFUSE(c, line, "what a block reads of \"%s\" in \"%s\" is no row of neighbours", name,
               m->name);
}

static void check_prefetch(const Checking *c, const Line *line) {
    const Cont *cont = &c->flow->cont.at[line->cont];
    if (c->s->env->machine->block_threads && line->narg) {
        check_ahead(c, line);
        return;
    }
    if (c->s->env->machine->block_threads) {
        if (cont->kind != CONT_PARAM)
            REFUSE(c, line, "\"%s\" is no weight: say how many blocks ahead, along one dim",
                   cont->name);
        return;
    }
    const Map *m = c->flow->map.at[c->kernel->map.at[line->map]];
    if (line->map == c->kernel->map.n - 1 && !map_is_reduction(m)) {
        if (!reads_of(m, line->cont))
            REFUSE(c, line, "\"%s\" does not read \"%s\"", m->name, cont->name);
        return;
    }
    if (cont->kind != CONT_PARAM || !cont->layout)
        REFUSE(c, line, "\"%s\" is no weight that is stored in panels", cont->name);
}

static void check_line(const Checking *c, const Line *line) {
    static const char *const threads = "this machine has no blocks of threads";
    bool cpu = !c->s->env->machine->block_threads;
    switch (line->kind) {
    case LINE_TILE: check_tile(c, line); break;
    case LINE_REDUCE: check_reduce(c, line); break;
    case LINE_VECTOR: check_vector(c, line); break;
    case LINE_KEEP: check_keep(c, line); break;
    case LINE_PREFETCH: check_prefetch(c, line); break;
    case LINE_BLOCK:
    case LINE_THREAD:
    case LINE_STAGE:
    case LINE_SERIAL:
    case LINE_SPLIT:
        if (cpu) REFUSE(c, line, "%s", threads);
        break;
    case LINE_ALTERNATE:
        if (!cpu || !c->s->repeats[c->kernel->map.at[c->kernel->map.n - 1]])
            REFUSE(c, line, "only kernels of a CPU in a loop alternate");
        break;
    case LINE_SKIP:
        if (!cpu) REFUSE(c, line, "only kernels of a CPU skip what meets margins");
        if (c->s->env->math == MATH_STRICT)
            REFUSE(c, line, "strict mathematics multiplies the zeros of margins, too");
        break;
    case LINE_PARALLEL:
        if (!cpu)
            REFUSE(c, line, "this machine has blocks of threads: say \"block\" and \"thread\"");
        if (line->map != c->kernel->map.n - 1)
            REFUSE(c, line, "only loops of the last map run in parallel");
        break;
    default: break;
    }
}

/* ---- unrolling ------------------------------------------------------------------------------- */

static int64_t smallest_tile(const Checking *c, int p, int d) {
    const Map *m = map_at(c, p);
    int64_t size = map_extent(m, d, 64);
    for (int i = 0; i < c->kernel->line.n; i++) {
        const Line *line = &c->kernel->line.at[i];
        for (int k = 0; k < line->narg; k++) {
            bool sized =
                (line->kind == LINE_TILE || line->kind == LINE_REDUCE) && line->arg[k].size;
            if (!sized || line->arg[k].size >= size) continue;
            int own = line->map == p ? dim_of(m, line->arg[k].dim) : -1;
            int r = line->map == c->kernel->map.n - 1 ? dim_of(c->root, line->arg[k].dim) : -1;
            if (own == d || (r >= 0 && c->al.at[p][r] == d)) size = line->arg[k].size;
        }
    }
    return size;
}

/* Iterations of dim d in a tile, vectors where it runs in lanes. */
static int64_t steps(const Checking *c, int p, int d) {
    int64_t size = smallest_tile(c, p, d), lanes = lanes_of(c->s);
    return says(c, LINE_VECTOR, p, d) ? (size + lanes - 1) / lanes : size;
}

/* The same of a thread, where a block's threads share the dim. */
static int64_t own_steps(const Checking *c, int p, int d) {
    int64_t at_once = 1;
    for (int i = 0; i < c->kernel->line.n; i++) {
        const Line *line = &c->kernel->line.at[i];
        bool shares = line->map == p && (line->kind == LINE_THREAD || line->kind == LINE_VECTOR);
        for (int k = 0; k < line->narg && shares; k++)
            if (line->arg[k].size > 0 && dim_of(map_at(c, p), line->arg[k].dim) == d)
                at_once *= line->arg[k].size;
    }
    return (smallest_tile(c, p, d) + at_once - 1) / at_once;
}

static void check_unrolled(const Checking *c, const Line *line) {
    const Map *m = map_at(c, line->map);
    bool blocks = c->s->env->machine->block_threads;
    double copies = m->body.val.n;
    for (int d = 0; d < m->dim.n; d++)
        if (says(c, LINE_UNROLL, line->map, d))
            copies *= (double)(blocks ? own_steps : steps)(c, line->map, d);
    if (copies > UNROLLED_MOST)
        REFUSE(c, line,
               "unrolled to about %.0f statements, at most %d compile in reasonable time; tile the "
               "dims smaller",
               copies, UNROLLED_MOST);
}

/* Registers have no addresses: each dim that indexes them is unrolled, or one step. */
static void check_registers(const Checking *c, const Line *line, int p, const Access *access) {
    const Map *m = map_at(c, p);
    for (int d = 0; d < m->dim.n; d++) {
        if (access_uses(m, access, d) && steps(c, p, d) > 1 && !says(c, LINE_UNROLL, p, d))
            REFUSE(
                c, line,
                "\"%s\" is in registers, which have no addresses: unroll dim \"%s\" of \"%s\", or "
                "tile it to one step",
                c->flow->cont.at[line->cont].name, dim_sym_name(m->dim.at[d].sym), m->name);
    }
}

static void check_register_uses(const Checking *c, const Line *line) {
    for (int p = 0; p < c->kernel->map.n; p++) {
        const Map *m = map_at(c, p);
        for (int w = 0; w < m->write.n; w++)
            for (int k = 0; k < m->write.at[w].n; k++)
                if (m->write.at[w].to[k].cont == line->cont)
                    check_registers(c, line, p, &m->write.at[w].to[k]);
        for (int v = 0; v < m->body.val.n; v++)
            if (m->body.val.at[v].kind == VAL_READ && m->body.val.at[v].read.cont == line->cont)
                check_registers(c, line, p, &m->body.val.at[v].read);
    }
}

/* ---- loops and maps -------------------------------------------------------------------------- */

static void find_loops(Checking *c) {
    for (int i = 0; i < c->kernel->line.n; i++) {
        const Line *line = &c->kernel->line.at[i], *order = line + 1;
        if (line->kind != LINE_TILE || line->map != c->kernel->map.n - 1) continue;
        bool ordered =
            i + 1 < c->kernel->line.n && order->kind == LINE_ORDER && order->map == line->map;
        if (ordered && order->narg != line->narg)
            REFUSE(c, order, "the order names %d of the %d dims that are tiled before it",
                   order->narg, line->narg);
        for (int k = 0; k < line->narg; k++) {
            if (c->nloop == MAP_DIMS * 4) REFUSE(c, line, "too many loops");
            const char *name = ordered ? order->arg[k].dim : line->arg[k].dim;
            for (int j = 0; j < line->narg; j++)
                if (!strcmp(line->arg[j].dim, name)) c->size[c->nloop] = line->arg[j].size;
            c->loop[c->nloop++] = dim_of(c->root, name);
        }
    }
}

static void find_depths(Checking *c) {
    for (int p = 0; p < c->kernel->map.n; p++) c->depth[p] = c->nloop;
    for (int i = 0; i < c->kernel->line.n; i++) {
        const Line *line = &c->kernel->line.at[i];
        if (line->kind != LINE_AT) continue;
        if (line->map == c->kernel->map.n - 1)
            REFUSE(c, line, "the last map runs inside all loops");
        c->depth[line->map] = 0;
        for (int k = 0; k < line->narg; k++)
            for (int l = 0; l < c->nloop; l++)
                if (c->loop[l] == dim_of(c->root, line->arg[k].dim) &&
                    l + 1 > c->depth[line->map] &&
                    (!line->arg[k].size || line->arg[k].size == c->size[l]))
                    c->depth[line->map] = l + 1;
    }
}

static Storage kept(const Checking *c, int cont) {
    Storage storage = KEEP_ARENA;
    for (int i = 0; i < c->kernel->line.n; i++)
        if (c->kernel->line.at[i].kind == LINE_KEEP && c->kernel->line.at[i].cont == cont)
            storage = c->kernel->line.at[i].storage;
    return storage;
}

/* What lies in memory is written by one tile alone: each loop around its map walks over it. */
static void check_memory(const Checking *c, int p, int cont) {
    const Line where = {.source = c->kernel->source};
    for (int l = 0; l < c->depth[p]; l++) {
        int own = c->al.at[p][c->loop[l]];
        bool walks =
            own >= 0 && map_at(c, p)->dim.at[own].extent == c->root->dim.at[c->loop[l]].extent;
        if (!walks)
            REFUSE(c, &where,
                   "\"%s\" lies in memory, but tiles of \"%s\" would each write all that they need "
                   "of it; keep it "
                   "inside, or have \"%s\" run before that loop by \"at\"",
                   c->flow->cont.at[cont].name, dim_sym_name(c->root->dim.at[c->loop[l]].sym),
                   map_at(c, p)->name);
    }
}

/* A buffer of a tile has a size that is known, and a modest one. */
static void check_map(const Checking *c, int p) {
    const Map *m = map_at(c, p);
    const Line where = {.source = c->kernel->source};
    for (int w = 0; w < m->write.n; w++)
        for (int k = 0; k < m->write.at[w].n; k++) {
            int cont = m->write.at[w].to[k].cont;
            if (kept(c, cont) == KEEP_ARENA) check_memory(c, p, cont);
            for (int q = p + 1; q < c->kernel->map.n; q++)
                if (map_reads(map_at(c, q), cont) && c->depth[q] < c->depth[p])
                    REFUSE(c, &where,
                           "\"%s\" runs in more loops than \"%s\", which reads \"%s\" of it",
                           m->name, map_at(c, q)->name, c->flow->cont.at[cont].name);
        }
}

void schedule_check(Scheduling *s, const Kernel *kernel) {
    Checking c = {.s = s, .kernel = kernel};
    const char *why;
    c.flow = flow_merged(s->flow->arena, s->flow, kernel, &why);
    c.root = map_at(&c, kernel->map.n - 1);
    c.al = kernel_align(s->flow->arena, c.flow, kernel->map.at, kernel->map.n);
    c.writer = flow_writers(s->flow->arena, s->flow);
    for (int i = 0; i < kernel->line.n; i++) check_line(&c, &kernel->line.at[i]);
    find_loops(&c);
    find_depths(&c);
    for (int p = 0; p < kernel->map.n - 1; p++) check_map(&c, p);
    for (int i = 0; i < kernel->line.n; i++)
        if (kernel->line.at[i].kind == LINE_UNROLL)
            check_unrolled(&c, &kernel->line.at[i]);
        else if (kernel->line.at[i].kind == LINE_KEEP && kernel->line.at[i].storage == KEEP_REG)
            check_register_uses(&c, &kernel->line.at[i]);
}
