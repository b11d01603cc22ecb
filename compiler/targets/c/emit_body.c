/* SPDX-License-Identifier: Apache-2.0 */
/* Bodies: every Val becomes a named constant, then the stores. In a `vector` loop a Val is a vector when
 * it uses the lane or a vector Val, else a scalar that is splat where vectors meet it. A load that stands
 * in reach and still holds is used again, so that unrolled iterations share what they read. */
#include "c_nest.h"

#include <math.h>
#include <string.h>

/* ---- names of types ---------------------------------------------------------------------------------- */

const char *scalar_type(DType t) {
    switch (t) {
    case F64: return "f64";
    case F32: return "f32";
    case F16:
    case BF16:
    case U16: return "u16";
    case I64: return "i64";
    case I32: return "i32";
    case I16: return "i16";
    case I8:
    case I4:
    case I2: return "i8";
    case U64: return "u64";
    case U32: return "u32";
    case DT_NONE:
    case C64:
    case C128:
    case STRING:
    case DT_COUNT: BUG("values of %s in a kernel", dtype_name(t));
    default: return "u8";
    }
}

int value_bits(DType t) { return dtype_bits(t) < 8 ? 8 : dtype_bits(t); }

bool is_small_float(DType t) { return dtype_is_float(t) && dtype_bits(t) < 32; }

const char *vector_type(const CNest *c, DType t) { return str(c, "v%d%s", c->lane.width, scalar_type(t)); }

const char *mask_type(const CNest *c, int bits) { return str(c, "v%di%d", c->lane.width, bits); }

static const char *float_literal(const CNest *c, DType t, Bits bits) {
    double v = bits_to_double(t, bits);
    const char *f = t == F32 ? "f" : "";
    if (v != v) return str(c, "bits_%s(0x%llxu%s)", dtype_name(t), (unsigned long long)bits, t == F64 ? "ll" : "");
    if (isinf(v)) return str(c, "(%s__builtin_inf%s())", v < 0 ? "-" : "", f);
    return signbit(v) ? str(c, "(%a%s)", v, f) : str(c, "%a%s", v, f);
}

const char *literal(const CNest *c, DType t, Bits bits) {
    if (t == F32 || t == F64) return float_literal(c, t, bits);
    if (is_small_float(t)) return str(c, "((%s)%llu)", scalar_type(t), (unsigned long long)bits);
    if (t == U64) return str(c, "0x%llxull", (unsigned long long)bits);
    int64_t v = bits_to_int(t, bits);
    if (v == INT64_MIN) return "(-9223372036854775807 - 1)";
    return str(c, "((%s)%lld)", scalar_type(t), (long long)v);
}

/* ---- values ------------------------------------------------------------------------------------------- */

CVal named(CNest *c, DType t, bool vector, int mask, const char *text) {
    CVal v = {.type = t, .vector = vector, .mask = mask, .text = str(c, "x%d", c->fresh++)};
    const char *type = !vector ? scalar_type(t) : t == BOOL ? mask_type(c, mask) : vector_type(c, t);
    put_line(c, "const %s %s = %s;", type, v.text, text);
    return v;
}

const char *as_vector(CNest *c, CVal *v) {
    if (v->type == BOOL) return as_mask(c, v, 0);
    if (v->vector) return v->text;
    if (!v->splat) {
        const char *type = vector_type(c, v->type);
        v->splat = str(c, "x%d", c->fresh++);
        put_line(c, "const %s %s = %s - (%s){0};", type, v->splat, v->text, type);
    }
    return v->splat;
}

const char *as_mask(CNest *c, CVal *v, int bits) {
    ASSERT(v->type == BOOL);
    if (!v->vector) {
        const char *type = mask_type(c, bits ? bits : 8);
        return str(c, "((i%d)-%s - (%s){0})", bits ? bits : 8, v->text, type);
    }
    if (bits == 0 || bits == v->mask) return v->text;
    return str(c, "__builtin_convertvector(%s, %s)", v->text, mask_type(c, bits));
}

