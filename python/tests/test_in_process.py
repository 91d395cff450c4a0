"""Executors in the interpreter's own process: the same results as in another, what is refused, threads, forks and exits."""

import asyncio
import ctypes
import errno
import gc
import os
import subprocess
import sys
import textwrap
import threading
import time

import numpy
import pytest
from conftest import SOURCE, descriptors, resident_kib, threads

import farcall

PROGRAM = SOURCE + r"""
int ask(int);
int asks(int x) { return ask(x) + 1; }
int process_id(void) { return getpid(); }
"""


@pytest.fixture
def here():
    with farcall.Executor(in_process=True) as executor:
        yield executor


def outcome(call):
    """What a call returns, or the class and the text of what it raises."""
    try:
        result = call()
    except Exception as raised:
        return type(raised).__name__, str(raised)
    return result.tolist() if isinstance(result, numpy.ndarray) else result


def program(**options):
    """One program, and all that it finds out."""

    def raises(x):
        raise KeyError(f"no {x}")

    with farcall.Executor(**options) as executor:
        executor.declare("struct point { double x, y; };")
        library = executor.library().define("int ask(int)", lambda x: raises(x) if x < 0 else 10 * x)
        library.compile_c(PROGRAM)
        assert (library["int process_id(void)"]() == os.getpid()) == options.get("in_process", False)
        x = executor.array(1000)
        x[:] = numpy.arange(1000)
        points = executor.copy(numpy.array([(1, 2), (3, 4)], [("x", "f8"), ("y", "f8")]))
        said = [
            library["double add(double, double)"](1, 2.5),
            library["int8_t narrow(int8_t)"](-5),
            library["size_t length(const char *)"]("hello"),
            executor.text_at(library["const char *greeting(void)"]()),
            library["long count(void)"](),
            library["long count(void)"](),
            library["struct point turn(struct point)"]((1, 2)),
            outcome(lambda: library["void scale(double *, size_t, double)"](x, len(x), 2.0)),
            x[-3:].tolist(),
            library["double sum(const double *, size_t)"](x, len(x)),
            # A copy is made for the call.
            library["double sum(const double *, size_t)"](numpy.arange(10.0), 10),
            outcome(lambda: library["void scale(double *, size_t, double)"](numpy.arange(10.0), 10, 2.0)),
            library["int asks(int)"](4),
            outcome(lambda: library["int asks(int)"](-4)),
            library["int asks(int)"](5),
            library["int apply(int (*f)(int), int x)"](lambda n: n + 3, 1),
            outcome(lambda: library["int apply(int (*f)(int), int x)"](raises, 1)),
            library["int asks(int)"].submit(6).result(30),
            outcome(lambda: library["int asks(int)"].submit(-6).result(30)),
            library["int apply(int (*f)(int), int x)"].submit(lambda n: n + 3, 2).result(30),
            outcome(lambda: library["double nowhere(void)"]),
            outcome(lambda: library["long twice(long)"]("text")),
            asyncio.run(awaited(library["long twice(long)"])),
        ]
        library["void turn_all(struct point *, size_t)"](points, 2)
        said += [points.tolist(), executor.text_at(library["void *same(void *)"](x.ctypes.data))]
        library.clear()
        said.append(outcome(lambda: library.function("long count(void)")))
    said.append(outcome(lambda: library["double add(double, double)"](1, 2)))
    said.append(x[-1])
    return said


async def awaited(twice):
    return await asyncio.gather(*[twice.submit(n) for n in range(20)])


def test_one_option_moves_the_program():
    there, here = program(), program(in_process=True)
    assert here == there
    assert here[0] == 3.5 and ("KeyError", "'no -4'") in here


@pytest.mark.parametrize(
    "option",
    [
        {"processes": 2},
        {"sandbox": "isolated"},
        {"memory": "256M"},
        {"cpu_seconds": 1},
        {"allow_missing": True},
        {"timeout": 1.0},
        {"link_timeout": 1.0},
        {"standby": True},
    ],
    ids=lambda option: next(iter(option)),
)
def test_options_that_need_a_process_are_refused_by_name(option):
    (name,) = option
    with pytest.raises(ValueError, match=f"option {name} needs a process of the executor's own.*without in_process=True"):
        farcall.Executor(in_process=True, **option)


