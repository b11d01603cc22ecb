/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of unit 0: how symbols follow from the inputs' dims, sizes as functions of the
 * symbols, ports, literals, the weights' blob, the descriptor. See runtime/weir_rt.h for what reads
 * them. */
#include "c_program.h"

#include "runtime/weir_rt.h"

#include <string.h>

/* ---- symbols --------------------------------------------------------------------------------- */

/* d = mul*sym + add of one symbol? */
static bool one_symbol(const CProgram *p, Dim d, Dim sym, int64_t *mul, int64_t *add) {
    Dim coef, rest;
    return dim_affine(p->ctx, d, &sym, 1, &coef, &rest) && dim_is_const(coef, mul) && *mul != 0 &&
           dim_is_const(rest, add);
}

/* Symbols that say how the caller's memory lies. */
static bool bind_memory(const CProgram *p, Dim sym, Binding *b) {
    int dim, shared = flow_shared(p->flow, sym), spare = flow_spare(p->flow, sym, &dim);
    *b = (Binding){.from = WEIR_FROM_CALL, .mul = 1};
    if (shared >= 0) {
        const Alias *a = &p->flow->alias.at[shared];
        b->from = WEIR_FROM_SHARED;
        b->port = (int)p->cont_index[a->of];
        b->dim = (int)p->cont_index[a->cont];
    } else if (spare >= 0) {
        b->from =
            p->flow->cont.at[spare].kind == CONT_IN ? WEIR_FROM_SPARE_IN : WEIR_FROM_SPARE_OUT;
        b->port = (int)p->cont_index[spare];
        b->dim = dim;
    }
    return b->from != WEIR_FROM_CALL;
}

/* The first input dim that gives the symbol: one that is the symbol itself before a multiple of it.
 */
Binding bind_symbol(const CProgram *p, Dim sym) {
    Binding best;
    if (bind_memory(p, sym, &best)) return best;
    for (int i = 0; i < p->flow->cont.n; i++) {
        const Cont *c = &p->flow->cont.at[i];
        if (c->kind != CONT_IN) continue;
        for (int d = 0; d < c->rank; d++) {
            int64_t mul, add;
            if (!one_symbol(p, c->shape[d], sym, &mul, &add)) continue;
            bool plain = mul == 1 && add == 0;
            if (best.from == WEIR_FROM_CALL || plain)
                best = (Binding){WEIR_FROM_DIM, (int)p->cont_index[i], d, mul, add};
            if (plain) return best;
        }
    }
    return best;
}

static void put_i64(Text *out, int64_t v) {
    if (v == INT64_MIN)
        text_put(out, "-9223372036854775807 - 1");
    else
        text_printf(out, "%lld", (long long)v);
}

static void emit_follow(CProgram *p) {
    text_put(&p->out, "static void follow(const i64 *given, i64 *s) {\n (void)given, (void)s;\n");
    for (int i = 0; i < p->flow->symbol.n; i++) {
        Dim upper = p->flow->symbol.at[i].upper;
        if (!upper || !is_unbounded(p, i) || !symbol_bounded(&p->flow->symbol.at[i])) continue;
        text_printf(&p->out, " if (given[%d] == %lld) s[%d] = ", i, (long long)INT64_MAX, i);
        emit_dim_saturated(&p->out, &p->names, upper);
        text_put(&p->out, ";\n");
    }
    text_put(&p->out, "}\n");
}

