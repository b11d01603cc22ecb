/* SPDX-License-Identifier: Apache-2.0 */
/* ONNX messages as they stand in the file: the fields that Weir reads, in the schema's names.
 * `has` has a bit for each field number that was met (see proto.c for the numbers). */
#ifndef WEIR_FRONTENDS_ONNX_PROTO_H
#define WEIR_FRONTENDS_ONNX_PROTO_H

#include "wire.h"

#define HAS(m, number) ((m)->has >> (number)&1)

typedef VEC(const char *) Names;
typedef VEC(int64_t) Ints;

typedef struct OnnxEntry {
    uint64_t has;
    const char *key, *value;
} OnnxEntry;

typedef struct OnnxTensor {
    uint64_t has;
    Ints dims;
    int64_t data_type, data_location;
    const char *name;
    Packed float_data, double_data;
    Ints int32_data, int64_data, uint64_data;
    VEC(Span) string_data;
    Span raw_data;
    VEC(OnnxEntry) external_data;
} OnnxTensor;

typedef struct OnnxSparse {
    uint64_t has;
    OnnxTensor *values, *indices;
    Ints dims;
} OnnxSparse;

typedef struct OnnxDim {
    uint64_t has; /* 1: value, 2: param */
    int64_t value;
    const char *param;
} OnnxDim;

typedef struct OnnxShape {
    uint64_t has;
    VEC(OnnxDim) dim;
} OnnxShape;

typedef struct OnnxType OnnxType;
/* Tensor and SparseTensor use elem_type and shape, Sequence and Optional elem, Map key and elem. */
typedef struct OnnxTensorType {
    uint64_t has;
    int64_t elem_type;
    OnnxShape *shape;
} OnnxTensorType;
typedef struct OnnxElemType {
    uint64_t has;
    int64_t key_type;
    OnnxType *elem;
} OnnxElemType;
struct OnnxType {
    uint64_t has; /* 1 tensor, 4 sequence, 5 map, 8 sparse, 9 optional */
    OnnxTensorType *tensor, *sparse;
    OnnxElemType *sequence, *map, *optional;
};

typedef struct OnnxValueInfo {
    uint64_t has;
    const char *name;
    OnnxType *type;
} OnnxValueInfo;

typedef struct OnnxGraph OnnxGraph;
typedef struct OnnxAttribute {
    uint64_t has;
    const char *name, *ref;
    int64_t type;
    float f;
    int64_t i;
    Span s;
    OnnxTensor *t;
    OnnxGraph *g;
    OnnxSparse *sparse;
    OnnxType *tp;
    VEC(float) floats;
    Ints ints;
    VEC(Span) strings;
} OnnxAttribute;
enum {
    ATTRIBUTE_F = 2,
    ATTRIBUTE_I = 3,
    ATTRIBUTE_S = 4,
    ATTRIBUTE_T = 5,
    ATTRIBUTE_G = 6,
    ATTRIBUTE_FLOATS = 7,
    ATTRIBUTE_INTS = 8,
    ATTRIBUTE_STRINGS = 9,
    ATTRIBUTE_TP = 14,
    ATTRIBUTE_SPARSE = 22
};

typedef struct OnnxNode {
    uint64_t has;
    Names input, output;
    const char *name, *op_type, *domain, *overload;
    VEC(OnnxAttribute) attribute;
} OnnxNode;
typedef VEC(OnnxNode) OnnxNodes;

struct OnnxGraph {
    uint64_t has;
    OnnxNodes node;
    const char *name;
    VEC(OnnxTensor) initializer;
    VEC(OnnxSparse) sparse;
    VEC(OnnxValueInfo) input, output, value_info;
};

typedef struct OnnxOpset {
    uint64_t has;
    const char *domain;
    int64_t version;
} OnnxOpset;
typedef VEC(OnnxOpset) OnnxOpsets;

typedef struct OnnxFunction {
    uint64_t has;
    const char *name, *domain, *overload;
    Names input, output, attribute;
    VEC(OnnxAttribute) attribute_default;
    OnnxNodes node;
    OnnxOpsets opset;
    VEC(OnnxValueInfo) value_info;
} OnnxFunction;

typedef struct OnnxModel {
    uint64_t has;
    int64_t ir_version;
    const char *producer;
    OnnxOpsets opset;
    OnnxGraph *graph;
    VEC(OnnxFunction) function;
} OnnxModel;

/* Decodes and checks only that there is a graph. Text that is absent is NULL. */
OnnxModel *onnx_decode(Arena *arena, Span bytes);

#endif
