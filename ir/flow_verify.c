/* SPDX-License-Identifier: Apache-2.0 */
/* Is a flow what flow.h demands? Containers, items, maps and bodies are walked here in program
 * order; the accesses met are collected and judged in flow_verify_access.c. */
#include "flow_verify.h"

/* ---- symbols and containers -------------------------------------------------------------- */

static Dim symbol_upper(Ctx *ctx, const Symbol *s) {
    Dim hi = s->hi == INT64_MAX ? NULL : dim_const(ctx, s->hi);
    return s->upper && hi ? dim_min(ctx, s->upper, hi) : s->upper ? s->upper : hi;
}

static void verify_symbols(FlowVerify *f) {
    Ctx *ctx = f->v.ctx;
    for (int i = 0; i < f->flow->symbol.n; i++) {
        const Symbol *s = &f->flow->symbol.at[i];
        const char *name = dim_sym_name(s->sym);
        if (!name) complain(&f->v, f->flow, NULL, "a declared symbol is not a symbol");
        if (verify_known(&f->v, s->sym))
            complain(&f->v, f->flow, NULL, "symbol \"%s\" stands twice", name);
        if (s->hi < s->lo) complain(&f->v, f->flow, NULL, "symbol \"%s\" has an empty range", name);
        if (s->upper) verify_dim(&f->v, s->upper, f->flow, NULL, "a symbol's upper bound");
        DimRange range = {s->sym, dim_const(ctx, s->lo), symbol_upper(ctx, s)};
        vec_push(f->v.arena, &f->v.range, range);
    }
}

/* The layout's map speaks of `_0 .. _rank-1`; its image must stay in the box and keep elements
 * apart. */
static void verify_layout(FlowVerify *f, const Cont *cont) {
    const Layout *layout = cont->layout;
    Verify *v = &f->v;
    Dim sym[RANK_MAX];
    int n = v->range.n;
    if (layout->rank < 0 || layout->rank > RANK_MAX)
        complain(v, cont, NULL, "layout of a bad rank");
    verify_dims(v, layout->box, layout->rank, cont, NULL, "a layout's box");
    if (layout->marks && (cont->kind != CONT_PARAM || cont->type != I8))
        complain(v, cont, NULL, "only weights of i8 have marks");
    for (int k = 0; k < cont->rank; k++) {
        sym[k] = flow_layout_sym(v->ctx, k);
        Dim hi = dim_addc(v->ctx, cont->shape[k], -1);
        vec_push(v->arena, &v->range, (DimRange){sym[k], dim_const(v->ctx, 0), hi});
    }
    verify_dims(v, layout->map, layout->rank, cont, NULL, "a layout");
    v->range.n = n;
    PolyRel rel = {{cont->rank, sym, cont->shape, 0, NULL},
                   {layout->rank, layout->map, layout->box, false}};
    if (poly_inside(v->ctx, &f->generic, &rel) == POLY_NO)
        complain(v, cont, NULL, "the layout of \"%s\" leaves its box", cont->name);
    if (poly_injective(v->ctx, &f->generic, &rel, NULL) == POLY_NO)
        complain(v, cont, NULL, "the layout of \"%s\" puts two elements in one place", cont->name);
}

static void verify_cont(FlowVerify *f, const Cont *cont, Table *names) {
    Verify *v = &f->v;
    int64_t bytes;
    if (!cont->name) complain(v, cont, NULL, "a container has no name");
    if (table_get(names, intern(v->ctx, cont->name)))
        complain(v, cont, NULL, "two containers are named \"%s\"", cont->name);
    table_put(names, intern(v->ctx, cont->name), (void *)cont);
    if (cont->type <= DT_NONE || cont->type >= DT_COUNT) complain(v, cont, NULL, "no element type");
    if (cont->rank < 0 || cont->rank > RANK_MAX) complain(v, cont, NULL, "rank %d", cont->rank);
    verify_dims(v, cont->shape, cont->rank, cont, NULL, "a shape");
    if (cont->has_range && !dtype_is_int(cont->type))
        complain(v, cont, NULL, "only integers have a range");
    if (cont->has_range && cont->lo > cont->hi) complain(v, cont, NULL, "an empty range of values");
    if (cont->layout) verify_layout(f, cont);
    if (cont->kind != CONT_LITERAL) return;
    if (!dim_is_const(dim_product(v->ctx, cont->shape, cont->rank), &bytes))
        complain(v, cont, NULL, "the shape of a literal is constant");
    bytes = dtype_bytes(cont->type, bytes);
    if (bytes > 0 && (!cont->data || cont->data_bytes < bytes))
        complain(v, cont, NULL, "literal \"%s\" lacks data", cont->name);
}

