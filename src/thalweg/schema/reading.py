"""Reading RDF that is given as the path of a file or as text: schemas."""

from __future__ import annotations

import os
from pathlib import Path

from thalweg.errors import UsageError
from thalweg.rdf.arena import Arena
from thalweg.rdf.compression import compression_of
from thalweg.rdf.formats import find_format, format_named
from thalweg.rdf.prune import Prune

Triple = tuple[str, str, str]
_LONGEST_PATH = 1024


def read_triples(given: object, *, what: str, format: str | None = None) -> tuple[str, list[Triple]]:
    """The source (a path, or `what`) and the triples, as canonical texts, of the path of a file or an RDF text.

    The format is Turtle unless it is said, or the name of the file says another. Graph names are left out. The first
    error is raised, with its place.
    """
    source, found = what, None
    if isinstance(given, os.PathLike) or _names_a_file(given):
        source = os.fspath(given)  # type: ignore[call-overload]
        found = find_format(source)
        try:
            data = Path(source).read_bytes()
        except OSError as error:
            raise UsageError(f"{what} cannot be read: {error.strerror}", source=source) from None
        if packed := compression_of(source):
            raise UsageError(f"{what} is a plain file, and this is {packed.title}: unpack it", source=source)
    elif isinstance(given, str):
        data = given.encode("utf-8", "surrogatepass")
    elif isinstance(given, bytes | bytearray | memoryview):
        data = bytes(given)
    else:
        raise UsageError(f"{what} is the path of a file or RDF text, not of type {type(given).__name__}")
    chosen = format_named(format) if format is not None else found or format_named("turtle")
    if chosen.has_events:
        raise UsageError(f"{chosen.title} states events, and {what} is a graph", source=source)
    arena = Arena()
    reader = chosen.reader(
        arena, Prune.everything(), source=source, blank_nodes="stable", per_event=0, time_predicate=b""
    )
    chunk = reader.read(data)
    if chunk.rejects:
        refused = chunk.rejects[0].error()
        if source == what and _looks_like_a_path(given):
            raise UsageError(
                f"{what}: there is no file {given!r:.200}, and as RDF text it is wrong: {refused}"
            )
        raise refused
    kept = chunk.p != 0
    s, p, o = (arena.texts(column[kept]) for column in (chunk.s, chunk.p, chunk.o))
    return source, list(zip(s, p, o, strict=True))


def _names_a_file(given: object) -> bool:
    """Whether a text is the path of a file that exists."""
    try:
        return isinstance(given, str) and 0 < len(given) <= _LONGEST_PATH and os.path.isfile(given)
    except ValueError:  # it has a NUL
        return False


def _looks_like_a_path(given: object) -> bool:
    return isinstance(given, str) and len(given) < 1024 and "\n" not in given and " " not in given.strip()
