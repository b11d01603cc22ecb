/* SPDX-License-Identifier: Apache-2.0 */
/* Element types: every pattern of every small float both ways, every tie, saturation, integers. */
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "ir/dtype.h"

static const DType small[] = {F16, BF16, F8E4M3FN, F8E4M3FNUZ, F8E5M2, F8E5M2FNUZ, F4E2M1};
enum { SMALLS = sizeof small / sizeof *small };

Test(dtype, table) {
    cr_assert_str_eq(dtype_name(F8E4M3FNUZ), "f8e4m3fnuz");
    for (int t = 1; t < DT_COUNT; t++) {
        cr_assert_eq(dtype_parse(dtype_name((DType)t)), t);
        cr_assert_eq(dtype_from_host(dtype_onnx((DType)t)), t);
        cr_assert_eq(dtype_from_onnx(dtype_onnx((DType)t)), t == OBJECT ? DT_NONE : t);
    }
    cr_assert_eq(dtype_parse("f31"), DT_NONE);
    cr_assert_eq(dtype_from_onnx(0), DT_NONE);
    cr_assert(dtype_compute(F16) == F32 && dtype_compute(F64) == F64 && dtype_compute(I4) == I32);
    cr_assert(dtype_compute(U8) == U32 && dtype_compute(BOOL) == BOOL && dtype_compute(I64) == I64);
    cr_assert_eq(dtype_bytes(I4, 5), 3);
    cr_assert_eq(dtype_bytes(U2, 5), 2);
    cr_assert_eq(dtype_bytes(F32, 5), 20);
    cr_assert_eq(dtype_bytes(C128, 2), 32);
    cr_assert(dtype_is_int(U2) && !dtype_is_int(BOOL) && dtype_is_float(F8E8M0));
    cr_assert(dtype_highest(F16) == 65504 && dtype_highest(F8E4M3FN) == 448);
    cr_assert(dtype_highest(F8E4M3FNUZ) == 240 && dtype_highest(F8E5M2FNUZ) == 57344);
    cr_assert(dtype_highest(F4E2M1) == 6 && dtype_lowest(F8E5M2) == -57344);
    cr_assert(dtype_lowest(I4) == -8 && dtype_highest(I4) == 7 && dtype_highest(U2) == 3);
    cr_assert(dtype_lowest(I64) == -0x1p63 && dtype_lowest(U64) == 0 && dtype_lowest(I8) == -128);
}

/* A NaN's pattern comes back with the quiet bit set; everything else exactly. */
Test(dtype, every_pattern_comes_back) {
    for (int s = 0; s < SMALLS; s++) {
        DType t = small[s];
        for (Bits b = 0; b < (Bits)1 << dtype_bits(t); b++) {
            double v = bits_to_double(t, b);
            Bits back = bits_convert(t, F64, bits_of_double(F64, v), false);
            Bits quiet = t == F16 ? 0x200 : t == BF16 ? 0x40 : t == F8E5M2 ? 2 : 0;
            cr_assert(back == b || (v != v && back == (b | quiet)), "%s %lx -> %a -> %lx",
                      dtype_name(t), (long)b, v, (long)back);
            cr_assert_eq(bits_convert(t, F64, bits_convert(F64, t, b, true), false), back);
            cr_assert_eq(bits_convert(t, F32, bits_convert(F32, t, b, true), false), back);
        }
    }
    for (Bits b = 0; b < 255; b++)
        cr_assert_eq(bits_of_double(F8E8M0, bits_to_double(F8E8M0, b)), b);
    cr_assert(isnan(bits_to_double(F8E8M0, 0xff)));
    cr_assert_eq(bits_of_double(F8E8M0, NAN), 0xff);
}

