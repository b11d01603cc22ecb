/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors on the host: read from and written to .npy and TensorProto .pb files, made at random,
 * compared. */
#ifndef WEIR_TOOLS_TENSORS_H
#define WEIR_TOOLS_TENSORS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "runtime/weir_model.h"

/* Owns `t.data` (malloc'd, dense, packed; strings and objects: one block, see weir_model.h). `name`
 * is owned too and may be NULL. */
typedef struct HostTensor {
    char *name;
    weir_tensor t;
    const char *object; /* type text of a result that is an object: its port's */
} HostTensor;

/* Zeros; more of what there is, what is new of any value; a copy of a text. To be freed. Where
 * there is no memory the verb, which has a process of its own (guard.h), ends with a message. */
void *host_alloc(size_t n, size_t size);
void *host_more(void *at, size_t n, size_t size);
char *host_text(const char *text);
_Noreturn void out_of_memory(void);

void host_free(HostTensor *h);
void tensors_free(HostTensor *t, int n);
bool host_is_object(int32_t dtype);
/* Copies the strings or the value into one block, h->t.data; dtype and dims stand in h->t. */
bool host_flatten(HostTensor *h, const void *data);
void host_print_object(const weir_tensor *t);
int64_t host_count(const weir_tensor *t);
int64_t host_bytes(const weir_tensor *t); /* packed; sub-byte types round up */
/* Are the dims of a file not negative, and their bits a number? */
bool host_has_size(const weir_tensor *t);
int dtype_bits_of(int32_t dtype);      /* 0: unknown */
const char *dtype_text(int32_t dtype); /* "f32" */

/* By ending: .npy or .pb. False with a message in `error` (256 bytes). */
/* `object` is the port's type text when it takes an object (weir_port.object), else NULL. */
bool host_read(HostTensor *h, const char *path, const char *object, char *error);
bool npy_read(HostTensor *h, const char *path, char *error);
bool pb_read(HostTensor *h, const char *path, const char *object, char *error);
/* NAME.npy where numpy has the dtype, else NAME.pb, in `dir`; '/' in the name becomes '_'. Written
 * to a temporary name and renamed. */
bool host_write(const HostTensor *h, const char *dir, char *error);
bool pb_write(const HostTensor *h, const char *path, char *error);
char *read_whole(const char *path, size_t *n, char *error);
/* "text" with JSON's escapes, quotes included. */
void json_string(FILE *f, const char *text);
/* As output_file (ir/output.h). False with a message in `error` (256 bytes). */
bool write_whole(const char *path, const void *data, size_t n, char *error);

/* Runs a compiled model; outputs are allocated (free them with tensors_free). False with a message
 * in `error` (512 bytes). */
bool host_run(const weir_model *m, weir_instance *instance, const HostTensor *inputs,
              HostTensor *outputs, char *error);

/* Values from a counter-based generator: floats in about -1..1; integers of 32 and 64 bits,
 * which are mostly indices, 0 or 1 as bools are; others 0..9; words. */
void host_random(HostTensor *h, uint64_t seed);

/* Element i as a double (f16, bf16, f8 widened; integers converted). */
double host_get(const weir_tensor *t, int64_t i);

/* How far floats are from what is wanted, in units in the last place of their type: the worst of
 * all elements, each by its own unit and by the unit of the tensor's largest magnitude. NO_FLOATS:
 * nothing of a float type was compared. */
typedef struct Distance {
    double ulp, of_largest;
} Distance;
#define NO_FLOATS ((Distance){-1, -1})
void distance_worsen(Distance *worst, Distance other);

typedef struct Difference {
    bool same;
    int64_t at; /* first element beyond tolerance */
    double got, want;
    Distance distance;
    char text[200]; /* why not */
} Difference;
/* |got - want| <= atol + rtol * |want| for floats (NaN equals NaN, infinities by sign); equality
 * else. Floats below 64 bits may be off by this share of the largest magnitude besides
 * (agree_share). Of bf16, rtol is 2^-6 at least. */
typedef struct Tolerance {
    double rtol, atol, share;
} Tolerance;
void host_compare_objects(Difference *d, const weir_tensor *got, const weir_tensor *want,
                          const Tolerance *within);
Difference host_compare(const weir_tensor *got, const weir_tensor *want, const Tolerance *within);

/* How near two tensors of one type and shape are. Integers and bools: `equal` alone counts. */
typedef struct Agreement {
    bool equal, comparable; /* comparable: same dtype and dims */
    double ulp,
        relative; /* worst distance in units in the last place; worst difference over the largest
                   * magnitude of `want`; infinite where one is NaN or infinite and not the other */
    int64_t at;   /* where the worst difference is; -1: none */
    double got, want;
} Agreement;
Agreement host_agree(const weir_tensor *got, const weir_tensor *want);
/* The largest `relative` that counts as agreement of this dtype: what the order of sums may change.
 */
double agree_bound(int32_t dtype);
/* What these options, and the flow that the model was lowered to (or NULL), add to the bound of
 * floats below 64 bits, as a part of the largest magnitude: --math=fast and --convert promise no
 * more, and what is computed in halves is rounded in another order (compiler/README.md). */
struct Options;
struct Flow;
#define AGREE_FAST 0x1p-8  /* of --math=fast alone */
#define AGREE_CODED 0x1p-6 /* where rows of products by codes become codes */
double agree_share(const struct Options *o, const struct Flow *flow);
bool agreement_holds(const Agreement *a, int32_t dtype, double share);

#endif
