/* SPDX-License-Identifier: Apache-2.0 */
/* Reads and stores: of registers, which are variables, and of memory and local arrays, as a scalar,
 * a row of lanes, a stride, or lane by lane. Inactive lanes touch nothing. Indices that come from
 * data are checked. A load that stands in reach and still holds is used again, so that unrolled
 * iterations share what they read. */
#include "c_nest.h"

enum { SIFTED_STEP = 4 };

/* ---- index expressions ----------------------------------------------------------------------- */

/* Does d use the symbol of a Val of this body? `vector`: of a vector one? */
bool uses_value(const CNest *c, Dim d, bool vector) {
    for (int i = 0; c->body && i < c->body->val.n; i++) {
        Dim sym = c->body->val.at[i].sym;
        if (sym && dim_uses(d, sym) && (!vector || c->val[i].vector)) return true;
    }
    return false;
}

/* Gives the symbols of this body's Vals their spelling for one lane. */
int push_values(CNest *c, int lane) {
    int mark = c->names.at.n;
    for (int i = 0; c->body && i < c->body->val.n; i++) {
        Dim sym = c->body->val.at[i].sym;
        if (sym && c->val[i].text)
            names_var(&c->names, sym, str(c, "(i64)%s", as_lane(c, &c->val[i], lane)), NULL, NULL);
    }
    return mark;
}

static Dim strided(const CNest *c, const Buf *b, const Dim *at) {
    Dim flat = b->base ? b->base : dim_const(c->ctx, 0), stride = dim_const(c->ctx, 1);
    for (int k = b->rank - 1; k >= 0; k--) {
        flat = dim_add(c->ctx, flat, dim_mul(c->ctx, at[k], stride));
        stride = dim_mul(c->ctx, stride, b->box[k]);
    }
    return flat;
}

static const CAccess *access_of(CNest *c, const Access *a) {
    CAccess *known = a->rank ? table_get(c->access, a->at) : NULL;
    if (known && known->buf == a->cont) return known;
    CAccess *x = NEW(c->arena, CAccess);
    x->buf = a->cont;
    const Buf *b = &c->nest->buf.at[a->cont];
    DimEnv env = names_env(&c->names);
    for (int k = 0; k < a->rank; k++) x->data |= uses_value(c, a->at[k], false);
    c->buf[a->cont].picked |= x->data;
    x->flat = strided(c, b, a->at);
    if (!x->data) x->flat = dim_simplify(c->ctx, x->flat, &env);
    if (a->rank) table_put(c->access, a->at, x);
    return x;
}

Dim access_flat(CNest *c, const Access *a) {
    const CAccess *x = access_of(c, a);
    if (x->data) BUG("an operand of an instruction is indexed by data");
    return names_subst(&c->names, x->flat);
}

/* The place of an access whose indices from data are the same in all lanes, each of these checked:
 * `ix(&bad, i, extent)`. Valid until the names are popped to *mark. */
static Dim checked_place(CNest *c, const Access *a, int *mark) {
    const Buf *b = &c->nest->buf.at[a->cont];
    *mark = push_values(c, 0);
    Dim at[RANK_MAX];
    for (int k = 0; k < a->rank; k++) {
        at[k] = a->at[k];
        if (!uses_value(c, a->at[k], false)) continue;
        const char *e = emit_dim_str(&c->names, at[k]), *n = emit_dim_str(&c->names, b->box[k]);
        at[k] = dim_sym(c->ctx, internf(c->ctx, "%%%d", k));
        CVal i = named(c, I64, false, 0, str(c, "ix(&bad, %s, %s)", e, n));
        names_var(&c->names, at[k], i.text, NULL, NULL);
        c->bad = true;
    }
    return names_subst(&c->names, strided(c, b, at));
}

static const char *checked_offset(CNest *c, const char *verb, const Access *a) {
    int mark;
    const char *offset = emit_dim_str(&c->names, checked_place(c, a, &mark));
    names_pop(&c->names, mark);
    check_span(c, verb, a, offset, "1");
    return offset;
}