/* Between neighbours: just below the middle goes down, just above up, the middle to the even. */
Test(dtype, every_tie) {
    for (int s = 0; s < SMALLS; s++) {
        DType t = small[s];
        Bits sign = (Bits)1 << (dtype_bits(t) - 1);
        for (Bits b = 0; b + 1 < sign; b++) {
            double lo = bits_to_double(t, b), hi = bits_to_double(t, b + 1);
            if (!isfinite(lo) || !isfinite(hi)) continue;
            double mid = (lo + hi) / 2;
            Bits even = b & 1 ? b + 1 : b;
            cr_assert_eq(bits_of_double(t, mid), even, "%s %a", dtype_name(t), mid);
            cr_assert_eq(bits_of_double(t, nextafter(mid, 0)), b);
            cr_assert_eq(bits_of_double(t, nextafter(mid, INFINITY)), b + 1);
            bool zero = t == F8E4M3FNUZ || t == F8E5M2FNUZ;
            cr_assert_eq(bits_of_double(t, -mid), zero && !even ? 0 : even | sign);
        }
    }
}

/* Values from the ONNX text and its published cases. */
Test(dtype, known_values) {
    static const struct {
        DType t;
        double v;
        Bits b;
    } known[] = {
        {F16, 1, 0x3c00},
        {F16, 0x1p-24, 1},
        {F16, 65519, 0x7bff},
        {F16, 65520, 0x7c00},
        {F16, -INFINITY, 0xfc00},
        {F16, 0x1p-25, 0},
        {F16, 0x1.8p-25, 1},
        {F16, NAN, 0x7e00},
        {BF16, 1, 0x3f80},
        {BF16, 0x1.01p0, 0x3f80},
        {BF16, 0x1.03p0, 0x3f82},
        {BF16, 0x1.fffffep127, 0x7f80},
        {BF16, 0x1p-133, 1},
        {F8E4M3FN, 0.4789254665374756, 0x2f},
        {F8E4M3FN, 1e6, 0x7e},
        {F8E4M3FN, -INFINITY, 0xfe},
        {F8E4M3FN, -1e-7, 0x80},
        {F8E4M3FN, NAN, 0x7f},
        {F8E4M3FN, 464, 0x7e},
        {F8E4M3FNUZ, 0.8191054463386536, 0x3d},
        {F8E4M3FNUZ, INFINITY, 0x7f},
        {F8E4M3FNUZ, -1e-7, 0},
        {F8E4M3FNUZ, NAN, 0x80},
        {F8E4M3FNUZ, -1e6, 0xff},
        {F8E5M2, 0.7229037880897522, 0x3a},
        {F8E5M2, NAN, 0x7e},
        {F8E5M2, INFINITY, 0x7b},
        {F8E5M2FNUZ, 0.4996848702430725, 0x3c},
        {F8E5M2FNUZ, -INFINITY, 0xff},
        {F8E5M2FNUZ, NAN, 0x80},
        {F4E2M1, 0.48, 1},
        {F4E2M1, 0.25, 0},
        {F4E2M1, 1.05, 2},
        {F4E2M1, -3.5, 0xe},
        {F4E2M1, 9, 7},
        {F4E2M1, NAN, 8},
        {F4E2M1, -INFINITY, 0xf},
        {F4E2M1, -0.0, 8},
        {F8E8M0, 0, 0},
        {F8E8M0, 1, 127},
        {F8E8M0, 1.4999, 127},
        {F8E8M0, 1.5, 128},
        {F8E8M0, 0.25, 0x7d},
        {F8E8M0, -4, 129},
        {F8E8M0, 0x1p200, 0xfe},
        {F8E8M0, 0x1p-200, 0},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        cr_assert_eq(bits_of_double(known[i].t, known[i].v), known[i].b, "%s(%a) is %lx, not %lx",
                     dtype_name(known[i].t), known[i].v,
                     (long)bits_of_double(known[i].t, known[i].v), (long)known[i].b);
}

static Bits cast(DType to, DType from, double v, bool sat) {
    return bits_convert(to, from, bits_of_double(from, v), sat);
}

Test(dtype, overflow_without_saturation) {
    cr_assert_eq(cast(F8E4M3FN, F32, 464, false), 0x7e);
    cr_assert_eq(cast(F8E4M3FN, F32, 465, false), 0x7f);
    cr_assert_eq(cast(F8E4M3FN, F32, -INFINITY, false), 0xff);
    cr_assert_eq(cast(F8E4M3FNUZ, F32, -1e6, false), 0x80);
    cr_assert_eq(cast(F8E5M2, F32, -1e6, false), 0xfc);
    cr_assert_eq(cast(F8E5M2, F16, INFINITY, false), 0x7c);
    cr_assert_eq(cast(F8E5M2FNUZ, F16, INFINITY, false), 0x80);
    cr_assert_eq(cast(F4E2M1, F16, INFINITY, false), 7);
    cr_assert_eq(cast(F8E8M0, F64, 0x1p200, false), 0xff);
    cr_assert(isnan(bits_to_double(F8E5M2, cast(F8E5M2, F8E4M3FN, NAN, true))));
    cr_assert_eq(cast(F16, F32, 1e6, true), 0x7c00);
}

Test(dtype, integers) {
    cr_assert_eq(cast(I8, F32, 300.7, true), 127);
    cr_assert_eq(cast(I8, F32, -300.7, true), 0x80);
    cr_assert_eq(cast(I8, F32, -3.9, true), 0xfd);
    cr_assert_eq(cast(U8, F32, -3.9, true), 0);
    cr_assert_eq(cast(U8, F32, -0.9, true), 0);
    cr_assert_eq(cast(I32, F64, NAN, true), 0);
    cr_assert_eq(cast(I64, F64, 0x1p63, true), INT64_MAX);
    cr_assert_eq(cast(I64, F64, -0x1p63, true), (Bits)INT64_MIN);
    cr_assert_eq(cast(U64, F64, 0x1p64, true), UINT64_MAX);
    cr_assert_eq(cast(U64, F64, 0x1p63, true), (Bits)1 << 63);
    cr_assert_eq(cast(I4, F32, -9, true), 8);
    cr_assert_eq(cast(U2, F32, 7, true), 3);
    cr_assert_eq(bits_convert(I8, I32, 0x180, true), 0x80);
    cr_assert_eq(bits_convert(I64, I8, 0x80, true), (Bits)-128);
    cr_assert_eq(bits_convert(U16, I8, 0x80, true), 0xff80);
    cr_assert_eq(bits_convert(I64, U8, 0x80, true), 128);
    cr_assert_eq(bits_convert(I32, I4, 0xf, true), 0xffffffff);
    cr_assert_eq(bits_convert(BOOL, I32, 256, true), 1);
    cr_assert_eq(bits_convert(BOOL, F32, 0x80000000, true), 0);
    cr_assert_eq(bits_convert(BOOL, F32, 1, true), 1);
    cr_assert_eq(cast(BOOL, F32, NAN, true), 1);
    cr_assert_eq(bits_convert(F32, BOOL, 1, true), 0x3f800000);
    cr_assert_eq(bits_to_int(F32, bits_of_double(F32, -7.9)), -7);
    cr_assert_eq(bits_to_int(U64, UINT64_MAX), -1);
    cr_assert_eq(bits_of_int(F32, -5), bits_of_double(F32, -5));
    cr_assert_eq(bits_of_int(U8, -1), 255);
}

/* Integers of 64 bits round once: 2^62 + 2^38 lies halfway for f32, one more is above it, though as
 * a double it would be the middle again. */
Test(dtype, large_integers_round_once) {
    int64_t half = ((int64_t)1 << 62) + ((int64_t)1 << 38);
    cr_assert_eq(bits_of_int(F32, half), bits_of_double(F32, 0x1p62));
    cr_assert_eq(bits_of_int(F32, half + 1), bits_of_double(F32, 0x1.000002p62));
    cr_assert_eq(bits_of_int(F32, half - 1), bits_of_double(F32, 0x1p62));
    cr_assert_eq(bits_of_int(BF16, ((int64_t)1 << 62) + ((int64_t)1 << 54) + 1),
                 bits_of_double(BF16, 0x1.02p62));
    cr_assert_eq(bits_convert(F32, U64, UINT64_MAX, true), bits_of_double(F32, 0x1p64));
    cr_assert_eq(bits_convert(F64, U64, UINT64_MAX, true), bits_of_double(F64, 0x1p64));
    cr_assert_eq(bits_of_int(F16, INT64_MIN), 0xfc00);
    uint64_t seed = 1;
    for (int i = 0; i < 200000; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        int64_t v = (int64_t)seed >> (seed >> 58);
        float f = (float)v;
        uint32_t want, uwant;
        memcpy(&want, &f, 4);
        f = (float)(uint64_t)v;
        memcpy(&uwant, &f, 4);
        cr_assert_eq(bits_of_int(F32, v), want);
        cr_assert_eq(bits_convert(F32, U64, (Bits)v, true), uwant);
    }
}

Test(dtype, packed_arrays) {
    unsigned char memory[64];
    static const DType all[] = {F64, F32, F16, F8E5M2, F4E2M1, I2, U4, I64, BOOL, I16, C64};
    for (size_t k = 0; k < sizeof all / sizeof *all; k++) {
        uint64_t mask =
            dtype_bits(all[k]) == 64 ? UINT64_MAX : ((uint64_t)1 << dtype_bits(all[k])) - 1;
        memset(memory, 0xa5, sizeof memory);
        for (int i = 6; i >= 0; i--)
            mem_set(all[k], memory, i, 0x9e3779b97f4a7c15u * (uint64_t)(i + 1) & mask);
        for (int i = 0; i < 7; i++)
            cr_assert_eq(mem_get(all[k], memory, i),
                         0x9e3779b97f4a7c15u * (uint64_t)(i + 1) & mask);
    }
    memset(memory, 0, sizeof memory);
    mem_set(U4, memory, 0, 1);
    mem_set(U4, memory, 1, 2);
    cr_assert_eq(memory[0], 0x21);
}

static void prints(DType t, Bits b, const char *want) {
    Ctx *ctx = ctx_new(NULL, NULL);
    Text out = {.arena = ctx_arena(ctx)};
    bits_print(&out, t, b);
    cr_assert_str_eq(text_str(&out), want);
    ctx_free(ctx);
}

Test(dtype, text) {
    prints(F32, 0x41400000, "0x1.8p+3");
    prints(F32, 0x7fc00000, "nan:7fc00000");
    prints(F16, 0xfe01, "nan:fe01");
    prints(F64, (Bits)1 << 63, "-0.0");
    prints(F32, 0, "0.0");
    prints(F8E5M2, 0xfc, "-inf");
    prints(I4, 0xf, "-1");
    prints(U64, UINT64_MAX, "18446744073709551615");
    prints(BOOL, 1, "true");
}

/* Floats of 6 bits lie in a byte each; files pack four in three bytes. */
Test(dtype, six_bits) {
    static const struct {
        DType t;
        double v;
        Bits b;
    } known[] = {
        {F6E2M3, 0.0625, 0},       {F6E2M3, 0.09375, 1}, {F6E2M3, 0.1875, 2},  {F6E2M3, 7.2, 0x1e},
        {F6E2M3, -INFINITY, 0x3f}, {F6E2M3, NAN, 0x20},  {F6E3M2, 0.03125, 0}, {F6E3M2, 0.25, 4},
        {F6E3M2, 26, 0x1e},        {F6E3M2, -1e6, 0x3f}, {F6E3M2, -0.0, 0x20},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        cr_assert_eq(bits_of_double(known[i].t, known[i].v), known[i].b);
    uint8_t codes[64], packed[48], back[64];
    for (int i = 0; i < 64; i++) codes[i] = (uint8_t)(i * 11 % 64);
    for (Bits b = 0; b < 64; b++) {
        cr_assert_eq(bits_of_double(F6E2M3, bits_to_double(F6E2M3, b)), b);
        cr_assert_eq(bits_of_double(F6E3M2, bits_to_double(F6E3M2, b)), b);
    }
    for (int64_t n = 0; n <= 64; n++) {
        cr_assert_eq(dtype_raw_bytes(F6E3M2, n), (n * 6 + 7) / 8);
        memset(packed, 0xa5, sizeof packed);
        dtype_pack(F6E3M2, codes, n, packed);
        dtype_unpack(F6E3M2, packed, n, back);
        cr_assert(memcmp(codes, back, (size_t)n) == 0 && dtype_bytes(F6E3M2, n) == n);
    }
    dtype_pack(F6E2M3, (uint8_t[]){1, 2, 3, 63}, 4, packed);
    cr_assert(packed[0] == 0x81 && packed[1] == 0x30 && packed[2] == 0xfc);
}
