/* Common symbols (compiled with -fcommon): the largest size wins, an initialised definition wins over all,
   and every object sees the same storage; see common_b.c. */
#include <stdint.h>
#include <stdio.h>

int counter;
char buffer[16];
int initialised_in_b;
struct line { char bytes[64]; } __attribute__((aligned(64)));
struct line aligned_line;

void touch(void);

int main(void) {
    counter = 5;
    touch();
    printf("counter %d, initialised %d\n", counter, initialised_in_b);
    printf("buffer %s\n", buffer);
    printf("aligned %d\n", (uintptr_t)&aligned_line % 64 == 0);
    for (int i = 0; i < 64; i++)
        if (aligned_line.bytes[i]) printf("dirty byte %d\n", i);
    return counter;
}
