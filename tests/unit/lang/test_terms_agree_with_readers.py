"""A term of a query and the same term of the data must be one text, or nothing would ever match."""

import pyoxigraph as ox
from hypothesis import given
from hypothesis import strategies as st

from thalweg.lang import parse
from thalweg.rdf.arena import Arena
from thalweg.rdf.ntriples import LineReader
from thalweg.rdf.prune import Prune

XSD = "http://www.w3.org/2001/XMLSchema#"
TEXTS = st.text(
    alphabet=st.characters(codec="utf-8") | st.sampled_from("\x00\x01\t\n\x0b\r\x1f\x7f\"'\\@^<>#{}é")
)
LITERALS = (
    st.builds(ox.Literal, TEXTS)
    | st.builds(
        lambda text, tag: ox.Literal(text, language=tag), TEXTS, st.sampled_from(["en", "de-at", "x-a1"])
    )
    | st.builds(
        lambda text, name: ox.Literal(text, datatype=ox.NamedNode(name)),
        TEXTS | st.sampled_from(["1", "01", "+1.50", "1e0", "true"]),
        st.sampled_from([f"{XSD}integer", f"{XSD}string", f"{XSD}double", "http://ex/dt"]),
    )
)
IRIS = st.text(
    alphabet=st.characters(codec="utf-8", exclude_characters='<>"{}|^`\\', min_codepoint=0x21), max_size=10
).map(lambda end: f"http://ex/{end}")


def read(term: str) -> str:
    arena = Arena()
    reader = LineReader(arena, Prune.everything(), syntax="nt", source="test")
    chunk = reader.read(f"<http://ex/s> <http://ex/p> {term} .\n".encode())
    assert not chunk.rejects
    return arena.text(int(chunk.o[0]))


def asked(term: str) -> str:
    return str(parse(f"SELECT * {{ ?s ?p {term} }}", stream="http://ex/s").patterns[0].o)


@given(LITERALS.filter(lambda literal: "\x00" not in literal.value))
def test_a_literal_of_a_query_is_the_literal_of_the_data(literal):
    assert asked(str(literal)) == read(str(literal))


@given(TEXTS)
def test_a_literal_in_escapes_is_the_literal_of_the_data(text):
    escaped = "".join(f"\\u{ord(c):04X}" if ord(c) < 0x10000 else f"\\U{ord(c):08x}" for c in text)
    assert asked(f'"{escaped}"') == read(f'"{escaped}"') == read(str(ox.Literal(text)))


@given(IRIS)
def test_an_iri_of_a_query_is_the_iri_of_the_data(iri):
    assert asked(f"<{iri}>") == read(f"<{iri}>")