static void emit_symbols(CProgram *p) {
    const Flow *f = p->flow;
    text_put(&p->out, "static const weir_symbol symbols[] = {\n");
    for (int i = 0; i < f->symbol.n; i++) {
        const Symbol *s = &f->symbol.at[i];
        Binding b = bind_symbol(p, s->sym);
        text_printf(&p->out, " {%s, ", c_string(p->arena, dim_sym_name(s->sym)));
        put_i64(&p->out, s->lo);
        text_put(&p->out, ", ");
        put_i64(&p->out, s->hi);
        text_printf(&p->out, ", %d, %d, %d, %lld, %lld},\n", b.from, b.port, b.dim,
                    (long long)b.mul, (long long)b.add);
    }
    text_put(&p->out, " {0}\n};\n");
    text_put(&p->out, "static void bound(i64 *s, i64 *b) {\n (void)s, (void)b;\n");
    for (int i = 0; i < f->symbol.n; i++) {
        const Symbol *sym = &f->symbol.at[i];
        if (p->late[i]) {
            text_printf(&p->out, " s[%d] = ", i);
            if (sym->upper && !is_unbounded(p, i))
                emit_dim_saturated(&p->out, &p->names, sym->upper);
            else
                put_i64(&p->out, is_unbounded(p, i) ? INT64_MAX : sym->hi);
            text_put(&p->out, ";\n");
        }
        if (is_unbounded(p, i))
            text_printf(&p->out, " b[%d] = %lld;\n", i, (long long)sym->lo);
        else
            text_printf(&p->out, " b[%d] = s[%d];\n", i, i);
    }
    text_put(&p->out, "}\n");
    emit_follow(p);
}

/* ---- sizes ----------------------------------------------------------------------------------- */

static void put_value(CProgram *p, const Names *names, int at, Dim d) {
    text_printf(&p->out, " v[%d] = ", at);
    emit_dim_saturated(&p->out, names, d);
    text_put(&p->out, ";\n");
}

static void put_largest(CProgram *p, int at, Dim d) {
    if (dim_is(d, 0)) return;
    text_printf(&p->out, " v[%d] = imax(v[%d], ", at, at);
    emit_dim_saturated(&p->out, &p->place, d);
    text_put(&p->out, ");\n");
}

/* What a kernel in loops needs in any of their turns. */
static Dim scratch_at_most(const CProgram *p, const CKernel *k) {
    int loops = p->flow->symbol.n; /* their variables stand behind the symbols */
    Dim most = dim_upper_from(p->ctx, k->scratch, &p->env, loops);
    return most ? most : k->scratch;
}

/* Room to hold the carried containers of a loop while they trade places. */
static void carry_sizes(CProgram *p, const Items *items) {
    for (int i = 0; i < items->n; i++) {
        const Item *it = &items->at[i];
        Dim sum = dim_const(p->ctx, 0);
        for (int k = 0; k < it->carry.n; k++)
            sum = dim_add(p->ctx, sum, cont_bytes(p, &p->flow->cont.at[it->carry.at[k].next]));
        if (it->carry.n > 1) put_largest(p, 2, sum);
        carry_sizes(p, &it->body);
        carry_sizes(p, &it->other);
    }
}

static int emit_eval(CProgram *p) {
    const Flow *f = p->flow;
    int n = 3;
    text_put(&p->out, "static void eval(const i64 *s, const i64 *b, i64 *v) {\n (void)s, "
                      "(void)b;\n v[1] = 0, v[2] = 0;\n");
    put_value(p, &p->place, 0, f->arena_bytes ? f->arena_bytes : dim_const(p->ctx, 0));
    for (int k = 0; k < f->kernel.n; k++)
        if (p->kernel[k]) put_largest(p, 1, scratch_at_most(p, p->kernel[k]));
    for (int i = 0; i < p->ncall; i++) {
        const Call *call = p->call[i];
        const char *there = call_on_device(p, call);
        int at = call_apart(p, call) ? 1 : 2;
        text_printf(&p->out,
                    " { weir_call c; weir_tensor x[%d]; call%d(b, &c, x); v[%d] = imax(v[%d], "
                    "%s_scratch(&c)); }\n",
                    call_tensors(call) + 1, i, at, at, there ? there : call->row->function);
    }
    carry_sizes(p, &f->body);
    for (int kind = CONT_IN; kind <= CONT_OUT; kind++)
        for (int i = 0; i < f->cont.n; i++)
            for (int d = 0; (int)f->cont.at[i].kind == kind && d < f->cont.at[i].rank; d++)
                put_value(p, &p->names, n++, f->cont.at[i].shape[d]);
    for (int i = 0; i < f->require.n; i++) {
        put_value(p, &p->names, n++, f->require.at[i].a);
        put_value(p, &p->names, n++, f->require.at[i].b ? f->require.at[i].b : f->require.at[i].a);
    }
    text_put(&p->out, "}\n");
    return n;
}

