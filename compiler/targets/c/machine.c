/* SPDX-License-Identifier: Apache-2.0 */
/* The machine behind --cpu: of x86-64, or aarch64, for which code is made but not run here. Names
 * are resolved to a feature level of x86-64 (v2, v3, v4) and a few extra instructions, so that
 * equal names give equal code wherever they are compiled; "native" asks the processor for its
 * level, extras and caches. Other numbers are those of a current server core: they weigh one plan
 * against another and need not be exact. */
#include "c_nest.h"
#include "target.h"

#include "runtime/weir_rt.h"

#include <cpuid.h>
#include <string.h>

typedef struct Level {
    const char *name;
    int vector_bytes, vector_regs;
    double fma_flops;
} Level;

static const Level levels[] = {
    {"armv8-a", 16, 32, 40e9},
    {"x86-64-v2", 16, 16, 24e9},
    {"x86-64-v3", 32, 16, 90e9},
    {"x86-64-v4", 64, 32, 170e9},
};

enum { LEVELS = 4 };

/* What a core does in a second, measured: FLOP of f32, bytes read of each level of memory. */
typedef struct Speed {
    double fma_flops;
    const double *bandwidth;
} Speed;

static const double usual_bandwidth[LEVELS] = {369e9, 144e9, 29e9, 16e9};
static const double zen5_bandwidth[LEVELS] = {550e9, 265e9, 120e9, 32e9};
/* AMD's cores with AVX-512: Zen 4 takes two cycles for a vector of 64 bytes, Zen 5 has units as
 * wide. */
static const Speed zen4_speed = {117e9, usual_bandwidth}, zen5_speed = {265e9, zen5_bandwidth};

/* LLVM's names, by level; `vnni`, `vbmi` (AVX512_VBMI), `bf16` (AVX512_BF16) and `amx` where the
 * family has them. */
typedef struct Family {
    const char *name;
    int level; /* 1: aarch64; 2, 3, 4: of x86-64 */
    bool vnni, vbmi, bf16, amx;
    const Speed *speed; /* or NULL: as the level */
} Family;

static const Family families[] = {
    {"aarch64", 1, false, false, false, false, NULL},
    {"cortex-a53", 1, false, false, false, false, NULL},
    {"cortex-a72", 1, false, false, false, false, NULL},
    {"cortex-a76", 1, false, false, false, false, NULL},
    {"neoverse-n1", 1, false, false, false, false, NULL},
    {"neoverse-v1", 1, false, false, false, false, NULL},
    {"x86-64", 2, false, false, false, false, NULL},
    {"x86-64-v2", 2, false, false, false, false, NULL},
    {"nehalem", 2, false, false, false, false, NULL},
    {"westmere", 2, false, false, false, false, NULL},
    {"sandybridge", 2, false, false, false, false, NULL},
    {"ivybridge", 2, false, false, false, false, NULL},
    {"silvermont", 2, false, false, false, false, NULL},
    {"btver2", 2, false, false, false, false, NULL},
    {"x86-64-v3", 3, false, false, false, false, NULL},
    {"haswell", 3, false, false, false, false, NULL},
    {"broadwell", 3, false, false, false, false, NULL},
    {"skylake", 3, false, false, false, false, NULL},
    {"alderlake", 3, true, false, false, false, NULL},
    {"raptorlake", 3, true, false, false, false, NULL},
    {"meteorlake", 3, true, false, false, false, NULL},
    {"arrowlake", 3, true, false, false, false, NULL},
    {"gracemont", 3, true, false, false, false, NULL},
    {"znver1", 3, false, false, false, false, NULL},
    {"znver2", 3, false, false, false, false, NULL},
    {"znver3", 3, false, false, false, false, NULL},
    {"x86-64-v4", 4, false, false, false, false, NULL},
    {"skylake-avx512", 4, false, false, false, false, NULL},
    {"cascadelake", 4, true, false, false, false, NULL},
    {"cooperlake", 4, true, false, true, false, NULL},
    {"icelake-client", 4, true, true, false, false, NULL},
    {"icelake-server", 4, true, true, false, false, NULL},
    {"tigerlake", 4, true, true, false, false, NULL},
    {"rocketlake", 4, true, true, false, false, NULL},
    {"sapphirerapids", 4, true, true, true, true, NULL},
    {"emeraldrapids", 4, true, true, true, true, NULL},
    {"graniterapids", 4, true, true, true, true, NULL},
    {"znver4", 4, true, true, true, false, &zen4_speed},
    {"znver5", 4, true, true, true, false, &zen5_speed},
};

