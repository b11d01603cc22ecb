/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes of an ONNX model, through all passes, verified after each, and to C text. */
#include "tests/fuzz/victim.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
    Victim v = {.bytes = bytes, .n = n, .verify = true};
    victim_demand(victim_compile(&v), &v);
    return 0;
}
