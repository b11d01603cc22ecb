/* SPDX-License-Identifier: Apache-2.0 */
/* The column engine: a body as a list of loops over columns.
 *
 * Functions are expanded first. Values of the caller's body keep their columns for the whole run,
 * since the caller may ask for any of them; values that only the expansion made share columns as
 * their last uses allow. Constants are filled into a frame once. A bitcast is the column of its
 * operand under another type. */
#include "body.h"
#include "body_loops.h"

#include <string.h>

typedef struct Op {
    LoopFn *loop; /* NULL: element by element, or `fill` */
    int val;      /* in the expanded body */
    int fill;     /* number of the caller's Val that the caller supplies; -1: a primitive */
    size_t out, arg[3];
} Op;

struct BodyCode {
    Body body;  /* expanded */
    int *map;   /* caller's Val -> expanded Val */
    size_t *at; /* expanded Val -> its column in a frame, in bytes */
    VEC(Op) op;
    size_t bytes;
};

struct BodyFrame {
    char *base;
};

enum { ALIGN = 64 };

static size_t element_bytes(DType t) {
    int bits = dtype_bits(t);
    return bits < 8 ? 1 : (size_t)bits / 8;
}

/* ---- compiling ---------------------------------------------------------------------------------
 */

typedef struct Compile {
    Arena *arena;
    BodyCode *code;
    int *column; /* by Val: the Val whose column it has (itself, or what it is a bitcast of) */
    int *last;   /* by Val that has a column: the last Val that uses it */
    bool *kept;  /* by Val: never given to another */
    VEC(size_t) spare[2]; /* columns of 4 and of 8 bytes an element, free */
} Compile;

static int prim_arity(const Val *v) {
    return v->kind == VAL_PRIM ? prim_row(v->prim)->arity : 0;
}

static void find_lifetimes(Compile *c, const Body *from) {
    const Body *b = &c->code->body;
    for (int i = 0; i < b->val.n; i++) {
        const Val *v = &b->val.at[i];
        bool alias = v->kind == VAL_PRIM && v->prim == P_BITCAST;
        c->column[i] = alias ? c->column[v->arg[0]] : i;
        c->kept[i] = v->kind != VAL_PRIM;
        c->last[i] = i;
        for (int k = 0; k < prim_arity(v); k++) c->last[c->column[v->arg[k]]] = i;
    }
    for (int i = 0; i < from->val.n; i++) c->kept[c->column[c->code->map[i]]] = true;
}

static size_t column_new(Compile *c, int val) {
    size_t element = element_bytes(c->code->body.val.at[val].type);
    int class = element > 4;
    if (!c->kept[val] && c->spare[class].n) return c->spare[class].at[--c->spare[class].n];
    if (!c->kept[val]) element = class ? 8 : 4;
    size_t at = c->code->bytes;
    c->code->bytes += (element * COLUMN_MAX + ALIGN - 1) / ALIGN * ALIGN;
    return at;
}

/* Columns whose last user is `val` become free for what follows it. */
static void free_columns(Compile *c, int val) {
    const Body *b = &c->code->body;
    const Val *v = &b->val.at[val];
    for (int k = 0; k < prim_arity(v); k++) {
        int of = c->column[v->arg[k]];
        if (c->kept[of] || c->last[of] != val) continue;
        c->last[of] = -1;
        vec_push(c->arena, &c->spare[element_bytes(b->val.at[of].type) > 4], c->code->at[of]);
    }
}

static LoopFn *find_loop(const Body *b, const Val *v) {
    DType operand = b->val.at[v->arg[prim_row(v->prim)->arity - 1]].type;
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        return loop_find_x86v3(v->prim, v->type, operand);
#endif
    return loop_find(v->prim, v->type, operand);
}

