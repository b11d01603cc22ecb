/* SPDX-License-Identifier: Apache-2.0 */
/* Cutting a kernel out, and making it small.
 *
 * Shrinking: a dim of extent e > to + 16 becomes to + e mod 16. A container's dim then shrinks by
 * what the indices that meet it lose at their ends, sum of coef*(e - e'), the least over all
 * accesses, so nothing leaves its container. Where a write's index adds several dims only the one
 * with the largest coefficient shrinks: elements stay without gaps. */
#include "tools/weir/extract.h"

#include <string.h>

enum { DIMS = RANK_MAX * 4 };

typedef void AccessFn(void *user, Map *map, Access *a, bool write);

static void each_access(Flow *f, AccessFn *fn, void *user) {
    for (int m = 0; m < f->map.n; m++) {
        Map *map = f->map.at[m];
        for (int v = 0; v < map->body.val.n; v++)
            if (map->body.val.at[v].kind == VAL_READ)
                fn(user, map, &map->body.val.at[v].read, false);
        for (int w = 0; w < map->write.n; w++)
            for (int k = 0; k < map->write.at[w].n; k++)
                fn(user, map, (Access *)(uintptr_t)&map->write.at[w].to[k], true);
    }
}

/* ---- extraction ----------------------------------------------------------------------------- */

typedef struct Use {
    bool read, written, elsewhere, shared; /* shared: other maps write it too */
    int number;                            /* in the cut flow */
} Use;

static void note_use(void *user, Map *map, Access *a, bool write) {
    Use *use = user;
    (void)map;
    *(write ? &use[a->cont].written : &use[a->cont].read) = true;
}

static bool in_kernel(const Kernel *k, int map) {
    for (int i = 0; i < k->map.n; i++)
        if (k->map.at[i] == map) return true;
    return false;
}

/* Containers that the rest of the flow reads, carries or gives to the caller. */
static void note_elsewhere(const Flow *f, const Kernel *k, const Items *items, Use *use) {
    for (int i = 0; i < items->n; i++) {
        const Item *it = &items->at[i];
        if (it->kind == ITEM_MAP && !in_kernel(k, it->map)) {
            const Map *map = f->map.at[it->map];
            for (int v = 0; v < map->body.val.n; v++)
                if (map->body.val.at[v].kind == VAL_READ)
                    use[map->body.val.at[v].read.cont].elsewhere = true;
            for (int w = 0; w < map->write.n; w++)
                for (int c = 0; c < map->write.at[w].n; c++)
                    use[map->write.at[w].to[c].cont].shared = true;
        }
        for (int c = 0; it->kind == ITEM_CALL && c < it->call->nin; c++)
            if (it->call->in[c] >= 0) use[it->call->in[c]].elsewhere = true;
        for (int c = 0; c < it->carry.n; c++) use[it->carry.at[c].next].elsewhere = true;
        if (it->kind != ITEM_MAP && it->cond >= 0) use[it->cond].elsewhere = true;
        note_elsewhere(f, k, &it->body, use);
        note_elsewhere(f, k, &it->other, use);
    }
}

static ContKind kind_of(const Cont *c, const Use *use) {
    if (!use->written) return c->kind == CONT_PARAM || c->kind == CONT_LITERAL ? c->kind : CONT_IN;
    return c->kind == CONT_OUT || use->elsewhere ? CONT_OUT : CONT_TMP;
}

static void renumber(void *user, Map *map, Access *a, bool write) {
    const Use *use = user;
    (void)map;
    (void)write;
    a->cont = use[a->cont].number;
}

/* An input that indexes gets the range of what it indexes. */
static void give_range(Flow *f, const Map *map, const Access *a, int k) {
    for (int v = 0; v < map->body.val.n; v++) {
        const Val *val = &map->body.val.at[v];
        int64_t extent;
        if (!val->sym || val->sym != a->at[k] ||
            !dim_is_const(f->cont.at[a->cont].shape[k], &extent))
            continue;
        while (val->kind == VAL_PRIM && val->prim == P_CVT) val = &map->body.val.at[val->arg[0]];
        if (val->kind != VAL_READ) continue;
        Cont *ids = &f->cont.at[val->read.cont];
        if (ids->has_range || ids->kind != CONT_IN || !dtype_is_int(ids->type)) continue;
        ids->has_range = true;
        ids->hi = extent - 1;
    }
}

