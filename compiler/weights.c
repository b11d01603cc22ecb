/* SPDX-License-Identifier: Apache-2.0 */
/* Which containers are weights, where each goes, and the writing.
 *
 * Threads take one weight after another. A dense one is written from the view of the model's file,
 * another is packed first; both in parts, so that little is held beside the model. */
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

static bool same_form(const Cont *a, const Cont *b) {
    if (a->type != b->type || a->rank != b->rank) return false;
    for (int k = 0; k < a->rank; k++)
        if (a->shape[k] != b->shape[k]) return false;
    return layout_equal(a->layout, b->layout);
}

/* Tied weights: the same data in the same shape and layout. */
static bool same_weight(const Cont *a, const Cont *b) {
    return a->data == b->data && same_form(a, b);
}

/* Small literals stand in the code, unless all are asked for. */
static bool is_weight(const Flow *flow, const Cont *c, bool literals) {
    if (c->kind != CONT_PARAM && c->kind != CONT_LITERAL) return false;
    if (c->kind == CONT_LITERAL && !c->layout && c->data_bytes <= SMALL_LITERAL && !literals)
        return false;
    Pack size =
        pack_plan(flow->arena, flow->ctx,
                  &(Cont){.name = c->name, .type = c->type, .rank = c->rank, .shape = c->shape});
    if (c->data || size.count == 0) return size.count > 0;
    fail(flow->ctx, E_MODEL, "parameter \"%s\" has no data; give the weights with the model",
         c->name);
}

typedef struct Planning {
    Arena *arena;
    Ctx *ctx;
    Weights w;
    Table *by_data; /* the container first seen with it */
    Table *by_name; /* of all programs: the same */
} Planning;

typedef struct Seen {
    const Cont *cont;
    int64_t offset;
} Seen;

static int64_t rounded(int64_t bytes) {
    return (bytes + ALIGN - 1) / ALIGN * ALIGN;
}

static int64_t plan_one(Planning *p, const Cont *c) {
    Seen *before = table_get(p->by_data, c->data), *twin = table_get(p->by_name, c->name);
    if (before && same_weight(c, before->cont)) return before->offset;
    if (twin && same_form(c, twin->cont)) return twin->offset;
    Weight weight = {p->w.bytes, pack_plan(p->arena, p->ctx, c)};
    if (weight.pack.dense && c->data_bytes < pack_bytes(&weight.pack))
        BUG("parameter \"%s\" has %lld bytes of data", c->name, (long long)c->data_bytes);
    p->w.bytes += rounded(pack_bytes(&weight.pack) + weight.pack.marks);
    vec_push(p->arena, &p->w.at, weight);
    Seen *seen = NEW(p->arena, Seen);
    *seen = (Seen){c, weight.offset};
    table_put(p->by_data, c->data, seen);
    table_put(p->by_name, c->name, seen);
    return weight.offset;
}

/* What the constant part makes: sizes of storage alone, its data come later. */
static void plan_made(Planning *p, const Program *const *program, int programs, const Flow *part) {
    int n = 0;
    for (int i = 0; i < part->cont.n; i++) n += part->cont.at[i].kind == CONT_OUT;
    p->w.made_at = NEW_ARRAY(p->arena, int64_t, n + 1);
    for (int i = 0, k = 0; i < part->cont.n; i++) {
        const Cont *made = &part->cont.at[i];
        if (made->kind != CONT_OUT) continue;
        for (int v = 0; v < programs; v++)
            for (int c = 0; c < program[v]->flow->cont.n; c++)
                if (program[v]->flow->cont.at[c].name == made->name)
                    p->w.places[v].made[c] = p->w.made_bytes;
        p->w.made_at[k++] = p->w.made_bytes;
        Dim box[RANK_MAX];
        int64_t count;
        int rank = cont_storage(p->ctx, made, box);
        if (!dim_is_const(dim_product(p->ctx, box, rank), &count))
            BUG("the size of \"%s\" is not constant", made->name);
        p->w.made_bytes += rounded(dtype_bytes(made->type, count));
    }
}

static void plan_stored(Planning *p, const Program *program, WeightPlaces *places, bool literals) {
    const Flow *flow = program->flow;
    bool *used = mark_used(p->arena, program);
    for (int i = 0; i < flow->cont.n; i++) {
        const Cont *c = &flow->cont.at[i];
        bool stored = used[i] && places->made[i] < 0 && is_weight(flow, c, literals);
        places->stored[i] = stored ? plan_one(p, c) : -1;
    }
}

