/* SPDX-License-Identifier: Apache-2.0 */
/* A model taken through the passes, for verbs that look at what they made. */
#ifndef WEIR_TOOLS_SESSION_H
#define WEIR_TOOLS_SESSION_H

#include "compiler/driver.h"
#include "tools/weir/engine.h"

typedef struct Session {
    weir_context *context;
    Ctx *ctx;
    Arena *arena;
    const char *path;
    Options options; /* the context's, with stop_after replaced when one is given */
    Driver driver;
    PassWatchFn *watch; /* for session_passes: called with the session; may be NULL */
    void *user;
} Session;
typedef void SessionFn(Session *s);

/* Runs the passes over a .onnx or .ir as far as stop_after (NULL: as the options say) and then fn,
 * which may `fail`. The exit code. */
int session_run(weir_context *c, const char *path, const char *stop_after, SessionFn *fn,
                void *user);
/* The same without passes: fn does what it wants. */
int session_try(weir_context *c, const char *path, SessionFn *fn, void *user);
void session_passes(Session *s, const char *stop_after);

/* Fails where a size (--size SYMBOL=N) is of no symbol of what the passes made. */
void session_sizes(Session *s, const InputOptions *sizes);

/* The last pass that makes a graph, a flow or a program. */
const char *last_pass(Level level);
/* Level of what a pass makes. */
Level pass_result(const Pass *pass);
const Pass *find_pass(const char *name); /* NULL when unknown */
/* The flow of a stage, also of one with nests; NULL for a graph. */
const Flow *stage_flow(const Stage *stage);
/* `a` and its options: one operand (the model), compile options, and what `own` takes (may be
 * NULL). False after a usage error. */
typedef bool OwnOption(Args *a, void *user, bool *bad);
bool session_args(Args *a, weir_context *c, const char **model, OwnOption *own, void *user);
/* True after a usage error: a page would go to a terminal. */
bool page_unread(const Args *a, const char *format, const char *output);
/* Writes text to a file (NULL: standard output). The exit code. */
int put_text(const char *path, const char *text);

#endif
