/* SPDX-License-Identifier: Apache-2.0 */
/* Pass `convert` (when asked for): what contractions multiply is stored in halves, f16 or bf16.
 *
 * Temporaries that a contraction reads change their type: each element is rounded once, where it is
 * written, and widened by all its readers. Weights are rounded in the constant part; inputs, and
 * what regions and calls hold, by a map in front of the contraction. Where the options allow a
 * vendor's library (Machine.library) constants that are added to a contraction's results are stored
 * so too, if these end in halves: it adds to halves nothing else. Nothing else changes: products,
 * sums, norms and softmax are computed in f32, the model's inputs and outputs stay what they are.
 */
#include "passes/recipe.h"
#include "passes/converted.h"

typedef enum { STAYS, IN_PLACE, CONSTANT, BESIDE } How;

typedef struct Converting {
    Editing e;
    DType half;
    Conversions copies;
    How *how;     /* by container */
    int *to;      /* by container: its copy, of constants and of the operands at hand; or -1 */
    bool operand; /* is what is rewritten a contraction? */
    int known;    /* how many containers there were */
    Items front;  /* of the program: copies of constants and inputs */
} Converting;

/* The reads of a product's two factors, where the product makes a matrix of vectors: sums of
 * squares belong to norms. */
static bool multiplies(const Flow *flow, const Map *m, int operand[2]) {
    Contraction r = map_contraction(flow, m);
    bool spreads = false;
    for (int d = 0; r.is && d < m->dim.n; d++)
        spreads = spreads || r.role[d] == ROLE_M || r.role[d] == ROLE_N;
    operand[0] = r.a, operand[1] = r.b;
    return spreads;
}

/* States of a recurrence stay: they are sums. What regions and calls hold keeps its type; a copy of
 * it serves all contractions of a list where nothing is written in between. */
static How how_of(const Converting *c, int cont) {
    const Cont *x = &c->e.flow->cont.at[cont];
    bool held = c->e.uses.held[cont], constant = x->kind == CONT_PARAM || x->kind == CONT_LITERAL;
    if (x->type != F32 || x->kind == CONT_STATE) return STAYS;
    if (constant && !held) return CONSTANT;
    bool plain = x->kind == CONT_TMP && !held;
    for (int i = 0; i < c->e.uses.writers[cont].n; i++) {
        const Map *m = c->e.flow->map.at[c->e.uses.writers[cont].at[i]];
        for (int w = 0; w < m->write.n; w++) plain = plain && m->write.at[w].n == 1;
    }
    if (plain) return IN_PLACE;
    return c->e.uses.writers[cont].n <= 1 ? BESIDE : STAYS;
}

/* The same of what contraction m reads: a state of which blocks of threads multiply many rows,
 * which they do by steps, is written in halves, too. */
static How how_read(const Converting *c, const Machine *machine, const Map *m, int cont) {
    enum { MANY_ROWS = 8 };
    Contraction r = map_contraction(c->e.flow, m);
    bool many = contraction_usual(c->e.flow, m, &r, ROLE_M) > MANY_ROWS;
    if (!machine->block_threads || !many || !converted_written(&c->e, cont)) return how_of(c, cont);
    return c->e.flow->cont.at[cont].type == F32 ? BESIDE : STAYS;
}

/* As chosen, and told. */
static How decide(const Converting *c, const PassEnv *env, int cont, How how) {
    static const char *const what[] = {[IN_PLACE] = "stored",
                                       [CONSTANT] = "stored, constant",
                                       [BESIDE] = "a copy of it for products"};
    const char *half = dtype_name(c->half), *words[] = {"f32", half, NULL};
    const Cont *x = &c->e.flow->cont.at[cont];
    if (how == STAYS || !recipe_decide(env, "convert", x->name, words, 1)) return STAYS;
    Type type = {.kind = TYPE_TENSOR, .dtype = F32, .rank = x->rank, .shape = x->shape};
    if (env->converted)
        text_printf(env->converted, "%s %s %s: %s\n", half, x->name,
                    type_str(c->e.flow->ctx, &type), what[how]);
    return how;
}

static void choose(Converting *c, const PassEnv *env) {
    const Flow *flow = c->e.flow;
    int operand[2];
    bool *seen = NEW_ARRAY(c->e.arena, bool, c->known + 1);
    for (int i = 0; i < flow->map.n; i++) {
        const Map *m = flow->map.at[i];
        for (int k = 0; multiplies(flow, m, operand) && k < 2; k++) {
            int cont = m->body.val.at[operand[k]].read.cont;
            if (!seen[cont])
                c->how[cont] = decide(c, env, cont, how_read(c, env->machine, m, cont));
            seen[cont] = true;
        }
    }
}

/* Does a container of results end in halves, element for element: is it stored so, or read by one
 * map alone, besides constants and halves, whose results do? */