static void give_ranges(void *user, Map *map, Access *a, bool write) {
    Flow *f = user;
    (void)write;
    for (int k = 0; k < a->rank; k++) give_range(f, map, a, k);
}

static Dim *subst_dims(Flow *f, const Dim *dim, int n, const DimSubst *subst, int ns) {
    Dim *out = NEW_ARRAY(f->arena, Dim, n);
    for (int k = 0; k < n; k++) out[k] = dim_subst(f->ctx, dim[k], subst, ns);
    return out;
}

static void subst_map(Flow *f, Map *map, const DimSubst *subst, int n) {
    for (int d = 0; d < map->dim.n; d++)
        map->dim.at[d].extent = dim_subst(f->ctx, map->dim.at[d].extent, subst, n);
    for (int c = 0; c < map->cons.n; c++)
        map->cons.at[c] = dim_subst(f->ctx, map->cons.at[c], subst, n);
    for (int v = 0; v < map->body.val.n; v++) {
        Val *val = &map->body.val.at[v];
        if (val->index) val->index = dim_subst(f->ctx, val->index, subst, n);
        if (val->kind == VAL_READ)
            val->read.at = subst_dims(f, val->read.at, val->read.rank, subst, n);
    }
    for (int w = 0; w < map->write.n; w++)
        for (int k = 0; k < map->write.at[w].n; k++) {
            Access *to = (Access *)(uintptr_t)&map->write.at[w].to[k];
            to->at = subst_dims(f, to->at, to->rank, subst, n);
        }
}

static void subst_all(Flow *f, const DimSubst *subst, int n) {
    for (int c = 0; c < f->cont.n; c++)
        f->cont.at[c].shape = subst_dims(f, f->cont.at[c].shape, f->cont.at[c].rank, subst, n);
    for (int m = 0; m < f->map.n; m++) subst_map(f, f->map.at[m], subst, n);
}

static bool bound_by_input(const Flow *f, Dim sym) {
    for (int c = 0; c < f->cont.n; c++)
        for (int k = 0; f->cont.at[c].kind == CONT_IN && k < f->cont.at[c].rank; k++)
            if (f->cont.at[c].shape[k] == sym) return true;
    return false;
}

static void loop_vars(const Items *items, Arena *arena, Dim zero, void *list) {
    VEC(DimSubst) *subst = list;
    for (int i = 0; i < items->n; i++) {
        const Item *it = &items->at[i];
        if (it->kind == ITEM_LOOP && it->var) vec_push(arena, subst, (DimSubst){it->var, zero});
        loop_vars(&it->body, arena, zero, list);
        loop_vars(&it->other, arena, zero, list);
    }
}

/* Do these values leave every size that they decide at least 1? */
static bool leaves_sizes(Flow *f, const DimSubst *subst, int n) {
    int64_t size;
    for (int c = 0; c < f->cont.n; c++)
        for (int k = 0; k < f->cont.at[c].rank; k++)
            if (dim_is_const(dim_subst(f->ctx, f->cont.at[c].shape[k], subst, n), &size) &&
                size < 1)
                return false;
    return true;
}

/* Symbols that no input's dim gives become their least value, at least 1 and so large that no size
 * is empty; variables of loops 0. */
static void fix_symbols(Flow *f, const Flow *from) {
    VEC(DimSubst) subst = {0};
    loop_vars(&from->body, f->arena, dim_const(f->ctx, 0), &subst);
    int n = 0, loops = subst.n;
    for (int i = 0; i < f->symbol.n; i++) {
        Symbol s = f->symbol.at[i];
        if (bound_by_input(f, s.sym)) {
            s.upper = NULL;
            f->symbol.at[n++] = s;
        } else {
            vec_push(f->arena, &subst, (DimSubst){s.sym, dim_const(f->ctx, s.lo > 1 ? s.lo : 1)});
        }
    }
    f->symbol.n = n;
    for (int64_t size = 2; size < 1 << 16 && !leaves_sizes(f, subst.at, subst.n); size += size / 2)
        for (int i = loops; i < subst.n; i++) subst.at[i].to = dim_const(f->ctx, size);
    if (subst.n) subst_all(f, subst.at, subst.n);
}

/* ---- parts of containers -------------------------------------------------------------------- */

typedef struct Part {
    Flow *f;
    int cont;
    bool set;
    Dim lo[RANK_MAX], hi[RANK_MAX];
} Part;

