# SPDX-License-Identifier: Apache-2.0
"""The cases of ops.py: small models, mostly of one operator, at sizes that models have.

A case is a row `one(NAME, OPERATOR, inputs, weights, attribute=...)` or `case(NAME, nodes, inputs, weights)`; the
function it stands in names its family. Operands are NumPy arrays or what `f`, `i` ... draw: `f(2, 3)` is f32 from
a normal distribution. Inputs are given at every call, weights are initializers.
"""
import dataclasses
import functools

import numpy as np
from onnx import TensorProto, ValueInfoProto, helper, numpy_helper


@dataclasses.dataclass
class Case:
    family: str
    name: str
    nodes: list          # (operator, inputs, outputs, attributes), in order
    inputs: list
    weights: list
    results: list = dataclasses.field(default_factory=lambda: ["y"])
    opset: int = 21
    domain: str = ""
    tolerance: float = 1e-4


@dataclasses.dataclass
class Drawn:
    shape: tuple
    dtype: str = "float32"
    low: float = None    # of uniform numbers; None: a normal distribution
    high: float = None

    def array(self, rng):
        if self.dtype == "bool":
            return rng.random(self.shape) < 0.5
        if self.low is None:
            return rng.standard_normal(self.shape, np.float32).astype(self.dtype)
        if np.dtype(self.dtype).kind in "iu":
            return rng.integers(self.low, self.high, self.shape).astype(self.dtype)
        return rng.uniform(self.low, self.high, self.shape).astype(self.dtype)


def f(*shape, low=None, high=None):
    return Drawn(shape, "float32", low, high)


def h(*shape):
    return Drawn(shape, "float16")


def d(*shape):
    return Drawn(shape, "float64")


def i(*shape, low=0, high=100):
    return Drawn(shape, "int64", low, high)


def i32(*shape, low=-1000, high=1000):
    return Drawn(shape, "int32", low, high)


def u8(*shape):
    return Drawn(shape, "uint8", 0, 256)


def i8(*shape):
    return Drawn(shape, "int8", -127, 128)


def b(*shape):
    return Drawn(shape, "bool")


def ints(*values):
    return np.array(values, np.int64)


def scalar(value, dtype=np.float32):
    return np.array(value, dtype)


FAMILIES = []
ADDED = []


def family(function):
    """A function that adds cases; its name, with spaces, is the family's."""
    FAMILIES.append(function)
    return function


def case(name, nodes, inputs, weights=(), **more):
    """Inputs are called a, b, c ..., weights w0, w1 ..."""
    ADDED.append(Case("", name, nodes, list(inputs), list(weights), **more))


def one(name, op, inputs, weights=(), results=1, order=None, **attributes):
    """One node whose operands are the inputs, then the weights, unless `order` names them ("" is absent)."""
    more = {k: attributes.pop(k) for k in ("opset", "domain", "tolerance") if k in attributes}
    names = order or input_names(inputs) + weight_names(weights)
    outs = ["y"] + [f"y{k}" for k in range(1, results)]
    case(name, [(op, names, outs, attributes)], inputs, weights, results=outs, **more)


def input_names(inputs):
    return [chr(ord("a") + k) for k in range(len(inputs))]


def weight_names(weights):
    return [f"w{k}" for k in range(len(weights))]


@functools.lru_cache(maxsize=2)
def cases(module=__name__):  # of the families there
    found = []
    for function in (function for function in FAMILIES if function.__module__ == module):
        ADDED.clear()
        function()
        for made in ADDED:
            made.family = function.__name__.replace("_", " ")
            found.append(made)
    names = [made.name for made in found]
    twice = {name for name in names if names.count(name) > 1}
    assert not twice, f"names are used twice: {twice}"
    return found


def build(made):
    """(model, feeds) of a case; everything drawn depends on its name alone."""
    rng = np.random.Generator(np.random.PCG64(sum(made.name.encode()) * 65537 + len(made.name)))
    drawn = lambda operand: operand.array(rng) if isinstance(operand, Drawn) else np.asarray(operand)
    feeds = {name: drawn(x) for name, x in zip(input_names(made.inputs), made.inputs)}
    weights = [numpy_helper.from_array(drawn(x), name) for name, x in zip(weight_names(made.weights), made.weights)]
    info = lambda name, x: helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
    nodes = [helper.make_node(op, ins, outs, domain=made.domain, **attributes)
             for op, ins, outs, attributes in made.nodes]
    outputs = [ValueInfoProto(name=name) for name in made.results]
    graph = helper.make_graph(nodes, "case", [info(name, x) for name, x in feeds.items()], outputs, weights)
    opsets = [helper.make_opsetid("", made.opset)]
    if made.domain:
        opsets.append(helper.make_opsetid(made.domain, 1))
    return helper.make_model(graph, opset_imports=opsets, ir_version=10), feeds


# ---- element-wise ---------------------------------------------------------------------------------------------


