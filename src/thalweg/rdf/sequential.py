"""What readers of events have in common that take a source in pieces and let another reader read its statements."""

from __future__ import annotations

import numpy as np

from thalweg.rdf.arena import Arena, Bytes
from thalweg.rdf.chunk import Chunk
from thalweg.rdf.formats import SequentialReader
from thalweg.rdf.prune import Prune
from thalweg.rdf.timestamped import merged


class OverReader:
    """A reader over another one, whose arena and prune are its own."""

    def __init__(self, inner: SequentialReader, source: str) -> None:
        self.inner = inner
        self.source = source

    @property
    def arena(self) -> Arena:
        """Where terms go."""
        return self.inner.arena

    @arena.setter
    def arena(self, arena: Arena) -> None:
        self.inner.arena = arena

    @property
    def prune(self) -> Prune:
        """What is kept of the statements."""
        return self.inner.prune

    @prune.setter
    def prune(self, prune: Prune) -> None:
        self.inner.prune = prune

    def feed(self, data: bytes | memoryview | Bytes, *, offset: int = 0) -> Chunk:
        """The events that a piece completes."""
        raise NotImplementedError

    def finish(self, *, broken: bool = False) -> Chunk:
        """The events that the end of the source completes."""
        raise NotImplementedError

    def read(self, data: bytes | memoryview | Bytes, *, offset: int = 0) -> Chunk:
        """The events of a whole source."""
        return merged([self.feed(data, offset=offset), self.finish()])

    def nothing(self) -> Chunk:
        """A chunk without events."""
        none = np.empty(0, np.int64)
        return Chunk(0, 0, none, none, none, none, none, none, source=self.source)
