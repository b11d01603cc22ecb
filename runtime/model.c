/* SPDX-License-Identifier: Apache-2.0 */
/* Instances of a compiled model: create, reserve, run, destroy.
 *
 * All memory of a run is one block: the arena of temporaries, scratch of calls, scratch of every
 * thread, then dense copies of tensors that came with strides and of outputs whose size data
 * decides and whose capacity may not do. The block grows when a run needs more (before any work),
 * unless `reserve` fixed it. */
#include "runtime/device.h"
#include "runtime/instance.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { ALIGN = 64, HUGE_PAGE = 2 << 20 };

/* ---- sizes ----------------------------------------------------------------------------------- */

int64_t weir_sum(int64_t a, int64_t b) {
    int64_t r;
    return __builtin_add_overflow(a, b, &r) ? INT64_MAX : r;
}

int64_t weir_rounded(int64_t n) {
    return n > INT64_MAX - ALIGN ? INT64_MAX : (n + ALIGN - 1) / ALIGN * ALIGN;
}

static int64_t dims_bytes(const weir_port *p, const int64_t *dims) {
    weir_tensor t = {.dtype = p->dtype, .rank = p->rank};
    memcpy(t.dims, dims, sizeof(int64_t) * (size_t)p->rank);
    return weir_bytes(p->dtype, weir_tensor_count(&t));
}

/* Does output k need a dense place of ours during the run? Its dims hold the evaluated (largest)
 * ones. */
static int staged(const weir_instance *in, int k, const weir_tensor *t) {
    if (in->program->when[k] >= WEIR_ON_HEAP) return 0;
    if (!weir_direct_out(in, k, t)) return 1;
    return in->program->when[k] == WEIR_BY_CALL && in->room[k] < weir_tensor_count(t);
}

/* Bytes of the block for evaluated values. Without `outputs` those of data-dependent size are
 * counted. */
static int64_t block_need(const weir_instance *in, const weir_tensor *inputs,
                          const weir_tensor *outputs) {
    const weir_model *m = &in->program->model;
    int64_t need =
        weir_sum(weir_rounded(in->value[WEIR_V_ARENA]), weir_rounded(in->value[WEIR_V_CALL]));
    int64_t thread = weir_rounded(in->value[WEIR_V_THREAD]);
    for (int t = 0; t < in->threads; t++) need = weir_sum(need, thread);
    for (int k = 0; k < m->ninputs; k++)
        if (!weir_direct_in(in, k, &inputs[k]))
            need = weir_sum(need, weir_rounded(dims_bytes(&m->inputs[k], weir_in_dims(in, k))));
    for (int k = 0; k < m->noutputs; k++)
        if (outputs ? staged(in, k, &outputs[k]) : in->program->when[k] == WEIR_BY_CALL)
            need = weir_sum(need, weir_rounded(dims_bytes(&m->outputs[k], weir_out_dims(in, k))));
    return need;
}

/* ---- the block ------------------------------------------------------------------------------- */

static weir_status block_grow(weir_instance *in, int64_t need) {
    if (need <= in->block_bytes) return WEIR_OK;
    free(in->block);
    in->block = NULL;
    in->block_bytes = 0;
    void *at = NULL;
    size_t align = need >= 2 * HUGE_PAGE ? HUGE_PAGE : ALIGN;
    if (need > INT64_MAX / 2 || posix_memalign(&at, align, (size_t)need) != 0)
        return weir_instance_fail(in, WEIR_E_MEMORY,
                                  "cannot allocate %lld bytes for a run with these dims",
                                  (long long)need);
    if (align == HUGE_PAGE) madvise(at, (size_t)need, MADV_HUGEPAGE);
    in->block = at;
    in->block_bytes = need;
    return WEIR_OK;
}

static void do_nothing(void *arg, int t, int n) {
    (void)arg, (void)t, (void)n;
}

