/* SPDX-License-Identifier: Apache-2.0 */
/* The algebra of dims: hash-consing, the canonical order, sums and products.
 *
 * Three hash-consed sorts of object stand on each other: atoms (a symbol, or a div, mod, min or max
 * of two dims), monomials (sorted products of atoms) and dims (sorted sums of monomials with
 * coefficients). Because each is unique, equality is a pointer comparison at every level. They live
 * as long as the context. */
#include <stdlib.h>
#include <string.h>

#include "dim_private.h"

enum { MAX_DEGREE = 48 };

/* ---- hash-consing ---------------------------------------------------------------------------- */

struct DimTable *dims(Ctx *ctx) {
    if (!ctx->priv->dims) ctx->priv->dims = NEW(ctx_arena(ctx), struct DimTable);
    return ctx->priv->dims;
}

static void cons_grow(Ctx *ctx, Cons *cons) {
    Cons grown = {.n = cons->n, .size = cons->size ? 2 * cons->size : 256};
    grown.slot = NEW_ARRAY(ctx_arena(ctx), uint64_t *, grown.size);
    for (size_t i = 0; i < cons->size; i++) {
        if (!cons->slot[i]) continue;
        size_t k = *cons->slot[i] & (grown.size - 1);
        while (grown.slot[k]) k = (k + 1) & (grown.size - 1);
        grown.slot[k] = cons->slot[i];
    }
    *cons = grown;
}

uint64_t **cons_slot(Ctx *ctx, Cons *cons, uint64_t hash) {
    if (!cons->size) cons_grow(ctx, cons);
    return &cons->slot[hash & (cons->size - 1)];
}

uint64_t **cons_next(Cons *cons, uint64_t **slot) {
    return slot + 1 == cons->slot + cons->size ? cons->slot : slot + 1;
}

void cons_put(Ctx *ctx, Cons *cons, uint64_t **slot, uint64_t *object) {
    *slot = object;
    cons->n++;
    if (2 * (cons->n + 1) > cons->size) cons_grow(ctx, cons);
}

static AtomBox *atom_intern(Ctx *ctx, Atom atom, uint64_t hash, Mask mask) {
    Cons *cons = &dims(ctx)->atoms;
    uint64_t **slot = cons_slot(ctx, cons, hash);
    for (; *slot; slot = cons_next(cons, slot)) {
        AtomBox *box = (AtomBox *)*slot;
        if (box->hash == hash && box->atom.kind == atom.kind && box->atom.name == atom.name &&
            box->atom.a == atom.a && box->atom.b == atom.b)
            return box;
    }
    AtomBox *box = NEW(ctx_arena(ctx), AtomBox);
    *box = (AtomBox){hash, mask, NULL, atom};
    cons_put(ctx, cons, slot, &box->hash);
    return box;
}

const Atom *atom_make(Ctx *ctx, AtomKind kind, Dim a, Dim b) {
    static const Mask sort[] = {0, MASK_DIV, MASK_MOD, MASK_MINMAX, MASK_MINMAX};
    uint64_t hash = mix(mix(mix(7, (uint64_t)kind), a->hash), b->hash);
    Mask mask = sort[kind] | dim_mask(a) | dim_mask(b);
    return &atom_intern(ctx, (Atom){kind, NULL, a, b}, hash, mask)->atom;
}

static const Mono *mono_intern(Ctx *ctx, const Atom *const *at, int n) {
    uint64_t hash = mix(11, (uint64_t)n);
    Mask mask = 0;
    for (int i = 0; i < n; i++) {
        hash = mix(hash, atom_box(at[i])->hash);
        mask |= atom_mask(at[i]);
    }
    Cons *cons = &dims(ctx)->monos;
    uint64_t **slot = cons_slot(ctx, cons, hash);
    for (; *slot; slot = cons_next(cons, slot)) {
        const Mono *mono = (const Mono *)*slot;
        if (mono->hash == hash && mono->n == n && memcmp(mono->at, at, (size_t)n * sizeof *at) == 0)
            return mono;
    }
    Mono *mono = arena_alloc(ctx_arena(ctx), sizeof *mono + (size_t)n * sizeof *at);
    *mono = (Mono){.hash = hash, .mask = mask, .n = n};
    memcpy(mono->at, at, (size_t)n * sizeof *at);
    cons_put(ctx, cons, slot, &mono->hash);
    return mono;
}

