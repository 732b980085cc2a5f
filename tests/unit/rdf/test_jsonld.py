"""Contexts of JSON-LD documents come from a folder, and never from the network."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest

from thalweg.io.files import read_events
from thalweg.options import RunOptions
from thalweg.rdf.arena import Arena
from thalweg.rdf.chunk import Reject
from thalweg.rdf.jsonld import file_of
from thalweg.rdf.prune import Prune

IRI = "https://ex.org/contexts/sensor.jsonld"
DOCUMENT = {"@context": [IRI, {"b": "http://b/"}], "@id": "http://s/1", "value": 5, "b": "x"}


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*arguments: object, **options: object) -> None:
        raise AssertionError("the network was used")

    monkeypatch.setattr(socket.socket, "connect", refused)


def predicates(folder: Path, document: object, contexts: Path | None) -> tuple[list[str], list[Reject]]:
    (folder / "a.jsonld").write_text(json.dumps(document))
    arena = Arena()
    options = RunOptions(contexts=None if contexts is None else str(contexts))
    batches = list(read_events([folder / "a.jsonld"], "s", arena, Prune.everything(), options))
    found = [text for batch in batches for text in arena.texts(batch.rows.p)]
    return sorted(found), [reject for batch in batches for reject in batch.rejects]


def test_contexts_are_read_from_the_folder_also_those_that_they_refer_to(tmp_path: Path) -> None:
    contexts = tmp_path / "contexts"
    contexts.mkdir()
    (contexts / "ex.org_contexts_sensor.jsonld").write_text('{"@context": ["more.json", {"x": "http://x/"}]}')
    (contexts / "ex.org_contexts_more.json").write_text('{"@context": {"value": "http://v/value"}}')
    found, rejects = predicates(tmp_path, DOCUMENT, contexts)
    assert found == ["<http://b/>", "<http://v/value>"]
    assert not rejects


def test_a_missing_context_is_named_with_the_file_that_it_would_be_in(tmp_path: Path) -> None:
    found, (reject,) = predicates(tmp_path, DOCUMENT, None)
    assert not found
    assert IRI in reject.reason
    assert "--contexts" in reject.reason
    found, (reject,) = predicates(tmp_path, DOCUMENT, tmp_path)
    assert not found
    assert "there is no file ex.org_contexts_sensor.jsonld" in reject.reason


@pytest.mark.parametrize(
    "content", ["no json", "[]", "{}", '{"@context": "https://ex.org/contexts/sensor.jsonld"}', "[" * 100_000]
)
def test_a_context_that_is_no_context_is_refused(content: str, tmp_path: Path) -> None:
    (tmp_path / "ex.org_contexts_sensor.json").write_text(content)
    found, (reject,) = predicates(tmp_path, DOCUMENT, tmp_path)
    assert not found
    assert IRI in reject.reason


def test_a_context_cannot_lead_out_of_the_folder() -> None:
    assert file_of("http://../../etc/passwd") == ".._.._etc_passwd"
