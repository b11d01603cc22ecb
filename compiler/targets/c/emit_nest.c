/* SPDX-License-Identifier: Apache-2.0 */
/* One nest as C functions: parameters, tasks, loops, storage. Values are emit_body.c's.
 *
 * The leading `parallel` loops become one range of tasks. Statements before a single parallel loop
 * that write only local storage run on every thread; otherwise each top-level statement is a phase
 * of its own, with a barrier between. */
#include "c_nest.h"

#include <string.h>

enum { STACK_BYTES = 16 << 10 };

/* ---- text ------------------------------------------------------------------------------------ */

void put_line(CNest *c, const char *fmt, ...) {
    for (int i = 0; i < c->indent; i++) text_put(&c->out, " ");
    va_list args;
    va_start(args, fmt);
    text_put(&c->out, arena_vprintf(c->arena, fmt, args));
    va_end(args);
    text_put(&c->out, "\n");
}

const char *str(const CNest *c, const char *fmt, ...) {
    va_list args;
    va_start(args, fmt);
    char *s = arena_vprintf(c->arena, fmt, args);
    va_end(args);
    return s;
}

void open_scope(CNest *c) {
    c->indent++;
    c->scope++;
}

void close_scope(CNest *c) {
    c->indent--;
    c->scope--;
    while (c->loaded.n && c->loaded.at[c->loaded.n - 1].scope > c->scope) c->loaded.n--;
    while (c->spot.n && c->spot.at[c->spot.n - 1].scope > c->scope) c->spot.n--;
    put_line(c, "}");
}

/* ---- storage --------------------------------------------------------------------------------- */

const char *array_type(const Buf *b) {
    return dtype_bits(b->type) < 8 ? "u8" : scalar_type(b->type);
}

void init_array(CNest *c, const Stmt *s) {
    const Buf *b = &c->nest->buf.at[s->buf];
    const CBuf *cb = &c->buf[s->buf];
    const char *n = emit_dim_str(&c->names, dim_product(c->ctx, b->box, b->rank));
    int bits = dtype_bits(b->type);
    check_filled(c, b, n);
    if (bits < 8) {
        Bits all = 0;
        for (int i = 0; i < 8; i += bits) all |= s->init << i;
        put_line(c, "for (%s i = 0; i < (%s + %d) / %d; i++) %s[i] = %d;", c->index, n,
                 8 / bits - 1, 8 / bits, cb->name, (int)all);
    } else {
        put_line(c, "for (%s i = 0; i < %s; i++) %s[i] = %s;", c->index, n, cb->name,
                 literal(c, b->type, s->init));
    }
}

static void c_array(CNest *c, const Stmt *s) {
    const Buf *b = &c->nest->buf.at[s->buf];
    CBuf *cb = &c->buf[s->buf];
    Dim bytes = array_bytes(c, b);
    int64_t size;
    const char *type = array_type(b);
    if (cb->kind != BUF_SCRATCH && dim_is_const(bytes, &size) && size <= STACK_BYTES) {
        put_line(c, "%s %s[%lld] ALIGNED;", type, cb->name,
                 (long long)(size * 8 / (value_bits(b->type))));
    } else {
        if (!cb->scratch) {
            cb->scratch = c->scratch;
            c->scratch = dim_add(c->ctx, c->scratch, bytes);
        }
        put_line(c, "%s *const %s = (%s *)(task->scratch + %s);", type, cb->name, type,
                 emit_dim_str(&c->names, cb->scratch));
    }
    if (s->has_init) init_array(c, s);
}