/* Are the indices from data the same in all lanes, which lie in a pattern beside them? */
static bool data_in_common(const CNest *c, const Access *a) {
    for (int k = 0; k < a->rank; k++)
        if (uses_value(c, a->at[k], false) && varies(c, a->at[k])) return false;
    return c->lane.kind != MASK_LANES;
}

/* The name of a vector of offsets, for accesses that follow no pattern. Indices from data are
 * checked in the active lanes; where one is out of range element 0 is meant. */
static const char *vector_offsets(CNest *c, const char *verb, const Access *a) {
    const Buf *b = &c->nest->buf.at[a->cont];
    Dim at[RANK_MAX];
    int mark = c->vector.n;
    const char *type = mask_type(c, 64);
    for (int k = 0; k < a->rank; k++) {
        at[k] = names_subst(&c->names, a->at[k]);
        if (!uses_value(c, at[k], false)) continue;
        CVal i = named(c, I64, true, 0, vector_dim(c, at[k]));
        Dim box = names_subst(&c->names, b->box[k]);
        CVal ok = named(c, BOOL, true, 64,
                        str(c, "(%s)((v%du64)%s < (v%du64)%s)", type, c->lane.width, i.text,
                            c->lane.width, vector_dim(c, box)));
        const char *wrong = str(c, "~%s", ok.text);
        if (c->lane.kind != MASK_NONE)
            wrong = str(c, "%s & __builtin_convertvector(%s, %s)", wrong, lane_mask(c), type);
        put_line(c, "bad |= any_%s(%s);", type, wrong);
        c->bad = true;
        at[k] = dim_sym(c->ctx, internf(c->ctx, "%%%d", k));
        CVal safe = named(c, I64, true, 0, str(c, "%s & %s", i.text, ok.text));
        vec_push(c->arena, &c->vector, (VectorDim){at[k], safe.text});
    }
    const char *offsets = named(c, I64, true, 0, vector_dim(c, strided(c, b, at))).text;
    for (int k = mark; k < c->vector.n; k++) /* "%0" means something else in the next access */
        if (dim_sym_name(c->vector.at[k].dim) && dim_sym_name(c->vector.at[k].dim)[0] == '%') {
            c->vector.n = k;
            break;
        }
    check_lanes(c, verb, a, str(c, "%s[l]", offsets));
    return offsets;
}

/* ---- registers ------------------------------------------------------------------------------- */

/* The variable of a register access, and in *element the lane of a row it names (-1: the whole
 * row). */
const char *reg_name(CNest *c, const Access *a, int *element) {
    const CBuf *cb = &c->buf[a->cont];
    Text out = {.arena = c->arena};
    text_put(&out, cb->name);
    *element = -1;
    for (int k = 0; k < a->rank; k++) {
        Dim d = names_subst(&c->names, a->at[k]);
        bool last = cb->lanes && k == a->rank - 1, lane = uses_lane(c, d);
        if (lane) d = at_lane(c, d, 0);
        int64_t v;
        if (!dim_is_const(d, &v))
            BUG("register \"%s\" indexed by a variable", c->nest->buf.at[a->cont].name);
        if (last) {
            if (!lane) *element = (int)(v % cb->lanes);
            v /= cb->lanes;
        }
        text_printf(&out, "_%lld", (long long)v);
    }
    return text_str(&out);
}

static CVal read_reg(CNest *c, const Access *a, bool copy) {
    DType t = c->nest->buf.at[a->cont].type;
    int element;
    const char *name = reg_name(c, a, &element);
    bool vector = c->buf[a->cont].lanes && element < 0;
    if (vector && t == BOOL)
        return named(c, BOOL, true, 8, str(c, "(%s)(%s != 0)", mask_type(c, 8), name));
    if (element >= 0) return named(c, t, false, 0, str(c, "%s[%d]", name, element));
    if (copy) return named(c, t, vector, 0, name);
    return (CVal){.type = t, .vector = vector, .text = name};
}

/* ---- reads ----------------------------------------------------------------------------------- */

CVal loaded_vector(CNest *c, DType t, const char *text) {
    if (t == BOOL) return named(c, BOOL, true, 8, str(c, "(%s)(%s != 0)", mask_type(c, 8), text));
    return named(c, t, true, 0, text);
}

