"""Reading static data: a file or a text, whole or not at all."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import cast
from urllib.parse import unquote, urlsplit

import numpy as np
from numpy.typing import NDArray

from thalweg.errors import DataError, UsageError
from thalweg.rdf.arena import Arena, Ids
from thalweg.rdf.chunk import Chunk, Reject
from thalweg.rdf.compression import compression_of
from thalweg.rdf.formats import Format, SequentialReader, find_format, format_named, readable_suffixes
from thalweg.rdf.pieces import pieces
from thalweg.rdf.prune import Prune
from thalweg.static.document import UNNAMED, Columns, Document

__all__ = [
    "available_memory",
    "check_memory",
    "file_of_graph",
    "format_of_static",
    "needed_memory",
    "path_of",
    "read_document",
]

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_LONGEST_PATH = 1024
_PIECE = 4 * 1024 * 1024
_PACKED = 8
"""How many times its size a compressed text is at least guessed to be."""
MEMORY = "THALWEG_MEMORY"
"""The environment variable that says how much memory static data may use."""
_LINES = 0.4
"""Bytes of memory for each byte of N-Triples: measured 0.3 to 0.6, by how often terms come again."""
_OTHERS = 1.0


def path_of(given: object) -> Path | None:
    """The file that is meant by what a user gives, None where it is a text; a file that is not there is refused."""
    if isinstance(given, os.PathLike):
        return _existing(Path(given))
    if isinstance(given, bytes):
        return None
    if not isinstance(given, str):
        raise UsageError(
            f"static data are the path of a file or RDF text, not of type {type(given).__name__}"
        )
    if not 0 < len(given) <= _LONGEST_PATH or "\n" in given or "\0" in given:
        return None
    if os.path.exists(given):
        return _existing(Path(given))
    # No statement is a single word, and none ends in the suffix of a file.
    if find_format(given) is not None or not any(mark in given for mark in ' \t<>"#@{['):
        return _existing(Path(given))
    return None


def _existing(path: Path) -> Path:
    if not path.exists():
        raise UsageError(f"cannot read {path}: there is no such file")
    if not path.is_file():
        raise UsageError(f"cannot read {path}: static data are a file, and this is none")
    return path


def file_of_graph(name: str) -> Path | None:
    """The file that the name of a graph in FROM stands for: a relative name or a file: IRI; None: it names none."""
    if name.lower().startswith("file:"):
        parts = urlsplit(name)
        if parts.netloc not in ("", "localhost"):
            return None
        return _existing(Path(unquote(parts.path)))
    return None if _SCHEME.match(name) else _existing(Path(unquote(name)))


def format_of_static(path: Path | None, name: str | None) -> Format:
    """The format of static data: the given one, else that of the file's name, else Turtle."""
    if name is not None:
        found = format_named(name)
    elif path is None:
        found = format_named("turtle")
    elif (by_name := find_format(path)) is None:
        raise UsageError(
            f"the name of {path} has no known suffix: expected {readable_suffixes()}; or give the format"
        )
    else:
        found = by_name
    if found.has_events or found.has_rows:
        raise UsageError(f"{found.title} states events, and static data are graphs: convert it first")
    return found


def read_document(given: str | bytes | Path, format: Format, *, unpack_ratio: int = 200) -> Document:
    """What a file (a path) or a text says; the first error refuses all of it, with its position."""
    source = str(given) if isinstance(given, Path) else "static data"
    arena = Arena()
    digest = hashlib.blake2b(digest_size=16)
    reader = format.reader(
        arena, Prune.everything(), source=source, blank_nodes="stable", per_event=1, time_predicate=b""
    )
    parts: list[tuple[Ids, Ids, Ids, Ids]] = []
    blanks = lines = 0
    limit = available_memory()
    for chunk in _chunks(given, format, cast(SequentialReader, reader), digest, unpack_ratio):
        if chunk.rejects:
            _fail(chunk.rejects[0], lines)
        lines += chunk.lines
        blanks += chunk.blanks
        parts.append((chunk.g, chunk.s, chunk.p, chunk.o))
        used = arena.used_bytes + 2 * 32 * sum(len(part[1]) for part in parts)
        if limit is not None and used > limit:
            raise DataError(
                f"the static data need more memory than there is: {_size(used)} and more, and {_size(limit)} are free",
                source=source,
            )
    graphs = _by_graph(parts, arena)
    _trim(arena)
    return Document(source, digest.hexdigest(), graphs, arena, blanks > 0)


