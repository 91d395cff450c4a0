/* The other half of features.c. */
int others[4] = {10, 20, 30, 40};
int of_other(int x) { return x + others[0]; }

int common_one __attribute__((common));
int common_array[100] __attribute__((common));
int *of_common(void) {
    static int both[2];
    both[0] = common_one;
    both[1] = common_array[99];
    return both;
}
int weak_both(void) { return 3; }

__thread long of_others = 100;
long next_of_others(void) { return ++of_others; }

static int plus(int x) { return x + 30; }
void *choose_other(void) { return (void *)plus; }
int choice_of_other(int x) __attribute__((ifunc("choose_other")));
