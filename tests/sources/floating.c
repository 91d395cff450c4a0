/* Floating point in every width, vector constants, and libm in bulk. */
#include <complex.h>
#include <fenv.h>
#include <math.h>
#include <stdio.h>

typedef float four __attribute__((vector_size(16)));

static double coefficients[] = {1.0, -0.5, 0x1.5555555555555p-2, -0.25};
static four vectors[3] = {{1, 2, 3, 4}, {.5f, .25f, .125f, .0625f}};

__attribute__((noinline)) static double polynomial(double x) {
    double value = 0;
    for (int i = 3; i >= 0; i--) value = value * x + coefficients[i];
    return value;
}

int main(int argc, char **argv) {
    (void)argv;
    double x = argc * 0.7;
    float narrow = (float)x * 1.1f;
    long double wide = (long double)x * 1.1L;
    printf("%a %a %La\n", x, (double)narrow, wide);
    printf("%.17g %.17g\n", polynomial(x), polynomial(-x));
    printf("%.15g %.15g %.15g %.15g\n", exp(x), log(x), tgamma(x + 3), erf(x));
    printf("%.15g %.15g %.15Lg\n", atan2(x, 2), fmod(10, x), sqrtl(wide));
    printf("%d %d %d\n", isnan(0.0 / (argc - 1)), isinf(1 / (double)(argc - 1)), (int)lrint(2.5 * argc));
    vectors[2] = vectors[0] * vectors[1] + (float)argc;
    printf("%g %g %g %g\n", vectors[2][0], vectors[2][1], vectors[2][2], vectors[2][3]);
    double complex z = cexp(I * x);
    printf("%.12f %.12f\n", creal(z), cimag(z));
    fesetround(FE_UPWARD);
    printf("%ld\n", lrint(2.1 * argc));
    return 0;
}
