/* SPDX-License-Identifier: Apache-2.0 */
/* One nest as CUDA kernels. What stands in a thread is printed as for C; this file prints what is
 * around it: parameters, blocks and threads, shared arrays, barriers, folds over threads.
 *
 * A nest with `block` and `thread` loops is one kernel per outermost block loop. A nest of
 * `parallel` loops runs one task per thread, with as many threads as there are tasks up to a limit,
 * beyond which each takes several. */
#include "cuda.h"

#include <string.h>

enum {
    WARP = 32,
    SHARED_ALIGN = 16,
    LOCAL_BYTES = 4 << 10,    /* of a thread's array; larger ones lie in memory */
    STATIC_SHARED = 48 << 10, /* of a block; more has to be asked for by its launch */
    ROOM_THREADS = 1024,      /* of a core: where threads wait for each other, others go on */
    ROOM_SHARED = 160 << 10,  /* of a core, that these share */
    MANY_SUMS = 64,
    OWN_WORDS = 48,  /* registers of a thread beside weights that it loads before all else */
    AHEAD_SHARE = 4, /* of the cache that all cores share: for what comes ahead */
    AHEAD_STEP = 16, /* bytes that come at once, and the fewest that are asked for */
    AHEAD_LEAST = 8 << 10
};

/* ---- loops ----------------------------------------------------------------------------------- */

static Dim zero(const CNest *c) {
    return dim_const(c->ctx, 0);
}

/* Variables of loops that are one range: `at` is the place in it. */
static void put_vars(CNest *c, const CTasks *t, const char *at, const char *letter) {
    Dim inner = dim_const(c->ctx, 1);
    int first = c->fresh;
    c->fresh += t->n;
    for (int i = t->n - 1; i >= 0; i--) {
        const char *e = at;
        if (!dim_is(inner, 1)) e = str(c, "%s / (%s)", e, emit_dim_str(&c->names, inner));
        if (i > 0) e = str(c, "%s %% (%s)", e, emit_dim_str(&c->names, t->loop[i]->extent));
        if (!dim_is(t->loop[i]->extent, 1))
            put_line(c, "const %s %s%d = %s;", c->index, letter, first + i, e);
        inner = dim_mul(c->ctx, inner, t->loop[i]->extent);
    }
    for (int i = 0; i < t->n; i++) {
        Dim extent = t->loop[i]->extent;
        if (dim_is(extent, 1))
            names_const(&c->names, t->loop[i]->var, 0, zero(c), zero(c));
        else
            names_var(&c->names, t->loop[i]->var, str(c, "%s%d", letter, first + i), zero(c),
                      dim_addc(c->ctx, extent, -1));
    }
}

static bool is_weight(const CNest *c, const Buf *b) {
    if (!c->flow || b->cont < 0) return false;
    ContKind kind = c->flow->cont.at[b->cont].kind;
    return kind == CONT_PARAM || kind == CONT_LITERAL;
}

/* Does it nothing but load weights? */
static bool loads_weights(const CNest *c, const Stmt *s) {
    if (s->kind == STMT_PREFETCH) return is_weight(c, &c->nest->buf.at[s->at.cont]);
    bool loop = s->kind == STMT_FOR && (s->mark == LOOP_UNROLL || s->mark == LOOP_VECTOR);
    bool all = (loop || s->kind == STMT_IF) && s->body.n;
    for (int i = 0; all && i < s->body.n; i++) all = loads_weights(c, s->body.at[i]);
    return all;
}

/* The statements of threads that load weights before all else stand in front of the wait for the
 * launch ahead. */
static void first_loads(CNest *c, const Stmts *body) {
    int n = 0;
    while (n < body->n && loads_weights(c, body->at[n])) n++;
    c->loading = "";
    cuda_load_first(c, &(Stmts){body->at, n, n});
    c->loading = NULL;
    put_line(c, "follow(tasks, self);");
    emit_stmts(c, &(Stmts){body->at + n, body->n - n, body->n - n});
}

