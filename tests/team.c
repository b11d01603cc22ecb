/* SPDX-License-Identifier: Apache-2.0 */
/* Each thread is a context of its own on one real thread: `parallel` goes round and has each run
 * until it comes to a barrier or ends; the barrier goes back. All must come to the same number of
 * barriers. Memory for stacks is only touched where it is used. */
#include "tests/team.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>

#include "runtime/instance.h"

enum { STACK = 16 << 20 };

typedef struct Turn {
    ucontext_t context;
    Team *team;
    char *stack;
    int t;
    bool ended;
} Turn;

struct Team {
    weir_pool pool;
    bool last_first, met;
    ucontext_t round;
    Turn turn[TEAM];
    void (*work)(void *arg, int t, int n);
    void *arg;
};

/* makecontext hands on integers only: the address in two halves. */
static void begin(unsigned high, unsigned low) {
    Turn *turn = (Turn *)(uintptr_t)((uint64_t)high << 32 | low);
    turn->team->work(turn->team->arg, turn->t, TEAM);
    turn->ended = true;
    swapcontext(&turn->context, &turn->team->round);
}

static void start(Team *team, int t) {
    Turn *turn = &team->turn[t];
    uint64_t at = (uintptr_t)turn;
    turn->ended = false;
    getcontext(&turn->context);
    turn->context.uc_stack = (stack_t){.ss_sp = turn->stack, .ss_size = STACK};
    turn->context.uc_link = NULL;
    makecontext(&turn->context, (void (*)(void))begin, 2, (unsigned)(at >> 32), (unsigned)at);
}

static void in_turn(void *context, int n, void (*work)(void *arg, int t, int n), void *arg) {
    Team *team = context;
    int ended = 0;
    team->work = work;
    team->arg = arg;
    team->met &= n == TEAM;
    for (int t = 0; t < TEAM; t++) start(team, t);
    while (ended < TEAM) {
        int before = ended;
        for (int i = 0; i < TEAM; i++) {
            Turn *turn = &team->turn[team->last_first ? TEAM - 1 - i : i];
            if (turn->ended) continue;
            swapcontext(&team->round, &turn->context);
            ended += turn->ended;
        }
        team->met &= ended == before || ended - before == TEAM;
    }
}

void weir_rt_barrier(weir_frame *frame, int t, int n) {
    if (n == 1) return;
    Team *team = frame->instance->pool->context;
    swapcontext(&team->turn[t].context, &team->round);
}

Team *team_new(bool last_first) {
    Team *team = calloc(1, sizeof *team);
    if (!team) abort();
    team->pool = (weir_pool){sizeof team->pool, team, TEAM, in_turn};
    team->last_first = last_first;
    team->met = true;
    for (int t = 0; t < TEAM; t++) {
        team->turn[t].team = team;
        team->turn[t].t = t;
        team->turn[t].stack = mmap(NULL, STACK, PROT_READ | PROT_WRITE,
                                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (team->turn[t].stack == MAP_FAILED) abort();
    }
    return team;
}

const weir_pool *team_pool(Team *team) {
    return &team->pool;
}

bool team_met(const Team *team) {
    return team->met;
}

void team_free(Team *team) {
    for (int t = 0; t < TEAM; t++) munmap(team->turn[t].stack, STACK);
    free(team);
}
