/* SPDX-License-Identifier: Apache-2.0 */
/* One model, ready to run, whichever engine runs it: compiled code in this process, the library
 * that `weir compile` writes, or the evaluator. */
#ifndef WEIR_TOOLS_ENGINE_H
#define WEIR_TOOLS_ENGINE_H

#include "compiler/weir.h"
#include "ir/base.h"
#include "tools/weir/args.h"
#include "tools/weir/tensors.h"

typedef enum { ENGINE_COMPILED, ENGINE_LIBRARY, ENGINE_EVAL } EngineKind;

typedef struct Engine {
    EngineKind kind;
    weir_context *context;
    weir_loaded *loaded; /* ENGINE_COMPILED, ENGINE_LIBRARY */
    const weir_model *model;
    weir_pool *pool;
    weir_instance *instance;
    void *eval;   /* ENGINE_EVAL */
    double share; /* ENGINE_EVAL: agree_share of its flow */
    int ninputs, noutputs;
    const weir_port *inputs, *outputs;
    double create_ms, compile_ms;
} Engine;

/* Opens a .onnx, .ir or .so with the context's options. False after diagnostics. */
bool engine_open(Engine *e, EngineKind kind, weir_context *context, const char *path, int threads);
/* Runs; outputs are allocated (free them with host_free). False with a message in `error` (512
 * bytes), or an empty one after a diagnostic. */
bool engine_run(Engine *e, const HostTensor *inputs, HostTensor *outputs, char *error);
void engine_close(Engine *e);

/* aside.c: a library for this process only. `child`: compiled by a child, whose memory does not
 * count as this process's. The exit code; aside_remove is due in any case. */
typedef struct Aside {
    const char *name; /* of the library; NULL: model.so */
    char folder[256], library[512];
} Aside;
int aside_compile(Aside *a, weir_context *c, const char *model, bool child);
void aside_remove(Aside *a);

bool path_ends(const char *path, const char *end);
/* By its name, or by its first bytes. */
bool is_library(const char *path);

/* engine_eval.c: the same for ENGINE_EVAL, by engine_open and its siblings. */
bool eval_open(Engine *e, const char *path, int threads);
bool eval_run(Engine *e, const HostTensor *inputs, HostTensor *outputs);
/* The same with floats of 32 and 64 bits, those of inputs and of weights, off by up to MOVE_UNITS
 * units in their last place: other ones for each seed (not 0). */
enum { MOVE_UNITS = 4 };
bool eval_run_moved(Engine *e, const HostTensor *inputs, HostTensor *outputs, uint64_t seed);
void eval_close(Engine *e);

/* "compiled", "library" or "eval"; false after a usage error. */
bool engine_kind(Args *a, EngineKind *kind);

/* Length of the symbol's name in "SYMBOL=N"; 0: it is no such text. */
size_t size_name(const char *size);

enum { INPUT_SIZES = 64 };

/* Inputs of a command line: --input NAME=FILE..., --random SEED, --size SYMBOL=N. */
typedef struct InputOptions {
    int nfile;
    const char *file[256]; /* "NAME=FILE", or just FILE for the only input */
    bool random;
    long seed;
    int nsize;
    const char *size[INPUT_SIZES]; /* "batch=4": symbolic dims of random inputs; 1 otherwise */
} InputOptions;
/* The size given for a symbol; false: none is. `o` may be NULL. */
bool size_given(const InputOptions *o, const char *symbol, int64_t *value);
/* True when the option was one of these (or a usage error: *bad). */
bool input_option(Args *a, InputOptions *o, bool *bad);
/* One tensor per input of the model. False after a message on stderr. */
bool inputs_make(const Engine *e, const InputOptions *o, HostTensor *inputs);
/* Adds what the inputs say of symbols that no size is given for, in the arena. */
void inputs_sizes(const Engine *e, const HostTensor *inputs, Arena *arena, InputOptions *o);

/* Progress goes to a terminal only, on one line that the next one overwrites (NULL: clears it);
 * other text goes to `to`. */
void print_telling(bool progress, FILE *to, const char *text);
/* A context that prints diagnostics to stderr, what --print-after asks for to stdout; and, where a
 * library is what the user asked for, what --convert did. */
weir_context *context_new(bool library);
/* Takes any compile option of the current argument; *bad after a usage error. */
bool compile_option(Args *a, weir_context *c, bool *bad);
/* True after a usage error: one of those was given with a library. */
bool compiled_already(const Args *a, const char *model);
double now_ms(void);

#endif
