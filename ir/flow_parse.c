/* SPDX-License-Identifier: Apache-2.0 */
/* Flows from text, by recursive descent over the grammar of ir/README.md. Only the form is checked
 * here, and what is needed to build the structure (names, ranks, value types); the rest is
 * flow_verify's. */
#include "flow_parse.h"

#include <string.h>

/* ---- names ------------------------------------------------------------------------------- */

static int number_of(const Table *table, const char *name) {
    return (int)(intptr_t)table_get(table, name) - 1;
}

static void number_put(FlowScan *s, Table *table, const char *name, int number) {
    if (number_of(table, name) >= 0)
        lex_fail(s->lex, "\"%s\" is declared twice, before this", name);
    table_put(table, name, (void *)(intptr_t)(number + 1));
}

int scan_cont(FlowScan *s) {
    Lex before = *s->lex;
    const char *name = lex_name(s->lex, "a container");
    int number = number_of(s->conts, name);
    if (number >= 0) return number;
    *s->lex = before;
    lex_fail(s->lex, "no container is named \"%s\"", name);
}

static int scan_cont_or_none(FlowScan *s) {
    return lex_take(s->lex, "-") ? -1 : scan_cont(s);
}

Dim scan_sym(void *user, const char *name) {
    FlowScan *s = user;
    for (int k = 0; s->layout_of && k < s->layout_of->rank; k++)
        if (s->layout_name[k] == name) return flow_layout_sym(s->lex->ctx, k);
    for (int d = 0; s->map && d < s->map->dim.n; d++)
        if (dim_sym_name(s->map->dim.at[d].sym) == name) return s->map->dim.at[d].sym;
    for (int i = s->loop.n - 1; i >= 0; i--)
        if (dim_sym_name(s->loop.at[i]) == name) return s->loop.at[i];
    for (int i = 0; i < s->flow->symbol.n; i++)
        if (dim_sym_name(s->flow->symbol.at[i].sym) == name) return s->flow->symbol.at[i].sym;
    return NULL;
}

static Dim scan_dim(FlowScan *s) {
    return parse_dim(s->lex, scan_sym, s);
}

static const Dim *dims_copy(FlowScan *s, const Dim *dims, int n) {
    return arena_copy(s->arena, dims, (size_t)n * sizeof *dims);
}

/* ---- containers -------------------------------------------------------------------------- */

/* `[i,j] -> (j/48, i, j%48) of [3,N,48] fill 0`, then perhaps `marks` */
static const Layout *scan_layout(FlowScan *s, const Cont *cont) {
    Dim dims[RANK_MAX];
    Layout *layout = NEW(s->arena, Layout);
    lex_expect(s->lex, "[");
    for (int k = 0; k < cont->rank; k++) {
        if (k) lex_expect(s->lex, ",");
        s->layout_name[k] = lex_name(s->lex, "a name for each dim");
    }
    lex_expect(s->lex, "]");
    lex_expect(s->lex, "->");
    s->layout_of = cont;
    layout->rank = parse_dims(s->lex, "(", ")", scan_sym, s, dims, RANK_MAX);
    s->layout_of = NULL;
    layout->map = dims_copy(s, dims, layout->rank);
    lex_expect(s->lex, "of");
    int rank = parse_dims(s->lex, "[", "]", scan_sym, s, dims, RANK_MAX);
    if (rank != layout->rank)
        lex_fail(s->lex, "storage of rank %d in a box of rank %d", layout->rank, rank);
    layout->box = dims_copy(s, dims, rank);
    layout->has_fill = !lex_take(s->lex, "undef") && lex_take(s->lex, "fill");
    if (layout->has_fill) layout->fill = parse_bits(s->lex, cont->type);
    layout->marks = lex_take(s->lex, "marks");
    return layout;
}

static Bits scan_text(FlowScan *s) {
    size_t n;
    const char *at = lex_string(s->lex, &n);
    return (Bits)flow_text(s->flow, at, (int64_t)n);
}

