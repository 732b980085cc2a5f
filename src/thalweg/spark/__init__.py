"""Thalweg on Spark: the only home of pyspark."""

from thalweg.spark.session import session
from thalweg.spark.source import register

__all__ = ["register", "session"]
