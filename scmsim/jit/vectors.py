"""Operations on rows as one vector: rows of tags (a set of a TLB or another cache consists of rows), of bits, of counts.

numba has no vector types, so these few operations are written as LLVM code directly; LLVM turns them into the CPU's vector
instructions (AVX-512: six instructions; AVX2, NEON: a few more).  A row of tags is in order of use, the most recent first.
Measured on a 2 GHz core, with sets chosen at random: 4 cycles per operation (16 tags of 32 bits or 8 of 64), 6 cycles for 16 tags
of 64 bits; the same loops written in Python, which LLVM does not vectorise: 10 to 25 cycles.  With compilation switched off, the
plain functions below do the same.

Every function takes an array whose rows begin at multiples of the row's length, and the index of a row's first lane.
"""

from collections.abc import Callable
from typing import Any

import numba
import numpy as np
from llvmlite import ir
from llvmlite.ir.instructions import StoreInstr
from numba.core import cgutils, types
from numba.extending import intrinsic

_I32 = ir.IntType(32)
_I64 = ir.IntType(64)


def _indices(lanes: int, *values: int) -> ir.Constant:
    return ir.Constant(ir.VectorType(_I32, lanes), list(values))


class _WholeStore(StoreInstr):
    """A store that LLVM keeps whole (volatile): a load soon after could not be forwarded from a masked store."""

    def descr(self, buf: list[str]) -> None:
        text: list[str] = []
        super().descr(text)
        buf.append(text[0].replace("store", "store volatile", 1))


class _Vector:
    """The row at array[index]."""

    def __init__(self, lanes: int, bits: int, context: Any, builder: Any, array: Any, value: Any, index: Any):
        self.lane, self.lanes, self.builder = ir.IntType(bits), lanes, builder
        self.vector, self.align = ir.VectorType(self.lane, lanes), bits // 8
        start = builder.gep(context.make_array(array)(context, builder, value).data, [index])
        self.at = builder.bitcast(start, self.vector.as_pointer())
        self.tags = builder.load(self.at)
        self.tags.align = self.align

    def filled(self, value: Any) -> Any:
        """Return a vector with the value in every lane."""
        undefined = ir.Constant(self.vector, ir.Undefined)
        value = self.builder.trunc(value, self.lane) if self.lane.width < 64 else value
        first = self.builder.insert_element(undefined, value, ir.Constant(_I32, 0))
        return self.builder.shuffle_vector(first, undefined, _indices(self.lanes, *[0] * self.lanes))

    def constant(self, *values: int) -> ir.Constant:
        """Return a vector of constants; a single value fills all lanes."""
        return ir.Constant(self.vector, list(values) if len(values) > 1 else list(values) * self.lanes)

    def total(self, vector: Any) -> Any:
        """Return the sum of the lanes, 64 bits."""
        found = self.call("llvm.vector.reduce.add", self.lane, vector)
        return self.builder.zext(found, _I64) if self.lane.width < 64 else found

    def call(self, intrinsic_name: str, result: ir.Type, vector: Any) -> Any:
        """Call an LLVM intrinsic on a vector."""
        name = f"{intrinsic_name}.v{self.lanes}i{self.lane.width}"
        kind = ir.FunctionType(result, [self.vector])
        return self.builder.call(cgutils.get_or_insert_function(self.builder.module, kind, name), [vector])

    def store(self, vector: Any) -> None:
        """Store the whole row."""
        store = self.builder.store(vector, self.at)
        store.__class__, store.align = _WholeStore, self.align


class _Row(_Vector):
    """A row of tags, and the mask `found` of the lanes that hold the tag that is looked up."""

    def __init__(self, lanes: int, bits: int, context: Any, builder: Any, array: Any, value: Any, index: Any, tag: Any):
        super().__init__(lanes, bits, context, builder, array, value, index)
        self.tag = self.filled(tag)
        same = builder.icmp_signed("==", self.tags, self.tag)
        self.found = builder.zext(builder.bitcast(same, ir.IntType(lanes)), _I64)

    def put_first(self, first: Any, last: Any) -> None:
        """Shift the lanes before the tag's lane (at most those before `last`) by one, and put `first` into lane 0."""
        builder, one = self.builder, ir.Constant(_I64, 1)
        stop = builder.or_(self.found, builder.shl(one, last))
        upto = builder.xor(stop, builder.sub(stop, one))  # all bits up to the lowest set bit
        changed = builder.bitcast(builder.trunc(upto, ir.IntType(self.lanes)), ir.VectorType(ir.IntType(1), self.lanes))
        shifted = builder.shuffle_vector(
            first, self.tags, _indices(self.lanes, 0, *range(self.lanes, 2 * self.lanes - 1))
        )
        self.store(builder.select(changed, shifted, self.tags))


