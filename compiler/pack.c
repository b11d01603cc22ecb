/* SPDX-License-Identifier: Apache-2.0 */
/* Packing data into a layout.
 *
 * The linear storage address is a polynomial in the logical indices. When no term of it uses two of
 * them (the rule: i/c, i%c, i+k, times strides), it is a constant plus a function of each index
 * alone, kept as a table per dim; two neighbouring dims are joined by adding their tables. The copy
 * walks the dims in logical order, but for two: `inner`, along which storage is contiguous, and the
 * last, along which the source is. Those go in tiles, so that lines of both sides are used whole
 * while they are near. */
#include "pack.h"

#include <string.h>

enum { JOIN_MOST = 1 << 16, TILE_INNER = 16, TILE_LAST = 64 };

static int64_t constant(Ctx *ctx, const Cont *c, Dim d) {
    int64_t v;
    if (!dim_is_const(d, &v))
        fail(ctx, E_UNSUPPORTED,
             "the size \"%s\" of parameter \"%s\" is not constant; give the model's dims "
             "with --dim",
             dim_str(ctx, d), c->name);
    return v;
}

int64_t pack_bytes(const Pack *p) {
    return dtype_bytes(p->type, p->storage);
}

/* ---- the plan -------------------------------------------------------------------------------- */

static bool atom_uses(const Atom *atom, Dim sym) {
    return atom->kind == ATOM_SYM ? atom->name == dim_sym_name(sym)
                                  : dim_uses(atom->a, sym) || dim_uses(atom->b, sym);
}

static bool is_separable(Dim address, const Dim *sym, int n) {
    for (int t = 0; t < address->nterms; t++) {
        int used = 0;
        for (int k = 0; k < n; k++) {
            bool uses = false;
            for (int a = 0; a < address->term[t].natoms; a++)
                uses |= atom_uses(address->term[t].atom[a], sym[k]);
            used += uses;
        }
        if (used > 1) return false;
    }
    return true;
}

/* Values of the logical indices. */
typedef struct At {
    const Dim *sym;
    int n;
    int64_t value[RANK_MAX];
} At;

static bool value_at(void *user, Dim sym, int64_t *value) {
    const At *at = user;
    for (int k = 0; k < at->n; k++) {
        if (at->sym[k] != sym) continue;
        *value = at->value[k];
        return true;
    }
    return false;
}

static int64_t address_at(const Pack *p, At *at) {
    int64_t v = 0;
    if (!dim_eval(p->address, value_at, at, &v)) BUG("a layout uses a symbol that is no index");
    ASSERT(v >= 0 && v < p->storage);
    return v;
}

static void make_tables(Arena *arena, Pack *p) {
    At at = {.sym = p->sym, .n = p->rank};
    p->base = p->count ? address_at(p, &at) : 0;
    for (int k = 0; k < p->rank; k++) {
        p->table[k] = NEW_ARRAY(arena, int64_t, p->extent[k]);
        for (int64_t i = 0; i < p->extent[k] && p->count; i++) {
            at.value[k] = i;
            p->table[k][i] = address_at(p, &at) - p->base;
        }
        at.value[k] = 0;
    }
}

static void join(Arena *arena, Pack *p, int k) {
    int64_t a = p->extent[k], b = p->extent[k + 1];
    int64_t *both = NEW_ARRAY(arena, int64_t, a * b);
    for (int64_t i = 0; i < a; i++)
        for (int64_t j = 0; j < b; j++) both[i * b + j] = p->table[k][i] + p->table[k + 1][j];
    p->table[k] = both;
    p->extent[k] = a * b;
    p->rank--;
    for (int d = k + 1; d < p->rank; d++) {
        p->table[d] = p->table[d + 1];
        p->extent[d] = p->extent[d + 1];
    }
}

/* Joins dims on both sides of `inner`, as far as tables stay small. */
static void join_all(Arena *arena, Pack *p) {
    for (int k = p->rank - 2; k >= 0; k--) {
        if (k == p->inner || k + 1 == p->inner || p->extent[k] * p->extent[k + 1] > JOIN_MOST)
            continue;
        join(arena, p, k);
        if (k < p->inner) p->inner--;
    }
}

/* The dim with most steps of one element in storage. */
static int contiguous_dim(const Pack *p) {
    int best = p->rank - 1;
    double most = 0;
    for (int k = p->rank - 1; k >= 0; k--) {
        int64_t steps = 0;
        for (int64_t i = 1; i < p->extent[k]; i++)
            steps += p->table[k][i] - p->table[k][i - 1] == 1;
        double part = p->extent[k] > 1 ? (double)steps / (double)(p->extent[k] - 1) : 0;
        if (part > most + 1e-9) {
            most = part;
            best = k;
        }
    }
    return best;
}

