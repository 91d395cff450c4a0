"""LLVM's modules, archives, C in docstrings, and kernels in other processes."""

import multiprocessing
import pickle
import subprocess

import numpy
import pytest

import farcall
from farcall import prototypes

IR = """
define double @half(double %x) {
  %y = fmul double %x, 5.0e-1
  ret double %y
}
"""


def test_a_module_of_llvm(executor):
    llvm = pytest.importorskip("llvmlite.ir")
    assert executor.add_llvm(IR)["double half(double)"](3) == 1.5
    module = llvm.Module("module")
    number = llvm.IntType(64)
    function = llvm.Function(module, llvm.FunctionType(number, [number]), "next")
    builder = llvm.IRBuilder(function.append_basic_block())
    builder.ret(builder.add(function.args[0], number(1)))
    assert executor.add_llvm(module)["long next(long)"](3) == 4
    with pytest.raises(farcall.CompileError):
        executor.add_llvm("define nonsense")


def test_files_and_archives(executor, tmp_path, object_bytes):
    path = tmp_path / "one.o"
    path.write_bytes(object_bytes)
    assert executor.add_object(path)["double add(double, double)"](1, 2) == 3
    subprocess.run(["ar", "rcs", tmp_path / "lib.a", path], check=True)
    archive = executor.add_archive(str(tmp_path / "lib.a"))
    assert archive["double add(double, double)"](1, 2) == 3
    with pytest.raises(FileNotFoundError):
        executor.add_object(tmp_path / "none.o")
    library = executor.library().add_shared("libm.so.6")
    library.compile_c("double cbrt(double); double root(double x) { return cbrt(x); }")
    assert library["root"](27) == pytest.approx(3)


def test_c_in_a_docstring(executor):
    @farcall.jit_c
    def power(x, n):
        """
        static long one = 1;
        long power(long x, long n) { return n ? x * power(x, n - 1) : one; }
        """

    assert power(3, 4) == 81
    assert power.submit(2, 10).result(10) == 1024

    @farcall.jit_c(source="int three(void) { return 3; }", executor=executor)
    def three():
        pass

    assert three() == 3
    with pytest.raises(ValueError, match="no definition"):

        @farcall.jit_c
        def missing():
            """int other(void) { return 0; }"""


def test_definitions_are_found_in_source():
    source = '''
    #include <stdio.h>
    #define MACRO(x) \\
        f(x)
    // int f(int);
    int f(int x); /* a declaration */
    struct point { double x, y; };
    static const char *text = "long f(long y) { return 1; }";
    int f(int x /* (one) */) { if (x) return f(x - 1); return 0; }
    struct point *g(struct point *p, int (*compare)(int, int))
    { return p; }
    '''
    assert prototypes.of_definition(source, "f") == "int f(int x )"
    assert prototypes.of_definition(source, "g") == "struct point * g(struct point *p, int (*compare)(int, int))"
    assert prototypes.of_definition(source, "point") is None


KERNEL = r"""
#include <stddef.h>
void filter(const double *x, const double *y, double *sum, long *sign, size_t rows) {
    for (size_t row = 0; row < rows; row++) {
        if (x[row] == 666) *(volatile long *)8 = 1;
        sum[row] = x[row] + y[row];
        sign[row] = x[row] < 0 ? -1 : 1;
    }
}
"""
PROTOTYPE = "void filter(const double *x, const double *y, double *sum, long *sign, size_t rows)"


def in_child(pickled):
    kernel = pickle.loads(pickled)
    total, sign = kernel(numpy.array([-1.0, 2.0]), numpy.array([10.0, 20.0]))
    try:
        kernel(numpy.array([666.0]), numpy.array([0.0]))
    except farcall.ExecutorDied as death:
        return total.tolist(), sign.tolist(), death


def test_a_kernel_runs_in_another_process():
    kernel = farcall.Kernel(PROTOTYPE, source=KERNEL)
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        total, sign, death = pool.apply(in_child, (pickle.dumps(kernel),))
    assert (total, sign, death.function) == ([9.0, 22.0], [-1, 1], "filter")


def total_in_child(kernel):
    return kernel(numpy.array([-1.0, 2.0]), numpy.array([10.0, 20.0]))[0].tolist()


def test_a_kernel_runs_in_a_forked_pool_whose_parent_has_called_it():
    """P9: the child starts an executor of its own."""
    kernel = farcall.Kernel(PROTOTYPE, source=KERNEL)
    assert total_in_child(kernel) == [9.0, 22.0]
    with multiprocessing.get_context("fork").Pool(2) as pool:
        assert pool.map(total_in_child, [kernel, kernel.reference()]) == [[9.0, 22.0]] * 2
    assert total_in_child(kernel) == [9.0, 22.0]
    kernel.close()


def test_a_kernel_keeps_its_memory_between_batches():
    """P10: what nothing refers to any more is used again, and results that are in use stay what they are."""
    kernel = farcall.Kernel(
        "void add(const double *x, const double *y, double *z, size_t rows)",
        source="void add(const double *x, const double *y, double *z, unsigned long n) { while (n--) *z++ += *x++ + *y++; }",
        flags=("-O1",),
    )
    ones = numpy.ones(1000)
    addresses, kept = set(), []
    for batch in range(50):
        rows = 1000 - batch
        result = kernel(ones[:rows], ones[:rows] * batch)
        assert len(result) == rows and (result == 1 + batch).all(), "zeros before"
        addresses.add(result.ctypes.data)
        if batch % 10 == 0:
            kept.append((batch, result))
        del result
    assert len(addresses) < 20
    assert all((result == 1 + batch).all() for batch, result in kept)
    executor = kernel.install().executor
    own = executor.copy(ones)
    own[:] = 2
    assert (kernel(own, own) == 4).all(), "in place"
    assert kernel([1, 2], [3, 4.5]).tolist() == [4, 6.5]
    kernel.close()


def test_a_kernel_refuses_integers_with_nulls():
    """P10: as numbers they would be wrong."""
    arrow = pytest.importorskip("pyarrow")
    kernel = farcall.Kernel(
        "void twice(const int64_t *x, int64_t *y, size_t rows)",
        source="void twice(const long *x, long *y, unsigned long n) { while (n--) *y++ = 2 * *x++; }",
        flags=("-O1",),
    )
    assert kernel(arrow.array([1, 2])).tolist() == [2, 4]
    with pytest.raises(TypeError, match="nulls"):
        kernel(arrow.array([1, None]))
    kernel.close()


def test_a_kernel_checks_its_columns():
    kernel = farcall.Kernel(PROTOTYPE, source=KERNEL, processes=2)
    reference = pickle.loads(pickle.dumps(kernel.reference()))
    with pytest.raises(LookupError):
        reference(numpy.zeros(1), numpy.zeros(1))
    kernel.install()
    assert len(reference(numpy.zeros(3), numpy.zeros(3))[0]) == 3
    for columns, error in [
        ([numpy.zeros(1)], TypeError),
        ([numpy.zeros(1), numpy.zeros(2)], ValueError),
        ([numpy.zeros(1), numpy.zeros(1, "f4")], TypeError),
    ]:
        with pytest.raises(error):
            kernel(*columns)
    kernel.close()
