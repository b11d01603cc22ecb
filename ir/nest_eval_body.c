/* SPDX-License-Identifier: Apache-2.0 */
/* Bodies and folds of a nest that is evaluated: lanes as columns between buffers and the column
 * engine.
 *
 * Every index is checked against its buffer. Inactive lanes read 0, also where their index is
 * outside, and store nothing. With threads, columns are those of all threads of a block, and what a
 * thread reads and stores where others may is told to nest_eval_race.c. */
#include "flow_eval_map.h"
#include "nest_eval.h"

#include <string.h>

/* ---- elements ------------------------------------------------------------------------------- */

static Bits get(const NestCode *c, int buf, int64_t at) {
    const Buf *b = &c->nest->buf.at[buf];
    return mem_get(b->type, c->buf[buf].data, c->buf[buf].base + at);
}

static void put(const NestCode *c, int buf, int64_t at, Bits bits) {
    const Buf *b = &c->nest->buf.at[buf];
    mem_set(b->type, c->buf[buf].data, c->buf[buf].base + at, bits);
}

static _Noreturn void outside(const NestCode *c, const NestAccess *a, int dim, int64_t index) {
    const Buf *b = &c->nest->buf.at[a->buf];
    fail(c->ctx, a->data ? E_RUN : E_VERIFY,
         "index %lld is outside dim %d of \"%s\", which has %lld elements, in nest \"%s\"",
         (long long)index, dim, b->name, (long long)c->buf[a->buf].dim[dim], c->nest->name);
}

/* Address of the first lane and the step to the next, when all lanes are inside. */
static bool even_address(const NestCode *c, const NestAccess *a, int lanes, int64_t *at,
                         int64_t *step) {
    const NestBuf *b = &c->buf[a->buf];
    if (!a->affine) return false;
    *at = *step = 0;
    for (int k = 0; k < a->rank; k++) {
        int64_t first = dim_code_value(a->at[k], c->slot), last = first + a->lane[k] * (lanes - 1);
        if ((uint64_t)first >= (uint64_t)b->dim[k] || (uint64_t)last >= (uint64_t)b->dim[k])
            return false;
        *at = *at * b->dim[k] + first;
        *step = *step * b->dim[k] + a->lane[k];
    }
    return true;
}

/* Of column l. */
static int thread_of(const NestCode *c, int l) {
    return c->threads->first + l / c->threads->lanes;
}

/* By lane; -1: inactive, or (when `quiet`) outside. */
static void addresses(const NestCode *c, const NestAccess *a, int lanes, bool quiet,
                      int64_t *address) {
    const NestBuf *b = &c->buf[a->buf];
    int64_t index[COLUMN_MAX];
    DimColumns in = {c->slot, c->column};
    for (int l = 0; l < lanes; l++) address[l] = c->mask && !c->mask[l] ? -1 : 0;
    for (int k = 0; k < a->rank; k++) {
        dim_code_column(a->at[k], &in, lanes, index);
        for (int l = 0; l < lanes; l++) {
            if (address[l] < 0) continue;
            bool inside = index[l] >= 0 && index[l] < b->dim[k];
            if (!inside && !quiet) outside(c, a, k, index[l]);
            address[l] = inside ? address[l] * b->dim[k] + index[l] : -1;
        }
    }
    for (int l = 0; b->each && l < lanes; l++)
        if (address[l] >= 0) address[l] += b->each * thread_of(c, l);
}

/* Tells what other threads may see. */
static void tell(NestCode *c, const NestStmt *s, int buf, const int64_t *address, int n,
                 bool store) {
    if (!c->threads) return;
    nest_touch(c, s, buf, address, n, store);
    if (c->traffic) nest_count(c, buf, address, n);
}

/* ---- reads ---------------------------------------------------------------------------------- */

typedef struct Run {
    NestCode *c;
    const NestStmt *s;
    int lanes;
} Run;

static void read_even(const NestCode *c, const NestAccess *a, int64_t at, int64_t step, Column out,
                      int n) {
    int bytes = column_bytes(out.type);
    const char *from = c->buf[a->buf].data + (c->buf[a->buf].base + at) * bytes;
    if (dtype_bits(out.type) < 8)
        for (int l = 0; l < n; l++) column_set(out, l, get(c, a->buf, at + step * l));
    else if (step == 1 || n == 1)
        memcpy(out.at, from, (size_t)n * (size_t)bytes);
    else
        for (int l = 0; l < n; l++)
            memcpy((char *)out.at + l * bytes, from + step * l * bytes, (size_t)bytes);
}

static void clear_inactive(const NestCode *c, Column out, int n) {
    for (int l = 0; l < n && c->mask; l++)
        if (!c->mask[l]) column_set(out, l, 0);
}

