/* SPDX-License-Identifier: Apache-2.0 */
/* Files that are written. */
#ifndef WEIR_IR_OUTPUT_H
#define WEIR_IR_OUTPUT_H

#include "base.h"

/* A file that appears whole or not at all. */
typedef struct Output {
    int fd;
    const char *path, *temporary; /* its name until it is finished; NULL: none */
} Output;
Output *output_open(Arena *arena, const char *path);
void output_write(Ctx *ctx, Output *output, const void *at, size_t n, int64_t offset);
void output_finish(Ctx *ctx, Output *output); /* gives it its name */
/* A whole one; a device or a pipe that is there is written to. */
void output_file(Arena *arena, const char *path, const void *at, size_t n);
void output_text(Arena *arena, const char *folder, const char *name, const char *text);

/* All bytes to an open file; false with errno. */
bool write_bytes(int fd, const void *at, size_t n);

#endif
