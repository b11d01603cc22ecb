/* SPDX-License-Identifier: Apache-2.0 */
/* What `narrow` rounds to bf16 is stored so alone where its other readers take it rounded:
 *
 * - those that round it, or what they make of it by maxima, minima and moves, which give the same
 *   then;
 * - those that add it to another image: a term of a sum is off as one whose factor is rounded, by
 *   2^-8 of itself.
 *
 * So an image of f32 that maps write element for element (in parts, too) and that some reader
 * rounds becomes one of bf16, and the copy of it goes. */
#include "passes/narrow.h"

typedef struct Storing {
    Editing *e;
    int cont;     /* of f32, the one at hand */
    bool rounded; /* some reader rounds it */
} Storing;

/* What a value is where `cont` is rounded: the same, or within its bound; rounded, if what it is
 * written to is rounded; or off. */
typedef enum Fate { SAME, ROUNDED, OFF } Fate;

enum { DEPTH = 4 };

static bool stays(const Body *b, int val) {
    Bits bits;
    return body_const_bits(b, val, &bits) && !(bits & 0xffff);
}

static bool read_plainly(const Body *b, int val) {
    return b->val.at[val].kind == VAL_READ && !b->val.at[val].has_else;
}

static Fate fate_of(const Body *b, const Val *v, const Fate *fate, int cont) {
    int narg = v->kind == VAL_PRIM ? prim_row(v->prim)->arity : 0;
    bool rounded = false, off = false;
    if (v->kind == VAL_READ && v->read.cont == cont)
        return v->has_else && !stays(b, v->arg[0]) ? OFF : ROUNDED;
    if (v->kind == VAL_READ && v->has_else) return fate[v->arg[0]] == SAME ? SAME : OFF;
    for (int i = 0; i < narg; i++) {
        rounded |= fate[v->arg[i]] == ROUNDED;
        off |= fate[v->arg[i]] == OFF;
    }
    if (off) return OFF;
    if (!rounded) return SAME;
    if (v->prim == P_CVT) return v->type == BF16 ? SAME : OFF;
    if (v->prim == P_ADD && read_plainly(b, v->arg[0]) && read_plainly(b, v->arg[1])) return SAME;
    return v->prim == P_MAX || v->prim == P_MIN ? ROUNDED : OFF;
}

static bool takes_rounded(Storing *s, int cont, const Map *m, int depth);

/* Is all that is read of a container rounded, or made to what is? */
static bool only_rounded(Storing *s, int cont, int depth) {
    const Flow *flow = s->e->flow;
    const Uses *u = &s->e->uses;
    if (!depth || flow->cont.at[cont].kind != CONT_TMP || u->held[cont]) return false;
    if (flow->cont.at[cont].type != F32) return flow->cont.at[cont].type == BF16;
    for (int i = 0; i < u->readers[cont].n; i++)
        if (!takes_rounded(s, cont, flow->map.at[u->readers[cont].at[i]], depth - 1)) return false;
    return u->readers[cont].n > 0;
}

/* May a map read the container rounded? */
static bool takes_rounded(Storing *s, int cont, const Map *m, int depth) {
    Fate *fate = NEW_ARRAY(s->e->arena, Fate, m->body.val.n + 1);
    for (int v = 0; v < m->body.val.n; v++) {
        const Val *val = &m->body.val.at[v];
        fate[v] = fate_of(&m->body, val, fate, cont);
        if (val->kind == VAL_PRIM && val->prim == P_CVT && fate[val->arg[0]] == ROUNDED)
            s->rounded |= fate[v] == SAME;
        if (fate[v] == OFF) return false;
    }
    for (int w = 0; w < m->write.n; w++) {
        const Write *write = &m->write.at[w];
        const Combine *c = write->combine;
        for (int k = 0; k < write->nstate; k++) {
            if (fate[write->val[k]] == SAME) continue;
            if (c && c->simple != P_MAX && c->simple != P_MIN) return false;
            if (write->nstate > 1 || !only_rounded(s, write->to[0].cont, depth)) return false;
        }
    }
    return true;
}

