"""A function of Python whose body is C."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Sequence
from typing import Any, overload

from . import _farcall, compiler, prototypes
from .executor import Executor, default_executor
from .future import Future


class JitFunction:
    """A function of C that is compiled when it is called first. See :func:`jit_c`."""

    __qualname__: str

    def __init__(
        self, function: Callable[..., Any], source: str | None, flags: Sequence[str] | None, executor: Executor | None
    ) -> None:
        name, text = function.__name__, source or function.__doc__ or ""
        prototype = prototypes.of_definition(text, name)
        if prototype is None:
            raise ValueError(f"the C source has no definition of {name}")
        self._text, self._prototype, self._flags, self._executor = text, prototype, flags, executor
        self._lock = threading.Lock()
        self._object: bytes | None = None
        self._made: tuple[Executor, _farcall.Function] | None = None
        functools.update_wrapper(self, function)

    def compiled(self) -> _farcall.Function:
        """The C function, linked into the present executor."""
        host = self._executor or default_executor()
        with self._lock:
            # Another executor, as in a forked child, links it anew.
            if self._made is None or self._made[0] is not host:
                if self._object is None:
                    flags = host._flags if self._flags is None else self._flags
                    self._object = compiler.c_object(self._text, flags)
                self._made = host, host.add_object(self._object)[self._prototype]
            return self._made[1]

    def __call__(self, *arguments: Any, **options: float | None) -> Any:
        return self.compiled()(*arguments, **options)

    def submit(self, *arguments: Any, **options: float | None) -> Future:
        """As :meth:`farcall.Function.submit`."""
        return self.compiled().submit(*arguments, **options)

    def __reduce__(self) -> str:
        # As a function: by its name.
        return self.__qualname__


@overload
def jit_c(function: Callable[..., Any]) -> JitFunction: ...
@overload
def jit_c(
    *, source: str | None = ..., flags: Sequence[str] | None = ..., executor: Executor | None = ...
) -> Callable[[Callable[..., Any]], JitFunction]: ...
def jit_c(
    function: Callable[..., Any] | None = None,
    *,
    source: str | None = None,
    flags: Sequence[str] | None = None,
    executor: Executor | None = None,
) -> JitFunction | Callable[[Callable[..., Any]], JitFunction]:
    """Makes a function of C of a function of Python whose docstring is its definition, or of ``source``.

    The C function has the name of the function of Python. It is compiled at the first call, and runs in ``executor``, or in the
    process's own.

    >>> @jit_c
    ... def hypotenuse(a, b):
    ...     '''#include <math.h>
    ...     double hypotenuse(double a, double b) { return sqrt(a * a + b * b); }'''
    >>> hypotenuse(3, 4)
    5.0
    """

    def decorate(function: Callable[..., Any]) -> JitFunction:
        return JitFunction(function, source, flags, executor)

    return decorate if function is None else decorate(function)
