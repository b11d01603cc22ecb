/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/traffic.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The value behind NAME in a line. */
static double limit_of(const char *line, const char *name) {
    const char *at = strstr(line, name);
    return at && at < line + strcspn(line, "\n") ? strtod(at + strlen(name), NULL) : INFINITY;
}

const char *traffic_excess(Arena *arena, const Program *program, const NestTraffic *traffic,
                           const char *text) {
    const char *line = strstr(text, "# traffic:");
    for (int k = 0; line && k < program->nest.n; k++) {
        const NestTraffic *t = &traffic[k];
        double sectors = t->least ? (double)t->sectors / (double)t->least : 1;
        double conflicts = t->shared ? (double)t->conflicts / (double)t->shared : 0;
        if (sectors > limit_of(line, "sectors <=") || conflicts > limit_of(line, "conflicts <="))
            return arena_printf(arena,
                                "kernel %s touches %.2f times the least sectors (%lld of %lld "
                                "requests more than twice) and waits %.2f times for a bank in a "
                                "request",
                                program->nest.at[k]->name, sectors, (long long)t->uncoalesced,
                                (long long)t->requests, conflicts);
    }
    return NULL;
}
