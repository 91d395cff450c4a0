/* A program with what depends on the processor: calls near and far, data with addresses, thread-locals, a constructor, floating
 * point, and a handler of the host. cross_native.c has the handler for a native run. */
#include <farcall/linked.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

extern int shared_count;

struct pair {
    const char *name;
    double (*function)(double);
};

static const struct pair pairs[] = {{"sin", sin}, {"sqrt", sqrt}, {"cbrt", cbrt}};
static __thread int counted = 5;
__thread long doubled;
static int constructed;
int zeroes[100000];

__attribute__((constructor)) static void construct(void) { constructed = 41; }

static void say_goodbye(void) { puts("goodbye"); }

static int compare(const void *left, const void *right) { return *(const int *)left - *(const int *)right; }

static void *count(void *by) {
    counted += *(int *)by;
    doubled += 2 * counted;
    printf("thread: %d %ld\n", counted, doubled);
    return NULL;
}

/* Asks the handler with tag 7 for the sum of two numbers. */
static long sum(long one, long other) {
    long numbers[2] = {one, other}, answer = -1;
    struct farcall_result result = farcall_call_controller(7, (const char *)numbers, sizeof numbers);
    if (farcall_result_message(&result) == NULL) memcpy(&answer, farcall_result_data(&result), sizeof answer);
    farcall_result_free(&result);
    return answer;
}

/* A wrapper function: the bytes in reverse order, and how often this thread has been here. */
struct farcall_result reversed(const char *data, size_t size) {
    char bytes[32];
    for (size_t at = 0; at < size && at < 31; at++) bytes[at] = data[size - 1 - at];
    bytes[size] = (char)++counted;
    return farcall_result_of(bytes, size + 1);
}

int main(int argc, char **argv) {
    int values[6] = {5, 3, 9, 1, 7, 2}, by = argc;
    pthread_t thread;
    atexit(say_goodbye);
    qsort(values, 6, sizeof *values, compare);
    for (int at = 0; at < 6; at++) printf("%d ", values[at]);
    for (size_t at = 0; at < sizeof pairs / sizeof *pairs; at++) printf("%s %.6f ", pairs[at].name, pairs[at].function(at + 0.5));
    counted += argc;
    doubled = 2 * counted;
    zeroes[99999] += constructed + 1;
    printf("\n%s %d %ld %d %d\n", argc > 1 ? argv[1] : "-", counted, doubled, zeroes[99999], ++shared_count);
    if (pthread_create(&thread, NULL, count, &by) != 0 || pthread_join(thread, NULL) != 0) return 1;
    printf("%d %ld %ld\n", counted, doubled, sum(40, 2));
    return 7;
}
