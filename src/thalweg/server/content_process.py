"""The helper process of `/sparql`: a replica of the service's content in Oxigraph, and forks that answer questions.

It is a program that imports nothing but pyoxigraph, so that it starts quickly and its forks share all of its memory.
The server sends what has changed since the last question.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import partial
from typing import Any

import pyoxigraph as ox

from thalweg.server import forks, frames
from thalweg.server.describing import named_node

_BULK = 10_000
Graph = ox.NamedNode | ox.DefaultGraph


class Replica:
    """A store of quads whose terms have the ids of the session."""

    def __init__(self) -> None:
        self.store = ox.Store()
        self._terms: dict[int, Any] = {}

    def change(self, head: dict[str, Any], body: bytes) -> None:
        """Takes new terms, and the rows that graphs have lost and gained."""
        if head["reset"]:
            self.store, self._terms = ox.Store(), {}
        ids, rows = head["terms"], sum(3 * (one["removed"] + one["added"]) for one in head["graphs"])
        numbers = memoryview(body)[: 8 * (ids + rows)].cast("q").tolist()
        lines = body[8 * (ids + rows) :].splitlines()
        # A parser of terms alone is not offered: each is the object of a triple.
        text = b"".join(b"<i:i> <i:i> %b .\n" % line for line in lines)
        found = ox.parse(text, ox.RdfFormat.N_TRIPLES, lenient=True)
        for id, quad in zip(numbers[:ids], found, strict=True):
            self._terms[id] = quad.object
        at = ids
        for one in head["graphs"]:
            name = ox.DefaultGraph() if one["name"] is None else named_node(one["name"])
            middle = at + 3 * one["removed"]
            end = middle + 3 * one["added"]
            if one["size"] == 0 and one["name"] is not None:
                self.store.remove_graph(name)
            else:
                for quad in self._quads(numbers[at:middle], name):
                    self.store.remove(quad)
            add = self.store.bulk_extend if one["added"] > _BULK else self.store.extend
            add(self._quads(numbers[middle:end], name))
            at = end

    def _quads(self, numbers: list[int], name: Graph) -> Iterator[ox.Quad]:
        terms = self._terms
        for k in range(0, len(numbers), 3):
            yield ox.Quad(terms[numbers[k]], terms[numbers[k + 1]], terms[numbers[k + 2]], name)

    def answer(self, head: dict[str, Any]) -> forks.Answer:
        """The answer of a question: of a query, or for the triples of a graph."""
        return self._graph(head) if head["kind"] == "graph" else self._query(head)

    def _query(self, head: dict[str, Any]) -> forks.Answer:
        given: dict[str, Any] = {}
        try:
            if head["default"] is not None:
                given["default_graph"] = [ox.NamedNode(name) for name in head["default"]]
                given["named_graphs"] = [ox.NamedNode(name) for name in head["named"]]
            found = self.store.query(head["text"], base_iri=head["base"], **given)
        except (SyntaxError, ValueError) as error:
            return {"status": "refused", "message": str(error.args[0] if error.args else error)}, b""
        is_graph = isinstance(found, ox.QueryTriples)
        media = head["graph_type"] if is_graph else head["solutions_type"]
        if media is None:
            return {"status": "unacceptable", "graph": is_graph}, b""
        format: Any = (ox.RdfFormat if is_graph else ox.QueryResultsFormat).from_media_type(media)
        return {"status": "ok", "type": media}, found.serialize(format=format) or b""

    def _graph(self, head: dict[str, Any]) -> forks.Answer:
        try:
            name: Graph = ox.DefaultGraph() if head["name"] is None else ox.NamedNode(head["name"])
        except ValueError as error:
            return {"status": "refused", "message": str(error)}, b""
        if head["name"] is not None and not self.store.contains_named_graph(name):
            return {"status": "absent"}, b""
        triples = (quad.triple for quad in self.store.quads_for_pattern(None, None, None, name))
        format = ox.RdfFormat.from_media_type(head["graph_type"])
        return {"status": "ok", "type": head["graph_type"]}, ox.serialize(triples, format=format) or b""


def main() -> None:
    """Takes frames until the server has closed the socket."""
    forks.prepare()
    server = forks.server_socket()
    replica = Replica()
    while (frame := frames.receive(server)) is not None:
        head, body, files = frame
        if head["kind"] == "change":
            replica.change(head, body)
        else:
            answer = partial(replica.answer, head)
            forks.answer_in_fork(files[0], head, answer, close=(server.fileno(),), opens=False)
    os._exit(0)  # to free a large store piece by piece takes long


if __name__ == "__main__":
    main()
