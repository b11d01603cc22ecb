# SPDX-License-Identifier: Apache-2.0
"""Python's values as weir_tensors, and results as NumPy's. Memory is shared wherever both sides can say it:
NumPy arrays and objects with __dlpack__ are never copied, but for types of less than a byte, strings, and strides
that are negative or no multiple of the element."""
import ctypes as c
import sys

import numpy as np

from . import _abi as abi
from . import _library as lib

# WEIR_... of each dtype that NumPy or ml_dtypes has.
CODES = {"float32": 1, "uint8": 2, "int8": 3, "uint16": 4, "int16": 5, "int32": 6, "int64": 7, "bool": 9, "float16": 10,
         "float64": 11, "uint32": 12, "uint64": 13, "complex64": 14, "complex128": 15, "bfloat16": 16, "float8_e4m3fn": 17,
         "float8_e4m3fnuz": 18, "float8_e5m2": 19, "float8_e5m2fnuz": 20, "uint4": 21, "int4": 22, "float4_e2m1fn": 23,
         "float8_e8m0fnu": 24, "uint2": 25, "int2": 26, "float6_e2m3fn": 27, "float6_e3m2fn": 28}
NAMES = {code: name for name, code in CODES.items()}
PACKED = {21: 4, 22: 4, 23: 4, 25: 2, 26: 2}  # bits of an element

STRING = np.dtype([("at", np.int64), ("bytes", np.int64)])  # weir_string

# (code, bits) of a DLDataType.
CPU, CUDA = 1, 2  # of DLPack's devices
DLPACK = {(0, 8): 3, (0, 16): 5, (0, 32): 6, (0, 64): 7, (1, 8): 2, (1, 16): 4, (1, 32): 12, (1, 64): 13, (2, 16): 10,
          (2, 32): 1, (2, 64): 11, (4, 16): 16, (5, 64): 14, (5, 128): 15, (6, 8): 9, (10, 8): 17, (11, 8): 18, (12, 8): 19,
          (13, 8): 20, (14, 8): 24}


def dtype_of(code):
    """NumPy's dtype, or that of ml_dtypes."""
    name = NAMES[code]
    try:
        return np.dtype(name)
    except TypeError:
        try:
            import ml_dtypes
            return np.dtype(getattr(ml_dtypes, name))
        except (ImportError, AttributeError):
            raise lib.Error(f'results of type "{name}" need the package ml_dtypes') from None


class DLTensor(c.Structure):
    _fields_ = [("data", c.c_void_p), ("device_type", c.c_int32), ("device_id", c.c_int32), ("ndim", c.c_int32),
                ("code", c.c_uint8), ("bits", c.c_uint8), ("lanes", c.c_uint16), ("shape", c.POINTER(c.c_int64)),
                ("strides", c.POINTER(c.c_int64)), ("byte_offset", c.c_uint64)]


_capsule_pointer = c.pythonapi.PyCapsule_GetPointer
_capsule_pointer.restype, _capsule_pointer.argtypes = c.c_void_p, [c.py_object, c.c_char_p]


# ---- arguments ---------------------------------------------------------------------------------------------


