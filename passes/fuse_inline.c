/* SPDX-License-Identifier: Apache-2.0 */
/* Element-wise maps put into what reads them, so that their results are never stored.
 *
 * A map whose container one other map reads, each element once, moves into that reader: the
 * container's bytes, written and read again, vanish, and nothing is computed twice. A map with
 * several such readers moves into all of them where that moves less by the counter, whatever the
 * kernels will be: its own reads are no more bytes than its result, so no reader reads more than
 * before, and the time its repeated work takes is less than that of the bytes it saves (none behind
 * a contraction, whose sum would be stored in its place). So does one that a contraction reads,
 * where register tiles hold most of what shares an element.
 *
 * Where contractions meet in one map (a residual, a sum of many), that map can be the epilogue of
 * one, the last; what stands behind the others stays with them: their results are stored in no more
 * bytes than their sums, and a sum of many goes on from kernel to kernel instead of being read at
 * the end, when no cache holds it any more. */
#include <math.h>
#include <string.h>

#include "passes/fuse.h"
#include "passes/near.h"

static bool any_value(void *user, Dim sym, int64_t *value) {
    (void)user, (void)sym;
    *value = fuse_unknown;
    return true;
}

static double count_of(Dim d) {
    int64_t v;
    return dim_eval(d, any_value, NULL, &v) ? (double)v : INFINITY;
}

/* Bytes of a row of the container, all of which map r reduces; 0: it does not, or slides along. */
static double reduced_row(const Editing *e, const Map *r, int cont) {
    if (!map_is_reduction(r)) return 0;
    const Cont *made = &e->flow->cont.at[cont];
    double row = 0;
    for (int v = 0; v < r->body.val.n; v++) {
        const Val *val = &r->body.val.at[v];
        if (val->kind != VAL_READ || val->read.cont != cont) continue;
        row = (double)dtype_bits(made->type) / 8;
        for (int k = 0; k < made->rank; k++) {
            int d = access_dim(r, &val->read, k);
            if (d < 0 && !dim_is_const(val->read.at[k], NULL)) return 0;
            if (d >= 0 && map_reduces(r, d)) row *= count_of(made->shape[k]);
        }
    }
    return row;
}

/* Of `written` bytes those that lie between their making and their last reader: a few rows, where
 * one reader reduces them and the others go along with it. */
static double bytes_between(const Editing *e, const Machine *machine, int cont, double written) {
    enum { ROWS_TOGETHER = 8 };
    double row = 0;
    for (int i = 0; i < e->uses.readers[cont].n && !machine->block_threads; i++)
        row = fmax(row, reduced_row(e, e->flow->map.at[e->uses.readers[cont].at[i]], cont));
    return row > 0 ? fmin(ROWS_TOGETHER * row, written) : written;
}

static bool repeats_cheaply(const Editing *e, const Machine *machine, int map, int readers) {
    const Map *m = e->flow->map.at[map];
    const Cont *made = &e->flow->cont.at[m->write.at[0].to[0].cont];
    double written = (double)dtype_bits(made->type) / 8;
    for (int k = 0; k < made->rank; k++) written *= count_of(made->shape[k]);
    double read = count_of(move_compulsory(e->arena, e->flow, &map, 1, NULL).bytes) - written;
    if (read > written) return false;
    double saved = written + readers * (written - read);
    double again = (readers - 1) * count_of(move_flops(e->arena, e->flow, m));
    double between = bytes_between(e, machine, m->write.at[0].to[0].cont, written);
    return again / machine->fma_flops < saved / machine_bandwidth(machine, between);
}

/* Is r a contraction whose tiles hold all or half of the indices that share what it reads of cont
 * in rows of memory? Then each element is computed at most twice, beside many products. */
