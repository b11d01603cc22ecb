/* SPDX-License-Identifier: Apache-2.0 */
/* What emitted code and the runtime know of each other. The first emitted unit carries the text of
 * this header; no system header is needed beyond the integer types.
 *
 * A compiled model is one `weir_program`: tables that say how the symbols follow from the dims of
 * the inputs, three emitted functions, and the model's public face. The runtime does the rest: it
 * checks arguments, owns memory, starts the threads and calls `run` on each of them (SPMD: all
 * threads walk the same program; kernels split their tasks; weir_barrier between). */
#ifndef WEIR_RT_H
#define WEIR_RT_H

#include "runtime/call.h"
#include "runtime/weir_pool.h"

enum { WEIR_RT_VERSION = 7 };

typedef struct weir_program weir_program;
typedef struct weir_frame weir_frame;

/* Where a symbol's value comes from: dim `dim` of input `port`, as given = mul * symbol + add; the
 * strides of an input or output, which say how many rows along dim `dim` there are to spare;
 * whether output `dim` lies in the memory of input `port`; or a call, while running. For one that a
 * call defines two numbers stand in before that: its upper bound, in sizes that callers see, and
 * its `place` value, which fixes where things lie in the arena: the upper bound too, or, when there
 * is none, its smallest value (what grows with it then lies on the heap). */
enum { WEIR_FROM_CALL, WEIR_FROM_DIM, WEIR_FROM_SPARE_IN, WEIR_FROM_SPARE_OUT, WEIR_FROM_SHARED };
typedef struct weir_symbol {
    const char *name;
    int64_t lo, hi;
    int32_t from, port, dim;
    int64_t mul, add;
} weir_symbol;

/* Values that `eval` computes, in this order; then all input dims, then all output dims, then two
 * sizes for each weir_require. */
enum { WEIR_V_ARENA, WEIR_V_THREAD, WEIR_V_CALL, WEIR_V_DIMS };

/* Two sizes that must be equal, or (broadcast) equal or one of them 1. `a` and `b` are their texts,
 * with the dims of inputs that they are. */
typedef struct weir_require {
    const char *a, *b, *node;
    int32_t value; /* the first of both */
    int32_t broadcast;
} weir_require;

/* Integers of an input that are used as indices: lo..hi, or (value >= 0) -v..v-1 of that value. */
typedef struct weir_range {
    int32_t input, value;
    int64_t lo, hi;
} weir_range;

/* When an output's dims are known: from the inputs; once calls have run, before anything is written
 * to it; only after it was written, to room for the largest; or it grows on the heap, as container
 * when - WEIR_ON_HEAP. */
enum { WEIR_KNOWN, WEIR_LATE, WEIR_BY_CALL, WEIR_ON_HEAP };

struct weir_program {
    int32_t version;
    int32_t nsymbol;
    const weir_symbol *symbol;
    int32_t nrequire, nrange;
    const weir_require *require;
    const weir_range *range;
    int32_t nvalue;       /* WEIR_V_DIMS + all dims + 2 * nrequire */
    int32_t nheap;        /* containers on the heap: their size has no bound from the inputs */
    const uint16_t *when; /* by output: WEIR_KNOWN, ... */
    uint64_t cpu;         /* WEIR_CPU_... needed */
    weir_model model;
    /* Fills the symbols that calls define with their upper bounds (INT64_MAX: none), and `place`.
     */
    void (*bound)(int64_t *symbol, int64_t *place);
    /* While running: gives symbols without a value (INT64_MAX in `given`) what those that have one
     * bound them by. */
    void (*follow)(const int64_t *given, int64_t *symbol);
    /* Sizes and dims; saturates at INT64_MAX. */
    void (*eval)(const int64_t *symbol, const int64_t *place, int64_t *value);
    /* Bytes of containers on the heap; 0 for what waits for symbols without a value in `given`. */
    void (*heap)(const int64_t *given, const int64_t *symbol, int64_t *bytes);
    void (*run)(weir_frame *frame, int t, int n);
    /* Where the weights are: `delta` bytes from this struct, or (delta 0) in the file
     * `weights_file` beside the library. Patched into the linked library, or set by whoever loads
     * it in process. */
    const volatile struct weir_blob *blob;
    /* The constant part, or NULL: a program whose inputs are stored weights, each at raw[input]
     * bytes from their start, and whose outputs lie in a set of weights of made_bytes at
     * made[output]. */
    const weir_program *prepare;
    const int64_t *raw, *made;
    int64_t made_bytes;
    const int32_t *weight_input; /* by weight of model.weights: input of the constant part */
    const char *weights_file;
    const weir_string *text; /* constant strings by handle; the first is "" */
    int64_t ntext;           /* 0: no strings and no objects */
    int32_t nprofiled;       /* kernels and calls that a profile times; 0: none */
    const char *const *profiled;
    uint64_t weights_check; /* first 8 bytes of the file, so that another model's is not taken */
    const struct weir_device *device;    /* where kernels run; NULL: here */
    const struct weir_image *image;      /* their code */
    const char *name;                    /* of the CPU, in a library with code for several */
    const weir_program *const *versions; /* all of them, the best first, NULL-ended; or NULL */
};

