/* SPDX-License-Identifier: Apache-2.0 */
/* Part of pass `clean`: what a loop carries and never changes is what it was given.
 *
 * Exporters of loops over all that a body needs carry weights, too, and each iteration hands them
 * on. Read where they stand, they are constants again: packed, folded and laid out as others. */
#include "passes/clean.h"

typedef struct Renaming {
    Editing *e;
    int from, to;
} Renaming;

static void rename_one(const Renaming *r, int *cont) {
    if (*cont == r->from) *cont = r->to;
}

static void rename_call(const Renaming *r, Item *it) {
    Call *call = arena_copy(r->e->arena, it->call, sizeof *call);
    int *in = arena_copy(r->e->arena, call->in, sizeof *in * (size_t)call->nin);
    for (int k = 0; k < call->nin; k++) rename_one(r, &in[k]);
    call->in = in;
    it->call = call;
}

static void rename_items(const Renaming *r, Items *items) {
    for (int i = 0; i < items->n; i++) {
        Item *it = &items->at[i];
        if (it->kind == ITEM_CALL) rename_call(r, it);
        rename_one(r, &it->cond);
        for (int k = 0; k < it->carry.n; k++) {
            rename_one(r, &it->carry.at[k].init);
            rename_one(r, &it->carry.at[k].next);
        }
        rename_items(r, &it->body);
        rename_items(r, &it->other);
    }
}

static void rename_uses(const Renaming *r) {
    const IntVec *readers = &r->e->uses.readers[r->from];
    for (int i = 0; i < readers->n; i++) {
        Map *m = r->e->flow->map.at[readers->at[i]];
        for (int v = 0; v < m->body.val.n; v++)
            if (m->body.val.at[v].kind == VAL_READ) rename_one(r, &m->body.val.at[v].read.cont);
    }
    rename_items(r, &r->e->flow->body);
}

/* Does an iteration hand on what it got, as it is or as a copy of it? */
static bool hands_on(const Editing *e, const Carry *carry) {
    if (carry->next == carry->cur) return true;
    int writer = e->uses.writer[carry->next];
    const Map *m = writer < 0 ? NULL : e->flow->map.at[writer];
    int v = m ? copied(e, m) : -1;
    if (v < 0) return false;
    const Access *to = &m->write.at[0].to[0], *from = &m->body.val.at[v].read;
    return from->cont == carry->cur && from->rank == to->rank && writes_whole(e->flow, m, to) &&
           dims_equal(from->at, to->at, to->rank);
}

static bool alike(const Cont *a, const Cont *b) {
    return a->type == b->type && a->rank == b->rank && dims_equal(a->shape, b->shape, a->rank);
}

static bool drop_carries(Editing *e, Items *items) {
    bool any = false;
    for (int i = 0; i < items->n; i++) {
        Item *it = &items->at[i];
        any |= drop_carries(e, &it->body);
        any |= drop_carries(e, &it->other);
        for (int k = it->carry.n; k-- > 0;) {
            const Carry carry = it->carry.at[k];
            const Cont *cont = e->flow->cont.at;
            if (carry.cur == it->cond || !hands_on(e, &carry) ||
                !alike(&cont[carry.cur], &cont[carry.init]))
                continue;
            for (int j = k + 1; j < it->carry.n; j++) it->carry.at[j - 1] = it->carry.at[j];
            it->carry.n--;
            rename_uses(&(Renaming){e, carry.cur, carry.init});
            uses_count(e);
            any = true;
        }
    }
    return any;
}

bool drop_constant_carries(Editing *e) {
    return drop_carries(e, &e->flow->body);
}
