/* SPDX-License-Identifier: Apache-2.0 */
/* Indices, guards, symbols, literals: see parse.h. */
#include "parse.h"

#include <string.h>

enum { DEPTH_MAX = 200 };

/* ---- indices ----------------------------------------------------------------------------- */

typedef struct DimScan {
    Lex *lex;
    DimNameFn *find;
    void *user;
    int depth;
} DimScan;

static Dim read_sum(DimScan *s);

static Dim read_bound(DimScan *s, bool is_min) {
    Ctx *ctx = s->lex->ctx;
    lex_expect(s->lex, "(");
    Dim d = read_sum(s);
    while (lex_take(s->lex, ",")) {
        Dim e = read_sum(s);
        d = is_min ? dim_min(ctx, d, e) : dim_max(ctx, d, e);
    }
    lex_expect(s->lex, ")");
    return d;
}

static Dim read_symbol(DimScan *s) {
    bool bare = s->lex->t.kind == TOK_NAME;
    Lex before = *s->lex;
    const char *name = lex_name(s->lex, "an index");
    if (bare && lex_is(s->lex, "(") && (!strcmp(name, "min") || !strcmp(name, "max")))
        return read_bound(s, name[1] == 'i');
    Dim d = s->find(s->user, name);
    if (d) return d;
    *s->lex = before;
    lex_fail(s->lex, "no symbol \"%s\" is known here", name);
}

static Dim read_factor(DimScan *s) {
    if (++s->depth > DEPTH_MAX) lex_fail(s->lex, "index nested too deeply");
    Dim d;
    if (lex_take(s->lex, "-")) {
        d = dim_mulc(s->lex->ctx, read_factor(s), -1);
    } else if (s->lex->t.kind == TOK_INT) {
        d = dim_const(s->lex->ctx, lex_int(s->lex, "a number"));
    } else if (lex_take(s->lex, "(")) {
        d = read_sum(s);
        lex_expect(s->lex, ")");
    } else {
        d = read_symbol(s);
    }
    s->depth--;
    return d;
}

static Dim read_product(DimScan *s) {
    Ctx *ctx = s->lex->ctx;
    Dim d = read_factor(s);
    for (;;) {
        if (lex_take(s->lex, "*"))
            d = dim_mul(ctx, d, read_factor(s));
        else if (lex_take(s->lex, "/"))
            d = dim_div(ctx, d, read_factor(s));
        else if (lex_take(s->lex, "%"))
            d = dim_mod(ctx, d, read_factor(s));
        else
            return d;
    }
}

static Dim read_sum(DimScan *s) {
    Ctx *ctx = s->lex->ctx;
    Dim d = read_product(s);
    for (;;) {
        if (lex_take(s->lex, "+"))
            d = dim_add(ctx, d, read_product(s));
        else if (lex_take(s->lex, "-"))
            d = dim_sub(ctx, d, read_product(s));
        else
            return d;
    }
}

Dim parse_dim(Lex *lex, DimNameFn *find, void *user) {
    DimScan s = {lex, find, user, 0};
    lex->ctx->where.line = lex->t.line;
    return read_sum(&s);
}

int parse_dims(Lex *lex, const char *open, const char *close, DimNameFn *find, void *user, Dim *out,
               int max) {
    int n = 0;
    lex_expect(lex, open);
    while (!lex_is(lex, close)) {
        if (n) lex_expect(lex, ",");
        if (n == max) lex_fail(lex, "more than %d dims", max);
        out[n++] = parse_dim(lex, find, user);
    }
    lex_next(lex);
    return n;
}

/* ---- guards and symbols ------------------------------------------------------------------ */

