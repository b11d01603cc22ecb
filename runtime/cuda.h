/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of the CUDA runtime: cuda_driver.c (the driver's functions), cuda.c (devices,
 * instances), cuda_library.c (what a vendor's library makes), cuda_run.c (runs), cuda_record.c
 * (recorded ones). */
#ifndef WEIR_CUDA_RUNTIME_H
#define WEIR_CUDA_RUNTIME_H

#include "runtime/device.h"
#include "runtime/instance.h"

/* ---- the driver, opened at run time -----------------------------------------------------------
 */

typedef uint64_t cu_address;
typedef void *cu_handle; /* contexts, modules, functions, streams, graphs, events */

/* An attribute of a launch, and a launch, as the driver lays them out. */
typedef struct CudaAttribute {
    int what, unused;
    union {
        int value;
        char room[64];
    };
} CudaAttribute;

typedef struct CudaLaunch {
    unsigned grid[3], block[3], shared;
    cu_handle stream;
    CudaAttribute *attribute;
    unsigned nattribute;
} CudaLaunch;

/* A tensor, as the engine that copies boxes of it wants it described: opaque. */
typedef struct CudaTensor {
    _Alignas(64) uint64_t word[16];
} CudaTensor;

/* CALL(member, symbol, parameters): what we use of libcuda.so.1; all return 0 or an error. */
#define CUDA_CALLS                                                                                 \
    CALL(init, cuInit, (unsigned flags))                                                           \
    CALL(device_count, cuDeviceGetCount, (int *n))                                                 \
    CALL(device_get, cuDeviceGet, (int *device, int ordinal))                                      \
    CALL(device_attribute, cuDeviceGetAttribute, (int *value, int what, int device))               \
    CALL(context_retain, cuDevicePrimaryCtxRetain, (cu_handle * context, int device))              \
    CALL(context_release, cuDevicePrimaryCtxRelease_v2, (int device))                              \
    CALL(context_push, cuCtxPushCurrent_v2, (cu_handle context))                                   \
    CALL(context_pop, cuCtxPopCurrent_v2, (cu_handle * context))                                   \
    CALL(context_current, cuCtxGetCurrent, (cu_handle * context))                                  \
    CALL(context_device, cuCtxGetDevice, (int *device))                                            \
    CALL(module_load, cuModuleLoadData, (cu_handle * module, const void *image))                   \
    CALL(module_unload, cuModuleUnload, (cu_handle module))                                        \
    CALL(module_function, cuModuleGetFunction,                                                     \
         (cu_handle * function, cu_handle module, const char *name))                               \
    CALL(function_set, cuFuncSetAttribute, (cu_handle function, int what, int value))              \
    CALL(alloc, cuMemAlloc_v2, (cu_address * at, size_t bytes))                                    \
    CALL(free, cuMemFree_v2, (cu_address at))                                                      \
    CALL(host_alloc, cuMemHostAlloc, (void **at, size_t bytes, unsigned flags))                    \
    CALL(host_free, cuMemFreeHost, (void *at))                                                     \
    CALL(pointer_attributes, cuPointerGetAttributes,                                               \
         (unsigned n, int *what, void **value, cu_address at))                                     \
    CALL(to_device, cuMemcpyHtoDAsync_v2,                                                          \
         (cu_address to, const void *from, size_t bytes, cu_handle stream))                        \
    CALL(to_host, cuMemcpyDtoHAsync_v2,                                                            \
         (void *to, cu_address from, size_t bytes, cu_handle stream))                              \
    CALL(copy, cuMemcpyDtoDAsync_v2,                                                               \
         (cu_address to, cu_address from, size_t bytes, cu_handle stream))                         \
    CALL(fill, cuMemsetD8Async, (cu_address at, unsigned char v, size_t bytes, cu_handle stream))  \
    CALL(function_get, cuFuncGetAttribute, (int *value, int what, cu_handle function))             \
    CALL(launch, cuLaunchKernelEx,                                                                 \
         (const CudaLaunch *how, cu_handle function, void **params, void **extra))                 \
    CALL(describe, cuTensorMapEncodeTiled,                                                         \
         (CudaTensor * out, int type, unsigned rank, void *at, const uint64_t *size,               \
          const uint64_t *stride, const unsigned *box, const unsigned *step, int interleave,       \
          int swizzle, int promotion, int fill))                                                   \
    CALL(stream_new, cuStreamCreate, (cu_handle * stream, unsigned flags))                         \
    CALL(stream_free, cuStreamDestroy_v2, (cu_handle stream))                                      \
    CALL(stream_wait, cuStreamSynchronize, (cu_handle stream))                                     \
    CALL(event_new, cuEventCreate, (cu_handle * event, unsigned flags))                            \
    CALL(event_free, cuEventDestroy_v2, (cu_handle event))                                         \
    CALL(event_record, cuEventRecord, (cu_handle event, cu_handle stream))                         \
    CALL(event_wait, cuEventSynchronize, (cu_handle event))                                        \
    CALL(capture_begin, cuStreamBeginCapture_v2, (cu_handle stream, int mode))                     \
    CALL(capture_end, cuStreamEndCapture, (cu_handle stream, cu_handle * graph))                   \
    CALL(graph_instantiate, cuGraphInstantiateWithFlags,                                           \
         (cu_handle * exec, cu_handle graph, unsigned long long flags))                            \
    CALL(graph_launch, cuGraphLaunch, (cu_handle exec, cu_handle stream))                          \
    CALL(graph_free, cuGraphDestroy, (cu_handle graph))                                            \
    CALL(exec_free, cuGraphExecDestroy, (cu_handle exec))                                          \
    CALL(error_text, cuGetErrorString, (int error, const char **text))

typedef struct CudaDriver {
    void *library;
#define CALL(member, symbol, parameters) int(*member) parameters;
    CUDA_CALLS
#undef CALL
} CudaDriver;

enum { CUDA_INVALID = 1, CUDA_MEMORY = 2, CUDA_NO_CODE = 209, CUDA_NO_FUNCTION = 500 };

/* Opens the driver; on failure gives the reason in `why`. */
weir_status cuda_open(CudaDriver *cu, char why[256]);
void cuda_close(CudaDriver *cu);
const char *cuda_text(const CudaDriver *cu, int error);

/* ---- state ------------------------------------------------------------------------------------
 */

/* A device with the model's code and weights on it; shared by the library's instances. */
typedef struct weir_device_shared {
    struct weir_device_shared *next;
    int holders, device;
    CudaDriver cu;
    cu_handle context, module;
    cu_handle *function; /* by kernel of the image */
    int follows;         /* kernels can wait for the launch ahead themselves */
    cu_address weights;
    struct CudaProducts *products;         /* NULL: no kernel was given to cuBLASLt */
    struct CudaConvolutions *convolutions; /* nor to cuDNN */
} CudaShared;

/* A run that was there before, by what decides its launches: symbols and addresses of ports. One of
 * more launches than LAUNCHES_MOST is not recorded: graphs take memory for each. */
enum { RECORDS = 32, LAUNCHES_MOST = 1 << 15 };
/* Whose blocks come before the launch ahead is done. */
enum { EARLY_NEVER, EARLY_ALWAYS, EARLY_RECORDED };
typedef struct CudaRecord {
    int64_t *key;
    uint64_t asked; /* for it last, by number of the run; 0: none */
    cu_handle exec; /* NULL: not recorded */
    int walks;      /* it has too many launches */
} CudaRecord;

/* What an instance has on its device. */
typedef struct weir_device_state {
    CudaShared *shared;
    cu_handle stream; /* its own */
    cu_handle on;     /* the stream of the run at hand: its own or the caller's */
    cu_handle ended;  /* an event behind a run that was submitted */
    cu_address block; /* arena, hold, scratch, ports that are not direct */
    int64_t block_bytes;
    char *pinned; /* the word for faults, which kernels write here; then the same ports */
    int64_t pinned_bytes;
    char *call; /* operands of a call on the host; then its scratch */
    int64_t call_bytes;
    char *scratch;
    int64_t scratch_bytes;
    int64_t hold_bytes; /* of the block: room for calls */
    cu_address room;    /* more of it, that data made grow during a run */
    int64_t room_bytes;
    char *work;          /* of the block: what a library works in */
    cu_address made;     /* of the set of weights `of` */
    weir_weights *of;    /* held */
    weir_tensor *tensor; /* by input, then output: as kernels see it */
    char *remote;        /* the same: its data lie on the device */
    int64_t *slot;       /* the same: bytes from the start of the block and of its twin; -1: none */
    int64_t slot_end;
    int nkey;
    int64_t *key; /* of this run; then those of `record` */
    CudaRecord record[RECORDS];
    uint64_t asked;   /* runs so far */
    weir_tensor *out; /* of the last run that was submitted, the caller's */
    int alone;        /* that run needs nothing of the host: all its ports lie on the device */
    weir_frame frame;
    int early;        /* EARLY_... */
    int recording;    /* 1 + launches so far, which are recorded, not begun; 0: they are begun */
    int blocking;     /* every launch is waited for, so that a failure has a name */
    char reason[384]; /* of the frame's failure */
} CudaState;

/* Records a failure in the instance; 0 gives WEIR_OK. */
weir_status cuda_check(weir_instance *in, int error, const char *what);
int cuda_enter(weir_instance *in); /* 0: done */
void cuda_leave(weir_instance *in);

/* cuda_walk.c. cuda_note: of a failure, what and of what; keeps the first. cuda_fetch: waits for
 * what was launched and brings bytes here. cuda_host_grow: 0 when there is no memory; forgets
 * content. */
void cuda_note(weir_frame *f, int error, const char *what, const char *of);
void cuda_fetch(weir_frame *f, void *to, const void *from, int64_t bytes);
int cuda_host_grow(char **at, int64_t *have, int64_t need);
/* The device's scratch for a call; NULL when there is no memory. */
char *cuda_room(weir_frame *f, int64_t need);
int64_t cuda_tensor_bytes(const weir_tensor *t);

enum { CUDA_ALIGN = 256 };
static inline int64_t cuda_rounded(int64_t n) {
    return n > INT64_MAX - CUDA_ALIGN ? INT64_MAX : (n + CUDA_ALIGN - 1) / CUDA_ALIGN * CUDA_ALIGN;
}
static inline char *cuda_pointer(cu_address at) {
    return (char *)(uintptr_t)at;
}

static inline cu_address cuda_address(const void *at) {
    return (cu_address)(uintptr_t)at;
}

/* cuda_library.c, in the device's context: opens what the model's rows need and plans these; bytes
 * of the device that a run's calls work in. */
weir_status cuda_library_open(weir_instance *in, CudaShared *s);
void cuda_library_close(CudaShared *s);
int64_t cuda_library_bytes(const CudaShared *s);
/* For its parts. Opens the first that can be of n files, or gives the reason why the first cannot;
 * looks functions up, and gives the name of one that is missing, or NULL. */
typedef struct CudaSymbol {
    const char *name;
    void *to; /* a pointer to such a function */
} CudaSymbol;
void *cuda_library_load(const char *const *names, int n, char why[128]);
const char *cuda_library_find(void *library, const CudaSymbol *symbol, size_t n);
/* Behind a call: notes its error, and why; a run that blocks waits for it. */
void cuda_library_done(weir_frame *f, int error, const char *library, const char *why,
                       const char *from);
/* cuda_products.c and cuda_convolutions.c: the same of one library each. */
weir_status cuda_products_open(weir_instance *in, CudaShared *s);
void cuda_products_close(CudaShared *s);
int64_t cuda_products_bytes(const CudaShared *s);
weir_status cuda_convolutions_open(weir_instance *in, CudaShared *s);
void cuda_convolutions_close(CudaShared *s);
int64_t cuda_convolutions_bytes(const CudaShared *s);

/* cuda_run.c */
weir_status cuda_reserve(weir_instance *in, const weir_tensor *largest);
weir_status cuda_run(weir_instance *in, const weir_tensor *inputs, weir_tensor *outputs);
void cuda_put(weir_frame *f); /* what a run does, on the stream */
/* cuda_record.c: the same, or one that was recorded; forgets all of these. */
void cuda_start(weir_frame *f);
void cuda_forget(weir_instance *in);

#endif
