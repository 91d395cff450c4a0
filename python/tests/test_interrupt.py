"""Ctrl-C ends a call and its executor, not the interpreter."""

import os
import signal
import subprocess
import sys
import threading
import time

import pytest


def interrupt_after(seconds):
    timer = threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    return timer


def test_an_interrupt_ends_the_call(library, executor):
    before = executor.pids
    timer, began = interrupt_after(0.2), time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        library["spin"]()
    timer.join()
    assert time.monotonic() - began < 20
    assert library["add"](1, 2) == 3
    assert executor.pids != before


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
    assert program.stdout.readline().split() == ["interrupted", "1"]
    program.stdin.close()
    assert program.wait(10) == 0
