/* Functions that debuggers and profilers shall name, by lines that their tests know. */
#include <unistd.h>

volatile int rounds;

static __attribute__((noinline)) int inner(int fd) {
    char byte;
    int got = (int)read(fd, &byte, 1); /* line 8: here it waits */
    rounds += got;
    return rounds;
}

__attribute__((noinline)) int outer(int fd) {
    int sum = inner(fd) + 1; /* line 14 */
    return sum * 2;
}

__attribute__((noinline)) long spin(long turns) {
    long sum = 0;
    for (volatile long turn = 0; turn < turns; turn++) {
        sum += turn ^ rounds; /* line 21 */
    }
    return sum;
}

__attribute__((weak)) int shared(void) {
    return rounds;
}

#ifdef WITH_MAIN
int main(void) {
    return spin(100 * 1000 * 1000L) == 7;
}
#endif
