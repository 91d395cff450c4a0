/* What a program may do with its process, as its first argument says. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static void quickly(void) {
    puts("at_quick_exit");
    fflush(stdout);
}
static void never(void) { puts("atexit handlers do not run"); }

static void *forever(void *argument) {
    for (;;) pause();
    return argument;
}
static void *outlive_main(void *first_thread) {
    pthread_join(*(pthread_t *)first_thread, NULL);
    puts("the first thread has ended");
    return NULL;
}

/* Signals apart from those that report a crash, the mask, the limits, and what else is inherited. */
static void describe(void) {
    static const int of_crashes[] = {SIGILL, SIGTRAP, SIGABRT, SIGBUS, SIGFPE, SIGSEGV, SIGSYS};
    for (int number = 1; number < 32; number++) {
        int skip = 0;
        for (int i = 0; i < 7; i++) skip |= of_crashes[i] == number;
        struct sigaction action;
        if (skip || sigaction(number, NULL, &action)) continue;
        printf("signal %d: default %d\n", number, action.sa_handler == SIG_DFL);
    }
    sigset_t mask;
    sigprocmask(SIG_BLOCK, NULL, &mask);
    for (int number = 1; number < 65; number++)
        if (sigismember(&mask, number) == 1) printf("blocked %d\n", number);
    for (int which = 0; which < 16; which++) {
        struct rlimit limit;
        getrlimit(which, &limit);
        printf("limit %d: %lu %lu\n", which, limit.rlim_cur, limit.rlim_max);
    }
    char folder[4096];
    printf("folder %s\n", getcwd(folder, sizeof folder));
    printf("umask %o, nice %d, group %d\n", umask(0), getpriority(PRIO_PROCESS, 0), getpgrp());
}

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "nothing";
    printf("%s\n", what);
    fflush(stdout);
    if (!strcmp(what, "describe")) describe();
    if (!strcmp(what, "execute")) execlp("sh", "sh", "-c", "echo from the shell; exit 9", (char *)NULL);
    if (!strcmp(what, "wait")) {
        int child = wait(NULL);
        printf("no child of its own: %d %d\n", child, errno == ECHILD);
    }
    if (!strcmp(what, "close")) {
        for (int file = 3; file < 1024; file++) close(file);
    }
    if (!strcmp(what, "threads-left")) {
        pthread_t thread;
        for (int i = 0; i < 3; i++) pthread_create(&thread, NULL, forever, NULL);
    }
    if (!strcmp(what, "first-thread-ends")) {
        static pthread_t self, thread;
        self = pthread_self();
        pthread_create(&thread, NULL, outlive_main, &self);
        pthread_exit(NULL);
    }
    if (!strcmp(what, "quick")) {
        at_quick_exit(quickly);
        atexit(never);
        quick_exit(6);
    }
    return 4;
}
