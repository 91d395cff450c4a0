/* Ways to end a process, and functions that need what a host has put into it. */
#include "ten_deaths.h"

extern double rate(double amount); /* a handler of the host */

static long calls;

long count_calls(void) { return ++calls; }

double with_rate(double amount) { return amount + rate(amount); }

long sum(const long *numbers, long count) {
    long sum = 0;
    for (long at = 0; at < count; at++)
        sum += numbers[at];
    return sum;
}

void spin(void) {
    for (;;)
        deep++;
}

long turns_so_far(void) { return deep; }

/* Cannot be interrupted. */
void spin_deaf(void) {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, 0);
    spin();
}
