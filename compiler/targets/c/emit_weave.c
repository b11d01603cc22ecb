/* SPDX-License-Identifier: Apache-2.0 */
/* Unrolled iterations of a long body, woven: value by value, each for a few iterations in turn.
 *
 * A body with elementary functions is a chain of dozens of operations that wait for one another.
 * Printed one iteration after the other, the processor sees but a few chains at once; woven,
 * neighbours do not depend on each other. How many are woven is bounded by the registers that their
 * values take. */
#include "c_nest.h"

enum { LONG_BODY = 12, LOOPS = 4, WOVEN = 8, REGS_EACH = 8, TIE_EVERY = 5 };

typedef struct Chain {
    const Stmt *loop[LOOPS]; /* unrolled, outermost first */
    int64_t extent[LOOPS];
    int n;
    const Stmt *lanes, *body;
} Chain;

static bool reads(const Body *b, int buf) {
    for (int v = 0; v < b->val.n; v++)
        if (b->val.at[v].kind == VAL_READ && b->val.at[v].read.cont == buf) return true;
    return false;
}

/* Long, and no iteration reads what another stores. */
static bool may_weave(const Stmt *s) {
    int prims = 0;
    for (int v = 0; v < s->code.val.n; v++) {
        const Val *val = &s->code.val.at[v];
        prims += val->kind == VAL_PRIM;
        if (val->kind == VAL_INDEX || val->sym || (val->kind == VAL_READ && val->has_else))
            return false;
    }
    for (int i = 0; i < s->store.n; i++)
        if (reads(&s->code, s->store.at[i].to.cont)) return false;
    return prims >= LONG_BODY;
}

static bool find_chain(CNest *c, const Stmt *s, Chain *out) {
    while (s->kind == STMT_FOR && s->mark == LOOP_UNROLL && out->n < LOOPS) {
        if (s->body.n != 1 ||
            !dim_is_const(names_subst(&c->names, s->extent), &out->extent[out->n]))
            return false;
        out->loop[out->n++] = s;
        s = s->body.at[0];
    }
    if (s->kind != STMT_FOR || s->mark != LOOP_VECTOR || s->guard.n || s->body.n != 1) return false;
    out->lanes = s;
    out->body = s->body.at[0];
    return out->body->kind == STMT_BODY && may_weave(out->body) && !body_branches(c, out->body);
}

/* Gives the loops' variables their values in iteration i. */
static void bind(CNest *c, const Chain *chain, int64_t i) {
    for (int k = chain->n - 1; k >= 0; i /= chain->extent[k--])
        names_const(&c->names, chain->loop[k]->var, i % chain->extent[k], dim_const(c->ctx, 0),
                    dim_const(c->ctx, chain->extent[k] - 1));
}

/* Compilers would take the iterations apart again, each a chain to its end, to save registers: an
 * empty asm makes what follows in one iteration wait for all. Where sums that fill registers are
 * read again at an iteration's end, compilers would begin with all iterations at once, and store
 * what they hold: a volatile asm makes these begin `behind` what was stored. */
static void tie(CNest *c, CVal *const *val, int v, int n, bool behind) {
    Text line = {.arena = c->arena};
    for (int i = 0; i < n; i++) {
        CVal *x = &val[i][v];
        const char *name = str(c, "x%d", c->fresh++);
        put_line(c, "%s %s = %s;", vector_type(c, x->type), name, x->text);
        x->text = name;
        text_printf(&line, "%s\"+%c\"(%s)", i ? ", " : "", c->machine->vector_regs > 16 ? 'v' : 'x',
                    name);
    }
    put_line(c, "__asm__%s(\"\" : %s);", behind ? " volatile" : "", text_str(&line));
}

static bool may_tie(const CNest *c, const CVal *x) {
    return x->vector && !x->constant && (x->type == F32 || x->type == I32) &&
           c->lane.width * value_bits(x->type) == c->machine->vector_bytes * 8;
}

/* Does the body read a register more than once? */
static bool reads_again(const CNest *c, const Body *b) {
    for (int v = 0; v < b->val.n; v++) {
        if (b->val.at[v].kind != VAL_READ || c->buf[b->val.at[v].read.cont].kind != BUF_REG)
            continue;
        int uses = 0;
        for (int u = v + 1; u < b->val.n; u++)
            for (int k = 0; k < val_args(&b->val.at[u]); k++) uses += b->val.at[u].arg[k] == v;
        if (uses > 1) return true;
    }
    return false;
}

/* Iterations `from` and so many more; `behind` what was stored. */
static void weave(CNest *c, const Chain *chain, int64_t from, int n, bool behind) {
    const Body *b = &chain->body->code;
    CVal *val[WOVEN];
    int mark = c->names.at.n;
    for (int i = 0; i < n; i++) val[i] = NEW_ARRAY(c->arena, CVal, b->val.n);
    c->body = b;
    for (int v = 0, untied = 0; v < b->val.n; v++) {
        for (int i = 0; i < n; i++) {
            bind(c, chain, from + i);
            c->val = val[i];
            c->vector.n = 0;
            val[i][v] = emit_val(c, &b->val.at[v], NULL, chain->body->store.n > 1);
            names_pop(&c->names, mark);
        }
        if (!may_tie(c, &val[0][v])) continue;
        if (!behind && (b->val.at[v].kind != VAL_PRIM || ++untied < TIE_EVERY)) continue;
        tie(c, val, v, n, behind);
        behind = false;
        untied = 0;
    }
    for (int i = 0; i < n; i++) {
        bind(c, chain, from + i);
        c->val = val[i];
        emit_stores(c, chain->body);
        names_pop(&c->names, mark);
    }
    c->body = NULL;
}

bool emit_woven(CNest *c, const Stmt *s) {
    Chain chain = {.n = 0};
    if (!find_chain(c, s, &chain)) return false;
    int64_t count = 1, width = 1;
    for (int k = 0; k < chain.n; k++) count *= chain.extent[k];
    dim_is_const(chain.lanes->extent, &width);
    int most = c->machine->vector_regs / REGS_EACH, mark = c->names.at.n;
    if (most > WOVEN) most = WOVEN;
    CLanes outside = c->lane;
    c->lane = (CLanes){.var = chain.lanes->var, .width = (int)width};
    names_var(&c->names, chain.lanes->var, "lane", dim_const(c->ctx, 0),
              dim_const(c->ctx, width - 1));
    bool apart = 2 * count > c->machine->vector_regs && reads_again(c, &chain.body->code);
    for (int64_t i = 0; i < count; i += most)
        weave(c, &chain, i, (int)(count - i < most ? count - i : most), i > 0 && apart);
    c->lane = outside;
    names_pop(&c->names, mark);
    return true;
}