static void read_lanes(Run *r, int val, const NestAccess *a, Column out, int n) {
    NestCode *c = r->c;
    const Val *v = &r->s->stmt->code.val.at[val];
    int64_t at, step, address[COLUMN_MAX];
    if (even_address(c, a, n, &at, &step)) {
        read_even(c, a, at, step, out, n);
        clear_inactive(c, out, n);
        return;
    }
    addresses(c, a, n, v->has_else, address);
    tell(c, r->s, a->buf, address, n, false);
    if (v->has_else)
        memcpy(out.at, body_column(r->s->code, r->s->frame, v->arg[0]).at,
               (size_t)n * (size_t)column_bytes(out.type));
    else
        memset(out.at, 0, (size_t)n * (size_t)column_bytes(out.type));
    for (int l = 0; l < n; l++)
        if (address[l] >= 0) column_set(out, l, get(c, a->buf, address[l]));
    clear_inactive(c, out, n);
}

/* Values of the body that stand in indices, as far as they are computed. */
static void bring_symbols(Run *r, int before) {
    NestCode *c = r->c;
    for (int i = 0; i < r->s->nsymbol && r->s->symval[i] < before; i++) {
        int slot = r->s->symslot[i];
        if (!c->room[slot]) c->room[slot] = NEW_ARRAY(c->arena, int64_t, COLUMN_MAX);
        column_i64(body_column(r->s->code, r->s->frame, r->s->symval[i]), r->lanes, c->room[slot]);
        c->column[slot] = c->room[slot];
        c->slot[slot] = 0;
    }
}

static void fill(void *user, int val, Column out, int n) {
    Run *r = user;
    if (r->s->nsymbol) bring_symbols(r, val);
    if (r->s->index[val]) {
        DimColumns in = {r->c->slot, r->c->column};
        dim_code_column(r->s->index[val], &in, n, out.at);
    } else {
        read_lanes(r, val, r->s->read[val], out, n);
    }
}

/* ---- stores --------------------------------------------------------------------------------- */

static void store_lanes(Run *r, const NestAccess *a, Column from, int n) {
    NestCode *c = r->c;
    DType type = c->nest->buf.at[a->buf].type;
    int bytes = column_bytes(type);
    int64_t at, step, address[COLUMN_MAX];
    if (from.type != type)
        fail(c->ctx, E_VERIFY, "nest \"%s\" stores %s to \"%s\", which is %s", c->nest->name,
             dtype_name(from.type), c->nest->buf.at[a->buf].name, dtype_name(type));
    if (!c->mask && dtype_bits(type) >= 8 && even_address(c, a, n, &at, &step)) {
        char *to = c->buf[a->buf].data + (c->buf[a->buf].base + at) * bytes;
        if (step == 1 || n == 1)
            memcpy(to, from.at, (size_t)n * (size_t)bytes);
        else
            for (int l = 0; l < n; l++)
                memcpy(to + step * l * bytes, (char *)from.at + l * bytes, (size_t)bytes);
        return;
    }
    addresses(c, a, n, false, address);
    tell(c, r->s, a->buf, address, n, true);
    for (int l = 0; l < n; l++)
        if (address[l] >= 0) put(c, a->buf, address[l], column_get(from, l));
}

void nest_run_body(NestCode *c, const NestStmt *s) {
    Run r = {c, s, c->lanes};
    body_run(s->code, s->frame, c->lanes, fill, &r);
    if (s->nsymbol) bring_symbols(&r, s->stmt->code.val.n);
    for (int i = 0; i < s->stmt->store.n; i++)
        store_lanes(&r, &s->store[i], body_column(s->code, s->frame, s->stmt->store.at[i].val),
                    c->lanes);
    for (int i = 0; i < s->nsymbol; i++) c->column[s->symslot[i]] = NULL;
}

void nest_read_true(NestCode *c, const NestStmt *s, uint8_t *truth) {
    int64_t address[COLUMN_MAX];
    addresses(c, &s->at, c->lanes, false, address);
    tell(c, s, s->at.buf, address, c->lanes, false);
    for (int l = 0; l < c->lanes; l++)
        truth[l] = address[l] >= 0 && get(c, s->at.buf, address[l]) != 0;
}

void nest_run_prefetch(NestCode *c, const NestStmt *s) {
    int64_t address[COLUMN_MAX];
    addresses(c, &s->at, c->lanes, false, address);
}

/* ---- folds ---------------------------------------------------------------------------------- */

typedef struct Fold {
    const Combine *combine;
    const Column *row;
    int half;
} Fold;

static void fill_half(void *user, int val, Column out, int n) {
    const Fold *f = user;
    int k = f->combine->merge.val.at[val].arg[0], bytes = column_bytes(out.type);
    bool right = k >= f->combine->nstate;
    const Column *row = &f->row[right ? k - f->combine->nstate : k];
    memcpy(out.at, (char *)row->at + (right ? f->half * bytes : 0), (size_t)n * (size_t)bytes);
}

