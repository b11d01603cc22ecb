/* SPDX-License-Identifier: Apache-2.0 */
/* The fuzzer's victim: compiles models that it reads, one after the other, in this one process.
 *
 *   fuzz_compile [--no-verify] < cases > verdicts
 *
 * A case is a length (8 bytes, little endian) and that many bytes of an ONNX model. Each goes
 * through all passes, verified after each, and to C text. The verdict is a line: "ok", or "CODE
 * message" of the diagnostic; "FAULT message" when the refusal blames the wrong one: an internal
 * text that does not verify or parse, or no diagnostic at all. A crash or a hang ends the process
 * without a verdict; leaks show when the input ends. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/calls.h"
#include "compiler/driver.h"

typedef struct Case {
    Ctx *ctx;
    const void *bytes;
    size_t n;
    bool verify;
    Code code;
    char message[400];
} Case;

static void note(void *user, const Diag *diag) {
    Case *c = user;
    if (diag->severity != DIAG_ERROR || c->message[0]) return;
    c->code = diag->code;
    snprintf(c->message, sizeof c->message, "%s node %s op %s: %s", diag->id,
             diag->where.node ? diag->where.node : "-", diag->where.op ? diag->where.op : "-",
             diag->message);
    for (char *p = c->message; *p; p++)
        if (*p == '\n') *p = ' ';
}

static void compile(void *arg) {
    Case *c = arg;
    Arena *arena = arena_new(c->ctx);
    Options options;
    options_default(&options);
    options.jobs = 1;
    options.cpu = "x86-64-v3";
    options.verify_each = c->verify;
    Driver d = driver_new(arena, &options, (Source){.bytes = c->bytes, .n = c->n}, NULL, NULL);
    driver_passes(&d);
    driver_emit(&d, NULL, false);
}

static void run(Case *c) {
    bool ours = false;
    c->ctx = ctx_new(note, c);
    c->ctx->runtime = &calls_runtime;
    if (ctx_try(c->ctx, compile, c)) {
        puts("ok");
    } else {
        ours = c->code == E_INTERNAL || c->code == E_VERIFY || c->code == E_SYNTAX ||
               c->code == E_TOOLCHAIN || !c->message[0];
        printf("%s%s\n", ours ? "FAULT " : "", c->message);
    }
    fflush(stdout);
    ctx_free(c->ctx);
}

int main(int argc, char **argv) {
    uint64_t n;
    bool verify = !(argc > 1 && !strcmp(argv[1], "--no-verify"));
    while (fread(&n, sizeof n, 1, stdin) == 1) {
        void *bytes = malloc(n ? n : 1);
        if (!bytes || fread(bytes, 1, n, stdin) != n) return 2;
        Case c = {.bytes = bytes, .n = n, .verify = verify, .code = CODE_COUNT};
        run(&c);
        free(bytes);
    }
    return 0;
}
