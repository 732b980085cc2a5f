"""The hash that makes a term's id: a function of its canonical text and of nothing else.

Every task, process and machine gives a text the same number. The text is taken in blocks of 64 bytes (the
last one filled up with zeros), each block as four independent 64 x 64 -> 128 bit products as in wyhash: no
branch per word, so texts of different lengths do not upset the branch predictor.
"""

from __future__ import annotations

import numpy as np

from thalweg.kernels.bits import differences, load_word, lshr, mum
from thalweg.kernels.checking import njit
from thalweg.kernels.memory import load64

_K0 = 0x2D358DCCAA6C78A5
_K1 = -0x7454D0E2D3CB1E4B
_K2 = 0x4B33A62ED433D4A3
_K3 = 0x4D5A2DA51DE1AA47
_K4 = -0x5F89E29B87429BD1
_K5 = 0x2127599BF4325C37
_K6 = 0x589965CC75374CC3
_K7 = 0x1D8E4E27C47D124F


@njit(cache=True, nogil=True)
def word(at, left):
    """The word at an address of which only `left` bytes (if fewer than 8) belong to the text."""
    if left >= 8:
        return load_word(at)
    if left <= 0:
        return 0
    return load_word(at) & lshr(-1, 64 - 8 * left)


@njit(cache=True, nogil=True)
def hash64(at, size):
    """Hash of the `size` bytes at an address."""
    h = _K3 ^ size
    left = size
    while left > 64:
        h = _block(
            h, load_word(at), load_word(at + 8), load_word(at + 16), load_word(at + 24),
            load_word(at + 32), load_word(at + 40), load_word(at + 48), load_word(at + 56),
        )  # fmt: skip
        at += 64
        left -= 64
    h = _block(
        h, word(at, left), word(at + 8, left - 8), word(at + 16, left - 16), word(at + 24, left - 24),
        word(at + 32, left - 32), word(at + 40, left - 40), word(at + 48, left - 48), word(at + 56, left -
        56),
    )  # fmt: skip
    return mum(h ^ _K7, size ^ _K1)


@njit(cache=True, nogil=True)
def _block(h, a, b, c, d, e, f, g, i):
    x = mum(a ^ _K0, b ^ _K1) ^ mum(c ^ _K2, d ^ _K3)
    y = mum(e ^ _K4, f ^ _K5) ^ mum(g ^ _K6, i ^ _K7)
    return mum(h ^ x, y ^ _K0) ^ x


@njit(cache=True, nogil=True)
def mix(h, k):
    """Another hash from a hash and a number: the k-th attempt after a collision, a scope from its parts."""
    return mum(h ^ _K2, (k * _K6) ^ _K4)


@njit(cache=True, nogil=True)
def mixed(h, value):
    """A hash with one more value in it: cheap, for tables of ids."""
    h = (h ^ np.uint64(value)) * np.uint64(0xBF58476D1CE4E5B9)
    return h ^ (h >> np.uint64(29))


@njit(cache=True, nogil=True)
def hash_cells(row, first, count, seed):
    """A 63-bit hash of some cells of the row at an address."""
    h = np.uint64(0x9E3779B97F4A7C15) ^ np.uint64(seed)
    for c in range(first, first + count):
        h = mixed(h, load64(row, c))
    return np.int64(h >> np.uint64(1))


@njit(cache=True, nogil=True)
def quick(at, size):
    """A cheap key of a text from its length and its last 16 bytes; equal texts have equal keys."""
    if size >= 16:
        return mum(load_word(at + size - 8) ^ _K0, load_word(at + size - 16) ^ _K1 ^ size)
    return mum(word(at, size) ^ _K0, word(at + 8, size - 8) ^ _K1 ^ size)


@njit(cache=True, nogil=True)
def same(a, b, size):
    """Whether two texts of one size are equal, byte by byte."""
    while size > 64:
        if differences(a, b) != 0:
            return False
        a += 64
        b += 64
        size -= 64
    return size == 0 or differences(a, b) << (64 - size) == 0


@njit(cache=True, nogil=True)
def keys_of(at, sizes, hashes, quicks):
    """Hash and quick key of texts that lie one after the other at an address."""
    for k in range(sizes.size):
        hashes[k] = hash64(at, sizes[k])
        quicks[k] = quick(at, sizes[k])
        at += sizes[k]
