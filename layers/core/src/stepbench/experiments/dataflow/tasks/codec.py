"""
A value as one blob, and back: a header in JSON with the value's form, then its arrays and bytes as they are.

    bytes   0        4           8              16        24
            magic    header's    whole length   digest    header (JSON), zeros up to 64 n, buffer, zeros, buffer …
                     length

All numbers are little-endian. The digest is the XXH3 (64 bits) of everything but itself. The header holds the object's
key, so that another object's bytes, whole and well as they are, are recognised. A decoded array or `bytes` is a
read-only view of the blob: nothing is copied.

Nothing is executed on reading, as `pickle` would. numpy is imported only where a value has an array.
"""

from __future__ import annotations

import json
import struct
import sys
from math import prod
from typing import TYPE_CHECKING, Any, Final

import xxhash

from stepbench.contracts.dataflow.dag import MAX_OBJECT_BYTES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepbench.experiments.dataflow.tasks.application import Value

TRUNCATED: Final = "truncated"
"""The blob is shorter than it says."""
WRONG_LENGTH: Final = "wrong_length"
"""The blob is longer than it says."""
WRONG_DIGEST: Final = "wrong_digest"
WRONG_OBJECT: Final = "wrong_object"
"""The blob is another object's."""
GARBAGE: Final = "garbage"
"""The blob is not one of ours, or its header cannot be read."""

_MAGIC = b"SBv1"
_HEAD = struct.Struct("<4sIQ")
_DIGEST = struct.Struct("<Q")
_HEAD_BYTES = _HEAD.size + _DIGEST.size
_ALIGNMENT = 64
_INLINE_CHARS = 4_096
"""A longer text is a buffer: JSON would escape it."""
_NUMERIC = "biufc"
"""Kinds of arrays whose items are plain numbers."""


class CodecError(Exception):
    """The blob cannot be decoded; the text is one of this module's words."""


class NotEncodableError(Exception):
    """The value is of no kind that has a form here, or too large; the text says what and where."""


def encode(value: Value, key: str) -> bytes:
    """
    Return a value as a blob.

    Raises:
        NotEncodableError: it has a part that cannot be encoded, or is larger than an object may be.
    """
    buffers: list[memoryview] = []
    form = _form_of(value, buffers, "value")
    sizes = [buffer.nbytes for buffer in buffers]
    header = json.dumps({"key": key, "value": form, "buffers": sizes}, separators=(",", ":")).encode()
    total = _padded(_HEAD_BYTES + len(header)) + sum(_padded(size) for size in sizes)
    if total > MAX_OBJECT_BYTES:
        message = f"the value takes {total:,} bytes, and an object may have {MAX_OBJECT_BYTES:,}"
        raise NotEncodableError(message)
    head = _HEAD.pack(_MAGIC, len(header), total)
    parts: list[bytes | memoryview] = [header, bytes(-(_HEAD_BYTES + len(header)) % _ALIGNMENT)]
    for buffer in buffers:
        parts += [buffer, bytes(-buffer.nbytes % _ALIGNMENT)]
    digest = xxhash.xxh3_64(head)
    for part in parts:
        digest.update(part)
    return b"".join([head, _DIGEST.pack(digest.intdigest()), *parts])


def decode(blob: bytes | bytearray | memoryview, key: str) -> Value:
    """
    Return the value of a blob that was encoded for this key.

    Raises:
        CodecError: it is not whole, not as it was written, or another object's.
    """
    view = memoryview(blob).toreadonly().cast("B")
    header_bytes = _checked_head(view)
    try:
        header = json.loads(bytes(view[_HEAD_BYTES : _HEAD_BYTES + header_bytes]))
        if header["key"] != key:
            raise CodecError(WRONG_OBJECT)
        buffers = _buffers_of(view, _padded(_HEAD_BYTES + header_bytes), header["buffers"])
        return _value_of(header["value"], buffers)
    except (ValueError, KeyError, TypeError, IndexError) as error:
        raise CodecError(GARBAGE) from error


