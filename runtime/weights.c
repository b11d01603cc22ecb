/* SPDX-License-Identifier: Apache-2.0 */
/* Weights: where they are, and sets of them that the constant part made.
 *
 * A set holds what kernels read, in one block, and the values that it was made of: those of the
 * library or its side file, or copies of what the host gave, which sets share. Sets are immutable
 * and counted. An instance's pointer to its set changes under a lock of a few instructions, so a
 * swap never waits for a run, nor a run for a swap. */
#include "runtime/instance.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- counts ---------------------------------------------------------------------------------- */

static void hold(int *holders) {
    __atomic_fetch_add(holders, 1, __ATOMIC_RELAXED);
}

static int let_go(int *holders) {
    return __atomic_sub_fetch(holders, 1, __ATOMIC_ACQ_REL) == 0;
}

static void map_free(weir_weights_map *map) {
    if (!map || !let_go(&map->holders)) return;
    munmap(map->at, map->bytes);
    free(map);
}

/* ---- where they are ----------------------------------------------------------------------------
 */

static weir_status weights_open(weir_instance *in, const char *path) {
    int64_t bytes = (int64_t)in->program->blob->bytes;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat st;
    if (fd < 0)
        return weir_instance_fail(in, WEIR_E_WEIGHTS,
                                  "weights file \"%s\" cannot be opened; it belongs beside "
                                  "the library",
                                  path);
    uint64_t trailer[2] = {0, 0};
    if (fstat(fd, &st) != 0 || st.st_size != bytes + (int64_t)sizeof trailer ||
        pread(fd, trailer, sizeof trailer, bytes) != (ssize_t)sizeof trailer ||
        trailer[0] != in->program->weights_check || trailer[1] != (uint64_t)bytes) {
        close(fd);
        return weir_instance_fail(in, WEIR_E_WEIGHTS,
                                  "weights file \"%s\" does not belong to this library; "
                                  "compile the model again",
                                  path);
    }
    size_t n = (size_t)st.st_size;
    void *at = mmap(NULL, n, PROT_READ, MAP_PRIVATE, fd, 0);
    close(fd);
    in->map = at == MAP_FAILED ? NULL : malloc(sizeof *in->map);
    if (!in->map) {
        if (at != MAP_FAILED) munmap(at, n);
        return weir_instance_fail(in, WEIR_E_MEMORY, "weights file \"%s\" cannot be mapped", path);
    }
    *in->map = (weir_weights_map){1, at, n};
    in->weights = at;
    return WEIR_OK;
}

weir_status weir_weights_open(weir_instance *in) {
    const weir_program *p = in->program;
    if (!p->blob || p->blob->bytes == 0) return WEIR_OK;
    if (p->blob->delta != 0) {
        in->weights = (const char *)(uintptr_t)((uintptr_t)p->blob + (uintptr_t)p->blob->delta);
        return WEIR_OK;
    }
    Dl_info info;
    if (!p->weights_file || !dladdr((const void *)(uintptr_t)p->blob, &info) || !info.dli_fname)
        return weir_instance_fail(in, WEIR_E_WEIGHTS,
                                  "this library was linked without its weights");
    char path[4096];
    const char *slash = strrchr(info.dli_fname, '/');
    int folder = slash ? (int)(slash + 1 - info.dli_fname) : 0;
    if (snprintf(path, sizeof path, "%.*s%s", folder, info.dli_fname, p->weights_file) >=
        (int)sizeof path)
        return weir_instance_fail(in, WEIR_E_WEIGHTS, "the path of this library is too long");
    return weights_open(in, path);
}

/* ---- sets ------------------------------------------------------------------------------------ */

/* A copy of values that the host gave. */
typedef struct Given {
    int holders;
    _Alignas(64) char data[];
} Given;

struct weir_weights {
    int holders;
    const weir_program *program;
    char *made;
    const char **raw; /* by input of the constant part */
    Given **given;    /* the same: owner of raw's data, or NULL: the library's own */
    weir_weights_map *map;
};

