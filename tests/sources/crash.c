/* Ends in the way its first argument says, after a line on standard output that says so; `deaf` blocks every
   signal first and then runs for ever, `wait` ends with its standard input. */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static volatile int *volatile target = (int *)0xdadbeef;
static volatile int zero;

__attribute__((noinline)) void store_to_nowhere(void) { *target = 1; }
static const int constant = 1;
static const int *volatile of_constant = &constant;
__attribute__((noinline)) static void store_to_constant(void) { *(int *)of_constant = 2; }
__attribute__((noinline)) static void static_store(void) {
    *target = 2;
    zero = 1;
}
__attribute__((noinline)) static int divide(int by) {
    volatile int quotient = 7 / by;
    /* Not each processor traps. */
    if (!quotient) raise(SIGFPE);
    return quotient;
}
__attribute__((noinline)) void give_up(void) { abort(); }
__attribute__((noinline)) unsigned overflow_stack(unsigned depth) {
    volatile char frame[1024];
    frame[depth % 1024] = 1;
    if (zero) return depth;
    unsigned below = overflow_stack(depth + 1);
    return below + frame[(depth + 1) % 1024];
}
__attribute__((noinline)) void trap(void) { __builtin_trap(); }
__attribute__((noinline)) void past_end_of_file(void) {
    int file = memfd_create("short", 0);
    volatile char *bytes = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    bytes[100] = 1;
}
__attribute__((noinline)) void call_null(void) {
    void (*volatile nothing)(void) = NULL;
    nothing();
    zero = 1;
}
__attribute__((noinline)) void spin(void) {
    while (!zero) continue;
}
__attribute__((noinline)) void write_to_closed_pipe(void) {
    int ends[2];
    if (pipe(ends) == 0) close(ends[0]);
    zero = (int)write(ends[1], "x", 1);
}
static void leave_with_5(int signal_number) { _exit(signal_number == SIGINT ? 5 : 6); }
static void *in_thread(void *function) {
    ((void (*)(void))function)();
    return NULL;
}
static void start_and_join(void (*function)(void)) {
    pthread_t thread;
    pthread_create(&thread, NULL, in_thread, (void *)function);
    pthread_join(thread, NULL);
}
static void overflow(void) { zero = (int)overflow_stack(0); }

int main(int argc, char **argv) {
    const char *how = argc > 1 ? argv[1] : "nothing";
    printf("%s\n", how);
    fflush(stdout);
    if (!strcmp(how, "store")) store_to_nowhere();
    if (!strcmp(how, "static-store")) static_store();
    if (!strcmp(how, "constant")) store_to_constant();
    if (!strcmp(how, "divide")) zero = divide(zero);
    if (!strcmp(how, "abort")) give_up();
    if (!strcmp(how, "stack")) overflow();
    if (!strcmp(how, "thread-stack")) start_and_join(overflow);
    if (!strcmp(how, "thread-store")) start_and_join(store_to_nowhere);
    if (!strcmp(how, "trap")) trap();
    if (!strcmp(how, "bus")) past_end_of_file();
    if (!strcmp(how, "call-null")) call_null();
    if (!strcmp(how, "spin")) spin();
    if (!strcmp(how, "sleep")) pause();
    if (!strcmp(how, "kill")) raise(SIGKILL);
    if (!strcmp(how, "terminate")) raise(SIGTERM);
    if (!strcmp(how, "pipe")) write_to_closed_pipe();
    if (!strcmp(how, "_exit")) _exit(3);
    if (!strcmp(how, "exit")) exit(atoi(argv[2]));
    if (!strcmp(how, "wait")) return getchar() == EOF ? 0 : 9;
    if (!strcmp(how, "interrupted")) {
        signal(SIGINT, leave_with_5);
        puts("handles SIGINT");
        fflush(stdout);
        for (;;) pause();
    }
    if (!strcmp(how, "deaf")) {
        sigset_t all;
        sigfillset(&all);
        sigprocmask(SIG_BLOCK, &all, NULL);
        puts("deaf now");
        fflush(stdout);
        spin();
    }
    return 0;
}
