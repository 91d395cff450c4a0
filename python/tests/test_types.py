"""Types of parameters against kinds of arguments: what is not alike is refused, and never read as something else.

Each row has a parameter, what it takes with the result of the function, and what it refuses. H7.
"""

import array
import ctypes
import os

import numpy
import pytest

import farcall

SOURCE = r"""
#include <stddef.h>
#include <stdint.h>
#include <string.h>
struct pair { double a; int32_t b; };
struct named { char name[8]; double rows[2][2]; struct pair pair; };
double doubles(const double *x, size_t n) { double sum = 0; while (n--) sum += *x++; return sum; }
double singles(const float *x, size_t n) { double sum = 0; while (n--) sum += *x++; return sum; }
double longs(const int64_t *x, size_t n) { double sum = 0; while (n--) sum += (double)*x++; return sum; }
double bytes(const uint8_t *x, size_t n) { double sum = 0; while (n--) sum += *x++; return sum; }
double truths(const _Bool *x, size_t n) { double sum = 0; while (n--) sum += *x++; return sum; }
double rows(const double (*x)[3], size_t n) { double sum = 0; while (n--) { sum += (*x)[0]; x++; } return sum; }
double pairs(const struct pair *x, size_t n) { double sum = 0; while (n--) { sum += x->a + x->b; x++; } return sum; }
double nested(const struct named *x, size_t n) { (void)n; return x->rows[1][0] + x->pair.b + x->name[0]; }
double raw(const void *x, size_t n) { return bytes(x, n); }
double text(const char *x, size_t n) { (void)n; return (double)strlen(x); }
double closed(const struct closed *x, size_t n) { return bytes((const void *)x, n); }
double addresses(const double *const *x, size_t n) { (void)n; return x[0] == 0; }
typedef double lanes __attribute__((vector_size(16)));
double vectors(const lanes *x, size_t n) { double sum = 0; while (n--) { sum += (*x)[0]; x++; } return sum; }
"""

PAIR = numpy.dtype([("a", "<f8"), ("b", "<i4")], align=True)
NAMED = numpy.dtype([("name", "S8"), ("rows", "<f8", (2, 2)), ("pair", PAIR)], align=True)


def records(fields, **options):
    dtype = numpy.dtype(fields, **options)
    one = numpy.zeros(1, dtype)
    return one


def named():
    one = numpy.zeros(1, NAMED)
    one["name"], one["rows"], one["pair"]["b"] = b"\x01", [[1, 2], [3, 4]], 5
    return one


def masked():
    return numpy.ma.array([1.0, 2.0], mask=[False, True])


TWO = numpy.array([1.0, 2.0])
TEXTS = ["ab", "ü"]
BYTES = [b"\x01\x02", bytearray(b"\x01\x02")]
OTHER_NUMBERS = [TWO.astype(kind) for kind in ("<f4", ">f8", "<i8", "|u1", "|b1", "<c16", "<f2", "O", "<U3", "<M8[s]")]