/* Registers: a variable per element or row. */
static void declare_reg(CNest *c, const Stmt *s) {
    const Buf *b = &c->nest->buf.at[s->buf];
    const CBuf *cb = &c->buf[s->buf];
    int64_t count = 1, extent[RANK_MAX];
    for (int k = 0; k < b->rank; k++) {
        if (!dim_is_const(b->box[k], &extent[k]))
            BUG("register array \"%s\" of unknown size", b->name);
        if (cb->lanes && k == b->rank - 1) extent[k] = (extent[k] + cb->lanes - 1) / cb->lanes;
        count *= extent[k];
    }
    DType t = b->type == BOOL && cb->lanes ? U8 : b->type;
    const char *type = cb->lanes ? str(c, "v%d%s", cb->lanes, scalar_type(t)) : scalar_type(t);
    const char *init = s->has_init ? literal(c, b->type, s->init) : "0";
    if (cb->lanes)
        init =
            s->has_init && s->init ? str(c, "%s - (%s){0}", init, type) : str(c, "(%s){0}", type);
    for (int64_t i = 0; i < count; i++) {
        Text name = {.arena = c->arena};
        text_put(&name, cb->name);
        int64_t index[RANK_MAX], rest = i;
        for (int k = b->rank - 1; k >= 0; k--) {
            index[k] = rest % extent[k];
            rest /= extent[k];
        }
        for (int k = 0; k < b->rank; k++) text_printf(&name, "_%lld", (long long)index[k]);
        put_line(c, "%s %s = %s;", type, text_str(&name), init);
    }
}

/* ---- statements ------------------------------------------------------------------------------ */

static bool declares(const Stmts *stmts) {
    for (int i = 0; i < stmts->n; i++)
        if (stmts->at[i]->kind == STMT_DECL || declares(&stmts->at[i]->body)) return true;
    return false;
}

static Dim zero(const CNest *c) {
    return dim_const(c->ctx, 0);
}

static Dim last_of(CNest *c, Dim extent) {
    return dim_addc(c->ctx, extent, -1);
}

const char *emit_guards(CNest *c, const Dim *guard, int n) {
    Text cond = {.arena = c->arena};
    for (int i = 0; i < n; i++) {
        int64_t v;
        Dim g = names_subst(&c->names, guard[i]);
        if (dim_is_const(g, &v)) {
            if (v < 0) return NULL;
            continue;
        }
        text_printf(&cond, "%s%s >= 0", cond.n ? " && " : "", emit_dim_str(&c->names, g));
    }
    return text_str(&cond);
}

/* Opens `if (g0 >= 0 && ...) {`. 0: some guard never holds; 1: all always do, nothing was opened.
 */
static int open_guards(CNest *c, const Dim *guard, int n) {
    const char *cond = emit_guards(c, guard, n);
    if (!cond || !*cond) return cond != NULL;
    put_line(c, "if (%s) {", cond);
    open_scope(c);
    return 2;
}

static void emit_unrolled(CNest *c, const Stmt *s, int64_t extent) {
    bool braces = extent > 1 && declares(&s->body);
    for (int64_t i = 0; i < extent; i++) {
        int mark = c->names.at.n;
        names_const(&c->names, s->var, i, zero(c), last_of(c, s->extent));
        if (braces) {
            put_line(c, "{");
            open_scope(c);
        }
        int open = open_guards(c, s->guard.at, s->guard.n);
        if (open) emit_stmts(c, &s->body);
        if (open == 2) close_scope(c);
        if (braces) close_scope(c);
        names_pop(&c->names, mark);
    }
}

static void emit_loop(CNest *c, const Stmt *s) {
    enum { SHORT = 8 };
    const char *var = str(c, "i_%d", c->fresh++);
    bool rolled = c->form->rolled && has_barrier(&s->body), between = c->between;
    int64_t extent;
    if (rolled)
        put_line(c, "%s", c->form->rolled);
    else if (between && dim_is_const(s->extent, &extent) && extent <= SHORT)
        put_line(c, "%s", c->form->unrolled);
    c->between |= rolled;
    put_line(c, "for (%s %s = 0; %s < %s; %s++) {", c->index, var, var,
             emit_dim_str(&c->names, s->extent), var);
    int mark = c->names.at.n, from = c->loaded_from;
    names_var(&c->names, s->var, var, zero(c), last_of(c, s->extent));
    c->loaded_from = c->loaded.n;
    open_scope(c);
    emit_stmts(c, &s->body);
    close_scope(c);
    c->between = between;
    c->loaded_from = from;
    names_pop(&c->names, mark);
}

static void emit_if(CNest *c, const Stmt *s) {
    int open = open_guards(c, s->guard.at, s->guard.n);
    if (open == 0) return;
    emit_stmts(c, &s->body);
    if (open == 2) close_scope(c);
}