/* The one instance in a library starts with these two words, by which a patcher finds it in the
 * file. */
#define WEIR_BLOB_MAGIC0 UINT64_C(0x9a3f51c6e8b2470d)
#define WEIR_BLOB_MAGIC1 UINT64_C(0xd7046b1f2ec5938a)
struct weir_blob {
    uint64_t magic0, magic1;
    int64_t delta;
    uint64_t bytes;
};

/* All threads of a run wait for each other (barrier.c): how often each has come to a barrier of
 * this run, and where it was then. */
typedef struct weir_seat {
    _Alignas(64) uint32_t phase;
    int32_t cpu;
    int32_t sleepers;
} weir_seat;
typedef struct weir_barrier {
    int32_t spin;    /* nanoseconds before sleeping; 0 when threads outnumber CPUs */
    weir_seat *seat; /* one per thread, all of one phase when the run starts */
} weir_barrier;

/* One run, shared by its threads. */
struct weir_frame {
    int64_t *symbol;
    const int64_t *place;
    char *const *in;
    char *const *out;
    char *arena;
    const char *weights;
    char *made;    /* what the constant part made of them */
    char *scratch; /* of calls */
    int64_t scratch_bytes;
    char *thread; /* n blocks of thread_bytes: scratch of kernels */
    int64_t thread_bytes;
    char **heap;
    struct weir_objects *objects;
    char *hold;     /* on a device: room for carried containers that trade places */
    int32_t *fault; /* on a device: what went wrong, by number of the launch */
    int32_t stop;   /* set by thread 0 between barriers: leave the walk */
    const weir_program *program;
    weir_instance *instance;
    int32_t status;     /* weir_status of the first failure */
    const char *reason; /* its text, static */
    weir_barrier barrier;
};

/* In a loop that waits for another thread. */
static inline void weir_relax(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#else
    __asm__ volatile("yield");
#endif
}

/* Called by emitted code. */
void weir_rt_barrier(weir_frame *frame, int t, int n);
void weir_rt_fail(weir_frame *frame, int32_t status, const char *reason);
/* On thread 0, after a call defined symbols: makes room for what has its size from them. */
void weir_rt_defined(weir_frame *frame);
/* A call has found what a bounded symbol is; beyond what memory is planned for, the run ends. */
void weir_rt_define(weir_frame *frame, int32_t symbol, int64_t value, const char *reason);
/* A size from data: negative, the run ends. */
void weir_rt_size(weir_frame *frame, int64_t size, const char *reason);
/* Is there room for an output of `count` elements? */
void weir_rt_room(weir_frame *frame, int32_t output, int64_t count);

/* bounds.c: in code compiled with `checked`. A kernel left off before the access `what`; do `bytes`
 * from `at` on lie in one part of the run's memory? If not, the run fails, naming who asks. */
void weir_rt_stray(weir_frame *frame, const char *kernel, const char *what, int64_t index,
                   int64_t size);
int weir_rt_inside(weir_frame *frame, const char *who, const char *name, const char *at,
                   int64_t bytes);

/* profile.c: in code compiled with `profile`, what thread t did since weir_rt_now() was `from`. */
int64_t weir_rt_now(void);
void weir_rt_span(weir_frame *frame, int t, int32_t kernel, int64_t from);
weir_status weir_rt_profile(const weir_instance *instance, weir_profile *out);

/* Pointed at by the emitted descriptor. */
int32_t weir_rt_version(const weir_program *program, char *error);
weir_status weir_rt_create(const weir_program *program, const weir_pool *pool, weir_instance **out,
                           char *error);
weir_status weir_rt_create_on(const weir_program *program, int32_t device, const weir_pool *pool,
                              weir_instance **out, char *error);
weir_status weir_rt_reserve(weir_instance *instance, const weir_tensor *largest_inputs);
weir_status weir_rt_run(weir_instance *instance, const weir_tensor *in, weir_tensor *out);
void weir_rt_destroy(weir_instance *instance);
const char *weir_rt_error(const weir_instance *instance);
weir_weights *weir_rt_weights_of(weir_instance *instance);
weir_status weir_rt_weights_new(const weir_weights *from, const weir_pool *pool, int32_t n,
                                const char *const *name, const weir_tensor *value,
                                weir_weights **out, char *error);
weir_status weir_rt_weights_use(weir_instance *instance, weir_weights *weights);
void weir_rt_weights_free(weir_weights *weights);
weir_status weir_rt_shapes(weir_instance *instance, const weir_tensor *in, weir_tensor *out);

/* pool.c: spins while *at == value, at most ns nanoseconds; nonzero when it changed. */
int weir_spin(const uint32_t *at, uint32_t value, int ns);
/* How long waiting spins: longer than it takes to wake a thread (60 microseconds), or a caller
 * whose worker had to be woken sleeps too, and by the time it is woken the worker sleeps again. */
enum { WEIR_SPIN_NS = 100000 };

/* cpu.c: bits of weir_program.cpu; the first missing one's name, or NULL when all are here. */
const char *weir_cpu_missing(uint64_t need);

#endif
