/* SPDX-License-Identifier: Apache-2.0 */
/* Flow as text. The order is fixed: symbols, containers by number, combines, items in program
 * order, aliases, kernels. */
#include <string.h>

#include "flow_text.h"

#include "lex.h"

const char *const cont_words[] = {"in", "out", "param", "tmp", "state", "literal", NULL};
const char *const storage_words[] = {"reg", "tile", "shared", "scratch", "arena", NULL};
const char *const line_words[] = {
    "tile",   "order",   "parallel", "block",   "thread",    "at",    "keep", "vector", "unroll",
    "reduce", "split",   "partial",  "factor",  "prefetch",  "merge", "use",  "stage",  "serial",
    "rows",   "columns", "depth",    "library", "alternate", "skip",  NULL};

static const char *cont_name(void *user, int number) {
    const Flow *flow = user;
    return number < 0 || number >= flow->cont.n ? "?" : flow->cont.at[number].name;
}

static void put_cont(Text *out, const Flow *flow, int cont) {
    if (cont < 0)
        text_put(out, "-");
    else
        text_name(out, cont_name((void *)flow, cont));
}

/* ---- containers -------------------------------------------------------------------------- */

static void print_layout(Text *out, const Cont *cont) {
    const Layout *layout = cont->layout;
    text_put(out, " layout [");
    for (int k = 0; k < cont->rank; k++) text_printf(out, k ? ", _%d" : "_%d", k);
    text_put(out, "] -> (");
    print_dims(out, layout->map, layout->rank);
    text_put(out, ") of [");
    print_dims(out, layout->box, layout->rank);
    text_put(out, "]");
    if (layout->has_fill) {
        text_put(out, " fill ");
        bits_print(out, cont->type, layout->fill);
    }
    if (layout->marks) text_put(out, " marks");
}

/* Complex elements are written as two numbers. */
static void print_data(Text *out, const Flow *flow, const Cont *cont) {
    DType t = cont->type == C64 ? F32 : cont->type == C128 ? F64 : cont->type;
    int64_t n = cont->data_bytes * 8 / dtype_bits(t), count;
    if (dim_is_const(dim_product(arena_ctx(out->arena), cont->shape, cont->rank), &count) &&
        t == cont->type)
        n = count;
    text_put(out, " = {");
    for (int64_t i = 0; i < n; i++) {
        text_put(out, i ? ", " : " ");
        Bits bits = mem_get(t, cont->data, i);
        if (t != STRING)
            bits_print(out, t, bits);
        else if (bits < (Bits)flow->text.n)
            text_quoted(out, flow->text.at[bits].at, (size_t)flow->text.at[bits].n);
        else
            text_quoted(out, "", 0);
    }
    text_put(out, " }");
}

static void print_place(Text *out, const Cont *cont) {
    if (cont->place == PLACE_NONE) return;
    text_put(out, cont->place == PLACE_ARENA ? " place arena " : " place kernel");
    if (cont->place == PLACE_ARENA) dim_print(out, cont->offset);
}

static void print_cont(Printer *p, const Flow *flow, const Cont *cont) {
    Text *out = p->out;
    print_line(p);
    print_see(p, cont);
    text_printf(out, "%-5s ", cont_words[cont->kind]);
    text_name(out, cont->name);
    text_printf(out, " : %s[", dtype_name(cont->type));
    print_dims(out, cont->shape, cont->rank);
    text_put(out, "]");
    if (cont->object) {
        text_put(out, " ");
        text_quoted(out, cont->object, strlen(cont->object));
    }
    if (cont->has_range)
        text_printf(out, " in %lld..%lld", (long long)cont->lo, (long long)cont->hi);
    if (cont->layout) print_layout(out, cont);
    print_place(out, cont);
    if (cont->kind == CONT_LITERAL && cont->data) print_data(out, flow, cont);
    print_from(out, cont->from);
    print_end(p);
}

/* ---- combines ---------------------------------------------------------------------------- */