static void widen(void *user, Map *map, Access *a, bool write) {
    Part *p = user;
    if (!write || a->cont != p->cont) return;
    DimEnv env = map_env(p->f->arena, p->f, map);
    int outer = flow_env(p->f->arena, p->f).n;
    for (int k = 0; k < a->rank; k++) {
        Dim lo = dim_lower_from(p->f->ctx, a->at[k], &env, outer),
            hi = dim_upper_from(p->f->ctx, a->at[k], &env, outer);
        if (!lo) lo = dim_const(p->f->ctx, 0);
        if (!hi) hi = dim_addc(p->f->ctx, p->f->cont.at[p->cont].shape[k], -1);
        p->lo[k] = p->set ? dim_min(p->f->ctx, p->lo[k], lo) : lo;
        p->hi[k] = p->set ? dim_max(p->f->ctx, p->hi[k], hi) : hi;
    }
    p->set = true;
}

static void move_to_zero(void *user, Map *map, Access *a, bool write) {
    const Part *p = user;
    (void)map;
    (void)write;
    if (a->cont != p->cont) return;
    Dim *at = NEW_ARRAY(p->f->arena, Dim, a->rank);
    for (int k = 0; k < a->rank; k++) at[k] = dim_sub(p->f->ctx, a->at[k], p->lo[k]);
    a->at = at;
}

/* What map `from` writes at `to` comes from input `given` instead. */
static void copy_given(Flow *f, int given, int cont, const Map *from, const Access *to) {
    Map *map = NEW(f->arena, Map);
    *map = (Map){.name = internf(f->ctx, "%s.given", from->name), .body.arena = f->arena};
    for (int v = 0; v < from->body.val.n; v++)
        for (int k = 0; k < to->rank; k++)
            if (from->body.val.at[v].sym && dim_uses(to->at[k], from->body.val.at[v].sym))
                fail(f->ctx, E_UNSUPPORTED,
                     "kernel \"%s\" reads \"%s\", which others write where data says", f->name,
                     f->cont.at[cont].name);
    for (int d = 0; d < from->dim.n; d++)
        if (!map_reduces(from, d)) {
            MapDim dim = from->dim.at[d];
            dim.seq = false;
            vec_push(f->arena, &map->dim, dim);
        }
    int val = map_read(f, map, given, to->at);
    map_write(f, map, cont, to->at, val, NULL);
    Item item = {.kind = ITEM_MAP, .map = f->map.n, .cond = -1};
    vec_push(f->arena, &f->map, map);
    vec_push(f->arena, &f->body, item);
    for (int i = f->body.n - 1; i > 0; i--) f->body.at[i] = f->body.at[i - 1];
    f->body.at[0] = item;
}

/* A container that the kernel reads and others write too: their part is an input. */
static void give_parts(Flow *f, const Flow *flow, const Kernel *kernel, const Use *use) {
    for (int c = 0; c < flow->cont.n; c++) {
        if (!use[c].written || !use[c].shared || !use[c].read) continue;
        const Cont cont = f->cont.at[use[c].number];
        int given = flow_cont(f, internf(f->ctx, "%s.given", cont.name), CONT_IN, cont.type,
                              cont.shape, cont.rank);
        for (int m = 0; m < flow->map.n; m++)
            for (int w = 0; w < flow->map.at[m]->write.n && !in_kernel(kernel, m); w++)
                for (int k = 0; k < flow->map.at[m]->write.at[w].n; k++)
                    if (flow->map.at[m]->write.at[w].to[k].cont == c)
                        copy_given(f, given, use[c].number, flow->map.at[m],
                                   &flow->map.at[m]->write.at[w].to[k]);
    }
}

/* A container that others write too becomes the box that this kernel writes. */
static void cut_parts(Flow *f, const Use *use, int n) {
    for (int c = 0; c < n; c++) {
        if (!use[c].written || !use[c].shared || use[c].read) continue;
        Part p = {.f = f, .cont = use[c].number};
        Cont *cont = &f->cont.at[p.cont];
        each_access(f, widen, &p);
        each_access(f, move_to_zero, &p);
        Dim *shape = NEW_ARRAY(f->arena, Dim, cont->rank);
        for (int k = 0; k < cont->rank; k++)
            shape[k] = dim_addc(f->ctx, dim_sub(f->ctx, p.hi[k], p.lo[k]), 1);
        cont->shape = shape;
    }
}

