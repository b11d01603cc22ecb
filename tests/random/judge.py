# SPDX-License-Identifier: Apache-2.0
"""What a random model must give: ONNX's reference implementation, and onnxruntime as a second opinion.

A model is valid when onnx.checker says so. A case holds the results of one judge; where the judges differ, those of
the other lie in a folder `other` of the same form. A case counts as passed when either agrees. What neither runs they
are asked in other words: an old version as a newer one (older.py), types by others that stand for them (standin.py).
"""
import contextlib
import io
import signal
import warnings

import numpy as np
import onnx
import onnxruntime
from onnx.reference import ReferenceEvaluator

import older
import standin
from values import Opt, alike, plain, proto_of

onnxruntime.set_default_logger_severity(4)
COMPLEX = {onnx.TensorProto.COMPLEX64, onnx.TensorProto.COMPLEX128}
INTS = {*standin.NARROW_INTS, onnx.TensorProto.INT64}
ROUGH = {onnx.TensorProto.FLOAT16, onnx.TensorProto.BFLOAT16}  # judges add up in these; another opinion is asked in f32


class Timeout(Exception):
    pass


@contextlib.contextmanager
def limit(seconds):
    def stop(*_):
        raise Timeout
    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def quiet(function, *args):
    """The function's result, or None where it refuses, whatever it says."""
    try:
        with limit(20), warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            return function(*args)
    except Exception:  # noqa: BLE001  a judge may lack an operator, or refuse a type
        return None


def valid(model):
    try:
        onnx.checker.check_model(model, full_check=True)
        return True
    except Exception:  # noqa: BLE001  the checker raises many kinds
        return False


def by_reference(model, feed):
    return [plain(r) for r in ReferenceEvaluator(model).run(None, feed)]


def by_onnxruntime(model, feed):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return [plain(r) for r in session.run(None, feed)]


def first_type(model):
    """The element type of the first node's first operand; 0 where it is no value of the graph's own."""
    name = next(iter(model.graph.node[0].input), "")
    return next((standin.element_type(v.type) for v in model.graph.input if v.name == name),
                next((t.data_type for t in model.graph.initializer if t.name == name), 0))


def misread(node, opset, t):
    """Whether the reference takes a node, of operands of type t, for something else: it leaves out attributes and operands of
    recurrent operators, takes softmax before opset 13 and slopes before opset 7 for what they mean today, sorts what Unique
    must not, gives all groups of ConvTranspose the first one's bias, drops empty strings in StringNormalizer, leaves scores of
    TreeEnsemble as they are, takes no turn of a loop without a condition, takes the batch for channels in LRN and columns for them
    in ConvInteger, fills windows of LpPool that are cut off, and has a mind of its own on integers that are interpolated or exponents, on complex numbers in Resize, and on what text is padded with."""
    given = {a.name: a for a in node.attribute}
    return (node.op_type in {"RNN", "GRU", "LSTM", "StringNormalizer", "LRN"} or
            (opset < 13 and node.op_type in {"Softmax", "LogSoftmax", "Hardmax"}) or
            (opset < 7 and (node.op_type in {"PRelu", "AveragePool", "Gemm"} or "broadcast" in given)) or
            (node.op_type == "TreeEnsemble" and given.get("post_transform") and given["post_transform"].i > 0) or
            (node.op_type in {"GridSample", "ReduceLogSumExp"} and t in INTS) or
            (node.op_type in {"Pad", "CenterCropPad", "GridSample"} and t == onnx.TensorProto.STRING) or
            (node.op_type == "Resize" and t in COMPLEX) or
            (node.op_type == "Loop" and not "".join(node.input[1:2]) and opset < 11) or
            (node.op_type == "ConvInteger" and len(node.input) > 3) or
            (node.op_type == "LpPool" and "ceil_mode" in given) or
            (node.op_type == "Unique" and "sorted" in given and not given["sorted"].i) or
            (node.op_type == "ConvTranspose" and "group" in given and given["group"].i > 1 and len(node.input) > 2))


def judges(model):
    """onnxruntime cuts integers off that Resize interpolates; the reference rounds them."""
    opset, t = model.opset_import[0].version, first_type(model)
    bad = any(misread(node, opset, t) for node in standin.nodes_of(model.graph))
    cut = t in INTS and any(node.op_type in {"Resize", "Upsample"} for node in model.graph.node)
    return ([] if bad or (cut and opset < 11) else [by_reference]) + ([] if cut else [by_onnxruntime])


def direct(model, feed):
    """Distinct results of the judges."""
    found = []
    for judge in judges(model):
        results = quiet(judge, model, feed)
        if results is not None and (not found or not all(alike(a, b) for a, b in zip(found[0], results))):
            found.append(results)
    return found


def in_other_types(model, feed):
    for words in (standin.coded, standin.wider):
        for made, fed, back in quiet(lambda: list(words(model, feed))) or []:
            found = [b for b in (quiet(back, results) for results in direct(made, fed)) if b is not None]
            if found:
                return found
    return []


def opinions(model, feed):
    """Distinct results, as lists in the order of the model's outputs; none where nobody knows."""
    feed = {k: v.value if isinstance(v, Opt) else v for k, v in feed.items()}
    found = direct(model, feed)
    newer = None if found else quiet(older.converted, model, feed)
    if newer is not None:
        fed = {v.name: feed[v.name] for v in newer.graph.input if v.name in feed}
        return direct(newer, fed) or in_other_types(newer, fed)
    if found and not standin.used_types(model) & ROUGH:
        return found
    more = [r for r in in_other_types(model, feed) if not found or not all(alike(a, b) for a, b in zip(found[0], r))]
    return (found[:1] + more + found[1:])[:2]


def write_case(folder, model, feed, results):
    data = folder / "test_data_set_0"
    data.mkdir(parents=True, exist_ok=True)
    (folder / "model.onnx").write_bytes(model.SerializeToString())
    for i, value in enumerate(model.graph.input):
        (data / f"input_{i}.pb").write_bytes(proto_of(feed[value.name], value.name, value.type).SerializeToString())
    for i, value in enumerate(model.graph.output):
        (data / f"output_{i}.pb").write_bytes(proto_of(results[i], value.name, value.type).SerializeToString())
