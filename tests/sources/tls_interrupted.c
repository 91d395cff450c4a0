/* Thread-locals that are used first in signal handlers, which interrupt the allocator and the start of threads as well,
   while the process forks; a child goes on with threads of its own. */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MAKERS = 3, THREADS = 4, CHILDREN = 150 };

_Thread_local char large[100000];
_Thread_local long value = 7;
static _Thread_local int hits;
static volatile int stop;

static void handle(int signal) {
    (void)signal;
    large[++hits % 50000]++;
}

static void *work(void *argument) {
    if (value != 7) abort();
    value++;
    memset(large + 50000, 1, 1000);
    free(malloc(1000));
    return argument;
}

static void start_and_join(int count) {
    pthread_t threads[THREADS];
    for (int i = 0; i < count; i++) pthread_create(&threads[i], NULL, work, NULL);
    for (int i = 0; i < count; i++) pthread_join(threads[i], NULL);
}

static void *make(void *argument) {
    while (!stop) start_and_join(THREADS);
    return argument;
}

int main(void) {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = handle;
    action.sa_flags = SA_RESTART;
    sigaction(SIGPROF, &action, NULL);
    struct itimerval often = {{0, 200}, {0, 200}}, never = {{0, 0}, {0, 0}};
    setitimer(ITIMER_PROF, &often, NULL);
    pthread_t makers[MAKERS];
    for (int i = 0; i < MAKERS; i++) pthread_create(&makers[i], NULL, make, NULL);
    int right = 0;
    for (int i = 0; i < CHILDREN; i++) {
        pid_t child = fork();
        if (child == 0) {
            start_and_join(2);
            _exit(9);
        }
        int status = 0;
        waitpid(child, &status, 0);
        right += WIFEXITED(status) && WEXITSTATUS(status) == 9;
    }
    stop = 1;
    for (int i = 0; i < MAKERS; i++) pthread_join(makers[i], NULL);
    setitimer(ITIMER_PROF, &never, NULL);
    printf("%d\n", right);
    return 0;
}
