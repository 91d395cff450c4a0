"""Calls with values of all kinds, by prototypes, ctypes and cffi."""

import contextlib
import ctypes
import math
import os
import threading

import numpy
import pytest

import farcall


def test_numbers_of_each_type_cross(library):
    assert library["add"](1.5, 2) == 3.5
    assert library["twice"](-(2**40)) == -(2**41)
    assert library["narrow"](-127) == -128
    assert library["wide"](2**64 - 2) == 2**64 - 1
    assert library["single"](3) == 1.5
    assert library["not"](True) is False
    assert library["nothing"]() is None
    assert library["add"](numpy.float64(1), numpy.float32(0.5)) == 1.5
    assert library["twice"](numpy.int32(4)) == 8


def test_texts_and_bytes_are_copied_for_a_call(library, executor):
    assert library["length"]("grüße") == 7
    assert library["length"](b"ab\0cd") == 2
    assert library["first"](b"\xff") == 255
    assert library["first"](bytearray(b"\x07")) == 7
    address = library["greeting"]()
    assert executor.text_at(address) == b"hello"
    assert executor.bytes_at(address + 1, 3) == b"ell"
    assert library["same"](None) == 0
    assert library["same"](4096) == 4096


def test_structures_cross_by_value(library):
    turn = library["struct point turn(struct point)"]
    assert turn((1.0, 2.0)) == (-2.0, 1.0)
    assert turn({"x": 3, "y": 4}) == (-4.0, 3.0)
    assert turn(numpy.array([5.0, 6.0]).tobytes()) == (-6.0, 5.0)
    with pytest.raises(TypeError, match="argument 1"):
        turn((1.0,))


def test_functions_of_python_are_called_back(library):
    apply = library["int apply(int (*f)(int), int x)"]
    assert apply(lambda x: x + 3, 1) == 7
    assert apply(abs, -5) == 5


def test_what_a_callback_raises_the_call_raises(library):
    apply = library["apply"]

    def refuse(x):
        raise KeyError(x)

    with pytest.raises(KeyError, match="9"):
        apply(refuse, 9)
    with pytest.raises(TypeError):
        apply(lambda x: "no number", 9)
    with pytest.raises(OverflowError):
        apply(lambda x: 2**40, 9)
    assert apply(lambda x: x, 9) == 9


def test_callbacks_call_executors_in_turn(library):
    apply, twice = library["apply"], library["twice"]
    assert apply(lambda x: twice(x), 3) == 12
    assert apply(lambda x: apply(lambda y: y + 1, x), 3) == 7


def test_defined_functions_are_there_after_a_crash(executor):
    seen = []
    library = executor.library().define("long note(long)", lambda x: seen.append(x) or x + 1)
    library.compile_c("long note(long); long f(long x) { return note(x); } int die(void) { return *(volatile int *)8; }")
    assert library["f"](1) == 2
    with pytest.raises(farcall.ExecutorDied):
        library["die"]()
    assert library["f"](2) == 3
    assert seen == [1, 2]


def test_functions_of_a_shared_library_are_called(executor):
    """P7, U5: the library that has opened it finds them, in each executor."""
    maths = executor.add_shared("libm.so.6")
    floor = maths["double floor(double)"]
    assert floor(2.5) == 2
    with pytest.raises(farcall.LinkError, match="no_such_function"):
        maths["double no_such_function(double)"]
    crash = executor.compile_c("int crash(void) { return *(volatile int *)8; }")["crash"]
    with pytest.raises(farcall.ExecutorDied):
        crash()
    assert floor(8.5) == 8
    with pytest.raises(farcall.LinkError, match="floor"):
        executor.library()["double floor(double)"]
    own = executor.add_shared("libm.so.6").compile_c("double floor(double x) { return -x; }", ("-fno-builtin",))
    assert own["double floor(double)"](8) == -8, "an object of the library comes first"


def test_types_of_ctypes(library):
    add = library["add", ctypes.c_double, [ctypes.c_double, ctypes.c_double]]
    assert add(1, 2) == 3
    length = library["length", ctypes.c_size_t, [ctypes.c_char_p]]
    assert length("abc") == 3
    callback = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)
    apply = library["apply", ctypes.c_int, [callback, ctypes.c_int]]
    assert apply(lambda x: 2 * x, 3) == 12
    assert library["nothing", None, []]() is None
    with pytest.raises(TypeError, match="no type of ctypes"):
        library["add", int, []]


def test_types_of_cffi(library):
    cffi = pytest.importorskip("cffi")
    ffi = cffi.FFI()
    assert library["add", ffi.typeof("double(*)(double, double)")](1, 2) == 3
    assert library["length", ffi.typeof("size_t(*)(const char *)")]("abc") == 3
    assert library["apply", ffi.typeof("int(*)(int(*)(int), int)")](lambda x: x + 1, 3) == 5
    with pytest.raises(TypeError, match="no function"):
        library["add", ffi.typeof("int")]


def test_variables_keep_their_values_and_begin_anew_after_a_crash(library):
    count = library["count"]
    assert [count(), count()] == [1, 2]
    with pytest.raises(farcall.ExecutorDied):
        library["crash"](0)
    assert count() == 1


