/* What a linker does for a program in C, a feature at a time: the first argument names it. With features_other.c. */
#include <math.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unwind.h>

#define APART __attribute__((noinline))

static const char *feature = "";
static char started[64];

/* Calls and data: tables, strings, addresses in data, large and aligned zeroed data. */
extern int others[4];
int of_other(int x);
int (*const table[])(int) = {abs, of_other};
static int *inside[] = {&others[3], others};
static char zeroed[1 << 20] __attribute__((aligned(4096)));
static const char *const names[] = {"zero", "one", "two", "three", "four", "five"};

APART static const char *name(int x) {
    switch (x) {
    case 0: case 1: case 2: case 3: case 4: case 5: return names[x];
    case 1000: return "many";
    default: return "unnamed";
    }
}

static void calls(void) {
    printf("%d %d %d %d\n", table[0](-3), table[1](4), *inside[0], inside[1][1]);
    for (int i = 0; i < 8; i += 2) fprintf(stdout, "%s ", name(i));
    zeroed[sizeof zeroed - 1] = 7;
    printf("%s %d %d\n", name(1000), zeroed[0] + zeroed[sizeof zeroed - 1], (int)((unsigned long)zeroed % 4096));
}

/* Start and end. */
__attribute__((constructor)) static void plain_start(void) { strcat(started, "plain;"); }
__attribute__((constructor(200))) static void early_start(void) { strcat(started, "early;"); }
static void say(const char *what) {
    if (!strcmp(feature, "start")) puts(what);
}
__attribute__((destructor)) static void plain_end(void) { say("plain end"); }
__attribute__((destructor(200))) static void late_end(void) { say("late end"); }
static void handler(void) { say("exit handler"); }

static void start(void) {
    atexit(handler);
    puts(started);
}

/* Weak and common symbols. */
int common_one __attribute__((common));
int common_array[100] __attribute__((common));
int weak_here(void) __attribute__((weak));
int weak_here(void) { return 1; }
int weak_both(void) __attribute__((weak));
int weak_both(void) { return 2; }
extern int nowhere(void) __attribute__((weak));
extern int nothing __attribute__((weak));
int *of_common(void);

static void shared(void) {
    common_one = 5;
    common_array[99] = 6;
    printf("%d %d %d %d\n", of_common()[0], of_common()[1], weak_here(), weak_both());
    printf("%d %d\n", nowhere != NULL, &nothing != NULL);
}

/* The unwinder walks through frames of this program and of the C library. */
int main(int argc, char **argv);
static _Unwind_Reason_Code frame(struct _Unwind_Context *context, void *count) {
    void *function = _Unwind_FindEnclosingFunction((void *)(_Unwind_GetIP(context) - 1));
    ++*(int *)count;
    if (function != (void *)main) return _URC_NO_REASON;
    puts("main is below");
    return _URC_END_OF_STACK;
}
APART static int compare(const void *a, const void *b) {
    static int walked;
    int count = 0;
    if (!walked++) {
        _Unwind_Backtrace(frame, &count);
        printf("%d\n", count > 3);
    }
    return *(const int *)a - *(const int *)b;
}
static void unwind(void) {
    int numbers[] = {3, 1, 2};
    qsort(numbers, 3, sizeof *numbers, compare);
    printf("%d %d %d\n", numbers[0], numbers[1], numbers[2]);
}

/* Thread-locals, of both objects, in this thread and another. */
static __thread int own = 17;
static __thread char unset[300];
extern __thread long of_others;
long next_of_others(void);
static void *bump(void *unused) {
    own += 2;
    unset[299]++;
    of_others += 5;
    printf("%d %d %ld %ld\n", own, unset[299], next_of_others(), of_others);
    return unused;
}
static void thread_locals(void) {
    bump(NULL);
    pthread_t thread;
    pthread_create(&thread, NULL, bump, NULL);
    pthread_join(thread, NULL);
    bump(NULL);
}

/* Threads. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static long total;
static void *add(void *number) {
    for (int i = 0; i < 1000; i++) {
        pthread_mutex_lock(&lock);
        total += (long)number;
        pthread_mutex_unlock(&lock);
    }
    return (void *)((long)number * 2);
}
static void threads(void) {
    pthread_t threads[4];
    for (long i = 0; i < 4; i++) pthread_create(&threads[i], NULL, add, (void *)i);
    for (int i = 0; i < 4; i++) {
        void *result;
        pthread_join(threads[i], &result);
        printf("%ld ", (long)result);
    }
    printf("%ld\n", total);
}

/* Variable arguments and floating point. */
APART static double sum(int count, ...) {
    va_list list;
    va_start(list, count);
    double total = 0;
    for (int i = 0; i < count; i++) total += i % 2 ? va_arg(list, int) : va_arg(list, double);
    va_end(list);
    return total;
}
static void numbers(void) {
    volatile double x = 0.7;
    long double wide = x * 1.1L;
    printf("%a %.15g %.15Lg %.12f\n", sum(12, 1.5, 2, 3.5, 4, 5.5, 6, 7.5, 8, 9.5, 10, 11.5, 12), exp(x), wide, tgamma(x));
}

/* Functions that choose their implementation at start. GNU ld cannot link calls of them that are compiled for the large
   code model. */
static int chosen_here(int x) { return x * 3; }
void *choose(void) { return (void *)chosen_here; }
int own_choice(int x) __attribute__((ifunc("choose")));
int choice_of_other(int x);
static int (*const volatile choices[])(int) = {own_choice, choice_of_other};
static void indirect(void) {
    printf("%d %d\n", choices[0](3), choices[1](4));
#ifndef __code_model_large__
    printf("%d %d %d\n", own_choice(1), choice_of_other(2), choices[1] == choice_of_other);
#endif
}

static const struct {
    const char *name;
    void (*run)(void);
} features[] = {{"calls", calls},     {"start", start},     {"shared", shared},
                {"unwind", unwind},   {"locals", thread_locals}, {"threads", threads},
                {"numbers", numbers}, {"indirect", indirect}};

int main(int argc, char **argv) {
    for (unsigned i = 0; i < sizeof features / sizeof *features; i++) {
        if (argc > 1 && !strcmp(argv[1], features[i].name)) {
            feature = features[i].name;
            features[i].run();
            return 40;
        }
    }
    return 1;
}