Flow *flow_extract(Arena *arena, const Flow *flow, const Kernel *kernel) {
    Flow *f = flow_clone(arena, flow);
    Use *use = NEW_ARRAY(arena, Use, f->cont.n);
    note_elsewhere(flow, kernel, &flow->body, use);
    f->map.n = 0;
    f->body.n = f->kernel.n = f->alias.n = 0;
    f->name = kernel->name;
    f->arena_bytes = dim_const(f->ctx, 0);
    Flow *all = flow_clone(arena, flow);
    for (int i = 0; i < kernel->map.n; i++) {
        vec_push(arena, &f->body, (Item){.kind = ITEM_MAP, .map = f->map.n, .cond = -1});
        vec_push(arena, &f->map, all->map.at[kernel->map.at[i]]);
    }
    each_access(f, note_use, use);
    int n = 0;
    for (int c = 0; c < flow->cont.n; c++) {
        if (!use[c].read && !use[c].written) continue;
        Cont cont = all->cont.at[c];
        cont.kind = kind_of(&cont, &use[c]);
        cont.layout = NULL;
        cont.place = PLACE_NONE;
        use[c].number = n;
        f->cont.at[n++] = cont;
    }
    f->cont.n = n;
    each_access(f, renumber, use);
    cut_parts(f, use, flow->cont.n);
    give_parts(f, flow, kernel, use);
    fix_symbols(f, flow);
    each_access(f, give_ranges, f);
    return f;
}

/* ---- shrinking ------------------------------------------------------------------------------ */

typedef struct Shrink {
    Flow *f;
    int64_t to;
    int64_t (*less)[DIMS]; /* by map, by dim: how much smaller the extent becomes */
    bool (*fixed)[DIMS];
    int64_t (*cut)[RANK_MAX]; /* by container, by dim */
} Shrink;

static int map_number(const Shrink *s, const Map *map) {
    for (int m = 0; m < s->f->map.n; m++)
        if (s->f->map.at[m] == map) return m;
    BUG("no map \"%s\"", map->name);
}

static bool coef_of(const Shrink *s, Dim at, Dim sym, int64_t *coef) {
    Dim c, rest;
    *coef = 0;
    if (!dim_uses(at, sym)) return true;
    return dim_affine(s->f->ctx, at, &sym, 1, &c, &rest) && dim_is_const(c, coef);
}

/* Dims whose index is no plain sum stay as they are; of several in a write's index all but one do.
 */
static void fix_dims(void *user, Map *map, Access *a, bool write) {
    Shrink *s = user;
    int m = map_number(s, map);
    for (int k = 0; k < a->rank; k++) {
        int largest = -1;
        int64_t most = 0, coef;
        for (int d = 0; d < map->dim.n; d++) {
            if (!coef_of(s, a->at[k], map->dim.at[d].sym, &coef)) s->fixed[m][d] = true;
            if (coef < 0) s->fixed[m][d] = true;
            if (coef > most) most = coef, largest = d;
        }
        for (int d = 0; write && d < map->dim.n; d++)
            if (d != largest && dim_uses(a->at[k], map->dim.at[d].sym)) s->fixed[m][d] = true;
    }
}

static int64_t lost(const Shrink *s, const Map *map, Dim at) {
    int m = map_number(s, map);
    int64_t sum = 0, coef;
    for (int d = 0; d < map->dim.n; d++)
        if (coef_of(s, at, map->dim.at[d].sym, &coef)) sum += coef * s->less[m][d];
    return sum;
}

static void least_cut(void *user, Map *map, Access *a, bool write) {
    Shrink *s = user;
    (void)write;
    for (int k = 0; k < a->rank; k++) {
        int64_t here = lost(s, map, a->at[k]), *cut = &s->cut[a->cont][k];
        if (*cut < 0 || here < *cut) *cut = here;
    }
}

/* A write must fill its container: where the container shrinks less than the write, the write's
 * dims stay. */
static void match_writes(void *user, Map *map, Access *a, bool write) {
    Shrink *s = user;
    int m = map_number(s, map);
    for (int k = 0; write && k < a->rank; k++) {
        if (lost(s, map, a->at[k]) == s->cut[a->cont][k]) continue;
        for (int d = 0; d < map->dim.n; d++)
            if (dim_uses(a->at[k], map->dim.at[d].sym) && s->less[m][d]) s->fixed[m][d] = true;
    }
}

