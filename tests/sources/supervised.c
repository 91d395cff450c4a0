/* Ten ways to end a process, and functions that need what a host has put into it. */
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern double rate(double amount); /* a handler of the host */

static long calls;
static volatile long zero;

long count_calls(void) { return ++calls; }

double with_rate(double amount) { return amount + rate(amount); }

long sum(const long *numbers, long count) {
    long sum = 0;
    for (long at = 0; at < count; at++)
        sum += numbers[at];
    return sum;
}

static volatile long deep;

static long recurse(long depth) {
    volatile char page[4096];
    page[0] = (char)depth;
    deep = depth;
    return recurse(depth + 1) + page[0];
}

static void *trap(void *unused) {
    (void)unused;
    __builtin_trap();
}

/* Returns `kind` if it is none of the ten. */
long crash(long kind) {
    pthread_t thread;
    switch (kind) {
    case 0: return *(volatile long *)8;
    case 1: __builtin_trap();
    case 2: abort();
    case 3: return 100 / zero;
    case 4: return recurse(0);
    case 5: exit(7);
    case 6: _exit(0);
    case 7: kill(getpid(), SIGKILL); pause();
    case 8: pthread_create(&thread, NULL, trap, NULL); pause();
    case 9: ((void (*)(void))"not code")();
    }
    return kind;
}

void spin(void) {
    for (;;)
        deep++;
}