/* Besides memory it has the pool start its threads: that allocates, and no run may after this. */
weir_status weir_rt_reserve(weir_instance *in, const weir_tensor *largest) {
    const weir_device *device = in->program->device;
    weir_status s = weir_bind(in, largest, 0);
    if (s) return s;
    in->reserved = 0;
    s = device ? device->reserve(in, largest) : block_grow(in, block_need(in, largest, NULL));
    in->reserved = s == WEIR_OK;
    if (!s && in->pool) in->pool->parallel(in->pool->context, in->threads, do_nothing, NULL);
    return s;
}

/* ---- create, destroy ------------------------------------------------------------------------- */

static weir_instance *instance_alloc(const weir_program *p) {
    weir_instance *in = calloc(1, sizeof *in);
    if (!in) return NULL;
    in->program = p;
    in->symbol = calloc((size_t)p->nsymbol + 1, sizeof *in->symbol);
    in->value = calloc((size_t)p->nvalue + 1, sizeof *in->value);
    in->in = calloc((size_t)p->model.ninputs + 1, sizeof *in->in);
    in->out = calloc((size_t)p->model.noutputs + 1, sizeof *in->out);
    in->room = calloc((size_t)p->model.noutputs + 1, sizeof *in->room);
    in->staged = calloc((size_t)p->model.noutputs + 1, 1);
    in->place = calloc((size_t)p->nsymbol + 1, 2 * sizeof *in->place);
    in->heap = calloc((size_t)p->nheap + 1, sizeof *in->heap);
    in->heap_bytes = calloc((size_t)p->nheap + 1, 2 * sizeof *in->heap_bytes);
    if (in->symbol && in->value && in->in && in->out && in->room && in->staged && in->place &&
        in->heap && in->heap_bytes) {
        in->now = in->place + p->nsymbol;
        return in;
    }
    weir_rt_destroy(in);
    return NULL;
}

/* The first of those that may be taken whose instructions this CPU has. */
int32_t weir_rt_version(const weir_program *program, char *error) {
    const char *asked = getenv("WEIR_CPU"), *name = NULL, *missing = NULL;
    if (asked && !*asked) asked = NULL;
    for (int32_t i = 0; program->versions[i]; i++) {
        const weir_program *version = program->versions[i];
        if (asked && strcmp(version->name, asked) != 0) continue;
        name = version->name;
        missing = weir_cpu_missing(version->cpu);
        if (!missing) return i;
    }
    if (error && name)
        snprintf(error, 256, "this CPU lacks \"%s\", which the code for \"%.100s\" needs; %s",
                 missing, name,
                 asked ? "set WEIR_CPU to another" : "compile the model for an older one");
    else if (error)
        snprintf(error, 256, "WEIR_CPU asks for \"%.100s\", for which the library has no code",
                 asked);
    return -1;
}

static weir_status open_instance(weir_instance *in, const weir_pool *pool) {
    const char *missing = weir_cpu_missing(in->program->cpu);
    if (missing)
        return weir_instance_fail(in, WEIR_E_CPU,
                                  "this CPU lacks \"%s\", which the model was compiled for; "
                                  "compile it for an older one",
                                  missing);
    if (in->program->version != WEIR_RT_VERSION)
        return weir_instance_fail(in, WEIR_E_VERSION, "program version %d, expected %d",
                                  in->program->version, WEIR_RT_VERSION);
    if (pool && (pool->size < sizeof(weir_pool) || pool->threads < 1 || !pool->parallel))
        return weir_instance_fail(in, WEIR_E_VERSION,
                                  "the pool is not a weir_pool of this version");
    in->pool = pool;
    in->threads = pool ? pool->threads : 1;
    in->seat = aligned_alloc(_Alignof(weir_seat), sizeof(weir_seat) * (size_t)in->threads);
    if (!in->seat) return weir_instance_fail(in, WEIR_E_MEMORY, "cannot allocate an instance");
    for (int t = 0; t < in->threads; t++) in->seat[t] = (weir_seat){0, -1, 0};
    if (weir_profile_open(in))
        return weir_instance_fail(in, WEIR_E_MEMORY, "cannot allocate a profile");
    if (in->program->ntext) {
        in->objects = weir_objects_new(in->program->text, in->program->ntext);
        if (!in->objects)
            return weir_instance_fail(in, WEIR_E_MEMORY, "cannot allocate an instance");
    }
    in->spin = in->threads > weir_cpus() ? 0 : WEIR_SPIN_NS;
    weir_status s = weir_weights_open(in);
    if (!s) s = weir_weights_prepare(in);
    return s || !in->program->device ? s : in->program->device->open(in);
}

