"""Kernels are bound to the subroutines of several families: by name, however deep, cached on disk and without a compiler."""

import os
import subprocess
import sys
import types

import numpy as np
import pytest

from scmsim import jit
from scmsim.jit import hook, kernel, subroutine
from scmsim.jit.binding import bind, compiled
from tests.conftest import NO_JIT

STEP = 1


@subroutine
def step(x):
    return x + STEP


@subroutine
def twice(x):
    return step(step(x))


@subroutine
def once(x):
    return x


@kernel
def fill(table):
    """The kernel that families share."""
    for i in range(table.size):
        table[i] = twice(i) + once(i)
    return table.size


@subroutine
def by_tens(x):
    return x + 10


OWN = sys.modules[__name__]


def filled(module):
    table = np.zeros(4, np.int64)
    assert module.fill(table) == 4
    return table.tolist()


def test_a_family_replaces_a_subroutine_or_a_constant_however_deep():
    tens = bind("tens", OWN, {OWN: {"step": by_tens}})
    assert filled(tens) == [20, 22, 24, 26]
    assert filled(bind("far", OWN, {OWN: {"STEP": 5}})) == [10, 12, 14, 16]
    assert filled(OWN) == [2, 4, 6, 8], "who is bound does not change"
    assert tens.fill.__doc__ == fill.__doc__


def test_a_replacement_may_call_what_it_replaces_nothing_of():
    assert filled(bind("more", OWN, {OWN: {"once": twice}})) == [4, 6, 8, 10]


def plus(x, y):
    return x + y


def plus_three(x):
    return plus(x, 3)


def test_plain_functions_hold_in_kernels_and_stay_plain():
    plain = types.ModuleType("plain")
    vars(plain).update(
        {
            name: types.FunctionType(one.__code__, vars(plain), name)
            for name, one in vars(OWN).items()
            if name[:4] == "plus"
        }
    )
    rules = compiled(plain)

    @kernel
    def add_to_all(table):
        for i in range(table.size):
            table[i] = rules.plus_three(table[i])

    table = np.arange(3)
    add_to_all(table)
    assert table.tolist() == [3, 4, 5]
    assert (
        plain.plus_three(4) == 7 and jit.decorator_of(plain.plus_three) is None and jit.decorator_of(rules.plus_three)
    )


def test_what_leads_to_no_replaced_name_is_shared():
    from scmsim.fs.engine import table
    from scmsim.fs.pmfs import operations as pmfs_operations

    copy = bind("own", pmfs_operations, {pmfs_operations: {}})
    assert copy is not pmfs_operations and copy.table is table


def test_a_name_that_is_not_there_is_refused():
    with pytest.raises(TypeError, match=r"tens replaces stride, which .*test_binding does not have"):
        bind("tens", OWN, {OWN: {"stride": by_tens}})


@subroutine
def by_stride(x, stride):
    return x + stride


def test_a_function_of_other_arguments_is_refused():
    with pytest.raises(
        TypeError, match=r"tens binds step of .*test_binding to a function of \(x, stride\): it must take \(x\)"
    ):
        bind("tens", OWN, {OWN: {"step": by_stride}})


def test_a_hook_that_no_family_binds_is_named(monkeypatch):
    @hook
    def step(x):
        """Return the next step."""

    other = other_module(monkeypatch, step=step, STEP=1)
    with pytest.raises(TypeError, match=r"tens does not bind step of tests\.jit\.other: Return the next step\."):
        bind("tens", other, {other: {"STEP": 10}})
    assert bind("tens", other, {other: {"step": by_tens}}).step is by_tens


def other_module(monkeypatch, **names):
    """A module with these names and a subroutine of its own, `more`, that calls `step`."""
    module = types.ModuleType("tests.jit.other", "Another module of kernels.")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    vars(module).update(subroutine=subroutine, **names)
    exec("def more(x):\n    return step(x) + 100\nmore = subroutine(more)", vars(module))
    return module


def test_a_replaced_name_that_another_module_imported_is_refused(monkeypatch):
    other = other_module(monkeypatch, step=step)
    with pytest.raises(TypeError) as told:
        bind("tens", OWN, {OWN: {"step": by_tens, "once": other.more}})
    assert str(told.value) == (
        "tens replaces step of tests.jit.test_binding, which tests.jit.other imports by its name: "
        "call it there by its module"
    )


def test_a_module_that_replaces_a_name_itself_may_import_it(monkeypatch):
    """As an override calls what it overrides."""
    other = other_module(monkeypatch, step=step)
    assert filled(bind("super", OWN, {OWN: {"step": other.more}})) == [202, 204, 206, 208]
    both = bind("both", OWN, {OWN: {"step": by_tens, "once": other.more}, other: {"step": by_tens}})
    assert filled(both) == [130, 132, 134, 136]


PROGRAM = """
import sys
import types
import numba
if sys.argv[1:] == ["other"]:
    numba.version_info = numba.version_info._replace(minor=999)
from scmsim.jit.binding import bind, compiled
from tests.jit import test_binding as own
bound = bind("tens", own, {own: {"step": own.by_tens}})
assert own.filled(bound) == [20, 22, 24, 26] and own.filled(own) == [2, 4, 6, 8]
print(sum(bound.fill.stats.cache_hits.values()) if hasattr(bound.fill, "stats") else "plain")
"""


def run(*args, **environment):
    given = {**os.environ, **environment}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *args], env=given, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.skipif(NO_JIT, reason="nothing is compiled")
@pytest.mark.parametrize("numba", ["own", "other"])
def test_a_second_process_finds_the_copy_in_the_cache(tmp_path, numba):
    """Also with a numba that compiles in its own way."""
    assert [run(numba, NUMBA_CACHE_DIR=str(tmp_path)) for _ in range(2)] == ["0", "1"]


def test_without_a_compiler_it_is_plain_python():
    assert run(NUMBA_DISABLE_JIT="1") == "plain"


def test_functions_know_their_decorator():
    assert jit.decorator_of(fill) and jit.decorator_of(step) and not jit.decorator_of(np.zeros)


def test_a_copy_can_be_bound_again():
    tens = bind("tens", OWN, {OWN: {"step": by_tens}})
    far = bind("far_tens", tens, {tens: {"once": by_tens}})
    assert filled(far) == [30, 32, 34, 36]
    assert filled(tens) == [20, 22, 24, 26]


def test_a_package_may_grow_while_it_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """As when file systems are loaded on several threads: an import adds a name to a package's module."""
    from scmsim.jit import binding

    package = types.ModuleType("package")
    package.first = package.second = None

    def growing(value):
        setattr(package, f"imported_{len(vars(package))}", None)

    monkeypatch.setattr(binding, "decorator_of", growing)
    assert binding._module_of(package) is None and len(vars(package)) > 7
