/* SPDX-License-Identifier: Apache-2.0 */
/* The bridge to isl.
 *
 * Each question is answered in three steps. First by intervals (dim_ge0 and bounds), which decides
 * boxes. Then a `Plan` is made, in our own memory: the list of parameters (symbols, and products or
 * quotients of symbols, which isl cannot express) and of the constraints on them and on the dims; a
 * failure leaves by longjmp only here. Last the plan becomes isl objects, with no allocation of
 * ours in between, so that none of them is ever left behind. All spaces of a query have the same
 * parameters, by position, so nothing needs aligning. */
#include "poly.h"

#include <isl/aff.h>
#include <isl/ctx.h>
#include <isl/map.h>
#include <isl/options.h>
#include <isl/set.h>
#include <isl/space.h>
#include <isl/val.h>

#include "dim_private.h"

enum { MAX_DIMS = 40, MAX_OPERATIONS = 400000 };

struct PolyCtx {
    isl_ctx *isl;
};

static void release(void *isl) {
    isl_ctx_free(isl);
}

static isl_ctx *isl_of(Ctx *ctx) {
    if (!ctx->priv->poly) {
        struct PolyCtx *poly = NEW(ctx_arena(ctx), struct PolyCtx);
        poly->isl = isl_ctx_alloc();
        if (!poly->isl) fail(ctx, E_MEMORY, "no memory for isl; give the process more memory");
        arena_defer(ctx_arena(ctx), release, poly->isl);
        isl_options_set_on_error(poly->isl, ISL_ON_ERROR_CONTINUE);
        ctx->priv->poly = poly;
    }
    return ctx->priv->poly->isl;
}

/* ---- the plan -------------------------------------------------------------------------------- */

typedef struct Plan {
    Ctx *ctx;
    Arena *arena;
    const DimEnv *env;
    VEC(Dim) param; /* a symbol, or a product or quotient that is a parameter of its own */
    VEC(Dim) bound; /* each >= 0, over parameters */
    bool relaxed;   /* the bounds allow more than the truth */
} Plan;

/* One relation, made affine: dims (some fresh), constraints, indices. */
typedef struct Rel {
    Dim sym[MAX_DIMS];
    int n;
    VEC(Dim) cons;
    VEC(Dim) index;
    bool approximate; /* a superset of the truth */
} Rel;

static bool plan_dim(Plan *plan, const Rel *rel, Dim d);

static int param_find(const Plan *plan, Dim p) {
    for (int i = 0; i < plan->param.n; i++)
        if (plan->param.at[i] == p) return i;
    return -1;
}

static void bound_add(Plan *plan, Dim nonneg) {
    static const Rel none;
    if (nonneg && plan_dim(plan, &none, nonneg)) vec_push(plan->arena, &plan->bound, nonneg);
}

static void bound_symbol(Plan *plan, Dim p) {
    for (int i = 0; i < plan->env->n; i++) {
        const DimRange *r = &plan->env->at[i];
        if (r->sym != p) continue;
        if (r->lo) bound_add(plan, try_sub(plan->ctx, p, r->lo));
        if (r->hi) bound_add(plan, try_sub(plan->ctx, r->hi, p));
        return;
    }
}

/* A product: constant bounds, and it is at least each factor when the rest is at least 1. */
static void bound_product(Plan *plan, Dim p) {
    Ctx *ctx = plan->ctx;
    Dim low = dim_lower(ctx, p, plan->env), high = dim_upper(ctx, p, plan->env);
    plan->relaxed = true;
    if (low && dim_is_const(low, NULL)) bound_add(plan, try_sub(ctx, p, low));
    if (high && dim_is_const(high, NULL)) bound_add(plan, try_sub(ctx, high, p));
    for (int k = 0; k < p->term->natoms && p->term->natoms > 1; k++) {
        Dim f = try_term(ctx, 1, mono_atom(ctx, p->term->atom[k])), rest;
        if (!dim_divides(ctx, p, f, &rest) || !dim_ge0(ctx, f, plan->env)) continue;
        Dim more = try_sub(ctx, p, f);
        if (dim_ge0(ctx, dim_addc(ctx, rest, -1), plan->env)) bound_add(plan, more);
    }
}

static void param_add(Plan *plan, Dim p) {
    if (param_find(plan, p) >= 0) return;
    vec_push(plan->arena, &plan->param, p);
    if (dim_sym_name(p))
        bound_symbol(plan, p);
    else
        bound_product(plan, p);
}

static int rel_find(const Rel *rel, const Atom *atom) {
    for (int i = 0; i < rel->n; i++)
        if (dim_sym_name(rel->sym[i]) == atom->name) return i;
    return -1;
}

