/* SPDX-License-Identifier: Apache-2.0 */
/* Contexts, `ctx_try` and `fail`, diagnostics.
 *
 * `fail` is a longjmp to the innermost `ctx_try`. It formats its message on the stack (on the heap
 * when it is long and there is memory), so that reporting "out of memory" needs no memory. */
#include "base.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "context.h"

static const struct {
    const char *id, *title, *explanation;
} codes[] = {
#define CODE(name, id, title, explanation) {id, title, explanation},
#include "diag.def"
#undef CODE
};

Ctx *ctx_new(DiagFn *diag, void *user) {
    Ctx *ctx = calloc(1, sizeof *ctx);
    struct CtxPrivate *priv = calloc(1, sizeof *priv);
    if (ctx && priv) {
        ctx->diag = diag;
        ctx->user = user;
        ctx->priv = priv;
        priv->own = arena_try_new(ctx);
        if (priv->own) return ctx;
    }
    free(priv);
    free(ctx);
    return NULL;
}

void ctx_free(Ctx *ctx) {
    if (!ctx) return;
    arenas_drop(ctx, 0);
    free(ctx->priv);
    free(ctx);
}

Arena *ctx_arena(Ctx *ctx) {
    return ctx->priv->own;
}

bool ctx_try(Ctx *ctx, void (*fn)(void *arg), void *arg) {
    struct CtxPrivate *priv = ctx->priv;
    TryFrame frame = {.outer = priv->innermost, .where = ctx->where, .serial = priv->serial};
    if (setjmp(frame.jump)) {
        ctx->priv->innermost = frame.outer;
        ctx->where = frame.where;
        arenas_drop(ctx, frame.serial);
        return false;
    }
    priv->innermost = &frame;
    fn(arg);
    priv->innermost = frame.outer;
    return true;
}

/* Graphs of branches are looked at more than once, and find the same again. */
static bool warned_before(Ctx *ctx, const Diag *diag) {
    struct CtxPrivate *priv = ctx->priv;
    const char *text = intern(ctx, diag_format(priv->own, diag));
    for (int i = 0; i < priv->warned.n; i++)
        if (priv->warned.at[i] == text) return true;
    vec_push(priv->own, &priv->warned, text);
    return false;
}

static void report(Ctx *ctx, Severity severity, Code code, const char *fmt, va_list args) {
    if (!ctx->diag) return;
    char small[1024], *message = small;
    va_list again;
    va_copy(again, args);
    int n = vsnprintf(small, sizeof small, fmt, args);
    if (n >= (int)sizeof small) {
        char *large = malloc((size_t)n + 1);
        if (large) {
            vsnprintf(large, (size_t)n + 1, fmt, again);
            message = large;
        }
    }
    va_end(again);
    Diag diag = {severity, code, code_id(code), message, ctx->where};
    if (severity != DIAG_WARNING || !warned_before(ctx, &diag)) ctx->diag(ctx->user, &diag);
    if (message != small) free(message);
}

void fail(Ctx *ctx, Code code, const char *fmt, ...) {
    va_list args;
    va_start(args, fmt);
    report(ctx, DIAG_ERROR, code, fmt, args);
    va_end(args);
    ctx->last_error = code;
    if (!ctx->priv->innermost) BUG("fail (%s: \"%s\") outside ctx_try", code_id(code), fmt);
    longjmp(ctx->priv->innermost->jump, 1);
}

void warn(Ctx *ctx, Code code, const char *fmt, ...) {
    va_list args;
    va_start(args, fmt);
    report(ctx, DIAG_WARNING, code, fmt, args);
    va_end(args);
}

void warn_later(Ctx *ctx) {
    if (ctx->priv->warned.n) ctx->priv->warned.n--;
}

/* "model.onnx:12, node "n" (Op, opset 13), tensor "t"": only what is known. */
static void where_put(Text *out, const Where *where) {
    const char *sep = " at ";
    if (where->file) {
        text_printf(out, "%s%s", sep, where->file);
        if (where->line) text_printf(out, ":%d", where->line);
        sep = ", ";
    } else if (where->line) {
        text_printf(out, "%sline %d", sep, where->line);
        sep = ", ";
    }
    if (where->node) {
        text_printf(out, "%snode \"%s\"", sep, where->node);
        sep = ", ";
    }
    if (where->op) {
        text_printf(out, "%s%s", where->node ? " (" : sep, where->op);
        if (where->opset) text_printf(out, ", opset %d", where->opset);
        if (where->node) text_put(out, ")");
        sep = ", ";
    }
    if (where->tensor) text_printf(out, "%stensor \"%s\"", sep, where->tensor);
}

const char *diag_format(Arena *arena, const Diag *diag) {
    static const char *const severity[] = {"error", "warning", "note"};
    Text out = {.arena = arena};
    text_printf(&out, "%s %s", severity[diag->severity], diag->id);
    where_put(&out, &diag->where);
    text_printf(&out, ": %s", diag->message);
    return text_str(&out);
}

const char *code_id(Code code) {
    return codes[code].id;
}

const char *code_title(Code code) {
    return codes[code].title;
}

const char *code_explanation(Code code) {
    return codes[code].explanation;
}

bool code_parse(const char *id, Code *code) {
    for (int i = 0; i < CODE_COUNT; i++) {
        if (strcasecmp(codes[i].id, id) == 0) {
            *code = (Code)i;
            return true;
        }
    }
    return false;
}

void bug_at(const char *file, int line, const char *fmt, ...) {
    va_list args;
    va_start(args, fmt);
    fprintf(stderr, "internal fault at %s:%d: ", file, line);
    vfprintf(stderr, fmt, args);
    fputs("\nthis is a fault of Weir itself: please report it with the model\n", stderr);
    va_end(args);
    abort();
}
