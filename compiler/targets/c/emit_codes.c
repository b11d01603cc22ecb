/* SPDX-License-Identifier: Apache-2.0 */
/* Elements in memory, codes of less than a byte among them. Where each lane has a word of them, a
 * row of words is read, shifted and masked. What is computed of such codes and constants alone has
 * one value for each code: where lanes are as many as codes, it is looked up in one vector (a zero
 * point taken off, a table of floats of four bits), and neither mask nor conversion runs. */
#include "compiler/targets/c/c_nest.h"

enum { WORD = 32, CODES = 16 };

/* ---- one by one ------------------------------------------------------------------------------ */

bool is_packed(DType t) {
    return dtype_bits(t) < 8;
}

const char *emit_place(const CNest *c, int buf, const char *offset) {
    const Buf *b = &c->nest->buf.at[buf];
    int bytes = dtype_bits(b->type) / 8;
    if (!b->swizzled) return offset;
    return str(c, "swizzled<%d, %d>(%s)", SWIZZLED_ROW / bytes, SWIZZLED_PART / bytes, offset);
}

const char *get_element(const CNest *c, int buf, const char *offset) {
    DType t = c->nest->buf.at[buf].type;
    if (!is_packed(t)) return str(c, "%s[%s]", c->buf[buf].name, offset);
    return str(c, "get_%s%d(%s, %s)", dtype_is_signed(t) ? "i" : "u", dtype_bits(t),
               c->buf[buf].name, offset);
}

void put_element(CNest *c, int buf, const char *offset, const char *value) {
    DType t = c->nest->buf.at[buf].type;
    if (is_packed(t))
        put_line(c, "put_%d(%s, %s, (u8)%s);", dtype_bits(t), c->buf[buf].name, offset, value);
    else
        put_line(c, "%s[%s] = %s;", c->buf[buf].name, emit_place(c, buf, offset), value);
}

/* ---- in lanes -------------------------------------------------------------------------------- */

static const char *shifted(CNest *c, const char *row, Dim in, int bits) {
    int64_t n;
    if (dim_is(in, 0)) return row;
    if (dim_is_const(in, &n)) return str(c, "(%s >> %lld)", row, (long long)n * bits);
    return str(c, "(%s >> (%s) * %d)", row, emit_dim_str(&c->names, in), bits);
}

/* What each of 16 low bits stands for as codes of type t. */
static Bits *identity(CNest *c, DType t) {
    Bits *table = NEW_ARRAY(c->arena, Bits, CODES);
    for (int i = 0; i < CODES; i++) {
        uint8_t byte = (uint8_t)(i & ((1 << dtype_bits(t)) - 1));
        table[i] = mem_get(t, &byte, 0);
    }
    return table;
}

bool read_codes(CNest *c, const Access *a, int64_t step, Dim first, CVal *out) {
    DType t = c->nest->buf.at[a->cont].type;
    int bits = dtype_bits(t), w = c->lane.width, left = WORD - bits;
    Dim codes = dim_const(c->ctx, WORD / bits), in = dim_mod(c->ctx, first, codes), word;
    if (step != WORD / bits || c->lane.kind != MASK_NONE ||
        !dim_divides(c->ctx, dim_sub(c->ctx, first, in), codes, &word))
        return false;
    check_step(c, "reads", a, first, step);
    const char *at = emit_offset(c, dim_mulc(c->ctx, word, WORD / 8));
    const char *row = str(c, "*(const v%du32u *)(%s + %s)", w, c->buf[a->cont].name, at);
    CVal low = named(c, U32, true, 0, shifted(c, row, in, bits));
    const char *lanes = dtype_is_signed(t)
                            ? str(c, "(v%di32)(%s << %d) >> %d", w, low.text, left, left)
                            : str(c, "%s & %d", low.text, (1 << bits) - 1);
    *out =
        named(c, t, true, 0, str(c, "__builtin_convertvector(%s, %s)", lanes, vector_type(c, t)));
    if (w == CODES && bits <= 4) out->codes = low.text, out->table = identity(c, t);
    return true;
}

static const char *looked_up(CNest *c, const char *codes, const Bits *table) {
    Text out = {.arena = c->arena};
    text_printf(&out, "look_up_%s((%s){", vector_type(c, F32), vector_type(c, F32));
    for (int i = 0; i < CODES; i++)
        text_printf(&out, "%s%s", i ? ", " : "", literal(c, F32, table[i]));
    text_printf(&out, "}, %s)", codes);
    return text_str(&out);
}

void compute_codes(CNest *c, const Val *v, const CVal *args, CVal *r) {
    const char *codes = NULL;
    int arity = prim_row(v->prim)->arity;
    DType t = args[v->prim == P_SELECT ? 1 : 0].type;
    for (int i = 0; i < arity; i++) {
        if (args[i].constant) continue;
        if (!args[i].codes || (codes && codes != args[i].codes)) return;
        codes = args[i].codes;
    }
    if (!codes || v->type == BOOL || t == BOOL) return;
    Bits *table = NEW_ARRAY(c->arena, Bits, CODES), of[3];
    for (int k = 0; k < CODES; k++) {
        for (int i = 0; i < arity; i++)
            of[i] = args[i].constant ? args[i].constant->bits : args[i].table[k];
        table[k] = prim_apply(v->prim, v->type, t, of);
    }
    if (v->type == F32) *r = named(c, F32, true, 0, looked_up(c, codes, table));
    r->codes = codes, r->table = table;
}
