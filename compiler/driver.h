/* SPDX-License-Identifier: Apache-2.0 */
/* The driver: the only code that sees every folder. A model or an .ir text goes through the passes
 * to a program, and on to C text, objects, a library or this process. All functions `fail`. */
#ifndef WEIR_DRIVER_H
#define WEIR_DRIVER_H

#include "compiler/targets/c/target.h"
#include "compiler/targets/cuda/machine.h"
#include "compiler/toolchain/toolchain.h"
#include "compiler/weights.h"
#include "frontends/onnx/onnx.h"
#include "ir/file.h"
#include "ir/output.h"
#include "passes/recipe.h"

/* ---- options (options.c) --------------------------------------------------------------------- */

typedef enum { EMIT_LIBRARY, EMIT_C, EMIT_HEADER, EMIT_CU } EmitKind;

typedef enum { TARGET_C, TARGET_CUDA } Target;

/* A pass of the user's own, and the one behind which it runs. */
typedef struct Plugin {
    const char *path;
    const Pass *after;
} Plugin;

typedef struct Options {
    Target target;
    const char *cpu, *gpu;  /* that is planned for; of several CPUs the last */
    VEC(const char *) cpus; /* that a library has code for, the best last; none: `cpu` alone */
    VEC(const char *) gpus; /* that code is made for: "sm_90a", ...; none: all that we know */
    VEC(const char *) gpu_libraries; /* that kernels may be given to: "cublaslt", ... */
    MathMode math;
    DType convert; /* F16, BF16; F32: no conversion */
    Packing packing;
    bool weights_file, verify_each, time_passes, no_cache, profile, checked;
    CopyEngine engine;  /* which kernels' boxes a GPU's engine copies, where there is one */
    bool data_anywhere; /* external data outside the model's folder too */
    double max_time;    /* seconds; 0: any */
    size_t max_memory;  /* bytes; 0: any */
    int jobs;           /* 0: as many as CPUs we may use */
    EmitKind emit;
    const char *emit_dir, *print_after, *stop_after;
    const char *name;                 /* of the model; NULL: its graph's */
    const char *recipe, *save_recipe; /* files; NULL: none */
    VEC(DimOverride) dim;
    VEC(const char *) feed;
    VEC(const char *) skip;
    VEC(Plugin) plugin;
    VEC(const char *) link;      /* object files of the user's own */
    VEC(const char *) operators; /* texts of the user's own (onnx_ops_with) */
} Options;
void options_default(Options *o);
/* Sets one option by its command-line name without dashes; E_OPTION, naming the nearest one.
 * `value` may be NULL for switches. Strings are kept in the context. */
void options_set(Ctx *ctx, Options *o, const char *name, const char *value);
int options_kind(const char *name); /* as weir_option_kind */

/* Texts of operators (onnx_ops_with); E_OPTION when there is none in it. */
void options_add_operators(Ctx *ctx, Options *o, const char *text);
/* "P.so" or "P.so:after PASS" (plugin.c). */
void options_add_plugin(Ctx *ctx, Options *o, const char *value);
/* For tools: the options that a library's context holds, and a compilation context that reports to
 * its callback and can evaluate calls; ctx_free it. */
typedef struct weir_context weir_context;
const Options *context_options(const weir_context *c);
Ctx *context_fork(weir_context *c);

/* ---- one compilation ------------------------------------------------------------------------- */

/* What is told on the way. TELL_TEXT: what --print-after asked for; TELL_CONVERT: what --convert
 * did, when a library or sources are written; TELL_TIME: a line of
 * --time-passes; TELL_STEP: what begins now. */
typedef enum { TELL_TEXT, TELL_TIME, TELL_STEP, TELL_CONVERT } Telling;
typedef void TellFn(void *user, Telling kind, const char *text);

/* A model: a file (.onnx, or .ir text), or bytes of an ONNX model with the folder of external data.
 */
typedef struct Source {
    const char *path;
    const void *bytes;
    size_t n;
    const char *folder;
} Source;

