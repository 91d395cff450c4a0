/* Ten ways to end a process. */
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

static volatile long zero, deep;

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

/* Not each processor traps. */
static long divide(void) {
    volatile long quotient = 100 / zero;
    if (!quotient) raise(SIGFPE);
    return quotient;
}

/* Returns `kind` if it is none of the ten. */
long crash(long kind) {
    pthread_t thread;
    switch (kind) {
    case 0: return *(volatile long *)8;
    case 1: __builtin_trap();
    case 2: abort();
    case 3: return divide();
    case 4: return recurse(0);
    case 5: exit(7);
    case 6: _exit(0);
    case 7: kill(getpid(), SIGKILL); pause();
    case 8: pthread_create(&thread, NULL, trap, NULL); pause();
    case 9: ((void (*)(void))"not code")();
    }
    return kind;
}
