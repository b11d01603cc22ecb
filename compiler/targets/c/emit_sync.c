/* SPDX-License-Identifier: Apache-2.0 */
/* Where the walk needs barriers. What kernels did since the last one is remembered: containers read
 * and written, and whether thread 0 alone did it. A kernel needs a barrier before it when it reads
 * what others may still write, or writes what others may still read, in the same container or in
 * memory that the two share. Two kernels that write one container write different elements (a flow
 * is single-assignment), so a margin is filled beside the kernel that fills the inside. Calls,
 * loops, branches and kernels in several phases keep a barrier on either side. */
#include "c_program.h"

static bool aliased(const CProgram *p, int cont) {
    for (int i = 0; i < p->flow->alias.n; i++)
        if (p->flow->alias.at[i].cont == cont || p->flow->alias.at[i].of == cont) return true;
    return false;
}

static bool is_port(const CProgram *p, int cont) {
    ContKind kind = p->flow->cont.at[cont].kind;
    return kind == CONT_IN || kind == CONT_OUT;
}

static bool in_arena(const CProgram *p, int cont) {
    return p->heap[cont] < 0 && p->flow->cont.at[cont].place == PLACE_ARENA;
}

/* Does container a provably end where b begins, or before? */
static bool ends_before(const CProgram *p, const Cont *a, const Cont *b) {
    return dim_le(p->ctx, dim_add(p->ctx, a->offset, cont_bytes(p, a)), b->offset, &p->env);
}

/* May two containers share memory? */
static bool share_memory(const CProgram *p, int a, int b) {
    if (aliased(p, a) || aliased(p, b)) return true;
    if (is_port(p, a) && is_port(p, b)) return p->flow->cont.at[a].kind != p->flow->cont.at[b].kind;
    if (!in_arena(p, a) || !in_arena(p, b)) return false;
    const Cont *x = &p->flow->cont.at[a], *y = &p->flow->cont.at[b];
    return !ends_before(p, x, y) && !ends_before(p, y, x);
}

static bool conflict(const CProgram *p, const ContUse *a, const ContUse *b) {
    if (!a->write && !b->write) return false;
    if (a->cont != b->cont) return share_memory(p, a->cont, b->cont);
    bool apart = a->write && b->write && dtype_bits(p->flow->cont.at[a->cont].type) >= 8;
    return !apart || aliased(p, a->cont);
}

static bool reads(const CProgram *p, const Kernel *kernel, int cont) {
    for (int i = 0; i < kernel->map.n; i++) {
        const Body *b = &p->flow->map.at[kernel->map.at[i]]->body;
        for (int v = 0; v < b->val.n; v++)
            if (b->val.at[v].kind == VAL_READ && b->val.at[v].read.cont == cont) return true;
    }
    return false;
}

ContUses kernel_uses(const CProgram *p, int kernel, bool serial) {
    ContUses uses = {0};
    const Nest *nest = p->program->nest.at[kernel];
    for (int i = 0; i < nest->buf.n; i++) {
        const Buf *buf = &nest->buf.at[i];
        if (buf->kind != BUF_MEMORY) continue;
        bool read = !buf->written || reads(p, p->flow->kernel.at[kernel], buf->cont);
        if (read) vec_push(p->arena, &uses, ((ContUse){buf->cont, false, serial}));
        if (buf->written) vec_push(p->arena, &uses, ((ContUse){buf->cont, true, serial}));
    }
    return uses;
}

static bool needs_barrier(const CProgram *p, const ContUses *uses) {
    for (int i = 0; i < p->pending.n; i++)
        for (int k = 0; k < uses->n; k++) {
            const ContUse *a = &p->pending.at[i], *b = &uses->at[k];
            if (!(a->serial && b->serial) && conflict(p, a, b)) return true;
        }
    return false;
}

static void remember_uses(CProgram *p, const ContUses *uses) {
    for (int k = 0; k < uses->n; k++) vec_push(p->arena, &p->pending, uses->at[k]);
}

const Alias *unless_shared(const CProgram *p, int map) {
    int from, to, dim;
    if (flow_carries_over(p->flow, p->flow->map.at[map], &from, &to, &dim))
        for (int i = 0; i < p->flow->alias.n; i++) {
            const Alias *a = &p->flow->alias.at[i];
            if (a->when && a->cont == to && a->of == from) return a;
        }
    return NULL;
}

/* ---- who has worked -------------------------------------------------------------------------- */

static void barrier(CProgram *p) {
    if (p->host->device) return;
    open_span(p);
    program_line(p, "weir_rt_barrier(f, t, n);");
    close_span(p, -1);
}

void close_serial(CProgram *p) {
    if (p->state != AFTER_SERIAL || p->alone) return;
    p->indent--;
    program_line(p, "}");
    p->state = AFTER_ALL;
}

void worked(CProgram *p) {
    if (p->alone) return;
    p->state = AFTER_ALL;
    p->known = false;
}

void sync_all(CProgram *p) {
    if (p->alone) return;
    close_serial(p);
    if (p->state != AFTER_NOTHING) barrier(p);
    p->state = AFTER_NOTHING;
    p->pending.n = 0;
    p->known = true;
}

static void open_serial(CProgram *p) {
    if (p->state == AFTER_SERIAL || p->host->device) return;
    program_line(p, "if (t == 0) {");
    p->indent++;
    p->state = AFTER_SERIAL;
}

void sync_serial(CProgram *p) {
    bool alone = p->state == AFTER_SERIAL;
    for (int i = 0; i < p->pending.n; i++) alone &= p->pending.at[i].serial;
    if (!alone) sync_all(p);
    open_serial(p);
    p->known = false;
}

/* A barrier only if what came before since the last one asks for it. */
void sync_kernel(CProgram *p, int kernel, bool serial) {
    if (p->alone) return;
    ContUses uses = kernel_uses(p, kernel, serial);
    if (!p->known || needs_barrier(p, &uses)) {
        if (serial && !p->known)
            sync_serial(p);
        else
            sync_all(p);
    }
    if (serial)
        open_serial(p);
    else
        close_serial(p);
    remember_uses(p, &uses);
}
