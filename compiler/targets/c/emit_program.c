/* SPDX-License-Identifier: Apache-2.0 */
/* The walk over the flow's items, as C. All threads run the same text. A kernel stands where the
 * walk meets its root; its tasks are dealt out by position, so that a thread count changes no
 * result. Work of one task, or of so little that a barrier costs more, is done by thread 0 alone,
 * and what follows it there needs no barrier; so are whole loops of such work. Barriers are printed
 * late: before the next work that depends on what came before (emit_sync.c), and before any value
 * from memory decides the way. Long programs are cut into functions. */
#include "c_program.h"

#include "runtime/weir_rt.h"

#include <string.h>

enum { WALK_ITEMS = 24, SMALL_WORK = 2000, SMALL_CARRY = 4096 };

void program_line(CProgram *p, const char *fmt, ...) {
    for (int i = 0; i < p->indent; i++) text_put(&p->out, " ");
    va_list args;
    va_start(args, fmt);
    text_put(&p->out, arena_vprintf(p->arena, fmt, args));
    va_end(args);
    text_put(&p->out, "\n");
}

const char *c_string(Arena *arena, const char *text) {
    return c_bytes(arena, text, (int64_t)strlen(text));
}

const char *c_bytes(Arena *arena, const char *text, int64_t n) {
    Text out = {.arena = arena};
    text_put(&out, "\"");
    for (const char *end = text + n; text < end; text++) {
        unsigned char ch = (unsigned char)*text;
        if (ch == '"' || ch == '\\' || ch == '?')
            text_printf(&out, "\\%c", ch);
        else if (ch < 32 || ch > 126)
            text_printf(&out, "\\%03o", ch);
        else
            text_put_n(&out, text, 1);
    }
    text_put(&out, "\"");
    return text_str(&out);
}

int symbol_index(const CProgram *p, Dim sym) {
    for (int i = 0; i < p->flow->symbol.n; i++)
        if (p->flow->symbol.at[i].sym == sym) return i;
    return -1;
}

const char *dim_text(CProgram *p, Dim d) {
    return emit_dim_str(&p->names, d);
}

/* ---- where containers lie -------------------------------------------------------------------- */

Dim cont_bytes(const CProgram *p, const Cont *c) {
    Dim box[RANK_MAX];
    int rank = cont_storage(p->ctx, c, box), bits = dtype_bits(c->type);
    Dim n = dim_product(p->ctx, box, rank);
    return bits < 8 ? dim_ceildiv(p->ctx, n, dim_const(p->ctx, 8 / bits))
                    : dim_mulc(p->ctx, n, bits / 8);
}

static const Alias *alias_of(const CProgram *p, int cont) {
    for (int i = 0; i < p->flow->alias.n; i++)
        if (p->flow->alias.at[i].cont == cont && !p->flow->alias.at[i].when)
            return &p->flow->alias.at[i];
    return NULL;
}

static const char *alias_address(CProgram *p, const Alias *a) {
    int bits = dtype_bits(p->flow->cont.at[a->cont].type);
    Dim bytes = bits < 8 ? dim_div(p->ctx, a->offset, dim_const(p->ctx, 8 / bits))
                         : dim_mulc(p->ctx, a->offset, bits / 8);
    return arena_printf(p->arena, "%s + %s", address(p, a->of), emit_dim_str(&p->place, bytes));
}