/* ---- lanes ----------------------------------------------------------------------------------- */

typedef struct Guards {
    VEC(Dim) uniform, prefix, other; /* prefix: the number of active lanes */
} Guards;

/* min(a, b) >= 0 is a >= 0 and b >= 0; a - l >= 0 keeps the first a + 1 lanes. */
static void sort_guard(CNest *c, const Stmt *s, Dim g, Guards *out) {
    Dim coef, rest;
    if (!dim_uses(g, s->var)) {
        vec_push(c->arena, &out->uniform, g);
    } else if (dim_affine(c->ctx, g, &s->var, 1, &coef, &rest) && dim_is(coef, -1)) {
        vec_push(c->arena, &out->prefix, dim_addc(c->ctx, rest, 1));
    } else if (g->nterms == 1 && g->term[0].coef > 0 && g->term[0].natoms == 1 &&
               g->term[0].atom[0]->kind == ATOM_MIN) {
        sort_guard(c, s, g->term[0].atom[0]->a, out);
        sort_guard(c, s, g->term[0].atom[0]->b, out);
    } else {
        vec_push(c->arena, &out->other, g);
    }
}

static void set_prefix(CNest *c, const Guards *g) {
    Text n = {.arena = c->arena};
    for (int i = 1; i < g->prefix.n; i++) text_put(&n, "imin(");
    for (int i = 0; i < g->prefix.n; i++)
        text_printf(&n, i ? ", %s)" : "%s", emit_dim_str(&c->names, g->prefix.at[i]));
    c->lane.kind = MASK_PREFIX;
    c->lane.count = str(c, "n%d", c->fresh++);
    c->lane.active = g->prefix.n == 1 ? names_subst(&c->names, g->prefix.at[0]) : NULL;
    put_line(c, "const i64 %s = count_v%d(%s);", c->lane.count, c->lane.width, text_str(&n));
}

static void set_mask(CNest *c, const Guards *g) {
    Text m = {.arena = c->arena};
    const char *wide = mask_type(c, 64), *type = mask_type(c, 32);
    c->vector.n = 0;
    for (int i = 0; i < g->other.n; i++)
        text_printf(&m, "%s(%s)(%s >= 0)", i ? " & " : "", wide, vector_dim(c, g->other.at[i]));
    const char *prefix = "";
    if (g->prefix.n) {
        set_prefix(c, g);
        prefix = str(c, " & prefix_%s(%s)", type, c->lane.count);
    }
    c->lane.kind = MASK_LANES;
    c->lane.count = NULL;
    c->lane.mask = str(c, "m%d", c->fresh++);
    put_line(c, "const %s %s = __builtin_convertvector(%s, %s)%s;", type, c->lane.mask,
             text_str(&m), type, prefix);
}

/* Is every lane active whenever the loop runs with these numbers? */
static bool all_active(CNest *c, Guards *g) {
    int64_t v;
    int n = 0;
    for (int i = 0; i < g->prefix.n; i++) {
        Dim k = names_subst(&c->names, g->prefix.at[i]);
        if (!dim_is_const(k, &v) || v < c->lane.width) g->prefix.at[n++] = k;
    }
    g->prefix.n = n;
    return n == 0 && g->other.n == 0;
}

static void emit_masked(CNest *c, const Stmt *s, Guards *g) {
    if (g->other.n)
        set_mask(c, g);
    else
        set_prefix(c, g);
    bool both = c->lane.kind == MASK_PREFIX && c->machine->vector_bytes < 64;
    CLanes masked = c->lane;
    if (both) {
        put_line(c, "if (%s == %d) {", masked.count, masked.width);
        open_scope(c);
        c->lane.kind = MASK_NONE;
        c->lane.count = NULL;
        emit_stmts(c, &s->body);
        close_scope(c);
        put_line(c, "else if (%s) {", masked.count);
        open_scope(c);
        c->lane = masked;
    }
    emit_stmts(c, &s->body);
    if (both) close_scope(c);
}

