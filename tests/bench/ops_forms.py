# SPDX-License-Identifier: Apache-2.0
"""The families of ops_cases.py in other forms, for `ops.py --cases ops_forms`: extents that fill no vector, other axes
and types, rows and images of few elements, channels that are no multiple of anything, planes that lie pages apart.
"""
import numpy as np

from ops_cases import (Drawn, b, boxes, case, conv, d, f, family, h, i, i8, i32, ints, one, recurrent, scalar, u8)


@family
def arithmetic():
    one("Add odd", "Add", [f(3, 77, 131), f(3, 77, 131)])
    one("Add bcast middle", "Add", [f(8, 1, 64, 33), f(8, 50, 1, 33)])
    one("Mul bcast last2", "Mul", [f(32, 7, 7, 96), f(32, 1, 1, 96)])
    one("Mul bcast first", "Mul", [f(16, 64, 100), f(16, 1, 1)])
    one("Add bcast col row", "Add", [f(200, 1, 64), f(1, 200, 64)])
    one("Sub outer dist", "Sub", [f(300, 1, 3), f(1, 300, 3)])
    one("Div bcast", "Div", [f(64, 256, 16), f(64, 256, 1, low=1, high=2)])
    one("Mod f32 fmod", "Mod", [f(64, 1000), f(64, 1000, low=1, high=3)], fmod=1)
    one("Mod i32", "Mod", [i32(64, 1000), i32(64, 1000, low=1, high=30)])
    one("Pow 3", "Pow", [f(128, 700)], [scalar(3)])
    one("Pow -0.5", "Pow", [f(128, 700, low=0.1, high=2)], [scalar(-0.5)])
    one("Pow 1.7", "Pow", [f(128, 700, low=0.1, high=2)], [scalar(1.7)])
    one("Add f64", "Add", [d(100, 333), d(100, 333)])
    one("Div f64", "Div", [d(100, 333), d(100, 333)])
    one("Mul i64", "Mul", [i(100, 333), i(100, 333)])
    one("Add u8", "Add", [u8(100, 3333), u8(100, 3333)])
    one("BitwiseAnd", "BitwiseAnd", [i32(100, 1000), i32(100, 1000)])
    one("BitShift", "BitShift", [Drawn((100, 1000), "uint32", 0, 1000), Drawn((100, 1000), "uint32", 0, 10)],
        direction="LEFT")
    one("Mean of 4", "Mean", [f(50, 500)] * 4)
    one("Max of 5", "Max", [f(50, 500)] * 5)
    one("Min i64", "Min", [i(50, 1500)] * 2)


@family
def unary():
    for op in "Selu Celu Mish Softsign HardSigmoid ThresholdedRelu Ceil Tan Asin Acos Sinh Cosh Asinh Atanh".split():
        one(f"{op} odd", op, [f(3, 111, 97, low=-0.9, high=0.9)])
    one("Acosh", "Acosh", [f(3, 111, 97, low=1.1, high=9)])
    one("Exp f64", "Exp", [d(100, 333)])
    one("Tanh f64", "Tanh", [d(100, 333)])
    one("Log f64", "Log", [Drawn((100, 333), "float64", 0.1, 9)])
    one("Sigmoid f16", "Sigmoid", [h(100, 1333)], tolerance=1e-2)
    one("Exp f16", "Exp", [h(100, 333)], tolerance=1e-2)
    one("Abs i64", "Abs", [i(100, 1000, low=-50)])
    one("Neg i32", "Neg", [i32(100, 1000)])
    one("Sign i64", "Sign", [i(100, 1000, low=-50)])
    one("Sqrt f64", "Sqrt", [Drawn((100, 333), "float64", 0.1, 9)])
    one("Erf small", "Erf", [f(1, 1000)])
    one("Shrink", "Shrink", [f(100, 1000)], lambd=0.3, bias=0.1)
    one("PRelu rows", "PRelu", [f(64, 1000)], [f(1000)])
    one("Clip i64", "Clip", [i(100, 1000)], [scalar(3, np.int64), scalar(60, np.int64)])


@family
def masks():
    one("Xor", "Xor", [b(100, 1000), b(100, 1000)])
    one("Or bcast", "Or", [b(100, 1, 50), b(1, 70, 50)])
    one("Equal bcast", "Equal", [i(300, 1), i(1, 300)])
    one("Where bcast3", "Where", [b(1, 77, 1), f(12, 77, 77), f(77)])
    one("Where f16", "Where", [b(100, 1000), h(100, 1000), h(100, 1000)])
    one("IsInf", "IsInf", [f(100, 1000)])
    one("Trilu up k", "Trilu", [f(9, 127, 127)], [scalar(3, np.int64)], upper=1)
    one("OneHot 1000", "OneHot", [i(128, high=1000)], [scalar(1000, np.int64), np.array([0, 1], np.float32)])
    one("OneHot axis 1", "OneHot", [i(16, 200, high=32)], [scalar(32, np.int64), np.array([0, 1], np.float32)],
        axis=1)
    one("Greater f64", "Greater", [d(100, 333), d(100, 333)])
    one("LessOrEqual i64", "LessOrEqual", [i(100, 1000), i(100, 1000)])


