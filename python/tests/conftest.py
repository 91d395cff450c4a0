"""What the tests share: C functions that compute, call back, hang, and crash in ten ways."""

import os
import signal
import time
from pathlib import Path

import pytest

import farcall

DEATHS_OF_C = Path(__file__).parents[2] / "tests/sources/ten_deaths.h"

SOURCE = DEATHS_OF_C.read_text() + r"""
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

double add(double a, double b) { return a + b; }
long twice(long x) { return 2 * x; }
int8_t narrow(int8_t x) { return (int8_t)(x - 1); }
uint64_t wide(uint64_t x) { return x + 1; }
float single(float x) { return x / 2; }
_Bool not(_Bool x) { return !x; }
void nothing(void) {}
size_t length(const char *text) { return strlen(text); }
unsigned first(const void *bytes) { return *(const unsigned char *)bytes; }
const char *greeting(void) { return "hello"; }
void *same(void *address) { return address; }

void scale(double *x, size_t n, double by) {
    for (size_t at = 0; at < n; at++)
        x[at] *= by;
}

double sum(const double *x, size_t n) {
    double sum = 0;
    for (size_t at = 0; at < n; at++)
        sum += x[at];
    return sum;
}

struct point { double x, y; };
struct point turn(struct point p) { return (struct point){-p.y, p.x}; }
void turn_all(struct point *p, size_t n) {
    for (size_t at = 0; at < n; at++)
        p[at] = turn(p[at]);
}

int apply(int (*f)(int), int x) { return f(f(x)); }

void say(const char *text, int on_stderr) { fprintf(on_stderr ? stderr : stdout, "%s\n", text); }

static long calls;
long count(void) { return ++calls; }

void spin(void) { for (;;) deep++; }
void nap(double seconds) { usleep((useconds_t)(seconds * 1e6)); }
"""

# What names each of the ten: a signal, or the status of an exit.
DEATHS = ["SIGSEGV", "SIGILL", "SIGABRT", "SIGFPE", "SIGSEGV", 7, 0, "SIGKILL", "SIGILL", "SIGSEGV"]


def name_of(death):
    """What names a death: its signal, or the status of an exit."""
    return death.exit_status if death.signal is None else death.signal.name


@pytest.fixture(scope="session", autouse=True)
def interrupts():
    """A shell starts background jobs with Ctrl-C ignored, and their children inherit that."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def object_bytes():
    from farcall import compiler

    return compiler.c_object(SOURCE)


@pytest.fixture
def executor():
    with farcall.Executor() as executor:
        executor.declare("struct point { double x, y; };")
        yield executor


@pytest.fixture
def library(executor):
    library = executor.compile_c(SOURCE)
    return library


def descriptors():
    return len(os.listdir("/proc/self/fd"))


def threads():
    return len(os.listdir("/proc/self/task"))


def resident_kib():
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0])


def until(condition, seconds=30):
    """Waits until the condition holds."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it does not come true"
        time.sleep(0.01)


def is_running(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False
