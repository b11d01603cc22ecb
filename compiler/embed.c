/* SPDX-License-Identifier: Apache-2.0 */
/* Build-time tool: files of the tree as strings in a C file, so that the compiler needs no data
 * files.
 *
 *     embed OUT.c TABLE ROOT FILE...
 *
 * writes the files as `const EmbeddedFile TABLE[]` (embedded.h) and their number as TABLE_count. */
#define _GNU_SOURCE
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The path below ROOT; of a file built elsewhere, or in a build folder, its last part. */
static const char *name_of(const char *root, const char *path) {
    char *full = realpath(path, NULL), *top = realpath(root, NULL);
    const char *slash = strrchr(path, '/'), *end = strrchr(path, '.');
    bool built = (end && (strcmp(end, ".a") == 0 || strcmp(end, ".so") == 0)) || !full || !top ||
                 strncmp(full, top, strlen(top)) != 0;
    const char *name = built ? (slash ? slash + 1 : path) : full + strlen(top) + 1;
    free(top);
    return name;
}

static int put_file(FILE *out, const char *path) {
    FILE *in = fopen(path, "rb");
    if (!in) return 0;
    unsigned long n = 0;
    fputs("     \"", out);
    for (int ch; (ch = getc(in)) != EOF; n++) {
        if (ch == '\n')
            fputs("\\n\"\n     \"", out);
        else if (ch == '"' || ch == '\\' || ch == '?')
            fprintf(out, "\\%c", ch);
        else if (ch < 32 || ch > 126)
            fprintf(out, "\\%03o", (unsigned)ch & 255u);
        else
            putc(ch, out);
    }
    fprintf(out, "\",\n     %lu},\n", n);
    return fclose(in) == 0;
}

int main(int argc, char **argv) {
    FILE *out = argc > 3 ? fopen(argv[1], "wb") : NULL;
    if (!out) {
        fprintf(stderr, "usage: embed OUT.c TABLE ROOT FILE...\n");
        return 2;
    }
    fprintf(out,
            "#include \"compiler/embedded.h\"\n\nextern const EmbeddedFile %s[];\n"
            "extern const int %s_count;\nconst EmbeddedFile %s[] = {\n",
            argv[2], argv[2], argv[2]);
    for (int i = 4; i < argc; i++) {
        fprintf(out, "    {\"%s\",\n", name_of(argv[3], argv[i]));
        if (!put_file(out, argv[i])) {
            perror(argv[i]);
            return 1;
        }
    }
    fprintf(out, "};\nconst int %s_count = %d;\n", argv[2], argc - 4);
    return fclose(out) == 0 ? 0 : 1;
}