static void cuda_loop(CNest *c, const Stmt *s) {
    CTasks t = tasks_of(c, s);
    int64_t count = 0;
    int mark = c->names.at.n, from = c->loaded_from;
    if (s->mark == LOOP_BLOCK) {
        put_vars(c, &t, str(c, "(%s)blockIdx.x", c->index), "p");
        emit_stmts(c, t.body);
        names_pop(&c->names, mark);
        return;
    }
    if (!dim_is_const(t.count, &count)) BUG("a block of an unknown number of threads");
    cuda_open_stages(c);
    put_line(c, count < c->threads ? "if (threadIdx.x < %lld) {" : "{", (long long)count);
    c->loaded_from = c->loaded.n;
    open_scope(c);
    for (int i = 0; i < 3 && i < t.n; i++) c->inner[2 - i] = t.loop[t.n - 1 - i]->var;
    put_vars(c, &t, str(c, "(%s)threadIdx.x", c->index), "t");
    s == c->first ? first_loads(c, t.body) : emit_stmts(c, t.body);
    close_scope(c);
    c->loaded_from = from;
    names_pop(&c->names, mark);
}

/* Other threads may have stored: no load from before of what is stored here holds. */
static void barrier(CNest *c) {
    put_line(c, "__syncthreads();");
    if (cuda_reads_own(c)) c->epoch[0]++;
    c->epoch[1]++;
}

/* The registers get what the thread has, and are exchanged. */
static void cuda_turn(CNest *c, const Stmt *s) {
    Text args = {.arena = c->arena};
    Dim none = dim_const(c->ctx, 0), last = dim_addc(c->ctx, s->extent, -1);
    int element;
    for (int i = 0; i < s->lanes; i++) {
        int mark = c->names.at.n;
        names_const(&c->names, s->var, i, none, last);
        const char *dst = reg_name(c, s->dst, &element);
        put_line(c, "%s = %s;", dst, reg_name(c, s->src, &element));
        text_printf(&args, "%s%s", i ? ", " : "", dst);
        names_pop(&c->names, mark);
    }
    put_line(c, "turn%d(%s);", s->lanes, text_str(&args));
}

static void cuda_sync(CNest *c, const Stmt *s) {
    switch (s->kind) {
    case STMT_COMMIT:
        if (c->stages) put_line(c, "stages_commit(copies);");
        if (!c->stages || c->apart) put_line(c, "copies_commit();");
        break;
    case STMT_WAIT:
        if (!s->steps && c->stages) put_line(c, "stages_wait<%d>(copies);", s->left);
        if (s->steps || !c->stages || c->apart)
            put_line(c, "%s_wait<%d>();", s->steps ? "steps" : "copies", s->left);
        if (!s->steps && c->swizzled && (!c->stages || c->apart)) put_line(c, "copies_show();");
        c->epoch[1]++;
        if (!s->steps || s->left) break;
        while (c->behind.n) cuda_settle(c, c->behind.at[--c->behind.n], false);
        break;
    case STMT_TURN: cuda_turn(c, s); break;
    case STMT_STEPS:
        cuda_settle(c, s, true);
        put_line(c, "steps_begin();");
        emit_stmts(c, &s->body);
        put_line(c, "steps_commit();");
        vec_push(c->arena, &c->behind, s);
        break;
    default: barrier(c);
    }
}

/* ---- arrays ---------------------------------------------------------------------------------- */

/* Bytes of an array at its largest; -1: not known. */
static int64_t most_bytes(CNest *c, const Buf *b) {
    DimEnv env = names_env(&c->names);
    Dim n = dim_upper(c->ctx, dim_product(c->ctx, b->box, b->rank), &env);
    int64_t count;
    return n && dim_is_const(n, &count) ? dtype_bytes(b->type, count) : -1;
}

