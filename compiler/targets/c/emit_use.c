/* SPDX-License-Identifier: Apache-2.0 */
/* A `use` block as one call of the instruction's helper. The operands are the first elements of
 * what the block's body reads and stores: a group of `a` for all lanes, groups of `b` for each
 * lane, the row `c`. Lanes that are off get zeros of `b`, which leave `c` as it
 * is, but not where `a` is infinite: where floats are added these lanes are put back.
 *
 * Blocks of one step inside a block of Instruction.pairs stand twice: products are added in pairs
 * if the groups of `b`, which are loaded first, allow it. */
#include "c_nest.h"

static const Access *operand(const Body *b, int val) {
    const Val *v = &b->val.at[body_unconverted(b, val)];
    return v->kind == VAL_READ ? &v->read : NULL;
}

/* Is the first operand the row's `a`? It has no lanes, or is known by its type. */
static bool stands_first(const CNest *c, const Used *u, const CInstruction *row) {
    if (row && row->row.each) return c->nest->buf.at[u->a->cont].type == row->row.a;
    for (int k = 0; k < u->a->rank; k++)
        if (dim_uses(u->a->at[k], u->lanes->var)) return false;
    return true;
}

Used used_of(const CNest *c, const Stmt *s) {
    Used u = {.group = s->body.at[0]};
    u.lanes = u.group->body.at[0];
    const Stmt *body = u.lanes->body.at[0];
    const Val *v = &body->code.val.at[body->store.at[0].val];
    u.c = &body->store.at[0].to;
    u.a = operand(&body->code, v->arg[0]);
    u.b = operand(&body->code, v->arg[1]);
    if (!u.a || !u.b) BUG("a block for \"%s\" holds something else", s->use);
    if (!stands_first(c, &u, target_c_instruction(s->use))) {
        const Access *t = u.a;
        u.a = u.b, u.b = t;
    }
    return u;
}

/* A load that stands in reach, or a new one. `kind` tells operands from ordinary rows. */
static const char *loaded(CNest *c, const Access *a, Dim flat, int kind, const char *type,
                          const char *text) {
    int epoch = c->epoch[c->nest->buf.at[a->cont].kind != BUF_MEMORY];
    for (int i = c->loaded.n - 1; i >= c->loaded_from; i--) {
        const Loaded *l = &c->loaded.at[i];
        if (l->buf == a->cont && l->flat == flat && l->epoch == epoch && l->lanes == kind &&
            l->mask == c->lane.count)
            return l->val.text;
    }
    CVal v = {.type = I32, .vector = true, .text = str(c, "x%d", c->fresh++)};
    put_line(c, "const %s %s = %s;", type, v.text, text);
    vec_push(c->arena, &c->loaded,
             (Loaded){a->cont, kind, epoch, c->scope, flat, c->lane.count, v});
    return v.text;
}

/* The row of sums: a register, or where the number of rows is not known, of an array. */
static const char *sums_of(CNest *c, const Instruction *row, const Access *a) {
    int element;
    if (c->buf[a->cont].kind == BUF_REG) return reg_name(c, a, &element);
    return str(c, "*(v%d%su *)(%s + %s)", row->lanes, scalar_type(row->c), c->buf[a->cont].name,
               emit_dim_str(&c->names, at_lane(c, access_flat(c, a), 0)));
}

/* Where the marks of a vector's groups at `rows` begin; NULL: it has none of its own. */
static Dim marks_of(CNest *c, const Access *a, Dim rows) {
    const Buf *buf = &c->nest->buf.at[a->cont];
    const Layout *layout = nest_layout(c->nest, c->flow, a->cont);
    Dim per = dim_const(c->ctx, MARKED_BYTES), bytes = dim_const(c->ctx, c->lane.width * 4), q;
    if (!layout || !layout->marks) return NULL;
    if (!dim_divides(c->ctx, rows, c->lane.width * 4 < MARKED_BYTES ? bytes : per, &q)) return NULL;
    bytes = dim_product(c->ctx, buf->box, buf->rank);
    return dim_add(c->ctx, bytes, dim_div(c->ctx, rows, per));
}

/* When the sums of neighbours in this group of b are within bounds: none of its marks is set. */
static void ask_group(CNest *c, const Access *a, Dim rows, const char *b) {
    int w = c->lane.width;
    Dim first = marks_of(c, a, rows);
    if (!first) text_printf(&c->sums, "%ssums_v%di32(%s)", c->sums.n ? " | " : "", w, b);
    for (int i = 0; first && (i == 0 || i * MARKED_BYTES < w * 4); i++)
        text_printf(&c->marks, "%s%s[%s]", c->marks.n ? " | " : "", c->buf[a->cont].name,
                    emit_dim_str(&c->names, dim_addc(c->ctx, first, i)));
}