/* Beyond the level: the dot products of the family's vector width. */
static bool family_has(const void *user, const char *feature) {
    const Family *f = user;
    if (strstr(feature, "amx")) return f->amx;
    if (strstr(feature, "vnni")) return f->vnni;
    if (strstr(feature, "vbmi")) return f->vbmi;
    if (strstr(feature, "bf16")) return f->bf16;
    if (strstr(feature, "sse")) return f->level >= 2;
    return strstr(feature, "avx512") ? f->level == 4 : f->level >= 3;
}

static const char VBMI[] = "avx512vbmi";

static void set_speed(Machine *m, const Speed *speed) {
    m->fma_flops = speed->fma_flops;
    for (int i = 0; i < LEVELS; i++) m->level[i].bandwidth = speed->bandwidth[i];
}

static void set_level(Machine *m, int level) {
    const Level *l = &levels[level - 1];
    m->name = l->name;
    m->on = "cpu";
    m->vector_bytes = l->vector_bytes;
    m->vector_regs = l->vector_regs;
    m->rounds_twice = level == 2;
    m->cores = 8;
    m->nlevels = LEVELS;
    m->level[0] = (MemoryLevel){"L1", 32 << 10, 0, false};
    m->level[1] = (MemoryLevel){"L2", 1 << 20, 0, false};
    m->level[2] = (MemoryLevel){"L3", 32 << 20, 0, true};
    m->level[3] = (MemoryLevel){"memory", INT64_MAX, 0, true};
    set_speed(m, &(Speed){l->fma_flops, usual_bandwidth});
}

/* Bytes are looked up in vectors by AVX512_VBMI, else one by one, as many as a vector has elements
 * of f32. */
static const double vbmi_prims = 10;

static void set_tables(Machine *m, bool (*knows)(const void *user, const char *feature),
                       const void *user) {
    bool vbmi = m->vector_bytes == 64 && knows(user, VBMI);
    m->table_prims = vbmi ? vbmi_prims : 0.4 * m->vector_bytes;
}

/* ---- this processor -------------------------------------------------------------------------- */

