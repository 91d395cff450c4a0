"""Futures of submitted calls."""

import asyncio
import concurrent.futures
import threading


class Future(concurrent.futures.Future):
    """The result of a submitted call. It can be awaited in asyncio, too.

    A submitted call runs to its end: ``cancel`` has no effect. Functions given to ``add_done_callback`` run on the thread that
    delivers all results, so they should be quick.

    >>> import asyncio, farcall
    >>> async def twice(executor):
    ...     add = executor.compile_c("long add(long a, long b) { return a + b; }")["add"]
    ...     return await add.submit(await add.submit(1, 2), 3)
    >>> with farcall.Executor() as executor:
    ...     asyncio.run(twice(executor))
    6
    """

    def __await__(self):
        return asyncio.wrap_future(self).__await__()


_threads = None
_lock = threading.Lock()


def in_thread(function, arguments, timeout):
    """Calls the function on a thread of this process: for calls with a timeout, or with functions of Python."""
    global _threads
    with _lock:
        if _threads is None:
            _threads = concurrent.futures.ThreadPoolExecutor(thread_name_prefix="farcall-calls")
    future = Future()
    future.set_running_or_notify_cancel()

    def call():
        try:
            result = function(*arguments, timeout=timeout)
        except BaseException as raised:
            future.set_exception(raised)
        else:
            future.set_result(result)

    _threads.submit(call)
    return future