/* A library's code for one of several CPUs: what the passes made for it. */
typedef struct Version {
    const char *cpu;
    Machine machine;
    Stage stage;
} Version;

typedef struct Driver {
    Arena *arena; /* of everything below, but for what passes make */
    Ctx *ctx;
    const Options *options;
    Source source;
    TellFn *tell; /* may be NULL */
    void *user;
    PassWatchFn *watch; /* sees the source and what each pass makes; may be NULL */
    void *watcher;
    VEC(const char *) skip; /* passes left out, by options and recipe */
    Machine machine, host;  /* of the kernels; of the program around them */
    VEC(Version) lesser;    /* for CPUs that have less than `machine`, the least first */
    const OpTable *ops;
    Stage stage; /* what the passes made */
    Weights weights;
    int plugins_ran;
    Text converted;         /* a line for each container that --convert stores in halves */
    const char *recipe;     /* of what was decided, when it is saved or watched */
    uint64_t weights_check; /* of the side file */
    Units units;
    const char *device; /* the kernels' text for a GPU, or NULL */
    const char *build;  /* JSON */
} Driver;

Driver driver_new(Arena *arena, const Options *options, Source source, TellFn *tell, void *user);
/* What passes are told of the options, without a recipe. */
PassEnv driver_env(Driver *d);
/* Reads the source and runs the passes, as far as stop_after says. */
void driver_passes(Driver *d);
/* Weights and C text of the program. `weights_file` (may be NULL) names the side file. */
void driver_emit(Driver *d, const char *weights_file, bool jit);
/* A GPU's code for d->device, as one more unit. */
void driver_make_image(Driver *d);
/* All of it, to a library at `output`, or to the folder of --emit. Leaves nothing behind on
 * failure. */
void driver_compile(Driver *d, const char *output);

/* A model in this process; owns its code and weights, not bound to a context. */
typedef struct Loaded {
    Jit *jit;
    void *weights;
    size_t weight_bytes;
    const weir_model *model;
} Loaded;
Loaded driver_load(Driver *d); /* of d->stage's program when there is one already */
void loaded_free(Loaded *loaded);

/* ---- parts ----------------------------------------------------------------------------------- */

/* A text's last graph; or its flow with nests for all of its kernels; or its last flow (source.c).
 */
Stage source_parse(Arena *arena, const char *text);
Stage source_read_ir(Arena *arena, const char *path);
const char *source_text(Arena *arena, const char *path); /* of any file */
Span source_bytes(Arena *arena, const char *path);
const char *source_hash(Arena *arena, const void *at, size_t n); /* hex */
bool source_is_text(const Source *source);                       /* a .ir file */
/* The graph or stage of the source, and the hash of its bytes as hex (source.c). */
Stage source_read(Arena *arena, const Source *source, const Options *options, const OpTable *ops,
                  const char **hash);
/* An object file of the user's own. */
Span source_object(Arena *arena, const char *path);
/* Text of a stage, as source_parse reads it. */
const char *stage_text(Arena *arena, const Stage *stage);

/* Weights that can be swapped (hidden.c): hidden in a graph, whose passes may not look at their
 * data; given back to the constant part, with a mark for each of its containers that got one; the
 * numbers of those among the part's inputs. */
void hidden_take(Graph *g);
bool *hidden_give(Driver *d, const Program *program);
const int *hidden_inputs(Arena *arena, const Flow *part, const bool *swapped, int *n);

/* --recipe, or NULL, and d->skip; the recipe of what was decided (recipes.c). */
Recipe *driver_read_recipe(Driver *d);
const char *driver_recipe_text(Driver *d, RecipeNotes *notes);

/* What the plug-ins behind a pass make of its flow (plugin.c); `driver` is a Driver. */
const Flow *plugins_run(void *driver, Arena *arena, const Pass *pass, const Flow *flow);
void plugins_all_ran(const Driver *d); /* or fail */

void driver_write_weights(Driver *d, const char *path); /* a side file */
/* --emit c and --emit header (emit_folder.c). */
void driver_emit_folder(Driver *d);

#endif
