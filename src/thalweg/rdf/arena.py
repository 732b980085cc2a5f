"""The arena of kept terms: canonical N-Triples texts to 64-bit ids and back, exact in spite of collisions."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thalweg.kernels import arena as kernel
from thalweg.kernels.bits import SLACK
from thalweg.kernels.checking import address_of
from thalweg.kernels.conditions import decide
from thalweg.kernels.nodes import NODE, name_nodes
from thalweg.kernels.texts import front_code, front_decode
from thalweg.kernels.values import read_values

Ids = NDArray[np.int64]
Bytes = NDArray[np.uint8]

_LEAST_SLOTS = 256
_LEAST_LOG = 16 * 1024
_MOST_TEXT = 2**32 - 1
_FEW_TEXTS = 64
_MANY_TEXTS = 1024
_FEW_INTERNED = 16
_COPIED = 16  # a log of so many times the bytes of some texts is copied for them


class FrontCoded(NamedTuple):
    """Front-coded texts: one after the other, each without the prefix that it shares with the one before."""

    shared: NDArray[np.uint8]
    """How many bytes are left out."""
    sizes: NDArray[np.uint32]
    """How many are there."""
    rests: Bytes


class Arena:
    """Texts of the terms that something still refers to; an id is a hash of its text, 0 is no term.

    >>> arena = Arena()
    >>> id = arena.intern(b"<http://ex/a>")
    >>> arena.text(id), arena.find(b"<http://ex/a>") == id, arena.find(b"<http://ex/b>")
    ('<http://ex/a>', True, 0)
    """

    def __init__(self, hash_mask: int = -1) -> None:
        """`hash_mask` narrows the first candidate of an id; tests use it to make collisions."""
        self.head = np.zeros(8, dtype=np.int64)
        self.head[kernel.MASK] = hash_mask
        self.slots = np.zeros(2 * _LEAST_SLOTS, dtype=np.int64)
        self.log = np.empty(_LEAST_LOG, dtype=np.uint8)
        self.generation = 0
        """How often terms have been dropped. Within one generation an id keeps its text."""
        self._make_pad(256)
        # Matching threads share an arena for what queries add to it: constants and new nodes.
        self._alone = Lock()

    def __len__(self) -> int:
        return int(self.head[kernel.COUNT])

    def __bool__(self) -> bool:
        # An empty arena must not vanish in `arena or Arena()`.
        return True

    @property
    def hash_mask(self) -> int:
        """What narrows the first candidate of an id."""
        return int(self.head[kernel.MASK])

    @property
    def used_bytes(self) -> int:
        """Bytes of the records and of the slots that they need."""
        return self.head.item(kernel.USED) + 16 * self.head.item(kernel.COUNT)

    @property
    def nbytes(self) -> int:
        """Bytes allocated."""
        return self.log.nbytes + self.slots.nbytes

    def clear(self) -> None:
        """Drop all terms; the memory stays."""
        self.generation += 1
        self.head[[kernel.USED, kernel.COUNT, kernel.COLLIDED]] = 0
        self.slots[:] = 0

    def reserve(self, terms: int, size: int) -> None:
        """Make room for so many more terms whose records take so many bytes; growth is by doubling."""
        wanted = int(self.head[kernel.USED]) + size + kernel.RECORD * terms + 4 * SLACK
        if wanted > self.log.size:
            log = np.empty(max(wanted, 2 * self.log.size), dtype=np.uint8)
            used = int(self.head[kernel.USED])
            log[:used] = self.log[:used]
            self.log = log
        # A little more than the kernels need, so that they do not stop again at once.
        slots = self.slots.size // 2
        while kernel.crowded(len(self) + terms + 8, slots):
            slots *= 2
        if slots != self.slots.size // 2:
            self._index(slots, int(self.head[kernel.USED]))

    def _index(self, slots: int, used: int) -> None:
        self.slots = np.zeros(2 * slots, dtype=np.int64)
        kernel.index(self.head, self.slots, self.log, used)

    def _make_pad(self, size: int) -> None:
        """Makes the array that texts are copied to. Its address is kept: NumPy takes longer for it than a lookup."""
        self._pad = np.zeros(size + SLACK, dtype=np.uint8)
        self._pad_at = address_of(self._pad)

    def _padded(self, text: bytes) -> int:
        """Address of a copy of the text with readable slack; it is good until the next call."""
        size = len(text)
        if size + SLACK > self._pad.size:
            self._make_pad(2 * size)
        self._pad[:size] = np.frombuffer(text, dtype=np.uint8)
        return self._pad_at

    def intern(self, text: bytes) -> int:
        """Id of a canonical text, which is entered if it is new."""
        if len(text) > _MOST_TEXT:
            raise ValueError("a term of more than 4 GiB")
        with self._alone:
            self.reserve(1, len(text))
            return int(kernel.intern(self.head, self.slots, self.log, self._padded(text), len(text)))

    def intern_all(self, texts: Sequence[bytes]) -> Ids:
        """Ids of canonical texts, which are entered if they are new."""
        if len(texts) < _FEW_INTERNED:
            return np.array([self.intern(text) for text in texts], dtype=np.int64)
        sizes = np.fromiter(map(len, texts), dtype=np.int64, count=len(texts))
        if sizes.max() > _MOST_TEXT:
            raise ValueError("a term of more than 4 GiB")
        joined = np.empty(int(sizes.sum()) + 4 * SLACK, dtype=np.uint8)
        joined[: -4 * SLACK] = np.frombuffer(b"".join(texts), dtype=np.uint8)
        return self.intern_joined(sizes, joined)

    def intern_joined(self, sizes: Ids, texts: Bytes) -> Ids:
        """Ids of canonical texts that lie one after the other, with slack behind them; new ones are entered."""
        with self._alone:
            self.reserve(0, int(sizes.sum()) + kernel.RECORD * sizes.size)
            return self._entered(sizes, texts)[1:]

    def find(self, text: bytes) -> int:
        """Id of a canonical text, or 0 if the arena does not have it."""
        return int(kernel.seek(self.head, self.slots, self.log, self._padded(text), len(text)))

    def text(self, id: int) -> str:
        """Canonical text of an id."""
        return self.texts(np.array([id], dtype=np.int64))[0]

    def texts(self, ids: Ids | Sequence[int]) -> list[str]:
        """Canonical texts of ids; each distinct one is decoded once."""
        wanted = np.ascontiguousarray(ids, dtype=np.int64).ravel()
        if wanted.size <= _FEW_TEXTS:  # finding the distinct ones would take longer than decoding all
            return self._decoded(wanted)
        if wanted.size <= _MANY_TEXTS:
            distinct, back = np.unique(wanted, return_inverse=True)
            decoded = self._decoded(distinct)
            return [decoded[k] for k in back.tolist()]
        found = self.bound_texts(wanted)
        if None in found:
            raise KeyError("the arena has no term 0")
        return found  # type: ignore[return-value]

    def bound_texts(self, ids: Ids) -> list[str | None]:
        """Canonical texts of ids, and None for 0; each distinct one is decoded once.

        >>> arena = Arena()
        >>> arena.bound_texts(np.array([arena.intern(b"<http://ex/a>"), 0]))
        ['<http://ex/a>', None]
        """
        wanted = np.ascontiguousarray(ids, dtype=np.int64).ravel()
        if wanted.size <= _FEW_TEXTS:
            known = iter(self._decoded(wanted[wanted != 0]))
            return [next(known) if id else None for id in wanted.tolist()]
        numbers, places = self._numbered(wanted)
        sizes = places[:, 1]
        if self.head.item(kernel.USED) <= _COPIED * int(sizes.sum()):
            # Bytes are sliced in a third of the time that parts of an array take.
            log = self.log[: self.head.item(kernel.USED)].tobytes()
            starts, ends = places[:, 0].tolist(), (places[:, 0] + sizes).tolist()
            decoded = [log[start:end].decode() for start, end in zip(starts, ends, strict=True)]
        else:
            decoded = self._decoded_at(places)
        texts = np.empty(len(decoded) + 1, dtype=object)
        texts[1:] = decoded
        return texts[numbers].tolist()  # type: ignore[no-any-return]

    def _numbered(self, wanted: Ids) -> tuple[NDArray[np.int32], Ids]:
        """Which term each id is: they are numbered from 1 on, 0 stays 0; and start and size of the text of each."""
        named = np.zeros(self.slots.size // 2, dtype=np.int32)
        numbers = np.empty(wanted.size, dtype=np.int32)
        places = np.empty((min(wanted.size, len(self)), 2), dtype=np.int64)
        count = kernel.number(self.slots, self.log, wanted, named, numbers, places)
        if count < 0:
            raise KeyError("the arena lacks a term")
        return numbers, places[:count]

    def texts_among_threads(self, ids: Sequence[int]) -> list[str]:
        """Canonical texts of ids, while other threads may enter terms."""
        with self._alone:
            return self._decoded(np.array(ids, dtype=np.int64))

    def _decoded(self, distinct: Ids) -> list[str]:
        places = np.empty((distinct.size, 2), dtype=np.int64)
        kernel.locate(self.slots, self.log, distinct, places)
        decoded = self._decoded_at(places)
        if "" in decoded:  # the text of no term
            raise KeyError(f"the arena has no term {distinct[decoded.index('')]}")
        return decoded

    def _decoded_at(self, places: Ids) -> list[str]:
        log = self.log.data
        return [str(log[start : start + size], "utf-8") for start, size in places.tolist()]

    def keys(self, ids: Ids) -> Ids:
        """For each id a number that depends on its text alone: the same in all arenas, whatever collided there."""
        if not self.head[kernel.COLLIDED]:
            return ids
        choices = np.empty(ids.size, dtype=np.int64)
        kernel.first_choices(self.head, self.slots, self.log, np.ascontiguousarray(ids), choices)
        return choices

    def initials(self, ids: Ids) -> Bytes:
        """The first byte of each id's text: `<`, `"` or `_`."""
        with self._alone:
            places = np.empty((ids.size, 2), dtype=np.int64)
            kernel.locate(self.slots, self.log, np.ascontiguousarray(ids), places)
            return self.log[places[:, 0]]

    def numbers(self, ids: Ids) -> tuple[NDArray[np.int8], NDArray[np.float64]]:
        """For each id the kind of its term and the number that it stands for, as `kernels.values` defines them.

        >>> arena = Arena()
        >>> half = arena.intern(b'"0.5"^^<http://www.w3.org/2001/XMLSchema#decimal>')
        >>> arena.numbers(np.array([half]))[1]
        array([0.5])
        """
        kinds = np.empty(ids.size, dtype=np.int8)
        numbers = np.empty(ids.size, dtype=np.float64)
        with self._alone:
            read_values(self.slots, self.log, np.ascontiguousarray(ids), kinds, numbers)
        return kinds, numbers

    def decide(
        self, program: Iterable[NDArray[Any]], rows: Ids, leaves: NDArray[np.int8], truths: NDArray[np.int8]
    ) -> None:
        """Run a program of `kernels.conditions` on rows of ids, and fill in their truths."""
        with self._alone:
            decide(*program, rows, leaves, self.slots, self.log, truths)

    def nodes(self, name: str, rows: Ids) -> Ids:
        """For each row of ids the blank node of that name: one text for equal rows, in all arenas.

        >>> arena = Arena()
        >>> row = np.array([[arena.intern(b"<http://ex/a>")]])
        >>> arena.text(arena.nodes("b", row)[0])[:3]
        '_:c'
        """
        seed = np.frombuffer(hashlib.blake2b(name.encode(), digest_size=16).digest(), dtype="<i8")
        nodes = np.empty(len(rows), dtype=np.int64)
        rows = np.ascontiguousarray(rows)
        done = 0
        with self._alone:
            while done < len(rows):
                done = name_nodes(self.head, self.slots, self.log, rows, seed, nodes, done)
                if done < 0:
                    raise KeyError("the arena lacks a term of a solution")
                if done < len(rows):
                    self.reserve(len(rows) - done, (len(rows) - done) * NODE + 4 * SLACK)
        return nodes

    def records(self) -> bytes:
        """All records, one after the other: what `merge` of another arena takes."""
        return self.log[: int(self.head[kernel.USED])].tobytes()

    def records_of(self, ids: Ids) -> bytes:
        """Records of these ids only (they may repeat; 0 and unknown ones are passed over)."""
        wanted = np.ascontiguousarray(ids, dtype=np.int64).ravel()
        if not wanted.any():
            return b""
        flags = np.zeros(self.slots.size // 2, dtype=np.uint8)
        kernel.mark(self.slots, wanted, flags)
        return self._gather(flags)[0].tobytes()

    def _gather(self, flags: Bytes, *, spare: bool = False) -> tuple[Bytes, Bytes]:
        """Flagged records, and the array that they are at the start of: with slack, or with room for as many again."""
        size = kernel.gather(self.head, self.slots, self.log, flags, np.empty(0, dtype=np.uint8))
        room = max(size, _LEAST_LOG) if spare else 0
        target = np.empty(size + room + 4 * SLACK, dtype=np.uint8)
        kernel.gather(self.head, self.slots, self.log, flags, target)
        return target[:size], target

    def merge(self, records: bytes | memoryview | Bytes) -> tuple[Ids, Ids] | None:
        """Enter the records of another arena; None, or (its ids, ours) where collisions made them differ."""
        size = len(records)
        self.reserve(0, size)
        # The kernel may look beyond a text's end.
        source = np.empty(size + SLACK, dtype=np.uint8)
        source[:size] = np.frombuffer(records, dtype=np.uint8)
        differing: list[NDArray[np.int64]] = []
        remap = np.empty((256, 2), dtype=np.int64)
        start = 0
        while start < size:
            start, pairs = kernel.merge(
                self.head, self.slots, self.log, address_of(source), size, start, remap
            )
            if start < 0:
                raise ValueError("not the records of an arena")
            if pairs:
                differing.append(remap[:pairs].copy())
            if start < size:
                self.reserve(len(self), size - start)
        if not differing:
            return None
        both = np.concatenate(differing)
        return both[:, 0].copy(), both[:, 1].copy()

    def export(self, ids: Ids) -> tuple[NDArray[np.int32], FrontCoded]:
        """The texts of ids, each once; first, which of them each id is: they are numbered from 1 on, 0 stays 0."""
        wanted = np.ascontiguousarray(ids, dtype=np.int64).ravel()
        numbers, places = self._numbered(wanted)
        count = len(places)
        shared = np.empty(count, dtype=np.uint8)
        rests = np.empty(int(places[:, 1].sum()) + 4 * SLACK, dtype=np.uint8)
        size = front_code(self.log, places, shared, rests)
        return numbers, FrontCoded(shared, (places[:, 1] - shared).astype(np.uint32), rests[:size])

    def enter(self, terms: FrontCoded) -> Ids:
        """The ids, by number, of texts that another arena has exported; the first is 0."""
        sizes = terms.shared.astype(np.int64) + terms.sizes
        if int(terms.sizes.sum(dtype=np.int64)) != len(terms.rests) or (
            sizes.size and (terms.shared[0] or (terms.shared[1:] > sizes[:-1]).any())
        ):
            raise ValueError("not the texts of an arena")
        total = int(sizes.sum())
        self.reserve(0, total + kernel.RECORD * sizes.size)
        # The kernels may look beyond a text's end.
        rests = np.empty(len(terms.rests) + 4 * SLACK, dtype=np.uint8)
        rests[: len(terms.rests)] = terms.rests
        texts = np.empty(total + 4 * SLACK, dtype=np.uint8)
        front_decode(rests, terms.shared, terms.sizes, texts)
        return self._entered(sizes, texts)

    def _entered(self, sizes: Ids, texts: Bytes) -> Ids:
        """The ids of texts, behind a first one that is 0; the log has room for all of them."""
        ids = np.zeros(sizes.size + 1, dtype=np.int64)
        pending = np.empty((kernel.PENDING, 4), dtype=np.int64)
        start, at = 0, address_of(texts)
        while start < sizes.size:
            start, at = kernel.enter(self.head, self.slots, self.log, at, sizes, start, pending, ids[1:])
            if start < sizes.size:
                self.reserve(len(self) + kernel.PENDING, 0)
        return ids

    def rescope(self, ids: Ids, scopes: Ids) -> None:
        """Replace, in place, each blank node `_:x` among ids by `_:e<scope>-x`, its scope being beside it."""
        start = 0
        while True:
            start = kernel.rescope(self.head, self.slots, self.log, ids, scopes, start)
            if start == ids.size:
                return
            longest = np.empty((1, 2), dtype=np.int64)
            kernel.locate(self.slots, self.log, ids[start : start + 1], longest)
            self.reserve(max(64, len(self)), int(longest[0, 1]) + 4 * SLACK)

    def compact(self, live: Ids) -> None:
        """Keep only these ids (any order, may repeat) and the texts that collisions make them need."""
        self.generation += 1
        flags = np.zeros(self.slots.size // 2, dtype=np.uint8)
        kernel.mark(self.slots, np.ascontiguousarray(live, dtype=np.int64).ravel(), flags)
        if self.head[kernel.COLLIDED]:
            kernel.close_over(self.head, self.slots, self.log, flags)
        # As much again will come before the next time: to make room twice would cost as much as this.
        kept, log = self._gather(flags, spare=True)
        self.log = log
        self._make_pad(256)
        slots = _LEAST_SLOTS
        while kernel.crowded(2 * int(np.count_nonzero(flags)) + 8, slots):
            slots *= 2
        self._index(slots, kept.size)