/* Do maps write it element for element? */
static bool stores_plainly(const Storing *s) {
    const Uses *u = &s->e->uses;
    for (int i = 0; i < u->writers[s->cont].n; i++) {
        const Map *m = s->e->flow->map.at[u->writers[s->cont].at[i]];
        for (int w = 0; w < m->write.n; w++)
            for (int k = 0; k < m->write.at[w].n; k++)
                if (m->write.at[w].to[k].cont == s->cont && m->write.at[w].combine) return false;
    }
    return u->writers[s->cont].n > 0;
}

/* Does one map alone read what one map writes, element for element? They become one. */
static bool passes_on(const Storing *s) {
    const IntVec *readers = &s->e->uses.readers[s->cont];
    const Map *m = readers->n == 1 ? s->e->flow->map.at[readers->at[0]] : NULL;
    return m && s->e->uses.writer[s->cont] >= 0 && map_plain_write(m) && reads_once(m, s->cont);
}

static bool stored_small(Storing *s) {
    const Flow *flow = s->e->flow;
    const Uses *u = &s->e->uses;
    const Cont *x = &flow->cont.at[s->cont];
    s->rounded = false;
    if (x->type != F32 || x->kind != CONT_TMP || u->held[s->cont] || !stores_plainly(s) ||
        passes_on(s))
        return false;
    for (int i = 0; i < u->readers[s->cont].n; i++)
        if (!takes_rounded(s, s->cont, flow->map.at[u->readers[s->cont].at[i]], DEPTH))
            return false;
    return s->rounded;
}

/* A BodyReadFn. */
static int read_stored(void *user, Body *b, const Val *read) {
    const Storing *s = user;
    return read->read.cont == s->cont ? converted_read(b, read, s->cont, BF16) : -1;
}

static void store_small(Storing *s) {
    Flow *flow = s->e->flow;
    const Uses *u = &s->e->uses;
    flow->cont.at[s->cont].type = BF16;
    for (int i = 0; i < u->readers[s->cont].n; i++)
        map_rewrite(s->e, flow->map.at[u->readers[s->cont].at[i]], NULL, 0, read_stored, s);
    for (int i = 0; i < u->writers[s->cont].n; i++) {
        Map *m = flow->map.at[u->writers[s->cont].at[i]];
        for (int w = 0; w < m->write.n; w++) {
            Write *write = &m->write.at[w];
            if (write->to[0].cont != s->cont) continue;
            int *val = arena_copy(s->e->arena, write->val, sizeof *val);
            *val = body_cvt(&m->body, BF16, *val);
            write->val = val;
        }
    }
}

/* A BodyReadFn: the copy's element is the one it is a copy of. */
static int read_origin(void *user, Body *b, const Val *read) {
    const Converted *c = user;
    if (read->read.cont != c->to) return -1;
    Access origin = read->read;
    origin.cont = c->from;
    return read->has_else ? body_read_else(b, origin, BF16, read->arg[0])
                          : body_read(b, origin, BF16);
}

static void drop_copy(Editing *e, Converted *c) {
    const Uses *u = &e->uses;
    for (int i = 0; i < u->readers[c->to].n; i++)
        map_rewrite(e, e->flow->map.at[u->readers[c->to].at[i]], NULL, 0, read_origin, c);
    e->flow->map.at[u->writer[c->to]]->write.n = 0;
}

void narrow_stored(Editing *e, Conversions *c) {
    Storing s = {.e = e};
    uses_count(e);
    for (s.cont = 0; s.cont < e->flow->cont.n; s.cont++)
        if (stored_small(&s)) store_small(&s);
    for (int i = 0; i < c->done.n; i++) {
        Converted *one = &c->done.at[i];
        if (e->flow->cont.at[one->to].type == BF16 && e->flow->cont.at[one->from].type == BF16 &&
            converted_alike(e->flow, one))
            drop_copy(e, one);
    }
}
