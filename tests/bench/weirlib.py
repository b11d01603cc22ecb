#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A compiled model as Python sees it: ctypes over runtime/weir_model.h and NumPy arrays.

    m = Model("resnet50.so", threads=2)
    outputs = m.run({"input": array})          # name -> array
    m.bind({"input": array}); m.call()         # the same buffers again, without overhead, for timing
"""
import ctypes as c

import numpy as np

RANK_MAX = 16
DTYPES = {1: "float32", 2: "uint8", 3: "int8", 4: "uint16", 5: "int16", 6: "int32", 7: "int64", 9: "bool",
          10: "float16", 11: "float64", 12: "uint32", 13: "uint64", 14: "complex64", 15: "complex128"}
CODES = {np.dtype(name): code for code, name in DTYPES.items()}


class Tensor(c.Structure):
    _fields_ = [("data", c.c_void_p), ("dtype", c.c_int32), ("rank", c.c_int32), ("dims", c.c_int64 * RANK_MAX),
                ("strides", c.POINTER(c.c_int64)), ("capacity", c.c_int64), ("allocator", c.c_void_p)]


class Port(c.Structure):
    _fields_ = [("name", c.c_char_p), ("dtype", c.c_int32), ("rank", c.c_int32), ("dims", c.POINTER(c.c_char_p)),
                ("object", c.c_char_p)]


TENSORS = c.POINTER(Tensor)


class Descriptor(c.Structure):
    _fields_ = [
        ("size", c.c_size_t), ("abi", c.c_int32), ("name", c.c_char_p), ("ninputs", c.c_int32),
        ("noutputs", c.c_int32), ("inputs", c.POINTER(Port)), ("outputs", c.POINTER(Port)), ("build", c.c_char_p),
        ("create", c.CFUNCTYPE(c.c_int, c.c_void_p, c.POINTER(c.c_void_p), c.c_char_p)),
        ("reserve", c.CFUNCTYPE(c.c_int, c.c_void_p, TENSORS)),
        ("run", c.CFUNCTYPE(c.c_int, c.c_void_p, TENSORS, TENSORS)),
        ("destroy", c.CFUNCTYPE(None, c.c_void_p)),
        ("error", c.CFUNCTYPE(c.c_char_p, c.c_void_p)),
        ("shapes", c.CFUNCTYPE(c.c_int, c.c_void_p, TENSORS, TENSORS)),
        ("pool_new", c.CFUNCTYPE(c.c_void_p, c.c_int)),
        ("pool_free", c.CFUNCTYPE(None, c.c_void_p)),
        ("weight_bytes", c.c_int64)]


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
        self.arrays = []
        for tensor in self.room:
            array = np.empty([tensor.dims[k] for k in range(tensor.rank)], DTYPES[tensor.dtype])
            tensor.data, tensor.capacity = array.ctypes.data, array.size
            self.arrays.append(array)

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
