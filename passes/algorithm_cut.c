/* SPDX-License-Identifier: Apache-2.0 */
/* Which products go by quarters (algorithm_quarters.c), along which dims they are cut, and whether
 * that costs less. */
#include <math.h>

#include "passes/algorithm_quarters.h"
#include "passes/dot.h"
#include "passes/narrow.h"
#include "passes/prepare.h"
#include "passes/schedule.h"

/* Columns of a block at most: so many, and one for each so many bytes of the second cache. */
enum { PRODUCTS = QUARTER_PRODUCTS, QUARTERS = 4, BLOCK_MOST = 64, BLOCK_CACHE = 16 << 10 };
static const DimRole role_of[CUTS] = {ROLE_M, ROLE_K, ROLE_N};

/* Do the terms of a row lie side by side? */
static bool lies_by_rows(const Flow *flow, const Map *m, const Contraction *c) {
    int terms = contraction_longest(m, c, ROLE_K);
    return terms >= 0 && access_stride(flow, m, &m->body.val.at[c->a].read, terms, 2) == 1;
}

/* The dim of rows that is cut: the last one or, where that is short, an even one before it, of more
 * than two; one behind which there is none whose extent is not known, or such a one itself where
 * rows lie as texts do: images have too few in a line. */
static int rows_dim(const Flow *flow, const Map *m, const Contraction *c) {
    int last = -1, before = -1;
    bool open = lies_by_rows(flow, m, c);
    for (int d = 0; d < m->dim.n; d++) {
        if (c->role[d] != ROLE_M || map_extent(m, d, 0) == 1) continue;
        before = last, last = map_extent(m, d, 0) || open ? d : -1;
    }
    if (last >= 0 && !map_extent(m, last, 0)) return last;
    bool shorter = before >= 0 && last >= 0 && map_extent(m, last, 0) < 2 * STRIP_ROWS;
    int64_t others = before < 0 ? 0 : map_extent(m, before, 0);
    return shorter && others > 2 && others % 2 == 0 ? before : last;
}

/* Columns of a block: of as many as a kernel holds at a time, whole panels, or fewer where cores
 * would not have equally many tasks; 0: none fills vectors. Measured on Zen 3: 32 take 1.01 of the
 * time of 64, 16 take 1.025; with 2 MB of second cache 64 take 1.06 of that of 128. */
static int64_t choose_columns(const Flow *flow, const PassEnv *env, const Map *m,
                              const Contraction *c, int64_t half) {
    const Machine *machine = env->machine;
    int64_t lanes = machine->vector_bytes / 4, chosen = 0;
    int64_t most = machine->level[1].bytes / BLOCK_CACHE;
    int64_t panel = (panels_cost(machine) && half % (3 * lanes) == 0 ? 3 : 2) * lanes;
    if (most < BLOCK_MOST) most = BLOCK_MOST;
    double rest = ceil(contraction_usual(flow, m, c, ROLE_M) / (2 * STRIP_ROWS)), best = 0;
    for (int64_t size = most / panel * panel; size >= panel; size -= panel) {
        double tasks = rest * (double)(half / size) / machine->cores;
        double time = ceil(tasks) / tasks * (1 + 0.6 * (1.0 / (double)size - 1.0 / (double)most));
        if (half % size || (chosen && time >= best)) continue;
        best = time, chosen = size;
    }
    return chosen || half % lanes ? chosen : half;
}

/* Blocks for the parts of a dim. False: none can be cut. */
static bool find_cut(const Flow *flow, const PassEnv *env, const Map *m, const Contraction *c,
                     int which, Cut *cut) {
    int dim = which == ROWS ? rows_dim(flow, m, c) : contraction_longest(m, c, role_of[which]);
    int64_t extent = dim < 0 ? 0 : map_extent(m, dim, 0), half = (extent + 1) / 2, block = half;
    bool open = which == ROWS && dim >= 0 && !extent;
    if (!open && (half < 2 || (which != ROWS && extent % 2))) return false;
    if (which == TERMS && half % (env->machine->vector_bytes / 4)) return false;
    if (which == COLUMNS) block = choose_columns(flow, env, m, c, half);
    if (which == ROWS) block = 1;
    if (!block) return false;
    Dim all = m->dim.at[dim].extent, parts = dim_const(flow->ctx, 2 * block);
    *cut = (Cut){dim, all, dim_ceildiv(flow->ctx, all, parts), block};
    return true;
}

