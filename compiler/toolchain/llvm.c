/* SPDX-License-Identifier: Apache-2.0 */
/* Bitcode to an object in memory by LLVM's C interface. Every call has a context of its own, so
 * that threads work side by side. Functions carry their CPU as attributes, which clang wrote: the
 * machine that makes the object is asked for nothing but its format. */
#include "private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <llvm-c/BitReader.h>
#include <llvm-c/Core.h>
#include <llvm-c/Error.h>
#include <llvm-c/Target.h>
#include <llvm-c/TargetMachine.h>
#include <llvm-c/Transforms/PassBuilder.h>

/* The first simplifycfg costs little and decides the order of a loop's phis, hence of the loads in
 * it: without it they go down in memory while the loop goes up, which the prefetchers of Zen do not
 * see as a stream (a matrix in the inner cache is then read at two thirds of the speed). */
const char llvm_pass_list[] =
    "always-inline,"
    "function(simplifycfg,sroa,early-cse,instcombine<no-verify-fixpoint>,simplifycfg,"
    "loop-mssa(licm),early-cse)";

/* LLVM's registry of targets is not guarded against two threads that fill it at once. We have no
 * global to hold a lock, but libc has one for everybody: that of a standard stream. */
void llvm_start(void) {
    flockfile(stderr);
    LLVMInitializeNativeTarget();
    LLVMInitializeNativeAsmPrinter();
    LLVMInitializeNativeAsmParser();
    LLVMInitializeAArch64TargetInfo();
    LLVMInitializeAArch64Target();
    LLVMInitializeAArch64TargetMC();
    LLVMInitializeAArch64AsmPrinter();
    funlockfile(stderr);
}

const char *tool_llvm_version(Arena *arena) {
    unsigned major, minor, patch;
    LLVMGetVersion(&major, &minor, &patch);
    return arena_printf(arena, "%u.%u.%u", major, minor, patch);
}

/* The last thing LLVM had to say in a context: messages do not go to the terminal. */
static void keep_message(LLVMDiagnosticInfoRef info, void *user) {
    char **last = user;
    char *text = LLVMGetDiagInfoDescription(info);
    if (LLVMGetDiagInfoSeverity(info) == LLVMDSError) {
        free(*last);
        *last = strdup(text);
    }
    LLVMDisposeMessage(text);
}

static char *optimize(LLVMModuleRef module, LLVMTargetMachineRef machine) {
    LLVMPassBuilderOptionsRef options = LLVMCreatePassBuilderOptions();
    LLVMErrorRef error = LLVMRunPasses(module, llvm_pass_list, machine, options);
    LLVMDisposePassBuilderOptions(options);
    if (!error) return NULL;
    char *text = LLVMGetErrorMessage(error), *copy = message("LLVM's passes failed: %s", text);
    LLVMDisposeErrorMessage(text);
    return copy;
}

static char *emit(LLVMModuleRef module, LLVMTargetMachineRef machine, Span *object) {
    char *text = NULL;
    LLVMMemoryBufferRef buffer;
    if (LLVMTargetMachineEmitToMemoryBuffer(machine, module, LLVMObjectFile, &text, &buffer)) {
        char *copy = message("LLVM cannot emit an object: %s", text);
        LLVMDisposeMessage(text);
        return copy;
    }
    object->n = LLVMGetBufferSize(buffer);
    object->at = malloc(object->n + 1);
    if (object->at) memcpy(object->at, LLVMGetBufferStart(buffer), object->n);
    LLVMDisposeMemoryBuffer(buffer);
    return object->at ? NULL : message("no memory for an object");
}

static char *compile(LLVMModuleRef module, Span *object, ToolTimes *times) {
    char *text = NULL;
    LLVMTargetRef target;
    const char *triple = LLVMGetTarget(module);
    if (LLVMGetTargetFromTriple(triple, &target, &text)) {
        char *copy = message("LLVM does not know the target \"%s\": %s", triple, text);
        LLVMDisposeMessage(text);
        return copy;
    }
    LLVMTargetMachineRef machine = LLVMCreateTargetMachine(
        target, triple, "", "", LLVMCodeGenLevelDefault, LLVMRelocPIC, LLVMCodeModelDefault);
    double start = tool_seconds();
    char *error = optimize(module, machine);
    double middle = tool_seconds();
    if (!error) error = emit(module, machine, object);
    times->passes += middle - start;
    times->codegen += tool_seconds() - middle;
    LLVMDisposeTargetMachine(machine);
    return error;
}

char *llvm_object(Span bitcode, Span *object, ToolTimes *times) {
    *object = (Span){0};
    LLVMContextRef context = LLVMContextCreate();
    char *said = NULL;
    LLVMContextSetDiagnosticHandler(context, keep_message, &said);
    LLVMMemoryBufferRef buffer =
        LLVMCreateMemoryBufferWithMemoryRange(bitcode.at, bitcode.n, "unit", 0);
    LLVMModuleRef module = NULL;
    char *error = NULL;
    if (LLVMParseBitcodeInContext2(context, buffer, &module)) {
        error = message("LLVM cannot read clang's bitcode: %s; both must be of version 19",
                        said ? said : "no reason given");
    } else {
        error = compile(module, object, times);
        LLVMDisposeModule(module);
    }
    if (!error && said) error = message("LLVM failed: %s", said);
    LLVMDisposeMemoryBuffer(buffer);
    LLVMContextDispose(context);
    free(said);
    return error;
}
