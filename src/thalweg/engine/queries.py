"""The queries of a session, and its static data: what readers and streamsets have to do for them."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from thalweg.algebra.query import DEFAULT_GRAPH, Query
from thalweg.answers import ContinuousQuery
from thalweg.arguments import graph_name_of, query_of, span_of, stream_of, under_schema
from thalweg.engine.base import SessionBase
from thalweg.errors import UsageError, warn
from thalweg.operators.placement import strategy_of, streamset_for, streamset_with_content
from thalweg.operators.retention import Retained
from thalweg.operators.sequences import SequenceSet
from thalweg.operators.streamset import Streamset
from thalweg.operators.views import View
from thalweg.options import Strategy
from thalweg.plan.pruning import pruning_of
from thalweg.rdf.prune import Prune, Signature
from thalweg.static.files import open_document
from thalweg.static.reading import format_of_static, path_of, read_document

Ints = NDArray[np.int64]


class SessionWithQueries(SessionBase):
    """A session that takes queries in, and the static data that they read."""

    @property
    def queries(self) -> list[ContinuousQuery]:
        """The registered queries."""
        return list(self._queries)

    def register(
        self,
        text: str | bytes | Query,
        *,
        stream: str | None = None,
        source: str = "query",
        start: str = "now",
        schema: object = None,
        rules: str | Iterable[str] | None = None,
    ) -> ContinuousQuery:
        """Takes a query in; it sees the events that come from now on.

        With a `schema`, the path of a file or RDF text (Turtle unless the name of the file says otherwise), the query
        sees graphs that are closed under it. `rules` is a list of names that replaces the ten of the default; `default`
        stands for these (see docs/semantics.md).

        With `start="content"` it begins with the answer over what its streams retain (see `retain`), as `+` rows at
        the present instant. `stream` is what a query reads that names no stream.
        """
        self._check_open()
        if start not in ("now", "content"):
            raise UsageError(f'start is "now" or "content", not {start!r}')
        query = query_of(text, source=source, stream=stream, graphs=self._static.names)
        asked = query
        query = under_schema(query, schema, rules)
        self._static.require(query.graphs, self._static_cache)
        if asked is not text:  # else whoever parsed it has seen its doubts
            for doubt in query.doubts:
                warn(f"{source}: {doubt}")
        named = [*query.streams, *([query.output] if query.output is not None else [])]
        self._derived.check(query, {name: self._watermark(name) for name in named})
        if start == "content":
            self._check_retained(query)
        streamset = self._streamset_for(query, start)
        view = streamset.add(query, self.arena, self.options.limits)
        registered = self._registered(query, view, streamset)
        self._add(registered)
        return registered

    def _registered(self, query: Query, view: View, streamset: Streamset) -> ContinuousQuery:
        return ContinuousQuery(
            self.arena, query, view, streamset, self._compaction.compact_if_shrunk, self._subscriptions.add
        )

    def _add(self, registered: ContinuousQuery) -> None:
        self._queries.append(registered)
        view = registered.view
        view.limit, view.on_overflow = self.options.max_pending, self._overfull.append
        self._overfull.append(view)  # a restored one may hold too many rows
        self._derived.add(registered.query, registered.view, registered.streamset)
        self._prune = None

    def unregister(self, query: ContinuousQuery) -> None:
        """Lets a query go; what it has not been polled for is lost."""
        if query not in self._queries:
            raise UsageError("this query is not registered in this session")
        self._queries.remove(query)
        self._subscriptions.forget(query)
        self._derived.remove(query.view)
        query.streamset.remove(query.view, self.arena.intern)
        self._streamsets[:] = [streamset for streamset in self._streamsets if len(streamset)]
        self._prune = None
        self._compaction.compact_if_shrunk()

    def retain(self, stream: str, keep: int | str | None = None) -> None:
        """Keeps the events of a stream that come from now on, for queries that begin with the stream's content.

        `keep` is how long before the watermark they are kept (milliseconds or a duration like "1h"), None is for ever.
        Readers then prune nothing. A second call changes how long.
        """
        self._check_open()
        stream = stream_of(stream)
        span = None if keep is None else span_of(keep)
        if stream in self._retained:
            self._retained[stream].keep = span
        else:
            self._retained[stream] = Retained(span)
        self._prune = None

    def release(self, stream: str) -> None:
        """Keeps the events of a stream no longer, and lets go of those that it kept; queries keep their windows."""
        self._retained.pop(stream_of(stream), None)
        self._prune = None
        self._compaction.compact_if_shrunk()

    def _check_retained(self, query: Query) -> None:
        others = [name for name in query.streams if name not in self._retained]
        if others:
            raise UsageError(
                f'start="content" needs streams that are retained, and <{others[0]}> is not: '
                "call session.retain(stream) before its events come"
            )

    def _new_streamset(self, streams: tuple[str, ...], strategy: Strategy) -> Streamset:
        return self._begun(Streamset(streams, strategy, self._static))

    def _begun(self, streamset: Streamset) -> Streamset:
        for name in streamset.streams:
            streamset.push(name, None, self._stream(name).clock, self._stream(name).watermark)
        self._streamsets.append(streamset)
        return streamset

    def _streamset_for(self, query: Query, start: str) -> Streamset:
        """The streamset for a query: shared with others as far as the law allows it."""
        streams, strategy = tuple(sorted(query.streams)), self.options.strategy
        if query.sequence is not None:
            return self._begun(SequenceSet(streams, self._static))
        # [NOW] is the content of one event: none of those that have come is.
        if start == "now" or query.per_event:
            found = streamset_for(query, self._streamsets, strategy, self.threads)
            return found or self._new_streamset(streams, strategy_of(query, strategy))
        found = streamset_with_content(query, self._streamsets, strategy)
        if found is None:
            found = self._new_streamset(streams, strategy)
            found.begin_with({name: self._retained[name].rows() for name in streams})
        return found

    def prune(self) -> Prune:
        """What the registered queries can use of a stream, or all where one is retained: what readers have to keep."""
        if self._prune is None:
            queries = (registered.query for registered in self._queries)
            keeps_all = any(stream not in self._derived for stream in self._retained)
            self._prune = (
                Prune.everything() if keeps_all else pruning_of(queries, self._derived, self._static.names)
            )
        return self._prune

    # Static data

    def load(
        self,
        data: str | bytes | os.PathLike[str],
        graph: str | None = None,
        format: str | None = None,
        replace: bool = False,
    ) -> int:
        """Loads static data: the path of a file, or RDF text (Turtle unless `format` is given); the number of triples.

        They are in the default graph of all queries, or in the named graph `graph`; named graphs of TriG and N-Quads
        keep their names. A second load adds to a graph, `replace=True` replaces it; blank nodes are those of the load.
        Queries that run see the change at one instant, the first that can still change: that of the watermark. Data
        with an error are refused as a whole, and what was there stays.
        """
        self._check_open()
        name = DEFAULT_GRAPH if graph is None else graph_name_of(graph)
        path = path_of(data)
        found = format_of_static(path, format)
        document = (
            open_document(path, found, self._static_cache) if path is not None else read_document(data, found)  # type: ignore[arg-type]
        )
        coming = {own or name for own in document.graphs}
        self._check_coming(coming)
        self._static.load(document, name, replace=replace)
        self._prune = None
        for streamset in self._streamsets:
            streamset.reload()
        self._run(list(self._streamsets))
        return len(document)

    def _check_coming(self, names: Collection[str]) -> None:
        """Refuses graphs that registered queries ask for, and that were not there when these were read."""
        coming = set(names) - {DEFAULT_GRAPH, *self._static.names}
        for registered in self._queries:
            unknown = registered.query.unknown_graphs
            asked = coming if "*" in unknown else coming.intersection(unknown)
            if asked:
                raise UsageError(
                    f"a registered query asks for the graph <{min(asked)}>, which was not there when it was "
                    "registered: load a graph before the queries that read it"
                )

    @property
    def static_graphs(self) -> list[str]:
        """The names of the static graphs that are loaded; the empty one is that of the default graph."""
        return self._static.names

    def static_content(self) -> Iterator[tuple[str, Ints]]:
        """The static graphs: their names, and their triples as rows of ids."""
        for name in self._static.names:
            yield name, self._static.select([name], [Signature(None, None, None)], self.arena)
