/* SPDX-License-Identifier: Apache-2.0 */
/* Strides, alignments and other questions about accesses. */
#include "passes/access.h"

#include "passes/dot.h"

int64_t extent_or(Dim extent, int64_t otherwise) {
    int64_t v;
    return dim_is_const(extent, &v) ? v : otherwise;
}

int64_t map_extent(const Map *map, int dim, int64_t otherwise) {
    return extent_or(map->dim.at[dim].extent, otherwise);
}

int64_t scratch_row(int64_t elements, int64_t lanes) {
    enum { FEW_LINES = 4 };
    if (elements < 2 * lanes) return elements;
    int64_t lines = (elements + lanes - 1) / lanes;
    return (lines + (lines % FEW_LINES == 0)) * lanes;
}

double map_volume(const Map *map, int64_t otherwise) {
    double v = 1;
    for (int d = 0; d < map->dim.n; d++) v *= (double)map_extent(map, d, otherwise);
    return v;
}

/* Rows of a small tile. */
enum { PANEL_ROWS = 7 };

bool panels_cost(const Machine *machine) {
    enum { PART = 3 };
    return machine->fma_flops * 2 / PANEL_ROWS > machine->level[1].bandwidth / PART;
}

int sum_registers(const Machine *machine, const Map *m) {
    const Combine *c = m->write.n ? m->write.at[0].combine : NULL;
    bool wide = c && dtype_bits(c->type[0]) == 64;
    return wide ? machine->vector_regs / 2 : machine->vector_regs;
}

/* Vectors of a panel at most: rows of a tile leave room for them. */
static int64_t most_vectors(const Machine *machine, const Map *m, bool grouped) {
    int registers = sum_registers(machine, m);
    if (registers < 16) return 1;
    return registers < MANY_REGISTERS || (grouped && machine->nmatrix) ? 2 : PANEL_VECTORS;
}

int64_t panel_width(const Machine *machine, const Flow *flow, const Map *m, int lane,
                    bool grouped) {
    int64_t lanes = machine->vector_bytes / 4, extent = map_usual(flow, m, lane);
    int64_t chunks = (extent + lanes - 1) / lanes;
    Contraction r = map_contraction(flow, m);
    bool many = r.is && contraction_usual(flow, m, &r, ROLE_M) >= PANEL_ROWS;
    bool wide = !grouped && panels_cost(machine) && many;
    bool thirds = extent % (3 * lanes) == 0 && (chunks % 2 || wide);
    int64_t vectors = thirds ? 3 : chunks < 3 ? chunks : 2;
    int64_t most = most_vectors(machine, m, grouped);
    return (vectors < most ? vectors : most) * lanes;
}

/* Lanes of the panels that hold what m reads along this dim; 0: there are none. */
static int64_t stored_panel(const Flow *flow, const Map *m, int lane) {
    int64_t width;
    for (int v = 0; v < m->body.val.n; v++) {
        const Val *val = &m->body.val.at[v];
        const Layout *y = val->kind == VAL_READ ? flow->cont.at[val->read.cont].layout : NULL;
        if (!y || flow->cont.at[val->read.cont].kind != CONT_PARAM) continue;
        for (int k = 0; k < val->read.rank; k++)
            for (int r = 0; access_dim(m, &val->read, k) == lane && r < y->rank; r++)
                if (y->map[r] == dim_mod(flow->ctx, flow_layout_sym(flow->ctx, k), y->box[r]) &&
                    dim_is_const(y->box[r], &width))
                    return width;
    }
    return 0;
}

int64_t tile_width(const Machine *machine, const Flow *flow, const Map *m, int lane) {
    int64_t lanes = machine->vector_bytes / 4, extent = map_usual(flow, m, lane);
    int64_t stored = stored_panel(flow, m, lane) / lanes, chunks = (extent + lanes - 1) / lanes;
    Dot dot;
    bool grouped = dot_ready(machine, flow, m, &dot) && dot.lane == lane;
    int64_t most = most_vectors(machine, m, grouped);
    Contraction r = map_contraction(flow, m);
    int64_t least = r.is && r.role[lane] == ROLE_N ? 1 : 2;
    if (stored < least || stored > most) return panel_width(machine, flow, m, lane, grouped);
    return (stored < chunks ? stored : chunks) * lanes;
}

