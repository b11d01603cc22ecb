/* SPDX-License-Identifier: Apache-2.0 */
/* The barrier between kernels. Each thread has a seat, a cache line of its own, in which it alone
 * counts the barriers it has come to and says where it runs. To arrive is one store; to wait is to
 * see the count of every other seat: one trip of a cache line between two cores, where a shared
 * counter would take four. A kernel lasts microseconds and a futex round trip 60, so waiting spins
 * for a while before it sleeps on the seat that is late; not at all when a thread that is late was
 * last seen on the waiting thread's own CPU, where spinning only delays both. */
#include "runtime/weir_rt.h"

#include <linux/futex.h>
#include <sched.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { QUICK = 32 }; /* looks before anything that costs time is asked */

static void futex(uint32_t *at, int op, uint32_t value) {
    syscall(SYS_futex, at, op | FUTEX_PRIVATE_FLAG, value, NULL, NULL, 0);
}

static int late(const weir_seat *seat, uint32_t phase) {
    return (int32_t)(__atomic_load_n(&seat->phase, __ATOMIC_ACQUIRE) - phase) < 0;
}

/* Announced before the last look, so that whoever comes after it wakes us. */
static void sleep_on(weir_seat *seat, uint32_t phase) {
    __atomic_fetch_add(&seat->sleepers, 1, __ATOMIC_SEQ_CST);
    uint32_t seen = __atomic_load_n(&seat->phase, __ATOMIC_SEQ_CST);
    if ((int32_t)(seen - phase) < 0) futex(&seat->phase, FUTEX_WAIT, seen);
    __atomic_fetch_sub(&seat->sleepers, 1, __ATOMIC_SEQ_CST);
}

/* Is a thread that is still to come where this one is? */
static int crowded(const weir_seat *seat, int t, int n, uint32_t phase) {
    for (int i = 0; i < n; i++)
        if (i != t && late(&seat[i], phase) &&
            __atomic_load_n(&seat[i].cpu, __ATOMIC_RELAXED) == seat[t].cpu)
            return 1;
    return 0;
}

static void wait_for(weir_barrier *b, int t, int n, weir_seat *seat, uint32_t phase) {
    for (int i = 0; i < QUICK; i++) {
        if (!late(seat, phase)) return;
        weir_relax();
    }
    int spin = crowded(b->seat, t, n, phase) ? 0 : b->spin;
    uint32_t seen = __atomic_load_n(&seat->phase, __ATOMIC_ACQUIRE);
    if ((int32_t)(seen - phase) < 0) weir_spin(&seat->phase, seen, spin);
    while (late(seat, phase)) sleep_on(seat, phase);
}

void weir_rt_barrier(weir_frame *frame, int t, int n) {
    if (n == 1) return;
    weir_barrier *b = &frame->barrier;
    weir_seat *mine = &b->seat[t];
    uint32_t phase = mine->phase + 1;
    __atomic_store_n(&mine->cpu, sched_getcpu(), __ATOMIC_RELAXED);
    __atomic_store_n(&mine->phase, phase, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&mine->sleepers, __ATOMIC_SEQ_CST))
        futex(&mine->phase, FUTEX_WAKE, INT32_MAX);
    for (int i = 1; i < n; i++) wait_for(b, t, n, &b->seat[t + i < n ? t + i : t + i - n], phase);
}
