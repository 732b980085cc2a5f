"""Compressed files as blocks of their text: one loop for all compressions, with a limit for bombs.

The decompressors have one interface: `decompress(data, max_length)`, `needs_input`, `eof`, `unused_data`. None of them
is asked for more than a block at once, so that a small file cannot fill the memory.
"""

from __future__ import annotations

import bz2
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from thalweg.rdf.chunk import RejectKind
from thalweg.rdf.compression import Compression, compression_by_magic

# Measured: larger blocks leave the cache.
_FEED, BLOCK = 1 << 16, 1 << 18
UNPACK_RATIO = 200
"""How many times its size a file may unpack to, unless given."""
UNPACK_FREE = 64 << 20
"""Bytes of text that any file may unpack to."""


class BrokenFile(Exception):  # noqa: N818 - it is a finding about data, raised and caught within the reader
    """Why a compressed file cannot be read on."""

    def __init__(self, reason: str, kind: RejectKind) -> None:
        super().__init__(reason)
        self.reason, self.kind = reason, kind


def unpacked(
    path: str | Path, compression: Compression, ratio: int = UNPACK_RATIO, block: int = BLOCK
) -> Iterator[bytes]:
    """The text of a compressed file in blocks; then BrokenFile if it breaks off, is damaged or unpacks to too much.

    A file may have several members, one after the other, and zeros behind the last one. A `ratio` of 0 is no limit.
    """
    title = compression.title
    with open(path, "rb") as file:
        data = file.read(_FEED)
        if not data:
            return
        if compression_by_magic(data) is not compression:
            raise BrokenFile(f"this is not a {title} file", "malformed")
        packed, size = len(data), 0
        unpacker = _unpacker(title)
        while data or not unpacker.needs_input:
            try:
                text = unpacker.decompress(data, block)
            except Exception as error:  # each library has its own
                raise BrokenFile(f"the {title} file breaks off: {error}", "damaged") from None
            size += len(text)
            if ratio and size > UNPACK_FREE and size > ratio * packed:
                reason = (
                    f"the {title} file unpacks to more than {ratio} times its size: if it is no bomb, raise "
                    "unpack_ratio (--unpack-ratio), or unpack it first"
                )
                raise BrokenFile(reason, "oversized")
            if text:
                yield text
            if unpacker.eof:
                data = unpacker.unused_data.lstrip(b"\0")
                while not data:
                    if not (more := file.read(_FEED)):
                        return
                    packed += len(more)
                    data = more.lstrip(b"\0")
                unpacker = _unpacker(title)
            else:
                data = file.read(_FEED) if unpacker.needs_input else b""
                packed += len(data)
        raise BrokenFile(f"the {title} file breaks off: its end is missing", "truncated")


def _unpacker(title: str) -> Any:
    """A decompressor of one member: the fastest that there is as a library (docs/decisions/0026)."""
    if title == "gzip":
        from isal import igzip_lib

        return igzip_lib.IgzipDecompressor(flag=igzip_lib.DECOMP_GZIP)
    if title == "zstd":
        if sys.version_info >= (3, 14):
            from compression import zstd
        else:
            from backports import zstd
        return zstd.ZstdDecompressor()
    return bz2.BZ2Decompressor()
