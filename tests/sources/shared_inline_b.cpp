// The other half of shared_inline_a.cpp: it throws, through frames that lie behind the dropped function.
#include <cstdio>

inline __attribute__((noinline)) int shared_inline(int x) {
    if (x > 1000) std::printf("large\n");
    return x + 1;
}

struct Local {
    ~Local() { std::printf("unwound\n"); }
};

__attribute__((noinline)) static int thrower(int x) {
    Local local;
    if (x > 2) throw shared_inline(x) * 10;
    return x;
}

int second(int x) {
    Local local;
    return thrower(x) + shared_inline(x);
}
