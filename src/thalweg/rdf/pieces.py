"""Local files, plain or compressed, in pieces of whole lines."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from thalweg.errors import UsageError
from thalweg.lines import last_end
from thalweg.rdf.chunk import Reject
from thalweg.rdf.compression import Compression, compression_of
from thalweg.rdf.unpacking import BLOCK, UNPACK_RATIO, BrokenFile, unpacked

PIECE = 16 * 1024 * 1024
"""Bytes of a piece unless given."""


@dataclass
class pieces:  # noqa: N801 - it is called like the generator that it would be without `rejects`
    """Whole lines of a file as pairs (offset in the unpacked file, bytes); the last may lack its line end.

    After the iteration `rejects` has what could not be read (a compressed file that breaks off). With `reuse`,
    bytes are good only until the next piece: that spares memory, and the cache. `read_bytes` is how
    much of the text has been given.
    """

    path: str | Path
    size: int = PIECE
    reuse: bool = False
    unpack_ratio: int = UNPACK_RATIO
    rejects: list[Reject] = field(default_factory=list)
    read_bytes: int = 0

    def __iter__(self) -> Iterator[tuple[int, memoryview]]:
        for offset, data in self._pieces():
            self.read_bytes += len(data)
            yield offset, data

    def _pieces(self) -> Iterator[tuple[int, memoryview]]:
        try:
            if packed := compression_of(self.path):
                yield from self._packed(packed)
                return
            with open(self.path, "rb") as file:
                yield from self._plain(file.fileno())
        except (FileNotFoundError, IsADirectoryError, PermissionError) as error:
            raise UsageError(f"cannot read {self.path}: {error.strerror}") from None

    def _plain(self, file: int) -> Iterator[tuple[int, memoryview]]:
        # What follows the last line end is read again with the next piece: cheaper than joining bytes.
        offset = 0
        buffer = bytearray(self.size)
        while count := os.preadv(file, [buffer], offset):
            cut = last_end(buffer, 0, count)
            if cut == 0 or count < len(buffer):
                if count == len(buffer):
                    buffer = bytearray(2 * count)
                    continue
                # Perhaps the end of the file: only an empty read is sure.
                if os.pread(file, 1, offset + count):
                    continue
                cut = count
            yield offset, memoryview(buffer)[:cut]
            offset += cut
            if not self.reuse or len(buffer) > self.size:
                buffer = bytearray(self.size)

    def _packed(self, compression: Compression) -> Iterator[tuple[int, memoryview]]:
        offset = 0
        rest: list[bytes] = []
        for data in self._unpacked(compression):
            cut = last_end(data, 0, len(data))
            if cut == 0:
                rest.append(data)
                continue
            whole = b"".join([*rest, data[:cut]])
            yield offset, memoryview(whole)
            offset += len(whole)
            rest = [data[cut:]]
        last = b"".join(rest)
        if self.rejects:
            # The line at the break may look whole without being so.
            shown = last[:2000].decode("utf-8", "replace")[:500]
            self.rejects[-1] = replace(self.rejects[-1], text=shown)
        elif last:
            yield offset, memoryview(last)

    def _unpacked(self, compression: Compression) -> Iterator[bytes]:
        waiting: list[bytes] = []
        size = 0
        try:
            for block in unpacked(self.path, compression, self.unpack_ratio, min(self.size, BLOCK)):
                waiting.append(block)
                size += len(block)
                if size >= self.size:
                    yield b"".join(waiting)
                    waiting, size = [], 0
        except BrokenFile as broken:
            self.rejects.append(Reject(str(self.path), 0, 0, broken.reason, "", broken.kind))
        if waiting:
            yield b"".join(waiting)
