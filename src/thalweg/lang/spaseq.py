"""SPAseq: sequences of graph events, `SELECT ... WITHIN d FROM STREAM S <iri> WHERE { SEQ (A; B) DEFINE GPM ... }`.

The clauses are read with a `Cursor`. What is SPARQL (the projection or template, and the group of each atom) goes
through the SPARQL grammar, in a text in which all the rest is blank, so that every character of it is where it was.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, NoReturn

from thalweg.algebra import nodes
from thalweg.algebra.expressions import Constant, Expression, Variable, substitute
from thalweg.algebra.nodes import Construct, Distinct, Node, Project, leaves, with_leaves
from thalweg.algebra.query import DEFAULT_GRAPH, Query, Source
from thalweg.algebra.sequences import Atom, Item, Sequence, Use, negated_uses, uses_of
from thalweg.algebra.temporal import is_time_of_group
from thalweg.algebra.terms import XSD, Const, Pattern, Var
from thalweg.algebra.windows import Now
from thalweg.errors import QueryError
from thalweg.hints import did_you_mean
from thalweg.instants import duration
from thalweg.lang import grammar
from thalweg.lang.atoms import AtomReader, Functions, StaticGraphs, check_conditions
from thalweg.lang.clauses import Cursor, Name, Token, show_token
from thalweg.lang.expressions import ExpressionReader
from thalweg.lang.hints import hint_at
from thalweg.lang.names import Prologue
from thalweg.lang.patterns import PatternReader, joined
from thalweg.lang.selection import SelectionReader
from thalweg.lang.sequences import read_sequence

_CLAUSES = ("WITHIN", "FROM", "PARTITION", "AFTER", "CONSUME", "WITH", "WHERE", "SEQ")
_UNITS = {"MILLISECOND": "ms", "SECOND": "s", "MINUTE": "m", "HOUR": "h", "DAY": "d"}
_LENGTH = re.compile(rf"([0-9]+)\s*({'|'.join(_UNITS)})S?", re.IGNORECASE)


def is_sequence(cursor: Cursor) -> bool:
    """Whether a text is SPAseq: it has SEQ ( or DEFINE GPM."""
    return any(
        (one.matches("SEQ") and two.matches("(")) or (one.matches("DEFINE") and two.matches("GPM"))
        for one, two in pairwise(cursor.tokens)
    )


def parse_sequence(cursor: Cursor, graphs: Collection[str] = ()) -> Query:
    """The query of a SPAseq text; `graphs` are the names of the static graphs that there are."""
    return SequenceReader(cursor, graphs).read()


@dataclass
class _Definition:
    """DEFINE GPM name ON alias { }: where it is written."""

    name: Token
    alias: Token
    begin: int
    end: int


class SequenceReader:
    """Reads the text of one sequence query."""

    def __init__(self, cursor: Cursor, graphs: Collection[str] = ()) -> None:
        self.cursor = cursor
        self.query = cursor.query
        self.graphs = graphs
        self.merged: list[Name] = []
        self.named: list[Name] = []
        self.within: int | None = None
        self.aliases: dict[str, Name] = {}
        self.partition: Token | None = None
        self.definitions: dict[str, _Definition] = {}
        self.functions = Functions(cursor)
        self.selection = SelectionReader(cursor)

    def read(self) -> Query:
        """The query."""
        for token in self.cursor.tokens:
            if token.depth > 0 and token.matches("SERVICE"):
                self.query.refuse("SERVICE is not supported: a query makes no network call", token.at)
        self._skip_prologue()
        head = self.cursor.next()
        if head.matches("REGISTER"):
            self.query.refuse(
                "a sequence names its stream itself: CONSTRUCT <stream> { ... } WITHIN ...", head.at
            )
        if not head.matches("SELECT", "CONSTRUCT"):
            self.query.fail(f"a sequence begins with SELECT or CONSTRUCT, not {show_token(head)}", head.at)
        output = self._output() if head.matches("CONSTRUCT") else None
        begin = self.cursor.peek().at if head.matches("CONSTRUCT") else head.end
        self._to_clauses()
        end = self.cursor.peek().at
        self._clauses(head)
        pattern = self._body()
        prologue, form = self._form(head, begin, end)
        return self._query(pattern, prologue, form, output)

    # The clauses

    def _skip_prologue(self) -> None:
        while token := self.cursor.take("PREFIX", "BASE"):
            if token.matches("PREFIX"):
                self.cursor.next()
            self.cursor.next()
        self.prologue_end = self.cursor.peek().at

    def _output(self) -> Name | None:
        """The stream behind CONSTRUCT, with or without a short name before it."""
        alias = self.cursor.next() if self.cursor.peek().kind == "word" else None
        if self.cursor.peek().kind not in ("iri", "pname"):
            if alias is not None:
                self.query.fail(
                    f"CONSTRUCT {alias.text} needs the IRI of its stream: CONSTRUCT {alias.text} <iri>",
                    alias.at,
                )
            return None
        name = self.cursor.name("the stream")
        if alias is not None:
            self._declare(alias, name)
            del self.aliases[alias.text]
            self.made = alias.text
        return name

    made: str | None = None

    def _to_clauses(self) -> None:
        while (token := self.cursor.peek()).kind != "end" and not (
            token.depth == 0 and token.matches(*_CLAUSES)
        ):
            self.cursor.next()

    def _clauses(self, head: Token) -> None:
        while not self.cursor.peek().matches("WHERE", "SEQ"):
            token = self.cursor.expect(*_CLAUSES[:-1])
            match token.text.upper():
                case "WITHIN":
                    self._within(token)
                case "FROM":
                    self._stream(token)
                case "PARTITION":
                    self._partition(token)
                case "AFTER":
                    self.selection.read_skip(token)
                case "CONSUME":
                    self.selection.read_consume(token)
                case "WITH":
                    self.selection.read_with(token)
        if self.within is None:
            self.query.fail("a sequence needs WITHIN and a duration, such as WITHIN 30 MINUTES", head.at)
        if not self.aliases:
            self.query.fail("a sequence needs a stream: FROM STREAM S1 <iri>", head.at)

    def _within(self, token: Token) -> None:
        if self.within is not None:
            self.query.fail("WITHIN stands once", token.at)
        first = self.cursor.peek()
        while self.cursor.peek().kind != "end" and not self.cursor.peek().matches(*_CLAUSES):
            self.cursor.next()
        written = self.query.text[first.at : self.cursor.peek().at].strip()
        if not written:
            self.query.fail("WITHIN needs a duration, such as 30 MINUTES, PT10S or 10s", token.at)
        if unit := _LENGTH.fullmatch(written):
            written = f"{unit[1]}{_UNITS[unit[2].upper()]}"
        try:
            self.within = duration(written)
        except ValueError as error:
            self.query.fail(
                f"{error}; or a number of MILLISECONDS, SECONDS, MINUTES, HOURS or DAYS", first.at
            )
        if self.within <= 0:
            self.query.fail("WITHIN must be longer than nothing", first.at)

    def _stream(self, token: Token) -> None:
        """FROM STREAM S <iri>, or FROM and FROM NAMED of a static graph."""
        if self.cursor.take("NAMED"):
            self.named.append(self.cursor.name("a static graph"))
            return
        if self.cursor.peek().kind in ("iri", "pname"):
            self.merged.append(self.cursor.name("a static graph"))
            return
        self.cursor.expect("STREAM")
        alias = self.cursor.peek()
        if alias.kind != "word":
            self.query.fail("a stream of a sequence has a short name: FROM STREAM S1 <iri>", alias.at)
        self.cursor.next()
        self._declare(alias, self.cursor.name("a stream"))
        if (window := self.cursor.peek()).matches("["):
            self.query.fail(
                "a sequence has one window for all streams: write WITHIN and a duration", window.at
            )

    def _declare(self, alias: Token, name: Name) -> None:
        if alias.text in self.aliases:
            self.query.fail(f"the stream {alias.text} is declared twice", alias.at)
        self.aliases[alias.text] = name

    def _partition(self, token: Token) -> None:
        self.cursor.expect("BY")
        if self.partition is not None:
            self.query.fail("PARTITION BY stands once", token.at)
        self.partition = self.cursor.next()
        if self.partition.kind != "var":
            self.query.fail(
                f"PARTITION BY takes one variable, not {show_token(self.partition)}", self.partition.at
            )

    # WHERE { SEQ (...) DEFINE ... }, or WHERE SEQ (...) { DEFINE ... }

    def _body(self) -> Item:
        self.cursor.take("WHERE")
        pattern: Item | None = None
        if self.cursor.take("SEQ"):
            pattern, self.opened = read_sequence(self.cursor)
        self.cursor.expect("{")
        while not self.cursor.take("}"):
            wanted = ("DEFINE", "}") if pattern is not None else ("SEQ", "DEFINE")
            token = self.cursor.expect(*wanted)
            if token.matches("SEQ"):
                pattern, self.opened = read_sequence(self.cursor)
            else:
                self._define()
        if pattern is None:
            self.query.fail("a sequence query needs SEQ ( ... )", self.cursor.peek(-1).at)
        if (more := self.cursor.peek()).kind != "end":
            self.query.refuse(
                f"{show_token(more)} cannot stand behind a sequence: its answer has no modifiers", more.at
            )
        return pattern

    def _define(self) -> None:
        self.cursor.expect("GPM")
        name = self._word("the name of the atom")
        if name.text in self.definitions:
            self.query.fail(f"the atom {name.text} is defined twice", name.at)
        self.cursor.expect("ON")
        alias = self._word("the short name of a stream")
        opened = self.cursor.expect("{")
        while not (closing := self.cursor.next()).matches("}") or closing.depth != opened.depth:
            pass
        if alias.text not in self.aliases:
            if alias.text == self.made:
                self.query.fail(
                    f"{alias.text} is the stream that this query makes: it cannot read it", alias.at
                )
            hint = did_you_mean(alias.text, tuple(self.aliases)) or f": write FROM STREAM {alias.text} <iri>"
            self.query.fail(f"no FROM STREAM declares the stream {alias.text}{hint}", alias.at)
        self.definitions[name.text] = _Definition(name, alias, opened.at, closing.end)

    def _word(self, what: str) -> Token:
        token = self.cursor.next()
        if token.kind != "word":
            self.query.fail(f"expected {what}, not {show_token(token)}", token.at)
        return token

    # The form of the answer

    def parsed(self, word: str, begin: int, end: int, before: str = "") -> Any:
        """The tree of `word ... { }`, with the text between two places and the prologue; the rest is blank."""
        text = self.functions.text
        cells = [c if c in "\r\n" else " " for c in text]
        for start, stop in ((0, self.prologue_end), (begin, end)):
            cells[start:stop] = text[start:stop]
        at = max(begin - len(word) - 1, self.prologue_end)
        cells[at : at + len(word)] = word
        if before:
            cells[end : end + len(before)] = before
        written = "".join(cells)
        try:
            return grammar.parse(written)
        except grammar.GrammarError as failure:
            self._explain(failure, written)

    def _explain(self, failure: grammar.GrammarError, written: str) -> NoReturn:
        found = next((token for token in self.cursor.tokens if token.end > failure.at), None)
        if found is None:
            self.query.fail("the query ends too early", len(self.query.text))
        hint = hint_at(self.cursor, found, written)
        self.query.fail(f"syntax error at {found.text[:40]!r}{hint}", max(found.at, failure.at))

    def _form(self, head: Token, begin: int, end: int) -> tuple[Prologue, Any]:
        """The prologue, and the tree of the projection or of the template; WITHIN is where `{}` has room."""
        word = head.text.upper()
        gap = self.query.text[head.end : head.end + 1].isspace()
        declarations, tree = self.parsed(word, max(begin, head.end + gap), end, "{}")
        return Prologue(self.query, declarations), tree

    # The query

    def _query(self, pattern: Item, prologue: Prologue, form: Any, output: Name | None) -> Query:
        assert self.within is not None
        streams = self._streams(prologue)
        made = None if output is None else prologue.clause_name(output)
        if made is not None and made in streams.values():
            self.query.fail(
                f"<{made}> would be derived from itself: name another output stream",
                output.at if output else 0,
            )
        uses = list(uses_of(pattern))
        for use in uses:
            if use.atom not in self.definitions:
                near = did_you_mean(use.atom, tuple(self.definitions))
                self._fail_at(use, f"no DEFINE GPM {use.atom} ON ... defines this atom{near}")
        used = dict.fromkeys(use.atom for use in uses)
        static = self._static(prologue)
        reader = AtomReader(self.query, prologue, self.functions, static=static)
        atoms: dict[str, Atom] = {}
        trees: dict[str, Node] = {}
        for name, one in self.definitions.items():
            _, tree = self.parsed("SELECT *", one.begin, one.end)
            atom, node = reader.read(name, streams[one.alias.text], tree, one)
            if name in used:
                atoms[name], trees[name] = atom, node
        reader.check_groups(atoms.values())
        order = tuple(dict.fromkeys(streams.values()))
        sequence = Sequence(
            pattern,
            tuple(atoms[name] for name in used),
            self.within,
            order,
            (),
            partition=None if self.partition is None else self.partition.text[1:],
            skip=self.selection.skip,
            consume=self.selection.consume,
            retracts=self.selection.retracts,
            timed_out=self.selection.timed_out,
        )
        self.selection.check(sequence, is_construct=form.name == "ConstructQuery")
        check_conditions(self.query, sequence)
        self._check_partition(sequence)
        read = [(trees[name], atoms[name].stream) for name in used]
        return self.finished("SPAseq", sequence, read, reader, form, made)

    def finished(
        self,
        language: str,
        sequence: Sequence,
        trees: list[tuple[Node, str]],
        reader: AtomReader,
        form: Any,
        made: str | None,
    ) -> Query:
        """The query of a sequence: the trees of its atoms, each with its stream, and the form of its answer."""
        order, static, prologue = sequence.streams, reader.static, reader.prologue
        sources = tuple(Source((stream,), Now(), graphs=static.merged) for stream in order)
        below = joined([_of_sources(node, order.index(stream), len(order)) for node, stream in trees])
        read = {pattern.source for pattern in leaves(below)}
        more = tuple(static.sources[k - len(order)] for k in sorted(read) if k >= len(order))
        places = {k: len(order) + place for place, k in enumerate(k for k in sorted(read) if k >= len(order))}
        below = _renumbered(below, places)
        if form.name == "ConstructQuery":
            root, columns = self._template(form, prologue, sequence, below)
            distinct = False
        else:
            root, columns, distinct = self._projection(form, prologue, sequence, below)
        sequence = replace(sequence, columns=columns, distinct=distinct)
        return Query(
            language,
            None,
            made,
            (*sources, *more),
            root,
            self.query.written,
            sequence,
            unknown_graphs=tuple(reader.unknown_graphs),
        )

    def _static(self, prologue: Prologue) -> StaticGraphs:
        """The static graphs that FROM and FROM NAMED choose; without them, all that there are."""
        if self.merged or self.named:
            merged, named = (
                tuple(dict.fromkeys(map(prologue.clause_name, names))) for names in (self.merged, self.named)
            )
            return StaticGraphs(merged, named)
        named = tuple(sorted(graph for graph in self.graphs if graph != DEFAULT_GRAPH))
        return StaticGraphs((DEFAULT_GRAPH,), named)

    def _streams(self, prologue: Prologue) -> dict[str, str]:
        streams: dict[str, str] = {}
        for alias, name in self.aliases.items():
            iri = prologue.clause_name(name)
            if iri in streams.values():
                self.query.fail(f"the stream <{iri}> is declared twice", name.at)
            streams[alias] = iri
        return streams

    def _check_partition(self, sequence: Sequence) -> None:
        if self.partition is None:
            return
        negated = set(map(id, negated_uses(sequence.pattern)))
        for use in uses_of(sequence.pattern):
            if id(use) not in negated and self.partition.text[1:] not in sequence.atom(use).possible:
                self.query.fail(
                    f"PARTITION BY {self.partition.text}: the pattern of the atom {use.atom} does not use it",
                    self.partition.at,
                )

    def _projection(
        self, form: Any, prologue: Prologue, sequence: Sequence, below: Node
    ) -> tuple[Node, tuple[tuple[str, Expression], ...], bool]:
        expressions = ExpressionReader(self.query, prologue, self._no_exists, {}, None)
        known = {name for atom in sequence.atoms for name in atom.possible}
        columns: dict[str, Expression] = {}
        for column in form.projection or ():
            if column.var is not None:
                name = str(column.var)
                written: Expression = self.functions.named(Variable(name))
                if written != Variable(name):
                    self.query.fail("a function needs a name in SELECT: (COUNT(?v) AS ?n)", column.var.at)
                columns.setdefault(name, Variable(name))
                continue
            name = str(column.evar)
            if name in known or name in columns:
                self.query.fail(f"?{name} has a value already: AS needs a new variable", column.evar.at)
            written = self.functions.named(expressions.read(column.expr, column.at))
            self.functions.check(written, sequence, column.at)
            written = substitute(written, {k: v for k, v in columns.items() if k not in known})
            columns[name] = written
            below = nodes.Extend(below, name, written)
        if form.projection is None:
            columns = {name: Variable(name) for name in _positive_names(sequence)}
        if (name := self.selection.timed_out or "") and name in columns:
            self.query.fail(f"?{name} is the variable of WITH TIMED OUT: it is a column by itself", form.at)
        if name:
            columns[name] = Variable(name)
            below = nodes.Extend(below, name, Constant(Const.literal("false", datatype=f"{XSD}boolean")))
        root: Node = Project(below, tuple(columns))
        distinct = str(form.modifier or "").upper() == "DISTINCT"
        return (Distinct(root) if distinct else root), tuple(columns.items()), distinct

    def _no_exists(self, group: Any) -> Any:
        self.query.refuse("EXISTS cannot stand in the SELECT of a sequence", group.at)

    def _template(
        self, form: Any, prologue: Prologue, sequence: Sequence, below: Node
    ) -> tuple[Node, tuple[tuple[str, Expression], ...]]:
        template = PatternReader(self.query, prologue).template(list(form.template or ()), form.at)
        made = dict.fromkeys(name for triple in template for name in triple.variables)
        positive = _positive_names(sequence)
        # A blank node of the template is distinguished by all that a solution shows.
        names = positive if any(Var(name).anonymous for name in made) else [n for n in made if n in positive]
        root = Construct(Project(below, tuple(dict.fromkeys((*names, *made)))), template)
        return root, tuple((name, Variable(name)) for name in names)

    def _fail_at(self, use: Use, reason: str) -> NoReturn:
        raise QueryError(reason, source=self.query.source, line=use.line, column=use.column)


def _positive_names(sequence: Sequence) -> list[str]:
    """The variables that the patterns of atoms use which are not negated, in written order."""
    negated = set(map(id, negated_uses(sequence.pattern)))
    positive = (use for use in uses_of(sequence.pattern) if id(use) not in negated)
    names = dict.fromkeys(name for use in positive for name in sequence.atom(use).possible)
    return [name for name in names if not is_time_of_group(name)]


def _of_sources(node: Node, stream: int, static: int) -> Node:
    """The tree of an atom whose patterns read a stream by its number, and static graphs from a number on."""
    return _renumbered(
        node,
        {p.source: stream if p.source == 0 else static + p.source - 1 for p in leaves(node)},
    )


def _renumbered(node: Node, places: Mapping[int, int]) -> Node:
    """A tree whose patterns read other sources."""
    patterns: Iterable[Pattern] = (
        replace(pattern, source=places.get(pattern.source, pattern.source)) for pattern in leaves(node)
    )
    return with_leaves(node, tuple(patterns))
