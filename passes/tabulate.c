/* SPDX-License-Identifier: Apache-2.0 */
/* Pass `tabulate`: functions of one 8-bit code are looked up.
 *
 * What element-wise code computes of a single code of 8 bits and rounds to 8 bits again has 256
 * values at most: an activation between quantized layers, with all that decodes and rounds in
 * between. Where a vector of such look-ups costs less than the operations that it replaces, the
 * values are computed here, by what the evaluator runs, and the map reads them at the code. Values
 * that are the codes themselves, moved and held between two bounds (decoded, cut off at 0, rounded
 * with the same scale), are computed so in whole numbers, or not at all. */
#include "passes/access.h"

#include <string.h>

/* Of fewer elements a table is not worth its bytes. */
enum { CODES = 256, ELEMENTS_LEAST = 1024 };

typedef struct Tabulate {
    Arena *arena;
    Flow *flow;
    double least; /* operations that a look-up replaces at least; 0: none is worth it */
    IntVec made;  /* tables so far */
} Tabulate;

static bool is_code(DType t) {
    return dtype_bits(t) == 8 && t != BOOL;
}

/* ---- what depends on one code ---------------------------------------------------------------- */

enum { MANY = -1, NOTHING = -2 }; /* of several values or of other types; of constants alone */

/* By Val the code that it is a function of. A code of several values is one for what comes of it.
 */
static int *codes_of(Arena *arena, const Body *b) {
    int *code = NEW_ARRAY(arena, int, b->val.n + 1);
    for (int v = 0; v < b->val.n; v++) {
        const Val *val = &b->val.at[v];
        code[v] = val->kind == VAL_CONST || val->kind == VAL_PRIM ? NOTHING : MANY;
        for (int k = 0; val->kind == VAL_PRIM && k < val_args(val); k++) {
            int arg = val->arg[k], of = code[arg];
            if (of == MANY && is_code(b->val.at[arg].type)) of = arg;
            if (of == NOTHING || of == code[v]) continue;
            code[v] = code[v] == NOTHING ? of : MANY;
        }
    }
    return code;
}

/* In operations that a processor starts one or two of in each cycle. */
static double prim_cost(Prim p) {
    enum { FUNCTION = 16, QUOTIENT = 4 };
    if (prim_row(p)->defined) return FUNCTION;
    return p == P_DIV || p == P_SQRT ? QUOTIENT : 1;
}

/* Operations from code to v, each once; they are marked. */
static double count_prims(const Body *b, int v, int code, bool *marked) {
    const Val *val = &b->val.at[v];
    if (v == code || marked[v] || val->kind != VAL_PRIM) return 0;
    marked[v] = true;
    double n = prim_cost(val->prim);
    for (int k = 0; k < val_args(val); k++) n += count_prims(b, val->arg[k], code, marked);
    return n;
}

static void all_codes(void *user, int val, Column out, int n) {
    (void)user, (void)val;
    for (int i = 0; i < n; i++) ((uint8_t *)out.at)[i] = (uint8_t)i;
}

/* Val v of body b for each of a code's values, as bytes. */
static const uint8_t *values_of(const Tabulate *t, const Body *b, int v, int code) {
    Body only = {.arena = t->arena};
    for (int i = 0; i <= v; i++) {
        Val val = b->val.at[i];
        if (i == code) val = (Val){.kind = VAL_PARAM, .type = val.type};
        vec_push(t->arena, &only.val, val);
    }
    int root = v;
    body_prune(&only, &root, 1);
    const BodyCode *run = body_compile(t->arena, &only);
    BodyFrame *frame = body_frame(t->arena, run);
    body_run(run, frame, CODES, all_codes, NULL);
    return arena_copy(t->flow->arena, body_column(run, frame, root).at, CODES);
}

/* min(max(code + plus, least), most); of the bounds those that cut off something. */
typedef struct Clamp {
    int plus, least, most;
    bool above, below;
} Clamp;

static int number(DType t, uint8_t byte) {
    return t == I8 ? (int8_t)byte : byte;
}

/* Are the values of type `to`, for each code of type `from`, such numbers? */
static bool is_clamp(DType from, DType to, const uint8_t *values, Clamp *out) {
    int first = from == I8 ? -CODES / 2 : 0, last = first + CODES - 1, plus = 0;
    Clamp c = {.least = number(to, values[(uint8_t)first]),
               .most = number(to, values[(uint8_t)last])};
    bool moves = false;
    for (int x = first; x <= last; x++) {
        int y = number(to, values[(uint8_t)x]);
        if (y > c.least && y < c.most && !moves) moves = true, plus = y - x;
    }
    for (int x = first; moves && x <= last; x++) {
        int y = x + plus < c.least ? c.least : x + plus > c.most ? c.most : x + plus;
        moves = y == number(to, values[(uint8_t)x]);
    }
    c.plus = plus;
    c.above = c.least > first + plus;
    c.below = c.most < last + plus;
    *out = c;
    return moves;
}

/* What a Val becomes. */
typedef struct Choice {
    int code;              /* it is a function of this Val, or MANY: it stays as it is */
    const uint8_t *values; /* for each code; NULL: as `clamp` says */
    Clamp clamp;
} Choice;

