/* Loops in C, waits that tell whether a signal has cut them short, and a variable that outlives interrupts. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <time.h>

static volatile long counter, kept;

void spin(void) {
    for (;;)
        counter = counter + 1;
}

long turns(void) { return counter; }

long count(void) { return kept = kept + 1; }

long counted(void) { return kept; }

static void *ends(void *nothing) { return nothing; }

/* Starts threads, which end, and does not return. */
void spin_behind(long threads) {
    for (pthread_t thread; threads > 0; threads--) {
        pthread_create(&thread, 0, ends, 0);
        pthread_join(thread, 0);
    }
    spin();
}

static long now_us(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

/* Returns by itself. */
long busy(long us) {
    long end = now_us() + us;
    while (now_us() < end)
        counter = counter + 1;
    return us;
}

/* 0, or the error of the wait: EINTR if a signal has ended it. */
long rest(long us) {
    struct timespec time = {us / 1000000, us % 1000000 * 1000};
    return nanosleep(&time, 0) ? errno : 0;
}
