"""Compile parts to LLVM code only; generate machine code only once, for the whole kernel that Python calls.

numba finishes every function before its caller: it links the callees, optimises all of the code and generates machine
code.  A part eight calls deep would be optimised eight more times, and the machine code of the levels between would
never run.  Here a part stays unoptimised, without machine code, and is not kept on disk; a kernel links all parts that
it reaches and is then finished like any function of numba.  This saves more than half of the compile time: 40 s of CPU
become 17 s for a replay on pmfs-4k with numba 0.68.

LLVM's loop vectoriser is off: loops in kernels run over few ways, or over scattered fields of records.  The gathers
generated for them are a third of the MMU's code and a sixth of its compile time, and no faster.

For every `+` and every `[]`, numba searches dozens of implementations for the one that fits the operands' types.  Here each
answer is cached: this saves a fifth of the compile time.
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
    """LLVM code whose loops are not vectorised."""

    def _optimize_final_module(self):
        before, config.LOOP_VECTORIZE = config.LOOP_VECTORIZE, 0
        try:
            super()._optimize_final_module()
        finally:
            config.LOOP_VECTORIZE = before


class _Part(_Library):
    """The LLVM code of one part, not linked with the parts that it calls."""

    def _optimize_functions(self, ll_module):
        ll_module.data_layout = self._codegen._data_layout

    def finalize(self):
        self._finalized = True

    def get_pointer_to_function(self, name):
        return 0  # numba's value for a function without wrappers for Python


class _OptimizedPart(_Part):
    """A part that is optimised before its kernel."""

    def finalize(self):
        self._optimize_final_module()
        super().finalize()


class _OutlinedPart(_OptimizedPart):
    """A part that is never compiled into its callers."""

    def add_ir_module(self, ir_module):
        # set here, because llvmlite's way to set it later does not work before 0.44
        for function in ir_module.functions:
            if not function.is_declaration:
                function.attributes.add("noinline")
        super().add_ir_module(ir_module)


class _Kernel(_Library):
    """A kernel with everything that it calls."""

    def finalize(self):
        self._linking_libraries = list(_reached(self))
        super().finalize()

    def _optimize_final_module(self):
        """Optimise with internal linkage of all parts, so that LLVM may drop unneeded arguments and parts."""
        for function in self._final_module.functions:
            if function.linkage == Linkage.linkonce_odr:
                function.linkage = Linkage.internal
        super()._optimize_final_module()


def _reached(library) -> Iterator[JITCodeLibrary]:
    """Yield every library that `library` calls, directly or through parts, once each."""
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
    """Return the signature of a built-in function or operator for these types, from the cache if known."""
    key = context, function, args, tuple(kws.items())
    found = _call_types.get(key)
    if found is None or found.args not in function._impl_keys:
        found = _call_types[key] = _find_call_type(function, context, args, kws)
    return found


@register_pass(mutates_CFG=True, analysis_only=False)
class _TypeInference(NopythonTypeInference):
    _name = "type_inference"

    def run_pass(self, state):
        """Infer types as numba does, with the cache of call types; numba's global lock is held."""
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
        """Generate the LLVM code and register it for calls from other kernels."""
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
        """Lower as numba does, into a library that links all parts."""
        state.library = _Kernel(state.targetctx.codegen(), state.func_id.func_qualname)
        state.library.enable_object_caching()
        return super().run_pass(state)


class PartCompiler(CompilerBase):
    """Compiler of functions that only kernels call."""

    lowering = _PartLowering

    def define_pipelines(self):
        """Return numba's pipeline with two steps replaced."""
        own = {NopythonTypeInference: _TypeInference, NativeLowering: self.lowering}
        pipeline = DefaultPassBuilder.define_nopython_pipeline(self.state)
        pipeline.passes = [(own.get(step, step), text) for step, text in pipeline.passes]
        pipeline.finalize()
        return [pipeline]


class OptimizedPartCompiler(PartCompiler):
    """Compiler of functions that only kernels call, with loops that gain from optimisation before inlining."""

    lowering = _OptimizedPartLowering


class OutlinedCompiler(PartCompiler):
    """Compiler of functions that only kernels call, and that are never compiled into their callers."""

    lowering = _OutlinedLowering


class KernelCompiler(PartCompiler):
    """Compiler of functions that Python calls."""

    lowering = _KernelLowering

    def compile_extra(self, func):
        """Compile without garbage collection, which would take a tenth of the time."""
        collects = gc.isenabled()
        gc.disable()
        try:
            return super().compile_extra(func)
        finally:
            if collects:
                gc.enable()
