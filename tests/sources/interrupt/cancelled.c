/* Loops whose turns another thread sees, and calls that count themselves. */
#include <pthread.h>
#include <signal.h>

static volatile long turns, counted;

void spin(void) {
    for (;;)
        turns = turns + 1;
}

/* Cannot be interrupted. */
void spin_deaf(void) {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, 0);
    spin();
}

long turns_so_far(void) { return turns; }

long count(long number) {
    counted = counted + 1;
    return number;
}

long counted_so_far(void) { return counted; }
