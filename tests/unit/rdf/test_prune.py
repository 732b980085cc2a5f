"""Prune tables: what is kept, what they cost to compare, that they travel."""

from __future__ import annotations

import pickle

import pytest
from documents import read

from thalweg.rdf.prune import Prune, Signature

P, Q = b"<http://ex/p>", b"<http://ex/q>"


def test_the_fingerprint_is_that_of_the_set() -> None:
    one, other = Signature(None, P, None), Signature(b"<a:s>", None, b'"x"')
    assert Prune.of([one, other]).fingerprint == Prune.of([other, one, one]).fingerprint
    assert Prune.of([one]).fingerprint != Prune.of([other]).fingerprint
    assert Prune.of([]).fingerprint != Prune.everything().fingerprint


def test_it_travels_by_pickle() -> None:
    prune = Prune.of([Signature(None, P, b'"x"')])
    back = pickle.loads(pickle.dumps(prune))
    assert back == prune
    assert (back.pairs == prune.pairs).all()
    assert back.fingerprint == prune.fingerprint


def test_a_predicate_is_an_iri() -> None:
    with pytest.raises(ValueError, match="not a predicate"):
        Signature(None, b'"x"', None)


def test_ten_thousand_signatures_keep_what_each_of_them_wants() -> None:
    prune = Prune.of([Signature(None, P, b'"%d"' % k) for k in range(10_000)])
    document = b"".join(b'<a:s> %b "%d" .\n' % (P, k) for k in range(9_990, 10_010))
    chunk, found = read(document, prune=prune)
    assert len(found) == 10
    assert chunk.statements == 20


def test_many_predicates_are_distinguished() -> None:
    prune = Prune.of(
        [Signature(None, b"<http://ex/%d/the/same/end/of/a/name>" % k, None) for k in range(500)]
    )
    document = b"".join(b"<a:s> <http://ex/%d/the/same/end/of/a/name> <a:o> .\n" % k for k in range(490, 510))
    assert len(read(document, prune=prune)[1]) == 10


def test_no_signature_keeps_nothing() -> None:
    chunk, found = read(b"<a:s> <a:p> <a:o> .\n", prune=Prune.of([]))
    assert (chunk.statements, found) == (1, [])


def test_the_language_tag_of_a_constant_meets_capitals_in_the_data() -> None:
    prune = Prune.of([Signature(None, P, b'"x"@en-gb')])
    _, found = read(b'<a:s> %b "x"@EN-gb .\n<a:s> %b "x"@en .\n' % (P, P), prune=prune)
    assert [row[2] for row in found] == ['"x"@en-gb']