static int64_t table_end(const Pack *p, int k) {
    return p->table[k][p->extent[k] - 1];
}

static bool ascends(const Pack *p, int k) {
    for (int64_t i = 1; i < p->extent[k]; i++)
        if (p->table[k][i] < p->table[k][i - 1]) return false;
    return true;
}

/* Of dims whose addresses all ascend the one that reaches farthest. */
static void choose_cut(Pack *p) {
    int64_t all = 1;
    int farthest = 0;
    for (int k = 0; k < p->rank; k++) {
        if (!ascends(p, k)) return;
        all += table_end(p, k);
        if (table_end(p, k) > table_end(p, farthest)) farthest = k;
    }
    if (dtype_bits(p->type) < 8) return;
    p->cut = farthest;
    p->span = all - table_end(p, farthest);
}

Pack pack_plan(Arena *arena, Ctx *ctx, const Cont *c) {
    Pack p = {.type = c->type,
              .from = c->data,
              .count = 1,
              .storage = 1,
              .dense = !c->layout,
              .rank = c->rank,
              .cut = -1};
    Dim box[RANK_MAX];
    int rank = cont_storage(ctx, c, box);
    for (int k = 0; k < c->rank; k++) {
        p.sym[k] = flow_layout_sym(ctx, k);
        p.extent[k] = constant(ctx, c, c->shape[k]);
        p.count *= p.extent[k];
    }
    for (int k = 0; k < rank; k++) p.storage *= constant(ctx, c, box[k]);
    if (c->layout && c->layout->marks) p.marks = (p.storage + MARKED_BYTES - 1) / MARKED_BYTES;
    if (p.dense) return p;
    p.has_fill = c->layout->has_fill;
    p.fill = c->layout->fill;
    p.address = dim_flat(ctx, c->layout->map, box, rank);
    if (p.rank == 0 || !is_separable(p.address, p.sym, p.rank)) return p;
    make_tables(arena, &p);
    p.inner = contiguous_dim(&p);
    join_all(arena, &p);
    p.stride[p.rank - 1] = 1;
    for (int k = p.rank - 2; k >= 0; k--) p.stride[k] = p.stride[k + 1] * p.extent[k + 1];
    if (p.count) choose_cut(&p);
    return p;
}

/* The index of dim `cut` where the part ends that starts at `first`: the last that leaves it `most`
 * bytes, else the next. */
static int64_t part_end(const Pack *p, int64_t first, int64_t most) {
    const int64_t *table = p->table[p->cut];
    int64_t n = p->extent[p->cut], end = n;
    if (dtype_bytes(p->type, p->storage - p->base - table[first]) <= most) return n;
    for (int64_t i = first + 1; i < n; i++) {
        if (table[i] - table[i - 1] < p->span) continue;
        if (end < n && dtype_bytes(p->type, table[i] - table[first]) > most) return end;
        end = i;
    }
    return end;
}

Pack pack_part(const Pack *p, int64_t *at, int64_t most) {
    Pack part = *p;
    part.marks = 0;
    if (p->cut < 0) return part;
    int64_t first = *at, size = dtype_bits(p->type) / 8, *table = p->table[p->cut];
    int64_t end = *at = part_end(p, first, most);
    int64_t start = first ? p->base + table[first] : 0;
    part.storage = (end < p->extent[p->cut] ? p->base + table[end] : p->storage) - start;
    part.base = p->base - start;
    part.from = (const char *)p->from + first * p->stride[p->cut] * size;
    part.table[p->cut] = table + first;
    part.extent[p->cut] = end - first;
    part.count = p->count / p->extent[p->cut] * (end - first);
    return part;
}

/* ---- the copy -------------------------------------------------------------------------------- */

/* One (inner, last) plane of elements of one type. `step` is the distance in the source from one
 * index of `inner` to the next. When both are the same dim, the plane is a row. The source is a
 * view of a file, at any address. */
