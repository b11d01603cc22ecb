/* SPDX-License-Identifier: Apache-2.0 */
/* Text of graphs, flows and nests: what parses and verifies must print as a text that parses, and
 * prints as the same. */
#include <stdlib.h>
#include <string.h>

#include "tests/fuzz/victim.h"

static const char *printed(Arena *arena, const IrFile *file) {
    Text out = {.arena = arena};
    ir_file_print(&out, file);
    return text_str(&out);
}

/* What is wrong from here on is our fault. */
static void read_again(void *victim) {
    Victim *v = victim;
    Arena *arena = arena_new(v->ctx);
    const char *again = printed(arena, ir_file_parse(arena, onnx_ops(), v->bytes));
    if (strcmp(again, v->bytes) != 0)
        fail(v->ctx, E_VERIFY, "printed twice, the text differs:\n%s", again);
}

static void read_once(void *victim) {
    Victim *v = victim;
    Arena *arena = arena_new(v->ctx);
    const char *text = arena_printf(arena, "%.*s", (int)v->n, (const char *)v->bytes);
    IrFile *file = ir_file_parse(arena, onnx_ops(), text);
    ir_file_verify(file);
    v->bytes = strdup(printed(arena, file));
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
    static const Code internal[] = {E_INTERNAL, CODE_COUNT},
                      any[] = {E_INTERNAL, E_VERIFY, E_SYNTAX, CODE_COUNT};
    Victim v = {.bytes = bytes, .n = n};
    Verdict verdict = victim_try(&v, read_once, internal);
    if (verdict == VERDICT_OK) {
        verdict = victim_try(&v, read_again, any);
        free((void *)v.bytes);
    }
    victim_demand(verdict, &v);
    return 0;
}