static bool uses_dims(const Rel *rel, Dim d) {
    for (int i = 0; i < rel->n; i++)
        if (dim_uses(d, rel->sym[i])) return true;
    return false;
}

/* Can isl express the term? Its parameters are added on the way. */
static bool plan_term(Plan *plan, const Rel *rel, const DimTerm *t) {
    if (!t->natoms) return true;
    const Atom *atom = t->atom[0];
    int64_t c;
    Dim whole = try_term(plan->ctx, 1, term_mono(t));
    if (t->natoms == 1 && atom->kind == ATOM_SYM) {
        if (rel_find(rel, atom) < 0) param_add(plan, whole);
        return true;
    }
    bool divides = atom->kind == ATOM_DIV || atom->kind == ATOM_MOD;
    if (t->natoms == 1 && divides && dim_is_const(atom->b, &c) && c > 0)
        return plan_dim(plan, rel, atom->a);
    if (t->natoms == 1 && !divides)
        return plan_dim(plan, rel, atom->a) && plan_dim(plan, rel, atom->b);
    if (uses_dims(rel, whole)) return false;
    param_add(plan, whole);
    return true;
}

static bool plan_dim(Plan *plan, const Rel *rel, Dim d) {
    bool ok = true;
    for (int i = 0; i < d->nterms && ok; i++) ok = plan_term(plan, rel, &d->term[i]);
    return ok;
}

static void plan_cons(Plan *plan, Rel *rel, Dim nonneg) {
    if (nonneg && plan_dim(plan, rel, nonneg))
        vec_push(plan->arena, &rel->cons, nonneg);
    else
        rel->approximate = true;
}

static void plan_dim_range(Plan *plan, Rel *rel, Dim sym, Dim extent) {
    plan_cons(plan, rel, sym);
    plan_cons(plan, rel, try_sub(plan->ctx, dim_addc(plan->ctx, extent, -1), sym));
}

/* False when the relation cannot be expressed, not even as a superset. */
static bool plan_rel(Plan *plan, Rel *rel, const PolyRel *from) {
    Ctx *ctx = plan->ctx;
    const PolyDomain *domain = &from->domain;
    const PolyAccess *access = &from->access;
    if (domain->ndims + access->rank > MAX_DIMS) return false;
    for (int i = 0; i < domain->ndims; i++) rel->sym[rel->n++] = domain->sym[i];
    for (int i = 0; i < domain->ndims; i++)
        plan_dim_range(plan, rel, domain->sym[i], domain->extent[i]);
    for (int i = 0; i < domain->ncons; i++) plan_cons(plan, rel, domain->cons[i]);
    for (int k = 0; k < access->rank; k++) {
        Dim index = access->index[k];
        if (!plan_dim(plan, rel, index)) {
            if (!access->shape) return false;
            rel->approximate = true;
            index = rel->sym[rel->n++] = dim_sym(ctx, internf(ctx, "?%d", k));
            plan_dim_range(plan, rel, index, access->shape[k]);
        } else if (access->clip && access->shape) {
            plan_dim_range(plan, rel, index, access->shape[k]);
        }
        vec_push(plan->arena, &rel->index, index);
    }
    return true;
}

/* ---- into isl -------------------------------------------------------------------------------- */

typedef struct Build {
    isl_ctx *isl;
    const Plan *plan;
    const Rel *rel;
} Build;

static __isl_give isl_space *space_of(const Build *b) {
    return isl_space_set_alloc(b->isl, (unsigned)b->plan->param.n, (unsigned)b->rel->n);
}

static __isl_give isl_pw_aff *pw_dim(const Build *b, Dim d);

static __isl_give isl_pw_aff *pw_atom(const Build *b, const Atom *atom) {
    isl_pw_aff *x = pw_dim(b, atom->a);
    int64_t c;
    if (atom->kind == ATOM_MIN) return isl_pw_aff_min(x, pw_dim(b, atom->b));
    if (atom->kind == ATOM_MAX) return isl_pw_aff_max(x, pw_dim(b, atom->b));
    if (!dim_is_const(atom->b, &c)) BUG("a quotient by a symbol is a parameter");
    isl_val *by = isl_val_int_from_si(b->isl, c);
    if (atom->kind == ATOM_MOD) return isl_pw_aff_mod_val(x, by);
    return isl_pw_aff_floor(isl_pw_aff_scale_down_val(x, by));
}

/* Symbols, parameters and the constant go into one affine expression; the rest is added to it. The
 * dims of single terms exist since the plan was made, so nothing is allocated here. */
