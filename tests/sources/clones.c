/* Functions of which the compiler makes a copy for each kind of processor. */
#include <stdio.h>

__attribute__((target_clones("avx2", "sse4.2", "default"))) int sum(const int *values, int count) {
    int total = 0;
    for (int i = 0; i < count; i++) total += values[i] * 3;
    return total;
}

__attribute__((target_clones("avx", "default"), noinline)) static double scale(double x) { return x * 1.5; }

int (*pointer)(const int *, int) = sum;

int main(void) {
    int values[1000];
    for (int i = 0; i < 1000; i++) values[i] = i % 17 - 3;
    printf("%d %d %g\n", sum(values, 1000), pointer(values, 999), scale(2));
    return __builtin_cpu_supports("sse2") != 0;
}
