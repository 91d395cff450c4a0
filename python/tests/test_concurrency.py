"""Futures, asyncio, threads, and crashes among them."""

import asyncio
import concurrent.futures
import gc
import os
import random
import signal
import threading

import pytest

import farcall
from conftest import DEATHS, descriptors, is_running, name_of, resident_kib, threads, until


def test_submitted_calls_deliver_their_results(library):
    add = library["add"]
    futures = [add.submit(number, 0.5) for number in range(2000)]
    assert [future.result(10) for future in futures] == [number + 0.5 for number in range(2000)]
    assert library["length"].submit("text").result(10) == 4
    assert library["apply"].submit(lambda x: x + 1, 1).result(10) == 3
    with pytest.raises(farcall.CallTimeout):
        library["spin"].submit(timeout=0.1).result(10)
    with pytest.raises(TypeError):
        add.submit(1)


def test_arguments_of_submitted_calls_stay_alive(library, executor):
    library["nap"].submit(0.05)
    total = [library["sum"].submit(executor.copy([1.0, number]), 2) for number in range(100)]
    gc.collect()
    assert [future.result(10) for future in total] == [1 + number for number in range(100)]


def test_futures_fail_with_the_death(library):
    crash = library["crash"]
    future = crash.submit(0)
    with pytest.raises(farcall.ExecutorDied) as caught:
        future.result(10)
    assert caught.value.signal.name == "SIGSEGV"
    done = []
    future = crash.submit(11)
    future.add_done_callback(lambda one: done.append(one.result()))
    assert future.result(10) == 11 and not future.cancel()
    until(lambda: done == [11])


def test_calls_are_awaited(library):
    async def main():
        add, crash, nap = library["add"], library["crash"], library["nap"]
        assert await add.submit(1, 2) == 3
        with pytest.raises(farcall.ExecutorDied):
            await crash.submit(0)
        results = await asyncio.gather(*(crash.submit(number) for number in range(20, 120)))
        assert results == list(range(20, 120))
        ticks = 0
        napping = asyncio.ensure_future(asyncio.wrap_future(nap.submit(0.2)))
        while not napping.done():
            await asyncio.sleep(0.005)
            ticks += 1
        assert ticks > 10, "the loop runs on"

    asyncio.run(main())


def endless(library):
    """Ways to submit a call that never returns: with a timeout, a thread of this process calls."""
    return [library["spin"].submit, lambda: library["spin"].submit(timeout=60)]


def test_a_cancelled_call_does_not_block_later_ones(library):
    """P8."""
    add = library["add"]
    for submit in endless(library):
        future = submit()
        assert not future.done() and future.cancel() and future.cancelled()
        assert add.submit(1, 2).result(30) == 3
        with pytest.raises(concurrent.futures.CancelledError):
            future.result(1)
        assert add(1, 2) == 3


def test_a_timeout_of_asyncio_ends_the_call(library):
    """P8."""

    async def main():
        for submit in endless(library):
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(submit(), 0.1)
            assert await asyncio.wait_for(library["add"].submit(1, 2), 30) == 3

    asyncio.run(main())


def test_an_interrupt_of_a_wait_ends_the_call(library):
    """P8: as a notebook's interrupt."""
    for submit in endless(library):
        future = submit()
        threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
        with pytest.raises(KeyboardInterrupt):
            future.result(30)
        assert library["add"].submit(1, 2).result(30) == 3


def test_executors_are_killed_and_restarted(object_bytes):
    """P8: whatever they do."""
    for processes in (1, 2):
        with farcall.Executor(processes=processes) as executor:
            library = executor.add_object(object_bytes)
            add, spin = library["double add(double, double)"], library["void spin(void)"]
            for end in (executor.kill, executor.restart):
                assert add(1, 2) == 3
                before = executor.pids
                future = spin.submit()
                end()
                with pytest.raises(farcall.ExecutorDied):
                    future.result(30)
                until(lambda: not any(map(is_running, before)))
                assert end == executor.kill or len(executor.pids) == processes
                while True:
                    try:
                        assert add(1, 2) == 3
                        break
                    except farcall.ExecutorDied:
                        assert end == executor.kill, "the next executors are there"
                assert not set(before) & set(executor.pids)
        with pytest.raises(ValueError, match="closed"):
            executor.restart()


def test_a_crash_costs_one_call_of_a_pool(object_bytes):
    with farcall.Executor(processes=2) as executor:
        crash = executor.add_object(object_bytes)["long crash(long)"]
        assert len(executor.pids) == 2

        def call(kind):
            try:
                return crash(kind)
            except farcall.ExecutorDied:
                return None

        kinds = [0 if number % 10 == 0 else 100 + number for number in range(200)]
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            assert list(pool.map(call, kinds)) == [None if kind == 0 else kind for kind in kinds]


def crash_often(crashes, executor, crash):
    """Crashes of ten kinds from eight threads and one asyncio loop at once. Returns how many deaths were named rightly."""
    lock, named, left = threading.Lock(), [0], [crashes]

    def next_kind():
        with lock:
            left[0] -= 1
            return left[0] if left[0] >= 0 else None

    def check(kind, death):
        assert name_of(death) == DEATHS[kind], (kind, str(death))
        with lock:
            named[0] += 1

    def work():
        while (number := next_kind()) is not None:
            kind = number % 10
            assert crash(100 + number) == 100 + number
            with pytest.raises(farcall.ExecutorDied) as caught:
                crash(kind)
            check(kind, caught.value)

    async def loop():
        while (number := next_kind()) is not None:
            kind = number % 10
            # A thread calls for a call with a timeout, so its process is its own.
            with pytest.raises(farcall.ExecutorDied) as caught:
                await crash.submit(kind, timeout=60)
            check(kind, caught.value)

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        workers = [pool.submit(work) for _ in range(8)]
        asyncio.run(loop())
        for worker in workers:
            worker.result()
    return named[0]


