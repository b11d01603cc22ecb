/* SPDX-License-Identifier: Apache-2.0 */
/* Unrolled iterations whose lanes are stored apart while the iterations lie side by side: a
 * transpose. The rows that the iterations compute are turned in registers, so that rows are stored
 * as well and every line of memory is touched once, not once for each lane. So are rows whose lanes
 * are stored in words of several side by side, word by word. Few rows that fill what lies between
 * their lanes are stored in turns, as one row. Where iterations have lanes for several vectors, all
 * iterations' first vectors are a block, then their second ones. */
#include <string.h>

#include "c_nest.h"

enum { INTERLEAVED = 4 }; /* rows at most whose lanes are stored in turns */

typedef struct Block {
    const Stmt *loop, *lanes, *body;
    int n, width;
    int before;      /* statements of an iteration in front of the lanes */
    int word;        /* so many lanes of a row are stored side by side */
    Dim first, step; /* where the first word of a row is stored; from one word to the next */
} Block;

/* Iterations written out. */
static bool unrolled(CNest *c, const Stmt *s, int64_t *n) {
    return s->kind == STMT_FOR && s->mark == LOOP_UNROLL && !s->guard.n && s->body.n &&
           dim_is_const(names_subst(&c->names, s->extent), n);
}

/* The block of loop s whose lanes are these. */
static bool find_block(CNest *c, const Stmt *s, const Stmt *lanes, Block *out) {
    int64_t n, width;
    if (!unrolled(c, s, &n)) return false;
    if (lanes->kind != STMT_FOR || lanes->mark != LOOP_VECTOR || lanes->body.n != 1) return false;
    const Stmt *body = lanes->body.at[0];
    if (body->kind != STMT_BODY || body->store.n != 1 || !prefix_lanes(c, lanes)) return false;
    if (!dim_is_const(lanes->extent, &width) || n < 2 || n > width) return false;
    const Access *to = &body->store.at[0].to;
    for (int v = 0; v < body->code.val.n; v++) {
        const Val *val = &body->code.val.at[v];
        if (val->kind == VAL_READ && val->read.cont == to->cont) return false;
    }
    for (int i = 0; i < lanes->guard.n; i++)
        if (dim_uses(lanes->guard.at[i], s->var)) return false;
    *out = (Block){s, lanes, body, (int)n, (int)width, 0, 1, NULL, NULL};
    return true;
}

static void bind(CNest *c, const Block *b, int i) {
    names_const(&c->names, b->loop->var, i, dim_const(c->ctx, 0), dim_const(c->ctx, b->n - 1));
}

/* Do iterations store side by side what their lanes store apart? */
static bool lies_turned(CNest *c, Block *b) {
    CLanes outside = c->lane;
    int mark = c->names.at.n;
    Dim step = NULL, first_step = NULL, rest, first = NULL;
    bool good = true;
    c->lane = (CLanes){.var = b->lanes->var, .width = b->width};
    names_var(&c->names, b->lanes->var, "lane", dim_const(c->ctx, 0),
              dim_const(c->ctx, b->width - 1));
    for (int i = 0; good && i < b->n; i++) {
        int inner = c->names.at.n;
        bind(c, b, i);
        good = row_place(c, &b->body->store.at[0].to, &step, &rest);
        names_pop(&c->names, inner);
        if (!good) break;
        if (i == 0) first = rest, first_step = step;
        good = step == first_step && !dim_is(step, 1) && rest == dim_addc(c->ctx, first, i);
    }
    c->lane = outside;
    names_pop(&c->names, mark);
    b->first = first, b->step = first_step;
    return good;
}

/* Where iteration i stores lane l. */
static Dim place_of(CNest *c, const Block *b, int i, int l) {
    int mark = c->names.at.n;
    bind(c, b, i);
    names_const(&c->names, b->lanes->var, l, dim_const(c->ctx, 0), dim_const(c->ctx, b->width - 1));
    Dim at = stored_at(c, &b->body->store.at[0].to);
    names_pop(&c->names, mark);
    return at;
}

/* Do iterations store side by side words that a row stores apart, as many as it has of them? */
static bool lies_in_words(CNest *c, Block *b) {
    b->word = b->width / b->n;
    if (b->word < 2 || b->word * b->n != b->width || b->lanes->guard.n) return false;
    b->first = place_of(c, b, 0, 0);
    if (!b->first) return false;
    b->step = dim_sub(c->ctx, place_of(c, b, 0, b->word), b->first);
    for (int i = 0; i < b->n; i++)
        for (int l = 0; l < b->width; l++) {
            Dim word = dim_add(c->ctx, b->first, dim_mulc(c->ctx, b->step, l / b->word));
            if (place_of(c, b, i, l) != dim_addc(c->ctx, word, i * b->word + l % b->word))
                return false;
        }
    return !dim_is(b->step, b->word);
}

/* Word l of row i becomes word i of row l: for each bit, rows that differ in it swap the words that
 * differ in it. */