const char *as_lane(CNest *c, const CVal *v, int lane) {
    if (!v->vector) return v->text;
    if (v->type == BOOL) return str(c, "((u8)(%s[%d] & 1))", v->text, lane);
    return str(c, "%s[%d]", v->text, lane);
}

/* ---- the lane in index expressions ----------------------------------------------------------------------- */

static Dim at_lane(const CNest *c, Dim d, int lane) {
    DimSubst s = {c->lane.var, dim_const(c->ctx, lane)};
    return dim_subst(c->ctx, d, &s, 1);
}

static bool uses_lane(const CNest *c, Dim d) { return c->lane.var && dim_uses(d, c->lane.var); }

/* d = coef*lane + rest with a constant coef. */
static bool lane_affine(const CNest *c, Dim d, int64_t *coef, Dim *rest) {
    Dim k;
    return dim_affine(c->ctx, d, &c->lane.var, 1, &k, rest) && dim_is_const(k, coef);
}

const char *vector_dim(CNest *c, Dim d) {
    const char *type = mask_type(c, 64);
    Dim rest;
    int64_t coef;
    d = names_subst(&c->names, d);
    if (!uses_lane(c, d)) return str(c, "((i64)%s - (%s){0})", emit_dim_str(&c->names, d), type);
    if (lane_affine(c, d, &coef, &rest))
        return str(c, "((i64)%s + %lld * iota_%s)", emit_dim_str(&c->names, rest), (long long)coef, type);
    Text out = {.arena = c->arena};
    text_printf(&out, "((%s){", type);
    for (int l = 0; l < c->lane.width; l++)
        text_printf(&out, "%s%s", l ? ", " : "", emit_dim_str(&c->names, at_lane(c, d, l)));
    text_put(&out, "})");
    return text_str(&out);
}

const char *lane_mask(CNest *c) {
    if (c->lane.mask) return c->lane.mask;
    ASSERT(c->lane.kind == MASK_PREFIX);
    const char *type = mask_type(c, 32);
    c->lane.mask = str(c, "m%d", c->fresh++);
    put_line(c, "const %s %s = prefix_%s(%s);", type, c->lane.mask, type, c->lane.count);
    return c->lane.mask;
}

/* ---- index expressions ------------------------------------------------------------------------------------- */

/* Does d use the symbol of a Val of this body? `vector`: of a vector one? */
static bool uses_value(const CNest *c, Dim d, bool vector) {
    for (int i = 0; c->body && i < c->body->val.n; i++) {
        Dim sym = c->body->val.at[i].sym;
        if (sym && dim_uses(d, sym) && (!vector || c->val[i].vector)) return true;
    }
    return false;
}

/* Gives the symbols of this body's Vals their spelling for one lane. */
static int push_values(CNest *c, int lane) {
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
    x->flat = strided(c, b, a->at);
    if (!x->data) x->flat = dim_simplify(c->ctx, x->flat, &env);
    if (a->rank) table_put(c->access, a->at, x);
    return x;
}

/* The offset for one lane, every index that comes from data checked: `ix(&bad, i, extent)`. */
static const char *checked_offset(CNest *c, const Access *a, int lane) {
    const Buf *b = &c->nest->buf.at[a->cont];
    int mark = push_values(c, lane);
    Dim at[RANK_MAX];
    for (int k = 0; k < a->rank; k++) {
        at[k] = c->lane.var ? at_lane(c, a->at[k], lane) : a->at[k];
        if (!uses_value(c, a->at[k], false)) continue;
        const char *e = emit_dim_str(&c->names, at[k]), *n = emit_dim_str(&c->names, b->box[k]);
        at[k] = dim_sym(c->ctx, internf(c->ctx, "%%%d", k));
        names_var(&c->names, at[k], str(c, "ix(&bad, %s, %s)", e, n), NULL, NULL);
        c->bad = true;
    }
    const char *offset = emit_dim_str(&c->names, strided(c, b, at));
    names_pop(&c->names, mark);
    return offset;
}

/* ---- elements in memory ---------------------------------------------------------------------------------------- */

