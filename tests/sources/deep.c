/* Uses six of the eight MiB of stack that a main thread usually has. */
#include <stdio.h>
#include <string.h>

__attribute__((noinline)) static unsigned descend(int depth) {
    volatile char frame[4096];
    memset((char *)frame, depth, sizeof frame);
    unsigned below = depth ? descend(depth - 1) : 0;
    return below + (unsigned char)frame[depth];
}

int main(void) {
    printf("sum %u\n", descend(1500));
    return 0;
}
