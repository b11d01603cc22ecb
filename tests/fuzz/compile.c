/* SPDX-License-Identifier: Apache-2.0 */
/* The victim of mutated models: compiles those that it reads, one after the other, in this one
 * process.
 *
 *   fuzz_compile [--no-verify] < cases > verdicts
 *
 * A case is a length (8 bytes, little endian) and that many bytes of an ONNX model. Each goes
 * through all passes, verified after each, and to C text. The verdict is a line: "ok", or "CODE
 * message" of the diagnostic; "FAULT message" when the refusal blames the wrong one. A crash or a
 * hang ends the process without a verdict; leaks show when the input ends. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/fuzz/victim.h"

int main(int argc, char **argv) {
    uint64_t n;
    bool verify = !(argc > 1 && !strcmp(argv[1], "--no-verify"));
    while (fread(&n, sizeof n, 1, stdin) == 1) {
        void *bytes = malloc(n ? n : 1);
        if (!bytes || fread(bytes, 1, n, stdin) != n) return 2;
        Victim v = {.bytes = bytes, .n = n, .verify = verify};
        Verdict verdict = victim_compile(&v);
        printf("%s%s\n", verdict == VERDICT_FAULT ? "FAULT " : "",
               verdict == VERDICT_OK ? "ok" : v.message);
        fflush(stdout);
        free(bytes);
    }
    return 0;
}