def test_what_ends_a_call_or_a_process_is_refused_by_name(here):
    library = here.compile_c(SOURCE)
    twice, spin = library["long twice(long)"], library["void nap(double)"]
    for name, refused in [
        ("Executor.kill", here.kill),
        ("Executor.restart", here.restart),
        ("Executor.interrupt_all", here.interrupt_all),
        ("Executor.pids", lambda: here.pids),
        ("a call with a timeout", lambda: twice(1, timeout=1)),
        ("a call with a timeout", lambda: twice.submit(1, timeout=1)),
    ]:
        with pytest.raises(ValueError, match=f"{name} needs a process of the executor's own.*without in_process=True"):
            refused()
    with pytest.raises(ValueError, match="precede_libraries needs a process"):
        here.library().precede_libraries()
    submitted = spin.submit(0.2)
    with_function = library["int apply(int (*f)(int), int x)"].submit(lambda n: time.sleep(0.1) or n + 1, 1)
    assert not submitted.cancel() and not with_function.cancel()
    assert submitted.result(30) is None and with_function.result(30) == 3
    assert twice(4) == 8 and not here.closed


def test_a_program_of_its_own_is_not_started():
    with farcall.Executor(in_process=True, program="/no/such/program", name="here", spin=0.0) as executor:
        assert executor.compile_c("int getpid(void); int pid(void) { return getpid(); }")["int pid(void)"]() == os.getpid()


def test_thread_locals_of_native_code_are_refused(here):
    source = "static __thread long own = 7; long own_next(void) { return ++own; }"
    with pytest.raises(farcall.LimitError, match="thread-locals wanted.*its library was loaded by dlopen"):
        here.compile_c(source)["own_next"]
    # Those of libraries are as natively.
    fails = here.compile_c("#include <errno.h>\n#include <unistd.h>\nint fails(void) { return close(-1) == -1 ? errno : 0; }")["fails"]
    assert fails() == errno.EBADF
    with farcall.Executor() as elsewhere:
        assert elsewhere.compile_c(source)["own_next"]() == 8


def test_jit_c_and_kernels_run_here(here):
    @farcall.jit_c(executor=here)
    def process_id():
        """#include <stdio.h>
        #include <unistd.h>
        int process_id(void) { fflush(stderr); return getpid(); }"""

    assert process_id() == os.getpid()
    kernel = farcall.Kernel(
        "void twice(const double *x, double *y, size_t rows)",
        source="""#include <stdio.h>
        void twice(const double *x, double *y, size_t rows) { fflush(stderr); while (rows--) *y++ = 2 * *x++; }""",
        in_process=True,
    )
    assert kernel([1.0, 2.5]).tolist() == [2.0, 5.0]
    kernel.close()


def test_calls_leave_the_interpreter_to_other_threads(here):
    nap = here.compile_c(SOURCE)["void nap(double)"]
    sleeper = threading.Thread(target=nap, args=(1.0,))
    begun = time.monotonic()
    sleeper.start()
    turns = 0
    while sleeper.is_alive():
        turns += 1
        time.sleep(0.001)
    assert time.monotonic() - begun < 20 and turns > 50
    each = [threading.Thread(target=nap, args=(0.5,)) for _ in range(8)]
    begun = time.monotonic()
    for thread in each:
        thread.start()
    for thread in each:
        thread.join()
    assert time.monotonic() - begun < 3, "they nap at the same time"


def test_eight_threads_call_and_are_called_back(here):
    owners = set()

    def ask(x):
        owners.add(threading.get_ident())
        if x % 10 == 0:
            raise ValueError(f"no {x}")
        return x

    asks = here.library().define("int ask(int)", ask).compile_c(PROGRAM)["int asks(int)"]
    failures = []

    def work(first):
        for x in range(first, first + 500):
            try:
                if asks(x) != x + 1 or x % 10 == 0:
                    failures.append(x)
            except ValueError as raised:
                if x % 10 != 0 or str(raised) != f"no {x}":
                    failures.append(raised)

    workers = [threading.Thread(target=work, args=(1000 * at,)) for at in range(8)]
    for worker in workers:
        worker.start()
    idents = {worker.ident for worker in workers}
    for worker in workers:
        worker.join()
    assert not failures
    assert owners <= idents, "a function of Python runs on the thread that calls"


def test_native_code_uses_the_interpreter_with_its_lock(here):
    source = """
    int PyGILState_Ensure(void);
    void PyGILState_Release(int);
    int PyGILState_Check(void);
    int PyRun_SimpleString(const char *);
    int run(const char *text) {
        int without = PyGILState_Check(), had = PyGILState_Ensure();
        int failed = PyRun_SimpleString(text);
        PyGILState_Release(had);
        return without ? -1 : failed;
    }"""
    assert here.compile_c(source)["run"]("import sys; sys.seen_in_process = 42") == 0
    assert sys.seen_in_process == 42
    with farcall.Executor() as elsewhere, pytest.raises(farcall.LinkError, match="PyGILState"):
        elsewhere.compile_c(source)["run"]


