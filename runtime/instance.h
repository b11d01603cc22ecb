/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by args.c (what the caller gave) and model.c (what to do with it). */
#ifndef WEIR_INSTANCE_H
#define WEIR_INSTANCE_H

#include "runtime/objects.h"
#include "runtime/weir_rt.h"

/* A side file in memory; counted, as sets of weights may outlive the instance that opened it. */
typedef struct weir_weights_map {
    int holders;
    void *at;
    size_t bytes;
} weir_weights_map;

struct weir_instance {
    const weir_program *program;
    const weir_pool *pool;
    int threads;
    int spin;        /* nanoseconds a barrier spins */
    weir_seat *seat; /* of its threads at barriers */
    int64_t *symbol; /* of the run at hand */
    int64_t *place;
    int64_t *now;     /* symbols, those not yet defined with their place values */
    int64_t *value;   /* eval's results */
    char **in, **out; /* dense data of each port during a run */
    int64_t *room;    /* elements each output has room for */
    char *staged;     /* by output: computed in our memory, then copied */
    char **heap;      /* containers without bounds, and their bytes */
    int64_t *heap_bytes;
    char *late_call, *late_thread; /* scratch that data made grow during a run */
    int64_t late_call_bytes, late_thread_bytes;
    char *block; /* all memory of a run */
    int64_t block_bytes;
    int reserved; /* reserve was called: the block does not grow */
    int busy;     /* a run is under way */
    const char *weights;
    weir_weights *set; /* what the constant part made of them; runs hold the one they began with */
    int set_lock;      /* around reading `set` together with its count */
    weir_weights_map *map;
    weir_objects *objects; /* NULL: the model has no strings and objects */
    weir_span **span;      /* of the last run, by thread; NULL: not profiled */
    int64_t *nspan;
    int64_t run_began;                /* by weir_rt_now */
    int32_t ordinal;                  /* of the device; -1: the caller's current one */
    struct weir_device_state *device; /* of a program for a device */
    const char *remote;               /* by input: its data lie on the device; NULL: none do */
    char error[512], stray[512];      /* stray: what a run's bounds checks found */
};

/* Records the text and returns the status. */
weir_status weir_instance_fail(weir_instance *in, weir_status status, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* model.c: what surrounds a run: arguments bound, dims of the outputs filled in, room for them
 * checked; afterwards the final dims, and an output of strings or objects, whose handles lie at
 * `at`. */
weir_status weir_run_begin(weir_instance *in, const weir_tensor *inputs, weir_tensor *outputs);
weir_status weir_run_end(weir_instance *in, weir_tensor *outputs);
/* -1 for dims that nothing bounds, or that only a part of the run tells which was not reached. */
void weir_open_dims(const weir_instance *in, weir_tensor *outputs);
weir_status weir_give_one(weir_instance *in, int k, weir_tensor *t, const char *at);
weir_status weir_take(weir_instance *in, int k, const weir_tensor *t, char *at);
int64_t weir_rounded(int64_t n);
int64_t weir_sum(int64_t a, int64_t b); /* saturates */

/* profile.c */
int weir_profile_open(weir_instance *in); /* nonzero: out of memory */
void weir_profile_close(weir_instance *in);
void weir_profile_begin(weir_instance *in);

/* weights.c */
weir_status weir_weights_open(weir_instance *in); /* finds them, or the side file's */
weir_status weir_weights_prepare(weir_instance *in);
char *weir_weights_made(const weir_weights *set);
void weir_weights_close(weir_instance *in);

/* args.c */
const int64_t *weir_in_dims(const weir_instance *in, int k); /* evaluated dims of input k */
const int64_t *weir_out_dims(const weir_instance *in, int k);
int64_t weir_bytes(int32_t dtype, int64_t n); /* of n packed elements; saturates */
int weir_bits(int32_t dtype);
int weir_dtype_known(int32_t dtype);
int weir_is_object(int32_t dtype); /* elements are handles while running */
/* Binds symbols from the inputs' dims, evaluates all values, checks dims and (data nonzero)
 * pointers. */
weir_status weir_bind(weir_instance *in, const weir_tensor *inputs, int data);
/* E_ARGUMENT where a dim of an output is negative; `before` the run of those known then. */
weir_status weir_check_out_dims(weir_instance *in, int before);

/* strides.c */
int weir_is_dense(const weir_tensor *t);
int64_t weir_reach(const weir_tensor *t); /* elements from data to the last one used; saturates */
/* Can kernels take the argument as it lies? Else it is copied. */
int weir_direct_in(const weir_instance *in, int k, const weir_tensor *t);
int weir_direct_out(const weir_instance *in, int k, const weir_tensor *t);
/* Symbols that say how the caller's memory lies. Dims of the outputs are filled in. */
void weir_bind_memory(weir_instance *in, const weir_tensor *inputs, const weir_tensor *outputs);
/* No output overlaps an input that it is not bound to, another output, or itself. */
weir_status weir_check_overlap(weir_instance *in, const weir_tensor *inputs,
                               const weir_tensor *outputs);
/* Elements of `t`, dense at `dense`, from or to its strided place. */
void weir_gather(char *dense, const weir_tensor *t);
void weir_scatter(const weir_tensor *t, const char *dense);

/* For what takes shorter than a thread to sleep and wake. */
static inline void weir_lock(int32_t *lock) {
    while (__atomic_exchange_n(lock, 1, __ATOMIC_ACQUIRE)) weir_relax();
}
static inline void weir_unlock(int32_t *lock) {
    __atomic_store_n(lock, 0, __ATOMIC_RELEASE);
}

#endif
