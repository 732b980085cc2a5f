"""Turtle and TriG: the kernel and the complete parser agree, however a document is cut, whatever its bytes are."""

from __future__ import annotations

import ctypes
import random
from collections.abc import Sequence

import pyoxigraph as ox
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from thalweg.kernels import turtle as kernel
from thalweg.kernels.turtle_terms import space_end
from thalweg.rdf.arena import Arena
from thalweg.rdf.chunk import Chunk, Reject
from thalweg.rdf.formats import FORMATS, SequentialReader
from thalweg.rdf.prune import Prune

Rows = list[tuple[str, str, str, str]]
IRIS = ["<http://ex/a>", "<http://ex/é?q=1#f>", "a:b", "a:", ":x", ":", "a:b.c", "a:b%41", r"a:b\,c\.", "a:1"]
IRIS += [
    "<rel>",
    "<#f>",
    "<>",
    "<../up>",
    "<a/b.c>",
    r"<http://ex/\u0041>",
    "a:b:c",
    ":a-b",
]
IRIS += ["p.q:r", "a:é"]
NODES = ["_:b", "_:b.c", "[]", "[ ]", "_:0", "_:é"]
LITERALS = ['"x"', "'x'", '"""a"b""c\n"""', "'''it's'''", '""', "''", '""""""', r'"\u0041\t\"\\"', '"é"@en']
LITERALS += [
    '"1"^^a:int',
    '"1"^^<http://ex/t>',
    '"x" @en',
    '"1" ^^ a:t',
    "1",
    "-1.5",
    "+1e5",
    "1.E3",
    ".5",
    "true",
]
LITERALS += [
    '"tab\there"',
    "'\"'",
    r"'\''",
    '"\x7f"',
    '"""\\\n"""',
    '"a\\',
    '"open',
    "'''open",
    '"\\ud800"',
    "1.",
]
LITERALS += ['"x"@EN-gb', "false", "1.e", "-"]
ODD = [
    "<a b>",
    "<http://ex/a",
    "x",
    "<<( a:s a:p a:o )>>",
    "{",
    "}",
    "(",
    ")",
    "[",
    "]",
    "a",
    "@prefix",
    "%",
    "\\",
]
ODD += ["a:b%4", "unknown:x", "<http://ex/\x00>", '"x"@en--ltr', "_:b:c", "a:-b", "true.x", "\x00", "\ufeff"]
ODD += ["a:b\\u0041"]
SPACES = [" ", "\n", "\t", " # c . ; \r\n", "\r", "  "]
PREFIXES = "@prefix a: <http://ex/> . PREFIX : <http://ex/n#>\n@prefix p.q: <http://ex/pq/> ."
PARSERS = {"turtle": ox.RdfFormat.TURTLE, "trig": ox.RdfFormat.TRIG}
BASE = "@base <http://base/dir/file> ."


@st.composite
def objects(draw: st.DrawFn, depth: int = 0) -> str:
    kind = draw(st.integers(0, 9))
    if depth < 3 and kind == 0:
        return "( " + " ".join(draw(st.lists(objects(depth=depth + 1), max_size=3))) + " )"
    if depth < 3 and kind == 1:
        return "[ " + draw(predicates(depth=depth + 1)) + " ]"
    if kind == 2 and draw(st.integers(0, 3)) == 0:
        return draw(st.sampled_from(ODD))
    return draw(st.sampled_from(LITERALS + IRIS + NODES if kind > 4 else IRIS))


@st.composite
def predicates(draw: st.DrawFn, depth: int = 0) -> str:
    parts = []
    for _ in range(draw(st.integers(1, 3))):
        verb = draw(st.sampled_from(["a", *IRIS]))
        values = draw(st.lists(objects(depth=depth), min_size=1, max_size=3))
        parts.append(f"{verb}{draw(st.sampled_from(SPACES))}{' , '.join(values)}")
    return " ; ".join(parts) + draw(st.sampled_from(["", " ;", ";;"]))


@st.composite
def statements(draw: st.DrawFn) -> str:
    subject = draw(st.sampled_from([*IRIS, *NODES, "( a:x 1 )", "[ a:p 1 ]", "[ a:p [ ] ]"]))
    dot = draw(st.sampled_from([".", " .", " . ", "\n.\n"]))
    return f"{subject}{draw(st.sampled_from(SPACES))}{draw(predicates())}{dot}"


@st.composite
def documents(draw: st.DrawFn, trig: bool) -> str:
    parts = [PREFIXES]
    if draw(st.booleans()):
        parts.append(BASE)
    for _ in range(draw(st.integers(1, 4))):
        kind = draw(st.integers(0, 9))
        if trig and kind < 4:
            inside = " ".join(draw(st.lists(statements(), max_size=2)))
            name = draw(
                st.sampled_from(["", "a:g", "GRAPH a:g", "graph <http://ex/g>", "_:g", "[]", "GRAPH _:g"])
            )
            last = draw(st.sampled_from(["", "a:s a:p a:o", ". "]))
            parts.append(f"{name} {{ {inside} {last} }}")
        elif kind == 9:
            parts.append(
                draw(st.sampled_from(["@prefix a: <http://other/> .", "PREFIX b: <x/>", "base <http://b/>"]))
            )
        else:
            parts.append(draw(statements()))
    return draw(st.sampled_from(SPACES)).join(parts)


