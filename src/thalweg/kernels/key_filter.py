"""Key filters: bit arrays that answer, mostly from a line that is in a cache, that a store does not have a key.

A store of static data is asked for each arrival beside it and at each step of a delta plan, mostly in vain. It has a
Bloom filter of the keys of all its indexes for that (docs/decisions/0041). A key has its bits in one word of one cache
line. The line is that of a term of the key, the subject if it has one: what is asked for an arrival, and in steps
from there to other triples of its subject, is in one line, which can be prefetched when the triple is seen ahead.

Keys are added, never removed: a filter may answer a wrong True, never a wrong False. It is made anew with the indexes.
"""

from __future__ import annotations

import numpy as np

from thalweg.kernels.bits import lshr
from thalweg.kernels.checking import njit
from thalweg.kernels.memory import load64, prefetch64, store64

LINE_WORDS = 8
_TERM_BITS = 31


@njit(cache=True, nogil=True)
def _line(lines, term):
    """The first word of the line of a term in a filter of so many lines. Terms are hashes."""
    return (lshr(term, 64 - _TERM_BITS) * lines >> _TERM_BITS) * LINE_WORDS


@njit(cache=True, nogil=True)
def _bits(key):
    """The bits of a key, which is a hash, in its word; the top three bits of the key say which word it is."""
    one = np.int64(1)
    return one << (lshr(key, 55) & 63) | one << (lshr(key, 49) & 63) | one << (lshr(key, 43) & 63)


@njit(cache=True, nogil=True)
def may_have(words, lines, term, key):
    """Whether the filter at an address may have a key in the line of a term."""
    bits = _bits(key)
    return load64(words, _line(lines, term) + lshr(key, 61)) & bits == bits


@njit(cache=True, nogil=True)
def add_key(words, lines, term, key):
    """Adds a key to the line of a term of the filter at an address."""
    word = _line(lines, term) + lshr(key, 61)
    store64(words, word, load64(words, word) | _bits(key))


@njit(cache=True, nogil=True)
def prefetch_line(words, lines, term):
    """Prefetches the line of a term."""
    prefetch64(words, _line(lines, term))