static __isl_give isl_pw_aff *pw_dim(const Build *b, Dim d) {
    isl_aff *plain = isl_aff_zero_on_domain(isl_local_space_from_space(space_of(b)));
    isl_pw_aff *rest = NULL;
    for (int i = 0; i < d->nterms; i++) {
        const DimTerm *t = &d->term[i];
        isl_val *coef = isl_val_int_from_si(b->isl, t->coef);
        int p = -1, k = -1;
        if (t->natoms) p = param_find(b->plan, try_term(b->plan->ctx, 1, term_mono(t)));
        if (t->natoms == 1 && t->atom[0]->kind == ATOM_SYM) k = rel_find(b->rel, t->atom[0]);
        if (!t->natoms) {
            plain = isl_aff_set_constant_val(plain, coef);
        } else if (k >= 0) {
            plain = isl_aff_set_coefficient_val(plain, isl_dim_in, k, coef);
        } else if (p >= 0) {
            plain = isl_aff_set_coefficient_val(plain, isl_dim_param, p, coef);
        } else {
            isl_pw_aff *x = isl_pw_aff_scale_val(pw_atom(b, t->atom[0]), coef);
            rest = rest ? isl_pw_aff_add(rest, x) : x;
        }
    }
    isl_pw_aff *sum = isl_pw_aff_from_aff(plain);
    return rest ? isl_pw_aff_add(sum, rest) : sum;
}

static __isl_give isl_set *build_domain(const Build *b) {
    isl_set *set = isl_set_universe(space_of(b));
    for (int i = 0; i < b->plan->bound.n; i++)
        set = isl_set_intersect(set, isl_pw_aff_nonneg_set(pw_dim(b, b->plan->bound.at[i])));
    for (int i = 0; i < b->rel->cons.n; i++)
        set = isl_set_intersect(set, isl_pw_aff_nonneg_set(pw_dim(b, b->rel->cons.at[i])));
    return set;
}

static __isl_give isl_map *build_map(isl_ctx *isl, const Plan *plan, const Rel *rel) {
    Build b = {isl, plan, rel};
    isl_set *domain = build_domain(&b);
    isl_map *map = isl_map_from_domain(isl_set_copy(domain));
    for (int k = 0; k < rel->index.n; k++)
        map = isl_map_flat_range_product(map, isl_map_from_pw_aff(pw_dim(&b, rel->index.at[k])));
    return isl_map_intersect_domain(map, domain);
}

static __isl_give isl_set *build_image(isl_ctx *isl, const Plan *plan, const Rel *rel) {
    return isl_map_range(build_map(isl, plan, rel));
}

/* Starts a query: forgets earlier errors, limits the work. */
static isl_ctx *query(Ctx *ctx) {
    isl_ctx *isl = isl_of(ctx);
    isl_ctx_reset_error(isl);
    isl_ctx_reset_operations(isl);
    isl_ctx_set_max_operations(isl, MAX_OPERATIONS);
    return isl;
}

static PolyAnswer answer(isl_bool yes, bool relaxed) {
    if (yes == isl_bool_error) return POLY_UNKNOWN;
    return yes ? POLY_YES : relaxed ? POLY_UNKNOWN : POLY_NO;
}

/* ---- intervals ------------------------------------------------------------------------------- */

/* The parameters' ranges, then those of the domain's dims. */
static DimEnv env_of(Arena *arena, Ctx *ctx, const DimEnv *params, const PolyDomain *domain) {
    DimRange *at = NEW_ARRAY(arena, DimRange, params->n + domain->ndims);
    for (int i = 0; i < params->n; i++) at[i] = params->at[i];
    for (int i = 0; i < domain->ndims; i++)
        at[params->n + i] = (DimRange){domain->sym[i], dim_const(ctx, 0),
                                       try_sub(ctx, domain->extent[i], dim_const(ctx, 1))};
    return (DimEnv){at, params->n + domain->ndims};
}

static bool apart(Arena *arena, const DimEnv *params, const PolyRel *a, const PolyRel *b) {
    Ctx *ctx = arena_ctx(arena);
    DimEnv ea = env_of(arena, ctx, params, &a->domain), eb = env_of(arena, ctx, params, &b->domain);
    for (int k = 0; k < a->access.rank; k++) {
        Dim ia = a->access.index[k], ib = b->access.index[k];
        Dim gap = try_sub(ctx, dim_lower_from(ctx, ib, &eb, params->n),
                          dim_upper_from(ctx, ia, &ea, params->n));
        if (gap && dim_ge0(ctx, dim_addc(ctx, gap, -1), params)) return true;
        gap = try_sub(ctx, dim_lower_from(ctx, ia, &ea, params->n),
                      dim_upper_from(ctx, ib, &eb, params->n));
        if (gap && dim_ge0(ctx, dim_addc(ctx, gap, -1), params)) return true;
    }
    return false;
}

