#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes a zoo of one model for tests: dense.onnx, y = max(x w + b, 0), without its weights, and the scripts that draw.

    zoo.py FOLDER
"""
import json
import pathlib
import sys

from onnx import TensorProto, helper, save

MATERIALIZE = """
import json, pathlib, shutil, sys, zlib
import numpy as np
CHUNK = 1000
def draw(bits, count, generator):
    return bits.random_raw(count).astype("<u8") % 64 / 64.0 + generator["low"]
if __name__ == "__main__":
    zoo, out, name = pathlib.Path(__file__).parent, pathlib.Path(sys.argv[2]), sys.argv[3]
    shutil.copy(zoo / f"{name}.onnx", out)
    with open(out / f"{name}.data", "wb") as file:
        for tensor in json.loads((zoo / f"{name}.json").read_text())["tensors"]:
            bits = np.random.PCG64(zlib.crc32(tensor["name"].encode()))
            file.seek(tensor["offset"])
            for begin in range(0, tensor["length"] // 4, CHUNK):
                count = min(CHUNK, tensor["length"] // 4 - begin)
                file.write(draw(bits, count, tensor["generator"]).astype("f4").tobytes())
"""
INPUTS = """
import numpy as np
def make_inputs(spec, seed=0, dims=None):
    return {entry["name"]: np.linspace(-1, 1, (dims or {}).get("rows", 2) * 64, dtype="f4").reshape(-1, 64) for entry in spec["inputs"]}
"""
DENSE = {
    "inputs": [{"name": "x", "dtype": "float32", "shape": [2, 64], "symbols": ["rows", None]}],
    "tensors": [{"name": name, "dtype": "float32", "offset": offset, "length": length, "generator": {"low": -0.5}}
                for name, offset, length in (("w", 0, 64 * 48 * 4), ("b", 16384, 48 * 4))]}


def outside(tensor, dims):
    t = TensorProto(name=tensor["name"], data_type=TensorProto.FLOAT, dims=dims, data_location=TensorProto.EXTERNAL)
    for key in ("offset", "length"):
        t.external_data.add(key=key, value=str(tensor[key]))
    t.external_data.add(key="location", value="dense.data")
    return t


def main():
    zoo = pathlib.Path(sys.argv[1])
    zoo.mkdir()
    (zoo / "materialize.py").write_text(MATERIALIZE)
    (zoo / "inputs.py").write_text(INPUTS)
    (zoo / "dense.json").write_text(json.dumps(DENSE))
    nodes = [helper.make_node("MatMul", ["x", "w"], ["p"]), helper.make_node("Add", ["p", "b"], ["s"]), helper.make_node("Relu", ["s"], ["y"])]
    ports = [[helper.make_tensor_value_info(n, TensorProto.FLOAT, ["N", width])] for n, width in (("x", 64), ("y", 48))]
    w, b = DENSE["tensors"]
    graph = helper.make_graph(nodes, "dense", *ports, [outside(w, [64, 48]), outside(b, [48])])
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), str(zoo / "dense.onnx"))


if __name__ == "__main__":
    main()