static void emit_vector(CNest *c, const Stmt *s, int64_t width) {
    Guards g = {0};
    for (int i = 0; i < s->guard.n; i++) sort_guard(c, s, s->guard.at[i], &g);
    int open = open_guards(c, g.uniform.at, g.uniform.n);
    if (open == 0) return;
    int mark = c->names.at.n;
    CLanes outside = c->lane;
    c->lane = (CLanes){.var = s->var, .width = (int)width};
    /* The lane stands in no expression that is printed; its range serves proofs. */
    names_var(&c->names, s->var, "lane", zero(c), last_of(c, s->extent));
    if (all_active(c, &g))
        emit_stmts(c, &s->body);
    else
        emit_masked(c, s, &g);
    c->lane = outside;
    names_pop(&c->names, mark);
    if (open == 2) close_scope(c);
}

bool prefix_lanes(CNest *c, const Stmt *loop) {
    Guards g = {0};
    for (int i = 0; i < loop->guard.n; i++) sort_guard(c, loop, loop->guard.at[i], &g);
    return !g.uniform.n && !g.other.n;
}

void open_lanes(CNest *c, const Stmt *loop) {
    Guards g = {0};
    for (int i = 0; i < loop->guard.n; i++) sort_guard(c, loop, loop->guard.at[i], &g);
    if (g.uniform.n || g.other.n) BUG("an instruction's lanes have a guard that is no prefix");
    int64_t width = 0;
    dim_is_const(loop->extent, &width);
    c->lane = (CLanes){.var = loop->var, .width = (int)width};
    names_var(&c->names, loop->var, "lane", zero(c), last_of(c, loop->extent));
    if (!all_active(c, &g)) set_prefix(c, &g);
}

void close_lanes(CNest *c) {
    c->lane = (CLanes){.width = 1};
    names_pop(&c->names, c->names.at.n - 1);
}

static void emit_for(CNest *c, const Stmt *s) {
    int64_t extent = -1;
    dim_is_const(names_subst(&c->names, s->extent), &extent);
    if (s->mark == LOOP_BLOCK || s->mark == LOOP_THREAD)
        c->form->loop(c, s);
    else if (s->mark == LOOP_VECTOR && c->form->vectors)
        emit_vector(c, s, extent);
    else if (s->mark == LOOP_VECTOR && c->form->lanes && c->form->lanes(c, s))
        return;
    else if (extent == 1 || s->mark == LOOP_UNROLL || s->mark == LOOP_VECTOR) {
        if (!c->form->vectors || !(emit_turned(c, s) || emit_woven(c, s)))
            emit_unrolled(c, s, extent);
    } else if (extent != 0)
        emit_loop(c, s);
}

static void emit_while(CNest *c, const Stmt *s) {
    int from = c->loaded_from;
    const char *go = emit_element(c, &s->at);
    put_line(c, "while (%s) {", go);
    c->loaded_from = c->loaded.n;
    open_scope(c);
    emit_stmts(c, &s->body);
    close_scope(c);
    c->loaded_from = from;
}

static void emit_stmt(CNest *c, const Stmt *s) {
    switch (s->kind) {
    case STMT_FOR: emit_for(c, s); break;
    case STMT_IF: emit_if(c, s); break;
    case STMT_DECL:
        if (c->buf[s->buf].kind == BUF_REG)
            declare_reg(c, s);
        else
            c->form->array(c, s);
        break;
    case STMT_BODY: emit_body(c, s); break;
    case STMT_FOLD: emit_fold(c, s); break;
    case STMT_PREFETCH: emit_prefetch(c, s); break;
    case STMT_WHILE: emit_while(c, s); break;
    case STMT_USE: c->form->use(c, s); break;
    case STMT_SYNC:
    case STMT_COMMIT:
    case STMT_TURN:
    case STMT_STEPS:
    case STMT_WAIT: c->form->sync(c, s); break;
    }
}

void emit_stmts(CNest *c, const Stmts *stmts) {
    for (int i = 0; i < stmts->n; i++) emit_stmt(c, stmts->at[i]);
}

/* ---- phases ---------------------------------------------------------------------------------- */

bool is_parallel(const Stmt *s) {
    return s->kind == STMT_FOR && s->mark == LOOP_PARALLEL;
}