/* "(a0, a1) ", naming params `first` on. */
static void print_params(Text *out, const char *letter, int n, int first, const char **param) {
    for (int i = 0; i < n; i++) {
        param[first + i] = internf(arena_ctx(out->arena), "%s%d", letter, i);
        text_printf(out, i ? ", %s" : "(%s", param[first + i]);
    }
    text_put(out, ") ");
}

/* `merge (..) (..) { lines (results) }`, params in `letters`; results that are -1 are not there. */
static void print_block(Printer *p, const char *word, const char *letters, const Body *body,
                        const Combine *combine, const int *results) {
    const char *param[2 * COMBINE_STATES];
    BodyText t = {.p = p, .arena = p->out->arena, .body = body, .param = param};
    int n = combine->nstate;
    print_line(p);
    text_printf(p->out, "%s ", word);
    for (; *letters; letters++, t.nparam += n)
        print_params(p->out, (char[]){*letters, 0}, n, t.nparam, param);
    text_put(p->out, "{");
    print_end(p);
    p->indent++;
    while (n > 0 && results[n - 1] < 0) n--;
    body_text_plan(&t, results, n, NULL, 0);
    body_text_lines(&t);
    print_line(p);
    for (int i = 0; i < n; i++) {
        text_put(p->out, i ? ", " : "(");
        body_text_value(&t, results[i], combine->type[i]);
    }
    text_put(p->out, ")");
    print_end(p);
    p->indent--;
    print_line(p);
    text_put(p->out, "}");
    print_end(p);
}

static void print_combine(Printer *p, const Combine *combine) {
    print_line(p);
    print_see(p, combine);
    text_put(p->out, "combine ");
    text_name(p->out, combine->name);
    for (int i = 0; i < combine->nstate; i++) {
        text_printf(p->out, "%ss%d:%s = ", i ? ", " : " (", i, dtype_name(combine->type[i]));
        bits_print(p->out, combine->type[i], combine->identity[i]);
    }
    text_put(p->out, ")");
    if (combine->associative) text_put(p->out, " associative");
    if (combine->commutative) text_put(p->out, " commutative");
    if (combine->idempotent) text_put(p->out, " idempotent");
    text_put(p->out, " {");
    print_end(p);
    p->indent++;
    print_block(p, "merge", "ab", &combine->merge, combine, combine->merged);
    if (combine->finish.val.n)
        print_block(p, "finish", "s", &combine->finish, combine, combine->finished);
    p->indent--;
    print_line(p);
    text_put(p->out, "}");
    print_end(p);
}

void text_combine(Text *out, const Combine *combine) {
    if (combine->t)
        text_printf(out, "%s:%s", combine->name, dtype_name(combine->t));
    else
        text_name(out, combine->name);
}

/* ---- maps -------------------------------------------------------------------------------- */

static DType state_type(const Flow *flow, const Write *write, int i) {
    if (write->combine) return write->combine->type[i];
    int cont = write->to[i].cont;
    return cont < 0 || cont >= flow->cont.n ? DT_NONE : flow->cont.at[cont].type;
}

static void print_write(BodyText *t, const Flow *flow, const Write *write) {
    Text *out = t->p->out;
    bool tuple = write->n > 1 || write->nstate > 1;
    print_line(t->p);
    print_see(t->p, write);
    if (tuple) text_put(out, "(");
    for (int i = 0; i < write->nstate; i++) {
        if (i) text_put(out, ", ");
        body_text_value(t, write->val[i], state_type(flow, write, i));
    }
    text_put(out, tuple ? ") -> " : " -> ");
    if (write->n > 1) text_put(out, "(");
    for (int i = 0; i < write->n; i++) {
        if (i) text_put(out, ", ");
        body_text_access(t, &write->to[i]);
    }
    if (write->n > 1) text_put(out, ")");
    if (write->combine) {
        text_put(out, " ");
        text_combine(out, write->combine);
    }
    print_end(t->p);
}

