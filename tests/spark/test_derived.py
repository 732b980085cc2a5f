"""Derived streams in the stateful step: the log of the sources is all that a new engine needs."""

from __future__ import annotations

import tempfile
from collections import defaultdict
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.property.harness import made, merged, quads
from tests.spark.fakes import Play, chunks_of, in_process, job_of, new_worker, told
from thalweg.errors import UsageError
from thalweg.testing.strategies import OPERATORS, any_windows, producers, questions, streams

DERIVED = "http://ex/d"


@given(st.data())
def test_new_workers_make_the_same_derived_streams(data: st.DataObject) -> None:
    events = data.draw(streams(max_events=16))
    producer = data.draw(producers(events, DERIVED))
    derived = made(producer, events)
    assume(derived)
    read = derived if data.draw(st.booleans()) else merged(events, derived)
    operators = [None, *OPERATORS]
    question = data.draw(questions(read, window=any_windows(), max_patterns=2, operators=operators))
    names = defaultdict(list)
    for event in events:
        names[event.stream].append(event)
    for stream in (question.streams | producer.streams) - {DERIVED}:
        names.setdefault(stream, [])
    lateness = data.draw(st.sampled_from([0, 2]))
    job = job_of(question.text(), derive=[producer.text()], drain=data.draw(st.booleans()), lateness=lateness)
    with tempfile.TemporaryDirectory() as folder:
        paths = {}
        for number, (stream, own) in enumerate(sorted(names.items())):
            paths[stream] = Path(folder) / f"{number}.nq"
            paths[stream].write_bytes(quads(own, stamp="before"))
        chunks = [
            chunk
            for stream, path in paths.items()
            for chunk in chunks_of(job, stream, path, piece_bytes=data.draw(st.sampled_from([1, 300])))
        ]
        expected = in_process(job, paths)
    play = Play(job)
    for chunk in data.draw(st.sampled_from([chunks, sorted(chunks, key=lambda c: c["seq"][0].as_py())])):
        if data.draw(st.booleans()):
            new_worker()
        play.batch([chunk], retry=data.draw(st.booleans()))
    assert told(play.rows) == told(expected)


def test_only_a_construct_with_an_output_derives_a_stream() -> None:
    text = "SELECT ?x FROM STREAM <http://ex/d> WHERE { ?x ?p ?y }"
    with pytest.raises(UsageError, match="CONSTRUCT"):
        job_of(text, derive=[text])
