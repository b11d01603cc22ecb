/* SPDX-License-Identifier: Apache-2.0 */
/* Other programs. Functions here run on worker threads, which have no context: they take and give
 * malloc'ed memory and return NULL when done, else a malloc'ed message. */
#ifndef WEIR_TOOLCHAIN_PROCESS_H
#define WEIR_TOOLCHAIN_PROCESS_H

#include "ir/stop.h"

typedef struct Span {
    void *at;
    size_t n;
} Span;

/* A program to run. Input is a whole text, output a whole answer: both go through memory files. */
typedef struct ToolRun {
    const char *path;
    const char *const *argv; /* NULL-ended, argv[0] included */
    Span in;
    const int *keep; /* descriptors the program also gets, under the same numbers */
    int nkeep;
    Stop *stop; /* what ends it early; NULL: nothing */
    Span out;   /* malloc'ed: what it wrote to its standard output */
} ToolRun;
char *tool_run(ToolRun *run);

int memory_file(const void *at, size_t n); /* descriptor, closed on exec; -1 with errno */
/* $env when set, else `configured` when it exists, else `name` on the path; NULL: none. malloc'ed.
 */
char *tool_path(const char *env, const char *configured, const char *name);
char *message(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

#endif
