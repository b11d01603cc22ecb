/* SPDX-License-Identifier: Apache-2.0 */
/* Integer expressions as C text. A sum's terms are ordered by the innermost symbol each uses,
 * constants last: `(2048*p + 48*j) + k + 512` lets a compiler hoist what an inner loop does not
 * change and keep the constant as a displacement. Divisions by powers of two become shifts and
 * masks, which floor as Dims do. */
#include "emit.h"

#include <string.h>

/* ---- names ----------------------------------------------------------------------------------- */

void names_var(Names *names, Dim sym, const char *text, Dim lo, Dim hi) {
    vec_push(names->arena, &names->at, (Name){sym, text, NULL});
    vec_push(names->arena, &names->range, (DimRange){sym, lo, hi});
}

void names_const(Names *names, Dim sym, int64_t value, Dim lo, Dim hi) {
    vec_push(names->arena, &names->at, (Name){sym, NULL, dim_const(names->ctx, value)});
    vec_push(names->arena, &names->range, (DimRange){sym, lo, hi});
    names->nconst++;
}

void names_pop(Names *names, int to) {
    for (int i = to; i < names->at.n; i++) names->nconst -= names->at.at[i].text == NULL;
    names->at.n = names->range.n = to;
}

Dim names_subst(const Names *names, Dim d) {
    enum { MOST = 64 };
    DimSubst subst[MOST];
    int n = 0;
    if (names->nconst == 0) return d;
    for (int i = names->at.n - 1; i >= 0 && n < MOST; i--)
        if (!names->at.at[i].text) subst[n++] = (DimSubst){names->at.at[i].sym, names->at.at[i].to};
    ASSERT(n == names->nconst);
    return dim_subst(names->ctx, d, subst, n);
}

DimEnv names_env(const Names *names) {
    return (DimEnv){names->range.at, names->range.n};
}

static int name_find(const Names *names, const char *symbol) {
    for (int i = names->at.n - 1; i >= 0; i--)
        if (dim_sym_name(names->at.at[i].sym) == symbol) return i;
    BUG("symbol \"%s\" has no name in the emitted text", symbol);
}

/* ---- expressions ----------------------------------------------------------------------------- */

static void put_dim(Text *out, const Names *names, Dim d, bool sat);

static int dim_depth(const Names *names, Dim d);

static int atom_depth(const Names *names, const Atom *a) {
    if (a->kind == ATOM_SYM) return name_find(names, a->name);
    int x = dim_depth(names, a->a), y = dim_depth(names, a->b);
    return x > y ? x : y;
}

static int term_depth(const Names *names, const DimTerm *t) {
    int depth = -1;
    for (int i = 0; i < t->natoms; i++) {
        int k = atom_depth(names, t->atom[i]);
        if (k > depth) depth = k;
    }
    return depth;
}

static int dim_depth(const Names *names, Dim d) {
    int depth = -1;
    for (int i = 0; i < d->nterms; i++) {
        int k = term_depth(names, &d->term[i]);
        if (k > depth) depth = k;
    }
    return depth;
}

Dim names_from(const Names *names, Dim d, int from) {
    Dim some = dim_const(names->ctx, 0);
    for (int i = 0; i < d->nterms; i++)
        if (term_depth(names, &d->term[i]) >= from)
            some = dim_add(names->ctx, some, dim_of_term(names->ctx, &d->term[i]));
    return some;
}

static void put_call(Text *out, const Names *names, const char *fn, const Atom *a, bool sat) {
    text_printf(out, "%s(", fn);
    put_dim(out, names, a->a, sat);
    text_put(out, ", ");
    put_dim(out, names, a->b, sat);
    text_put(out, ")");
}

static int log2_of(int64_t v) {
    if (v <= 0 || (v & (v - 1))) return -1;
    return __builtin_ctzll((uint64_t)v);
}

static void put_quotient(Text *out, const Names *names, const Atom *a, bool sat) {
    bool div = a->kind == ATOM_DIV;
    int64_t by = 0;
    int shift = dim_is_const(a->b, &by) ? log2_of(by) : -1;
    DimEnv env = names_env(names);
    bool plain = by > 0 && !sat && (shift >= 0 || dim_ge0(names->ctx, a->a, &env));
    if (!plain) {
        put_call(out, names, sat ? (div ? "sdiv" : "smod") : (div ? "idiv" : "imod"), a, sat);
        return;
    }
    text_put(out, "(");
    put_dim(out, names, a->a, sat);
    if (shift >= 0)
        text_printf(out, div ? " >> %lld)" : " & %lld)", (long long)(div ? shift : by - 1));
    else
        text_printf(out, " %s %lld)", div ? "/" : "%", (long long)by);
}

static void put_operation(Text *out, const Names *names, const Atom *a, bool sat) {
    switch (a->kind) {
    case ATOM_SYM: {
        const Name *n = &names->at.at[name_find(names, a->name)];
        if (n->text)
            text_put(out, n->text);
        else
            put_dim(out, names, n->to, sat);
        break;
    }
    case ATOM_DIV:
    case ATOM_MOD: put_quotient(out, names, a, sat); break;
    case ATOM_MIN: put_call(out, names, "imin", a, sat); break;
    case ATOM_MAX: put_call(out, names, "imax", a, sat); break;
    }
}

