/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/fuzz/victim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/calls.h"

static void note(void *user, const Diag *diag) {
    Victim *v = user;
    if (diag->severity != DIAG_ERROR || v->message[0]) return;
    v->code = diag->code;
    snprintf(v->message, sizeof v->message, "%s node %s op %s: %s", diag->id,
             diag->where.node ? diag->where.node : "-", diag->where.op ? diag->where.op : "-",
             diag->message);
    for (char *p = v->message; *p; p++)
        if (*p == '\n') *p = ' ';
}

Verdict victim_try(Victim *v, void (*fn)(void *victim), const Code *ours) {
    v->message[0] = '\0';
    v->code = CODE_COUNT;
    v->ctx = ctx_new(note, v);
    v->ctx->runtime = &calls_runtime;
    bool ok = ctx_try(v->ctx, fn, v);
    ctx_free(v->ctx);
    if (ok) return VERDICT_OK;
    for (; *ours != CODE_COUNT; ours++)
        if (v->code == *ours) return VERDICT_FAULT;
    return v->message[0] ? VERDICT_REFUSED : VERDICT_FAULT;
}

static void compile(void *victim) {
    Victim *v = victim;
    Arena *arena = arena_new(v->ctx);
    Options options;
    options_default(&options);
    options.jobs = 1;
    options.cpu = "x86-64-v3";
    options.verify_each = v->verify;
    Driver d = driver_new(arena, &options, (Source){.bytes = v->bytes, .n = v->n}, NULL, NULL);
    driver_passes(&d);
    driver_emit(&d, NULL, false);
}

Verdict victim_compile(Victim *v) {
    static const Code ours[] = {E_INTERNAL, E_VERIFY, E_SYNTAX, E_TOOLCHAIN, CODE_COUNT};
    return victim_try(v, compile, ours);
}

void victim_demand(Verdict verdict, const Victim *v) {
    if (verdict != VERDICT_FAULT) return;
    fprintf(stderr, "FAULT %s\n", v->message);
    abort();
}