char *weir_weights_made(const weir_weights *set) {
    return set ? set->made : NULL;
}

void weir_rt_weights_free(weir_weights *set) {
    if (!set || !let_go(&set->holders)) return;
    for (int k = 0; set->given && k < set->program->prepare->model.ninputs; k++)
        if (set->given[k] && let_go(&set->given[k]->holders)) free(set->given[k]);
    map_free(set->map);
    free(set->given);
    free(set->raw);
    if (set->made) munmap(set->made, (size_t)set->program->made_bytes);
    free(set);
}

/* An empty set: fresh pages, which are zero, as holes in layouts are. */
static weir_weights *set_alloc(const weir_program *p, weir_weights_map *map) {
    weir_weights *set = calloc(1, sizeof *set);
    size_t n = (size_t)p->prepare->model.ninputs + 1;
    if (!set) return NULL;
    set->holders = 1;
    set->program = p;
    set->map = map;
    if (map) hold(&map->holders);
    set->raw = calloc(n, sizeof *set->raw);
    set->given = calloc(n, sizeof *set->given);
    void *at = mmap(NULL, (size_t)p->made_bytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at != MAP_FAILED) set->made = at;
    if (set->raw && set->given && set->made) {
        madvise(at, (size_t)p->made_bytes, MADV_HUGEPAGE);
        return set;
    }
    weir_rt_weights_free(set);
    return NULL;
}

static weir_tensor port_tensor(const weir_port *port, void *data) {
    weir_tensor t = {.data = data, .dtype = port->dtype, .rank = port->rank, .capacity = INT64_MAX};
    for (int d = 0; d < port->rank; d++) t.dims[d] = strtoll(port->dims[d], NULL, 10);
    return t;
}

static weir_status say(char *error, weir_status s, const char *text) {
    if (error) snprintf(error, 256, "%.255s", text);
    return s;
}

/* Runs the constant part. */
static weir_status set_make(weir_weights *set, const weir_pool *pool, char *error) {
    const weir_program *part = set->program->prepare;
    const weir_model *m = &part->model;
    weir_instance *in;
    weir_status s = weir_rt_create(part, pool, &in, error);
    if (s) return s;
    weir_tensor *x = calloc((size_t)(m->ninputs + m->noutputs) + 1, sizeof *x);
    for (int k = 0; x && k < m->ninputs; k++)
        x[k] = port_tensor(&m->inputs[k], (void *)(uintptr_t)set->raw[k]);
    for (int k = 0; x && k < m->noutputs; k++)
        x[m->ninputs + k] = port_tensor(&m->outputs[k], set->made + set->program->made[k]);
    s = x ? weir_rt_run(in, x, x + m->ninputs)
          : weir_instance_fail(in, WEIR_E_MEMORY, "cannot allocate a set of weights");
    if (s) say(error, s, weir_rt_error(in));
    free(x);
    weir_rt_destroy(in);
    if (s == WEIR_OK) mprotect(set->made, (size_t)set->program->made_bytes, PROT_READ);
    return s;
}

weir_status weir_weights_prepare(weir_instance *in) {
    const weir_program *p = in->program;
    char error[256] = "";
    if (!p->prepare) return WEIR_OK;
    in->set = set_alloc(p, in->map);
    if (!in->set)
        return weir_instance_fail(in, WEIR_E_MEMORY, "cannot allocate %lld bytes of weights",
                                  (long long)p->made_bytes);
    for (int k = 0; k < p->prepare->model.ninputs; k++) in->set->raw[k] = in->weights + p->raw[k];
    weir_status s = set_make(in->set, in->pool, error);
    return s ? weir_instance_fail(in, s, "%s", error) : s;
}

void weir_weights_close(weir_instance *in) {
    weir_rt_weights_free(in->set);
    map_free(in->map);
}

/* ---- swapping -------------------------------------------------------------------------------- */

