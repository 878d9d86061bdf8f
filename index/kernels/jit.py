"""JIT: functions as machine code, and intrinsics that numba lacks. The only importer of numba.

numba keeps machine code next to a function's module, for the next process, under a stamp of its source. numba's own
stamp covers that one file. But a compiled function contains those that it calls, from any module of this package. So
the stamp here covers all sources of the package, and a change in any of them compiles every kernel again.
"""

import hashlib
import importlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
from llvmlite import binding, ir
from numba.core import caching, cgutils, codegen, compiler, event, registry, typed_passes, types
from numba.core.compiler_machinery import AnalysisPass, register_pass
from numba.core.runtime.nrt import rtsys
from numba.extending import intrinsic

Function = TypeVar("Function", bound=Callable[..., Any])


def compiled(function: Function) -> Function:
    """Compile the function at its first call, keep the code on disk, and release the interpreter's lock while it runs."""
    kernel: Any = numba.njit(nogil=True)(function)
    kernel._cache = _KernelCache(function)
    return cast(Function, kernel)


def inner(function: Function) -> Function:
    """Compile a function that only compiled ones call. It allocates nothing, and returns neither arrays nor parts of them.

    They contain its code, and optimise it along with their own. So here little is done: neither a way in from Python, nor
    the counts of references by which numba frees arrays, nor a second round of optimisation. A call from Python
    raises TypeError, and so does compiling one that returns arrays.
    """
    options: dict[str, Any] = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True, "_nrt": False}
    kernel: Any = numba.njit(pipeline_class=_InnerCompiler, **options)(function)
    kernel._cache = _KernelCache(function)
    kernel.__class__ = _Inner
    return cast(Function, kernel)


class _Inner(registry.CPUDispatcher):
    def __call__(self, *_: Any) -> Any:
        """Without this, a call from Python would end the process."""
        raise TypeError(f"{self.py_func.__module__}.{self.py_func.__name__} is inner: only compiled functions call it")


class _InnerLibrary(codegen.JITCodeLibrary):
    def _optimize_final_module(self) -> None:
        """Inline what it calls, as numba's first round does, and leave the second to the functions that contain it."""
        little = {"opt": self._codegen._opt_level, "loop_vectorize": self._codegen._loopvect, "slp_vectorize": False}
        passes, builder = self._codegen._module_pass_manager(cost="cheap", **little)  # type: ignore[no-untyped-call]
        passes.run(self._final_module, builder)


@register_pass(mutates_CFG=False, analysis_only=True)  # type: ignore[no-untyped-call]
class _InnerLowering(AnalysisPass):
    """Gives the pass that follows, numba's lowering, the library to fill."""

    _name = "inner_lowering"

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]

    def run_pass(self, state: Any) -> bool:
        if state.targetctx.data_model_manager[state.return_type].contains_nrt_meminfo():
            raise TypeError(f"{state.func_id.func_qualname} is inner: it cannot return an array")
        state.library = _InnerLibrary(state.targetctx.codegen(), state.func_id.func_qualname)  # type: ignore[no-untyped-call]
        # So that the cache can keep it.
        state.library.enable_object_caching()
        return False


class _InnerCompiler(compiler.CompilerBase):
    def define_pipelines(self) -> list[Any]:
        passes: Any = compiler.DefaultPassBuilder.define_nopython_pipeline(self.state)  # type: ignore[no-untyped-call]
        passes.add_pass_after(_InnerLowering, typed_passes.AnnotateTypes)
        passes.finalize()
        return [passes]


@cache
def source_stamp(path: str) -> str:
    """Digest of all sources whose code a kernel in this file may contain: the file, and this package."""
    digest = _package_digest().copy()
    digest.update(Path(path).read_bytes())
    return digest.hexdigest()


@cache
def _package_digest() -> "hashlib._Hash":
    sources = sorted(Path(__file__).parent.glob("*.py"))
    return hashlib.sha256(b"".join(source.read_bytes() for source in sources))


class _SourcesStamp:
    """A cache locator's stamp."""

    _py_file: str

    def get_source_stamp(self) -> str:
        return source_stamp(self._py_file)


class _ProvidedFolder(_SourcesStamp, caching.UserProvidedCacheLocator):
    pass


class _ModuleFolder(_SourcesStamp, caching.InTreeCacheLocator):
    pass


class _UserFolder(_SourcesStamp, caching.UserWideCacheLocator):
    pass


class _KernelCacheImpl(caching.CompileResultCacheImpl):
    _locator_classes = [_ProvidedFolder, _ModuleFolder, _UserFolder]  # noqa: RUF012 - typed by numba


class _KernelFiles(caching.IndexDataCacheFile):
    """Files of one kernel, a number for each signature.

    Two processes that compile for two signatures at once may write the same number. Then a list of one process names the
    other's code. So a file holds what it is for.
    """

    _source_stamp: str

    def save(self, key: Any, data: Any) -> None:
        super().save(key, (self._source_stamp, key, data))  # type: ignore[no-untyped-call]

    def load(self, key: Any) -> Any:
        """None for code of another signature or of other sources: it is compiled again."""
        kept: Any = super().load(key)  # type: ignore[no-untyped-call]
        return kept[2] if kept and kept[:2] == (self._source_stamp, key) else None