static void turn(CNest *c, const char **row, const Block *b, const char *type) {
    int width = b->width / b->word;
    for (int bit = width / 2; bit; bit /= 2)
        for (int i = 0; i < width; i++) {
            if (i & bit) continue;
            const char *even = row[i], *odd = row[i + bit];
            for (int half = 0; half < 2; half++) {
                Text lanes = {.arena = c->arena};
                for (int at = 0; at < b->width; at++) {
                    int l = at / b->word;
                    int from = l & bit ? width + l - (half ? 0 : bit) : l + (half ? bit : 0);
                    text_printf(&lanes, ", %d", from * b->word + at % b->word);
                }
                const char *x = str(c, "x%d", c->fresh++);
                put_line(c, "const %s %s = __builtin_shufflevector(%s, %s%s);", type, x, even, odd,
                         text_str(&lanes));
                row[i + half * bit] = x;
            }
        }
}

/* The rows lane by lane, first lanes first: vector k of the result is made from all of them. */
static void interleave(CNest *c, const char **row, const Block *b, const char *type) {
    const char *out[INTERLEAVED];
    for (int k = 0; k < b->n; k++) {
        const char *x = row[0];
        for (int i = 1; i < b->n; i++) {
            Text lanes = {.arena = c->arena};
            for (int l = 0; l < b->width; l++) {
                int at = (k * b->width + l) / b->n, from = (k * b->width + l) % b->n;
                text_printf(&lanes, ", %d",
                            from == i           ? b->width + at
                            : i > 1 && from < i ? l
                            : from < i          ? at
                                                : 0);
            }
            const char *next = str(c, "x%d", c->fresh++);
            put_line(c, "const %s %s = __builtin_shufflevector(%s, %s%s);", type, next, x, row[i],
                     text_str(&lanes));
            x = next;
        }
        out[k] = x;
    }
    memcpy(row, out, sizeof *row * (size_t)b->n);
}

static const char *row_type(CNest *c, const Block *b) {
    CLanes outside = c->lane;
    c->lane.width = b->width;
    const char *type = raw_type(c, c->nest->buf.at[b->body->store.at[0].to.cont].type);
    c->lane = outside;
    return type;
}

/* What iteration i stores, in a variable. What stands in front of the store (values outside of a
 * box) stays in a block. */
static const char *row_of(CNest *c, const Block *b, int i, const char *type) {
    const char *x = str(c, "x%d", c->fresh++);
    Stmts before = b->loop->body;
    int mark = c->names.at.n;
    before.n = b->before;
    put_line(c, "%s %s;", type, x);
    put_line(c, "{");
    open_scope(c);
    bind(c, b, i);
    emit_stmts(c, &before);
    open_lanes(c, b->lanes);
    put_line(c, "%s = %s;", x, emit_row(c, b->body));
    close_lanes(c);
    names_pop(&c->names, mark);
    close_scope(c);
    return x;
}

/* Rows turned, or stored in turns. */
static void emit_block(CNest *c, const Block *b) {
    const Access *to = &b->body->store.at[0].to;
    const char **row = NEW_ARRAY(c->arena, const char *, b->width), *type = row_type(c, b);
    for (int i = 0; i < b->n; i++) row[i] = row_of(c, b, i, type);
    for (int i = b->n; i < b->width; i++) row[i] = row[0];
    int mark = c->names.at.n;
    bind(c, b, 0);
    open_lanes(c, b->lanes);
    if (b->word == 1 && dim_is(b->step, b->n) && b->n <= INTERLEAVED) {
        interleave(c, row, b, type);
        emit_store_dense(c, to, row, b->n);
    } else {
        turn(c, row, b, type);
        CRows rows = {row, b->width / b->word, b->n * b->word, b->first, b->step};
        emit_store_turned(c, to, &rows);
    }
    close_lanes(c);
    names_pop(&c->names, mark);
}

/* Iterations with lanes for several vectors: a block for each vector, which is emitted, or only
 * looked at; false: they are none. */
static bool turned_blocks(CNest *c, const Stmt *s, bool emit) {
    bool good = true;
    for (int i = 0; good && i < s->body.n; i++) {
        const Stmt *part = s->body.at[i];
        int64_t chunks;
        bool several = unrolled(c, part, &chunks) && part->body.n == 1;
        for (int64_t k = 0; good && k < (several ? chunks : 1); k++) {
            int mark = c->names.at.n;
            Block b;
            if (several)
                names_const(&c->names, part->var, k, dim_const(c->ctx, 0),
                            dim_const(c->ctx, chunks - 1));
            good = find_block(c, s, several ? part->body.at[0] : part, &b) && lies_turned(c, &b);
            if (good && emit) emit_block(c, &b);
            names_pop(&c->names, mark);
        }
    }
    return good;
}

bool emit_turned(CNest *c, const Stmt *s) {
    int64_t n;
    Block b;
    if (!unrolled(c, s, &n)) return false;
    if (find_block(c, s, s->body.at[s->body.n - 1], &b) &&
        (lies_turned(c, &b) || lies_in_words(c, &b))) {
        b.before = s->body.n - 1;
        emit_block(c, &b);
        return true;
    }
    return turned_blocks(c, s, false) && turned_blocks(c, s, true);
}