#define PLANE(name, T)                                                                             \
    typedef T any_##name __attribute__((aligned(1)));                                              \
    static void plane_##name(T *to, const any_##name *from, const int64_t *inner, int64_t ni,      \
                             int64_t step, const int64_t *last, int64_t nl) {                      \
        for (int64_t i0 = 0; i0 < ni; i0 += TILE_INNER) {                                          \
            int64_t i1 = i0 + TILE_INNER < ni ? i0 + TILE_INNER : ni;                              \
            for (int64_t l0 = 0; l0 < nl; l0 += TILE_LAST) {                                       \
                int64_t l1 = l0 + TILE_LAST < nl ? l0 + TILE_LAST : nl;                            \
                for (int64_t l = l0; l < l1; l++)                                                  \
                    for (int64_t i = i0; i < i1; i++) to[inner[i] + last[l]] = from[i * step + l]; \
            }                                                                                      \
        }                                                                                          \
    }
PLANE(8, uint8_t)
PLANE(16, uint16_t)
PLANE(32, uint32_t)
PLANE(64, uint64_t)

static void plane(const Pack *p, char *to, int64_t base, int64_t from, int64_t ni, int64_t step,
                  const int64_t *inner, const int64_t *last, int64_t nl) {
    const void *src = p->from;
#define CASE(bits, T)                                                                              \
    case bits:                                                                                     \
        plane_##bits((T *)to + base, (const any_##bits *)src + from, inner, ni, step, last, nl);   \
        return;
    switch (dtype_bits(p->type)) {
        CASE(8, uint8_t)
        CASE(16, uint16_t)
        CASE(32, uint32_t)
        CASE(64, uint64_t)
    default: break;
    }
#undef CASE
    int size = dtype_bits(p->type) / 8;
    for (int64_t i = 0; i < ni; i++) {
        for (int64_t l = 0; l < nl; l++) {
            int64_t put = base + inner[i] + last[l], get = from + i * step + l;
            if (size)
                memcpy(to + put * size, (const char *)src + get * size, (size_t)size);
            else
                mem_set(p->type, to, put, mem_get(p->type, src, get));
        }
    }
}

/* All indices of the dims other than `inner` and the last; a plane for each. */
static void copy_separable(const Pack *p, char *to) {
    static const int64_t none[1] = {0};
    int last = p->rank - 1;
    int64_t index[RANK_MAX] = {0};
    bool row = p->inner == last;
    const int64_t *inner = row ? none : p->table[p->inner];
    int64_t ni = row ? 1 : p->extent[p->inner], step = row ? 0 : p->stride[p->inner];
    for (;;) {
        int64_t base = p->base, from = 0;
        for (int k = 0; k < last; k++) {
            base += k == p->inner ? 0 : p->table[k][index[k]];
            from += index[k] * p->stride[k];
        }
        plane(p, to, base, from, ni, step, inner, p->table[last], p->extent[last]);
        int k = last - 1;
        for (; k >= 0; k--) {
            if (k != p->inner && ++index[k] < p->extent[k]) break;
            index[k] = 0;
        }
        if (k < 0) return;
    }
}

static void copy_general(const Pack *p, char *to) {
    At at = {.sym = p->sym, .n = p->rank};
    int size = dtype_bits(p->type) / 8;
    for (int64_t i = 0; i < p->count; i++) {
        int64_t dst = address_at(p, &at);
        if (size)
            memcpy(to + dst * size, (const char *)p->from + i * size, (size_t)size);
        else
            mem_set(p->type, to, dst, mem_get(p->type, p->from, i));
        for (int k = p->rank - 1; k >= 0 && ++at.value[k] == p->extent[k]; k--) at.value[k] = 0;
    }
}

static void put_fill(const Pack *p, void *to) {
    size_t bytes = (size_t)pack_bytes(p);
    memset(to, 0, bytes);
    if (!p->has_fill || !p->fill || p->count == p->storage) return;
    for (int64_t i = 0; i < p->storage; i++) mem_set(p->type, to, i, p->fill);
}

int64_t pack_marks(const int8_t *storage, int64_t bytes, uint8_t *marks) {
    int64_t n = (bytes + MARKED_BYTES - 1) / MARKED_BYTES;
    memset(marks, 0, (size_t)n);
    for (int64_t i = 0; i + 1 < bytes; i += 2) {
        int sum = storage[i] + storage[i + 1];
        marks[i / MARKED_BYTES] |= sum < INT8_MIN || sum > INT8_MAX;
    }
    return n;
}

void pack_run(const Pack *p, void *to) {
    if (p->dense) {
        if (p->count) memcpy(to, p->from, (size_t)pack_bytes(p));
        return;
    }
    if (p->count != p->storage || dtype_bits(p->type) < 8) put_fill(p, to);
    if (p->count && p->rank && p->table[0])
        copy_separable(p, to);
    else if (p->count)
        copy_general(p, to);
    if (p->marks) pack_marks(to, p->storage, (uint8_t *)to + p->storage);
}
