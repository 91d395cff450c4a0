/* A function whose implementation is chosen when the program starts, called and taken the address of. */
#include <stdio.h>

static int plain(int x) { return x + 1; }
static int better(int x) { return x + 2; }
static int (*choose(void))(int) { return sizeof(long) == 8 ? better : plain; }
int chosen(int x) __attribute__((ifunc("choose")));
int (*in_data)(int) = chosen;

int main(void) {
    printf("%d %d\n", chosen(1), in_data(2));
    return 0;
}