weir_status weir_rt_create(const weir_program *program, const weir_pool *pool, weir_instance **out,
                           char *error) {
    return weir_rt_create_on(program, -1, pool, out, error);
}

weir_status weir_rt_create_on(const weir_program *program, int32_t device, const weir_pool *pool,
                              weir_instance **out, char *error) {
    *out = NULL;
    if (program->versions) {
        int32_t version = weir_rt_version(program, error);
        if (version < 0) return WEIR_E_CPU;
        program = program->versions[version];
    }
    weir_instance *in = instance_alloc(program);
    if (!in) {
        if (error) snprintf(error, 256, "cannot allocate an instance");
        return WEIR_E_MEMORY;
    }
    in->ordinal = device;
    weir_status s = open_instance(in, pool);
    if (s == WEIR_OK) {
        *out = in;
        return s;
    }
    if (error) snprintf(error, 256, "%.255s", in->error);
    weir_rt_destroy(in);
    return s;
}

void weir_rt_destroy(weir_instance *in) {
    if (!in) return;
    if (in->device) in->program->device->close(in);
    weir_weights_close(in);
    weir_objects_free(in->objects);
    free(in->block);
    free(in->symbol);
    free(in->value);
    free(in->in);
    free(in->out);
    free(in->room);
    for (int i = 0; in->heap && i < in->program->nheap; i++) free(in->heap[i]);
    free(in->heap);
    free(in->heap_bytes);
    free(in->place);
    free(in->seat);
    weir_profile_close(in);
    free(in->staged);
    free(in->late_call);
    free(in->late_thread);
    free(in);
}

const char *weir_rt_error(const weir_instance *in) {
    return in->error;
}

/* ---- outputs --------------------------------------------------------------------------------- */

static void output_dims(weir_instance *in, weir_tensor *outputs) {
    const weir_model *m = &in->program->model;
    for (int k = 0; k < m->noutputs; k++) {
        outputs[k].dtype = m->outputs[k].dtype;
        outputs[k].rank = m->outputs[k].rank;
        memcpy(outputs[k].dims, weir_out_dims(in, k), sizeof(int64_t) * (size_t)outputs[k].rank);
    }
}

void weir_open_dims(const weir_instance *in, weir_tensor *outputs) {
    for (int k = 0; k < in->program->model.noutputs; k++)
        for (int d = 0; d < outputs[k].rank; d++)
            if (outputs[k].dims[d] == INT64_MAX) outputs[k].dims[d] = -1;
}

weir_status weir_rt_shapes(weir_instance *in, const weir_tensor *inputs, weir_tensor *outputs) {
    weir_status s = weir_bind(in, inputs, 0);
    if (s) return s;
    output_dims(in, outputs);
    weir_open_dims(in, outputs);
    return WEIR_OK;
}

/* How many elements the caller gave room for, from the fields as given (before dims are filled in).
 */
static int64_t room(const weir_tensor *t) {
    if (t->capacity || t->rank < 0 || t->rank > WEIR_RANK_MAX) return t->capacity;
    return weir_tensor_count(t);
}

static int64_t used(const weir_tensor *t) {
    if (!t->strides || weir_tensor_count(t) == 0) return weir_tensor_count(t);
    int64_t r = 1;
    for (int d = 0; d < t->rank; d++) r += (t->dims[d] - 1) * t->strides[d];
    return r;
}

