"""A continuous query: a logical tree over sources, and how its answer is turned into a stream."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import takewhile
from typing import TYPE_CHECKING, TypeVar

from thalweg.algebra.contradictions import contradiction
from thalweg.algebra.nodes import (
    Ask,
    Construct,
    Distinct,
    Empty,
    Filter,
    Fixed,
    Node,
    OrderBy,
    Project,
    depth_of,
    is_flat,
    leaves,
    spine,
)
from thalweg.algebra.scope import scope_of
from thalweg.algebra.sequences import Sequence
from thalweg.algebra.terms import Const, Pattern
from thalweg.algebra.transitive import with_chains
from thalweg.algebra.windows import Arrivals, Count, Entailed, Now, Range, Static, Unbounded, Window
from thalweg.deep import deeply
from thalweg.errors import UnsupportedError, UsageError
from thalweg.schema.network import Network

if TYPE_CHECKING:
    from thalweg.schema.axioms import Schema

N = TypeVar("N", bound=Node)
T = TypeVar("T")
_SHALLOW = 20
"""Nested nodes that any stack has room for; each becomes several operators, and each of these takes several frames."""
OPERATORS = ("RSTREAM", "ISTREAM", "DSTREAM")
RANK = "rank"
"""The column of a row's place in the order of the answer, from 1 on."""
DEFAULT_GRAPH = ""
"""The name of the static graph that is part of default graphs: no IRI is empty."""
LANGUAGES = ("SPARQL", "RSP-QL", "C-SPARQL", "SPAseq", "EP-SPARQL")


@dataclass(frozen=True, slots=True)
class Source:
    """A graph that patterns read: streams merged by time and seen through one window, and static graphs, as one set.

    `name` is None for the default graph. `graphs` are names of static graphs, `DEFAULT_GRAPH` that of the unnamed one.
    A source without streams is static data alone.
    """

    streams: tuple[str, ...]
    window: Window = field(default_factory=Unbounded)
    name: str | None = None
    graphs: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.streams and not self.graphs:
            raise ValueError("a source reads at least one stream or one static graph")
        if isinstance(self.window, Static) == bool(self.streams):
            raise ValueError("static data have no window, and streams have one")
        if len(set(self.streams)) != len(self.streams):
            raise ValueError(f"a source names a stream twice: {', '.join(self.streams)}")

    @property
    def seen(self) -> Window:
        """The window that decides when the source changes."""
        return self.window.window if isinstance(self.window, Arrivals | Entailed) else self.window

    def __str__(self) -> str:
        named = [f"<{graph}>" for graph in self.graphs if graph != DEFAULT_GRAPH]
        if not self.streams:
            return f"static graph {' + '.join(named)}" if named else "static data"
        read = " + ".join(f"<{stream}>" for stream in self.streams)
        static = "".join(f" + static {graph}" for graph in named)
        return f"{read} {self.window}{static}" + (f" as <{self.name}>" if self.name is not None else "")


@dataclass(frozen=True)
class Regime:
    """The entailment regime that a query asks for, as rules, and where it is written."""

    iri: str
    rules: tuple[str, ...]
    source: str
    line: int
    column: int


