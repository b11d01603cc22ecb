/* SPDX-License-Identifier: Apache-2.0 */
/* Bodies: every Val becomes a named constant, then the stores. In a `vector` loop a Val is a vector
 * when it uses the lane or a vector Val, else a scalar that is splat where vectors meet it. */
#include "c_nest.h"

#include <math.h>
#include <string.h>

/* ---- names of types -------------------------------------------------------------------------- */

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
    case STRING:
    case OBJECT:
    case C64:
    case U64: return "u64";
    case U32: return "u32";
    case DT_NONE:
    case C128:
    case DT_COUNT: BUG("values of %s in a kernel", dtype_name(t));
    default: return "u8";
    }
}

int value_bits(DType t) {
    return dtype_bits(t) < 8 ? 8 : dtype_bits(t);
}

bool is_small_float(DType t) {
    return dtype_is_float(t) && dtype_bits(t) < 32;
}

const char *vector_type(const CNest *c, DType t) {
    return str(c, "v%d%s", c->lane.width, scalar_type(t));
}

const char *mask_type(const CNest *c, int bits) {
    return str(c, "v%di%d", c->lane.width, bits);
}

static const char *float_literal(const CNest *c, DType t, Bits bits) {
    double v = bits_to_double(t, bits);
    const char *f = t == F32 ? "f" : "";
    if (v != v || (isinf(v) && !*c->form->math))
        return str(c, "bits_%s(0x%llxu%s)", dtype_name(t), (unsigned long long)bits,
                   t == F64 ? "ll" : "");
    if (isinf(v)) return str(c, "(%s__builtin_inf%s())", v < 0 ? "-" : "", f);
    return signbit(v) ? str(c, "(%a%s)", v, f) : str(c, "%a%s", v, f);
}

const char *literal(const CNest *c, DType t, Bits bits) {
    if (t == F32 || t == F64) return float_literal(c, t, bits);
    if (is_small_float(t)) return str(c, "((%s)%llu)", scalar_type(t), (unsigned long long)bits);
    if (t == U64 || t == C64 || dtype_class(t) == CLASS_OBJECT)
        return str(c, "0x%llxull", (unsigned long long)bits);
    int64_t v = bits_to_int(t, bits);
    if (v == INT64_MIN) return "(-9223372036854775807 - 1)";
    return str(c, "((%s)%lld)", scalar_type(t), (long long)v);
}

/* ---- values ---------------------------------------------------------------------------------- */

