#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A compiled model as Python sees it: ctypes over runtime/weir_model.h and NumPy arrays.

    m = Model("resnet50.so", threads=2)
    outputs = m.run({"input": array})          # name -> array
    m.bind({"input": array}); m.call()         # the same buffers again, without overhead, for timing
"""
import ctypes as c
import pathlib
import sys

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools/python/weir"))
from _abi import E_CAPACITY, Descriptor, Tensor  # noqa: E402

DTYPES = {1: "float32", 2: "uint8", 3: "int8", 4: "uint16", 5: "int16", 6: "int32", 7: "int64", 9: "bool",
          10: "float16", 11: "float64", 12: "uint32", 13: "uint64", 14: "complex64", 15: "complex128"}
CODES = {np.dtype(name): code for code, name in DTYPES.items()}


def describe(array, tensor):
    tensor.data, tensor.dtype, tensor.rank = array.ctypes.data, CODES[array.dtype], array.ndim
    tensor.capacity = array.size
    for k, size in enumerate(array.shape):
        tensor.dims[k] = size


class Model:
    def __init__(self, path, threads=1):
        self.library = c.CDLL(str(path))
        self.library.weir_model_descriptor.restype = c.POINTER(Descriptor)
        self.d = self.library.weir_model_descriptor().contents
        self.inputs = [self.d.inputs[i].name.decode() for i in range(self.d.ninputs)]
        self.outputs = [self.d.outputs[i].name.decode() for i in range(self.d.noutputs)]
        self.pool = self.d.pool_new(threads) if threads != 1 else None
        self.instance = c.c_void_p()
        error = c.create_string_buffer(512)
        if self.d.create(self.pool, c.byref(self.instance), error):
            raise RuntimeError(f"create: {error.value.decode()}")

    def check(self, status, what):
        if status:
            raise RuntimeError(f"{what}: status {status}: {self.d.error(self.instance).decode()}")

    def bind(self, feeds):
        """Takes inputs and makes room for the outputs."""
        self.kept = [np.ascontiguousarray(feeds[name]).reshape(np.shape(feeds[name])) for name in self.inputs]
        self.given, self.room = (Tensor * len(self.inputs))(), (Tensor * len(self.outputs))()
        for array, tensor in zip(self.kept, self.given):
            describe(array, tensor)
        self.check(self.d.shapes(self.instance, self.given, self.room), "shapes")
        bounded = self.make_room()
        while not bounded and self.d.run(self.instance, self.given, self.room) == E_CAPACITY:
            bounded = self.make_room()

    def make_room(self):
        """Memory for outputs of the dims that stand in their tensors; False where nothing bounds one: it counts as 1, and a run
        that needs more tells it."""
        self.arrays, unbounded = [], False
        for tensor in self.room:
            dims = [tensor.dims[k] for k in range(tensor.rank)]
            unbounded |= min(dims, default=0) < 0
            array = np.empty([abs(dim) for dim in dims], DTYPES[tensor.dtype])
            tensor.data, tensor.capacity = array.ctypes.data, array.size
            self.arrays.append(array)
        return not unbounded

    def call(self):
        status = self.d.run(self.instance, self.given, self.room)
        if status:
            self.check(status, "run")

    def results(self):
        """name -> array. A shape that depends on data may be smaller than the room made for it."""
        out = {}
        for name, array, tensor in zip(self.outputs, self.arrays, self.room):
            shape = [tensor.dims[k] for k in range(tensor.rank)]
            count = int(np.prod(shape, dtype=np.int64))
            out[name] = array.reshape(-1)[:count].reshape(shape).copy()
        return out

    def run(self, feeds):
        self.bind(feeds)
        self.call()
        return self.results()

    def close(self):
        self.d.destroy(self.instance)
        if self.pool:
            self.d.pool_free(self.pool)
        self.instance = self.pool = None