weir_weights *weir_rt_weights_of(weir_instance *in) {
    weir_lock(&in->set_lock);
    weir_weights *set = in->set;
    hold(&set->holders);
    weir_unlock(&in->set_lock);
    return set;
}

weir_status weir_rt_weights_use(weir_instance *in, weir_weights *set) {
    if (set->program->prepare != in->program->prepare) return WEIR_E_WEIGHTS;
    hold(&set->holders);
    weir_lock(&in->set_lock);
    weir_weights *old = in->set;
    in->set = set;
    weir_unlock(&in->set_lock);
    weir_rt_weights_free(old);
    return WEIR_OK;
}

static weir_status check_value(const weir_port *port, const weir_tensor *t, char *error) {
    weir_tensor want = port_tensor(port, NULL);
    char text[256];
    int bad = -1;
    for (int d = 0; d < port->rank && t->rank == port->rank; d++)
        if (t->dims[d] != want.dims[d] && bad < 0) bad = d;
    if (t->dtype != port->dtype)
        snprintf(text, sizeof text, "weight \"%s\" has element type %d, expected %d", port->name,
                 t->dtype, port->dtype);
    else if (t->rank != port->rank)
        snprintf(text, sizeof text, "weight \"%s\" has %d dims, expected %d", port->name, t->rank,
                 port->rank);
    else if (bad >= 0)
        snprintf(text, sizeof text, "weight \"%s\": dim %d is %lld, expected %s", port->name, bad,
                 (long long)t->dims[bad], port->dims[bad]);
    else if (!t->data || !weir_is_dense(t))
        snprintf(text, sizeof text, "weight \"%s\" needs dense data", port->name);
    else
        return WEIR_OK;
    return say(error, WEIR_E_ARGUMENT, text);
}

static const weir_port *weight_find(const weir_program *p, const char *name, int *input) {
    for (int k = 0; k < p->model.nweights; k++) {
        if (strcmp(p->model.weights[k].name, name) != 0) continue;
        *input = p->weight_input[k];
        return &p->model.weights[k];
    }
    return NULL;
}

static weir_status set_value(weir_weights *set, const char *name, const weir_tensor *t,
                             char *error) {
    int k = 0;
    const weir_port *port = weight_find(set->program, name, &k);
    if (!port) {
        char text[256];
        snprintf(text, sizeof text, "the model has no weight \"%.200s\"", name);
        return say(error, WEIR_E_ARGUMENT, text);
    }
    weir_status s = check_value(port, t, error);
    if (s) return s;
    size_t bytes = (size_t)weir_bytes(t->dtype, weir_tensor_count(t));
    void *at = NULL;
    if (posix_memalign(&at, 64, sizeof(Given) + bytes) != 0)
        return say(error, WEIR_E_MEMORY, "cannot allocate a set of weights");
    Given *given = at;
    given->holders = 1;
    memcpy(given->data, t->data, bytes);
    if (set->given[k] && let_go(&set->given[k]->holders)) free(set->given[k]);
    set->given[k] = given;
    set->raw[k] = given->data;
    return WEIR_OK;
}

weir_status weir_rt_weights_new(const weir_weights *from, const weir_pool *pool, int32_t n,
                                const char *const *name, const weir_tensor *value,
                                weir_weights **out, char *error) {
    *out = NULL;
    weir_weights *set = set_alloc(from->program, from->map);
    if (!set) return say(error, WEIR_E_MEMORY, "cannot allocate a set of weights");
    for (int k = 0; k < from->program->prepare->model.ninputs; k++) {
        set->raw[k] = from->raw[k];
        set->given[k] = from->given[k];
        if (set->given[k]) hold(&set->given[k]->holders);
    }
    weir_status s = WEIR_OK;
    for (int i = 0; i < n && s == WEIR_OK; i++) s = set_value(set, name[i], &value[i], error);
    if (s == WEIR_OK) s = set_make(set, pool, error);
    if (s == WEIR_OK)
        *out = set;
    else
        weir_rt_weights_free(set);
    return s;
}
