/* SPDX-License-Identifier: Apache-2.0 */
/* What this process may use of the machine: how many CPUs (affinity mask, cgroup quota), and
 * whether the processor has the instructions that an artifact was compiled for.
 *
 * Features are named by the compilers' own macros (`__AVX2__`): emitted code collects the bits of
 * those that were defined when it was compiled (WEIR_CPU_NEED in the prelude), so the check fits
 * whatever options it was built with. Code for aarch64 needs what every armv8-a has. */
#include "runtime/weir_rt.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* ---- features -------------------------------------------------------------------------------- */

/* Where CPUID tells a feature: leaf, subleaf, register (0 eax .. 3 edx), bit; and which register
 * state the system must save for it (1: AVX, 2: AVX-512, 3: tiles). Bit k of weir_program.cpu is
 * row k. */
typedef struct Feature {
    const char *name;
    uint32_t leaf, sub;
    int reg, bit, state;
} Feature;

static const Feature features[] = {
#define FEATURE(MACRO, name, leaf, sub, reg, bit, state) {name, leaf, sub, reg, bit, state},
#include "runtime/cpu.def"
#undef FEATURE
};

enum { TILES = 3 };

#if defined(__x86_64__)
/* Linux saves tiles for processes that ask for it: once for all threads, those to come too. */
static int tiles_allowed(void) {
    enum { REQUEST_PERMISSION = 0x1023, TILE_DATA = 18 };
    return syscall(SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA) == 0;
}

static int state_saved(int state) {
    static const uint64_t mask[] = {0, 0x6, 0xe6, 0x60000};
    unsigned a, b, c, d;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & (1u << 27))) return state == 0;
    uint32_t lo, hi;
    __asm__ volatile("xgetbv" : "=a"(lo), "=d"(hi) : "c"(0));
    uint64_t xcr = (uint64_t)hi << 32 | lo;
    return (xcr & mask[state]) == mask[state] && (state != TILES || tiles_allowed());
}

static int has(const Feature *f) {
    unsigned r[4];
    if (!__get_cpuid_count(f->leaf, f->sub, &r[0], &r[1], &r[2], &r[3])) return 0;
    return (r[f->reg] >> f->bit & 1) && state_saved(f->state);
}
#else
static int has(const Feature *f) {
    (void)f;
    return 0;
}
#endif

const char *weir_cpu_missing(uint64_t need) {
    for (size_t i = 0; i < sizeof features / sizeof *features; i++)
        if ((need >> i & 1) && !has(&features[i])) return features[i].name;
    return NULL;
}

/* ---- counting CPUs --------------------------------------------------------------------------- */

static int read_line(const char *path, char *line, size_t n) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return 0;
    ssize_t got = read(fd, line, n - 1);
    close(fd);
    if (got <= 0) return 0;
    line[got] = 0;
    return 1;
}

static int quota_cpus(double quota, double period, int cpus) {
    if (quota <= 0 || period <= 0) return cpus;
    double q = quota / period;
    int n = (int)q + (q > (int)q);
    return n < 1 ? 1 : n < cpus ? n : cpus;
}

/* Version 2: every group on the way to the root may have its own cpu.max. */
static int quota_v2(const char *group, int cpus) {
    char path[1400], dir[1024], line[128];
    snprintf(dir, sizeof dir, "%s", group);
    for (;;) {
        snprintf(path, sizeof path, "/sys/fs/cgroup%s/cpu.max", dir);
        double quota, period;
        if (read_line(path, line, sizeof line) && sscanf(line, "%lf %lf", &quota, &period) == 2)
            cpus = quota_cpus(quota, period, cpus);
        char *slash = strrchr(dir, '/');
        if (!slash) return cpus;
        *slash = 0;
    }
}

static int quota_v1(const char *group, int cpus) {
    static const char *const mounts[] = {"cpu", "cpu,cpuacct"};
    char path[1400], line[64];
    for (int m = 0; m < 2; m++) {
        for (int own = 0; own < 2; own++) {
            const char *dir = own ? group : "";
            snprintf(path, sizeof path, "/sys/fs/cgroup/%s%s/cpu.cfs_quota_us", mounts[m], dir);
            if (!read_line(path, line, sizeof line)) continue;
            double quota = atof(line);
            snprintf(path, sizeof path, "/sys/fs/cgroup/%s%s/cpu.cfs_period_us", mounts[m], dir);
            if (read_line(path, line, sizeof line)) cpus = quota_cpus(quota, atof(line), cpus);
        }
    }
    return cpus;
}

static int quota(int cpus) {
    char text[4096];
    if (!read_line("/proc/self/cgroup", text, sizeof text)) return cpus;
    char *save = NULL;
    for (char *l = strtok_r(text, "\n", &save); l; l = strtok_r(NULL, "\n", &save)) {
        char *names = strchr(l, ':'), *group = names ? strchr(names + 1, ':') : NULL;
        if (!group || strlen(group) > 1000) continue;
        *group++ = 0;
        if (names[1] == 0)
            cpus = quota_v2(strcmp(group, "/") ? group : "", cpus);
        else if (strstr(names, "cpu"))
            cpus = quota_v1(strcmp(group, "/") ? group : "", cpus);
    }
    return cpus;
}

int weir_cpus(void) {
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    int cpus = online < 1 ? 1 : (int)online;
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) > 0) cpus = CPU_COUNT(&set);
    return quota(cpus);
}
