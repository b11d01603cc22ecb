/* SPDX-License-Identifier: Apache-2.0 */
/* Bounds, single assignment and coverage of a flow's accesses.
 *
 * Proofs are tried in dim.h's algebra first and by isl then. What is refused is what isl finds a
 * counterexample for, at sizes of at least 64 wherever a symbol may be that large: an index that
 * only leaves its box when a dim is 0 or 1 is an error of the input, found when the model runs.
 * What neither can decide passes: the evaluator checks every index. Indices that depend on data are
 * held against the range of their values, when that is known. */
#include "flow_verify.h"

/* ---- relations --------------------------------------------------------------------------- */

typedef struct Relation {
    PolyRel rel;
    Dim sym[3 * RANK_MAX], extent[3 * RANK_MAX], index[RANK_MAX];
} Relation;

static void relation_dim(Relation *r, Dim sym, Dim extent) {
    if (r->rel.domain.ndims == 3 * RANK_MAX) return;
    r->sym[r->rel.domain.ndims] = sym;
    r->extent[r->rel.domain.ndims++] = extent;
}

typedef struct Finder {
    const ValVec *val;
    bool found;
} Finder;

static void find_value(void *user, Dim sym) {
    Finder *finder = user;
    for (int i = 0; i < finder->val->n; i++) finder->found |= finder->val->at[i].sym == sym;
}

static bool uses_data(const Map *map, Dim d) {
    Finder finder = {&map->body.val, false};
    dim_symbols(d, find_value, &finder);
    return finder.found;
}

static bool indexed(const Use *use, Dim sym) {
    for (int k = 0; k < use->access->rank; k++)
        if (dim_uses(use->access->at[k], sym)) return true;
    return false;
}

static bool use_names(const Use *use, Dim sym) {
    if (indexed(use, sym)) return true;
    for (int c = 0; c < use->map->cons.n; c++)
        if (dim_uses(use->map->cons.at[c], sym)) return true;
    return false;
}

/* The constraints of a use. A reduction writes its identity where none of its elements are in the
 * domain, so constraints on reduced dims do not cut what it writes. */
static void relation_cons(FlowVerify *f, Relation *r, const Use *use) {
    const Map *map = use->map;
    Dim *cons = NEW_ARRAY(f->v.arena, Dim, map->cons.n);
    int n = 0;
    for (int c = 0; c < map->cons.n; c++) {
        bool cuts = true;
        for (int d = 0; use->reduces && d < map->dim.n; d++)
            cuts &=
                indexed(use, map->dim.at[d].sym) || !dim_uses(map->cons.at[c], map->dim.at[d].sym);
        if (cuts) cons[n++] = map->cons.at[c];
    }
    r->rel.domain.cons = cons;
    r->rel.domain.ncons = n;
}

/* Loops whose variable the access names are dims too. A data-dependent index is anywhere. */
static const PolyRel *relation(FlowVerify *f, const Use *use) {
    const Cont *cont = &f->flow->cont.at[use->cont];
    Relation *r = NEW(f->v.arena, Relation);
    r->rel.domain.sym = r->sym;
    r->rel.domain.extent = r->extent;
    r->rel.access = (PolyAccess){cont->rank, r->index, cont->shape, use->clip};
    for (int d = 0; use->map && d < use->map->dim.n; d++)
        if (!use->reduces || indexed(use, use->map->dim.at[d].sym))
            relation_dim(r, use->map->dim.at[d].sym, use->map->dim.at[d].extent);
    for (int a = 0; use->map && a < use->naround; a++) {
        const Item *loop = use->around[a].item;
        Dim end = loop->done ? loop->done : loop->trip;
        if (loop->kind == ITEM_LOOP && end && use_names(use, loop->var))
            relation_dim(r, loop->var, end);
    }
    for (int k = 0; k < cont->rank; k++) {
        bool anywhere = !use->map || uses_data(use->map, use->access->at[k]);
        r->index[k] = anywhere ? flow_layout_sym(f->v.ctx, k) : use->access->at[k];
        if (anywhere) relation_dim(r, r->index[k], cont->shape[k]);
    }
    if (use->map) relation_cons(f, r, use);
    return &r->rel;
}

/* ---- bounds ------------------------------------------------------------------------------ */

/* d >= 0 from the ranges, or as the sum of a constraint and what the ranges prove. */
static bool proven(FlowVerify *f, const Map *map, Dim d) {
    DimEnv env = verify_env(&f->v);
    if (dim_ge0(f->v.ctx, d, &env)) return true;
    for (int c = 0; c < map->cons.n; c++)
        if (dim_ge0(f->v.ctx, dim_sub(f->v.ctx, d, map->cons.at[c]), &env)) return true;
    return false;
}

static bool names_dim(const Map *map, Dim d) {
    for (int i = 0; i < map->dim.n; i++)
        if (dim_uses(d, map->dim.at[i].sym)) return true;
    return false;
}

/* Data symbols whose range is free of the map's dims join the parameters; false: one has no such
 * range, so nothing can be said. */