@family
def reductions():
    one("ReduceSum 0,2", "ReduceSum", [f(16, 96, 100)], [ints(0, 2)], keepdims=0)
    one("ReduceSum 1,3", "ReduceSum", [f(8, 33, 16, 50)], [ints(1, 3)], keepdims=0)
    one("ReduceMean 1 of NHWC", "ReduceMean", [f(4, 14, 14, 200)], [ints(1, 2)])
    one("ReduceMax middle", "ReduceMax", [f(16, 77, 130)], [ints(1)])
    one("ReduceMax 2 last", "ReduceMax", [f(3, 300, 7, 7)], [ints(2, 3)])
    one("ReduceSum short 3", "ReduceSum", [f(30000, 3)], [ints(-1)])
    one("ReduceMean short 10", "ReduceMean", [f(5000, 10)], [ints(-1)])
    one("ReduceL1", "ReduceL1", [f(300, 700)], [ints(-1)], opset=18)
    one("ReduceLogSum", "ReduceLogSum", [f(300, 700, low=0.1, high=1)], [ints(-1)], opset=18)
    one("ReduceLogSumExp first", "ReduceLogSumExp", [f(300, 700)], [ints(0)], opset=18)
    one("ReduceProd first", "ReduceProd", [f(100, 700, low=0.9, high=1.1)], [ints(0)])
    one("ReduceSum f64", "ReduceSum", [d(300, 700)], [ints(-1)])
    one("ReduceMean f16", "ReduceMean", [h(300, 700)], [ints(-1)], tolerance=1e-2)
    one("ReduceMax i64", "ReduceMax", [i(300, 700)], [ints(-1)])
    one("ReduceMin u8", "ReduceMin", [u8(300, 700)], [ints(-1)])
    one("ReduceMax bool", "ReduceMax", [b(300, 700)], [ints(-1)], opset=20)
    one("ReduceSum i32 first", "ReduceSum", [i32(300, 700)], [ints(0)])
    one("ReduceSum long", "ReduceSum", [f(1, 1000000)], [ints(-1)])
    one("ReduceSum long first", "ReduceSum", [f(100000, 7)], [ints(0)])
    one("ArgMax first", "ArgMax", [f(100, 700)], axis=0)
    one("ArgMax short", "ArgMax", [f(5000, 10)], axis=-1)
    one("ArgMax last idx", "ArgMax", [f(200, 333)], axis=-1, select_last_index=1)
    one("ArgMin last", "ArgMin", [f(200, 333)], axis=-1)
    one("ArgMax f16", "ArgMax", [h(128, 1000)], axis=-1)
    one("ArgMax i64", "ArgMax", [i(128, 1000)], axis=-1)
    one("CumSum exclusive reverse", "CumSum", [f(100, 700)], [scalar(1, np.int64)], exclusive=1, reverse=1)
    one("CumSum middle", "CumSum", [f(16, 100, 77)], [scalar(1, np.int64)])
    one("CumSum f64", "CumSum", [d(64, 512)], [scalar(1, np.int64)])
    one("CumSum i32 first", "CumSum", [i32(256, 500)], [scalar(0, np.int64)])


@family
def softmax():
    one("Softmax odd 77", "Softmax", [f(12, 77, 77)], axis=-1)
    one("Softmax 10", "Softmax", [f(5000, 10)], axis=-1)
    one("Softmax 3", "Softmax", [f(20000, 3)], axis=-1)
    one("Softmax first", "Softmax", [f(64, 1000)], axis=0)
    one("Softmax middle", "Softmax", [f(8, 16, 8400)], axis=1)
    one("Softmax f16", "Softmax", [h(12, 128, 128)], axis=-1, tolerance=1e-2)
    one("Softmax f64", "Softmax", [d(12, 50, 128)], axis=-1)
    one("LogSoftmax 40", "LogSoftmax", [f(500, 40)], axis=-1)
    one("LogSoftmax channels", "LogSoftmax", [f(1, 19, 100, 100)], axis=1)
    one("Hardmax", "Hardmax", [f(200, 333)], axis=-1)
    one("SoftmaxCrossEntropyLoss", "SoftmaxCrossEntropyLoss", [f(128, 1000), i(128, high=1000)])


@family
def norms():
    one("LayerNorm 33", "LayerNormalization", [f(1000, 33)], [f(33), f(33)], axis=-1)
    one("LayerNorm 2 axes", "LayerNormalization", [f(16, 50, 64)], [f(50, 64), f(50, 64)], axis=1)
    one("LayerNorm f16", "LayerNormalization", [h(128, 768)], [h(768), h(768)], axis=-1, tolerance=1e-2)
    one("LayerNorm f64", "LayerNormalization", [d(128, 300)], [d(300), d(300)], axis=-1)
    one("BatchNorm 2-D", "BatchNormalization", [f(128, 300)], [f(300), f(300), f(300), f(300, low=0.5, high=2)])
    one("BatchNorm 1-D", "BatchNormalization", [f(8, 100, 77)], [f(100), f(100), f(100), f(100, low=0.5, high=2)])
    one("InstanceNorm 1-D", "InstanceNormalization", [f(4, 64, 777)], [f(64), f(64)])
    one("InstanceNorm 3-D", "InstanceNormalization", [f(1, 16, 8, 20, 20)], [f(16), f(16)])
    one("GroupNorm 8 odd", "GroupNormalization", [f(2, 72, 19, 23)], [f(72), f(72)], num_groups=8)
    one("GroupNorm 1-D", "GroupNormalization", [f(2, 64, 500)], [f(64), f(64)], num_groups=16)
    one("MeanVariance", "MeanVarianceNormalization", [f(2, 64, 32, 32)], axes=[0, 2, 3])
    one("MeanVariance last", "MeanVarianceNormalization", [f(200, 300)], axes=[1])
    one("LpNorm first", "LpNormalization", [f(300, 200)], axis=0, p=2)
    one("LpNorm 1", "LpNormalization", [f(300, 200)], axis=-1, p=1)
    one("LRN 3", "LRN", [f(1, 64, 55, 55)], size=3)
    one("SkipLayerNorm", "SkipLayerNormalization", [f(1, 77, 512), f(1, 77, 512)], [f(512), f(512), f(512)],
        domain="com.microsoft")


