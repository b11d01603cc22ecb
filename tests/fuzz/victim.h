/* SPDX-License-Identifier: Apache-2.0 */
/* What the harnesses share: something is tried on bytes of anyone's, and the verdict says whether a
 * refusal blames the right one. */
#ifndef WEIR_FUZZ_VICTIM_H
#define WEIR_FUZZ_VICTIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "compiler/driver.h"

typedef struct Victim {
    Ctx *ctx;
    const void *bytes;
    size_t n;
    bool verify;       /* after each pass */
    char message[400]; /* of the first error */
    Code code;
} Victim;

typedef enum {
    VERDICT_OK,
    VERDICT_REFUSED,
    VERDICT_FAULT /* an internal text does not verify or parse, or there is no diagnostic */
} Verdict;

/* Runs `fn` on the victim in a compilation context of its own. `ours`: codes that are our fault,
 * ended by CODE_COUNT. */
Verdict victim_try(Victim *v, void (*fn)(void *victim), const Code *ours);
/* An ONNX model through all passes and to C text. */
Verdict victim_compile(Victim *v);
/* Ends the process when the verdict is a fault: for fuzzers, which keep what led to it. */
void victim_demand(Verdict verdict, const Victim *v);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

#endif