CVal named(CNest *c, DType t, bool vector, int mask, const char *text) {
    CVal v = {.type = t, .vector = vector, .mask = mask, .text = str(c, "x%d", c->fresh++)};
    const char *type = !vector     ? scalar_type(t)
                       : t == BOOL ? mask_type(c, mask)
                                   : vector_type(c, t);
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

/* ---- the lane in index expressions ----------------------------------------------------------- */

Dim at_lane(const CNest *c, Dim d, int lane) {
    DimSubst s = {c->lane.var, dim_const(c->ctx, lane)};
    return dim_subst(c->ctx, d, &s, 1);
}

bool uses_lane(const CNest *c, Dim d) {
    return c->lane.var && dim_uses(d, c->lane.var);
}

/* d = coef*lane + rest with a constant coef. */
bool lane_affine(const CNest *c, Dim d, int64_t *coef, Dim *rest) {
    Dim k;
    return dim_affine(c->ctx, d, &c->lane.var, 1, &k, rest) && dim_is_const(k, coef);
}

const char *lane_mask(CNest *c) {
    if (c->lane.mask) return c->lane.mask;
    ASSERT(c->lane.kind == MASK_PREFIX);
    const char *type = mask_type(c, 32);
    c->lane.mask = str(c, "m%d", c->fresh++);
    put_line(c, "const %s %s = prefix_%s(%s);", type, c->lane.mask, type, c->lane.count);
    return c->lane.mask;
}

/* ---- bodies ---------------------------------------------------------------------------------- */

/* Where loop variables have 32 bits: may the value of d have more? */
static bool is_wide(const CNest *c, Dim d) {
    DimEnv env = names_env(&c->names);
    int64_t lo, hi;
    if (strcmp(c->index, "i32") != 0) return false;
    Dim least = dim_lower(c->ctx, d, &env), most = dim_upper(c->ctx, d, &env);
    bool known = least && most && dim_is_const(least, &lo) && dim_is_const(most, &hi);
    return !known || lo < INT32_MIN / 2 || hi > INT32_MAX / 2;
}

static void widen_names(CNest *c) {
    for (int i = 0, n = c->names.at.n; i < n; i++) {
        Name name = c->names.at.at[i];
        if (name.text) names_var(&c->names, name.sym, str(c, "(i64)%s", name.text), NULL, NULL);
    }
}

static CVal emit_index(CNest *c, Dim index) {
    index = names_subst(&c->names, index);
    if (varies(c, index)) return named(c, I64, true, 0, vector_dim(c, index));
    int mark = c->names.at.n;
    if (is_wide(c, index)) widen_names(c);
    push_values(c, 0);
    const char *e = emit_dim_str(&c->names, index);
    names_pop(&c->names, mark);
    return named(c, I64, false, 0, e);
}

CVal emit_val(CNest *c, const Val *v, const CVal *params, bool copy) {
    switch (v->kind) {
    case VAL_CONST:
        return (CVal){.type = v->type, .text = literal(c, v->type, v->bits), .constant = v};
    case VAL_INDEX: return emit_index(c, v->index);
    case VAL_READ: return emit_read(c, v, copy);
    case VAL_PARAM: return params[v->arg[0]];
    case VAL_PRIM: break;
    }
    CVal args[3];
    int arity = prim_row(v->prim)->arity;
    for (int i = 0; i < arity; i++) args[i] = c->val[v->arg[i]];
    CVal r = emit_prim(c, v, args);
    compute_codes(c, v, args, &r);
    for (int i = 0; i < arity; i++) c->val[v->arg[i]].splat = args[i].splat;
    return r;
}

static void open_vals(CNest *c, const Body *b) {
    c->body = b;
    c->vector.n = 0;
    c->val = NEW_ARRAY(c->arena, CVal, b->val.n);
}

/* All Vals of a body; results in c->val, which the caller restores with the body. */
static void emit_vals(CNest *c, const Body *b, const CVal *params, bool copy) {
    open_vals(c, b);
    for (int i = 0; i < b->val.n; i++) c->val[i] = emit_val(c, &b->val.at[i], params, copy);
}

void emit_stores(CNest *c, const Stmt *s) {
    for (int i = 0; i < s->store.n; i++) {
        const Access *to = &s->store.at[i].to;
        CVal *v = &c->val[s->store.at[i].val];
        if (v->type != c->nest->buf.at[to->cont].type && !c->wide)
            BUG("a value of %s is stored to \"%s\" of %s", dtype_name(v->type),
                c->nest->buf.at[to->cont].name, dtype_name(c->nest->buf.at[to->cont].type));
        emit_store(c, to, v);
    }
}

void emit_body(CNest *c, const Stmt *s) {
    const int *branch = body_branches(c, s);
    if (branch) {
        open_vals(c, &s->code);
        emit_branched(c, s, branch);
    } else {
        emit_vals(c, &s->code, NULL, s->store.n > 1);
    }
    emit_stores(c, s);
    c->body = NULL;
}

const char *emit_row(CNest *c, const Stmt *body) {
    emit_vals(c, &body->code, NULL, false);
    const char *row = raw_vector(c, &c->val[body->store.at[0].val]);
    c->body = NULL;
    return row;
}

/* ---- folds ----------------------------------------------------------------------------------- */

/* Lanes from .. from+n-1 of a vector, as one of n lanes. */
static CVal part(CNest *c, const CVal *v, int from, int n) {
    Text out = {.arena = c->arena};
    text_printf(&out, "__builtin_shufflevector(%s, %s", v->text, v->text);
    for (int i = 0; i < n; i++) text_printf(&out, ", %d", from + i);
    text_put(&out, ")");
    c->lane.width = n;
    return named(c, v->type, true, v->mask, text_str(&out));
}

void merge(CNest *c, const Combine *k, CVal *params) {
    emit_vals(c, &k->merge, params, false);
    for (int s = 0; s < k->nstate; s++) params[s] = c->val[k->merged[s]];
    c->body = NULL;
}

/* A nest names a fold's combine: functions in its merge are expanded here, as `vectorize` expands
 * those of bodies. */
static Combine expanded(CNest *c, const Combine *k) {
    Combine out = *k;
    out.merge = (Body){.arena = c->arena};
    int *map = NEW_ARRAY(c->arena, int, k->merge.val.n + 1);
    body_expand(&out.merge, &k->merge, NULL, map);
    for (int s = 0; s < k->nstate; s++) out.merged[s] = map[k->merged[s]];
    return out;
}

/* The halving tree over `w` lanes, each with its own states. */
static void fold_scalars(CNest *c, const Combine *k, CVal (*lane)[COMBINE_STATES], int w) {
    CVal params[2 * COMBINE_STATES];
    for (; w > 1; w /= 2)
        for (int l = 0; l < w / 2; l++) {
            for (int i = 0; i < k->nstate; i++) {
                params[i] = lane[l][i];
                params[k->nstate + i] = lane[l + w / 2][i];
            }
            merge(c, k, params);
            memcpy(lane[l], params, sizeof lane[l]);
        }
}

/* Where lanes are variables of their own. */
static void fold_elements(CNest *c, const Stmt *s, const Combine *k) {
    CVal(*lane)[COMBINE_STATES] = arena_array(c->arena, (size_t)s->lanes, sizeof *lane);
    for (int l = 0; l < s->lanes; l++)
        for (int i = 0; i < k->nstate; i++) {
            Access a = s->src[i];
            Dim *at = NEW_ARRAY(c->arena, Dim, a.rank);
            memcpy(at, a.at, sizeof *at * (size_t)a.rank);
            at[a.rank - 1] = dim_addc(c->ctx, at[a.rank - 1], l);
            a.at = at;
            lane[l][i] = named(c, k->type[i], false, 0, emit_element(c, &a));
        }
    fold_scalars(c, k, lane, s->lanes);
    for (int i = 0; i < k->nstate; i++) emit_store(c, &s->dst[i], &lane[0][i]);
}

/* 16 lanes -> 8 -> 4 as vectors, the last 4 as scalars. */
void emit_fold(CNest *c, const Stmt *s) {
    const Combine made = expanded(c, s->combine), *k = &made;
    if (s->threads) {
        c->form->fold(c, s, k);
        return;
    }
    if (!c->form->vectors) {
        fold_elements(c, s, k);
        return;
    }
    CVal row[COMBINE_STATES], params[2 * COMBINE_STATES];
    CLanes outside = c->lane;
    int w = s->lanes;
    c->lane = (CLanes){.width = w};
    for (int i = 0; i < k->nstate; i++) {
        int element;
        row[i] =
            (CVal){.type = k->type[i], .vector = true, .text = reg_name(c, &s->src[i], &element)};
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
    fold_scalars(c, k, lane, w);
    for (int i = 0; i < k->nstate; i++) emit_store(c, &s->dst[i], &lane[0][i]);
    c->lane = outside;
}
