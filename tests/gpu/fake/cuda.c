/* SPDX-License-Identifier: Apache-2.0 */
/* A driver library without a GPU: libcuda.so.1 for tests. Its images are libraries that
 * tests/gpu/fake/nvcc made; a launch calls the kernel once for each thread of each block.
 *
 * What it looks after: every address is one it gave, and lies within what it gave; an allocation
 * ends at a page that cannot be touched; launches keep a device's limits; all threads of a block
 * come to its barriers; nothing is left when the library is closed. A breach ends the process with
 * a line on standard error. WEIR_FAKE_MEMORY limits the device's bytes, WEIR_FAKE_LOG names a file
 * that gets a line for each launch; with WEIR_FAKE_EARLY boxes of tensors come when they are asked
 * for, else when they are waited for. */
#define _GNU_SOURCE
#include "fake.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <elf.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { OK = 0, INVALID = 1, MEMORY = 2, NOT_BEGUN = 3, NOT_FOUND = 500, CAPTURING = 900 };
enum { PAGE = 4096, SHARED = 227 << 10 };

_Noreturn void fake_breach(const char *fmt, ...) {
    va_list args;
    va_start(args, fmt);
    fputs("libcuda of the tests: ", stderr);
    vfprintf(stderr, fmt, args);
    fputs("\n", stderr);
    va_end(args);
    _exit(86);
}

/* ---- memory ---------------------------------------------------------------------------------- */

typedef struct Block {
    struct Block *next;
    char *at, *map;
    size_t bytes, mapped;
    bool host;
    int device;
} Block;

static char device_context[2];
static int pushed[16], current = -1; /* devices of the contexts that were pushed */
static Block *blocks;
static size_t used, contexts, streams, events, modules, graphs, execs;

static Block *block_of(uint64_t at) {
    for (Block *b = blocks; b; b = b->next)
        if (at >= (uint64_t)(uintptr_t)b->at && at < (uint64_t)(uintptr_t)b->at + b->bytes)
            return b;
    return NULL;
}

static size_t limit(void) {
    const char *set = getenv("WEIR_FAKE_MEMORY");
    return set ? (size_t)strtoull(set, NULL, 10) : (size_t)64 << 30;
}

