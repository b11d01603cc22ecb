# SPDX-License-Identifier: Apache-2.0
"""Compiling and running."""
import collections
import ctypes as c
import json
import os
import threading
import weakref

import numpy as np

from . import _abi as abi
from . import _library as lib
from . import _tensors as tensors

Port = collections.namedtuple("Port", "name dtype dims")  # dims: numbers, or text over the model's symbols
ROUNDS = 8  # of growing outputs that no bound is known for


def version():
    return lib.library.weir_version().decode()


def compile(model, output=None, *, threads=0, operators=None, folder=None, **options):
    """Compiles a model: a path, the bytes of an ONNX file, or an onnx.ModelProto. Without `output` it is loaded into
    this process; else a library is written there and opened. `threads`: to run with (0: all CPUs). `operators`: text of
    operators of your own. `folder`: of external data, for bytes and protos. Options are those of `weir compile`."""
    context = lib.Context(options, operators)
    given = model.SerializeToString() if hasattr(model, "SerializeToString") else model
    in_memory = isinstance(given, (bytes, bytearray, memoryview))
    source = ((bytes(given), len(given), os.fsencode(folder) if folder else None) if in_memory else (os.fsencode(given),))
    what = "memory" if in_memory else "file"
    if output is None:
        load = getattr(lib.library, f"weir_load_{what}")
        loaded = context.check(load(context.handle, *source))
    else:
        write = getattr(lib.library, f"weir_compile_{what}")
        context.check(write(context.handle, *source, os.fsencode(output)) == 0)
        loaded = context.check(lib.library.weir_open(context.handle, os.fsencode(output)))
    context.close()
    return Model(loaded, threads, context.diagnostics)


def open(library, *, threads=0):
    """A library that `weir compile` wrote."""
    context = lib.Context({}, None)
    loaded = context.check(lib.library.weir_open(context.handle, os.fsencode(library)))
    context.close()
    return Model(loaded, threads, context.diagnostics)


def _ports(port, n):
    def dim(text):
        return int(text) if text.lstrip(b"-").isdigit() else text.decode()

    def dtype(one):
        return one.object.decode() if one.object else "string" if one.dtype == abi.STRING else tensors.NAMES[one.dtype]

    return [Port(port[i].name.decode(), dtype(port[i]), tuple(dim(port[i].dims[k]) for k in range(port[i].rank)))
            for i in range(n)]


def _release(d, instance, pool, loaded):
    if instance:
        d.destroy(instance)
    if pool:
        d.pool_free(pool)
    lib.library.weir_unload(loaded)


