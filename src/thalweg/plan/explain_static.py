"""What `explain` shows of static data: how many triples fit each pattern, and how they are spread."""

from __future__ import annotations

from thalweg.algebra.query import Query
from thalweg.algebra.terms import Var
from thalweg.plan.pruning import signature_of
from thalweg.plan.shares import Shares
from thalweg.static.data import StaticData


def placed(query: Query, shares: Shares, static: StaticData) -> list[str]:
    """For each pattern that reads static graphs, how many triples of these fit it, and how many a shard has of them."""
    lines = []
    for number, pattern in enumerate(query.patterns):
        graphs = [graph for graph in query.sources[pattern.source].graphs if graph in static]
        if not graphs:
            continue
        found = static.count(graphs, signature_of(pattern))
        where = "in one shard"
        if shares.shards > 1:
            copies = shares.copies(pattern) if shares.roles else shares.shards
            by = [str(Var(name)) for name, _ in shares.shares if name in pattern.variables]
            where = (
                f"about {found * copies / shares.shards:,.0f} in each of {shares.shards} shards, by {', '.join(by)}"
                if by
                else f"all in each of {shares.shards} shards"
            )
        named = ", ".join(f"<{graph}>" if graph else "the default graph" for graph in graphs)
        lines.append(
            f"static {number}   {found:,} {'triple' if found == 1 else 'triples'} of {named}: {where}"
        )
    return lines
