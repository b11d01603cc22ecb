/* SPDX-License-Identifier: Apache-2.0 */
/* A `use` block as one call of the instruction's helper. The operands are the first elements of
 * what the block's body reads and stores: a group of `a` for all lanes, groups of `b` for each
 * lane, the row `c`. Lanes that are off get zeros of `b`, which leave `c` as it
 * is, but not where `a` is infinite: where floats are added these lanes are put back. */
#include "c_nest.h"

static const Access *operand(const Body *b, int val) {
    const Val *v = &b->val.at[body_unconverted(b, val)];
    return v->kind == VAL_READ ? &v->read : NULL;
}

Used used_of(const Stmt *s) {
    Used u = {.group = s->body.at[0]};
    u.lanes = u.group->body.at[0];
    const Stmt *body = u.lanes->body.at[0];
    const Val *v = &body->code.val.at[body->store.at[0].val];
    u.c = &body->store.at[0].to;
    u.a = operand(&body->code, v->arg[0]);
    u.b = operand(&body->code, v->arg[1]);
    if (!u.a || !u.b) BUG("a block for \"%s\" holds something else", s->use);
    for (int k = 0; k < u.a->rank; k++)
        if (dim_uses(u.a->at[k], u.lanes->var)) {
            const Access *t = u.a;
            u.a = u.b, u.b = t;
            break;
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

void emit_use(CNest *c, const Stmt *s) {
    if (emit_matrix(c, s)) return;
    const CInstruction *row = target_c_instruction(s->use);
    if (!row) BUG("no instruction \"%s\"", s->use);
    Used u = used_of(s);
    int mark = c->names.at.n, w = row->row.lanes;
    Dim zero = dim_const(c->ctx, 0);
    Dim last = dim_addc(c->ctx, u.group->extent, -1);
    names_const(&c->names, u.group->var, row->row.backward ? row->row.group - 1 : 0, zero, last);
    open_lanes(c, u.lanes);
    Dim at = access_flat(c, u.a), rows = at_lane(c, access_flat(c, u.b), 0);
    const char *group = str(c, "%d", row->row.group), *from = emit_dim_str(&c->names, at);
    check_span(c, "reads", u.a, from, group);
    const char *first = str(c, "%s + %s", c->buf[u.a->cont].name, from);
    const char *type = str(c, "v%di32", w);
    const char *a = loaded(c, u.a, at, -1, type, str(c, "%s_%s(%s)", row->load_a, type, first));
    const char *name = c->buf[u.b->cont].name, *offset = emit_dim_str(&c->names, rows);
    const char *lanes = c->lane.kind == MASK_NONE ? str(c, "%d", w) : c->lane.count;
    check_span(c, "reads", u.b, offset, str(c, "%s * %s", lanes, group));
    const char *load =
        c->lane.kind == MASK_NONE
            ? str(c, "%s_%s(%s + %s)", row->load_b, type, name, offset)
            : str(c, "%sn_%s(%s + %s, %s)", row->load_b, type, name, offset, c->lane.count);
    const char *b = loaded(c, u.b, rows, -2, type, load);
    const char *to = sums_of(c, &row->row, u.c);
    const char *sum = str(c, "%s_%s(%s, %s, %s)", row->multiply, type, to, a, b);
    if (c->lane.kind != MASK_NONE && row->row.backward)
        sum = str(c, "sel_v%df32(prefix_%s(%s), %s, %s)", w, type, c->lane.count, sum, to);
    put_line(c, "%s = %s;", to, sum);
    close_lanes(c);
    names_pop(&c->names, mark);
}
