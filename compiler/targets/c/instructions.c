/* SPDX-License-Identifier: Apache-2.0 */
/* Instructions that C has no operator for: one row each. A row names the instruction, says what it
 * does as a nest (its meaning: the evaluator runs it and the tests hold the helper to it), how its
 * operands lie in memory, what the processor and the compiler need for it, and the helpers of
 * dot.in that spell it: `%d` stands for the lanes. The helpers also have a plain form, so that
 * the text compiles for any machine. */
#include "c_nest.h"

#include <string.h>

#define DOT(of_a, of_b, lanes, group)                                                              \
    "nest dot on cpu {\n"                                                                          \
    "  mem a : " #of_a "[" #group "]\n"                                                            \
    "  mem b : " #of_b "[" #lanes ", " #group "]\n"                                                \
    "  mem c : i32[" #lanes "] written\n"                                                          \
    "  for q : " #group " unroll {\n"                                                              \
    "    for l : " #lanes " vector {\n"                                                            \
    "      c[l] = fma(i32(a[q]), i32(b[l, q]), c[l])\n"                                            \
    "    }\n"                                                                                      \
    "  }\n"                                                                                        \
    "}\n"

/* The same with a group of `a` for each lane. Without VNNI that gains nothing over products of 32
 * bits (measured for AVX2). */
#define EACH(of_a, of_b, lanes, group)                                                             \
    "nest dot on cpu {\n"                                                                          \
    "  mem a : " #of_a "[" #group ", " #lanes "]\n"                                                \
    "  mem b : " #of_b "[" #lanes ", " #group "]\n"                                                \
    "  mem c : i32[" #lanes "] written\n"                                                          \
    "  for q : " #group " unroll {\n"                                                              \
    "    for l : " #lanes " vector {\n"                                                            \
    "      c[l] = fma(i32(a[q, l]), i32(b[l, q]), c[l])\n"                                         \
    "    }\n"                                                                                      \
    "  }\n"                                                                                        \
    "}\n"

/* Pairs of bf16, whose products are exact: the second is added first, each sum is rounded; numbers
 * below the least normal one count as 0. */
#define PAIRS(lanes)                                                                               \
    "nest dot on cpu {\n"                                                                          \
    "  mem a : bf16[2]\n"                                                                          \
    "  mem b : bf16[" #lanes ", 2]\n"                                                              \
    "  mem c : f32[" #lanes "] written\n"                                                          \
    "  for q : 2 unroll {\n"                                                                       \
    "    for l : " #lanes " vector {\n"                                                            \
    "      c[l] = fma(f32(a[1 - q]), f32(b[l, 1 - q]), c[l])\n"                                    \
    "    }\n"                                                                                      \
    "  }\n"                                                                                        \
    "}\n"

/* vpdpbusd takes either operand for the one without a sign: weights of 8 or 4 bits that have none
 * are multiplied as they are stored.
 *
 * vpmaddubsw holds sums of two products in 16 bits: exact where 255 times each sum of two weights
 * fits, or one of them has another sign.
 *
 * By vdpbf16ps, processors with tiles make half as many products as by f32 multiply-adds: 112
 * GFLOP/s and 229 on a Xeon with AMX. */
