"""The interpreter's exit: daemon threads in calls, globals of a module whose function is defined in C, executors in cycles."""

import subprocess
import sys
import weakref

import pytest

import farcall
from conftest import is_running, until


def ends(program, *arguments):
    """Runs a program of Python, which has to end by itself, and returns its output."""
    ended = subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True, timeout=120)
    assert ended.returncode == 0, (ended.returncode, ended.stderr)
    return ended.stdout


DAEMONS = r"""
import sys, threading, time, farcall
executor = farcall.Executor()
library = executor.compile_c(
    "#include <unistd.h>\nint nap(int us) { usleep(us); return us; } int apply(int (*f)(int), int x) { return f(x); }")
nap, apply = library["nap"], library["apply"]
def napping():
    while True: nap(1000)
def sleeping():
    while True: apply(lambda x: time.sleep(x / 1e4), 20)
def counting():
    def count(x):
        for _ in range(x * 1000): pass
        return x
    while True: apply(count, 50)
def submitting():
    while True: nap.submit(1000).result()
work = {"nap": napping, "sleep": sleeping, "count": counting, "submit": submitting}[sys.argv[1]]
for _ in range(4):
    threading.Thread(target=work, daemon=True).start()
time.sleep(0.3)
print("over", flush=True)
"""


@pytest.mark.parametrize("work", ["nap", "sleep", "count", "submit"])
def test_daemon_threads_in_calls_do_not_abort_the_exit(work):
    """H5: CPython ends such threads by unwinding their stacks, in which frames of Rust lie."""
    for _ in range(3):
        assert ends(DAEMONS, work) == "over\n"


GLOBALS = """
import farcall
file = open({path!r}, "w")
file.write("text")
executor = farcall.Executor()
def note(x):
    return x + 1
library = executor.library().define("long note(long)", note)
library.compile_c("long note(long); long f(long x) {{ return note(x); }}")
f = library["f"]
assert f(1) == 2
print(*executor.pids)
"""


def test_globals_of_a_module_are_finalized_though_c_calls_its_function(tmp_path):
    """H3: the function refers to the module, and the module to the executor."""
    path = tmp_path / "text"
    (pid,) = map(int, ends(GLOBALS.format(path=str(path))).split())
    assert path.read_text() == "text", "the file was closed, so it is written"
    until(lambda: not is_running(pid))


def test_an_executor_in_a_closure_of_its_own_function_is_collected():
    """H3: without the collector's knowledge the process would stay."""
    import gc

    def make():
        executor = farcall.Executor()
        library = executor.library()

        class Marker:
            pass

        marker = Marker()

        def note(x):
            assert marker and executor and library
            return x + 1

        library.define("long note(long)", note).compile_c("long note(long); long f(long x) { return note(x); }")
        f = library["f"]
        marker.f = f
        assert f(1) == 2
        return weakref.ref(marker), executor.pids

    gc.collect()
    marker, (pid,) = make()
    gc.collect()
    assert marker() is None
    until(lambda: not is_running(pid))


def test_a_defined_function_lives_as_long_as_what_can_call_it():
    import gc

    def make():
        executor = farcall.Executor()
        add = [100]
        library = executor.library().define("long note(long)", lambda x: x + add[0])
        return library.compile_c("long note(long); long f(long x) { return note(x); }")["f"]

    f = make()
    gc.collect()
    assert f(1) == 101
    assert f.submit(2).result(10) == 102


def test_what_was_cleared_or_refused_is_not_kept(executor):
    class Function:
        def __call__(self, x):
            return x

    library = executor.library()
    first, second = Function(), Function()
    library.define("long note(long)", first)
    with pytest.raises(farcall.LinkError):
        library.define("long note(long)", second)
    references = weakref.ref(first), weakref.ref(second)
    del first, second
    assert references[0]() is not None and references[1]() is None
    library.clear()
    assert references[0]() is None
