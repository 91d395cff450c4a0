/* What a service manager tells the process that it has started. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(void) {
    static const char *const names[] = {"LISTEN_PID", "WATCHDOG_PID"};
    for (int at = 0; at < 2; at++) {
        const char *number = getenv(names[at]);
        printf("%s: %s\n", names[at], number && atoi(number) == getpid() ? "this process" : "another one");
    }
    printf("%s sockets, the first is %s\n", getenv("LISTEN_FDS"), fcntl(3, F_GETFD) >= 0 ? "open" : "closed");
    return 0;
}
