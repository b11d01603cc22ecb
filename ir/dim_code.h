/* SPDX-License-Identifier: Apache-2.0 */
/* Dims compiled for the evaluators: numbers for the symbols that are bound, slots for those that
 * run.
 *
 * A DimCode is constant + sum coef*slot + sum of products; most indices have no products and are
 * `affine`. Values are int64 and wrap; x/0 and x mod 0 are 0. */
#ifndef WEIR_IR_DIM_CODE_H
#define WEIR_IR_DIM_CODE_H

#include "dim.h"

typedef struct DimCode DimCode;
typedef struct DimLinear {
    int slot;
    int64_t coef;
} DimLinear;
typedef struct DimFactor {
    AtomKind kind;
    int slot;             /* ATOM_SYM */
    const DimCode *a, *b; /* the others */
} DimFactor;
typedef struct DimProduct {
    int64_t coef;
    int nfactor;
    const DimFactor *factor;
} DimProduct;
struct DimCode {
    int64_t constant;
    int nlinear, nproduct;
    const DimLinear *linear;
    const DimProduct *product;
};

/* Says what a symbol is: true and either *slot >= 0, or *slot = -1 and its *value. False: unbound.
 */
typedef bool DimSlotFn(void *user, Dim sym, int *slot, int64_t *value);
/* NULL when a symbol is unbound: it is put into *unbound. */
const DimCode *dim_compile(Arena *arena, Dim d, DimSlotFn *slot, void *user, Dim *unbound);
static inline bool dim_code_affine(const DimCode *code) {
    return code->nproduct == 0;
}
int64_t dim_code_coef(const DimCode *code, int slot); /* of an affine code */
bool dim_code_uses(const DimCode *code, int slot);
int64_t dim_code_value(const DimCode *code, const int64_t *slots);

/* Slot s at point j is base[s] + column[s][j]; a NULL column is 0. */
typedef struct DimColumns {
    const int64_t *base;
    const int64_t *const *column;
} DimColumns;
enum { DIM_COLUMN_MAX = 1024 };
void dim_code_column(const DimCode *code, const DimColumns *in, int n, int64_t *out);

#endif
