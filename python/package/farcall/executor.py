"""Executors, and the libraries that are linked into them."""

from __future__ import annotations

import math
import operator
import os
import re
import stat
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Union

import numpy

from . import _farcall, columns, compiler, prototypes
from .objects import ObjectBuilder

if TYPE_CHECKING:
    import pyarrow  # type: ignore[import-untyped]
    from typing_extensions import Self

# A file by its path, or what is in it.
File = Union[str, "os.PathLike[str]", bytes, bytearray, memoryview]
Array = numpy.ndarray[Any, Any]


class Executor(_farcall.Executor):
    """A process that runs native code, and the next one after it has died, with the same contents.

    ================= ================================================================================
    option            what it is
    ================= ================================================================================
    ``processes``     1: all threads call in one process at the same time. More: each process runs one call
                      at a time, so a crash costs one call; a call takes a free process, or waits for one. At
                      most 256
    ``sandbox``       None: all that the user may do. "isolated": no file is written, no connection made.
                      "strict": only the system calls that calls need
    ``memory``        the most private memory of a process, in bytes or as "256M"
    ``cpu_seconds``   the most CPU time of a process
    ``allow_missing`` leaves out the restrictions that this kernel lacks
    ``timeout``       the most seconds of a call, which is interrupted then; its process is ended if that fails
    ``link_timeout``  the most seconds that a link waits while shared libraries open; its process is ended then
    ``standby``       keeps one more process started, so that a restart takes less time
    ``name``          the name under which ``farcall top`` shows the processes; not shown by default
    ``spin``          the seconds that each side of a call polls for the other before it sleeps; 50e-6 by default.
                      More helps calls of milliseconds in quick succession, and uses more CPU
    ``debuggable``    gdb and lldb, attached to one of ``pids``, know the functions and stop at their breakpoints
    ``in_process``    runs native code in the interpreter's own process, on the threads that call: for code that is trusted as
                      the interpreter is. A crash ends it, a call that hangs stays, and what ends, limits or restarts a
                      process is a ``ValueError``
    ``shared_layout`` forks later executors and processes of the same kind, which start in a fifth to two thirds of the time.
                      Their libraries are at the same addresses
    ``arrays``        address space for arrays, in bytes; 64 GiB at most and by default
    ``program``       the executor's program, the one of the wheel by default
    ================= ================================================================================

    Any thread may use it. It is a context manager: at the end, the processes end.

    >>> with Executor(timeout=10) as executor:
    ...     total = executor.compile_c(
    ...         "double total(const double *x, long n) { double sum = 0; while (n--) sum += *x++; return sum; }")["total"]
    ...     x = executor.array(3)
    ...     x[:] = [1, 2, 4.5]
    ...     total(x, len(x))
    7.5
    """

    # Those of compilers of C.
    _flags: Sequence[str]

    def __new__(
        cls,
        *,
        program: str | os.PathLike[str] | None = None,
        processes: int = 1,
        sandbox: Literal["isolated", "strict"] | None = None,
        memory: int | str | None = None,
        cpu_seconds: int | None = None,
        allow_missing: bool = False,
        timeout: float | None = None,
        link_timeout: float | None = None,
        standby: bool = False,
        name: str | None = None,
        spin: float | None = None,
        debuggable: bool = False,
        in_process: bool = False,
        shared_layout: bool = False,
        arrays: int = 64 << 30,
    ) -> Self:
        program = program or os.environ.get("FARCALL_EXECUTOR") or _program()
        made = super().__new__(
            cls,
            program=os.fspath(program),
            processes=processes,
            sandbox=sandbox,
            memory=_bytes(memory),
            cpu_seconds=cpu_seconds,
            allow_missing=allow_missing,
            timeout=timeout,
            link_timeout=link_timeout,
            standby=standby,
            name=name,
            spin=spin,
            debuggable=debuggable,
            in_process=in_process,
            shared_layout=shared_layout,
            arrays=arrays,
        )
        made._flags = compiler.IN_PROCESS_FLAGS if in_process else compiler.FLAGS
        return made

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, raised: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def library(self, name: str = "library") -> Library:
        """A library without contents. Its name appears in errors."""
        return Library(self, name)

    def add_object(self, *objects: File | ObjectBuilder) -> Library:
        """A new library with these object files, each a path, bytes or an :class:`ObjectBuilder`."""
        return self.library("objects").add_object(*objects)

    def add_archive(self, *archives: File) -> Library:
        """A new library with these archives (``.a``), each a path or bytes."""
        return self.library("archives").add_archive(*archives)

    def add_shared(self, path: str | os.PathLike[str]) -> Library:
        """A new library with a shared library (``.so``), by file name or path. Its functions can be called.

        >>> with Executor() as executor:
        ...     executor.add_shared("libm.so.6")["double floor(double)"](2.5)
        2.0
        """
        return self.library("shared").add_shared(path)

    def compile_c(self, source: str, flags: Sequence[str] | None = None) -> Library:
        """A new library of C source, compiled by the machine's ``cc``.

        >>> with Executor() as executor:
        ...     executor.compile_c("int answer(void) { return 42; }")["answer"]()
        42
        """
        return self.library("C").compile_c(source, flags)

    def add_llvm(self, module: Any) -> Library:
        """A new library of an LLVM module: IR as text, ``llvmlite.ir.Module`` or a parsed module. Wants llvmlite."""
        return self.library("LLVM").add_llvm(module)

    def array(self, shape: int | Sequence[int], dtype: Any = float, large_pages: bool = False) -> Array:
        """A NumPy array of zeros in memory that executors map, so calls use it in place.

        Native code gets its address where a pointer is a parameter. The array outlives the executor.

        Memory is taken when it is touched. With ``large_pages`` it is taken now, in pages of 2 MiB: some milliseconds for each, and
        code that goes through a large array many times is faster. An ``OSError`` says that the system has none.

        >>> executor = Executor()
        >>> x = executor.array((2, 3), "int32")
        >>> executor.close()
        >>> int(x.sum())
        0
        """
        dtype = numpy.dtype(dtype)
        if dtype.hasobject:
            raise TypeError(f"native code cannot use an array of {dtype}")
        extents = tuple(shape) if isinstance(shape, Sequence) else (operator.index(shape),)
        if any(extent < 0 for extent in extents):
            raise ValueError(f"an array of shape {extents}")
        size = math.prod(extents) * dtype.itemsize
        memory: Array = numpy.asarray(self.allocate(size, large_pages))
        array: Array = memory[:size].view(dtype).reshape(extents)
        return array

    def copy(self, data: Any) -> Array:
        """A copy of an array in memory that executors map: of NumPy, Arrow, pandas, polars, numbers in a list, or anything with DLPack
        or a buffer. Masked elements are a ``TypeError``, and so are nulls, but for those of floating-point numbers, which are NaN.

        >>> executor = Executor()
        >>> executor.copy([1.0, 2.0]).tolist()
        [1.0, 2.0]
        >>> executor.close()
        """
        data = columns.column(data)
        copied = self.array(data.shape, data.dtype)
        copied[...] = data
        return copied

    def free(self, array: Any) -> None:
        """Gives the memory of an array back now. The array and its views have zeros from then on, and no call takes them.

        Memory is free by itself when Python refers to it no more.
        """
        while array is not None and not isinstance(array, _farcall.Memory):
            array = getattr(array, "base", None)
        if array is None:
            raise ValueError("Executor.array has not made this array")
        array.free()