@dataclass(frozen=True)
class Query:
    """A continuous query: the tree, the sources that its leaves read, and how its answer becomes a stream.

    The flat properties (patterns, select, ...) are derived from the tree, for those who read leaves only.
    """

    language: str
    operator: str | None
    output: str | None
    sources: tuple[Source, ...]
    root: Node
    text: str
    sequence: Sequence | None = None
    """What a sequence query (SPAseq, EP-SPARQL) asks for.

    Its tree then only has the patterns of its atoms and the form of the answer.
    """
    cut_by: tuple[str, ...] = ()
    """Where the query is run in two stages: the variables by whose values its triples are spread in the first one."""
    unknown_graphs: tuple[str, ...] = ()
    """Named graphs that the text asks for and that were not there; `*` where it asks for any (GRAPH ?g)."""
    regime: Regime | None = None
    """The entailment regime that the text asks for, until the query is put under a schema."""

    def __post_init__(self) -> None:
        if self.language not in LANGUAGES:
            raise ValueError(f"unknown language {self.language!r}")
        if self.operator is not None and self.operator not in OPERATORS:
            raise ValueError(f"unknown operator {self.operator!r}")
        if not self.sources:
            raise ValueError("a query has at least one pattern and one source")
        if not any(source.streams for source in self.sources):
            raise ValueError("a query reads at least one stream")
        if any(pattern.source >= len(self.sources) for pattern in self.patterns):
            raise ValueError("a pattern reads a source that the query does not have")

    @cached_property
    def _is_deep(self) -> bool:
        return depth_of(self.root) > _SHALLOW

    def recursing(self, function: Callable[[], T]) -> T:
        """The result of a function that recurses over the tree or over what is made of it, however deep it is."""
        return deeply(function) if self._is_deep else function()

    def __reduce__(self) -> tuple[Callable[[bytes, bool], Query], tuple[bytes, bool]]:
        """Pickles the query as bytes, with what was derived from it: pickling recurses over the tree."""
        return _unpickled, (self.recursing(lambda: pickle.dumps(self.__dict__)), self._is_deep)

    def _first(self, kind: type[N]) -> N | None:
        """The first node of a kind on the way down from the root, before the tree branches."""
        return next((node for node in spine(self.root) if isinstance(node, kind)), None)

    @cached_property
    def _form(self) -> tuple[Node, ...]:
        """The nodes above the projection: the form of the answer."""
        return tuple(takewhile(lambda node: not isinstance(node, Project), spine(self.root)))

    @cached_property
    def flat(self) -> bool:
        """Whether the query is a basic graph pattern: then its solutions are rows of the answer."""
        return is_flat(self.root)

    @cached_property
    def ask(self) -> bool:
        """Whether the answer is yes or no: one row that binds nothing, or none."""
        return isinstance(self.root, Ask)

    @cached_property
    def patterns(self) -> tuple[Pattern, ...]:
        """The flat table of the tree's leaf patterns."""
        return leaves(self.root)

    @cached_property
    def select(self) -> tuple[str, ...]:
        """The variables that a solution keeps."""
        project = self._first(Project)
        return scope_of(self.root).possible if project is None else project.names

    @cached_property
    def distinct(self) -> bool:
        """Whether the answer is a set of solutions."""
        return any(isinstance(node, Distinct) for node in self._form)

    @cached_property
    def template(self) -> tuple[Pattern, ...] | None:
        """The triples that solutions are made into, where the answer is a graph."""
        return self.root.template if isinstance(self.root, Construct) else None

    @cached_property
    def fixed(self) -> tuple[tuple[str, Const], ...]:
        """The variables that a rule replaced by a constant; a projected one still is in each solution."""
        fixed = self._first(Fixed)
        return () if fixed is None else fixed.values

    @cached_property
    def empty(self) -> str | None:
        """Why the query has no solution over any data, or None where it may have some."""
        empty = self._first(Empty)
        return None if empty is None else empty.reason

    @cached_property
    def contradiction(self) -> str | None:
        """Why the query has no solution, also where filters at its top exclude each other; None: it may have some."""
        filters, node = [], self.root
        while isinstance(node, Filter | Project | Distinct):
            filters += [node] if isinstance(node, Filter) else []
            node = node.input
        if self.empty is not None or not filters:
            return self.empty
        reason = contradiction(one.condition for one in filters)
        return None if reason is None else f"{reason} (line {filters[-1].line}:{filters[-1].column})"

    @cached_property
    def variables(self) -> tuple[str, ...]:
        """Names of all variables of the patterns, in order of appearance, blank nodes included."""
        return tuple(dict.fromkeys(name for pattern in self.patterns for name in pattern.variables))

    @cached_property
    def ranked(self) -> bool:
        """Whether rows are emitted in the order that the query asks for, each with its rank."""
        whole = self.per_event or self.operator == "RSTREAM"
        return (
            whole
            and not isinstance(self.root, Ask | Construct)
            and self.empty is None
            and self._first(OrderBy) is not None
            and RANK not in scope_of(self.root).possible
        )

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """Names of what a row of the answer binds, in order."""
        return (*scope_of(self.root).possible, *([RANK] if self.ranked else []))

    @cached_property
    def doubts(self) -> tuple[str, ...]:
        """What is valid and can hardly be meant: an answer that is always empty, and variables of the projection or the
        template that nothing binds.
        """
        if self.empty is not None:
            return (f"the answer is always empty: {self.empty}",)
        if self.ask:
            return ()
        if self.sequence is not None:
            idle = [(atom.name, atom.query.contradiction) for atom in self.sequence.atoms]
            if any(reason is not None for _, reason in idle):
                return tuple(f"the atom {name} matches no event: {reason}" for name, reason in idle if reason)
        if self.template is None:
            loose = [name for name in self.select if name not in self.columns]
            return tuple(f"?{name} is selected and no pattern binds it: no row has it" for name in loose)
        unbound = self.root.unbound if isinstance(self.root, Construct) else ()
        return tuple(
            f"?{name} is in the template and no pattern binds it: its triples are never made"
            for name in unbound
        )

    @cached_property
    def streams(self) -> tuple[str, ...]:
        """IRIs of all streams that the query reads, each one once."""
        return tuple(dict.fromkeys(stream for source in self.sources for stream in source.streams))

    @cached_property
    def graphs(self) -> tuple[str, ...]:
        """The static graphs that the query reads, each one once."""
        return tuple(dict.fromkeys(graph for source in self.sources for graph in source.graphs))

    @cached_property
    def windows(self) -> tuple[Window, ...]:
        """The windows that decide when the query's sources change; static data have none."""
        return tuple(source.seen for source in self.sources if source.streams)

    @cached_property
    def per_event(self) -> bool:
        """Whether the query is asked of each event alone: its window is [NOW]."""
        return any(isinstance(source.seen, Now) for source in self.sources)

    @cached_property
    def by_count(self) -> bool:
        """Whether some window counts: then every event matters, whatever the patterns want."""
        return any(isinstance(source.seen, Count) for source in self.sources)

    @cached_property
    def asks_arrivals(self) -> bool:
        """Whether some expression asks when a triple arrived."""
        return any(isinstance(source.window, Arrivals) for source in self.sources)

    def under(self, schema: Schema) -> Query:
        """The query over graphs that are closed under a schema."""
        if self.regime is not None and schema.rules != self.regime.rules:
            raise UsageError(
                f"the query asks for the entailment regime <{self.regime.iri}> (rules {', '.join(self.regime.rules)}), "
                f"and its schema is given with others (rules {', '.join(schema.rules)})"
            )
        Network(schema, tuple(dict.fromkeys(pattern.constants for pattern in self.patterns))).check()
        if self.asks_arrivals:
            raise UnsupportedError(
                "the times of arrivals under a schema: a derived triple arrives with each support"
            )
        sources = []
        for source in self.sources:
            window = source.seen
            assert not isinstance(window, Arrivals | Entailed)
            closed = Static(schema) if isinstance(window, Static) else Entailed(window, schema)
            sources.append(replace(source, window=closed))
        sequence = self.sequence
        if sequence is not None:  # each atom is asked of one event: that is what is closed
            atoms = tuple(replace(atom, query=atom.query.under(schema)) for atom in sequence.atoms)
            sequence = replace(sequence, atoms=atoms)
        root = self.recursing(lambda: with_chains(self.root, schema)) if schema.transitive else self.root
        return replace(self, sources=tuple(sources), root=root, sequence=sequence, regime=None)

    @cached_property
    def schema(self) -> Schema | None:
        """The schema under which the graphs that the query sees are closed."""
        windows = (source.window for source in self.sources)
        found = (window.schema for window in windows if isinstance(window, Entailed | Static))
        return next((schema for schema in found if schema is not None), None)

    @cached_property
    def reports_empty(self) -> bool:
        """Whether a report with an empty answer has a row of its own."""
        return any(
            isinstance(w, Range | Count) and w.report is not None and w.report.empty for w in self.windows
        )


def _unpickled(data: bytes, is_deep: bool) -> Query:
    query = object.__new__(Query)
    query.__dict__.update(deeply(lambda: pickle.loads(data)) if is_deep else pickle.loads(data))
    return query