bool quarters_open(const Quarters *w) {
    return !dim_is_const(w->cut[ROWS].extent, NULL);
}

bool quarters_of(const Flow *flow, const PassEnv *env, const bool *weights, const Map *m,
                 Quarters *w) {
    const Contraction *c = &w->roles;
    w->roles = map_contraction(flow, m);
    if (!c->is || m->cons.n || m->dim.n > RANK_MAX - 3 || !sums_products(m, c) ||
        m->body.val.at[c->a].has_else || map_reads_by_value(m) ||
        !weights[m->body.val.at[c->b].read.cont])
        return false;
    for (int d = 0; d < m->dim.n; d++)
        if (m->dim.at[d].seq || c->role[d] == ROLE_OTHER || c->role[d] == ROLE_WINDOW) return false;
    for (int i = 0; i < CUTS; i++)
        if (!find_cut(flow, env, m, c, i, &w->cut[i])) return false;
    bool blocks = w->cut[COLUMNS].block <= 2 * BLOCK_MOST;
    return !quarters_open(w) || (blocks && writes_whole(flow, m, &m->write.at[0].to[0]));
}

/* Seven products for eight must save more than what it takes to make their operands, which threads
 * wait for, and to write and read the products in the cache that a core has for itself. */
bool quarters_worth(const Flow *flow, const PassEnv *env, const Map *m, const Quarters *w,
                    double rows) {
    static const double worth = 0.97, least_gain = 2e-5, part = PRODUCTS / (double)QUARTERS;
    const Machine *machine = env->machine;
    int b = m->body.val.at[w->roles.b].read.cont;
    bool widened = narrow_widens(machine, flow, m, b);
    const Contraction *c = &w->roles;
    double batch = contraction_usual(flow, m, c, ROLE_BATCH);
    double terms = contraction_usual(flow, m, c, ROLE_K);
    double columns = contraction_usual(flow, m, c, ROLE_N);
    double cut = (double)usual_extent(flow, w->cut[ROWS].extent), padded = 2 * ceil(cut / 2) / cut;
    double memory = machine->level[machine->nlevels - 1].bandwidth, flops = machine->fma_flops;
    double flop = 2 * batch * rows * terms * columns, weights = batch * terms * columns;
    bool narrow = env->math == MATH_FAST; /* products as they are may be of bf16 (narrow.c) */
    double direct = flop / (narrow ? dot_flops(machine, BF16, BF16, rows, (int64_t)terms) : flops);
    double read = weights * (widened ? 4 : (double)dtype_bits(flow->cont.at[b].type) / 8);
    double panel = (double)panel_width(machine, flow, m, w->cut[COLUMNS].dim, false);
    double again =
        batch * rows_again(machine, 4 * rows * terms, rows, ceil(columns / panel), read / batch);
    direct = seconds_beside(direct, read / memory + again / machine->level[2].bandwidth);
    double made = 4 * part * batch * rows * terms, products = 4 * part * batch * rows * columns;
    double moved = (made + 2 * made / part) / machine_bandwidth(machine, made) +
                   4 * products / machine->level[1].bandwidth;
    double multiply = flop / flops * padded * PRODUCTS / (2 * QUARTERS);
    double quarters = seconds_beside(multiply, 4 * part * weights / memory) + moved;
    return quarters < worth * direct && direct - quarters > least_gain &&
           weights <= CONSTANT_VOLUME;
}

int64_t quarters_least_rows(const Flow *flow, const PassEnv *env, const Map *m, const Quarters *w) {
    enum { LEAST = QUARTERS_LEAST, STEP = 2 * OPEN_ROWS, MOST = 2 * LEAST, WEIGHTS = 2 << 20 };
    if (usual_extent(flow, w->cut[ROWS].extent) < LEAST) return 0;
    double weights = read_bytes(flow, m, &m->body.val.at[w->roles.b].read);
    if (weights < WEIGHTS * (double)env->machine->cores) return 0;
    for (int64_t rows = LEAST; rows <= MOST; rows += STEP)
        if (quarters_worth(flow, env, m, w, (double)rows)) return rows;
    return 0;
}
