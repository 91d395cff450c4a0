// Checks of programs in C++ over farcall.hpp, with exceptions or without them.
#ifndef CHECKED_HPP
#define CHECKED_HPP

#include "farcall.hpp"

#include <cstdio>
#include <cstdlib>
#include <utility>

#define CHECK(what) \
    do { \
        if (!(what)) { \
            std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #what); \
            std::exit(1); \
        } \
    } while (0)

#if FARCALL_EXCEPTIONS
// The value itself.
template <class T> T must(T value) { return value; }
#define MUST(call) must(call)
#define MUST_DO(call) (call)
// The error that a call throws.
template <class F> farcall::error failed(F call, int line) {
    try {
        call();
    } catch (const farcall::error &error) {
        return error;
    }
    std::fprintf(stderr, "line %d: no error\n", line);
    std::exit(1);
}
#else
template <class T> T must(farcall::result<T> outcome, int line) {
    if (!outcome) {
        std::fprintf(stderr, "line %d: %s\n", line, outcome.failure().what());
        std::exit(1);
    }
    return std::move(*outcome);
}
inline void must(farcall::result<void> outcome, int line) {
    if (!outcome) {
        std::fprintf(stderr, "line %d: %s\n", line, outcome.failure().what());
        std::exit(1);
    }
}
#define MUST(call) must(call, __LINE__)
#define MUST_DO(call) must(call, __LINE__)
template <class F> farcall::error failed(F call, int line) {
    auto outcome = call();
    if (!outcome)
        return outcome.failure();
    std::fprintf(stderr, "line %d: no error\n", line);
    std::exit(1);
}
#endif
#define FAILED(call) failed([&] { return call; }, __LINE__)

#endif
