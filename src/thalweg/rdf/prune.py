"""What the queries can use of a stream: signatures, compiled to the tables that the scan kernel reads."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from thalweg.kernels import scan as kernel
from thalweg.kernels.bits import SLACK
from thalweg.kernels.checking import address_of
from thalweg.kernels.hashing import keys_of
from thalweg.rdf.arena import Bytes, Ids


@dataclass(frozen=True)
class Signature:
    """The constants of a triple pattern as canonical texts; None is a variable."""

    s: bytes | None
    p: bytes | None
    o: bytes | None

    def __post_init__(self) -> None:
        if self.p is not None and not self.p.startswith(b"<"):
            raise ValueError(f"not a predicate: {self.p!r}")

    @property
    def kind(self) -> int:
        """The kernel's bit for which of subject and object are constant."""
        if self.s is None:
            return kernel.ANY if self.o is None else kernel.OBJECT
        return kernel.SUBJECT if self.o is None else kernel.BOTH


class Prune:
    """A set of signatures: a row is kept if one agrees with it (a hash may agree by chance: that keeps too
    much).

    >>> Prune.of([Signature(None, b"<http://ex/p>", None)]) == Prune.everything()
    False
    """

    def __init__(self, signatures: frozenset[Signature]) -> None:
        self.signatures = signatures
        self._compile()

    @classmethod
    def of(cls, signatures: Iterable[Signature]) -> Prune:
        """Keep what one of these signatures agrees with; none keeps nothing."""
        return cls(frozenset(signatures))

    @classmethod
    def everything(cls) -> Prune:
        """Keep every statement."""
        return cls(frozenset([Signature(None, None, None)]))

    @property
    def fingerprint(self) -> str:
        """A digest of the signatures: equal for equal sets, in every process."""
        digest = hashlib.sha256()
        for signature in sorted(self.signatures, key=lambda one: (one.p or b"", one.s or b"", one.o or b"")):
            for part in (signature.s, signature.p, signature.o):
                digest.update(b"?" if part is None else b"%d:%b" % (len(part), part))
        return digest.hexdigest()[:32]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Prune) and self.signatures == other.signatures

    def __hash__(self) -> int:
        return hash(self.signatures)

    def __reduce__(self) -> tuple[type[Prune], tuple[frozenset[Signature]]]:
        return Prune, (self.signatures,)

    def _compile(self) -> None:
        signatures = sorted(
            self.signatures, key=lambda one: (one.p or b"", one.s or b"", one.o or b"", one.kind)
        )
        predicates = sorted({one.p for one in signatures if one.p is not None})
        number = {text: k + 1 for k, text in enumerate(predicates)}
        texts = sorted({text for one in signatures for text in (one.s, one.p, one.o) if text is not None})
        joined = b"".join(texts)
        self.texts: Bytes = np.zeros(len(joined) + SLACK, dtype=np.uint8)
        self.texts[: len(joined)] = np.frombuffer(joined, dtype=np.uint8)
        sizes = np.array([len(text) for text in texts], dtype=np.int64)
        hashes = np.zeros(len(texts), dtype=np.int64)
        quicks = np.zeros(len(texts), dtype=np.int64)
        keys_of(address_of(self.texts), sizes, hashes, quicks)
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        place = {text: k for k, text in enumerate(texts)}

        # Predicates by their quick key: (key, offset of the text, size, number), number 0 = free.
        self.table: Ids = np.zeros((_room(len(predicates)), 4), dtype=np.int64)
        for text, which in number.items():
            k = place[text]
            i = int(quicks[k]) & (len(self.table) - 1)
            while self.table[i, 3]:
                i = (i + 1) & (len(self.table) - 1)
            self.table[i] = quicks[k], offsets[k], sizes[k], which

        # Which kinds of signatures a predicate has (0: signatures with a variable predicate), and their
        # constants.
        self.wants: Ids = np.zeros(len(predicates) + 1, dtype=np.int64)
        keys = set()
        for one in signatures:
            which = number[one.p] if one.p is not None else 0
            self.wants[which] |= one.kind
            if one.kind != kernel.ANY:
                s = int(hashes[place[one.s]]) if one.s is not None else 0
                o = int(hashes[place[one.o]]) if one.o is not None else 0
                keys.add(int(kernel.pair_key(which, s, o)))
        self.pairs: Ids = np.zeros(_room(len(keys)), dtype=np.int64)
        for key in sorted(keys):
            i = key & (self.pairs.size - 1)
            while self.pairs[i]:
                i = (i + 1) & (self.pairs.size - 1)
            self.pairs[i] = key


def _room(entries: int) -> int:
    """Slots of an open table for so many entries: a power of two, at most half full."""
    return 1 << max(3, (2 * entries).bit_length())
