/* SPDX-License-Identifier: Apache-2.0 */
/* Launches that begin early: the blocks of a recorded launch come to the cores before the one ahead
 * is done, and wait there (follow in cuda.in), so that beginning takes none of its time.
 *
 * When? A launch lets the next one's blocks come when its own leave, or as soon as all its own are
 * on cores and go on. The latter is the earlier by a launch's length, but the blocks come to the
 * cores that have room then, which are those that were done first, and gather there. Of kernels
 * that do little it gains up to half a microsecond; where one of both does much, most cores then
 * wait for a few (26 us became 59 on an H200: tests/results/gpu.md). Sooner still, while its own
 * wait themselves, those come that load weights meanwhile, or compute next to nothing: they gain a
 * tenth of a decoder's step, all others lose up to a third. */
#include "cuda.h"

#include "ir/move.h"

#include <math.h>
#include <string.h>

/* How long a launch is brief; of the peak, what such a launch computes with; the size of a dim that
 * only the run knows. */
static const double BRIEF = 2.5e-6, SHARE = 0.25;
/* Arithmetic so short that it matters little which cores do it. */
static const double SLIGHT = 0.05e-6;
enum { UNKNOWN = 64 };

static bool usual_size(void *user, Dim sym, int64_t *value) {
    (void)user, (void)sym;
    *value = UNKNOWN;
    return true;
}

static double size_of(Dim d) {
    int64_t n = 0;
    return dim_eval(d, usual_size, NULL, &n) ? (double)n : INFINITY;
}

/* FLOP a second of one core by what the kernel multiplies with. */
static double rate_of(const Machine *m, const Kernel *kernel) {
    for (int i = 0; i < kernel->line.n; i++)
        for (int s = 0; s < m->nstep && kernel->line.at[i].kind == LINE_USE; s++)
            if (!strcmp(m->step[s]->name, kernel->line.at[i].name)) return m->step_flops[s];
    return m->fma_flops;
}

static double computing(const CProgram *p, int kernel) {
    const Kernel *k = p->flow->kernel.at[kernel];
    double flop = 0;
    for (int i = 0; i < k->map.n; i++)
        flop += size_of(move_flops(p->arena, p->flow, p->flow->map.at[k->map.at[i]]));
    return flop / (SHARE * rate_of(p->machine, k) * p->machine->cores);
}

static double moving(const CProgram *p, int kernel) {
    const Kernel *k = p->flow->kernel.at[kernel];
    const Machine *m = p->machine;
    double bytes = size_of(move_compulsory(p->arena, p->flow, k->map.at, k->map.n, NULL).bytes);
    return bytes / (m->level[m->nlevels - 1].bandwidth * m->cores);
}

double cuda_seconds(const CProgram *p, int kernel) {
    return fmax(computing(p, kernel), moving(p, kernel));
}

bool cuda_brief(double seconds) {
    return seconds <= BRIEF;
}

static bool is_brief(const CProgram *p, int kernel) {
    double sum = 0;
    for (int with = kernel; with >= 0; with = p->beside[with]) sum += cuda_seconds(p, with);
    return cuda_brief(sum);
}

/* The kernel that a map's turn launches; -1: none, one of several, or not a launch of ours. */
static int launched_by(const CProgram *p, int map) {
    int k = p->first_kernel[map];
    if (k < 0 || p->flow->kernel.at[k]->when.n || p->with[k] != k) return -1;
    return cuda_apart(p->flow->kernel.at[k]) ? -1 : k;
}

/* Does a map's turn launch nothing? */
static bool is_silent(const CProgram *p, int map) {
    int k = p->first_kernel[map];
    return k < 0 || p->with[k] != k;
}

/* Of each launch of a list the next; the last of a loop's body comes before the first. */
static void link_items(CProgram *p, const Items *items, bool turns) {
    int first = -1, last = -1, met = 0;
    for (int i = 0; i < items->n; i++) {
        const Item *it = &items->at[i];
        if (it->kind == ITEM_MAP && is_silent(p, it->map)) continue;
        int k = it->kind == ITEM_MAP ? launched_by(p, it->map) : -1;
        if (last >= 0) p->next[last] = k;
        if (!met++) first = k;
        last = k;
        link_items(p, &it->body, it->kind == ITEM_LOOP && !it->carry.n);
        link_items(p, &it->other, false);
    }
    if (turns && last >= 0) p->next[last] = first;
}

void cuda_link_launches(CProgram *p) {
    int n = p->flow->kernel.n;
    p->next = NEW_ARRAY(p->arena, int, n + 1);
    for (int k = 0; k < n; k++) p->next[k] = -1;
    if (!p->options->profile) link_items(p, &p->flow->body, false);
}

static bool begins_next(const CProgram *p, int kernel, int phase) {
    if (!is_brief(p, kernel)) return false;
    if (phase + 1 < p->kernel[kernel]->phase.n) return true;
    return p->next[kernel] >= 0 && is_brief(p, p->next[kernel]);
}

/* May the next launch's blocks come while this one's wait? */
static bool begins_at_once(const CProgram *p, int kernel, int phase) {
    int next = p->next[kernel];
    if (phase + 1 < p->kernel[kernel]->phase.n) return false;
    double sum = 0;
    bool early = p->kernel[next]->phase.at[0].early;
    for (int with = next; with >= 0; with = p->beside[with]) sum += computing(p, with);
    return early || sum <= SLIGHT;
}

/* Weights that each turn of a loop reads are still in the cache. */
static bool is_first_reading(const CProgram *p, int kernel, int phase) {
    int root = kernel_root(p->flow->kernel.at[kernel]);
    for (int i = 0; i < p->flow->body.n; i++)
        if (p->flow->body.at[i].kind == ITEM_MAP && p->flow->body.at[i].map == root)
            return phase == 0;
    return false;
}

int cuda_following(const CProgram *p, int kernel, int phase) {
    int bits = is_first_reading(p, kernel, phase) ? CUDA_WEIGHTS_AHEAD : 0;
    if (!begins_next(p, kernel, phase)) return bits;
    return bits + (begins_at_once(p, kernel, phase) ? CUDA_NEXT_AT_ONCE : CUDA_NEXT_BEGINS);
}