class Model:
    """A compiled model. Calls from several threads take turns. `diagnostics`: the compiler's warnings."""

    def __init__(self, loaded, threads, diagnostics):
        self.diagnostics = diagnostics
        self._d = d = lib.library.weir_loaded_model(loaded).contents
        self._lock, self._instance, error = threading.Lock(), abi.HANDLE(), c.create_string_buffer(512)
        pool = d.pool_new(threads) if threads != 1 else None
        failed = d.create(pool, self._instance, error)
        self.close = weakref.finalize(self, _release, d, self._instance, pool, loaded)
        if failed:
            self.close()
            raise lib.Error(error.value.decode("utf-8", "replace"))
        self.name, self.build = d.name.decode(), json.loads(d.build)
        self.inputs, self.outputs = _ports(d.inputs, d.ninputs), _ports(d.outputs, d.noutputs)
        self.weights = _ports(d.weights, d.nweights)
        self._rooms = [tensors.Rooms() for _ in self.outputs]

    def __repr__(self):
        return f"<weir.Model {self.name}: {', '.join(p.name for p in self.inputs)} -> {', '.join(p.name for p in self.outputs)}>"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def _fail(self):
        raise lib.Error(self._d.error(self._instance).decode("utf-8", "replace"))

    def _in_order(self, given, ports, what):
        """Values by name or in order, in order. A list of numbers, or what the only port takes itself, is its value."""
        itself = len(ports) == 1 and ports[0].dtype.startswith(("seq", "map", "optional"))
        if len(given) == 1 and isinstance(given[0], dict) and set(given[0]) == {port.name for port in ports}:
            return [given[0][port.name] for port in ports]
        if len(given) == 1 and isinstance(given[0], (list, tuple)) and not itself \
                and (len(ports) != 1 or all(hasattr(one, "__dlpack__") for one in given[0])):
            given = given[0]
        if len(given) != len(ports) or (given and isinstance(given[0], dict) and not itself):
            raise TypeError(f"the model's {what}s are {', '.join(port.name for port in ports) or 'none'}; give each once, in this "
                            "order or all by name")
        return given

    def __call__(self, *inputs, out=None, **named):
        """Runs the model on its inputs in order, by keyword, or one dict by name. Gives the one output, or a tuple. `out`:
        arrays to write to, in order or by name."""
        kept, d = [], self._d
        given, made = (abi.Tensor * max(1, d.ninputs))(), (abi.Tensor * max(1, d.noutputs))()
        for i, value in enumerate(self._in_order(inputs + ((named,) if named else ()), self.inputs, "input")):
            self._fill(given[i], d.inputs[i], value, kept)
        with self._lock:
            if not self.close.alive:
                raise lib.Error("the model was closed")
            results = self._run_into(given, made, out) if out is not None else self._run(given, made)
        return results[0] if len(results) == 1 else tuple(results)

    def _fill(self, tensor, port, value, kept):
        if port.object:
            return tensors.fill_object(tensor, value, kept)
        self._check_place(value)
        if not isinstance(value, np.ndarray) and not hasattr(value, "__dlpack__") and port.dtype in tensors.NAMES:
            value = np.asarray(value, tensors.dtype_of(port.dtype))
        tensors.fill(tensor, value, kept)

    def _check_place(self, value):
        if tensors.on_device(value) and not self._d.submit:
            raise TypeError("a tensor must lie in the CPU's memory: the model was not compiled for a GPU")

    def _start(self, given, made):
        """A run; of a model for a GPU behind what the device's default stream holds, as DLPack hands tensors over."""
        d = self._d
        if not d.submit:
            return d.run(self._instance, given, made)
        return d.submit(self._instance, given, made, abi.STREAM_LEGACY) or d.wait(self._instance)

    def _run(self, given, made):
        d = self._d
        status = d.shapes(self._instance, given, made)
        owned = [bool(port.object) or port.dtype == abi.STRING for port in d.outputs[:d.noutputs]]
        for attempt in range(ROUNDS):
            if status not in (abi.OK, abi.E_CAPACITY):
                break
            arrays = [None if mine else tensors.room(made[i], attempt == 0, self._rooms[i]) for i, mine in enumerate(owned)]
            status = self._start(given, made)
            if status != abi.E_CAPACITY:
                break
        if status != abi.OK:
            self._fail()
        return [self._take(made[i]) if owned[i] else tensors.result(made[i], arrays[i]) for i in range(d.noutputs)]

    def _take(self, tensor):
        """Strings and objects lie in a block that is ours now."""
        try:
            if tensor.dtype == abi.OBJECT:
                return tensors.copy_value(c.cast(tensor.data, c.POINTER(abi.Value)).contents)
            return tensors.copy(tensor)
        finally:
            lib.free(tensor.data)

    def _run_into(self, given, made, out):
        kept = []
        out = list(self._in_order(out if isinstance(out, (list, tuple)) else (out,), self.outputs, "output"))
        for port, array, tensor in zip(self.outputs, out, made):
            shared = array.flags.writeable and array.flags.c_contiguous if isinstance(array, np.ndarray) else hasattr(array, "__dlpack__")
            if shared:
                self._check_place(array)
                tensors.fill(tensor, array, kept)
            if not shared or tensor.strides and not tensors.is_dense(tensor) or tensors.NAMES.get(tensor.dtype) != port.dtype \
                    or tensor.dtype in tensors.PACKED:
                raise TypeError(f'"{port.name}" wants a dense array of {port.dtype} to write to')
            tensor.strides, tensor.capacity = None, tensors.count_of(tensor)
        wanted = [tensors.shape_of(tensor) for tensor in made[:self._d.noutputs]]
        if self._start(given, made) != abi.OK:
            self._fail()
        for port, tensor, shape in zip(self.outputs, made, wanted):
            if tensors.shape_of(tensor) != shape:
                raise lib.Error(f'"{port.name}" has the shape {tensors.shape_of(tensor)}, the array given for it {shape}')
        return out

    def swap(self, weights):
        """Other values for some weights, for calls from now on; the model must be compiled with packing="swap"."""
        d, kept = self._d, []
        if not d.nweights:
            raise lib.Error('this model has no weights to swap; compile it with packing="swap"')
        values, names = (abi.Tensor * max(1, len(weights)))(), (c.c_char_p * max(1, len(weights)))()
        for i, (name, value) in enumerate(weights.items()):
            names[i] = name.encode()
            tensors.fill(values[i], np.ascontiguousarray(value).reshape(np.shape(value)), kept)
        error, made = c.create_string_buffer(512), abi.HANDLE()
        old = d.weights_of(self._instance)
        failed = d.weights_new(old, None, len(weights), names, values, made, error)
        if not failed:
            d.weights_use(self._instance, made)
            d.weights_free(made)
        d.weights_free(old)
        if failed:
            raise lib.Error(error.value.decode("utf-8", "replace"))
