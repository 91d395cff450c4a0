/* Variables, constants and functions that are aligned to more than a page. */
#include <stdint.h>
#include <stdio.h>

static char wide[] __attribute__((aligned(16384))) = "wide";
static char zeroed[5] __attribute__((aligned(65536)));
static const char constant[] __attribute__((aligned(8192))) = "constant";
__attribute__((noinline, aligned(8192))) static int five(void) { return 5; }

int main(void) {
    int (*volatile function)(void) = five;
    uintptr_t at[] = {(uintptr_t)wide, (uintptr_t)zeroed, (uintptr_t)constant, (uintptr_t)function};
    __asm__ volatile("" : : "r"(at) : "memory");
    printf("aligned %d%d%d%d, %s%s%s%d\n", at[0] % 16384 == 0, at[1] % 65536 == 0, at[2] % 8192 == 0,
           at[3] % 8192 == 0, wide, zeroed, constant, function());
    return 0;
}