static Dim node_intern(Ctx *ctx, const DimTerm *term, int n) {
    uint64_t hash = mix(13, (uint64_t)n);
    Mask mask = 0;
    for (int i = 0; i < n; i++) {
        hash = mix(mix(hash, (uint64_t)term[i].coef), term_mono(&term[i])->hash);
        mask |= term_mono(&term[i])->mask;
    }
    Cons *cons = &dims(ctx)->nodes;
    uint64_t **slot = cons_slot(ctx, cons, hash);
    for (; *slot; slot = cons_next(cons, slot)) {
        Dim d = (Dim)*slot;
        if (d->hash != hash || d->nterms != n) continue;
        int i = 0;
        while (i < n && d->term[i].coef == term[i].coef && d->term[i].atom == term[i].atom) i++;
        if (i == n) return d;
    }
    NodeBox *box = NEW(ctx_arena(ctx), NodeBox);
    const DimTerm *copy = arena_copy(ctx_arena(ctx), term, (size_t)n * sizeof *term);
    *box = (NodeBox){{hash, n, copy}, mask};
    cons_put(ctx, cons, slot, &box->node.hash);
    return &box->node;
}

/* ---- order ----------------------------------------------------------------------------------- */

static int atom_order(const Atom *a, const Atom *b) {
    if (a == b) return 0;
    if (a->kind != b->kind) return a->kind < b->kind ? -1 : 1;
    if (a->kind == ATOM_SYM) return strcmp(a->name, b->name);
    int c = dim_order(a->a, b->a);
    return c ? c : dim_order(a->b, b->b);
}

int mono_order(const Mono *a, const Mono *b) {
    if (a == b) return 0;
    for (int i = 0; i < a->n && i < b->n; i++) {
        int c = atom_order(a->at[i], b->at[i]);
        if (c) return c;
    }
    return b->n - a->n;
}

int dim_order(Dim a, Dim b) {
    if (a == b) return 0;
    for (int i = 0; i < a->nterms && i < b->nterms; i++) {
        int c = mono_order(term_mono(&a->term[i]), term_mono(&b->term[i]));
        if (c) return c;
        if (a->term[i].coef != b->term[i].coef) return a->term[i].coef < b->term[i].coef ? -1 : 1;
    }
    return b->nterms - a->nterms;
}

static int term_order(const void *a, const void *b) {
    return mono_order(term_mono(a), term_mono(b));
}

/* ---- monomials ------------------------------------------------------------------------------- */

const Mono *mono_one(Ctx *ctx) {
    struct DimTable *table = dims(ctx);
    if (!table->one) {
        const Atom *none = NULL;
        table->one = mono_intern(ctx, &none, 0);
    }
    return table->one;
}

const Mono *mono_atom(Ctx *ctx, const Atom *atom) {
    return mono_intern(ctx, &atom, 1);
}

const Mono *mono_mul(Ctx *ctx, const Mono *a, const Mono *b) {
    if (!a->n) return b;
    if (!b->n) return a;
    if (a->n + b->n > MAX_DEGREE) return NULL;
    const Atom *at[MAX_DEGREE];
    int n = 0, i = 0, k = 0;
    while (i < a->n || k < b->n) {
        bool left = k == b->n || (i < a->n && atom_order(a->at[i], b->at[k]) <= 0);
        at[n++] = left ? a->at[i++] : b->at[k++];
    }
    return mono_intern(ctx, at, n);
}

const Mono *mono_div(Ctx *ctx, const Mono *a, const Mono *b) {
    if (!b->n) return a;
    const Atom *at[MAX_DEGREE];
    int n = 0, k = 0;
    for (int i = 0; i < a->n; i++) {
        if (k < b->n && a->at[i] == b->at[k])
            k++;
        else
            at[n++] = a->at[i];
    }
    return k == b->n ? mono_intern(ctx, at, n) : NULL;
}

const Mono *mono_gcd(Ctx *ctx, const Mono *a, const Mono *b) {
    const Atom *at[MAX_DEGREE];
    int n = 0, i = 0, k = 0;
    while (i < a->n && k < b->n) {
        int c = atom_order(a->at[i], b->at[k]);
        if (c == 0) at[n++] = a->at[i];
        if (c <= 0) i++;
        if (c >= 0) k++;
    }
    return mono_intern(ctx, at, n);
}

/* ---- sums ------------------------------------------------------------------------------------ */

void sum_start(Sum *sum, Ctx *ctx) {
    sum->ctx = ctx;
    sum->room = NULL;
    sum->at = sum->small;
    sum->n = 0;
    sum->cap = (int)(sizeof sum->small / sizeof *sum->small);
    sum->overflow = false;
}

/* Room for the terms of a long sum, used again by others once it is done. */
struct SumRoom {
    struct SumRoom *next;
    int cap;
    DimTerm at[];
};

static void sum_drop(Sum *sum) {
    if (!sum->room) return;
    sum->room->next = dims(sum->ctx)->room;
    dims(sum->ctx)->room = sum->room;
    sum->room = NULL;
}

