# SPDX-License-Identifier: Apache-2.0
"""Cases of operators that move strings and complex numbers, add them where they meet or interpolate them, and of floats of 6
bits, for contrib_cases.py, numpy (with ml_dtypes, onnx) being the judge."""
import math

import ml_dtypes
import numpy as np
import onnx
import onnx.reference


def text(m, *shape):
    return np.array([f"w{v}" for v in m.i(0, 5, int(np.prod(shape)))]).reshape(shape)


def complex_numbers(m, *shape):
    return (m.i(-2, 3, *shape) + 1j * m.i(-2, 3, *shape)).astype(np.complex64)


def wide_complex_numbers(m, *shape):
    return complex_numbers(m, *shape).astype(np.complex128)


def texts(m):
    """Numbers of 16 bits, to text and back."""
    words = np.array(["1.5", "-0.1", "65504", "1e-7", "inf", "-3"], object)
    for kind, number in (np.float16, 10), (ml_dtypes.bfloat16, 16):
        standard = {"domain": "", "version": 21}
        numbers = words.astype(np.float64).astype(kind)
        yield f"cast_text_{number}", "Cast", [words], {"to": number}, standard | {"want": [numbers]}
        back = np.array([np.format_float_positional(np.float32(v), trim="0") for v in (1.5, -3, 0.25, 100, 0)], object)
        yield f"cast_to_text_{number}", "Cast", [np.array([1.5, -3, 0.25, 100, 0]).astype(kind)], {"to": 8}, standard | {"want": [back]}


def moved(m):
    standard = {"domain": "", "version": 24}
    for name, make in ("text", text), ("c64", complex_numbers), ("c128", wide_complex_numbers):
        x, x4, zero = make(m, 3, 4), make(m, 1, 1, 2, 3), make(m, 1)[:0].dtype.type()
        two, many = make(m, 2, 4), make(m, 2)

        def case(op, operands, want, constant=(), attributes=None, results=(1,), version=24):
            return f"{op.lower()}_{name}", op, operands, attributes or {}, standard | {
                "want": [np.asarray(w) for w in want], "constant": constant, "results": results, "version": version}

        pads = np.array([1, 0, 0, 2])
        yield case("Pad", [x, pads, many[0]], [np.pad(x, ((1, 0), (0, 2)), constant_values=many[0])], [1])
        yield case("NonZero", [x], [np.array(np.nonzero(x))])
        yield case("Unique", [x], np.unique(x.ravel(), True, True, True), results=[1] * 4)
        rows = np.array([[0, 1, 2, 1], [1, 2, 0, 0]])
        scattered = x.copy()
        np.put_along_axis(scattered, rows, two, 0)
        yield case("ScatterElements", [x, rows, two], [scattered], attributes={"axis": 0})
        placed = x.copy()
        placed[[0, 2]] = two
        yield case("ScatterND", [x, np.array([[0], [2]]), two], [placed])
        yield case("GatherElements", [x, rows], [np.take_along_axis(x, rows, 0)], attributes={"axis": 0})
        yield case("Trilu", [x], [np.where(np.tri(3, 4) > 0, x, zero)], attributes={"upper": 0})
        double, scales = x4.repeat(2, 2).repeat(2, 3), np.array([1, 1, 2, 2], np.float32)
        yield case("Resize", [x4, None, scales], [double], [2], {
            "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"})
        yield case("Upsample", [x4, scales], [double], [1], version=9)
        yield case("Where", [x == x[0, 0], x, x[::-1].copy()], [np.where(x == x[0, 0], x, x[::-1])])
        yield case("OneHot", [np.array([1, 0, 2]), np.int64(3), many], [np.where(
            np.arange(3) == np.array([[1], [0], [2]]), many[1], many[0])], [1])
        yield case("Transpose", [x], [x.T])
        yield case("Concat", [x, two], [np.concatenate([x, two])], attributes={"axis": 0})


def combined(m):
    """Updates that meet others in one place: sums, and where there are some products; the greatest and the least."""
    rows, slices = np.array([[0, 1, 2, 1], [0, 2, 0, 1]]), np.array([[2], [0], [2]])
    for name, make in ("text", text), ("c64", complex_numbers), ("c128", wide_complex_numbers):
        for how, function in ("add", np.add), ("mul", np.multiply), ("max", np.maximum), ("min", np.minimum):
            if how == "mul" and make == text:
                continue
            x, two, three = make(m, 3, 4), make(m, 2, 4), make(m, 3, 4)
            for op, indices, updates in ("ScatterElements", rows, two), ("ScatterND", slices, three):
                want = x.astype(object if make == text else x.dtype)
                function.at(want, (rows, np.arange(4)) if op == "ScatterElements" else slices[:, 0], updates.astype(want.dtype))
                yield f"{op.lower()}_{how}_{name}", op, [x, indices, updates], {"reduction": how}, {
                    "domain": "", "version": 18, "want": [want.astype(str) if make == text else want]}


