/* The other half of ifunc_a.c. */
static int minus(int x) { return x - 1; }
static void *pick(void) { return (void *)minus; }
int shared(int x) __attribute__((ifunc("pick")));
int (*address_of_shared(void))(int) { return shared; }
