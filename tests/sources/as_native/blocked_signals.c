/* Signals that every thread of the program blocks: they wait for it, and nothing else takes them. */
#define _GNU_SOURCE
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static volatile sig_atomic_t handled;

static void note(int signal) { handled++; }

static void block(int signal) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, signal);
    sigprocmask(SIG_BLOCK, &set, NULL);
}

static void child(void) {
    signal(SIGCHLD, note);
    block(SIGCHLD);
    pid_t pid = fork();
    if (pid == 0)
        _exit(7);
    int status;
    waitpid(pid, &status, 0);
    nanosleep(&(struct timespec){0, 20000000}, NULL);
    sigset_t pending;
    sigpending(&pending);
    printf("child %d: handled %d, pending %d\n", WEXITSTATUS(status), (int)handled, sigismember(&pending, SIGCHLD));
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    printf("unblocked: handled %d\n", (int)handled);
}

static void descriptor(void) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    block(SIGUSR1);
    int events = signalfd(-1, &set, 0);
    kill(getpid(), SIGUSR1);
    struct pollfd file = {events, POLLIN, 0};
    struct signalfd_siginfo info = {0};
    if (poll(&file, 1, 10000) == 1 && read(events, &info, sizeof info) == sizeof info)
        printf("descriptor: signal %u\n", info.ssi_signo);
}

static void waiting(void) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    block(SIGTERM);
    kill(getpid(), SIGTERM);
    siginfo_t info;
    int got = sigtimedwait(&set, &info, &(struct timespec){10, 0});
    printf("waited: signal %d\n", got);
}

static void every_one(void) {
    sigset_t all, pending;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    int count = 0;
    for (int signal = 1; signal < 65; signal++) {
        int is_ignored = signal == SIGCHLD || signal == SIGURG || signal == SIGWINCH || signal == SIGCONT;
        int stops = signal == SIGTSTP || signal == SIGTTIN || signal == SIGTTOU;
        if (signal == SIGKILL || signal == SIGSTOP || is_ignored || stops || (signal >= 32 && signal < SIGRTMIN))
            continue;
        kill(getpid(), signal);
        sigpending(&pending);
        if (sigismember(&pending, signal) == 1)
            count++;
        else
            printf("signal %d does not wait\n", signal);
    }
    printf("%d signals wait\n", count);
    while (sigtimedwait(&all, NULL, &(struct timespec){0, 0}) > 0)
        ;
}

int main(void) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    child();
    descriptor();
    waiting();
    every_one();
    return 0;
}