@family
def arithmetic():
    one("Add f32 768", "Add", [f(1, 197, 768), f(1, 197, 768)])
    one("Add f32 56x56", "Add", [f(1, 256, 56, 56), f(1, 256, 56, 56)])
    one("Sub f32 small", "Sub", [f(64, 512), f(64, 512)])
    one("Mul f32 768", "Mul", [f(1, 197, 768), f(1, 197, 768)])
    one("Div f32", "Div", [f(1, 128, 3072), f(1, 128, 3072, low=1, high=2)])
    one("Add f16", "Add", [h(1, 197, 768), h(1, 197, 768)], tolerance=1e-2)
    one("Mul f64", "Mul", [d(128, 768), d(128, 768)])
    one("Add i64", "Add", [i(64, 1024), i(64, 1024)])
    one("Mul i32", "Mul", [i32(64, 1024), i32(64, 1024)])
    one("Div i64", "Div", [i(64, 1024), i(64, 1024, low=1, high=50)])
    one("Mod i64", "Mod", [i(64, 1024), i(64, 1024, low=1, high=50)])
    one("Pow 2", "Pow", [f(128, 768)], [scalar(2)])
    one("Pow 0.5", "Pow", [f(128, 768, low=0.1, high=2)], [scalar(0.5)])
    one("Pow general", "Pow", [f(64, 768, low=0.1, high=2), f(64, 768)])
    one("Max of two", "Max", [f(128, 768), f(128, 768)])
    one("Sum of three", "Sum", [f(128, 768), f(128, 768), f(128, 768)])


@family
def unary():
    for op in "Relu Sigmoid Tanh Exp Sqrt Erf Softplus Elu HardSwish Neg Abs Floor Round Reciprocal Sign".split():
        low = 0.1 if op == "Sqrt" else None
        one(f"{op} 256x28x28", op, [f(1, 256, 28, 28, low=low, high=4)])
    one("Log", "Log", [f(1, 256, 28, 28, low=0.1, high=9)])
    one("Sin", "Sin", [f(128, 1024, low=-30, high=30)])
    one("Cos", "Cos", [f(128, 1024, low=-30, high=30)])
    one("Atan", "Atan", [f(128, 1024)])
    one("Gelu", "Gelu", [f(1, 128, 3072)])
    one("Gelu tanh", "Gelu", [f(1, 128, 3072)], approximate="tanh")
    one("LeakyRelu", "LeakyRelu", [f(1, 64, 104, 104)], alpha=0.1)
    one("PRelu", "PRelu", [f(1, 64, 56, 56)], [f(64, 1, 1)])
    one("Clip 0..6", "Clip", [f(1, 96, 112, 112)], [scalar(0), scalar(6)])
    one("Relu f16", "Relu", [h(1, 256, 56, 56)], tolerance=1e-2)
    one("Tanh f16", "Tanh", [h(128, 1024)], tolerance=1e-2)


@family
def comparisons_and_masks():
    one("Equal i64", "Equal", [i(128, 1024, high=4), i(128, 1024, high=4)])
    one("Less f32", "Less", [f(128, 1024), f(128, 1024)])
    one("Greater scalar", "Greater", [f(128, 1024)], [scalar(0.5)])
    one("And", "And", [b(128, 1024), b(128, 1024)])
    one("Not", "Not", [b(128, 4096)])
    one("Where f32", "Where", [b(12, 128, 128), f(12, 128, 128), f(12, 128, 128)])
    one("Where mask broadcast", "Where", [b(1, 1, 128, 128), f(1, 12, 128, 128)], [scalar(-1e9)])
    one("Where i64", "Where", [b(64, 1024), i(64, 1024), i(64, 1024)])
    one("IsNaN", "IsNaN", [f(128, 1024)])
    one("Trilu", "Trilu", [f(8, 256, 256)], upper=0)


@family
def broadcasts():
    one("Add row bias", "Add", [f(128, 3072), f(3072)])
    one("Add channel bias", "Add", [f(1, 128, 56, 56), f(1, 128, 1, 1)])
    one("Mul column", "Mul", [f(512, 768), f(512, 1)])
    one("Mul scalar", "Mul", [f(12, 128, 128)], [scalar(0.125)])
    one("Add outer", "Add", [f(512, 1), f(1, 512)])
    one("Mul squeeze excite", "Mul", [f(1, 240, 28, 28), f(1, 240, 1, 1)])
    one("Add mask heads", "Add", [f(1, 12, 128, 128), f(1, 1, 1, 128)])
    one("Expand rows", "Expand", [f(1, 1, 768)], [ints(1, 197, 768)])
    one("Expand columns", "Expand", [f(512, 1)], [ints(512, 1024)])
    one("Tile channels", "Tile", [f(1, 64, 28, 28)], [ints(1, 2, 1, 1)])
    one("Tile rows", "Tile", [f(64, 100)], [ints(4, 8)])


