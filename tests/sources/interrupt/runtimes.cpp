// What the runtime of C++ knows of a thread: variables that are being initialized, and exceptions.
#include <exception>

static volatile long counter, spins = 1;

extern "C" void stop_spinning() { spins = 0; }

static inline __attribute__((always_inline)) long spin() {
    while (spins) counter = counter + 1;
    return counter;
}

struct Slow {
    long value;
    __attribute__((noinline)) Slow() : value(spin() ? 7 : 7) {}
    ~Slow() { counter = 0; }
};

/// Its initializer is a part of the function.
extern "C" long inlined_static() {
    static long value = spin() ? 7 : 7;
    return value;
}

/// Its initializer is a function that may throw.
extern "C" long constructed_static() {
    static Slow slow;
    return slow.value;
}

extern "C" void spin_in_catch() {
    try {
        throw 1;
    } catch (int) {
        spin();
    }
}

struct SpinsAtEnd {
    ~SpinsAtEnd() { spin(); }
};

extern "C" void spin_in_destructor() {
    try {
        SpinsAtEnd spinner;
        throw 2;
    } catch (int) {
    }
}

static __attribute__((noipa)) void loop() { spin(); }
static void (*volatile looping)() = loop;

/// An interruption cannot be caught while another exception is.
extern "C" void spin_in_both() {
    try {
        throw 3;
    } catch (int) {
        try {
            looping();
        } catch (...) {
            counter = 0;
            throw;
        }
    }
}

extern "C" long uncaught() { return std::uncaught_exceptions(); }

extern "C" long has_current() { return std::current_exception() != nullptr; }

extern "C" long catches() {
    try {
        throw 5;
    } catch (int number) {
        return number;
    }
}