double flow_weight_bytes(const Flow *flow) {
    double sum = 0;
    for (int c = 0; c < flow->cont.n; c++) {
        const Cont *w = &flow->cont.at[c];
        int64_t n = 0;
        bool known = dim_is_const(dim_product(flow->ctx, w->shape, w->rank), &n);
        if (w->kind == CONT_PARAM && known) sum += (double)dtype_bytes(w->type, n);
    }
    return sum;
}

double machine_cycle(const Machine *machine) {
    return machine->vector_bytes / machine->fma_flops;
}

double machine_bandwidth(const Machine *machine, double bytes) {
    int level = 0;
    while (level + 1 < machine->nlevels && bytes > (double)machine->level[level].bytes / 2) level++;
    return machine->level[level].bandwidth;
}

int64_t row_budget(const Machine *machine) {
    if (machine->block_threads) return machine->shared_bytes;
    return machine->level[1].bytes / ROW_BLOCK;
}

bool has_seq(const Map *map) {
    for (int d = 0; d < map->dim.n; d++)
        if (map->dim.at[d].seq) return true;
    return false;
}

bool map_is_reduction(const Map *map) {
    return map->write.n && map->write.at[0].combine;
}

bool map_straight_line(const Map *map) {
    for (int w = 0; w < map->write.n; w++)
        if (map->write.at[w].combine || map->write.at[w].to[0].cont != map->write.at[0].to[0].cont)
            return false;
    return map->write.n > 1 && !map->cons.n && map->write.at[0].to[0].rank > 0;
}

bool access_by_value(const Map *map, const Access *a) {
    for (int v = 0; v < map->body.val.n; v++)
        for (int k = 0; map->body.val.at[v].sym && k < a->rank; k++)
            if (dim_uses(a->at[k], map->body.val.at[v].sym)) return true;
    return false;
}

bool map_reads(const Map *map, int cont) {
    bool reads = false;
    for (int v = 0; v < map->body.val.n; v++)
        reads |= map->body.val.at[v].kind == VAL_READ && map->body.val.at[v].read.cont == cont;
    return reads;
}

bool map_writes(const Map *map, int cont) {
    for (int w = 0; w < map->write.n; w++)
        for (int k = 0; k < map->write.at[w].n; k++)
            if (map->write.at[w].to[k].cont == cont) return true;
    return false;
}

int kernel_writer(const Flow *flow, const Kernel *kernel, int cont) {
    for (int p = 0; p < kernel->map.n; p++)
        if (map_writes(flow->map.at[kernel->map.at[p]], cont)) return p;
    return -1;
}

bool map_reads_by_value(const Map *map) {
    for (int v = 0; v < map->body.val.n; v++)
        if (map->body.val.at[v].kind == VAL_READ && access_by_value(map, &map->body.val.at[v].read))
            return true;
    return false;
}

int read_converted(const Body *b, int v, DType to) {
    const Val *val = &b->val.at[v];
    if (val->kind != VAL_PRIM || val->prim != P_CVT || val->type != to) return -1;
    return b->val.at[val->arg[0]].kind == VAL_READ ? val->arg[0] : -1;
}

bool access_uses(const Map *map, const Access *a, int d) {
    for (int k = 0; k < a->rank; k++)
        if (dim_uses(a->at[k], map->dim.at[d].sym)) return true;
    return false;
}

bool access_reduced(const Map *map, const Access *a) {
    for (int d = 0; d < map->dim.n; d++)
        if (map_reduces(map, d) && access_uses(map, a, d)) return true;
    return false;
}

bool access_slides(const Map *map, const Access *a) {
    for (int k = 0; k < a->rank; k++) {
        bool out = false, reduced = false;
        for (int d = 0; d < map->dim.n; d++)
            if (dim_uses(a->at[k], map->dim.at[d].sym))
                *(map_reduces(map, d) ? &reduced : &out) = true;
        if (out && reduced) return true;
    }
    return false;
}

