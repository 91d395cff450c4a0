/* Memory that a variable points to, that nothing points to, and a write behind its end. */
#include <stdlib.h>
#include <string.h>

static void *zero;
static void *initialised = (void *)8;

__attribute__((noinline)) static void keep(void) {
    zero = malloc(100);
    initialised = malloc(200);
    for (int round = 0; round < 50; round++) {
        void **next = malloc(64);
        *next = zero;
        zero = next;
    }
}

__attribute__((noinline)) static void leak(void) {
    for (int round = 0; round < 10; round++) {
        void *volatile lost = malloc(300);
        lost = NULL;
        (void)lost;
    }
}

int main(int count, char **arguments) {
    keep();
    if (count > 1 && !strcmp(arguments[1], "leak"))
        leak();
    if (count > 1 && !strcmp(arguments[1], "overflow")) {
        volatile size_t bytes = 201;
        memset(initialised, 1, bytes);
    }
    return 0;
}