const char *raw_type(const CNest *c, DType t) {
    return vector_type(c, t == BOOL ? U8 : t);
}

/* W elements that lie in a row. */
static CVal read_row(CNest *c, const Access *a, Dim first) {
    DType t = c->nest->buf.at[a->cont].type;
    const char *name = c->buf[a->cont].name, *at = emit_offset(c, first), *type = raw_type(c, t);
    bool memory = c->nest->buf.at[a->cont].kind == BUF_MEMORY;
    check_row(c, "reads", a, at, !memory);
    if (c->lane.kind == MASK_PREFIX && memory) {
        const char *load = str(c, "(%s)loadn_%s(%s + %s, %s)", type, mask_type(c, value_bits(t)),
                               name, at, c->lane.count);
        return loaded_vector(c, t, load);
    }
    if (c->lane.kind == MASK_LANES && memory) {
        const char *load = str(c, "(%s)loadm_%s(%s + %s, %s)", type, mask_type(c, value_bits(t)),
                               name, at, lane_mask(c));
        return loaded_vector(c, t, load);
    }
    return loaded_vector(c, t, str(c, "*(const %su *)(%s + %s)", type, name, at));
}

/* Is lane l certainly off or certainly on? Guards are cheap; wrong addresses are not. */
static const char *guarded_element(CNest *c, const char *element, int lane) {
    if (c->lane.kind == MASK_NONE) return element;
    if (c->lane.kind == MASK_PREFIX)
        return str(c, "(%d < %s ? %s : 0)", lane, c->lane.count, element);
    return str(c, "(%s[%d] ? %s : 0)", lane_mask(c), lane, element);
}

/* Any pattern: one load a lane. */
static CVal read_lanes(CNest *c, const Access *a) {
    DType t = c->nest->buf.at[a->cont].type;
    const char *offsets = vector_offsets(c, "reads", a);
    if (c->lane.kind == MASK_NONE && !is_packed(t))
        return loaded_vector(c, t,
                             str(c, "(%s)pick_v%d(%s, %s)", raw_type(c, t), c->lane.width,
                                 c->buf[a->cont].name, offsets));
    Text out = {.arena = c->arena};
    text_printf(&out, "(%s){", raw_type(c, t));
    for (int l = 0; l < c->lane.width; l++) {
        const char *element = get_element(c, a->cont, str(c, "%s[%d]", offsets, l));
        text_printf(&out, "%s%s", l ? ", " : "", guarded_element(c, element, l));
    }
    text_put(&out, "}");
    return loaded_vector(c, t, text_str(&out));
}

static CVal read_memory(CNest *c, const Access *a, Dim flat) {
    DType t = c->nest->buf.at[a->cont].type;
    int64_t coef;
    Dim rest;
    if (!uses_lane(c, flat)) {
        const char *at = emit_offset(c, flat);
        check_span(c, "reads", a, at, "1");
        return named(c, t, false, 0, get_element(c, a->cont, at));
    }
    bool affine = lane_affine(c, flat, &coef, &rest);
    CVal words;
    if (affine && is_packed(t) && read_codes(c, a, coef, rest, &words)) return words;
    affine = affine && !is_packed(t);
    if (affine && coef == 1) return read_row(c, a, rest);
    if (affine && c->lane.kind != MASK_LANES && coef >= 2 && coef <= SIFTED_STEP)
        return read_sifted(c, a, rest, coef);
    CVal picked;
    if (!affine && read_picked(c, a, flat, &picked)) return picked;
    if (affine && c->lane.kind == MASK_NONE) {
        const char *at = emit_offset(c, rest), *name = c->buf[a->cont].name;
        check_step(c, "reads", a, rest, coef);
        const char *g = str(c, "(%s)gather_v%d(%s + %s, %lld)", raw_type(c, t), c->lane.width, name,
                            at, (long long)coef);
        return loaded_vector(c, t, g);
    }
    return read_lanes(c, a);
}