def read(syntax: str, pieces: Sequence[bytes], **options: object) -> tuple[Rows, list[Reject]]:
    """The statements of a document in pieces, and what is refused, with lines of the document."""
    arena = Arena()
    made = FORMATS[syntax].reader(
        arena,
        Prune.everything(),
        source="doc",
        blank_nodes="stable",
        time_predicate=b"",
        **{"per_event": 2, **options},  # type: ignore[arg-type]
    )
    reader: SequentialReader = made  # type: ignore[assignment]
    chunk = Chunk.concatenate([*map(reader.feed, pieces), reader.finish()])
    texts = [arena.texts(column) for column in (chunk.s, chunk.p, chunk.o)]
    graphs = [arena.text(g) if g else "" for g in chunk.g.tolist()]
    return list(zip(*texts, graphs, strict=True)), list(chunk.rejects)


def canonical(rows: Rows) -> list[str]:
    """Statements with canonical labels."""
    text = "".join(f"{s} {p} {o} {g} .\n" for s, p, o, g in rows)
    dataset = ox.Dataset(ox.parse(text.encode(), ox.RdfFormat.N_QUADS, lenient=True))
    dataset.canonicalize(ox.CanonicalizationAlgorithm.UNSTABLE)
    return sorted(map(str, dataset))


def cut(text: bytes, seed: int) -> list[bytes]:
    places = sorted(random.Random(seed).choices(range(len(text) + 1), k=4))
    return [text[a:b] for a, b in zip([0, *places], [*places, len(text)], strict=True)]


def place_of(reject: Reject) -> tuple[int, int, str]:
    return reject.line, reject.column, reject.reason


def check(syntax: str, text: bytes, seed: int) -> None:
    whole, faults = read(syntax, [text])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernel, "translate", _nothing)
        complete, complete_faults = read(syntax, [text])
    assert canonical(whole) == canonical(complete)
    assert [(one.line, one.column) for one in faults] == [(one.line, one.column) for one in complete_faults]
    pieces, piece_faults = read(syntax, cut(text, seed))
    assert pieces == whole
    assert [place_of(one) for one in piece_faults] == [place_of(one) for one in faults]
    # The parser on its own, on the whole text: it knows fewer IRIs than the grammar, and more of RDF 1.2.
    theirs: list[ox.Quad] = []
    try:
        theirs.extend(ox.parse(text, PARSERS[syntax]))
    except SyntaxError:
        return
    if not faults:
        lowered = [_lowered(quad) for quad in theirs]
        assert canonical(whole) == canonical(lowered)


def _lowered(quad: ox.Quad) -> tuple[str, str, str, str]:
    """A statement with its language tag in small letters."""
    term = quad.object
    if isinstance(term, ox.Literal) and term.language:
        term = ox.Literal(term.value, language=term.language.lower())
    graph = "" if isinstance(quad.graph_name, ox.DefaultGraph) else str(quad.graph_name)
    return str(quad.subject), str(quad.predicate), str(term), graph


def _nothing(at: int, end: int, options: object, state: object, *rest: object) -> int:
    """A kernel that covers white space and the ends of blocks alone."""
    here = at + int(state[kernel.POS])  # type: ignore[index]
    here = int(space_end(here, end))
    state[kernel.OUT] = state[kernel.ROWS] = 0  # type: ignore[index]
    if here >= end:
        if options[kernel.LAST]:  # type: ignore[index]
            state[kernel.POS] = end - at  # type: ignore[index]
        return kernel.DONE
    if state[kernel.GRAPH] >= 0 and ctypes.string_at(here, 1) == b"}":  # type: ignore[index]
        state[kernel.GRAPH], state[kernel.POS] = -1, here + 1 - at  # type: ignore[index]
        return _nothing(at, end, options, state)
    return kernel.STOP


@given(documents(trig=False), st.integers(0, 1000))
def test_both_paths_read_the_same_from_any_turtle(text: str, seed: int) -> None:
    check("turtle", text.encode("utf-8", "surrogatepass"), seed)


@given(documents(trig=True), st.integers(0, 1000))
def test_both_paths_read_the_same_from_any_trig(text: str, seed: int) -> None:
    check("trig", text.encode("utf-8", "surrogatepass"), seed)


@given(documents(trig=True), st.binary(max_size=4), st.integers(0, 1000), st.integers(0, 3))
def test_both_paths_read_the_same_from_mutated_documents(
    text: str, bytes_: bytes, seed: int, less: int
) -> None:
    data = text.encode()
    at = seed % (len(data) + 1)
    check("trig", data[:at] + bytes_ + data[at + less :], seed)


