"""What ``help`` and ``inspect.signature`` say of a C function."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy

from . import _farcall


def signature_of(function: _farcall.Function) -> inspect.Signature:
    """The parameters of a C function with the kinds of objects that they take.

    >>> import farcall
    >>> with farcall.Executor() as executor:
    ...     library = executor.compile_c("double scale(const double *x, long n, double by) { return by * x[n]; }")
    ...     print(inspect.signature(library["scale"]))
    (x: numpy.ndarray, n: int, by: float, /, *, timeout: 'float | None' = None) -> float
    """
    parameters = []
    for at, (name, (kind, _, element)) in enumerate(zip(function.parameter_names, function.parameters)):
        annotation: Any = {"pointer": numpy.ndarray, "function": Callable}.get(kind) or _object_of(element)
        name = name if name.isidentifier() else f"argument_{at + 1}"
        parameters.append(inspect.Parameter(name, inspect.Parameter.POSITIONAL_ONLY, annotation=annotation))
    if len({parameter.name for parameter in parameters} | {"timeout"}) <= len(parameters):
        # C lets prototypes repeat names, or call a parameter `timeout`.
        parameters = [one.replace(name=f"argument_{at + 1}") for at, one in enumerate(parameters)]
    timeout = inspect.Parameter("timeout", inspect.Parameter.KEYWORD_ONLY, default=None, annotation="float | None")
    return inspect.Signature([*parameters, timeout], return_annotation=_object_of_result(function.result))


def documentation_of(function: _farcall.Function) -> str:
    """The prototype of a C function, and how it is called."""
    return (
        f"{function.prototype}\n\n"
        f"A C function, called as {function.__name__}{signature_of(function)}.\n\n"
        "The call waits for the result without the interpreter's lock; `submit` returns a future instead.\n"
        "A crash is farcall.ExecutorDied, and a timeout farcall.CallTimeout."
    )


class _OfEach:
    """An attribute of functions that is another one of their class."""

    def __init__(self, of_class: str | None, of_function: Callable[[_farcall.Function], Any]) -> None:
        self.of_class, self.of_function = of_class, of_function

    def __get__(self, function: _farcall.Function | None, _: type) -> Any:
        return self.of_class if function is None else self.of_function(function)


def describe_functions() -> None:
    """Makes each C function describe itself."""
    for name, of_class, of_function in (
        ("__doc__", _farcall.Function.__doc__, documentation_of),
        ("__signature__", None, signature_of),
    ):
        setattr(_farcall.Function, name, _OfEach(of_class, of_function))


def _object_of(element: str | None) -> type:
    """The type of the objects that are numbers of this type of NumPy; structures have none."""
    return {None: tuple, "|b1": bool, "<f4": float, "<f8": float}.get(element, int)


def _object_of_result(name: str) -> type | None:
    if name == "void":
        return None
    if name.startswith(("struct", "__m128")):
        return bytes if name.startswith("__m") else tuple
    return {"bool": bool, "float": float, "double": float}.get(name, int)