static bool shares_in_tiles(const Editing *e, const Map *r, int cont) {
    enum { SHARED_MOST = 16 };
    Contraction roles = map_contraction(e->flow, r);
    if (!roles.is || e->flow->cont.at[cont].layout) return false;
    double shared = 1;
    bool walks = false;
    for (int v = 0; v < r->body.val.n; v++) {
        const Val *val = &r->body.val.at[v];
        if (val->kind != VAL_READ || val->read.cont != cont) continue;
        if (val->has_else || access_by_value(r, &val->read) || (v != roles.a && v != roles.b))
            return false;
        for (int d = 0; d < r->dim.n; d++)
            if (!access_uses(r, &val->read, d)) shared *= (double)map_extent(r, d, fuse_unknown);
        int last = val->read.rank ? access_dim(r, &val->read, val->read.rank - 1) : -1;
        walks = last >= 0 && !map_reduces(r, last) && map_extent(r, last, 0) > SHARED_MOST;
    }
    return walks && shared <= SHARED_MOST;
}

/* May the only reader of a container, a contraction, compute its elements again? */
static bool computes_again(const Editing *e, const Machine *machine, int map, int cont) {
    const IntVec *readers = &e->uses.readers[cont];
    const Map *m = e->flow->map.at[map];
    if (machine->block_threads || map_is_reduction(m)) return false;
    for (int i = 1; i < readers->n; i++)
        if (readers->at[i] != readers->at[0]) return false;
    const Map *reader = e->flow->map.at[readers->at[0]];
    int near = near_read(machine, e->flow, e->uses.readers, e->uses.writer, reader);
    if (near >= 0 && reader->body.val.at[near].read.cont == cont) return false;
    double bytes = (double)dtype_bits(e->flow->cont.at[cont].type) / 8;
    for (int k = 0; k < e->flow->cont.at[cont].rank; k++)
        bytes *= count_of(e->flow->cont.at[cont].shape[k]);
    double again = 2 * count_of(move_flops(e->arena, e->flow, m)) / machine->fma_flops;
    return bytes > (double)machine->level[1].bytes &&
           again < bytes / machine_bandwidth(machine, bytes) && shares_in_tiles(e, reader, cont);
}

static bool only_reader(const Editing *e, int cont, int map) {
    const IntVec *readers = &e->uses.readers[cont];
    for (int i = 0; i < readers->n; i++)
        if (readers->at[i] != map) return false;
    return true;
}

/* Are elements of the container read at indices that are data? */
static bool picks_elements(const Map *m, int cont) {
    bool picks = false;
    for (int v = 0; v < m->body.val.n; v++) {
        const Val *val = &m->body.val.at[v];
        picks |= val->kind == VAL_READ && val->read.cont == cont && access_by_value(m, &val->read);
    }
    return picks;
}

/* The contraction (or the tiles of one) whose result the container is and only map reads, or
 * -1; what picks elements by data waits for all of them. */
static int contraction_of(const Editing *e, int cont, int map) {
    int writer = e->uses.writer[cont];
    if (writer < 0 || e->uses.held[cont] || !only_reader(e, cont, map)) return -1;
    if (picks_elements(e->flow->map.at[map], cont)) return -1;
    const Map *w = e->flow->map.at[writer];
    return wants_tiles(e->flow, w) || map_straight_line(w) ? writer : -1;
}

int last_contraction(const Editing *e, int map, int not ) {
    const Map *m = e->flow->map.at[map];
    int last = -1;
    for (int v = 0; v < m->body.val.n; v++) {
        const Val *val = &m->body.val.at[v];
        if (val->kind != VAL_READ || val->read.cont == not ) continue;
        int cont = val->read.cont, writer = e->uses.writer[cont];
        int by = contraction_of(e, cont, map);
        bool whole = writer >= 0 && only_reader(e, cont, map) && reads_once(m, cont);
        if (by < 0 && whole && map_plain_write(e->flow->map.at[writer]))
            by = last_contraction(e, writer, not );
        if (by > last) last = by;
    }
    return last;
}

/* The last contraction whose epilogue map can be, as what it makes is no wider than the sum; -1:
 * none. */