static void shared_array(CNest *c, const Stmt *s) {
    const Buf *b = &c->nest->buf.at[s->buf];
    const char *type = array_type(b), *name = c->buf[s->buf].name;
    int64_t bytes = most_bytes(c, b), size = dtype_bits(b->type) < 8 ? 1 : dtype_bits(b->type) / 8;
    if (bytes < 0) BUG("shared array \"%s\" has no bound", b->name);
    if (c->shared < 0) {
        put_line(c, "SHARED %s %s[%lld];", type, name, (long long)(bytes / size));
        c->held += (int)bytes;
    } else {
        int side = b->swizzled ? SWIZZLED_ROW * SWIZZLED_ROWS : SHARED_ALIGN;
        c->shared = (c->shared + side - 1) / side * side;
        put_line(c, "%s *const %s = (%s *)(shared + %d);", type, name, type, c->shared);
        c->shared += (int)bytes;
    }
    if (!s->has_init) return;
    if (dtype_bits(b->type) < 8) BUG("a shared array of packed elements with a value");
    put_line(c, "for (i32 i = threadIdx.x; i < %s; i += %d) %s[i] = %s;",
             emit_dim_str(&c->names, dim_product(c->ctx, b->box, b->rank)), c->threads, name,
             literal(c, b->type, s->init));
    barrier(c);
}

/* An array of one thread: its own, or in memory, where each thread of the launch has a place. */
static void cuda_array(CNest *c, const Stmt *s) {
    const Buf *b = &c->nest->buf.at[s->buf];
    CBuf *cb = &c->buf[s->buf];
    const char *type = array_type(b);
    if (cb->kind == BUF_SHARED || cb->kind == BUF_FRAGMENT) {
        cb->kind == BUF_SHARED ? shared_array(c, s) : cuda_fragment(c, s);
        return;
    }
    int64_t bytes = most_bytes(c, b), size = dtype_bits(b->type) < 8 ? 1 : dtype_bits(b->type) / 8;
    if (bytes >= 0 && bytes <= LOCAL_BYTES) {
        put_line(c, "%s %s[%lld];", type, cb->name, (long long)(bytes ? bytes / size : 1));
    } else {
        if (!cb->scratch) {
            cb->scratch = c->scratch;
            c->scratch = dim_add(c->ctx, c->scratch, array_bytes(c, b));
        }
        put_line(c, "%s *const %s = (%s *)(scratch + %s);", type, cb->name, type,
                 emit_dim_str(&c->names, cb->scratch));
    }
    if (s->has_init) init_array(c, s);
}

/* ---- folds ----------------------------------------------------------------------------------- */

/* One step of the halving tree: the state of the thread `h` away, by a shuffle within a warp, else
 * through shared memory. */
static CVal partner(CNest *c, const CVal *own, int h) {
    const char *type = scalar_type(own->type), *mask = "0xffffffffu";
    if (h < WARP) {
        if (c->threads < WARP)
            mask = str(c, "0x%xu", (1u << c->threads) - 1);
        else if (c->threads % WARP)
            mask = "__activemask()";
        return named(c, own->type, false, 0,
                     str(c, "shfl_%s(%s, %s, %d)", type, mask, own->text, h));
    }
    int at = c->fresh++;
    put_line(c, "SHARED %s e%d[%d];", type, at, c->threads);
    c->held += c->threads * ((dtype_bits(own->type) + 7) / 8);
    put_line(c, "e%d[threadIdx.x] = %s;", at, own->text);
    barrier(c);
    return named(c, own->type, false, 0, str(c, "e%d[threadIdx.x ^ %d]", at, h));
}

/* Over W neighbouring threads, all of which get the result. The lower half is always the left
 * operand, as in the tree of a row of lanes. */
static void cuda_fold(CNest *c, const Stmt *s, const Combine *k) {
    CVal own[COMBINE_STATES], params[2 * COMBINE_STATES];
    bool either = k->simple == P_ADD || k->simple == P_MAX || k->simple == P_MIN;
    for (int i = 0; i < k->nstate; i++)
        own[i] = named(c, k->type[i], false, 0, emit_element(c, &s->src[i]));
    for (int h = s->lanes / 2; h >= 1; h /= 2) {
        for (int i = 0; i < k->nstate; i++) {
            CVal other = partner(c, &own[i], h);
            params[i] = own[i];
            params[k->nstate + i] = other;
            if (either) continue;
            const char *up = str(c, "(threadIdx.x & %d)", h);
            params[i] =
                named(c, k->type[i], false, 0, str(c, "%s ? %s : %s", up, other.text, own[i].text));
            params[k->nstate + i] =
                named(c, k->type[i], false, 0, str(c, "%s ? %s : %s", up, own[i].text, other.text));
        }
        merge(c, k, params);
        memcpy(own, params, sizeof own);
    }
    for (int i = 0; i < k->nstate; i++) emit_store(c, &s->dst[i], &own[i]);
}

