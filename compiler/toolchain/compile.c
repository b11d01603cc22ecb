/* SPDX-License-Identifier: Apache-2.0 */
/* Units to objects: clang to bitcode, LLVM's passes and code generator, in a few threads.
 *
 * The nest is unrolled and vectorized already, so a handful of scalar passes is enough: more passes cost
 * four times the time and gain nothing. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <llvm-c/BitReader.h>
#include <llvm-c/Core.h>
#include <llvm-c/Target.h>
#include <llvm-c/TargetMachine.h>
#include <llvm-c/Transforms/PassBuilder.h>

#include "compiler/toolchain/toolchain.h"

static const char pass_list[] =
    "always-inline,function(sroa,early-cse,instcombine<no-verify-fixpoint>,simplifycfg,loop-mssa(licm),early-cse)";

enum { MESSAGE = 4096, JOBS_MAX = 64 };

typedef struct Build {
    const Units *units;
    const ToolchainOptions *options;
    const char *clang;
    Object *object; /* malloc'd */
    int next;
    pthread_mutex_t lock;
    char message[MESSAGE]; /* the first failure */
} Build;

static void note_failure(Build *b, const char *unit, const char *what, const char *why) {
    pthread_mutex_lock(&b->lock);
    if (!b->message[0]) snprintf(b->message, sizeof b->message, "%s \"%s\": %.3500s", what, unit, why ? why : "");
    pthread_mutex_unlock(&b->lock);
}

/* ---- clang -------------------------------------------------------------------------------------------------- */

static bool to_bitcode(Build *b, const Unit *unit, Object *bitcode) {
    const char *argv[64] = {b->clang, "-x", "c", "-std=gnu11", "-O1", "-Xclang", "-disable-llvm-passes", "-emit-llvm",
                            "-c", "-fPIC", "-fvisibility=hidden", "-w"};
    int n = 12;
    for (int i = 0; b->options->flags && b->options->flags[i] && n < 60; i++) argv[n++] = b->options->flags[i];
    argv[n++] = "-";
    argv[n++] = "-o";
    argv[n++] = "-";
    char *error;
    int rc = process_run((char *const *)argv, unit->text, strlen(unit->text), bitcode, &error);
    if (rc || !bitcode->n) note_failure(b, unit->name, rc < 0 ? "clang-19 cannot be started for" : "clang-19 failed on", error);
    free(error);
    return !rc && bitcode->n;
}

/* ---- LLVM ----------------------------------------------------------------------------------------------------- */

static LLVMTargetMachineRef machine_for(LLVMModuleRef module, char **error) {
    const char *triple = LLVMGetTarget(module);
    LLVMTargetRef target;
    if (LLVMGetTargetFromTriple(triple, &target, error)) return NULL;
    return LLVMCreateTargetMachine(target, triple, "", "", LLVMCodeGenLevelDefault, LLVMRelocPIC, LLVMCodeModelDefault);
}

static char *run_passes(LLVMModuleRef module, LLVMTargetMachineRef machine) {
    LLVMPassBuilderOptionsRef options = LLVMCreatePassBuilderOptions();
    LLVMErrorRef error = LLVMRunPasses(module, pass_list, machine, options);
    LLVMDisposePassBuilderOptions(options);
    if (!error) return NULL;
    char *message = LLVMGetErrorMessage(error), *copy = strdup(message);
    LLVMDisposeErrorMessage(message);
    return copy;
}

static void take_object(LLVMMemoryBufferRef buffer, Object *out) {
    out->n = LLVMGetBufferSize(buffer);
    out->at = malloc(out->n);
    if (out->at) memcpy(out->at, LLVMGetBufferStart(buffer), out->n);
    LLVMDisposeMemoryBuffer(buffer);
}