static int epilogue_of(const Editing *e, int map, int cont) {
    const Map *m = e->flow->map.at[map];
    int own = -1;
    for (int v = 0; v < m->body.val.n; v++) {
        const Val *val = &m->body.val.at[v];
        if (val->kind != VAL_READ) continue;
        int by = contraction_of(e, val->read.cont, map);
        bool wider = dtype_bits(e->flow->cont.at[cont].type) > dtype_bits(val->type);
        if (by > own && !wider) own = by;
    }
    return own;
}

/* Is map the epilogue of a contraction, and does what it makes go, by way of element-wise maps that
 * make no less of it, to the epilogue of a later one? Maps stand in the order of the program. */
static bool stays_behind(const Editing *e, int map, int cont) {
    int own = epilogue_of(e, map, cont), bits = dtype_bits(e->flow->cont.at[cont].type);
    while (own >= 0 && e->uses.readers[cont].n) {
        int reader = e->uses.readers[cont].at[0];
        if (!only_reader(e, cont, reader)) return false;
        if (last_contraction(e, reader, cont) > own) return true;
        const Access *to = map_plain_write(e->flow->map.at[reader]);
        if (!to || e->uses.writer[to->cont] != reader) return false;
        if (dtype_bits(e->flow->cont.at[to->cont].type) <= bits) return false;
        cont = to->cont;
    }
    return false;
}

/* Does map put the tiles of a strip together (fuse_strips.c)? A reduction cannot in its place, nor
 * can what writes tiles of its own or reads several tiles at once (the gates of a cell). */
static bool ends_strip(const Editing *e, int map, const IntVec *into) {
    StripMaps strip;
    int cont = map_plain_write(e->flow->map.at[map])->cont;
    bool others = false;
    for (int i = 0; i < into->n; i++) {
        const Map *m = e->flow->map.at[into->at[i]];
        others |= map_is_reduction(m) || map_straight_line(m) || reads_of(m, cont) > 1;
    }
    return others && strip_maps(e->flow, e->uses.writer, e->uses.readers, map, &strip);
}

/* Distinct readers of a container when map may move into all of them, else 0. */
static int readers_taking(const Editing *e, const Machine *machine, int map, int cont,
                          IntVec *out) {
    const Map *m = e->flow->map.at[map];
    const IntVec *readers = &e->uses.readers[cont];
    bool joined = !writes_whole(e->flow, m, map_plain_write(m));
    for (int i = 0; i < readers->n; i++) {
        int reader = readers->at[i];
        const Map *r = e->flow->map.at[reader];
        bool seen = false;
        for (int k = 0; k < out->n; k++) seen |= out->at[k] == reader;
        if (seen) continue;
        if (e->uses.home[reader] != e->uses.home[map]) return 0;
        if (!(joined ? reads_joined(e->flow, r, cont) : reads_once(r, cont)) &&
            !computes_again(e, machine, map, cont))
            return 0;
        if (r->body.val.n + m->body.val.n > BODY_MAX) return 0;
        vec_push(e->arena, out, reader);
    }
    return out->n;
}

/* Does m write all of its container, each element at a place of its own? Dims that are one all over
 * m become it; where element-wise code alone reads what m makes, that may run in m's dims. */
static bool covers_elements(Editing *e, Map *m) {
    while (!writes_whole(e->flow, m, map_plain_write(m)))
        if (!join_dims(e, m)) break;
    const Access *to = map_plain_write(m);
    if (writes_whole(e->flow, m, to)) return true;
    const IntVec *readers = &e->uses.readers[to->cont];
    for (int i = 0; i < readers->n; i++)
        if (!map_plain_write(e->flow->map.at[readers->at[i]])) return false;
    return writes_joined(e->flow, m, to);
}