static const CInstruction rows[] = {
    {{"vpdpbusd512", DOT(u8, i8, 16, 4), U8, I8, I32, 16, 4, false, NULL, false},
     4,
     4,
     "avx512vnni",
     "four",
     "quads",
     "dot4"},
    {{"vpdpbusd256", DOT(u8, i8, 8, 4), U8, I8, I32, 8, 4, false, NULL, false},
     4,
     4,
     "avxvnni",
     "four",
     "quads",
     "dot4"},
    {{"vpdpbusd512.u8", DOT(i8, u8, 16, 4), I8, U8, I32, 16, 4, false, NULL, false},
     4,
     4,
     "avx512vnni",
     "four",
     "quads",
     "dot4back"},
    {{"vpdpbusd512.u4", DOT(i8, u4, 16, 8), I8, U4, I32, 16, 8, false, NULL, false},
     4,
     4,
     "avx512vnni",
     "eight",
     "eights",
     "dot8"},
    {{"vpdpbusd256.u8", DOT(i8, u8, 8, 4), I8, U8, I32, 8, 4, false, NULL, false},
     4,
     4,
     "avxvnni",
     "four",
     "quads",
     "dot4back"},
    {{"vpdpbusd256.u4", DOT(i8, u4, 8, 8), I8, U4, I32, 8, 8, false, NULL, false},
     4,
     4,
     "avxvnni",
     "eight",
     "eights",
     "dot8"},
    {{"vpmaddwd512", DOT(u8, i8, 16, 4), U8, I8, I32, 16, 4, false, "vpmaddubsw512", false},
     1,
     1,
     "avx512bw",
     "four",
     "quads",
     "dot4"},
    {{"vpmaddwd256", DOT(u8, i8, 8, 4), U8, I8, I32, 8, 4, false, "vpmaddubsw256", false},
     1,
     1,
     "avx2",
     "four",
     "quads",
     "dot4"},
    {{"vpmaddwd128", DOT(u8, i8, 4, 4), U8, I8, I32, 4, 4, false, "vpmaddubsw128", false},
     1,
     1,
     "sse4.1",
     "four",
     "quads",
     "dot4"},
    {{"vpdpbusd512.each", EACH(u8, i8, 16, 4), U8, I8, I32, 16, 4, false, NULL, true},
     4,
     4,
     "avx512vnni",
     "turned",
     "quads",
     "dot4"},
    {{"vpdpbusd256.each", EACH(u8, i8, 8, 4), U8, I8, I32, 8, 4, false, NULL, true},
     4,
     4,
     "avxvnni",
     "turned",
     "quads",
     "dot4"},
    {{"vdpbf16ps512", PAIRS(16), BF16, BF16, F32, 16, 2, true, NULL, false},
     2,
     0.5,
     "avx512bf16",
     "half",
     "halves",
     "dotb"},
};

/* On two rows of tiles with two vectors each; where the processor has no tiles, in memory. Speeds
 * were measured on a processor whose f32 units are as fast as vdpbf16ps's: 7 to 12 and twice that.
 */
static const CMatrix matrices[] = {
    {{"tdpbf16ps", "vdpbf16ps512", 16, 16, 8}, "amx-bf16", "tiles_bf16"},
    {{"tdpbusd", "vpdpbusd512", 16, 16, 16}, "amx-int8", "tiles_i8"},
};

const CMatrix *target_c_matrix(const char *name) {
    for (size_t i = 0; i < sizeof matrices / sizeof *matrices; i++)
        if (strcmp(matrices[i].step.name, name) == 0) return &matrices[i];
    return NULL;
}

const CInstruction *target_c_instructions(int *n) {
    *n = (int)(sizeof rows / sizeof *rows);
    return rows;
}

const CInstruction *target_c_instruction(const char *name) {
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (strcmp(rows[i].row.name, name) == 0) return &rows[i];
    return NULL;
}

const CInstruction *target_c_pairs(const char *name) {
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].row.pairs && strcmp(rows[i].row.pairs, name) == 0) return &rows[i];
    return NULL;
}

static bool has_step(const Machine *m, const char *instruction) {
    for (int i = 0; i < m->nmatrix; i++)
        if (strcmp(m->matrix[i]->of, instruction) == 0) return true;
    return false;
}

/* Rows of the machine's vector width, for what `has` says it has. */
void target_c_uses(Machine *m, bool (*has)(const void *user, const char *feature),
                   const void *user) {
    m->nuse = m->nmatrix = 0;
    for (size_t i = 0; i < sizeof matrices / sizeof *matrices; i++)
        if (m->vector_bytes == 64 && has(user, matrices[i].feature))
            m->matrix[m->nmatrix++] = &matrices[i].step;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const CInstruction *r = &rows[i];
        if (r->row.lanes * 4 != m->vector_bytes || m->nuse == MACHINE_USES) continue;
        if (!has(user, r->feature)) continue;
        m->use_speed[m->nuse] = has_step(m, r->row.name) ? r->beside_tiles : r->speed;
        m->use[m->nuse++] = &r->row;
    }
}
