/* SPDX-License-Identifier: Apache-2.0 */
/* Races in a nest of blocks and threads: who touched an element last, and was there a barrier
 * since?
 *
 * Watched are the arrays of a block and memory that the nest stores to. The evaluator runs the
 * threads of a block in lockstep, so a race would not show in the result; here it is an error.
 * Between blocks nothing orders anything. Elements smaller than a byte share it. An element of a
 * fragment is one thread's to store and its warp's to read, in whatever order. What a group of
 * asynchronous copies stores is stored, by the thread that asked for it, when that waits for the
 * group; until then nobody may touch it. */
#include "nest_eval.h"

enum { WARP = 32 };

static int64_t unit_of(const NestCode *c, int buf, int64_t element) {
    int bits = dtype_bits(c->nest->buf.at[buf].type);
    return bits < 8 ? element * bits / 8 : element;
}

void nest_touch_begin(NestCode *c) {
    NestThreads *t = c->threads;
    for (int b = 0; b < c->nest->buf.n; b++) {
        const Buf *buf = &c->nest->buf.at[b];
        bool watched = buf->kind == BUF_SHARED || buf->kind == BUF_FRAGMENT ||
                       (buf->kind == BUF_MEMORY && buf->written);
        if (!watched || !c->buf[b].data) continue;
        int64_t count = 1;
        for (int k = 0; k < buf->rank; k++) count *= c->buf[b].dim[k];
        if (t->touch[b] && count <= t->touched[b]) continue;
        t->touch[b] = arena_array(c->arena, (size_t)count + 1, sizeof(NestTouch));
        t->touched[b] = count;
    }
}

static _Noreturn void race(const NestCode *c, const NestStmt *s, int buf, int64_t element,
                           const char *who) {
    fail(c->ctx, E_VERIFY,
         "race in nest \"%s\": element %lld of \"%s\" is used by two %s, one of them storing, at "
         "\"%s\"; put a `sync` between, or let one of them do both",
         c->nest->name, (long long)element, c->nest->buf.at[buf].name, who,
         nest_stmt_str(c->arena, c->nest, s->stmt));
}

/* Who stores to an element of a fragment in a block has it there. */
static void touch_fragment(const NestCode *c, const NestStmt *s, int buf, int64_t element,
                           int thread, bool store) {
    const NestThreads *t = c->threads;
    NestTouch *x = &t->touch[buf][element];
    bool known = x->write_block == t->block;
    if (known && (store ? thread != x->write_thread : thread / WARP != x->write_thread / WARP))
        fail(c->ctx, E_VERIFY,
             "element %lld of fragment \"%s\" in nest \"%s\" is in a register of thread %d, and "
             "thread %d %s it, at \"%s\"",
             (long long)element, c->nest->buf.at[buf].name, c->nest->name, x->write_thread, thread,
             store ? "stores to" : "reads", nest_stmt_str(c->arena, c->nest, s->stmt));
    if (!store) return;
    x->write_block = t->block;
    x->write_thread = (int16_t)thread;
}

static _Noreturn void unfinished(const NestCode *c, const NestStmt *s, int buf, int64_t element) {
    fail(
        c->ctx, E_VERIFY,
        "element %lld of \"%s\" in nest \"%s\" is used while a copy to it is under way, at \"%s\"; "
        "put a `wait` between",
        (long long)element, c->nest->buf.at[buf].name, c->nest->name,
        nest_stmt_str(c->arena, c->nest, s->stmt));
}

static bool under_way(const NestThreads *t, const NestTouch *x) {
    return x->write_block == t->block && x->group > t->waited;
}

/* The stretch in which an element that the running block stored got its value. */
static int32_t stored_in(const NestThreads *t, const NestTouch *x) {
    return x->group ? t->done.at[x->group - 1] : x->write_stretch;
}

/* What is wrong with a thread of the running block storing or reading; NULL: nothing. Blocks before
 * `first` do not count. */
static const char *conflict(const NestThreads *t, const NestTouch *x, int32_t first, int thread,
                            bool store) {
    if (x->write_block >= first) {
        if (x->write_block != t->block) return "blocks";
        if (stored_in(t, x) == t->stretch && x->write_thread != thread) return "threads";
    }
    if (!store || x->read_block < first) return NULL;
    if (x->read_block != t->block || x->read_others >= first) return "blocks";
    if (x->read_stretch == t->stretch && x->read_thread != thread) return "threads";
    return NULL;
}

static void note_read(const NestThreads *t, NestTouch *x, int thread) {
    if (x->read_block != t->block) x->read_others = x->read_block;
    bool same = x->read_block == t->block && x->read_stretch == t->stretch;
    if (same && x->read_thread != thread) thread = THREAD_SEVERAL;
    x->read_block = t->block;
    x->read_stretch = t->stretch;
    x->read_thread = (int16_t)thread;
}

void nest_touch(NestCode *c, const NestStmt *s, int buf, const int64_t *address, int n,
                bool store) {
    const NestThreads *t = c->threads;
    int32_t first = c->nest->buf.at[buf].kind == BUF_SHARED ? t->block : t->first_block;
    bool fragment = c->nest->buf.at[buf].kind == BUF_FRAGMENT;
    if (!t->touch[buf]) return;
    for (int l = 0; l < n; l++) {
        if (address[l] < 0) continue;
        int thread = t->first + l / t->lanes;
        if (fragment) {
            touch_fragment(c, s, buf, address[l], thread, store);
            continue;
        }
        NestTouch *x = &t->touch[buf][unit_of(c, buf, address[l])];
        if (under_way(t, x)) unfinished(c, s, buf, address[l]);
        const char *who = conflict(t, x, first, thread, store);
        if (who) race(c, s, buf, address[l], who);
        if (!store) {
            note_read(t, x, thread);
            continue;
        }
        x->write_block = t->block;
        x->write_stretch = t->stretch;
        x->group = s->stmt->async ? t->group : 0;
        x->write_thread = (int16_t)thread;
    }
}