# Parameter and function; pairs of an argument, the number that is passed with it, and the result; what is refused.
TABLE = [
    (
        "const double *x", "doubles",
        [(TWO, 2, 3), ([1, 2.5], 2, 3.5), (TWO.tobytes(), 2, 3), ((ctypes.c_double * 2)(1, 2), 2, 3), (array.array("d", [4]), 1, 4),
         (TWO.reshape(1, 2), 2, 3), (numpy.ma.array([1.0, 2.0]), 2, 3), (numpy.array(5.0), 1, 5)],
        [*TEXTS, b"1234567", *OTHER_NUMBERS, masked(), ["a"], [1, None], [1j], True, 1.5, object(), {1: 2}, numpy.float64(1),
         array.array("f", [4]), (ctypes.c_float * 2)(1, 2), numpy.zeros(2, PAIR), TWO[::-1], [10**400]],
    ),
    (
        "const float *x", "singles",
        [(TWO.astype("<f4"), 2, 3), ([1, 2], 2, 3), (numpy.float32(3).tobytes(), 1, 3)],
        [TWO, [1e39], "abcd", numpy.zeros(2, "<i4")],
    ),
    (
        "const int64_t *x", "longs",
        [(numpy.arange(3), 3, 3), ([1, -2], 2, -1), (numpy.array([7], "<M8[ns]"), 1, 7), (numpy.array([7], "<m8[s]"), 1, 7), ([], 0, 0)],
        [TWO, [1.5], [2**63], numpy.arange(3, dtype="<u8"), numpy.arange(3, dtype=">i8"), "12345678", numpy.zeros(1, "<i4")],
    ),
    (
        "const uint8_t *x", "bytes",
        [(numpy.array([1, 2], "u1"), 2, 3), (b"\x01\x02", 2, 3), ("\x01\x02", 2, 3), ([200, 55], 2, 255), (memoryview(b"\x03"), 1, 3)],
        [numpy.array([1], "i1"), [256], [-1], numpy.array([b"a"]), TWO],
    ),
    ("const _Bool *x", "truths", [(numpy.array([True, False]), 2, 1), ([True, True], 2, 2)], [[1, 0], numpy.zeros(2, "u1"), TWO, "a"]),
    (
        "const double (*x)[3]", "rows",
        [(numpy.arange(6.0).reshape(2, 3), 2, 3), (numpy.arange(6.0), 2, 3), ([[1, 2, 3], [4, 5, 6]], 2, 5), (bytes(24), 1, 0)],
        [numpy.arange(6.0).reshape(3, 2), numpy.arange(4.0), numpy.arange(6).reshape(2, 3), numpy.arange(6, dtype="<f4").reshape(2, 3),
         numpy.arange(6, dtype=">f8"), bytes(8), "a" * 24],
    ),
    ("const double x[][3]", "rows", [(numpy.arange(6.0).reshape(2, 3), 2, 3)], [numpy.arange(6.0).reshape(3, 2)]),
    (
        "const struct pair *x", "pairs",
        [(numpy.array([(1, 2), (3, 4)], PAIR), 2, 10), (numpy.array([(1, 2)], numpy.dtype("f8,i4", align=True)), 1, 3),
         (numpy.array([(1, 2)], PAIR).view("u1"), 1, 3), (numpy.array([(1, 2)], PAIR).tobytes(), 1, 3),
         (numpy.array([(1, 2, b"")], [("a", "<f8"), ("b", "<i4"), ("end", "V4")]), 1, 3)],
        [records([("a", "<f8"), ("b", "<i8")]), records([("a", "<f8"), ("b", "<f4")], align=True), records([("b", "<f8"), ("a", "<i4")], align=True),
         records([("a", ">f8"), ("b", "<i4")], align=True), records([("a", "<f8"), ("b", "<i4")]), records([("b", "<i4"), ("a", "<f8")], align=True),
         records([("a", "<f8"), ("b", "<i4"), ("c", "<i4")]), records([("a", "<f8")]), numpy.zeros(2), numpy.zeros(16, "i1"), bytes(15),
         "a" * 16, numpy.zeros(15, "u1"), [(1, 2)]],
    ),
    (
        "const struct named *x", "nested",
        [(named(), 1, 9)],
        [records([("name", "S9"), ("rows", "<f8", (2, 2)), ("pair", PAIR)], align=True),
         records([("name", "S8"), ("rows", "<f8", (4,)), ("pair", PAIR)], align=True),
         records([("name", "S8"), ("rows", "<i8", (2, 2)), ("pair", PAIR)], align=True),
         records([("name", "S8"), ("rows", "<f8", (2, 2)), ("pair", "f8,f8")], align=True)],
    ),
    ("const void *x", "raw", [(TWO, 0, 0), ("\x01", 1, 1), (b"\x02", 1, 2), (numpy.array([3], "<i4"), 1, 3)], [numpy.uint64(1), [1], TWO.astype("O"), True]),
    (
        "const char *x", "text",
        [("ab", 0, 2), (b"abc", 0, 3), ("ü", 0, 2), (os.fsdecode(b"\xff\xfe"), 0, 2), (numpy.array([b"abcd"], "S5"), 0, 4)],
        ["\ud800", "a\0b", numpy.array(["a"]), TWO],
    ),
    ("const struct closed *x", "closed", [(b"\x05", 1, 5), (numpy.array([5], "u1"), 1, 5)], [TWO, numpy.zeros(1, PAIR), "a"]),
    ("const double *const *x", "addresses", [(numpy.array([0], "u8"), 0, 1)], [TWO, numpy.array([1]), "a"]),
    (
        "const __m128d *x", "vectors",
        [(numpy.arange(4.0), 2, 2), (numpy.arange(4.0).reshape(2, 2), 2, 2)],
        [numpy.arange(3.0), numpy.arange(4, dtype="<f4"), numpy.arange(4), numpy.arange(4, dtype=">f8")],
    ),
]
CASES = [pytest.param(*row, id=row[0]) for row in TABLE]


@pytest.fixture(scope="module")
def types():
    with farcall.Executor() as executor:
        executor.declare("struct pair { double a; int32_t b; }; struct named { char name[8]; double rows[2][2]; struct pair pair; };")
        # The declared types are compared here, so the object need not tell them as well.
        yield executor, executor.compile_c("struct closed;" + SOURCE, ("-O1",))


@pytest.mark.parametrize(("parameter", "name", "taken", "refused"), CASES)
def test_a_pointer_takes_what_it_leads_to_and_nothing_else(types, parameter, name, taken, refused):
    executor, library = types
    function = library[f"double {name}({parameter}, size_t n)"]
    for argument, number, due in taken:
        assert function(argument, number) == due, argument
        if isinstance(argument, numpy.ndarray) and type(argument) is numpy.ndarray:
            assert function(executor.copy(argument), number) == due, "in place as well"
    for argument in refused:
        with pytest.raises((TypeError, ValueError, OverflowError)) as caught:
            function(argument, 0)
        assert "argument 1" in str(caught.value), argument