const char *address(CProgram *p, int cont) {
    const Cont *c = &p->flow->cont.at[cont];
    const Alias *a = alias_of(p, cont);
    if (a) return alias_address(p, a);
    if (p->heap[cont] >= 0) return arena_printf(p->arena, "f->heap[%d]", p->heap[cont]);
    switch (c->kind) {
    case CONT_IN: return arena_printf(p->arena, "f->in[%d]", (int)p->cont_index[cont]);
    case CONT_OUT: return arena_printf(p->arena, "f->out[%d]", (int)p->cont_index[cont]);
    case CONT_PARAM:
    case CONT_LITERAL: {
        if (p->options->made && p->options->made[cont] >= 0)
            return arena_printf(p->arena, "f->made + %lld", (long long)p->options->made[cont]);
        int64_t at = p->options->weight_offset ? p->options->weight_offset[cont] : -1;
        if (at >= 0) return arena_printf(p->arena, "W + %lld", (long long)at);
        if (dim_is(cont_bytes(p, c), 0)) return "W";
        if (c->kind == CONT_LITERAL) return arena_printf(p->arena, "(char *)literal%d", cont);
        BUG("param \"%s\" has no place in the weights", c->name);
    }
    case CONT_TMP:
    case CONT_STATE: break;
    }
    if (c->place != PLACE_ARENA) BUG("container \"%s\" has no place", c->name);
    return arena_printf(p->arena, "A + %s", emit_dim_str(&p->place, c->offset));
}

/* ---- spans of time --------------------------------------------------------------------------- */

void open_span(CProgram *p) {
    if (p->options->profile) program_line(p, "{ const i64 from = weir_rt_now();");
}

void close_span(CProgram *p, int what) {
    if (p->options->profile) program_line(p, "weir_rt_span(f, t, %d, from); }", what);
}

/* ---- kernels --------------------------------------------------------------------------------- */

const char *kernel_from(const CProgram *p, int kernel) {
    const Nest *nest = p->program->nest.at[kernel];
    return nest->from ? from_words(p->ctx, nest->from) : nest->name;
}

static bool is_serial(const CPhase *phase) {
    return dim_is(phase->tasks, 1) || (phase->work >= 0 && phase->work < SMALL_WORK);
}

static void call_phase(CProgram *p, int kernel, int k) {
    const CKernel *ck = p->kernel[kernel];
    const CPhase *phase = &ck->phase.at[k];
    bool serial = is_serial(phase);
    if (ck->phase.n == 1)
        sync_kernel(p, kernel, serial);
    else if (serial)
        sync_serial(p);
    else
        sync_all(p);
    const char *count = dim_text(p, phase->tasks);
    Text args = {.arena = p->arena};
    const Nest *nest = p->program->nest.at[kernel];
    for (int i = 0; i < ck->buf.n; i++)
        text_printf(&args, "(void *)(%s), ", address(p, nest->buf.at[ck->buf.at[i]].cont));
    for (int i = 0; i < ck->symbol.n; i++)
        text_printf(&args, "%s, ", dim_text(p, ck->symbol.at[i]));
    if (serial)
        program_line(p, "{ Task task = {0, %s, scratch, 0};", count);
    else
        program_line(p, "{ const i64 T = %s; Task task = {T * t / n, T * (t + 1) / n, scratch, 0};",
                     count);
    open_span(p);
    program_line(p, "  if (task.lo < task.hi%s) %s%d(%s&task);", check_kernel(p, kernel),
                 kernel_word(p), p->phase[kernel][k], text_str(&args));
    close_span(p, kernel);
    check_task(p, kernel);
    if (phase->bad) {
        const char *text =
            arena_printf(p->arena, "an index is out of range in %s", kernel_from(p, kernel));
        program_line(p, "  if (task.bad) weir_rt_fail(f, WEIR_E_INDEX, %s);",
                     c_string(p->arena, text));
    }
    program_line(p, "}");
    if (!serial) p->state = AFTER_ALL;
    if (ck->phase.n > 1) p->known = false;
}

static void walk_phases(CProgram *p, int kernel) {
    program_line(p, "/* %s */", c_comment(p->arena, p->flow->kernel.at[kernel]->name));
    void (*phase)(CProgram *, int, int) = p->host->device ? p->host->launch : call_phase;
    for (int k = 0; k < p->kernel[kernel]->phase.n; k++) phase(p, kernel, k);
}

int kernel_root(const Kernel *k) {
    return k->map.at[k->map.n - 1];
}

