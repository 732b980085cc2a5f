"""EP-SPARQL in the state of a shard: the same matches after every loss of a worker."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.property.harness import quads
from tests.spark.fakes import Play, chunks_of, in_process, job_of, new_worker, told
from tests.spark.test_sequences_in_shards import ONE, events

QUERIES = {
    "followed": "{ ?x :p ?a } SEQ { ?x :p ?b } FILTER(?b > ?a)",
    "optional": "{ ?x :p ?a } OPTIONALSEQ { ?x :o ?b FILTER(?b > ?a) }",
    "at once": "{ { ?x :p ?a } SEQ { ?x :p ?c } } EQUALSOPTIONAL "
    "{ { ?x :p ?a } SEQ { ?x :o ?b } SEQ { ?x :p ?c } }",
    "joined": "{ { ?x :p ?a } SEQ { ?x :p ?b } } { ?x :o ?c } "
    'FILTER(getDURATION() > "PT0.004S"^^<http://www.w3.org/2001/XMLSchema#duration>)',
}


@pytest.mark.parametrize("name", QUERIES)
def test_a_temporal_pattern_has_the_same_matches_after_every_loss_of_a_worker(
    tmp_path: Path, name: str
) -> None:
    text = f"PREFIX : <http://ex/> SELECT * FROM STREAM <{ONE}> [RANGE 12ms] WHERE {{ {QUERIES[name]} }}"
    job = job_of(text, shards=4, drain=True)
    path = tmp_path / "one.nq"
    path.write_bytes(quads(events(ONE, 1), stamp="before"))
    play = Play(job)
    for chunk in chunks_of(job, ONE, path, piece_bytes=900):
        new_worker()
        play.batch([chunk])
    expected = told(in_process(job, {ONE: path}))
    assert expected
    assert told(play.rows) == expected
