/* SPDX-License-Identifier: Apache-2.0 */
/* Looking over a nest before it is printed: which model symbols it uses (in the order of first use:
 * they become parameters), which buffers are read and written, how wide the rows of a register
 * array are, and whether each of its indices is a number once loops are unrolled. If not, it
 * becomes an array. */
#include "c_nest.h"

/* Walks all accesses; `fixed` says of a symbol whether it is a number at emission. */
typedef struct Scan {
    CNest *c;
    Table *fixed;
    Dim lane;
    int width;
    CKernel *kernel; /* gets the model's symbols in order of first use */
    Table *seen;
} Scan;

typedef struct ScanDim {
    Scan *s;
    bool fixed;
} ScanDim;

static void scan_sym(void *user, Dim sym) {
    ScanDim *d = user;
    Scan *s = d->s;
    if (!table_get(s->fixed, sym)) d->fixed = false;
    if (table_get(s->seen, sym)) return;
    for (int i = 0; i < s->c->nest->symbol.n; i++) {
        if (s->c->nest->symbol.at[i].sym != sym) continue;
        table_put(s->seen, sym, s);
        vec_push(s->kernel->arena, &s->kernel->symbol, sym);
    }
}

/* Notes the symbols of d; true when all of them are numbers at emission. */
static bool scan_dim(Scan *s, Dim d) {
    ScanDim user = {s, true};
    if (d) dim_symbols(d, scan_sym, &user);
    return user.fixed;
}

/* A register's last index that uses the lane: `l`, or a multiple of the width plus l. */
static bool scan_lane_index(const Scan *s, Dim d) {
    Dim coef, rest;
    if (!dim_affine(s->c->ctx, d, &s->lane, 1, &coef, &rest)) return false;
    return dim_is(coef, 1);
}

static void scan_access(Scan *s, const Access *a, bool store) {
    const Buf *b = &s->c->nest->buf.at[a->cont];
    CBuf *cb = &s->c->buf[a->cont];
    if (store)
        cb->written = true;
    else
        cb->read = true;
    for (int k = 0; k < a->rank; k++) {
        bool lane = s->lane && dim_uses(a->at[k], s->lane);
        bool fixed = scan_dim(s, a->at[k]);
        if (b->kind != BUF_REG) continue;
        if (lane && k == a->rank - 1 && scan_lane_index(s, a->at[k])) {
            if (cb->lanes == 0) cb->lanes = s->width;
            if (cb->lanes != s->width) cb->kind = BUF_TILE;
        } else if (!fixed || lane) {
            cb->kind = BUF_TILE;
        }
    }
    for (int k = 0; k < b->rank; k++) scan_dim(s, b->box[k]);
    scan_dim(s, b->base);
}

static void scan_body(Scan *s, const Stmt *stmt) {
    for (int i = 0; i < stmt->code.val.n; i++) {
        const Val *v = &stmt->code.val.at[i];
        if (v->kind == VAL_READ) scan_access(s, &v->read, false);
        if (v->kind == VAL_INDEX) scan_dim(s, v->index);
    }
    for (int i = 0; i < stmt->store.n; i++) scan_access(s, &stmt->store.at[i].to, true);
}

static void scan_stmts(Scan *s, const Stmts *stmts);

static void scan_for(Scan *s, const Stmt *stmt) {
    int64_t extent;
    bool known = dim_is_const(stmt->extent, &extent);
    scan_dim(s, stmt->extent);
    if (stmt->mark == LOOP_VECTOR && s->c->form->vectors) {
        if (!known) BUG("a vector loop of unknown width");
        s->lane = stmt->var;
        s->width = (int)extent;
        if (s->width > s->c->lanes) s->c->lanes = s->width;
    }
    if (known && (stmt->mark == LOOP_UNROLL || stmt->mark == LOOP_VECTOR || extent == 1))
        table_put(s->fixed, stmt->var, s);
    for (int i = 0; i < stmt->guard.n; i++) scan_dim(s, stmt->guard.at[i]);
    scan_stmts(s, &stmt->body);
    s->lane = NULL;
}

static void scan_stmt(Scan *s, const Stmt *stmt) {
    switch (stmt->kind) {
    case STMT_FOR: scan_for(s, stmt); return;
    case STMT_IF:
        for (int i = 0; i < stmt->guard.n; i++) scan_dim(s, stmt->guard.at[i]);
        break;
    case STMT_DECL:
        for (int k = 0; k < s->c->nest->buf.at[stmt->buf].rank; k++)
            scan_dim(s, s->c->nest->buf.at[stmt->buf].box[k]);
        break;
    case STMT_BODY: scan_body(s, stmt); break;
    case STMT_FOLD:
        for (int i = 0; i < stmt->combine->nstate; i++) {
            scan_access(s, &stmt->dst[i], true);
            if (stmt->threads || !s->c->form->vectors) {
                scan_access(s, &stmt->src[i], false);
                continue;
            }
            if (!s->c->buf[stmt->src[i].cont].lanes)
                s->c->buf[stmt->src[i].cont].lanes = stmt->lanes;
            s->c->buf[stmt->src[i].cont].read = true;
        }
        break;
    case STMT_TURN:
        table_put(s->fixed, stmt->var, s);
        scan_access(s, stmt->src, false);
        scan_access(s, stmt->dst, true);
        break;
    case STMT_PREFETCH:
    case STMT_WHILE: scan_access(s, &stmt->at, false); break;
    case STMT_USE:
    case STMT_STEPS:
    case STMT_COMMIT:
    case STMT_WAIT:
    case STMT_SYNC: break;
    }
    scan_stmts(s, &stmt->body);
}

static void scan_stmts(Scan *s, const Stmts *stmts) {
    for (int i = 0; i < stmts->n; i++) scan_stmt(s, stmts->at[i]);
}

void scan_nest(CNest *c, CKernel *kernel) {
    Scan scan = {
        .c = c, .fixed = table_new(c->arena), .seen = table_new(c->arena), .kernel = kernel};
    scan_stmts(&scan, &c->nest->body);
    if (c->nest->alternates) scan_dim(&scan, c->nest->alternates);
}

bool has_barrier(const Stmts *stmts) {
    for (int i = 0; i < stmts->n; i++)
        if (stmts->at[i]->kind == STMT_SYNC || has_barrier(&stmts->at[i]->body)) return true;
    return false;
}