def folded(m):
    """Blocks that overlap in an image, in the order of its elements: sums of truth values are "or", of texts one behind the other."""
    def truths(m, *shape):
        return m.i(0, 3, *shape) == 0

    pads, strides, block, image = (1, 0, 0, 1), (1, 2), (3, 2), (4, 5)
    counts = [(image[i] + pads[i] + pads[2 + i] - block[i]) // strides[i] + 1 for i in (0, 1)]
    for name, make in ("text", text), ("c64", complex_numbers), ("c128", wide_complex_numbers), ("bool", truths):
        x = make(m, 2, 2 * math.prod(block), math.prod(counts))
        want = np.full((2, 2, *image), "" if make == text else 0, object if make == text else x.dtype)
        for n, c, e, l in np.ndindex(2, 2, math.prod(block), math.prod(counts)):
            at = [l_i * strides[i] - pads[i] + e_i for i, (e_i, l_i) in enumerate(zip(divmod(e, block[1]), divmod(l, counts[1])))]
            if 0 <= at[0] < image[0] and 0 <= at[1] < image[1]:
                want[n, c, at[0], at[1]] += x[n, c * math.prod(block) + e, l]
        for how, constant in ("", (1, 2)), ("_sized", ()):
            yield f"col2im{how}_{name}", "Col2Im", [x, np.array(image), np.array(block)], {"pads": pads, "strides": strides}, {
                "domain": "", "version": 18, "constant": constant, "want": [want.astype(str) if make == text else want]}


def by_parts(op, operands, attributes, version):
    """What onnx.reference makes of the real and of the imaginary part, in newer words: all weights are real."""
    words = {"bilinear": "linear", "bicubic": "cubic"}
    attributes = attributes | {"mode": words.get(attributes["mode"], attributes["mode"])}
    if op == "Upsample":
        op, operands, attributes = "Resize", [operands[0], None, operands[1]], attributes | {"coordinate_transformation_mode": "asymmetric"}
    names = ["" if a is None else f"x{i}" for i, a in enumerate(operands)]
    graph = onnx.helper.make_graph([onnx.helper.make_node(op, names, ["y"], **attributes)], op, [
        onnx.helper.make_tensor_value_info(n, onnx.helper.np_dtype_to_tensor_dtype(a.dtype), None)
        for n, a in zip(names, (operands[0].real, *operands[1:])) if n], [onnx.helper.make_empty_tensor_value_info("y")])
    given = {n: a for n, a in zip(names, operands) if n}
    opset = [onnx.helper.make_opsetid("", max(version, 19))]

    def judged(part):
        judge = onnx.reference.ReferenceEvaluator(onnx.helper.make_model(graph, opset_imports=opset))
        return judge.run(None, given | {"x0": part.copy()})[0]

    real = judged(operands[0].real)
    for a in graph.node[0].attribute:  # a real number has no imaginary part
        if a.name == "extrapolation_value":
            a.f = 0
    return (real + 1j * judged(operands[0].imag)).astype(operands[0].dtype)


def interpolated(m):
    """Complex numbers between elements."""
    def case(name, op, operands, attributes, version, constant=()):
        return f"{op.lower()}_{name}", op, operands, attributes, {
            "domain": "", "version": version, "constant": constant, "want": [by_parts(op, operands, attributes, version)]}

    scales, region = np.array([1, 1, 1.5, 0.75], np.float32), np.array([0, 0, 0.2, -0.1, 1, 1, 0.9, 1.2], np.float32)
    for name, make in ("c64", complex_numbers), ("c128", wide_complex_numbers):
        x, grid, solid = make(m, 2, 3, 4, 5), m.f(2, 3, 6, 2, scale=0.7), make(m, 1, 2, 3, 4, 3)
        for version, modes in (16, ("bilinear", "bicubic")), (20, ("linear", "cubic")), (22, ("linear", "cubic")):
            for mode, padding in zip(modes, ("border", "zeros") if version < 22 else ("zeros", "reflection")):
                yield case(f"{mode}_{version}_{name}", "GridSample", [x, grid], {
                    "mode": mode, "padding_mode": padding, "align_corners": version == 20}, version)
        yield case(f"solid_{name}", "GridSample", [solid, m.f(1, 2, 3, 2, 3, scale=0.7)], {"mode": "linear"}, 20)
        for mode in "linear", "cubic":
            yield case(f"{mode}_{name}", "Resize", [x, None, scales], {"mode": mode}, 19, [2])
        yield case(f"late_{name}", "Resize", [x, None, None, np.array([2, 3, 7, 3])], {"mode": "linear", "antialias": 1}, 18)
        yield case(f"cropped_{name}", "Resize", [x, region, scales], {
            "mode": "linear", "coordinate_transformation_mode": "tf_crop_and_resize", "extrapolation_value": 2.5}, 19, [1, 2])
        yield case(f"linear_{name}", "Upsample", [x, np.array([1, 1, 2, 2], np.float32)], {"mode": "linear"}, 9, [1])


def six_bits(m):
    """Values, ties, what is beyond the largest; constants are packed in the model, four in three bytes."""
    standard = {"domain": "", "version": 28}
    values = np.float32([0, -0.0, 1, 0.0625, 0.03125, 0.09375, 0.3125, 7.4, 7.5, 7.75, -7.8, 28, 29, -100, np.inf, 1e-9, -0.2])
    scale = np.float32(0.5)
    for kind, number in (ml_dtypes.float6_e2m3fn, 27), (ml_dtypes.float6_e3m2fn, 28):
        name, codes = kind.__name__[7:], np.arange(63, dtype=np.uint8).view(kind)
        widened, few = codes.astype(np.float32), values[:14]
        yield f"cast_to_{name}", "Cast", [values], {"to": number}, standard | {"want": [values.astype(kind)]}
        for constant in (), (0,):
            more = standard | {"constant": constant}
            kept = "kept_" if constant else ""
            yield f"cast_{kept}{name}", "Cast", [codes], {"to": 1}, more | {"want": [widened]}
            yield f"dequantize_{kept}{name}", "DequantizeLinear", [codes, scale], {}, more | {"want": [widened * scale]}
        yield f"quantize_{name}", "QuantizeLinear", [few, scale], {"output_dtype": number}, standard | {
            "want": [(few / scale).astype(kind)]}


cases = [moved, six_bits, texts, combined, folded, interpolated]
