"""How a kernel and the parts that it calls are compiled: a part to LLVM code only; the whole in the kernel that Python calls.

numba finishes every function before the one that calls it: it links what the function calls, optimises all of that and makes
machine code.  A part eight calls deep would be optimised eight times more, and none of the machine code between would ever run.
Here a part stays unoptimised, without machine code, and is not kept on disk; a kernel links all parts that it reaches and is then
finished as any function of numba's is.  More than half of the compile time goes: 40 s to 17 s of CPU for a replay on pmfs-4k with
numba 0.68.

LLVM makes no vectors of loops: those of kernels go over few ways or words of records that lie apart, and the gathers that it makes
of them are a third of the MMU's code, a sixth of its compile time and no faster.

numba asks about every `+` and every `[]` anew which of its dozens of implementations the operands' types take.  Here an answer is
kept: a fifth of the compile time goes.
"""

import gc
from collections.abc import Iterator

from llvmlite.binding import Linkage
from numba import _dynfunc, config
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import register_pass
from numba.core.typed_passes import NativeLowering, NopythonTypeInference
from numba.core.types.functions import BaseFunction


class _Library(JITCodeLibrary):
    """LLVM code whose loops stay as they are."""

    def _optimize_final_module(self):
        before, config.LOOP_VECTORIZE = config.LOOP_VECTORIZE, 0
        try:
            super()._optimize_final_module()
        finally:
            config.LOOP_VECTORIZE = before


class _Part(_Library):
    """The LLVM code of one part; what it calls stays beside it."""

    def _optimize_functions(self, ll_module):
        ll_module.data_layout = self._codegen._data_layout

    def finalize(self):
        self._finalized = True

    def get_pointer_to_function(self, name):
        return 0  # as numba says of a function without wrappers for Python


class _OptimizedPart(_Part):
    """A part that is optimised before the kernel is."""

    def finalize(self):
        self._optimize_final_module()
        super().finalize()


class _OutlinedPart(_OptimizedPart):
    """A part that is never compiled into its callers."""

    def add_ir_module(self, ir_module):
        # said here, because llvmlite's own way to say it later does not work before 0.44
        for function in ir_module.functions:
            if not function.is_declaration:
                function.attributes.add("noinline")
        super().add_ir_module(ir_module)


class _Kernel(_Library):
    """A kernel with all that it calls."""

    def finalize(self):
        self._linking_libraries = list(_reached(self))
        super().finalize()

    def _optimize_final_module(self):
        """Optimise it with its parts as its own, so that LLVM may drop arguments that a part does not need, and parts."""
        for function in self._final_module.functions:
            if function.linkage == Linkage.linkonce_odr:
                function.linkage = Linkage.internal
        super()._optimize_final_module()


def _reached(library) -> Iterator[JITCodeLibrary]:
    """Every library that `library` calls, itself or through parts, once."""
    seen, ahead = set(), list(library._linking_libraries)
    while ahead:
        found = ahead.pop()
        if found not in seen:
            seen.add(found)
            yield found
            if isinstance(found, _Part):
                ahead += found._linking_libraries


_find_call_type = BaseFunction.get_call_type
_call_types: dict = {}


def _known_call_type(function, context, args, kws):
    """The signature that a built-in function or operator has for some types."""
    key = context, function, args, tuple(kws.items())
    found = _call_types.get(key)
    if found is None or found.args not in function._impl_keys:
        found = _call_types[key] = _find_call_type(function, context, args, kws)
    return found


@register_pass(mutates_CFG=True, analysis_only=False)
class _TypeInference(NopythonTypeInference):
    _name = "type_inference"

    def run_pass(self, state):
        """Infer types as numba does; its global lock is held."""
        before, BaseFunction.get_call_type = BaseFunction.get_call_type, _known_call_type
        try:
            return super().run_pass(state)
        finally:
            BaseFunction.get_call_type = before


@register_pass(mutates_CFG=True, analysis_only=False)
class _PartLowering(NativeLowering):
    _name = "part_lowering"
    library: type[_Part] = _Part

    def run_pass(self, state):
        """Make the LLVM code and let it be called by other kernels."""
        library = state.library = self.library(state.targetctx.codegen(), state.func_id.func_qualname)
        state.flags.no_compile = True
        super().run_pass(state)
        library.finalize()
        made = state["cr"]
        name = made.fndesc.qualname.split(".")[-1]
        key = _dynfunc.make_function(made.fndesc.lookup_module(), name, "", 0, made.env, (library,))
        state.targetctx.insert_user_function(key, made.fndesc, [library])
        state["cr"] = made._replace(cfunc=key)
        return True


@register_pass(mutates_CFG=True, analysis_only=False)
class _OptimizedPartLowering(_PartLowering):
    _name = "optimized_part_lowering"
    library = _OptimizedPart


@register_pass(mutates_CFG=True, analysis_only=False)
class _OutlinedLowering(_PartLowering):
    _name = "outlined_lowering"
    library = _OutlinedPart


@register_pass(mutates_CFG=True, analysis_only=False)
class _KernelLowering(NativeLowering):
    _name = "kernel_lowering"

    def run_pass(self, state):
        """Lower as numba does, with the parts linked."""
        state.library = _Kernel(state.targetctx.codegen(), state.func_id.func_qualname)
        state.library.enable_object_caching()
        return super().run_pass(state)


class PartCompiler(CompilerBase):
    """For functions that only kernels call."""

    lowering = _PartLowering

    def define_pipelines(self):
        """numba's pipeline with two steps of our own."""
        own = {NopythonTypeInference: _TypeInference, NativeLowering: self.lowering}
        pipeline = DefaultPassBuilder.define_nopython_pipeline(self.state)
        pipeline.passes = [(own.get(step, step), text) for step, text in pipeline.passes]
        pipeline.finalize()
        return [pipeline]


class OptimizedPartCompiler(PartCompiler):
    """For functions that only kernels call, whose loops are best optimised before they are compiled into their callers."""

    lowering = _OptimizedPartLowering


class OutlinedCompiler(PartCompiler):
    """For functions that only kernels call, and that are never compiled into their callers."""

    lowering = _OutlinedLowering


class KernelCompiler(PartCompiler):
    """For functions that Python calls."""

    lowering = _KernelLowering

    def compile_extra(self, func):
        """Compile with garbage left where it is: to look for it in all that a compiler keeps takes a tenth of the time."""
        collects = gc.isenabled()
        gc.disable()
        try:
            return super().compile_extra(func)
        finally:
            if collects:
                gc.enable()