static const char *const level3[] = {"avx2", "fma", "f16c", "bmi", "bmi2", "lzcnt", "movbe"};
static const char *const level4[] = {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"};

/* The bit of a feature, by its name in runtime/cpu.def. */
static uint64_t feature(const char *name) {
    static const char *const names[] = {
#define FEATURE(MACRO, name, leaf, sub, reg, bit, state) name,
#include "runtime/cpu.def"
#undef FEATURE
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(names[i], name)) return UINT64_C(1) << i;
    BUG("no CPU feature \"%s\"", name);
}

static bool has(const char *const *names, size_t n) {
    uint64_t need = 0;
    for (size_t i = 0; i < n; i++) need |= feature(names[i]);
    return weir_cpu_missing(need) == NULL;
}

static bool has_one(const char *name) {
    return has(&name, 1);
}

static bool this_has(const void *user, const char *name) {
    (void)user;
    return has_one(name);
}

/* Caches as CPUID describes them: leaf 4, on AMD leaf 0x8000001d. */
static void read_caches(Machine *m) {
    unsigned a, b, c, d;
    uint32_t leaf = 4;
    if (!__get_cpuid_count(4, 0, &a, &b, &c, &d) || (a & 31) == 0) leaf = 0x8000001d;
    for (uint32_t i = 0; i < 8; i++) {
        if (!__get_cpuid_count(leaf, i, &a, &b, &c, &d) || (a & 31) == 0) return;
        unsigned level = a >> 5 & 7;
        if ((a & 31) == 2 || level < 1 || level > 3) continue;
        int64_t ways = (b >> 22) + 1, parts = (b >> 12 & 1023) + 1, line = (b & 4095) + 1;
        m->level[level - 1].bytes = ways * parts * line * ((int64_t)c + 1);
    }
}

/* AMD's processors tell whether their units are 32 or 64 bytes wide (leaf 0x8000001a). Where a
 * virtual machine hides both, as many do, the family says it: 0x1a is Zen 5. Of others nothing is
 * known: NULL. */
static const Speed *native_speed(void) {
    enum { FP256 = 1 << 2, FP512 = 1 << 3, ZEN5 = 0x1a };
    unsigned a, b, c, d, width;
    if (!__get_cpuid(0, &a, &b, &c, &d) || b != signature_AMD_ebx) return NULL;
    if (!__get_cpuid(0x8000001a, &width, &b, &c, &d)) return NULL;
    if (width & (FP256 | FP512)) return width & FP512 ? &zen5_speed : &zen4_speed;
    if (!__get_cpuid(1, &a, &b, &c, &d)) return NULL;
    return (a >> 8 & 15) + (a >> 20 & 255) >= ZEN5 ? &zen5_speed : &zen4_speed;
}

static void set_native(Machine *m) {
    int level = 2;
    if (has(level3, sizeof level3 / sizeof *level3)) level = 3;
    if (level == 3 && has(level4, sizeof level4 / sizeof *level4)) level = 4;
    set_level(m, level);
    const Speed *speed = level == 4 ? native_speed() : NULL;
    if (speed) set_speed(m, speed);
    m->cores = weir_cpus();
    read_caches(m);
    target_c_uses(m, this_has, NULL);
    set_tables(m, this_has, NULL);
}

void target_c_machine(Ctx *ctx, Machine *m, const char *cpu) {
    *m = (Machine){0};
    if (!strcmp(cpu, "native")) {
        set_native(m);
        return;
    }
    for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
        const Family *f = &families[i];
        if (strcmp(f->name, cpu) != 0) continue;
        set_level(m, f->level);
        if (f->speed) set_speed(m, f->speed);
        target_c_uses(m, family_has, f);
        set_tables(m, family_has, f);
        return;
    }
    fail(
        ctx, E_OPTION,
        "unknown CPU \"%s\"; give native, x86-64-v2, x86-64-v3, x86-64-v4, aarch64 or an LLVM name "
        "such as \"znver4\"",
        cpu);
}

const char *target_c_triple(const Machine *m) {
    return strcmp(m->name, levels[0].name) == 0 ? "aarch64-linux-gnu" : NULL;
}

const char *const *target_c_flags(Arena *arena, const Machine *m) {
    const char **flags = NEW_ARRAY(arena, const char *, 16);
    int n = 0;
    if (target_c_triple(m)) flags[n++] = arena_printf(arena, "--target=%s", target_c_triple(m));
    flags[n++] = arena_printf(arena, "-march=%s", m->name);
    for (int i = 0, last = n - 1; i < m->nuse; i++) {
        const char *feature = target_c_instruction(m->use[i]->name)->feature;
        if (!strstr(feature, "vnni") && !strstr(feature, "bf16")) continue;
        if (strcmp(flags[last] + 2, feature) == 0)
            continue; /* rows of one feature stand together */
        flags[last = n++] = arena_printf(arena, "-m%s", feature);
    }
    if (m->table_prims == vbmi_prims) flags[n++] = arena_printf(arena, "-m%s", VBMI);
    if (m->nmatrix) flags[n++] = "-mamx-tile"; /* which the others imply for clang, not for gcc */
    for (int i = 0; i < m->nmatrix; i++)
        flags[n++] = arena_printf(arena, "-m%s", target_c_matrix(m->matrix[i]->name)->feature);
    if (m->vector_bytes == 64) flags[n++] = "-mprefer-vector-width=512";
    flags[n++] = "-ffp-contract=off";
    flags[n++] = "-fwrapv";
    flags[n++] = "-fno-strict-aliasing";
    flags[n++] = "-fno-math-errno";
    flags[n++] = "-fno-trapping-math";
    return flags;
}