static void sum_grow(Sum *sum) {
    struct SumRoom **link = &dims(sum->ctx)->room, *room;
    int cap = 2 * sum->cap;
    while (*link && (*link)->cap < cap) link = &(*link)->next;
    if ((room = *link)) {
        *link = room->next;
    } else {
        room = arena_alloc(ctx_arena(sum->ctx), sizeof *room + (size_t)cap * sizeof *room->at);
        room->cap = cap;
    }
    memcpy(room->at, sum->at, (size_t)sum->n * sizeof *room->at);
    sum_drop(sum);
    sum->room = room;
    sum->at = room->at;
    sum->cap = room->cap;
}

void sum_term(Sum *sum, int64_t coef, const Mono *mono) {
    if (!mono) sum->overflow = true;
    if (!coef || sum->overflow) return;
    if (sum->n == sum->cap) sum_grow(sum);
    sum->at[sum->n++] = (DimTerm){coef, mono->n, mono->at};
}

void sum_add(Sum *sum, Dim d, int64_t factor) {
    if (!d) sum->overflow = true;
    for (int i = 0; !sum->overflow && i < d->nterms; i++) {
        int64_t coef;
        if (__builtin_mul_overflow(d->term[i].coef, factor, &coef)) sum->overflow = true;
        sum_term(sum, coef, term_mono(&d->term[i]));
    }
}

static void terms_sort(DimTerm *at, int n) {
    if (n > 16) {
        qsort(at, (size_t)n, sizeof *at, term_order);
        return;
    }
    for (int i = 1; i < n; i++) {
        DimTerm t = at[i];
        int k = i;
        for (; k > 0 && term_order(&at[k - 1], &t) > 0; k--) at[k] = at[k - 1];
        at[k] = t;
    }
}

/* c*R*(a % m) + c*m*R*(a / m) is c*R*a, wherever the quotient is a single term. */
static Dim join_mod(Ctx *ctx, Dim d, const DimTerm *t, const Atom *atom) {
    Dim q = try_div(ctx, atom->a, atom->b);
    if (!q || q->nterms != 1) return d;
    const Mono *rest = mono_div(ctx, term_mono(t), mono_atom(ctx, atom));
    Dim factor = try_term(ctx, t->coef, rest);
    Dim want = try_mul(ctx, try_mul(ctx, factor, atom->b), q);
    if (!want || want->nterms != 1) return d;
    for (int i = 0; i < d->nterms; i++) {
        if (d->term[i].atom != want->term->atom || d->term[i].coef != want->term->coef) continue;
        Dim without = try_sub(ctx, try_sub(ctx, d, want), try_term(ctx, t->coef, term_mono(t)));
        Dim joined = try_add(ctx, without, try_mul(ctx, factor, atom->a));
        return joined ? joined : d;
    }
    return d;
}

static Dim join_mods(Ctx *ctx, Dim d) {
    for (int i = 0; i < d->nterms; i++) {
        const DimTerm *t = &d->term[i];
        for (int k = 0; k < t->natoms; k++) {
            if (t->atom[k]->kind != ATOM_MOD) continue;
            Dim joined = join_mod(ctx, d, t, t->atom[k]);
            if (joined != d) return joined;
        }
    }
    return d;
}

/* Merges equal terms, whose coefficients must not overflow. */
static bool terms_merge(Sum *sum) {
    int n = 0;
    for (int i = 0; i < sum->n;) {
        DimTerm t = sum->at[i++];
        for (; i < sum->n && sum->at[i].atom == t.atom; i++)
            if (__builtin_add_overflow(t.coef, sum->at[i].coef, &t.coef)) return false;
        if (t.coef) sum->at[n++] = t;
    }
    sum->n = n;
    return true;
}

Dim sum_done(Sum *sum) {
    terms_sort(sum->at, sum->n);
    bool fine = !sum->overflow && terms_merge(sum);
    Dim d = fine ? node_intern(sum->ctx, sum->at, sum->n) : NULL;
    sum_drop(sum);
    if (!d) return NULL;
    Mask both = MASK_MOD | MASK_DIV;
    return (dim_mask(d) & both) == both ? join_mods(sum->ctx, d) : d;
}

Dim try_term(Ctx *ctx, int64_t coef, const Mono *mono) {
    if (!mono) return NULL;
    DimTerm t = {coef, mono->n, mono->at};
    return node_intern(ctx, &t, coef != 0);
}

Dim try_add(Ctx *ctx, Dim a, Dim b) {
    if (!a || !b) return NULL;
    if (!a->nterms) return b;
    if (!b->nterms) return a;
    Sum sum;
    sum_start(&sum, ctx);
    sum_add(&sum, a, 1);
    sum_add(&sum, b, 1);
    return sum_done(&sum);
}

Dim try_sub(Ctx *ctx, Dim a, Dim b) {
    if (!a || !b) return NULL;
    if (!b->nterms) return a;
    Sum sum;
    sum_start(&sum, ctx);
    sum_add(&sum, a, 1);
    sum_add(&sum, b, -1);
    return sum_done(&sum);
}