static bool ends_in_halves(const Converting *c, int cont) {
    const Flow *flow = c->e.flow;
    if (c->how[cont] == IN_PLACE) return true;
    if (flow->cont.at[cont].kind != CONT_TMP || c->e.uses.held[cont]) return false;
    if (c->e.uses.readers[cont].n != 1) return false;
    const Map *m = flow->map.at[c->e.uses.readers[cont].at[0]];
    for (int i = 0; i < m->body.val.n; i++) {
        const Val *v = &m->body.val.at[i];
        if (v->kind != VAL_READ || v->read.cont == cont) continue;
        if (flow->cont.at[v->read.cont].kind != CONT_PARAM && c->how[v->read.cont] != IN_PLACE)
            return false;
    }
    return m->write.n == 1 && m->write.at[0].n == 1 && !m->write.at[0].combine &&
           m->write.at[0].to[0].cont != cont && ends_in_halves(c, m->write.at[0].to[0].cont);
}

/* The results of the contraction to which Val v adds a constant; that is `bias`. Or -1. */
static int added_to(const Converting *c, const Map *m, const Val *v, int *bias) {
    int operand[2];
    if (v->kind != VAL_PRIM || v->prim != P_ADD) return -1;
    for (int k = 0; k < 2; k++) {
        const Val *sum = &m->body.val.at[v->arg[k]], *b = &m->body.val.at[v->arg[1 - k]];
        if (sum->kind != VAL_READ || b->kind != VAL_READ) return -1;
        int writer = c->e.uses.writer[sum->read.cont];
        *bias = b->read.cont;
        if (writer >= 0 && multiplies(c->e.flow, c->e.flow->map.at[writer], operand) &&
            how_of(c, *bias) == CONSTANT)
            return sum->read.cont;
    }
    return -1;
}

static void choose_biases(Converting *c, const PassEnv *env) {
    const Flow *flow = c->e.flow;
    for (int i = 0; i < flow->map.n && env->machine->nlibrary; i++) {
        const Map *m = flow->map.at[i];
        for (int v = 0; v < m->body.val.n; v++) {
            int bias, results = added_to(c, m, &m->body.val.at[v], &bias);
            if (results >= 0 && c->how[bias] == STAYS && ends_in_halves(c, results))
                c->how[bias] = decide(c, env, bias, how_of(c, bias));
        }
    }
}

static int read_half(void *user, Body *b, const Val *read) {
    const Converting *c = user;
    int cont = read->read.cont;
    if (cont >= c->known || c->how[cont] == STAYS) return -1;
    if (c->how[cont] == BESIDE && !(c->operand && c->to[cont] >= 0)) return -1;
    int to = c->how[cont] == IN_PLACE ? cont : c->to[cont];
    return converted_read(b, read, to, c->half);
}

/* Values of temporaries that change their type; sums round as they are written. */
static void round_writes(const Converting *c, Map *m) {
    for (int w = 0; w < m->write.n; w++) {
        Write *wr = &m->write.at[w];
        if (wr->combine || c->how[wr->to[0].cont] != IN_PLACE) continue;
        int val = body_cvt(&m->body, c->half, wr->val[0]);
        wr->val = arena_copy(c->e.arena, &val, sizeof val);
    }
}

static int copy_beside(Converting *c, int cont, const Items *items, Items *out) {
    ContKind kind = c->e.flow->cont.at[cont].kind;
    if (kind == CONT_STATE) return converted_state(&c->e, &c->copies, cont, c->half);
    bool given = kind == CONT_IN;
    return converted_copy(&c->e, &c->copies, cont, c->half, given ? NULL : items,
                          given ? &c->front : out);
}

/* An ItemFn. */
static void convert_item(void *user, Item it, const Items *home, Items *out) {
    Converting *c = user;
    Map *m = it.kind == ITEM_MAP ? c->e.flow->map.at[it.map] : NULL;
    int operand[2], cont[2] = {-1, -1};
    c->operand = m && multiplies(c->e.flow, m, operand);
    for (int k = 0; c->operand && k < 2; k++) {
        cont[k] = m->body.val.at[operand[k]].read.cont;
        if (c->how[cont[k]] == BESIDE) c->to[cont[k]] = copy_beside(c, cont[k], home, out);
    }
    if (m) map_rewrite(&c->e, m, NULL, 0, read_half, c);
    if (m) round_writes(c, m);
    for (int k = 0; k < 2; k++)
        if (cont[k] >= 0 && c->how[cont[k]] == BESIDE) c->to[cont[k]] = -1;
    vec_push(c->e.arena, out, it);
}

Flow *pass_convert(Arena *arena, const Flow *flow, const PassEnv *env);
Flow *pass_convert(Arena *arena, const Flow *flow, const PassEnv *env) {
    Converting c = {.e = {.arena = arena, .flow = flow_clone(arena, flow)},
                    .half = env->convert,
                    .known = flow->cont.n};
    if (env->convert != F16 && env->convert != BF16) return c.e.flow;
    Items *body = &c.e.flow->body;
    c.how = NEW_ARRAY(arena, How, c.known + 1);
    c.to = NEW_ARRAY(arena, int, c.known + 1);
    uses_count(&c.e);
    choose(&c, env);
    choose_biases(&c, env);
    for (int i = 0; i < c.known; i++) {
        c.to[i] =
            c.how[i] == CONSTANT ? converted_copy(&c.e, &c.copies, i, c.half, NULL, &c.front) : -1;
        if (c.how[i] == IN_PLACE) c.e.flow->cont.at[i].type = env->convert;
    }
    items_rebuild(c.e.flow, body, convert_item, &c);
    items_insert(c.e.flow, body, 0, &c.front);
    flow_compact(c.e.flow);
    return c.e.flow;
}