@family
def transposes():
    one("T 5-D", "Transpose", [f(2, 3, 20, 30, 16)], perm=[0, 2, 3, 4, 1])
    one("T window", "Transpose", [f(1, 8, 7, 8, 7, 96)], perm=[0, 1, 3, 2, 4, 5])
    one("T middle odd", "Transpose", [f(7, 33, 65, 19)], perm=[0, 2, 1, 3])
    one("T reverse", "Transpose", [f(20, 30, 40, 5)], perm=[3, 2, 1, 0])
    one("T first last", "Transpose", [f(77, 13, 55)], perm=[2, 1, 0])
    one("T odd 2-D", "Transpose", [f(777, 333)], perm=[1, 0])
    one("T thin 5", "Transpose", [f(20000, 5)], perm=[1, 0])
    one("T f16", "Transpose", [h(512, 768)], perm=[1, 0])
    one("T f64", "Transpose", [d(300, 500)], perm=[1, 0])
    one("T bool", "Transpose", [b(300, 700)], perm=[1, 0])
    one("T batch 2", "Transpose", [f(50, 2, 300)], perm=[0, 2, 1])
    one("T batch 4 last", "Transpose", [f(50, 300, 4)], perm=[0, 2, 1])
    one("D2S DCR", "DepthToSpace", [f(1, 64, 50, 50)], blocksize=2, mode="DCR")
    one("D2S 4", "DepthToSpace", [f(1, 48, 60, 60)], blocksize=4, mode="CRD")
    one("S2D 4", "SpaceToDepth", [f(1, 3, 224, 224)], blocksize=4)


@family
def views():
    one("Slice odd", "Slice", [f(4, 100, 77)], [ints(3, 5), ints(90, 70), ints(1, 2)])
    one("Slice steps rows", "Slice", [f(1000, 333)], [ints(0), ints(1000), ints(0), ints(3)])
    one("Slice steps last", "Slice", [f(333, 1000)], [ints(0), ints(1000), ints(1), ints(2)])
    one("Slice steps last 3", "Slice", [f(333, 1000)], [ints(1), ints(1000), ints(1), ints(3)])
    one("Split last uneven", "Split", [f(500, 100)], [ints(10, 30, 60)], results=3, axis=1)
    one("Split 4 lstm", "Split", [f(64, 1024)], [ints(256, 256, 256, 256)], results=4, axis=1)
    one("Concat 4 last small", "Concat", [f(5000, 4)] * 4, axis=1)
    one("Concat last 1", "Concat", [f(5000, 1)] * 3, axis=1)
    one("Concat stack last", "Concat", [f(100, 100, 1)] * 2, axis=2)
    one("Concat middle", "Concat", [f(16, 10, 77), f(16, 20, 77)], axis=1)
    one("Concat u8", "Concat", [u8(500, 100)] * 3, axis=1)
    one("Pad last", "Pad", [f(100, 777)], [ints(0, 3, 0, 5)])
    one("Pad reflect 1-D", "Pad", [f(4, 16, 1000)], [ints(0, 0, 20, 0, 0, 20)], mode="reflect")
    one("Pad wrap", "Pad", [f(4, 16, 50, 50)], [ints(0, 0, 2, 2, 0, 0, 2, 2)], mode="wrap")
    one("Pad u8", "Pad", [u8(1, 3, 200, 200)], [ints(0, 0, 5, 5, 0, 0, 5, 5), scalar(114, np.uint8)])
    one("Pad negative", "Pad", [f(1, 30, 60, 60)], [ints(0, 0, -2, -2, 0, 0, -2, -2)])
    one("Expand middle", "Expand", [f(16, 1, 77)], [ints(16, 50, 77)])
    one("Expand kv", "Expand", [f(1, 4, 1, 128, 64)], [ints(1, 4, 4, 128, 64)])
    one("Expand i64", "Expand", [i(1, 300)], [ints(200, 300)])
    one("Tile 3", "Tile", [f(10, 3, 77)], [ints(2, 3, 4)])
    one("Tile last", "Tile", [f(1000, 1)], [ints(1, 100)])
    one("Col2Im", "Col2Im", [f(1, 64 * 9, 900)], [ints(32, 32), ints(3, 3)], order=["a", "w0", "w1"])
    one("Range-like Flip last", "Slice", [f(200, 333)], [ints(-1), ints(-5000), ints(1), ints(-1)])


@family
def gathers():
    one("Gather rows odd", "Gather", [f(1000, 77), i(300, high=1000)], axis=0)
    one("Gather small rows", "Gather", [f(1000, 3), i(3000, high=1000)], axis=0)
    one("Gather middle", "Gather", [f(16, 100, 77), i(40, high=100)], axis=1)
    one("Gather scalars", "Gather", [f(5000), i(20000, high=5000)], axis=0)
    one("Gather i64", "Gather", [i(5000), i(20000, high=5000)], axis=0)
    one("Gather f16", "Gather", [h(5000, 100), i(200, high=5000)], axis=0)
    one("Gather negative", "Gather", [f(1000, 77), i(300, low=-1000, high=1000)], axis=0)
    one("GatherElements first", "GatherElements", [f(500, 100), i(200, 100, high=500)], axis=0)
    one("GatherElements middle", "GatherElements", [f(8, 100, 64), i(8, 30, 64, high=100)], axis=1)
    one("GatherND 2", "GatherND", [f(100, 100, 16), i(500, 2, high=100)])
    one("GatherND batch", "GatherND", [f(8, 200, 32), i(8, 50, 1, high=200)], batch_dims=1)
    one("GatherND all", "GatherND", [f(100, 100), i(5000, 2, high=100)])
    one("ScatterElements add", "ScatterElements", [f(500, 100), i(200, 100, high=500), f(200, 100)], axis=0,
        reduction="add")
    one("ScatterElements last", "ScatterElements", [f(200, 300), i(200, 20, high=300), f(200, 20)], axis=1)
    one("ScatterElements max", "ScatterElements", [f(200, 300), i(200, 20, high=300), f(200, 20)], axis=1,
        reduction="max")
    one("ScatterND rows", "ScatterND", [f(500, 64), i(100, 1, high=500), f(100, 64)])
    one("ScatterND add", "ScatterND", [f(500, 64), i(1000, 1, high=500), f(1000, 64)], reduction="add",
        tolerance=1e-3)
    one("ScatterND scalars", "ScatterND", [f(100, 100), i(1000, 2, high=100), f(1000)])
    one("Compress rows", "Compress", [f(1000, 64), b(1000)], axis=0)
    one("Compress flat", "Compress", [f(1000, 64), b(64000)])