/* The variants of a kernel: the first whose guard holds. */
static void walk_map(CProgram *p, int map) {
    int k = p->first_kernel[map];
    if (k < 0) return;
    const Flow *flow = p->flow;
    if (flow->kernel.at[k]->when.n) sync_all(p);
    const char *otherwise = "";
    for (; k < flow->kernel.n; k++) {
        const Kernel *kernel = flow->kernel.at[k];
        if (kernel_root(kernel) != map) continue;
        if (!kernel->when.n) {
            if (*otherwise) program_line(p, "%s{", otherwise);
            walk_phases(p, k);
            break;
        }
        Text cond = {.arena = p->arena};
        for (int i = 0; i < kernel->when.n; i++)
            text_printf(&cond, "%s%s >= 0", i ? " && " : "", dim_text(p, kernel->when.at[i]));
        program_line(p, "%sif (%s) {", otherwise, text_str(&cond));
        walk_phases(p, k);
        sync_all(p);
        program_line(p, "}");
        otherwise = "else ";
    }
    if (*otherwise && k < flow->kernel.n) {
        sync_all(p);
        program_line(p, "}");
    }
}

/* ---- calls ----------------------------------------------------------------------------------- */

/* Dims, types and attributes of a call: for its run and for its scratch. */
static int define_call(CProgram *p, const Call *call) {
    int number = p->ncall;
    if (p->ncall == p->ccall)
        p->call = vec_grow(p->arena, p->call, &p->ccall, p->ncall + 1, sizeof *p->call);
    p->call[p->ncall++] = call;
    return number;
}

int call_tensors(const Call *call) {
    return call->nin + (call->row->nout > call->nout ? call->row->nout : call->nout);
}

bool call_apart(const CProgram *p, const Call *call) {
    return call->row->apart && !p->host->device;
}

static void run_call(CProgram *p, const Call *call, int number) {
    const char *there = call_on_device(p, call);
    if (there)
        program_line(p, "  %s(f, &c, %d);%s", there, p->flow->kernel.n + 1 + number,
                     p->options->profile ? " weir_device_settle(f);" : "");
    else
        program_line(p, p->host->device ? "  weir_device_call(f, &c, %s);" : "  %s(&c);",
                     call->row->function);
}

/* All threads read symbols that thread 0 has defined, before these change again. */
static void take_sizes(CProgram *p, const Dim *now, int n) {
    sync_all(p);
    for (int i = 0; i < n; i++) {
        int s = symbol_index(p, now[i]);
        program_line(p, "s%d = f->symbol[%d];", s, s);
    }
    program_line(p, "scratch = f->thread + t * f->thread_bytes;");
    program_line(p, "if (f->stop) return 1;");
    worked(p);
}

static void walk_call(CProgram *p, const Call *call) {
    int number = define_call(p, call), nx = call->nin + call->nout;
    bool apart = call_apart(p, call), shared = apart && !p->alone;
    if (shared)
        sync_all(p);
    else
        sync_serial(p);
    program_line(p, "{ weir_call c; weir_tensor x[%d];", call_tensors(call) + 1);
    program_line(p, "  i64 define[%d] = {0};", call->ndefine + 1);
    program_line(p, "  call%d(f->symbol, &c, x);", number);
    for (int i = 0; i < nx; i++) {
        int cont = i < call->nin ? call->in[i] : call->out[i - call->nin];
        if (cont >= 0) program_line(p, "  x[%d].data = %s;", i, address(p, cont));
    }
    program_line(p, "  c.define = define;");
    program_line(p, "  c.objects = f->objects; c.scratch = %s;", apart ? "scratch" : "f->scratch");
    if (shared) program_line(p, "  c.part = t; c.parts = n;");
    open_span(p);
    const char *inside =
        arena_printf(p->arena, "%s%s", check_containers(p, call->row->name, call->in, call->nin),
                     check_containers(p, call->row->name, call->out, call->nout));
    if (*inside) program_line(p, "  if (1%s)", inside);
    run_call(p, call, number);
    close_span(p, p->flow->kernel.n + number);
    program_line(p, "  if (c.status) weir_rt_fail(f, c.status, c.reason);");
    define_symbols(p, call);
    program_line(p, "}");
    if (shared) worked(p);
    if (call->ndefine) take_sizes(p, call->define, call->ndefine);
}

