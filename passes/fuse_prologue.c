/* SPDX-License-Identifier: Apache-2.0 */
/* Products of one row whose blocks make the row themselves, on a machine of blocks of threads.
 *
 * Decoding multiplies one row by matrix after matrix, most of them behind a norm. The norm moves
 * next to nothing, but as a kernel of its own the product has to wait for it, and beginning and
 * ending a launch takes longer than it does. So each block of the product makes the row anew, from
 * what others wrote, in shared memory: a prologue. Where a few products read one row, each gets
 * maps of its own for it. It pays while the row is short and blocks are no more than the cores hold
 * at once. */
#include "passes/fuse.h"
#include "passes/schedule.h"

/* Elements of a map of the prologue at most; products that share a row. */
enum { LONGEST = 8192, PRODUCTS = 4 };

/* Is each index the dim or a number? */
static bool runs_along(const Map *m, const Access *a, int dim) {
    for (int k = 0; k < a->rank; k++)
        if (access_dim(m, a, k) != dim && !dim_is_const(a->at[k], NULL)) return false;
    return access_uses(m, a, dim);
}

/* The read of the row, if the map multiplies one: by a matrix with each result's terms side by
 * side. NULL: it does not. */
static const Val *row_of(const Flow *flow, const Machine *machine, const Map *m) {
    int result, reduced;
    if (!prologue_columns(machine, m, &result, &reduced)) return NULL;
    Contraction c = map_contraction(flow, m);
    if (!c.is || m->cons.n) return NULL;
    const Val *a = &m->body.val.at[c.a], *b = &m->body.val.at[c.b];
    const Val *row = access_uses(m, &a->read, result) ? b : a, *other = row == a ? b : a;
    if (row->has_else || !runs_along(m, &row->read, reduced) ||
        !access_uses(m, &other->read, result) ||
        access_stride(flow, m, &other->read, reduced, machine->warp) != 1)
        return NULL;
    return row;
}

/* Is it little work for a block, of known size? */
static bool is_little(const Flow *flow, const Map *m) {
    double volume = 1;
    for (int d = 0; d < m->dim.n; d++) {
        int64_t extent = map_extent(m, d, -1);
        if (extent < 0) return false;
        volume *= (double)extent;
    }
    return volume <= LONGEST && m->write.n == 1 && plain_writes(m) && !m->cons.n && !has_seq(m) &&
           !wants_tiles(flow, m);
}

/* ---- a row for each product --------------------------------------------------------------------
 */

typedef struct Copying {
    Editing e;
    const Machine *machine;
    IntVec chain; /* maps that make the row, in their order */
    int *made;    /* by container: the copy's; -1: the same */
} Copying;

static bool in_chain(const Copying *c, int map) {
    for (int i = 0; i < c->chain.n; i++)
        if (c->chain.at[i] == map) return true;
    return false;
}

/* Do maps of the chain alone read the container? */
static bool read_inside(const Copying *c, int cont) {
    const Uses *uses = &c->e.uses;
    bool inside = c->e.flow->cont.at[cont].kind == CONT_TMP && !uses->held[cont];
    for (int r = 0; inside && r < uses->readers[cont].n; r++)
        inside = in_chain(c, uses->readers[cont].at[r]);
    return inside;
}

/* The map that makes what the value reads; -1: it reads nothing that one map makes. */
static int made_by(const Copying *c, const Val *val) {
    return val->kind == VAL_READ ? c->e.uses.writer[val->read.cont] : -1;
}

/* Does it finish what a product leaves? It belongs to that. */
static bool is_epilogue(const Copying *c, const Map *m) {
    for (int v = 0; v < m->body.val.n; v++) {
        int by = made_by(c, &m->body.val.at[v]);
        if (by >= 0 && wants_tiles(c->e.flow, c->e.flow->map.at[by])) return true;
    }
    return false;
}

/* May a map of `items` be one of a chain? */
static bool may_make(const Copying *c, int map, const Items *items) {
    return map >= 0 && c->e.uses.home[map] == items &&
           is_little(c->e.flow, c->e.flow->map.at[map]) && !is_epilogue(c, c->e.flow->map.at[map]);
}

/* A map that the chain reads and that may make rows, too; `alone`: that hands on to the chain
 * alone. -1: there is none. */
