"""Writes small ONNX models without the onnx package: the few protobuf fields that the tests need."""
import struct

FLOAT, INT64 = 1, 7


def _varint(value):
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes(out) + bytes([value])


def _int(field, value):
    return _varint(field << 3) + _varint(value)


def _bytes(field, value):
    value = value.encode() if isinstance(value, str) else value
    return _varint(field << 3 | 2) + _varint(len(value)) + value


def _attribute(name, value):
    out = _bytes(1, name)
    if isinstance(value, float):
        return out + _varint(2 << 3 | 5) + struct.pack("<f", value) + _int(20, 1)
    if isinstance(value, int):
        return out + _int(3, value) + _int(20, 2)
    if isinstance(value, str):
        return out + _bytes(4, value) + _int(20, 3)
    return out + b"".join(_int(8, v) for v in value) + _int(20, 7)


def node(op, inputs, outputs, name="", domain="", **attributes):
    out = b"".join(_bytes(1, i) for i in inputs) + b"".join(_bytes(2, o) for o in outputs)
    out += _bytes(3, name or outputs[0]) + _bytes(4, op)
    out += b"".join(_bytes(5, _attribute(k, v)) for k, v in attributes.items())
    return out + (_bytes(7, domain) if domain else b"")


def value(name, type, shape):
    dims = b"".join(_bytes(1, _int(1, d) if isinstance(d, int) else _bytes(2, d)) for d in shape)
    return _bytes(1, name) + _bytes(2, _bytes(1, _int(1, type) + _bytes(2, dims)))


def tensor(name, array):
    type = {"float32": FLOAT, "int64": INT64}[str(array.dtype)]
    return b"".join(_int(1, d) for d in array.shape) + _int(2, type) + _bytes(8, name) + _bytes(9, array.tobytes())


def external_tensor(name, shape, location, offset, length):
    entries = {"location": location, "offset": str(offset), "length": str(length)}
    out = b"".join(_int(1, d) for d in shape) + _int(2, FLOAT) + _bytes(8, name)
    out += b"".join(_bytes(13, _bytes(1, k) + _bytes(2, v)) for k, v in entries.items())
    return out + _int(14, 1)


def noted(name, kind):
    """What PyTorch's exporter notes of an initializer: PARAMETER, BUFFER or CONSTANT_TENSOR."""
    return _bytes(1, name) + _bytes(4, _bytes(1, "pkg.torch.export.graph_signature.InputSpec.kind") + _bytes(2, kind))


def model(nodes, inputs, outputs, initializers=(), opset=18, domains=(), values=()):
    graph = b"".join(_bytes(1, n) for n in nodes) + _bytes(2, "g")
    graph += b"".join(_bytes(5, t) for t in initializers)
    graph += b"".join(_bytes(11, i) for i in inputs) + b"".join(_bytes(12, o) for o in outputs)
    graph += b"".join(_bytes(13, v) for v in values)
    out = _int(1, 8) + _bytes(2, "tests") + _bytes(7, graph) + _bytes(8, _bytes(1, "") + _int(2, opset))
    return out + b"".join(_bytes(8, _bytes(1, d) + _int(2, 1)) for d in domains)
