/* SPDX-License-Identifier: Apache-2.0 */
/* Compiling Dims to numbers and slots, and running them at a point or over a column. */
#include "dim_code.h"

/* ---- compiling ------------------------------------------------------------------------------ */

typedef struct Compile {
    Arena *arena;
    DimSlotFn *slot;
    void *user;
    Dim unbound;
} Compile;

typedef struct Build {
    int64_t constant;
    VEC(DimLinear) linear;
    VEC(DimProduct) product;
} Build;

static const DimCode *compile(Compile *c, Dim d);

static int64_t floor_div(int64_t a, int64_t b) {
    if (b == 0) return 0;
    if (b == -1) return (int64_t)(0 - (uint64_t)a);
    return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

static int64_t floor_mod(int64_t a, int64_t b) {
    if (b == 0 || b == -1) return 0;
    int64_t r = a % b;
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

static int64_t combine(AtomKind kind, int64_t a, int64_t b) {
    switch (kind) {
    case ATOM_DIV: return floor_div(a, b);
    case ATOM_MOD: return floor_mod(a, b);
    case ATOM_MIN: return a < b ? a : b;
    case ATOM_MAX: return a > b ? a : b;
    case ATOM_SYM: break;
    }
    BUG("atom of kind %d", kind);
}

static bool is_number(const DimCode *code) {
    return code->nlinear == 0 && code->nproduct == 0;
}

/* One atom: a number (then true), or a factor. */
static bool compile_atom(Compile *c, const Atom *atom, int64_t *value, DimFactor *factor) {
    *factor = (DimFactor){.kind = atom->kind, .slot = -1};
    if (atom->kind == ATOM_SYM) {
        Dim sym = dim_sym(arena_ctx(c->arena), atom->name);
        *value = 0;
        if (!c->slot(c->user, sym, &factor->slot, value)) {
            c->unbound = sym;
            return true;
        }
        return factor->slot < 0;
    }
    factor->a = compile(c, atom->a);
    factor->b = compile(c, atom->b);
    *value = combine(atom->kind, factor->a->constant, factor->b->constant);
    return is_number(factor->a) && is_number(factor->b);
}

static void add_linear(Compile *c, Build *b, int slot, int64_t coef) {
    for (int i = 0; i < b->linear.n; i++)
        if (b->linear.at[i].slot == slot) {
            b->linear.at[i].coef += coef;
            return;
        }
    vec_push(c->arena, &b->linear, (DimLinear){slot, coef});
}

static void compile_term(Compile *c, Build *b, const DimTerm *term) {
    DimFactor *factor = NEW_ARRAY(c->arena, DimFactor, term->natoms);
    int64_t coef = term->coef, value;
    int n = 0;
    for (int i = 0; i < term->natoms; i++) {
        if (compile_atom(c, term->atom[i], &value, &factor[n]))
            coef *= value;
        else
            n++;
    }
    if (n == 0)
        b->constant += coef;
    else if (coef != 0 && n == 1 && factor[0].kind == ATOM_SYM)
        add_linear(c, b, factor[0].slot, coef);
    else if (coef != 0)
        vec_push(c->arena, &b->product, (DimProduct){coef, n, factor});
}

static const DimCode *compile(Compile *c, Dim d) {
    Build b = {0};
    for (int i = 0; i < d->nterms; i++) compile_term(c, &b, &d->term[i]);
    int n = 0;
    for (int i = 0; i < b.linear.n; i++)
        if (b.linear.at[i].coef != 0) b.linear.at[n++] = b.linear.at[i];
    DimCode *code = NEW(c->arena, DimCode);
    *code = (DimCode){b.constant, n, b.product.n, b.linear.at, b.product.at};
    return code;
}

const DimCode *dim_compile(Arena *arena, Dim d, DimSlotFn *slot, void *user, Dim *unbound) {
    Compile c = {arena, slot, user, NULL};
    const DimCode *code = compile(&c, d);
    if (unbound) *unbound = c.unbound;
    return c.unbound ? NULL : code;
}

int64_t dim_code_coef(const DimCode *code, int slot) {
    for (int i = 0; i < code->nlinear; i++)
        if (code->linear[i].slot == slot) return code->linear[i].coef;
    return 0;
}

bool dim_code_uses(const DimCode *code, int slot) {
    if (dim_code_coef(code, slot) != 0) return true;
    for (int i = 0; i < code->nproduct; i++)
        for (int k = 0; k < code->product[i].nfactor; k++) {
            const DimFactor *f = &code->product[i].factor[k];
            if (f->kind == ATOM_SYM ? f->slot == slot
                                    : dim_code_uses(f->a, slot) || dim_code_uses(f->b, slot))
                return true;
        }
    return false;
}

/* ---- running -------------------------------------------------------------------------------- */

int64_t dim_code_value(const DimCode *code, const int64_t *slots) {
    int64_t v = code->constant;
    for (int i = 0; i < code->nlinear; i++) v += code->linear[i].coef * slots[code->linear[i].slot];
    for (int i = 0; i < code->nproduct; i++) {
        const DimProduct *p = &code->product[i];
        int64_t x = p->coef;
        for (int k = 0; k < p->nfactor; k++) {
            const DimFactor *f = &p->factor[k];
            x *= f->kind == ATOM_SYM
                     ? slots[f->slot]
                     : combine(f->kind, dim_code_value(f->a, slots), dim_code_value(f->b, slots));
        }
        v += x;
    }
    return v;
}

static void linear_column(const DimCode *code, const DimColumns *in, int n, int64_t *out) {
    int64_t base = code->constant;
    for (int i = 0; i < code->nlinear; i++)
        base += code->linear[i].coef * in->base[code->linear[i].slot];
    for (int j = 0; j < n; j++) out[j] = base;
    for (int i = 0; i < code->nlinear; i++) {
        const int64_t *column = in->column[code->linear[i].slot];
        int64_t coef = code->linear[i].coef;
        if (!column) continue;
        for (int j = 0; j < n; j++) out[j] += coef * column[j];
    }
}

static void combine_column(AtomKind kind, int64_t *a, const int64_t *b, int n) {
    switch (kind) {
    case ATOM_MIN:
        for (int j = 0; j < n; j++) a[j] = a[j] < b[j] ? a[j] : b[j];
        break;
    case ATOM_MAX:
        for (int j = 0; j < n; j++) a[j] = a[j] > b[j] ? a[j] : b[j];
        break;
    default:
        for (int j = 0; j < n; j++) a[j] = combine(kind, a[j], b[j]);
    }
}

static void factor_column(const DimFactor *f, const DimColumns *in, int n, int64_t *out) {
    if (f->kind == ATOM_SYM) {
        const int64_t *column = in->column[f->slot];
        for (int j = 0; j < n; j++) out[j] = in->base[f->slot] + (column ? column[j] : 0);
        return;
    }
    int64_t b[DIM_COLUMN_MAX];
    dim_code_column(f->a, in, n, out);
    dim_code_column(f->b, in, n, b);
    combine_column(f->kind, out, b, n);
}

void dim_code_column(const DimCode *code, const DimColumns *in, int n, int64_t *out) {
    ASSERT(n <= DIM_COLUMN_MAX);
    linear_column(code, in, n, out);
    for (int i = 0; i < code->nproduct; i++) {
        const DimProduct *p = &code->product[i];
        int64_t x[DIM_COLUMN_MAX], y[DIM_COLUMN_MAX];
        factor_column(&p->factor[0], in, n, x);
        for (int k = 1; k < p->nfactor; k++) {
            factor_column(&p->factor[k], in, n, y);
            for (int j = 0; j < n; j++) x[j] *= y[j];
        }
        for (int j = 0; j < n; j++) out[j] += p->coef * x[j];
    }
}