/* Bounds of sizes that depend on one another multiply: what waits for all of them has no room until
 * they are there. */
static void put_waiting(CProgram *p, int cont) {
    const Flow *f = p->flow;
    for (int i = 0; i < f->symbol.n; i++)
        if (p->late[i] && cont_uses(&f->cont.at[cont], f->symbol.at[i].sym))
            text_printf(&p->out, " if (given[%d] == %lld) v[%d] = 0;\n", i, (long long)INT64_MAX,
                        p->heap[cont]);
}

static void emit_heap(CProgram *p) {
    text_put(&p->out, "static void heap(const i64 *given, const i64 *s, i64 *v) {\n"
                      " (void)given, (void)s, (void)v;\n");
    for (int k = 0; k < p->flow->cont.n; k++) {
        if (p->heap[k] < 0) continue;
        put_value(p, &p->names, p->heap[k], cont_bytes(p, &p->flow->cont.at[k]));
        if (p->behind[k]) put_waiting(p, k);
    }
    text_put(&p->out, "}\nstatic const u16 when[] = {");
    for (int k = 0; k < p->flow->cont.n; k++)
        if (p->flow->cont.at[k].kind == CONT_OUT)
            text_printf(&p->out, "%d, ", p->when[p->cont_index[k]]);
    text_put(&p->out, "0};\n");
}

/* ---- ports, literals ------------------------------------------------------------------------- */

/* A lone symbol by its own name, without the quotes that the IR's text would give a keyword. */
static const char *port_dim(CProgram *p, Dim d) {
    return dim_sym_name(d) ? dim_sym_name(d) : dim_str(p->ctx, d);
}

static void emit_port(CProgram *p, const Cont *c, const char *name, int n, Text *ports) {
    text_printf(&p->out, "static const char *const %s%d[] = {", name, n);
    for (int d = 0; d < c->rank; d++)
        text_printf(&p->out, "%s, ", c_string(p->arena, port_dim(p, c->shape[d])));
    text_put(&p->out, "0};\n");
    text_printf(ports, " {%s, %d, %d, %s%d, %s},\n", c_string(p->arena, c->name),
                dtype_onnx(c->type), c->rank, name, n,
                c->object ? c_string(p->arena, c->object) : "0");
}

static int emit_ports(CProgram *p, ContKind kind, const char *name) {
    const Flow *f = p->flow;
    Text ports = {.arena = p->arena};
    int n = 0;
    for (int i = 0; i < f->cont.n; i++)
        if (f->cont.at[i].kind == kind) emit_port(p, &f->cont.at[i], name, n++, &ports);
    text_printf(&p->out, "static const weir_port %s[] = {\n%s {0}\n};\n", name, text_str(&ports));
    return n;
}

/* Which output may lie in which input's memory, and along which dim it goes on. */
static int emit_shared(CProgram *p) {
    int n = 0;
    text_put(&p->out, "static const weir_shared shared[] = {\n");
    for (int i = 0; i < p->flow->alias.n; i++) {
        const Alias *a = &p->flow->alias.at[i];
        int from, to, dim = 0;
        bool found = false;
        for (int m = 0; m < p->flow->map.n && a->when && !found; m++)
            found = flow_carries_over(p->flow, p->flow->map.at[m], &from, &to, &dim) &&
                    from == a->of && to == a->cont;
        if (!found) continue;
        text_printf(&p->out, " {%d, %d, %d},\n", (int)p->cont_index[from], (int)p->cont_index[to],
                    dim);
        n++;
    }
    text_put(&p->out, " {0}\n};\n");
    return n;
}