Weights weights_plan(Arena *arena, const Program *const *program, int n, const Program *part,
                     bool literals) {
    Planning p = {.arena = arena,
                  .ctx = program[0]->flow->ctx,
                  .by_data = table_new(arena),
                  .by_name = table_new(arena)};
    p.w.places = NEW_ARRAY(arena, WeightPlaces, n);
    for (int v = 0; v < n; v++) {
        int conts = program[v]->flow->cont.n;
        p.w.places[v].stored = NEW_ARRAY(arena, int64_t, conts + 1);
        p.w.places[v].made = NEW_ARRAY(arena, int64_t, conts + 1);
        for (int i = 0; i < conts; i++) p.w.places[v].made[i] = -1;
    }
    if (part) plan_made(&p, program, n, part->flow);
    for (int v = 0; v < n; v++) plan_stored(&p, program[v], &p.w.places[v], literals);
    if (!part) return p.w;
    p.by_name = table_new(arena);
    p.w.raw = NEW_ARRAY(arena, int64_t, part->flow->cont.n + 1);
    for (int i = 0, k = 0; i < part->flow->cont.n; i++)
        if (part->flow->cont.at[i].kind == CONT_IN)
            p.w.raw[k++] = plan_one(&p, &part->flow->cont.at[i]);
    return p.w;
}

Program *weights_part(Arena *arena, const Program *program) {
    if (!program->prepare) return NULL;
    Program *part = NEW(arena, Program);
    *part = *program->prepare;
    Flow *flow = flow_clone(arena, part->flow);
    for (int i = 0; i < flow->cont.n; i++)
        if (is_weight(flow, &flow->cont.at[i], false)) flow->cont.at[i].kind = CONT_IN;
    part->flow = flow;
    return part;
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
    const Ctx *ctx;
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

/* Memory of a thread to pack into. */
typedef struct Room {
    char *at;
    int64_t bytes;
} Room;

static bool room_grow(Room *room, int64_t bytes) {
    if (bytes <= room->bytes) return true;
    free(room->at);
    room->at = malloc((size_t)bytes);
    room->bytes = room->at ? bytes : 0;
    return room->at;
}

/* Parts end between MARKED_BYTES: panels of weights with marks are multiples of that. */
static int write_packed(int fd, const Pack *p, int64_t at, Room *room) {
    int64_t end = at + pack_bytes(p), next = 0, marked = end;
    for (int error; at < end;) {
        Pack part = pack_part(p, &next, PART);
        int64_t bytes = pack_bytes(&part), marks = 0;
        if (!room_grow(room, bytes + (p->marks ? bytes / MARKED_BYTES + 1 : 0))) return ENOMEM;
        pack_run(&part, room->at);
        if ((error = write_at(fd, room->at, bytes, at))) return error;
        at += bytes;
        if (p->marks) marks = pack_marks((int8_t *)room->at, bytes, (uint8_t *)room->at + bytes);
        if ((error = write_at(fd, room->at + bytes, marks, marked))) return error;
        marked += marks;
    }
    return 0;
}

static int write_weight(const WeightSink *sink, const Weight *weight, Room *room) {
    const Pack *p = &weight->pack;
    int64_t at = sink->start + weight->offset;
    if (sink->to) {
        pack_run(p, (char *)sink->to + weight->offset);
        return 0;
    }
    return p->dense ? write_at(sink->fd, p->from, pack_bytes(p), at)
                    : write_packed(sink->fd, p, at, room);
}

static void *write_weights(void *user) {
    Writing *writing = user;
    Room room = {0};
    for (int i; !atomic_load(&writing->error) &&
                (i = atomic_fetch_add(&writing->next, 1)) < writing->w->at.n;) {
        int error = write_weight(writing->sink, &writing->w->at.at[i], &room), none = 0;
        const Pack *from = &writing->w->at.at[i].pack;
        ctx_rest(writing->ctx, from->from, (size_t)dtype_bytes(from->type, from->count));
        if (error) atomic_compare_exchange_strong(&writing->error, &none, error);
    }
    free(room.at);
    return NULL;
}

void weights_put(Ctx *ctx, const Weights *w, const WeightSink *sink) {
    enum { MOST = 16 };
    Writing writing = {.ctx = ctx, .w = w, .sink = sink};
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
