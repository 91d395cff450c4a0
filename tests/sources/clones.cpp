// The same for inline functions and templates in C++.
#include <cstdio>

template <class T> __attribute__((target_clones("avx2", "default"))) T dot(const T *a, const T *b, int count) {
    T total = 0;
    for (int i = 0; i < count; i++) total += a[i] * b[i];
    return total;
}

int main() {
    float a[100], b[100];
    long c[100];
    for (int i = 0; i < 100; i++) a[i] = c[i] = i, b[i] = 2;
    std::printf("%g %ld\n", dot(a, b, 100), dot(c, c, 100));
    return 4;
}
