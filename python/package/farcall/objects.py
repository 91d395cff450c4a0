"""Objects of machine code that a program has made itself."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Literal, Union

from . import _farcall

if TYPE_CHECKING:
    from typing_extensions import Self

Code = Union[bytes, bytearray, memoryview]
Register = Literal["rbx", "rbp", "r12", "r13", "r14", "r15"]


class ObjectBuilder:
    """An object of functions and data that a program has made itself: a compiler that emits bytes needs neither ELF nor an assembler.

    :meth:`Library.add_object` links it as any other object. Each part that it adds is described further by :class:`ObjectPart`.

    >>> import farcall
    >>> # 0: push rbp  1: mov rbp, rsp  4: call labs  9: add rax, [rip + more]  16: pop rbp  17: ret
    >>> code = bytes.fromhex("55 4889e5 e800000000 48030500000000 5d c3")
    >>> made = farcall.ObjectBuilder("made by hand")
    >>> far = made.function("far", code).call(5, "labs").distance(12, "more")
    >>> far = far.frame(farcall.Frame.of_frame_pointer().pop(17, "rbp"))
    >>> more = made.data("more", (100).to_bytes(8, "little"))
    >>> with farcall.Executor() as executor:
    ...     executor.add_object(made)["long far(long)"](-5)
    105
    """

    def __init__(self, name: str = "object.o") -> None:
        """An object that defines nothing. Its name appears in errors."""
        self.name = name
        self._parts: list[ObjectPart] = []

    def function(self, name: str, code: Code) -> ObjectPart:
        """Adds a function of x86-64 code, which depends on its address through fields of the part only. Its calls follow the System V
        ABI."""
        return self._add("function", name, code)

    def data(self, name: str, content: Code) -> ObjectPart:
        """Adds a variable with these first bytes."""
        return self._add("data", name, content)

    def constant(self, name: str, content: Code) -> ObjectPart:
        """Adds a constant, which code cannot change."""
        return self._add("constant", name, content)

    def zeroes(self, name: str, size: int) -> ObjectPart:
        """Adds a variable of so many bytes that are zero at first. Many take no memory before code touches them."""
        return self._add("zeroes", name, b"", _number(size, 64))

    def build(self) -> bytes:
        """The bytes of the object file. The builder can add more and build again.

        A ``ValueError`` names the part that is wrong, and says what to give in its place: two parts with one name, a field outside of its
        part or over another one, a frame that cannot be. A missing symbol is an error of the link.
        """
        return _farcall.build_object(self.name, self._parts)

    def _add(self, kind: str, name: str, content: Code, zeroes: int = 0) -> ObjectPart:
        part = ObjectPart(kind, name, bytes(memoryview(content)), zeroes)
        self._parts.append(part)
        return part


class ObjectPart:
    """A function or data of an :class:`ObjectBuilder`, which makes it. Each method returns the part.

    A *field* is a few bytes that the linker fills in. Its place is an offset in the bytes of the part; what is there at first does not
    matter. A field refers to a name of this object, of another object in the link, or of the executor's process: functions of the C
    library and of :meth:`Library.define` are such names.
    """

    def __init__(self, kind: str, name: str, content: bytes, zeroes: int) -> None:
        self._kind, self._name, self._content, self._zeroes = kind, name, content, zeroes
        self._alignment: int | None = None
        self._is_local = False
        self._fields: list[tuple[str, int, str, int]] = []
        self._frame: Frame | None = None

    def call(self, offset: int, function: str) -> Self:
        """The 4 bytes at ``offset`` are the operand of a ``call`` or ``jmp`` to a function, wherever that is."""
        return self._field("call", offset, function, 0)

    def distance(self, offset: int, symbol: str, addend: int = 0) -> Self:
        """The 4 bytes at ``offset`` are the distance from their end to a symbol, plus ``addend``: an operand relative to ``rip``.

        An instruction with ``n`` bytes behind the field wants the addend ``-n``. The symbol is within 2 GiB, as everything in one link is,
        and the executor's libraries are.
        """
        return self._field("distance", offset, symbol, addend)

    def got_entry(self, offset: int, symbol: str) -> Self:
        """The 4 bytes at ``offset``, which end the instruction, are the distance to 8 bytes with the address of a symbol, wherever that is.

        ``mov rax, [rip + field]`` loads the address, and ``call [rip + field]`` calls it.
        """
        return self._field("got_entry", offset, symbol, 0)

    def address(self, offset: int, symbol: str, addend: int = 0) -> Self:
        """The 8 bytes at ``offset`` are the address of a symbol, plus ``addend``: in data, or the operand of ``movabs``."""
        return self._field("address", offset, symbol, addend)

    def align(self, size: int) -> Self:
        """Its alignment in bytes, a power of two of at most 65,536. By default a function is aligned to 16, and data to 8."""
        self._alignment = _number(size, 64)
        return self

    def local(self) -> Self:
        """Other objects do not see it, and may have the name for something else."""
        self._is_local = True
        return self

    def frame(self, frame: Frame) -> Self:
        """Exceptions, interruptions and backtraces pass through this function. Without a frame, an exception that reaches it ends the
        process."""
        self._frame = frame
        return self

    def _field(self, kind: str, offset: int, symbol: str, addend: int) -> Self:
        self._fields.append((kind, _number(offset, 64), symbol, operator.index(addend)))
        return self


class Frame:
    """Where a function keeps what belongs to its caller, told by each instruction that moves the stack pointer or saves a register.

    Each method takes ``behind``, the offset in the code of the byte behind the instruction, and returns the frame with that instruction.
    They come in the order of the code. A function that never moves the stack pointer has the frame ``Frame()``. Mistakes are errors of
    :meth:`ObjectBuilder.build`. Registers are "rbx", "rbp" and "r12" to "r15".

    >>> # 0: push rbp  1: mov rbp, rsp  4: push rbx  5: sub rsp, 24  9: ...  20: mov rbx, [rbp - 8]  24: leave  25: ret
    >>> frame = Frame.of_frame_pointer().push(5, "rbx").leave(25)
    """

    def __init__(self) -> None:
        """The frame of a function at its first instruction."""
        self._steps: list[tuple[str, int, str, int]] = []

    @staticmethod
    def of_frame_pointer() -> Frame:
        """The frame of a function that begins with ``push rbp; mov rbp, rsp``, in the usual 4 bytes."""
        return Frame().push(1, "rbp").frame_pointer(4)

    def push(self, behind: int, register: Register) -> Frame:
        """``push register``, with its caller's value."""
        return self._step("push", behind, register)

    def pop(self, behind: int, register: Register) -> Frame:
        """``pop register``, which has its caller's value again."""
        return self._step("pop", behind, register)

    def grow(self, behind: int, size: int) -> Frame:
        """The stack pointer moves down by so many bytes: ``sub rsp, size``, or the push of another value (8)."""
        return self._step("grow", behind, number=size)

    def shrink(self, behind: int, size: int) -> Frame:
        """The stack pointer moves up by so many bytes: ``add rsp, size``, or the pop of another value (8)."""
        return self._step("shrink", behind, number=size)

    def frame_pointer(self, behind: int) -> Frame:
        """``mov rbp, rsp``: from here on ``rbp`` tells where the frame is, wherever the stack pointer moves."""
        return self._step("frame_pointer", behind)

    def leave(self, behind: int) -> Frame:
        """``leave``, of a function with a frame pointer."""
        return self._step("leave", behind)

    def save(self, behind: int, register: Register, below: int) -> Frame:
        """A register's value is stored, without a push, ``below`` bytes below the stack pointer that the caller had before its call.

        The return address is 8 bytes below that, and a pushed ``rbp`` mostly 16.
        """
        return self._step("save", behind, register, below)

    def resume(self, behind: int, as_at: int) -> Frame:
        """The frame is as it was behind the instruction that ends at ``as_at``: code goes on behind a return in its midst."""
        return self._step("resume", behind, number=as_at)

    def _step(self, kind: str, behind: int, register: str = "", number: int = 0) -> Frame:
        next_frame = Frame()
        next_frame._steps = [*self._steps, (kind, _number(behind, 32), register, _number(number, 32))]
        return next_frame


def _number(number: int, bits: int) -> int:
    number = operator.index(number)
    if not 0 <= number < 1 << bits:
        raise ValueError(f"{number} is no number from 0 to {(1 << bits) - 1}")
    return number