/* From now on `into` reads what map read. */
static void hand_over_reads(Editing *e, int map, const IntVec *into) {
    const Map *m = e->flow->map.at[map];
    for (int v = 0; v < m->body.val.n; v++) {
        if (m->body.val.at[v].kind != VAL_READ) continue;
        IntVec *readers = &e->uses.readers[m->body.val.at[v].read.cont];
        int left = 0;
        for (int i = 0; i < readers->n; i++)
            if (readers->at[i] != map) readers->at[left++] = readers->at[i];
        readers->n = left;
        for (int i = 0; i < into->n; i++) vec_push(e->arena, readers, into->at[i]);
    }
}

/* Dims of a map that read the container where several of its writer's dims make up an index. */
static void dims_of_joined(const Map *m, const Map *writer, bool *joined) {
    const Access *to = map_plain_write(writer);
    for (int v = 0; v < m->body.val.n; v++) {
        const Val *val = &m->body.val.at[v];
        if (val->kind != VAL_READ || val->read.cont != to->cont) continue;
        for (int k = 0; k < to->rank; k++) {
            if (access_dim(writer, to, k) >= 0) continue;
            for (int d = 0; d < m->dim.n; d++)
                joined[d] |= dim_uses(val->read.at[k], m->dim.at[d].sym);
        }
    }
}

static void move_into(Editing *e, const PassEnv *env, int map, const IntVec *into) {
    Map *m = e->flow->map.at[map];
    const Access *to = map_plain_write(m);
    for (int i = 0; i < into->n; i++) {
        Map *reader = e->flow->map.at[into->at[i]];
        bool joined[MAP_DIMS] = {false};
        dims_of_joined(reader, m, joined);
        compose_map(e, m, to, reader);
        split_chosen(e, reader, joined);
    }
    hand_over_reads(e, map, into);
    m->write.n = 0;
    recipe_note(env, "fuse", m->name, "inline");
}

bool turned_copy(const Map *copy, int cont) {
    const Access *to = map_plain_write(copy);
    if (!to || !to->rank || copy->body.val.n != 1 || copy->body.val.at[0].kind != VAL_READ)
        return false;
    const Access *from = &copy->body.val.at[0].read;
    return from->cont == cont && from->rank && from->at[from->rank - 1] != to->at[to->rank - 1];
}

bool turned_behind(const Map *made, const Map *copy, int cont) {
    return map_prims(made) > TURNED_PRIMS && !map_is_reduction(made) && turned_copy(copy, cont);
}

static bool inline_map(Editing *e, const PassEnv *env, int map) {
    Map *m = e->flow->map.at[map];
    const Access *to = map_plain_write(m);
    if (!to || e->flow->cont.at[to->cont].kind != CONT_TMP || e->uses.writer[to->cont] != map)
        return false;
    if (e->uses.held[to->cont] || !covers_elements(e, m)) return false;
    to = map_plain_write(m);
    IntVec into = {0};
    int n = readers_taking(e, env->machine, map, to->cont, &into);
    if (!n || (n > 1 && !repeats_cheaply(e, env->machine, map, n))) return false;
    if (n > 1 && last_contraction(e, map, -1) >= 0) return false;
    if (stays_behind(e, map, to->cont) || ends_strip(e, map, &into)) return false;
    if (turned_behind(m, e->flow->map.at[into.at[0]], to->cont)) return false;
    if (recipe_find(env, "fuse", m->name)) return false;
    move_into(e, env, map, &into);
    return true;
}

/* ---- as a recipe says ------------------------------------------------------------------------ */

/* What forbids that reader computes the elements of cont itself; NULL: nothing. */
static const char *reader_forbids(const Editing *e, int map, int reader, int cont) {
    Ctx *ctx = e->flow->ctx;
    const Map *m = e->flow->map.at[map], *r = e->flow->map.at[reader];
    const char *name = e->flow->cont.at[cont].name;
    if (e->uses.home[reader] != e->uses.home[map])
        return internf(ctx, "\"%s\" reads \"%s\" in another loop or branch", r->name, name);
    if (r->body.val.n + m->body.val.n > BODY_MAX)
        return internf(ctx, "the code of \"%s\" would be too long", r->name);
    for (int v = 0; v < r->body.val.n; v++) {
        const Val *val = &r->body.val.at[v];
        if (val->kind != VAL_READ || val->read.cont != cont) continue;
        if (val->has_else) return internf(ctx, "\"%s\" reads \"%s\" beyond its box", r->name, name);
        if (access_by_value(r, &val->read))
            return internf(ctx, "\"%s\" reads \"%s\" at indices that depend on data", r->name,
                           name);
    }
    return NULL;
}

