"""SPARQL 1.1 expressions over term ids: typed values, operators and functions, and their evaluation on columns."""