void emit_literals(CProgram *p) {
    for (int i = 0; i < p->flow->cont.n; i++) {
        const Cont *c = &p->flow->cont.at[i];
        bool stored = p->options->weight_offset && p->options->weight_offset[i] >= 0;
        if (c->kind != CONT_LITERAL || stored || !c->data) continue;
        text_printf(&p->out, "static const u8 literal%d[] ALIGNED __attribute__((unused)) = {", i);
        const uint8_t *bytes = c->data;
        for (int64_t k = 0; k < c->data_bytes; k++)
            text_printf(&p->out, k % 32 ? "%d," : "\n %d,", bytes[k]);
        text_put(&p->out, "\n};\n");
    }
}

/* Constant strings; returns how many, 0 when the program has no handles at all. */
static int emit_texts(CProgram *p) {
    const Flow *f = p->flow;
    bool handles = false;
    for (int i = 0; i < f->cont.n; i++) handles |= dtype_class(f->cont.at[i].type) == CLASS_OBJECT;
    if (!handles) return 0;
    text_put(&p->out, "static const weir_string texts[] = {\n");
    for (int i = 0; i < f->text.n; i++)
        text_printf(&p->out, " {%s, %lld},\n", c_bytes(p->arena, f->text.at[i].at, f->text.at[i].n),
                    (long long)f->text.at[i].n);
    text_put(&p->out, " {\"\", 0}\n};\n");
    return f->text.n ? f->text.n : 1;
}

/* ---- what is asked of inputs ------------------------------------------------------------------
 */

/* "n" (dim 0 of "x"), or the sum as it stands. */
static const char *size_text(CProgram *p, Dim d) {
    for (int i = 0; i < p->flow->cont.n; i++) {
        const Cont *c = &p->flow->cont.at[i];
        for (int k = 0; c->kind == CONT_IN && !dim_is_const(d, NULL) && k < c->rank; k++)
            if (c->shape[k] == d)
                return c_string(p->arena, arena_printf(p->arena, "dim %d of input \"%s\" (%s)", k,
                                                       c->name, dim_str(p->ctx, d)));
    }
    return c_string(p->arena, arena_printf(p->arena, "the size %s", dim_str(p->ctx, d)));
}

static void emit_requires(CProgram *p, int first) {
    const Flow *f = p->flow;
    text_put(&p->out, "static const weir_require require[] = {\n");
    for (int i = 0; i < f->require.n; i++) {
        const Require *r = &f->require.at[i];
        if (!r->index)
            text_printf(&p->out, " {%s, %s, %s, %d, %d},\n", size_text(p, r->a), size_text(p, r->b),
                        c_string(p->arena, r->from ? r->from : ""), first + 2 * i, r->broadcast);
        p->nrequire += !r->index;
    }
    text_put(&p->out, " {0}\n};\n");
}

static void put_range(CProgram *p, int cont, int64_t lo, int64_t hi, int value) {
    const Cont *c = &p->flow->cont.at[cont];
    if (c->kind != CONT_IN || (c->type != I32 && c->type != I64)) return;
    text_printf(&p->out, " {%d, %d, %lldll, %lldll},\n", (int)p->cont_index[cont], value,
                (long long)lo, (long long)hi);
    p->nrange++;
}

/* What is asked of inputs; `first` is the first of the values for it. */
static void emit_asked(CProgram *p, int first) {
    const Flow *f = p->flow;
    emit_requires(p, first);
    text_put(&p->out, "static const weir_range range[] = {\n");
    for (int i = 0; i < f->cont.n; i++)
        if (f->cont.at[i].has_range) put_range(p, i, f->cont.at[i].lo, f->cont.at[i].hi, -1);
    for (int i = 0; i < f->require.n; i++)
        for (int c = 0; f->require.at[i].index && c < f->cont.n; c++)
            if (!strcmp(f->cont.at[c].name, f->require.at[i].index))
                put_range(p, c, 0, 0, first + 2 * i);
    text_put(&p->out, " {0}\n};\n");
}

