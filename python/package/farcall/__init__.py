"""Crash-proof native code in Python: C, LLVM and object files run in another process.

>>> import farcall
>>> with farcall.Executor() as executor:
...     library = executor.compile_c("double scale(double x, double by) { return x * by; }")
...     library["scale"](3.0, 0.5)
1.5

A crash of native code is an exception of its call, :class:`ExecutorDied`. The next call runs in a fresh executor with the
same contents.
"""

from ._farcall import Function, Memory, __version__
from .errors import CallInterrupted, CallTimeout, CompileError, Error, ExecutorDied, LimitError, LinkError
from .executor import Executor, Library, default_executor, to_arrow
from .future import Future
from .jit import jit_c
from .kernel import Kernel
from .objects import Frame, ObjectBuilder, ObjectPart
from .signatures import describe_functions

__all__ = [
    "CallInterrupted",
    "CallTimeout",
    "CompileError",
    "Error",
    "Executor",
    "ExecutorDied",
    "Frame",
    "Function",
    "Future",
    "Kernel",
    "Library",
    "LimitError",
    "LinkError",
    "Memory",
    "ObjectBuilder",
    "ObjectPart",
    "__version__",
    "default_executor",
    "jit_c",
    "to_arrow",
]

describe_functions()
