/* SPDX-License-Identifier: Apache-2.0 */
/* The barrier between kernels: a counter and a phase. The last thread to arrive starts the next
 * phase; the others spin on it for a while (a kernel lasts microseconds, a futex round trip 60) and
 * then sleep. */
#include "runtime/weir_rt.h"

#include <linux/futex.h>
#include <sched.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

static void futex(uint32_t *at, int op, uint32_t value) {
    syscall(SYS_futex, at, op | FUTEX_PRIVATE_FLAG, value, NULL, NULL, 0);
}

static void sleep_until(weir_barrier *b, uint32_t phase) {
    __atomic_fetch_add(&b->sleepers, 1, __ATOMIC_SEQ_CST);
    while (__atomic_load_n(&b->phase, __ATOMIC_SEQ_CST) == phase)
        futex(&b->phase, FUTEX_WAIT, phase);
    __atomic_fetch_sub(&b->sleepers, 1, __ATOMIC_SEQ_CST);
}

enum { LINE = 64 / sizeof(int32_t) };

/* Is another thread of this run where this one is? */
static int crowded(const weir_barrier *b, int t, int n) {
    int cpu = sched_getcpu();
    __atomic_store_n(&b->cpu[t * LINE], cpu, __ATOMIC_RELAXED);
    for (int i = 0; i < n; i++)
        if (i != t && __atomic_load_n(&b->cpu[i * LINE], __ATOMIC_RELAXED) == cpu) return 1;
    return 0;
}

void weir_rt_barrier(weir_frame *frame, int t, int n) {
    if (n == 1) return;
    weir_barrier *b = &frame->barrier;
    int spin = b->cpu && crowded(b, t, n) ? 0 : b->spin;
    uint32_t phase = __atomic_load_n(&b->phase, __ATOMIC_RELAXED);
    if (__atomic_add_fetch(&b->arrived, 1, __ATOMIC_ACQ_REL) == n) {
        __atomic_store_n(&b->arrived, 0, __ATOMIC_RELAXED);
        __atomic_store_n(&b->phase, phase + 1, __ATOMIC_SEQ_CST);
        if (__atomic_load_n(&b->sleepers, __ATOMIC_SEQ_CST))
            futex(&b->phase, FUTEX_WAKE, INT32_MAX);
        return;
    }
    if (!weir_spin(&b->phase, phase, spin)) sleep_until(b, phase);
}
