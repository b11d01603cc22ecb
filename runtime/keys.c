/* SPDX-License-Identifier: Apache-2.0 */
/* Keys and sorting for the irregular kernels. A float's bits order as an integer once the sign is
 * treated: positive ones get the top bit, negative ones are inverted. */
#include "runtime/keys.h"
#include "runtime/objects.h"

#include <string.h>

/* How an element is laid out and what its bits mean. */
typedef struct Kind {
    int bits;
    enum { UNSIGNED, SIGNED, FLOAT } class;
    uint64_t nan_above; /* FLOAT: magnitudes above this are NaN */
    uint64_t nan_code;  /* FLOAT: this one code is NaN (0: none) */
} Kind;

static const Kind kinds[] = {
    [WEIR_F32] = {32, FLOAT, 0x7f800000, 0},
    [WEIR_F64] = {64, FLOAT, 0x7ff0000000000000, 0},
    [WEIR_F16] = {16, FLOAT, 0x7c00, 0},
    [WEIR_BF16] = {16, FLOAT, 0x7f80, 0},
    [WEIR_F8E4M3FN] = {8, FLOAT, 0x7e, 0},
    [WEIR_F8E5M2] = {8, FLOAT, 0x7c, 0},
    [WEIR_F8E4M3FNUZ] = {8, FLOAT, 0x7f, 0x80},
    [WEIR_F8E5M2FNUZ] = {8, FLOAT, 0x7f, 0x80},
    [WEIR_F4E2M1] = {4, FLOAT, 0x7, 0},
    [WEIR_F6E2M3] = {6, FLOAT, 0x1f, 0},
    [WEIR_F6E3M2] = {6, FLOAT, 0x1f, 0},
    [WEIR_F8E8M0] = {8, UNSIGNED, 0, 0},
    [WEIR_I64] = {64, SIGNED, 0, 0},
    [WEIR_I32] = {32, SIGNED, 0, 0},
    [WEIR_I16] = {16, SIGNED, 0, 0},
    [WEIR_I8] = {8, SIGNED, 0, 0},
    [WEIR_I4] = {4, SIGNED, 0, 0},
    [WEIR_I2] = {2, SIGNED, 0, 0},
    [WEIR_U64] = {64, UNSIGNED, 0, 0},
    [WEIR_U32] = {32, UNSIGNED, 0, 0},
    [WEIR_U16] = {16, UNSIGNED, 0, 0},
    [WEIR_U8] = {8, UNSIGNED, 0, 0},
    [WEIR_U4] = {4, UNSIGNED, 0, 0},
    [WEIR_U2] = {2, UNSIGNED, 0, 0},
    [WEIR_BOOL] = {8, UNSIGNED, 0, 0},
    [WEIR_STRING] = {64, UNSIGNED, 0, 0},
    [WEIR_C64] = {64, UNSIGNED, 0, 0},
    [WEIR_C128] = {128, UNSIGNED, 0, 0},
    [WEIR_OBJECT] = {64, UNSIGNED, 0, 0},
};

static uint64_t get_bits(const Kind *k, const void *data, int64_t i) {
    const uint8_t *p = data;
    uint64_t u = 0;
    if (k->bits >= 8) {
        memcpy(&u, p + i * (k->bits / 8), (size_t)k->bits / 8);
        return u;
    }
    int per = 8 / k->bits;
    return (uint64_t)(p[i / per] >> (i % per) * k->bits) & ((1u << k->bits) - 1);
}

/* In line, so that little is left of it where the kind is known. */
static inline __attribute__((always_inline)) uint64_t key_of(const Kind *k, const void *data,
                                                             int64_t i) {
    uint64_t u = get_bits(k, data, i), sign = UINT64_C(1) << (k->bits - 1);
    if (k->class == UNSIGNED) return u;
    if (k->class == SIGNED) return u ^ sign;
    if ((u & (sign - 1)) > k->nan_above || (k->nan_code && u == k->nan_code)) return UINT64_MAX;
    if (u == sign) u = 0;
    return u & sign ? sign - 1 - (u & (sign - 1)) : u | sign;
}

uint64_t weir_key(int32_t dtype, const void *data, int64_t i) {
    return key_of(&kinds[dtype], data, i);
}

void weir_key_pairs(const weir_line *l, uint64_t flip, weir_pair *pairs, int64_t n) {
#define KEYS(kind)                                                                                 \
    for (int64_t i = 0; i < n; i++)                                                                \
        pairs[i].key = key_of(kind, l->data, l->first + pairs[i].index * l->step) ^ flip;
    switch (l->dtype) {
    case WEIR_F32: KEYS(&kinds[WEIR_F32]) break;
    case WEIR_F64: KEYS(&kinds[WEIR_F64]) break;
    case WEIR_I64: KEYS(&kinds[WEIR_I64]) break;
    case WEIR_I32: KEYS(&kinds[WEIR_I32]) break;
    default: KEYS(&kinds[l->dtype])
    }
#undef KEYS
}

void weir_key_kind(int32_t dtype, uint64_t kind[2]) {
    const Kind *k = &kinds[dtype];
    kind[0] = (uint64_t)k->bits | (uint64_t)k->class << 8 | k->nan_code << 16;
    kind[1] = k->nan_above;
}

int32_t weir_part(int32_t dtype) {
    return dtype == WEIR_C64 ? WEIR_F32 : dtype == WEIR_C128 ? WEIR_F64 : dtype;
}