static bool index_fixed(const Map *map, Dim at, int dim) {
    for (int d = 0; d < map->dim.n; d++)
        if (d != dim && map_reduces(map, d) && dim_uses(at, map->dim.at[d].sym)) return false;
    return true;
}

bool val_fixed(const Map *map, int v, int dim) {
    const Val *val = &map->body.val.at[v];
    bool fixed = val->kind != VAL_INDEX || index_fixed(map, val->index, dim);
    if (val->kind == VAL_READ) fixed = !val->has_else && !access_by_value(map, &val->read);
    for (int k = 0; val->kind == VAL_READ && k < val->read.rank; k++)
        fixed = fixed && index_fixed(map, val->read.at[k], dim);
    for (int i = 0; val->kind == VAL_PRIM && i < prim_row(val->prim)->arity; i++)
        fixed = fixed && val_fixed(map, val->arg[i], dim);
    return fixed;
}

int access_dim(const Map *map, const Access *a, int k) {
    for (int d = 0; d < map->dim.n; d++)
        if (map->dim.at[d].sym == a->at[k]) return d;
    return -1;
}

int map_same_dim(const Map *map, int d, const Map *maker) {
    const Access *to = &maker->write.at[0].to[0];
    for (int v = 0; v < map->body.val.n; v++) {
        const Val *val = &map->body.val.at[v];
        for (int k = 0; val->kind == VAL_READ && val->read.cont == to->cont && k < to->rank; k++)
            if (access_dim(map, &val->read, k) == d) return access_dim(maker, to, k);
    }
    return -1;
}

int access_plain(const Map *map, const Access *a, int d) {
    int at = -1;
    for (int k = 0; k < a->rank; k++) {
        if (!dim_uses(a->at[k], map->dim.at[d].sym)) continue;
        if (at >= 0 || access_dim(map, a, k) != d) return -1;
        at = k;
    }
    return at;
}

bool access_covers(const Map *map, const Access *a) {
    bool seen[MAP_DIMS] = {false};
    for (int k = 0; k < a->rank; k++) {
        int d = access_dim(map, a, k);
        if (d < 0 && !dim_is_const(a->at[k], NULL)) return false;
        if (d >= 0 && seen[d]) return false;
        if (d >= 0) seen[d] = true;
    }
    for (int d = 0; d < map->dim.n; d++)
        if (!seen[d] && !dim_is(map->dim.at[d].extent, 1)) return false;
    return true;
}

int cont_innermost(const Flow *flow, int cont) {
    const Cont *c = &flow->cont.at[cont];
    const Layout *y = c->layout;
    int last = c->rank - 1;
    if (!y) return last;
    if (y->rank != c->rank) return -1;
    for (int s = 0; s < y->rank; s++) {
        int k = 0;
        while (k < c->rank && y->map[s] != flow_layout_sym(flow->ctx, k)) k++;
        if (k == c->rank || y->box[s] != c->shape[k]) return -1;
        last = k;
    }
    return last;
}

/* Longer bodies are not looked into. */
enum { VALUES_MOST = 256 };

/* Does an index of the access use a value that is another at another index of dim? */
static bool moved_by_value(const Map *map, const Access *a, int dim) {
    const Body *b = &map->body;
    bool moves[VALUES_MOST], found = false;
    if (!access_by_value(map, a)) return false;
    if (b->val.n > VALUES_MOST) return true;
    for (int v = 0; v < b->val.n && !found; v++) {
        const Val *val = &b->val.at[v];
        moves[v] = val->kind == VAL_INDEX && dim_uses(val->index, map->dim.at[dim].sym);
        for (int i = 0; val->kind == VAL_PRIM && i < prim_row(val->prim)->arity; i++)
            moves[v] |= moves[val->arg[i]];
        for (int k = 0; val->kind == VAL_READ && k < val->read.rank; k++) {
            moves[v] |= dim_uses(val->read.at[k], map->dim.at[dim].sym);
            for (int i = 0; i < v; i++)
                moves[v] |=
                    moves[i] && b->val.at[i].sym && dim_uses(val->read.at[k], b->val.at[i].sym);
        }
        for (int k = 0; moves[v] && val->sym && k < a->rank; k++)
            found |= dim_uses(a->at[k], val->sym);
    }
    return found;
}