def _checked_head(view: memoryview) -> int:
    """Return the header's length, when length and digest are right."""
    if bytes(view[: len(_MAGIC)]) != _MAGIC[: view.nbytes]:
        raise CodecError(GARBAGE)
    if view.nbytes < _HEAD_BYTES:
        raise CodecError(TRUNCATED)
    _, header_bytes, total = _HEAD.unpack_from(view)
    if view.nbytes != total:
        raise CodecError(TRUNCATED if view.nbytes < total else WRONG_LENGTH)
    digest = xxhash.xxh3_64(view[: _HEAD.size])
    digest.update(view[_HEAD_BYTES:])
    if digest.intdigest() != _DIGEST.unpack_from(view, _HEAD.size)[0]:
        raise CodecError(WRONG_DIGEST)
    return int(header_bytes)


def _padded(size: int) -> int:
    return size + -size % _ALIGNMENT


def _buffers_of(view: memoryview, start: int, sizes: Sequence[int]) -> list[memoryview]:
    buffers = []
    for size in sizes:
        buffers.append(view[start : start + size])
        start += _padded(size)
    return buffers


def _form_of(value: Value, buffers: list[memoryview], path: str) -> Any:  # noqa: ANN401 -- JSON
    """Return a value's form in the header; what is long goes into the buffers."""
    match value:
        case str() if len(value) > _INLINE_CHARS:
            return {"text": _add(memoryview(value.encode("utf-8", "surrogatepass")), buffers)}
        case None | bool() | int() | float() | str():
            return value
        case bytes() | bytearray() | memoryview():
            return {"bytes": _add(_flat(value, path), buffers)}
        case list() | tuple():
            return [_form_of(each, buffers, f"{path}[{place}]") for place, each in enumerate(value)]
        case dict():
            for name in value:
                if not isinstance(name, str):
                    message = f"{path} has the key {name!r}, and keys have to be text"
                    raise NotEncodableError(message)
            return {"dict": {name: _form_of(each, buffers, f"{path}.{name}") for name, each in value.items()}}
        case _:
            return {"array": _array_form(value, buffers, path)}


def _array_form(value: Value, buffers: list[memoryview], path: str) -> list[Any]:
    numpy = sys.modules.get("numpy")
    if numpy is None or not isinstance(value, numpy.ndarray) or value.dtype.kind not in _NUMERIC:
        kind = getattr(value, "dtype", None) or type(value).__name__
        message = f"{path} is a {kind}, which cannot be passed on: use arrays of numbers, bytes, text, numbers, lists"
        raise NotEncodableError(message)
    is_fortran = value.flags.f_contiguous and not value.flags.c_contiguous
    rows = numpy.ascontiguousarray(value.T if is_fortran else value)
    place = _add(memoryview(rows.reshape(-1).view(numpy.uint8)), buffers)
    return [place, value.dtype.str, list(value.shape), "F" if is_fortran else "C"]


def _flat(value: bytes | bytearray | memoryview, path: str) -> memoryview:
    view = memoryview(value)
    if not view.c_contiguous:
        message = f"{path} is a memoryview with gaps, which cannot be passed on: make bytes of it"
        raise NotEncodableError(message)
    return view.cast("B") if view.nbytes else memoryview(b"")


def _add(buffer: memoryview, buffers: list[memoryview]) -> int:
    buffers.append(buffer)
    return len(buffers) - 1


def _value_of(form: Any, buffers: Sequence[memoryview]) -> Value:  # noqa: ANN401 -- JSON
    """Return the value of a form."""
    if isinstance(form, list):
        return [_value_of(each, buffers) for each in form]
    if not isinstance(form, dict):
        return form
    ((kind, content),) = form.items()
    match kind:
        case "dict":
            return {name: _value_of(each, buffers) for name, each in content.items()}
        case "text":
            return bytes(buffers[content]).decode("utf-8", "surrogatepass")
        case "bytes":
            return buffers[content]
        case "array":
            return _array_of(content, buffers)
        case _:
            raise CodecError(GARBAGE)


def _array_of(content: Sequence[Any], buffers: Sequence[memoryview]) -> Value:
    import numpy as np  # noqa: PLC0415 -- a task without arrays does without

    place, kind, shape, order = content
    dtype = np.dtype(kind)
    if prod(shape) * dtype.itemsize != buffers[place].nbytes:
        raise CodecError(GARBAGE)
    if not prod(shape):
        return np.empty(shape, dtype, order=order)
    return np.ndarray(shape, dtype, buffer=buffers[place], order=order)
