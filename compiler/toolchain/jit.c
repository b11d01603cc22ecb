/* SPDX-License-Identifier: Apache-2.0 */
/* Loading objects into this process by LLVM's JIT linker. The runtime's functions are given by address:
 * the host need not export them. */
#include <llvm-c/Core.h>
#include <llvm-c/LLJIT.h>
#include <llvm-c/Orc.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/toolchain/toolchain.h"
#include "runtime/call.h"

#define CALL(name, nin, nout, ndefine, reason)                                                     \
    void weir_call_##name(weir_call *c);                                                           \
    int64_t weir_call_##name##_scratch(const weir_call *c);
#include "ir/call.def"
#undef CALL

typedef struct RuntimeSymbol {
    const char *name;
    void *address;
} RuntimeSymbol;

static void check(Ctx *ctx, LLVMErrorRef error) {
    if (!error) return;
    char *message = LLVMGetErrorMessage(error);
    const char *copy = arena_printf(ctx_arena(ctx), "%s", message);
    LLVMDisposeErrorMessage(message);
    fail(ctx, E_TOOLCHAIN, "cannot load the code into this process: %s", copy);
}

static void dispose(void *jit) {
    LLVMErrorRef error = LLVMOrcDisposeLLJIT(jit);
    if (error) LLVMConsumeError(error);
}

static void define(Ctx *ctx, LLVMOrcLLJITRef jit, const RuntimeSymbol *symbol, int n) {
    LLVMOrcCSymbolMapPair *pairs = NEW_ARRAY(ctx_arena(ctx), LLVMOrcCSymbolMapPair, n);
    for (int i = 0; i < n; i++) {
        pairs[i].Name = LLVMOrcLLJITMangleAndIntern(jit, symbol[i].name);
        pairs[i].Sym = (LLVMJITEvaluatedSymbol){(LLVMOrcExecutorAddress)(uintptr_t)symbol[i].address,
                                                {LLVMJITSymbolGenericFlagsExported | LLVMJITSymbolGenericFlagsCallable, 0}};
    }
    check(ctx, LLVMOrcJITDylibDefine(LLVMOrcLLJITGetMainJITDylib(jit), LLVMOrcAbsoluteSymbols(pairs, (size_t)n)));
}

static void define_runtime(Ctx *ctx, LLVMOrcLLJITRef jit) {
    static const RuntimeSymbol symbols[] = {
#define SYMBOL(f) {#f, (void *)f}
        SYMBOL(weir_rt_barrier), SYMBOL(weir_rt_fail), SYMBOL(weir_rt_create), SYMBOL(weir_rt_reserve),
        SYMBOL(weir_rt_run), SYMBOL(weir_rt_destroy), SYMBOL(weir_rt_error), SYMBOL(weir_rt_shapes),
        SYMBOL(weir_pool_new), SYMBOL(weir_pool_free),
#undef SYMBOL
    };
    define(ctx, jit, symbols, (int)(sizeof symbols / sizeof *symbols));
    static const RuntimeSymbol calls[] = {
#define CALL(name, nin, nout, ndefine, reason)                                                     \
    {"weir_call_" #name, (void *)weir_call_##name},                                                \
        {"weir_call_" #name "_scratch", (void *)weir_call_##name##_scratch},
#include "ir/call.def"
#undef CALL
    };
    define(ctx, jit, calls, (int)(sizeof calls / sizeof *calls));
}

static void *lookup(Ctx *ctx, LLVMOrcLLJITRef jit, const char *name) {
    LLVMOrcExecutorAddress at;
    check(ctx, LLVMOrcLLJITLookup(jit, &at, name));
    return (void *)(uintptr_t)at;
}

Jit toolchain_jit(Arena *arena, const Object *objects, int n) {
    Ctx *ctx = arena_ctx(arena);
    LLVMOrcLLJITRef jit;
    check(ctx, LLVMOrcCreateLLJIT(&jit, NULL));
    arena_defer(arena, dispose, jit);
    define_runtime(ctx, jit);
    LLVMOrcDefinitionGeneratorRef process;
    check(ctx, LLVMOrcCreateDynamicLibrarySearchGeneratorForProcess(&process, LLVMOrcLLJITGetGlobalPrefix(jit), NULL, NULL));
    LLVMOrcJITDylibAddGenerator(LLVMOrcLLJITGetMainJITDylib(jit), process);
    for (int i = 0; i < n; i++) {
        LLVMMemoryBufferRef buffer = LLVMCreateMemoryBufferWithMemoryRangeCopy(objects[i].at, objects[i].n, "object");
        check(ctx, LLVMOrcLLJITAddObjectFile(jit, LLVMOrcLLJITGetMainJITDylib(jit), buffer));
    }
    Jit out;
    out.descriptor = (weir_model_fn *)lookup(ctx, jit, WEIR_MODEL_SYMBOL);
    out.blob = lookup(ctx, jit, "weir_blob");
    return out;
}