/* With final dims in place: do all results fit? Before the run: those with dims known then. */
static weir_status check_room(weir_instance *in, const weir_tensor *outputs, int before) {
    const weir_model *m = &in->program->model;
    for (int k = 0; k < m->noutputs; k++) {
        const weir_tensor *t = &outputs[k];
        if (weir_is_object(m->outputs[k].dtype)) continue;
        if (before && in->program->when[k] != WEIR_KNOWN) continue;
        if (used(t) > in->room[k] || (!t->data && weir_tensor_count(t) > 0))
            return weir_instance_fail(
                in, WEIR_E_CAPACITY, "output \"%s\" needs room for %lld elements, got %lld",
                m->outputs[k].name, (long long)used(t), (long long)in->room[k]);
    }
    return WEIR_OK;
}

/* ---- run ------------------------------------------------------------------------------------- */

void weir_rt_fail(weir_frame *f, int32_t status, const char *reason) {
    int32_t none = WEIR_OK;
    if (__atomic_compare_exchange_n(&f->status, &none, status, 0, __ATOMIC_RELAXED,
                                    __ATOMIC_RELAXED))
        f->reason = reason;
}

/* ---- while running --------------------------------------------------------------------------- */

static int grow(char **at, int64_t *have, int64_t need) {
    if (need <= *have) return 1;
    void *more = NULL;
    if (need > INT64_MAX / 4) return 0;
    if (*at && need < 2 * *have) need = 2 * *have;
    if (need > INT64_MAX / 2 || posix_memalign(&more, ALIGN, (size_t)need) != 0) return 0;
    if (*at) memcpy(more, *at, (size_t)*have);
    free(*at);
    *at = more;
    *have = need;
    return 1;
}

/* Memory that kernels use. */
static int grow_memory(weir_instance *in, char **at, int64_t *have, int64_t need) {
    if (!in->program->device) return grow(at, have, need);
    if (need <= *have) return 1;
    if (!in->program->device->grow(in, at, *have, need)) return 0;
    *have = need;
    return 1;
}

static int grow_scratch(weir_instance *in, weir_frame *f) {
    in->program->eval(in->now, in->now, in->value);
    int64_t call = weir_rounded(in->value[WEIR_V_CALL]),
            thread = weir_rounded(in->value[WEIR_V_THREAD]), all;
    if (__builtin_mul_overflow(thread, in->threads, &all)) return 0;
    if (call > f->scratch_bytes) {
        if (!grow(&in->late_call, &in->late_call_bytes, call)) return 0;
        f->scratch = in->late_call;
        f->scratch_bytes = call;
    }
    if (thread > f->thread_bytes) {
        if (!grow_memory(in, &in->late_thread, &in->late_thread_bytes, all)) return 0;
        f->thread = in->late_thread;
        f->thread_bytes = thread;
    }
    return 1;
}

void weir_rt_define(weir_frame *f, int32_t symbol, int64_t value, const char *reason) {
    int64_t most = f->instance->place[symbol];
    int within = value >= 0 && value <= most;
    f->symbol[symbol] = within ? value : 0;
    if (within) return;
    f->stop = 1;
    weir_rt_fail(f, WEIR_E_ARGUMENT, reason);
}

void weir_rt_defined(weir_frame *f) {
    weir_instance *in = f->instance;
    int64_t *need = in->heap_bytes + in->program->nheap;
    for (int i = 0; i < in->program->nsymbol; i++)
        in->now[i] = in->symbol[i] == INT64_MAX ? in->place[i] : in->symbol[i];
    in->program->follow(in->symbol, in->now);
    int ok = grow_scratch(in, f);
    in->program->heap(in->symbol, in->now, need);
    for (int i = 0; ok && i < in->program->nheap; i++)
        ok = grow_memory(in, &in->heap[i], &in->heap_bytes[i], need[i]);
    if (ok) return;
    f->stop = 1;
    weir_rt_fail(f, WEIR_E_MEMORY, "cannot allocate what a size computed from data asks for");
}

void weir_rt_size(weir_frame *f, int64_t size, const char *reason) {
    if (size >= 0) return;
    f->stop = 1;
    weir_rt_fail(f, WEIR_E_ARGUMENT, reason);
}

