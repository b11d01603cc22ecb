#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The package for Python with tensors on a GPU, handed over by DLPack: y = max(x, 0) of f32[N], relu.ir.

    tensors.py RELU.so GROWN.so     # of relu.ir and grown.ir; PYTHONPATH and WEIR_LIBRARY name the package and libweir.so
"""
import contextlib
import ctypes
import sys

import numpy as np
import weir
from weir import _tensors

driver = ctypes.CDLL("libcuda.so.1")


class OnDevice:
    """An array's copy on the device, or the part of another's that begins where that does. Its capsule is NumPy's, with
    another place."""

    def __init__(self, array, part_of=None):
        self.array, self.at, self.streams = array, part_of.at if part_of else ctypes.c_uint64(), []
        self.own = not part_of and array.nbytes
        if not self.own:
            return
        self.array = array = np.ascontiguousarray(array)
        assert driver.cuMemAlloc_v2(ctypes.byref(self.at), ctypes.c_size_t(array.nbytes)) == 0
        assert driver.cuMemcpyHtoD_v2(self.at, ctypes.c_void_p(array.ctypes.data), ctypes.c_size_t(array.nbytes)) == 0

    def __dlpack__(self, stream=None):
        self.streams.append(stream)
        capsule = self.array.__dlpack__()
        tensor = ctypes.cast(_tensors._capsule_pointer(capsule, b"dltensor"), ctypes.POINTER(_tensors.DLTensor)).contents
        tensor.data, tensor.device_type, tensor.byte_offset = self.at.value, 2, 0
        return capsule

    def __dlpack_device__(self):
        return (2, 0)

    def get(self):
        got = np.empty_like(self.array)
        if not self.own:
            return got
        assert driver.cuMemcpyDtoH_v2(ctypes.c_void_p(got.ctypes.data), self.at, ctypes.c_size_t(got.nbytes)) == 0
        return got

    def drop(self):
        assert not self.own or driver.cuMemFree_v2(self.at) == 0


@contextlib.contextmanager
def context():
    at = ctypes.c_void_p()
    assert driver.cuInit(0) == 0 and driver.cuDevicePrimaryCtxRetain(ctypes.byref(at), 0) == 0
    assert driver.cuCtxPushCurrent_v2(at) == 0
    yield
    driver.cuCtxPopCurrent_v2(ctypes.byref(at))
    driver.cuDevicePrimaryCtxRelease_v2(0)


def relu():
    model, x = weir.open(sys.argv[1]), np.arange(-50, 50, dtype=np.float32)
    there, room = OnDevice(x), OnDevice(np.zeros_like(x))
    for _ in range(3):
        assert (model(there) == np.maximum(x, 0)).all()
        assert model(there, out=room) is room and (room.get() == np.maximum(x, 0)).all()
        assert (model(x) == np.maximum(x, 0)).all()
    assert set(there.streams) == {1}, there.streams
    there.drop(), room.drop()
    model.close()


def sizes_from_data():
    model = weir.open(sys.argv[2])
    for n in (5, 90000, 1, 0, 300):
        assert (model(np.array([n])) == 2 * np.arange(n)).all()
    model.close()


def main():
    with context():
        relu()
        sizes_from_data()
    print("fine")


if __name__ == "__main__":
    main()
