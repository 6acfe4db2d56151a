"""Rows of 8 or 16 tags, searched and shifted as one vector: what a TLB set, or a set of any cache, is made of.

A row keeps its tags in order of use, the most recent first.  The kernels' language has no vectors, so these few operations
are given to LLVM directly; it turns them into whatever the CPU has (AVX-512: six instructions; AVX2, NEON: a few more).
Measured on a 2 GHz core, sets chosen at random: 4 cycles an operation (16 tags of 32 bits or 8 of 64), 6 for 16 of 64 bits;
the same loops written in Python, which LLVM does not turn into vectors: 10 to 25.  With compilation switched off the plain
functions below do the same.

Every function takes an array whose rows begin at multiples of the row's length, the index of a row's first tag, and a tag.
"""

from collections.abc import Callable
from typing import Any

import numba
import numpy as np
from llvmlite import ir
from llvmlite.ir.instructions import StoreInstr
from numba.core import types
from numba.extending import intrinsic

_I32 = ir.IntType(32)
_I64 = ir.IntType(64)


def _indices(lanes: int, *values: int) -> ir.Constant:
    return ir.Constant(ir.VectorType(_I32, lanes), list(values))


class _WholeStore(StoreInstr):
    """A store that stays one (volatile): LLVM would rather mask it, and a load soon after cannot be served from that."""

    def descr(self, buf: list[str]) -> None:
        text: list[str] = []
        super().descr(text)
        buf.append(text[0].replace("store", "store volatile", 1))


class _Row:
    """The row at array[index], and which of its lanes hold the tag."""

    def __init__(self, lanes: int, bits: int, context: Any, builder: Any, array: Any, value: Any, index: Any, tag: Any):
        self.lane, self.lanes, self.builder = ir.IntType(bits), lanes, builder
        self.vector, self.align = ir.VectorType(self.lane, lanes), bits // 8
        start = builder.gep(context.make_array(array)(context, builder, value).data, [index])
        self.at = builder.bitcast(start, self.vector.as_pointer())
        self.tags = builder.load(self.at)
        self.tags.align = self.align
        undefined = ir.Constant(self.vector, ir.Undefined)
        tag = builder.trunc(tag, self.lane) if bits < 64 else tag
        first = builder.insert_element(undefined, tag, ir.Constant(_I32, 0))
        self.tag = builder.shuffle_vector(first, undefined, _indices(lanes, *[0] * lanes))
        same = builder.icmp_signed("==", self.tags, self.tag)
        self.found = builder.zext(builder.bitcast(same, ir.IntType(lanes)), _I64)

    def put_first(self, last: Any) -> None:
        """Shift the lanes before the one that holds the tag (or before lane `last`) by one; the tag becomes the first."""
        builder, one = self.builder, ir.Constant(_I64, 1)
        stop = builder.or_(self.found, builder.shl(one, last))
        upto = builder.xor(stop, builder.sub(stop, one))  # all bits up to the lowest one
        changed = builder.bitcast(builder.trunc(upto, ir.IntType(self.lanes)), ir.VectorType(ir.IntType(1), self.lanes))
        shifted = builder.shuffle_vector(
            self.tag, self.tags, _indices(self.lanes, 0, *range(self.lanes, 2 * self.lanes - 1))
        )
        store = builder.store(builder.select(changed, shifted, self.tags), self.at)
        store.__class__, store.align = _WholeStore, self.align


def _touch(lanes: int, bits: int) -> Callable:
    @intrinsic
    def touch(typing: Any, array: Any, index: Any, tag: Any, last: Any) -> Any:
        def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            row = _Row(lanes, bits, context, builder, signature.args[0], *args[:3])
            row.put_first(args[3])
            return row.found

        return types.int64(array, types.int64, types.int64, types.int64), code

    return touch


def _find(lanes: int, bits: int) -> Callable:
    @intrinsic
    def find(typing: Any, array: Any, index: Any, tag: Any) -> Any:
        def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            found = _Row(lanes, bits, context, builder, signature.args[0], *args).found
            lane = builder.cttz(found, ir.Constant(ir.IntType(1), 0))
            nothing = builder.icmp_signed("==", found, ir.Constant(_I64, 0))
            return builder.select(nothing, ir.Constant(_I64, -1), lane)

        return types.int64(array, types.int64, types.int64), code

    return find


def _plain_touch(lanes: int) -> Callable:
    def touch(array: Any, index: int, tag: int, last: int) -> int:
        tag = np.int64(tag).astype(array.dtype)  # cut to the length of a tag, as the vector does
        found = sum(1 << lane for lane in range(lanes) if array[index + lane] == tag)
        stop = (found & -found).bit_length() - 1 if found & ((2 << int(last)) - 1) else int(last)
        array[index + 1 : index + stop + 1] = array[index : index + stop].copy()
        array[index] = tag
        return found

    return touch


def _plain_find(lanes: int) -> Callable:
    def find(array: Any, index: int, tag: int) -> int:
        return next((lane for lane in range(lanes) if array[index + lane] == tag), -1)

    return find


_PLAIN = bool(numba.config.DISABLE_JIT)

# touch(array, index, tag, last): make `tag` the first of its row, the others up to where it was, or else up to lane `last`,
# move by one.  Returns a mask of the lanes that held it (0: it was not there and the tag in lane `last` is gone).
touch8 = _plain_touch(8) if _PLAIN else _touch(8, 64)  # 8 tags of 64 bits
touch16 = _plain_touch(16) if _PLAIN else _touch(16, 64)
touch16_short = _plain_touch(16) if _PLAIN else _touch(16, 32)  # 16 tags of 32 bits

# find(array, index, tag): the first lane that holds the tag, or -1; nothing changes.
find8 = _plain_find(8) if _PLAIN else _find(8, 64)
find16 = _plain_find(16) if _PLAIN else _find(16, 64)
