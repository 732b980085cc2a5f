"""The W3C SPARQL 1.1 query suite, played to a session as a graph, as a stream, and as a stream with noise."""

from __future__ import annotations

import csv
import io
import os
import random
import re
import tarfile
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path, PurePosixPath
from warnings import catch_warnings, simplefilter

import pyoxigraph as ox

import thalweg as tw
from thalweg.testing.answers import Bag, Term, answer_of, by_value, equal_bags, lexical, term_of

HERE = Path(__file__).parent
HOME = Path(os.environ.get("THALWEG_CONFORMANCE", HERE.parent.parent.parent / "shared" / "conformance"))
ARCHIVE = HOME / "w3c-rdf-tests.tar.gz"
BASE = "http://www.w3.org/2009/sparql/docs/tests/data-sparql11/"
STREAM = "http://w3c/default"
FOLDERS = (
    *(
        "aggregates",
        "bind",
        "bindings",
        "cast",
        "construct",
        "csv-tsv-res",
        "entailment",
        "exists",
        "functions",
    ),
    *("grouping", "json-res", "negation", "project-expression", "property-path", "service", "subquery"),
    *("syntax-query", "syntax-fed"),
)
WAYS = ("graph", "stream", "noise")

_MF = "http://www.w3.org/2001/sw/DataAccess/tests/test-manifest#"
_QT = "http://www.w3.org/2001/sw/DataAccess/tests/test-query#"
_RS = "http://www.w3.org/2001/sw/DataAccess/tests/result-set#"
_TYPE = ox.NamedNode("http://www.w3.org/1999/02/22-rdf-syntax-ns#type")
_RELATIVE = re.compile(r"<(?![A-Za-z][\w+.-]*:)[\w./#-]*>")
_TOKENS = re.compile(r"<[^<>\s]*>|\"[^\"\n]*\"|'[^'\n]*'|#[^\n]*|[{}()]|\w+")


@dataclass(frozen=True)
class Case:
    """One test of a manifest; `expected` is the answer, or a graph, or a truth, of an evaluation test.

    The data of tests of entailment are their own schema.
    """

    name: str
    kind: str
    text: str
    data: tuple[str, ...] = ()
    graphs: tuple[tuple[str, tuple[str, ...]], ...] = ()
    expected: Bag | None = None
    plain: bool = False
    """Whether the expected answer is a CSV file, which has the texts of terms alone."""

    @property
    def folder(self) -> str:
        """The part of the suite."""
        return self.name.partition("/")[0]

    @property
    def is_closed(self) -> bool:
        """Whether the data are closed under their own axioms."""
        return self.folder in ("entailment", "rdf-mt")

    @property
    def names_graphs(self) -> bool:
        """Whether the query itself says which graphs it reads: they are static data."""
        return re.search(r"\bFROM\b", self.text) is not None

    @property
    def streams(self) -> list[tuple[str, tuple[str, ...]]]:
        """Each stream with its triples: the default graph's, and one for each named graph that is no static data."""
        if self.names_graphs:
            return [(STREAM, self.data)]
        named = [(f"http://w3c/named/{number}", lines) for number, (_, lines) in enumerate(self.graphs)]
        return [(STREAM, self.data), *named]

    @property
    def asked(self) -> str:
        """The query as it is registered: unchanged, or with a window clause for each named graph."""
        if not self.graphs or self.names_graphs:
            return self.text
        clauses = [f"FROM STREAM <{STREAM}>"]
        for (name, _), (stream, _) in zip(self.graphs, self.streams[1:], strict=True):
            clauses.append(f"FROM NAMED WINDOW <{name}> ON <{stream}>")
        at = _where(self.text)
        return f"{self.text[:at]} {' '.join(clauses)} {self.text[at:]}"


def _where(text: str) -> int:
    """Where the dataset clauses of a query belong: before WHERE, or before the group if there is no WHERE."""
    depth, form = 0, ""
    for token in _TOKENS.finditer(text):
        word = token[0].upper()
        if depth == 0 and (word == "WHERE" or (word == "{" and form in ("SELECT", "ASK"))):
            return token.start()
        form = word if depth == 0 and word in ("SELECT", "ASK", "CONSTRUCT") else form
        depth += (word in "{(") - (word in "})")
    raise ValueError("a query has a group")