/* ---- descriptor ------------------------------------------------------------------------------ */

static void emit_cpu(CProgram *p) {
    static const char *const macros[] = {
#define FEATURE(MACRO, name, leaf, sub, reg, bit, state) #MACRO,
#include "runtime/cpu.def"
#undef FEATURE
    };
    text_put(&p->out, "static const u64 cpu = 0\n");
    for (size_t i = 0; i < sizeof macros / sizeof *macros; i++)
        text_printf(&p->out, "#ifdef %s\n | 1ull << %d\n#endif\n", macros[i], (int)i);
    text_put(&p->out, ";\n");
}

static void emit_blob(CProgram *p) {
    if (is_lesser(p)) {
        text_put(&p->out, "extern volatile struct weir_blob weir_blob;\n");
        return;
    }
    text_printf(
        &p->out,
        "%svolatile struct weir_blob weir_blob = {WEIR_BLOB_MAGIC0, WEIR_BLOB_MAGIC1, 0, %lld};\n",
        p->options->jit ? "" : "__attribute__((visibility(\"hidden\"))) ",
        (long long)p->options->weight_bytes);
}

/* Names of what is timed: kernels, then calls, each by what it does and which it is. */
static void emit_profiled(CProgram *p) {
    text_put(&p->out, "static const char *const profiled[] = {\n");
    for (int i = 0; i < p->flow->kernel.n; i++)
        text_printf(&p->out, " %s,\n", c_string(p->arena, p->flow->kernel.at[i]->name));
    for (int i = 0; i < p->ncall; i++)
        text_printf(&p->out, " %s,\n",
                    c_string(p->arena, arena_printf(p->arena, "%s.%s", p->call[i]->row->name,
                                                    p->call[i]->name)));
    text_put(&p->out, "};\n");
}

/* The build text, and what memory a run needs over the model's symbols: the arena of temporaries,
 * and what each thread has for itself. Calls may add scratch that only they know. */
static const char *build_text(CProgram *p) {
    const char *build = p->options->build ? p->options->build : "{}";
    const Flow *f = p->flow;
    Dim thread = dim_const(p->ctx, 0);
    for (int k = 0; k < f->kernel.n; k++)
        if (p->kernel[k]) thread = dim_max(p->ctx, thread, p->kernel[k]->scratch);
    size_t n = strlen(build) - 1;
    Text out = {.arena = p->arena};
    text_put_n(&out, build, n);
    text_put(&out, n > 1 ? ", \"arena_bytes\": " : "\"arena_bytes\": ");
    text_json(&out, f->arena_bytes ? dim_str(p->ctx, f->arena_bytes) : "0");
    text_put(&out, ", \"thread_bytes\": ");
    text_json(&out, dim_str(p->ctx, thread));
    text_put(&out, "}");
    return text_str(&out);
}

static void put_numbers(Text *out, const char *name, const int64_t *at, int n) {
    text_printf(out, "static const i64 %s[] = {", name);
    for (int i = 0; i < n; i++) text_printf(out, "%lld, ", (long long)at[i]);
    text_put(out, "0};\n");
}

static int count_kind(const Flow *f, ContKind kind) {
    int n = 0;
    for (int i = 0; i < f->cont.n; i++) n += f->cont.at[i].kind == kind;
    return n;
}

