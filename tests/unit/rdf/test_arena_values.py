"""What expressions need of an arena: many texts at once, numbers of terms, and when ids may change their texts."""

from __future__ import annotations

import numpy as np
import pytest

from thalweg.kernels import values as kinds
from thalweg.rdf.arena import Arena

XSD = "http://www.w3.org/2001/XMLSchema#"


@pytest.mark.parametrize("count", [0, 1, 15, 16, 1000])
@pytest.mark.parametrize("mask", [-1, 0x7])
def test_texts_that_are_interned_together_have_the_ids_that_they_have_alone(count: int, mask: int) -> None:
    texts = [f'"{k % 700}{"x" * (k % 50)}"'.encode() for k in range(count)]
    together, alone = Arena(hash_mask=mask), Arena(hash_mask=mask)
    ids = together.intern_all(texts)
    assert ids.tolist() == [alone.intern(text) for text in texts]
    assert [text.encode() for text in together.texts(ids)] == texts


def test_generations_count_how_often_terms_were_dropped() -> None:
    arena = Arena()
    id_ = arena.intern(b"<http://ex/a>")
    assert arena.generation == 0
    arena.compact(np.array([id_]))
    arena.clear()
    assert arena.generation == 2


@pytest.mark.parametrize(
    ("term", "kind", "number"),
    [
        (f'"-0012.50"^^<{XSD}decimal>', kinds.DECIMAL, -12.5),
        (f'"999999999999999"^^<{XSD}integer>', kinds.INTEGER, 999999999999999.0),
        (f'"9999999999999999"^^<{XSD}integer>', kinds.OTHER, 0.0),
        (f'"0.{"0" * 25}1"^^<{XSD}decimal>', kinds.OTHER, 0.0),
        (f'"-1.5E-3"^^<{XSD}double>', kinds.DOUBLE, -0.0015),
        (f'"1e"^^<{XSD}double>', kinds.OTHER, 0.0),
        (f'"1e5"^^<{XSD}decimal>', kinds.OTHER, 0.0),
        (f'" 1"^^<{XSD}integer>', kinds.OTHER, 0.0),
        (f'"1970-01-01T00:00:01.5+00:01"^^<{XSD}dateTime>', kinds.ZONED, -58_500_000.0),
        (f'"1970-01-01T00:00:01"^^<{XSD}dateTime>', kinds.LOCAL, 1_000_000.0),
        (f'"1970-01-01T00:00:01z"^^<{XSD}dateTime>', kinds.OTHER, 0.0),
        (f'"1"^^<{XSD}integer2>', kinds.OTHER, 0.0),
        ('"1"^^<http://www.w3.org/2001/XMLSchemaX#integer>', kinds.OTHER, 0.0),
        ('"1"', kinds.STRING, 0.0),
        ('"1"@en', kinds.LANG, 0.0),
        ("<http://ex/a>", kinds.IRI, 0.0),
        ("_:b", kinds.BLANK, 0.0),
    ],
)
def test_a_term_has_a_kind_and_a_number(term: str, kind: int, number: float) -> None:
    arena = Arena()
    found, numbers = arena.numbers(np.array([arena.intern(term.encode()), 0, 12345]))
    assert found.tolist() == [kind, kinds.NONE, kinds.NONE]
    assert numbers.tolist() == [number, 0.0, 0.0]


def test_numbers_of_many_terms_are_those_that_python_reads() -> None:
    arena, draw = Arena(), np.random.default_rng(1)
    lexicals = [f"{draw.integers(-(10**7), 10**7)}.{draw.integers(0, 10**7)}" for _ in range(5_000)]
    ids = arena.intern_all([f'"{lexical}"^^<{XSD}decimal>'.encode() for lexical in lexicals])
    assert arena.numbers(ids)[1].tolist() == [float(lexical) for lexical in lexicals]
