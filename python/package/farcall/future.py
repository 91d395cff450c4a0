"""Futures of submitted calls."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections.abc import Generator
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from . import _farcall

    _Base = concurrent.futures.Future[Any]
else:
    _Base = concurrent.futures.Future


class _CanBeGivenUp(Protocol):
    def give_up(self) -> None: ...


class Future(_Base):
    """The result of a submitted call. It can be awaited in asyncio, too.

    ``cancel`` interrupts a call that runs, and its process lives on with its variables. A call that waits for its turn never
    begins. A call that cannot be interrupted within 2 s costs its process. ``asyncio.wait_for``, the cancel of an asyncio task
    that awaits the future, and Ctrl-C in ``result`` cancel. For a call that was submitted with a timeout, or with functions of
    Python, ``cancel`` waits until it has ended: 50 ms at most on a machine with a free CPU. A call in the interpreter's own
    process (``in_process``) goes on: its ``cancel`` returns False. Functions given to ``add_done_callback`` run on the thread that
    delivers all results, so they should be quick.

    >>> import asyncio, farcall
    >>> async def twice(executor):
    ...     add = executor.compile_c("long add(long a, long b) { return a + b; }")["add"]
    ...     return await add.submit(await add.submit(1, 2), 3)
    >>> with farcall.Executor() as executor:
    ...     asyncio.run(twice(executor))
    6
    """

    _submitted: _CanBeGivenUp | None = None
    # Set when a thread of this process, which makes the call, has ended it.
    _ended: threading.Event | None = None

    def __await__(self) -> Generator[Any, None, Any]:
        return asyncio.wrap_future(self).__await__()

    def cancel(self) -> bool:
        cancelled = super().cancel()
        submitted, self._submitted = self._submitted, None
        if cancelled and submitted:
            submitted.give_up()
            if self._ended:
                self._ended.wait(_END_SECONDS)
        return cancelled

    def result(self, timeout: float | None = None) -> Any:
        try:
            return super().result(timeout)
        except BaseException as raised:
            # Ctrl-C, and not what the call has raised.
            if not isinstance(raised, Exception):
                self.cancel()
            raise

    def _finish(self, result: Any, raised: BaseException | None) -> None:
        # A call that nothing can end runs from its submission on.
        if not self.running() and not self.set_running_or_notify_cancel():
            return
        self._submitted = None
        if raised is None:
            self.set_result(result)
        else:
            self.set_exception(raised)


# How long ``cancel`` waits for the end of a call that a thread of this process makes.
_END_SECONDS = 2.0

_threads: concurrent.futures.ThreadPoolExecutor | None = None
_lock = threading.Lock()


def in_thread(
    function: _farcall.Function, arguments: tuple[Any, ...], timeout: float | None, can_end: bool
) -> Future:
    """Calls the function on a thread of this process: for calls with a timeout, or with functions of Python."""
    from . import _farcall

    global _threads
    with _lock:
        if _threads is None:
            _threads = concurrent.futures.ThreadPoolExecutor(thread_name_prefix="farcall-calls")
    future, cancellation = Future(), _farcall.Cancellation()
    if can_end:
        future._submitted = cancellation
    else:
        future.set_running_or_notify_cancel()

    def call() -> None:
        ended = threading.Event()
        future._ended = ended
        outcome: tuple[Any, BaseException | None] | None = None
        try:
            if not future.cancelled():
                outcome = (function.call_until(cancellation, arguments, timeout), None)
        except BaseException as raised:
            outcome = (None, raised)
        ended.set()
        if outcome:
            future._finish(*outcome)

    _threads.submit(call)
    return future
