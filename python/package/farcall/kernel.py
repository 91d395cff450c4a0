"""A function of C over columns, which travels to other processes."""

import hashlib
import os
import threading

import numpy

from . import compiler
from .executor import Executor

_lock = threading.Lock()
# Kernels that this process has, and their executors, by the kernels' keys.
_kernels = {}
_warm = {}


def _begin_anew():
    """A forked child knows the kernels, and starts executors of its own: those that it has a copy of are its parent's."""
    global _lock, _warm
    # Another thread may have had the lock during the fork.
    _lock, _warm = threading.Lock(), {}


os.register_at_fork(after_in_child=_begin_anew)


class Kernel:
    """A function of C over columns, with its object files. It can be pickled, and called in any process.

    Pointers to ``const`` are columns that go in; other pointers are columns that come out, of as many rows. The only integer is
    the number of rows. A call returns the column that comes out, or a tuple of several.

    The process keeps the kernel's executors for later calls. ``options`` are those of :class:`Executor`.

    >>> kernel = Kernel("void twice(const double *x, double *y, size_t rows)", source='''
    ... #include <stddef.h>
    ... void twice(const double *x, double *y, size_t rows) {
    ...     for (size_t row = 0; row < rows; row++) y[row] = 2 * x[row];
    ... }''')
    >>> kernel(numpy.array([1.0, 2.5])).tolist()
    [2.0, 5.0]
    >>> kernel.close()
    """

    def __init__(self, prototype, *, source=None, objects=(), flags=compiler.FLAGS, **options):
        objects = [bytes(one) for one in objects]
        if source is not None:
            objects.append(compiler.c_object(source, flags))
        self._set(prototype, objects, options)

    def _set(self, prototype, objects, options):
        self.prototype, self.objects, self.options = prototype, objects, options
        text = repr((prototype, sorted(options.items())))
        self.key = hashlib.sha256(b"".join([text.encode(), *objects])).hexdigest()

    def __getstate__(self):
        return self.prototype, self.objects, self.options

    def __setstate__(self, state):
        self._set(*state)

    def reference(self):
        """A name of the kernel, for processes in which it is installed. It is small however large the objects are."""
        return Reference(self.key)

    def install(self, processes=1):
        """Starts the kernel's executors in this process, unless they run."""
        with _lock:
            _kernels[self.key] = self
            if self.key not in _warm:
                _warm[self.key] = _Warm(self, processes)
            return _warm[self.key]

    def close(self):
        """Ends the kernel's executors in this process."""
        with _lock:
            _kernels.pop(self.key, None)
            warm = _warm.pop(self.key, None)
        if warm:
            warm.executor.close()

    def __call__(self, *columns):
        return self.install().call(*columns)


class Reference:
    """The name of a kernel that is installed in the process where this is called."""

    def __init__(self, key):
        self.key = key

    def __call__(self, *columns):
        with _lock:
            warm, kernel = _warm.get(self.key), _kernels.get(self.key)
        if warm is None and kernel is None:
            raise LookupError(f"no kernel {self.key[:12]} is installed in this process")
        return (warm or kernel.install()).call(*columns)


class _Warm:
    """The executors of a kernel in this process."""

    def __init__(self, kernel, processes):
        self.executor = Executor(**{"processes": processes, **kernel.options})
        self.function = self.executor.add_object(*kernel.objects)[kernel.prototype]

    def call(self, *columns):
        parameters = self.function.parameters
        inputs = sum(1 for kind, is_const, _ in parameters if kind == "pointer" and is_const)
        if len(columns) != inputs:
            raise TypeError(f"{self.function.prototype}: {inputs} columns go in, given {len(columns)}")
        columns = [numpy.asarray(column) for column in columns]
        rows = len(columns[0]) if columns else 0
        if any(len(column) != rows for column in columns):
            raise ValueError(f"columns of {sorted({len(column) for column in columns})} rows")
        given, arguments, results = iter(columns), [], []
        for kind, is_const, dtype in parameters:
            if kind != "pointer":
                arguments.append(rows)
            elif is_const:
                arguments.append(self.executor.copy(next(given)))
            else:
                results.append(self.executor.array(rows, dtype))
                arguments.append(results[-1])
        self.function(*arguments)
        return results[0] if len(results) == 1 else tuple(results)