static bool to_object(Build *b, const Unit *unit, const Object *bitcode, Object *out) {
    LLVMContextRef context = LLVMContextCreate();
    LLVMMemoryBufferRef buffer = LLVMCreateMemoryBufferWithMemoryRange(bitcode->at, bitcode->n, "unit", 0), object;
    LLVMModuleRef module = NULL;
    LLVMTargetMachineRef machine = NULL;
    char *error = NULL;
    bool ok = !LLVMParseBitcodeInContext2(context, buffer, &module) && (machine = machine_for(module, &error));
    if (ok) ok = !(error = run_passes(module, machine));
    if (ok) ok = !LLVMTargetMachineEmitToMemoryBuffer(machine, module, LLVMObjectFile, &error, &object);
    if (ok) take_object(object, out);
    else note_failure(b, unit->name, "LLVM failed on", error);
    free(error);
    if (machine) LLVMDisposeTargetMachine(machine);
    if (module) LLVMDisposeModule(module);
    LLVMDisposeMemoryBuffer(buffer);
    LLVMContextDispose(context);
    return ok;
}

/* ---- all units --------------------------------------------------------------------------------------------------- */

static void key_of(const Build *b, const Unit *unit, char *key) {
    uint64_t h[2] = {0x57454952, 0x57454952 ^ 0x9e3779b97f4a7c15u};
    for (int k = 0; k < 2; k++) {
        h[k] = hash_bytes(h[k], unit->text, strlen(unit->text));
        h[k] = hash_bytes(h[k], pass_list, sizeof pass_list);
        h[k] = hash_bytes(h[k], b->clang, strlen(b->clang));
        h[k] = hash_bytes(h[k], WEIR_TOOLS_ID, sizeof WEIR_TOOLS_ID);
        for (int i = 0; b->options->flags && b->options->flags[i]; i++)
            h[k] = hash_bytes(h[k] + (uint64_t)k, b->options->flags[i], strlen(b->options->flags[i]));
    }
    snprintf(key, 40, "%016llx%016llx", (unsigned long long)h[0], (unsigned long long)h[1]);
}

static void compile_unit(Build *b, int i) {
    const Unit *unit = &b->units->at[i];
    char key[40];
    key_of(b, unit, key);
    if (b->options->cache && (b->object[i].at = cache_get(key, &b->object[i].n))) return;
    Object bitcode;
    if (to_bitcode(b, unit, &bitcode) && to_object(b, unit, &bitcode, &b->object[i]) && b->options->cache)
        cache_put(key, b->object[i].at, b->object[i].n);
    free(bitcode.at);
}

static void *worker(void *arg) {
    Build *b = arg;
    for (;;) {
        pthread_mutex_lock(&b->lock);
        int i = b->message[0] ? b->units->n : b->next++;
        pthread_mutex_unlock(&b->lock);
        if (i >= b->units->n) return NULL;
        compile_unit(b, i);
    }
}

static void free_object(void *at) { free(at); }

Object *toolchain_compile(Arena *arena, const Units *units, const ToolchainOptions *o) {
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
    LLVMInitializeX86AsmParser();
    Build b = {.units = units, .options = o, .clang = toolchain_clang(arena), .lock = PTHREAD_MUTEX_INITIALIZER};
    if (!b.clang)
        fail(arena_ctx(arena), E_TOOLCHAIN, "clang-19 is not found; install the package clang-19, or name it in WEIR_CLANG");
    b.object = NEW_ARRAY(arena, Object, units->n + 1);
    pthread_t thread[JOBS_MAX];
    int extra = 0, wanted = o->jobs < units->n ? o->jobs : units->n;
    while (extra < wanted - 1 && extra < JOBS_MAX && !pthread_create(&thread[extra], NULL, worker, &b)) extra++;
    worker(&b);
    for (int i = 0; i < extra; i++) pthread_join(thread[i], NULL);
    for (int i = 0; i < units->n; i++)
        if (b.object[i].at) arena_defer(arena, free_object, b.object[i].at);
    if (b.message[0]) fail(arena_ctx(arena), E_TOOLCHAIN, "%s", b.message);
    return b.object;
}