static void verify_conts(FlowVerify *f) {
    Table *names = table_new(f->v.arena);
    f->range = NEW_ARRAY(f->v.arena, DimRange, f->flow->cont.n);
    for (int i = 0; i < f->flow->cont.n; i++) {
        const Cont *cont = &f->flow->cont.at[i];
        verify_cont(f, cont, names);
        if (!cont->has_range) continue;
        f->range[i] =
            (DimRange){NULL, dim_const(f->v.ctx, cont->lo), dim_const(f->v.ctx, cont->hi)};
    }
}

static const DimRange *cont_range(Verify *v, int cont) {
    const FlowVerify *f = (FlowVerify *)v;
    return f->range[cont].lo ? &f->range[cont] : NULL;
}

static void verify_cont_number(FlowVerify *f, int cont, bool absent, const void *object) {
    if (cont < (absent ? -1 : 0) || cont >= f->flow->cont.n)
        complain(&f->v, object, f->flow, "container number %d does not exist", cont);
}

/* ---- maps -------------------------------------------------------------------------------- */

typedef struct DataUse {
    const Body *body;
    bool used;
} DataUse;

static void note_data(void *user, Dim sym) {
    DataUse *use = user;
    for (int i = 0; i < use->body->val.n; i++)
        if (use->body->val.at[i].sym == sym) use->used = true;
}

static Use map_use(FlowVerify *f, const Map *map, const Access *access, const void *object) {
    Use use = {.map = map, .access = access, .object = object, .cont = access->cont};
    DataUse data = {&map->body, false};
    for (int k = 0; k < access->rank; k++) dim_symbols(access->at[k], note_data, &data);
    for (int d = 0; d < map->dim.n; d++) use.seq |= map->dim.at[d].seq;
    use.data = data.used;
    use.position = f->position;
    use.naround = f->around.n;
    use.around = arena_copy(f->v.arena, f->around.at, sizeof *f->around.at * (size_t)f->around.n);
    return use;
}

static void verify_access(FlowVerify *f, const Map *map, const Access *access, const void *object) {
    verify_cont_number(f, access->cont, false, object);
    const Cont *cont = &f->flow->cont.at[access->cont];
    if (access->rank != cont->rank)
        complain(&f->v, object, map, "\"%s\" has %d dims, not %d", cont->name, cont->rank,
                 access->rank);
    verify_dims(&f->v, access->at, access->rank, object, map, "an index");
}

static void verify_read(Verify *v, const Val *val) {
    FlowVerify *f = (FlowVerify *)v;
    const Map *map = f->map;
    verify_access(f, map, &val->read, val);
    const Cont *cont = &f->flow->cont.at[val->read.cont];
    if (cont->type != val->type)
        complain(v, val, map, "\"%s\" is of type %s, read as %s", cont->name,
                 dtype_name(cont->type), dtype_name(val->type));
    Use use = map_use(f, map, &val->read, val);
    use.clip = val->has_else;
    vec_push(v->arena, &f->read, use);
    if (!val->has_else) verify_bounds(f, map, &use);
}

static void verify_write_types(FlowVerify *f, const Map *map, const Write *w) {
    const Combine *c = w->combine;
    Verify *v = &f->v;
    if (w->nstate < 1 || w->n < 1 || w->n > COMBINE_STATES || w->nstate > COMBINE_STATES)
        complain(v, w, map, "%d values written to %d places", w->nstate, w->n);
    if (c ? c->nstate != w->nstate : w->n != 1 || w->nstate != 1)
        complain(v, w, map, "%d values do not fit the combine", w->nstate);
    int results = c && !c->finish.val.n ? c->nstate : 1;
    if (c && c->finish.val.n)
        for (results = 0; results < c->nstate && c->finished[results] >= 0;) results++;
    if (w->n != results) complain(v, w, map, "%d targets for %d results", w->n, results);
    for (int i = 0; i < w->nstate; i++) {
        verify_val(v, &map->body, w->val[i], w);
        DType want = c ? c->type[i] : f->flow->cont.at[w->to[i].cont].type;
        DType type = map->body.val.at[w->val[i]].type;
        if (type != want)
            complain(v, w, map, "a value of type %s where %s is wanted", dtype_name(type),
                     dtype_name(want));
    }
}

