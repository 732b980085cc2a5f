"""Expressions over solutions as columns of Spark: what SQL decides alike is SQL, the rest is asked of our evaluator."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import pandas as pd
from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812

from thalweg.algebra.expressions import Call, Constant, Expression, Variable, is_volatile, variables_of
from thalweg.algebra.terms import XSD
from thalweg.spark.store_worker import Evaluating, aggregate_of, number_aggregate_of
from thalweg.spark.store_worker import sort_keys as keys_of

_KEYS = "c long, n long, r long, t string"
OF_NUMBERS: Mapping[str, Callable[[Column], Column]] = {
    "SUM": F.sum,
    "AVG": F.sum,
    "MIN": F.min,
    "MAX": F.max,
}
"""What SQL computes of the integers of a group for a set function."""
_INTEGER = rf'^"(0|-?[1-9][0-9]{{0,17}})"\^\^<{XSD}integer>$'
_STARTS = {"ISIRI": "<", "ISLITERAL": '"', "ISBLANK": "_"}


@dataclass(frozen=True)
class Row:
    """The columns of variables, and what makes a row what it is."""

    columns: Mapping[str, str]
    made: frozenset[str] = frozenset()
    """Variables that expressions have made: they are no part of it."""
    now: int | None = None
    """The instant of NOW()."""

    def evaluating(self, expression: Expression) -> tuple[Evaluating, list[Column]]:
        """An expression, and the columns that it needs; what RAND and its like give depends on the whole row."""
        identity = [name for name in self.columns if name not in self.made] if is_volatile(expression) else []
        wanted = {*variables_of(expression), *identity}
        names = [name for name in self.columns if name in wanted]
        given = [F.col(self.columns[name]) for name in names]
        return Evaluating(expression, names, identity, self.now), given


def condition(expression: Expression, row: Row) -> Column:
    """A column that is true where a condition holds; an error is null or false."""
    native = as_sql(expression, row.columns)
    if native is not None:
        return native
    evaluating, given = row.evaluating(expression)
    if not given:
        return F.lit(bool(evaluating.holds([])[0]))

    def holds(*texts: pd.Series) -> pd.Series:
        return pd.Series(evaluating.holds(texts))

    return F.pandas_udf(holds, "boolean")(*given)


def value(expression: Expression, row: Row) -> Column:
    """A column with the text of an expression's value; null where it has none."""
    if isinstance(expression, Variable):
        name = row.columns.get(expression.name)
        return F.lit(None).cast("string") if name is None else F.col(name)
    if isinstance(expression, Constant):
        return F.lit(expression.value.text)
    evaluating, given = row.evaluating(expression)
    if not given:
        return F.lit(evaluating.values([])[0]).cast("string")

    def values(*texts: pd.Series) -> pd.Series:
        return pd.Series(evaluating.values(texts), dtype="object")

    return F.pandas_udf(values, "string")(*given)


def as_sql(expression: Expression, columns: Mapping[str, str]) -> Column | None:
    """A condition in SQL, or None where SQL would decide otherwise; SQL's null stands for an error.

    The logic of three values is the same in SPARQL and SQL.
    """
    if not isinstance(expression, Call):
        return None
    if expression.name in ("AND", "OR"):
        parts = [as_sql(arg, columns) for arg in expression.args]
        known = [part for part in parts if part is not None]
        if len(known) < len(parts):
            return None
        made = known[0]
        for part in known[1:]:
            made = made & part if expression.name == "AND" else made | part
        return made
    if expression.name == "NOT":
        part = as_sql(expression.args[0], columns)
        return None if part is None else ~part
    first = expression.args[0] if expression.args else None
    if not isinstance(first, Variable):
        return None
    column = F.col(columns[first.name]) if first.name in columns else F.lit(None).cast("string")
    if expression.name == "BOUND":
        return column.isNotNull()
    if expression.name in _STARTS:
        return column.startswith(_STARTS[expression.name])
    if expression.name in ("=", "!="):
        other = expression.args[1]
        # An IRI equals itself alone; literals are compared by value.
        if isinstance(other, Constant) and other.value.is_iri:
            return column == other.value.text if expression.name == "=" else column != other.value.text
    return None


def sort_key(column: str) -> Column:
    """What decides the place of a term in SPARQL's order."""

    def keys(texts: pd.Series) -> pd.DataFrame:
        return keys_of(texts)

    return F.pandas_udf(keys, _KEYS)(F.col(column))


def aggregate(function: str, separator: str, values: Column, is_faulty: Column) -> Column:
    """A set function over arrays of texts; null where a group has an error or the function no value."""
    of = aggregate_of(function, separator)

    def call(groups: pd.Series) -> pd.Series:
        return pd.Series([of(group) for group in groups], dtype="object")

    made = F.pandas_udf(call, "string")(values)
    return made if function == "SAMPLE" else F.when(~is_faulty, made)


def integer_of(texts: Column) -> Column:
    """The value of an integer in canonical spelling, whose text follows from it; null for all other terms."""
    digits = F.regexp_extract(texts, _INTEGER, 1)
    return F.when(digits != "", digits).cast("decimal(38,0)")


def number_aggregate(
    function: str, others: Column, integers: Column, count: Column, is_faulty: Column
) -> Column:
    """A set function over what SQL found for the integers of a group, and the texts of its other terms."""
    of = number_aggregate_of(function)

    def call(groups: pd.Series, found: pd.Series, counts: pd.Series) -> pd.Series:
        rows = zip(groups, found, counts, strict=True)
        return pd.Series([of(group, one, int(count)) for group, one, count in rows], dtype="object")

    return F.when(~is_faulty, F.pandas_udf(call, "string")(others, integers, count))
