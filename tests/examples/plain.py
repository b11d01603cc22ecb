#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A compiled model in Python with nothing but ctypes and NumPy: plain.py ./mnist.so prints "digit 1"."""
import ctypes as c
import sys

import numpy as np


class Tensor(c.Structure):  # weir_tensor
    _fields_ = [("data", c.c_void_p), ("dtype", c.c_int32), ("rank", c.c_int32), ("dims", c.c_int64 * 16),
                ("strides", c.c_void_p), ("capacity", c.c_int64), ("allocator", c.c_void_p)]


class Model(c.Structure):  # weir_model, as far as it is used here
    _fields_ = [("size", c.c_size_t), ("abi", c.c_int32), ("name", c.c_char_p), ("ninputs", c.c_int32),
                ("noutputs", c.c_int32), ("inputs", c.c_void_p), ("outputs", c.c_void_p), ("build", c.c_char_p),
                ("create", c.CFUNCTYPE(c.c_int, c.c_void_p, c.POINTER(c.c_void_p), c.c_char_p)),
                ("reserve", c.c_void_p),
                ("run", c.CFUNCTYPE(c.c_int, c.c_void_p, c.POINTER(Tensor), c.POINTER(Tensor))),
                ("destroy", c.CFUNCTYPE(None, c.c_void_p)),
                ("error", c.CFUNCTYPE(c.c_char_p, c.c_void_p))]


def tensor(array):
    """The same memory as a weir_tensor; the array must stay alive."""
    t = Tensor(data=array.ctypes.data, dtype=1, rank=array.ndim, capacity=array.size)  # 1: WEIR_F32
    t.dims[:array.ndim] = array.shape
    return t


library = c.CDLL(sys.argv[1] if len(sys.argv) > 1 else "./mnist.so")
library.weir_model_descriptor.restype = c.POINTER(Model)
model = library.weir_model_descriptor().contents
assert model.abi == 2, "this library speaks another version of the interface"

image = np.zeros((1, 1, 28, 28), np.float32)
image[0, 0, 4:24, 13:15] = 255
score = np.empty((1, 10), np.float32)
instance, error = c.c_void_p(), c.create_string_buffer(256)
if model.create(None, instance, error):
    sys.exit(error.value.decode())
if model.run(instance, tensor(image), tensor(score)):
    sys.exit(model.error(instance).decode())
print("digit", score.argmax())
model.destroy(instance)
