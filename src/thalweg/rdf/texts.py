"""Several texts read at once: messages are small, and a call of the scan kernel for each would cost more than it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from thalweg.lines import count
from thalweg.rdf.arena import Ids
from thalweg.rdf.chunk import NO_TIME, Chunk, Reject


@dataclass(frozen=True)
class Texts:
    """Texts as one chunk, whose rejects have the source of their text and the line in it."""

    chunk: Chunk
    text: Ids
    """For each row the place of its text."""
    statements: Ids
    """The number of statements of each text."""
    refused: frozenset[int] = frozenset()
    """The texts of which nothing could be read."""


def with_marks(texts: Sequence[bytes], mark: bytes, predicate: bytes) -> bytes:
    """Texts of lines as one, each behind a statement that marks where it begins."""
    return b"".join(b'%s %s "%d" .\n%s' % (mark, predicate, k, ended(text)) for k, text in enumerate(texts))


def ended(text: bytes) -> bytes:
    """A text whose last line ends."""
    return text if text.endswith(b"\n") else text + b"\n"


def unmarked(chunk: Chunk, mark: int | None, texts: Sequence[bytes], sources: Sequence[str]) -> Texts:
    """The texts of a chunk that was read from `with_marks`; `mark` is the id of the mark in its arena."""
    marks = (chunk.s == (mark or -1)) & (chunk.g == 0) & (chunk.time != NO_TIME)
    rows = np.flatnonzero(~marks)
    rejects = tuple(_placed(chunk.rejects, texts, sources))
    plain = replace(chunk.picked(rows), statements=chunk.statements - len(texts), rejects=rejects)
    statements = np.diff(chunk.number[marks], append=chunk.statements) - 1
    return Texts(plain, (np.cumsum(marks) - 1)[rows], statements)


def _placed(rejects: Sequence[Reject], texts: Sequence[bytes], sources: Sequence[str]) -> list[Reject]:
    """Rejects of marked texts, as rejects of the texts."""
    starts = np.cumsum([0, *(count(ended(text)) + 1 for text in texts)])
    placed = []
    for reject in rejects:
        text = int(np.searchsorted(starts, reject.line, side="left")) - 1
        placed.append(replace(reject, source=sources[text], line=reject.line - 1 - int(starts[text])))
    return placed