void weir_rt_room(weir_frame *f, int32_t output, int64_t count) {
    weir_instance *in = f->instance;
    if (in->staged[output] || count <= in->room[output]) return;
    f->stop = 1;
    weir_rt_fail(f, WEIR_E_CAPACITY, "an output is too small; its dims hold what is needed");
}

/* The rounding and denormal modes of this thread: those that were in force. */
enum {
#if defined(__x86_64__)
    USUAL_MODES = 0x1f80
#else
    USUAL_MODES = 0
#endif
};
static uint64_t set_modes(uint64_t modes) {
    uint64_t saved;
#if defined(__x86_64__)
    saved = __builtin_ia32_stmxcsr();
    __builtin_ia32_ldmxcsr((unsigned)modes);
#else
    __asm__ volatile("mrs %0, fpcr" : "=r"(saved));
    __asm__ volatile("msr fpcr, %0" : : "r"(modes));
#endif
    return saved;
}

/* Results must not depend on the modes that the host's threads happen to have. */
static void run_thread(void *arg, int t, int n) {
    weir_frame *f = arg;
    uint64_t saved = set_modes(USUAL_MODES);
    f->program->run(f, t, n);
    set_modes(saved);
}

/* Handles of what an input of strings or objects holds. */
weir_status weir_take(weir_instance *in, int k, const weir_tensor *t, char *at) {
    const weir_port *p = &in->program->model.inputs[k];
    const char *reason;
    weir_status s = weir_objects_take(in->objects, p->dtype, t->data, weir_tensor_count(t),
                                      (int64_t *)at, &reason);
    return s ? weir_instance_fail(in, s, "input \"%s\": %s", p->name, reason) : s;
}

/* Cuts the block and points every port at its dense data. Inputs with strides are copied in. */
static weir_status frame_set(weir_instance *in, weir_frame *f, const weir_tensor *inputs,
                             const weir_tensor *outputs) {
    const weir_model *m = &in->program->model;
    char *at = in->block;
    weir_status s;
    f->arena = at;
    f->scratch = at += weir_rounded(in->value[WEIR_V_ARENA]);
    f->scratch_bytes = weir_rounded(in->value[WEIR_V_CALL]);
    f->thread = at += f->scratch_bytes;
    f->thread_bytes = weir_rounded(in->value[WEIR_V_THREAD]);
    at += f->thread_bytes * in->threads;
    for (int k = 0; k < m->ninputs; k++) {
        in->in[k] = inputs[k].data;
        if (weir_direct_in(in, k, &inputs[k])) continue;
        in->in[k] = at;
        if (!weir_is_object(m->inputs[k].dtype))
            weir_gather(at, &inputs[k]);
        else if ((s = weir_take(in, k, &inputs[k], at)))
            return s;
        at += weir_rounded(dims_bytes(&m->inputs[k], weir_in_dims(in, k)));
    }
    for (int k = 0; k < m->noutputs; k++) {
        in->out[k] = outputs[k].data;
        in->staged[k] = (char)staged(in, k, &outputs[k]);
        if (!in->staged[k]) continue;
        in->out[k] = at;
        at += weir_rounded(dims_bytes(&m->outputs[k], weir_out_dims(in, k)));
    }
    return WEIR_OK;
}

static const char *result_at(const weir_instance *in, int k) {
    int when = in->program->when[k];
    return when >= WEIR_ON_HEAP ? in->heap[when - WEIR_ON_HEAP] : in->out[k];
}

weir_status weir_give_one(weir_instance *in, int k, weir_tensor *t, const char *at) {
    weir_status s =
        weir_objects_give(in->objects, in->program->model.outputs[k].dtype, (const int64_t *)at,
                          weir_tensor_count(t), t->allocator, &t->data);
    return s ? weir_instance_fail(in, s, "cannot allocate the outputs") : s;
}

static weir_status give(weir_instance *in, weir_tensor *outputs) {
    weir_status s = WEIR_OK;
    for (int k = 0; k < in->program->model.noutputs && s == WEIR_OK; k++)
        if (weir_is_object(in->program->model.outputs[k].dtype))
            s = weir_give_one(in, k, &outputs[k], result_at(in, k));
    return s;
}

