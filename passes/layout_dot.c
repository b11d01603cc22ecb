/* SPDX-License-Identifier: Apache-2.0 */
/* Operands of contractions that an instruction computes in groups of terms. Rows of one operand
 * have room for whole groups; the other, where it is computed at run time, is stored group by group
 * as it is made. Where terms are no whole number of groups, the first holds 0 for those that are
 * missing, and the second what makes no difference then. */
#include "passes/dot.h"
#include "passes/layout.h"
#include "passes/operand.h"

/* How often elements are used at least for which a copy is worth it: one in groups; and one that
 * gathers what lies apart. */
enum { REUSE = 8, TERMS_REUSE = 32 };

void layout_widen_rows(Layouts *l, const Map *m, const Dot *dot) {
    const Access *a = &m->body.val.at[dot->a].read;
    Cont *c = &l->flow->cont.at[a->cont];
    int64_t extent = map_extent(m, dot->k, dot->row->group);
    if (!c->rank || extent % dot->row->group == 0 || c->kind != CONT_TMP || c->layout ||
        l->held[a->cont])
        return;
    Layout *y = NEW(l->arena, Layout);
    Dim *map = NEW_ARRAY(l->arena, Dim, c->rank), *box = NEW_ARRAY(l->arena, Dim, c->rank);
    for (int k = 0; k < c->rank; k++)
        map[k] = flow_layout_sym(l->flow->ctx, k), box[k] = c->shape[k];
    int64_t more = dot->row->group - extent % dot->row->group;
    box[c->rank - 1] = dim_addc(l->flow->ctx, box[c->rank - 1], more);
    *y = (Layout){.rank = c->rank, .map = map, .box = box};
    c->layout = y;
}

/* How many elements the rows of a are short of, so that the last group is a whole one there; -1:
 * not known. They are counted by index `index`. */
static int64_t short_of(const Flow *flow, const Map *m, const Dot *dot, int *index) {
    Ctx *ctx = flow->ctx;
    const Access *a = &m->body.val.at[dot->a].read;
    const Cont *c = &flow->cont.at[a->cont];
    const Layout *y = c->layout;
    Dim sym = m->dim.at[dot->k].sym;
    int64_t group = dot->row->group, extent = map_extent(m, dot->k, 0);
    DimSubst last = {sym, dim_const(ctx, (extent + group - 1) / group * group - 1)};
    DimEnv env = map_env(flow->arena, flow, m);
    for (*index = 0; !dim_uses(a->at[*index], sym); ++*index) continue;
    if (y && y->map[*index] != flow_layout_sym(ctx, *index)) return -1;
    Dim room = dim_addc(ctx, y ? y->box[*index] : c->shape[*index], -1);
    room = dim_sub(ctx, room, dim_subst(ctx, a->at[*index], &last, 1));
    for (int64_t more = 0; more < group; more++)
        if (dim_ge0(ctx, dim_addc(ctx, room, more), &env)) return more;
    return -1;
}

bool layout_widen_image(Layouts *l, const Map *m, const Dot *dot) {
    int cont = m->body.val.at[dot->a].read.cont, k;
    Cont *c = &l->flow->cont.at[cont];
    int64_t more = short_of(l->flow, m, dot, &k);
    if (more <= 0) return more == 0;
    if (c->kind != CONT_TMP || l->held[cont] || !c->layout) return false;
    Layout *y = arena_copy(l->arena, c->layout, sizeof *y);
    Dim *box = arena_copy(l->arena, y->box, sizeof *box * (size_t)y->rank);
    box[k] = dim_addc(l->flow->ctx, box[k], more);
    y->box = box;
    c->layout = y;
    return true;
}

/* ---- terms that are no whole number of groups ------------------------------------------------ */

/* The container holds 0 behind its index k, up to `whole` elements; whoever reads it finds all else
 * where it was. */