static void compile_val(Compile *c, int val, const int *source) {
    BodyCode *code = c->code;
    const Val *v = &code->body.val.at[val];
    if (c->column[val] != val) {
        code->at[val] = code->at[c->column[val]];
        free_columns(c, val);
        return;
    }
    Op op = {.val = val, .fill = -1, .out = code->at[val] = column_new(c, val)};
    if (v->kind == VAL_CONST) return;
    if (v->kind == VAL_PRIM) {
        op.loop = find_loop(&code->body, v);
        for (int k = 0; k < prim_arity(v); k++) op.arg[k] = code->at[v->arg[k]];
        free_columns(c, val);
    } else {
        op.fill = source[val];
    }
    vec_push(c->arena, &code->op, op);
}

BodyCode *body_compile(Arena *arena, const Body *b) {
    BodyCode *code = NEW(arena, BodyCode);
    code->body.arena = arena;
    code->map = NEW_ARRAY(arena, int, b->val.n);
    body_expand(&code->body, b, NULL, code->map);
    int n = code->body.val.n, *source = NEW_ARRAY(arena, int, n);
    for (int i = b->val.n - 1; i >= 0; i--) source[code->map[i]] = i;
    Compile c = {.arena = arena, .code = code};
    c.column = NEW_ARRAY(arena, int, n);
    c.last = NEW_ARRAY(arena, int, n);
    c.kept = NEW_ARRAY(arena, bool, n);
    code->at = NEW_ARRAY(arena, size_t, n);
    find_lifetimes(&c, b);
    for (int i = 0; i < n; i++) compile_val(&c, i, source);
    return code;
}

/* ---- running -------------------------------------------------------------------------------- */

static Bits element_get(const char *at, size_t element, int i) {
    Bits bits = 0;
    memcpy(&bits, at + element * (size_t)i, element);
    return bits;
}

static void element_set(char *at, size_t element, int i, Bits bits) {
    memcpy(at + element * (size_t)i, &bits, element);
}

BodyFrame *body_frame(Arena *arena, const BodyCode *code) {
    BodyFrame *frame = NEW(arena, BodyFrame);
    char *base = arena_alloc(arena, code->bytes + ALIGN);
    frame->base = base + (ALIGN - (uintptr_t)base % ALIGN) % ALIGN;
    for (int v = 0; v < code->body.val.n; v++) {
        const Val *val = &code->body.val.at[v];
        if (val->kind != VAL_CONST) continue;
        size_t element = element_bytes(val->type);
        for (int i = 0; i < COLUMN_MAX; i++)
            element_set(frame->base + code->at[v], element, i, val->bits);
    }
    return frame;
}

static void run_elements(const BodyCode *code, const Op *op, char *base, int n) {
    const Val *v = &code->body.val.at[op->val];
    int arity = prim_row(v->prim)->arity;
    size_t size[3], result = element_bytes(v->type);
    DType type[3];
    for (int k = 0; k < arity; k++) {
        type[k] = code->body.val.at[v->arg[k]].type;
        size[k] = element_bytes(type[k]);
    }
    for (int i = 0; i < n; i++) {
        Bits arg[3];
        for (int k = 0; k < arity; k++) arg[k] = element_get(base + op->arg[k], size[k], i);
        element_set(base + op->out, result, i, prim_apply(v->prim, v->type, type[arity - 1], arg));
    }
}

void body_run(const BodyCode *code, BodyFrame *frame, int n, BodyFillFn *fill, void *user) {
    char *base = frame->base;
    ASSERT(n >= 0 && n <= COLUMN_MAX);
    for (int i = 0; i < code->op.n; i++) {
        const Op *op = &code->op.at[i];
        if (op->fill >= 0) {
            Column out = {code->body.val.at[op->val].type, base + op->out};
            fill(user, op->fill, out, n);
        } else if (op->loop) {
            op->loop(base + op->out, base + op->arg[0], base + op->arg[1], base + op->arg[2], n);
        } else {
            run_elements(code, op, base, n);
        }
    }
}

Column body_column(const BodyCode *code, BodyFrame *frame, int val) {
    int v = code->map[val];
    return (Column){code->body.val.at[v].type, frame->base + code->at[v]};
}
