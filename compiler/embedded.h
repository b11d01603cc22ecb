/* SPDX-License-Identifier: Apache-2.0 */
/* Files of the tree that the compiler carries in itself: heads of emitted code, the runtime's sources.
 * Which ones is said in compiler/meson.build. */
#ifndef WEIR_EMBEDDED_H
#define WEIR_EMBEDDED_H

typedef struct EmbeddedFile {
    const char *name; /* path from the top of the tree: "runtime/weir_rt.h" */
    const char *text;
} EmbeddedFile;
extern const EmbeddedFile embedded_files[];
extern const int embedded_count;

/* The text of a file, which must be there. */
const char *embedded_text(const char *name);

#endif