/* What forbids that map moves into its readers, which go to `into`; NULL: nothing. */
static const char *forbids(Editing *e, int map, IntVec *into) {
    Ctx *ctx = e->flow->ctx;
    const Map *m = e->flow->map.at[map];
    const Access *to = map_plain_write(m);
    if (!to) return "it is no element-wise map";
    const char *name = e->flow->cont.at[to->cont].name;
    if (e->flow->cont.at[to->cont].kind != CONT_TMP || e->uses.held[to->cont])
        return internf(ctx, "\"%s\" is an output, or a call or a loop uses it", name);
    if (e->uses.writer[to->cont] != map || !covers_elements(e, e->flow->map.at[map]))
        return internf(ctx, "it writes a part of \"%s\" only, or in dims that readers lack", name);
    const IntVec *readers = &e->uses.readers[to->cont];
    for (int i = 0; i < readers->n; i++) {
        bool seen = false;
        for (int k = 0; k < into->n; k++) seen |= into->at[k] == readers->at[i];
        const char *why = seen ? NULL : reader_forbids(e, map, readers->at[i], to->cont);
        if (why) return why;
        if (!seen) vec_push(e->arena, into, readers->at[i]);
    }
    return into->n ? NULL : "nobody reads what it makes";
}

/* The recipe's `inline` maps, in its order: what moved first is part of what moves next. */
static void follow_recipe(Editing *e, const PassEnv *env) {
    for (int i = 0; env->recipe && i < env->recipe->decision.n; i++) {
        Decision *d = &env->recipe->decision.at[i];
        if (strcmp(d->pass, "fuse")) continue;
        bool inlined = !strcmp(d->choice, "inline");
        if (!inlined && strcmp(d->choice, "store"))
            recipe_refuse(env->recipe, d->line,
                          "pass \"fuse\" cannot choose \"%s\"; it chooses inline, store",
                          d->choice);
        for (int m = 0; m < e->flow->map.n; m++) {
            if (strcmp(e->flow->map.at[m]->name, d->name)) continue;
            d->asked = true;
            if (!inlined) break;
            IntVec into = {0};
            const char *why = forbids(e, m, &into);
            if (why)
                recipe_refuse(env->recipe, d->line, "\"%s\" cannot move into its readers: %s",
                              d->name, why);
            move_into(e, env, m, &into);
            break;
        }
    }
}

/* Is what m makes wider than all that it reads there? */
static bool widens(const Editing *e, const Map *m) {
    const Access *to = map_plain_write(m);
    int bits = to ? dtype_bits(e->flow->cont.at[to->cont].type) : 0, widest = 0;
    for (int v = 0; v < m->body.val.n; v++) {
        const Val *val = &m->body.val.at[v];
        int of = val->kind == VAL_READ ? dtype_bits(val->type) : 0;
        if (of > widest) widest = of;
    }
    return widest < bits;
}

void fuse_inline(Arena *arena, Flow *flow, const PassEnv *env) {
    Editing e = {.arena = arena, .flow = flow};
    uses_count(&e);
    follow_recipe(&e, env);
    for (int m = 0; m < flow->map.n; m++)
        if (widens(&e, flow->map.at[m])) inline_map(&e, env, m);
    for (bool again = true; again;) {
        again = false;
        for (int m = 0; m < flow->map.n; m++) again |= inline_map(&e, env, m);
    }
    drop_unneeded(&e);
    fuse_pieces(&e, env);
    drop_unneeded(&e);
}
