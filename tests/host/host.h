/* SPDX-License-Identifier: Apache-2.0 */
/* What the checks of this folder share: a compiled model with inputs of chosen sizes, and counters
 * of this process. Like any host, they know Weir by runtime/weir_model.h alone. */
#ifndef WEIR_TESTS_HOST_H
#define WEIR_TESTS_HOST_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/weir_model.h"

enum { PORTS = 64 };

/* A library and the sizes its symbols may take: 1 .. limit. */
typedef struct Model {
    const char *path;
    int64_t limit;
    void *so;
    const weir_model *m;
} Model;

/* Inputs and outputs of one run; buffers as large as the limit asks for. */
typedef struct Call {
    weir_tensor in[PORTS], out[PORTS];
} Call;

void die(const char *fmt, ...) __attribute__((format(printf, 1, 2), noreturn));
void model_open(Model *m);
void model_close(Model *m);
weir_instance *instance_new(const Model *m, const weir_pool *pool);

/* Buffers for the largest sizes (the square of the limit where an extent has no bound), filled with
 * numbers that depend on nothing else. */
Call *call_new(const Model *m, weir_instance *instance);
void call_free(const Model *m, Call *c);
/* Other values in the same buffers. */
void call_fill(const Model *m, Call *c, uint64_t seed);
/* Gives every symbol a size in 1 .. limit that follows from its name and `seed`; 0: the limit. */
void call_size(const Model *m, Call *c, uint64_t seed);
/* Runs; ends the process with the model's words when that fails. A hash of all outputs. */
uint64_t call_run(const Model *m, weir_instance *instance, Call *c);
weir_status call_try(const Model *m, weir_instance *instance, Call *c);

/* count.c: calls of the malloc family and of mmap since the process began. */
int64_t allocations(void);

/* Of this process. What memory is resident wavers; what leaks grows every time. `growth` says by
 * how much the residence after each of n like rounds grew at least. */
int64_t heap_bytes(void); /* allocated and not freed */
int64_t resident_bytes(void);
int64_t growth(const int64_t *resident, int n);
int open_files(void);
int thread_count(void);
bool is_mapped(const char *path);
double now_ms(void);
double cpu_ms(void); /* of the calling thread */

#endif