@family
def casts():
    for name, source, kind in (("f32 to f16", f(128, 1024), TensorProto.FLOAT16),
                               ("f16 to f32", h(128, 1024), TensorProto.FLOAT),
                               ("f32 to i64", f(128, 1024, low=-9, high=9), TensorProto.INT64),
                               ("i64 to f32", i(128, 1024), TensorProto.FLOAT),
                               ("u8 to f32", u8(1, 3, 224, 224), TensorProto.FLOAT),
                               ("f32 to bool", f(128, 1024), TensorProto.BOOL),
                               ("bool to f32", b(128, 1024), TensorProto.FLOAT),
                               ("i64 to i32", i(128, 1024), TensorProto.INT32),
                               ("f32 to f64", f(128, 1024), TensorProto.DOUBLE)):
        one(f"Cast {name}", "Cast", [source], to=kind)


# ---- reductions, rows, norms ------------------------------------------------------------------------------------


@family
def reductions():
    one("ReduceSum last", "ReduceSum", [f(512, 1024)], [ints(-1)], keepdims=0)
    one("ReduceSum first", "ReduceSum", [f(512, 1024)], [ints(0)], keepdims=0)
    one("ReduceSum middle", "ReduceSum", [f(16, 128, 256)], [ints(1)], keepdims=0)
    one("ReduceSum all", "ReduceSum", [f(512, 1024)], keepdims=0)
    one("ReduceMean rows", "ReduceMean", [f(197, 768)], [ints(-1)])
    one("ReduceMean 7x7", "ReduceMean", [f(1, 1280, 7, 7)], [ints(2, 3)])
    one("ReduceMax last", "ReduceMax", [f(512, 1024)], [ints(-1)])
    one("ReduceMax short rows", "ReduceMax", [f(8400, 80)], [ints(-1)])
    one("ReduceMin first", "ReduceMin", [f(512, 1024)], [ints(0)])
    one("ReduceProd", "ReduceProd", [f(512, 64, low=0.9, high=1.1)], [ints(-1)])
    one("ReduceL2", "ReduceL2", [f(512, 512)], [ints(-1)])
    one("ReduceSumSquare", "ReduceSumSquare", [f(512, 512)], [ints(-1)], opset=18)
    one("ReduceLogSumExp", "ReduceLogSumExp", [f(512, 512)], [ints(-1)])
    one("ReduceSum i64", "ReduceSum", [i(128, 1024)], [ints(-1)])
    one("ArgMax last", "ArgMax", [f(128, 1000)], axis=-1, keepdims=0)
    one("ArgMax channels", "ArgMax", [f(1, 21, 128, 128)], axis=1, keepdims=0)
    one("ArgMin first", "ArgMin", [f(256, 512)], axis=0, keepdims=0)
    one("CumSum last", "CumSum", [f(128, 1024)], [scalar(-1, np.int64)])
    one("CumSum first", "CumSum", [f(256, 512)], [scalar(0, np.int64)])
    one("CumSum i64", "CumSum", [i(16, 2048, high=2)], [scalar(1, np.int64)])


@family
def softmax():
    one("Softmax heads 128", "Softmax", [f(12, 128, 128)], axis=-1)
    one("Softmax heads 197", "Softmax", [f(12, 197, 197)], axis=-1)
    one("Softmax 1000", "Softmax", [f(16, 1000)], axis=-1)
    one("Softmax 50257", "Softmax", [f(1, 50257)], axis=-1)
    one("Softmax channels", "Softmax", [f(1, 21, 128, 128)], axis=1)
    one("LogSoftmax 5000", "LogSoftmax", [f(20, 5000)], axis=-1)


@family
def norms():
    one("LayerNormalization 768", "LayerNormalization", [f(1, 197, 768)], [f(768), f(768)], axis=-1)
    one("LayerNormalization 96", "LayerNormalization", [f(1, 3136, 96)], [f(96), f(96)], axis=-1)
    one("BatchNormalization", "BatchNormalization", [f(1, 64, 56, 56)],
        [f(64), f(64), f(64), f(64, low=0.5, high=2)])
    one("InstanceNormalization", "InstanceNormalization", [f(1, 64, 64, 64)], [f(64), f(64)])
    one("GroupNormalization", "GroupNormalization", [f(1, 320, 32, 32)], [f(320), f(320)], num_groups=32)
    one("RMSNormalization", "RMSNormalization", [f(1, 128, 2048)], [f(2048)], opset=23)
    one("LpNormalization", "LpNormalization", [f(512, 512)], axis=-1, p=2)
    one("LRN", "LRN", [f(1, 96, 27, 27)], size=5, alpha=1e-4, beta=0.75, bias=1.0)
    case("layer norm of small operators", [
        ("ReduceMean", ["a", "w2"], ["m"], {}), ("Sub", ["a", "m"], ["c"], {}), ("Mul", ["c", "c"], ["s"], {}),
        ("ReduceMean", ["s", "w2"], ["v"], {}), ("Add", ["v", "w3"], ["e"], {}), ("Sqrt", ["e"], ["q"], {}),
        ("Div", ["c", "q"], ["n"], {}), ("Mul", ["n", "w0"], ["g"], {}), ("Add", ["g", "w1"], ["y"], {})],
        [f(1, 128, 768)], [f(768), f(768), ints(-1), scalar(1e-5)])


# ---- movement -------------------------------------------------------------------------------------------------