weir_status weir_run_end(weir_instance *in, weir_tensor *outputs) {
    in->program->eval(in->symbol, in->place, in->value);
    weir_status s = weir_check_out_dims(in, 0);
    if (s) return s;
    output_dims(in, outputs);
    return check_room(in, outputs, 0);
}

/* Final dims of all outputs; those computed in our memory go to the caller's. */
static weir_status deliver(weir_instance *in, weir_tensor *outputs) {
    const weir_model *m = &in->program->model;
    for (int k = 0; k < m->noutputs; k++) {
        weir_tensor *t = &outputs[k];
        const char *from = result_at(in, k);
        if (weir_is_object(t->dtype) || from == t->data || weir_tensor_count(t) == 0) continue;
        if (weir_is_dense(t))
            memcpy(t->data, from, (size_t)weir_bytes(t->dtype, weir_tensor_count(t)));
        else
            weir_scatter(t, from);
    }
    return give(in, outputs);
}

weir_status weir_run_begin(weir_instance *in, const weir_tensor *inputs, weir_tensor *outputs) {
    weir_status s = weir_bind(in, inputs, 1);
    if (s) return s;
    for (int k = 0; k < in->program->model.noutputs; k++) {
        if (weir_is_object(in->program->model.outputs[k].dtype))
            outputs[k] = (weir_tensor){.allocator = outputs[k].allocator};
        in->room[k] = room(&outputs[k]);
    }
    output_dims(in, outputs);
    return check_room(in, outputs, 1);
}

static weir_status prepare(weir_instance *in, const weir_tensor *inputs, weir_tensor *outputs) {
    weir_status s = weir_run_begin(in, inputs, outputs);
    if (s) return s;
    weir_bind_memory(in, inputs, outputs);
    if ((s = weir_check_overlap(in, inputs, outputs))) return s;
    int64_t need = block_need(in, inputs, outputs);
    if (in->reserved && need > in->block_bytes)
        return weir_instance_fail(in, WEIR_E_RESERVE,
                                  "this run needs %lld bytes, %lld are reserved", (long long)need,
                                  (long long)in->block_bytes);
    return block_grow(in, need);
}

static weir_status run(weir_instance *in, const weir_tensor *inputs, weir_tensor *outputs) {
    weir_status s = prepare(in, inputs, outputs);
    if (s) return s;
    weir_frame f = {.symbol = in->symbol,
                    .place = in->place,
                    .in = in->in,
                    .out = in->out,
                    .weights = in->weights,
                    .heap = in->heap,
                    .objects = in->objects,
                    .program = in->program,
                    .instance = in};
    weir_profile_begin(in);
    f.barrier.spin = in->spin;
    f.barrier.seat = in->seat;
    for (int t = 0; t < in->threads; t++) in->seat[t].phase = 0;
    if (in->objects) weir_objects_reset(in->objects);
    weir_weights *set = in->set ? weir_rt_weights_of(in) : NULL;
    f.made = weir_weights_made(set);
    if ((s = frame_set(in, &f, inputs, outputs))) {
        weir_rt_weights_free(set);
        return s;
    }
    if (in->pool)
        in->pool->parallel(in->pool->context, in->threads, run_thread, &f);
    else
        run_thread(&f, 0, 1);
    weir_rt_weights_free(set);
    s = weir_run_end(in, outputs);
    if (f.status) return weir_instance_fail(in, (weir_status)f.status, "%s", f.reason);
    return s ? s : deliver(in, outputs);
}

weir_status weir_rt_run(weir_instance *in, const weir_tensor *inputs, weir_tensor *outputs) {
    int idle = 0;
    if (!__atomic_compare_exchange_n(&in->busy, &idle, 1, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
        return WEIR_E_ARGUMENT;
    const weir_device *device = in->program->device;
    weir_status s = device ? device->run(in, inputs, outputs) : run(in, inputs, outputs);
    if (s == WEIR_E_CAPACITY) weir_open_dims(in, outputs);
    __atomic_store_n(&in->busy, 0, __ATOMIC_RELEASE);
    return s;
}
