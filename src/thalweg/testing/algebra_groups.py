"""Random groups and expressions of SPARQL: the inner part of the strategies of `algebra`."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Sequence as Seq
from dataclasses import dataclass, field, replace
from typing import TypeVar

from hypothesis import strategies as st

from thalweg.testing.algebra_oracle import Source
from thalweg.testing.snapshot import Triple
from thalweg.testing.strategies import INTEGER, NODES
from thalweg.testing.syntax import (
    Aggregate,
    Alternative,
    Bind,
    Call,
    Const,
    Element,
    Exists,
    Expression,
    Filter,
    Graph,
    Group,
    Inverse,
    Minus,
    Negated,
    OneOrMore,
    Optional,
    Path,
    Select,
    Sequence,
    Triples,
    Union,
    Values,
    Var,
    ZeroOrMore,
    ZeroOrOne,
    scope,
)

T = TypeVar("T")

LINK, NEXT, NUMBER, TEXT = (f"<http://ex/{name}>" for name in ("link", "next", "number", "text"))
PREDICATES = (LINK, NEXT, NUMBER, TEXT)
DECIMAL = "<http://www.w3.org/2001/XMLSchema#decimal>"
NUMBERS = (*(f'"{n}"^^{INTEGER}' for n in (1, 2, 3)), f'"2.5"^^{DECIMAL}')
TEXTS = ('"a"', '"b"', '"ab"', '"a"@en')
WINDOWS = tuple(f"http://ex/w{number}" for number in range(3))

ELEMENTS = ("filter", "optional", "union", "minus", "exists", "bind", "values", "subselect", "group")
FEATURES = (*ELEMENTS, "groups", "slices", "path", "closure", "blank", "disconnected", "variable predicate")
"""What groups are made of beside connected triple patterns."""


@dataclass
class Maker:
    """One query in the making."""

    draw: st.DrawFn
    data: Seq[Triple]
    features: frozenset[str] | set[str]
    sources: tuple[Source, ...]
    names: dict[str, str] = field(default_factory=dict)
    used: set[str] = field(default_factory=set)
    found: list[Triple] = field(default_factory=list)
    made: int = 0
    around: frozenset[str] = frozenset()
    """Variables of the groups around the one in the making."""
    in_exists: bool = False
    in_graph: bool = False
    wants_path: bool = False

    def one(self, *choices: T) -> T:
        """One of some choices."""
        return self.draw(st.sampled_from(choices))

    def chance(self, percent: int) -> bool:
        """Whether something happens that happens so often; the simplest example has none of it."""
        return self.draw(st.integers(0, 99)) >= 100 - percent

    # Groups

    def group(self, size: int, *, must: Seq[str] = (), least: int = 0) -> Group:
        """A group of patterns, of what it must have, and of `least` to `size` other elements."""
        self.wants_path = self.wants_path or "path" in must or "closure" in must
        possible = [name for name in ELEMENTS if name in self.features]
        if self.in_exists:
            possible = [name for name in possible if name not in ("minus", "subselect")]
        kinds = [kind for kind in must if kind in possible]
        if possible:
            kinds += [self.one(*possible) for _ in range(self.draw(st.integers(least, size)))]
        kinds = list(self.draw(st.permutations(kinds))) if len(kinds) > 1 else kinds
        elements: list[Element] = [] if kinds and self.chance(10) else [self.patterns()]
        for kind in kinds:
            if kind not in ("filter", "exists"):
                elements.append(self.element(kind, size, scope(Group(tuple(elements)))))
        visible = scope(Group(tuple(elements)))  # a filter stands anywhere and concerns the whole group
        for kind in kinds:
            if kind in ("filter", "exists"):
                filters = (
                    self.exists(size, visible) if kind == "exists" else self.condition(sorted(visible), size)
                )
                elements.insert(self.draw(st.integers(0, len(elements))), Filter(filters))
        return Group(tuple(elements))

    def inner(self, size: int, visible: set[str], *, asks: int) -> Group:
        """A group inside another, in `asks` of 100 cases with a filter about variables of the groups around it."""
        names, around = self.names, self.around
        if self.chance(20):  # with names of its own
            self.names = {}
        self.around = around | visible
        group = self.group(max(size - 1, 0) if self.chance(40) else max(size - 2, 0))
        foreign = sorted(self.around - scope(group))
        if foreign and "filter" in self.features and self.chance(asks):
            elements = list(group.elements)
            asked = Filter(self.correlated(foreign, sorted(scope(group))))
            elements.insert(self.draw(st.integers(0, len(elements))), asked)
            group = Group(tuple(elements))
        self.names, self.around = names, around
        return group

    def correlated(self, foreign: Seq[str], own: Seq[str]) -> Expression:
        """A condition about a variable that a group does not bind itself."""
        other = self.one(*foreign)
        alike = [name for name in own if name[0] == other[0]]
        if not alike or self.chance(30):
            bound = Call("BOUND", (Var(other),))
            return self.one(Call("!", (bound,)), bound, self.condition([other], 0))
        operators = ("=", "!=", "<=", "<") if other[0] == "n" else ("=", "!=")
        asked = Call(self.one(*operators), (Var(other), Var(self.one(*alike))))
        return Call("||", (asked, Call("!", (Call("BOUND", (Var(other),)),)))) if self.chance(25) else asked

    def element(self, kind: str, size: int, visible: set[str]) -> Element:
        """An element of a kind; `visible` are the variables of the group before it."""
        if kind == "optional":
            return Optional(self.inner(size, visible, asks=70))
        if kind == "minus":
            return Minus(self.inner(size, visible, asks=20))
        if kind == "union":
            return Union(tuple(self.inner(size, visible, asks=20) for _ in range(self.one(2, 2, 3))))
        if kind == "group":
            return self.inner(size, visible, asks=35)
        if kind == "bind":
            return Bind(self.value(sorted(visible)), self.fresh(visible))
        if kind == "values":
            return self.values(sorted(visible))
        assert kind == "subselect"
        group = self.inner(size, visible, asks=20)
        names = sorted(scope(group))
        if not names:
            return group
        if "groups" in self.features and self.chance(40):
            return self.grouped(group, names)
        items: list[str | tuple[Expression, str]] = []
        if not self.chance(20):
            items = list(self.draw(st.lists(st.sampled_from(names), min_size=1, max_size=3, unique=True)))
            if self.chance(30):
                items.append((self.value(names), self.fresh(set(names))))
        select = Select(tuple(items), group, self.one("", "DISTINCT"))
        return self.sliced(select, names) if "slices" in self.features and self.chance(35) else select

    def grouped(self, group: Group, names: Seq[str]) -> Select:
        """A SELECT with keys and aggregates."""
        chosen = self.draw(st.lists(st.sampled_from(names), max_size=2, unique=True))
        keys: list[str | tuple[Expression, str]] = list(chosen)
        if self.chance(20):
            # pyoxigraph takes no name for a variable there.
            keys.append((Call("COALESCE", (self.value(names),)), f"key{self.next()}"))
        made: list[tuple[Expression, str]] = []
        for _ in range(self.one(1, 1, 2, 3)):
            value: Expression = self.aggregate(names)
            if self.chance(15):
                value = Call("COALESCE", (value, Const('"none"')))
            made.append((value, f"agg{self.next()}"))
        shown = [key if isinstance(key, str) else key[1] for key in keys]
        shown = shown if self.chance(70) else shown[:1]
        having: tuple[Expression, ...] = ()
        if self.chance(25):
            least = Const(f'"{self.one(1, 2)}"^^{INTEGER}')
            having = (Call(self.one(">", ">=", "<", "="), (Aggregate("COUNT"), least)),)
        found = Select((*shown, *made), group, self.one("", "", "DISTINCT"), tuple(keys), having)
        return self.sliced(found, found.names) if self.chance(30) else found

    def sliced(self, select: Select, names: Seq[str]) -> Select:
        """A SELECT with LIMIT or OFFSET, mostly with ORDER BY; of a set, by what it shows."""
        shown = select.names if select.modifier == "DISTINCT" or select.grouped else names
        chosen = self.draw(st.lists(st.sampled_from(shown), max_size=2, unique=True))
        order = tuple((Var(name), self.chance(50)) for name in chosen)
        limit = self.one(1, 1, 2, 3, 0, None)
        return replace(select, order=order, limit=limit, offset=self.one(0, 0, 1, 2))

    def aggregate(self, names: Seq[str]) -> Aggregate:
        """An aggregate over a variable or a value."""
        function = self.one("COUNT", "SUM", "AVG", "MIN", "MAX", "SAMPLE", "GROUP_CONCAT")
        distinct = self.chance(25)
        if function == "COUNT" and self.chance(40):
            return Aggregate("COUNT", None, distinct)
        numbers = [name for name in names if name[0] == "n"]
        name = self.one(*numbers) if numbers and self.chance(60) else self.one(*names)
        argument: Expression = Var(name)
        if self.chance(20):
            argument = Call("COALESCE", (Var(name), Const(f'"2"^^{INTEGER}')))
        separator = self.one(None, "", ", ") if function == "GROUP_CONCAT" else None
        return Aggregate(function, argument, distinct, separator)

    def exists(self, size: int, visible: set[str]) -> Expression:
        """EXISTS or NOT EXISTS, alone or in a condition."""
        before, self.in_exists = self.in_exists, True
        found: Expression = Exists(self.inner(size, visible, asks=40), self.one(False, True))
        self.in_exists = before
        if self.chance(15):
            found = Call(self.one("&&", "||"), (found, self.condition(sorted(visible), 0)))
        return found

    # Patterns

    def patterns(self) -> Element:
        """Triple patterns; where all windows are named, inside one of them."""
        named = [source.name for source in self.sources if source.name is not None]
        if not named or self.in_graph or (len(named) < len(self.sources) and self.chance(30)):
            return self.triples()
        self.in_graph = True
        group = self.group(2) if self.chance(40) else Group((self.triples(),))
        name = f"<{self.one(*named)}>"
        if self.chance(45):
            name = self.one("?g", "?g", "?h", NODES[0])
            self.used.add(name[1:] if name[0] == "?" else "g")
            if "filter" in self.features and self.chance(
                30
            ):  # the name of the graph is no variable of the group
                group = Group((*group.elements, Filter(self.correlated(["g"], sorted(scope(group))))))
            if self.chance(15):
                group = Group((Optional(group),))
        self.in_graph = False
        return Graph(name, group, self.one("WINDOW", "GRAPH"))

    def triples(self) -> Triples:
        """Up to three patterns, some of them paths."""
        result = []
        for _ in range(self.one(1, 1, 1, 2, 2, 3)):
            s, p, o = self.triple()
            subject, object_ = self.end(s), self.end(o)
            if "blank" in self.features and self.chance(20):
                object_ = f"_:v{self.next()}"
            path: Path = p
            if "variable predicate" in self.features and self.chance(12):
                path = f"?{self.one('p', 'p', 'q')}"
                self.used.add(path[1:])
            elif {"path", "closure"}.intersection(self.features) and (self.chance(40) or self.wants_path):
                self.wants_path = False
                closed = "closure" in self.features and ("path" not in self.features or self.chance(40))
                subject, path, object_ = (self.closure if closed else self.path)(subject, p, object_)
            result.append((subject, path, object_))
        return Triples(tuple(result))

    def triple(self) -> Triple:
        """A triple of the stream, mostly a neighbour of one that was taken before."""
        if not self.data:
            return NODES[0], LINK, NODES[1]
        ends = {end for s, _, o in self.found[-6:] for end in (s, o)}
        near = [triple for triple in self.data if triple[0] in ends or triple[2] in ends]
        apart = 30 if "disconnected" in self.features else 5
        found = self.draw(st.sampled_from(near if near and not self.chance(apart) else self.data))
        self.found.append(found)
        return found

    def end(self, term: str) -> str:
        """A term of a triple as a pattern has it: its variable, another variable, or itself."""
        if term[0] != "_" and self.chance(15):
            return term
        kind = "n" if term in NUMBERS else "t" if term in TEXTS else "x"
        if term not in self.names:
            self.names[term] = f"{kind}{self.one(1, 2, 3) if kind == 'x' else self.one(1, 2)}"
        name = f"{kind}{self.one(1, 2, 3, 4, 5)}" if self.chance(20) else self.names[term]
        far = sorted(other for other in self.around if other[0] == kind)
        if far and self.chance(20):
            name = self.one(*far)
        self.used.add(name)
        return f"?{name}"

    def path(self, subject: str, p: str, object_: str) -> tuple[str, Path, str]:
        """A path in the place of a predicate; some turn the ends around."""
        kind = self.one("inverse", "sequence", "alternative", "negated", "zero or one", "nested", "nested")
        other = self.one(*((NEXT, LINK, NUMBER) if p in (LINK, NEXT) else PREDICATES))
        step = self.one(LINK, NEXT)
        if kind == "inverse":
            return object_, Inverse(p), subject
        if kind == "sequence":
            return subject, Sequence(p, step) if self.chance(30) else Sequence(step, p), object_
        if kind == "alternative":
            return subject, Alternative(p, other), object_
        if kind == "negated":
            rest = tuple(iri for iri in (TEXT, NEXT, NUMBER, LINK) if iri != p)
            backward = (self.one(*PREDICATES),) if self.chance(40) else ()
            return subject, Negated(rest[: self.one(1, 2)], backward), object_
        if kind == "zero or one":
            return subject, ZeroOrOne(p), object_
        either = Alternative(LINK, NEXT)
        nested: list[Path] = [
            *(
                Sequence(either, p),
                Sequence(ZeroOrOne(step), p),
                Sequence(either, either),
                Sequence(Negated((other,), ()), p),
            ),
            *(
                ZeroOrOne(Alternative(p, other)),
                ZeroOrOne(either),
                ZeroOrOne(Sequence(step, p)),
                Sequence(p, ZeroOrOne(step)),
            ),
            *(
                Inverse(Sequence(p, Inverse(step))),
                Alternative(p, Inverse(step)),
                Alternative(Inverse(p), Inverse(other)),
            ),
        ]
        return subject, self.one(*nested), object_

    def closure(self, subject: str, p: str, object_: str) -> tuple[str, Path, str]:
        """A path with `+` or `*` in the place of a predicate, mostly of links; some are nested."""
        if self.chance(80):
            p = self.one(LINK, NEXT)
        step = self.one(LINK, NEXT, p)
        kinds: list[Callable[[Path], Path]] = [ZeroOrMore, OneOrMore, ZeroOrOne]
        repeat, other = self.one(*kinds[:2]), self.one(*kinds)
        if self.chance(15):
            object_ = subject
        closures: list[Path] = [
            *(repeat(p), repeat(p), repeat(p), repeat(Inverse(p)), repeat(Alternative(p, Inverse(step)))),
            *(repeat(Alternative(p, step)), repeat(Sequence(p, step)), repeat(Negated((step,), ()))),
            *(Sequence(repeat(p), step), Sequence(step, repeat(p)), Sequence(repeat(p), other(step))),
            *(Sequence(Inverse(repeat(p)), Sequence(step, other(p))), Alternative(repeat(p), step)),
            *(repeat(other(p)), repeat(Sequence(other(p), step)), repeat(Sequence(other(p), other(step)))),
            *(
                repeat(Alternative(other(p), step)),
                repeat(Inverse(Sequence(p, other(step)))),
                Inverse(repeat(p)),
            ),
        ]
        return subject, self.one(*closures), object_

    def values(self, visible: Seq[str]) -> Values:
        """VALUES for one or two variables, mostly of the group."""
        names = list(visible) + sorted(self.used - set(visible)) + ["x1", "n1"]
        taken = self.draw(st.lists(st.sampled_from(names[:8]), min_size=1, max_size=2, unique=True))
        cells = [
            st.one_of(st.sampled_from(self.terms(name)), st.sampled_from([None, *self.terms(name)]))
            for name in taken
        ]
        rows = self.draw(st.lists(st.tuples(*cells), min_size=1, max_size=4))
        self.used |= set(taken)
        return Values(tuple(taken), tuple(rows))

    def terms(self, name: str) -> list[str]:
        """Terms that a variable of this name may have."""
        known = [term for term, known in self.names.items() if known == name and term[0] != "_"]
        kinds = {
            "n": NUMBERS,
            "t": TEXTS,
            "x": NODES,
            "p": PREDICATES,
            "g": tuple(f"<{name}>" for name in WINDOWS),
        }
        return [*known, *known, *kinds.get(name[0], NODES)]

    def next(self) -> int:
        """A number for a new name."""
        self.made += 1
        return self.made

    def fresh(self, taken: set[str]) -> str:
        """A name for a new value: one that other patterns use, if it is free here, or a new one."""
        free = sorted(name for name in {"n1", "n2", "x1", "t1"} - taken)
        # Inside EXISTS a solution's term would take the place of a name that is made there.
        old = free and not self.in_exists and self.one(True, False)
        name = self.one(*free) if old else f"k{self.next()}"
        self.used.add(name)
        return name

    # Expressions

    def variable(self, visible: Seq[str], kind: str = "") -> str:
        """A variable, mostly one of the group; now and then one of another group, or of none."""
        here = [name for name in visible if name[0] == kind] or list(visible)
        if here and not self.chance(15):
            return self.one(*here)
        return "nowhere" if self.chance(15) else self.one(*(sorted(self.used) or ["x1"]))

    def condition(self, visible: Seq[str], depth: int) -> Expression:
        """An expression with a truth, mostly about variables of the group."""
        if depth > 0 and self.chance(40):
            if self.chance(25):  # an error on one side, and the other side decides
                fault = Call(self.one("<", ">="), (Var(self.variable(visible, "x")), Const(NUMBERS[1])))
                return Call("||", (Call("!", (fault,)), self.condition(visible, 0)))
            name = self.one("!", "||", "&&", "!")
            return Call(
                name, tuple(self.condition(visible, depth - 1) for _ in range(1 if name == "!" else 2))
            )
        kinds = ["bound", "in", "function", "pair"]
        for letter, kind in (("n", "number"), ("x", "node"), ("t", "text"), ("x", "text")):
            kinds = [kind, kind, *kinds] if any(name[0] == letter for name in visible) else kinds
        kind = self.one(*(["text", "number", "node"] if self.chance(20) else kinds))
        if kind == "number":
            name = self.one("<", ">", "<=", ">=", "=", "!=")
            return Call(name, (self.number(visible), Const(self.one(*NUMBERS))))
        if kind == "node":
            other: Expression = Const(self.one(*NODES))
            if self.chance(40):
                other = Var(self.variable(visible, "x"))
            return Call(self.one("=", "!=", "sameTerm"), (Var(self.variable(visible, "x")), other))
        if kind == "text":
            text = Call("STR", (Var(self.variable(visible, self.one("t", "x"))),))
            test = self.one("CONTAINS", "STRSTARTS", "REGEX", "=", "<")
            return Call(test, (text, Const(self.one('"a"', '"b"', '"http"'))))
        if kind == "bound":
            return Call("BOUND", (Var(self.variable(visible)),))
        if kind == "in":
            name = self.variable(visible, self.one("x", "n"))
            terms = self.draw(st.lists(st.sampled_from(self.terms(name)), min_size=1, max_size=3))
            return Call(self.one("IN", "NOT IN"), (Var(name), *map(Const, terms)))
        if kind == "pair":
            return Call(
                self.one("=", "!=", "sameTerm"), (Var(self.variable(visible)), Var(self.variable(visible)))
            )
        return Call(self.one("isIRI", "isLITERAL", "isNUMERIC", "isBLANK"), (Var(self.variable(visible)),))

    def number(self, visible: Seq[str]) -> Expression:
        """An expression that is mostly a number."""
        found: Expression = Var(self.variable(visible, "n"))
        if self.chance(20):
            return Call(self.one("+", "-"), (found, Const(NUMBERS[0])))
        if self.chance(15):
            return Call("STRLEN", (Call("STR", (Var(self.variable(visible)),)),))
        return found

    def value(self, visible: Seq[str]) -> Expression:
        """An expression of any kind of value."""
        kind = self.one("number", "text", "variable", "if", "coalesce", "condition", "constant", "iri")
        if kind == "number":
            return self.number(visible)
        text = Call("STR", (Var(self.variable(visible)),))
        if kind == "text":
            return self.one(text, Call("UCASE", (text,)), Call("CONCAT", (text, Const('"b"'))))
        if kind == "variable":
            return Var(self.variable(visible))
        if kind == "if":
            return Call("IF", (self.condition(visible, 1), Var(self.variable(visible)), Const(NUMBERS[0])))
        if kind == "coalesce":
            return Call("COALESCE", (self.number(visible), Var(self.variable(visible)), Const(NODES[1])))
        if kind == "condition":
            return self.condition(visible, 1)
        if kind == "iri":
            return Call("IRI", (Call("STR", (Var(self.variable(visible, "x")),)),))
        return Const(self.one(*NODES, *NUMBERS))