class Library(_farcall.Library):
    """Objects that are linked together. ``library["f"]`` is a function, which is linked then.

    ============================================== ==================================================================
    key                                            the type of the function
    ============================================== ==================================================================
    ``library["double f(int, const char *)"]``     a prototype of C
    ``library["f"]``                               that of the source of :meth:`compile_c`, or of an earlier look-up
    ``library["f", c_double, [c_int, c_char_p]]``  types of ctypes
    ``library["f", ffi.typeof("double(*)(int)")]`` a type of cffi, which does not say what is ``const``
    ============================================== ==================================================================

    Objects with debug information (``-g``) are asked for the type, and another one is a ``TypeError``.

    >>> with Executor() as executor:
    ...     library = executor.compile_c("float half(float x) { return x / 2; }")
    ...     library["half"](3)
    ...     library["double half(double)"]
    Traceback (most recent call last):
    ...
    TypeError: half is `float half(float)` in module.o, not `double half(double)`
    """

    def __init__(self, executor: Executor, name: str) -> None:
        self._flags = executor._flags
        self._sources: list[str] = []
        self._functions: dict[str, _farcall.Function] = {}

    def add_object(self, *objects: File | ObjectBuilder) -> Self:
        """Adds object files, each a path, bytes or an :class:`ObjectBuilder`. Returns the library."""
        for one in objects:
            named = (one.name, one.build()) if isinstance(one, ObjectBuilder) else _named(one, "object.o")
            self.link_object(*named)
        return self

    def add_archive(self, *archives: File) -> Self:
        """Adds archives, each a path or bytes. A look-up links the members that it needs. Returns the library."""
        for one in archives:
            self.link_archive(*_named(one, "archive.a"))
        return self

    def add_shared(self, path: str | os.PathLike[str]) -> Self:
        """Opens a shared library (``.so``) in each executor, by file name or path. Returns the library, which finds its functions.

        Objects of all libraries find them, too, as with ``dlopen`` and ``RTLD_GLOBAL``.
        """
        self.link_shared(os.fspath(path))
        return self

    def precede_libraries(self) -> Self:
        """Puts the names of this library before the names of shared libraries, which then use its ``malloc`` as natively.

        Say it before the first link, for one library of an executor. Returns the library.
        """
        self.put_first()
        return self

    def compile_c(self, source: str, flags: Sequence[str] | None = None) -> Self:
        """Compiles C source by the machine's ``cc``, and adds it. Returns the library."""
        self.link_object("module.o", compiler.c_object(source, self._flags if flags is None else flags))
        self._sources.append(source)
        return self

    def add_llvm(self, module: Any) -> Self:
        """Compiles an LLVM module, and adds it. Returns the library."""
        self.link_object("module.o", compiler.llvm_object(module))
        return self

    def define(self, prototype: str, function: Callable[..., Any]) -> Self:
        """Defines a C function that calls a function of Python, for objects of this library. Returns the library.

        It runs with the interpreter's lock, on the thread that waits for the call. What it raises ends that call, which raises it.
        Pointers are numbers: :meth:`Executor.text_at` and :meth:`Executor.bytes_at` read what they lead to.

        >>> with Executor() as executor:
        ...     library = executor.library().define("int price(int)", lambda article: 10 * article)
        ...     total = library.compile_c("int price(int); int total(int n) { return price(n) + 1; }")["total"]
        ...     total(4)
        41
        """
        self.define_function(prototype, function)
        return self

    def __getitem__(self, key: str | tuple[Any, ...]) -> _farcall.Function:
        # Lists, as of ctypes' types, are no keys of a dictionary.
        known = key if isinstance(key, str) else repr(key)
        if known not in self._functions:
            function = self.function(self._prototype(key))
            self._functions[known] = self._functions[function.__name__] = function
        return self._functions[known]

    def _prototype(self, key: str | tuple[Any, ...]) -> str:
        if isinstance(key, tuple):
            name, *types = key
            if len(types) == 1:
                return prototypes.from_cffi(name, *types)
            result, arguments = types
            return prototypes.from_ctypes(name, result, arguments)
        if "(" in key:
            return key
        for source in self._sources:
            found = prototypes.of_definition(source, key)
            if found:
                return found
        raise ValueError(f"no prototype of {key} is known: say it, as in library[\"double {key}(double)\"]")