static bool is_packed(DType t) { return dtype_bits(t) < 8; }

static bool is_signed(DType t) { return dtype_class(t) == CLASS_INT; }

static const char *get_element(const CNest *c, int buf, const char *offset) {
    DType t = c->nest->buf.at[buf].type;
    if (!is_packed(t)) return str(c, "%s[%s]", c->buf[buf].name, offset);
    return str(c, "get_%s%d(%s, %s)", is_signed(t) ? "i" : "u", dtype_bits(t), c->buf[buf].name, offset);
}

static void put_element(CNest *c, int buf, const char *offset, const char *value) {
    DType t = c->nest->buf.at[buf].type;
    if (is_packed(t))
        put_line(c, "put_%d(%s, %s, (u8)%s);", dtype_bits(t), c->buf[buf].name, offset, value);
    else
        put_line(c, "%s[%s] = %s;", c->buf[buf].name, offset, value);
}

/* ---- registers ---------------------------------------------------------------------------------------------------- */

/* The variable of a register access, and in *element the lane of a row it names (-1: the whole row). */
static const char *reg_name(CNest *c, const Access *a, int *element) {
    const CBuf *cb = &c->buf[a->cont];
    Text out = {.arena = c->arena};
    text_put(&out, cb->name);
    *element = -1;
    for (int k = 0; k < a->rank; k++) {
        Dim d = names_subst(&c->names, a->at[k]);
        bool last = cb->lanes && k == a->rank - 1, lane = uses_lane(c, d);
        if (lane) d = at_lane(c, d, 0);
        int64_t v;
        if (!dim_is_const(d, &v)) BUG("register \"%s\" indexed by a variable", c->nest->buf.at[a->cont].name);
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
    if (vector && t == BOOL) return named(c, BOOL, true, 8, str(c, "(%s)(%s != 0)", mask_type(c, 8), name));
    if (element >= 0) return named(c, t, false, 0, str(c, "%s[%d]", name, element));
    if (copy) return named(c, t, vector, 0, name);
    return (CVal){.type = t, .vector = vector, .text = name};
}

/* ---- reads ------------------------------------------------------------------------------------------------------------ */

static CVal loaded_vector(CNest *c, DType t, const char *text) {
    if (t == BOOL) return named(c, BOOL, true, 8, str(c, "(%s)(%s != 0)", mask_type(c, 8), text));
    return named(c, t, true, 0, text);
}

static const char *raw_type(const CNest *c, DType t) { return vector_type(c, t == BOOL ? U8 : t); }

/* W elements that lie in a row. */
static CVal read_row(CNest *c, int buf, Dim first) {
    DType t = c->nest->buf.at[buf].type;
    const char *name = c->buf[buf].name, *at = emit_dim_str(&c->names, first), *type = raw_type(c, t);
    if (c->lane.kind == MASK_PREFIX && c->nest->buf.at[buf].kind == BUF_MEMORY) {
        const char *load = str(c, "(%s)loadn_%s(%s + %s, %s)", type, mask_type(c, value_bits(t)), name, at,
                               c->lane.count);
        return loaded_vector(c, t, load);
    }
    return loaded_vector(c, t, str(c, "*(const %su *)(%s + %s)", type, name, at));
}

/* Is lane l certainly off or certainly on? Guards are cheap; wrong addresses are not. */
static const char *guarded_element(CNest *c, const char *element, int lane) {
    if (c->lane.kind == MASK_NONE) return element;
    if (c->lane.kind == MASK_PREFIX) return str(c, "(%d < %s ? %s : 0)", lane, c->lane.count, element);
    return str(c, "(%s[%d] ? %s : 0)", lane_mask(c), lane, element);
}

/* Any pattern: one load a lane. */
static CVal read_lanes(CNest *c, const Access *a, Dim flat) {
    DType t = c->nest->buf.at[a->cont].type;
    Text out = {.arena = c->arena};
    text_printf(&out, "(%s){", raw_type(c, t));
    for (int l = 0; l < c->lane.width; l++) {
        const char *at = flat ? emit_dim_str(&c->names, at_lane(c, flat, l)) : checked_offset(c, a, l);
        text_printf(&out, "%s%s", l ? ", " : "", guarded_element(c, get_element(c, a->cont, at), l));
    }
    text_put(&out, "}");
    return loaded_vector(c, t, text_str(&out));
}

static CVal read_memory(CNest *c, const Access *a, Dim flat) {
    DType t = c->nest->buf.at[a->cont].type;
    int64_t coef;
    Dim rest;
    if (!uses_lane(c, flat)) return named(c, t, false, 0, get_element(c, a->cont, emit_dim_str(&c->names, flat)));
    bool affine = lane_affine(c, flat, &coef, &rest) && !is_packed(t);
    if (affine && coef == 1 && (c->lane.kind != MASK_LANES || c->nest->buf.at[a->cont].kind != BUF_MEMORY))
        return read_row(c, a->cont, rest);
    if (affine && c->lane.kind == MASK_NONE) {
        const char *at = emit_dim_str(&c->names, rest), *name = c->buf[a->cont].name;
        const char *g = str(c, "(%s)gather_v%d(%s + %s, %lld)", raw_type(c, t), c->lane.width, name, at,
                            (long long)coef);
        return loaded_vector(c, t, g);
    }
    return read_lanes(c, a, flat);
}

static int *epoch_of(CNest *c, int buf) { return &c->epoch[c->nest->buf.at[buf].kind != BUF_MEMORY]; }

/* An equal load that still holds, or a new one. */
static CVal read_shared(CNest *c, const Access *a, Dim flat) {
    const char *mask = c->lane.kind == MASK_NONE ? NULL : c->lane.count ? c->lane.count : c->lane.mask;
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
    *out = (CVal){.type = b->type, .text = literal(c, b->type, mem_get(b->type, cont->data, at))};
    return true;
}

static CVal read_inside(CNest *c, const Access *a, bool copy) {
    if (c->buf[a->cont].kind == BUF_REG) return read_reg(c, a, copy);
    const CAccess *x = access_of(c, a);
    if (x->data) {
        DType t = c->nest->buf.at[a->cont].type;
        bool vector = false;
        for (int k = 0; k < a->rank; k++) vector |= uses_lane(c, a->at[k]) || uses_value(c, a->at[k], true);
        if (vector) return read_lanes(c, a, NULL);
        return named(c, t, false, 0, get_element(c, a->cont, checked_offset(c, a, 0)));
    }
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
    for (int l = 0; l < c->lane.width; l++) text_printf(&out, "%s%s", l ? ", " : "", else_element(c, v, l));
    text_put(&out, "}");
    return loaded_vector(c, t, text_str(&out));
}

/* ---- stores --------------------------------------------------------------------------------------------------------------- */

/* The value as it lies in memory: bools as 0 or 1 in bytes. */
static const char *raw_vector(CNest *c, CVal *v) {
    const char *x = as_vector(c, v);
    if (v->type != BOOL) return x;
    return str(c, "((%s)(%s & 1))", vector_type(c, U8), as_mask(c, v, 8));
}

static void store_reg(CNest *c, const Access *to, CVal *v) {
    int element;
    const char *name = reg_name(c, to, &element);
    if (!c->buf[to->cont].lanes || element >= 0) {
        if (v->vector) BUG("a vector is stored to one element of \"%s\"", c->nest->buf.at[to->cont].name);
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

static void store_row(CNest *c, int buf, Dim first, CVal *v) {
    const char *name = c->buf[buf].name, *at = emit_dim_str(&c->names, first), *x = raw_vector(c, v);
    DType t = v->type;
    if (c->lane.kind == MASK_PREFIX) {
        const char *mt = mask_type(c, value_bits(t));
        put_line(c, "storen_%s(%s + %s, (%s)%s, %s);", mt, name, at, mt, x, c->lane.count);
        return;
    }
    put_line(c, "*(%su *)(%s + %s) = %s;", raw_type(c, t), name, at, x);
}

static void store_lanes(CNest *c, const Access *to, Dim flat, CVal *v) {
    for (int l = 0; l < c->lane.width; l++) {
        const char *at = flat ? emit_dim_str(&c->names, at_lane(c, flat, l)) : checked_offset(c, to, l);
        if (c->lane.kind == MASK_PREFIX) put_line(c, "if (%d < %s)", l, c->lane.count);
        if (c->lane.kind == MASK_LANES) put_line(c, "if (%s[%d])", lane_mask(c), l);
        put_element(c, to->cont, at, as_lane(c, v, l));
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
        for (int k = 0; k < to->rank; k++) vector |= uses_lane(c, to->at[k]) || uses_value(c, to->at[k], true);
        if (vector)
            store_lanes(c, to, NULL, v);
        else
            put_element(c, to->cont, checked_offset(c, to, 0), v->text);
        return;
    }
    if (!uses_lane(c, flat)) {
        if (v->vector) BUG("a vector is stored to one element of \"%s\"", c->nest->buf.at[to->cont].name);
        put_element(c, to->cont, emit_dim_str(&c->names, flat), v->text);
        return;
    }
    bool affine = lane_affine(c, flat, &coef, &rest) && !is_packed(t);
    if (affine && coef == 1 && c->lane.kind != MASK_LANES)
        store_row(c, to->cont, rest, v);
    else
        store_lanes(c, to, flat, v);
}

/* ---- bodies ----------------------------------------------------------------------------------------------------------------- */

static CVal emit_index(CNest *c, Dim index) {
    bool vector = uses_lane(c, names_subst(&c->names, index)) || uses_value(c, index, true);
    if (vector && !uses_value(c, index, false)) return named(c, I64, true, 0, vector_dim(c, index));
    int mark = push_values(c, 0);
    if (!vector) {
        const char *e = emit_dim_str(&c->names, index);
        names_pop(&c->names, mark);
        return named(c, I64, false, 0, e);
    }
    Text out = {.arena = c->arena};
    text_printf(&out, "(%s){", mask_type(c, 64));
    for (int l = 0; l < c->lane.width; l++) {
        names_pop(&c->names, mark);
        push_values(c, l);
        text_printf(&out, "%s%s", l ? ", " : "", emit_dim_str(&c->names, at_lane(c, index, l)));
    }
    names_pop(&c->names, mark);
    text_put(&out, "}");
    return named(c, I64, true, 0, text_str(&out));
}

static CVal emit_val(CNest *c, const Val *v, const CVal *params, bool copy) {
    switch (v->kind) {
    case VAL_CONST:
        return (CVal){.type = v->type, .text = literal(c, v->type, v->bits), .constant = v};
    case VAL_INDEX: return emit_index(c, v->index);
    case VAL_READ: return v->has_else ? read_else(c, v) : read_inside(c, &v->read, copy);
    case VAL_PARAM: return params[v->arg[0]];
    case VAL_PRIM: break;
    }
    CVal args[3];
    int arity = prim_row(v->prim)->arity;
    for (int i = 0; i < arity; i++) args[i] = c->val[v->arg[i]];
    CVal r = emit_prim(c, v, args);
    for (int i = 0; i < arity; i++) c->val[v->arg[i]].splat = args[i].splat;
    return r;
}

/* All Vals of a body; results in c->val, which the caller restores with the body. */
static void emit_vals(CNest *c, const Body *b, const CVal *params, bool copy) {
    c->body = b;
    c->val = NEW_ARRAY(c->arena, CVal, b->val.n);
    for (int i = 0; i < b->val.n; i++) c->val[i] = emit_val(c, &b->val.at[i], params, copy);
}

void emit_body(CNest *c, const Stmt *s) {
    emit_vals(c, &s->code, NULL, s->store.n > 1);
    for (int i = 0; i < s->store.n; i++) {
        const Access *to = &s->store.at[i].to;
        CVal *v = &c->val[s->store.at[i].val];
        if (v->type != c->nest->buf.at[to->cont].type)
            BUG("a value of %s is stored to \"%s\" of %s", dtype_name(v->type), c->nest->buf.at[to->cont].name,
                dtype_name(c->nest->buf.at[to->cont].type));
        if (c->buf[to->cont].kind == BUF_REG)
            store_reg(c, to, v);
        else
            store_memory(c, to, v);
    }
    c->body = NULL;
}

void emit_prefetch(CNest *c, const Stmt *s) {
    const CAccess *x = access_of(c, &s->at);
    const char *at = emit_dim_str(&c->names, x->flat);
    if (is_packed(c->nest->buf.at[s->at.cont].type)) at = str(c, "%s / %d", at, 8 / dtype_bits(c->nest->buf.at[s->at.cont].type));
    put_line(c, "__builtin_prefetch(%s + %s, 0, 2);", c->buf[s->at.cont].name, at);
}

const char *emit_element(CNest *c, const Access *at) {
    if (c->buf[at->cont].kind == BUF_REG) {
        int element;
        const char *name = reg_name(c, at, &element);
        return element < 0 ? name : str(c, "%s[%d]", name, element);
    }
    return get_element(c, at->cont, emit_dim_str(&c->names, access_of(c, at)->flat));
}

/* ---- folds --------------------------------------------------------------------------------------------------------------------- */

/* Lanes from .. from+n-1 of a vector, as one of n lanes. */
static CVal part(CNest *c, const CVal *v, int from, int n) {
    Text out = {.arena = c->arena};
    text_printf(&out, "__builtin_shufflevector(%s, %s", v->text, v->text);
    for (int i = 0; i < n; i++) text_printf(&out, ", %d", from + i);
    text_put(&out, ")");
    c->lane.width = n;
    return named(c, v->type, true, v->mask, text_str(&out));
}

static void merge(CNest *c, const Combine *k, CVal *params) {
    emit_vals(c, &k->merge, params, false);
    for (int s = 0; s < k->nstate; s++) params[s] = c->val[k->merged[s]];
    c->body = NULL;
}

/* 16 lanes -> 8 -> 4 as vectors, the last 4 as scalars. */
void emit_fold(CNest *c, const Stmt *s) {
    const Combine *k = s->combine;
    CVal row[COMBINE_STATES], params[2 * COMBINE_STATES];
    CLanes outside = c->lane;
    int w = s->lanes;
    c->lane = (CLanes){.width = w};
    for (int i = 0; i < k->nstate; i++) {
        int element;
        row[i] = (CVal){.type = k->type[i], .vector = true, .text = reg_name(c, &s->src[i], &element)};
        if (k->type[i] == BOOL)
            row[i] = named(c, BOOL, true, 8, str(c, "(%s)(%s != 0)", mask_type(c, 8), row[i].text));
    }
    for (; w > 4; w /= 2) {
        for (int i = 0; i < k->nstate; i++) {
            params[i] = part(c, &row[i], 0, w / 2);
            params[k->nstate + i] = part(c, &row[i], w / 2, w / 2);
        }
        merge(c, k, params);
        memcpy(row, params, sizeof row);
    }
    c->lane.width = 1;
    CVal lane[4][COMBINE_STATES];
    for (int l = 0; l < w; l++)
        for (int i = 0; i < k->nstate; i++)
            lane[l][i] = named(c, k->type[i], false, 0, as_lane(c, &row[i], l));
    for (; w > 1; w /= 2)
        for (int l = 0; l < w / 2; l++) {
            for (int i = 0; i < k->nstate; i++) {
                params[i] = lane[l][i];
                params[k->nstate + i] = lane[l + w / 2][i];
            }
            merge(c, k, params);
            memcpy(lane[l], params, sizeof lane[l]);
        }
    for (int i = 0; i < k->nstate; i++) {
        CVal v = lane[0][i];
        if (c->buf[s->dst[i].cont].kind == BUF_REG)
            store_reg(c, &s->dst[i], &v);
        else
            store_memory(c, &s->dst[i], &v);
    }
    c->lane = outside;
}
