/* Variable arguments, structures by value, many arguments, and integer widths. */
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>

struct pair { double x; long n; };
struct large { long values[10]; };

__attribute__((noinline)) static double sum(const char *kinds, ...) {
    va_list list, again;
    va_start(list, kinds);
    va_copy(again, list);
    double total = 0;
    for (const char *kind = kinds; *kind; kind++) {
        if (*kind == 'i') total += va_arg(list, int);
        if (*kind == 'l') total += va_arg(list, long);
        if (*kind == 'd') total += va_arg(list, double);
        if (*kind == 'p') total += va_arg(list, struct pair).x;
    }
    total += va_arg(again, int);
    va_end(again);
    va_end(list);
    return total;
}
__attribute__((noinline)) static int format(char *out, size_t size, const char *pattern, ...) {
    va_list list;
    va_start(list, pattern);
    int length = vsnprintf(out, size, pattern, list);
    va_end(list);
    return length;
}
__attribute__((noinline)) static struct large doubled(struct large given) {
    for (int i = 0; i < 10; i++) given.values[i] *= 2;
    return given;
}
__attribute__((noinline)) static long many(long a, int b, short c, char d, long e, long f, long g, double h,
                                           float i, long j) {
    return a + b + c + d + e + f + g + (long)h + (long)i + j;
}

int main(void) {
    struct pair pair = {2.5, 9};
    printf("%.3f\n", sum("ildpilddddddddd", 1, 2L, 3.25, pair, 4, 5L, 1., 2., 3., 4., 5., 6., 7., 8., 9.));
    char text[64];
    int length = format(text, sizeof text, "%s/%d/%.2f/%c/%lx/%%", "text", -5, 2.5, 'z', 0xfeedfaceL);
    printf("%d %s\n", length, text);
    struct large given = {{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}};
    struct large result = doubled(given);
    printf("%ld %ld\n", result.values[0], result.values[9]);
    printf("%ld\n", many(1, -2, 3, -4, 5, 6, 7, 8.5, 9.5f, 10));
    printf("%lld %u %d\n", (long long)INT64_MIN, UINT32_MAX, (int8_t)200);
    return 0;
}
