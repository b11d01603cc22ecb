# SPDX-License-Identifier: Apache-2.0
"""What a random model must give: ONNX's reference implementation, and onnxruntime as a second opinion.

A model is valid when onnx.checker says so. A case holds the results of one judge; where the judges differ, those of
the other lie in a folder `other` of the same form. A case counts as passed when either agrees.
"""
import contextlib
import io
import signal
import warnings

import numpy as np
import onnx
import onnxruntime
from onnx import numpy_helper
from onnx.reference import ReferenceEvaluator

onnxruntime.set_default_logger_severity(4)
WIDE = {onnx.TensorProto.FLOAT16, onnx.TensorProto.BFLOAT16}


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
    return ReferenceEvaluator(model).run(None, feed)


def by_onnxruntime(model, feed):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, feed)


def plain(value):
    """Results as arrays, lists of arrays or None; None for anything else."""
    if isinstance(value, list):
        items = [plain(v) for v in value]
        return None if not items or any(i is None for i in items) else items
    if isinstance(value, (np.ndarray, np.generic, int, float, bool, str)):
        array = np.asarray(value)
        return array.astype(object) if array.dtype.kind in "UST" else array
    return None


def alike(a, b, rtol=1e-3, atol=1e-5):
    if isinstance(a, list) or isinstance(b, list):
        return isinstance(a, list) and isinstance(b, list) and len(a) == len(b) and \
            all(alike(x, y, rtol, atol) for x, y in zip(a, b))
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    if a.dtype.kind in "OUSTb" or a.dtype.kind in "iu":
        return bool(np.array_equal(a, b))
    a, b = (np.asarray(v, np.complex128 if v.dtype.kind == "c" else np.float64) for v in (a, b))
    return bool(np.allclose(a, b, rtol, atol, equal_nan=True))


def misread(node, opset):
    """Whether the reference takes a node for something else: it leaves out attributes and operands of recurrent operators,
    takes softmax before opset 13 and slopes before opset 7 for what they mean today, sorts what Unique must not,
    gives all groups of ConvTranspose the first one's bias, and drops empty strings in StringNormalizer."""
    given = {a.name: a for a in node.attribute}
    return (node.op_type in {"RNN", "GRU", "LSTM", "StringNormalizer"} or
            (opset < 13 and node.op_type in {"Softmax", "LogSoftmax", "Hardmax"}) or
            (opset < 7 and (node.op_type in {"PRelu", "AveragePool", "Gemm"} or "broadcast" in given)) or
            (node.op_type == "Unique" and "sorted" in given and not given["sorted"].i) or
            (node.op_type == "ConvTranspose" and "group" in given and given["group"].i > 1 and len(node.input) > 2))


def judges(model):
    opset = model.opset_import[0].version
    bad = any(misread(node, opset) for node in model.graph.node)
    return [by_onnxruntime] if bad else [by_reference, by_onnxruntime]


def opinions(model, feed):
    """Distinct results of the judges, as lists in the order of the model's outputs."""
    found = []
    for judge in judges(model):
        results = quiet(judge, model, feed)
        results = None if results is None else [plain(r) for r in results]
        if results is None or any(r is None for r in results):
            continue
        if len(found) == 0 or not all(alike(a, b) for a, b in zip(found[0], results)):
            found.append(results)
    return found


def value_bytes(value, name):
    if isinstance(value, list):
        return numpy_helper.from_list(value, name).SerializeToString()
    return tensor(value, name).SerializeToString()


def tensor(array, name):
    array = np.asarray(array)
    if array.dtype.kind == "O":
        return onnx.helper.make_tensor(name, onnx.TensorProto.STRING, array.shape,
                                       [str(s).encode() for s in array.reshape(-1)])
    return numpy_helper.from_array(array, name)


def write_case(folder, model, feed, results):
    data = folder / "test_data_set_0"
    data.mkdir(parents=True, exist_ok=True)
    (folder / "model.onnx").write_bytes(model.SerializeToString())
    for i, value in enumerate(model.graph.input):
        (data / f"input_{i}.pb").write_bytes(value_bytes(feed[value.name], value.name))
    for i, value in enumerate(model.graph.output):
        (data / f"output_{i}.pb").write_bytes(value_bytes(results[i], value.name))
