"""`kill -9` under load: no acknowledged event is lost, and no row comes twice."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

import pytest

from tests.server import killed_workload
from tests.server.killed_server import run
from tests.server.serving import Client


@pytest.mark.parametrize(
    ("kills", "seed"),
    [
        pytest.param(1, 1, marks=pytest.mark.slow),
        pytest.param(6, 2, marks=pytest.mark.soak),
    ],
)
def test_nothing_is_lost_and_nothing_comes_twice(tmp_path: Path, kills: int, seed: int) -> None:
    load, rows = run(tmp_path / "data", kills, seed)
    assert [number for number, _ in rows] == list(range(1, len(rows) + 1))
    terms = [term for _, term in rows]
    assert len(set(terms)) == len(terms)
    received = {int(term.removeprefix("<http://ex/").removesuffix(">")) for term in terms}
    assert load.acknowledged <= received <= load.sent
    assert len(load.acknowledged) > 5 * kills


@pytest.mark.soak
def test_derived_streams_sequences_static_data_and_leases_are_as_if_nothing_had_happened(
    tmp_path: Path,
) -> None:
    killed_workload.check(killed_workload.run(tmp_path / "data", kills=3, seed=3))


@pytest.mark.soak
def test_the_store_has_every_acknowledged_event_once(tmp_path: Path) -> None:
    kept: dict[str, int] = {}

    def look(client: Client) -> None:
        text = quote("SELECT (COUNT(*) AS ?n) { ?s ?p ?o }")
        rows = client("GET", f"/store/sparql?query={text}", headers={"Accept": "text/csv"}).data.split()
        kept["triples"] = int(rows[1])
        kept["events"] = client("GET", "/store").json["events"]

    load, rows = run(tmp_path / "data", 4, 3, "--keep", at_end=look)
    # Each event has a triple of its own: one that was kept twice would be counted twice.
    assert kept["triples"] == kept["events"] == len(rows)
    assert len(load.acknowledged) <= kept["events"] <= len(load.sent)