static void verify_write(FlowVerify *f, const Map *map, const Write *w) {
    for (int i = 0; i < w->n; i++) {
        verify_access(f, map, &w->to[i], w);
        const Cont *cont = &f->flow->cont.at[w->to[i].cont];
        if (cont->kind != CONT_TMP && cont->kind != CONT_OUT && cont->kind != CONT_STATE)
            complain(&f->v, w, map, "\"%s\" is not to be written", cont->name);
        Use use = map_use(f, map, &w->to[i], w);
        use.plain = !w->combine;
        use.reduces = w->combine;
        vec_push(f->v.arena, &f->write, use);
        verify_bounds(f, map, &use);
    }
    verify_write_types(f, map, w);
}

/* A sum of multiples of sym and of its quotients and remainders by constants. */
static bool quasi_affine(Dim d, Dim sym) {
    for (int t = 0; t < d->nterms; t++) {
        int uses = 0;
        for (int a = 0; a < d->term[t].natoms; a++) {
            const Atom *atom = d->term[t].atom[a];
            bool symbol = atom->kind == ATOM_SYM;
            if (symbol ? atom->name != dim_sym_name(sym)
                       : !dim_uses(atom->a, sym) && !dim_uses(atom->b, sym))
                continue;
            bool quotient = (atom->kind == ATOM_DIV || atom->kind == ATOM_MOD) &&
                            dim_is_const(atom->b, NULL) && quasi_affine(atom->a, sym);
            if (uses++ || !(symbol || quotient)) return false;
        }
    }
    return true;
}

static void verify_map_dims(FlowVerify *f, const Map *map) {
    Verify *v = &f->v;
    for (int d = 0; d < map->dim.n; d++)
        verify_dim(v, map->dim.at[d].extent, &map->dim.at[d], map, "an extent");
    DimEnv env = map_env(v->arena, f->flow, map);
    for (int d = 0; d < map->dim.n; d++) {
        DimRange range = env.at[env.n - map->dim.n + d];
        if (!dim_sym_name(range.sym)) complain(v, map, NULL, "a dim is not a symbol");
        if (verify_known(v, range.sym))
            complain(v, map, NULL, "dim \"%s\" has the name of another symbol",
                     dim_sym_name(range.sym));
        vec_push(v->arena, &v->range, range);
    }
    verify_dims(v, map->cons.at, map->cons.n, map, NULL, "a constraint");
    for (int c = 0; c < map->cons.n; c++)
        for (int d = 0; d < map->dim.n; d++)
            if (dim_uses(map->cons.at[c], map->dim.at[d].sym) &&
                !quasi_affine(map->cons.at[c], map->dim.at[d].sym))
                complain(v, map, NULL, "a constraint is not affine in \"%s\"",
                         dim_sym_name(map->dim.at[d].sym));
}

static void verify_map(FlowVerify *f, const Item *item) {
    Verify *v = &f->v;
    int n = v->range.n;
    if (item->map < 0 || item->map >= f->flow->map.n)
        complain(v, f->flow, NULL, "an item names map %d of %d", item->map, f->flow->map.n);
    const Map *map = f->flow->map.at[item->map];
    if (f->seen[item->map]++) complain(v, map, NULL, "map \"%s\" stands in two items", map->name);
    f->map = map;
    verify_map_dims(f, map);
    verify_body(v, &map->body, map, verify_read, cont_range);
    if (!map->write.n) complain(v, map, NULL, "map \"%s\" writes nothing", map->name);
    for (int w = 0; w < map->write.n; w++) verify_write(f, map, &map->write.at[w]);
    v->range.n = n;
}

/* ---- items ------------------------------------------------------------------------------- */

static void whole_use(FlowVerify *f, const Item *item, int cont, bool write) {
    Use use = {.item = item, .object = item, .cont = cont, .position = f->position, .plain = true};
    if (item->kind == ITEM_CALL) use.object = item->call;
    use.naround = f->around.n;
    use.around = arena_copy(f->v.arena, f->around.at, sizeof *f->around.at * (size_t)f->around.n);
    if (write)
        vec_push(f->v.arena, &f->write, use);
    else
        vec_push(f->v.arena, &f->read, use);
}

