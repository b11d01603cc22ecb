/* SPDX-License-Identifier: Apache-2.0 */
/* Objects into this process by LLVM's LLJIT. They see the runtime that this process is linked with
 * (by the table below: its symbols are not exported) and, for libc and libm, the process itself. */
#include "private.h"

#include "runtime/device.h"

#include <stdio.h>
#include <stdlib.h>

#include <llvm-c/Core.h>
#include <llvm-c/Error.h>
#include <llvm-c/LLJIT.h>
#include <llvm-c/Orc.h>

struct Jit {
    LLVMOrcLLJITRef lljit;
    weir_model_fn *model;
    struct weir_blob *blob;
    char said[512]; /* the session's own words about what went wrong */
};

#define CALL(name, nin, nout, ndefine, apart, why)                                                 \
    weir_call_fn weir_call_##name;                                                                 \
    weir_call_scratch_fn weir_call_##name##_scratch;
#include "ir/call.def"
#undef CALL

#define SYMBOL(name)                                                                               \
    { #name, (void *)(uintptr_t)(name) }
#define SYMBOL_AT(name)                                                                            \
    { #name, (void *)(uintptr_t) & (name) }
#define DEVICE(name) SYMBOL(weir_device_##name), SYMBOL(weir_device_##name##_scratch),
#define CALL(name, nin, nout, ndefine, apart, why)                                                 \
    SYMBOL(weir_call_##name), SYMBOL(weir_call_##name##_scratch),
static const struct RuntimeSymbol {
    const char *name;
    void *at;
} runtime_symbols[] = {
    SYMBOL(weir_rt_barrier),      SYMBOL(weir_rt_fail),         SYMBOL(weir_rt_create),
    SYMBOL(weir_rt_reserve),      SYMBOL(weir_rt_defined),      SYMBOL(weir_rt_define),
    SYMBOL(weir_rt_room),         SYMBOL(weir_rt_size),         SYMBOL(weir_rt_run),
    SYMBOL(weir_rt_destroy),      SYMBOL(weir_rt_error),        SYMBOL(weir_rt_shapes),
    SYMBOL(weir_pool_new),        SYMBOL(weir_pool_free),       SYMBOL(weir_rt_weights_of),
    SYMBOL(weir_rt_weights_new),  SYMBOL(weir_rt_weights_use),  SYMBOL(weir_rt_weights_free),
    SYMBOL(weir_rt_now),          SYMBOL(weir_rt_span),         SYMBOL(weir_rt_profile),
    SYMBOL(weir_rt_create_on),    SYMBOL(weir_rt_version),      SYMBOL(weir_device_launch),
    SYMBOL(weir_device_copy),     SYMBOL(weir_device_byte),     SYMBOL(weir_device_call),
    SYMBOL(weir_device_submit),   SYMBOL(weir_device_wait),     SYMBOL(weir_device_settle),
    SYMBOL(weir_device_multiply), SYMBOL(weir_device_convolve), SYMBOL(weir_device_launch_boxes),
    SYMBOL_AT(weir_device_cuda),  SYMBOL(weir_rt_stray),        SYMBOL(weir_rt_inside),
    WEIR_DEVICE_CALLS(DEVICE)
#include "ir/call.def"
};
#undef CALL
enum { NSYMBOLS = sizeof runtime_symbols / sizeof *runtime_symbols };

/* LLVM would print these; the error that comes back says less. */
static void keep_words(void *user, LLVMErrorRef error) {
    Jit *jit = user;
    char *text = LLVMGetErrorMessage(error);
    snprintf(jit->said, sizeof jit->said, "%s: ", text);
    LLVMDisposeErrorMessage(text);
}

/* Frees `jit` before it fails. */
static void check(Ctx *ctx, Jit *jit, LLVMErrorRef error) {
    if (!error) return;
    char *text = LLVMGetErrorMessage(error), copy[1024];
    snprintf(copy, sizeof copy, "%s%s", jit->said, text);
    LLVMDisposeErrorMessage(text);
    jit_free(jit);
    fail(ctx, E_TOOLCHAIN, "cannot load the compiled code into this process: %s", copy);
}

static void define_symbols(Ctx *ctx, Jit *jit, LLVMOrcJITDylibRef library) {
    LLVMOrcCSymbolMapPair pair[NSYMBOLS];
    for (int i = 0; i < NSYMBOLS; i++) {
        pair[i].Name = LLVMOrcLLJITMangleAndIntern(jit->lljit, runtime_symbols[i].name);
        pair[i].Sym = (LLVMJITEvaluatedSymbol){
            .Address = (LLVMOrcExecutorAddress)(uintptr_t)runtime_symbols[i].at,
            .Flags = {.GenericFlags =
                          LLVMJITSymbolGenericFlagsExported | LLVMJITSymbolGenericFlagsCallable},
        };
    }
    check(ctx, jit, LLVMOrcJITDylibDefine(library, LLVMOrcAbsoluteSymbols(pair, NSYMBOLS)));
    LLVMOrcDefinitionGeneratorRef process;
    check(ctx, jit,
          LLVMOrcCreateDynamicLibrarySearchGeneratorForProcess(
              &process, LLVMOrcLLJITGetGlobalPrefix(jit->lljit), NULL, NULL));
    LLVMOrcJITDylibAddGenerator(library, process);
}

static void *look_up(Ctx *ctx, Jit *jit, const char *name) {
    LLVMOrcExecutorAddress at;
    check(ctx, jit, LLVMOrcLLJITLookup(jit->lljit, &at, name));
    return (void *)(uintptr_t)at;
}

Jit *jit_new(Ctx *ctx, const Objects *objects) {
    Jit *jit = calloc(1, sizeof *jit);
    if (!jit) fail(ctx, E_MEMORY, "no memory to load code; give the process more memory");
    llvm_start();
    check(ctx, jit, LLVMOrcCreateLLJIT(&jit->lljit, LLVMOrcCreateLLJITBuilder()));
    LLVMOrcExecutionSessionSetErrorReporter(LLVMOrcLLJITGetExecutionSession(jit->lljit), keep_words,
                                            jit);
    LLVMOrcJITDylibRef library = LLVMOrcLLJITGetMainJITDylib(jit->lljit);
    define_symbols(ctx, jit, library);
    for (int i = 0; i < objects->n; i++) {
        LLVMMemoryBufferRef copy =
            LLVMCreateMemoryBufferWithMemoryRangeCopy(objects->at[i].at, objects->at[i].n, "unit");
        check(ctx, jit, LLVMOrcLLJITAddObjectFile(jit->lljit, library, copy));
    }
    jit->model = (weir_model_fn *)(uintptr_t)look_up(ctx, jit, WEIR_MODEL_SYMBOL);
    jit->blob = look_up(ctx, jit, "weir_blob");
    return jit;
}

weir_model_fn *jit_model(const Jit *jit) {
    return jit->model;
}

struct weir_blob *jit_blob(const Jit *jit) {
    return jit->blob;
}

void jit_free(Jit *jit) {
    if (!jit) return;
    LLVMErrorRef error = jit->lljit ? LLVMOrcDisposeLLJIT(jit->lljit) : NULL;
    if (error) LLVMConsumeError(error);
    free(jit);
}