class _KernelCache(caching.FunctionCache):
    _impl_class = _KernelCacheImpl

    def __init__(self, function: Any) -> None:
        super().__init__(function)  # type: ignore[no-untyped-call]
        stamp = source_stamp(function.__code__.co_filename)
        self._cache_file = _KernelFiles(self._cache_path, self._impl.filename_base, stamp)  # type: ignore[no-untyped-call]

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Machine code needs the runtime alone. numba would import all that compiling needs (0.3 s)."""
        rtsys.initialize(target_context)
        return self._load_overload(sig, target_context)  # type: ignore[no-untyped-call]


def cache_folder(kernel: Any) -> Path:
    """Folder that keeps a kernel's machine code: that of its module, or the user's if it cannot be written."""
    return Path(kernel.stats.cache_path)


def is_kept(kernel: Any) -> bool:
    """Whether the cache has code for a kernel; perhaps from an older version of its file."""
    name = f"{Path(kernel.py_func.__code__.co_filename).stem}.{kernel.__name__}-*.nbi"
    return any(cache_folder(kernel).glob(name))


class _Compilations(event.Listener):
    def __init__(self, begun: Callable[[int, Path], None]) -> None:
        self._begun, self._kernels = begun, 0

    def on_start(self, event: Any) -> None:
        kernel = event.data["dispatcher"]
        # A kernel may call functions of numba, which are compiled with it.
        if not kernel.py_func.__module__.startswith("numba."):
            self._kernels += 1
            self._begun(self._kernels, Path(kernel.stats.cache_path))

    def on_end(self, event: Any) -> None:
        pass


@contextmanager
def compilations(begun: Callable[[int, Path], None]) -> Iterator[None]:
    """Call `begun` for each kernel that the cache lacks, before it is compiled: with 1, 2, ..., and its cache's folder."""
    with event.install_listener("numba:compile", _Compilations(begun)):
        yield


def _pointer(typing_context: Any, address: Any) -> Any:  # noqa: ARG001
    """An address, uint64, as a pointer to uint16."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], context.get_value_type(signature.return_type))

    return types.CPointer(types.uint16)(types.uint64), code  # type: ignore[no-untyped-call]


def _population(typing_context: Any, value: Any) -> Any:  # noqa: ARG001
    """Number of set bits in a uint64, as uint64."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ARG001
        return builder.ctpop(arguments[0])

    return types.uint64(types.uint64), code


def _prefetch(typing_context: Any, address: Any) -> Any:  # noqa: ARG001
    """Prefetch an address, uint64, into the cache. Any address is allowed."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ARG001
        pointer, number = ir.IntType(8).as_pointer(), ir.IntType(32)
        function_type = ir.FunctionType(ir.VoidType(), [pointer, number, number, number])
        function = cgutils.get_or_insert_function(builder.module, function_type, "llvm.prefetch.p0")  # type: ignore[no-untyped-call]
        # For reading; into all levels of the cache; as data.
        options = [ir.Constant(number, each) for each in (0, 3, 1)]
        builder.call(function, [builder.inttoptr(arguments[0], pointer), *options])
        return context.get_dummy_value()

    return types.void(types.uint64), code


def _word(typing_context: Any, address: Any) -> Any:  # noqa: ARG001
    """Little-endian word at an address, uint64, at any alignment; as uint64."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ARG001
        pointer = builder.inttoptr(arguments[0], ir.IntType(64).as_pointer())
        return builder.load(pointer, align=1)

    return types.uint64(types.uint64), code


def _xxh3_128(typing_context: Any, address: Any, size: Any) -> Any:  # noqa: ARG001
    """XXH3_128bits of bytes at an address, both uint64: two uint64, the low one first."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ARG001
        word = ir.IntType(64)
        function_type = ir.FunctionType(ir.LiteralStructType([word, word]), [word, word])
        function = cgutils.get_or_insert_function(builder.module, function_type, "XXH3_128bits")  # type: ignore[no-untyped-call]
        halves = builder.call(function, arguments)
        return cgutils.pack_array(builder, [builder.extract_value(halves, each) for each in (0, 1)])  # type: ignore[no-untyped-call]

    return types.UniTuple(types.uint64, 2)(types.uint64, types.uint64), code  # type: ignore[no-untyped-call]


# The package's compiled module holds xxHash itself, and exports its functions.
binding.load_library_permanently(importlib.import_module("xxhash._xxhash").__file__)
if binding.address_of_symbol("XXH3_128bits") is None:
    raise ImportError("it does not export xxHash's functions: its wheel does", name="xxhash")

xxh64: Any = types.ExternalFunction("XXH64", types.uint64(types.uint64, types.uint64, types.uint64))
"""XXH64 of bytes: address, size and seed, each uint64, to uint64."""

xxh3_64: Any = types.ExternalFunction("XXH3_64bits", types.uint64(types.uint64, types.uint64))
"""XXH3_64bits of bytes: address and size, both uint64, to uint64."""

xxh3_128: Any = intrinsic(_xxh3_128)
pointer_at: Any = intrinsic(_pointer)
word_at: Any = intrinsic(_word)
ones: Any = intrinsic(_population)
prefetch: Any = intrinsic(_prefetch)
array_at: Any = numba.carray  # type: ignore[attr-defined]