static int block_new(size_t bytes, bool host, char **out) {
    if (bytes == 0) return INVALID;
    if (!host && bytes > limit() - used) return MEMORY;
    size_t room = (bytes + 255) / 256 * 256, mapped = (room + PAGE - 1) / PAGE * PAGE + PAGE;
    Block *b = calloc(1, sizeof *b);
    char *map = mmap(NULL, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (!b || map == MAP_FAILED) return MEMORY;
    mprotect(map + mapped - PAGE, PAGE, PROT_NONE);
    *b = (Block){blocks, map + mapped - PAGE - room,       map, bytes, mapped,
                 host,   pushed[current < 0 ? 0 : current]};
    if (!host) memset(b->at, 0xa5, bytes < 1 << 20 ? bytes : 1 << 20);
    blocks = b;
    used += host ? 0 : bytes;
    *out = b->at;
    return OK;
}

static int block_free(void *at, bool host) {
    for (Block **b = &blocks; *b; b = &(*b)->next) {
        if ((*b)->at != at || (*b)->host != host) continue;
        Block *gone = *b;
        *b = gone->next;
        used -= host ? 0 : gone->bytes;
        munmap(gone->map, gone->mapped);
        free(gone);
        return OK;
    }
    fake_breach("%p is freed but was not allocated", at);
}

void fake_within(uint64_t at, size_t bytes, const char *what) {
    const Block *b = block_of(at);
    if (!b || b->host)
        fake_breach("%s: address 0x%llx is not the device's", what, (unsigned long long)at);
    if (at + bytes > (uint64_t)(uintptr_t)b->at + b->bytes)
        fake_breach("%s: %zu bytes at %zu of an allocation of %zu", what, bytes,
                    (size_t)(at - (uint64_t)(uintptr_t)b->at), b->bytes);
}

#include "boxes.h"

int cuMemAlloc_v2(uint64_t *at, size_t bytes) {
    char *p = NULL;
    int error = block_new(bytes, false, &p);
    *at = (uint64_t)(uintptr_t)p;
    return error;
}
int cuMemFree_v2(uint64_t at) {
    return block_free((void *)(uintptr_t)at, false);
}
int cuMemHostAlloc(void **at, size_t bytes, unsigned flags) {
    (void)flags;
    return block_new(bytes, true, (char **)at);
}
int cuMemFreeHost(void *at) {
    return block_free(at, true);
}
int cuPointerGetAttributes(unsigned n, const int *what, void **value, uint64_t at) {
    const Block *b = block_of(at);
    if (n != 2 || what[0] != 2 || what[1] != 9) return INVALID;
    *(unsigned *)value[0] = !b ? 0 : b->host ? 1 : 2;
    *(int *)value[1] = b ? b->device : -2;
    return OK;
}

/* ---- devices, contexts ----------------------------------------------------------------------- */

static bool begun;

int cuInit(unsigned flags) {
    begun = flags == 0;
    return flags ? INVALID : OK;
}
int cuDeviceGetCount(int *n) {
    *n = 2;
    return OK;
}
int cuDeviceGet(int *device, int ordinal) {
    *device = ordinal;
    return ordinal >= 0 && ordinal < 2 ? OK : INVALID;
}
int cuDeviceGetAttribute(int *value, int what, int device) {
    (void)device;
    *value = what == 75 ? 9 : 0;
    return OK;
}
int cuDevicePrimaryCtxRetain(void **context, int device) {
    if (!begun) return NOT_BEGUN;
    contexts++;
    *context = &device_context[device];
    return OK;
}
int cuDevicePrimaryCtxRelease_v2(int device) {
    (void)device;
    if (!contexts--) fake_breach("a context is released twice");
    return OK;
}
int cuCtxPushCurrent_v2(void *context) {
    if (current + 1 == 16) return INVALID;
    pushed[++current] = (int)((char *)context - device_context);
    return OK;
}
int cuCtxPopCurrent_v2(void **context) {
    *context = NULL;
    if (current-- < 0) fake_breach("a context is popped that was not pushed");
    return OK;
}
int fake_context(void) {
    return current >= 0;
}
int cuCtxGetCurrent(void **context) {
    *context = NULL;
    return OK;
}
int cuCtxGetDevice(int *device) {
    (void)device;
    fake_breach("the device of no context is asked for");
}
int cuGetErrorString(int error, const char **text) {
    *text = error == MEMORY      ? "out of memory"
            : error == NOT_FOUND ? "named symbol not found"
                                 : "error";
    return OK;
}

/* ---- images ---------------------------------------------------------------------------------- */

static size_t image_bytes(const void *image) {
    const Elf64_Ehdr *head = image;
    if (memcmp(head->e_ident, ELFMAG, SELFMAG) != 0) return 0;
    return head->e_shoff + (size_t)head->e_shnum * head->e_shentsize;
}

int cuModuleLoadData(void **module, const void *image) {
    size_t n = image_bytes(image);
    Module *m = calloc(1, sizeof *m);
    int file = memfd_create("image", MFD_CLOEXEC);
    char path[64];
    if (!n || !m || file < 0 || write(file, image, n) != (ssize_t)n) return 209;
    /* A path names one image for good: of one that is open dlopen gives what is there. */
    static int images = 100;
    int fd = fcntl(file, F_DUPFD_CLOEXEC, images++);
    close(file);
    if (fd < 0) return 209;
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    m->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!m->library) fake_breach("the image cannot be loaded: %s", dlerror());
    close(fd);
    m->thread = dlsym(m->library, "threadIdx");
    m->block = dlsym(m->library, "blockIdx");
    m->block_dim = dlsym(m->library, "blockDim");
    m->grid_dim = dlsym(m->library, "gridDim");
    m->followed = dlsym(m->library, "shim_followed");
    m->boxes = dlsym(m->library, "shim_boxes");
    *(unsigned *)dlsym(m->library, "shim_boxes_early") = getenv("WEIR_FAKE_EARLY") != NULL;
    *(void (**)(int))dlsym(m->library, "shim_wait") = fake_wait_for;
    *(void (**)(const char *))dlsym(m->library, "shim_breach") = fake_breach_in;
    modules++;
    *module = m;
    return OK;
}
int cuModuleUnload(void *module) {
    Module *m = module;
    for (Function *f = m->functions, *next; f; f = next) {
        next = f->next;
        free(f);
    }
    dlclose(m->library);
    free(m);
    modules--;
    return OK;
}
int cuModuleGetFunction(void **function, void *module, const char *name) {
    Module *m = module;
    Function *f = calloc(1, sizeof *f);
    *f = (Function){
        .next = m->functions, .module = m, .at = dlsym(m->library, name), .shared = 48 << 10};
    snprintf(f->name, sizeof f->name, "%s", name);
    m->functions = f;
    *function = f;
    return f->at ? OK : NOT_FOUND;
}
int cuFuncGetAttribute(int *value, int what, void *function) {
    if (what != 5 || !function) return INVALID;
    *value = 90;
    return OK;
}
int cuFuncSetAttribute(void *function, int what, int value) {
    if (what != 8 || value < 0 || value > SHARED) return INVALID;
    ((Function *)function)->shared = (unsigned)value;
    return OK;
}

