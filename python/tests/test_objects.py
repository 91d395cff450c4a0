"""Objects of machine code that a program of Python has made itself."""

import pytest

import farcall
from farcall import Frame, ObjectBuilder


def word(number):
    return number.to_bytes(8, "little")


def test_code_made_by_hand_is_linked_and_called():
    made = ObjectBuilder("by hand")
    # 0: mov rax, [rip + count]  7: add rax, rdi  10: add rax, [rip + step]  17: mov [rip + count], rax  24: ret
    code = bytes.fromhex("48 8b 05 00000000 48 01 f8 48 03 05 00000000 48 89 05 00000000 c3")
    made.function("advance", code).distance(3, "count").distance(13, "step").distance(20, "count")
    made.zeroes("count", 8)
    made.constant("step", bytearray(word(2))).local()
    # mov rax, [rip + entry of the pointer]; mov rax, [rax]; mov rax, [rax]; ret
    indirect = made.function("peek", bytes.fromhex("48 8b 05 00000000 48 8b 00 48 8b 00 c3"))
    indirect.got_entry(3, "pointer")
    made.data("pointer", memoryview(word(0))).address(0, "table", 8).align(64)
    made.data("table", word(7) + word(9))
    with farcall.Executor() as executor:
        library = executor.add_object(made)
        advance = library["long advance(long)"]
        assert [advance(10), advance(-4)] == [12, 10]
        assert library["long peek(void)"]() == 9
        # As any other object, it comes back after a death.
        executor.restart()
        assert advance(1) == 3
        assert executor.add_object(made.build())["long peek(void)"]() == 9


def calls_check():
    made = ObjectBuilder("calls.o")
    # 0: push rbp  1: mov rbp, rsp  4: push rbx  5: sub rsp, 8  9: mov rbx, rdi  12: call check  17: add rax, rbx
    # 20: add rsp, 8  24: pop rbx  25: leave  26: ret
    code = bytes.fromhex("55 48 89 e5 53 48 83 ec 08 48 89 fb e8 00000000 48 01 d8 48 83 c4 08 5b c9 c3")
    return made, made.function("outer", code).call(13, "check")


FRAME = Frame.of_frame_pointer().push(5, "rbx").grow(9, 8).shrink(24, 8).pop(25, "rbx").leave(26)


def test_exceptions_pass_through_a_frame_made_by_hand():
    def check(number):
        if number < 0:
            raise LookupError(number)
        return number

    made, outer = calls_check()
    outer.frame(FRAME)
    with farcall.Executor() as executor:
        library = executor.library().define("long check(long)", check)
        outer = library.add_object(made)["long outer(long)"]
        [pid] = executor.pids
        assert outer(21) == 42
        with pytest.raises(LookupError):
            outer(-1)
        assert outer(1) == 2 and executor.pids == [pid], "the frame is unwound, the process lives"


def test_wrong_parts_are_named():
    made, outer = calls_check()
    outer.frame(Frame().pop(1, "rbx"))
    with pytest.raises(ValueError, match='calls.o.*outer.*the register was not saved'):
        made.build()
    outer.frame(FRAME)
    made.build()
    made.data("outer", b"twice")
    with pytest.raises(ValueError, match='"outer".*the name is there already'):
        made.build()

    made = ObjectBuilder()
    made.function("short", b"\xc3").call(1, "labs")
    with pytest.raises(ValueError, match="4 bytes at offset 1, is not inside of its 1 bytes"):
        made.build()
    for wrong in [
        lambda part: part.call(-1, "labs"),
        lambda part: part.align(1 << 64),
        lambda part: part.frame(Frame().grow(1 << 32, 8)),
    ]:
        with pytest.raises(ValueError, match="is no number from 0 to"):
            wrong(made.data("part", b"12345678"))
    for content in [5, "text", None]:
        with pytest.raises(TypeError):
            made.function("f", content)
    made = ObjectBuilder()
    made.function("f", b"\xc3").frame(Frame().save(1, "rax", 16))
    with pytest.raises(ValueError, match='"rax" is no register of a caller: rbx, rbp and r12 to r15 are'):
        made.build()


def test_a_missing_symbol_is_an_error_of_the_link():
    made = ObjectBuilder("alone.o")
    made.function("f", b"\xe9\0\0\0\0").call(1, "no_such_function")
    with farcall.Executor() as executor:
        with pytest.raises(farcall.LinkError, match="no_such_function"):
            executor.add_object(made)["void f(void)"]()
