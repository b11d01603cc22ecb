/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of the tests' driver: cuda.c, threads.c; its part below is what
 * libraries that stand on the driver (library.h) find in it by name. */
#ifndef WEIR_TESTS_FAKE_H
#define WEIR_TESTS_FAKE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { THREADS = 1024, ARGUMENTS = 96 }; /* of a block; of a kernel */

typedef struct Index {
    unsigned x, y, z;
} Index;

typedef struct Module {
    void *library;
    Index *thread, *block, *block_dim, *grid_dim;
    unsigned long long *followed;
    unsigned *boxes; /* that are still to come */
    struct Function *functions;
} Module;

typedef struct Function {
    struct Function *next;
    Module *module;
    void *at;
    unsigned shared;
    char name[64];
} Function;

/* threads.c: all threads of a launch; a barrier, of the block or of a warp. */
void fake_execute(const Function *f, unsigned blocks, unsigned rows, unsigned threads,
                  const uint64_t *arg, int n);
void fake_wait_for(int warp);
void fake_end_threads(void);
void fake_breach_in(const char *why); /* in the kernel that runs */

/* ---- for libraries on the driver --------------------------------------------------------------
 */

_Noreturn void fake_breach(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* Are all those bytes the device's, and of one allocation? */
void fake_within(uint64_t at, size_t bytes, const char *what);
int fake_context(void); /* is one current? */
/* On the stream, now or when what is being recorded runs: a function of at most ARGUMENTS words. */
typedef void FakeCall(const uint64_t *words);
int fake_put(void *stream, FakeCall *call, const uint64_t *words, int n);

#endif
