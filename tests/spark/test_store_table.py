"""The table of a store on Spark without Spark: commits, writers, and the order of joins."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import thalweg as tw
from thalweg.algebra.terms import Const, Pattern, Var
from thalweg.rdf.arena import Arena
from thalweg.rdf.events import EventBatch, Rows
from thalweg.spark.store_order import join_order
from thalweg.spark.store_table import Frequency, Table


def append(table: Table, name: str, at: int = 0, **numbered: object) -> bool:
    arena = Arena()
    s, p, o = (np.array([arena.intern(text.encode())]) for text in (f"<a:{name}>", "<a:p>", "<a:o>"))
    none = np.zeros(1, np.int64)
    batch = EventBatch("a:s", Rows.inserts(none + at, none, none, s, p, o))
    return table.append(batch, arena, **numbered)  # type: ignore[arg-type]


def test_two_processes_commit_without_losing_or_doubling_anything(tmp_path: Path) -> None:
    one, other = Table.create(tmp_path), Table(tmp_path)
    assert append(one, "a", writer="w", number=1)
    assert append(other, "b", writer="v", number=1)  # its state was one commit behind
    assert not append(other, "a", writer="w", number=1)
    assert append(one, "c", writer="w", number=2)
    assert one.stats().rows == other.stats().rows == Table(tmp_path).stats().rows == 3
    assert (one.position("w"), one.position("v"), one.position("u")) == (2, 1, None)


def test_of_two_writers_with_one_name_and_number_the_second_commits_nothing(tmp_path: Path) -> None:
    table = Table.create(tmp_path)
    append(table, "a")
    [file] = table.refresh().files.values()
    assert table.add([], writer="w", number=5)
    assert not table.add([file], writer="w", number=5)


def test_files_that_another_process_has_replaced_are_not_replaced_again(tmp_path: Path) -> None:
    one, other = Table.create(tmp_path), Table(tmp_path)
    append(one, "a")
    [file] = other.refresh().files.values()
    assert one.replace_files([file.path], [])
    assert not other.replace_files([file.path], [file])
    assert not other.refresh().files


def test_files_that_no_commit_names_do_not_count(tmp_path: Path) -> None:
    table = Table.create(tmp_path)
    append(table, "a", at=1)
    (tmp_path / "data" / "left").mkdir()
    (tmp_path / "data" / "left" / "part.parquet").write_bytes(b"a task was killed here")
    assert (table.stats().rows, table.stats().files) == (1, 1)
    assert table.frequencies() == {"<a:p>": Frequency(1, 1, 1)}


def test_a_folder_that_is_no_store_is_refused(tmp_path: Path) -> None:
    with pytest.raises(tw.UsageError, match="there is no store on Spark here"):
        Table(tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(tw.UsageError, match="not empty, and it is no store on Spark"):
        Table.create(tmp_path)


def test_the_lightest_pattern_comes_first_and_linked_ones_follow() -> None:
    p, q, r = (Const.iri(f"a:{name}") for name in "pqr")
    table = {p.text: Frequency(1000, 1000, 10), q.text: Frequency(500, 500, 500), r.text: Frequency(5, 5, 5)}
    x, y, z = Var("x"), Var("y"), Var("z")
    patterns = [Pattern(x, p, y), Pattern(x, q, Const.iri("a:o")), Pattern(z, r, z)]
    assert join_order(patterns, table) == [1, 0, 2]
