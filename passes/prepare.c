/* SPDX-License-Identifier: Apache-2.0 */
/* Pass `prepare`: with a packing other than build, weights are stored as the model gives them, and
 * what kernels read is made of them when an instance is created, and again when weights are
 * swapped.
 *
 * The constant part (a flow of its own) begins as the maps that `constants` found. Here it gets a
 * copy into its layout for every weight that kernels read in another than the dense one; when
 * weights can be swapped, for every weight, so that a set of weights is one block. The passes
 * behind this one run on the constant part as on any flow. */
#include "passes/prepare.h"

/* ---- a part of a flow ------------------------------------------------------------------------ */

static void note_map(const Map *m, bool *used) {
    for (int v = 0; v < m->body.val.n; v++)
        if (m->body.val.at[v].kind == VAL_READ) used[m->body.val.at[v].read.cont] = true;
    for (int w = 0; w < m->write.n; w++)
        for (int k = 0; k < m->write.at[w].n; k++) used[m->write.at[w].to[k].cont] = true;
}

static void renumber_map(Map *m, const int *to) {
    for (int v = 0; v < m->body.val.n; v++) {
        Val *val = &m->body.val.at[v];
        if (val->kind == VAL_READ) val->read.cont = to[val->read.cont];
    }
    for (int w = 0; w < m->write.n; w++)
        for (int k = 0; k < m->write.at[w].n; k++) {
            Access *a = (Access *)&m->write.at[w].to[k]; /* of our own clone */
            a->cont = to[a->cont];
        }
}

/* Leaves the containers that maps use. There are no calls and regions here. */
static void drop_unused(Flow *f) {
    bool *used = NEW_ARRAY(f->arena, bool, f->cont.n + 1);
    int *to = NEW_ARRAY(f->arena, int, f->cont.n + 1), n = 0;
    for (int m = 0; m < f->map.n; m++) note_map(f->map.at[m], used);
    for (int c = 0; c < f->cont.n; c++) {
        to[c] = n;
        if (used[c]) f->cont.at[n++] = f->cont.at[c];
    }
    f->cont.n = n;
    for (int m = 0; m < f->map.n; m++) renumber_map(f->map.at[m], to);
}

Flow *constant_part(Arena *arena, const Flow *flow, const int *maps, int n) {
    Flow *part = flow_clone(arena, flow);
    part->name = internf(flow->ctx, "%s.prepare", flow->name);
    part->body = (Items){0};
    part->symbol.n = part->require.n = 0;
    for (int i = 0; i < n; i++) {
        Item item = {.kind = ITEM_MAP, .map = maps[i], .cond = -1};
        vec_push(arena, &part->body, item);
        const Map *m = part->map.at[maps[i]];
        for (int w = 0; w < m->write.n; w++)
            for (int k = 0; k < m->write.at[w].n; k++)
                part->cont.at[m->write.at[w].to[k].cont].kind = CONT_OUT;
    }
    flow_compact(part);
    drop_unused(part);
    return part;
}

/* ---- the pass -------------------------------------------------------------------------------- */

static int find(const Flow *f, const char *name) {
    for (int i = 0; i < f->cont.n; i++)
        if (f->cont.at[i].name == name) return i;
    return -1;
}

static void mark_items(const Flow *f, const Items *items, bool *used) {
    for (int i = 0; i < items->n; i++) {
        const Item *it = &items->at[i];
        if (it->kind == ITEM_MAP) note_map(f->map.at[it->map], used);
        for (int k = 0; it->kind == ITEM_CALL && k < it->call->nin; k++)
            if (it->call->in[k] >= 0) used[it->call->in[k]] = true;
        if ((it->kind == ITEM_LOOP || it->kind == ITEM_IF) && it->cond >= 0) used[it->cond] = true;
        for (int k = 0; k < it->carry.n; k++)
            used[it->carry.at[k].init] = used[it->carry.at[k].next] = true;
        mark_items(f, &it->body, used);
        mark_items(f, &it->other, used);
    }
}

int constant_part_weight(Flow *part, const Cont *c) {
    const char *name = c->from ? c->from : c->name;
    int known = find(part, name);
    if (known >= 0 && part->cont.at[known].kind == CONT_PARAM &&
        part->cont.at[known].data == c->data && part->cont.at[known].unseen == c->unseen)
        return known;
    int raw = flow_cont(part, name, CONT_PARAM, c->type, c->shape, c->rank);
    part->cont.at[raw].from = name;
    part->cont.at[raw].data = c->data;
    part->cont.at[raw].unseen = c->unseen;
    part->cont.at[raw].data_bytes = c->data_bytes;
    return raw;
}

/* The index of a dim of `from` whose elements several dims of the copy run through, from dim *k on.
 */