/* Where an access lies when dim `dim` is `lane` of a block, as a number of elements; and what is
 * known of the symbols in it. */
typedef struct LanePlace {
    Dim lane, at;
    DimRange range[MAP_DIMS + 2];
    DimEnv env;
} LanePlace;

static void find_place(const Flow *flow, const Map *map, const Access *a, int dim, int64_t block,
                       LanePlace *p) {
    Ctx *ctx = flow->ctx;
    const Cont *c = &flow->cont.at[a->cont];
    Dim outer = dim_sym(ctx, "stride.b"), index[RANK_MAX], at[RANK_MAX], box[RANK_MAX];
    p->lane = dim_sym(ctx, "stride.l");
    DimSubst subst = {map->dim.at[dim].sym, dim_add(ctx, dim_mulc(ctx, outer, block), p->lane)};
    for (int k = 0; k < a->rank; k++) index[k] = dim_subst(ctx, a->at[k], &subst, 1);
    int n = 0;
    p->range[n++] = (DimRange){outer, dim_const(ctx, 0), NULL};
    p->range[n++] = (DimRange){p->lane, dim_const(ctx, 0), dim_const(ctx, block - 1)};
    for (int d = 0; d < map->dim.n; d++)
        if (d != dim)
            p->range[n++] = (DimRange){map->dim.at[d].sym, dim_const(ctx, 0),
                                       dim_addc(ctx, map->dim.at[d].extent, -1)};
    p->env = (DimEnv){p->range, n};
    int rank = cont_address(ctx, c, index, &p->env, at);
    cont_storage(ctx, c, box);
    p->at = dim_simplify(ctx, dim_flat(ctx, at, box, rank), &p->env);
}

Dim access_step(const Flow *flow, const Map *map, const Access *a, int dim, int64_t block) {
    LanePlace p;
    Dim coef, rest;
    if (moved_by_value(map, a, dim)) return NULL;
    if (!access_uses(map, a, dim)) return dim_const(flow->ctx, 0);
    find_place(flow, map, a, dim, block, &p);
    return dim_affine(flow->ctx, p.at, &p.lane, 1, &coef, &rest) ? coef : NULL;
}

int64_t access_stride(const Flow *flow, const Map *map, const Access *a, int dim, int64_t block) {
    Dim step = access_step(flow, map, a, dim, block);
    int64_t stride;
    return step && dim_is_const(step, &stride) ? stride : INT64_MAX;
}

const Val *access_row(const Flow *flow, const Map *m, int cont, int lane, const bool *block) {
    const Val *read = NULL;
    for (int v = 0; v < m->body.val.n && !read; v++)
        if (m->body.val.at[v].kind == VAL_READ && m->body.val.at[v].read.cont == cont)
            read = &m->body.val.at[v];
    if (!read || m->cons.n || read->has_else || access_by_value(m, &read->read)) return NULL;
    for (int d = 0; d < m->dim.n; d++)
        if (d != lane && !block[d] && !dim_is(m->dim.at[d].extent, 1) &&
            access_uses(m, &read->read, d))
            return NULL;
    int64_t whole = map_extent(m, lane, INT32_MAX);
    return access_stride(flow, m, &read->read, lane, whole) == 1 ? read : NULL;
}

static Dim place_of_lane(Ctx *ctx, const LanePlace *p, int64_t lane) {
    DimSubst subst = {p->lane, dim_const(ctx, lane)};
    return dim_simplify(ctx, dim_subst(ctx, p->at, &subst, 1), &p->env);
}

Dim access_in_block(const Flow *flow, const Map *map, const Access *a, int dim, int lanes) {
    Ctx *ctx = flow->ctx;
    LanePlace p;
    Dim coef, rest;
    int64_t most, step;
    if (moved_by_value(map, a, dim) || !access_uses(map, a, dim)) return NULL;
    find_place(flow, map, a, dim, lanes, &p);
    if (dim_affine(ctx, p.at, &p.lane, 1, &coef, &rest)) return NULL;
    Dim first = place_of_lane(ctx, &p, 0), in_block = dim_mod(ctx, first, dim_const(ctx, lanes));
    in_block = dim_simplify(ctx, in_block, &p.env);
    Dim upper = dim_upper(ctx, in_block, &p.env);
    if (!upper || !dim_is_const(upper, &most)) return NULL;
    for (int l = 1; l < lanes; l++) {
        Dim apart = dim_sub(ctx, place_of_lane(ctx, &p, l), first);
        if (!dim_is_const(apart, &step) || step < 0 || most + step >= lanes) return NULL;
    }
    return in_block;
}