def crashes_leak_nothing(crashes, object_bytes):
    with farcall.Executor(processes=9, standby=True) as executor:
        crash = executor.add_object(object_bytes)["long crash(long)"]
        assert crash_often(200, executor, crash) == 200
        gc.collect()
        before = descriptors(), threads(), resident_kib()
        assert crash_often(crashes, executor, crash) == crashes
        gc.collect()
        until(lambda: threads() <= before[1] + 4)
        after = descriptors(), threads(), resident_kib()
    print(f"crashes: {crashes} cases; descriptors, threads, KiB before {before}, after {after}")
    assert after[0] <= before[0] + 30, "three descriptors for each process, and the threads' own"
    assert after[1] <= before[1] + 4
    assert after[2] <= before[2] + 8_000


def test_a_thousand_crashes_leak_nothing(object_bytes):
    crashes_leak_nothing(1000, object_bytes)


@pytest.mark.full
def test_ten_thousand_crashes_leak_nothing(object_bytes):
    crashes_leak_nothing(10_000, object_bytes)


def test_executors_leak_nothing(object_bytes):
    def use():
        with farcall.Executor() as executor:
            executor.array(1000)[:] = 1
            assert executor.add_object(object_bytes)["double add(double, double)"](1, 2) == 3

    for _ in range(3):
        use()
    gc.collect()
    before = descriptors(), threads()
    for _ in range(30):
        use()
    gc.collect()
    until(lambda: descriptors() <= before[0] and threads() <= before[1])


def test_a_forked_child_is_refused(library):
    add = library["add"]
    assert add(1, 2) == 3
    child = os.fork()
    if child == 0:
        try:
            add(1, 2)
        except ValueError:
            os._exit(5)
        os._exit(6)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 5
    assert add(1, 2) == 3


def status_of(child):
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def refused(work):
    try:
        work()
    except ValueError as error:
        return "forked" in str(error)
    return False


def test_a_forked_child_leaves_its_parents_arrays_alone(executor, library):
    """H1: a drop, a free, a new array or a copied text in a child must not touch what the parent has."""
    kept = executor.copy([7.0] * 4096)
    ways = [
        lambda arrays: arrays.clear() is None,
        lambda arrays: refused(lambda: executor.free(arrays[0])),
        lambda arrays: refused(lambda: executor.array(4096)),
        lambda arrays: refused(lambda: library["length"]("text")),
        # H6.
        lambda arrays: refused(lambda: library["sum"].submit(arrays[0], 3)),
    ]
    for way in ways:
        arrays = [executor.copy([7.0] * 4096), executor.copy([8.0] * 8)[2:]]
        child = os.fork()
        if child == 0:
            done = False
            try:
                done = way(arrays)
                del arrays
                gc.collect()
            finally:
                os._exit(0 if done else 1)
        assert status_of(child) == 0
        other = executor.copy([9.0] * 4096)
        assert (arrays[0] == 7).all() and (arrays[1] == 8).all() and (kept == 7).all()
        assert (other == 9).all()
        assert library["sum"](arrays[0], 4096) == library["sum"].submit(kept, 4096).result(10)


def test_a_child_that_ends_the_interpreter_leaves_its_parents_arrays_alone(executor, library):
    """H1: as a worker of a preforking server does."""
    array = executor.array(10)
    array[:] = 7
    child = os.fork()
    if child == 0:
        # Runs exit handlers and drops everything.
        import sys

        try:
            sys.exit(0)
        finally:
            del array, library
            executor.close()
            os._exit(0)
    assert status_of(child) == 0
    assert array.sum() == 70 and library["sum"](array, 10) == 70


def test_a_child_that_native_code_forks_and_that_returns_ends(executor):
    """N1: the call is the parent's, which gets its result."""
    library = executor.compile_c(
        """
        #include <sys/wait.h>
        #include <unistd.h>
        long forking(long number) {
            pid_t child = fork();
            int status = -1;
            if (child != 0) waitpid(child, &status, 0);
            return child == 0 ? -1 : number + status;
        }
        """
    )
    forking = library["forking"]
    assert [forking(number) for number in range(3)] == [0, 1, 2]
    assert [forking.submit(number).result(10) for number in range(3)] == [0, 1, 2]


def test_executors_share_their_layout_where_they_are_asked_to():
    source = "#include <stdlib.h>\nunsigned long layout(void) { return (unsigned long)&getenv; }"

    def layout(executor):
        return executor.compile_c(source)["layout"]()

    with farcall.Executor(shared_layout=True, standby=True) as first:

        def is_forked():
            with farcall.Executor(shared_layout=True) as second:
                return layout(second) == layout(first)

        # The process that forks the others may still load the program.
        until(is_forked)
        with farcall.Executor() as anew:
            assert layout(anew) != layout(first)
        before = first.pids
        first.restart()
        assert first.pids != before and layout(first) > 0


def test_random_calls_from_eight_threads(library):
    add, length = library["add"], library["length"]

    def work(seed):
        generator = random.Random(seed)
        for _ in range(300):
            a, b = generator.random(), generator.random()
            assert add(a, b) == a + b
            text = "x" * generator.randrange(2000)
            assert length(text) == len(text)

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))


def test_an_executor_has_one_process_to_256():
    for processes in (0, 257):
        with pytest.raises(ValueError, match=f"an executor of {processes} processes: it has 1 to 256"):
            farcall.Executor(processes=processes)