static bool data_env(FlowVerify *f, const Map *map, Dim index, DimEnv *env) {
    VEC(DimRange) range = {0};
    for (int i = 0; i < f->generic.n; i++) vec_push(f->v.arena, &range, f->generic.at[i]);
    for (int i = 0; i < f->v.range.n; i++) {
        DimRange r = f->v.range.at[i];
        if (!dim_uses(index, r.sym) || !uses_data(map, r.sym)) continue;
        if (!r.lo || !r.hi || names_dim(map, r.lo) || names_dim(map, r.hi)) return false;
        vec_push(f->v.arena, &range, r);
    }
    *env = (DimEnv){range.at, range.n};
    return true;
}

void verify_bounds(FlowVerify *f, const Map *map, const Use *use) {
    const Cont *cont = &f->flow->cont.at[use->cont];
    for (int k = 0; k < cont->rank; k++) {
        DimEnv env;
        Dim index = use->access->at[k];
        Dim room = dim_addc(f->v.ctx, dim_sub(f->v.ctx, cont->shape[k], index), -1);
        if (proven(f, map, index) && proven(f, map, room)) continue;
        if (!data_env(f, map, index, &env)) continue;
        Relation r = {.rel = {.access = {1, &index, &cont->shape[k], false}}};
        r.rel.domain = (PolyDomain){0, r.sym, r.extent, map->cons.n, map->cons.at};
        for (int d = 0; d < map->dim.n; d++)
            relation_dim(&r, map->dim.at[d].sym, map->dim.at[d].extent);
        if (poly_inside(f->v.ctx, &env, &r.rel) == POLY_NO)
            complain(&f->v, use->object, map, "index %d of \"%s\", %s, leaves 0..%s", k, cont->name,
                     dim_str(f->v.ctx, index),
                     dim_str(f->v.ctx, dim_addc(f->v.ctx, cont->shape[k], -1)));
    }
}

/* ---- single assignment ------------------------------------------------------------------- */

static bool branches_apart(const Use *a, const Use *b) {
    int n = a->naround < b->naround ? a->naround : b->naround;
    for (int i = 0; i < n && a->around[i].item == b->around[i].item; i++)
        if (a->around[i].other != b->around[i].other) return true;
    return false;
}

/* Does each dim of more than one element stand alone in an index of its own? */
static bool plainly_injective(const PolyRel *rel) {
    for (int d = 0; d < rel->domain.ndims; d++) {
        bool alone = dim_is(rel->domain.extent[d], 1);
        for (int k = 0; k < rel->access.rank; k++)
            alone |= rel->access.index[k] == rel->domain.sym[d];
        if (!alone) return false;
    }
    return true;
}

/* What one turn of the loops around writes: their variables that constraints alone name are of that
 * turn, each of which writes the same elements again. */
static const PolyRel *of_a_turn(FlowVerify *f, const Use *use, const PolyRel *all) {
    Relation *r = NEW(f->v.arena, Relation);
    r->rel = *all;
    r->rel.domain.sym = r->sym;
    r->rel.domain.extent = r->extent;
    r->rel.domain.ndims = 0;
    for (int d = 0; d < all->domain.ndims; d++) {
        bool turn = false;
        for (int a = 0; a < use->naround; a++)
            turn |= use->around[a].item->var == all->domain.sym[d];
        if (!turn || indexed(use, all->domain.sym[d]))
            relation_dim(r, all->domain.sym[d], all->domain.extent[d]);
    }
    return &r->rel;
}

/* Of a reducing write `rel` has the dims that some index uses: two of their points are two
 * elements.
 */
static void verify_injective(FlowVerify *f, const Use *use, const PolyRel *rel) {
    if (!use->map || use->data || plainly_injective(rel)) return;
    rel = of_a_turn(f, use, rel);
    const char *name = f->flow->cont.at[use->cont].name;
    for (int d = 0; use->plain && d < rel->domain.ndims; d++) {
        bool used = dim_is(rel->domain.extent[d], 1);
        for (int k = 0; k < rel->access.rank; k++)
            used |= dim_uses(rel->access.index[k], rel->domain.sym[d]);
        if (!used)
            complain(&f->v, use->object, use->map,
                     "no index of \"%s\" uses \"%s\": a plain write has each element once", name,
                     dim_sym_name(rel->domain.sym[d]));
    }
    if (poly_injective(f->v.ctx, &f->generic, rel, NULL) == POLY_NO)
        complain(&f->v, use->object, use->map,
                 use->plain ? "an element of \"%s\" is written twice"
                            : "an element of \"%s\" is written for several values of the dims that "
                              "its index uses: split them, so that what is reduced stands alone",
                 name);
}

