"""The content of a store as columns: sorted triples by graph in a mapped file, and what came since in memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thalweg.rdf.arena import Arena, Ids
from thalweg.rdf.chunk import replace_ids
from thalweg.static.files import BrokenStaticFileError, map_arrays, write_arrays
from thalweg.store.facts import Facts
from thalweg.store.runs import O, P, Run, S

_KIND = "content of a store"
_SHARE = 16
"""The file is written anew when what came since is more than this part of it."""
_LEAST = 1 << 16
"""Triples below which it is not."""
_MORE_TERMS = 64 << 20


class Content:
    """Triples by graph. The largest run of a graph is mapped from a file; later ones are in memory.

    To set the state of triples that have it already changes nothing: a log may be brought in twice.
    """

    def __init__(self) -> None:
        self.arena = Arena()
        self.graphs: dict[str, list[Run]] = {}
        self.filed = 0
        """Triples in the file."""
        self.about: dict[str, Any] = {}
        """What was written with the file."""
        self._terms = 0

    @classmethod
    def of(cls, facts: Facts, arena: Arena) -> Content:
        """The content of facts that are all there."""
        made = cls()
        made.arena = arena
        made.set(facts)
        return made

    def __len__(self) -> int:
        return sum(run.size for runs in self.graphs.values() for run in runs)

    @property
    def names(self) -> list[str]:
        """The graphs that have triples."""
        return [name for name, runs in self.graphs.items() if any(run.size for run in runs)]

    @property
    def nbytes(self) -> int:
        """Bytes of columns and terms, mapped or not."""
        runs = (run for runs in self.graphs.values() for run in runs)
        return self.arena.nbytes + sum(32 * len(run) for run in runs)

    # Changing

    def set(self, facts: Facts) -> None:
        """Set the state of triples, one fact for each: there (op 1) or not (op -1)."""
        streams = np.unique(facts.stream).tolist()
        for stream in streams:
            name = self.arena.text(stream)[1:-1]
            own = facts if len(streams) == 1 else facts[facts.stream == stream]
            own = own[np.lexsort((own.o, own.s, own.p))]
            runs = self.graphs.setdefault(name, [])
            new = np.ones(len(own), np.bool_)
            for run in runs:
                if not new.any():
                    break
                places = run.locate(own.s, own.p, own.o)
                found = places >= 0
                run.switch(places[found], own.op[found] > 0)
                new &= ~found
            new &= own.op > 0
            if new.any():
                runs.append(Run.distinct(own.s[new], own.p[new], own.o[new]))
                _merge_last(runs, keep=1 if self.filed else 0)

    @property
    def is_outgrown(self) -> bool:
        """Whether so much came since the file was written that it is to be written anew."""
        runs = [run for runs in self.graphs.values() for run in runs]
        later = sum(map(len, runs)) - self.filed
        off = sum(len(run) - run.size for run in runs)
        # Queries leave their constants and what their expressions made in the arena.
        terms = bool(self.filed) and self.arena.used_bytes > 2 * self._terms + _MORE_TERMS
        return terms or self.outgrown_by(later + off)

    def outgrown_by(self, rows: int) -> bool:
        """Whether so many rows are too many to be read from the log each time."""
        return rows > max(_LEAST, self.filed // _SHARE)

    # Files

    def save(self, path: Path, about: Mapping[str, Any]) -> Content:
        """Write the content to a file, and answer it mapped from there."""
        graphs = {name: runs[0] if _is_whole(runs) else Run.merged(runs) for name, runs in self._filled()}
        arena = Arena()
        ids = [column for run in graphs.values() for column in run.columns]
        if ids:
            differing = arena.merge(self.arena.records_of(np.concatenate(ids)))
            if differing is not None:  # texts of equal hashes got other ids than before
                for name, run in graphs.items():
                    graphs[name] = Run.of(*(replace_ids(column, *differing) for column in run.columns))
        parts: list[NDArray[Any]] = [arena.head, arena.slots, arena.log]
        for run in graphs.values():
            parts += [*run.columns, run.by_s, run.by_o]
        write_arrays(path, {"kind": _KIND, "graphs": list(graphs), "about": dict(about)}, parts)
        return Content.mapped(path, check=False)

    @classmethod
    def mapped(cls, path: Path, *, check: bool = True) -> Content:
        """The content of a file; a damaged file is a `BrokenStaticFileError`."""
        header, arrays = map_arrays(path, check=check)
        if header.get("kind") != _KIND:
            raise BrokenStaticFileError(f"{path} is no content of a store")
        made = cls()
        head, slots, log, *columns = arrays
        made.arena.head, made.arena.slots, made.arena.log = head.copy(), slots, log
        made.graphs = {name: [Run(*columns[5 * k : 5 * k + 5])] for k, name in enumerate(header["graphs"])}
        made.filed = sum(len(runs[0]) for runs in made.graphs.values())
        made.about, made._terms = header["about"], int(made.arena.used_bytes)
        return made

    # Reading

    def _filled(self) -> Iterator[tuple[str, list[Run]]]:
        for name in self.names:
            yield name, self.graphs[name]

    def runs(self, graphs: Iterable[str]) -> list[Run]:
        """The runs of some graphs."""
        return [run for name in graphs for run in self.graphs.get(name, ())]

    def id_of(self, text: str) -> int:
        """The id of a term, 0 if no triple has it."""
        return self.arena.find(text.encode())

    def facts(self) -> Facts:
        """All triples that are there."""
        parts = []
        for name, runs in self._filled():
            stream = self.arena.intern(f"<{name}>".encode())
            for run in runs:
                s, p, o = run.there()
                one = np.ones(len(s), np.int64)
                parts.append(Facts(stream * one, 0 * one, one, s, p, o))
        return Facts.concat(parts)

    def predicates(self) -> dict[str, int]:
        """The triples of the union of all graphs by predicate, most frequent first."""
        runs = self.runs(self.names)
        if len(self.names) > 1 and runs:
            runs = [Run.merged(runs)]
        counts: dict[int, int] = {}
        for run in runs:
            ids, found = np.unique(run.there()[P], return_counts=True)
            for id, count in zip(ids.tolist(), found.tolist(), strict=True):
                counts[id] = counts.get(id, 0) + count
        texts = (text[1:-1] for text in self.arena.texts(list(counts)))
        return dict(sorted(zip(texts, counts.values(), strict=True), key=lambda pair: (-pair[1], pair[0])))


def _is_whole(runs: list[Run]) -> bool:
    return len(runs) == 1 and runs[0].alive is None


def _merge_last(runs: list[Run], *, keep: int) -> None:
    """Merge the last runs while they are of like size, so that there are few; the first ones are kept."""
    while len(runs) > keep + 1 and 2 * len(runs[-1]) >= len(runs[-2]):
        last = runs.pop()
        runs[-1] = Run.merged([runs[-1], last])


def columns_of(run: Run, found: Any) -> tuple[Ids, Ids, Ids]:
    """The subjects, predicates and objects at some places."""
    s, p, o = (run.columns[place][found] for place in (S, P, O))
    return s, p, o