static int in_front(const Copying *c, bool alone, const Items *items) {
    for (int i = 0; i < c->chain.n; i++) {
        const Map *m = c->e.flow->map.at[c->chain.at[i]];
        for (int v = 0; v < m->body.val.n; v++) {
            const Val *val = &m->body.val.at[v];
            int by = made_by(c, val);
            if (may_make(c, by, items) && !in_chain(c, by) &&
                (!alone || read_inside(c, val->read.cont)))
                return by;
        }
    }
    return -1;
}

/* The maps in front of `last` that hand on to nobody else, and itself. */
static void find_chain(Copying *c, int last, const Items *items) {
    c->chain.n = 0;
    for (int map = last; map >= 0; map = in_front(c, true, items))
        vec_push(c->e.arena, &c->chain, map);
}

/* A BodyReadFn: what the chain hands on is read from the copy's containers. */
static int read_copy(void *user, Body *b, const Val *read) {
    const Copying *c = user;
    if (c->made[read->read.cont] < 0) return -1;
    return body_read(b, (Access){c->made[read->read.cont], read->read.rank, read->read.at},
                     read->type);
}

/* One map of the chain again, its item behind those of `into`. */
static void copy_map(Copying *c, const Map *m, Items *into) {
    Flow *flow = c->e.flow;
    Map *copy = map_again(&c->e, m, into);
    Write *w = &copy->write.at[0];
    Access *to = arena_copy(flow->arena, w->to, (size_t)w->n * sizeof *to);
    for (int k = 0; k < w->n; k++) {
        const Cont *old = &flow->cont.at[to[k].cont];
        int made = flow_cont(flow, old->name, CONT_TMP, old->type, old->shape, old->rank);
        to[k].cont = c->made[w->to[k].cont] = made;
    }
    w->to = to;
    map_rewrite(&c->e, copy, NULL, 0, read_copy, c);
}

/* The last of the element-wise maps that end the product one after the other, each reading what
 * nobody else does; itself: there is none. */
static int end_of(const Copying *c, int product) {
    const Flow *flow = c->e.flow;
    const Uses *uses = &c->e.uses;
    for (int at = product;;) {
        const Map *m = flow->map.at[at];
        if (m->write.n != 1 || m->write.at[0].n != 1) return at;
        int cont = m->write.at[0].to[0].cont;
        const IntVec *readers = &uses->readers[cont];
        if (flow->cont.at[cont].kind != CONT_TMP || uses->held[cont] || readers->n != 1) return at;
        int next = readers->at[0];
        if (uses->home[next] != uses->home[at] || map_is_reduction(flow->map.at[next])) return at;
        at = next;
    }
}

/* In front of item `at`: the chain's maps again, which this product of the row reads, and those
 * that end where it does. */
static void copy_chain(Copying *c, Items *items, int at, int row) {
    Flow *flow = c->e.flow;
    const IntVec *readers = &c->e.uses.readers[row];
    int end = end_of(c, items->at[at].map);
    Items made = {0};
    for (int i = 0; i < flow->cont.n; i++) c->made[i] = -1;
    for (int i = 0; i < at; i++)
        if (items->at[i].kind == ITEM_MAP && in_chain(c, items->at[i].map))
            copy_map(c, flow->map.at[items->at[i].map], &made);
    for (int r = 0; r < readers->n; r++)
        if (end_of(c, readers->at[r]) == end)
            map_rewrite(&c->e, flow->map.at[readers->at[r]], NULL, 0, read_copy, c);
    items_insert(flow, items, at, &made);
}

/* Are all readers of the row, more than one but few, products of it that stand in `items`, and do
 * they end in more than one map? */
static bool shared_row(const Copying *c, int cont, const Items *items) {
    const IntVec *readers = &c->e.uses.readers[cont];
    const Flow *flow = c->e.flow;
    bool apart = false;
    if (readers->n < 2 || readers->n > PRODUCTS || flow->cont.at[cont].kind != CONT_TMP ||
        c->e.uses.held[cont])
        return false;
    for (int r = 0; r < readers->n; r++) {
        const Val *row = row_of(flow, c->machine, flow->map.at[readers->at[r]]);
        if (!row || row->read.cont != cont || c->e.uses.home[readers->at[r]] != items) return false;
        apart |= end_of(c, readers->at[r]) != end_of(c, readers->at[0]);
    }
    return apart;
}

