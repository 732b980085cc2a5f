"""Shares: how the triples of a query are spread over shards (HyperCube), so that each solution is found once.

Shards are the cells of a grid. A variable with a share is a dimension of it; the value of the variable is hashed to
a coordinate. A triple that fits a pattern goes to the cells that agree with it in the dimensions of the pattern's
variables, and to all along the other dimensions. The triples of a solution meet in the one cell that agrees with
all of them.

One triple may fit several patterns in different ways. A *role* is a way of routing. Roles that a triple can have at the
same time come through *channels* of their own, each a stream for itself in a cell, so that a pattern sees a triple only
where it was sent for its sake, and nothing is found twice.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

from thalweg.algebra.nodes import with_leaves
from thalweg.algebra.query import Query, Source
from thalweg.algebra.terms import Pattern, Var
from thalweg.algebra.windows import Entailed, Part
from thalweg.plan.cells import Cell
from thalweg.plan.meeting import follows, meeting_variables
from thalweg.plan.stages import cutting_variables, in_steps, stages_of

Dimensions = tuple[int | None, int | None, int | None]
"""For subject, predicate and object: the dimension of the grid that the term decides, if any."""

_MARK = "\x1f"


@dataclass(frozen=True)
class Role:
    """A way of routing: which positions decide which dimensions; the patterns that it serves; its channel."""

    dimensions: Dimensions
    patterns: tuple[int, ...]
    channel: int = 0


@dataclass(frozen=True)
class Second:
    """The second stage of a query: over how many shards it is spread, and why one stage is not enough."""

    shards: int
    reason: str


@dataclass(frozen=True)
class Shares:
    """The grid of a query. Without roles, everything goes to one shard, or whole events to one of `shards`.

    With a `second` stage, it is the grid of the first one (see `thalweg.plan.stages`).
    """

    shares: tuple[tuple[str, int], ...] = ()
    roles: tuple[Role, ...] = ()
    events: int = 1
    reason: str = ""
    second: Second | None = None

    @property
    def shards(self) -> int:
        """The number of cells."""
        return self.events if not self.roles else prod(share for _, share in self.shares)

    def copies(self, pattern: Pattern) -> int:
        """How many cells a triple goes to for the sake of a pattern."""
        return prod(share for name, share in self.shares if name not in pattern.variables)

    @property
    def channels(self) -> int:
        """The number of streams that a stream becomes in a cell."""
        return 1 + max((role.channel for role in self.roles), default=0)

    def channels_of(self, query: Query, stream: str) -> list[int]:
        """The channels in which triples of a stream are needed; the first one also where none is."""
        read = {
            role.channel
            for role in self.roles
            if any(stream in query.sources[query.patterns[k].source].streams for k in role.patterns)
        }
        used = {pattern.source for pattern in query.patterns}
        idle = any(k not in used and stream in source.streams for k, source in enumerate(query.sources))
        return sorted(read | {0} if idle or not read else read)

    def stream_of(self, stream: str, channel: int) -> str:
        """The name that a cell has for the triples of a stream, or of a static graph, that come through a channel.

        >>> Shares().stream_of("http://ex/s", 0)
        'http://ex/s'
        """
        return stream if self.channels == 1 else f"{stream}{_MARK}{channel}"

    def staged(self, query: Query) -> Query:
        """The query with where it is cut. What a stage gives is not the query's output stream."""
        if self.second is None:
            return query
        return replace(query, cut_by=tuple(name for name, _ in self.shares), output=None)

    @property
    def strides(self) -> list[int]:
        """How far apart the cells are that are neighbours in each dimension."""
        strides, stride = [], 1
        for _, share in self.shares:
            strides.append(stride)
            stride *= share
        return strides

    def in_a_cell(self, query: Query, cell: int) -> Query:
        """The query as a cell evaluates it: up to its cut, and each pattern reads the streams of its channel.

        Under a schema, a triple comes for the sake of some that follow from it: the others are not of the cell.
        """
        if query.sequence is not None and self.roles:
            ((name, shards),) = self.shares
            return replace(query, sequence=replace(query.sequence, part=(name, shards, cell)))
        query = self.staged(query)
        if query.schema is not None and self.roles:
            return self._with_parts(self._by_channels(query), query, cell)
        return self._by_channels(query)

    def _with_parts(self, divided: Query, query: Query, cell: int) -> Query:
        sources = list(divided.sources)
        for place, source in enumerate(sources):
            parts = tuple(
                self._part(query, role, own, cell)
                for role in self.roles
                if (own := [k for k in role.patterns if divided.patterns[k].source == place])
            )
            if isinstance(source.window, Entailed):
                sources[place] = replace(source, window=replace(source.window, parts=parts))
        return replace(divided, sources=tuple(sources))

    def _part(self, query: Query, role: Role, patterns: Sequence[int], cell: int) -> Part:
        """The triples that some patterns of a role ask for in a cell."""
        strides = self.strides
        coordinates = {
            dimension: (column, share, cell // strides[dimension] % share)
            for column, dimension in reversed(list(enumerate(role.dimensions)))
            if dimension is not None
            for share in [self.shares[dimension][1]]
        }
        constants = dict.fromkeys(query.patterns[k].constants for k in patterns)
        return Part(tuple(constants), tuple(coordinates.values()))

    def static_cells(self, query: Query, cell: int) -> dict[str, tuple[str, Cell]]:
        """By the names that a cell has for static graphs: the graph, and the triples of it that are of the cell.

        They are spread as those of streams are, so that solutions of static data alone are found once, too.
        """
        # A source that no pattern reads has a name for its graphs, too.
        found = {self.stream_of(graph, 0): (graph, Cell(())) for graph in query.graphs}
        for role in self.roles:
            for graph in query.graphs:
                own = [k for k in role.patterns if graph in query.sources[query.patterns[k].source].graphs]
                if own:
                    name = self.stream_of(graph, role.channel)
                    before = found.get(name, (graph, Cell(())))[1].parts
                    found[name] = graph, Cell((*before, self._part(query, role, own, cell)))
        return found

    def _by_channels(self, query: Query) -> Query:
        if self.channels == 1:
            return query
        sources: dict[tuple[int, int], Source] = {}
        channel_of = {pattern: role.channel for role in self.roles for pattern in role.patterns}
        keys = [(pattern.source, channel_of[k]) for k, pattern in enumerate(query.patterns)]
        used = {source for source, _ in keys}
        for place, channel in [*keys, *((k, 0) for k in range(len(query.sources)) if k not in used)]:
            source = query.sources[place]
            streams, graphs = (
                tuple(self.stream_of(name, channel) for name in names)
                for names in (source.streams, source.graphs)
            )
            sources.setdefault((place, channel), replace(source, streams=streams, graphs=graphs))
        places = list(sources)
        patterns = tuple(
            replace(pattern, source=places.index(key))
            for pattern, key in zip(query.patterns, keys, strict=True)
        )
        return replace(query, sources=tuple(sources.values()), root=with_leaves(query.root, patterns))


def plain_stream(name: str) -> str:
    """The stream behind the name that a cell has for it."""
    return name.partition(_MARK)[0]


def plan_shares(query: Query, shards: int, sizes: Mapping[int, float] | None = None) -> Shares:
    """The grid of at most `shards` cells in which the fullest cell has the least to hold.

    `sizes` has how many triples fit each pattern (or in what proportion); unknown ones count as one. Where a query
    cannot be split in one stage without changing its answer, it is in two; where that does not help, everything goes
    to one shard, and `reason` is why.
    """
    if shards < 1:
        raise ValueError(f"there is at least one shard, not {shards}")
    if shards == 1:
        return Shares(reason="one was requested")
    allowed, reason = _meeting(query)
    found = _grid(query, allowed, shards, sizes)
    if found.shards > 1:
        return found
    if query.per_event:
        return Shares(events=shards, reason=reason)
    reason = reason or found.reason
    first = _grid(query, cutting_variables(query, _ends(query) or query.variables), shards, sizes)
    if first.shards == 1:
        return Shares(reason=reason)
    cut_by = tuple(name for name, _ in first.shares)
    spreads = stages_of(replace(query, cut_by=cut_by)).spreads
    return replace(first, second=Second(first.shards if spreads else 1, reason))


def _meeting(query: Query) -> tuple[tuple[str, ...], str]:
    """The variables that may have a share where there is one stage; if there is none, the reason."""
    if query.by_count:
        return (), "a window that counts has to see every event"
    if query.per_event:
        return (), "[NOW] reads each event alone: whole events are spread"
    if query.asks_arrivals:
        return (), "the times of arrivals are made where all triples of the window are"
    if query.reports_empty:
        return (), "only a shard with the whole answer can report that it is empty"
    if query.operator == "RSTREAM" and not in_steps(query):
        return (), "RSTREAM repeats the whole answer wherever a part of it changes"
    allowed = _ends(query) or query.variables
    if not query.flat:
        return meeting_variables(query, allowed)
    # Equal rows must meet where they are counted: their cell has to follow from what they show.
    if query.template is not None:
        allowed = tuple(name for name in allowed if name in query.select and follows(query.template, name))
    elif query.distinct or query.operator in ("ISTREAM", "DSTREAM"):
        allowed = tuple(name for name in allowed if name in query.select)
    return allowed, ""


def _grid(query: Query, allowed: Sequence[str], shards: int, sizes: Mapping[int, float] | None) -> Shares:
    """The best grid over some variables."""
    weights = [(sizes or {}).get(k, 1.0) for k in range(len(query.patterns))]
    shares = min(_grids(allowed, shards), key=lambda grid: _cost(query, weights, grid))
    if not shares:
        return Shares(reason="there is no variable that could decide where a triple goes")
    return Shares(shares, _roles(query, shares), reason=_reason(query, shares))


def _ends(query: Query) -> tuple[str, ...]:
    """The variables that are a subject or an object somewhere: there are too few predicates to spread by."""
    ends = {
        term.name for pattern in query.patterns for term in (pattern.s, pattern.o) if isinstance(term, Var)
    }
    return tuple(name for name in query.variables if name in ends)


def _grids(names: Sequence[str], cells: int) -> Iterator[tuple[tuple[str, int], ...]]:
    """All ways to give variables shares, with at most so many cells; the empty grid is one of them."""
    if not names:
        yield ()
        return
    for share in range(1, cells + 1):
        for rest in _grids(names[1:], cells // share):
            yield ((names[0], share), *rest) if share > 1 else rest


def _cost(
    query: Query, weights: Sequence[float], grid: tuple[tuple[str, int], ...]
) -> tuple[float, float, int, int]:
    """What a cell holds, what is sent, how many are spread by objects only (often few of them are very frequent), and
    the number of cells: all of them better if smaller.
    """
    held = sent = 0.0
    cells = prod(share for _, share in grid)
    for pattern, weight in zip(query.patterns, weights, strict=True):
        copies = prod(share for name, share in grid if name not in pattern.variables)
        held += weight * copies / cells
        sent += weight * copies
    subjects = {pattern.s.name for pattern in query.patterns if isinstance(pattern.s, Var)}
    return round(held, 9), round(sent, 9), sum(name not in subjects for name, _ in grid), cells


def _roles(query: Query, shares: tuple[tuple[str, int], ...]) -> tuple[Role, ...]:
    place = {name: k for k, (name, _) in enumerate(shares)}
    served: dict[Dimensions, list[int]] = {}
    for number, pattern in enumerate(query.patterns):
        s, p, o = (place.get(term.name) if isinstance(term, Var) else None for term in pattern.terms)
        served.setdefault((s, p, o), []).append(number)
    roles: list[Role] = []
    for dimensions, patterns in served.items():
        apart = {
            role.channel
            for role in roles
            if any(_overlap(query, one, other) for one in patterns for other in role.patterns)
        }
        channel = next(k for k in range(len(roles) + 1) if k not in apart)
        roles.append(Role(dimensions, tuple(patterns), channel))
    return tuple(roles)


def _overlap(query: Query, one: int, other: int) -> bool:
    """Whether some triple of some stream or static graph fits both patterns."""
    first, second = query.patterns[one], query.patterns[other]
    read, too = query.sources[first.source], query.sources[second.source]
    if set(read.streams).isdisjoint(too.streams) and set(read.graphs).isdisjoint(too.graphs):
        return False
    pairs = zip(first.terms, second.terms, strict=True)
    return all(isinstance(a, Var) or isinstance(b, Var) or a == b for a, b in pairs)


def _reason(query: Query, shares: tuple[tuple[str, int], ...]) -> str:
    everywhere = set.intersection(*(set(pattern.variables) for pattern in query.patterns))
    if len(shares) == 1 and shares[0][0] in everywhere:
        return f"every pattern binds {Var(shares[0][0])}: none needs a copy"
    return "the fullest cell has the least to hold"
