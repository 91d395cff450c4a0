"""The exceptions of farcall. All of them can be pickled, so they cross the border of a cluster's worker."""

from __future__ import annotations

import signal as signals
from collections.abc import Iterable
from typing import Any


class Error(Exception):
    """What farcall raises where Python has no exception of its own."""


class CompileError(Error):
    """A compiler refused the source. The message is the compiler's text."""


class LinkError(Error):
    """An object is damaged or cannot be linked.

    ``symbols`` are the names that the error is about, if it is about names.
    """

    def __init__(self, message: str, symbols: Iterable[str] = ()) -> None:
        super().__init__(message)
        self.symbols = list(symbols)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (str(self), self.symbols)


class LimitError(Error):
    """A bounded resource is used up. The message names the limit."""


class _Told(Error):
    """An error with facts, which are attributes as well."""

    def __init__(self, message: str, **facts: Any) -> None:
        super().__init__(message)
        self.facts = facts
        self.__dict__.update(facts)

    def __reduce__(self) -> tuple[Any, ...]:
        return _copied, (type(self), str(self), self.facts)


def _copied(kind: type[_Told], message: str, facts: dict[str, Any]) -> _Told:
    """Makes a copy from a pickle."""
    return kind(message, **facts)


class CallInterrupted(_Told):
    """The call was ended (:meth:`Executor.interrupt_all`). Its process lives on, with the variables of native code.

    ==================== ==============================================================================
    attribute            what it is
    ==================== ==============================================================================
    ``program_counter``  the instruction that was executing, or None
    ``location``         the place of that instruction, as "function+0x12 (object.o)", or None
    ``cleanups_skipped`` the functions with cleanups (destructors) that were left without them, or None
    ``threads_started``  the threads that native code has started by ``pthread_create`` in the call, or None
    ``facts``            all that is known, by name
    ==================== ==============================================================================
    """

    program_counter: int | None = None
    location: str | None = None
    cleanups_skipped: int | None = None
    threads_started: int | None = None


class CallTimeout(_Told, TimeoutError):
    """A call did not return in time, or a link was not made in time.

    Mostly the call was interrupted: its process lives on, with the variables of native code. Then there are the attributes of
    :class:`CallInterrupted`, and otherwise they are None. Where a call cannot be interrupted within a second, its process was ended.

    >>> import farcall
    >>> with farcall.Executor() as executor:
    ...     library = executor.compile_c("static long n; void loop(void) { for (n = 7;;) ; } long read(void) { return n; }")
    ...     try:
    ...         library["loop"](timeout=0.1)
    ...     except farcall.CallTimeout as late:
    ...         print(late.location.split("+")[0], library["read"]())
    loop 7
    """

    program_counter: int | None = None
    location: str | None = None
    cleanups_skipped: int | None = None
    threads_started: int | None = None


class ExecutorDied(_Told):
    """The executor's process ended during the call.

    =================== ===============================================================================
    attribute           what it is
    =================== ===============================================================================
    ``signal``          the signal that ended it, a :class:`signal.Signals` if it has a name, or None
    ``exit_status``     the status of a process that ended by itself, or None
    ``fault_address``   the address whose access faulted, or None
    ``program_counter`` the instruction that was executing, or None
    ``location``        the place of the crash, as "function+0x12 (object.o)", or None
    ``backtrace``       the linked functions on the stack in that form, the innermost one first
    ``function``        the innermost linked function on the stack, or None
    ``stack_overflow``  whether the fault lies at the end of the stack
    ``write_protected`` whether the fault was a write to memory that may not be written, as a constant
    ``limit``           the limit of the sandbox that ended it, or None
    ``status_unknown``  whether another part of this process has collected the status
    ``facts``           all that is known, by name: facts of later versions too
    =================== ===============================================================================

    Hostile code in the executor can make up all of it but ``exit_status``.

    >>> import farcall
    >>> with farcall.Executor() as executor:
    ...     crash = executor.compile_c("int crash(void) { return *(volatile int *)8; }")["crash"]
    ...     try:
    ...         crash()
    ...     except farcall.ExecutorDied as death:
    ...         print(death.signal.name, hex(death.fault_address), death.function)
    SIGSEGV 0x8 crash
    """

    # Typed by what most deaths have; a real-time signal is a plain number.
    signal: signals.Signals | None = None
    exit_status: int | None = None
    fault_address: int | None = None
    program_counter: int | None = None
    location: str | None = None
    backtrace: list[str]
    stack_overflow: bool = False
    write_protected: bool = False
    limit: str | None = None
    status_unknown: bool = False

    def __init__(self, message: str, **facts: Any) -> None:
        self.backtrace = []
        super().__init__(message, **facts)
        if self.signal in set(signals.Signals):
            self.signal = signals.Signals(self.signal)

    @property
    def function(self) -> str | None:
        first = self.backtrace[0] if self.backtrace else self.location
        return first.split("+", 1)[0] if first else None


def exception_for(
    kind: str, message: str, symbols: list[str], errno: int | None, facts: dict[str, Any]
) -> Exception:
    """The exception for an error of the Rust library."""
    told: dict[str, type[_Told]] = {"died": ExecutorDied, "interrupted": CallInterrupted, "timeout": CallTimeout}
    if kind in told:
        return told[kind](message, **facts)
    if kind == "link":
        return LinkError(message, symbols)
    if kind == "os" and errno is not None:
        return OSError(errno, message)
    classes: dict[str, type[Exception]] = {"value": ValueError, "type": TypeError, "limit": LimitError}
    return classes.get(kind, Error)(message)
