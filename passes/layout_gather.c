/* SPDX-License-Identifier: Apache-2.0 */
/* Operands that are read where data says.
 *
 * A sample of an image reads a few places that the run's data gives, of all channels the same ones.
 * With lanes along places each element is loaded by itself and each lane computes its place; with
 * lanes along channels places are computed once and a vector is loaded, if channels lie side by
 * side. So the image is copied with its channels innermost, where that costs less. */
#include "passes/compose.h"
#include "passes/layout.h"

/* Copying an element, beside a vector that is loaded or stored: both ways through registers. A lane
 * stored apart: each plane's line is fetched, and planes may share a set of the cache. */
static const double COPY_COST = 2, APART_COST = 4;

/* The index of the operand that dim d is and that no value moves, if elements along it lie apart;
 * or -1. */
static int apart(const Layouts *l, const Map *m, const Access *a, int d) {
    const Cont *c = &l->flow->cont.at[a->cont];
    if (c->layout || c->kind == CONT_PARAM || c->type == STRING || !access_by_value(m, a))
        return -1;
    int64_t known; /* planes of sizes that the run tells lie apart, too */
    Dim step = access_step(l->flow, m, a, d, l->lanes);
    if (!step || (dim_is_const(step, &known) && known < 2)) return -1;
    for (int k = 0; k < a->rank; k++)
        if (access_dim(m, a, k) == d) return k;
    return -1;
}

/* The best cost of running the map in lanes as its operands lie. */
static double best_cost(const Layouts *l, const Map *m) {
    double best = -1;
    for (int d = 0; d < m->dim.n; d++) {
        if (m->dim.at[d].seq || map_usual(l->flow, m, d) < 2) continue;
        double cost = lane_cost(l->flow, m, d, l->lanes, true);
        if (best < 0 || cost < best) best = cost;
    }
    return best;
}

/* The first read of a container by which elements along dim d lie apart. */
static bool first_of(const Layouts *l, const Map *m, int v, int d) {
    const Access *a = &m->body.val.at[v].read;
    if (m->body.val.at[v].kind != VAL_READ || apart(l, m, a, d) < 0) return false;
    for (int i = 0; i < v; i++)
        if (m->body.val.at[i].kind == VAL_READ && m->body.val.at[i].read.cont == a->cont)
            return false;
    return true;
}

static bool reads_apart(const Layouts *l, const Map *m, int d) {
    for (int v = 0; v < m->body.val.n; v++)
        if (m->body.val.at[v].kind == VAL_READ && apart(l, m, &m->body.val.at[v].read, d) >= 0)
            return true;
    return false;
}

/* The index of dim d in the map's only result, where lanes along it lie apart and the result may go
 * through a copy; or -1. A sum's does where that is all there is to copy. */
static int turns_result(const Layouts *l, const Map *m, int d) {
    const Access *to = &m->write.at[0].to[0];
    if (m->write.n != 1 || m->write.at[0].n != 1 || !writes_whole(l->flow, m, to) ||
        l->flow->cont.at[to->cont].layout || access_stride(l->flow, m, to, d, l->lanes) == 1)
        return -1;
    for (int k = 0; k < m->dim.n; k++)
        if (m->dim.at[k].seq) return -1;
    if (!map_plain_write(m) && (!map_reads_by_value(m) || reads_apart(l, m, d))) return -1;
    for (int k = 0; k < to->rank - 1; k++)
        if (access_dim(m, to, k) == d) return k;
    return -1;
}

/* What it costs with lanes along dim d if operands that lie apart were copied, and the result if it
 * may be, the copies too; or -1: there is nothing to copy. */
static double copied_cost(const Layouts *l, const Map *m, int d) {
    double cost = lane_cost(l->flow, m, d, l->lanes, true), loads = map_usual_volume(l->flow, m);
    bool turned = turns_result(l, m, d) >= 0, any = false;
    for (int v = 0; v < m->body.val.n; v++) {
        const Val *val = &m->body.val.at[v];
        if (val->kind != VAL_READ || apart(l, m, &val->read, d) < 0) continue;
        cost -= (gather_cost(l->lanes) - 1) * loads;
        if (!first_of(l, m, v, d)) continue;
        const Cont *c = &l->flow->cont.at[val->read.cont];
        double elements = COPY_COST;
        for (int k = 0; k < c->rank; k++) elements *= (double)usual_extent(l->flow, c->shape[k]);
        cost += elements;
        any = true;
    }
    double results = 1;
    for (int k = 0; k < m->dim.n; k++)
        if (!map_reduces(m, k)) results *= (double)map_usual(l->flow, m, k);
    const Access *to = m->write.n ? &m->write.at[0].to[0] : NULL;
    bool beside = to && access_stride(l->flow, m, to, d, l->lanes) == 1;
    if (any) return cost + results * (turned ? COPY_COST : beside ? 0 : APART_COST * l->lanes);
    bool result = turned && map_reads_by_value(m);
    return result ? cost + results * (COPY_COST + 1 - gather_cost(l->lanes)) : -1;
}

/* The dim to run in lanes, as a recipe says of the map or as it costs least; -1: as it is. */
static int copied_dim(const Layouts *l, const Map *m) {
    static const char *const words[] = {"strided", "copied", NULL};
    int best = -1;
    double least = 0;
    for (int d = 0; d < m->dim.n; d++) {
        if (map_reduces(m, d) || m->dim.at[d].seq || map_extent(m, d, 0) < l->lanes) continue;
        double cost = copied_cost(l, m, d);
        if (cost >= 0 && (best < 0 || cost < least)) best = d, least = cost;
    }
    if (best < 0) return -1;
    const char *name = internf(l->flow->ctx, "%s.lanes", m->name);
    return recipe_decide(l->env, "layout", name, words, least < best_cost(l, m)) ? best : -1;
}

static void copy_operands(Layouts *l, int map, int d) {
    const Map *m = l->flow->map.at[map];
    for (int v = 0; v < m->body.val.n; v++) {
        const Access *a = &m->body.val.at[v].read;
        int k = m->body.val.at[v].kind == VAL_READ ? apart(l, m, a, d) : -1;
        if (k >= 0) layout_lane_last(l, map, a->cont, k, m->dim.at[d].sym);
    }
}

/* The result, too, has lanes side by side; a copy puts elements where they belong. */
static void copy_result(Layouts *l, int map, int d) {
    int k = turns_result(l, l->flow->map.at[map], d);
    if (k >= 0) layout_result_last(l, map, k);
}

void layout_gathers(Layouts *l) {
    int nmap = l->flow->map.n;
    for (int i = 0; i < nmap; i++) {
        int d = copied_dim(l, l->flow->map.at[i]);
        if (d < 0) continue;
        copy_result(l, i, d);
        copy_operands(l, i, d);
    }
}