/* ---- what a nest holds ----------------------------------------------------------------------- */

static bool is_on_device(const Stmt *s) {
    return s->kind == STMT_FOR && (s->mark == LOOP_BLOCK || s->mark == LOOP_THREAD);
}

/* Threads of the widest range of thread loops. */
static int64_t most_threads(CNest *c, const Stmts *stmts) {
    int64_t most = 0;
    for (int i = 0; i < stmts->n; i++) {
        const Stmt *s = stmts->at[i];
        int64_t n = 0, inside = most_threads(c, &s->body);
        if (s->kind == STMT_FOR && s->mark == LOOP_THREAD) dim_is_const(tasks_of(c, s).count, &n);
        if (inside > n) n = inside;
        if (n > most) most = n;
    }
    return most;
}

static bool has(const Stmts *stmts, StmtKind kind) {
    for (int i = 0; i < stmts->n; i++)
        if (stmts->at[i]->kind == kind || has(&stmts->at[i]->body, kind)) return true;
    return false;
}

/* Also notes whether some of it is swizzled. */
static int64_t shared_bytes(CNest *c, const Stmts *stmts) {
    int64_t sum = 0;
    for (int i = 0; i < stmts->n; i++) {
        const Stmt *s = stmts->at[i];
        if (s->kind == STMT_DECL && c->nest->buf.at[s->buf].kind == BUF_SHARED)
            sum += most_bytes(c, &c->nest->buf.at[s->buf]);
        c->swizzled |= s->kind == STMT_DECL && c->nest->buf.at[s->buf].swizzled;
        sum += shared_bytes(c, &s->body);
    }
    return sum;
}

static bool fits(CNest *c, Dim d) {
    DimEnv env = names_env(&c->names);
    Dim top = dim_upper(c->ctx, d, &env);
    int64_t most;
    return top && dim_is_const(top, &most) && most <= INT32_MAX / 2;
}

/* Do 32 bits hold every size, element offset and task of the nest? */
static bool is_small(CNest *c) {
    for (int i = 0; i < c->names.at.n; i++)
        if (!fits(c, c->names.at.at[i].sym)) return false;
    for (int i = 0; i < c->nest->buf.n; i++) {
        const Buf *b = &c->nest->buf.at[i];
        Dim n = dim_product(c->ctx, b->box, b->rank);
        if (!fits(c, b->base ? dim_add(c->ctx, n, b->base) : n)) return false;
    }
    for (int i = 0; i < c->nest->body.n; i++) {
        const Stmt *s = c->nest->body.at[i];
        if (s->kind == STMT_FOR && !fits(c, tasks_of(c, s).count)) return false;
    }
    return true;
}

/* ---- functions ------------------------------------------------------------------------------- */

/* Is a buffer reached by one pointer alone? What one thread of a block stores and others load
 * behind a barrier is not: said to be so, it is loaded before the barrier (nvcc 13 did in attention
 * of one row). Nor, of what is only read, are others than weights, though nothing here writes them:
 * what is said to be so is loaded through a cache (ld.global.nc) that is right for what no launch
 * ahead writes while this one is there already. */
static bool is_alone(const CNest *c, const CPhase *phase, const Buf *b, const CBuf *cb) {
    if (cb->written) return !(phase->blocks && cb->read);
    return is_weight(c, b);
}

/* Does the caller hand on the container from run to run, so that most of it was there before this
 * one? */
