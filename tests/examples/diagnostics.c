/* SPDX-License-Identifier: Apache-2.0 */
/* What goes wrong is told to a function of yours; nothing is printed. Each diagnostic has a stable
 * code ("weir explain CODE" says more), a message, and where it applies the file, node, tensor and
 * operator. Progress comes the same way. Prints one line for each of three mistakes, then what a
 * good compilation said. */
#include <stdio.h>
#include <string.h>

#include "compiler/weir.h"

typedef struct Log {
    int errors, steps;
} Log;

static void note(void *user, const weir_diagnostic *d) {
    Log *log = user;
    if (d->severity == 3) log->steps++;
    if (d->severity > 1) return;
    log->errors += d->severity == 0;
    printf("%s %s: %s\n", d->severity == 0 ? "error" : "warning", d->id, d->message);
}

int main(int argc, char **argv) {
    static const char garbage[] = "this is no model";
    Log log = {0};
    weir_context *c = weir_context_new(note, &log);
    if (argc < 2 || !c) return 1;
    if (weir_option(c, "maths", "strict") != 1) return 1;
    if (weir_compile_memory(c, garbage, sizeof garbage, NULL, "out.so") != 1) return 1;
    if (weir_compile_file(c, argv[1], "/nowhere/at/all/out.so") != 1) return 1;
    weir_loaded *loaded = weir_load_file(c, argv[1]);
    printf("%d errors; then a model in %s\n", log.errors,
           loaded && log.steps > 5 ? "several steps" : "no step");
    weir_unload(loaded);
    weir_context_free(c);
    return !loaded;
}