def test_the_lock_is_released_during_a_call(library):
    nap, ticks, done = library["nap"], [], threading.Event()

    def tick():
        while not done.is_set():
            ticks.append(1)
            done.wait(0.001)

    thread = threading.Thread(target=tick)
    thread.start()
    nap(0.3)
    done.set()
    thread.join()
    assert len(ticks) > 20


def test_a_timeout_ends_the_call_and_not_its_executor(library, executor):
    before, count = executor.pids, library["count"]
    assert count() == 1
    with pytest.raises(farcall.CallTimeout, match="did not return"):
        library["spin"](timeout=0.1)
    assert library["add"](1, 2, timeout=5) == 3
    assert (executor.pids, count()) == (before, 2)
    with pytest.raises(TimeoutError):
        library["spin"](timeout=0)
    with pytest.raises(ValueError):
        library["add"](1, 2, timeout=-1)
    with pytest.raises(TypeError, match="unexpected keyword"):
        library["add"](1, 2, wrong=1)


def test_an_executors_own_timeout_is_that_of_its_calls(object_bytes):
    with farcall.Executor(timeout=0.1) as executor:
        library = executor.add_object(object_bytes)
        with pytest.raises(farcall.CallTimeout):
            library["void spin(void)"]()
        library["void nap(double)"](0.3, timeout=None)


def test_deep_callbacks_on_a_small_stack_are_an_error(executor):
    """H8: the stack that is left bounds the depth, before the host overflows it."""
    apply = executor.compile_c("int apply(int (*f)(int), int x) { return f(x); }")["apply"]
    depths, outcome = [], []

    def deeper(x):
        depths.append(x)
        return apply(deeper, x + 1)

    def run():
        try:
            apply(deeper, 0)
        except Exception as raised:
            outcome.append(raised)

    for kib in (256, 900):
        before = threading.stack_size(kib << 10)
        try:
            thread = threading.Thread(target=run)
            thread.start()
            thread.join()
        finally:
            threading.stack_size(before)
        assert isinstance(outcome.pop(), (farcall.Error, RecursionError))
        assert apply(lambda x: x + 1, 1) == 2
    assert max(depths) > 3


def test_an_executor_that_follows_has_the_environment_of_the_first(executor):
    """H8: what the interpreter has set meanwhile does not count."""
    library = executor.compile_c(
        "#include <stdlib.h>\nconst char *get(const char *name) { return getenv(name); } void die(void) { abort(); }")
    get = library["get"]
    assert get("FARCALL_TEST_LATE") == 0
    os.environ["FARCALL_TEST_LATE"] = "1"
    try:
        with pytest.raises(farcall.ExecutorDied):
            library["die"]()
        assert get("FARCALL_TEST_LATE") == 0
    finally:
        del os.environ["FARCALL_TEST_LATE"]


def test_a_closed_executor_refuses_calls(object_bytes):
    executor = farcall.Executor()
    add = executor.add_object(object_bytes)["double add(double, double)"]
    assert add(1, 2) == 3
    (pid,) = executor.pids
    executor.close()
    executor.close()
    assert executor.closed and not executor.pids
    from conftest import is_running

    assert not is_running(pid)
    for use in (lambda: add(1, 2), lambda: executor.library(), lambda: executor.array(1), lambda: add.submit(1, 2)):
        with pytest.raises(ValueError, match="closed"):
            use()


def test_an_executor_with_a_name_is_published():
    def pages():
        targets = []
        for descriptor in os.listdir("/proc/self/fd"):
            with contextlib.suppress(FileNotFoundError):
                targets.append(os.readlink(f"/proc/self/fd/{descriptor}"))
        return sum("farcall-published" in target for target in targets)

    before = pages()
    with farcall.Executor(name="a notebook"):
        assert pages() == before + 1
    with pytest.raises(ValueError, match="name of 1 to 64 bytes"):
        farcall.Executor(name="")


def test_a_sandbox_holds(object_bytes, tmp_path):
    source = r"""
    #include <stdio.h>
    int writes(const char *path) { FILE *file = fopen(path, "w"); if (!file) return 0; fclose(file); return 1; }
    """
    with farcall.Executor(sandbox="isolated", allow_missing=True) as executor:
        assert executor.compile_c(source)["writes"](str(tmp_path / "a")) == 0
        assert executor.add_object(object_bytes)["double add(double, double)"](1, 2) == 3
    with farcall.Executor(sandbox="strict", memory="256M", allow_missing=True) as executor:
        assert executor.compile_c(source)["writes"](str(tmp_path / "a")) == 0
        crash = executor.add_object(object_bytes)["long crash(long)"]
        with pytest.raises(farcall.ExecutorDied):
            crash(0)
        assert crash(12) == 12
    with farcall.Executor() as executor:
        assert executor.compile_c(source)["writes"](str(tmp_path / "a")) == 1
    with pytest.raises(ValueError, match="sandbox"):
        farcall.Executor(sandbox="loose")
    with pytest.raises(ValueError, match="memory"):
        farcall.Executor(memory="much")


def test_either_side_may_poll_for_long_or_not_at_all(object_bytes):
    for spin in [0, 0.5]:
        with farcall.Executor(spin=spin) as executor:
            assert executor.add_object(object_bytes)["double add(double, double)"](1, 2) == 3
    for spin in [-1, math.nan, math.inf]:
        with pytest.raises(ValueError, match="seconds"):
            farcall.Executor(spin=spin)
