/* SPDX-License-Identifier: Apache-2.0 */
/* Moving a block's columns between tensors and the column engine. */
#include "flow_eval_map.h"

#include <string.h>

/* ---- columns -------------------------------------------------------------------------------- */

int column_bytes(DType t) {
    int bits = dtype_bits(t);
    return bits < 8 ? 1 : bits / 8;
}

Bits column_get(Column c, int i) {
    int bytes = column_bytes(c.type);
    Bits bits = 0;
    memcpy(&bits, (char *)c.at + (size_t)bytes * (size_t)i, (size_t)(bytes < 8 ? bytes : 8));
    return bits;
}

void column_set(Column c, int i, Bits bits) {
    int bytes = column_bytes(c.type);
    memcpy((char *)c.at + (size_t)bytes * (size_t)i, &bits, (size_t)(bytes < 8 ? bytes : 8));
}

void column_i64(Column from, int n, int64_t *out) {
    if (from.type == I64) {
        memcpy(out, from.at, (size_t)n * 8);
        return;
    }
    if (from.type == I32) {
        for (int j = 0; j < n; j++) out[j] = ((const int32_t *)from.at)[j];
        return;
    }
    for (int j = 0; j < n; j++) out[j] = bits_to_int(from.type, column_get(from, j));
}

/* ---- copying -------------------------------------------------------------------------------- */

/* Elements of T bytes at from[offset[j]] (or j*step) to out[j]. */
#define GATHER(T)                                                                                  \
    do {                                                                                           \
        T *to = out;                                                                               \
        const T *at = (const T *)spot->data + base;                                                \
        if (spot->step == 0)                                                                       \
            for (int j = 0; j < n; j++) to[j] = *at;                                               \
        else if (spot->step != INT64_MIN)                                                          \
            for (int j = 0; j < n; j++) to[j] = at[j * spot->step];                                \
        else                                                                                       \
            for (int j = 0; j < n; j++) to[j] = at[spot->offset[j]];                               \
    } while (0)

typedef struct Wide {
    uint64_t lo, hi;
} Wide;

static void gather(const Spot *spot, int64_t base, int n, void *out) {
    if (spot->step == 1 && spot->bytes) {
        memcpy(out, spot->data + base * spot->bytes, (size_t)n * (size_t)spot->bytes);
        return;
    }
    switch (spot->bytes) {
    case 1: GATHER(uint8_t); break;
    case 2: GATHER(uint16_t); break;
    case 4: GATHER(uint32_t); break;
    case 8: GATHER(uint64_t); break;
    case 16: GATHER(Wide); break;
    default:
        for (int j = 0; j < n; j++)
            ((uint8_t *)out)[j] = (uint8_t)mem_get(spot->type, spot->data, base + spot->offset[j]);
    }
}

static void get_one(const Spot *spot, int64_t address, void *out, int j) {
    size_t bytes = (size_t)spot->bytes;
    if (bytes)
        memcpy((char *)out + bytes * (size_t)j, spot->data + (int64_t)bytes * address, bytes);
    else
        ((uint8_t *)out)[j] = (uint8_t)mem_get(spot->type, spot->data, address);
}

static void put_one(const Spot *spot, int64_t address, const void *from, int j) {
    size_t bytes = (size_t)spot->bytes;
    if (bytes)
        memcpy(spot->data + (int64_t)bytes * address, (const char *)from + bytes * (size_t)j,
               bytes);
    else
        mem_set(spot->type, spot->data, address, ((const uint8_t *)from)[j]);
}

/* ---- addresses ------------------------------------------------------------------------------ */

static bool block_inside(const Runner *r, const Spot *spot) {
    if (spot->safe) return true;
    for (int k = 0; k < spot->rank; k++) {
        int64_t at = dim_code_value(spot->at[k], r->pos);
        if (at + spot->lo[k] < 0 || at + spot->hi[k] >= spot->dim[k]) return false;
    }
    return true;
}

/* Columns of the body symbols that indices use. */
static void bring_symbols(Runner *r, uint64_t symbols, int n) {
    for (int s = r->g->ndim; s < r->g->nslot; s++) {
        if (!(symbols >> (s - r->g->ndim) & 1)) continue;
        column_i64(body_column(r->g->code, r->frame, r->g->symval[s]), n, r->symbol[s]);
        r->column[s] = r->symbol[s];
    }
}

static void set_fault(Runner *r, const Spot *spot, int dim, int64_t index) {
    if (r->fault.set) return;
    r->fault = (Fault){true, spot->symbols != 0, spot->cont, dim, index, spot->dim[dim]};
}

