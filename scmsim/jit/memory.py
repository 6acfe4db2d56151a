"""Store to memory at an address: a record cannot hold an array of variable length, but it can hold its address."""

import ctypes
from typing import Any

import numba
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic


def _plain(address: int, index: int, value: int) -> None:
    ctypes.c_int64.from_address(int(address) + 8 * int(index)).value = int(value)


@intrinsic
def _compiled(typing: Any, address: Any, index: Any, value: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        word = ir.IntType(64)
        at = builder.inttoptr(arguments[0], word.as_pointer())
        builder.store(arguments[2], builder.gep(at, [arguments[1]]))
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), generate


store_at = _plain if numba.config.DISABLE_JIT else _compiled
