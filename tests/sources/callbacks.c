/* Function pointers: callbacks that libc calls, tables in read-only and in writable data, and function
   identity (the address of a libc function and of an own one compares equal wherever it is taken). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct operation { const char *name; int (*apply)(int, int); };

static int add(int a, int b) { return a + b; }
static int subtract(int a, int b) { return a - b; }
static int multiply(int a, int b) { return a * b; }

static const struct operation operations[] = {
    {"add", add}, {"subtract", subtract}, {"multiply", multiply},
};
static int (*writable[])(int, int) = {multiply, add};
static int (*to_libc)(const char *) = puts;
static size_t (*const lengths[])(const char *) = {strlen, strlen};

static int calls;
static int by_text(const void *a, const void *b) {
    calls++;
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}
static int by_value(const void *a, const void *b) {
    int x = *(const int *)a, y = *(const int *)b;
    return (x > y) - (x < y);
}

int main(void) {
    const char *words[] = {"pear", "apple", "fig", "quince", "banana"};
    qsort(words, 5, sizeof *words, by_text);
    for (int i = 0; i < 5; i++) printf("%s ", words[i]);
    int numbers[1000];
    unsigned state = 1;
    for (int i = 0; i < 1000; i++) numbers[i] = (int)((state = state * 1103515245 + 12345) >> 16);
    qsort(numbers, 1000, sizeof *numbers, by_value);
    int sorted = 1;
    for (int i = 1; i < 1000; i++) sorted &= numbers[i - 1] <= numbers[i];
    int key = numbers[500];
    int *found = bsearch(&key, numbers, 1000, sizeof *numbers, by_value);
    printf("\ncalled %d, sorted %d, found %d\n", calls > 4, sorted, found && *found == key);
    for (int i = 0; i < 3; i++) printf("%s %d\n", operations[i].name, operations[i].apply(7, 6));
    writable[0] = subtract;
    printf("writable %d %d\n", writable[0](9, 4), writable[1](9, 4));
    to_libc("by a pointer in data");
    printf("same address %d %d\n", to_libc == puts, lengths[0] == strlen && lengths[1] == lengths[0]);
    return (int)lengths[0]("twelve chars");
}
