"""Prototypes of C, from ctypes, from cffi, and from C source."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Sequence
from typing import Any

_WORDS = {
    "?": "bool",
    "c": "char",
    "b": "signed char",
    "B": "unsigned char",
    "h": "short",
    "H": "unsigned short",
    "i": "int",
    "I": "unsigned int",
    "l": "long",
    "L": "unsigned long",
    "q": "long long",
    "Q": "unsigned long long",
    "f": "float",
    "d": "double",
    "P": "void *",
    "z": "const char *",
}


def from_ctypes(name: str, result: Any, arguments: Sequence[Any]) -> str:
    """The prototype of a function, from ctypes' types. The first use of a structure defines it.

    >>> from_ctypes("f", ctypes.c_double, [ctypes.c_int, ctypes.POINTER(ctypes.c_float), ctypes.c_char_p])
    'double f(int, float *, const char *)'
    >>> class point(ctypes.Structure):
    ...     _fields_ = [("x", ctypes.c_double), ("name", ctypes.c_char * 8)]
    >>> from_ctypes("f", point, [point])
    'struct point { double x; char name[8]; } f(struct point)'
    """
    defined: set[type] = set()
    # The result stands in front of the parameters, so it defines what both use.
    base = _declare(result, "", defined) if _is_structure(result) else ""
    parameters = ", ".join(_declare(kind, "", defined) for kind in arguments) or "void"
    if base:
        return f"{base} {name}({parameters})"
    return _declare(result, f"{name}({parameters})", defined)


def from_cffi(name: str, kind: Any) -> str:
    """The prototype of a function, from cffi's type of it: ``ffi.typeof("double(*)(double)")``."""
    if kind.kind == "pointer":
        kind = kind.item
    if kind.kind != "function" or kind.ellipsis:
        raise TypeError(f"{kind.cname} is no function type without `...`")
    # cffi knows no `const`. A text is the usual argument where a pointer to `char` is due.
    names = {"char *": "const char *"}
    parameters = ", ".join(names.get(one.cname, one.cname) for one in kind.args) or "void"
    return f"{kind.result.cname} {name}({parameters})"


def of_definition(source: str, name: str) -> str | None:
    """The prototype of a function that C source defines, or None.

    >>> of_definition("static int a; long twice(long x) { return 2 * x; }", "twice")
    'long twice(long x)'
    """
    text = re.sub(r"//[^\n]*|/\*.*?\*/", " ", source, flags=re.DOTALL)
    text = re.sub(r'"(\\.|[^"\\\n])*"', '""', text)
    text = re.sub(r"^\s*#(.*\\\n)*.*$", ";", text, flags=re.MULTILINE)
    for found in re.finditer(rf"(?:^|[;}}])\s*([\w\s*]+?)\b{re.escape(name)}\s*\(", text):
        depth, end = 1, found.end()
        while depth and end < len(text):
            depth += {"(": 1, ")": -1}.get(text[end], 0)
            end += 1
        if text[end:].lstrip().startswith("{"):
            return " ".join(f"{found.group(1)} {name}({text[found.end():end]}".split())
    return None


def _is_structure(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, ctypes.Structure)


def _declare(kind: Any, name: str, defined: set[type]) -> str:
    if kind is None:
        return f"void {name}".strip()
    if isinstance(kind, str):
        return f"{kind} {name}".strip()
    if hasattr(kind, "_restype_") and hasattr(kind, "_argtypes_"):
        parameters = ", ".join(_declare(one, "", defined) for one in kind._argtypes_) or "void"
        return _declare(kind._restype_, f"(*{name})({parameters})", defined)
    if isinstance(kind, type) and issubclass(kind, ctypes._Pointer):
        # An array that is pointed to stands in parentheses.
        target = kind._type_
        is_array = isinstance(target, type) and issubclass(target, ctypes.Array)
        return _declare(target, f"(*{name})" if is_array else f"*{name}", defined)
    if isinstance(kind, type) and issubclass(kind, ctypes.Array):
        return _declare(kind._type_, f"{name}[{kind._length_}]", defined)
    if _is_structure(kind):
        return f"struct {kind.__name__}{_definition(kind, defined)} {name}".strip()
    code: Any = getattr(kind, "_type_", None)
    word = _WORDS.get(code)
    if word is None or _is_swapped(kind):
        raise TypeError(f"{kind!r} is no type of ctypes that calls can pass")
    return f"{word} {name}".strip()


def _is_swapped(kind: Any) -> bool:
    """Whether numbers of it have the other byte order. On this machine it is the big one."""
    swapped: Any = getattr(kind, "__ctype_be__", None)
    return swapped is kind and ctypes.sizeof(swapped) > 1


def _definition(kind: type[ctypes.Structure], defined: set[type]) -> str:
    """The fields of a structure that is named first here, in braces."""
    if kind in defined:
        return ""
    defined.add(kind)
    fields = [field for one in reversed(kind.__mro__) for field in one.__dict__.get("_fields_", ())]
    if getattr(kind, "_pack_", 0) or any(len(field) != 2 for field in fields):
        raise TypeError(f"{kind!r} is packed or has bit-fields: calls cannot pass it")
    if not fields:
        return ""  # it is not defined in ctypes either; its pointers are
    text = "".join(f"{_declare(field[1], field[0], defined)}; " for field in fields)
    return f" {{ {text}}}"