static void verify_pair(FlowVerify *f, const Use *a, const Use *b, const PolyRel *ra,
                        const PolyRel *rb) {
    if (a->data || b->data || branches_apart(a, b)) return;
    bool apart = a->map && b->map && poly_disjoint(f->v.ctx, &f->generic, ra, rb) != POLY_NO;
    if (apart) return;
    complain(&f->v, b->object, b->map, "\"%s\" is also written by \"%s\"",
             f->flow->cont.at[a->cont].name,
             a->map                       ? a->map->name
             : a->item->kind == ITEM_CALL ? a->item->call->name
                                          : "a loop");
}

void verify_writes(FlowVerify *f) {
    int *last = NEW_ARRAY(f->v.arena, int, f->flow->cont.n);
    int *before = NEW_ARRAY(f->v.arena, int, f->write.n);
    const PolyRel **rel = NEW_ARRAY(f->v.arena, const PolyRel *, f->write.n);
    for (int i = 0; i < f->write.n; i++) {
        const Use *use = &f->write.at[i];
        rel[i] = relation(f, use);
        verify_injective(f, use, rel[i]);
        before[i] = last[use->cont];
        last[use->cont] = i + 1;
        for (int k = before[i]; k > 0; k = before[k - 1])
            verify_pair(f, &f->write.at[k - 1], use, rel[k - 1], rel[i]);
    }
}

/* ---- coverage ---------------------------------------------------------------------------- */

/* Every index is a dim of its own that runs over the whole extent. */
static bool covers_all(const Use *write, const PolyRel *rel) {
    if (!write->map) return true;
    if (rel->domain.ncons) return false;
    for (int k = 0; k < rel->access.rank; k++) {
        bool whole = dim_is(rel->access.shape[k], 1) && dim_is(rel->access.index[k], 0);
        for (int d = 0; d < rel->domain.ndims; d++)
            whole |= rel->access.index[k] == rel->domain.sym[d] &&
                     rel->domain.extent[d] == rel->access.shape[k];
        for (int j = 0; j < k && whole; j++)
            whole = rel->access.index[j] != rel->access.index[k] || dim_is(rel->access.shape[k], 1);
        if (!whole) return false;
    }
    return true;
}

static bool in_one_loop(const Use *a, const Use *b) {
    for (int i = 0; i < a->naround && i < b->naround; i++) {
        if (a->around[i].item != b->around[i].item) return false;
        if (a->around[i].item->kind == ITEM_LOOP) return true;
    }
    return false;
}

/* May what `write` writes be there when `read` reads? In loops and seq dims, from an earlier step.
 */
static bool may_see(FlowVerify *f, const Use *write, const Use *read) {
    if (branches_apart(write, read)) return false;
    if (write->position < read->position) return true;
    if (write->map && write->map == read->map)
        return read->seq || f->flow->cont.at[read->cont].kind == CONT_STATE;
    return in_one_loop(write, read) && f->flow->cont.at[read->cont].kind == CONT_STATE;
}

static void verify_read_covered(FlowVerify *f, const Use *read, const int *first, const int *next,
                                const PolyRel *const *rel) {
    VEC(const PolyRel *) writes = {0};
    const Cont *cont = &f->flow->cont.at[read->cont];
    bool later = false;
    for (int i = first[read->cont]; i > 0; i = next[i - 1]) {
        const Use *write = &f->write.at[i - 1];
        later |= !may_see(f, write, read);
        if (!may_see(f, write, read)) continue;
        if (write->data || covers_all(write, rel[i - 1])) return;
        vec_push(f->v.arena, &writes, rel[i - 1]);
    }
    const void *object = read->object;
    if (!writes.n)
        complain(&f->v, object, read->map,
                 later ? "\"%s\" is read before it is written" : "nothing writes \"%s\"",
                 cont->name);
    if (poly_covered(f->v.ctx, &f->generic, relation(f, read), writes.at, writes.n) != POLY_NO)
        return;
    complain(&f->v, object, read->map, "elements of \"%s\" are %s that nothing writes%s",
             cont->name, read->map ? "read" : "needed", later ? " before" : "");
}

void verify_coverage(FlowVerify *f) {
    int *first = NEW_ARRAY(f->v.arena, int, f->flow->cont.n);
    int *next = NEW_ARRAY(f->v.arena, int, f->write.n);
    const PolyRel **rel = NEW_ARRAY(f->v.arena, const PolyRel *, f->write.n);
    for (int i = f->write.n - 1; i >= 0; i--) {
        int cont = f->write.at[i].cont;
        rel[i] = relation(f, &f->write.at[i]);
        next[i] = first[cont];
        first[cont] = i + 1;
    }
    for (int i = 0; i < f->read.n; i++) {
        ContKind kind = f->flow->cont.at[f->read.at[i].cont].kind;
        if (kind == CONT_IN || kind == CONT_PARAM || kind == CONT_LITERAL) continue;
        verify_read_covered(f, &f->read.at[i], first, next, rel);
    }
    for (int c = 0; c < f->flow->cont.n; c++) {
        Use use = {.object = &f->flow->cont.at[c], .cont = c, .position = INT32_MAX};
        if (f->flow->cont.at[c].kind == CONT_OUT) verify_read_covered(f, &use, first, next, rel);
    }
}