static void verify_call(FlowVerify *f, const Item *item) {
    const Call *call = item->call;
    Verify *v = &f->v;
    if (call->nin > call->row->nin || call->nout > call->row->nout)
        complain(v, call, NULL, "\"%s\" takes %d operands and gives %d results at most",
                 call->row->name, call->row->nin, call->row->nout);
    for (int i = 0; i < call->nin; i++) {
        verify_cont_number(f, call->in[i], true, call);
        if (call->in[i] >= 0) whole_use(f, item, call->in[i], false);
    }
    for (int i = 0; i < call->nout; i++) {
        verify_cont_number(f, call->out[i], true, call);
        if (call->out[i] >= 0) whole_use(f, item, call->out[i], true);
    }
    for (int i = 0; i < call->ndefine; i++)
        if (!verify_known(v, call->define[i]))
            complain(v, call, NULL, "symbol \"%s\" is not declared", dim_sym_name(call->define[i]));
}

static void verify_items(FlowVerify *f, const Items *items);

static void verify_inside(FlowVerify *f, const Item *item, const Items *items, bool other) {
    vec_push(f->v.arena, &f->around, (Around){item, other});
    verify_items(f, items);
    f->around.n--;
}

/* `cur` counts as written before the loop; `next` is read by the loop once an iteration. */
static void verify_carry(FlowVerify *f, const Item *item) {
    for (int i = 0; i < item->carry.n; i++) {
        const Carry *carry = &item->carry.at[i];
        verify_cont_number(f, carry->cur, false, item);
        verify_cont_number(f, carry->init, false, item);
        verify_cont_number(f, carry->next, false, item);
        const Cont *cur = &f->flow->cont.at[carry->cur];
        if (f->flow->cont.at[carry->init].type != cur->type ||
            f->flow->cont.at[carry->next].type != cur->type)
            complain(&f->v, item, NULL, "carried \"%s\" changes its type", cur->name);
        whole_use(f, item, carry->init, false);
        whole_use(f, item, carry->cur, true);
    }
}

static void verify_condition(FlowVerify *f, const Item *item) {
    verify_cont_number(f, item->cond, false, item);
    const Cont *cond = &f->flow->cont.at[item->cond];
    if (cond->type != BOOL)
        complain(&f->v, item, NULL, "condition \"%s\" is not a bool", cond->name);
    whole_use(f, item, item->cond, false);
}

static void verify_loop(FlowVerify *f, const Item *item) {
    Verify *v = &f->v;
    int n = v->range.n;
    Dim end = item->done ? item->done : item->trip;
    Dim zero = dim_const(v->ctx, 0), last = end ? dim_addc(v->ctx, end, -1) : NULL;
    if (item->done && !verify_known(v, item->done))
        complain(v, item, NULL, "symbol \"%s\" is not declared", dim_sym_name(item->done));
    if (item->trip) verify_dim(v, item->trip, item, NULL, "a trip count");
    if (verify_known(v, item->var))
        complain(v, item, NULL, "loop \"%s\" has the name of another symbol",
                 dim_sym_name(item->var));
    verify_carry(f, item);
    f->position++;
    if (item->cond >= 0) verify_condition(f, item);
    vec_push(v->arena, &v->range, (DimRange){item->var, zero, last});
    verify_inside(f, item, &item->body, false);
    f->position++;
    for (int i = 0; i < item->carry.n; i++) whole_use(f, item, item->carry.at[i].next, false);
    v->range.n = n;
}

static void verify_items(FlowVerify *f, const Items *items) {
    for (int i = 0; i < items->n; i++) {
        const Item *item = &items->at[i];
        f->position++;
        switch (item->kind) {
        case ITEM_MAP: verify_map(f, item); break;
        case ITEM_CALL: verify_call(f, item); break;
        case ITEM_LOOP: verify_loop(f, item); break;
        case ITEM_IF:
            if (item->when)
                verify_dim(&f->v, item->when, item, NULL, "a choice's condition");
            else
                verify_condition(f, item);
            verify_inside(f, item, &item->body, false);
            verify_inside(f, item, &item->other, true);
            break;
        }
    }
}

/* ---- the flow ---------------------------------------------------------------------------- */

static void print_whole(Printer *p, const void *flow) {
    flow_print_marked(p, flow);
}

static void verify_names(FlowVerify *f) {
    Table *names = table_new(f->v.arena);
    for (int i = 0; i < f->flow->map.n; i++) {
        const Map *map = f->flow->map.at[i];
        if (!f->seen[i]) complain(&f->v, map, NULL, "map \"%s\" stands in no item", map->name);
        if (table_get(names, intern(f->v.ctx, map->name)))
            complain(&f->v, map, NULL, "two maps are named \"%s\"", map->name);
        table_put(names, intern(f->v.ctx, map->name), (void *)map);
    }
}