/* ---- loops and branches ---------------------------------------------------------------------- */

static void walk_items(CProgram *p, const Items *items);

static void copy_cont(CProgram *p, const char *to, const char *from, int like) {
    program_line(p,
                 p->host->device ? "weir_device_copy(f, %s, %s, %s);"
                 : p->alone      ? "copy(%s, %s, %s, 0, 1);"
                                 : "copy(%s, %s, %s, t, n);",
                 to, from, dim_text(p, cont_bytes(p, &p->flow->cont.at[like])));
    worked(p);
}

/* Is some `next` the `cur` of another carry? Then copying one by one would lose it. */
static bool carries_cross(const Item *it) {
    for (int i = 0; i < it->carry.n; i++)
        for (int j = 0; j < it->carry.n; j++)
            if (i != j && it->carry.at[i].next == it->carry.at[j].cur) return true;
    return false;
}

static void carry_on(CProgram *p, const Item *it) {
    sync_all(p);
    bool cross = carries_cross(it);
    Dim at = dim_const(p->ctx, 0);
    for (int pass = 0; pass < 1 + cross; pass++) {
        at = dim_const(p->ctx, 0);
        for (int i = 0; i < it->carry.n; i++) {
            const Carry *k = &it->carry.at[i];
            const char *hold = arena_printf(p->arena, "f->%s + %s",
                                            p->host->device ? "hold" : "scratch", dim_text(p, at));
            const char *to = cross && pass == 0 ? hold : address(p, k->cur);
            const char *from = cross && pass == 1 ? hold : address(p, k->next);
            copy_cont(p, to, from, k->next);
            at = dim_add(p->ctx, at, cont_bytes(p, &p->flow->cont.at[k->next]));
        }
        sync_all(p);
    }
}

/* All threads read a condition before any of them goes on; a run that has failed goes on no longer.
 */
static const char *decide(CProgram *p, int cond) {
    return arena_printf(p->arena,
                        p->host->device ? "const u8 go = weir_device_byte(f, %s);"
                        : p->alone      ? "const u8 go = *(const u8 *)(%s) && !f->status;"
                                        : "const u8 go = *(const u8 *)(%s) && !f->status; "
                                          "weir_rt_barrier(f, t, n);",
                        address(p, cond));
}

static bool items_serial(const CProgram *p, const Items *items);

/* May thread 0 do an item alone? Its kernels are all serial, what it carries is little, and nobody
 * else needs a size that it defines. */
static bool item_serial(const CProgram *p, const Item *it) {
    int64_t bytes;
    if (it->kind == ITEM_CALL) return it->call->ndefine == 0;
    if (it->kind != ITEM_MAP) {
        for (int i = 0; i < it->carry.n; i++) {
            const Cont *c = &p->flow->cont.at[it->carry.at[i].cur];
            if (!dim_is_const(cont_bytes(p, c), &bytes) || bytes > SMALL_CARRY) return false;
        }
        return !it->done && items_serial(p, &it->body) && items_serial(p, &it->other);
    }
    for (int k = p->first_kernel[it->map]; k >= 0 && k < p->flow->kernel.n; k++) {
        if (kernel_root(p->flow->kernel.at[k]) != it->map) continue;
        if (p->flow->kernel.at[k]->when.n) return false;
        for (int i = 0; i < p->kernel[k]->phase.n; i++)
            if (!is_serial(&p->kernel[k]->phase.at[i])) return false;
    }
    return true;
}

static bool items_serial(const CProgram *p, const Items *items) {
    for (int i = 0; i < items->n; i++)
        if (!item_serial(p, &items->at[i])) return false;
    return true;
}

