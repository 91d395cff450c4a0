"""Wrong prototypes, arguments and objects: an exception each."""

import pickle
import random
import signal

import pytest

import farcall
from conftest import DEATHS, name_of


def test_wrong_prototypes(library):
    for prototype, error in [
        ("double add(double, dubble)", ValueError),
        ("double add(double, double", ValueError),
        ("double add(...)", ValueError),
        ("double (", ValueError),
        ("unknown", ValueError),
        ("double no_such_function(void)", farcall.LinkError),
        ("float add(float, float)", TypeError),
        ("double add(double)", TypeError),
        ("union u add(int)", ValueError),
        ("(" * 1000, ValueError),
    ]:
        with pytest.raises(error):
            library[prototype]
    assert library["add"](1, 2) == 3


def test_missing_symbols_are_listed(executor):
    library = executor.compile_c("int f(void); int g(void); int h(void) { return f() + g(); }")
    with pytest.raises(farcall.LinkError) as caught:
        library["h"]
    assert caught.value.symbols == ["f", "g"]


def test_wrong_arguments(library):
    add, twice = library["add"], library["twice"]
    for call, error in [
        (lambda: add(1), TypeError),
        (lambda: add(1, 2, 3), TypeError),
        (lambda: add("1", 2), TypeError),
        (lambda: add(None, 2), TypeError),
        (lambda: twice(1.5), TypeError),
        (lambda: twice(2**63), OverflowError),
        (lambda: library["narrow"](128), OverflowError),
        (lambda: library["wide"](-1), OverflowError),
        (lambda: library["same"](-1), OverflowError),
        (lambda: library["same"](1.5), TypeError),
        (lambda: library["apply"]("f", 1), TypeError),
    ]:
        with pytest.raises(error) as caught:
            call()
        assert "(" in str(caught.value), "the message has the prototype"
    assert add(1, 2) == 3


def test_duplicate_definitions(executor):
    library = executor.compile_c("int f(void) { return 1; }")
    with pytest.raises(farcall.LinkError, match="f"):
        library.compile_c("int f(void) { return 2; }")
    assert executor.compile_c("int f(void) { return 2; }")["f"]() == 2
    assert library["f"]() == 1


def test_the_compilers_text_is_the_message(executor):
    with pytest.raises(farcall.CompileError, match="error: .*undeclared"):
        executor.compile_c("int f(void) { return x; }")
    with pytest.raises(farcall.CompileError, match="no C compiler"):
        from farcall import compiler

        compiler.c_object("int x;", cc="no-such-compiler")


def test_damaged_objects(executor, object_bytes):
    generator, refused, linked = random.Random(7), 0, 0
    for _ in range(60):
        damaged = bytearray(object_bytes)
        for _ in range(generator.choice([1, 4, 64])):
            damaged[generator.randrange(len(damaged))] = generator.randrange(256)
        if generator.random() < 0.3:
            del damaged[generator.randrange(len(damaged)):]
        try:
            executor.add_object(bytes(damaged))["double add(double, double)"](1, 2)
            linked += 1
        except (farcall.Error, TypeError, ValueError):
            refused += 1
    assert refused > 10 and refused + linked == 60
    for wrong in (b"", b"no object", object_bytes[:100]):
        with pytest.raises(farcall.LinkError):
            executor.add_object(wrong)
        with pytest.raises(farcall.LinkError):
            executor.add_archive(wrong)
    assert executor.add_object(object_bytes)["double add(double, double)"](1, 2) == 3


@pytest.mark.parametrize("kind", range(10))
def test_each_death_is_named(library, kind):
    with pytest.raises(farcall.ExecutorDied) as caught:
        library["crash"](kind)
    death = caught.value
    assert name_of(death) == DEATHS[kind], str(death)
    if kind == 0:
        assert death.fault_address == 8 and death.function == "crash"
        assert any(frame.startswith("crash+") for frame in death.backtrace)
    if kind == 4:
        assert death.stack_overflow and death.function == "recurse"
    copied = pickle.loads(pickle.dumps(death))
    assert (str(copied), copied.__dict__) == (str(death), death.__dict__)


def test_a_write_to_a_constant_is_named(executor):
    source = "static const int c = 1; const int *volatile p = &c; void spoil(void) { *(int *)p = 2; }"
    with pytest.raises(farcall.ExecutorDied, match="which is write-protected, in spoil") as caught:
        executor.compile_c(source)["spoil"]()
    assert caught.value.write_protected and caught.value.facts["write_protected"]


def test_facts_that_are_unknown_have_defaults():
    death = farcall.ExecutorDied("gone", signal=11)
    assert (death.signal, death.limit, death.backtrace, death.function) == (signal.SIGSEGV, None, [], None)
    assert not death.write_protected and death.facts == {"signal": 11}


def test_exceptions_can_be_pickled(library):
    for error in (
        farcall.LinkError("message", ["f"]),
        farcall.CompileError("message"),
        farcall.CallTimeout("message"),
        farcall.CallTimeout("message", location="f+0x1 (f.o)", cleanups_skipped=0),
        farcall.CallInterrupted("message", program_counter=1),
        farcall.ExecutorDied("message", signal=64, exit_status=None),
    ):
        copied = pickle.loads(pickle.dumps(error))
        assert type(copied) is type(error) and str(copied) == str(error) and copied.__dict__ == error.__dict__
