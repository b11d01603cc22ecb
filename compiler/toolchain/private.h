/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of this folder. Functions here run on worker threads, which have no context:
 * they take and give malloc'ed memory and return NULL when done, else a malloc'ed message. */
#ifndef WEIR_TOOLCHAIN_PRIVATE_H
#define WEIR_TOOLCHAIN_PRIVATE_H

#include "compiler/toolchain/toolchain.h"

/* ---- processes (process.c) ------------------------------------------------------------------- */

/* A program to run. Input is a whole text, output a whole answer: both go through memory files. */
typedef struct Run {
    const char *path;
    const char *const *argv; /* NULL-ended, argv[0] included */
    Span in;
    const int *keep; /* descriptors the program also gets, under the same numbers */
    int nkeep;
    Span out; /* malloc'ed: what it wrote to its standard output */
} Run;
char *tool_run(Run *run);

int memory_file(const void *at, size_t n); /* descriptor, closed on exec; -1 with errno */
/* $env when set, else `configured` when it exists, else `name` on the path; NULL: none. malloc'ed.
 */
char *tool_path(const char *env, const char *configured, const char *name);
char *message(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* ---- steps ----------------------------------------------------------------------------------- */

char *clang_bitcode(const char *clang, const char *text, const char *const *flags, Span *bitcode);
void clang_key(const char *const *flags, void (*put)(void *user, const char *text), void *user);
char *llvm_object(Span bitcode, Span *object, ToolTimes *times);
extern const char llvm_pass_list[];
void llvm_start(void); /* before the first use of LLVM; may be called again */

/* ---- cache (cache.c): all of it may fail silently, being a cache ----------------------------- */

enum { HASH_BYTES = 32 };
typedef struct Cache Cache;
Cache *cache_open(const char *clang); /* NULL: no usable folder */
void cache_close(Cache *cache); /* after a store, forgets the oldest entries beyond the limit */
void cache_key(const Cache *cache, const Unit *unit, const char *const *flags,
               unsigned char key[HASH_BYTES]);
bool cache_load(Cache *cache, const unsigned char key[HASH_BYTES], Span *object);
void cache_store(Cache *cache, const unsigned char key[HASH_BYTES], Span object);

#endif
