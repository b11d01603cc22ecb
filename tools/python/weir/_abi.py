# SPDX-License-Identifier: Apache-2.0
"""The interface of a compiled model, runtime/weir_model.h, as ctypes; nothing is loaded."""
import ctypes as c

RANK_MAX, ABI_VERSION = 16, 2
STRING, OBJECT = 8, 64
OK, E_CAPACITY = 0, 4
STREAM_LEGACY = 1  # CUDA's default stream, as DLPack and the driver number it
VALUE_NONE, VALUE_TENSOR, VALUE_SEQUENCE, VALUE_MAP = range(4)


class Tensor(c.Structure):
    _fields_ = [("data", c.c_void_p), ("dtype", c.c_int32), ("rank", c.c_int32), ("dims", c.c_int64 * RANK_MAX),
                ("strides", c.POINTER(c.c_int64)), ("capacity", c.c_int64), ("allocator", c.c_void_p)]


class Value(c.Structure):
    pass


Value._fields_ = [("kind", c.c_int32), ("count", c.c_int64), ("items", c.POINTER(Value)), ("tensor", Tensor)]


class CPort(c.Structure):
    _fields_ = [("name", c.c_char_p), ("dtype", c.c_int32), ("rank", c.c_int32), ("dims", c.POINTER(c.c_char_p)),
                ("object", c.c_char_p)]


TENSORS, HANDLE, STATUS = c.POINTER(Tensor), c.c_void_p, c.c_int


class Descriptor(c.Structure):
    _fields_ = [
        ("size", c.c_size_t), ("abi", c.c_int32), ("name", c.c_char_p), ("ninputs", c.c_int32), ("noutputs", c.c_int32),
        ("inputs", c.POINTER(CPort)), ("outputs", c.POINTER(CPort)), ("build", c.c_char_p),
        ("create", c.CFUNCTYPE(STATUS, HANDLE, c.POINTER(HANDLE), c.c_char_p)),
        ("reserve", c.CFUNCTYPE(STATUS, HANDLE, TENSORS)),
        ("run", c.CFUNCTYPE(STATUS, HANDLE, TENSORS, TENSORS)),
        ("destroy", c.CFUNCTYPE(None, HANDLE)),
        ("error", c.CFUNCTYPE(c.c_char_p, HANDLE)),
        ("shapes", c.CFUNCTYPE(STATUS, HANDLE, TENSORS, TENSORS)),
        ("pool_new", c.CFUNCTYPE(HANDLE, c.c_int)),
        ("pool_free", c.CFUNCTYPE(None, HANDLE)),
        ("weight_bytes", c.c_int64), ("profile", c.c_void_p), ("nshared", c.c_int32), ("shared", c.c_void_p),
        ("nweights", c.c_int32), ("weights", c.POINTER(CPort)),
        ("weights_of", c.CFUNCTYPE(HANDLE, HANDLE)),
        ("weights_new", c.CFUNCTYPE(STATUS, HANDLE, HANDLE, c.c_int32, c.POINTER(c.c_char_p), TENSORS, c.POINTER(HANDLE),
                                    c.c_char_p)),
        ("weights_use", c.CFUNCTYPE(STATUS, HANDLE, HANDLE)),
        ("weights_free", c.CFUNCTYPE(None, HANDLE)),
        ("create_on", c.CFUNCTYPE(STATUS, c.c_int32, HANDLE, c.POINTER(HANDLE), c.c_char_p)),
        ("submit", c.CFUNCTYPE(STATUS, HANDLE, TENSORS, TENSORS, c.c_void_p)),
        ("wait", c.CFUNCTYPE(STATUS, HANDLE))]
