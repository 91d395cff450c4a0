/* Weak definitions lose against strong ones, the first of several weak ones is kept, and a weak symbol
   that nobody defines is null; see weak_b.c. */
#include <stdio.h>

__attribute__((weak)) int replaced(void) { return 1; }
__attribute__((weak)) int first_of_two(void) { return 10; }
__attribute__((weak)) int weak_data = 100;
int strong_here(void) { return 1000; }

extern int missing_function(void) __attribute__((weak));
extern int missing_data __attribute__((weak));
int call_from_b(void);
int (*kept)(void) = missing_function;

int main(void) {
    printf("replaced %d\n", replaced());
    printf("first of two %d\n", first_of_two());
    printf("weak data %d\n", weak_data);
    printf("from b %d\n", call_from_b());
    printf("missing: %d %d %d\n", missing_function == NULL, &missing_data == NULL, kept == NULL);
    if (missing_function) missing_function();
    return 0;
}
