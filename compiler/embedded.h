/* SPDX-License-Identifier: Apache-2.0 */
/* Files that the compiler carries in itself, so that it needs no folder at run time: heads of
 * emitted code, the runtime's sources for --emit c, and the runtime built as an archive to link.
 * Which ones is said in compiler/meson.build. */
#ifndef WEIR_EMBEDDED_H
#define WEIR_EMBEDDED_H

#include <stddef.h>

typedef struct EmbeddedFile {
    const char *
        name; /* path from the top of the tree: "runtime/weir_rt.h"; of a built file its own name */
    const char *text; /* a zero byte follows */
    size_t bytes;
} EmbeddedFile;
extern const EmbeddedFile embedded_files[];
extern const int embedded_files_count;

const EmbeddedFile *embedded_find(const char *name); /* NULL: it was not built */
/* A file, which must be there, and its text. */
const EmbeddedFile *embedded_file(const char *name);
const char *embedded_text(const char *name);

#endif
