/* SPDX-License-Identifier: Apache-2.0 */
/* libweir_rt: a pool of threads for hosts that want one without a model, or one for several models.
 * The same functions stand in every model's descriptor (pool_new, pool_free). */
#ifndef WEIR_POOL_H
#define WEIR_POOL_H

#include "runtime/weir_model.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A pool of n threads, the caller's among them (0: as many as weir_cpus says); NULL: no memory. */
weir_pool *weir_pool_new(int threads);
void weir_pool_free(weir_pool *pool);
/* CPUs that this process may use: affinity mask and cgroup quota. */
int weir_cpus(void);

#ifdef __cplusplus
}
#endif
#endif