@family
def transposes():
    one("Transpose 2-D", "Transpose", [f(1024, 1024)], perm=[1, 0])
    one("Transpose thin", "Transpose", [f(3, 50176)], perm=[1, 0])
    one("Transpose heads", "Transpose", [f(1, 128, 12, 64)], perm=[0, 2, 1, 3])
    one("Transpose keys", "Transpose", [f(1, 128, 12, 64)], perm=[0, 2, 3, 1])
    one("Transpose to channels last", "Transpose", [f(1, 96, 56, 56)], perm=[0, 2, 3, 1])
    one("Transpose to channels first", "Transpose", [f(1, 224, 224, 3)], perm=[0, 3, 1, 2])
    one("Transpose u8", "Transpose", [u8(1, 224, 224, 3)], perm=[0, 3, 1, 2])
    one("Transpose i64", "Transpose", [i(512, 512)], perm=[1, 0])
    one("Transpose shuffle", "Transpose", [f(1, 2, 58, 28, 28)], perm=[0, 2, 1, 3, 4])
    one("DepthToSpace", "DepthToSpace", [f(1, 36, 80, 80)], blocksize=3, mode="CRD")
    one("SpaceToDepth", "SpaceToDepth", [f(1, 16, 160, 160)], blocksize=2)


@family
def views():
    one("Reshape", "Reshape", [f(1, 128, 768)], [ints(1, 128, 12, 64)])
    one("Slice rows", "Slice", [f(1, 197, 768)], [ints(1), ints(197), ints(1)])
    one("Slice columns", "Slice", [f(512, 1024)], [ints(0), ints(512), ints(1)])
    one("Slice steps", "Slice", [f(1, 64, 112, 112)], [ints(0, 0), ints(112, 112), ints(2, 3), ints(2, 2)])
    one("Slice backwards", "Slice", [f(256, 1024)], [ints(-1), ints(-5000), ints(1), ints(-1)])
    one("Split 3", "Split", [f(1, 128, 2304)], [ints(768, 768, 768)], results=3, axis=2)
    one("Split channels", "Split", [f(1, 128, 28, 28)], [ints(64, 64)], results=2, axis=1)
    one("Concat channels", "Concat", [f(1, 64, 56, 56), f(1, 64, 56, 56)], axis=1)
    one("Concat last", "Concat", [f(512, 256), f(512, 256), f(512, 128)], axis=1)
    one("Concat rows", "Concat", [f(1, 1, 768), f(1, 196, 768)], axis=1)
    one("Pad constant", "Pad", [f(1, 64, 56, 56)], [ints(0, 0, 1, 1, 0, 0, 1, 1)])
    one("Pad reflect", "Pad", [f(1, 32, 128, 128)], [ints(0, 0, 4, 4, 0, 0, 4, 4)], mode="reflect")
    one("Pad edge", "Pad", [f(1, 32, 128, 128)], [ints(0, 0, 1, 1, 0, 0, 1, 1)], mode="edge")
    one("Flip", "ReverseSequence", [f(64, 16, 256), np.full(16, 60, np.int64)], time_axis=0, batch_axis=1)
    one("CenterCropPad", "CenterCropPad", [f(3, 256, 256)], [ints(224, 224)], axes=[1, 2])


@family
def gathers():
    one("Gather embedding", "Gather", [i(1, 128, high=30522)], [f(30522, 256)], order=["w0", "a"])
    one("Gather columns", "Gather", [f(512, 1024), i(64, high=1024)], axis=1)
    one("Gather bag", "Gather", [i(26, 64, high=10000)], [f(10000, 16)], order=["w0", "a"])
    one("GatherElements last", "GatherElements", [f(128, 1024), i(128, 256, high=1024)], axis=1)
    one("GatherElements first", "GatherElements", [f(1024, 128), i(256, 128, high=1024)], axis=0)
    one("GatherND rows", "GatherND", [f(64, 64, 64), i(1024, 2, high=64)])
    one("GatherND elements", "GatherND", [f(64, 64, 64), i(4096, 3, high=64)])
    one("ScatterND rows", "ScatterND", [f(1024, 256), np.arange(256).reshape(256, 1) * 3, f(256, 256)])
    one("ScatterND add", "ScatterND", [f(1024, 256), i(512, 1, high=1024), f(512, 256)], reduction="add")
    one("ScatterElements", "ScatterElements", [f(128, 1024), np.tile(np.arange(256) * 3, (128, 1)), f(128, 256)], axis=1)
    one("ScatterElements add", "ScatterElements", [f(1024, 64), i(2048, 64, high=1024), f(2048, 64)], axis=0,
        reduction="add")
    one("OneHot", "OneHot", [i(1024, high=128)], [scalar(128, np.int64), np.array([0, 1], np.float32)], axis=-1)
    one("Compress", "Compress", [f(1024, 256), b(1024)], axis=0)
    one("GridSample", "GridSample", [f(1, 32, 64, 64), f(1, 64, 64, 2, low=-1, high=1)], mode="linear", opset=20)
    one("RoiAlign", "RoiAlign", [f(1, 64, 50, 50), f(32, 4, low=0, high=200), np.zeros(32, np.int64)],
        output_height=7, output_width=7, sampling_ratio=2, spatial_scale=0.25,
        coordinate_transformation_mode="output_half_pixel")
    one("MaxUnpool", "MaxUnpool", [f(1, 64, 28, 28), unpool_indices(64, 28)], kernel_shape=[2, 2], strides=[2, 2])


