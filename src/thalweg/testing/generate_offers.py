"""Offers of products under a tree of product types, shaped like those of the Berlin SPARQL Benchmark (BSBM)."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate
from operator import mul

from thalweg.testing.generate import TYPE, XSD

VOCABULARY = "http://www4.wiwiss.fu-berlin.de/bizer/bsbm/v01/vocabulary/"
INSTANCES = "http://www4.wiwiss.fu-berlin.de/bizer/bsbm/v01/instances/"
PER_OFFER = 11
"""Triples of an offer, with the type of its product."""
TREES = {329: (8, 8, 4), 2011: (10, 8, 8, 2), 22_527: (14, 8, 8, 8, 2)}
"""By number of product types: how many types each one has below it, level by level."""
_SUBCLASS = "<http://www.w3.org/2000/01/rdf-schema#subClassOf>"
_DC = "http://purl.org/dc/elements/1.1/"
_COUNTRIES = "http://downlode.org/rdf/iso-3166/countries#"
_GB = f"<{_COUNTRIES}GB>"


@dataclass(frozen=True)
class ProductTypes:
    """A tree of product types, numbered from 1, the root, level by level.

    >>> tree = ProductTypes(TREES[329])
    >>> tree.size, tree.above(2), tree.level(1)
    (329, 1, range(2, 10))
    """

    branching: tuple[int, ...]

    @property
    def _widths(self) -> list[int]:
        return list(accumulate((1, *self.branching), mul))

    @property
    def size(self) -> int:
        """How many types there are."""
        return sum(self._widths)

    def level(self, depth: int) -> range:
        """The types of a level; 0 has the root."""
        first = 1 + sum(self._widths[:depth])
        return range(first, first + self._widths[depth])

    @property
    def leaves(self) -> range:
        """The types of products."""
        return self.level(len(self.branching))

    def above(self, number: int) -> int:
        """The type above one that is not the root."""
        for depth, below in enumerate(self.branching):
            level = self.level(depth + 1)
            if number in level:
                return self.level(depth)[(number - level[0]) // below]
        raise ValueError(f"no type is above {number}")

    def ancestors(self, number: int) -> list[int]:
        """The types above one, up to the root."""
        found = []
        while number != 1:
            number = self.above(number)
            found.append(number)
        return found

    def schema(self) -> str:
        """The tree as N-Triples."""
        return "".join(
            f"{type_iri(number)} {_SUBCLASS} {type_iri(self.above(number))} .\n"
            for number in range(2, self.size + 1)
        )


def type_iri(number: int) -> str:
    """A product type as a term."""
    return f"<{INSTANCES}ProductType{number}>"


def offers(
    types: ProductTypes, count: int, *, seed: int = 0, products: int = 10_000, ancestors: bool = False
) -> Iterator[str]:
    """So many offers, as N-Triples of 11 triples each; with `ancestors`, products also have the types above theirs.

    One of eight products is below type 2, in every tree the same ones: streams of two trees differ in the types only.
    """
    chance = random.Random(seed)
    first = len(types.leaves) // types.branching[0]  # leaves below type 2 come first
    below, beside = types.leaves[:first], types.leaves[first:]
    vendors = max(1, products // 100)
    for number in range(count):
        offer = f"<{INSTANCES}Offer{number}>"
        which = chance.randrange(products)
        product = f"<{INSTANCES}Product{which}>"
        vendor = f"<{INSTANCES}Vendor{chance.randrange(vendors)}>"
        # A product keeps its type, whatever the offer.
        leaves = beside if which % 8 else below
        leaf = leaves[which * 2_654_435_761 % len(leaves)]
        above = types.ancestors(leaf) if ancestors else []
        price = chance.randrange(100, 1_000_000) / 100
        day = 1 + number % 28
        yield "".join(
            [
                f"{offer} {TYPE} <{VOCABULARY}Offer> .\n",
                f"{offer} <{VOCABULARY}product> {product} .\n",
                *(f"{product} {TYPE} {type_iri(one)} .\n" for one in (leaf, *above)),
                f"{offer} <{VOCABULARY}vendor> {vendor} .\n",
                f'{offer} <{VOCABULARY}price> "{price:.2f}"^^<{VOCABULARY}USD> .\n',
                f'{offer} <{VOCABULARY}validFrom> "2008-05-{day:02d}T00:00:00"^^<{XSD}dateTime> .\n',
                f'{offer} <{VOCABULARY}validTo> "2008-07-{day:02d}T00:00:00"^^<{XSD}dateTime> .\n',
                f'{offer} <{VOCABULARY}deliveryDays> "{1 + number % 14}"^^<{XSD}integer> .\n',
                f"{offer} <{VOCABULARY}offerWebpage> <http://vendor.example/offers/{number}> .\n",
                f"{offer} <{_DC}publisher> {vendor} .\n",
                f'{offer} <{_DC}date> "2008-05-{day:02d}"^^<{XSD}date> .\n',
            ]
        )


def instances(count: int, *, products: int = 1_000) -> Iterator[str]:
    """So many static triples, as N-Triples: countries of vendors, producers of products and the countries of these.

    First come those of the vendors and products that offers have, then those of others. Every second one is British.
    """
    vendors, producers = max(1, products // 100), max(1, products // 10)
    for number in range(count):
        place = number % (vendors + products + producers)
        lap = number // (vendors + products + producers)
        mark = f"-{lap}" if lap else ""
        country = _GB if place % 2 == 0 or lap else f"<{_COUNTRIES}DE>"
        if place < vendors:
            yield f"<{INSTANCES}Vendor{place}{mark}> <{VOCABULARY}country> {country} .\n"
        elif place < vendors + producers:
            yield f"<{INSTANCES}Producer{place - vendors}{mark}> <{VOCABULARY}country> {country} .\n"
        else:
            product = place - vendors - producers
            yield (
                f"<{INSTANCES}Product{product}{mark}> <{VOCABULARY}producer> "
                f"<{INSTANCES}Producer{product % producers}{mark}> .\n"
            )