/* `{ 1, 2, 3 }`: as many elements as the shape holds; complex ones as two numbers. */
static void scan_data(FlowScan *s, Cont *cont) {
    int64_t n, count = 0;
    DType t = cont->type == C64 ? F32 : cont->type == C128 ? F64 : cont->type;
    if (t == OBJECT) lex_fail(s->lex, "objects have no literal");
    if (!dim_is_const(dim_product(s->lex->ctx, cont->shape, cont->rank), &n) || n < 0)
        lex_fail(s->lex, "a literal's shape is constant");
    if (t != cont->type) n *= 2;
    if (n > (int64_t)strlen(s->lex->p)) lex_fail(s->lex, "%lld elements expected", (long long)n);
    cont->data_bytes = dtype_bytes(t, n);
    void *data = arena_alloc(s->arena, (size_t)cont->data_bytes);
    lex_expect(s->lex, "{");
    for (; !lex_is(s->lex, "}"); count++) {
        if (count) lex_expect(s->lex, ",");
        if (count == n) break;
        mem_set(t, data, count, t == STRING ? scan_text(s) : parse_bits(s->lex, t));
    }
    if (count != n || !lex_is(s->lex, "}"))
        lex_fail(s->lex, "%lld elements expected", (long long)n);
    lex_next(s->lex);
    cont->data = data;
}

/* Weights are not in the text: an offset is read over. */
static void scan_offset(FlowScan *s) {
    if (!lex_take(s->lex, "@")) return;
    if (!lex_take(s->lex, "none")) lex_int(s->lex, "an offset");
}

static void scan_place(FlowScan *s, Cont *cont) {
    if (!lex_take(s->lex, "place")) return;
    if (lex_take(s->lex, "kernel")) {
        cont->place = PLACE_KERNEL;
        return;
    }
    lex_expect(s->lex, "arena");
    cont->place = PLACE_ARENA;
    cont->offset = scan_dim(s);
}

/* `in` begins a range only before a number: the next container may be an `in`. */
static bool range_next(const Lex *lex) {
    const char *p = lex->p;
    while (*p == ' ') p++;
    return lex_is(lex, "in") && (*p == '-' || (*p >= '0' && *p <= '9'));
}

static void scan_container(FlowScan *s, ContKind kind) {
    Dim shape[RANK_MAX];
    Cont cont = {.kind = kind};
    cont.name = lex_name(s->lex, "a name");
    number_put(s, s->conts, cont.name, s->flow->cont.n);
    lex_expect(s->lex, ":");
    cont.type = parse_type(s->lex);
    cont.rank = parse_dims(s->lex, "[", "]", scan_sym, s, shape, RANK_MAX);
    cont.shape = dims_copy(s, shape, cont.rank);
    if (cont.type == OBJECT && s->lex->t.kind == TOK_STRING) cont.object = lex_string(s->lex, NULL);
    cont.has_range = range_next(s->lex) && lex_take(s->lex, "in");
    if (cont.has_range) parse_range(s->lex, &cont.lo, &cont.hi);
    scan_offset(s);
    if (lex_take(s->lex, "layout")) cont.layout = scan_layout(s, &cont);
    scan_place(s, &cont);
    if (lex_take(s->lex, "=")) scan_data(s, &cont);
    cont.from = parse_from(s->lex);
    vec_push(s->arena, &s->flow->cont, cont);
}

/* ---- maps -------------------------------------------------------------------------------- */

static int find_container(void *user, const char *name, DType *type, int *rank) {
    FlowScan *s = user;
    int number = number_of(s->conts, name);
    if (number < 0) return -1;
    *type = s->flow->cont.at[number].type;
    *rank = s->flow->cont.at[number].rank;
    return number;
}

static const Combine *text_defined(const FlowScan *s) {
    for (int i = 0; lex_name_next(s->lex) && i < s->flow->combine.n; i++)
        if (s->flow->combine.at[i]->name == s->lex->t.text) return s->flow->combine.at[i];
    return NULL;
}