/* The last product keeps the maps that are there. */
static bool copy_for(Copying *c, Items *items, int at) {
    const Flow *flow = c->e.flow;
    const Val *row = row_of(flow, c->machine, flow->map.at[items->at[at].map]);
    int by = row ? made_by(c, row) : -1;
    if (!may_make(c, by, items) || !shared_row(c, row->read.cont, items)) return false;
    find_chain(c, by, items);
    /* Rows would join it to what makes its operands, and with that all copies to one kernel. */
    if (in_front(c, false, items) >= 0) return false;
    c->made = NEW_ARRAY(c->e.arena, int, flow->cont.n + c->chain.n * COMBINE_STATES + 1);
    copy_chain(c, items, at, row->read.cont);
    uses_count(&c->e);
    return true;
}

static void copy_in(Copying *c, Items *items) {
    for (int i = 0; i < items->n; i++) {
        copy_in(c, &items->at[i].body);
        copy_in(c, &items->at[i].other);
    }
    for (int i = 0; i < items->n; i++)
        if (items->at[i].kind == ITEM_MAP && copy_for(c, items, i)) i = -1;
}

void copy_prologues(Arena *arena, Flow *flow, const Machine *machine) {
    Copying c = {.e = {.arena = arena, .flow = flow}, .machine = machine};
    if (!machine->block_threads) return;
    uses_count(&c.e);
    copy_in(&c, &flow->body);
}

/* ---- its kernel -------------------------------------------------------------------------------
 */

typedef struct Joining {
    const Group *g, *into, *too; /* too: or NULL */
} Joining;

/* Do only their maps read the container? */
static bool read_among(const Fusing *f, int cont, const Joining *j) {
    if (f->flow->cont.at[cont].kind != CONT_TMP) return false;
    for (int r = 0; r < f->readers[cont].n; r++) {
        int reader = f->readers[cont].at[r];
        const Group *by = reader < 0 ? NULL : &f->group[f->group_of[reader]];
        if (!by || (by != j->g && by != j->into && by != j->too)) return false;
    }
    return true;
}

/* May g go with `into`, which alone, but for `too`, reads what it writes? */
static bool may_join(const Fusing *f, const Joining *j) {
    const Group *g = j->g;
    if (g == j->into || g->gone || g->complete || g->home != j->into->home) return false;
    for (int i = 0; i < g->map.n; i++) {
        const Map *m = f->flow->map.at[g->map.at[i]];
        for (int w = 0; w < m->write.n; w++)
            for (int k = 0; k < m->write.at[w].n; k++)
                if (!read_among(f, m->write.at[w].to[k].cont, j)) return false;
    }
    return true;
}

/* The row that a group's product multiplies, if it is that and at most one map that ends it; -1:
 * it is none. */
static int row_multiplied(const Fusing *f, const Group *g) {
    const Map *m = f->flow->map.at[g->map.at[0]];
    if (g->map.n > 2 || (g->map.n == 2 && map_is_reduction(f->flow->map.at[g->map.at[1]])))
        return -1;
    const Val *row = row_of(f->flow, f->env->machine, m);
    return row ? row->read.cont : -1;
}

/* Another product of the row with as many results, that the root ends too; NULL: there is none. */
static Group *other_product(const Fusing *f, const Group *into, int row) {
    const Map *root = f->flow->map.at[into->map.at[into->map.n - 1]];
    for (int v = 0; into->map.n == 2 && v < root->body.val.n; v++) {
        const Val *val = &root->body.val.at[v];
        int by = val->kind == VAL_READ ? f->writer[val->read.cont] : -1;
        Group *g = by < 0 ? NULL : &f->group[f->group_of[by]];
        if (g && may_join(f, &(Joining){g, into, NULL}) && row_multiplied(f, g) == row &&
            !val->has_else && access_covers(root, &val->read))
            return g;
    }
    return NULL;
}

void join_prologue(Fusing *f, int root) {
    Group *into = &f->group[root];
    if (!f->env->machine->block_threads || into->gone || into->complete) return;
    int row = row_multiplied(f, into), by = row < 0 ? -1 : f->writer[row];
    if (by < 0) return;
    Group *too = other_product(f, into, row), *g = &f->group[f->group_of[by]];
    if (!may_join(f, &(Joining){g, into, too})) return;
    for (int i = 0; i < g->map.n; i++)
        if (!is_little(f->flow, f->flow->map.at[g->map.at[i]])) return;
    if (g->map.n + into->map.n + (too ? too->map.n : 0) > KERNEL_MAPS) return;
    if (too) groups_join(f, too, into);
    groups_join(f, g, into);
    into->complete = true;
}