@family
def resizes():
    one("Resize nearest odd", "Resize", [f(1, 64, 37, 41)], [ints(1, 64, 74, 82)], order=["a", "", "", "w0"],
        mode="nearest")
    one("Resize nearest 3x", "Resize", [f(1, 32, 40, 40)], [np.array([1, 1, 3, 3], np.float32)], order=["a", "",
        "w0"], mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor")
    one("Resize nearest down", "Resize", [f(1, 32, 80, 80)], [np.array([1, 1, 0.5, 0.5], np.float32)], order=["a",
        "", "w0"], mode="nearest")
    one("Resize linear odd", "Resize", [f(1, 19, 33, 33)], [ints(1, 19, 257, 257)], order=["a", "", "", "w0"],
        mode="linear")
    one("Resize linear half down", "Resize", [f(1, 64, 80, 80)], [np.array([1, 1, 0.5, 0.5], np.float32)],
        order=["a", "", "w0"], mode="linear")
    one("Resize linear antialias", "Resize", [f(1, 3, 480, 640)], [ints(1, 3, 224, 224)], order=["a", "", "",
        "w0"], mode="linear", antialias=1)
    one("Resize 1-D linear", "Resize", [f(1, 64, 1000)], [ints(1, 64, 2000)], order=["a", "", "", "w0"],
        mode="linear")
    one("Resize 1-D nearest", "Resize", [f(1, 64, 500)], [ints(1, 64, 1000)], order=["a", "", "", "w0"],
        mode="nearest")
    one("Resize 3-D linear", "Resize", [f(1, 8, 8, 20, 20)], [ints(1, 8, 16, 40, 40)], order=["a", "", "", "w0"],
        mode="linear")
    one("Resize NHWC", "Resize", [f(1, 40, 40, 64)], [ints(1, 80, 80, 64)], order=["a", "", "", "w0"], mode="linear")
    one("Resize cubic up odd", "Resize", [f(1, 16, 50, 50)], [ints(1, 16, 77, 77)], order=["a", "", "", "w0"],
        mode="cubic", tolerance=1e-3)
    one("Resize u8", "Resize", [u8(1, 3, 240, 320)], [ints(1, 3, 480, 640)], order=["a", "", "", "w0"],
        mode="nearest")
    one("GridSample bilinear", "GridSample", [f(1, 32, 40, 40), f(1, 50, 50, 2, low=-1.1, high=1.1)])
    one("GridSample nearest", "GridSample", [f(2, 16, 40, 40), f(2, 64, 64, 2, low=-1.1, high=1.1)],
        mode="nearest", tolerance=10)
    one("GridSample border", "GridSample", [f(1, 3, 100, 100), f(1, 100, 100, 2, low=-1.1, high=1.1)],
        padding_mode="border", align_corners=1)
    one("GridSample bicubic", "GridSample", [f(1, 8, 40, 40), f(1, 50, 50, 2, low=-1.1, high=1.1)], mode="cubic")
    one("GridSample 3-D", "GridSample", [f(1, 4, 16, 20, 20), f(1, 16, 20, 20, 3, low=-1.1, high=1.1)])
    one("AffineGrid", "AffineGrid", [f(1, 2, 3)], [ints(1, 3, 128, 128)])
    one("RoiAlign", "RoiAlign", [f(1, 64, 50, 50), boxes(100)[0] / 12, np.zeros(100, np.int64)], output_height=7,
        output_width=7, sampling_ratio=2)


@family
def pools():
    one("MaxPool 3x3 s1", "MaxPool", [f(1, 64, 37, 37)], kernel_shape=[3, 3], pads=[1, 1, 1, 1])
    one("MaxPool 3x3 s2 odd", "MaxPool", [f(1, 48, 55, 55)], kernel_shape=[3, 3], strides=[2, 2])
    one("MaxPool ceil", "MaxPool", [f(1, 64, 55, 55)], kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1)
    one("MaxPool dilated", "MaxPool", [f(1, 32, 50, 50)], kernel_shape=[3, 3], dilations=[2, 2])
    one("MaxPool 13x13", "MaxPool", [f(1, 128, 13, 13)], kernel_shape=[13, 13], pads=[6, 6, 6, 6])
    one("MaxPool 1-D 3 s2", "MaxPool", [f(4, 64, 777)], kernel_shape=[3], strides=[2], pads=[1, 1])
    one("MaxPool 3-D", "MaxPool", [f(1, 16, 16, 30, 30)], kernel_shape=[3, 3, 3], strides=[2, 2, 2], pads=[1] * 6)
    one("MaxPool u8", "MaxPool", [u8(1, 64, 56, 56)], kernel_shape=[2, 2], strides=[2, 2])
    one("MaxPool 4x1", "MaxPool", [f(1, 64, 64, 100)], kernel_shape=[4, 1], strides=[4, 1])
    one("MaxPool 7x7 out", "MaxPool", [f(8, 256, 4, 4)], kernel_shape=[2, 2], strides=[2, 2])
    one("AveragePool 3x3 s2 incl", "AveragePool", [f(1, 64, 57, 57)], kernel_shape=[3, 3], strides=[2, 2], pads=[1,
        1, 1, 1], count_include_pad=1)
    one("AveragePool 7x7", "AveragePool", [f(1, 256, 28, 28)], kernel_shape=[7, 7], strides=[7, 7])
    one("AveragePool 1-D", "AveragePool", [f(4, 64, 1000)], kernel_shape=[25], strides=[1], pads=[12, 12])
    one("AveragePool ceil", "AveragePool", [f(1, 64, 55, 55)], kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1)
    one("AveragePool 5x5 s3", "AveragePool", [f(1, 768, 17, 17)], kernel_shape=[5, 5], strides=[3, 3])
    one("GlobalAveragePool 3-D", "GlobalAveragePool", [f(1, 256, 4, 14, 14)])
    one("GlobalMaxPool 1-D", "GlobalMaxPool", [f(16, 100, 77)])
    one("LpPool 3", "LpPool", [f(1, 32, 56, 56)], kernel_shape=[3, 3], strides=[2, 2], p=3)
    case("MaxUnpool", [("MaxPool", ["a"], ["p", "q"], {"kernel_shape": [2, 2], "strides": [2, 2]}), ("MaxUnpool",
        ["p", "q"], ["y"], {"kernel_shape": [2, 2], "strides": [2, 2]})], [f(1, 32, 56, 56)])


@family
def convolutions():
    conv("C3 20 channels", f(1, 20, 50, 50), 20, (3, 3))
    conv("C3 1 channel", f(1, 1, 128, 128), 32, (3, 3))
    conv("C3 1 to 1", f(1, 1, 256, 256), 1, (3, 3))
    conv("C5 1 to 1", f(1, 1, 256, 256), 1, (5, 5))
    conv("C3 4 ch", f(1, 4, 128, 128), 8, (3, 3))
    conv("C3 64 to 1", f(1, 64, 128, 128), 1, (3, 3))
    conv("C9 3 to 32", f(1, 3, 128, 128), 32, (9, 9))
    conv("C9 32 to 3", f(1, 32, 128, 128), 3, (9, 9))
    conv("C1 odd", f(1, 77, 33, 33), 130, (1, 1))
    conv("C1 stride 2", f(1, 256, 56, 56), 512, (1, 1), stride=2, pad=0)
    conv("C1 tiny", f(1, 960, 1, 1), 240, (1, 1))
    conv("C1 tiny batch 8", f(8, 960, 1, 1), 240, (1, 1))
    conv("C2 stride 2", f(1, 96, 56, 56), 192, (2, 2), stride=2, pad=0)
    conv("C4 stride 4", f(1, 3, 224, 224), 96, (4, 4), stride=4, pad=0)
    conv("C32 patches", f(1, 3, 384, 384), 768, (32, 32), stride=32, pad=0)
    conv("C3 stride 2 picture", f(1, 3, 224, 224), 24, (3, 3), stride=2)
    conv("C6 stride 2 picture", f(1, 3, 320, 320), 32, (6, 6), stride=2, pad=2)
    conv("C11 stride 4", f(1, 3, 224, 224), 64, (11, 11), stride=4, pad=2)
    conv("C3 dil 6", f(1, 128, 28, 28), 64, (3, 3), pad=6, dilations=[6, 6])
    conv("C3 dil 12", f(1, 256, 33, 33), 64, (3, 3), pad=12, dilations=[12, 12])
    conv("C3 valid", f(1, 64, 30, 30), 64, (3, 3), pad=0)
    conv("C3 7x7 512", f(1, 512, 7, 7), 512, (3, 3))
    conv("C3 4x4 512 b8", f(8, 512, 4, 4), 512, (3, 3))
    conv("C7 same", f(1, 64, 32, 32), 64, (7, 7))
    conv("C1x9", f(1, 64, 32, 64), 64, (1, 9))
    conv("C3 full", f(1, 64, 7, 7), 128, (7, 7), pad=0)
    conv("C3 batch 16 small", f(16, 16, 8, 8), 32, (3, 3))


@family
def grouped():
    conv("DW 3 odd", f(1, 77, 33, 33), 77, (3, 3), group=77)
    conv("DW 3 b8", f(8, 64, 28, 28), 64, (3, 3), group=64)
    conv("DW 5 s2", f(1, 144, 56, 56), 144, (5, 5), group=144, stride=2)
    conv("DW 7 14", f(1, 384, 14, 14), 384, (7, 7), group=384)
    conv("DW 7 7", f(1, 768, 7, 7), 768, (7, 7), group=768)
    conv("DW 3 dil 2", f(1, 128, 32, 32), 128, (3, 3), group=128, pad=2, dilations=[2, 2])
    conv("DW 9", f(1, 64, 32, 32), 64, (9, 9), group=64)
    conv("DW 1x1", f(1, 128, 32, 32), 128, (1, 1), group=128)
    conv("DW mult 2", f(1, 32, 56, 56), 64, (3, 3), group=32)
    conv("DW mult 4 eeg", f(1, 8, 1, 512), 32, (1, 33), group=8, pad=0)
    conv("Gr 3", f(1, 48, 28, 28), 96, (3, 3), group=3)
    conv("Gr of 8", f(1, 64, 56, 56), 64, (3, 3), group=8)
    conv("Gr of 24", f(1, 192, 28, 28), 192, (3, 3), group=8)
    conv("Gr of 32 s2", f(1, 256, 28, 28), 256, (3, 3), group=8, stride=2)
    conv("Gr 1x1 of 60", f(1, 240, 28, 28), 240, (1, 1), group=4)
    conv("Gr 1x1 of 10", f(1, 240, 28, 28), 120, (1, 1), group=24)
    conv("Gr 2 to 1", f(1, 64, 28, 28), 32, (3, 3), group=32)
    conv("DW 1-D 3", f(1, 512, 300), 512, (3,), group=512)
    conv("DW 1-D 15", f(4, 144, 200), 144, (15,), group=144)
    conv("DW 1-D 65", f(1, 64, 1000), 64, (65,), group=64)
    conv("DW 1-D valid 4 mamba", f(1, 1536, 128), 1536, (4,), group=1536, pad=3)
    conv("Gr 1-D 128 w2v", f(1, 768, 49), 768, (128,), group=16, pad=64)
    conv("DW 3-D", f(1, 64, 8, 14, 14), 64, (3, 3, 3), group=64)


@family
def convolutions_1d_and_3d():
    conv("C1d 7", f(1, 128, 1000), 128, (7,))
    conv("C1d 11", f(1, 64, 2000), 64, (11,))
    conv("C1d 7 to 1", f(1, 32, 8000), 1, (7,))
    conv("C1d 3 to 512 s2", f(1, 512, 800), 512, (3,), stride=2)
    conv("C1d 1 to 16 k7", f(1, 1, 16000), 16, (7,))
    conv("C1d 400 s160", f(1, 1, 16000), 80, (400,), stride=160, pad=0)
    conv("C1d 5 small", f(1, 12, 187), 32, (5,))
    conv("C1d 64 ecg", f(1, 12, 2500), 32, (15,), stride=2)
    conv("C1d dil 8", f(1, 64, 2000), 64, (3,), pad=8, dilations=[8])
    conv("C3d 3 s2", f(1, 16, 16, 32, 32), 32, (3, 3, 3), stride=2)
    conv("C3d 1ch", f(1, 1, 32, 32, 32), 16, (3, 3, 3))
    conv("C3d 133", f(1, 32, 8, 28, 28), 32, (1, 3, 3), pad=0)
    conv("C3d 311", f(1, 32, 8, 28, 28), 32, (3, 1, 1), pad=0)
    conv("C3d 3 64", f(1, 64, 8, 14, 14), 64, (3, 3, 3))
    conv("C3d 7 s2", f(1, 3, 16, 56, 56), 16, (3, 7, 7), stride=2)


@family
def transposed_convolutions():
    conv("CT 3 s2 op", f(1, 64, 32, 32), 32, (3, 3), op="ConvTranspose", stride=2, pad=1, output_padding=[1, 1])
    conv("CT 4 s2 512", f(1, 256, 8, 8), 128, (4, 4), op="ConvTranspose", stride=2, pad=1)
    conv("CT 4 from 1x1", f(1, 100, 1, 1), 256, (4, 4), op="ConvTranspose", stride=1, pad=0)
    conv("CT 2 odd", f(1, 48, 33, 33), 24, (2, 2), op="ConvTranspose", stride=2, pad=0)
    conv("CT 8 s4", f(1, 32, 28, 28), 16, (8, 8), op="ConvTranspose", stride=4, pad=2)
    conv("CT 16 s8 1", f(1, 21, 28, 28), 21, (16, 16), op="ConvTranspose", stride=8, pad=4)
    conv("CT dw 4 s2", f(1, 64, 28, 28), 64, (4, 4), op="ConvTranspose", stride=2, pad=1, group=64)
    conv("CT grp", f(1, 64, 28, 28), 64, (3, 3), op="ConvTranspose", stride=1, group=4)
    conv("CT 1-D 16 s8", f(1, 128, 100), 64, (16,), op="ConvTranspose", stride=8, pad=4)
    conv("CT 1-D 4 s2", f(1, 64, 1000), 32, (4,), op="ConvTranspose", stride=2, pad=1)
    conv("CT 3-D 2", f(1, 32, 8, 14, 14), 16, (2, 2, 2), op="ConvTranspose", stride=2, pad=0)
    conv("CT to 3", f(1, 64, 64, 64), 3, (4, 4), op="ConvTranspose", stride=2, pad=1)


@family
def products():
    one("MM 77", "MatMul", [f(77, 77)], [f(77, 77)])
    one("MM 100x333x50", "MatMul", [f(100, 333)], [f(333, 50)])
    one("MM 16x1000x1000", "MatMul", [f(16, 1000)], [f(1000, 1000)])
    one("MM 2x4096", "MatMul", [f(2, 2048)], [f(2048, 2048)])
    one("MM 8 rows", "MatMul", [f(8, 1000)], [f(1000, 500)])
    one("MM 3 to 64 points", "MatMul", [f(1, 4096, 3)], [f(3, 64)])
    one("MM to 1", "MatMul", [f(4096, 64)], [f(64, 1)])
    one("MM to 10", "MatMul", [f(1000, 128)], [f(128, 10)])
    one("MM K 4", "MatMul", [f(1000, 4)], [f(4, 1000)])
    one("MM K 1", "MatMul", [f(1000, 1)], [f(1, 1000)])
    one("MM K long", "MatMul", [f(16, 20000)], [f(20000, 16)])
    one("MM dot", "MatMul", [f(50000), f(50000)])
    one("MM vec mat", "MatMul", [f(700), f(700, 500)])
    one("MM mat vec", "MatMul", [f(700, 500), f(500)])
    one("MM weight left", "MatMul", [f(256, 300)], [f(128, 256)], order=["w0", "a"])
    one("MM bcast weight batch", "MatMul", [f(64, 16, 32)], [f(32, 48)])
    one("MM bcast left", "MatMul", [f(1, 50, 64), f(20, 64, 50)])
    one("MM batched 3x3", "MatMul", [f(1000, 3, 3), f(1000, 3, 3)])
    one("MM batched 4x4 vec", "MatMul", [f(1000, 4, 4), f(1000, 4, 1)])
    one("MM batched 49x32", "MatMul", [f(64, 49, 32), f(64, 32, 49)])
    one("MM batched 1 row", "MatMul", [f(32, 1, 128), f(32, 128, 128)])
    one("MM batched col", "MatMul", [f(64, 100, 64), f(64, 64, 1)])
    one("MM f64 odd", "MatMul", [d(100, 77)], [d(77, 130)])
    one("MM f64 row", "MatMul", [d(1, 512)], [d(512, 512)])
    one("MM i32", "MatMul", [i32(64, 64), i32(64, 64)])
    one("MM i64", "MatMul", [i(64, 64), i(64, 64)])
    one("MM f16 row", "MatMul", [h(1, 1024)], [h(1024, 1024)], tolerance=1e-2)
    one("MM 600x600x600", "MatMul", [f(600, 600)], [f(600, 600)])
    one("Gemm transA", "Gemm", [f(256, 100)], [f(256, 130), f(130)], transA=1)
    one("Gemm alpha beta C mat", "Gemm", [f(100, 200), f(200, 150), f(100, 150)], alpha=0.5, beta=2.0)
    one("Gemm small mlp", "Gemm", [f(1, 13)], [f(64, 13), f(64)], transB=1)
    one("Gemm 32x784x10", "Gemm", [f(32, 784)], [f(10, 784), f(10)], transB=1)
    one("Einsum bnhd,bmhd", "Einsum", [f(1, 64, 8, 32), f(1, 64, 8, 32)], equation="bnhd,bmhd->bhnm")
    one("Einsum bhnm,bmhd", "Einsum", [f(1, 8, 64, 64), f(1, 64, 8, 32)], equation="bhnm,bmhd->bnhd")
    one("Einsum bij,bi", "Einsum", [f(16, 50, 60), f(16, 50)], equation="bij,bi->bj")
    one("Einsum trace", "Einsum", [f(100, 30, 30)], equation="bii->b")
    one("Einsum nchw,chw", "Einsum", [f(4, 32, 20, 20), f(32, 20, 20)], equation="nchw,chw->nhw")
    one("Einsum bhqc,hck", "Einsum", [f(2, 8, 50, 32)], [f(8, 32, 40)], equation="bhqc,hck->bhqk")
    one("Einsum bsd,dhk", "Einsum", [f(2, 50, 256)], [f(256, 8, 32)], equation="bsd,dhk->bshk")


@family
def quantized():
    one("QL per channel", "QuantizeLinear", [f(1, 64, 56, 56)], [f(64, low=0.01, high=0.02), np.zeros(64,
        np.int8)], axis=1)
    one("QL i8", "QuantizeLinear", [f(128, 768)], [scalar(0.02), scalar(0, np.int8)])
    one("QL u16", "QuantizeLinear", [f(128, 768)], [scalar(0.001), scalar(32000, np.uint16)])
    one("DQL i32", "DequantizeLinear", [i32(128, 768)], [scalar(0.02)])
    one("DQL last", "DequantizeLinear", [u8(128, 768)], [f(768, low=0.01, high=0.02), np.full(768, 128, np.uint8)],
        axis=1)
    one("MMI odd", "MatMulInteger", [u8(77, 333)], [i8(333, 130)])
    one("MMI zero points", "MatMulInteger", [u8(64, 256)], [u8(256, 256), scalar(120, np.uint8), scalar(130,
        np.uint8)])
    one("MMI batched", "MatMulInteger", [u8(12, 64, 64), i8(12, 64, 64)])
    one("QLMM per col", "QLinearMatMul", [u8(64, 300)], [scalar(0.02), scalar(128, np.uint8), i8(300, 200), f(200,
        low=0.01, high=0.02), np.zeros(200, np.int8), scalar(0.1), scalar(128, np.uint8)], tolerance=1)
    one("QLConv dw", "QLinearConv", [u8(1, 96, 28, 28)], [scalar(0.02), scalar(128, np.uint8), i8(96, 1, 3, 3),
        f(96, low=0.01, high=0.02), np.zeros(96, np.int8), scalar(0.2), scalar(128, np.uint8)], pads=[1, 1, 1, 1],
        group=96, tolerance=1)
    one("QLConv 1x1", "QLinearConv", [u8(1, 96, 28, 28)], [scalar(0.02), scalar(128, np.uint8), i8(128, 96, 1, 1),
        scalar(0.01), scalar(0, np.int8), scalar(0.2), scalar(128, np.uint8)], tolerance=1)
    one("QLConv 7x7 s2", "QLinearConv", [u8(1, 3, 224, 224)], [scalar(0.02), scalar(128, np.uint8), i8(64, 3, 7,
        7), scalar(0.01), scalar(0, np.int8), scalar(0.2), scalar(128, np.uint8)], pads=[3, 3, 3, 3], strides=[2,
        2], tolerance=1)
    one("QLinearAdd", "QLinearAdd", [u8(1, 64, 56, 56)], [scalar(0.02), scalar(128, np.uint8), u8(1, 64, 56, 56),
        scalar(0.03), scalar(128, np.uint8), scalar(0.04), scalar(128, np.uint8)], domain="com.microsoft",
        tolerance=1)
    one("QLinearSigmoid", "QLinearSigmoid", [u8(1, 64, 56, 56)], [scalar(0.02), scalar(128, np.uint8),
        scalar(0.004), scalar(0, np.uint8)], domain="com.microsoft", tolerance=1)
    one("QLinearLeakyRelu", "QLinearLeakyRelu", [u8(1, 64, 56, 56)], [scalar(0.02), scalar(128, np.uint8),
        scalar(0.02), scalar(128, np.uint8)], domain="com.microsoft", tolerance=1, alpha=0.1)
    one("QLinearGlobalAveragePool", "QLinearGlobalAveragePool", [u8(1, 512, 7, 7)], [scalar(0.02), scalar(128,
        np.uint8), scalar(0.02), scalar(128, np.uint8)], domain="com.microsoft", tolerance=1)
    for rows, n, k, bits, size, level in (1, 500, 800, 4, 32, 0), (7, 1000, 512, 4, 64, 0), (128, 512, 512, 4, 128,
        0), (1, 3000, 1024, 4, 16, 4), (128, 512, 1024, 8, 32, 4):
        weights = [u8(n, k // size if k % size == 0 else k // size + 1, size * bits // 8),
        f(n * ((k + size - 1) // size), low=0.01, high=0.02)]
        one(f"MMNBits {rows}x{n}x{k} {bits} b{size} l{level}", "MatMulNBits", [f(rows, k)], weights, K=k, N=n,
        bits=bits, block_size=size, accuracy_level=level, domain="com.microsoft", tolerance=1e-2)


@family
def recurrent_layers():
    recurrent("LSTM odd 77", "LSTM", 4, 30, 3, 50, 77, results=3)
    recurrent("LSTM 1 step", "LSTM", 4, 1, 1, 512, 512, results=3)
    recurrent("LSTM small 32", "LSTM", 4, 100, 1, 8, 32, results=3)
    recurrent("LSTM b64", "LSTM", 4, 10, 64, 64, 256, results=3)
    recurrent("GRU small 16", "GRU", 3, 100, 1, 10, 16)
    recurrent("GRU b32", "GRU", 3, 20, 32, 100, 200)
    recurrent("GRU bi odd", "GRU", 3, 40, 2, 80, 100, directions=2, linear_before_reset=1)
    recurrent("RNN b16", "RNN", 1, 40, 16, 64, 64)


@family
def attention():
    heads = lambda s, dd=64, n=12: f(1, n, s, dd)
    one("Att 33 heads of 40", "Attention", [heads(77, 40, 8)] * 3, opset=23)
    one("Att cross 77", "Attention", [heads(256, 40, 8), heads(77, 40, 8), heads(77, 40, 8)], opset=23)
    one("Att 49 windows", "Attention", [f(64, 3, 49, 32)] * 3, opset=23)
    one("Att long 1024", "Attention", [heads(1024, 64, 4)] * 3, opset=23)
    one("Att 128 dim", "Attention", [heads(128, 128, 8)] * 3, opset=23)
    one("Att decode grouped", "Attention", [f(1, 16, 1, 128), f(1, 4, 1000, 128), f(1, 4, 1000, 128)], opset=23)
    one("Att small 10", "Attention", [f(8, 4, 10, 16)] * 3, opset=23)
    one("Att 3-D", "Attention", [f(1, 128, 512)] * 3, q_num_heads=8, kv_num_heads=8, opset=23)
    one("MHA com", "MultiHeadAttention", [f(1, 100, 512)] * 3, num_heads=8, domain="com.microsoft")
    one("Rotary 3-D", "RotaryEmbedding", [f(1, 100, 512)], [f(128, 32), f(128, 32), np.arange(100).reshape(1,
        100)], order=["a", "w0", "w1", "w2"], opset=23, num_heads=8)


@family
def sorting():
    one("TopK small rows", "TopK", [f(5000, 10)], [ints(3)], results=2)
    one("TopK 1", "TopK", [f(128, 1000)], [ints(1)], results=2)
    one("TopK smallest 20", "TopK", [f(64, 300)], [ints(20)], results=2, largest=0)
    one("TopK middle axis", "TopK", [f(8, 100, 64)], [ints(10)], results=2, axis=1)
    one("TopK 300 of 8400", "TopK", [f(1, 8400)], [ints(300)], results=2)
    one("TopK sort 5000", "TopK", [f(1, 5000)], [ints(5000)], results=2)
    one("TopK i64", "TopK", [i(64, 500, high=100000)], [ints(10)], results=2)
    one("TopK knn", "TopK", [f(1024, 1024)], [ints(20)], results=2, largest=0)
    one("Unique axis 0", "Unique", [i(1000, 3, high=5)], results=4, axis=0)
    one("NonZero i64", "NonZero", [i(300, 300, high=3)])
    one("NonZero sparse", "NonZero", [Drawn((100, 1000), "int64", 0, 100)])
    one("NMS one class", "NonMaxSuppression", [boxes(3000), f(1, 1, 3000, low=0, high=1)], [scalar(200, np.int64),
        scalar(0.5), scalar(0.2)])


@family
def signals():
    one("DFT 256 cplx", "DFT", [f(64, 256, 2)], [], order=["a"], axis=1, opset=19)
    one("DFT inverse", "DFT", [f(64, 256, 2)], [], order=["a"], axis=1, inverse=1, opset=19)
    one("DFT 1000", "DFT", [f(16, 1000, 1)], [], order=["a"], axis=1, onesided=1, opset=19)
    one("DFT axis 2", "DFT", [f(4, 64, 128, 2)], [], order=["a"], axis=1, opset=19)
    one("Det 8", "Det", [f(100, 8, 8)], tolerance=1e-3)
