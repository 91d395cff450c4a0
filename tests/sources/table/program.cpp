// What a linker does for a program in C++, a feature at a time: the first argument names it. With program_other.cpp,
// the pieces that C++ shares with C and assembly.
#include "program.h"
#include "table.h"

#include <atomic>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <iostream>
#include <pthread.h>
#include <stdexcept>

// Calls and data: virtual calls, pointers to members, tables.
Shape *make_other(int side);
int apply(int (Shape::*method)() const, const Shape &shape);
static Shape *const shapes[] = {new Square(3), make_other(4)};
static void feature_calls() {
    for (const Shape *shape : shapes) std::printf("%d ", apply(&Shape::area, *shape));
    std::printf("%d\n", dynamic_cast<Square *>(shapes[1]) != nullptr);
}

// Static objects of both objects, and in functions.
Started::Started(const char *name) : name(name) { note_letter(*name); }
Started::~Started() { end_letter(*name); }
static Started here("here");
__attribute__((init_priority(200))) static Started early("early");
static void feature_start() {
    static Started inside("inside");
    std::puts(letters);
}
static void feature_end() {
    static Started inside("inside");
    watch_end = 1;
    std::atexit([] { end_letter('a'); });
    static Started last("last");
    std::puts("end:");
}

// Weak symbols.
__attribute__((weak)) int weak_here() { return 1; }
__attribute__((weak)) int weak_of_both() { return 2; }
__attribute__((weak)) int weak_data = 2;
__attribute__((weak)) int nowhere();
extern __attribute__((weak)) int nothing;
static int (*const kept_nowhere)() = nowhere;
static void feature_weak() {
    std::printf("%d %d %d %d\n", weak_here(), weak_of_both(), weak_data, call_weak_both());
    std::printf("%d %d %d\n", nowhere != nullptr, &nothing != nullptr, kept_nowhere != nullptr);
}

// Inline functions, their variables and templates, of which one is kept, besides the groups of assembly.
int *of_shared();
static void groups() {
    feature_group();
    int *other = of_shared();
    shared_number++;
    Limits<long>::most++;
    std::printf("%d %d %d %ld\n", other[0], counter(), shared_number, Limits<long>::most);
}

// Objects and type information of the C++ library, besides variables of the C library.
static std::ostream *const streams[] = {&std::cout, &std::cerr};
static void moved() {
    feature_moved();
    const std::type_info &type = typeid(std::runtime_error);
    const std::exception &made = std::runtime_error("");
    *streams[0] << type.name() << ' ' << (type == typeid(made)) << ' '
                << (streams[0] == &std::cout) << std::endl;
    *streams[1] << "to stderr" << std::endl;
}

// Exceptions, through frames of the other object and of the C library.
void through_other(void (*callback)());
struct Guard {
    ~Guard() { std::puts("unwound"); }
};
struct Own : Failure {
    Own(int code) { this->code = code; }
};
static void feature_unwind() {
    for (int kind = 0; kind < 4; kind++) {
        try {
            Guard guard;
            if (kind == 0) through_other([] { throw Own(5); });
            if (kind == 1) std::qsort(letters, 4, 1, [](const void *, const void *) -> int { throw 6; });
            if (kind == 2) call_with_cfi([] { throw 7; });
            if (kind == 3) throw std::runtime_error("at run time");
        } catch (const Failure &failure) {
            std::printf("own %d\n", failure.code);
        } catch (int code) {
            std::printf("int %d\n", code);
        } catch (const std::exception &error) {
            std::puts(error.what());
        }
    }
}

// Thread-locals, of both objects, in this thread and another.
static thread_local int initialised = 17;
static thread_local char unset[300];
static void *bump(void *unused) {
    initialised += 2;
    unset[299]++;
    computed_local += initialised;
    std::printf("%d %d %d %d\n", initialised, unset[299], computed_local, ++shared_local);
    return unused;
}
static void in_thread(void *(*function)(void *)) {
    pthread_t thread;
    pthread_create(&thread, nullptr, function, nullptr);
    pthread_join(thread, nullptr);
}
static void feature_locals() {
    bump(nullptr);
    in_thread(bump);
    bump(nullptr);
}

// thread_locals with constructors and destructors.
static std::atomic<int> numbers_given;
Noisy::Noisy() : number(++numbers_given) {}
Noisy::~Noisy() {
    std::printf("gone %d\n", number);
}
static thread_local Noisy own;
static void *touch(void *unused) {
    shared_local += own.number;
    std::printf("%d %d %d\n", own.number, of_other.number, shared_local);
    return unused;
}
static void *touch_again(void *unused) {
    touch(unused);
    return touch(unused);
}
static void feature_ends() {
    touch(nullptr);
    in_thread(touch_again);
    touch(nullptr);
}

// Threads.
static std::atomic<long> total;
static void *add(void *) {
    for (int i = 0; i < 1000; i++) total += i;
    return nullptr;
}
static void feature_threads() {
    pthread_t threads[4];
    for (pthread_t &thread : threads) pthread_create(&thread, nullptr, add, nullptr);
    for (pthread_t &thread : threads) pthread_join(thread, nullptr);
    std::printf("%ld\n", total.load());
}

// Variable arguments and floating point.
template <class... T> __attribute__((noinline)) static double sum(T... numbers) { return (0.0 + ... + numbers); }
static void feature_numbers() {
    volatile float narrow = 0.7f;
    std::printf("%a %.15g %.15Lg\n", sum(1, 2.5, 3L, narrow), std::tgamma(narrow + 1.0), std::sqrt(2.0L));
}

// Functions that choose their implementation at start. GNU ld cannot link calls of them that are compiled for the large
// code model.
static int chosen_here(int x) { return x * 3; }
extern "C" void *choose() { return reinterpret_cast<void *>(chosen_here); }
extern "C" int own_choice(int x) __attribute__((ifunc("choose")));
extern "C" int choice_of_other(int x);
static int (*const volatile choices[])(int) = {own_choice, choice_of_other};
static void feature_ifunc() {
    std::printf("%d %d\n", choices[0](3), choices[1](4));
#if !defined __code_model_large__ && !defined __AARCH64_CMODEL_LARGE__
    std::printf("%d %d %d %d\n", own_choice(1), choice_of_other(2), call_choice(3), choices[1] == choice_of_other);
#endif
}

#define ENTRY(name) {#name, feature_##name},
static const struct {
    const char *name;
    void (*run)();
} features[] = {{"group", groups}, {"moved", moved}, FEATURES_OF_BOTH(ENTRY) ENTRY(calls) ENTRY(start) ENTRY(end)
                    ENTRY(weak) ENTRY(unwind) ENTRY(locals) ENTRY(ends) ENTRY(threads) ENTRY(numbers) ENTRY(ifunc)};

int main(int argc, char **argv) {
    int at = 0;
    for (auto &one : features) {
        if (argc > 1 && !std::strcmp(argv[1], one.name)) {
            one.run();
            return 40 + at;
        }
        at++;
    }
    return 1;
}
