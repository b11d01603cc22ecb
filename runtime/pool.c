/* SPDX-License-Identifier: Apache-2.0 */
/* The pool of threads that hosts may use: see weir_pool in weir_model.h.
 *
 * The caller is thread 0; worker k has a slot of its own, through which it gets jobs. A slot's
 * `turn` counts jobs: the caller writes the job and then raises the turns of the slots that take
 * part; a worker that sees its turn rise runs the job and counts itself off in `left`. Workers
 * start with the first job (so a process may fork before) and in a child that forked later they
 * start anew. Waiting spins for WEIR_SPIN_NS, then sleeps on the futex word; it does not spin
 * when the pool has more threads than this process has CPUs. Jobs of several callers take turns.
 *
 * The kernel wakes a thread where it slept, or where its waker is, and takes tens of milliseconds
 * to see that two share a CPU while another is idle. So a worker that was last on the CPU of
 * another thread of its job is barred from those before it is woken, and takes its mask back as it
 * runs: nothing is pinned for longer than a wake takes, and masks that the host sets hold. */
#include "runtime/weir_rt.h"

#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { LINE = 128 };

typedef struct Pool Pool;
typedef struct Slot {
    _Alignas(LINE) uint32_t turn; /* raised by the caller */
    uint32_t asleep;
    uint32_t seen; /* the worker's own */
    int32_t cpu;   /* where it last ran a job */
    int moved;     /* `mask` is to be given back */
    cpu_set_t mask;
    int index;
    Pool *pool;
    pthread_t thread;
} Slot;

struct Pool {
    weir_pool face; /* first: the handle */
    pthread_mutex_t lock;
    pid_t pid;
    int started; /* workers running */
    int32_t cpu; /* where the caller is */
    int spin_ns;
    int quit;
    void (*fn)(void *arg, int t, int n);
    void *arg;
    int n;
    Slot *slot; /* face.threads - 1 */
    _Alignas(LINE) uint32_t left;
    uint32_t waiting;
};

static void futex_wait(uint32_t *at, uint32_t value) {
    syscall(SYS_futex, at, FUTEX_WAIT | FUTEX_PRIVATE_FLAG, value, NULL, NULL, 0);
}

static void futex_wake(uint32_t *at) {
    syscall(SYS_futex, at, FUTEX_WAKE | FUTEX_PRIVATE_FLAG, 1, NULL, NULL, 0);
}

static int64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

int weir_spin(const uint32_t *at, uint32_t value, int ns) {
    if (ns == 0) return __atomic_load_n(at, __ATOMIC_ACQUIRE) != value;
    int64_t end = now_ns() + ns;
    do {
        for (int i = 0; i < 64; i++) {
            if (__atomic_load_n(at, __ATOMIC_ACQUIRE) != value) return 1;
            weir_relax();
        }
    } while (now_ns() < end);
    return 0;
}

/* ---- workers --------------------------------------------------------------------------------- */

static void slot_wait(Slot *s, int spin_ns) {
    if (weir_spin(&s->turn, s->seen, spin_ns)) return;
    __atomic_store_n(&s->asleep, 1, __ATOMIC_SEQ_CST);
    while (__atomic_load_n(&s->turn, __ATOMIC_SEQ_CST) == s->seen) futex_wait(&s->turn, s->seen);
    __atomic_store_n(&s->asleep, 0, __ATOMIC_RELAXED);
}

static void slot_raise(Slot *s) {
    __atomic_fetch_add(&s->turn, 1, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&s->asleep, __ATOMIC_SEQ_CST)) futex_wake(&s->turn);
}

/* Has a worker run its next job on a CPU that is not in `taken`, if its mask allows that; enters
 * where it was. Most sleep here, so nothing is moved: they wake elsewhere. */
static void slot_part(Slot *s, cpu_set_t *taken) {
    int cpu = __atomic_load_n(&s->cpu, __ATOMIC_RELAXED);
    if (cpu < 0 || cpu >= CPU_SETSIZE) return;
    if (CPU_ISSET(cpu, taken) && pthread_getaffinity_np(s->thread, sizeof s->mask, &s->mask) == 0) {
        cpu_set_t rest;
        CPU_AND(&rest, &s->mask, taken);
        CPU_XOR(&rest, &s->mask, &rest);
        s->moved =
            CPU_COUNT(&rest) > 0 && pthread_setaffinity_np(s->thread, sizeof rest, &rest) == 0;
    }
    CPU_SET(cpu, taken);
}

/* Takes back the mask that slot_part changed. */
static void slot_settle(Slot *s) {
    if (!s->moved) return;
    s->moved = 0;
    pthread_setaffinity_np(pthread_self(), sizeof s->mask, &s->mask);
}