/* `sum:f32`, or a name that the flow defines; NULL when none stands here. */
static const Combine *scan_combine(FlowScan *s) {
    const Combine *combine = text_defined(s);
    if (combine) {
        lex_next(s->lex);
        return combine;
    }
    return lex_name_next(s->lex) && *s->lex->p == ':' ? parse_combine(s->lex) : NULL;
}

static void scan_write(BodyScan *b, Target *t) {
    FlowScan *s = b->user;
    int val[COMBINE_STATES];
    Write write = {.n = t->n, .nstate = t->nval};
    write.combine = scan_combine(s);
    int want = write.combine ? write.combine->nstate : t->n;
    if (t->nval != want || (!write.combine && t->n != 1))
        lex_fail(s->lex, "%d values for %d targets: a tuple needs a combine of as many states",
                 t->nval, t->n);
    for (int i = 0; i < t->nval; i++)
        val[i] = body_scan_build(b, t->val[i], write.combine ? write.combine->type[i] : t->type[i]);
    write.val = arena_copy(s->arena, val, (size_t)t->nval * sizeof *val);
    write.to = arena_copy(s->arena, t->to, (size_t)t->n * sizeof *t->to);
    vec_push(s->arena, &s->map->write, write);
}

static void scan_map_dims(FlowScan *s) {
    lex_expect(s->lex, "[");
    while (!lex_is(s->lex, "|") && !lex_is(s->lex, "]")) {
        if (s->map->dim.n) lex_expect(s->lex, ",");
        MapDim dim = {0};
        dim.seq = lex_is(s->lex, "seq") && *s->lex->p != ':' && lex_take(s->lex, "seq");
        const char *name = lex_name(s->lex, "a dim");
        if (scan_sym(s, name)) lex_fail(s->lex, "dim \"%s\" is declared twice, before this", name);
        lex_expect(s->lex, ":");
        dim.extent = scan_dim(s);
        dim.sym = dim_sym(s->lex->ctx, name);
        vec_push(s->arena, &s->map->dim, dim);
    }
    Dims cons = {0};
    if (lex_take(s->lex, "|")) parse_guards(s->lex, scan_sym, s, &cons);
    for (int i = 0; i < cons.n; i++) vec_push(s->arena, &s->map->cons, cons.at[i]);
    lex_expect(s->lex, "]");
}

static void scan_map(FlowScan *s, Items *into) {
    Map *map = s->map = NEW(s->arena, Map);
    map->name = lex_name(s->lex, "a map's name");
    map->body.arena = s->arena;
    number_put(s, s->maps, map->name, s->flow->map.n);
    Item item = {.kind = ITEM_MAP, .map = s->flow->map.n, .cond = -1};
    vec_push(s->arena, into, item);
    vec_push(s->arena, &s->flow->map, map);
    scan_map_dims(s);
    map->coded = lex_take(s->lex, "coded");
    map->from = parse_from(s->lex);
    lex_expect(s->lex, "{");
    BodyScan body = {.user = s, .cont = find_container, .sym = scan_sym};
    body_scan_init(&body, s->lex, &map->body);
    body_scan_block(&body, scan_write);
    s->map = NULL;
}

/* ---- items ------------------------------------------------------------------------------- */

static Dim scan_declared(FlowScan *s) {
    if (!lex_name_next(s->lex) || !scan_sym(s, s->lex->t.text))
        lex_fail(s->lex, "expected a symbol of the flow");
    return dim_sym(s->lex->ctx, lex_name(s->lex, "a symbol"));
}

