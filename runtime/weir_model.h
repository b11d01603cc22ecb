/* SPDX-License-Identifier: Apache-2.0 */
/* The binary interface of a compiled model: what a host sees of the .so, and all it needs.
 *
 * A model's library exports one symbol, `weir_model_descriptor` (a function that returns the
 * descriptor). Everything else is reached through it; the `weir_...` functions below are inline
 * wrappers. Plain C, no other header of Weir needed.
 *
 *     void *so = dlopen("m.so", RTLD_NOW);
 *     const weir_model *m = ((weir_model_fn *)dlsym(so, WEIR_MODEL_SYMBOL))();
 *     weir_instance *in;
 *     weir_create(m, NULL, &in, NULL);
 *     weir_run(m, in, inputs, outputs);
 *     weir_destroy(m, in); */
#ifndef WEIR_MODEL_H
#define WEIR_MODEL_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define WEIR_MODEL_SYMBOL "weir_model_descriptor"
enum { WEIR_ABI_VERSION = 2, WEIR_RANK_MAX = 16 };

/* Element types: the numbers of ONNX TensorProto.DataType. */
typedef enum {
    WEIR_F32 = 1,
    WEIR_U8 = 2,
    WEIR_I8 = 3,
    WEIR_U16 = 4,
    WEIR_I16 = 5,
    WEIR_I32 = 6,
    WEIR_I64 = 7,
    WEIR_STRING = 8,
    WEIR_BOOL = 9,
    WEIR_F16 = 10,
    WEIR_F64 = 11,
    WEIR_U32 = 12,
    WEIR_U64 = 13,
    WEIR_C64 = 14,
    WEIR_C128 = 15,
    WEIR_BF16 = 16,
    WEIR_F8E4M3FN = 17,
    WEIR_F8E4M3FNUZ = 18,
    WEIR_F8E5M2 = 19,
    WEIR_F8E5M2FNUZ = 20,
    WEIR_U4 = 21,
    WEIR_I4 = 22,
    WEIR_F4E2M1 = 23,
    WEIR_F8E8M0 = 24,
    WEIR_U2 = 25,
    WEIR_I2 = 26,
    WEIR_F6E2M3 = 27, /* in the lower bits of a byte, as is the next */
    WEIR_F6E3M2 = 28,
    WEIR_OBJECT = 64 /* a sequence, an optional or a map: see weir_value */
} weir_dtype;

typedef enum {
    WEIR_OK = 0,
    WEIR_E_ARGUMENT, /* count, dtype, rank or a dim does not fit; `error` says which */
    WEIR_E_MEMORY,   /* allocation failed */
    WEIR_E_RESERVE,  /* run needs more than reserved; `error` gives the bytes */
    WEIR_E_CAPACITY, /* an output is too small; its dims hold what is needed, -1 what is not known
                        yet */
    WEIR_E_CPU,      /* this CPU lacks what the artifact was compiled for */
    WEIR_E_WEIGHTS,  /* the weights file is missing or does not belong to this artifact */
    WEIR_E_INDEX,    /* a data-dependent index was out of range */
    WEIR_E_VERSION,  /* the library speaks another ABI version */
    WEIR_E_DEVICE    /* no driver, no device, or the device failed; `error` says which */
} weir_status;

/* A tensor argument. Inputs: data, dtype and dims given. Outputs: data and capacity given; dtype
 * and dims are filled in by run. `strides` (in elements) may be NULL: dense, row-major. */
typedef struct weir_allocator {
    void *context;
    void *(*alloc)(void *context, size_t bytes); /* aligned to 16; NULL: there is no memory */
} weir_allocator;

typedef struct weir_tensor {
    void *data;
    int32_t dtype; /* weir_dtype */
    int32_t rank;
    int64_t dims[WEIR_RANK_MAX];
    const int64_t *strides;
    int64_t capacity;                /* elements reachable from data; 0: as many as the dims say */
    const weir_allocator *allocator; /* outputs of strings and objects; NULL: malloc */
} weir_tensor;