/* ---- streams and graphs ---------------------------------------------------------------------- */

typedef enum { LAUNCH, COPY, FILL, CALL } Kind;
typedef struct Work {
    struct Work *next;
    Kind kind;
    const Function *f;
    FakeCall *call;
    unsigned blocks, rows, threads;
    bool early;
    int n;
    uint64_t arg[ARGUMENTS];
    int ntensor; /* the last arguments, which are these */
    shim_tensor tensor[8];
    char *to;
    const char *from;
    size_t bytes;
    unsigned char value;
} Work;

typedef struct Stream {
    bool capturing;
    Work *first, **last;
} Stream;

/* NULL and 1 are the default stream, which is never recorded. */
static bool is_capturing(const void *stream) {
    return (uintptr_t)stream > 1 && ((const Stream *)stream)->capturing;
}

/* All threads of a launch that may begin early wait for the one ahead. */
static void launch(const Work *w) {
    uint64_t arg[ARGUMENTS];
    memcpy(arg, w->arg, sizeof arg);
    for (int i = 0; i < w->ntensor; i++)
        arg[w->n - w->ntensor + i] = (uint64_t)(uintptr_t)&w->tensor[i];
    *w->f->module->followed = 0;
    fake_execute(w->f, w->blocks, w->rows, w->threads, arg, w->n);
    if (w->early && *w->f->module->followed < (size_t)w->blocks * w->rows * w->threads)
        fake_breach("%s: began early and does not wait for the launch ahead", w->f->name);
}

static void do_work(const Work *w) {
    if (w->kind == LAUNCH)
        launch(w);
    else if (w->kind == CALL)
        w->call(w->arg);
    else if (w->kind == COPY)
        memcpy(w->to, w->from, w->bytes);
    else
        memset(w->to, w->value, w->bytes);
}

static int put_work(void *stream, const Work *w) {
    Stream *s = stream;
    if (!is_capturing(stream)) {
        do_work(w);
        return OK;
    }
    Work *kept = malloc(sizeof *kept);
    *kept = *w;
    kept->next = NULL;
    *s->last = kept;
    s->last = &kept->next;
    return OK;
}

int fake_put(void *stream, FakeCall *call, const uint64_t *words, int n) {
    Work w = {.kind = CALL, .call = call, .n = n};
    if (n > ARGUMENTS) fake_breach("a library's call of %d words", n);
    memcpy(w.arg, words, (size_t)n * sizeof *words);
    return put_work(stream, &w);
}

int cuStreamCreate(void **stream, unsigned flags) {
    (void)flags;
    streams++;
    *stream = calloc(1, sizeof(Stream));
    return OK;
}
int cuStreamDestroy_v2(void *stream) {
    free(stream);
    streams--;
    return OK;
}
int cuStreamSynchronize(void *stream) {
    return is_capturing(stream) ? CAPTURING : OK;
}
int cuEventCreate(void **event, unsigned flags) {
    (void)flags;
    events++;
    *event = malloc(1);
    return OK;
}
int cuEventDestroy_v2(void *event) {
    free(event);
    events--;
    return OK;
}
int cuEventRecord(void *event, void *stream) {
    (void)stream;
    return event ? OK : INVALID;
}
int cuEventSynchronize(void *event) {
    return event ? OK : INVALID;
}

#include "graphs.h"

