"""A function of Python whose body is C."""

import functools
import threading

from . import compiler, prototypes
from .executor import default_executor


def jit_c(function=None, *, source=None, flags=compiler.FLAGS, executor=None):
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

    def decorate(function):
        name, text = function.__name__, source or function.__doc__ or ""
        prototype = prototypes.of_definition(text, name)
        if prototype is None:
            raise ValueError(f"the C source has no definition of {name}")
        lock, made = threading.Lock(), {}

        def compiled():
            host = executor or default_executor()
            with lock:
                # Another executor, as in a forked child, links it anew.
                if made.get("host") is not host:
                    if "object" not in made:
                        made["object"] = compiler.c_object(text, flags)
                    made["function"] = host.add_object(made["object"])[prototype]
                    made["host"] = host
                return made["function"]

        @functools.wraps(function)
        def call(*arguments, **options):
            return compiled()(*arguments, **options)

        call.submit = lambda *arguments, **options: compiled().submit(*arguments, **options)
        call.compiled = compiled
        return call

    return decorate if function is None else decorate(function)