/* What stands between stored weights and those that the program reads. */
static void emit_constant(CProgram *p) {
    const EmitOptions *o = p->options;
    if (!o->constant) return;
    Text ports = {.arena = p->arena};
    text_put(&p->out, "extern const weir_program weir_prepare_program "
                      "__attribute__((visibility(\"hidden\")));\n");
    put_numbers(&p->out, "raw_at", o->raw, count_kind(o->constant, CONT_IN));
    put_numbers(&p->out, "made_at", o->made_at, count_kind(o->constant, CONT_OUT));
    text_put(&p->out, "static const i32 weight_input[] = {");
    for (int i = 0; i < o->nweights; i++) text_printf(&p->out, "%d, ", o->weight_input[i]);
    text_put(&p->out, "0};\n");
    for (int i = 0, n = 0, k = 0; i < o->constant->cont.n; i++) {
        if (o->constant->cont.at[i].kind != CONT_IN) continue;
        if (n < o->nweights && o->weight_input[n] == k++)
            emit_port(p, &o->constant->cont.at[i], "weight", n++, &ports);
    }
    text_printf(&p->out, "static const weir_port weights[] = {\n%s {0}\n};\n", text_str(&ports));
}

/* The program but for its public face. */
static void put_program(CProgram *p, int values, int texts) {
    const EmitOptions *o = p->options;
    Text *out = &p->out;
    text_printf(out,
                " .version = WEIR_RT_VERSION, .nsymbol = %d, .symbol = symbols, .nvalue = %d, "
                ".nheap = %d,\n",
                p->flow->symbol.n, values, p->nheap);
    text_printf(out, " .nrequire = %d, .nrange = %d, .require = require, .range = range,\n",
                p->nrequire, p->nrange);
    text_put(out, " .cpu = cpu, .when = when, .bound = bound, .follow = follow, .eval = eval, "
                  ".heap = heap, .run = "
                  "run,\n");
    if (!o->part) text_put(out, " .blob = &weir_blob,\n");
    if (p->host->device) text_put(out, " .device = &weir_device_cuda, .image = &image,\n");
    if (o->constant)
        text_printf(out,
                    " .prepare = &weir_prepare_program, .raw = raw_at, .made = made_at, "
                    ".made_bytes = %lld, .weight_input = weight_input,\n",
                    (long long)o->made_bytes);
    if (o->cpu) text_printf(out, " .name = %s,\n", c_string(p->arena, o->cpu));
    if (o->nlesser) text_put(out, " .versions = versions,\n");
    if (o->profile)
        text_printf(out, " .nprofiled = %d, .profiled = profiled,\n", p->flow->kernel.n + p->ncall);
    if (texts) text_printf(out, " .text = texts, .ntext = %d,\n", texts);
    if (o->weights_file)
        text_printf(out, " .weights_file = %s, .weights_check = 0x%llxull,\n",
                    c_string(p->arena, o->weights_file), (unsigned long long)o->weights_check);
}

static void put_weight_functions(Text *out, const EmitOptions *o) {
    if (!o->nweights) return;
    text_printf(out,
                "  .nweights = %d, .weights = weights, .weights_of = weir_rt_weights_of,\n"
                "  .weights_new = weir_rt_weights_new, .weights_use = weir_rt_weights_use, "
                ".weights_free = weir_rt_weights_free,\n",
                o->nweights);
}

/* Code for several CPUs, the best first: `versions` of the program, their names for the model. */
static void emit_versions(CProgram *p) {
    const EmitOptions *o = p->options;
    Text names = {.arena = p->arena}, programs = {.arena = p->arena};
    for (int i = o->nlesser - 1; i >= 0; i--) {
        const char *id = c_version(p->arena, o->lesser[i]);
        text_printf(&p->out,
                    "extern const weir_program program_%s __attribute__((visibility(\"hidden\")));"
                    "\n",
                    id);
        text_printf(&programs, " &program_%s,", id);
        text_printf(&names, " %s,", c_string(p->arena, o->lesser[i]));
    }
    text_printf(&p->out,
                "static const weir_program program;\n"
                "static const weir_program *const versions[] = {&program,%s 0};\n"
                "static const char *const version_names[] = {%s,%s 0};\n"
                "static i32 version(char *error) {\n"
                " return weir_rt_version(&program, error);\n}\n",
                text_str(&programs), c_string(p->arena, o->cpu), text_str(&names));
}

