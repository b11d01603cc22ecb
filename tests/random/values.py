# SPDX-License-Identifier: Apache-2.0
"""Values of random models: arrays (strings as objects), lists for sequences, dicts for maps, Opt for optionals."""
import dataclasses

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


@dataclasses.dataclass
class Opt:
    """An operand whose type is optional; `value` None: absent. `kind`: the type of what it would hold."""
    value: object
    kind: onnx.TypeProto


def code(array):
    array = np.asarray(array)
    return TensorProto.STRING if array.dtype.kind == "O" else helper.np_dtype_to_tensor_dtype(array.dtype)


def type_of(value):
    if isinstance(value, Opt):
        return helper.make_optional_type_proto(value.kind)
    if isinstance(value, list):
        first = type_of(value[0])
        if first.WhichOneof("value") == "tensor_type":
            first.tensor_type.ClearField("shape")
        return helper.make_sequence_type_proto(first)
    if isinstance(value, dict):
        key, item = next(iter(value.items()))
        return helper.make_map_type_proto(TensorProto.STRING if isinstance(key, str) else TensorProto.INT64,
                                          helper.make_tensor_type_proto(code(map_item(item)), ()))
    return helper.make_tensor_type_proto(code(value), np.shape(value))


def map_item(value):
    return np.asarray(value, object) if isinstance(value, str) else np.asarray(value)


def tensor(array, name=None):
    array = np.asarray(array)
    if array.dtype.kind == "O":
        return helper.make_tensor(name or "", TensorProto.STRING, array.shape, [str(s).encode() for s in array.reshape(-1)])
    return numpy_helper.from_array(array, name)


def map_proto(value, name):
    text = isinstance(next(iter(value)), str)
    keys = {"string_keys": [k.encode() for k in value]} if text else {"keys": [int(k) for k in value]}
    items = onnx.SequenceProto(elem_type=onnx.SequenceProto.TENSOR, tensor_values=[tensor(map_item(v)) for v in value.values()])
    return onnx.MapProto(name=name, key_type=TensorProto.STRING if text else TensorProto.INT64, values=items, **keys)


def proto_of(value, name, kind):
    """The message of a value whose type is `kind`."""
    if isinstance(value, Opt):
        value = value.value
    which = kind.WhichOneof("value")
    if which == "optional_type":
        inner = kind.optional_type.elem_type
        part = {"tensor_type": "tensor", "sequence_type": "sequence"}[inner.WhichOneof("value")]
        proto = onnx.OptionalProto(name=name, elem_type=onnx.OptionalProto.DataType.Value(part.upper()))
        if value is not None:
            getattr(proto, f"{part}_value").CopyFrom(proto_of(value, "", inner))
        return proto
    if which == "sequence_type":
        inner = kind.sequence_type.elem_type
        part = {"tensor_type": "tensor", "map_type": "map"}[inner.WhichOneof("value")]
        proto = onnx.SequenceProto(name=name, elem_type=onnx.SequenceProto.DataType.Value(part.upper()))
        getattr(proto, f"{part}_values").extend(proto_of(v, "", inner) for v in value)
        return proto
    return map_proto(value, name) if which == "map_type" else tensor(value, name)


def plain(value):
    """A judge's result as arrays, lists and dicts; ValueError for anything else."""
    if isinstance(value, list):
        return [plain(v) for v in value]
    if isinstance(value, dict):
        return {k: v if isinstance(v, str) else np.float32(v) if isinstance(v, float) else np.asarray(v)[()] for k, v in value.items()}
    if isinstance(value, (np.ndarray, np.generic, int, float, bool, str)):
        array = np.asarray(value)
        return array.astype(object) if array.dtype.kind in "UST" else array
    raise ValueError(value)


def alike(a, b, rtol=1e-3, atol=1e-5):
    if isinstance(a, (list, dict)) or isinstance(b, (list, dict)):
        if type(a) is not type(b) or len(a) != len(b):
            return False
        pairs = zip(a, b) if isinstance(a, list) else [(a[k], b.get(k, "")) for k in a]
        return all(alike(map_item(x) if isinstance(a, dict) else x, map_item(y) if isinstance(a, dict) else y, rtol, atol) for x, y in pairs)
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    if a.dtype.kind in "OUSTbiu":
        return bool(np.array_equal(a, b))
    a, b = (np.asarray(v, np.complex128 if v.dtype.kind == "c" else np.float64) for v in (a, b))
    return bool(np.allclose(a, b, rtol, atol, equal_nan=True))