def test_a_pointer_is_an_address_for_ctypes(here):
    library = here.library().define("int ask(int)", lambda x: 10 * x).compile_c(PROGRAM)
    add = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double, ctypes.c_double)(library["double add(double, double)"].pointer())
    asks = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)(library["int asks(int)"].pointer())
    assert add(1, 2.5) == 3.5 and asks(4) == 41
    with farcall.Executor() as elsewhere, pytest.raises(ValueError, match="the function is in another process"):
        elsewhere.compile_c(SOURCE)["long twice(long)"].pointer()


def test_a_forked_child_is_refused_and_the_parent_goes_on(here):
    library = here.compile_c(SOURCE)
    count, twice = library["long count(void)"], library["long twice(long)"]
    pointer = ctypes.CFUNCTYPE(ctypes.c_long)(count.pointer())
    assert count() == 1
    child = os.fork()
    if child == 0:
        status = 1
        try:
            twice(2)
        except ValueError as raised:
            # The code is there, with variables of the child's own. So is an executor that the child starts.
            with farcall.Executor(in_process=True) as own:
                did = own.compile_c(SOURCE)["long twice(long)"](4) == 8
            status = 0 if "forked" in str(raised) and pointer() == 2 and pointer() == 3 and did else 2
        except BaseException:
            status = 3
        os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
    assert count() == 2 and twice(3) == 6


def run(text):
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(text)], capture_output=True, text=True, timeout=120, check=False
    )


@pytest.mark.parametrize("end", ["pass", "executor.close()", "del executor, library, f", "import sys; sys.exit(0)"])
def test_the_interpreters_exit_is_clean(end):
    ended = run(f"""
        import farcall
        executor = farcall.Executor(in_process=True)
        library = executor.library().define("int ask(int)", lambda x: x + 1)
        f = library.compile_c('#include <stdio.h>\\nint ask(int); int f(int x) {{ printf("native\\\\n"); return ask(x); }}')["f"]
        print(f(1), flush=True)
        {end}
    """)
    assert (ended.returncode, sorted(ended.stdout.split()), ended.stderr) == (0, ["2", "native"], "")


def test_daemon_threads_in_calls_do_not_hold_the_exit():
    ended = run("""
        import farcall, threading, time
        executor = farcall.Executor(in_process=True)
        library = executor.library().define("int ask(int)", lambda x: x + 1)
        f = library.compile_c("int ask(int); int f(int x) { for (;;) ask(x); }")["f"]
        for _ in range(4):
            threading.Thread(target=f, args=(1,), daemon=True).start()
        time.sleep(0.3)
        print("ends", flush=True)
    """)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "ends\n", "")


def test_a_crash_is_the_interpreters():
    ended = run("""
        import farcall
        farcall.Executor(in_process=True).compile_c("int crash(void) { return *(volatile int *)8; }")["crash"]()
    """)
    assert ended.returncode == -11


def test_ctrl_c_is_seen_when_the_call_has_returned():
    ended = run("""
        import farcall, _thread, threading, time
        nap = farcall.Executor(in_process=True).compile_c(
            "int usleep(unsigned); void nap(unsigned us) { for (us /= 1000; us--;) usleep(1000); }")["nap"]
        threading.Timer(0.2, _thread.interrupt_main).start()
        begun = time.monotonic()
        try:
            nap(1000000)
            time.sleep(10)
        except KeyboardInterrupt:
            print(time.monotonic() - begun > 0.9)
    """)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "True\n", "")


def test_executors_come_and_go_and_leave_nothing():
    def cycle():
        with farcall.Executor(in_process=True) as executor:
            library = executor.library().define("int ask(int)", lambda x: 10 * x).compile_c(PROGRAM)
            x = executor.copy([1.0, 2.0])
            assert library["int asks(int)"](1) == 11 and library["double sum(const double *, size_t)"](x, 2) == 3

    for _ in range(5):
        cycle()
    gc.collect()
    before = descriptors(), threads(), resident_kib()
    for _ in range(50):
        cycle()
    gc.collect()
    assert (descriptors(), threads()) == before[:2]
    assert resident_kib() < before[2] + 20_000
