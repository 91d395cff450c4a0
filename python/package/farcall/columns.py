"""What the libraries of data have, as NumPy's arrays and as fields of structures.

Nothing is converted whose meaning is not clear: a null of an integer, a mask, a number that does not fit.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy


def column(data: Any, dtype: str | None = None) -> numpy.ndarray[Any, Any]:
    """An array of what a column holds. ``dtype`` says how numbers of Python are stored; what has a type of its own keeps it.

    A null of a floating-point column is NaN, and one of a time is NaT. Other nulls are refused.

    >>> column([1, 2], "<f8")
    array([1., 2.])
    >>> column([1, None], "<f8")
    Traceback (most recent call last):
    ...
    TypeError: a list with elements of object, where numbers are needed
    """
    if isinstance(data, (list, tuple, range)):
        return _numbers(data, dtype)
    if isinstance(data, (numpy.ndarray, numpy.generic)) or hasattr(data, "__array_interface__"):
        array = numpy.asarray(data)
        if numpy.ma.is_masked(data):
            raise TypeError("the array has masked elements: array.filled(value) replaces them")
        return array
    library = type(data).__module__.partition(".")[0]
    if library in ("pandas", "polars", "pyarrow"):
        array = _table_column(data, library)
    elif hasattr(data, "__dlpack__"):
        array = numpy.from_dlpack(data)
    elif hasattr(data, "__array__"):
        array = numpy.asarray(data)
    else:
        try:
            array = numpy.asarray(memoryview(data))
        except TypeError:
            kind = type(data).__qualname__
            raise TypeError(f"a pointer takes an array, a column, bytes, a text, an address or None, not {kind}") from None
    if array.dtype.hasobject:
        raise TypeError(f"{type(data).__qualname__} has elements of {array.dtype}, where numbers are needed")
    return numpy.ascontiguousarray(array)


def fields(record: Any) -> dict[str, Any] | None:
    """The fields of a structure of ctypes, or of a record of NumPy, by name. None for anything else.

    >>> class point(ctypes.Structure):
    ...     _fields_ = [("x", ctypes.c_double), ("y", ctypes.c_double)]
    >>> fields(point(1, 2))
    {'x': 1.0, 'y': 2.0}
    """
    if isinstance(record, ctypes.Structure):
        return {name: getattr(record, name) for name in names_of(type(record))}
    if isinstance(record, numpy.void) and record.dtype.names:
        return {name: record[name] for name in record.dtype.names}
    return None


def names_of(structure: type[ctypes.Structure]) -> list[str]:
    """The names of the fields of a structure of ctypes, those of its bases first."""
    return [field[0] for one in reversed(structure.__mro__) for field in one.__dict__.get("_fields_", ())]


def _numbers(data: Any, dtype: str | None) -> numpy.ndarray[Any, Any]:
    kind = type(data).__name__
    natural = numpy.asarray(data)
    if dtype is not None and natural.dtype.kind in "fO" and all(isinstance(one, int) for one in data):
        return _integers(data, numpy.dtype(dtype))
    if natural.dtype.hasobject or natural.dtype.kind not in "biuf":
        raise TypeError(f"a {kind} with elements of {natural.dtype}, where numbers are needed")
    if dtype is None:
        return natural
    target = numpy.dtype(dtype)
    fits = {"f": "biuf", "i": "biu", "u": "biu", "b": "b"}[target.kind]
    if natural.size and natural.dtype.kind not in fits:
        raise TypeError(f"a {kind} with elements of {natural.dtype}, where the function takes {target}")
    with numpy.errstate(over="ignore", invalid="ignore"):
        converted = natural.astype(target)
    if target.kind == "f":
        fitting = numpy.isfinite(converted) | ~numpy.isfinite(natural)
    else:
        fitting = (converted == natural) & ((converted < 0) == (natural < 0))
    if not numpy.all(fitting):
        raise OverflowError(f"an element of the {kind} does not fit {target}")
    return converted


def _integers(data: Any, target: numpy.dtype[Any]) -> numpy.ndarray[Any, Any]:
    """Integers of Python so large that NumPy takes them for other numbers, or none at all."""
    if target.kind in "iu":
        limits = numpy.iinfo(target)
        if data and not limits.min <= min(data) <= max(data) <= limits.max:
            raise OverflowError(f"an element of the {type(data).__name__} does not fit {target}")
        return numpy.array(data, target)
    return _numbers([float(one) for one in data], str(target))


def _table_column(data: Any, library: str) -> numpy.ndarray[Any, Any]:
    """The array of a column of pandas, polars or Arrow."""
    name = f"{library}'s {type(data).__qualname__}"
    if not hasattr(data, "to_numpy") or hasattr(data, "columns"):
        raise TypeError(f"{name} is no column: give the function one column of it")
    if library == "pandas":
        nulls = int(data.isna().sum())
        # Nullable numbers have objects as elements otherwise.
        numbers = getattr(data.dtype, "numpy_dtype", None)
        if numbers is not None and numbers.kind in "biuf" and (not nulls or numbers.kind == "f"):
            missing = {"na_value": numpy.nan} if nulls else {}
            return numpy.asarray(data.to_numpy(dtype=numbers, **missing))
        array = data.to_numpy()
        is_float = numbers.kind == "f" if numbers is not None else array.dtype.kind == "f"
    elif library == "polars":
        nulls = int(data.null_count())
        is_float = data.dtype.is_float()
        array = data.to_numpy()
    else:
        nulls = int(data.null_count)
        is_float = str(data.type) in ("halffloat", "float", "double")
        array = data.to_numpy(zero_copy_only=False) if hasattr(data, "buffers") else data.to_numpy()
    if nulls and not is_float and array.dtype.kind not in "mM":
        raise TypeError(f"{name} has nulls ({nulls}), and C's numbers have none: fill them, or drop their rows")
    return numpy.asarray(array)
