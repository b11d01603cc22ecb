/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of this folder. Functions here run on worker threads, which have no context:
 * they take and give malloc'ed memory and return NULL when done, else a malloc'ed message. */
#ifndef WEIR_TOOLCHAIN_PRIVATE_H
#define WEIR_TOOLCHAIN_PRIVATE_H

#include "compiler/toolchain/toolchain.h"
#include "ir/stop.h"

/* ---- steps ----------------------------------------------------------------------------------- */

/* A tool's --version from `line` (NULL: the first) to the end of the line; takes `path`. */
ToolFound tool_found(Arena *arena, const char *name, char *path, const char *line,
                     const char *install);
char *clang_bitcode(const char *clang, const char *text, const char *const *flags, Stop *stop,
                    Span *bitcode);
void clang_key(const char *const *flags, void (*put)(void *user, const char *text), void *user);
char *llvm_object(Span bitcode, Span *object, ToolTimes *times);
extern const char llvm_pass_list[];
void llvm_start(void); /* before the first use of LLVM; may be called again */

/* ---- cache (cache.c): all of it may fail silently, being a cache ----------------------------- */

enum { HASH_BYTES = 32 };
typedef struct Cache Cache;
Cache *cache_open(const char *clang); /* NULL: no usable folder */
void cache_close(Cache *cache); /* after a store, forgets the oldest entries beyond the limit */
void cache_key(const Cache *cache, const char *text, const char *const *flags,
               unsigned char key[HASH_BYTES]);
bool cache_load(Cache *cache, const unsigned char key[HASH_BYTES], Span *object);
void cache_store(Cache *cache, const unsigned char key[HASH_BYTES], Span object);

#endif
