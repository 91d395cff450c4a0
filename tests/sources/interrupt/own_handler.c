/* A program that uses the signal itself. */
#include <signal.h>

static volatile long signals;

static void on_signal(int number) { signals = signals + (number == SIGURG); }

void handle(void) { signal(SIGURG, on_signal); }

/* Sends the signal, and returns how often it has come so far. */
long handled(void) {
    raise(SIGURG);
    return signals;
}
