/* SPDX-License-Identifier: Apache-2.0 */
/* What was asked about dims before. Passes ask a few thousand questions, each of them hundreds of
 * times (of SqueezeNet with images of any size 4,000 of 1.4 million differ), and an answer depends
 * on nothing but its question: on equal dims, which are one object, and on equal ranges. */
#include <string.h>

#include "dim_private.h"

/* Equal ranges are one object, too. */
typedef struct Ranges {
    uint64_t hash;
    DimEnv env;
} Ranges;

static uint64_t mix_dim(uint64_t h, Dim d) {
    return mix(h, d ? d->hash : 0);
}

static bool same_ranges(const DimEnv *a, const DimEnv *b) {
    return a->n == b->n && (!a->n || !memcmp(a->at, b->at, (size_t)a->n * sizeof *a->at));
}

static const DimEnv *ranges_intern(Ctx *ctx, const DimEnv *env) {
    uint64_t hash = mix(17, (uint64_t)env->n);
    for (int i = 0; i < env->n; i++) {
        const DimRange *r = &env->at[i];
        hash = mix_dim(mix_dim(mix_dim(hash, r->sym), r->lo), r->hi);
    }
    Cons *cons = &dims(ctx)->ranges;
    uint64_t **slot = cons_slot(ctx, cons, hash);
    for (; *slot; slot = cons_next(cons, slot)) {
        const Ranges *ranges = (const Ranges *)*slot;
        if (ranges->hash == hash && same_ranges(&ranges->env, env)) return &ranges->env;
    }
    Ranges *ranges = NEW(ctx_arena(ctx), Ranges);
    const DimRange *at = arena_copy(ctx_arena(ctx), env->at, (size_t)env->n * sizeof *env->at);
    *ranges = (Ranges){hash, {at, env->n}};
    cons_put(ctx, cons, slot, &ranges->hash);
    return &ranges->env;
}

static uint64_t **question_slot(Ctx *ctx, const Question *q) {
    Cons *cons = &dims(ctx)->answers;
    uint64_t **slot = cons_slot(ctx, cons, q->hash);
    for (; *slot; slot = cons_next(cons, slot)) {
        const Question *o = (const Question *)*slot;
        if (o->hash == q->hash && o->what == q->what && o->from == q->from && o->d == q->d &&
            o->env == q->env)
            break;
    }
    return slot;
}

bool question_known(Ctx *ctx, Question *q) {
    q->env = ranges_intern(ctx, q->env);
    const Ranges *ranges = (const Ranges *)((const char *)q->env - offsetof(Ranges, env));
    q->hash = mix_dim(mix(mix(ranges->hash, (uint64_t)q->what), (uint64_t)q->from), q->d);
    const Question *known = (const Question *)*question_slot(ctx, q);
    if (known) q->answer = known->answer;
    return known != NULL;
}

void question_keep(Ctx *ctx, const Question *q, Dim answer) {
    Question *kept = arena_copy(ctx_arena(ctx), q, sizeof *q);
    kept->answer = answer;
    cons_put(ctx, &dims(ctx)->answers, question_slot(ctx, q), &kept->hash);
}
