#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes frontends/onnx/schema.def from the schemas of the packages onnx and onnxruntime: what each operator takes.

    tools/schemas.py > frontends/onnx/schema.def

To be run when operators are added, of a new opset or contributed ones; the format stands on top of the file it writes.
A set of types is the union over all versions of an operator: exporters use newer types with older versions.
"""
import pathlib
import re

from onnx import defs
from onnxruntime.capi.onnxruntime_pybind11_state import get_all_operator_schema

DOMAINS = ("", "ai.onnx.ml", "ai.onnx.preview.training")
OPERATORS = pathlib.Path(__file__).parent.parent / "frontends" / "onnx" / "ops"
# What contributed operators take that Weir does not do: operands by name, attributes with the only values done.
NOT_DONE = {
    "Attention": {"past_sequence_length": None, "do_rotary": 0, "past_present_share_buffer": 0},
    "CausalConvWithState": {"ndim": 1, "input_channel_offset": 0, "input_channels": 0, "state_channels_last": -1,
                            "state_length": 0, "state_update_capacity": 0},
    "DecoderMaskedSelfAttention": {"do_rotary": 0},
    "DynamicSparseAttention": {"auxiliary_key": None, "auxiliary_value": None, "committed_length": None, "key_scale": None,
                               "value_scale": None, "attention_mode": "selected_only", "selected_kv_source": "main",
                               "output_bf16": 0, "rotary_offset": 0, "is_causal": 1},
    "GatedAdd": {"gate_weight": None},
    "GatedDeltaNet": {"cu_seqlens": None, "capture_count": None, "state_update_active": None, "state_update_capacity": 0},
    "GatedRelativePositionBias": {"token_offset": None},
    "GroupQueryAttention": {"sliding_window_cache": 0, "query_seqlens": None},
    "Irfft": {"signal_ndim": 1, "normalized": 0},
    "MatMulNBits": {"weight_prepacked": 0},
    "MatMulPacked": {"global_scale": None},
    "MoE": {"use_sparse_mixer": 0, "swiglu_limit_after_activation": 0},
    "NGramHashMapping": {"eos_token_id": None, "segment_ids": None, "reset_on_eos": 0},
    "QAttention": {"do_rotary": 0, "past_present_share_buffer": 0},
    "QMoE": {"use_sparse_mixer": 0, "swiglu_limit_after_activation": 0, "weights_prepacked": "-1|0",
             "quant_type": "int", "fc1_global_scale": None, "fc2_global_scale": None, "fc1_act_scale": None,
             "fc2_act_scale": None, "fc1_act_block_scale": None, "fc2_act_block_scale": None},
    "Rfft": {"signal_ndim": 1, "normalized": 0},
    "VarlenCausalConvWithState": {"capture_count": None, "kernel_delta": None, "previous_mask": None,
                                  "state_update_capacity": 0},
    "VarlenNGramHashMapping": {"eos_token_id": None, "segment_ids": None, "past_segment_ids": None,
                               "capture_count": None, "reset_on_eos": 0, "state_update_capacity": 0},
    "MRotaryEmbedding": {"is_packed_batching": 0},
    "RotaryEmbedding": {"is_packed_batching": 0},
}
TYPES = {"float16": "f16", "float": "f32", "double": "f64", "bfloat16": "bf16", "int8": "i8", "int16": "i16",
         "int32": "i32", "int64": "i64", "uint8": "u8", "uint16": "u16", "uint32": "u32", "uint64": "u64",
         "bool": "bool", "string": "string", "complex64": "c64", "complex128": "c128", "float8e4m3fn": "f8e4m3fn",
         "float8e4m3fnuz": "f8e4m3fnuz", "float8e5m2": "f8e5m2", "float8e5m2fnuz": "f8e5m2fnuz", "uint4": "u4",
         "int4": "i4", "float4e2m1": "f4e2m1", "float8e8m0": "f8e8m0", "uint2": "u2", "int2": "i2",
         "float6e2m3": "f6e2m3", "float6e3m2": "f6e3m2"}
# Operators that were tried, or that optimizers write, before their first version.
TRIED = {("", "ThresholdedRelu"): 1, ("", "LayerNormalization"): 1}
# Types that opsets newer than the package's added.
NEWER = {"Range": {"f16", "bf16"}}
ATTRIBUTE = {"FLOAT": "f", "INT": "i", "STRING": "s", "TENSOR": "t", "GRAPH": "g", "FLOATS": "F", "INTS": "I",
             "STRINGS": "S", "SPARSE_TENSOR": "t", "TYPE_PROTO": "y"}

HEAD = """/* SPDX-License-Identifier: Apache-2.0 */
/* What each operator of the standard takes; written by tools/schemas.py.
 *
 * TYPES(k, names): the k-th set of types of an operand; `seq`, `opt` and `map` stand for these kinds of values.
 * SCHEMA(domain, operator, since, least operands, operands, least results, results, attributes): an operand
 * is name:vk, k its set of types, v a letter that all operands of one element type share (- for none), then ? when
 * it may be absent, * when it may be repeated and ~ when it must be absent, as Weir does not do what it asks for.
 * Results: how many, -1 without bound. An attribute is name:kind, then ! when it must be there, or = and the only
 * values that Weir does, | between them; f i s t g y are float, int, string, tensor, graph, type, capitals are lists. Rows are
 * sorted by domain, operator and version; a row holds until the next one. */