Dim try_scale(Ctx *ctx, Dim a, int64_t c) {
    if (!a || c == 1) return a;
    Sum sum;
    sum_start(&sum, ctx);
    sum_add(&sum, a, c);
    return sum_done(&sum);
}

Dim try_mul(Ctx *ctx, Dim a, Dim b) {
    int64_t c;
    if (!a || !b) return NULL;
    if (dim_is_const(a, &c)) return try_scale(ctx, b, c);
    if (dim_is_const(b, &c)) return try_scale(ctx, a, c);
    Sum sum;
    sum_start(&sum, ctx);
    for (int i = 0; i < a->nterms; i++) {
        for (int k = 0; k < b->nterms; k++) {
            if (__builtin_mul_overflow(a->term[i].coef, b->term[k].coef, &c)) return NULL;
            sum_term(&sum, c, mono_mul(ctx, term_mono(&a->term[i]), term_mono(&b->term[k])));
        }
    }
    return sum_done(&sum);
}

/* ---- the public face: fails where the try_ functions say NULL ----------------------------------
 */

static Dim checked(Ctx *ctx, Dim d, const char *what, Dim a, Dim b) {
    if (!d)
        fail(ctx, E_DIM,
             "%s of \"%s\" and \"%s\" leaves 64 bits; bound the dims with --dim NAME=LO..HI", what,
             dim_str(ctx, a), dim_str(ctx, b));
    return d;
}

Dim dim_const(Ctx *ctx, int64_t value) {
    return try_term(ctx, value, mono_one(ctx));
}

Dim dim_sym(Ctx *ctx, const char *name) {
    name = intern(ctx, name);
    uint64_t hash = hash_bytes(3, name, strlen(name));
    AtomBox *box =
        atom_intern(ctx, (Atom){.kind = ATOM_SYM, .name = name}, hash, (Mask)1 << hash % MASK_SYMS);
    if (!box->self) box->self = try_term(ctx, 1, mono_atom(ctx, &box->atom));
    return box->self;
}

Dim dim_add(Ctx *ctx, Dim a, Dim b) {
    return checked(ctx, try_add(ctx, a, b), "the sum", a, b);
}

Dim dim_sub(Ctx *ctx, Dim a, Dim b) {
    return checked(ctx, try_sub(ctx, a, b), "the difference", a, b);
}

Dim dim_mul(Ctx *ctx, Dim a, Dim b) {
    return checked(ctx, try_mul(ctx, a, b), "the product", a, b);
}

static void check_divisor(Ctx *ctx, Dim a, Dim b) {
    if (dim_is(b, 0))
        fail(ctx, E_DIM, "dim \"%s\" is divided by 0; give the divisor another value",
             dim_str(ctx, a));
}

Dim dim_div(Ctx *ctx, Dim a, Dim b) {
    check_divisor(ctx, a, b);
    return checked(ctx, try_div(ctx, a, b), "the quotient", a, b);
}

Dim dim_ceildiv(Ctx *ctx, Dim a, Dim b) {
    check_divisor(ctx, a, b);
    return dim_div(ctx, dim_addc(ctx, dim_add(ctx, a, b), -1), b);
}

Dim dim_round_up(Ctx *ctx, Dim a, Dim b) {
    return dim_mul(ctx, dim_ceildiv(ctx, a, b), b);
}

Dim dim_mod(Ctx *ctx, Dim a, Dim b) {
    check_divisor(ctx, a, b);
    return checked(ctx, try_mod(ctx, a, b), "the rest", a, b);
}

Dim dim_min(Ctx *ctx, Dim a, Dim b) {
    return checked(ctx, try_min(ctx, a, b), "the minimum", a, b);
}

Dim dim_max(Ctx *ctx, Dim a, Dim b) {
    return checked(ctx, try_max(ctx, a, b), "the maximum", a, b);
}

Dim dim_addc(Ctx *ctx, Dim a, int64_t c) {
    return c ? dim_add(ctx, a, dim_const(ctx, c)) : a;
}

Dim dim_mulc(Ctx *ctx, Dim a, int64_t c) {
    return dim_mul(ctx, a, dim_const(ctx, c));
}

Dim dim_product(Ctx *ctx, const Dim *dims, int n) {
    Dim product = dim_const(ctx, 1);
    for (int i = 0; i < n; i++) product = dim_mul(ctx, product, dims[i]);
    return product;
}

Dim dim_flat(Ctx *ctx, const Dim *at, const Dim *box, int n) {
    Dim flat = dim_const(ctx, 0);
    for (int k = 0; k < n; k++) flat = dim_add(ctx, dim_mul(ctx, flat, box[k]), at[k]);
    return flat;
}
