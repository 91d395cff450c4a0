/* What a linker does for a program in C, a feature at a time: the first argument names it. With program_other.c, the
   pieces that C shares with C++ and assembly. */
#include "table.h"

#include <math.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unwind.h>

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

static void feature_calls(void) {
    printf("%d %d %d %d\n", table[0](-3), table[1](4), *inside[0], inside[1][1]);
    for (int i = 0; i < 8; i += 2) fprintf(stdout, "%s ", name(i));
    zeroed[sizeof zeroed - 1] = 7;
    printf("%s %d %d\n", name(1000), zeroed[0] + zeroed[sizeof zeroed - 1], (int)((unsigned long)zeroed % 4096));
}

/* What runs at start, in order, with what assembly has in arrays of its own. */
__attribute__((constructor)) static void plain_start(void) { note_letter('s'); }
__attribute__((constructor(200))) static void early_start(void) { note_letter('e'); }
static void feature_start(void) { puts(letters); }

/* What runs at the end, in order; handlers are of this program's handle. */
extern void *__dso_handle;
int __cxa_atexit(void (*function)(void *), void *argument, void *handle);
__attribute__((destructor)) static void plain_end(void) { end_letter('p'); }
__attribute__((destructor(200))) static void late_end(void) { end_letter('r'); }
static void handler(void) { end_letter('h'); }
static void handler_of(void *letter) { end_letter((int)(long)letter); }
void handle_other(void);
static void feature_end(void) {
    watch_end = 1;
    atexit(handler);
    __cxa_atexit(handler_of, (void *)'c', &__dso_handle);
    handle_other();
    atexit(handler);
    puts("end:");
}

/* Weak symbols: of two definitions, of one, of none. */
int weak_here(void) __attribute__((weak));
int weak_here(void) { return 1; }
int weak_data __attribute__((weak)) = 2;
int weak_of_both(void) __attribute__((weak));
int weak_of_both(void) { return 2; }
extern int nowhere(void) __attribute__((weak));
extern int nothing __attribute__((weak));
static int (*const kept_nowhere)(void) = nowhere;
static void feature_weak(void) {
    printf("%d %d %d %d\n", weak_here(), weak_of_both(), weak_data, call_weak_both());
    printf("%d %d %d\n", nowhere != NULL, &nothing != NULL, kept_nowhere != NULL);
}

/* Common symbols: tentative definitions of C, besides those of assembly. */
int tentative __attribute__((common));
long tentative_array[100] __attribute__((common));
extern int plain_tentative[20];
int *of_tentative(void);
static void commons(void) {
    feature_common();
    tentative = 5;
    tentative_array[99] = 6;
    printf("%d %d %d\n", of_tentative()[0], of_tentative()[1], ++plain_tentative[19]);
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
static void sort(void *numbers) { qsort(numbers, 3, sizeof(int), compare); }
void through_other(void (*function)(void *), void *argument);
static void feature_unwind(void) {
    int numbers[] = {3, 1, 2};
    through_other(sort, numbers);
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
static void feature_locals(void) {
    bump(NULL);
    pthread_t thread;
    pthread_create(&thread, NULL, bump, NULL);
    pthread_join(thread, NULL);
    bump(NULL);
}

/* What is to be done when a thread ends, for its thread-locals. */
int __cxa_thread_atexit_impl(void (*function)(void *), void *argument, void *handle);
static void gone(void *local) { printf("gone %d\n", ++*(int *)local); }
static void *end_with(void *unused) {
    own = 100;
    __cxa_thread_atexit_impl(gone, &own, &__dso_handle);
    __cxa_thread_atexit_impl(gone, &own, &__dso_handle);
    return unused;
}
static void feature_ends(void) {
    pthread_t thread;
    pthread_create(&thread, NULL, end_with, NULL);
    pthread_join(thread, NULL);
    end_with(NULL);
    puts("the last word");
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
static void feature_threads(void) {
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
static void feature_numbers(void) {
    volatile double x = 0.7;
    long double wide = x * 1.1L;
    double all = sum(12, 1.5, 2, 3.5, 4, 5.5, 6, 7.5, 8, 9.5, 10, 11.5, 12);
    printf("%a %.15g %.15Lg %.12f\n", all, exp(x), wide, tgamma(x));
}

/* Functions that choose their implementation at start. GNU ld cannot link calls of them that are compiled for the large
   code model. */
static int chosen_here(int x) { return x * 3; }
void *choose(void) { return (void *)chosen_here; }
int own_choice(int x) __attribute__((ifunc("choose")));
int choice_of_other(int x);
static int (*const volatile choices[])(int) = {own_choice, choice_of_other};
static void feature_ifunc(void) {
    printf("%d %d\n", choices[0](3), choices[1](4));
#if !defined __code_model_large__ && !defined __AARCH64_CMODEL_LARGE__
    printf("%d %d %d %d\n", own_choice(1), choice_of_other(2), call_choice(3), choices[1] == choice_of_other);
#endif
}

#define ENTRY(name) {#name, feature_##name},
static const struct {
    const char *name;
    void (*run)(void);
} features[] = {{"common", commons}, FEATURES_OF_BOTH(ENTRY) ENTRY(calls) ENTRY(start) ENTRY(end) ENTRY(weak)
                    ENTRY(unwind) ENTRY(locals) ENTRY(ends) ENTRY(threads) ENTRY(numbers) ENTRY(ifunc)};

int main(int argc, char **argv) {
    for (unsigned i = 0; i < sizeof features / sizeof *features; i++) {
        if (argc > 1 && !strcmp(argv[1], features[i].name)) {
            features[i].run();
            return 40 + i;
        }
    }
    return 1;
}
