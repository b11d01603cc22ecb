/* SPDX-License-Identifier: Apache-2.0 */
/* Looking up embedded files. */
#include "embedded.h"

#include "ir/base.h"

#include <string.h>

const EmbeddedFile *embedded_find(const char *name) {
    for (int i = 0; i < embedded_files_count; i++)
        if (!strcmp(embedded_files[i].name, name)) return &embedded_files[i];
    return NULL;
}

const EmbeddedFile *embedded_file(const char *name) {
    const EmbeddedFile *file = embedded_find(name);
    if (!file) BUG("no embedded file \"%s\"", name);
    return file;
}

const char *embedded_text(const char *name) {
    return embedded_file(name)->text;
}
