/* SPDX-License-Identifier: Apache-2.0 */
/* The fields of ONNX messages: number, kind, place. Numbers are those of onnx.proto. */
#include "proto.h"

#define AT(member) offsetof(THIS, member)
#define MESSAGE(name, T, rows) static const Message name = {#T, sizeof(T), rows}

#define THIS OnnxEntry
static const WireField entry_fields[] = {
    {1, WIRE_STRING, AT(key), NULL},
    {2, WIRE_STRING, AT(value), NULL},
    {0},
};
#undef THIS
MESSAGE(entry_message, OnnxEntry, entry_fields);

#define THIS OnnxTensor
static const WireField tensor_fields[] = {
    {1, WIRE_INTS, AT(dims), NULL},
    {2, WIRE_INT, AT(data_type), NULL},
    {4, WIRE_PACKED, AT(float_data), NULL},
    {5, WIRE_INTS, AT(int32_data), NULL},
    {6, WIRE_BYTESES, AT(string_data), NULL},
    {7, WIRE_INTS, AT(int64_data), NULL},
    {8, WIRE_STRING, AT(name), NULL},
    {9, WIRE_BYTES, AT(raw_data), NULL},
    {10, WIRE_PACKED, AT(double_data), NULL},
    {11, WIRE_INTS, AT(uint64_data), NULL},
    {13, WIRE_MESSAGES, AT(external_data), &entry_message},
    {14, WIRE_INT, AT(data_location), NULL},
    {0},
};
#undef THIS
MESSAGE(tensor_message, OnnxTensor, tensor_fields);

#define THIS OnnxSparse
static const WireField sparse_fields[] = {
    {1, WIRE_MESSAGE, AT(values), &tensor_message},
    {2, WIRE_MESSAGE, AT(indices), &tensor_message},
    {3, WIRE_INTS, AT(dims), NULL},
    {0},
};
#undef THIS
MESSAGE(sparse_message, OnnxSparse, sparse_fields);

#define THIS OnnxDim
static const WireField dim_fields[] = {
    {1, WIRE_INT, AT(value), NULL},
    {2, WIRE_STRING, AT(param), NULL},
    {0},
};
#undef THIS
MESSAGE(dim_message, OnnxDim, dim_fields);

#define THIS OnnxShape
static const WireField shape_fields[] = {
    {1, WIRE_MESSAGES, AT(dim), &dim_message},
    {0},
};
#undef THIS
MESSAGE(shape_message, OnnxShape, shape_fields);

#define THIS OnnxTensorType
static const WireField tensor_type_fields[] = {
    {1, WIRE_INT, AT(elem_type), NULL},
    {2, WIRE_MESSAGE, AT(shape), &shape_message},
    {0},
};
#undef THIS
MESSAGE(tensor_type_message, OnnxTensorType, tensor_type_fields);

static const Message type_message;
#define THIS OnnxElemType
static const WireField elem_type_fields[] = {
    {1, WIRE_MESSAGE, AT(elem), &type_message},
    {0},
};
static const WireField map_type_fields[] = {
    {1, WIRE_INT, AT(key_type), NULL},
    {2, WIRE_MESSAGE, AT(elem), &type_message},
    {0},
};
#undef THIS
MESSAGE(elem_type_message, OnnxElemType, elem_type_fields);
MESSAGE(map_type_message, OnnxElemType, map_type_fields);

#define THIS OnnxType
static const WireField type_fields[] = {
    {1, WIRE_MESSAGE, AT(tensor), &tensor_type_message},
    {4, WIRE_MESSAGE, AT(sequence), &elem_type_message},
    {5, WIRE_MESSAGE, AT(map), &map_type_message},
    {8, WIRE_MESSAGE, AT(sparse), &tensor_type_message},
    {9, WIRE_MESSAGE, AT(optional), &elem_type_message},
    {0},
};
#undef THIS
MESSAGE(type_message, OnnxType, type_fields);

#define THIS OnnxValueInfo
static const WireField value_info_fields[] = {
    {1, WIRE_STRING, AT(name), NULL},
    {2, WIRE_MESSAGE, AT(type), &type_message},
    {0},
};
#undef THIS
MESSAGE(value_info_message, OnnxValueInfo, value_info_fields);

