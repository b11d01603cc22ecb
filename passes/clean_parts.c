/* SPDX-License-Identifier: Apache-2.0 */
/* Containers along dims that a contraction knows apart.
 *
 * Several indices of one dim (heads) that read the same rows of an operand (keys) are two dims of
 * a contraction, of which the operand knows only the outer. The contraction's result then gets two
 * dims too, and so does what is computed from it index by index: every access stays a plain one,
 * on which passes decide what belongs in one kernel. Where a map reduces the dim, shifts it or
 * hands it to the caller, the container keeps its one dim. Products in groups are the same, a group
 * and a column of it; images are not, whose channels are stored in blocks anyway. */
#include "passes/clean.h"

typedef struct Part {
    int cont, k;
} Part;

/* Dims `whole` of containers that become `count` times `by`. */
typedef struct Parts {
    Editing *c;
    Dim whole, count, by;
    VEC(Part) part;
} Parts;

static const Part *part_of(const Parts *p, int cont) {
    for (int i = 0; i < p->part.n; i++)
        if (p->part.at[i].cont == cont) return &p->part.at[i];
    return NULL;
}

/* Does `at` run over the whole dim in m, as one dim or as its two parts, which nobody reduces? */
static bool runs_over(const Parts *p, const Map *m, Dim at) {
    int outer, inner;
    if (!joined_dims(p->c->flow, m, at, &outer, &inner)) {
        for (outer = 0; outer < m->dim.n && m->dim.at[outer].sym != at;) outer++;
        return outer < m->dim.n && m->dim.at[outer].extent == p->whole && !m->dim.at[outer].seq &&
               !map_reduces(m, outer);
    }
    return m->dim.at[outer].extent == p->count && m->dim.at[inner].extent == p->by &&
           !map_reduces(m, outer) && !map_reduces(m, inner);
}

static bool may_part(const Parts *p, int cont, int k) {
    const Cont *c = &p->c->flow->cont.at[cont];
    const Uses *u = &p->c->uses;
    if (c->kind != CONT_TMP || u->held[cont] || c->layout || c->shape[k] != p->whole) return false;
    if (c->rank == RANK_MAX || (k == c->rank - 1 && k)) return false;
    for (int i = 0; i < u->writers[cont].n; i++) {
        const Map *m = p->c->flow->map.at[u->writers[cont].at[i]];
        for (int w = 0; w < m->write.n; w++)
            for (int t = 0; t < m->write.at[w].n; t++) {
                const Access *to = &m->write.at[w].to[t];
                if (to->cont == cont && !runs_over(p, m, to->at[k])) return false;
            }
    }
    for (int i = 0; i < u->readers[cont].n; i++) {
        const Map *m = p->c->flow->map.at[u->readers[cont].at[i]];
        for (int v = 0; v < m->body.val.n; v++) {
            const Val *val = &m->body.val.at[v];
            if (val->kind == VAL_READ && val->read.cont == cont &&
                !runs_over(p, m, val->read.at[k]))
                return false;
        }
    }
    return true;
}

static bool take_apart(Parts *p, int cont, int k);

/* What m writes at the index at which it reads `cont` there. */
static void follow(Parts *p, const Map *m, int cont, int k) {
    for (int v = 0; v < m->body.val.n; v++) {
        const Val *val = &m->body.val.at[v];
        if (val->kind != VAL_READ || val->read.cont != cont) continue;
        for (int w = 0; w < m->write.n; w++)
            for (int t = 0; t < m->write.at[w].n; t++) {
                const Access *to = &m->write.at[w].to[t];
                for (int d = 0; d < to->rank; d++)
                    if (to->at[d] == val->read.at[k]) take_apart(p, to->cont, d);
            }
    }
}

/* Dim k of a container, and those that follow from it; false: it stays one. */
static bool take_apart(Parts *p, int cont, int k) {
    if (part_of(p, cont) || !may_part(p, cont, k)) return false;
    vec_push(p->c->arena, &p->part, ((Part){cont, k}));
    const IntVec *readers = &p->c->uses.readers[cont];
    for (int i = 0; i < readers->n; i++) follow(p, p->c->flow->map.at[readers->at[i]], cont, k);
    return true;
}

/* ---- rewriting ------------------------------------------------------------------------------ */

typedef struct Rewriting {
    const Parts *p;
    DimEnv env;
} Rewriting;

