# SPDX-License-Identifier: Apache-2.0
"""Cases for contrib_cases.py of operators with windows, all dims of all operands symbolic: one model, several sizes,
windows among them. The judge is onnxruntime."""
import math

import numpy as np

STANDARD = {"domain": "", "version": 19}


def window(m, name, op, shapes, attributes=None, **more):
    """Operands by shape (f32) or by value; the first size is the case's, the others follow."""
    sizes = [[m.f(*s) if isinstance(s, tuple) else np.asarray(s) for s in size] for size in shapes]
    return f"window_{name}", op, sizes[0], attributes or {}, STANDARD | {"sizes": sizes[1:]} | more


def convolutions(m):
    for mode in "SAME_UPPER", "SAME_LOWER", "VALID":
        yield window(m, f"conv_{mode.lower()}", "Conv", [
            [(1, 2, 9, 8), (3, 2, 3, 2)], [(2, 1, 5, 5), (4, 1, 5, 1)], [(1, 3, 7, 20), (1, 3, 1, 4)]],
            {"auto_pad": mode, "strides": [2, 3]})
    yield window(m, "conv", "Conv", [
        [(1, 4, 12), (6, 2, 3), (6,)], [(3, 2, 40), (2, 1, 11), (2,)], [(1, 6, 5), (4, 3, 1), (4,)]],
        {"group": 2, "dilations": [2], "pads": [3, 1]})
    yield window(m, "conv_declared", "Conv", [
        [(1, 2, 6, 6), (3, 2, 3, 2)], [(2, 5, 9, 4), (1, 5, 3, 2)]], {"kernel_shape": [3, 2], "pads": [1, 1, 1, 1]})
    yield window(m, "conv_3d", "Conv", [
        [(1, 2, 4, 5, 6), (3, 2, 1, 2, 3)], [(2, 1, 6, 4, 5), (2, 1, 3, 3, 2)]], {"strides": [1, 2, 1]})


def integers(m):
    def bytes_of(*shape):
        return m.i(0, 255, *shape, t=np.uint8)

    sizes = [(1, 2, 7, 6), (3, 2, 3, 2)], [(2, 3, 5, 9), (2, 3, 2, 4)]
    zero = np.uint8(7)
    yield window(m, "conv_integer", "ConvInteger",
                 [[bytes_of(*x), bytes_of(*w), zero] for x, w in sizes], {"pads": [1, 0, 1, 1]}, version=10)
    scale = np.float32(0.02)
    yield window(m, "qlinear_conv", "QLinearConv", [
        [bytes_of(*x), scale, zero, bytes_of(*w), scale, zero, np.float32(0.5), zero] for x, w in sizes],
        {"pads": [1, 0, 1, 1]}, version=10)


def transposed(m):
    yield window(m, "transpose", "ConvTranspose", [
        [(1, 4, 5, 3), (4, 3, 3, 2), (6,)], [(2, 2, 4, 4), (2, 1, 5, 5), (2,)], [(1, 6, 1, 7), (6, 2, 4, 1), (4,)]],
        {"group": 2, "strides": [2, 3], "dilations": [2, 1], "pads": [1, 0, 0, 0], "output_padding": [1, 0]})
    yield window(m, "transpose_declared", "ConvTranspose", [
        [(1, 3, 5, 4), (3, 2, 3, 4), (2,)], [(2, 2, 4, 7), (2, 5, 3, 4), (5,)], [(1, 1, 1, 1), (1, 2, 3, 4), (2,)]],
        {"kernel_shape": [3, 4], "strides": [2, 2], "pads": [1, 1, 1, 1], "output_padding": [1, 0]})
    yield window(m, "transpose_declared_1d", "ConvTranspose", [
        [(1, 4, 6), (4, 3, 5)], [(2, 2, 9), (2, 1, 5)]],
        {"kernel_shape": [5], "strides": [3], "dilations": [2], "group": 2, "pads": [2, 1]})
    yield window(m, "transpose_shape", "ConvTranspose", [
        [(1, 2, 5), (2, 3, 4)], [(2, 1, 6), (1, 2, 3)]], {"strides": [2], "output_shape": [11]})
    for mode in "SAME_UPPER", "SAME_LOWER":
        yield window(m, f"transpose_{mode.lower()}", "ConvTranspose", [
            [(1, 2, 5, 4), (2, 3, 3, 4)], [(2, 1, 3, 6), (1, 2, 5, 2)]], {"strides": [2, 1], "auto_pad": mode})


