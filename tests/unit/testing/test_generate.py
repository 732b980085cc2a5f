"""Generated data is well-formed, repeatable, and has what the queries look for."""

from __future__ import annotations

import gzip
from collections import Counter
from pathlib import Path

import pyoxigraph as ox
import pytest

from thalweg.testing.generate import UB, lubm, smart_grid, write

UNIVERSITIES = "".join(lubm(60_000))


@pytest.fixture(scope="module")
def store() -> ox.Store:
    store = ox.Store()
    store.bulk_load(UNIVERSITIES.encode(), ox.RdfFormat.N_TRIPLES)
    return store


@pytest.mark.parametrize(
    "pattern",
    [
        "?x a ub:Course . ?x ub:name ?y",
        "?x ub:worksFor <http://www.Department1.University0.edu> . ?x ub:name ?n . ?x a ub:FullProfessor",
        "?x ub:subOrganizationOf <http://www.Department1.University0.edu> . ?x a ub:ResearchGroup",
        "?x ub:worksFor ?y . ?y ub:subOrganizationOf <http://www.University0.edu> . ?y a ub:Department",
        "?y ub:teacherOf ?z . ?x ub:takesCourse ?z . ?x ub:advisor ?y . ?x a ub:UndergraduateStudent",
        "?y ub:teacherOf ?z . ?x ub:takesCourse ?z . ?x ub:advisor ?y . ?x a ub:GraduateStudent",
    ],
)
def test_generated_universities_answer_the_lubm_patterns(store: ox.Store, pattern: str) -> None:
    assert store.query(f"PREFIX ub: <{UB}> ASK {{ {pattern} }}")


def test_generated_universities_have_the_proportions_of_the_benchmark() -> None:
    counts = Counter(line.split(" ", 2)[1] for line in UNIVERSITIES.splitlines())
    # Shares of the benchmark's own output for one university (103,074 triples).
    for name, share in {
        "takesCourse": 0.208,
        "name": 0.155,
        "publicationAuthor": 0.103,
        "advisor": 0.030,
    }.items():
        assert counts[f"<{UB}{name}>"] / 60_000 == pytest.approx(share, rel=0.15)


def test_a_seed_gives_the_same_stream_again_and_another_seed_another_one() -> None:
    assert "".join(smart_grid(500)) == "".join(smart_grid(500))
    assert "".join(smart_grid(500)) != "".join(smart_grid(500, seed=1))


def test_each_reading_is_a_named_graph_with_one_time_and_times_do_not_go_back() -> None:
    quads = list(ox.parse("".join(smart_grid(2_000)).encode(), ox.RdfFormat.N_QUADS))
    times = [quad.object.value for quad in quads if quad.graph_name == ox.DefaultGraph()]
    graphs = {quad.graph_name for quad in quads} - {ox.DefaultGraph()}
    assert len(times) == len(graphs) == 2_000
    assert times == sorted(times)


def test_the_grid_has_overloads_with_and_without_a_dip() -> None:
    text = "".join(smart_grid(50_000))
    assert 0 < text.count("/Dip>") < text.count("/Overload>") < 50_000 / 50


def test_a_name_that_ends_in_gz_is_written_gzipped(tmp_path: Path) -> None:
    plain, packed = tmp_path / "a.nt", tmp_path / "a.nt.gz"
    assert write(lubm(100), plain) == write(lubm(100), packed) == plain.stat().st_size
    assert gzip.decompress(packed.read_bytes()) == plain.read_bytes()
