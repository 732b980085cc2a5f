"""Loads and stores at raw addresses: how one kernel reaches the arrays of many window stores.

Numba has no cheap collection of arrays of differing lengths. A store therefore describes its arrays by
address in a row of integers, and its owner keeps them alive for as long as a kernel runs.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from thalweg.kernels.checking import CHECKED, guard

_I32 = ir.IntType(32)
_I64 = ir.IntType(64)


def _cell(builder: Any, address: Any, index: Any, kind: ir.Type) -> Any:
    return builder.gep(builder.inttoptr(address, kind.as_pointer()), [index], inbounds=True)


def _checked_cell(context: Any, builder: Any, address: Any, index: Any, kind: ir.Type) -> Any:
    """A cell that is loaded or stored: the checked build looks up whether it is in the array at `address`."""
    if CHECKED:
        size = kind.width // 8
        guard(context, builder, address, builder.add(address, builder.mul(index, _I64(size))), size)
    return _cell(builder, address, index, kind)


@intrinsic
def load64(typingctx: Any, address: Any, index: Any) -> Any:
    """The int64 at `address + 8 * index`."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.load(_checked_cell(context, builder, args[0], args[1], _I64))

    return types.int64(types.int64, types.int64), codegen


@intrinsic
def store64(typingctx: Any, address: Any, index: Any, value: Any) -> Any:
    """Writes the int64 at `address + 8 * index`."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        builder.store(args[2], _checked_cell(context, builder, args[0], args[1], _I64))
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), codegen


@intrinsic
def load32(typingctx: Any, address: Any, index: Any) -> Any:
    """The uint32 at `address + 4 * index`, as an int64."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.zext(builder.load(_checked_cell(context, builder, args[0], args[1], _I32)), _I64)

    return types.int64(types.int64, types.int64), codegen


@intrinsic
def store32(typingctx: Any, address: Any, index: Any, value: Any) -> Any:
    """Writes the low 32 bits of `value` at `address + 4 * index`."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        builder.store(builder.trunc(args[2], _I32), _checked_cell(context, builder, args[0], args[1], _I32))
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), codegen


@intrinsic
def prefetch64(typingctx: Any, address: Any, index: Any) -> Any:
    """Prefetches the cache line of the int64 at `address + 8 * index` ahead of its use."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        cell = builder.bitcast(_cell(builder, args[0], args[1], _I64), ir.IntType(8).as_pointer())
        kind = ir.FunctionType(ir.VoidType(), [cell.type, _I32, _I32, _I32])
        function = builder.module.declare_intrinsic("llvm.prefetch", [cell.type], kind)
        builder.call(function, [cell, _I32(1), _I32(3), _I32(1)])
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), codegen