"""


def type_names(strings):
    names = set()
    for s in strings:
        if s.startswith("tensor("):
            names.add(TYPES[s[7:-1]])
        else:
            sparse = s.startswith("sparse_tensor(")
            names.add(TYPES[s[14:-1]] if sparse else {"seq": "seq", "opt": "opt", "map": "map"}[s[:3]])
    # Opset 25 takes the types of 2 bits wherever 24 takes those of 4.
    return names | {t[0] + "2" for t in names & {"i4", "u4"}}


def type_string(operand):
    return operand.typeStr if hasattr(operand, "typeStr") else operand.type_str  # onnxruntime's name, onnx's


def operand_types(schema, operand):
    for constraint in schema.type_constraints:
        if constraint.type_param_str == type_string(operand):
            return type_names(constraint.allowed_type_strs)
    return type_names([type_string(operand)])


def contributed():
    """Schemas of onnxruntime's own operators that Weir has: those of com.microsoft, and unofficial ones of ai.onnx."""
    text = "".join(f.read_text() for f in OPERATORS.glob("*.c"))
    mine = {("com.microsoft", name) for name in re.findall(r'COMPOSED\("(\w+)"', text)}
    mine |= {("com.microsoft.nchwc", name) for name in re.findall(r'BLOCKED\("(\w+)"', text)}
    mine |= set(re.findall(r'{"([\w.]*)", "(\w+)", 1,', text))
    official = {(s.domain, s.name) for s in defs.get_all_schemas()}
    return [s for s in get_all_operator_schema() if (s.domain, s.name) in mine - official]


def attribute(schema, a):
    only = NOT_DONE.get(schema.name, {}).get(a.name) if schema.domain == "com.microsoft" else None
    mark = "!" if a.required else "" if only is None else f"={only}"
    return f"{a.name}:{ATTRIBUTE[a.type.name]}{mark}"


def signature(schema, sets, numbers):
    operands, letters = [], {}
    refused = NOT_DONE.get(schema.name, {}) if schema.domain == "com.microsoft" else {}
    for operand in schema.inputs:
        option = operand.option.name
        names = " ".join(sorted(sets[(schema.domain, schema.name, operand.name)]))
        number = numbers.setdefault(names, len(numbers))
        shared = [c.type_param_str for c in schema.type_constraints]
        letter = "-"
        one = operand.isHomogeneous if hasattr(operand, "isHomogeneous") else operand.is_homogeneous
        if type_string(operand) in shared and one:
            letter = letters.setdefault(type_string(operand), "abcdefghijklmnopqrstuvwxyz"[len(letters)])
        mark = "~" if operand.name in refused else {"Single": "", "Optional": "?", "Variadic": "*"}[option]
        operands.append(f"{operand.name}:{letter}{number}{mark}")
    most = -1 if schema.max_output > 1000 else schema.max_output
    attributes = sorted(attribute(schema, a) for a in schema.attributes.values())
    return (f'{schema.min_input}, "{" ".join(operands)}", {schema.min_output}, {most}, "{" ".join(attributes)}"')


def main():
    schemas = [s for s in defs.get_all_schemas_with_history() if s.domain in DOMAINS] + contributed()
    schemas.sort(key=lambda s: (s.domain, s.name, s.since_version))
    sets, numbers, rows = {}, {}, []
    for s in schemas:
        for operand in s.inputs:
            types = sets.setdefault((s.domain, s.name, operand.name), set())
            types.update(operand_types(s, operand), NEWER.get(s.name, ()))
    last = None
    for s in schemas:
        row = (s.domain, s.name, signature(s, sets, numbers))
        if row != last:
            since = TRIED.get(row[:2], s.since_version)
            rows.append(f'SCHEMA("{s.domain}", "{s.name}", {since}, {row[2]})')
        last = row
    print(HEAD, end="")
    for names, number in numbers.items():
        print(f'TYPES({number}, "{names}")')
    print("\n".join(rows))


if __name__ == "__main__":
    main()