static void continue_by_zeros(Layouts *l, int cont, int k, Dim whole) {
    Flow *flow = l->flow;
    Cont *c = &flow->cont.at[cont];
    Dim at[RANK_MAX], old = c->shape[k];
    Dim *shape = arena_copy(l->arena, c->shape, sizeof *shape * (size_t)c->rank);
    Items made = {0};
    Map *m = flow_map(flow, &made, internf(flow->ctx, "%s.zeros", c->name), c->from);
    for (int i = 0; i < c->rank; i++)
        at[i] = map_dim(flow, m, "m", i == k ? dim_sub(flow->ctx, whole, old) : c->shape[i]);
    at[k] = dim_add(flow->ctx, at[k], old);
    shape[k] = whole;
    c->shape = shape;
    map_write(flow, m, cont, at, body_const(&m->body, c->type, 0), NULL);
    layout_insert(l, l->writer[cont], false, &made);
}

/* The index of a temporary, stored as its indices say, that counts the terms, one by one and all of
 * them; or -1. */
static int terms_index(const Layouts *l, const Map *m, const Access *a, int dim) {
    const Cont *c = &l->flow->cont.at[a->cont];
    bool own = c->kind == CONT_TMP && !c->layout && !l->held[a->cont] &&
               l->writers[a->cont].n == 1 && l->writer[a->cont] >= 0 &&
               !read_beyond(l->flow, &l->readers[a->cont], a->cont);
    return own ? access_whole(l->flow, m, a, dim) : -1;
}

/* The terms in whole groups. */
static Dim whole_groups(const Layouts *l, const Map *m, const Dot *dot) {
    Dim group = dim_const(l->flow->ctx, dot->row->group);
    return dim_round_up(l->flow->ctx, m->dim.at[dot->k].extent, group);
}

/* Are terms in whole groups, or can they be continued to be? What follows those of the second
 * operand in a copy may be another head's: times the first one's 0 it is 0 again, if it is a whole
 * number. */
static bool may_complete(const Layouts *l, const Map *m, const Dot *dot) {
    const Access *a = &m->body.val.at[dot->a].read, *b = &m->body.val.at[dot->b].read;
    bool whole = whole_groups(l, m, dot) == m->dim.at[dot->k].extent;
    bool zeros =
        !dtype_is_float(l->flow->cont.at[b->cont].type) || access_whole(l->flow, m, b, dot->k) >= 0;
    return whole || (a->cont != b->cont && terms_index(l, m, a, dot->k) >= 0 && zeros);
}

/* The map's terms in whole groups: the first operand is continued, the second is so already. */
static void complete(Layouts *l, Map *m, const Dot *dot) {
    const Access *a = &m->body.val.at[dot->a].read;
    Dim whole = whole_groups(l, m, dot);
    if (whole == m->dim.at[dot->k].extent) return;
    continue_by_zeros(l, a->cont, terms_index(l, m, a, dot->k), whole);
    m->dim.at[dot->k].extent = whole;
}

/* Are those who read the container besides the contraction, as sums of its terms do, little beside
 * it? */
static bool little_besides(const Layouts *l, int map, int cont) {
    double besides = 0;
    for (int i = 0; i < l->readers[cont].n; i++)
        if (l->readers[cont].at[i] != map)
            besides += map_usual_volume(l->flow, l->flow->map.at[l->readers[cont].at[i]]);
    return besides * REUSE <= map_usual_volume(l->flow, l->flow->map.at[map]);
}

/* The container, whose terms are whole groups, is stored as (.., k/G, lane, k%G): all of it is
 * elements, so that nothing has to be filled. */
static void store_in_groups(Layouts *l, int cont, int k, int lane, int64_t size) {
    Ctx *ctx = l->flow->ctx;
    Cont *c = &l->flow->cont.at[cont];
    Dim group = dim_const(ctx, size);
    Layout *y = NEW(l->arena, Layout);
    Dim *at = NEW_ARRAY(l->arena, Dim, c->rank + 1), *box = NEW_ARRAY(l->arena, Dim, c->rank + 1);
    int r = 0;
    for (int i = 0; i < c->rank; i++)
        if (i != k && i != lane) at[r] = flow_layout_sym(ctx, i), box[r++] = c->shape[i];
    at[r] = dim_div(ctx, flow_layout_sym(ctx, k), group);
    box[r++] = dim_ceildiv(ctx, c->shape[k], group);
    at[r] = flow_layout_sym(ctx, lane), box[r++] = c->shape[lane];
    at[r] = dim_mod(ctx, flow_layout_sym(ctx, k), group), box[r++] = group;
    *y = (Layout){.rank = r, .map = at, .box = box, .has_fill = true};
    c->layout = y;
}

