"""The tables of a co-group: what they hold after many changes, and how large they are."""

from __future__ import annotations

from collections import Counter
from random import Random

import numpy as np
import pytest

from thalweg.operators.cogroup import CoGroupRows
from thalweg.operators.spans import Changes

RULES = [("rows", "left"), ("rows", "anti"), ("rows", "left", "semi", "mark"), ("rows", "outer")]


def changes(signed: list[tuple[int, tuple[int, int]]]) -> Changes:
    weight = np.array([weight for weight, _ in signed], np.int64)
    rows = np.array([row for _, row in signed], np.int64).reshape(-1, 2)
    return Changes(np.zeros(len(weight), np.int64), weight, rows)


def kept(operator: CoGroupRows) -> list[Counter[tuple[int, ...]]]:
    """What a co-group has of each input."""
    return [
        Counter({tuple(row): count for row, count in zip(rows.tolist(), counts.tolist(), strict=True)})
        for rows, counts in operator.state()["inputs"]
    ]


@pytest.mark.parametrize("rules", RULES)
@pytest.mark.parametrize("keys", [1, 9, 60])
def test_a_co_group_holds_what_came_and_did_not_go(rules: tuple[str, ...], keys: int) -> None:
    chance = Random(keys)
    operator = CoGroupRows([2] * len(rules), rules, 1, (1, 2))
    there: list[Counter[tuple[int, int]]] = [Counter() for _ in rules]
    for round in range(300):
        inputs = []
        for rows in there:
            signed = []
            for _ in range(chance.randrange(4)):
                row = chance.randrange(keys) + 10, chance.randrange(5) + 10
                # The number of rows rises and falls, so that tables fill and empty.
                weight = -1 if rows[row] and (round // 50) % 2 else 1
                rows[row] += weight
                signed.append((weight, row))
            inputs.append(changes(signed))
        operator.step(*inputs)
        expected = []
        for rule, rows in zip(rules, there, strict=True):
            counts: Counter[tuple[int, ...]] = Counter()
            for (key, cell), count in rows.items():
                counts[(key, cell) if rule in ("rows", "left") else (key,)] += count
            expected.append(+counts)
        assert kept(operator) == expected
        assert operator.held == sum(
            len({row[0] for row in counts}) + (len(counts) if rule in ("rows", "left") else 0)
            for rule, counts in zip(rules, expected, strict=True)
        )


@pytest.mark.parametrize("rules", RULES)
def test_ever_new_keys_through_a_window_reuse_the_tables(
    rules: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    operator = CoGroupRows([2] * len(rules), rules, 1, (1, 2))
    rebuilt = []
    rebuild = CoGroupRows._rebuild
    monkeypatch.setattr(
        CoGroupRows, "_rebuild", lambda self, more: (rebuilt.append(number), rebuild(self, more))
    )
    for number in range(5_000):
        both = [(1, (number + 10, 7))] + ([(-1, (number - 490, 7))] if number >= 500 else [])
        operator.step(*(changes(both) for _ in rules))
    assert rebuilt, "the tables grow with the window"
    assert max(rebuilt) <= 500, "and not afterwards"
    assert operator.nbytes < 200 * 500 * len(rules)


def test_a_co_group_without_rows_beyond_its_keys_has_no_table_for_them() -> None:
    keys = np.arange(10, 10_010)
    rows = Changes(np.zeros(len(keys), np.int64), np.ones(len(keys), np.int64), keys[:, None])
    operator = CoGroupRows([1, 1], ("rows", "anti"), 1)
    operator.step(rows, Changes.empty(1))
    assert operator.nbytes < 100 * len(keys)
