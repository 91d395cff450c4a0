"""Arrays in memory that executors map."""

import gc

import numpy
import pytest

import farcall
from conftest import resident_kib


def test_an_array_is_used_in_place(library, executor):
    x = executor.array(1000)
    assert not x.any()
    x[:] = 1
    assert library["scale"](x, len(x), 2.5) is None
    assert x.sum() == 2500
    half = x[500:]
    library["scale"](half, len(half), 2)
    assert x.sum() == 3750
    assert library["sum"](x[:3], 3) == 7.5


def test_shapes_and_types(executor):
    for shape, dtype in [((2, 3), "int32"), ((), "float32"), (0, "int8"), ((4, 0), "complex128"), (7, "S5")]:
        x = executor.array(shape, dtype)
        assert x.shape == (shape if isinstance(shape, tuple) else (shape,))
        assert x.dtype == dtype and x.flags.writeable and x.flags.c_contiguous
    for shape, dtype, error in [(-1, float, ValueError), (1, object, TypeError), (1.5, float, TypeError)]:
        with pytest.raises(error):
            executor.array(shape, dtype)
    with pytest.raises(farcall.LimitError):
        executor.array(1 << 60, "int8")


def test_an_array_of_most_of_the_memory_fits_behind_a_tiny_one(executor):
    """H8."""
    tiny = executor.array(1)
    large = executor.array(48 << 30, "u1")
    large[0] = large[-1] = tiny[0] = 1
    with pytest.raises(farcall.LimitError):
        executor.array(48 << 30, "u1")


def test_large_pages(library, executor):
    x = executor.array(1 << 19, large_pages=True)
    assert not x.any()
    x[:] = 1
    library["scale"](x, len(x), 2)
    assert x.sum() == 2 * len(x)
    assert executor.array(3, large_pages=True).tolist() == [0, 0, 0]


def test_records_are_structures(library, executor):
    points = executor.array(3, [("x", "f8"), ("y", "f8")])
    points["x"], points["y"] = 1, 2
    library["void turn_all(struct point *, size_t)"](points, len(points))
    assert points.tolist() == [(-2.0, 1.0)] * 3
    with pytest.raises(TypeError, match="V24"):
        library["turn_all"](executor.array(3, "f8,f8,f8"), 3)


def test_an_array_outlives_its_executor(object_bytes):
    with farcall.Executor() as executor:
        library = executor.add_object(object_bytes)
        x = executor.array(3)
        x[:] = [1, 2, 3]
        with pytest.raises(farcall.ExecutorDied):
            library["long crash(long)"](0)
        library["void scale(double *, size_t, double)"](x, 3, 2)
        assert x.tolist() == [2, 4, 6]
    del executor, library
    gc.collect()
    x[0] = 7
    assert x.tolist() == [7, 4, 6]


def test_other_arrays_are_copied_if_they_are_only_read(library, executor):
    x = numpy.arange(10.0)
    assert library["sum"](x, len(x)) == 45
    assert library["first"](numpy.array([3], "u1")) == 3
    with pytest.raises(TypeError, match="Executor.array"):
        library["scale"](x, len(x), 2)
    with farcall.Executor() as other:
        with pytest.raises(TypeError, match="Executor.array"):
            library["scale"](other.array(3), 3, 2)


def test_wrong_arrays_are_refused(library, executor):
    scale = library["scale"]
    x = executor.array((4, 4))
    with pytest.raises(TypeError, match="<f4"):
        scale(executor.array(3, "float32"), 3, 1)
    with pytest.raises(TypeError, match="<i8"):
        library["sum"](numpy.arange(3), 3)
    with pytest.raises(ValueError, match="contiguous"):
        scale(x[:, 1], 4, 1)
    x.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        scale(x, 16, 1)
    assert library["sum"](x, 16) == 0
    for wrong in ("text", b"bytes", 1.5, [1.0], object(), memoryview(b"12345678")):
        with pytest.raises(TypeError, match="argument 1"):
            scale(wrong, 1, 1)
    with pytest.raises(ValueError, match="zero character"):
        library["length"]("a\0b")


def test_freed_arrays_are_refused(library, executor):
    x = executor.array(1 << 20)
    x[:] = 3
    view = x[5:10]
    executor.free(view)
    assert not x.any(), "the memory is gone, and reading it does no harm"
    for array in (x, view):
        with pytest.raises(ValueError, match="freed"):
            library["scale"](array, len(array), 2)
    with pytest.raises(ValueError, match="has not made"):
        executor.free(numpy.zeros(3))


def test_memory_comes_back_when_arrays_are_dropped(executor):
    def round():
        for _ in range(50):
            executor.array(1 << 20)[:] = 1

    round()
    gc.collect()
    before = resident_kib()
    round()
    gc.collect()
    assert resident_kib() < before + 20_000
    assert not executor.array(1 << 20).any(), "memory that is used again is zero"


def test_buffers_dlpack_and_arrow(library, executor):
    x = executor.copy(range(5))
    assert x.dtype == int and bytes(memoryview(x))[8] == 1
    y = numpy.from_dlpack(executor.copy([1.5, 2.5]))
    assert y.tolist() == [1.5, 2.5]
    arrow = pytest.importorskip("pyarrow")
    column = executor.copy(arrow.array([1.0, 2.0, 4.0]))
    table = farcall.to_arrow(column)
    library["scale"](column, 3, 2)
    assert table.to_pylist() == [2.0, 4.0, 8.0], "the same memory"
    assert table.type == arrow.float64()
