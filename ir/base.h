/* SPDX-License-Identifier: Apache-2.0 */
/* Memory, names and errors: what every other file stands on.
 *
 * Memory lives in arenas. A function whose first argument is `Arena *` puts its result there;
 * nothing else frees. Resources that are not memory (mappings, files, isl objects) are given to an
 * arena with `arena_defer` and released with it.
 *
 * A `Ctx` is one compilation: its diagnostics callback, its interned names and dims, its arenas.
 * There is no other global state. Errors caused by the model or the user are raised with `fail`,
 * which reports one diagnostic and leaves to the innermost `ctx_try`; the arenas made inside it are
 * dropped on the way, so nothing leaks. Code between the two needs no error paths. Running out of
 * memory is such an error. Our own faults are `BUG`. A Ctx is used by one thread at a time. */
#ifndef WEIR_IR_BASE_H
#define WEIR_IR_BASE_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct Arena Arena;
typedef struct Ctx Ctx;
struct RuntimeHooks;

/* ---- diagnostics ------------------------------------------------------------------------- */

typedef enum {
#define CODE(name, id, title, explanation) name,
#include "diag.def"
#undef CODE
    CODE_COUNT
} Code;

typedef enum { DIAG_ERROR, DIAG_WARNING, DIAG_NOTE } Severity;

/* Where in the user's input we are; unknown fields are NULL or 0. */
typedef struct Where {
    const char *file, *node, *tensor, *op; /* op as "domain.Name" or "Name" */
    int opset;
    int line; /* of a text file */
} Where;

typedef struct Diag {
    Severity severity;
    Code code;
    const char *id;      /* stable, such as "W012" */
    const char *message; /* what is wrong and what to do; no capital, no full stop */
    Where where;
} Diag;

typedef void DiagFn(void *user, const Diag *diag);

/* ---- context ----------------------------------------------------------------------------- */

struct Ctx {
    DiagFn *diag; /* NULL: diagnostics are dropped */
    void *user;
    Where where;     /* set by whoever walks the input; copied into diagnostics */
    Code last_error; /* of the most recent `fail` */
    /* The runtime for the evaluators (flow.h); set by whoever links it. NULL: flows with calls
     * cannot be evaluated. */
    const struct RuntimeHooks *runtime;
    struct Stop *stop;       /* what may end this compilation early (stop.h); NULL: nothing */
    struct CtxPrivate *priv; /* arenas, intern tables, innermost try */
};

/* A new context, or NULL when memory is out. Freeing it frees everything made with it. */
Ctx *ctx_new(DiagFn *diag, void *user);
void ctx_free(Ctx *ctx);

/* Runs fn(arg). False when it ended in `fail`; arenas made meanwhile are freed then, and
 * `ctx->where` is as before. Nests. */
bool ctx_try(Ctx *ctx, void (*fn)(void *arg), void *arg);

_Noreturn void fail(Ctx *ctx, Code code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* Once for each text and place in a context. */
void warn(Ctx *ctx, Code code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* For a DiagFn that keeps the warning at hand to itself: it is said when it comes again. */
void warn_later(Ctx *ctx);
/* "error W012 at model.onnx, node "fc/MatMul" (MatMul, opset 13): message", in `out`'s arena. */
const char *diag_format(Arena *arena, const Diag *diag);
const char *code_id(Code code);
const char *code_title(Code code);
const char *code_explanation(Code code);
bool code_parse(const char *id, Code *code);

_Noreturn void bug_at(const char *file, int line, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
#define BUG(...) bug_at(__FILE__, __LINE__, __VA_ARGS__)
#define ASSERT(cond)                                                                               \
    do {                                                                                           \
        if (!(cond)) BUG("broken invariant: %s", #cond);                                           \
    } while (0)

/* ---- arenas ------------------------------------------------------------------------------ */

Arena *arena_new(Ctx *ctx);
void arena_free(Arena *arena);
Ctx *arena_ctx(Arena *arena);
size_t arena_bytes(const Arena *arena);
/* Zeroed, aligned to 16. `fail`s when memory is out; bytes may be 0. */
void *arena_alloc(Arena *arena, size_t bytes);
/* Array of n elements; checks the product for overflow. */
void *arena_array(Arena *arena, size_t n, size_t size);
void *arena_copy(Arena *arena, const void *from, size_t bytes);
char *arena_printf(Arena *arena, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
char *arena_vprintf(Arena *arena, const char *fmt, va_list args);
/* Runs fn(object) when the arena is freed, last deferred first. */
void arena_defer(Arena *arena, void (*fn)(void *object), void *object);
/* The context's own arena: lives as long as the context. */
Arena *ctx_arena(Ctx *ctx);

/* A copy that lives as long as the context: in a temporary file where it is large and there is room
 * for one, else in memory. */
const void *ctx_keep(Ctx *ctx, const void *from, size_t bytes);
/* Nobody reads these bytes soon: if ctx_keep has put them into a file, memory for them is given
 * back until somebody does. Other bytes are left alone. Any thread may call it. */
void ctx_rest(const Ctx *ctx, const void *from, size_t bytes);

#define NEW(arena, T) ((T *)arena_alloc((arena), sizeof(T)))
#define NEW_ARRAY(arena, T, n) ((T *)arena_array((arena), (size_t)(n), sizeof(T)))

/* ---- vectors: grow in an arena; freed with it --------------------------------------------- */

#define VEC(T)                                                                                     \
    struct {                                                                                       \
        T *at;                                                                                     \
        int n, cap;                                                                                \
    }
void *vec_grow(Arena *arena, void *at, int *cap, int n, size_t size);
#define vec_push(arena, v, ...)                                                                    \
    do {                                                                                           \
        if ((v)->n == (v)->cap)                                                                    \
            (v)->at = vec_grow((arena), (v)->at, &(v)->cap, (v)->n + 1, sizeof *(v)->at);          \
        (v)->at[(v)->n] = (__VA_ARGS__);                                                           \
        (v)->n++;                                                                                  \
    } while (0)

/* ---- names and text ----------------------------------------------------------------------- */

/* The one copy of a string in this context: equal names are equal pointers. */
const char *intern(Ctx *ctx, const char *text);
const char *intern_n(Ctx *ctx, const char *text, size_t n);
const char *internf(Ctx *ctx, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* A growing text. `text_str` is NUL-terminated and stays owned by the arena. */
typedef struct Text {
    Arena *arena;
    char *at;
    size_t n, cap;
} Text;
void text_put(Text *text, const char *s);
void text_put_n(Text *text, const char *s, size_t n);
void text_printf(Text *text, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* "s" with JSON's escapes, quotes included. */
void text_json(Text *text, const char *s);
const char *text_str(Text *text);

/* ---- hashing ------------------------------------------------------------------------------- */

uint64_t hash_bytes(uint64_t seed, const void *at, size_t n); /* FNV-1a style, not for security */

/* Pointer- or string-keyed table in an arena; keys are compared by pointer. */
typedef struct Table Table;
Table *table_new(Arena *arena);
void table_put(Table *table, const void *key, void *value);
void *table_get(const Table *table, const void *key); /* NULL when absent */

#endif