static void scan_call(FlowScan *s, Items *into) {
    VEC(int) in = {0}, out = {0};
    VEC(int64_t) attr = {0};
    VEC(Dim) define = {0};
    Call *call = NEW(s->arena, Call);
    call->name = lex_name(s->lex, "a name for the call");
    lex_expect(s->lex, "=");
    call->row = lex_name_next(s->lex) ? call_row(s->lex->ctx, s->lex->t.text) : NULL;
    if (!call->row) lex_fail(s->lex, "no call is named so in ir/call.def");
    lex_next(s->lex);
    lex_expect(s->lex, "(");
    while (!lex_take(s->lex, ")")) {
        if (in.n) lex_expect(s->lex, ",");
        vec_push(s->arena, &in, scan_cont_or_none(s));
    }
    if (lex_take(s->lex, "(")) {
        do vec_push(s->arena, &attr, lex_int(s->lex, "an integer attribute"));
        while (lex_take(s->lex, ","));
        lex_expect(s->lex, ")");
    }
    if (lex_take(s->lex, "->")) {
        do vec_push(s->arena, &out, scan_cont_or_none(s));
        while (lex_take(s->lex, ","));
    }
    if (lex_take(s->lex, "defines")) {
        do vec_push(s->arena, &define, scan_declared(s));
        while (lex_take(s->lex, ","));
    }
    call->from = parse_from(s->lex);
    call->in = in.at, call->nin = in.n;
    call->out = out.at, call->nout = out.n;
    call->attr = attr.at, call->nattr = attr.n;
    call->define = define.at, call->ndefine = define.n;
    Item item = {.kind = ITEM_CALL, .call = call, .cond = -1};
    vec_push(s->arena, into, item);
}

static void scan_items(FlowScan *s, Items *into, int depth);

static void scan_region(FlowScan *s, Items *into, int depth) {
    if (depth == 100) lex_fail(s->lex, "items nested too deeply");
    lex_expect(s->lex, "{");
    scan_items(s, into, depth + 1);
    lex_expect(s->lex, "}");
}

static void scan_loop(FlowScan *s, Items *into, int depth) {
    Item item = {.kind = ITEM_LOOP, .cond = -1};
    const char *name = lex_name(s->lex, "a loop variable");
    if (scan_sym(s, name)) lex_fail(s->lex, "symbol \"%s\" is declared twice, before this", name);
    item.var = dim_sym(s->lex->ctx, name);
    if (lex_take(s->lex, ":")) item.trip = scan_dim(s);
    if (lex_take(s->lex, "while")) item.cond = scan_cont(s);
    if (lex_take(s->lex, "done")) item.done = scan_declared(s);
    if (lex_take(s->lex, "carry")) {
        do {
            Carry carry = {.cur = scan_cont(s)};
            lex_expect(s->lex, "=");
            carry.init = scan_cont(s);
            lex_expect(s->lex, "next");
            carry.next = scan_cont(s);
            vec_push(s->arena, &item.carry, carry);
        } while (lex_take(s->lex, ","));
    }
    item.from = parse_from(s->lex);
    vec_push(s->arena, &s->loop, item.var);
    s->flow->loops = true;
    scan_region(s, &item.body, depth);
    vec_push(s->arena, into, item);
}

/* `D >= E` alone. */
static Dim scan_guard(FlowScan *s, const char *what) {
    Dims guards = {0};
    parse_guards(s->lex, scan_sym, s, &guards);
    if (guards.n > 1) lex_fail(s->lex, "%s has one condition", what);
    return guards.at[0];
}

static void scan_if(FlowScan *s, Items *into, int depth) {
    Item item = {.kind = ITEM_IF, .cond = -1};
    if (lex_take(s->lex, "[")) {
        item.when = scan_guard(s, "a choice");
        lex_expect(s->lex, "]");
    } else {
        item.cond = scan_cont(s);
    }
    item.from = parse_from(s->lex);
    scan_region(s, &item.body, depth);
    if (lex_take(s->lex, "else")) scan_region(s, &item.other, depth);
    vec_push(s->arena, into, item);
}