def fill(tensor, value, kept):
    """Describes `value` (an array, an object with __dlpack__, or what NumPy makes an array of) in `tensor`. What must
    live as long as the tensor goes into `kept`."""
    if not isinstance(value, np.ndarray) and hasattr(value, "__dlpack__"):
        return _fill_dlpack(tensor, value, kept)
    array = np.asarray(value)
    if array.dtype.kind in "OUS":
        return _fill_strings(tensor, array, kept)
    code = CODES.get(array.dtype.name)
    if code is None or not array.dtype.isnative:
        raise TypeError(f"a tensor cannot have elements of {array.dtype!r}")
    tensor.dtype, shape = code, array.shape
    if code in PACKED:
        array = pack(array, PACKED[code])
    elif any(step < 0 or step % array.itemsize for step in array.strides):
        array = np.ascontiguousarray(array).reshape(shape)
    tensor.data = array.ctypes.data
    _set_dims(tensor, shape)
    if not array.flags.c_contiguous:
        _set_strides(tensor, [step // array.itemsize for step in array.strides], kept)
    kept.append(array)


def _set_dims(tensor, shape):
    if len(shape) > abi.RANK_MAX:
        raise TypeError(f"a tensor has at most {abi.RANK_MAX} dims, not {len(shape)}")
    tensor.rank, tensor.capacity = len(shape), 0
    tensor.dims[:len(shape)] = shape


def _set_strides(tensor, strides, kept):
    table = (c.c_int64 * len(strides))(*strides)
    tensor.strides = table
    kept.append(table)


def on_device(value):
    """Does it lie on a GPU? TypeError: nor in the CPU's memory."""
    kind = value.__dlpack_device__()[0] if hasattr(value, "__dlpack_device__") else CPU
    if kind not in (CPU, CUDA):
        raise TypeError("a tensor must lie in the CPU's memory or on a GPU of NVIDIA")
    return kind == CUDA


def _fill_dlpack(tensor, value, kept):
    capsule = value.__dlpack__(stream=abi.STREAM_LEGACY) if on_device(value) else value.__dlpack__()
    t = c.cast(_capsule_pointer(capsule, b"dltensor"), c.POINTER(DLTensor)).contents
    if t.lanes != 1 or (t.code, t.bits) not in DLPACK:
        raise TypeError(f"a tensor cannot have elements of DLPack type {t.code} with {t.bits} bits")
    tensor.dtype, tensor.data = DLPACK[t.code, t.bits], (t.data or 0) + t.byte_offset
    _set_dims(tensor, t.shape[:t.ndim])
    if t.strides:
        _set_strides(tensor, t.strides[:t.ndim], kept)
    kept += [capsule, value]


def _fill_strings(tensor, array, kept):
    encoded = [one if isinstance(one, bytes) else str(one).encode() for one in array.reshape(-1).tolist()]
    text = np.frombuffer(b"".join(encoded) + b"\0", np.uint8)
    strings = np.empty(len(encoded), STRING)
    strings["bytes"] = [len(one) for one in encoded]
    strings["at"] = text.ctypes.data + np.cumsum(strings["bytes"]) - strings["bytes"]
    tensor.dtype, tensor.data = abi.STRING, strings.ctypes.data
    _set_dims(tensor, array.shape)
    kept += [text, strings]


def fill_object(tensor, value, kept):
    """A sequence (list), map (dict), optional (None, or what it holds)."""
    whole = abi.Value()
    _fill_value(whole, value, kept)
    tensor.dtype, tensor.rank, tensor.data = abi.OBJECT, 0, c.addressof(whole)
    kept.append(whole)


def _fill_value(whole, value, kept):
    if value is None:
        whole.kind = abi.VALUE_NONE
    elif isinstance(value, (list, tuple)):
        _fill_items(whole, abi.VALUE_SEQUENCE, value, kept)
    elif isinstance(value, dict):
        values = list(value.values())
        plain = all(np.ndim(one) == 0 for one in values)
        _fill_items(whole, abi.VALUE_MAP, [np.array(list(value)), np.array(values) if plain else values], kept)
    else:
        whole.kind = abi.VALUE_TENSOR
        fill(whole.tensor, np.ascontiguousarray(value).reshape(np.shape(value)), kept)


def _fill_items(whole, kind, values, kept):
    items = (abi.Value * max(1, len(values)))()
    for item, value in zip(items, values):
        _fill_value(item, value, kept)
    whole.kind, whole.count, whole.items = kind, len(values), items
    kept.append(items)


def pack(array, bits):
    """Elements of less than a byte, the first in the lowest bits."""
    each = 8 // bits
    codes = np.ascontiguousarray(array).reshape(-1).view(np.uint8) & (1 << bits) - 1
    codes = np.append(codes, np.zeros(-codes.size % each, np.uint8)).reshape(-1, each)
    return np.bitwise_or.reduce(codes << np.arange(0, 8, bits, dtype=np.uint8), axis=1).astype(np.uint8)


def unpack(packed, count, code):
    bits = PACKED[code]
    codes = (packed[:, None] >> np.arange(0, 8, bits, dtype=np.uint8) & (1 << bits) - 1).reshape(-1)[:count].astype(np.uint8)
    if NAMES[code].startswith("int"):
        codes = (codes ^ (1 << bits - 1)) - (1 << bits - 1)  # the sign
    return codes.astype(np.uint8).view(dtype_of(code))


# ---- results -----------------------------------------------------------------------------------------------


def shape_of(tensor):
    return tuple(tensor.dims[:tensor.rank])


def count_of(tensor):
    count = 1
    for size in tensor.dims[:tensor.rank]:
        count *= size
    return count


def is_dense(tensor):
    """Whether its strides say no more than its dims, as those of no elements never do."""
    step = 1
    if 0 in tensor.dims[:tensor.rank]:
        return True
    for size, stride in reversed(list(zip(tensor.dims[:tensor.rank], tensor.strides[:tensor.rank]))):
        if size != 1 and stride != step:
            return False
        step *= size
    return True


FIRST_ROOM = 1 << 24  # elements


def references(arrays, i):
    return sys.getrefcount(arrays[i])


ALONE = references([np.empty(0)], 0)  # where nobody but the list has it


class Rooms:
    """Arrays for one output, from run to run. The system takes large ones back when they are dropped, and each page of a
    fresh one costs a fault, which may take as long as the run. So the last two are kept; one that nobody else has any more
    is taken again. Those that replace others have more room, as caches grow."""

    LEAST, MOST, KEPT = 1 << 16, 1 << 26, 2  # bytes; arrays

    def __init__(self):
        self._kept = []

    def take(self, count, dtype):
        for i in range(len(self._kept)):
            fits = self._kept[i].dtype == dtype and count <= self._kept[i].size <= 2 * count
            if fits and references(self._kept, i) == ALONE:
                return self._kept[i]
        array = np.empty(count + (count // 8 if self._kept else 0), dtype)
        if self.LEAST <= array.nbytes <= self.MOST:
            self._kept = [*self._kept, array][-self.KEPT:]
        return array


def room(tensor, first, rooms):
    """Memory of `rooms` for an output of the dims that stand in `tensor`; a dim that nothing bounds counts as 1. Bounds may
    be far above what a run makes, so at first there is no more than FIRST_ROOM: a run that needs more tells the dims."""
    for k in range(tensor.rank):
        tensor.dims[k] = 1 if tensor.dims[k] < 0 else tensor.dims[k]
    count = min(count_of(tensor), FIRST_ROOM) if first else count_of(tensor)
    packed = PACKED.get(tensor.dtype)
    array = rooms.take(-(-count * packed // 8), np.uint8) if packed else rooms.take(count, dtype_of(tensor.dtype))
    tensor.data, tensor.capacity = array.ctypes.data, count
    return array


def result(tensor, array):
    """The output that a run wrote to room(tensor): a view of it."""
    shape, count = shape_of(tensor), count_of(tensor)
    if tensor.dtype in PACKED:
        return unpack(array, count, tensor.dtype).reshape(shape)
    return array[:count].reshape(shape)


def copy(tensor):
    """A dense tensor as an array of its own."""
    count, shape = count_of(tensor), shape_of(tensor)
    if tensor.dtype == abi.STRING:
        strings = np.frombuffer(c.string_at(tensor.data, count * STRING.itemsize) if count else b"", STRING)
        array = np.empty(count, object)
        array[:] = [c.string_at(at, size).decode("utf-8", "replace") if size else "" for at, size in strings.tolist()]
        return array.reshape(shape)
    packed = PACKED.get(tensor.dtype)
    size = -(-count * packed // 8) if packed else count * dtype_of(tensor.dtype).itemsize
    raw = np.frombuffer(c.string_at(tensor.data, size) if size else b"", np.uint8)
    return (unpack(raw, count, tensor.dtype) if packed else raw.view(dtype_of(tensor.dtype))).reshape(shape).copy()


def copy_value(value):
    if value.kind == abi.VALUE_NONE:
        return None
    if value.kind == abi.VALUE_TENSOR:
        return copy(value.tensor)
    items = [copy_value(value.items[i]) for i in range(value.count)]
    if value.kind == abi.VALUE_SEQUENCE:
        return items
    values = items[1].tolist() if isinstance(items[1], np.ndarray) else items[1]
    return dict(zip(items[0].tolist(), values))
