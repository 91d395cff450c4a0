/* Needs the first member of a long archive, and the C library, and has an initializer and an exit handler. */
#include <stdio.h>
#include <stdlib.h>

int step_0(void);
static int started;
static void end(void) { fflush(stdout); }
__attribute__((constructor)) static void start(void) { started = 4; }

int main(void) {
    atexit(end);
    return step_0() + started;
}