static const Message graph_message;
#define THIS OnnxAttribute
static const WireField attribute_fields[] = {
    {1, WIRE_STRING, AT(name), NULL},
    {ATTRIBUTE_F, WIRE_FLOAT, AT(f), NULL},
    {ATTRIBUTE_I, WIRE_INT, AT(i), NULL},
    {ATTRIBUTE_S, WIRE_BYTES, AT(s), NULL},
    {ATTRIBUTE_T, WIRE_MESSAGE, AT(t), &tensor_message},
    {ATTRIBUTE_G, WIRE_MESSAGE, AT(g), &graph_message},
    {ATTRIBUTE_FLOATS, WIRE_FLOATS, AT(floats), NULL},
    {ATTRIBUTE_INTS, WIRE_INTS, AT(ints), NULL},
    {ATTRIBUTE_STRINGS, WIRE_BYTESES, AT(strings), NULL},
    {ATTRIBUTE_TP, WIRE_MESSAGE, AT(tp), &type_message},
    {20, WIRE_INT, AT(type), NULL},
    {21, WIRE_STRING, AT(ref), NULL},
    {ATTRIBUTE_SPARSE, WIRE_MESSAGE, AT(sparse), &sparse_message},
    {0},
};
#undef THIS
MESSAGE(attribute_message, OnnxAttribute, attribute_fields);

#define THIS OnnxNode
static const WireField node_fields[] = {
    {1, WIRE_STRINGS, AT(input), NULL},
    {2, WIRE_STRINGS, AT(output), NULL},
    {3, WIRE_STRING, AT(name), NULL},
    {4, WIRE_STRING, AT(op_type), NULL},
    {5, WIRE_MESSAGES, AT(attribute), &attribute_message},
    {7, WIRE_STRING, AT(domain), NULL},
    {8, WIRE_STRING, AT(overload), NULL},
    {0},
};
#undef THIS
MESSAGE(node_message, OnnxNode, node_fields);

#define THIS OnnxGraph
static const WireField graph_fields[] = {
    {1, WIRE_MESSAGES, AT(node), &node_message},
    {2, WIRE_STRING, AT(name), NULL},
    {5, WIRE_MESSAGES, AT(initializer), &tensor_message},
    {11, WIRE_MESSAGES, AT(input), &value_info_message},
    {12, WIRE_MESSAGES, AT(output), &value_info_message},
    {13, WIRE_MESSAGES, AT(value_info), &value_info_message},
    {15, WIRE_MESSAGES, AT(sparse), &sparse_message},
    {0},
};
#undef THIS
MESSAGE(graph_message, OnnxGraph, graph_fields);

#define THIS OnnxOpset
static const WireField opset_fields[] = {
    {1, WIRE_STRING, AT(domain), NULL},
    {2, WIRE_INT, AT(version), NULL},
    {0},
};
#undef THIS
MESSAGE(opset_message, OnnxOpset, opset_fields);

#define THIS OnnxFunction
static const WireField function_fields[] = {
    {1, WIRE_STRING, AT(name), NULL},
    {4, WIRE_STRINGS, AT(input), NULL},
    {5, WIRE_STRINGS, AT(output), NULL},
    {6, WIRE_STRINGS, AT(attribute), NULL},
    {7, WIRE_MESSAGES, AT(node), &node_message},
    {9, WIRE_MESSAGES, AT(opset), &opset_message},
    {10, WIRE_STRING, AT(domain), NULL},
    {11, WIRE_MESSAGES, AT(attribute_default), &attribute_message},
    {12, WIRE_MESSAGES, AT(value_info), &value_info_message},
    {13, WIRE_STRING, AT(overload), NULL},
    {0},
};
#undef THIS
MESSAGE(function_message, OnnxFunction, function_fields);

#define THIS OnnxModel
static const WireField model_fields[] = {
    {1, WIRE_INT, AT(ir_version), NULL},
    {2, WIRE_STRING, AT(producer), NULL},
    {7, WIRE_MESSAGE, AT(graph), &graph_message},
    {8, WIRE_MESSAGES, AT(opset), &opset_message},
    {25, WIRE_MESSAGES, AT(function), &function_message},
    {0},
};
#undef THIS
MESSAGE(model_message, OnnxModel, model_fields);

OnnxModel *onnx_decode(Arena *arena, Span bytes) {
    Ctx *ctx = arena_ctx(arena);
    OnnxModel *model = NEW(arena, OnnxModel);
    if (!bytes.n) fail(ctx, E_MODEL, "the model is empty: export it again");
    wire_decode(arena, bytes, &model_message, model);
    if (!model->graph)
        fail(ctx, E_MODEL, "the file holds no ONNX graph: it is of another format or was cut off");
    return model;
}