static int choose_less(Shrink *s) {
    int changed = 0;
    for (int m = 0; m < s->f->map.n; m++)
        for (int d = 0; d < s->f->map.at[m]->dim.n; d++) {
            int64_t e, less = 0;
            if (!s->fixed[m][d] && dim_is_const(s->f->map.at[m]->dim.at[d].extent, &e) &&
                e > s->to + 16)
                less = e - (s->to + e % 16);
            changed += less != s->less[m][d];
            s->less[m][d] = less;
        }
    return changed;
}

static void apply(Shrink *s) {
    Flow *f = s->f;
    for (int m = 0; m < f->map.n; m++)
        for (int d = 0; d < f->map.at[m]->dim.n; d++) {
            MapDim *dim = &f->map.at[m]->dim.at[d];
            dim->extent = dim_addc(f->ctx, dim->extent, -s->less[m][d]);
        }
    for (int c = 0; c < f->cont.n; c++) {
        Cont *cont = &f->cont.at[c];
        Dim *shape = NEW_ARRAY(f->arena, Dim, cont->rank);
        bool smaller = false;
        for (int k = 0; k < cont->rank; k++) {
            int64_t cut = s->cut[c][k] > 0 ? s->cut[c][k] : 0;
            shape[k] = dim_addc(f->ctx, cont->shape[k], -cut);
            smaller = smaller || cut;
        }
        cont->shape = shape;
        if (!smaller || !cont->data) continue;
        cont->kind = cont->kind == CONT_LITERAL ? CONT_PARAM : cont->kind; /* other values */
        cont->data = NULL;
        cont->data_bytes = 0;
    }
}

void flow_shrink(Flow *flow, int64_t to) {
    Shrink s = {.f = flow, .to = to};
    s.less = arena_array(flow->arena, (size_t)flow->map.n + 1, sizeof *s.less);
    s.fixed = arena_array(flow->arena, (size_t)flow->map.n + 1, sizeof *s.fixed);
    s.cut = arena_array(flow->arena, (size_t)flow->cont.n + 1, sizeof *s.cut);
    for (int m = 0; m < flow->map.n; m++)
        if (flow->map.at[m]->dim.n > DIMS || flow->map.at[m]->cons.n) return;
    each_access(flow, fix_dims, &s);
    while (choose_less(&s)) {
        memset(s.cut, 0xff, (size_t)flow->cont.n * sizeof *s.cut);
        each_access(flow, least_cut, &s);
        each_access(flow, match_writes, &s);
    }
    apply(&s);
}

/* ---- plain names ----------------------------------------------------------------------------- */

/* Dims, and values that index, by position: two kernels of one structure get one text. */
static void plain_map(Flow *f, int m) {
    Map *map = f->map.at[m];
    VEC(DimSubst) subst = {0};
    map->name = internf(f->ctx, "m%d", m);
    map->from = NULL;
    for (int d = 0; d < map->dim.n; d++) {
        Dim sym = dim_sym(f->ctx, internf(f->ctx, "d%d", d));
        vec_push(f->arena, &subst, (DimSubst){map->dim.at[d].sym, sym});
        map->dim.at[d].sym = sym;
    }
    for (int v = 0; v < map->body.val.n; v++) {
        Val *val = &map->body.val.at[v];
        val->name = NULL;
        if (!val->sym) continue;
        Dim sym = dim_sym(f->ctx, internf(f->ctx, "r%d", v));
        vec_push(f->arena, &subst, (DimSubst){val->sym, sym});
        val->sym = sym;
        val->name = dim_sym_name(sym);
    }
    if (subst.n) subst_map(f, map, subst.at, subst.n);
}

void flow_plain(Flow *flow) {
    static const char letter[] = {
        [CONT_IN] = 'x',  [CONT_OUT] = 'y',   [CONT_PARAM] = 'w',
        [CONT_TMP] = 't', [CONT_STATE] = 's', [CONT_LITERAL] = 'c',
    };
    int count[sizeof letter] = {0};
    flow->name = "kernel_0";
    for (int c = 0; c < flow->cont.n; c++) {
        Cont *cont = &flow->cont.at[c];
        cont->name = internf(flow->ctx, "%c%d", letter[cont->kind], count[cont->kind]++);
        cont->from = NULL;
    }
    for (int m = 0; m < flow->map.n; m++) plain_map(flow, m);
}