/* A variable of the head: dims of symbolic shapes repeat the same few quotients many times. */
static const char *once(const Names *names, const Atom *a) {
    Head *head = names->head;
    Text out = {.arena = names->arena};
    for (int i = 0; i < head->at.n; i++) {
        const Once *o = &head->at.at[i];
        if (o->kind == a->kind && o->a == a->a && o->b == a->b) return o->text;
    }
    put_operation(&out, names, a, false);
    const char *text = arena_printf(names->arena, "q%d", head->at.n);
    text_printf(&head->text, " const i64 %s = %s;\n", text, text_str(&out));
    vec_push(names->arena, &head->at, ((Once){a->kind, a->a, a->b, NULL, text}));
    return text;
}

/* The same of a sum, as a value that a compiler cannot take apart again: LLVM tries to share parts
 * of sums between the addresses of a loop, in a time that grows with the square of their terms. */
static const char *once_sum(const Names *names, const char *sum) {
    Head *head = names->head;
    for (int i = 0; i < head->at.n; i++) {
        const Once *o = &head->at.at[i];
        if (o->sum && strcmp(o->sum, sum) == 0) return o->text;
    }
    const char *text = arena_printf(names->arena, "q%d", head->at.n);
    text_printf(&head->text, " const i64 %s = i64_of_sum(%s);\n", text, sum);
    vec_push(names->arena, &head->at, ((Once){ATOM_SYM, NULL, NULL, sum, text}));
    return text;
}

static void put_atom(Text *out, const Names *names, const Atom *a, bool sat) {
    bool early = names->head && !sat && a->kind != ATOM_SYM;
    int depth = early ? atom_depth(names, a) : -1;
    if (depth >= 0 && depth < names->nhead)
        text_put(out, once(names, a));
    else
        put_operation(out, names, a, sat);
}

static void put_int(Text *out, int64_t v) {
    if (v == INT64_MIN)
        text_put(out, "(-9223372036854775807 - 1)");
    else
        text_printf(out, "%lld", (long long)v);
}

/* A product; `coef` stands for the term's own (its absolute value, where the sign is printed
 * outside). */
static void put_term(Text *out, const Names *names, const DimTerm *t, int64_t coef) {
    if (t->natoms == 0 || coef != 1) {
        put_int(out, coef);
        if (t->natoms) text_put(out, "*");
    }
    for (int i = 0; i < t->natoms; i++) {
        if (i) text_put(out, "*");
        put_atom(out, names, t->atom[i], false);
    }
}

/* Terms by depth, constants (depth -1) last; equal depths keep their order. */
static const int *order_terms(const Names *names, Dim d) {
    int *order = NEW_ARRAY(names->arena, int, d->nterms);
    int *depth = NEW_ARRAY(names->arena, int, d->nterms);
    for (int i = 0; i < d->nterms; i++) {
        int k = term_depth(names, &d->term[i]);
        depth[i] = k < 0 ? INT32_MAX : k;
        int at = i;
        for (; at > 0 && depth[order[at - 1]] > depth[i]; at--) order[at] = order[at - 1];
        order[at] = i;
    }
    return order;
}

static void put_terms(Text *out, const Names *names, Dim d, const int *order, int from, int to) {
    for (int i = from; i < to; i++) {
        const DimTerm *t = &d->term[order[i]];
        bool minus = i > 0 && t->coef < 0 && t->coef != INT64_MIN;
        if (i) text_put(out, minus ? " - " : " + ");
        put_term(out, names, t, minus ? -t->coef : t->coef);
    }
}
/* How many terms come first that the head's names tell alone. */
static int early_terms(const Names *names, Dim d, const int *order) {
    int n = 0;
    while (names->head && n < d->nterms) {
        int depth = term_depth(names, &d->term[order[n]]);
        if (depth < 0 || depth >= names->nhead) break;
        n++;
    }
    return n;
}

static void put_sum(Text *out, const Names *names, Dim d) {
    enum { LONG = 8 };
    const int *order = order_terms(names, d);
    int early = early_terms(names, d, order);
    if (early < LONG) early = 0;
    if (early) {
        Text sum = {.arena = names->arena};
        put_terms(&sum, names, d, order, 0, early);
        text_put(out, once_sum(names, text_str(&sum)));
    }
    put_terms(out, names, d, order, early, d->nterms);
}

/* sadd(smul(2, smul(N, M)), 3) */
static void put_saturated(Text *out, const Names *names, Dim d) {
    for (int i = 0; i + 1 < d->nterms; i++) text_put(out, "sadd(");
    for (int i = 0; i < d->nterms; i++) {
        const DimTerm *t = &d->term[i];
        if (i) text_put(out, ", ");
        for (int k = 0; k < t->natoms; k++) text_put(out, "smul(");
        put_int(out, t->coef);
        for (int k = 0; k < t->natoms; k++) {
            text_put(out, ", ");
            put_atom(out, names, t->atom[k], true);
            text_put(out, ")");
        }
        if (i) text_put(out, ")");
    }
}

static bool is_simple(Dim d) {
    if (d->nterms > 1) return false;
    return d->nterms == 0 || d->term[0].coef >= 0;
}

static void put_dim(Text *out, const Names *names, Dim d, bool sat) {
    if (d->nterms == 0) {
        text_put(out, "0");
    } else if (sat) {
        put_saturated(out, names, d);
    } else {
        bool simple = is_simple(d);
        if (!simple) text_put(out, "(");
        put_sum(out, names, d);
        if (!simple) text_put(out, ")");
    }
}

void emit_dim(Text *out, const Names *names, Dim d) {
    put_dim(out, names, names_subst(names, d), false);
}

const char *emit_dim_str(const Names *names, Dim d) {
    Text out = {.arena = names->arena};
    emit_dim(&out, names, d);
    return text_str(&out);
}

void emit_dim_saturated(Text *out, const Names *names, Dim d) {
    put_dim(out, names, d, true);
}
