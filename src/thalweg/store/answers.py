"""The answer of a question: solutions, yes or no, or triples, whoever has found it; read as pyoxigraph's are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from threading import RLock
from typing import Any

import pyoxigraph as ox

from thalweg.expressions.values import BLANK, IRI, parse
from thalweg.store.evaluating import Found
from thalweg.store.oxigraph import lenient_term
from thalweg.store.printing import Solutions, serialized, solutions_of

Term = ox.NamedNode | ox.BlankNode | ox.Literal | ox.Triple


class Solution:
    """One solution: terms by the name, the place or the variable."""

    __slots__ = ("_names", "_terms")

    def __init__(self, names: dict[str, int], terms: Sequence[Term | None]) -> None:
        self._names, self._terms = names, terms

    def __getitem__(self, key: str | int | ox.Variable) -> Term | None:
        if isinstance(key, int):
            return self._terms[key]
        name = key.value if isinstance(key, ox.Variable) else key
        if name not in self._names:
            raise KeyError(f"the solution has no variable ?{name}")
        return self._terms[self._names[name]]

    def __iter__(self) -> Iterator[Term | None]:
        return iter(self._terms)

    def __len__(self) -> int:
        return len(self._terms)

    def __repr__(self) -> str:
        shown = " ".join(f"?{name}={self._terms[place]}" for name, place in self._names.items())
        return f"<Solution {shown}>"


class Answer:
    """An answer. Iterate over its solutions or triples, or ask `bool` of it; `serialize` writes it.

    `texts` has names and rows of N-Triples texts, which is quicker to read than terms.
    """

    def __init__(self, texts: Solutions) -> None:
        self._texts = texts

    @property
    def texts(self) -> Solutions:
        """The answer as texts."""
        return self._texts

    @property
    def truth(self) -> bool | None:
        """The answer of ASK; None for others."""
        return self.texts.truth

    @property
    def is_graph(self) -> bool:
        """Whether it consists of triples."""
        return self.texts.is_graph

    @property
    def variables(self) -> list[ox.Variable]:
        """The variables of SELECT."""
        return [] if self.is_graph else [ox.Variable(name) for name in self.texts.names]

    def __bool__(self) -> bool:
        return bool(len(self)) if self.truth is None else self.truth

    def __len__(self) -> int:
        return len(self.texts.rows)

    def __iter__(self) -> Iterator[Any]:
        """The solutions, or the triples."""
        known: dict[str | None, Any] = {None: None}
        names = {name: place for place, name in enumerate(self.texts.names)}
        for row in self.texts.rows:
            for text in row:
                if text not in known:
                    assert text is not None
                    known[text] = term_of(text)
            terms = [known[text] for text in row]
            yield ox.Triple(*terms) if self.is_graph else Solution(names, terms)

    def serialize(
        self, output: Any = None, format: ox.QueryResultsFormat | ox.RdfFormat | None = None
    ) -> bytes | None:
        """Write the answer in a format of pyoxigraph, to a file, or as bytes."""
        made = serialized(self.texts, format)
        if output is None:
            return made
        if hasattr(output, "write"):
            output.write(made)
        else:
            with open(output, "wb") as file:
                file.write(made)
        return None


class EngineAnswer(Answer):
    """An answer of the engine: rows of ids, whose texts are looked up when somebody reads them."""

    def __init__(self, found: Found, lock: RLock) -> None:
        """`lock` keeps others from adding terms meanwhile."""
        self._found, self._lock = found, lock

    @property
    def truth(self) -> bool | None:
        """The answer of ASK; None for others."""
        return len(self._found.delta) > 0 if self._found.texts.query.ask else None

    @property
    def is_graph(self) -> bool:
        """Whether it consists of triples."""
        return self._found.texts.query.template is not None

    def __len__(self) -> int:
        return 0 if self._found.texts.query.ask else len(self._found.delta)

    @cached_property
    def texts(self) -> Solutions:  # type: ignore[override]
        """The answer as texts."""
        query = self._found.texts.query
        if query.ask:
            return Solutions((), (), truth=self.truth)
        count = len(self._found.delta)
        with self._lock:
            columns, _ = self._found.texts.texts(self._found.delta)
        names = query.columns if query.template is not None else query.select
        none: list[str | None] = [None] * count
        cells = [columns.get(name, none) for name in names]
        rows: Sequence[Sequence[str | None]] = list(zip(*cells, strict=True)) if cells else [()] * count
        return Solutions(names, rows, is_graph=query.template is not None)


def answer_of(found: Any) -> Answer:
    """The answer that Oxigraph has found."""
    return Answer(solutions_of(found))


def term_of(text: str) -> Term:
    """The term of an N-Triples text.

    >>> term_of('"a"@en').language
    'en'
    """
    value = parse(text)
    try:
        if value.kind == IRI:
            return ox.NamedNode(value.content)
        if value.kind == BLANK:
            return ox.BlankNode(value.content)
        if value.language:
            return ox.Literal(value.content, language=value.language)
        if value.datatype:
            return ox.Literal(value.content, datatype=ox.NamedNode(value.datatype))
        return ox.Literal(value.content)
    except (
        ValueError
    ):  # pyoxigraph checks more of IRIs and languages than N-Triples asks for, unless it is lenient
        return lenient_term(text)
