/* SPDX-License-Identifier: Apache-2.0 */
/* What is compiled: an ONNX model, or text of one of the three levels. */
#include "driver.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <llvm-c/blake3.h>

/* ---- files ----------------------------------------------------------------------------------- */

typedef struct Mapping {
    void *at;
    size_t n;
} Mapping;

static void unmap(void *user) {
    Mapping *m = user;
    munmap(m->at, m->n);
}

static Mapping map_file(Arena *arena, const char *path) {
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    bool fine = fd >= 0 && fstat(fd, &st) == 0;
    if (fine && !S_ISREG(st.st_mode)) errno = S_ISDIR(st.st_mode) ? EISDIR : EINVAL;
    fine = fine && S_ISREG(st.st_mode);
    Mapping m = {NULL, fine ? (size_t)st.st_size : 0};
    if (m.n) m.at = mmap(NULL, m.n, PROT_READ, MAP_PRIVATE, fd, 0);
    int error = errno;
    if (fd >= 0) close(fd);
    if (!fine || m.at == MAP_FAILED)
        fail(arena_ctx(arena), E_FILE, "cannot read \"%s\": %s", path, strerror(error));
    if (m.n) arena_defer(arena, unmap, arena_copy(arena, &m, sizeof m));
    return m;
}

/* Gives the pages of a file back that has been read through; what reads it again maps them again.
 */
static void drop_pages(const Mapping *file) {
    if (file->n) madvise(file->at, file->n, MADV_DONTNEED);
}

const char *source_hash(Arena *arena, const void *at, size_t n) {
    llvm_blake3_hasher hasher;
    uint8_t hash[LLVM_BLAKE3_OUT_LEN];
    Text hex = {.arena = arena};
    llvm_blake3_hasher_init(&hasher);
    llvm_blake3_hasher_update(&hasher, at, n);
    llvm_blake3_hasher_finalize(&hasher, hash, sizeof hash);
    for (size_t i = 0; i < sizeof hash; i++) text_printf(&hex, "%02x", hash[i]);
    return text_str(&hex);
}

Span source_bytes(Arena *arena, const char *path) {
    Mapping file = map_file(arena, path);
    return (Span){file.at, file.n};
}

Span source_object(Arena *arena, const char *path) {
    Mapping file = map_file(arena, path);
    if (file.n < 18 || memcmp(file.at, "\177ELF", 4) || ((const char *)file.at)[16] != 1)
        fail(arena_ctx(arena), E_FILE,
             "\"%s\" is not an object file: compile your function with \"cc -c -fPIC\"", path);
    return (Span){file.at, file.n};
}

/* ---- text ------------------------------------------------------------------------------------ */

Stage source_parse(Arena *arena, const char *text) {
    IrFile *file = ir_file_parse(arena, onnx_ops(), text);
    ir_file_verify(file);
    if (file->graph.n) return (Stage){.graph = file->graph.at[file->graph.n - 1]};
    if (!file->flow.n)
        fail(arena_ctx(arena), E_SYNTAX,
             "the text holds no graph and no flow; a nest stands behind its flow");
    if (!file->nest.n) return (Stage){.flow = file->flow.at[file->flow.n - 1]};
    Program *program = ir_file_program(arena, file);
    if (!program)
        fail(arena_ctx(arena), E_SYNTAX,
             "some kernel of flow \"%s\" has no nest; give all nests or none",
             file->flow.at[file->flow.n - 1]->name);
    return (Stage){.program = program};
}

const char *source_text(Arena *arena, const char *path) {
    Mapping file = map_file(arena, path);
    return arena_printf(arena, "%.*s", (int)file.n, file.n ? (char *)file.at : "");
}

Stage source_read_ir(Arena *arena, const char *path) {
    return source_parse(arena, source_text(arena, path));
}

const char *stage_text(Arena *arena, const Stage *stage) {
    Text text = {.arena = arena};
    if (stage->graph) graph_print(&text, stage->graph);
    if (stage->flow) flow_print(&text, stage->flow);
    if (stage->program) flow_print(&text, stage->program->flow);
    for (int i = 0; stage->program && i < stage->program->nest.n; i++) {
        text_put(&text, "\n");
        nest_print(&text, stage->program->nest.at[i]);
    }
    return text_str(&text);
}

/* ---- either ---------------------------------------------------------------------------------- */

bool source_is_text(const Source *source) {
    size_t n = source->path ? strlen(source->path) : 0;
    return n >= 3 && strcmp(source->path + n - 3, ".ir") == 0;
}

Stage source_read(Arena *arena, const Source *source, const Options *options, const OpTable *ops,
                  const char **hash) {
    ImportOptions import = {.name = options->name,
                            .dim = options->dim.at,
                            .ndim = options->dim.n,
                            .feed = options->feed.at,
                            .nfeed = options->feed.n,
                            .ops = ops,
                            .data_anywhere = options->data_anywhere};
    Stage stage = {0};
    if (!source->path) {
        *hash = source_hash(arena, source->bytes, source->n);
        stage.graph = onnx_import_memory(arena, source->bytes, source->n, source->folder, &import);
        return stage;
    }
    Mapping file = map_file(arena, source->path);
    if (file.n > 3 && !memcmp(file.at, "\177ELF", 4))
        fail(arena_ctx(arena), E_MODEL,
             "this is a compiled library; give the .onnx or .ir that it was made of");
    *hash = source_hash(arena, file.at, file.n);
    drop_pages(&file);
    const char *onnx_alone = options->dim.n    ? "dim"
                             : options->feed.n ? "feed"
                             : options->name   ? "name"
                                               : NULL;
    if (source_is_text(source) && onnx_alone)
        fail(arena_ctx(arena), E_OPTION,
             "option \"%s\" is for models in ONNX: write in the text what it should say",
             onnx_alone);
    if (source_is_text(source)) return source_read_ir(arena, source->path);
    stage.graph = onnx_import_file(arena, source->path, &import);
    return stage;
}