def to_arrow(array: Array) -> pyarrow.Array:
    """An Arrow array over the memory of a one-dimensional array, without a copy. Wants pyarrow."""
    import pyarrow

    if array.ndim != 1 or not array.flags.c_contiguous:
        raise ValueError("an Arrow array has one dimension, and is contiguous")
    kind = pyarrow.from_numpy_dtype(array.dtype)
    return pyarrow.Array.from_buffers(kind, len(array), [None, pyarrow.py_buffer(array)])


_default: Executor | None = None
_default_of: int | None = None
_lock = threading.Lock()


def default_executor() -> Executor:
    """The process's own executor, which is started when it is needed first. :func:`jit_c` uses it."""
    global _default, _default_of
    with _lock:
        # A forked child has none of its parent's executors.
        if _default is None or _default.closed or _default_of != os.getpid():
            _default, _default_of = Executor(), os.getpid()
        return _default


def _program() -> Path:
    program = Path(__file__).with_name("farcall-executor")
    mode = program.stat().st_mode
    if not mode & stat.S_IXUSR:
        # An installer that keeps no modes.
        program.chmod(mode | 0o111)
    return program


def _bytes(size: int | str | None) -> int | None:
    if size is None or not isinstance(size, str):
        return size
    found = re.fullmatch(r"(\d+)\s*([KMGT]?)(?:i?B)?", size.strip(), re.IGNORECASE)
    if not found:
        raise ValueError(f"memory={size!r}: a number of bytes, or one with K, M, G or T")
    return int(found[1]) << (10 * " KMGT".index(found[2].upper() or " "))


def _named(file: File, name: str) -> tuple[str, bytes]:
    if isinstance(file, (bytes, bytearray, memoryview)):
        return name, bytes(file)
    return Path(file).name, Path(file).read_bytes()