static void walk_steps(CProgram *p, const Item *it) {
    sync_all(p);
    for (int i = 0; i < it->carry.n; i++)
        copy_cont(p, address(p, it->carry.at[i].cur), address(p, it->carry.at[i].init),
                  it->carry.at[i].init);
    sync_all(p);
    const char *var = arena_printf(p->arena, "v%d", p->fresh++);
    program_line(p, "i64 %s = 0;", var);
    const char *more =
        it->trip ? arena_printf(p->arena, "%s < %s", var, dim_text(p, it->trip)) : "";
    program_line(p, "for (; %s; %s++) {", more, var);
    p->indent++;
    int mark = p->names.at.n;
    if (it->var) names_var(&p->names, it->var, var, dim_const(p->ctx, 0), NULL);
    if (it->cond >= 0) {
        program_line(p, "{ %s if (!go) break; }", decide(p, it->cond));
    }
    if (it->done) begin_turn(p, it->done, var);
    walk_items(p, &it->body);
    carry_on(p, it);
    p->indent--;
    program_line(p, "}");
    names_pop(&p->names, mark);
    if (!it->done) return;
    define_turns(p, it->done, var);
    worked(p);
    take_sizes(p, &it->done, 1);
}

/* A loop that is all serial needs no barrier from step to step. */
static void walk_loop(CProgram *p, const Item *it) {
    bool serial = !p->alone && !p->host->device && item_serial(p, it);
    if (serial) sync_serial(p);
    p->alone |= serial;
    walk_steps(p, it);
    if (serial) p->alone = false;
}

/* What one branch defines the other has not. */
static void walk_if(CProgram *p, const Item *it) {
    sync_all(p);
    bool *yes = p->defined, *no = arena_copy(p->arena, yes, (size_t)p->flow->symbol.n);
    if (it->when)
        program_line(p, "{ const u8 go = %s >= 0;", dim_text(p, it->when));
    else
        program_line(p, "{ %s", decide(p, it->cond));
    for (int side = 0; side < 2; side++) {
        program_line(p, side ? "else {" : "if (go) {");
        p->defined = side ? no : yes;
        p->indent++;
        walk_items(p, side ? &it->other : &it->body);
        sync_all(p);
        p->indent--;
        program_line(p, "}");
    }
    for (int i = 0; i < p->flow->symbol.n; i++) no[i] = no[i] || yes[i];
    program_line(p, "}");
}

/* Threads that skip such a copy wait for nobody, so what was done before counts as not waited for.
 */
static void walk_unless_shared(CProgram *p, int map) {
    const Alias *shared = unless_shared(p, map);
    if (!shared) {
        walk_map(p, map);
        return;
    }
    close_serial(p);
    program_line(p, "if (%s < 0) {", dim_text(p, shared->when));
    walk_map(p, map);
    close_serial(p);
    program_line(p, "}");
    worked(p);
}

static void walk_item(CProgram *p, const Item *it) {
    switch (it->kind) {
    case ITEM_MAP: walk_unless_shared(p, it->map); break;
    case ITEM_CALL: walk_call(p, it->call); break;
    case ITEM_LOOP: walk_loop(p, it); break;
    case ITEM_IF: walk_if(p, it); break;
    }
}

static void walk_items(CProgram *p, const Items *items) {
    for (int i = 0; i < items->n; i++) walk_item(p, &items->at[i]);
}

/* ---- functions ------------------------------------------------------------------------------- */

static void open_walk(CProgram *p, int number) {
    program_line(p, "static __attribute__((noinline)) int walk%d(weir_frame *f, int t, int n) {",
                 number);
    p->indent++;
    program_line(p, "char *const A = f->arena, *const W = (char *)f->weights;");
    program_line(p, "char *scratch = f->thread + t * f->thread_bytes;");
    program_line(p, "(void)A, (void)W, (void)scratch;");
    for (int i = 0; i < p->flow->symbol.n; i++) {
        program_line(p, "i64 s%d = f->symbol[%d]; (void)s%d;", i, i, i);
        if (p->late[i]) program_line(p, "const i64 b%d = f->place[%d]; (void)b%d;", i, i, i);
    }
    p->state = AFTER_NOTHING;
    p->pending.n = 0;
    p->known = true;
}

static void close_walk(CProgram *p) {
    sync_all(p);
    program_line(p, "return 0;");
    p->indent--;
    program_line(p, "}");
}

