/* SPDX-License-Identifier: Apache-2.0 */
/* Which containers are weights, where each goes, and the writing.
 *
 * Threads take one weight after another. A dense one is written from the view of the model's file,
 * in parts; another is packed into memory of its own first, so that no more than one tensor per
 * thread is held beside the model. */
#include "weights.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <llvm-c/blake3.h>

enum { ALIGN = 64, PART = 8 << 20, SMALL_LITERAL = 1024 };

/* ---- the plan -------------------------------------------------------------------------------- */

static void mark_items(const Items *items, bool *used) {
    for (int i = 0; i < items->n; i++) {
        const Item *it = &items->at[i];
        for (int k = 0; it->kind == ITEM_CALL && k < it->call->nin; k++)
            if (it->call->in[k] >= 0) used[it->call->in[k]] = true;
        for (int k = 0; k < it->carry.n; k++)
            used[it->carry.at[k].init] = used[it->carry.at[k].next] = true;
        if ((it->kind == ITEM_LOOP || it->kind == ITEM_IF) && it->cond >= 0) used[it->cond] = true;
        mark_items(&it->body, used);
        mark_items(&it->other, used);
    }
}

static bool *mark_used(Arena *arena, const Program *p) {
    const Flow *flow = p->flow;
    bool *used = NEW_ARRAY(arena, bool, flow->cont.n + 1);
    mark_items(&flow->body, used);
    for (int k = 0; k < p->nest.n; k++)
        for (int b = 0; b < p->nest.at[k]->buf.n; b++)
            if (p->nest.at[k]->buf.at[b].cont >= 0) used[p->nest.at[k]->buf.at[b].cont] = true;
    for (int i = 0; i < flow->alias.n; i++)
        if (used[flow->alias.at[i].cont]) used[flow->alias.at[i].of] = true;
    return used;
}

static bool same_layout(const Layout *a, const Layout *b) {
    if (a == b) return true;
    if (!a || !b || a->rank != b->rank || a->has_fill != b->has_fill || a->fill != b->fill)
        return false;
    for (int k = 0; k < a->rank; k++)
        if (a->map[k] != b->map[k] || a->box[k] != b->box[k]) return false;
    return true;
}

/* Tied weights: the same data in the same shape and layout. */
static bool same_weight(const Cont *a, const Cont *b) {
    if (a->data != b->data || a->type != b->type || a->rank != b->rank) return false;
    for (int k = 0; k < a->rank; k++)
        if (a->shape[k] != b->shape[k]) return false;
    return same_layout(a->layout, b->layout);
}

/* Small literals stand in the code. */
static bool is_weight(const Flow *flow, const Cont *c) {
    if (c->kind != CONT_PARAM && c->kind != CONT_LITERAL) return false;
    if (c->kind == CONT_LITERAL && !c->layout && c->data_bytes <= SMALL_LITERAL) return false;
    Pack size =
        pack_plan(flow->arena, flow->ctx,
                  &(Cont){.name = c->name, .type = c->type, .rank = c->rank, .shape = c->shape});
    if (c->data || size.count == 0) return size.count > 0;
    fail(flow->ctx, E_MODEL, "parameter \"%s\" has no data; give the weights with the model",
         c->name);
}

Weights weights_plan(Arena *arena, const Program *program) {
    const Flow *flow = program->flow;
    Weights w = {.offset = NEW_ARRAY(arena, int64_t, flow->cont.n + 1)};
    bool *used = mark_used(arena, program);
    Table *by_data = table_new(arena);
    for (int i = 0; i < flow->cont.n; i++) {
        const Cont *c = &flow->cont.at[i];
        w.offset[i] = -1;
        if (!used[i] || !is_weight(flow, c)) continue;
        int before = (int)(intptr_t)table_get(by_data, c->data) - 1;
        if (before >= 0 && same_weight(c, &flow->cont.at[before])) {
            w.offset[i] = w.offset[before];
            continue;
        }
        table_put(by_data, c->data, (void *)(intptr_t)(i + 1));
        Weight weight = {w.bytes, pack_plan(arena, flow->ctx, c)};
        if (weight.pack.dense && c->data_bytes < pack_bytes(&weight.pack))
            BUG("parameter \"%s\" has %lld bytes of data", c->name, (long long)c->data_bytes);
        w.offset[i] = w.bytes;
        w.bytes += (pack_bytes(&weight.pack) + ALIGN - 1) / ALIGN * ALIGN;
        vec_push(arena, &w.at, weight);
    }
    return w;
}

uint64_t weights_hash(const Weights *w) {
    llvm_blake3_hasher hasher;
    uint64_t hash = 0;
    llvm_blake3_hasher_init(&hasher);
    for (int i = 0; i < w->at.n; i++) {
        const Pack *p = &w->at.at[i].pack;
        llvm_blake3_hasher_update(&hasher, &w->at.at[i].offset, sizeof(int64_t));
        llvm_blake3_hasher_update(&hasher, p->from, (size_t)dtype_bytes(p->type, p->count));
    }
    llvm_blake3_hasher_finalize(&hasher, (uint8_t *)&hash, sizeof hash);
    return hash ? hash : 1;
}

/* ---- writing --------------------------------------------------------------------------------- */

typedef struct Writing {
    const Weights *w;
    const WeightSink *sink;
    atomic_int next;
    atomic_int error; /* errno of the first failure */
} Writing;

static int write_at(int fd, const char *from, int64_t n, int64_t at) {
    while (n > 0) {
        ssize_t done = pwrite(fd, from, (size_t)(n < PART ? n : PART), at);
        if (done < 0 && errno == EINTR) continue;
        if (done <= 0) return done < 0 ? errno : ENOSPC;
        from += done;
        n -= done;
        at += done;
    }
    return 0;
}

static int write_weight(const WeightSink *sink, const Weight *weight) {
    const Pack *p = &weight->pack;
    int64_t bytes = pack_bytes(p), at = sink->start + weight->offset;
    if (sink->to) {
        pack_run(p, (char *)sink->to + weight->offset);
        return 0;
    }
    if (p->dense) return write_at(sink->fd, p->from, bytes, at);
    char *packed = malloc((size_t)bytes);
    if (!packed) return ENOMEM;
    pack_run(p, packed);
    int error = write_at(sink->fd, packed, bytes, at);
    free(packed);
    return error;
}

static void *write_weights(void *user) {
    Writing *writing = user;
    for (int i; !atomic_load(&writing->error) &&
                (i = atomic_fetch_add(&writing->next, 1)) < writing->w->at.n;) {
        int error = write_weight(writing->sink, &writing->w->at.at[i]), none = 0;
        if (error) atomic_compare_exchange_strong(&writing->error, &none, error);
    }
    return NULL;
}

void weights_put(Ctx *ctx, const Weights *w, const WeightSink *sink) {
    enum { MOST = 16 };
    Writing writing = {.w = w, .sink = sink};
    pthread_t thread[MOST];
    int started = 0, jobs = sink->jobs < MOST ? sink->jobs : MOST;
    while (started < jobs - 1 && started < w->at.n - 1 &&
           pthread_create(&thread[started], NULL, write_weights, &writing) == 0)
        started++;
    write_weights(&writing);
    for (int i = 0; i < started; i++) pthread_join(thread[i], NULL);
    int error = atomic_load(&writing.error);
    if (error == ENOMEM)
        fail(ctx, E_MEMORY, "no memory to pack a weight; give the process more memory");
    if (error) fail(ctx, E_FILE, "cannot write \"%s\": %s", sink->path, strerror(error));
}
