# SPDX-License-Identifier: Apache-2.0
"""Operands over again in each type that the standard allows them."""
import re

import ml_dtypes
import numpy as np
from onnx import helper

import values

NAMES = {"float": np.float32, "double": np.float64, "string": object, "bfloat16": ml_dtypes.bfloat16, "float8e4m3fn": ml_dtypes.float8_e4m3fn,
         "float8e4m3fnuz": ml_dtypes.float8_e4m3fnuz, "float8e5m2": ml_dtypes.float8_e5m2, "float8e5m2fnuz": ml_dtypes.float8_e5m2fnuz,
         "float8e8m0": ml_dtypes.float8_e8m0fnu, "float4e2m1": ml_dtypes.float4_e2m1fn, "float6e2m3": ml_dtypes.float6_e2m3fn,
         "float6e3m2": ml_dtypes.float6_e3m2fn, "int4": ml_dtypes.int4, "uint4": ml_dtypes.uint4, "int2": ml_dtypes.int2, "uint2": ml_dtypes.uint2}
RANGES = {"int4": (-8, 7), "uint4": (0, 15), "int2": (-2, 1), "uint2": (0, 3)}


def numpy_type(name):
    return np.dtype(NAMES.get(name, name))


def allowed(schema):
    """[(type parameter, name of a type of tensors)] of what operands may be."""
    used = {i.type_str for i in schema.inputs}
    return [(t.type_param_str, m.group(1)) for t in schema.type_constraints if t.type_param_str in used
            for m in (re.fullmatch(r"tensor\((\w+)\)", s) for s in sorted(t.allowed_type_strs)) if m]


def allowed_results(schema):
    """Names of the types of tensors that the first result may have."""
    types = next(t for t in schema.type_constraints if t.type_param_str == schema.outputs[0].type_str)
    return sorted(m.group(1) for m in (re.fullmatch(r"tensor\((\w+)\)", s) for s in types.allowed_type_strs) if m)


def converted(array, name):
    if isinstance(array, list):
        return [converted(a, name) for a in array]
    to = numpy_type(name)
    if array.dtype.kind == "O":
        return array if name == "string" else np.array([len(s) for s in array.reshape(-1)]).reshape(array.shape).astype(to)
    if name == "string":
        return np.array([f"{float(x.real):g}" for x in array.reshape(-1)], object).reshape(array.shape)
    if to.kind == "c":
        return (array.astype(to) + 1j * np.roll(array, 1).astype(to)).astype(to)
    real = array.real.astype(np.float64)
    if "int" in name:
        real = np.where(np.abs(real) < 1, np.sign(real), real)  # a scale stays one
    if name in RANGES:
        real = np.clip(real, *RANGES[name])
    if name == "float8e8m0":
        real = 2.0 ** np.round(np.clip(real, -4, 4))
    if name.startswith("uint"):
        real = np.abs(real)
    if "int" in name:
        return np.nan_to_num(real, posinf=9, neginf=-9).astype(np.int64).astype(to)
    return real > 0 if name == "bool" else real.astype(to)


def retyped(node, schema, parameter, name):
    """The operands with those of a type parameter in the named type; None where there are none, or they are of it already."""
    inputs = list(schema.inputs)
    strings = [inputs[min(i, len(inputs) - 1)].type_str for i in range(len(node.operands))]
    mine = [i for i, s in enumerate(strings) if s == parameter and node.operands[i] is not None and not isinstance(node.operands[i], (dict, values.Opt))]
    if not mine:
        return None
    first = node.operands[mine[0]]
    same = values.code(first[0] if isinstance(first, list) else first) == helper.np_dtype_to_tensor_dtype(numpy_type(name))
    operands = [converted(x, name) if i in mine and not same else x for i, x in enumerate(node.operands)]
    if schema.name in ("QuantizeLinear", "DequantizeLinear") and len(operands) > 2 and name.startswith("float"):
        operands[2] = operands[2] if operands[2] is None else np.zeros_like(operands[2])  # codes that are floats have no other zero
    if schema.name.startswith("Cast") and "uint" in name:
        operands = [np.abs(x) if x.dtype.kind == "f" else x for x in operands]
    return operands