static void emit_call_shape(CProgram *p, int number) {
    const Call *call = p->call[number];
    int nx = call->nin + call->nout;
    if (call->nattr) {
        text_printf(&p->out, "static const i64 attr%d[] = {", number);
        for (int i = 0; i < call->nattr; i++)
            text_printf(&p->out, "%lld, ", (long long)call->attr[i]);
        text_put(&p->out, "};\n");
    }
    program_line(p, "static void call%d(const i64 *s, weir_call *c, weir_tensor *x) {", number);
    program_line(p, " (void)s;");
    program_line(p, " __builtin_memset(c, 0, sizeof *c);");
    program_line(p, " __builtin_memset(x, 0, %d * sizeof *x);", call_tensors(call));
    program_line(p, " c->nin = %d; c->nout = %d; c->nattr = %d; c->ndefine = %d;", call->nin,
                 call->nout, call->nattr, call->ndefine);
    program_line(p, " c->in = x; c->out = x + %d;", call->nin);
    if (call->nattr) program_line(p, " c->attr = attr%d;", number);
    for (int i = 0; i < nx; i++) {
        int cont = i < call->nin ? call->in[i] : call->out[i - call->nin];
        if (cont < 0) continue;
        const Cont *k = &p->flow->cont.at[cont];
        program_line(p, " x[%d].dtype = %d; x[%d].rank = %d;", i, dtype_onnx(k->type), i, k->rank);
        for (int d = 0; d < k->rank; d++) {
            text_printf(&p->out, " x[%d].dims[%d] = ", i, d);
            emit_dim_saturated(&p->out, &p->names, k->shape[d]);
            text_put(&p->out, ";\n");
        }
    }
    program_line(p, "}");
}

/* Names for all symbols by two formats: of those that inputs give, and of late ones. */
static void name_symbols(CProgram *p, Names *names, char early, char late, bool array) {
    *names = (Names){.arena = p->arena, .ctx = p->ctx};
    for (int i = 0; i < p->flow->symbol.n; i++) {
        const Symbol *s = &p->flow->symbol.at[i];
        Dim hi = s->hi == INT64_MAX ? NULL : dim_const(p->ctx, s->hi);
        const char *text =
            arena_printf(p->arena, array ? "%c[%d]" : "%c%d", p->late[i] ? late : early, i);
        names_var(names, s->sym, text, dim_const(p->ctx, s->lo), hi);
    }
}

static void name_shared(CProgram *p) {
    p->shared = (Names){.arena = p->arena, .ctx = p->ctx};
    for (int i = 0; i < p->flow->symbol.n; i++)
        names_var(&p->shared, p->flow->symbol.at[i].sym, arena_printf(p->arena, "f->symbol[%d]", i),
                  NULL, NULL);
}

void emit_run(CProgram *p) {
    Text before = p->out;
    p->out = (Text){.arena = p->arena};
    name_symbols(p, &p->names, 's', 's', false);
    name_symbols(p, &p->place, 's', 'b', false);
    name_shared(p);
    const Items *items = &p->flow->body;
    int walks = 0;
    for (int i = 0; i < items->n; i++) {
        if (i % WALK_ITEMS == 0) open_walk(p, walks++);
        walk_item(p, &items->at[i]);
        if (i % WALK_ITEMS == WALK_ITEMS - 1 || i == items->n - 1) close_walk(p);
    }
    program_line(p, "static void run(weir_frame *f, int t, int n) {");
    program_line(p, " (void)f, (void)t, (void)n;");
    for (int i = 0; i < walks; i++) program_line(p, " if (walk%d(f, t, n)) return;", i);
    program_line(p, "}");
    Text walk = p->out;
    p->out = before;
    name_symbols(p, &p->names, 's', 's', true);
    name_symbols(p, &p->place, 'b', 'b', true);
    for (int i = 0; i < p->ncall; i++) emit_call_shape(p, i);
    text_put_n(&p->out, walk.at, walk.n);
}
