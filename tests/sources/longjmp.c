/* setjmp and longjmp, also out of a callback that libc called, and out of a signal handler. */
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

static jmp_buf plain;
static sigjmp_buf from_signal;
static volatile int *volatile nowhere = (int *)16;

__attribute__((noinline)) static void dive(int depth) {
    if (depth > 0) dive(depth - 1);
    longjmp(plain, 3);
}
static int jump_out(const void *a, const void *b) {
    (void)a, (void)b;
    longjmp(plain, 4);
}
static void handler(int signal_number) { siglongjmp(from_signal, signal_number); }

int main(void) {
    volatile int rounds = 0;
    int code = setjmp(plain);
    rounds++;
    printf("round %d, code %d\n", rounds, code);
    if (code == 0) dive(20);
    if (code == 3) {
        int numbers[3] = {3, 2, 1};
        qsort(numbers, 3, sizeof *numbers, jump_out);
    }
    struct sigaction action = {0};
    action.sa_handler = handler;
    sigaction(SIGUSR1, &action, NULL);
    sigaction(SIGSEGV, &action, NULL);
    int caught = sigsetjmp(from_signal, 1);
    if (caught == 0) raise(SIGUSR1);
    if (caught == SIGUSR1) {
        printf("caught SIGUSR1\n");
        *nowhere = 1;
    }
    printf("caught %s\n", caught == SIGSEGV ? "SIGSEGV" : "something else");
    return 0;
}