/* Is Val v to be made of the code otherwise? */
static bool decide(const Tabulate *t, const Body *b, int v, int code, Choice *out) {
    DType from = b->val.at[code].type, to = b->val.at[v].type;
    Choice c = {.code = code, .values = values_of(t, b, v, code)};
    bool clamped = is_clamp(from, to, c.values, &c.clamp);
    double steps = (c.clamp.plus != 0) + c.clamp.above + c.clamp.below;
    if (steps > 0 || from != to) steps += 2; /* to numbers and back */
    double prims = count_prims(b, v, code, NEW_ARRAY(t->arena, bool, b->val.n));
    if (clamped && steps < prims) c.values = NULL;
    if (c.values && (t->least <= 0 || prims < t->least)) return false;
    *out = c;
    return true;
}

/* From the results back, so that of several roundings in a row the last one is looked up. */
static bool choose(const Tabulate *t, const Map *m, Choice *choice) {
    const Body *b = &m->body;
    const int *code = codes_of(t->arena, b);
    bool *needed = NEW_ARRAY(t->arena, bool, b->val.n + 1), any = false;
    for (int k = 0; k < m->write.at[0].nstate; k++) needed[m->write.at[0].val[k]] = true;
    for (int v = b->val.n - 1; v >= 0; v--) {
        const Val *val = &b->val.at[v];
        choice[v] = (Choice){.code = MANY};
        needed[v] |= val->sym != NULL;
        if (!needed[v]) continue;
        if (val->kind == VAL_PRIM && is_code(val->type) && code[v] >= 0 &&
            decide(t, b, v, code[v], &choice[v])) {
            any = needed[code[v]] = true;
            continue;
        }
        for (int k = 0; k < val_args(val); k++) needed[val->arg[k]] = true;
    }
    return any;
}

/* ---- tables ---------------------------------------------------------------------------------- */

/* The literal container of these values, one for all equal ones. */
static int table_of(Tabulate *t, const Map *m, DType type, const uint8_t *values) {
    Ctx *ctx = t->flow->ctx;
    for (int i = 0; i < t->made.n; i++) {
        const Cont *c = &t->flow->cont.at[t->made.at[i]];
        if (c->type == type && memcmp(c->data, values, CODES) == 0) return t->made.at[i];
    }
    Dim size = dim_const(ctx, CODES);
    const char *name = internf(ctx, "%s.values%d", m->name, t->made.n);
    int cont = flow_cont(t->flow, name, CONT_LITERAL, type, &size, 1);
    t->flow->cont.at[cont].data = values;
    t->flow->cont.at[cont].data_bytes = CODES;
    vec_push(t->arena, &t->made, cont);
    return cont;
}

/* ---- the pass -------------------------------------------------------------------------------- */

/* A read of the table at a code. */
static int look_up(Tabulate *t, Body *b, int table, int code) {
    DType type = b->val.at[code].type;
    int byte = type == U8 ? code : body_prim_as(b, P_BITCAST, U8, code);
    Dim *at = NEW(t->flow->arena, Dim);
    *at = body_symbol(b, body_cvt(b, I64, byte), "code");
    return body_read(b, (Access){table, 1, at}, t->flow->cont.at[table].type);
}

static int clamped(Body *b, const Clamp *c, DType to, int code) {
    if (to == b->val.at[code].type && !c->plus && !c->above && !c->below) return code;
    int x = body_cvt(b, I32, code);
    if (c->plus) x = body_prim2(b, P_ADD, x, body_const(b, I32, c->plus));
    if (c->above) x = body_prim2(b, P_MAX, x, body_const(b, I32, c->least));
    if (c->below) x = body_prim2(b, P_MIN, x, body_const(b, I32, c->most));
    return body_cvt(b, to, x);
}

static void rewrite(Tabulate *t, Map *m, const Choice *choice) {
    Body out = {.arena = t->flow->arena};
    int *map = NEW_ARRAY(t->arena, int, m->body.val.n + 1);
    for (int v = 0; v < m->body.val.n; v++) {
        const Val *val = &m->body.val.at[v];
        const Choice *c = &choice[v];
        if (c->values)
            map[v] = look_up(t, &out, table_of(t, m, val->type, c->values), map[c->code]);
        else if (c->code != MANY)
            map[v] = clamped(&out, &c->clamp, val->type, map[c->code]);
        else
            map[v] = body_copy_val(&out, val, map);
    }
    Write *w = &m->write.at[0];
    int *val = NEW_ARRAY(t->flow->arena, int, w->nstate);
    for (int k = 0; k < w->nstate; k++) val[k] = map[w->val[k]];
    body_prune(&out, val, w->nstate);
    w->val = val;
    m->body = out;
}

static bool is_element_wise(const Map *m) {
    return m->write.n == 1 && !m->write.at[0].combine && !has_seq(m);
}

Flow *pass_tabulate(Arena *arena, const Flow *flow, const PassEnv *env);
Flow *pass_tabulate(Arena *arena, const Flow *flow, const PassEnv *env) {
    Tabulate t = {arena, flow_clone(arena, flow), env->machine->table_prims, {0}};
    for (int i = 0; i < t.flow->map.n; i++) {
        Map *m = t.flow->map.at[i];
        Choice *choice = NEW_ARRAY(arena, Choice, m->body.val.n + 1);
        if (!is_element_wise(m) || map_usual_volume(t.flow, m) < ELEMENTS_LEAST) continue;
        if (choose(&t, m, choice)) rewrite(&t, m, choice);
    }
    return t.flow;
}
