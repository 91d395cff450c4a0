// Two objects share an inline function whose unwind record has a length that is no multiple of eight. The
// copy of the second object is dropped, and its record with it; the records behind it must still be found.
// See shared_inline_b.cpp.
#include <cstdio>

inline __attribute__((noinline)) int shared_inline(int x) {
    if (x > 1000) std::printf("large\n");
    return x + 1;
}

int second(int x);

int main() {
    std::printf("%d\n", shared_inline(1));
    try {
        second(3);
        std::printf("returned\n");
    } catch (int value) {
        std::printf("caught %d\n", value);
    }
    return 0;
}