def _chunks(
    given: str | bytes | Path, format: Format, reader: SequentialReader, digest: hashlib.blake2b, ratio: int
) -> Iterator[Chunk]:
    if isinstance(given, Path):
        source = pieces(given, _PIECE, unpack_ratio=ratio)
        for offset, data in source:
            digest.update(data)
            yield reader.feed(data, offset=offset) if format.sequential else reader.read(data, offset=offset)
        if source.rejects:
            _fail(source.rejects[0], 0)
    else:
        text = given.encode("utf-8", "surrogatepass") if isinstance(given, str) else given
        digest.update(text)
        yield reader.feed(text) if format.sequential else reader.read(text)
    if format.sequential:
        yield reader.finish()


def _fail(reject: Reject, lines: int) -> None:
    raise DataError(
        f"{reject.reason}; nothing of it was loaded",
        source=reject.source or None,
        line=reject.line + lines if reject.line else None,
        column=reject.column or None,
    )


def _by_graph(parts: list[tuple[Ids, Ids, Ids, Ids]], arena: Arena) -> dict[str, Columns]:
    """The triples by graph, without markers of graphs; `parts` is emptied on the way."""
    if not any(g.any() for g, *_ in parts):
        return {UNNAMED: _joined([part[1:] for part in parts])} if parts else {}
    names: dict[int, list[tuple[Ids, Ids, Ids]]] = {}
    for g, s, p, o in parts:
        for id in np.unique(g).tolist():
            here: NDArray[np.bool_] = (g == id) & (s != 0)
            names.setdefault(id, []).append((s[here], p[here], o[here]))
    texts = {id: UNNAMED if id == 0 else arena.text(id) for id in names}
    blank = next((text for text in texts.values() if text.startswith("_:")), None)
    if blank is not None:
        raise DataError(f"the graph {blank} has a blank node for a name: a static graph is named by an IRI")
    return {texts[id].removeprefix("<").removesuffix(">"): _joined(own) for id, own in names.items()}


def _joined(parts: list[tuple[Ids, Ids, Ids]]) -> Columns:
    s, p, o = (np.concatenate([part[k] for part in parts]) for k in range(3))
    return s, p, o


def _trim(arena: Arena) -> None:
    """Gives back the memory that more terms would have needed."""
    arena.log = arena.log[: arena.head.item(0) + 256].copy()


# Memory


def needed_memory(path: Path, format: Format) -> int:
    """Bytes of memory that a file surely needs."""
    size = path.stat().st_size * (_PACKED if compression_of(path) else 1)
    return int(size * (_LINES if format.name in ("nt", "nq") else _OTHERS))


def check_memory(source: str | Path, needed: int, limit: int | None) -> None:
    """Refuses what needs more memory than `limit`, before any of it is read."""
    if limit is not None and needed > limit:
        raise UsageError(
            f"{source} needs about {_size(needed)} of memory, and {_size(limit)} are free: it was not loaded "
            f"({MEMORY}=SIZE, e.g. 64g, says how much may be used)"
        )


def available_memory() -> int | None:
    """Bytes of memory that are free for this process: what $THALWEG_MEMORY says, else the system, where it says it."""
    given = os.environ.get(MEMORY, "").strip().lower()
    if given:
        return _given_memory(given)
    found = []
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            known = dict(line.split(":", 1) for line in file)
        found.append(1024 * int(known["MemAvailable"].split()[0]))
        with open("/sys/fs/cgroup/memory.max", encoding="ascii") as file:
            most = file.read().strip()
        with open("/sys/fs/cgroup/memory.current", encoding="ascii") as file:
            used = int(file.read())
        with open("/sys/fs/cgroup/memory.stat", encoding="ascii") as file:
            parts = dict(line.split() for line in file)
        if most != "max":
            cached = int(parts["active_file"]) + int(
                parts["inactive_file"]
            )  # given up when others need memory
            found.append(max(int(most) - used + cached, 0))
    except (OSError, KeyError, ValueError):
        pass
    return min(found, default=None)


def _given_memory(text: str) -> int:
    """A size as 64g, 500m or 1000000, in bytes.

    >>> _given_memory("2g"), _given_memory("1.5m")
    (2147483648, 1572864)
    """
    units = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
    unit = units.get(text[-1:], 1)
    try:
        size = float(text[:-1] if unit > 1 else text)
    except ValueError:
        size = 0.0
    if not 0 < size < float("inf"):
        raise UsageError(f"{MEMORY} is a size, e.g. 64g or 500m, not {text!r:.60}")
    return int(size * unit)


def _size(count: int) -> str:
    return f"{count / 1e9:,.1f} GB" if count >= 1e8 else f"{count / 1e6:,.1f} MB"
