/* SPDX-License-Identifier: Apache-2.0 */
/* Margins: a container whose windows read beyond its box gets a larger box, and maps that write the
 * value they are to find there. Inside the contraction no test is left.
 *
 * A temporary is enlarged in place, when all such reads agree on the value; what the caller owns or
 * a loop carries (or what others read with another value) is copied into an enlarged container.
 * Inside a loop that happens in each iteration, for what it makes anew. The value is a constant, or
 * one that the run makes before. */
#include "passes/layout.h"

/* Bounds that depend on sizes are tried up to this. */
enum { REACH_MOST = 31 };

typedef struct Halo {
    int cont;
    Items *list; /* that makes the container, and so its margin, in each of its runs */
    Val value;   /* a constant, or a read of one element: the zero point of codes */
    int64_t low[RANK_MAX], high[RANK_MAX];
    bool any, mixed; /* mixed: reads with another value, or of unknown reach */
} Halo;

/* ---- where margins are made ----------------------------------------------------------------- */

static bool writes(const Layouts *l, const Item *it, int cont) {
    bool any = it->kind == ITEM_MAP && map_writes(l->flow->map.at[it->map], cont);
    for (int k = 0; it->kind == ITEM_CALL && k < it->call->nout; k++)
        any |= it->call->out[k] == cont;
    return any;
}

static Items *list_of(Layouts *l, int map) {
    int at;
    return items_with(&l->flow->body, map, &at);
}

/* The list whose maps or calls write the container, or that runs over what its loop carries; NULL:
 * the caller's. */
static Items *maker_of(const Layouts *l, Items *items, int cont) {
    for (int i = 0; i < items->n; i++) {
        Item *it = &items->at[i];
        if (writes(l, it, cont)) return items;
        for (int k = 0; k < it->carry.n; k++)
            if (it->carry.at[k].cur == cont) return &it->body;
        Items *inner = maker_of(l, &it->body, cont);
        if (!inner) inner = maker_of(l, &it->other, cont);
        if (inner) return inner;
    }
    return NULL;
}

static Items *list_of_cont(Layouts *l, int cont) {
    Items *made = maker_of(l, &l->flow->body, cont);
    return made ? made : &l->flow->body;
}

static bool all_in(Layouts *l, const IntVec *maps, const Items *list) {
    bool all = true;
    for (int k = 0; all && k < maps->n; k++) all = list_of(l, maps->at[k]) == list;
    return all;
}

/* ---- how far reads reach -------------------------------------------------------------------- */

/* A reduction over a window, or straight-line code that reads all of one. */
static bool is_window(const Map *m) {
    return map_is_reduction(m) || map_straight_line(m);
}

/* The least number, of a few, that d is at most whatever the sizes are; false: none is proven. */
static bool few_at_most(Ctx *ctx, Dim d, const DimEnv *env, int64_t *most) {
    if (!d || dim_is_const(d, most)) return d;
    int64_t least = 0;
    *most = REACH_MOST;
    if (!dim_le(ctx, d, dim_const(ctx, *most), env)) return false;
    while (least < *most) {
        int64_t middle = (least + *most) / 2;
        if (dim_le(ctx, d, dim_const(ctx, middle), env))
            *most = middle;
        else
            least = middle + 1;
    }
    return true;
}

/* How far a read reaches beyond the box, by dim; at most so far where that depends on sizes (every
 * second row of an even number of them, or of an odd one). False when no constant bounds it. */
static bool reach(Layouts *l, const Map *m, const Access *a, int64_t *low, int64_t *high) {
    Ctx *ctx = l->flow->ctx;
    DimEnv env = map_env(l->arena, l->flow, m);
    const Cont *c = &l->flow->cont.at[a->cont];
    for (int k = 0; k < a->rank; k++) {
        Dim below = dim_lower(ctx, a->at[k], &env);
        Dim above = dim_upper_from(ctx, dim_sub(ctx, a->at[k], dim_addc(ctx, c->shape[k], -1)),
                                   &env, l->flow->symbol.n);
        int64_t lo, hi;
        if (!below || !dim_is_const(below, &lo) || !few_at_most(ctx, above, &env, &hi))
            return false;
        low[k] = lo < 0 ? -lo : 0;
        high[k] = hi > 0 ? hi : 0;
    }
    return true;
}

static bool is_value(const Val *v) {
    bool one = v->kind == VAL_READ && !v->has_else;
    for (int k = 0; one && k < v->read.rank; k++) one = dim_is_const(v->read.at[k], NULL);
    return v->kind == VAL_CONST || one;
}

static bool same_value(const Val *a, const Val *b) {
    if (a->kind != b->kind) return false;
    return a->kind == VAL_CONST ? a->bits == b->bits : access_equal(&a->read, &b->read);
}

static int put_value(Layouts *l, Map *m, DType type, const Val *value) {
    return value->kind == VAL_CONST ? body_bits(&m->body, type, value->bits)
                                    : map_read(l->flow, m, value->read.cont, value->read.at);
}

