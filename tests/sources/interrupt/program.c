/* A program that counts its runs, and does not return if it is told so. */
#include <stdlib.h>

static volatile long counter, began, ended;

static void at_exit(void) { ended = ended + 1; }

int main(int words, char **arguments) {
    (void)arguments;
    atexit(at_exit);
    began = began + 1;
    while (words > 1)
        counter = counter + 1;
    return (int)began;
}

long turns(void) { return counter; }

long runs(void) { return began; }

long exits(void) { return ended; }
