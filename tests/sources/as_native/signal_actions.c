/* The actions of signals as a program finds, changes and restores them. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

static const int signals[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP, SIGABRT, SIGSYS, SIGUSR1};
enum { COUNT = sizeof signals / sizeof *signals };

static sigjmp_buf back;

static void jump(int signal) { siglongjmp(back, signal); }

static const char *name(void (*handler)(int)) {
    return handler == SIG_DFL ? "default" : handler == SIG_IGN ? "ignored" : handler == jump ? "own" : handler == SIG_ERR ? "error" : "other";
}

static void show(const char *when) {
    for (int at = 0; at < COUNT; at++) {
        struct sigaction action;
        memset(&action, 0x55, sizeof action);
        sigaction(signals[at], NULL, &action);
        printf("%s, %d: %s, flags %#x, %d blocked\n", when, signals[at], name(action.sa_handler), action.sa_flags & ~0x04000000,
               sigisemptyset(&action.sa_mask) ? 0 : 1);
    }
}

int main(int count, char **arguments) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    show("at the start");
    for (int at = 0; at < COUNT; at++) {
        struct sigaction action = {.sa_handler = jump, .sa_flags = SA_NODEFER}, before;
        sigaction(signals[at], &action, &before);
        printf("%d was %s\n", signals[at], name(before.sa_handler));
        int caught = sigsetjmp(back, 1);
        if (caught == 0)
            raise(signals[at]);
        printf("caught %d\n", caught);
        sigaction(signals[at], &before, &action);
        printf("%d was %s\n", signals[at], name(action.sa_handler));
    }
    show("restored");
    for (int at = 0; at < COUNT; at++) {
        void (*first)(int) = signal(signals[at], jump);
        void (*second)(int) = signal(signals[at], SIG_IGN);
        void (*third)(int) = sysv_signal(signals[at], jump);
        void (*fourth)(int) = signal(signals[at], SIG_DFL);
        void (*last)(int) = sysv_signal(signals[at], SIG_DFL);
        printf("%d: %s, %s, %s, %s, %s\n", signals[at], name(first), name(second), name(third), name(fourth), name(last));
    }
    show("at the end");
    printf("%s\n", name(signal(SIGKILL, SIG_DFL)));
    printf("%s\n", name(signal(999, jump)));
    if (count > 1)
        *(volatile int *)0x40 = 1;
    return 0;
}
