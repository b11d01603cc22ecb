/* SPDX-License-Identifier: Apache-2.0 */
/* The ONNX front door: bytes of a model become a Graph.
 *
 * protobuf-c decodes the messages, after a walk over the bytes that checks every length, count and
 * depth and keeps weights out of it: a weight is never copied, parameters are views of the mapped
 * file (or of the caller's bytes, which must live as long as the graph), except lists of
 * small integers that the format stores as varints. Everything that is wrong with a model is a
 * `fail` with its node and tensor. */
#ifndef WEIR_FRONTENDS_ONNX_H
#define WEIR_FRONTENDS_ONNX_H

#include "ir/graph.h"

/* Range of one symbolic dim of the model: lo == hi makes it a constant. */
typedef struct DimOverride {
    const char *name; /* as in the model; dims without a name are "<input>_d<axis>" */
    int64_t lo, hi;   /* hi = INT64_MAX: no upper bound */
} DimOverride;

typedef struct ImportOptions {
    const char *name; /* of the graph; NULL: its own */
    const DimOverride *dim;
    int ndim;
    const char *const
        *feed; /* inputs with a default (initializers listed as inputs) that stay inputs */
    int nfeed;
    const OpTable *ops; /* NULL: onnx_ops() */
    bool data_anywhere; /* external data may lie outside the model's folder */
} ImportOptions;

/* Both `fail`. `options` may be NULL. The mapping of the file belongs to the arena. */
Graph *onnx_import_file(Arena *arena, const char *path, const ImportOptions *options);
/* `folder` holds external data; NULL: none may be used. */
Graph *onnx_import_memory(Arena *arena, const void *bytes, size_t n, const char *folder,
                          const ImportOptions *options);

const OpTable *onnx_ops(void);
/* With operators of the user's own in front: texts of flows (ops/custom.c says of what form).
 * E_OPTION when a text has none. */
const OpTable *onnx_ops_with(Arena *arena, const char *const *text, int n);

#endif