/* The head of the definition; others than the one with the descriptor are seen by the linker. */
static void open_program(CProgram *p) {
    const char *name = "weir_prepare_program";
    if (is_lesser(p))
        name = arena_printf(p->arena, "program_%s", c_version(p->arena, p->options->cpu));
    if (is_lesser(p) || p->options->part)
        text_printf(&p->out,
                    "extern const weir_program %s __attribute__((visibility(\"hidden\")));\n"
                    "const weir_program %s = {\n",
                    name, name);
    else
        text_put(&p->out, "static weir_status create(const weir_pool *pool, weir_instance **out, "
                          "char *error);\nstatic const weir_program program = {\n");
}

/* What hosts call, and where they find it. */
static void emit_descriptor(CProgram *p) {
    text_printf(
        &p->out,
        "static weir_status create(const weir_pool *pool, weir_instance **out, char *error) {\n"
        " return weir_rt_create(&program, pool, out, error);\n}\n"
        "%s"
        "__attribute__((visibility(\"default\"))) const weir_model *weir_model_descriptor(void);\n"
        "const weir_model *weir_model_descriptor(void) { return &program.model; }\n",
        p->host->device ? "static weir_status create_on(i32 device, const weir_pool *pool, "
                          "weir_instance **out, char *error) {\n"
                          " return weir_rt_create_on(&program, device, pool, out, error);\n}\n"
                        : "");
}

void emit_tables(CProgram *p) {
    const EmitOptions *o = p->options;
    emit_symbols(p);
    int values = emit_eval(p);
    emit_heap(p);
    int texts = emit_texts(p);
    int nin = emit_ports(p, CONT_IN, "in"), nout = emit_ports(p, CONT_OUT, "out");
    int nshared = emit_shared(p);
    emit_asked(p, values - 2 * p->flow->require.n);
    emit_cpu(p);
    emit_constant(p);
    if (p->host->device) p->host->tables(p);
    if (!o->part) emit_blob(p);
    if (o->profile) emit_profiled(p);
    Text *out = &p->out;
    if (o->nlesser) emit_versions(p);
    open_program(p);
    put_program(p, values, texts);
    text_printf(out,
                " .model = {.size = sizeof(weir_model), .abi = WEIR_ABI_VERSION, .name = %s,\n",
                c_string(p->arena, p->flow->name));
    text_printf(out, "  .ninputs = %d, .noutputs = %d, .inputs = in, .outputs = out,\n", nin, nout);
    if (o->part) {
        text_printf(out, "  .nshared = %d, .shared = shared}\n};\n", nshared);
        return;
    }
    text_printf(out, "  .build = %s,\n", c_string(p->arena, build_text(p)));
    if (!is_lesser(p)) text_put(out, "  .create = create,\n");
    text_put(out,
             "  .reserve = weir_rt_reserve, .run = weir_rt_run, .destroy = weir_rt_destroy,\n"
             "  .error = weir_rt_error, .shapes = weir_rt_shapes, .pool_new = weir_pool_new,\n");
    if (p->host->device)
        text_put(out, "  .create_on = create_on, .submit = weir_device_submit, .wait = "
                      "weir_device_wait,\n");
    put_weight_functions(out, o);
    text_printf(
        out,
        "  .pool_free = weir_pool_free, .weight_bytes = %lld,\n  .profile = %s,\n  .nshared = %d, "
        ".shared = shared%s}\n};\n",
        (long long)o->weight_bytes, o->profile ? "weir_rt_profile" : "0", nshared,
        o->nlesser ? arena_printf(p->arena,
                                  ",\n  .nversions = %d, .versions = version_names, .version = "
                                  "version",
                                  o->nlesser + 1)
                   : "");
    if (!is_lesser(p)) emit_descriptor(p);
}
