/* SPDX-License-Identifier: Apache-2.0 */
/* Which kernels need each other's order: one writes what the other reads or writes, in the same
 * container or in the same memory. Two kernels that write one container write different elements
 * (a flow is single-assignment).
 *
 * A container lies in the arena, in one that it is an alias of, or in memory of its own. An output
 * may have an input's where it begins with a copy of it and the caller binds both to one buffer
 * (weir_check_overlap refuses all else). That asks for no order: the copy does not run then, and
 * all others write the output behind the input's rows. */
#include "cuda.h"

typedef struct Extent {
    int root; /* the container whose memory it is; ARENA */
    Dim from, to;
} Extent;
enum { ARENA = -1 };

static const Alias *alias_of(const CProgram *p, int cont) {
    for (int i = 0; i < p->flow->alias.n; i++)
        if (p->flow->alias.at[i].cont == cont && !p->flow->alias.at[i].when)
            return &p->flow->alias.at[i];
    return NULL;
}

static Extent extent_of(const CProgram *p, int cont) {
    Extent at = {cont, dim_const(p->ctx, 0), NULL};
    for (const Alias *a; (a = alias_of(p, at.root)); at.root = a->of) {
        int bits = dtype_bits(p->flow->cont.at[at.root].type);
        Dim bits_in = dim_mulc(p->ctx, a->offset, bits);
        at.from = dim_add(p->ctx, at.from, dim_div(p->ctx, bits_in, dim_const(p->ctx, 8)));
    }
    const Cont *c = &p->flow->cont.at[at.root];
    if (p->heap[at.root] < 0 && c->place == PLACE_ARENA) {
        at.from = dim_add(p->ctx, at.from, c->offset);
        at.root = ARENA;
    }
    at.to = dim_add(p->ctx, at.from, cont_bytes(p, &p->flow->cont.at[cont]));
    return at;
}

static bool share_memory(const CProgram *p, int a, int b) {
    Extent x = extent_of(p, a), y = extent_of(p, b);
    return x.root == y.root && !dim_le(p->ctx, x.to, y.from, &p->env) &&
           !dim_le(p->ctx, y.to, x.from, &p->env);
}

/* Bytes that elements share are written by one kernel at a time. */
static bool conflict(const CProgram *p, const ContUse *a, const ContUse *b) {
    if (!a->write && !b->write) return false;
    if (a->cont != b->cont) return share_memory(p, a->cont, b->cont);
    return !(a->write && b->write) || dtype_bits(p->flow->cont.at[a->cont].type) < 8;
}

bool cuda_depend(const CProgram *p, int a, int b) {
    ContUses x = kernel_uses(p, a, false), y = kernel_uses(p, b, false);
    for (int i = 0; i < x.n; i++)
        for (int k = 0; k < y.n; k++)
            if (conflict(p, &x.at[i], &y.at[k])) return true;
    return false;
}
