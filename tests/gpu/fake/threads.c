/* SPDX-License-Identifier: Apache-2.0 */
/* The driver of the tests: the threads of a block, one after the other, or side by side where they
 * wait for each other. */
#define _GNU_SOURCE
#include "fake.h"

#include <stddef.h>
#include <sys/mman.h>
#include <ucontext.h>

enum { STACK = 64 << 10, WARP = 32 };

/* More arguments than a kernel has do no harm: the caller takes them off the stack again. */
enum { FEW = 24 };
#define A4(i) a[i], a[i + 1], a[i + 2], a[i + 3]
#define A8(i) A4(i), A4(i + 4)
#define A24(i) A8(i), A8(i + 8), A8(i + 16)
typedef uint64_t U;
#define U8 U, U, U, U, U, U, U, U
#define U24 U8, U8, U8

static void call(const Function *f, const uint64_t *a, int n) {
    if (n <= FEW)
        ((void (*)(U24))f->at)(A24(0));
    else
        ((void (*)(U24, U24, U24, U24))f->at)(A24(0), A24(24), A24(48), A24(72));
}

typedef enum { READY, AT_BLOCK, AT_WARP, DONE } State;

typedef struct Team {
    ucontext_t home, thread[THREADS];
    State state[THREADS];
    char *stack;
    int n, now;
    const Function *f;
    const uint64_t *arg;
    int nargs;
    bool alone; /* threads run one after the other: none waits */
} Team;
static Team team;

void fake_wait_for(int warp) {
    if (team.alone) fake_breach("%s: a barrier that thread 0 does not come to", team.f->name);
    team.state[team.now] = warp ? AT_WARP : AT_BLOCK;
    swapcontext(&team.thread[team.now], &team.home);
}

static void enter(void) {
    call(team.f, team.arg, team.nargs);
    team.state[team.now] = DONE;
}

static void go_on(int t) {
    team.now = t;
    team.f->module->thread->x = (unsigned)t;
    swapcontext(&team.home, &team.thread[t]);
}

static void prepare(int t) {
    getcontext(&team.thread[t]);
    team.thread[t].uc_stack.ss_sp = team.stack + (size_t)t * STACK;
    team.thread[t].uc_stack.ss_size = STACK;
    team.thread[t].uc_link = &team.home;
    makecontext(&team.thread[t], enter, 0);
    team.state[t] = READY;
}

/* Threads from .. to-1 that are done or wait at `at` become ready, if that is all of them. */
static bool release(int from, int to, State at) {
    int waiting = 0;
    for (int t = from; t < to && t < team.n; t++) {
        if (team.state[t] == at)
            waiting++;
        else if (team.state[t] != DONE)
            return false;
    }
    for (int t = from; t < to && t < team.n; t++)
        if (team.state[t] == at) team.state[t] = READY;
    return waiting > 0;
}

static void run_team(void) {
    for (bool more = true; more;) {
        more = false;
        for (int t = 0; t < team.n; t++)
            if (team.state[t] == READY) go_on(t);
        for (int w = 0; w < team.n; w += WARP) more |= release(w, w + WARP, AT_WARP);
        more |= release(0, team.n, AT_BLOCK);
    }
    for (int t = 0; t < team.n; t++)
        if (team.state[t] != DONE)
            fake_breach("%s: not all threads come to a barrier", team.f->name);
}

static void run_block(void) {
    prepare(0);
    go_on(0);
    if (team.state[0] != DONE) {
        for (int t = 1; t < team.n; t++) prepare(t);
        run_team();
        return;
    }
    team.alone = true;
    for (team.now = 1; team.now < team.n; team.now++) {
        team.f->module->thread->x = (unsigned)team.now;
        call(team.f, team.arg, team.nargs);
    }
    team.alone = false;
}

void fake_execute(const Function *f, unsigned blocks, unsigned rows, unsigned threads,
                  const uint64_t *arg, int n) {
    if (!team.stack) {
        void *at = mmap(NULL, (size_t)THREADS * STACK, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (at == MAP_FAILED) fake_breach("no memory for threads");
        team.stack = at;
    }
    team.f = f;
    team.arg = arg;
    team.nargs = n;
    team.n = (int)threads;
    *f->module->block_dim = (Index){threads, 1, 1};
    *f->module->grid_dim = (Index){blocks, rows, 1};
    for (unsigned b = 0; b < blocks * rows; b++) {
        *f->module->block = (Index){b % blocks, b / blocks, 0};
        run_block();
        if (*f->module->boxes) fake_breach("%s: boxes that nobody waits for", f->name);
    }
}

void fake_breach_in(const char *why) {
    fake_breach("%s: %s", team.f->name, why);
}

void fake_end_threads(void) {
    if (team.stack) munmap(team.stack, (size_t)THREADS * STACK);
}
