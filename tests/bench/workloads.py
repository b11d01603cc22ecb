#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The models that are compared: the zoo (graphs with drawn weights) and the trained ones, with inputs.

The zoo's folder (environment WEIR_ZOO, or ../shared/zoo) holds materialize.py, inputs.py and a
NAME.json for each model; the trained models lie in WEIR_MODELS or ../shared/models.
"""
import dataclasses
import json
import os
import pathlib
import sys

import numpy as np

from engines import OF_CODES, OF_FLOATS, OF_HALVES

ROOT = pathlib.Path(__file__).resolve().parents[2]
ZOO = pathlib.Path(os.environ.get("WEIR_ZOO", ROOT.parent / "shared/zoo"))
MODELS = pathlib.Path(os.environ.get("WEIR_MODELS", ROOT.parent / "shared/models"))
# The first ones are the goal of the present work; the others follow.
FIRST = ["resnet50", "mobilenet_v2", "efficientnet_b0", "unet", "vit_b_16", "bert_base", "bert_base_dynamic",
         "gpt2_prefill", "gpt2_decode", "lstm_seq", "dlrm"]
TRAINED = ["mnist_cntk", "super_resolution", "ultraface_rfb_320", "silero_vad",
           "silero_vad@8k", "magika_v3_3", "magika_v3_3@5"]


@dataclasses.dataclass
class Workload:
    name: str          # of the model, with "@variant" of its inputs
    path: pathlib.Path
    feeds: dict        # input name -> array
    tolerance: float   # of floats, relative to the output's largest magnitude


def names():
    zoo = sorted(path.stem for path in ZOO.glob("*.json"))
    first = [name for name in FIRST if name in zoo]
    trained = [name for name in TRAINED if (MODELS / f"{name.split('@')[0]}.onnx").exists()]
    return trained + first + [name for name in zoo if name not in first]


def trained_feeds(name):
    rng = np.random.Generator(np.random.PCG64(7))
    draw = lambda shape, low=0.0, high=1.0: rng.uniform(low, high, shape).astype(np.float32)
    if name == "mnist_cntk":
        return {"Input3": draw((1, 1, 28, 28), 0, 255)}
    if name.startswith("super_resolution"):
        return {"1": draw((1, 1, 224, 224))}
    if name == "ultraface_rfb_320":
        return {"input": draw((1, 3, 240, 320), -1, 1)}
    if name.startswith("silero_vad"):
        rate, samples = (8000, 256) if name.endswith("@8k") else (16000, 512)
        return {"input": draw((1, samples), -0.5, 0.5), "state": draw((2, 1, 128), -0.5, 0.5),
                "sr": np.array(rate, np.int64)}
    return {"bytes": rng.integers(0, 256, (5 if name.endswith("@5") else 1, 2048)).astype(np.int32)}


def zoo_workload(name, folder, seed=0, dims=None):
    sys.path.insert(0, str(ZOO))
    import inputs
    import materialize
    spec = json.loads((ZOO / f"{name}.json").read_text())
    path = folder / f"{name}.onnx"
    data = folder / f"{name}.data"
    if not path.exists() or (spec["tensors"] and not data.exists()):
        materialize.materialize(ZOO, name, folder)
    feeds = inputs.make_inputs(spec, seed, dims)
    kinds = {t["dtype"] for t in spec["tensors"]}
    tolerance = OF_CODES if "int8" in name or "int8" in kinds else OF_HALVES if "float16" in kinds else OF_FLOATS
    return Workload(name, path, feeds, tolerance)


def workload(name, folder):
    """A model and its inputs; weights of the zoo are written to `folder` when they are not there."""
    if name in TRAINED:
        return Workload(name, MODELS / f"{name.split('@')[0]}.onnx", trained_feeds(name), OF_FLOATS)
    return zoo_workload(name, folder)


def modern(path):
    """The bytes of a model for ONNX Runtime, which refuses models without an operator set: attributes
    get their types, Add's old broadcast becomes a shape, Reshape's attribute an operand."""
    import onnx
    from onnx import helper, numpy_helper
    m = onnx.load(str(path), load_external_data=False)
    if m.opset_import:
        return None
    m.ir_version = 3
    m.opset_import.add(version=7)
    weights = {w.name: w for w in m.graph.initializer}
    for k, n in enumerate(m.graph.node):
        old = {a.name: a for a in n.attribute}
        if n.op_type == "Add" and "broadcast" in old:
            weights[n.input[1]].dims.extend([1, 1])
            for value in m.graph.input:
                if value.name == n.input[1]:
                    for _ in range(2):
                        value.type.tensor_type.shape.dim.add(dim_value=1)
            del n.attribute[:]
        elif n.op_type == "Reshape" and "shape" in old:
            shape = numpy_helper.from_array(np.array(old["shape"].ints, np.int64), f"shape_{k}")
            m.graph.initializer.append(shape)
            m.graph.input.append(helper.make_tensor_value_info(shape.name, onnx.TensorProto.INT64, shape.dims))
            n.input.append(shape.name)
            del n.attribute[:]
        for a in n.attribute:
            a.type = a.type or (onnx.AttributeProto.INTS if a.ints else onnx.AttributeProto.INT)
    return m.SerializeToString()