class _Marked(_Row):
    """Row of tags of 64 bits whose lowest bit is a mark, which does not count when tags are compared."""

    def __init__(self, lanes: int, context: Any, builder: Any, array: Any, value: Any, index: Any, tag: Any):
        super().__init__(lanes, 64, context, builder, array, value, index, builder.or_(tag, ir.Constant(_I64, 1)))
        self.start = builder.gep(context.make_array(array)(context, builder, value).data, [index])
        same = builder.icmp_signed("==", builder.or_(self.tags, self.constant(1)), self.tag)
        self.found = builder.zext(builder.bitcast(same, ir.IntType(lanes)), _I64)

    def lane_at(self, lane: Any) -> Any:
        """Return the tag in a lane."""
        return self.builder.load(self.builder.gep(self.start, [lane]))


def _touch(lanes: int, bits: int) -> Callable:
    @intrinsic
    def touch(typing: Any, array: Any, index: Any, tag: Any, last: Any) -> Any:
        def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            row = _Row(lanes, bits, context, builder, signature.args[0], *args[:3])
            row.put_first(row.tag, args[3])
            return row.found

        return types.int64(array, types.int64, types.int64, types.int64), code

    return touch


def _pass_on(lanes: int, bits: int) -> Callable:
    @intrinsic
    def pass_on(typing: Any, array: Any, index: Any, tag: Any, last: Any, first: Any) -> Any:
        def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            row = _Row(lanes, bits, context, builder, signature.args[0], *args[:3])
            row.put_first(row.filled(args[4]), args[3])
            return row.found

        return types.int64(array, types.int64, types.int64, types.int64, types.int64), code

    return pass_on


def _enter_marked(lanes: int) -> Callable:
    @intrinsic
    def enter_marked(typing: Any, array: Any, index: Any, tag: Any, last: Any) -> Any:
        def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            row, one = _Marked(lanes, context, builder, signature.args[0], *args[:3]), ir.Constant(_I64, 1)
            stop = builder.or_(row.found, builder.shl(one, args[3]))
            lane = builder.cttz(stop, ir.Constant(ir.IntType(1), 0))
            old = row.lane_at(lane)
            missed = builder.icmp_signed("==", row.found, ir.Constant(_I64, 0))
            kept = builder.select(missed, ir.Constant(_I64, 0), builder.and_(old, one))
            row.put_first(row.filled(builder.or_(args[2], kept)), args[3])
            return builder.select(missed, old, ir.Constant(_I64, -1))

        return types.int64(array, types.int64, types.int64, types.int64), code

    return enter_marked


def _find_marked(lanes: int) -> Callable:
    @intrinsic
    def find_marked(typing: Any, array: Any, index: Any, tag: Any) -> Any:
        def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            found = _Marked(lanes, context, builder, signature.args[0], *args).found
            lane = builder.cttz(found, ir.Constant(ir.IntType(1), 0))
            nothing = builder.icmp_signed("==", found, ir.Constant(_I64, 0))
            return builder.select(nothing, ir.Constant(_I64, -1), lane)

        return types.int64(array, types.int64, types.int64), code

    return find_marked


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


def _same(lanes: int, bits: int) -> Callable:
    @intrinsic
    def same(typing: Any, array: Any, index: Any, other: Any, at: Any) -> Any:
        def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            kinds = signature.args
            rows = [_Vector(lanes, bits, context, builder, kinds[k], args[k], args[k + 1]).tags for k in (0, 2)]
            return builder.zext(builder.bitcast(builder.icmp_signed("==", *rows), ir.IntType(lanes)), _I64)

        return types.int64(array, types.int64, other, types.int64), code

    return same


