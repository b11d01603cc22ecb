/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels by ranges of a size.
 *
 * A product whose rows the run alone counts wants small tiles for few, that every core may have
 * one, and large ones for many, which do most with what they fetch. It becomes a kernel for each
 * range of rows that wants other tiles, the one for most first; which of them runs is decided when
 * the rows are known. */
#include <string.h>

#include "passes/schedule.h"

/* Rows that the first range is planned for, and from one range to the next; a range begins at a
 * third of what it is planned for. */
enum { FEW = 64, TIMES = 8, MOST = FEW * TIMES * TIMES * TIMES, BEGIN = 3 };

typedef struct Counted {
    Dim by_run;    /* the product of extents that only the run knows; NULL: there is none */
    int64_t known; /* and of the others */
} Counted;

static Counted count_role(const Scheduling *s, const Map *m, const Contraction *c, DimRole role) {
    Counted n = {.known = 1};
    for (int d = 0; d < m->dim.n; d++) {
        Dim extent = m->dim.at[d].extent;
        if (c->role[d] != role) continue;
        if (map_extent(m, d, -1) < 0)
            n.by_run = n.by_run ? dim_mul(s->flow->ctx, n.by_run, extent) : extent;
        else
            n.known *= map_extent(m, d, 1);
    }
    return n;
}

/* The rows, or the columns, that the run counts, of one of them or both alike, if there are any. */
static Counted counted_rows(const Scheduling *s, const Kernel *kernel) {
    const Counted none = {0};
    const Map *m = s->flow->map.at[kernel->map.at[0]];
    Contraction c = map_contraction(s->flow, m);
    if (!c.is || kernel->map.n > 2) return none;
    Counted rows = count_role(s, m, &c, ROLE_M), columns = count_role(s, m, &c, ROLE_N);
    if (rows.by_run && columns.by_run && rows.by_run != columns.by_run) return none;
    if (!rows.known || !columns.known) return none;
    return rows.by_run ? rows : columns;
}

/* The kernel as it is for `unknown` and more of what the run counts. */
static Kernel *range_from(Scheduling *s, const Kernel *kernel, Dim by_run, int64_t unknown) {
    Arena *arena = s->flow->arena;
    Kernel *range = arena_copy(arena, kernel, sizeof *kernel);
    memset(&range->line, 0, sizeof range->line);
    memset(&range->when, 0, sizeof range->when);
    vec_push(arena, &range->when, dim_addc(s->flow->ctx, by_run, -(unknown / BEGIN)));
    s->range = internf(s->flow->ctx, "@%lld", (long long)unknown);
    s->unknown = unknown;
    schedule_blocks(s, range);
    s->range = NULL;
    return range;
}

int64_t ranges_first(const Scheduling *s, const Kernel *kernel) {
    Counted n = counted_rows(s, kernel);
    return n.by_run && n.known < FEW ? FEW / n.known : 1;
}

int schedule_ranges(Scheduling *s, int at) {
    Flow *flow = s->flow;
    Kernel *last = flow->kernel.at[at];
    Counted n = counted_rows(s, last);
    int added = 0;
    if (!n.by_run || !runs_by_steps(last)) return 0;
    for (int64_t u = s->unknown * TIMES; u * n.known <= MOST; u *= TIMES) {
        Kernel *range = range_from(s, last, n.by_run, u);
        if (same_lines(flow, range, last)) continue;
        vec_push(flow->arena, &flow->kernel, last);
        for (int k = flow->kernel.n - 1; k > at; k--) flow->kernel.at[k] = flow->kernel.at[k - 1];
        flow->kernel.at[at] = last = range;
        added++;
    }
    return added;
}
