"""Machine words for the byte kernels: unaligned loads and stores, wide products, vector masks.

Addresses are plain int64, so a kernel does not care whether its bytes come from `bytes`, an `mmap` or an
array, writable or not. The one rule that all callers keep: **64 bytes beyond the end of a text are readable**
(`SLACK`). Words are int64 everywhere: LLVM has no signedness, and mixing signed and unsigned makes floats in
Numba.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import llvmlite.ir as ir
import numpy as np
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from thalweg.kernels.checking import guard, njit

SLACK = 64
"""Bytes beyond the end of any text that a kernel may touch."""

_BYTE = ir.IntType(8)
_HALF = ir.IntType(32)
_WORD = ir.IntType(64)
_WIDE = ir.IntType(128)
_BLOCK = ir.VectorType(_BYTE, 64)
_FLAGS = ir.VectorType(ir.IntType(1), 64)
_INT = types.int64

Emit = Callable[..., Any]


@njit(cache=True, nogil=True)
def address(array):
    """Where an array's bytes begin, as the kind of integer that all words here have."""
    return np.int64(array.ctypes.data)


def _word_function(
    arity: int, emit: Emit, *, void: bool = False, touched: tuple[int, ...] = ()
) -> tuple[Any, Emit]:
    """Signature and code of an intrinsic that takes `arity` words.

    The first of them are addresses; `touched` is how many bytes it loads or stores at each.
    """

    def codegen(context: Any, builder: Any, signature: Any, args: Sequence[Any]) -> Any:
        for place, size in zip(args, touched, strict=False):
            guard(context, builder, place, place, size)
        value = emit(builder, *args)
        return context.get_dummy_value() if void else value

    return (types.void if void else _INT)(*[_INT] * arity), codegen


def _at(builder: Any, address: Any, kind: Any) -> Any:
    return builder.inttoptr(address, kind.as_pointer())


def _load(kind: Any) -> Emit:
    def emit(builder: Any, address: Any) -> Any:
        value = builder.load(_at(builder, address, kind), align=1)
        return value if kind is _WORD else builder.zext(value, _WORD)

    return emit


def _store(kind: Any) -> Emit:
    def emit(builder: Any, address: Any, value: Any) -> Any:
        narrow = value if kind is _WORD else builder.trunc(value, kind)
        builder.store(narrow, _at(builder, address, kind), align=1)

    return emit


@intrinsic
def load8(typingctx, address):
    """The byte at an address, 0 - 255."""
    return _word_function(1, _load(_BYTE), touched=(1,))


@intrinsic
def load_half(typingctx, address):
    """The four bytes at an address, little end first, not negative."""
    return _word_function(1, _load(_HALF), touched=(4,))


@intrinsic
def load_word(typingctx, address):
    """The eight bytes at an address, little end first."""
    return _word_function(1, _load(_WORD), touched=(8,))


@intrinsic
def store8(typingctx, address, value):
    """Write the low byte of a word."""
    return _void(_store(_BYTE), 1)


@intrinsic
def store_half(typingctx, address, value):
    """Write the low four bytes of a word."""
    return _void(_store(_HALF), 4)


@intrinsic
def store_word(typingctx, address, value):
    """Write a word."""
    return _void(_store(_WORD), 8)


def _void(emit: Emit, *touched: int) -> tuple[Any, Emit]:
    return _word_function(2, emit, void=True, touched=touched)


@intrinsic
def ctz(typingctx, word):
    """Number of zero bits below the lowest set bit (64 for zero)."""
    return _word_function(1, lambda builder, word: builder.cttz(word, ir.Constant(ir.IntType(1), 0)))


@intrinsic
def lshr(typingctx, word, count):
    """Shift right, zeros enter at the top; count 0 - 63."""
    return _word_function(2, lambda builder, word, count: builder.lshr(word, count))


@intrinsic
def below(typingctx, a, b):
    """1 if a < b as unsigned words, else 0."""
    return _word_function(2, lambda builder, a, b: builder.zext(builder.icmp_unsigned("<", a, b), _WORD))


