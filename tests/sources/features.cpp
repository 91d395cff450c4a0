// What a linker does for a program in C++, a feature at a time: the first argument names it. With features_other.cpp.
#include "features.h"

#include <atomic>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <pthread.h>
#include <stdexcept>

static const char *feature = "";
static bool is(const char *name) { return !std::strcmp(feature, name); }

// Calls and data: virtual calls, pointers to members, tables.
Shape *make_other(int side);
int apply(int (Shape::*method)() const, const Shape &shape);
static Shape *const shapes[] = {new Square(3), make_other(4)};
static void calls() {
    for (const Shape *shape : shapes) std::printf("%d ", apply(&Shape::area, *shape));
    std::printf("%d\n", dynamic_cast<Square *>(shapes[1]) != nullptr);
}

// Start and end: static objects of both objects, and in functions.
static char started[64];
Started::Started(const char *name) : name(name) { std::strcat(started, name); }
Started::~Started() {
    if (is("start")) std::printf("end %s\n", name);
}
static Started here("here;");
static void start() {
    static Started inside("inside;");
    std::atexit([] { std::puts("exit handler"); });
    std::puts(started);
}

// Weak symbols, and definitions of which one is kept.
int *of_shared();
__attribute__((weak)) int weak_here() { return 1; }
__attribute__((weak)) int weak_both() { return 2; }
__attribute__((weak)) int nowhere();
static void shared() {
    int *other = of_shared();
    shared_number++;
    Limits<long>::most++;
    std::printf("%d %d %d %ld\n", other[0], counter(), shared_number, Limits<long>::most);
    std::printf("%d %d %d\n", weak_here(), weak_both(), nowhere != nullptr);
}

// Exceptions, through frames of the other object and of the C library.
void through_other(void (*callback)());
struct Guard {
    ~Guard() { std::puts("unwound"); }
};
struct Own : Failure {
    Own(int code) { this->code = code; }
};
static void unwind() {
    for (int kind = 0; kind < 3; kind++) {
        try {
            Guard guard;
            if (kind == 0) through_other([] { throw Own(5); });
            if (kind == 1) std::qsort(started, 4, 1, [](const void *, const void *) -> int { throw 6; });
            if (kind == 2) throw std::runtime_error("at run time");
        } catch (const Failure &failure) {
            std::printf("own %d\n", failure.code);
        } catch (int code) {
            std::printf("int %d\n", code);
        } catch (const std::exception &error) {
            std::puts(error.what());
        }
    }
}

// Thread-locals.
static std::atomic<int> numbers_given;
Noisy::Noisy() : number(++numbers_given) {}
Noisy::~Noisy() {
    if (is("locals")) std::printf("gone %d\n", number);
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
static void in_thread(void *(*function)(void *)) {
    pthread_t thread;
    pthread_create(&thread, nullptr, function, nullptr);
    pthread_join(thread, nullptr);
}
static void thread_locals() {
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
static void threads() {
    pthread_t threads[4];
    for (pthread_t &thread : threads) pthread_create(&thread, nullptr, add, nullptr);
    for (pthread_t &thread : threads) pthread_join(thread, nullptr);
    std::printf("%ld\n", total.load());
}

// Variable arguments and floating point.
template <class... T> __attribute__((noinline)) static double sum(T... numbers) { return (0.0 + ... + numbers); }
static void numbers() {
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
static void indirect() {
    std::printf("%d %d\n", choices[0](3), choices[1](4));
#ifndef __code_model_large__
    std::printf("%d %d %d\n", own_choice(1), choice_of_other(2), choices[1] == choice_of_other);
#endif
}

static const struct {
    const char *name;
    void (*run)();
} features[] = {{"calls", calls},          {"start", start},     {"shared", shared},   {"unwind", unwind},
                {"locals", thread_locals}, {"threads", threads}, {"numbers", numbers}, {"indirect", indirect}};

int main(int argc, char **argv) {
    for (auto &one : features) {
        if (argc > 1 && !std::strcmp(argv[1], one.name)) {
            feature = one.name;
            one.run();
            return 40;
        }
    }
    return 1;
}