def test_what_may_be_written_is_compared_as_well(types):
    executor, library = types
    function = library["double rows(double (*x)[3], size_t n)"]
    assert function(executor.array((2, 3)), 2) == 0
    for wrong in (executor.array((3, 2)), executor.array((2, 3), "i8"), executor.array(4)):
        with pytest.raises(TypeError, match="argument 1"):
            function(wrong, 1)


def test_numbers_that_do_not_fit_are_refused(executor):
    library = executor.compile_c("float half(float x) { return x / 2; } double same(double x) { return x; } signed char c(signed char x) { return x; }")
    half, same = library["half"], library["same"]
    assert half(3.4e38) == pytest.approx(1.7e38) and half(float("inf")) == float("inf") and half(1e-50) == 0
    assert same(numpy.float32(1.5)) == 1.5 and same(numpy.array(2)) == 2
    for wrong, error in [(1e39, OverflowError), (-1e39, OverflowError), (10**400, OverflowError), (numpy.complex128(1 + 2j), TypeError), (1j, TypeError), ("1", TypeError)]:
        with pytest.raises(error):
            half(wrong)
    with pytest.raises(TypeError):
        same(numpy.ma.masked)
    assert library["c"](b"a") == 97
    with pytest.raises(TypeError):
        library["c"](b"ab")


class Point(ctypes.Structure):
    _fields_ = [("x", ctypes.c_double), ("y", ctypes.c_double)]


class Box(ctypes.Structure):
    _fields_ = [("corners", Point * 2), ("name", ctypes.c_char * 4), ("kind", ctypes.c_char)]


def test_structures_of_ctypes_and_records_are_values(executor):
    """P15: by the names of their fields, so those of others are refused."""
    library = executor.compile_c(
        "struct Point { double x, y; }; struct Box { struct Point corners[2]; char name[4]; char kind; };"
        "struct Point turn(struct Point p) { return (struct Point){-p.y, p.x}; }"
        "double area(struct Box b) { return (b.corners[1].x - b.corners[0].x) * (b.corners[1].y - b.corners[0].y) + b.name[0] + b.kind; }"
        "double sum(const struct Point *p) { return p->x + p->y; }"
    )
    turn = library["turn", Point, [Point]]
    assert turn(Point(1, 2)) == (-2, 1)
    assert turn(numpy.array([(1, 2)], [("x", "f8"), ("y", "f4")])[0]) == (-2, 1)
    area = library["area", ctypes.c_double, [Box]]
    assert area(Box((Point(1, 1), Point(3, 4)), b"ab", b"\x01")) == 6 + 97 + 1
    executor.declare("struct Point { double x, y; };")
    assert library["double sum(const struct Point *)"]((Point * 1)(Point(1, 2))) == 3
    assert library["sum", ctypes.c_double, [ctypes.POINTER(Point)]](executor.array(1, [("x", "f8"), ("y", "f8")])) == 0

    class Other(ctypes.Structure):
        _fields_ = [("x", ctypes.c_double), ("z", ctypes.c_double)]

    class More(ctypes.Structure):
        _fields_ = [("x", ctypes.c_double), ("y", ctypes.c_double), ("z", ctypes.c_double)]

    class Union(ctypes.Union):
        _fields_ = Point._fields_

    for wrong in (Other(1, 2), More(1, 2, 3), Union(), {"x": 1, "y": 2, "z": 3}, {"x": 1}, (1,), "ab", ctypes.c_double(1)):
        with pytest.raises(TypeError, match="argument 1"):
            turn(wrong)

    class Packed(ctypes.Structure):
        _pack_ = 1
        _layout_ = "ms"
        _fields_ = [("a", ctypes.c_char), ("b", ctypes.c_double)]

    class Swapped(ctypes.BigEndianStructure):
        _fields_ = [("a", ctypes.c_double)]

    for wrong in (Packed, Swapped, ctypes.c_double.__ctype_be__):
        with pytest.raises(TypeError):
            library["turn", Point, [wrong]]


@pytest.mark.parametrize("library_name", ["pandas", "polars", "pyarrow"])
def test_columns_of_tables_are_read_and_their_nulls_refused(types, library_name):
    """P10: a null of an integer would be a number."""
    tables = pytest.importorskip(library_name)
    column = tables.array if library_name == "pyarrow" else tables.Series
    doubles, longs = (types[1][f"double {name}(const {kind} *, size_t)"] for name, kind in [("doubles", "double"), ("longs", "int64_t")])
    assert doubles(column([1.0, 2.5]), 2) == 3.5
    assert longs(column([1, 2]), 2) == 3
    missing = doubles(column([1.0, None]), 2)
    assert missing != missing, "a null of a floating-point column is NaN"
    nullable = column([1, None], dtype="Int64") if library_name == "pandas" else column([1, None])
    for wrong in (nullable, column(["a"]), column([1.0])):
        with pytest.raises(TypeError, match="argument 1"):
            longs(wrong, 1)
    with pytest.raises(TypeError, match="nulls"):
        types[0].copy(nullable)


def test_masked_arrays_are_not_copied_without_their_masks(executor):
    with pytest.raises(TypeError, match="masked"):
        executor.copy(masked())
    assert executor.copy(numpy.ma.array([1.0])).tolist() == [1]