static void print_map_header(Printer *p, const Map *map) {
    Text *out = p->out;
    print_line(p);
    print_see(p, map);
    text_put(out, "map ");
    text_name(out, map->name);
    text_put(out, " [");
    for (int d = 0; d < map->dim.n; d++) {
        const MapDim *dim = &map->dim.at[d];
        print_see(p, dim);
        text_printf(out, "%s%s", d ? ", " : "", dim->seq ? "seq " : "");
        text_name(out, dim_sym_name(dim->sym));
        text_put(out, ":");
        dim_print(out, dim->extent);
    }
    if (map->cons.n) text_put(out, " | ");
    print_guards(out, map->cons.at, map->cons.n);
    text_put(out, map->coded ? "] coded" : "]");
    print_from(out, map->from);
    text_put(out, " {");
    print_end(p);
}

static void print_map(Printer *p, const Flow *flow, const Map *map) {
    Arena *arena = p->out->arena;
    BodyText t = {.p = p, .arena = arena, .body = &map->body, .reads = true};
    t.cont = cont_name;
    t.user = (void *)flow;
    VEC(int) roots = {0};
    for (int w = 0; w < map->write.n; w++)
        for (int i = 0; i < map->write.at[w].nstate; i++)
            vec_push(arena, &roots, map->write.at[w].val[i]);
    print_map_header(p, map);
    p->indent++;
    DimEnv env = map_env(arena, flow, map);
    Dim *taken = NEW_ARRAY(arena, Dim, env.n);
    for (int i = 0; i < env.n; i++) taken[i] = env.at[i].sym;
    body_text_plan(&t, roots.at, roots.n, taken, env.n);
    body_text_lines(&t);
    for (int w = 0; w < map->write.n; w++) print_write(&t, flow, &map->write.at[w]);
    p->indent--;
    print_line(p);
    text_put(p->out, "}");
    print_end(p);
}

/* ---- items ------------------------------------------------------------------------------- */

static void print_call(Printer *p, const Flow *flow, const Call *call) {
    Text *out = p->out;
    print_line(p);
    print_see(p, call);
    text_put(out, "call ");
    text_name(out, call->name);
    text_printf(out, " = %s(", call->row->name);
    for (int i = 0; i < call->nin; i++) {
        if (i) text_put(out, ", ");
        put_cont(out, flow, call->in[i]);
    }
    text_put(out, ")");
    for (int i = 0; i < call->nattr; i++)
        text_printf(out, i ? ", %lld" : " (%lld", (long long)call->attr[i]);
    if (call->nattr) text_put(out, ")");
    for (int i = 0; i < call->nout; i++) {
        text_put(out, i ? ", " : " -> ");
        put_cont(out, flow, call->out[i]);
    }
    for (int i = 0; i < call->ndefine; i++) {
        text_put(out, i ? ", " : " defines ");
        text_name(out, dim_sym_name(call->define[i]));
    }
    print_from(out, call->from);
    print_end(p);
}

static void print_items(Printer *p, const Flow *flow, const Items *items);

static void print_region(Printer *p, const Flow *flow, const Items *items, const char *end) {
    text_put(p->out, " {");
    print_end(p);
    p->indent++;
    print_items(p, flow, items);
    p->indent--;
    print_line(p);
    text_put(p->out, end);
}

static void print_loop(Printer *p, const Flow *flow, const Item *item) {
    Text *out = p->out;
    text_put(out, "loop ");
    text_name(out, dim_sym_name(item->var));
    if (item->trip) text_put(out, ":");
    if (item->trip) dim_print(out, item->trip);
    if (item->cond >= 0) text_put(out, " while ");
    if (item->cond >= 0) put_cont(out, flow, item->cond);
    if (item->done) text_put(out, " done ");
    if (item->done) text_name(out, dim_sym_name(item->done));
    for (int i = 0; i < item->carry.n; i++) {
        const Carry *carry = &item->carry.at[i];
        text_put(out, i ? ", " : " carry ");
        put_cont(out, flow, carry->cur);
        text_put(out, " = ");
        put_cont(out, flow, carry->init);
        text_put(out, " next ");
        put_cont(out, flow, carry->next);
    }
    print_from(out, item->from);
    print_region(p, flow, &item->body, "}");
    print_end(p);
}

