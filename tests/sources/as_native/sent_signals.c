/* A signal of a fault that a process sends. */
#include <signal.h>
#include <string.h>
#include <unistd.h>

int main(int count, char **arguments) {
    const char *how = count > 1 ? arguments[1] : "";
    if (strcmp(how, "raise") == 0)
        raise(SIGSEGV);
    if (strcmp(how, "kill") == 0)
        kill(getpid(), SIGSEGV);
    if (strcmp(how, "queue") == 0)
        sigqueue(getpid(), SIGSEGV, (union sigval){.sival_int = 0x1234});
    if (strcmp(how, "fault") == 0)
        *(volatile int *)0 = 1;
    return 0;
}