static void *work(void *arg) {
    Slot *s = arg;
    Pool *p = s->pool;
    for (;;) {
        int alone = __atomic_load_n(&p->cpu, __ATOMIC_RELAXED) != sched_getcpu();
        slot_wait(s, alone ? p->spin_ns : 0);
        s->seen++;
        if (p->quit) return NULL;
        slot_settle(s);
        p->fn(p->arg, s->index, p->n);
        __atomic_store_n(&s->cpu, sched_getcpu(), __ATOMIC_RELAXED);
        if (__atomic_sub_fetch(&p->left, 1, __ATOMIC_SEQ_CST) == 0 &&
            __atomic_load_n(&p->waiting, __ATOMIC_SEQ_CST))
            futex_wake(&p->left);
    }
}

/* Starts workers 1 .. n-1 that do not run yet; returns how many threads there are with the caller.
 */
static int start(Pool *p, int n) {
    while (p->started < n - 1) {
        Slot *s = &p->slot[p->started];
        s->turn = s->seen = s->asleep = 0;
        s->cpu = -1;
        s->moved = 0;
        s->index = p->started + 1;
        s->pool = p;
        if (pthread_create(&s->thread, NULL, work, s) != 0) break;
        p->started++;
    }
    return p->started + 1 < n ? p->started + 1 : n;
}

/* ---- jobs ------------------------------------------------------------------------------------ */

/* In a child made by fork the workers are gone and the lock may be held by one of them. */
static void check_fork(Pool *p) {
    if (p->pid == getpid()) return;
    p->pid = getpid();
    p->started = 0;
    pthread_mutex_init(&p->lock, NULL);
}

/* Threads of a job run on CPUs of their own where there are enough (see the top). */
static void spread(Pool *p, int n) {
    int cpu = sched_getcpu();
    __atomic_store_n(&p->cpu, cpu, __ATOMIC_RELAXED);
    if (p->spin_ns == 0 || cpu < 0 || cpu >= CPU_SETSIZE) return;
    cpu_set_t taken;
    CPU_ZERO(&taken);
    CPU_SET(cpu, &taken);
    for (int i = 0; i < n - 1; i++) slot_part(&p->slot[i], &taken);
}

static void wait_done(Pool *p, int n) {
    int cpu = sched_getcpu(), spin = p->spin_ns;
    __atomic_store_n(&p->cpu, cpu, __ATOMIC_RELAXED);
    for (int i = 0; i < n - 1; i++)
        if (__atomic_load_n(&p->slot[i].cpu, __ATOMIC_RELAXED) == cpu) spin = 0;
    for (;;) {
        uint32_t left = __atomic_load_n(&p->left, __ATOMIC_ACQUIRE);
        if (left == 0) return;
        if (weir_spin(&p->left, left, spin)) continue;
        __atomic_store_n(&p->waiting, 1, __ATOMIC_SEQ_CST);
        left = __atomic_load_n(&p->left, __ATOMIC_SEQ_CST);
        if (left) futex_wait(&p->left, left);
        __atomic_store_n(&p->waiting, 0, __ATOMIC_RELAXED);
    }
}

static void run_parallel(void *context, int n, void (*fn)(void *arg, int t, int n), void *arg) {
    Pool *p = context;
    if (n <= 1) {
        fn(arg, 0, 1);
        return;
    }
    check_fork(p);
    pthread_mutex_lock(&p->lock);
    n = start(p, n < p->face.threads ? n : p->face.threads);
    p->fn = fn;
    p->arg = arg;
    p->n = n;
    __atomic_store_n(&p->left, (uint32_t)(n - 1), __ATOMIC_RELEASE);
    spread(p, n);
    for (int i = 0; i < n - 1; i++) slot_raise(&p->slot[i]);
    fn(arg, 0, n);
    wait_done(p, n);
    pthread_mutex_unlock(&p->lock);
}

/* ---- life ------------------------------------------------------------------------------------ */

weir_pool *weir_pool_new(int threads) {
    int cpus = weir_cpus();
    if (threads <= 0) threads = cpus;
    if (threads > 1024) threads = 1024;
    Pool *p = NULL;
    if (posix_memalign((void **)&p, LINE, sizeof *p) != 0) return NULL;
    memset(p, 0, sizeof *p);
    if (posix_memalign((void **)&p->slot, LINE, sizeof(Slot) * (size_t)threads) != 0) {
        free(p);
        return NULL;
    }
    memset(p->slot, 0, sizeof(Slot) * (size_t)threads);
    p->face = (weir_pool){sizeof(weir_pool), p, threads, run_parallel};
    pthread_mutex_init(&p->lock, NULL);
    p->pid = getpid();
    p->spin_ns = threads > cpus ? 0 : WEIR_SPIN_NS;
    return &p->face;
}

void weir_pool_free(weir_pool *pool) {
    if (!pool) return;
    Pool *p = pool->context;
    if (p->pid == getpid()) {
        p->quit = 1;
        for (int i = 0; i < p->started; i++) slot_raise(&p->slot[i]);
        for (int i = 0; i < p->started; i++) pthread_join(p->slot[i].thread, NULL);
    }
    pthread_mutex_destroy(&p->lock);
    free(p->slot);
    free(p);
}