/* Items until something else stands here. */
static void scan_items(FlowScan *s, Items *into, int depth) {
    for (;;) {
        if (lex_take(s->lex, "map"))
            scan_map(s, into);
        else if (lex_take(s->lex, "call"))
            scan_call(s, into);
        else if (lex_take(s->lex, "loop"))
            scan_loop(s, into, depth);
        else if (lex_take(s->lex, "if"))
            scan_if(s, into, depth);
        else
            return;
    }
}

/* ---- the flow ---------------------------------------------------------------------------- */

static void scan_combine_definition(FlowScan *s) {
    Body scratch = {.arena = s->arena};
    BodyScan b = {.user = s, .cont = find_container, .sym = scan_sym, .whole = true};
    body_scan_init(&b, s->lex, &scratch);
    body_scan_look(&b);
    vec_push(s->arena, &s->flow->combine, combine_parse(s->arena, &b.scan));
}

static void scan_require(FlowScan *s) {
    Require r = {.a = scan_dim(s)};
    lex_expect(s->lex, "=");
    r.b = scan_dim(s);
    r.broadcast = lex_take(s->lex, "or");
    if (r.broadcast && lex_int(s->lex, "1") != 1) lex_fail(s->lex, "expected `or 1`");
    r.from = parse_from(s->lex);
    vec_push(s->arena, &s->flow->require, r);
}

static void scan_indices(FlowScan *s) {
    Require r = {.index = s->flow->cont.at[scan_cont(s)].name};
    lex_expect(s->lex, "of");
    r.a = scan_dim(s);
    r.from = parse_from(s->lex);
    vec_push(s->arena, &s->flow->require, r);
}

static void scan_alias(FlowScan *s) {
    Alias alias = {.cont = scan_cont(s)};
    lex_expect(s->lex, "=");
    alias.of = scan_cont(s);
    lex_expect(s->lex, "at");
    alias.offset = scan_dim(s);
    if (lex_take(s->lex, "when")) alias.when = scan_guard(s, "an alias");
    vec_push(s->arena, &s->flow->alias, alias);
}

static void scan_statement(FlowScan *s) {
    int kind = parse_word(s->lex, cont_words);
    if (kind >= 0)
        scan_container(s, (ContKind)kind);
    else if (lex_take(s->lex, "combine"))
        scan_combine_definition(s);
    else if (lex_take(s->lex, "require"))
        scan_require(s);
    else if (lex_take(s->lex, "indices"))
        scan_indices(s);
    else if (lex_take(s->lex, "alias"))
        scan_alias(s);
    else if (lex_take(s->lex, "prepare"))
        s->flow->prepare = flow_scan(s->lex);
    else if (lex_take(s->lex, "arena"))
        s->flow->arena_bytes = scan_dim(s);
    else if (lex_take(s->lex, "kernel"))
        scan_kernel(s);
    else
        lex_fail(s->lex, "expected a container, map, call, loop, if, require, indices, combine, "
                         "alias or kernel");
}

Flow *flow_scan(Lex *lex) {
    lex_expect(lex, "flow");
    Flow *flow = flow_new(lex->arena, lex_name(lex, "the flow's name"));
    FlowScan s = {.lex = lex, .flow = flow, .arena = lex->arena};
    s.conts = table_new(lex->arena);
    s.maps = table_new(lex->arena);
    Symbols symbols = {0};
    parse_symbols(lex, NULL, NULL, &symbols);
    for (int i = 0; i < symbols.n; i++) vec_push(lex->arena, &flow->symbol, symbols.at[i]);
    lex_expect(lex, "{");
    for (;;) {
        scan_items(&s, &flow->body, 0);
        if (lex_take(lex, "}")) return flow;
        scan_statement(&s);
    }
}

Flow *flow_parse(Arena *arena, const char *text, const char **end) {
    Lex lex;
    Where where = arena_ctx(arena)->where;
    lex_init(&lex, arena, text);
    Flow *flow = flow_scan(&lex);
    if (end) *end = lex.t.at;
    arena_ctx(arena)->where = where;
    return flow;
}