/* Lane l takes lane l + W/2, and so on by halves. */
static void fold_halves(const NestStmt *s, const Column *row) {
    const Combine *combine = s->stmt->combine;
    for (int half = s->stmt->lanes / 2; half >= 1; half /= 2) {
        Fold f = {combine, row, half};
        body_run(s->code, s->frame, half, fill_half, &f);
        for (int k = 0; k < combine->nstate; k++)
            memcpy(row[k].at, body_column(s->code, s->frame, combine->merged[k]).at,
                   (size_t)half * (size_t)column_bytes(row[k].type));
    }
}

void nest_run_fold(NestCode *c, const NestStmt *s) {
    const Combine *combine = s->stmt->combine;
    _Alignas(16) char room[COMBINE_STATES][COLUMN_MAX * 8];
    Column row[COMBINE_STATES];
    int lanes = s->stmt->lanes;
    for (int k = 0; k < combine->nstate; k++) {
        int64_t at;
        row[k] = (Column){combine->type[k], room[k]};
        addresses(c, &s->src[k], 1, false, &at);
        const NestBuf *b = &c->buf[s->src[k].buf];
        int64_t last = b->dim[s->src[k].rank - 1];
        if (at % last + lanes > last)
            outside(c, &s->src[k], s->src[k].rank - 1, at % last + lanes - 1);
        for (int l = 0; l < lanes; l++) column_set(row[k], l, get(c, s->src[k].buf, at + l));
    }
    fold_halves(s, row);
    for (int k = 0; k < combine->nstate; k++) {
        int64_t at;
        addresses(c, &s->store[k], 1, false, &at);
        tell(c, s, s->store[k].buf, &at, 1, true);
        put(c, s->store[k].buf, at, column_get(row[k], 0));
    }
}

/* Are all threads of each warp here, or none? Of what goes beyond a warp, all. */
static bool whole_warps(const NestCode *c, int lanes) {
    enum { WARP = 32 };
    for (int l = 0; c->mask && l < c->lanes; l++)
        if (!c->mask[l] != !c->mask[l / WARP * WARP] || (lanes > WARP && !c->mask[l])) return false;
    return true;
}

/* Columns are all threads of the block: each group of neighbours folds its elements and gets the
 * result. */
void nest_fold_threads(NestCode *c, const NestStmt *s) {
    const Combine *combine = s->stmt->combine;
    _Alignas(16) char room[COMBINE_STATES][COLUMN_MAX * 8];
    int64_t address[COLUMN_MAX];
    Column row[COMBINE_STATES];
    int lanes = s->stmt->lanes, n = c->lanes;
    if (n % lanes || !whole_warps(c, lanes))
        fail(c->ctx, E_VERIFY, "not all threads reach \"%s\" of nest \"%s\"",
             nest_stmt_str(c->arena, c->nest, s->stmt), c->nest->name);
    for (int first = 0; first < n; first += lanes) {
        if (c->mask && !c->mask[first]) continue;
        for (int k = 0; k < combine->nstate; k++) {
            row[k] = (Column){combine->type[k], room[k]};
            addresses(c, &s->src[k], n, false, address);
            for (int l = 0; l < lanes; l++)
                column_set(row[k], l, get(c, s->src[k].buf, address[first + l]));
        }
        fold_halves(s, row);
        for (int k = 0; k < combine->nstate; k++) {
            addresses(c, &s->store[k], n, false, address);
            for (int l = 0; l < lanes; l++)
                put(c, s->store[k].buf, address[first + l], column_get(row[k], 0));
        }
    }
}

/* Columns are all threads of the block. */
void nest_turn_threads(NestCode *c, const NestStmt *s) {
    int64_t address[COLUMN_MAX];
    Bits val[TURN_MOST][COLUMN_MAX];
    int lanes = s->stmt->lanes, n = c->lanes, src = s->src->buf, dst = s->store->buf;
    if (c->mask || n % lanes)
        fail(c->ctx, E_VERIFY, "not all threads reach \"%s\" of nest \"%s\"",
             nest_stmt_str(c->arena, c->nest, s->stmt), c->nest->name);
    for (int at = 0; at < lanes; at++) {
        c->slot[s->var] = at;
        addresses(c, s->src, n, false, address);
        for (int t = 0; t < n; t++) val[at][t] = get(c, src, address[t]);
    }
    for (int at = 0; at < lanes; at++) {
        c->slot[s->var] = at;
        addresses(c, s->store, n, false, address);
        for (int t = 0; t < n; t++) put(c, dst, address[t], val[t % lanes][t - t % lanes + at]);
    }
}