void access_addresses(Runner *r, const Spot *spot, int n, bool quiet, int64_t *address) {
    int64_t index[COLUMN_MAX];
    DimColumns in = {r->pos, r->column};
    bring_symbols(r, spot->symbols, n);
    for (int j = 0; j < n; j++) address[j] = r->all || r->mask[j] ? 0 : -1;
    for (int k = 0; k < spot->rank; k++) {
        dim_code_column(spot->at[k], &in, n, index);
        for (int j = 0; j < n; j++) {
            if (address[j] < 0) continue;
            if (index[j] < 0 || index[j] >= spot->dim[k]) {
                if (!quiet) set_fault(r, spot, k, index[j]);
                address[j] = -1;
            } else {
                address[j] += index[j] * spot->stride[k];
            }
        }
    }
}

/* ---- reads ---------------------------------------------------------------------------------- */

static void read_careful(Runner *r, const Spot *spot, const Val *v, Column out, int n) {
    int64_t address[COLUMN_MAX];
    access_addresses(r, spot, n, v->has_else, address);
    size_t bytes = (size_t)column_bytes(spot->type);
    if (v->has_else)
        memcpy(out.at, body_column(r->g->code, r->frame, v->arg[0]).at, (size_t)n * bytes);
    else
        memset(out.at, 0, (size_t)n * bytes);
    for (int j = 0; j < n; j++)
        if (address[j] >= 0) get_one(spot, address[j], out.at, j);
}

void access_fill(void *runner, int val, Column out, int n) {
    Runner *r = runner;
    const Group *g = r->g;
    const Val *v = &g->body.val.at[val];
    if (v->kind == VAL_INDEX) {
        DimColumns in = {r->pos, r->column};
        bring_symbols(r, g->index_symbols[val], n);
        dim_code_column(g->index[val], &in, n, out.at);
        return;
    }
    const Spot *spot = g->read[val];
    if (spot->affine && block_inside(r, spot))
        gather(spot, dim_code_value(&spot->address, r->pos), n, out.at);
    else
        read_careful(r, spot, v, out, n);
}

/* ---- stores --------------------------------------------------------------------------------- */

static void store_block(const Runner *r, const Spot *spot, int64_t base, const void *from, int n) {
    if (r->all && spot->step == 1 && spot->bytes) {
        memcpy(spot->data + base * spot->bytes, from, (size_t)n * (size_t)spot->bytes);
        return;
    }
    for (int j = 0; j < n; j++)
        if (r->all || r->mask[j]) put_one(spot, base + spot->offset[j], from, j);
}

void access_store(Runner *r, const Spot *spot, Column from, int n) {
    _Alignas(16) char converted[COLUMN_MAX * 16];
    if (from.type != spot->type) {
        Column to = {spot->type, converted};
        for (int j = 0; j < n; j++)
            column_set(to, j, bits_convert(spot->type, from.type, column_get(from, j), true));
        from = to;
    }
    if (spot->affine && block_inside(r, spot)) {
        store_block(r, spot, dim_code_value(&spot->address, r->pos), from.at, n);
        return;
    }
    int64_t address[COLUMN_MAX];
    access_addresses(r, spot, n, false, address);
    for (int j = 0; j < n; j++)
        if (address[j] >= 0) put_one(spot, address[j], from.at, j);
}

/* ---- what the flow asks of its inputs -------------------------------------------------------- */

/* Elements of integer inputs lie in lo..hi. */
static void check_values(Eval *e, int cont, int64_t lo, int64_t hi) {
    const Cont *c = &e->flow->cont.at[cont];
    int64_t n = tensor_count(&e->cont[cont]);
    for (int64_t i = 0; i < n; i++) {
        int64_t v = bits_to_int(c->type, mem_get(c->type, e->cont[cont].data, i));
        if (v >= lo && v <= hi) continue;
        fail(e->ctx, E_INPUT,
             "input \"%s\": element %lld is %lld, an index out of range: expected %lld..%lld",
             c->name, (long long)i, (long long)v, (long long)lo, (long long)hi);
    }
}

static void check_require(Eval *e, const Require *r) {
    int64_t a = eval_dim(e, r->a), b = r->b ? eval_dim(e, r->b) : 0;
    for (int c = 0; r->index && c < e->flow->cont.n; c++)
        if (e->flow->cont.at[c].kind == CONT_IN && !strcmp(e->flow->cont.at[c].name, r->index))
            check_values(e, c, -a, a - 1);
    if (r->index || a == b || (r->broadcast && (a == 1 || b == 1))) return;
    fail(e->ctx, E_INPUT, "%s is %lld and %s is %lld: node \"%s\" needs them equal%s",
         dim_str(e->ctx, r->a), (long long)a, dim_str(e->ctx, r->b), (long long)b,
         r->from ? r->from : "", r->broadcast ? ", or one of them 1" : "");
}

/* What the flow asks of its inputs. */
void eval_check_asked(Eval *e) {
    for (int i = 0; i < e->flow->require.n; i++) check_require(e, &e->flow->require.at[i]);
    for (int c = 0; c < e->flow->cont.n; c++) {
        const Cont *k = &e->flow->cont.at[c];
        if (k->kind == CONT_IN && k->has_range) check_values(e, c, k->lo, k->hi);
    }
}