/* ---- writers --------------------------------------------------------------------------------- */

enum { NO_WRITER = -1, MANY_WRITERS = -2 };

static void set_writer(int *writer, int cont, int map) {
    if (cont < 0) return;
    bool only = writer[cont] == NO_WRITER || writer[cont] == map;
    writer[cont] = only ? map : MANY_WRITERS;
}

static void items_writers(const Flow *flow, const Items *items, int *writer) {
    for (int i = 0; i < items->n; i++) {
        const Item *it = &items->at[i];
        if (it->kind == ITEM_MAP) {
            const Map *m = flow->map.at[it->map];
            for (int w = 0; w < m->write.n; w++)
                for (int k = 0; k < m->write.at[w].n; k++)
                    set_writer(writer, m->write.at[w].to[k].cont, it->map);
        } else if (it->kind == ITEM_CALL) {
            for (int k = 0; k < it->call->nout; k++)
                set_writer(writer, it->call->out[k], MANY_WRITERS);
        }
        for (int k = 0; k < it->carry.n; k++) set_writer(writer, it->carry.at[k].cur, MANY_WRITERS);
        items_writers(flow, &it->body, writer);
        items_writers(flow, &it->other, writer);
    }
}

int *flow_writers(Arena *arena, const Flow *flow) {
    int *writer = NEW_ARRAY(arena, int, flow->cont.n + 1);
    for (int c = 0; c < flow->cont.n; c++) writer[c] = NO_WRITER;
    items_writers(flow, &flow->body, writer);
    for (int c = 0; c < flow->cont.n; c++)
        if (writer[c] == MANY_WRITERS) writer[c] = -1;
    return writer;
}

static void renumber(Flow *flow, Items *items, Map **from) {
    for (int i = 0; i < items->n; i++) {
        Item *it = &items->at[i];
        if (it->kind == ITEM_MAP) {
            vec_push(flow->arena, &flow->map, from[it->map]);
            it->map = flow->map.n - 1;
        }
        renumber(flow, &it->body, from);
        renumber(flow, &it->other, from);
    }
}

void flow_compact(Flow *flow) {
    ASSERT(!flow->kernel.n);
    Map **from = arena_copy(flow->arena, flow->map.at, (size_t)flow->map.n * sizeof *from);
    flow->map.n = 0;
    renumber(flow, &flow->body, from);
}

/* ---- lines ---------------------------------------------------------------------------------- */

Kernel *kernel_new(Flow *flow, const Machine *machine, const int *maps, int n) {
    Kernel *k = NEW(flow->arena, Kernel);
    k->on = machine->on;
    k->name = internf(flow->ctx, "k%d.%s", flow->kernel.n, flow->map.at[maps[n - 1]]->name);
    for (int i = 0; i < n; i++) vec_push(flow->arena, &k->map, maps[i]);
    vec_push(flow->arena, &flow->kernel, k);
    return k;
}

Line *kernel_line(Flow *flow, Kernel *kernel, LineKind kind, int pos) {
    Line line = {.kind = kind, .map = pos, .cont = -1};
    vec_push(flow->arena, &kernel->line, line);
    return &kernel->line.at[kernel->line.n - 1];
}

void line_dim(Flow *flow, Line *line, const Map *map, int dim, int64_t size) {
    LineArg *arg = NEW_ARRAY(flow->arena, LineArg, line->narg + 1);
    for (int i = 0; i < line->narg; i++) arg[i] = line->arg[i];
    arg[line->narg++] = (LineArg){dim_sym_name(map->dim.at[dim].sym), size};
    line->arg = arg;
}

void kernel_keep(Flow *flow, Kernel *kernel, int pos, int cont, Storage storage) {
    Line *line = kernel_line(flow, kernel, LINE_KEEP, pos);
    line->cont = cont;
    line->storage = storage;
}