bool writes_memory(const CNest *c, const Stmt *s) {
    for (int i = 0; i < s->store.n; i++)
        if (c->nest->buf.at[s->store.at[i].to.cont].kind == BUF_MEMORY) return true;
    for (int i = 0; s->kind == STMT_FOLD && i < s->combine->nstate; i++)
        if (c->nest->buf.at[s->dst[i].cont].kind == BUF_MEMORY) return true;
    for (int i = 0; i < s->body.n; i++)
        if (writes_memory(c, s->body.at[i])) return true;
    return false;
}

/* About how many vector operations; negative when an extent is not known. */
static double work_of(const CNest *c, const Stmts *stmts) {
    double sum = 0;
    for (int i = 0; i < stmts->n; i++) {
        const Stmt *s = stmts->at[i];
        int64_t extent = 1;
        if (s->kind == STMT_WHILE) return -1;
        if (s->kind == STMT_FOR && !dim_is_const(s->extent, &extent)) return -1;
        if (s->kind == STMT_FOR && s->mark == LOOP_VECTOR) extent = 1;
        double inside = work_of(c, &s->body);
        if (inside < 0) return -1;
        sum += (double)extent * inside + (s->kind == STMT_BODY ? 1 + s->code.val.n : 0);
    }
    return sum;
}

/* ---- functions ------------------------------------------------------------------------------- */

bool may_alias(const CNest *c) {
    const Nest *n = c->nest;
    for (int i = 0; i < n->buf.n; i++)
        for (int j = 0; j < n->buf.n; j++) {
            const Buf *a = &n->buf.at[i], *b = &n->buf.at[j];
            if (i == j || a->kind != BUF_MEMORY || b->kind != BUF_MEMORY || !c->buf[i].written)
                continue;
            if (a->cont >= 0 && a->cont == b->cont) return true;
            for (int k = 0; c->flow && k < c->flow->alias.n; k++) {
                const Alias *al = &c->flow->alias.at[k];
                bool x = al->cont == a->cont || al->of == a->cont,
                     y = al->cont == b->cont || al->of == b->cont;
                if (x && y) return true;
            }
        }
    return false;
}

static void put_parameters(CNest *c, const CKernel *k) {
    const char *restricted = may_alias(c) ? "" : "restrict ";
    text_put(&c->out, "(");
    for (int i = 0; i < k->buf.n; i++) {
        const Buf *b = &c->nest->buf.at[k->buf.at[i]];
        const char *type = dtype_bits(b->type) < 8 ? "u8" : scalar_type(b->type);
        bool written = c->buf[k->buf.at[i]].written;
        text_printf(&c->out, "%s%s *%s%s, ", written ? "" : "const ", type, restricted,
                    c->buf[k->buf.at[i]].name);
    }
    for (int i = 0; i < k->symbol.n; i++) text_printf(&c->out, "i64 s%d, ", i);
    text_put(&c->out, "Task *task) {\n");
}

void begin_phase(CNest *c) {
    c->out = (Text){.arena = c->arena};
    c->fresh = c->scope = c->indent = 0;
    c->loaded.n = c->loaded_from = c->spot.n = 0;
    c->lane = (CLanes){.width = 1};
    c->bad = c->tiled = false;
}

static void add_phase(CNest *c, CKernel *k, const Stmt *const *before, int nbefore, const Stmt *s) {
    begin_phase(c);
    Head head = {.text = {.arena = c->arena}};
    CTasks t = {.count = dim_const(c->ctx, 1)};
    CPhase phase = {0};
    c->names.head = &head, c->names.nhead = c->nsymbol;
    open_scope(c);
    for (int i = 0; i < nbefore; i++) emit_stmt(c, before[i]);
    if (s && is_parallel(s)) {
        t = tasks_of(c, s);
        emit_tasks(c, &t);
        phase.work = work_of(c, &(Stmts){(Stmt **)&s, 1, 1});
    } else if (s) {
        emit_stmt(c, s);
    }
    if (c->bad) put_line(c, "task->bad |= bad;");
    if (c->tiled) put_line(c, "tiles_close(tiles);");
    const char *body = text_str(&c->out);
    c->out = (Text){.arena = c->arena};
    put_parameters(c, k);
    if (c->bad) text_put(&c->out, " i32 bad = 0;\n");
    if (c->tiled) text_put(&c->out, " i32 tiles = 0;\n");
    text_printf(&c->out, "%s%s}\n", text_str(&head.text), body);
    c->names.head = NULL;
    phase.text = text_str(&c->out);
    phase.tasks = t.count;
    phase.bad = c->bad;
    vec_push(k->arena, &k->phase, phase);
}

