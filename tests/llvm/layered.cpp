// layered.cpp: what object_layer.cpp links. One object for each value of PART.
#include <stdexcept>
#include <string>

#if PART == 1 // It refers to part 2, and part 2 to it.
extern "C" int odd(int Number);
extern "C" int even(int Number) { return Number == 0 ? 1 : odd(Number - 1); }
extern thread_local int Shared;
extern "C" int shared_here() { return ++Shared; }
extern "C" void thrower(int Count);
extern "C" int caught_from_other(int Count) {
    try {
        thrower(Count);
    } catch (const std::runtime_error &E) {
        return static_cast<int>(std::string(E.what()).size());
    }
    return -1;
}
#elif PART == 2
extern "C" int even(int Number);
extern "C" int odd(int Number) { return Number == 0 ? 0 : even(Number - 1); }
thread_local int Shared = 10;
extern "C" int shared_there() { return ++Shared; }
extern "C" void thrower(int Count) {
    std::string Kept(100, 'x');
    if (Count == 0)
        throw std::runtime_error("from another object");
    thrower(Count - 1);
    if (Kept.empty())
        std::abort();
}
#elif PART == 3 // Weak and common definitions, of which part 4 has others.
template <int N> int &counter() {
    static int Count = N;
    return Count;
}
extern "C" int bump_one() { return ++counter<5>(); }
extern "C" __attribute__((weak)) int chosen() { return 3; }
extern "C" int chosen_by_one() { return chosen(); }
extern "C" __attribute__((weak)) int missing(int);
extern "C" int has_missing() { return missing != nullptr; }
#elif PART == 4
template <int N> int &counter() {
    static int Count = N;
    return Count;
}
extern "C" int bump_other() { return ++counter<5>(); }
extern "C" __attribute__((weak)) int chosen() { return 4; }
extern "C" int chosen_by_other() { return chosen(); }
#elif PART == 5 // Initializers, and what runs at the end.
extern "C" int printf(const char *, ...);
extern "C" int *Place;
int Here = 0;
int *Place = &Here;
struct Noted {
    int Number;
    explicit Noted(int Number) : Number(Number) { Here = Here * 10 + Number; }
    ~Noted() { *Place = *Place * 10 + Number + 4; }
};
static Noted First(1);
static Noted Second(2);
thread_local std::string Text = "thread-local";
extern "C" int noted() { return Here; }
extern "C" void note_at(int *Other) { Place = Other; }
extern "C" int text_length() { return static_cast<int>((Text += "!").size()); }
#elif PART == 6 // One template with 2,000 instances, each of which calls the next one.
extern "C" int end_of_chain();
template <int N> struct Chain {
    static int length() { return Chain<N - 1>::length() + 1; }
};
template <> struct Chain<0> {
    static int length() { return end_of_chain(); }
};
extern "C" int chain() { return Chain<2000>::length(); }
#elif PART == 7
extern "C" int end_of_chain() { return 0; }
#endif
