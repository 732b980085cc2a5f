"""RAND, UUID, STRUUID, BNODE and NOW: derived from the row, so that a replay and a retraction give the same."""

from __future__ import annotations

import re

import numpy as np
import pytest
from asking import read

from thalweg.errors import UnsupportedError
from thalweg.expressions.evaluate import Evaluator
from thalweg.rdf.arena import Arena

NAMES = ("a", "b")


def values(text: str, rows: list[tuple[str, str]], *, salt: bytes = b"", mask: int = -1) -> list[str]:
    arena = Arena(hash_mask=mask)
    evaluator = Evaluator(read(text), NAMES, arena, salt=salt)
    ids = np.array([[arena.intern(term.encode()) for term in row] for row in rows], dtype=np.int64)
    assert evaluator.variables == NAMES
    return [arena.text(id_) for id_ in evaluator.values(ids).tolist()]


ROWS = [(f'"{k}"', "<http://ex/a>") for k in range(200)]


@pytest.mark.parametrize("function", ["rand()", "uuid()", "struuid()", "bnode()", 'bnode("x")'])
def test_the_same_row_gives_the_same_value_in_every_run(function: str) -> None:
    found = values(function, ROWS)
    assert len(set(found)) == len(ROWS)
    assert values(function, ROWS[::-1], mask=3)[::-1] == found
    assert not set(values(function, ROWS, salt=b"other")) & set(found)


def test_rand_is_a_double_between_0_and_1() -> None:
    found = [float(text.split('"')[1]) for text in values("rand()", ROWS)]
    assert min(found) >= 0
    assert max(found) < 1
    assert 0.4 < sum(found) / len(found) < 0.6


def test_uuids_have_their_form() -> None:
    form = "[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"
    assert all(re.fullmatch(f"<urn:uuid:{form}>", text) for text in values("uuid()", ROWS))
    assert all(re.fullmatch(f'"{form}"', text) for text in values("struuid()", ROWS))


def test_two_places_of_one_text_draw_apart_and_a_label_is_one_node_in_a_row() -> None:
    (apart,) = values("rand() = rand() || bnode() = bnode() || struuid() = struuid()", ROWS[:1])
    assert apart.startswith('"false"')
    (same,) = values('bnode("x") = bnode("x") && bnode("x") != bnode("y")', ROWS[:1])
    assert same.startswith('"true"')


def test_expressions_of_one_solution_share_labels_if_the_same_columns_identify_it() -> None:
    arena = Arena()
    row = [arena.intern(b'"1"'), arena.intern(b'"2"')]
    first = Evaluator(read('bnode("x")'), ["a"], arena)
    second = Evaluator(read('bnode("x")'), ["a", "b"], arena, identity=["a"])
    assert second.variables == ("a",)
    assert first.values(np.array([row[:1]]))[0] == second.values(np.array([row]))[0]


def test_now_can_change_between_calls() -> None:
    arena = Arena()
    evaluator = Evaluator(read("str(now())"), [], arena, now=0)
    row = np.empty((1, 0), dtype=np.int64)
    assert arena.text(int(evaluator.values(row)[0])) == '"1970-01-01T00:00:00Z"'
    evaluator.set_now(1_000_000)
    assert arena.text(int(evaluator.values(row)[0])) == '"1970-01-01T00:00:01Z"'
    evaluator.set_now(None)
    assert evaluator.values(row)[0] == 0


def test_an_unsupported_constant_pattern_is_refused_with_its_place() -> None:
    with pytest.raises(UnsupportedError, match="back-references") as refused:
        Evaluator(read('regex(?a, "(a)\\\\1")'), NAMES, Arena())
    assert refused.value.line == 1
    assert refused.value.column


def test_exists_is_not_evaluated_here() -> None:
    with pytest.raises(ValueError, match="EXISTS"):
        Evaluator(read("EXISTS { ?a ?b ?c }"), NAMES, Arena())
