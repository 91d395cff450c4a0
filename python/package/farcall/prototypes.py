"""Prototypes of C, from ctypes, from cffi, and from C source."""

import ctypes
import re

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


def from_ctypes(name, result, arguments):
    """The prototype of a function, from ctypes' types.

    >>> from_ctypes("f", ctypes.c_double, [ctypes.c_int, ctypes.POINTER(ctypes.c_float), ctypes.c_char_p])
    'double f(int, float *, const char *)'
    """
    parameters = ", ".join(_declare(kind, "") for kind in arguments) or "void"
    return _declare(result, f"{name}({parameters})")


def from_cffi(name, kind):
    """The prototype of a function, from cffi's type of it: ``ffi.typeof("double(*)(double)")``."""
    if kind.kind == "pointer":
        kind = kind.item
    if kind.kind != "function" or kind.ellipsis:
        raise TypeError(f"{kind.cname} is no function type without `...`")
    # cffi knows no `const`. A text is the usual argument where a pointer to `char` is due.
    names = {"char *": "const char *"}
    parameters = ", ".join(names.get(one.cname, one.cname) for one in kind.args) or "void"
    return f"{kind.result.cname} {name}({parameters})"


def of_definition(source, name):
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


def _declare(kind, name):
    if kind is None:
        return f"void {name}".strip()
    if isinstance(kind, str):
        return f"{kind} {name}".strip()
    if hasattr(kind, "_restype_") and hasattr(kind, "_argtypes_"):
        parameters = ", ".join(_declare(one, "") for one in kind._argtypes_) or "void"
        return _declare(kind._restype_, f"(*{name})({parameters})")
    if isinstance(kind, type) and issubclass(kind, ctypes._Pointer):
        return _declare(kind._type_, f"*{name}")
    if isinstance(kind, type) and issubclass(kind, ctypes.Structure):
        return f"struct {kind.__name__} {name}".strip()
    word = _WORDS.get(getattr(kind, "_type_", None))
    if word is None:
        raise TypeError(f"{kind!r} is no type of ctypes that calls can pass")
    return f"{word} {name}".strip()