static int *epoch_of(CNest *c, int buf) {
    return &c->epoch[c->nest->buf.at[buf].kind != BUF_MEMORY];
}

/* An equal load that still holds, or a new one. */
CVal read_shared(CNest *c, const Access *a, Dim flat) {
    const char *mask = c->lane.kind == MASK_NONE ? NULL
                       : c->lane.count           ? c->lane.count
                                                 : c->lane.mask;
    bool lanes = uses_lane(c, flat);
    for (int i = c->loaded.n - 1; i >= c->loaded_from; i--) {
        const Loaded *l = &c->loaded.at[i];
        if (l->buf == a->cont && l->flat == flat && l->epoch == *epoch_of(c, a->cont) &&
            l->lanes == c->lane.width && (!lanes || l->mask == mask))
            return l->val;
    }
    CVal v = read_memory(c, a, flat);
    if (!lanes && c->lane.width > 1 && v.type != BOOL) as_vector(c, &v);
    vec_push(c->arena, &c->loaded,
             (Loaded){a->cont, c->lane.width, *epoch_of(c, a->cont), c->scope, flat, mask, v});
    return v;
}

/* An element of a literal container at a constant place is a constant. */
static bool read_literal(CNest *c, const Access *a, Dim flat, CVal *out) {
    const Buf *b = &c->nest->buf.at[a->cont];
    int64_t at;
    if (b->cont < 0 || !c->flow || !dim_is_const(flat, &at)) return false;
    const Cont *cont = &c->flow->cont.at[b->cont];
    if (cont->kind != CONT_LITERAL || !cont->data || cont->layout) return false;
    Val *v = NEW(c->arena, Val);
    *v = (Val){.kind = VAL_CONST, .type = b->type, .bits = mem_get(b->type, cont->data, at)};
    *out = (CVal){.type = b->type, .text = literal(c, b->type, v->bits), .constant = v};
    return true;
}

/* One of 256 bytes or more that a byte picks: it is among them whatever the data. */
static bool read_looked_up(CNest *c, const Access *a, CVal *out) {
    enum { BYTES = 256 };
    const Buf *b = &c->nest->buf.at[a->cont];
    int64_t size;
    int byte = a->rank == 1 ? body_byte(c->body, a->at[0]) : -1;
    if (byte < 0 || b->base || dtype_bits(b->type) != 8 || !dim_is_const(b->box[0], &size) ||
        size < BYTES)
        return false;
    const CVal *at = &c->val[byte];
    const char *name = c->buf[a->cont].name;
    *out = at->vector ? loaded_vector(c, b->type,
                                      str(c, "(%s)look_up_v%du8((const u8 *)%s, %s)",
                                          raw_type(c, b->type), c->lane.width, name, at->text))
                      : named(c, b->type, false, 0, str(c, "%s[%s]", name, at->text));
    return true;
}

/* Some index comes from data. */
static CVal read_by_data(CNest *c, const Access *a) {
    CVal looked_up;
    if (read_looked_up(c, a, &looked_up)) return looked_up;
    if (!data_in_common(c, a)) return read_lanes(c, a);
    int mark, spots = c->spot.n;
    Dim place = checked_place(c, a, &mark);
    CVal v = read_memory(c, a, place);
    names_pop(&c->names, mark);
    c->spot.n = spots; /* "%0" means something else in the next access */
    return v;
}

static CVal read_inside(CNest *c, const Access *a, bool copy) {
    if (c->buf[a->cont].kind == BUF_REG) return read_reg(c, a, copy);
    const CAccess *x = access_of(c, a);
    if (x->data) return read_by_data(c, a);
    CVal v;
    Dim flat = names_subst(&c->names, x->flat);
    return read_literal(c, a, flat, &v) ? v : read_shared(c, a, flat);
}

