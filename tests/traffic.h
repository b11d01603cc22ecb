/* SPDX-License-Identifier: Apache-2.0 */
/* Limits of what kernels of blocks and threads may waste. */
#ifndef WEIR_TESTS_TRAFFIC_H
#define WEIR_TESTS_TRAFFIC_H

#include "ir/nest.h"

/* A text may have a line `# traffic: sectors <= 1.5, conflicts <= 0.1`: how many times the least
 * number of sectors each kernel may touch, and how often a request of shared memory may wait for
 * another on average. The first kernel that exceeds it, as a sentence in the arena; NULL: none. */
const char *traffic_excess(Arena *arena, const Program *program, const NestTraffic *traffic,
                           const char *text);

#endif