static void add_read(Layouts *l, Halo *h, const Map *m, const Val *val) {
    int64_t low[RANK_MAX], high[RANK_MAX];
    const Val *other = &m->body.val.at[val->arg[0]];
    if (!is_window(m) || !is_value(other) || (h->any && !same_value(other, &h->value)) ||
        !reach(l, m, &val->read, low, high)) {
        h->mixed = true;
        return;
    }
    for (int k = 0; k < val->read.rank; k++) {
        if (!h->any || low[k] > h->low[k]) h->low[k] = low[k];
        if (!h->any || high[k] > h->high[k]) h->high[k] = high[k];
    }
    h->any = true;
    h->value = *other;
}

/* What reads in the list ask for; those elsewhere stay as they are. */
static Halo find_halo(Layouts *l, int cont) {
    Halo h = {.cont = cont};
    for (int r = 0; r < l->readers[cont].n; r++) {
        const Map *m = l->flow->map.at[l->readers[cont].at[r]];
        for (int v = 0; v < m->body.val.n; v++) {
            const Val *val = &m->body.val.at[v];
            if (val->kind != VAL_READ || val->read.cont != cont || !val->has_else) continue;
            if (!h.list) h.list = list_of_cont(l, cont);
            if (list_of(l, l->readers[cont].at[r]) == h.list)
                add_read(l, &h, m, val);
            else
                h.mixed = true;
        }
    }
    return h;
}

/* ---- making room ---------------------------------------------------------------------------- */

static const Dim *shifted(Layouts *l, const Halo *h, const Dim *at, int rank) {
    Dim *out = NEW_ARRAY(l->arena, Dim, rank + 1);
    for (int k = 0; k < rank; k++) out[k] = dim_addc(l->flow->ctx, at[k], h->low[k]);
    return out;
}

static const Dim *enlarged(Layouts *l, const Halo *h, const Cont *c) {
    Dim *shape = NEW_ARRAY(l->arena, Dim, c->rank + 1);
    for (int k = 0; k < c->rank; k++)
        shape[k] = dim_addc(l->flow->ctx, c->shape[k], h->low[k] + h->high[k]);
    return shape;
}

/* Is this a window's read of the margin's value that stays within the margin? */
static bool reads_margin(Layouts *l, const Halo *h, const Map *m, const Val *val) {
    int64_t low[RANK_MAX], high[RANK_MAX];
    if (!val->has_else || !is_window(m)) return false;
    const Val *other = &m->body.val.at[val->arg[0]];
    if (!same_value(other, &h->value) || !reach(l, m, &val->read, low, high)) return false;
    for (int k = 0; k < val->read.rank; k++)
        if (low[k] > h->low[k] || high[k] > h->high[k]) return false;
    return true;
}

/* Reads of h->cont in m of the margin now read `to`, shifted, without a test. */
static void move_reads(Layouts *l, const Halo *h, Map *m, int to, bool plain_too) {
    for (int v = 0; v < m->body.val.n; v++) {
        Val *val = &m->body.val.at[v];
        if (val->kind != VAL_READ || val->read.cont != h->cont) continue;
        if (!plain_too && !reads_margin(l, h, m, val)) continue;
        val->read.at = shifted(l, h, val->read.at, val->read.rank);
        val->read.cont = to;
        val->has_else = false;
    }
}

/* Fills one side of dim k's margin: other dims before k over the old box, after k over the new one.
 */
static void fill_side(Layouts *l, const Halo *h, int cont, const Dim *old, int k, int64_t count,
                      bool high, Items *into) {
    if (!count) return;
    Ctx *ctx = l->flow->ctx;
    const Cont *c = &l->flow->cont.at[cont];
    Map *m = flow_map(l->flow, into, internf(ctx, "%s.margin", c->name), c->from);
    Dim at[RANK_MAX];
    for (int d = 0; d < c->rank; d++) {
        Dim extent = d == k ? dim_const(ctx, count) : d < k ? old[d] : c->shape[d];
        at[d] = map_dim(l->flow, m, "m", extent);
        if (d == k && high) at[d] = dim_add(ctx, at[d], old[d]);
        if (d < k || (d == k && high)) at[d] = dim_addc(ctx, at[d], h->low[d]);
    }
    map_write(l->flow, m, cont, at, put_value(l, m, c->type, &h->value), NULL);
}

static void fill_margin(Layouts *l, const Halo *h, int cont, const Dim *old, Items *into) {
    for (int k = 0; k < l->flow->cont.at[cont].rank; k++) {
        fill_side(l, h, cont, old, k, h->low[k], false, into);
        fill_side(l, h, cont, old, k, h->high[k], true, into);
    }
}

/* The enlarged container, margin and all, from the one that the caller owns. */
static void copy_in(Layouts *l, const Halo *h, int to, Items *into) {
    const Cont *c = &l->flow->cont.at[to];
    const char *name = internf(l->flow->ctx, "%s.copy", l->flow->cont.at[h->cont].name);
    Map *m = flow_map(l->flow, into, name, c->from);
    Dim at[RANK_MAX], inside[RANK_MAX];
    for (int k = 0; k < c->rank; k++) {
        at[k] = map_dim(l->flow, m, "m", c->shape[k]);
        inside[k] = dim_addc(l->flow->ctx, at[k], -h->low[k]);
    }
    int other = put_value(l, m, c->type, &h->value);
    map_write(l->flow, m, to, at, map_read_else(l->flow, m, h->cont, inside, other), NULL);
}

