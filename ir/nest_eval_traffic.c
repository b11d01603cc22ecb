/* SPDX-License-Identifier: Apache-2.0 */
/* What the accesses of warps cost: sectors of memory that they touch, banks of shared memory that
 * serve one word after the other.
 *
 * A warp is 32 neighbouring threads; memory comes in sectors of 32 bytes; shared memory has 32
 * banks of 4 bytes. Lanes of a vector loop go together: a thread asks for all of them at once, and
 * so many neighbours as make 128 bytes are served at a time. A step of a warp (`use`) reads its
 * operands as matrices of 8 rows of 16 bytes, which are served together, each row once. */
#include "nest_eval.h"

#include <string.h>

enum { MATRIX_BYTES = 16 };
enum { WARP = 32, SECTOR = 32, BANKS = 32, WORD = 4, PHASE = BANKS * WORD };

/* Sorted, each once. */
typedef struct Units {
    int64_t at[COLUMN_MAX];
    int n;
} Units;

static void add_unit(Units *u, int64_t unit) {
    int k = u->n;
    while (k > 0 && u->at[k - 1] > unit) k--;
    if (k > 0 && u->at[k - 1] == unit) return;
    memmove(&u->at[k + 1], &u->at[k], (size_t)(u->n - k) * sizeof *u->at);
    u->at[k] = unit;
    u->n++;
}

static void count_memory(NestTraffic *t, const int64_t *byte, int n, int bytes) {
    Units sectors = {.n = 0}, elements = {.n = 0};
    for (int l = 0; l < n; l++) {
        if (byte[l] < 0) continue;
        add_unit(&sectors, byte[l] / SECTOR);
        add_unit(&elements, byte[l]);
    }
    if (!sectors.n) return;
    int64_t least = ((int64_t)elements.n * bytes + SECTOR - 1) / SECTOR;
    t->requests++;
    t->sectors += sectors.n;
    t->least += least;
    t->uncoalesced += sectors.n > 2 * least;
}

/* Words of one bank wait for each other. */
static void count_shared(NestTraffic *t, const int64_t *byte, int n) {
    Units words = {.n = 0};
    int bank[BANKS] = {0}, most = 0;
    for (int l = 0; l < n; l++)
        if (byte[l] >= 0) add_unit(&words, byte[l] / WORD);
    for (int k = 0; k < words.n; k++) {
        int *b = &bank[words.at[k] % BANKS];
        if (++*b > most) most = *b;
    }
    if (!most) return;
    t->shared++;
    t->conflicts += most - 1;
}

/* ---- steps of warps --------------------------------------------------------------------------
 */

static int operand_of(NestMatrix *m, int buf) {
    int k = 0;
    while (k < m->noperand && m->buf[k] != buf) k++;
    if (k == m->noperand && k < OPERANDS) m->buf[m->noperand++] = buf;
    return k;
}

static void add_rows(NestCode *c, int buf, const int64_t *byte, int n) {
    NestMatrix *m = c->matrix;
    int k = operand_of(m, buf);
    for (int l = 0; l < n && k < OPERANDS; l++) {
        int warp = (c->threads->first + l / c->threads->lanes) / WARP, i = 0;
        if (byte[l] < 0) continue;
        int64_t row = byte[l] / MATRIX_BYTES, *at = m->row[k][warp];
        while (i < m->n[k][warp] && at[i] != row) i++;
        if (i == m->n[k][warp] && i < MATRIX_MAX) at[m->n[k][warp]++] = row;
    }
}

void nest_matrix_begin(NestCode *c) {
    if (!c->matrix) c->matrix = NEW(c->arena, NestMatrix);
    c->stepping = true;
    c->matrix->noperand = 0;
    memset(c->matrix->n, 0, sizeof c->matrix->n);
}

/* Rows in one group of banks wait for each other. */
void nest_matrix_end(NestCode *c) {
    const NestMatrix *m = c->matrix;
    c->stepping = false;
    for (int k = 0; k < m->noperand; k++)
        for (int w = 0; w < WARPS_MAX; w++)
            for (int first = 0; first < m->n[k][w]; first += MATRIX_ROWS) {
                int group[MATRIX_ROWS] = {0}, most = 0;
                for (int i = first; i < m->n[k][w] && i < first + MATRIX_ROWS; i++) {
                    int *g = &group[m->row[k][w][i] % MATRIX_ROWS];
                    if (++*g > most) most = *g;
                }
                c->traffic->shared++;
                c->traffic->conflicts += most - 1;
            }
}

void nest_count(NestCode *c, int buf, const int64_t *address, int n) {
    const Buf *b = &c->nest->buf.at[buf];
    int lanes = c->threads->lanes, bits = dtype_bits(b->type), bytes = bits < 8 ? 1 : bits / 8;
    int64_t byte[COLUMN_MAX];
    if (b->kind != BUF_SHARED && b->kind != BUF_MEMORY) return;
    for (int l = 0; l < n; l++)
        byte[l] = address[l] < 0 ? -1 : (c->buf[buf].base + address[l]) * bits / 8;
    for (int l = 0; b->swizzled && l < n; l++)
        if (byte[l] >= 0) byte[l] ^= byte[l] / SWIZZLED_ROW % SWIZZLED_ROWS * SWIZZLED_PART;
    if (c->stepping && b->kind == BUF_SHARED) {
        add_rows(c, buf, byte, n);
        return;
    }
    int warp = WARP * lanes, phase = PHASE / (bytes < WORD ? WORD : bytes);
    for (int first = 0; first < n; first += warp) {
        int count = n - first < warp ? n - first : warp;
        if (b->kind == BUF_MEMORY) count_memory(c->traffic, byte + first, count, bytes);
        for (int k = 0; b->kind == BUF_SHARED && k < count; k += phase)
            count_shared(c->traffic, byte + first + k, count - k < phase ? count - k : phase);
    }
}