class _Suite:
    """The files of the archive, and the graphs of its manifests."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        with tarfile.open(ARCHIVE) as archive:
            for member in archive:
                if member.isfile() and member.name.startswith("sparql/sparql11/"):
                    file = archive.extractfile(member)
                    assert file is not None
                    self.files[member.name.removeprefix("sparql/sparql11/")] = file.read()

    def cases(self, folder: str) -> Iterator[Case]:
        manifest = ox.Store()
        base = f"{BASE}{folder}/manifest.ttl"
        manifest.load(self.files[f"{folder}/manifest.ttl"], format=ox.RdfFormat.TURTLE, base_iri=base)

        def values(subject: ox.NamedNode | ox.BlankNode, iri: str) -> list[str]:
            found = manifest.quads_for_pattern(subject, ox.NamedNode(iri), None)
            return sorted(quad.object.value for quad in found)

        for quad in manifest.quads_for_pattern(None, _TYPE, None):
            kind = quad.object.value.removeprefix(_MF)
            name = f"{folder}/{quad.subject.value.rpartition('#')[2]}"
            action = next(manifest.quads_for_pattern(quad.subject, ox.NamedNode(f"{_MF}action"), None), None)
            if kind in ("PositiveSyntaxTest11", "NegativeSyntaxTest11"):
                yield Case(name, kind[:8].lower(), self.text(action.object.value))
            elif kind in ("QueryEvaluationTest", "CSVResultFormatTest"):
                node = action.object
                [query] = values(node, f"{_QT}query")
                [result] = values(quad.subject, f"{_MF}result")
                data = [line for iri in values(node, f"{_QT}data") for line in self.lines(iri)]
                graphs = [(iri, tuple(self.lines(iri))) for iri in values(node, f"{_QT}graphData")]
                yield Case(
                    name, "evaluation", self.text(query), tuple(data), tuple(graphs),
                    self.expected(result), result.endswith(".csv"),
                )  # fmt: skip

    def text(self, iri: str) -> str:
        """The text of a query, with its place as the base where it has relative IRIs and no base."""
        text = self.files[iri.removeprefix(BASE)].decode()
        relative = _RELATIVE.search(text) and not re.search(r"\bBASE\b", text, re.IGNORECASE)
        return f"BASE <{iri}>\n{text}" if relative else text

    def lines(self, iri: str) -> list[str]:
        """The triples of a file as lines of N-Triples, with blank nodes that no other file has."""
        file = PurePosixPath(iri.removeprefix(BASE))
        syntax = ox.RdfFormat.from_extension(file.suffix[1:])
        parsed = ox.parse(self.files[str(file)], format=syntax, base_iri=iri, rename_blank_nodes=True)
        return [f"{quad.triple} .\n" for quad in parsed]

    def expected(self, iri: str) -> Bag:
        """The answer of a result file."""
        suffix, data = iri.rpartition(".")[2], self.files[iri.removeprefix(BASE)]
        if suffix in ("ttl", "rdf"):
            graph = list(ox.parse(data, format=ox.RdfFormat.from_extension(suffix), base_iri=iri))
            if any(quad.predicate.value == f"{_RS}resultVariable" for quad in graph):
                return _result_set(graph)
            names = ("subject", "predicate", "object")
            return Counter({frozenset(zip(names, quad.triple, strict=True)) for quad in graph})
        if suffix == "csv":
            head, *rows = csv.reader(io.StringIO(data.decode(), newline=""))
            return Counter(
                frozenset((name, ox.Literal(text)) for name, text in zip(head, row, strict=True) if text)
                for row in rows
            )
        syntax = ox.QueryResultsFormat.from_extension(suffix)
        assert syntax is not None
        return answer_of(ox.parse_query_results(data, format=syntax))


def _result_set(graph: list[ox.Quad]) -> Bag:
    """The answer that a graph describes in the vocabulary of result sets."""
    parts: dict[str, dict[ox.BlankNode, list[Term]]] = {}
    for quad in graph:
        parts.setdefault(quad.predicate.value.removeprefix(_RS), {}).setdefault(quad.subject, []).append(
            quad.object
        )
    [solutions] = parts["solution"].values()
    return Counter(
        frozenset(
            (parts["variable"][cell][0].value, parts["value"][cell][0]) for cell in parts["binding"][solution]
        )
        for solution in solutions
    )


@cache
def cases() -> dict[str, Case]:
    """All tests of the query part of the suite, by name."""
    suite = _Suite()
    found = [case for folder in FOLDERS for case in suite.cases(folder)]
    return {case.name: case for case in sorted(found, key=lambda case: case.name)}


@cache
def updates() -> dict[str, str]:
    """The texts of the update part of the suite, which are no queries."""
    return {name: data.decode() for name, data in _Suite().files.items() if name.endswith(".ru")}


# Playing a test


@dataclass(frozen=True)
class Outcome:
    """How a test ended: passed, refused (as not supported), wrong or crashed, and why."""

    result: str
    why: str = ""


@dataclass
class _Log:
    """The sum of what a query has emitted."""

    query: tw.ContinuousQuery
    total: Counter[frozenset[tuple[str, str]]] = field(default_factory=Counter)

    def poll(self) -> None:
        for row in self.query.poll():
            self.total[frozenset(row.bindings.items())] += {"+": 1, "-": -1}[row.op]

    def bag(self) -> Bag:
        assert min(self.total.values(), default=0) >= 0, f"more deletes than inserts: {self.total}"
        return Counter({frozenset((n, term_of(v)) for n, v in row): k for row, k in self.total.items() if k})


def outcome(case: Case) -> Outcome:
    """Play a test in every way; the first that does not pass decides."""
    if case.kind == "consistency":
        return Outcome("refused", "whether a graph is consistent is not asked")
    try:
        query = tw.parse(case.asked, source=case.name, stream=STREAM)
    except tw.QueryError as error:
        if case.kind == "negative":
            return Outcome("passed")
        if not isinstance(error, tw.UnsupportedError):
            return Outcome("wrong", f"the text is well formed and was refused: {error}")
        return Outcome("passed" if case.kind == "positive" else "refused", str(error))
    except Exception:
        return Outcome("crashed", traceback.format_exc())
    if case.kind != "evaluation":
        return Outcome("passed") if case.kind == "positive" else Outcome("wrong", "it was not refused")
    for way in WAYS:
        try:
            found = play(case, query, way)
        except tw.UnsupportedError as error:
            return Outcome("refused", str(error))
        except Exception:
            return Outcome("crashed", f"as {way}:\n{traceback.format_exc()}")
        assert case.expected is not None
        shape: Callable[[Bag], Bag] = lexical if case.plain else by_value
        if not equal_bags(shape(found), shape(case.expected)):
            shown = "\n".join([f"as {way}:", *_rows("have", found), *_rows("want", case.expected)])
            return Outcome("wrong", f"{shown}\n{case.asked}")
    return Outcome("passed")


def _rows(word: str, bag: Bag) -> list[str]:
    texts = [
        f"{n} x {' '.join(f'?{k}={v}' for k, v in sorted(row, key=lambda cell: cell[0]))}"
        for row, n in bag.items()
    ]
    return [f"{word} {sum(bag.values())} rows:", *(f"  {text}" for text in sorted(texts))]


def play(case: Case, query: object, way: str) -> Bag:
    """The answer at the end of one way to give the data; the same each time."""
    chance = random.Random(f"{case.name} {way}")
    session = tw.Session(blank_nodes="stable", max_pending=None)
    if case.names_graphs:
        for name, lines in case.graphs:
            session.load("".join(lines), graph=name, format="nt")
    options = {"schema": "".join(case.data), "rules": "default, transitive"} if case.is_closed else {}
    with catch_warnings():
        simplefilter("ignore", tw.ThalwegWarning)  # axioms that are ignored
        log = _Log(session.register(query, **options))  # type: ignore[arg-type]
    time = 0
    for stream, op, lines in _events(case, way, chance):
        time += chance.choice([0, 1, 1, 5]) if op == "insert" else 1
        session.push(stream, at=time, graph="".join(lines), op=op)
        time += op == "delete"  # at one instant, deletes come first
        if chance.random() < 0.3:
            log.poll()
    session.advance(time + 1)
    log.poll()
    assert not session.quarantine()
    return log.bag()


def _events(case: Case, way: str, chance: random.Random) -> list[tuple[str, str, list[str]]]:
    """The events of all streams in the order in which they are pushed."""
    if way == "graph":
        return [(stream, "insert", list(lines)) for stream, lines in case.streams if lines]
    per_stream = []
    for stream, lines in case.streams:
        steps = [("insert", line) for line in chance.sample(lines, len(lines))]
        if way == "noise":
            steps = _with_noise(steps, lines, chance)
        events: list[tuple[str, str, list[str]]] = []
        while steps:
            size = chance.choice([1, 1, 2, 3, 8])
            op = steps[0][0]
            batch = [steps.pop(0)[1]]
            while steps and len(batch) < size and steps[0][0] == op:
                batch.append(steps.pop(0)[1])
            events.append((stream, op, batch))
        per_stream.append(events)
    result = []
    while any(per_stream):
        result.append(chance.choice([events for events in per_stream if events]).pop(0))
    return result


def _with_noise(
    steps: list[tuple[str, str]], lines: tuple[str, ...], chance: random.Random
) -> list[tuple[str, str]]:
    """The inserts among inserts of other triples with the same terms, which are deleted later.

    Some triples of the data are inserted, deleted, and inserted again.
    """
    terms = [tuple(quad.triple) for quad in ox.parse("".join(lines).encode(), format=ox.RdfFormat.N_TRIPLES)]
    noise: set[str] = set()
    for _ in range(2 * len(terms)):
        s, p, o = (chance.choice(terms)[place] for place in range(3))
        noise.add(f"{ox.Triple(s, p, o)} .\n")
    result = list(steps)
    for line in sorted(noise - set(lines)):
        first, last = sorted((chance.randint(0, len(result)), chance.randint(0, len(result))))
        result.insert(last, ("delete", line))
        result.insert(first, ("insert", line))
    for line in chance.sample(lines, len(lines) // 3):
        place = result.index(("insert", line))
        for step in ("delete", "insert"):
            place = chance.randint(place + 1, len(result))
            result.insert(place, (step, line))
    return result