/* Strings and objects. A tensor of WEIR_STRING points to dense weir_strings; one of WEIR_OBJECT, of
 * rank 0, points to one weir_value. Inputs stay the caller's and are read during the run only.
 * Outputs: `data` and `capacity` are not looked at; a run that succeeds sets `data` to one block
 * that the output's allocator (or malloc) gave and that holds all there is to the value: the
 * weir_strings or the weir_value first, then what they point to. The block is the caller's, to be
 * freed at once (with `free` when it came from malloc). A run that fails leaves `data` NULL. */
typedef struct weir_string {
    const char *at; /* any bytes, UTF-8 by custom; no end mark */
    int64_t bytes;
} weir_string;

typedef enum {
    WEIR_VALUE_NONE,     /* an optional without a value; one with a value is the value itself */
    WEIR_VALUE_TENSOR,   /* `tensor` */
    WEIR_VALUE_SEQUENCE, /* `count` items */
    WEIR_VALUE_MAP /* 2 items: a tensor of keys of rank 1, a tensor or sequence of as many values */
} weir_value_kind;

typedef struct weir_value {
    int32_t kind; /* weir_value_kind */
    int64_t count;
    const struct weir_value *items;
    weir_tensor tensor; /* dense */
} weir_value;

/* A pool of threads that a host gives to create; called only through these. `parallel` calls
 * fn(arg, t, n) for t = 0 .. n-1 on n threads at once (they wait for each other at barriers inside)
 * and returns when all have. n <= threads. */
typedef struct weir_pool {
    size_t size; /* sizeof(weir_pool) */
    void *context;
    int threads;
    void (*parallel)(void *context, int n, void (*fn)(void *arg, int t, int n), void *arg);
} weir_pool;

/* A named port. Dims are text over the model's symbols: "batch", "3", "2*n+1". */
typedef struct weir_port {
    const char *name;
    int32_t dtype;
    int32_t rank;
    const char *const *dims;
    const char *object; /* WEIR_OBJECT: its type as text, "seq(f32[N])"; else NULL */
} weir_port;

/* A legal pair: an output that continues an input along dim `dim`, as a cache and its new rows.
 * Give both the same data and the same strides, those outside `dim` with room for all rows of the
 * output (a buffer with room for more), and only the new rows are written. Else all rows are
 * copied. */
typedef struct weir_shared {
    int32_t input, output, dim;
} weir_shared;

typedef struct weir_instance weir_instance;
typedef struct weir_weights weir_weights;

/* What a thread did from `begin` to `end`, nanoseconds since the run began. */
typedef struct weir_span {
    int64_t begin, end;
    int32_t kernel; /* index into weir_profile.kernel; -1: waited for other threads */
} weir_span;

