/* What the process has from whatever started it: descriptors, and what becomes of signals that do not crash it. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>

int main(void) {
    for (int descriptor = 0; descriptor < 256; descriptor++)
        if (fcntl(descriptor, F_GETFD) >= 0)
            printf("descriptor %d\n", descriptor);
    static const int signals[] = {SIGHUP, SIGINT, SIGQUIT, SIGPIPE, SIGALRM, SIGTERM, SIGUSR1, SIGUSR2, SIGCHLD, SIGXFSZ, SIGWINCH};
    for (unsigned at = 0; at < sizeof signals / sizeof *signals; at++) {
        struct sigaction action;
        sigaction(signals[at], NULL, &action);
        const char *what = action.sa_handler == SIG_DFL ? "default" : action.sa_handler == SIG_IGN ? "ignored" : "handled";
        printf("signal %d: %s\n", signals[at], what);
    }
    return 0;
}
