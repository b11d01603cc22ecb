/* SPDX-License-Identifier: Apache-2.0 */
/* Weir as a library: compile ONNX models (or Weir's own text) to shared libraries, or run them in
 * this process. Every object is freed by its own function; nothing here is global; a context is
 * used by one thread at a time. Strings passed in are copied. */
#ifndef WEIR_H
#define WEIR_H

#include "runtime/weir_model.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct weir_context weir_context;
typedef struct weir_loaded weir_loaded;

/* One diagnostic. `text` is the whole message as the command line prints it; others may be NULL. */
typedef struct weir_diagnostic {
    size_t size;
    int severity; /* 0 error, 1 warning, 2 text that the option named by `id` asked for
                   * ("print-after", "time-passes", "convert"), 3 progress: the step that begins now
                   */
    const char *id, *text, *message, *file, *node, *tensor, *op;
    int opset, line;
} weir_diagnostic;
typedef void weir_diagnostic_fn(void *user, const weir_diagnostic *d);

const char *weir_version(void);
weir_context *weir_context_new(weir_diagnostic_fn *fn, void *user);
void weir_context_free(weir_context *c);
/* An option as on the command line, without dashes: ("math", "strict"), ("dim", "batch=1..8"). 0,
 * or 1 with a diagnostic for an unknown name or bad value. Defaults: target=c cpu=native
 * math=default. */
int weir_option(weir_context *c, const char *name, const char *value);
/* Operators of your own, as text of flows named "domain.Operator": inputs and outputs are operands
 * and results, the maps say what is computed, `${name:0.5}` is a numeric attribute with its
 * default. A flow may call C
 * functions: `call c = extern.f(x, w) -> y` calls `void f(weir_call *)` of runtime/call.h, which
 * has `int64_t f_scratch(const weir_call *)` beside it; the option "link" takes the object file
 * that holds them. The option "operators" takes a file of such text. 0, or 1 with a diagnostic. */
int weir_operators(weir_context *c, const char *text);
/* 0: no such option; 1: it takes a value; 2: a switch, whose value may be left out. */
int weir_option_kind(const char *name);

/* Compile a model (a file, or bytes with `folder` for external data) to a shared library file. 0,
 * or 1 (model or input at fault), 3 (ours) or 4 (cancelled) after diagnostics; nothing is left
 * behind on failure. */
int weir_compile_file(weir_context *c, const char *model, const char *output);
int weir_compile_memory(weir_context *c, const void *bytes, size_t n, const char *folder,
                        const char *output);
/* Compile and keep in this process. NULL on failure, after diagnostics. */
weir_loaded *weir_load_file(weir_context *c, const char *model);
weir_loaded *weir_load_memory(weir_context *c, const void *bytes, size_t n, const char *folder);
/* Open a compiled library. */
weir_loaded *weir_open(weir_context *c, const char *library);
const weir_model *weir_loaded_model(const weir_loaded *l);
void weir_unload(weir_loaded *l);

/* Ends what this context compiles now, or else the next thing, within about a tenth of a second
 * (LLVM's work on one unit is waited for). May be called by any thread while the context lives, by
 * the diagnostics' function (which hears of every step), and by a signal's handler. */
void weir_cancel(weir_context *c);

#ifdef __cplusplus
}
#endif
#endif
