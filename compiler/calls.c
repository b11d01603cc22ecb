/* SPDX-License-Identifier: Apache-2.0 */
/* Calls in the evaluator: the runtime's own functions, found by the rows of ir/call.def, on the
 * runtime's own strings and objects. So what the evaluator says about a call is what a compiled
 * model does. */
#include "compiler/calls.h"

#include "runtime/calls.h"
#include "runtime/objects.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

typedef struct Function {
    const char *name;
    weir_call_fn *run;
    weir_call_scratch_fn *scratch;
} Function;

static const Function functions[] = {
#define CALL(name, nin, nout, ndefine, apart, reason)                                              \
    {#name, weir_call_##name, weir_call_##name##_scratch},
#include "ir/call.def"
#undef CALL
};

static weir_tensor *tensors(Arena *arena, const Tensor *from, int n) {
    weir_tensor *to = NEW_ARRAY(arena, weir_tensor, n + 1);
    for (int i = 0; i < n; i++) {
        if (!from[i].type) continue;
        to[i].data = from[i].data;
        to[i].dtype = dtype_onnx(from[i].type);
        to[i].rank = from[i].rank;
        memcpy(to[i].dims, from[i].dim, sizeof(int64_t) * (size_t)from[i].rank);
    }
    return to;
}

/* Functions of the user's own are those of the process. */
static Function find(const CallArgs *args) {
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        if (strcmp(functions[i].name, args->row->name) == 0) return functions[i];
    const char *name = args->row->function;
    void *run = dlsym(RTLD_DEFAULT, name),
         *scratch = dlsym(RTLD_DEFAULT, arena_printf(args->arena, "%s_scratch", name));
    return (Function){name, (weir_call_fn *)(uintptr_t)run,
                      (weir_call_scratch_fn *)(uintptr_t)scratch};
}

static bool call(CallArgs *args) {
    weir_call c = {
        .nin = args->nin, .nout = args->nout, .nattr = args->nattr, .ndefine = args->ndefine};
    c.in = tensors(args->arena, args->in, args->nin);
    c.out = tensors(args->arena, args->out, args->nout);
    c.attr = args->attr;
    c.define = args->define;
    c.objects = args->objects;
    Function f = find(args);
    if (!f.run || !f.scratch) {
        args->reason = "its function is not in this process, so only compiled code can call it: "
                       "export it, with its _scratch, from the program";
        return false;
    }
    c.scratch = arena_alloc(args->arena, (size_t)f.scratch(&c));
    f.run(&c);
    args->reason = c.reason;
    return c.status == WEIR_OK;
}

/* ---- strings and objects --------------------------------------------------------------------- */

static void drop(void *objects) {
    weir_objects_free(objects);
}

static void *objects(Arena *arena, const Flow *flow) {
    weir_string *text = NEW_ARRAY(arena, weir_string, flow->text.n);
    for (int i = 0; i < flow->text.n; i++)
        text[i] = (weir_string){flow->text.at[i].at, flow->text.at[i].n};
    weir_objects *o = weir_objects_new(text, flow->text.n);
    if (!o) fail(arena_ctx(arena), E_MEMORY, "there is no memory for the strings of a model");
    arena_defer(arena, drop, o);
    return o;
}

static const char *take(Arena *arena, void *objects, Tensor *t) {
    const char *reason;
    int64_t n = tensor_count(t), *handle = arena_array(arena, (size_t)n + 8, sizeof *handle);
    if (weir_objects_take(objects, dtype_onnx(t->type), t->data, n, handle, &reason)) return reason;
    t->data = handle;
    return NULL;
}

static const char *give(Arena *arena, void *objects, Tensor *t) {
    void *block;
    if (weir_objects_give(objects, dtype_onnx(t->type), t->data, tensor_count(t), NULL, &block))
        return "there is no memory for it";
    arena_defer(arena, free, block);
    t->data = block;
    return NULL;
}

const RuntimeHooks calls_runtime = {call, objects, take, give};