static bool uses_any(Dim d, const PolyDomain *domain) {
    for (int i = 0; i < domain->ndims; i++)
        if (dim_uses(d, domain->sym[i])) return true;
    return false;
}

/* The write's image as a box lo[k]..hi[k]: each index is a dim of its own plus an offset, or free
 * of dims, and nothing cuts the domain. */
static bool image_box(Ctx *ctx, const PolyRel *w, Dim *lo, Dim *hi) {
    bool used[MAX_DIMS] = {false};
    if (w->domain.ncons || w->access.clip || w->domain.ndims > MAX_DIMS) return false;
    for (int k = 0; k < w->access.rank; k++) {
        Dim coef[MAX_DIMS], off;
        if (!dim_affine(ctx, w->access.index[k], w->domain.sym, w->domain.ndims, coef, &off))
            return false;
        lo[k] = hi[k] = off;
        for (int i = 0, met = 0; i < w->domain.ndims; i++) {
            if (dim_is(coef[i], 0)) continue;
            if (!dim_is(coef[i], 1) || used[i] || met++) return false;
            if (uses_any(w->domain.extent[i], &w->domain)) return false;
            used[i] = true;
            hi[k] = try_add(ctx, off, try_sub(ctx, w->domain.extent[i], dim_const(ctx, 1)));
        }
        if (!hi[k]) return false;
    }
    return true;
}

static bool inside_box(Arena *arena, const DimEnv *params, const PolyRel *read,
                       const PolyRel *write) {
    Ctx *ctx = arena_ctx(arena);
    Dim lo[MAX_DIMS], hi[MAX_DIMS];
    const PolyAccess *r = &read->access;
    if (r->rank > MAX_DIMS || !image_box(ctx, write, lo, hi)) return false;
    DimEnv env = env_of(arena, ctx, params, &read->domain);
    for (int k = 0; k < r->rank; k++) {
        bool clip = r->clip && r->shape;
        bool low = (clip && dim_ge0(ctx, dim_mulc(ctx, lo[k], -1), params)) ||
                   dim_le(ctx, lo[k], r->index[k], &env);
        bool high = (clip && dim_le(ctx, dim_addc(ctx, r->shape[k], -1), hi[k], params)) ||
                    dim_le(ctx, r->index[k], hi[k], &env);
        if (!low || !high) return false;
    }
    return true;
}

/* Every dim in question stands alone, with a constant factor, in some index. */
static bool plainly_injective(Ctx *ctx, const PolyRel *rel, const bool *over) {
    const PolyDomain *d = &rel->domain;
    bool found[MAX_DIMS] = {false};
    if (d->ndims > MAX_DIMS) return false;
    for (int k = 0; k < rel->access.rank; k++) {
        Dim coef[MAX_DIMS], off;
        int alone = -1, met = 0;
        if (!dim_affine(ctx, rel->access.index[k], d->sym, d->ndims, coef, &off)) continue;
        for (int i = 0; i < d->ndims; i++) {
            if (dim_is(coef[i], 0)) continue;
            met++;
            if (dim_is_const(coef[i], NULL)) alone = i;
        }
        if (met == 1 && alone >= 0) found[alone] = true;
    }
    for (int i = 0; i < d->ndims; i++)
        if (!found[i] && (!over || over[i])) return false;
    return true;
}

/* ---- questions ------------------------------------------------------------------------------- */

static PolyAnswer disjoint_in_isl(Plan *plan, const PolyRel *a, const PolyRel *b) {
    Rel ra = {.n = 0}, rb = {.n = 0};
    if (!plan_rel(plan, &ra, a) || !plan_rel(plan, &rb, b)) return POLY_UNKNOWN;
    isl_ctx *isl = query(plan->ctx);
    isl_set *ia = build_image(isl, plan, &ra), *ib = build_image(isl, plan, &rb);
    isl_bool yes = isl_set_is_disjoint(ia, ib);
    isl_set_free(ia);
    isl_set_free(ib);
    return answer(yes, plan->relaxed || ra.approximate || rb.approximate);
}

PolyAnswer poly_disjoint(Ctx *ctx, const DimEnv *params, const PolyRel *a, const PolyRel *b) {
    Arena *arena = arena_new(ctx);
    Plan plan = {.ctx = ctx, .arena = arena, .env = params};
    ASSERT(a->access.rank == b->access.rank);
    PolyAnswer out = apart(arena, params, a, b) ? POLY_YES : disjoint_in_isl(&plan, a, b);
    arena_free(arena);
    return out;
}

