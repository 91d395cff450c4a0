#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static __thread int counted = 5;
static __thread long doubled;

struct four { double a, b, c, d; };

static struct four changed(struct four numbers, float added) {
    numbers.a += added;
    numbers.d = numbers.b * 2;
    return numbers;
}

static unsigned long counts[2] = {3, 4};

/* gcc calls functions of libgcc for these. */
static unsigned long atomics(void) {
    unsigned long due = 4;
    __atomic_fetch_add(&counts[0], 5, __ATOMIC_RELAXED);
    __atomic_compare_exchange_n(&counts[1], &due, 7, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
    return __atomic_exchange_n(&counts[0], 0, __ATOMIC_ACQUIRE) * 10 + __atomic_or_fetch(&counts[1], 1, __ATOMIC_RELEASE);
}

static int compare(const void *left, const void *right) { return *(const int *)left - *(const int *)right; }

int main(int argc, char **argv) {
    int values[6] = {5, 3, 9, 1, 7, 2};
    qsort(values, 6, sizeof(int), compare);
    struct four four = changed((struct four){1, 2, 3, 4}, 0.5f);
    counted += argc;
    doubled = counted * 2;
    printf("%s %g %g %d %ld %.6f\n", argc > 1 ? argv[1] : "-", four.a, four.d, counted, doubled, sin(1.0));
    for (int at = 0; at < 6; at++) printf("%d ", values[at]);
    printf("%lu\n", atomics());
    return 7;
}
