"""What the suites stand on: streams of ids, deletes among them, and where real data are looked for."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from thalweg.bench.reevaluation import break_even
from thalweg.bench.workload import STREAM, Cost, Encoded, best_costs, find_data, text_rows


def stream(count: int) -> Encoded:
    return Encoded("".join(f"<n:{k}> <p:p> <n:{k + 1}> .\n" for k in range(count)).encode().splitlines(True))


def test_events_have_the_triples_asked_for_and_a_time_of_their_own() -> None:
    batches = list(stream(10).batches(0, 10, per_event=4, size=5))
    assert [batch.rows.event.tolist() for batch in batches] == [[0] * 4, [1] * 4, [2] * 2]
    assert [batch.clock for batch in batches] == [0, 1000, 2000]
    assert sum(batch.events for batch in batches) == 3


def test_each_delete_comes_after_its_insert_and_not_too_late() -> None:
    plain = stream(5_000)
    changing = plain.with_deletes(0.2, reach=100)
    assert np.array_equal(changing.s[changing.op > 0], plain.s)
    deletes = np.flatnonzero(changing.op < 0)
    assert len(deletes) / len(changing) == pytest.approx(0.2, abs=0.02)
    inserts = np.cumsum(changing.op > 0)
    number = {id: place for place, id in enumerate(plain.s.tolist())}
    ages = [inserts[place] - number[changing.s[place]] for place in deletes.tolist()]
    assert min(ages) > 0
    assert max(ages) <= 101, "counted in inserts"


def test_a_repeated_stream_has_new_nodes_and_the_same_predicates_and_classes() -> None:
    rdf_type = "<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>"
    plain = Encoded([f"<n:a> {rdf_type} <c:C> .\n<n:a> <p:p> <n:b> .\n<n:b> <p:p> <n:c> .\n".encode()])
    twice = plain.repeated(2)
    assert len(twice) == 6
    assert np.array_equal(twice.s[:3], plain.s)
    assert not set(twice.s[3:]) & set(plain.s)
    assert twice.p.tolist() == plain.p.tolist() * 2
    assert twice.o[3] == plain.o[0]
    assert twice.o[4] == twice.s[5], "what was joined is joined in the repetition, too"
    text = f"SELECT * FROM STREAM <{STREAM}> WHERE {{ ?x {rdf_type} <c:C> . ?x <p:p> ?y . ?y <p:p> ?z }}"
    assert twice.run([text], tail=6, warm=0).rows == 2


def test_triples_come_back_as_text() -> None:
    assert b"".join(stream(3).documents(1, 3, size=1)) == b"<n:1> <p:p> <n:2> .\n<n:2> <p:p> <n:3> .\n"


def test_the_best_of_runs_in_turns_is_kept_for_each() -> None:
    order: list[str] = []
    seconds = iter([3.0, 1.0, 2.0, 5.0])

    def run(name: str) -> Cost:
        order.append(name)
        return Cost(next(seconds), triples=1, rows=1, live=0)

    costs = best_costs([lambda: run("a"), lambda: run("b")], repeat=2)
    assert order == ["a", "b", "a", "b"]
    assert [cost.a_triple for cost in costs] == [2.0, 1.0]
    assert costs[0].a_row == 1.0


def test_real_data_are_looked_for_where_the_environment_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("THALWEG_DATA", str(tmp_path))
    assert find_data("none/such.csv") is None
    assert find_data("none/such.csv", tmp_path) == tmp_path
    (tmp_path / "rows.csv").write_text("1,2\n3,4\n")
    found = find_data("rows.csv")
    assert found == tmp_path / "rows.csv"
    assert list(text_rows(found)) == [["1", "2"], ["3", "4"]]


def test_break_even_is_where_the_ratio_passes_one_for_good() -> None:
    assert break_even([(10, 5.0), (100, 0.5), (1000, 50.0)]) == pytest.approx(141, abs=1)
    assert break_even([(10, 0.5), (100, 0.5)]) == 100
