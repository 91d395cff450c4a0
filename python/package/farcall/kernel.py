"""A function of C over columns, which travels to other processes."""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Iterable, Sequence
from typing import Any

from . import columns, compiler
from .batches import Columns
from .executor import Executor

_lock = threading.Lock()
# Kernels that this process has, and their executors, by the kernels' keys.
_kernels: dict[str, Kernel] = {}
_warm: dict[str, _Warm] = {}


def _begin_anew() -> None:
    """A forked child knows the kernels, and starts executors of its own: those that it has a copy of are its parent's."""
    global _lock, _warm
    # Another thread may have had the lock during the fork.
    _lock, _warm = threading.Lock(), {}


os.register_at_fork(after_in_child=_begin_anew)


class Kernel:
    """A function of C over columns, with its object files. It can be pickled, and called in any process.

    Pointers to ``const`` are columns that go in; other pointers are columns that come out, of as many rows, zeros at first. The
    only integer is the number of rows. A call returns the column that comes out, or a tuple of several.

    Columns are of NumPy, Arrow, pandas, polars, or numbers in a list. Nulls are refused, but for those of floating-point columns,
    which are NaN. A column of :meth:`Executor.array` is used in place; others are copied.

    The process keeps the kernel's executors for later calls, with the memory of a batch's columns. ``options`` are those of
    :class:`Executor`.

    >>> kernel = Kernel("void twice(const double *x, double *y, size_t rows)", source='''
    ... #include <stddef.h>
    ... void twice(const double *x, double *y, size_t rows) {
    ...     for (size_t row = 0; row < rows; row++) y[row] = 2 * x[row];
    ... }''')
    >>> kernel([1.0, 2.5]).tolist()
    [2.0, 5.0]
    >>> kernel.close()
    """

    def __init__(
        self,
        prototype: str,
        *,
        source: str | None = None,
        objects: Iterable[bytes] = (),
        flags: Sequence[str] | None = None,
        **options: Any,
    ) -> None:
        objects = [bytes(one) for one in objects]
        if source is not None:
            own = compiler.IN_PROCESS_FLAGS if options.get("in_process") else compiler.FLAGS
            objects.append(compiler.c_object(source, own if flags is None else flags))
        self._set(prototype, objects, options)

    def _set(self, prototype: str, objects: list[bytes], options: dict[str, Any]) -> None:
        self.prototype, self.objects, self.options = prototype, objects, options
        text = repr((prototype, sorted(options.items())))
        self.key = hashlib.sha256(b"".join([text.encode(), *objects])).hexdigest()

    def __getstate__(self) -> tuple[str, list[bytes], dict[str, Any]]:
        return self.prototype, self.objects, self.options

    def __setstate__(self, state: tuple[str, list[bytes], dict[str, Any]]) -> None:
        self._set(*state)

    def reference(self) -> Reference:
        """A name of the kernel, for processes in which it is installed. It is small however large the objects are."""
        return Reference(self.key)

    def install(self, processes: int = 1) -> _Warm:
        """Starts the kernel's executors in this process, unless they run."""
        with _lock:
            _kernels[self.key] = self
            if self.key not in _warm:
                _warm[self.key] = _Warm(self, processes)
            return _warm[self.key]

    def close(self) -> None:
        """Ends the kernel's executors in this process."""
        with _lock:
            _kernels.pop(self.key, None)
            warm = _warm.pop(self.key, None)
        if warm:
            warm.executor.close()

    def __call__(self, *columns: Any) -> Any:
        return self.install().call(*columns)


class Reference:
    """The name of a kernel that is installed in the process where this is called."""

    def __init__(self, key: str) -> None:
        self.key = key

    def __call__(self, *columns: Any) -> Any:
        with _lock:
            warm, kernel = _warm.get(self.key), _kernels.get(self.key)
        if warm is None:
            if kernel is None:
                raise LookupError(f"no kernel {self.key[:12]} is installed in this process")
            warm = kernel.install()
        return warm.call(*columns)


class _Warm:
    """The executors of a kernel in this process."""

    def __init__(self, kernel: Kernel, processes: int) -> None:
        self.executor = Executor(**{"processes": processes, **kernel.options})
        self.function = self.executor.add_object(*kernel.objects)[kernel.prototype]
        # Two batches of each process, so that results may still be in use when the next ones come.
        count = 2 * processes * len(self.function.parameters)
        self.memory = Columns(self.executor, max(8, count))

    def call(self, *given: Any) -> Any:
        parameters = self.function.parameters
        inputs = [element for kind, is_const, element in parameters if kind == "pointer" and is_const]
        if len(given) != len(inputs):
            raise TypeError(f"{self.function.prototype}: {len(inputs)} columns go in, given {len(given)}")
        taken = [columns.column(data, element) for data, element in zip(given, inputs)]
        rows = len(taken[0]) if taken else 0
        if any(len(column) != rows for column in taken):
            raise ValueError(f"columns of {sorted({len(column) for column in taken})} rows")
        left = iter(taken)
        arguments: list[Any] = []
        results: list[Any] = []
        for kind, is_const, element in parameters:
            if kind != "pointer":
                arguments.append(rows)
            elif is_const:
                arguments.append(self.memory.copy(next(left)))
            elif element is None:
                raise TypeError(f"{self.function.prototype}: a column that comes out has numbers as its elements")
            else:
                results.append(self.memory.zeros(rows, element))
                arguments.append(results[-1])
        self.function(*arguments)
        return results[0] if len(results) == 1 else tuple(results)