static bool is_handed_on(const CNest *c, const Buf *b) {
    for (int k = 0; c->flow && b->cont >= 0 && k < c->flow->alias.n; k++)
        if (c->flow->alias.at[k].cont == b->cont || c->flow->alias.at[k].of == b->cont) return true;
    return false;
}

/* Weights, which no launch writes, and rows of earlier runs may come to the cache while the launch
 * ahead is under way: of a kernel as much as leaves room there for others, of arrays that are read
 * all over. What the launch ahead writes meanwhile the cache has anyway. */
static void put_ahead(CNest *c, const CKernel *k) {
    int64_t left = c->machine->level[1].bytes / AHEAD_SHARE;
    for (int i = 0; i < k->buf.n; i++) {
        const Buf *b = &c->nest->buf.at[k->buf.at[i]];
        const CBuf *cb = &c->buf[k->buf.at[i]];
        Dim all = dim_product(c->ctx, b->box, b->rank);
        int64_t count;
        bool handed_on = is_handed_on(c, b), known = dim_is_const(all, &count);
        if (!(is_weight(c, b) || handed_on) || cb->picked || cb->written) continue;
        const char *bytes = NULL;
        if (known) {
            int64_t n = dtype_bytes(b->type, count) / AHEAD_STEP * AHEAD_STEP;
            if (n < AHEAD_LEAST || n > left) continue;
            bytes = str(c, "%lld", (long long)n);
            left -= n;
        } else if (handed_on && dtype_bits(b->type) % 8 == 0) {
            bytes = str(c, "imin((i64)(%s) * %d, %lld) & -%d", emit_dim_str(&c->names, all),
                        dtype_bits(b->type) / 8, (long long)left, AHEAD_STEP);
        }
        if (bytes)
            text_printf(&c->out, " ahead(self, %s, %s, blockIdx.x, gridDim.x);\n", cb->name, bytes);
    }
}

static void put_parameters(CNest *c, const CKernel *k, const CPhase *phase) {
    bool alias = may_alias(c);
    text_put(&c->out, "(");
    const char *comma = "";
    for (int i = 0; i < k->buf.n; i++) {
        const Buf *b = &c->nest->buf.at[k->buf.at[i]];
        const CBuf *cb = &c->buf[k->buf.at[i]];
        text_printf(&c->out, "%s%s%s *%s%s", comma, cb->written ? "" : "const ", array_type(b),
                    !alias && is_alone(c, phase, b, cb) ? "__restrict__ " : "", cb->name);
        comma = ", ";
    }
    for (int i = 0; i < k->symbol.n; i++, comma = ", ") text_printf(&c->out, "%si64 n%d", comma, i);
    text_printf(&c->out, "%si64 tasks, i32 *fault, i64 self%s", comma,
                dim_is(c->scratch, 0) ? "" : ", char *memory");
    cuda_box_parameters(c);
    text_put(&c->out, ") {\n");
    for (int i = 0; i < k->symbol.n; i++)
        text_printf(&c->out, " const %s s%d = (%s)n%d;\n", c->index, i, c->index, i);
    put_ahead(c, k);
    if (!c->first) text_put(&c->out, " follow(tasks, self);\n");
    if (!dim_is(c->scratch, 0))
        text_printf(&c->out,
                    " char *const scratch = memory + ((i64)blockIdx.x * %d + threadIdx.x) * %s;\n",
                    phase->threads, emit_dim_str(&c->names, c->scratch));
    if (c->shared > 0) text_put(&c->out, " char *const shared = dynamic_shared();\n");
    if (c->bad) text_put(&c->out, " i32 bad = 0;\n");
}

/* The text of a phase whose body has been printed. */
static void end_phase(CNest *c, CKernel *k, CPhase *phase) {
    if (c->bad) put_line(c, "if (bad) *fault = (i32)self;");
    const char *body = text_str(&c->out);
    c->out = (Text){.arena = c->arena};
    put_parameters(c, k, phase);
    text_put(&c->out, body);
    text_put(&c->out, "}\n");
    phase->text = text_str(&c->out);
    c->first = NULL;
    phase->bad = c->bad;
    phase->held = c->held;
    phase->nbox = c->box.n;
    phase->box = arena_copy(k->arena, c->box.at, sizeof *c->box.at * (size_t)c->box.n);
    if (c->shared > k->shared) k->shared = c->shared;
    vec_push(k->arena, &k->phase, *phase);
}

