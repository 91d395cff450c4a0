// linked.cpp: what classes.cpp links into executors.
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <stdexcept>
#include <string>

#ifdef SLOW_LIBRARY
#include <unistd.h>

// A library whose load takes 200 ms.
[[gnu::constructor]] static void load() { usleep(200000); }
#else

#ifdef WITH_RUNTIME // which supports thread-locals
thread_local int Own = 3;
extern "C" int own(int Number) { return Own += Number; }
#endif

namespace {
struct Constructed {
    int Value;
    Constructed() : Value(41) {}
};
Constructed Global;

[[gnu::noinline]] void deep(int Count) {
    if (Count == 0)
        throw std::runtime_error("thrown by linked code");
    std::string Kept(static_cast<size_t>(Count), 'x');
    deep(Count - 1);
    if (Kept.empty())
        std::abort();
}
} // namespace

// The length of the message of an exception that passes this many frames.
extern "C" int caught(int Count) {
    try {
        deep(Count);
    } catch (const std::exception &E) {
        return static_cast<int>(std::string(E.what()).size());
    }
    return -1;
}

extern "C" int arguments(int Count, char **Texts) { return 100 * Count + static_cast<int>(std::string(Texts[1]).size()); }

extern "C" int seven() { return 7; }

extern "C" int incremented(int Number) { return Number + 1; }

extern "C" long Kept;
long Kept = 5;

extern "C" void keep(long *At, long Value) { *At = Value; }

extern "C" long kept(const long *At) { return *At; }

extern "C" int constructed(int Number) { return Global.Value + Number; }

// The calls that have begun and have no end.
extern "C" int Begun;
int Begun = 0;

extern "C" [[gnu::noinline]] int hang(int) {
    ++Begun;
    for (volatile long Turns = 0;;)
        ++Turns;
}

extern "C" int hang_main(int, char **) { return hang(0); }

struct Bytes {
    char *Data;
    size_t Size;
};

extern "C" Bytes hang_wrapped(const char *, size_t) { return {nullptr, static_cast<size_t>(hang(0))}; }

extern "C" int begun() { return Begun; }

// Turns until the time is over.
extern "C" void busy(long Milliseconds) {
    const auto End = std::chrono::steady_clock::now() + std::chrono::milliseconds(Milliseconds);
    while (std::chrono::steady_clock::now() < End) {
    }
}

extern "C" int crash(int Kind) {
    switch (Kind) {
    case 0: *reinterpret_cast<volatile int *>(0x10) = 1; break;
    case 1: std::abort();
    case 2: std::_Exit(9);
    case 3: __builtin_trap();
    default: throw std::runtime_error("nobody catches this");
    }
    return 0;
}

#endif