def _copy(lanes: int, bits: int) -> Callable:
    @intrinsic
    def copy(typing: Any, array: Any, index: Any, other: Any, at: Any) -> Any:
        def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            kinds = signature.args
            to, of = (_Vector(lanes, bits, context, builder, kinds[k], args[k], args[k + 1]) for k in (0, 2))
            to.store(of.tags)
            return context.get_dummy_value()

        return types.none(array, types.int64, other, types.int64), code

    return copy


@intrinsic
def _fetch_ahead(typing: Any, array: Any, index: Any) -> Any:
    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        start = builder.gep(context.make_array(signature.args[0])(context, builder, args[0]).data, [args[1]])
        byte = builder.bitcast(start, ir.IntType(8).as_pointer())
        kind = ir.FunctionType(ir.VoidType(), [byte.type, _I32, _I32, _I32])
        call = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        builder.call(call, [byte, *(ir.Constant(_I32, value) for value in (1, 3, 1))])  # for a write, keep, data
        return context.get_dummy_value()

    return types.none(array, types.int64), code


@intrinsic
def _take_bit(typing: Any, array: Any, index: Any, bit: Any) -> Any:
    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        row = _Vector(8, 64, context, builder, signature.args[0], *args[:2])
        # position of the bit, relative to each lane's first bit
        at = builder.sub(row.filled(args[2]), row.constant(*range(0, 512, 64)))
        inside = builder.icmp_unsigned("<", at, row.constant(64))
        shift = builder.and_(at, row.constant(63))
        own = builder.select(inside, builder.shl(row.constant(1), shift), row.constant(0))
        later = builder.select(builder.icmp_signed("<", at, row.constant(0)), row.constant(-1), row.constant(0))
        after = builder.select(inside, builder.shl(row.constant(-2), shift), later)
        ones = row.total(row.call("llvm.ctpop", row.vector, builder.and_(row.tags, after)))
        row.store(builder.and_(row.tags, builder.not_(own)))
        return ones

    return types.int64(array, types.int64, types.int64), code


@intrinsic
def _take_one(typing: Any, array: Any, index: Any, lane: Any) -> Any:
    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        row = _Vector(16, 32, context, builder, signature.args[0], *args[:2])
        numbers, wanted = row.constant(*range(16)), row.filled(args[2])
        after = builder.select(builder.icmp_signed(">", numbers, wanted), row.tags, row.constant(0))
        own = builder.zext(builder.icmp_signed("==", numbers, wanted), row.vector)
        row.store(builder.sub(row.tags, own))
        return row.total(after)

    return types.int64(array, types.int64, types.int64), code


def _plain_touch(lanes: int) -> Callable:
    def touch(array: Any, index: int, tag: int, last: int) -> int:
        return pass_on(array, index, tag, last, tag)

    pass_on = _plain_pass_on(lanes)
    return touch


def _plain_pass_on(lanes: int) -> Callable:
    def pass_on(array: Any, index: int, tag: int, last: int, first: int) -> int:
        tag = np.int64(tag).astype(array.dtype)  # truncated to the width of a tag, as in the vector
        found = sum(1 << lane for lane in range(lanes) if array[index + lane] == tag)
        stop = (found & -found).bit_length() - 1 if found & ((2 << int(last)) - 1) else int(last)
        array[index + 1 : index + stop + 1] = array[index : index + stop].copy()
        array[index] = np.int64(first).astype(array.dtype)
        return found

    return pass_on


def _plain_find(lanes: int) -> Callable:
    def find(array: Any, index: int, tag: int) -> int:
        return next((lane for lane in range(lanes) if array[index + lane] == tag), -1)

    return find


def _plain_enter_marked(lanes: int) -> Callable:
    def enter_marked(array: Any, index: int, tag: int, last: int) -> int:
        lane = find(array, index, tag)
        stop = lane if lane >= 0 else int(last)
        old = int(array[index + stop])
        array[index + 1 : index + stop + 1] = array[index : index + stop].copy()
        array[index] = tag | (old & 1 if lane >= 0 else 0)
        return -1 if lane >= 0 else old

    find = _plain_find_marked(lanes)
    return enter_marked


