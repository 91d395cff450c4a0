/* Functions that choose their implementation at start, of this object and of another: called, taken the address of,
   in constants and in initialisers. */
#include <stdio.h>

int shared(int x);
int (*address_of_shared(void))(int);

static int times(int x) { return x * 3; }
static int plus(int x) { return x + 3; }
static int factor = 5;
static int *where = &factor;

/* Works with data that has its values. */
static int (*pick(void))(int) { return *where == 5 ? times : plus; }
static int own(int x) __attribute__((ifunc("pick")));

static int (*const constants[])(int) = {own, shared, times};
static int early;

__attribute__((constructor)) static void start(void) { early = own(2) * 10 + shared(2); }

int main(void) {
    int sum = 0;
    for (unsigned i = 0; i < sizeof constants / sizeof *constants; i++) sum = sum * 10 + constants[i](1);
    int (*volatile here)(int) = shared;
    printf("%d %d %d %d\n", early, sum, own(4), shared(4));
    printf("%d\n", here(2) + address_of_shared()(3));
    return early;
}