static Dim merged_index(Flow *part, Dim extent, const Cont *c, const Dim *at, int *k) {
    Dim index = dim_const(part->ctx, 0), run = dim_const(part->ctx, 1);
    int first = *k;
    while (*k < c->rank && (run != extent || *k == first)) {
        index = dim_add(part->ctx, dim_mul(part->ctx, index, c->shape[*k]), at[*k]);
        run = dim_mul(part->ctx, run, c->shape[(*k)++]);
    }
    if (run != extent) BUG("weight \"%s\" is seen in a shape that is not its own", c->name);
    return index;
}

/* Copies the elements in order; dims of the copy may be parts of dims of the source. */
static void copy_map(Flow *part, int from, int to) {
    Dim at[RANK_MAX], source[RANK_MAX];
    Map *m = flow_map(part, &part->body, internf(part->ctx, "pack.%s", part->cont.at[to].name),
                      part->cont.at[to].from);
    const Cont *c = &part->cont.at[to], *x = &part->cont.at[from];
    int k = 0;
    for (int d = 0; d < c->rank; d++) at[d] = map_dim(part, m, "i", c->shape[d]);
    for (int d = 0; d < x->rank; d++) {
        bool same = x->rank == c->rank;
        source[d] = same ? at[d] : merged_index(part, x->shape[d], c, at, &k);
    }
    map_write(part, m, to, at, map_read(part, m, from, source), NULL);
}

static const char *packed_name(const Flow *flow, const Flow *part, const char *name) {
    const char *packed = internf(flow->ctx, "%s.packed", name);
    for (int n = 1; find(flow, packed) >= 0 || find(part, packed) >= 0; n++)
        packed = internf(flow->ctx, "%s.packed%d", name, n);
    return packed;
}

/* Makes the part give parameter c of the flow. */
static void prepare_one(Flow *flow, Flow *part, Cont *c) {
    int made = find(part, c->name), source = made;
    bool whole = made >= 0 && part->cont.at[made].kind == CONT_OUT;
    if (whole && part->cont.at[made].rank == c->rank) {
        part->cont.at[made].layout = c->layout;
        return;
    }
    if (!whole) made = c->from ? find(part, c->from) : -1;
    source =
        made >= 0 && part->cont.at[made].kind == CONT_OUT ? made : constant_part_weight(part, c);
    if (c->layout && c->layout->has_fill && c->layout->fill)
        fail(flow->ctx, E_UNSUPPORTED,
             "weight \"%s\" is stored with a margin that is not zero, which only packing \"build\" "
             "can make",
             c->name);
    c->name = packed_name(flow, part, c->name);
    int to = flow_cont(part, c->name, CONT_OUT, c->type, c->shape, c->rank);
    part->cont.at[to].layout = c->layout;
    part->cont.at[to].from = c->from;
    copy_map(part, source, to);
    c->data = c->unseen = NULL;
    c->data_bytes = 0;
}

static bool is_made(const Flow *part, const Cont *c) {
    int k = find(part, c->name);
    return k >= 0 && part->cont.at[k].kind == CONT_OUT;
}

static bool is_empty(const Cont *c) {
    for (int k = 0; k < c->rank; k++)
        if (dim_is(c->shape[k], 0)) return true;
    return false;
}

/* What `constants` made and nobody reads any more. */
static void drop_unread(Flow *part, const Flow *flow, const bool *used) {
    for (int i = 0; i < part->cont.n; i++) {
        int k = find(flow, part->cont.at[i].name);
        if (part->cont.at[i].kind == CONT_OUT && (k < 0 || !used[k]))
            part->cont.at[i].kind = CONT_TMP;
    }
}

Flow *pass_prepare(Arena *arena, const Flow *flow, const PassEnv *env);
Flow *pass_prepare(Arena *arena, const Flow *flow, const PassEnv *env) {
    Flow *f = flow_clone(arena, flow);
    if (env->packing == PACK_BUILD) return f;
    Flow *part = f->prepare ? flow_clone(arena, f->prepare)
                            : flow_new(arena, internf(f->ctx, "%s.prepare", f->name));
    bool *used = NEW_ARRAY(arena, bool, f->cont.n + 1);
    mark_items(f, &f->body, used);
    for (int i = 0; i < f->cont.n; i++) {
        Cont *c = &f->cont.at[i];
        if (!used[i] || c->kind != CONT_PARAM || dtype_class(c->type) == CLASS_OBJECT ||
            is_empty(c))
            continue;
        if (c->layout || !c->data || is_made(part, c)) prepare_one(f, part, c);
    }
    drop_unread(part, f, used);
    drop_unused(part);
    f->prepare = part->map.n ? part : NULL;
    return f;
}
