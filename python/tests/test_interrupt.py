"""Ctrl-C, a timeout and `interrupt_all` end a call. Its process lives on, with its variables."""

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time

import pytest

import farcall


def interrupt_after(seconds):
    timer = threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    return timer


def test_an_interrupt_ends_the_call(library, executor):
    before, count = executor.pids, library["count"]
    assert count() == 1
    timer, began = interrupt_after(0.2), time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        library["spin"]()
    timer.join()
    assert time.monotonic() - began < 20
    assert (executor.pids, count(), library["add"](1, 2)) == (before, 2, 3)


COUNTS = "static long n; void count(void) { n++; for (;;) ; } long counted(void) { return n; }"


def test_a_variable_has_its_value_after_many_interrupts(executor):
    library = executor.compile_c(COUNTS)
    count, before = library["count"], executor.pids
    for _ in range(300):
        with pytest.raises(farcall.CallTimeout, match="did not return in time") as late:
            count(timeout=0.001)
        assert late.value.location.startswith("count+") and late.value.program_counter
        assert late.value.cleanups_skipped == 0 and set(late.value.facts) >= {"location", "cleanups_skipped"}
    # A call whose deadline has passed before it began has not counted.
    assert 0 < library["counted"]() <= 300
    assert executor.pids == before


VARIABLE = "static long n; long add(long by) { return n += by; } void spin(void) { for (;;) ; }"


def test_a_variable_has_its_value_after_ten_thousand_interrupts(executor):
    library, before, is_over = executor.compile_c(VARIABLE), executor.pids, threading.Event()
    add, spin = library["add"], library["spin"]
    assert [add(1) for _ in range(42)][-1] == 42

    def interrupt():
        while not is_over.wait(0.0002):
            executor.interrupt_all(grace=20)

    interrupter = threading.Thread(target=interrupt)
    interrupter.start()
    try:
        for _ in range(10_000):
            with pytest.raises(farcall.CallInterrupted):
                spin()
    finally:
        is_over.set()
        interrupter.join()
    # A request may still be on its way, and ends a call.
    while True:
        try:
            assert (add(0), executor.pids) == (42, before)
            break
        except farcall.CallInterrupted:
            continue


def test_all_calls_are_interrupted(executor):
    library = executor.compile_c(COUNTS)
    count, before, raised = library["count"], executor.pids, []

    def call():
        try:
            count()
        except farcall.CallInterrupted as interrupted:
            raised.append(interrupted)

    callers = [threading.Thread(target=call) for _ in range(2)]
    for caller in callers:
        caller.start()
    while any(caller.is_alive() for caller in callers):
        executor.interrupt_all(grace=10)
        time.sleep(0.01)
    for caller in callers:
        caller.join()
    assert len(raised) == 2 and all(one.location.startswith("count+") for one in raised)
    assert (library["counted"](), executor.pids) == (2, before)
    with pytest.raises(ValueError):
        executor.interrupt_all(grace=-1)


def test_a_call_that_cannot_be_interrupted_costs_its_process(executor):
    library = executor.compile_c(
        "#include <pthread.h>\n#include <signal.h>\n"
        "void stay(void) { sigset_t all; sigfillset(&all); pthread_sigmask(SIG_BLOCK, &all, 0); for (;;) ; }\n"
        "int answer(void) { return 42; }"
    )
    for again in (lambda: library["stay"](timeout=0.1), lambda: library["stay"].submit(timeout=0.1).result(30)):
        before = executor.pids
        with pytest.raises(farcall.CallTimeout, match="not interrupted in") as late:
            again()
        assert late.value.location is None
        assert library["answer"]() == 42 and executor.pids != before


def test_an_interrupt_ends_a_call_with_a_callback(library):
    def wait(x):
        time.sleep(20)
        return x

    interrupt_after(0.2)
    with pytest.raises(KeyboardInterrupt):
        library["apply"](wait, 1)
    assert library["apply"](lambda x: x + 1, 1) == 3


def test_other_handlers_of_signals_run_during_a_call(library):
    seen = []
    before = signal.signal(signal.SIGUSR1, lambda *_: seen.append(time.monotonic()))
    try:
        threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGUSR1)).start()
        library["nap"](2.0)
        ended = time.monotonic()
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert len(seen) == 1 and seen[0] < ended - 0.5, "it ran while the call went on"


PROGRAM = """
import sys, farcall
executor = farcall.Executor()
library = executor.compile_c("static volatile long n; void spin(void) { for (;;) n++; } long more(void) { return ++n; }")
more = library["more"]
assert more() == 1
print("ready", flush=True)
try:
    input()
except KeyboardInterrupt:
    print("idle", more(), flush=True)
try:
    library["spin"]()
except KeyboardInterrupt:
    print("interrupted", more(), flush=True)
"""


def test_a_terminal_interrupts_all_processes_of_a_group():
    program = subprocess.Popen(
        [sys.executable, "-c", PROGRAM],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert program.stdout.readline() == "ready\n"
    time.sleep(1)
    os.killpg(program.pid, signal.SIGINT)
    # The executor has ignored it: its variables are as they were.
    assert program.stdout.readline().split() == ["idle", "2"]
    time.sleep(1)
    os.killpg(program.pid, signal.SIGINT)
    word, number = program.stdout.readline().split()
    assert word == "interrupted" and int(number) > 3, "the call has counted on from 2"
    program.stdin.close()
    assert program.wait(10) == 0


def test_a_cancelled_await_interrupts_the_call_and_variables_stay(executor):
    library = executor.compile_c(COUNTS)
    count, counted, before = library["count"], library["counted"], executor.pids

    async def main():
        for calls in range(1, 20):

            async def awaits():
                await count.submit()

            task = asyncio.create_task(awaits())
            while counted() < calls:
                await asyncio.sleep(0.001)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert await library["counted"].submit() == calls

    asyncio.run(main())
    assert (executor.pids, counted()) == (before, 19)


def test_a_call_that_is_cancelled_while_it_waits_never_begins(executor):
    library = executor.compile_c(COUNTS)
    count, counted, before = library["count"], library["counted"], executor.pids
    running = count.submit()
    while counted() < 1:
        time.sleep(0.001)
    waiting = [count.submit() for _ in range(20)]
    last = counted.submit()
    assert all(future.cancel() for future in waiting) and running.cancel()
    assert last.result(30) == 1
    assert (executor.pids, counted()) == (before, 1)


def test_a_cancelled_call_that_runs_on_costs_its_process(executor):
    source = """
    #include <pthread.h>
    #include <signal.h>
    static volatile long turns;
    void deaf(void) { sigset_t all; sigfillset(&all); pthread_sigmask(SIG_BLOCK, &all, 0); for (;;) turns++; }
    long so_far(void) { return turns; }
    """
    library = executor.compile_c(source)
    before = executor.pids
    future = library["deaf"].submit()
    while library["so_far"]() == 0:
        time.sleep(0.001)
    assert future.cancel()
    ends = time.monotonic() + 30
    while executor.pids == before:
        assert time.monotonic() < ends
        time.sleep(0.01)
    assert library["so_far"]() == 0
