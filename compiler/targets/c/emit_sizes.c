/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes that data define: which symbols are late, what lies on the heap because nothing bounds it
 * from the inputs alone, and what is done when a call or a loop has defined some. */
#include "c_program.h"
#include "runtime/weir_rt.h"

/* What is bounded by such a size alone is as unbounded as that. */
bool is_unbounded(const CProgram *p, int symbol) {
    const Symbol *s = &p->flow->symbol.at[symbol];
    if (!p->late[symbol] || !symbol_bounded(s)) return p->late[symbol];
    bool far = false;
    for (int i = 0; s->upper && i < p->flow->symbol.n && !far; i++)
        far = i != symbol && dim_uses(s->upper, p->flow->symbol.at[i].sym) && is_unbounded(p, i);
    return far;
}

static bool call_writes(const Items *items, int cont);

static bool item_writes(const Item *it, int cont) {
    bool found = call_writes(&it->body, cont) || call_writes(&it->other, cont);
    if (it->kind != ITEM_CALL) return found;
    for (int i = 0; i < it->call->nout; i++) found |= it->call->out[i] == cont;
    return found;
}

/* Is a container written by a call? */
static bool call_writes(const Items *items, int cont) {
    for (int i = 0; i < items->n; i++)
        if (item_writes(&items->at[i], cont)) return true;
    return false;
}

static void mark_defined(const CProgram *p, const Items *items, bool *defined) {
    for (int i = 0; i < items->n; i++) {
        const Item *it = &items->at[i];
        for (int k = 0; it->kind == ITEM_CALL && k < it->call->ndefine; k++)
            defined[symbol_index(p, it->call->define[k])] = true;
        mark_defined(p, &it->body, defined);
        mark_defined(p, &it->other, defined);
    }
}

/* Containers that a branch writes, which a run may not take. */
static void mark_branches(CProgram *p, const Items *items, bool inside) {
    for (int i = 0; i < items->n; i++) {
        const Item *it = &items->at[i];
        bool branch = inside || it->kind == ITEM_IF;
        for (int k = 0; inside && it->kind == ITEM_CALL && k < it->call->nout; k++)
            if (it->call->out[k] >= 0) p->branch[it->call->out[k]] = true;
        const Map *m = inside && it->kind == ITEM_MAP ? p->flow->map.at[it->map] : NULL;
        for (int w = 0; m && w < m->write.n; w++)
            for (int k = 0; k < m->write.at[w].n; k++) p->branch[m->write.at[w].to[k].cont] = true;
        mark_branches(p, &it->body, branch);
        mark_branches(p, &it->other, branch);
    }
}

/* Does a size never fall as a symbol grows? By its form, else by proof. */
static bool rises(Dim d, Dim sym) {
    for (int i = 0; i < d->nterms; i++)
        for (int k = 0; k < d->term[i].natoms; k++) {
            const Atom *a = d->term[i].atom[k];
            bool is = a->kind == ATOM_SYM && a->name == dim_sym_name(sym);
            bool uses = is || (a->kind != ATOM_SYM && (dim_uses(a->a, sym) || dim_uses(a->b, sym)));
            if (!uses) continue;
            if (d->term[i].coef < 0 || a->kind == ATOM_MOD) return false;
            if (is) continue;
            if (!rises(a->a, sym)) return false;
            if (a->kind == ATOM_DIV ? !dim_is_const(a->b, NULL) : !rises(a->b, sym)) return false;
        }
    return true;
}

static bool falls(const CProgram *p, Dim d, Dim sym) {
    DimEnv env = flow_env(p->arena, p->flow);
    DimSubst more = {sym, dim_addc(p->ctx, sym, 1)};
    if (rises(d, sym)) return false;
    return !dim_ge0(p->ctx, dim_sub(p->ctx, dim_subst(p->ctx, d, &more, 1), d), &env);
}

/* What a bound from the inputs does not bound lies on the heap: sizes of unbounded symbols, and
 * those that are larger the smaller a symbol is. */
void prepare_symbols(CProgram *p) {
    const Flow *f = p->flow;
    p->late = NEW_ARRAY(p->arena, bool, f->symbol.n);
    p->defined = NEW_ARRAY(p->arena, bool, f->symbol.n);
    p->heap = NEW_ARRAY(p->arena, int, f->cont.n);
    p->when = NEW_ARRAY(p->arena, int, f->cont.n);
    p->behind = NEW_ARRAY(p->arena, bool, f->cont.n);
    bool *by_call = NEW_ARRAY(p->arena, bool, f->symbol.n);
    p->branch = NEW_ARRAY(p->arena, bool, f->cont.n);
    mark_defined(p, &f->body, by_call);
    mark_branches(p, &f->body, false);
    for (int i = 0; i < f->symbol.n; i++)
        p->late[i] = bind_symbol(p, f->symbol.at[i].sym).from == WEIR_FROM_CALL;
    for (int k = 0; k < f->cont.n; k++) {
        const Cont *c = &f->cont.at[k];
        bool unbounded = false, late = false, other = false, fall = false;
        for (int i = 0; i < f->symbol.n; i++) {
            if (!p->late[i] || !cont_uses(c, f->symbol.at[i].sym)) continue;
            late = true;
            unbounded |= is_unbounded(p, i);
            fall |= falls(p, cont_bytes(p, c), f->symbol.at[i].sym);
            other |= !by_call[i];
        }
        bool before =
            other || call_writes(&f->body, k); /* may be written before its size is known */
        bool ours = (c->kind == CONT_TMP || c->kind == CONT_STATE) && c->place == PLACE_ARENA;
        bool out = c->kind == CONT_OUT;
        bool heap =
            (unbounded && (ours || (out && (before || dtype_class(c->type) == CLASS_OBJECT)))) ||
            (fall && (ours || out));
        p->heap[k] = heap ? p->nheap++ : -1;
        p->behind[k] = !before;
        if (c->kind == CONT_OUT && late)
            p->when[p->cont_index[k]] = heap     ? WEIR_ON_HEAP + p->heap[k]
                                        : before ? WEIR_BY_CALL
                                                 : WEIR_LATE;
    }
}

