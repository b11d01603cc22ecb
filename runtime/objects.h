/* SPDX-License-Identifier: Apache-2.0 */
/* Strings, sequences, optionals and maps while a model runs.
 *
 * Compiled code and the evaluators see handles: 64-bit numbers of strings or of objects in a table
 * that belongs to the instance. So containers of strings are tensors of numbers: maps move, select
 * and compare them like integers (equal strings have equal handles: the table holds each once),
 * which makes reshapes, gathers, concatenations, conditions and loops over them ordinary maps. Only
 * calls look behind a handle, and only they make new ones, on one thread.
 *
 * Strings 0 .. n-1 are the program's constants, so handles can stand in literals; 0 is "". Objects
 * never change once made: a sequence with one more element is a new object, which shares the
 * elements. Object 0 is no object: an optional without a value. An optional with one is the value.
 *
 * Everything made during a run lives to its end; the table then forgets all but the constants. What
 * inputs hold is not copied: it is the caller's, and lives as long. A handle that names nothing
 * reads as "" or as no object. */
#ifndef WEIR_OBJECTS_H
#define WEIR_OBJECTS_H

#include "runtime/call.h"
#include "runtime/weir_model.h"

typedef struct weir_objects weir_objects;

/* The items of sequences; several sequences may begin with the same items. */
typedef struct weir_items {
    int64_t used, room;
    int64_t at[];
} weir_items;

typedef struct weir_object {
    int32_t kind;       /* weir_value_kind, never NONE */
    weir_tensor tensor; /* TENSOR: dense; strings are handles */
    int64_t count;      /* SEQUENCE, MAP */
    weir_items *items;
} weir_object;

/* `text` is used as long as the table lives. NULL: there is no memory. */
weir_objects *weir_objects_new(const weir_string *text, int64_t n);
void weir_objects_free(weir_objects *o);
void weir_objects_reset(weir_objects *o); /* forgets all but the constants */

/* Memory that lives to the end of the run, aligned to 16; NULL: there is none. */
void *weir_objects_alloc(weir_objects *o, int64_t bytes);

/* Handles are -1 when there is no memory. The bytes must live to the end of the run. */
int64_t weir_text(weir_objects *o, const char *at, int64_t bytes);
weir_string weir_text_of(const weir_objects *o, int64_t handle);
uint64_t weir_text_hash(weir_string s);                          /* of its bytes */
int64_t weir_text_joined(weir_objects *o, int64_t a, int64_t b); /* a's bytes, then b's */

int64_t weir_object_tensor(weir_objects *o, const weir_tensor *t); /* copies the data */
int64_t weir_object_view(weir_objects *o, const weir_tensor *t);   /* does not */
int64_t weir_object_sequence(weir_objects *o, const int64_t *items, int64_t n);
int64_t weir_object_map(weir_objects *o, int64_t keys, int64_t values);
/* The sequence with `item` at `at`, 0 .. count. */
int64_t weir_object_insert(weir_objects *o, int64_t sequence, int64_t at, int64_t item);
const weir_object *weir_object_of(const weir_objects *o, int64_t handle); /* NULL: none */

/* Between what callers give and get, and n handles; `dtype` is WEIR_STRING or WEIR_OBJECT. */
weir_status weir_objects_take(weir_objects *o, int32_t dtype, const void *from, int64_t n,
                              int64_t *handle, const char **reason);
/* One block for n strings or objects; its address in *to. */
weir_status weir_objects_give(const weir_objects *o, int32_t dtype, const int64_t *handle,
                              int64_t n, const weir_allocator *allocator, void **to);

/* ---- what calls over objects share ------------------------------------------------------------
 */

/* A call that needs no scratch memory. */
#define NO_SCRATCH(name)                                                                           \
    int64_t weir_call_##name##_scratch(const weir_call *c) {                                       \
        (void)c;                                                                                   \
        return 0;                                                                                  \
    }

/* `reason` is static. */
static inline void fails(weir_call *c, weir_status status, const char *reason) {
    c->status = status;
    c->reason = reason;
}

#endif