@given(st.binary(max_size=200), st.sampled_from(["turtle", "trig", "n3", "rdfxml", "jsonld"]))
@example(b'{"@context": "http://x/"}', "jsonld")
def test_any_bytes_are_read_or_refused(data: bytes, syntax: str) -> None:
    rows, faults = read(syntax, [data])
    again, same = read(syntax, [data[:7], data[7:]])
    assert rows == again
    assert [place_of(one) for one in faults] == [place_of(one) for one in same]
    rows, faults = read(syntax, [data], per_event=0)
    assert not faults or not rows


def test_iris_are_what_the_grammar_allows_whichever_path_reads_them() -> None:
    # The parser refuses this IRI, which N-Triples would take; `( )` is for the complete parser.
    rows, faults = read("turtle", [b"<a:%zz> <a:p> <a:1> . ( 1 ) <a:p> <a:%zz> . <a:%zz> <a:p> <a:2> ."])
    assert len(rows) == 5
    assert not faults


@pytest.mark.parametrize("per_event", [0, 1])
def test_statements_before_a_malformed_one_are_kept_unless_the_document_is_one_event(per_event: int) -> None:
    text = b"<a:1> <a:p> <a:o> .\n<a:2> <a:p> <a:o> .\n  <a:3> <a:p> <a b> .\n<a:4> <a:p> <a:o> .\n"
    rows, (fault,) = read("turtle", [text[:25], text[25:]], per_event=per_event)
    assert [s for s, *_ in rows] == ([] if per_event == 0 else ["<a:1>", "<a:2>"])
    assert (fault.line, fault.column) == (3, 15)
    assert "' '" in fault.reason


@pytest.mark.parametrize(
    ("syntax", "text", "line"),
    [
        ("nt", b"<a:1> <a:p> <a:o> .\n<a:s> <a:p> <<( <a:s> <a:p> <a:o> )>> .\n", 2),
        ("nq", b"<a:1> <a:p> <a:o> .\n<a:s> <a:p> <<( <a:s> <a:p> <a:o> )>> <a:g> .\n", 2),
        ("turtle", b"<a:1> <a:p> <a:o> .\n<a:s> <a:p> <<( <a:s> <a:p> <a:o> )>> .\n", 2),
        ("turtle", b"<a:1> <a:p> <a:o> .\n<< <a:s> <a:p> <a:o> >> <a:p> 1 .\n", 2),
        ("trig", b"<a:1> <a:p> <a:o> .\n<a:g> { <a:s> <a:p> <<( <a:s> <a:p> <a:o> )>> }\n", 2),
        ("n3", b"<a:1> <a:p> <a:o> .\n<a:s> <a:p> <<( <a:s> <a:p> <a:o> )>> .\n", 2),
    ],
)
def test_triple_terms_are_refused_with_their_place_and_what_comes_before_is_kept(
    syntax: str, text: bytes, line: int
) -> None:
    arena = Arena()
    reader = FORMATS[syntax].reader(arena, Prune.everything(), source="doc", per_event=2, time_predicate=b"")
    if FORMATS[syntax].splittable:
        chunk = reader.read(text)
    else:
        feeding: SequentialReader = reader  # type: ignore[assignment]
        chunk = Chunk.concatenate([feeding.feed(text), feeding.finish()])
    assert arena.texts(chunk.s) == ["<a:1>"]
    (reject,) = chunk.rejects
    assert reject.line == line
    assert "RDF 1.2" in reject.reason or syntax == "n3"


def test_a_long_document_is_not_held_in_memory() -> None:
    arena = Arena()
    reader: SequentialReader = FORMATS["turtle"].reader(  # type: ignore[assignment]
        arena, Prune.of([]), source="doc", per_event=2
    )
    piece = b"".join(b"<a:%d> <a:p> [ <a:q> %d ] , ( 1 2 ) .\n" % (k, k) for k in range(1000))
    total = 0
    for _ in range(50):
        total += reader.feed(piece[:-10]).statements
        total += reader.feed(piece[-10:]).statements
        assert len(reader._document._translator._rest) < 200  # type: ignore[attr-defined]
    assert total + reader.finish().statements == 50 * 1000 * 7


@pytest.mark.parametrize("size", [1 << 18, pytest.param(100 << 20, marks=pytest.mark.soak)])
def test_a_statement_may_be_longer_than_any_piece(size: int) -> None:
    text = b'<a:s> <a:p> """' + b"x" * size + b'\n""" . <a:t> <a:p> <a:o> .'
    pieces = [text[k : k + size // 8] for k in range(0, len(text), size // 8)]
    rows, faults = read("turtle", pieces)
    assert ([len(o) for _, _, o, _ in rows], faults) == ([size + 4, 5], [])
    rows, (fault,) = read("turtle", [text[: size // 2], text[size // 2 : size]])
    assert (rows, fault.line) == ([], 1)