static void print_if(Printer *p, const Flow *flow, const Item *item) {
    text_put(p->out, item->when ? "if [" : "if ");
    item->when ? print_guards(p->out, &item->when, 1) : put_cont(p->out, flow, item->cond);
    if (item->when) text_put(p->out, "]");
    print_from(p->out, item->from);
    print_region(p, flow, &item->body, "} else");
    print_region(p, flow, &item->other, "}");
    print_end(p);
}

static void print_items(Printer *p, const Flow *flow, const Items *items) {
    for (int i = 0; i < items->n; i++) {
        const Item *item = &items->at[i];
        switch (item->kind) {
        case ITEM_MAP: print_map(p, flow, flow->map.at[item->map]); continue;
        case ITEM_CALL: print_call(p, flow, item->call); continue;
        case ITEM_LOOP:
        case ITEM_IF: break;
        }
        print_line(p);
        print_see(p, item);
        (item->kind == ITEM_LOOP ? print_loop : print_if)(p, flow, item);
    }
}

/* ---- the flow ---------------------------------------------------------------------------- */

/* `require N = M or 1 from "node"`: equal, or one of them 1; `indices ids of N`. */
static void print_require(Printer *p, const Require *r) {
    print_line(p);
    print_see(p, r);
    text_put(p->out, r->index ? "indices " : "require ");
    if (r->index) text_name(p->out, r->index);
    if (r->index) text_put(p->out, " of ");
    dim_print(p->out, r->a);
    if (r->b) text_put(p->out, " = ");
    if (r->b) dim_print(p->out, r->b);
    if (r->broadcast) text_put(p->out, " or 1");
    print_from(p->out, r->from);
    print_end(p);
}

static void print_alias(Printer *p, const Flow *flow, const Alias *alias) {
    print_line(p);
    print_see(p, alias);
    text_put(p->out, "alias ");
    put_cont(p->out, flow, alias->cont);
    text_put(p->out, " = ");
    put_cont(p->out, flow, alias->of);
    text_put(p->out, " at ");
    dim_print(p->out, alias->offset);
    if (alias->when) text_put(p->out, " when ");
    if (alias->when) print_guards(p->out, &alias->when, 1);
    print_end(p);
}

void flow_print_marked(Printer *p, const Flow *flow) {
    print_line(p);
    print_see(p, flow);
    text_put(p->out, "flow ");
    text_name(p->out, flow->name);
    print_symbols(p->out, flow->symbol.at, flow->symbol.n);
    text_put(p->out, " {");
    print_end(p);
    p->indent++;
    if (flow->prepare) {
        print_line(p);
        text_put(p->out, "prepare");
        print_end(p);
        flow_print_marked(p, flow->prepare);
    }
    if (flow->arena_bytes && !dim_is(flow->arena_bytes, 0)) {
        print_line(p);
        text_put(p->out, "arena ");
        dim_print(p->out, flow->arena_bytes);
        print_end(p);
    }
    for (int i = 0; i < flow->cont.n; i++) print_cont(p, flow, &flow->cont.at[i]);
    for (int i = 0; i < flow->require.n; i++) print_require(p, &flow->require.at[i]);
    for (int i = 0; i < flow->combine.n; i++) print_combine(p, flow->combine.at[i]);
    print_items(p, flow, &flow->body);
    for (int i = 0; i < flow->alias.n; i++) print_alias(p, flow, &flow->alias.at[i]);
    for (int i = 0; i < flow->kernel.n; i++) print_kernel(p, flow, flow->kernel.at[i]);
    p->indent--;
    print_line(p);
    text_put(p->out, "}");
    print_end(p);
}

void flow_print(Text *out, const Flow *flow) {
    Printer p = {.out = out};
    flow_print_marked(&p, flow);
}
