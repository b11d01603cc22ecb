/* SPDX-License-Identifier: Apache-2.0 */
/* libweir_rt: a pool of threads for hosts that want one without a model, or one for several models.
 * The same functions stand in every model's descriptor (pool_new, pool_free). */
#ifndef WEIR_POOL_H
#define WEIR_POOL_H

#include "runtime/weir_model.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A pool of n threads, the caller's among them (0: as many as weir_cpus says); NULL: no memory.
 * Workers take the affinity mask of the thread that runs the first job, and keep it but for a
 * moment: one that was last on the CPU of another thread of its job is woken on a different one of
 * its mask. They spin for 100 microseconds after a job. */
weir_pool *weir_pool_new(int threads);
void weir_pool_free(weir_pool *pool);
/* CPUs that this process may use: affinity mask and cgroup quota. */
int weir_cpus(void);

#ifdef __cplusplus
}
#endif
#endif
