"""Parts are compiled once, for `int` and not for its literals, and become machine code in the kernel that Python calls only."""

import gc
import os
import subprocess
import sys

import numpy as np
import pytest
from numba import types
from numba.core.errors import TypingError
from numba.core.types.functions import BaseFunction

from scmsim import jit
from scmsim.jit import inlined, kernel, outlined, subroutine
from tests.conftest import NO_JIT

pytestmark = pytest.mark.skipif(NO_JIT or not jit.LINKS, reason="parts are not compiled, or as numba does it")


@inlined
def doubled(x):
    return 2 * x


@subroutine
def tripled(x):
    return 3 * x


@outlined
def halved(x):
    return x >> 1


@inlined
def mixed(x):
    return tripled(x) + halved(x)


@subroutine
def add(table, row, x):
    if row < 0:
        raise ValueError("row below 0")
    table[row] += doubled(x)
    return table[row]


@kernel
def one_row(table, x):
    return add(table, 0, x)


@kernel
def two_rows(table, row):
    return one_row(table, 3) + add(table, 1, 4) + add(table, row, 5)


@kernel
def of_two_types(table, x, y):
    table[0] = x + x
    return y + y, x < 3, y < 3


def test_an_operator_has_the_signature_of_each_pair_of_types():
    asked, table = BaseFunction.get_call_type, np.zeros(1, np.int64)
    assert of_two_types(table, 4, 0.25) == (0.5, False, True) and table[0] == 8
    assert of_two_types(table, 0.25, 4) == (8, True, False), "the types of each operand are other ones now"
    assert BaseFunction.get_call_type is asked, "code that is not ours is compiled as ever"


def test_a_mistake_is_told_as_numba_tells_it():
    @kernel
    def adds(table):
        return table + "text"

    for _ in range(2):
        with pytest.raises(TypingError, match="No implementation of function.*add"):
            adds(np.zeros(1, np.int64))
    assert gc.isenabled()


def test_a_kernel_with_parts_gives_what_python_gives():
    table, plain = np.zeros(3, np.int64), np.zeros(3, np.int64)
    assert two_rows(table, 2) == 6 + 8 + 10 and table.tolist() == [6, 8, 10]
    assert one_row(plain, 3) == 6, "a kernel that a kernel calls can be called from Python, too"


def test_a_part_is_compiled_once_for_all_literals_and_has_no_machine_code():
    table = types.Array(types.int64, 1, "C")
    for row in (types.int64, types.literal(0), types.literal(1)):
        add.get_call_template((table, row, types.int64), {})
    (made,) = add.overloads.values()
    assert not made.library.codegen._engine.get_function_address(made.fndesc.mangled_name)


def test_what_an_inlined_part_calls_is_not_inlined_by_that():
    mixed.get_call_template((types.int64,), {})
    found = []
    for part in (mixed, tripled, halved):
        (made,) = part.overloads.values()
        function = made.library._final_module.get_function(made.fndesc.mangled_name)
        found.append({b"alwaysinline", b"noinline"} & set(b" ".join(function.attributes).split()))
    assert found == [{b"alwaysinline"}, set(), {b"noinline"}]


def test_an_error_in_a_part_reaches_python():
    with pytest.raises(ValueError, match="row below 0"):
        two_rows(np.zeros(3, np.int64), -1)


@kernel
def first_after(state):
    """Advance `state[1]` beyond `state[0]` in steps; LLVM makes one division of 128 bits of it."""
    while state[0] >= state[1]:
        state[1] += 5_000_000_000
    return state[1]


def test_a_loop_that_only_counts_runs():
    assert first_after(np.array([10**12, 3])) == 10**12 + 3
    assert first_after(np.array([3, 10**12])) == 10**12


NEWER = """
import numba
numba.version_info = numba.version_info._replace(minor=999)
from scmsim import jit
import tests.jit.test_linking as own
assert not jit.LINKS
own.test_a_kernel_with_parts_gives_what_python_gives()
own.test_an_error_in_a_part_reaches_python()
own.test_a_loop_that_only_counts_runs()
"""


def test_a_numba_that_is_not_known_compiles_in_its_own_way(tmp_path):
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    subprocess.run([sys.executable, "-c", NEWER], check=True, env=environment, timeout=120)