static void emit_pairs(CNest *c, const Stmt *s, int lanes) {
    c->uses = USE_GROUPS, c->sums = c->marks = (Text){.arena = c->arena};
    emit_stmts(c, &s->body);
    const char *marks = c->marks.n ? str(c, "!(%s)", text_str(&c->marks)) : "";
    const char *sums = c->sums.n ? str(c, "within_v%di32(%s)", lanes, text_str(&c->sums)) : "";
    put_line(c, "if (__builtin_expect(%s%s%s, 1)) {", marks, *marks && *sums ? " && " : "", sums);
    open_scope(c);
    c->uses = USE_PAIRS;
    emit_stmts(c, &s->body);
    close_scope(c);
    put_line(c, "else {");
    open_scope(c);
    c->uses = USE_WHOLE;
    emit_stmts(c, &s->body);
    close_scope(c);
}

/* The groups of b; in USE_GROUPS they are asked about when they are loaded. */
static const char *groups_of(CNest *c, const CInstruction *row, const Used *u) {
    int w = row->row.lanes, known = c->loaded.n;
    const char *type = str(c, "v%di32", w), *name = c->buf[u->b->cont].name;
    Dim rows = at_lane(c, access_flat(c, u->b), 0);
    const char *offset = emit_offset(c, rows);
    bool whole = c->lane.kind == MASK_NONE;
    const char *lanes = whole ? str(c, "%d", w) : c->lane.count;
    check_span(c, "reads", u->b, offset, str(c, "%s * %d", lanes, row->row.group));
    int bits = dtype_bits(row->row.b);
    const char *first = bits < 8 ? str(c, "%s + (%s) / %d", name, offset, 8 / bits)
                                 : str(c, "%s + %s", name, offset);
    const char *load = whole ? str(c, "%s_%s(%s)", row->load_b, type, first)
                             : str(c, "%sn_%s(%s, %s)", row->load_b, type, first, c->lane.count);
    const char *b = loaded(c, u->b, rows, -2, type, load);
    if (c->uses == USE_GROUPS && c->loaded.n > known) ask_group(c, u->b, rows, b);
    return b;
}

void emit_use(CNest *c, const Stmt *s) {
    const CInstruction *pairs = target_c_pairs(s->use), *row = target_c_instruction(s->use);
    if (pairs) emit_pairs(c, s, pairs->row.lanes);
    if (pairs || emit_matrix(c, s)) return;
    if (!row) BUG("no instruction \"%s\"", s->use);
    Used u = used_of(c, s);
    int mark = c->names.at.n, w = row->row.lanes;
    Dim zero = dim_const(c->ctx, 0);
    Dim last = dim_addc(c->ctx, u.group->extent, -1);
    names_const(&c->names, u.group->var, row->row.backward ? row->row.group - 1 : 0, zero, last);
    open_lanes(c, u.lanes);
    Dim at = access_flat(c, u.a);
    if (row->row.each) at = at_lane(c, at, 0);
    const char *from = emit_offset(c, at);
    const char *group = str(c, "%d", row->row.each ? w * row->row.group : row->row.group);
    const char *b = groups_of(c, row, &u);
    if (c->uses == USE_GROUPS) {
        close_lanes(c);
        names_pop(&c->names, mark);
        return;
    }
    check_span(c, "reads", u.a, from, group);
    const char *first = str(c, "%s + %s", c->buf[u.a->cont].name, from);
    const char *type = str(c, "v%di32", w);
    const char *load = str(c, "%s_%s(%s)", row->load_a, type, first);
    /* Four bytes of a group stand in every lane, eight in one number. */
    const char *a = loaded(c, u.a, at, -1, row->row.group > 4 ? "i64" : type, load);
    const char *to = sums_of(c, &row->row, u.c);
    const char *multiply = c->uses == USE_PAIRS ? "dot4pairs" : row->multiply;
    const char *sum = str(c, "%s_%s(%s, %s, %s)", multiply, type, to, a, b);
    if (c->lane.kind != MASK_NONE && row->row.backward)
        sum = str(c, "sel_v%df32(prefix_%s(%s), %s, %s)", w, type, c->lane.count, sum, to);
    put_line(c, "%s = %s;", to, sum);
    close_lanes(c);
    names_pop(&c->names, mark);
}