void weir_move(int32_t dtype, void *to, int64_t k, const void *from, int64_t i) {
    const Kind *kind = &kinds[dtype];
    uint8_t *p = to;
    if (kind->bits >= 8) {
        int64_t bytes = kind->bits / 8;
        memmove(p + k * bytes, (const uint8_t *)from + i * bytes, (size_t)bytes);
        return;
    }
    uint64_t u = get_bits(kind, from, i);
    int per = 8 / kind->bits, shift = (int)(k % per) * kind->bits;
    p[k / per] =
        (uint8_t)((p[k / per] & ~(((1u << kind->bits) - 1) << shift)) | (unsigned)u << shift);
}

int weir_text_order(weir_string a, weir_string b) {
    int64_t n = a.bytes < b.bytes ? a.bytes : b.bytes;
    int order = n ? memcmp(a.at, b.at, (size_t)n) : 0;
    return order ? order : (a.bytes > b.bytes) - (a.bytes < b.bytes);
}

/* Merge sort from the bottom up. */
void weir_sort(int64_t *order, int64_t *spare, int64_t n, weir_less *less, void *user) {
    int64_t *from = order, *to = spare;
    for (int64_t run = 1; run < n; run *= 2) {
        for (int64_t lo = 0; lo < n; lo += 2 * run) {
            int64_t mid = lo + run < n ? lo + run : n, hi = lo + 2 * run < n ? lo + 2 * run : n;
            int64_t a = lo, b = mid;
            for (int64_t k = lo; k < hi; k++)
                to[k] =
                    a < mid && (b >= hi || !less(user, from[b], from[a])) ? from[a++] : from[b++];
        }
        int64_t *swap = from;
        from = to;
        to = swap;
    }
    if (from != order) memcpy(order, from, sizeof *order * (size_t)n);
}

/* One round of the sort by bytes: `to` takes the pairs in the order of the byte at `shift`. */
static void sort_byte(weir_pair *to, const weir_pair *from, int64_t n, int shift) {
    int64_t start[256] = {0}, sum = 0;
    for (int64_t i = 0; i < n; i++) start[from[i].key >> shift & 255]++;
    for (int b = 0; b < 256; b++) {
        int64_t count = start[b];
        start[b] = sum;
        sum += count;
    }
    for (int64_t i = 0; i < n; i++) to[start[from[i].key >> shift & 255]++] = from[i];
}

static void insert_pairs(weir_pair *pairs, int64_t n) {
    for (int64_t i = 1; i < n; i++) {
        weir_pair p = pairs[i];
        int64_t k = i;
        for (; k > 0 && pairs[k - 1].key > p.key; k--) pairs[k] = pairs[k - 1];
        pairs[k] = p;
    }
}

/* The first of the pairs comes to the front past all others, then the next, k times. No branch
 * depends on the data; keys take their turns by the fewest steps, which wait for each other. */
static void lift_pairs(weir_pair *pairs, int64_t n, int64_t k) {
    for (int64_t to = 0; to < k; to++) {
        weir_pair p = pairs[n - 1];
        for (int64_t i = n - 2; i >= to; i--) {
            weir_pair q = pairs[i];
            uint64_t least = p.key < q.key ? p.key : q.key;
            int64_t differ = (p.index ^ q.index) & -(int64_t)(p.key < q.key);
            pairs[i + 1] = (weir_pair){p.key ^ q.key ^ least, p.index ^ differ};
            p = (weir_pair){least, q.index ^ differ};
        }
        pairs[to] = p;
    }
}

enum { LIFTED = 160, COUNTED = 64, INSERTED = 48 };

/* Each pair goes to the place that is the number of pairs before it: more is compared than by
 * insertion, but several at a time, and no branch depends on the data. For at most COUNTED keys
 * that do not differ in their upper halves. */
static void count_pairs(weir_pair *pairs, weir_pair *spare, int n) {
    int32_t key[COUNTED];
    int whole = (n + 3) & ~3;
    for (int i = 0; i < n; i++) key[i] = (int32_t)((uint32_t)pairs[i].key ^ (uint32_t)1 << 31);
    for (int i = n; i < whole; i++) key[i] = INT32_MAX;
    for (int i = 0; i < n; i++) {
        int32_t k = key[i], before = 0;
        for (int j = 0; j < whole; j++) before += (key[j] < k) | ((key[j] == k) & (j < i));
        spare[before] = pairs[i];
    }
    memcpy(pairs, spare, sizeof *pairs * (size_t)n);
}

/* Many by bytes from the last on; those in which no two keys differ need no round. */
void weir_sort_pairs(weir_pair *pairs, weir_pair *spare, int64_t n, int64_t k) {
    if (n <= LIFTED && n * k <= LIFTED) {
        lift_pairs(pairs, n, k);
        return;
    }
    uint64_t differ = 0;
    for (int64_t i = 1; i < n; i++) differ |= pairs[i].key ^ pairs[0].key;
    if (n <= COUNTED && !(differ >> 32)) {
        count_pairs(pairs, spare, (int)n);
        return;
    }
    if (n <= INSERTED) {
        insert_pairs(pairs, n);
        return;
    }
    weir_pair *from = pairs, *to = spare;
    for (int shift = 0; shift < 64; shift += 8) {
        if (!(differ >> shift & 255)) continue;
        sort_byte(to, from, n, shift);
        weir_pair *swap = from;
        from = to;
        to = swap;
    }
    if (from != pairs) memcpy(pairs, from, sizeof *pairs * (size_t)n);
}