/* ---- work ------------------------------------------------------------------------------------ */

static void log_launch(const Work *w) {
    const char *path = getenv("WEIR_FAKE_LOG");
    FILE *file = path ? fopen(path, "a") : NULL;
    const char *early = w->early ? " early" : "";
    if (!file) return;
    fprintf(file, "%s %u %u%s\n", w->f->name, w->blocks * w->rows, w->threads, early);
    fclose(file);
}

typedef struct Launch {
    unsigned grid[3], block[3], shared;
    void *stream;
    const int *attribute; /* what, nothing, its value; 18 numbers each */
    unsigned nattribute;
} Launch;

int cuLaunchKernelEx(const Launch *how, void *function, void **params, void **extra) {
    const Function *f = function;
    const unsigned *g = how->grid, *b = how->block;
    Work w = {.kind = LAUNCH, .f = f, .blocks = g[0], .rows = g[1], .threads = b[0]};
    bool grid = g[0] && g[0] <= INT32_MAX && g[1] && g[1] <= UINT16_MAX && g[2] == 1;
    if (!grid || !b[0] || b[0] > THREADS || b[1] != 1 || b[2] != 1 || extra)
        fake_breach("%s: %u x %u blocks of %u threads", f->name, g[0], g[1], b[0]);
    if (how->shared > f->shared) fake_breach("%s: %u bytes of shared memory", f->name, how->shared);
    if (how->nattribute > 1 || (how->nattribute && how->attribute[0] != 6)) return INVALID;
    w.early = how->nattribute && how->attribute[2];
    if (current < 0) fake_breach("%s: no current context", f->name);
    for (; params[w.n]; w.n++) {
        if (w.n == ARGUMENTS) fake_breach("%s: more than %d arguments", f->name, ARGUMENTS);
        memcpy(&w.arg[w.n], params[w.n], sizeof(uint64_t));
        if (w.arg[w.n] != SHIM_TENSOR && !w.ntensor) continue;
        if (w.arg[w.n] != SHIM_TENSOR || w.ntensor == 8) fake_breach("%s: its tensors", f->name);
        memcpy(&w.tensor[w.ntensor++], params[w.n], sizeof(shim_tensor));
    }
    log_launch(&w);
    return put_work(how->stream, &w);
}
int cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t bytes, void *stream) {
    fake_within(to, bytes, "a copy to the device");
    return put_work(
        stream, &(Work){.kind = COPY, .to = (char *)(uintptr_t)to, .from = from, .bytes = bytes});
}
int cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t bytes, void *stream) {
    fake_within(from, bytes, "a copy to the host");
    return put_work(
        stream, &(Work){.kind = COPY, .to = to, .from = (char *)(uintptr_t)from, .bytes = bytes});
}
int cuMemcpyHtoD_v2(uint64_t to, const void *from, size_t bytes) {
    return cuMemcpyHtoDAsync_v2(to, from, bytes, NULL);
}
int cuMemcpyDtoH_v2(void *to, uint64_t from, size_t bytes) {
    return cuMemcpyDtoHAsync_v2(to, from, bytes, NULL);
}
int cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t bytes, void *stream) {
    fake_within(to, bytes, "a copy");
    fake_within(from, bytes, "a copy");
    return put_work(stream, &(Work){.kind = COPY,
                                    .to = (char *)(uintptr_t)to,
                                    .from = (char *)(uintptr_t)from,
                                    .bytes = bytes});
}
int cuMemsetD8Async(uint64_t at, unsigned char value, size_t bytes, void *stream) {
    fake_within(at, bytes, "filling");
    return put_work(
        stream, &(Work){.kind = FILL, .to = (char *)(uintptr_t)at, .value = value, .bytes = bytes});
}

/* ---- the end --------------------------------------------------------------------------------- */

__attribute__((destructor)) static void look_back(void) {
    size_t left = 0;
    for (const Block *b = blocks; b; b = b->next) left++;
    if (left || streams || events || modules || graphs || execs || contexts || current >= 0)
        fake_breach(
            "left behind: %zu allocations, %zu streams, %zu events, %zu modules, %zu graphs, "
            "%zu recorded "
            "runs, %zu contexts, %d pushed",
            left, streams, events, modules, graphs, execs, contexts, current + 1);
    fake_end_threads();
}