/* Elements of the largest register array. */
static int64_t most_registers(CNest *c, const Stmts *stmts) {
    int64_t most = 0, n;
    for (int i = 0; i < stmts->n; i++) {
        const Stmt *s = stmts->at[i];
        const Buf *b = s->kind == STMT_DECL ? &c->nest->buf.at[s->buf] : NULL;
        n = most_registers(c, &s->body);
        if (b && b->kind == BUF_REG) dim_is_const(dim_product(c->ctx, b->box, b->rank), &n);
        if (n > most) most = n;
    }
    return most;
}

/* Bits that a thread loads of weights before all else. */
static int64_t first_bits(const CNest *c, const Stmts *body) {
    int64_t sum = 0, extent = 0;
    for (int i = 0; i < body->n && loads_weights(c, body->at[i]); i++) {
        const Stmt *s = body->at[i];
        if (s->kind == STMT_PREFETCH)
            sum += dtype_bits(c->nest->buf.at[s->at.cont].type);
        else if (s->kind == STMT_IF)
            sum += first_bits(c, &s->body);
        else if (dim_is_const(s->extent, &extent))
            sum += extent * first_bits(c, &s->body);
    }
    return sum;
}

/* Blocks that a core should have room for. Where threads fold what they have, those of other blocks
 * go on while they wait, as many as their shared memory and registers leave room for; sums of steps
 * of warps need theirs. Many sums that threads multiply by themselves, from what is copied ahead,
 * get as many registers again. */
static int resident_blocks(CNest *c, const Stmts *body, int64_t shared) {
    if (has(body, STMT_USE) || c->threads >= ROOM_THREADS) return 0;
    int64_t most = ROOM_THREADS / c->threads, held = shared > 0 ? ROOM_SHARED / shared : most;
    if (c->first) {
        int64_t bits = first_bits(c, tasks_of(c, c->first).body);
        int64_t all = c->machine->core_registers / (c->threads * (OWN_WORDS + bits / 32));
        most = all < most ? all : most;
    }
    if (has(body, STMT_FOLD)) return (int)(held < most ? held : most);
    int64_t sums = most_registers(c, body);
    bool many = has(body, STMT_COMMIT) && sums >= MANY_SUMS;
    return many ? (int)(c->machine->core_registers / (2 * sums * c->threads)) : 0;
}

/* The threads of a kernel, all of them in one loop behind arrays alone, that begin by loading
 * weights; or NULL. */
static const Stmt *loading_threads(CNest *c, const Stmts *body) {
    const Stmt *s = body->n ? body->at[body->n - 1] : NULL;
    int64_t count;
    if (!s || s->kind != STMT_FOR) return NULL;
    for (int i = 0; i < body->n - 1; i++)
        if (body->at[i]->kind != STMT_DECL || body->at[i]->has_init) return NULL;
    if (s->mark == LOOP_BLOCK) return loading_threads(c, &s->body);
    CTasks t = tasks_of(c, s);
    bool all = s->mark == LOOP_THREAD && dim_is_const(t.count, &count) && count == c->threads;
    return all && t.body->n && loads_weights(c, t.body->at[0]) ? s : NULL;
}

/* A kernel of blocks: the statements one after the other. */
static void block_phase(CNest *c, CKernel *k, Stmt *const *at, int n) {
    CPhase phase = {.tasks = dim_const(c->ctx, 1), .blocks = true};
    const Stmts body = {(Stmt **)(uintptr_t)at, n, n};
    begin_phase(c);
    int64_t threads = most_threads(c, &body);
    phase.threads = c->threads = threads ? (int)threads : 1;
    cuda_find_boxes(c, &body);
    c->swizzled = false;
    int64_t bytes = shared_bytes(c, &body);
    c->first = loading_threads(c, &body);
    phase.resident = resident_blocks(c, &body, bytes);
    phase.early = c->first != NULL;
    c->shared = bytes > STATIC_SHARED || c->swizzled ? 0 : -1;
    c->held = 0;
    open_scope(c);
    for (int i = 0; i < n; i++) {
        if (at[i]->kind == STMT_FOR && at[i]->mark == LOOP_BLOCK)
            phase.tasks = tasks_of(c, at[i]).count;
        emit_stmts(c, &(Stmts){(Stmt **)(uintptr_t)&at[i], 1, 1});
    }
    end_phase(c, k, &phase);
}