static void c_phases(CNest *c, CKernel *k) {
    const Stmts *body = &c->nest->body;
    Stmt **at = body->at;
    int n = body->n, local = 0;
    while (local < n && !is_parallel(at[local]) && !writes_memory(c, at[local])) local++;
    if (local == n - 1 && is_parallel(at[local])) {
        add_phase(c, k, (const Stmt *const *)at, local, at[local]);
        return;
    }
    bool any = false, decl = false;
    for (int i = 0; i < n; i++) {
        any |= is_parallel(at[i]);
        decl |= at[i]->kind == STMT_DECL;
    }
    if (any && !decl) {
        for (int i = 0; i < n; i++) add_phase(c, k, NULL, 0, at[i]);
        return;
    }
    add_phase(c, k, (const Stmt *const *)at, n, NULL);
}

static void name_buffers(CNest *c, CKernel *k) {
    static const char letter[] = {[BUF_MEMORY] = 'a', [BUF_REG] = 'r',     [BUF_TILE] = 'b',
                                  [BUF_SHARED] = 'b', [BUF_SCRATCH] = 'b', [BUF_FRAGMENT] = 'b'};
    for (int i = 0; i < c->nest->buf.n; i++) {
        CBuf *cb = &c->buf[i];
        if (c->nest->buf.at[i].kind == BUF_REG && cb->kind == BUF_TILE) cb->lanes = 0;
        cb->name = str(c, "%c%d", letter[cb->kind], i);
        if (cb->kind == BUF_MEMORY && (cb->read || cb->written)) vec_push(k->arena, &k->buf, i);
    }
}

const CForm c_form = {.math = "__builtin_",
                      .vectors = true,
                      .spots = true,
                      .phases = c_phases,
                      .array = c_array,
                      .use = emit_use};
const CForm c_form_checked = {.math = "__builtin_",
                              .vectors = true,
                              .checked = true,
                              .spots = true,
                              .phases = c_phases,
                              .array = c_array,
                              .use = emit_use};

CKernel *emit_nest(Arena *arena, const Nest *nest, const Flow *flow, const Machine *machine,
                   const CForm *form) {
    Arena *work = arena_new(nest->ctx);
    CKernel *k = NEW(arena, CKernel);
    k->arena = arena;
    CNest c = {.arena = work,
               .ctx = nest->ctx,
               .nest = nest,
               .flow = flow,
               .machine = machine,
               .form = form,
               .index = "i64"};
    c.names = (Names){.arena = work, .ctx = nest->ctx};
    c.buf = NEW_ARRAY(work, CBuf, nest->buf.n);
    c.access = table_new(work);
    c.scratch = dim_const(nest->ctx, 0);
    for (int i = 0; i < nest->buf.n; i++) c.buf[i].kind = nest->buf.at[i].kind;
    scan_nest(&c, k);
    name_buffers(&c, k);
    for (int i = 0; i < k->symbol.n; i++) {
        const Symbol *s = NULL;
        for (int j = 0; j < nest->symbol.n; j++)
            if (nest->symbol.at[j].sym == k->symbol.at[i]) s = &nest->symbol.at[j];
        Dim hi = s->hi == INT64_MAX ? s->upper : dim_const(nest->ctx, s->hi);
        names_var(&c.names, s->sym, str(&c, "s%d", i), dim_const(nest->ctx, s->lo), hi);
    }
    c.nsymbol = k->symbol.n;
    form->phases(&c, k);
    for (int i = 0; i < k->phase.n; i++)
        k->phase.at[i].text = arena_printf(arena, "%s", k->phase.at[i].text);
    k->scratch = c.scratch;
    arena_free(work);
    return k;
}
