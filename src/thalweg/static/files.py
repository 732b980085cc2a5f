"""Static documents as binary files: written once, then mapped into memory by every process that needs them.

A file has a header (JSON, with the digest of its source), then columns and terms as they are in memory, each part at a
multiple of 64 bytes with a checksum. It is written beside its place and renamed, so that nobody sees half of one.
"""

from __future__ import annotations

import hashlib
import json
import os
import struct
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from isal import isal_zlib

from thalweg.rdf.arena import Arena
from thalweg.rdf.formats import Format
from thalweg.static.document import Document
from thalweg.static.reading import available_memory, check_memory, needed_memory, read_document

_MAGIC = b"TWSTATIC"
_VERSION = 1
_FRONT = struct.Struct("<8sII")
_ALIGN = 64
_BLOCK = 1 << 24


class BrokenStaticFileError(ValueError):
    """A binary file that is damaged, or of another version."""


def write_document(document: Document, path: Path, about: dict[str, Any] | None = None) -> None:
    """Writes a document to a file that `map_document` reads; `about` is what its header has beside that."""
    arena = document.arena
    parts: list[np.ndarray] = [arena.head, arena.slots, arena.log]
    for columns in document.graphs.values():
        parts += columns
    header = {
        "source": document.source,
        "digest": document.digest,
        "has_blanks": document.has_blanks,
        "graphs": list(document.graphs),
        "about": about or {},
    }
    write_arrays(path, header, parts)


def write_arrays(path: Path, header: dict[str, Any], parts: Sequence[np.ndarray]) -> None:
    """Writes arrays to a file that `map_arrays` reads, with a header."""
    described = [[str(part.dtype), part.size, _checksum(part)] for part in parts]
    text = json.dumps({**header, "parts": described}).encode()
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=".static-", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(_FRONT.pack(_MAGIC, _VERSION, len(text)))
            file.write(text)
            for part in parts:
                file.write(bytes(-file.tell() % _ALIGN))
                file.write(np.ascontiguousarray(part).data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def map_document(path: Path, *, check: bool = True) -> tuple[Document, dict[str, Any]]:
    """The document of a file, mapped, and what was written about it. A damaged file is a `BrokenStaticFileError`."""
    header, arrays = map_arrays(path, check=check)
    try:
        head, slots, log, *columns = arrays
        arena = Arena()
        arena.head, arena.slots, arena.log = head.copy(), slots, log
        graphs = {
            name: (columns[3 * k], columns[3 * k + 1], columns[3 * k + 2])
            for k, name in enumerate(header["graphs"])
        }
        document = Document(header["source"], header["digest"], graphs, arena, header["has_blanks"], path)
        return document, header["about"]
    except (ValueError, KeyError, TypeError, IndexError) as error:
        raise BrokenStaticFileError(f"{path} is no file of static data: {error}") from None


def map_arrays(path: Path, *, check: bool = True) -> tuple[dict[str, Any], list[np.ndarray]]:
    """The header of a file, and its arrays, mapped. A damaged file is a `BrokenStaticFileError`."""
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            front = file.read(_FRONT.size)
            if len(front) < _FRONT.size:
                raise ValueError("it is too short")
            magic, version, length = _FRONT.unpack(front)
            if magic != _MAGIC or version != _VERSION or length > size:
                raise ValueError("it is of another kind or version")
            header = json.loads(file.read(length))
            at = file.tell()
            arrays = []
            for kind, count, checksum in header["parts"]:
                at += -at % _ALIGN
                dtype = np.dtype(kind)
                if at + count * dtype.itemsize > size:
                    raise ValueError("it is too short")
                # Private pages: kernels take arrays that can be written to, and nobody writes to these.
                array = (
                    np.memmap(file, dtype, "c", at, (count,)).view(np.ndarray)
                    if count
                    else np.empty(0, dtype)
                )
                if check and _checksum(array) != checksum:
                    raise ValueError("a checksum is wrong")
                arrays.append(array)
                at += array.nbytes
        return header, arrays
    except (OSError, ValueError, KeyError, TypeError, IndexError) as error:
        raise BrokenStaticFileError(f"{path} is no file of static data: {error}") from None


def _checksum(array: np.ndarray) -> int:
    data = array.view(np.uint8)
    found = 0
    for start in range(0, len(data), _BLOCK):
        found = isal_zlib.crc32(data[start : start + _BLOCK].data, found)
    return found


def open_document(path: Path, format: Format, cache: Path | None) -> Document:
    """The document of a file of static data; with a `cache` folder, from a former reading if the file is the same.

    It is the same if its size and its time of change are. A cache that is damaged is made anew.
    """
    if cache is None:
        check_memory(path, needed_memory(path, format), available_memory())
        return read_document(path, format)
    status = path.stat()
    state = [status.st_size, status.st_mtime_ns]
    place = cache / f"{_name_of(path, format)}.twstatic"
    if place.exists():
        try:
            document, about = map_document(place)
        except BrokenStaticFileError:
            pass
        else:
            if about.get("state") == state:
                return document
    check_memory(path, needed_memory(path, format), available_memory())
    document = read_document(path, format)
    after = path.stat()
    if [after.st_size, after.st_mtime_ns] == state:  # else it has changed while it was read
        write_document(document, place, {"state": state, "path": str(path.resolve())})
        document, _ = map_document(place, check=False)
    return document


def stamp_of(path: Path) -> str:
    """A digest of the header of a file, which has the checksums of all that is in it."""
    try:
        with path.open("rb") as file:
            front = file.read(_FRONT.size)
            return hashlib.blake2b(front + file.read(_FRONT.unpack(front)[2]), digest_size=16).hexdigest()
    except (OSError, struct.error) as error:
        raise BrokenStaticFileError(f"{path} is no file of static data: {error}") from None


def _name_of(path: Path, format: Format) -> str:
    """The name of a cached file: that of the source, and a digest of its place and format."""
    key = f"{path.resolve()}\n{format.name}\n{_VERSION}".encode()
    safe = "".join(letter if letter.isalnum() or letter in "._-" else "_" for letter in path.name)[:60]
    return f"{safe}-{hashlib.blake2b(key, digest_size=8).hexdigest()}"
