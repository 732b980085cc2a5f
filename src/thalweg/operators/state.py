"""Saved state: nested dictionaries of plain values and integer arrays, as bytes with a version and a checksum."""

from __future__ import annotations

import json
import struct
import zlib
from typing import Any

import numpy as np

State = dict[str, Any]

_MAGIC = b"THALWEG\n"
_HEAD = struct.Struct("<8sIIQ")  # magic, version, checksum of the rest, size of the outline
_ARRAY = "$array"


def pack(state: State, version: int) -> bytes:
    """A state as bytes; arrays are kept as they are, everything else as JSON.

    >>> unpack(pack({"rows": np.arange(3), "name": "x"}, 1), 1)
    {'rows': array([0, 1, 2]), 'name': 'x'}
    """
    arrays: list[bytes] = []
    outline = json.dumps(_outline(state, arrays)).encode()
    body = b"".join([outline, *arrays])
    return _HEAD.pack(_MAGIC, version, zlib.crc32(body), len(outline)) + body


def unpack(data: bytes, version: int) -> State:
    """The state of such bytes; a ValueError has what is wrong with them."""
    if len(data) < _HEAD.size or not data.startswith(_MAGIC):
        raise ValueError("these are not the bytes of a saved session")
    _, found, checksum, size = _HEAD.unpack_from(data)
    if found != version:
        raise ValueError(f"it was saved in format {found}, and this version reads format {version}")
    body = memoryview(data)[_HEAD.size :]
    if zlib.crc32(body) != checksum:
        raise ValueError("the bytes are damaged or cut short")
    state: State = _restored(json.loads(bytes(body[:size])), body[size:])
    return state


def _outline(value: Any, arrays: list[bytes]) -> Any:
    if isinstance(value, dict):
        return {key: _outline(item, arrays) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_outline(item, arrays) for item in value]
    if isinstance(value, np.ndarray):
        place = sum(map(len, arrays))
        arrays.append(np.ascontiguousarray(value).tobytes())
        return {_ARRAY: [place, value.dtype.str, list(value.shape)]}
    return value.item() if isinstance(value, np.generic) else value


def _restored(value: Any, body: memoryview) -> Any:
    if isinstance(value, list):
        return [_restored(item, body) for item in value]
    if not isinstance(value, dict):
        return value
    if _ARRAY not in value:
        return {key: _restored(item, body) for key, item in value.items()}
    place, dtype, shape = value[_ARRAY]
    count = int(np.prod(shape, dtype=np.int64))
    size = count * np.dtype(dtype).itemsize
    return np.frombuffer(body[place : place + size], dtype).reshape(shape).copy()