/* ---- alignment ------------------------------------------------------------------------------ */

/* Ties producer p's dims to the root's through one read of consumer q; -2 marks a tie not seen yet.
 */
static void align_read(const Map *p, const Access *to, const Map *q, const Access *read,
                       const int *root_to_q, int nroot, int *root_to_p) {
    for (int r = 0; r < nroot; r++) {
        int tie = -1;
        for (int k = 0; k < to->rank && root_to_q[r] >= 0; k++) {
            if (read->at[k] != q->dim.at[root_to_q[r]].sym) continue;
            int d = access_dim(p, to, k);
            if (d >= 0 && !map_reduces(p, d)) tie = d;
        }
        if (root_to_p[r] == -2)
            root_to_p[r] = tie;
        else if (root_to_p[r] != tie)
            root_to_p[r] = -1;
    }
}

/* A map that nothing behind it in the kernel reads is tied to one that reads the same as it does.
 */
static void align_beside(const Flow *flow, const int *maps, int p, const Alignment *al) {
    const Map *m = flow->map.at[maps[p]], *root = flow->map.at[maps[al->n - 1]];
    for (int q = p + 1; q < al->n; q++) {
        const Map *mq = flow->map.at[maps[q]];
        for (int v = 0; v < m->body.val.n; v++)
            for (int u = 0; u < mq->body.val.n; u++) {
                const Val *own = &m->body.val.at[v], *other = &mq->body.val.at[u];
                if (own->kind == VAL_READ && other->kind == VAL_READ &&
                    own->read.cont == other->read.cont)
                    align_read(m, &own->read, mq, &other->read, al->at[q], root->dim.n, al->at[p]);
            }
    }
}

Alignment kernel_align(Arena *arena, const Flow *flow, const int *maps, int n) {
    Alignment al = {n, arena_array(arena, (size_t)n, sizeof(int[MAP_DIMS]))};
    const Map *root = flow->map.at[maps[n - 1]];
    for (int r = 0; r < root->dim.n; r++) al.at[n - 1][r] = map_reduces(root, r) ? -1 : r;
    for (int p = n - 2; p >= 0; p--) {
        const Map *m = flow->map.at[maps[p]];
        bool read = false;
        for (int r = 0; r < root->dim.n; r++) al.at[p][r] = -2;
        for (int w = 0; w < m->write.n; w++)
            for (int k = 0; k < m->write.at[w].n; k++)
                for (int q = p + 1; q < n; q++) {
                    const Map *mq = flow->map.at[maps[q]];
                    for (int v = 0; v < mq->body.val.n; v++) {
                        const Val *val = &mq->body.val.at[v];
                        if (val->kind != VAL_READ || val->read.cont != m->write.at[w].to[k].cont)
                            continue;
                        align_read(m, &m->write.at[w].to[k], mq, &val->read, al.at[q], root->dim.n,
                                   al.at[p]);
                        read = true;
                    }
                }
        if (!read) align_beside(flow, maps, p, &al);
        for (int r = 0; r < root->dim.n; r++)
            if (al.at[p][r] == -2) al.at[p][r] = -1;
    }
    return al;
}

/* Does an index of the write that steps in no sequential dim differ in the read? */
static bool strays(const Map *m, const Access *to, const Access *read) {
    for (int k = 0; k < to->rank; k++) {
        bool steps = false;
        for (int d = 0; d < m->dim.n; d++)
            steps |= m->dim.at[d].seq && dim_uses(to->at[k], m->dim.at[d].sym);
        if (!steps && to->at[k] != read->at[k]) return true;
    }
    return false;
}

bool map_needs_others(const Map *m) {
    for (int w = 0; w < m->write.n; w++)
        for (int k = 0; k < m->write.at[w].n; k++)
            for (int v = 0; v < m->body.val.n; v++) {
                const Val *val = &m->body.val.at[v];
                const Access *to = &m->write.at[w].to[k];
                if (val->kind == VAL_READ && val->read.cont == to->cont &&
                    strays(m, to, &val->read))
                    return true;
            }
    return false;
}