/* The last run of an instance; valid until its next one. */
typedef struct weir_profile {
    int32_t nkernels, threads;
    const char *const *kernel;    /* names */
    const weir_span *const *span; /* by thread */
    const int64_t *nspans;        /* by thread; what was beyond room is left out */
} weir_profile;
typedef struct weir_model {
    size_t size; /* sizeof(weir_model) of the library */
    int32_t abi; /* WEIR_ABI_VERSION */
    const char *name;
    int32_t ninputs, noutputs;
    const weir_port *inputs, *outputs;
    const char *build; /* JSON: model hash, options, compiler version */
    /* pool may be NULL: the calling thread. On failure *out is NULL and `error` (>= 256 bytes, may
     * be NULL) gets the reason. */
    weir_status (*create)(const weir_pool *pool, weir_instance **out, char *error);
    /* Memory for runs with inputs up to these dims (data is not looked at); the pool's threads
     * start. Runs within it allocate nothing. */
    weir_status (*reserve)(weir_instance *instance, const weir_tensor *largest_inputs);
    /* Without reserve, the first run and any larger one allocate. */
    weir_status (*run)(weir_instance *instance, const weir_tensor *inputs, weir_tensor *outputs);
    void (*destroy)(weir_instance *instance);
    const char *(*error)(const weir_instance *instance); /* text of this instance's last failure */
    /* Dims of the outputs for these inputs; where they depend on data upper bounds, -1 for none. */
    weir_status (*shapes)(weir_instance *instance, const weir_tensor *inputs, weir_tensor *outputs);
    /* A pool of n threads (0: as many as affinity and cgroup allow). */
    weir_pool *(*pool_new)(int threads);
    void (*pool_free)(weir_pool *pool);
    int64_t weight_bytes;
    /* NULL unless compiled with the option `profile`. */
    weir_status (*profile)(const weir_instance *instance, weir_profile *out);
    int32_t nshared;
    const weir_shared *shared;
    /* Weights by name, when compiled with packing "swap"; else nweights is 0 and the functions are
     * NULL. A set of weights is immutable and counted: it goes when nobody holds it any more.
     * weights_of: the one an instance uses, held for the caller. weights_new: `from` with other
     * values (dense, read during the call) for n weights, made on the pool's threads, or with pool
     * NULL on the caller's; instances may run meanwhile. weights_use: for the instance's runs that
     * begin from now on; one under way keeps the set it has. Instances may share a set. */
    int32_t nweights;
    const weir_port *weights;
    weir_weights *(*weights_of)(weir_instance *instance);
    weir_status (*weights_new)(const weir_weights *from, const weir_pool *pool, int32_t n,
                               const char *const *name, const weir_tensor *value,
                               weir_weights **out, char *error);
    weir_status (*weights_use)(weir_instance *instance, weir_weights *weights);
    void (*weights_free)(weir_weights *weights);
    /* Of a model for a device, else NULL. Its `run` takes data of inputs and outputs in this
     * process's memory or on its device, each as it is. create_on: an instance on device number
     * `device`; create takes the device of the caller's current CUDA context, else the first.
     * submit: puts a run on `stream` (a CUstream of the same device; NULL: one of the instance) and
     * returns; inputs in this process's memory have been read then. What is put on `stream` later
     * sees the outputs that lie on the device; wait ends the run and fills in all outputs, whose
     * descriptors it sets as run does. One run of an instance at a time; only where all inputs and
     * outputs lie on the device and no kernel's launch depends on data, more may be submitted to
     * the same stream, one behind the other, and one wait ends them all and sets the last one's
     * descriptors. */
    weir_status (*create_on)(int32_t device, const weir_pool *pool, weir_instance **out,
                             char *error);
    weir_status (*submit)(weir_instance *instance, const weir_tensor *inputs, weir_tensor *outputs,
                          void *stream);
    weir_status (*wait)(weir_instance *instance);
    /* Of a library with code for several CPUs, else 0 and NULL: their names, the best first, and
     * the number of the one that create takes here: the first that this CPU has all of, or the one
     * that the environment variable WEIR_CPU names; -1 when there is none, with the reason. */
    int32_t nversions;
    const char *const *versions;
    int32_t (*version)(char *error);
} weir_model;

typedef const weir_model *weir_model_fn(void);

static inline weir_status weir_create(const weir_model *m, const weir_pool *pool,
                                      weir_instance **out, char *error) {
    return m->create(pool, out, error);
}
static inline weir_status weir_run(const weir_model *m, weir_instance *instance,
                                   const weir_tensor *in, weir_tensor *out) {
    return m->run(instance, in, out);
}
static inline void weir_destroy(const weir_model *m, weir_instance *instance) {
    m->destroy(instance);
}

/* Other values for n weights of a live instance. */
static inline weir_status weir_swap(const weir_model *m, weir_instance *instance, int32_t n,
                                    const char *const *name, const weir_tensor *value,
                                    char *error) {
    weir_weights *old = m->weights_of(instance), *made = NULL;
    weir_status s = m->weights_new(old, NULL, n, name, value, &made, error);
    if (s == WEIR_OK) s = m->weights_use(instance, made);
    m->weights_free(made);
    m->weights_free(old);
    return s;
}

#ifdef __cplusplus
}
#endif
#endif
