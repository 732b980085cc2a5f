"""Documents to read: strategies for lines of N-Triples and N-Quads, and two ways to read them."""

from __future__ import annotations

import numpy as np
import pyoxigraph as ox
from hypothesis import strategies as st

from thalweg.rdf.arena import Arena
from thalweg.rdf.chunk import Chunk
from thalweg.rdf.ntriples import LineReader
from thalweg.rdf.prune import Prune

Statement = tuple[str, ...]
EVERYTHING = Prune.everything()

_FORMATS = {"nt": ox.RdfFormat.N_TRIPLES, "nq": ox.RdfFormat.N_QUADS}


def read(
    data: bytes,
    syntax: str = "nt",
    *,
    arena: Arena | None = None,
    prune: Prune = EVERYTHING,
    blank_nodes: str = "stable",
    time_predicate: bytes = b"",
) -> tuple[Chunk, list[Statement]]:
    """The chunk of a document and its statements as texts (s, p, o, graph or "")."""
    arena = Arena() if arena is None else arena
    reader = LineReader(
        arena,
        prune,
        syntax=syntax,  # type: ignore[arg-type]
        source="doc",
        blank_nodes=blank_nodes,  # type: ignore[arg-type]
        time_predicate=time_predicate,
    )
    chunk = reader.read(data)
    return chunk, statements(chunk, arena)


def statements(chunk: Chunk, arena: Arena) -> list[Statement]:
    """Kept rows as texts (s, p, o, graph or "")."""
    names = [""] * len(chunk)
    for k in np.flatnonzero(chunk.g):
        names[k] = arena.text(int(chunk.g[k]))
    return list(zip(arena.texts(chunk.s), arena.texts(chunk.p), arena.texts(chunk.o), names, strict=True))


def oracle(data: bytes, syntax: str = "nt") -> list[Statement]:
    """What pyoxigraph makes of a document; SyntaxError where it refuses it."""
    return [
        (
            str(quad.subject),
            str(quad.predicate),
            str(quad.object),
            "" if isinstance(quad.graph_name, ox.DefaultGraph) else str(quad.graph_name),
        )
        for quad in ox.parse(data, format=_FORMATS[syntax])
    ]


def _escaped(char: str) -> st.SearchStrategy[str]:
    return st.sampled_from([f"\\u{ord(char):04X}" if ord(char) < 0x10000 else f"\\U{ord(char):08x}"])


# Characters that pyoxigraph accepts in IRIs too (it is stricter than the grammar of N-Triples).
_iri_chars = st.sampled_from("abcXYZ019-._~!$&'()*+,;=:@/?éßж日本\U0001f600")
_iri_part = _iri_chars | _iri_chars.flatmap(_escaped)
iris = st.tuples(
    st.sampled_from(["http://ex.org/", "https://ex.org/?", "urn:x:", "a:", "http://ex.org/a/long/path/" * 3]),
    st.lists(_iri_part, max_size=70),
).map(lambda parts: f"<{parts[0]}x{''.join(parts[1])}>")

_text_chars = st.characters(exclude_categories=["Cs"], exclude_characters="\ufffe\uffff")


def _in_string(char: str) -> st.SearchStrategy[str]:
    named = {"\t": "\\t", "\b": "\\b", "\n": "\\n", "\r": "\\r", "\f": "\\f", '"': '\\"', "\\": "\\\\"}
    forms = [named[char]] if char in named else [char]
    if char == "\t" or char == "'":
        forms += [char, "\\'"] if char == "'" else [char]
    return st.sampled_from(forms) | _escaped(char)


_plain = st.text(
    st.characters(exclude_categories=["Cs", "Cc"], exclude_characters='"\\\ufffe\uffff'), max_size=90
)
strings = st.one_of(_plain, st.lists(_text_chars.flatmap(_in_string), max_size=30).map("".join))
tags = st.sampled_from(["@en", "@EN", "@en-GB", "@de-latn-de", "@x-a1", "@fr-be"])
_types = st.sampled_from(
    [
        "^^<http://www.w3.org/2001/XMLSchema#string>",
        "^^<http://www.w3.org/2001/XMLSchema#integer>",
        "^^<http://www.w3.org/2001/XMLSchema#strinG>",
        "^^<http://www.w3.org/2001/XMLSchema\\u0023string>",
    ]
)
literals = st.tuples(strings, st.just("") | tags | _types | iris.map("^^{}".format)).map(
    lambda parts: f'"{parts[0]}"{parts[1]}'
)
labels = st.from_regex(r"[A-Za-z0-9_é][A-Za-z0-9_.\-·é]{0,8}", fullmatch=True).map(
    lambda label: "_:" + (label.rstrip(".") or "b")
)
_space = st.sampled_from([" ", "  ", "\t", " \t ", ""])
# Between a label and what follows, the dot of the statement included, a blank is always safe.
_gap = st.sampled_from([" ", "\t", "  "])
_end = st.sampled_from(
    ["\n", "\r\n", "\n\n", " \n", "# a comment\n", ' # \x01 a "comment <\n', "\r", "\r\r\n"]
)


@st.composite
def lines(draw: st.DrawFn, syntax: str = "nt") -> str:
    """One statement, or a line without one, with its end."""
    if draw(st.integers(0, 9)) == 0:
        return draw(st.sampled_from(["\n", "# nothing\n", "   \n", "\t# <a:b> <a:c> <a:d> .\r\n", "\r\n"]))
    terms = [draw(iris | labels), draw(iris), draw(iris | literals | labels)]
    if syntax == "nq" and draw(st.booleans()):
        terms.append(draw(iris | labels))
    text = draw(_space)
    for term in terms:
        text += term + draw(_gap if term.startswith("_:") else _space)
    return text + "." + draw(_end)


@st.composite
def documents(draw: st.DrawFn, syntax: str = "nt") -> bytes:
    """A well-formed document, perhaps without its last line end."""
    text = "".join(draw(st.lists(lines(syntax), max_size=8)))
    return (text.rstrip("\r\n") if draw(st.booleans()) else text).encode()