@intrinsic
def mum(typingctx, a, b):
    """High and low half of the 128-bit product, folded by xor: the mixing step of wyhash."""

    def emit(builder: Any, a: Any, b: Any) -> Any:
        product = builder.mul(builder.zext(a, _WIDE), builder.zext(b, _WIDE))
        high = builder.trunc(builder.lshr(product, ir.Constant(_WIDE, 64)), _WORD)
        return builder.xor(builder.trunc(product, _WORD), high)

    return _word_function(2, emit)


def _splat(value: int) -> Any:
    return ir.Constant(_BLOCK, [value] * 64)


def _mask(emit: Emit) -> Emit:
    """Code that loads the 64 bytes at an address and gives one bit for each, by `emit`."""

    def whole(builder: Any, address: Any) -> Any:
        block = builder.load(_at(builder, address, _BLOCK), align=1)
        return builder.bitcast(emit(builder, block), _WORD)

    return whole


def _any(builder: Any, first: Any, *others: Any) -> Any:
    for other in others:
        first = builder.or_(first, other)
    return first


def _iri_stops(builder: Any, block: Any) -> Any:
    # A superset of what IRIREF forbids, in five comparisons. Signed "< 0x23" takes controls, space, '"' and
    # every byte >= 0x80 (and '!'); "| 2" joins '<' with '>' and '\' with '^'; "> 0x7a" takes '{' '|' '}' (and
    # '~', DEL).
    paired = builder.or_(block, _splat(2))
    return _any(
        builder,
        builder.icmp_signed("<", block, _splat(0x23)),
        builder.icmp_signed("==", paired, _splat(0x3E)),
        builder.icmp_signed("==", paired, _splat(0x5E)),
        builder.icmp_signed("==", block, _splat(0x60)),
        builder.icmp_signed(">", block, _splat(0x7A)),
    )


def _string_stops(builder: Any, block: Any) -> Any:
    return _any(
        builder,
        builder.icmp_signed("<", block, _splat(0x20)),
        builder.icmp_signed("==", block, _splat(0x22)),
        builder.icmp_signed("==", block, _splat(0x5C)),
        builder.icmp_signed("==", block, _splat(0x7F)),
    )


def _line_ends(builder: Any, block: Any) -> Any:
    return _any(
        builder,
        builder.icmp_signed("==", block, _splat(0x0A)),
        builder.icmp_signed("==", block, _splat(0x0D)),
    )


@intrinsic
def iri_stops(typingctx, address):
    """Bits of the 64 bytes that may not be inside an IRI: what IRIREF forbids, `! ~ DEL`, bytes >= 0x80."""
    return _word_function(1, _mask(_iri_stops), touched=(64,))


@intrinsic
def string_stops(typingctx, address):
    r"""Bits of the 64 bytes that end or interrupt a plain literal: `"`, `\`, controls, DEL, bytes >= 0x80."""
    return _word_function(1, _mask(_string_stops), touched=(64,))


@intrinsic
def line_ends(typingctx, address):
    """Bits of the 64 bytes that are CR or LF."""
    return _word_function(1, _mask(_line_ends), touched=(64,))


@intrinsic
def differences(typingctx, a, b):
    """Bits of the 64 bytes at two addresses that differ."""

    def emit(builder: Any, a: Any, b: Any) -> Any:
        left = builder.load(_at(builder, a, _BLOCK), align=1)
        right = builder.load(_at(builder, b, _BLOCK), align=1)
        return builder.bitcast(builder.icmp_signed("!=", left, right), _WORD)

    return _word_function(2, emit, touched=(64, 64))


@intrinsic
def copy64(typingctx, target, source):
    """Copy 64 bytes from one address to another."""

    def emit(builder: Any, target: Any, source: Any) -> Any:
        block = builder.load(_at(builder, source, _BLOCK), align=1)
        builder.store(block, _at(builder, target, _BLOCK), align=1)

    return _void(emit, 64, 64)


@intrinsic
def prefetch(typingctx, address):
    """Prefetch the cache line at an address; the address need not be readable."""

    def codegen(context: Any, builder: Any, signature: Any, args: Sequence[Any]) -> Any:
        pointer = _BYTE.as_pointer()
        small = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [pointer, small, small, small])
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        # For reading, to be kept, data.
        builder.call(function, [builder.inttoptr(args[0], pointer), *(small(k) for k in (0, 3, 1))])
        return context.get_dummy_value()

    return types.void(_INT), codegen