static void parse_guard(Lex *lex, DimNameFn *find, void *user, Dims *out) {
    static const char *const relations[] = {">=", ">", "<=", "<", "==", NULL};
    Ctx *ctx = lex->ctx;
    Dim a = parse_dim(lex, find, user);
    int relation = parse_word(lex, relations);
    if (relation < 0) lex_fail(lex, "expected a comparison");
    Dim b = parse_dim(lex, find, user);
    Dim ge = dim_sub(ctx, a, b), le = dim_sub(ctx, b, a);
    switch (relation) {
    case 0: vec_push(lex->arena, out, ge); break;
    case 1: vec_push(lex->arena, out, dim_addc(ctx, ge, -1)); break;
    case 2: vec_push(lex->arena, out, le); break;
    case 3: vec_push(lex->arena, out, dim_addc(ctx, le, -1)); break;
    default: vec_push(lex->arena, out, ge); vec_push(lex->arena, out, le);
    }
}

void parse_guards(Lex *lex, DimNameFn *find, void *user, Dims *out) {
    do parse_guard(lex, find, user, out);
    while (lex_take(lex, ","));
}

typedef struct Declared {
    const Symbols *symbols;
    DimNameFn *around;
    void *user;
} Declared;

static Dim find_symbol(void *user, const char *name) {
    const Declared *d = user;
    for (int i = 0; i < d->symbols->n; i++)
        if (dim_sym_name(d->symbols->at[i].sym) == name) return d->symbols->at[i].sym;
    return d->around ? d->around(d->user, name) : NULL;
}

void parse_symbols(Lex *lex, DimNameFn *find, void *user, Symbols *out) {
    Declared declared = {out, find, user};
    if (!lex_take(lex, "(")) return;
    do {
        Symbol s = {.hi = INT64_MAX};
        if (lex_name_next(lex) && find_symbol(&declared, lex->t.text))
            lex_fail(lex, "a symbol is declared twice");
        s.sym = dim_sym(lex->ctx, lex_name(lex, "a symbol"));
        if (lex_take(lex, "in")) {
            s.lo = lex_int(lex, "a lower bound");
            lex_expect(lex, "..");
            if (!lex_is(lex, ",") && !lex_is(lex, ")") && !lex_is(lex, "upto"))
                s.hi = lex_int(lex, "an upper bound");
        }
        if (lex_take(lex, "upto")) s.upper = parse_dim(lex, find_symbol, &declared);
        vec_push(lex->arena, out, s);
    } while (lex_take(lex, ","));
    lex_expect(lex, ")");
}

void parse_range(Lex *lex, int64_t *lo, int64_t *hi) {
    *lo = lex_int(lex, "a lower bound");
    lex_expect(lex, "..");
    *hi = lex_int(lex, "an upper bound");
}

/* ---- small parts ------------------------------------------------------------------------- */

DType parse_type(Lex *lex) {
    DType t = lex->t.kind == TOK_NAME ? dtype_parse(lex->t.text) : DT_NONE;
    if (!t) lex_fail(lex, "expected an element type such as `f32`");
    lex_next(lex);
    return t;
}

Bits parse_bits(Lex *lex, DType t) {
    Bits bits;
    bool negative = lex_take(lex, "-");
    bool literal = lex->t.kind == TOK_INT || lex->t.kind == TOK_FLOAT || lex->t.kind == TOK_NAME;
    if (!literal || !literal_bits(t, lex->t.text, negative, &bits))
        lex_fail(lex, "expected a literal of type %s", dtype_name(t));
    lex_next(lex);
    return bits;
}

const Combine *parse_combine(Lex *lex) {
    Lex before = *lex;
    const char *name = lex_name(lex, "a combine");
    lex_expect(lex, ":");
    DType t = parse_type(lex);
    const Combine *combine = combine_get(lex->ctx, name, t);
    if (combine) return combine;
    *lex = before;
    lex_fail(lex, "no combine \"%s\" takes %s", name, dtype_name(t));
}

const char *parse_from(Lex *lex) {
    if (!lex_take(lex, "from")) return NULL;
    int line = lex->t.line;
    const char *from = lex_string(lex, NULL);
    while (lex->t.kind == TOK_STRING && lex->t.line == line)
        from = from_join(lex->ctx, from, lex_string(lex, NULL));
    return from;
}

int parse_word(Lex *lex, const char *const *words) {
    for (int i = 0; words[i]; i++)
        if (lex_take(lex, words[i])) return i;
    return -1;
}