def _plain_find_marked(lanes: int) -> Callable:
    def find_marked(array: Any, index: int, tag: int) -> int:
        return next((lane for lane in range(lanes) if array[index + lane] | 1 == tag | 1), -1)

    return find_marked


def _plain_same(array: Any, index: int, other: Any, at: int) -> int:
    return sum(1 << lane for lane in range(8) if array[index + lane] == other[at + lane])


def _plain_copy(array: Any, index: int, other: Any, at: int) -> None:
    array[index : index + 8] = other[at : at + 8]


def _plain_fetch_ahead(array: Any, index: int) -> None:
    """Do nothing."""


def _plain_take_bit(array: Any, index: int, bit: int) -> int:
    word, place = index + (int(bit) >> 6), int(bit) & 63
    own, later = int(array[word]) & (1 << 64) - 1, [int(array[k]) & (1 << 64) - 1 for k in range(word + 1, index + 8)]
    array[word] = np.array(own & ~(1 << place), np.uint64).astype(np.int64)
    return (own >> place + 1).bit_count() + sum(value.bit_count() for value in later)


def _plain_take_one(array: Any, index: int, lane: int) -> int:
    array[index + lane] -= 1
    return int(array[index + lane + 1 : index + 16].sum())


_PLAIN = bool(numba.config.DISABLE_JIT)

# touch(array, index, tag, last): move `tag` to the front of its row; the tags before its lane move by one.  If no lane holds the
# tag, the tags before lane `last` move.  Returns a mask of the lanes that held the tag (0: the tag in lane `last` was evicted).
touch8 = _plain_touch(8) if _PLAIN else _touch(8, 64)  # 8 tags of 64 bits
touch16 = _plain_touch(16) if _PLAIN else _touch(16, 64)
touch16_short = _plain_touch(16) if _PLAIN else _touch(16, 32)  # 16 tags of 32 bits

# pass_on(array, index, tag, last, first): the same for a later row of a set with several rows: `first`, the last tag of the
# previous row, moves to the front.
pass_on16 = _plain_pass_on(16) if _PLAIN else _pass_on(16, 64)

# find(array, index, tag): return the first lane that holds the tag, or -1; does not change the row.
find8 = _plain_find(8) if _PLAIN else _find(8, 64)
find16 = _plain_find(16) if _PLAIN else _find(16, 64)

# The lowest bit of a marked tag is a mark, which does not count when tags are compared.
# enter_marked(array, index, tag, last): move `tag` to the front of its row as `touch` does; it is marked if `tag` is marked, or if
# the row held it with a mark.  Returns -1 if a lane held the tag, else the tag in lane `last`, which was evicted.
enter_marked8 = _plain_enter_marked(8) if _PLAIN else _enter_marked(8)
enter_marked16 = _plain_enter_marked(16) if _PLAIN else _enter_marked(16)

# find_marked(array, index, tag): return the first lane that holds the tag, with or without its mark, or -1.
find_marked8 = _plain_find_marked(8) if _PLAIN else _find_marked(8)
find_marked16 = _plain_find_marked(16) if _PLAIN else _find_marked(16)

# same(array, index, other, at): return a mask of the lanes in which two rows are equal.
same8 = _plain_same if _PLAIN else _same(8, 64)
same8_bytes = _plain_same if _PLAIN else _same(8, 8)

# copy(array, index, other, at): overwrite the row of `array` with the row of `other`.
copy8 = _plain_copy if _PLAIN else _copy(8, 64)
copy8_bytes = _plain_copy if _PLAIN else _copy(8, 8)

# fetch_ahead(array, index): make the CPU fetch the cache line of an element that will be changed soon.
fetch_ahead = _plain_fetch_ahead if _PLAIN else _fetch_ahead

# take_bit(array, index, bit): clear a bit of a row of 512 bits (8 words of 64); return how many of the higher bits are set.
take_bit = _plain_take_bit if _PLAIN else _take_bit

# take_one(array, index, lane): decrement a lane of a row of 16 counts of 32 bits; return the sum of the lanes after it.
take_one = _plain_take_one if _PLAIN else _take_one
