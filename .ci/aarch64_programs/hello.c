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

static int compare(const void *left, const void *right) { return *(const int *)left - *(const int *)right; }

int main(int argc, char **argv) {
    int values[6] = {5, 3, 9, 1, 7, 2};
    qsort(values, 6, sizeof(int), compare);
    struct four four = changed((struct four){1, 2, 3, 4}, 0.5f);
    counted += argc;
    doubled = counted * 2;
    printf("%s %g %g %d %ld %.6f\n", argc > 1 ? argv[1] : "-", four.a, four.d, counted, doubled, sin(1.0));
    for (int at = 0; at < 6; at++) printf("%d ", values[at]);
    puts("");
    return 7;
}
