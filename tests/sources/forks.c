/* A program that forks: the child leaves with its own status, by _exit and by exit with buffered output. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static void report(const char *what, pid_t child) {
    int status = 0;
    waitpid(child, &status, 0);
    printf("%s: exited %d, status %d\n", what, WIFEXITED(status), WEXITSTATUS(status));
    fflush(stdout);
}

int main(void) {
    pid_t child = fork();
    if (child == 0) _exit(3);
    report("_exit", child);
    child = fork();
    if (child == 0) {
        printf("printed by the child\n");
        exit(4);
    }
    report("exit", child);
    printf("system: %d\n", WEXITSTATUS(system("exit 5")));
    return 6;
}
