/* Handlers of on_exit and atexit share one order. */
#include <stdio.h>
#include <stdlib.h>

static void by_atexit(void) { puts("atexit"); }
static void by_on_exit(int status, void *argument) {
    printf("on_exit: status %d, argument %s\n", status, (const char *)argument);
}

int main(void) {
    on_exit(by_on_exit, "registered first");
    atexit(by_atexit);
    on_exit(by_on_exit, "registered last");
    return 6;
}