def unpool_indices(channels, size):
    c, y, x = np.meshgrid(np.arange(channels), np.arange(size), np.arange(size), indexing="ij")
    return (((c * 2 * size + 2 * y) * 2 * size) + 2 * x)[None].astype(np.int64)


# ---- pictures ---------------------------------------------------------------------------------------------------


@family
def resizes():
    one("Resize nearest 2x", "Resize", [f(1, 128, 40, 40)], [np.array([1, 1, 2, 2], np.float32)], order=["a", "", "w0"],
        mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor")
    one("Resize linear 2x", "Resize", [f(1, 64, 64, 64)], [np.array([1, 1, 2, 2], np.float32)], order=["a", "", "w0"],
        mode="linear")
    one("Resize linear aligned", "Resize", [f(1, 32, 60, 60)], [ints(1, 32, 128, 128)], order=["a", "", "", "w0"],
        mode="linear", coordinate_transformation_mode="align_corners")
    one("Resize picture down", "Resize", [f(1, 3, 480, 640)], [ints(1, 3, 224, 224)], order=["a", "", "", "w0"],
        mode="linear")
    one("Resize cubic", "Resize", [f(1, 3, 128, 128)], [np.array([1, 1, 2, 2], np.float32)], order=["a", "", "w0"],
        mode="cubic")


@family
def pools():
    one("MaxPool 3x3 stride 2", "MaxPool", [f(1, 64, 112, 112)], kernel_shape=[3, 3], strides=[2, 2],
        pads=[1, 1, 1, 1])
    one("MaxPool 2x2", "MaxPool", [f(1, 64, 128, 128)], kernel_shape=[2, 2], strides=[2, 2])
    one("MaxPool 5x5 same", "MaxPool", [f(1, 128, 20, 20)], kernel_shape=[5, 5], pads=[2, 2, 2, 2])
    one("MaxPool 1-D", "MaxPool", [f(1, 128, 1024)], kernel_shape=[2], strides=[2])
    one("MaxPool indices", "MaxPool", [f(1, 64, 56, 56)], results=2, kernel_shape=[2, 2], strides=[2, 2])
    one("AveragePool 2x2", "AveragePool", [f(1, 128, 56, 56)], kernel_shape=[2, 2], strides=[2, 2])
    one("AveragePool 3x3 same", "AveragePool", [f(1, 64, 35, 35)], kernel_shape=[3, 3], pads=[1, 1, 1, 1])
    one("AveragePool 3-D", "AveragePool", [f(1, 32, 16, 28, 28)], kernel_shape=[2, 2, 2], strides=[2, 2, 2])
    one("GlobalAveragePool", "GlobalAveragePool", [f(1, 2048, 7, 7)])
    one("GlobalAveragePool 56x56", "GlobalAveragePool", [f(1, 96, 56, 56)])
    one("GlobalMaxPool", "GlobalMaxPool", [f(1, 512, 14, 14)])
    one("LpPool", "LpPool", [f(1, 32, 56, 56)], kernel_shape=[2, 2], strides=[2, 2], p=2)


# ---- contractions -----------------------------------------------------------------------------------------------


def conv(name, x, out, kernel, op="Conv", group=1, stride=1, pad=None, bias=True, **attributes):
    n = len(kernel)
    channels = x.shape[1]
    shape = (out, channels // group) if op == "Conv" else (channels, out // group)
    pads = [k // 2 for k in kernel] if pad is None else [pad] * n
    one(name, op, [x], [f(*shape, *kernel)] + ([f(out)] if bias else []), kernel_shape=list(kernel), group=group,
        strides=[stride] * n, pads=pads + pads, **attributes)


@family
def convolutions():
    conv("Conv 3x3 56x56x64", f(1, 64, 56, 56), 64, (3, 3))
    conv("Conv 3x3 14x14x256", f(1, 256, 14, 14), 256, (3, 3))
    conv("Conv 1x1 56x56 64 to 256", f(1, 64, 56, 56), 256, (1, 1))
    conv("Conv 1x1 14x14 1024 to 256", f(1, 1024, 14, 14), 256, (1, 1))
    conv("Conv 1x1 7x7 2048 to 512", f(1, 2048, 7, 7), 512, (1, 1))
    conv("Conv 7x7 stride 2 picture", f(1, 3, 224, 224), 64, (7, 7), stride=2)
    conv("Conv 3x3 stride 2", f(1, 64, 56, 56), 128, (3, 3), stride=2)
    conv("Conv 16x16 patches", f(1, 3, 224, 224), 192, (16, 16), stride=16, pad=0)
    conv("Conv dilated 2", f(1, 64, 32, 32), 64, (3, 3), pad=2, dilations=[2, 2])
    conv("Conv 5x5", f(1, 32, 28, 28), 64, (5, 5))
    conv("Conv 3x3 batch 4", f(4, 64, 28, 28), 64, (3, 3))
    conv("Conv 3x3 to 3", f(1, 32, 128, 128), 3, (3, 3))


@family
def grouped_convolutions():
    conv("Conv depthwise 3x3 112", f(1, 32, 112, 112), 32, (3, 3), group=32)
    conv("Conv depthwise 3x3 14", f(1, 576, 14, 14), 576, (3, 3), group=576)
    conv("Conv depthwise 3x3 stride 2", f(1, 96, 112, 112), 96, (3, 3), group=96, stride=2)
    conv("Conv depthwise 5x5", f(1, 240, 28, 28), 240, (5, 5), group=240)
    conv("Conv depthwise 7x7", f(1, 96, 56, 56), 96, (7, 7), group=96)
    conv("Conv groups of 4", f(1, 128, 56, 56), 128, (3, 3), group=32)
    conv("Conv 2 groups", f(1, 96, 27, 27), 256, (5, 5), group=2)


@family
def convolutions_1d_and_3d():
    conv("Conv 1-D 3", f(1, 80, 1500), 256, (3,))
    conv("Conv 1-D 1", f(1, 256, 1000), 256, (1,))
    conv("Conv 1-D depthwise 31", f(1, 256, 400), 256, (31,), group=256)
    conv("Conv 1-D dilated", f(1, 64, 4000), 128, (2,), pad=0, dilations=[16])
    conv("Conv 1-D samples", f(1, 1, 16000), 64, (10,), stride=5, pad=0)
    conv("Conv 3-D 3x3x3", f(1, 16, 16, 28, 28), 32, (3, 3, 3))
    conv("Conv 3-D 1x1x1", f(1, 64, 8, 28, 28), 64, (1, 1, 1))


@family
def transposed_convolutions():
    conv("ConvTranspose 2x2 stride 2", f(1, 128, 32, 32), 64, (2, 2), op="ConvTranspose", stride=2, pad=0)
    conv("ConvTranspose 4x4 stride 2", f(1, 64, 32, 32), 32, (4, 4), op="ConvTranspose", stride=2, pad=1)
    conv("ConvTranspose 3x3", f(1, 64, 28, 28), 64, (3, 3), op="ConvTranspose")
    conv("ConvTranspose 1-D", f(1, 64, 400), 32, (8,), op="ConvTranspose", stride=4, pad=2)


@family
def matrix_products():
    one("MatMul 512x512x512", "MatMul", [f(512, 512)], [f(512, 512)])
    one("MatMul 128x768x768", "MatMul", [f(128, 768)], [f(768, 768)])
    one("MatMul 128x768x3072", "MatMul", [f(1, 128, 768)], [f(768, 3072)])
    one("MatMul thin 2048x64x16", "MatMul", [f(2048, 64)], [f(64, 16)])
    one("MatMul row 1x768x3072", "MatMul", [f(1, 768)], [f(768, 3072)])
    one("MatMul row 1x2048x1000", "MatMul", [f(1, 2048)], [f(2048, 1000)])
    one("MatMul column", "MatMul", [f(1024, 1024)], [f(1024, 1)])
    one("MatMul 4 rows", "MatMul", [f(4, 1024)], [f(1024, 1024)])
    one("MatMul no weight", "MatMul", [f(256, 256), f(256, 256)])
    one("MatMul batched heads", "MatMul", [f(12, 128, 64), f(12, 64, 128)])
    one("MatMul batched values", "MatMul", [f(12, 197, 197), f(12, 197, 64)])
    one("MatMul batched small", "MatMul", [f(256, 16, 16), f(256, 16, 16)])
    one("MatMul f64", "MatMul", [d(128, 128)], [d(128, 128)])
    one("MatMul f16", "MatMul", [h(128, 256)], [h(256, 256)], tolerance=1e-2)
    case("MatMul transposed operand", [("Transpose", ["b"], ["t"], {"perm": [0, 2, 1]}), ("MatMul", ["a", "t"], ["y"], {})],
         [f(12, 128, 64), f(12, 128, 64)])
    one("Gemm classifier", "Gemm", [f(1, 1280)], [f(1000, 1280), f(1000)], transB=1)
    one("Gemm batch 64", "Gemm", [f(64, 512)], [f(256, 512), f(256)], transB=1)
    one("Gemm transposed both", "Gemm", [f(256, 128)], [f(256, 256)], transA=1, transB=1)
    one("Einsum bhid,bhjd", "Einsum", [f(1, 12, 128, 64), f(1, 12, 128, 64)], equation="bhid,bhjd->bhij")
    one("Einsum bij,bjk", "Einsum", [f(8, 128, 64), f(8, 64, 128)], equation="bij,bjk->bik")
    one("Einsum outer", "Einsum", [f(256), f(256)], equation="i,j->ij")
    case("MatMul bias Gelu", [("MatMul", ["a", "w0"], ["m"], {}), ("Add", ["m", "w1"], ["s"], {}),
                              ("Gelu", ["s"], ["y"], {})], [f(128, 256)], [f(256, 1024), f(1024)])


@family
def quantized():
    one("QuantizeLinear", "QuantizeLinear", [f(1, 64, 56, 56)], [scalar(0.02), scalar(128, np.uint8)])
    one("DequantizeLinear", "DequantizeLinear", [u8(1, 64, 56, 56)], [scalar(0.02), scalar(128, np.uint8)])
    one("DequantizeLinear per channel", "DequantizeLinear", [i8(256, 1024)], [f(256, low=0.01, high=0.02)], axis=0)
    one("DynamicQuantizeLinear", "DynamicQuantizeLinear", [f(128, 768)], results=3)
    one("MatMulInteger", "MatMulInteger", [u8(128, 768)], [i8(768, 768)])
    one("MatMulInteger row", "MatMulInteger", [u8(1, 768)], [i8(768, 3072)])
    one("ConvInteger", "ConvInteger", [u8(1, 32, 28, 28)], [u8(32, 32, 3, 3), scalar(128, np.uint8), scalar(128, np.uint8)],
        pads=[1, 1, 1, 1])
    one("QLinearMatMul", "QLinearMatMul", [u8(128, 512)],
        [scalar(0.02), scalar(128, np.uint8), i8(512, 512), scalar(0.01), scalar(0, np.int8), scalar(0.1),
         scalar(128, np.uint8)], tolerance=1)
    one("QLinearConv", "QLinearConv", [u8(1, 64, 28, 28)],
        [scalar(0.02), scalar(128, np.uint8), i8(64, 64, 3, 3), scalar(0.01), scalar(0, np.int8), scalar(0.2),
         scalar(128, np.uint8)], pads=[1, 1, 1, 1], tolerance=1)
    case("QDQ Conv 3x3", [
        ("DequantizeLinear", ["a", "w0", "w1"], ["x"], {}), ("DequantizeLinear", ["w2", "w3"], ["k"], {}),
        ("Conv", ["x", "k"], ["c"], {"pads": [1, 1, 1, 1]}), ("QuantizeLinear", ["c", "w4", "w1"], ["y"], {})],
        [u8(1, 64, 56, 56)], [scalar(0.02), scalar(128, np.uint8), i8(64, 64, 3, 3), scalar(0.01), scalar(0.2)],
        tolerance=1)
    case("dynamically quantized MatMul", [
        ("DynamicQuantizeLinear", ["a"], ["q", "s", "z"], {}), ("MatMulInteger", ["q", "w0", "z"], ["p"], {}),
        ("Cast", ["p"], ["c"], {"to": TensorProto.FLOAT}), ("Mul", ["s", "w1"], ["t"], {}),
        ("Mul", ["c", "t"], ["y"], {})], [f(128, 768)], [i8(768, 768), scalar(0.01)], tolerance=1e-3)
    for rows, bits, size, level in (1, 4, 32, 0), (32, 4, 32, 0), (1, 4, 32, 4), (32, 4, 32, 4), (1, 8, 128, 4):
        weights = [u8(1024, 1024 // size, size * bits // 8), f(1024 * 1024 // size, low=0.01, high=0.02)]
        one(f"MatMulNBits {rows} x {bits} bits{', codes' if level else ''}", "MatMulNBits", [f(rows, 1024)], weights, K=1024,
            N=1024, bits=bits, block_size=size, accuracy_level=level, domain="com.microsoft", tolerance=1e-2 if level else 1e-4)


# ---- sequences ------------------------------------------------------------------------------------------------


def recurrent(name, op, gates, steps, batch, size, hidden, directions=1, results=2, **attributes):
    w, r = f(directions, gates * hidden, size, low=-0.1, high=0.1), f(directions, gates * hidden, hidden, low=-0.1, high=0.1)
    one(name, op, [f(steps, batch, size)], [w, r, f(directions, 2 * gates * hidden)], results=results,
        hidden_size=hidden, direction="bidirectional" if directions == 2 else "forward", **attributes)


@family
def recurrent_layers():
    recurrent("LSTM 50 steps 256", "LSTM", 4, 50, 1, 256, 256, results=3)
    recurrent("LSTM bidirectional", "LSTM", 4, 30, 1, 128, 128, directions=2, results=3)
    recurrent("LSTM batch 16", "LSTM", 4, 20, 16, 128, 128, results=3)
    recurrent("GRU 50 steps 256", "GRU", 3, 50, 1, 256, 256)
    recurrent("GRU linear before reset", "GRU", 3, 40, 4, 128, 128, linear_before_reset=1)
    recurrent("RNN", "RNN", 1, 50, 1, 256, 256)


def attention_nodes(mask):
    scores = [("Transpose", ["b"], ["t"], {"perm": [0, 1, 3, 2]}), ("MatMul", ["a", "t"], ["s"], {}),
              ("Mul", ["s", "w0"], ["m"], {})]
    masked = [("Add", ["m", "d"], ["n"], {})] if mask else []
    return scores + masked + [("Softmax", ["n" if mask else "m"], ["p"], {"axis": -1}), ("MatMul", ["p", "c"], ["y"], {})]


@family
def attention():
    heads = lambda s: f(1, 12, s, 64)
    case("attention of small operators 128", attention_nodes(False), [heads(128)] * 3, [scalar(0.125)])
    case("attention with mask 197", attention_nodes(True), [heads(197)] * 3 + [f(1, 1, 1, 197)], [scalar(0.125)])
    case("attention one query", attention_nodes(False), [heads(1), heads(512), heads(512)], [scalar(0.125)])
    one("Attention 128", "Attention", [heads(128)] * 3, opset=23)
    one("Attention causal 256", "Attention", [heads(256)] * 3, is_causal=1, opset=23)
    one("Attention grouped", "Attention", [heads(128), f(1, 4, 128, 64), f(1, 4, 128, 64)], opset=23)
    one("RotaryEmbedding", "RotaryEmbedding", [f(1, 12, 128, 64)], [f(128, 32), f(128, 32), np.arange(128).reshape(1, 128)],
        order=["a", "w0", "w1", "w2"], opset=23)


# ---- irregular --------------------------------------------------------------------------------------------------


@family
def sorting_and_selection():
    one("TopK 5 of 1000", "TopK", [f(16, 1000)], [ints(5)], results=2)
    one("TopK 100 of 8400", "TopK", [f(1, 8400)], [ints(100)], results=2)
    one("TopK 40 of 50257", "TopK", [f(1, 50257)], [ints(40)], results=2)
    one("TopK all of 1024", "TopK", [f(32, 1024)], [ints(1024)], results=2)
    one("TopK first axis", "TopK", [f(1000, 32)], [ints(5)], results=2, axis=0)
    one("NonZero", "NonZero", [b(128, 1024)])
    one("NonZero f32", "NonZero", [f(64, 1024)])
    one("Unique", "Unique", [i(8192, high=1000)], results=4)
    one("Unique unsorted", "Unique", [i(8192, high=500)], sorted=0)
    one("NonMaxSuppression", "NonMaxSuppression", [boxes(1000), f(1, 4, 1000, low=0, high=1)],
        [scalar(50, np.int64), scalar(0.5), scalar(0.3)])
    one("NonMaxSuppression 80 classes", "NonMaxSuppression", [boxes(500), f(1, 80, 500, low=0, high=1)],
        [scalar(20, np.int64), scalar(0.5), scalar(0.6)])
    one("EyeLike", "EyeLike", [f(512, 512)])


def boxes(n):
    rng = np.random.Generator(np.random.PCG64(3))
    corner = rng.uniform(0, 500, (1, n, 2))
    return np.concatenate([corner, corner + rng.uniform(5, 100, (1, n, 2))], 2).astype(np.float32)


def body(nodes, inputs, outputs):
    """A nested graph; ports are (name, dtype, shape)."""
    info = lambda port: helper.make_tensor_value_info(*port)
    return helper.make_graph([helper.make_node(op, ins, outs, **attributes) for op, ins, outs, attributes in nodes],
                             "body", [info(p) for p in inputs], [info(p) for p in outputs])


@family
def control_flow():
    state = ("s", TensorProto.FLOAT, [256])
    count, going = ("k", TensorProto.INT64, []), ("c", TensorProto.BOOL, [])
    step = [("MatMul", ["s", "w0"], ["m"], {}), ("Tanh", ["m"], ["t"], {}), ("Identity", ["c"], ["c2"], {})]
    next_state, keep = ("t", TensorProto.FLOAT, [256]), ("c2", TensorProto.BOOL, [])
    case("Loop 64 steps", [("Loop", ["w1", "w2", "a"], ["y"], {"body": body(step, [count, going, state], [keep, next_state])})],
         [f(256)], [f(256, 256, low=-0.05, high=0.05), scalar(64, np.int64), scalar(True, np.bool_)])
    row = ("x", TensorProto.FLOAT, [256])
    sums = [("Add", ["s", "x"], ["t"], {}), ("Relu", ["t"], ["r"], {})]
    case("Scan 256 rows", [("Scan", ["a", "b"], ["y", "y1"], {"num_scan_inputs": 1, "body": body(
        sums, [state, row], [next_state, ("r", TensorProto.FLOAT, [256])])})], [f(256), f(256, 256)], results=["y", "y1"])
    two = lambda op: body([(op, ["b"], ["r"], {})], [], [("r", TensorProto.FLOAT, [512, 256])])
    case("If", [("If", ["a"], ["y"], {"then_branch": two("Relu"), "else_branch": two("Neg")})],
         [scalar(True, np.bool_), f(512, 256)])


@family
def signals():
    one("DFT 512", "DFT", [f(64, 512, 1)], [], order=["a"], axis=1, opset=19)
    one("DFT 512 onesided", "DFT", [f(64, 512, 1)], [], order=["a"], axis=1, onesided=1, opset=19)
    one("DFT 400", "DFT", [f(32, 400, 1)], [], order=["a"], axis=1, onesided=1, opset=19)
    one("STFT", "STFT", [f(1, 16000, 1)], [scalar(160, np.int64), np.hanning(400).astype(np.float32), scalar(400, np.int64)],
        tolerance=1e-3)
    one("Det", "Det", [f(256, 4, 4)], tolerance=1e-3)