static PolyAnswer covered_in_isl(Plan *plan, const PolyRel *read, const PolyRel *const *writes,
                                 int n) {
    Rel r = {.n = 0}, *w = NEW_ARRAY(plan->arena, Rel, n);
    if (!plan_rel(plan, &r, read)) return POLY_UNKNOWN;
    for (int i = 0; i < n; i++)
        if (!plan_rel(plan, &w[i], writes[i]) || w[i].approximate) return POLY_UNKNOWN;
    isl_ctx *isl = query(plan->ctx);
    isl_set *missing = build_image(isl, plan, &r);
    for (int i = 0; i < n; i++) missing = isl_set_subtract(missing, build_image(isl, plan, &w[i]));
    isl_bool yes = isl_set_is_empty(missing);
    isl_set_free(missing);
    return answer(yes, plan->relaxed || r.approximate);
}

PolyAnswer poly_covered(Ctx *ctx, const DimEnv *params, const PolyRel *read,
                        const PolyRel *const *writes, int nwrites) {
    Arena *arena = arena_new(ctx);
    Plan plan = {.ctx = ctx, .arena = arena, .env = params};
    bool boxed = false;
    for (int i = 0; i < nwrites && !boxed; i++) {
        ASSERT(writes[i]->access.rank == read->access.rank);
        boxed = inside_box(arena, params, read, writes[i]);
    }
    PolyAnswer out = boxed ? POLY_YES : covered_in_isl(&plan, read, writes, nwrites);
    arena_free(arena);
    return out;
}

static PolyAnswer injective_in_isl(Plan *plan, const PolyRel *rel, const bool *over) {
    Rel r = {.n = 0};
    if (!plan_rel(plan, &r, rel)) return POLY_UNKNOWN;
    isl_ctx *isl = query(plan->ctx);
    isl_map *map = build_map(isl, plan, &r);
    for (int i = r.n - 1; i >= 0; i--)
        if (i >= rel->domain.ndims || (over && !over[i]))
            map = isl_map_project_out(map, isl_dim_in, (unsigned)i, 1);
    isl_bool yes = isl_map_is_injective(map);
    isl_map_free(map);
    return answer(yes, plan->relaxed || r.approximate);
}

PolyAnswer poly_injective(Ctx *ctx, const DimEnv *params, const PolyRel *rel, const bool *over) {
    if (plainly_injective(ctx, rel, over)) return POLY_YES;
    Arena *arena = arena_new(ctx);
    Plan plan = {.ctx = ctx, .arena = arena, .env = params};
    PolyAnswer out = injective_in_isl(&plan, rel, over);
    arena_free(arena);
    return out;
}

/* Empty are the points whose index k lies below 0, and those where it lies beyond the shape. */
static PolyAnswer inside_in_isl(Plan *plan, const PolyRel *rel) {
    Ctx *ctx = plan->ctx;
    PolyAnswer worst = POLY_YES;
    for (int k = 0; k < rel->access.rank && worst == POLY_YES; k++) {
        Dim index = rel->access.index[k];
        Dim outside[] = {dim_addc(ctx, dim_mulc(ctx, index, -1), -1),
                         dim_sub(ctx, index, rel->access.shape[k])};
        for (int side = 0; side < 2 && worst == POLY_YES; side++) {
            Rel r = {.n = 0};
            PolyRel points = {rel->domain, {.rank = 0}};
            if (!plan_dim(plan, &r, outside[side]) || !plan_rel(plan, &r, &points))
                return POLY_UNKNOWN;
            plan_cons(plan, &r, outside[side]);
            Build b = {query(ctx), plan, &r};
            isl_set *set = build_domain(&b);
            worst = answer(isl_set_is_empty(set), plan->relaxed || r.approximate);
            isl_set_free(set);
        }
    }
    return worst;
}

PolyAnswer poly_inside(Ctx *ctx, const DimEnv *params, const PolyRel *rel) {
    Arena *arena = arena_new(ctx);
    Plan plan = {.ctx = ctx, .arena = arena, .env = params};
    DimEnv env = env_of(arena, ctx, params, &rel->domain);
    ASSERT(rel->access.shape);
    bool ok = true;
    for (int k = 0; k < rel->access.rank && ok; k++)
        ok = dim_ge0(ctx, rel->access.index[k], &env) &&
             dim_le(ctx, rel->access.index[k], dim_addc(ctx, rel->access.shape[k], -1), &env);
    PolyAnswer out = ok ? POLY_YES : inside_in_isl(&plan, rel);
    arena_free(arena);
    return out;
}
