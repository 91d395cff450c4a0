"""What tools read: annotations, signatures, prototypes in messages."""

import inspect
import pydoc
import subprocess
import sys

import pytest

import farcall

GOOD = """
import farcall, numpy
with farcall.Executor(sandbox="strict", memory="256M", processes=2, timeout=1.5) as executor:
    library = executor.compile_c("int f(void) { return 1; }").define("int g(int)", lambda x: x)
    number: int = library["f"]()
    name: str = library["int f(void)"].__name__
    x = executor.array((2, 3), "f4")
    x[:] = 1
    future: farcall.Future = library["f"].submit(timeout=1)
    executor.declare("struct p { int a; };")
    try:
        library["f"](x, timeout=2)
    except farcall.ExecutorDied as death:
        print(death.signal.name if death.signal else death.exit_status, death.backtrace[0], death.fault_address)
    kernel = farcall.Kernel("void f(const double *, double *, size_t)", objects=[b""], processes=3)
    kernel(x)

@farcall.jit_c
def half(x: float):
    '''double half(double x) { return x / 2; }'''
half(3)
half.submit(3).result()
"""

WRONG = [
    "farcall.Executor(proceses=2)",
    "farcall.Executor(memory=1.5)",
    "farcall.Executor(sandbox='loose')",
    "farcall.Executor(timeout='1')",
    "farcall.Executor().compile_c(1)",
    "farcall.Executor().add_object(3)",
    "farcall.Executor().array('f8')",
    "farcall.Executor().library().define(1, 2)",
    "farcall.Executor().library()[3]",
    "farcall.Executor().copy([1]).nothing",
    "farcall.Executor().nothing",
    "farcall.Kernel(1)",
    "farcall.default_executor().compile_c('')['f'](timeout='1')",
]


def test_a_checker_of_types_takes_right_programs_and_faults_wrong_ones(tmp_path):
    """P14."""
    pytest.importorskip("mypy", reason="mypy is not installed, so no checker reads the annotations")
    right, wrong = tmp_path / "right.py", tmp_path / "wrong.py"
    right.write_text(GOOD)
    wrong.write_text("import farcall\n" + "\n".join(WRONG))

    def check(program):
        command = [sys.executable, "-m", "mypy", "--check-untyped-defs", "--cache-dir", str(tmp_path / "cache"), str(program)]
        return subprocess.run(command, capture_output=True, text=True, cwd=tmp_path).stdout

    assert "Success" in (text := check(right)), text
    faults = check(wrong)
    for line, program in enumerate(WRONG, 2):
        assert f"wrong.py:{line}: error" in faults, (program, faults)


def test_functions_describe_themselves(library):
    """P14."""
    scale = library["void scale(double *x, size_t n, double by)"]
    text = str(inspect.signature(scale))
    assert text == "(x: numpy.ndarray, n: int, by: float, /, *, timeout: 'float | None' = None) -> None"
    page = pydoc.render_doc(scale, renderer=pydoc.plaintext)
    assert "void scale(double *x, size_t n, double by)" in page and "(x: numpy.ndarray, n: int, by: float" in page
    turn = library["struct point turn(struct point)"]
    assert str(inspect.signature(turn)).startswith("(argument_1: tuple, /") and "-> tuple" in str(inspect.signature(turn))
    assert inspect.signature(library["int apply(int (*f)(int), int x)"]).return_annotation is int
    assert "Calling it waits" in farcall.Function.__doc__
    odd = library["double add(double timeout, double)"]
    assert list(inspect.signature(odd).parameters) == ["argument_1", "argument_2", "timeout"]


def test_messages_show_the_prototype_that_the_user_wrote(library):
    """P12."""
    prototype = "double sum(const double *x, size_t n)"
    total = library["double sum(const double *x, /* rows */\n    size_t n);"]
    assert total.prototype == prototype and prototype in repr(total)
    for wrong in [(), ("text", 1), ([1], -1)]:
        with pytest.raises((TypeError, OverflowError)) as caught:
            total(*wrong)
        assert str(caught.value).startswith(f"{prototype}: "), caught.value


def test_names_that_c_cannot_write_are_named(executor):
    """P11: Numba's functions have such names."""
    name = "cfunc._ZN8__main__3addB2v1B38c8tJTIeFIjxB2IKSgI4CrvQClQZ6FczSBAA_3dEdd"
    library = executor.compile_c(f'double add(double a, double b) __asm__("{name}"); double add(double a, double b) {{ return a + b; }}', ())
    assert library[f"double {name}(double, double)"](1, 2) == 3