static bool touches(const Layouts *l, const Item *it, int cont) {
    bool any = writes(l, it, cont);
    any |= it->kind == ITEM_MAP && map_reads(l->flow->map.at[it->map], cont);
    for (int k = 0; it->kind == ITEM_CALL && k < it->call->nin; k++) any |= it->call->in[k] == cont;
    for (int i = 0; i < it->body.n; i++) any |= touches(l, &it->body.at[i], cont);
    for (int i = 0; i < it->other.n; i++) any |= touches(l, &it->other.at[i], cont);
    return any;
}

/* The place in the list of the first item that touches `cont`. */
static int first_touch(const Layouts *l, const Items *list, int cont) {
    int at = 0;
    while (at < list->n && !touches(l, &list->at[at], cont)) at++;
    return at;
}

/* What is made is put before the first item that touches `cont`. */
static void insert_before(Layouts *l, Items *list, int cont, const Items *made) {
    int at = first_touch(l, list, cont);
    if (at < list->n) items_insert(l->flow, list, at, made);
}

/* Is the margin's value there before the container is? */
static bool value_first(const Layouts *l, const Halo *h) {
    int at = first_touch(l, h->list, h->cont);
    Items rest = {.at = h->list->at + at, .n = h->list->n - at};
    return h->value.kind == VAL_CONST || !maker_of(l, &rest, h->value.read.cont);
}

static void enlarge(Layouts *l, const Halo *h) {
    Cont *c = &l->flow->cont.at[h->cont];
    const Dim *old = c->shape;
    c->shape = enlarged(l, h, c);
    for (int r = 0; r < l->readers[h->cont].n; r++) {
        bool again = false;
        for (int k = 0; k < r; k++) again |= l->readers[h->cont].at[k] == l->readers[h->cont].at[r];
        if (!again) move_reads(l, h, l->flow->map.at[l->readers[h->cont].at[r]], h->cont, true);
    }
    for (int i = 0; i < l->writers[h->cont].n; i++) {
        Map *m = l->flow->map.at[l->writers[h->cont].at[i]];
        for (int w = 0; w < m->write.n; w++) {
            Access *to =
                arena_copy(l->arena, m->write.at[w].to, (size_t)m->write.at[w].n * sizeof *to);
            for (int k = 0; k < m->write.at[w].n; k++)
                if (to[k].cont == h->cont) to[k].at = shifted(l, h, to[k].at, to[k].rank);
            m->write.at[w].to = to;
        }
    }
    Items made = {0};
    fill_margin(l, h, h->cont, old, &made);
    insert_before(l, h->list, h->cont, &made);
}

static void enlarge_copy(Layouts *l, const Halo *h) {
    Cont *c = &l->flow->cont.at[h->cont];
    const Dim *shape = enlarged(l, h, c);
    int rank = c->rank;
    int to = flow_cont(l->flow, internf(l->flow->ctx, "%s.padded", c->name), CONT_TMP, c->type,
                       shape, rank);
    l->flow->cont.at[to].from = l->flow->cont.at[h->cont].from;
    Items made = {0};
    copy_in(l, h, to, &made);
    const IntVec readers = l->readers[h->cont];
    for (int r = 0; r < readers.n; r++)
        if (list_of(l, readers.at[r]) == h->list)
            move_reads(l, h, l->flow->map.at[readers.at[r]], to, false);
    insert_before(l, h->list, to, &made);
}

/* As a recipe says of the margin, or made. */
static bool decide_margin(const Layouts *l, const Cont *c) {
    static const char *const words[] = {"tested", "made", NULL};
    const char *name = internf(l->flow->ctx, "%s.margin", c->name);
    return recipe_decide(l->env, "layout", name, words, true);
}

void layout_halos(Layouts *l) {
    int n = l->flow->cont.n;
    for (int c = 0; c < n; c++) {
        ContKind kind = l->flow->cont.at[c].kind;
        bool movable = l->flow->cont.at[c].type != STRING && !l->flow->cont.at[c].layout;
        if ((kind != CONT_TMP && kind != CONT_IN) || !movable) continue;
        Halo h = find_halo(l, c);
        if (!h.any) continue;
        bool here = all_in(l, &l->readers[c], h.list) && all_in(l, &l->writers[c], h.list);
        bool beyond = false;
        for (int k = 0; k < l->flow->cont.at[c].rank; k++) beyond |= h.low[k] > 0 || h.high[k] > 0;
        if (beyond && !decide_margin(l, &l->flow->cont.at[c])) continue;
        if (here &&
            (!beyond || (kind == CONT_TMP && !h.mixed && !l->held[c] && value_first(l, &h))))
            enlarge(l, &h);
        else if (beyond)
            enlarge_copy(l, &h);
    }
}
