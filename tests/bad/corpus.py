#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The corpus of bad models: every way we know to hand the compiler something wrong.

`cases(bases)` yields a Case each. Most are small models written here field by field, wrong in one
respect, with the words that the message must hold: the node or tensor at fault, and what it should
know about the fault. `bases` are real models, to be cut off and overwritten.
"""
import dataclasses
import random
import struct

from wire import (BOOL, FLOAT, INT32, INT64, STRING, UINT8, attribute, external, field, fields, graph, model, node, opset,
                  repeated, tensor, value_info, varint)

X, Y = value_info("x", [2, 3]), value_info("y", None)


@dataclasses.dataclass
class Case:
    name: str
    data: bytes               # the model file
    want: tuple = ()          # regular expressions that the message must match
    files: dict = dataclasses.field(default_factory=dict)  # more files beside it; a str is a link's target
    may_pass: bool = False    # by chance a good model: exit 0 is right as well


def relu(**more):
    return model(graph([node("Relu", ["x"], ["y"])], [X], [Y]), **more)


def one(name, op, want, inputs=(("x", [2, 3]),), outputs=("y",), initializers=(), version=17, domain=None,
        node_inputs=None, **attributes):
    """A model of one node. `inputs` are (name, shape) or (name, shape, dtype)."""
    names = node_inputs or [entry[0] for entry in inputs] + [entry[0] for entry in initializers]
    data = graph([node(op, names, list(outputs), domain=domain, **attributes)],
                 [value_info(*entry) for entry in inputs], [value_info(o, None) for o in outputs if o],
                 [entry[1] for entry in initializers])
    return Case(name, model(data, version), (op,) + tuple(want))


def i64(name, values, dims=None):
    return name, tensor(name, [len(values)] if dims is None else dims, values, INT64)


def f32(name, dims):
    count = 1
    for size in dims:
        count *= size
    return name, tensor(name, dims, [0.5] * count)


# ---- files that are no models ----------------------------------------------------------------------


def no_models():
    rng = random.Random(1)
    yield Case("empty", b"", ("empty",))
    yield Case("one_byte", b"\x08")
    yield Case("zeros", bytes(4096))
    yield Case("text", b"this is not a model\n" * 40)
    yield Case("html", b"<!DOCTYPE html><html><body>404: not found</body></html>", ("page of the web",))
    yield Case("lfs_pointer", b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 12345\n", ("git lfs pull",))
    yield Case("archive", b"PK\3\4" + bytes(200), ("torch.onnx.export",))
    for size in (1, 2, 3, 7, 16, 100, 1000, 65536):
        yield Case(f"random_{size}", rng.randbytes(size))
    for first in range(0, 256, 15):
        yield Case(f"random_first_{first}", bytes([first]) + rng.randbytes(64))


# ---- real models, damaged ----------------------------------------------------------------------------


def is_whole(data, cut):
    """True where `cut` ends a field of the model and the graph lies before it."""
    ends = [(number, end) for number, _, _, _, end in fields(data)]
    return any(end == cut for _, end in ends) and any(number == 7 and end <= cut for number, end in ends)


def truncated(name, data):
    for cut in sorted({len(data) * percent // 100 for percent in range(1, 100)}):
        yield Case(f"{name}_cut_{cut}", data[:cut], may_pass=is_whole(data, cut))


def overwritten(name, data, count):
    rng = random.Random(name)
    for k in range(count):
        bytes_ = bytearray(data)
        for _ in range(rng.choice((1, 1, 2, 8))):
            # Most bytes of a model are weights: aim at its start as often as at all of it.
            at = rng.randrange(len(bytes_) if rng.random() < 0.3 else min(len(bytes_), 600))
            bytes_[at] = rng.choice((0, 0xFF, 0x80, 0x7F, rng.randrange(256)))
        yield Case(f"{name}_overwritten_{k}", bytes(bytes_), may_pass=True)
    for k in range(count // 4):
        at, size = rng.randrange(len(data)), rng.randrange(1, 40)
        yield Case(f"{name}_removed_{k}", data[:at] + data[at + size:], may_pass=True)
        yield Case(f"{name}_doubled_{k}", data[:at] + data[at:at + size] * 2 + data[at + size:], may_pass=True)


# ---- the wire: fields of another type, lengths and nesting that do not hold --------------------------


def wire():
    good = graph([node("Relu", ["x"], ["y"])], [X], [Y])
    head = field(1, 8) + opset(17)
    fixed = varint(7 << 3 | 1) + bytes(8)
    yield Case("graph_as_varint", head + field(7, 5))
    yield Case("graph_as_fixed", head + fixed)
    yield Case("node_as_varint", head + field(7, field(1, 7) + field(11, X) + field(12, Y)))
    yield Case("op_type_as_varint", head + field(7, field(1, field(1, "x") + field(2, "y") + field(4, 3)) +
                                                 field(11, X) + field(12, Y)))
    yield Case("ir_version_as_text", field(1, "8") + opset(17) + field(7, good))
    yield Case("dims_as_text", model(graph([node("Relu", ["w"], ["y"])], [], [Y],
                                           [field(1, "two") + field(2, FLOAT) + field(8, "w")])), ("w|y",))
    yield Case("group_fields", head + varint(7 << 3 | 3) + good + varint(7 << 3 | 4))
    yield Case("wire_type_7", head + varint(7 << 3 | 7) + good)
    yield Case("field_0", head + varint(2) + varint(len(good)) + good)
    yield Case("length_huge", head + varint(7 << 3 | 2) + varint((1 << 63) - 1) + good)
    yield Case("length_wraps", head + varint(7 << 3 | 2) + varint((1 << 64) - 1) + good)
    yield Case("length_off_by_one", head + varint(7 << 3 | 2) + varint(len(good) + 1) + good)
    yield Case("varint_endless", head + bytes([0x38]) + b"\xff" * 20)
    deep = good
    for _ in range(2000):
        deep = graph([node("If", ["c"], ["y"], then_branch=deep)], [], [Y])
    yield Case("graphs_nested", model(deep), ("deep",))
    kind = field(1, field(1, FLOAT))
    for _ in range(5000):
        kind = field(4, field(1, kind))
    yield Case("types_nested", model(graph([node("Relu", ["x"], ["y"])], [field(1, "x") + field(2, kind)], [Y])),
               ("deep",))
    yield Case("no_graph", head)
    yield Case("graph_empty", head + field(7, b""))
    yield Case("no_outputs", model(graph([node("Relu", ["x"], ["y"])], [X], [])), ("output",))
    yield Case("ir_version_missing", opset(17) + field(7, good), ("IR version",), may_pass=False)
    yield Case("ir_version_999", relu(ir=999), ("IR version 999",))
    yield Case("name_not_utf8", model(graph([node("Relu", ["x"], [b"\xff\xfe"])], [X],
                                            [field(1, b"\xff\xfe") + field(2, field(1, field(1, FLOAT)))])),
               may_pass=True)


# ---- the graph: names, order, operators, versions ----------------------------------------------------


def names():
    def of(nodes, inputs=(X,), outputs=(Y,), initializers=()):
        return model(graph(nodes, list(inputs), list(outputs), list(initializers)))

    w = tensor("w", [2, 3], [0.5] * 6)
    yield Case("cycle_of_two", of([node("Add", ["x", "b"], ["a"], "first"), node("Relu", ["a"], ["b"], "second"),
                                   node("Relu", ["b"], ["y"], "third")]), ("cycle", "first|second"))
    yield Case("cycle_of_one", of([node("Add", ["x", "y"], ["y"], "selfish")]), ("cycle|defined", "selfish"))
    yield Case("tensor_undefined", of([node("Add", ["x", "nowhere"], ["y"], "lost")]), ("nowhere", "lost"))
    yield Case("output_undefined", of([node("Relu", ["x"], ["z"])]), ('"y"',))
    yield Case("result_twice", of([node("Relu", ["x"], ["y"], "one"), node("Tanh", ["x"], ["y"], "two")]),
               ('"y"', "two"))
    yield Case("result_is_input", of([node("Relu", ["x"], ["x"], "back"), node("Relu", ["x"], ["y"])]), ('"x"',))
    yield Case("result_is_initializer", of([node("Relu", ["x"], ["w"]), node("Relu", ["w"], ["y"])],
                                           initializers=[w]), ('"w"',))
    yield Case("input_twice", of([node("Relu", ["x"], ["y"])], inputs=[X, X]), ('"x"',))
    yield Case("initializer_twice", of([node("Add", ["x", "w"], ["y"])], initializers=[w, w]), ('"w"',))
    yield Case("node_twice_one_result", of([node("Split", ["x"], ["y", "y"], "twins")]), ('"y"', "twins"))
    yield Case("input_unnamed", of([node("Relu", ["x"], ["y"])], inputs=[X, value_info("", [1])]), ("name",))
    yield Case("input_untyped", of([node("Relu", ["x"], ["y"])], inputs=[field(1, "x")]), ('"x"', "type"))
    yield Case("input_type_999", of([node("Relu", ["x"], ["y"])], inputs=[value_info("x", [2], 999)]),
               ('"x"', "999"))
    yield Case("input_type_0", of([node("Relu", ["x"], ["y"])], inputs=[value_info("x", [2], 0)]), ('"x"',))
    yield Case("input_dim_negative", of([node("Relu", ["x"], ["y"])], inputs=[value_info("x", [2, -3])]),
               ('"x"', "-3"))
    yield Case("output_type_differs", of([node("Relu", ["x"], ["y"])], outputs=[value_info("y", [2, 3], INT64)]),
               ('"y"',))
    yield Case("node_without_operator", of([field(1, "x") + field(2, "y") + field(3, "blank")]), ("operator",))


def operators():
    yield one("op_unknown", "Reluu", ["not supported", "the_Reluu"])
    yield one("op_of_unknown_domain", "Frobnicate", ["com.example"], domain="com.example")
    yield Case("op_of_imported_domain", model(graph([node("Frobnicate", ["x"], ["y"], domain="com.example")], [X],
                                                    [Y]), extra=opset(1, "com.example")),
               ("Frobnicate", "com.example", "the_Frobnicate"))
    yield one("op_too_new", "Gelu", ["opset|not supported"], version=13)
    yield one("op_gone", "Upsample", ["opset|not supported"], initializers=[("s", tensor("s", [2], [1.0, 2.0]))])
    for version in (0, -1, 9999, 1 << 62):
        yield Case(f"opset_{version}", relu(version=version), (str(version),))
    yield Case("opset_missing", relu(version=None), ("operator set|opset",))
    yield one("no_operands", "Relu", ["the_Relu"], node_inputs=[""])
    yield Case("no_operands_at_all", model(graph([node("Relu", [], ["y"])], [X], [Y])), ("the_Relu",))
    yield Case("operands_too_many", model(graph([node("Relu", ["x", "x", "x"], ["y"])], [X], [Y])), ("the_Relu",))
    yield Case("operand_missing", model(graph([node("MatMul", ["x"], ["y"])], [X], [Y])), ("the_MatMul",))
    yield Case("results_too_many", model(graph([node("Relu", ["x"], ["y", "z"])], [X], [Y])), ("the_Relu",))
    yield Case("result_unnamed", model(graph([node("MaxPool", ["x"], ["", "y"])], [X], [Y])), ("the_MaxPool", "first result"))
    call = field(1, "again") + field(10, "local") + field(4, "x") + field(5, "y") + repeated(
        7, [node("again", ["x"], ["y"], domain="local")]) + field(9, field(1, "local") + field(2, 1))
    yield Case("function_calls_itself", model(graph([node("again", ["x"], ["y"], domain="local")], [X], [Y]),
                                              extra=opset(1, "local") + field(25, call)), ("again",))


# ---- operands and attributes of one node ---------------------------------------------------------------


def shapes():
    ab = (("a", [2, 3]), ("b", [4, 5]))
    yield one("matmul_inner", "MatMul", ["the_MatMul", r"2, ?3", r"4, ?5", r'"a"', r'"b"'], ab)
    yield one("trilu_k_of_rank_3", "Trilu", ["the_Trilu", "one element"], (("x", [3, 1, 5]), ("k", [3, 1, 5], INT64)))
    yield one("pad_value_of_two", "Pad", ["the_Pad", "one element"], (("x", [3]), ("v", [2])),
              initializers=[i64("p", [1, 1])], node_inputs=["x", "p", "v"])
    yield one("stft_no_step", "STFT", ["the_STFT", "one element"],
              (("signal", [1, 128, 1]), ("step", [0], INT64), ("window", [16])), version=17)
    yield one("if_of_many", "If", ["the_If"], (("x", [3]),))
    yield one("batch_norm_statistics", "BatchNormalization", ["the_BatchNormalization", "training_mode"],
              (("x", [2, 3, 4]), ("s", [3]), ("b", [3]), ("m", [3]), ("v", [3])), outputs=["y", "mean"], version=15)
    yield one("gemm_inner", "Gemm", ["the_Gemm", r"2, ?3", r"4, ?5"], ab)
    yield one("add_shapes", "Add", ["the_Add", r"2, ?3", r"4, ?5"], ab)
    yield one("add_symbols", "Add", ["the_Add"], (("a", ["n", 3]), ("b", ["n", 4])))
    yield one("concat_shapes", "Concat", ["the_Concat"], ab, axis=0)
    yield one("concat_ranks", "Concat", ["the_Concat"], (("a", [2, 3]), ("b", [2])), axis=0)
    yield one("reshape_count", "Reshape", ["the_Reshape"], initializers=[i64("s", [4, 2])])
    yield one("reshape_two_free", "Reshape", ["the_Reshape"], initializers=[i64("s", [-1, -1])])
    yield one("reshape_negative", "Reshape", ["the_Reshape"], initializers=[i64("s", [-2, 3])])
    yield one("expand_shapes", "Expand", ["the_Expand"], initializers=[i64("s", [2, 4])])
    yield one("conv_channels", "Conv", ["the_Conv"], (("x", [1, 3, 8, 8]),), initializers=[f32("w", [4, 5, 3, 3])])
    yield one("conv_rank", "Conv", ["the_Conv"], (("x", [1, 3, 8, 8]),), initializers=[f32("w", [4, 3, 3])])
    yield one("conv_window_too_large", "Conv", ["the_Conv"], (("x", [1, 1, 2, 2]),),
              initializers=[f32("w", [1, 1, 5, 5])])
    yield one("conv_bias", "Conv", ["the_Conv"], (("x", [1, 3, 8, 8]),),
              initializers=[f32("w", [4, 3, 3, 3]), f32("b", [5])])
    yield one("batchnorm_scale", "BatchNormalization", ["the_BatchNormalization"], (("x", [1, 3, 4]),),
              initializers=[f32(n, [2]) for n in "sbmv"])
    yield one("einsum_labels", "Einsum", ["the_Einsum"], ab, equation="ij,jk->ik")
    yield one("lstm_weights", "LSTM", ["the_LSTM"], (("x", [5, 1, 4]),),
              initializers=[f32("w", [1, 12, 4]), f32("r", [1, 16, 4])], hidden_size=4)
    yield one("where_shapes", "Where", ["the_Where"], (("c", [2], BOOL), ("a", [3]), ("b", [3])))
    yield one("split_sizes", "Split", ["the_Split"], initializers=[i64("s", [1, 4])], outputs=("y", "z"), axis=1)
    yield one("split_sizes_no_integers", "Split", ["the_Split", "i64"], (("x", [3]), ("s", [2])), ("y", "z"), axis=0)
    yield one("gather_elements_longer", "GatherElements", ["the_GatherElements", "longer"],
              (("x", [0, 5]), ("i", [3, 1], INT64)), axis=1)
    yield one("conv_integer_zero_of_rank_2", "ConvInteger", ["the_ConvInteger", "w_zero"],
              (("x", [1, 1, 3, 3], UINT8), ("w", [1, 1, 2, 2], UINT8), ("x_zero", [], UINT8), ("w_zero", [1, 1], UINT8)))
    yield one("dequantize_zero_of_more_dims", "DequantizeLinear", ["the_DequantizeLinear", "one shape"],
              (("x", [2, 3], UINT8), ("s", [3]), ("z", [1, 3], UINT8)), axis=1)
    yield one("gather_rank_0", "Gather", ["the_Gather"], (("x", []),), initializers=[i64("i", [0])])
    yield one("running_sum_of_a_scalar", "CumSum", ["the_CumSum", "rank 0"], (("x", []), ("axis", [], INT64)))
    yield one("topk_too_many", "TopK", ["the_TopK"], initializers=[i64("k", [9])], outputs=("y", "z"))
    yield one("squeeze_extent", "Squeeze", ["the_Squeeze"], initializers=[i64("s", [0])])
    yield one("pad_count", "Pad", ["the_Pad"], initializers=[i64("s", [1, 1])])
    yield one("tile_count", "Tile", ["the_Tile"], initializers=[i64("s", [1])])
    yield one("slice_scalar", "Slice", ["the_Slice", "vectors", r"i64\[\]|int64"],
              initializers=[i64("s", [0], []), i64("e", [2]), i64("a", [0])])
    yield one("slice_step_0", "Slice", ["the_Slice"],
              initializers=[i64("s", [0]), i64("e", [2]), i64("a", [0]), i64("t", [0])])


def types():
    yield one("add_types", "Add", ["the_Add", "i64|int64"], (("a", [2]), ("b", [2], INT64)))
    yield one("and_of_floats", "And", ["the_And"], (("a", [2]), ("b", [2])))
    yield one("sqrt_of_ints", "Sqrt", ["the_Sqrt"], (("x", [2], INT32),))
    yield one("gather_by_floats", "Gather", ["the_Gather"], (("x", [2]), ("i", [2])))
    yield one("reshape_by_floats", "Reshape", ["the_Reshape"], initializers=[f32("s", [2])])
    yield one("where_by_floats", "Where", ["the_Where"], (("c", [2]), ("a", [2]), ("b", [2])))
    yield one("if_on_float", "If", ["the_If"], (("x", [1]),), then_branch=branch(), else_branch=branch())
    yield one("cast_to_999", "Cast", ["the_Cast", "999"], to=999)
    yield one("cast_to_nothing", "Cast", ["the_Cast", '"to"'])
    yield one("scatter_product_of_texts", "ScatterElements", ["the_ScatterElements", "texts have no product"],
              (("x", [3], STRING), ("i", [2], INT64), ("u", [2], STRING)), reduction="mul", version=18)
    yield one("matmul_integer_of_floats", "MatMulInteger", ["the_MatMulInteger"], (("a", [2, 3]), ("b", [3, 2])))
    yield one("quantize_to_float", "QuantizeLinear", ["the_QuantizeLinear"],
              initializers=[f32("s", []), f32("z", [])])


def attributes():
    image = (("x", [1, 3, 8, 8]),)
    w = [f32("w", [4, 3, 3, 3])]
    yield one("axis_out_of_range", "Softmax", ["the_Softmax", "7"], axis=7)
    yield one("axis_negative", "Concat", ["the_Concat"], (("a", [2]), ("b", [2])), axis=-5)
    yield one("axis_as_text", "Softmax", ["the_Softmax", '"axis"'], axis="one")
    yield one("axis_as_float", "Softmax", ["the_Softmax", '"axis"'], axis=1.5)
    yield one("perm_short", "Transpose", ["the_Transpose"], perm=[0])
    yield one("perm_repeats", "Transpose", ["the_Transpose"], perm=[1, 1])
    yield one("perm_out_of_range", "Transpose", ["the_Transpose"], perm=[0, 2])
    yield one("group_0", "Conv", ["the_Conv"], image, initializers=w, group=0)
    yield one("group_2", "Conv", ["the_Conv"], image, initializers=w, group=2)
    yield one("group_huge", "Conv", ["the_Conv"], image, initializers=w, group=1 << 62)
    yield one("strides_0", "Conv", ["the_Conv"], image, initializers=w, strides=[0, 1])
    yield one("strides_short", "Conv", ["the_Conv"], image, initializers=w, strides=[1])
    yield one("dilations_negative", "Conv", ["the_Conv"], image, initializers=w, dilations=[-1, 1])
    yield one("pads_huge", "Conv", ["the_Conv"], image, initializers=w, pads=[(1 << 62)] * 4)
    yield one("pads_negative", "MaxPool", ["the_MaxPool"], image, kernel_shape=[2, 2], pads=[-9, 0, 0, 0])
    yield one("auto_pad_unknown", "Conv", ["the_Conv"], image, initializers=w, auto_pad="SOMEHOW")
    yield one("kernel_missing", "MaxPool", ["the_MaxPool", "kernel_shape"], image)
    yield one("kernel_huge", "AveragePool", ["the_AveragePool"], image, kernel_shape=[1 << 40, 1 << 40])
    yield one("kernel_differs", "Conv", ["the_Conv"], image, initializers=w, kernel_shape=[5, 5])
    yield one("equation_missing", "Einsum", ["the_Einsum", "equation"])
    yield one("equation_bad", "Einsum", ["the_Einsum"], equation="i1->(")
    yield one("hidden_size_negative", "LSTM", ["the_LSTM"], (("x", [5, 1, 4]),),
              initializers=[f32("w", [1, 16, 4]), f32("r", [1, 16, 4])], hidden_size=-4)
    yield one("mode_unknown", "Resize", ["the_Resize"], image,
              initializers=[("r", tensor("r", [0], [])), ("s", tensor("s", [4], [1.0, 1.0, 2.0, 2.0]))], mode="magic")
    yield one("resize_empty", "Resize", ['axis 1 of "x" is empty', "cannot become 9: "], (("x", [1, 0, 4]),),
              initializers=[i64("z", [1, 9, 8])], node_inputs=["x", "", "", "z"], mode="cubic")
    yield one("cast_internal", "Cast", ["64, which is no data type"], image, to=64)
    yield one("pad_empty", "Pad", ['axis 1 of "x" is empty', "cannot become 2: "], (("x", [3, 0]),),
              initializers=[i64("p", [0, 1, 0, 1])], mode="edge")
    yield Case("attribute_twice", model(graph([node("Softmax", ["x"], ["y"]) + field(5, attribute("axis", 0)) +
                                               field(5, attribute("axis", 1))], [X], [Y])), ("axis", "the_Softmax"))
    yield Case("attribute_unnamed", model(graph([node("Relu", ["x"], ["y"]) + field(5, field(3, 1))], [X], [Y])),
               ("name", "the_Relu"))
    yield Case("attribute_of_outer_call", model(graph([node("Softmax", ["x"], ["y"]) + field(
        5, field(1, "axis") + field(21, "outer"))], [X], [Y])), ("axis|outer", "the_Softmax"))


# ---- subgraphs ---------------------------------------------------------------------------------------------


def branch(outputs=("o",), value="x"):
    return graph([node("Identity", [value], [o], "inner") for o in outputs], [],
                 [value_info(o, None) for o in outputs])


def subgraphs():
    cond = (("c", [], BOOL), ("x", [2]))
    loop = [i64("m", [3], [])]
    yield one("if_without_else", "If", ["the_If", "else_branch"], cond, node_inputs=["c"], then_branch=branch())
    yield one("if_branches_differ", "If", ["the_If"], cond, node_inputs=["c"], then_branch=branch(),
              else_branch=branch(("o", "p")))
    yield one("if_results_short", "If", ["the_If"], cond, node_inputs=["c"], outputs=("y", "z"),
              then_branch=branch(), else_branch=branch())
    yield Case("if_branch_undefined", model(graph(
        [node("If", ["c"], ["y"], then_branch=branch(value="nowhere"), else_branch=branch())],
        [value_info(*entry) for entry in cond], [Y])), ("nowhere", "inner"))
    yield one("if_branch_is_int", "If", ["the_If", "then_branch"], cond, node_inputs=["c"], then_branch=1,
              else_branch=branch())
    yield one("loop_without_body", "Loop", ["the_Loop", "body"], (("x", [2]),), initializers=loop,
              node_inputs=["m", "", "x"])
    yield one("loop_body_short", "Loop", ["the_Loop"], (("x", [2]),), initializers=loop,
              node_inputs=["m", "", "x"], body=graph([], [value_info("i", [], INT64)], [value_info("i", [], INT64)]))
    grows = graph([node("Identity", ["c"], ["d"]), node("Unsqueeze", ["v", "a"], ["w"])],
                  [value_info("i", [], INT64), value_info("c", [], BOOL), value_info("v", None)],
                  [value_info("d", [], BOOL), value_info("w", None)])
    yield one("loop_rank_grows", "Loop", ["the_Loop", "must stay the same"], (("n", [], INT64), ("x", [2])), initializers=[i64("a", [0])],
              node_inputs=["n", "", "x"], body=grows)
    yield one("scan_inputs_negative", "Scan", ["the_Scan"], (("x", [2]),), num_scan_inputs=-1, body=branch())


# ---- tensors and their data -------------------------------------------------------------------------------


def sums(weight):
    return model(graph([node("Add", ["x", "w"], ["y"])], [X], [Y], [weight]))


def tensors():
    yield Case("raw_too_short", sums(tensor("w", [2, 3], raw=bytes(20))), ('"w"', "20"))
    yield Case("raw_too_long", sums(tensor("w", [2, 3], raw=bytes(28))), ('"w"', "28"))
    yield Case("raw_missing", sums(repeated(1, [2, 3]) + field(2, FLOAT) + field(8, "w")), ('"w"',))
    yield Case("dim_negative", sums(tensor("w", [2, -3], raw=bytes(24))), ('"w"', "-3"))
    yield Case("dims_huge", sums(tensor("w", [1 << 40, 3], raw=bytes(24))), ('"w"',))
    yield Case("dims_overflow", sums(tensor("w", [1 << 62, 1 << 62, 16], raw=bytes(24))), ('"w"',))
    yield Case("dims_overflow_to_fit", sums(tensor("w", [1 << 32, 1 << 32, 6], raw=bytes(24))), ('"w"',))
    yield Case("dims_overflow_by_zero", sums(tensor("w", [1 << 62, 1 << 62, 0], raw=b"")), ('"w"|the_Add',))
    yield Case("rank_huge", sums(tensor("w", [1] * 500, raw=bytes(4))), ('"w"', "rank"))
    yield Case("type_999", sums(tensor("w", [2, 3], raw=bytes(24), dtype=999)), ('"w"', "999"))
    yield Case("type_64", sums(tensor("w", [2, 3], raw=bytes(48), dtype=64)), ('"w"', "64"))
    yield Case("type_0", sums(tensor("w", [2, 3], raw=bytes(24), dtype=0)), ('"w"',))
    yield Case("type_text", sums(tensor("w", [2, 3], raw=bytes(24), dtype=8)), ('"w"|the_Add',))
    yield Case("values_of_other_type", sums(repeated(1, [2, 3]) + field(2, FLOAT) + field(8, "w") +
                                            field(7, b"\1\2\3\4\5\6")), ('"w"',))
    yield Case("values_too_few", sums(repeated(1, [2, 3]) + field(2, FLOAT) + field(8, "w") +
                                      field(4, struct.pack("<2f", 1, 2))), ('"w"',))
    yield Case("unnamed", sums(tensor("", [2, 3], raw=bytes(24))), ("name",))
    yield Case("constant_damaged", model(graph([node("Constant", [], ["w"], value=("t", tensor(
        "v", [2, 3], raw=bytes(20)))), node("Add", ["x", "w"], ["y"])], [X], [Y])), ("the_Constant", "20"))
    yield Case("constant_of_nothing", model(graph([node("Constant", [], ["w"]), node("Add", ["x", "w"], ["y"])], [X],
                                                  [Y])), ("the_Constant",))


def external_data():
    def of(name, want, files=None, **entries):
        return Case("external_" + name, sums(external("w", [2, 3], **entries)), ('"w"',) + want, files or {})

    whole = {"w.bin": bytes(24)}
    yield of("missing", ("absent.bin",), location="absent.bin")
    yield of("no_location", ("location",), whole, offset=0)
    yield of("short", (), {"w.bin": bytes(20)}, location="w.bin")
    yield of("offset_past_end", (), whole, location="w.bin", offset=100)
    yield of("offset_negative", ("-4",), whole, location="w.bin", offset=-4)
    yield of("offset_wraps", (), whole, location="w.bin", offset=(1 << 64) - 8)
    yield of("offset_text", ("ten",), whole, location="w.bin", offset="ten")
    yield of("length_differs", (), whole, location="w.bin", length=20)
    yield of("length_huge", (), whole, location="w.bin", length=1 << 62)
    yield of("outside", ("passwd",), location="../../../../../../../../etc/passwd")
    yield of("outside_hidden", ("passwd",), location="a/../../../../../../../../../etc/passwd")
    yield of("absolute", ("passwd",), location="/etc/passwd")
    yield of("through_link", ("out.bin",), {"out.bin": "/etc/passwd"}, location="out.bin")
    yield of("folder", (), {"sub/w.bin": bytes(24)}, location="sub")
    yield of("device", (), {"zero": "/dev/zero"}, location="zero")
    yield of("empty_location", (), location="")


# ---- sizes that nobody has -----------------------------------------------------------------------------------


def absurd():
    yield one("fill_2_50", "ConstantOfShape", ["the_ConstantOfShape"], (), initializers=[i64("s", [1 << 50, 1 << 20])])
    yield one("fill_negative", "ConstantOfShape", ["the_ConstantOfShape"], (), initializers=[i64("s", [-5])])
    yield one("tile_2_60", "Tile", ["the_Tile"], initializers=[i64("s", [1 << 60, 1 << 60])])
    yield one("expand_2_62", "Expand", ["the_Expand"], initializers=[i64("s", [1 << 62, 2, 3])])
    yield one("pad_2_62", "Pad", ["the_Pad"], initializers=[i64("s", [1 << 62, 0, 1 << 62, 1 << 62])])
    yield one("range_step_0", "Range", ["the_Range"], (), initializers=[
        (n, tensor(n, [], [v], INT64)) for n, v in (("a", 0), ("b", 10), ("c", 0))])
    yield one("resize_2_40", "Resize", ["the_Resize"], (("x", [1, 1, 8, 8]),),
              initializers=[("r", tensor("r", [0], [])), i64("z", [1, 1, 1 << 40, 1 << 40])],
              node_inputs=["x", "r", "", "z"])
    yield one("matmul_2_62", "MatMul", ["the_MatMul"], (("a", [1 << 40, 1 << 40]), ("b", [1 << 40, 1 << 40])))
    yield one("input_2_62", "Relu", [], (("x", [1 << 62, 1 << 62]),))


def cases(bases):
    """Every case; `bases` maps a name to the bytes of a good model."""
    for part in (no_models, wire, names, operators, shapes, types, attributes, subgraphs, tensors, external_data,
                 absurd):
        yield from part()
    for name, data in bases.items():
        yield from truncated(name, data)
        yield from overwritten(name, data, 60)