/* Lanes in whole vectors, which the last ones then are read as; one more than a number that is not
 * known needs, so that what is left of it is within them whether it is one or none. */
static Dim whole_lanes(const Layouts *l, Dim lanes) {
    Ctx *ctx = l->flow->ctx;
    Dim most = dim_is_const(lanes, NULL) ? lanes : dim_addc(ctx, lanes, 1);
    return dim_round_up(ctx, most, dim_const(ctx, l->lanes));
}

bool layout_result_groups(Layouts *l, int map, const Dot *dot) {
    Map *m = l->flow->map.at[map];
    const Access *b = &m->body.val.at[dot->b].read;
    int k = terms_index(l, m, b, dot->k), lane = access_plain(m, b, dot->lane);
    if (k < 0 || lane < 0 || !little_besides(l, map, b->cont) || !may_complete(l, m, dot))
        return false;
    Dim whole = whole_groups(l, m, dot);
    if (whole != m->dim.at[dot->k].extent) continue_by_zeros(l, b->cont, k, whole);
    Dim lanes = l->flow->cont.at[b->cont].shape[lane];
    if (whole_lanes(l, lanes) != lanes) continue_by_zeros(l, b->cont, lane, whole_lanes(l, lanes));
    complete(l, m, dot);
    store_in_groups(l, b->cont, k, lane, dot->row->group);
    return true;
}

bool layout_copy_terms(Layouts *l, int map, const Dot *dot) {
    static const char *const words[] = {"strided", "copied", NULL};
    Map *m = l->flow->map.at[map];
    Val *a = &m->body.val.at[dot->a];
    bool worth = map_usual(l->flow, m, dot->lane) >= TERMS_REUSE;
    const char *name = internf(l->flow->ctx, "%s.terms", m->name);
    if (l->flow->cont.at[a->read.cont].kind == CONT_PARAM || !access_uses(m, &a->read, dot->k) ||
        !recipe_decide(l->env, "layout", name, words, worth))
        return false;
    Items made = {0};
    OperandCopy copy = {m, a->read, dot->k, -1, m->dim.at[dot->k].extent, NULL, a->type};
    a->read = operand_copy(l->flow, &copy, "terms", &made);
    layout_insert(l, map, false, &made);
    layouts_survey(l); /* its rows may be widened */
    return true;
}

bool layout_copy_groups(Layouts *l, int map, const Dot *dot) {
    static const char *const words[] = {"strided", "copied", NULL};
    Map *m = l->flow->map.at[map];
    Val *b = &m->body.val.at[dot->b];
    Contraction r = map_contraction(l->flow, m);
    bool worth = contraction_usual(l->flow, m, &r, ROLE_M) >= REUSE;
    if (r.role[dot->lane] != ROLE_N || access_repeats(l->flow, m, &b->read) ||
        !may_complete(l, m, dot))
        return false;
    const char *name = internf(l->flow->ctx, "%s.groups", m->name);
    if (!recipe_decide(l->env, "layout", name, words, worth)) return false;
    Items made = {0};
    OperandCopy copy = {m,
                        b->read,
                        dot->k,
                        dot->lane,
                        whole_groups(l, m, dot),
                        whole_lanes(l, m->dim.at[dot->lane].extent),
                        b->type};
    b->read = operand_copy(l->flow, &copy, "groups", &made);
    complete(l, m, dot);
    store_in_groups(l, b->read.cont, b->read.rank - 2, b->read.rank - 1, dot->row->group);
    layout_insert(l, map, false, &made);
    return true;
}
