#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The least time that a model can take on this machine, from the ONNX graph alone.

    tests/bench/bound.py MODEL...      # FLOP, bytes and bounds of models of the comparison

Two totals, one maximum: all contractions' direct FLOP (taps that lie in the padding left out) by the
FMA peak measured here and now; the weights that are touched, inputs and outputs of the graph by the
memory bandwidth measured here and now. Weights of a table that is looked up count by the rows taken.
Nothing of Weir is asked. (Winograd computes with fewer FLOP and may go below.)
"""
import math
import pathlib
import subprocess
import sys
import tempfile

PEAK = pathlib.Path(__file__).parent / "peak.c"


def machine_peak(threads):
    """(f32 FLOP a second, bytes a second) of so many threads."""
    with tempfile.TemporaryDirectory() as folder:
        program = pathlib.Path(folder) / "peak"
        subprocess.run(["cc", "-O3", "-march=native", "-pthread", PEAK, "-o", program], check=True)
        said = subprocess.run([program, str(threads)], check=True, capture_output=True, text=True).stdout
    return tuple(float(word) for word in said.split())


# ---- shapes -----------------------------------------------------------------------------------


def shapes_of(path, model, feeds):
    """Shapes of initializers, inputs, and what contractions and look-ups read and give: as ONNX Runtime,
    asked for these values, gives them."""
    import onnx
    import onnxruntime
    shape = {t.name: list(t.dims) for t in model.graph.initializer}
    shape.update({name: list(array.shape) for name, array in feeds.items()})
    wanted = [name for node in model.graph.node if node.op_type in {*FLOP, "ConvTranspose", "Gather"}
              for name in [*node.input[:2], node.output[0]]]
    wanted = sorted({name for name in wanted if name and name not in shape} | {o.name for o in model.graph.output})
    asked = onnx.ModelProto()
    asked.CopyFrom(model)
    del asked.graph.output[:]
    asked.graph.output.extend(onnx.helper.make_empty_tensor_value_info(name) for name in wanted)
    beside = path.with_name(f"{path.stem}.bound.onnx")  # where external data is found
    try:
        beside.write_bytes(asked.SerializeToString())
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        session = onnxruntime.InferenceSession(str(beside), options, providers=["CPUExecutionProvider"])
        for name, array in zip(wanted, session.run(wanted, feeds)):
            shape[name] = list(getattr(array, "shape", []))
    finally:
        beside.unlink(missing_ok=True)
    return shape


# ---- FLOP of contractions ---------------------------------------------------------------------


def attribute(node, name, otherwise):
    import onnx
    for a in node.attribute:
        if a.name == name:
            return onnx.helper.get_attribute_value(a)
    return otherwise


def taps(size, out, kernel, stride, dilation, before):
    """How often an output meets an input that is not padding, along one dim."""
    return sum(1 for o in range(out) for r in range(kernel) if 0 <= o * stride + r * dilation - before < size)


def conv_flop(node, shape):
    x, w, y = shape[node.input[0]], shape[node.input[1]], shape[node.output[0]]
    n = len(x) - 2
    strides, dilations = attribute(node, "strides", [1] * n), attribute(node, "dilations", [1] * n)
    pads = attribute(node, "pads", [0] * 2 * n)
    if attribute(node, "auto_pad", b"NOTSET") in (b"SAME_UPPER", b"SAME_LOWER"):
        pads = [max(0, (y[2 + i] - 1) * strides[i] + (w[2 + i] - 1) * dilations[i] + 1 - x[2 + i]) // 2
                for i in range(n)]
    met = math.prod(taps(x[2 + i], y[2 + i], w[2 + i], strides[i], dilations[i], pads[i]) for i in range(n))
    return 2 * y[0] * y[1] * w[1] * met


def product_flop(node, shape):
    a, y = shape[node.input[0]], shape[node.output[0]]
    k = a[-2] if node.op_type == "Gemm" and attribute(node, "transA", 0) else a[-1]
    return 2 * math.prod(y) * k


def recurrent_flop(node, shape):
    x, w = shape[node.input[0]], shape[node.input[1]]
    steps, batch = x[0], x[1]
    return 2 * w[0] * w[1] * (w[2] + attribute(node, "hidden_size", 0)) * steps * batch


def attention_flop(node, shape):
    q, k = shape[node.input[0]], shape[node.input[1]]
    if len(q) == 4:
        return 4 * q[0] * q[1] * q[2] * q[3] * k[2]
    return 4 * q[0] * q[1] * q[2] * k[1]


FLOP = {"Conv": conv_flop, "MatMul": product_flop, "Gemm": product_flop, "LSTM": recurrent_flop,
        "GRU": recurrent_flop, "RNN": recurrent_flop, "Attention": attention_flop}
COUNTED_ELSEWHERE = {"ConvTranspose", "Einsum", "MatMulInteger", "ConvInteger", "QLinearConv", "QLinearMatMul"}


def transposed_flop(node, shape):
    x, w = shape[node.input[0]], shape[node.input[1]]
    return 2 * math.prod(x) * math.prod(w[1:])


def graph_flop(graph, shape):
    """FLOP of the graph's contractions, and the names of nodes that could not be counted."""
    total, unknown = 0, []
    for node in graph.node:
        count = transposed_flop if node.op_type == "ConvTranspose" else FLOP.get(node.op_type)
        try:
            if count:
                total += count(node, shape)
            elif node.op_type in COUNTED_ELSEWHERE:
                unknown.append(f"{node.op_type} {node.name}")
        except KeyError as missing:
            unknown.append(f"{node.op_type} {node.name}: no shape of {missing}")
    return total, unknown


