#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""ONNX files written by hand: just enough protobuf to make models that no library would write.

A message is bytes; `field(number, value)` encodes one field by the type of its value: int -> varint,
float -> fixed 32, bytes and str -> length-delimited. `fields(message)` takes one apart again. The
functions below them build the messages of onnx.proto; numbers are its field numbers.
"""
import struct


def varint(value):
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def field(number, value):
    if isinstance(value, bool) or isinstance(value, int):
        return varint(number << 3) + varint(value)
    if isinstance(value, float):
        return varint(number << 3 | 5) + struct.pack("<f", value)
    if isinstance(value, str):
        value = value.encode()
    return varint(number << 3 | 2) + varint(len(value)) + value


def repeated(number, values):
    return b"".join(field(number, value) for value in values)


def read_varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at


def fields(data):
    """(number, wire type, start of the field, start of its content, end) of each field of a message."""
    at = 0
    while at < len(data):
        start = at
        key, at = read_varint(data, at)
        kind, content = key & 7, at
        if kind == 0:
            _, at = read_varint(data, at)
        elif kind == 2:
            size, content = read_varint(data, at)
            at = content + size
        else:
            at += 8 if kind == 1 else 4
        yield key >> 3, kind, start, content, at


# ---- messages of onnx.proto ------------------------------------------------------------------------

FLOAT, UINT8, INT32, INT64, STRING, BOOL = 1, 2, 6, 7, 8, 9


def dim(size):
    return b"" if size is None else field(2 if isinstance(size, str) else 1, size)


def value_info(name, shape, dtype=FLOAT):
    """A ValueInfoProto; shape None: no shape; dims are numbers, symbols, or None."""
    tensor = field(1, dtype)
    if shape is not None:
        tensor += field(2, b"".join(field(1, dim(size)) for size in shape))
    return field(1, name) + field(2, field(1, tensor))


def tensor(name, dims, values=None, dtype=FLOAT, raw=None):
    out = repeated(1, dims) + field(2, dtype) + field(8, name)
    if raw is not None:
        return out + field(9, raw)
    code = {FLOAT: "<%df", INT64: "<%dq", INT32: "<%di"}[dtype]
    return out + field(9, struct.pack(code % len(values), *values))


def external(name, dims, dtype=FLOAT, **entries):
    pairs = [field(1, key) + field(2, str(value)) for key, value in entries.items()]
    return repeated(1, dims) + field(2, dtype) + field(8, name) + repeated(13, pairs) + field(14, 1)


def attribute(name, value):
    """An AttributeProto by the Python type of its value; bytes are a graph, ("t", bytes) a tensor."""
    out = field(1, name)
    if isinstance(value, float):
        return out + field(2, value) + field(20, 1)
    if isinstance(value, int):
        return out + field(3, value) + field(20, 2)
    if isinstance(value, str):
        return out + field(4, value) + field(20, 3)
    if isinstance(value, tuple):
        return out + field(5, value[1]) + field(20, 4)
    if isinstance(value, bytes):
        return out + field(6, value) + field(20, 5)
    return out + repeated(8, value) + field(20, 7)


def node(op, inputs, outputs, name=None, domain=None, **attributes):
    out = repeated(1, inputs) + repeated(2, outputs)
    out += field(3, name if name is not None else "the_" + op) + field(4, op)
    out += repeated(5, [attribute(key, value) for key, value in attributes.items()])
    return out + (field(7, domain) if domain else b"")


def graph(nodes, inputs, outputs, initializers=(), name="g"):
    return (repeated(1, nodes) + field(2, name) + repeated(5, initializers) + repeated(11, inputs) +
            repeated(12, outputs))


def opset(version, domain=""):
    return field(8, (field(1, domain) if domain else b"") + field(2, version))


def model(the_graph, version=17, ir=8, extra=b""):
    return field(1, ir) + (opset(version) if version is not None else b"") + extra + field(7, the_graph)
