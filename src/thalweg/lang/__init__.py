"""Query texts become queries: SPARQL, RSP-QL, C-SPARQL, SPAseq and EP-SPARQL, recognised by their clauses."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from rdflib.plugins.sparql.parserutils import CompValue

from thalweg import lines
from thalweg.algebra.nodes import leaves, with_leaves
from thalweg.algebra.query import DEFAULT_GRAPH, OPERATORS, Query, Regime, Source
from thalweg.algebra.rules import rewrite
from thalweg.algebra.windows import PERIODIC, Count, Now, Range, Report, Static, Unbounded, Window
from thalweg.deep import deeply
from thalweg.errors import QueryError, UsageError
from thalweg.lang import csparql, grammar, rspql
from thalweg.lang.clauses import Cursor, Name, Token
from thalweg.lang.epsparql import is_temporal, parse_temporal
from thalweg.lang.hints import data_in, hint_at
from thalweg.lang.names import Prologue
from thalweg.lang.sparql import QueryReader
from thalweg.lang.spaseq import is_sequence, parse_sequence
from thalweg.lang.text import QueryText
from thalweg.schema.rules import rules_of_regime

_LONGEST = 2_000_000
_DEEPEST = 300
_SHALLOW = 2  # levels of groups and brackets that the grammar reads on any stack
_UPDATES = ("INSERT", "DELETE", "LOAD", "CLEAR", "CREATE", "DROP", "COPY", "MOVE", "ADD", "WITH")


def parse(
    text: str | bytes, *, source: str = "query", stream: str | None = None, graphs: Collection[str] = ()
) -> Query:
    """The query of a text. `stream` is the stream that a query reads which names none itself.

    `graphs` are the names of the static graphs that there are, `DEFAULT_GRAPH` that of the unnamed one.

    >>> query = parse("SELECT ?x FROM STREAM <http://ex/s> [RANGE 10s] { ?x a <http://ex/A> }")
    >>> query.language, str(query.sources[0]), [str(pattern) for pattern in query.patterns]
    ('RSP-QL', '<http://ex/s> [RANGE 10s]', ['?x <http://www.w3.org/1999/02/22-rdf-syntax-ns#type> <http://ex/A>'])
    """
    if isinstance(text, bytes):
        try:
            text = text.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            line = lines.count(error.object[: error.start]) + 1
            raise QueryError("this is not UTF-8 text", source=source, line=line) from None
    if len(text) > _LONGEST:
        raise QueryError(
            f"the query has {len(text):,} characters, and {_LONGEST:,} are the most", source=source
        )
    query = QueryText(text.removeprefix("\ufeff"), source)
    try:
        cursor = Cursor(query)
    except QueryError:
        _check_no_data(query)
        raise
    depth = max((token.depth for token in cursor.tokens), default=0)
    if depth > _DEEPEST:
        deepest = next(token for token in cursor.tokens if token.depth > _DEEPEST)
        query.fail(f"the query is nested more than {_DEEPEST} levels deep", deepest.at)
    read = partial(_read, cursor, stream, graphs)
    return deeply(read) if depth > _SHALLOW else read()


def _read(cursor: Cursor, stream: str | None, graphs: Collection[str]) -> Query:
    try:
        query = _parse(cursor, stream, graphs)
        return query if query.sequence is not None else rewrite(query)
    except RecursionError:
        raise QueryError("the query is nested too deeply", source=cursor.query.source) from None


@dataclass
class _Clauses:
    """The stream clauses of a text, and the SPARQL text that remains without them."""

    registration: rspql.Registration | None = None
    regime: Name | None = None
    windows: list[rspql.NamedWindow] = field(default_factory=list)
    streams: list[csparql.DefaultStream] = field(default_factory=list)
    blocks: set[int] = field(default_factory=set)
    remaining: str = ""


def _parse(cursor: Cursor, stream: str | None, graphs: Collection[str]) -> Query:
    query = cursor.query
    if is_sequence(cursor):
        return parse_sequence(cursor, graphs)
    if is_temporal(cursor):
        return parse_temporal(cursor, stream, graphs)
    clauses = _cut(cursor)
    try:
        declarations, tree = grammar.parse(clauses.remaining)
    except grammar.GrammarError as failure:
        _explain(cursor, failure, clauses.remaining)
    prologue = Prologue(query, declarations)
    dataset = _dataset(query, prologue, tree, graphs)
    sources, default = _sources(query, prologue, clauses, stream, dataset)
    reader = QueryReader(
        query,
        prologue,
        sources=tuple(sources),
        window_blocks=frozenset(clauses.blocks),
        default=default,
    )
    root = reader.read(tree)
    sources += reader.arrivals()
    # A source that no pattern reads changes no answer, so it is not one.
    patterns = leaves(root)
    read = {pattern.source for pattern in patterns}
    # A query of static data alone still begins with the first instant of its streams.
    streaming = [k for k, source in enumerate(sources) if source.streams and source.seen == source.window]
    used = sorted(read if any(sources[k].streams for k in read) else read.union(streaming))
    kept = tuple(sources[i] for i in used)
    _check_now(query, clauses, kept)
    _check_empty(query, clauses)
    registration = clauses.registration
    renumbered = tuple(replace(p, source=used.index(p.source)) for p in patterns)
    return Query(
        language=_language(clauses, kept),
        operator=registration.operator if registration else None,
        output=prologue.clause_name(registration.output) if registration and registration.output else None,
        sources=kept,
        root=with_leaves(root, renumbered),
        text=query.written,
        unknown_graphs=tuple(reader.unknown_graphs),
        regime=_regime(query, prologue, clauses.regime),
    )


def _regime(query: QueryText, prologue: Prologue, asked: Name | None) -> Regime | None:
    """The entailment regime of a name; one that there is not is refused."""
    if asked is None:
        return None
    iri = prologue.clause_name(asked)
    try:
        return Regime(iri, rules_of_regime(iri), query.source, *query.place(asked.at))
    except UsageError as error:
        query.refuse(error.reason, asked.at)


def _cut(cursor: Cursor) -> _Clauses:
    """Find the stream clauses, read them, and blank them in the text."""
    clauses = _Clauses()
    asked = False
    while (token := cursor.next()).kind != "end":
        if token.depth == 0 and token.matches("REGISTER"):
            if clauses.registration or asked:
                cursor.query.fail("a query is registered once, before its SELECT or CONSTRUCT", token.at)
            front = csparql if csparql.is_registration(cursor) else rspql
            clauses.registration = front.registration(cursor, token)
            clauses.regime = clauses.registration.regime
        elif token.depth == 0 and token.matches("UNDER") and cursor.peek().matches("ENTAILMENT"):
            if clauses.regime is not None:
                cursor.query.fail("a query has one entailment regime", token.at)
            clauses.regime = rspql.entailment(cursor)
        elif token.depth == 0 and token.matches("FROM") and cursor.take("STREAM"):
            clauses.streams.append(csparql.default_stream(cursor, token))
        elif token.depth == 0 and token.matches("FROM") and cursor.peek(1).matches("WINDOW"):
            cursor.expect("NAMED")
            cursor.expect("WINDOW")
            clauses.windows.append(rspql.named_window(cursor))
        elif token.depth == 0 and token.matches("FROM") and cursor.peek(1).matches("STREAM"):
            cursor.expect("NAMED")
            cursor.expect("STREAM")
            clauses.windows.append(csparql.named_stream(cursor))
        elif token.depth == 0 and token.matches("GRAPH") and _follows_from(cursor):
            pass  # drafts of RSP-QL write FROM GRAPH <g> for SPARQL's FROM <g>
        elif token.depth > 0 and token.matches("WINDOW"):
            clauses.blocks.add(rspql.window_block(cursor, token))
            continue
        elif token.depth > 0 and token.matches(
            "SERVICE"
        ):  # rdflib's grammar does not end where they are nested
            cursor.query.refuse("SERVICE is not supported: a query makes no network call", token.at)
        else:
            asked = asked or token.matches("SELECT", "CONSTRUCT")
            continue
        cursor.blank(token.at, cursor.tokens[cursor.i - 1].end)
    clauses.remaining = cursor.remaining_text
    _compute_every(cursor.query, clauses)
    return clauses


def _compute_every(query: QueryText, clauses: _Clauses) -> None:
    """Reports all windows at the distance of COMPUTED EVERY."""
    if clauses.registration is None or (every := clauses.registration.every) is None:
        return

    def reported(window: Window, at: int) -> Window:
        if not isinstance(window, Range | Count) or window.period is not None:
            query.refuse("COMPUTED EVERY needs windows by time or count, without REPORT PERIODIC", at)
        return replace(window, report=Report(PERIODIC, every))

    clauses.windows = [replace(one, window=reported(one.window, one.stream.at)) for one in clauses.windows]
    clauses.streams = [replace(one, window=reported(one.window, one.at)) for one in clauses.streams]


def _follows_from(cursor: Cursor) -> bool:
    """Whether the token before the cursor comes after FROM or FROM NAMED."""
    before = cursor.tokens[max(cursor.i - 3, 0) : cursor.i - 1]
    return bool(before) and (
        before[-1].matches("FROM") or [t.matches("FROM", "NAMED") for t in before] == [True] * 2
    )


@dataclass(frozen=True)
class _Dataset:
    """The static graphs of a query: those that are merged to its default graph, and those that it can name."""

    merged: tuple[str, ...]
    named: tuple[str, ...]
    """The graphs that GRAPH reads."""
    fills_default: bool
    """Whether there are static data in the default graph."""


def _dataset(query: QueryText, prologue: Prologue, tree: CompValue, graphs: Collection[str]) -> _Dataset:
    """The static graphs that FROM and FROM NAMED choose; without them, all that there are."""
    clauses = tree.datasetClause or ()
    if not clauses:
        named = tuple(sorted(graph for graph in graphs if graph != DEFAULT_GRAPH))
        return _Dataset((DEFAULT_GRAPH,), named, DEFAULT_GRAPH in graphs)

    def name(term: Any, at: int) -> str:
        # The name of a file may stay relative without a BASE.
        found = prologue.resolve(str(term), at) if not isinstance(term, CompValue) else ""
        return found or prologue.iri(term, at)

    merged = dict.fromkeys(
        name(clause.default, clause.at) for clause in clauses if clause.default is not None
    )
    chosen = dict.fromkeys(name(clause.named, clause.at) for clause in clauses if clause.named is not None)
    return _Dataset(tuple(merged), tuple(chosen), bool(merged))


def _sources(
    query: QueryText, prologue: Prologue, clauses: _Clauses, stream: str | None, dataset: _Dataset
) -> tuple[list[Source], int | None]:
    """The declared sources, and the index of the one that is the default graph."""
    sources, default = _streaming(query, prologue, clauses, stream, dataset)
    if default is None and dataset.fills_default:
        default = len(sources)
        sources.append(Source((), Static(), graphs=dataset.merged))
    taken = {source.name for source in sources}
    sources += [Source((), Static(), graph, (graph,)) for graph in dataset.named if graph not in taken]
    return sources, default


def _streaming(
    query: QueryText, prologue: Prologue, clauses: _Clauses, stream: str | None, dataset: _Dataset
) -> tuple[list[Source], int | None]:
    """The declared windows, and the index of the one that is a part of the default graph."""
    sources: list[Source] = []
    for named in clauses.windows:
        name = prologue.clause_name(named.name)
        if any(name == source.name for source in sources):
            query.fail(f"the window <{name}> is declared twice", named.name.at)
        sources.append(Source((prologue.clause_name(named.stream),), named.window, name))
    if clauses.streams:
        window = clauses.streams[0].window
        for default in clauses.streams[1:]:
            if default.window != window:
                query.refuse(
                    "FROM STREAM with different windows in one query is not supported yet: "
                    "use FROM NAMED WINDOW and WINDOW blocks",
                    default.at,
                )
        names = dict.fromkeys(prologue.clause_name(default.stream) for default in clauses.streams)
        sources.append(Source(tuple(names), window, graphs=dataset.merged))
        return sources, len(sources) - 1
    if clauses.windows:
        return sources, None
    if stream is None:
        query.fail("the query names no stream: write FROM STREAM <...>, or give one with stream=", 0)
    name = stream.removeprefix("<").removesuffix(">")
    sources.append(Source((name,), Unbounded(), graphs=dataset.merged))
    return sources, 0


def _check_now(query: QueryText, clauses: _Clauses, sources: tuple[Source, ...]) -> None:
    if not any(isinstance(source.window, Now) for source in sources):
        return
    first = clauses.windows[0].name.at if clauses.windows else clauses.streams[0].at
    if sum(bool(source.streams) for source in sources) > 1:
        query.refuse("[NOW] together with another window is not supported yet", first)
    if clauses.registration and clauses.registration.operator == "DSTREAM":
        query.refuse(
            "DSTREAM of [NOW] is not supported: an event's answer never leaves", clauses.registration.at
        )


def _check_empty(query: QueryText, clauses: _Clauses) -> None:
    """Only RSTREAM has reports that can be empty."""
    if clauses.registration and clauses.registration.operator == "RSTREAM":
        return
    asked = [(clause.window, clause.stream) for clause in clauses.windows]
    asked += [(clause.window, clause.stream) for clause in clauses.streams]
    for window, stream in asked:
        if isinstance(window, Range | Count) and window.report is not None and window.report.empty:
            query.fail("WITH EMPTY is for REGISTER RSTREAM: changes are never empty", stream.at)


def _language(clauses: _Clauses, sources: tuple[Source, ...]) -> str:
    if clauses.registration:
        return clauses.registration.language
    windowed = any(not isinstance(source.window, Unbounded) for source in sources if source.streams)
    return "RSP-QL" if clauses.windows or windowed else "SPARQL"


def _explain(cursor: Cursor, failure: grammar.GrammarError, remaining: str) -> None:
    """Say what is wrong with a text that is not SPARQL."""
    query = cursor.query
    _check_no_data(query)
    first = next((t for t in cursor.tokens if t.kind == "word" and not t.matches("PREFIX", "BASE")), None)
    if first is not None and first.matches(*_UPDATES):
        query.refuse("SPARQL Update is not a continuous query", first.at)
    found = next((token for token in cursor.tokens if token.end > failure.at), None)
    if found is None:
        begin = "" if cursor.tokens else ": write SELECT, CONSTRUCT or ASK"
        query.fail(f"the query ends too early{begin}", len(query.text))
    wanted = ", ".join(repr(word) for word in failure.expected)
    hint = f"; expected {wanted}" if 0 < len(failure.expected) <= 4 else ""
    hint = hint_at(cursor, found, remaining) or hint
    if found.matches(*OPERATORS):
        hint = f"; write REGISTER {found.text.upper()} <out> AS before the query"
    if _in_template(cursor, found):
        hint = "; a template is made of triples alone: no paths, no filters, no graphs"
    query.fail(f"syntax error at {found.text[:40]!r}{hint}", max(found.at, failure.at))


def _check_no_data(query: QueryText) -> None:
    """Refuse data that is given as a query."""
    data = data_in(query.written)
    if data is not None:
        begin = "a query begins with SELECT, CONSTRUCT, ASK or REGISTER"
        query.fail(f"this is {data}, and {begin}: was a data file given as the query?", 0)


def _in_template(cursor: Cursor, found: Token) -> bool:
    """Whether a token is within the braces behind CONSTRUCT."""
    begin = next((k for k, token in enumerate(cursor.tokens) if token.matches("CONSTRUCT")), None)
    if begin is None or not any(token.matches("{") for token in cursor.tokens[begin + 1 : begin + 2]):
        return False
    end = next(token for token in cursor.tokens[begin + 2 :] if token.matches("}") and not token.depth)
    return cursor.tokens[begin + 1].at < found.at < end.at