/* What may be true of a run: an output that continues an input lies where the input does. */
static void verify_shared(FlowVerify *f, const Alias *alias) {
    const Cont *c = &f->flow->cont.at[alias->cont], *of = &f->flow->cont.at[alias->of];
    bool copied = false;
    int from, to, dim, spare = -1;
    verify_dim(&f->v, alias->when, alias, NULL, "an alias's condition");
    for (int m = 0; m < f->flow->map.n && !copied; m++)
        copied = flow_carries_over(f->flow, f->flow->map.at[m], &from, &to, &dim) &&
                 from == alias->of && to == alias->cont;
    if (!copied || !dim_is(alias->offset, 0))
        complain(&f->v, alias, NULL, "no map copies all of \"%s\" to the start of \"%s\"", of->name,
                 c->name);
    for (int k = 0; k < 2; k++) {
        const Cont *side = k ? c : of;
        const Layout *l = side->layout;
        for (int i = 0; i < f->flow->symbol.n && l && l->rank == side->rank; i++)
            if (l->box[dim] == dim_add(f->v.ctx, side->shape[dim], f->flow->symbol.at[i].sym))
                spare = k;
        if (spare != k)
            complain(&f->v, alias, NULL, "\"%s\" has no rows to spare in its box", side->name);
    }
    for (const Alias *a = f->flow->alias.at; a < alias; a++)
        if (a->when && (a->cont == alias->cont || a->of == alias->of))
            complain(&f->v, alias, NULL, "\"%s\" is shared twice",
                     a->of == alias->of ? of->name : c->name);
}

static void verify_aliases(FlowVerify *f) {
    for (int i = 0; i < f->flow->alias.n; i++) {
        const Alias *alias = &f->flow->alias.at[i];
        verify_cont_number(f, alias->cont, false, alias);
        verify_cont_number(f, alias->of, false, alias);
        verify_dim(&f->v, alias->offset, alias, NULL, "an alias's offset");
        if (f->flow->cont.at[alias->cont].kind == CONT_PARAM)
            complain(&f->v, alias, NULL, "a param cannot share another container's memory");
        if (alias->when) verify_shared(f, alias);
    }
}

/* Sizes of at least 64 where the range allows: see flow_verify_access.c. */
static DimEnv generic_env(FlowVerify *f) {
    DimEnv env = flow_env(f->v.arena, f->flow);
    DimRange *range = arena_copy(f->v.arena, env.at, sizeof *env.at * (size_t)env.n);
    for (int i = 0; i < f->flow->symbol.n; i++) {
        const Symbol *s = &f->flow->symbol.at[i];
        int64_t lo = s->hi < 64 ? s->hi : 64;
        if (!s->upper && lo > s->lo) range[i].lo = dim_const(f->v.ctx, lo);
    }
    return (DimEnv){range, env.n};
}

static int cont_named(const Flow *flow, const char *name) {
    for (int i = 0; i < flow->cont.n; i++)
        if (flow->cont.at[i].name == name) return i;
    return -1;
}

/* Outputs of the constant part are parameters here, stored alike. */
static void verify_prepare(FlowVerify *f) {
    const Flow *part = f->flow->prepare;
    for (int i = 0; part && i < part->cont.n; i++) {
        const Cont *from = &part->cont.at[i];
        if (from->kind == CONT_IN)
            complain(&f->v, part, NULL, "the constant part reads input \"%s\"", from->name);
        if (from->kind != CONT_OUT) continue;
        int k = cont_named(f->flow, from->name);
        const Cont *to = k < 0 ? NULL : &f->flow->cont.at[k];
        if (!to || to->kind != CONT_PARAM || to->data || to->type != from->type ||
            dim_product(f->v.ctx, to->shape, to->rank) !=
                dim_product(f->v.ctx, from->shape, from->rank))
            complain(&f->v, part, NULL, "no parameter takes \"%s\" of the constant part",
                     from->name);
    }
    if (part) flow_verify(part);
}

void flow_verify(const Flow *flow) {
    Arena *arena = arena_new(flow->ctx);
    FlowVerify f = {.flow = flow};
    f.v = (Verify){
        .ctx = flow->ctx, .arena = arena, .whole = flow, .what = "flow", .name = flow->name};
    f.v.print = print_whole;
    f.seen = NEW_ARRAY(arena, int, flow->map.n);
    f.generic = generic_env(&f);
    verify_symbols(&f);
    verify_conts(&f);
    verify_items(&f, &flow->body);
    verify_names(&f);
    verify_writes(&f);
    verify_coverage(&f);
    verify_order(&f);
    verify_aliases(&f);
    verify_kernels(&f);
    verify_prepare(&f);
    arena_free(arena);
}