/* x[at] else v, element by element: `inside ? x[at] : v`. */
static const char *else_element(CNest *c, const Val *v, int lane) {
    const Access *a = &v->read;
    const Buf *b = &c->nest->buf.at[a->cont];
    int mark = push_values(c, lane);
    Dim at[RANK_MAX];
    Text cond = {.arena = c->arena};
    for (int k = 0; k < a->rank; k++) {
        at[k] = c->lane.var ? at_lane(c, a->at[k], lane) : a->at[k];
        const char *e = emit_dim_str(&c->names, at[k]), *n = emit_dim_str(&c->names, b->box[k]);
        text_printf(&cond, "%s(u64)%s < (u64)%s", k ? " && " : "", e, n);
    }
    const char *element = get_element(c, a->cont, emit_dim_str(&c->names, strided(c, b, at)));
    names_pop(&c->names, mark);
    if (a->rank == 0) return element;
    return str(c, "(%s ? %s : %s)", text_str(&cond), element, as_lane(c, &c->val[v->arg[0]], lane));
}

static CVal read_else(CNest *c, const Val *v) {
    DType t = v->type;
    bool vector = c->val[v->arg[0]].vector;
    for (int k = 0; k < v->read.rank; k++)
        vector |= uses_lane(c, v->read.at[k]) || uses_value(c, v->read.at[k], true);
    if (!vector) return named(c, t, false, 0, else_element(c, v, 0));
    Text out = {.arena = c->arena};
    text_printf(&out, "(%s){", raw_type(c, t));
    for (int l = 0; l < c->lane.width; l++)
        text_printf(&out, "%s%s", l ? ", " : "", else_element(c, v, l));
    text_put(&out, "}");
    return loaded_vector(c, t, text_str(&out));
}

/* ---- stores ---------------------------------------------------------------------------------- */

/* The value as it lies in memory: bools as 0 or 1 in bytes. */
const char *raw_vector(CNest *c, CVal *v) {
    const char *x = as_vector(c, v);
    if (v->type != BOOL) return x;
    return str(c, "((%s)(%s & 1))", vector_type(c, U8), as_mask(c, v, 8));
}

static void store_reg(CNest *c, const Access *to, CVal *v) {
    int element;
    const char *name = reg_name(c, to, &element);
    if (!c->buf[to->cont].lanes || element >= 0) {
        if (v->vector)
            BUG("a vector is stored to one element of \"%s\"", c->nest->buf.at[to->cont].name);
        if (element >= 0) name = str(c, "%s[%d]", name, element);
        put_line(c, "%s = %s;", name, v->text);
        return;
    }
    const char *x = raw_vector(c, v);
    if (c->lane.kind == MASK_NONE) {
        put_line(c, "%s = %s;", name, x);
        return;
    }
    DType t = v->type == BOOL ? U8 : v->type;
    CVal mask = {.type = BOOL, .vector = true, .mask = 32, .text = lane_mask(c)};
    const char *m = as_mask(c, &mask, value_bits(t)), *type = vector_type(c, t);
    put_line(c, "%s = sel_%s(%s, %s, %s);", name, type, m, x, name);
}

/* Does a row of an array of our own end where the array ends? Behind the end is room for a vector
 * (array_bytes), so that all lanes may be stored: a load of the row is then handed what was stored
 * (a masked store hands on nothing) and finds no leftovers, slow where they happen to be subnormal.
 */
static bool ends_array(const CNest *c, int buf, Dim first) {
    const Buf *b = &c->nest->buf.at[buf];
    int64_t active;
    if (b->kind == BUF_MEMORY || !c->lane.active) return false;
    if (!dim_is_const(c->lane.active, &active) || active <= 0) return false;
    Dim end = dim_add(c->ctx, first, c->lane.active);
    return end == names_subst(&c->names, dim_product(c->ctx, b->box, b->rank));
}

static void store_row(CNest *c, const Access *to, Dim first, CVal *v) {
    const char *name = c->buf[to->cont].name, *at = emit_offset(c, first), *x = raw_vector(c, v);
    DType t = v->type;
    bool whole = c->lane.kind == MASK_NONE || ends_array(c, to->cont, first);
    check_row(c, "stores", to, at, whole);
    if (!whole) {
        const char *mt = mask_type(c, value_bits(t));
        put_line(c, "storen_%s(%s + %s, (%s)%s, %s);", mt, name, at, mt, x, c->lane.count);
        return;
    }
    put_line(c, "*(%su *)(%s + %s) = %s;", raw_type(c, t), name, at, x);
}