def deformed(m):
    def operands(n, c, h, w, out, r, s):
        place = (n, 2 * r * s, h + 3 - r, w + 2 - s)
        return [(n, c, h, w), (out, c // 2, r, s), m.f(n, 4 * r * s, *place[2:], scale=0.7), (out,),
                m.f(n, 2 * r * s, *place[2:])]

    yield window(m, "deform", "DeformConv", [operands(1, 4, 6, 5, 2, 3, 2), operands(2, 2, 4, 7, 4, 1, 3)],
                 {"group": 2, "offset_group": 2, "pads": [1, 0, 1, 1]})


def pools(m):
    for op in "MaxPool", "AveragePool":
        for name, attributes in ("same", {"auto_pad": "SAME_UPPER"}), ("ceil", {"ceil_mode": 1, "pads": [1, 0, 1, 1]}):
            yield window(m, f"{op.lower()}_{name}", op, [[(1, 3, 9, 8)], [(2, 1, 20, 17)], [(1, 5, 6, 7)]],
                         {"kernel_shape": [3, 2], "strides": [3, 2]} | attributes)


def scattered(m):
    def columns(n, c, image, block, stride=2, dilation=1):
        count = [(i + 1 - dilation * (b - 1) - 1) // stride + 1 for i, b in zip(image, block)]
        return [(n, c * math.prod(block), math.prod(count)), np.array(image), np.array(block)]

    yield window(m, "col2im", "Col2Im", [
        columns(1, 2, (6, 5), (2, 3)), columns(2, 1, (4, 9), (3, 1)), columns(1, 3, (5, 5), (5, 2))],
        {"strides": [2, 2], "pads": [1, 0, 0, 1]})
    yield window(m, "unpool", "MaxUnpool", [
        [(1, 1, 2, 2), np.array([[[[5, 7], [13, 15]]]]), np.array([1, 1, 4, 4])],
        [(1, 2, 1, 3), np.array([[[[0, 2, 5]], [[7, 8, 10]]]]), np.array([1, 2, 2, 6])]],
        {"kernel_shape": [2, 2], "strides": [2, 2]})


def rounded(m):
    """Scales whose reciprocals and products are whole numbers once they are rounded to f32."""
    nearest = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    scales, none = np.array([1, 1, 1 / 3, 0.7], np.float32), np.array([], np.float32)
    x = m.f(1, 2, 9, 10)
    yield "resize_thirds", "Resize", [x, None, scales], nearest, STANDARD | {"constant": [2]}
    yield window(m, "resize_thirds", "Resize", [[x, none, scales], [(2, 1, 15, 20), none, scales]], nearest)


def transforms(m):
    """Fourier transforms of a length along an axis that both come with the signal."""
    for name, attributes, parts in ("", {}, 2), ("_real", {"onesided": 1}, 1), ("_back", {"inverse": 1}, 2):
        yield window(m, f"dft{name}", "DFT", [
            [m.f(2, 6, 5, parts, t=np.float64), np.array(n), np.array(axis)] for n, axis in ((5, 2), (9, -3), (4, 0), (1, 1))], attributes, version=20)


def padded(m):
    """Margins of the tensor's own values, narrower than what they repeat, as wide, and wider."""
    pads, wide, narrow = np.array([0, 0, 2, 3, 0, 0, 1, 3]), (2, 3, 9, 8), (1, 2, 3, 4)
    x = m.f(2, 1, 2, 3)
    want = np.pad(x, [(0, 0), (0, 0), (2, 1), (3, 3)], "reflect")  # onnxruntime refuses it
    yield "pad_reflect_again", "Pad", [x, pads], {"mode": "reflect"}, STANDARD | {"constant": [1], "want": [want]}
    for mode, least in ("reflect", (1, 1, 4, 5)), ("edge", (2, 1, 1, 1)), ("wrap", (2, 1, 1, 2)):
        yield window(m, f"pad_{mode}", "Pad", [[size, pads] for size in (wide, narrow, least)], {"mode": mode},
                     constant=[1])


cases = [convolutions, integers, transposed, deformed, pools, scattered, rounded, transforms, padded]