static Access in_parts(const Rewriting *r, const Access *a) {
    Editing *c = r->p->c;
    Ctx *ctx = c->flow->ctx;
    const Part *part = part_of(r->p, a->cont);
    if (!part) return *a;
    Dim *at = NEW_ARRAY(c->arena, Dim, a->rank + 1);
    for (int d = 0; d < a->rank; d++) at[d + (d > part->k)] = a->at[d];
    at[part->k] = dim_simplify(ctx, dim_div(ctx, a->at[part->k], r->p->by), &r->env);
    at[part->k + 1] = dim_simplify(ctx, dim_mod(ctx, a->at[part->k], r->p->by), &r->env);
    return (Access){a->cont, a->rank + 1, at};
}

static int read_in_parts(void *user, Body *b, const Val *read) {
    const Rewriting *r = user;
    if (!part_of(r->p, read->read.cont)) return -1;
    Access from = in_parts(r, &read->read);
    return read->has_else ? body_read_else(b, from, read->type, read->arg[0])
                          : body_read(b, from, read->type);
}

static void rewrite_map(const Parts *p, Map *map) {
    Rewriting r = {p, map_env(p->c->arena, p->c->flow, map)};
    map_rewrite(p->c, map, NULL, 0, read_in_parts, &r);
    for (int w = 0; w < map->write.n; w++)
        for (int t = 0; t < map->write.at[w].n; t++) {
            Access *to = (Access *)&map->write.at[w].to[t];
            *to = in_parts(&r, to);
        }
}

static void rewrite(const Parts *p) {
    Flow *flow = p->c->flow;
    bool *uses = NEW_ARRAY(p->c->arena, bool, flow->map.n);
    for (int i = 0; i < p->part.n; i++) {
        const IntVec *by[2] = {&p->c->uses.readers[p->part.at[i].cont],
                               &p->c->uses.writers[p->part.at[i].cont]};
        for (int b = 0; b < 2; b++)
            for (int m = 0; m < by[b]->n; m++) uses[by[b]->at[m]] = true;
    }
    for (int m = 0; m < flow->map.n; m++)
        if (uses[m]) rewrite_map(p, flow->map.at[m]);
    for (int i = 0; i < p->part.n; i++) {
        Cont *c = &flow->cont.at[p->part.at[i].cont];
        int k = p->part.at[i].k;
        Dim *shape = NEW_ARRAY(p->c->arena, Dim, c->rank + 1);
        for (int d = 0; d < c->rank; d++) shape[d + (d > k)] = c->shape[d];
        shape[k] = p->count, shape[k + 1] = p->by;
        c->shape = shape, c->rank++;
    }
}

/* Does m read an operand at the outer dim that does not know the inner one? */
static bool shares(const Map *m, int outer, int inner) {
    for (int v = 0; v < m->body.val.n; v++) {
        const Val *val = &m->body.val.at[v];
        bool plain = false;
        for (int k = 0; val->kind == VAL_READ && k < val->read.rank; k++)
            plain |= val->read.at[k] == m->dim.at[outer].sym;
        if (plain && !access_uses(m, &val->read, inner)) return true;
    }
    return false;
}

/* Does m multiply matrices, one for each outer index, whose columns the inner one counts? */
static bool in_groups(const Editing *c, const Map *m, int outer, int inner) {
    enum { SEQUENCE_RANK = 3 };
    Contraction r = map_contraction(c->flow, m);
    if (!r.is || r.role[outer] != ROLE_BATCH || r.role[inner] != ROLE_N) return false;
    for (int v = 0; v < m->body.val.n; v++) {
        const Val *val = &m->body.val.at[v];
        for (int k = 0; val->kind == VAL_READ && k < val->read.rank; k++) {
            bool terms = false, rows = false;
            for (int d = 0; d < m->dim.n; d++) {
                bool uses = dim_uses(val->read.at[k], m->dim.at[d].sym);
                terms |= uses && map_reduces(m, d), rows |= uses && r.role[d] == ROLE_M;
            }
            if (val->has_else || (terms && rows)) return false; /* a window */
        }
    }
    return m->write.at[0].to[0].rank <= SEQUENCE_RANK;
}

bool split_shared(Editing *c, int map) {
    const Map *m = c->flow->map.at[map];
    int outer, inner;
    if (m->write.n != 1 || m->write.at[0].n != 1) return false;
    const Access *to = &m->write.at[0].to[0];
    for (int k = 0; k < to->rank; k++) {
        if (!joined_dims(c->flow, m, to->at[k], &outer, &inner) ||
            (!shares(m, outer, inner) && !in_groups(c, m, outer, inner)) ||
            !map_contraction(c->flow, m).is)
            continue;
        Parts p = {c,
                   c->flow->cont.at[to->cont].shape[k],
                   m->dim.at[outer].extent,
                   m->dim.at[inner].extent,
                   {0}};
        if (!take_apart(&p, to->cont, k)) continue;
        rewrite(&p);
        return true;
    }
    return false;
}