static void store_stride(CNest *c, const Access *to, Dim first, int64_t step, CVal *v) {
    const char *at = emit_offset(c, first), *x = raw_vector(c, v);
    check_step(c, "stores", to, first, step);
    put_line(c, "scatter_v%d(%s + %s, %lld, %s);", c->lane.width, c->buf[to->cont].name, at,
             (long long)step, x);
}

static void store_lanes(CNest *c, const Access *to, CVal *v) {
    const char *offsets = vector_offsets(c, "stores", to);
    for (int l = 0; l < c->lane.width; l++) {
        if (c->lane.kind == MASK_PREFIX) put_line(c, "if (%d < %s)", l, c->lane.count);
        if (c->lane.kind == MASK_LANES) put_line(c, "if (%s[%d])", lane_mask(c), l);
        put_element(c, to->cont, str(c, "%s[%d]", offsets, l), as_lane(c, v, l));
    }
}

static void store_memory(CNest *c, const Access *to, CVal *v) {
    const CAccess *x = access_of(c, to);
    DType t = c->nest->buf.at[to->cont].type;
    Dim flat = names_subst(&c->names, x->flat), rest;
    int64_t coef;
    ++*epoch_of(c, to->cont);
    if (x->data) {
        bool vector = v->vector;
        for (int k = 0; k < to->rank; k++) vector |= varies(c, to->at[k]);
        if (vector)
            store_lanes(c, to, v);
        else
            put_element(c, to->cont, checked_offset(c, "stores", to), v->text);
        return;
    }
    if (!uses_lane(c, flat)) {
        if (v->vector)
            BUG("a vector is stored to one element of \"%s\"", c->nest->buf.at[to->cont].name);
        const char *at = emit_offset(c, flat);
        check_span(c, "stores", to, at, "1");
        put_element(c, to->cont, at, v->text);
        return;
    }
    bool affine = lane_affine(c, flat, &coef, &rest) && !is_packed(t);
    if (affine && coef == 1 && c->lane.kind != MASK_LANES)
        store_row(c, to, rest, v);
    else if (affine && c->lane.kind == MASK_NONE)
        store_stride(c, to, rest, coef, v);
    else
        store_lanes(c, to, v);
}

Dim stored_at(CNest *c, const Access *a) {
    const CAccess *x = access_of(c, a);
    if (x->data || c->nest->buf.at[a->cont].kind != BUF_MEMORY ||
        is_packed(c->nest->buf.at[a->cont].type))
        return NULL;
    return names_subst(&c->names, x->flat);
}

bool row_place(CNest *c, const Access *a, Dim *step, Dim *first) {
    Dim at = stored_at(c, a);
    return at && dim_affine(c->ctx, at, &c->lane.var, 1, step, first) && !dim_is(*step, 0);
}

void emit_store_turned(CNest *c, const Access *to, const CRows *rows) {
    DType t = c->nest->buf.at[to->cont].type;
    const char *name = c->buf[to->cont].name, *mask = mask_type(c, value_bits(t));
    ++*epoch_of(c, to->cont);
    for (int l = 0; l < rows->count; l++) {
        Dim row_at = dim_add(c->ctx, rows->first, dim_mulc(c->ctx, rows->step, l));
        const char *at = emit_offset(c, row_at), *row = rows->row[l];
        const char *count = str(c, "%d", rows->n);
        if (c->lane.kind == MASK_PREFIX)
            count = str(c, "%d < %s ? %d : 0", l, c->lane.count, rows->n);
        check_span(c, "stores", to, at, count);
        if (c->lane.kind == MASK_PREFIX) put_line(c, "if (%d < %s)", l, c->lane.count);
        if (rows->n == c->lane.width)
            put_line(c, "*(%su *)(%s + %s) = %s;", raw_type(c, t), name, at, row);
        else
            put_line(c, "storen_%s(%s + %s, (%s)%s, %d);", mask, name, at, mask, row, rows->n);
    }
}

