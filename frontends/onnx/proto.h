/* SPDX-License-Identifier: Apache-2.0 */
/* ONNX messages as protobuf-c decodes them, under shorter names. Their memory is an arena's, their
 * strings are interned, absent strings are NULL; data of weights is reached by `onnx_data` only. */
#ifndef WEIR_FRONTENDS_ONNX_PROTO_H
#define WEIR_FRONTENDS_ONNX_PROTO_H

#include "onnx.pb-c.h"
#include "wire.h"

typedef Onnx__AttributeProto OnnxAttribute;
typedef Onnx__AttributeProto__AttributeType OnnxAttributeType;
#define ONNX_ATTRIBUTE(kind) ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__##kind
typedef Onnx__FunctionProto OnnxFunctionBody;
typedef Onnx__GraphProto OnnxGraph;
typedef Onnx__ModelProto OnnxModel;
typedef Onnx__NodeProto OnnxNode;
typedef Onnx__OperatorSetIdProto OnnxOpset;
typedef Onnx__SparseTensorProto OnnxSparse;
typedef Onnx__StringStringEntryProto OnnxEntry;
typedef Onnx__TensorProto OnnxTensor;
typedef Onnx__TensorShapeProto OnnxShape;
typedef Onnx__TensorShapeProto__Dimension OnnxDim;
typedef Onnx__TypeProto OnnxType;
typedef Onnx__ValueInfoProto OnnxValueInfo;

/* A function with the fields that newer schemas gave it. */
typedef struct OnnxFunction {
    const OnnxFunctionBody *body;
    const char *overload;
    VEC(const OnnxAttribute *) attribute_default;
    VEC(OnnxValueInfo *) value_info;
} OnnxFunction;
typedef VEC(OnnxFunction) OnnxFunctions;

/* A model from its file's bytes, which must live as long as the arena. `fail`s E_MODEL or E_LIMIT.
 */
OnnxModel *onnx_decode(Arena *arena, Span bytes);
OnnxFunctions onnx_functions(Arena *arena, const OnnxModel *model);
/* The overload that a node calls; "" for none. */
const char *onnx_overload(Ctx *ctx, const OnnxNode *node);

/* The bytes of raw_data, float_data or double_data: a view of the file where they stand in one
 * piece. `at` is NULL when the tensor has no such field. */
typedef enum { ONNX_FLOAT_DATA = 4, ONNX_RAW_DATA = 9, ONNX_DOUBLE_DATA = 10 } OnnxData;
Span onnx_data(Arena *arena, const OnnxTensor *t, OnnxData field);

#endif
