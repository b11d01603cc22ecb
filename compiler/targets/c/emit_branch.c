/* SPDX-License-Identifier: Apache-2.0 */
/* What few lanes need is not computed where none does.
 *
 * Where one of two computed sides of selects by a condition is long (a sine far from 0, whose turns
 * are counted as integers), the values that only this side uses stand behind a question: does any
 * lane take it? Lanes that do get the same values as before. */
#include "c_nest.h"

#include <string.h>

enum { LONG_SIDE = 16, LONG_BODY = 24 };

typedef struct Finding {
    const Stmt *s;
    const Body *b;
    int cond;     /* of the selects at hand */
    bool *inside; /* by Val: nothing but the long side uses it */
    bool *behind; /* by Val: one of the selects, or computed of one */
} Finding;

/* Is Val v a select by the condition, whose other side is computed, too? */
static bool selects(const Body *b, int v, int cond) {
    const Val *s = &b->val.at[v];
    return s->kind == VAL_PRIM && s->prim == P_SELECT && s->type != BOOL && s->arg[0] == cond &&
           b->val.at[s->arg[2]].kind != VAL_CONST;
}

static bool is_stored(const Stmt *s, int v) {
    for (int i = 0; i < s->store.n; i++)
        if (s->store.at[i].val == v) return true;
    return false;
}

/* `inside` knows those behind it. */
static bool only_inside(const Finding *f, int v) {
    const Val *val = &f->b->val.at[v];
    bool any = false;
    if (val->kind != VAL_PRIM || is_stored(f->s, v)) return false;
    for (int u = v + 1; u < f->b->val.n; u++)
        for (int k = 0; k < val_args(&f->b->val.at[u]); k++) {
            if (f->b->val.at[u].arg[k] != v) continue;
            if (!f->inside[u] && (!selects(f->b, u, f->cond) || k != 1)) return false;
            any = true;
        }
    return any;
}

/* Does what the branch needs from outside wait for one of its selects? */
static bool waits_for_itself(Finding *f) {
    for (int v = 0; v < f->b->val.n; v++) {
        const Val *val = &f->b->val.at[v];
        bool group = selects(f->b, v, f->cond), waits = false;
        for (int k = 0; k < val_args(val); k++) waits |= f->behind[val->arg[k]];
        if (waits && (group || f->inside[v])) return true;
        f->behind[v] = waits || group;
    }
    return false;
}

static int find_inside(Finding *f) {
    int n = 0;
    for (int v = f->b->val.n - 1; v >= 0; v--) n += f->inside[v] = only_inside(f, v);
    return n;
}

static bool in_branch(const Finding *f, int v) {
    return f->inside[v] || selects(f->b, v, f->cond);
}

/* Values that are indices stay in their order. */
static bool may_branch(const CNest *c, const Body *b) {
    for (int v = 0; v < b->val.n; v++)
        if (b->val.at[v].sym) return false;
    return c->form->vectors && b->val.n >= LONG_BODY;
}

const int *body_branches(const CNest *c, const Stmt *s) {
    const Body *b = &s->code;
    int *branch = NULL;
    if (!may_branch(c, b)) return NULL;
    Finding f = {s, b, -1, NEW_ARRAY(c->arena, bool, b->val.n),
                 NEW_ARRAY(c->arena, bool, b->val.n)};
    for (int v = 0; v < b->val.n; v++) {
        f.cond = b->val.at[v].arg[0];
        if (!selects(b, v, f.cond) || (branch && branch[v] >= 0)) continue;
        if (find_inside(&f) < LONG_SIDE || waits_for_itself(&f)) continue;
        if (!branch) {
            branch = NEW_ARRAY(c->arena, int, b->val.n);
            for (int i = 0; i < b->val.n; i++) branch[i] = -1;
        }
        bool taken = false;
        for (int i = 0; i < b->val.n; i++) taken |= in_branch(&f, i) && branch[i] >= 0;
        for (int i = 0; i < b->val.n && !taken; i++)
            if (in_branch(&f, i)) branch[i] = f.cond;
    }
    return branch;
}

/* ---- printing ------------------------------------------------------------------------------- */

typedef struct Printing {
    CNest *c;
    const Body *b;
    const int *branch;
    bool copy;
    bool *done;
} Printing;

static void print_val(Printing *p, int v);

/* What the branch needs from outside: conditions, other sides, operands. */
static void print_needs(Printing *p, int cond) {
    for (int v = 0; v < p->b->val.n; v++) {
        if (p->branch[v] != cond) continue;
        for (int k = 0; k < val_args(&p->b->val.at[v]); k++)
            if (p->branch[p->b->val.at[v].arg[k]] != cond) print_val(p, p->b->val.at[v].arg[k]);
    }
}

static const char *condition(CNest *c, CVal *x) {
    return x->vector ? str(c, "any_v%d(%s)", c->lane.width, as_mask(c, x, 32)) : x->text;
}

static void print_branch(Printing *p, int cond) {
    CNest *c = p->c;
    int n = p->b->val.n;
    bool vector = c->lane.width > 1;
    const char **name = NEW_ARRAY(c->arena, const char *, n);
    print_needs(p, cond);
    for (int v = 0; v < n; v++) {
        const Val *val = &p->b->val.at[v];
        if (p->branch[v] != cond || !selects(p->b, v, cond)) continue;
        CVal *other = &c->val[val->arg[2]];
        const char *type = vector ? vector_type(c, val->type) : scalar_type(val->type),
                   *text = vector ? as_vector(c, other) : other->text;
        name[v] = str(c, "x%d", c->fresh++);
        put_line(c, "%s %s = %s;", type, name[v], text);
    }
    put_line(c, "if (%s) {", condition(c, &c->val[cond]));
    CVal *before = arena_copy(c->arena, c->val, sizeof *before * (size_t)n);
    for (int v = 0; v < n; v++) {
        if (p->branch[v] != cond) continue;
        c->val[v] = emit_val(c, &p->b->val.at[v], NULL, false);
        if (!name[v]) continue;
        put_line(c, "%s = %s;", name[v], vector ? as_vector(c, &c->val[v]) : c->val[v].text);
    }
    put_line(c, "}");
    c->val = before;
    for (int v = 0; v < n; v++) {
        if (p->branch[v] != cond) continue;
        p->done[v] = true;
        if (name[v])
            c->val[v] = (CVal){.type = p->b->val.at[v].type, .vector = vector, .text = name[v]};
    }
}

static void print_val(Printing *p, int v) {
    const Val *val = &p->b->val.at[v];
    if (p->done[v]) return;
    if (p->branch[v] >= 0) {
        print_branch(p, p->branch[v]);
        return;
    }
    for (int k = 0; k < val_args(val); k++) print_val(p, val->arg[k]);
    p->c->val[v] = emit_val(p->c, val, NULL, p->copy);
    p->done[v] = true;
}

void emit_branched(CNest *c, const Stmt *s, const int *branch) {
    const Body *b = &s->code;
    Printing p = {c, b, branch, s->store.n > 1, NEW_ARRAY(c->arena, bool, b->val.n)};
    for (int v = 0; v < b->val.n; v++) print_val(&p, v);
}