# ---- bytes ------------------------------------------------------------------------------------


def element_bytes(kind):
    import onnx
    return onnx.helper.tensor_dtype_to_np_dtype(kind).itemsize


def weight_bytes(graph, shape):
    """Of a table that is only looked up, the rows that the indices can name."""
    uses = {}
    for node in graph.node:
        for k, name in enumerate(node.input):
            uses.setdefault(name, []).append((node, k))
    total = 0
    for t in graph.initializer:
        size = math.prod(t.dims) * element_bytes(t.data_type)
        if t.name in uses and t.dims and all(n.op_type == "Gather" and k == 0 for n, k in uses[t.name]):
            rows = sum(math.prod(shape.get(n.input[1], [t.dims[0]])) for n, _ in uses[t.name])
            size = min(size, size // max(t.dims[0], 1) * rows)
        total += size
    return total


def port_bytes(graph, shape, feeds):
    total = sum(array.nbytes for array in feeds.values())
    for value in graph.output:
        total += math.prod(shape.get(value.name, [0])) * element_bytes(value.type.tensor_type.elem_type)
    return total


# ---- all --------------------------------------------------------------------------------------


def count(path, feeds):
    """{"flop", "bytes", "unknown"} of one run."""
    import onnx
    import workloads
    text = workloads.modern(path)
    model = onnx.load_from_string(text) if text else onnx.load(str(path), load_external_data=False)
    shape = shapes_of(path, model, feeds)
    flop, unknown = graph_flop(model.graph, shape)
    return {"flop": flop, "unknown": unknown,
            "bytes": weight_bytes(model.graph, shape) + port_bytes(model.graph, shape, feeds)}


def bound_ms(counted, peak):
    return max(counted["flop"] / peak[0], counted["bytes"] / peak[1]) * 1e3


def main():
    sys.path.insert(0, str(pathlib.Path(__file__).parent))
    import engines
    engines.use_packages()
    import workloads
    peak = {threads: machine_peak(threads) for threads in (1, 2)}
    for threads, (flop, memory) in peak.items():
        print(f"{threads} threads: {flop / 1e9:.0f} GFLOP/s, {memory / 1e9:.1f} GB/s")
    folder = pathlib.Path(workloads.ROOT / "build/zoo")
    for name in sys.argv[1:] or workloads.names():
        work = workloads.workload(name, folder)
        counted = count(work.path, work.feeds)
        bounds = ", ".join(f"{bound_ms(counted, p):.3f} ms on {n}" for n, p in peak.items())
        print(f"{name:22} {counted['flop'] / 1e9:9.3f} GFLOP {counted['bytes'] / 1e6:9.1f} MB  {bounds}")
        for what in counted["unknown"][:5]:
            print(f"    not counted: {what}")


if __name__ == "__main__":
    main()