/* A kernel of tasks, each done by one thread; `before` by every thread. */
static void task_phase(CNest *c, CKernel *k, Stmt *const *before, int nbefore, Stmt *s) {
    CPhase phase = {.tasks = dim_const(c->ctx, 1), .threads = CUDA_TASK_THREADS};
    begin_phase(c);
    c->threads = phase.threads;
    c->stages = c->box.n = c->held = 0;
    c->shared = -1;
    open_scope(c);
    emit_stmts(c, &(Stmts){(Stmt **)(uintptr_t)before, nbefore, nbefore});
    if (s && is_parallel(s)) {
        CTasks t = tasks_of(c, s);
        int mark = c->names.at.n;
        phase.tasks = t.count;
        put_line(
            c,
            "for (%s p = (%s)blockIdx.x * %d + threadIdx.x; p < tasks; p += (%s)gridDim.x * %d) {",
            c->index, c->index, phase.threads, c->index, phase.threads);
        open_scope(c);
        put_vars(c, &t, "p", "p");
        emit_stmts(c, t.body);
        close_scope(c);
        names_pop(&c->names, mark);
    } else {
        phase.threads = 1;
        if (s) emit_stmts(c, &(Stmts){(Stmt **)(uintptr_t)&s, 1, 1});
    }
    end_phase(c, k, &phase);
}

static void block_phases(CNest *c, CKernel *k) {
    const Stmts *body = &c->nest->body;
    bool apart = true;
    for (int i = 0; i < body->n; i++)
        apart &= body->at[i]->kind == STMT_FOR && body->at[i]->mark == LOOP_BLOCK;
    if (!apart) {
        block_phase(c, k, body->at, body->n);
        return;
    }
    for (int i = 0; i < body->n; i++) block_phase(c, k, &body->at[i], 1);
}

static void task_phases(CNest *c, CKernel *k) {
    const Stmts *body = &c->nest->body;
    int n = body->n, local = 0;
    while (local < n && !is_parallel(body->at[local]) && !writes_memory(c, body->at[local]))
        local++;
    if (local == n - 1 && is_parallel(body->at[local])) {
        task_phase(c, k, body->at, local, body->at[local]);
        return;
    }
    bool any = false, decl = false;
    for (int i = 0; i < n; i++) {
        any |= is_parallel(body->at[i]);
        decl |= body->at[i]->kind == STMT_DECL;
    }
    if (any && !decl)
        for (int i = 0; i < n; i++) task_phase(c, k, NULL, 0, body->at[i]);
    else
        task_phase(c, k, body->at, n, NULL);
}

static void cuda_phases(CNest *c, CKernel *k) {
    bool blocks = false;
    c->index = is_small(c) ? "i32" : "i64";
    for (int i = 0; i < c->nest->body.n; i++) blocks |= is_on_device(c->nest->body.at[i]);
    if (blocks)
        block_phases(c, k);
    else
        task_phases(c, k);
    c->scratch = dim_mulc(c->ctx, c->scratch, CUDA_TASK_THREADS * CUDA_SCRATCH_BLOCKS);
}

const CForm cuda_form = {.math = "",
                         .rolled = "#pragma unroll 1",
                         .unrolled = "#pragma unroll",
                         .phases = cuda_phases,
                         .loop = cuda_loop,
                         .array = cuda_array,
                         .lanes = cuda_lanes,
                         .use = cuda_use,
                         .store = cuda_store,
                         .sync = cuda_sync,
                         .fold = cuda_fold};