void emit_store_dense(CNest *c, const Access *to, const char *const *part, int n) {
    DType t = c->nest->buf.at[to->cont].type;
    const char *name = c->buf[to->cont].name, *mask = mask_type(c, value_bits(t));
    Dim step = NULL, first = NULL;
    if (!row_place(c, to, &step, &first)) BUG("parts of a row have no places");
    const char *lanes = c->lane.kind == MASK_PREFIX ? c->lane.count : str(c, "%d", c->lane.width);
    check_span(c, "stores", to, emit_dim_str(&c->names, first), str(c, "%s * %d", lanes, n));
    ++*epoch_of(c, to->cont);
    for (int k = 0; k < n; k++) {
        int done = k * c->lane.width;
        const char *at = emit_offset(c, dim_addc(c->ctx, first, done));
        if (c->lane.kind == MASK_PREFIX)
            put_line(c, "storen_%s(%s + %s, (%s)%s, %s * %d - %d);", mask, name, at, mask, part[k],
                     lanes, n, done);
        else
            put_line(c, "*(%su *)(%s + %s) = %s;", raw_type(c, t), name, at, part[k]);
    }
}

CVal emit_read(CNest *c, const Val *v, bool copy) {
    return v->has_else ? read_else(c, v) : read_inside(c, &v->read, copy);
}

void emit_store(CNest *c, const Access *to, CVal *v) {
    if (c->buf[to->cont].kind == BUF_REG)
        store_reg(c, to, v);
    else if (!c->wide || !c->form->store(c, to, v))
        store_memory(c, to, v);
}

void emit_prefetch(CNest *c, const Stmt *s) {
    const CAccess *x = access_of(c, &s->at);
    const char *at = emit_offset(c, x->flat);
    if (is_packed(c->nest->buf.at[s->at.cont].type))
        at = str(c, "%s / %d", at, 8 / dtype_bits(c->nest->buf.at[s->at.cont].type));
    put_line(c, "%sprefetch(%s + %s, 0, 2);", c->form->math, c->buf[s->at.cont].name, at);
}

const char *emit_element(CNest *c, const Access *at) {
    if (c->buf[at->cont].kind == BUF_REG) {
        int element;
        const char *name = reg_name(c, at, &element);
        return element < 0 ? name : str(c, "%s[%d]", name, element);
    }
    const char *place = emit_offset(c, access_of(c, at)->flat);
    check_span(c, "reads", at, place, "1");
    return get_element(c, at->cont, place);
}

/* ---- local arrays --------------------------------------------------------------------------- */

enum { PAD = 64 };

/* Most elements of a local array, of all at once or, where the signs of extents are open, extent by
 * extent. */
static Dim array_most(CNest *c, const Buf *b) {
    DimEnv env = names_env(&c->names);
    Dim n = dim_product(c->ctx, b->box, b->rank), zero = dim_const(c->ctx, 0);
    Dim top = dim_upper_from(c->ctx, n, &env, c->nsymbol);
    if (top) return top;
    for (int k = 0; k < b->rank; k++) {
        Dim one = dim_upper_from(c->ctx, b->box[k], &env, c->nsymbol);
        if (!one) BUG("local array \"%s\" has no bound", b->name);
        if (!dim_ge0(c->ctx, one, &env)) one = dim_max(c->ctx, one, zero);
        top = top ? dim_mul(c->ctx, top, one) : one;
    }
    return top;
}

/* Bytes of a local array, as a Dim of model symbols (other symbols at their largest). Behind it is
 * room for the lanes of a row that are off. */
Dim array_bytes(CNest *c, const Buf *b) {
    Dim top = array_most(c, b);
    int bits = dtype_bits(b->type), row = c->lanes * bits / 8, pad = row > PAD ? row : PAD;
    Dim bytes = bits < 8 ? dim_ceildiv(c->ctx, top, dim_const(c->ctx, 8 / bits))
                         : dim_mulc(c->ctx, top, bits / 8);
    return dim_mulc(c->ctx,
                    dim_ceildiv(c->ctx, dim_addc(c->ctx, bytes, pad), dim_const(c->ctx, 64)), 64);
}