/* ---- once data have defined some ------------------------------------------------------------- */

/* Is the shape known here for the first time, now that its last symbols are? */
static bool known_now(CProgram *p, const Cont *c, const Dim *now, int n) {
    bool all = true, mine = false;
    for (int k = 0; k < n; k++) mine |= cont_uses(c, now[k]);
    for (int i = 0; mine && i < p->flow->symbol.n; i++)
        if (p->late[i] && !p->defined[i]) all &= !cont_uses(c, p->flow->symbol.at[i].sym);
    return mine && all;
}

/* A size that falls as what data define grows may turn out negative: then the run ends. */
static void refuse_negative(CProgram *p, const Cont *c, const DimEnv *env) {
    for (int d = 0; d < c->rank; d++) {
        if (dim_ge0(p->ctx, c->shape[d], env)) continue;
        Text size = {.arena = p->arena};
        emit_dim(&size, &p->shared, c->shape[d]);
        const char *reason = arena_printf(
            p->arena, "\"%s\": dim %d, %s, would be negative: the inputs are too small", c->name, d,
            dim_str(p->ctx, c->shape[d]));
        program_line(p, "  weir_rt_size(f, %s, %s);", text_str(&size), c_string(p->arena, reason));
    }
}

/* Sizes that these bound, defined further on, are not known again in a loop's next turn: as much as
 * these allow may be written before they are. */
static void forget_bounded(CProgram *p, const Dim *now, int n) {
    for (int i = 0; i < p->flow->symbol.n; i++) {
        const Symbol *s = &p->flow->symbol.at[i];
        bool bounded = false;
        for (int k = 0; k < n && s->upper; k++) bounded |= dim_uses(s->upper, now[k]);
        for (int k = 0; k < n; k++) bounded &= now[k] != s->sym;
        if (bounded && p->late[i] && !p->defined[i] && is_unbounded(p, i))
            program_line(p, "  f->symbol[%d] = %lld;", i, (long long)INT64_MAX);
    }
}

/* On thread 0, when the `n` symbols `now` have their values: what has its size from them. */
static void make_room(CProgram *p, const Dim *now, int n) {
    for (int i = 0; i < n; i++) p->defined[symbol_index(p, now[i])] = true;
    forget_bounded(p, now, n);
    program_line(p, "  weir_rt_defined(f);");
    DimEnv env = flow_env(p->arena, p->flow);
    for (int k = 0; k < p->flow->cont.n; k++) {
        const Cont *c = &p->flow->cont.at[k];
        if (!known_now(p, c, now, n)) continue;
        if (!p->branch[k]) refuse_negative(p, c, &env);
        if (c->kind != CONT_OUT || p->when[p->cont_index[k]] != WEIR_LATE) continue;
        Text count = {.arena = p->arena};
        emit_dim_saturated(&count, &p->shared, dim_product(p->ctx, c->shape, c->rank));
        program_line(p, "  weir_rt_room(f, %d, %s);", (int)p->cont_index[k], text_str(&count));
    }
}

void define_symbols(CProgram *p, const Call *call) {
    const char *reason =
        arena_printf(p->arena, "the data make a size of %s that its operands do not allow",
                     call->from ? from_words(p->ctx, call->from) : call->name);
    for (int i = 0; i < call->ndefine; i++) {
        int s = symbol_index(p, call->define[i]);
        if (is_unbounded(p, s))
            program_line(p, "  f->symbol[%d] = define[%d];", s, i);
        else
            program_line(p, "  weir_rt_define(f, %d, define[%d], %s);", s, i,
                         c_string(p->arena, reason));
    }
    if (call->ndefine) make_room(p, call->define, call->ndefine);
}

void begin_turn(CProgram *p, Dim turns, const char *done) {
    int s = symbol_index(p, turns);
    if (!is_unbounded(p, s)) return;
    program_line(p, "if (t == 0) { f->symbol[%d] = %s + 1; weir_rt_defined(f); }", s, done);
    program_line(p, "weir_rt_barrier(f, t, n);");
    program_line(p, "if (f->stop) return 1;");
}

void define_turns(CProgram *p, Dim turns, const char *done) {
    program_line(p, "if (t == 0) {");
    program_line(p, "  f->symbol[%d] = %s;", symbol_index(p, turns), done);
    make_room(p, &turns, 1);
    program_line(p, "}");
}
