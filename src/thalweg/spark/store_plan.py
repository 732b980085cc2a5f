"""The logical tree of a query as Spark DataFrames over the table of a store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import count

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from thalweg.algebra.expressions import Expression, variables_of
from thalweg.algebra.nodes import (
    Aggregate,
    Ask,
    Bgp,
    Closure,
    Construct,
    Distinct,
    Empty,
    Exists,
    Extend,
    Filter,
    Fixed,
    Group,
    Join,
    LeftJoin,
    Minus,
    Node,
    OrderBy,
    Project,
    Slice,
    Union,
    Values,
    ZeroLength,
    walk,
)
from thalweg.algebra.query import Query
from thalweg.algebra.scope import TRIPLE, mentioned, scope_of
from thalweg.algebra.terms import XSD, Const, Pattern, Term, Var
from thalweg.errors import UnsupportedError
from thalweg.spark import store_expressions as expressions
from thalweg.spark.store_content import Content
from thalweg.spark.store_order import join_order

_TRUE, _FALSE = (f'"{text}"^^<{XSD}boolean>' for text in ("true", "false"))


@dataclass(frozen=True)
class Frame:
    """Solutions: a frame, the column of each variable that some solution binds (null: unbound), and sort keys.

    A key is a column and whether it descends.
    """

    df: DataFrame
    columns: Mapping[str, str]
    keys: tuple[tuple[str, bool], ...] = ()
    made: frozenset[str] = frozenset()
    """Variables that expressions have made."""


class Compiler:
    """Compiles the nodes of one query."""

    def __init__(
        self, spark: SparkSession, query: Query, content: Content, *, now: int | None = None
    ) -> None:
        self.spark, self.query, self.content, self.now = spark, query, content, now
        self._names: dict[str, str] = {}
        self._fresh = count()

    def column(self, name: str) -> str:
        """The column of a variable: its own name may be anything."""
        return self._names.setdefault(name, f"v{len(self._names)}")

    def new(self) -> str:
        """A name that no column has."""
        return f"c{next(self._fresh)}"

    def compile(self, node: Node) -> Frame:
        """The solutions of a node."""
        match node:
            case Bgp():
                return self._bgp(node)
            case Values():
                return self._values(node)
            case Join():
                return self._join(node)
            case LeftJoin():
                return self._left_join(node)
            case Union():
                return self._union([self.compile(one) for one in node.inputs])
            case Minus():
                return self._minus(node)
            case Exists():
                return self._exists(node)
            case Filter():
                inner = self.compile(node.input)
                return replace(
                    inner, df=inner.df.filter(self._condition(node.condition, inner.columns, inner.made))
                )
            case Extend():
                return self._extend(self.compile(node.input), node.name, node.expression)
            case Fixed():
                return self._fixed(node)
            case Empty():
                scope = scope_of(node)
                return self._literal(scope.possible, [])
            case Project():
                return self._project(node)
            case Distinct():
                return self._distinct(self.compile(node.input))
            case Group():
                return self._group(node)
            case OrderBy():
                return self._order(node)
            case Slice():
                return self._slice(node)
            case Ask():
                found = self.compile(node.input).df.limit(1).agg((F.count(F.lit(1)) > 0).alias("answer"))
                return Frame(found, {"answer": "answer"})
            case Construct():
                return self._construct(node)
            case Closure() | ZeroLength():
                raise UnsupportedError("a store on Spark does not follow paths with + or *")

    # Leaves

    def _bgp(self, node: Bgp) -> Frame:
        if not node.patterns:
            return Frame(self.spark.range(1).select(F.lit(1).alias(self.new())), {})
        frame: Frame | None = None
        for place in join_order(node.patterns, self.content.frequencies):
            found = self._scan(node.patterns[place])
            frame = found if frame is None else self._natural(frame, found)
        assert frame is not None
        columns = {name: self.column(name) for name in scope_of(node).possible}
        return self._kept(Frame(frame.df, columns))

    def _scan(self, pattern: Pattern) -> Frame:
        """The matches of a pattern; beside the text of a variable is its id, by which patterns are joined."""
        df = self.content.triples(pattern, self.query.sources[pattern.source])
        seen: dict[str, str] = {}
        picked: list[Column] = []
        for place, term in zip("spo", pattern.terms, strict=True):
            if not isinstance(term, Var):
                continue
            if term.name in seen:
                df = df.filter(F.col(place) == F.col(seen[term.name]))
                continue
            seen[term.name] = place
            name = self.column(term.name)
            picked += [F.col(place).alias(name), F.col(f"{place}id").alias(f"{name}id")]
        df = df.select(*picked) if picked else df.select(F.lit(1).alias(self.new()))
        return Frame(df, {name: self.column(name) for name in seen})

    def _natural(self, left: Frame, right: Frame) -> Frame:
        """The join of two frames of patterns: ids are compared first, and texts decide."""
        shared = [name for name in left.columns if name in right.columns]
        columns = {**right.columns, **left.columns}
        if not shared:
            return Frame(left.df.crossJoin(right.df), columns)
        keys = [self.column(name) for name in shared]
        return Frame(left.df.join(right.df, on=[f"{key}id" for key in keys] + keys), columns)

    def _kept(self, frame: Frame) -> Frame:
        """The frame without columns that nobody needs."""
        wanted = [*frame.columns.values(), *(key for key, _ in frame.keys)]
        return replace(frame, df=frame.df.select(*(wanted or [F.lit(1).alias(self.new())])))

    def _literal(self, names: Sequence[str], rows: Sequence[Sequence[str | None]]) -> Frame:
        columns = {name: self.column(name) for name in names}
        schema = ", ".join(f"{column} string" for column in columns.values()) or f"{self.new()} string"
        cells = [tuple(row) if names else ("",) for row in rows]
        return Frame(self.spark.createDataFrame(cells, schema), columns)

    def _values(self, node: Values) -> Frame:
        rows = [[None if cell is None else cell.text for cell in row] for row in node.rows]
        return self._literal(node.names, rows)

    # Joins

    def _apart(self, right: Frame) -> tuple[DataFrame, dict[str, str]]:
        """A frame with columns of new names, so that it can be joined with anything."""
        renamed = {name: self.new() for name in right.columns}
        picked = [F.col(right.columns[name]).alias(new) for name, new in renamed.items()]
        return right.df.select(*(picked or [F.lit(1).alias(self.new())])), renamed

    def _pairs(
        self, left: Frame, right: Frame, certain: frozenset[str], kind: str
    ) -> tuple[Frame, dict[str, str]]:
        """Compatible pairs of solutions, with the columns of both; both always bind what is `certain`."""
        other, renamed = self._apart(right)
        shared = [name for name in left.columns if name in renamed]
        tests = [
            F.col(left.columns[name]) == F.col(renamed[name])
            if name in certain
            else F.col(left.columns[name]).isNull()
            | F.col(renamed[name]).isNull()
            | (F.col(left.columns[name]) == F.col(renamed[name]))
            for name in shared
        ]
        condition = reduce(Column.__and__, tests) if tests else F.lit(True)
        return Frame(left.df.join(other, on=condition, how=kind), left.columns), renamed

    def _merged(
        self, pairs: Frame, left: Frame, renamed: Mapping[str, str], certain: frozenset[str]
    ) -> Frame:
        """Pairs as solutions; `certain` are the variables that the left one always binds."""
        columns = {
            name: self.column(name)
            for name in [*left.columns, *(n for n in renamed if n not in left.columns)]
        }
        picked = []
        for name, column in columns.items():
            if name not in renamed or name in certain:
                made = F.col(left.columns[name])
            elif name not in left.columns:
                made = F.col(renamed[name])
            else:
                made = F.coalesce(F.col(left.columns[name]), F.col(renamed[name]))
            picked.append(made.alias(column))
        return Frame(pairs.df.select(*(picked or [F.lit(1).alias(self.new())])), columns)

    def _joined(
        self, left: Frame, right: Frame, left_node: Node, right_node: Node, kind: str = "inner"
    ) -> Frame:
        sure = scope_of(left_node).certain
        pairs, renamed = self._pairs(left, right, sure & scope_of(right_node).certain, kind)
        return self._merged(pairs, left, renamed, sure)

    def _join(self, node: Join) -> Frame:
        return self._joined(self.compile(node.left), self.compile(node.right), node.left, node.right)

    def _left_join(self, node: LeftJoin) -> Frame:
        left, right = self.compile(node.left), self.compile(node.right)
        if node.condition is None:
            return self._joined(left, right, node.left, node.right, "left")
        inner = self._joined(left, right, node.left, node.right)
        inner = replace(inner, df=inner.df.filter(self._condition(node.condition, inner.columns)))
        if set(left.columns) <= scope_of(node.left).certain:
            # Each pair has the whole left solution in it: those that are in none are what is left.
            matched = Frame(inner.df, left.columns)
        else:
            matched = self._matched(left, right, node.left, node.right, [node.condition])
        return self._union([inner, self._semi(left, matched, "left_anti")])

    def _matched(
        self, left: Frame, right: Frame, left_node: Node, right_node: Node, conditions: Sequence[Expression]
    ) -> Frame:
        """The left solutions, as they are, that have a compatible right one so that conditions hold of both."""
        certain = scope_of(left_node).certain
        pairs, renamed = self._pairs(left, right, certain & scope_of(right_node).certain, "inner")
        kept = {name: self.new() for name in left.columns}
        wide = pairs.df.select(
            "*", *(F.col(left.columns[name]).alias(column) for name, column in kept.items())
        )
        both = {name: self.new() for name in dict.fromkeys([*left.columns, *renamed])}
        made = []
        for name, column in both.items():
            sides = [F.col(side[name]) for side in (left.columns, renamed) if name in side]
            made.append(F.coalesce(*sides).alias(column))
        wide = wide.select(*(F.col(column) for column in kept.values()), *made, F.lit(1).alias(self.new()))
        for one in conditions:
            wide = wide.filter(self._condition(one, both))
        return Frame(wide, kept)

    def _semi(self, left: Frame, matched: Frame, kind: str) -> Frame:
        """The left solutions that are, or are not, among others; equal ones share their fate."""
        other, renamed = self._apart(
            Frame(matched.df, {name: matched.columns[name] for name in left.columns})
        )
        tests = [F.col(left.columns[name]).eqNullSafe(F.col(renamed[name])) for name in left.columns]
        condition = reduce(Column.__and__, tests) if tests else F.lit(True)
        return replace(left, df=left.df.join(other, on=condition, how=kind))

    def _minus(self, node: Minus) -> Frame:
        left, right = self.compile(node.left), self.compile(node.right)
        other, renamed = self._apart(right)
        shared = [name for name in left.columns if name in renamed]
        certain = scope_of(node.left).certain & scope_of(node.right).certain
        if not shared:
            return left
        pairs = [(name, F.col(left.columns[name]), F.col(renamed[name])) for name in shared]
        tests = [a == b if name in certain else a.isNull() | b.isNull() | (a == b) for name, a, b in pairs]
        if not certain.intersection(shared):
            tests.append(reduce(Column.__or__, (a.isNotNull() & b.isNotNull() for _, a, b in pairs)))
        return replace(left, df=left.df.join(other, on=reduce(Column.__and__, tests), how="left_anti"))

    def _exists(self, node: Exists) -> Frame:
        left = self.compile(node.left)
        inner, conditions = node.right, []
        while isinstance(inner, Filter):
            conditions.append(inner.condition)
            inner = inner.input
        _check_correlation(inner, set(scope_of(node.left).possible))
        matched = self._matched(left, self.compile(inner), node.left, inner, conditions)
        if node.mark is None:
            return self._semi(left, matched, "left_anti" if node.negated else "left_semi")
        yes, no = self._semi(left, matched, "left_semi"), self._semi(left, matched, "left_anti")
        mark = self.column(node.mark)
        found, other = (_FALSE, _TRUE) if node.negated else (_TRUE, _FALSE)
        columns = {**left.columns, node.mark: mark}
        return self._union(
            [
                Frame(yes.df.withColumn(mark, F.lit(found)), columns),
                Frame(no.df.withColumn(mark, F.lit(other)), columns),
            ]
        )

    def _union(self, frames: Sequence[Frame]) -> Frame:
        names = dict.fromkeys(name for frame in frames for name in frame.columns)
        columns = {name: self.column(name) for name in names}
        unit = self.new()
        parts = []
        for frame in frames:
            picked = [
                (F.col(frame.columns[name]) if name in frame.columns else F.lit(None).cast("string")).alias(
                    column
                )
                for name, column in columns.items()
            ]
            parts.append(frame.df.select(*(picked or [F.lit(1).alias(unit)])))
        return Frame(reduce(DataFrame.union, parts), columns)

    # Rows

    def _condition(
        self, expression: Expression, columns: Mapping[str, str], made: frozenset[str] = frozenset()
    ) -> Column:
        return expressions.condition(expression, expressions.Row(columns, made, self.now))

    def _extend(self, inner: Frame, name: str, expression: Expression) -> Frame:
        row = expressions.Row(inner.columns, inner.made, self.now)
        column = self.column(name)
        df = inner.df.withColumn(column, expressions.value(expression, row))
        return replace(
            inner, df=df, columns={**inner.columns, name: column}, made=inner.made | frozenset({name})
        )

    def _fixed(self, node: Fixed) -> Frame:
        frame = self.compile(node.input)
        for name, value in node.values:
            column = self.column(name)
            made = frame.df.withColumn(column, F.lit(value.text))
            frame = replace(frame, df=made, columns={**frame.columns, name: column})
        return frame

    def _project(self, node: Project) -> Frame:
        inner = self.compile(node.input)
        columns = {name: inner.columns[name] for name in node.names if name in inner.columns}
        return self._kept(replace(inner, columns=columns))

    def _distinct(self, inner: Frame) -> Frame:
        if not inner.columns:
            return replace(inner, df=inner.df.limit(1))
        if not inner.keys:
            return replace(inner, df=inner.df.dropDuplicates(list(inner.columns.values())))
        # Of equal rows the one that comes first stays.
        first = [(F.max if falls else F.min)(key).alias(key) for key, falls in inner.keys]
        return replace(inner, df=inner.df.groupBy(*inner.columns.values()).agg(*first))

    def _group(self, node: Group) -> Frame:
        inner = self.compile(node.input)
        df, made, shown = inner.df, [], []
        keys = {name: self.column(name) for name in node.keys if name in inner.columns}
        for name, one in node.aggregates:
            partial, final = self._aggregate(one, inner)
            made += partial
            shown.append(final.alias(self.column(name)))
        columns = {**keys, **{name: self.column(name) for name, _ in node.aggregates}}
        grouped = [inner.columns[name] for name in keys]
        if not made:
            made = [F.count(F.lit(1)).alias(self.new())]
        # Without keys there is one group, also of nothing; keys that nothing binds have one group of something.
        found = df.groupBy(*grouped).agg(*made)
        if node.keys and not keys:
            total = self.new()
            found = df.agg(*made, F.count(F.lit(1)).alias(total)).filter(F.col(total) > 0)
        return self._kept(Frame(found.select(*grouped, *shown, F.lit(1).alias(self.new())), columns))

    def _aggregate(self, one: Aggregate, inner: Frame) -> tuple[list[Column], Column]:
        """What is computed over the rows of a group, and the aggregate from that."""
        a, b = self.new(), self.new()
        column = F.lit(None).cast("string")
        if one.argument is not None and one.argument in inner.columns:
            column = F.col(inner.columns[one.argument])
        if one.function == "COUNT":
            if one.argument is not None:
                counted = F.count_distinct(column) if one.distinct else F.count(column)
            elif one.distinct and inner.columns:
                counted = F.size(F.collect_set(F.struct(*(F.col(c) for c in inner.columns.values()))))
            else:
                counted = F.count(F.lit(1))
                if one.distinct:
                    counted = F.least(counted, F.lit(1))
            text = F.concat(F.lit('"'), F.col(a).cast("string"), F.lit(f'"^^<{XSD}integer>'))
            return [counted.alias(a)], text
        faulty = F.count(F.lit(1)) > F.count(column)
        if one.function in expressions.OF_NUMBERS and not one.distinct:
            # Integers are added and compared by SQL, exactly; other terms are collected.
            number, c, d = expressions.integer_of(column), self.new(), self.new()
            of_integers = expressions.OF_NUMBERS[one.function](number).cast("string")
            others = F.collect_list(F.when(number.isNull(), column))
            made = [others.alias(a), of_integers.alias(c), F.count(column).alias(d), faulty.alias(b)]
            return made, expressions.number_aggregate(one.function, *map(F.col, (a, c, d, b)))
        collected = F.collect_set(column) if one.distinct else F.collect_list(column)
        return (
            [collected.alias(a), faulty.alias(b)],
            expressions.aggregate(one.function, one.separator, F.col(a), F.col(b)),
        )

    def _order(self, node: OrderBy) -> Frame:
        inner = self.compile(node.input)
        keys, df = [], inner.df
        for name, falls in node.conditions:
            if name in inner.columns:
                key = self.new()
                df = df.withColumn(key, expressions.sort_key(inner.columns[name]))
                keys.append((key, falls))
        return replace(inner, df=df, keys=tuple(keys))

    def sorted(self, frame: Frame) -> DataFrame:
        """The solutions in their order, which the texts of rows make total."""
        by = [F.col(key).desc() if falls else F.col(key).asc() for key, falls in frame.keys]
        by += [F.col(column).asc_nulls_first() for column in frame.columns.values()]
        return frame.df.orderBy(*by) if by else frame.df

    def _slice(self, node: Slice) -> Frame:
        inner = self.compile(node.input)
        df = self.sorted(inner)
        if node.offset:
            df = df.offset(node.offset)
        return replace(inner, df=df if node.limit is None else df.limit(node.limit))

    def _construct(self, node: Construct) -> Frame:
        inner = self.compile(node.input)
        cells = [F.coalesce(F.col(column), F.lit("")) for column in inner.columns.values()]
        row = F.concat_ws("\x1f", *cells) if cells else F.lit("")
        columns = {name: name for name in TRIPLE}

        def term(one: Term) -> Column:
            if isinstance(one, Const):
                return F.lit(one.text)
            if one.anonymous and one.name not in inner.columns:
                return F.concat(F.lit("_:c"), F.md5(F.concat(F.lit(one.name + "\x1f"), row)))
            return F.col(inner.columns[one.name]) if one.name in inner.columns else F.lit(None).cast("string")

        parts = []
        for triple in node.template:
            made = inner.df.select(
                *(term(one).alias(name) for one, name in zip(triple.terms, TRIPLE, strict=True))
            )
            parts.append(
                made.filter(
                    F.col("object").isNotNull()
                    & ~F.col("subject").startswith('"')
                    & F.col("predicate").startswith("<")
                )
            )
        if not parts:
            empty = self.spark.createDataFrame([], ", ".join(f"{name} string" for name in TRIPLE))
            return Frame(empty, columns)
        return Frame(reduce(DataFrame.union, parts).dropDuplicates(), columns)


def _check_correlation(node: Node, outer: set[str]) -> None:
    """Refuse a group of EXISTS in which a variable of the outer solution changes more than a join with it does."""
    for found in walk(node):
        used: set[str] = set()
        match found:
            case Filter():
                used = set(variables_of(found.condition)) - scope_of(found.input).certain
            case Extend():
                used = {found.name, *variables_of(found.expression)} - scope_of(found.input).certain
            case LeftJoin() | Minus() | Exists():
                sides = mentioned(found.left) | mentioned(found.right)
                used = sides - scope_of(found.left).certain
            case Group() | Slice() | Distinct() | Project():
                used = mentioned(found.input)
        if used & outer:
            raise UnsupportedError(
                "a store on Spark asks EXISTS of patterns, joins, unions and filters of their own variables: "
                f"?{sorted(used & outer)[0]} of the outer group is used otherwise"
            )
