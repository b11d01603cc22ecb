/* SPDX-License-Identifier: Apache-2.0 */
/* C text to bitcode by a clang-19 process.
 *
 * clang only parses: its passes are switched off, but the code is made for -O1, so that functions
 * carry no `optnone` and the pass list of llvm.c may work on them. Code that reaches us has been
 * unrolled and vectorized by our own passes: -O3 makes it no faster and takes four times as long.
 */
#include "private.h"

#include <stdlib.h>
#include <string.h>

static const char *const fixed_flags[] = {
    "-x",
    "c",
    "-std=gnu11",
    "-O1",
    "-Xclang",
    "-disable-llvm-passes",
    "-emit-llvm",
    "-c",
    "-o",
    "-",
    "-",
    "-fPIC",
    "-fvisibility=hidden",
    "-w",
    "-ffp-contract=off",
    "-fwrapv",
    "-fno-strict-aliasing",
    "-fno-math-errno",
    "-fno-stack-protector",
    "-fno-asynchronous-unwind-tables",
    "-fno-unwind-tables",
    "-fno-ident",
};
enum { NFIXED = sizeof fixed_flags / sizeof *fixed_flags };

void clang_key(const char *const *flags, void (*put)(void *user, const char *text), void *user) {
    for (int i = 0; i < NFIXED; i++) put(user, fixed_flags[i]);
    for (; *flags; flags++) put(user, *flags);
}

char *clang_bitcode(const char *clang, const char *text, const char *const *flags, Stop *stop,
                    Span *bitcode) {
    size_t n = 0;
    while (flags[n]) n++;
    const char **argv = calloc(NFIXED + n + 2, sizeof *argv);
    if (!argv) return message("no memory for the compiler's arguments");
    argv[0] = clang;
    memcpy(argv + 1, fixed_flags, sizeof fixed_flags);
    memcpy(argv + 1 + NFIXED, flags, n * sizeof *argv);
    ToolRun run = {
        .path = clang, .argv = argv, .in = {(void *)(uintptr_t)text, strlen(text)}, .stop = stop};
    char *error = tool_run(&run);
    free(argv);
    *bitcode = run.out;
    return error;
}
